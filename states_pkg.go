// State module pkg: packages. states_pkg_targets.go decides what has to be
// installed or removed, states_pkg_more.go has the smaller functions.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func pkgStates() Module {
	return Module{
		Doc:     "Packages of the system.",
		Virtual: needsFunction("pkg.install", "pkg module could not be loaded"),
		Funcs: Funcs{
			"installed":        {run: pkgStateInstalled, doc: "The packages are installed. version is a version or conditions such as >=1.2,<2; pkgs is a list of names or {name: version}; sources a list of {name: file}; hold keeps them at it."},
			"latest":           {run: pkgStateLatest, doc: "The packages are installed in the newest version that the repositories have."},
			"removed":          {run: pkgStateRemoved, doc: "The packages are not installed."},
			"purged":           {run: pkgStatePurged, doc: "The packages are not installed and their configuration is gone."},
			"downloaded":       {run: pkgStateDownloaded, doc: "The packages are in the package manager's cache."},
			"uptodate":         {run: pkgStateUptodate, doc: "All packages, or those of pkgs, are up to date."},
			"held":             {run: pkgStateHeld, doc: "The packages stay at their versions; replace releases all others."},
			"unheld":           {run: pkgStateUnheld, doc: "The packages may be upgraded; all means every one."},
			"group_installed":  {run: pkgStateGroup, doc: "A group of packages is installed."},
			"patch_installed":  {run: pkgStatePatchInstalled, doc: "Patches of advisories are installed."},
			"patch_downloaded": {run: pkgStatePatchDownloaded, doc: "Patches of advisories are in the package manager's cache."},
			"mod_init":         {run: pkgStateInit, doc: "Have package lists refreshed before the first installation of a run."},
			"mod_aggregate":    {run: pkgStateAggregate, doc: "Join later states of the same kind to one."},
			"mod_watch":        {run: pkgStateWatch, doc: "Do the same again because a watched state has changed."},
			"mod_beacon":       {run: pkgStateBeacon, doc: "Add a beacon that watches the packages."},
		},
	}
}

// refreshTag is the file that asks for fresh package lists in this run.
func refreshTag(c *Call) string { return filepath.Join(c.Opts.Path("cachedir"), "pkg_refresh") }

// wantsRefresh says whether a state has the package lists brought up to date.
func wantsRefresh(c *Call, refresh any) bool {
	if dataTrue(refresh) {
		return true
	}
	return refresh != false && pathExists(refreshTag(c))
}

func pkgStateInit(_ context.Context, c *Call, a struct{ Low *Map }) (any, error) {
	if fun := a.Low.Value("fun"); fun != "installed" && fun != "latest" {
		return false, nil
	}
	if !pathExists(refreshTag(c)) {
		if err := os.MkdirAll(filepath.Dir(refreshTag(c)), 0o755); err != nil {
			return nil, osError(err)
		}
		if err := os.WriteFile(refreshTag(c), nil, 0o644); err != nil {
			return nil, osError(err)
		}
	}
	return true, nil
}

// pkgFailure is the return for a package function that failed: what it changed
// before it did, and its words.
func pkgFailure(name any, err error, while string) (*Map, error) {
	if !isExecError(err) {
		return nil, err
	}
	e := asModuleError(err)
	if e.Info.Len() == 0 {
		return NewMap("name", name, "result", false, "changes", NewMap(), "comment", while+errText(err)), nil
	}
	rest := e.Info.Clone()
	rest.Delete("changes")
	return NewMap("name", name, "result", false, "changes", mapOrNew(e.Info.Map("changes")), "comment", errText(ExecErrorInfo(e.Short, rest))), nil
}

// pkgRet is a return without further ado.
func pkgRet(name any, result any, comment string) *Map {
	return NewMap("name", name, "changes", NewMap(), "result", result, "comment", comment)
}

