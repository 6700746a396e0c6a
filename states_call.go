// One state: its checks (onlyif, unless, creates, check_cmd), its arguments with
// their slots, the call itself, retries and parallel runs.
package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// verifyLow says what is wrong with a chunk.
func (r *stateRun) verifyLow(ctx context.Context, low *Map) ([]string, error) {
	var errs []string
	for _, k := range []string{"state", "fun", "name"} {
		if !low.Has(k) {
			errs = append(errs, fmt.Sprintf("Missing %q data", k))
		}
	}
	name, ok := low.Get("name")
	if !ok {
		return nil, OtherErrorf("KeyError", "'name'")
	}
	if _, isText := name.(string); !isText && Truth(name) {
		where := ""
		if sls, ok := low.Get("__sls__"); ok {
			where = "in SLS '" + Str(sls) + "' "
		}
		errs = append(errs, fmt.Sprintf("ID '%s' %sis not formed as a string, but is a %s", Str(name), where, TypeName(name)))
	}
	if umask, ok := low.Get("umask"); ok {
		low.Delete("umask")
		if n, err := strconv.ParseInt(strings.TrimPrefix(Str(umask), "0o"), 8, 32); err == nil {
			low.Set("__umask__", n)
		} else {
			errs = append(errs, "Invalid umask: "+Str(umask))
		}
	}
	if len(errs) > 0 {
		return errs, nil
	}
	full := Str(low.Value("state")) + "." + Str(low.Value("fun"))
	f, err := r.states.Function(ctx, r.c, full)
	if err != nil {
		if sls, ok := low.Get("__sls__"); ok {
			errs = append(errs, fmt.Sprintf("State '%s' was not found in SLS '%s'", full, Str(sls)), "Reason: "+err.Error())
		} else {
			errs = append(errs, fmt.Sprintf("Specified state '%s' was not found", full))
		}
	} else {
		for _, p := range f.Signature().Params {
			if !p.Optional && !low.Has(p.Name) {
				errs = append(errs, fmt.Sprintf("Missing parameter %s for state %s", p.Name, full))
			}
		}
	}
	reqdec := ""
	if low.Has("require") {
		reqdec = "require"
	}
	if low.Has("watch") {
		r.watchToRequire(low)
		reqdec = "require"
		if low.Has("watch") {
			reqdec = "watch"
		}
	}
	if reqdec != "" {
		for _, req := range toItems(low.Value(reqdec)) {
			m, ok := req.(*Map)
			if !ok {
				continue
			}
			k, v := firstKey(m)
			p, ok := v.(string)
			if ok && low.Value("state") == k && (GlobMatch(p, Str(name)) || GlobMatch(p, Str(low.Value("__id__")))) {
				errs = append(errs, fmt.Sprintf("Recursive require detected in SLS %s for require %s in ID %s",
					Str(low.Value("__sls__")), Str(req), Str(low.Value("__id__"))))
			}
		}
	}
	return errs, nil
}

// stateKwargs are the arguments that a state function takes from a chunk. The
// error stops the run: it is for arguments that the function does not take.
func stateKwargs(full string, f Function, low *Map) (*Map, error) {
	sig := f.Signature()
	out := NewMap()
	taken := map[string]bool{}
	missing := 0
	for _, p := range sig.Params {
		taken[p.Name] = true
		if v, ok := low.Get(p.Name); ok {
			out.Set(p.Name, DeepCopy(v))
		} else if !p.Optional {
			missing++
		}
	}
	var extra []string
	for k, v := range low.All() {
		key := Str(k)
		if taken[key] || internalKeyword(key) {
			continue
		}
		if sig.Kwargs != "" {
			if key == "__reqs__" {
				continue // chunks, which the function finds in its own chunk
			}
			out.Set(key, DeepCopy(v))
			continue
		}
		extra = append(extra, key)
	}
	switch {
	case len(extra) == 1:
		return nil, InvocationErrorf("'%s' is an invalid keyword argument for '%s'", extra[0], full)
	case len(extra) > 1:
		last := len(extra) - 1
		return nil, InvocationErrorf("'%s' and '%s' are invalid keyword arguments for '%s'", strings.Join(extra[:last], "', '"), extra[last], full)
	}
	return out, nil
}

