// Modules in Starlark: .star files, and .py files on boxes without Python as far
// as their syntax allows. The only file that touches go.starlark.net.
//
// The law of this room: a file sees __salt__, __grains__, __pillar__, __opts__
// and __context__ as in Python, the modules json, math, time, re and path, and
// nothing of the machine but through __salt__. Import lines for these modules,
// and for salt.exceptions, are taken out of a .py file before it is read. A
// call ends with its context and after custom_starlark_steps steps.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"

	starjson "go.starlark.net/lib/json"
	starmath "go.starlark.net/lib/math"
	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"
)

// defaultStarlarkSteps bounds a call: some seconds of work. Option custom_starlark_steps.
const defaultStarlarkSteps = 500_000_000

// starlarkImports are the modules whose import lines a .py file may have.
var starlarkImports = [...]string{"json", "math", "time", "re", "logging", "salt.exceptions"}

// loadStarlark reads a file. asPython says that it is a .py file on a box
// without Python, which the errors then mention.
func loadStarlark(path string, asPython bool) (*customModule, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "__init__.py")
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	text := string(src)
	if asPython {
		text = dropImports(text)
	}
	thread := &starlark.Thread{Name: filepath.Base(path), Print: func(*starlark.Thread, string) {}}
	boundStarlark(thread, defaultStarlarkSteps)
	opts := &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}
	globals, err := starlark.ExecFileOptions(opts, thread, path, text, starlarkNames())
	if err != nil {
		if asPython {
			return nil, fmt.Errorf("%s (this box has no Python 3, and the file is more than Starlark can run)", err)
		}
		return nil, err
	}
	globals.Freeze()
	m := &customModule{funcs: map[string]Function{}}
	if v, ok := starlark.AsString(globals["__virtualname__"]); ok {
		m.called = v
	}
	if v, ok := starlark.AsString(globals["__doc__"]); ok {
		m.doc = v
	}
	if virtual, ok := globals["__virtual__"].(starlark.Callable); ok {
		if err := starlarkVirtual(m, thread, virtual); err != nil {
			return nil, err
		}
	}
	alias, _ := globals["__func_alias__"].(*starlark.Dict)
	for name, v := range globals {
		fn, ok := v.(*starlark.Function)
		if !ok || strings.HasPrefix(name, "_") {
			continue
		}
		called := name
		if alias != nil {
			if a, found, _ := alias.Get(starlark.String(name)); found {
				called, _ = starlark.AsString(a)
			}
		}
		m.funcs[called] = &starlarkFunction{fn: fn, sig: starlarkSignature(fn)}
	}
	return m, nil
}

func starlarkVirtual(m *customModule, thread *starlark.Thread, virtual starlark.Callable) error {
	v, err := starlark.Call(thread, virtual, nil, nil)
	if err != nil {
		return err
	}
	reason := "__virtual__ returned False"
	if t, ok := v.(starlark.Tuple); ok && len(t) > 0 {
		if len(t) > 1 {
			reason, _ = starlark.AsString(t[1])
		}
		v = t[0]
	}
	if name, ok := starlark.AsString(v); ok {
		m.called = name
	} else if !v.Truth() {
		m.refused = reason
	}
	return nil
}

// dropImports blanks the import lines that Starlark does without, so that the
// line numbers of errors stay true.
func dropImports(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		words := strings.Fields(line)
		if len(words) < 2 || (words[0] != "import" && words[0] != "from") || line[0] == ' ' || line[0] == '\t' {
			continue
		}
		for _, name := range starlarkImports {
			if strings.TrimSuffix(words[1], ",") == name {
				lines[i] = ""
			}
		}
	}
	return strings.Join(lines, "\n")
}