type pkgInstalledArgs struct {
	Name            string
	Version         any  `def:"None"`
	Refresh         any  `def:"None"`
	Fromrepo        any  `def:"None"`
	SkipVerify      any  `def:"False"`
	SkipSuggestions any  `def:"False"`
	Pkgs            any  `def:"None"`
	Sources         any  `def:"None"`
	AllowUpdates    any  `def:"False"`
	PkgVerify       any  `def:"False"`
	Normalize       any  `def:"True"`
	IgnoreEpoch     any  `def:"None"`
	Reinstall       any  `def:"False"`
	UpdateHolds     any  `def:"False"`
	Kwargs          *Map `arg:"**kwargs"`
}

// pkgWith is kw with more.
func pkgWith(kw *Map, more ...any) *Map {
	out := kw.Clone()
	out.Merge(NewMap(more...))
	return out
}

func pkgStateInstalled(ctx context.Context, c *Call, a pkgInstalledArgs) (any, error) {
	if l, ok := a.Pkgs.(*List); ok && l.Len() == 0 {
		return pkgRet(a.Name, true, "No packages to install provided"), nil
	}
	if a.Name != "" && !Truth(a.Pkgs) && !Truth(a.Sources) {
		if Truth(a.Version) {
			a.Pkgs, a.Version = NewList(NewMap(a.Name, a.Version)), nil
		} else {
			a.Pkgs = NewList(a.Name)
		}
	}
	a.Kwargs = pkgWith(a.Kwargs, "saltenv", c.StateEnv())
	refresh := wantsRefresh(c, a.Refresh)
	if Truth(a.Pkgs) && c.Has(ctx, "pkg.resolve_capabilities") {
		v, err := c.RunKw(ctx, "pkg.resolve_capabilities", []any{a.Pkgs}, pkgWith(a.Kwargs, "refresh", refresh))
		if err != nil {
			return nil, err
		}
		a.Pkgs, refresh = v, false
	}
	if _, ok := a.PkgVerify.(*List); !ok {
		a.PkgVerify = a.PkgVerify == true
	}
	if a.PkgVerify != false && !c.Has(ctx, "pkg.verify") {
		return pkgRet(a.Name, false, "pkg.verify not implemented"), nil
	}
	if a.Version != nil {
		a.Version = Str(a.Version)
	}
	a.Kwargs.Set("allow_updates", a.AllowUpdates)
	t, done, err := findInstallTargets(ctx, c, a, refresh)
	if err != nil {
		return nil, err
	}
	if done != nil {
		return holdPresent(ctx, c, a, done)
	}
	if t.refreshed {
		refresh = false
	}
	w := &pkgInstallWork{a: a, t: t, changes: NewMap(), refresh: refresh}
	var ret *Map
	switch {
	case len(t.unpurge) > 0 && !c.Has(ctx, "lowpkg.unpurge"):
		ret = pkgRet(a.Name, false, "lowpkg.unpurge not implemented")
	case c.Testing():
		ret, err = w.dry()
	default:
		ret, err = w.install(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	if len(t.warnings) > 0 {
		ret.Set("warnings", NewList(t.warnings...))
	}
	return ret, nil
}

// holdResults calls pkg.hold or pkg.unhold. failure is the state's return if
// that went wrong.
func holdResults(ctx context.Context, c *Call, a pkgInstalledArgs, kw *Map) (changed, same, bad []*Map, failure string, err error) {
	fun := "pkg.unhold"
	if Truth(a.Kwargs.Value("hold")) {
		fun = "pkg.hold"
	}
	v, err := c.RunKw(ctx, fun, nil, kw)
	if err != nil {
		if k := asModuleError(err).Kind; k == ErrExecution || k == ErrInvocation {
			return nil, nil, nil, errText(err), nil
		}
		return nil, nil, nil, "", err
	}
	m, _ := v.(*Map)
	if res, ok := m.Get("result"); ok && !Truth(res) {
		return nil, nil, nil, "An error was encountered while holding/unholding package(s): " + Str(m.Value("comment")), nil
	}
	for _, v := range m.All() {
		one, ok := v.(*Map)
		switch {
		case !ok:
		case Truth(one.Value("changes")):
			changed = append(changed, one)
			if !Truth(one.Value("result")) {
				bad = append(bad, one)
			}
		case Truth(one.Value("result")):
			same = append(same, one)
		default:
			bad = append(bad, one)
		}
	}
	return changed, same, bad, "", nil
}

// holdPresent holds packages that need not be installed.
func holdPresent(ctx context.Context, c *Call, a pkgInstalledArgs, ret *Map) (any, error) {
	if !a.Kwargs.Has("hold") || !c.Has(ctx, "pkg.hold") {
		return ret, nil
	}
	changed, same, bad, failure, err := holdResults(ctx, c, a, NewMap("name", a.Name, "pkgs", a.Pkgs, "sources", a.Sources))
	if err != nil {
		return nil, err
	}
	if failure != "" {
		return pkgRet(a.Name, false, failure), nil
	}
	for _, group := range [][]*Map{changed, same, bad} {
		for _, one := range group {
			ret.Set("comment", Str(ret.Value("comment"))+".\n"+Str(one.Value("comment")))
			ret.Set("result", one.Value("result"))
		}
	}
	for _, one := range changed {
		ret.Map("changes").Set(one.Value("name"), one.Value("changes"))
	}
	return ret, nil
}

// pkgInstallWork is an installation on its way.
type pkgInstallWork struct {
	a       pkgInstalledArgs
	t       *pkgTargets
	changes *Map
	comment []string
	refresh bool
}

func (w *pkgInstallWork) say(format string, a ...any) {
	w.comment = append(w.comment, fmt.Sprintf(format, a...))
}

// desiredPkg is a package with its wanted version.
func desiredPkg(name any, desired *Map) string {
	v := desired.Value(name)
	if !Truth(v) {
		return Str(name)
	}
	if s := Str(v); strings.HasPrefix(s, "<") || strings.HasPrefix(s, ">") || strings.HasPrefix(s, "=") {
		return Str(name) + s
	}
	return Str(name) + "=" + Str(v)
}

func nestedText(v any) string {
	s, err := Output("nested", v, OutputOptions{})
	if err != nil {
		return Str(v)
	}
	return strings.TrimRight(s, " \n")
}

// shown names a package in a report.
func (w *pkgInstallWork) shown(name any, versions *Map) string {
	if Truth(w.a.Sources) {
		return Str(name)
	}
	return desiredPkg(name, versions)
}

func (w *pkgInstallWork) dry() (*Map, error) {
	t := w.t
	will := func(name any) { w.changes.Set(name, NewMap("new", "installed", "old", "")) }
	if t.targets.Len() > 0 {
		for k := range t.targets.All() {
			will(k)
		}
		w.say("The following packages would be installed/updated: %s", joinTexts(t.targets.Keys(), ", "))
	}
	if len(t.unpurge) > 0 {
		w.say("The following packages would have their selection status changed from 'purge' to 'install': %s", joinTexts(t.unpurge, ", "))
		for _, k := range t.unpurge {
			will(k)
		}
	}
	if t.reinstall.Len() > 0 && Truth(w.a.Reinstall) {
		var again []string
		for k := range t.reinstall.All() {
			again = append(again, w.shown(k, t.reinstall))
			will(again[len(again)-1])
		}
		w.say("The following packages would be reinstalled: %s", strings.Join(again, ", "))
	} else {
		for k := range t.reinstall.All() {
			w.say("Package '%s' would be reinstalled because the following files have been altered:", w.shown(k, t.reinstall))
			w.changes.Set(k, NewMap())
			w.say("%s", nestedText(t.altered.Value(k)))
		}
	}
	return NewMap("name", w.a.Name, "changes", w.changes, "result", nil, "comment", strings.Join(w.comment, "\n")), nil
}

// pairs are the packages of a mapping as pkgs has them.
func pairs(m *Map) []any {
	var out []any
	for k, v := range m.All() {
		out = append(out, NewMap(k, v))
	}
	return out
}

func (w *pkgInstallWork) install(ctx context.Context, c *Call) (*Map, error) {
	a, t := w.a, w.t
	var pkgs, sources any
	if Truth(a.Pkgs) {
		pkgs = NewList(append(pairs(t.targets), pairs(t.reinstall)...)...)
	} else if Truth(a.Sources) {
		l := NewList()
		for _, set := range []*Map{t.targets, t.reinstall} {
			for _, item := range toItems(a.Sources) {
				if m, ok := item.(*Map); ok && m.Len() > 0 {
					if k, _ := m.At(0); set.Has(k) {
						l.Append(m)
					}
				}
			}
		}
		sources = l
	}
	done := NewMap()
	if t.targets.Len()+t.reinstall.Len() > 0 {
		kw := pkgWith(a.Kwargs, "refresh", w.refresh, "version", a.Version, "fromrepo", a.Fromrepo, "skip_verify", a.SkipVerify, "pkgs", pkgs,
			"sources", sources, "reinstall", t.reinstall.Len() > 0, "normalize", a.Normalize, "update_holds", a.UpdateHolds,
			"ignore_epoch", a.IgnoreEpoch, "split_arch", false, "name", nil)
		v, err := c.RunKw(ctx, "pkg.install", nil, kw)
		if err != nil {
			return pkgFailure(a.Name, err, "An error was encountered while installing package(s): ")
		}
		switch v := v.(type) {
		case *Map:
			done = v
			w.changes.Merge(v)
		case string:
			w.comment = append(w.comment, v)
		}
	}
	var changed, same, bad []*Map
	if a.Kwargs.Has("hold") && c.Has(ctx, "pkg.hold") {
		var failure string
		var err error
		changed, same, bad, failure, err = holdResults(ctx, c, a, NewMap("name", a.Name, "pkgs", NewList(pairs(t.desired)...)))
		if err != nil {
			return nil, err
		}
		if failure != "" {
			w.comment = append(w.comment, failure)
			return NewMap("name", a.Name, "changes", w.changes, "result", false, "comment", strings.Join(w.comment, "\n")), nil
		}
	}
	if len(t.unpurge) > 0 {
		v, err := c.Run(ctx, "lowpkg.unpurge", t.unpurge...)
		if err != nil {
			return nil, err
		}
		w.changes.Set("purge_desired", v)
	}
	modified, unmodified, failed, err := w.verify(ctx, c)
	if err != nil {
		return nil, err
	}
	w.report(modified, unmodified, changed, same)
	result := true
	if len(failed) > 0 {
		w.comment = slices.Insert(w.comment, 0, "The following packages failed to install/update: "+w.list(failed))
		result = false
	}
	for _, one := range bad {
		w.say("%s", Str(one.Value("comment")))
		result = false
	}
	ok, err := w.reinstalled(ctx, c, done)
	if err != nil {
		return nil, err
	}
	return NewMap("name", a.Name, "changes", w.changes, "result", result && ok, "comment", strings.Join(w.comment, "\n")), nil
}

func (w *pkgInstallWork) list(names []any) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = w.shown(n, w.t.desired)
	}
	return strings.Join(out, ", ")
}

