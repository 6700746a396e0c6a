// Provider zypper of module pkg: patterns, products, patches, locks and searches,
// which zypper tells as XML.
package main

import (
	"context"
	"encoding/xml"
	"os"
	"sort"
	"strconv"
	"strings"
)

// moreFuncs are the functions of pkg that only zypper has.
func (p zypperManager) moreFuncs() Funcs {
	m := pkgCommon{p}
	return Funcs{
		"upgrade":                 {run: p.upgradeThese, pyname: "upgrade", doc: "Install upgrades, all or those of name or pkgs, and return what changed. dryrun=True shows what\nwould be done.\n\nCLI Example:\n\n    salt '*' pkg.upgrade name=openssl"},
		"list_updates":            {run: m.listUpgrades, pyname: "list_upgrades", doc: "The same as pkg.list_upgrades."},
		"info_available":          {run: zypperInfoAvailable, doc: "Return what the repositories say about packages."},
		"list_locks":              {run: zypperListLocks, doc: "Return the locks of packages with their kinds."},
		"clean_locks":             {run: zypperCleanLocks, doc: "Remove locks that do not matter any more; return how many."},
		"list_holds":              {run: zypperListHolds, doc: "List the versions that installed packages are kept at."},
		"list_patterns":           {run: zypperSolvables("pattern", false), pyname: "list_patterns", doc: "Return the patterns with their summaries."},
		"list_installed_patterns": {run: zypperSolvables("pattern", true), pyname: "list_installed_patterns", doc: "Return the patterns that are installed."},
		"list_patches":            {run: zypperSolvables("patch", false), pyname: "list_patches", doc: "Return the patches with their summaries."},
		"list_installed_patches":  {run: zypperSolvables("patch", true), pyname: "list_installed_patches", doc: "Return the patches that are installed."},
		"search":                  {run: zypperSearch, doc: "Search packages. match is exact, words or substrings; provides, requires, installed_only,\nnot_installed_only, case_sensitive, details … choose.\n\nCLI Example:\n\n    salt '*' pkg.search kernel match=exact installed_only=True"},
		"list_products":           {run: zypperProducts, doc: "List the installed products; all=True all that are known."},
		"download":                {run: zypperDownload, doc: "Download packages without installing them, and return their paths."},
		"list_provides":           {run: zypperProvides, doc: "Return what installed packages provide, with the packages that do."},
		"resolve_capabilities":    {run: zypperResolve, doc: "Replace names that are no packages by the package that provides them, with\nresolve_capabilities=True."},
		"services_need_restart":   {run: zypperNeedsRestart, doc: "List the services that still run files of packages that were upgraded."},
	}
}

func (p zypperManager) upgradeThese(ctx context.Context, c *Call, a struct {
	Name           any  `def:"None"`
	Pkgs           any  `def:"None"`
	Refresh        any  `def:"True"`
	Dryrun         bool `def:"False"`
	DistUpgrade    bool `def:"False"`
	Fromrepo       any  `def:"None"`
	Novendorchange bool `def:"False"`
	SkipVerify     bool `def:"False"`
	NoRecommends   bool `def:"False"`
	Root           any  `def:"None"`
	DiffAttr       any  `def:"None"`
	Kwargs         *Map `arg:"**kwargs"`
}) (any, error) {
	kw := a.Kwargs.Clone()
	kw.Merge(NewMap("name", a.Name, "pkgs", a.Pkgs, "dryrun", a.Dryrun, "fromrepo", a.Fromrepo, "novendorchange", a.Novendorchange,
		"skip_verify", a.SkipVerify, "no_recommends", a.NoRecommends))
	return pkgCommon{p}.upgrade(ctx, c, pkgUpgradeArgs{Refresh: a.Refresh, DistUpgrade: a.DistUpgrade, Kwargs: kw})
}

// zypperXML runs zypper for XML. Exit codes that tell of nothing found are none.
func zypperXML(ctx context.Context, c *Call, refresh bool, words ...string) (string, error) {
	if refresh {
		if _, err := (zypperManager{}).refresh(ctx, c, &Map{}); err != nil {
			return "", err
		}
	}
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, append(zypper("--xmlout", "--no-refresh"), words...)...)
	return r.stdout, err
}

