// Installing and removing packages: what is common to all package managers.
package main

import (
	"context"
	"fmt"
	"strings"
)

type pkgInstallArgs struct {
	Name         any  `def:"None"`
	Refresh      any  `def:"False"`
	Fromrepo     any  `def:"None"`
	SkipVerify   bool `def:"False"`
	Debconf      any  `def:"None"`
	Pkgs         any  `def:"None"`
	Sources      any  `def:"None"`
	Reinstall    bool `def:"False"`
	Downloadonly bool `def:"False"`
	IgnoreEpoch  bool `def:"False"`
	Normalize    bool `def:"True"`
	Kwargs       *Map `arg:"**kwargs"`
}

// pkgTarget is one package to install or remove.
type pkgTarget struct {
	name    string
	version any    // nil, or text
	file    string // set for a package file
}

// targets sorts out name, pkgs and sources. ok is false if there is nothing.
func (m pkgCommon) targets(ctx context.Context, c *Call, name, pkgs, sources any, normalize bool, kwargs *Map) (out []pkgTarget, files, ok bool, err error) {
	norm := func(s string) string {
		if normalize {
			return m.p.normalize(c, s)
		}
		return s
	}
	if text, isText := pkgs.(string); isText && pkgs != "" {
		if v, yerr := ParseYAML([]byte(text)); yerr == nil {
			pkgs = v
		}
		if _, still := pkgs.(string); still {
			pkgs = Strings(strings.Split(text, ","))
		}
	}
	switch {
	case Truth(pkgs) && Truth(sources):
		c.Log.Error(`Only one of "pkgs" and "sources" can be used.`)
		return nil, false, false, nil
	case Truth(pkgs):
		packed, n, err := packPackages(pkgs, norm)
		if err != nil {
			return nil, false, false, err
		}
		if n != packed.Len() {
			return nil, false, false, InvocationErrorf("You are passing a list of packages that contains duplicated packages names: %s. This cannot be processed. "+
				"In case you are targeting different versions of the same package, please target them individually", Str(pkgs))
		}
		for k, v := range packed.All() {
			out = append(out, pkgTarget{name: Str(k), version: v})
		}
		return out, false, len(out) > 0, nil
	case Truth(sources):
		if text, isText := sources.(string); isText {
			if sources, err = ParseYAML([]byte(text)); err != nil {
				c.Log.Error(err.Error())
				return nil, false, false, nil
			}
		}
		for _, item := range toItems(sources) {
			one, isMap := item.(*Map)
			if !isMap || one.Len() != 1 {
				c.Log.Error("Input must be a list of 1-element dicts")
				return nil, false, false, nil
			}
			k, v := one.At(0)
			path, err := m.sourceFile(ctx, c, Str(k), Str(v), kwargs)
			if err != nil {
				return nil, false, false, err
			}
			out = append(out, pkgTarget{name: norm(Str(k)), file: path})
		}
		return out, true, len(out) > 0, nil
	case Truth(name):
		for _, n := range strings.Split(Str(name), ",") {
			var version any
			if v := kwargs.Value("version"); v != nil {
				version = Str(v)
			}
			out = append(out, pkgTarget{name: norm(n), version: version})
		}
		return out, false, true, nil
	}
	c.Log.Error("No package sources provided")
	return nil, false, false, nil
}

// packPackages turns a list of names and {name: version} into one mapping.
func packPackages(pkgs any, norm func(string) string) (*Map, int, error) {
	packed := &Map{}
	put := func(k, v any) {
		if v != nil {
			v = Str(v)
		}
		packed.Set(norm(Str(k)), v)
	}
	items := toItems(pkgs)
	for _, item := range items {
		m, ok := item.(*Map)
		if !ok {
			put(item, nil)
			continue
		}
		if pkgs == any(m) { // a mapping instead of a list
			for k, v := range m.All() {
				put(k, v)
			}
			return packed, packed.Len(), nil
		}
		if m.Len() != 1 {
			return packed, packed.Len(), nil
		}
		put(m.At(0))
	}
	return packed, len(items), nil
}

