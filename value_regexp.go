// Regular expressions with the syntax and meaning of Python's re module.
//
// The law of this file: a pattern runs on Go's own engine, whose time is linear
// in the text, wherever that engine means the same; only look-around, back
// references and the like go to regexp2, under a time limit. Nothing outside
// this file knows which of the two it was.
package main

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// RegexpFlags are Python's flags.
type RegexpFlags int

// The flags that change the meaning of a pattern.
const (
	RegexpIgnoreCase RegexpFlags = 1 << iota
	RegexpMultiline
	RegexpDotAll
	RegexpVerbose
	RegexpASCII
)

// regexpTimeout bounds the backtracking engine.
const regexpTimeout = 5 * time.Second

// PyRegexp is a compiled pattern, safe for use by several goroutines.
type PyRegexp struct {
	Pattern  string
	Groups   int            // number of capturing groups
	Names    map[string]int // of named groups
	flags    RegexpFlags
	tr       regexpTranslation
	search   func() (*regexp.Regexp, error)
	match    func() (*regexp.Regexp, error)
	full     func() (*regexp.Regexp, error)
	back     func() (*regexp2.Regexp, error) // the backtracking engine
	backAt   func() (*regexp2.Regexp, error) // … anchored where it starts
	backAll  func() (*regexp2.Regexp, error) // … and at the end
	backMore func() (*regexp2.Regexp, error) // … at the start, and not empty
	empty    func() bool                     // can match the empty text
}

// PyMatch is one match: the subject and where each group is, -1 for a group
// that took no part.
type PyMatch struct {
	Subject string
	Spans   []int
	re      *PyRegexp
}

// CompilePython compiles a pattern. The error has Python's words.
func CompilePython(pattern string, flags RegexpFlags) (*PyRegexp, error) {
	tr, err := translateRegexp(pattern, flags)
	if err != nil {
		return nil, err
	}
	re := &PyRegexp{Pattern: pattern, Groups: tr.groups, Names: tr.names, flags: flags, tr: tr}
	goEngine := func(before, after string) func() (*regexp.Regexp, error) {
		return sync.OnceValues(func() (*regexp.Regexp, error) { return regexp.Compile(before + tr.re2 + after) })
	}
	backEngine := func(before, after string) func() (*regexp2.Regexp, error) {
		return sync.OnceValues(func() (*regexp2.Regexp, error) {
			re, err := regexp2.Compile(before+tr.net+after, regexp2.None)
			if err == nil {
				re.MatchTimeout = regexpTimeout
			}
			return re, err
		})
	}
	re.search = goEngine("", "")
	re.match = goEngine(`\A(?:`, `)`)
	re.full = goEngine(`\A(?:`, `)\z`)
	re.back = backEngine("", "")
	re.backAt = backEngine(`\G(?:`, `)`)
	re.backAll = backEngine(`\A(?:`, `)\z`)
	re.backMore = backEngine(`\G(?:`, `)(?!\G)`)
	re.empty = sync.OnceValue(func() bool {
		parsed, err := syntax.Parse(tr.re2, syntax.Perl)
		return err != nil || minRegexpLength(parsed) == 0
	})
	if !tr.backtrack {
		if _, err := re.search(); err != nil {
			re.tr.backtrack = true // beyond a limit of Go's engine
		}
	}
	if re.tr.backtrack {
		if _, err := re.back(); err != nil {
			return nil, fmt.Errorf("cannot compile the pattern %s: %w", Repr(pattern), err)
		}
	}
	return re, nil
}

// minRegexpLength is a lower bound for the length of what matches.
func minRegexpLength(re *syntax.Regexp) int {
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1
	case syntax.OpCapture, syntax.OpPlus:
		return minRegexpLength(re.Sub[0])
	case syntax.OpRepeat:
		return re.Min * minRegexpLength(re.Sub[0])
	case syntax.OpConcat:
		n := 0
		for _, sub := range re.Sub {
			n += minRegexpLength(sub)
		}
		return n
	case syntax.OpAlternate:
		n := -1
		for _, sub := range re.Sub {
			if k := minRegexpLength(sub); n < 0 || k < n {
				n = k
			}
		}
		return max(n, 0)
	}
	return 0
}

// needsBacktracking says whether Go's engine means something else on s.
func (re *PyRegexp) needsBacktracking(s string) bool {
	if re.tr.backtrack {
		return true
	}
	if re.tr.dollar && strings.HasSuffix(s, "\n") {
		return true // $ also matches before the last line end
	}
	if re.tr.wordBoundary {
		for i := 0; i < len(s); i++ {
			if s[i] >= utf8.RuneSelf {
				return true // words have letters of every script
			}
		}
	}
	return false
}

func (re *PyRegexp) goMatch(engine func() (*regexp.Regexp, error), s string) (*PyMatch, error) {
	g, err := engine()
	if err != nil {
		return nil, err
	}
	spans := g.FindStringSubmatchIndex(s)
	if spans == nil {
		return nil, nil
	}
	return &PyMatch{Subject: s, Spans: spans, re: re}, nil
}

