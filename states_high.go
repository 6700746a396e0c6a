// High data: its checks, extend, requisite_in, and exclude. Every text here is what Salt prints for the same mistake.
package main

import (
	"fmt"
	"strings"
)

// requisiteKeywords are the requisites whose lists are joined by an extend.
func requisiteKeyword(key string) bool {
	switch key {
	case "onchanges", "onchanges_any", "onfail", "onfail_any", "onfail_all", "onfail_stop", "prereq", "prerequired",
		"watch", "watch_any", "require", "require_any", "listen":
		return true
	}
	return false
}

func requisiteInKeyword(key string) bool {
	switch key {
	case "onchanges_in", "onfail_in", "prereq_in", "watch_in", "require_in", "listen_in":
		return true
	}
	return false
}

// internalKeyword says whether a key of a low chunk is for the runner and not
// for the state function.
func internalKeyword(key string) bool {
	switch key {
	case "fun", "state", "check_cmd", "cmd_opts_exclude", "failhard", "onlyif", "unless", "creates", "retry", "order",
		"parallel", "prereq", "prereq_in", "prerequired", "reload_modules", "reload_grains", "reload_pillar", "runas",
		"runas_password", "fire_event", "saltenv", "umask", "use", "use_in", "__env__", "__sls__", "__id__",
		"__orchestration_jid__", "__pub_user", "__pub_arg", "__pub_jid", "__pub_fun", "__pub_tgt", "__pub_ret", "__pub_pid",
		"__pub_tgt_type", "__prereq__", "__prerequired__", "__umask__":
		return true
	}
	return requisiteKeyword(key) || requisiteInKeyword(key)
}

func hidden(k any) bool {
	s, ok := k.(string)
	return ok && strings.HasPrefix(s, "__")
}

// firstKey is the first key of a mapping, and its value.
func firstKey(m *Map) (string, any) {
	if m.Len() == 0 {
		return "", nil
	}
	k, v := m.At(0)
	return Str(k), v
}

// stateRef names one state declaration in high data.
type stateRef struct{ id, state string }

// highIndex finds declarations in high data without reading all of it again.
type highIndex struct {
	byValue map[stateRef][]string // {value of any single argument, state} → ids
	bySLS   map[string][]stateRef
}

func indexHigh(high *Map) *highIndex {
	x := &highIndex{byValue: map[stateRef][]string{}, bySLS: map[string][]stateRef{}}
	for id, body := range high.All() {
		m, ok := body.(*Map)
		if !ok {
			continue
		}
		name, sls := Str(id), m.Str("__sls__")
		for st, run := range m.All() {
			if hidden(st) {
				continue
			}
			state := Str(st)
			x.bySLS[sls] = append(x.bySLS[sls], stateRef{name, state})
			list, _ := run.(*List)
			if list == nil {
				continue
			}
			seen := map[string]bool{}
			for _, arg := range list.Items {
				if am, ok := arg.(*Map); ok && am.Len() == 1 {
					if _, v := firstKey(am); v != nil {
						if s, ok := v.(string); ok && !seen[s] {
							seen[s] = true
							x.byValue[stateRef{s, state}] = append(x.byValue[stateRef{s, state}], name)
						}
					}
				}
			}
		}
	}
	return x
}

// find lists the declarations that a name means.
func (x *highIndex) find(high *Map, name, state string, strict bool) []stateRef {
	if body, ok := high.Get(name); ok {
		m, _ := body.(*Map)
		if !strict || m.Has(state) {
			return []stateRef{{name, state}}
		}
	}
	if state == "sls" {
		var out []stateRef
		seen := map[string]bool{}
		for _, ref := range x.bySLS[name] {
			if !seen[ref.id] {
				seen[ref.id] = true
				out = append(out, ref)
			}
		}
		return out
	}
	var out []stateRef
	for _, id := range x.byValue[stateRef{name, state}] {
		out = append(out, stateRef{id, state})
	}
	return out
}

