// Module pkg with apt: what is installed, selections, and removal of what nobody needs.
package main

import (
	"context"
	"os"
	"regexp"
	"sort"
	"strings"
	"time"
)

type aptAutoremoveArgs struct {
	ListOnly bool `def:"False"`
	Purge    bool `def:"False"`
}

func (p aptManager) autoremove(ctx context.Context, c *Call, a aptAutoremoveArgs) (any, error) {
	args := []string{"apt-get", "--assume-yes"}
	if a.ListOnly {
		args[1] = "--assume-no"
	}
	if a.Purge {
		args = append(args, "--purge")
	}
	args = append(args, "autoremove")
	m := pkgCommon{p}
	before, err := m.state(ctx, c, false)
	if err != nil {
		return nil, err
	}
	r, err := runApt(ctx, c, toolOptions{ignore: true}, inScope(c, args)...)
	if err != nil {
		return nil, err
	}
	if a.ListOnly {
		var names []string
		found := false
		for _, line := range pyLines(r.stdout, false) {
			switch {
			case found && strings.HasPrefix(line, " "):
				names = append(names, strings.Fields(line)...)
			case found:
				found = false
			default:
				found = strings.Contains(line, "The following packages will be REMOVED:")
			}
		}
		sort.Strings(names)
		return Strings(names), nil
	}
	after, err := m.state(ctx, c, true)
	if err != nil {
		return nil, err
	}
	return pkgChanges(before.have, after.have), nil
}

func (p aptManager) show(ctx context.Context, c *Call, a pkgNamesArgs) (any, error) {
	var wanted []string
	for k, v := range a.Kwargs.All() {
		if key := Str(k); key != "refresh" && key != "filter" && !strings.HasPrefix(key, "__") {
			return nil, InvocationErrorf("The following keyword arguments are not valid: %s=%s", key, Str(v))
		}
	}
	for _, f := range splitInput(kwargOf(a.Kwargs, "filter", &List{})) {
		wanted = append(wanted, strings.ToLower(f))
	}
	if Truth(a.Kwargs.Value("refresh")) {
		if _, err := p.refresh(ctx, c, &Map{}); err != nil {
			return nil, err
		}
	}
	if len(a.Names) == 0 {
		return &Map{}, nil
	}
	r, err := runApt(ctx, c, toolOptions{}, append([]string{"apt-cache", "show"}, namesOf(a.Names)...)...)
	if err != nil {
		return nil, err
	}
	out, one := &Map{}, &Map{}
	flush := func() {
		name, version := one.Value("Package"), one.Value("Version")
		one.Delete("Package")
		one.Delete("Version")
		if name != nil && version != nil {
			byVersion := out.Map(name)
			if byVersion == nil {
				byVersion = &Map{}
				out.Set(name, byVersion)
			}
			if have := byVersion.Map(version); have != nil {
				have.Merge(one)
			} else {
				byVersion.Set(version, one)
			}
		}
		one = &Map{}
	}
	for _, line := range strings.Split(r.stdout, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			flush()
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		key = strings.TrimSpace(key)
		if low := strings.ToLower(key); low == "package" || low == "version" || len(wanted) == 0 || hasString(wanted, low) {
			one.Set(key, strings.TrimSpace(value))
		}
	}
	flush()
	return out, nil
}

// dpkgInfoFormat asks dpkg-query for everything that info_installed shows.
const dpkgInfoFormat = `package:${Package}\nrevision:${binary:Revision}\narchitecture:${Architecture}\nmaintainer:${Maintainer}\nsummary:${Summary}\n` +
	`source:${source:Package}\nversion:${Version}\nsection:${Section}\nsize:${Size}\nMD5:${MD5sum}\nSHA1:${SHA1}\nSHA256:${SHA256}\n` +
	`origin:${Origin}\nhomepage:${Homepage}\nstatus:${db:Status-Abbrev}\ninstall_date:${db-fsys:Last-Modified}\ndescription:${Description}\n\n` + "\x01" + `\n`

