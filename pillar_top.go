// The pillar's top file, and the SLS files it names.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// pillarTop is what the top files say: environment → target → list of matchers
// and SLS names, all of them ordered.
type pillarTop = Map

// envs are the environments whose top files count.
func (s *pillarRunState) envs() []string {
	if s.req.Pillarenv != "" {
		if !s.opts.Map("pillar_roots").Has(s.req.Pillarenv) && !s.opts.Map("pillar_roots").Has("__env__") {
			return nil
		}
		return []string{s.req.Pillarenv}
	}
	var out []string
	for _, env := range s.files.Envs() {
		if env != "base" && env != "__env__" {
			out = append(out, env)
		}
	}
	if slices.Contains(s.files.Envs(), "base") {
		out = append([]string{"base"}, out...)
	}
	if s.opts.Str("pillar_source_merging_strategy") == "none" {
		only := s.req.Saltenv
		if slices.Contains(out, only) {
			return []string{only}
		}
		return nil
	}
	return out
}

// top renders and merges the top files.
func (s *pillarRunState) top() (*pillarTop, []string) {
	var errs []string
	name := s.opts.Str("state_top")
	name = strings.TrimPrefix(name, "salt://")
	if name == "" {
		name = "top.sls"
	}
	type pending struct{ sls, env string }
	var tops []*Map
	var includes []pending
	take := func(v any, env string) {
		m, ok := v.(*Map)
		if !ok {
			return
		}
		if inc := m.List("include"); inc != nil {
			for _, sls := range inc.Items {
				includes = append(includes, pending{Str(sls), env})
			}
		}
		m.Delete("include")
		tops = append(tops, m)
	}
	for _, env := range s.envs() {
		text, full, err := s.read(name, env)
		if errors.Is(err, errNoPillarFile) {
			continue
		}
		var v any
		if err == nil {
			v, err = s.template(text, full, "", env, nil)
		}
		if err != nil {
			errs = append(errs, "Rendering Primary Top file failed, render error:\n"+err.Error())
			continue
		}
		take(v, env)
	}
	done := map[pending]bool{}
	for len(includes) > 0 {
		p := includes[0]
		includes = includes[1:]
		if done[p] {
			continue
		}
		done[p] = true
		text, full, _, err := s.find(p.sls, p.env)
		var v any
		if err == nil {
			v, err = s.template(text, full, p.sls, p.env, nil)
		}
		if err != nil {
			errs = append(errs, fmt.Sprintf("Rendering Top file %s failed, render error:\n%s", p.sls, err))
			continue
		}
		take(v, p.env)
	}
	top, err := s.mergeTops(tops)
	if err != nil {
		s.log.Error(fmt.Sprintf("pillar top file: %v", err))
		return &Map{}, append(errs, "Error encountered while rendering pillar top file.")
	}
	return top, errs
}

// mergeTops joins top files: targets of one environment in order, an explicit
// order first; a later mention of a target replaces the earlier one's list.
func (s *pillarRunState) mergeTops(tops []*Map) (*pillarTop, error) {
	out := &Map{}
	orders := map[string]map[string]int64{}
	for _, t := range tops {
		for e, targets := range t.All() {
			env := Str(e)
			tm, ok := targets.(*Map)
			if !ok {
				return nil, fmt.Errorf("the section of environment %s is %s, not a mapping of targets", env, TypeName(targets))
			}
			section := out.Map(env)
			if section == nil {
				section = &Map{}
				out.Set(env, section)
				orders[env] = map[string]int64{}
			}
			for tgt, v := range tm.All() {
				if text, ok := v.(string); ok { // the short form
					v = NewList(text)
				}
				entry := &List{}
				var names []any
				ignore := false
				orders[env][Str(tgt)] = 0
				for _, item := range toItems(v) {
					m, isMap := item.(*Map)
					if !isMap {
						if n, ok := item.(string); ok && !slices.Contains(names, any(n)) {
							names = append(names, n)
						}
						continue
					}
					if m.Has("match") {
						entry.Append(m)
					}
					if n, ok := toInt(m.Value("order")); ok && m.Has("order") {
						orders[env][Str(tgt)] = n
					}
					ignore = ignore || Truth(m.Value("ignore_missing"))
				}
				entry.Append(names...)
				if ignore {
					for _, n := range names {
						s.ignored[env] = append(s.ignored[env], Str(n))
					}
				}
				section.Set(tgt, entry)
			}
		}
	}
	sorted := NewMap().SetClass("OrderedDict")
	for env, v := range out.All() {
		section := v.(*Map)
		keys := section.Keys()
		o := orders[Str(env)]
		slices.SortStableFunc(keys, func(a, b any) int { return int(o[Str(a)] - o[Str(b)]) })
		m := NewMap().SetClass("OrderedDict")
		for _, k := range keys {
			m.Set(k, section.Value(k))
		}
		sorted.Set(env, m)
	}
	return sorted, nil
}

