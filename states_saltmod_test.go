// Orchestration: what salt.state, salt.function and salt.runner make of answers,
// of silence and of failing runs inside.
package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOrchestrationSeesThePillarOfTheMaster(t *testing.T) {
	r, _, dir := testRunners(t)
	r.o.Set("pillar_roots", NewMap("base", NewList(filepath.Join(dir, "pillar"))))
	writeFiles(t, dir, map[string]string{
		"pillar/top.sls":    "base:\n  '*':\n    - colors\n",
		"pillar/colors.sls": "color: blue\nshade: dark\n",
		"srv/paint.sls":     "paint-{{ pillar.get('color') }}-{{ pillar.get('shade') }}:\n  test.nop\n",
	})
	for _, c := range []struct {
		kv   []any
		want string
	}{
		{nil, "paint-blue-dark"},
		{[]any{"pillar", NewMap("color", "red")}, "paint-red-dark"},
	} {
		if got := runRunner(t, r, "state.orchestrate", []any{"paint"}, c.kv...); !strings.Contains(got, "'__id__': '"+c.want+"'") {
			t.Errorf("with %s: no state %s in %s", Repr(NewMap(c.kv...)), c.want, got)
		}
	}
}

func TestRunnerStateFailsWithTheRunInside(t *testing.T) {
	r, _, dir := testRunners(t)
	writeFiles(t, dir, map[string]string{
		"srv/good.sls":  "g:\n  test.nop\n",
		"srv/bad.sls":   "b:\n  test.fail_without_changes\n",
		"srv/outer.sls": "good:\n  salt.runner:\n    - name: state.orchestrate\n    - mods: good\nbad:\n  salt.runner:\n    - name: state.orchestrate\n    - mods: bad\nnone:\n  salt.runner:\n    - name: state.orchestrate\n    - mods: nowhere\n",
	})
	got := runRunner(t, r, "state.orchestrate", []any{"outer"})
	for word, n := range map[string]int{"'state.orchestrate' executed.": 1, "'state.orchestrate' failed.": 2, "'retcode': 1": 3} {
		if strings.Count(got, word) != n {
			t.Errorf("%d times %s in %s, want %d", strings.Count(got, word), word, got, n)
		}
	}
}

// TestSilentMinionsInOrchestration: they fail a state only where it expects them.
func TestSilentMinionsInOrchestration(t *testing.T) {
	m := newScriptedMaster(t, func(m *scriptedMaster, jid string, load *Map) any {
		if isFindJobLoad(load) {
			return publishedTo(jid)
		}
		m.returns(jid, "up", true, 0)
		return publishedTo(jid, "up", "down")
	})
	m.o.Set("timeout", int64(1))
	m.o.Set("gather_job_timeout", int64(1))
	r := NewRunnerClient(m.o, nil, nil, nil)
	t.Cleanup(r.Close)
	c := r.call("state.orchestrate", NewJID(time.Now()), "root")
	for _, tc := range []struct {
		expect bool
		want   string
	}{
		{false, "Function ran successfully. Function test.ping ran on up."},
		{true, "Running function test.ping failed on minions: down Function test.ping ran on "},
	} {
		state, err := newBuiltin("function", saltStates().Funcs["function"]).Invoke(t.Context(), c, []any{"test.ping"}, NewMap("tgt", "*", "expect_minions", tc.expect))
		if err != nil {
			t.Fatal(err)
		}
		if got := state.(*Map).Str("comment"); !strings.HasPrefix(got, tc.want) {
			t.Errorf("expect_minions %v: %s", tc.expect, got)
		}
	}
}

func TestFailureReason(t *testing.T) {
	for _, c := range []struct {
		result   any
		returned bool
		want     string
	}{
		{nil, false, "Minion web1 did not return a state result."},
		{NewList("no sls", "", "no pillar"), true, "Minion web1 returned errors: no sls; no pillar"},
		{NewList(), true, "Minion web1 returned an empty error list."},
		{NewMap("a", false), true, ""},
		{"text", true, "Minion web1 returned 'text' instead of a state result."},
	} {
		if got := failureReason("web1", c.result, c.returned); got != c.want {
			t.Errorf("%s: %q, want %q", Repr(c.result), got, c.want)
		}
	}
}

func TestOrchestrationTellsItsJobs(t *testing.T) {
	job := saltJob{Tgt: "web*", TgtType: "glob", Ret: "", Batch: int64(2), ExpectMinions: true}
	got := Repr(job.fired("state", "deploy", NewList("app"), NewMap("queue", false)))
	want := "{'type': 'state', 'tgt': 'web*', 'name': 'deploy', 'args': {'arg': ['app'], 'kwarg': {'queue': False}, 'ret': '', 'timeout': None, 'tgt_type': 'glob', 'ssh': False, 'expect_minions': True, 'batch': '2'}}"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
