// Requisites at run time: which chunks a requisite means, and whether what it
// waits for has happened.
//
// The law of this file: a requisite is looked up in an index, never by walking
// over all chunks, so that a run costs as much as it has states and requisites;
// only names with glob characters are compared with everything, once.
package main

import (
	"strings"
)

// chunkIndex finds chunks by id, name and SLS.
type chunkIndex struct {
	chunks []*Map
	pos    map[*Map]int
	byName map[string][]*Map // id or name → chunks, in order
	bySLS  map[string][]*Map
	found  map[stateRef][]*Map // answers, by what was asked
}

func indexChunks(chunks []*Map) *chunkIndex {
	x := &chunkIndex{chunks: chunks, pos: make(map[*Map]int, len(chunks)), byName: make(map[string][]*Map, len(chunks)),
		bySLS: map[string][]*Map{}, found: map[stateRef][]*Map{}}
	for i, c := range chunks {
		x.pos[c] = i
		name, id := Str(c.Value("name")), Str(c.Value("__id__"))
		x.byName[name] = append(x.byName[name], c)
		if id != name {
			x.byName[id] = append(x.byName[id], c)
		}
		sls := c.Str("__sls__")
		x.bySLS[sls] = append(x.bySLS[sls], c)
	}
	return x
}

func isGlob(s string) bool { return strings.ContainsAny(s, "*?[") }

// match lists the chunks that one requisite means.
func (x *chunkIndex) match(key, val string) []*Map {
	ref := stateRef{val, key}
	if out, ok := x.found[ref]; ok {
		return out
	}
	var out []*Map
	switch {
	case key == "sls" && !isGlob(val):
		out = x.bySLS[val]
	case key == "sls":
		g := CompileGlob(val)
		for _, c := range x.chunks {
			if g.Match(c.Str("__sls__")) {
				out = append(out, c)
			}
		}
	case !isGlob(val):
		for _, c := range x.byName[val] {
			if key == "id" || c.Value("state") == key {
				out = append(out, c)
			}
		}
	default:
		g := CompileGlob(val)
		for _, c := range x.chunks {
			if (key == "id" || c.Value("state") == key) && (g.Match(Str(c.Value("name"))) || g.Match(Str(c.Value("__id__")))) {
				out = append(out, c)
			}
		}
	}
	x.found[ref] = out
	return out
}

// requisite is one member of a requisite list: a state (or id, or sls) and what
// it is called. val is nil for a member without a value.
type requisite struct {
	key string
	val any
}

func readRequisite(v any) requisite {
	m, ok := v.(*Map)
	if !ok {
		return requisite{"id", v}
	}
	k, val := firstKey(m)
	k, _, _ = strings.Cut(k, ".")
	return requisite{k, val}
}

// checkedRequisites are the kinds that are checked, in the order in which they
// are reported.
func checkedRequisites(pre bool) []string {
	kinds := []string{"require", "require_any", "watch", "watch_any", "prereq", "onfail", "onfail_any", "onfail_all",
		"onchanges", "onchanges_any"}
	if pre {
		kinds = append(kinds, "prerequired")
	}
	return kinds
}

// slsProcessed says whether an SLS was part of the run, even without states.
func (r *stateRun) slsProcessed(pattern string) bool {
	if !isGlob(pattern) {
		return r.processed[pattern]
	}
	g := CompileGlob(pattern)
	for s := range r.processed {
		if g.Match(s) {
			return true
		}
	}
	return false
}

// reqChunks are the chunks of each requisite kind of one low chunk.
type reqChunks map[string][]*Map

// watchToRequire turns watch into require for modules without mod_watch.
func (r *stateRun) watchToRequire(low *Map) {
	for _, kind := range []string{"watch", "watch_any"} {
		if !low.Has(kind) || r.has(low.Str("state")+".mod_watch") {
			continue
		}
		to := strings.Replace(kind, "watch", "require", 1)
		list := NewList(toItems(low.Value(to))...)
		list.Append(toItems(low.Value(kind))...)
		low.Delete(kind)
		low.Set(to, list)
	}
}

// checkRequisite says how it stands with what a chunk waits for: unmet, met,
// fail, pre, change, onfail or onchanges.
func (r *stateRun) checkRequisite(low *Map, running *stateReturns, x *chunkIndex, pre bool) (string, reqChunks, error) {
	r.watchToRequire(low)
	any := false
	for _, kind := range checkedRequisites(true) {
		any = any || low.Has(kind)
	}
	if !any {
		return "met", nil, nil
	}
	r.collectParallel(running, false)
	reqs := reqChunks{}
	for _, kind := range checkedRequisites(pre) {
		if containsText(r.disabledReqs, kind) {
			continue
		}
		for _, item := range toItems(low.Value(kind)) {
			req := readRequisite(item)
			if req.val == nil {
				continue
			}
			val, ok := req.val.(string)
			if !ok {
				if len(x.chunks) == 0 {
					return "unmet", nil, nil
				}
				return "", nil, OtherErrorf("salt.exceptions.SaltRenderError",
					"Could not locate requisite of [%s] present in state with name [%s]", req.key, Str(x.chunks[0].Value("name")))
			}
			found := x.match(req.key, val)
			if len(found) == 0 && !(req.key == "sls" && r.slsProcessed(val)) {
				return "unmet", nil, nil
			}
			reqs[kind] = append(reqs[kind], found...)
		}
	}
	all := map[string]bool{}
	for _, kind := range checkedRequisites(pre) {
		chunks := reqs[kind]
		if len(chunks) == 0 {
			continue
		}
		from := running
		if kind == "prereq" {
			from = r.pre
		}
		for _, c := range chunks {
			r.waitParallel(from, lowTag(c))
		}
		stats := r.requisiteStats(kind, chunks, from)
		for s := range stats {
			all[s] = true
		}
	}
	return requisiteStatus(all), reqs, nil
}

