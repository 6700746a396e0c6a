// Expressions of the template engine's parser, from the loosest binding
// operator to the tightest.
package main

import "strings"

func (p *jinjaParser) parseExpression(withCond bool) jinjaExpr {
	p.enter()
	defer p.leave()
	if withCond {
		return p.parseCond()
	}
	return p.parseOr()
}

func (p *jinjaParser) parseCond() jinjaExpr {
	pos := p.pos()
	e := p.parseOr()
	for p.skipIf("name:if") {
		test := p.parseOr()
		var no jinjaExpr
		if p.skipIf("name:else") {
			p.enter()
			no = p.parseCond()
			p.leave()
		}
		e = &jCond{pos, test, e, no}
		pos = p.pos()
	}
	return e
}

func (p *jinjaParser) parseOr() jinjaExpr {
	pos := p.pos()
	left := p.parseAnd()
	for p.skipIf("name:or") {
		left = &jLogic{pos, true, left, p.parseAnd()}
		pos = p.pos()
	}
	return left
}

func (p *jinjaParser) parseAnd() jinjaExpr {
	pos := p.pos()
	left := p.parseNot()
	for p.skipIf("name:and") {
		left = &jLogic{pos, false, left, p.parseNot()}
		pos = p.pos()
	}
	return left
}

func (p *jinjaParser) parseNot() jinjaExpr {
	if p.is("name:not") {
		p.enter()
		defer p.leave()
		pos := jinjaPos(p.next().line)
		return &jUnary{pos, '!', p.parseNot()}
	}
	return p.parseCompare()
}

func (p *jinjaParser) parseCompare() jinjaExpr {
	pos := p.pos()
	n := &jCompare{first: p.parseMath1()}
	for {
		op := p.cur.kind
		switch op {
		case "eq", "ne", "lt", "lteq", "gt", "gteq":
			p.next()
		default:
			if p.skipIf("name:in") {
				op = "in"
			} else if p.is("name:not") && p.look().is("name:in") {
				p.next()
				p.next()
				op = "notin"
			} else {
				if len(n.ops) == 0 {
					return n.first
				}
				n.jinjaPos = pos
				return n
			}
		}
		n.ops = append(n.ops, op)
		n.rest = append(n.rest, p.parseMath1())
		pos = p.pos()
	}
}

func (p *jinjaParser) parseMath1() jinjaExpr {
	pos := p.pos()
	left := p.parseConcat()
	for p.cur.kind == "add" || p.cur.kind == "sub" {
		op := p.next().value
		left = &jBinary{pos, op, left, p.parseConcat()}
		pos = p.pos()
	}
	return left
}

func (p *jinjaParser) parseConcat() jinjaExpr {
	pos := p.pos()
	items := []jinjaExpr{p.parseMath2()}
	for p.cur.kind == "tilde" {
		p.next()
		items = append(items, p.parseMath2())
	}
	if len(items) == 1 {
		return items[0]
	}
	return &jConcat{pos, items}
}

func (p *jinjaParser) parseMath2() jinjaExpr {
	pos := p.pos()
	left := p.parsePow()
	for {
		switch p.cur.kind {
		case "mul", "div", "floordiv", "mod":
			op := p.next().value
			left = &jBinary{pos, op, left, p.parsePow()}
			pos = p.pos()
			continue
		}
		return left
	}
}

func (p *jinjaParser) parsePow() jinjaExpr {
	pos := p.pos()
	left := p.parseUnary(true)
	for p.cur.kind == "pow" {
		p.next()
		left = &jBinary{pos, "**", left, p.parseUnary(true)}
		pos = p.pos()
	}
	return left
}

func (p *jinjaParser) parseUnary(withFilter bool) jinjaExpr {
	p.enter()
	defer p.leave()
	pos := p.pos()
	var e jinjaExpr
	switch p.cur.kind {
	case "sub":
		p.next()
		e = &jUnary{pos, '-', p.parseUnary(false)}
	case "add":
		p.next()
		e = &jUnary{pos, '+', p.parseUnary(false)}
	default:
		e = p.parsePrimary(false)
	}
	e = p.parsePostfix(e)
	if withFilter {
		e = p.parseFilterExpr(e)
	}
	return e
}

