// The parts of the state compiler and runner that recordings do not reach.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// stateTestCall is a call with nothing but options.
func stateTestCall(t *testing.T) *Call {
	t.Helper()
	o := NewOptions(NewMap("id", "m1", "cachedir", t.TempDir(), "state_auto_order", true))
	env := &Env{Opts: o, Grains: NewMap("id", "m1"), Pillar: NewMap(), Loader: NewLoader(o, nil), Log: slog.New(slog.DiscardHandler)}
	return NewCall(env, "state.high", "", nil)
}

func TestStateRunOfManyRequisites(t *testing.T) {
	const n = 3000
	high := NewMap()
	for i := range n {
		args := NewList("nop")
		if i > 1 {
			args.Append(NewMap("require", NewList(NewMap("test", fmt.Sprintf("s%d", i-1)), NewMap("test", fmt.Sprintf("s%d", i/2)))))
		}
		// The first of the file is the last to be able to run.
		high.Set(fmt.Sprintf("s%d", i), NewMap("test", args, "__sls__", "a", "__env__", "base"))
	}
	began := time.Now()
	v, err := newStateRun(stateTestCall(t)).callHigh(context.Background(), high, "")
	if err != nil {
		t.Fatal(err)
	}
	ret := v.(*Map)
	if ret.Len() != n {
		t.Fatalf("%d returns, want %d", ret.Len(), n)
	}
	for i := range n {
		id := fmt.Sprintf("s%d", i)
		one := ret.Map("test_|-" + id + "_|-" + id + "_|-nop")
		if one == nil || one.Value("result") != true {
			t.Fatalf("%s: %s", id, Repr(one))
		}
	}
	// With a comparison of everything with everything this is minutes.
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("%d states with %d requisites took %v", n, 2*n, d)
	}
}

func TestChunkIndex(t *testing.T) {
	low := func(state, id, name, sls string) *Map {
		return NewMap("state", state, "__id__", id, "name", name, "__sls__", sls, "fun", "nop")
	}
	chunks := []*Map{low("test", "a", "x", "one"), low("cmd", "a", "y", "one"), low("test", "b", "a", "two.c")}
	x := indexChunks(chunks)
	for _, c := range []struct {
		key, val string
		want     []int
	}{
		{"test", "a", []int{0, 2}}, // by id, and by name
		{"id", "a", []int{0, 1, 2}},
		{"cmd", "y", []int{1}},
		{"cmd", "x", nil},
		{"test", "?", []int{0, 2}},
		{"sls", "one", []int{0, 1}},
		{"sls", "two.*", []int{2}},
	} {
		got := x.match(c.key, c.val)
		ok := len(got) == len(c.want)
		for i := 0; ok && i < len(got); i++ {
			ok = got[i] == chunks[c.want[i]]
		}
		if !ok {
			t.Errorf("%s: %s finds %d chunks, want %v", c.key, c.val, len(got), c.want)
		}
	}
}

func TestSlotCalls(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"test.arg(a, 1, k=v)", "test.arg ['a', 1] {'k': 'v'}"},
		{"test.arg('a, b', k=\"x=y\")", "test.arg ['a, b'] {'k': 'x=y'}"},
		{"cmd.run(echo hi there).out", "cmd.run ['echo hi there'] {}"},
		{"test.arg([1, 2], d={'a': b})", "test.arg [[1, 2]] {'d': {'a': 'b'}}"},
		{"test.true()", "test.true [] {}"},
	} {
		fun, args, kwargs, ok := parseSlotCall(c.in)
		if got := fun + " " + Repr(NewList(args...)) + " " + Repr(kwargs); !ok || got != c.want {
			t.Errorf("%s: %s, want %s", c.in, got, c.want)
		}
	}
	for _, bad := range []string{"test.arg", "(a)", "test.arg(a"} {
		if _, _, _, ok := parseSlotCall(bad); ok {
			t.Errorf("%q is no call", bad)
		}
	}
}

func TestStatefulOutput(t *testing.T) {
	for _, c := range []struct{ out, comment, changes string }{
		{"{\"changed\": true, \"comment\": \"done\", \"x\": 1}", "done", "{'changed': True, 'x': 1, 'stdout': ''}"},
		{"text\nchanged=no comment='it is'", "it is", "{}"},
		{"a=1 junk", "Failed parsing script output! Stdout must be JSON or a line of name=value pairs.", "{'stdout': 'a=1 junk'}"},
	} {
		ret, err := reinterpretOutput(stateChanged("n", true, "", NewMap("stdout", c.out)))
		if err != nil {
			t.Fatal(err)
		}
		if ret.Value("comment") != c.comment || Repr(ret.Value("changes")) != c.changes {
			t.Errorf("%q: %s, %s", c.out, Repr(ret.Value("comment")), Repr(ret.Value("changes")))
		}
	}
}

// applySLS runs the states of one SLS text.
func applySLS(t *testing.T, text string) (*Map, error) {
	t.Helper()
	v, err := ParseYAML([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r := newStateRun(stateTestCall(t))
	state := v.(*Map)
	var errs []string
	handleDeclarations(state, "a", "base", &errs)
	newHighState(r).autoOrder(state, "a")
	ret, err := r.callHigh(context.Background(), state, "")
	m, _ := ret.(*Map)
	return m, err
}

// Requisites that lead round by way of a whole SLS end with an error, not with
// the process.
func TestRoundTreesEnd(t *testing.T) {
	_, err := applySLS(t, `
s0:
  test.succeed_with_changes:
    - watch: [{sls: a}]
s1:
  test.fail_without_changes:
    - prereq: [{test: s0}]
    - onfail_all: [{test: s0}]
s2:
  test.nop:
    - watch: [{test: s0}, {test: s1}]
`)
	if err == nil || !strings.Contains(err.Error(), "maximum recursion depth exceeded") {
		t.Errorf("got error %v", err)
	}
}

// A state run's templates see what those before them changed in the pillar;
// another job of the minion never does.
func TestTemplatesChangeTheirOwnPillar(t *testing.T) {
	c := stateTestCall(t)
	c.Pillar.Set("app", NewMap("port", int64(1)))
	c.Grains.Set("role", NewMap("n", int64(1)))
	render := func(c *Call, src string) string {
		t.Helper()
		out, err := templatesOf(c).RenderTemplate(t.Context(), c, src, "jinja", "t", "base", nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	const change = `{% do salt['pillar.get']('app').update({'port': 2}) %}{% do pillar.app.update({'host': 'h'}) %}{% do salt['grains.get']('role').update({'n': 2}) %}`
	const show = `{{ salt['pillar.get']('app') }} {{ salt['grains.get']('role:n') }} {{ salt['config.get']('app:port') }}`
	if got, want := render(c, change+show), `{'port': 2, 'host': 'h'} 2 2`; got != want {
		t.Errorf("in one template: %s, want %s", got, want)
	}
	if got, want := render(c, show), `{'port': 1} 1 1`; got != want {
		t.Errorf("the next job sees %s, want %s", got, want)
	}
	r, err := stateCallFor(t.Context(), c, stateCommon{kwargs: NewMap()})
	if err != nil {
		t.Fatal(err)
	}
	render(r.c, change)
	if got, want := render(r.c, show), `{'port': 2, 'host': 'h'} 2 2`; got != want {
		t.Errorf("the next template of the run: %s, want %s", got, want)
	}
	if got, want := render(c, show), `{'port': 1} 1 1`; got != want {
		t.Errorf("after the run: %s, want %s", got, want)
	}
}
