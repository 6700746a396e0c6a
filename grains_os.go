// Grains: which distribution this is. os-release says most of it; older files
// are read where Salt reads them, so that os, osrelease and osfinger keep the
// values that states and targets compare with.
package main

import (
	"context"
	"regexp"
	"strconv"
	"strings"
)

// osGrains are os, os_family, osfullname, osrelease and what follows from them.
func (b *grainBox) osGrains(context.Context) *Map {
	g := &Map{}
	for k, v := range b.lsbRelease() {
		g.Set("lsb_"+strings.ToLower(k), v)
	}
	rel := b.osRelease()
	if rel != nil {
		family := familyID(rel["ID"], rel["ID_LIKE"])
		g.Set("os", osGrain(rel["NAME"], rel["ID"]))
		if family == "fedora" {
			g.Set("os_family", "RedHat")
		} else if family != "" {
			g.Set("os_family", strings.ToUpper(family[:1])+strings.ToLower(family[1:]))
		}
		g.Set("osfullname", strings.TrimSpace(rel["NAME"]))
	}
	b.olderReleaseFiles(g, rel)
	osRelease := g.Str("osrelease")
	if osRelease != "" {
		osReleaseGrains(g, osRelease)
	}
	for _, k := range []string{"oscodename", "osrelease"} {
		if g.Str(k) == "" {
			g.Set(k, "")
		}
	}
	return g
}

