// State module file: what removes by age, size or emptiness.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type fileTidiedArgs struct {
	Name                   string
	Age                    int64  `def:"0"`
	Matches                any    `def:"None"`
	Rmdirs                 bool   `def:"False"`
	Size                   any    `def:"0"`
	Exclude                any    `def:"None"`
	FullPathMatch          bool   `def:"False"`
	Followlinks            bool   `def:"False"`
	TimeComparison         any    `def:"atime"`
	AgeSizeLogicalOperator string `def:"OR"`
	AgeSizeOnly            string `def:"None"`
	Rmlinks                bool   `def:"True"`
	Kwargs                 *Map   `arg:"**kwargs"`
}

func fileStateTidied(ctx context.Context, c *Call, a fileTidiedArgs) (any, error) {
	name := expandUser(a.Name)
	ret := stateReturn(name, true, "")
	if !filepath.IsAbs(name) {
		return stateSay(ret, false, "Specified file %s is not an absolute path", name)
	}
	if !isDir(name) {
		return stateSay(ret, false, "%s does not exist or is not a directory.", name)
	}
	rule, err := newTidyRule(a)
	if err != nil {
		return nil, err
	}
	todelete := rule.walk(name)
	if len(todelete) == 0 {
		ret.Set("comment", fmt.Sprintf("Nothing to remove from directory %s", name))
		return ret, nil
	}
	if c.Testing() {
		return stateChanged(name, nil, fmt.Sprintf("%s is set for tidy", name), NewMap("removed", Strings(todelete))), nil
	}
	removed := NewList()
	ret.Map("changes").Set("removed", removed)
	for _, p := range todelete {
		if _, err := c.Run(ctx, "file.remove", p); err != nil {
			return stateSay(ret, false, "%s", errText(err))
		}
		removed.Append(p)
	}
	ret.Set("comment", fmt.Sprintf("Removed %d files or directories from directory %s", len(todelete), name))
	return ret, nil
}

// tidyRule says what file.tidied removes.
type tidyRule struct {
	a               fileTidiedArgs
	size            int64
	matches, except []*PyRegexp
	today           time.Time // midnight
}

func newTidyRule(a fileTidiedArgs) (*tidyRule, error) {
	r := &tidyRule{a: a, today: dayOf(time.Now())}
	var err error
	if r.size, err = sizeInBytes(a.Size); err != nil {
		return nil, err
	}
	patterns := []string{".*"}
	if a.Matches != nil {
		patterns = textList(a.Matches)
	}
	if r.matches, err = compilePatterns(patterns); err != nil {
		return nil, err
	}
	if Truth(a.Exclude) {
		r.except, err = compilePatterns(textList(a.Exclude))
	}
	return r, err
}

func compilePatterns(patterns []string) ([]*PyRegexp, error) {
	var out []*PyRegexp
	for _, p := range patterns {
		re, err := compileForModule(p, 0)
		if err != nil {
			return nil, err
		}
		out = append(out, re)
	}
	return out, nil
}

func anyMatches(list []*PyRegexp, s string) bool {
	for _, re := range list {
		if m, err := re.Match(s); err == nil && m != nil {
			return true
		}
	}
	return false
}

// dayOf is the day of a time as a time whose differences are whole days.
func dayOf(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
}

// walk lists what is to go below a directory, the innermost first.
func (r *tidyRule) walk(dir string) []string {
	dirs, files, below := readDirSplit(dir)
	if r.a.Followlinks {
		below = nil
		for _, d := range dirs {
			below = append(below, filepath.Join(dir, d))
		}
	}
	var out []string
	for _, p := range below {
		out = append(out, r.walk(p)...)
	}
	for _, elem := range append(files, dirs...) {
		if r.removes(filepath.Join(dir, elem), elem) {
			out = append(out, filepath.Join(dir, elem))
		}
	}
	return out
}

