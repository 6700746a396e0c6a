// State module file: directories, trees from the file server, and cleaning.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sort"
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

func directoryState(ctx context.Context, c *Call, a fileDirectoryArgs) (*Map, error) {
	name := expandUser(a.Name)
	ret := stateReturn(name, true, "")
	fail := func(format string, args ...any) (*Map, error) {
		failState(ret, format, args...)
		return ret, nil
	}
	if name == "" {
		return fail("Must provide name to file.directory")
	}
	if name != "/" {
		name = strings.TrimSuffix(name, "/")
	}
	if a.MaxDepth != nil && a.Clean {
		return fail("Cannot specify both max_depth and clean")
	}
	user, group := ownerOf(a.Kwargs, a.User), a.Group
	dirMode, fileMode := a.DirMode, a.FileMode
	if v, ok := a.Kwargs.Get("mode"); ok && !Truth(dirMode) {
		dirMode = v
	}
	if !Truth(fileMode) {
		fileMode = dirMode
	}
	dirMode, fileMode = normalizeMode(dirMode), normalizeMode(fileMode)
	if msg := checkOwner(c, user, group); msg != "" {
		return fail("%s", msg)
	}
	if !filepath.IsAbs(name) {
		return fail("Specified file %s is not an absolute path", name)
	}
	changes := ret.Map("changes")
	if isFile(name) || (!a.AllowSymlink || a.Force) && isSymlink(name) {
		if done, err := replaceByDirectory(c, name, a, ret); done || err != nil {
			return ret, err
		}
	}
	result, comment, found := checkDirectory(ctx, c, name, a, user, group, dirMode, fileMode)
	changes.Merge(found)
	if c.Testing() || changes.Len() == 0 {
		ret.Set("result", result)
		ret.Set("comment", comment)
		return ret, nil
	}
	if !isDir(name) {
		if !isDir(filepath.Dir(name)) {
			if !a.Makedirs {
				return fail("No directory to create %s in", name)
			}
			if _, err := makeParents(ctx, c, name, user, group, dirMode); err != nil {
				return nil, err
			}
		}
		if err := mkdirIfMissing(ctx, c, name, user, group, dirMode); err != nil {
			return nil, err
		}
		if !isDir(name) {
			return fail("Failed to create directory %s", name)
		}
		changes.Set(name, NewMap("directory", "new"))
		return ret, nil
	}
	perms := func(p string, mode any) error {
		_, _, err := checkPerms(ctx, c, permsCheck{name: p, ret: ret, user: user, group: group, mode: mode, follow: a.FollowSymlinks})
		return err
	}
	if !a.ChildrenOnly {
		if err := perms(name, dirMode); err != nil {
			return nil, err
		}
	}
	var problems []string
	if Truth(a.Recurse) {
		set, err := recurseSet(a.Recurse)
		if err != nil {
			fail("%s", err)
		}
		if len(set) > 0 {
			if set["user"] {
				if !Truth(user) && TypeName(user) != "int" {
					fail("user not specified, but configured as a target for recursive ownership management")
				} else if userToUid(user) == "" {
					fail("Failed to enforce ownership for user %s (user does not exist)", Str(user))
				}
			} else {
				user = nil
			}
			if set["group"] {
				if !Truth(group) && TypeName(group) != "int" {
					fail("group not specified, but configured as a target for recursive ownership management")
				} else if groupToGid(group) == "" {
					fail("Failed to enforce group ownership for group %s", Str(group))
				}
			} else {
				group = nil
			}
			if !set["mode"] {
				fileMode, dirMode = nil, nil
			}
			if set["silent"] {
				ret.Set("changes", NewMap("recursion", "Changes silenced"))
			}
			for _, w := range walkTree(name, a.MaxDepth) {
				if !set["ignore_files"] {
					for _, f := range w.files {
						if err := perms(filepath.Join(w.path, f), fileMode); err != nil && !strings.HasPrefix(errText(err), "Path not found") {
							problems = append(problems, errText(err))
						}
					}
				}
				if !set["ignore_dirs"] {
					for _, d := range w.dirs {
						if err := perms(filepath.Join(w.path, d), dirMode); err != nil && !strings.HasPrefix(errText(err), "Path not found") {
							problems = append(problems, errText(err))
						}
					}
				}
			}
		}
	}
	if a.Clean {
		if removed := cleanDir(c, name, keptFiles(ctx, c, name, a.Require), a.ExcludePat); len(removed) > 0 {
			ret.Map("changes").Set("removed", Strings(removed))
			ret.Set("comment", "Files cleaned from directory "+name)
		}
	}
	changed := Truth(ret.Value("changes"))
	if !Truth(ret.Value("comment")) {
		if a.ChildrenOnly {
			ret.Set("comment", fmt.Sprintf("Directory %s/* updated", name))
		} else if changed {
			ret.Set("comment", fmt.Sprintf("Directory %s updated", name))
		}
	}
	if !changed && Truth(ret.Value("result")) {
		before := Str(ret.Value("comment"))
		text := fmt.Sprintf("Directory %s is in the correct state", name)
		if before != "" {
			text += "\n" + before
		}
		ret.Set("comment", text)
	}
	if len(problems) > 0 {
		ret.Set("result", false)
		text := Str(ret.Value("comment")) + "\n\nThe following errors were encountered:\n"
		for _, p := range problems {
			text += "\n- " + p
		}
		ret.Set("comment", text)
	}
	return ret, nil
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
				failState(ret, "File exists where the backup target %s should go", backup)
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
		failState(ret, "Specified location %s exists and is a file", name)
		return true, nil
	case isSymlink(name):
		failState(ret, "Specified location %s exists and is a symlink", name)
		return true, nil
	}
	return false, nil
}

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
		return failState(ret, "'mode' is not allowed in 'file.recurse'. Please use 'file_mode' and 'dir_mode'.")
	}
	fileMode := a.FileMode
	keepMode := strings.EqualFold(Str(orEmpty(fileMode)), "keep")
	if keepMode {
		fileMode = nil
	}
	dirMode := normalizeMode(a.DirMode)
	fileMode = normalizeMode(fileMode)
	if msg := checkOwner(c, user, group); msg != "" {
		return failState(ret, "%s", msg)
	}
	if !filepath.IsAbs(name) {
		return failState(ret, "Specified file %s is not an absolute path", name)
	}
	var sources []any
	for _, s := range textList(a.Source) {
		s = strings.TrimRight(s, "/")
		if !strings.HasPrefix(s, "salt://") {
			return failState(ret, "Invalid source '%s' (must be a salt:// URI)", s)
		}
		sources = append(sources, s)
	}
	src, _, err := pickSource(ctx, c, NewList(sources...), "", c.StateEnv())
	if err != nil {
		if !isExecError(err) {
			return nil, err
		}
		return failState(ret, "Recurse failed: %s", errText(err))
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
		return failState(ret, "The directory '%s' does not exist on the salt fileserver in saltenv '%s'", srcPath, env)
	}
	if !isDir(name) {
		if pathExists(name) {
			return failState(ret, "The path %s exists and is not a directory", name)
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
