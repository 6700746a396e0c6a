// Accounts, crontabs and uci files are changed in place, and what is not ours
// stays.
package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// accountRoot is a system of its own with the account files.
func accountRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	writeFiles(t, root, map[string]string{
		"etc/passwd":     "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000:Ann,1:/home/ann:/bin/sh\n",
		"etc/shadow":     "root:*:19000:0:99999:7:::\nann:$6$x:19000:0:99999:7:::\n",
		"etc/group":      "root:x:0:\nusers:x:100:ann,bob\nann:x:1000:\nstaff:x:50:ann\n",
		"etc/gshadow":    "root:*::\nusers:*::ann,bob\nann:!::\nstaff:*::ann\n",
		"etc/skel/.prof": "hello\n",
	})
	return root
}

func lineOf(t *testing.T, path, name string) string {
	t.Helper()
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(p), "\n") {
		if strings.HasPrefix(line, name+":") {
			return line
		}
	}
	return ""
}

func TestAccountsAreMadeAndRemovedInTheFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("homes are given to users: that needs root")
	}
	root, ctx := accountRoot(t), context.Background()
	err := addAccount(ctx, root, newAccount{name: "eve", unique: true, createHome: true, ownGroup: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := lineOf(t, root+"/etc/passwd", "eve"); got != "eve:x:1001:1001::/home/eve:/bin/sh" {
		t.Errorf("passwd has %q", got)
	}
	if got := lineOf(t, root+"/etc/group", "eve"); got != "eve:x:1001:" {
		t.Errorf("group has %q", got)
	}
	if got := lineOf(t, root+"/etc/shadow", "eve"); !strings.HasPrefix(got, "eve:!:") {
		t.Errorf("shadow has %q", got)
	}
	if _, err := os.Stat(filepath.Join(root, "home/eve/.prof")); err != nil {
		t.Errorf("the home has nothing of skel: %v", err)
	}
	if err := addAccount(ctx, root, newAccount{name: "eve", unique: true}); err == nil {
		t.Error("a name was given twice")
	}
	if err := addAccount(ctx, root, newAccount{name: "two", uid: "1001", unique: true}); err == nil {
		t.Error("a number was given twice")
	}
	for _, bad := range []string{"", "a:b", "a\nb", "-x", "a/b"} {
		if err := addAccount(ctx, root, newAccount{name: bad, unique: true}); err == nil {
			t.Errorf("the name %q was taken", bad)
		}
	}
	if err := removeAccount(ctx, root, "eve", true); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"passwd", "shadow", "group", "gshadow"} {
		if got := lineOf(t, root+"/etc/"+file, "eve"); got != "" {
			t.Errorf("%s still has %q", file, got)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "home/eve")); err == nil {
		t.Error("the home is still there")
	}
}

func TestGroupsOfAnAccountChangeInBothFiles(t *testing.T) {
	root, ctx := accountRoot(t), context.Background()
	if err := setSupplementary(ctx, root, "ann", []string{"staff", "root"}, false); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]string{"group": {"users:x:100:bob", "staff:x:50:ann", "root:x:0:ann"}, "gshadow": {"users:*::bob", "root:*::ann"}} {
		for _, line := range want {
			name, _, _ := strings.Cut(line, ":")
			if got := lineOf(t, root+"/etc/"+file, name); got != line {
				t.Errorf("%s: got %q, want %q", file, got, line)
			}
		}
	}
	if err := setSupplementary(ctx, root, "ann", []string{"nosuch"}, true); err == nil {
		t.Error("a group that does not exist was taken")
	}
	if err := renameAccount(ctx, root, "ann", "anna"); err != nil {
		t.Fatal(err)
	}
	if got := lineOf(t, root+"/etc/group", "staff"); got != "staff:x:50:anna" {
		t.Errorf("after the new name: %q", got)
	}
	if lineOf(t, root+"/etc/shadow", "anna") == "" || lineOf(t, root+"/etc/passwd", "ann") != "" {
		t.Error("the new name is not everywhere")
	}
}

func TestShadowFieldsAreSetInTheFile(t *testing.T) {
	root, ctx := accountRoot(t), context.Background()
	c := NewCall(&Env{Opts: DefaultMinionOptions(), Grains: NewMap("kernel", "Linux"), Pillar: NewMap(), Log: NewLogger(os.Stderr, "quiet")}, "", "", nil)
	for _, s := range []struct {
		key   string
		field int
		value any
		want  any
	}{{"max", 4, int64(90), int64(90)}, {"inact", 6, int64(5), int64(5)}, {"expire", 7, "2030-01-01", int64(21915)}, {"expire", 7, int64(-1), int64(-1)}} {
		if _, err := shadowSetter(s.key, s.field, false)(ctx, c, shadowFieldArgs{"ann", s.value, root}); err != nil {
			t.Fatal(err)
		}
		if got := infoOfShadow(root, "ann").Value(s.key); !Equal(got, s.want) {
			t.Errorf("%s: got %s, want %s", s.key, Repr(got), Repr(s.want))
		}
	}
	if v, _ := shadowSetter("max", 4, true)(ctx, c, shadowFieldArgs{"ann", "soon", root}); v != false {
		t.Error("a text that is no number was taken")
	}
	if _, err := shadowLockPassword(ctx, c, userRootArgs{"ann", root}); err != nil {
		t.Fatal(err)
	}
	if got := infoOfShadow(root, "ann").Str("passwd"); got != "!$6$x" {
		t.Errorf("locked: %q", got)
	}
	if _, err := shadowUnlockPassword(ctx, c, userRootArgs{"ann", root}); err != nil {
		t.Fatal(err)
	}
	if got := infoOfShadow(root, "ann").Str("passwd"); got != "$6$x" {
		t.Errorf("unlocked: %q", got)
	}
}