func (aptManager) infoInstalled(ctx context.Context, c *Call, a pkgNamesArgs) (any, error) {
	return dpkgInfo(ctx, c, a, false)
}

// dpkgInfo asks dpkg for details of packages; raw keeps dpkg's names for them and
// packages that are not quite installed.
func dpkgInfo(ctx context.Context, c *Call, a pkgNamesArgs, raw bool) (any, error) {
	for k, v := range a.Kwargs.All() {
		if key := Str(k); key != "failhard" && !strings.HasPrefix(key, "__") {
			return nil, InvocationErrorf("The following keyword arguments are not valid: %s=%s", key, Str(v))
		}
	}
	r, err := runSaltTool(ctx, c, toolOptions{}, append([]string{"dpkg-query", "-W", "-f=" + dpkgInfoFormat}, namesOf(a.Names)...)...)
	if err != nil {
		return nil, err
	}
	if r.failed() {
		if Truth(kwargOf(a.Kwargs, "failhard", true)) {
			return nil, ExecErrorf("Error getting packages information: %s", r.stderr)
		}
		return &Map{}, nil
	}
	return parseDpkgInfo(r.stdout, raw), nil
}

func parseDpkgInfo(text string, raw bool) *Map {
	rename := map[string]string{"package": "name", "origin": "vendor", "section": "group", "maintainer": "packager", "homepage": "url"}
	out := &Map{}
	for _, part := range strings.Split(text, "\n\x01") {
		head, descr, ok := strings.Cut(part, "\ndescription:")
		if !ok {
			continue
		}
		info, name, status := &Map{}, "", ""
		for _, line := range strings.Split(head, "\n") {
			key, value, ok := strings.Cut(strings.TrimSpace(line), ":")
			if !ok {
				continue
			}
			switch key {
			case "package":
				name = value
			case "status":
				if status = value; !raw {
					continue
				}
				value = strings.TrimSpace(value)
			case "install_date":
				n, ok := intText(value)
				if !ok {
					continue
				}
				value = time.Unix(n, 0).UTC().Format("2006-01-02T15:04:05") + "Z"
			}
			if new, ok := rename[key]; ok && !raw {
				key = new
			}
			if value != "" {
				info.Set(key, value)
			}
		}
		if !raw && (len(status) < 2 || status[1] != 'i') {
			continue
		}
		info.Set("description", descr)
		if license := debianLicenses(name); license != "" {
			info.Set("license", license)
		}
		out.Set(name, info)
	}
	return out
}

// debianLicenses lists the licences of a package's copyright file.
func debianLicenses(name string) string {
	seen := map[string]bool{}
	_ = scanLines("/usr/share/doc/"+name+"/copyright", func(line string) bool {
		if rest, ok := strings.CutPrefix(line, "License:"); ok {
			seen[strings.TrimSpace(rest)] = true
		}
		return true
	})
	var all []string
	for l := range seen {
		all = append(all, l)
	}
	sort.Strings(all)
	return strings.Join(all, ", ")
}

type aptSelectionsArgs struct {
	Pattern any `def:"None"`
	State   any `def:"None"`
}

func aptGetSelections(ctx context.Context, c *Call, a aptSelectionsArgs) (any, error) {
	all, err := dpkgSelections(ctx, c, a.Pattern)
	if err != nil {
		return nil, err
	}
	if Truth(a.State) {
		return NewMap(a.State, toItemsList(all.Value(a.State))), nil
	}
	return all, nil
}

func toItemsList(v any) *List { return NewList(toItems(v)...) }

func dpkgSelections(ctx context.Context, c *Call, pattern any) (*Map, error) {
	p := "*"
	if Truth(pattern) {
		p = Str(pattern)
	}
	r, err := runSaltTool(ctx, c, toolOptions{}, "dpkg", "--get-selections", p)
	if err != nil {
		return nil, err
	}
	return parseSelections(r.stdout), nil
}

