// Module environ: the environment of the job.
//
// A job of a Python minion is a process of its own, so what it sets in the
// environment ends with it. Here jobs share one process: a job keeps its
// changes in its context, and the programs that it runs get them.
package main

import (
	"context"
	"os"
	"strings"
)

func environModule() Module {
	return Module{
		Doc: "Read and set environment variables of the job and of the programs that it runs.",
		Funcs: Funcs{
			"get":       {run: environGet, doc: "Return a variable, or default."},
			"has_value": {run: environHasValue, doc: "Say whether a variable is set, or set to that value."},
			"item":      {run: environItem, doc: "Return one variable or a list of them as a mapping."},
			"items":     {run: environItems, doc: "Return all variables."},
			"setval":    {run: environSetval, doc: "Set a variable for the rest of the job; False empties it or, with false_unsets, unsets it."},
			"setenv":    {run: environSetenv, doc: "Set several variables for the rest of the job; with clear_all unset or empty all others."},
		},
	}
}

// environOverlay is the name under which a job keeps its changes: a mapping of
// names to texts, None for those that are unset.
const environOverlay = "environ:overlay"

// jobEnviron is the environment of a job as a mapping.
func jobEnviron(c *Call) *Map {
	env := &Map{}
	for _, kv := range os.Environ() {
		k, v, _ := strings.Cut(kv, "=")
		env.Set(k, v)
	}
	if v, ok := c.ContextGet(environOverlay); ok {
		for k, v := range v.(*Map).All() {
			if v == nil {
				env.Delete(k)
			} else {
				env.Set(k, v)
			}
		}
	}
	return env
}

// setJobEnviron records a change; nil unsets.
func setJobEnviron(c *Call, key string, val any) {
	overlay := &Map{}
	if v, ok := c.ContextGet(environOverlay); ok {
		overlay = v.(*Map).Clone()
	}
	overlay.Set(key, val)
	c.ContextSet(environOverlay, overlay)
}

type environGetArgs struct {
	Key     any
	Default any `def:"''"`
}

func environGet(_ context.Context, c *Call, a environGetArgs) (any, error) {
	if _, ok := a.Key.(string); !ok {
		return false, nil
	}
	if v, ok := jobEnviron(c).Get(a.Key); ok {
		return v, nil
	}
	return a.Default, nil
}

type environHasArgs struct {
	Key   any
	Value any `def:"None"`
}

func environHasValue(_ context.Context, c *Call, a environHasArgs) (any, error) {
	if _, ok := a.Key.(string); !ok {
		return false, nil
	}
	v, ok := jobEnviron(c).Get(a.Key)
	return ok && (a.Value == nil || Equal(v, a.Value)), nil
}

type environItemArgs struct {
	Keys    any
	Default any `def:"''"`
}

func environItem(_ context.Context, c *Call, a environItemArgs) (any, error) {
	out, env := &Map{}, jobEnviron(c)
	for _, k := range toItems(a.Keys) {
		if v, ok := env.Get(k); ok {
			out.Set(k, v)
		} else {
			out.Set(k, a.Default)
		}
	}
	return out, nil
}

func environItems(_ context.Context, c *Call, _ noArgs) (any, error) { return jobEnviron(c), nil }

type environSetvalArgs struct {
	Key         any
	Val         any
	FalseUnsets any `def:"False"`
	Permanent   any `def:"False"`
}

func environSetval(_ context.Context, c *Call, a environSetvalArgs) (any, error) {
	return setOneEnviron(c, a.Key, a.Val, a.FalseUnsets == true), nil
}

func setOneEnviron(c *Call, key, val any, falseUnsets bool) any {
	name, ok := key.(string)
	if ok && (strings.ContainsAny(name, "=\x00") || name == "") {
		ok = false
	}
	if !ok {
		c.Log.Error("environ: " + Repr(key) + " cannot be the name of a variable")
		return false
	}
	if val == false {
		if falseUnsets {
			setJobEnviron(c, name, nil)
			return nil
		}
		val = ""
	}
	text, ok := val.(string)
	if !ok || strings.Contains(text, "\x00") {
		return false
	}
	setJobEnviron(c, name, text)
	return text
}

type environSetenvArgs struct {
	Environ      any
	FalseUnsets  any `def:"False"`
	ClearAll     any `def:"False"`
	UpdateMinion any `def:"False"`
	Permanent    any `def:"False"`
}

func environSetenv(ctx context.Context, c *Call, a environSetenvArgs) (any, error) {
	vars, ok := a.Environ.(*Map)
	if !ok {
		return false, nil
	}
	out := &Map{}
	if a.ClearAll == true {
		for _, k := range jobEnviron(c).Keys() {
			if !vars.Has(k) {
				out.Set(k, setOneEnviron(c, k, false, a.FalseUnsets == true))
			}
		}
	}
	for k, v := range vars.All() {
		_, isText := v.(string)
		if !isText && v != false {
			return false, nil
		}
		out.Set(k, setOneEnviron(c, k, v, a.FalseUnsets == true))
	}
	if a.UpdateMinion == true {
		_, err := c.Run(ctx, "event.fire", NewMap("environ", vars, "false_unsets", a.FalseUnsets, "clear_all", a.ClearAll,
			"permanent", a.Permanent), "environ_setenv")
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
