// Module pkg: packages of this box. This file has what all package managers
// have in common; what differs is behind packageManager, one file a provider.
//
// The law of this room: the functions, their arguments and the shape of their
// returns are the same for all providers; a provider knows its commands and its
// database and nothing else. The list of installed packages is read once a job
// and forgotten after each change. What a command did is found by comparing the
// lists before and after, never by reading its output.
package main

import (
	"context"
	"os"
	"sort"
	"strings"
)

// packageManager is one provider.
type packageManager interface {
	// installed reads the database: versions by name, and those of packages that
	// left configuration behind.
	installed(ctx context.Context, c *Call) (have, removed *pkgVersions, err error)
	// candidates finds the newest versions that could be installed; names that
	// are not known are missing. from limits it to a repository or release, other
	// arguments may too.
	candidates(ctx context.Context, c *Call, names []string, from string, kwargs *Map) (map[string]string, error)
	// upgrades lists what an upgrade would install.
	upgrades(ctx context.Context, c *Call, kwargs *Map) (*Map, error)
	// refresh brings the lists of packages up to date.
	refresh(ctx context.Context, c *Call, kwargs *Map) (any, error)
	// installCommands are the commands that install what req names.
	installCommands(ctx context.Context, c *Call, req *pkgInstall) ([][]string, error)
	removeCommand(names []string, purge bool, kwargs *Map) []string
	upgradeCommand(kwargs *Map) []string
	// run runs a command that changes the box.
	run(ctx context.Context, c *Call, args []string, kwargs *Map) (cmdResult, error)
	// failed says why a command did not work, "" if it did.
	failed(r cmdResult) string
	// fileInfo reads name and version of a package file.
	fileInfo(ctx context.Context, c *Call, path string) (name, version string, err error)
	// normalize is the usual form of a name: without the box's own architecture.
	normalize(c *Call, name string) string
	compare(a, b string) int
	// owner finds the package of a file, "" if there is none.
	owner(ctx context.Context, c *Call, path string) (string, error)
	// files lists the files of installed packages, all if names is empty.
	files(ctx context.Context, c *Call, names []string) (*Map, error)
	// available lists all versions in the repositories by name.
	available(ctx context.Context, c *Call, names []string, kwargs *Map) (*Map, error)
}

// pkgVersions maps names to versions, in the order of the database.
type pkgVersions struct {
	names []string
	by    map[string][]string

	doomed map[string]bool // those that are to be purged when the provider next runs
}

func (p *pkgVersions) add(name, version string) {
	if p.by == nil {
		p.by = map[string][]string{}
	}
	have, ok := p.by[name]
	if !ok {
		p.names = append(p.names, name)
	}
	if hasString(have, version) {
		return
	}
	have = append(have, version)
	sort.Strings(have)
	p.by[name] = have
}

func (p *pkgVersions) text(name string) string { return strings.Join(p.by[name], ",") }

// toBePurged are the packages among them that are marked to be purged.
func (p *pkgVersions) toBePurged() *pkgVersions {
	out := &pkgVersions{}
	for _, name := range p.names {
		if p.doomed[name] {
			out.names = append(out.names, name)
		}
	}
	out.by = p.by
	return out
}

// asMap is what list_pkgs returns.
func (p *pkgVersions) asMap(asList bool) *Map {
	out := &Map{}
	for _, name := range p.names {
		if asList {
			out.Set(name, Strings(p.by[name]))
		} else {
			out.Set(name, p.text(name))
		}
	}
	return out
}

// pkgChanges compares two states as texts.
func pkgChanges(before, after *pkgVersions) *Map {
	out := &Map{}
	names := append([]string{}, before.names...)
	for _, n := range after.names {
		if _, ok := before.by[n]; !ok {
			names = append(names, n)
		}
	}
	sort.Strings(names)
	for _, n := range names {
		if was, is := before.text(n), after.text(n); was != is {
			out.Set(n, NewMap("old", was, "new", is))
		}
	}
	return out
}

// pkgInstall is what is to be installed, sorted out.
type pkgInstall struct {
	targets   []string // name, name=version in the manager's words, or a file
	downgrade []string
	reinstall []string
	files     bool // targets are files
	from      string
	args      pkgInstallArgs
}

