// States that are tried again, and states that run in goroutines of their own.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// retryData is a checked retry.
type retryData struct {
	until           bool
	attempts        int64
	interval, splay int64
}

func readRetry(v any) retryData {
	d := retryData{until: true, attempts: 2, interval: 30}
	switch v := v.(type) {
	case bool:
		if !v {
			d.attempts = 0
		}
	case *Map:
		if b, ok := v.Value("until").(bool); ok {
			d.until = b
		}
		for key, to := range map[string]*int64{"attempts": &d.attempts, "interval": &d.interval, "splay": &d.splay} {
			if n, ok := v.Value(key).(int64); ok {
				*to = n
			}
		}
	}
	return d
}

// pause is how long to wait before the next attempt, in seconds.
func (d retryData) pause() int64 {
	if d.splay > 0 {
		return d.interval + rand.Int64N(d.splay+1)
	}
	return d.interval
}

// dry is the text that a dry run adds.
func (d retryData) dry() string {
	return fmt.Sprintf("The state would be retried every %d seconds (with a splay of up to %d seconds) a maximum of %d times or until a "+
		"result of %s is returned", d.interval, d.splay, d.attempts, Str(d.until))
}

func dryRetry(ret *Map, d retryData) {
	comment := ""
	if v := ret.Value("comment"); Truth(v) {
		comment = Str(v)
	}
	ret.Set("comment", comment+"  "+d.dry())
}

// retry runs a state again until it has the wanted result.
func (r *stateRun) retry(ctx context.Context, low *Map, running *stateReturns, x *chunkIndex, ret *Map, try int) (any, error) {
	d := readRetry(low.Value("retry"))
	if r.c.Testing() {
		dryRetry(ret, d)
		return ret, nil
	}
	if res, ok := ret.Value("result").(bool); ok && res == d.until || d.attempts <= int64(try) {
		return ret, nil
	}
	pause := d.pause()
	r.c.Log.Info(fmt.Sprintf("State result does not match retry until value, state will be re-run in %d seconds", pause))
	if !sleepContext(ctx, time.Duration(pause)*time.Second) {
		return nil, ctx.Err()
	}
	again, err := r.call(ctx, low, running, x, try+1)
	if err != nil {
		return nil, err
	}
	comment := ""
	if v := again.Value("comment"); Truth(v) {
		comment = Str(v)
	}
	again.Set("comment", fmt.Sprintf("Attempt %d: Returned a result of \"%s\", with the following comment: \"%s\"\n%s",
		try, Str(ret.Value("result")), Str(ret.Value("comment")), comment))
	again.Set("duration", stateDuration(again)+stateDuration(ret)+float64(pause*1000))
	if try == 1 {
		again.Set("start_time", ret.Value("start_time"))
	}
	return again, nil
}

// startParallel runs a state in a goroutine of its own. The return is that of a
// state that has begun.
func (r *stateRun) startParallel(ctx context.Context, c *Call, low *Map, f Function, full string, kwargs *Map, running *stateReturns) *Map {
	name := low.Value("name")
	p := &parallelState{done: make(chan struct{})}
	inner := *c
	inner.Env = c.owned()
	info := *c.State
	info.Low, info.Running = DeepCopy(low).(*Map), running.m.Clone()
	inner.State = &info
	run := func() *Map {
		v, err := r.invoke(ctx, &inner, f, full, kwargs)
		m, ok := v.(*Map)
		switch {
		case err != nil:
			return failedState(full, name, err)
		case !ok:
			return unifyReturn(v)
		}
		return m
	}
	r.group.Add(1)
	go func() {
		defer r.group.Done()
		defer close(p.done)
		began := time.Now()
		if err := r.formatSlots(ctx, kwargs); err != nil {
			p.ret = failedState(full, name, err)
		} else {
			p.ret = run()
		}
		p.ret.Set("start_time", startTime(began))
		p.ret.Set("duration", milliseconds(time.Since(began)))
		p.ret.Set("__parallel__", true)
		if v, ok := low.Get("retry"); ok {
			r.retryParallel(ctx, p, readRetry(v), c.Testing(), run)
		}
	}()
	ret := NewMap("name", name, "result", nil, "changes", NewMap(), "comment", "Started in a separate process")
	r.started = p
	return ret
}

func (r *stateRun) retryParallel(ctx context.Context, p *parallelState, d retryData, test bool, run func() *Map) {
	if test {
		dryRetry(p.ret, d)
		return
	}
	for try := int64(1); d.attempts >= try; try++ {
		if res, ok := p.ret.Value("result").(bool); ok && res == d.until {
			return
		}
		pause := d.pause()
		if !sleepContext(ctx, time.Duration(pause)*time.Second) {
			return
		}
		before, began := p.ret, time.Now()
		p.ret = run()
		comment := ""
		if v := p.ret.Value("comment"); Truth(v) {
			comment = fmt.Sprintf("Attempt %d: Returned a result of \"%s\", with the following comment: \"%s\"", try, Str(p.ret.Value("result")), Str(v))
		}
		p.ret.Set("comment", Str(before.Value("comment"))+"\n"+comment)
		p.ret.Set("duration", milliseconds(time.Since(began))+stateDuration(before)+float64(pause*1000))
		p.ret.Set("start_time", before.Value("start_time"))
		p.ret.Set("__parallel__", true)
	}
}

// adopt notes under which tag the state that was just begun will report.
func (r *stateRun) adopt(tag string, running *stateReturns) {
	if r.started != nil {
		running.waiting[tag] = r.started
		r.started = nil
	}
}

// waitParallel waits for one state that runs in parallel.
func (r *stateRun) waitParallel(running *stateReturns, tag string) {
	if p, ok := running.waiting[tag]; ok {
		<-p.done
		r.takeParallel(running, tag, p)
	}
}

// collectParallel takes the results of states that ran in parallel; wait also
// waits for those that still run.
func (r *stateRun) collectParallel(running *stateReturns, wait bool) {
	for tag, p := range running.waiting {
		if wait {
			<-p.done
		}
		select {
		case <-p.done:
			r.takeParallel(running, tag, p)
		default:
		}
	}
}

func (r *stateRun) takeParallel(running *stateReturns, tag string, p *parallelState) {
	if ret := running.get(tag); ret != nil {
		ret.Merge(p.ret)
	}
	delete(running.waiting, tag)
}
