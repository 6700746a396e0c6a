// The functions of JMESPath: how many arguments each takes, and what it does.
package main

import (
	"math"
	"math/big"
	"strings"
	"unicode/utf8"
)

// jmesFunc is a function: how many arguments it takes (-1: one or more), and what
// it does.
type jmesFunc struct {
	arity int
	run   func(*jmesCall) (any, error)
}

func jmesFunction(name string) (f jmesFunc, ok bool) {
	switch name {
	case "type":
		return jmesFunc{1, jmesTypeOf}, true
	case "not_null":
		return jmesFunc{-1, jmesNotNull}, true
	case "to_array":
		return jmesFunc{1, jmesToArray}, true
	case "to_string":
		return jmesFunc{1, jmesToString}, true
	case "to_number":
		return jmesFunc{1, jmesToNumber}, true
	case "abs", "ceil", "floor":
		return jmesFunc{1, jmesRound}, true
	case "length":
		return jmesFunc{1, jmesLength}, true
	case "keys", "values":
		return jmesFunc{1, jmesView}, true
	case "merge":
		return jmesFunc{-1, jmesMerge}, true
	case "contains":
		return jmesFunc{2, jmesContains}, true
	case "starts_with", "ends_with":
		return jmesFunc{2, jmesAffix}, true
	case "join":
		return jmesFunc{2, jmesJoin}, true
	case "reverse":
		return jmesFunc{1, jmesReverse}, true
	case "sum", "avg":
		return jmesFunc{1, jmesSum}, true
	case "sort", "max", "min":
		return jmesFunc{1, jmesSort}, true
	case "map":
		return jmesFunc{2, jmesMap}, true
	case "sort_by", "max_by", "min_by":
		return jmesFunc{2, jmesSortBy}, true
	}
	return jmesFunc{}, false
}

// jmesCall is a call on its way: the nodes of its arguments, and their values
// where they are no references to expressions.
type jmesCall struct {
	name  string
	kids  []*jmesNode
	args  []any
	depth int
}

func (n *jmesNode) call(v any, depth int) (any, error) {
	name := n.value.(string)
	f, ok := jmesFunction(name)
	if !ok {
		return nil, jinjaErr("jmespath.exceptions.UnknownFunctionError", "Unknown function: %s()", name)
	}
	if f.arity >= 0 && len(n.kids) != f.arity {
		return nil, jinjaErr("jmespath.exceptions.ArityError", "Expected %d %s for function %s(), received %d",
			f.arity, jinjaPlural(f.arity, "argument"), name, len(n.kids))
	}
	if f.arity < 0 && len(n.kids) == 0 {
		return nil, jinjaErr("jmespath.exceptions.VariadictArityError", "Expected at least 1 argument for function %s(), received 0", name)
	}
	c := &jmesCall{name, n.kids, make([]any, len(n.kids)), depth}
	for i, k := range n.kids {
		if k.kind == "expref" {
			continue
		}
		x, err := k.eval(v, depth+1)
		if err != nil {
			return nil, err
		}
		c.args[i] = x
	}
	return f.run(c)
}

// wrong is the error of an argument that is of another type.
func (c *jmesCall) wrong(i int, expected string) error {
	return jinjaErr("jmespath.exceptions.JMESPathTypeError", "In function %s(), invalid type for value: %s, expected one of: [%s], received: \"%s\"",
		c.name, Str(c.args[i]), expected, jmesType(c.args[i]))
}

func (c *jmesCall) text(i int) (string, error) {
	s, ok := c.args[i].(string)
	if !ok {
		return "", c.wrong(i, "'string'")
	}
	return s, nil
}

func (c *jmesCall) list(i int) ([]any, error) {
	l, ok := jmesItems(c.args[i])
	if !ok {
		return nil, c.wrong(i, "'array'")
	}
	return l, nil
}

func (c *jmesCall) number(i int) error {
	if jmesType(c.args[i]) != "number" {
		return c.wrong(i, "'number'")
	}
	return nil
}

// ref is the expression that an argument refers to, as a function.
func (c *jmesCall) ref(i int) (func(any) (any, error), error) {
	if c.kids[i].kind != "expref" {
		return nil, c.wrong(i, "'expref'")
	}
	e := c.kids[i].kids[0]
	return func(v any) (any, error) { return e.eval(v, c.depth+1) }, nil
}

func jmesTypeOf(c *jmesCall) (any, error) {
	return jmesType(c.args[0]), nil
}

func jmesNotNull(c *jmesCall) (any, error) {
	for _, a := range c.args {
		if a != nil {
			return a, nil
		}
	}
	return nil, nil
}

func jmesToArray(c *jmesCall) (any, error) {
	if _, ok := jmesItems(c.args[0]); ok {
		return c.args[0], nil
	}
	return NewList(c.args[0]), nil
}

func jmesToString(c *jmesCall) (any, error) {
	if s, ok := c.args[0].(string); ok {
		return s, nil
	}
	return EncodeJSON(c.args[0], JSONOptions{Indent: -1, EnsureASCII: true, ItemSep: ",", KeySep: ":"}), nil
}

