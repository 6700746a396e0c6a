// Module event: events for the master's bus.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
)

func eventModule() Module {
	return Module{
		Doc: "Events for the bus of the master.",
		Funcs: Funcs{
			"send": {run: eventSend, doc: "Send an event to the master.\n\ntag: its tag, with slashes\ndata: a mapping of anything; more keyword arguments go into it\n" +
				"with_env, with_grains, with_pillar: True, or the names of environment variables, grains or pillar keys to send along\n" +
				"with_env_opts: True sends saltenv and pillarenv along"},
			"fire_master": {run: eventFireMaster, doc: "Send an event to the master as it is.\n\ndata: what it carries\ntag: its tag\npreload: further fields of the message"},
			"fire":        {run: eventFire, doc: "Put an event on the minion's own bus.\n\ndata: a mapping\ntag: its tag"},
		},
	}
}

type eventSendArgs struct {
	Tag         string
	Data        any  `def:"None"`
	Preload     *Map `def:"None"`
	WithEnv     any  `def:"False"`
	WithGrains  any  `def:"False"`
	WithPillar  any  `def:"False"`
	WithEnvOpts bool `def:"False"`
	Kwargs      *Map `arg:"**kwargs"`
}

func eventSend(ctx context.Context, c *Call, a eventSendArgs) (any, error) {
	data := NewMap()
	if Truth(a.WithEnv) {
		env := NewMap()
		for _, kv := range os.Environ() {
			k, v, _ := strings.Cut(kv, "=")
			env.Set(k, v)
		}
		data.Set("environ", pick(env, a.WithEnv))
	}
	if Truth(a.WithGrains) {
		data.Set("grains", pick(c.Grains, a.WithGrains))
	}
	if Truth(a.WithPillar) {
		data.Set("pillar", pick(c.Pillar, a.WithPillar))
	}
	if a.WithEnvOpts {
		env := c.Opts.Value("saltenv")
		if env == nil {
			env = "base"
		}
		data.Set("saltenv", env)
		data.Set("pillarenv", c.Opts.Value("pillarenv"))
	}
	data.Merge(a.Kwargs)
	if m, ok := a.Data.(*Map); ok {
		data.Merge(m)
	} else if a.Data != nil {
		return nil, InvocationErrorf("data is %s and must be a mapping", TypeName(a.Data))
	}
	if isLocal(c.Opts) {
		return eventFire(ctx, c, eventFireArgs{Data: data, Tag: a.Tag})
	}
	return eventFireMaster(ctx, c, eventFireMasterArgs{Data: data, Tag: a.Tag, Preload: a.Preload})
}

// pick is what of m is named by a list, or all of it.
func pick(m *Map, names any) *Map {
	l, ok := names.(*List)
	if !ok {
		return m
	}
	out := NewMap()
	for _, name := range l.Items {
		if v, ok := m.Get(name); ok {
			out.Set(name, v)
		}
	}
	return out
}

// isLocal says whether there is no master to talk to.
func isLocal(o *Options) bool {
	return (o.Bool("local") || o.Str("file_client") == "local") && !o.Bool("use_master_when_local") || o.Str("master_type") == "disable"
}

type eventFireMasterArgs struct {
	Data    any
	Tag     string
	Preload *Map `def:"None"`
}

func eventFireMaster(ctx context.Context, c *Call, a eventFireMasterArgs) (any, error) {
	if isLocal(c.Opts) || c.Master == nil {
		c.Log.Warn(fmt.Sprintf("There is no master here: the event %s is not sent", a.Tag))
		return false, nil
	}
	load := NewMap("id", c.Opts.Str("id"), "tag", a.Tag, "data", a.Data, "cmd", "_minion_event")
	load.Merge(a.Preload)
	if _, err := c.Master.Request(ctx, load); err != nil {
		c.Log.Error(fmt.Sprintf("send the event %s: %v", a.Tag, err))
		return false, nil
	}
	return true, nil
}

type eventFireArgs struct {
	Data any
	Tag  string
}

func eventFire(ctx context.Context, c *Call, a eventFireArgs) (any, error) {
	data, ok := a.Data.(*Map)
	if !ok {
		return nil, InvocationErrorf("data is %s and must be a mapping", TypeName(a.Data))
	}
	if c.Minion == nil {
		return true, nil // nobody listens
	}
	if err := c.Minion.FireLocal(ctx, a.Tag, data); err != nil {
		c.Log.Error(fmt.Sprintf("event %s: %v", a.Tag, err))
		return false, nil
	}
	return true, nil
}
