// Provider dnf of module pkg: Red Hat and its relatives, with dnf or yum.
package main

import (
	"context"
	"strings"
)

func dnfModule() Module {
	p := dnfManager{}
	return Module{
		Doc: "Manage packages with dnf or yum.",
		Virtual: func(context.Context, *Call) (bool, string) {
			return dnfTool() != "" && which("rpm") != "", "The dnf provider needs rpm and dnf or yum"
		},
		Funcs: pkgFuncs(p).with(repoFuncs("/etc/yum.repos.d")).with(rpmFuncs("/var/cache/dnf")).with(p.moreFuncs()).with(Funcs{
			"hold":       {run: p.hold(true), doc: "Keep packages at their versions, by the versionlock plugin."},
			"unhold":     {run: p.hold(false), doc: "Let packages be upgraded again."},
			"list_holds": {run: p.listHolds, doc: "List the versions that packages are kept at."},
		}),
	}
}

type dnfManager struct{ rpmDatabase }

func dnfTool() string {
	for _, name := range []string{"dnf", "yum", "microdnf"} {
		if which(name) != "" {
			return name
		}
	}
	return ""
}

func (dnfManager) at(name, version string) string {
	// dnf takes name-[epoch:]version-release; an architecture comes last.
	base, arch, ok := rsplit(name, ".")
	if ok && hasString([]string{"i386", "i486", "i586", "i686", "x86_64", "noarch", "aarch64", "ppc64le", "s390x", "src"}, arch) {
		return base + "-" + version + "." + arch
	}
	return name + "-" + version
}

// dnfRepoOptions are the options that choose repositories.
func dnfRepoOptions(from string, kw *Map) []string {
	var out []string
	if from != "" {
		out = append(out, "--disablerepo=*", "--enablerepo="+from)
	}
	for _, k := range []string{"enablerepo", "disablerepo", "disableexcludes"} {
		if v := kw.Value(k); Truth(v) && from == "" {
			out = append(out, "--"+k+"="+strings.Join(namesOf(toItems(v)), ","))
		}
	}
	return out
}

// parseDnfList reads the table of `dnf list`: name.arch, version, repository.
// Long names put the rest on the next line.
func parseDnfList(out string, own []string) map[string][]string {
	found := map[string][]string{}
	var pending []string
	for _, line := range strings.Split(out, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if pending != nil && strings.HasPrefix(line, " ") {
			f = append(pending, f...)
		}
		pending = nil
		if len(f) < 3 {
			if strings.Contains(f[0], ".") {
				pending = f
			}
			continue
		}
		base, arch, ok := rsplit(f[0], ".")
		if !ok || len(f) != 3 {
			continue // a heading
		}
		name := f[0]
		if hasString(own, arch) {
			name = base
		}
		found[name] = append(found[name], strings.TrimPrefix(f[1], "0:"))
	}
	return found
}

func (d dnfManager) list(ctx context.Context, c *Call, from string, what ...string) (map[string][]string, error) {
	args := append([]string{dnfTool(), "--quiet"}, dnfRepoOptions(from, nil)...)
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, append(args, what...)...)
	if err != nil {
		return nil, err
	}
	return parseDnfList(r.stdout, rpmArches(c)), nil
}

func (d dnfManager) candidates(ctx context.Context, c *Call, names []string, from string) (map[string]string, error) {
	all, err := d.list(ctx, c, from, append([]string{"list", "available"}, names...)...)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for name, versions := range all {
		for _, v := range versions {
			if found[name] == "" || rpmCompare(v, found[name]) > 0 {
				found[name] = v
			}
		}
	}
	return found, nil
}

func (d dnfManager) upgrades(ctx context.Context, c *Call, _ *Map) (*Map, error) {
	all, err := d.list(ctx, c, "", "list", "updates")
	if err != nil {
		return nil, err
	}
	out := &Map{}
	for _, name := range dnfNames(all) {
		out.Set(name, all[name][len(all[name])-1])
	}
	return out, nil
}

func dnfNames(m map[string][]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return sortedSet(out)
}

func (d dnfManager) refresh(ctx context.Context, c *Call, kwargs *Map) (any, error) {
	options := dnfRepoOptions("", kwargs)
	clean := append([]string{dnfTool(), "--quiet", "--assumeyes", "clean", "expire-cache"}, options...)
	if _, err := runSaltTool(ctx, c, toolOptions{ignore: true}, clean...); err != nil {
		return nil, err
	}
	if v, ok := kwargs.Get("check_update"); ok && !Truth(v) {
		return true, nil
	}
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, append([]string{dnfTool(), "--quiet", "--assumeyes", "check-update"}, options...)...)
	if err != nil {
		return nil, err
	}
	switch n, _ := toInt(r.retcode); n {
	case 100:
		return true, nil // there are upgrades
	case 0:
		return nil, nil
	}
	return false, nil
}

