// Salt's filters on lists and dicts, and the combinatoric ones.
package main

import (
	"strings"
)

func dataFilters() map[string]*JinjaFilter {
	in := func(r *JinjaRun, list []any, v any) (bool, error) { return r.contains(&List{Items: list}, v) }
	return map[string]*JinjaFilter{
		"sequence": jinjaFilter("ensure_sequence_filter", "", func(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			switch v.(type) {
			case *List, Tuple, *Set, *Map:
				return v, nil
			}
			return NewList(v), nil
		}),
		"unique": jinjaFilter("unique", "", func(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) { return r.uniqueItems(v) }),
		"min":    jinjaFilter("lst_min", "", extremeFilter("min", true)),
		"max":    jinjaFilter("lst_max", "", extremeFilter("max", false)),
		"avg": jinjaFilter("lst_avg", "", func(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			if Hashable(v) {
				_, f, _, ok := number(v)
				if s, isText := textOf(v); isText {
					if f, ok = parsePythonFloat(s); !ok {
						return nil, jinjaValueError("could not convert string to float: %s", Repr(s))
					}
				}
				if !ok {
					return nil, jinjaTypeError("float() argument must be a string or a real number, not '%s'", TypeName(v))
				}
				return f, nil
			}
			items, err := r.items(v)
			if err != nil {
				return nil, err
			}
			var total any = int64(0)
			for _, item := range items {
				if total, err = r.binary("+", total, item); err != nil {
					return nil, err
				}
			}
			return r.binary("/", total, int64(len(items)))
		}),
		"union": jinjaFilter("union", "lst2", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) { return r.union(v, a[0]) }),
		"intersect": jinjaFilter("intersect", "lst2", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			return r.setFilter(v, a[0], true, false)
		}),
		"difference": jinjaFilter("difference", "lst2", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			return r.setFilter(v, a[0], false, false)
		}),
		"symmetric_difference": jinjaFilter("symmetric_difference", "lst2", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			return r.setFilter(v, a[0], false, true)
		}),
		"is_list": jinjaFilter("is_list", "", func(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			_, ok := v.(*List)
			return ok, nil
		}),
		"is_iter": jinjaFilter("is_iter", "ignore=None", func(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) { return r.isIterable(v), nil }),
		"sorted_ignorecase": jinjaFilter("sorted_ignorecase", "", func(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			items, err := r.items(v)
			if err != nil {
				return nil, err
			}
			items = append([]any(nil), items...)
			keys := make([]any, len(items))
			for i, item := range items {
				s, ok := textOf(item)
				if !ok {
					return nil, jinjaErr("AttributeError", "'%s' object has no attribute 'lower'", TypeName(item))
				}
				keys[i] = strings.ToLower(s)
			}
			items, err = r.sorted(items, keys, false)
			return &List{Items: items}, err
		}),
		"compare_dicts": jinjaFilter("compare_dicts", "new=None", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			old, ok1 := v.(*Map)
			now, ok2 := a[0].(*Map)
			if !ok1 || !ok2 {
				return nil, jinjaTypeError("argument of type '%s' is not iterable", TypeName(v))
			}
			out := &Map{}
			for k, val := range now.All() {
				was, ok := old.Get(k)
				if !ok {
					out.Set(k, NewMap("old", "", "new", val))
				} else if same, err := r.equal(val, was); err != nil {
					return nil, err
				} else if !same {
					out.Set(k, NewMap("old", was, "new", val))
				}
			}
			for k, val := range old.All() {
				if !now.Has(k) {
					out.Set(k, NewMap("new", "", "old", val))
				}
			}
			return out, nil
		}),
		"compare_lists": jinjaFilter("compare_lists", "new=None", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			old, err := r.items(v)
			if err != nil {
				return nil, err
			}
			now, err := r.items(a[0])
			if err != nil {
				return nil, err
			}
			out := &Map{}
			for name, pair := range map[string][2][]any{"new": {now, old}, "old": {old, now}} {
				l := &List{}
				for _, item := range pair[0] {
					has, err := in(r, pair[1], item)
					if err != nil {
						return nil, err
					}
					if !has {
						l.Append(item)
					}
				}
				if l.Len() > 0 {
					out.Set(name, l)
				}
			}
			ordered := &Map{}
			for _, name := range []string{"new", "old"} {
				if l, ok := out.Get(name); ok {
					ordered.Set(name, l)
				}
			}
			return ordered, nil
		}),
		"exactly_n_true":   jinjaEntry('p', 0, "exactly_n", "amount=1", exactlyFilter),
		"exactly_one_true": jinjaEntry('p', 0, "exactly_one", "", exactlyFilter),
		"traverse": jinjaFilter("traverse_dict_and_list", "key, default=None, delimiter=':'", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			return traverseFilter(r, v, a)
		}),
		"substring_in_list": jinjaFilter("substr_in_list", "list_to_search", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			items, err := r.items(a[0])
			if err != nil {
				return nil, err
			}
			for _, item := range items {
				if has, err := r.contains(item, v); has || err != nil {
					return has, err
				}
			}
			return false, nil
		}),
		"flatten": jinjaFilter("flatten", "levels=None, preserve_nulls=False", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			levels := int64(-1)
			if a[0] != nil {
				var err error
				if levels, err = intArg(a[0]); err != nil {
					return nil, err
				}
				levels = max(levels, 0)
			}
			keep, err := r.truth(a[1])
			if err != nil {
				return nil, err
			}
			out := &List{}
			return out, r.flatten(v, levels, keep, out, map[any]bool{})
		}),
		"mysql_to_dict":                 jinjaFilter("mysql_to_dict", "key", mysqlFilter),
		"json_encode_dict":              jinjaFilter("encode_dict", "", bytesFilter),
		"json_decode_dict":              jinjaFilter("encode_dict", "", bytesFilter),
		"json_encode_list":              jinjaFilter("encode_list", "", bytesFilter),
		"json_decode_list":              jinjaFilter("encode_list", "", bytesFilter),
		"set_dict_key_value":            dictKeyFilter("set_dict_key_value", setLast),
		"update_dict_key_value":         dictKeyFilter("update_dict_key_value", updateLast),
		"append_dict_key_value":         dictKeyFilter("append_dict_key_value", appendLast),
		"extend_dict_key_value":         dictKeyFilter("extend_dict_key_value", extendLast),
		"combinations":                  combinatoric("combinations", "r", combinations(false)),
		"combinations_with_replacement": combinatoric("combinations_with_replacement", "r", combinations(true)),
		"permutations":                  combinatoric("permutations", "r=None", permutations),
		"product":                       combinatoric("product", "*args, **kwargs", product),
		"zip":                           combinatoric("zip", "*args, **kwargs", zipItems(false)),
		"zip_longest":                   combinatoric("zip_longest", "*args, **kwargs", zipItems(true)),
		"compress":                      combinatoric("compress", "selectors", compress),
		"random_sample":                 jinjaEntry('p', 0, "sample", "size, seed=None", sampleFilter),
		"random_shuffle": jinjaEntry('p', 0, "shuffle", "seed=None", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			n, err := r.length(v)
			if err != nil {
				return nil, err
			}
			return sampleFilter(r, v, []any{n, a[0]}, nil)
		}),
		"to_entries": jinjaFilter("to_entries", "", func(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			out := &List{}
			if l, ok := v.(*List); ok {
				for i, item := range l.Items {
					out.Append(NewMap("key", int64(i), "value", item))
				}
				return out, nil
			}
			m, ok := v.(*Map)
			if !ok {
				return nil, jinjaErr("AttributeError", "'%s' object has no attribute 'items'", TypeName(v))
			}
			for k, item := range m.All() {
				out.Append(NewMap("key", k, "value", item))
			}
			return out, nil
		}),
		"from_entries": jinjaFilter("from_entries", "", func(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			items, err := r.items(v)
			if err != nil {
				return nil, err
			}
			out := &Map{}
			for _, item := range items {
				m, _ := item.(*Map)
				pick := func(names ...string) any {
					for _, n := range names {
						if x, ok := m.Get(n); ok {
							return x
						}
					}
					return nil
				}
				k := pick("key", "Key", "name", "Name", "k", "K")
				if err := r.setItem(out, k, pick("value", "Value", "v", "V")); err != nil {
					return nil, err
				}
			}
			return out, nil
		}),
	}
}