func TestCronTabsKeepWhatIsNotOurs(t *testing.T) {
	text := "MAILTO=root\n# mine\n0 0 * * * old\n" + cronTag + "\nA=b\n# say SALT_CRON_IDENTIFIER:x1\n*/5 * * * * /bin/a b  c\n#DISABLED#1 2 3 4 5 /bin/off\n@hourly /bin/h\n"
	tab := parseCron(text)
	if got := tab.text(); got != text {
		t.Errorf("written as %q, want %q", got, text)
	}
	wantEqual(t, "job", tab.crons[0], NewMap("minute", "*/5", "hour", "*", "daymonth", "*", "month", "*", "dayweek", "*", "identifier", "x1",
		"cmd", "/bin/a b  c", "comment", "say", "commented", false))
	if !Equal(tab.crons[1].Value("commented"), true) {
		t.Error("the disabled job is not known as such")
	}
	if !cronMatches(tab.crons[0], "/bin/other", "x1") || cronMatches(tab.crons[0], "/bin/a b  c", "x2") || !cronMatches(tab.crons[1], "/bin/off", nil) {
		t.Error("entries are not found as they should be")
	}
}

// What uci itself makes of such files.
func TestUciReadsWhatUciReads(t *testing.T) {
	for text, want := range map[string]string{
		"c interface lan\no a \"x\\\"y\"\n l b 1 # why\n\tlist b 'two\nlines'": "\nconfig interface 'lan'\n\toption a 'x\"y'\n\tlist b '1'\n\tlist b 'two\nlines'\n\n",
		"config rule r\n option a line\\\nbreak; option b c#d\n option a ''":   "\nconfig rule 'r'\n\toption b 'c'\n\n",
		"package x\nconfig z q\noption a 1\nconfig y\nconfig z q\noption a 2":  "\nconfig z 'q'\n\toption a '2'\n\nconfig y\n\n",
		"config z\noption a 1\nlist a 2":                                       "\nconfig z\n\tlist a '1'\n\tlist a '2'\n\n",
	} {
		sections, err := parseUci(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got := uciText(sections); got != want {
			t.Errorf("%q is read as %q, want %q", text, got, want)
		}
	}
	for _, bad := range []string{"config a b-c", "config a b c", "config a\noption x-y 1", "config a\noption x 1 2", "option x 1", "config a b\nconfig c b", "config", "conf a", "config a 'b", "package a.b"} {
		if _, err := parseUci(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestUciFilesAreReadAndWritten(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"network": "# c\nconfig interface 'lan'\n\toption proto static\n\tlist dns '1.1.1.1'\n\tlist dns \"8.8.8.8\"\n\nconfig route\n\toption target '10.0.0.0/8'\n"})
	ctx := context.Background()
	get := func(path string) any {
		v, err := uciGet(ctx, nil, uciPathArgs{path, dir})
		if err != nil {
			t.Fatal(err)
		}
		return FromGo(v)
	}
	wantEqual(t, "list", get("network.lan.dns"), NewList("1.1.1.1", "8.8.8.8"))
	wantEqual(t, "section without a name", get("network.@route[-1].target"), "10.0.0.0/8")
	wantEqual(t, "nothing", get("network.wan"), nil)
	if _, err := uciSet(ctx, nil, uciValueArgs{"network.lan.ipaddr", "it's 'me'", dir}); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "quotes", get("network.lan.ipaddr"), "it's 'me'")
	name, err := uciAdd(ctx, nil, uciAddArgs{"network", "route", dir, NewMap("target", "::/0")})
	if err != nil || name != "@route[1]" {
		t.Errorf("add: %v, %v", name, err)
	}
	if v, err := uciDelList(ctx, nil, uciValueArgs{"network.lan.dns", "8.8.8.8", dir}); v != true || err != nil {
		t.Errorf("del_list: %v, %v", v, err)
	}
	if v, err := uciDelete(ctx, nil, uciPathArgs{"network.@route[0]", dir}); v != true || err != nil {
		t.Errorf("delete: %v, %v", v, err)
	}
	wantEqual(t, "what is left", get("network"), NewMap("lan", NewMap(".type", "interface", "proto", "static", "dns", NewList("1.1.1.1"), "ipaddr", "it's 'me'"),
		"@route[0]", NewMap(".type", "route", "target", "::/0")))
	for _, bad := range []string{"option a b", "config", "config a 'b", "nonsense x"} {
		if _, err := parseUci(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if _, err := uciSet(ctx, nil, uciValueArgs{"network.lan.x\n", "1", dir}); err == nil {
		t.Error("a name with a line break was taken")
	}
	writeFiles(t, dir, map[string]string{"system": "config system\n\toption hostname 'old'\n\toption zonename 'UTC'\n"})
	if err := setUciHostname(dir, "new"); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "host name", get("system.@system[0].hostname"), "new")
	if _, err := readUci(dir, "../x", false); err == nil {
		t.Error("a package above the directory was taken")
	}
}
