// The values that only templates have: undefined, safe text, iterators, ranges,
// views of mappings, namespaces, functions, macros, the loop.
package main

import (
	"fmt"
	"sort"
	"strings"
)

func sortStrings(s []string) { sort.Strings(s) }

// JinjaUndefined is what a missing name or attribute evaluates to.
type JinjaUndefined struct {
	Kind  JinjaUndefinedKind
	Hint  string
	Obj   any
	InObj bool // it is an attribute of Obj
	Name  any
	Class string
	objID string // how messages call Obj
}

// Message says what is undefined.
func (u *JinjaUndefined) Message() string {
	switch {
	case u.Hint != "":
		return u.Hint
	case !u.InObj:
		return Repr(u.Name) + " is undefined"
	}
	if name, ok := u.Name.(string); ok {
		return Repr(u.objID) + " has no attribute " + Repr(name)
	}
	return u.objID + " has no element " + Repr(u.Name)
}

func (u *JinjaUndefined) fail() error {
	class := u.Class
	if class == "" {
		class = jinjaUndefinedClass
	}
	return &JinjaError{Class: class, Message: u.Message()}
}

// TypeName is the Python class of the kind.
func (u *JinjaUndefined) TypeName() string {
	switch u.Kind {
	case JinjaChainable:
		return "ChainableUndefined"
	case JinjaDebug:
		return "DebugUndefined"
	case JinjaStrict:
		return "StrictUndefined"
	}
	return "Undefined"
}

// Repr is the same for all kinds.
func (u *JinjaUndefined) Repr() string { return "Undefined" }

// Truth is false; strict ones are asked with truth, which fails.
func (u *JinjaUndefined) Truth() bool { return false }

func (u *JinjaUndefined) String() string {
	if u.Kind != JinjaDebug {
		return ""
	}
	switch {
	case u.Hint != "":
		return "{{ undefined value printed: " + u.Hint + " }}"
	case !u.InObj:
		return "{{ " + Str(u.Name) + " }}"
	}
	return "{{ no such element: " + u.objID + "[" + Repr(u.Name) + "] }}"
}

func (r *JinjaRun) undefinedName(name string) *JinjaUndefined {
	return &JinjaUndefined{Kind: r.Env.Undefined, Name: name}
}

func (r *JinjaRun) undefinedHint(hint string) *JinjaUndefined {
	return &JinjaUndefined{Kind: r.Env.Undefined, Hint: hint}
}

func (r *JinjaRun) undefinedAttr(obj, name any) *JinjaUndefined {
	return &JinjaUndefined{Kind: r.Env.Undefined, Obj: obj, InObj: true, Name: name, objID: r.objectName(obj)}
}

// objectName is how messages call a value: "dict object".
func (r *JinjaRun) objectName(v any) string {
	if r.Env.ObjectName != nil {
		if name := r.Env.ObjectName(v); name != "" {
			return name
		}
	}
	if v == nil {
		return "None"
	}
	if q, ok := v.(interface{ QualifiedName() string }); ok {
		return q.QualifiedName() + " object"
	}
	if m, ok := v.(*Map); ok && m.Class() == "OrderedDict" {
		return "collections.OrderedDict object"
	}
	return TypeName(v) + " object"
}

// Markup is text that is safe in HTML: it is not escaped again.
type Markup string

// TypeName is Python's name of the type.
func (m Markup) TypeName() string { return "Markup" }

// QualifiedName is the name with its module.
func (m Markup) QualifiedName() string { return "markupsafe.Markup" }

// Repr shows the type.
func (m Markup) Repr() string { return "Markup(" + Repr(string(m)) + ")" }

func (m Markup) String() string { return string(m) }

// Truth is false for the empty text.
func (m Markup) Truth() bool { return m != "" }

// PlainValue is the text.
func (m Markup) PlainValue() any { return string(m) }

// textOf is the text of a string or of safe text.
func textOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case Markup:
		return string(v), true
	}
	return "", false
}

// JinjaIterator is a generator: it can be gone through once. fill makes all
// items when the first one is asked for.
type JinjaIterator struct {
	Name  string // in its repr
	fill  func() ([]any, error)
	items []any
	pos   int
}

func newJinjaIterator(name string, fill func() ([]any, error)) *JinjaIterator {
	return &JinjaIterator{Name: name, fill: fill}
}

