// Outputters print what Salt printed, in colour only for a terminal.
package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// goldenData is what the functions of the recording's module return.
func goldenData(fun string, args []string) any {
	types := NewMap(
		"str", "text", "empty_str", "", "int", int64(7), "neg", int64(-3), "float", 1.5, "whole_float", 2.0,
		"true", true, "false", false, "none", nil, "multi", "line1\nline2\n\nline4", "trail_nl", "x\n",
		"empty_list", NewList(), "empty_dict", NewMap(), "list", NewList("b", "a", int64(1), nil, true),
		"list_of_list", NewList(NewList("x", "y"), NewList("z"), NewList()),
		"list_of_dict", NewList(NewMap("k", "v", "k2", "v2"), NewMap("k", "w"), NewMap()),
		"dict", NewMap("z", int64(1), "a", NewMap("deep", NewMap("deeper", "end"))),
		"unicode", "grün ✓ 日本", "tab", "a\tb", "quote", `it's "q"`, "colon", "a: b", "num_str", "0123", "bool_str", "yes",
		"multi_list", NewList("one\ntwo", "three"))
	switch fun {
	case "test.ping":
		return true
	case "test.echo":
		return args[0]
	case "golden.types":
		return types
	case "golden.scalar":
		return types.Value(strings.ToLower(args[0]))
	case "golden.rows":
		return NewList(NewMap("name", "a", "val", int64(1)), NewMap("name", "bb", "val", nil))
	case "golden.raises":
		return "ERROR: boom"
	case "golden.bytes_":
		return NewMap("b", "abc", "bin", []byte("\xff\x00\xfe"))
	case "golden.mixedkeys":
		return NewMap(int64(10), "int key", "10", "str key", "b", int64(1), "a", int64(2))
	case "golden.intkeys":
		return NewMap(int64(10), "ten", int64(9), "nine", int64(2), "two")
	case "golden.boolkeys":
		return NewMap(true, "t", false, "f")
	case "golden.big":
		m := NewMap()
		for i, row := range []string{"row00", "row01", "row02"} {
			m.Set(row, NewMap("col1", int64(i), "col2", "v"+string(rune('0'+i))))
		}
		return m
	}
	return nil
}

// TestOutputAsRecorded compares every outputter with recordings of Salt.
func TestOutputAsRecorded(t *testing.T) {
	src, err := os.ReadFile("testdata/output/recorded.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name, Prog, Fun, Stdout string
		Args, Opts              []string
		Error                   bool
		Failed                  any
	}
	if err := json.Unmarshal(src, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		p, err := mustProgram(c.Prog).parse(c.Opts)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		o := NewOptions(NewMap())
		p.MergeInto(o)
		id, retcode := "db1", 0
		if c.Prog == "salt-call" {
			id = "local"
		}
		if c.Fun == "golden.raises" {
			retcode = 1
		}
		opts := newOutputOptions(o, false)
		opts.Retcode = retcode
		text, err := Output("", NewMap(id, goldenData(c.Fun, c.Args)), opts)
		if (err != nil) != c.Error {
			t.Errorf("%s: error %v", c.Name, err)
		}
		if text != "" {
			text += "\n"
		}
		if text != c.Stdout {
			t.Errorf("%s %q:\n got %q\nwant %q", c.Name, c.Opts, text, c.Stdout)
		}
	}
}

func mustProgram(name string) cliProgram {
	p, _ := cliProgramNamed(name)
	return p
}