// zypperElement is an element of what zypper tells: its attributes, and the texts
// and attributes of the elements in it.
type zypperElement struct {
	attrs *Map
	inner map[string]*zypperElement
	text  string
}

// zypperElements finds the elements of a name.
func zypperElements(text, name string) []*zypperElement {
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict = false
	var found, stack []*zypperElement
	var names []string
	for {
		token, err := d.Token()
		if err != nil {
			return found
		}
		switch t := token.(type) {
		case xml.StartElement:
			e := &zypperElement{attrs: &Map{}, inner: map[string]*zypperElement{}}
			for _, a := range t.Attr {
				e.attrs.Set(a.Name.Local, a.Value)
			}
			if len(stack) > 0 {
				stack[len(stack)-1].inner[t.Name.Local] = e
			}
			stack, names = append(stack, e), append(names, t.Name.Local)
		case xml.EndElement:
			last := len(stack) - 1
			if last < 0 {
				return found
			}
			if names[last] == name {
				found = append(found, stack[last])
			}
			stack, names = stack[:last], names[:last]
		case xml.CharData:
			if len(stack) > 0 {
				stack[len(stack)-1].text += string(t)
			}
		}
	}
}

type refreshRoot struct {
	Refresh any  `def:"False"`
	Root    any  `def:"None"`
	Kwargs  *Map `arg:"**kwargs"`
}

func zypperSolvables(kind string, installed bool) func(context.Context, *Call, refreshRoot) (any, error) {
	return func(ctx context.Context, c *Call, a refreshRoot) (any, error) {
		text, err := zypperXML(ctx, c, Truth(a.Refresh), "search", "-t", kind)
		if err != nil {
			return nil, err
		}
		ret := &Map{}
		for _, e := range zypperElements(text, "solvable") {
			in := e.attrs.Str("status") == "installed"
			if in || !installed {
				ret.Set(e.attrs.Str("name"), NewMap("installed", in, "summary", e.attrs.Str("summary")))
			}
		}
		return ret, nil
	}
}

func zypperSearch(ctx context.Context, c *Call, a struct {
	Criteria string
	Refresh  any  `def:"False"`
	Kwargs   *Map `arg:"**kwargs"`
}) (any, error) {
	options := map[string]string{"provides": "--provides", "recommends": "--recommends", "requires": "--requires", "suggests": "--suggests",
		"conflicts": "--conflicts", "obsoletes": "--obsoletes", "file_list": "--file-list", "search_descriptions": "--search-descriptions",
		"case_sensitive": "--case-sensitive", "installed_only": "--installed-only", "not_installed_only": "-u", "details": "--details"}
	words := []string{"search"}
	if m := a.Kwargs.Str("match"); hasString([]string{"exact", "words", "substrings"}, m) {
		words = append(words, "--match-"+m)
	}
	for k, v := range a.Kwargs.All() {
		if option := options[Str(k)]; option != "" && Truth(v) {
			words = append(words, option)
		}
	}
	text, err := zypperXML(ctx, c, Truth(a.Refresh), append(words, a.Criteria)...)
	if err != nil {
		return nil, err
	}
	ret := &Map{}
	for _, e := range zypperElements(text, "solvable") {
		ret.Set(e.attrs.Str("name"), e.attrs)
	}
	if ret.Len() == 0 {
		return nil, ExecErrorf("No packages found matching '%s'", a.Criteria)
	}
	return ret, nil
}

func zypperProducts(ctx context.Context, c *Call, a struct {
	All     bool `def:"False"`
	Refresh any  `def:"False"`
	Root    any  `def:"None"`
}) (any, error) {
	words := []string{"--disable-repositories", "products", "-i"}
	if a.All {
		words = []string{"products"}
	}
	text, err := zypperXML(ctx, c, Truth(a.Refresh), words...)
	if err != nil {
		return nil, err
	}
	return parseZypperProducts(text), nil
}