// next returns the next item; ok is false at the end.
func (it *JinjaIterator) next() (v any, ok bool, err error) {
	if it.fill != nil {
		fill := it.fill
		it.fill = nil
		if it.items, err = fill(); err != nil {
			return nil, false, err
		}
	}
	if it.pos >= len(it.items) {
		return nil, false, nil
	}
	v = it.items[it.pos]
	it.pos++
	return v, true, nil
}

// rest returns what is left.
func (it *JinjaIterator) rest() ([]any, error) {
	if _, _, err := it.peek(); err != nil {
		return nil, err
	}
	items := it.items[it.pos:]
	it.pos = len(it.items)
	return items, nil
}

func (it *JinjaIterator) peek() (any, bool, error) {
	v, ok, err := it.next()
	if ok {
		it.pos--
	}
	return v, ok, err
}

// TypeName is generator unless the name says otherwise.
func (it *JinjaIterator) TypeName() string {
	if strings.Contains(it.Name, " ") || it.Name == "" {
		return "generator"
	}
	return it.Name
}

// Repr has no address: it would be another one on every run.
func (it *JinjaIterator) Repr() string {
	if strings.Contains(it.Name, " ") {
		return "<generator object " + strings.TrimSpace(it.Name) + " at 0x0>"
	}
	return "<" + it.Name + " object at 0x0>"
}

// Truth is true, as for every object without a length.
func (it *JinjaIterator) Truth() bool { return true }

// jinjaRange is Python's range.
type jinjaRange struct{ start, stop, step int64 }

func (g *jinjaRange) len() int64 {
	switch {
	case g.step > 0 && g.start < g.stop:
		return (g.stop-g.start-1)/g.step + 1
	case g.step < 0 && g.start > g.stop:
		return (g.start-g.stop-1)/-g.step + 1
	}
	return 0
}

func (g *jinjaRange) at(i int64) int64 { return g.start + i*g.step }

func (g *jinjaRange) TypeName() string { return "range" }

func (g *jinjaRange) Truth() bool { return g.len() > 0 }

func (g *jinjaRange) Repr() string {
	if g.step == 1 {
		return fmt.Sprintf("range(%d, %d)", g.start, g.stop)
	}
	return fmt.Sprintf("range(%d, %d, %d)", g.start, g.stop, g.step)
}

// jinjaView is what keys(), values() and items() of a mapping return: it sees
// later changes of the mapping.
type jinjaView struct {
	m    *Map
	kind byte // k, v, i
}

func (v *jinjaView) TypeName() string {
	class := "dict"
	if v.m.Class() != "" {
		class = "odict"
	}
	switch v.kind {
	case 'k':
		return class + "_keys"
	case 'v':
		return class + "_values"
	}
	return class + "_items"
}

func (v *jinjaView) Truth() bool { return v.m.Len() > 0 }

func (v *jinjaView) at(i int) any {
	k, val := v.m.At(i)
	switch v.kind {
	case 'k':
		return k
	case 'v':
		return val
	}
	return Tuple{k, val}
}

func (v *jinjaView) items() []any {
	items := make([]any, v.m.Len())
	for i := range items {
		items[i] = v.at(i)
	}
	return items
}

func (v *jinjaView) Repr() string {
	var b strings.Builder
	v.reprInto(&b, nil)
	return b.String()
}

func (v *jinjaView) reprInto(b *strings.Builder, path *reprPath) {
	inner, ok := path.enter(v.m)
	if !ok {
		b.WriteString("...")
		return
	}
	b.WriteString(v.TypeName())
	b.WriteByte('(')
	writeRepr(b, &List{Items: v.items()}, inner)
	b.WriteByte(')')
}

// jinjaNamespace is namespace(): attributes that loops may set.
type jinjaNamespace struct{ attrs *Map }

func (n *jinjaNamespace) TypeName() string      { return "Namespace" }
func (n *jinjaNamespace) QualifiedName() string { return "jinja2.utils.Namespace" }
func (n *jinjaNamespace) Truth() bool           { return true }

func (n *jinjaNamespace) Repr() string {
	var b strings.Builder
	n.reprInto(&b, nil)
	return b.String()
}

func (n *jinjaNamespace) reprInto(b *strings.Builder, path *reprPath) {
	b.WriteString("<Namespace ")
	writeRepr(b, n.attrs, path)
	b.WriteByte('>')
}

// JinjaKwargs are keyword arguments in the order of the call.
type JinjaKwargs []JinjaKwarg

// JinjaKwarg is one of them.
type JinjaKwarg struct {
	Name  string
	Value any
}

// Get finds an argument by name.
func (kw JinjaKwargs) Get(name string) (any, bool) {
	for _, k := range kw {
		if k.Name == name {
			return k.Value, true
		}
	}
	return nil, false
}

