// State module module: execution functions as states.
//
// There are two ways to write it. The older one has the function in name and
// its arguments beside it, with m_name, m_fun and the like for arguments whose
// names a state uses itself. The newer one has functions as keys, each with the
// list of its arguments.
package main

import (
	"context"
	"fmt"
	"strings"
)

func moduleStates() Module {
	wait := Func{run: moduleStateWait, doc: "Call functions only when a watched state has changed."}
	return Module{
		Doc: "Call execution functions.",
		Funcs: Funcs{
			"run":       {run: moduleStateRun, doc: "Call functions: each key with a dot is one, with the list of its arguments; or name is one, with its arguments beside it."},
			"mod_watch": {run: moduleStateRun, doc: "Call the functions because a watched state has changed."},
			"wait":      wait,
			"watch":     wait,
		},
	}
}

func moduleStateWait(_ context.Context, _ *Call, a struct {
	Name   string
	Kwargs *Map `arg:"**kwargs"`
}) (any, error) {
	return stateReturn(a.Name, true, ""), nil
}

func moduleStateRun(ctx context.Context, c *Call, a struct {
	Kwargs *Map `arg:"**kwargs"`
}) (any, error) {
	legacy, own := a.Kwargs.Len() > 0, false
	for k := range a.Kwargs.All() {
		switch key := Str(k); {
		case key == "name", key == "__reqs__", key == "sfun":
		default:
			if !own {
				own, legacy = true, false
			}
			if !strings.Contains(key, ".") {
				legacy = true
			}
		}
	}
	if legacy {
		return moduleStateLegacy(ctx, c, a.Kwargs)
	}
	return moduleStateNew(ctx, c, a.Kwargs)
}

// moduleResult is what a function's return says about success.
func moduleResult(v any) bool {
	switch v := v.(type) {
	case bool:
		return v
	case *Map:
		return moduleMapResult(v)
	}
	return true
}

func moduleMapResult(m *Map) bool {
	for k, v := range m.All() {
		if k == "result" && v == false || k == "retcode" && !Equal(v, int64(0)) {
			return false
		}
		if inner, ok := v.(*Map); ok && !moduleMapResult(inner) {
			return false
		}
	}
	return true
}

func moduleStateNew(ctx context.Context, c *Call, kwargs *Map) (any, error) {
	kwargs = kwargs.Clone()
	kwargs.Delete("name")
	names := kwargs.Keys()
	if c.State != nil && c.State.Low.Has("__reqs__") { // passed to functions with any keywords
		names = append(names, "__reqs__")
	}
	ret := NewMap("name", NewList(names...), "changes", NewMap(), "comment", "", "result", nil)
	var funcs, missing, tests []string
	for k := range kwargs.All() {
		full := Str(k)
		if !strings.Contains(full, ".") {
			continue
		}
		funcs = append(funcs, full)
		name, _, _ := strings.Cut(full, ":")
		if !c.Has(ctx, name) {
			missing = append(missing, name)
		} else if c.Testing() {
			tests = append(tests, name)
		}
	}
	if len(funcs) == 0 {
		return stateSay(ret, false, "No function provided.")
	}
	if len(missing)+len(tests) > 0 {
		many := func(names []string) string {
			if len(names) > 1 {
				return "True"
			}
			return ""
		}
		var words []string
		if len(missing) > 0 {
			words = append(words, fmt.Sprintf("Unavailable function%s: %s.", many(missing), strings.Join(missing, ", ")))
			ret.Set("result", false)
		}
		if len(tests) > 0 {
			words = append(words, fmt.Sprintf("Function%s %s to be executed.", many(tests), strings.Join(tests, ", ")))
		}
		ret.Set("comment", strings.Join(words, " "))
		return ret, nil
	}
	var failures, fine []string
	for _, full := range funcs {
		name, _, _ := strings.Cut(full, ":")
		v, err := callWithList(ctx, c, name, kwargs.Value(full))
		if err != nil {
			if k := asModuleError(err).Kind; k == ErrInvocation || k == ErrType {
				failures = append(failures, fmt.Sprintf("'%s' failed: %s", full, errText(err)))
				continue
			}
			return nil, err
		}
		m, isMap := v.(*Map)
		switch {
		case !moduleResult(v) && isMap:
			text := any("(error message N/A)")
			if s, ok := m.Get("comment"); ok {
				text = s
			}
			failures = append(failures, fmt.Sprintf("'%s' failed: %s", full, Str(text)))
		case !moduleResult(v):
			failures = append(failures, fmt.Sprintf("'%s': %s", full, Str(v)))
		default:
			text := v
			if isMap {
				text = any("Success")
				if s, ok := m.Get("comment"); ok {
					text = s
				}
			}
			fine = append(fine, full+": "+Str(text))
			ret.Map("changes").Set(full, v)
		}
	}
	ret.Set("comment", strings.Join(append(failures, fine...), ", "))
	ret.Set("result", len(failures) == 0)
	return ret, nil
}

