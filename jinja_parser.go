// The parser of the template engine: tokens to statements. Expressions are in
// jinja_parser_expr.go. The grammar and the words of its errors are those of
// Jinja 3.1.
package main

import (
	"fmt"
	"strings"
)

// jinjaParser reads one template. Tags of a program (JinjaEnv.Tags) get it and
// parse their own rest with its methods.
type jinjaParser struct {
	env      *JinjaEnv
	name     string
	lex      *jinjaLexer
	cur      jinjaToken
	ahead    []jinjaToken
	tags     []string
	ends     [][]string
	depth    int
	freeName int
}

// maxJinjaNesting bounds the nesting of expressions and blocks in a source.
const maxJinjaNesting = 250

// jinjaBail carries an error up through the recursive descent.
type jinjaBail struct{ err error }

func parseJinja(env *JinjaEnv, source, name string) (body []jinjaStmt, err error) {
	p := &jinjaParser{env: env, name: name, lex: newJinjaLexer(source, name, &env.Syntax)}
	defer func() {
		if r := recover(); r != nil {
			bail, ok := r.(jinjaBail)
			if !ok {
				panic(r)
			}
			body, err = nil, bail.err
		}
	}()
	p.cur = jinjaToken{kind: "initial", line: 1}
	p.next()
	return p.subparse(nil), nil
}

func (p *jinjaParser) failClass(class, message string, line int) {
	panic(jinjaBail{&JinjaError{Class: class, Message: message, Line: line, Template: p.name}})
}

func (p *jinjaParser) failAt(line int, format string, args ...any) {
	p.failClass(jinjaSyntaxErrorClass, fmt.Sprintf(format, args...), line)
}

func (p *jinjaParser) fail(format string, args ...any) { p.failAt(p.cur.line, format, args...) }

func (p *jinjaParser) enter() {
	if p.depth++; p.depth > maxJinjaNesting {
		p.fail("the template is nested too deeply")
	}
}

func (p *jinjaParser) leave() { p.depth-- }

func (p *jinjaParser) read() jinjaToken {
	t, err := p.lex.next()
	if err != nil {
		panic(jinjaBail{err})
	}
	return t
}

// next moves on by one token and returns the old one.
func (p *jinjaParser) next() jinjaToken {
	old := p.cur
	if len(p.ahead) > 0 {
		p.cur = p.ahead[0]
		p.ahead = p.ahead[1:]
	} else if p.cur.kind != "eof" {
		p.cur = p.read()
	}
	return old
}

func (p *jinjaParser) look() jinjaToken {
	if len(p.ahead) == 0 {
		p.ahead = append(p.ahead, p.read())
	}
	return p.ahead[0]
}

// is tests the current token against "kind" or "name:value".
func (p *jinjaParser) is(expr string) bool { return p.cur.is(expr) }

func (t jinjaToken) is(expr string) bool {
	if kind, value, ok := strings.Cut(expr, ":"); ok {
		return t.kind == kind && t.value == value
	}
	return t.kind == expr
}

func (p *jinjaParser) isAny(exprs []string) bool {
	for _, e := range exprs {
		if p.is(e) {
			return true
		}
	}
	return false
}

func (p *jinjaParser) skipIf(expr string) bool {
	if p.is(expr) {
		p.next()
		return true
	}
	return false
}

func (p *jinjaParser) expect(expr string) jinjaToken {
	if p.is(expr) {
		return p.next()
	}
	want := describeJinjaExpr(expr)
	if p.cur.kind == "eof" {
		p.fail("unexpected end of template, expected %s.", Repr(want))
	}
	p.fail("expected token %s, got %s", Repr(want), Repr(describeJinjaToken(p.cur)))
	return jinjaToken{}
}

// free makes a name that no template can use.
func (p *jinjaParser) free() string {
	p.freeName++
	return fmt.Sprintf("\x00fi%d", p.freeName)
}

