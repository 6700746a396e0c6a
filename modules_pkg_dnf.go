// Provider dnf of module pkg: Red Hat and its relatives, with dnf or yum.
package main

import (
	"context"
	"sort"
	"strings"
)

func dnfModule() Module {
	p := dnfManager{}
	m := pkgCommon{p}
	holds := `by the versionlock plugin.`
	return Module{
		Doc: "Manage packages with dnf or yum.",
		Virtual: func(_ context.Context, c *Call) (bool, string) {
			return boxHas(c, "RedHat") && dnfTool() != "" && which("rpm") != "", "The dnf provider needs rpm and dnf or yum"
		},
		Funcs: pkgFuncs(p).with(rpmLowFuncs()).with(dnfRepoFuncs()).with(dnfGroupFuncs(m)).with(Funcs{
			"list_pkgs":           {run: p.listPkgs(m), doc: pkgListDoc + " attr (a list\nof epoch, version, release, arch, install_date and install_date_time_t, or all) tells more of\neach package."},
			"upgrade":             {run: m.upgradeNamed, doc: pkgUpgradeNamedDoc},
			"update":              {run: p.update, doc: "pkg.upgrade that keeps packages which others replace."},
			"list_updates":        {run: m.listUpgrades, pyname: "list_upgrades", doc: "The same as pkg.list_upgrades."},
			"clean_metadata":      {run: m.refreshDB, pyname: "clean_metadata", doc: "The same as pkg.refresh_db."},
			"info_installed":      {run: rpmInfoInstalled, doc: pkgInfoInstalledDoc},
			"parse_arch":          {run: rpmParseArch, doc: "Split a name into name and architecture."},
			"hold":                {run: p.hold, doc: "Keep packages at their versions, " + holds},
			"unhold":              {run: p.unhold, doc: "Let packages be upgraded again that are kept " + holds},
			"list_holds":          {run: p.listHolds, doc: "List the versions that packages are kept at; with full=False their names."},
			"get_locked_packages": {run: p.listHolds, pyname: "list_holds", doc: "The same as pkg.list_holds."},
			"list_downloaded":     {run: p.listDownloaded, doc: "List the packages that were downloaded, with path, size and time of each version."},
			"download":            {run: p.download, doc: "Download packages without installing them; needs yumdownloader."},
			"diff":                {run: rpmDiff, doc: "Compare files of this box with those of their packages, which are downloaded."},
		}),
	}
}

type dnfManager struct{ rpmDatabase }

// dnfTool is the manager that is there, the newest first.
func dnfTool() string {
	for _, name := range []string{"dnf5", "dnf", "tdnf", "yum", "microdnf"} {
		if which(name) != "" {
			return name
		}
	}
	return ""
}

// dnfAt is what dnf and yum take for a version: name-version-release without epoch;
// an architecture comes last.
func (dnfManager) at(name, version string) string {
	version = withoutEpoch(version)
	if base, arch, ok := rsplit(name, "."); ok && isRpmArch(arch) {
		return base + "-" + version + "." + arch
	}
	return name + "-" + version
}

func (dnfManager) failureText(action string, reinstalls bool) string {
	if action == "removing" {
		return "Error occurred removing package(s)"
	}
	if reinstalls {
		return "Error occurred installing/reinstalling package(s)"
	}
	return "Error occurred installing package(s)"
}

// dnfOptions are the options that choose repositories and settings.
func dnfOptions(from any, kw *Map) []string {
	var out []string
	if !Truth(from) {
		from = kw.Value("repo")
	}
	if Truth(from) {
		out = append(out, "--disablerepo=*", "--enablerepo="+Str(from))
	} else {
		for _, k := range []string{"disablerepo", "enablerepo"} {
			v := kw.Value(k)
			if l, ok := v.(*List); ok {
				for _, repo := range namesOf(l.Items) {
					out = append(out, "--"+k+"="+repo)
				}
			} else if Truth(v) {
				out = append(out, "--"+k+"="+Str(v))
			}
		}
	}
	for _, k := range []string{"disableexcludes", "branch"} {
		if v := kw.Value(k); Truth(v) {
			out = append(out, "--"+k+"="+Str(v))
		}
	}
	if v := kw.Value("setopt"); v != nil {
		for _, o := range splitInput(v) {
			out = append(out, "--setopt="+o)
		}
	}
	return out
}