// Map makes a dict of them.
func (kw JinjaKwargs) Map() *Map {
	m := &Map{}
	for _, k := range kw {
		m.Set(k.Name, k.Value)
	}
	return m
}

// JinjaCallable is an object that templates can call.
type JinjaCallable interface {
	Object
	Call(r *JinjaRun, args []any, kw JinjaKwargs) (any, error)
}

// JinjaAttributes is an object with attributes of its own.
type JinjaAttributes interface {
	Object
	// Attribute is obj.name; ok is false if there is none.
	Attribute(r *JinjaRun, name string) (v any, ok bool, err error)
}

// JinjaItems is an object with items of its own.
type JinjaItems interface {
	Object
	// Item is obj[key]; ok is false if there is none.
	Item(r *JinjaRun, key any) (v any, ok bool, err error)
}

// JinjaContainer is an object that answers `x in obj`.
type JinjaContainer interface {
	Object
	Contains(r *JinjaRun, v any) (bool, error)
}

// JinjaFunc is a function of the program as a value.
type JinjaFunc struct {
	Name string
	Kind string // "function" unless set
	Fn   func(r *JinjaRun, args []any, kw JinjaKwargs) (any, error)
}

// TypeName is function, or what Kind says.
func (f *JinjaFunc) TypeName() string {
	if f.Kind != "" {
		return f.Kind
	}
	return "function"
}

// Repr has no address.
func (f *JinjaFunc) Repr() string {
	if f.Kind == "type" {
		return "<class '" + f.Name + "'>"
	}
	if f.Kind == "Joiner" {
		return "<" + f.Name + " object at 0x0>"
	}
	return "<" + f.TypeName() + " " + f.Name + ">"
}

// Truth is true.
func (f *JinjaFunc) Truth() bool { return true }

// Call runs the function.
func (f *JinjaFunc) Call(r *JinjaRun, args []any, kw JinjaKwargs) (any, error) {
	return f.Fn(r, args, kw)
}

// jinjaBound is a method with the object it belongs to.
type jinjaBound struct {
	obj    any
	name   string
	method *JinjaFilter
}

func (m *jinjaBound) TypeName() string { return "builtin_function_or_method" }
func (m *jinjaBound) Truth() bool      { return true }
func (m *jinjaBound) Repr() string {
	return "<built-in method " + m.name + " of " + TypeName(m.obj) + " object at 0x0>"
}

func (m *jinjaBound) Call(r *JinjaRun, args []any, kw JinjaKwargs) (any, error) {
	return m.method.call(r, m.obj, args, kw)
}

// jinjaMacro is a macro with the place where it was defined.
type jinjaMacro struct {
	def   *jMacro
	tmpl  *JinjaTemplate
	scope *jinjaScope
	vars  *jinjaContext
}

func (m *jinjaMacro) TypeName() string      { return "Macro" }
func (m *jinjaMacro) QualifiedName() string { return "jinja2.runtime.Macro" }
func (m *jinjaMacro) Truth() bool           { return true }
func (m *jinjaMacro) Repr() string {
	if m.def.anonymous {
		return "<Macro anonymous>"
	}
	return "<Macro " + Repr(m.def.name) + ">"
}

func (m *jinjaMacro) Attribute(_ *JinjaRun, name string) (any, bool, error) {
	switch name {
	case "name":
		if m.def.anonymous {
			return nil, true, nil
		}
		return m.def.name, true, nil
	case "arguments":
		t := make(Tuple, len(m.def.args))
		for i, a := range m.def.args {
			t[i] = a
		}
		return t, true, nil
	case "catch_kwargs":
		return m.def.kwargs, true, nil
	case "catch_varargs":
		return m.def.varargs, true, nil
	case "caller":
		return m.def.caller, true, nil
	}
	return nil, false, nil
}

// jinjaImported is an imported template: what it exported, and what it printed.
type jinjaImported struct {
	name string
	vars map[string]any
	body string
}

func (m *jinjaImported) TypeName() string      { return "TemplateModule" }
func (m *jinjaImported) QualifiedName() string { return "jinja2.environment.TemplateModule" }
func (m *jinjaImported) Truth() bool           { return true }
func (m *jinjaImported) Repr() string          { return "<TemplateModule " + Repr(m.name) + ">" }
func (m *jinjaImported) String() string        { return m.body }

func (m *jinjaImported) Attribute(_ *JinjaRun, name string) (any, bool, error) {
	v, ok := m.vars[name]
	return v, ok, nil
}

