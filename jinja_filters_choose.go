// Filters that choose among items or go over all of them: min, max,
// groupby, sum, map, select and reject.

package main

import ()

func filterMinMax(least bool) jinjaImpl {
	return func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
		items, err := r.items(v)
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			return r.undefinedHint("No aggregated item, sequence was empty."), nil
		}
		sensitive, err := r.truth(a[0])
		if err != nil {
			return nil, err
		}
		get := attrGetter(r, a[1], nil)
		return r.extreme(items, least, func(item any) (any, error) {
			key, err := get(item)
			if err == nil && !sensitive {
				key = lowered(key)
			}
			return key, err
		})
	}
}

// extreme is min or max of at least one item.
func (r *JinjaRun) extreme(items []any, least bool, key func(any) (any, error)) (any, error) {
	best := items[0]
	bestKey, err := key(best)
	if err != nil {
		return nil, err
	}
	op := "gt"
	if least {
		op = "lt"
	}
	for _, item := range items[1:] {
		k, err := key(item)
		if err != nil {
			return nil, err
		}
		better, err := r.compare(op, k, bestKey)
		if err != nil {
			return nil, err
		}
		if better {
			best, bestKey = item, k
		}
	}
	return best, nil
}

func filterGroupby(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	sensitive, err := r.truth(a[2])
	if err != nil {
		return nil, err
	}
	get := attrGetter(r, a[0], a[1])
	items = append([]any(nil), items...)
	keyOf := func(item any) (any, error) {
		k, err := get(item)
		if err == nil && !sensitive {
			k = lowered(k)
		}
		return k, err
	}
	keys := make([]any, len(items))
	for i, item := range items {
		if keys[i], err = keyOf(item); err != nil {
			return nil, err
		}
	}
	if items, err = r.sorted(items, keys, false); err != nil {
		return nil, err
	}
	out := &List{}
	var last any
	for _, item := range items {
		k, err := keyOf(item)
		if err != nil {
			return nil, err
		}
		if n := len(out.Items); n > 0 {
			same, err := r.equal(last, k)
			if err != nil {
				return nil, err
			}
			if same {
				g := out.Items[n-1].(*jinjaGroup)
				g.list.Append(item)
				continue
			}
		}
		last = k
		if !sensitive { // the group is called as its first member is
			if k, err = get(item); err != nil {
				return nil, err
			}
		}
		out.Append(&jinjaGroup{k, NewList(item)})
	}
	return out, nil
}

func filterSum(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	get := attrGetter(r, a[0], nil)
	total := a[1]
	if _, ok := textOf(total); ok {
		return nil, jinjaTypeError("sum() can't sum strings [use ''.join(seq) instead]")
	}
	for _, item := range items {
		if item, err = get(item); err != nil {
			return nil, err
		}
		if total, err = r.binary("+", total, item); err != nil {
			return nil, err
		}
	}
	return total, nil
}

func filterMap(r *JinjaRun, v any, a []any, kw JinjaKwargs) (any, error) {
	return newJinjaIterator("sync_do_map ", func() ([]any, error) {
		if yes, err := r.truth(v); err != nil || !yes {
			return nil, err
		}
		var apply func(item any) (any, error)
		if attribute, ok := kw.Get("attribute"); ok && len(a) == 0 {
			def, _ := kw.Get("default")
			for _, k := range kw {
				if k.Name != "attribute" && k.Name != "default" {
					return nil, jinjaErr(jinjaFilterArgClass, "Unexpected keyword argument %s", Repr(k.Name))
				}
			}
			apply = attrGetter(r, attribute, def)
		} else {
			if len(a) == 0 {
				return nil, jinjaErr(jinjaFilterArgClass, "map requires a filter argument")
			}
			name := Str(a[0])
			f := r.Env.Filters[name]
			if f == nil {
				return nil, jinjaErr(jinjaRuntimeClass, "No filter named %s.", Repr(name))
			}
			apply = func(item any) (any, error) { return f.call(r, item, a[1:], kw) }
		}
		return r.mapItems(v, apply)
	}), nil
}

func (r *JinjaRun) mapItems(v any, apply func(any) (any, error)) ([]any, error) {
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	out := make([]any, len(items))
	for i, item := range items {
		if out[i], err = apply(item); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func filterSelect(name string, want, byAttr bool) jinjaImpl {
	return func(r *JinjaRun, v any, a []any, kw JinjaKwargs) (any, error) {
		return newJinjaIterator(name+" ", func() ([]any, error) {
			if yes, err := r.truth(v); err != nil || !yes {
				return nil, err
			}
			args := a
			get := func(item any) (any, error) { return item, nil }
			if byAttr {
				if len(args) == 0 {
					return nil, jinjaErr(jinjaFilterArgClass, "Missing parameter for attribute name")
				}
				get = attrGetter(r, args[0], nil)
				args = args[1:]
			}
			test := func(item any) (any, error) { return item, nil }
			if len(args) > 0 {
				f := r.Env.Tests[Str(args[0])]
				if f == nil {
					return nil, jinjaErr(jinjaRuntimeClass, "No test named %s.", Repr(args[0]))
				}
				test = func(item any) (any, error) { return f.call(r, item, args[1:], kw) }
			}
			items, err := r.items(v)
			if err != nil {
				return nil, err
			}
			var out []any
			for _, item := range items {
				x, err := get(item)
				if err != nil {
					return nil, err
				}
				if x, err = test(x); err != nil {
					return nil, err
				}
				yes, err := r.truth(x)
				if err != nil {
					return nil, err
				}
				if yes == want {
					out = append(out, item)
				}
			}
			return out, nil
		}), nil
	}
}
