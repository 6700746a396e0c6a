// Listing and cleaning of the job cache, and its view in Salt's own layout.
package main

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// JobSummary is a job without its returns.
type JobSummary struct {
	JID     string
	Load    *Map
	Minions []string
}

// jobDays lists the days that have jobs, oldest first.
func (c *JobCache) jobDays() ([]string, error) {
	entries, err := os.ReadDir(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	var days []string
	for _, e := range entries {
		if e.IsDir() && isDay(e.Name()) {
			days = append(days, e.Name())
		}
	}
	slices.Sort(days)
	return days, nil
}

func isDay(name string) bool {
	if len(name) != 8 {
		return false
	}
	for i := range len(name) {
		if name[i] < '0' || name[i] > '9' {
			return false
		}
	}
	return true
}

// jidsOf lists the jobs of a day, oldest first.
func (c *JobCache) jidsOf(day string) ([]string, error) {
	d, err := os.Open(filepath.Join(c.dir, day))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return ValidJID(n) != nil || n[:8] != day })
	slices.Sort(names)
	return names, nil
}

// List calls each with every job, oldest first, until it returns false.
func (c *JobCache) List(each func(JobSummary) bool) error {
	days, err := c.jobDays()
	if err != nil {
		return err
	}
	for _, day := range days {
		jids, err := c.jidsOf(day)
		if errors.Is(err, fs.ErrNotExist) {
			continue // cleaned meanwhile
		}
		if err != nil {
			return fmt.Errorf("list jobs: %w", err)
		}
		known := c.readIndex(day)
		for _, jid := range jids {
			sum, ok := known[jid]
			if !ok {
				if sum, ok = c.summary(jid); !ok {
					continue
				}
			}
			if !each(sum) {
				return nil
			}
		}
	}
	return nil
}

// readIndex reads the index of a day.
func (c *JobCache) readIndex(day string) map[string]JobSummary {
	known := map[string]JobSummary{}
	f, err := openRegular(filepath.Join(c.dir, day, jobIndexName))
	if err != nil {
		return known
	}
	defer f.Close()
	scanJob(bufio.NewReaderSize(f, 256<<10), func(rec *Map) error {
		if sum, ok := jobSummary(rec.Str("jid"), rec); ok {
			known[sum.JID] = sum
		}
		return nil
	})
	return known
}

func jobSummary(jid string, rec *Map) (JobSummary, bool) {
	load := rec.Map("load")
	if load == nil {
		return JobSummary{}, false
	}
	sum := JobSummary{JID: jid, Load: load}
	for _, v := range toItems(rec.Value("minions")) {
		sum.Minions = append(sum.Minions, Str(v))
	}
	return sum, true
}

// errFirst ends a scan after the first record.
var errFirst = errors.New("first record")

// summary reads the first record of a job.
func (c *JobCache) summary(jid string) (sum JobSummary, ok bool) {
	f, err := openRegular(c.path(jid))
	if err != nil {
		return sum, false
	}
	defer f.Close()
	scanJob(f, func(rec *Map) error {
		sum, ok = jobSummary(jid, rec)
		return errFirst
	})
	return sum, ok
}

// Clean removes what is too old, then the oldest jobs until the limits on number
// and bytes hold. It also counts, so that Full is right afterwards.
func (c *JobCache) Clean(now time.Time) (removed int, err error) {
	c.cleanView(now)
	days, err := c.jobDays()
	if err != nil {
		return 0, err
	}
	type file struct {
		jid  string
		size int64
	}
	var files []file
	var total int64
	thinned := map[string]bool{} // days that lost jobs, but not all
	for _, day := range days {
		jids, err := c.jidsOf(day)
		if err != nil {
			continue
		}
		kept := 0
		for _, jid := range jids {
			st, err := os.Lstat(c.path(jid))
			if err != nil {
				continue
			}
			started, _ := JIDTime(jid)
			if c.o.Keep > 0 && now.Sub(started) > c.o.Keep && now.Sub(st.ModTime()) > c.o.Keep {
				c.remove(jid)
				removed++
				thinned[day] = true
				continue
			}
			kept++
			files = append(files, file{jid, st.Size()})
			total += st.Size()
		}
		if kept == 0 {
			// The index alone is left. A job of this day that begins right now makes
			// the directory again.
			os.Remove(filepath.Join(c.dir, day, jobIndexName))
			os.Remove(filepath.Join(c.dir, day))
			delete(thinned, day)
			continue
		}
		if st, err := os.Lstat(filepath.Join(c.dir, day, jobIndexName)); err == nil {
			total += st.Size()
		}
	}
	// Below the limit by a tenth, so that not every job cleans again.
	overJobs := c.o.MaxJobs > 0 && len(files) > c.o.MaxJobs
	overBytes := c.o.MaxBytes > 0 && total > c.o.MaxBytes
	for len(files) > 0 && (overJobs && len(files) > c.o.MaxJobs*9/10 || overBytes && total > c.o.MaxBytes*9/10) {
		c.remove(files[0].jid)
		thinned[files[0].jid[:8]] = true
		total -= files[0].size
		files = files[1:]
		removed++
	}
	for day := range thinned {
		total -= c.thinIndex(day)
	}
	c.mu.Lock()
	c.jobs, c.bytes = len(files), total
	c.mu.Unlock()
	return removed, nil
}

