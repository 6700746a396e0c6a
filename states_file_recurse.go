// State module file: trees of the file server.
package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
)

type fileRecurseArgs struct {
	Name           string
	Source         any
	KeepSource     bool `def:"True"`
	Clean          bool `def:"False"`
	Require        any  `def:"None"`
	User           any  `def:"None"`
	Group          any  `def:"None"`
	DirMode        any  `def:"None"`
	FileMode       any  `def:"None"`
	SymMode        any  `def:"None"`
	Template       any  `def:"None"`
	Context        any  `def:"None"`
	Replace        bool `def:"True"`
	Defaults       any  `def:"None"`
	IncludeEmpty   bool `def:"False"`
	Backup         any  `def:"''"`
	IncludePat     any  `def:"None"`
	ExcludePat     any  `def:"None"`
	Maxdepth       any  `def:"None"`
	KeepSymlinks   bool `def:"False"`
	ForceSymlinks  bool `def:"False"`
	WinOwner       any  `def:"None"`
	WinPerms       any  `def:"None"`
	WinDenyPerms   any  `def:"None"`
	WinInheritance any  `def:"True"`
	Kwargs         *Map `arg:"**kwargs"`
}

// recurseFiles are the files, directories and links of a tree to bring here.
type recurseFiles struct {
	files [][2]string // path here, source
	dirs  []string
	links [][2]string // path below the root, target
	keep  map[string]bool
}

// recurseFilesOf reads the tree of another chunk.
func recurseFilesOf(ctx context.Context, c *Call, low *Map) (*recurseFiles, error) {
	source := ""
	for _, s := range textList(low.Value("source")) {
		source = s
		break
	}
	return recurseTree(ctx, c, Str(low.Value("name")), source, Truth(low.Value("keep_symlinks")), low.Value("include_pat"), low.Value("exclude_pat"),
		low.Value("maxdepth"), Truth(low.Value("include_empty")))
}

// recurseTree lists what file.recurse brings here.
func recurseTree(ctx context.Context, c *Call, name, source string, keepLinks bool, include, exclude, maxdepth any, empty bool) (*recurseFiles, error) {
	src, env, err := saltPath(source, c.StateEnv())
	if err != nil {
		return nil, err
	}
	src = strings.TrimRight(src, "/") + "/"
	f, err := c.files()
	if err != nil {
		return nil, err
	}
	out := &recurseFiles{keep: map[string]bool{}}
	wanted := func(p string) (string, bool) {
		rel := strings.TrimPrefix(p, src)
		if !strings.HasPrefix(p, src) || strings.Contains("/"+rel+"/", "/../") {
			return "", false
		}
		if n, ok := maxdepth.(int64); ok && strings.Count(strings.Trim(rel, "/"), "/") > int(n) {
			return "", false
		}
		return rel, includedName(rel, include, exclude)
	}
	files, err := f.Files(ctx, env, src)
	if err != nil {
		return nil, err
	}
	links := map[string]bool{}
	if keepLinks {
		m, err := f.Symlinks(ctx, env, src)
		if err != nil {
			return nil, err
		}
		for l, target := range m.All() {
			link := Str(l)
			rel, ok := wanted(link)
			if !ok {
				continue
			}
			links[link] = true
			out.links = append(out.links, [2]string{rel, Str(target)})
			out.keep[filepath.Join(name, rel)] = true
		}
	}
	behindLink := func(p string) bool {
		for q := path.Dir(p); q != "." && q != "/"; q = path.Dir(q) {
			if links[q] {
				return true
			}
		}
		return false
	}
	seen := map[string]bool{}
	addDir := func(d string) {
		if !seen[d] {
			seen[d] = true
			out.dirs = append(out.dirs, d)
		}
	}
	for _, fn := range files {
		rel, ok := wanted(fn)
		if !ok || strings.TrimSpace(fn) == "" || behindLink(fn) || links[fn] {
			continue
		}
		dest := filepath.Join(name, rel)
		out.keep[dest] = true
		addDir(filepath.Dir(dest))
		url := "salt://" + fn
		if strings.ContainsAny(fn, "?|") {
			url = "salt://|" + fn
		}
		if env != "" && env != "base" {
			url += "?saltenv=" + env
		}
		out.files = append(out.files, [2]string{dest, url})
	}
	if empty {
		dirs, err := f.Dirs(ctx, env, src)
		if err != nil {
			return nil, err
		}
		for _, d := range dirs {
			if d+"/" == src && includedName(".", include, exclude) {
				addDir(name + "/.") // the directory itself, as the file server lists it
				continue
			}
			rel, ok := wanted(d)
			if !ok || behindLink(d) {
				continue
			}
			dest := filepath.Join(name, rel)
			addDir(dest)
			out.keep[dest] = true
		}
	}
	sort.Strings(out.dirs)
	return out, nil
}