// verifyHigh says what is wrong with high data.
func verifyHigh(high *Map) []string {
	var errs []string
	add := func(format string, a ...any) { errs = append(errs, fmt.Sprintf(format, a...)) }
	type reqEntry struct {
		state string
		on    map[string]string // what is required → its state
	}
	reqs := map[string]*reqEntry{}
	for id, b := range high.All() {
		if hidden(id) {
			continue
		}
		name := Str(id)
		body, isMap := b.(*Map)
		sls := ""
		if isMap {
			sls = Str(body.Value("__sls__"))
		}
		if _, ok := id.(string); !ok {
			add("ID '%s' in SLS '%s' is not formed as a string, but is a %s. It may need to be quoted.", name, sls, TypeName(id))
		}
		if !isMap {
			add("The type %s in %s is not formatted as a dictionary", name, Str(b))
			continue
		}
		for st, run := range body.All() {
			state := Str(st)
			if strings.HasPrefix(state, "__") {
				continue
			}
			if run == nil {
				add("ID '%s' in SLS '%s' contains a short declaration (%s) with a trailing colon. When not passing any "+
					"arguments to a state, the colon must be omitted.", name, sls, state)
				continue
			}
			list, ok := run.(*List)
			if !ok {
				add("State '%s' in SLS '%s' is not formed as a list", name, sls)
				continue
			}
			fun := 0
			var funs []string
			if _, after, dotted := strings.Cut(state, "."); dotted {
				fun++
				funs = append(funs, after)
			}
			for _, arg := range list.Items {
				switch arg := arg.(type) {
				case string:
					fun++
					funs = append(funs, arg)
					if strings.Contains(strings.TrimSpace(arg), " ") {
						add("The function \"%s\" in state \"%s\" in SLS \"%s\" has whitespace, a function with whitespace is not "+
							"supported, perhaps this is an argument that is missing a \":\"", arg, name, sls)
					}
				case *Map:
					key, val := firstKey(arg)
					if key == "names" {
						if _, ok := val.(*List); !ok {
							add("The 'names' argument in state '%s' in SLS '%s' needs to be formed as a list", name, sls)
						}
					}
					switch key {
					case "require", "watch", "prereq", "onchanges":
					default:
						continue
					}
					wanted, ok := val.(*List)
					if !ok {
						add("The %s statement in state '%s' in SLS '%s' needs to be formed as a list", key, name, sls)
					} else {
						mine := &reqEntry{state: state, on: map[string]string{}}
						reqs[name] = mine
						for _, r := range wanted.Items {
							reqKey, reqVal := "id", r
							switch r := r.(type) {
							case string:
							case *Map:
								reqKey, reqVal = firstKey(r)
							default:
								add("Requisite declaration %s in SLS %s is not formed as a single key dictionary", Str(r), sls)
								continue
							}
							if before, _, dotted := strings.Cut(reqKey, "."); dotted {
								add("Invalid requisite type '%s' in state '%s', in SLS '%s'. Requisite types must not contain dots, "+
									"did you mean '%s'?", reqKey, name, sls, before)
							}
							if !Hashable(reqVal) {
								add("Illegal requisite \"%s\", please check your syntax.\n", Str(reqVal))
								continue
							}
							target := Str(reqVal)
							mine.on[target] = reqKey
							if other := reqs[target]; other != nil {
								if back, ok := other.on[name]; ok && back == state && other.state == mine.on[target] {
									add("A recursive requisite was found, SLS \"%s\" ID \"%s\" ID \"%s\"", sls, name, target)
								}
							}
						}
					}
					if arg.Len() != 1 {
						add("Multiple dictionaries defined in argument of state '%s' in SLS '%s'", name, sls)
					}
				}
			}
			switch {
			case fun == 0 && state != "require" && state != "watch":
				add("No function declared in state '%s' in SLS '%s'", name, sls)
			case fun > 1:
				add("Too many functions declared in state '%s' in SLS '%s'. Please choose one of the following: %s",
					name, sls, strings.Join(funs, ", "))
			}
		}
	}
	return errs
}

// reconcileExtend merges __extend__ into the declarations it names.
func reconcileExtend(high *Map, strict bool) []string {
	v, ok := high.Get("__extend__")
	if !ok {
		return nil
	}
	high.Delete("__extend__")
	var errs []string
	var index *highIndex
	excluded := map[string]bool{}
	for _, e := range toItems(high.Value("__exclude__")) {
		switch e := e.(type) {
		case string:
			excluded[e] = true
		case *Map:
			if s := e.Str("sls"); s != "" {
				excluded[s] = true
			}
		}
	}
	for _, chunk := range toItems(v) {
		m, ok := chunk.(*Map)
		if !ok {
			continue
		}
		for id, b := range m.All() {
			name := Str(id)
			body, ok := b.(*Map)
			if !ok {
				continue
			}
			state := ""
			for st := range body.All() {
				if !hidden(st) {
					state = Str(st)
					break
				}
			}
			if !high.Has(name) || !high.Map(name).Has(state) {
				if index == nil {
					index = indexHigh(high)
				}
				ids := index.find(high, name, state, strict)
				if len(ids) != 1 {
					env, sls := "base", "base"
					if s := body.Str("__env__"); s != "" {
						env = s
					}
					if s := body.Str("__sls__"); s != "" {
						sls = s
					}
					errs = append(errs, fmt.Sprintf("Cannot extend ID '%[1]s' in '%[2]s:%[3]s'. It is not part of the high state.\n"+
						"This is likely due to a missing include statement or an incorrectly typed ID.\nEnsure that a "+
						"state with an ID of '%[1]s' is available\nin environment '%[2]s' and to SLS '%[3]s'", name, env, sls))
					continue
				}
				name = ids[0].id
			}
			if excluded[body.Str("__sls__")] {
				continue
			}
			target := high.Map(name)
			for st, run := range body.All() {
				if hidden(st) {
					continue
				}
				have, ok := target.Value(st).(*List)
				if !ok {
					target.Set(st, run)
					continue
				}
				extendArgs(have, iterated(run))
			}
		}
	}
	return errs
}