// sourceFile brings a package file to this box.
func (m pkgCommon) sourceFile(ctx context.Context, c *Call, name, source string, kwargs *Map) (string, error) {
	if scheme, _, ok := strings.Cut(source, "://"); ok && scheme != "" {
		saltenv := Str(kwargOf(kwargs, "saltenv", "base"))
		path, err := c.Run(ctx, "cp.cache_file", source, saltenv)
		if err != nil {
			return "", err
		}
		if !Truth(path) {
			return "", ExecErrorf("Unable to cache source %s for package %s", source, name)
		}
		return Str(path), nil
	}
	if !strings.HasPrefix(source, "/") {
		return "", InvocationErrorf("Path %s for package %s is either not absolute or an invalid protocol", source, name)
	}
	if !isFile(source) {
		return "", ExecErrorf("%s does not exist on minion", source)
	}
	return source, nil
}

// answerDebconf gives debconf the answers of a file, before the questions come up.
func answerDebconf(ctx context.Context, c *Call, source, saltenv string) error {
	path, err := c.Run(ctx, "cp.cache_file", source, saltenv)
	if err != nil {
		return err
	}
	ok := Truth(path)
	if ok {
		ok, err = runAllOK(ctx, c, "debconf-set-selections", Str(path))
	}
	if !ok && err == nil {
		err = ExecErrorf("cannot set the debconf answers of %s", source)
	}
	return err
}

func (m pkgCommon) install(ctx context.Context, c *Call, a pkgInstallArgs) (any, error) {
	if Truth(a.Debconf) {
		if err := answerDebconf(ctx, c, Str(a.Debconf), Str(kwargOf(a.Kwargs, "saltenv", "base"))); err != nil {
			return nil, err
		}
	}
	if ids := a.Kwargs.Value("advisory_ids"); Truth(ids) {
		return m.installAdvisories(ctx, c, a, namesOf(toItems(ids)))
	}
	normalize := a.Normalize && Truth(kwargOf(a.Kwargs, "split_arch", true))
	targets, files, ok, err := m.targets(ctx, c, a.Name, a.Pkgs, a.Sources, normalize, a.Kwargs)
	if err != nil || !ok {
		return &Map{}, err
	}
	if pyIsTrue(a.Refresh) && m.needsRefresh(ctx, c, a) {
		if _, err := m.p.refresh(ctx, c, refreshOptions(a.Kwargs)); err != nil {
			return nil, err
		}
	}
	before, err := m.state(ctx, c, false)
	if err != nil {
		return nil, err
	}
	req := &pkgInstall{files: files, args: a}
	if v := a.Fromrepo; Truth(v) {
		req.from = Str(v)
	} else if v := a.Kwargs.Value("repo"); Truth(v) {
		req.from = Str(v)
	}
	holds, err := m.startHolds(ctx, c, a.Kwargs)
	if err != nil {
		return nil, err
	}
	errs := &List{}
	again, err := m.sortTargets(ctx, c, req, targets, before, holds, errs)
	if err != nil {
		return nil, err
	}
	ret := &Map{}
	if len(req.targets)+len(req.downgrade)+len(req.reinstall) > 0 {
		cmds, err := m.p.installCommands(ctx, c, req)
		if err != nil {
			return nil, err
		}
		if err := holds.release(ctx, c); err != nil {
			return nil, err
		}
		after, err := m.runAll(ctx, c, cmds, a.Kwargs, errs)
		if err != nil {
			return nil, err
		}
		if err := holds.restore(ctx, c); err != nil {
			return nil, err
		}
		ret = pkgChanges(before.have, after.have)
		for _, name := range again {
			if !ret.Has(name) {
				ret.Set(name, NewMap("old", before.have.text(name), "new", after.have.text(name)))
			}
		}
	}
	if why := holds.problem(); why != "" {
		errs.Append(why)
	}
	return ret, m.failure("installing", len(req.reinstall) > 0, errs, ret)
}

// runAll runs commands one after the other, notes what failed, and reads what is
// installed then.
func (m pkgCommon) runAll(ctx context.Context, c *Call, cmds [][]string, kwargs *Map, errs *List) (pkgState, error) {
	for _, cmd := range cmds {
		r, err := m.p.run(ctx, c, cmd, kwargs)
		if err != nil {
			return pkgState{}, err
		}
		if why := m.p.failed(r); why != "" {
			errs.Append(why)
		}
	}
	return m.state(ctx, c, true)
}

