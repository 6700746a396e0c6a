// SLS files to high data: rendering, include, extend and exclude, and the
// merge of many files into one tree.
package main

import (
	"context"
	"fmt"
	"path"
	"sort"
	"strings"
)

// highState builds high data for one run.
type highState struct {
	run   *stateRun
	order int64
	mods  map[string]bool
	avail *availStates
	top   stateTopOptions
}

func newHighState(r *stateRun) *highState {
	h := &highState{run: r, order: 10000, mods: map[string]bool{}}
	h.avail = &availStates{h: h, lists: map[string][]string{}}
	return h
}

// availStates knows environments and their SLS names; both are asked for only
// when they are needed, because a list of all files costs as much as there are.
type availStates struct {
	h     *highState
	envs  []string
	lists map[string][]string
}

func (a *availStates) has(ctx context.Context, env string) bool {
	if env == "base" {
		return true
	}
	if a.envs == nil {
		a.envs = a.h.environments(ctx)
	}
	return containsText(a.envs, env)
}

// names lists the SLS names of an environment.
func (a *availStates) names(ctx context.Context, env string) []string {
	if l, ok := a.lists[env]; ok {
		return l
	}
	v, err := a.h.run.c.Run(ctx, "cp.list_states", env)
	if err != nil {
		a.h.run.warn(err)
	}
	var out []string
	for _, n := range toItems(v) {
		out = append(out, Str(n))
	}
	a.lists[env] = out
	return out
}

// match lists the SLS names that a pattern means, nil if there is none. A name
// without glob characters is not looked up: rendering it finds out.
func (a *availStates) match(ctx context.Context, env, pattern string) []string {
	if !isGlob(pattern) {
		return nil
	}
	g := CompileGlob(pattern)
	var out []string
	for _, n := range a.names(ctx, env) {
		if g.Match(n) {
			out = append(out, n)
		}
	}
	sort.Strings(out)
	return out
}

// exists says whether an environment has an SLS that fits.
func (a *availStates) exists(ctx context.Context, env, pattern string) bool {
	if isGlob(pattern) {
		return len(a.match(ctx, env, pattern)) > 0
	}
	local, _, _ := a.h.find(ctx, pattern, env)
	return local != ""
}

// environments lists the environments of the file server.
func (h *highState) environments(ctx context.Context) []string {
	envs := []string{"base"}
	add := func(names []string) {
		for _, e := range names {
			if !containsText(envs, e) {
				envs = append(envs, e)
			}
		}
	}
	for k := range h.run.c.Opts.Map("file_roots").All() {
		add([]string{Str(k)})
	}
	var served []string
	if h.run.c.Files != nil {
		l, err := h.run.c.Files.Envs(ctx)
		h.run.warn(err)
		served = l
	}
	if order := h.top.envOrder; len(order) > 0 {
		var out []string
		for _, e := range order {
			if !containsText(out, e) && (len(served) == 0 || containsText(served, e)) {
				out = append(out, e)
			}
		}
		return out
	}
	add(served)
	return envs
}

// find fetches the file of an SLS: where it is here, and its path on the server.
func (h *highState) find(ctx context.Context, sls, saltenv string) (local, source string, err error) {
	if h.run.c.Files == nil {
		return "", "", nil
	}
	rel := strings.ReplaceAll(sls, ".", "/")
	for _, p := range []string{rel + ".sls", path.Join(rel, "init.sls")} {
		if rel == "" {
			continue
		}
		local, err := h.run.c.Files.Cache(ctx, "salt://"+p, saltenv)
		if err != nil {
			return "", "", err
		}
		if local != "" {
			return local, "salt://" + p, nil
		}
	}
	return "", "", nil
}

