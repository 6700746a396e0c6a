// Going through values, as Python's for does.
package main

import (
	"strings"
	"unicode/utf8"
)

// jinjaIter walks over a value. Exactly one of its sources is set.
type jinjaIter struct {
	list  *List // grows and shrinks while it is walked
	items []any
	m     *Map // its keys
	size  int  // of m at the start
	view  *jinjaView
	rng   *jinjaRange
	text  string
	safe  bool
	it    *JinjaIterator
	pos   int
}

// iter starts a walk over v, or says that v cannot be walked over.
func (r *JinjaRun) iter(v any) (*jinjaIter, error) {
	switch v := v.(type) {
	case *List:
		return &jinjaIter{list: v}, nil
	case Tuple:
		return &jinjaIter{items: v}, nil
	case *Map:
		return &jinjaIter{m: v, size: v.Len()}, nil
	case *jinjaView:
		return &jinjaIter{view: v, size: v.m.Len()}, nil
	case *jinjaRange:
		return &jinjaIter{rng: v}, nil
	case string:
		return &jinjaIter{text: v}, nil
	case Markup:
		return &jinjaIter{text: string(v), safe: true}, nil
	case *JinjaIterator:
		return &jinjaIter{it: v}, nil
	case *Set:
		return &jinjaIter{items: v.Items()}, nil
	case *jinjaGroup:
		return &jinjaIter{items: []any{v.key, v.list}}, nil
	case *jinjaLoop:
		items := []any{}
		for {
			ok, err := v.advance()
			if err != nil {
				return nil, err
			}
			if !ok {
				return &jinjaIter{items: items}, nil
			}
			items = append(items, Tuple{v.cur, v})
		}
	case []byte:
		items := make([]any, len(v))
		for i, c := range v {
			items[i] = int64(c)
		}
		return &jinjaIter{items: items}, nil
	case *JinjaUndefined:
		if v.Kind == JinjaStrict || v.Class != "" {
			return nil, v.fail()
		}
		return &jinjaIter{}, nil
	case interface {
		IterItems(r *JinjaRun) ([]any, error)
	}:
		items, err := v.IterItems(r)
		return &jinjaIter{items: items}, err
	}
	return nil, jinjaTypeError("'%s' object is not iterable", TypeName(v))
}

// next returns the next item; ok is false at the end.
func (it *jinjaIter) next() (v any, ok bool, err error) {
	i := it.pos
	switch {
	case it.list != nil:
		if i < len(it.list.Items) {
			it.pos++
			return it.list.Items[i], true, nil
		}
	case it.m != nil:
		if it.m.Len() != it.size {
			return nil, false, jinjaErr("RuntimeError", "dictionary changed size during iteration")
		}
		if i < it.size {
			it.pos++
			k, _ := it.m.At(i)
			return k, true, nil
		}
	case it.view != nil:
		if it.view.m.Len() != it.size {
			return nil, false, jinjaErr("RuntimeError", "dictionary changed size during iteration")
		}
		if i < it.size {
			it.pos++
			return it.view.at(i), true, nil
		}
	case it.rng != nil:
		if int64(i) < it.rng.len() {
			it.pos++
			return it.rng.at(int64(i)), true, nil
		}
	case it.it != nil:
		return it.it.next()
	case it.text != "":
		if i < len(it.text) {
			_, n := utf8.DecodeRuneInString(it.text[i:])
			it.pos += n
			if it.safe {
				return Markup(it.text[i : i+n]), true, nil
			}
			return it.text[i : i+n], true, nil
		}
	default:
		if i < len(it.items) {
			it.pos++
			return it.items[i], true, nil
		}
	}
	return nil, false, nil
}

// len is the number of all items, -1 if only walking can tell.
func (it *jinjaIter) len() int64 {
	switch {
	case it.list != nil:
		return int64(len(it.list.Items))
	case it.m != nil:
		return int64(it.m.Len())
	case it.view != nil:
		return int64(it.view.m.Len())
	case it.rng != nil:
		return it.rng.len()
	case it.it != nil:
		return -1
	case it.text != "":
		return int64(utf8.RuneCountInString(it.text))
	}
	return int64(len(it.items))
}

// rest walks to the end.
func (it *jinjaIter) rest() ([]any, error) {
	var out []any
	for {
		v, ok, err := it.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return out, nil
		}
		out = append(out, v)
	}
}

