// The conditions of a state: onlyif, unless, creates and check_cmd.
package main

import (
	"context"
	"os"
)

// conditionsOf runs onlyif, unless and creates. A true result means that the
// state is not to run.
func (r *stateRun) conditionsOf(ctx context.Context, c *Call, low *Map) (*Map, error) {
	opts := r.checkOptions(low)
	skip := false
	comments := NewList()
	for _, check := range []struct {
		key string
		run func(context.Context, *Call, any, *Map) (bool, string, error)
	}{{"onlyif", r.checkOnlyif}, {"unless", r.checkUnless}, {"creates", r.checkCreates}} {
		v, ok := low.Get(check.key)
		if !ok {
			continue
		}
		s, comment, err := check.run(ctx, c, v, opts)
		if err != nil {
			return nil, err
		}
		skip = skip || s
		comments.Append(comment)
	}
	ret := NewMap("result", skip, "comment", comments, "__sls__", low.Value("__sls__"), "__id__", low.Value("__id__"), "name", low.Value("name"))
	if skip {
		ret.Set("skip_watch", true)
	}
	return ret, nil
}

// checkOptions are the arguments of a state that its conditions share.
func (r *stateRun) checkOptions(low *Map) *Map {
	off := toItems(low.Value("cmd_opts_exclude"))
	excluded := func(key string) bool {
		for _, v := range off {
			if v == key {
				return true
			}
		}
		return false
	}
	opts := NewMap("ignore_retcode", true, "python_shell", true)
	for _, key := range []string{"cwd", "root", "runas", "env", "prepend_path", "umask", "timeout", "success_retcodes"} {
		if v := low.Value(key); v != nil && !excluded(key) {
			opts.Set(key, v)
		}
	}
	if v, ok := low.Get("shell"); ok && !excluded("shell") {
		opts.Set("shell", v)
	} else if v, ok := r.c.Grains.Get("shell"); ok {
		opts.Set("shell", v)
	}
	return opts
}

// checkFunction calls the function of a condition; failed is the exit code of
// the command that it ran.
func (r *stateRun) checkFunction(ctx context.Context, c *Call, entry *Map) (value any, retcode bool, err error) {
	kwargs := DeepCopy(entry).(*Map)
	fun := kwargs.Str("fun")
	args := toItems(kwargs.Value("args"))
	path, wantsPart := kwargs.Get("get_return")
	for _, k := range []string{"fun", "args", "get_return"} {
		kwargs.Delete(k)
	}
	list := NewMap("args", NewList(args...))
	if err := r.formatSlots(ctx, list); err != nil {
		return nil, false, err
	}
	if err := r.formatSlots(ctx, kwargs); err != nil {
		return nil, false, err
	}
	v, err := c.RunKw(ctx, fun, toItems(list.Value("args")), kwargs)
	if err != nil {
		return nil, false, err
	}
	if wantsPart && Truth(path) {
		v, _ = TraversePath(v, Str(path), ":")
	}
	code, _ := c.ContextGet("retcode")
	return v, Truth(code), nil
}

// functionMet says whether the function of a condition holds.
func (r *stateRun) functionMet(ctx context.Context, c *Call, entry *Map) (bool, error) {
	v, failed, err := r.checkFunction(ctx, c, entry)
	return err == nil && !failed && Truth(v), err
}

// commandMet says whether the command of a condition succeeds; unrunnable is the
// answer for one that cannot be run.
func commandMet(ctx context.Context, c *Call, command string, opts *Map, unrunnable bool) (bool, error) {
	code, err := c.RunKw(ctx, "cmd.retcode", []any{command}, opts)
	if err != nil {
		if isExecError(err) {
			return unrunnable, nil
		}
		return false, err
	}
	n, ok := code.(int64)
	return ok && n == 0, nil
}

// conditionItems are the entries of a condition; None is one, a bad one.
func conditionItems(v any) []any {
	if v == nil {
		return []any{nil}
	}
	return toItems(v)
}

func (r *stateRun) checkOnlyif(ctx context.Context, c *Call, v any, opts *Map) (bool, string, error) {
	comment := ""
	for _, entry := range conditionItems(v) {
		var met bool
		var err error
		switch entry := entry.(type) {
		case string:
			met, err = commandMet(ctx, c, entry, opts, false)
		case *Map:
			if !entry.Has("fun") {
				return false, "no `fun` argument in onlyif: " + Str(entry), nil
			}
			met, err = r.functionMet(ctx, c, entry)
		default:
			return false, "onlyif execution failed, bad type passed", nil
		}
		if err != nil {
			return false, "", err
		}
		if !met {
			return true, "onlyif condition is false", nil
		}
		comment = "onlyif condition is true"
	}
	if comment == "" {
		return false, "", OtherErrorf("KeyError", "'comment'")
	}
	return false, comment, nil
}

func (r *stateRun) checkUnless(ctx context.Context, c *Call, v any, opts *Map) (bool, string, error) {
	comment, skip := "", false
	for _, entry := range conditionItems(v) {
		var met bool
		var err error
		switch entry := entry.(type) {
		case string:
			met, err = commandMet(ctx, c, entry, opts, true)
		case *Map:
			if !entry.Has("fun") {
				return skip, "no `fun` argument in unless: " + Str(entry), nil
			}
			met, err = r.functionMet(ctx, c, entry)
		default:
			comment, skip = "unless condition is false, bad type passed", false
			continue
		}
		if err != nil {
			return false, "", err
		}
		if !met {
			return false, "unless condition is false", nil
		}
		comment, skip = "unless condition is true", true
	}
	if comment == "" {
		return false, "", OtherErrorf("KeyError", "'comment'")
	}
	return skip, comment, nil
}

func (r *stateRun) checkCreates(_ context.Context, _ *Call, v any, _ *Map) (bool, string, error) {
	exists := func(p any) bool { _, err := os.Stat(Str(p)); return err == nil }
	switch v := v.(type) {
	case string:
		if exists(v) {
			return true, v + " exists", nil
		}
	case *List:
		all := true
		for _, p := range v.Items {
			all = all && exists(p)
		}
		if all {
			return true, "All files in creates exist", nil
		}
	}
	return false, "Creates files not found", nil
}

// checkCmd lets commands decide whether a state succeeded.
func (r *stateRun) checkCmd(ctx context.Context, c *Call, low *Map) (*Map, error) {
	ret := NewMap("result", false, "__sls__", low.Value("__sls__"), "__id__", low.Value("__id__"), "name", low.Value("name"))
	opts := NewMap("ignore_retcode", true, "python_shell", true)
	if v, ok := r.c.Grains.Get("shell"); ok {
		opts.Set("shell", v)
	}
	for _, cmd := range toItems(low.Value("check_cmd")) {
		code, err := c.RunKw(ctx, "cmd.retcode", []any{cmd}, opts)
		if err != nil {
			return nil, err
		}
		if n, ok := code.(int64); !ok || n != 0 {
			ret.Set("comment", "check_cmd determined the state failed")
			ret.Set("result", false)
			return ret, nil
		}
		ret.Set("comment", "check_cmd determined the state succeeded")
		ret.Set("result", true)
	}
	return ret, nil
}