func (d dnfManager) installCommands(_ context.Context, _ *Call, req *pkgInstall) ([][]string, error) {
	base := append([]string{dnfTool(), "-y"}, dnfRepoOptions(req.from, req.args.Kwargs)...)
	if req.args.SkipVerify {
		base = append(base, "--nogpgcheck")
	}
	if req.args.Downloadonly {
		base = append(base, "--downloadonly")
	}
	if v, ok := req.args.Kwargs.Get("setopt"); ok {
		for _, o := range groupList(v) {
			base = append(base, "--setopt", o)
		}
	}
	var cmds [][]string
	add := func(action string, names []string) {
		if len(names) > 0 {
			cmds = append(cmds, append(append(append([]string{}, base...), action), names...))
		}
	}
	add("install", req.targets)
	add("downgrade", req.downgrade)
	add("reinstall", req.reinstall)
	return cmds, nil
}

func (d dnfManager) removeCommand(names []string, _ bool, _ *Map) []string {
	return append([]string{dnfTool(), "-y", "remove"}, names...)
}

func (d dnfManager) upgradeCommand(kw *Map) []string {
	cmd := append([]string{dnfTool(), "--quiet", "-y"}, dnfRepoOptions("", kw)...)
	if Truth(kw.Value("skip_verify")) {
		cmd = append(cmd, "--nogpgcheck")
	}
	if Truth(kw.Value("minimal")) {
		cmd = append(cmd, "upgrade-minimal")
	} else {
		cmd = append(cmd, "upgrade")
	}
	return append(cmd, upgradeNames(kw)...)
}

func (d dnfManager) available(ctx context.Context, c *Call, names []string, kwargs *Map) (*Map, error) {
	from := ""
	if v := kwargs.Value("fromrepo"); Truth(v) {
		from = Str(v)
	}
	all, err := d.list(ctx, c, from, append([]string{"list", "--showduplicates", "available"}, names...)...)
	if err != nil {
		return nil, err
	}
	out := &Map{}
	for _, name := range dnfNames(all) {
		versions := all[name]
		list := &List{}
		for i := len(versions) - 1; i >= 0; i-- { // newest first
			list.Append(versions[i])
		}
		out.Set(name, list)
	}
	return out, nil
}

func (d dnfManager) locks(ctx context.Context, c *Call) ([]string, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, dnfTool(), "--quiet", "versionlock", "list")
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return nil, ExecErrorf("packages are held by the versionlock plugin, which does not work here: %s", r.stderr)
	}
	var out []string
	for _, line := range strings.Split(r.stdout, "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && !strings.Contains(line, " ") {
			out = append(out, line)
		}
	}
	return out, nil
}

type patternArgs struct {
	Pattern any  `def:"None"`
	Full    bool `def:"True"`
}

func (d dnfManager) listHolds(ctx context.Context, c *Call, _ patternArgs) (any, error) {
	locks, err := d.locks(ctx, c)
	return Strings(locks), err
}

// lockedName is the name in a lock like 0:bash-5.1-4.el9.* or bash-0:5.1-4.el9.*.
func lockedName(lock string) string {
	parts := strings.Split(withoutEpochPrefix(lock), "-")
	if len(parts) > 2 {
		return strings.Join(parts[:len(parts)-2], "-")
	}
	return lock
}

func withoutEpochPrefix(s string) string {
	if epoch, rest := splitEpoch(s); rest != s && epoch != "" {
		return rest
	}
	return s
}

func (d dnfManager) hold(on bool) func(context.Context, *Call, pkgHoldArgs) (any, error) {
	word, done, state := "delete", "is no longer being held.", "not to be held"
	if on {
		word, done, state = "add", "is now being held.", "to be held"
	}
	return func(ctx context.Context, c *Call, a pkgHoldArgs) (any, error) {
		names, err := holdTargets(a)
		if err != nil {
			return nil, err
		}
		locks, err := d.locks(ctx, c)
		if err != nil {
			return nil, err
		}
		ret := &Map{}
		for _, name := range names {
			one := NewMap("name", name, "changes", &Map{}, "result", true, "comment", "")
			ret.Set(name, one)
			locked := false
			for _, l := range locks {
				locked = locked || lockedName(l) == name
			}
			switch {
			case locked == on:
				one.Set("comment", "Package "+name+" is already set "+state+".")
			case c.Opts.Bool("test"):
				one.Set("result", nil)
				one.Set("comment", "Package "+name+" is set "+state+".")
			default:
				ok, err := runOK(ctx, c, dnfTool(), "-y", "versionlock", word, name)
				if err != nil {
					return nil, err
				}
				if one.Set("result", ok); !ok {
					one.Set("comment", "Package "+name+" was unable to be set "+state+".")
					continue
				}
				from, to := "hold", ""
				if on {
					from, to = "", "hold"
				}
				one.Set("changes", NewMap("old", from, "new", to))
				one.Set("comment", "Package "+name+" "+done)
			}
		}
		return ret, nil
	}
}
