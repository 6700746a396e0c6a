// Module cp: files from the master's file server; modules_cp_push.go has those
// that are sent to it.
package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
)

func cpModule() Module {
	return Module{
		Doc: "Copy files from the master's file server to the minion, and to the master.",
		Funcs: Funcs{
			"cache_dest":           {run: cpCacheDest, doc: "Return the path that a file would have in the cache of this minion."},
			"cache_dir":            {run: cpCacheDir, doc: "Fetch a directory of the file server into the cache and return the paths there."},
			"cache_file":           {run: cpCacheFile, doc: "Fetch a file into the cache and return its path there, False if there is no such file. The source may be salt://, http://, https:// or a local path."},
			"cache_files":          {run: cpCacheFiles, doc: "Fetch several files into the cache; a list, or a text with commas."},
			"cache_local_file":     {run: cpCacheLocalFile, doc: "Copy a file of this box into the cache."},
			"cache_master":         {run: cpCacheMaster, doc: "Fetch every file of an environment into the cache."},
			"envs":                 {run: cpEnvs, doc: "List the environments of the file server."},
			"get_dir":              {run: cpGetDir, doc: "Fetch a directory of the file server to a directory of this box."},
			"get_file":             {run: cpGetFile, doc: "Fetch one file of the file server to a path of this box. With makedirs=True missing directories are made; template=jinja renders source and dest; gzip=1..9 compresses on the way."},
			"get_file_str":         {run: cpGetFileStr, doc: "Return the content of a file of the file server, False if there is none."},
			"get_template":         {run: cpGetTemplate, doc: "Fetch a file, render it, and write the result to dest."},
			"get_url":              {run: cpGetURL, doc: "Fetch a file by URL (salt, http, https, file). Without dest it goes to the cache; with dest=None its content is returned."},
			"hash_file":            {run: cpHashFile, doc: "Return hash and hash type of a file of the file server or of a local path."},
			"is_cached":            {run: cpIsCached, doc: "Return the path of a file in the cache, an empty text if it is not there."},
			"list_master":          {run: cpListMaster, doc: "List the files of the file server."},
			"list_master_dirs":     {run: cpListMasterDirs, doc: "List the directories of the file server."},
			"list_master_symlinks": {run: cpListMasterSymlinks, doc: "List the symbolic links of the file server."},
			"list_minion":          {run: cpListMinion, doc: "List the files in the cache of this minion."},
			"list_states":          {run: cpListStates, doc: "List the state files of an environment by the names that state.sls takes."},
			"push":                 {run: cpPush, doc: "Send a file to the master, which keeps it below the minion's cache. The master must have file_recv: True."},
			"push_dir":             {run: cpPushDir, doc: "Send a directory to the master."},
			"recv":                 {run: cpRecv, doc: "Write files that salt-cp sends."},
			"recv_chunked":         {run: cpRecvChunked, doc: "Write one piece of a file that salt-cp sends."},
			"stat_file":            {run: cpStatFile, doc: "Return the mode of a file of the file server, in octal."},
		},
	}
}

// files is the file client of a call, or why there is none.
func (c *Call) files() (FileClient, error) {
	if c.Files == nil {
		return nil, ExecErrorf("there is no file server to ask: set file_roots with file_client: local, or a master")
	}
	return c.Files, nil
}

// saltenvOf is the environment of a call: the argument, the minion's, or base.
func (c *Call) saltenvOf(arg any) string {
	if s, ok := arg.(string); ok && s != "" {
		return s
	}
	if s := c.Opts.Str("saltenv"); s != "" {
		return s
	}
	return "base"
}

type cpListArgs struct {
	Saltenv any    `def:"None"`
	Prefix  string `def:"''"`
}

func cpListMaster(ctx context.Context, c *Call, a cpListArgs) (any, error) {
	f, err := c.files()
	if err != nil {
		return nil, err
	}
	return f.Files(ctx, c.saltenvOf(a.Saltenv), a.Prefix)
}

func cpListMasterDirs(ctx context.Context, c *Call, a cpListArgs) (any, error) {
	f, err := c.files()
	if err != nil {
		return nil, err
	}
	return f.Dirs(ctx, c.saltenvOf(a.Saltenv), a.Prefix)
}

func cpListMasterSymlinks(ctx context.Context, c *Call, a cpListArgs) (any, error) {
	f, err := c.files()
	if err != nil {
		return nil, err
	}
	return f.Symlinks(ctx, c.saltenvOf(a.Saltenv), a.Prefix)
}

