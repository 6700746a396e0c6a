// The syntax tree of a template. Every node knows its line and how to run
// itself (jinja_exec.go, jinja_eval.go); a tree is never changed after it was
// checked, so one tree may run in several goroutines at a time.
package main

// jinjaExpr is an expression.
type jinjaExpr interface {
	at() int
	eval(r *JinjaRun) (any, error)
}

// jinjaStmt is a statement.
type jinjaStmt interface {
	at() int
	exec(r *JinjaRun) error
}

type jinjaPos int

func (p jinjaPos) at() int { return int(p) }

type (
	jConst struct {
		jinjaPos
		value any
	}
	jName struct {
		jinjaPos
		name string
	}
	jNSRef struct { // ns.attr as the target of a set
		jinjaPos
		name, attr string
	}
	jTuple struct {
		jinjaPos
		items []jinjaExpr
	}
	jList struct {
		jinjaPos
		items []jinjaExpr
	}
	jDict struct {
		jinjaPos
		keys, values []jinjaExpr
	}
	jUnary struct { // - + not
		jinjaPos
		op   byte
		expr jinjaExpr
	}
	jBinary struct {
		jinjaPos
		op          string // + - * / // % **
		left, right jinjaExpr
	}
	jLogic struct { // and, or
		jinjaPos
		or          bool
		left, right jinjaExpr
	}
	jCompare struct {
		jinjaPos
		first jinjaExpr
		ops   []string // eq ne lt lteq gt gteq in notin
		rest  []jinjaExpr
	}
	jConcat struct {
		jinjaPos
		items []jinjaExpr
	}
	jCond struct {
		jinjaPos
		test, yes, no jinjaExpr // no may be nil
	}
	jAttr struct {
		jinjaPos
		obj  jinjaExpr
		name string
	}
	jItem struct {
		jinjaPos
		obj, key jinjaExpr
	}
	jSlice struct {
		jinjaPos
		start, stop, step jinjaExpr
	}
	jArgs struct {
		args     []jinjaExpr
		names    []string
		values   []jinjaExpr
		dynArgs  jinjaExpr
		dynNamed jinjaExpr
	}
	jCall struct {
		jinjaPos
		fn jinjaExpr
		jArgs
	}
	jFilter struct {
		jinjaPos
		obj   jinjaExpr // nil: the body of a block
		name  string
		entry *JinjaFilter // set by the checker; nil if there is none
		jArgs
	}
	jTest struct {
		jinjaPos
		obj   jinjaExpr
		name  string
		entry *JinjaFilter
		jArgs
	}
)

type (
	jOutput struct {
		jinjaPos
		parts []jinjaExpr // jData or expressions
	}
	jData struct {
		jinjaPos
		text string
	}
	jFor struct {
		jinjaPos
		target    jinjaExpr
		iter      jinjaExpr
		test      jinjaExpr
		body      []jinjaStmt
		orElse    []jinjaStmt
		recursive bool
		usesLoop  bool
	}
	jIf struct {
		jinjaPos
		tests  []jinjaExpr
		bodies [][]jinjaStmt
		orElse []jinjaStmt
	}
	jWith struct {
		jinjaPos
		targets, values []jinjaExpr
		body            []jinjaStmt
	}
	jAutoescape struct {
		jinjaPos
		value jinjaExpr
		body  []jinjaStmt
	}
	jBlock struct {
		jinjaPos
		name             string
		body             []jinjaStmt
		scoped, required bool
	}
	jExtends struct {
		jinjaPos
		template jinjaExpr
	}
	jInclude struct {
		jinjaPos
		template      jinjaExpr
		ignoreMissing bool
		withContext   bool
	}
	jImport struct {
		jinjaPos
		template    jinjaExpr
		target      string
		withContext bool
	}
	jFromImport struct {
		jinjaPos
		template    jinjaExpr
		names       [][2]string // name, alias
		withContext bool
	}
	jMacro struct {
		jinjaPos
		name      string
		args      []string
		defaults  []jinjaExpr
		body      []jinjaStmt
		varargs   bool // the body uses varargs, kwargs, caller
		kwargs    bool
		caller    bool
		anonymous bool // of a call block
	}
	jCallBlock struct {
		jinjaPos
		call  *jCall
		macro *jMacro
	}
	jFilterBlock struct {
		jinjaPos
		filter *jFilter
		body   []jinjaStmt
	}
	jSet struct {
		jinjaPos
		target, value jinjaExpr
	}
	jSetBlock struct {
		jinjaPos
		target jinjaExpr
		filter jinjaExpr // with a nil object at its root, or nil
		body   []jinjaStmt
	}
	jExprStmt struct {
		jinjaPos
		expr jinjaExpr
	}
	jBreak    struct{ jinjaPos }
	jContinue struct{ jinjaPos }
	// jBody is a list of statements that a tag expands to.
	jBody struct {
		jinjaPos
		body []jinjaStmt
	}
)