// call runs one chunk and gives its return the form that all returns have.
func (r *stateRun) call(ctx context.Context, low *Map, running *stateReturns, x *chunkIndex, try int) (*Map, error) {
	v, err := r.callOnce(ctx, low, running, x, try)
	if err != nil {
		return nil, err
	}
	return unifyReturn(v), nil
}

// checkReturn says what is wrong with a return.
func checkReturn(v any) string {
	m, ok := v.(*Map)
	if !ok {
		return "Malformed state return. Data must be a dictionary type."
	}
	if m.Map("changes") == nil {
		return "'Changes' should be a dictionary."
	}
	var missing []string
	for _, k := range []string{"name", "result", "changes", "comment"} {
		if !m.Has(k) {
			missing = append(missing, k)
		}
	}
	if len(missing) > 0 {
		return "The following keys were not present in the state return: " + strings.Join(missing, ", ") + "."
	}
	return ""
}

// unifyReturn makes the comment a text and the result True, False or None.
func unifyReturn(v any) *Map {
	if bad := checkReturn(v); bad != "" {
		return NewMap("result", false, "name", "later", "changes", NewMap(), "comment", "An exception occurred in this state: "+bad)
	}
	m := v.(*Map)
	if l, ok := m.Value("comment").(*List); ok {
		m.Set("comment", strings.Join(texts(l), "\n"))
	}
	if res := m.Value("result"); res != nil {
		m.Set("result", Truth(res))
	}
	for i, s := range toItems(m.Value("sub_state_run")) {
		toItems(m.Value("sub_state_run"))[i] = unifyReturn(s)
	}
	return m
}

// failedState is the return of a state that raised an error.
func failedState(full string, name any, err error) *Map {
	text := tracebackAt(stateTraceback(err), full)
	return NewMap("result", false, "name", name, "changes", NewMap(), "comment", "An exception occurred in this state: "+text)
}

// stateTraceback is the traceback of an error; that of a template shows the
// template's own error first.
func stateTraceback(err error) string {
	var missing *NotAvailableError
	if errors.As(err, &missing) && missing.Reason == "" {
		return "Traceback (most recent call last):\nKeyError: '" + missing.Name + "'\n"
	}
	var re *RenderError
	if !errors.As(err, &re) || re.Class != "" {
		return asModuleError(err).Traceback()
	}
	const head = "Traceback (most recent call last):\n"
	line := firstLine(re.Text)
	if i := strings.LastIndex(line, "; line "); i > 0 {
		line = line[:i]
	}
	inner := ""
	if what, ok := strings.CutPrefix(line, "Jinja variable "); ok {
		inner = "jinja2.exceptions.UndefinedError: " + what
	} else if what, ok := strings.CutPrefix(line, "Jinja syntax error: "); ok {
		inner = "jinja2.exceptions.TemplateSyntaxError: " + what
	}
	text := head + "salt.exceptions.SaltRenderError: " + re.Text + "\n"
	if inner == "" {
		return text
	}
	return head + "  File \"template\"\n" + inner + "\n\nDuring handling of the above exception, another exception occurred:\n\n" +
		head + "  File \"renderer\"\n" + text[len(head):]
}

// tracebackAt puts the place of an error into a traceback that names none.
func tracebackAt(text, place string) string {
	const head = "Traceback (most recent call last):\n"
	before, after, ok := strings.Cut(text, head)
	if !ok || strings.HasPrefix(strings.TrimLeft(after, " "), "File ") {
		return text
	}
	return before + head + "  File \"" + place + "\"\n" + after
}

