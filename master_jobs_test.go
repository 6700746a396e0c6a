// The job cache keeps what was filed, through torn writes and limits.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const testJID = "20240131093000123456"

func testLoad(fun string) *Map {
	return NewMap("fun", fun, "arg", NewList("x"), "tgt", "*", "tgt_type", "glob", "user", "root", "jid", testJID)
}

func mustBegin(t testing.TB, c *JobCache, jid string, minions ...string) {
	t.Helper()
	if err := c.Begin(jid, testLoad("test.ping"), minions, false); err != nil {
		t.Fatal(err)
	}
}

func mustReturn(t testing.TB, c *JobCache, jid, id string, v any) bool {
	t.Helper()
	first, err := c.Return(jid, id, NewMap("return", v, "retcode", int64(0), "success", true))
	if err != nil {
		t.Fatal(err)
	}
	return first
}

func TestJobsAreReadBackAsFiled(t *testing.T) {
	dir := t.TempDir()
	c := OpenJobCache(dir, JobCacheOptions{})
	if c.Known(testJID) {
		t.Error("a job that never was is known")
	}
	mustBegin(t, c, testJID, "a", "b")
	if !mustReturn(t, c, testJID, "a", NewMap("k", "v")) || mustReturn(t, c, testJID, "a", "again") {
		t.Error("a second return counts as the first, or the first does not")
	}
	if err := c.AddMinions(testJID, []string{"b", "c"}); err != nil {
		t.Fatal(err)
	}
	// Another program, and the next life of the master, read the same.
	for _, r := range []*JobCache{c, OpenJobCache(dir, JobCacheOptions{})} {
		j, err := r.Load(testJID)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(j.Minions, []string{"a", "b", "c"}) {
			t.Errorf("minions %v", j.Minions)
		}
		wantValue(t, "load", j.Load, testLoad("test.ping"))
		wantValue(t, "returns", j.Returns, NewMap("a", NewMap("return", NewMap("k", "v"), "retcode", int64(0), "success", true)))
		if j.Start.Format("15:04:05") != "09:30:00" || time.Since(j.End) > time.Minute {
			t.Errorf("start %v, end %v", j.Start, j.End)
		}
		if mustReturn(t, r, testJID, "a", "again") {
			t.Error("a return that was filed before counts again")
		}
	}
	if _, err := c.Load("20240131093000999999"); !errors.Is(err, ErrNoJob) {
		t.Errorf("unknown job: %v", err)
	}
	if _, err := c.Load("../../etc/passwd"); err == nil || errors.Is(err, ErrNoJob) {
		t.Errorf("a path: %v", err)
	}
	// One file for the job, one index for the day.
	var files []string
	filepath.WalkDir(dir, func(p string, d os.DirEntry, _ error) error {
		if !d.IsDir() {
			rel, _ := filepath.Rel(dir, p)
			files = append(files, rel)
		}
		return nil
	})
	if !slices.Equal(files, []string{"20240131/" + testJID, "20240131/index"}) {
		t.Errorf("files %v", files)
	}
}

// A power cut leaves half a record. What was before it is read, and the next
// record goes over it.
func TestTornTailIsIgnored(t *testing.T) {
	for cut := 1; cut < 40; cut += 7 {
		dir := t.TempDir()
		c := OpenJobCache(dir, JobCacheOptions{})
		mustBegin(t, c, testJID, "a", "b")
		mustReturn(t, c, testJID, "a", "one")
		path := c.path(testJID)
		st, _ := os.Stat(path)
		whole := st.Size()
		mustReturn(t, c, testJID, "b", strings.Repeat("two", 1000))
		st, _ = os.Stat(path)
		if err := os.Truncate(path, st.Size()-int64(cut)); err != nil {
			t.Fatal(err)
		}
		c = OpenJobCache(dir, JobCacheOptions{})
		j, err := c.Load(testJID)
		if err != nil || j.Returns.Len() != 1 || !j.Returns.Has("a") {
			t.Fatalf("cut %d: %v, %v", cut, j, err)
		}
		if !mustReturn(t, c, testJID, "b", "2") {
			t.Errorf("cut %d: the torn return counts", cut)
		}
		j, err = OpenJobCache(dir, JobCacheOptions{}).Load(testJID)
		if err != nil || j.Returns.Map("b").Str("return") != "2" {
			t.Errorf("cut %d: %v, %v", cut, Repr(j.Returns), err)
		}
		st, _ = os.Stat(path)
		if st.Size() >= whole+1000 {
			t.Errorf("cut %d: the torn record is still in the file", cut)
		}
	}
}