func (p *jinjaParser) parsePrimary(namespace bool) jinjaExpr {
	t := p.cur
	pos := jinjaPos(t.line)
	switch t.kind {
	case "name":
		p.next()
		switch t.value {
		case "true", "True":
			return &jConst{pos, true}
		case "false", "False":
			return &jConst{pos, false}
		case "none", "None":
			return &jConst{pos, nil}
		}
		if namespace && p.cur.kind == "dot" {
			p.next()
			return &jNSRef{pos, t.value, p.expect("name").value}
		}
		return &jName{pos, t.value}
	case "string":
		p.next()
		text := t.value
		if p.cur.kind == "string" {
			parts := []string{text}
			for p.cur.kind == "string" {
				parts = append(parts, p.next().value)
			}
			text = strings.Join(parts, "")
		}
		return &jConst{pos, text}
	case "integer", "float":
		p.next()
		return &jConst{pos, t.num}
	case "lparen":
		p.next()
		e := p.parseTuple(true, nil, true)
		p.expect("rparen")
		return e
	case "lbracket":
		p.next()
		n := &jList{jinjaPos: pos}
		for p.cur.kind != "rbracket" {
			if len(n.items) > 0 {
				p.expect("comma")
			}
			if p.cur.kind == "rbracket" {
				break
			}
			n.items = append(n.items, p.parseExpression(true))
		}
		p.expect("rbracket")
		return n
	case "lbrace":
		p.next()
		n := &jDict{jinjaPos: pos}
		for p.cur.kind != "rbrace" {
			if len(n.keys) > 0 {
				p.expect("comma")
			}
			if p.cur.kind == "rbrace" {
				break
			}
			key := p.parseExpression(true)
			p.expect("colon")
			n.keys = append(n.keys, key)
			n.values = append(n.values, p.parseExpression(true))
		}
		p.expect("rbrace")
		return n
	}
	p.failAt(t.line, "unexpected %s", Repr(describeJinjaToken(t)))
	return nil
}

func (p *jinjaParser) tupleEnd(ends []string) bool {
	switch p.cur.kind {
	case "variable_end", "block_end", "rparen":
		return true
	}
	return p.isAny(ends)
}

// parseTuple reads one expression, or several with commas as a tuple.
func (p *jinjaParser) parseTuple(withCond bool, ends []string, parens bool) jinjaExpr {
	return p.parseTupleOf(func() jinjaExpr { return p.parseExpression(withCond) }, ends, parens)
}

func (p *jinjaParser) parseTupleOf(item func() jinjaExpr, ends []string, parens bool) jinjaExpr {
	p.enter()
	defer p.leave()
	pos := p.pos()
	var items []jinjaExpr
	tuple := false
	for {
		if len(items) > 0 {
			p.expect("comma")
		}
		if p.tupleEnd(ends) {
			break
		}
		items = append(items, item())
		if p.cur.kind != "comma" {
			break
		}
		tuple = true
		pos = p.pos()
	}
	if !tuple {
		if len(items) > 0 {
			return items[0]
		}
		if !parens {
			p.fail("Expected an expression, got %s", Repr(describeJinjaToken(p.cur)))
		}
	}
	return &jTuple{pos, items}
}

func (p *jinjaParser) parsePostfix(e jinjaExpr) jinjaExpr {
	for {
		switch p.cur.kind {
		case "dot", "lbracket":
			e = p.parseSubscript(e)
		case "lparen":
			e = p.parseCall(e)
		default:
			return e
		}
	}
}

func (p *jinjaParser) parseFilterExpr(e jinjaExpr) jinjaExpr {
	for {
		switch {
		case p.cur.kind == "pipe":
			e = p.parseFilter(e, false)
		case p.is("name:is"):
			e = p.parseTest(e)
		case p.cur.kind == "lparen":
			e = p.parseCall(e)
		default:
			return e
		}
	}
}