// callOnce is one attempt, followed by those that retry asks for.
func (r *stateRun) callOnce(ctx context.Context, low *Map, running *stateReturns, x *chunkIndex, try int) (any, error) {
	began := time.Now()
	name := low.Value("name")
	r.c.Log.Info(fmt.Sprintf("Running state [%s] at time %s", strings.TrimSpace(Str(name)), startTime(began)))
	errs, err := r.verifyLow(ctx, low)
	if err != nil {
		return nil, err
	}
	if len(errs) > 0 {
		for _, e := range errs {
			r.c.Log.Error(e)
		}
		ret := NewMap("result", false, "name", name, "changes", NewMap(), "comment", strings.Join(errs, "\n")+"\n", "__run_num__", r.nextNum())
		return ret, nil
	}
	full := low.Str("state") + "." + low.Str("fun")
	f, err := r.states.Function(ctx, r.c, full)
	if err != nil {
		return nil, err
	}
	kwargs, err := stateKwargs(full, f, low)
	if err != nil {
		return nil, err
	}
	prereq := Truth(low.Value("__prereq__"))
	c := r.stateCall(low, running, x, kwargs, prereq)
	v, err := r.attempt(ctx, c, low, f, full, kwargs, running, prereq)
	if err != nil {
		v = failedState(full, name, err)
	}
	ret, ok := v.(*Map)
	if !ok {
		return v, nil
	}
	if prereq {
		low.Set("__prereq__", false)
		return ret, nil
	}
	ret.Set("__sls__", low.Value("__sls__"))
	ret.Set("__run_num__", r.nextNum())
	r.logReturn(ret)
	r.checkRefresh(ctx, low, ret)
	ret.Set("start_time", startTime(began))
	ret.Set("duration", milliseconds(time.Since(began)))
	id, ok := low.Get("__id__")
	if !ok {
		return nil, OtherErrorf("KeyError", "'__id__'")
	}
	ret.Set("__id__", id)
	r.c.Log.Info(fmt.Sprintf("Completed state [%s] at time %s (duration_in_ms=%s)", strings.TrimSpace(Str(name)), startTime(time.Now()), Str(ret.Value("duration"))))
	if low.Has("retry") && !low.Has("parallel") {
		return r.retry(ctx, low, running, x, ret, try)
	}
	return ret, nil
}

// stateCall is the Call that a state function gets.
func (r *stateRun) stateCall(low *Map, running *stateReturns, x *chunkIndex, kwargs *Map, test bool) *Call {
	c := *r.c
	info := &StateInfo{Low: low, Running: running.m, Chunks: x.chunks, Instance: r.instance, Saltenv: "base", OrchJID: low.Str("__orchestration_jid__")}
	if v, ok := low.Get("__env__"); ok {
		info.Saltenv = Str(v)
	}
	if !c.Opts.Bool("lock_saltenv") {
		if v, ok := low.Get("saltenv"); ok {
			info.Saltenv = Str(v)
		} else if s, ok := kwargs.Value("env").(string); ok {
			info.Saltenv = s
		}
	}
	c.State = info
	c.Fun = low.Str("state") + "." + low.Str("fun")
	if test && !c.Testing() {
		env := *c.Env
		env.Opts = c.Opts.Clone()
		env.Opts.Set("test", true)
		c.Env = &env
	}
	return &c
}

