// Provider zypper of module pkg: SUSE.
package main

import (
	"context"
	"strings"
)

func zypperModule() Module {
	p := zypperManager{}
	return Module{
		Doc: "Manage packages with zypper.",
		Virtual: func(context.Context, *Call) (bool, string) {
			return which("zypper") != "" && which("rpm") != "", "Module zypper: non SUSE OS not supported by zypper package manager"
		},
		Funcs: pkgFuncs(p).with(repoFuncs("/etc/zypp/repos.d")).with(rpmFuncs("/var/cache/zypp/packages")).with(p.moreFuncs()).with(Funcs{
			"hold":   {run: p.hold(true), doc: "Keep packages at their versions."},
			"unhold": {run: p.hold(false), doc: "Let packages be upgraded again."},
		}),
	}
}

type zypperManager struct{ rpmDatabase }

func zypper(args ...string) []string { return append([]string{"zypper", "--non-interactive"}, args...) }

func (zypperManager) candidates(ctx context.Context, c *Call, names []string, from string) (map[string]string, error) {
	args := zypper("--no-refresh", "info", "-t", "package")
	if from != "" {
		args = append(args, "--repo", from)
	}
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, append(args, names...)...)
	if err != nil {
		return nil, err
	}
	return parseInfoBlocks(r.stdout), nil
}

func (zypperManager) upgrades(ctx context.Context, c *Call, _ *Map) (*Map, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, zypper("--no-refresh", "list-updates")...)
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return nil, ExecErrorf("Failed to get upgrades: %s", r.stderr)
	}
	return parseZypperUpdates(r.stdout), nil
}

