// What a minion does once, when it has reached its master: startup_states.
//
// The law of this file: nothing that a minion does by itself begins before the
// first link stands, so that it has a pillar and somebody to tell; a minion
// without a master begins at once.
package main

import (
	"context"
	"fmt"
	"time"
)

// setReady says that the first link stands.
func (m *Minion) setReady() { m.readyOnce.Do(func() { close(m.ready) }) }

// waitReady waits for that; false if ctx ended first.
func (m *Minion) waitReady(ctx context.Context) bool {
	select {
	case <-m.ready:
		return true
	case <-ctx.Done():
		return false
	}
}

// startupJob is the job that startup_states asks for, nil if none.
func startupJob(o *Options) (fun string, args *List) {
	switch what := o.Str("startup_states"); what {
	case "":
		return "", nil
	case "sls":
		return "state.sls", NewList(Strings(o.List("sls_list")))
	case "top":
		return "state.top", NewList(o.Str("top_file"))
	default:
		return "state.highstate", NewList()
	}
}

// startupStates runs the states of startup_states. The return goes to the first
// master, as one that it did not ask for.
func (m *Minion) startupStates(ctx context.Context) {
	fun, args := startupJob(m.opts)
	if fun == "" || !m.waitReady(ctx) {
		return
	}
	run := scheduledRun{name: "startup_states", fun: fun, def: NewMap("function", fun, "args", args), jid: NewJID(time.Now())}
	done := make(chan struct{})
	if err := m.runScheduled(ctx, run, func() { close(done) }); err != nil {
		m.log.Error(fmt.Sprintf("startup_states: %v", err))
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}
