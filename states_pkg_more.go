// State module pkg: newest versions, removal, upgrades, groups, and how states
// are joined. states_pkg_holds.go has packages that stay at their versions.
package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// sortedTexts are the names of a list in order, as one text.
func sortedTexts(items []any) string {
	out := make([]string, len(items))
	for i, v := range items {
		out[i] = Str(v)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func pkgStateLatest(ctx context.Context, c *Call, a struct {
	Name       string
	Refresh    any  `def:"None"`
	Fromrepo   any  `def:"None"`
	SkipVerify any  `def:"False"`
	Pkgs       any  `def:"None"`
	WatchFlags any  `def:"True"`
	Kwargs     *Map `arg:"**kwargs"`
}) (any, error) {
	refresh := wantsRefresh(c, a.Refresh)
	wanted := []any{a.Name}
	switch l, isList := a.Pkgs.(*List); {
	case Truth(a.Kwargs.Value("sources")):
		return pkgRet(a.Name, false, "The \"sources\" parameter is not supported."), nil
	case Truth(a.Pkgs):
		packed, _, err := packPackages(a.Pkgs, pkgNormal(ctx, c, true))
		if err != nil {
			return nil, err
		}
		if wanted = packed.Keys(); len(wanted) == 0 {
			return pkgRet(a.Name, false, "Invalidly formatted \"pkgs\" parameter. See minion log."), nil
		}
	case isList && l.Len() == 0:
		return pkgRet(a.Name, true, "No packages to install provided"), nil
	}
	kw := pkgWith(a.Kwargs, "saltenv", c.StateEnv())
	if c.Has(ctx, "pkg.resolve_capabilities") {
		v, err := c.RunKw(ctx, "pkg.resolve_capabilities", []any{NewList(wanted...)}, pkgWith(kw, "refresh", refresh))
		if err != nil {
			return nil, err
		}
		wanted, refresh = toItems(v), false
	}
	versions := func(fun string, kw *Map) (*Map, error) {
		v, err := c.RunKw(ctx, fun, wanted, kw)
		if err != nil {
			return nil, err
		}
		if m, ok := v.(*Map); ok {
			return m, nil
		}
		return NewMap(wanted[0], v), nil
	}
	avail, err := versions("pkg.latest_version", pkgWith(kw, "fromrepo", a.Fromrepo, "refresh", refresh))
	if isExecError(err) {
		return pkgRet(a.Name, false, "An error was encountered while checking the newest available version of package(s): "+errText(err)), nil
	}
	if err != nil {
		return nil, err
	}
	cur, err := versions("pkg.version", kw.Clone())
	if isExecError(err) {
		return pkgRet(a.Name, false, errText(err)), nil
	}
	if err != nil {
		return nil, err
	}
	targets := NewMap()
	var problems []string
	for _, p := range wanted {
		switch {
		case Truth(avail.Value(p)):
			targets.Set(p, avail.Value(p))
		case !Truth(cur.Value(p)):
			text := "No information found for '" + Str(p) + "'."
			c.Log.Error(text)
			problems = append(problems, text)
		}
	}
	if len(problems) > 0 {
		return pkgRet(a.Name, false, strings.Join(problems, " ")), nil
	}
	if targets.Len() == 0 {
		switch n := len(wanted); {
		case n > 10:
			return pkgRet(a.Name, true, fmt.Sprintf("All %d packages are up-to-date.", n)), nil
		case n > 1:
			return pkgRet(a.Name, true, "All packages are up-to-date ("+sortedTexts(wanted)+")."), nil
		}
		return pkgRet(a.Name, true, "Package "+Str(wanted[0])+" is already up-to-date"), nil
	}
	var current []any
	for _, p := range toItems(a.Pkgs) {
		if !targets.Has(p) {
			current = append(current, p)
		}
	}
	if c.Testing() {
		text := "The following packages would be installed/upgraded: " + sortedTexts(targets.Keys())
		if n := len(current); n > 10 {
			text += fmt.Sprintf("\n%d packages are already up-to-date", n)
		} else if n > 0 {
			with := make([]any, n)
			for i, p := range current {
				with[i] = Str(p) + " (" + Str(cur.Value(p)) + ")"
			}
			text += "\nThe following packages are already up-to-date: " + sortedTexts(with)
		}
		return pkgRet(a.Name, nil, text), nil
	}
	v, err := c.RunKw(ctx, "pkg.install", nil, pkgWith(kw, "name", nil, "refresh", false, "fromrepo", a.Fromrepo, "skip_verify", a.SkipVerify,
		"pkgs", NewList(targets.Keys()...)))
	if isExecError(err) {
		return pkgRet(a.Name, false, "An error was encountered while installing package(s): "+errText(err)), nil
	}
	if err != nil {
		return nil, err
	}
	return latestReport(a.Name, targets, current, v), nil
}

// latestReport says what an installation of newest versions did.
func latestReport(name string, targets *Map, current []any, v any) *Map {
	changes, _ := v.(*Map)
	changes = mapOrNew(changes)
	if changes.Len() == 0 {
		text := ""
		switch n := targets.Len(); {
		case n > 10:
			text = fmt.Sprintf("%d targeted packages failed to update. See debug log for details.", n)
		case n > 1:
			text = "The following targeted packages failed to update. See debug log for details: (" + sortedTexts(targets.Keys()) + ")."
		default:
			text = "Package " + Str(targets.Keys()[0]) + " failed to update."
		}
		if n := len(current); n > 10 {
			text += fmt.Sprintf("%d packages were already up-to-date", n)
		} else if n > 0 {
			text += " The following packages were already up-to-date: " + sortedTexts(current)
		}
		return NewMap("name", name, "changes", changes, "result", false, "comment", text)
	}
	var failed, good []any
	for k, want := range targets.All() {
		got := changes.Map(k)
		now := got.Value("new")
		if got.Len() == 0 || now != nil && want != "latest" && !slices.Contains(strings.Split(Str(now), ","), Str(want)) {
			failed = append(failed, k)
		} else {
			good = append(good, k)
		}
	}
	var words []string
	if len(failed) > 0 {
		words = append(words, "The following packages failed to update: "+sortedTexts(failed))
	}
	if len(good) > 0 {
		words = append(words, "The following packages were successfully installed/upgraded: "+sortedTexts(good))
	}
	if n := len(current); n > 10 {
		words = append(words, fmt.Sprintf("%d packages were already up-to-date ", n))
	} else if n > 0 {
		words = append(words, "The following packages were already up-to-date: "+sortedTexts(current))
	}
	return NewMap("name", name, "changes", changes, "result", len(failed) == 0, "comment", strings.Join(words, " "))
}

type pkgRemovedArgs struct {
	Name        string
	Version     any  `def:"None"`
	Pkgs        any  `def:"None"`
	Normalize   any  `def:"True"`
	IgnoreEpoch any  `def:"None"`
	Kwargs      *Map `arg:"**kwargs"`
}

func pkgStateRemoved(ctx context.Context, c *Call, a pkgRemovedArgs) (any, error) {
	return pkgUninstalled(ctx, c, a, "remove", "removing")
}

func pkgStatePurged(ctx context.Context, c *Call, a pkgRemovedArgs) (any, error) {
	return pkgUninstalled(ctx, c, a, "purge", "purging")
}

func pkgUninstalled(ctx context.Context, c *Call, a pkgRemovedArgs, action, doing string) (any, error) {
	a.Kwargs = pkgWith(a.Kwargs, "saltenv", c.StateEnv())
	ret, err := pkgUninstall(ctx, c, a, action)
	if err != nil {
		if ret, err = pkgFailure(a.Name, err, "An error was encountered while "+doing+" package(s): "); err != nil {
			return nil, err
		}
	}
	return ret, nil
}

func pkgUninstall(ctx context.Context, c *Call, a pkgRemovedArgs, action string) (*Map, error) {
	norm := pkgNormal(ctx, c, Truth(a.Normalize))
	params := NewMap(norm(a.Name), a.Version)
	if Truth(a.Pkgs) {
		packed, _, err := packPackages(a.Pkgs, norm)
		if err != nil {
			return nil, err
		}
		params = packed
	} else if !Truth(a.Version) {
		params = NewMap()
		for _, n := range strings.Split(a.Name, ",") {
			params.Set(norm(n), nil)
		}
	}
	targets, ret, err := findRemoveTargets(ctx, c, a)
	if err != nil || ret != nil && action == "remove" {
		return ret, err
	}
	list := func(more ...any) (*Map, error) {
		v, err := c.RunKw(ctx, "pkg.list_pkgs", nil, pkgWith(a.Kwargs, append([]any{"versions_as_list", true}, more...)...))
		if err != nil {
			return nil, err
		}
		m, _ := v.(*Map)
		return m, nil
	}
	partly := ""
	if action == "purge" {
		partly = " or partially installed"
		old, err := list("removed", true)
		if err != nil {
			return nil, err
		}
		for k := range params.All() {
			if old.Has(k) {
				targets = append(targets, k)
			}
		}
	}
	sortItems(targets)
	if len(targets) == 0 {
		return pkgRet(a.Name, true, "None of the targeted packages are installed"+partly), nil
	}
	if c.Testing() {
		changes := NewMap()
		for _, k := range targets {
			changes.Set(k, NewMap("new", action+"d", "old", ""))
		}
		return NewMap("name", a.Name, "changes", changes, "result", nil,
			"comment", "The following packages will be "+action+"d: "+joinTexts(targets, ", ")+"."), nil
	}
	changes, err := c.RunKw(ctx, "pkg."+action, []any{a.Name}, pkgWith(a.Kwargs, "pkgs", a.Pkgs, "version", a.Version, "split_arch", false))
	if err != nil {
		return nil, err
	}
	now, err := list()
	if err != nil {
		return nil, err
	}
	var failed []any
	family := c.Grains.Str("os_family")
	byVersion := family == "Suse" || family == "RedHat"
	for k, v := range params.All() {
		switch {
		case !now.Has(k):
		case !byVersion || !Truth(v):
			failed = append(failed, k)
		case hasItem(pkgItems(now, k), v):
			failed = append(failed, Str(k)+"-"+Str(v))
		}
	}
	if action == "purge" {
		left, err := list("removed", true)
		if err != nil {
			return nil, err
		}
		for k := range params.All() {
			if left.Has(k) {
				failed = append(failed, k)
			}
		}
	}
	made, _ := changes.(*Map)
	out := NewMap("name", a.Name, "changes", mapOrNew(made), "result", true, "comment", "All targeted packages were "+action+"d.")
	if len(failed) > 0 {
		out.Set("result", false)
		out.Set("comment", "The following packages failed to "+action+": "+sortedTexts(failed)+".")
		return out, nil
	}
	var absent []any
	for k := range params.All() {
		if !hasItem(targets, k) {
			absent = append(absent, k)
		}
	}
	if len(absent) > 0 {
		out.Set("comment", "The following packages were not installed: "+sortedTexts(absent)+" The following packages were "+action+"d: "+joinTexts(targets, ", ")+".")
	}
	return out, nil
}

func pkgStateUptodate(ctx context.Context, c *Call, a struct {
	Name    string
	Refresh any  `def:"False"`
	Pkgs    any  `def:"None"`
	Kwargs  *Map `arg:"**kwargs"`
}) (any, error) {
	ret := stateReturn(a.Name, false, "Failed to update")
	if !c.Has(ctx, "pkg.list_upgrades") {
		return stateSay(ret, false, "State pkg.uptodate is not available")
	}
	if _, ok := a.Refresh.(bool); !ok {
		return stateSay(ret, false, "refresh must be either True or False")
	}
	v, err := c.RunKw(ctx, "pkg.list_upgrades", nil, pkgWith(a.Kwargs, "refresh", a.Refresh))
	if err != nil {
		return stateSay(ret, false, "%s", errText(err))
	}
	upgrades, _ := v.(*Map)
	only, limited := a.Pkgs.(*List)
	expected := NewMap()
	for k, version := range upgrades.All() {
		if limited && !hasItem(only.Items, k) {
			continue
		}
		old, err := c.RunKw(ctx, "pkg.version", []any{k}, a.Kwargs.Clone())
		if err != nil {
			return stateSay(ret, false, "%s", errText(err))
		}
		expected.Set(k, NewMap("new", version, "old", old))
	}
	if expected.Len() == 0 {
		return stateSay(ret, true, "System is already up-to-date")
	}
	if c.Testing() {
		ret.Set("changes", expected)
		return stateSay(ret, nil, "System update will be performed")
	}
	v, err = c.RunKw(ctx, "pkg.upgrade", nil, pkgWith(a.Kwargs, "refresh", a.Refresh, "pkgs", a.Pkgs))
	if err != nil {
		failed, err := pkgFailure(a.Name, err, "An error was encountered while updating packages: ")
		if err != nil {
			return nil, err
		}
		return failed, nil
	}
	changes, _ := v.(*Map)
	ret.Set("changes", mapOrNew(changes))
	if limited {
		var missing []any
		for k := range expected.All() {
			if !changes.Has(k) {
				missing = append(missing, k)
			}
		}
		if len(missing) > 0 {
			return stateSay(ret, false, "The following package(s) failed to update: %s", joinTexts(missing, ", "))
		}
	}
	return stateSay(ret, true, "Upgrade ran successfully")
}

func pkgStateDownloaded(ctx context.Context, c *Call, a struct {
	Name        string
	Version     any  `def:"None"`
	Pkgs        any  `def:"None"`
	Fromrepo    any  `def:"None"`
	IgnoreEpoch any  `def:"None"`
	Kwargs      *Map `arg:"**kwargs"`
}) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	if !c.Has(ctx, "pkg.list_downloaded") {
		return stateSay(ret, false, "The pkg.downloaded state is not available on this platform")
	}
	if l, ok := a.Pkgs.(*List); ok && l.Len() == 0 {
		return stateSay(ret, true, "No packages to download provided")
	}
	if a.Name != "" && !Truth(a.Pkgs) {
		a.Pkgs = NewList(a.Name)
		if Truth(a.Version) {
			a.Pkgs, a.Version = NewList(NewMap(a.Name, a.Version)), nil
		}
	}
	kw := a.Kwargs.Clone()
	kw.Delete("downloadonly")
	have, err := c.RunKw(ctx, "pkg.list_downloaded", nil, kw.Clone())
	if err != nil {
		return nil, err
	}
	cached, _ := have.(*Map)
	wanted, _, err := packPackages(a.Pkgs, pkgNormal(ctx, c, true))
	if err != nil {
		return nil, err
	}
	if wanted.Len() == 0 {
		return stateSay(ret, false, "Invalidly formatted pkgs parameter. See minion log.")
	}
	if text, err := pkgPreflight(ctx, c, wanted.Keys(), pkgWith(kw, "fromrepo", a.Fromrepo)); err != nil || text != "" {
		return pkgRet(a.Name, false, text), err
	}
	targets := NewMap()
	versions := false
	for k, v := range wanted.All() {
		there := cached.Map(k)
		fine := there.Len() > 0 && !Truth(v)
		if there.Len() > 0 && Truth(v) {
			versions = true
			if fine, err = fulfillsVersion(ctx, c, there.Keys(), Str(v), a.IgnoreEpoch, false); err != nil {
				return nil, err
			}
		}
		if !fine {
			targets.Set(k, v)
		}
	}
	if targets.Len() == 0 {
		matching := ""
		if versions {
			matching = " (matching specified versions)"
		}
		return stateSay(ret, true, "All specified packages%s are already downloaded", matching)
	}
	if c.Testing() {
		return stateSay(ret, nil, "The following packages would be downloaded: %s", joinTexts(targets.Keys(), ", "))
	}
	v, err := c.RunKw(ctx, "pkg.install", nil, pkgWith(kw, "name", a.Name, "pkgs", a.Pkgs, "version", a.Version, "downloadonly", true,
		"fromrepo", a.Fromrepo, "ignore_epoch", a.IgnoreEpoch))
	if err != nil {
		failed, err := pkgFailure(a.Name, err, "An error was encountered while downloading package(s): ")
		if err != nil {
			return nil, err
		}
		return failed, nil
	}
	if m, ok := v.(*Map); ok {
		ret.Set("changes", m)
	}
	ret.Set("result", true)
	if have, err = c.RunKw(ctx, "pkg.list_downloaded", nil, kw.Clone()); err != nil {
		return nil, err
	}
	cached, _ = have.(*Map)
	now := NewMap()
	for k, v := range cached.All() {
		if m, ok := v.(*Map); ok {
			now.Set(k, NewList(m.Keys()...))
		}
	}
	_, failed, err := verifyInstalled(ctx, c, targets, now, NewMap(), a.IgnoreEpoch)
	if err != nil {
		return nil, err
	}
	if len(failed) > 0 {
		names := make([]string, len(failed))
		for i, k := range failed {
			names[i] = desiredPkg(k, targets)
		}
		return stateSay(ret, false, "The following packages failed to download: %s", strings.Join(names, ", "))
	}
	if ret.Map("changes").Len() == 0 {
		return stateSay(ret, true, "Packages downloaded: %s", joinTexts(targets.Keys(), ", "))
	}
	return ret, nil
}

func pkgStateGroup(ctx context.Context, c *Call, a struct {
	Name    string
	Skip    any  `def:"None"`
	Include any  `def:"None"`
	Kwargs  *Map `arg:"**kwargs"`
}) (any, error) {
	ret := stateReturn(a.Name, false, "")
	if !c.Has(ctx, "pkg.group_diff") {
		return stateSay(ret, false, "pkg.group_install not available for this platform")
	}
	for _, part := range []struct {
		name string
		v    any
	}{{"skip", a.Skip}, {"include", a.Include}} {
		if _, ok := part.v.(*List); !ok && part.v != nil {
			return stateSay(ret, false, "%s must be formatted as a list", part.name)
		}
	}
	diff, err := runMap(ctx, c, "pkg.group_diff", a.Name)
	if isExecError(err) {
		return stateSay(ret, false, "An error was encountered while installing/updating group '%s': %s.", a.Name, errText(err))
	}
	if err != nil {
		return nil, err
	}
	part := func(kind, state string) []any { return toItems(diff.Map(kind).Value(state)) }
	skip := toItems(a.Skip)
	var invalid []any
	for _, p := range append(slices.Clone(part("mandatory", "installed")), part("mandatory", "not installed")...) {
		if hasItem(skip, Str(p)) {
			invalid = append(invalid, p)
		}
	}
	if len(invalid) > 0 {
		return stateSay(ret, false, "The following mandatory packages cannot be skipped: %s", joinTexts(invalid, ", "))
	}
	required := append(slices.Clone(part("mandatory", "not installed")), toItems(a.Include)...)
	targets := slices.Clone(required)
	for _, p := range part("default", "not installed") {
		if !hasItem(skip, p) {
			targets = append(targets, p)
		}
	}
	if len(targets) == 0 {
		return stateSay(ret, true, "Group '%s' is already installed", a.Name)
	}
	partly := len(part("mandatory", "installed"))+len(part("default", "installed"))+len(part("optional", "installed")) > 0
	if c.Testing() {
		if partly {
			return stateSay(ret, nil, "Group '%s' is partially installed and will be updated", a.Name)
		}
		return stateSay(ret, nil, "Group '%s' will be installed", a.Name)
	}
	v, err := c.RunKw(ctx, "pkg.install", nil, pkgWith(a.Kwargs, "pkgs", NewList(targets...)))
	if err != nil {
		failed, err := pkgFailure(a.Name, err, "An error was encountered while installing/updating group '"+a.Name+"': ")
		if err != nil {
			return nil, err
		}
		return failed, nil
	}
	ret.Set("changes", v)
	now, err := c.RunKw(ctx, "pkg.list_pkgs", nil, a.Kwargs.Clone())
	if err != nil {
		return nil, err
	}
	have, _ := now.(*Map)
	var failed []any
	for _, p := range required {
		if !have.Has(p) {
			failed = append(failed, p)
		}
	}
	if len(failed) > 0 {
		return stateSay(ret, false, "Failed to install the following packages: %s", joinTexts(failed, ", "))
	}
	did := "installed"
	if partly {
		did = "updated"
	}
	return stateSay(ret, true, "Group '%s' was %s", a.Name, did)
}

type pkgPatchArgs struct {
	Name        string
	AdvisoryIDs any  `arg:"advisory_ids" def:"None"`
	Kwargs      *Map `arg:"**kwargs"`
}

func pkgStatePatchInstalled(ctx context.Context, c *Call, a struct {
	pkgPatchArgs
	Downloadonly any `def:"None"`
}) (any, error) {
	return pkgPatch(ctx, c, "installed", a.pkgPatchArgs, a.Downloadonly)
}

func pkgStatePatchDownloaded(ctx context.Context, c *Call, a pkgPatchArgs) (any, error) {
	a.Kwargs.Delete("downloadonly")
	return pkgPatch(ctx, c, "downloaded", a, true)
}

// pkgPatch installs the advisories that are not, where the package manager knows
// about advisories at all.
func pkgPatch(ctx context.Context, c *Call, what string, a pkgPatchArgs, downloadOnly any) (any, error) {
	ret := pkgRet(a.Name, nil, "")
	if !c.Has(ctx, "pkg.list_installed_patches") {
		return stateSay(ret, false, "The pkg.patch_%s state is not available on this platform", what)
	}
	if l, ok := a.AdvisoryIDs.(*List); ok && l.Len() == 0 {
		return stateSay(ret, true, "No advisory ids provided")
	}
	where := NewMap()
	if root := a.Kwargs.Value("root"); root != nil {
		where.Set("root", root)
	}
	v, err := c.RunKw(ctx, "pkg.list_installed_patches", nil, where)
	if err != nil {
		return nil, err
	}
	have, _ := v.(*Map)
	wanted := iterated(a.AdvisoryIDs)
	if !Truth(a.AdvisoryIDs) {
		if wanted = []any{a.Name}; Truth(have.Value(a.Name)) {
			return stateSay(ret, true, "Advisory patch %s is already installed", a.Name)
		}
	}
	var missing []any
	for _, id := range wanted {
		if !Truth(have.Value(id)) {
			missing = append(missing, id)
		}
	}
	switch {
	case len(missing) == 0:
		return stateSay(ret, true, "All specified advisory patches are already installed")
	case c.Testing():
		return stateSay(ret, nil, "The following advisory patches would be downloaded: %s", joinTexts(missing, ", "))
	}
	v, err = c.RunKw(ctx, "pkg.install", nil, pkgWith(a.Kwargs, "name", a.Name, "advisory_ids", a.AdvisoryIDs, "downloadonly", downloadOnly))
	if isExecError(err) {
		return stateSay(ret, false, "An error was encountered while downloading package(s): %s", errText(err))
	}
	if err != nil {
		return nil, err
	}
	changes, _ := v.(*Map)
	ret.Set("changes", mapOrNew(changes))
	if changes.Len() > 0 {
		return stateSay(ret, true, "")
	}
	did := "installed"
	if Truth(downloadOnly) {
		did = "downloaded"
	}
	return stateSay(ret, true, "Advisory patch is not needed or related packages are already %s", did)
}

func pkgStateAggregate(_ context.Context, _ *Call, a struct {
	Low     *Map
	Chunks  *List
	Running *Map
}) (any, error) {
	low := a.Low
	switch low.Value("fun") {
	case "installed", "latest", "removed", "purged":
	default:
		return low, nil
	}
	kind := ""
	pkgs := NewList()
	for _, item := range a.Chunks.Items {
		chunk, ok := item.(*Map)
		if !ok || a.Running.Has(lowTag(chunk)) || chunk.Value("state") != "pkg" || chunk.Has("__agg__") ||
			chunk.Value("fun") != low.Value("fun") || !Equal(chunk.Value("fromrepo"), low.Value("fromrepo")) {
			continue
		}
		mine := "pkgs"
		if chunk.Has("sources") {
			mine = "sources"
		} else if chunk.Has("hold") {
			continue
		}
		if kind == "" {
			kind = mine
		}
		if kind != mine {
			continue
		}
		switch {
		case chunk.Has(mine):
			pkgs.Append(toItems(chunk.Value(mine))...)
		case chunk.Has("name"):
			if v := chunk.Value("version"); v != nil {
				pkgs.Append(NewMap(chunk.Value("name"), v))
			} else {
				pkgs.Append(chunk.Value("name"))
			}
			chunk.Delete("version")
		default:
			continue
		}
		chunk.Set("__agg__", true)
	}
	if pkgs.Len() > 0 {
		all := NewList(toItems(low.Value(kind))...)
		all.Append(pkgs.Items...)
		low.Set(kind, all)
	}
	return low, nil
}

func pkgStateWatch(ctx context.Context, c *Call, a stateKwargsNamed) (any, error) {
	sfun := a.Kwargs.Str("sfun")
	switch sfun {
	case "purged", "latest", "removed", "installed":
		kw := pkgWith(a.Kwargs, "name", a.Name)
		kw.Delete("sfun")
		return callState(ctx, c, "pkg."+sfun, kw)
	}
	return pkgRet(a.Name, false, "pkg."+sfun+" does not work with the watch requisite"), nil
}

func pkgStateBeacon(ctx context.Context, c *Call, a stateKwargsNamed) (any, error) {
	sfun := a.Kwargs.Str("sfun")
	switch {
	case sfun != "installed" && sfun != "removed":
		return pkgRet(a.Name, false, "pkg."+sfun+" does not work with the mod_beacon state function"), nil
	case !Truth(a.Kwargs.Value("beacon")):
		return pkgRet(a.Name, true, "Not adding beacon."), nil
	}
	return callState(ctx, c, "beacon.present", NewMap("name", "beacon_pkg_"+a.Name, "pkgs", kwargOf(a.Kwargs, "pkgs", NewList(a.Name)),
		"interval", int64(60), "beacon_module", "pkg"))
}