// dnfExtraOptions are other arguments, which become options of an upgrade.
func dnfExtraOptions(kw *Map) []string {
	own := []string{"fromrepo", "repo", "disablerepo", "enablerepo", "disableexcludes", "branch", "setopt", "minimal", "obsoletes", "skip_verify",
		"normalize", "diff_attr", "dist_upgrade", "names", "cache_valid_time"}
	var keys, out []string
	for _, k := range namesOf(kw.Keys()) {
		if !strings.HasPrefix(k, "__") && !hasString(own, k) {
			keys = append(keys, k)
		}
	}
	sort.Strings(keys)
	for _, k := range keys {
		switch v := kw.Value(k).(type) {
		case string:
			out = append(out, "--"+k+"="+v)
		case bool:
			if v {
				out = append(out, "--"+k)
			}
		}
	}
	return out
}

// dnfPackage is one line of a list: name (with a foreign architecture), version and
// repository.
type dnfPackage struct{ name, version, repo string }

// parseDnfList reads the table of `dnf list`: name.arch, version, repository. The
// words come in threes, whatever the lines: long names put the rest on the next.
func parseDnfList(out string, own []string) []dnfPackage {
	var found []dnfPackage
	var row []string
	for _, line := range strings.Split(out, "\n") {
		f := strings.Fields(line)
		if row == nil && (len(f) == 0 || !strings.Contains(f[0], ".") || strings.HasSuffix(f[len(f)-1], ":")) {
			continue // a heading
		}
		row = append(row, f...)
		if len(row) < 3 {
			continue
		}
		p := dnfPackage{row[0], strings.TrimPrefix(row[1], "0:"), strings.TrimLeft(row[2], "@")}
		if base, arch, ok := rsplit(p.name, "."); ok && hasString(own, arch) {
			p.name = base
		}
		found = append(found, p)
		row = nil
	}
	return found
}

func (d dnfManager) list(ctx context.Context, c *Call, options []string, what ...string) ([]dnfPackage, error) {
	args := append([]string{dnfTool(), "--quiet"}, options...)
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, append(args, what...)...)
	if err != nil {
		return nil, err
	}
	return parseDnfList(r.stdout, rpmArches(c)), nil
}

func (d dnfManager) candidates(ctx context.Context, c *Call, names []string, from string, kw *Map) (map[string]string, error) {
	all, err := d.list(ctx, c, dnfOptions(from, kw), append([]string{"list", "available"}, names...)...)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, p := range all {
		if found[p.name] == "" || rpmCompare(p.version, found[p.name]) > 0 {
			found[p.name] = p.version
		}
	}
	return found, nil
}

func (d dnfManager) upgrades(ctx context.Context, c *Call, kw *Map) (*Map, error) {
	word := "--upgrades"
	if dnfTool() == "yum" {
		word = "updates"
	}
	all, err := d.list(ctx, c, dnfOptions(kw.Value("fromrepo"), kw), "list", word)
	if err != nil {
		return nil, err
	}
	out := &Map{}
	for _, p := range all {
		out.Set(p.name, p.version)
	}
	return out, nil
}

func (d dnfManager) refresh(ctx context.Context, c *Call, kwargs *Map) (any, error) {
	options := dnfOptions(kwargs.Value("fromrepo"), kwargs)
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
	options := dnfOptions(req.from, req.args.Kwargs)
	if req.args.SkipVerify {
		options = append(options, "--nogpgcheck")
	}
	if req.args.Downloadonly {
		options = append(options, "--downloadonly")
	}
	var cmds [][]string
	add := func(action string, names []string, more ...string) {
		if len(names) > 0 {
			cmd := append(append([]string{dnfTool(), "-y"}, more...), options...)
			cmds = append(cmds, append(append(cmd, action), names...))
		}
	}
	switch dnfTool() {
	case "dnf":
		add("install", req.targets, "--best", "--allowerasing")
	case "dnf5":
		add("install", append([]string{"--best", "--allowerasing"}, req.targets...))
	default:
		add("install", req.targets)
	}
	add("downgrade", req.downgrade)
	add("reinstall", req.reinstall)
	return cmds, nil
}

// run runs dnf. An installation tells of its problems in both outputs, which belong
// together then.
func (dnfManager) run(ctx context.Context, c *Call, args []string, _ *Map) (cmdResult, error) {
	merge := false
	for _, action := range []string{"install", "downgrade", "reinstall"} {
		merge = merge || hasString(args, action)
	}
	return runSaltTool(ctx, c, toolOptions{merge: merge}, inScope(c, args)...)
}

func (dnfManager) failed(r cmdResult) string { return apkManager{}.failed(r) }

