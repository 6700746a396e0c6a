// Provider apt of module pkg: Debian and its relatives. Installed packages are
// read from dpkg's status file; apt-get and dpkg do the rest.
package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"
)

func aptModule() Module {
	p := aptManager{}
	return Module{
		Doc: "Manage packages with apt.",
		Virtual: func(_ context.Context, c *Call) (bool, string) {
			return grain(c, "os_family") == "Debian", "The pkg module could not be loaded: unsupported OS family"
		},
		Funcs: pkgFuncs(p).with(Funcs{
			"parse_arch":            {run: aptParseArch, doc: "Split a name like foo:i386 into name and architecture."},
			"hold":                  {run: aptHold, doc: "Keep packages at their versions.\n\nCLI Example:\n\n    salt '*' pkg.hold pkgs='[\"foo\", \"bar\"]'"},
			"unhold":                {run: aptUnhold, doc: "Let packages be upgraded again."},
			"get_selections":        {run: aptGetSelections, doc: "List packages by dpkg's selection state: install, hold, deinstall, purge."},
			"set_selections":        {run: aptSetSelections, doc: "Set dpkg's selection states: {hold: [foo]}, or a file in the format of dpkg."},
			"autoremove":            {run: p.autoremove, doc: "Remove packages that nothing needs any more; with list_only just list them."},
			"show":                  {run: p.show, doc: "Return what the repositories say about packages, by name and version."},
			"info_installed":        {run: p.infoInstalled, doc: "Return details of installed packages."},
			"list_repos":            {run: aptListRepos, doc: "List the entries of sources.list and the .list files beside it, by URI."},
			"get_repo":              {run: aptGetRepo, doc: "Return one entry of the sources, found by its line."},
			"mod_repo":              {run: aptModRepo, doc: aptModRepoDoc},
			"del_repo":              {run: aptDelRepo, doc: "Remove an entry of the sources, given by its line."},
			"expand_repo_def":       {run: aptExpandRepo, doc: "Split a line of the sources into its parts."},
			"get_repo_keys":         {run: aptGetRepoKeys, doc: "List the keys of repositories."},
			"add_repo_key":          {run: aptAddRepoKey, doc: "Add a key of a repository from a file, a text or a key server."},
			"del_repo_key":          {run: aptDelRepoKey, doc: "Remove a key of a repository."},
			"list_downloaded":       {run: aptListDownloaded, doc: "List the package files in apt's cache."},
			"services_need_restart": {run: aptServicesNeedRestart, doc: "List services that use files which were replaced since they started."},
		}),
	}
}

type aptManager struct{}

func (aptManager) compare(a, b string) int { return dpkgCompare(a, b) }
func (aptManager) purgesConfig() bool      { return true }

func aptEnv(kwargs *Map) *Map {
	env := NewMap("APT_LISTBUGS_FRONTEND", "none", "APT_LISTCHANGES_FRONTEND", "none", "DEBIAN_FRONTEND", "noninteractive", "UCF_FORCE_CONFFOLD", "1")
	switch e := kwargs.Value("env").(type) {
	case *Map:
		env.Merge(e)
	case *List:
		for _, item := range e.Items {
			if m, ok := item.(*Map); ok {
				env.Merge(m)
			}
		}
	}
	return env
}

// dpkgArch is the architecture of a package as it shows in its name: only that
// of a foreign one.
func dpkgForeign(c *Call, arch string) bool {
	osarch := grain(c, "osarch")
	return grain(c, "cpuarch") == "x86_64" && osarch == "amd64" && arch != "all" && arch != osarch
}

func (aptManager) installed(_ context.Context, c *Call) (have, removed *pkgVersions, err error) {
	f, err := os.Open("/var/lib/dpkg/status")
	if err != nil {
		return nil, nil, ExecErrorf("cannot read the list of installed packages: %s", osErrorText(err))
	}
	defer f.Close()
	return readDpkgStatus(bufio.NewReaderSize(f, 1<<16), func(arch string) bool { return dpkgForeign(c, arch) })
}