// advisor is a provider that installs advisories of its repositories.
type advisor interface {
	advisoryCommands(ctx context.Context, c *Call, req *pkgInstall, ids []string) ([][]string, error)
}

func (m pkgCommon) installAdvisories(ctx context.Context, c *Call, a pkgInstallArgs, ids []string) (any, error) {
	p, ok := m.p.(advisor)
	if !ok {
		return nil, InvocationErrorf("this box's package manager knows no advisories")
	}
	before, err := m.state(ctx, c, false)
	if err != nil {
		return nil, err
	}
	cmds, err := p.advisoryCommands(ctx, c, &pkgInstall{args: a}, ids)
	if err != nil {
		return nil, err
	}
	errs := &List{}
	after, err := m.runAll(ctx, c, cmds, a.Kwargs, errs)
	if err != nil {
		return nil, err
	}
	ret := pkgChanges(before.have, after.have)
	return ret, m.failure("installing", false, errs, ret)
}

// failure is the error of what went wrong, nil if nothing did.
func (m pkgCommon) failure(action string, reinstalls bool, errs *List, changes *Map) error {
	if errs.Len() == 0 {
		return nil
	}
	if p, ok := m.p.(interface{ plainFailure() bool }); ok && p.plainFailure() {
		return ExecErrorf("%s", strings.Join(namesOf(errs.Items), "\n"))
	}
	return ExecErrorInfo(m.failureText(action, reinstalls), NewMap("errors", errs, "changes", changes))
}

// failureText is the first line of an error.
func (m pkgCommon) failureText(action string, reinstalls bool) string {
	if p, ok := m.p.(interface{ failureText(string, bool) string }); ok {
		return p.failureText(action, reinstalls)
	}
	return "Problem encountered " + action + " package(s)"
}

// needsRefresh says whether lists are brought up to date for an installation: not
// if the wanted versions are already the newest that are known.
func (m pkgCommon) needsRefresh(ctx context.Context, c *Call, a pkgInstallArgs) bool {
	newest := func(name string, version any) bool {
		found, err := m.p.candidates(ctx, c, []string{name}, "", a.Kwargs)
		return err == nil && found[name] == Str(version)
	}
	if v := a.Kwargs.Value("version"); Truth(v) && !Truth(a.Pkgs) {
		return !newest(Str(a.Name), v)
	}
	if !Truth(a.Pkgs) {
		return true
	}
	for _, item := range toItems(a.Pkgs) {
		one, ok := item.(*Map)
		if !ok || one.Len() == 0 {
			return true
		}
		if k, v := one.At(0); !newest(Str(k), v) {
			return true
		}
	}
	return false
}

// sortTargets decides for each package: install, downgrade or install again.
func (m pkgCommon) sortTargets(ctx context.Context, c *Call, req *pkgInstall, targets []pkgTarget, before pkgState, holds *pkgHolds, errs *List) (again []string, err error) {
	var compared []string
	for _, t := range targets {
		if v, ok := t.version.(string); ok && (strings.HasPrefix(v, "<") || strings.HasPrefix(v, ">")) {
			compared = append(compared, t.name)
		}
	}
	known := &Map{}
	if len(compared) > 0 {
		if known, err = m.p.available(ctx, c, compared, &Map{}); err != nil {
			return nil, err
		}
	}
	for _, t := range targets {
		what := t.name
		if req.files {
			what = t.file
			if name, version, err := m.p.fileInfo(ctx, c, t.file); err == nil {
				t.name, t.version = name, version
			}
		}
		if holds.keeps(t.name) {
			continue
		}
		if t.version == nil {
			if req.args.Reinstall && before.have.by[t.name] != nil && !req.files {
				req.reinstall = append(req.reinstall, what)
				again = append(again, t.name)
			} else {
				req.targets = append(req.targets, what)
			}
			continue
		}
		version := strings.TrimLeft(Str(t.version), "=")
		if !req.files {
			if hasString(compared, t.name) {
				var candidates []string
				for _, v := range toItems(known.Value(t.name)) {
					candidates = append(candidates, Str(v))
				}
				match := m.matchVersion(version, candidates, req.args.IgnoreEpoch)
				if match == "" {
					shown := "None"
					if len(candidates) > 0 {
						shown = strings.Join(candidates, ", ")
					}
					errs.Append(fmt.Sprintf("No version matching '%s%s' could be found (available: %s)", t.name, version, shown))
					continue
				}
				version = match
			}
			what = pkgAtVersion(m.p, t.name, version)
		}
		have := before.have.text(t.name)
		switch {
		case req.args.Reinstall && have != "" && m.cmp(version, have, false) == 0:
			req.reinstall = append(req.reinstall, what)
			again = append(again, t.name)
		case have == "" || m.cmp(version, have, false) >= 0 || m.sideBySide(t.name):
			req.targets = append(req.targets, what)
		default:
			req.downgrade = append(req.downgrade, what)
		}
	}
	return again, nil
}