// sideBySide says that several versions of a package live together: an older one
// is installed, not gone back to.
func (dnfManager) sideBySide(name string) bool { return name == "kernel" || name == "kernel-devel" }

func (d dnfManager) removeCommand(names []string, _ bool, _ *Map) []string {
	return append([]string{dnfTool(), "-y", "remove"}, names...)
}

func (d dnfManager) upgradeCommand(kw *Map) []string {
	keepObsolete := kw.Has("obsoletes") && !Truth(kw.Value("obsoletes"))
	options := kw
	action := "upgrade"
	if keepObsolete && dnfTool() == "yum" {
		action = "update"
	} else if keepObsolete {
		var set []string
		for _, o := range splitInput(kwargOf(kw, "setopt", &List{})) {
			if !strings.HasPrefix(o, "obsoletes=") {
				set = append(set, o)
			}
		}
		options = kw.Clone()
		options.Set("setopt", Strings(append(set, "obsoletes=False")))
	}
	cmd := append([]string{dnfTool(), "--quiet", "-y"}, dnfOptions(kw.Value("fromrepo"), options)...)
	cmd = append(cmd, dnfExtraOptions(kw)...)
	if Truth(kw.Value("skip_verify")) {
		cmd = append(cmd, "--nogpgcheck")
	}
	if Truth(kw.Value("minimal")) {
		action += "-minimal"
	}
	return append(append(cmd, action), pkgUpgradeNames(kw)...)
}

func (d dnfManager) update(ctx context.Context, c *Call, a pkgUpgradeNamedArgs) (any, error) {
	kw := a.Kwargs.Clone()
	kw.Set("obsoletes", false)
	a.Kwargs = kw
	return pkgCommon{d}.upgradeNamed(ctx, c, a)
}

func (d dnfManager) available(ctx context.Context, c *Call, names []string, kw *Map) (*Map, error) {
	repos, err := d.chosenRepos(kw)
	if err != nil {
		return nil, err
	}
	byRepo := versionTable{}
	for _, repo := range repos {
		args := []string{"--showduplicates", "repository-packages", repo, "list"}
		if dnfTool() == "dnf5" {
			args = []string{"list", "--showduplicates", "--repo=" + repo}
		}
		if Truth(kw.Value("cacheonly")) {
			args = append(args, "-C")
		}
		all, err := d.list(ctx, c, dnfOptions(kw.Value("fromrepo"), onlyKeys(kw, "setopt", "branch", "disableexcludes")), append(args, names...)...)
		if err != nil {
			return nil, err
		}
		for _, p := range all {
			byRepo.add(p.repo, p.name, p.version)
		}
	}
	return byRepo.versions(Truth(kw.Value("byrepo"))), nil
}

// chosenRepos are the repositories to look into: those of fromrepo, or all that are
// enabled by their files or the arguments.
func (d dnfManager) chosenRepos(kw *Map) ([]string, error) {
	lists := map[string][]string{}
	for _, k := range []string{"fromrepo", "enablerepo", "disablerepo"} {
		l, err := textOptions(kw, k)
		if err != nil {
			return nil, err
		}
		lists[k] = l
	}
	if len(lists["fromrepo"]) > 0 && lists["fromrepo"][0] != "" {
		return lists["fromrepo"], nil
	}
	dirs, err := dnfRepoDirs(nil)
	if err != nil {
		return nil, err
	}
	all, err := rpmRepos(dirs)
	if err != nil {
		return nil, err
	}
	var out []string
	for id, v := range all.All() {
		name := Str(id)
		enabled := Str(kwargOf(v.(*Map), "enabled", "1")) == "1"
		if hasString(lists["enablerepo"], name) || enabled && !hasString(lists["disablerepo"], name) {
			out = append(out, name)
		}
	}
	return out, nil
}

// advisoryCommands update what advisories are about.
func (d dnfManager) advisoryCommands(ctx context.Context, c *Call, req *pkgInstall, ids []string) ([][]string, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, dnfTool(), "--quiet", "updateinfo", "list", "all")
	if err != nil {
		return nil, err
	}
	known := parseDnfAdvisories(r.stdout, false)
	cmd := append([]string{dnfTool(), "-y"}, dnfOptions(req.args.Fromrepo, req.args.Kwargs)...)
	cmd = append(cmd, "update")
	for _, id := range ids {
		if !known.Has(id) {
			return nil, ExecErrorf(`Advisory id "%s" not found`, id)
		}
		cmd = append(cmd, "--advisory="+id)
	}
	return [][]string{cmd}, nil
}