// runeOffsets maps positions in runes to positions in bytes.
func runeOffsets(s string) []int {
	offsets := make([]int, 0, len(s)+1)
	for i := range s {
		offsets = append(offsets, i)
	}
	return append(offsets, len(s))
}

func (re *PyRegexp) backMatch(engine func() (*regexp2.Regexp, error), s string, rs []rune, offsets []int, start int) (*PyMatch, error) {
	g, err := engine()
	if err != nil {
		return nil, err
	}
	m, err := g.FindRunesMatchStartingAt(rs, start)
	if err != nil {
		return nil, fmt.Errorf("matching %s took too long: %w", Repr(re.Pattern), err)
	}
	if m == nil {
		return nil, nil
	}
	spans := make([]int, 2*(re.Groups+1))
	for i := range spans {
		spans[i] = -1
	}
	for i := 0; i <= re.Groups; i++ {
		if grp := m.GroupByNumber(i); grp != nil && len(grp.Captures) > 0 {
			spans[2*i], spans[2*i+1] = offsets[grp.Index], offsets[grp.Index+grp.Length]
		}
	}
	return &PyMatch{Subject: s, Spans: spans, re: re}, nil
}

// Match matches at the start of s; no match is nil without an error.
func (re *PyRegexp) Match(s string) (*PyMatch, error) {
	if re.needsBacktracking(s) {
		return re.backMatch(re.backAt, s, []rune(s), runeOffsets(s), 0)
	}
	return re.goMatch(re.match, s)
}

// FullMatch matches the whole of s.
func (re *PyRegexp) FullMatch(s string) (*PyMatch, error) {
	if re.needsBacktracking(s) {
		return re.backMatch(re.backAll, s, []rune(s), runeOffsets(s), 0)
	}
	return re.goMatch(re.full, s)
}

// Search finds the first match anywhere in s.
func (re *PyRegexp) Search(s string) (*PyMatch, error) {
	if re.needsBacktracking(s) {
		return re.backMatch(re.back, s, []rune(s), runeOffsets(s), 0)
	}
	return re.goMatch(re.search, s)
}

// FindAll finds every match that does not overlap an earlier one, at most n of
// them if n > 0. An empty match may directly follow another match, as in Python.
func (re *PyRegexp) FindAll(s string, n int) ([]*PyMatch, error) {
	var out []*PyMatch
	if !re.needsBacktracking(s) && !re.empty() {
		g, err := re.search()
		if err != nil {
			return nil, err
		}
		if n <= 0 {
			n = -1
		}
		for _, spans := range g.FindAllStringSubmatchIndex(s, n) {
			out = append(out, &PyMatch{Subject: s, Spans: spans, re: re})
		}
		return out, nil
	}
	rs, offsets := []rune(s), runeOffsets(s)
	at := map[int]int{} // byte offset → rune offset
	for i, o := range offsets {
		at[o] = i
	}
	for pos := 0; pos <= len(rs) && (n <= 0 || len(out) < n); {
		m, err := re.backMatch(re.back, s, rs, offsets, pos)
		if err != nil {
			return nil, err
		}
		if m == nil {
			break
		}
		out = append(out, m)
		start, end := at[m.Spans[0]], at[m.Spans[1]]
		if start < end {
			pos = end
			continue
		}
		// after an empty match, what matches at the same place with a length
		if m, err = re.backMatch(re.backMore, s, rs, offsets, start); err != nil {
			return nil, err
		}
		if pos = start + 1; m != nil && (n <= 0 || len(out) < n) {
			out = append(out, m)
			pos = at[m.Spans[1]]
		}
	}
	return out, nil
}

// ReplaceAll is re.sub(template, s, count); count 0 replaces every match.
func (re *PyRegexp) ReplaceAll(s, template string, count int) (string, error) {
	expand, err := re.template(template)
	if err != nil {
		return "", err
	}
	return re.ReplaceFunc(s, count, expand)
}

// ReplaceFunc replaces matches by what f makes of them.
func (re *PyRegexp) ReplaceFunc(s string, count int, f func(*PyMatch) string) (string, error) {
	matches, err := re.FindAll(s, count)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	last := 0
	for _, m := range matches {
		b.WriteString(s[last:m.Spans[0]])
		b.WriteString(f(m))
		last = m.Spans[1]
	}
	b.WriteString(s[last:])
	return b.String(), nil
}

// Split is re.split; captured groups are part of the result, a group that took
// no part is nil.
func (re *PyRegexp) Split(s string, max int) ([]any, error) {
	matches, err := re.FindAll(s, max)
	if err != nil {
		return nil, err
	}
	var out []any
	last := 0
	for _, m := range matches {
		out = append(out, s[last:m.Spans[0]])
		for i := 1; i <= re.Groups; i++ {
			out = append(out, m.Group(i))
		}
		last = m.Spans[1]
	}
	return append(out, s[last:]), nil
}

// Group is the text of a group, or nil if it took no part.
func (m *PyMatch) Group(i int) any {
	if i < 0 || 2*i+1 >= len(m.Spans) || m.Spans[2*i] < 0 {
		return nil
	}
	return m.Subject[m.Spans[2*i]:m.Spans[2*i+1]]
}

