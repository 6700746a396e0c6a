// Patterns match as Python's re does, in bounded time.
package main

import (
	"encoding/json"
	"os"
	"testing"
	"time"
)

// TestRegexpRecorded compares with what Python's re module found.
func TestRegexpRecorded(t *testing.T) {
	file := "testdata/render/regexp.json"
	if more := os.Getenv("HALITE_REGEXP"); more != "" {
		file = more
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		P, S, Error string
		F           int
		Match       []any
		Search      []any
		Full        []any
		All         [][]any
		Split       []any
		Sub         []any
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	failed := 0
	fail := func(format string, args ...any) {
		if failed++; failed <= 30 {
			t.Errorf(format, args...)
		}
	}
	groups := func(m *PyMatch) any {
		if m == nil {
			return nil
		}
		l := NewList(m.Group(0))
		l.Append(m.GroupTuple()...)
		return l
	}
	want := func(v []any) any {
		if v == nil {
			return nil
		}
		return NewList(v...)
	}
	var cache RegexpCache
	for _, c := range cases {
		var flags RegexpFlags
		switch c.F {
		case 2:
			flags = RegexpIgnoreCase
		case 8:
			flags = RegexpMultiline
		}
		re, err := cache.Get(c.P, flags)
		if c.Error != "" {
			if err == nil || err.Error() != c.Error {
				fail("%q: got error %v, want %s", c.P, err, c.Error)
			}
			continue
		}
		if err != nil {
			fail("%q: %v", c.P, err)
			continue
		}
		check := func(what string, m *PyMatch, err error, w []any) {
			if g := Repr(groups(m)); err != nil || g != Repr(want(w)) {
				fail("%s(%q, %q, %d): got %s (%v), want %s", what, c.P, c.S, c.F, g, err, Repr(want(w)))
			}
		}
		m, err := re.Match(c.S)
		check("match", m, err, c.Match)
		m, err = re.Search(c.S)
		check("search", m, err, c.Search)
		m, err = re.FullMatch(c.S)
		check("fullmatch", m, err, c.Full)
		all, err := re.FindAll(c.S, 0)
		got, wanted := NewList(), NewList()
		for _, m := range all {
			got.Append(groups(m))
		}
		for _, m := range c.All {
			wanted.Append(want(m))
		}
		if Repr(got) != Repr(wanted) || err != nil {
			fail("finditer(%q, %q, %d): got %s (%v), want %s", c.P, c.S, c.F, Repr(got), err, Repr(wanted))
		}
		parts, err := re.Split(c.S, 0)
		if g := Repr(NewList(parts...)); g != Repr(NewList(c.Split...)) || err != nil {
			fail("split(%q, %q, %d): got %s (%v), want %s", c.P, c.S, c.F, g, err, Repr(NewList(c.Split...)))
		}
		s, err := re.ReplaceAll(c.S, c.Sub[0].(string), 0)
		if c.Sub[1] == nil {
			if err == nil || err.Error() != c.Sub[2] {
				fail("sub(%q, %q): got error %v, want %v", c.P, c.Sub[0], err, c.Sub[2])
			}
		} else if s != c.Sub[1] || err != nil {
			fail("sub(%q, %q, %q, %d): got %q (%v), want %q", c.P, c.Sub[0], c.S, c.F, s, err, c.Sub[1])
		}
	}
	if failed > 0 {
		t.Errorf("%d failures", failed)
	}
}

func TestRegexpTimeLimit(t *testing.T) {
	re, err := CompilePython(`^(a+)+(?=b)c$`, 0)
	if err != nil {
		t.Fatal(err)
	}
	g, err := re.back()
	if err != nil {
		t.Fatal(err)
	}
	g.MatchTimeout = 20 * time.Millisecond
	if m, err := re.Search("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"); err == nil {
		t.Errorf("no error for a pattern that takes for ever, but %v", m)
	}
}

func FuzzCompilePython(f *testing.F) {
	for _, s := range []string{`a(b|c)*`, `(?P<x>a)(?P=x)`, `[^\W_]{2,3}?`, `(?i)x(?=y)`, `\b\d+\Z`} {
		f.Add(s, "abc xyz 12")
	}
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if len(pattern) > 100 || len(s) > 100 {
			return
		}
		re, err := CompilePython(pattern, 0)
		if err != nil || re.tr.backtrack {
			return
		}
		if _, err := re.Search(s); err != nil {
			t.Errorf("%q on %q: %v", pattern, s, err)
		}
	})
}
