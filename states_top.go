// Top files: which SLS files are for this minion.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// stateTopOptions are the options that the master decides for state runs.
type stateTopOptions struct {
	top        string // salt:// address of the top file
	topEnv     string
	strategy   string
	defaultTop string
	envOrder   []string
	nodegroups *Map
}

// errTopTargets is a top file whose environment has no targets.
var errTopTargets = errors.New("Unable to render top file. No targets found.")

// takeMasterOptions reads the options of state runs from the master, or from
// the minion's own configuration where there is none.
func (h *highState) takeMasterOptions(ctx context.Context) {
	o := h.run.c.Opts
	if h.run.c.Master != nil && o.Str("file_client") != "local" {
		v, err := h.run.c.Master.Request(ctx, NewMap("cmd", "_master_opts"))
		h.run.warn(err)
		if m, ok := v.(*Map); ok {
			o = o.Clone()
			for _, k := range []string{"renderer", "failhard", "state_top", "state_top_saltenv", "nodegroups", "state_auto_order",
				"top_file_merging_strategy", "env_order", "default_top", "jinja_env", "jinja_sls_env", "jinja_lstrip_blocks", "jinja_trim_blocks"} {
				if v, ok := m.Get(k); ok {
					o.Set(k, v)
				}
			}
			for _, k := range []string{"state_events", "state_aggregate"} {
				if !Truth(o.Value(k)) && Truth(m.Value(k)) {
					o.Set(k, m.Value(k))
				}
			}
			h.run.withEnv(func(e *Env) { e.Opts = o })
		}
	}
	top := o.Str("state_top")
	if top == "" {
		top = "top.sls"
	}
	if !strings.HasPrefix(top, "salt://") {
		top = "salt://" + strings.TrimPrefix(top, "/")
	}
	h.top = stateTopOptions{top: top, topEnv: o.Str("state_top_saltenv"), strategy: o.Str("top_file_merging_strategy"),
		defaultTop: o.Str("default_top"), envOrder: o.List("env_order"), nodegroups: o.Map("nodegroups")}
}

// topFile is one rendered top file of an environment.
type topFile struct {
	env  string
	data *Map
}

// topFiles renders the top files and what they include.
func (h *highState) topFiles(ctx context.Context) ([]topFile, error) {
	r := h.run
	saltenv := r.c.Opts.Str("saltenv")
	if h.top.strategy == "same" && saltenv == "" && h.top.defaultTop == "" {
		return nil, errors.New("top_file_merging_strategy set to 'same', but no default_top configuration option was set")
	}
	envs := []string{saltenv}
	if saltenv == "" {
		if h.top.topEnv != "" {
			envs = []string{h.top.topEnv}
		} else {
			envs = h.environments(ctx)
		}
	}
	var tops []topFile
	found := 0
	for _, env := range envs {
		data := NewMap()
		if r.c.Files != nil {
			local, err := r.c.Files.Cache(ctx, h.top.top, env)
			if err != nil {
				r.c.Log.Error(err.Error())
			}
			if local != "" {
				found++
				v, err := renderedSLS(ctx, r.c, local, h.top.top, env, "")
				if err != nil {
					return nil, err
				}
				switch v := v.(type) {
				case *Map:
					data = v
				case nil:
				default:
					return nil, OtherErrorf("AttributeError", "'%s' object has no attribute 'items'", TypeName(v))
				}
			}
		}
		tops = append(tops, topFile{env, data})
	}
	if found > 1 && h.top.strategy == "merge" && len(h.top.envOrder) == 0 {
		r.c.Log.Warn(fmt.Sprintf("top_file_merging_strategy is set to '%s' and multiple top files were found. Merging order is not "+
			"deterministic, it may be desirable to either set top_file_merging_strategy to 'same' or use the 'env_order' configuration "+
			"parameter to specify the merging order.", h.top.strategy))
	}
	done := map[string]bool{}
	for i := 0; i < len(tops); i++ {
		t := tops[i]
		inc, ok := t.data.Get("include")
		if !ok {
			continue
		}
		t.data.Delete("include")
		for _, p := range toItems(inc) {
			names := h.avail.match(ctx, t.env, Str(p))
			if !isGlob(Str(p)) {
				names = []string{Str(p)}
			}
			for _, sls := range names {
				if done[t.env+":"+sls] {
					continue
				}
				done[t.env+":"+sls] = true
				local, source, err := h.find(ctx, sls, t.env)
				if err != nil || local == "" {
					continue
				}
				v, err := renderedSLS(ctx, r.c, local, source, t.env, sls)
				if err != nil {
					return nil, err
				}
				if m, ok := v.(*Map); ok {
					tops = append(tops, topFile{t.env, m})
				}
			}
		}
	}
	return tops, nil
}

