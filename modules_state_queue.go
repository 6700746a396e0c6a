// Module state: one run at a time; who waits for whom.
package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// stateConflict waits for, or reports, other state runs.
func stateConflict(ctx context.Context, c *Call, s stateCommon) (*List, error) {
	queue := s.queue
	if queue == nil {
		queue = c.Opts.Value("state_queue")
	}
	limit := int64(0)
	wait := false
	switch q := queue.(type) {
	case bool:
		wait = q
	case int64:
		limit, wait = q, true
	}
	if wait {
		first := true
		for {
			n := 0
			v, err := c.Run(ctx, "saltutil.is_running", "state.*")
			if err != nil {
				return nil, err
			}
			for _, job := range toItems(v) {
				if m, ok := job.(*Map); ok && earlierJob(m, c.JID) {
					n++
				}
			}
			if limit > 0 && first && int64(n) >= limit {
				break
			}
			if n == 0 {
				return nil, nil
			}
			first = false
			if !sleepContext(ctx, time.Second/2) {
				return nil, ctx.Err()
			}
		}
	}
	if Truth(s.kwargs.Value("concurrent")) {
		return nil, nil
	}
	busy, err := runningStates(ctx, c)
	if err != nil || busy.Len() == 0 {
		return nil, err
	}
	c.SetRetcode(exitStateCompile)
	return busy, nil
}

// earlierJob says whether a running job came before this one, so that of two
// that wait for each other one goes first.
func earlierJob(job *Map, jid string) bool {
	other := Str(job.Value("jid"))
	if other == jid {
		return false
	}
	return jid == "" || other < jid
}

// runningStates describes the state runs under way, but not this one.
func runningStates(ctx context.Context, c *Call) (*List, error) {
	v, err := c.Run(ctx, "saltutil.is_running", "state.*")
	if err != nil {
		return nil, err
	}
	out := NewList()
	for _, job := range toItems(v) {
		m, ok := job.(*Map)
		if !ok || Str(m.Value("jid")) == c.JID {
			continue
		}
		out.Append(fmt.Sprintf("The function \"%s\" is running as PID %s and was started at %s with jid %s",
			Str(m.Value("fun")), Str(m.Value("pid")), jidTime(Str(m.Value("jid"))), Str(m.Value("jid"))))
	}
	return out, nil
}

// jidTime writes the time in a job id as Salt does.
func jidTime(jid string) string {
	if i := strings.IndexByte(jid, '_'); i >= 0 {
		jid = jid[:i]
	}
	if len(jid) != 20 {
		return ""
	}
	t, err := time.Parse("20060102150405", jid[:14])
	if err != nil {
		return ""
	}
	return t.Format("2006, Jan 02 15:04:05.") + jid[14:]
}

type stateRunningArgs struct {
	Concurrent bool `def:"False"`
}

func stateRunning(ctx context.Context, c *Call, a stateRunningArgs) (any, error) {
	if a.Concurrent {
		return NewList(), nil
	}
	return runningStates(ctx, c)
}
