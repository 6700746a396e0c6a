// State modules process and status: processes that must not run, and states that
// only look: at the load, and at processes that must run.
package main

import "context"

func processStates() Module {
	return Module{
		Doc:     "Processes.",
		Virtual: needsFunction("ps.pkill", "ps module could not be loaded"),
		Funcs:   Funcs{"absent": {run: processStateAbsent, doc: "No process has the text name on its command line: those that do get the signal, 15 if none is given."}},
	}
}

func processStateAbsent(ctx context.Context, c *Call, a struct {
	Name   string
	User   any `def:"None"`
	Signal any `def:"None"`
}) (any, error) {
	ret := stateReturn(a.Name, true, "")
	if c.Testing() {
		v, err := c.RunKw(ctx, "ps.pgrep", []any{a.Name}, NewMap("user", a.User))
		if err != nil {
			return nil, err
		}
		if n := len(toItems(v)); n > 0 {
			return stateSay(ret, nil, "%d processes will be killed", n)
		}
		return stateSay(ret, nil, "No matching processes running")
	}
	kw := NewMap("user", a.User, "full", true)
	if Truth(a.Signal) {
		kw.Set("signal", a.Signal)
	}
	v, err := c.RunKw(ctx, "ps.pkill", []any{a.Name}, kw)
	if err != nil {
		return nil, err
	}
	done, _ := v.(*Map)
	if done.Len() == 0 {
		return stateSay(ret, true, "No matching processes running")
	}
	ret.Set("changes", done)
	return stateSay(ret, true, "Killed %d processes", done.List("killed").Len())
}

func statusStates() Module {
	return Module{
		Doc: "States that look and change nothing.",
		Funcs: Funcs{
			"loadavg": {run: statusStateLoadavg, doc: "The load average name (1-min, 5-min, 15-min) is not below minimum and not above maximum."},
			"process": {run: statusStateProcess, doc: "A process whose command line matches the regular expression name runs."},
		},
	}
}

// monitored is the return of a state that only looks, with what it saw.
func monitored(name string) *Map {
	ret := stateReturn(name, false, "")
	ret.Set("data", NewMap())
	return ret
}

func statusStateLoadavg(ctx context.Context, c *Call, a struct {
	Name    string
	Maximum any `def:"None"`
	Minimum any `def:"None"`
}) (any, error) {
	ret := monitored(a.Name)
	data, err := runMap(ctx, c, "status.loadavg")
	if err != nil {
		return nil, err
	}
	v, ok := data.Get(a.Name)
	if !ok {
		return stateSay(ret, false, "Requested load average %s not available ", a.Name)
	}
	if Truth(a.Minimum) && Truth(a.Maximum) {
		n, err := Compare(a.Minimum, a.Maximum)
		if err != nil {
			return nil, err
		}
		if n >= 0 {
			return stateSay(ret, false, "Min must be less than max")
		}
	}
	ret.Set("data", v)
	load, _ := toFloat(v)
	if low, _ := toFloat(a.Minimum); Truth(a.Minimum) && load < low {
		return stateSay(ret, false, "Load avg is below minimum of %s at %s", Str(a.Minimum), Str(load))
	}
	if high, _ := toFloat(a.Maximum); Truth(a.Maximum) && load > high {
		return stateSay(ret, false, "Load avg above maximum of %s at %s", Str(a.Maximum), Str(load))
	}
	return stateSay(ret, true, "Load avg in acceptable range")
}

func statusStateProcess(ctx context.Context, c *Call, a stateNameArgs) (any, error) {
	ret := monitored(a.Name)
	pids, err := c.Run(ctx, "status.pid", a.Name)
	if err != nil {
		return nil, err
	}
	if !Truth(pids) {
		return stateSay(ret, false, "Process signature \"%s\" not found ", a.Name)
	}
	ret.Set("data", pids)
	return stateSay(ret, true, "Process signature \"%s\" was found ", a.Name)
}
