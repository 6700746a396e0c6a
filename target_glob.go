// Shell globs as Salt uses them everywhere: on ids, on values, on function names.
//
// The law of this file: *, ?, [set], [!set], nothing else; no character is
// special to *, not even a slash or a dot in front; a bracket that is not
// closed means itself. Matching needs no more than time in proportion to
// pattern times text, whatever the pattern.
package main

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Glob is a compiled pattern, safe for concurrent use.
type Glob struct {
	literal string // the whole pattern, if nothing in it is special
	tokens  []globToken
	plain   bool
}

type globToken struct {
	kind   byte // 'c' one rune, '?' any rune, '*' any run, '[' a set
	char   rune
	negate bool
	ranges [][2]rune
}

// GlobMatch says whether text as a whole fits the pattern, with regard to case.
func GlobMatch(pattern, text string) bool { return CompileGlob(pattern).Match(text) }

// CompileGlob never fails: every text is a pattern.
func CompileGlob(pattern string) *Glob {
	if !strings.ContainsAny(pattern, "*?[") {
		return &Glob{literal: pattern, plain: true}
	}
	g := &Glob{}
	runes := []rune(pattern)
	for i := 0; i < len(runes); i++ {
		switch c := runes[i]; c {
		case '*':
			if n := len(g.tokens); n == 0 || g.tokens[n-1].kind != '*' {
				g.tokens = append(g.tokens, globToken{kind: '*'})
			}
		case '?':
			g.tokens = append(g.tokens, globToken{kind: '?'})
		case '[':
			end := i + 1
			if end < len(runes) && runes[end] == '!' {
				end++
			}
			if end < len(runes) && runes[end] == ']' {
				end++
			}
			for end < len(runes) && runes[end] != ']' {
				end++
			}
			if end >= len(runes) {
				g.tokens = append(g.tokens, globToken{kind: 'c', char: '['})
				continue
			}
			g.tokens = append(g.tokens, globSet(runes[i+1:end]))
			i = end
		default:
			g.tokens = append(g.tokens, globToken{kind: 'c', char: c})
		}
	}
	return g
}

func globSet(set []rune) globToken {
	t := globToken{kind: '['}
	if set[0] == '!' {
		t.negate = true
		set = set[1:]
	}
	for i := 0; i < len(set); i++ {
		if i+2 < len(set) && set[i+1] == '-' {
			t.ranges = append(t.ranges, [2]rune{set[i], set[i+2]})
			i += 2
			continue
		}
		t.ranges = append(t.ranges, [2]rune{set[i], set[i]})
	}
	return t
}

func (t globToken) fits(r rune) bool {
	switch t.kind {
	case '?':
		return true
	case 'c':
		return r == t.char
	}
	in := false
	for _, x := range t.ranges {
		if x[0] <= r && r <= x[1] {
			in = true
			break
		}
	}
	return in != t.negate
}

// Match says whether text as a whole fits.
func (g *Glob) Match(text string) bool {
	if g.plain {
		return text == g.literal
	}
	// On a mismatch it is enough to let the latest * take one rune more.
	at, star, resume := 0, -1, 0
	for pos := 0; pos < len(text) || at < len(g.tokens); {
		if at < len(g.tokens) {
			t := g.tokens[at]
			if t.kind == '*' {
				star, resume = at, pos
				at++
				continue
			}
			if pos < len(text) {
				r, size := utf8.DecodeRuneInString(text[pos:])
				if t.fits(r) {
					pos += size
					at++
					continue
				}
			}
		}
		if star < 0 || resume >= len(text) {
			return false
		}
		_, size := utf8.DecodeRuneInString(text[resume:])
		resume += size
		at, pos = star+1, resume
	}
	return true
}

// pythonIndex reads a whole number as Python's int() does, without underscores.
func pythonIndex(s string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	return n, err == nil
}

// typedKey is what a part of a path means if a mapping has no such text as a
// key: a number, a truth value or null. nil if it means nothing but itself.
func typedKey(part string) any {
	switch resolveYAMLScalar(part) {
	case "int", "float", "bool":
		v, err := ParseYAML([]byte(part))
		if err != nil {
			return nil
		}
		if _, isText := v.(string); isText || !Hashable(v) {
			return nil
		}
		return v
	}
	return nil
}
