// Provider opkg of module pkg: OpenWrt and other small systems. Its database has
// dpkg's format; lists of files stand beside it.
package main

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

func opkgModule() Module {
	p := opkgManager{}
	return Module{
		Doc: "Manage packages with opkg.",
		Virtual: func(_ context.Context, c *Call) (bool, string) {
			return boxHas(c, "OpenWrt", "NILinuxRT") && which("opkg") != "" && opkgDir() != "", "Module opkg only works on OpenEmbedded based systems"
		},
		Funcs: pkgFuncs(p).with(Funcs{
			"hold":                     {run: pkgFlag("hold"), doc: "Keep packages at their versions."},
			"unhold":                   {run: pkgFlag("ok"), doc: "Let packages be upgraded again."},
			"info_installed":           {run: p.info, doc: "Return details of installed packages."},
			"list_repos":               {run: opkgListRepos, doc: "List the feeds."},
			"get_repo":                 {run: opkgGetRepo, doc: "Return a feed by its name."},
			"del_repo":                 {run: opkgDelRepo, doc: "Remove a feed; a file that has no other goes with it."},
			"mod_repo":                 {run: opkgModRepo, doc: "Add or change a feed: uri, alias, enabled, compressed, trusted.\n\nCLI Example:\n\n    salt '*' pkg.mod_repo custom uri=http://feed.example.org/packages"},
			"version_clean":            {run: opkgVersionClean, doc: "Return a version as it is."},
			"check_extra_requirements": {run: opkgNoRequirements, doc: "Say whether a package may be installed: always."},
		}),
	}
}

type opkgManager struct{}

func (opkgManager) compare(a, b string) int               { return dpkgCompare(a, b) }
func (opkgManager) normalize(_ *Call, name string) string { return name }
func (opkgManager) at(name, _ string) string              { return name } // opkg installs what its lists have

func opkgDir() string {
	for _, dir := range []string{"/usr/lib/opkg", "/var/lib/opkg"} {
		if isFile(dir + "/status") {
			return dir
		}
	}
	return ""
}

func (opkgManager) installed(context.Context, *Call) (have, removed *pkgVersions, err error) {
	f, err := os.Open(opkgDir() + "/status")
	if err != nil {
		return nil, nil, ExecErrorf("cannot read the list of installed packages: %s", osErrorText(err))
	}
	defer f.Close()
	return readDpkgStatus(bufio.NewReader(f), func(string) bool { return false })
}

// parseOpkgList reads lines like name - version - description.
func parseOpkgList(out string) map[string][]string {
	found := map[string][]string{}
	for _, line := range strings.Split(out, "\n") {
		f := strings.SplitN(line, " - ", 3)
		if len(f) >= 2 && !strings.HasPrefix(line, " ") {
			found[f[0]] = append(found[f[0]], strings.TrimSpace(f[1]))
		}
	}
	return found
}

func (opkgManager) candidates(ctx context.Context, c *Call, names []string, _ string, _ *Map) (map[string]string, error) {
	found := map[string]string{}
	for _, name := range names {
		r, err := runSaltTool(ctx, c, toolOptions{}, "opkg", "list", name)
		if err != nil {
			return nil, err
		}
		for _, v := range parseOpkgList(r.stdout)[name] {
			if found[name] == "" || dpkgCompare(v, found[name]) > 0 {
				found[name] = v
			}
		}
	}
	return found, nil
}

func (opkgManager) upgrades(ctx context.Context, c *Call, _ *Map) (*Map, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, "opkg", "list-upgradable")
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return nil, ExecErrorf("Failed to get upgrades: %s", r.stderr)
	}
	out := &Map{}
	for _, line := range strings.Split(r.stdout, "\n") {
		if f := strings.Split(line, " - "); len(f) == 3 {
			out.Set(f[0], strings.TrimSpace(f[2]))
		}
	}
	return out, nil
}

