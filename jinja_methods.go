// Python's methods of lists, dicts, tuples, sets, numbers and bytes, as
// templates call them. Those of texts are in jinja_methods_text.go.
package main

import (
	"math"
	"math/big"
	"math/bits"
)

// jinjaMethodTables are the methods by type.
type jinjaMethodTables struct {
	text, list, dict, tuple, set, integer, float, bytes, view, rng map[string]*JinjaFilter
}

func newJinjaMethods() *jinjaMethodTables {
	return &jinjaMethodTables{text: textMethods(), list: listMethods(), dict: dictMethods(), tuple: tupleMethods(),
		set: setMethods(), integer: intMethods(), float: floatMethods(), bytes: bytesMethods(),
		view: viewMethods(), rng: rangeMethods()}
}

// find finds a method of a value.
func (t *jinjaMethodTables) find(v any, name string) *JinjaFilter {
	switch v.(type) {
	case string, Markup:
		return t.text[name]
	case *Map:
		return t.dict[name]
	case *List:
		return t.list[name]
	case Tuple, *jinjaGroup:
		return t.tuple[name]
	case *Set:
		return t.set[name]
	case int64, bool, *big.Int:
		return t.integer[name]
	case float64:
		return t.float[name]
	case []byte:
		return t.bytes[name]
	case *jinjaView:
		return t.view[name]
	case *jinjaRange:
		return t.rng[name]
	}
	return nil
}

func (r *JinjaRun) indexIn(items []any, a []any, notFound string, args ...any) (any, error) {
	start, stop := int64(0), int64(len(items))
	for i, p := range []*int64{&start, &stop} {
		if len(a) > i+1 && a[i+1] != nil {
			n, err := intArg(a[i+1])
			if err != nil {
				return nil, err
			}
			if n < 0 {
				n = max(n+int64(len(items)), 0)
			}
			*p = n
		}
	}
	for i := start; i < stop && i < int64(len(items)); i++ {
		eq, err := r.equal(items[i], a[0])
		if err != nil {
			return nil, err
		}
		if eq {
			return i, nil
		}
	}
	return nil, jinjaValueError(notFound, args...)
}

func (r *JinjaRun) countIn(items []any, v any) (any, error) {
	n := int64(0)
	for _, item := range items {
		eq, err := r.equal(item, v)
		if err != nil {
			return nil, err
		}
		if eq {
			n++
		}
	}
	return n, nil
}

