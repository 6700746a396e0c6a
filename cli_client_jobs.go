// Reading a job from the job cache of the master on this machine: ours, one
// file for each job, or that of Salt's own master, one directory for each.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const jobFileLimit = 1 << 30

// jobReader looks jobs up in both layouts.
type jobReader struct {
	dir      string
	hashType string
	cache    *JobCache
}

func newJobReader(o *Options) jobReader {
	dir := filepath.Join(o.Path("cachedir"), "jobs")
	return jobReader{dir: dir, hashType: o.Str("hash_type"), cache: OpenJobCache(dir, JobCacheOptions{HashType: o.Str("hash_type")})}
}

// load reads one job; ErrNoJob if neither layout has it.
func (r jobReader) load(jid string) (*Job, error) {
	job, err := r.cache.Load(jid)
	if !errors.Is(err, ErrNoJob) {
		return job, err
	}
	return r.loadSalts(jid)
}

// saltsDir is the directory of a job in Salt's layout.
func (r jobReader) saltsDir(jid string) string {
	h := hashByName(r.hashType)
	if h == nil {
		h = sha256.New()
	}
	h.Write([]byte(jid))
	sum := hex.EncodeToString(h.Sum(nil))
	return filepath.Join(r.dir, sum[:2], sum[2:])
}

func (r jobReader) loadSalts(jid string) (*Job, error) {
	if err := ValidJID(jid); err != nil {
		return nil, err
	}
	return r.loadSaltsDir(r.saltsDir(jid), jid)
}

func (r jobReader) loadSaltsDir(dir, jid string) (*Job, error) {
	load, ok := readPacked(filepath.Join(dir, ".load.p")).(*Map)
	if !ok {
		return nil, ErrNoJob
	}
	job := &Job{JID: jid, Load: load, Returns: NewMap()}
	job.Start, _ = JIDTime(jid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case strings.HasPrefix(name, ".minions") && strings.HasSuffix(name, ".p"):
			for _, v := range toItems(readPacked(filepath.Join(dir, name))) {
				job.Minions = append(job.Minions, Str(v))
			}
		case e.IsDir() && ValidMinionID(name) == nil:
			ret := readPacked(filepath.Join(dir, name, "return.p"))
			if ret == nil {
				continue
			}
			m, ok := ret.(*Map)
			if !ok || !m.Has("return") { // older releases kept the bare value
				m = NewMap("return", ret)
			}
			if out, ok := readPacked(filepath.Join(dir, name, "out.p")).(string); ok {
				m.Set("out", out)
			}
			job.Returns.Set(name, m)
			if st, err := os.Stat(filepath.Join(dir, name, "return.p")); err == nil && st.ModTime().After(job.End) {
				job.End = st.ModTime()
			}
		}
	}
	slices.Sort(job.Minions)
	job.Minions = slices.Compact(job.Minions)
	return job, nil
}

// readPacked reads a small MessagePack file; nil if there is none.
func readPacked(path string) any {
	raw, err := readRegular(path, jobFileLimit)
	if err != nil {
		return nil
	}
	v, err := DecodeBin(raw)
	if err != nil {
		return nil
	}
	return v
}

// list calls each with every job of both layouts, oldest first.
func (r jobReader) list(each func(JobSummary) bool) error {
	var all []JobSummary
	seen := map[string]bool{}
	err := r.cache.List(func(s JobSummary) bool {
		all = append(all, s)
		seen[s.JID] = true
		return true
	})
	if err != nil {
		return err
	}
	own := len(all)
	tops, err := os.ReadDir(r.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, top := range tops {
		if len(top.Name()) != 2 || !top.IsDir() {
			continue
		}
		subs, _ := os.ReadDir(filepath.Join(r.dir, top.Name()))
		for _, sub := range subs {
			dir := filepath.Join(r.dir, top.Name(), sub.Name())
			raw, err := readRegular(filepath.Join(dir, "jid"), 256)
			jid := strings.TrimSpace(string(raw))
			if err != nil || seen[jid] || ValidJID(jid) != nil {
				continue
			}
			if load, ok := readPacked(filepath.Join(dir, ".load.p")).(*Map); ok {
				all = append(all, JobSummary{JID: jid, Load: load})
			}
		}
	}
	if len(all) > own {
		slices.SortFunc(all, func(a, b JobSummary) int { return strings.Compare(a.JID, b.JID) })
	}
	for _, s := range all {
		if !each(s) {
			break
		}
	}
	return nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
