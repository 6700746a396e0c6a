// Runner fileserver: what the master's file server serves.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func fileserverRunner() Module {
	return Module{
		Doc: "The master's file server.",
		Funcs: Funcs{
			"envs":                  {run: runFileEnvs, doc: "List the environments.\n\nsources: say by backend"},
			"file_list":             {run: runFileList, doc: "List the files of an environment."},
			"dir_list":              {run: runDirList, doc: "List the directories of an environment."},
			"empty_dir_list":        {run: runEmptyDirs, doc: "List the directories of an environment that hold no file."},
			"symlink_list":          {run: runSymlinks, doc: "List the symbolic links of an environment with what they point to."},
			"update":                {run: runFileUpdate, doc: "Bring the backends up to date. Local directories always are."},
			"clear_cache":           {run: runFileClear, doc: "Remove what backends keep of remote sources."},
			"clear_file_list_cache": {run: runFileListClear, doc: "Forget kept file lists. Returns, by backend, the environments whose lists were kept."},
			"lock":                  {run: runFileLock, doc: "Lock remote sources against updates."},
			"clear_lock":            {run: runFileUnlock, doc: "Remove locks of remote sources."},
		},
	}
}

type runFileEnvsArgs struct {
	Backend any  `def:"None"`
	Sources bool `def:"False"`
}

// fileBackends says whether the roots backend is meant, and complains about
// others, which this file server does not have.
func fileBackends(c *Call, wanted any) bool {
	names := toStrings(wanted)
	if len(names) == 0 {
		return true
	}
	for _, n := range names {
		n = strings.TrimPrefix(n, "-")
		if n != "roots" {
			c.Log.Error(fmt.Sprintf("Failed to load function %s.envs because its module (%s) is not in the whitelist: ['roots']", n, n))
		}
	}
	return slices.Contains(names, "roots")
}

func runFileEnvs(_ context.Context, c *Call, a runFileEnvsArgs) (any, error) {
	envs := []string{}
	if fileBackends(c, a.Backend) {
		envs = append(envs, c.Runner.Files.Envs()...)
		slices.Sort(envs)
	}
	if a.Sources {
		return NewMap("roots", Strings(envs)), nil
	}
	return Strings(envs), nil
}

type runFileListArgs struct {
	Saltenv string `def:"'base'"`
	Backend any    `def:"None"`
}

func fileNames(c *Call, a runFileListArgs, list func(string) ([]string, error)) (any, error) {
	if !fileBackends(c, a.Backend) || ValidEnv(a.Saltenv) != nil {
		return NewList(), nil
	}
	names, err := list(a.Saltenv)
	if err != nil {
		return nil, ExecErrorf("list %s: %v", a.Saltenv, err)
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return Strings(names), nil
}

func runFileList(_ context.Context, c *Call, a runFileListArgs) (any, error) {
	return fileNames(c, a, c.Runner.Files.Files)
}

func runDirList(_ context.Context, c *Call, a runFileListArgs) (any, error) {
	return fileNames(c, a, c.Runner.Files.Dirs)
}

func runEmptyDirs(_ context.Context, c *Call, a runFileListArgs) (any, error) {
	return fileNames(c, a, c.Runner.Files.EmptyDirs)
}

func runSymlinks(_ context.Context, c *Call, a runFileListArgs) (any, error) {
	if !fileBackends(c, a.Backend) || ValidEnv(a.Saltenv) != nil {
		return NewMap(), nil
	}
	links, err := c.Runner.Files.Links(a.Saltenv)
	if err != nil {
		return nil, ExecErrorf("list %s: %v", a.Saltenv, err)
	}
	return links, nil
}

type runFileBackendArgs struct {
	Backend any  `def:"None"`
	Kwargs  *Map `arg:"**kwargs"`
}

func runFileUpdate(_ context.Context, c *Call, a runFileBackendArgs) (any, error) {
	fileBackends(c, a.Backend)
	return true, nil
}

type runFileClearArgs struct {
	Backend any `def:"None"`
}

func runFileClear(_ context.Context, c *Call, a runFileClearArgs) (any, error) {
	fileBackends(c, a.Backend)
	return "No cache was cleared", nil
}

type runFileLockArgs struct {
	Backend any `def:"None"`
	Remote  any `def:"None"`
}

func runFileLock(_ context.Context, c *Call, a runFileLockArgs) (any, error) {
	fileBackends(c, a.Backend)
	return "No locks were set", nil
}

func runFileUnlock(_ context.Context, c *Call, a runFileLockArgs) (any, error) {
	fileBackends(c, a.Backend)
	return "No locks were removed", nil
}

type runFileListClearArgs struct {
	Saltenv any `def:"None"`
	Backend any `def:"None"`
}

// runFileListClear removes the lists that Salt's own master kept; ours keeps
// them in memory, for as long as they are right.
func runFileListClear(_ context.Context, c *Call, a runFileListClearArgs) (any, error) {
	if !fileBackends(c, a.Backend) {
		return NewMap(), nil
	}
	dir := filepath.Join(c.Opts.Path("cachedir"), "file_lists", "roots")
	wanted := toStrings(a.Saltenv)
	cleared := []string{}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		env := strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".p"), ".w")
		if len(wanted) > 0 && !slices.Contains(wanted, env) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err == nil && strings.HasSuffix(e.Name(), ".p") {
			cleared = append(cleared, env)
		}
	}
	if len(cleared) == 0 {
		if len(wanted) == 0 {
			wanted = slices.Clone(c.Runner.Files.Envs())
		}
		cleared = wanted
	}
	slices.Sort(cleared)
	return NewMap("roots", Strings(cleared)), nil
}
