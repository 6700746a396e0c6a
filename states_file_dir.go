// State module file: directories, trees from the file server, and cleaning.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// walkedDir is one directory of a walk, as Python's os.walk gives it: links to
// directories are among the directories and are not followed.
type walkedDir struct {
	path        string
	dirs, files []string
}

// walkTree walks a tree, at most maxDepth levels deep if that is set.
func walkTree(top string, maxDepth any) []walkedDir {
	limit := -1
	if n, ok := maxDepth.(int64); ok {
		limit = int(n)
	}
	var out []walkedDir
	var walk func(dir string, depth int)
	walk = func(dir string, depth int) {
		if limit >= 0 && depth >= limit {
			return
		}
		if !isDir(dir) {
			return
		}
		w := walkedDir{path: dir}
		var below []string
		w.dirs, w.files, below = readDirSplit(dir)
		out = append(out, w)
		for _, p := range below {
			walk(p, depth+1)
		}
	}
	walk(top, 0)
	return out
}

// readDirSplit reads a directory in the order of the file system, as os.walk
// does: directories (links to them too), other files, and where to go on.
func readDirSplit(dir string) (dirs, files, below []string) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, nil, nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(-1)
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			dirs = append(dirs, e.Name())
			below = append(below, p)
		case e.Type()&os.ModeSymlink != 0 && isDir(p):
			dirs = append(dirs, e.Name())
		default:
			files = append(files, e.Name())
		}
	}
	return dirs, files, below
}

func recurseTypes() []string {
	return []string{"user", "group", "mode", "ignore_files", "ignore_dirs", "silent"}
}

// recurseSet checks the argument recurse.
func recurseSet(v any) (map[string]bool, error) {
	set := map[string]bool{}
	if !Truth(v) {
		return set, nil
	}
	l, ok := v.(*List)
	if !ok {
		return nil, errors.New("\"recurse\" must be formed as a list of strings")
	}
	for _, item := range l.Items {
		s, ok := item.(string)
		if !ok || !containsText(recurseTypes(), s) {
			return nil, fmt.Errorf("Types for \"recurse\" limited to \"%s\".", strings.Join(recurseTypes(), "\", \""))
		}
		set[s] = true
	}
	if set["ignore_files"] && set["ignore_dirs"] {
		return nil, errors.New("Must not specify \"recurse\" options \"ignore_files\" and \"ignore_dirs\" at the same time.")
	}
	return set, nil
}

type fileDirectoryArgs struct {
	Name           string
	User           any  `def:"None"`
	Group          any  `def:"None"`
	Recurse        any  `def:"None"`
	MaxDepth       any  `def:"None"`
	DirMode        any  `def:"None"`
	FileMode       any  `def:"None"`
	Makedirs       bool `def:"False"`
	Clean          bool `def:"False"`
	Require        any  `def:"None"`
	ExcludePat     any  `def:"None"`
	FollowSymlinks bool `def:"False"`
	Force          bool `def:"False"`
	Backupname     any  `def:"None"`
	AllowSymlink   bool `def:"True"`
	ChildrenOnly   bool `def:"False"`
	WinOwner       any  `def:"None"`
	WinPerms       any  `def:"None"`
	WinDenyPerms   any  `def:"None"`
	WinInheritance any  `def:"True"`
	WinPermsReset  any  `def:"False"`
	Kwargs         *Map `arg:"**kwargs"`
}

func fileStateDirectory(ctx context.Context, c *Call, a fileDirectoryArgs) (any, error) {
	return directoryState(ctx, c, a)
}

