// A minion that was away is paid what it was owed, once.
package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A minion that was away gets the job of --on-connect when it comes, once, and
// under its own job id.
func TestMasterPaysOwedJobs(t *testing.T) {
	m := startMaster(t)
	a, b := m.accepted(t, "a", 1), m.accepted(t, "b", 2)
	load := m.askClear(t, m.asOwner(NewMap("cmd", "publish", "tgt", "*", "tgt_type", "glob", "fun", "test.echo", "arg", NewList("late"), "ret", "",
		"jid", "", "kwargs", NewMap("on_connect", true)))).(*Map).Map("load")
	jid := load.Str("jid")
	wantValue(t, "the master knows what it owes", load.Value("on_connect"), true)
	if got := strings.Join(m.owed.of("a"), " "); got != jid {
		t.Fatalf("owed to a: %q", got)
	}

	// b was there all the time.
	b.call(t, "cmd", "_return", "id", "b", "jid", jid, "fun", "test.echo", "fun_args", NewList("late"), "return", "late", "retcode", int64(0), "success", true)
	if got := m.owed.of("b"); got != nil {
		t.Errorf("owed to b, who has answered: %v", got)
	}

	sub := a.subscribe(t)
	a.call(t, "cmd", "_minion_event", "id", "a", "tag", "minion_start", "data", "up", "pretag", nil)
	job := a.job(t, sub)
	wantValue(t, "jid", job.Value("jid"), jid)
	wantValue(t, "target type", job.Value("tgt_type"), "list")
	wantValue(t, "target", Repr(job.Value("tgt")), "['a']")
	wantValue(t, "arguments", Repr(job.Value("arg")), "['late']")
	wantValue(t, "function", job.Value("fun"), "test.echo")

	a.call(t, "cmd", "_return", "id", "a", "jid", jid, "fun", "test.echo", "fun_args", NewList("late"), "return", "late", "retcode", int64(0), "success", true)
	eventually(t, "nothing is owed", func() bool { return m.owed.of("a") == nil })
	if entries, _ := os.ReadDir(filepath.Join(m.dir, "cache/owed")); len(entries) != 0 {
		t.Errorf("left in the directory: %v", entries)
	}
}

func TestOwedJobsSurviveAndEnd(t *testing.T) {
	dir := t.TempDir()
	log := slog.New(slog.DiscardHandler)
	fresh, old := NewJID(time.Now()), "20010101000000000000"
	j := openOwedJobs(dir, time.Hour, log)
	j.owe(fresh, []string{"a", "b"})
	j.owe(old, []string{"a"})
	j.owe(fresh, []string{"a"})
	os.MkdirAll(filepath.Join(dir, "..evil"), 0o755)
	os.WriteFile(filepath.Join(dir, "a", "nojid"), nil, 0o600)
	j = openOwedJobs(dir, time.Hour, log)
	if got := strings.Join(j.of("a"), " "); got != fresh {
		t.Errorf("owed to a after a restart: %q, want only the fresh job", got)
	}
	if !j.begin("a") || j.begin("a") || j.begin("nobody") {
		t.Error("one at a time serves a minion that is owed something")
	}
	j.end("a")
	j.forget("b")
	if j.of("b") != nil || j.begin("b") {
		t.Error("a minion whose key is gone is owed nothing")
	}
	for i := range owedPerMinion + 5 {
		j.owe(time.Now().UTC().Add(time.Duration(i)*time.Second).Format("20060102150405")+"000000", []string{"c"})
	}
	if n := len(j.of("c")); n != owedPerMinion {
		t.Errorf("%d jobs pile up", n)
	}
}
