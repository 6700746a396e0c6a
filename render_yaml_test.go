// YAML is read as Salt reads it; testdata has the records.
package main

import (
	"encoding/json"
	"math/big"
	"os"
	"strconv"
	"strings"
	"testing"
)

// typedYAML is a recorded value: one field says what it is.
type typedYAML struct {
	Map   *[][2]typedYAML `json:"map"`
	Seq   *[]typedYAML    `json:"seq"`
	Set   *[]string       `json:"set"`
	Tuple *[]typedYAML    `json:"tuple"`
	Str   *string         `json:"str"`
	Int   *string         `json:"int"`
	Float *string         `json:"float"`
	Bool  *bool           `json:"bool"`
	Bytes *string         `json:"bytes_latin1"`
}

func (v typedYAML) value(t *testing.T) any {
	switch {
	case v.Map != nil:
		m := NewMap()
		for _, pair := range *v.Map {
			m.Set(pair[0].value(t), pair[1].value(t))
		}
		return m
	case v.Seq != nil:
		l := NewList()
		for _, item := range *v.Seq {
			l.Append(item.value(t))
		}
		return l
	case v.Tuple != nil:
		l := Tuple{}
		for _, item := range *v.Tuple {
			l = append(l, item.value(t))
		}
		return l
	case v.Set != nil:
		s := NewSet()
		for _, item := range *v.Set {
			s.Add(item)
		}
		return s
	case v.Str != nil:
		return *v.Str
	case v.Int != nil:
		i, ok := new(big.Int).SetString(*v.Int, 10)
		if !ok {
			t.Fatalf("bad integer %s in the recorded data", *v.Int)
		}
		return normalInt(i)
	case v.Float != nil:
		f, err := strconv.ParseFloat(*v.Float, 64)
		if err != nil {
			t.Fatal(err)
		}
		return f
	case v.Bool != nil:
		return *v.Bool
	case v.Bytes != nil:
		var p []byte
		for _, r := range *v.Bytes {
			p = append(p, byte(r))
		}
		return p
	}
	return nil
}

// TestParseYAMLRecorded compares with what Salt's loader made of the documents.
func TestParseYAMLRecorded(t *testing.T) {
	files := []string{"testdata/render/yaml.json", "testdata/render/yaml_more.json"}
	if more := os.Getenv("HALITE_YAML"); more != "" { // a bigger, fresh recording
		files = []string{more}
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var data struct {
			Cases []struct {
				Name, YAML, Error string
				ErrorClass        string `json:"error_class"`
				Value             typedYAML
			}
		}
		if err := json.Unmarshal(raw, &data); err != nil {
			t.Fatal(err)
		}
		if len(data.Cases) < 50 {
			t.Fatalf("only %d cases in %s", len(data.Cases), file)
		}
		for _, c := range data.Cases {
			t.Run(c.Name, func(t *testing.T) {
				got, err := ParseYAML([]byte(c.YAML))
				if c.ErrorClass != "" {
					e, ok := err.(*YAMLError)
					if !ok {
						t.Fatalf("no error for %q but %s", c.YAML, Repr(got))
					}
					if e.Class != c.ErrorClass || e.Error() != c.Error {
						t.Errorf("for %q:\n got %s: %s\nwant %s: %s", c.YAML, e.Class, e, c.ErrorClass, c.Error)
					}
					return
				}
				if err != nil {
					t.Fatalf("for %q: %v", c.YAML, err)
				}
				if g, w := Repr(got), Repr(c.Value.value(t)); g != w {
					t.Errorf("for %q:\n got %s\nwant %s", c.YAML, g, w)
				}
			})
		}
	}
}

func TestParseYAMLSharesAliases(t *testing.T) {
	v, err := ParseYAML([]byte("a: &x [1]\nb: *x\nself: &s {me: *s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	m := v.(*Map)
	if m.List("a") != m.List("b") {
		t.Error("an alias is not the same list as its anchor")
	}
	if s := m.Map("self"); s.Map("me") != s {
		t.Error("a mapping that contains itself is not closed")
	}
}

func FuzzParseYAML(f *testing.F) {
	for _, s := range []string{"a: 1", "- [x, {y: z}]", "<<: *x", "a: &a [*a]", "? {a: b}\n: c", "a: !!binary =", "---\n...\n---", "\ufeffa", "%YAML 1.1\n---\na: \"\\x41\"", "a: |+2\n    x\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 1<<14 {
			return
		}
		v, err := ParseYAML([]byte(s))
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Error("an error without a text")
			}
			return
		}
		_ = Repr(v)
	})
}
