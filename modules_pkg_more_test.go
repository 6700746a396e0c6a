// Tests of what providers of module pkg have beside the common functions: groups,
// advisories, patterns, feeds, and files that differ.
package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseRpmInfo(t *testing.T) {
	tags := []rpmInfoTag{{name: "name"}, {name: "version"}, {name: "install_date"}, {name: "install_date_time_t"}, {name: "license"}, {name: "edition"}, {name: "description"}}
	block := func(fields ...string) string { return strings.Join(fields, rpmFieldEnd) + rpmFieldEnd + rpmPackageEnd }
	text := "package nosuch is not installed\n" + block("kernel", "5.1", "1700000000", "1700000000", "GPL", "5.1-2", "Two\nlines") +
		block("kernel", "5.9", "1700000001", "1700000001", "", "5.9-1", "") + block("gpg-pubkey", "1", "1", "1", "", "1", "")
	wantEqual(t, "the newest", parseRpmInfo(text, tags, false), NewMap("kernel", NewMap("version", "5.9", "install_date", "2023-11-14T22:13:21Z",
		"install_date_time_t", int64(1700000001), "description", "")))
	all, _ := parseRpmInfo(text, tags, true).Value("kernel").(*List)
	if all.Len() != 2 || all.Items[1].(*Map).Str("license") != "GPL" || all.Items[0].(*Map).Str("edition") != "5.9-1" {
		t.Errorf("all versions: %s", Repr(all))
	}
}

func TestParseRpmVerify(t *testing.T) {
	text := "S.5....T.  c /etc/a b\nmissing     /etc/c\n.M.......    /usr/d\nmissing   d /usr/share/doc/e\n"
	wantEqual(t, "verify", parseRpmVerify(text, []string{"doc"}), NewMap(
		"/etc/a b", NewMap("mismatch", NewList("size", "md5sum", "mtime"), "type", "config"),
		"/etc/c", NewMap("missing", true), "/usr/d", NewMap("mismatch", NewList("mode"))))
	text = "S.5....T.  c /etc/a\n.M.......    /usr/d\n"
	wantEqual(t, "modified", parseRpmModified(text, &Map{}), NewMap("/etc/a", NewList("size", "checksum", "time", "config"), "/usr/d", NewList("mode")))
	wantEqual(t, "modified, with size only", parseRpmModified(text, NewMap("size", true)), NewMap("/etc/a", NewList("size", "checksum", "time", "config")))
}

func TestDnfGroups(t *testing.T) {
	got := parseGroupList("Last metadata expiration check: 0:01\nAvailable Environment Groups:\n   Server\nInstalled Groups:\n   Headless Management\nAvailable Language Groups:\n   Afrikaans [af]\nDone\n   x\n")
	wantEqual(t, "group_list", got, NewMap("installed", NewList("Headless Management"), "available", &List{}, "installed environments", &List{},
		"available environments", NewList("Server"), "available languages", NewMap("Afrikaans [af]", NewMap("name", "Afrikaans", "language", "af"))))
	info, members := parseGroupInfo("Group: Perl\n Group-Id: perl\n Description: For Perl.\n Mandatory Packages:\n   =perl\n Default Packages:\n   perl-core\n  +perl-doc\n")
	wantEqual(t, "group_info", info, NewMap("type", "package group", "group", "Perl", "id", "perl", "description", "For Perl."))
	wantEqual(t, "members", NewList(Strings(members["mandatory"]), Strings(members["default"])), NewList(NewList("perl"), NewList("perl-core", "perl-doc")))
	if info, _ := parseGroupInfo("Warning: no such group"); info != nil {
		t.Errorf("a group of nothing: %s", Repr(info))
	}
	patches := "i A-1 Moderate/Sec. a-1-1.noarch\n  A-1 Moderate/Sec. b-1-1.noarch\ni B-1 bugfix c-1-1.noarch\n"
	wantEqual(t, "list_patches", parseDnfPatches(patches, false), NewMap("A-1", NewMap("installed", false, "summary", NewList("a-1-1.noarch", "b-1-1.noarch")),
		"B-1", NewMap("installed", true, "summary", NewList("c-1-1.noarch"))))
	wantEqual(t, "installed", parseDnfPatches(patches, true), NewMap("B-1", NewMap("installed", true, "summary", NewList("c-1-1.noarch"))))
}

