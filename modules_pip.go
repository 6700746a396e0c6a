// Modules pip and virtualenv: packages of Python, through pip.
package main

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
)

func pipModule() Module {
	return Module{
		Doc: "Manage packages of Python.",
		Funcs: Funcs{
			"install":           {run: pipInstall, doc: "Install packages and return what pip told. bin_env is a virtual environment or a pip.\n\nCLI Example:\n\n    salt '*' pip.install markdown,django\n    salt '*' pip.install requirements=/path/to/requirements.txt bin_env=/path/to/venv"},
			"uninstall":         {run: pipUninstall, doc: "Remove packages and return what pip told."},
			"freeze":            {run: pipFreeze, doc: "List the installed packages as pip freeze writes them."},
			"list":              {run: pipList, pyname: "list_", doc: "Return the installed packages with their versions."},
			"list_freeze_parse": {run: pipListFreeze, doc: "Return the installed packages with their versions, from pip freeze."},
			"list_upgrades":     {run: pipListUpgrades, doc: "Return the packages that have newer versions."},
			"version":           {run: pipVersion, doc: "Return the version of pip."},
			"is_installed":      {run: pipIsInstalled, doc: "Say whether a package is installed."},
			"upgrade_available": {run: pipUpgradeAvailable, doc: "Say whether a package has a newer version."},
			"upgrade":           {run: pipUpgrade, doc: "Upgrade all packages and return what changed."},
			"list_all_versions": {run: pipListAllVersions, doc: "List the versions of a package that there are."},
		},
	}
}

// pipTool finds pip: of a virtual environment, a program, or the box's own.
func pipTool(binEnv any) ([]string, error) {
	if Truth(binEnv) {
		path := Str(binEnv)
		if isDir(path) {
			for _, name := range []string{"python3", "python"} {
				if python := filepath.Join(path, "bin", name); isExecutable(python) {
					return []string{python, "-m", "pip"}, nil
				}
			}
			return nil, NotFoundErrorf("Could not find a pip binary in virtualenv %s", path)
		}
		if isExecutable(path) {
			if strings.HasPrefix(filepath.Base(path), "python") {
				return []string{path, "-m", "pip"}, nil
			}
			return []string{path}, nil
		}
		return nil, NotFoundErrorf("Could not find a pip binary with path %s", path)
	}
	for _, name := range []string{"pip3", "pip"} {
		if path := which(name); path != "" {
			return []string{path}, nil
		}
	}
	if path := which("python3"); path != "" {
		return []string{path, "-m", "pip"}, nil
	}
	return nil, NotFoundErrorf("`pip` binary is not installed")
}

// pipPlace says which pip runs, as whom and where.
type pipPlace struct {
	BinEnv any `def:"None"`
	User   any `def:"None"`
	Cwd    any `def:"None"`
}

// pipCall is how pip is run.
type pipCall struct {
	pipPlace
	envVars any
}

func (p pipCall) run(ctx context.Context, c *Call, args ...string) (cmdResult, error) {
	tool, err := pipTool(p.BinEnv)
	if err != nil {
		return cmdResult{}, err
	}
	o := toolOptions{cwd: p.Cwd, runas: p.User, env: &Map{}}
	if Truth(p.BinEnv) && isDir(Str(p.BinEnv)) {
		o.env.Set("VIRTUAL_ENV", Str(p.BinEnv))
	}
	if m, ok := p.envVars.(*Map); ok {
		for k, v := range m.All() {
			o.env.Set(k, Str(v))
		}
	}
	return runSaltTool(ctx, c, o, append(tool, args...)...)
}

// text is run for what pip writes; a failure is an error.
func (p pipCall) text(ctx context.Context, c *Call, args ...string) (string, error) {
	r, err := p.run(ctx, c, args...)
	if err != nil {
		return "", err
	}
	if r.failed() {
		return "", ExecErrorInfo(r.stderr, r.asMap())
	}
	return r.stdout, nil
}