func (r *tidyRule) removes(path, elem string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	kind, bytes := true, int64(0)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		kind = r.a.Rmlinks
	case info.IsDir():
		kind = r.a.Rmdirs
	default:
		bytes = info.Size()
	}
	text := elem
	if r.a.FullPathMatch {
		text = path
	}
	return kind && r.due(r.days(info), bytes) && anyMatches(r.matches, text) && !anyMatches(r.except, text)
}

// days is the age of a file by the time that the rule compares.
func (r *tidyRule) days(info fs.FileInfo) int64 {
	st := info.Sys().(*syscall.Stat_t)
	when := st.Atim
	switch strings.ToLower(Str(r.a.TimeComparison)) {
	case "ctime":
		when = st.Ctim
	case "mtime":
		when = st.Mtim
	}
	days := int64(r.today.Sub(dayOf(time.Unix(int64(when.Sec), int64(when.Nsec)))).Hours() / 24)
	if days < 0 {
		return -days
	}
	return days
}

// due weighs age and size of a file.
func (r *tidyRule) due(days, bytes int64) bool {
	old, large := days >= r.a.Age, bytes >= r.size
	switch only := strings.ToLower(r.a.AgeSizeOnly); {
	case only == "age":
		return old
	case only == "size":
		return large
	case strings.EqualFold(r.a.AgeSizeLogicalOperator, "AND"):
		return old && large
	}
	return old || large
}

// sizeInBytes reads a size: a number, or a text with a unit (metric: 1 kB is
// 1000, 1 KiB and 1 K are 1024).
func sizeInBytes(v any) (int64, error) {
	s, ok := v.(string)
	if !ok {
		n, _ := toInt(v)
		return n, nil
	}
	s = strings.TrimSpace(s)
	i := 0
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.') {
		i++
	}
	f, err := strconv.ParseFloat(s[:i], 64)
	if err != nil {
		return 0, nil
	}
	unit := strings.ToLower(strings.TrimSpace(s[i:]))
	power := strings.Index("kmgtpezy", strings.TrimRight(unit, "ib"))
	if unit == "" || unit == "b" {
		return int64(f), nil
	}
	if power < 0 {
		return 0, errors.New("size: unknown unit " + unit)
	}
	base := 1024.0
	if strings.HasSuffix(unit, "b") && !strings.HasSuffix(unit, "ib") {
		base = 1000
	}
	for range power + 1 {
		f *= base
	}
	return int64(f), nil
}

func fileStatePruned(ctx context.Context, c *Call, a struct {
	Name         string
	Recurse      bool `def:"False"`
	IgnoreErrors bool `def:"False"`
	OlderThan    any  `def:"None"`
}) (any, error) {
	name := expandUser(a.Name)
	ret := stateReturn(name, true, "")
	recurse := a.Recurse || a.IgnoreErrors
	if !isDir(name) {
		ret.Set("comment", fmt.Sprintf("Directory %s is not present", name))
		return ret, nil
	}
	if c.Testing() {
		return stateChanged(name, nil, fmt.Sprintf("Directory %s is set for removal", name), NewMap("deleted", name)), nil
	}
	v, err := c.RunKw(ctx, "file.rmdir", []any{name}, NewMap("recurse", recurse, "verbose", true, "older_than", a.OlderThan))
	if err != nil {
		return nil, err
	}
	res, _ := v.(*Map)
	result := res.Value("result")
	res.Delete("result")
	deleted := toItems(res.Value("deleted"))
	sorted := func() *List {
		names := texts(NewList(deleted...))
		sort.Strings(names)
		return Strings(names)
	}
	changes := ret.Map("changes")
	switch {
	case Truth(result):
		if recurse && len(deleted) > 0 {
			ret.Set("comment", fmt.Sprintf("Recursively removed empty directories under %s", name))
			changes.Set("deleted", sorted())
		} else if !recurse {
			ret.Set("comment", fmt.Sprintf("Removed directory %s", name))
			changes.Set("deleted", name)
		}
		return ret, nil
	case a.IgnoreErrors && len(deleted) > 0:
		ret.Set("comment", fmt.Sprintf("Recursively removed empty directories under %s", name))
		changes.Set("deleted", sorted())
		return ret, nil
	}
	return stateChanged(name, result, fmt.Sprintf("Failed to remove directory %s", name), res), nil
}

