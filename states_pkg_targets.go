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

// findInstallTargets compares what is wanted with what is installed. A return
// instead of targets ends the state.
func findInstallTargets(ctx context.Context, c *Call, a pkgInstalledArgs, refresh bool) (*pkgTargets, *Map, error) {
	stop := func(result any, comment string) (*pkgTargets, *Map, error) {
		return nil, pkgRet(a.Name, result, comment), nil
	}
	if Truth(a.Pkgs) && Truth(a.Sources) {
		return stop(false, "Only one of \"pkgs\" and \"sources\" is permitted.")
	}
	kw := pkgWith(a.Kwargs, "fromrepo", a.Fromrepo, "split_arch", false)
	v, err := c.RunKw(ctx, "pkg.list_pkgs", nil, pkgWith(kw, "versions_as_list", true))
	if isExecError(err) {
		return stop(false, errText(err))
	}
	if err != nil {
		return nil, nil, err
	}
	have, _ := v.(*Map)
	provides := NewMap()
	resolve := Truth(a.Kwargs.Value("resolve_capabilities")) && c.Has(ctx, "pkg.list_provides")
	if resolve {
		v, err := c.RunKw(ctx, "pkg.list_provides", nil, kw.Clone())
		if err != nil {
			return nil, nil, err
		}
		if m, ok := v.(*Map); ok {
			provides = m
		}
	}
	t := &pkgTargets{targets: NewMap(), reinstall: NewMap(), altered: NewMap()}
	norm := pkgNormal(ctx, c, Truth(a.Normalize))
	again, verify := Truth(a.Reinstall), a.PkgVerify != false
	switch {
	case Truth(a.Pkgs):
		// The names of a state's list are not split at their architecture.
		if t.desired, _, err = packPackages(a.Pkgs, func(s string) string { return s }); err != nil {
			return nil, nil, err
		}
	case Truth(a.Sources):
		if t.desired, _, err = packPackages(a.Sources, norm); err != nil {
			return nil, nil, err
		}
	default:
		t.desired = NewMap(norm(a.Name), a.Version)
	}
	if t.desired.Len() == 0 {
		kind := "sources"
		if Truth(a.Pkgs) {
			kind = "pkgs"
		}
		return stop(false, "Invalidly formatted '"+kind+"' parameter. See minion log.")
	}
	purge, err := c.RunKw(ctx, "pkg.list_pkgs", nil, pkgWith(kw, "purge_desired", true))
	if err != nil {
		return nil, nil, err
	}
	if m, ok := purge.(*Map); ok {
		for k := range t.desired.All() {
			if m.Has(k) {
				t.unpurge = append(t.unpurge, k)
			}
		}
	}
	if !Truth(a.Sources) && !Truth(a.SkipSuggestions) {
		var missing []any
		for k, want := range t.desired.All() {
			fine := have.Has(k) && want == nil
			if have.Has(k) && want != nil {
				if fine, err = fulfillsVersion(ctx, c, pkgItems(have, k), Str(want), a.IgnoreEpoch, false); err != nil {
					return nil, nil, err
				}
			}
			if !fine {
				missing = append(missing, k)
			}
		}
		if len(missing) > 0 {
			text, err := pkgPreflight(ctx, c, missing, kw.Clone())
			if err != nil {
				return nil, nil, err
			}
			if text != "" {
				return stop(false, text)
			}
		}
	}
	if err := t.resolveLatest(ctx, c, a, have, kw, refresh); err != nil {
		return nil, nil, err
	}
	var problems []string
	versions := false
	failedVerify := ""
	for name, want := range t.desired.All() {
		installed := pkgItems(have, name)
		if len(installed) == 0 {
			if n := norm(Str(name)); n != Str(name) {
				installed = pkgItems(have, n)
			}
		}
		if resolve && len(installed) == 0 {
			if by := toItems(provides.Value(name)); len(by) > 0 {
				installed = pkgItems(have, by[0])
			}
		}
		if len(installed) == 0 {
			t.targets.Set(name, want)
			continue
		}
		if again {
			t.reinstall.Set(name, want)
			continue
		}
		check := func() {
			v, err := c.RunKw(ctx, "pkg.verify", []any{name}, pkgWith(kw, "ignore_types", verifyOption(a.PkgVerify, "ignore_types"),
				"verify_options", verifyOption(a.PkgVerify, "verify_options")))
			if err != nil {
				failedVerify = errText(err)
			} else if Truth(v) {
				t.reinstall.Set(name, want)
				t.altered.Set(name, v)
			}
		}
		compare := want
		if Truth(a.Sources) {
			version, problem, warning, err := sourceVersion(ctx, c, Str(want), kw)
			if err != nil {
				return nil, nil, err
			}
			if problem != "" {
				problems = append(problems, problem)
			}
			if warning != "" {
				t.warnings = append(t.warnings, warning)
			}
			if version == "" {
				continue
			}
			compare = version
		} else {
			if c.Has(ctx, "pkg.check_extra_requirements") && Truth(want) {
				ok, err := runTruth(ctx, c, "pkg.check_extra_requirements", name, want)
				if err != nil {
					return nil, nil, err
				}
				if !ok {
					t.targets.Set(name, want)
					continue
				}
			}
			clean, err := versionClean(ctx, c, want)
			if err != nil {
				return nil, nil, err
			}
			if clean == nil {
				if verify {
					check()
				}
				continue
			}
		}
		fine, err := fulfillsVersion(ctx, c, installed, Str(compare), a.IgnoreEpoch, Truth(a.Kwargs.Value("allow_updates")))
		if isExecError(err) {
			problems = append(problems, errText(err))
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		versions = true
		if fine {
			continue
		}
		exact := slices.ContainsFunc(versionConditions(Str(want)), func(c [2]string) bool { return c[0] == "==" })
		if verify && exact {
			check()
		} else {
			t.targets.Set(name, want)
		}
	}
	if failedVerify != "" {
		problems = append(problems, failedVerify)
	}
	if len(problems) > 0 {
		return stop(false, strings.Join(problems, " "))
	}
	if t.targets.Len()+len(t.unpurge)+t.reinstall.Len() == 0 {
		text := "All specified packages are already installed"
		if versions && !Truth(a.Sources) {
			text += " and are at the desired version"
		}
		ret := pkgRet(a.Name, true, text)
		if len(t.warnings) > 0 {
			ret.Set("warnings", NewList(t.warnings...))
		}
		return nil, ret, nil
	}
	return t, nil, nil
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