func fileStateRecurse(ctx context.Context, c *Call, a fileRecurseArgs) (any, error) {
	a.Kwargs.Delete("env")
	name := expandUser(a.Name)
	user, group := ownerOf(a.Kwargs, a.User), a.Group
	ret := stateReturn(name, true, "")
	if a.Kwargs.Has("mode") {
		return stateSay(ret, false, "'mode' is not allowed in 'file.recurse'. Please use 'file_mode' and 'dir_mode'.")
	}
	fileMode := a.FileMode
	keepMode := strings.EqualFold(Str(orEmpty(fileMode)), "keep")
	if keepMode {
		fileMode = nil
	}
	dirMode := normalizeMode(a.DirMode)
	fileMode = normalizeMode(fileMode)
	if msg := checkOwner(c, user, group); msg != "" {
		return stateSay(ret, false, "%s", msg)
	}
	if !filepath.IsAbs(name) {
		return stateSay(ret, false, "Specified file %s is not an absolute path", name)
	}
	var sources []any
	for _, s := range textList(a.Source) {
		s = strings.TrimRight(s, "/")
		if !strings.HasPrefix(s, "salt://") {
			return stateSay(ret, false, "Invalid source '%s' (must be a salt:// URI)", s)
		}
		sources = append(sources, s)
	}
	src, _, err := pickSource(ctx, c, NewList(sources...), "", c.StateEnv())
	if err != nil {
		if !isExecError(err) {
			return nil, err
		}
		return stateSay(ret, false, "Recurse failed: %s", errText(err))
	}
	source := Str(src)
	srcPath, env, err := saltPath(source, c.StateEnv())
	if err != nil {
		return nil, err
	}
	f, err := c.files()
	if err != nil {
		return nil, err
	}
	dirs, err := f.Dirs(ctx, env, srcPath)
	if err != nil {
		return nil, err
	}
	if !containsText(dirs, strings.TrimRight(srcPath, "/")) {
		return stateSay(ret, false, "The directory '%s' does not exist on the salt fileserver in saltenv '%s'", srcPath, env)
	}
	if !isDir(name) {
		if pathExists(name) {
			return stateSay(ret, false, "The path %s exists and is not a directory", name)
		}
		if !c.Testing() {
			if err := makedirsPerms(ctx, c, name, user, group, dirMode); err != nil {
				return nil, err
			}
		}
	}
	tree, err := recurseTree(ctx, c, name, source, a.KeepSymlinks, a.IncludePat, a.ExcludePat, a.Maxdepth, a.IncludeEmpty)
	if err != nil {
		return nil, err
	}
	comments := NewMap()
	changes := ret.Map("changes")
	add := func(p string, comment any) {
		l := comments.List(p)
		if l == nil {
			l = NewList()
			comments.Set(p, l)
		}
		if more, ok := comment.(*List); ok {
			l.Append(more.Items...)
		} else {
			l.Append(comment)
		}
	}
	merge := func(p string, one *Map) {
		res := one.Value("result")
		if res == false || ret.Value("result") == true {
			ret.Set("result", res)
		}
		if cm := one.Value("comment"); res != true && Truth(cm) {
			add(p, cm)
		}
		if ch := one.Value("changes"); Truth(ch) {
			changes.Set(p, ch)
		}
	}
	// clear takes away what is of another kind than wanted; stop: in a dry run.
	clear := func(p, dry, done string) (stop bool, err error) {
		if c.Testing() {
			merge(p, stateReturn(name, nil, dry))
			return true, nil
		}
		if err := os.RemoveAll(p); err != nil {
			return true, pyOSError(err)
		}
		merge(p, stateChanged(name, true, "", NewMap("diff", done)))
		return false, nil
	}
	for _, l := range tree.links {
		p := filepath.Join(name, l[0])
		v, err := fileStateSymlink(ctx, c, fileSymlinkArgs{Name: p, Target: l[1], Makedirs: true, Force: a.ForceSymlinks, User: user, Group: group,
			Mode: a.SymMode, Kwargs: NewMap()})
		if err != nil {
			return nil, err
		}
		merge(p, v.(*Map))
	}
	for _, d := range tree.dirs {
		if filepath.Base(d) == ".." {
			continue
		}
		if a.Clean && pathExists(d) && !isDir(d) {
			if stop, err := clear(d, fmt.Sprintf("Replacing %s with a directory", d), "Replaced file with a directory"); err != nil {
				return nil, err
			} else if stop {
				continue
			}
		}
		one, err := directoryState(ctx, c, fileDirectoryArgs{Name: d, User: user, Group: group, DirMode: dirMode, Makedirs: true, AllowSymlink: true, Kwargs: NewMap()})
		if err != nil {
			return nil, err
		}
		merge(d, one)
	}
	pass := NewMap()
	for k, v := range a.Kwargs.All() {
		if k != "mode" && k != "makedirs" {
			pass.Set(k, v)
		}
	}
	for _, file := range tree.files {
		p := file[0]
		if a.Clean && a.Replace && isDir(p) {
			if stop, err := clear(p, fmt.Sprintf("Replacing directory %s with a file", p), "Replaced directory with a new file"); err != nil {
				return nil, err
			} else if stop {
				continue
			}
		}
		m := newManagedArgs(p)
		m.Source, m.KeepSource, m.User, m.Group, m.Mode = file[1], a.KeepSource, user, group, fileMode
		if keepMode {
			m.Mode = "keep"
		}
		m.Template, m.Makedirs, m.Replace, m.Context, m.Defaults, m.Backup = a.Template, true, a.Replace, a.Context, a.Defaults, a.Backup
		m.Kwargs = pass
		for key, set := range map[string]*bool{"show_changes": &m.ShowChanges, "skip_verify": &m.SkipVerify, "follow_symlinks": &m.FollowSymlinks} {
			if v, ok := pass.Get(key); ok {
				*set = Truth(v)
			}
		}
		one, err := managedState(ctx, c, m)
		if err != nil {
			return nil, err
		}
		merge(p, one)
	}
	if a.Clean {
		for p := range keptFiles(ctx, c, name, a.Require) {
			tree.keep[p] = true
		}
		if removed := cleanDir(c, name, tree.keep, a.ExcludePat); len(removed) > 0 {
			if c.Testing() {
				if Truth(ret.Value("result")) {
					ret.Set("result", nil)
				}
				add("removed", Strings(removed))
			} else {
				changes.Set("removed", Strings(removed))
			}
		}
	}
	var parts []string
	for p, l := range comments.All() {
		parts = append(parts, fmt.Sprintf("\n#### %s ####\n%s", Str(p), strings.Join(texts(l.(*List)), "\n")))
	}
	comment := strings.TrimSpace(strings.Join(parts, "\n"))
	if comment == "" {
		comment = "Recursively updated " + name
	}
	if changes.Len() == 0 && Truth(ret.Value("result")) {
		comment = fmt.Sprintf("The directory %s is in the correct state", name)
	}
	ret.Set("comment", comment)
	return ret, nil
}