// sideBySide says whether versions of a package live together.
func (m pkgCommon) sideBySide(name string) bool {
	p, ok := m.p.(interface{ sideBySide(string) bool })
	return ok && p.sideBySide(name)
}

// versionJoiner is a provider that does not write name=version.
type versionJoiner interface {
	at(name, version string) string
}

func pkgAtVersion(p packageManager, name, version string) string {
	if j, ok := p.(versionJoiner); ok {
		return j.at(name, version)
	}
	return name + "=" + version
}

// splitComparison splits ">= 1.0" into operator and version.
func splitComparison(s string) (oper, version string) {
	for _, op := range []string{"<=>", "!=", ">=", "<=", ">>", "<<", "<>", ">", "<", "="} {
		if rest, ok := strings.CutPrefix(s, op); ok {
			return op, strings.TrimLeft(rest, " ")
		}
	}
	return "==", s
}

// versionHolds says whether a comparison of versions is true.
func versionHolds(cmp int, oper string) bool {
	switch oper {
	case "==", "=":
		return cmp == 0
	case "!=", "<>":
		return cmp != 0
	case ">=":
		return cmp >= 0
	case "<=":
		return cmp <= 0
	case ">", ">>":
		return cmp > 0
	case "<", "<<":
		return cmp < 0
	}
	return false
}

func (m pkgCommon) matchVersion(wanted string, candidates []string, ignoreEpoch bool) string {
	oper, version := splitComparison(wanted)
	for _, v := range candidates {
		if versionHolds(m.cmp(v, version, ignoreEpoch), oper) {
			return v
		}
	}
	return ""
}

type pkgRemoveArgs struct {
	Name   any  `def:"None"`
	Pkgs   any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}

func (m pkgCommon) remove(ctx context.Context, c *Call, a pkgRemoveArgs) (any, error) {
	return m.uninstall(ctx, c, a, false)
}

func (m pkgCommon) purge(ctx context.Context, c *Call, a pkgRemoveArgs) (any, error) {
	return m.uninstall(ctx, c, a, true)
}

// purgeReporter is a provider whose purge reports removed and installed apart.
type purgeReporter interface{ purgesConfig() bool }

func (m pkgCommon) uninstall(ctx context.Context, c *Call, a pkgRemoveArgs, purge bool) (any, error) {
	targets, _, ok, err := m.targets(ctx, c, a.Name, a.Pkgs, nil, true, a.Kwargs)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, TypeErrorf("'NoneType' object is not iterable")
	}
	before, err := m.state(ctx, c, false)
	if err != nil {
		return nil, err
	}
	names := m.installedTargets(targets, before)
	if purge {
		for _, t := range targets {
			if before.removed.by[t.name] != nil {
				names = append(names, t.name)
			}
		}
	}
	if len(names) == 0 {
		return &Map{}, nil
	}
	errs := &List{}
	after, err := m.runAll(ctx, c, [][]string{m.p.removeCommand(names, purge, a.Kwargs)}, a.Kwargs, errs)
	if err != nil {
		return nil, err
	}
	ret := pkgChanges(before.have, after.have)
	if p, ok := m.p.(purgeReporter); purge && ok && p.purgesConfig() {
		ret = NewMap("removed", pkgChanges(before.removed, after.removed), "installed", ret)
	}
	return ret, m.failure("removing", false, errs, ret)
}