// metaChanges are the changes that a path's owner and mode need.
func metaChanges(p string, user, group, mode any, follow bool) *Map {
	st, err := statsOf(p, "", follow)
	if err != nil || st.Len() == 0 {
		return NewMap("directory", "new")
	}
	changes := NewMap()
	if user != nil && !isOwner(user, st, "user", "uid") {
		changes.Set("user", user)
	}
	if group != nil && !isOwner(group, st, "group", "gid") {
		changes.Set("group", group)
	}
	mode = normalizeMode(mode)
	if mode != nil && !Equal(mode, normalizeMode(st.Value("mode"))) && (follow || st.Value("type") != "link") {
		changes.Set("mode", mode)
	}
	return changes
}

// checkDirectory says what a directory state would change.
func checkDirectory(ctx context.Context, c *Call, name string, a fileDirectoryArgs, user, group, dirMode, fileMode any) (any, string, *Map) {
	changes := NewMap()
	var walk []walkedDir
	if Truth(a.Recurse) || a.Clean {
		walk = walkTree(name, a.MaxDepth)
	}
	if Truth(a.Recurse) {
		set, err := recurseSet(a.Recurse)
		if err != nil {
			return false, err.Error(), changes
		}
		if !set["user"] {
			user = nil
		}
		if !set["group"] {
			group = nil
		}
		if !set["mode"] {
			dirMode, fileMode = nil, nil
		}
		for _, w := range walk {
			if !set["ignore_files"] {
				for _, f := range w.files {
					p := filepath.Join(w.path, f)
					ch := metaChanges(p, user, group, fileMode, a.FollowSymlinks)
					ch.Delete("directory")
					if ch.Len() > 0 {
						changes.Set(p, ch)
					}
				}
			}
			if !set["ignore_dirs"] {
				for _, d := range w.dirs {
					p := filepath.Join(w.path, d)
					if ch := metaChanges(p, user, group, dirMode, a.FollowSymlinks); ch.Len() > 0 {
						changes.Set(p, ch)
					}
				}
			}
		}
	}
	if !a.ChildrenOnly {
		if ch := metaChanges(name, user, group, dirMode, a.FollowSymlinks); ch.Len() > 0 {
			changes.Set(name, ch)
		}
	}
	if a.Clean {
		keep := keptFiles(ctx, c, name, a.Require)
		for _, w := range walk {
			for _, n := range append(append([]string(nil), w.files...), w.dirs...) {
				p := filepath.Join(w.path, n)
				rel, _ := filepath.Rel(name, p)
				if !keep[p] && includedName(rel, nil, a.ExcludePat) {
					changes.Set(p, NewMap("removed", "Removed due to clean"))
				}
			}
		}
	}
	if !isDir(name) {
		changes.Set(name, NewMap("directory", "new"))
	}
	if changes.Len() == 0 {
		return true, fmt.Sprintf("The directory %s is in the correct state", name), changes
	}
	var b strings.Builder
	b.WriteString("The following files will be changed:\n")
	for p, ch := range changes.All() {
		for k, v := range ch.(*Map).All() {
			fmt.Fprintf(&b, "%s: %s - %s\n", Str(p), Str(k), Str(v))
		}
	}
	return nil, b.String(), changes
}

// includedName is check_include_exclude: patterns are globs, or regular
// expressions after E@; a list joins several.
func includedName(name string, include, exclude any) bool {
	hit := func(v any) bool {
		for _, item := range toItems(v) {
			pat := Str(item)
			if re, ok := strings.CutPrefix(pat, "E@"); ok {
				p, err := CompilePython(re, 0)
				if err != nil {
					continue
				}
				if m, err := p.Search(name); err == nil && m != nil {
					return true
				}
			} else if GlobMatch(pat, name) {
				return true
			}
		}
		return false
	}
	in, out := true, true
	if Truth(include) {
		in = hit(include)
	}
	if Truth(exclude) {
		out = !hit(exclude)
	}
	switch {
	case Truth(include) && !Truth(exclude):
		return in
	case Truth(exclude) && !Truth(include):
		return out
	}
	return in && out
}

