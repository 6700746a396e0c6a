// Provider dnf of module pkg: groups of packages, advisories, downloads, and
// upgrades of single packages.
package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// moreFuncs are the functions of pkg that only dnf and yum have.
func (d dnfManager) moreFuncs() Funcs {
	m := pkgCommon{d}
	return Funcs{
		"upgrade":                {run: d.upgradeThese, pyname: "upgrade", doc: "Install upgrades, all or those of name or pkgs, and return what changed. minimal=True only\ntakes what an advisory asks for.\n\nCLI Example:\n\n    salt '*' pkg.upgrade name=openssl"},
		"update":                 {run: d.upgradeThese, pyname: "update", doc: "The same as pkg.upgrade."},
		"list_updates":           {run: m.listUpgrades, pyname: "list_upgrades", doc: "The same as pkg.list_upgrades."},
		"clean_metadata":         {run: m.refreshDB, pyname: "clean_metadata", doc: "The same as pkg.refresh_db."},
		"get_locked_packages":    {run: d.listHolds, pyname: "list_holds", doc: "The same as pkg.list_holds."},
		"group_list":             {run: dnfGroupList, doc: "List the groups of packages: installed, available, environments."},
		"group_info":             {run: dnfGroupInfo, doc: "Return the packages of a group; expand=True those of the groups of an environment too.\n\nCLI Example:\n\n    salt '*' pkg.group_info 'Perl Support'"},
		"group_diff":             {run: dnfGroupDiff, doc: "Say which packages of a group are installed and which are not."},
		"group_install":          {run: dnfGroupInstall, doc: "Install the mandatory and default packages of groups, without those in skip, with those in\ninclude."},
		"groupinstall":           {run: dnfGroupInstall, pyname: "group_install", doc: "The same as pkg.group_install."},
		"list_patches":           {run: dnfPatches(false), pyname: "list_patches", doc: "Return the advisories of the repositories with their packages."},
		"list_installed_patches": {run: dnfPatches(true), pyname: "list_installed_patches", doc: "Return the advisories that are installed."},
		"download":               {run: dnfDownload, doc: "Download packages without installing them, and return their paths."},
		"services_need_restart":  {run: dnfNeedsRestart, doc: "List the services that still run files of packages that were upgraded."},
	}
}

func (d dnfManager) upgradeThese(ctx context.Context, c *Call, a struct {
	Name       any  `def:"None"`
	Pkgs       any  `def:"None"`
	Refresh    any  `def:"True"`
	SkipVerify bool `def:"False"`
	Normalize  bool `def:"True"`
	Minimal    bool `def:"False"`
	Obsoletes  bool `def:"True"`
	DiffAttr   any  `def:"None"`
	Kwargs     *Map `arg:"**kwargs"`
}) (any, error) {
	kw := a.Kwargs.Clone()
	kw.Merge(NewMap("name", a.Name, "pkgs", a.Pkgs, "skip_verify", a.SkipVerify, "minimal", a.Minimal))
	return pkgCommon{d}.upgrade(ctx, c, pkgUpgradeArgs{Refresh: a.Refresh, DistUpgrade: false, Kwargs: kw})
}

// upgradeNames are the packages that an upgrade is limited to, none for all.
func upgradeNames(kw *Map) []string {
	names := commaList(kw.Value("name"))
	for _, item := range toItems(kw.Value("pkgs")) {
		if m, ok := item.(*Map); ok && m.Len() > 0 {
			item, _ = m.At(0)
		}
		names = append(names, Str(item))
	}
	return names
}

func dnfGroupList(ctx context.Context, c *Call, _ noArgs) (any, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, dnfTool(), "group", "list", "hidden")
	return parseGroupList(r.stdout), err
}

func parseGroupList(text string) *Map {
	ret := NewMap("installed", &List{}, "available", &List{}, "installed environments", &List{}, "available environments", &List{}, "available languages", &Map{})
	sections := map[string]string{"installed groups:": "installed", "available groups:": "available", "installed environment groups:": "installed environments",
		"available environment groups:": "available environments", "available language groups:": "available languages"}
	section := ""
	language := regexp.MustCompile(`^(.+) \[(.+)\]`)
	for _, line := range strings.Split(text, "\n") {
		low := strings.ToLower(strings.TrimSpace(line))
		name := strings.TrimSpace(line)
		switch {
		case low == "done":
			return ret
		case sections[low] != "":
			section = sections[low]
		case section == "" || name == "":
		case section == "available languages":
			if m := language.FindStringSubmatch(name); m != nil {
				ret.Map(section).Set(name, NewMap("name", m[1], "language", m[2]))
			}
		default:
			l, _ := ret.Value(section).(*List)
			l.Append(name)
		}
	}
	return ret
}

func pkgTypes() []string { return []string{"mandatory", "optional", "default", "conditional"} }

type dnfGroupArgs struct {
	Name         string
	Expand       bool `def:"False"`
	IgnoreGroups any  `def:"None"`
	Kwargs       *Map `arg:"**kwargs"`
}

