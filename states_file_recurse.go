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

// recurseWork is a file.recurse on its way.
type recurseWork struct {
	a                 fileRecurseArgs
	name              string
	ret               *Map
	user, group       any
	dirMode, fileMode any
	keepMode          bool // files have the modes of their sources
	sources           []any
	source            string // the one that is there
	tree              *recurseFiles
	comments          *Map // by path
}

func fileStateRecurse(ctx context.Context, c *Call, a fileRecurseArgs) (any, error) {
	a.Kwargs.Delete("env")
	name := expandUser(a.Name)
	w := &recurseWork{a: a, name: name, ret: stateReturn(name, true, ""), user: ownerOf(a.Kwargs, a.User), group: a.Group,
		dirMode: normalizeMode(a.DirMode), keepMode: strings.EqualFold(Str(orEmpty(a.FileMode)), "keep"), comments: NewMap()}
	if !w.keepMode {
		w.fileMode = normalizeMode(a.FileMode)
	}
	return runSteps(ctx, c, w.checkArgs, w.chooseSource, w.makeTop, w.readTree, w.putLinks, w.putDirs, w.putFiles, w.clean, w.comment)
}

func (w *recurseWork) checkArgs(_ context.Context, c *Call) (any, error) {
	if w.a.Kwargs.Has("mode") {
		return stateSay(w.ret, false, "'mode' is not allowed in 'file.recurse'. Please use 'file_mode' and 'dir_mode'.")
	}
	if msg := checkOwner(c, w.user, w.group); msg != "" {
		return stateSay(w.ret, false, "%s", msg)
	}
	if !filepath.IsAbs(w.name) {
		return stateSay(w.ret, false, "Specified file %s is not an absolute path", w.name)
	}
	for _, s := range textList(w.a.Source) {
		s = strings.TrimRight(s, "/")
		if !strings.HasPrefix(s, "salt://") {
			return stateSay(w.ret, false, "Invalid source '%s' (must be a salt:// URI)", s)
		}
		w.sources = append(w.sources, s)
	}
	return nil, nil
}

// chooseSource takes the first source that is on the file server.
func (w *recurseWork) chooseSource(ctx context.Context, c *Call) (any, error) {
	src, _, err := pickSource(ctx, c, NewList(w.sources...), "", c.StateEnv())
	if err != nil {
		if !isExecError(err) {
			return nil, err
		}
		return stateSay(w.ret, false, "Recurse failed: %s", errText(err))
	}
	w.source = Str(src)
	srcPath, env, err := saltPath(w.source, c.StateEnv())
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
		return stateSay(w.ret, false, "The directory '%s' does not exist on the salt fileserver in saltenv '%s'", srcPath, env)
	}
	return nil, nil
}

func (w *recurseWork) makeTop(ctx context.Context, c *Call) (any, error) {
	switch {
	case isDir(w.name):
		return nil, nil
	case pathExists(w.name):
		return stateSay(w.ret, false, "The path %s exists and is not a directory", w.name)
	case c.Testing():
		return nil, nil
	}
	return nil, makedirsPerms(ctx, c, w.name, w.user, w.group, w.dirMode)
}

func (w *recurseWork) readTree(ctx context.Context, c *Call) (any, error) {
	var err error
	w.tree, err = recurseTree(ctx, c, w.name, w.source, w.a.KeepSymlinks, w.a.IncludePat, w.a.ExcludePat, w.a.Maxdepth, w.a.IncludeEmpty)
	return nil, err
}

// say adds a comment, or a list of them, on a path.
func (w *recurseWork) say(path string, comment any) {
	l := w.comments.List(path)
	if l == nil {
		l = NewList()
		w.comments.Set(path, l)
	}
	if more, ok := comment.(*List); ok {
		l.Append(more.Items...)
	} else {
		l.Append(comment)
	}
}

// merge adds the return for one path.
func (w *recurseWork) merge(path string, one *Map) {
	result := one.Value("result")
	if result == false || w.ret.Value("result") == true {
		w.ret.Set("result", result)
	}
	if comment := one.Value("comment"); result != true && Truth(comment) {
		w.say(path, comment)
	}
	if changes := one.Value("changes"); Truth(changes) {
		w.ret.Map("changes").Set(path, changes)
	}
}

// clear takes away what is of another kind than wanted; stop: in a dry run.
func (w *recurseWork) clear(c *Call, path, dry, done string) (stop bool, err error) {
	if c.Testing() {
		w.merge(path, stateReturn(w.name, nil, dry))
		return true, nil
	}
	if err := os.RemoveAll(path); err != nil {
		return true, pyOSError(err)
	}
	w.merge(path, stateChanged(w.name, true, "", NewMap("diff", done)))
	return false, nil
}

