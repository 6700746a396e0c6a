// The schedule of the master: runners that it runs by itself, as the option
// schedule says. The scheduler is the minion's (minion_schedule.go).
package main

import (
	"context"
	"fmt"
	"log/slog"
)

// schedule runs the schedule until ctx ends.
func (m *Master) schedule(ctx context.Context) error {
	o := m.o()
	if o.Map("schedule").Len() == 0 {
		return nil
	}
	NewScheduler(o, m.log, nil).Run(ctx, m.runScheduled)
	return nil
}

// runScheduled runs one runner. Its return is an event, as Salt's masters tell it.
func (m *Master) runScheduled(_ context.Context, r scheduledRun, done func()) error {
	if m.Runners == nil {
		return fmt.Errorf("this master runs no runners")
	}
	m.background(func(ctx context.Context) {
		defer done()
		args, kwargs := r.arguments()
		ret, err := m.Runners.Run(ctx, r.fun, args, kwargs)
		o := outcome{Return: ret, Err: err}
		if err != nil {
			m.log.Error(fmt.Sprintf("scheduled job %s: runner %s: %v", r.name, r.fun, err))
			o.Return = err.Error()
		}
		load := scheduledLoad(m.log, m.o().Str("id"), r, lowFunArgs(args, kwargs), o)
		env := &Env{Opts: m.o(), Grains: &Map{}, Pillar: &Map{}, Loader: NewLoader(m.o(), nil), Log: slog.New(m.log.Handler())}
		kept := keepScheduled(ctx, env, r, load)
		if r.goesToMaster() {
			m.bus.Fire("__schedule_return", scheduledAnswer(r, load, kept))
		}
	})
	return nil
}