// attempt checks the conditions of a state and calls its function.
func (r *stateRun) attempt(ctx context.Context, c *Call, low *Map, f Function, full string, kwargs *Map, running *stateReturns, prereq bool) (any, error) {
	var ret any
	skip := false
	if (low.Has("unless") || low.Has("onlyif") || low.Has("creates")) && !r.has(low.Str("state")+".mod_run_check") {
		checked, err := r.conditionsOf(ctx, c, low)
		if err != nil {
			return nil, err
		}
		out := NewMap("result", false, "name", low.Value("name"), "changes", NewMap())
		out.Merge(checked)
		ret, skip = out, Truth(checked.Value("result"))
	}
	if !skip {
		var err error
		switch {
		case r.mocked:
			ret = stateReturn(Str(low.Value("name")), true, "Not called, mocked")
		case !r.globalConditions(ctx, full, low):
			ret = stateReturn(Str(low.Value("name")), nil, "Failed to meet global state conditions. State not called.")
		case !prereq && Truth(low.Value("parallel")):
			ret = r.startParallel(ctx, c, low, f, full, kwargs, running)
		default:
			if err = r.formatSlots(ctx, kwargs); err == nil {
				ret, err = r.invoke(ctx, c, f, full, kwargs)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	if low.Has("check_cmd") {
		own := r.has(low.Str("state")+".mod_run_check_cmd") && f.Signature().TakesKeyword("check_cmd") && hasParam(f, "check_cmd")
		if !own {
			checked, err := r.checkCmd(ctx, c, low)
			if err != nil {
				return nil, err
			}
			m, ok := ret.(*Map)
			if !ok {
				return nil, OtherErrorf("AttributeError", "'%s' object has no attribute 'update'", TypeName(ret))
			}
			m.Merge(checked)
		}
	}
	return ret, nil
}

func hasParam(f Function, name string) bool {
	for _, p := range f.Signature().Params {
		if p.Name == name {
			return true
		}
	}
	return false
}

// globalConditions says whether the configuration lets a state run here.
func (r *stateRun) globalConditions(ctx context.Context, full string, low *Map) bool {
	matched, any := false, false
	for pattern, conditions := range r.conditions.All() {
		switch pattern {
		case "*", full, low.Value("state"):
		default:
			continue
		}
		for _, cond := range toItems(conditions) {
			any = true
			if v, err := r.c.Run(ctx, "match.compound", cond); err == nil && Truth(v) {
				matched = true
			}
		}
	}
	return !any || matched
}

// logReturn writes a return to the log, as an error if it is one.
func (r *stateRun) logReturn(ret *Map) {
	text := Str(ret.Value("changes"))
	if changes := ret.Map("changes"); changes.Len() == 0 {
		if text = Str(ret.Value("comment")); text == "" {
			text = "No changes made for " + Str(ret.Value("name"))
		}
	} else if made, ok := changedValues(changes); ok {
		text = made
	} else if diff, ok := changes.Value("diff").(string); ok {
		text = "File changed:\n" + diff
	}
	if ret.Value("result") == false {
		r.c.Log.Error(text)
		return
	}
	r.c.Log.Info(text)
}

// changedValues words changes of which each has an old and a new value.
func changedValues(changes *Map) (string, bool) {
	var b strings.Builder
	b.WriteString("Made the following changes:\n")
	word := func(v any) string {
		if !Truth(v) && v != nil && v != false {
			return "absent"
		}
		return Str(v)
	}
	for name, v := range changes.All() {
		m, ok := v.(*Map)
		if !ok || !m.Has("old") || !m.Has("new") {
			return "", false
		}
		fmt.Fprintf(&b, "'%s' changed from '%s' to '%s'\n", Str(name), word(m.Value("old")), word(m.Value("new")))
	}
	return b.String(), true
}

// checkRefresh reloads modules, grains and pillar after states that may have
// brought new ones.
func (r *stateRun) checkRefresh(ctx context.Context, low, ret *Map) {
	reload := false
	if Truth(low.Value("reload_grains")) {
		if r.c.Minion != nil {
			r.warn(r.c.Minion.RefreshGrains(ctx))
		}
		r.withEnv(func(e *Env) { e.Grains = CoreGrains(ctx, e.Opts) })
		reload = true
	}
	if Truth(low.Value("reload_pillar")) {
		if p, err := r.freshPillar(ctx, nil); err == nil {
			r.withEnv(func(e *Env) { e.Pillar = p })
		} else {
			r.warn(err)
		}
		reload = true
	}
	if !Truth(ret.Value("changes")) {
		if Truth(low.Value("force_reload_modules")) {
			r.refreshModules()
		}
		return
	}
	fun, name := low.Str("fun"), Str(low.Value("name"))
	switch {
	case Truth(low.Value("reload_modules")), reload:
		r.refreshModules()
	case low.Value("state") == "file":
		if fun == "managed" && (strings.HasSuffix(name, ".py") || strings.HasSuffix(name, ".so")) || fun == "recurse" ||
			fun == "symlink" && strings.Contains(name, "bin") {
			r.refreshModules()
		}
	case low.Value("state") == "pkg", low.Value("state") == "pip":
		r.refreshModules()
	}
}

func (r *stateRun) warn(err error) {
	if err != nil {
		r.c.Log.Warn(err.Error())
	}
}

// withEnv changes a copy of the run's environment and takes it.
func (r *stateRun) withEnv(change func(*Env)) {
	env := *r.c.Env
	change(&env)
	r.c.Env = &env
}

// refreshModules forgets which modules fit this box. The files that users wrote
// are read again only if their directory may have changed.
func (r *stateRun) refreshModules() {
	custom := r.c.Loader.custom
	r.withEnv(func(e *Env) { e.Loader = NewLoader(e.Opts, custom) })
	r.states = NewStateLoader(r.c)
}