func (w *recurseWork) putLinks(ctx context.Context, c *Call) (any, error) {
	for _, l := range w.tree.links {
		p := filepath.Join(w.name, l[0])
		v, err := fileStateSymlink(ctx, c, fileSymlinkArgs{Name: p, Target: l[1], Makedirs: true, Force: w.a.ForceSymlinks, User: w.user,
			Group: w.group, Mode: w.a.SymMode, Kwargs: NewMap()})
		if err != nil {
			return nil, err
		}
		w.merge(p, v.(*Map))
	}
	return nil, nil
}

func (w *recurseWork) putDirs(ctx context.Context, c *Call) (any, error) {
	for _, d := range w.tree.dirs {
		if filepath.Base(d) == ".." {
			continue
		}
		if w.a.Clean && pathExists(d) && !isDir(d) {
			if stop, err := w.clear(c, d, fmt.Sprintf("Replacing %s with a directory", d), "Replaced file with a directory"); err != nil {
				return nil, err
			} else if stop {
				continue
			}
		}
		one, err := directoryState(ctx, c, fileDirectoryArgs{Name: d, User: w.user, Group: w.group, DirMode: w.dirMode, Makedirs: true,
			AllowSymlink: true, Kwargs: NewMap()})
		if err != nil {
			return nil, err
		}
		w.merge(d, one)
	}
	return nil, nil
}

func (w *recurseWork) putFiles(ctx context.Context, c *Call) (any, error) {
	pass := w.a.Kwargs.Clone()
	pass.Delete("mode")
	pass.Delete("makedirs")
	for _, file := range w.tree.files {
		p := file[0]
		if w.a.Clean && w.a.Replace && isDir(p) {
			if stop, err := w.clear(c, p, fmt.Sprintf("Replacing directory %s with a file", p), "Replaced directory with a new file"); err != nil {
				return nil, err
			} else if stop {
				continue
			}
		}
		one, err := managedState(ctx, c, w.managed(p, file[1], pass))
		if err != nil {
			return nil, err
		}
		w.merge(p, one)
	}
	return nil, nil
}

// managed are the arguments of the file.managed for one file.
func (w *recurseWork) managed(path, source string, kwargs *Map) fileManagedArgs {
	m := newManagedArgs(path)
	m.Source, m.KeepSource, m.User, m.Group, m.Mode = source, w.a.KeepSource, w.user, w.group, w.fileMode
	if w.keepMode {
		m.Mode = "keep"
	}
	m.Template, m.Makedirs, m.Replace, m.Context, m.Defaults, m.Backup = w.a.Template, true, w.a.Replace, w.a.Context, w.a.Defaults, w.a.Backup
	m.Kwargs = kwargs
	for key, set := range map[string]*bool{"show_changes": &m.ShowChanges, "skip_verify": &m.SkipVerify, "follow_symlinks": &m.FollowSymlinks} {
		if v, ok := kwargs.Get(key); ok {
			*set = Truth(v)
		}
	}
	return m
}

// clean takes away what is there beside the tree.
func (w *recurseWork) clean(ctx context.Context, c *Call) (any, error) {
	if !w.a.Clean {
		return nil, nil
	}
	for p := range keptFiles(ctx, c, w.name, w.a.Require) {
		w.tree.keep[p] = true
	}
	removed := cleanDir(c, w.name, w.tree.keep, w.a.ExcludePat)
	switch {
	case len(removed) == 0:
	case !c.Testing():
		w.ret.Map("changes").Set("removed", Strings(removed))
	default:
		if Truth(w.ret.Value("result")) {
			w.ret.Set("result", nil)
		}
		w.say("removed", Strings(removed))
	}
	return nil, nil
}

// comment ends the state with what was said on each path.
func (w *recurseWork) comment(context.Context, *Call) (any, error) {
	var parts []string
	for p, l := range w.comments.All() {
		parts = append(parts, fmt.Sprintf("\n#### %s ####\n%s", Str(p), strings.Join(texts(l.(*List)), "\n")))
	}
	comment := strings.TrimSpace(strings.Join(parts, "\n"))
	if comment == "" {
		comment = "Recursively updated " + w.name
	}
	if w.ret.Map("changes").Len() == 0 && Truth(w.ret.Value("result")) {
		comment = fmt.Sprintf("The directory %s is in the correct state", w.name)
	}
	w.ret.Set("comment", comment)
	return w.ret, nil
}