// keptFiles are the paths below name that states keep which this one requires.
func keptFiles(ctx context.Context, c *Call, name string, require any) map[string]bool {
	keep := map[string]bool{}
	l, ok := require.(*List)
	if !ok || c.State == nil {
		return keep
	}
	for _, r := range l.Items {
		req, ok := r.(*Map)
		if !ok || !req.Has("file") {
			continue
		}
		for _, low := range c.State.Chunks {
			if !Equal(low.Value("name"), req.Value("file")) && !Equal(low.Value("__id__"), req.Value("file")) {
				continue
			}
			fn := Str(low.Value("name"))
			if !isDir(fn) {
				keep[fn] = true
				continue
			}
			rel, err := filepath.Rel(name, fn)
			if err != nil || strings.HasPrefix(rel, "..") {
				continue
			}
			if low.Value("fun") == "recurse" {
				if set, err := recurseFilesOf(ctx, c, low); err == nil {
					for p := range set.keep {
						keep[p] = true
					}
				}
				continue
			}
			for _, w := range walkTree(fn, nil) {
				keep[w.path] = true
				for _, n := range append(append([]string(nil), w.files...), w.dirs...) {
					keep[filepath.Join(w.path, n)] = true
				}
			}
		}
	}
	return keep
}

// cleanDir removes what is below root and not kept.
func cleanDir(c *Call, root string, keep map[string]bool, exclude any) []string {
	root = filepath.Clean(root)
	real := map[string]bool{root: true}
	for p := range keep {
		if !filepath.IsAbs(p) {
			continue
		}
		for p = filepath.Clean(p); !real[p]; p = filepath.Dir(p) {
			real[p] = true
			if p == "/" {
				break
			}
		}
	}
	var removed []string
	var walk func(dir string)
	walk = func(dir string) {
		dirs, files, below := readDirSplit(dir)
		for _, n := range append(dirs, files...) {
			p := filepath.Join(dir, n)
			rel, _ := filepath.Rel(root, p)
			if real[p] || !includedName(rel, nil, exclude) {
				continue
			}
			removed = append(removed, p)
			if !c.Testing() {
				if err := os.RemoveAll(p); err != nil {
					c.Log.Warn(err.Error())
				}
			}
		}
		for _, p := range below {
			walk(p)
		}
	}
	walk(root)
	return removed
}

// directoryWork is a file.directory on its way. Its steps end the state by
// returning its return, which is nil while there is more to do.
type directoryWork struct {
	a                 fileDirectoryArgs
	name              string
	ret               *Map
	user, group       any
	dirMode, fileMode any
	problems          []string // with what is below
}

func directoryState(ctx context.Context, c *Call, a fileDirectoryArgs) (*Map, error) {
	w := newDirectoryWork(a)
	for _, step := range []func(context.Context, *Call) (*Map, error){w.checkArgs, w.compare, w.create, w.setPerms} {
		if end, err := step(ctx, c); end != nil || err != nil {
			return end, err
		}
	}
	if a.Clean {
		if removed := cleanDir(c, w.name, keptFiles(ctx, c, w.name, a.Require), a.ExcludePat); len(removed) > 0 {
			w.ret.Map("changes").Set("removed", Strings(removed))
			w.ret.Set("comment", "Files cleaned from directory "+w.name)
		}
	}
	w.comment()
	return w.ret, nil
}

func newDirectoryWork(a fileDirectoryArgs) *directoryWork {
	name := expandUser(a.Name)
	w := &directoryWork{a: a, name: name, ret: stateReturn(name, true, ""), user: ownerOf(a.Kwargs, a.User), group: a.Group, dirMode: a.DirMode,
		fileMode: a.FileMode}
	if name != "/" {
		w.name = strings.TrimSuffix(name, "/")
	}
	if v, ok := a.Kwargs.Get("mode"); ok && !Truth(w.dirMode) {
		w.dirMode = v
	}
	if !Truth(w.fileMode) {
		w.fileMode = w.dirMode
	}
	w.dirMode, w.fileMode = normalizeMode(w.dirMode), normalizeMode(w.fileMode)
	return w
}