// failUnknown complains about an unknown tag, or about the end of the template
// when tag is "".
func (p *jinjaParser) failUnknown(tag string, ends [][]string, line int) {
	var looking []string
	expected := false
	for i, exprs := range ends {
		for _, e := range exprs {
			d := describeJinjaExpr(e)
			expected = expected || d == tag
			if i == len(ends)-1 {
				looking = append(looking, Repr(d))
			}
		}
	}
	message := "Unexpected end of template."
	if tag != "" {
		message = "Encountered unknown tag " + Repr(tag) + "."
	}
	if len(looking) > 0 {
		list := strings.Join(looking, " or ")
		if tag != "" && expected {
			message += " You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for " + list + "."
		} else {
			message += " Jinja was looking for the following tags: " + list + "."
		}
	}
	if len(p.tags) > 0 {
		message += " The innermost block that needs to be closed is " + Repr(p.tags[len(p.tags)-1]) + "."
	}
	p.failAt(line, "%s", message)
}

// subparse reads statements up to one of the end tags (which stays current), or
// to the end of the template.
func (p *jinjaParser) subparse(ends []string) (body []jinjaStmt) {
	p.enter()
	defer p.leave()
	if ends != nil {
		p.ends = append(p.ends, ends)
		defer func() { p.ends = p.ends[:len(p.ends)-1] }()
	}
	var out *jOutput
	flush := func() {
		if out != nil {
			body = append(body, out)
			out = nil
		}
	}
	add := func(e jinjaExpr, line int) {
		if out == nil {
			out = &jOutput{jinjaPos: jinjaPos(line)}
		}
		out.parts = append(out.parts, e)
	}
	for p.cur.kind != "eof" {
		switch p.cur.kind {
		case "data":
			if p.cur.value != "" {
				add(&jData{jinjaPos(p.cur.line), p.cur.value}, p.cur.line)
			}
			p.next()
		case "variable_begin":
			p.next()
			e := p.parseTuple(true, nil, false)
			add(e, e.at())
			p.expect("variable_end")
		case "block_begin":
			flush()
			p.next()
			if ends != nil && p.isAny(ends) {
				return body
			}
			body = append(body, p.statement())
			p.expect("block_end")
		default:
			p.fail("internal parsing error at %s", p.cur.kind)
		}
	}
	flush()
	return body
}

// statements reads the body of a block tag. With drop the end tag's name is
// passed as well.
func (p *jinjaParser) statements(ends []string, drop bool) []jinjaStmt {
	p.skipIf("colon")
	p.expect("block_end")
	body := p.subparse(ends)
	if p.cur.kind == "eof" {
		p.failUnknown("", append(append([][]string{}, p.ends...), ends), p.cur.line)
	}
	if drop {
		p.next()
	}
	return body
}

func (p *jinjaParser) statement() jinjaStmt {
	tok := p.cur
	if tok.kind != "name" {
		p.failAt(tok.line, "tag name expected")
	}
	var parse func() jinjaStmt
	switch tok.value {
	case "for":
		parse = p.parseFor
	case "if":
		parse = p.parseIf
	case "block":
		parse = p.parseBlock
	case "extends":
		parse = p.parseExtends
	case "print":
		parse = p.parsePrint
	case "macro":
		parse = p.parseMacro
	case "include":
		parse = p.parseInclude
	case "from":
		parse = p.parseFrom
	case "import":
		parse = func() jinjaStmt { return p.parseImport() }
	case "set":
		parse = p.parseSet
	case "with":
		parse = p.parseWith
	case "autoescape":
		parse = p.parseAutoescape
	case "call":
		parse = p.parseCallBlock
	case "filter":
		parse = p.parseFilterBlock
	default:
		tag := p.env.Tags[tok.value]
		if tag == nil {
			p.failUnknown(tok.value, p.ends, tok.line)
		}
		parse = func() jinjaStmt { return tag(p) }
	}
	p.tags = append(p.tags, tok.value)
	s := parse()
	p.tags = p.tags[:len(p.tags)-1]
	return s
}

func (p *jinjaParser) pos() jinjaPos { return jinjaPos(p.cur.line) }

// begin passes the tag's own name and returns its position.
func (p *jinjaParser) begin() jinjaPos { return jinjaPos(p.next().line) }

func (p *jinjaParser) parseSet() jinjaStmt {
	pos := p.begin()
	target := p.assignTarget(nil, true)
	if p.skipIf("assign") {
		return &jSet{pos, target, p.parseTuple(true, nil, false)}
	}
	filter := p.parseFilter(nil, false)
	body := p.statements([]string{"name:endset"}, true)
	return &jSetBlock{pos, target, filter, body}
}

