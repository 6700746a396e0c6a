// The reactor runs what an event calls for.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// runnerCalls records what is run.
type runnerCalls chan string

func (c runnerCalls) Run(_ context.Context, fun string, args []any, kwargs *Map) (any, error) {
	c <- fmt.Sprintf("%s %s %s", fun, Repr(NewList(args...)), Repr(kwargs))
	return "ran", nil
}

func TestReactor(t *testing.T) {
	dir := shortTempDir(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	local := write("local.sls", "say:\n  local.test.arg:\n    - tgt: {{ data['id'] }}\n    - args:\n      - {{ tag }}\n      - k: 1\n")
	old := write("old.sls", "say:\n  local.test.echo:\n    - tgt: 'L@{{ data.id }}'\n    - tgt_type: compound\n    - arg:\n      - old\n")
	runner := write("runner.sls", "orch:\n  runner.state.orchestrate:\n    - args:\n      - mods: a.b\n      - pillar: {x: {{ data.n }}}\nolder:\n  runner.jobs.list_job:\n    - jid: '1'\n")
	wheel := write("wheel.sls", "take:\n  wheel.key.accept:\n    - match: {{ data.id }}\n")
	bad := write("bad.sls", "x: {{ nosuch }}\n")
	entries := &List{}
	for tag, file := range map[string]string{"t/local": local, "t/old": old, "t/run*": runner, "salt/auth": wheel, "t/bad": bad, "t/*/loop": local} {
		entries.Append(NewMap(tag, NewList(file)))
	}
	calls := make(runnerCalls, 8)
	m, out := newTestMaster(t, dir, "reactor", entries)
	m.Runners = calls
	tm := runTestMaster(t, m, dir, out)
	minion := tm.accepted(t, "web1", 1)
	sub := minion.subscribe(t)
	expect := func(want string) {
		t.Helper()
		job := minion.job(t, sub)
		if got := fmt.Sprintf("%s %s %s", job.Str("fun"), Repr(job.Value("arg")), job.Str("user")); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	tm.bus.Fire("t/local", NewMap("id", "web1"))
	expect("test.arg ['t/local', {'__kwarg__': True, 'k': 1}] " + m.o().Str("user"))
	tm.bus.Fire("t/x/loop", NewMap("id", "web1", "user", reactorUser)) // starts nothing
	tm.bus.Fire("t/bad", NewMap())
	tm.bus.Fire("t/old", NewMap("id", "web1"))
	expect("test.echo ['old'] " + m.o().Str("user"))
	tm.bus.Fire("t/run/1", NewMap("n", int64(5)))
	got := map[string]bool{}
	for range 2 {
		select {
		case c := <-calls:
			got[c] = true
		case <-time.After(20 * time.Second):
			t.Fatalf("the runners did not run: %v\n%s", got, out)
		}
	}
	if !got["state.orchestrate [] {'mods': 'a.b', 'pillar': OrderedDict([('x', 5)])}"] || !got["jobs.list_job [] {'jid': '1'}"] {
		t.Errorf("runners got %v", got)
	}
	pending := tm.minion(t, "new1", 2)
	pending.login(t, nil)
	waitFor(t, "the key that the reactor accepts", func() bool {
		_, err := os.Stat(filepath.Join(dir, "pki/minions/new1"))
		return err == nil
	})
	if !strings.Contains(out.String(), "bad.sls to t/bad") {
		t.Errorf("the failing reaction is not in the log: %s", out)
	}
}