func listMethods() map[string]*JinjaFilter {
	method := func(name, sig string, fn func(r *JinjaRun, l *List, a []any) (any, error)) *JinjaFilter {
		return jinjaMethod("list."+name, sig, func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			return fn(r, v.(*List), a)
		})
	}
	clampIndex := func(i int64, n int) int64 {
		if i < 0 {
			i += int64(n)
		}
		return max(0, min(i, int64(n)))
	}
	return map[string]*JinjaFilter{
		"append": method("append", "object", func(r *JinjaRun, l *List, a []any) (any, error) {
			l.Items = append(l.Items, a[0])
			return nil, nil
		}),
		"clear": method("clear", "", func(r *JinjaRun, l *List, a []any) (any, error) {
			l.Items = nil
			return nil, nil
		}),
		"copy": method("copy", "", func(r *JinjaRun, l *List, a []any) (any, error) {
			return &List{Items: append([]any(nil), l.Items...)}, nil
		}),
		"count": method("count", "value", func(r *JinjaRun, l *List, a []any) (any, error) { return r.countIn(l.Items, a[0]) }),
		"extend": method("extend", "iterable", func(r *JinjaRun, l *List, a []any) (any, error) {
			items, err := r.items(a[0])
			if err != nil {
				return nil, err
			}
			if err := r.grow(16 * len(items)); err != nil {
				return nil, err
			}
			l.Items = append(l.Items, items...)
			return nil, nil
		}),
		"index": method("index", "value, start=None, stop=None", func(r *JinjaRun, l *List, a []any) (any, error) {
			return r.indexIn(l.Items, a, "%s is not in list", Repr(a[0]))
		}),
		"insert": method("insert", "index, object", func(r *JinjaRun, l *List, a []any) (any, error) {
			i, err := intArg(a[0])
			if err != nil {
				return nil, err
			}
			i = clampIndex(i, len(l.Items))
			l.Items = append(l.Items, nil)
			copy(l.Items[i+1:], l.Items[i:])
			l.Items[i] = a[1]
			return nil, nil
		}),
		"pop": method("pop", "index=-1", func(r *JinjaRun, l *List, a []any) (any, error) {
			i, err := intArg(a[0])
			if err != nil {
				return nil, err
			}
			if len(l.Items) == 0 {
				return nil, jinjaErr("IndexError", "pop from empty list")
			}
			if i < 0 {
				i += int64(len(l.Items))
			}
			if i < 0 || i >= int64(len(l.Items)) {
				return nil, jinjaErr("IndexError", "pop index out of range")
			}
			v := l.Items[i]
			l.Items = append(l.Items[:i], l.Items[i+1:]...)
			return v, nil
		}),
		"remove": method("remove", "value", func(r *JinjaRun, l *List, a []any) (any, error) {
			i, err := r.indexIn(l.Items, a, "list.remove(x): x not in list")
			if err != nil {
				return nil, err
			}
			k := i.(int64)
			l.Items = append(l.Items[:k], l.Items[k+1:]...)
			return nil, nil
		}),
		"reverse": method("reverse", "", func(r *JinjaRun, l *List, a []any) (any, error) {
			reverseItems(l.Items)
			return nil, nil
		}),
		"sort": method("sort", "key=None, reverse=False", func(r *JinjaRun, l *List, a []any) (any, error) {
			var keys []any
			if a[0] != nil {
				for _, item := range l.Items {
					k, err := r.CallValue(a[0], []any{item}, nil)
					if err != nil {
						return nil, err
					}
					keys = append(keys, k)
				}
			}
			reverse, err := r.truth(a[1])
			if err != nil {
				return nil, err
			}
			_, err = r.sorted(l.Items, keys, reverse)
			return nil, err
		}),
	}
}

func reverseItems(items []any) {
	for i, j := 0, len(items)-1; i < j; i, j = i+1, j-1 {
		items[i], items[j] = items[j], items[i]
	}
}

// sorted sorts in place; strictly undefined items are an error.
func (r *JinjaRun) sorted(items, keys []any, reverse bool) ([]any, error) {
	look := keys
	if look == nil {
		look = items
	}
	for _, k := range look {
		if u, ok := k.(*JinjaUndefined); ok && len(look) > 1 {
			return nil, u.fail()
		}
		if l, ok := k.(*List); ok && keys != nil {
			for _, part := range l.Items {
				if u, ok := part.(*JinjaUndefined); ok && len(look) > 1 {
					return nil, u.fail()
				}
			}
		}
	}
	out, err := sortValuesBy(items, keys, reverse)
	if err != nil {
		return nil, jinjaTypeError("%s", err)
	}
	return out, nil
}

