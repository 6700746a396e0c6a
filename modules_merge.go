// Merging of mappings by Salt's strategies, and picking from a mapping by a
// grain or a pillar value: what grains, pillar, config and templates share.
package main

// dictUpdate puts upd on top of dest, mapping by mapping: dictupdate.update.
// Lists replace each other, or with mergeLists get what is new appended.
func dictUpdate(dest, upd *Map, mergeLists bool) *Map {
	for k, v := range upd.All() {
		have := dest.Value(k)
		if hm, ok := have.(*Map); ok {
			if vm, ok := v.(*Map); ok {
				dest.Set(k, dictUpdate(hm, vm, mergeLists))
				continue
			}
		}
		if hl, ok := have.(*List); ok && mergeLists {
			if vl, ok := v.(*List); ok {
				merged := NewList(hl.Items...)
				for _, item := range vl.Items {
					if !containsItem(hl.Items, item) {
						merged.Append(item)
					}
				}
				dest.Set(k, merged)
				continue
			}
		}
		dest.Set(k, v)
	}
	return dest
}

func containsItem(items []any, v any) bool {
	for _, item := range items {
		if Equal(item, v) {
			return true
		}
	}
	return false
}

// filterBy picks the value of lookup whose key (a glob) matches what stands
// under path in data; then default, then base and merge as in Salt.
func filterBy(lookup *Map, path string, data *Map, merge any, fallback any, base any) (any, error) {
	value, found := TraversePath(data, path, DefaultTargetDelim)
	if !found {
		value = nil
	}
	values := []any{value}
	switch v := value.(type) {
	case *List:
		values = v.Items
	case Tuple:
		values = v
	}
	var ret any
pick:
	for _, each := range values {
		for k, v := range lookup.All() {
			if GlobMatch(Str(k), Str(each)) {
				if ret = v; ret != nil {
					break pick
				}
				break
			}
		}
	}
	if ret == nil && Hashable(fallback) {
		ret = lookup.Value(fallback)
	}
	ret = DeepCopy(ret)
	if Truth(base) {
		if under, ok := lookup.Get(base); ok {
			um, isMap := under.(*Map)
			switch rm, ok := ret.(*Map); {
			case ret == nil:
				ret = DeepCopy(under)
			case isMap && ok:
				ret = dictUpdate(DeepCopy(um).(*Map), rm, false)
			case isMap:
				return nil, OtherErrorf("salt.exceptions.SaltException", "filter_by default and look-up values must both be dictionaries.")
			}
		}
	}
	if Truth(merge) {
		mm, ok := merge.(*Map)
		if !ok {
			return nil, OtherErrorf("salt.exceptions.SaltException", "filter_by merge argument must be a dictionary.")
		}
		if ret == nil {
			return DeepCopy(mm), nil
		}
		rm, ok := ret.(*Map)
		if !ok {
			return nil, OtherErrorf("TypeError", "Cannot update using non-dict types in dictupdate.update()")
		}
		ret = dictUpdate(rm, DeepCopy(mm).(*Map), false)
	}
	return ret, nil
}

// pyIsTrue is Salt's is_true: a number above 0, the text true, any other value
// that is true.
func pyIsTrue(v any) bool {
	if f, ok := toFloat(v); ok && v != nil {
		return f > 0
	}
	if s, ok := v.(string); ok {
		return s == "true" || s == "True" || s == "TRUE"
	}
	return Truth(v)
}
