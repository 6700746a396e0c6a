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
		Funcs: pkgFuncs(p).with(opkgFeedFuncs(p)).with(Funcs{
			"hold":                     {run: p.hold, doc: "Keep packages at their versions."},
			"unhold":                   {run: p.unhold, doc: "Let packages be upgraded again."},
			"info_installed":           {run: p.info, doc: pkgInfoInstalledDoc},
			"version_clean":            {run: opkgVersionClean, doc: "Return a version without what does not belong to it: nothing with opkg."},
			"check_extra_requirements": {run: opkgExtraRequirements, doc: "Say whether more is required of a package than its version: never with opkg."},
		}),
	}
}

type opkgManager struct{}

func (opkgManager) compare(a, b string) int               { return dpkgCompare(a, b) }
func (opkgManager) normalize(_ *Call, name string) string { return name }

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
	r, err := runSaltTool(ctx, c, toolOptions{merge: true, ignore: true}, "opkg", "update")
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

func (p opkgManager) installCommands(ctx context.Context, c *Call, req *pkgInstall) ([][]string, error) {
	cmd := []string{"opkg", "install"}
	if v, ok := req.args.Kwargs.Get("install_recommends"); ok && !Truth(v) {
		cmd = append(cmd, "--no-install-recommends")
	}
	if req.files {
		cmd = append(cmd, "--force-downgrade")
	}
	var cmds [][]string
	add := func(names []string, more ...string) error {
		if len(names) == 0 {
			return nil
		}
		names, err := p.withoutVersions(ctx, c, names, req.files)
		cmds = append(cmds, append(append(append([]string{}, cmd...), more...), names...))
		return err
	}
	if err := add(req.targets); err != nil {
		return nil, err
	}
	if err := add(req.downgrade, "--force-downgrade"); err != nil {
		return nil, err
	}
	return cmds, add(req.reinstall, "--force-reinstall")
}

// withoutVersions makes names of name=version: opkg installs what its lists have, so
// it has to be that version.
func (p opkgManager) withoutVersions(ctx context.Context, c *Call, targets []string, files bool) ([]string, error) {
	var out []string
	for _, t := range targets {
		name, version, ok := strings.Cut(t, "=")
		if files || !ok {
			out = append(out, t)
			continue
		}
		found, err := p.candidates(ctx, c, []string{name}, "", nil)
		if err != nil {
			return nil, err
		}
		if found[name] != "" && found[name] != version {
			return nil, ExecErrorf("opkg cannot install version %s of %s: its lists have %s", version, name, found[name])
		}
		out = append(out, name)
	}
	return out, nil
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

func (opkgManager) fileInfo(_ context.Context, _ *Call, path string) (name, version string, err error) {
	control, err := ipkControl(path)
	if err != nil {
		return "", "", ExecErrorf("Unable to get info for %s: %s", path, err)
	}
	return controlField(control, "Package:"), controlField(control, "Version:"), nil
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
		if files, err := opkgFiles(name); err == nil { // else it is not installed
			out.Set(name, Strings(files))
		}
	}
	return out, nil
}

func (opkgManager) available(ctx context.Context, c *Call, names []string, _ *Map) (*Map, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, "opkg", "list")
	if err != nil {
		return nil, err
	}
	out := &Map{}
	for name, versions := range parseOpkgList(r.stdout) {
		if nameMatches(names, name) {
			out.Set(name, Strings(versions))
		}
	}
	return out, nil
}

// opkgFlags reads the flag of each installed package: hold, user, ok …
func opkgFlags() (map[string]string, error) {
	out := map[string]string{}
	name := ""
	err := scanLines(opkgDir()+"/status", func(line string) bool {
		if v, ok := strings.CutPrefix(line, "Package: "); ok {
			name = v
		}
		if v, ok := strings.CutPrefix(line, "Status: "); ok {
			if f := strings.Fields(v); len(f) == 3 {
				out[name] = f[1]
			}
		}
		return true
	})
	if err != nil {
		return nil, osError(err)
	}
	return out, nil
}

func (p opkgManager) hold(ctx context.Context, c *Call, a pkgHoldArgs) (any, error) {
	return p.setFlag(ctx, c, a, "hold", "not currently held.", "is already set to be held.", "is set to be held.", "is now being held.")
}

func (p opkgManager) unhold(ctx context.Context, c *Call, a pkgHoldArgs) (any, error) {
	return p.setFlag(ctx, c, a, "ok", "does not have a state.", "is already set not to be held.", "is set not to be held.", "is no longer being held.")
}

func (opkgManager) setFlag(ctx context.Context, c *Call, a pkgHoldArgs, flag, unknown, already, would, done string) (any, error) {
	names, err := holdTargets(a)
	if err != nil {
		return nil, err
	}
	flags, err := opkgFlags()
	if err != nil {
		return nil, err
	}
	ret := &Map{}
	for _, name := range names {
		one := NewMap("name", name, "changes", &Map{}, "result", true, "comment", "")
		ret.Set(name, one)
		words := done
		switch old := flags[name]; {
		case old == "":
			words = unknown
			one.Set("result", false)
		case (old == "hold") == (flag == "hold"):
			words = already
		case c.Opts.Bool("test"):
			words = would
			one.Set("result", nil)
		default:
			if _, err := runText(ctx, c, "opkg", "flag", flag, name); err != nil {
				return nil, err
			}
			one.Set("changes", NewMap("old", old, "new", flag))
		}
		one.Set("comment", "Package "+name+" "+words)
	}
	return ret, nil
}

// opkgAttributes are the names of fields where they are not the fields themselves.
func opkgAttributes() map[string]string {
	return map[string]string{"Architecture": "arch", "Homepage": "url", "Installed-Time": "install_date_time_t", "Maintainer": "packager", "Package": "name", "Section": "group"}
}

func (p opkgManager) info(_ context.Context, _ *Call, a pkgNamesArgs) (any, error) {
	status, err := os.ReadFile(opkgDir() + "/status")
	if err != nil {
		return nil, osError(err)
	}
	var wanted []string
	if v := a.Kwargs.Value("attr"); v != nil {
		wanted = splitInput(v)
	}
	return parseOpkgStatus(string(status), namesOf(a.Names), wanted), nil
}

// parseOpkgStatus reads the details of packages: of those in names, or all; only the
// wanted attributes, or all. A field may go on in lines that begin with a blank.
func parseOpkgStatus(text string, names, wanted []string) *Map {
	out := &Map{}
	for _, block := range strings.Split(text, "\n\n") {
		one, key, name := &Map{}, "", ""
		for _, line := range pyLines(block, false) {
			if strings.HasPrefix(line, " ") {
				if one.Has(key) {
					one.Set(key, strings.TrimPrefix(one.Str(key)+"\n"+strings.TrimSpace(line), "\n"))
				}
				continue
			}
			field, value, _ := strings.Cut(line, ":")
			if key = opkgAttributes()[field]; key == "" {
				key = strings.ToLower(field)
			}
			value = strings.TrimSpace(value)
			if key == "name" {
				name = value
			} else if wanted == nil || hasString(wanted, key) {
				one.Set(key, value)
			}
		}
		if name != "" && (len(names) == 0 || hasString(names, name)) {
			out.Set(name, one)
		}
	}
	return out
}

type opkgVersionArgs struct{ Version any }

func opkgVersionClean(_ context.Context, _ *Call, a opkgVersionArgs) (any, error) {
	return a.Version, nil
}

type opkgRequirementsArgs struct{ Pkgname, Pkgver any }

func opkgExtraRequirements(context.Context, *Call, opkgRequirementsArgs) (any, error) {
	return true, nil
}