func (r *JinjaRun) isIterable(v any) bool {
	switch v.(type) {
	case string, Markup:
		return false
	case *JinjaIterator:
		return true
	}
	_, err := r.iter(v)
	return err == nil
}

// uniqueItems is Salt's unique: a list stays in order, what can be hashed
// becomes a set.
func (r *JinjaRun) uniqueItems(v any) (any, error) {
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	if Hashable(v) {
		s := &Set{}
		for _, item := range items {
			if err := hashableError(item); err != nil {
				return nil, err
			}
			s.Add(item)
		}
		return s, nil
	}
	out := &List{}
	seen := &Set{} // of those that can be hashed
	for _, item := range items {
		if Hashable(item) {
			if u, ok := item.(*JinjaUndefined); ok && u.Kind == JinjaStrict {
				return nil, u.fail()
			}
			if !seen.Has(item) {
				seen.Add(item)
				out.Append(item)
			}
			continue
		}
		has, err := r.contains(out, item)
		if err != nil {
			return nil, err
		}
		if !has {
			out.Append(item)
		}
	}
	return out, nil
}

func (r *JinjaRun) union(a, b any) (any, error) {
	if Hashable(a) && Hashable(b) {
		return r.hashedSets(a, b, func(inA, inB bool) bool { return true })
	}
	both, err := r.binary("+", a, b)
	if err != nil {
		return nil, err
	}
	return r.uniqueItems(both)
}

