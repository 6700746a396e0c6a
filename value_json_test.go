// JSON is written and read as Python does it.
package main

import (
	"encoding/json"
	"os"
	"testing"
)

// TestJSONRecorded compares with what Python's json module wrote and read.
func TestJSONRecorded(t *testing.T) {
	file := "testdata/render/json.json"
	if more := os.Getenv("HALITE_JSON"); more != "" {
		file = more
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var data struct {
		Dumps []struct {
			Opt         map[string]any
			V           any
			Text, Error string
		}
		Loads [][2]any
	}
	if err := json.Unmarshal(raw, &data); err != nil {
		t.Fatal(err)
	}
	for i, c := range data.Dumps {
		opt := JSONOptions{Indent: -1, EnsureASCII: true}
		for name, v := range c.Opt {
			switch name {
			case "indent":
				opt.Indent = int(v.(float64))
			case "sort_keys":
				opt.SortKeys = v.(bool)
			case "ensure_ascii":
				opt.EnsureASCII = v.(bool)
			case "separators":
				opt.ItemSep, opt.KeySep = v.([]any)[0].(string), v.([]any)[1].(string)
			}
		}
		v := recordedValue(t, c.V)
		got, err := EncodeJSONStrict(v, opt)
		if c.Error != "" {
			// which pair of keys Python compares first is its sort's business
			if err == nil {
				t.Errorf("case %d: no error for %s, want %s", i, Repr(v), c.Error)
			}
			continue
		}
		if err != nil || got != c.Text {
			t.Errorf("case %d, %v:\n got %q (%v)\nwant %q", i, c.Opt, got, err, c.Text)
			continue
		}
		back, err := DecodeJSON([]byte(got))
		if err != nil {
			t.Errorf("case %d: cannot read %q: %v", i, got, err)
		} else if again := EncodeJSON(back, JSONOptions{Indent: -1, EnsureASCII: true}); len(again) == 0 {
			t.Errorf("case %d: nothing written", i)
		}
	}
	for _, c := range data.Loads {
		src, want := c[0].(string), c[1].(map[string]any)
		v, err := DecodeJSON([]byte(src))
		if want["error"] != nil {
			if err == nil || err.Error() != want["error"] {
				t.Errorf("%q: got %v, want %v", src, err, want["error"])
			}
		} else if err != nil || Repr(v) != want["v"] {
			t.Errorf("%q: got %s (%v), want %v", src, Repr(v), err, want["v"])
		}
	}
}

func TestEncodeJSONOddValues(t *testing.T) {
	l := NewList()
	l.Append(l, []byte("x"), NewSet(int64(1)), Tuple{true}, NewMap(Tuple{int64(1)}, 1.5))
	want := `["[...]", "x", [1], [true], {"(1,)": 1.5}]`
	if got := EncodeJSON(l, JSONOptions{Indent: -1}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := EncodeJSONStrict([]byte("x"), JSONOptions{}); err == nil {
		t.Error("bytes are no JSON, but there was no error")
	}
}