type cpEnvArgs struct {
	Saltenv any `def:"None"`
}

func cpListStates(ctx context.Context, c *Call, a cpEnvArgs) (any, error) {
	f, err := c.files()
	if err != nil {
		return nil, err
	}
	names, err := f.Files(ctx, c.saltenvOf(a.Saltenv), "")
	if err != nil {
		return nil, err
	}
	states := map[string]bool{}
	for _, n := range names {
		n, ok := strings.CutSuffix(n, ".sls")
		if !ok {
			continue
		}
		if n = strings.TrimSuffix(n, "/init"); n != "" {
			states[strings.ReplaceAll(n, "/", ".")] = true
		}
	}
	out := make([]string, 0, len(states))
	for n := range states {
		out = append(out, n)
	}
	sort.Strings(out)
	return out, nil
}

func cpListMinion(_ context.Context, c *Call, a cpEnvArgs) (any, error) {
	root := filepath.Join(c.Opts.Path("cachedir"), "files", c.saltenvOf(a.Saltenv))
	out := []string{}
	err := filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, p)
		}
		return nil
	})
	return out, err
}

func cpEnvs(ctx context.Context, c *Call, _ noArgs) (any, error) {
	f, err := c.files()
	if err != nil {
		return nil, err
	}
	return f.Envs(ctx)
}

type cpPathArgs struct {
	Path    string
	Saltenv any `def:"None"`
}

func cpHashFile(ctx context.Context, c *Call, a cpPathArgs) (any, error) {
	f, err := c.files()
	if err != nil {
		return nil, err
	}
	m, err := f.Hash(ctx, a.Path, c.saltenvOf(a.Saltenv))
	if err != nil || m.Len() > 0 {
		return m, err
	}
	return "", nil
}

type cpStatArgs struct {
	Path    string
	Saltenv any  `def:"None"`
	Octal   bool `def:"True"`
}

// fileStater is a file client that also knows the stat of a file.
type fileStater interface {
	Stat(ctx context.Context, path, saltenv string) ([]any, error)
}

// Stat returns the ten numbers of a file's stat, nil if there is no such file.
func (f *fileClient) Stat(ctx context.Context, p, saltenv string) ([]any, error) {
	if filepath.IsAbs(p) {
		info, err := os.Stat(p)
		if err != nil {
			return nil, nil
		}
		st := info.Sys().(*syscall.Stat_t)
		return []any{int64(st.Mode)}, nil
	}
	rel, env, err := saltPath(p, saltenv)
	if err != nil {
		return nil, err
	}
	v, err := f.ask(ctx, NewMap("cmd", "_file_hash_and_stat", "path", rel, "saltenv", env))
	if err != nil {
		return nil, err
	}
	if pair := toItems(v); len(pair) == 2 {
		return toItems(pair[1]), nil
	}
	return nil, nil
}

func cpStatFile(ctx context.Context, c *Call, a cpStatArgs) (any, error) {
	f, err := c.files()
	if err != nil {
		return nil, err
	}
	s, ok := f.(fileStater)
	if !ok {
		return nil, ExecErrorf("this file server does not tell the mode of files")
	}
	st, err := s.Stat(ctx, a.Path, c.saltenvOf(a.Saltenv))
	if err != nil || len(st) == 0 {
		return "", err
	}
	mode, _ := toInt(st[0])
	if a.Octal {
		return fmt.Sprintf("%04o", mode&0o7777), nil
	}
	return mode, nil
}

type cpFileArgs struct {
	Path       string
	Saltenv    any  `def:"None"`
	SourceHash any  `def:"None"`
	VerifySSL  bool `arg:"verify_ssl" def:"True"`
	UseETag    bool `arg:"use_etag" def:"False"`
}

func cpCacheFile(ctx context.Context, c *Call, a cpFileArgs) (any, error) {
	local, err := cacheSource(ctx, c, a.Path, c.saltenvOf(a.Saltenv), a.SourceHash, a.VerifySSL)
	if err != nil || local != "" {
		return local, err
	}
	if path := strings.TrimPrefix(a.Path, "file://"); filepath.IsAbs(path) {
		return path, nil // a file of this box is where it is, or is to be
	}
	c.Log.Error(fmt.Sprintf("Unable to cache file '%s' from saltenv '%s'.", a.Path, c.saltenvOf(a.Saltenv)))
	return false, nil
}

type cpFilesArgs struct {
	Paths   any
	Saltenv any `def:"None"`
}

