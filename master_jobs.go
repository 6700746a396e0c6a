// The job cache: what was asked of whom, and what they answered.
//
// The law of this room: one append-only file for each job, in a folder for the
// day of its job id: jobs/20240131/20240131093000123456. The first record is the
// job's load with the minions expected, then come the returns in the order in
// which they arrived. An append is one write; a record whose length or checksum
// is wrong ends the file (a power cut tore it), and the next append goes over it.
// A return counts once for a job and minion. Every day has an index of its jobs'
// loads beside them, so that listing thousands of jobs reads one file. Whoever
// writes also cleans: by age, by number and by bytes. Other programs on the
// machine may read at any time without asking.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	jobIndexName = "index"
	// jobIndexedLoad is the largest load that goes into the index of its day;
	// larger ones are read from their own file.
	jobIndexedLoad = 16 << 10
	// jobRecordLimit bounds what a reader believes of a length.
	jobRecordLimit = 1 << 30
	// jobsInMemory and returnsInMemory bound the state (who returned) that is kept
	// of jobs; of older ones it is read again when a late return comes.
	jobsInMemory    = 2048
	returnsInMemory = 200_000
)

// JobCacheOptions are the limits of a job cache; zero means none.
type JobCacheOptions struct {
	Keep     time.Duration // keep_jobs_seconds
	MaxJobs  int           // job_cache_max_jobs
	MaxBytes int64         // job_cache_max_bytes
	Off      bool          // job_cache: False; nothing is written
	// View is the number of newest jobs that are also written in Salt's own
	// layout: Salt's `salt` looks there for the job that it just published.
	View     int
	HashType string
	Log      *slog.Logger
}

// JobCache is a directory of jobs. Its methods may be called from many goroutines.
type JobCache struct {
	dir string
	o   JobCacheOptions

	held atomic.Int64 // ids in the returned of all states

	mu    sync.Mutex
	open  map[string]*jobState
	order []string // keys of open, oldest first
	view  []string // directories in Salt's layout, oldest first
	jobs  int      // in the directory, as far as counted
	bytes int64
}

// jobState is what a writer knows of a job.
type jobState struct {
	users int // under the mutex of the cache: while there are any, it stays

	mu       sync.Mutex
	loaded   bool
	end      int64 // where the next record goes
	noCache  bool  // nothing of this job is written
	returned map[string]struct{}
}

// Job is a job as read back.
type Job struct {
	JID     string
	Load    *Map     // the load as published, without keys
	Minions []string // who is expected to answer
	Returns *Map     // id → map with return, retcode, success, out …
	Start   time.Time
	End     time.Time // of the last return
}

// ErrNoJob is the error for a job that the cache doesn't have.
var ErrNoJob = errors.New("no such job in the job cache")