func (opkgManager) refresh(ctx context.Context, c *Call, kwargs *Map) (any, error) {
	r, err := runSaltTool(ctx, c, toolOptions{merge: true}, "opkg", "update")
	if err != nil {
		return nil, err
	}
	ret, bad := parseOpkgUpdate(r.stdout)
	if r.failed() && (len(bad) == 0 || pyIsTrue(kwargOf(kwargs, "failhard", false))) {
		return nil, ExecErrorf("Error getting repos: %s", strings.Join(append(bad, r.stdout), "\n"))
	}
	return ret, nil
}

// parseOpkgUpdate reads what opkg update prints: which feeds were fetched.
func parseOpkgUpdate(out string) (*Map, []string) {
	ret := &Map{}
	var bad []string
	for _, line := range strings.Split(out, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		last := strings.TrimRight(f[len(f)-1], ".")
		switch {
		case strings.Contains(line, "Updated list of available packages in"), strings.Contains(line, "Updated source"):
			ret.Set(filepath.Base(last), true)
		case strings.Contains(line, "Failed to download"):
			for _, w := range f {
				if strings.Contains(w, "://") {
					last = strings.TrimRight(w, ",.")
				}
			}
			ret.Set(last, false)
			bad = append(bad, last)
		}
	}
	return ret, bad
}

func (opkgManager) installCommands(_ context.Context, _ *Call, req *pkgInstall) ([][]string, error) {
	var cmds [][]string
	if len(req.targets) > 0 {
		cmd := []string{"opkg", "install"}
		if v, ok := req.args.Kwargs.Get("install_recommends"); ok && !Truth(v) {
			cmd = append(cmd, "--no-install-recommends")
		}
		cmds = append(cmds, append(cmd, req.targets...))
	}
	if len(req.downgrade) > 0 {
		cmds = append(cmds, append([]string{"opkg", "install", "--force-downgrade"}, req.downgrade...))
	}
	if len(req.reinstall) > 0 {
		cmds = append(cmds, append([]string{"opkg", "install", "--force-reinstall"}, req.reinstall...))
	}
	return cmds, nil
}

func (opkgManager) removeCommand(names []string, _ bool, kw *Map) []string {
	cmd := []string{"opkg", "remove"}
	if Truth(kw.Value("remove_dependencies")) {
		cmd = append(cmd, "--force-removal-of-dependent-packages")
	}
	if Truth(kw.Value("auto_remove_deps")) {
		cmd = append(cmd, "--autoremove")
	}
	return append(cmd, names...)
}

func (opkgManager) upgradeCommand(*Map) []string { return []string{"opkg", "upgrade"} }

// run runs opkg. It upgrades only what it is told, so that a bare upgrade gets all
// that can be.
func (p opkgManager) run(ctx context.Context, c *Call, args []string, _ *Map) (cmdResult, error) {
	if len(args) == 2 && args[1] == "upgrade" {
		all, err := p.upgrades(ctx, c, &Map{})
		if err != nil {
			return cmdResult{}, err
		}
		if all.Len() == 0 {
			return cmdResult{retcode: int64(0)}, nil
		}
		args = append(args, namesOf(all.Keys())...)
	}
	return runSaltTool(ctx, c, toolOptions{}, args...)
}

func (opkgManager) failed(r cmdResult) string { return apkManager{}.failed(r) }

func (opkgManager) fileInfo(context.Context, *Call, string) (name, version string, err error) {
	return "", "", ExecErrorf("opkg does not tell about files")
}

// opkgFiles lists the files of a package.
func opkgFiles(name string) ([]string, error) {
	lines, err := fileLines(filepath.Join(opkgDir(), "info", filepath.Base(name)+".list"))
	if err != nil {
		return nil, ExecErrorf("no packages found matching %s", name)
	}
	sort.Strings(lines)
	return lines, nil
}

func (p opkgManager) owner(ctx context.Context, c *Call, path string) (string, error) {
	have, _, err := p.installed(ctx, c)
	if err != nil {
		return "", err
	}
	for _, name := range have.names {
		if files, err := opkgFiles(name); err == nil && hasString(files, path) {
			return name, nil
		}
	}
	return "", nil
}

