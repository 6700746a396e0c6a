// Jinja's own tests and global functions.
package main

import (
	"math/rand/v2"
	"strings"
	"unicode"
)

// jinjaTests is the table of Jinja's tests.
func jinjaTests() map[string]*JinjaFilter {
	is := func(name string, fn func(r *JinjaRun, v any) (any, error)) *JinjaFilter {
		return jinjaFilter("test_"+name, "", func(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) { return fn(r, v) })
	}
	plain := func(name string, fn func(v any) bool) *JinjaFilter {
		return is(name, func(_ *JinjaRun, v any) (any, error) { return fn(v), nil })
	}
	compare := func(name, op string) *JinjaFilter {
		return jinjaFilter(name, "other", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) { return r.compare(op, v, a[0]) })
	}
	remainder := func(r *JinjaRun, v any, n any, want int64) (any, error) {
		if a, ok := v.(int64); ok {
			if b, ok := n.(int64); ok && b > 0 {
				return (a%b+b)%b == want, nil
			}
		}
		m, err := r.binary("%", v, n)
		if err != nil {
			return nil, err
		}
		return r.equal(m, want)
	}
	eq, ne := compare("eq", "eq"), compare("ne", "ne")
	gt, ge, lt, le := compare("gt", "gt"), compare("ge", "gteq"), compare("lt", "lt"), compare("le", "lteq")
	return map[string]*JinjaFilter{
		"odd":  is("odd", func(r *JinjaRun, v any) (any, error) { return remainder(r, v, int64(2), 1) }),
		"even": is("even", func(r *JinjaRun, v any) (any, error) { return remainder(r, v, int64(2), 0) }),
		"divisibleby": jinjaFilter("test_divisibleby", "num", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			return remainder(r, v, a[0], 0)
		}),
		"defined":   plain("defined", func(v any) bool { _, ok := v.(*JinjaUndefined); return !ok }),
		"undefined": plain("undefined", func(v any) bool { _, ok := v.(*JinjaUndefined); return ok }),
		"filter": is("filter", func(r *JinjaRun, v any) (any, error) {
			name, _ := textOf(v)
			return r.Env.Filters[name] != nil, nil
		}),
		"test": is("test", func(r *JinjaRun, v any) (any, error) {
			name, _ := textOf(v)
			return r.Env.Tests[name] != nil, nil
		}),
		"none":    plain("none", func(v any) bool { return v == nil }),
		"boolean": plain("boolean", func(v any) bool { _, ok := v.(bool); return ok }),
		"false":   plain("false", func(v any) bool { b, ok := v.(bool); return ok && !b }),
		"true":    plain("true", func(v any) bool { b, ok := v.(bool); return ok && b }),
		"integer": plain("integer", func(v any) bool { _, isBool := v.(bool); _, _, isInt, _ := number(v); return isInt && !isBool }),
		"float":   plain("float", func(v any) bool { _, ok := v.(float64); return ok }),
		"number":  plain("number", isNumber),
		"string":  plain("string", func(v any) bool { _, ok := textOf(v); return ok }),
		"lower": is("lower", func(r *JinjaRun, v any) (any, error) {
			s, err := r.str(v)
			return isCase(s, unicode.IsLower, unicode.IsUpper), err
		}),
		"upper": is("upper", func(r *JinjaRun, v any) (any, error) {
			s, err := r.str(v)
			return isCase(s, unicode.IsUpper, unicode.IsLower), err
		}),
		"mapping": plain("mapping", func(v any) bool { _, ok := v.(*Map); return ok }),
		"sequence": plain("sequence", func(v any) bool {
			switch v := v.(type) {
			case string, Markup, []byte, *List, Tuple, *Map, *jinjaRange, *jinjaGroup:
				return true
			case *JinjaUndefined:
				return v.Kind != JinjaStrict
			}
			return false
		}),
		"iterable": is("iterable", func(r *JinjaRun, v any) (any, error) {
			if _, ok := v.(*JinjaIterator); ok {
				return true, nil
			}
			_, err := r.iter(v)
			if isJinjaClass(err, "TypeError") {
				return false, nil
			}
			return err == nil, err
		}),
		"callable": plain("callable", func(v any) bool {
			switch v.(type) {
			case JinjaCallable, *JinjaUndefined:
				return true
			}
			return false
		}),
		"sameas": jinjaFilter("test_sameas", "other", func(_ *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			return sameObject(v, a[0]), nil
		}),
		"escaped": plain("escaped", func(v any) bool { _, ok := v.(Markup); return ok }),
		"in": jinjaFilter("test_in", "seq", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			return r.contains(a[0], v)
		}),
		"==": eq, "eq": eq, "equalto": eq, "!=": ne, "ne": ne,
		">": gt, "gt": gt, "greaterthan": gt, ">=": ge, "ge": ge,
		"<": lt, "lt": lt, "lessthan": lt, "<=": le, "le": le,
	}
}