// hashedSets combines two values that can be hashed as sets.
func (r *JinjaRun) hashedSets(a, b any, keep func(inA, inB bool) bool) (any, error) {
	sets := [2]*Set{{}, {}}
	for i, v := range []any{a, b} {
		items, err := r.items(v)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			if err := hashableError(item); err != nil {
				return nil, err
			}
			sets[i].Add(item)
		}
	}
	out := &Set{}
	for _, s := range sets {
		for _, item := range s.Items() {
			if keep(sets[0].Has(item), sets[1].Has(item)) {
				out.Add(item)
			}
		}
	}
	return out, nil
}

func (r *JinjaRun) setFilter(a, b any, common, symmetric bool) (any, error) {
	if Hashable(a) && Hashable(b) {
		return r.hashedSets(a, b, func(inA, inB bool) bool {
			if symmetric {
				return inA != inB
			}
			return inA && inB == common
		})
	}
	pick := func(from []any, in any, want bool) ([]any, error) {
		var out []any
		for _, item := range from {
			has, err := r.contains(in, item)
			if err != nil {
				return nil, err
			}
			if has == want {
				out = append(out, item)
			}
		}
		return out, nil
	}
	first, err := r.items(a)
	if err != nil {
		return nil, err
	}
	if symmetric {
		all, err := r.union(a, b)
		if err != nil {
			return nil, err
		}
		both, err := r.setFilter(a, b, true, false)
		if err != nil {
			return nil, err
		}
		items, err := r.items(all)
		if err != nil {
			return nil, err
		}
		out, err := pick(items, both, false)
		if err != nil {
			return nil, err
		}
		return r.uniqueItems(&List{Items: out})
	}
	out, err := pick(first, b, common)
	if err != nil {
		return nil, err
	}
	return r.uniqueItems(&List{Items: out})
}

func extremeFilter(name string, least bool) jinjaImpl {
	return func(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
		items, err := r.items(v)
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			return nil, jinjaValueError("%s() arg is an empty sequence", name)
		}
		return r.extreme(items, least, func(v any) (any, error) { return v, nil })
	}
}

func exactlyFilter(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	want := int64(1)
	if len(a) > 0 {
		if want, err = intArg(a[0]); err != nil {
			return nil, err
		}
	}
	n := int64(0)
	for _, item := range items {
		yes, err := r.truth(item)
		if err != nil {
			return nil, err
		}
		if yes {
			n++
		}
	}
	return n == max(want, 0), nil
}

func traverseFilter(r *JinjaRun, v any, a []any) (any, error) {
	var keys []any
	switch k := a[0].(type) {
	case string, Markup:
		s, _ := textOf(k)
		sep, err := strArg(a[2], "must be str or None, not ")
		if err != nil {
			return nil, err
		}
		for _, part := range strings.Split(s, sep) {
			keys = append(keys, part)
		}
	case int64:
		keys = []any{k}
	default:
		var err error
		if keys, err = r.items(k); err != nil {
			return nil, err
		}
	}
	return Traverse(v, keys, a[1]), nil
}