func dnfGroupInfo(ctx context.Context, c *Call, a dnfGroupArgs) (any, error) {
	seen := map[string]bool{}
	for _, name := range namesOf(toItems(a.IgnoreGroups)) {
		seen[name] = true
	}
	return dnfGroup(ctx, c, a.Name, a.Expand, a.Kwargs, seen)
}

// dnfGroup reads one group, and with expand the groups of an environment.
func dnfGroup(ctx context.Context, c *Call, name string, expand bool, kw *Map, seen map[string]bool) (*Map, error) {
	cmd := append([]string{dnfTool(), "--quiet"}, dnfRepoOptions(Str(kwargOf(kw, "fromrepo", "")), kw)...)
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, append(cmd, "group", "info", name)...)
	if err != nil {
		return nil, err
	}
	ret, members := parseGroupInfo(r.stdout)
	if ret == nil {
		return nil, ExecErrorf("Group '%s' not found", name)
	}
	for _, kind := range pkgTypes() {
		all := map[string]bool{}
		for _, member := range members[kind] {
			if !expand || ret.Str("type") != "environment group" {
				all[member] = true
				continue
			}
			if seen[member] {
				continue
			}
			seen[member] = true
			below, err := dnfGroup(ctx, c, member, true, kw, seen)
			if err != nil {
				return nil, err
			}
			for _, below := range namesOf(toItems(below.Value(kind))) {
				all[below] = true
			}
		}
		var sorted []string
		for member := range all {
			sorted = append(sorted, member)
		}
		sort.Strings(sorted)
		ret.Set(kind, Strings(sorted))
	}
	return ret, nil
}

// parseGroupInfo reads what dnf says of a group: its names, and its members by
// kind. nil: there is no such group.
func parseGroupInfo(text string) (*Map, map[string][]string) {
	info, members := map[string]string{}, map[string][]string{}
	kind := ""
	for _, line := range strings.Split(text, "\n") {
		key, value, pair := strings.Cut(line, ":")
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
		if word, rest, _ := strings.Cut(key, " "); pair && hasString(pkgTypes(), word) && (rest == "packages" || rest == "groups") {
			kind = word
			if value != "" {
				members[kind] = append(members[kind], value)
			}
			continue
		}
		if member := strings.Trim(strings.TrimSpace(line), "+-=* "); kind != "" && member != "" {
			members[kind] = append(members[kind], strings.TrimSpace(strings.TrimPrefix(member, ":")))
			continue
		}
		if pair && kind == "" {
			info[key] = value
		}
	}
	first := func(keys ...string) any {
		for _, k := range keys {
			if info[k] != "" {
				return info[k]
			}
		}
		return nil
	}
	group, id := first("environment group", "group", "name"), first("environment-id", "group-id", "id")
	if group == nil && id == nil {
		return nil, nil
	}
	kindOf := "package group"
	if info["environment group"] != "" {
		kindOf = "environment group"
	}
	return NewMap("type", kindOf, "group", group, "id", id, "description", info["description"]), members
}

// splitByInstalled sorts the members of a group into installed and not.
func splitByInstalled(ctx context.Context, c *Call, group *Map) (any, error) {
	have, err := runMap(ctx, c, "pkg.list_pkgs")
	if err != nil {
		return nil, err
	}
	ret := &Map{}
	for _, kind := range pkgTypes() {
		in, out := &List{}, &List{}
		for _, name := range toItems(group.Value(kind)) {
			if have.Has(name) {
				in.Append(name)
			} else {
				out.Append(name)
			}
		}
		ret.Set(kind, NewMap("installed", in, "not installed", out))
	}
	return ret, nil
}

func dnfGroupDiff(ctx context.Context, c *Call, a pkgNameKwArgs) (any, error) {
	group, err := dnfGroup(ctx, c, a.Name, true, a.Kwargs, map[string]bool{})
	if err != nil {
		return nil, err
	}
	return splitByInstalled(ctx, c, group)
}

func dnfGroupInstall(ctx context.Context, c *Call, a struct {
	Name    any
	Skip    any  `def:"()"`
	Include any  `def:"()"`
	Kwargs  *Map `arg:"**kwargs"`
}) (any, error) {
	groups := commaList(a.Name)
	if len(groups) == 0 {
		return nil, InvocationErrorf("no groups specified")
	}
	skip := commaList(a.Skip)
	var targets []string
	for _, name := range groups {
		group, err := dnfGroup(ctx, c, name, false, nil, map[string]bool{})
		if err != nil {
			return nil, err
		}
		targets = append(targets, namesOf(toItems(group.Value("mandatory")))...)
		for _, name := range namesOf(toItems(group.Value("default"))) {
			if !hasString(skip, name) {
				targets = append(targets, name)
			}
		}
	}
	targets = append(targets, commaList(a.Include)...)
	have, err := runMap(ctx, c, "pkg.list_pkgs")
	if err != nil {
		return nil, err
	}
	missing := &List{}
	for _, name := range targets {
		if !have.Has(name) && !containsItem(missing.Items, name) {
			missing.Append(name)
		}
	}
	if missing.Len() == 0 {
		return &Map{}, nil
	}
	kw := cleanKwargs(a.Kwargs)
	kw.Set("pkgs", missing)
	return c.RunKw(ctx, "pkg.install", nil, kw)
}