// mergedTop is the top data of all environments. A top file that does not
// render is an error in the log and gives nothing.
func (h *highState) mergedTop(ctx context.Context) (*Map, error) {
	tops, err := h.topFiles(ctx)
	if err != nil {
		var me *ModuleError
		if errors.As(err, &me) && me.Class == "AttributeError" {
			return nil, err
		}
		h.run.c.Log.Error("Unable to render top file: " + errText(err))
		return NewMap(), nil
	}
	switch h.top.strategy {
	case "same":
		return h.topSame(tops)
	case "merge_all":
		return topMergeAll(tops)
	}
	return topMerge(tops)
}

// topSection sets the targets of one environment.
func topSection(top *Map, env any, targets any) error {
	m, ok := targets.(*Map)
	if !ok {
		return errTopTargets
	}
	section := top.Map(env)
	if section == nil {
		section = NewMap()
		top.Set(env, section)
	}
	section.Merge(m)
	return nil
}

func topMerge(tops []topFile) (*Map, error) {
	top := NewMap()
	for _, t := range tops {
		if t.env != "base" {
			continue
		}
		for env, targets := range t.data.All() {
			if err := topSection(top, env, targets); err != nil {
				return nil, err
			}
		}
	}
	for _, t := range tops {
		if t.env == "base" {
			continue
		}
		for env, targets := range t.data.All() {
			if env != t.env || top.Has(env) {
				continue
			}
			if err := topSection(top, env, targets); err != nil {
				return nil, err
			}
		}
	}
	return top, nil
}

func (h *highState) topSame(tops []topFile) (*Map, error) {
	top := NewMap()
	byEnv := map[string][]*Map{}
	var envs []string
	for _, t := range tops {
		if _, ok := byEnv[t.env]; !ok {
			envs = append(envs, t.env)
		}
		byEnv[t.env] = append(byEnv[t.env], t.data)
	}
	empty := func(list []*Map) bool {
		for _, m := range list {
			if m.Len() > 0 {
				return false
			}
		}
		return true
	}
	for _, env := range envs {
		list := byEnv[env]
		if empty(list) {
			list = byEnv[h.top.defaultTop]
			if empty(list) {
				h.run.c.Log.Error(fmt.Sprintf("The '%s' saltenv has no top file, and the fallback saltenv specified by default_top (%s) also has no top file",
					env, h.top.defaultTop))
				continue
			}
		}
		for _, data := range list {
			if targets, ok := data.Get(env); ok {
				if err := topSection(top, env, targets); err != nil {
					return nil, err
				}
			}
		}
	}
	return top, nil
}

func topMergeAll(tops []topFile) (*Map, error) {
	top := NewMap()
	read := func(v any) (match *Map, states []any) {
		for _, item := range toItems(v) {
			if m, ok := item.(*Map); ok {
				match = m
			} else if _, ok := item.(string); ok {
				states = append(states, item)
			}
		}
		return match, states
	}
	for _, t := range tops {
		for env, targets := range t.data.All() {
			m, ok := targets.(*Map)
			if !ok {
				return nil, errTopTargets
			}
			section := top.Map(env)
			if section == nil {
				section = NewMap()
				top.Set(env, section)
			}
			for tgt, data := range m.All() {
				have, ok := section.Get(tgt)
				if !ok {
					section.Set(tgt, data)
					continue
				}
				m1, s1 := read(have)
				m2, s2 := read(data)
				if m2 == nil {
					m2 = m1
				}
				merged := NewList()
				if m2 != nil {
					merged.Append(m2)
				}
				merged.Append(s1...)
				for _, s := range s2 {
					if !containsText(texts(merged), Str(s)) {
						merged.Append(s)
					}
				}
				section.Set(tgt, merged)
			}
		}
	}
	return top, nil
}