// pkgFuncs are the functions that all providers have.
func pkgFuncs(p packageManager) Funcs {
	m := pkgCommon{p}
	return Funcs{
		"install":           {run: m.install, doc: pkgInstallDoc},
		"remove":            {run: m.remove, doc: "Remove packages and return what changed. name may have several names with commas between, pkgs is a list.\n\nCLI Example:\n\n    salt '*' pkg.remove pkgs='[\"foo\", \"bar\"]'"},
		"purge":             {run: m.purge, doc: "Remove packages with their configuration and return what changed."},
		"upgrade":           {run: m.upgrade, doc: "Install all upgrades and return what changed.\n\nCLI Example:\n\n    salt '*' pkg.upgrade"},
		"list_pkgs":         {run: m.listPkgs, doc: pkgListDoc},
		"list_upgrades":     {run: m.listUpgrades, doc: "List the packages that an upgrade would install, with their versions. refresh=False does not\nbring the lists up to date first."},
		"version":           {run: m.version, doc: "Return the installed version of a package, an empty text if it is not installed; of several\npackages, or of those that match a glob, a mapping."},
		"latest_version":    {run: m.latestVersion, doc: "Return the version that an installation or an upgrade of a package would bring, an empty text\nif there is none or the newest is installed. Several names give a mapping."},
		"available_version": {run: m.latestVersion, pyname: "latest_version", doc: "The same as pkg.latest_version."},
		"upgrade_available": {run: m.upgradeAvailable, doc: "Say whether there is a newer version of a package."},
		"refresh_db":        {run: m.refreshDB, doc: "Bring the lists of available packages up to date."},
		"version_cmp":       {run: m.versionCmp, doc: "Compare two versions: -1, 0 or 1.\n\nCLI Example:\n\n    salt '*' pkg.version_cmp '0.2-001' '0.2.0.1-002'"},
		"normalize_name":    {run: m.normalizeName, doc: "Return the name of a package without the architecture of this box."},
		"owner":             {run: m.owner, doc: "Return the package that a file belongs to; of several files a mapping."},
		"file_list":         {run: m.fileList, doc: "List the files of packages, of all if no name is given."},
		"file_dict":         {run: m.fileDict, doc: "List the files of packages by package."},
		"list_repo_pkgs":    {run: m.listRepoPkgs, doc: "List all versions that the repositories have, by name."},
	}
}

// with adds functions of a provider, replacing those of the same name.
func (f Funcs) with(more Funcs) Funcs {
	for name, fn := range more {
		f[name] = fn
	}
	return f
}

const pkgListDoc = "List the installed packages with their versions. With versions_as_list each package has a\nlist; removed lists those that left only their configuration."

const pkgInfoInstalledDoc = "Return details of installed packages, of all if none is named. attr chooses which, with commas\nbetween."

const pkgUpgradeNamedDoc = `Install all upgrades, or those of the packages in name and pkgs, and return what
changed.

CLI Example:

    salt '*' pkg.upgrade
    salt '*' pkg.upgrade name=openssl`

const pkgInstallDoc = `Install packages and return what changed.

name         one package, or several with commas between
version      version to install, for one package; >=1.0 and the like take the
             first one that fits
refresh      bring the lists of packages up to date first
pkgs         a list of packages; those with a version as {name: version}
sources      a list of {name: file or URL}
fromrepo     repository or release to install from
reinstall    install again what is installed
skip_verify  do not check signatures
downloadonly only fetch the packages

CLI Example:

    salt '*' pkg.install ftp
    salt '*' pkg.install pkgs='["foo", {"bar": "1.2.3-1"}]'
    salt '*' pkg.install sources='[{"foo": "salt://foo.deb"}]'`

type pkgCommon struct{ p packageManager }

// pkgState is the list of installed packages, kept for the job.
type pkgState struct{ have, removed *pkgVersions }

// TypeName makes the state an Object that may stand in a job's context.
func (pkgState) TypeName() string { return "dict" }
func (pkgState) Repr() string     { return "{...}" }
func (pkgState) Truth() bool      { return true }

const pkgContextKey = "pkg.list_pkgs"

func (m pkgCommon) state(ctx context.Context, c *Call, fresh bool) (pkgState, error) {
	if v, ok := c.ContextGet(pkgContextKey); ok && !fresh {
		if s, ok := v.(pkgState); ok {
			return s, nil
		}
	}
	have, removed, err := m.p.installed(ctx, c)
	if err != nil {
		return pkgState{}, err
	}
	if removed == nil {
		removed = &pkgVersions{}
	}
	s := pkgState{have, removed}
	c.ContextSet(pkgContextKey, s)
	return s, nil
}

type pkgListArgs struct {
	VersionsAsList any  `def:"False"`
	Removed        any  `def:"False"`
	PurgeDesired   any  `def:"False"`
	Kwargs         *Map `arg:"**kwargs"`
}