func starlarkNames() starlark.StringDict {
	raise := func(name string) *starlark.Builtin {
		return starlark.NewBuiltin(name, func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			text := ""
			if len(args) > 0 {
				text, _ = starlark.AsString(args[0])
			}
			if b.Name() == "SaltInvocationError" {
				return nil, InvocationErrorf("%s", text)
			}
			return nil, ExecErrorf("%s", text)
		})
	}
	return starlark.StringDict{
		"json":                  starjson.Module,
		"math":                  starmath.Module,
		"time":                  startime.Module,
		"re":                    starlarkRegexp(),
		"path":                  starlarkPath(),
		"struct":                starlark.NewBuiltin("struct", starlarkstruct.Make),
		"__salt__":              starlarkSalt{},
		"__grains__":            starlarkDunder("grains"),
		"__pillar__":            starlarkDunder("pillar"),
		"__opts__":              starlarkDunder("opts"),
		"__context__":           starlarkDunder("context"),
		"CommandExecutionError": raise("CommandExecutionError"),
		"SaltInvocationError":   raise("SaltInvocationError"),
	}
}

type starlarkFunction struct {
	fn  *starlark.Function
	sig *Signature
}

func starlarkSignature(fn *starlark.Function) *Signature {
	s := &Signature{funcName: fn.Name()}
	n := fn.NumParams()
	if fn.HasKwargs() {
		n--
		s.Kwargs, _ = fn.Param(n)
	}
	if fn.HasVarargs() {
		n--
		s.Varargs, _ = fn.Param(n)
	}
	for i := 0; i < n; i++ {
		name, _ := fn.Param(i)
		p := Param{Name: name}
		if def := fn.ParamDefault(i); def != nil {
			p.Optional = true
			p.Default, _ = fromStarlark(def)
		}
		s.Params = append(s.Params, p)
	}
	return s
}

func (f *starlarkFunction) Doc() string           { return f.fn.Doc() }
func (f *starlarkFunction) Signature() *Signature { return f.sig }

// starlarkCall is what the values of one call find in their thread.
type starlarkCall struct {
	ctx context.Context
	c   *Call
}

func (f *starlarkFunction) Invoke(ctx context.Context, c *Call, args []any, kwargs *Map) (any, error) {
	if _, _, _, err := f.sig.Bind(args, kwargs); err != nil {
		return nil, err
	}
	steps := uint64(c.Opts.Int("custom_starlark_steps"))
	if steps == 0 {
		steps = defaultStarlarkSteps
	}
	thread := &starlark.Thread{Name: f.fn.Name(), Print: func(_ *starlark.Thread, msg string) { c.Log.Info(msg) }}
	boundStarlark(thread, steps)
	thread.SetLocal("call", &starlarkCall{ctx, c})
	stop := context.AfterFunc(ctx, func() { thread.Cancel("the job was ended") })
	defer stop()
	pos := make(starlark.Tuple, len(args))
	for i, a := range args {
		pos[i] = toStarlark(a)
	}
	var kw []starlark.Tuple
	for k, v := range kwargs.All() {
		kw = append(kw, starlark.Tuple{starlark.String(Str(k)), toStarlark(v)})
	}
	v, err := starlark.Call(thread, f.fn, pos, kw)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, starlarkError(err)
	}
	ret, err := fromStarlark(v)
	if err != nil {
		return nil, starlarkError(err)
	}
	return ret, nil
}

// starlarkCondition says whether an expression about named values is true.
func starlarkCondition(ctx context.Context, c *Call, expr string, names *Map) (bool, error) {
	thread := &starlark.Thread{Name: "condition", Print: func(*starlark.Thread, string) {}}
	thread.SetLocal("call", &starlarkCall{ctx, c})
	boundStarlark(thread, defaultStarlarkSteps)
	stop := context.AfterFunc(ctx, func() { thread.Cancel("the job was ended") })
	defer stop()
	known := starlarkNames()
	for k, v := range names.All() {
		known[Str(k)] = toStarlark(v)
	}
	v, err := starlark.EvalOptions(&syntax.FileOptions{}, thread, "condition", expr, known)
	if err != nil {
		return false, ExecErrorf("condition %s: %s", expr, err)
	}
	return bool(v.Truth()), nil
}