// sameObject is `a is b`, as far as values have an identity.
func sameObject(a, b any) bool {
	switch a := a.(type) {
	case *List, *Map, *Set, Object:
		return Hashable(a) && a == b || a == b
	case Tuple:
		t, ok := b.(Tuple)
		return ok && len(a) == len(t) && (len(a) == 0 || &a[0] == &t[0])
	}
	return TypeName(a) == TypeName(b) && Equal(a, b)
}

// maxJinjaRange is the longest range that the sandbox allows.
const maxJinjaRange = 100000

func rangeTooBig() error {
	return jinjaErr("OverflowError", "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", maxJinjaRange)
}

// jinjaGlobals are the global functions.
func jinjaGlobals() map[string]any {
	class := func(name string, fn func(r *JinjaRun, args []any, kw JinjaKwargs) (any, error)) *JinjaFunc {
		return &JinjaFunc{Name: name, Kind: "type", Fn: fn}
	}
	return map[string]any{
		"range": jinjaFunction("safe_range", "*args", func(r *JinjaRun, _ any, a []any, _ JinjaKwargs) (any, error) {
			return makeRange(a)
		}),
		"dict": class("dict", func(r *JinjaRun, args []any, kw JinjaKwargs) (any, error) {
			if len(args) > 1 {
				return nil, jinjaTypeError("dict expected at most 1 argument, got %d", len(args))
			}
			m := &Map{}
			return m, r.updateMap(m, args, kw)
		}),
		"namespace": class("jinja2.utils.Namespace", func(r *JinjaRun, args []any, kw JinjaKwargs) (any, error) {
			m := &Map{}
			if len(args) > 1 {
				return nil, jinjaTypeError("dict expected at most 1 argument, got %d", len(args))
			}
			if err := r.updateMap(m, args, kw); err != nil {
				return nil, err
			}
			return &jinjaNamespace{m}, nil
		}),
		"cycler": class("jinja2.utils.Cycler", func(_ *JinjaRun, args []any, _ JinjaKwargs) (any, error) {
			if len(args) == 0 {
				return nil, jinjaErr("RuntimeError", "at least one item has to be provided")
			}
			return &jinjaCycler{items: args}, nil
		}),
		"joiner": class("jinja2.utils.Joiner", func(_ *JinjaRun, args []any, kw JinjaKwargs) (any, error) {
			var sep any = ", "
			if len(args) > 0 {
				sep = args[0]
			} else if v, ok := kw.Get("sep"); ok {
				sep = v
			}
			used := false
			return &JinjaFunc{Name: "jinja2.utils.Joiner", Kind: "Joiner", Fn: func(*JinjaRun, []any, JinjaKwargs) (any, error) {
				if !used {
					used = true
					return "", nil
				}
				return sep, nil
			}}, nil
		}),
		"lipsum": jinjaFunction("generate_lorem_ipsum", "n=5, html=True, min=20, max=100", lipsum),
	}
}

func makeRange(a []any) (any, error) {
	g := &jinjaRange{step: 1}
	switch len(a) {
	case 0:
		return nil, jinjaTypeError("range expected at least 1 argument, got 0")
	case 1, 2, 3:
	default:
		return nil, jinjaTypeError("range expected at most 3 arguments, got %d", len(a))
	}
	n := make([]int64, len(a))
	for i, v := range a {
		var err error
		if n[i], err = intArg(v); err != nil {
			return nil, err
		}
	}
	if len(a) == 1 {
		g.stop = n[0]
	} else {
		g.start, g.stop = n[0], n[1]
	}
	if len(a) == 3 {
		if g.step = n[2]; g.step == 0 {
			return nil, jinjaValueError("range() arg 3 must not be zero")
		}
	}
	if g.len() > maxJinjaRange || g.len() < 0 {
		return nil, rangeTooBig()
	}
	return g, nil
}

func lipsum(r *JinjaRun, _ any, a []any, _ JinjaKwargs) (any, error) {
	n, err := intArg(a[0])
	if err != nil {
		return nil, err
	}
	html, err := r.truth(a[1])
	if err != nil {
		return nil, err
	}
	lo, err := intArg(a[2])
	if err != nil {
		return nil, err
	}
	hi, err := intArg(a[3])
	if err != nil {
		return nil, err
	}
	if n > 1000 || hi > 10000 || lo >= hi || lo < 1 {
		return nil, jinjaValueError("empty range for randrange()")
	}
	words := strings.Fields("lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore magna aliqua")
	var out []string
	for range n {
		count := lo + rand.Int64N(hi-lo)
		line := make([]string, count)
		for i := range line {
			line[i] = words[rand.IntN(len(words))]
		}
		text := pythonCapitalize(strings.Join(line, " ")) + "."
		if html {
			text = "<p>" + text + "</p>"
		}
		out = append(out, text)
	}
	if html {
		return Markup(strings.Join(out, "\n")), nil
	}
	return strings.Join(out, "\n\n"), nil
}
