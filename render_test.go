// The pipeline of renderers gives what Salt's gave.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// recordedTree is the file tree of the recorded snippets.
type recordedTree map[string]string

const recordedCache = "@W@/var/cache/salt/minion/files/base/"

func (t recordedTree) FetchTemplate(_ context.Context, name, _ string) ([]byte, string, error) {
	s, ok := t[name]
	if !ok {
		return nil, "", fs.ErrNotExist
	}
	return []byte(s), recordedCache + name, nil
}

// recordedFunctions are the few functions that the snippets call.
type recordedFunctions struct{ pillar, grains *Map }

func (f recordedFunctions) HasFunction(name string) bool {
	switch name {
	case "test.ping", "test.echo", "test.arg", "pillar.get", "grains.get", "config.get", "log.debug":
		return true
	}
	return false
}

func (f recordedFunctions) HasModule(name string) bool {
	return f.HasFunction(name+".get") || name == "test" || name == "log"
}

func (f recordedFunctions) CallFunction(_ context.Context, name string, args []any, kwargs *Map) (any, error) {
	get := func(m *Map) any {
		var def any = ""
		if len(args) > 1 {
			def = args[1]
		}
		var keys []any
		for _, k := range strings.Split(args[0].(string), ":") {
			keys = append(keys, k)
		}
		return Traverse(m, keys, def)
	}
	switch name {
	case "test.ping":
		return true, nil
	case "test.echo":
		return args[0], nil
	case "test.arg":
		return NewMap("args", &List{Items: args}, "kwargs", kwargs), nil
	case "pillar.get", "config.get":
		return get(f.pillar), nil
	case "grains.get":
		return get(f.grains), nil
	}
	return nil, nil
}

func recordedValueOf(t testing.TB, raw json.RawMessage) *Map {
	v, err := DecodeJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	return v.(*Map)
}

// TestRenderRecorded compares with what Salt made of the snippets, errors with
// their lines included. Python's tracebacks are left out on both sides.
func TestRenderRecorded(t *testing.T) {
	t.Setenv("TZ", "UTC")
	raw, err := os.ReadFile("testdata/render/jinja.json")
	if err != nil {
		t.Fatal(err)
	}
	var data struct {
		Context struct {
			Pillar, Grains json.RawMessage
			Files          recordedTree
			SLS            string
		}
		Snippets []struct {
			Name, Template string
			Rendered       *string
			Error          string
		}
	}
	if err := json.Unmarshal(raw, &data); err != nil {
		t.Fatal(err)
	}
	trace := regexp.MustCompile(`(?:<TRACEBACK>|Traceback \(most recent call last\):)\s*`)
	rd := NewRenderer(RenderConfig{})
	for _, c := range data.Snippets {
		t.Run(c.Name, func(t *testing.T) {
			f := recordedFunctions{recordedValueOf(t, data.Context.Pillar), recordedValueOf(t, data.Context.Grains)}
			tree := recordedTree{"sub/dir/test.sls": c.Template}
			for k, v := range data.Context.Files {
				tree[k] = v
			}
			got, err := rd.Render(context.Background(), RenderRequest{Source: c.Template, Path: recordedCache + "sub/dir/test.sls",
				Renderers: "jinja", Saltenv: "base", SLS: data.Context.SLS, Grains: f.grains, Pillar: f.pillar,
				Functions: f, Files: tree})
			if c.Rendered == nil {
				var re *RenderError
				if !errors.As(err, &re) {
					t.Fatalf("no RenderError for %s but %v, %v", c.Template, got, err)
				}
				if g, w := trace.ReplaceAllString(re.Text, ""), trace.ReplaceAllString(c.Error, ""); g != w {
					t.Errorf("template %s\n got %s\nwant %s", c.Template, g, w)
				}
				return
			}
			if err != nil {
				t.Fatalf("template %s: %v", c.Template, err)
			}
			if got != *c.Rendered {
				t.Errorf("template %s\n got %q\nwant %q", c.Template, got, *c.Rendered)
			}
		})
	}
}

// TestPrintedMappings compares texts of ordered and plain mappings with what
// Salt printed of the same: {{ }} shows every mapping as a plain one.
func TestPrintedMappings(t *testing.T) {
	t.Setenv("TZ", "UTC")
	data, err := ParseYAML([]byte("foo:\n  z: {'APT::x': 'y', l: [{a: 1}]}\n  c: 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	markOrdered(data)
	pillar := data.(*Map)
	rd := NewRenderer(RenderConfig{})
	for _, c := range []struct{ template, want string }{
		{`{{ pillar.foo }}`, `{'z': {'APT::x': 'y', 'l': [{'a': 1}]}, 'c': 1}`},
		{`{{ [pillar.foo.z, 'é'] }}`, `[{'APT::x': 'y', 'l': [{'a': 1}]}, 'é']`},
		{`{{ pillar.foo.z ~ '' }}`, `OrderedDict([('APT::x', 'y'), ('l', [OrderedDict([('a', 1)])])])`},
		{`{{ pillar.foo.z.keys() }}`, `odict_keys(['APT::x', 'l'])`},
		{`{{ pillar.foo.z.nope is defined }}`, `False`},
		{`{{ {'a': 1}.keys() }}`, `dict_keys(['a'])`},
		{`{{ odict([('a', 1)]) }} {{ odict([('a', 1)]) ~ '' }} {{ odict(a=2).items() }}`, `{'a': 1} OrderedDict([('a', 1)]) odict_items([('a', 2)])`},
		{`{{ dict(odict(a=2)) ~ '' }}`, `{'a': 2}`},
		{`{{ {'t': "é\nb", 'l': ["a\nb", {'u': "\t"}]} }}`, `{'t': "é\nb", 'l': ['a\nb', {'u': "\t"}]}`},
		{`{{ pillar.foo | yaml }}`, `{z: {'APT::x': y, l: [{a: 1}]}, c: 1}`},
		{`{{ {'z': 1, 'c': 2} | yaml }}`, `{c: 2, z: 1}`},
		{`{{ pillar.foo | json }}`, `{"c": 1, "z": {"APT::x": "y", "l": [{"a": 1}]}}`},
		{`{{ pillar.foo | python }}`, "OrderedDict([('z',\n              OrderedDict([('APT::x', 'y'), ('l', [OrderedDict([('a', 1)])])])),\n             ('c', 1)])"},
		{`{% set l = [1] %}{% do l.append(l) %}{{ l | python }}`, `[1, [1, [...]]]`},
	} {
		got, err := rd.Render(context.Background(), RenderRequest{Source: c.template, Renderers: "jinja", Saltenv: "base", SLS: "t", Pillar: pillar, Files: recordedTree{}})
		if err != nil {
			t.Errorf("%s: %v", c.template, err)
		} else if got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.template, got, c.want)
		}
	}
}

func TestUndefinedKeyOfAnOrderedMapping(t *testing.T) {
	pillar := NewMap("foo", NewMap("a", int64(1)).SetClass("OrderedDict"))
	_, err := NewRenderer(RenderConfig{}).Render(context.Background(), RenderRequest{Source: `{{ pillar.foo.b }}`, Renderers: "jinja", Saltenv: "base", SLS: "t", Pillar: pillar, Files: recordedTree{}})
	if want := "'collections.OrderedDict object' has no attribute 'b'"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %s", err, want)
	}
}
