// Calls are bound by Python's rules and refused with Python's words.
package main

import (
	"context"
	"log/slog"
	"testing"
)

type sampleArgs struct {
	A      any
	B      any   `def:"2"`
	Rest   []any `arg:"*args"`
	Kwargs *Map  `arg:"**kwargs"`
}

func sampleFunc(_ context.Context, _ *Call, a sampleArgs) (any, error) {
	return NewList(a.A, a.B, NewList(a.Rest...), a.Kwargs), nil
}

type strictArgs struct {
	A any
	B any `def:"2"`
}

type sharedArgs struct {
	Name string
	strictArgs
	Value any `def:"None"`
}

func sharedFunc(_ context.Context, _ *Call, a sharedArgs) (any, error) {
	return NewList(a.Name, a.A, a.B, a.Value), nil
}

func strictFunc(_ context.Context, _ *Call, a strictArgs) (any, error) { return NewList(a.A, a.B), nil }

func TestBindFollowsPython(t *testing.T) {
	sample := newBuiltin("sample", Func{run: sampleFunc})
	strict := newBuiltin("strict", Func{run: strictFunc})
	shared := newBuiltin("shared", Func{run: sharedFunc, value: "maxdays"})
	none := newBuiltin("noargs", Func{run: testPing})
	for _, tc := range []struct {
		name string
		f    *builtin
		args []any
		kw   *Map
		want string // repr of the result, or the error
	}{
		{"defaults", sample, []any{int64(1)}, nil, "[1, 2, [], {}]"},
		{"everything", sample, []any{"x", "y", "z"}, NewMap("k", true), "['x', 'y', ['z'], {'k': True}]"},
		{"keyword for positional", strict, nil, NewMap("b", int64(5), "a", int64(6)), "[6, 5]"},
		{"embedded arguments keep their place", shared, []any{"x", int64(1), int64(3), int64(4)}, nil, "['x', 1, 3, 4]"},
		{"the value has the function's name", shared, []any{"x", int64(1)}, NewMap("maxdays", int64(9)), "['x', 1, 2, 9]"},
		{"and no other", shared, []any{"x", int64(1)}, NewMap("value", int64(9)), "shared() got an unexpected keyword argument 'value'"},
		{"missing", strict, nil, nil, "strict() missing 1 required positional argument: 'a'"},
		{"too many", strict, []any{1, 2, 3}, nil, "strict() takes from 1 to 2 positional arguments but 3 were given"},
		{"too many for none", none, []any{1}, nil, "noargs() takes 0 positional arguments but 1 was given"},
		{"twice", strict, []any{int64(1)}, NewMap("a", int64(3)), "strict() got multiple values for argument 'a'"},
		{"unknown keyword", strict, []any{int64(1)}, NewMap("c", int64(3)), "strict() got an unexpected keyword argument 'c'"},
	} {
		c := NewCall(&Env{Log: slog.Default()}, "x", "", nil)
		got, err := tc.f.Invoke(context.Background(), c, tc.args, tc.kw)
		text := Repr(got)
		if err != nil {
			text = err.Error()
		}
		if text != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, text, tc.want)
		}
	}
}

func TestSplitKeywordsNamesWhatDoesNotFit(t *testing.T) {
	strict := newBuiltin("strict", Func{run: strictFunc})
	kw := NewMap("__kwarg__", true, "c", int64(3), "d", int64(4))
	_, _, err := SplitKeywords(strict.Signature(), []any{int64(1), kw}, nil)
	if err == nil || err.Error() != "The following keyword arguments are not valid: c=3, d=4" {
		t.Fatalf("got %v", err)
	}
	args, kwargs, err := SplitKeywords(strict.Signature(), []any{int64(1), NewMap("__kwarg__", true, "b", int64(3))}, nil)
	if err != nil || len(args) != 1 || kwargs.Value("b") != int64(3) {
		t.Fatalf("got %v %v %v", args, kwargs, err)
	}
}

// Every entry of every module must have a signature that can be read.
func TestModuleTables(t *testing.T) {
	for _, e := range builtinModules() {
		m := e.load()
		for name, f := range m.Funcs {
			b := newBuiltin(name, f)
			if b.Doc() == "" {
				t.Errorf("%s.%s has no documentation", e.name, name)
			}
		}
	}
}

func TestSnakeCase(t *testing.T) {
	for in, want := range map[string]string{"ID": "id", "PythonShell": "python_shell", "RunAs": "run_as", "HTTPPort": "http_port", "Text": "text"} {
		if got := snakeCase(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
