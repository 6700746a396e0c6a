// Runner reactor against a running master.
package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRunnerReactor(t *testing.T) {
	dir := shortTempDir(t)
	table := filepath.Join(dir, "reactions.yaml")
	if err := os.WriteFile(table, []byte("- 'a/*':\n  - /srv/a.sls\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, option := range map[string]any{"option": NewList(NewMap("a/*", NewList("/srv/a.sls"))), "file": table} {
		t.Run(name, func(t *testing.T) {
			dir := shortTempDir(t)
			m, out := newTestMaster(t, dir, "reactor", option)
			tm := runTestMaster(t, m, dir, out)
			r := NewRunnerClient(m.o(), nil, io.Discard, NewCustoms(m.o()))
			t.Cleanup(r.Close)
			for _, c := range []struct {
				fun  string
				args []any
				want string
			}{
				{"reactor.list", nil, "[{'a/*': ['/srv/a.sls']}]"},
				{"reactor.add", []any{"b", "/srv/b.sls"}, "{'status': True, 'comment': 'Reactor added.'}"},
				{"reactor.add", []any{"b", "/srv/c.sls"}, "{'status': False, 'comment': 'Reactor already exists.'}"},
				{"reactor.list", nil, "[{'a/*': ['/srv/a.sls']}, {'b': ['/srv/b.sls']}]"},
				{"reactor.delete", []any{"a/*"}, "{'status': True, 'comment': 'Reactor deleted.'}"},
				{"reactor.delete", []any{"a/*"}, "{'status': False, 'comment': 'Reactor does not exists.'}"},
				{"reactor.list", nil, "[{'b': ['/srv/b.sls']}]"},
				{"reactor.is_leader", nil, "True"},
				{"reactor.set_leader", []any{false}, "False"},
				{"reactor.is_leader", nil, "False"},
			} {
				if got := runRunner(t, r, c.fun, c.args); got != c.want {
					t.Errorf("%s %v: %s, want %s", c.fun, c.args, got, c.want)
				}
			}
			tm.bus.Fire(reactorManageTag+"set_leader", NewMap("value", true, "key", "guessed"))
			waitFor(t, "the refusal of a request without the key", func() bool { return strings.Contains(out.String(), "without the key") })
			if got := runRunner(t, r, "reactor.is_leader", nil); got != "False" {
				t.Errorf("a request without the key was heard: %s", got)
			}
		})
	}
}