func parseSelections(text string) *Map {
	out := &Map{}
	for _, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		l, _ := out.Value(f[1]).(*List)
		if l == nil {
			l = &List{}
			out.Set(f[1], l)
		}
		l.Append(f[0])
	}
	return out
}

type aptSetSelectionsArgs struct {
	Path      any    `def:"None"`
	Selection any    `def:"None"`
	Clear     bool   `def:"False"`
	Saltenv   string `def:"'base'"`
}

func aptSetSelections(ctx context.Context, c *Call, a aptSetSelectionsArgs) (any, error) {
	if !Truth(a.Path) && !Truth(a.Selection) {
		return &Map{}, nil
	}
	if Truth(a.Path) && Truth(a.Selection) {
		return nil, InvocationErrorf("The 'selection' and 'path' arguments to pkg.set_selections are mutually exclusive, and cannot be specified together")
	}
	selection := a.Selection
	if text, ok := selection.(string); ok {
		v, err := ParseYAML([]byte(text))
		if err != nil {
			return nil, InvocationErrorf("Improperly-formatted selection: %s", err)
		}
		selection = v
	}
	if Truth(a.Path) {
		path, err := c.Run(ctx, "cp.cache_file", a.Path, a.Saltenv)
		if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(Str(path))
		if err != nil {
			return nil, osError(err)
		}
		selection = parseSelections(string(text))
	}
	m, _ := selection.(*Map)
	return setSelections(ctx, c, m, a.Clear)
}

func setSelections(ctx context.Context, c *Call, selection *Map, clear bool) (*Map, error) {
	ret := &Map{}
	var bad []string
	for state := range selection.All() {
		switch Str(state) {
		case "install", "hold", "deinstall", "purge":
		default:
			bad = append(bad, Str(state))
		}
	}
	if len(bad) > 0 {
		return nil, InvocationErrorf("Invalid state(s): %s", strings.Join(bad, ", "))
	}
	test := c.Opts.Bool("test")
	if clear && selection.Len() > 0 && !test {
		r, err := runApt(ctx, c, toolOptions{}, "dpkg", "--clear-selections")
		if err != nil {
			return nil, err
		}
		if r.failed() {
			return nil, ExecErrorf("Running dpkg --clear-selections failed: %s", r.stderr)
		}
	}
	all, err := dpkgSelections(ctx, c, nil)
	if err != nil {
		return nil, err
	}
	now := &Map{}
	for state, names := range all.All() {
		for _, n := range toItems(names) {
			now.Set(n, state)
		}
	}
	for state, names := range selection.All() {
		for _, name := range toItems(names) {
			if test || Equal(now.Value(name), state) {
				continue
			}
			r, err := runApt(ctx, c, toolOptions{stdin: Str(name) + " " + Str(state)}, "dpkg", "--set-selections")
			if err != nil {
				return nil, err
			}
			if r.failed() {
				c.Log.Error("failed to set state " + Str(state) + " for package " + Str(name))
				continue
			}
			ret.Set(name, NewMap("old", now.Value(name), "new", state))
		}
	}
	return ret, nil
}

type pkgHoldArgs struct {
	Name    any  `def:"None"`
	Pkgs    any  `def:"None"`
	Sources any  `def:"None"`
	Kwargs  *Map `arg:"**kwargs"`
}

// holdTargets lists the packages that hold and unhold are about.
func holdTargets(a pkgHoldArgs) ([]string, error) {
	if !Truth(a.Name) && !Truth(a.Pkgs) && !Truth(a.Sources) {
		return nil, InvocationErrorf("One of name, pkgs, or sources must be specified.")
	}
	if Truth(a.Pkgs) && Truth(a.Sources) {
		return nil, InvocationErrorf("Only one of pkgs or sources can be specified.")
	}
	items := []any{a.Name}
	if Truth(a.Pkgs) {
		items = toItems(a.Pkgs)
	} else if Truth(a.Sources) {
		items = toItems(a.Sources)
	}
	var out []string
	for _, item := range items {
		if m, ok := item.(*Map); ok && m.Len() > 0 {
			item, _ = m.At(0)
		}
		out = append(out, Str(item))
	}
	return out, nil
}

