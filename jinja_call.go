// How filters, tests, methods and global functions are described and called:
// one table entry each, with a signature in Python's notation from which
// arguments are bound and the errors of wrong calls are made.
package main

import (
	"fmt"
	"strconv"
	"strings"
)

// jinjaImpl is the code behind an entry: the value (of a function: nil), the
// bound arguments in the order of the signature with *args behind them, and the
// keyword arguments that **kwargs takes.
type jinjaImpl func(r *JinjaRun, v any, a []any, kw JinjaKwargs) (any, error)

// JinjaFilter is a filter, a test, or a method.
type JinjaFilter struct {
	name    string // Python's name of the function, for error texts
	params  []jinjaParam
	varArgs bool
	varKw   bool
	style   byte // 'p' Python function, 'c' C function, 'd' C function with newer wording
	hidden  int  // parameters before the first of params
	fn      jinjaImpl
}

type jinjaParam struct {
	name     string
	def      any
	required bool
}

// jinjaFilter makes an entry whose function has the value as its first
// parameter. sig is like `old, new, count=None, *args, **kwargs`.
func jinjaFilter(name, sig string, fn jinjaImpl) *JinjaFilter {
	return jinjaEntry('p', 1, name, sig, fn)
}

// jinjaFilter2 is for functions that also get the environment or the context.
func jinjaFilter2(name, sig string, fn jinjaImpl) *JinjaFilter {
	return jinjaEntry('p', 2, name, sig, fn)
}

// jinjaMethod is for methods of Python's builtin types.
func jinjaMethod(name, sig string, fn jinjaImpl) *JinjaFilter {
	return jinjaEntry('c', 0, name, sig, fn)
}

// jinjaFunction makes a global function of an entry.
func jinjaFunction(name, sig string, fn jinjaImpl) *JinjaFunc {
	f := jinjaEntry('p', 0, name, sig, fn)
	return &JinjaFunc{Name: name, Fn: func(r *JinjaRun, args []any, kw JinjaKwargs) (any, error) {
		return f.call(r, nil, args, kw)
	}}
}

func jinjaEntry(style byte, hidden int, name, sig string, fn jinjaImpl) *JinjaFilter {
	f := &JinjaFilter{name: name, style: style, hidden: hidden, fn: fn}
	for sig != "" {
		var part string
		part, sig, _ = strings.Cut(sig, ", ")
		switch {
		case strings.HasPrefix(part, "**"):
			f.varKw = true
		case strings.HasPrefix(part, "*"):
			f.varArgs = true
		default:
			name, def, optional := strings.Cut(part, "=")
			f.params = append(f.params, jinjaParam{name, signatureDefault(def), !optional})
		}
	}
	return f
}

func signatureDefault(s string) any {
	switch s {
	case "", "None":
		return nil
	case "True":
		return true
	case "False":
		return false
	}
	if s[0] == '\'' {
		return strings.Trim(s, "'")
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic("bad default in a signature: " + s)
	}
	return f
}

func (f *JinjaFilter) call(r *JinjaRun, v any, args []any, kw JinjaKwargs) (any, error) {
	if len(kw) == 0 && len(args) == len(f.params) {
		return f.fn(r, v, args, nil)
	}
	a, rest, err := f.bind(args, kw)
	if err != nil {
		return nil, err
	}
	return f.fn(r, v, a, rest)
}

