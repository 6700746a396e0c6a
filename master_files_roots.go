// The file server backend `roots`: directories of the master, by environment.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// dynamicEnv is the environment that stands for all that have no own entry; its
// name in a root is replaced by theirs.
const dynamicEnv = "__env__"

// RootsFileServer serves file_roots.
type RootsFileServer struct {
	roots  map[string][]string
	follow bool // fileserver_followsymlinks
	ignore bool // fileserver_ignoresymlinks
	globs  []*Glob
	regexp []*PyRegexp
	log    *slog.Logger

	mu    sync.Mutex
	lists map[string]*rootsLists
}

// rootsLists are the lists of one environment and what they depend on.
type rootsLists struct {
	files, emptyDirs, dirs []string
	links                  *Map
	read                   map[string]os.FileInfo // directories; nil for one that is missing
	fresh                  bool                   // every directory had settled
}

// NewRootsFileServer reads the options of the backend.
func NewRootsFileServer(o *Options, log *slog.Logger) *RootsFileServer {
	s := &RootsFileServer{
		roots: map[string][]string{}, follow: o.Bool("fileserver_followsymlinks"), ignore: o.Bool("fileserver_ignoresymlinks"),
		log: log, lists: map[string]*rootsLists{},
	}
	for env, dirs := range o.Map("file_roots").All() {
		s.roots[Str(env)] = NewOptions(NewMap("dirs", dirs)).List("dirs")
	}
	for _, g := range o.List("file_ignore_glob") {
		s.globs = append(s.globs, CompileGlob(g))
	}
	for _, expr := range o.List("file_ignore_regex") {
		re, err := CompilePython(expr, 0)
		if err != nil {
			log.Error(fmt.Sprintf("file_ignore_regex %q is left out: %v", expr, err))
			continue
		}
		s.regexp = append(s.regexp, re)
	}
	return s
}

// Envs lists the environments.
func (s *RootsFileServer) Envs() []string {
	envs := make([]string, 0, len(s.roots))
	for env := range s.roots {
		envs = append(envs, env)
	}
	slices.Sort(envs)
	return envs
}

// dirsOf are the roots of an environment, none if it does not exist.
func (s *RootsFileServer) dirsOf(env string) []string {
	if dirs, ok := s.roots[env]; ok && env != dynamicEnv {
		return dirs
	}
	var out []string
	for _, dir := range s.roots[dynamicEnv] {
		out = append(out, strings.ReplaceAll(dir, dynamicEnv, env))
	}
	return out
}

// ignored says whether file_ignore_glob or file_ignore_regex hide a path.
func (s *RootsFileServer) ignored(path string) bool {
	for _, g := range s.globs {
		if g.Match(path) {
			return true
		}
	}
	for _, re := range s.regexp {
		if m, err := re.Search(path); err != nil || m != nil {
			return true
		}
	}
	return false
}

// Find looks for a file in the roots of an environment, in order.
func (s *RootsFileServer) Find(env, path string) (*FoundFile, error) {
	if strings.IndexByte(path, 0) >= 0 || filepath.IsAbs(path) {
		return nil, nil
	}
	rel := filepath.Clean(path)
	for _, root := range s.dirsOf(env) {
		full, err := SafeJoin(root, rel)
		if err != nil {
			return nil, nil
		}
		if !s.follow {
			if _, err := innerPath(root, full); err != nil {
				continue
			}
		}
		st, err := os.Stat(full)
		if err != nil || !st.Mode().IsRegular() || s.ignored(full) {
			continue
		}
		return &FoundFile{Path: full, Rel: rel, Back: "roots", Info: st}, nil
	}
	return nil, nil
}

// innerPath resolves all links and returns the path relative to the root, also
// resolved. It is an error if that leads out.
func innerPath(root, full string) (string, error) {
	realRoot, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", err
	}
	realFull, err := filepath.EvalSymlinks(full)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(realRoot, realFull)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%s leads out of %s", full, root)
	}
	return rel, nil
}