func (m pkgCommon) listPkgs(ctx context.Context, c *Call, a pkgListArgs) (any, error) {
	s, err := m.state(ctx, c, !Truth(kwargOf(a.Kwargs, "use_context", true)))
	if err != nil {
		return nil, err
	}
	switch {
	case pyIsTrue(a.Removed):
		return s.removed.asMap(pyIsTrue(a.VersionsAsList)), nil
	case pyIsTrue(a.PurgeDesired):
		return s.have.toBePurged().asMap(pyIsTrue(a.VersionsAsList)), nil
	}
	return s.have.asMap(pyIsTrue(a.VersionsAsList)), nil
}

type pkgNamesArgs struct {
	Names  []any `arg:"*names"`
	Kwargs *Map  `arg:"**kwargs"`
}

func namesOf(items []any) []string {
	out := make([]string, len(items))
	for i, v := range items {
		out[i] = Str(v)
	}
	return out
}

func (m pkgCommon) version(ctx context.Context, c *Call, a pkgNamesArgs) (any, error) {
	asList := pyIsTrue(kwargOf(a.Kwargs, "versions_as_list", false))
	out := &Map{}
	glob := false
	if len(a.Names) > 0 {
		s, err := m.state(ctx, c, false)
		if err != nil {
			return nil, err
		}
		value := func(name string) any {
			if asList {
				return Strings(s.have.by[name])
			}
			return s.have.text(name)
		}
		for _, name := range namesOf(a.Names) {
			if !strings.Contains(name, "*") {
				out.Set(name, value(name))
				continue
			}
			glob = true
			for _, have := range s.have.names {
				if GlobMatch(name, have) {
					out.Set(have, value(have))
				}
			}
		}
	}
	if out.Len() == 1 && !glob {
		_, v := out.At(0)
		return v, nil
	}
	return out, nil
}

func (m pkgCommon) latestVersion(ctx context.Context, c *Call, a pkgNamesArgs) (any, error) {
	if a.Kwargs.Has("repo") {
		return nil, InvocationErrorf("The 'repo' argument is invalid, use 'fromrepo' instead")
	}
	if len(a.Names) == 0 {
		return "", nil
	}
	names := namesOf(a.Names)
	s, err := m.state(ctx, c, false)
	if err != nil {
		return nil, err
	}
	if pyIsTrue(kwargOf(a.Kwargs, "refresh", true)) {
		if _, err := m.p.refresh(ctx, c, refreshOptions(a.Kwargs)); err != nil {
			return nil, err
		}
	}
	from := ""
	if v := a.Kwargs.Value("fromrepo"); Truth(v) {
		from = Str(v)
	}
	found, err := m.p.candidates(ctx, c, names, from, a.Kwargs)
	if err != nil {
		return nil, err
	}
	showInstalled := pyIsTrue(kwargOf(a.Kwargs, "show_installed", false))
	out := &Map{}
	for _, name := range names {
		candidate := found[name]
		if have := s.have.by[name]; len(have) > 0 && candidate != "" && !showInstalled {
			for _, v := range have {
				if m.p.compare(v, candidate) >= 0 {
					candidate = ""
					break
				}
			}
		}
		out.Set(name, candidate)
	}
	if len(names) == 1 {
		return out.Str(names[0]), nil
	}
	return out, nil
}

// refreshOptions are those arguments of other functions that matter for a refresh.
func refreshOptions(kw *Map) *Map {
	return onlyKeys(kw, "cache_valid_time", "fromrepo", "enablerepo", "disablerepo", "disableexcludes", "branch", "setopt")
}

func onlyKeys(m *Map, keys ...string) *Map {
	out := &Map{}
	for _, k := range keys {
		if v, ok := m.Get(k); ok {
			out.Set(k, v)
		}
	}
	return out
}

type pkgNameKwArgs struct {
	Name   string
	Kwargs *Map `arg:"**kwargs"`
}

func (m pkgCommon) upgradeAvailable(ctx context.Context, c *Call, a pkgNameKwArgs) (any, error) {
	v, err := m.latestVersion(ctx, c, pkgNamesArgs{Names: []any{a.Name}, Kwargs: a.Kwargs})
	return v != "", err
}

func (m pkgCommon) refreshDB(ctx context.Context, c *Call, a pkgRefreshArgs) (any, error) {
	os.Remove(refreshTag(c)) // what a state run asked for is done with this
	kw := a.Kwargs.Clone()
	kw.Set("cache_valid_time", a.CacheValidTime)
	kw.Set("failhard", a.Failhard)
	return m.p.refresh(ctx, c, kw)
}

