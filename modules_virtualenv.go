// Module virtualenv: virtual environments of Python, and what is installed in
// them.
package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

func virtualenvModule() Module {
	return Module{
		Doc: "Make virtual environments of Python.",
		Funcs: Funcs{
			"create":                {run: virtualenvCreate, doc: "Make a virtual environment.\n\nCLI Example:\n\n    salt '*' virtualenv.create /path/to/new/virtualenv"},
			"get_site_packages":     {run: virtualenvSitePackages, doc: "Return the directory of a virtual environment's packages."},
			"virtualenv_ver":        {run: virtualenvVersion, doc: "Return the version of virtualenv as a list of numbers."},
			"get_distribution_path": {run: virtualenvDistribution, doc: "Return the directory that a distribution of a virtual environment is in."},
			"get_resource_path":     {run: virtualenvResource("filename"), pyname: "get_resource_path", doc: "Return the path of a file of a package in a virtual environment."},
			"get_resource_content":  {run: virtualenvResource("string"), pyname: "get_resource_content", doc: "Return the content of a file of a package in a virtual environment."},
		},
	}
}

type virtualenvArgs struct {
	Path               string
	VenvBin            any  `def:"None"`
	SystemSitePackages bool `def:"False"`
	Distribute         bool `def:"False"`
	Clear              bool `def:"False"`
	Python             any  `def:"None"`
	ExtraSearchDir     any  `def:"None"`
	NeverDownload      any  `def:"None"`
	Prompt             any  `def:"None"`
	Pip                bool `def:"False"`
	Symlinks           any  `def:"None"`
	Upgrade            any  `def:"None"`
	User               any  `def:"None"`
	UseVt              bool `def:"False"`
	Saltenv            any  `def:"'base'"`
	Kwargs             *Map `arg:"**kwargs"`
}

func virtualenvCreate(ctx context.Context, c *Call, a virtualenvArgs) (any, error) {
	var cmd []string
	bin := "virtualenv"
	if Truth(a.VenvBin) {
		bin = Str(a.VenvBin)
	}
	venv := strings.Contains(bin, "venv") && bin != "virtualenv" || which(bin) == ""
	if venv {
		python := "python3"
		if Truth(a.Python) {
			python = Str(a.Python)
		}
		cmd = []string{python, "-m", "venv"}
		if Truth(a.Symlinks) {
			cmd = append(cmd, "--symlinks")
		}
		if Truth(a.Upgrade) {
			cmd = append(cmd, "--upgrade")
		}
	} else {
		cmd = []string{bin}
		if Truth(a.Python) {
			cmd = append(cmd, "--python="+Str(a.Python))
		}
		if Truth(a.NeverDownload) {
			cmd = append(cmd, "--never-download")
		}
		for _, d := range pipWords(a.ExtraSearchDir) {
			cmd = append(cmd, "--extra-search-dir="+d)
		}
	}
	if Truth(a.Prompt) {
		cmd = append(cmd, "--prompt="+Str(a.Prompt))
	}
	if a.Clear {
		cmd = append(cmd, "--clear")
	}
	if a.SystemSitePackages {
		cmd = append(cmd, "--system-site-packages")
	}
	r, err := runSaltTool(ctx, c, toolOptions{runas: a.User}, append(cmd, a.Path)...)
	if err != nil {
		return nil, err
	}
	return r.asMap(), nil
}

type venvArgs struct{ Venv string }

func virtualenvSitePackages(_ context.Context, _ *Call, a venvArgs) (any, error) {
	found, _ := filepath.Glob(filepath.Join(globQuote(a.Venv), "lib", "python*", "site-packages"))
	if len(found) == 0 {
		if _, err := os.Stat(a.Venv); err != nil {
			return nil, ExecErrorf("Path %s does not exist", a.Venv)
		}
		return nil, ExecErrorf("Path %s does not appear to be a virtualenv", a.Venv)
	}
	return found[0], nil
}

func virtualenvVersion(ctx context.Context, c *Call, a struct {
	VenvBin string
	User    any  `def:"None"`
	Kwargs  *Map `arg:"**kwargs"`
}) (any, error) {
	o := toolOptions{merge: true}
	if Truth(a.User) {
		o.runas = a.User
	}
	r, err := runSaltTool(ctx, c, o, a.VenvBin, "--version")
	if err != nil {
		return nil, err
	}
	version := parseVirtualenvVersion(r.stdout)
	if r.failed() || version == nil {
		return nil, ExecErrorf("Unable to get the virtualenv version output using '%s'. Returned data: %s", a.VenvBin, r.stdout)
	}
	return version, nil
}

// parseVirtualenvVersion finds the numbers in a text such as
// `virtualenv 20.17.1+ds from /usr/lib/python3`.
func parseVirtualenvVersion(text string) *List {
	for _, word := range strings.Fields(text) {
		word = regexp.MustCompile(`(rc|\+ds).*$`).ReplaceAllString(word, "")
		numbers := &List{}
		for _, part := range strings.Split(word, ".") {
			n, err := strconv.ParseInt(part, 10, 64)
			if err != nil {
				numbers = nil
				break
			}
			numbers.Append(n)
		}
		if numbers.Len() > 1 {
			return numbers
		}
	}
	return nil
}

// virtualenvPython runs a line of code with the Python of an environment. The
// words in it must not be able to end a quoted text.
func virtualenvPython(ctx context.Context, c *Call, venv, code string, words ...any) (any, error) {
	for _, w := range words {
		if strings.ContainsAny(Str(w), "'\"\\()\n;") {
			return nil, ExecErrorf("%s is no name of a package or a file", Repr(w))
		}
	}
	bin := filepath.Join(venv, "bin", "python")
	if !isFile(bin) {
		return nil, ExecErrorf("Path '%s' does not appear to be a virtualenv: bin/python not found.", venv)
	}
	r, err := runSaltTool(ctx, c, toolOptions{}, bin, "-c", code)
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return nil, ExecErrorf("%s\n%s", r.stdout, r.stderr)
	}
	return r.stdout, nil
}

func virtualenvDistribution(ctx context.Context, c *Call, a struct{ Venv, Distribution string }) (any, error) {
	return virtualenvPython(ctx, c, a.Venv, "import pkg_resources; print(pkg_resources.get_distribution('"+a.Distribution+"').location)", a.Distribution)
}

func virtualenvResource(what string) func(context.Context, *Call, struct {
	Venv     string
	Package  any `def:"None"`
	Resource any `def:"None"`
}) (any, error) {
	return func(ctx context.Context, c *Call, a struct {
		Venv     string
		Package  any `def:"None"`
		Resource any `def:"None"`
	}) (any, error) {
		code := "import pkg_resources; print(pkg_resources.resource_" + what + "('" + Str(a.Package) + "', '" + Str(a.Resource) + "'))"
		return virtualenvPython(ctx, c, a.Venv, code, a.Package, a.Resource)
	}
}
