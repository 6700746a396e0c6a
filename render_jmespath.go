// JMESPath: the query language of the json_query filter.
package main

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

func jsonQueryFilter(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	expr, err := strArg(a[0], "expected string or bytes-like object, got ")
	if err != nil {
		return nil, err
	}
	return JMESQuery(expr, v)
}

// JMESQuery runs a query over a value.
func JMESQuery(expr string, v any) (any, error) {
	p := &jmesParser{src: expr}
	if err := p.lex(); err != nil {
		return nil, err
	}
	node, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	if p.tok().kind != "eof" {
		return nil, p.unexpected()
	}
	return node.eval(v, 0)
}

type jmesToken struct {
	kind  string
	text  string
	value any
	at    int
}

type jmesParser struct {
	src   string
	toks  []jmesToken
	i     int
	depth int
}

func jmesError(format string, args ...any) error {
	return jinjaErr("jmespath.exceptions.ParseError", format, args...)
}

func (p *jmesParser) tok() jmesToken { return p.toks[p.i] }

func (p *jmesParser) unexpected() error {
	t := p.tok()
	if t.kind == "eof" {
		return jinjaErr("jmespath.exceptions.IncompleteExpressionError", "Invalid jmespath expression: Incomplete expression:\n%s\n%s^",
			Repr(p.src), strings.Repeat(" ", t.at+1))
	}
	return jmesError("Invalid token: Parse error at column %d, token %s (%s), for expression:\n%s\n%s^",
		t.at, Repr(t.text), strings.ToUpper(t.kind), Repr(p.src), strings.Repeat(" ", t.at+1))
}

func (p *jmesParser) lex() error {
	s := p.src
	add := func(kind, text string, value any, at int) {
		p.toks = append(p.toks, jmesToken{kind, text, value, at})
	}
	for i := 0; i < len(s); {
		c := s[i]
		two := ""
		if i+1 < len(s) {
			two = s[i : i+2]
		}
		switch {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			i++
		case c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			n := i
			for n < len(s) && (s[n] == '_' || s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' && s[n] <= 'Z' || s[n] >= '0' && s[n] <= '9') {
				n++
			}
			add("unquoted_identifier", s[i:n], s[i:n], i)
			i = n
		case c >= '0' && c <= '9' || c == '-' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9':
			n := i + 1
			for n < len(s) && s[n] >= '0' && s[n] <= '9' {
				n++
			}
			v, err := strconv.ParseInt(s[i:n], 10, 64)
			if err != nil {
				return jmesError("the number %s is too large", s[i:n])
			}
			add("number", s[i:n], v, i)
			i = n
		case two == "[?" || two == "[]" || two == "&&" || two == "||" || two == "!=" || two == "<=" || two == ">=" || two == "==":
			add(two, two, two, i)
			i += 2
		case strings.IndexByte(".*@[]{}(),:&|!<>", c) >= 0:
			add(string(c), string(c), string(c), i)
			i++
		case c == '"' || c == '\'' || c == '`':
			n := i + 1
			for n < len(s) && s[n] != c {
				if s[n] == '\\' {
					n++
				}
				n++
			}
			if n >= len(s) {
				return jinjaErr("jmespath.exceptions.LexerError", "Bad jmespath expression: Unclosed %c delimiter:\n%s\n%s^", c, s, strings.Repeat(" ", i))
			}
			body := s[i+1 : n]
			switch c {
			case '"':
				v, err := DecodeJSON([]byte(s[i : n+1]))
				if err != nil {
					return jinjaErr("jmespath.exceptions.LexerError", "Bad jmespath expression: %s:\n%s\n%s^", err, s, strings.Repeat(" ", i))
				}
				add("quoted_identifier", s[i:n+1], v, i)
			case '\'':
				add("literal", s[i:n+1], strings.ReplaceAll(body, `\'`, `'`), i)
			default:
				body = strings.TrimLeft(strings.ReplaceAll(body, "\\`", "`"), " \t\n\r")
				v, err := DecodeJSON([]byte(body))
				if err != nil {
					if v, err = DecodeJSON([]byte(`"` + body + `"`)); err != nil {
						return jinjaErr("jmespath.exceptions.LexerError", "Bad jmespath expression: Bad token %%s `%s`:\n%s\n%s^", body, s, strings.Repeat(" ", i))
					}
				}
				add("literal", s[i:n+1], v, i)
			}
			i = n + 1
		default:
			r, _ := utf8.DecodeRuneInString(s[i:])
			return jinjaErr("jmespath.exceptions.LexerError", "Bad jmespath expression: Unknown token %s:\n%s\n%s^", string(r), s, strings.Repeat(" ", i))
		}
	}
	add("eof", "", "", len(s))
	return nil
}

