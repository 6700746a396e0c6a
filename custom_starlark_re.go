// The module re of Starlark files: Python's regular expressions, with match,
// search, findall, split and sub. A match is a struct with group, groups, start
// and end, so that the usual lines of a Python module read the same.
package main

import (
	"errors"
	"fmt"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

func starlarkRegexp() starlark.Value {
	type body func(re *PyRegexp, args []any) (starlark.Value, error)
	fn := func(name string, least int, f body) *starlark.Builtin {
		return starlark.NewBuiltin(name, func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			if len(args) < least {
				return nil, fmt.Errorf("re.%s: %d arguments are needed", name, least)
			}
			v, err := fromStarlark(args)
			if err != nil {
				return nil, err
			}
			given := v.(Tuple)
			pattern, ok := given[0].(string)
			if !ok {
				return nil, fmt.Errorf("re.%s: the pattern must be a text", name)
			}
			re, err := CompilePython(pattern, 0)
			if err != nil {
				return nil, err
			}
			return f(re, given)
		})
	}
	single := func(find func(*PyRegexp, string) (*PyMatch, error)) body {
		return func(re *PyRegexp, args []any) (starlark.Value, error) {
			m, err := find(re, Str(args[1]))
			if err != nil || m == nil {
				return starlark.None, err
			}
			return starlarkMatch(m), nil
		}
	}
	return &starlarkstruct.Module{Name: "re", Members: starlark.StringDict{
		"match":     fn("match", 2, single((*PyRegexp).Match)),
		"search":    fn("search", 2, single((*PyRegexp).Search)),
		"fullmatch": fn("fullmatch", 2, single((*PyRegexp).FullMatch)),
		"findall": fn("findall", 2, func(re *PyRegexp, args []any) (starlark.Value, error) {
			all, err := re.FindAll(Str(args[1]), -1)
			if err != nil {
				return nil, err
			}
			out := &List{}
			for _, m := range all {
				switch re.Groups {
				case 0:
					out.Append(m.Group(0))
				case 1:
					out.Append(Str(orText(m.Group(1))))
				default:
					t := m.GroupTuple()
					for i := range t {
						t[i] = orText(t[i])
					}
					out.Append(t)
				}
			}
			return toStarlark(out), nil
		}),
		"split": fn("split", 2, func(re *PyRegexp, args []any) (starlark.Value, error) {
			parts, err := re.Split(Str(args[1]), 0)
			if err != nil {
				return nil, err
			}
			return toStarlark(NewList(parts...)), nil
		}),
		"sub": fn("sub", 3, func(re *PyRegexp, args []any) (starlark.Value, error) {
			s, err := re.ReplaceAll(Str(args[2]), Str(args[1]), 0)
			if err != nil {
				return nil, err
			}
			return starlark.String(s), nil
		}),
	}}
}

// orText gives an absent group as the empty text, as findall does.
func orText(v any) any {
	if v == nil {
		return ""
	}
	return v
}

func starlarkMatch(m *PyMatch) starlark.Value {
	method := func(name string, f func(i int) (starlark.Value, error)) *starlark.Builtin {
		return starlark.NewBuiltin(name, func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			if len(args) == 0 {
				return f(0)
			}
			if s, ok := starlark.AsString(args[0]); ok && name == "group" {
				return toStarlark(m.GroupNamed(s)), nil
			}
			i, err := starlark.AsInt32(args[0])
			if err != nil || i < 0 || 2*i+1 >= len(m.Spans) {
				return nil, errors.New("no such group")
			}
			return f(i)
		})
	}
	return starlarkstruct.FromStringDict(starlark.String("match"), starlark.StringDict{
		"group":  method("group", func(i int) (starlark.Value, error) { return toStarlark(m.Group(i)), nil }),
		"groups": method("groups", func(int) (starlark.Value, error) { return toStarlark(m.GroupTuple()), nil }),
		"start":  method("start", func(i int) (starlark.Value, error) { return starlark.MakeInt(m.Spans[2*i]), nil }),
		"end":    method("end", func(i int) (starlark.Value, error) { return starlark.MakeInt(m.Spans[2*i+1]), nil }),
	})
}