// readDpkgStatus reads dpkg's status file: installed packages, and those of which
// only the configuration is left.
func readDpkgStatus(r *bufio.Reader, foreign func(arch string) bool) (have, removed *pkgVersions, err error) {
	type entry struct{ name, version string }
	doomed := map[string]bool{}
	var inst, gone []entry
	var name, status, version, arch string
	flush := func() {
		f := strings.Fields(status)
		if name != "" && len(f) == 3 {
			if arch != "" && foreign(arch) {
				name += ":" + arch
			}
			switch {
			case (f[0] == "install" || f[0] == "hold") && strings.Contains(f[2], "installed") && version != "":
				inst = append(inst, entry{name, version})
			case f[0] == "deinstall" && version != "":
				gone = append(gone, entry{name, version})
			case f[0] == "purge" && f[2] == "installed" && version != "":
				inst = append(inst, entry{name, version})
				doomed[name] = true
			}
		}
		name, status, version, arch = "", "", "", ""
	}
	for {
		line, rerr := r.ReadSlice('\n')
		if rerr == bufio.ErrBufferFull { // a field longer than the buffer: its rest is of no interest
			for rerr == bufio.ErrBufferFull {
				_, rerr = r.ReadSlice('\n')
			}
			line = nil
		} else if len(bytes.TrimRight(line, "\n")) == 0 {
			flush()
		} else {
			switch line[0] {
			case 'P':
				dpkgField(line, "Package: ", &name)
			case 'S':
				dpkgField(line, "Status: ", &status)
			case 'V':
				dpkgField(line, "Version: ", &version)
			case 'A':
				dpkgField(line, "Architecture: ", &arch)
			}
		}
		if rerr != nil {
			break
		}
	}
	flush()
	collect := func(list []entry) *pkgVersions {
		sort.SliceStable(list, func(i, j int) bool { return list[i].name < list[j].name })
		p := &pkgVersions{}
		for _, e := range list {
			p.add(e.name, e.version)
		}
		return p
	}
	have, removed = collect(inst), collect(gone)
	have.doomed = doomed
	return have, removed, nil
}

func dpkgField(line []byte, key string, to *string) {
	if rest, ok := bytes.CutPrefix(line, []byte(key)); ok {
		*to = string(bytes.TrimSpace(rest))
	}
}

// run runs apt, waiting for other package managers to give its locks free.
func (aptManager) run(ctx context.Context, c *Call, args []string, kwargs *Map) (cmdResult, error) {
	return runApt(ctx, c, toolOptions{env: aptEnv(kwargs)}, inScope(c, args)...)
}

func runApt(ctx context.Context, c *Call, o toolOptions, args ...string) (cmdResult, error) {
	if o.env == nil {
		o.env = aptEnv(nil)
	}
	for try := 0; ; try++ {
		r, err := runSaltTool(ctx, c, o, args...)
		if err != nil || try == 60 || !strings.Contains(r.stderr, "Could not get lock") {
			return r, err
		}
		c.Log.Warn(fmt.Sprintf("Waiting for dpkg lock release: retrying... %d/60", try+1))
		if !sleepContext(ctx, 2*time.Second) {
			return r, ctx.Err()
		}
	}
}

func (aptManager) failed(r cmdResult) string {
	if r.failed() {
		return r.stderr
	}
	return ""
}

func (p aptManager) candidates(ctx context.Context, c *Call, names []string, from string, _ *Map) (map[string]string, error) {
	args := append([]string{"apt-cache", "-q", "policy"}, names...)
	if from != "" {
		args = append(args, "-o", "APT::Default-Release="+from)
	}
	r, err := runApt(ctx, c, toolOptions{}, args...)
	if err != nil {
		return nil, err
	}
	return parseAptPolicy(r.stdout), nil
}

// parseAptPolicy reads the candidates out of what apt-cache policy prints.
func parseAptPolicy(out string) map[string]string {
	found := map[string]string{}
	name := ""
	for _, line := range strings.Split(out, "\n") {
		if !strings.HasPrefix(line, " ") {
			name = strings.TrimSuffix(line, ":")
			continue
		}
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "Candidate: "); ok && v != "(none)" {
			found[name] = v
		}
	}
	return found
}

func (aptManager) upgrades(ctx context.Context, c *Call, kwargs *Map) (*Map, error) {
	args := []string{"apt-get", "--just-print", "upgrade"}
	if pyIsTrue(kwargOf(kwargs, "dist_upgrade", true)) {
		args[2] = "dist-upgrade"
	}
	if v := kwargs.Value("fromrepo"); v != nil {
		args = append(args, "-o", "APT::Default-Release="+Str(v))
	}
	r, err := runApt(ctx, c, toolOptions{}, inScope(c, args)...)
	if err != nil {
		return nil, err
	}
	if r.failed() {
		msg := "Failed to get upgrades"
		if r.stderr != "" {
			msg += ": " + r.stderr
		} else if r.stdout != "" {
			msg += ": " + r.stdout
		}
		return nil, ExecErrorf("%s", msg)
	}
	return parseAptSimulation(r.stdout), nil
}

