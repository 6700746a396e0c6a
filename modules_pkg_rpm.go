// What the providers of module pkg over rpm have in common: the database of
// installed packages.
package main

import (
	"context"
	"sort"
	"strconv"
	"strings"
	"time"
)

const rpmQueryFormat = "%{NAME}_|-%{EPOCH}_|-%{VERSION}_|-%{RELEASE}_|-%{ARCH}_|-%{INSTALLTIME}\n"

// rpmDatabase is embedded in the providers over rpm.
type rpmDatabase struct{}

func (rpmDatabase) compare(a, b string) int { return rpmCompare(a, b) }

// rpmArches are the architectures that are the box's own.
func rpmArches(c *Call) []string {
	own := grain(c, "osarch")
	if own == "" {
		own = grain(c, "cpuarch")
	}
	if own == "x86_64" || own == "amd64" {
		return []string{"x86_64", "noarch", "athlon", "amd64", "ia32e"}
	}
	return []string{own, "noarch"}
}

func (rpmDatabase) normalize(c *Call, name string) string {
	if base, arch, ok := rsplit(name, "."); ok && hasString(rpmArches(c), arch) {
		return base
	}
	return name
}

// rpmPackage is one package of the database or of a file.
type rpmPackage struct {
	name      string // with the architecture if it is a foreign one
	epoch     string // "" if it has none
	version   string
	release   string
	arch      string
	installed int64 // Unix time, 0 if it is not installed
}

// full is epoch:version-release without an epoch that is none.
func (p rpmPackage) full() string {
	v := p.version
	if p.release != "" {
		v += "-" + p.release
	}
	if p.epoch != "" {
		v = p.epoch + ":" + v
	}
	return v
}

// parseRpmLine reads one line of a query.
func parseRpmLine(line string, own []string) (p rpmPackage, ok bool) {
	f := strings.Split(strings.TrimSpace(line), "_|-")
	if len(f) != 6 {
		return p, false
	}
	for i, v := range f {
		if v == "(none)" {
			f[i] = ""
		}
	}
	p = rpmPackage{name: f[0], epoch: f[1], version: f[2], release: f[3], arch: f[4]}
	if p.epoch == "0" {
		p.epoch = ""
	}
	if p.arch != "" && !hasString(own, p.arch) {
		p.name += "." + p.arch
	}
	p.installed, _ = strconv.ParseInt(f[5], 10, 64)
	return p, true
}

func rpmQueryAll(ctx context.Context, c *Call) ([]rpmPackage, error) {
	r, err := runTool(ctx, "rpm", "-qa", "--nodigest", "--nosignature", "--queryformat", rpmQueryFormat)
	if err != nil {
		return nil, err
	}
	if r.retcode != 0 {
		return nil, ExecErrorf("cannot read the list of installed packages: %s", r.stderr)
	}
	return parseRpmQuery(r.stdout, rpmArches(c)), nil
}

// parseRpmQuery reads packages, those of one name by version; keys that sign
// packages stand in the database too, but are none.
func parseRpmQuery(out string, own []string) []rpmPackage {
	var list []rpmPackage
	for _, line := range strings.Split(out, "\n") {
		if p, ok := parseRpmLine(line, own); ok && !strings.HasPrefix(p.name, "gpg-pubkey") {
			list = append(list, p)
		}
	}
	sort.SliceStable(list, func(i, j int) bool {
		if list[i].name != list[j].name {
			return list[i].name < list[j].name
		}
		return list[i].version < list[j].version
	})
	return list
}

func (rpmDatabase) installed(ctx context.Context, c *Call) (have, removed *pkgVersions, err error) {
	list, err := rpmQueryAll(ctx, c)
	have = &pkgVersions{}
	for _, p := range list {
		have.add(p.name, p.full())
	}
	return have, nil, err
}

// listPkgs is list_pkgs with attr: besides the version what else is known of each
// package, which has a list then.
func (d rpmDatabase) listPkgs(common pkgCommon) func(context.Context, *Call, pkgListArgs) (any, error) {
	return func(ctx context.Context, c *Call, a pkgListArgs) (any, error) {
		attr := a.Kwargs.Value("attr")
		if attr == nil || pyIsTrue(a.Removed) || pyIsTrue(a.PurgeDesired) {
			return common.listPkgs(ctx, c, a)
		}
		list, err := rpmQueryAll(ctx, c)
		if err != nil {
			return nil, err
		}
		wanted := append(splitInput(attr), "version", "arch")
		out := &Map{}
		for _, p := range list {
			one := &Map{}
			for key, v := range p.attributes().All() {
				if attr == "all" || hasString(wanted, Str(key)) {
					one.Set(key, v)
				}
			}
			appendTo(out, strings.TrimSuffix(p.name, "."+p.arch), one)
		}
		return out, nil
	}
}

func (p rpmPackage) attributes() *Map {
	orNone := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	m := NewMap("epoch", orNone(p.epoch), "version", p.version, "release", orNone(p.release), "arch", p.arch, "install_date", nil, "install_date_time_t", nil)
	if p.installed != 0 {
		m.Set("install_date", rpmTime(p.installed))
		m.Set("install_date_time_t", p.installed)
	}
	return m
}

func rpmTime(unix int64) string { return time.Unix(unix, 0).UTC().Format("2006-01-02T15:04:05Z") }

// appendTo appends to the list that a mapping has under a key.
func appendTo(m *Map, key string, v any) {
	l, _ := m.Value(key).(*List)
	if l == nil {
		l = &List{}
		m.Set(key, l)
	}
	l.Append(v)
}

func (rpmDatabase) fileInfo(ctx context.Context, c *Call, path string) (name, version string, err error) {
	p, err := rpmFile(ctx, c, path)
	return p.name, p.full(), err
}

// rpmFile reads the header of a package file.
func rpmFile(ctx context.Context, c *Call, path string) (rpmPackage, error) {
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, "rpm", "-qp", "--queryformat", rpmQueryFormat, path)
	if err != nil {
		return rpmPackage{}, err
	}
	p, ok := parseRpmLine(r.stdout, rpmArches(c))
	if r.failed() || !ok {
		return p, ExecErrorf("Unable to get info for %s: %s", path, r.stderr)
	}
	return p, nil
}

func (rpmDatabase) owner(ctx context.Context, c *Call, path string) (string, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, "rpm", "-qf", "--queryformat", "%{name}", path)
	if err != nil {
		return "", err
	}
	if r.failed() || strings.Contains(r.stdout, "not owned") {
		return "", nil
	}
	return r.stdout, nil
}

func (d rpmDatabase) files(ctx context.Context, c *Call, names []string) (*Map, error) {
	v, err := rpmFileDict(ctx, c, pkgPackagesArgs{Packages: Strings(names).Items})
	if err != nil {
		return nil, err
	}
	return v.(*Map).Map("packages"), nil
}

func (rpmDatabase) run(ctx context.Context, c *Call, args []string, _ *Map) (cmdResult, error) {
	return runSaltTool(ctx, c, toolOptions{}, inScope(c, args)...)
}

func (rpmDatabase) failed(r cmdResult) string {
	if !r.failed() {
		return ""
	}
	if r.stdout != "" {
		return r.stdout
	}
	return r.stderr
}
