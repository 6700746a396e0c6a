// Returners of the master: jobs that ext_job_cache or master_job_cache keep
// elsewhere too, and events that event_return keeps.
//
// The law of this file: the master's own job cache stays what the programs read
// first; a returner gets its copy from the bus, by a goroutine of its own, so that
// a slow or dead server costs its copies and nothing else. With ext_job_cache the
// minions bring the returns there by themselves, and the master only the jobs.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	returnersQueue = 16384 // events that wait for returners
	returnersBatch = 1000  // events in one call, at most
)

// externalJobCaches are the returners that keep the master's jobs.
func externalJobCaches(o *Options) (master, ext string) {
	if master = o.Str("master_job_cache"); master == "local_cache" {
		master = ""
	}
	return master, o.Str("ext_job_cache")
}

// masterReturners is the state of the goroutine.
type masterReturners struct {
	m           *Master
	env         *Env
	master, ext string
	events      []string // event_return
	sub         *EventSubscription
	queue       []*Map // events for event_return
	oldest      time.Time
	failing     map[string]bool // has its complaint in the log
}

// newReturners makes the goroutine's function; it hears events from now on.
func (m *Master) newReturners() func(context.Context) error {
	o := m.o()
	r := &masterReturners{m: m, events: toStrings(o.Value("event_return")), failing: map[string]bool{}}
	r.env = &Env{Opts: o, Grains: NewMap(), Pillar: NewMap(), Log: m.log, Loader: NewLoader(o, m.customs.modules())}
	r.master, r.ext = externalJobCaches(o)
	if r.master == "" && r.ext == "" && len(r.events) == 0 {
		return func(context.Context) error { return nil }
	}
	for _, name := range append([]string{r.master, r.ext}, r.events...) {
		if _, ok := findReturner(r.env, name); name != "" && !ok {
			m.log.Error(fmt.Sprintf("there is no returner %s, which ext_job_cache, master_job_cache or event_return name", name))
		}
	}
	r.sub = m.bus.Subscribe("", returnersQueue)
	return r.run
}

func (r *masterReturners) run(ctx context.Context) error {
	defer r.sub.Close()
	dropped := int64(0)
	longest := seconds(r.env.Opts.Value("event_return_queue_max_seconds"))
	cleaning := time.NewTicker(max(r.env.Opts.Duration("loop_interval"), time.Second))
	defer cleaning.Stop()
	for {
		var tick <-chan time.Time
		if len(r.queue) > 0 && longest > 0 {
			tick = time.After(max(time.Until(r.oldest.Add(longest)), 0))
		}
		select {
		case <-ctx.Done():
			// What waits is not lost by a restart.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			for len(r.sub.C) > 0 {
				r.take(ctx, <-r.sub.C)
			}
			r.flush(ctx)
			return nil
		case <-tick:
			r.flush(ctx)
		case <-cleaning.C:
			r.call(ctx, r.master, "remove old jobs", func(ctx context.Context, ret Returner) error {
				if ret.Clean == nil {
					return nil
				}
				return ret.Clean(ctx, r.env)
			})
		case e := <-r.sub.C:
			r.take(ctx, e)
		}
		if n := r.sub.Dropped(); n > dropped {
			r.m.log.Warn(fmt.Sprintf("returners are too slow: %d events did not reach them", n-dropped))
			dropped = n
		}
	}
}

// take handles one event.
func (r *masterReturners) take(ctx context.Context, e Event) {
	// salt/job/<jid>/new, salt/job/<jid>/ret/<id>
	if rest, ok := strings.CutPrefix(e.Tag, "salt/job/"); ok {
		jid, what, _ := strings.Cut(rest, "/")
		switch {
		case what == "new":
			for _, name := range []string{r.master, r.ext} {
				r.call(ctx, name, "keep job "+jid, func(ctx context.Context, ret Returner) error {
					if ret.SaveLoad == nil {
						return nil
					}
					return ret.SaveLoad(ctx, r.env, jid, e.Data.Clone())
				})
			}
		case strings.HasPrefix(what, "ret/"):
			r.call(ctx, r.master, "keep a return of job "+jid, func(ctx context.Context, ret Returner) error {
				return ret.Return(ctx, r.env, e.Data.Clone(), os.Stdout)
			})
		}
	}
	if len(r.events) == 0 || !r.wanted(e.Tag) {
		return
	}
	if len(r.queue) == 0 {
		r.oldest = time.Now()
	}
	r.queue = append(r.queue, NewMap("tag", e.Tag, "data", e.Data))
	if len(r.queue) >= min(max(r.env.Opts.Int("event_return_queue"), 1), returnersBatch) {
		r.flush(ctx)
	}
}

// wanted says whether event_return gets events of a tag.
func (r *masterReturners) wanted(tag string) bool {
	white, black := r.env.Opts.List("event_return_whitelist"), r.env.Opts.List("event_return_blacklist")
	ok := len(white) == 0
	for _, g := range white {
		ok = ok || GlobMatch(g, tag)
	}
	for _, g := range black {
		ok = ok && !GlobMatch(g, tag)
	}
	return ok
}

// flush hands the queue over.
func (r *masterReturners) flush(ctx context.Context) {
	events := r.queue
	r.queue = nil
	if len(events) == 0 {
		return
	}
	for _, name := range r.events {
		r.call(ctx, name, fmt.Sprintf("keep %d events", len(events)), func(ctx context.Context, ret Returner) error {
			if ret.Events == nil {
				return fmt.Errorf("the returner %s keeps no events", name)
			}
			return ret.Events(ctx, r.env, events, os.Stdout)
		})
	}
}

// call runs a returner; the first of its failures in a row is logged.
func (r *masterReturners) call(ctx context.Context, name, what string, f func(context.Context, Returner) error) {
	ret, ok := findReturner(r.env, name)
	if name == "" || !ok {
		return
	}
	err := runReturner(ctx, name, func(ctx context.Context) error { return f(ctx, ret) })
	if err != nil && !r.failing[name] {
		r.m.log.Error(fmt.Sprintf("returner %s: %s: %v; further failures in a row are not logged", name, what, err))
	}
	r.failing[name] = err != nil
}

// retOf is the ret field of a publication: with ext_job_cache that returner, too.
func retOf(o *Options, ret string) string {
	ext := o.Str("ext_job_cache")
	switch {
	case ext == "" || hasString(strings.Split(ret, ","), ext):
		return ret
	case ret == "":
		return ext
	}
	return ret + "," + ext
}

// externalJob reads a job from the returner that is named, or else from those of
// the configuration. ErrNoJob: none has it.
func externalJob(ctx context.Context, env *Env, source, jid string) (*Job, error) {
	names := []string{source}
	if source == "" {
		master, ext := externalJobCaches(env.Opts)
		names = []string{ext, master}
	}
	for _, name := range names {
		r, ok := findReturner(env, name)
		if name == "" || !ok || r.Job == nil {
			continue
		}
		var load, returns *Map
		err := runReturner(ctx, name, func(ctx context.Context) (err error) {
			load, returns, err = r.Job(ctx, env, jid)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("returner %s: %w", name, err)
		}
		if load == nil && returns.Len() == 0 {
			continue
		}
		job := &Job{JID: jid, Load: orEmptyMap(load), Returns: returns, Minions: toStrings(load.Value("minions"))}
		job.Start, _ = JIDTime(jid)
		return job, nil
	}
	return nil, ErrNoJob
}
