// Jobs: which ones run, how many may, what they are ended by, and the files that
// tell other programs about them.
//
// The law of this file: a job has one goroutine and one context; ending a job
// is cancelling its context, and every process group it started gets the signal
// too. Control functions (find_job and the like) never wait for a free place,
// else a busy minion could not be asked what it does. A proc file describes a
// job while it runs and is worth nothing after: it is not synced to disk, and one
// whose process is gone is removed by whoever meets it.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

const (
	defaultJobs = 256  // running at one time where process_count_max sets no limit
	maxWaiting  = 1000 // jobs that wait for a place; more are refused
)

// minionJob is one job from its acceptance to its return.
type minionJob struct {
	jid   string
	owner any  // who started it
	load  *Map // pid and the publish load, as saltutil shows it
	procs *jobProcesses
	end   context.CancelCauseFunc
}

// jobTable are the jobs of one minion process: its JobControl.
type jobTable struct {
	dir string // of proc files; "" = none are written
	max int
	log *slog.Logger

	mu      sync.Mutex
	jobs    map[string]*minionJob
	order   []string // jids in the order they came
	running int
	waiting []chan struct{}
	closed  bool
	wg      sync.WaitGroup
}

func newJobTable(dir string, max int, log *slog.Logger) *jobTable {
	if max <= 0 {
		max = defaultJobs
	}
	return &jobTable{dir: dir, max: max, log: log, jobs: map[string]*minionJob{}}
}

// procDir is where a minion with these options keeps its proc files.
func procDir(o *Options) string { return filepath.Join(o.Path("cachedir"), "proc") }

// errBusy refuses a job.
var errBusy = errors.New("too many jobs")

// errStopping is the cause of jobs that end because the minion does.
var errStopping = errors.New("the minion was stopped while the job ran")

// controlFunction says whether a function must run on a minion that is full.
func controlFunction(fun string) bool {
	switch fun {
	case "saltutil.find_job", "saltutil.running", "saltutil.is_running", "saltutil.kill_job", "saltutil.term_job",
		"saltutil.signal_job", "saltutil.kill_all_jobs", "saltutil.term_all_jobs":
		return true
	}
	return false
}

// Start runs a job on a goroutine of its own, when there is a place for it. It
// returns errBusy when too many wait already, and false when the jid is known.
func (t *jobTable) Start(ctx context.Context, owner any, p *PublishLoad, run func(ctx context.Context)) (started bool, err error) {
	ctx, end := context.WithCancelCause(ctx)
	ctx, procs := withJobProcesses(ctx)
	j := &minionJob{jid: p.JID, owner: owner, procs: procs, end: end, load: NewMap("pid", int64(os.Getpid()))}
	j.load.Merge(p.Map)
	control := true
	for _, fun := range p.Funs {
		control = control && controlFunction(fun)
	}

	t.mu.Lock()
	if t.closed || t.jobs[j.jid] != nil {
		t.mu.Unlock()
		end(nil)
		return false, nil
	}
	var place chan struct{} // closed when the job may run
	switch {
	case control:
	case t.running < t.max:
		t.running++
	case len(t.waiting) >= maxWaiting:
		t.mu.Unlock()
		end(nil)
		return false, errBusy
	default:
		place = make(chan struct{})
		t.waiting = append(t.waiting, place)
	}
	t.jobs[j.jid] = j
	t.order = append(t.order, j.jid)
	t.wg.Add(1)
	t.mu.Unlock()

	go func() {
		defer t.wg.Done()
		defer end(nil)
		if place != nil {
			t.log.Warn(fmt.Sprintf("job %s waits: %d jobs run already (process_count_max)", j.jid, t.max))
			select {
			case <-place:
			case <-ctx.Done():
				// run still answers for the job, quickly, since its context
				// has ended.
			}
		}
		t.writeProcFile(j)
		run(ctx)
		t.finish(j, control, place)
	}()
	return true, nil
}

// finish takes a job off the table and gives its place to the next.
func (t *jobTable) finish(j *minionJob, control bool, place chan struct{}) {
	t.removeProcFile(j.jid)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.jobs, j.jid)
	for i, jid := range t.order {
		if jid == j.jid {
			t.order = append(t.order[:i], t.order[i+1:]...)
			break
		}
	}
	if control {
		return
	}
	if place != nil {
		for i, w := range t.waiting { // it was ended while it waited: it had no place
			if w == place {
				t.waiting = append(t.waiting[:i], t.waiting[i+1:]...)
				return
			}
		}
	}
	if len(t.waiting) > 0 {
		close(t.waiting[0])
		t.waiting = t.waiting[1:]
		return
	}
	t.running--
}

// Close takes no more jobs and ends those that run, with cause; nil lets them run on.
func (t *jobTable) Close(cause error) {
	t.mu.Lock()
	t.closed = true
	var ends []context.CancelCauseFunc
	for _, j := range t.jobs {
		ends = append(ends, j.end)
	}
	t.mu.Unlock()
	if cause != nil {
		for _, end := range ends {
			end(cause)
		}
	}
}