// jinjaChildren lists what stands directly below a node: expressions and lists
// of statements.
func jinjaChildren(node any) (exprs []jinjaExpr, bodies [][]jinjaStmt) {
	args := func(a *jArgs) {
		exprs = append(exprs, a.args...)
		exprs = append(exprs, a.values...)
		exprs = append(exprs, a.dynArgs, a.dynNamed)
	}
	switch n := node.(type) {
	case *jTuple:
		exprs = n.items
	case *jList:
		exprs = n.items
	case *jDict:
		for i := range n.keys {
			exprs = append(exprs, n.keys[i], n.values[i])
		}
	case *jUnary:
		exprs = []jinjaExpr{n.expr}
	case *jBinary:
		exprs = []jinjaExpr{n.left, n.right}
	case *jLogic:
		exprs = []jinjaExpr{n.left, n.right}
	case *jCompare:
		exprs = append([]jinjaExpr{n.first}, n.rest...)
	case *jConcat:
		exprs = n.items
	case *jCond:
		exprs = []jinjaExpr{n.test, n.yes, n.no}
	case *jAttr:
		exprs = []jinjaExpr{n.obj}
	case *jItem:
		exprs = []jinjaExpr{n.obj, n.key}
	case *jSlice:
		exprs = []jinjaExpr{n.start, n.stop, n.step}
	case *jCall:
		exprs = []jinjaExpr{n.fn}
		args(&n.jArgs)
	case *jFilter:
		exprs = []jinjaExpr{n.obj}
		args(&n.jArgs)
	case *jTest:
		exprs = []jinjaExpr{n.obj}
		args(&n.jArgs)
	case *jOutput:
		exprs = n.parts
	case *jFor:
		exprs = []jinjaExpr{n.target, n.iter, n.test}
		bodies = [][]jinjaStmt{n.body, n.orElse}
	case *jIf:
		exprs = n.tests
		bodies = append(append(bodies, n.bodies...), n.orElse)
	case *jWith:
		exprs = append(append(exprs, n.targets...), n.values...)
		bodies = [][]jinjaStmt{n.body}
	case *jAutoescape:
		exprs = []jinjaExpr{n.value}
		bodies = [][]jinjaStmt{n.body}
	case *jBlock:
		bodies = [][]jinjaStmt{n.body}
	case *jExtends:
		exprs = []jinjaExpr{n.template}
	case *jInclude:
		exprs = []jinjaExpr{n.template}
	case *jImport:
		exprs = []jinjaExpr{n.template}
	case *jFromImport:
		exprs = []jinjaExpr{n.template}
	case *jMacro:
		exprs = n.defaults
		bodies = [][]jinjaStmt{n.body}
	case *jCallBlock:
		exprs = append([]jinjaExpr{n.call}, n.macro.defaults...)
		bodies = [][]jinjaStmt{n.macro.body}
	case *jFilterBlock:
		exprs = []jinjaExpr{n.filter}
		bodies = [][]jinjaStmt{n.body}
	case *jSet:
		exprs = []jinjaExpr{n.target, n.value}
	case *jSetBlock:
		exprs = []jinjaExpr{n.target, n.filter}
		bodies = [][]jinjaStmt{n.body}
	case *jExprStmt:
		exprs = []jinjaExpr{n.expr}
	case *jBody:
		bodies = [][]jinjaStmt{n.body}
	}
	return exprs, bodies
}