func (p *jinjaParser) parseFor() jinjaStmt {
	n := &jFor{jinjaPos: p.begin()}
	n.target = p.assignTarget([]string{"name:in"}, false)
	p.expect("name:in")
	n.iter = p.parseTuple(false, []string{"name:recursive"}, false)
	if p.skipIf("name:if") {
		n.test = p.parseExpression(true)
	}
	n.recursive = p.skipIf("name:recursive")
	n.body = p.statements([]string{"name:endfor", "name:else"}, false)
	if p.next().value != "endfor" {
		n.orElse = p.statements([]string{"name:endfor"}, true)
	}
	n.usesLoop = n.recursive || jinjaUses(n.body, "loop")
	return n
}

func (p *jinjaParser) parseIf() jinjaStmt {
	n := &jIf{jinjaPos: p.begin()}
	for {
		n.tests = append(n.tests, p.parseTuple(false, nil, false))
		n.bodies = append(n.bodies, p.statements([]string{"name:elif", "name:else", "name:endif"}, false))
		switch p.next().value {
		case "elif":
			continue
		case "else":
			n.orElse = p.statements([]string{"name:endif"}, true)
		}
		return n
	}
}

func (p *jinjaParser) parseWith() jinjaStmt {
	n := &jWith{jinjaPos: p.begin()}
	for p.cur.kind != "block_end" {
		if len(n.targets) > 0 {
			p.expect("comma")
		}
		n.targets = append(n.targets, p.assignTarget(nil, false))
		p.expect("assign")
		n.values = append(n.values, p.parseExpression(true))
	}
	n.body = p.statements([]string{"name:endwith"}, true)
	return n
}

func (p *jinjaParser) parseAutoescape() jinjaStmt {
	n := &jAutoescape{jinjaPos: p.begin()}
	n.value = p.parseExpression(true)
	n.body = p.statements([]string{"name:endautoescape"}, true)
	return n
}

func (p *jinjaParser) parseBlock() jinjaStmt {
	n := &jBlock{jinjaPos: p.begin()}
	n.name = p.expect("name").value
	n.scoped = p.skipIf("name:scoped")
	n.required = p.skipIf("name:required")
	if p.cur.kind == "sub" {
		p.fail("Block names in Jinja have to be valid Python identifiers and may not contain hyphens, use an underscore instead.")
	}
	n.body = p.statements([]string{"name:endblock"}, true)
	if n.required {
		for _, s := range n.body {
			out, ok := s.(*jOutput)
			if ok {
				for _, part := range out.parts {
					data, isData := part.(*jData)
					ok = ok && isData && strings.TrimFunc(data.text, isPythonSpace) == ""
				}
			}
			if !ok {
				p.fail("Required blocks can only contain comments or whitespace")
			}
		}
	}
	p.skipIf("name:" + n.name)
	return n
}

func (p *jinjaParser) parseExtends() jinjaStmt {
	pos := p.begin()
	return &jExtends{pos, p.parseExpression(true)}
}

func (p *jinjaParser) importContext(def bool) bool {
	if (p.is("name:with") || p.is("name:without")) && p.look().is("name:context") {
		with := p.next().value == "with"
		p.next()
		return with
	}
	return def
}

func (p *jinjaParser) parseInclude() jinjaStmt {
	n := &jInclude{jinjaPos: p.begin()}
	n.template = p.parseExpression(true)
	if p.is("name:ignore") && p.look().is("name:missing") {
		n.ignoreMissing = true
		p.next()
		p.next()
	}
	n.withContext = p.importContext(true)
	return n
}

func (p *jinjaParser) parseImport() *jImport {
	n := &jImport{jinjaPos: p.begin()}
	n.template = p.parseExpression(true)
	p.expect("name:as")
	n.target = p.assignName().name
	n.withContext = p.importContext(false)
	return n
}

