// Tests of differences from Salt that the comparison on a Debian found
// (COMPARED.md): each failed before it was mended.
package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestFindShowsDanglingLinks(t *testing.T) {
	c := moduleTestCall(t)
	dir := t.TempDir()
	if err := os.Symlink("nosuch", dir+"/dangling"); err != nil {
		t.Fatal(err)
	}
	checkCalls(t, c, []moduleCall{{"file.find", []any{dir}, []any{"type", "l"}, "['" + dir + "/dangling']"}})
}

func TestFindTimes(t *testing.T) {
	now := float64(time.Now().Unix())
	for _, tc := range []struct {
		text        string
		least, most float64 // ages; most -1: no limit
	}{
		{"1w", 604800, -1},
		{"+1d", 86400, -1},
		{"-2h", 0, 7200},
		{"1.5d", 86400, -1}, // whole units only
	} {
		oldest, newest, err := timeRange(tc.text)
		if err != nil {
			t.Fatalf("%s: %v", tc.text, err)
		}
		if math.IsInf(newest, 1) {
			newest = now
		}
		if age := now - newest; math.Abs(age-tc.least) > 2 {
			t.Errorf("%s: files of an age from %.0f on, want %.0f", tc.text, age, tc.least)
		}
		if tc.most >= 0 && math.Abs(now-oldest-tc.most) > 2 || tc.most < 0 && oldest != 0 {
			t.Errorf("%s: files of an age up to %.0f, want %.0f", tc.text, now-oldest, tc.most)
		}
	}
}

func TestUTF8Errors(t *testing.T) {
	for text, want := range map[string]string{
		"ok":           "",
		"a\xff":        "'utf-8' codec can't decode byte 0xff in position 1: invalid start byte",
		"a\xc3":        "'utf-8' codec can't decode byte 0xc3 in position 1: unexpected end of data",
		"ab\xe2\x82":   "'utf-8' codec can't decode bytes in position 2-3: unexpected end of data",
		"\xe2(\xa1":    "'utf-8' codec can't decode byte 0xe2 in position 0: invalid continuation byte",
		"\xed\xa0\x80": "'utf-8' codec can't decode byte 0xed in position 0: invalid continuation byte",
	} {
		if got := utf8Error([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Account files leave what they held under the name with a hyphen.
func TestAccountFilesKeepWhatTheyHeld(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(root+"/etc", 0o755); err != nil {
		t.Fatal(err)
	}
	const before = "al:!:1:0:99999:7:::\n"
	if err := os.WriteFile(root+"/etc/shadow", []byte(before), 0o640); err != nil {
		t.Fatal(err)
	}
	err := changeShadow(t.Context(), root, "al", false, func(f []string) { f[4] = "90" })
	if err != nil {
		t.Fatal(err)
	}
	checkFile(t, root+"/etc/shadow", "al:!:1:0:90:7:::\n")
	checkFile(t, root+"/etc/shadow-", before)
}

func TestKnownHostsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "known_hosts")
	const before = "one ssh-ed25519 AAAA\ntwo ssh-ed25519 BBBB\n"
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	dropped, err := dropKnown(path, "two", nil)
	if err != nil || len(dropped) != 1 || dropped[0] != 2 {
		t.Fatalf("dropped %v, %v; want line 2", dropped, err)
	}
	checkFile(t, path, "one ssh-ed25519 AAAA\n")
	checkFile(t, path+".old", before)
	if err := hashKnownNames(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !namesHost(string(text[:len(text)-len(" ssh-ed25519 AAAA\n")]), "one") || text[0] != '|' {
		t.Errorf("not hashed: %q, %v", text, err)
	}
}

// An archiver runs without a shell, and its words may be a template.
func TestArchiversNeedNoShell(t *testing.T) {
	if which("tar") == "" {
		t.Skip("needs tar")
	}
	c := moduleTestCall(t)
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/a", []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	checkCalls(t, c, []moduleCall{
		{"archive.tar", []any{"cf", dir + "/x.tar", "a"}, []any{"cwd", dir}, "[]"},
		{"archive.tar", []any{"tf", dir + "/x.tar"}, nil, "['a']"},
	})
}

func TestNamesAreNoNumbers(t *testing.T) {
	if _, ok := userByName("0"); ok {
		t.Error("user 0 was found by its number")
	}
	if _, ok := groupByName("0"); ok {
		t.Error("group 0 was found by its number")
	}
}