type pipInstallArgs struct {
	Pkgs                   any  `def:"None"`
	Requirements           any  `def:"None"`
	BinEnv                 any  `def:"None"`
	UseWheel               bool `def:"False"`
	NoUseWheel             bool `def:"False"`
	Log                    any  `def:"None"`
	Proxy                  any  `def:"None"`
	Timeout                any  `def:"None"`
	Editable               any  `def:"None"`
	FindLinks              any  `def:"None"`
	IndexURL               any  `def:"None"`
	ExtraIndexURL          any  `def:"None"`
	NoIndex                bool `def:"False"`
	Mirrors                any  `def:"None"`
	Build                  any  `def:"None"`
	Target                 any  `def:"None"`
	Download               any  `def:"None"`
	DownloadCache          any  `def:"None"`
	Source                 any  `def:"None"`
	Upgrade                bool `def:"False"`
	ForceReinstall         bool `def:"False"`
	IgnoreInstalled        bool `def:"False"`
	ExistsAction           any  `def:"None"`
	NoDeps                 bool `def:"False"`
	NoInstall              bool `def:"False"`
	NoDownload             bool `def:"False"`
	GlobalOptions          any  `def:"None"`
	InstallOptions         any  `def:"None"`
	User                   any  `def:"None"`
	Cwd                    any  `def:"None"`
	PreReleases            bool `def:"False"`
	Cert                   any  `def:"None"`
	AllowAllExternal       bool `def:"False"`
	AllowExternal          any  `def:"None"`
	AllowUnverified        any  `def:"None"`
	ProcessDependencyLinks bool `def:"False"`
	Saltenv                any  `def:"'base'"`
	EnvVars                any  `def:"None"`
	UseVt                  bool `def:"False"`
	TrustedHost            any  `def:"None"`
	NoCacheDir             bool `def:"False"`
	ExtraArgs              any  `def:"None"`
	CacheDir               any  `def:"None"`
	NoBinary               any  `def:"None"`
	DisableVersionCheck    bool `def:"False"`
	Kwargs                 *Map `arg:"**kwargs"`
}

// pipRequirements brings requirements files here and returns the options for them.
func pipRequirements(ctx context.Context, c *Call, v, saltenv any) ([]string, error) {
	var out []string
	if !Truth(v) {
		return nil, nil
	}
	for _, file := range groupList(v) {
		if strings.Contains(file, "://") {
			path, err := c.Run(ctx, "cp.cache_file", file, saltenv)
			if err != nil {
				return nil, err
			}
			if !Truth(path) {
				return nil, ExecErrorf("pip requirements file '%s' not found", file)
			}
			file = Str(path)
		}
		out = append(out, "--requirement", file)
	}
	return out, nil
}

