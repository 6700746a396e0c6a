// State modules pip and virtualenv: packages of Python, and environments for
// them.
package main

import (
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

func pipStates() Module {
	return Module{
		Doc:     "Packages of Python.",
		Virtual: needsFunction("pip.list", ""),
		Funcs: Funcs{
			"installed": {run: pipStateInstalled, doc: "The packages are installed: name or pkgs with versions as pip has them, a requirements file, or editable checkouts. bin_env is a pip or a virtualenv."},
			"removed":   {run: pipStateRemoved, doc: "The package is not installed."},
			"uptodate":  {run: pipStateUptodate, doc: "All packages are up to date."},
		},
	}
}

type pipStateArgs struct {
	Name            string
	Pkgs            any  `def:"None"`
	PipBin          any  `def:"None"`
	Requirements    any  `def:"None"`
	BinEnv          any  `def:"None"`
	Editable        any  `def:"None"`
	IndexURL        any  `arg:"index_url" def:"None"`
	ExtraIndexURL   any  `arg:"extra_index_url" def:"None"`
	Upgrade         any  `def:"False"`
	ForceReinstall  any  `def:"False"`
	IgnoreInstalled any  `def:"False"`
	User            any  `def:"None"`
	Cwd             any  `def:"None"`
	EnvVars         any  `def:"None"`
	Kwargs          *Map `arg:"**kwargs"`
}

// pipWanted is one package that a state wants; prefix is "" for addresses.
type pipWanted struct {
	prefix, text string
	specs        [][2]string
}

var pipRequirement = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?\s*\(?((?:\s*(?:===|==|~=|!=|<=|>=|<|>)\s*[^,;\s()]+\s*,?)*)\)?\s*(?:;.*)?$`)
})

var pipSpec = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(===|==|~=|!=|<=|>=|<|>)\s*([^,\s]+)`) })

// readPipWanted reads a requirement as pip does.
func readPipWanted(pkg string) (w pipWanted, problem string) {
	w.text = pkg
	if strings.Contains(pkg, "://") || strings.Contains(pkg, "/") || strings.HasPrefix(pkg, ".") {
		return w, ""
	}
	m := pipRequirement().FindStringSubmatch(pkg)
	if m == nil {
		if strings.Contains(pkg, "=") && !strings.Contains(pkg, "==") {
			return w, "Invalid version specification in package " + pkg + ". '=' is not supported, use '==' instead."
		}
		return w, "pip raised an exception while parsing '" + pkg + "': Invalid requirement: '" + pkg + "'"
	}
	w.prefix = m[1]
	for _, s := range pipSpec().FindAllStringSubmatch(m[2], -1) {
		w.specs = append(w.specs, [2]string{s[1], s[2]})
	}
	return w, ""
}