// zypperTable reads a table with | between its columns: rows by heading.
func zypperTable(out string) []map[string]string {
	var heads []string
	var rows []map[string]string
	for _, line := range strings.Split(out, "\n") {
		if !strings.Contains(line, "|") || strings.HasPrefix(strings.TrimSpace(line), "--") {
			continue
		}
		var cells []string
		for _, cell := range strings.Split(line, "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		if heads == nil {
			heads = cells
			continue
		}
		row := map[string]string{}
		for i, h := range heads {
			if i < len(cells) {
				row[h] = cells[i]
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func parseZypperUpdates(out string) *Map {
	found := &Map{}
	for _, row := range zypperTable(out) {
		if name, v := row["Name"], row["Available Version"]; name != "" && v != "" {
			found.Set(name, v)
		}
	}
	return found
}

func (zypperManager) refresh(ctx context.Context, c *Call, kwargs *Map) (any, error) {
	args := zypper("refresh")
	if v, ok := kwargs.Get("force"); !ok || Truth(v) {
		args = append(args, "--force")
	}
	r, err := runSaltTool(ctx, c, toolOptions{}, args...)
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return nil, ExecErrorf("%s", strings.TrimSpace(r.stderr+"\n"+r.stdout))
	}
	return parseZypperRefresh(r.stdout), nil
}

// parseZypperRefresh reads which repositories were fetched (True) or not (False).
func parseZypperRefresh(out string) *Map {
	ret := &Map{}
	for _, line := range strings.Split(out, "\n") {
		f := strings.Split(line, "'")
		if len(f) < 3 || !strings.Contains(line, "epository") {
			continue
		}
		switch {
		case strings.Contains(line, "is up to date"):
			ret.Set(f[1], false)
		case strings.Contains(line, "Retrieving"), strings.Contains(line, "Building"), strings.Contains(line, "Forcing"):
			ret.Set(f[1], true)
		}
	}
	return ret
}

func (zypperManager) installCommands(_ context.Context, _ *Call, req *pkgInstall) ([][]string, error) {
	base := zypper()
	if req.args.SkipVerify {
		base = append(base, "--no-gpg-checks")
	}
	base = append(base, "install", "--auto-agree-with-licenses")
	if req.args.Downloadonly {
		base = append(base, "--download-only")
	}
	if v, ok := req.args.Kwargs.Get("no_recommends"); ok && Truth(v) {
		base = append(base, "--no-recommends")
	}
	if req.from != "" {
		base = append(base, "--from", req.from)
	}
	var cmds [][]string
	add := func(options []string, names []string) {
		if len(names) > 0 {
			cmds = append(cmds, append(append(append([]string{}, base...), options...), names...))
		}
	}
	add(nil, req.targets)
	add([]string{"--oldpackage"}, req.downgrade)
	add([]string{"--force"}, req.reinstall)
	return cmds, nil
}

func (zypperManager) removeCommand(names []string, purge bool, _ *Map) []string {
	cmd := zypper("remove")
	if purge {
		cmd = append(cmd, "-u")
	}
	return append(cmd, names...)
}

func (zypperManager) upgradeCommand(kw *Map) []string {
	cmd := zypper()
	if Truth(kw.Value("skip_verify")) {
		cmd = append(cmd, "--no-gpg-checks")
	}
	action := "update"
	if Truth(kw.Value("dist_upgrade")) {
		action = "dist-upgrade"
	}
	cmd = append(cmd, action, "--auto-agree-with-licenses")
	for _, opt := range []struct{ key, option string }{{"dryrun", "--dry-run"}, {"no_recommends", "--no-recommends"}, {"novendorchange", "--no-allow-vendor-change"}} {
		if Truth(kw.Value(opt.key)) {
			cmd = append(cmd, opt.option)
		}
	}
	for _, repo := range commaList(kw.Value("fromrepo")) {
		cmd = append(cmd, "--repo", repo)
	}
	return append(cmd, upgradeNames(kw)...)
}

// failed: 100 to 106 tell of things to do, not of a failure.
func (zypperManager) failed(r cmdResult) string {
	if n, ok := toInt(r.retcode); ok && n >= 100 && n <= 106 && n != 104 {
		return ""
	}
	return rpmDatabase{}.failed(r)
}

func (zypperManager) available(ctx context.Context, c *Call, names []string, kwargs *Map) (*Map, error) {
	args := zypper("--no-refresh", "search", "-s", "-t", "package", "--match-exact")
	if v := kwargs.Value("fromrepo"); Truth(v) {
		args = append(args, "--repo", Str(v))
	}
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, append(args, names...)...)
	if err != nil {
		return nil, err
	}
	out := &Map{}
	for _, row := range zypperTable(r.stdout) {
		name, v := row["Name"], row["Version"]
		if name == "" || v == "" {
			continue
		}
		l, _ := out.Value(name).(*List)
		if l == nil {
			l = &List{}
			out.Set(name, l)
		}
		if !containsItem(l.Items, v) {
			l.Append(v)
		}
	}
	return out, nil
}

func (zypperManager) hold(on bool) func(context.Context, *Call, pkgHoldArgs) (any, error) {
	return func(ctx context.Context, c *Call, a pkgHoldArgs) (any, error) {
		names, err := holdTargets(a)
		if err != nil {
			return nil, err
		}
		r, err := runSaltTool(ctx, c, toolOptions{}, zypper("locks")...)
		if err != nil {
			return nil, err
		}
		locked := map[string]bool{}
		for _, row := range zypperTable(r.stdout) {
			locked[row["Name"]] = true
		}
		ret := &Map{}
		for _, name := range names {
			one := NewMap("name", name, "changes", &Map{}, "result", true, "comment", "")
			ret.Set(name, one)
			state, action, old, new := "not to be held", "removelock", "hold", ""
			if on {
				state, action, old, new = "to be held", "addlock", "", "hold"
			}
			if locked[name] == on {
				one.Set("comment", "Package "+name+" is already set "+state+".")
				continue
			}
			if c.Opts.Bool("test") {
				one.Set("result", nil)
				one.Set("comment", "Package "+name+" is set "+state+".")
				continue
			}
			ok, err := runOK(ctx, c, zypper(action, name)...)
			if err != nil {
				return nil, err
			}
			if one.Set("result", ok); ok {
				one.Set("changes", NewMap("old", old, "new", new))
			}
			if on {
				one.Set("comment", "Package "+name+" is now being held.")
			} else {
				one.Set("comment", "Package "+name+" is no longer being held.")
			}
		}
		return ret, nil
	}
}
