// Targeting: which minions an expression means.
//
// The law of this room: pure functions over a Subject, no I/O. The minion asks
// whether an expression means itself; the master asks the same of every minion
// it knows, over the grains and pillar it has cached, and there an answer may be
// "unknown" because nothing is cached yet; who asks decides how that counts. An
// expression is compiled once and then matched as often as needed. Whatever
// cannot be understood matches nothing and says why as an error.
package main

import (
	"fmt"
	"strings"
	"sync"
)

// DefaultTargetDelim separates the parts of a grain or pillar path.
const DefaultTargetDelim = ":"

// Subject is one minion as the matchers see it.
type Subject struct {
	ID string
	// Grains and Pillar are nil where they are not known; a minion always
	// knows its own.
	Grains, Pillar *Map
	// Nodegroups expands N@ terms that nobody expanded before.
	Nodegroups *Map
}

// Verdict is the answer of a matcher.
type Verdict int8

// The three answers. MatchUnknown only comes up where a grain or pillar term
// meets a minion without cached data.
const (
	MatchNo Verdict = iota
	MatchYes
	MatchUnknown
)

func verdict(b bool) Verdict {
	if b {
		return MatchYes
	}
	return MatchNo
}

// Target is a compiled expression. It is safe for concurrent use.
type Target struct {
	kind  string
	match func(s *Subject) Verdict
}

// Match says whether the expression means this minion for certain.
func (t *Target) Match(s Subject) bool { return t.match(&s) == MatchYes }

// MatchTarget compiles and matches in one step, as a minion does with each
// publication. What cannot be understood does not match.
func MatchTarget(kind string, expr any, delimiter string, s Subject) bool {
	t, err := ParseTarget(kind, expr, delimiter, s.Nodegroups)
	return err == nil && t.Match(s)
}

// TargetError says why an expression matches nothing.
type TargetError struct {
	Kind string
	Msg  string
}

func (e *TargetError) Error() string { return e.Msg }

func targetErrorf(kind, format string, args ...any) error {
	return &TargetError{Kind: kind, Msg: fmt.Sprintf(format, args...)}
}

// rangeRefusal is what everybody reads who uses a range expression.
const rangeRefusal = "range targets need a range server, which Halite has no client for: " +
	"use a list (-L), a nodegroup (-N), a regular expression (-E) or a grain (-G)"

// resourceRefusal is the same for the resource targets of newer releases.
const resourceRefusal = "target %q addresses a Salt resource, which Halite does not manage: " +
	"target the minion that manages it"