var pythonVersion = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^v?(?:(\d+)!)?(\d+(?:\.\d+)*)(?:[._-]?(a|alpha|b|beta|c|rc|pre|preview)[._-]?(\d*))?(?:(?:[._-]?(?:post|rev|r)[._-]?(\d*))|-(\d+))?(?:[._-]?(dev)[._-]?(\d*))?(?:\+.*)?$`)
})

// pythonVersionKey makes a version comparable: epoch, kind of pre-release, its
// number, post release, development release, and the numbers of the release.
func pythonVersionKey(v string) (key [5]int, release []int, ok bool) {
	m := pythonVersion().FindStringSubmatch(strings.ToLower(strings.TrimSpace(v)))
	if m == nil {
		return key, nil, false
	}
	num := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			return 0
		}
		return n
	}
	for _, part := range strings.Split(m[2], ".") {
		release = append(release, num(part))
	}
	for len(release) > 1 && release[len(release)-1] == 0 {
		release = release[:len(release)-1]
	}
	post := strings.Contains(strings.ToLower(v), "post") || m[5] != "" || m[6] != ""
	key[0] = num(m[1])
	switch m[3] {
	case "a", "alpha":
		key[1] = -3
	case "b", "beta":
		key[1] = -2
	case "c", "rc", "pre", "preview":
		key[1] = -1
	default:
		if m[7] != "" && !post { // 1.0.dev1 comes before 1.0a1
			key[1] = -4
		}
	}
	key[2] = num(m[4])
	if post {
		key[3] = 1 + num(m[5]+m[6])
	}
	key[4] = 1 << 30
	if m[7] != "" {
		key[4] = num(m[8])
	}
	return key, release, true
}

// comparePython compares versions of Python packages.
func comparePython(a, b string) int {
	ka, ra, oka := pythonVersionKey(a)
	kb, rb, okb := pythonVersionKey(b)
	if !oka || !okb {
		return strings.Compare(a, b)
	}
	if ka[0] != kb[0] {
		return sign(ka[0] - kb[0])
	}
	if n := slices.Compare(ra, rb); n != 0 {
		return n
	}
	return slices.Compare(ka[1:], kb[1:])
}

// pipFulfills says whether a version meets all conditions.
func pipFulfills(version string, specs [][2]string) bool {
	for _, s := range specs {
		op, want := s[0], s[1]
		n := 0
		prefix, wild := strings.CutSuffix(want, ".*")
		if !wild {
			n = comparePython(version, want)
		}
		same := n == 0
		if wild {
			same = version == prefix || strings.HasPrefix(version, prefix+".")
		}
		ok := false
		switch op {
		case "==", "===":
			ok = same
		case "!=":
			ok = !same
		case ">=":
			ok = n >= 0
		case "<=":
			ok = n <= 0
		case ">":
			ok = n > 0
		case "<":
			ok = n < 0
		case "~=":
			series := want
			if i := strings.LastIndexByte(want, '.'); i > 0 {
				series = want[:i]
			}
			ok = n >= 0 && (version == series || strings.HasPrefix(version, series+"."))
		}
		if !ok {
			return false
		}
	}
	return true
}

// pipVersionOf finds a package by name, in any case.
func pipVersionOf(list *Map, name string) (string, bool) {
	for k, v := range list.All() {
		if strings.EqualFold(Str(k), name) {
			return Str(v), true
		}
	}
	return "", false
}

// have says whether a wanted package needs nothing.
func (w pipWanted) have(ctx context.Context, c *Call, a pipStateArgs, list *Map) (bool, string, error) {
	version, there := pipVersionOf(list, w.prefix)
	if w.prefix == "" || !there || a.IgnoreInstalled != false || a.ForceReinstall != false {
		return false, "", nil
	}
	already := "Python package " + w.text + " was already installed"
	if !Truth(a.Upgrade) {
		return pipFulfills(version, w.specs), already, nil
	}
	kw := NewMap("bin_env", a.BinEnv, "user", a.User, "cwd", a.Cwd, "index_url", a.IndexURL, "extra_index_url", a.ExtraIndexURL)
	for name, mark := range map[string]string{"include_alpha": "a", "include_beta": "b", "include_rc": "rc"} {
		kw.Set(name, slices.ContainsFunc(w.specs, func(s [2]string) bool { return strings.Contains(s[1], mark) }))
	}
	v, err := c.RunKw(ctx, "pip.list_all_versions", []any{w.prefix}, kw)
	if err != nil {
		return false, "", err
	}
	newest := ""
	for _, item := range toItems(v) {
		if pipFulfills(Str(item), w.specs) {
			newest = Str(item)
		}
	}
	if newest == "" {
		return true, "Python package " + w.prefix + " was already installed and\nthe available upgrade doesn't fulfills the version requirements", nil
	}
	return comparePython(version, newest) == 0, already, nil
}

// pipWork is a pip.installed on its way.
type pipWork struct {
	a       pipStateArgs
	ret     *Map
	names   []string
	byFile  bool // of a requirements file or a checkout: what it holds is not known
	wanted  []pipWanted
	targets []pipWanted // the wanted ones that are not there
	pkgs    []string    // targets as pip.install takes them
	already []string
	stdout  string // of the installation
}

func pipStateInstalled(ctx context.Context, c *Call, a pipStateArgs) (any, error) {
	if Truth(a.PipBin) && !Truth(a.BinEnv) {
		a.BinEnv = a.PipBin
	}
	w := &pipWork{a: a, names: []string{a.Name}, byFile: Truth(a.Requirements) || Truth(a.Editable)}
	if Truth(a.Pkgs) {
		l, ok := a.Pkgs.(*List)
		if !ok {
			return NewMap("name", a.Name, "result", false, "changes", NewMap(), "comment", "pkgs argument must be formatted as a list"), nil
		}
		w.names = texts(l)
	}
	w.ret = stateReturn(strings.Join(w.names, ";"), nil, "")
	return runSteps(ctx, c, w.checkPip, w.readNames, w.checkUser, w.dryByFile, w.compare, w.install, w.report)
}

// checkPip sees to it that there is a pip.
func (w *pipWork) checkPip(ctx context.Context, c *Call) (any, error) {
	_, err := c.Run(ctx, "pip.version", w.a.BinEnv)
	if err != nil && isSaltError(err) {
		return stateSay(w.ret, false, "Error installing '%s': %s", w.a.Name, errText(err))
	}
	return nil, err
}

func (w *pipWork) readNames(context.Context, *Call) (any, error) {
	if w.byFile {
		return nil, nil
	}
	var problems []string
	for _, n := range w.names {
		one, problem := readPipWanted(n)
		if problem != "" {
			problems = append(problems, problem)
		}
		w.wanted = append(w.wanted, one)
	}
	if len(problems) > 0 {
		return stateSay(w.ret, false, "%s", strings.Join(problems, "\n"))
	}
	return nil, nil
}

func (w *pipWork) checkUser(ctx context.Context, c *Call) (any, error) {
	if !Truth(w.a.User) || !c.Has(ctx, "user.info") {
		return nil, nil
	}
	known, err := runTruth(ctx, c, "user.info", w.a.User)
	if err != nil || known {
		return nil, err
	}
	return stateSay(w.ret, false, "User %s does not exist", Str(w.a.User))
}

// dryByFile ends a dry run of a file: it says only that pip would read it.
func (w *pipWork) dryByFile(_ context.Context, c *Call) (any, error) {
	if !w.byFile || !c.Testing() {
		return nil, nil
	}
	var words []string
	if Truth(w.a.Requirements) {
		words = append(words, "Requirements file '"+Str(w.a.Requirements)+"' will be processed.")
	}
	if Truth(w.a.Editable) {
		words = append(words, "Package will be installed in editable mode (i.e. setuptools \"develop mode\") from "+Str(w.a.Editable)+".")
	}
	return stateSay(w.ret, nil, "%s", strings.Join(words, " "))
}

func (w *pipWork) list(ctx context.Context, c *Call) (*Map, error) {
	v, err := c.RunKw(ctx, "pip.list", nil, NewMap("bin_env", w.a.BinEnv, "user", w.a.User, "cwd", w.a.Cwd, "env_vars", w.a.EnvVars))
	m, _ := v.(*Map)
	return m, err
}

// compare finds the packages that are not there; a dry run ends with the first.
func (w *pipWork) compare(ctx context.Context, c *Call) (any, error) {
	if w.byFile {
		return nil, nil
	}
	installed, err := w.list(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, one := range w.wanted {
		ok, text, err := one.have(ctx, c, w.a, installed)
		if err != nil {
			return nil, err
		}
		if ok {
			w.already = append(w.already, text)
			continue
		}
		w.targets = append(w.targets, one)
		w.pkgs = append(w.pkgs, strings.ReplaceAll(one.text, ",", ";"))
		if c.Testing() {
			if len(w.wanted) > 1 {
				return stateSay(w.ret, nil, "Python package(s) set to be installed:\n%s", strings.Join(w.names, "\n"))
			}
			return stateSay(w.ret, nil, "Python package %s is set to be installed", one.text)
		}
	}
	if len(w.targets) > 0 {
		return nil, nil
	}
	last := "All specified packages are already installed"
	if Truth(w.a.Upgrade) {
		last += " and up-to-date"
	}
	return stateSay(w.ret, true, "%s", strings.Join(append(w.already, last), "\n"))
}

func (w *pipWork) install(ctx context.Context, c *Call) (any, error) {
	a := w.a
	kw := pkgWith(a.Kwargs, "pkgs", strings.Join(w.pkgs, ","), "requirements", a.Requirements, "bin_env", a.BinEnv, "editable", a.Editable,
		"index_url", a.IndexURL, "extra_index_url", a.ExtraIndexURL, "upgrade", a.Upgrade, "force_reinstall", a.ForceReinstall,
		"ignore_installed", a.IgnoreInstalled, "user", a.User, "cwd", a.Cwd, "env_vars", a.EnvVars, "saltenv", c.StateEnv(), "disable_version_check", true)
	v, err := c.RunKw(ctx, "pip.install", nil, kw)
	if err != nil {
		return nil, err
	}
	out, _ := v.(*Map)
	if out.Len() == 0 {
		return stateSay(w.ret, false, "Could not install package")
	}
	if n, ok := toInt(kwargOf(out, "retcode", int64(1))); !ok || n != 0 {
		return w.failed(out)
	}
	w.stdout = Str(out.Value("stdout"))
	return nil, nil
}

// failed ends the state with what pip said against the installation.
func (w *pipWork) failed(out *Map) (any, error) {
	text := "Error: " + Str(out.Value("comment"))
	if out.Has("stdout") {
		text = "Error: " + Str(out.Value("stdout")) + " " + Str(out.Value("stderr"))
	}
	if !w.byFile {
		return stateSay(w.ret, false, "%s", strings.Join(append(w.already, "Failed to install packages: "+strings.Join(w.pkgs, ", ")+". "+text), "\n"))
	}
	var words []string
	if Truth(w.a.Requirements) {
		words = append(words, "Unable to process requirements file \""+Str(w.a.Requirements)+"\"")
	}
	if Truth(w.a.Editable) {
		words = append(words, "Unable to install from VCS checkout "+Str(w.a.Editable)+".")
	}
	return stateSay(w.ret, false, "%s", strings.Join(append(words, text), " "))
}

// report ends the state with what is installed now.
func (w *pipWork) report(ctx context.Context, c *Call) (any, error) {
	if w.byFile {
		return pipFileDone(w.ret, w.a, w.stdout)
	}
	now, err := w.list(ctx, c)
	if err != nil {
		return nil, err
	}
	uptodate := pipUpToDate(w.stdout)
	var missing []string
	for _, one := range w.targets {
		version, there := pipVersionOf(now, one.prefix)
		switch {
		case one.prefix == "":
			w.ret.Map("changes").Set(one.text+"==???", "Installed")
		case now.Len() == 0:
			missing = append(missing, "There was no error installing package '"+one.text+"' although it does not show when calling 'pip.freeze'.")
		case there && !uptodate[strings.ToLower(one.prefix)]:
			w.ret.Map("changes").Set(one.prefix+"=="+version, "Installed")
		}
	}
	if len(missing) == 0 {
		missing = []string{"All packages were successfully installed"}
	}
	return stateSay(w.ret, true, "%s", strings.Join(append(w.already, missing...), "\n"))
}

// pipUpToDate lists, in lower case, the packages that pip found up to date.
func pipUpToDate(stdout string) map[string]bool {
	found := map[string]bool{}
	for _, line := range strings.Split(stdout, "\n") {
		if rest, ok := strings.CutPrefix(line, "Requirement already up-to-date: "); ok {
			if words := pyFields(rest); len(words) > 0 {
				found[strings.ToLower(words[0])] = true
			}
		}
	}
	return found
}

// pipFileDone reports what pip did with a requirements file or a checkout.
func pipFileDone(ret *Map, a pipStateArgs, stdout string) (any, error) {
	var words []string
	if Truth(a.Requirements) {
		same := []string{"Requirement already satisfied", "Requirement already up-to-date", "Requirement not upgraded", "Collecting", "Cloning", "Cleaning up...", "Looking in indexes"}
		for _, line := range strings.Split(stdout, "\n") {
			line = strings.TrimSpace(line)
			if !slices.ContainsFunc(same, func(s string) bool { return strings.HasPrefix(line, s) }) {
				ret.Map("changes").Set("requirements", true)
			}
		}
		if ret.Map("changes").Len() > 0 {
			words = append(words, "Successfully processed requirements file "+Str(a.Requirements)+".")
		} else {
			words = append(words, "Requirements were already installed.")
		}
	}
	if Truth(a.Editable) {
		words = append(words, "Package successfully installed from VCS checkout "+Str(a.Editable)+".")
		ret.Map("changes").Set("editable", true)
	}
	return stateSay(ret, true, "%s", strings.Join(words, " "))
}

func pipStateRemoved(ctx context.Context, c *Call, a struct {
	Name         string
	Requirements any  `def:"None"`
	BinEnv       any  `def:"None"`
	Log          any  `def:"None"`
	Proxy        any  `def:"None"`
	Timeout      any  `def:"None"`
	User         any  `def:"None"`
	Cwd          any  `def:"None"`
	UseVt        bool `def:"False"`
}) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	v, err := c.RunKw(ctx, "pip.list", nil, NewMap("bin_env", a.BinEnv, "user", a.User, "cwd", a.Cwd))
	if err != nil {
		if isSaltError(err) {
			return stateSay(ret, false, "Error uninstalling '%s': %s", a.Name, errText(err))
		}
		return nil, err
	}
	list, _ := v.(*Map)
	if !list.Has(a.Name) {
		return stateSay(ret, true, "Package is not installed.")
	}
	if c.Testing() {
		return stateSay(ret, nil, "Package %s is set to be removed", a.Name)
	}
	done, err := c.RunKw(ctx, "pip.uninstall", nil, NewMap("pkgs", a.Name, "requirements", a.Requirements, "bin_env", a.BinEnv, "log", a.Log,
		"proxy", a.Proxy, "timeout", a.Timeout, "user", a.User, "cwd", a.Cwd, "use_vt", a.UseVt))
	if err != nil {
		return nil, err
	}
	if !Truth(done) {
		return stateSay(ret, false, "Could not remove package.")
	}
	ret.Map("changes").Set(a.Name, "Removed")
	return stateSay(ret, true, "Package was successfully removed.")
}

func pipStateUptodate(ctx context.Context, c *Call, a struct {
	Name   string
	BinEnv any  `def:"None"`
	User   any  `def:"None"`
	Cwd    any  `def:"None"`
	UseVt  bool `def:"False"`
}) (any, error) {
	ret := stateReturn(a.Name, false, "Failed to update.")
	kw := NewMap("bin_env", a.BinEnv, "user", a.User, "cwd", a.Cwd)
	v, err := c.RunKw(ctx, "pip.list_upgrades", nil, kw.Clone())
	if err != nil {
		return stateSay(ret, false, "%s", errText(err))
	}
	if !Truth(v) {
		return stateSay(ret, true, "System is already up-to-date.")
	}
	if c.Testing() {
		return stateSay(ret, nil, "System update will be performed")
	}
	kw.Set("use_vt", a.UseVt)
	if v, err = c.RunKw(ctx, "pip.upgrade", nil, kw); err != nil {
		return nil, err
	}
	done, _ := v.(*Map)
	switch {
	case done.Value("result") == false:
		ret.Merge(done)
		return ret, nil
	case done.Len() == 0:
		return stateSay(ret, false, "Upgrade failed.")
	}
	ret.Set("changes", done)
	return stateSay(ret, true, "Upgrade successful.")
}

func virtualenvStates() Module {
	managed := Func{run: virtualenvStateManaged, pyname: "managed", doc: "The environment exists and has the packages of requirements and pip_pkgs. clear makes it anew."}
	return Module{
		Doc:     "Environments for packages of Python.",
		Virtual: needsFunction("virtualenv.create", "virtualenv module could not be loaded"),
		Funcs:   Funcs{"managed": managed, "manage": managed},
	}
}

// virtualenvPipArgs are what virtualenv.managed has for pip alone.
type virtualenvPipArgs struct {
	UseWheel               any `def:"False"`
	NoUseWheel             any `def:"False"`
	PipDownload            any `def:"None"`
	PipDownloadCache       any `def:"None"`
	PipExistsAction        any `def:"None"`
	PipNoCacheDir          any `def:"False"`
	PipCacheDir            any `def:"None"`
	ProcessDependencyLinks any `def:"False"`
	NoBinary               any `def:"None"`
	UseVt                  any `def:"False"`
}

// keywords are these as pip.install names them, beside other ones.
func (a virtualenvPipArgs) keywords(more *Map) *Map {
	return pkgWith(more, "use_wheel", a.UseWheel, "no_use_wheel", a.NoUseWheel, "download", a.PipDownload, "download_cache", a.PipDownloadCache,
		"exists_action", a.PipExistsAction, "no_cache_dir", a.PipNoCacheDir, "cache_dir", a.PipCacheDir,
		"process_dependency_links", a.ProcessDependencyLinks, "no_binary", a.NoBinary, "use_vt", a.UseVt)
}

func virtualenvStateManaged(ctx context.Context, c *Call, a struct {
	Name               string
	VenvBin            any `def:"None"`
	Requirements       any `def:"None"`
	SystemSitePackages any `def:"False"`
	Distribute         any `def:"False"`
	Clear              any `def:"False"`
	Python             any `def:"None"`
	ExtraSearchDir     any `def:"None"`
	NeverDownload      any `def:"None"`
	Prompt             any `def:"None"`
	User               any `def:"None"`
	Cwd                any `def:"None"`
	IndexURL           any `arg:"index_url" def:"None"`
	ExtraIndexURL      any `arg:"extra_index_url" def:"None"`
	PreReleases        any `def:"False"`
	NoDeps             any `def:"False"`
	PipUpgrade         any `def:"False"`
	PipPkgs            any `def:"None"`
	PipIgnoreInstalled any `def:"False"`
	Proxy              any `def:"None"`
	EnvVars            any `def:"None"`
	virtualenvPipArgs
	Kwargs *Map `arg:"**kwargs"`
}) (any, error) {
	ret := stateReturn(a.Name, true, "")
	changes := ret.Map("changes")
	python := filepath.Join(a.Name, "bin", "python")
	there, clear := pathExists(python), Truth(a.Clear)
	requirements := a.Requirements
	if s, ok := requirements.(string); ok && strings.HasPrefix(s, "salt://") {
		path, err := c.Run(ctx, "cp.cache_file", s, c.StateEnv())
		if err != nil {
			return nil, err
		}
		if !Truth(path) {
			return stateSay(ret, false, "pip requirements file '%s' not found", s)
		}
		requirements = path
	}
	version := func() (string, error) {
		s, err := runString(ctx, c, "cmd.run", python+" -V")
		return strings.Trim(s, "\n"), err
	}
	freeze := func() ([]any, error) {
		v, err := c.RunKw(ctx, "pip.freeze", nil, NewMap("bin_env", a.Name, "user", a.User))
		return toItems(v), err
	}
	if there && clear {
		items, err := freeze()
		if err != nil {
			return nil, err
		}
		changes.Set("cleared_packages", NewList(items...))
		v, err := version()
		if err != nil {
			return nil, err
		}
		changes.Set("old", v)
	}
	switch {
	case c.Testing() && there && clear:
		return stateSay(ret, nil, "Virtualenv %s is set to be cleared", a.Name)
	case c.Testing() && there:
		return stateSay(ret, true, "Virtualenv %s is already created", a.Name)
	case c.Testing():
		return stateSay(ret, nil, "Virtualenv %s is set to be created", a.Name)
	}
	if there && !clear {
		ret.Set("comment", "virtualenv exists")
	} else {
		kw := NewMap("venv_bin", a.VenvBin, "system_site_packages", a.SystemSitePackages, "distribute", a.Distribute, "clear", a.Clear, "python", a.Python,
			"extra_search_dir", a.ExtraSearchDir, "never_download", a.NeverDownload, "prompt", a.Prompt, "user", a.User)
		v, err := c.RunKw(ctx, "virtualenv.create", []any{a.Name}, kw)
		if err != nil {
			if asModuleError(err).Kind == ErrCommandNotFound {
				return stateSay(ret, false, "Failed to create virtualenv: %s", errText(err))
			}
			return nil, err
		}
		out, _ := v.(*Map)
		if Truth(out.Value("retcode")) {
			return stateSay(ret, false, "%s", Str(out.Value("stdout"))+Str(out.Value("stderr")))
		}
		now, err := version()
		if err != nil {
			return nil, err
		}
		changes.Set("new", now)
		ret.Set("comment", "Created new virtualenv")
		if clear {
			ret.Set("comment", "Cleared existing virtualenv")
		}
	}
	if !Truth(requirements) && !Truth(a.PipPkgs) {
		return ret, nil
	}
	before, err := freeze()
	if isExecError(err) {
		return stateSay(ret, false, "%s", errText(err))
	}
	if err != nil {
		return nil, err
	}
	v, err := c.RunKw(ctx, "pip.install", nil, pkgWith(a.keywords(a.Kwargs), "pkgs", a.PipPkgs, "requirements", requirements, "bin_env", a.Name, "user", a.User, "cwd", a.Cwd,
		"index_url", a.IndexURL, "extra_index_url", a.ExtraIndexURL, "pre_releases", a.PreReleases, "ignore_installed", a.PipIgnoreInstalled,
		"upgrade", a.PipUpgrade, "no_deps", a.NoDeps, "proxy", a.Proxy, "env_vars", a.EnvVars))
	if err != nil {
		return nil, err
	}
	out, _ := v.(*Map)
	if Truth(out.Value("retcode")) {
		ret.Set("result", false)
		ret.Set("comment", ret.Str("comment")+"\n"+Str(out.Value("stdout"))+"\n"+Str(out.Value("stderr")))
	}
	after, err := freeze()
	if err != nil {
		return nil, err
	}
	left := func(a, b []any) any {
		l := NewList()
		for _, item := range a {
			if !hasItem(b, item) {
				l.Append(item)
			}
		}
		if l.Len() == 0 {
			return ""
		}
		return l
	}
	if added, gone := left(after, before), left(before, after); Truth(added) || Truth(gone) {
		changes.Set("packages", NewMap("new", added, "old", gone))
	}
	return ret, nil
}
