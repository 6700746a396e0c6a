// Pillars are compiled for the minion that asks, and their errors do not leak.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pillarTree writes files (name, text, name, text …) and makes a compiler over
// them; pillar/ is the root of base, dev/ that of dev.
func pillarTree(t testing.TB, opts *Map, files ...string) (*PillarCompiler, *bytes.Buffer) {
	t.Helper()
	root := t.TempDir()
	for i := 0; i+1 < len(files); i += 2 {
		path := filepath.Join(root, files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := DefaultMasterOptions()
	o.Set("cachedir", filepath.Join(root, "cache"))
	o.Set("pillar_roots", NewMap("base", NewList(filepath.Join(root, "pillar")), "dev", NewList(filepath.Join(root, "dev"))))
	for k, v := range opts.All() {
		if s, ok := v.(string); ok {
			v = strings.ReplaceAll(s, "@ROOT@", root)
		}
		o.Set(Str(k), v)
	}
	log := &bytes.Buffer{}
	return NewPillarCompiler(o, slog.New(slog.NewTextHandler(log, nil)), nil, nil), log
}

func plainRepr(v any) string {
	return EncodeJSON(v, JSONOptions{Indent: -1})
}

func TestPillar(t *testing.T) {
	for _, tc := range []struct {
		name  string
		opts  *Map
		req   PillarRequest
		files []string
		want  string
	}{
		{"matchers of the top file", nil, PillarRequest{ID: "web1", Grains: NewMap("role", "web")},
			[]string{"pillar/top.sls", "base:\n  'web*': [globbed]\n  'G@role:web and not db*': [compounded]\n  'role:web':\n    - match: grain\n    - grained\n  'other': [never]\n",
				"pillar/globbed.sls", "a: 1\n", "pillar/compounded.sls", "b: {{ grains.role }}\n", "pillar/grained/init.sls", "c: [3]\n", "pillar/never.sls", "d: 4\n"},
			`{"a": 1, "b": "web", "c": [3]}`},
		{"includes under a key, with defaults", nil, PillarRequest{ID: "m"},
			[]string{"pillar/top.sls", "base: {'*': [a.b]}\n",
				"pillar/a/b.sls", "include:\n  - .c\n  - top2:\n      key: x:y\n      defaults: {v: 7}\nown: 1\nshared: mine\n", "pillar/a/c.sls", "shared: included\nc: 1\n", "pillar/top2.sls", "val: {{ v }}\n"},
			`{"shared": "mine", "c": 1, "x": {"y": {"val": 7}}, "own": 1}`},
		{"later files win, lists replace", nil, PillarRequest{ID: "m"},
			[]string{"pillar/top.sls", "base: {'*': [a, b]}\n", "pillar/a.sls", "d: {l: [1], k: a, only: a}\n", "pillar/b.sls", "d: {l: [2], k: b}\n"},
			`{"d": {"l": [2], "k": "b", "only": "a"}}`},
		{"lists are joined by option", NewMap("pillar_merge_lists", true), PillarRequest{ID: "m"},
			[]string{"pillar/top.sls", "base: {'*': [a, b]}\n", "pillar/a.sls", "l: [1, 2]\n", "pillar/b.sls", "l: [2, 3]\n"},
			`{"l": [1, 2, 3]}`},
		{"the command line is merged over it", nil, PillarRequest{ID: "m", Override: NewMap("d", NewMap("k", "cli"))},
			[]string{"pillar/top.sls", "base: {'*': [a]}\n", "pillar/a.sls", "d: {k: a, o: 1}\n"},
			`{"d": {"k": "cli", "o": 1}}`},
		{"only one environment", nil, PillarRequest{ID: "m", Pillarenv: "dev"},
			[]string{"pillar/top.sls", "base: {'*': [a]}\n", "pillar/a.sls", "a: 1\n", "dev/top.sls", "dev: {'*': [d]}\n", "dev/d.sls", "d: {{ saltenv }}\n"},
			`{"d": "dev"}`},
		{"functions of the minion's id", nil, PillarRequest{ID: "m7", Grains: NewMap("id", "m7")},
			[]string{"pillar/top.sls", "base: {'*': [a]}\n", "pillar/a.sls", "a: {{ salt['test.echo'](grains['id']) }}\nb: {{ opts.id }}\n"},
			`{"a": "m7", "b": "m7"}`},
		{"imports among pillar files", nil, PillarRequest{ID: "m"},
			[]string{"pillar/top.sls", "base: {'*': [a]}\n", "pillar/a.sls", "{% from 'map.jinja' import x %}\na: {{ x }}\n", "pillar/map.jinja", "{% set x = 5 %}\n"},
			`{"a": 5}`},
		{"what is missing is named", nil, PillarRequest{ID: "m"},
			[]string{"pillar/top.sls", "base: {'*': [nothere, good]}\n", "pillar/good.sls", "ok: 1\n"},
			`{"ok": 1, "_errors": ["Specified SLS 'nothere' in environment 'base' is not available on the salt master"]}`},
		{"ignore_missing", nil, PillarRequest{ID: "m"},
			[]string{"pillar/top.sls", "base:\n  '*':\n    - ignore_missing: True\n    - nothere\n"}, `{}`},
		{"external command", NewMap("ext_pillar", NewList(NewMap("cmd_json", `echo '{"id": "%s"}'`), NewMap("cmd_yaml", "echo 'n: [1, yes]'"))), PillarRequest{ID: "m-1"},
			nil, `{"id": "m-1", "n": [1, true]}`},
		{"external files", NewMap("ext_pillar", NewList(NewMap("file_tree", NewMap("root_dir", "@TREE@")))), PillarRequest{ID: "m"},
			[]string{"tree/hosts/m/ssl/key", "secret\n", "tree/hosts/other/x", "no"}, `{"ssl": {"key": "secret"}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, log := pillarTree(t, tc.opts, tc.files...)
			if l := p.opts.All().List("ext_pillar"); l.Len() > 0 {
				root := filepath.Dir(p.opts.Str("cachedir"))
				if m := l.Items[0].(*Map).Map("file_tree"); m != nil {
					m.Set("root_dir", filepath.Join(root, "tree"))
				}
			}
			got, err := p.Pillar(context.Background(), tc.req)
			if err != nil {
				t.Fatal(err)
			}
			if plainRepr(got) != tc.want {
				t.Errorf("got %s\nwant %s\nlog %s", plainRepr(got), tc.want, log)
			}
		})
	}
}

// What is wrong in a file never reaches the minion beyond Salt's words.
func TestPillarErrorsDoNotLeak(t *testing.T) {
	p, log := pillarTree(t, nil, "pillar/top.sls", "base: {'*': [bad]}\n", "pillar/bad.sls", "password: hunter2\nx: {{ nosuch }}\n")
	got, err := p.Pillar(context.Background(), PillarRequest{ID: "m"})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"_errors": ["Rendering SLS 'bad' failed. Please see master log for details."]}`; plainRepr(got) != want {
		t.Errorf("got %s, want %s", plainRepr(got), want)
	}
	if !strings.Contains(log.String(), "nosuch") {
		t.Errorf("the log does not say what is wrong: %s", log)
	}
}

// A minion chooses its id: it must not become part of a command.
func TestPillarIDIsNoCommand(t *testing.T) {
	p, _ := pillarTree(t, NewMap("ext_pillar", NewList(NewMap("cmd_json", `echo '{"id": "%s"}'`))))
	got, err := p.Pillar(context.Background(), PillarRequest{ID: "x$(touch /tmp/no)"})
	if err != nil || !got.Has("_errors") || got.Has("id") {
		t.Errorf("got %s, %v", plainRepr(got), err)
	}
}

func TestPillarCache(t *testing.T) {
	p, _ := pillarTree(t, NewMap("pillar_cache", true, "pillar_cache_ttl", int64(3600)), "pillar/top.sls", "base: {'*': [a]}\n", "pillar/a.sls", "a: 1\n")
	file := filepath.Join(filepath.Dir(p.opts.Str("cachedir")), "pillar/a.sls")
	ask := func(want string) {
		t.Helper()
		got, err := p.Pillar(context.Background(), PillarRequest{ID: "m"})
		if err != nil || plainRepr(got) != want {
			t.Errorf("got %s, %v; want %s", plainRepr(got), err, want)
		}
		got.Set("a", "changed by the caller")
	}
	ask(`{"a": 1}`)
	if err := os.WriteFile(file, []byte("a: 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ask(`{"a": 1}`)
	p.ForgetCached("m")
	ask(`{"a": 2}`)
}

// pillarOf200 is a compiler over 200 files that every minion gets.
func pillarOf200(b *testing.B) *PillarCompiler {
	files := []string{}
	top := "base:\n  '*':\n"
	for i := range 200 {
		top += fmt.Sprintf("    - part%d\n", i)
		files = append(files, fmt.Sprintf("pillar/part%d.sls", i), fmt.Sprintf("part%d:\n  host: {{ grains['id'] }}\n  n: {{ %d * 2 }}\n  list: [a, b, c]\nshared:\n  k%d: v\n", i, i, i))
	}
	p, _ := pillarTree(b, nil, append(files, "pillar/top.sls", top)...)
	return p
}

func BenchmarkPillar200(b *testing.B) {
	p := pillarOf200(b)
	for b.Loop() {
		if _, err := p.Pillar(context.Background(), PillarRequest{ID: "m", Grains: NewMap("id", "m")}); err != nil {
			b.Fatal(err)
		}
	}
}

// The pillars of 1,000 minions that all ask at once.
func BenchmarkPillarOf1000Minions(b *testing.B) {
	p := pillarOf200(b)
	for b.Loop() {
		failed := make(chan error, 1000)
		for i := range 1000 {
			go func() { // ends with its pillar
				id := fmt.Sprintf("m%d", i)
				_, err := p.Pillar(context.Background(), PillarRequest{ID: id, Grains: NewMap("id", id)})
				failed <- err
			}()
		}
		for range 1000 {
			if err := <-failed; err != nil {
				b.Fatal(err)
			}
		}
	}
}
