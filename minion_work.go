// Work: a job from its publication to its return, and what a job may ask of the
// daemon.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// startJob runs a job that is meant for us. Its return goes out at returnAt or
// when the job ends, whichever is later.
func (l *masterLink) startJob(p *PublishLoad, returnAt time.Time) {
	if p.User != "" {
		l.log.Info(fmt.Sprintf("User %s Executing command %s with jid %s", p.User, strings.Join(p.Funs, ","), p.JID))
	} else {
		l.log.Info(fmt.Sprintf("Executing command %s with jid %s", strings.Join(p.Funs, ","), p.JID))
	}
	env := l.m.env(l)
	started, err := l.m.jobs.Start(context.Background(), l, p, func(ctx context.Context) { l.runJob(ctx, env, p, returnAt) })
	if errors.Is(err, errBusy) {
		text := fmt.Sprintf("ERROR: the minion runs %d jobs already (process_count_max), and %d wait: job %s is refused", l.m.jobs.max, maxWaiting, p.JID)
		l.log.Error(text)
		l.giveBack(context.Background(), env, p, returnAt, NewMap("success", false, "return", text, "retcode", int64(1), "out", "nested"))
	} else if !started {
		l.log.Debug(fmt.Sprintf("job %s runs already", p.JID))
	}
}

// runJob runs the functions of a job and puts the return on its way.
func (l *masterLink) runJob(ctx context.Context, env *Env, p *PublishLoad, returnAt time.Time) {
	c := NewCall(env, p.Funs[0], p.JID, p.Map)
	if p.Several {
		l.giveBack(ctx, env, p, returnAt, severalFunctions(ctx, c, p, env.Opts.Bool("multifunc_ordered")))
		return
	}
	o := runFunction(ctx, c, p.Funs[0], p.Args[0].Items, p.Map)
	ret := NewMap("success", o.Err == nil && o.Retcode == 0, "return", o.Return, "retcode", o.Retcode)
	if o.Out != "" {
		ret.Set("out", o.Out)
	}
	if m, ok := o.Return.(*Map); ok && Truth(m.Value("__no_return__")) {
		return
	}
	l.giveBack(ctx, env, p, returnAt, ret)
}

// severalFunctions runs a job of several functions. A failure of one is its
// result; it has no exit code then.
func severalFunctions(ctx context.Context, c *Call, p *PublishLoad, ordered bool) *Map {
	if ordered {
		var rets, codes, oks List
		for i, fun := range p.Funs {
			o := runFunction(ctx, c, fun, p.Args[i].Items, p.Map)
			if o.Err != nil {
				rets.Append(severalError(o.Err, fun))
				codes.Append(nil)
				oks.Append(false)
				continue
			}
			rets.Append(o.Return)
			codes.Append(o.Retcode)
			oks.Append(o.Retcode == 0)
		}
		return NewMap("success", &oks, "return", &rets, "retcode", &codes)
	}
	rets, codes, oks := NewMap(), NewMap(), NewMap()
	for i, fun := range p.Funs {
		o := runFunction(ctx, c, fun, p.Args[i].Items, p.Map)
		oks.Set(fun, o.Err == nil && o.Retcode == 0)
		if o.Err != nil {
			rets.Set(fun, severalError(o.Err, fun))
			continue
		}
		rets.Set(fun, o.Return)
		codes.Set(fun, o.Retcode)
	}
	return NewMap("success", oks, "return", rets, "retcode", codes)
}

// severalError is the text of a failure in a job of several functions.
func severalError(err error, fun string) string {
	var missing *NotAvailableError
	if errors.As(err, &missing) && missing.Name == fun {
		err = TypeErrorf("'str' object is not callable")
	}
	return asModuleError(err).Traceback()
}

// giveBack completes a return and hands it to the spool and to the returners.
func (l *masterLink) giveBack(ctx context.Context, env *Env, p *PublishLoad, returnAt time.Time, ret *Map) {
	load := NewMap("cmd", "_return", "id", l.m.id)
	load.Merge(ret)
	load.Set("jid", p.JID)
	load.Set("fun", p.Map.Value("fun"))
	load.Set("fun_args", p.Map.Value("arg"))
	for _, key := range []string{"user", "master_id", "nocache"} {
		if v, ok := p.Map.Get(key); ok {
			load.Set(key, v)
		}
	}
	if meta, ok := p.Map.Get("metadata"); ok {
		if _, isMap := meta.(*Map); isMap || p.Several {
			load.Set("metadata", meta)
		} else {
			l.log.Warn(fmt.Sprintf("job %s: metadata is no mapping and is left out", p.JID))
		}
	}
	if env.Opts.Bool("cache_jobs") {
		if err := cacheJob(env.Opts, p.JID, load); err != nil {
			l.log.Warn(err.Error())
		}
	}
	if !env.Opts.Has("pub_ret") || env.Opts.Bool("pub_ret") {
		l.spool.AddAt(load, returnAt)
	}
	names := strings.Split(p.Ret, ",")
	names = append(names, env.Opts.List("return")...)
	if slices.ContainsFunc(names, func(s string) bool { return s != "" }) {
		whole := load.Clone()
		whole.Delete("cmd")
		for _, key := range []string{"ret_config", "ret_kwargs"} {
			if v, ok := p.Map.Get(key); ok {
				whole.Set(key, v)
			}
		}
		// The job's own end does not end its returners.
		callReturners(context.WithoutCancel(ctx), env, names, whole, os.Stdout, slog.LevelError)
	}
}

