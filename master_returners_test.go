// Returns and events reach the returners that the master's options name.
package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// returnersOf runs the returners of a master's options over a bus.
func returnersOf(t *testing.T, o *Options) (*EventBus, func()) {
	t.Helper()
	m := &Master{log: discardLog(), bus: NewEventBus(0, discardLog())}
	m.conf.Store(&masterConf{o: o})
	run := m.newReturners()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	return m.bus, func() {
		t.Helper()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestEventReturnKeepsTheEventsThatAreWanted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	o := DefaultMasterOptions()
	o.Set("rawfile_json.filename", path)
	o.Set("event_return", "rawfile_json")
	o.Set("event_return_queue", int64(100))
	o.Set("event_return_whitelist", NewList("my/*"))
	o.Set("event_return_blacklist", NewList("my/secret"))
	bus, stop := returnersOf(t, o)
	for _, tag := range []string{"my/first", "other", "my/secret", "my/second"} {
		bus.Fire(tag, NewMap("n", tag))
	}
	stop() // the queue is not full: it goes out at the end
	got, _ := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(got)), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"tag": "my/first", "data": {"n": "my/first"`) || !strings.Contains(lines[1], "my/second") {
		t.Errorf("file:\n%s", got)
	}
	if strings.Contains(string(got), "secret") || strings.Contains(string(got), "other") {
		t.Errorf("an event that is not wanted is kept:\n%s", got)
	}
}

func TestMasterJobCacheGetsReturns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	o := DefaultMasterOptions()
	o.Set("rawfile_json.filename", path)
	o.Set("master_job_cache", "rawfile_json")
	bus, stop := returnersOf(t, o)
	bus.Fire("salt/job/1/new", NewMap("jid", "1"))
	bus.Fire("salt/job/1/ret/m1", NewMap("id", "m1", "return", true))
	eventually(t, "the return", func() bool {
		got, _ := os.ReadFile(path)
		return strings.Contains(string(got), `"id": "m1", "return": true`)
	})
	stop()
}

func TestExtJobCacheIsAReturnerOfEveryJob(t *testing.T) {
	o := DefaultMasterOptions()
	if got := retOf(o, "local"); got != "local" {
		t.Errorf("without the option: %q", got)
	}
	o.Set("ext_job_cache", "redis")
	for ret, want := range map[string]string{"": "redis", "local": "local,redis", "redis,local": "redis,local"} {
		if got := retOf(o, ret); got != want {
			t.Errorf("%q: %q, want %q", ret, got, want)
		}
	}
}
