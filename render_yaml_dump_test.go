// YAML is written as PyYAML writes it.
package main

import (
	"encoding/base64"
	"encoding/json"
	"math/big"
	"os"
	"strconv"
	"testing"
)

// recordedValue decodes the value notation of the recorded data: {"$m": pairs},
// {"$i": integer}, {"$f": float}, {"$b": base64}.
func recordedValue(t *testing.T, v any) any {
	switch v := v.(type) {
	case []any:
		l := NewList()
		for _, item := range v {
			l.Append(recordedValue(t, item))
		}
		return l
	case map[string]any:
		if s, ok := v["$i"].(string); ok {
			i, _ := new(big.Int).SetString(s, 10)
			return normalInt(i)
		}
		if s, ok := v["$f"].(string); ok {
			f, err := strconv.ParseFloat(s, 64)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		if s, ok := v["$b"].(string); ok {
			p, err := base64.StdEncoding.DecodeString(s)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		m := NewMap()
		for _, pair := range v["$m"].([]any) {
			kv := pair.([]any)
			m.Set(recordedValue(t, kv[0]), recordedValue(t, kv[1]))
		}
		return m
	}
	return v
}

// TestDumpYAMLRecorded compares layouts with what PyYAML wrote.
func TestDumpYAMLRecorded(t *testing.T) {
	file := "testdata/render/yaml_dump.json"
	if more := os.Getenv("HALITE_YAML_DUMP"); more != "" { // a bigger, fresh recording
		file = more
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Opt  map[string]any
		V    any
		Text string
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for i, c := range cases {
		opt := YAMLOptions{SortKeys: true, Flow: YAMLAuto}
		for name, v := range c.Opt {
			switch name {
			case "default_flow_style":
				switch v {
				case true:
					opt.Flow = YAMLInline
				case false:
					opt.Flow = YAMLBlock
				}
			case "sort_keys":
				opt.SortKeys = v.(bool)
			case "indent":
				opt.Indent = int(v.(float64))
			case "width":
				opt.Width = int(v.(float64))
			case "allow_unicode":
				opt.EscapeUnicode = !v.(bool)
			case "explicit_start":
				opt.ExplicitStart = true
			case "default_style":
				opt.DefaultStyle = v.(string)[0]
			}
		}
		v := recordedValue(t, c.V)
		if got := DumpYAML(v, opt); got != c.Text {
			if failed++; failed <= 8 {
				t.Errorf("case %d, options %v, value %s:\n got %q\nwant %q", i, c.Opt, Repr(v), got, c.Text)
			}
		}
	}
	if failed > 0 {
		t.Errorf("%d of %d differ", failed, len(cases))
	}
}

func TestDumpYAMLAnchors(t *testing.T) {
	l := NewList(int64(1))
	m := NewMap("a", l, "b", l)
	m.Set("self", m)
	want := "&id002\na: &id001\n- 1\nb: *id001\nself: *id002\n"
	if got := DumpYAML(m, YAMLOptions{}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