// cacheJob keeps a return for saltutil.find_cached_job.
func cacheJob(o *Options, jid string, ret *Map) error {
	data, err := EncodeWire(ret)
	if err == nil {
		err = writeFileQuick(filepath.Join(o.Path("cachedir"), "minion_jobs", jid, "return.p"), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("cache job %s: %w", jid, err)
	}
	return nil
}

// deliver sends one return until the master has acknowledged it. Any readable
// answer is one: a master that could not store it will not do so the next time.
func (l *masterLink) deliver(ctx context.Context, load *Map) error {
	p := tryPolicy{tries: 3, timeout: 5 * time.Second, longest: 10 * time.Second}
	if d := l.opts.Duration("return_retry_timer"); d > 0 {
		p.timeout = d
		p.longest = max(l.opts.Duration("return_retry_timer_max"), d)
	}
	if n := l.opts.Int("return_retry_tries"); n > 0 {
		p.tries = n
	}
	data, err := EncodeWire(load)
	if err != nil {
		return err
	}
	if l.opts.Bool("minion_sign_messages") {
		sig, err := l.m.cred.Key.Sign(AlgoPKCS1v15SHA1, data)
		if err != nil {
			return fmt.Errorf("sign the return (minion_sign_messages): %w", err)
		}
		load = load.Clone()
		load.Set("sig", sig)
	}
	// A large return takes its time on a slow line.
	extra := time.Duration(len(data)) * time.Second / (64 << 10)
	p.timeout += extra
	p.longest += extra
	_, err = l.channel.request(ctx, load, p)
	return err
}

// returnInterrupted puts a return on disk for every job that still runs.
func (l *masterLink) returnInterrupted() {
	for _, load := range l.m.jobs.own(l) {
		fun, args := load.Value("fun"), load.Value("arg")
		ret := NewMap("cmd", "_return", "id", l.m.id, "success", false, "return", "ERROR: "+errStopping.Error(), "retcode", int64(1),
			"out", "nested", "jid", load.Str("jid"), "fun", fun, "fun_args", args)
		if user, ok := load.Get("user"); ok {
			ret.Set("user", user)
		}
		l.spool.Add(ret)
	}
}

// MinionControl, for saltutil.

// RefreshModules makes modules load anew.
func (l *masterLink) RefreshModules(context.Context) error {
	l.m.custom.Refresh()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loader = NewLoader(l.opts, l.m.custom)
	return nil
}

// RefreshGrains computes the grains anew.
func (l *masterLink) RefreshGrains(ctx context.Context) error {
	l.m.refreshGrains(ctx)
	return nil
}

// RefreshPillar fetches the pillar of every master anew. Only the error of this
// link's own master is returned.
func (l *masterLink) RefreshPillar(ctx context.Context) error {
	for _, other := range l.m.Links() {
		if other == l {
			continue
		}
		if err := other.fetchPillar(ctx); err != nil {
			l.log.Warn(fmt.Sprintf("refresh the pillar of the master %s: %v", other.channel.MasterAddr(), err))
		}
	}
	return l.fetchPillar(ctx)
}

// fetchPillar fetches the pillar of this link's master.
func (l *masterLink) fetchPillar(ctx context.Context) error {
	pillar, err := l.channel.FetchPillar(ctx, pillarRequest(l.opts, l.m.id, l.m.Grains()))
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.pillar = pillar
	l.mu.Unlock()
	return nil
}

// FireLocal is an event on the minion's own bus, which nobody listens to.
func (l *masterLink) FireLocal(context.Context, string, *Map) error { return nil }

// pillarRequest is the load that asks for a minion's pillar.
func pillarRequest(o *Options, id string, grains *Map) *Map {
	return NewMap("id", id, "grains", grains, "saltenv", o.Value("saltenv"), "pillarenv", o.Value("pillarenv"),
		"pillar_override", NewMap(), "extra_minion_data", NewMap(), "ver", "2", "cmd", "_pillar")
}