// Open opens a file that was found. Without fileserver_followsymlinks what is
// opened lies below the root, whatever was changed meanwhile.
func (s *RootsFileServer) Open(env string, f *FoundFile) (*os.File, error) {
	const flags = os.O_RDONLY | syscall.O_NONBLOCK // a pipe in the place of the file must not block
	var file *os.File
	var err error
	if s.follow {
		file, err = os.OpenFile(f.Path, flags, 0)
	} else {
		err = fs.ErrNotExist
		for _, dir := range s.dirsOf(env) {
			if filepath.Join(dir, f.Rel) != f.Path {
				continue
			}
			var rel string
			if rel, err = innerPath(dir, f.Path); err != nil {
				break
			}
			var root *os.Root
			if root, err = os.OpenRoot(dir); err != nil {
				break
			}
			file, err = root.OpenFile(rel, flags, 0)
			root.Close()
			break
		}
	}
	if err != nil {
		return nil, err
	}
	st, err := file.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", f.Path)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// Files lists the files of an environment.
func (s *RootsFileServer) Files(env string) ([]string, error) {
	l := s.list(env)
	return l.files, nil
}

// EmptyDirs lists the directories in which there is nothing.
func (s *RootsFileServer) EmptyDirs(env string) ([]string, error) {
	l := s.list(env)
	return l.emptyDirs, nil
}

// Dirs lists the directories of an environment.
func (s *RootsFileServer) Dirs(env string) ([]string, error) {
	l := s.list(env)
	return l.dirs, nil
}

// Links lists the symbolic links of an environment with what they point to.
func (s *RootsFileServer) Links(env string) (*Map, error) {
	l := s.list(env)
	return l.links, nil
}

// list returns the lists of an environment, from memory while no directory that
// they were made of has changed.
func (s *RootsFileServer) list(env string) *rootsLists {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lists[env]; l != nil && l.fresh && l.current() {
		return l
	}
	l := s.walk(s.dirsOf(env))
	if len(s.lists) > 256 {
		clear(s.lists)
	}
	s.lists[env] = l
	return l
}

func (l *rootsLists) current() bool {
	for dir, info := range l.read {
		st, err := os.Stat(dir)
		if err != nil || info == nil || !unchanged(info, st) {
			if err != nil && info == nil {
				continue
			}
			return false
		}
	}
	return true
}

func unchanged(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// settled says whether another change would show in the time of the file.
func settled(st os.FileInfo) bool {
	age := time.Since(st.ModTime())
	return age > dirSettle || age < -time.Minute
}

// rootsWalk is one walk through the roots of an environment.
type rootsWalk struct {
	s                      *RootsFileServer
	l                      *rootsLists
	files, emptyDirs, dirs map[string]bool
}

func (s *RootsFileServer) walk(roots []string) *rootsLists {
	w := &rootsWalk{s: s, l: &rootsLists{links: NewMap(), read: map[string]os.FileInfo{}, fresh: true},
		files: map[string]bool{}, emptyDirs: map[string]bool{}, dirs: map[string]bool{}}
	for _, root := range roots {
		w.dir(root, root, "", nil)
	}
	w.l.files, w.l.emptyDirs, w.l.dirs = sortedKeys(w.files), sortedKeys(w.emptyDirs), sortedKeys(w.dirs)
	return w.l
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// dir goes through one directory. within are the directories above it: a link to
// one of them would lead round for ever.
func (w *rootsWalk) dir(root, dir, rel string, within []os.FileInfo) {
	st, err := os.Stat(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			w.l.read[dir] = nil
		}
		return
	}
	if !st.IsDir() || slices.ContainsFunc(within, func(o os.FileInfo) bool { return os.SameFile(o, st) }) {
		return
	}
	entries, err := os.ReadDir(dir)
	w.l.read[dir] = st
	w.l.fresh = w.l.fresh && settled(st)
	if err != nil {
		w.s.log.Warn(fmt.Sprintf("file server: %v", err))
		return
	}
	within = append(within[:len(within):len(within)], st)
	for _, e := range entries {
		full, name := filepath.Join(dir, e.Name()), e.Name()
		if rel != "" {
			name = rel + "/" + name
		}
		link := e.Type()&fs.ModeSymlink != 0
		if link && w.s.ignore {
			continue
		}
		isDir := e.IsDir()
		if link {
			target, err := os.Stat(full)
			isDir = err == nil && target.IsDir()
		}
		if !w.s.ignored(name) {
			if isDir {
				w.dirs[name] = true
				if sub, err := os.ReadDir(full); err == nil && len(sub) == 0 {
					w.emptyDirs[name] = true
				}
			} else {
				w.files[name] = true
			}
			if link {
				w.link(root, full, name)
			}
		}
		if isDir && (!link || w.s.follow) {
			w.dir(root, full, name, within)
		} else if isDir {
			if st, err := os.Stat(full); err == nil {
				w.l.read[full] = st // whether it is empty may change
			}
		}
	}
}

// link notes a link if it stays below the root, or if links are not followed.
func (w *rootsWalk) link(root, full, name string) {
	dest, err := os.Readlink(full)
	if err != nil {
		return
	}
	if w.s.follow {
		target := dest
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(full), dest)
		}
		if rel, err := filepath.Rel(root, target); err != nil || !filepath.IsLocal(rel) {
			return
		}
	}
	w.l.links.Set(name, dest)
}

// statList is a stat result as Salt sends it.
func statList(st os.FileInfo) *List {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return NewList(int64(st.Mode().Perm())|0o100000, int64(0), int64(0), int64(1), int64(0), int64(0), st.Size(),
			st.ModTime().Unix(), st.ModTime().Unix(), st.ModTime().Unix())
	}
	return NewList(int64(sys.Mode), int64(sys.Ino), int64(sys.Dev), int64(sys.Nlink), int64(sys.Uid), int64(sys.Gid), sys.Size,
		int64(sys.Atim.Sec), int64(sys.Mtim.Sec), int64(sys.Ctim.Sec))
}