type pkgRefreshArgs struct {
	CacheValidTime any  `def:"0"`
	Failhard       any  `def:"False"`
	Kwargs         *Map `arg:"**kwargs"`
}

type pkgListUpgradesArgs struct {
	Refresh     any  `def:"True"`
	DistUpgrade any  `def:"True"`
	Kwargs      *Map `arg:"**kwargs"`
}

func (m pkgCommon) listUpgrades(ctx context.Context, c *Call, a pkgListUpgradesArgs) (any, error) {
	if pyIsTrue(a.Refresh) {
		if _, err := m.p.refresh(ctx, c, refreshOptions(a.Kwargs)); err != nil {
			return nil, err
		}
	}
	kw := a.Kwargs.Clone()
	kw.Set("dist_upgrade", a.DistUpgrade)
	return m.p.upgrades(ctx, c, kw)
}

type pkgVersionCmpArgs struct {
	Pkg1, Pkg2  any
	IgnoreEpoch bool `def:"False"`
	Kwargs      *Map `arg:"**kwargs"`
}

func (m pkgCommon) versionCmp(_ context.Context, _ *Call, a pkgVersionCmpArgs) (any, error) {
	return int64(m.cmp(Str(a.Pkg1), Str(a.Pkg2), a.IgnoreEpoch)), nil
}

func (m pkgCommon) cmp(a, b string, ignoreEpoch bool) int {
	if ignoreEpoch {
		a, b = withoutEpoch(a), withoutEpoch(b)
	}
	return m.p.compare(a, b)
}

func withoutEpoch(v string) string {
	if _, rest, ok := strings.Cut(v, ":"); ok {
		return rest
	}
	return v
}

func (m pkgCommon) normalizeName(_ context.Context, c *Call, a nameArgs) (any, error) {
	return m.p.normalize(c, a.Name), nil
}

type pkgPathsArgs struct {
	Paths  []any `arg:"*paths"`
	Kwargs *Map  `arg:"**kwargs"`
}

func (m pkgCommon) owner(ctx context.Context, c *Call, a pkgPathsArgs) (any, error) {
	if len(a.Paths) == 0 {
		return "", nil
	}
	out := &Map{}
	for _, path := range namesOf(a.Paths) {
		name, err := m.p.owner(ctx, c, path)
		if err != nil {
			return nil, err
		}
		out.Set(path, name)
	}
	if out.Len() == 1 {
		_, v := out.At(0)
		return v, nil
	}
	return out, nil
}

type pkgPackagesArgs struct {
	Packages []any `arg:"*packages"`
	Kwargs   *Map  `arg:"**kwargs"`
}

func (m pkgCommon) fileDict(ctx context.Context, c *Call, a pkgPackagesArgs) (any, error) {
	files, err := m.p.files(ctx, c, namesOf(a.Packages))
	if err != nil {
		return lowpkgText(c, err)
	}
	return NewMap("errors", &List{}, "packages", files), nil
}

// lowpkgText is how Salt's low-level package modules tell of a failure: a text.
func lowpkgText(c *Call, err error) (any, error) {
	me := asModuleError(err)
	if me.Kind != ErrExecution {
		return nil, err
	}
	c.Log.Error("Error:  " + me.Msg)
	return "Error:  " + me.Msg, nil
}

func (m pkgCommon) fileList(ctx context.Context, c *Call, a pkgPackagesArgs) (any, error) {
	files, err := m.p.files(ctx, c, namesOf(a.Packages))
	if err != nil {
		return lowpkgText(c, err)
	}
	seen := map[string]bool{}
	var all []string
	for _, l := range files.All() {
		for _, f := range toItems(l) {
			if s := Str(f); !seen[s] {
				seen[s] = true
				all = append(all, s)
			}
		}
	}
	sort.Strings(all)
	return NewMap("errors", &List{}, "files", Strings(all)), nil
}

type pkgArgsArgs struct {
	Args   []any `arg:"*args"`
	Kwargs *Map  `arg:"**kwargs"`
}

func (m pkgCommon) listRepoPkgs(ctx context.Context, c *Call, a pkgArgsArgs) (any, error) {
	return m.p.available(ctx, c, namesOf(a.Args), a.Kwargs)
}

// boxHas says whether a box is of a provider's family; where the family tells of no
// provider at all, what tools there are decides. Several managers may be installed
// on one box, and one is the box's own.
func boxHas(c *Call, families ...string) bool {
	family := grain(c, "os_family")
	return hasString(families, family) || !hasString([]string{"Debian", "RedHat", "Suse", "Arch", "Alpine", "OpenWrt", "NILinuxRT"}, family)
}
