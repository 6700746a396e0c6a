// The file server gives what lies under its roots and nothing else.
package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// writeTree makes files below a directory; a name that ends in / is a directory,
// a content that starts with -> a link.
func writeTree(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch {
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(full, 0o755)
		case strings.HasPrefix(content, "->"):
			err = os.Symlink(content[2:], full)
		default:
			err = os.WriteFile(full, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func rootsServer(t testing.TB, dir string, kv ...any) *RootsFileServer {
	t.Helper()
	o := masterTestOptions(dir, kv...)
	if !NewMap(kv...).Has("file_roots") {
		o.Set("file_roots", NewMap("base", NewList(filepath.Join(dir, "one"), filepath.Join(dir, "two"))))
	}
	return NewRootsFileServer(o, logNowhere())
}

func contentOf(t testing.TB, s *RootsFileServer, env, path string) string {
	t.Helper()
	f, err := s.Find(env, path)
	if err != nil {
		t.Fatal(err)
	}
	if f == nil {
		return "none"
	}
	file, err := s.Open(env, f)
	if err != nil {
		return "closed"
	}
	defer file.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(file); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestFilesAreServedFromTheirRootsOnly(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"secret": "secret", "one/a": "one", "two/a": "two", "two/b/c": "c", "one/out": "->../secret", "one/outdir": "->..",
		"one/abs": "->" + filepath.Join(dir, "secret"), "one/in": "->a", "one/absin": "->" + filepath.Join(dir, "one", "a"), "one/..x": "x",
	})
	if err := syscall.Mkfifo(filepath.Join(dir, "one", "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, follow := range []bool{true, false} {
		s := rootsServer(t, dir, "fileserver_followsymlinks", follow)
		beyond := map[bool]string{true: "secret", false: "none"}[follow]
		for path, want := range map[string]string{
			"a": "one", "b/c": "c", "b/../a": "one", "./a": "one", "..x": "x", "in": "one", "absin": "one",
			"": "none", ".": "none", "b": "none", "/a": "none", "../secret": "none", "b/../../secret": "none",
			"../one/../secret": "none", "a\x00": "none", "pipe": "none", "no": "none", filepath.Join(dir, "secret"): "none",
			"out": beyond, "abs": beyond, "outdir/secret": beyond,
		} {
			if got := contentOf(t, s, "base", path); got != want {
				t.Errorf("follow %v, %q: %s, want %s", follow, path, got, want)
			}
		}
		if got := contentOf(t, s, "prod", "a"); got != "none" {
			t.Errorf("unknown environment: %s", got)
		}
	}
}

// Between finding and opening somebody puts a link in the place of the file.
func TestFileThatBecomesALink(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"secret": "secret", "one/a": "one"})
	s := rootsServer(t, dir, "fileserver_followsymlinks", false)
	f, err := s.Find("base", "a")
	if err != nil || f == nil {
		t.Fatal(f, err)
	}
	os.Remove(f.Path)
	if err := os.Symlink("../secret", f.Path); err != nil {
		t.Fatal(err)
	}
	if file, err := s.Open("base", f); err == nil {
		file.Close()
		t.Error("the link was followed")
	}
}

func TestFileListsFollowTheDirectories(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"one/a": "1", "one/sub/b": "2", "two/a": "3", "two/c": "4", "one/empty/": "", "one/link": "->a", "one/loop": "->.", "one/out": "->../../x", "one/sub/x.swp": ""})
	old := time.Now().Add(-time.Hour)
	settle := func() {
		filepath.WalkDir(dir, func(p string, d os.DirEntry, _ error) error {
			if d.IsDir() {
				os.Chtimes(p, old, old)
			}
			return nil
		})
		old = old.Add(time.Minute)
	}
	settle()
	s := rootsServer(t, dir, "file_ignore_glob", NewList("*.swp"), "file_ignore_regex", NewList("^hidden"))
	check := func(what string, files, empty, dirs []string, links *Map) {
		t.Helper()
		gotFiles, _ := s.Files("base")
		gotEmpty, _ := s.EmptyDirs("base")
		gotDirs, _ := s.Dirs("base")
		gotLinks, _ := s.Links("base")
		if !slices.Equal(gotFiles, files) || !slices.Equal(gotEmpty, empty) || !slices.Equal(gotDirs, dirs) || !Equal(gotLinks, links) {
			t.Errorf("%s: files %q, empty %q, dirs %q, links %s", what, gotFiles, gotEmpty, gotDirs, Repr(gotLinks))
		}
	}
	links := NewMap("link", "a", "loop", ".")
	check("at first", []string{"a", "c", "link", "out", "sub/b"}, []string{"empty"}, []string{"empty", "loop", "sub"}, links)
	check("from memory", []string{"a", "c", "link", "out", "sub/b"}, []string{"empty"}, []string{"empty", "loop", "sub"}, links)
	writeTree(t, dir, map[string]string{"one/empty/new": "", "one/hidden": ""})
	settle()
	check("after a new file deep down", []string{"a", "c", "empty/new", "link", "out", "sub/b"}, nil, []string{"empty", "loop", "sub"}, links)
	os.Remove(filepath.Join(dir, "two", "c"))
	check("after a removal that just happened", []string{"a", "empty/new", "link", "out", "sub/b"}, nil, []string{"empty", "loop", "sub"}, links)
	os.RemoveAll(filepath.Join(dir, "two"))
	check("without a root", []string{"a", "empty/new", "link", "out", "sub/b"}, nil, []string{"empty", "loop", "sub"}, links)
	writeTree(t, dir, map[string]string{"two/d": ""})
	check("with the root again", []string{"a", "d", "empty/new", "link", "out", "sub/b"}, nil, []string{"empty", "loop", "sub"}, links)
}