// verify looks what is installed now.
func (w *pkgInstallWork) verify(ctx context.Context, c *Call) (modified, unmodified, failed []any, err error) {
	t := w.t
	if Truth(w.a.Sources) {
		for k := range t.targets.All() {
			if w.changes.Has(k) {
				modified = append(modified, k)
			} else {
				failed = append(failed, k)
			}
		}
		for k := range t.desired.All() {
			if !t.targets.Has(k) && !t.reinstall.Has(k) {
				unmodified = append(unmodified, k)
			}
		}
		return modified, unmodified, failed, nil
	}
	now, err := c.RunKw(ctx, "pkg.list_pkgs", nil, pkgWith(w.a.Kwargs, "versions_as_list", true))
	if err != nil {
		return nil, nil, nil, err
	}
	installed, _ := now.(*Map)
	caps := NewMap()
	if Truth(w.a.Kwargs.Value("resolve_capabilities")) && c.Has(ctx, "pkg.list_provides") {
		v, err := c.RunKw(ctx, "pkg.list_provides", nil, w.a.Kwargs.Clone())
		if err != nil {
			return nil, nil, nil, err
		}
		if m, ok := v.(*Map); ok {
			caps = m
		}
	}
	ok, bad, err := verifyInstalled(ctx, c, t.desired, installed, caps, w.a.IgnoreEpoch)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, k := range ok {
		switch {
		case t.targets.Has(k):
			modified = append(modified, k)
		case !t.reinstall.Has(k):
			unmodified = append(unmodified, k)
		}
	}
	for _, k := range bad {
		if t.targets.Has(k) {
			failed = append(failed, k)
		}
	}
	return modified, unmodified, failed, nil
}