// jinjaSelf is self in a template with blocks.
type jinjaSelf struct{ vars *jinjaContext }

func (s *jinjaSelf) TypeName() string      { return "TemplateReference" }
func (s *jinjaSelf) QualifiedName() string { return "jinja2.runtime.TemplateReference" }
func (s *jinjaSelf) Truth() bool           { return true }
func (s *jinjaSelf) Repr() string {
	if s.vars.tmpl.Name == "" {
		return "<TemplateReference None>"
	}
	return "<TemplateReference " + Repr(s.vars.tmpl.Name) + ">"
}

func (s *jinjaSelf) Item(_ *JinjaRun, key any) (any, bool, error) {
	name, _ := key.(string)
	if s.vars.blocks[name] == nil {
		return nil, false, nil
	}
	return &jinjaBlockRef{s.vars, name, 0}, true, nil
}

// jinjaBlockRef is self.name or super: a block at one level of inheritance.
type jinjaBlockRef struct {
	vars  *jinjaContext
	name  string
	depth int
}

func (b *jinjaBlockRef) TypeName() string      { return "BlockReference" }
func (b *jinjaBlockRef) QualifiedName() string { return "jinja2.runtime.BlockReference" }
func (b *jinjaBlockRef) Truth() bool           { return true }
func (b *jinjaBlockRef) Repr() string          { return "<BlockReference " + Repr(b.name) + ">" }

func (b *jinjaBlockRef) Attribute(r *JinjaRun, name string) (any, bool, error) {
	switch name {
	case "super":
		return r.superBlock(b.vars, b.name, b.depth), true, nil
	case "name":
		return b.name, true, nil
	}
	return nil, false, nil
}

func (r *JinjaRun) superBlock(vars *jinjaContext, name string, depth int) any {
	if depth+1 >= len(vars.blocks[name]) {
		u := r.undefinedHint("there is no parent block called " + Repr(name) + ".")
		u.Name = "super"
		return u
	}
	return &jinjaBlockRef{vars, name, depth + 1}
}

func (b *jinjaBlockRef) Call(r *JinjaRun, args []any, kw JinjaKwargs) (any, error) {
	text, err := r.capture(func() error { return r.runBlock(b.vars, b.name, b.depth, nil) })
	if err != nil {
		return nil, err
	}
	return r.safe(text), nil
}

// safe marks text as safe where that makes a difference.
func (r *JinjaRun) safe(text string) any {
	if r.autoescape {
		return Markup(text)
	}
	return text
}

// jinjaLoop is the loop variable.
type jinjaLoop struct {
	it      *jinjaIter
	loop    *jFor
	scope   *jinjaScope // outside of the loop, for recursion
	index0  int64
	depth0  int64
	length  int64 // -1: not known yet
	cur     any
	before  any
	after   any
	peeked  bool
	ended   bool
	changed any
	asked   bool // changed was called before
}

func (l *jinjaLoop) TypeName() string      { return "LoopContext" }
func (l *jinjaLoop) QualifiedName() string { return "jinja2.runtime.LoopContext" }
func (l *jinjaLoop) Truth() bool           { return true }
func (l *jinjaLoop) Repr() string {
	n, err := l.len()
	if err != nil {
		return "<LoopContext>"
	}
	return fmt.Sprintf("<LoopContext %d/%d>", l.index0+1, n)
}

func (l *jinjaLoop) peek() error {
	if l.peeked || l.ended {
		return nil
	}
	v, ok, err := l.it.next()
	if err != nil {
		return err
	}
	l.after, l.peeked, l.ended = v, ok, !ok
	return nil
}

// advance goes to the next item.
func (l *jinjaLoop) advance() (bool, error) {
	if err := l.peek(); err != nil || !l.peeked {
		return false, err
	}
	l.index0++
	l.before, l.cur = l.cur, l.after
	l.peeked, l.after = false, nil
	return true, nil
}

func (l *jinjaLoop) len() (int64, error) {
	if l.length >= 0 {
		return l.length, nil
	}
	if n := l.it.len(); n >= 0 {
		l.length = n
		return n, nil
	}
	items, err := l.it.rest()
	if err != nil {
		return 0, err
	}
	l.length = int64(len(items)) + l.index0 + 1
	if l.peeked {
		l.length++
	}
	l.it = &jinjaIter{items: items}
	return l.length, nil
}