// ParseTarget compiles an expression of a target type as it travels on the wire.
// delimiter may be empty (":"), groups is the nodegroups option or nil.
func ParseTarget(kind string, expr any, delimiter string, groups *Map) (*Target, error) {
	if delimiter == "" {
		delimiter = DefaultTargetDelim
	}
	if kind == "" {
		kind = "glob"
	}
	t := &Target{kind: kind}
	switch kind {
	case "list":
		t.match = listMatcher(expr)
		return t, nil
	case "compound", "compound_pillar_exact":
		words, err := compoundWords(expr)
		if err != nil {
			return nil, err
		}
		t.match, err = parseCompound(words, groups, kind == "compound_pillar_exact")
		return t, err
	}
	text, ok := expr.(string)
	if !ok {
		return nil, targetErrorf(kind, "a target of type %s is a text, not %s", kind, TypeName(expr))
	}
	var err error
	switch kind {
	case "glob":
		t.match = globMatcher(text)
	case "pcre":
		t.match, err = pcreMatcher(text)
	case "grain", "grain_pcre", "pillar", "pillar_pcre", "pillar_exact":
		t.match, err = dataMatcher(kind, text, delimiter)
	case "ipcidr":
		t.match, err = ipcidrMatcher(text)
	case "nodegroup":
		var words []string
		if words, err = ExpandNodegroup(text, groups); err == nil {
			t.match, err = parseCompound(words, groups, false)
		}
	case "range":
		err = targetErrorf(kind, rangeRefusal)
	default:
		err = targetErrorf(kind, "unknown target type %q", kind)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

func globMatcher(pattern string) func(*Subject) Verdict {
	g := CompileGlob(pattern)
	return func(s *Subject) Verdict { return verdict(g.Match(s.ID)) }
}

func pcreMatcher(pattern string) (func(*Subject) Verdict, error) {
	re, err := compileAnchored(pattern)
	if err != nil {
		return nil, targetErrorf("pcre", "invalid regular expression %q: %v", pattern, err)
	}
	return func(s *Subject) Verdict { return verdict(re(s.ID)) }, nil
}

// listMatcher takes a list of ids, or a text with commas and no blanks.
func listMatcher(expr any) func(*Subject) Verdict {
	ids := map[string]bool{}
	switch expr := expr.(type) {
	case string:
		for _, id := range strings.Split(expr, ",") {
			ids[id] = true
		}
	case *List:
		for _, v := range expr.Items {
			if id, ok := v.(string); ok {
				ids[id] = true
			}
		}
	case Tuple:
		for _, v := range expr {
			if id, ok := v.(string); ok {
				ids[id] = true
			}
		}
	}
	delete(ids, "")
	return func(s *Subject) Verdict { return verdict(ids[s.ID]) }
}

// SplitTargetList is how the command line reads -L: commas and blanks separate,
// empty items and duplicates drop out.
func SplitTargetList(text string) []string {
	var out []string
	seen := map[string]bool{}
	for _, id := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || isTargetBlank(r) }) {
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}

func isTargetBlank(r rune) bool {
	return r == ' ' || r >= '\t' && r <= '\r' || r >= 0x1c && r <= 0x1f || r == 0x85 || r == 0xa0
}

func dataMatcher(kind, text, delimiter string) (func(*Subject) Verdict, error) {
	if !strings.Contains(text, delimiter) {
		return nil, targetErrorf(kind, "target %q has no %q between the key and the value", text, delimiter)
	}
	p := newPathMatcher(text, delimiter, pathMatchKind(kind))
	if strings.HasPrefix(kind, "grain") {
		return func(s *Subject) Verdict {
			if s.Grains == nil {
				return MatchUnknown
			}
			return verdict(p.match(s.Grains))
		}, nil
	}
	return func(s *Subject) Verdict {
		if s.Pillar == nil {
			return MatchUnknown
		}
		return verdict(p.match(s.Pillar))
	}, nil
}

// PathMatch is how the value at the end of a path is compared.
type PathMatch int8

// The three comparisons. All of them ignore case.
const (
	PathGlob PathMatch = iota
	PathRegexp
	PathExact
)

func pathMatchKind(kind string) PathMatch {
	switch {
	case strings.HasSuffix(kind, "_pcre"):
		return PathRegexp
	case strings.HasSuffix(kind, "_exact"):
		return PathExact
	}
	return PathGlob
}

// MatchPath says whether "key:sub:pattern" is true of data.
func MatchPath(data any, expr, delimiter string, how PathMatch) bool {
	if delimiter == "" {
		delimiter = DefaultTargetDelim
	}
	return newPathMatcher(expr, delimiter, how).match(data)
}

// pathMatcher is a compiled "key:sub:pattern". Keys and values may contain the
// delimiter themselves, so each place where the text can be cut into a key path
// and a pattern is tried, the longest key path first.
type pathMatcher struct {
	how  PathMatch
	cuts []pathCut
	// compiled patterns; a wildcard search meets more than the cuts have.
	memo *sync.Map // string → func(string) bool
}

type pathCut struct {
	key     []string // nil: all of the data, for a path that begins with "*"
	pattern string
}

func newPathMatcher(expr, delimiter string, how PathMatch) *pathMatcher {
	return newPathMatcherMemo(expr, delimiter, how, &sync.Map{})
}

func newPathMatcherMemo(expr, delimiter string, how PathMatch, memo *sync.Map) *pathMatcher {
	p := &pathMatcher{how: how, memo: memo}
	parts := strings.Split(expr, delimiter)
	for i := len(parts) - 1; i > 0; i-- {
		if i == 1 && parts[0] == "*" {
			p.cuts = append(p.cuts, pathCut{pattern: expr})
			continue
		}
		p.cuts = append(p.cuts, pathCut{key: parts[:i:i], pattern: strings.Join(parts[i:], delimiter)})
	}
	return p
}

func (p *pathMatcher) match(data any) bool {
	for _, cut := range p.cuts {
		found := data
		if cut.key != nil {
			var ok bool
			if found, ok = traverseParts(data, cut.key); !ok {
				continue
			}
		}
		switch found := found.(type) {
		case *Map:
			if found.Len() > 0 && p.inMap(found, cut.pattern) {
				return true
			}
		case *List:
			if p.inItems(found.Items, cut.pattern) {
				return true
			}
		case Tuple:
			if p.inItems(found, cut.pattern) {
				return true
			}
		default:
			if p.value(found, cut.pattern) {
				return true
			}
		}
	}
	return false
}

func (p *pathMatcher) inItems(items []any, pattern string) bool {
	for _, item := range items {
		if m, ok := item.(*Map); ok && p.inMap(m, pattern) {
			return true
		}
		if p.value(item, pattern) {
			return true
		}
	}
	return false
}

// inMap matches a pattern that met a mapping: one of its keys, a path that goes
// on inside, or, after "*:", anything one level below. The colon is literal
// there, whatever the delimiter: minions of every release agree on that.
func (p *pathMatcher) inMap(m *Map, pattern string) bool {
	wildcard := strings.HasPrefix(pattern, "*:")
	if wildcard {
		pattern = pattern[2:]
	}
	if pattern == "*" || m.Has(pattern) {
		return true
	}
	for k := range m.All() {
		if p.value(k, pattern) {
			return true
		}
	}
	if newPathMatcherMemo(pattern, DefaultTargetDelim, p.how, p.memo).match(m) {
		return true
	}
	if !wildcard {
		return false
	}
	for _, v := range m.All() {
		switch v := v.(type) {
		case *Map:
			if p.inMap(v, pattern) {
				return true
			}
		case *List:
			for _, item := range v.Items {
				if p.value(item, pattern) {
					return true
				}
			}
		default:
			if p.value(v, pattern) {
				return true
			}
		}
	}
	return false
}

// value compares one value, as text and without regard to case.
func (p *pathMatcher) value(v any, pattern string) bool {
	text := strings.ToLower(targetText(v))
	if p.how == PathExact {
		return text == strings.ToLower(pattern)
	}
	if f, ok := p.memo.Load(pattern); ok {
		return f.(func(string) bool)(text)
	}
	f := p.compile(strings.ToLower(pattern))
	p.memo.Store(pattern, f)
	return f(text)
}

func (p *pathMatcher) compile(pattern string) func(string) bool {
	if p.how == PathGlob {
		return CompileGlob(pattern).Match
	}
	f, err := compileAnchored(pattern)
	if err != nil {
		return func(string) bool { return false }
	}
	return f
}

func targetText(v any) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return Str(v)
}