// report says what was installed, what was there, and what is held.
func (w *pkgInstallWork) report(modified, unmodified []any, changed, same []*Map) {
	many := func(n int) (string, string) {
		if n > 1 {
			return "s", "were"
		}
		return "", "was"
	}
	if n := len(modified); n > 0 {
		s, were := many(n)
		if summary := w.list(modified); len(summary) < 20 {
			w.say("The following packages were installed/updated: %s", summary)
		} else {
			w.say("%d targeted package%s %s installed/updated.", n, s, were)
		}
	}
	for _, one := range changed {
		w.say("%s", Str(one.Value("comment")))
		did := one.Map("changes")
		have := w.changes.Map(one.Value("name"))
		if have == nil {
			w.changes.Set(one.Value("name"), NewMap("new", Str(did.Value("new"))))
			continue
		}
		for _, k := range []string{"new", "old"} {
			text := Str(have.Value(k))
			if text != "" {
				text += "\n"
			}
			have.Set(k, text+Str(did.Value(k)))
		}
	}
	if n := len(unmodified); n > 20 {
		s, were := many(n)
		w.say("%d targeted package%s %s already installed", n, s, were)
	} else if n > 0 {
		w.say("The following packages were already installed: %s", w.list(unmodified))
	}
	for _, one := range same {
		w.say("%s", Str(one.Value("comment")))
	}
}