// OpenJobCache opens a directory of jobs; it need not exist.
func OpenJobCache(dir string, o JobCacheOptions) *JobCache {
	if o.HashType == "" {
		o.HashType = "sha256"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &JobCache{dir: dir, o: o, open: map[string]*jobState{}}
}

// path is the file of a job. The caller has checked the jid.
func (c *JobCache) path(jid string) string { return filepath.Join(c.dir, jid[:8], jid) }

// lock returns the state of a job, made at its first use, for the caller alone
// until it calls the function.
func (c *JobCache) lock(jid string) (*jobState, func()) {
	c.mu.Lock()
	s := c.open[jid]
	if s == nil {
		s = &jobState{}
		c.open[jid] = s
		c.order = append(c.order, jid)
		c.evict()
	}
	s.users++
	c.mu.Unlock()
	s.mu.Lock()
	return s, func() {
		s.mu.Unlock()
		c.mu.Lock()
		s.users--
		c.mu.Unlock()
	}
}

// evict forgets the oldest states beyond the limits. One that is in use stays:
// there must never be two of a job. The caller holds c.mu.
func (c *JobCache) evict() {
	for i := 0; i < len(c.order)-1 && (len(c.order) > jobsInMemory || c.held.Load() > returnsInMemory); {
		s := c.open[c.order[i]]
		if s.users > 0 {
			i++
			continue
		}
		c.held.Add(-int64(len(s.returned)))
		delete(c.open, c.order[i])
		c.order = slices.Delete(c.order, i, i+1)
	}
}

// readState fills the state from the file. The caller holds s.mu.
func (c *JobCache) readState(s *jobState, path string) error {
	if s.loaded {
		return nil
	}
	s.returned = map[string]struct{}{}
	f, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		s.loaded = true
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	s.end, err = scanJob(f, func(rec *Map) error {
		if id := rec.Str("id"); id != "" {
			s.returned[id] = struct{}{}
		}
		return nil
	})
	if err != nil {
		s.returned = nil
		return err
	}
	s.loaded = true
	c.held.Add(int64(len(s.returned)))
	return nil
}

// Begin files a new job: its load and the minions expected to answer. A job that
// exists keeps its first load.
func (c *JobCache) Begin(jid string, load *Map, minions []string, noCache bool) error {
	if err := ValidJID(jid); err != nil {
		return err
	}
	s, unlock := c.lock(jid)
	defer unlock()
	if c.o.Off || noCache {
		s.noCache = noCache
		if !s.loaded {
			s.loaded, s.returned = true, map[string]struct{}{}
		}
		return nil
	}
	if err := c.readState(s, c.path(jid)); err != nil {
		return fmt.Errorf("read job %s: %w", jid, err)
	}
	if s.end > 0 {
		return nil
	}
	rec := NewMap("load", load, "minions", Strings(minions), "time", unixFloat(time.Now()))
	if err := c.append(jid, s, rec, true); err != nil {
		return fmt.Errorf("write job %s: %w", jid, err)
	}
	return nil
}

// Known says whether the job was begun or has returns.
func (c *JobCache) Known(jid string) bool {
	if ValidJID(jid) != nil {
		return false
	}
	s, unlock := c.lock(jid)
	defer unlock()
	if c.readState(s, c.path(jid)) != nil {
		return false
	}
	return s.end > 0 || s.noCache
}

// AddMinions adds to the minions expected to answer, as a syndic reports them.
func (c *JobCache) AddMinions(jid string, minions []string) error {
	if err := ValidJID(jid); err != nil {
		return err
	}
	s, unlock := c.lock(jid)
	defer unlock()
	if err := c.readState(s, c.path(jid)); err != nil {
		return fmt.Errorf("read job %s: %w", jid, err)
	}
	if s.end == 0 || c.o.Off || s.noCache {
		return nil
	}
	return c.append(jid, s, NewMap("minions", Strings(minions)), false)
}

// Return files what a minion answered. It says whether this was the first answer
// of this minion to this job; a second one is not kept.
func (c *JobCache) Return(jid, id string, ret *Map) (first bool, err error) {
	if err := ValidJID(jid); err != nil {
		return false, err
	}
	s, unlock := c.lock(jid)
	defer unlock()
	if err := c.readState(s, c.path(jid)); err != nil {
		return false, fmt.Errorf("read job %s: %w", jid, err)
	}
	if _, ok := s.returned[id]; ok {
		return false, nil
	}
	if !c.o.Off && !s.noCache {
		rec := NewMap("id", id, "time", unixFloat(time.Now()))
		for _, k := range []string{"return", "retcode", "success", "out", "fun", "fun_args"} {
			if v, ok := ret.Get(k); ok {
				rec.Set(k, v)
			}
		}
		if err := c.append(jid, s, rec, false); err != nil {
			return false, fmt.Errorf("write return of %s to job %s: %w", id, jid, err)
		}
	}
	s.returned[id] = struct{}{}
	c.held.Add(1)
	return true, nil
}

// append writes one record at the end that was valid. The caller holds s.mu.
func (c *JobCache) append(jid string, s *jobState, rec *Map, first bool) error {
	p, err := jobRecord(rec)
	if err != nil {
		return err
	}
	path := c.path(jid)
	flags := os.O_WRONLY | os.O_CREATE | oNoFollow
	f, err := os.OpenFile(path, flags, 0o640)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o750); err == nil {
			f, err = os.OpenFile(path, flags, 0o640)
		}
	}
	if err != nil {
		return err
	}
	if s.end == 0 {
		c.mu.Lock()
		c.jobs++
		c.mu.Unlock()
	}
	_, err = f.WriteAt(p, s.end)
	if err == nil && s.end > 0 {
		// A torn tail of another life may be longer than this record.
		if st, serr := f.Stat(); serr == nil && st.Size() > s.end+int64(len(p)) {
			err = f.Truncate(s.end + int64(len(p)))
		}
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	s.end += int64(len(p))
	c.mu.Lock()
	c.bytes += int64(len(p))
	c.mu.Unlock()
	if first {
		c.index(jid, rec)
	}
	return nil
}