func (w *directoryWork) fail(format string, args ...any) (*Map, error) {
	_, _ = stateSay(w.ret, false, format, args...)
	return w.ret, nil
}

func (w *directoryWork) checkArgs(_ context.Context, c *Call) (*Map, error) {
	if w.name == "" {
		return w.fail("Must provide name to file.directory")
	}
	if w.a.MaxDepth != nil && w.a.Clean {
		return w.fail("Cannot specify both max_depth and clean")
	}
	if msg := checkOwner(c, w.user, w.group); msg != "" {
		return w.fail("%s", msg)
	}
	if !filepath.IsAbs(w.name) {
		return w.fail("Specified file %s is not an absolute path", w.name)
	}
	return nil, nil
}

// compare clears what is in the way and ends where nothing is to be changed, or
// may be.
func (w *directoryWork) compare(ctx context.Context, c *Call) (*Map, error) {
	if isFile(w.name) || (!w.a.AllowSymlink || w.a.Force) && isSymlink(w.name) {
		if done, err := replaceByDirectory(c, w.name, w.a, w.ret); done || err != nil {
			return w.ret, err
		}
	}
	result, comment, found := checkDirectory(ctx, c, w.name, w.a, w.user, w.group, w.dirMode, w.fileMode)
	changes := w.ret.Map("changes")
	changes.Merge(found)
	if c.Testing() || changes.Len() == 0 {
		w.ret.Set("result", result)
		w.ret.Set("comment", comment)
		return w.ret, nil
	}
	return nil, nil
}

// create makes a directory that is not there, which ends the state.
func (w *directoryWork) create(ctx context.Context, c *Call) (*Map, error) {
	if isDir(w.name) {
		return nil, nil
	}
	if !isDir(filepath.Dir(w.name)) {
		if !w.a.Makedirs {
			return w.fail("No directory to create %s in", w.name)
		}
		if _, err := makeParents(ctx, c, w.name, w.user, w.group, w.dirMode); err != nil {
			return nil, err
		}
	}
	if err := mkdirIfMissing(ctx, c, w.name, w.user, w.group, w.dirMode); err != nil {
		return nil, err
	}
	if !isDir(w.name) {
		return w.fail("Failed to create directory %s", w.name)
	}
	w.ret.Map("changes").Set(w.name, NewMap("directory", "new"))
	return w.ret, nil
}

// setPerms sets owners and modes of the directory and of what recurse names.
func (w *directoryWork) setPerms(ctx context.Context, c *Call) (*Map, error) {
	if !w.a.ChildrenOnly {
		if err := w.setOne(ctx, c, w.name, w.dirMode); err != nil {
			return nil, err
		}
	}
	if !Truth(w.a.Recurse) {
		return nil, nil
	}
	set, err := recurseSet(w.a.Recurse)
	if err != nil {
		w.fail("%s", err)
	}
	if len(set) == 0 {
		return nil, nil
	}
	w.limit(set)
	for _, below := range walkTree(w.name, w.a.MaxDepth) {
		if !set["ignore_files"] {
			w.setAll(ctx, c, below.path, below.files, w.fileMode)
		}
		if !set["ignore_dirs"] {
			w.setAll(ctx, c, below.path, below.dirs, w.dirMode)
		}
	}
	return nil, nil
}