// items returns everything in v, as list(v) does. The slice may be v's own.
func (r *JinjaRun) items(v any) ([]any, error) {
	switch v := v.(type) {
	case *List:
		return v.Items, nil
	case Tuple:
		return v, nil
	case *jinjaRange:
		n := v.len()
		if n > maxJinjaRange {
			return nil, rangeTooBig()
		}
		out := make([]any, n)
		for i := range out {
			out[i] = v.at(int64(i))
		}
		return out, nil
	case *JinjaIterator:
		return v.rest()
	}
	it, err := r.iter(v)
	if err != nil {
		return nil, err
	}
	out, err := it.rest()
	if err != nil {
		return nil, err
	}
	r.iterations += int64(len(out))
	if r.iterations > r.limits.Iterations {
		return nil, jinjaErr("RuntimeError", "the loops of the template ran more than %d times", r.limits.Iterations)
	}
	return out, nil
}

// length is len(v).
func (r *JinjaRun) length(v any) (int64, error) {
	switch v := v.(type) {
	case string:
		return int64(utf8.RuneCountInString(v)), nil
	case Markup:
		return int64(utf8.RuneCountInString(string(v))), nil
	case []byte:
		return int64(len(v)), nil
	case *List:
		return int64(len(v.Items)), nil
	case Tuple:
		return int64(len(v)), nil
	case *Map:
		return int64(v.Len()), nil
	case *Set:
		return int64(v.Len()), nil
	case *jinjaView:
		return int64(v.m.Len()), nil
	case *jinjaRange:
		return v.len(), nil
	case *jinjaGroup:
		return 2, nil
	case *jinjaLoop:
		return v.len()
	case *JinjaUndefined:
		if v.Kind == JinjaStrict || v.Class != "" {
			return 0, v.fail()
		}
		return 0, nil
	case interface{ Length() int64 }:
		return v.Length(), nil
	}
	return 0, jinjaTypeError("object of type '%s' has no len()", TypeName(v))
}

// contains is `v in container`.
func (r *JinjaRun) contains(container, v any) (bool, error) {
	among := func(items []any) (bool, error) {
		for _, item := range items {
			eq, err := r.equal(item, v)
			if eq || err != nil {
				return eq, err
			}
		}
		return false, nil
	}
	switch c := container.(type) {
	case string, Markup:
		s, _ := textOf(c)
		sub, ok := textOf(v)
		if !ok {
			if u, ok := v.(*JinjaUndefined); ok && u.Kind == JinjaStrict {
				return false, jinjaTypeError("'in <string>' requires string as left operand, not %s", TypeName(v))
			}
			return false, jinjaTypeError("'in <string>' requires string as left operand, not %s", TypeName(v))
		}
		return strings.Contains(s, sub), nil
	case *List:
		return among(c.Items)
	case Tuple:
		return among(c)
	case *Map:
		if k, ok := v.(string); ok {
			return c.Has(k), nil
		}
		if err := hashableError(v); err != nil {
			return false, err
		}
		return c.Has(v), nil
	case *Set:
		if err := hashableError(v); err != nil {
			return false, err
		}
		return c.Has(v), nil
	case *jinjaView:
		if c.kind == 'k' {
			return r.contains(c.m, v)
		}
		return among(c.items())
	case *jinjaRange:
		if i, ok := v.(int64); ok {
			d := i - c.start
			return c.len() > 0 && d%c.step == 0 && d/c.step >= 0 && d/c.step < c.len(), nil
		}
		if f, ok := v.(float64); ok && f == float64(int64(f)) {
			return r.contains(c, int64(f))
		}
		return false, nil
	case JinjaContainer:
		return c.Contains(r, v)
	case *JinjaUndefined:
		if c.Kind == JinjaStrict || c.Class != "" {
			return false, c.fail()
		}
		return false, nil
	case []byte:
		switch v := v.(type) {
		case int64:
			for _, b := range c {
				if int64(b) == v {
					return true, nil
				}
			}
			return false, nil
		case []byte:
			return strings.Contains(string(c), string(v)), nil
		}
		return false, jinjaTypeError("a bytes-like object is required, not '%s'", TypeName(v))
	case *JinjaIterator:
		items, err := c.rest()
		if err != nil {
			return false, err
		}
		return among(items)
	}
	if it, err := r.iter(container); err == nil {
		items, err := it.rest()
		if err != nil {
			return false, err
		}
		return among(items)
	}
	return false, jinjaTypeError("argument of type '%s' is not iterable", TypeName(container))
}
