// The beacon inotify: changes of files, as the kernel tells them.
package main

import (
	"context"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// inotifyMasks are the names of events, as users write them.
func inotifyMasks() map[string]uint32 {
	return map[string]uint32{
		"access": syscall.IN_ACCESS, "attrib": syscall.IN_ATTRIB, "close_nowrite": syscall.IN_CLOSE_NOWRITE, "close_write": syscall.IN_CLOSE_WRITE,
		"create": syscall.IN_CREATE, "delete": syscall.IN_DELETE, "delete_self": syscall.IN_DELETE_SELF, "modify": syscall.IN_MODIFY,
		"moved_from": syscall.IN_MOVED_FROM, "moved_to": syscall.IN_MOVED_TO, "move_self": syscall.IN_MOVE_SELF, "open": syscall.IN_OPEN,
		"excl_unlink": syscall.IN_EXCL_UNLINK, "ignored": syscall.IN_IGNORED, "oneshot": syscall.IN_ONESHOT, "onlydir": syscall.IN_ONLYDIR,
		"unmount": syscall.IN_UNMOUNT,
	}
}

// inotifyName is the name of an event as Salt shows it: IN_CREATE, with |IN_ISDIR.
func inotifyName(mask uint32) string {
	var names []string
	for _, name := range []string{"access", "modify", "attrib", "close_write", "close_nowrite", "open", "moved_from", "moved_to", "create", "delete",
		"delete_self", "move_self", "unmount", "ignored"} {
		if mask&inotifyMasks()[name] != 0 {
			names = append(names, "IN_"+strings.ToUpper(name))
		}
	}
	if mask&syscall.IN_Q_OVERFLOW != 0 {
		names = append(names, "IN_Q_OVERFLOW")
	}
	if mask&syscall.IN_ISDIR != 0 {
		names = append(names, "IN_ISDIR")
	}
	return strings.Join(names, "|")
}

func checkInotify(conf *Map, _ []any) string {
	v, ok := conf.Get("files")
	if !ok {
		return "Configuration for inotify beacon must include files."
	}
	files, ok := v.(*Map)
	if !ok {
		return "Configuration for inotify beacon invalid, files must be a dict."
	}
	for _, v := range files.All() {
		m, ok := v.(*Map)
		if !ok {
			return "Configuration for inotify beacon must be a list of dictionaries."
		}
		if !m.Has("mask") && !m.Has("recurse") && !m.Has("auto_add") {
			return "Configuration for inotify beacon must contain mask, recurse or auto_add items."
		}
		for _, k := range []string{"auto_add", "recurse"} {
			if v, ok := m.Get(k); ok {
				if _, isBool := v.(bool); !isBool {
					return "Configuration for inotify beacon " + k + " must be boolean."
				}
			}
		}
		mask, ok := m.Get("mask")
		if !ok {
			continue
		}
		l, ok := mask.(*List)
		if !ok {
			return "Configuration for inotify beacon mask must be list."
		}
		for _, name := range l.Items {
			if _, ok := inotifyMasks()[Str(name)]; !ok {
				return "Configuration for inotify beacon invalid mask option " + Str(name) + "."
			}
		}
	}
	return ""
}

// inotifyWatch is one watch of the kernel's.
type inotifyWatch struct {
	path    string
	root    string // the configured path it belongs to
	mask    uint32
	recurse bool
	autoAdd bool
}

// inotifyHandle is an inotify instance of the kernel's, made when it is needed.
type inotifyHandle struct {
	fd   int
	open bool
}

// ensure opens it; fresh says that it was not open, so that nothing is watched.
func (h *inotifyHandle) ensure() (fresh bool, err error) {
	if h.open {
		return false, nil
	}
	h.fd, err = syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	h.open = err == nil
	return h.open, err
}

func (h *inotifyHandle) close() {
	if h.open {
		_ = syscall.Close(h.fd)
		h.open = false
	}
}

// inotifyEvent is one event as the kernel tells it.
type inotifyEvent struct {
	wd     int32
	mask   uint32
	cookie uint32 // the same for both halves of a move
	name   string
}

// read gives f what the kernel has kept since the last read.
func (h *inotifyHandle) read(f func(inotifyEvent) error) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := syscall.Read(h.fd, buf)
		if err == syscall.EAGAIN || err == syscall.EINTR || n <= 0 && err == nil {
			return nil
		}
		if err != nil {
			return err
		}
		for p := buf[:n]; len(p) >= syscall.SizeofInotifyEvent; {
			size := int(binary.NativeEndian.Uint32(p[12:]))
			if len(p) < syscall.SizeofInotifyEvent+size {
				break
			}
			e := inotifyEvent{wd: int32(binary.NativeEndian.Uint32(p)), mask: binary.NativeEndian.Uint32(p[4:]), cookie: binary.NativeEndian.Uint32(p[8:]),
				name: strings.TrimRight(string(p[syscall.SizeofInotifyEvent:syscall.SizeofInotifyEvent+size]), "\x00")}
			p = p[syscall.SizeofInotifyEvent+size:]
			if err := f(e); err != nil {
				return err
			}
		}
	}
}

