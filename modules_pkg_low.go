// Module lowpkg over dpkg: what it knows, without apt above it; and what lowpkg has
// in common whatever is below.
package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

func dpkgModule() Module {
	m := pkgCommon{aptManager{}}
	return Module{
		Doc: "Ask dpkg.",
		Virtual: func(_ context.Context, c *Call) (bool, string) {
			return boxHas(c, "Debian") && which("dpkg-query") != "", "The dpkg execution module cannot be loaded: only works on Debian family systems."
		},
		Funcs: Funcs{
			"bin_pkg_info": {run: lowpkgFile(lowpkgDebInfo), pyname: "bin_pkg_info", doc: "Return name, version and architecture of a package file, which may be a salt:// URL."},
			"unpurge":      {run: lowpkgUnpurge, doc: "Take packages off the list of those to be purged."},
			"list_pkgs":    {run: lowpkgDebList, doc: "List the installed packages with their versions, all or those that are named."},
			"file_list":    {run: m.fileList, doc: "List the files of packages, of all if no name is given."},
			"file_dict":    {run: m.fileDict, doc: "List the files of packages by package."},
			"info":         {run: lowpkgDebDetails, doc: "Return details of installed packages."},
		},
	}
}

type lowpkgFileArgs struct {
	Path    string
	Saltenv string `def:"'base'"`
}

// lowpkgFile brings a package file here before it is read.
func lowpkgFile(read func(context.Context, *Call, string) (any, error)) func(context.Context, *Call, lowpkgFileArgs) (any, error) {
	return func(ctx context.Context, c *Call, a lowpkgFileArgs) (any, error) {
		if strings.Contains(a.Path, "://") {
			local, err := c.Run(ctx, "cp.cache_file", a.Path, a.Saltenv)
			if err != nil {
				return nil, err
			}
			if !Truth(local) {
				return nil, ExecErrorf("Unable to retrieve %s from saltenv '%s'", a.Path, a.Saltenv)
			}
			return read(ctx, c, Str(local))
		}
		if _, err := os.Stat(a.Path); err != nil {
			return nil, ExecErrorf("%s does not exist on minion", a.Path)
		}
		if !filepath.IsAbs(a.Path) {
			return nil, InvocationErrorf("%s does not exist on minion", a.Path)
		}
		return read(ctx, c, a.Path)
	}
}

func lowpkgDebInfo(ctx context.Context, c *Call, path string) (any, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, "dpkg-deb", "-f", path, "Package", "Version", "Architecture")
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return nil, ExecErrorf("Unable to get info for %s: %s", path, r.stderr)
	}
	ret := &Map{}
	for _, line := range pyLines(r.stdout, false) {
		for key, field := range map[string]string{"name": "Package: ", "version": "Version: ", "arch": "Architecture: "} {
			if v, ok := strings.CutPrefix(line, field); ok {
				ret.Set(key, v)
			}
		}
	}
	if dpkgForeign(c, ret.Str("arch")) {
		ret.Set("name", ret.Str("name")+":"+ret.Str("arch"))
	}
	return ret, nil
}

func lowpkgDebDetails(ctx context.Context, c *Call, a struct {
	Packages []any `arg:"*packages"`
	Kwargs   *Map  `arg:"**kwargs"`
}) (any, error) {
	return dpkgInfo(ctx, c, pkgNamesArgs{Names: a.Packages, Kwargs: a.Kwargs}, true)
}

func lowpkgUnpurge(ctx context.Context, c *Call, a struct {
	Packages []any `arg:"*packages"`
}) (any, error) {
	if len(a.Packages) == 0 {
		return &Map{}, nil
	}
	list := func() (*Map, error) {
		v, err := c.RunKw(ctx, "pkg.list_pkgs", nil, NewMap("purge_desired", true))
		m, _ := v.(*Map)
		return m, err
	}
	before, err := list()
	if err != nil {
		return nil, err
	}
	var in strings.Builder
	for _, name := range namesOf(a.Packages) {
		in.WriteString(name + " install\n")
	}
	if _, err := runSaltTool(ctx, c, toolOptions{stdin: in.String()}, "dpkg", "--set-selections"); err != nil {
		return nil, err
	}
	after, err := list()
	if err != nil {
		return nil, err
	}
	ret := &Map{}
	for k, v := range before.All() {
		if now := after.Value(k); !Equal(now, v) {
			ret.Set(k, NewMap("old", v, "new", Str(now)))
		}
	}
	return ret, nil
}

func lowpkgDebList(ctx context.Context, c *Call, a pkgPackagesArgs) (any, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, append([]string{"dpkg-query", "-f=${db:Status-Status}\t${binary:Package}\t${Version}\n", "-W"}, namesOf(a.Packages)...)...)
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return lowpkgText(c, ExecErrorf("%s", r.stderr))
	}
	ret := &Map{}
	for _, line := range pyLines(r.stdout, false) {
		if f := strings.Split(line, "\t"); len(f) == 3 && f[0] == "installed" {
			ret.Set(f[1], f[2])
		}
	}
	return ret, nil
}