func (p *jinjaParser) parseFrom() jinjaStmt {
	n := &jFromImport{jinjaPos: p.begin()}
	n.template = p.parseExpression(true)
	p.expect("name:import")
	context := func() bool {
		if (p.cur.value == "with" || p.cur.value == "without") && p.look().is("name:context") {
			n.withContext = p.next().value == "with"
			p.next()
			return true
		}
		return false
	}
	for {
		if len(n.names) > 0 {
			p.expect("comma")
		}
		if p.cur.kind != "name" {
			p.expect("name")
		}
		if context() {
			break
		}
		target := p.assignName()
		if strings.HasPrefix(target.name, "_") {
			p.failClass(jinjaAssertionClass, "names starting with an underline can not be imported", target.at())
		}
		alias := target.name
		if p.skipIf("name:as") {
			alias = p.assignName().name
		}
		n.names = append(n.names, [2]string{target.name, alias})
		if context() || p.cur.kind != "comma" {
			break
		}
	}
	return n
}

func (p *jinjaParser) signature(m *jMacro) {
	p.expect("lparen")
	for p.cur.kind != "rparen" {
		if len(m.args) > 0 {
			p.expect("comma")
		}
		arg := p.assignName().name
		if p.skipIf("assign") {
			m.defaults = append(m.defaults, p.parseExpression(true))
		} else if len(m.defaults) > 0 {
			p.fail("non-default argument follows default argument")
		}
		m.args = append(m.args, arg)
	}
	p.expect("rparen")
}

// finishMacro finds which special names the body uses.
func finishMacro(m *jMacro) {
	m.varargs = jinjaUses(m.body, "varargs")
	m.kwargs = jinjaUses(m.body, "kwargs")
	m.caller = jinjaUses(m.body, "caller")
}

func (p *jinjaParser) parseMacro() jinjaStmt {
	m := &jMacro{jinjaPos: p.begin()}
	m.name = p.assignName().name
	p.signature(m)
	m.body = p.statements([]string{"name:endmacro"}, true)
	finishMacro(m)
	return m
}

func (p *jinjaParser) parseCallBlock() jinjaStmt {
	pos := p.begin()
	m := &jMacro{jinjaPos: pos, name: "caller", anonymous: true}
	if p.cur.kind == "lparen" {
		p.signature(m)
	}
	call, ok := p.parseExpression(true).(*jCall)
	if !ok {
		p.failAt(pos.at(), "expected call")
	}
	m.body = p.statements([]string{"name:endcall"}, true)
	finishMacro(m)
	return &jCallBlock{pos, call, m}
}

func (p *jinjaParser) parseFilterBlock() jinjaStmt {
	n := &jFilterBlock{jinjaPos: p.begin()}
	n.filter = p.parseFilter(nil, true).(*jFilter)
	n.body = p.statements([]string{"name:endfilter"}, true)
	return n
}

func (p *jinjaParser) parsePrint() jinjaStmt {
	n := &jOutput{jinjaPos: p.begin()}
	for p.cur.kind != "block_end" {
		if len(n.parts) > 0 {
			p.expect("comma")
		}
		n.parts = append(n.parts, p.parseExpression(true))
	}
	return n
}

func (p *jinjaParser) assignName() *jName {
	t := p.expect("name")
	n := &jName{jinjaPos(t.line), t.value}
	p.checkTarget(n)
	return n
}

// assignTarget reads what can be assigned to: names, tuples of them, and with
// namespace also ns.attr.
func (p *jinjaParser) assignTarget(ends []string, namespace bool) jinjaExpr {
	target := p.parseTupleOf(func() jinjaExpr { return p.parsePrimary(namespace) }, ends, false)
	p.checkTarget(target)
	return target
}

func (p *jinjaParser) checkTarget(target jinjaExpr) {
	if !canAssignJinja(target) {
		p.failAt(target.at(), "can't assign to %s", Repr(jinjaNodeName(target)))
	}
}

func canAssignJinja(e jinjaExpr) bool {
	switch n := e.(type) {
	case *jName:
		switch n.name {
		case "true", "false", "none", "True", "False", "None":
			return false
		}
		return true
	case *jNSRef:
		return true
	case *jTuple:
		for _, item := range n.items {
			if !canAssignJinja(item) {
				return false
			}
		}
		return true
	}
	return false
}

func jinjaNodeName(e jinjaExpr) string {
	switch e.(type) {
	case *jConst:
		return "const"
	case *jTuple:
		return "tuple"
	case *jList:
		return "list"
	case *jDict:
		return "dict"
	case *jName:
		return "name"
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", e), "*main.j"))
}