func TestOutputterIsTheUsersOrTheReturns(t *testing.T) {
	for _, c := range []struct {
		forced, from, fun string
		static            bool
		want              string
	}{
		{"", "", "", false, "nested"},
		{"json", "highstate", "", false, "json"},
		{"", "highstate", "", false, "highstate"},
		{"text", "", "", false, "txt"},
		{"", "", "state.apply", true, "highstate"},
		{"", "", "test.ping", true, "nested"},
	} {
		if got := outputterName(c.from, OutputOptions{Forced: c.forced, Static: c.static, Fun: c.fun}); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	// --out=highstate leaves the choice to the return, so that other functions
	// are shown as always.
	o := newOutputOptions(NewOptions(NewMap("output", "highstate")), false)
	if text, err := Output("", NewMap("db1", true), o); err != nil || text != "db1:\n    True" {
		t.Errorf("%q, %v", text, err)
	}
	var log bytes.Buffer
	o = newOutputOptions(NewOptions(NewMap("output", "nosuch")), false)
	o.Log = NewLogger(&log, "warning")
	text, err := Output("", NewMap("db1", true), o)
	if err != nil || text != "db1:\n    True" || log.String() != "[ERROR   ] Invalid outputter nosuch specified, fall back to nested\n" {
		t.Errorf("%q, %v, %q", text, err, log.String())
	}
	// What the return's own outputter cannot show is nested.
	if text, err := Output("highstate", NewMap("db1", NewMap("x", NewMap("result", true))), OutputOptions{}); err != nil || !strings.Contains(text, "result:") {
		t.Errorf("%q, %v", text, err)
	}
}

func TestEscapesOfDataDoNotReachTheTerminal(t *testing.T) {
	text, err := Output("nested", NewMap("db1", "a\x1b[2Jb"), OutputOptions{})
	if err != nil || strings.Contains(text, "\x1b") {
		t.Errorf("%q, %v", text, err)
	}
}

func TestColoursByOptionAndTerminal(t *testing.T) {
	for _, c := range []struct {
		opts     *Map
		terminal bool
		want     bool
	}{
		{NewMap(), true, true},
		{NewMap(), false, false},
		{NewMap("color", false), true, false},
		{NewMap("color", true), false, true},
		{NewMap("no_color", true), true, false},
		{NewMap("force_color", true), false, true},
		{NewMap("force_color", true, "no_color", true), false, true},
	} {
		if got := newOutputOptions(NewOptions(c.opts), c.terminal).Color; got != c.want {
			t.Errorf("%s on a terminal (%v): %v", Repr(c.opts), c.terminal, got)
		}
	}
}

func TestKeysByState(t *testing.T) {
	data := NewMap("minions_pre", NewList("b", "a"), "minions", NewMap("x", "aa:bb"), "minions_rejected", NewList(), "minions_denied", NewList("d"))
	text, err := Output("key", data, OutputOptions{})
	if want := "Accepted Keys:\nx:  aa:bb\nDenied Keys:\nd\nUnaccepted Keys:\na\nb\nRejected Keys:"; err != nil || text != want {
		t.Errorf("%q, %v", text, err)
	}
	text, _ = Output("key", NewMap("minions", NewList("x")), OutputOptions{Color: true})
	if want := "\x1b[0;1;32mAccepted Keys:\x1b[0;0m\n\x1b[0;32mx\x1b[0;0m"; text != want {
		t.Errorf("%q", text)
	}
}

func TestOutputFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	var stdout bytes.Buffer
	show := func(append bool, values ...string) {
		t.Helper()
		d, err := openDisplay(NewOptions(NewMap("output_file", path, "output_file_append", append)), Stdio{Out: &stdout}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			if err := d.Show(NewMap("db1", v), "txt", 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	show(false, "one", "two")
	show(true, "three")
	if got, _ := os.ReadFile(path); string(got) != "db1: one\ndb1: two\ndb1: three\n" {
		t.Errorf("%q", got)
	}
	show(false, "four")
	if got, _ := os.ReadFile(path); string(got) != "db1: four\n" || stdout.Len() > 0 {
		t.Errorf("%q, stdout %q", got, stdout.String())
	}
	if _, err := openDisplay(NewOptions(NewMap("output_file", path+"/x")), Stdio{Out: &stdout}, nil); err == nil {
		t.Error("a file that cannot be opened is no error")
	}
}
