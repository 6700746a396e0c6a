// No template makes the engine panic or run without end.
package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func fuzzSeeds(f *testing.F) {
	for _, s := range []string{"{{ 1 + 2 }}", "{% for i in [1,2] recursive %}{{ loop(i) }}{% endfor %}", "{% macro m(a, b=1) %}{{ caller() }}{% endmacro %}{% call m(1) %}x{% endcall %}",
		"{% set ns = namespace() %}{% set ns.x = 1 %}", "{% raw %}{{{% endraw %}", "{# c #}{%- if x is defined -%}a{%- endif -%}", "{{ 'a'|upper|replace('A', 'b') }}",
		"{{ {'a': [1, (2,)]}['a'][0:1] }}", "{% set l = [] %}{% do l.append(l) %}{{ l }}{{ l == l }}", "{{ '%s %(x)d' % {'x': 1} }}", "{{ '{:>{w}}'.format(1, w=9) }}",
		"{% block a %}{{ super() }}{% endblock %}{{ self.a() }}", "{{ [1]|map('string')|join }}", "{{ 2 ** 100 // 3 % 7 }}", "{% load_yaml as x %}a: [1]{% endload %}{{ x|json }}",
		"{% set d = {} %}{% do d.update({'v': d.values()}) %}{{ d }}", "{{ 'a' * 1000000 * 1000000 }}", "{% macro r() %}{{ r() }}{% endmacro %}{{ r() }}", "{{ range(99999)|list|product(range(99999))|list }}"} {
		f.Add(s)
	}
}

// FuzzJinjaLexer: any source gives tokens or an error, in time, and the tokens
// never go back.
func FuzzJinjaLexer(f *testing.F) {
	fuzzSeeds(f)
	f.Fuzz(func(t *testing.T, s string) {
		syn := defaultJinjaSyntax()
		syn.LineStatementPrefix, syn.LineCommentPrefix = "#", "##"
		syn.TrimBlocks, syn.LstripBlocks = true, true
		l := newJinjaLexer(s, "", &syn)
		line := 0
		for range len(s)*2 + 10 {
			tok, err := l.next()
			if err != nil || tok.kind == "eof" {
				return
			}
			if tok.line < line {
				t.Fatalf("the token %v is before line %d", tok, line)
			}
			line = tok.line
		}
		t.Fatal("the lexer does not come to an end")
	})
}

// FuzzJinjaParser: a source is a template or an error with a line in it.
func FuzzJinjaParser(f *testing.F) {
	fuzzSeeds(f)
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 1<<13 {
			return
		}
		_, err := NewJinjaEnv().Parse(s, "x")
		var e *JinjaError
		if err != nil && (!errors.As(err, &e) || e.Line < 1 || e.Line > strings.Count(s, "\n")+strings.Count(s, "\r")+1) {
			t.Errorf("a strange error for %q: %v", s, err)
		}
	})
}

// FuzzRender: whatever a template does ends in bounded time and memory, with a
// text or an error.
func FuzzRender(f *testing.F) {
	fuzzSeeds(f)
	rd := NewRenderer(RenderConfig{Limits: JinjaLimits{Iterations: 50000, Output: 1 << 20, Depth: 60}})
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 1<<12 {
			return
		}
		for _, word := range []string{"list_files", "file", "is_", "which", "dns_check", "http"} {
			if strings.Contains(s, word) {
				return // these look at the machine
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		start := time.Now()
		out, err := rd.Render(ctx, RenderRequest{Source: s, Renderers: "jinja", Saltenv: "base", SLS: "fuzz", Path: ":string:",
			Pillar: NewMap("x", NewList(int64(1), "a")), Grains: NewMap("id", "m")})
		if err == nil && len(out.(string)) > 2<<20 {
			t.Errorf("%d bytes of output", len(out.(string)))
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%q took %s", s, took)
		}
	})
}
