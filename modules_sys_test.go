// Tests of the modules test and sys.
package main

import (
	"context"
	"strings"
	"testing"
)

func TestModuleTest(t *testing.T) {
	c := moduleTestCall(t)
	for _, tc := range []struct {
		fun  string
		args []any
		want string
	}{
		{"test.arg_type", []any{int64(1), 2.5, nil, &List{}, "x"}, `{'args': ["<class 'int'>", "<class 'float'>", "<class 'NoneType'>", "<class 'list'>", "<class 'str'>"], 'kwargs': {}}`},
		{"test.arg_repr", []any{int64(1), "a'b"}, `{'args': '(1, "a\'b")', 'kwargs': '{}'}`},
		{"test.cross_test", []any{"test.echo", NewList("hi")}, `'hi'`},
		{"test.provider", []any{"cmd"}, `'cmdmod'`},
		{"test.provider", []any{"nosuch"}, `''`},
		{"test.raise_exception", []any{"int"}, `False`},
		{"test.fib", []any{int64(1)}, `[1, 2.384185791015625e-07]`},
		{"test.try", []any{"test.exception"}, `None`},
	} {
		got, err := direct(t, c, tc.fun, tc.args)
		if err != nil || Repr(got) != tc.want {
			t.Errorf("%s: %s, %v; want %s", tc.fun, Repr(got), err, tc.want)
		}
	}
	got, err := direct(t, c, "test.collatz", []any{int64(3)})
	if err != nil || Repr(got.(*List).Items[0]) != "[3, 10, 5.0, 16.0, 8.0, 4.0, 2.0]" {
		t.Errorf("collatz: %s, %v", Repr(got), err)
	}
	for fun, want := range map[string]string{
		"test.assertion": "The minion function caused an exception: Traceback (most recent call last):\nAssertionError\n",
		"test.nop":       "'test.nop' is not available.",
	} {
		if _, err := direct(t, c, fun, []any{""}); err == nil || JobErrorText(fun, err, "") != want {
			t.Errorf("%s: %v", fun, err)
		}
	}
}

func TestSysReadsTheRegistry(t *testing.T) {
	c := moduleTestCall(t)
	got, err := direct(t, c, "sys.list_functions", []any{"test.fa*", "sys.list_functions", "nosuch"})
	if err != nil || Repr(got) != "['sys.list_functions', 'test.false']" {
		t.Errorf("list_functions: %s, %v", Repr(got), err)
	}
	got, err = direct(t, c, "sys.argspec", []any{"test.sleep"})
	if err != nil || Repr(got) != "{'test.sleep': {'args': ['length'], 'defaults': None, 'varargs': None, 'kwargs': None}}" {
		t.Errorf("argspec: %s, %v", Repr(got), err)
	}
	got, err = direct(t, c, "sys.doc", []any{"test.ping"})
	if doc := got.(*Map).Str("test.ping"); err != nil || !strings.HasPrefix(doc, "\n    Answer True") {
		t.Errorf("doc: %q, %v", doc, err)
	}
}

func TestEveryBuiltinFunctionHasADoc(t *testing.T) {
	c := moduleTestCall(t)
	for _, e := range builtinModules() {
		m := e.load()
		if m.Doc == "" {
			t.Errorf("module %s has no doc", e.name)
		}
		for name, f := range m.Funcs {
			if f.doc == "" {
				t.Errorf("%s.%s has no doc", e.calledAs(), name)
			}
		}
	}
	if n := len(c.Loader.FunctionNames(context.Background(), c)); n < 50 {
		t.Errorf("only %d functions", n)
	}
}

func TestSysListsTheOtherRooms(t *testing.T) {
	c := moduleTestCall(t)
	checkCalls(t, c, []moduleCall{
		{"sys.list_runners", []any{"man*"}, nil, "['manage']"},
		{"sys.runner_argspec", []any{"test.arg"}, nil, "{'test.arg': {'args': None, 'defaults': None, 'varargs': True, 'kwargs': True}}"},
		{"sys.list_returner_functions", []any{"local"}, nil, "['local.event_return', 'local.returner']"},
		{"sys.list_renderers", []any{"y*"}, nil, "['yaml']"},
	})
}