// Traverse follows a path of keys through dicts and lists. A number picks an
// item of a list, or a key of the dicts in the list; a key that is not there is
// tried again as YAML would read it.
func Traverse(v any, keys []any, def any) any {
	for _, key := range keys {
		switch c := v.(type) {
		case *List:
			index := key
			if s, ok := textOf(key); ok {
				if i, ok := parsePythonInt(s, 10); ok {
					index = i
				} else {
					index = nil
				}
			}
			if index == nil {
				index = key
			}
			found := false
			for _, item := range c.Items {
				if m, ok := item.(*Map); ok && Hashable(index) {
					if x, ok := m.Get(index); ok {
						v, found = x, true
						break
					}
				}
			}
			if found {
				continue
			}
			i, ok := indexOf(index)
			if !ok {
				return def
			}
			if i < 0 {
				i += int64(len(c.Items))
			}
			if i < 0 || i >= int64(len(c.Items)) {
				return def
			}
			v = c.Items[i]
		case *Map:
			if !Hashable(key) {
				return def
			}
			if x, ok := c.Get(key); ok {
				v = x
				continue
			}
			s, ok := key.(string)
			if !ok {
				return def
			}
			loaded, err := ParseYAML([]byte(s))
			if err != nil || !Hashable(loaded) || Equal(loaded, key) || loaded == nil {
				return def
			}
			x, ok := c.Get(loaded)
			if !ok {
				return def
			}
			v = x
		default:
			return def
		}
	}
	return v
}

// flatten appends the items of v, and those of the iterables in it, to out.
func (r *JinjaRun) flatten(v any, levels int64, keepNulls bool, out *List, ids map[any]bool) error {
	switch v.(type) {
	case *List, *Map, *Set:
		if ids[v] || len(ids) > 10000 {
			return jinjaErr("RecursionError", "Reference cycle detected. Check input list.")
		}
		ids[v] = true
	}
	items, err := r.items(v)
	if err != nil {
		return err
	}
	for _, item := range items {
		if !keepNulls {
			if s, ok := textOf(item); item == nil || ok && (s == "None" || s == "null") {
				continue
			}
		}
		if levels != 0 && r.isIterable(item) {
			if err := r.flatten(item, levels-1, keepNulls, out, ids); err != nil {
				return err
			}
			continue
		}
		out.Append(item)
	}
	return nil
}

func mysqlFilter(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	lines, err := r.items(v)
	if err != nil {
		return nil, err
	}
	out := &Map{}
	var headers []string
	for _, l := range lines {
		line, ok := textOf(l)
		if !ok || line == "" || line[0] == '+' {
			continue
		}
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimFunc(cells[i], isPythonSpace)
		}
		if len(headers) <= 1 {
			headers = cells
			continue
		}
		row := &Map{}
		for i := 1; i < len(headers)-1 && i < len(cells); i++ {
			n, err := numFilter(r, cells[i], nil, nil)
			if err != nil {
				return nil, err
			}
			row.Set(headers[i], n)
		}
		k, ok := row.Get(a[0])
		if !ok {
			return nil, jinjaErr("KeyError", "%s", Repr(a[0]))
		}
		out.Set(k, row)
	}
	return out, nil
}

// bytesFilter turns all texts in dicts and lists into bytes.
func bytesFilter(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
	switch v.(type) {
	case *Map, *List, Tuple:
		return encodeAll(v, 0), nil
	}
	return nil, jinjaErr("AttributeError", "'%s' object has no attribute 'items'", TypeName(v))
}

func encodeAll(v any, depth int) any {
	if depth > maxReprDepth {
		return nil
	}
	switch v := v.(type) {
	case string:
		return []byte(v)
	case Markup:
		return []byte(v)
	case *List:
		l := &List{}
		for _, item := range v.Items {
			l.Append(encodeAll(item, depth+1))
		}
		return l
	case Tuple:
		l := &List{}
		for _, item := range v {
			l.Append(encodeAll(item, depth+1))
		}
		return l
	case *Map:
		m := &Map{}
		for k, item := range v.All() {
			if s, ok := k.(string); ok {
				k = []byte(s)
			}
			m.Set(k, encodeAll(item, depth+1))
		}
		return m
	}
	return v
}