// osRelease reads os-release; nil if there is none.
func (b *grainBox) osRelease() map[string]string {
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if !b.exists(path) {
			continue
		}
		rel := map[string]string{"NAME": "Linux", "ID": "linux", "PRETTY_NAME": "Linux"}
		for _, line := range b.lines(path) {
			line = strings.TrimSpace(line)
			k, v, ok := strings.Cut(line, "=")
			if !ok || strings.HasPrefix(line, "#") {
				continue
			}
			if n := len(v); n >= 2 && (v[0] == '"' || v[0] == '\'') && v[n-1] == v[0] {
				v = v[1 : n-1]
			}
			rel[k] = strings.NewReplacer(`\"`, `"`, `\$`, `$`, `\\`, `\`, "\\`", "`", `\'`, `'`).Replace(v)
		}
		return rel
	}
	return nil
}

// lsbRelease reads the DISTRIB_ fields of /etc/lsb-release.
func (b *grainBox) lsbRelease() map[string]string {
	out := map[string]string{}
	re := regexp.MustCompile(`^(DISTRIB_(?:ID|RELEASE|CODENAME|DESCRIPTION))=(?:'|")?([\pL\pN_\s.\-]+)(?:'|")?`)
	for _, line := range b.lines("/etc/lsb-release") {
		if m := re.FindStringSubmatch(line); m != nil {
			out[m[1]] = strings.TrimRight(m[2], " \t")
		}
	}
	return out
}

// familyID is the id of the distribution that this one stems from.
func familyID(id, like string) string {
	if like == "" {
		return id
	}
	ids := append([]string{id}, strings.Fields(like)...)
	for _, v := range ids {
		if v == "debian" || v == "ubuntu" {
			return "debian"
		}
	}
	return ids[len(ids)-1]
}

// osGrain turns the full name of a distribution into Salt's name for it.
func osGrain(name, id string) string {
	switch {
	case id == "astra" && name == "Astra Linux (Orel)":
		return "AstraLinuxCE"
	case id == "astra" && name == "Astra Linux (Smolensk)":
		return "AstraLinuxSE"
	case id == "pop" && name == "Pop!_OS":
		return "Pop"
	}
	distro := strings.TrimSpace(regexp.MustCompile(`(?i)[^\pL\pN_](?:gnu/)?linux`).ReplaceAllString(name, ""))
	short := strings.ToLower(strings.ReplaceAll(distro, " ", ""))
	if len(short) > 10 {
		short = short[:10]
	}
	if v, ok := osNames()[short]; ok {
		return v
	}
	return distro
}

// osNames maps the first ten letters of a name to the grain os.
func osNames() map[string]string {
	return map[string]string{
		"redhatente": "RedHat", "gentoobase": "Gentoo", "archarm": "Arch ARM", "arch": "Arch", "debian": "Debian",
		"raspbian": "Raspbian", "fedoraremi": "Fedora", "chapeau": "Chapeau", "korora": "Korora", "amazonami": "Amazon",
		"alt": "ALT", "enterprise": "OEL", "oracleserv": "OEL", "cloudserve": "CloudLinux", "cloudlinux": "CloudLinux",
		"almalinux": "AlmaLinux", "pidora": "Fedora", "scientific": "ScientificLinux", "synology": "Synology",
		"nilrt": "NILinuxRT", "poky": "Poky", "manjaro": "Manjaro", "manjarolin": "Manjaro", "univention": "Univention",
		"antergos": "Antergos", "sles": "SUSE", "void": "Void", "slesexpand": "RES", "linuxmint": "Mint",
		"neon": "KDE neon", "pop": "Pop", "rocky": "Rocky", "alibabaclo": "Alinux", "mendel": "Mendel", "photon": "VMware Photon OS",
	}
}

// osFamilies maps the grain os to os_family; what is missing is its own family.
func osFamilies() map[string][]string {
	return map[string][]string{
		"Debian": {"Ubuntu", "Mint", "Trisquel", "GCEL", "Linaro", "elementary OS", "elementary", "Univention", "Raspbian",
			"Devuan", "antiX", "Kali", "Parrot OS", "neon", "Cumulus", "Deepin", "KDE neon", "IDMS", "TurnKey", "Pop",
			"AstraLinuxCE", "AstraLinuxSE", "Mendel", "OSMC"},
		"RedHat": {"Fedora", "Chapeau", "Korora", "FedBerry", "CentOS", "CentOS Stream", "GoOSe", "Scientific", "Amazon",
			"CloudLinux", "AlmaLinux", "OVS", "OEL", "XCP", "XCP-ng", "XenServer", "RES", "Sangoma", "VMware Photon OS",
			"AlterOS", "RED OS", "ALT", "ScientificLinux", "Rocky", "Alinux"},
		"Suse": {"SLES", "SUSE Enterprise Server", "SUSE  Enterprise Server", "SLED", "openSUSE", "SUSE", "openSUSE Leap",
			"openSUSE Tumbleweed", "SLES_SAP", "alfaLinux", "alfaLinux Rise"},
		"Arch":      {"Arch ARM", "Manjaro", "Manjaro ARM", "Antergos", "EndeavourOS"},
		"Gentoo":    {"Funtoo"},
		"Mandriva":  {"Mandrake"},
		"Bluewhite": {"Bluewhite64"},
		"Slackware": {"Slamd64"},
	}
}

// olderReleaseFiles completes the grains as Salt does for distributions that it
// does not read from os-release alone.
func (b *grainBox) olderReleaseFiles(g *Map, rel map[string]string) {
	switch {
	case strings.HasPrefix(strings.ToLower(g.Str("lsb_distrib_description")), "antergos"):
		g.Set("osfullname", "Antergos Linux")
	case g.Has("lsb_distrib_id"):
	case rel != nil:
		b.lsbFromOSRelease(g, rel)
	case b.exists("/etc/centos-release"):
		g.Set("lsb_distrib_id", "CentOS")
		line := b.read("/etc/centos-release")
		if v := regexp.MustCompile(`\d+\.\d+`).FindString(line); v != "" {
			g.Set("lsb_distrib_release", v)
		}
		if m := regexp.MustCompile(`\((.*?)\)`).FindStringSubmatch(line); m != nil {
			g.Set("lsb_distrib_codename", m[1])
		}
	}
	id, release, codename := b.distro(rel)
	if !g.Has("osfullname") {
		name := id
		if g.Has("lsb_distrib_id") {
			name = g.Str("lsb_distrib_id")
		}
		if strings.HasPrefix(strings.ToLower(name), "nilrt") {
			name = "nilrt"
		}
		g.Set("osfullname", strings.TrimSpace(name))
	}
	for _, old := range []string{"CentOS Linux 7", "CentOS Linux 8"} {
		if strings.Contains(g.Str("lsb_distrib_codename"), old) {
			g.Delete("lsb_distrib_release")
		}
	}
	if v, ok := g.Get("lsb_distrib_release"); ok {
		release = Str(v)
	}
	g.Set("osrelease", strings.TrimSpace(release))
	if code := g.Str("lsb_distrib_codename"); code != "" {
		for _, name := range []string{"Rocky", "AlmaLinux", "AstraLinuxSE"} {
			if !strings.Contains(g.Str("os"), name) {
				continue
			}
			if _, rest, ok := strings.Cut(code, "("); ok {
				code, _, _ = strings.Cut(rest, ")")
				if f := strings.Fields(code); name == "AstraLinuxSE" && len(f) > 0 {
					code = strings.ToLower(f[0])
				}
				g.Set("lsb_distrib_codename", code)
			}
			break
		}
	}
	code := strings.TrimSpace(g.Str("lsb_distrib_codename"))
	if code == "" || strings.Contains(code, "Red Hat") {
		code = codename
	}
	g.Set("oscodename", code)
	if !g.Has("os") {
		g.Set("os", osGrain(g.Str("osfullname"), ""))
	}
	g.Set("os_family", g.Str("os"))
	for family, members := range osFamilies() {
		for _, name := range members {
			if name == g.Str("os") {
				g.Set("os_family", family)
			}
		}
	}
}

// lsbFromOSRelease fills the lsb grains of a box without lsb-release.
func (b *grainBox) lsbFromOSRelease(g *Map, rel map[string]string) {
	g.Set("lsb_distrib_id", strings.TrimSpace(rel["NAME"]))
	if v, ok := rel["VERSION_ID"]; ok {
		g.Set("lsb_distrib_release", v)
	}
	if v, ok := rel["VERSION_CODENAME"]; ok {
		g.Set("lsb_distrib_codename", v)
	} else {
		g.Set("lsb_distrib_codename", rel["PRETTY_NAME"])
	}
	if vendor, version := cpeVendor(rel["CPE_NAME"]); vendor == "suse" || vendor == "opensuse" {
		g.Set("os", "SUSE")
		if rel["NAME"] == "openSUSE Leap" {
			g.Set("osfullname", "Leap")
		} else if rel["VERSION"] == "Tumbleweed" {
			g.Set("osfullname", rel["VERSION"])
		}
		if version != "" && vendor == "opensuse" {
			g.Set("lsb_distrib_release", version)
		}
	}
	if f := strings.Fields(rel["PRETTY_NAME"]); rel["ID"] == "mendel" && len(f) >= 3 {
		g.Set("lsb_distrib_release", f[2])
	}
}

// cpeVendor reads vendor and version of a CPE name of either form.
func cpeVendor(cpe string) (vendor, version string) {
	f := strings.Split(cpe, ":")
	if len(f) <= 4 || f[0] != "cpe" {
		return "", ""
	}
	at := 2
	if !strings.HasPrefix(f[1], "/") {
		if f[1] != "2.3" || len(f) < 6 {
			return "", ""
		}
		at = 3
	}
	if len(f) < at+3 || f[at+2] == "*" {
		return strings.ToLower(f[at]), ""
	}
	return strings.ToLower(f[at]), f[at+2]
}

// distro is the last resort: id, version as exact as any file has it, codename.
func (b *grainBox) distro(rel map[string]string) (id, version, codename string) {
	id, version, codename = rel["NAME"], rel["VERSION_ID"], rel["VERSION_CODENAME"]
	if _, given := rel["VERSION_CODENAME"]; !given {
		if m := regexp.MustCompile(`\((\D+)\)|,\s*(\D+)`).FindStringSubmatch(rel["VERSION"]); m != nil {
			codename = strings.TrimSpace(m[1] + m[2])
		}
	}
	exact := regexp.MustCompile(`(?:release\s+)?(\d+(?:\.\d+)+|\d+)`)
	for _, path := range []string{"/etc/centos-release", "/etc/redhat-release", "/etc/system-release", "/etc/alpine-release", "/etc/debian_version"} {
		if m := exact.FindStringSubmatch(b.read(path)); m != nil {
			if strings.Count(m[1], ".") > strings.Count(version, ".") || version == "" {
				version = m[1]
			}
			break
		}
	}
	return id, version, codename
}

// osReleaseGrains derives osrelease_info, osmajorrelease and osfinger.
func osReleaseGrains(g *Map, release string) {
	info := &List{}
	for _, part := range strings.Split(release, ".") {
		if n, err := strconv.ParseInt(part, 10, 64); err == nil && n >= 0 && !strings.HasPrefix(part, "+") {
			info.Append(n)
		} else {
			info.Append(part)
		}
	}
	g.Set("osrelease_info", info)
	if n, ok := info.Items[0].(int64); ok {
		g.Set("osmajorrelease", n)
	}
	os := g.Str("os")
	name := g.Str("osfullname")
	if os == "Debian" || os == "Raspbian" {
		name = os
	}
	first := Str(info.Items[0])
	if os == "Ubuntu" || os == "Pop" {
		first = release
	}
	g.Set("osfinger", name+"-"+first)
}

// osArch is the architecture that packages of this box have.
func (b *grainBox) osArch(ctx context.Context, family, machine string) any {
	switch family {
	case "Debian":
		if lines := b.lines("/var/lib/dpkg/arch"); len(lines) > 0 {
			return strings.TrimSpace(lines[0])
		}
		if out := b.program(ctx, "dpkg", "--print-architecture"); out != "" {
			return strings.TrimSpace(out)
		}
		if arch, ok := map[string]string{"x86_64": "amd64", "aarch64": "arm64", "armv7l": "armhf", "armv6l": "armhf", "i686": "i386", "ppc64le": "ppc64el"}[machine]; ok {
			return arch
		}
	case "NILinuxRT", "Poky":
		return b.opkgArchitectures()
	}
	if machine == "" {
		return nil
	}
	return machine
}

// opkgArchitectures lists what opkg takes, the most wanted first.
func (b *grainBox) opkgArchitectures() *List {
	type arch struct {
		name     string
		priority int
	}
	var all []arch
	for _, path := range []string{"/etc/opkg/arch.conf", "/etc/opkg.conf", "/etc/opkg/opkg.conf"} {
		for _, line := range b.lines(path) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "arch" {
				n, _ := strconv.Atoi(f[2])
				all = append(all, arch{f[1], n})
			}
		}
	}
	out := &List{}
	for len(all) > 0 {
		best := 0
		for i := range all {
			if all[i].priority > all[best].priority {
				best = i
			}
		}
		out.Append(all[best].name)
		all = append(all[:best], all[best+1:]...)
	}
	return out
}