// thinIndex takes jobs that are gone out of the index of a day and returns how
// many bytes that gave back. A job that begins meanwhile may be missing in the new
// index; it is found all the same.
func (c *JobCache) thinIndex(day string) int64 {
	path := filepath.Join(c.dir, day, jobIndexName)
	st, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	jids, err := c.jidsOf(day)
	if err != nil {
		return 0
	}
	if len(jids) == 0 {
		os.Remove(path)
		os.Remove(filepath.Dir(path))
		return st.Size()
	}
	known := c.readIndex(day)
	var out []byte
	for _, jid := range jids {
		sum, ok := known[jid]
		if !ok {
			continue
		}
		p, err := jobRecord(NewMap("jid", jid, "load", sum.Load, "minions", Strings(sum.Minions)))
		if err != nil {
			return 0
		}
		out = append(out, p...)
	}
	if writeFileReplace(path, out, 0o640) != nil {
		return 0
	}
	return st.Size() - int64(len(out))
}

// remove deletes a job. Its state goes too, so that a late return begins anew.
func (c *JobCache) remove(jid string) {
	s, unlock := c.lock(jid)
	defer unlock()
	os.Remove(c.path(jid))
	c.held.Add(-int64(len(s.returned)))
	s.loaded, s.end, s.returned = false, 0, nil
}

// Full says whether a limit is passed and Clean has to run.
func (c *JobCache) Full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.o.MaxJobs > 0 && c.jobs > c.o.MaxJobs || c.o.MaxBytes > 0 && c.bytes > c.o.MaxBytes
}

// Size is the number of jobs and their bytes, as of the last Clean and since.
func (c *JobCache) Size() (jobs int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jobs, c.bytes
}

// viewDir is a job's directory in Salt's layout.
func (c *JobCache) viewDir(jid string) string {
	h := hashByName(c.o.HashType)
	h.Write([]byte(jid))
	sum := hex.EncodeToString(h.Sum(nil))
	return filepath.Join(c.dir, sum[:2], sum[2:])
}

// Show puts the load of a job that was just published where Salt's own programs
// look for it. They only have to find it there while they wait for the job, so
// the newest few are enough.
func (c *JobCache) Show(jid string, load *Map, minions []string) error {
	if c.o.View <= 0 {
		return nil
	}
	dir := c.viewDir(jid)
	err := os.MkdirAll(dir, 0o755)
	for _, f := range []struct {
		name string
		v    any
	}{{".load.p", load}, {".minions.p", Strings(minions)}} {
		if err != nil {
			break
		}
		var p []byte
		if p, err = EncodeBin(f.v); err == nil {
			err = os.WriteFile(filepath.Join(dir, f.name), p, 0o640)
		}
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "jid"), []byte(jid), 0o640)
	}
	c.mu.Lock()
	c.view = append(c.view, dir)
	var old string
	if len(c.view) > c.o.View {
		old, c.view = c.view[0], c.view[1:]
	}
	c.mu.Unlock()
	if old != "" {
		removeView(old)
	}
	if err != nil {
		return fmt.Errorf("write job %s in salt's layout: %w", jid, err)
	}
	return nil
}

func removeView(dir string) {
	os.RemoveAll(dir)
	os.Remove(filepath.Dir(dir)) // only if it was the last in there
}

// cleanView removes directories in Salt's layout that this process doesn't know,
// after the time for jobs: an earlier life or Salt's own master left them.
func (c *JobCache) cleanView(now time.Time) {
	keep := cmp.Or(c.o.Keep, 24*time.Hour)
	tops, _ := os.ReadDir(c.dir)
	for _, top := range tops {
		if len(top.Name()) != 2 || !top.IsDir() {
			continue
		}
		subs, _ := os.ReadDir(filepath.Join(c.dir, top.Name()))
		for _, sub := range subs {
			if st, err := sub.Info(); err == nil && st.IsDir() && now.Sub(st.ModTime()) > keep {
				removeView(filepath.Join(c.dir, top.Name(), sub.Name()))
			}
		}
	}
}