// pkgUpgradeNamedArgs are the arguments of an upgrade that can be of some packages.
type pkgUpgradeNamedArgs struct {
	Name    any  `def:"None"`
	Pkgs    any  `def:"None"`
	Refresh any  `def:"True"`
	Kwargs  *Map `arg:"**kwargs"`
}

// upgradeNamed is upgrade where a provider can upgrade some packages alone; their
// names reach its command as pkgUpgradeNames.
func (m pkgCommon) upgradeNamed(ctx context.Context, c *Call, a pkgUpgradeNamedArgs) (any, error) {
	kw := a.Kwargs.Clone()
	if Truth(a.Name) || Truth(a.Pkgs) {
		targets, _, ok, err := m.targets(ctx, c, a.Name, a.Pkgs, nil, Truth(kwargOf(kw, "normalize", true)), kw)
		if err != nil {
			return nil, err
		}
		names := &List{}
		for _, t := range targets {
			names.Append(t.name)
		}
		if ok {
			kw.Set("names", names)
		}
	}
	return m.upgrade(ctx, c, pkgUpgradeArgs{Refresh: a.Refresh, DistUpgrade: kwargOf(kw, "dist_upgrade", false), Kwargs: kw})
}

func pkgUpgradeNames(kw *Map) []string { return namesOf(toItems(kw.Value("names"))) }

// installedTargets are those packages to remove that are installed, in the words of
// the command: with a wildcard all that match, with a version only if it is that.
func (m pkgCommon) installedTargets(targets []pkgTarget, before pkgState) []string {
	var names []string
	// Patterns are names to the managers of rpm packages only, as in Salt: with
	// apt, what is removed was named.
	_, patterns := m.p.(versionJoiner)
	for _, t := range targets {
		if patterns && strings.Contains(t.name, "*") {
			for _, have := range before.have.names {
				if GlobMatch(t.name, have) {
					names = append(names, have)
				}
			}
			continue
		}
		versions := before.have.by[t.name]
		switch j, ok := m.p.(versionJoiner); {
		case versions == nil:
		case !Truth(t.version) || !ok:
			names = append(names, t.name)
		case hasString(versions, Str(t.version)):
			names = append(names, j.at(t.name, Str(t.version)))
		}
	}
	return names
}

type pkgUpgradeArgs struct {
	Refresh     any  `def:"True"`
	DistUpgrade any  `def:"False"`
	Kwargs      *Map `arg:"**kwargs"`
}

func (m pkgCommon) upgrade(ctx context.Context, c *Call, a pkgUpgradeArgs) (any, error) {
	if pyIsTrue(a.Refresh) {
		if _, err := m.p.refresh(ctx, c, refreshOptions(a.Kwargs)); err != nil {
			return nil, err
		}
	}
	before, err := m.state(ctx, c, false)
	if err != nil {
		return nil, err
	}
	kw := a.Kwargs.Clone()
	kw.Set("dist_upgrade", a.DistUpgrade)
	r, err := m.p.run(ctx, c, m.p.upgradeCommand(kw), a.Kwargs)
	if err != nil {
		return nil, err
	}
	after, err := m.state(ctx, c, true)
	if err != nil {
		return nil, err
	}
	ret := pkgChanges(before.have, after.have)
	if m.p.failed(r) != "" {
		return nil, ExecErrorInfo("Problem encountered upgrading packages", NewMap("changes", ret, "result", r.asMap()))
	}
	return ret, nil
}

// inScope puts a command that changes packages into a scope of its own where
// systemd runs: an upgrade of the minion itself must survive its restart.
func inScope(c *Call, args []string) []string {
	if !isDir("/run/systemd/system") || which("systemd-run") == "" {
		return args
	}
	if v, ok := configLookup(c, "systemd.scope"); ok && !Truth(v) {
		return args
	}
	return append([]string{"systemd-run", "--scope", "--description", "pkg"}, args...)
}