// TraversePath walks "a:b:0" into nested mappings and lists: a part is a key, a
// position of a list, or a key of a mapping in a list. The second result is
// false if the path leads nowhere.
func TraversePath(data any, path, delimiter string) (any, bool) {
	if delimiter == "" {
		delimiter = DefaultTargetDelim
	}
	return traverseParts(data, strings.Split(path, delimiter))
}

func traverseParts(data any, parts []string) (any, bool) {
	for _, part := range parts {
		var ok bool
		switch at := data.(type) {
		case *List:
			data, ok = traverseList(at.Items, part)
		case *Map:
			data, ok = at.Get(part)
			if !ok {
				if k := typedKey(part); k != nil {
					data, ok = at.Get(k)
				}
			}
		}
		if !ok {
			return nil, false
		}
	}
	return data, true
}

func traverseList(items []any, part string) (any, bool) {
	var key any = part
	n, isNumber := pythonIndex(part)
	if isNumber {
		key = n
	}
	for _, item := range items {
		if m, ok := item.(*Map); ok {
			if v, ok := m.Get(key); ok {
				return v, true
			}
		}
	}
	if !isNumber {
		return nil, false
	}
	if n < 0 {
		n += int64(len(items))
	}
	if n < 0 || n >= int64(len(items)) {
		return nil, false
	}
	return items[n], true
}