// iterated are the items that a loop over a value sees: a mapping gives its
// keys, a text its letters.
func iterated(v any) []any {
	switch v := v.(type) {
	case *Map:
		return v.Keys()
	case string:
		var letters []any
		for _, r := range v {
			letters = append(letters, string(r))
		}
		return letters
	}
	return toItems(v)
}

// extendArgs puts the arguments of an extend into those of the declaration.
func extendArgs(have *List, more []any) {
	for _, arg := range more {
		updated := false
		for i, val := range have.Items {
			switch arg := arg.(type) {
			case string:
				if _, ok := val.(string); ok {
					have.Items[i] = arg
					updated = true
				}
			case *Map:
				old, ok := val.(*Map)
				if !ok || old.Len() == 0 || arg.Len() == 0 {
					continue
				}
				key, v := firstKey(arg)
				oldKey, oldV := firstKey(old)
				if key == oldKey {
					list, isList := oldV.(*List)
					if requisiteKeyword(key) && isList {
						list.Append(toItems(v)...)
					} else {
						have.Items[i] = arg
					}
					updated = true
				}
				if key == "name" && oldKey == "names" {
					have.Items[i] = arg
				}
			}
		}
		if !updated {
			have.Append(arg)
		}
	}
}

// mostHinges bounds the repetitions of requisites in long _in lists: Salt
// repeats each member for every later one, which shows in low data.
const mostHinges = 256

// requisiteIn turns _in requisites, use and prereq into extends and merges
// them. disabled are the requisites that the configuration switches off.
func requisiteIn(high *Map, disabled []string) []string {
	extend := NewMap()
	var errs []string
	var index *highIndex
	find := func(name, state string) []stateRef {
		if index == nil {
			index = indexHigh(high)
		}
		return index.find(high, name, state, true)
	}
	extList := func(id, state string) *List {
		body := extend.Map(id)
		if body == nil {
			body = NewMap()
			extend.Set(id, body)
		}
		l := body.List(state)
		if l == nil {
			l = NewList()
			body.Set(state, l)
		}
		return l
	}
	for idKey, b := range high.All() {
		body, ok := b.(*Map)
		if !ok {
			continue
		}
		id := Str(idKey)
		for st, run := range body.All() {
			if hidden(st) {
				continue
			}
			state := Str(st)
			for _, arg := range toItems(run) {
				am, ok := arg.(*Map)
				if !ok || am.Len() == 0 {
					continue
				}
				key, items := firstKey(am)
				switch key {
				case "require_in", "watch_in", "onfail_in", "onchanges_in", "use", "use_in", "prereq", "prereq_in":
				default:
					continue
				}
				if containsText(disabled, key) {
					continue
				}
				rkey, _, _ := strings.Cut(key, "_")
				dotted := func(pstate, pname string) string {
					before, _, has := strings.Cut(pstate, ".")
					if has {
						errs = append(errs, fmt.Sprintf("Invalid requisite in %s: %s for %s, in SLS '%s'. Requisites must not contain "+
							"dots, did you mean '%s'?", rkey, pstate, pname, Str(body.Value("__sls__")), before))
					}
					return before
				}
				require := func(name, pstate string) {
					l := extList(name, pstate)
					ext := extend.Map(name)
					ext.Set("__env__", body.Value("__env__"))
					ext.Set("__sls__", body.Value("__sls__"))
					found := false
					for _, have := range l.Items {
						if hm, ok := have.(*Map); ok {
							if k, v := firstKey(hm); k == rkey {
								if reqs, ok := v.(*List); ok {
									reqs.Append(NewMap(state, id))
									found = true
								}
							}
						}
					}
					if !found {
						l.Append(NewMap(rkey, NewList(NewMap(state, id))))
					}
				}
				switch items := items.(type) {
				case *Map:
					for k, v := range items.All() {
						pstate := dotted(Str(k), Str(v))
						require(Str(v), pstate)
					}
				case *List:
					var hinges []stateRef
					for _, item := range items.Items {
						ind, ok := item.(*Map)
						if !ok {
							if ind = bareRequisite(high, Str(item)); ind == nil {
								continue
							}
						}
						if ind.Len() == 0 {
							continue
						}
						pstate, pv := firstKey(ind)
						pname := Str(pv)
						if pstate == "sls" {
							if index == nil {
								index = indexHigh(high)
							}
							hinges = append([]stateRef(nil), index.bySLS[pname]...)
						} else {
							if len(hinges) >= mostHinges {
								hinges = nil
							}
							hinges = append(hinges, stateRef{pname, pstate})
						}
						dotted(pstate, pname)
						for _, h := range hinges {
							switch key {
							case "prereq_in":
								extList(id, state).Append(NewMap("prerequired", NewList(NewMap(h.state, h.id))))
								require(h.id, h.state)
							case "prereq":
								for _, ref := range find(h.id, h.state) {
									extList(ref.id, ref.state).Append(NewMap("prerequired", NewList(NewMap(state, id))))
								}
							case "use_in":
								for _, ref := range find(h.id, h.state) {
									useArgs(extList(ref.id, ref.state), toItems(high.Map(id).Value(state)), stateArgs(ref.id, h.state, high))
								}
							case "use":
								for _, ref := range find(h.id, h.state) {
									useArgs(extList(id, state), toItems(high.Map(ref.id).Value(ref.state)), stateArgs(id, state, high))
								}
							default:
								require(h.id, h.state)
							}
						}
					}
				}
			}
		}
	}
	list := NewList()
	for k, v := range extend.All() {
		list.Append(NewMap(k, v))
	}
	high.Set("__extend__", list)
	return append(errs, reconcileExtend(high, true)...)
}