func (f *JinjaFilter) bind(args []any, kw JinjaKwargs) ([]any, JinjaKwargs, error) {
	n := len(f.params)
	if len(args) > n && !f.varArgs {
		return nil, nil, f.tooMany(len(args))
	}
	a := make([]any, max(n, len(args)))
	copy(a, args)
	var rest JinjaKwargs
	var given uint64
	for _, k := range kw {
		i := 0
		for i < n && f.params[i].name != k.Name {
			i++
		}
		switch {
		case i < n && i < len(args):
			return nil, nil, jinjaTypeError("%s() got multiple values for argument %s", f.name, Repr(k.Name))
		case i < n:
			a[i] = k.Value
			given |= 1 << i
		case f.varKw:
			rest = append(rest, k)
		case f.style == 'd' || f.style == 'c' && n == 0:
			return nil, nil, jinjaTypeError("%s() takes no keyword arguments", f.name)
		case f.style == 'c':
			return nil, nil, jinjaTypeError("%s is an invalid keyword argument for %s()", Repr(k.Name), f.short())
		default:
			return nil, nil, jinjaTypeError("%s() got an unexpected keyword argument %s", f.name, Repr(k.Name))
		}
	}
	var missing []string
	for i := len(args); i < n; i++ {
		if given&(1<<i) != 0 {
			continue
		}
		if f.params[i].required {
			missing = append(missing, Repr(f.params[i].name))
		}
		a[i] = f.params[i].def
	}
	if len(missing) > 0 {
		return nil, nil, f.tooFew(len(args), missing)
	}
	return a, rest, nil
}

// short is the name without its type: replace for str.replace.
func (f *JinjaFilter) short() string { return f.name[strings.LastIndexByte(f.name, '.')+1:] }

func (f *JinjaFilter) required() int {
	n := 0
	for _, p := range f.params {
		if p.required {
			n++
		}
	}
	return n
}

func jinjaPlural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

func (f *JinjaFilter) tooMany(got int) error {
	n, req := len(f.params), f.required()
	if f.style == 'd' {
		return jinjaTypeError("%s() takes at most %d arguments (%d given)", f.short(), n, got)
	}
	if f.style == 'c' {
		switch {
		case n == 0:
			return jinjaTypeError("%s() takes no arguments (%d given)", f.name, got)
		case n == 1 && req == 1:
			return jinjaTypeError("%s() takes exactly one argument (%d given)", f.name, got)
		case n == req:
			return jinjaTypeError("%s expected %d arguments, got %d", f.short(), n, got)
		}
		return jinjaTypeError("%s expected at most %d %s, got %d", f.short(), n, jinjaPlural(n, "argument"), got)
	}
	n, req, got = n+f.hidden, req+f.hidden, got+f.hidden
	were := "were"
	if got == 1 {
		were = "was"
	}
	if n == req {
		return jinjaTypeError("%s() takes %d positional %s but %d %s given", f.name, n, jinjaPlural(n, "argument"), got, were)
	}
	return jinjaTypeError("%s() takes from %d to %d positional arguments but %d %s given", f.name, req, n, got, were)
}

func (f *JinjaFilter) tooFew(got int, missing []string) error {
	if f.style == 'd' {
		return jinjaTypeError("%s() takes at least 1 argument (0 given)", f.short())
	}
	if f.style == 'c' {
		n, req := len(f.params), f.required()
		if n == 1 {
			return jinjaTypeError("%s() takes exactly one argument (%d given)", f.name, got)
		}
		if n == req {
			return jinjaTypeError("%s expected %d arguments, got %d", f.short(), n, got)
		}
		return jinjaTypeError("%s expected at least %d %s, got %d", f.short(), req, jinjaPlural(req, "argument"), got)
	}
	list := missing[0]
	if k := len(missing); k == 2 {
		list += " and " + missing[1]
	} else if k > 2 {
		list = strings.Join(missing[:k-1], ", ") + ", and " + missing[k-1]
	}
	return jinjaTypeError("%s() missing %d required positional %s: %s", f.name, len(missing), jinjaPlural(len(missing), "argument"), list)
}

// --- taking arguments apart, with Python's errors

// intArg takes an integer.
func intArg(v any) (int64, error) {
	if i, ok := indexOf(v); ok {
		return i, nil
	}
	if u, ok := v.(*JinjaUndefined); ok {
		return 0, u.fail()
	}
	return 0, jinjaTypeError("'%s' object cannot be interpreted as an integer", TypeName(v))
}

// strArg takes a text.
func strArg(v any, format string, args ...any) (string, error) {
	if s, ok := textOf(v); ok {
		return s, nil
	}
	if u, ok := v.(*JinjaUndefined); ok {
		return "", u.fail()
	}
	return "", jinjaTypeError("%s", fmt.Sprintf(format, args...)+TypeName(v))
}