func (p *jinjaParser) parseSubscript(e jinjaExpr) jinjaExpr {
	t := p.next()
	pos := jinjaPos(t.line)
	if t.kind == "dot" {
		attr := p.next()
		switch attr.kind {
		case "name":
			return &jAttr{pos, e, attr.value}
		case "integer":
			return &jItem{pos, e, &jConst{jinjaPos(attr.line), attr.num}}
		}
		p.failAt(attr.line, "expected name or number")
	}
	var args []jinjaExpr
	for p.cur.kind != "rbracket" {
		if len(args) > 0 {
			p.expect("comma")
		}
		args = append(args, p.parseSubscribed())
	}
	p.expect("rbracket")
	if len(args) == 1 {
		return &jItem{pos, e, args[0]}
	}
	return &jItem{pos, e, &jTuple{pos, args}}
}

func (p *jinjaParser) parseSubscribed() jinjaExpr {
	n := &jSlice{jinjaPos: p.pos()}
	if p.cur.kind == "colon" {
		p.next()
	} else {
		e := p.parseExpression(true)
		if p.cur.kind != "colon" {
			return e
		}
		p.next()
		n.start = e
	}
	ends := func() bool { return p.cur.kind == "rbracket" || p.cur.kind == "comma" }
	if p.cur.kind != "colon" && !ends() {
		n.stop = p.parseExpression(true)
	}
	if p.cur.kind == "colon" {
		p.next()
		if !ends() {
			n.step = p.parseExpression(true)
		}
	}
	return n
}

func (p *jinjaParser) parseCallArgs() jArgs {
	tok := p.expect("lparen")
	var a jArgs
	ensure := func(ok bool) {
		if !ok {
			p.failAt(tok.line, "invalid syntax for function call expression")
		}
	}
	comma := false
	for p.cur.kind != "rparen" {
		if comma {
			p.expect("comma")
			if p.cur.kind == "rparen" {
				break
			}
		}
		switch {
		case p.cur.kind == "mul":
			ensure(a.dynArgs == nil && a.dynNamed == nil)
			p.next()
			a.dynArgs = p.parseExpression(true)
		case p.cur.kind == "pow":
			ensure(a.dynNamed == nil)
			p.next()
			a.dynNamed = p.parseExpression(true)
		case p.cur.kind == "name" && p.look().kind == "assign":
			ensure(a.dynNamed == nil)
			a.names = append(a.names, p.next().value)
			p.next()
			a.values = append(a.values, p.parseExpression(true))
		default:
			ensure(a.dynArgs == nil && a.dynNamed == nil && len(a.names) == 0)
			a.args = append(a.args, p.parseExpression(true))
		}
		comma = true
	}
	p.expect("rparen")
	return a
}

func (p *jinjaParser) parseCall(fn jinjaExpr) jinjaExpr {
	pos := p.pos()
	return &jCall{pos, fn, p.parseCallArgs()}
}

func (p *jinjaParser) dottedName() jinjaToken {
	t := p.expect("name")
	for p.cur.kind == "dot" {
		p.next()
		t.value += "." + p.expect("name").value
	}
	return t
}

// parseFilter reads a chain of filters. e may be nil (a set block without a
// filter gives nil back); inline means that the first | is not written.
func (p *jinjaParser) parseFilter(e jinjaExpr, inline bool) jinjaExpr {
	for p.cur.kind == "pipe" || inline {
		if !inline {
			p.next()
		}
		inline = false
		t := p.dottedName()
		n := &jFilter{jinjaPos: jinjaPos(t.line), obj: e, name: t.value}
		if p.cur.kind == "lparen" {
			n.jArgs = p.parseCallArgs()
		}
		e = n
	}
	return e
}

func (p *jinjaParser) parseTest(e jinjaExpr) jinjaExpr {
	pos := jinjaPos(p.next().line)
	negated := p.skipIf("name:not")
	n := &jTest{jinjaPos: pos, obj: e, name: p.dottedName().value}
	switch p.cur.kind {
	case "lparen":
		n.jArgs = p.parseCallArgs()
	case "name", "string", "integer", "float", "lbracket", "lbrace":
		if p.is("name:else") || p.is("name:or") || p.is("name:and") {
			break
		}
		if p.is("name:is") {
			p.fail("You cannot chain multiple tests with is")
		}
		n.args = []jinjaExpr{p.parsePostfix(p.parsePrimary(false))}
	}
	if negated {
		return &jUnary{pos, '!', n}
	}
	return n
}
