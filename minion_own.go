// What a minion does by itself: scheduled jobs, the mine, and (minion_beacons.go)
// beacons. Run owns the goroutines; a scheduled job runs in the job table, and its
// return goes to the first master.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ownWork starts the scheduler and the beacons; they end with ctx. Unless the
// options say otherwise both wait for the first master: what runs at start, the
// mine above all, is for the master, and the pillar may have jobs and beacons.
func (m *Minion) ownWork(ctx context.Context, start func(func())) {
	if n := m.opts.Int("mine_interval"); n > 0 && (!m.opts.Has("mine_enabled") || m.opts.Bool("mine_enabled")) {
		m.sched.AddHidden("__mine_interval", NewMap("function", "mine.update", "minutes", int64(n), "jid_include", true, "maxrunning", int64(2),
			"run_on_start", true, "return_job", m.opts.Bool("mine_return_job")))
	}
	start(func() {
		if m.opts.Bool("scheduler_before_connect") || m.waitReady(ctx) {
			m.sched.Run(ctx, m.runScheduled)
		}
	})
	start(func() { m.startupStates(ctx) })
	start(func() {
		if m.opts.Bool("beacons_before_connect") || m.waitReady(ctx) {
			m.beacons.Run(ctx, m.fireBeacons, m.beaconCall)
		}
	})
}

// ownPillar is the pillar that the minion's own work goes by: the first master's.
func (m *Minion) ownPillar() *Map {
	for _, l := range m.Links() {
		l.mu.Lock()
		p := l.pillar
		l.mu.Unlock()
		if p != nil {
			return p
		}
	}
	return &Map{}
}

func (m *Minion) firstLink() *masterLink {
	if links := m.Links(); len(links) > 0 {
		return links[0]
	}
	return nil
}

// runScheduled runs one job of the schedule.
func (m *Minion) runScheduled(ctx context.Context, r scheduledRun, done func()) error {
	positional, kw := r.arguments()
	args := NewList(positional...)
	if kw.Len() > 0 {
		kw.Set("__kwarg__", true)
		args.Append(kw)
	}
	load := NewMap("jid", r.jid, "fun", r.fun, "arg", args, "schedule", r.name, "tgt", m.id, "tgt_type", "glob", "ret", "", "user", "")
	p := &PublishLoad{Funs: []string{r.fun}, Args: []*List{args}, Tgt: m.id, TgtType: "glob", JID: r.jid, Map: load}
	link := m.firstLink()
	env := m.env(link)
	started, err := m.jobs.Start(context.WithoutCancel(ctx), m, p, func(ctx context.Context) {
		defer done()
		pub := scheduledPub(m.id, r, args)
		o := runFunction(ctx, NewCall(env, r.fun, r.jid, pub), r.fun, args.Items, pub)
		m.returnScheduled(ctx, env, link, r, args, o)
	})
	if err == nil && !started {
		err = errors.New("the minion stops")
	}
	return err
}

// returnScheduled gives the result of a scheduled job to its returners and to the
// master.
func (m *Minion) returnScheduled(ctx context.Context, env *Env, link *masterLink, r scheduledRun, args *List, o outcome) {
	load := scheduledLoad(m.log, m.id, r, args, o)
	kept := keepScheduled(ctx, env, r, load)
	if link != nil && r.goesToMaster() {
		link.spool.Add(scheduledAnswer(r, load, kept))
	}
}

// beaconCall is what beacons get that ask modules.
func (m *Minion) beaconCall() *Call { return NewCall(m.env(m.firstLink()), "", "", nil) }

// fireBeacons sends what beacons have seen to the masters, all in one request.
func (m *Minion) fireBeacons(ctx context.Context, events []beaconEvent) {
	list := &List{}
	for _, e := range events {
		list.Append(NewMap("tag", e.tag, "data", e.data))
	}
	for _, l := range m.Links() {
		ctx, stop := context.WithTimeout(ctx, 10*time.Second)
		_, err := l.channel.Request(ctx, NewMap("cmd", "_minion_event", "id", m.id, "pretag", nil, "events", list))
		stop()
		if err != nil {
			m.log.Debug(fmt.Sprintf("beacon events: %v", err))
		}
	}
}
