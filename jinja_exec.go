// Running statements.
package main

import (
	"errors"
	"strconv"
	"strings"
)

// break and continue travel up to their loop as errors.
var (
	errJinjaBreak    = errors.New("'break' outside loop")
	errJinjaContinue = errors.New("'continue' not properly in loop")
)

func (r *JinjaRun) exec(body []jinjaStmt) error {
	for _, s := range body {
		r.line = s.at()
		if err := s.exec(r); err != nil {
			return err
		}
	}
	return nil
}

func (n *jOutput) exec(r *JinjaRun) error {
	if r.extended {
		return nil // a template that extends another prints only through blocks
	}
	for _, part := range n.parts {
		if d, ok := part.(*jData); ok {
			if err := r.write(d.text); err != nil {
				return err
			}
			continue
		}
		r.line = part.at()
		v, err := part.eval(r)
		if err != nil {
			return err
		}
		if err := r.print(v); err != nil {
			return err
		}
	}
	return nil
}

func (n *jData) eval(*JinjaRun) (any, error) { return n.text, nil }

// print writes a value as {{ }} does.
func (r *JinjaRun) print(v any) error {
	if r.Env.Finalize != nil {
		var err error
		if v, err = r.Env.Finalize(v); err != nil {
			return err
		}
	}
	switch v := v.(type) {
	case string:
		if r.autoescape {
			return r.write(escapeHTML(v))
		}
		return r.write(v)
	case int64:
		r.out = strconv.AppendInt(r.out, v, 10)
		return nil
	}
	text, err := r.str(v)
	if err != nil {
		return err
	}
	if _, safe := v.(Markup); r.autoescape && !safe {
		text = escapeHTML(text)
	}
	return r.write(text)
}

// str is str(v), an error for what is strictly undefined.
func (r *JinjaRun) str(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case *JinjaUndefined:
		if v.Kind == JinjaStrict || v.Class != "" {
			return "", v.fail()
		}
		return v.String(), nil
	}
	return Str(v), nil
}

// truth is bool(v), an error for what is strictly undefined.
func (r *JinjaRun) truth(v any) (bool, error) {
	switch v := v.(type) {
	case bool:
		return v, nil
	case *JinjaUndefined:
		if v.Kind == JinjaStrict {
			return false, v.fail()
		}
		return false, nil
	}
	return Truth(v), nil
}

func (n *jIf) exec(r *JinjaRun) error {
	for i, test := range n.tests {
		if i > 0 {
			r.line = test.at()
		}
		v, err := test.eval(r)
		if err != nil {
			return err
		}
		yes, err := r.truth(v)
		if err != nil {
			return err
		}
		if yes {
			return r.exec(n.bodies[i])
		}
	}
	return r.exec(n.orElse)
}

func (n *jSet) exec(r *JinjaRun) error {
	v, err := n.value.eval(r)
	if err != nil {
		return err
	}
	return r.assignTo(n.target, v)
}

