// Lists and mappings that grains, pillar, config and templates look into: picking
// a part by the value of a grain or a pillar.
package main

// containsItem says whether a list has a value that is equal.
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
				ret = UpdateMap(DeepCopy(um).(*Map), rm, false)
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
		ret = UpdateMap(rm, DeepCopy(mm).(*Map), false)
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