// jmesNode is one part of a query.
type jmesNode struct {
	kind  string
	value any
	kids  []*jmesNode
	keys  []string
	slice [3]*int64
}

func jmesPower(kind string) int {
	switch kind {
	case "|":
		return 1
	case "||":
		return 2
	case "&&":
		return 3
	case "==", "!=", "<", ">", "<=", ">=":
		return 5
	case "[]":
		return 9
	case "*":
		return 20
	case "[?":
		return 21
	case ".":
		return 40
	case "!":
		return 45
	case "{":
		return 50
	case "[":
		return 55
	case "(":
		return 60
	}
	return 0
}

func (p *jmesParser) expect(kind string) error {
	if p.tok().kind != kind {
		return p.unexpected()
	}
	p.i++
	return nil
}

func (p *jmesParser) expression(power int) (*jmesNode, error) {
	if p.depth++; p.depth > 200 {
		return nil, jmesError("the query is nested too deeply")
	}
	defer func() { p.depth-- }()
	left, err := p.prefix()
	for err == nil && power < jmesPower(p.tok().kind) {
		left, err = p.infix(left)
	}
	return left, err
}

func jmesSelf() *jmesNode { return &jmesNode{kind: "identity"} }

func (p *jmesParser) prefix() (*jmesNode, error) {
	t := p.tok()
	p.i++
	switch t.kind {
	case "literal":
		return &jmesNode{kind: "literal", value: t.value}, nil
	case "unquoted_identifier":
		return &jmesNode{kind: "field", value: t.value}, nil
	case "quoted_identifier":
		if p.tok().kind == "(" {
			return nil, p.unexpected()
		}
		return &jmesNode{kind: "field", value: t.value}, nil
	case "*":
		return p.projection("values", jmesSelf(), 20)
	case "[?":
		return p.filter(jmesSelf())
	case "{":
		return p.hash()
	case "(":
		e, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		return e, p.expect(")")
	case "[]":
		return p.projection("list", &jmesNode{kind: "flatten", kids: []*jmesNode{jmesSelf()}}, 9)
	case "!":
		e, err := p.expression(45)
		return &jmesNode{kind: "not", kids: []*jmesNode{e}}, err
	case "[":
		switch k := p.tok().kind; {
		case k == "number" || k == ":":
			return p.index(jmesSelf())
		case k == "*" && p.toks[p.i+1].kind == "]":
			p.i += 2
			return p.projection("list", jmesSelf(), 20)
		}
		return p.multiList()
	case "@":
		return &jmesNode{kind: "identity"}, nil
	case "&":
		e, err := p.expression(0)
		return &jmesNode{kind: "expref", kids: []*jmesNode{e}}, err
	}
	p.i--
	return nil, p.unexpected()
}

func (p *jmesParser) infix(left *jmesNode) (*jmesNode, error) {
	t := p.tok()
	p.i++
	two := func(kind string, power int) (*jmesNode, error) {
		right, err := p.expression(power)
		return &jmesNode{kind: kind, value: t.kind, kids: []*jmesNode{left, right}}, err
	}
	switch t.kind {
	case ".":
		if p.tok().kind == "*" {
			p.i++
			return p.projection("values", left, 20)
		}
		right, err := p.dotRight(40)
		return &jmesNode{kind: "sub", kids: []*jmesNode{left, right}}, err
	case "|":
		return two("sub", 1)
	case "||":
		return two("or", 2)
	case "&&":
		return two("and", 3)
	case "==", "!=", "<", ">", "<=", ">=":
		return two("compare", 5)
	case "(":
		if left.kind != "field" {
			p.i--
			return nil, p.unexpected()
		}
		n := &jmesNode{kind: "call", value: left.value}
		for p.tok().kind != ")" {
			arg, err := p.expression(0)
			if err != nil {
				return nil, err
			}
			n.kids = append(n.kids, arg)
			if p.tok().kind != "," {
				break
			}
			p.i++
		}
		return n, p.expect(")")
	case "[?":
		return p.filter(left)
	case "[]":
		return p.projection("list", &jmesNode{kind: "flatten", kids: []*jmesNode{left}}, 9)
	case "[":
		switch k := p.tok().kind; {
		case k == "number" || k == ":":
			return p.index(left)
		case k == "*" && p.toks[p.i+1].kind == "]":
			p.i += 2
			return p.projection("list", left, 20)
		}
	}
	return nil, p.unexpected()
}