func jmesToNumber(c *jmesCall) (any, error) {
	if jmesType(c.args[0]) == "number" {
		return c.args[0], nil
	}
	if s, ok := c.args[0].(string); ok {
		if i, ok := parsePythonInt(s, 10); ok {
			return i, nil
		}
		if f, ok := parsePythonFloat(s); ok {
			return f, nil
		}
	}
	return nil, nil
}

func jmesRound(c *jmesCall) (any, error) {
	if err := c.number(0); err != nil {
		return nil, err
	}
	if c.name == "abs" {
		return filterAbs(nil, c.args[0], nil, nil)
	}
	f, isFloat := c.args[0].(float64)
	if !isFloat {
		return c.args[0], nil
	}
	if c.name == "ceil" {
		f = math.Ceil(f)
	} else {
		f = math.Floor(f)
	}
	i, _ := big.NewFloat(f).Int(nil)
	return normalInt(i), nil
}

func jmesLength(c *jmesCall) (any, error) {
	switch x := c.args[0].(type) {
	case string:
		return int64(utf8.RuneCountInString(x)), nil
	case *Map:
		return int64(x.Len()), nil
	}
	l, ok := jmesItems(c.args[0])
	if !ok {
		return nil, c.wrong(0, "'string', 'array', 'object'")
	}
	return int64(len(l)), nil
}

func jmesView(c *jmesCall) (any, error) {
	m, ok := c.args[0].(*Map)
	if !ok {
		return nil, c.wrong(0, "'object'")
	}
	return &List{Items: (&jinjaView{m, c.name[0]}).items()}, nil
}

func jmesMerge(c *jmesCall) (any, error) {
	out := &Map{}
	for i, a := range c.args {
		m, ok := a.(*Map)
		if !ok {
			return nil, c.wrong(i, "'object'")
		}
		out.Merge(m)
	}
	return out, nil
}

func jmesContains(c *jmesCall) (any, error) {
	if s, ok := c.args[0].(string); ok {
		sub, ok := c.args[1].(string)
		return ok && strings.Contains(s, sub), nil
	}
	l, ok := jmesItems(c.args[0])
	if !ok {
		return nil, c.wrong(0, "'array', 'string'")
	}
	for _, item := range l {
		if Equal(item, c.args[1]) {
			return true, nil
		}
	}
	return false, nil
}

func jmesAffix(c *jmesCall) (any, error) {
	s, err := c.text(0)
	if err != nil {
		return nil, err
	}
	fix, err := c.text(1)
	if c.name == "ends_with" {
		return strings.HasSuffix(s, fix), err
	}
	return strings.HasPrefix(s, fix), err
}

func jmesJoin(c *jmesCall) (any, error) {
	sep, err := c.text(0)
	if err != nil {
		return nil, err
	}
	l, err := c.list(1)
	if err != nil {
		return nil, err
	}
	parts := make([]string, len(l))
	for i, item := range l {
		s, ok := item.(string)
		if !ok {
			return nil, c.wrong(1, "'array-string'")
		}
		parts[i] = s
	}
	return strings.Join(parts, sep), nil
}

func jmesReverse(c *jmesCall) (any, error) {
	if s, ok := c.args[0].(string); ok {
		rs := []rune(s)
		for i, j := 0, len(rs)-1; i < j; i, j = i+1, j-1 {
			rs[i], rs[j] = rs[j], rs[i]
		}
		return string(rs), nil
	}
	l, err := c.list(0)
	if err != nil {
		return nil, err
	}
	out := append([]any{}, l...)
	reverseItems(out)
	return &List{Items: out}, nil
}

func jmesSum(c *jmesCall) (any, error) {
	l, err := c.list(0)
	if err != nil {
		return nil, err
	}
	var total any = int64(0)
	for _, item := range l {
		if jmesType(item) != "number" {
			return nil, c.wrong(0, "'array-number'")
		}
		if total, err = arithmetic("+", total, item); err != nil {
			return nil, err
		}
	}
	if c.name == "sum" {
		return total, nil
	}
	if len(l) == 0 {
		return nil, nil
	}
	return arithmetic("/", total, int64(len(l)))
}

func jmesSort(c *jmesCall) (any, error) {
	l, err := c.list(0)
	if err != nil {
		return nil, err
	}
	return jmesOrder(c.name, l, l, func() error { return c.wrong(0, "'array-string', 'array-number'") })
}

func jmesMap(c *jmesCall) (any, error) {
	f, err := c.ref(0)
	if err != nil {
		return nil, err
	}
	l, err := c.list(1)
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
}

func jmesSortBy(c *jmesCall) (any, error) {
	l, err := c.list(0)
	if err != nil {
		return nil, err
	}
	f, err := c.ref(1)
	if err != nil {
		return nil, err
	}
	keys := make([]any, len(l))
	for i, item := range l {
		if keys[i], err = f(item); err != nil {
			return nil, err
		}
	}
	return jmesOrder(strings.TrimSuffix(c.name, "_by"), l, keys, func() error { return c.wrong(0, "'string', 'number'") })
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