// GroupNamed is the text of a named group.
func (m *PyMatch) GroupNamed(name string) any {
	if i, ok := m.re.Names[name]; ok {
		return m.Group(i)
	}
	return nil
}

// GroupTuple is Python's groups().
func (m *PyMatch) GroupTuple() Tuple {
	t := make(Tuple, m.re.Groups)
	for i := range t {
		t[i] = m.Group(i + 1)
	}
	return t
}

// template compiles the replacement text of re.sub.
func (re *PyRegexp) template(t string) (func(*PyMatch) string, error) {
	if !strings.Contains(t, `\`) {
		return func(*PyMatch) string { return t }, nil
	}
	type part struct {
		text  string
		group int
	}
	var parts []part
	var lit strings.Builder
	add := func(group int) {
		parts = append(parts, part{text: lit.String(), group: -1}, part{group: group})
		lit.Reset()
	}
	for i := 0; i < len(t); i++ {
		if t[i] != '\\' {
			lit.WriteByte(t[i])
			continue
		}
		at := i
		if i++; i >= len(t) {
			return nil, regexpError("bad escape (end of pattern)", t, at)
		}
		switch c := t[i]; {
		case c == 'g':
			if i+1 >= len(t) || t[i+1] != '<' {
				return nil, regexpError("missing <", t, i+1)
			}
			end := strings.IndexByte(t[i:], '>')
			if end < 0 {
				return nil, regexpError("missing >, unterminated name", t, i+2)
			}
			name := t[i+2 : i+end]
			if name == "" {
				return nil, regexpError("missing group name", t, i+2)
			}
			group, ok := re.Names[name]
			if !ok {
				n, err := strconv.Atoi(name)
				if err != nil {
					return nil, fmt.Errorf("unknown group name %s", Repr(name))
				}
				if n > re.Groups || n < 0 {
					return nil, regexpError(fmt.Sprintf("invalid group reference %d", n), t, i+2)
				}
				group = n
			}
			add(group)
			i += end
		case c == '0':
			n := int(c - '0')
			for k := 0; k < 2 && i+1 < len(t) && t[i+1] >= '0' && t[i+1] <= '7'; k++ {
				i++
				n = n*8 + int(t[i]-'0')
			}
			lit.WriteRune(rune(n & 255))
		case c >= '1' && c <= '9':
			n := int(c - '0')
			if i+1 < len(t) && t[i+1] >= '0' && t[i+1] <= '9' {
				if i+2 < len(t) && c <= '3' && t[i+1] <= '7' && t[i+2] >= '0' && t[i+2] <= '7' {
					lit.WriteRune(rune(n*64 + int(t[i+1]-'0')*8 + int(t[i+2]-'0')))
					i += 2
					continue
				}
				i++
				n = n*10 + int(t[i]-'0')
			}
			if n > re.Groups {
				return nil, regexpError(fmt.Sprintf("invalid group reference %d", n), t, at+1)
			}
			add(n)
		case strings.IndexByte("abfnrtv", c) >= 0:
			lit.WriteByte("\a\b\f\n\r\t\v"[strings.IndexByte("abfnrtv", c)])
		case c == '\\':
			lit.WriteByte('\\')
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			return nil, regexpError(`bad escape \`+string(c), t, at)
		default:
			lit.WriteByte('\\')
			lit.WriteByte(c)
		}
	}
	parts = append(parts, part{text: lit.String(), group: -1})
	return func(m *PyMatch) string {
		var b strings.Builder
		for _, p := range parts {
			if p.group < 0 {
				b.WriteString(p.text)
			} else if s, ok := m.Group(p.group).(string); ok {
				b.WriteString(s)
			}
		}
		return b.String()
	}, nil
}

// regexpError says where in a pattern the trouble is, in characters.
func regexpError(problem, pattern string, at int) error {
	at = min(at, len(pattern))
	before := pattern[:at]
	text := fmt.Sprintf("%s at position %d", problem, utf8.RuneCountInString(before))
	if strings.Contains(pattern, "\n") {
		text += fmt.Sprintf(" (line %d, column %d)", strings.Count(before, "\n")+1,
			utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])+1)
	}
	return errors.New(text)
}

// RegexpCache keeps compiled patterns, as the re module does.
type RegexpCache struct {
	mu sync.Mutex
	m  map[regexpCacheKey]*PyRegexp
}

type regexpCacheKey struct {
	pattern string
	flags   RegexpFlags
}

const maxRegexpCache = 512

// Get compiles a pattern, or takes it from the cache.
func (c *RegexpCache) Get(pattern string, flags RegexpFlags) (*PyRegexp, error) {
	key := regexpCacheKey{pattern, flags}
	c.mu.Lock()
	re := c.m[key]
	c.mu.Unlock()
	if re != nil {
		return re, nil
	}
	re, err := CompilePython(pattern, flags)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxRegexpCache {
		c.m = map[regexpCacheKey]*PyRegexp{}
	}
	c.m[key] = re
	return re, nil
}