// starlarkError keeps errors of called functions as they were, takes fail() as
// CommandExecutionError, and shows the way there.
func starlarkError(err error) error {
	var me *ModuleError
	if errors.As(err, &me) {
		return me
	}
	var ee *starlark.EvalError
	if errors.As(err, &ee) {
		if text, ok := strings.CutPrefix(ee.Msg, "fail: "); ok {
			return ExecErrorf("%s", text)
		}
		return &ModuleError{Kind: ErrOther, Class: "EvalError", Msg: ee.Msg, Trace: ee.Backtrace() + "\n"}
	}
	return OtherErrorf("EvalError", "%s", err)
}

func callOf(thread *starlark.Thread) (*starlarkCall, error) {
	if sc, ok := thread.Local("call").(*starlarkCall); ok {
		return sc, nil
	}
	return nil, errors.New("the minion's functions and data cannot be used while a file is being loaded")
}

// starlarkSalt is __salt__.
type starlarkSalt struct{}

func (starlarkSalt) String() string        { return "__salt__" }
func (starlarkSalt) Type() string          { return "salt" }
func (starlarkSalt) Freeze()               {}
func (starlarkSalt) Truth() starlark.Bool  { return true }
func (starlarkSalt) Hash() (uint32, error) { return 0, errors.New("unhashable: salt") }

// Get implements starlark.Mapping: every name gives a function; whether it
// exists is seen when it is called.
func (starlarkSalt) Get(k starlark.Value) (starlark.Value, bool, error) {
	name, ok := starlark.AsString(k)
	if !ok {
		return nil, false, nil
	}
	return starlark.NewBuiltin(name, func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		sc, err := callOf(thread)
		if err != nil {
			return nil, err
		}
		given, err := fromStarlark(args)
		if err != nil {
			return nil, err
		}
		kw := &Map{}
		for _, pair := range kwargs {
			name, _ := starlark.AsString(pair[0])
			v, err := fromStarlark(pair[1])
			if err != nil {
				return nil, err
			}
			kw.Set(name, v)
		}
		v, err := sc.c.RunKw(sc.ctx, b.Name(), given.(Tuple), kw)
		if err != nil {
			return nil, err
		}
		return toStarlark(v), nil
	}), true, nil
}

// starlarkDunder is __grains__ and its like: read from the call when used.
type starlarkDunder string

func (d starlarkDunder) String() string        { return "__" + string(d) + "__" }
func (d starlarkDunder) Type() string          { return "mapping" }
func (d starlarkDunder) Freeze()               {}
func (d starlarkDunder) Truth() starlark.Bool  { return true }
func (d starlarkDunder) Hash() (uint32, error) { return 0, errors.New("unhashable: mapping") }

