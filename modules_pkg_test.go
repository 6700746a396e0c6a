package main

import (
	"bufio"
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
	wantEqual(t, "installed", have.asMap(false), NewMap("libc6:i386", "2.36-9", "zlib1g", "1:1.2.13.dfsg-1"))
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

func TestApkReadsItsDatabaseAndTools(t *testing.T) {
	have, files := &pkgVersions{}, map[string][]string{}
	err := readApkDatabase(strings.NewReader(pkgTestdata(t, "apk-installed")), true, func(name, version string, list []string) {
		have.add(name, version)
		files[name] = list
	})
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "installed", have.asMap(false), NewMap("musl", "1.2.4-r2", "busybox", "1.36.1-r5"))
	wantEqual(t, "files", Strings(files["busybox"]), NewList("/bin/busybox", "/etc/network/if-up.d/dad"))
	policy := parseApkPolicy(pkgTestdata(t, "apk-policy"))
	wantEqual(t, "policy", Strings(policy["busybox"]), NewList("1.36.1-r5", "1.36.1-r7"))
	wantEqual(t, "upgrades", parseApkUpgrade(pkgTestdata(t, "apk-upgrade")), NewMap("musl", "1.2.4-r3", "busybox", "1.36.1-r7"))
}

func TestOpkgReadsItsDatabaseAndTools(t *testing.T) {
	have, _, err := readDpkgStatus(bufio.NewReader(strings.NewReader(pkgTestdata(t, "opkg-status"))), func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "installed", have.asMap(false), NewMap("busybox", "1.36.1-1", "dnsmasq", "2.89-4"))
	ret, bad := parseOpkgUpdate(pkgTestdata(t, "opkg-update"))
	wantEqual(t, "update", ret, NewMap("openwrt_core", true, "https://downloads.openwrt.org/releases/23.05.2/packages/mipsel_24kc/base/Packages.gz", false))
	if len(bad) != 1 {
		t.Errorf("failed feeds: %v", bad)
	}
	list := parseOpkgList("nano - 7.2-1 - An editor - small\nnano-full - 7.2-1\n more text\n")
	wantEqual(t, "list", Strings(list["nano"]), NewList("7.2-1"))
}

func TestDnfAndRpmOutputs(t *testing.T) {
	own := []string{"x86_64", "noarch"}
	have := parseRpmQuery(pkgTestdata(t, "rpm-qa"), own)
	wantEqual(t, "installed", have.asMap(false), NewMap("bash", "5.1.8-6.el9_1", "glibc.i686", "2.34-83.el9", "glibc", "2.34-83.el9",
		"kernel", "5.14.0-362.el9,5.14.0-427.el9", "shadow-utils", "2:4.9-8.el9"))
	list := parseDnfList(pkgTestdata(t, "dnf-list"), own)
	for name, want := range map[string]string{"bash": "5.1.8-6.el9_1", "bash.i686": "5.1.8-6.el9_1", "java-11-openjdk-headless-fastdebug": "1:11.0.21.0.9-2.el9",
		"kernel": "5.14.0-362.el9 5.14.0-427.el9", "tzdata": "2023c-1.el9"} {
		if got := strings.Join(list[name], " "); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	for what, want := range map[string]string{"bash": "bash-1-2", "bash.i686": "bash-1-2.i686", "python3.11": "python3.11-1-2"} {
		if got := (dnfManager{}).at(what, "1-2"); got != want {
			t.Errorf("%s at a version: got %q, want %q", what, got, want)
		}
	}
	for lock, want := range map[string]string{"bash-0:5.1.8-6.el9_1.*": "bash", "0:bash-5.1.8-6.el9_1.*": "bash"} {
		if got := lockedName(lock); got != want {
			t.Errorf("lock %s: got %q, want %q", lock, got, want)
		}
	}
	repos := parseRepoFile("# c\n[baseos]\nname=Base OS\ngpgkey=file:///a\n  file:///b\nenabled=1\n")
	wantEqual(t, "repositories", repos, NewMap("baseos", NewMap("name", "Base OS", "gpgkey", "file:///a\nfile:///b", "enabled", "1")))
}

func TestZypperAndPacmanOutputs(t *testing.T) {
	wantEqual(t, "zypper upgrades", parseZypperUpdates(pkgTestdata(t, "zypper-updates")), NewMap("curl", "8.0.1-150400.5.26", "libcurl4", "8.0.1-150400.5.26"))
	if v := parseInfoBlocks(pkgTestdata(t, "zypper-info")); v["curl"] != "8.0.1-150400.5.26.1" || len(v) != 1 {
		t.Errorf("zypper info: %v", v)
	}
	wantEqual(t, "zypper refresh", parseZypperRefresh(pkgTestdata(t, "zypper-refresh")), NewMap("Main Repository", true, "Update Repository", false))
	wantEqual(t, "pacman refresh", parsePacmanSync(pkgTestdata(t, "pacman-sync")), NewMap("core", false, "extra", true, "multilib", true))
	wantEqual(t, "pacman upgrades", parsePacmanUpgrades(pkgTestdata(t, "pacman-upgrades")), NewMap("linux", "6.6.2.arch1-1", "zlib", "1:1.3-2"))
	fields := pacmanFields("%NAME%\nzlib\n\n%VERSION%\n1:1.3-1\n\n%FILES%\nusr/\nusr/lib/libz.so\n")
	wantEqual(t, "pacman fields", Strings(fields["FILES"]), NewList("usr/", "usr/lib/libz.so"))
}