func aptHold(ctx context.Context, c *Call, a pkgHoldArgs) (any, error) {
	return aptSelect(ctx, c, a, "hold", func(name string, has *Map) (any, string) {
		if Truth(has.Value("hold")) {
			return true, "Package " + name + " is already set to be held."
		}
		return nil, "Package " + name + " is set to be held."
	}, "is now being held.")
}

func aptUnhold(ctx context.Context, c *Call, a pkgHoldArgs) (any, error) {
	return aptSelect(ctx, c, a, "install", func(name string, has *Map) (any, string) {
		switch {
		case has.Len() == 0:
			return false, "Package " + name + " does not have a state."
		case !Truth(has.Value("hold")):
			return true, "Package " + name + " is already set not to be held."
		}
		return nil, "Package " + name + " is set not to be held."
	}, "is no longer being held.")
}

// aptSelect brings packages to a selection state of dpkg. compare says what there
// is to a package that has its states: a result, or nil where it is to be changed.
func aptSelect(ctx context.Context, c *Call, a pkgHoldArgs, state string, compare func(name string, has *Map) (result any, comment string), done string) (any, error) {
	names, err := holdTargets(a)
	if err != nil {
		return nil, err
	}
	ret := &Map{}
	for _, name := range names {
		has, err := dpkgSelections(ctx, c, name)
		if err != nil {
			return nil, err
		}
		changes := any(&Map{})
		result, comment := compare(name, has)
		if result == nil && !c.Opts.Bool("test") {
			changed, err := setSelections(ctx, c, NewMap(state, NewList(name)), false)
			if err != nil {
				return nil, err
			}
			var ok bool
			if changes, ok = changed.Get(name); !ok && state == "hold" {
				return nil, OtherErrorf("KeyError", "%s", Repr(name))
			}
			result, comment = true, "Package "+name+" "+done
		}
		ret.Set(name, NewMap("name", name, "changes", changes, "result", result, "comment", comment))
	}
	return ret, nil
}

// held, setHeld and movesHeld are those of an installation (pkgHolder), which always
// releases what it is told to install.
func (aptManager) held(ctx context.Context, c *Call) ([]string, error) {
	all, err := dpkgSelections(ctx, c, nil)
	return namesOf(toItems(all.Value("hold"))), err
}

func (aptManager) setHeld(ctx context.Context, c *Call, names []string, on bool) error {
	f := aptUnhold
	if on {
		f = aptHold
	}
	_, err := f(ctx, c, pkgHoldArgs{Pkgs: Strings(names)})
	return err
}

func (aptManager) movesHeld(*Map) bool { return true }

func aptListDownloaded(ctx context.Context, c *Call, a rootKwArgs) (any, error) {
	return listDownloadedFiles(rootOf(a.Root)+"/var/cache/apt", ".deb", func(path string) (name, version string, err error) { return aptManager{}.fileInfo(ctx, c, path) })
}

type rootKwArgs struct {
	Root   any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}

func aptServicesNeedRestart(ctx context.Context, c *Call, _ kwargsOnly) (any, error) {
	if which("checkrestart") == "" {
		return nil, NotFoundErrorf("'checkrestart' is needed; it is in the package debian-goodies")
	}
	r, err := runSaltTool(ctx, c, toolOptions{}, "checkrestart", "--machine", "--package")
	if err != nil {
		return nil, err
	}
	out := &List{}
	for _, m := range regexp.MustCompile(`(?m)^SERVICE:([^,\n]*)`).FindAllStringSubmatch(r.stdout, -1) {
		if !containsItem(out.Items, m[1]) {
			out.Append(m[1])
		}
	}
	return out, nil
}