// fileStateRetention keeps backups by the first of each period.
func fileStateRetention(ctx context.Context, c *Call, a struct {
	Name           string
	Retain         *Map
	StrptimeFormat any `def:"None"`
	Timezone       any `def:"None"`
}) (any, error) {
	name, ret, ok := startFile("retention_schedule", a.Name, true)
	if !ok {
		return ret, nil
	}
	if !isDir(name) {
		return stateSay(ret, false, "Name provided to file.retention must be a directory")
	}
	type backup struct {
		file string
		t    time.Time
	}
	var all []backup
	var ignored []string
	v, err := c.Run(ctx, "file.readdir", name)
	if err != nil {
		return nil, err
	}
	for _, f := range toItems(v) {
		file := Str(f)
		if Truth(a.StrptimeFormat) {
			if t, err := time.Parse(goTimeLayout(Str(a.StrptimeFormat)), file); err == nil {
				all = append(all, backup{file, t})
				continue
			}
		} else if file != "." && file != ".." {
			if info, err := os.Lstat(filepath.Join(name, file)); err == nil {
				all = append(all, backup{file, info.ModTime()})
				continue
			}
		}
		ignored = append(ignored, file)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].t.Before(all[j].t) })
	retained := map[string]bool{}
	for rule, count := range a.Retain.All() {
		n := len(all)
		if count != "all" {
			k, _ := toInt(count)
			n = int(k)
		}
		period := func(t time.Time) string {
			switch rule {
			case "first_of_year":
				return t.Format("2006")
			case "first_of_month":
				return t.Format("2006-01")
			case "first_of_day":
				return t.Format("2006-01-02")
			case "first_of_hour":
				return t.Format("2006-01-02 15")
			case "first_of_week":
				_, w := t.ISOWeek()
				return fmt.Sprintf("%d %d", t.Year(), w)
			}
			return strconv.FormatInt(t.UnixNano(), 10)
		}
		if rule == "first_of_week" {
			n++
		}
		var firsts []backup
		seen := map[string]bool{}
		for _, b := range all {
			if p := period(b.t); !seen[p] {
				seen[p] = true
				firsts = append(firsts, b)
			}
		}
		for i := len(firsts) - 1; i >= 0 && n > 0; i, n = i-1, n-1 {
			retained[firsts[i].file] = true
		}
	}
	var keep, gone []string
	for _, b := range all {
		if retained[b.file] {
			keep = append(keep, b.file)
		} else {
			gone = append(gone, b.file)
		}
	}
	for _, l := range [][]string{keep, gone, ignored} {
		sort.Sort(sort.Reverse(sort.StringSlice(l)))
	}
	if len(gone) > 0 {
		ret.Set("changes", NewMap("retained", Strings(keep), "deleted", Strings(gone), "ignored", Strings(ignored)))
	}
	if c.Testing() {
		ret.Set("comment", fmt.Sprintf("%d backups would have been removed from %s.\n", len(gone), name))
		if len(gone) > 0 {
			ret.Set("result", nil)
		}
		return ret, nil
	}
	for _, f := range gone {
		if _, err := c.Run(ctx, "file.remove", filepath.Join(name, f)); err != nil {
			return nil, err
		}
	}
	ret.Set("comment", fmt.Sprintf("%d backups were removed from %s.\n", len(gone), name))
	return ret, nil
}

// goTimeLayout turns a strptime format into a layout of package time.
func goTimeLayout(format string) string {
	return strings.NewReplacer("%Y", "2006", "%m", "01", "%d", "02", "%H", "15", "%M", "04", "%S", "05", "%y", "06", "%b", "Jan", "%B", "January",
		"%a", "Mon", "%A", "Monday", "%I", "03", "%p", "PM", "%j", "002", "%f", "000000", "%z", "-0700", "%Z", "MST", "%%", "%").Replace(format)
}