// index notes a job in the index of its day. It is only a short cut, so that a
// failure is no failure of the job.
func (c *JobCache) index(jid string, rec *Map) {
	entry := NewMap("jid", jid)
	entry.Merge(rec)
	p, err := jobRecord(entry)
	if err != nil || len(p) > jobIndexedLoad {
		return
	}
	f, err := os.OpenFile(filepath.Join(c.dir, jid[:8], jobIndexName), os.O_WRONLY|os.O_CREATE|os.O_APPEND|oNoFollow, 0o640)
	if err != nil {
		return
	}
	f.Write(p)
	f.Close()
}

// jobRecord is a record as it stands in a file: length, checksum, content.
func jobRecord(rec *Map) ([]byte, error) {
	p, err := EncodeBin(rec)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 8, 8+len(p))
	binary.BigEndian.PutUint32(out, uint32(len(p)))
	binary.BigEndian.PutUint32(out[4:], crc32.ChecksumIEEE(p))
	return append(out, p...), nil
}

// scanJob calls each with every good record from the start and returns where the
// good ones end. An error of each ends the scan and is returned.
func scanJob(r io.Reader, each func(rec *Map) error) (end int64, err error) {
	var head [8]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return end, nil
			}
			return end, err
		}
		n := binary.BigEndian.Uint32(head[:])
		if n > jobRecordLimit {
			return end, nil
		}
		p, err := io.ReadAll(io.LimitReader(r, int64(n)))
		if err != nil {
			return end, err
		}
		if len(p) < int(n) || crc32.ChecksumIEEE(p) != binary.BigEndian.Uint32(head[4:]) {
			return end, nil
		}
		v, err := DecodeBin(p)
		rec, ok := v.(*Map)
		if err != nil || !ok {
			return end, nil
		}
		if err := each(rec); err != nil {
			return end, err
		}
		end += 8 + int64(n)
	}
}

// Load reads a job with everything that came in.
func (c *JobCache) Load(jid string) (*Job, error) {
	if err := ValidJID(jid); err != nil {
		return nil, err
	}
	f, err := openRegular(c.path(jid))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoJob
	}
	if err != nil {
		return nil, fmt.Errorf("read job %s: %w", jid, err)
	}
	defer f.Close()
	j := &Job{JID: jid, Returns: NewMap()}
	j.Start, _ = JIDTime(jid)
	seen := map[string]struct{}{}
	_, err = scanJob(f, func(rec *Map) error {
		if load := rec.Map("load"); load != nil && j.Load == nil {
			j.Load = load
		}
		for _, v := range toItems(rec.Value("minions")) {
			if _, ok := seen[Str(v)]; !ok {
				seen[Str(v)] = struct{}{}
				j.Minions = append(j.Minions, Str(v))
			}
		}
		if id := rec.Str("id"); id != "" && !j.Returns.Has(id) {
			at, _ := rec.Value("time").(float64)
			j.End = time.UnixMicro(int64(at * 1e6))
			rec.Delete("id")
			rec.Delete("time")
			j.Returns.Set(id, rec)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read job %s: %w", jid, err)
	}
	if j.Load == nil {
		return nil, ErrNoJob
	}
	return j, nil
}

// Returns reads the answers to a job by minion; none if the job is unknown.
func (c *JobCache) Returns(jid string) (*Map, error) {
	j, err := c.Load(jid)
	if errors.Is(err, ErrNoJob) {
		return NewMap(), nil
	}
	if err != nil {
		return nil, err
	}
	return j.Returns, nil
}

// oNoFollow refuses a link in the place of a file, and never hands it to a child.
const oNoFollow = syscall.O_NOFOLLOW | syscall.O_CLOEXEC

// openRegular opens a file for reading if it is a regular one.
func openRegular(path string) (*os.File, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|oNoFollow, 0)
	if err != nil {
		return nil, err
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(st, now) {
		f.Close()
		return nil, fmt.Errorf("%s changed while it was opened", path)
	}
	return f, nil
}

// unixFloat is a time as Salt writes times into files.
func unixFloat(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
