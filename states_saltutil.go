// State module saltutil: custom modules are fetched in the course of a state run.
package main

import "context"

func saltutilStates() Module {
	funcs := Funcs{"sync_all": {run: saltutilStateSyncAll, doc: "Custom modules of every kind are as on the file server."}}
	for _, k := range syncKinds() {
		run := saltutilStateSync(k.name)
		funcs["sync_"+k.name] = Func{run: run, pyname: "sync_" + k.name, doc: "Custom " + k.name + " are as on the file server."}
	}
	funcs["sync_outputters"] = Func{run: saltutilStateSync("outputters"), pyname: "sync_outputters", doc: "Custom outputters are as on the file server."}
	return Module{Doc: "Custom modules are as on the file server.", Funcs: funcs}
}

// saltutilStateRun calls a sync function. over says that ret tells all: it was a
// dry run, or the call failed.
func saltutilStateRun(ctx context.Context, c *Call, ret *Map, kind string, kw *Map) (v any, over bool) {
	fun := "sync_" + kind
	if c.Testing() {
		_, _ = stateSay(ret, nil, "saltutil.%s would have been run", fun)
		return nil, true
	}
	v, err := c.RunKw(ctx, "saltutil."+fun, nil, kw)
	if err != nil {
		_, _ = stateSay(ret, false, "Failed to run %s: %s", fun, errText(err))
		return nil, true
	}
	ret.Set("comment", "No updates to sync")
	return v, false
}

func saltutilStateSync(kind string) func(context.Context, *Call, stateKwargsNamed) (any, error) {
	return func(ctx context.Context, c *Call, a stateKwargsNamed) (any, error) {
		ret := stateReturn(a.Name, true, "")
		if v, over := saltutilStateRun(ctx, c, ret, kind, a.Kwargs); !over && Truth(v) {
			ret.Map("changes").Set(kind, v)
			ret.Set("comment", "Updated "+kind+".")
		}
		return ret, nil
	}
}

func saltutilStateSyncAll(ctx context.Context, c *Call, a stateKwargsNamed) (any, error) {
	ret := stateReturn(a.Name, true, "")
	v, over := saltutilStateRun(ctx, c, ret, "all", a.Kwargs)
	if over {
		return ret, nil
	}
	got, _ := v.(*Map)
	for kind, names := range got.All() {
		if Truth(names) {
			ret.Map("changes").Set(kind, names)
			ret.Set("comment", "Sync performed")
		}
	}
	return ret, nil
}
