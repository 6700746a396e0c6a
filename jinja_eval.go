// Evaluating expressions: names, literals, attributes and items, calls,
// filters and tests.
package main

import (
	"fmt"
	"math/big"
	"strings"
)

func (n *jConst) eval(*JinjaRun) (any, error) { return n.value, nil }

func (n *jName) eval(r *JinjaRun) (any, error) {
	if v, ok := r.lookup(n.name); ok {
		return v, nil
	}
	if n.name == "self" {
		return &jinjaSelf{r.vars}, nil
	}
	return r.undefinedName(n.name), nil
}

func (n *jNSRef) eval(*JinjaRun) (any, error) {
	return nil, jinjaErr(jinjaSyntaxErrorClass, "unexpected '.'")
}

func evalAll(r *JinjaRun, exprs []jinjaExpr) ([]any, error) {
	out := make([]any, len(exprs))
	for i, e := range exprs {
		v, err := e.eval(r)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func (n *jTuple) eval(r *JinjaRun) (any, error) {
	items, err := evalAll(r, n.items)
	if err != nil {
		return nil, err
	}
	return Tuple(items), nil
}

func (n *jList) eval(r *JinjaRun) (any, error) {
	items, err := evalAll(r, n.items)
	if err != nil {
		return nil, err
	}
	return &List{Items: items}, nil
}

func (n *jDict) eval(r *JinjaRun) (any, error) {
	m := &Map{}
	for i := range n.keys {
		k, err := n.keys[i].eval(r)
		if err != nil {
			return nil, err
		}
		v, err := n.values[i].eval(r)
		if err != nil {
			return nil, err
		}
		if err := r.setItem(m, k, v); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// setItem is m[k] = v with Python's error for a key that cannot be one.
func (r *JinjaRun) setItem(m *Map, k, v any) error {
	if err := hashableError(k); err != nil {
		return err
	}
	m.Set(k, v)
	return nil
}

func hashableError(k any) error {
	if u, ok := k.(*JinjaUndefined); ok && u.Kind == JinjaStrict {
		return u.fail()
	}
	if Hashable(k) {
		return nil
	}
	if t, ok := k.(Tuple); ok {
		for _, item := range t {
			if err := hashableError(item); err != nil {
				return err
			}
		}
	}
	return jinjaTypeError("unhashable type: '%s'", TypeName(k))
}

func (n *jUnary) eval(r *JinjaRun) (any, error) {
	v, err := n.expr.eval(r)
	if err != nil {
		return nil, err
	}
	if n.op == '!' {
		b, err := r.truth(v)
		return !b, err
	}
	if u, ok := v.(*JinjaUndefined); ok {
		return nil, u.fail()
	}
	switch v := v.(type) {
	case bool:
		i := int64(0)
		if v {
			i = 1
		}
		if n.op == '-' {
			i = -i
		}
		return i, nil
	case int64:
		if n.op == '-' {
			if v == -v && v != 0 {
				return normalInt(new(big.Int).Neg(big.NewInt(v))), nil
			}
			return -v, nil
		}
		return v, nil
	case float64:
		if n.op == '-' {
			return -v, nil
		}
		return v, nil
	case *big.Int:
		if n.op == '-' {
			return normalInt(new(big.Int).Neg(v)), nil
		}
		return v, nil
	}
	return nil, jinjaTypeError("bad operand type for unary %c: '%s'", n.op, TypeName(v))
}

func (n *jLogic) eval(r *JinjaRun) (any, error) {
	v, err := n.left.eval(r)
	if err != nil {
		return nil, err
	}
	b, err := r.truth(v)
	if err != nil || b == n.or {
		return v, err
	}
	return n.right.eval(r)
}

func (n *jCond) eval(r *JinjaRun) (any, error) {
	v, err := n.test.eval(r)
	if err != nil {
		return nil, err
	}
	b, err := r.truth(v)
	if err != nil {
		return nil, err
	}
	if b {
		return n.yes.eval(r)
	}
	if n.no != nil {
		return n.no.eval(r)
	}
	// unlike other undefined values it may be printed even when all others may not
	u := r.undefinedHint(fmt.Sprintf("the inline if-expression on line %d evaluated to false and no else section was defined.", n.at()))
	if u.Kind == JinjaStrict {
		u.Kind = JinjaLenient
	}
	return u, nil
}

func (n *jConcat) eval(r *JinjaRun) (any, error) {
	var b strings.Builder
	safe := false
	for _, e := range n.items {
		v, err := e.eval(r)
		if err != nil {
			return nil, err
		}
		s, err := r.str(v)
		if err != nil {
			return nil, err
		}
		if r.autoescape {
			if _, ok := v.(Markup); ok {
				safe = true
			}
		}
		b.WriteString(s)
		if b.Len() > r.limits.Output {
			return nil, jinjaErr("MemoryError", "the text is larger than %d bytes", r.limits.Output)
		}
	}
	if safe {
		return r.escapedConcat(n)
	}
	return b.String(), r.grow(b.Len())
}

// escapedConcat joins where one part is safe text: the others are escaped.
func (r *JinjaRun) escapedConcat(n *jConcat) (any, error) {
	var b strings.Builder
	for _, e := range n.items {
		v, err := e.eval(r)
		if err != nil {
			return nil, err
		}
		s, err := r.str(v)
		if err != nil {
			return nil, err
		}
		if _, ok := v.(Markup); !ok {
			s = escapeHTML(s)
		}
		b.WriteString(s)
	}
	return Markup(b.String()), nil
}

func escapeHTML(s string) string {
	if !strings.ContainsAny(s, `&<>"'`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '&':
			b.WriteString("&amp;")
		case '<':
			b.WriteString("&lt;")
		case '>':
			b.WriteString("&gt;")
		case '"':
			b.WriteString("&#34;")
		case '\'':
			b.WriteString("&#39;")
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func (n *jAttr) eval(r *JinjaRun) (any, error) {
	obj, err := n.obj.eval(r)
	if err != nil {
		return nil, err
	}
	return r.getAttr(obj, n.name)
}

// getAttr is obj.name: a method or attribute first, then an item.
func (r *JinjaRun) getAttr(obj any, name string) (any, error) {
	if u, ok := obj.(*JinjaUndefined); ok {
		return r.undefinedAccess(u)
	}
	v, ok, err := r.ownAttr(obj, name)
	if ok || err != nil {
		return v, err
	}
	switch o := obj.(type) {
	case *Map:
		if v, ok := o.GetText(name); ok {
			return v, nil
		}
	case JinjaItems:
		v, ok, err := o.Item(r, name)
		if ok || err != nil {
			return v, err
		}
	}
	return r.undefinedAttr(obj, name), nil
}

func (r *JinjaRun) undefinedAccess(u *JinjaUndefined) (any, error) {
	if u.Kind == JinjaChainable && u.Class == "" {
		return u, nil
	}
	return nil, u.fail()
}

// ownAttr finds a method or an attribute, without looking at items.
func (r *JinjaRun) ownAttr(obj any, name string) (any, bool, error) {
	if o, ok := obj.(JinjaAttributes); ok {
		v, ok, err := o.Attribute(r, name)
		if ok || err != nil {
			return v, ok, err
		}
	}
	switch o := obj.(type) {
	case *jinjaNamespace:
		v, ok := o.attrs.GetText(name)
		return v, ok, nil
	case int64, *big.Int, bool, float64:
		if v, ok := numberAttribute(o, name); ok {
			return v, true, nil
		}
	case *jinjaRange:
		switch name {
		case "start":
			return o.start, true, nil
		case "stop":
			return o.stop, true, nil
		case "step":
			return o.step, true, nil
		}
	}
	if m := r.Env.methods.find(obj, name); m != nil {
		return &jinjaBound{obj, name, m}, true, nil
	}
	if strings.HasPrefix(name, "_") && isPythonDunder(obj, name) {
		u := r.undefinedHint("access to attribute " + Repr(name) + " of " + Repr(TypeName(obj)) + " object is unsafe.")
		u.Name, u.Obj, u.Class = name, obj, jinjaSecurityClass
		return u, true, nil
	}
	return nil, false, nil
}

// isPythonDunder says whether every object of Python has the attribute; a
// sandbox refuses those.
func isPythonDunder(obj any, name string) bool {
	switch name {
	case "__class__", "__doc__", "__init__", "__new__", "__repr__", "__str__", "__eq__", "__ne__", "__lt__", "__le__",
		"__gt__", "__ge__", "__hash__", "__getattribute__", "__setattr__", "__delattr__", "__dir__", "__format__",
		"__reduce__", "__reduce_ex__", "__sizeof__", "__subclasshook__", "__init_subclass__", "__getstate__":
		return true
	case "__len__", "__getitem__", "__contains__", "__iter__":
		switch obj.(type) {
		case string, *List, *Map, Tuple, []byte, Markup:
			return true
		}
	case "__call__", "__globals__", "__code__", "__name__", "__module__", "__self__":
		_, ok := obj.(JinjaCallable)
		return ok
	}
	return false
}

func numberAttribute(v any, name string) (any, bool) {
	switch name {
	case "real":
		if b, ok := v.(bool); ok {
			if b {
				return int64(1), true
			}
			return int64(0), true
		}
		return v, true
	case "imag":
		if _, ok := v.(float64); ok {
			return 0.0, true
		}
		return int64(0), true
	case "numerator":
		if _, ok := v.(float64); !ok {
			return v, true
		}
	case "denominator":
		if _, ok := v.(float64); !ok {
			return int64(1), true
		}
	}
	return nil, false
}

func (n *jItem) eval(r *JinjaRun) (any, error) {
	obj, err := n.obj.eval(r)
	if err != nil {
		return nil, err
	}
	if s, ok := n.key.(*jSlice); ok {
		return s.apply(r, obj)
	}
	key, err := n.key.eval(r)
	if err != nil {
		return nil, err
	}
	return r.getItem(obj, key)
}

// getItem is obj[key]: an item first, then an attribute.
func (r *JinjaRun) getItem(obj, key any) (any, error) {
	switch o := obj.(type) {
	case *Map:
		if k, ok := key.(string); ok {
			if v, ok := o.GetText(k); ok {
				return v, nil
			}
		} else if err := hashableError(key); err == nil {
			if v, ok := o.Get(key); ok {
				return v, nil
			}
		} else if u, ok := key.(*JinjaUndefined); ok {
			return nil, u.fail()
		}
	case *List:
		if i, ok := indexOf(key); ok {
			if i < 0 {
				i += int64(len(o.Items))
			}
			if i >= 0 && i < int64(len(o.Items)) {
				return o.Items[i], nil
			}
		}
	case Tuple:
		if i, ok := indexOf(key); ok {
			if i < 0 {
				i += int64(len(o))
			}
			if i >= 0 && i < int64(len(o)) {
				return o[i], nil
			}
		}
	case string, Markup:
		if i, ok := indexOf(key); ok {
			s, _ := textOf(o)
			if c, ok := runeAt(s, i); ok {
				return sameText(o, c), nil
			}
		}
	case []byte:
		if i, ok := indexOf(key); ok {
			if i < 0 {
				i += int64(len(o))
			}
			if i >= 0 && i < int64(len(o)) {
				return int64(o[i]), nil
			}
		}
	case *jinjaRange:
		if i, ok := indexOf(key); ok {
			if i < 0 {
				i += o.len()
			}
			if i >= 0 && i < o.len() {
				return o.at(i), nil
			}
		}
	case *jinjaGroup:
		return r.getItem(o.PlainValue(), key)
	case *JinjaUndefined:
		if o.Kind == JinjaChainable && o.Class == "" {
			return o, nil
		}
		return nil, o.fail()
	case JinjaItems:
		v, ok, err := o.Item(r, key)
		if ok || err != nil {
			return v, err
		}
	}
	if name, ok := textOf(key); ok {
		v, ok, err := r.ownAttr(obj, name)
		if ok || err != nil {
			return v, err
		}
		key = name
	}
	return r.undefinedAttr(obj, key), nil
}

// sameText gives a piece of a text the kind of the whole.
func sameText(whole any, piece string) any {
	if _, ok := whole.(Markup); ok {
		return Markup(piece)
	}
	return piece
}

// indexOf takes what Python takes as an index.
func indexOf(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

func runeAt(s string, i int64) (string, bool) {
	if isASCII(s) {
		if i < 0 {
			i += int64(len(s))
		}
		if i < 0 || i >= int64(len(s)) {
			return "", false
		}
		return s[i : i+1], true
	}
	rs := []rune(s)
	if i < 0 {
		i += int64(len(rs))
	}
	if i < 0 || i >= int64(len(rs)) {
		return "", false
	}
	return string(rs[i]), true
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func (n *jSlice) eval(*JinjaRun) (any, error) {
	return nil, jinjaTypeError("a slice is no value")
}

// bounds works out a slice over a sequence of the given length.
func (n *jSlice) bounds(r *JinjaRun, length int64) (start, stop, step int64, err error) {
	part := func(e jinjaExpr) (int64, bool, error) {
		if e == nil {
			return 0, false, nil
		}
		v, err := e.eval(r)
		if err != nil || v == nil {
			return 0, false, err
		}
		if u, ok := v.(*JinjaUndefined); ok {
			return 0, false, u.fail()
		}
		if b, ok := v.(*big.Int); ok { // beyond any length
			if b.Sign() < 0 {
				return -1 << 62, true, nil
			}
			return 1 << 62, true, nil
		}
		i, ok := indexOf(v)
		if !ok {
			return 0, false, jinjaTypeError("slice indices must be integers or None or have an __index__ method")
		}
		return i, true, nil
	}
	step = 1
	if v, ok, err := part(n.step); err != nil {
		return 0, 0, 0, err
	} else if ok {
		if step = v; step == 0 {
			return 0, 0, 0, jinjaValueError("slice step cannot be zero")
		}
	}
	clamp := func(i int64, given bool, def int64) int64 {
		if !given {
			return def
		}
		if i < 0 {
			i += length
		}
		lo, hi := int64(0), length
		if step < 0 {
			lo, hi = -1, length-1
		}
		return max(lo, min(i, hi))
	}
	i, given, err := part(n.start)
	if err != nil {
		return 0, 0, 0, err
	}
	def := int64(0)
	if step < 0 {
		def = length - 1
	}
	start = clamp(i, given, def)
	if i, given, err = part(n.stop); err != nil {
		return 0, 0, 0, err
	}
	def = length
	if step < 0 {
		def = -1
	}
	return start, clamp(i, given, def), step, nil
}

func (n *jSlice) apply(r *JinjaRun, obj any) (any, error) {
	pick := func(length int, take func(i int64)) error {
		start, stop, step, err := n.bounds(r, int64(length))
		if err != nil {
			return err
		}
		g := jinjaRange{start, stop, step}
		for i := range g.len() {
			take(g.at(i))
		}
		return nil
	}
	switch o := obj.(type) {
	case *List:
		out := &List{}
		err := pick(len(o.Items), func(i int64) { out.Items = append(out.Items, o.Items[i]) })
		return out, err
	case Tuple:
		out := Tuple{}
		err := pick(len(o), func(i int64) { out = append(out, o[i]) })
		return out, err
	case string, Markup:
		s, _ := textOf(o)
		var b strings.Builder
		var err error
		if isASCII(s) {
			err = pick(len(s), func(i int64) { b.WriteByte(s[i]) })
		} else {
			rs := []rune(s)
			err = pick(len(rs), func(i int64) { b.WriteRune(rs[i]) })
		}
		return sameText(o, b.String()), err
	case []byte:
		out := []byte{}
		err := pick(len(o), func(i int64) { out = append(out, o[i]) })
		return out, err
	case *jinjaRange:
		start, stop, step, err := n.bounds(r, o.len())
		return &jinjaRange{o.at(start), o.at(stop), o.step * step}, err
	case *JinjaUndefined:
		if o.Kind == JinjaChainable {
			return o, nil
		}
		return nil, o.fail()
	}
	if _, _, _, err := n.bounds(r, 0); err != nil {
		return nil, err
	}
	if _, ok := obj.(*Map); ok {
		return nil, jinjaTypeError("unhashable type: 'slice'")
	}
	return nil, jinjaTypeError("'%s' object is not subscriptable", TypeName(obj))
}

// bind evaluates the arguments of a call.
func (a *jArgs) bind(r *JinjaRun) ([]any, JinjaKwargs, error) {
	if len(a.args) == 0 && len(a.values) == 0 && a.dynArgs == nil && a.dynNamed == nil {
		return nil, nil, nil
	}
	args, err := evalAll(r, a.args)
	if err != nil {
		return nil, nil, err
	}
	var kw JinjaKwargs
	for i, e := range a.values {
		v, err := e.eval(r)
		if err != nil {
			return nil, nil, err
		}
		kw = append(kw, JinjaKwarg{a.names[i], v})
	}
	if a.dynArgs != nil {
		v, err := a.dynArgs.eval(r)
		if err != nil {
			return nil, nil, err
		}
		items, err := r.items(v)
		if isJinjaClass(err, "TypeError") {
			return nil, nil, jinjaTypeError("Value after * must be an iterable, not %s", TypeName(v))
		}
		if err != nil {
			return nil, nil, err
		}
		args = append(args, items...)
	}
	if a.dynNamed != nil {
		v, err := a.dynNamed.eval(r)
		if err != nil {
			return nil, nil, err
		}
		if u, ok := v.(*JinjaUndefined); ok {
			return nil, nil, u.fail()
		}
		m, ok := v.(*Map)
		if !ok {
			return nil, nil, jinjaTypeError("jinja2.sandbox.SandboxedEnvironment.call() argument after ** must be a mapping, not %s", TypeName(v))
		}
		for k, item := range m.All() {
			name, ok := textOf(k)
			if !ok {
				return nil, nil, jinjaTypeError("keywords must be strings")
			}
			if _, twice := kw.Get(name); twice {
				return nil, nil, jinjaTypeError("got multiple values for keyword argument %s", Repr(name))
			}
			kw = append(kw, JinjaKwarg{name, item})
		}
	}
	return args, kw, nil
}

func (n *jCall) eval(r *JinjaRun) (any, error) { return n.call(r, nil) }

// call calls with the written arguments and those that a tag adds.
func (n *jCall) call(r *JinjaRun, extra JinjaKwargs) (any, error) {
	// a method is called without making an object of it first
	if attr, ok := n.fn.(*jAttr); ok {
		obj, err := attr.obj.eval(r)
		if err != nil {
			return nil, err
		}
		if m := r.Env.methods.find(obj, attr.name); m != nil {
			args, kw, err := n.bind(r)
			if err != nil {
				return nil, err
			}
			return m.call(r, obj, args, append(kw, extra...))
		}
		fn, err := r.getAttr(obj, attr.name)
		if err != nil {
			return nil, err
		}
		return n.callValue(r, fn, extra)
	}
	fn, err := n.fn.eval(r)
	if err != nil {
		return nil, err
	}
	if name, ok := n.fn.(*jName); ok && name.name == "super" {
		if ref, ok := fn.(*jinjaBlockRef); ok {
			return ref.Call(r, nil, nil)
		}
	}
	return n.callValue(r, fn, extra)
}

func (n *jCall) callValue(r *JinjaRun, fn any, extra JinjaKwargs) (any, error) {
	args, kw, err := n.bind(r)
	if err != nil {
		return nil, err
	}
	return r.CallValue(fn, args, append(kw, extra...))
}

// CallValue calls what can be called.
func (r *JinjaRun) CallValue(fn any, args []any, kw JinjaKwargs) (any, error) {
	switch fn := fn.(type) {
	case JinjaCallable:
		return fn.Call(r, args, kw)
	case *JinjaUndefined:
		return nil, fn.fail()
	}
	return nil, jinjaTypeError("'%s' object is not callable", TypeName(fn))
}

func (n *jFilter) eval(r *JinjaRun) (any, error) {
	v, err := n.obj.eval(r)
	if err != nil {
		return nil, err
	}
	return n.apply(r, v)
}

func (n *jFilter) apply(r *JinjaRun, v any) (any, error) {
	f := n.entry
	if f == nil {
		return nil, jinjaErr(jinjaRuntimeClass, "No filter named %s found.", Repr(n.name))
	}
	args, kw, err := n.bind(r)
	if err != nil {
		return nil, err
	}
	return f.call(r, v, args, kw)
}

func (n *jTest) eval(r *JinjaRun) (any, error) {
	v, err := n.obj.eval(r)
	if err != nil {
		return nil, err
	}
	f := n.entry
	if f == nil {
		return nil, jinjaErr(jinjaRuntimeClass, "No test named %s found.", Repr(n.name))
	}
	args, kw, err := n.bind(r)
	if err != nil {
		return nil, err
	}
	return f.call(r, v, args, kw)
}
