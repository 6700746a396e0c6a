// Templates give what Jinja gave; testdata has the records.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
)

// jinjaTestContext is what the recorded templates saw.
func jinjaTestContext(t testing.TB) map[string]any {
	v, err := DecodeJSON([]byte(`{"users":{"bob":{"uid":1001,"shell":"/bin/zsh"},"alice":{"uid":1000,"groups":["wheel","dev"]}},
"lod":[{"name":"two","n":2,"on":true,"tags":["x","y"]},{"name":"one","n":1,"on":false,"tags":["y"]},{"name":"Three","n":3,"on":true,"tags":["z","x"]}],
"num":5,"flt":2.5,"s":"str","uni":"äöü ✓ 日本 ß","empty":{},"el":[],"none_":null,"nested":{"a":{"b":{"c":[1,{"d":"deep"}]}}},
"mixed":[1,"a",null,true,2.5,[1],{"k":"v"}],"big":12345678901234567890,"neg":-7,"ml":"line1\nline2\n\nline4","html":"<b>\"x\" & 'y'</b>"}`))
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]any{}
	for k, v := range v.(*Map).All() {
		vars[k.(string)] = v
	}
	vars["long"] = strings.Repeat("The quick brown fox jumps over the lazy dog. ", 3)
	vars["t"] = Tuple{int64(1), int64(2), int64(3)}
	vars["bytes_"] = []byte("ab\xff")
	return vars
}

type jinjaTestFiles map[string]string

func (f jinjaTestFiles) LoadTemplate(_ *JinjaRun, name string) (string, string, error) {
	source, ok := f[name]
	if !ok {
		return "", "", JinjaNotFound(name)
	}
	return source, name, nil
}

func jinjaTestTemplates() jinjaTestFiles {
	return jinjaTestFiles{"lib.j": "{% macro greet(n, punct='!') -%}hi {{ n }}{{ punct }}{%- endmacro %}{% set conf = {'host': 'h'} %}{% set _priv = 1 %}body",
		"inc.j":     "inc[{{ who|default('anon') }}]",
		"base.j":    "<{% block head %}H{% endblock %}>{% block body %}parent{% endblock %}|{{ self.head() }}",
		"mid.j":     "{% extends 'base.j' %}{% block body %}mid {{ super() }}{% endblock %}",
		"bad.j":     "one\n{{ undef_in_inc }}\n",
		"syn.j":     "a\nb {% if %}",
		"ctxmac.j":  "{% macro m() %}{{ num }}-{{ late|default('nolate') }}{% endmacro %}",
		"err.j":     "x\n{% macro m() %}\n{{ 1 / 0 }}\n{% endmacro %}",
		"loopinc.j": "{{ i }}/{{ loop.index|default('noloop') }} ",
		"setter.j":  "{% set v = 1 %}{{ v }}",
		"req.j":     "{% block must required %}{% endblock %}"}
}

type jinjaRecording struct {
	T    string
	Opt  map[string]any
	Out  *string
	Err  string
	Cls  string
	Line int
}

func jinjaTestEnv(t testing.TB, opt map[string]any) *JinjaEnv {
	env := NewJinjaEnv()
	env.Undefined = JinjaStrict
	env.Loader = jinjaTestTemplates()
	for k, v := range opt {
		switch k {
		case "und":
			env.Undefined = map[string]JinjaUndefinedKind{"lenient": JinjaLenient, "chain": JinjaChainable, "debug": JinjaDebug, "strict": JinjaStrict}[v.(string)]
		default:
			if err := env.SetOption(k, v); err != nil {
				t.Fatal(err)
			}
		}
	}
	return env
}

// TestJinjaRecorded compares with what Jinja itself made of the templates.
func TestJinjaRecorded(t *testing.T) {
	file := "testdata/render/jinja_engine.json"
	if more := os.Getenv("HALITE_JINJA"); more != "" {
		file = more
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []jinjaRecording
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	addresses := regexp.MustCompile(` at 0x[0-9a-f]+`)
	failed := 0
	for _, c := range cases {
		env := jinjaTestEnv(t, c.Opt)
		tmpl, err := env.Parse(c.T, "")
		var got string
		if err == nil {
			got, err = tmpl.Render(context.Background(), JinjaVars{Vars: jinjaTestContext(t)})
		}
		problem := ""
		var e *JinjaError
		switch {
		case c.Out != nil && err != nil:
			problem = "got error " + err.Error()
		case c.Out != nil:
			if addresses.ReplaceAllString(got, "") != addresses.ReplaceAllString(*c.Out, "") {
				problem = "got  " + Repr(got)
			}
		case err == nil:
			problem = "got no error but " + Repr(got)
		case !errors.As(err, &e):
			problem = "not a JinjaError: " + err.Error()
		case e.Message != c.Err || e.Class != c.Cls:
			problem = "got " + e.Class + ": " + e.Message
		case c.Line > 0 && jinjaErrorLine(e) != c.Line:
			problem = "got line " + Repr(int64(jinjaErrorLine(e))) + ", want " + Repr(int64(c.Line))
		}
		if problem == "" {
			continue
		}
		if failed++; failed <= 400 {
			want := c.Cls + ": " + c.Err
			if c.Out != nil {
				want = Repr(*c.Out)
			}
			t.Errorf("%s %v\n %s\nwant %s", Repr(c.T), c.Opt, problem, want)
		}
	}
	if failed > 0 {
		t.Errorf("%d of %d differ", failed, len(cases))
	}
}

// jinjaErrorLine is the line of the innermost level that is no block.
func jinjaErrorLine(e *JinjaError) int {
	for i := len(e.Trace) - 1; i >= 0; i-- {
		if e.Trace[i].Block == "" {
			return e.Trace[i].Line
		}
	}
	return e.Line
}

// TestJinjaLimits: what would take all time or memory ends with an error.
func TestJinjaLimits(t *testing.T) {
	for _, source := range []string{
		"{% set l = ['x'] %}{% for i in range(100) %}{% do l.extend(l) %}{% endfor %}",
		"{% set ns = namespace(s='x' * 1000) %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
		"{% set l = [] %}{% for i in range(100000) %}{% do l.append('a' * 900000) %}{% endfor %}",
		"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
		"{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
		"{{ 9 ** 99999999 }}", "{{ 'a' * 10 ** 12 }}", "{{ [0] * 10 ** 12 }}", "{{ 'x'.ljust(10 ** 12) }}",
		"{{ '%1000000000d' % 1 }}", "{{ '{:1000000000}'.format(1) }}", "{{ range(10 ** 9) }}",
		"{% set l = [] %}{% do l.append(l) %}{% for i in l recursive %}{{ loop(i) }}{% endfor %}",
	} {
		env := NewJinjaEnv()
		env.Limits = JinjaLimits{Iterations: 1_000_000, Output: 1 << 20, Depth: 100}
		tmpl, err := env.Parse(source, "")
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		if out, err := tmpl.Render(context.Background(), JinjaVars{}); err == nil {
			t.Errorf("%s gave %d bytes instead of an error", source, len(out))
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	tmpl, err := NewJinjaEnv().Parse("{% for i in range(100000) %}{% endfor %}", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tmpl.Render(ctx, JinjaVars{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled rendering ended with %v", err)
	}
}