func dictMethods() map[string]*JinjaFilter {
	method := func(name, sig string, fn func(r *JinjaRun, m *Map, a []any, kw JinjaKwargs) (any, error)) *JinjaFilter {
		return jinjaMethod("dict."+name, sig, func(r *JinjaRun, v any, a []any, kw JinjaKwargs) (any, error) {
			return fn(r, v.(*Map), a, kw)
		})
	}
	view := func(kind byte) func(r *JinjaRun, m *Map, a []any, kw JinjaKwargs) (any, error) {
		return func(r *JinjaRun, m *Map, a []any, kw JinjaKwargs) (any, error) { return &jinjaView{m, kind}, nil }
	}
	return map[string]*JinjaFilter{
		"clear": method("clear", "", func(r *JinjaRun, m *Map, a []any, kw JinjaKwargs) (any, error) {
			*m = Map{}
			return nil, nil
		}),
		"copy": method("copy", "", func(r *JinjaRun, m *Map, a []any, kw JinjaKwargs) (any, error) { return m.Clone(), nil }),
		"fromkeys": method("fromkeys", "iterable, value=None", func(r *JinjaRun, _ *Map, a []any, kw JinjaKwargs) (any, error) {
			items, err := r.items(a[0])
			if err != nil {
				return nil, err
			}
			m := &Map{}
			for _, k := range items {
				if err := r.setItem(m, k, a[1]); err != nil {
					return nil, err
				}
			}
			return m, nil
		}),
		"get": method("get", "key, default=None", func(r *JinjaRun, m *Map, a []any, kw JinjaKwargs) (any, error) {
			if err := keyError(a[0]); err != nil {
				return nil, err
			}
			if v, ok := m.Get(a[0]); ok {
				return v, nil
			}
			return a[1], nil
		}),
		"items":  method("items", "", view('i')),
		"keys":   method("keys", "", view('k')),
		"values": method("values", "", view('v')),
		"pop": jinjaMethod("dict.pop", "key, *args", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			m := v.(*Map)
			if len(a) > 2 {
				return nil, jinjaTypeError("pop expected at most 2 arguments, got %d", len(a))
			}
			if err := keyError(a[0]); err != nil {
				return nil, err
			}
			if v, ok := m.Get(a[0]); ok {
				m.Delete(a[0])
				return v, nil
			}
			if len(a) == 2 {
				return a[1], nil
			}
			return nil, jinjaErr("KeyError", "%s", Repr(a[0]))
		}),
		"popitem": method("popitem", "", func(r *JinjaRun, m *Map, a []any, kw JinjaKwargs) (any, error) {
			if m.Len() == 0 {
				return nil, jinjaErr("KeyError", "'popitem(): dictionary is empty'")
			}
			k, v := m.At(m.Len() - 1)
			m.Delete(k)
			return Tuple{k, v}, nil
		}),
		"setdefault": method("setdefault", "key, default=None", func(r *JinjaRun, m *Map, a []any, kw JinjaKwargs) (any, error) {
			if err := keyError(a[0]); err != nil {
				return nil, err
			}
			if v, ok := m.Get(a[0]); ok {
				return v, nil
			}
			m.Set(a[0], a[1])
			return a[1], nil
		}),
		"update": jinjaMethod("dict.update", "*args, **kwargs", func(r *JinjaRun, v any, a []any, kw JinjaKwargs) (any, error) {
			if len(a) > 1 {
				return nil, jinjaTypeError("update expected at most 1 argument, got %d", len(a))
			}
			return nil, r.updateMap(v.(*Map), a, kw)
		}),
	}
}

// keyError refuses what cannot be a key.
func keyError(k any) error {
	if _, ok := k.(string); ok {
		return nil
	}
	return hashableError(k)
}

// updateMap is dict.update(*a, **kw).
func (r *JinjaRun) updateMap(m *Map, a []any, kw JinjaKwargs) error {
	if len(a) > 0 {
		if other, ok := a[0].(*Map); ok {
			if other != m {
				m.Merge(other)
			}
		} else {
			items, err := r.items(a[0])
			if err != nil {
				return err
			}
			for i, item := range items {
				pair, err := r.items(item)
				if err != nil {
					return jinjaTypeError("cannot convert dictionary update sequence element #%d to a sequence", i)
				}
				if len(pair) != 2 {
					return jinjaValueError("dictionary update sequence element #%d has length %d; 2 is required", i, len(pair))
				}
				if err := r.setItem(m, pair[0], pair[1]); err != nil {
					return err
				}
			}
		}
	}
	for _, k := range kw {
		m.Set(k.Name, k.Value)
	}
	return nil
}