// renderMatches renders what was chosen for each environment. order lists the
// environments.
func (h *highState) renderMatches(ctx context.Context, matches *Map) (*Map, []string) {
	high := NewMap().SetClass("HashableOrderedDict")
	var all []string
	for env, list := range matches.All() {
		saltenv := Str(env)
		for _, m := range toItems(list) {
			pattern := Str(m)
			var files []string
			if h.avail.has(ctx, saltenv) {
				files = h.avail.match(ctx, saltenv, pattern)
			} else {
				all = append(all, fmt.Sprintf("No matching salt environment for environment '%s' found", saltenv))
			}
			if len(files) == 0 {
				files = []string{pattern}
			}
			for _, sls := range files {
				if h.mods[saltenv+":"+sls] {
					continue
				}
				state, errs := h.renderState(ctx, sls, saltenv, matches, "")
				if Truth(state) {
					mergeStates(high, state, &errs)
				}
				for i, e := range errs {
					if strings.Contains(e, "is not available") && strings.Contains(e, "SLS "+pattern+" in saltenv") {
						errs[i] = fmt.Sprintf("No matching sls found for '%s' in env '%s'", pattern, saltenv)
					}
				}
				all = append(all, errs...)
			}
		}
	}
	cleanExtends(high)
	return high, all
}

// cleanExtends takes out repeated extends and gives each name one entry.
func cleanExtends(high *Map) {
	v, ok := high.Get("__extend__")
	if !ok {
		return
	}
	out := NewList()
	byName := map[any][]any{}
	for _, e := range toItems(v) {
		m, ok := e.(*Map)
		if !ok {
			continue
		}
	next:
		for name, body := range m.All() {
			for _, have := range byName[name] {
				if Equal(have, body) {
					continue next
				}
			}
			byName[name] = append(byName[name], body)
			out.Append(NewMap(name, body))
		}
	}
	high.Set("__extend__", out)
}

// mergeStates puts the states of one file to those of the others. Data that is
// no mapping is an error that quotes it.
func mergeStates(high *Map, state any, errs *[]string) {
	m, ok := state.(*Map)
	if !ok {
		*errs = append(*errs, "Error when rendering state with contents: "+Str(state))
		return
	}
	for _, key := range []string{"__extend__", "__exclude__"} {
		v, ok := m.Get(key)
		if !ok {
			continue
		}
		m.Delete(key)
		have := high.List(key)
		if have == nil {
			have = NewList()
			high.Set(key, have)
		}
		have.Append(toItems(v)...)
	}
	for id, body := range m.All() {
		old, ok := high.Get(id)
		if ok && !Equal(old, body) {
			a, _ := old.(*Map)
			b, _ := body.(*Map)
			*errs = append(*errs, fmt.Sprintf("Detected conflicting IDs, SLS IDs need to be globally unique.\n    The conflicting ID is '%s' "+
				"and is found in SLS '%s:%s' and SLS '%s:%s'", Str(id), Str(a.Value("__env__")), Str(a.Value("__sls__")),
				Str(b.Value("__env__")), Str(b.Value("__sls__"))))
		}
		high.Set(id, body)
	}
}

// renderState renders one SLS and what it includes. file is the path of a local
// file to render instead of one from the file server.
func (h *highState) renderState(ctx context.Context, sls, saltenv string, matches *Map, file string) (any, []string) {
	r := h.run
	var errs []string
	add := func(format string, a ...any) { errs = append(errs, fmt.Sprintf(format, a...)) }
	local, source := file, ""
	if file == "" {
		var err error
		if local, source, err = h.find(ctx, sls, saltenv); err != nil {
			r.c.Log.Error(err.Error())
		}
	}
	if local == "" {
		add("Specified SLS %s in saltenv %s is not available on the salt master or through a configured fileserver", sls, saltenv)
		return NewMap(), errs
	}
	v, err := renderedSLS(ctx, r.c, local, source, saltenv, sls)
	if err != nil {
		errs = append(errs, renderFailure(saltenv, sls, err))
		r.c.Log.Log(ctx, LevelCritical, errs[len(errs)-1])
	}
	h.mods[saltenv+":"+sls] = true
	r.processed[sls] = true
	if !Truth(v) {
		return NewMap(), errs
	}
	state, ok := v.(*Map)
	if !ok {
		add("SLS %s does not render to a dictionary", sls)
		return v, errs
	}
	var include []any
	if inc, ok := state.Get("include"); ok {
		if l, ok := inc.(*List); ok {
			include = l.Items
			state.Delete("include")
		} else {
			add("Include Declaration in SLS %s is not formed as a list", sls)
		}
	}
	handleExtend(state, sls, saltenv, &errs)
	handleExclude(state, sls, &errs)
	handleDeclarations(state, sls, saltenv, &errs)
	for _, inc := range include {
		h.include(ctx, state, inc, sls, saltenv, source, matches, &errs)
	}
	h.autoOrder(state, sls)
	return state, errs
}