// requisiteStats collects what the chunks of one requisite kind have come to.
func (r *stateRun) requisiteStats(kind string, chunks []*Map, from *stateReturns) map[string]bool {
	stats := map[string]bool{}
	prereq := kind == "prereq"
	for _, c := range chunks {
		ret := from.get(lowTag(c))
		if ret == nil {
			stats["unmet"] = true
			continue
		}
		result := ret.Value("result")
		changed := Truth(ret.Value("changes"))
		switch {
		case strings.HasPrefix(kind, "onfail"):
			if result == true {
				stats["onfail"] = true
				continue
			}
		case result == false:
			stats["fail"] = true
			continue
		case strings.HasPrefix(kind, "onchanges"):
			if changed {
				stats["onchangesmet"] = true
			} else {
				stats["onchanges"] = true
			}
			continue
		}
		if strings.HasPrefix(kind, "watch") && changed {
			stats["change"] = true
			continue
		}
		if prereq && result == nil {
			stats["premet"] = true
		}
		switch {
		case kind == "prerequired" && result != nil:
		case prereq && result != nil:
			stats["pre"] = true
		default:
			if ran, ok := ret.Get("__state_ran__"); !ok || Truth(ran) {
				stats["met"] = true
			}
		}
	}
	if strings.HasSuffix(kind, "_any") || kind == "onfail" {
		if stats["met"] || stats["change"] {
			delete(stats, "fail")
		}
		if stats["onchangesmet"] {
			delete(stats, "onchanges")
			delete(stats, "fail")
		}
		if stats["onfail"] && stats["met"] {
			delete(stats, "onfail")
		}
	}
	if strings.HasSuffix(kind, "_all") && stats["onfail"] {
		delete(stats, "met")
	}
	return stats
}

func requisiteStatus(s map[string]bool) string {
	switch {
	case s["unmet"]:
		return "unmet"
	case s["fail"]:
		return "fail"
	case s["pre"]:
		if s["premet"] {
			return "met"
		}
		return "pre"
	case s["onfail"] && !s["onchangesmet"]:
		return "onfail"
	case s["onchanges"] && !s["onchangesmet"]:
		return "onchanges"
	case s["change"]:
		return "change"
	case s["onfail"]:
		return "onfail"
	}
	return "met"
}

// neededChunks lists the chunks that must run before low, and the requisites
// that mean nothing.
func (r *stateRun) neededChunks(low *Map, x *chunkIndex) (need []*Map, lost *Map) {
	kinds := []string{"require", "require_any", "watch", "watch_any", "prereq", "onfail", "onfail_any", "onchanges", "onchanges_any"}
	if !Truth(low.Value("__prereq__")) {
		kinds = append(kinds, "prerequired")
	}
	lost = NewMap()
	for _, kind := range kinds {
		for _, item := range toItems(low.Value(kind)) {
			req := readRequisite(item)
			val, _ := req.val.(string)
			var found []*Map
			if req.val != nil {
				found = x.match(req.key, val)
			}
			for _, c := range found {
				switch {
				case kind == "prereq":
					c.Set("__prereq__", true)
				case kind == "prerequired" && req.key != "sls":
					c.Set("__prerequired__", true)
				}
				need = append(need, c)
			}
			if len(found) == 0 && !(req.key == "sls" && r.slsProcessed(val)) {
				l := lost.List(kind)
				if l == nil {
					l = NewList()
					lost.Set(kind, l)
				}
				l.Append(NewMap(req.key, req.val))
			}
		}
	}
	return need, lost
}

// lostComment names the requisites that mean nothing.
func lostComment(lost *Map) string {
	var b strings.Builder
	b.WriteString("The following requisites were not found:\n")
	for kind, l := range lost.All() {
		b.WriteString(strings.Repeat(" ", 19) + Str(kind) + ":\n")
		for _, req := range toItems(l) {
			k, v := firstKey(req.(*Map))
			b.WriteString(strings.Repeat(" ", 23) + k + ": " + Str(v) + "\n")
		}
	}
	return b.String()
}

// failedRequisites names the requisites that failed, as sls.id.
func (r *stateRun) failedRequisites(reqs reqChunks, running *stateReturns) string {
	var names []string
	for _, kind := range checkedRequisites(true) {
		for _, c := range reqs[kind] {
			tag := lowTag(c)
			ret := r.pre.get(tag)
			if ret == nil {
				ret = running.get(tag)
			}
			if ret != nil && ret.Value("result") == false {
				name := Str(c.Value("__sls__")) + "." + Str(c.Value("__id__"))
				if !containsText(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return strings.Join(names, ", ")
}