func tupleMethods() map[string]*JinjaFilter {
	items := func(v any) []any {
		if g, ok := v.(*jinjaGroup); ok {
			return []any{g.key, g.list}
		}
		return v.(Tuple)
	}
	return map[string]*JinjaFilter{
		"count": jinjaMethod("tuple.count", "value", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			return r.countIn(items(v), a[0])
		}),
		"index": jinjaMethod("tuple.index", "value, start=None, stop=None", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			return r.indexIn(items(v), a, "tuple.index(x): x not in tuple")
		}),
	}
}

func setMethods() map[string]*JinjaFilter {
	method := func(name, sig string, fn func(r *JinjaRun, s *Set, a []any) (any, error)) *JinjaFilter {
		return jinjaMethod("set."+name, sig, func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) { return fn(r, v.(*Set), a) })
	}
	others := func(r *JinjaRun, a []any) (*Set, error) {
		out := &Set{}
		for _, arg := range a {
			items, err := r.items(arg)
			if err != nil {
				return nil, err
			}
			for _, item := range items {
				if err := hashableError(item); err != nil {
					return nil, err
				}
				out.Add(item)
			}
		}
		return out, nil
	}
	// combine makes a new set: keep says which items of s stay, and add is added
	combine := func(keep func(in bool) bool, addOthers func(inS bool) bool) func(r *JinjaRun, s *Set, a []any) (any, error) {
		return func(r *JinjaRun, s *Set, a []any) (any, error) {
			o, err := others(r, a)
			if err != nil {
				return nil, err
			}
			out := &Set{}
			for _, item := range s.Items() {
				if keep(o.Has(item)) {
					out.Add(item)
				}
			}
			for _, item := range o.Items() {
				if addOthers(s.Has(item)) {
					out.Add(item)
				}
			}
			return out, nil
		}
	}
	yes, no := func(bool) bool { return true }, func(bool) bool { return false }
	in, out := func(b bool) bool { return b }, func(b bool) bool { return !b }
	relation := func(test func(s, o *Set) bool) func(r *JinjaRun, s *Set, a []any) (any, error) {
		return func(r *JinjaRun, s *Set, a []any) (any, error) {
			o, err := others(r, a)
			if err != nil {
				return nil, err
			}
			return test(s, o), nil
		}
	}
	within := func(a, b *Set) bool {
		for _, item := range a.Items() {
			if !b.Has(item) {
				return false
			}
		}
		return true
	}
	return map[string]*JinjaFilter{
		"add": method("add", "elem", func(r *JinjaRun, s *Set, a []any) (any, error) {
			if err := hashableError(a[0]); err != nil {
				return nil, err
			}
			s.Add(a[0])
			return nil, nil
		}),
		"clear": method("clear", "", func(r *JinjaRun, s *Set, a []any) (any, error) { *s = Set{}; return nil, nil }),
		"copy":  method("copy", "", func(r *JinjaRun, s *Set, a []any) (any, error) { return NewSet(s.Items()...), nil }),
		"discard": method("discard", "elem", func(r *JinjaRun, s *Set, a []any) (any, error) {
			s.Remove(a[0])
			return nil, nil
		}),
		"remove": method("remove", "elem", func(r *JinjaRun, s *Set, a []any) (any, error) {
			if !s.Remove(a[0]) {
				return nil, jinjaErr("KeyError", "%s", Repr(a[0]))
			}
			return nil, nil
		}),
		"pop": method("pop", "", func(r *JinjaRun, s *Set, a []any) (any, error) {
			if s.Len() == 0 {
				return nil, jinjaErr("KeyError", "'pop from an empty set'")
			}
			v := s.Items()[0]
			s.Remove(v)
			return v, nil
		}),
		"union":                method("union", "*others", combine(yes, yes)),
		"intersection":         method("intersection", "*others", combine(in, no)),
		"difference":           method("difference", "*others", combine(out, no)),
		"symmetric_difference": method("symmetric_difference", "other", combine(out, out)),
		"issubset":             method("issubset", "other", relation(within)),
		"issuperset":           method("issuperset", "other", relation(func(s, o *Set) bool { return within(o, s) })),
		"isdisjoint": method("isdisjoint", "other", relation(func(s, o *Set) bool {
			for _, item := range s.Items() {
				if o.Has(item) {
					return false
				}
			}
			return true
		})),
		"update": method("update", "*others", func(r *JinjaRun, s *Set, a []any) (any, error) {
			o, err := others(r, a)
			if err != nil {
				return nil, err
			}
			for _, item := range o.Items() {
				s.Add(item)
			}
			return nil, nil
		}),
	}
}