func cpCacheFiles(ctx context.Context, c *Call, a cpFilesArgs) (any, error) {
	out := NewList()
	for _, p := range toStrings(a.Paths) {
		v, err := cpCacheFile(ctx, c, cpFileArgs{Path: p, Saltenv: a.Saltenv, VerifySSL: true})
		if err != nil {
			return nil, err
		}
		out.Append(v)
	}
	return out, nil
}

func cpCacheDest(_ context.Context, c *Call, a struct {
	URL     string `arg:"url"`
	Saltenv any    `def:"None"`
}) (any, error) {
	if filepath.IsAbs(a.URL) {
		return a.URL, nil
	}
	u, err := url.Parse(a.URL)
	if err == nil && u.Scheme != "" && u.Scheme != "salt" {
		if u.Scheme == "file" {
			return u.Path, nil
		}
		return externalPath(c, u, c.saltenvOf(a.Saltenv))
	}
	rel, env, err := saltPath(a.URL, c.saltenvOf(a.Saltenv))
	if err != nil {
		return nil, err
	}
	return SafeJoin(filepath.Join(c.Opts.Path("cachedir"), "files", env), rel)
}

func cpCacheLocalFile(_ context.Context, c *Call, a struct{ Path string }) (any, error) {
	src, err := os.Open(a.Path)
	if err != nil {
		return "", nil
	}
	defer src.Close()
	dest, err := SafeJoin(filepath.Join(c.Opts.Path("cachedir"), "localfiles"), strings.TrimLeft(a.Path, "/"))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dest), 0o755); err != nil {
		return nil, err
	}
	return dest, writeStream(dest, src)
}

func cpIsCached(ctx context.Context, c *Call, a cpPathArgs) (any, error) {
	v, err := cpCacheDest(ctx, c, struct {
		URL     string `arg:"url"`
		Saltenv any    `def:"None"`
	}{a.Path, a.Saltenv})
	if err != nil {
		return "", nil
	}
	for _, p := range []string{Str(v), filepath.Join(c.Opts.Path("cachedir"), "localfiles", strings.TrimPrefix(a.Path, "/"))} {
		if p == a.Path { // a file of this box is none of the cache
			continue
		}
		if info, err := os.Stat(p); err == nil && !info.IsDir() {
			return p, nil
		}
	}
	return "", nil
}

type cpDirArgs struct {
	Path         string
	Saltenv      any  `def:"None"`
	IncludeEmpty bool `def:"False"`
	IncludePat   any  `def:"None"`
	ExcludePat   any  `def:"None"`
}

func cpCacheDir(ctx context.Context, c *Call, a cpDirArgs) (any, error) {
	f, err := c.files()
	if err != nil {
		return nil, err
	}
	rel, env, err := saltPath(a.Path, c.saltenvOf(a.Saltenv))
	if err != nil {
		return nil, err
	}
	rel = strings.TrimRight(rel, "/") + "/"
	if rel == "/" {
		rel = ""
	}
	names, err := f.Files(ctx, env, strings.TrimRight(rel, "/"))
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, n := range names {
		if !strings.HasPrefix(n, rel) || !wantedName(n, a.IncludePat, a.ExcludePat) {
			continue
		}
		p, err := f.Cache(ctx, "salt://|"+n, env)
		if err != nil {
			return nil, err
		}
		if p != "" {
			out = append(out, p)
		}
	}
	if a.IncludeEmpty {
		dirs, err := f.EmptyDirs(ctx, env, strings.TrimRight(rel, "/"))
		if err != nil {
			return nil, err
		}
		for _, d := range dirs {
			dest, err := SafeJoin(filepath.Join(c.Opts.Path("cachedir"), "files", env), d)
			if err != nil || !strings.HasPrefix(d+"/", rel) {
				continue
			}
			if err := os.MkdirAll(dest, 0o755); err != nil {
				return nil, err
			}
			out = append(out, dest)
		}
	}
	return out, nil
}

// wantedName applies include_pat and exclude_pat: globs, or E@regex.
func wantedName(name string, include, exclude any) bool {
	hit := func(pat string) bool {
		if re, ok := strings.CutPrefix(pat, "E@"); ok {
			p, err := CompilePython(re, 0)
			if err != nil {
				return false
			}
			m, err := p.Search(name)
			return err == nil && m != nil
		}
		ok, err := path.Match(pat, path.Base(name))
		return err == nil && ok
	}
	if s, ok := include.(string); ok && s != "" && !hit(s) {
		return false
	}
	if s, ok := exclude.(string); ok && s != "" && hit(s) {
		return false
	}
	return true
}