// A file of the right name that is something else is not read.
func TestJobFileMustBeAFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "20240131"), 0o755); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "20240131", testJID)); err != nil {
		t.Fatal(err)
	}
	c := OpenJobCache(dir, JobCacheOptions{})
	if _, err := c.Load(testJID); err == nil {
		t.Error("a link was read")
	}
	if err := c.Begin(testJID, testLoad("x"), nil, false); err == nil {
		t.Error("a link was written through")
	}
	if p, _ := os.ReadFile(secret); string(p) != "x" {
		t.Error("the file behind the link changed")
	}
}

// The state of old jobs is forgotten, while many write to few jobs.
func TestJobStateIsBounded(t *testing.T) {
	c := OpenJobCache(t.TempDir(), JobCacheOptions{})
	now := time.Now()
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range jobsInMemory/4 + 20 {
				jid := jidAt(now, i*5+w%5)
				if _, err := c.Return(jid, fmt.Sprint("m", w), NewMap("return", int64(i))); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	if len(c.open) > jobsInMemory || len(c.order) != len(c.open) {
		t.Errorf("%d states, %d in order", len(c.open), len(c.order))
	}
	held := 0
	for _, s := range c.open {
		held += len(s.returned)
		if s.users != 0 {
			t.Error("a state is still in use")
		}
	}
	if int64(held) != c.held.Load() {
		t.Errorf("%d ids held, %d counted", held, c.held.Load())
	}
	if mustReturn(t, c, jidAt(now, 0), "m0", 1) {
		t.Error("a return to a job that was forgotten counts again")
	}
}

func TestJobCacheOff(t *testing.T) {
	dir := t.TempDir()
	c := OpenJobCache(dir, JobCacheOptions{Off: true})
	mustBegin(t, c, testJID, "a")
	if !mustReturn(t, c, testJID, "a", 1) || mustReturn(t, c, testJID, "a", 1) {
		t.Error("returns are not told apart")
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("something was written: %v", entries)
	}
	// nocache is the same for one job.
	c = OpenJobCache(dir, JobCacheOptions{})
	if err := c.Begin(testJID, testLoad("x"), []string{"a"}, true); err != nil {
		t.Fatal(err)
	}
	mustReturn(t, c, testJID, "a", 1)
	if _, err := c.Load(testJID); !errors.Is(err, ErrNoJob) {
		t.Errorf("a job with nocache was written: %v", err)
	}
}

func jidAt(at time.Time, n int) string { return NewJID(at.Add(time.Duration(n) * time.Microsecond)) }

func TestJobsExpire(t *testing.T) {
	c := OpenJobCache(t.TempDir(), JobCacheOptions{Keep: time.Hour})
	now := time.Now()
	old, fresh, late := jidAt(now.Add(-50*time.Hour), 0), jidAt(now, 0), jidAt(now.Add(-50*time.Hour), 1)
	for _, jid := range []string{old, fresh, late} {
		mustBegin(t, c, jid, "a")
	}
	past := now.Add(-50 * time.Hour)
	if err := os.Chtimes(c.path(old), past, past); err != nil {
		t.Fatal(err)
	}
	// A job id of a clock that was wrong does not make the job old.
	if n, err := c.Clean(now); n != 1 || err != nil {
		t.Errorf("%d removed, %v", n, err)
	}
	for jid, want := range map[string]bool{old: false, fresh: true, late: true} {
		if _, err := c.Load(jid); (err == nil) != want {
			t.Errorf("%s: %v", jid, err)
		}
	}
	if err := os.Chtimes(c.path(late), past, past); err != nil {
		t.Fatal(err)
	}
	if n, _ := c.Clean(now); n != 1 {
		t.Errorf("%d removed", n)
	}
	if days, _ := c.jobDays(); len(days) != 1 {
		t.Errorf("days left: %v", days)
	}
	if !mustReturn(t, c, fresh, "a", 1) {
		t.Error("the job that stayed takes no return")
	}
}

func TestJobLimits(t *testing.T) {
	c := OpenJobCache(t.TempDir(), JobCacheOptions{MaxJobs: 20})
	now := time.Now()
	for i := range 30 {
		mustBegin(t, c, jidAt(now, i), "a")
	}
	if !c.Full() {
		t.Error("not full")
	}
	if _, err := c.Clean(now); err != nil {
		t.Fatal(err)
	}
	var left []string
	c.List(func(s JobSummary) bool { left = append(left, s.JID); return true })
	if n := len(c.readIndex(jidAt(now, 0)[:8])); n != 18 {
		t.Errorf("the index has %d jobs", n)
	}
	if len(left) != 18 || left[len(left)-1] != jidAt(now, 29) || c.Full() {
		t.Errorf("%d left, full %v", len(left), c.Full())
	}
	c = OpenJobCache(t.TempDir(), JobCacheOptions{MaxBytes: 100_000})
	for i := range 20 {
		mustBegin(t, c, jidAt(now, i), "a")
		mustReturn(t, c, jidAt(now, i), "a", strings.Repeat("x", 10_000))
	}
	if !c.Full() {
		t.Error("not full")
	}
	if _, err := c.Clean(now); err != nil {
		t.Fatal(err)
	}
	if jobs, size := c.Size(); size > 90_000 || jobs == 0 {
		t.Errorf("%d jobs of %d bytes left", jobs, size)
	}
	// The running master cleans by itself.
	m := startMaster(t, "job_cache_max_jobs", int64(10), "loop_interval", 0.05)
	m.accepted(t, "a", 1)
	for range 15 {
		m.publishAsOwner(t, "a", "glob", "test.ping")
	}
	eventually(t, "cleaning", func() bool { n, _ := m.jobs.Size(); return n <= 10 })
}

func TestListWithoutIndex(t *testing.T) {
	c := OpenJobCache(t.TempDir(), JobCacheOptions{})
	now := time.Now()
	for i := range 10 {
		mustBegin(t, c, jidAt(now, i), "a")
	}
	big := jidAt(now, 10)
	load := testLoad("state.apply")
	load.Set("arg", NewList(strings.Repeat("x", jobIndexedLoad)))
	if err := c.Begin(big, load, []string{"b"}, false); err != nil {
		t.Fatal(err)
	}
	list := func() (out []string) {
		c.List(func(s JobSummary) bool {
			out = append(out, fmt.Sprint(s.JID, s.Load.Value("fun"), s.Minions))
			return true
		})
		return out
	}
	with := list()
	if len(with) != 11 || with[10] != big+"state.apply[b]" {
		t.Fatalf("list: %v", with)
	}
	if err := os.WriteFile(filepath.Join(c.dir, big[:8], jobIndexName), []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if without := list(); !slices.Equal(with, without) {
		t.Errorf("without the index: %v", without)
	}
}

// Salt's own `salt` looks for the job that it just published in Salt's layout.
func TestNewestJobsInSaltsLayout(t *testing.T) {
	dir := t.TempDir()
	c := OpenJobCache(dir, JobCacheOptions{View: 2})
	now := time.Now()
	for i := range 3 {
		if err := c.Show(jidAt(now, i), testLoad("test.ping"), []string{"a", "b"}); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []bool{false, true, true} {
		d := c.viewDir(jidAt(now, i))
		p, err := os.ReadFile(filepath.Join(d, ".load.p"))
		if (err == nil) != want {
			t.Fatalf("job %d: %v", i, err)
		}
		if !want {
			continue
		}
		if v, err := DecodeBin(p); err != nil || v.(*Map).Str("fun") != "test.ping" {
			t.Errorf("load: %v, %v", v, err)
		}
		p, _ = os.ReadFile(filepath.Join(d, ".minions.p"))
		if v, err := DecodeBin(p); err != nil || !Equal(v, NewList("a", "b")) {
			t.Errorf("minions: %v, %v", v, err)
		}
		if p, _ := os.ReadFile(filepath.Join(d, "jid")); string(p) != jidAt(now, i) {
			t.Errorf("jid: %s", p)
		}
	}
	// The directory is the one that Salt computes.
	var file struct {
		Dirs []struct {
			JID      string
			HashType string `json:"hash_type"`
			Dir      string
		} `json:"jid_dir"`
	}
	readVectors(t, "events", &file)
	for _, v := range file.Dirs {
		if got := OpenJobCache("x", JobCacheOptions{HashType: v.HashType}).viewDir(v.JID); got != "x/"+v.Dir {
			t.Errorf("directory of %s by %s: %s", v.JID, v.HashType, got)
		}
	}
	if _, err := OpenJobCache(dir, JobCacheOptions{Keep: time.Hour}).Clean(now.Add(100 * time.Hour)); err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if len(e.Name()) == 2 {
			t.Errorf("%s is left", e.Name())
		}
	}
}

func BenchmarkJobReturn(b *testing.B) {
	c := OpenJobCache(b.TempDir(), JobCacheOptions{})
	mustBegin(b, c, testJID)
	i := 0
	for b.Loop() {
		mustReturn(b, c, testJID, fmt.Sprintf("minion-%d", i), true)
		i++
	}
}

// BenchmarkListJobs lists 20,000 jobs, the promise being one second at most.
func BenchmarkListJobs(b *testing.B) {
	c := OpenJobCache(b.TempDir(), JobCacheOptions{})
	now := time.Now()
	for i := range 20_000 {
		mustBegin(b, c, jidAt(now, i), "a", "b", "c")
	}
	for b.Loop() {
		n := 0
		if err := OpenJobCache(c.dir, JobCacheOptions{}).List(func(JobSummary) bool { n++; return true }); err != nil || n != 20_000 {
			b.Fatalf("%d jobs, %v", n, err)
		}
	}
}