// matches picks the SLS names that are for this minion: environment → list.
func (s *pillarRunState) matches(top *pillarTop) *Map {
	out := &Map{}
	subject := Subject{ID: s.req.ID, Grains: s.req.Grains, Pillar: s.call.Pillar, Nodegroups: s.opts.Map("nodegroups")}
	for env, v := range top.All() {
		if s.req.Pillarenv != "" && Str(env) != s.req.Pillarenv {
			continue
		}
		for tgt, data := range v.(*Map).All() {
			if !topMatches(Str(tgt), data.(*List), subject) {
				continue
			}
			names := out.List(env)
			if names == nil {
				names = &List{}
				out.Set(env, names)
			}
			for _, item := range data.(*List).Items {
				if n, ok := item.(string); ok && !slices.Contains(names.Items, any(n)) {
					names.Append(n)
				}
			}
		}
	}
	return out
}

// topMatches says whether a target of a top file means the minion: compound,
// unless its list says otherwise.
func topMatches(tgt string, data *List, subject Subject) bool {
	kind := "compound"
	for _, item := range data.Items {
		if m, ok := item.(*Map); ok && m.Has("match") {
			kind = m.Str("match")
		}
	}
	if kind == "nodegroup" {
		kind, tgt = "compound", "N@"+tgt
	}
	return MatchTarget(kind, tgt, "", subject)
}

// render renders the matched files over pillar.
func (s *pillarRunState) render(matches, pillar *Map) *Map {
	for _, env := range s.inEnvOrder(matches) {
		rendered := map[string]*Map{}
		for _, item := range matches.List(env).Items {
			for _, sls := range s.expand(Str(item), env) {
				if part := s.sls(sls, env, rendered, nil, 0); part != nil {
					pillar = s.merge(pillar, part)
				}
			}
		}
	}
	return pillar
}

// inEnvOrder lists the environments of matches, those of env_order first: what
// comes later lies over what came before.
func (s *pillarRunState) inEnvOrder(matches *Map) []string {
	var out []string
	for _, env := range s.opts.List("env_order") {
		if matches.Has(env) && !slices.Contains(out, env) {
			out = append(out, env)
		}
	}
	for e := range matches.All() {
		if env := Str(e); !slices.Contains(out, env) {
			out = append(out, env)
		}
	}
	return out
}

// expand resolves globs in the name of an SLS; a name without a match stays.
func (s *pillarRunState) expand(name, env string) []string {
	if !strings.ContainsAny(name, "*?[") {
		return []string{name}
	}
	var out []string
	glob := CompileGlob(name)
	for _, have := range s.available(env) {
		if glob.Match(have) {
			out = append(out, have)
		}
	}
	if len(out) == 0 {
		return []string{name}
	}
	return out
}

// maxPillarDepth bounds includes within includes.
const maxPillarDepth = 100