// Attr gives the method get; a mapping as a whole comes from dict().
func (d starlarkDunder) Attr(name string) (starlark.Value, error) {
	of := func(thread *starlark.Thread) (*Map, error) {
		sc, err := callOf(thread)
		if err != nil {
			return nil, err
		}
		switch d {
		case "grains":
			return mapOrEmpty(sc.c.Grains), nil
		case "pillar":
			return mapOrEmpty(sc.c.Pillar), nil
		case "opts":
			return sc.c.Opts.All(), nil
		}
		sc.c.job.mu.Lock()
		defer sc.c.job.mu.Unlock()
		return sc.c.job.vals.Clone(), nil
	}
	fn := func(f func(m *Map, args starlark.Tuple) (starlark.Value, error)) *starlark.Builtin {
		return starlark.NewBuiltin(name, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			m, err := of(thread)
			if err != nil {
				return nil, err
			}
			return f(m, args)
		})
	}
	switch name {
	case "get":
		return fn(func(m *Map, args starlark.Tuple) (starlark.Value, error) {
			if len(args) == 0 {
				return nil, errors.New("get: a key is needed")
			}
			key, err := fromStarlark(args[0])
			if err != nil {
				return nil, err
			}
			if v, ok := m.Get(key); ok {
				return toStarlark(v), nil
			}
			if len(args) > 1 {
				return args[1], nil
			}
			return starlark.None, nil
		}), nil
	case "keys":
		return fn(func(m *Map, _ starlark.Tuple) (starlark.Value, error) { return toStarlark(NewList(m.Keys()...)), nil }), nil
	case "dict":
		return fn(func(m *Map, _ starlark.Tuple) (starlark.Value, error) { return toStarlark(m), nil }), nil
	case "set":
		if d == "context" {
			return starlark.NewBuiltin(name, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
				sc, err := callOf(thread)
				if err != nil {
					return nil, err
				}
				if len(args) != 2 {
					return nil, errors.New("set: a key and a value are needed")
				}
				pair, err := fromStarlark(args)
				if err != nil {
					return nil, err
				}
				sc.c.ContextSet(Str(pair.(Tuple)[0]), pair.(Tuple)[1])
				return starlark.None, nil
			}), nil
		}
	}
	return nil, nil
}

func (d starlarkDunder) AttrNames() []string { return []string{"dict", "get", "keys"} }

// toStarlark brings a value into Starlark.
func toStarlark(v any) starlark.Value {
	switch v := v.(type) {
	case nil:
		return starlark.None
	case bool:
		return starlark.Bool(v)
	case int64:
		return starlark.MakeInt64(v)
	case *big.Int:
		return starlark.MakeBigInt(v)
	case float64:
		return starlark.Float(v)
	case string:
		return starlark.String(v)
	case []byte:
		return starlark.Bytes(v)
	case *List:
		items := make([]starlark.Value, v.Len())
		for i, item := range toItems(v) {
			items[i] = toStarlark(item)
		}
		return starlark.NewList(items)
	case Tuple:
		items := make(starlark.Tuple, len(v))
		for i, item := range v {
			items[i] = toStarlark(item)
		}
		return items
	case *Map:
		d := starlark.NewDict(v.Len())
		for k, x := range v.All() {
			if err := d.SetKey(toStarlark(k), toStarlark(x)); err != nil {
				continue // a key that Starlark cannot hash
			}
		}
		return d
	}
	return starlark.String(Str(v))
}

// starlarkPath are the path helpers: they see names, not the disk.
func starlarkPath() starlark.Value {
	one := func(name string, f func(string) any) *starlark.Builtin {
		return starlark.NewBuiltin(name, func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			if len(args) != 1 {
				return nil, fmt.Errorf("path.%s: one argument is needed", name)
			}
			s, ok := starlark.AsString(args[0])
			if !ok {
				return nil, fmt.Errorf("path.%s: a text is needed", name)
			}
			return toStarlark(f(s)), nil
		})
	}
	return &starlarkstruct.Module{Name: "path", Members: starlark.StringDict{
		"basename": one("basename", func(s string) any { return s[strings.LastIndexByte(s, '/')+1:] }),
		"dirname":  one("dirname", func(s string) any { return strings.TrimSuffix(s[:strings.LastIndexByte(s, '/')+1], "/") }),
		"splitext": one("splitext", func(s string) any { e := filepath.Ext(s); return Tuple{strings.TrimSuffix(s, e), e} }),
		"isabs":    one("isabs", func(s string) any { return filepath.IsAbs(s) }),
		"normpath": one("normpath", func(s string) any { return filepath.Clean(s) }),
		"join": starlark.NewBuiltin("join", func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			out := ""
			for _, a := range args {
				s, _ := starlark.AsString(a)
				switch {
				case out == "" || strings.HasPrefix(s, "/"):
					out = s
				default:
					out = strings.TrimSuffix(out, "/") + "/" + s
				}
			}
			return starlark.String(out), nil
		}),
	}}
}