// include renders one member of an include list into state.
func (h *highState) include(ctx context.Context, state *Map, inc any, sls, saltenv, source string, matches *Map, errs *[]string) {
	add := func(format string, a ...any) {
		msg := fmt.Sprintf(format, a...)
		h.run.c.Log.Error(msg)
		*errs = append(*errs, msg)
	}
	env, name := saltenv, Str(inc)
	if m, ok := inc.(*Map); ok && m.Len() > 0 {
		k, v := m.At(m.Len() - 1)
		env, name = Str(k), Str(v)
	}
	if env != "_xenv" && !h.avail.has(ctx, env) {
		add("Nonexistent saltenv '%s' found in include of '%s' within SLS '%s:%s'", env, name, saltenv, sls)
		return
	}
	if strings.HasPrefix(name, ".") {
		rest := strings.TrimLeft(name, ".")
		levels := len(name) - len(rest)
		comps := strings.Split(sls, ".")
		if strings.HasSuffix(source, "/init.sls") {
			comps = append(comps, "init")
		}
		if levels > len(comps) {
			add("Attempted relative include of '%s' within SLS '%s:%s' goes beyond top level package ", name, saltenv, sls)
			return
		}
		name = strings.Join(append(comps[:len(comps)-levels:len(comps)-levels], rest), ".")
	}
	var envs []string
	if env != "_xenv" {
		if matches.Has(env) || h.avail.exists(ctx, env, name) {
			envs = []string{env}
		}
	} else {
		for e := range matches.All() {
			if h.avail.exists(ctx, Str(e), name) {
				envs = append(envs, Str(e))
			}
		}
	}
	if len(envs) != 1 && !containsText(envs, saltenv) {
		if len(envs) == 0 {
			where := env
			if env == "_xenv" {
				var names []string
				for e := range matches.All() {
					names = append(names, Str(e))
				}
				where = strings.Join(names, ", ")
			}
			add("Unknown include: Specified SLS %s: %s is not available on the salt master in saltenv(s): %s ", env, name, where)
		} else {
			add("Ambiguous include: Specified SLS %s: %s is available on the salt master in multiple available saltenvs: %s",
				env, name, strings.Join(envs, ", "))
		}
		return
	}
	targets := h.avail.match(ctx, saltenv, name)
	if len(targets) == 0 {
		targets = []string{name}
	}
	rEnv := saltenv
	if len(envs) == 1 {
		rEnv = envs[0]
	}
	for _, t := range targets {
		if h.mods[rEnv+":"+t] {
			continue
		}
		nested, more := h.renderState(ctx, t, rEnv, matches, "")
		if Truth(nested) {
			mergeStates(state, nested, errs)
		}
		*errs = append(*errs, more...)
	}
}

// autoOrder numbers the declarations that have no order of their own.
func (h *highState) autoOrder(state *Map, sls string) {
	if !h.run.c.Opts.Bool("state_auto_order") {
		return
	}
	for _, b := range state.All() {
		body, ok := b.(*Map)
		if !ok {
			if n := TypeName(b); n != "list" && n != "str" {
				h.run.c.Log.Log(context.Background(), LevelCritical, fmt.Sprintf("Could not render SLS %s. Syntax error detected.", sls))
				return
			}
			continue
		}
		for st, run := range body.All() {
			list, ok := run.(*List)
			if !ok || strings.HasPrefix(Str(st), "_") {
				continue
			}
			found := false
			for _, arg := range list.Items {
				if m, ok := arg.(*Map); ok && m.Len() > 0 {
					k, _ := firstKey(m)
					found = found || k == "order"
				}
			}
			if !found {
				list.Append(NewMap("order", h.order))
				h.order++
			}
		}
	}
}

// splitDotted turns mod.fun keys of a declaration into mod with fun among its
// arguments. multiple is called for a second key of the same module.
func splitDotted(body *Map, multiple func()) {
	seen := map[string]bool{}
	for _, k := range body.Keys() {
		key := Str(k)
		v := body.Value(k)
		list, ok := v.(*List)
		if !ok || strings.HasPrefix(key, "_") {
			continue
		}
		parts := strings.Split(key, ".")
		if len(parts) < 2 {
			seen[key] = true
			continue
		}
		if seen[parts[0]] {
			if multiple != nil {
				multiple()
				continue
			}
		}
		body.Delete(k)
		list.Append(parts[1])
		body.Set(parts[0], list)
		seen[parts[0]] = true
	}
}

