// One state: its checks (onlyif, unless, creates, check_cmd), its arguments with
// their slots, the call itself, retries and parallel runs.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
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

// retryData is a checked retry.
type retryData struct {
	until           bool
	attempts        int64
	interval, splay int64
}

func readRetry(v any) retryData {
	d := retryData{until: true, attempts: 2, interval: 30}
	switch v := v.(type) {
	case bool:
		if !v {
			d.attempts = 0
		}
	case *Map:
		if b, ok := v.Value("until").(bool); ok {
			d.until = b
		}
		for key, to := range map[string]*int64{"attempts": &d.attempts, "interval": &d.interval, "splay": &d.splay} {
			if n, ok := v.Value(key).(int64); ok {
				*to = n
			}
		}
	}
	return d
}

// pause is how long to wait before the next attempt, in seconds.
func (d retryData) pause() int64 {
	if d.splay > 0 {
		return d.interval + rand.Int64N(d.splay+1)
	}
	return d.interval
}

// dry is the text that a dry run adds.
func (d retryData) dry() string {
	return fmt.Sprintf("The state would be retried every %d seconds (with a splay of up to %d seconds) a maximum of %d times or until a "+
		"result of %s is returned", d.interval, d.splay, d.attempts, Str(d.until))
}

func dryRetry(ret *Map, d retryData) {
	comment := ""
	if v := ret.Value("comment"); Truth(v) {
		comment = Str(v)
	}
	ret.Set("comment", comment+"  "+d.dry())
}

// retry runs a state again until it has the wanted result.
func (r *stateRun) retry(ctx context.Context, low *Map, running *stateReturns, x *chunkIndex, ret *Map, try int) (any, error) {
	d := readRetry(low.Value("retry"))
	if r.c.Testing() {
		dryRetry(ret, d)
		return ret, nil
	}
	if res, ok := ret.Value("result").(bool); ok && res == d.until || d.attempts <= int64(try) {
		return ret, nil
	}
	pause := d.pause()
	r.c.Log.Info(fmt.Sprintf("State result does not match retry until value, state will be re-run in %d seconds", pause))
	if !sleepContext(ctx, time.Duration(pause)*time.Second) {
		return nil, ctx.Err()
	}
	again, err := r.call(ctx, low, running, x, try+1)
	if err != nil {
		return nil, err
	}
	comment := ""
	if v := again.Value("comment"); Truth(v) {
		comment = Str(v)
	}
	again.Set("comment", fmt.Sprintf("Attempt %d: Returned a result of \"%s\", with the following comment: \"%s\"\n%s",
		try, Str(ret.Value("result")), Str(ret.Value("comment")), comment))
	again.Set("duration", stateDuration(again)+stateDuration(ret)+float64(pause*1000))
	if try == 1 {
		again.Set("start_time", ret.Value("start_time"))
	}
	return again, nil
}

// startParallel runs a state in a goroutine of its own. The return is that of a
// state that has begun.
func (r *stateRun) startParallel(ctx context.Context, c *Call, low *Map, f Function, full string, kwargs *Map, running *stateReturns) *Map {
	name := low.Value("name")
	p := &parallelState{done: make(chan struct{})}
	inner := *c
	info := *c.State
	info.Low, info.Running = DeepCopy(low).(*Map), running.m.Clone()
	inner.State = &info
	run := func() *Map {
		v, err := r.invoke(ctx, &inner, f, full, kwargs)
		m, ok := v.(*Map)
		switch {
		case err != nil:
			return failedState(full, name, err)
		case !ok:
			return unifyReturn(v)
		}
		return m
	}
	r.group.Add(1)
	go func() {
		defer r.group.Done()
		defer close(p.done)
		began := time.Now()
		if err := r.formatSlots(ctx, kwargs); err != nil {
			p.ret = failedState(full, name, err)
		} else {
			p.ret = run()
		}
		p.ret.Set("start_time", startTime(began))
		p.ret.Set("duration", milliseconds(time.Since(began)))
		p.ret.Set("__parallel__", true)
		if v, ok := low.Get("retry"); ok {
			r.retryParallel(ctx, p, readRetry(v), c.Testing(), run)
		}
	}()
	ret := NewMap("name", name, "result", nil, "changes", NewMap(), "comment", "Started in a separate process")
	r.started = p
	return ret
}

