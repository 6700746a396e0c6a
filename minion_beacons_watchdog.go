// The beacon watchdog: changes in directories, in the words of Python's library
// of that name. The kernel tells them, as it does for the beacon inotify.
package main

import (
	"context"
	"path/filepath"
	"slices"
	"syscall"
)

func watchdogMasks() []string { return []string{"create", "modify", "delete", "move"} }

func checkWatchdog(conf *Map, _ []any) string {
	v, ok := conf.Get("directories")
	if !ok {
		return "Configuration for watchdog beacon must include directories."
	}
	dirs, ok := v.(*Map)
	if !ok {
		return "Configuration for watchdog beacon directories must be a dictionary."
	}
	for _, v := range dirs.All() {
		m, ok := v.(*Map)
		if !ok {
			return "Configuration for watchdog beacon directory path must be a dictionary."
		}
		mask, ok := m.Get("mask")
		if !ok {
			continue
		}
		l, ok := mask.(*List)
		if !ok {
			return "Configuration for watchdog beacon mask must be list."
		}
		for _, name := range l.Items {
			if !slices.Contains(watchdogMasks(), Str(name)) {
				return "Configuration for watchdog beacon contains invalid mask"
			}
		}
	}
	return ""
}

// watchdogBeacon watches directories, not what is below their directories.
type watchdogBeacon struct {
	inotifyHandle
	dirs map[int32]string
}

// watchdogChange is one change before the mask of its directory is asked.
type watchdogChange struct{ dir, path, kind, change string }

func (b *watchdogBeacon) look(_ context.Context, _ *Call, conf *Map, _ []any) ([]*Map, error) {
	fresh, err := b.ensure()
	if err != nil {
		return nil, err
	}
	if fresh {
		b.dirs = map[int32]string{}
		for k := range conf.Map("directories").All() {
			wd, err := syscall.InotifyAddWatch(b.fd, Str(k), syscall.IN_CREATE|syscall.IN_DELETE|syscall.IN_MODIFY|syscall.IN_ATTRIB|syscall.IN_MOVED_FROM|syscall.IN_MOVED_TO|syscall.IN_CLOSE_WRITE)
			if err != nil {
				b.close()
				return nil, &startError{errno: err.(syscall.Errno), path: Str(k)}
			}
			b.dirs[int32(wd)] = Str(k)
		}
	}
	changes, err := b.changes()
	var out []*Map
	for _, ch := range changes {
		want := watchdogMasks()
		if mask, ok := conf.Map("directories").Map(ch.dir).Value("mask").(*List); ok {
			want = namesOf(mask.Items)
		}
		if slices.Contains(want, ch.kind) {
			out = append(out, NewMap("tag", "watchdog", "path", ch.path, "change", ch.change))
		}
	}
	return out, err
}

// changes reads what has happened; each change of what a directory holds is one
// of the directory too.
func (b *watchdogBeacon) changes() (out []watchdogChange, err error) {
	var from *watchdogChange // the first half of a move
	var cookie uint32
	settle := func() { // it left the directories that are watched
		if from != nil {
			from.kind, from.change = "delete", "deleted"
			out = append(out, *from, watchdogChange{from.dir, from.dir, "modify", "modified"})
			from = nil
		}
	}
	err = b.read(func(e inotifyEvent) error {
		dir, ok := b.dirs[e.wd]
		if !ok || e.mask&syscall.IN_IGNORED != 0 {
			return nil
		}
		ch := watchdogChange{dir: dir, path: filepath.Join(dir, e.name)}
		if e.mask&syscall.IN_MOVED_TO != 0 && from != nil && e.cookie == cookie {
			from.kind, from.change = "move", "moved"
			out = append(out, *from, watchdogChange{from.dir, from.dir, "modify", "modified"}, watchdogChange{dir, dir, "modify", "modified"})
			from = nil
			return nil
		}
		settle()
		inDir := true
		switch {
		case e.mask&syscall.IN_MOVED_FROM != 0:
			from, cookie = &ch, e.cookie
			return nil
		case e.mask&(syscall.IN_CREATE|syscall.IN_MOVED_TO) != 0:
			ch.kind, ch.change = "create", "created"
		case e.mask&syscall.IN_DELETE != 0:
			ch.kind, ch.change = "delete", "deleted"
		case e.mask&syscall.IN_CLOSE_WRITE != 0: // nothing of its own, but the directory counts as changed
			ch.path, ch.kind, ch.change, inDir = dir, "modify", "modified", false
		default:
			ch.kind, ch.change, inDir = "modify", "modified", false
		}
		out = append(out, ch)
		if inDir {
			out = append(out, watchdogChange{dir, dir, "modify", "modified"})
		}
		return nil
	})
	settle()
	return out, err
}