// parseAptSimulation reads the lines "Conf name (version …" of a simulated run.
func parseAptSimulation(out string) *Map {
	found := &Map{}
	for _, line := range strings.Split(out, "\n") {
		rest, ok := strings.CutPrefix(line, "Conf ")
		if !ok {
			continue
		}
		f := strings.Fields(rest)
		if len(f) >= 2 && strings.HasPrefix(f[1], "(") {
			found.Set(f[0], strings.TrimRight(f[1][1:], ")"))
		}
	}
	return found
}

func (aptManager) refresh(ctx context.Context, c *Call, kwargs *Map) (any, error) {
	if n, ok := toFloat(kwargOf(kwargs, "cache_valid_time", int64(0))); ok && n > 0 {
		if st, err := os.Stat("/var/lib/apt/lists"); err == nil && time.Since(st.ModTime()).Seconds() < n {
			return &Map{}, nil
		}
	}
	r, err := runApt(ctx, c, toolOptions{}, "apt-get", "-q", "update")
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return nil, ExecErrorf("%s", r.stderr)
	}
	ret, bad := parseAptUpdate(r.stdout)
	if pyIsTrue(kwargOf(kwargs, "failhard", false)) && len(bad) > 0 {
		return nil, ExecErrorf("Error getting repos: %s", strings.Join(bad, ", "))
	}
	return ret, nil
}

// parseAptUpdate reads what apt-get update prints: True for what was fetched,
// None for what was up to date, False for what failed.
func parseAptUpdate(out string) (*Map, []string) {
	ret := &Map{}
	var bad []string
	for _, line := range pyLines(out, false) {
		cols := pyFields(line)
		if len(cols) == 0 {
			continue
		}
		ident := strings.Join(cols[1:], " ")
		switch {
		case strings.Contains(cols[0], "Get"):
			if i := strings.LastIndex(ident, " ["); i >= 0 && strings.HasSuffix(ident, "B]") {
				ident = ident[:i]
			}
			ret.Set(ident, true)
		case strings.Contains(cols[0], "Ign"):
			ret.Set(ident, false)
		case strings.Contains(cols[0], "Hit"):
			ret.Set(ident, nil)
		case strings.Contains(cols[0], "Err"):
			ret.Set(ident, false)
			bad = append(bad, ident)
		}
	}
	return ret, bad
}

// aptDpkgOptions say what happens to configuration files that were changed.
func aptDpkgOptions(kwargs *Map) []string {
	if Truth(kwargs.Value("force_conf_new")) {
		return []string{"-o", "DPkg::Options::=--force-confnew"}
	}
	return []string{"-o", "DPkg::Options::=--force-confold", "-o", "DPkg::Options::=--force-confdef"}
}

func (aptManager) installCommands(ctx context.Context, c *Call, req *pkgInstall) ([][]string, error) {
	kw := req.args.Kwargs
	base := []string{"apt-get", "-q", "-y"}
	if Truth(kw.Value("force_yes")) {
		base = append(base, "--force-yes")
	}
	base = append(base, aptDpkgOptions(kw)...)
	if v, ok := kw.Get("install_recommends"); ok {
		if Truth(v) {
			base = append(base, "--install-recommends")
		} else {
			base = append(base, "--no-install-recommends")
		}
	}
	if Truth(kw.Value("only_upgrade")) {
		base = append(base, "--only-upgrade")
	}
	if req.args.SkipVerify {
		base = append(base, "--allow-unauthenticated")
	}
	if req.from != "" && !req.files {
		base = append(base, "-t", req.from)
	}
	if req.args.Downloadonly {
		base = append(base, "--download-only")
	}
	command := func(options []string, names []string) []string {
		cmd := append(append([]string{}, base...), options...)
		return append(append(cmd, "install"), names...)
	}
	var cmds [][]string
	if len(req.targets) > 0 {
		cmds = append(cmds, command(nil, req.targets))
	}
	if len(req.downgrade) > 0 {
		cmds = append(cmds, command([]string{"--allow-downgrades"}, req.downgrade))
	}
	if len(req.reinstall) > 0 {
		var again []string
		if !req.files {
			again = []string{"--reinstall"}
		}
		cmds = append(cmds, command(again, req.reinstall))
	}
	return cmds, nil
}

