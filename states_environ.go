// State module environ: environment variables of the run.
package main

import "context"

func environStates() Module {
	return Module{
		Doc:   "Environment variables of the run and of the programs that it starts.",
		Funcs: Funcs{"setenv": {run: environStateSetenv, doc: "Set a variable, or a mapping of variables. False empties one, or unsets it with false_unsets; clear_all does that to all others."}},
	}
}

type environStateArgs struct {
	Name         string
	Value        any
	FalseUnsets  any `def:"False"`
	ClearAll     any `def:"False"`
	UpdateMinion any `def:"False"`
	Permanent    any `def:"False"`
}

func environStateSetenv(ctx context.Context, c *Call, a environStateArgs) (any, error) {
	ret := stateReturn(a.Name, true, "")
	changes := ret.Map("changes")
	var wanted *Map
	switch v := a.Value.(type) {
	case string:
		wanted = NewMap(a.Name, v)
	case bool:
		if !v {
			wanted = NewMap(a.Name, v)
		}
	case *Map:
		wanted = v
	}
	if wanted == nil {
		return stateSay(ret, false, "Environ value must be string, dict or False")
	}
	var gone any = ""
	if a.FalseUnsets == true {
		gone = nil
	}
	current := jobEnviron(c)
	if a.ClearAll == true {
		for k := range current.All() {
			if !wanted.Has(k) {
				changes.Set(k, gone)
			}
		}
	}
	for k, v := range wanted.All() {
		have, set := current.Get(k)
		switch {
		case v == false && !set:
			if a.FalseUnsets != true {
				changes.Set(k, "")
			}
		case v == false:
			if a.FalseUnsets == true || have != "" {
				changes.Set(k, gone)
			}
		case set && Equal(have, v), !set && v == "":
		default:
			changes.Set(k, v)
		}
	}
	if c.Testing() {
		if changes.Len() > 0 {
			return stateSay(ret, true, "Environ values will be changed")
		}
		return stateSay(ret, true, "Environ values are already set with the correct values")
	}
	if changes.Len() == 0 {
		return stateSay(ret, true, "Environ values were already set with the correct values")
	}
	done, err := c.Run(ctx, "environ.setenv", wanted, a.FalseUnsets, a.ClearAll, a.UpdateMinion, a.Permanent)
	if err != nil {
		return nil, err
	}
	if !Truth(done) {
		return stateSay(ret, false, "Failed to set environ variables")
	}
	ret.Set("changes", done)
	return stateSay(ret, true, "Environ values were set")
}
