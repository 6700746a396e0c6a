// Tests of the master's schedule.
package main

import (
	"context"
	"testing"
)

func TestMasterRunsItsSchedule(t *testing.T) {
	m := startMaster(t, "id", "box_master", "schedule", NewMap("tick", NewMap("function", "test.arg", "run_on_start", true, "hours", int64(1),
		"args", NewList("one"), "kwargs", NewMap("a", "b"), "metadata", NewMap("why", "test"))))
	sub := m.Bus().Subscribe("__schedule_return", 10)
	defer sub.Close()
	m.background(func(ctx context.Context) {
		_ = m.runScheduled(ctx, scheduledRun{name: "again", fun: "test.arg", jid: "20300102100000000000", def: NewMap("args", NewList("one"), "kwargs", NewMap("a", "b"),
			"metadata", NewMap("why", "test"))}, func() {})
	})
	for {
		data := nextEvent(t, sub, "__schedule_return")
		if data.Str("schedule") != "again" {
			continue
		}
		for key, want := range map[string]any{"fun": "test.arg", "fun_args": NewList("one", NewMap("a", "b")), "jid": "req", "success": true, "id": "box_master",
			"return": NewMap("args", NewList("one"), "kwargs", NewMap("a", "b"))} {
			wantEqual(t, key, data.Value(key), want)
		}
		wantEqual(t, "metadata", data.Map("metadata").Value("why"), "test")
		return
	}
}