// bareRequisite finds the state type for a requisite that is only a name.
func bareRequisite(high *Map, name string) *Map {
	if body := high.Map(name); body != nil {
		for st := range body.All() {
			if !hidden(st) {
				return NewMap(st, name)
			}
		}
		return nil
	}
	var found *Map
	for id, b := range high.All() {
		body, ok := b.(*Map)
		if !ok {
			continue
		}
		for st, run := range body.All() {
			if hidden(st) {
				continue
			}
			for _, arg := range toItems(run) {
				if m, ok := arg.(*Map); ok && m.Value("name") == name {
					if found == nil {
						found = NewMap(st, id)
					}
				}
			}
		}
	}
	return found
}

// stateArgs lists the names of the arguments of a declaration.
func stateArgs(id, state string, high *Map) map[string]bool {
	out := map[string]bool{}
	for _, arg := range toItems(high.Map(id).Value(state)) {
		if m, ok := arg.(*Map); ok && m.Len() == 1 {
			k, _ := firstKey(m)
			out[k] = true
		}
	}
	return out
}

// useArgs copies the arguments that the using state does not have itself.
func useArgs(to *List, from []any, own map[string]bool) {
	for _, arg := range from {
		m, ok := arg.(*Map)
		if !ok || m.Len() != 1 {
			continue
		}
		k, _ := firstKey(m)
		switch k {
		case "require_in", "watch_in", "onfail_in", "onchanges_in", "use", "use_in", "prereq", "prereq_in", "require", "watch",
			"onfail", "onfail_stop", "onchanges", "name", "names":
			continue
		}
		if !own[k] {
			to.Append(arg)
		}
	}
}

// applyExclude takes out what __exclude__ names.
func applyExclude(high *Map) {
	v, ok := high.Get("__exclude__")
	if !ok {
		return
	}
	high.Delete("__exclude__")
	var patterns []*Glob
	ids := map[any]bool{}
	for _, e := range toItems(v) {
		switch e := e.(type) {
		case string:
			patterns = append(patterns, CompileGlob(e))
		case *Map:
			if e.Len() != 1 {
				continue
			}
			switch k, v := firstKey(e); k {
			case "sls":
				patterns = append(patterns, CompileGlob(Str(v)))
			case "id":
				ids[v] = true
			}
		}
	}
	if len(patterns) > 0 {
		for id, b := range high.All() {
			if hidden(id) {
				continue
			}
			body, _ := b.(*Map)
			sls := body.Str("__sls__")
			if sls == "" {
				continue
			}
			for _, p := range patterns {
				if p.Match(sls) {
					ids[id] = true
				}
			}
		}
	}
	for id := range ids {
		high.Delete(id)
	}
}