func (r *stateRun) retryParallel(ctx context.Context, p *parallelState, d retryData, test bool, run func() *Map) {
	if test {
		dryRetry(p.ret, d)
		return
	}
	for try := int64(1); d.attempts >= try; try++ {
		if res, ok := p.ret.Value("result").(bool); ok && res == d.until {
			return
		}
		pause := d.pause()
		if !sleepContext(ctx, time.Duration(pause)*time.Second) {
			return
		}
		before, began := p.ret, time.Now()
		p.ret = run()
		comment := ""
		if v := p.ret.Value("comment"); Truth(v) {
			comment = fmt.Sprintf("Attempt %d: Returned a result of \"%s\", with the following comment: \"%s\"", try, Str(p.ret.Value("result")), Str(v))
		}
		p.ret.Set("comment", Str(before.Value("comment"))+"\n"+comment)
		p.ret.Set("duration", milliseconds(time.Since(began))+stateDuration(before)+float64(pause*1000))
		p.ret.Set("start_time", before.Value("start_time"))
		p.ret.Set("__parallel__", true)
	}
}

// adopt notes under which tag the state that was just begun will report.
func (r *stateRun) adopt(tag string, running *stateReturns) {
	if r.started != nil {
		running.waiting[tag] = r.started
		r.started = nil
	}
}

// waitParallel waits for one state that runs in parallel.
func (r *stateRun) waitParallel(running *stateReturns, tag string) {
	if p, ok := running.waiting[tag]; ok {
		<-p.done
		r.takeParallel(running, tag, p)
	}
}

// collectParallel takes the results of states that ran in parallel; wait also
// waits for those that still run.
func (r *stateRun) collectParallel(running *stateReturns, wait bool) {
	for tag, p := range running.waiting {
		if wait {
			<-p.done
		}
		select {
		case <-p.done:
			r.takeParallel(running, tag, p)
		default:
		}
	}
}

func (r *stateRun) takeParallel(running *stateReturns, tag string, p *parallelState) {
	if ret := running.get(tag); ret != nil {
		ret.Merge(p.ret)
	}
	delete(running.waiting, tag)
}

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

func (r *stateRun) checkOnlyif(ctx context.Context, c *Call, v any, opts *Map) (bool, string, error) {
	const no, yes = "onlyif condition is false", "onlyif condition is true"
	comment := ""
	items := toItems(v)
	if v == nil {
		items = []any{nil}
	}
	for _, entry := range items {
		switch entry := entry.(type) {
		case string:
			code, err := c.RunKw(ctx, "cmd.retcode", []any{entry}, opts)
			if err != nil && !isExecError(err) {
				return false, "", err
			}
			if n, ok := code.(int64); err != nil || !ok || n != 0 {
				return true, no, nil
			}
			comment = yes
		case *Map:
			if !entry.Has("fun") {
				return false, "no `fun` argument in onlyif: " + Str(entry), nil
			}
			res, failed, err := r.checkFunction(ctx, c, entry)
			if err != nil {
				return false, "", err
			}
			if failed || !Truth(res) {
				return true, no, nil
			}
			comment = yes
		default:
			return false, "onlyif execution failed, bad type passed", nil
		}
	}
	if comment == "" {
		return false, "", OtherErrorf("KeyError", "'comment'")
	}
	return false, comment, nil
}

func (r *stateRun) checkUnless(ctx context.Context, c *Call, v any, opts *Map) (bool, string, error) {
	const no, yes = "unless condition is false", "unless condition is true"
	comment, skip := "", false
	items := toItems(v)
	if v == nil {
		items = []any{nil}
	}
	for _, entry := range items {
		switch entry := entry.(type) {
		case string:
			code, err := c.RunKw(ctx, "cmd.retcode", []any{entry}, opts)
			if err != nil && !isExecError(err) {
				return false, "", err
			}
			if n, ok := code.(int64); err == nil && (!ok || n != 0) {
				return false, no, nil
			}
			comment, skip = yes, true
		case *Map:
			if !entry.Has("fun") {
				return skip, "no `fun` argument in unless: " + Str(entry), nil
			}
			res, failed, err := r.checkFunction(ctx, c, entry)
			if err != nil {
				return false, "", err
			}
			if failed || !Truth(res) {
				return false, no, nil
			}
			comment, skip = yes, true
		default:
			comment, skip = "unless condition is false, bad type passed", false
		}
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