func (aptManager) removeCommand(names []string, purge bool, _ *Map) []string {
	action := "remove"
	if purge {
		action = "purge"
	}
	return append([]string{"apt-get", "-q", "-y", action}, names...)
}

func (aptManager) upgradeCommand(kw *Map) []string {
	cmd := append([]string{"apt-get", "-q", "-y"}, aptDpkgOptions(kw)...)
	if Truth(kw.Value("force_yes")) {
		cmd = append(cmd, "--force-yes")
	}
	if Truth(kw.Value("skip_verify")) {
		cmd = append(cmd, "--allow-unauthenticated")
	}
	if Truth(kw.Value("download_only")) || Truth(kw.Value("downloadonly")) {
		cmd = append(cmd, "--download-only")
	}
	if Truth(kw.Value("allow_downgrades")) {
		cmd = append(cmd, "--allow-downgrades")
	}
	if Truth(kw.Value("dist_upgrade")) {
		return append(cmd, "dist-upgrade")
	}
	return append(cmd, "upgrade")
}

func (aptManager) fileInfo(ctx context.Context, c *Call, path string) (name, version string, err error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, "dpkg-deb", "-f", path, "Package", "Version", "Architecture")
	if err != nil {
		return "", "", err
	}
	if r.failed() {
		return "", "", ExecErrorf("Unable to get info for %s: %s", path, r.stderr)
	}
	arch := ""
	for _, line := range strings.Split(r.stdout, "\n") {
		dpkgField([]byte(line), "Package: ", &name)
		dpkgField([]byte(line), "Version: ", &version)
		dpkgField([]byte(line), "Architecture: ", &arch)
	}
	if name == "" || version == "" {
		return "", "", ExecErrorf("Unable to get name, version for %s", path)
	}
	if dpkgForeign(c, arch) {
		name += ":" + arch
	}
	return name, version, nil
}

func (aptManager) normalize(c *Call, name string) string {
	base, arch, ok := rsplit(name, ":")
	if ok && (arch == grain(c, "osarch") || arch == "all" || arch == "any") {
		return base
	}
	return name
}

func aptParseArch(_ context.Context, _ *Call, a nameArgs) (any, error) {
	if base, arch, ok := rsplit(a.Name, ":"); ok {
		return NewMap("name", base, "arch", arch), nil
	}
	return NewMap("name", a.Name, "arch", nil), nil
}

func (aptManager) owner(ctx context.Context, c *Call, path string) (string, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, "dpkg", "-S", path)
	if err != nil {
		return "", err
	}
	name, _, _ := strings.Cut(r.stdout, ":")
	if strings.Contains(strings.ToLower(name), "no path found") {
		return "", nil
	}
	return name, nil
}

func (p aptManager) files(ctx context.Context, c *Call, names []string) (*Map, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, append([]string{"dpkg-query", "-f=${db:Status-Status}\t${binary:Package}\n", "-W"}, names...)...)
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return nil, ExecErrorf("%s", r.stderr)
	}
	out := &Map{}
	for _, line := range strings.Split(r.stdout, "\n") {
		name, ok := strings.CutPrefix(line, "installed\t")
		if !ok {
			continue
		}
		r, err := runSaltTool(ctx, c, toolOptions{merge: true}, "dpkg", "-L", name)
		if err != nil {
			return nil, err
		}
		out.Set(name, Strings(pyLines(r.stdout, false)))
	}
	return out, nil
}

func (aptManager) available(ctx context.Context, c *Call, names []string, _ *Map) (*Map, error) {
	args := []string{"apt-cache", "dump"}
	if len(names) > 0 {
		args = append([]string{"apt-cache", "show"}, names...)
	}
	r, err := runApt(ctx, c, toolOptions{ignore: true, quiet: true}, args...)
	if err != nil {
		return nil, err
	}
	out := &Map{}
	name := ""
	for _, line := range strings.Split(r.stdout, "\n") {
		if rest, ok := strings.CutPrefix(line, "Package: "); ok {
			name = strings.TrimSpace(rest)
			continue
		}
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "Version: ")
		if !ok {
			continue
		}
		l, _ := out.Value(name).(*List)
		if l == nil {
			l = &List{}
			out.Set(name, l)
		}
		l.Append(strings.TrimSpace(rest))
	}
	return out, nil
}