// spread is *v in a call: the items of a list, the keys of a mapping, the
// characters of a text.
func spread(v any) ([]any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case *List, Tuple:
		return toItems(v), nil
	case *Map:
		return v.Keys(), nil
	case string:
		var out []any
		for _, r := range v {
			out = append(out, string(r))
		}
		return out, nil
	}
	return nil, TypeErrorf("argument after * must be an iterable, not %s", TypeName(v))
}

// callWithList calls a function with the arguments of a state: mappings in the
// list are keyword arguments.
func callWithList(ctx context.Context, c *Call, name string, args any) (any, error) {
	list, err := spread(args)
	if err != nil {
		return nil, err
	}
	f, err := c.Loader.Function(ctx, c, name)
	if err != nil {
		return nil, err
	}
	sig := f.Signature()
	kwargs, named := NewMap(), NewMap()
	var required []string
	for _, p := range sig.Params {
		if p.Optional {
			kwargs.Set(p.Name, DeepCopy(p.Default))
		} else {
			required = append(required, p.Name)
		}
	}
	var given []any
	for _, item := range list {
		if _, ok := item.(*Map); !ok {
			given = append(given, item)
		}
	}
	for i := len(list) - 1; i >= 0; i-- {
		m, ok := list[i].(*Map)
		if !ok {
			continue
		}
		for k, v := range m.All() {
			if containsText(required, Str(k)) {
				named.Set(k, v)
			} else {
				kwargs.Merge(m)
			}
		}
	}
	for _, name := range required {
		if v, ok := named.Get(name); ok {
			given = append(given, v)
		}
	}
	passed := len(given)
	if len(required) > passed {
		var missing []string
		for _, p := range sig.Params[passed:] {
			if kwargs.Has(p.Name) {
				passed++
			} else {
				missing = append(missing, p.Name)
			}
		}
		if len(missing) > 0 {
			return nil, InvocationErrorf("Missing arguments: %s", strings.Join(missing, ", "))
		}
		if len(required) > passed {
			return nil, InvocationErrorf("Function expects %d positional parameters, got only %d", len(required), passed)
		}
	}
	return c.RunKw(ctx, name, given, kwargs)
}

// moduleArgName is the name under which a state has an argument of a function
// whose name a state uses itself.
func moduleArgName(name string) string {
	switch name {
	case "name", "fun", "names", "state", "saltenv":
		return "m_" + name
	}
	return name
}

func moduleStateLegacy(ctx context.Context, c *Call, kwargs *Map) (any, error) {
	name := Str(kwargs.Value("name"))
	kwargs = kwargs.Clone()
	kwargs.Delete("name")
	ret := stateReturn(name, nil, "")
	f, err := c.Loader.Function(ctx, c, name)
	if err != nil {
		return stateSay(ret, false, "Module function %s is not available", name)
	}
	if c.Testing() {
		return stateSay(ret, nil, "Module function %s is set to execute", name)
	}
	sig := f.Signature()
	take := func(keys ...string) (any, bool) {
		var out any
		found := false
		for _, k := range keys {
			if v, ok := kwargs.Get(k); ok {
				kwargs.Delete(k)
				out, found = v, true
			}
		}
		return out, found
	}
	var args []any
	missing := ""
	for _, p := range sig.Params {
		var v any
		var ok bool
		if p.Optional {
			if v, ok = take(p.Name); !ok && p.Name != "names" {
				v, ok = take(moduleArgName(p.Name))
			}
			if !ok {
				v, ok = DeepCopy(p.Default), true
			}
		} else {
			v, ok = take(moduleArgName(p.Name))
		}
		if !ok {
			missing += " " + moduleArgName(p.Name)
			continue
		}
		args = append(args, v)
	}
	if missing != "" {
		return stateSay(ret, false, "The following arguments are missing:%s", missing)
	}
	if sig.Varargs != "" {
		if v, ok := take(moduleArgName(sig.Varargs)); ok {
			l, ok := v.(*List)
			if !ok {
				return stateSay(ret, false, "'%s' must be a list.", sig.Varargs)
			}
			args = append(args, l.Items...)
		}
	}
	named := NewMap()
	if sig.Kwargs != "" {
		if v, ok := take(sig.Kwargs); ok {
			m, ok := v.(*Map)
			if !ok {
				return stateSay(ret, false, "'%s' must be a dict.", sig.Kwargs)
			}
			named = m
		}
	}
	out, err := c.RunKw(ctx, name, args, named)
	if err != nil {
		return stateSay(ret, false, "Module function %s threw an exception. Exception: %s", name, errText(err))
	}
	ret.Map("changes").Set("ret", out)
	return stateSay(ret, moduleResult(out), "Module function %s executed", name)
}
