// What runs after the states: listeners and beacons; and pauses of a run.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// pausePath is the file that state.pause writes for a run.
func pausePath(c *Call, jid string) string {
	return filepath.Join(c.Opts.Path("cachedir"), "state_pause", jid)
}

// accumulatorDir is where file.accumulated keeps its texts during a run.
func accumulatorDir(c *Call) string { return filepath.Join(c.Opts.Path("cachedir"), "accumulator") }

// paused waits while state.pause holds a state; kill ends the run.
func (r *stateRun) paused(ctx context.Context, low *Map) string {
	if r.jid == "" {
		return ""
	}
	path := pausePath(r.c, r.jid)
	began := time.Now()
	for {
		p, err := os.ReadFile(path)
		if err != nil {
			return "run"
		}
		v, err := DecodeWire(p)
		if err != nil {
			return "run"
		}
		m, _ := v.(*Map)
		hold := m.Map(Str(low.Value("__id__")))
		if hold == nil {
			if hold = m.Map("__all__"); hold == nil {
				return "run"
			}
		}
		if d, ok := hold.Get("duration"); ok {
			n, _ := toFloat(d)
			if time.Since(began).Seconds() > n {
				return "run"
			}
		}
		if hold.Has("kill") {
			return "kill"
		}
		if !sleepContext(ctx, time.Second/5) {
			return "kill"
		}
	}
}

// callListen runs mod_watch of the states that listen to changed ones.
func (r *stateRun) callListen(ctx context.Context, chunks []*Map, running *Map) error {
	type listener struct {
		state, id string // of who listens; id may be a name
		to        []any
	}
	var listeners []listener
	byRef := map[stateRef][]*Map{} // {id, name or state; state} → chunks
	order := map[*Map]bool{}
	last := map[string]*Map{}
	for _, c := range chunks {
		state, id, name := low3(c)
		last[state+"\x00"+id+"\x00"+name] = c
		if v, ok := c.Get("listen"); ok {
			listeners = append(listeners, listener{state, id, toItems(v)})
		}
		for _, in := range toItems(c.Value("listen_in")) {
			if m, ok := in.(*Map); ok {
				for k, v := range m.All() {
					listeners = append(listeners, listener{Str(k), Str(v), []any{NewMap(state, id)}})
				}
			}
		}
	}
	if len(listeners) == 0 {
		return nil
	}
	for _, c := range chunks {
		state, id, name := low3(c)
		if last[state+"\x00"+id+"\x00"+name] != c || order[c] {
			continue
		}
		order[c] = true
		seen := map[string]bool{}
		for _, key := range []string{id, name, state} {
			if !seen[key] {
				seen[key] = true
				byRef[stateRef{key, state}] = append(byRef[stateRef{key, state}], c)
			}
		}
	}
	var watchers []*Map
	failed := NewMap()
	missing := func(state, val string) {
		failed.Set(fmt.Sprintf("Listen_Error_|-listen_%s_|-listen_%s_|-Listen_Error", val, state),
			NewMap("comment", fmt.Sprintf("Referenced state %s: %s does not exist", state, val),
				"name", "listen_"+state+":"+val, "result", false, "changes", NewMap()))
	}
	for _, l := range listeners {
		for _, to := range l.to {
			m, ok := to.(*Map)
			if !ok {
				for _, c := range chunks {
					if c.Value("__id__") == to || c.Value("name") == to {
						m = NewMap(c.Value("state"), c.Value("__id__"))
					}
				}
				if m == nil {
					continue
				}
			}
			for k, v := range m.All() {
				targets := byRef[stateRef{Str(v), Str(k)}]
				if len(targets) == 0 {
					missing(Str(k), Str(v))
					continue
				}
				for _, t := range targets {
					ret := running.Map(lowTag(t))
					if ret == nil || !Truth(ret.Value("changes")) {
						continue
					}
					mine := byRef[stateRef{l.id, l.state}]
					if len(mine) == 0 {
						missing(l.state, l.id)
						continue
					}
					for _, c := range mine {
						low := c.Clone()
						low.Set("sfun", c.Value("fun"))
						low.Set("fun", "mod_watch")
						low.Set("__id__", "listener_"+Str(c.Value("__id__")))
						for _, key := range c.Keys() {
							if requisiteKeyword(Str(key)) {
								low.Delete(key)
							}
						}
						watchers = append(watchers, low)
					}
				}
			}
		}
	}
	ret, err := r.callChunks(ctx, watchers)
	if err != nil {
		return err
	}
	running.Merge(ret)
	for _, v := range failed.All() {
		v.(*Map).Set("__run_num__", r.nextNum())
	}
	running.Merge(failed)
	return nil
}

func low3(c *Map) (state, id, name string) {
	return Str(c.Value("state")), Str(c.Value("__id__")), Str(c.Value("name"))
}

// callBeacons runs mod_beacon of the states that ask for a beacon.
func (r *stateRun) callBeacons(ctx context.Context, chunks []*Map, running *Map) error {
	var beacons []*Map
	for _, c := range chunks {
		if c.Has("beacon") {
			low := c.Clone()
			low.Set("sfun", c.Value("fun"))
			low.Set("fun", "mod_beacon")
			low.Set("__id__", "beacon_"+Str(c.Value("__id__")))
			beacons = append(beacons, low)
		}
	}
	if len(beacons) == 0 {
		return nil
	}
	ret, err := r.callChunks(ctx, beacons)
	if err != nil {
		return err
	}
	running.Merge(ret)
	return nil
}
