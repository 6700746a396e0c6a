// State module pkg: what has to be installed or removed.
package main

import (
	"context"
	"slices"
	"strings"
)

// pkgTargets is what an installation has to do.
type pkgTargets struct {
	desired   *Map  // all wanted packages with their versions
	targets   *Map  // those to install
	unpurge   []any // those whose purge is to be taken back
	reinstall *Map
	altered   *Map // files that differ, by package
	warnings  []any
	refreshed bool
}

// versionConditions splits ">=1.2,<2" into operators and versions.
func versionConditions(s string) [][2]string {
	var out [][2]string
	if s = pyStrip(s); s == "" {
		return nil
	}
	for _, part := range strings.Split(s, ",") {
		op, v := splitComparison(pyStrip(part))
		if op == "=" {
			op = "=="
		}
		out = append(out, [2]string{op, v})
	}
	return out
}

// fulfillsVersion says whether one of the installed versions is wanted.
func fulfillsVersion(ctx context.Context, c *Call, installed []any, wanted string, ignoreEpoch any, updates bool) (bool, error) {
	conditions := versionConditions(wanted)
	for _, v := range installed {
		all := true
		for _, cond := range conditions {
			op, want := cond[0], cond[1]
			if updates && len(conditions) == 1 && op == "==" {
				op = ">="
			}
			if op == "==" && GlobMatch(want, Str(v)) {
				continue
			}
			ignore := ignoreEpoch
			if ignore == nil {
				ignore = !strings.ContainsAny(op, "<>") && !strings.Contains(want, ":")
			}
			cmp, err := c.RunKw(ctx, "pkg.version_cmp", []any{v, want}, NewMap("ignore_epoch", ignore))
			if err != nil {
				return false, err
			}
			n, ok := toInt(cmp)
			if cmp == nil || !ok || !versionHolds(int(n), op) {
				all = false
				break
			}
		}
		if all {
			return true, nil
		}
	}
	return false, nil
}

// pkgNormal makes the function that brings names to their normal form.
func pkgNormal(ctx context.Context, c *Call, normalize bool) func(string) string {
	if !normalize || !c.Has(ctx, "pkg.normalize_name") {
		return func(s string) string { return s }
	}
	return func(s string) string {
		v, err := c.Run(ctx, "pkg.normalize_name", s)
		if err != nil {
			return s
		}
		return Str(v)
	}
}

// versionClean is a version as package manager and states compare it.
func versionClean(ctx context.Context, c *Call, v any) (any, error) {
	if Truth(v) && c.Has(ctx, "pkg.version_clean") {
		return c.Run(ctx, "pkg.version_clean", v)
	}
	return v, nil
}

// pkgItems are the versions of one package in a list of packages.
func pkgItems(m *Map, name any) []any {
	v := m.Value(name)
	if s, ok := v.(string); ok {
		if s == "" {
			return nil
		}
		return []any{s}
	}
	return toItems(v)
}