// sls renders one file with what it includes. Each file is rendered once for a
// compilation; rendered knows them.
func (s *pillarRunState) sls(sls, env string, rendered map[string]*Map, defaults *Map, depth int) *Map {
	if depth > maxPillarDepth {
		s.errs = append(s.errs, fmt.Sprintf("SLS '%s' includes deeper than %d levels", sls, maxPillarDepth))
		return nil
	}
	text, full, isInit, err := s.find(sls, env)
	if errors.Is(err, errNoPillarFile) {
		s.missing(sls, env)
		return nil
	}
	var v any
	if err == nil {
		v, err = s.template(text, full, sls, env, defaults)
	}
	if err != nil {
		s.log.Log(s.ctx, LevelCritical, fmt.Sprintf("Rendering SLS '%s' failed, render error:\n%s", sls, err))
		if safe, ok := s.opts.All().Get("pillar_safe_render_error"); ok && !Truth(safe) {
			s.errs = append(s.errs, fmt.Sprintf("Rendering SLS '%s' failed, render error:\n%s", sls, err))
		} else {
			s.errs = append(s.errs, fmt.Sprintf("Rendering SLS '%s' failed. Please see master log for details.", sls))
		}
		return nil
	}
	state, ok := v.(*Map)
	if !ok {
		if Truth(v) {
			s.errs = append(s.errs, fmt.Sprintf("SLS '%s' does not render to a dictionary", sls))
		}
		return nil
	}
	rendered[sls] = state
	inc, has := state.Get("include")
	if !has {
		return state
	}
	list, ok := inc.(*List)
	if !ok {
		s.errs = append(s.errs, fmt.Sprintf("Include Declaration in SLS '%s' is not formed as a list", sls))
		return state
	}
	state.Delete("include")
	var out *Map
	add := func(m *Map) {
		if out == nil {
			out = DeepCopy(m).(*Map) // m may be included elsewhere, too
		} else {
			out = s.merge(out, m)
		}
	}
	override := s.opts.Bool("pillar_includes_override_sls")
	if override {
		add(state)
	}
	for _, item := range list.Items {
		for _, part := range s.include(item, sls, env, isInit, rendered, depth) {
			add(part)
		}
	}
	if !override {
		add(state)
	}
	rendered[sls] = out
	return out
}

// include renders one entry of an include list: a name, or a name with a key to
// put it under and defaults for its template.
func (s *pillarRunState) include(item any, sls, env string, isInit bool, rendered map[string]*Map, depth int) []*Map {
	name, key := Str(item), ""
	var defaults *Map
	if m, ok := item.(*Map); ok && m.Len() > 0 {
		k, v := m.At(0)
		name = Str(k)
		if opts, ok := v.(*Map); ok {
			key, defaults = opts.Str("key"), opts.Map("defaults")
		}
	}
	if rest, ok := strings.CutPrefix(name, "."); ok {
		parts := strings.Split(sls, ".")
		if !isInit {
			parts = parts[:len(parts)-1]
		}
		name = strings.Join(append(parts, rest), ".")
	}
	var out []*Map
	for _, sub := range s.expand(name, env) {
		part, done := rendered[sub]
		if !done {
			part = s.sls(sub, env, rendered, defaults, depth+1)
		}
		if part == nil {
			continue
		}
		if key != "" {
			fragments := strings.Split(key, ":")
			for i := len(fragments) - 1; i >= 0; i-- {
				part = NewMap(fragments[i], part)
			}
		}
		out = append(out, part)
	}
	return out
}

// missing reports an SLS that the top file or an include names in vain.
func (s *pillarRunState) missing(sls, env string) {
	if slices.Contains(s.ignored[env], sls) {
		return
	}
	if !s.opts.Map("pillar_roots").Has(env) {
		s.log.Debug(fmt.Sprintf("pillar SLS '%s' of environment '%s' was not found: the environment is not in pillar_roots", sls, env))
		return
	}
	msg := fmt.Sprintf("Specified SLS '%s' in environment '%s' is not available on the salt master", sls, env)
	s.log.Error(msg)
	s.errs = append(s.errs, msg)
}

// PillarTop shows what the top files say: environment → target → matchers and
// SLS names. The minion matters only for how the top files render.
func (s *PillarCompiler) PillarTop(ctx context.Context, r PillarRequest) (*Map, error) {
	run := s.parts().newRun(ctx, r)
	top, errs := run.top()
	if len(errs) > 0 {
		return nil, errors.New(strings.Join(errs, "\n"))
	}
	return top, nil
}
