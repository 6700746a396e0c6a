// Jobs run side by side up to the limit, and end with all their processes.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func discardLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

func testJob(jid, fun string) *PublishLoad {
	return &PublishLoad{Funs: []string{fun}, Args: []*List{NewList()}, JID: jid, Tgt: "*", TgtType: "glob",
		Map: NewMap("fun", fun, "arg", NewList(), "tgt", "*", "jid", jid, "ret", "", "user", "root")}
}

func jidNumber(n int) string { return "2030010100000000" + strconv.Itoa(1000+n) }

func TestJobsBeyondTheLimitWaitAndControlFunctionsDoNot(t *testing.T) {
	table := newJobTable(t.TempDir(), 2, discardLog())
	release, ran := make(chan struct{}), make(chan string, 10)
	start := func(n int, fun string, body func(context.Context)) {
		if started, err := table.Start(t.Context(), t, testJob(jidNumber(n), fun), body); !started || err != nil {
			t.Fatalf("job %d: %v, %v", n, started, err)
		}
	}
	for n := range 3 {
		start(n, "test.sleep", func(context.Context) { ran <- jidNumber(n); <-release })
	}
	<-ran
	<-ran
	found := make(chan *Map)
	start(3, "saltutil.find_job", func(context.Context) { found <- table.Find(jidNumber(2)) })
	if load := <-found; load.Str("fun") != "test.sleep" {
		t.Errorf("the job that waits is described as %s", Repr(load))
	}
	select {
	case jid := <-ran:
		t.Errorf("job %s ran beyond the limit", jid)
	default:
	}
	close(release)
	if jid := <-ran; jid != jidNumber(2) {
		t.Errorf("%s ran last", jid)
	}
	eventually(t, "the end of all jobs", func() bool { return len(table.Running()) == 0 })
	if table.running != 0 {
		t.Errorf("%d places are still taken", table.running)
	}
}

func TestTooManyWaitingJobsAreRefused(t *testing.T) {
	table := newJobTable("", 1, discardLog())
	release := make(chan struct{})
	defer close(release)
	var err error
	for n := 0; n <= maxWaiting+1 && err == nil; n++ {
		_, err = table.Start(t.Context(), t, testJob(jidNumber(n), "test.ping"), func(context.Context) { <-release })
	}
	if !errors.Is(err, errBusy) {
		t.Errorf("error is %v", err)
	}
}

func TestAJobThatRunsIsNotStartedAgain(t *testing.T) {
	table := newJobTable("", 0, discardLog())
	release := make(chan struct{})
	defer close(release)
	job := testJob(jidNumber(1), "test.sleep")
	if ok, err := table.Start(t.Context(), t, job, func(context.Context) { <-release }); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if ok, _ := table.Start(t.Context(), t, job, func(context.Context) { t.Error("it ran twice") }); ok {
		t.Error("it was started twice")
	}
}

func TestProcFileLivesAsLongAsItsJob(t *testing.T) {
	dir := t.TempDir()
	table := newJobTable(dir, 0, discardLog())
	file := filepath.Join(dir, jidNumber(1))
	seen := make(chan *Map)
	table.Start(t.Context(), t, testJob(jidNumber(1), "test.sleep"), func(context.Context) {
		data, _ := os.ReadFile(file)
		v, _ := DecodeWire(data)
		m, _ := v.(*Map)
		seen <- m
	})
	if m := <-seen; m.Str("jid") != jidNumber(1) || m.Value("pid") != int64(os.Getpid()) {
		t.Errorf("the proc file has %s", Repr(m))
	}
	eventually(t, "removal of the proc file", func() bool { _, err := os.Stat(file); return os.IsNotExist(err) })
}

func TestProcFilesOfDeadProcessesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	dead := filepath.Join(dir, jidNumber(1))
	if err := writeProcFile(dir, jidNumber(1), NewMap("pid", int64(1<<22+7), "jid", jidNumber(1))); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(dir, jidNumber(2))
	if err := writeProcFile(dir, jidNumber(2), NewMap("pid", int64(os.Getpid()), "jid", jidNumber(2))); err != nil {
		t.Fatal(err)
	}
	torn := filepath.Join(dir, jidNumber(3))
	if err := os.WriteFile(torn, []byte{0x85, 0xa3}, 0o600); err != nil {
		t.Fatal(err)
	}
	clearProcDir(dir)
	for _, path := range []string{dead, mine, torn} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there", filepath.Base(path))
		}
	}
}

// runCmdJob starts a job of cmd.run on a table and returns its outcome.
func runCmdJob(t *testing.T, table *jobTable, jid, command string) <-chan outcome {
	t.Helper()
	o := DefaultMinionOptions()
	env := &Env{Opts: o, Grains: NewMap(), Pillar: NewMap(), Loader: NewLoader(o, nil), Log: discardLog()}
	out := make(chan outcome, 1)
	p := testJob(jid, "cmd.run")
	started, err := table.Start(t.Context(), t, p, func(ctx context.Context) {
		out <- runFunction(ctx, NewCall(env, "cmd.run", jid, p.Map), "cmd.run", []any{command}, p.Map)
	})
	if !started || err != nil {
		t.Fatal(started, err)
	}
	return out
}

func TestKillingAJobEndsItsWholeProcessGroup(t *testing.T) {
	table := newJobTable("", 0, discardLog())
	file := filepath.Join(t.TempDir(), "pid")
	out := runCmdJob(t, table, jidNumber(1), "sleep 600 & echo $! > "+file+"; trap '' TERM; sleep 601")
	child := childPid(t, file)
	if text, ok := table.Signal(jidNumber(1), 9); !ok || text != "Signal 9 sent to job "+jidNumber(1)+" at pid "+strconv.Itoa(os.Getpid()) {
		t.Errorf("Signal answered %q", text)
	}
	o := <-out
	if o.Retcode != 137 || !strings.Contains(Str(o.Return), "signal 9") {
		t.Errorf("outcome is %+v", o)
	}
	gone(t, child)
}

func TestTermLetsAJobsProcessesCleanUp(t *testing.T) {
	table := newJobTable("", 0, discardLog())
	dir := t.TempDir()
	file, cleaned := filepath.Join(dir, "pid"), filepath.Join(dir, "cleaned")
	out := runCmdJob(t, table, jidNumber(1), "trap 'echo yes > "+cleaned+"; exit 0' TERM; echo $$ > "+file+"; while :; do sleep 0.05; done")
	childPid(t, file)
	table.Signal(jidNumber(1), 15)
	if o := <-out; o.Retcode != 143 {
		t.Errorf("outcome is %+v", o)
	}
	if _, err := os.Stat(cleaned); err != nil {
		t.Error("the program had no time to clean up")
	}
}

func TestOtherSignalsReachTheProcessesOnly(t *testing.T) {
	table := newJobTable("", 0, discardLog())
	file := filepath.Join(t.TempDir(), "pid")
	out := runCmdJob(t, table, jidNumber(1), "trap 'echo heard; exit 5' USR1; echo $$ > "+file+"; while :; do sleep 0.05; done")
	childPid(t, file)
	table.Signal(jidNumber(1), int(syscall.SIGUSR1))
	if o := <-out; o.Retcode != 5 || !strings.Contains(Str(o.Return), "heard") || o.Err != nil {
		t.Errorf("outcome is %+v", o)
	}
}

func TestSignalForAJobThatDoesNotRun(t *testing.T) {
	table := newJobTable(t.TempDir(), 0, discardLog())
	if text, ok := table.Signal(jidNumber(9), 9); ok || text != "" {
		t.Errorf("answered %q, %v", text, ok)
	}
}