// index reads [n] or a slice.
func (p *jmesParser) index(left *jmesNode) (*jmesNode, error) {
	if p.tok().kind == "number" && p.toks[p.i+1].kind == "]" {
		n := &jmesNode{kind: "index", value: p.tok().value}
		p.i += 2
		return &jmesNode{kind: "sub", kids: []*jmesNode{left, n}}, nil
	}
	n := &jmesNode{kind: "slice"}
	part := 0
	for p.tok().kind != "]" {
		switch t := p.tok(); t.kind {
		case ":":
			if part++; part > 2 {
				return nil, p.unexpected()
			}
		case "number":
			v := t.value.(int64)
			n.slice[part] = &v
		default:
			return nil, p.unexpected()
		}
		p.i++
	}
	p.i++
	return p.projection("list", &jmesNode{kind: "sub", kids: []*jmesNode{left, n}}, 20)
}

func (p *jmesParser) projection(kind string, left *jmesNode, power int) (*jmesNode, error) {
	right, err := p.projectionRight(power)
	return &jmesNode{kind: "project_" + kind, kids: []*jmesNode{left, right}}, err
}

func (p *jmesParser) filter(left *jmesNode) (*jmesNode, error) {
	cond, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	if err := p.expect("]"); err != nil {
		return nil, err
	}
	right := jmesSelf()
	if p.tok().kind != "[]" {
		if right, err = p.projectionRight(21); err != nil {
			return nil, err
		}
	}
	return &jmesNode{kind: "filter", kids: []*jmesNode{left, right, cond}}, nil
}

func (p *jmesParser) projectionRight(power int) (*jmesNode, error) {
	switch k := p.tok().kind; {
	case jmesPower(k) < 10:
		return jmesSelf(), nil
	case k == "[" || k == "[?":
		return p.expression(power)
	case k == ".":
		p.i++
		return p.dotRight(power)
	}
	return nil, p.unexpected()
}

func (p *jmesParser) dotRight(power int) (*jmesNode, error) {
	switch p.tok().kind {
	case "unquoted_identifier", "quoted_identifier", "*":
		return p.expression(power)
	case "[":
		p.i++
		return p.multiList()
	case "{":
		p.i++
		return p.hash()
	}
	return nil, p.unexpected()
}

func (p *jmesParser) multiList() (*jmesNode, error) {
	n := &jmesNode{kind: "list"}
	for {
		e, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		n.kids = append(n.kids, e)
		if p.tok().kind != "," {
			return n, p.expect("]")
		}
		p.i++
	}
}

func (p *jmesParser) hash() (*jmesNode, error) {
	n := &jmesNode{kind: "hash"}
	for {
		t := p.tok()
		if t.kind != "unquoted_identifier" && t.kind != "quoted_identifier" {
			return nil, p.unexpected()
		}
		p.i++
		if err := p.expect(":"); err != nil {
			return nil, err
		}
		e, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		n.keys = append(n.keys, Str(t.value))
		n.kids = append(n.kids, e)
		if p.tok().kind != "," {
			return n, p.expect("}")
		}
		p.i++
	}
}

// jmesFalse is what the language takes as false.
func jmesFalse(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case *List:
		return v.Len() == 0
	case *Map:
		return v.Len() == 0
	}
	return false
}

// jmesItems are the items of a list.
func jmesItems(v any) ([]any, bool) {
	switch v := v.(type) {
	case *List:
		return v.Items, true
	case Tuple:
		return v, true
	}
	return nil, false
}