// assignTo sets a name, an attribute of a namespace, or several of them.
func (r *JinjaRun) assignTo(target jinjaExpr, v any) error {
	switch t := target.(type) {
	case *jName:
		r.assign(t.name, v)
		return nil
	case *jNSRef:
		ns, _ := r.lookup(t.name)
		space, ok := ns.(*jinjaNamespace)
		if !ok {
			return jinjaErr(jinjaRuntimeClass, "cannot assign attribute on non-namespace object")
		}
		space.attrs.Set(t.attr, v)
		return nil
	case *jTuple:
		items, err := r.unpack(v, len(t.items))
		if err != nil {
			return err
		}
		for i, item := range t.items {
			if err := r.assignTo(item, items[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return jinjaErr(jinjaSyntaxErrorClass, "can't assign to %s", Repr(jinjaNodeName(target)))
}

// unpack takes exactly n items of v.
func (r *JinjaRun) unpack(v any, n int) ([]any, error) {
	var items []any
	switch v := v.(type) {
	case Tuple:
		items = v
	case *List:
		items = v.Items
	default:
		it, err := r.iter(v)
		if err != nil {
			if isJinjaClass(err, "TypeError") {
				return nil, jinjaTypeError("cannot unpack non-iterable %s object", TypeName(v))
			}
			return nil, err
		}
		for {
			item, ok, err := it.next()
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			items = append(items, item)
			if len(items) > n {
				break
			}
		}
	}
	switch {
	case len(items) > n:
		return nil, jinjaValueError("too many values to unpack (expected %d)", n)
	case len(items) < n:
		return nil, jinjaValueError("not enough values to unpack (expected %d, got %d)", n, len(items))
	}
	return items, nil
}

// inScope runs statements in a new scope.
func (r *JinjaRun) inScope(f func() error) error {
	outer := r.scope
	r.scope = &jinjaScope{parent: outer}
	err := f()
	r.scope = outer
	return err
}

func (n *jSetBlock) exec(r *JinjaRun) error {
	text, err := r.capture(func() error {
		return r.inScope(func() error { return r.exec(n.body) })
	})
	if err != nil {
		return err
	}
	v := r.safe(text)
	r.line = n.at()
	if n.filter != nil {
		if v, err = r.applyFilters(n.filter, v); err != nil {
			return err
		}
	}
	return r.assignTo(n.target, v)
}

// applyFilters runs a chain of filters whose innermost object is the value.
func (r *JinjaRun) applyFilters(e jinjaExpr, v any) (any, error) {
	f, ok := e.(*jFilter)
	if !ok {
		return v, nil
	}
	if f.obj != nil {
		var err error
		if v, err = r.applyFilters(f.obj, v); err != nil {
			return nil, err
		}
	}
	return f.apply(r, v)
}

func (n *jFilterBlock) exec(r *JinjaRun) error {
	text, err := r.capture(func() error {
		return r.inScope(func() error { return r.exec(n.body) })
	})
	if err != nil {
		return err
	}
	r.line = n.at()
	v, err := r.applyFilters(n.filter, r.safe(text))
	if err != nil || r.extended {
		return err
	}
	return r.print(v)
}

func (n *jWith) exec(r *JinjaRun) error {
	values := make([]any, len(n.values))
	for i, e := range n.values {
		v, err := e.eval(r)
		if err != nil {
			return err
		}
		values[i] = v
	}
	return r.inScope(func() error {
		for i, t := range n.targets {
			if err := r.assignTo(t, values[i]); err != nil {
				return err
			}
		}
		return r.exec(n.body)
	})
}

func (n *jBody) exec(r *JinjaRun) error { return r.exec(n.body) }

func (n *jAutoescape) exec(r *JinjaRun) error {
	v, err := n.value.eval(r)
	if err != nil {
		return err
	}
	old := r.autoescape
	if r.autoescape, err = r.truth(v); err != nil {
		return err
	}
	err = r.inScope(func() error { return r.exec(n.body) })
	r.autoescape = old
	return err
}

func (n *jExprStmt) exec(r *JinjaRun) error {
	_, err := n.expr.eval(r)
	return err
}

func (n *jBreak) exec(*JinjaRun) error    { return errJinjaBreak }
func (n *jContinue) exec(*JinjaRun) error { return errJinjaContinue }

func (n *jFor) exec(r *JinjaRun) error {
	v, err := n.iter.eval(r)
	if err != nil {
		return err
	}
	return n.run(r, v, 0)
}

// filtered keeps the items for which the loop's condition holds.
func (n *jFor) filtered(r *JinjaRun, v any) (any, error) {
	it, err := r.iter(v)
	if err != nil {
		return nil, err
	}
	l := &List{}
	outer := r.scope
	scope := &jinjaScope{parent: outer}
	r.scope = scope
	defer func() { r.scope = outer }()
	for {
		item, ok, err := it.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return newJinjaIterator("generator", func() ([]any, error) { return l.Items, nil }), nil
		}
		if err := r.step(); err != nil {
			return nil, err
		}
		scope.reset()
		if err := r.assignTo(n.target, item); err != nil {
			return nil, err
		}
		cond, err := n.test.eval(r)
		if err != nil {
			return nil, err
		}
		yes, err := r.truth(cond)
		if err != nil {
			return nil, err
		}
		if yes {
			l.Items = append(l.Items, item)
		}
	}
}

func (n *jFor) run(r *JinjaRun, v any, depth0 int64) error {
	var err error
	if n.test != nil {
		if v, err = n.filtered(r, v); err != nil {
			return err
		}
	}
	it, err := r.iter(v)
	if err != nil {
		return err
	}
	outer := r.scope
	defer func() { r.scope = outer }()
	var loop *jinjaLoop
	if n.usesLoop {
		loop = &jinjaLoop{it: it, loop: n, scope: outer, index0: -1, depth0: depth0, length: -1}
	}
	simple, _ := n.target.(*jName)
	scope := &jinjaScope{parent: outer}
	completed := false // a first round came to its end, not by break or continue
	for {
		var item any
		var ok bool
		if loop != nil {
			if ok, err = loop.advance(); ok {
				item = loop.cur
			}
		} else {
			item, ok, err = it.next()
		}
		if err != nil {
			r.line = n.at()
			return err
		}
		if !ok {
			break
		}
		if err := r.step(); err != nil {
			return err
		}
		if scope.captured {
			scope = &jinjaScope{parent: outer}
		} else {
			scope.reset()
		}
		r.scope = scope
		if loop != nil {
			scope.names = append(scope.names, "loop")
			scope.vals = append(scope.vals, loop)
		}
		if simple != nil {
			scope.names = append(scope.names, simple.name)
			scope.vals = append(scope.vals, item)
		} else if err := r.assignTo(n.target, item); err != nil {
			r.line = n.at()
			return err
		}
		if err := r.exec(n.body); err != nil {
			if err == errJinjaBreak {
				break
			}
			if err != errJinjaContinue {
				return err
			}
			continue
		}
		completed = true
	}
	r.scope = outer
	if !completed && len(n.orElse) > 0 {
		return r.inScope(func() error { return r.exec(n.orElse) })
	}
	return nil
}

// capturedScopes marks the scopes that a macro defined here refers to.
func (r *JinjaRun) captureScopes() {
	for s := r.scope; s != nil && !s.captured; s = s.parent {
		s.captured = true
	}
}

func (n *jMacro) exec(r *JinjaRun) error {
	r.captureScopes()
	r.assign(n.name, &jinjaMacro{n, r.tmpl, r.scope, r.vars})
	return nil
}

func (n *jCallBlock) exec(r *JinjaRun) error {
	r.captureScopes()
	caller := &jinjaMacro{n.macro, r.tmpl, r.scope, r.vars}
	v, err := n.call.call(r, JinjaKwargs{{"caller", caller}})
	if err != nil || r.extended {
		return err
	}
	return r.print(v)
}

// Call binds the arguments and runs the macro's body.
func (m *jinjaMacro) Call(r *JinjaRun, args []any, kw JinjaKwargs) (any, error) {
	d := m.def
	scope := &jinjaScope{parent: m.scope}
	n := min(len(args), len(d.args))
	explicitCaller := false
	values := make([]any, len(d.args))
	given := make([]bool, len(d.args))
	for i, name := range d.args {
		explicitCaller = explicitCaller || name == "caller"
		if i < n {
			values[i], given[i] = args[i], true
		} else if v, ok := kw.Get(name); ok {
			values[i], given[i] = v, true
			kw = kw.without(name)
		}
	}
	if d.caller && !explicitCaller {
		caller, ok := kw.Get("caller")
		kw = kw.without("caller")
		if !ok || caller == nil {
			u := r.undefinedHint("No caller defined")
			u.Name = "caller"
			caller = u
		}
		scope.set("caller", caller)
	}
	name := "None"
	if !d.anonymous {
		name = Repr(d.name)
	}
	if d.kwargs {
		scope.set("kwargs", kw.Map())
	} else if len(kw) > 0 {
		if _, ok := kw.Get("caller"); ok {
			return nil, jinjaTypeError("macro %s was invoked with two values for the special caller argument. This is most likely a bug.", name)
		}
		return nil, jinjaTypeError("macro %s takes no keyword argument %s", name, Repr(kw[0].Name))
	}
	if d.varargs {
		scope.set("varargs", Tuple(append([]any{}, args[n:]...)))
	} else if len(args) > len(d.args) {
		return nil, jinjaTypeError("macro %s takes not more than %d argument(s)", name, len(d.args))
	}
	out := r.out
	r.out = nil
	err := r.inside(m.tmpl, "", func() error {
		r.vars, r.scope, r.extended = m.vars, scope, false
		r.line = d.at()
		for i, arg := range d.args {
			v := values[i]
			if !given[i] {
				if k := i - (len(d.args) - len(d.defaults)); k >= 0 {
					var err error
					if v, err = d.defaults[k].eval(r); err != nil {
						return err
					}
				} else {
					u := r.undefinedHint("parameter " + Repr(arg) + " was not provided")
					u.Name = arg
					v = u
				}
			}
			scope.set(arg, v)
		}
		return r.exec(d.body)
	})
	text := string(r.out)
	r.out = out
	if err == nil {
		err = r.grow(len(text))
	}
	if err != nil {
		return nil, err
	}
	return r.safe(text), nil
}

func (kw JinjaKwargs) without(name string) JinjaKwargs {
	for i, k := range kw {
		if k.Name == name {
			return append(append(JinjaKwargs{}, kw[:i]...), kw[i+1:]...)
		}
	}
	return kw
}

// --- inheritance, include, import

func (n *jBlock) exec(r *JinjaRun) error {
	if r.extended {
		return nil
	}
	var scope *jinjaScope
	if n.scoped {
		r.captureScopes()
		scope = r.scope
	}
	return r.runBlock(r.vars, n.name, 0, scope)
}

func (r *JinjaRun) runBlock(vars *jinjaContext, name string, depth int, scope *jinjaScope) error {
	stack := vars.blocks[name]
	if depth >= len(stack) {
		return jinjaErr("KeyError", "%s", Repr(name))
	}
	b := stack[depth]
	if b.def.required && depth == 0 {
		return jinjaErr(jinjaRuntimeClass, "Required block %s not found", Repr(name))
	}
	return r.inside(b.tmpl, name, func() error {
		r.vars, r.extended = vars, false
		r.scope = &jinjaScope{parent: scope}
		r.scope.set("super", r.superBlock(vars, name, depth))
		r.scope.set("self", &jinjaSelf{vars})
		return r.exec(b.def.body)
	})
}

func (n *jExtends) exec(r *JinjaRun) error {
	if r.extended {
		return jinjaErr(jinjaRuntimeClass, "extended multiple times")
	}
	v, err := n.template.eval(r)
	if err != nil {
		return err
	}
	parent, err := r.templateOf(v)
	if err != nil {
		return err
	}
	for name, def := range parent.code.blocks {
		r.vars.blocks[name] = append(r.vars.blocks[name], jinjaBlock{def, parent})
	}
	// The rest of this template runs first, for what it sets; then the parent
	// takes over (runTemplate).
	r.extended = true
	r.vars.parent = parent
	return nil
}

// templateOf takes what an expression of a tag gave as a template.
func (r *JinjaRun) templateOf(v any) (*JinjaTemplate, error) {
	switch v := v.(type) {
	case *JinjaUndefined:
		return nil, v.fail()
	}
	name, ok := textOf(v)
	if !ok {
		return nil, jinjaErr("AttributeError", "'%s' object has no attribute 'split'", TypeName(v))
	}
	return r.template(name)
}

// selectTemplate takes the first of several names that exists.
func (r *JinjaRun) selectTemplate(v any) (*JinjaTemplate, error) {
	var names []any
	switch v := v.(type) {
	case *List:
		names = v.Items
	case Tuple:
		names = v
	case string, Markup, *JinjaUndefined:
		return r.templateOf(v)
	default:
		var err error
		if names, err = r.items(v); err != nil {
			return nil, err
		}
	}
	if len(names) == 0 {
		return nil, jinjaErr(jinjaNoneFoundClass, "Tried to select from an empty list of templates.")
	}
	tried := make([]string, 0, len(names))
	for _, name := range names {
		t, err := r.templateOf(name)
		if err == nil {
			return t, nil
		}
		if !isJinjaClass(err, jinjaNotFoundClass, jinjaUndefinedClass) {
			return nil, err
		}
		if u, ok := name.(*JinjaUndefined); ok {
			tried = append(tried, u.Message())
		} else {
			tried = append(tried, Str(name))
		}
	}
	return nil, jinjaErr(jinjaNoneFoundClass, "none of the templates given were found: %s", strings.Join(tried, ", "))
}

func (n *jInclude) exec(r *JinjaRun) error {
	v, err := n.template.eval(r)
	if err != nil {
		return err
	}
	t, err := r.selectTemplate(v)
	if err != nil {
		if n.ignoreMissing && isJinjaClass(err, jinjaNotFoundClass, jinjaNoneFoundClass) {
			return nil
		}
		return err
	}
	if r.extended {
		return nil
	}
	if !n.withContext {
		m, err := r.module(t)
		if err != nil {
			return err
		}
		return r.write(m.body)
	}
	r.captureScopes()
	return r.runTemplate(t, &jinjaContext{tmpl: t, scope: r.scope, outer: r.vars})
}

// module runs a template without the variables of the one that imports it, once
// for each rendering.
func (r *JinjaRun) module(t *JinjaTemplate) (*jinjaImported, error) {
	if m := r.modules[t.Name]; m != nil {
		return m, nil
	}
	m, err := r.makeModule(t, &jinjaContext{tmpl: t})
	if err == nil {
		r.modules[t.Name] = m
	}
	return m, err
}

func (r *JinjaRun) makeModule(t *JinjaTemplate, vars *jinjaContext) (*jinjaImported, error) {
	text, err := r.capture(func() error { return r.runTemplate(t, vars) })
	if err != nil {
		return nil, err
	}
	m := &jinjaImported{name: t.Name, vars: map[string]any{}, body: text}
	for _, name := range vars.exported {
		m.vars[name] = vars.vars[name]
	}
	return m, nil
}

// imported runs the template of an import tag.
func (r *JinjaRun) imported(e jinjaExpr, withContext bool) (*jinjaImported, error) {
	v, err := e.eval(r)
	if err != nil {
		return nil, err
	}
	t, err := r.templateOf(v)
	if err != nil {
		return nil, err
	}
	if !withContext {
		return r.module(t)
	}
	// The variables as they are now: what the importer sets later is not seen.
	given := map[string]any{}
	r.collect(r.scope, r.vars, func(layer map[string]any) {
		for k, v := range layer {
			given[k] = v
		}
	})
	return r.makeModule(t, &jinjaContext{tmpl: t, given: given})
}

func (n *jImport) exec(r *JinjaRun) error {
	m, err := r.imported(n.template, n.withContext)
	if err != nil {
		return err
	}
	r.assign(n.target, m)
	return nil
}

func (n *jFromImport) exec(r *JinjaRun) error {
	m, err := r.imported(n.template, n.withContext)
	if err != nil {
		return err
	}
	for _, name := range n.names {
		v, ok := m.vars[name[0]]
		if !ok {
			u := r.undefinedHint("the template " + Repr(m.name) + " (imported on line " + strconv.Itoa(n.at()) +
				") does not export the requested name " + Repr(name[0]))
			u.Name = name[0]
			v = u
		}
		r.assign(name[1], v)
	}
	return nil
}