func parseZypperProducts(text string) *List {
	ret := &List{}
	for _, e := range zypperElements(text, "product") {
		one := &Map{}
		for k, v := range e.attrs.All() {
			switch {
			case k == "isbase" || k == "installed":
				one.Set(k, v == "true" || v == "1")
			case v != "":
				one.Set(k, v)
			}
		}
		if eol := e.inner["endoflife"]; eol != nil {
			seconds, _ := strconv.ParseInt(eol.attrs.Str("time_t"), 10, 64)
			one.Set("eol", eol.attrs.Str("text"))
			one.Set("eol_t", seconds)
		}
		if about := e.inner["description"]; about != nil {
			one.Set("description", strings.Join(strings.Fields(about.text), " "))
		}
		if line := one.Str("productline"); line != "" {
			if p, err := os.ReadFile("/var/lib/suseRegister/OEM/" + line); err == nil {
				release, _, _ := strings.Cut(string(p), "\n")
				one.Set("release", strings.TrimSpace(release))
			}
		}
		ret.Append(one)
	}
	return ret
}

func zypperDownload(ctx context.Context, c *Call, a pkgPackagesArgs) (any, error) {
	if len(a.Packages) == 0 {
		return nil, InvocationErrorf("No packages specified")
	}
	names := namesOf(a.Packages)
	text, err := zypperXML(ctx, c, Truth(a.Kwargs.Value("refresh")), append([]string{"download"}, names...)...)
	if err != nil {
		return nil, err
	}
	ret := &Map{}
	for _, e := range zypperElements(text, "download-result") {
		var repo, file *zypperElement
		name := ""
		if s := e.inner["solvable"]; s != nil {
			name = s.attrs.Str("name")
			if n := s.inner["name"]; n != nil {
				name = strings.TrimSpace(n.text)
			}
			repo = s.inner["repository"]
		}
		if r := e.inner["repository"]; r != nil {
			repo = r
		}
		if file = e.inner["localfile"]; file == nil || repo == nil {
			continue
		}
		path := file.attrs.Str("path")
		ok, err := lowpkgChecksum(ctx, c, pkgPathsArgs{Paths: []any{path}, Kwargs: a.Kwargs})
		if err != nil {
			return nil, err
		}
		if m, _ := ok.(*Map); Truth(m.Value(path)) {
			ret.Set(name, NewMap("repository-name", repo.attrs.Str("name"), "repository-alias", repo.attrs.Str("alias"), "path", path))
		}
	}
	if ret.Len() == 0 {
		return nil, ExecErrorf("Unable to download packages: %s", strings.Join(names, ", "))
	}
	var failed []string
	for _, name := range names {
		if !ret.Has(name) {
			failed = append(failed, name)
		}
	}
	if len(failed) > 0 {
		ret.Set("_error", "The following package(s) failed to download: "+strings.Join(failed, ", "))
	}
	return ret, nil
}

func zypperInfoAvailable(ctx context.Context, c *Call, a pkgNamesArgs) (any, error) {
	if len(a.Names) == 0 {
		return &Map{}, nil
	}
	if Truth(kwargOf(a.Kwargs, "refresh", true)) {
		if _, err := (zypperManager{}).refresh(ctx, c, &Map{}); err != nil {
			return nil, err
		}
	}
	names := namesOf(a.Names)
	sort.Strings(names)
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, append(zypper("--no-refresh", "info", "-t", "package"), names...)...)
	if err != nil {
		return nil, err
	}
	return parseZypperInfo(r.stdout), nil
}

func parseZypperInfo(text string) *Map {
	ret := &Map{}
	for _, block := range strings.Split(text, "Information for package") {
		one := &Map{}
		for _, line := range strings.Split(block, "\n") {
			key, value, ok := strings.Cut(line, ":")
			if value = strings.TrimSpace(value); ok && value != "" && !strings.HasPrefix(line, "-----") {
				one.Set(strings.ToLower(strings.TrimSpace(key)), value)
			}
		}
		name := one.Str("name")
		if one.Delete("name"); name == "" {
			continue
		}
		if v := one.Str("installed"); v != "" {
			one.Set("installed", strings.HasPrefix(strings.ToLower(v), "yes"))
		}
		ret.Set(name, one)
	}
	return ret
}

// zypperLocks is the file of the locks.
const zypperLocks = "/etc/zypp/locks"

func zypperListLocks(_ context.Context, _ *Call, a struct {
	Root any `def:"None"`
}) (any, error) {
	return parseZypperLocks(readText(rootOf(a.Root) + zypperLocks)), nil
}