// limit leaves of owners and modes those that are set below the directory. What
// is wrong with them fails the state, which goes on nevertheless.
func (w *directoryWork) limit(set map[string]bool) {
	switch {
	case !set["user"]:
		w.user = nil
	case !Truth(w.user) && TypeName(w.user) != "int":
		w.fail("user not specified, but configured as a target for recursive ownership management")
	case userToUid(w.user) == "":
		w.fail("Failed to enforce ownership for user %s (user does not exist)", Str(w.user))
	}
	switch {
	case !set["group"]:
		w.group = nil
	case !Truth(w.group) && TypeName(w.group) != "int":
		w.fail("group not specified, but configured as a target for recursive ownership management")
	case groupToGid(w.group) == "":
		w.fail("Failed to enforce group ownership for group %s", Str(w.group))
	}
	if !set["mode"] {
		w.fileMode, w.dirMode = nil, nil
	}
	if set["silent"] {
		w.ret.Set("changes", NewMap("recursion", "Changes silenced"))
	}
}

func (w *directoryWork) setOne(ctx context.Context, c *Call, path string, mode any) error {
	_, _, err := checkPerms(ctx, c, permsCheck{name: path, ret: w.ret, user: w.user, group: w.group, mode: mode, follow: w.a.FollowSymlinks})
	return err
}

// setAll is setOne for the names of a directory; one that has vanished is no problem.
func (w *directoryWork) setAll(ctx context.Context, c *Call, dir string, names []string, mode any) {
	for _, name := range names {
		if err := w.setOne(ctx, c, filepath.Join(dir, name), mode); err != nil && !strings.HasPrefix(errText(err), "Path not found") {
			w.problems = append(w.problems, errText(err))
		}
	}
}

func (w *directoryWork) comment() {
	changed := Truth(w.ret.Value("changes"))
	text := Str(w.ret.Value("comment"))
	switch {
	case text != "":
	case w.a.ChildrenOnly:
		text = fmt.Sprintf("Directory %s/* updated", w.name)
	case changed:
		text = fmt.Sprintf("Directory %s updated", w.name)
	}
	if !changed && Truth(w.ret.Value("result")) {
		before := text
		text = fmt.Sprintf("Directory %s is in the correct state", w.name)
		if before != "" {
			text += "\n" + before
		}
	}
	if len(w.problems) > 0 {
		w.ret.Set("result", false)
		text += "\n\nThe following errors were encountered:\n"
		for _, p := range w.problems {
			text += "\n- " + p
		}
	}
	w.ret.Set("comment", text)
}

// replaceByDirectory moves or removes what stands where a directory is wanted.
// done: the return is complete.
func replaceByDirectory(c *Call, name string, a fileDirectoryArgs, ret *Map) (done bool, err error) {
	changes := ret.Map("changes")
	test := c.Testing()
	switch {
	case a.Backupname != nil:
		backup := Str(a.Backupname)
		if lexists(backup) {
			if !a.Force {
				stateSay(ret, false, "File exists where the backup target %s should go", backup)
				return true, nil
			}
			if test {
				changes.Set("forced", fmt.Sprintf("Existing file at backup path %s would be removed", backup))
			} else if err := os.RemoveAll(backup); err != nil {
				return true, pyOSError(err)
			}
		}
		if test {
			changes.Set("backup", fmt.Sprintf("%s would be renamed to %s", name, backup))
			changes.Set(name, NewMap("directory", "new"))
			ret.Set("comment", fmt.Sprintf("%s would be backed up and replaced with a new directory", name))
			ret.Set("result", nil)
			return true, nil
		}
		if err := os.Rename(name, backup); err != nil {
			return true, pyOSError(err)
		}
	case a.Force:
		what := "Directory"
		if isFile(name) {
			what = "File"
		} else if isSymlink(name) {
			what = "Symlink"
		}
		if test {
			changes.Set("forced", what+" would be forcibly replaced")
			return false, nil
		}
		if err := os.RemoveAll(name); err != nil {
			return true, pyOSError(err)
		}
		changes.Set("forced", what+" was forcibly replaced")
	case isFile(name):
		stateSay(ret, false, "Specified location %s exists and is a file", name)
		return true, nil
	case isSymlink(name):
		stateSay(ret, false, "Specified location %s exists and is a symlink", name)
		return true, nil
	}
	return false, nil
}