// Wait waits until all jobs have ended, or ctx has.
func (t *jobTable) Wait(ctx context.Context) bool {
	done := make(chan struct{})
	go func() { t.wg.Wait(); close(done) }()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// Running lists the jobs of this process, then those of others.
func (t *jobTable) Running() []*Map {
	t.mu.Lock()
	out := make([]*Map, 0, len(t.order))
	mine := map[string]bool{}
	for _, jid := range t.order {
		if j := t.jobs[jid]; j != nil {
			out = append(out, j.load.Clone())
			mine[jid] = true
		}
	}
	t.mu.Unlock()
	for _, load := range foreignJobs(t.dir) {
		if !mine[load.Str("jid")] {
			out = append(out, load)
		}
	}
	return out
}

// own lists the jobs that owner started.
func (t *jobTable) own(owner any) []*Map {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*Map
	for _, jid := range t.order {
		if j := t.jobs[jid]; j != nil && j.owner == owner {
			out = append(out, j.load)
		}
	}
	return out
}

// Find describes one running job, nil if it does not run.
func (t *jobTable) Find(jid string) *Map {
	for _, load := range t.Running() {
		if load.Str("jid") == jid {
			return load
		}
	}
	return nil
}

// Signal sends a signal to a job: to its process groups, and where the signal
// means the end, by cancelling it.
func (t *jobTable) Signal(jid string, signal int) (string, bool) {
	sig := syscall.Signal(signal)
	t.mu.Lock()
	j := t.jobs[jid]
	t.mu.Unlock()
	if j != nil {
		switch sig {
		case syscall.SIGTERM, syscall.SIGKILL, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGABRT:
			j.end(&JobSignal{sig}) // its processes get the signal with it
		default:
			j.procs.signal(sig)
		}
		return fmt.Sprintf("Signal %d sent to job %s at pid %d", signal, jid, os.Getpid()), true
	}
	load := t.Find(jid)
	pid, ok := toInt(load.Value("pid"))
	if load == nil || !ok || pid <= 1 {
		return "", false
	}
	if err := syscall.Kill(int(pid), sig); err != nil {
		return fmt.Sprintf("signal %d for job %s at pid %d: %v", signal, jid, pid, err), true
	}
	return fmt.Sprintf("Signal %d sent to job %s at pid %d", signal, jid, pid), true
}

// Proc files.

func (t *jobTable) writeProcFile(j *minionJob) {
	if t.dir == "" {
		return
	}
	if err := writeProcFile(t.dir, j.jid, j.load); err != nil {
		t.log.Warn(err.Error())
	}
}

func (t *jobTable) removeProcFile(jid string) {
	if t.dir != "" {
		_ = os.Remove(filepath.Join(t.dir, jid)) // gone already is as good
	}
}

// writeProcFile tells other programs about a job.
func writeProcFile(dir, jid string, load *Map) error {
	data, err := EncodeWire(load)
	if err == nil {
		err = writeFileQuick(filepath.Join(dir, jid), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the proc file of job %s: %w", jid, err)
	}
	return nil
}

// writeFileQuick is for what need not survive a power cut: written beside and
// renamed, so that readers see all or nothing, but not synced.
func writeFileQuick(path string, data []byte, mode os.FileMode) error {
	dir, name := filepath.Split(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp := filepath.Join(dir, "."+name+".new")
	if err := os.WriteFile(tmp, data, mode); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		_ = os.Remove(tmp)
		return err
	}
	return nil
}

// foreignJobs reads the proc files of other processes and removes those whose
// process is gone.
func foreignJobs(dir string) []*Map {
	entries, err := os.ReadDir(dir)
	if dir == "" || err != nil {
		return nil
	}
	var out []*Map
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		data, err := os.ReadFile(path)
		if err != nil || len(data) == 0 {
			continue
		}
		v, _ := DecodeWire(data)
		load, _ := v.(*Map)
		pid, _ := toInt(load.Value("pid"))
		switch {
		case pid == int64(os.Getpid()): // one of ours, if it still runs
		case pid > 1 && saltProcess(int(pid)):
			out = append(out, load)
		default:
			_ = os.Remove(path)
		}
	}
	return out
}

// saltProcess says whether a process exists and is one of Salt's: a number may
// have been given to another program since.
func saltProcess(pid int) bool {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		// Without /proc only the existence can be asked for.
		if _, perr := os.Stat("/proc/self"); perr != nil {
			return syscall.Kill(pid, 0) == nil
		}
		return false
	}
	return bytes.Contains(line, []byte("salt")) || bytes.Contains(line, []byte("halite"))
}

// clearProcDir removes what a minion that ended badly has left behind.
func clearProcDir(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".new") {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	foreignJobs(dir)
	// Our own pid in a file that we did not write: an earlier process had it.
	entries, _ = os.ReadDir(dir)
	for _, e := range entries {
		data, _ := os.ReadFile(filepath.Join(dir, e.Name()))
		v, err := DecodeWire(data)
		if load, ok := v.(*Map); err == nil && ok {
			if pid, _ := toInt(load.Value("pid")); pid == int64(os.Getpid()) {
				_ = os.Remove(filepath.Join(dir, e.Name()))
			}
		}
	}
}
