// States that wait, look, end processes and fetch modules, over scripted
// execution modules.
package main

import (
	"strings"
	"testing"
)

func TestLoopUntil(t *testing.T) {
	n := 0
	s := &scripted{funcs: map[string]scriptedFunc{
		"count.up": func(args []any, kw *Map) (any, error) {
			n++
			return NewMap("n", int64(n), "word", "it is up", "args", NewList(args...), "kw", kw), nil
		},
		"count.bad": func([]any, *Map) (any, error) { return nil, ExecErrorf("no") },
	}}
	wantReturn(t, s.state(t, false, "loop.until", "name", "count.up", "condition", "m_ret['n'] == 3 and len(m_ret['args']) == 1 and m_ret['word'] == 'it is up' and m_ret.get('x') is None",
		"period", 0.001, "m_args", NewList("a")), true, "Condition m_ret['n'] == 3 and len(m_ret['args']) == 1 and m_ret['word'] == 'it is up' and m_ret.get('x') is None was met", NewMap())
	if n != 3 {
		t.Errorf("%d calls, want 3", n)
	}
	wantReturn(t, s.state(t, false, "loop.until", "name", "count.up", "condition", "False", "period", 0.001, "timeout", 0.01), false,
		"Timed out while waiting for condition False", NewMap())
	wantReturn(t, s.state(t, true, "loop.until", "name", "count.up", "condition", "x"), nil, "The execution module count.up will be run", NewMap())
	wantReturn(t, s.state(t, false, "loop.until", "name", "no.such", "condition", "x"), false, "Cannot find module no.such", NewMap())
	wantReturn(t, s.state(t, false, "loop.until", "name", "count.up"), false, "An exit condition must be specified", NewMap())
	wantReturn(t, s.state(t, false, "loop.until", "name", "count.up", "condition", "x", "period", "1"), false,
		"Period must be specified as a float in seconds", NewMap())
}

func TestLoopUntilNoEval(t *testing.T) {
	n := 0
	s := &scripted{funcs: map[string]scriptedFunc{
		"count.up":  func([]any, *Map) (any, error) { n++; return int64(n), nil },
		"count.bad": func([]any, *Map) (any, error) { return nil, ExecErrorf("no") },
		"my.both":   func(args []any, _ *Map) (any, error) { return Equal(args[0], args[1]), nil },
	}}
	for _, op := range []string{"eq", "ge", "my.both"} {
		n = 0
		wantReturn(t, s.state(t, false, "loop.until_no_eval", "name", "count.up", "expected", int64(2), "compare_operator", op, "period", 0.001), true,
			"Call provided the expected results in 2 attempts", NewMap())
	}
	if got := s.state(t, false, "loop.until_no_eval", "name", "count.up", "expected", int64(-1), "period", 0.001, "timeout", 0.01); got.Value("result") != false ||
		!strings.HasPrefix(got.Str("comment"), "Call did not produce the expected result after ") {
		t.Errorf("got %s", Repr(got))
	}
	wantReturn(t, s.state(t, false, "loop.until_no_eval", "name", "count.up", "expected", "x", "compare_operator", "like"), false,
		`Invalid operator "like" supplied.`, NewMap())
	wantReturn(t, s.state(t, false, "loop.until_no_eval", "name", "count.bad", "expected", "x"), false,
		"Exception occurred while executing count.bad: <class 'salt.exceptions.CommandExecutionError'>:no", NewMap())
	wantReturn(t, s.state(t, true, "loop.until_no_eval", "name", "count.up", "expected", "x"), nil,
		`Would have waited for "count.up" to produce "x".`, NewMap())
}

func TestProcessAbsent(t *testing.T) {
	var signal any
	killed := any(NewMap("killed", NewList(int64(7), int64(8))))
	s := &scripted{funcs: map[string]scriptedFunc{
		"ps.pgrep": always(NewList(int64(7))),
		"ps.pkill": func(_ []any, kw *Map) (any, error) {
			if kw.Value("full") != true {
				t.Error("only the name of the process was looked at")
			}
			signal = kw.Value("signal")
			return killed, nil
		},
	}}
	wantReturn(t, s.state(t, true, "process.absent", "name", "x"), nil, "1 processes will be killed", NewMap())
	if s.called("ps.pkill") {
		t.Error("a dry run ended processes")
	}
	wantReturn(t, s.state(t, false, "process.absent", "name", "x", "signal", int64(9)), true, "Killed 2 processes", killed.(*Map))
	if signal != int64(9) {
		t.Errorf("signal %s", Repr(signal))
	}
	killed = nil
	wantReturn(t, s.state(t, false, "process.absent", "name", "x"), true, "No matching processes running", NewMap())
}

func TestStatusStates(t *testing.T) {
	s := &scripted{funcs: map[string]scriptedFunc{
		"status.loadavg": always(NewMap("1-min", 2.5)),
		"status.pid":     func(args []any, _ *Map) (any, error) { return map[any]any{"web": "7\n8"}[args[0]], nil },
	}}
	wantReturn(t, s.state(t, false, "status.loadavg", "name", "1-min", "maximum", int64(3), "minimum", int64(1)), true, "Load avg in acceptable range", NewMap())
	wantReturn(t, s.state(t, false, "status.loadavg", "name", "1-min", "maximum", int64(2)), false, "Load avg above maximum of 2 at 2.5", NewMap())
	wantReturn(t, s.state(t, false, "status.loadavg", "name", "1-min", "minimum", int64(3)), false, "Load avg is below minimum of 3 at 2.5", NewMap())
	wantReturn(t, s.state(t, false, "status.loadavg", "name", "1-min", "minimum", int64(3), "maximum", int64(3)), false, "Min must be less than max", NewMap())
	wantReturn(t, s.state(t, false, "status.loadavg", "name", "2-min"), false, "Requested load average 2-min not available ", NewMap())
	if got := s.state(t, false, "status.process", "name", "web"); got.Value("data") != "7\n8" || got.Value("result") != true {
		t.Errorf("got %s", Repr(got))
	}
	wantReturn(t, s.state(t, false, "status.process", "name", "db"), false, `Process signature "db" not found `, NewMap())
}

func TestSaltutilStates(t *testing.T) {
	got := any(NewList("modules.x"))
	s := &scripted{funcs: map[string]scriptedFunc{
		"saltutil.sync_modules": func(_ []any, kw *Map) (any, error) {
			if kw.Value("refresh") != false {
				t.Error("refresh was lost")
			}
			return got, nil
		},
		"saltutil.sync_all":    always(NewMap("modules", NewList("modules.x"), "states", NewList())),
		"saltutil.sync_states": func([]any, *Map) (any, error) { return nil, ExecErrorf("no space left") },
	}}
	wantReturn(t, s.state(t, false, "saltutil.sync_modules", "name", "x", "refresh", false), true, "Updated modules.", NewMap("modules", got))
	got = NewList()
	wantReturn(t, s.state(t, false, "saltutil.sync_modules", "name", "x", "refresh", false), true, "No updates to sync", NewMap())
	wantReturn(t, s.state(t, false, "saltutil.sync_all", "name", "x"), true, "Sync performed", NewMap("modules", NewList("modules.x")))
	wantReturn(t, s.state(t, true, "saltutil.sync_all", "name", "x"), nil, "saltutil.sync_all would have been run", NewMap())
	wantReturn(t, s.state(t, false, "saltutil.sync_states", "name", "x"), false, "Failed to run sync_states: no space left", NewMap())
}