func cpCacheMaster(ctx context.Context, c *Call, a cpEnvArgs) (any, error) {
	f, err := c.files()
	if err != nil {
		return nil, err
	}
	env := c.saltenvOf(a.Saltenv)
	names, err := f.Files(ctx, env, "")
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, n := range names {
		p, err := f.Cache(ctx, "salt://|"+n, env)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

type cpGetFileArgs struct {
	Path     string
	Dest     string
	Saltenv  any  `def:"None"`
	Makedirs bool `def:"False"`
	Template any  `def:"None"`
	Gzip     any  `def:"None"`
}

func cpGetFile(ctx context.Context, c *Call, a cpGetFileArgs) (any, error) {
	env := c.saltenvOf(a.Saltenv)
	src, err := c.renderPath(ctx, a.Path, a.Template, env)
	if err != nil {
		return nil, err
	}
	dest, err := c.renderPath(ctx, a.Dest, a.Template, env)
	if err != nil {
		return nil, err
	}
	level, _ := toInt(a.Gzip)
	got, err := c.fetchTo(ctx, src, env, dest, a.Makedirs, int(level))
	if err != nil {
		return nil, err
	}
	if got == "" {
		if _, err := os.Stat(filepath.Dir(dest)); err != nil && !a.Makedirs {
			return false, nil
		}
		return "", nil
	}
	return got, nil
}

// fetchTo brings a file to dest, "" if there is none or its directory is
// missing and may not be made. A dest that is a directory takes the name.
func (c *Call) fetchTo(ctx context.Context, src, env, dest string, makedirs bool, level int) (string, error) {
	if strings.HasSuffix(dest, "/") || isDir(dest) {
		dest = filepath.Join(dest, path.Base(src))
	}
	if !filepath.IsAbs(dest) {
		return "", ExecErrorf("dest must be an absolute path, not %s", dest)
	}
	if !isDir(filepath.Dir(dest)) {
		if !makedirs {
			return "", nil
		}
		if err := os.MkdirAll(filepath.Dir(dest), 0o755); err != nil {
			return "", err
		}
	}
	f, err := c.files()
	if err != nil {
		return "", err
	}
	rel, env, err := saltPath(src, env)
	if err != nil {
		return "", err
	}
	if fc, ok := f.(*fileClient); ok && !fc.local {
		ok, err := fc.Fetch(ctx, rel, env, dest, level)
		if err != nil || !ok {
			return "", err
		}
		return dest, nil
	}
	p, err := f.Cache(ctx, "salt://|"+rel, env)
	if err != nil || p == "" {
		return "", err
	}
	in, err := os.Open(p)
	if err != nil {
		return "", err
	}
	defer in.Close()
	return dest, writeStream(dest, in)
}

func isDir(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.IsDir()
}

type cpGetDirArgs struct {
	Path     string
	Dest     string
	Saltenv  any `def:"None"`
	Template any `def:"None"`
	Gzip     any `def:"None"`
}

func cpGetDir(ctx context.Context, c *Call, a cpGetDirArgs) (any, error) {
	f, err := c.files()
	if err != nil {
		return nil, err
	}
	src, err := c.renderPath(ctx, a.Path, a.Template, c.saltenvOf(a.Saltenv))
	if err != nil {
		return nil, err
	}
	dest, err := c.renderPath(ctx, a.Dest, a.Template, c.saltenvOf(a.Saltenv))
	if err != nil {
		return nil, err
	}
	rel, env, err := saltPath(src, c.saltenvOf(a.Saltenv))
	if err != nil {
		return nil, err
	}
	rel = strings.Trim(rel, "/")
	names, err := f.Files(ctx, env, rel)
	if err != nil {
		return nil, err
	}
	level, _ := toInt(a.Gzip)
	parent := path.Dir(rel) // the directory itself is part of what is copied
	place := func(n string) (string, error) {
		if parent != "." {
			n = strings.TrimPrefix(n, parent+"/")
		}
		return SafeJoin(dest, n)
	}
	out := []string{}
	for _, n := range names {
		if rel != "" && !strings.HasPrefix(n, rel+"/") {
			continue
		}
		to, err := place(n)
		if err != nil {
			return nil, err
		}
		got, err := c.fetchTo(ctx, "salt://|"+n, env, to, true, int(level))
		if err != nil {
			return nil, err
		}
		if got != "" {
			out = append(out, got)
		}
	}
	dirs, err := f.EmptyDirs(ctx, env, rel)
	if err != nil {
		return nil, err
	}
	for _, d := range dirs {
		if rel != "" && !strings.HasPrefix(d+"/", rel+"/") {
			continue
		}
		to, err := place(d)
		if err != nil {
			return nil, err
		}
		if err := os.MkdirAll(to, 0o755); err != nil {
			return nil, err
		}
		out = append(out, to)
	}
	return out, nil
}

func cpGetFileStr(ctx context.Context, c *Call, a cpPathArgs) (any, error) {
	local, err := cacheSource(ctx, c, a.Path, c.saltenvOf(a.Saltenv), nil, true)
	if err != nil {
		return nil, err
	}
	if local == "" {
		return false, nil
	}
	data, err := os.ReadFile(local)
	if err != nil {
		return nil, err
	}
	return string(data), nil
}

type cpGetURLArgs struct {
	Path       string
	Dest       any  `def:"''"`
	Saltenv    any  `def:"None"`
	Makedirs   bool `def:"False"`
	SourceHash any  `def:"None"`
	VerifySSL  bool `arg:"verify_ssl" def:"True"`
	UseETag    bool `arg:"use_etag" def:"False"`
}

func cpGetURL(ctx context.Context, c *Call, a cpGetURLArgs) (any, error) {
	env := c.saltenvOf(a.Saltenv)
	dest := Str(a.Dest)
	if a.Dest != nil && dest != "" && !strings.HasPrefix(a.Path, "file://") && !filepath.IsAbs(a.Path) {
		if strings.HasPrefix(a.Path, "salt://") {
			got, err := c.fetchTo(ctx, a.Path, env, dest, a.Makedirs, 0)
			if err != nil || got != "" {
				return got, err
			}
			return false, nil
		}
		u, err := url.Parse(a.Path)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" {
			return nil, ExecErrorf("%s is no URL of the kind salt, http, https or file", a.Path)
		}
		if strings.HasSuffix(dest, "/") || isDir(dest) {
			dest = filepath.Join(dest, path.Base(u.Path))
		}
		if !isDir(filepath.Dir(dest)) && !a.Makedirs {
			return "", nil
		}
		return dest, httpFetch(ctx, u, dest, a.VerifySSL)
	}
	local, err := cacheSource(ctx, c, a.Path, env, a.SourceHash, a.VerifySSL)
	if err != nil {
		return nil, err
	}
	if local == "" {
		return false, nil
	}
	if a.Dest == nil {
		data, err := os.ReadFile(local)
		return string(data), err
	}
	return local, nil
}

type cpGetTemplateArgs struct {
	Path     string
	Dest     string
	Template string `def:"jinja"`
	Saltenv  any    `def:"None"`
	Makedirs bool   `def:"False"`
	Kwargs   *Map   `arg:"**kwargs"`
}

func cpGetTemplate(ctx context.Context, c *Call, a cpGetTemplateArgs) (any, error) {
	env := c.saltenvOf(a.Saltenv)
	local, err := cacheSource(ctx, c, a.Path, env, nil, true)
	if err != nil || local == "" {
		return "", err
	}
	src, err := os.ReadFile(local)
	if err != nil {
		return nil, err
	}
	vars := a.Kwargs.Clone()
	if given, ok := vars.Get("context"); ok {
		vars.Delete("context")
		if m, ok := given.(*Map); ok {
			vars.Merge(m)
		}
	}
	text, err := c.renderTemplate(ctx, string(src), a.Template, local, env, vars)
	if err != nil {
		return nil, err
	}
	if !isDir(filepath.Dir(a.Dest)) {
		if !a.Makedirs {
			return "", nil
		}
		if err := os.MkdirAll(filepath.Dir(a.Dest), 0o755); err != nil {
			return nil, err
		}
	}
	return a.Dest, writeStream(a.Dest, strings.NewReader(text))
}

// renderPath renders a path that is a template, if template is set.
func (c *Call) renderPath(ctx context.Context, p string, template any, saltenv string) (string, error) {
	engine, _ := template.(string)
	if engine == "" {
		return p, nil
	}
	text, err := c.renderTemplate(ctx, p, engine, "", saltenv, nil)
	return strings.TrimSpace(text), err
}

// renderTemplate renders a text with the engine of that name.
func (c *Call) renderTemplate(ctx context.Context, src, engine, name, saltenv string, vars *Map) (string, error) {
	if c.Templates == nil {
		return "", ExecErrorf("template %s: there is no template engine in this context", engine)
	}
	return c.Templates.RenderTemplate(ctx, c, src, engine, name, saltenv, vars)
}