func TestUpgradesAreOfThePackagesThatAreNamed(t *testing.T) {
	kw := NewMap("name", "openssl,curl", "pkgs", NewList("vim", NewMap("emacs", nil)))
	for what, cmd := range map[string][]string{"dnf": dnfManager{}.upgradeCommand(kw), "zypper": zypperManager{}.upgradeCommand(kw), "apk": apkManager{}.upgradeCommand(kw)} {
		if text := strings.Join(cmd, " "); !strings.HasSuffix(text, " openssl curl vim emacs") {
			t.Errorf("%s: %s", what, text)
		}
	}
}

func TestZypperXML(t *testing.T) {
	products := `<?xml version='1.0'?><stream><product-list><product name="SLES" version="15" isbase="true" installed="1" vendor=""><endoflife time_t="1700000000" text="2023-11-14T22:13:20+00"/><description>SUSE
 Linux</description></product></product-list></stream>`
	wantEqual(t, "list_products", parseZypperProducts(products), NewList(NewMap("name", "SLES", "version", "15", "isbase", true, "installed", true,
		"eol", "2023-11-14T22:13:20+00", "eol_t", int64(1700000000), "description", "SUSE Linux")))
	found := zypperElements(`<stream><search-result><solvable-list><solvable status="installed" name="vim" kind="package"/></solvable-list></search-result></stream>`, "solvable")
	if len(found) != 1 || found[0].attrs.Str("name") != "vim" {
		t.Errorf("solvables: %v", found)
	}
	wantEqual(t, "list_locks", parseZypperLocks("\ntype: package\nmatch_type: glob\ncase_sensitive: on\nsolvable_name: vim\n\ntype: pattern\nsolvable_name: x11\n"),
		NewMap("vim", NewMap("type", "package", "match_type", "glob", "case_sensitive", "on"), "x11", NewMap("type", "pattern")))
	wantEqual(t, "info_available", parseZypperInfo("Information for package vim:\n-----\nName : vim\nVersion : 9\nInstalled : Yes (automatically)\nVendor :\n"),
		NewMap("vim", NewMap("version", "9", "installed", true)))
}

func TestPacmanGroups(t *testing.T) {
	wantEqual(t, "group_list", sortPacmanGroups("base a\nbase b\ngames c\nxorg d\nxorg e\n", "base a\nbase b\nxorg d\n"),
		NewMap("installed", NewList("base"), "partially_installed", NewList("xorg"), "available", NewList("games")))
}

func TestOpkgFeeds(t *testing.T) {
	root := t.TempDir()
	writeFiles(t, root, map[string]string{"etc/opkg.conf": "dest root /\n", "etc/opkg/distfeeds.conf": "src/gz base https://h/base\n# src/gz extra https://h/extra [trusted=yes]\n"})
	change := func(name string, kv ...any) {
		t.Helper()
		if err := changeOpkgFeed(root, name, NewMap(kv...)); err != nil {
			t.Fatal(err)
		}
	}
	change("extra", "enabled", true)
	change("base", "uri", "https://h/new", "compressed", false)
	change("own", "uri", "https://h/own", "trusted", true)
	if err := changeOpkgFeed(root, "again", NewMap("uri", "https://h/own")); err == nil {
		t.Error("a URI is taken twice")
	}
	p, err := os.ReadFile(filepath.Join(root, "etc/opkg/distfeeds.conf"))
	if want := "src base https://h/new\nsrc/gz extra https://h/extra [trusted=yes]\n"; err != nil || string(p) != want {
		t.Errorf("distfeeds.conf: %q, %v", p, err)
	}
	feeds := opkgFeeds(root)
	if len(feeds) != 3 || feeds[2].asMap().Value("trusted") != true {
		t.Fatalf("feeds: %v", feeds)
	}
	if told, err := deleteOpkgFeed(root, "base"); err != nil || !strings.Contains(told, "removed from") {
		t.Errorf("delete: %q, %v", told, err)
	}
	if told, err := deleteOpkgFeed(root, "own"); err != nil || !strings.HasPrefix(told, "File ") || pathExists(filepath.Join(root, "etc/opkg/own.conf")) {
		t.Errorf("delete the last: %q, %v", told, err)
	}
}
