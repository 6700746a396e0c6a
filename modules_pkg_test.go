// Package managers: versions, databases and lists, from files of real boxes.
package main

import (
	"bufio"
	"context"
	"os"
	"strings"
	"testing"
)

func pkgTestdata(t *testing.T, name string) string {
	t.Helper()
	p, err := os.ReadFile("testdata/pkg/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

// wantEqual compares with the representation that users see.
func wantEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	if got, want = FromGo(got), FromGo(want); !Equal(got, want) {
		t.Errorf("%s: got %s, want %s", what, Repr(got), Repr(want))
	}
}

func TestVersionsAreComparedAsTheirManagersDo(t *testing.T) {
	for _, c := range []struct {
		name string
		f    func(a, b string) int
		less [][2]string
		same [][2]string
	}{
		{"dpkg", dpkgCompare, [][2]string{{"1.0~rc1", "1.0"}, {"1.0", "1.0a"}, {"1.9", "1.10"}, {"2.0", "1:1.0"}, {"1.0-1", "1.0-2"}, {"1.0-1", "1.0.1-1"},
			{"1.0~~", "1.0~"}, {"1.0a", "1.0+"}, {"0.99", "0.100"}, {"1.0-1~bpo", "1.0-1"}}, [][2]string{{"1.0", "1.0"}, {"0:1.0", "1.0"}, {"1.00", "1.0"}, {"1.0-0", "1.0"}}},
		{"rpm", rpmCompare, [][2]string{{"1.0~rc1", "1.0"}, {"1.0", "1.0^git1"}, {"1.0^git1", "1.0.1"}, {"5.14.0-362.el9", "5.14.0-427.el9"}, {"2.0", "1:1.0"},
			{"1.0a", "1.0.1"}, {"1.9", "1.10"}, {"1.0", "1.0a"}}, [][2]string{{"1.0", "1_0"}, {"1.0-1", "1.0"}, {"0:1", "1"}, {"1.05", "1.5"}}},
		{"pacman", pacmanCompare, [][2]string{{"1.0a", "1.0"}, {"1b_b+3.42-10", "1"}, {"1.0", "1.0.1"}, {"1+a1beta.a1", "1+a.a+1"}, {"2.0", "1:1.0"}, {"1.0-1", "1.0-2"},
			{"1.9", "1.10"}, {"1.a", "1..a"}}, [][2]string{{"1.0-1", "1.0"}, {"0:1", "1"}, {"1.05", "1.5"}, {"1.0_", "1.0."}}},
		{"apk", apkCompare, [][2]string{{"1.2.4-r2", "1.2.4-r10"}, {"1.0_alpha1", "1.0_beta"}, {"1.0_rc2", "1.0"}, {"1.0", "1.0_p1"}, {"1.2", "1.2.1"},
			{"1.2a", "1.2b"}, {"1.9", "1.10"}}, [][2]string{{"1.0", "1.0"}, {"1.0-r0", "1.0-r0"}}},
	} {
		for _, p := range c.less {
			if n := c.f(p[0], p[1]); n != -1 {
				t.Errorf("%s: %s and %s: got %d, want -1", c.name, p[0], p[1], n)
			}
			if n := c.f(p[1], p[0]); n != 1 {
				t.Errorf("%s: %s and %s: got %d, want 1", c.name, p[1], p[0], n)
			}
		}
		for _, p := range c.same {
			if n := c.f(p[0], p[1]); n != 0 {
				t.Errorf("%s: %s and %s: got %d, want 0", c.name, p[0], p[1], n)
			}
		}
	}
}

func TestAptReadsItsDatabaseAndTools(t *testing.T) {
	have, removed, err := readDpkgStatus(bufio.NewReader(strings.NewReader(pkgTestdata(t, "dpkg-status"))), func(arch string) bool { return arch == "i386" })
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "installed", have.asMap(false), NewMap("libc6:i386", "2.36-9", "unwanted", "3.0", "zlib1g", "1:1.2.13.dfsg-1"))
	wantEqual(t, "to be purged", have.toBePurged().asMap(false), NewMap("unwanted", "3.0"))
	wantEqual(t, "removed", removed.asMap(true), NewMap("gone", NewList("1.0")))
	found := parseAptPolicy(pkgTestdata(t, "apt-policy"))
	if len(found) != 1 || found["dpkg"] != "1.21.23" {
		t.Errorf("policy: %v", found)
	}
	ret, bad := parseAptUpdate(pkgTestdata(t, "apt-update"))
	wantEqual(t, "update", ret, NewMap("http://deb.debian.org/debian bookworm InRelease", nil,
		"http://deb.debian.org/debian bookworm-updates InRelease", true, "http://security.debian.org bookworm-security InRelease", false))
	if len(bad) != 1 {
		t.Errorf("failed repositories: %v", bad)
	}
	wantEqual(t, "upgrades", parseAptSimulation(pkgTestdata(t, "apt-simulation")), NewMap("base-files", "12.4+deb12u5", "libc6", "2.36-9+deb12u4"))
}

