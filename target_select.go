// Targets over many minions: whom a master expects to answer, and whom a user
// may address.
//
// The law of this room: the caller hands in the ids and a way to the cached
// data of one; nothing here reads files. A minion of which nothing is cached is
// "unknown" to data terms. Who waits for answers counts it in, since it may
// well answer; who grants rights counts it out.
package main

import "slices"

// NeedsData says whether matching looks at grains or pillar, so that a master
// can do without them for the others.
func (t *Target) NeedsData() bool {
	switch t.kind {
	case "glob", "pcre", "list":
		return false
	}
	return true
}

// Select returns the ids that the target means, in the order of ids. subject
// returns what is cached of a minion (Grains and Pillar nil if nothing is); it
// is only called if the target needs data. unknown says how to count minions
// whose answer depends on data that is not cached.
func (t *Target) Select(ids []string, subject func(id string) *Subject, unknown bool) []string {
	needs := t.NeedsData() && subject != nil
	var out []string
	for _, id := range ids {
		s := &Subject{ID: id}
		if needs {
			if s = subject(id); s == nil {
				s = &Subject{ID: id}
			}
		}
		switch t.match(s) {
		case MatchYes:
			out = append(out, id)
		case MatchUnknown:
			if unknown {
				out = append(out, id)
			}
		}
	}
	return out
}

// TargetMissing lists the ids which a target names one by one (-L, and L@ that
// is not excluded by "not") and that are not known: they are reported as
// silent although no job can reach them.
func TargetMissing(kind string, expr any, known func(id string) bool) []string {
	var named []string
	switch kind {
	case "list":
		named = targetListItems(expr)
	case "compound":
		words, err := compoundWords(expr)
		if err != nil {
			return nil
		}
		for i, w := range words {
			if letter, _, pattern := splitTargetWord(w); letter == 'L' && (i == 0 || words[i-1] != "not") {
				named = append(named, targetListItems(pattern)...)
			}
		}
	}
	var out []string
	for _, id := range named {
		if !known(id) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

func targetListItems(expr any) []string {
	if text, ok := expr.(string); ok {
		return SplitTargetList(text)
	}
	var out []string
	for _, v := range toItems(expr) {
		if id, ok := v.(string); ok {
			out = append(out, id)
		}
	}
	return out
}