// verifyTop says what is wrong with top data.
func verifyTop(top *Map) []string {
	var errs []string
	add := func(format string, a ...any) { errs = append(errs, fmt.Sprintf(format, a...)) }
	for env, m := range top.All() {
		if _, ok := env.(string); !ok {
			add("Environment %s in top file is not formed as a string", Str(env))
		}
		if env == "" {
			add("Empty saltenv statement in top file")
		}
		matches, ok := m.(*Map)
		if !ok {
			add("The top file matches for saltenv %s are not formatted as a dict", Str(env))
			continue
		}
		for _, mods := range matches.All() {
			list, ok := mods.(*List)
			if !ok {
				add("Malformed topfile (state declarations not formed as a list)")
				continue
			}
			for _, mod := range list.Items {
				switch mod := mod.(type) {
				case *Map:
					for _, v := range mod.All() {
						if !Truth(v) {
							add("Improperly formatted top file matcher in saltenv %s: %s file", Str(mod), Str(v))
						}
					}
				case string:
					if mod == "" {
						add("Environment %s contains an empty sls index", Str(env))
					}
				}
			}
		}
	}
	return errs
}

// topMatches are the SLS names for this minion, by environment.
func (h *highState) topMatches(ctx context.Context, top *Map) (*Map, error) {
	c := h.run.c
	matches := NewMap().SetClass("DefaultOrderedDict")
	list := func(env any) *List {
		l := matches.List(env)
		if l == nil {
			l = NewList()
			matches.Set(env, l)
		}
		return l
	}
	only := c.Opts.Str("saltenv")
	subject := Subject{ID: c.Opts.Str("id"), Grains: c.Grains, Pillar: c.Pillar, Nodegroups: h.top.nodegroups}
	var take func(env, match, data any) error
	take = func(env, match, data any) error {
		items := toItems(data)
		kind := "compound"
		for _, item := range items {
			if m, ok := item.(*Map); ok && m.Has("match") {
				kind = Str(m.Value("match"))
			}
		}
		ok, err := topTarget(kind, match, subject)
		if err != nil {
			return err
		}
		if !ok {
			return nil
		}
		list(env)
		for _, item := range items {
			switch item := item.(type) {
			case string:
				list(env).Append(item)
			case *Map:
				if sub := item.Map("subfilter"); sub != nil {
					item.Delete("subfilter")
					for m, d := range sub.All() {
						if err := take(env, m, d); err != nil {
							return err
						}
					}
				}
				if item.Len() == 0 {
					continue
				}
				k, v := item.At(item.Len() - 1)
				if h.avail.has(ctx, Str(k)) {
					list(k).Append(v)
				}
			}
		}
		return nil
	}
	for env, body := range top.All() {
		if only != "" && env != only {
			continue
		}
		m, ok := body.(*Map)
		if !ok {
			continue
		}
		for match, data := range m.All() {
			if err := take(env, match, data); err != nil {
				return nil, err
			}
		}
	}
	h.masterTops(ctx, matches)
	return matches, nil
}

// topTarget matches one target of a top file.
func topTarget(kind string, match any, s Subject) (bool, error) {
	t, err := ParseTarget(kind, match, DefaultTargetDelim, s.Nodegroups)
	if err != nil {
		var te *TargetError
		if errors.As(err, &te) && kind != "compound" && !knownMatcher(kind) {
			return false, OtherErrorf("KeyError", "'%s_match.match'", kind)
		}
		return false, nil
	}
	return t.Match(s), nil
}

func knownMatcher(kind string) bool {
	switch kind {
	case "glob", "grain", "grain_pcre", "pcre", "list", "compound", "pillar", "pillar_pcre", "pillar_exact", "ipcidr", "nodegroup", "data", "range", "cache":
		return true
	}
	return false
}

// masterTops adds what the master's own sources say.
func (h *highState) masterTops(ctx context.Context, matches *Map) {
	c := h.run.c
	if c.Master == nil || c.Opts.Str("file_client") == "local" {
		return
	}
	v, err := c.Master.Request(ctx, NewMap("cmd", "_master_tops", "id", c.Opts.Str("id"), "opts", NewMap("id", c.Opts.Str("id"), "grains", c.Grains)))
	if err != nil {
		h.run.warn(err)
		return
	}
	m, _ := v.(*Map)
	for env, names := range m.All() {
		first, second := toItems(matches.Value(env)), toItems(names)
		if c.Opts.Bool("master_tops_first") {
			first, second = second, first
		}
		merged := NewList(first...)
		for _, s := range second {
			if !containsText(texts(merged), Str(s)) {
				merged.Append(s)
			}
		}
		matches.Set(env, merged)
	}
}