// handleDeclarations gives every declaration its SLS and environment.
func handleDeclarations(state *Map, sls, saltenv string, errs *[]string) {
	for _, id := range state.Keys() {
		v := state.Value(id)
		body, ok := v.(*Map)
		if !ok {
			if id == "__extend__" || id == "__exclude__" {
				continue
			}
			if s, ok := v.(string); ok && strings.Contains(s, ".") {
				parts := strings.Split(s, ".")
				state.Set(id, NewMap("__sls__", sls, "__env__", saltenv, parts[0], NewList(parts[1])))
				continue
			}
			*errs = append(*errs, fmt.Sprintf("ID %s in SLS %s is not a dictionary", Str(id), sls))
			continue
		}
		splitDotted(body, func() {
			*errs = append(*errs, fmt.Sprintf("ID '%s' in SLS '%s' contains multiple state declarations of the same type", Str(id), sls))
		})
		if !body.Has("__sls__") {
			body.Set("__sls__", sls)
		}
		if !body.Has("__env__") {
			body.Set("__env__", saltenv)
		}
	}
}

// handleExtend moves extend to __extend__.
func handleExtend(state *Map, sls, saltenv string, errs *[]string) {
	v, ok := state.Get("extend")
	if !ok {
		return
	}
	state.Delete("extend")
	ext, ok := v.(*Map)
	if !ok {
		*errs = append(*errs, fmt.Sprintf("Extension value in SLS '%s' is not a dictionary", sls))
		return
	}
	for id, b := range ext.All() {
		body, ok := b.(*Map)
		if !ok {
			*errs = append(*errs, fmt.Sprintf("Extension name '%s' in SLS '%s' is not a dictionary", Str(id), sls))
			continue
		}
		if !body.Has("__sls__") {
			body.Set("__sls__", sls)
		}
		if !body.Has("__env__") {
			body.Set("__env__", saltenv)
		}
		splitDotted(body, nil)
	}
	list := state.List("__extend__")
	if list == nil {
		list = NewList()
		state.Set("__extend__", list)
	}
	list.Append(ext)
}

// handleExclude moves exclude to __exclude__.
func handleExclude(state *Map, sls string, errs *[]string) {
	v, ok := state.Get("exclude")
	if !ok {
		return
	}
	state.Delete("exclude")
	if _, ok := v.(*List); !ok {
		*errs = append(*errs, fmt.Sprintf("Exclude Declaration in SLS %s is not formed as a list", sls))
	}
	list := state.List("__exclude__")
	if list == nil {
		list = NewList()
		state.Set("__exclude__", list)
	}
	list.Append(toItems(v)...)
}

// padTemplate gives the states of a single template their form.
func padTemplate(high *Map, name string) []string {
	var errs []string
	for _, key := range []string{"include", "exclude", "extends"} {
		if high.Has(key) {
			return []string{fmt.Sprintf("The '%s' declaration found on '%s' is invalid when rendering single templates", key, name)}
		}
	}
	for _, id := range high.Keys() {
		switch v := high.Value(id).(type) {
		case string:
			if parts := strings.Split(v, "."); len(parts) > 1 {
				high.Set(id, NewMap(parts[0], NewList(parts[1])))
				continue
			}
			errs = append(errs, fmt.Sprintf("ID %s in template %s is not a dictionary", Str(id), name))
		case *Map:
			for k, run := range v.All() {
				if run == nil && !strings.HasPrefix(Str(k), "_") {
					errs = append(errs, fmt.Sprintf("ID '%s' in template %s contains a short declaration (%s) with a trailing colon. "+
						"When not passing any arguments to a state, the colon must be omitted.", Str(id), name, Str(k)))
				}
			}
			splitDotted(v, func() {
				errs = append(errs, fmt.Sprintf("ID '%s' in template '%s' contains multiple state declarations of the same type", Str(id), name))
			})
		}
	}
	return errs
}