func TestDynamicEnvironment(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"env/dev/a": "dev", "env/prod/a": "prod", "base/a": "base"})
	s := rootsServer(t, dir, "file_roots", NewMap("base", NewList(filepath.Join(dir, "base")), "__env__", NewList(filepath.Join(dir, "env", "__env__"))))
	for env, want := range map[string]string{"dev": "dev", "prod": "prod", "base": "base", "none": "none"} {
		if got := contentOf(t, s, env, "a"); got != want {
			t.Errorf("%s: %s", env, got)
		}
	}
}

func TestFilesOverTheWire(t *testing.T) {
	m := startMaster(t, "file_buffer_size", int64(1000))
	content := bytes.Repeat([]byte("0123456789\xff"), 250)
	writeTree(t, filepath.Join(m.dir, "srv"), map[string]string{"big": string(content), "nothing": ""})
	f := m.accepted(t, "m", 1)
	for _, level := range []int64{0, 6} {
		var got []byte
		for loc := 0; ; {
			out := f.call(t, "cmd", "_serve_file", "path", "big", "saltenv", "base", "loc", int64(loc), "gzip", level).(*Map)
			wantValue(t, "dest", out.Value("dest"), "big")
			data, _ := bytesOf(out.Value("data"))
			if len(data) == 0 {
				break
			}
			if level > 0 {
				data = []byte(gunzipped(t, out).(string))
			}
			if len(data) > 1000 {
				t.Fatalf("chunk of %d bytes", len(data))
			}
			got = append(got, data...)
			loc += len(data)
		}
		if !bytes.Equal(got, content) {
			t.Errorf("gzip %d: %d bytes came", level, len(got))
		}
	}
	wantValue(t, "empty file", f.call(t, "cmd", "_serve_file", "path", "nothing", "saltenv", "base", "loc", int64(0)), NewMap("data", "", "dest", "nothing"))
	for _, loc := range []any{int64(-1), "x", NewList(), int64(1) << 62} {
		out := f.call(t, "cmd", "_serve_file", "path", "big", "saltenv", "base", "loc", loc).(*Map)
		wantValue(t, "data at a strange place", out.Value("data"), "")
	}
	hash := func() any {
		return f.call(t, "cmd", "_file_hash", "path", "big", "saltenv", "base").(*Map).Value("hsum")
	}
	wantValue(t, "hash", hash(), fmt.Sprintf("%x", sha256.Sum256(content)))
	content[0] = 'X'
	writeTree(t, filepath.Join(m.dir, "srv"), map[string]string{"big": string(content)})
	wantValue(t, "hash after a change", hash(), fmt.Sprintf("%x", sha256.Sum256(content)))
	found := f.call(t, "cmd", "_file_find", "path", "big", "saltenv", "base").(*Map)
	wantValue(t, "found", found.Value("path"), filepath.Join(m.dir, "srv", "big"))
	wantValue(t, "size", found.List("stat").Items[6], int64(len(content)))
	for _, env := range []string{"..", "../base", "a/../..", "/"} {
		wantValue(t, env, f.call(t, "cmd", "_file_list", "saltenv", env, "prefix", ""), NewList())
		wantValue(t, env, f.call(t, "cmd", "_file_hash", "path", "big", "saltenv", env), "")
	}
}