// pkgPreflight asks package managers that can tell whether packages exist.
func pkgPreflight(ctx context.Context, c *Call, names []any, kw *Map) (string, error) {
	if !c.Has(ctx, "pkg.check_db") {
		return "", nil
	}
	v, err := c.RunKw(ctx, "pkg.check_db", names, kw)
	if isExecError(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	m, _ := v.(*Map)
	var unknown, comments []string
	for k, v := range m.All() {
		one, _ := v.(*Map)
		switch {
		case one.Value("found") != false:
		case Truth(one.Value("suggestions")):
			comments = append(comments, "Package '"+Str(k)+"' not found (possible matches: "+joinTexts(toItems(one.Value("suggestions")), ", ")+")")
		default:
			unknown = append(unknown, Str(k))
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		comments = slices.Insert(comments, 0, "The following package(s) were not found, and no possible matches were found in the package db: "+strings.Join(unknown, ", "))
	}
	if len(comments) > 1 {
		comments = append(comments, "")
	}
	return strings.TrimRight(strings.Join(comments, ". "), " "), nil
}

// targetSearch compares what is wanted with what is installed. Its steps end the
// state by returning its return, which is nil while there is more to do.
type targetSearch struct {
	a        pkgInstalledArgs
	refresh  bool
	kw       *Map // for the functions of pkg
	norm     func(string) string
	have     *Map // all installed packages with their versions
	provides *Map // capabilities, where they are resolved
	t        *pkgTargets

	problems     []string
	failedVerify string // why the files of a package could not be checked
	versions     bool   // versions were compared
}

// findInstallTargets compares what is wanted with what is installed. A return
// instead of targets ends the state.
func findInstallTargets(ctx context.Context, c *Call, a pkgInstalledArgs, refresh bool) (*pkgTargets, *Map, error) {
	s := &targetSearch{a: a, refresh: refresh, kw: pkgWith(a.Kwargs, "fromrepo", a.Fromrepo, "split_arch", false),
		norm: pkgNormal(ctx, c, Truth(a.Normalize)), t: &pkgTargets{targets: NewMap(), reinstall: NewMap(), altered: NewMap()}}
	for _, step := range []func(context.Context, *Call) (*Map, error){
		s.listInstalled, s.readDesired, s.listPurged, s.checkExistence, s.resolveLatest, s.compareAll, s.report,
	} {
		if end, err := step(ctx, c); end != nil || err != nil {
			return nil, end, err
		}
	}
	return s.t, nil, nil
}

func (s *targetSearch) fail(comment string) (*Map, error) {
	return pkgRet(s.a.Name, false, comment), nil
}

func (s *targetSearch) listInstalled(ctx context.Context, c *Call) (*Map, error) {
	if Truth(s.a.Pkgs) && Truth(s.a.Sources) {
		return s.fail("Only one of \"pkgs\" and \"sources\" is permitted.")
	}
	v, err := c.RunKw(ctx, "pkg.list_pkgs", nil, pkgWith(s.kw, "versions_as_list", true))
	if isExecError(err) {
		return s.fail(errText(err))
	}
	if err != nil {
		return nil, err
	}
	s.have, _ = v.(*Map)
	if !Truth(s.a.Kwargs.Value("resolve_capabilities")) || !c.Has(ctx, "pkg.list_provides") {
		return nil, nil
	}
	v, err = c.RunKw(ctx, "pkg.list_provides", nil, s.kw.Clone())
	s.provides, _ = v.(*Map)
	return nil, err
}

func (s *targetSearch) readDesired(context.Context, *Call) (*Map, error) {
	kind := "sources"
	var err error
	switch {
	case Truth(s.a.Pkgs):
		kind = "pkgs"
		// The names of a state's list are not split at their architecture.
		s.t.desired, _, err = packPackages(s.a.Pkgs, func(s string) string { return s })
	case Truth(s.a.Sources):
		s.t.desired, _, err = packPackages(s.a.Sources, s.norm)
	default:
		s.t.desired = NewMap(s.norm(s.a.Name), s.a.Version)
	}
	if err == nil && s.t.desired.Len() == 0 {
		return s.fail("Invalidly formatted '" + kind + "' parameter. See minion log.")
	}
	return nil, err
}

// listPurged finds the wanted packages that are marked to be purged.
func (s *targetSearch) listPurged(ctx context.Context, c *Call) (*Map, error) {
	v, err := c.RunKw(ctx, "pkg.list_pkgs", nil, pkgWith(s.kw, "purge_desired", true))
	if err != nil {
		return nil, err
	}
	purge, _ := v.(*Map)
	for k := range s.t.desired.All() {
		if purge.Has(k) {
			s.t.unpurge = append(s.t.unpurge, k)
		}
	}
	return nil, nil
}

// checkExistence sees to it that the packages that are missing exist.
func (s *targetSearch) checkExistence(ctx context.Context, c *Call) (*Map, error) {
	if Truth(s.a.Sources) || Truth(s.a.SkipSuggestions) {
		return nil, nil
	}
	var missing []any
	for k, want := range s.t.desired.All() {
		fine := s.have.Has(k)
		if fine && want != nil {
			var err error
			if fine, err = fulfillsVersion(ctx, c, pkgItems(s.have, k), Str(want), s.a.IgnoreEpoch, false); err != nil {
				return nil, err
			}
		}
		if !fine {
			missing = append(missing, k)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	text, err := pkgPreflight(ctx, c, missing, s.kw.Clone())
	if err != nil || text == "" {
		return nil, err
	}
	return s.fail(text)
}

func (s *targetSearch) resolveLatest(ctx context.Context, c *Call) (*Map, error) {
	return nil, s.t.resolveLatest(ctx, c, s.a, s.have, s.kw, s.refresh)
}

func (s *targetSearch) compareAll(ctx context.Context, c *Call) (*Map, error) {
	for name, want := range s.t.desired.All() {
		if err := s.compare(ctx, c, name, want); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// installed are the versions of a package that are installed, by its name, its
// normal name or the one that provides it.
func (s *targetSearch) installed(name any) []any {
	found := pkgItems(s.have, name)
	if len(found) == 0 {
		found = pkgItems(s.have, s.norm(Str(name)))
	}
	if by := toItems(s.provides.Value(name)); len(found) == 0 && len(by) > 0 {
		found = pkgItems(s.have, by[0])
	}
	return found
}

// compare makes a wanted package a target if it is not as wanted.
func (s *targetSearch) compare(ctx context.Context, c *Call, name, want any) error {
	installed := s.installed(name)
	switch {
	case len(installed) == 0:
		s.t.targets.Set(name, want)
		return nil
	case Truth(s.a.Reinstall):
		s.t.reinstall.Set(name, want)
		return nil
	}
	version, done, err := s.versionToCompare(ctx, c, name, want)
	if done || err != nil {
		return err
	}
	fine, err := fulfillsVersion(ctx, c, installed, version, s.a.IgnoreEpoch, Truth(s.a.Kwargs.Value("allow_updates")))
	if isExecError(err) {
		s.problems = append(s.problems, errText(err))
		return nil
	}
	if err != nil {
		return err
	}
	s.versions = true
	if fine {
		return nil
	}
	exact := slices.ContainsFunc(versionConditions(Str(want)), func(c [2]string) bool { return c[0] == "==" })
	if s.a.PkgVerify != false && exact {
		s.verify(ctx, c, name, want)
	} else {
		s.t.targets.Set(name, want)
	}
	return nil
}

// versionToCompare is the version that an installed package is to have; done
// says that none is to be compared.
func (s *targetSearch) versionToCompare(ctx context.Context, c *Call, name, want any) (version string, done bool, err error) {
	if Truth(s.a.Sources) {
		version, problem, warning, err := sourceVersion(ctx, c, Str(want), s.kw)
		if err != nil {
			return "", false, err
		}
		if problem != "" {
			s.problems = append(s.problems, problem)
		}
		if warning != "" {
			s.t.warnings = append(s.t.warnings, warning)
		}
		return version, version == "", nil
	}
	if c.Has(ctx, "pkg.check_extra_requirements") && Truth(want) {
		ok, err := runTruth(ctx, c, "pkg.check_extra_requirements", name, want)
		if err != nil {
			return "", false, err
		}
		if !ok {
			s.t.targets.Set(name, want)
			return "", true, nil
		}
	}
	clean, err := versionClean(ctx, c, want)
	if err != nil || clean != nil {
		return Str(want), false, err
	}
	if s.a.PkgVerify != false {
		s.verify(ctx, c, name, want)
	}
	return "", true, nil
}

// verify has a package installed again whose files differ.
func (s *targetSearch) verify(ctx context.Context, c *Call, name, want any) {
	v, err := c.RunKw(ctx, "pkg.verify", []any{name}, pkgWith(s.kw, "ignore_types", verifyOption(s.a.PkgVerify, "ignore_types"),
		"verify_options", verifyOption(s.a.PkgVerify, "verify_options")))
	if err != nil {
		s.failedVerify = errText(err)
	} else if Truth(v) {
		s.t.reinstall.Set(name, want)
		s.t.altered.Set(name, v)
	}
}

// report ends a search that found problems, or nothing to do.
func (s *targetSearch) report(context.Context, *Call) (*Map, error) {
	if s.failedVerify != "" {
		s.problems = append(s.problems, s.failedVerify)
	}
	if len(s.problems) > 0 {
		return s.fail(strings.Join(s.problems, " "))
	}
	if s.t.targets.Len()+len(s.t.unpurge)+s.t.reinstall.Len() > 0 {
		return nil, nil
	}
	text := "All specified packages are already installed"
	if s.versions && !Truth(s.a.Sources) {
		text += " and are at the desired version"
	}
	ret := pkgRet(s.a.Name, true, text)
	if len(s.t.warnings) > 0 {
		ret.Set("warnings", NewList(s.t.warnings...))
	}
	return ret, nil
}

// sourceVersion is the version of a package file.
func sourceVersion(ctx context.Context, c *Call, source string, kw *Map) (version, problem, warning string, err error) {
	if !c.Has(ctx, "lowpkg.bin_pkg_info") {
		return "", "", "", nil
	}
	v, err := c.RunKw(ctx, "cp.cache_file", []any{source}, NewMap("saltenv", kw.Value("saltenv")))
	switch {
	case isExecError(err):
		return "", "Unable to cache " + source + ": " + errText(err), "", nil
	case err != nil:
		return "", "", "", err
	case !Truth(v):
		return "", "Unable to cache " + source + ": file not found", "", nil
	case !pathExists(Str(v)):
		return "", source + " does not exist on minion", "", nil
	}
	info, err := runMap(ctx, c, "lowpkg.bin_pkg_info", v)
	if err != nil {
		return "", "", "", err
	}
	if info == nil {
		return "", "", "Failed to parse metadata for " + source, nil
	}
	return Str(info.Value("version")), "", "", nil
}

// resolveLatest replaces the version "latest" by the one it is.
func (t *pkgTargets) resolveLatest(ctx context.Context, c *Call, a pkgInstalledArgs, have, kw *Map, refresh bool) error {
	var names []any
	for k, v := range t.desired.All() {
		if v == "latest" && !Truth(a.Sources) {
			names = append(names, k)
		}
	}
	if len(names) == 0 {
		return nil
	}
	v, err := c.RunKw(ctx, "pkg.latest_version", names, pkgWith(kw, "refresh", refresh))
	if err != nil {
		return err
	}
	m, ok := v.(*Map)
	if !ok {
		m = NewMap(names[0], v)
	}
	t.refreshed = refresh
	for k, v := range m.All() {
		if !Truth(v) {
			v = nil
			if items := pkgItems(have, k); len(items) > 0 {
				v = items[len(items)-1]
			}
		}
		t.desired.Set(k, v)
	}
	return nil
}

// verifyInstalled says which packages are installed as wanted.
func verifyInstalled(ctx context.Context, c *Call, desired, now, caps *Map, ignoreEpoch any) (ok, failed []any, err error) {
	norm := pkgNormal(ctx, c, true)
	for name, want := range desired.All() {
		lookup, _, _ := strings.Cut(Str(name), "=")
		installed := pkgItems(now, lookup)
		if len(installed) == 0 {
			installed = pkgItems(now, norm(lookup))
		}
		if by := toItems(caps.Value(lookup)); len(installed) == 0 && len(by) > 0 {
			installed = pkgItems(now, by[0])
		}
		if len(installed) == 0 {
			failed = append(failed, name)
			continue
		}
		clean, err := versionClean(ctx, c, want)
		if err != nil {
			return nil, nil, err
		}
		text := Str(want)
		fine := want == "latest" || !Truth(clean) || strings.HasSuffix(text, "*") && strings.HasPrefix(Str(installed[0]), text[:len(text)-1])
		if !fine {
			if fine, err = fulfillsVersion(ctx, c, installed, text, ignoreEpoch, false); err != nil {
				return nil, nil, err
			}
		}
		if fine {
			ok = append(ok, name)
		} else {
			failed = append(failed, name)
		}
	}
	return ok, failed, nil
}

// findRemoveTargets lists what is installed of what is to be removed. A return
// instead says why there is nothing to do.
func findRemoveTargets(ctx context.Context, c *Call, a pkgRemovedArgs) ([]any, *Map, error) {
	v, err := c.RunKw(ctx, "pkg.list_pkgs", nil, pkgWith(a.Kwargs, "versions_as_list", true))
	if err != nil {
		return nil, nil, err
	}
	have, _ := v.(*Map)
	var remove *Map
	if Truth(a.Pkgs) {
		if remove, _, err = packPackages(a.Pkgs, pkgNormal(ctx, c, Truth(a.Normalize))); err != nil {
			return nil, nil, err
		}
		if remove.Len() == 0 {
			return nil, pkgRet(a.Name, false, "Invalidly formatted pkgs parameter. See minion log."), nil
		}
	} else {
		remove = NewMap(pkgNormal(ctx, c, true)(a.Name), a.Version)
	}
	var targets []any
	var problems []string
	versions := false
	for name, want := range remove.All() {
		installed := pkgItems(have, name)
		if len(installed) == 0 {
			continue
		}
		clean, err := versionClean(ctx, c, want)
		if err != nil {
			return nil, nil, err
		}
		if clean == nil {
			targets = append(targets, name)
			continue
		}
		versions = true
		fine, err := fulfillsVersion(ctx, c, installed, Str(want), a.IgnoreEpoch, false)
		switch {
		case isExecError(err):
			problems = append(problems, errText(err))
		case err != nil:
			return nil, nil, err
		case fine:
			targets = append(targets, name)
		}
	}
	if len(problems) > 0 {
		return nil, pkgRet(a.Name, false, strings.Join(problems, " ")), nil
	}
	if len(targets) == 0 {
		text := "All specified packages"
		if versions {
			text += " (matching specified versions)"
		}
		return nil, pkgRet(a.Name, true, text+" are already absent"), nil
	}
	return targets, nil, nil
}
