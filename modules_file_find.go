// Module file: find, which walks directories by criteria as find(1) does.
package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type findArgs struct {
	Path   string
	Args   []any `arg:"*args"`
	Kwargs *Map  `arg:"**kwargs"`
}

// finder is a search: tests that all must hold, then actions.
type finder struct {
	tests    []func(path, name string, st *syscall.Stat_t) bool
	actions  []func(ctx context.Context, path string, st *syscall.Stat_t) (any, bool)
	minDepth int
	maxDepth int // -1: without limit
}

func fileFind(ctx context.Context, c *Call, a findArgs) (any, error) {
	options := a.Kwargs.Clone()
	for _, arg := range a.Args {
		switch Str(arg) {
		case "delete":
			options.Set("delete", "f")
		case "print":
			if !options.Has("delete") {
				options.Set("print", "path")
			}
		}
	}
	f, err := newFinder(c, options)
	if err != nil {
		return "error: " + err.Error(), nil
	}
	out := &List{}
	for _, path := range globPaths(expandUser(a.Path)) {
		f.walk(ctx, path, 0, out)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	sort.SliceStable(out.Items, func(i, j int) bool {
		less, err := Compare(out.Items[i], out.Items[j])
		return err == nil && less < 0
	})
	return out, nil
}

// walk visits a path and what lies below it.
func (f *finder) walk(ctx context.Context, path string, depth int, out *List) {
	if ctx.Err() != nil {
		return
	}
	var st syscall.Stat_t
	if syscall.Stat(path, &st) != nil && syscall.Lstat(path, &st) != nil {
		return
	}
	if depth >= f.minDepth {
		f.visit(ctx, path, &st, out)
	}
	if uint32(st.Mode)&syscall.S_IFMT != syscall.S_IFDIR || depth > 0 && isSymlink(path) || f.maxDepth >= 0 && depth >= f.maxDepth {
		return
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return
	}
	for _, e := range entries {
		f.walk(ctx, filepath.Join(path, e.Name()), depth+1, out)
	}
}

func (f *finder) visit(ctx context.Context, path string, st *syscall.Stat_t, out *List) {
	name := filepath.Base(path)
	for _, test := range f.tests {
		if !test(path, name, st) {
			return
		}
	}
	for _, act := range f.actions {
		if v, ok := act(ctx, path, st); ok {
			out.Append(v)
		}
	}
}

func newFinder(c *Call, options *Map) (*finder, error) {
	f := &finder{maxDepth: -1}
	for k, v := range options.All() {
		if err := f.option(c, Str(k), v); err != nil {
			return nil, err
		}
	}
	if len(f.actions) == 0 {
		f.actions = append(f.actions, func(_ context.Context, path string, _ *syscall.Stat_t) (any, bool) { return path, true })
	}
	return f, nil
}

func (f *finder) test(t func(path, name string, st *syscall.Stat_t) bool) {
	f.tests = append(f.tests, t)
}

func (f *finder) option(c *Call, key string, v any) error {
	text := Str(v)
	switch key {
	case "name":
		f.test(func(_, name string, _ *syscall.Stat_t) bool { return GlobMatch(text, name) })
	case "iname":
		text = strings.ToLower(text)
		f.test(func(_, name string, _ *syscall.Stat_t) bool { return GlobMatch(text, strings.ToLower(name)) })
	case "regex", "iregex":
		var flags RegexpFlags
		if key == "iregex" {
			flags = RegexpIgnoreCase
		}
		re, err := CompilePython(text, flags)
		if err != nil {
			return fmt.Errorf("invalid regular expression: \"%s\"", text)
		}
		f.test(func(_, name string, _ *syscall.Stat_t) bool { m, err := re.Match(name); return err == nil && m != nil })
	case "type":
		kinds, err := fileKinds(v)
		if err != nil {
			return err
		}
		f.test(func(_, _ string, st *syscall.Stat_t) bool { return kinds[uint32(st.Mode)&syscall.S_IFMT] })
	case "owner":
		ids := map[uint32]bool{}
		for _, u := range splitNames(v) {
			n, ok := userToUid(u).(int64)
			if !ok {
				if n, ok = toInt(u); !ok {
					return fmt.Errorf("no such user: \"%s\"", u)
				}
			}
			ids[uint32(n)] = true
		}
		f.test(func(_, _ string, st *syscall.Stat_t) bool { return ids[st.Uid] })
	case "group":
		ids := map[uint32]bool{}
		for _, g := range splitNames(v) {
			n, ok := groupToGid(g).(int64)
			if !ok {
				if n, ok = toInt(g); !ok {
					return fmt.Errorf("no such group: \"%s\"", g)
				}
			}
			ids[uint32(n)] = true
		}
		f.test(func(_, _ string, st *syscall.Stat_t) bool { return ids[st.Gid] })
	case "size":
		least, most, err := sizeRange(text)
		if err != nil {
			return err
		}
		f.test(func(_, _ string, st *syscall.Stat_t) bool { return st.Size >= least && st.Size <= most })
	case "mtime":
		least, most, err := timeRange(text)
		if err != nil {
			return err
		}
		f.test(func(_, _ string, st *syscall.Stat_t) bool { t := statTime(st.Mtim); return t >= least && t <= most })
	case "maxdepth", "mindepth":
		n, ok := toInt(v)
		if !ok {
			return fmt.Errorf("invalid value for option \"%s\"", key)
		}
		if key == "maxdepth" {
			f.maxDepth = int(n)
		} else {
			f.minDepth = int(n)
		}
	case "grep":
		re, err := CompilePython(text, 0)
		if err != nil {
			return fmt.Errorf("invalid regular expression: \"%s\"", text)
		}
		f.test(func(path, _ string, st *syscall.Stat_t) bool {
			if uint32(st.Mode)&syscall.S_IFMT != syscall.S_IFREG {
				return false
			}
			found := false
			_ = scanLines(path, func(line string) bool {
				m, err := re.Search(line)
				found = err == nil && m != nil
				return !found
			})
			return found
		})
	case "print":
		return f.printer(text)
	case "delete":
		kinds, err := fileKinds(v)
		if err != nil {
			return err
		}
		f.actions = append(f.actions, func(_ context.Context, path string, st *syscall.Stat_t) (any, bool) {
			if !kinds[uint32(st.Mode)&syscall.S_IFMT] {
				return nil, false
			}
			return path, os.RemoveAll(path) == nil
		})
	case "exec":
		f.actions = append(f.actions, func(ctx context.Context, path string, _ *syscall.Stat_t) (any, bool) {
			line := strings.ReplaceAll(text, "{}", quoteShell(path))
			res, err := runProgram(ctx, program{args: []string{"/bin/sh", "-c", line}, umask: -1, empty: true, dir: "/"})
			if err != nil || len(res.stderr) > 0 {
				c.Log.Error(fmt.Sprintf("Failed to execute command \"%s\"", line))
				return nil, false
			}
			return line + ":\n" + string(res.stdout) + "\n", true
		})
	default:
		if strings.HasPrefix(key, "_") {
			return nil
		}
		return fmt.Errorf("invalid option \"%s\"", key)
	}
	return nil
}

func splitNames(v any) []string {
	if l, ok := v.(*List); ok {
		return toStrings(l)
	}
	return toStrings(Str(v))
}

// fileKinds reads letters as find(1) has them: f d l b c p s.
func fileKinds(v any) (map[uint32]bool, error) {
	letters := map[string]uint32{"b": syscall.S_IFBLK, "c": syscall.S_IFCHR, "d": syscall.S_IFDIR, "f": syscall.S_IFREG, "l": syscall.S_IFLNK, "p": syscall.S_IFIFO, "s": syscall.S_IFSOCK}
	out := map[uint32]bool{}
	for _, letter := range strings.Split(strings.ReplaceAll(strings.Join(splitNames(v), ""), ",", ""), "") {
		kind, ok := letters[letter]
		if !ok {
			return nil, fmt.Errorf("invalid file type \"%s\"", letter)
		}
		out[kind] = true
	}
	return out, nil
}

// sizeRange reads sizes like +1m, -4k or 10: at least, at most, about.
func sizeRange(text string) (least, most int64, err error) {
	m := regexp.MustCompile(`^([<>+-]?)\s*(\d+)\s*([bkmgtBKMGT]?)$`).FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return 0, 0, fmt.Errorf("invalid size value: \"%s\"", text)
	}
	n, err := strconv.ParseInt(m[2], 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("invalid size value: \"%s\"", text)
	}
	unit := map[string]int64{"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}[strings.ToLower(m[3])]
	size := n * unit
	switch m[1] {
	case "-", "<":
		return 0, size, nil
	case "+", ">":
		return size, 1<<63 - 1, nil
	}
	return size, size + unit - 1, nil
}

// timeRange reads intervals like 5d, +1w, -2h30m, counted back from now: at
// least as old, with a minus at most.
func timeRange(text string) (least, most float64, err error) {
	s := strings.TrimSpace(text)
	sign := ""
	if s != "" && strings.ContainsAny(s[:1], "+-<>") {
		sign, s = s[:1], s[1:]
	}
	m := regexp.MustCompile(`(?i)^\s*(?:(\d+(?:\.\d*)?)w)?\s*(?:(\d+(?:\.\d*)?)d)?\s*(?:(\d+(?:\.\d*)?)h)?\s*(?:(\d+(?:\.\d*)?)m)?\s*(?:(\d+(?:\.\d*)?)s)?\s*$`).FindStringSubmatch(s)
	if m == nil || strings.TrimSpace(s) == "" {
		return 0, 0, fmt.Errorf("invalid time interval: \"%s\"", text)
	}
	seconds, resolution := 0.0, 1.0
	for i, unit := range []float64{604800, 86400, 3600, 60, 1} {
		if m[i+1] != "" {
			n, _ := strconv.ParseFloat(m[i+1], 64)
			seconds, resolution = seconds+n*unit, unit
		}
	}
	since := float64(time.Now().UnixNano())/1e9 - math.Trunc(seconds/resolution)*resolution
	if sign == "-" || sign == "<" {
		return since, math.Inf(1), nil
	}
	return 0, since, nil
}

// printer adds the action that returns facts of a file: path, name, size, …
func (f *finder) printer(text string) error {
	columns := strings.Split(strings.ReplaceAll(text, " ", ","), ",")
	for i := range columns {
		columns[i] = strings.TrimSpace(columns[i])
		switch columns[i] {
		case "group", "md5", "mode", "mtime", "name", "path", "size", "type", "user":
		default:
			return fmt.Errorf("invalid print value: \"%s\"", columns[i])
		}
	}
	fact := func(column, path string, st *syscall.Stat_t) any {
		switch column {
		case "group":
			return gidToGroup(int64(st.Gid))
		case "user":
			return uidToUser(int64(st.Uid))
		case "md5":
			if uint32(st.Mode)&syscall.S_IFMT != syscall.S_IFREG {
				return ""
			}
			sum, _ := hashFile(path, "md5")
			return sum
		case "mode":
			return int64(st.Mode) & 0o7777
		case "mtime":
			return int64(statTime(st.Mtim))
		case "name":
			return filepath.Base(path)
		case "size":
			return st.Size
		case "type":
			return map[uint32]string{syscall.S_IFBLK: "b", syscall.S_IFCHR: "c", syscall.S_IFDIR: "d", syscall.S_IFREG: "f", syscall.S_IFLNK: "l", syscall.S_IFIFO: "p", syscall.S_IFSOCK: "s"}[uint32(st.Mode)&syscall.S_IFMT]
		}
		return path
	}
	f.actions = append(f.actions, func(_ context.Context, path string, st *syscall.Stat_t) (any, bool) {
		if len(columns) == 1 {
			return fact(columns[0], path, st), true
		}
		row := &List{}
		for _, column := range columns {
			row.Append(fact(column, path, st))
		}
		return row, true
	})
	return nil
}