// isNilJinjaExpr catches nil in its two forms.
func isNilJinjaExpr(e jinjaExpr) bool {
	switch n := e.(type) {
	case nil:
		return true
	case *jFilter:
		return n == nil
	case *jCall:
		return n == nil
	}
	return false
}

// jinjaUses says whether statements refer to a name.
func jinjaUses(body []jinjaStmt, name string) bool {
	var inExpr func(e jinjaExpr) bool
	inBody := func(b []jinjaStmt) bool { return jinjaUses(b, name) }
	inExpr = func(e jinjaExpr) bool {
		if isNilJinjaExpr(e) {
			return false
		}
		if n, ok := e.(*jName); ok {
			return n.name == name
		}
		exprs, _ := jinjaChildren(e)
		for _, c := range exprs {
			if inExpr(c) {
				return true
			}
		}
		return false
	}
	for _, s := range body {
		exprs, bodies := jinjaChildren(s)
		for _, e := range exprs {
			if inExpr(e) {
				return true
			}
		}
		for _, b := range bodies {
			if inBody(b) {
				return true
			}
		}
		if b, ok := s.(*jBlock); ok && b.scoped && name == "loop" {
			return true
		}
	}
	return false
}

// jinjaChecker finds what can be known to be wrong before a template runs.
type jinjaChecker struct {
	env    *JinjaEnv
	tmpl   *JinjaTemplate
	blocks map[string]*jBlock
}

func (c *jinjaChecker) fail(class, message string, line int) error {
	return &JinjaError{Class: class, Message: message, Line: line, Template: c.tmpl.Name}
}

// body checks statements. In soft places (the branches of an if) a filter that
// does not exist is an error only if it is reached. loop says whether break and
// continue have a loop around them.
func (c *jinjaChecker) body(body []jinjaStmt, soft, loop bool) error {
	for _, s := range body {
		if err := c.stmt(s, soft, loop); err != nil {
			return err
		}
	}
	return nil
}

func (c *jinjaChecker) stmt(s jinjaStmt, soft, loop bool) error {
	exprs, bodies := jinjaChildren(s)
	for _, e := range exprs {
		if err := c.expr(e, soft); err != nil {
			return err
		}
	}
	switch n := s.(type) {
	case *jBlock:
		if c.blocks[n.name] != nil {
			return c.fail(jinjaAssertionClass, "block "+Repr(n.name)+" defined twice", n.at())
		}
		c.blocks[n.name] = n
	case *jBreak:
		if !loop {
			return c.fail("SyntaxError", "'break' outside loop", n.at())
		}
	case *jContinue:
		if !loop {
			return c.fail("SyntaxError", "'continue' not properly in loop", n.at())
		}
	case *jFor:
		if err := c.body(n.body, false, true); err != nil {
			return err
		}
		return c.body(n.orElse, false, loop)
	case *jIf:
		for _, b := range append(append([][]jinjaStmt{}, n.bodies...), n.orElse) {
			if err := c.body(b, true, loop); err != nil {
				return err
			}
		}
		return nil
	case *jMacro, *jCallBlock:
		loop = false
	case *jBody:
		return c.body(n.body, soft, loop)
	}
	if _, isBlock := s.(*jBlock); isBlock {
		loop = false
	}
	for _, b := range bodies {
		if err := c.body(b, false, loop); err != nil {
			return err
		}
	}
	return nil
}

func (c *jinjaChecker) expr(e jinjaExpr, soft bool) error {
	if isNilJinjaExpr(e) {
		return nil
	}
	exprs, _ := jinjaChildren(e)
	if n, ok := e.(*jCond); ok {
		soft = true
		exprs = []jinjaExpr{n.test, n.yes, n.no}
	}
	for _, child := range exprs {
		if err := c.expr(child, soft); err != nil {
			return err
		}
	}
	switch n := e.(type) {
	case *jFilter:
		n.entry = c.env.Filters[n.name]
		if n.entry == nil && !soft {
			return c.fail(jinjaAssertionClass, "No filter named "+Repr(n.name)+".", n.at())
		}
	case *jTest:
		n.entry = c.env.Tests[n.name]
		if n.entry == nil && !soft {
			return c.fail(jinjaAssertionClass, "No test named "+Repr(n.name)+".", n.at())
		}
	}
	return nil
}