func TestAptSourceLinesSurvive(t *testing.T) {
	line := "deb [arch=amd64,i386 signed-by=/etc/apt/keyrings/x.gpg trusted=yes] https://example.org/debian/ stable main contrib # mine\n"
	s := parseAptSource(line, "/etc/apt/sources.list")
	if s.invalid || s.uri != "https://example.org/debian/" || s.dist != "stable" || s.signedBy != "/etc/apt/keyrings/x.gpg" {
		t.Fatalf("parsed as %+v", s)
	}
	wantEqual(t, "architectures", Strings(s.archs), NewList("amd64", "i386"))
	if got := s.text(); got != "deb [arch=amd64,i386 signed-by=/etc/apt/keyrings/x.gpg trusted=yes] https://example.org/debian/ stable main contrib # mine\n" {
		t.Errorf("written as %q", got)
	}
	if off := parseAptSource("# deb http://a b c", ""); off.invalid || !off.disabled {
		t.Errorf("a commented entry is %+v", off)
	}
	for _, bad := range []string{"", "# only words", "deb http://a", "deb [arch=amd64 http://a b c"} {
		if !parseAptSource(bad, "").invalid {
			t.Errorf("%q is taken for an entry", bad)
		}
	}
}

// The outputs in testdata/pkg/apk, dnf, opkg, pacman and zypper are those of the
// tools themselves, over repositories made for that.

func TestApkReadsItsDatabaseAndTools(t *testing.T) {
	have, files := &pkgVersions{}, map[string][]string{}
	err := readApkDatabase(strings.NewReader(pkgTestdata(t, "apk/installed")), true, func(name, version string, list []string) {
		have.add(name, version)
		files[name] = list
	})
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "installed", have.asMap(false), NewMap("pa", "1.0-r0", "pb", "1.0-r0", "pep", "1.5_rc1-r2"))
	wantEqual(t, "files", Strings(files["pa"]), NewList("/etc/pa.conf", "/usr/share/pa/data"))
	policy := parseApkPolicy(pkgTestdata(t, "apk/policy"))
	wantEqual(t, "policy", Strings(policy["pa"]), NewList("1.0-r0", "2.0-r1")) // 3.0-r0 stands behind a tag
	wantEqual(t, "policy of what is only behind a tag", Strings(policy["solo"]), NewList())
	wantEqual(t, "upgrades", parseApkUpgrade(pkgTestdata(t, "apk/upgrade")), NewMap("pa", "2.0-r1", "pep", "1.5-r0"))
}

