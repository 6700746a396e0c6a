// Tests of grains, on recorded root trees.
package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestOSGrains(t *testing.T) {
	for tree, want := range map[string]string{
		"debian12":    "Debian Debian 12 bookworm Debian-12 12",
		"ubuntu2204":  "Ubuntu Debian 22.04 jammy Ubuntu-22.04 22",
		"rhel9":       "RedHat RedHat 9.3 Plow Red Hat Enterprise Linux-9 9",
		"centos7":     "CentOS RedHat 7.9.2009 CentOS Linux 7 (Core) CentOS Linux-7 7",
		"rocky9":      "Rocky RedHat 9.3 Blue Onyx Rocky Linux-9 9",
		"fedora39":    "Fedora RedHat 39  Fedora Linux-39 39",
		"leap155":     "SUSE Suse 15.5 openSUSE Leap 15.5 Leap-15 15",
		"sles15":      "SUSE Suse 15.5 SUSE Linux Enterprise Server 15 SP5 SLES-15 15",
		"alpine319":   "Alpine Alpine 3.19.1 Alpine Linux v3.19 Alpine Linux-3 3",
		"openwrt2305": "OpenWrt OpenWrt 23.05.2 OpenWrt 23.05.2 OpenWrt-23 23",
		"arch":        "Arch Arch  Arch Linux None None",
	} {
		b := &grainBox{root: filepath.Join("testdata/grains", tree), opts: NewOptions(NewMap("id", "x"))}
		g := b.collect(context.Background())
		got := ""
		for i, k := range []string{"os", "os_family", "osrelease", "oscodename", "osfinger", "osmajorrelease"} {
			if i > 0 {
				got += " "
			}
			got += Str(g.Value(k))
		}
		if got != want {
			t.Errorf("%s: %s\nwant %s", tree, got, want)
		}
	}
}

func TestHardwareGrainsOfSmallBoxes(t *testing.T) {
	b := &grainBox{root: "testdata/grains/arch", opts: NewOptions(NewMap("id", "x"))}
	g := b.collect(context.Background())
	for k, want := range map[string]string{"num_cpus": "2", "productname": "'Raspberry Pi 4 Model B Rev 1.2'",
		"serialnumber": "'10000000abcdef01'", "virtual": "'physical'", "init": "'unknown'",
		"cpu_flags": "['fp', 'asimd', 'evtstrm', 'crc32', 'cpuid']"} {
		if got := Repr(g.Value(k)); got != want {
			t.Errorf("%s: %s, want %s", k, got, want)
		}
	}
	b.root = "testdata/grains/debian12"
	g = b.collect(context.Background())
	if g.Value("init") != "systemd" || g.Value("osarch") != "amd64" {
		t.Errorf("init %v, osarch %v", g.Value("init"), g.Value("osarch"))
	}
}

func TestCoreGrainsOfThisBox(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "grains"), []byte("role: web\nos: Mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := NewOptions(NewMap("id", "web1", "master", "salt", "conf_file", filepath.Join(dir, "minion"),
		"grains", NewMap("dc", "eu", "role", "db"), "grains_blacklist", NewList("cpu_*")))
	start := time.Now()
	g := CoreGrains(context.Background(), o)
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("took %s", took)
	}
	for k, want := range map[string]any{"id": "web1", "os": "Mine", "dc": "eu", "role": "db", "kernel": "Linux",
		"saltversion": saltVersion, "server_id": int64(1826842219)} {
		if got := g.Value(k); !Equal(got, want) {
			t.Errorf("%s: %v, want %v", k, got, want)
		}
	}
	if g.Has("cpu_flags") || !g.Has("num_cpus") {
		t.Error("grains_blacklist")
	}
	if lo := g.Map("ip4_interfaces").List("lo"); lo.Len() > 0 && lo.Items[0] != "127.0.0.1" {
		t.Errorf("lo has %v", lo.Items)
	}
}

func TestParseResolvConf(t *testing.T) {
	got := Repr(parseResolvConf("# x\nnameserver 10.0.0.1\nnameserver ::1\nnameserver bad\nsearch a.example b.example # c\noptions ndots:2 rotate\nsortlist 130.155.160.0/255.255.240.0 130.155.0.0\n"))
	want := "{'nameservers': ['10.0.0.1', '::1'], 'ip4_nameservers': ['10.0.0.1'], 'ip6_nameservers': ['::1'], " +
		"'sortlist': ['130.155.160.0/255.255.240.0', '130.155.0.0/255.255.0.0'], 'domain': '', 'search': ['a.example', 'b.example'], 'options': ['ndots:2']}"
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestCanonicalHostsName(t *testing.T) {
	hosts := []byte("127.0.0.1 localhost\n127.0.1.1 web1.example.com web1 # x\n")
	for name, want := range map[string]string{"web1": "web1.example.com", "nosuch": ""} {
		if got := canonicalHostsName(hosts, name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