func intMethods() map[string]*JinjaFilter {
	big_ := func(v any) *big.Int { i, _, _, _ := number(v); return i }
	return map[string]*JinjaFilter{
		"bit_length": jinjaMethod("int.bit_length", "", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			return int64(big_(v).BitLen()), nil
		}),
		"bit_count": jinjaMethod("int.bit_count", "", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			n := 0
			for _, w := range new(big.Int).Abs(big_(v)).Bits() {
				n += bits.OnesCount(uint(w))
			}
			return int64(n), nil
		}),
		"conjugate": jinjaMethod("int.conjugate", "", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) { return normalInt(big_(v)), nil }),
		"as_integer_ratio": jinjaMethod("int.as_integer_ratio", "", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			return Tuple{normalInt(big_(v)), int64(1)}, nil
		}),
	}
}

func floatMethods() map[string]*JinjaFilter {
	return map[string]*JinjaFilter{
		"is_integer": jinjaMethod("float.is_integer", "", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			f := v.(float64)
			return f == math.Trunc(f) && !math.IsInf(f, 0), nil
		}),
		"conjugate": jinjaMethod("float.conjugate", "", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) { return v, nil }),
		"as_integer_ratio": jinjaMethod("float.as_integer_ratio", "", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			q := new(big.Rat).SetFloat64(v.(float64))
			if q == nil {
				return nil, jinjaValueError("cannot convert NaN to integer ratio")
			}
			return Tuple{normalInt(q.Num()), normalInt(q.Denom())}, nil
		}),
	}
}

func bytesMethods() map[string]*JinjaFilter {
	return map[string]*JinjaFilter{
		"decode": jinjaMethod("bytes.decode", "encoding='utf-8', errors='strict'", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			enc, err := strArg(a[0], "decode() argument 'encoding' must be str, not ")
			if err != nil {
				return nil, err
			}
			return jinjaDecode(v.([]byte), enc, Str(a[1]))
		}),
		"hex": jinjaMethod("bytes.hex", "", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			const digits = "0123456789abcdef"
			out := make([]byte, 0, 2*len(v.([]byte)))
			for _, c := range v.([]byte) {
				out = append(out, digits[c>>4], digits[c&15])
			}
			return string(out), nil
		}),
	}
}

func viewMethods() map[string]*JinjaFilter {
	return map[string]*JinjaFilter{
		"isdisjoint": jinjaMethod("dict_keys.isdisjoint", "other", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			for _, item := range v.(*jinjaView).items() {
				if in, err := r.contains(a[0], item); err != nil || in {
					return false, err
				}
			}
			return true, nil
		}),
	}
}

func rangeMethods() map[string]*JinjaFilter {
	return map[string]*JinjaFilter{
		"count": jinjaMethod("range.count", "value", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			in, err := r.contains(v, a[0])
			if in {
				return int64(1), err
			}
			return int64(0), err
		}),
		"index": jinjaMethod("range.index", "value", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			in, err := r.contains(v, a[0])
			if err != nil {
				return nil, err
			}
			i, ok := a[0].(int64)
			if !in || !ok {
				return nil, jinjaValueError("%s is not in range", Repr(a[0]))
			}
			g := v.(*jinjaRange)
			return (i - g.start) / g.step, nil
		}),
	}
}