func TestOpkgReadsItsDatabaseAndTools(t *testing.T) {
	status := pkgTestdata(t, "opkg/status")
	have, _, err := readDpkgStatus(bufio.NewReader(strings.NewReader(status)), func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "installed", have.asMap(false), NewMap("pa", "1.0-1", "pb", "1.0-1"))
	ret, bad := parseOpkgUpdate(pkgTestdata(t, "opkg/update"))
	wantEqual(t, "update", ret, NewMap("base", true, "http://127.0.0.1:1/x/Packages.gz", false))
	if len(bad) == 0 {
		t.Error("the feed that failed is not told")
	}
	wantEqual(t, "list", Strings(parseOpkgList(pkgTestdata(t, "opkg/list"))["pep"]), NewList("1.5-r3"))
	info := parseOpkgStatus(status, []string{"pb"}, nil)
	if info.Len() != 1 || info.Map("pb").Str("arch") != "x86_64" || !strings.HasPrefix(info.Map("pb").Str("conffiles"), "/etc/pb.conf ") {
		t.Errorf("details: %s", Repr(info))
	}
	wantEqual(t, "chosen details", parseOpkgStatus(status, []string{"pa"}, []string{"version", "arch"}), NewMap("pa", NewMap("version", "1.0-1", "arch", "all")))
	name, version, err := opkgManager{}.fileInfo(context.Background(), nil, "testdata/pkg/opkg/pa_2.0-1_all.ipk")
	if err != nil || name != "pa" || version != "2.0-1" {
		t.Errorf("package file: %q %q, %v", name, version, err)
	}
}

