// State module event: events to the master from within a run.
package main

import "context"

func eventStates() Module {
	send := Func{run: eventStateSend, doc: "Send an event to the master; name is its tag."}
	return Module{
		Doc: "Send events to the master.",
		Funcs: Funcs{
			"send":        send,
			"fire_master": send,
			"mod_watch":   send,
			"wait":        {run: eventStateWait, doc: "Send an event only when a watched state has changed."},
		},
	}
}

func eventStateSend(ctx context.Context, c *Call, a struct {
	Name        string
	Data        any  `def:"None"`
	Preload     any  `def:"None"`
	WithEnv     any  `def:"False"`
	WithGrains  any  `def:"False"`
	WithPillar  any  `def:"False"`
	ShowChanged any  `def:"True"`
	Kwargs      *Map `arg:"**kwargs"`
}) (any, error) {
	ret := stateReturn(a.Name, false, "")
	if Truth(a.ShowChanged) {
		ret.Set("changes", NewMap("tag", a.Name, "data", a.Data))
	}
	if c.Testing() {
		return stateSay(ret, nil, "Event would have been fired")
	}
	kw := NewMap("data", a.Data, "preload", a.Preload, "with_env", a.WithEnv, "with_grains", a.WithGrains, "with_pillar", a.WithPillar)
	kw.Merge(a.Kwargs)
	sent, err := c.RunKw(ctx, "event.send", []any{a.Name}, kw)
	if err != nil {
		return nil, err
	}
	return stateSay(ret, sent, "Event fired")
}

func eventStateWait(_ context.Context, _ *Call, a struct {
	Name string
	Sfun any `def:"None"`
	Data any `def:"None"`
}) (any, error) {
	return stateReturn(a.Name, true, ""), nil
}