// pipWords are the words of an argument that may be a list or have commas.
func pipWords(v any) []string {
	if !Truth(v) {
		return nil
	}
	var out []string
	for _, w := range groupList(v) {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}

func pipInstall(ctx context.Context, c *Call, a pipInstallArgs) (any, error) {
	cmd := []string{"install"}
	reqs, err := pipRequirements(ctx, c, a.Requirements, a.Saltenv)
	if err != nil {
		return nil, err
	}
	cmd = append(cmd, reqs...)
	flag := func(on bool, word string) {
		if on {
			cmd = append(cmd, word)
		}
	}
	option := func(v any, word string) {
		if Truth(v) {
			cmd = append(cmd, word, Str(v))
		}
	}
	flag(a.UseWheel, "--use-wheel")
	flag(a.NoUseWheel, "--no-use-wheel")
	if v := a.Log; Truth(v) {
		if isDir(Str(v)) {
			return nil, OtherErrorf("OSError", "'%s' is a directory. Use --log path_to_file", Str(v))
		}
		cmd = append(cmd, "--log", Str(v))
	}
	option(a.Proxy, "--proxy")
	option(a.Timeout, "--timeout")
	for _, link := range pipWords(a.FindLinks) {
		if !strings.HasPrefix(link, "/") && !regexp.MustCompile(`^(http|https|ftp|file|ssh|salt)://`).MatchString(link) {
			return nil, ExecErrorf("'%s' is not a valid URL or path", link)
		}
		cmd = append(cmd, "--find-links", link)
	}
	if a.NoIndex && (Truth(a.IndexURL) || Truth(a.ExtraIndexURL)) {
		return nil, ExecErrorf("'no_index' and ('index_url' or 'extra_index_url') are mutually exclusive.")
	}
	option(a.IndexURL, "--index-url")
	option(a.ExtraIndexURL, "--extra-index-url")
	flag(a.NoIndex, "--no-index")
	for _, m := range pipWords(a.Mirrors) {
		cmd = append(cmd, "--use-mirrors", "--mirrors", m)
	}
	option(a.Build, "--build")
	option(a.Target, "--target")
	option(a.Download, "--download")
	option(a.CacheDir, "--cache-dir")
	option(a.DownloadCache, "--cache-dir")
	option(a.Source, "--source")
	flag(a.Upgrade, "--upgrade")
	flag(a.ForceReinstall, "--force-reinstall")
	flag(a.IgnoreInstalled, "--ignore-installed")
	if v := a.ExistsAction; Truth(v) {
		if !hasString([]string{"s", "i", "w", "b"}, strings.ToLower(Str(v))) {
			return nil, ExecErrorf("The exists_action pip option only supports the values s, i, w, and b. '%s' is not valid.", Str(v))
		}
		cmd = append(cmd, "--exists-action", Str(v))
	}
	flag(a.NoDeps, "--no-deps")
	flag(a.NoInstall, "--no-install")
	flag(a.NoDownload, "--no-download")
	flag(a.NoCacheDir, "--no-cache-dir")
	flag(a.PreReleases, "--pre")
	option(a.Cert, "--cert")
	flag(a.DisableVersionCheck, "--disable-pip-version-check")
	for _, o := range pipWords(a.GlobalOptions) {
		cmd = append(cmd, "--global-option", o)
	}
	for _, o := range pipWords(a.InstallOptions) {
		cmd = append(cmd, "--install-option", o)
	}
	for _, h := range pipWords(a.TrustedHost) {
		cmd = append(cmd, "--trusted-host", h)
	}
	for _, n := range pipWords(a.NoBinary) {
		cmd = append(cmd, "--no-binary", n)
	}
	for _, item := range toItems(a.ExtraArgs) {
		if m, ok := item.(*Map); ok && m.Len() > 0 {
			k, v := m.At(0)
			cmd = append(cmd, Str(k), Str(v))
		} else {
			cmd = append(cmd, Str(item))
		}
	}
	names := pipWords(a.Pkgs)
	if l, ok := a.Pkgs.(*List); ok {
		names = namesOf(l.Items)
	}
	for _, n := range names {
		cmd = append(cmd, strings.ReplaceAll(n, ";", ","))
	}
	for _, e := range pipWords(a.Editable) {
		if !strings.Contains(e, "egg=") && strings.Contains(e, "+") {
			return nil, ExecErrorf("You must specify an egg for this editable")
		}
		cmd = append(cmd, "--editable="+e)
	}
	if len(names) == 0 && len(reqs) == 0 && !Truth(a.Editable) {
		return nil, ExecErrorf("Neither 'pkgs', 'requirements' nor 'editable' was given: there is nothing to install")
	}
	r, err := pipCall{pipPlace{a.BinEnv, a.User, a.Cwd}, a.EnvVars}.run(ctx, c, cmd...)
	if err != nil {
		return nil, err
	}
	return r.asMap(), nil
}

type pipUninstallArgs struct {
	Pkgs         any  `def:"None"`
	Requirements any  `def:"None"`
	BinEnv       any  `def:"None"`
	Log          any  `def:"None"`
	Proxy        any  `def:"None"`
	Timeout      any  `def:"None"`
	User         any  `def:"None"`
	Cwd          any  `def:"None"`
	Saltenv      any  `def:"'base'"`
	UseVt        bool `def:"False"`
	ExtraArgs    any  `def:"None"`
}

func pipUninstall(ctx context.Context, c *Call, a pipUninstallArgs) (any, error) {
	cmd := []string{"uninstall", "-y"}
	reqs, err := pipRequirements(ctx, c, a.Requirements, a.Saltenv)
	if err != nil {
		return nil, err
	}
	cmd = append(cmd, reqs...)
	for _, o := range []struct {
		v    any
		word string
	}{{a.Log, "--log"}, {a.Proxy, "--proxy"}, {a.Timeout, "--timeout"}} {
		if Truth(o.v) {
			cmd = append(cmd, o.word, Str(o.v))
		}
	}
	cmd = append(cmd, pipWords(a.Pkgs)...)
	r, err := pipCall{pipPlace{a.BinEnv, a.User, a.Cwd}, nil}.run(ctx, c, cmd...)
	if err != nil {
		return nil, err
	}
	return r.asMap(), nil
}

type pipFreezeArgs struct {
	pipPlace
	UseVt   bool `def:"False"`
	EnvVars any  `def:"None"`
	Kwargs  *Map `arg:"**kwargs"`
}

func pipFreeze(ctx context.Context, c *Call, a pipFreezeArgs) (any, error) {
	text, err := pipCall{a.pipPlace, a.EnvVars}.text(ctx, c, "freeze", "--all", "--disable-pip-version-check")
	if err != nil {
		return nil, err
	}
	return Strings(pyLines(text, false)), nil
}

type pipListArgs struct {
	Prefix any `def:"None"`
	pipPlace
	EnvVars any  `def:"None"`
	Kwargs  *Map `arg:"**kwargs"`
}

func (a pipListArgs) wanted(name string) bool {
	return !Truth(a.Prefix) || strings.HasPrefix(strings.ToLower(name), strings.ToLower(Str(a.Prefix)))
}

func pipList(ctx context.Context, c *Call, a pipListArgs) (any, error) {
	list, err := pipCall{a.pipPlace, a.EnvVars}.list(ctx, c)
	out := &Map{}
	for _, m := range list {
		if a.wanted(m.Str("name")) {
			out.Set(m.Str("name"), m.Value("version"))
		}
	}
	return orError(out, err)
}

// list is what pip lists in JSON.
func (p pipCall) list(ctx context.Context, c *Call, options ...string) ([]*Map, error) {
	text, err := p.text(ctx, c, append(append([]string{"list"}, options...), "--format=json", "--disable-pip-version-check")...)
	if err != nil {
		return nil, err
	}
	v, err := DecodeJSON([]byte(text))
	if err != nil {
		return nil, ExecErrorf("Invalid JSON")
	}
	var out []*Map
	for _, item := range toItems(v) {
		if m, ok := item.(*Map); ok {
			out = append(out, m)
		}
	}
	return out, nil
}

func pipListFreeze(ctx context.Context, c *Call, a pipListArgs) (any, error) {
	out := &Map{}
	if a.Prefix == nil || strings.HasPrefix("pip", Str(a.Prefix)) {
		v, err := pipVersion(ctx, c, pipEnvArgs{BinEnv: a.BinEnv, Cwd: a.Cwd, User: a.User})
		if err != nil {
			return nil, err
		}
		out.Set("pip", v)
	}
	text, err := pipCall{a.pipPlace, a.EnvVars}.text(ctx, c, "freeze", "--all", "--disable-pip-version-check")
	if err != nil {
		return nil, err
	}
	for _, line := range pyLines(text, false) {
		if strings.HasPrefix(line, "-f") || strings.HasPrefix(line, "#") {
			continue
		}
		line = strings.TrimPrefix(line, "-e ")
		version, name, ok := strings.Cut(line, "#egg=")
		for _, sep := range []string{"===", "=="} {
			if !ok {
				name, version, ok = strings.Cut(line, sep)
			}
		}
		if !ok {
			c.Log.Error("Can't parse line '" + line + "'")
			continue
		}
		if a.wanted(name) {
			out.Set(name, version)
		}
	}
	return out, nil
}

type pipEnvArgs struct {
	BinEnv any `def:"None"`
	Cwd    any `def:"None"`
	User   any `def:"None"`
}

func pipVersion(ctx context.Context, c *Call, a pipEnvArgs) (any, error) {
	text, err := pipCall{pipPlace{a.BinEnv, a.User, a.Cwd}, nil}.text(ctx, c, "--version")
	if err != nil {
		return nil, err
	}
	if m := regexp.MustCompile(`^pip (\S+)`).FindStringSubmatch(text); m != nil {
		return m[1], nil
	}
	return "", nil
}

func pipListUpgrades(ctx context.Context, c *Call, a pipPlace) (any, error) {
	list, err := pipCall{a, nil}.list(ctx, c, "--outdated")
	out := &Map{}
	for _, m := range list {
		out.Set(m.Str("name"), Str(m.Value("latest_version"))+" ["+Str(m.Value("latest_filetype"))+"]")
	}
	return orError(out, err)
}

type pipNameArgs struct {
	Pkgname any `def:"None"`
	pipPlace
}

func pipIsInstalled(ctx context.Context, c *Call, a pipNameArgs) (any, error) {
	all, err := pipList(ctx, c, pipListArgs{pipPlace: a.pipPlace})
	if err != nil {
		return nil, err
	}
	return all.(*Map).Has(a.Pkgname), nil
}

type pipPkgArgs struct {
	Pkg any
	pipPlace
}

func pipUpgradeAvailable(ctx context.Context, c *Call, a pipPkgArgs) (any, error) {
	all, err := pipListUpgrades(ctx, c, a.pipPlace)
	if err != nil {
		return nil, err
	}
	return all.(*Map).Has(a.Pkg), nil
}

type pipUpgradeArgs struct {
	pipPlace
	UseVt bool `def:"False"`
}

func pipUpgrade(ctx context.Context, c *Call, a pipUpgradeArgs) (any, error) {
	before, err := pipList(ctx, c, pipListArgs{pipPlace: a.pipPlace})
	if err != nil {
		return nil, err
	}
	newer, err := pipListUpgrades(ctx, c, a.pipPlace)
	if err != nil {
		return nil, err
	}
	errs := &List{}
	for name := range newer.(*Map).All() {
		r, err := pipCall{a.pipPlace, nil}.run(ctx, c, "install", "-U", Str(name))
		if err != nil {
			return nil, err
		}
		if r.failed() {
			errs.Append(r.stderr)
		}
	}
	after, err := pipList(ctx, c, pipListArgs{pipPlace: a.pipPlace})
	if err != nil {
		return nil, err
	}
	changes := &Map{}
	for name, v := range after.(*Map).All() {
		if old := before.(*Map).Value(name); !Equal(old, v) {
			changes.Set(name, NewMap("old", orEmpty(old), "new", v))
		}
	}
	return NewMap("changes", changes, "result", errs.Len() == 0, "errors", errs), nil
}

type pipVersionsArgs struct {
	Pkg           any
	BinEnv        any  `def:"None"`
	IncludeAlpha  bool `def:"False"`
	IncludeBeta   bool `def:"False"`
	IncludeRc     bool `def:"False"`
	User          any  `def:"None"`
	Cwd           any  `def:"None"`
	IndexURL      any  `def:"None"`
	ExtraIndexURL any  `def:"None"`
}

func pipListAllVersions(ctx context.Context, c *Call, a pipVersionsArgs) (any, error) {
	cmd := []string{"install", Str(a.Pkg) + "==versions"}
	if Truth(a.IndexURL) {
		cmd = append(cmd, "--index-url", Str(a.IndexURL))
	}
	if Truth(a.ExtraIndexURL) {
		cmd = append(cmd, "--extra-index-url", Str(a.ExtraIndexURL))
	}
	r, err := pipCall{pipPlace{a.BinEnv, a.User, a.Cwd}, nil}.run(ctx, c, cmd...)
	if err != nil {
		return nil, err
	}
	out := &List{}
	m := regexp.MustCompile(`\s*Could not find a version.* \(from versions: (.*)\)`).FindStringSubmatch(r.stdout + r.stderr)
	if m == nil {
		return out, nil
	}
	for _, v := range strings.Split(m[1], ",") {
		v = strings.TrimSpace(v)
		skip := v == "" || v == "none" || strings.Contains(v, "a") && !a.IncludeAlpha || strings.Contains(v, "b") && !a.IncludeBeta || strings.Contains(v, "rc") && !a.IncludeRc
		if !skip {
			out.Append(v)
		}
	}
	c.SetRetcode(0)
	return out, nil
}
