// From high data to low chunks: one chunk for each function of each name, in the
// order in which they run.
//
// The law of this room: what comes in has passed the checks of states_high.go;
// the order of equal chunks is that of the files.
package main

import (
	"math"
	"sort"
)

// compileHigh turns checked high data into low chunks in their order.
// processed learns the SLS names, also of those without states.
func compileHigh(high *Map, processed map[string]bool, orchJID string) []*Map {
	var chunks []*Map
	for id, b := range high.All() {
		if hidden(id) {
			continue
		}
		body, ok := b.(*Map)
		if !ok {
			continue
		}
		if s, ok := body.Value("__sls__").(string); ok {
			processed[s] = true
		}
		for st, run := range body.All() {
			if hidden(st) {
				continue
			}
			chunk := NewMap("state", st, "name", id)
			if orchJID != "" {
				chunk.Set("__orchestration_jid__", orchJID)
			}
			for _, k := range []string{"__sls__", "__env__"} {
				if v, ok := body.Get(k); ok {
					chunk.Set(k, v)
				}
			}
			chunk.Set("__id__", id)
			var funs []string
			var names []any
			for _, arg := range toItems(run) {
				switch arg := arg.(type) {
				case string:
					if !containsText(funs, arg) {
						funs = append(funs, arg)
					}
				case *Map:
					for k, v := range arg.All() {
						switch key := Str(k); {
						case key == "names":
							names = appendNames(names, v)
						case key == "state":
						case key == "name" && TypeName(v) != "str":
							chunk.Set("name", id)
						default:
							chunk.Set(k, v)
						}
					}
				}
			}
			if len(names) == 0 {
				live := DeepCopy(chunk).(*Map)
				for _, fun := range funs {
					live.Set("fun", fun)
					chunks = append(chunks, live)
				}
				continue
			}
			for n, entry := range names {
				live := DeepCopy(chunk).(*Map)
				if m, ok := entry.(*Map); ok {
					k, args := firstKey(m)
					live.Set("name", k)
					for _, a := range toItems(args) {
						if am, ok := a.(*Map); ok {
							live.Merge(DeepCopy(am).(*Map))
						}
					}
				} else {
					live.Set("name", entry)
				}
				live.Set("name_order", int64(n+1))
				for _, fun := range funs {
					live.Set("fun", fun)
					chunks = append(chunks, live)
				}
			}
		}
	}
	return orderChunks(chunks)
}

func appendNames(names []any, v any) []any {
next:
	for _, item := range toItems(v) {
		for _, have := range names {
			if Equal(have, item) {
				continue next
			}
		}
		names = append(names, item)
	}
	return names
}

// wholeOrder reads an order that is a whole number; True counts as 1.
func wholeOrder(v any) (int64, bool) {
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

// orderChunks gives every chunk its order and sorts.
func orderChunks(chunks []*Map) []*Map {
	limit := int64(1)
	for _, c := range chunks {
		if n, ok := wholeOrder(c.Value("order")); ok && n > limit-1 && n > 0 {
			limit = n + 100
		}
	}
	type keyed struct {
		chunk *Map
		order float64
		tie   string
	}
	list := make([]keyed, 0, len(chunks))
	for _, c := range chunks {
		order, ok := c.Get("order")
		if !ok {
			c.Set("order", limit)
			list = append(list, keyed{c, float64(limit), ""})
			continue
		}
		switch v := order.(type) {
		case int64, float64, bool:
		case string:
			switch v {
			case "last":
				order = limit + 1000000
			case "first":
				order = int64(0)
			default:
				order = limit
			}
		default:
			order = limit
		}
		if n, ok := c.Get("name_order"); ok {
			c.Delete("name_order")
			f, _ := toFloat(order)
			m, _ := toFloat(n)
			order = f + m/10000
		}
		f, _ := toFloat(order)
		if n, ok := wholeOrder(order); ok {
			f = float64(n)
		}
		if f < 0 {
			f += float64(limit + 1000000)
			if _, isInt := order.(int64); isInt {
				order = int64(math.Round(f))
			} else {
				order = f
			}
		}
		c.Set("order", order)
		list = append(list, keyed{c, f, ""})
	}
	for i := range list {
		c := list[i].chunk
		list[i].tie = Str(c.Value("state")) + Str(c.Value("name")) + Str(c.Value("fun"))
	}
	sort.SliceStable(list, func(i, j int) bool {
		if list[i].order != list[j].order {
			return list[i].order < list[j].order
		}
		return list[i].tie < list[j].tie
	})
	for i, k := range list {
		chunks[i] = k.chunk
	}
	return chunks
}