func dnfPatches(installed bool) func(context.Context, *Call, struct {
	Refresh any  `def:"False"`
	Kwargs  *Map `arg:"**kwargs"`
}) (any, error) {
	return func(ctx context.Context, c *Call, a struct {
		Refresh any  `def:"False"`
		Kwargs  *Map `arg:"**kwargs"`
	}) (any, error) {
		if Truth(a.Refresh) {
			if _, err := (dnfManager{}).refresh(ctx, c, &Map{}); err != nil {
				return nil, err
			}
		}
		r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, dnfTool(), "--quiet", "updateinfo", "list", "all")
		if err != nil {
			return nil, err
		}
		return parseDnfPatches(r.stdout, installed), nil
	}
}

// parseDnfPatches reads lines such as `i FEDORA-2024-1 Moderate/Sec. pkg-1-1.noarch`:
// an advisory is installed if all its packages are.
func parseDnfPatches(text string, onlyInstalled bool) *Map {
	all := &Map{}
	for _, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		in := len(f) > 0 && f[0] == "i"
		if in {
			f = f[1:]
		}
		if len(f) < 3 {
			continue
		}
		one := all.Map(f[0])
		if one == nil {
			one = NewMap("installed", in, "summary", &List{})
			all.Set(f[0], one)
		}
		l, _ := one.Value("summary").(*List)
		l.Append(f[2])
		if !in {
			one.Set("installed", false)
		}
	}
	if !onlyInstalled {
		return all
	}
	ret := &Map{}
	for k, v := range all.All() {
		if Truth(v.(*Map).Value("installed")) {
			ret.Set(k, v)
		}
	}
	return ret
}

func dnfDownload(ctx context.Context, c *Call, a pkgPackagesArgs) (any, error) {
	if len(a.Packages) == 0 {
		return nil, InvocationErrorf("No packages were specified")
	}
	dir := "/var/cache/" + dnfTool() + "/packages"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, ExecErrorf("cannot make %s: %s", dir, osErrorText(err))
	}
	names := namesOf(a.Packages)
	filesOf := func(name string) []string {
		files, _ := filepath.Glob(filepath.Join(dir, globQuote(name)+"-*.rpm"))
		return files
	}
	for _, name := range names {
		for _, old := range filesOf(name) {
			if err := os.Remove(old); err != nil {
				c.Log.Error("Unable to remove " + old + ": " + osErrorText(err))
			}
		}
	}
	cmd := []string{"dnf", "-q", "download", "--destdir=" + dir}
	if which("yumdownloader") != "" {
		cmd = []string{"yumdownloader", "-q", "--destdir=" + dir}
	}
	if _, err := runSaltTool(ctx, c, toolOptions{ignore: true}, append(cmd, names...)...); err != nil {
		return nil, err
	}
	ret := &Map{}
	var failed []string
	for _, name := range names {
		if files := filesOf(name); len(files) > 0 {
			ret.Set(name, files[0])
		} else {
			failed = append(failed, name)
		}
	}
	if ret.Len() == 0 {
		return nil, ExecErrorf("Unable to download any of the following packages: %s", strings.Join(names, ", "))
	}
	if len(failed) > 0 {
		ret.Set("_error", "The following package(s) failed to download: "+strings.Join(failed, ", "))
	}
	return ret, nil
}

func dnfNeedsRestart(ctx context.Context, c *Call, _ kwargsOnly) (any, error) {
	if dnfTool() != "dnf" {
		return nil, ExecErrorf("dnf or dnf5 is required to list outdated services.")
	}
	if !isDir("/run/systemd/system") {
		return nil, ExecErrorf("systemd is required to list outdated services.")
	}
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, "dnf", "--quiet", "needs-restarting")
	if err != nil {
		return nil, err
	}
	services := &List{}
	for _, line := range strings.Split(r.stdout, "\n") {
		pid, _, ok := strings.Cut(line, ":")
		if name := unitOfProcess(strings.TrimSpace(pid)); ok && name != "" && !containsItem(services.Items, name) {
			services.Append(name)
		}
	}
	return services, nil
}

// unitOfProcess is the service of systemd that a process belongs to, "" if none.
func unitOfProcess(pid string) string {
	for _, part := range strings.Split(strings.TrimSpace(readText(filepath.Join("/proc", filepath.Base(pid), "cgroup"))), "/") {
		part, _, _ = strings.Cut(part, "\n")
		if name, ok := strings.CutSuffix(part, ".service"); ok {
			return name
		}
	}
	return ""
}