func (p opkgManager) files(ctx context.Context, c *Call, names []string) (*Map, error) {
	if len(names) == 0 {
		have, _, err := p.installed(ctx, c)
		if err != nil {
			return nil, err
		}
		names = have.names
	}
	out := &Map{}
	for _, name := range names {
		files, err := opkgFiles(name)
		if err != nil {
			return nil, err
		}
		out.Set(name, Strings(files))
	}
	return out, nil
}

func (opkgManager) available(ctx context.Context, c *Call, names []string, _ *Map) (*Map, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, "opkg", "list")
	if err != nil {
		return nil, err
	}
	found := parseOpkgList(r.stdout)
	if len(names) == 0 {
		for n := range found {
			names = append(names, n)
		}
		sort.Strings(names)
	}
	out := &Map{}
	for _, n := range names {
		if len(found[n]) > 0 {
			out.Set(n, Strings(found[n]))
		}
	}
	return out, nil
}

// pkgFlag is hold and unhold for opkg.
func pkgFlag(flag string) func(context.Context, *Call, pkgHoldArgs) (any, error) {
	return func(ctx context.Context, c *Call, a pkgHoldArgs) (any, error) {
		names, err := holdTargets(a)
		if err != nil {
			return nil, err
		}
		held := func() (map[string]bool, error) {
			out := map[string]bool{}
			name := ""
			err := scanLines(opkgDir()+"/status", func(line string) bool {
				if v, ok := strings.CutPrefix(line, "Package: "); ok {
					name = v
				}
				if v, ok := strings.CutPrefix(line, "Status: "); ok {
					f := strings.Fields(v)
					out[name] = len(f) == 3 && strings.Contains(f[1], "hold")
				}
				return true
			})
			return out, err
		}
		before, err := held()
		if err != nil {
			return nil, osError(err)
		}
		ret := &Map{}
		for _, name := range names {
			one := NewMap("name", name, "changes", &Map{}, "result", true, "comment", "")
			ret.Set(name, one)
			on, there := before[name]
			switch {
			case !there:
				one.Set("result", false)
				one.Set("comment", "Package "+name+" not currently held.")
			case on == (flag == "hold"):
				one.Set("comment", "Package "+name+" is already set to be "+map[bool]string{true: "held", false: "not held"}[on]+".")
			case c.Opts.Bool("test"):
				one.Set("result", nil)
				one.Set("comment", "Package "+name+" is set to be "+flag+".")
			default:
				ok, err := runOK(ctx, c, "opkg", "flag", flag, name)
				if err != nil {
					return nil, err
				}
				one.Set("result", ok)
				if flag == "hold" {
					one.Set("changes", NewMap("old", "install", "new", "hold"))
					one.Set("comment", "Package "+name+" is now being held.")
				} else {
					one.Set("changes", NewMap("old", "hold", "new", "ok"))
					one.Set("comment", "Package "+name+" is no longer being held.")
				}
			}
		}
		return ret, nil
	}
}

func (p opkgManager) info(_ context.Context, _ *Call, a pkgNamesArgs) (any, error) {
	names := namesOf(a.Names)
	out := &Map{}
	one, key := &Map{}, ""
	flush := func() {
		if name := one.Str("name"); name != "" && (len(names) == 0 || hasString(names, name)) {
			out.Set(name, one)
		}
		one, key = &Map{}, ""
	}
	rename := map[string]string{"Package": "name", "Maintainer": "packager", "Section": "group"}
	err := scanLines(opkgDir()+"/status", func(line string) bool {
		switch {
		case line == "":
			flush()
		case strings.HasPrefix(line, " "):
			if key == "description" {
				one.Set(key, one.Str(key)+"\n"+strings.TrimSpace(line))
			}
		default:
			k, v, _ := strings.Cut(line, ":")
			if key = strings.ToLower(k); rename[k] != "" {
				key = rename[k]
			}
			one.Set(key, strings.TrimSpace(v))
		}
		return true
	})
	flush()
	if err != nil {
		return nil, osError(err)
	}
	for _, n := range names {
		if !out.Has(n) && Truth(kwargOf(a.Kwargs, "failhard", true)) {
			return nil, ExecErrorf("Package %s is not installed", n)
		}
	}
	return out, nil
}
