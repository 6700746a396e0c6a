// Provider zypper of module pkg: what repositories and the box have: details of
// packages, search, patterns, products, patches, locks and downloaded packages.
package main

import (
	"context"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

func (z zypperManager) searchFuncs() Funcs {
	return Funcs{
		"info_available":          {run: z.infoAvailable, doc: "Return details of packages in the repositories."},
		"search":                  {run: z.search, doc: "Search for packages. match is exact, words or substrings; provides, recommends, requires,\nsuggests, conflicts, obsoletes, file_list, search_descriptions, case_sensitive,\ninstalled_only, not_installed_only and details are options of zypper."},
		"list_patterns":           {run: z.patterns, doc: "List the patterns of the repositories."},
		"list_installed_patterns": {run: z.installedPatterns, doc: "List the installed patterns."},
		"list_products":           {run: z.products, doc: "List the installed products; with all those of the repositories too."},
		"list_patches":            {run: z.patches(false), doc: "List the patches of the repositories."},
		"list_installed_patches":  {run: z.patches(true), doc: "List the installed patches."},
		"list_provides":           {run: z.provides, doc: "List what installed packages provide besides their names, with the packages."},
		"resolve_capabilities":    {run: z.resolveCapabilities, doc: "Replace what is no name of a package by a package that provides it, with\nresolve_capabilities=True."},
		"download":                {run: z.download, doc: "Download packages without installing them."},
		"list_downloaded":         {run: z.listDownloaded, doc: "List the packages that were downloaded, with path, size and time of each version."},
		"diff":                    {run: rpmDiff, doc: "Compare files of this box with those of their packages, which are downloaded."},
		"services_need_restart":   {run: z.needRestart, doc: "List services that use files which an upgrade has replaced."},
	}
}

// refreshIf brings the lists up to date if an argument asks for it.
func (z zypperManager) refreshIf(ctx context.Context, c *Call, wanted, root any) error {
	if !pyIsTrue(wanted) {
		return nil
	}
	_, err := z.refresh(ctx, c, NewMap("root", root))
	return err
}

func (z zypperManager) infoAvailable(ctx context.Context, c *Call, a pkgNamesArgs) (any, error) {
	if len(a.Names) == 0 {
		return &Map{}, nil
	}
	root := a.Kwargs.Value("root")
	if err := z.refreshIf(ctx, c, kwargOf(a.Kwargs, "refresh", true), root); err != nil {
		return nil, err
	}
	return z.infoOf(ctx, c, namesOf(a.Names), root)
}

func (zypperManager) infoOf(ctx context.Context, c *Call, names []string, root any) (*Map, error) {
	names = sortedSet(names)
	sort.Strings(names)
	r, err := zypperCall{root: root, readOnly: true}.checked(ctx, c, append([]string{"info", "-t", "package"}, names...)...)
	return parseZypperInfo(r.stdout), err
}

// parseZypperInfo reads blocks of `Key : value`, each after a heading.
func parseZypperInfo(out string) *Map {
	ret := &Map{}
	for _, block := range strings.Split(out, "Information for package") {
		one := &Map{}
		for _, line := range strings.Split(block, "\n") {
			key, value, ok := strings.Cut(line, ":")
			if key, value = strings.TrimSpace(key), strings.TrimSpace(value); ok && value != "" && !strings.HasPrefix(line, "-----") {
				one.Set(strings.ToLower(key), value)
			}
		}
		name := one.Str("name")
		if name == "" {
			continue
		}
		one.Delete("name")
		if v := one.Str("installed"); v != "" {
			one.Set("installed", strings.HasPrefix(strings.ToLower(v), "yes"))
		}
		ret.Set(name, one)
	}
	return ret
}

func (z zypperManager) latestVersion(ctx context.Context, c *Call, a pkgNamesArgs) (any, error) {
	v, err := z.infoAvailable(ctx, c, a)
	if err != nil {
		return nil, err
	}
	names := sortedSet(namesOf(a.Names))
	sort.Strings(names)
	ret := &Map{}
	for _, name := range names {
		one := v.(*Map).Map(name)
		status := strings.ToLower(one.Str("status"))
		if strings.Contains(status, "not installed") || strings.Contains(status, "out-of-date") {
			ret.Set(name, one.Value("version"))
		} else {
			ret.Set(name, "")
		}
	}
	if len(names) == 1 {
		return ret.Value(names[0]), nil
	}
	return ret, nil
}

func (z zypperManager) upgradeAvailable(ctx context.Context, c *Call, a pkgNameKwArgs) (any, error) {
	v, err := z.latestVersion(ctx, c, pkgNamesArgs{Names: []any{a.Name}, Kwargs: a.Kwargs})
	return Truth(v), err
}

type zypperSearchArgs struct {
	Criteria string
	Refresh  any  `def:"False"`
	Kwargs   *Map `arg:"**kwargs"`
}

func (z zypperManager) search(ctx context.Context, c *Call, a zypperSearchArgs) (any, error) {
	root := a.Kwargs.Value("root")
	if err := z.refreshIf(ctx, c, a.Refresh, root); err != nil {
		return nil, err
	}
	return z.searchOf(ctx, c, a.Criteria, a.Kwargs)
}

func (zypperManager) searchOf(ctx context.Context, c *Call, criteria string, kw *Map) (*Map, error) {
	cmd := []string{"search"}
	if match := kw.Str("match"); hasString([]string{"exact", "words", "substrings"}, match) {
		cmd = append(cmd, "--match-"+match)
	}
	for k, v := range kw.All() {
		name := Str(k)
		switch {
		case !Truth(v):
		case name == "not_installed_only":
			cmd = append(cmd, "-u")
		case hasString(strings.Fields("provides recommends requires suggests conflicts obsoletes file_list search_descriptions case_sensitive installed_only details"), name):
			cmd = append(cmd, "--"+strings.ReplaceAll(name, "_", "-"))
		}
	}
	r, err := zypperCall{root: kw.Value("root"), readOnly: true, noneOK: true, isXML: true}.run(ctx, c, append(cmd, criteria)...)
	if err != nil {
		return nil, err
	}
	doc, err := parseZypperXML(r.stdout)
	if err != nil {
		return nil, err
	}
	out := &Map{}
	for _, n := range doc.all("solvable") {
		out.Set(n.attr("name"), n.asMap())
	}
	if out.Len() == 0 {
		return nil, ExecErrorf("No packages found matching '%s'", criteria)
	}
	return out, nil
}

// solvables lists what a search of one kind finds, with what matters of it.
func (zypperManager) solvables(ctx context.Context, c *Call, kind string, root any) (*Map, error) {
	doc, err := zypperCall{root: root, readOnly: true, noneOK: true}.xml(ctx, c, "se", "-t", kind)
	if err != nil {
		return nil, err
	}
	out := &Map{}
	for _, n := range doc.all("solvable") {
		out.Set(n.attr("name"), NewMap("installed", n.attr("status") == "installed", "summary", n.attr("summary")))
	}
	return out, nil
}

// onlyInstalled keeps what is installed.
func onlyInstalled(all *Map) *Map {
	out := &Map{}
	for name, one := range all.All() {
		if one.(*Map).Value("installed") == true {
			out.Set(name, one)
		}
	}
	return out
}

type zypperListArgs struct {
	Refresh any  `def:"False"`
	Root    any  `def:"None"`
	Kwargs  *Map `arg:"**kwargs"`
}

func (z zypperManager) patterns(ctx context.Context, c *Call, a zypperListArgs) (any, error) {
	if err := z.refreshIf(ctx, c, a.Refresh, a.Root); err != nil {
		return nil, err
	}
	return z.solvables(ctx, c, "pattern", a.Root)
}

// installedPatterns adds those that zypper does not show, by what packages provide.
func (z zypperManager) installedPatterns(ctx context.Context, c *Call, a rootOnlyArgs) (any, error) {
	all, err := z.solvables(ctx, c, "pattern", a.Root)
	if err != nil {
		return nil, err
	}
	ret := onlyInstalled(all)
	r, err := runSaltTool(ctx, c, toolOptions{merge: true, ignore: true}, rpmArgs(NewMap("root", a.Root), "-q", "--provides", "--whatprovides", "pattern()")...)
	for _, line := range pyLines(r.stdout, false) {
		if name, ok := strings.CutPrefix(line, "pattern() = "); ok && !strings.HasPrefix(name, ".") && !ret.Has(name) {
			ret.Set(name, NewMap("installed", true, "summary", "Non-visible pattern"))
		}
	}
	return ret, err
}

func (z zypperManager) patchesOf(ctx context.Context, c *Call, installed bool, root any) (*Map, error) {
	all, err := z.solvables(ctx, c, "patch", root)
	if err == nil && installed {
		all = onlyInstalled(all)
	}
	return all, err
}

func (z zypperManager) patches(installed bool) func(context.Context, *Call, zypperListArgs) (any, error) {
	return func(ctx context.Context, c *Call, a zypperListArgs) (any, error) {
		if err := z.refreshIf(ctx, c, a.Refresh, a.Root); err != nil {
			return nil, err
		}
		return z.patchesOf(ctx, c, installed, a.Root)
	}
}

type zypperProductsArgs struct {
	All     bool `def:"False"`
	Refresh any  `def:"False"`
	Root    any  `def:"None"`
}

func (z zypperManager) products(ctx context.Context, c *Call, a zypperProductsArgs) (any, error) {
	if err := z.refreshIf(ctx, c, a.Refresh, a.Root); err != nil {
		return nil, err
	}
	args := []string{"products"}
	if !a.All {
		args = []string{"--disable-repositories", "products", "-i"}
	}
	doc, err := zypperCall{root: a.Root, readOnly: true}.xml(ctx, c, args...)
	if err != nil {
		return nil, err
	}
	ret := parseZypperProducts(doc)
	for _, v := range ret.Items {
		product := v.(*Map)
		if line := product.Str("productline"); line != "" && !strings.Contains(line, "/") {
			if oem, err := fileLines(rootOf(a.Root) + "/var/lib/suseRegister/OEM/" + line); err == nil && len(oem) > 0 && oem[0] != "" {
				product.Set("release", strings.TrimSpace(oem[0]))
			}
		}
	}
	return ret, nil
}

func parseZypperProducts(doc zypperNode) *List {
	ret := &List{}
	for _, n := range doc.all("product") {
		one := &Map{}
		for k, v := range n.asMap().All() {
			switch text := Str(v); {
			case k == "isbase" || k == "installed":
				one.Set(k, text == "true" || text == "1")
			case text != "":
				one.Set(k, text)
			}
		}
		if eol := n.all("endoflife"); len(eol) > 0 {
			seconds, _ := strconv.ParseInt(eol[0].attr("time_t"), 10, 64)
			one.Set("eol", eol[0].attr("text"))
			one.Set("eol_t", seconds)
		}
		var lines []string
		for _, line := range strings.Split(n.text("description"), "\n") {
			lines = append(lines, strings.TrimSpace(line))
		}
		one.Set("description", strings.Join(lines, " "))
		ret.Append(one)
	}
	return ret
}

func (zypperManager) provides(ctx context.Context, c *Call, a rootOnlyArgs) (any, error) {
	r, err := runSaltTool(ctx, c, toolOptions{merge: true}, rpmArgs(NewMap("root", a.Root), "-qa", "--queryformat", "%{PROVIDES}_|-%{NAME}\n")...)
	out := &Map{}
	for _, line := range pyLines(r.stdout, false) {
		if what, name, ok := strings.Cut(line, "_|-"); ok && what != name {
			appendTo(out, what, name)
		}
	}
	return out, err
}

type zypperCapabilitiesArgs struct {
	Pkgs    any
	Refresh any  `def:"False"`
	Root    any  `def:"None"`
	Kwargs  *Map `arg:"**kwargs"`
}

func (z zypperManager) resolveCapabilities(ctx context.Context, c *Call, a zypperCapabilitiesArgs) (any, error) {
	if err := z.refreshIf(ctx, c, a.Refresh, a.Root); err != nil {
		return nil, err
	}
	ret := &List{}
	for _, item := range toItems(a.Pkgs) {
		name, version := item, any(nil)
		if m, ok := item.(*Map); ok && m.Len() > 0 {
			name, version = m.At(0)
		}
		if Truth(a.Kwargs.Value("resolve_capabilities")) {
			found, err := z.provider(ctx, c, Str(name), a.Root)
			if err != nil {
				return nil, err
			}
			name = found
		}
		if version != nil {
			ret.Append(NewMap(name, version))
		} else {
			ret.Append(name)
		}
	}
	return ret, nil
}

// provider is a name itself if there is such a package, or the only one that
// provides it.
func (z zypperManager) provider(ctx context.Context, c *Call, name string, root any) (string, error) {
	if _, err := z.searchOf(ctx, c, name, NewMap("match", "exact", "root", root)); err == nil {
		return name, nil
	} else if !isExecError(err) {
		return "", err
	}
	found, err := z.searchOf(ctx, c, name, NewMap("match", "exact", "provides", true, "root", root))
	if isExecError(err) {
		return name, nil
	}
	if err != nil {
		return "", err
	}
	first, _ := found.At(0)
	return Str(first), nil
}

func (zypperManager) download(ctx context.Context, c *Call, a pkgPackagesArgs) (any, error) {
	if len(a.Packages) == 0 {
		return nil, InvocationErrorf("No packages specified")
	}
	names := namesOf(a.Packages)
	root := a.Kwargs.Value("root")
	if err := (zypperManager{}).refreshIf(ctx, c, a.Kwargs.Value("refresh"), root); err != nil {
		return nil, err
	}
	doc, err := zypperCall{root: root}.xml(ctx, c, append([]string{"download"}, names...)...)
	if err != nil {
		return nil, err
	}
	ret := &Map{}
	for _, n := range doc.all("download-result") {
		repos, files := n.all("repository"), n.all("localfile")
		if len(repos) > 0 && len(files) > 0 {
			ret.Set(n.text("name"), NewMap("repository-name", repos[0].attr("name"), "repository-alias", repos[0].attr("alias"), "path", files[0].attr("path")))
		}
	}
	if ret.Len() == 0 {
		return nil, ExecErrorf("Unable to download packages: %s", strings.Join(names, ", "))
	}
	var missing []string
	for _, name := range names {
		if !ret.Has(name) {
			missing = append(missing, name)
		}
	}
	if missing != nil {
		ret.Set("_error", "The following package(s) failed to download: "+strings.Join(missing, ", "))
	}
	return ret, nil
}

func (zypperManager) listDownloaded(ctx context.Context, c *Call, a rootOnlyArgs) (any, error) {
	return rpmListDownloaded(ctx, c, rootOf(a.Root)+"/var/cache/zypp/packages")
}

func (zypperManager) needRestart(ctx context.Context, c *Call, a rootOnlyArgs) (any, error) {
	r, err := zypperCall{root: a.Root, readOnly: true}.checked(ctx, c, "ps", "-sss")
	out := &List{}
	for _, name := range strings.Fields(r.stdout) {
		out.Append(name)
	}
	return out, err
}

// Locks.

// parseZypperLocks reads the file of locks: blocks of key: value.
func parseZypperLocks(text string) *Map {
	locks := &Map{}
	for _, block := range strings.Split(text, "\n\n") {
		lock := &Map{}
		for _, line := range strings.Split(block, "\n") {
			if key, value, ok := strings.Cut(line, ":"); ok {
				lock.Set(strings.TrimSpace(key), strings.TrimSpace(value))
			}
		}
		if name := lock.Str("solvable_name"); name != "" {
			lock.Delete("solvable_name")
			locks.Set(name, lock)
		}
	}
	return locks
}

func zypperLocks(root any) *Map {
	lines, err := fileLines(rootOf(root) + "/etc/zypp/locks")
	if err != nil {
		return &Map{}
	}
	return parseZypperLocks(strings.Join(lines, "\n"))
}

func (zypperManager) listLocks(_ context.Context, _ *Call, a rootOnlyArgs) (any, error) {
	return zypperLocks(a.Root), nil
}

func (zypperManager) cleanLocks(ctx context.Context, c *Call, a rootOnlyArgs) (any, error) {
	out := NewMap("removed", int64(0))
	if !isFile(rootOf(a.Root) + "/etc/zypp/locks") {
		return out, nil
	}
	doc, err := zypperCall{root: a.Root}.xml(ctx, c, "cl")
	if err != nil {
		return nil, err
	}
	for _, n := range doc.all("message") {
		if f := strings.Fields(strings.ToLower(n.Text)); len(f) > 1 && f[0] == "removed" {
			out.Set("removed", f[1])
			break
		}
	}
	return out, nil
}

type zypperHoldsArgs struct {
	Pattern any  `def:"None"`
	Full    bool `def:"True"`
	Root    any  `def:"None"`
	Kwargs  *Map `arg:"**kwargs"`
}

// listHolds lists the installed packages that locks are for.
func (z zypperManager) listHolds(ctx context.Context, c *Call, a zypperHoldsArgs) (any, error) {
	out := &List{}
	for name, v := range zypperLocks(a.Root).All() {
		lock := v.(*Map)
		if Str(kwargOf(lock, "type", "package")) != "package" {
			continue
		}
		kw := NewMap("installed_only", true, "details", true, "case_sensitive", kwargOf(lock, "case_sensitive", "on") == "on", "root", a.Root)
		if !strings.Contains(Str(name), "*") {
			kw.Set("match", "exact")
		}
		found, err := z.searchOf(ctx, c, Str(name), kw)
		if isExecError(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		details, err := rpmInfo(ctx, c, pkgNamesArgs{Names: found.Keys(), Kwargs: NewMap("attr", "edition,epoch", "all_versions", true, "root", a.Root)})
		if err != nil {
			return nil, err
		}
		for pkg, list := range details.(*Map).All() {
			for _, d := range toItems(list) {
				hold := Str(pkg)
				if a.Full {
					hold += "-" + Str(kwargOf(d.(*Map), "epoch", int64(0))) + ":" + withoutEpoch(d.(*Map).Str("edition")) + ".*"
				}
				if !containsItem(out.Items, hold) && holdMatches(a.Pattern, hold) {
					out.Append(hold)
				}
			}
		}
	}
	return out, nil
}

func holdMatches(pattern any, hold string) bool {
	if !Truth(pattern) {
		return true
	}
	re, err := regexp.Compile(`^(?:` + Str(pattern) + `)-\S+`)
	return err == nil && re.MatchString(hold)
}

type zypperHoldArgs struct {
	Name   any  `def:"None"`
	Pkgs   any  `def:"None"`
	Root   any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}

// targets are names with their versions, nil for any.
func (a zypperHoldArgs) targets() (*Map, error) {
	if !Truth(a.Name) && !Truth(a.Pkgs) {
		return nil, ExecErrorf("Name or packages must be specified.")
	}
	out := &Map{}
	if !Truth(a.Pkgs) {
		out.Set(Str(a.Name), nil)
	}
	for _, item := range toItems(a.Pkgs) {
		if m, ok := item.(*Map); ok && m.Len() > 0 {
			out.Set(m.At(0))
		} else {
			out.Set(Str(item), nil)
		}
	}
	return out, nil
}

func (zypperManager) hold(ctx context.Context, c *Call, a zypperHoldArgs) (any, error) {
	targets, err := a.targets()
	if err != nil {
		return nil, err
	}
	locks := zypperLocks(a.Root)
	ret := &Map{}
	add := []string{"al"}
	for name, version := range targets.All() {
		one := NewMap("name", name, "changes", &Map{}, "result", true, "comment", "Package "+Str(name)+" is already set to be held.")
		ret.Set(name, one)
		if locks.Has(name) {
			continue
		}
		one.Set("changes", NewMap("new", "hold", "old", ""))
		one.Set("comment", "Package "+Str(name)+" is now being held.")
		if Truth(version) {
			add = append(add, Str(name)+"="+Str(version))
		} else {
			add = append(add, Str(name))
		}
	}
	if len(add) > 1 {
		_, err = zypperCall{root: a.Root}.checked(ctx, c, add...)
	}
	return ret, err
}

func (zypperManager) unhold(ctx context.Context, c *Call, a zypperHoldArgs) (any, error) {
	targets, err := a.targets()
	if err != nil {
		return nil, err
	}
	locks := zypperLocks(a.Root)
	ret := &Map{}
	remove := []string{"rl"}
	for name, version := range targets.All() {
		one := NewMap("name", name, "changes", &Map{}, "result", true, "comment", "Package "+Str(name)+" was already unheld.")
		ret.Set(name, one)
		lock := locks.Map(name)
		held := strings.TrimLeft(lock.Str("version"), "= ")
		switch {
		case lock == nil:
		case Truth(version) && held != Str(version):
			one.Set("result", false)
			one.Set("comment", "Unable to unhold package "+Str(name)+" as it is held with the other version.")
		default:
			one.Set("changes", NewMap("new", "", "old", "hold"))
			one.Set("comment", "Package "+Str(name)+" is no longer held.")
			if held != "" {
				remove = append(remove, Str(name)+"="+held)
			} else {
				remove = append(remove, Str(name))
			}
		}
	}
	if len(remove) > 1 {
		_, err = zypperCall{root: a.Root}.checked(ctx, c, remove...)
	}
	return ret, err
}