type inotifyBeacon struct {
	inotifyHandle
	watches map[int32]inotifyWatch
	paths   map[string]int32
}

func (b *inotifyBeacon) look(_ context.Context, _ *Call, conf *Map, _ []any) ([]*Map, error) {
	fresh, err := b.ensure()
	if err != nil {
		return nil, err
	}
	if fresh {
		b.watches, b.paths = map[int32]inotifyWatch{}, map[string]int32{}
	}
	out, err := b.events(conf.Map("files"))
	if err != nil {
		return out, err
	}
	for k, v := range conf.Map("files").All() {
		path, m := Str(k), v.(*Map)
		if _, ok := b.paths[path]; ok {
			continue
		}
		w := inotifyWatch{path: path, root: path, mask: syscall.IN_CREATE | syscall.IN_DELETE | syscall.IN_MODIFY,
			recurse: Truth(m.Value("recurse")), autoAdd: Truth(m.Value("auto_add"))}
		if l, ok := m.Value("mask").(*List); ok {
			w.mask = 0
			for _, name := range l.Items {
				w.mask |= inotifyMasks()[Str(name)]
			}
		}
		if _, err := os.Lstat(path); err != nil {
			continue // it may come
		}
		if err := b.watch(w, m); err != nil {
			return out, err
		}
	}
	return out, nil
}

// watch adds watches for a path and, with recurse, for what is below.
func (b *inotifyBeacon) watch(w inotifyWatch, conf *Map) error {
	add := func(path string) error {
		mask := w.mask
		if w.autoAdd {
			mask |= syscall.IN_CREATE | syscall.IN_MOVED_TO
		}
		wd, err := syscall.InotifyAddWatch(b.fd, path, mask)
		if err != nil {
			if err == syscall.ENOENT || err == syscall.ENOTDIR {
				return nil
			}
			return os.NewSyscallError("inotify_add_watch "+path, err)
		}
		one := w
		one.path = path
		b.watches[int32(wd)] = one
		b.paths[path] = int32(wd)
		return nil
	}
	if err := add(w.path); err != nil || !w.recurse {
		return err
	}
	return filepath.WalkDir(w.path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || path == w.path {
			return nil
		}
		if inotifyExcluded(path, conf) {
			return filepath.SkipDir
		}
		return add(path)
	})
}

// inotifyExcluded says whether a path is one of those that are left out: a
// beginning, a glob, or a regular expression.
func inotifyExcluded(path string, conf *Map) bool {
	l, _ := conf.Value("exclude").(*List)
	if l == nil {
		return false
	}
	for _, item := range l.Items {
		if m, ok := item.(*Map); ok && m.Len() > 0 {
			k, v := m.At(0)
			opt, _ := v.(*Map)
			if !Truth(opt.Value("regex")) {
				continue
			}
			if re, err := CompilePython(Str(k), 0); err == nil {
				if hit, err := re.Search(path); err == nil && hit != nil {
					return true
				}
			}
			continue
		}
		s := Str(item)
		if strings.Contains(s, "*") && GlobMatch(s, path) || !strings.Contains(s, "*") && strings.HasPrefix(path, s) {
			return true
		}
	}
	return false
}

// events reads what has happened since the last look.
func (b *inotifyBeacon) events(files *Map) (out []*Map, err error) {
	err = b.read(func(e inotifyEvent) error {
		w, ok := b.watches[e.wd]
		if !ok {
			return nil
		}
		if e.mask&syscall.IN_IGNORED != 0 { // the watch is gone; the path may come again
			delete(b.watches, e.wd)
			delete(b.paths, w.path)
			return nil
		}
		path := w.path
		if e.name != "" {
			path = filepath.Join(w.path, e.name)
		}
		conf := files.Map(w.root)
		if inotifyExcluded(path, conf) {
			return nil
		}
		if w.autoAdd && e.mask&syscall.IN_ISDIR != 0 && e.mask&(syscall.IN_CREATE|syscall.IN_MOVED_TO) != 0 {
			below := w
			below.path, below.recurse = path, true
			if err := b.watch(below, conf); err != nil {
				return err
			}
		}
		if e.mask&w.mask != 0 {
			out = append(out, NewMap("tag", w.path, "path", path, "change", inotifyName(e.mask)))
		}
		if w.autoAdd && w.mask&syscall.IN_CREATE != 0 && e.mask&syscall.IN_ISDIR != 0 && e.mask&(syscall.IN_CREATE|syscall.IN_MOVED_TO) != 0 {
			out = append(out, alreadyIn(path, conf)...)
		}
		return nil
	})
	return out, err
}

// alreadyIn tells of what came into a new directory before it was watched.
func alreadyIn(dir string, conf *Map) (out []*Map) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir || inotifyExcluded(path, conf) {
			return nil
		}
		mask := uint32(syscall.IN_CREATE)
		if d.IsDir() {
			mask |= syscall.IN_ISDIR
		}
		out = append(out, NewMap("tag", filepath.Dir(path), "path", path, "change", inotifyName(mask)))
		return nil
	})
	return out
}
