// The functions of JMESPath: how many arguments each takes, and what it does.
package main

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"unicode/utf8"
)

// jmesArity is how many arguments each function takes; -1: one or more.
func jmesArity(name string) (int, bool) {
	switch name {
	case "abs", "avg", "ceil", "floor", "keys", "length", "max", "min", "reverse", "sort", "sum", "to_array", "to_number", "to_string", "type", "values":
		return 1, true
	case "contains", "ends_with", "starts_with", "join", "map", "max_by", "min_by", "sort_by":
		return 2, true
	case "merge", "not_null":
		return -1, true
	}
	return 0, false
}

func (n *jmesNode) call(v any, depth int) (any, error) {
	name := n.value.(string)
	arity, ok := jmesArity(name)
	if !ok {
		return nil, jinjaErr("jmespath.exceptions.UnknownFunctionError", "Unknown function: %s()", name)
	}
	if arity >= 0 && len(n.kids) != arity {
		return nil, jinjaErr("jmespath.exceptions.ArityError", "Expected %d %s for function %s(), received %d",
			arity, jinjaPlural(arity, "argument"), name, len(n.kids))
	}
	if arity < 0 && len(n.kids) == 0 {
		return nil, jinjaErr("jmespath.exceptions.VariadictArityError", "Expected at least 1 argument for function %s(), received 0", name)
	}
	args := make([]any, len(n.kids))
	for i, k := range n.kids {
		if k.kind == "expref" {
			continue
		}
		x, err := k.eval(v, depth+1)
		if err != nil {
			return nil, err
		}
		args[i] = x
	}
	wrong := func(i int, expected string) error {
		return jinjaErr("jmespath.exceptions.JMESPathTypeError", "In function %s(), invalid type for value: %s, expected one of: [%s], received: \"%s\"",
			name, Str(args[i]), expected, jmesType(args[i]))
	}
	text := func(i int) (string, error) {
		s, ok := args[i].(string)
		if !ok {
			return "", wrong(i, "'string'")
		}
		return s, nil
	}
	list := func(i int) ([]any, error) {
		l, ok := jmesItems(args[i])
		if !ok {
			return nil, wrong(i, "'array'")
		}
		return l, nil
	}
	num := func(i int) error {
		if jmesType(args[i]) != "number" {
			return wrong(i, "'number'")
		}
		return nil
	}
	ref := func(i int) (func(any) (any, error), error) {
		if n.kids[i].kind != "expref" {
			return nil, wrong(i, "'expref'")
		}
		e := n.kids[i].kids[0]
		return func(v any) (any, error) { return e.eval(v, depth+1) }, nil
	}
	switch name {
	case "type":
		return jmesType(args[0]), nil
	case "not_null":
		for _, a := range args {
			if a != nil {
				return a, nil
			}
		}
		return nil, nil
	case "to_array":
		if _, ok := jmesItems(args[0]); ok {
			return args[0], nil
		}
		return NewList(args[0]), nil
	case "to_string":
		if s, ok := args[0].(string); ok {
			return s, nil
		}
		return EncodeJSON(args[0], JSONOptions{Indent: -1, EnsureASCII: true, ItemSep: ",", KeySep: ":"}), nil
	case "to_number":
		if jmesType(args[0]) == "number" {
			return args[0], nil
		}
		if s, ok := args[0].(string); ok {
			if i, ok := parsePythonInt(s, 10); ok {
				return i, nil
			}
			if f, ok := parsePythonFloat(s); ok {
				return f, nil
			}
		}
		return nil, nil
	case "abs", "ceil", "floor":
		if err := num(0); err != nil {
			return nil, err
		}
		if name == "abs" {
			return filterAbs(nil, args[0], nil, nil)
		}
		f, isFloat := args[0].(float64)
		if !isFloat {
			return args[0], nil
		}
		if name == "ceil" {
			f = math.Ceil(f)
		} else {
			f = math.Floor(f)
		}
		i, _ := big.NewFloat(f).Int(nil)
		return normalInt(i), nil
	case "length":
		switch x := args[0].(type) {
		case string:
			return int64(utf8.RuneCountInString(x)), nil
		case *Map:
			return int64(x.Len()), nil
		}
		l, ok := jmesItems(args[0])
		if !ok {
			return nil, wrong(0, "'string', 'array', 'object'")
		}
		return int64(len(l)), nil
	case "keys", "values":
		m, ok := args[0].(*Map)
		if !ok {
			return nil, wrong(0, "'object'")
		}
		return &List{Items: (&jinjaView{m, name[0]}).items()}, nil
	case "merge":
		out := &Map{}
		for i, a := range args {
			m, ok := a.(*Map)
			if !ok {
				return nil, wrong(i, "'object'")
			}
			out.Merge(m)
		}
		return out, nil
	case "contains":
		if s, ok := args[0].(string); ok {
			sub, ok := args[1].(string)
			return ok && strings.Contains(s, sub), nil
		}
		l, ok := jmesItems(args[0])
		if !ok {
			return nil, wrong(0, "'array', 'string'")
		}
		for _, item := range l {
			if Equal(item, args[1]) {
				return true, nil
			}
		}
		return false, nil
	case "starts_with", "ends_with":
		s, err := text(0)
		if err != nil {
			return nil, err
		}
		fix, err := text(1)
		if name == "ends_with" {
			return strings.HasSuffix(s, fix), err
		}
		return strings.HasPrefix(s, fix), err
	case "join":
		sep, err := text(0)
		if err != nil {
			return nil, err
		}
		l, err := list(1)
		if err != nil {
			return nil, err
		}
		parts := make([]string, len(l))
		for i, item := range l {
			s, ok := item.(string)
			if !ok {
				return nil, wrong(1, "'array-string'")
			}
			parts[i] = s
		}
		return strings.Join(parts, sep), nil
	case "reverse":
		if s, ok := args[0].(string); ok {
			rs := []rune(s)
			for i, j := 0, len(rs)-1; i < j; i, j = i+1, j-1 {
				rs[i], rs[j] = rs[j], rs[i]
			}
			return string(rs), nil
		}
		l, err := list(0)
		if err != nil {
			return nil, err
		}
		out := append([]any{}, l...)
		reverseItems(out)
		return &List{Items: out}, nil
	case "sum", "avg":
		l, err := list(0)
		if err != nil {
			return nil, err
		}
		var total any = int64(0)
		for _, item := range l {
			if jmesType(item) != "number" {
				return nil, wrong(0, "'array-number'")
			}
			if total, err = arithmetic("+", total, item); err != nil {
				return nil, err
			}
		}
		if name == "sum" {
			return total, nil
		}
		if len(l) == 0 {
			return nil, nil
		}
		return arithmetic("/", total, int64(len(l)))
	case "sort", "max", "min":
		l, err := list(0)
		if err != nil {
			return nil, err
		}
		return jmesOrder(name, l, l, func() error { return wrong(0, "'array-string', 'array-number'") })
	case "map":
		f, err := ref(0)
		if err != nil {
			return nil, err
		}
		l, err := list(1)
		if err != nil {
			return nil, err
		}
		out := &List{}
		for _, item := range l {
			x, err := f(item)
			if err != nil {
				return nil, err
			}
			out.Append(x)
		}
		return out, nil
	case "sort_by", "max_by", "min_by":
		l, err := list(0)
		if err != nil {
			return nil, err
		}
		f, err := ref(1)
		if err != nil {
			return nil, err
		}
		keys := make([]any, len(l))
		for i, item := range l {
			if keys[i], err = f(item); err != nil {
				return nil, err
			}
		}
		return jmesOrder(strings.TrimSuffix(name, "_by"), l, keys, func() error { return wrong(0, "'string', 'number'") })
	}
	return nil, fmt.Errorf("the function %s has no code", name)
}

// jmesOrder sorts items by keys of one kind, or takes the first or last of them.
func jmesOrder(what string, items, keys []any, wrong func() error) (any, error) {
	for _, k := range keys {
		if t := jmesType(k); t != "string" && t != "number" || t != jmesType(keys[0]) {
			return nil, wrong()
		}
	}
	if what == "sort" {
		out, err := sortValuesBy(append([]any{}, items...), keys, false)
		return &List{Items: out}, err
	}
	if len(items) == 0 {
		return nil, nil
	}
	best := 0
	for i := range items {
		c, _ := Compare(keys[i], keys[best])
		if what == "max" && c > 0 || what == "min" && c < 0 {
			best = i
		}
	}
	return items[best], nil
}