func TestOpkgFeedsChangeInPlace(t *testing.T) {
	dir := t.TempDir()
	file := dir + "/distfeeds.conf"
	if err := os.WriteFile(file, []byte("# a comment\nsrc/gz base file:///feed\n# src/gz off http://a/b\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := opkgFeeds{dir: dir}
	ctx := context.Background()
	mod := func(repo string, kw *Map) error {
		_, err := o.mod(ctx, nil, aptRepoArgs{Repo: repo, Kwargs: kw})
		return err
	}
	for _, step := range []struct {
		repo string
		kw   *Map
	}{{"base", NewMap("uri", "file:///other", "trusted", true)}, {"off", NewMap("enabled", true, "alias", "on")}, {"new", NewMap("uri", "http://c/d", "compressed", false)}} {
		if err := mod(step.repo, step.kw); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := os.ReadFile(file); string(got) != "# a comment\nsrc/gz base file:///other [trusted=yes]\nsrc/gz on http://a/b\n" {
		t.Errorf("changed to %q", got)
	}
	if got, _ := os.ReadFile(dir + "/new.conf"); string(got) != "src new http://c/d\n" {
		t.Errorf("added %q", got)
	}
	if err := mod("more", NewMap("uri", "http://c/d")); err == nil {
		t.Error("the URI of another feed is taken again")
	}
	if err := mod("a\nb", NewMap("uri", "http://e/f")); err == nil {
		t.Error("a name with a line end is taken")
	}
	no := NewMap("refresh", false)
	if got, err := o.del(ctx, nil, aptRepoArgs{Repo: "new", Kwargs: no}); err != nil || got != "File "+dir+"/new.conf containing repo 'new' has been removed.\n" {
		t.Errorf("removed: %v, %v", got, err)
	}
	if _, err := o.del(ctx, nil, aptRepoArgs{Repo: "on", Kwargs: no}); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(file); string(got) != "# a comment\nsrc/gz base file:///other [trusted=yes]\n" {
		t.Errorf("after the removal %q", got)
	}
}

func TestRpmOutputs(t *testing.T) {
	own := []string{"x86_64", "noarch"}
	have := &pkgVersions{}
	list := parseRpmQuery(pkgTestdata(t, "dnf/rpm-qa"), own)
	for _, p := range list {
		have.add(p.name, p.full())
	}
	wantEqual(t, "installed", have.asMap(false), NewMap("kernel", "5.1-1", "multi.i686", "1.0-1", "pa", "1.0-1", "pb", "1.0-1", "pep", "2:1.0-1",
		"python3-dnf-plugin-versionlock", "4.3-1", "rocky-release", "9.3-1"))
	pep := list[4].attributes()
	wantEqual(t, "epoch", pep.Value("epoch"), "2")
	if pep.Str("install_date") != rpmTime(list[4].installed) || list[4].installed == 0 {
		t.Errorf("times: %s", Repr(pep))
	}
	wantEqual(t, "verify", parseRpmVerify(pkgTestdata(t, "dnf/verify"), nil), NewMap("/etc/pa.conf", NewMap("mismatch", NewList("mode"), "type", "config"),
		"/usr/share/pa/data", NewMap("mismatch", NewList("size", "md5sum", "mtime")), "/etc/pb.conf", NewMap("missing", true, "type", "config")))
	wantEqual(t, "verify without configuration", parseRpmVerify(pkgTestdata(t, "dnf/verify"), []string{"config"}).Keys(), NewList("/usr/share/pa/data").Items)
	modified := parseRpmModified(pkgTestdata(t, "dnf/verify"))
	wantEqual(t, "modified", modified.Value("/etc/pa.conf"), NewList("mode", "config"))
}

func TestDnfOutputs(t *testing.T) {
	own := []string{"x86_64", "noarch"}
	table := versionTable{}
	for _, p := range parseDnfList(pkgTestdata(t, "dnf/list-repository"), own) {
		table.add(p.repo, p.name, p.version)
	}
	all := table.versions(false)
	for name, want := range map[string]any{"pa": NewList("2.0-1", "1.0-1"), "pep": NewList("2:1.5-3.el9", "2:1.0-1"), "multi.i686": NewList("1.0-1"),
		"a-very-long-name-of-a-package-that-does-not-fit-in-the-table": NewList("3:10.20.30.40-1.el9_4.20240101")} {
		wantEqual(t, name, all.Value(name), want)
	}
	if table.repos.Len() != 1 || !table.repos.Has("one") {
		t.Errorf("repositories: %s", Repr(table.repos.Keys()))
	}
	// yum breaks the lines of long names.
	broken := parseDnfList("Available Packages\njava-11-openjdk-headless-fastdebug.x86_64\n                 1:11.0.21.0.9-2.el9   appstream\ntzdata.noarch 2023c-1.el9 base\n", own)
	if len(broken) != 2 || broken[0] != (dnfPackage{"java-11-openjdk-headless-fastdebug", "1:11.0.21.0.9-2.el9", "appstream"}) || broken[1].repo != "base" {
		t.Errorf("broken lines: %v", broken)
	}
	for what, want := range map[string]string{"bash": "bash-1-2", "bash.i686": "bash-1-2.i686", "python3.11": "python3.11-1-2"} {
		if got := (dnfManager{}).at(what, "7:1-2"); got != want {
			t.Errorf("%s at a version: got %q, want %q", what, got, want)
		}
	}
	for _, full := range []bool{true, false} {
		locks, err := parseDnfLocks(pkgTestdata(t, "dnf/versionlock"), dnfLockPattern, false, full)
		want := NewList("pa-0:1.0-1.*", "pep-2:1.0-1.*")
		if !full {
			want = NewList("pa", "pep")
		}
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "locks", Strings(locks), want)
	}
	if locks, _ := parseDnfLocks("0:bash-completion-5.1.8-6.el9_1.*", dnfLockPattern, true, false); len(locks) != 1 || locks[0] != "bash-completion" {
		t.Errorf("yum's locks: %v", locks)
	}
	toml := "version = '1.0'\n[[packages]]\nname = \"acpi\"\n[[packages.conditions]]\nkey = \"evr\"\ncomparator = \"=\"\nvalue = \"1.7-5.fc39\"\n"
	wantEqual(t, "dnf5's locks", Strings(parseDnf5Locks(toml, true)), NewList("acpi-0:1.7-5.fc39.*"))
	wantEqual(t, "dnf5's locked names", Strings(parseDnf5Locks(toml, false)), NewList("acpi"))
}

func TestDnfGroupsAndAdvisories(t *testing.T) {
	groups := parseDnfGroups(pkgTestdata(t, "dnf/grouplist"))
	wantEqual(t, "groups", groups.Value("available"), NewList("Group One", "Hidden Group"))
	wantEqual(t, "environments", groups.Value("available environments"), NewList("Environment One"))
	info, members := parseDnfGroup(pkgTestdata(t, "dnf/groupinfo"))
	wantEqual(t, "group", info.Value("group"), "Group One")
	wantEqual(t, "type", info.Value("type"), "package group")
	for kind, want := range map[string]string{"mandatory": "pa", "default": "pb", "optional": "pep", "conditional": "multi"} {
		wantEqual(t, kind, Strings(members[kind]), NewList(want))
	}
	info, members = parseDnfGroup(pkgTestdata(t, "dnf/groupinfo-environment"))
	wantEqual(t, "type", info.Value("type"), "environment group")
	wantEqual(t, "mandatory groups", Strings(members["mandatory"]), NewList("Group One"))
	advisories := pkgTestdata(t, "dnf/updateinfo")
	wantEqual(t, "advisories", parseDnfAdvisories(advisories, false), NewMap("EX-2024-1", NewMap("installed", false, "summary", NewList("pa-2.0-1.noarch"))))
	wantEqual(t, "installed advisories", parseDnfAdvisories(advisories, true), &Map{})
}

func TestRepositoryFilesKeepTheirComments(t *testing.T) {
	text := "# head\n[baseos]\nName=Base OS\ngpgkey=file:///a\n  file:///b\nenabled=1\n# why\n\n[other]\nname=Other\n\n"
	f := parseRepoFile(text)
	wantEqual(t, "repositories", f.repos, NewMap("baseos", NewMap("name", "Base OS", "gpgkey", "file:///a\nfile:///b", "enabled", "1", "comments", NewList("why")),
		"other", NewMap("name", "Other")))
	if got, want := f.text(), "# head\n[baseos]\nname=Base OS\ngpgkey=file:///a\n file:///b\nenabled=1\n# why\n\n[other]\nname=Other\n\n"; got != want {
		t.Errorf("written as %q, want %q", got, want)
	}
	set, remove, err := dnfRepoChange(NewMap("enabled", int64(0), "mirrorlist", "http://m", "gpgkey", "", "__pub_jid", "1"))
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "set", set, NewMap("enabled", int64(0), "mirrorlist", "http://m"))
	wantEqual(t, "removed", Strings(remove), NewList("gpgkey", "baseurl"))
	for _, bad := range []*Map{NewMap("name", ""), NewMap("baseurl", "a", "mirrorlist", "b")} {
		if _, _, err := dnfRepoChange(bad); err == nil {
			t.Errorf("%s is taken", Repr(bad))
		}
	}
}

func zypperDoc(t *testing.T, name string) zypperNode {
	t.Helper()
	doc, err := parseZypperXML(pkgTestdata(t, "zypper/"+name))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestZypperOutputs(t *testing.T) {
	info := parseZypperInfo(pkgTestdata(t, "zypper/info"))
	wantEqual(t, "status", info.Map("pa").Value("status"), "out-of-date (version 1.0-1 installed)")
	wantEqual(t, "installed", info.Map("pa").Value("installed"), true)
	wantEqual(t, "version with an epoch", info.Map("pep").Value("version"), "2:1.5-3.el9")
	if info.Len() != 3 {
		t.Errorf("packages: %s", Repr(info.Keys()))
	}
	wantEqual(t, "forced refresh", parseZypperRefresh(pkgTestdata(t, "zypper/refresh-force")), NewMap("Repository One", true))
	wantEqual(t, "refresh", parseZypperRefresh(pkgTestdata(t, "zypper/refresh")), NewMap("Repository One", false))
	updates := zypperDoc(t, "list-updates").all("update")
	if len(updates) != 1 || updates[0].attr("name") != "pa" || updates[0].attr("edition") != "2.0-1" {
		t.Errorf("updates: %v", updates)
	}
	wantEqual(t, "search", zypperDoc(t, "search-details").all("solvable")[0].asMap(), NewMap("status", "other-version", "name", "pa", "kind", "package",
		"edition", "2.0-1", "arch", "noarch", "repository", "Repository One"))
	product := parseZypperProducts(zypperDoc(t, "products")).Items[0].(*Map)
	wantEqual(t, "product", onlyKeys(product, "name", "isbase", "description", "flavor"), NewMap("name", "Leap", "isbase", true, "description", "The product."))
	wantEqual(t, "locks", parseZypperLocks(pkgTestdata(t, "zypper/locks")), NewMap("k*", NewMap("type", "package", "match_type", "glob", "case_sensitive", "on"),
		"pa", NewMap("type", "package", "match_type", "glob", "case_sensitive", "on")))
	for code, want := range map[int64]string{0: "", 102: "", 104: "Zypper command failure: No provider of 'nope' found."} {
		if got := zypperFailure(cmdResult{retcode: code, stdout: pkgTestdata(t, "zypper/failure")}); got != want {
			t.Errorf("exit code %d: got %q, want %q", code, got, want)
		}
	}
}

func TestPacmanOutputs(t *testing.T) {
	wantEqual(t, "refresh", parsePacmanSync(pkgTestdata(t, "pacman/sync")), NewMap("core", true))
	wantEqual(t, "refresh of what is up to date", parsePacmanSync(":: Synchronizing package databases...\n core is up to date\n"), NewMap("core", false))
	wantEqual(t, "upgrades", parsePacmanUpgrades(pkgTestdata(t, "pacman/upgrades")), NewMap("pa", "2.0-1")) // the other is ignored
	if v := parseInfoBlocks(pkgTestdata(t, "pacman/info")); len(v) != 2 || v["pa"] != "2.0-1" || v["pb"] != "1.0-1" {
		t.Errorf("info: %v", v)
	}
	root := t.TempDir()
	dir := root + "/pa-1.0-1"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"desc", "files"} {
		if err := os.WriteFile(dir+"/"+name, []byte(pkgTestdata(t, "pacman/"+name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have := &pkgVersions{}
	if err := pacmanEach(root, func(name, version, _ string) { have.add(name, version) }); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "installed", have.asMap(false), NewMap("pa", "1.0-1"))
	wantEqual(t, "files", Strings(pacmanFiles(dir)), NewList("/etc/", "/etc/pa.conf", "/usr/", "/usr/share/", "/usr/share/pa/", "/usr/share/pa/data"))
}

func TestRpmInfoIsReadByBlocks(t *testing.T) {
	block := func(text string) string { return text + rpmInfoEnd }
	text := "package nosuch is not installed\n" + block("name: kernel\nversion: 5.1\ninstall_date_time_t: 1700000000\ninstall_date: 1700000000\nedition: 5.1-2\ndescription:\nTwo\n----\nlines: 2\n") +
		block("name: kernel\nversion: 5.9\ninstall_date: 1700000001\nlicense: \nedition: 5.9-1\ndescription:\n\n") + block("name: gpg-pubkey\nversion: 1\nedition: 1\n")
	wantEqual(t, "the newest", rpmInfoByName(parseRpmInfo(text), false), NewMap("kernel", NewMap("version", "5.9", "install_date", "2023-11-14T22:13:21Z", "description", "")))
	all := rpmInfoByName(parseRpmInfo(text), true).List("kernel")
	if all.Len() != 2 || all.Items[1].(*Map).Str("description") != "Two\n----\nlines: 2" || all.Items[0].(*Map).Str("edition") != "5.9-1" {
		t.Errorf("all versions: %s", Repr(all))
	}
}

func TestUpgradesAreOfThePackagesThatAreNamed(t *testing.T) {
	kw := NewMap("names", NewList("openssl", "vim"))
	for what, cmd := range map[string][]string{"dnf": dnfManager{}.upgradeCommand(kw), "zypper": zypperManager{}.upgradeCommand(kw), "apk": apkManager{}.upgradeCommand(kw)} {
		if text := strings.Join(cmd, " "); !strings.HasSuffix(text, " openssl vim") {
			t.Errorf("%s: %s", what, text)
		}
	}
}
