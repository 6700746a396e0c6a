// Merging of mappings: the strategies that pillar and templates choose from.
package main

// UpdateMap merges upd into dest, mappings all the way down. Lists replace each
// other; with mergeLists what is new in upd is added to a copy of the old list.
func UpdateMap(dest, upd *Map, mergeLists bool) *Map {
	for k, v := range upd.All() {
		switch have := dest.Value(k).(type) {
		case *Map:
			if m, ok := v.(*Map); ok {
				UpdateMap(have, m, mergeLists)
				continue
			}
		case *List:
			if l, ok := v.(*List); ok && mergeLists {
				merged := DeepCopy(have).(*List)
				for _, item := range l.Items {
					if !containsItem(merged.Items, item) {
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

// MergeMaps merges b over a by a strategy: smart, recurse, aggregate, list,
// overwrite or none; an unknown one is recurse. renderer decides what smart is.
// Neither a nor b is changed, but overwrite changes a.
func MergeMaps(a, b *Map, strategy, renderer string, mergeLists bool) *Map {
	if strategy == "smart" || strategy == "" {
		strategy = "recurse"
		last := renderer
		for i := len(renderer) - 1; i >= 0; i-- {
			if renderer[i] == '|' {
				last = renderer[i+1:]
				break
			}
		}
		if last == "yamlex" || len(renderer) > 7 && renderer[:7] == "yamlex_" {
			strategy = "aggregate"
		}
	}
	switch strategy {
	case "list":
		out := &Map{}
		for k, v := range a.All() {
			if w, ok := b.Get(k); ok {
				v = NewList(v, w)
			}
			out.Set(k, v)
		}
		return out
	case "aggregate": // only the first level is merged
		out := a.Clone()
		out.Merge(b)
		return out
	case "overwrite":
		for k, v := range b.All() {
			if a.Has(k) {
				a.Set(k, v)
			}
		}
	case "none":
		mergeLists = false
	}
	return UpdateMap(DeepCopy(a).(*Map), b, mergeLists)
}