func parseZypperLocks(text string) *Map {
	ret := &Map{}
	for _, block := range strings.Split(text, "\n\n") {
		one := &Map{}
		for _, line := range strings.Split(block, "\n") {
			if key, value, ok := strings.Cut(line, ":"); ok {
				one.Set(strings.TrimSpace(key), strings.TrimSpace(value))
			}
		}
		name := one.Str("solvable_name")
		if one.Delete("solvable_name"); name != "" {
			ret.Set(name, one)
		}
	}
	return ret
}

func zypperCleanLocks(ctx context.Context, c *Call, a struct {
	Root any `def:"None"`
}) (any, error) {
	if !isFile(rootOf(a.Root) + zypperLocks) {
		return NewMap("removed", int64(0)), nil
	}
	text, err := zypperXML(ctx, c, false, "cleanlocks")
	if err != nil {
		return nil, err
	}
	for _, e := range zypperElements(text, "message") {
		if f := strings.Fields(strings.ToLower(e.text)); len(f) > 1 && f[0] == "removed" {
			return NewMap("removed", f[1]), nil
		}
	}
	return NewMap("removed", int64(0)), nil
}

func zypperListHolds(ctx context.Context, c *Call, a struct {
	Pattern any  `def:"None"`
	Full    bool `def:"True"`
	Root    any  `def:"None"`
	Kwargs  *Map `arg:"**kwargs"`
}) (any, error) {
	ret := &List{}
	for k, v := range parseZypperLocks(readText(rootOf(a.Root) + zypperLocks)).All() {
		lock := v.(*Map)
		if kind := lock.Str("type"); kind != "" && kind != "package" {
			continue
		}
		have, _, err := rpmDatabase{}.installed(ctx, c)
		if err != nil {
			return nil, err
		}
		for _, name := range have.names {
			if !GlobMatch(Str(k), name) {
				continue
			}
			for _, version := range have.by[name] {
				epoch, rest := splitEpoch(version)
				if epoch == "" {
					epoch = "0"
				}
				hold := name
				if a.Full {
					hold = name + "-" + epoch + ":" + rest + ".*"
				}
				if !containsItem(ret.Items, hold) && (a.Pattern == nil || strings.HasPrefix(hold, Str(a.Pattern)+"-") || name == a.Pattern) {
					ret.Append(hold)
				}
			}
		}
	}
	return ret, nil
}

func zypperProvides(ctx context.Context, c *Call, a rootKwArgs) (any, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, rpmCommand(NewMap("root", a.Root), "-qa", "--queryformat", "[%{PROVIDES}_|-%{=NAME}\n]")...)
	if err != nil {
		return nil, err
	}
	ret := &Map{}
	for _, line := range strings.Split(r.stdout, "\n") {
		what, name, ok := strings.Cut(line, "_|-")
		if !ok || what == name {
			continue
		}
		l, _ := ret.Value(what).(*List)
		if l == nil {
			l = &List{}
			ret.Set(what, l)
		}
		l.Append(name)
	}
	return ret, nil
}

func zypperResolve(ctx context.Context, c *Call, a struct {
	Pkgs    any
	Refresh any  `def:"False"`
	Root    any  `def:"None"`
	Kwargs  *Map `arg:"**kwargs"`
}) (any, error) {
	ret := &List{}
	for _, item := range toItems(a.Pkgs) {
		name, version := item, any(nil)
		if m, ok := item.(*Map); ok && m.Len() > 0 {
			name, version = m.At(0)
		}
		if Truth(a.Kwargs.Value("resolve_capabilities")) {
			name = zypperProvider(ctx, c, Str(name), Truth(a.Refresh))
		}
		if version != nil {
			ret.Append(NewMap(name, version))
		} else {
			ret.Append(name)
		}
	}
	return ret, nil
}

// zypperProvider is the one package that provides a name, or the name itself.
func zypperProvider(ctx context.Context, c *Call, name string, refresh bool) string {
	for _, words := range [][]string{{"search", "--match-exact", name}, {"search", "--match-exact", "--provides", name}} {
		text, err := zypperXML(ctx, c, refresh, words...)
		if found := zypperElements(text, "solvable"); err == nil && len(found) == 1 {
			return found[0].attrs.Str("name")
		} else if len(found) > 1 {
			return name
		}
	}
	return name
}

func zypperNeedsRestart(ctx context.Context, c *Call, _ rootKwArgs) (any, error) {
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, zypper("ps", "-sss")...)
	return Strings(strings.Fields(r.stdout)), err
}