func (l *jinjaLoop) Attribute(r *JinjaRun, name string) (any, bool, error) {
	switch name {
	case "index":
		return l.index0 + 1, true, nil
	case "index0":
		return l.index0, true, nil
	case "first":
		return l.index0 == 0, true, nil
	case "last":
		err := l.peek()
		return !l.peeked, true, err
	case "length":
		n, err := l.len()
		return n, true, err
	case "revindex":
		n, err := l.len()
		return n - l.index0, true, err
	case "revindex0":
		n, err := l.len()
		return n - l.index0 - 1, true, err
	case "depth":
		return l.depth0 + 1, true, nil
	case "depth0":
		return l.depth0, true, nil
	case "previtem":
		if l.index0 == 0 {
			return r.undefinedHint("there is no previous item"), true, nil
		}
		return l.before, true, nil
	case "nextitem":
		if err := l.peek(); err != nil {
			return nil, true, err
		}
		if !l.peeked {
			return r.undefinedHint("there is no next item"), true, nil
		}
		return l.after, true, nil
	case "cycle":
		return &JinjaFunc{Name: "cycle", Kind: "method", Fn: l.cycle}, true, nil
	case "changed":
		return &JinjaFunc{Name: "changed", Kind: "method", Fn: l.hasChanged}, true, nil
	}
	return nil, false, nil
}

func (l *jinjaLoop) cycle(_ *JinjaRun, args []any, _ JinjaKwargs) (any, error) {
	if len(args) == 0 {
		return nil, jinjaTypeError("no items for cycling given")
	}
	return args[l.index0%int64(len(args))], nil
}

func (l *jinjaLoop) hasChanged(r *JinjaRun, args []any, _ JinjaKwargs) (any, error) {
	now := Tuple(args)
	if l.asked && Equal(l.changed, now) {
		return false, nil
	}
	l.changed, l.asked = now, true
	return true, nil
}

// Call renders the loop's body again for other items.
func (l *jinjaLoop) Call(r *JinjaRun, args []any, _ JinjaKwargs) (any, error) {
	if !l.loop.recursive {
		return nil, jinjaTypeError("The loop must have the 'recursive' marker to be called recursively.")
	}
	if len(args) != 1 {
		return nil, jinjaTypeError("LoopContext.__call__() missing 1 required positional argument: 'iterable'")
	}
	text, err := r.capture(func() error {
		return r.inside(r.tmpl, "", func() error {
			r.scope = l.scope
			r.line = l.loop.at()
			return l.loop.run(r, args[0], l.depth0+1)
		})
	})
	if err != nil {
		return nil, err
	}
	return r.safe(text), nil
}

// jinjaCycler is cycler().
type jinjaCycler struct {
	items []any
	pos   int
}

func (c *jinjaCycler) TypeName() string      { return "Cycler" }
func (c *jinjaCycler) QualifiedName() string { return "jinja2.utils.Cycler" }
func (c *jinjaCycler) Truth() bool           { return true }
func (c *jinjaCycler) Repr() string          { return "<jinja2.utils.Cycler object at 0x0>" }

func (c *jinjaCycler) Attribute(_ *JinjaRun, name string) (any, bool, error) {
	switch name {
	case "current":
		return c.items[c.pos], true, nil
	case "pos":
		return int64(c.pos), true, nil
	case "items":
		return Tuple(c.items), true, nil
	case "next":
		return &JinjaFunc{Name: "next", Kind: "method", Fn: func(*JinjaRun, []any, JinjaKwargs) (any, error) {
			v := c.items[c.pos]
			c.pos = (c.pos + 1) % len(c.items)
			return v, nil
		}}, true, nil
	case "reset":
		return &JinjaFunc{Name: "reset", Kind: "method", Fn: func(*JinjaRun, []any, JinjaKwargs) (any, error) {
			c.pos = 0
			return nil, nil
		}}, true, nil
	}
	return nil, false, nil
}

// jinjaGroup is one result of groupby: a tuple with names.
type jinjaGroup struct {
	key  any
	list *List
}

func (g *jinjaGroup) TypeName() string      { return "_GroupTuple" }
func (g *jinjaGroup) QualifiedName() string { return "jinja2.filters._GroupTuple" }
func (g *jinjaGroup) Truth() bool           { return true }
func (g *jinjaGroup) Repr() string          { return Repr(g.PlainValue()) }
func (g *jinjaGroup) PlainValue() any       { return Tuple{g.key, g.list} }

func (g *jinjaGroup) Attribute(_ *JinjaRun, name string) (any, bool, error) {
	switch name {
	case "grouper":
		return g.key, true, nil
	case "list":
		return g.list, true, nil
	}
	return nil, false, nil
}