func (n *jmesNode) eval(v any, depth int) (any, error) {
	if depth > maxReprDepth*3 {
		return nil, jinjaErr("RecursionError", "maximum recursion depth exceeded")
	}
	kid := func(i int, v any) (any, error) { return n.kids[i].eval(v, depth+1) }
	project := func(items []any, right *jmesNode, cond *jmesNode) (any, error) {
		out := &List{}
		for _, item := range items {
			if cond != nil {
				ok, err := cond.eval(item, depth+1)
				if err != nil {
					return nil, err
				}
				if jmesFalse(ok) {
					continue
				}
			}
			x, err := right.eval(item, depth+1)
			if err != nil {
				return nil, err
			}
			if x != nil {
				out.Append(x)
			}
		}
		return out, nil
	}
	switch n.kind {
	case "identity":
		return v, nil
	case "literal":
		return n.value, nil
	case "field":
		if m, ok := v.(*Map); ok {
			return m.Value(n.value), nil
		}
		return nil, nil
	case "index":
		items, _ := jmesItems(v)
		i := n.value.(int64)
		if i < 0 {
			i += int64(len(items))
		}
		if i < 0 || i >= int64(len(items)) {
			return nil, nil
		}
		return items[i], nil
	case "sub":
		left, err := kid(0, v)
		if err != nil {
			return nil, err
		}
		return kid(1, left)
	case "or", "and":
		left, err := kid(0, v)
		if err != nil || jmesFalse(left) == (n.kind == "and") {
			return left, err
		}
		return kid(1, v)
	case "not":
		x, err := kid(0, v)
		return jmesFalse(x), err
	case "compare":
		a, err := kid(0, v)
		if err != nil {
			return nil, err
		}
		b, err := kid(1, v)
		if err != nil {
			return nil, err
		}
		return jmesCompare(n.value.(string), a, b), nil
	case "slice":
		items, ok := jmesItems(v)
		if !ok {
			return nil, nil
		}
		return n.cut(items)
	case "flatten":
		x, err := kid(0, v)
		if err != nil {
			return nil, err
		}
		items, ok := jmesItems(x)
		if !ok {
			return nil, nil
		}
		out := &List{}
		for _, item := range items {
			if inner, ok := jmesItems(item); ok {
				out.Append(inner...)
			} else {
				out.Append(item)
			}
		}
		return out, nil
	case "project_list", "filter":
		x, err := kid(0, v)
		if err != nil {
			return nil, err
		}
		items, ok := jmesItems(x)
		if !ok {
			return nil, nil
		}
		if n.kind == "filter" {
			return project(items, n.kids[1], n.kids[2])
		}
		return project(items, n.kids[1], nil)
	case "project_values":
		x, err := kid(0, v)
		if err != nil {
			return nil, err
		}
		m, ok := x.(*Map)
		if !ok {
			return nil, nil
		}
		return project((&jinjaView{m, 'v'}).items(), n.kids[1], nil)
	case "list":
		if v == nil {
			return nil, nil
		}
		out := &List{}
		for i := range n.kids {
			x, err := kid(i, v)
			if err != nil {
				return nil, err
			}
			out.Append(x)
		}
		return out, nil
	case "hash":
		if v == nil {
			return nil, nil
		}
		out := &Map{}
		for i, k := range n.keys {
			x, err := kid(i, v)
			if err != nil {
				return nil, err
			}
			out.Set(k, x)
		}
		return out, nil
	case "call":
		return n.call(v, depth)
	}
	return nil, nil
}

func (n *jmesNode) cut(items []any) (any, error) {
	step := int64(1)
	if n.slice[2] != nil {
		if step = *n.slice[2]; step == 0 {
			return nil, jinjaValueError("slice step cannot be zero")
		}
	}
	length := int64(len(items))
	clamp := func(p *int64, def int64) int64 {
		if p == nil {
			return def
		}
		i := *p
		if i < 0 {
			i += length
		}
		if step < 0 {
			return max(-1, min(i, length-1))
		}
		return max(0, min(i, length))
	}
	start, stop := clamp(n.slice[0], 0), clamp(n.slice[1], length)
	if step < 0 {
		start, stop = clamp(n.slice[0], length-1), clamp(n.slice[1], -1)
	}
	g := jinjaRange{start, stop, step}
	out := &List{}
	for i := range g.len() {
		out.Append(items[g.at(i)])
	}
	return out, nil
}

func jmesCompare(op string, a, b any) any {
	equal := func() bool {
		_, ab := a.(bool)
		_, bb := b.(bool)
		return ab == bb && Equal(a, b)
	}
	switch op {
	case "==":
		return equal()
	case "!=":
		return !equal()
	}
	_, ab := a.(bool)
	_, bb := b.(bool)
	_, as := a.(string)
	_, bs := b.(string)
	if ab || bb || !(isNumber(a) && isNumber(b) || as && bs) {
		return nil
	}
	c, _ := Compare(a, b)
	return ordered(map[string]string{"<": "lt", "<=": "lteq", ">": "gt", ">=": "gteq"}[op], c)
}

func jmesType(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case *List, Tuple:
		return "array"
	case *Map:
		return "object"
	}
	if isNumber(v) {
		return "number"
	}
	return TypeName(v)
}
