// State runs through a live master: progress events, states at the start of a
// minion, one run at a time, and what a run that was killed leaves behind.
package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// statesMaster is a master that serves SLS files, by name.
func statesMaster(t *testing.T, files ...string) *testMaster {
	t.Helper()
	dir := shortTempDir(t)
	srv := filepath.Join(dir, "srv")
	if err := os.Mkdir(srv, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(files); i += 2 {
		writeTestFile(t, filepath.Join(srv, files[i]+".sls"), files[i+1])
	}
	return startMasterIn(t, dir, "auto_accept", true, "publish_port", int64(0), "ret_port", int64(0), "file_roots", NewMap("base", NewList(srv)))
}

func writeTestFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func keywords(kv ...any) *Map { return pkgWith(NewMap("__kwarg__", true), kv...) }

const twoStates = "one:\n  test.nop: []\ntwo:\n  test.succeed_with_changes: []\n"

// progress collects the tags of progress events until the job has returned.
func progress(t *testing.T, m *testMaster, sub *EventSubscription, jid string) (tags []string, last *Map) {
	t.Helper()
	deadline := time.After(15 * time.Second)
	for {
		select {
		case e := <-sub.C:
			if strings.HasPrefix(e.Tag, "salt/job/"+jid+"/ret/") {
				return tags, last
			}
			if strings.HasPrefix(e.Tag, "salt/job/"+jid+"/prog/") {
				tags, last = append(tags, strings.TrimPrefix(e.Tag, "salt/job/"+jid+"/")), e.Data
			}
		case <-deadline:
			t.Fatalf("no return; progress %v\n%s", tags, m.out)
		}
	}
}

func TestStateEventsTellAboutEachState(t *testing.T) {
	m := statesMaster(t, "two", twoStates)
	startMinion(t, m, "quiet")
	startMinion(t, m, "loud", "state_events", true)
	sub := m.Bus().Subscribe("salt/job/", 100)
	defer sub.Close()
	tags, last := progress(t, m, sub, m.publish(t, "loud", "state.apply", "two"))
	if got := strings.Join(tags, " "); got != "prog/loud/0 prog/loud/1" {
		t.Errorf("progress was %q", got)
	}
	if ret := last.Map("data").Map("ret"); last.Map("data").Value("len") != int64(2) || ret.Str("name") != "two" || ret.Value("result") != true {
		t.Errorf("the last event is %s", Repr(last))
	}
	if tags, _ := progress(t, m, sub, m.publish(t, "quiet", "state.apply", "two")); len(tags) != 0 {
		t.Errorf("progress without state_events: %v", tags)
	}
	tags, _ = progress(t, m, sub, m.publish(t, "quiet", "state.apply", "two", keywords("state_events", true)))
	if got := strings.Join(tags, " "); got != "prog/quiet/0 prog/quiet/1" {
		t.Errorf("progress with state_events=True was %q", got)
	}
}

func TestStartupStatesRunWhenTheMinionHasItsMaster(t *testing.T) {
	m := statesMaster(t, "two", twoStates, "top", "base:\n  '*':\n    - two\n", "one", "single:\n  test.nop: []\n", "mytop", "base:\n  '*':\n    - one\n")
	sub := m.Bus().Subscribe("salt/job/", 100)
	defer sub.Close()
	for _, tc := range []struct {
		id   string
		opts []any
		fun  string
		tag  string // of a state that ran
	}{
		{"high", []any{"startup_states", "highstate"}, "state.highstate", "test_|-two_|-two_|-succeed_with_changes"},
		{"sls", []any{"startup_states", "sls", "sls_list", NewList("one", "two")}, "state.sls", "test_|-single_|-single_|-nop"},
		{"top", []any{"startup_states", "top", "top_file", "mytop.sls"}, "state.top", "test_|-single_|-single_|-nop"},
	} {
		startMinion(t, m, tc.id, tc.opts...)
		var ret *Map
		deadline := time.After(15 * time.Second)
		for ret == nil {
			select {
			case e := <-sub.C:
				if strings.HasSuffix(e.Tag, "/ret/"+tc.id) {
					ret = e.Data
				}
			case <-deadline:
				t.Fatalf("%s: no return\n%s", tc.id, m.out)
			}
		}
		if ret.Str("fun") != tc.fun || ret.Map("return").Map(tc.tag).Value("result") != true {
			t.Errorf("%s returned %s", tc.id, Repr(ret))
		}
	}
}

// heldRun starts a state run that goes on until the file it returns is there.
func heldRun(t *testing.T, m *testMaster) (jid, started, release string) {
	t.Helper()
	started, release = filepath.Join(m.dir, "started"), filepath.Join(m.dir, "release")
	writeTestFile(t, filepath.Join(m.dir, "srv/held.sls"), "hold:\n  cmd.run:\n    - name: touch "+started+"; while [ ! -e "+release+" ]; do sleep 0.02; done\n")
	jid = m.publish(t, "m1", "state.apply", "held")
	eventually(t, "the run", func() bool { _, err := os.Stat(started); return err == nil })
	return jid, started, release
}

func TestOneStateRunAtATime(t *testing.T) {
	m := statesMaster(t, "two", twoStates)
	startMinion(t, m, "m1")
	sub := m.Bus().Subscribe("salt/job/", 100)
	defer sub.Close()
	first, _, release := heldRun(t, m)

	ret := m.run(t, "m1", "state.apply", "two")
	lines := toStrings(ret.Value("return"))
	if len(lines) != 1 || !strings.HasPrefix(lines[0], `The function "state.apply" is running as PID `) || !strings.HasSuffix(lines[0], "with jid "+first) {
		t.Errorf("the second run returned %s", Repr(ret))
	}
	if ret.Value("retcode") != int64(1) {
		t.Errorf("the second run has exit code %s", Repr(ret.Value("retcode")))
	}
	if ret := m.run(t, "m1", "state.apply", "two", keywords("concurrent", true)); ret.Map("return").Len() != 2 {
		t.Errorf("concurrent=True returned %s", Repr(ret))
	}

	queued := m.publish(t, "m1", "state.apply", "two", keywords("queue", true))
	eventually(t, "the queued run waits", func() bool {
		return m.run(t, "m1", "saltutil.find_job", queued).Map("return").Len() > 0
	})
	writeTestFile(t, release, "")
	if ret := m.await(t, sub, first, "m1"); ret.Value("retcode") != int64(0) {
		t.Errorf("the first run returned %s", Repr(ret))
	}
	if ret := m.await(t, sub, queued, "m1"); ret.Map("return").Len() != 2 {
		t.Errorf("the queued run returned %s", Repr(ret))
	}
}

func TestAKilledStateRunBlocksNothing(t *testing.T) {
	m := statesMaster(t, "two", twoStates)
	startMinion(t, m, "m1")
	jid, _, _ := heldRun(t, m)
	if got := m.run(t, "m1", "state.running").List("return"); got.Len() != 1 {
		t.Errorf("state.running returned %s", Repr(got))
	}
	sub := m.Bus().Subscribe("salt/job/", 100)
	defer sub.Close()
	m.run(t, "m1", "saltutil.kill_job", jid)
	m.await(t, sub, jid, "m1")
	if got := m.run(t, "m1", "state.running").List("return"); got.Len() != 0 {
		t.Errorf("state.running still returned %s", Repr(got))
	}
	if ret := m.run(t, "m1", "state.apply", "two"); ret.Map("return").Len() != 2 {
		t.Errorf("the next run returned %s", Repr(ret))
	}
}

// TestKillDuringFileManagedLeavesAWholeFile ends a run at many points of its way:
// readers find the old file or the new one, never a part.
func TestKillDuringFileManagedLeavesAWholeFile(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	call, err := exec.LookPath("salt-call")
	if err != nil {
		t.Fatal(err) // TestMain puts the programs into PATH
	}
	dir := shortTempDir(t)
	target, source := filepath.Join(dir, "target"), filepath.Join(dir, "source")
	writeTestFile(t, filepath.Join(dir, "minion"), "root_dir: "+dir+"\nid: m\nfile_client: local\n")
	old, fresh := bytes.Repeat([]byte("o"), 8<<20), bytes.Repeat([]byte("n"), 8<<20)
	if err := os.WriteFile(source, fresh, 0o644); err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]int{}
	for i := range 40 {
		if err := os.WriteFile(target, old, 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(call, "-c", dir, "-l", "quiet", "state.single", "file.managed", "name="+target, "source="+source, "show_changes=False")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(i)*5*time.Millisecond, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
		switch got, err := os.ReadFile(target); {
		case err != nil:
			t.Fatal(err)
		case bytes.Equal(got, old):
			outcomes["old"]++
		case bytes.Equal(got, fresh):
			outcomes["new"]++
		default:
			t.Fatalf("a part of a file: %d bytes after a kill at %d ms", len(got), i*5)
		}
	}
	if outcomes["old"] == 0 || outcomes["new"] == 0 {
		t.Errorf("the kills met one side only: %v", outcomes)
	}
}