// reinstalled reports on packages that were installed again.
func (w *pkgInstallWork) reinstalled(ctx context.Context, c *Call, done *Map) (bool, error) {
	var good, bad []any
	for k := range w.t.reinstall.All() {
		ok := false
		if Truth(w.a.Reinstall) {
			ok = done.Has(k)
		} else {
			v, err := c.RunKw(ctx, "pkg.verify", []any{k}, pkgWith(w.a.Kwargs, "ignore_types", verifyOption(w.a.PkgVerify, "ignore_types"),
				"verify_options", verifyOption(w.a.PkgVerify, "verify_options")))
			if err != nil {
				return false, err
			}
			if ok = !Truth(v); !ok {
				w.t.altered.Set(k, v)
			}
		}
		if ok {
			good = append(good, k)
		} else {
			bad = append(bad, k)
		}
	}
	for _, part := range []struct {
		names       []any
		words, more string
	}{
		{good, "Package %s was reinstalled.", " The following files were remediated:"},
		{bad, "Reinstall was not successful for package %s.", " The following files could not be remediated:"},
	} {
		for _, k := range part.names {
			text := fmt.Sprintf(part.words, w.shown(k, w.t.desired))
			if !w.t.altered.Has(k) {
				w.comment = append(w.comment, text)
				continue
			}
			w.comment = append(w.comment, text+part.more, nestedText(w.t.altered.Value(k)))
		}
	}
	return len(bad) == 0, nil
}

// verifyOption is one of the options that pkg_verify may be a list of.
func verifyOption(v any, name string) any {
	if l, ok := v.(*List); ok {
		for _, item := range l.Items {
			if m, ok := item.(*Map); ok && m.Value(name) != nil {
				return m.Value(name)
			}
		}
	}
	return NewList()
}
