// Filters that change a value deep in a mapping, and that combine sequences.
package main

import (
	"strings"
)

// dictKeyFilter makes the filters that change something deep in a dict.
func dictKeyFilter(name string, change func(r *JinjaRun, m *Map, key string, v any) error) *JinjaFilter {
	return jinjaEntry('p', 1, name, "keys, value, delimiter=':', ordered_dict=False", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
		m, ok := v.(*Map)
		if !ok {
			if u, undefined := v.(*JinjaUndefined); undefined {
				return nil, u.fail()
			}
			return nil, jinjaTypeError("'%s' object does not support item assignment", TypeName(v))
		}
		path, err := strArg(a[0], "argument of type ")
		if err != nil {
			return nil, err
		}
		sep, err := strArg(a[2], "must be str or None, not ")
		if err != nil {
			return nil, err
		}
		keys := strings.Split(path, sep)
		for _, k := range keys[:len(keys)-1] {
			next, ok := m.Value(k).(*Map)
			if !ok {
				next = &Map{}
				m.Set(k, next)
			}
			m = next
		}
		return v, change(r, m, keys[len(keys)-1], a[1])
	})
}

func setLast(_ *JinjaRun, m *Map, key string, v any) error {
	m.Set(key, v)
	return nil
}

func saltInvocation(format string, args ...any) error {
	return jinjaErr("salt.exceptions.SaltInvocationError", format, args...)
}

func pythonType(v any) string { return "<class '" + TypeName(v) + "'>" }

func updateLast(r *JinjaRun, m *Map, key string, v any) error {
	if m.Value(key) == nil {
		m.Set(key, &Map{})
	}
	last, ok := m.Value(key).(*Map)
	if !ok {
		return saltInvocation("The last key contains a %s, which cannot update.", pythonType(m.Value(key)))
	}
	if err := r.updateMap(last, []any{v}, nil); err != nil {
		return saltInvocation("Cannot update %s with a %s.", pythonType(last), pythonType(v))
	}
	return nil
}

func appendLast(_ *JinjaRun, m *Map, key string, v any) error {
	if m.Value(key) == nil {
		m.Set(key, &List{})
	}
	last, ok := m.Value(key).(*List)
	if !ok {
		return saltInvocation("The last key contains a %s, which cannot append.", pythonType(m.Value(key)))
	}
	last.Append(v)
	return nil
}

func extendLast(r *JinjaRun, m *Map, key string, v any) error {
	if m.Value(key) == nil {
		m.Set(key, &List{})
	}
	last, ok := m.Value(key).(*List)
	if !ok {
		return saltInvocation("The last key contains a %s, which cannot extend.", pythonType(m.Value(key)))
	}
	items, err := r.items(v)
	if err != nil {
		return saltInvocation("Cannot extend %s with a %s.", pythonType(last), pythonType(v))
	}
	last.Append(items...)
	return nil
}

// maxCombinations bounds what the combinatoric filters make.
const maxCombinations = 1_000_000

// combinatoric is a filter that makes an iterator of tuples.
func combinatoric(name, sig string, fn func(r *JinjaRun, items []any, v any, a []any, kw JinjaKwargs) ([]any, error)) *JinjaFilter {
	return jinjaFilter(name, sig, func(r *JinjaRun, v any, a []any, kw JinjaKwargs) (any, error) {
		if u := strictUndefined(v); u != nil {
			return u, nil
		}
		if _, err := r.iter(v); err != nil {
			return nil, err
		}
		return newJinjaIterator("itertools."+name, func() ([]any, error) {
			items, err := r.items(v)
			if err != nil {
				return nil, err
			}
			return fn(r, items, v, a, kw)
		}), nil
	})
}

func tooManyCombinations() error {
	return jinjaErr("MemoryError", "more than %d combinations", maxCombinations)
}

func combinations(again bool) func(r *JinjaRun, items []any, v any, a []any, kw JinjaKwargs) ([]any, error) {
	return func(r *JinjaRun, items []any, _ any, a []any, _ JinjaKwargs) ([]any, error) {
		n, err := intArg(a[0])
		if err != nil {
			return nil, err
		}
		if n < 0 {
			return nil, jinjaValueError("r must be non-negative")
		}
		var out []any
		pick := make([]int, 0, min(n, 64))
		var walk func(from int) error
		walk = func(from int) error {
			if int64(len(pick)) == n {
				if len(out) >= maxCombinations {
					return tooManyCombinations()
				}
				t := make(Tuple, len(pick))
				for i, k := range pick {
					t[i] = items[k]
				}
				out = append(out, t)
				return r.step()
			}
			for k := from; k < len(items); k++ {
				pick = append(pick, k)
				next := k + 1
				if again {
					next = k
				}
				if err := walk(next); err != nil {
					return err
				}
				pick = pick[:len(pick)-1]
			}
			return nil
		}
		if !again && n > int64(len(items)) || n > 10000 {
			return nil, nil
		}
		return out, walk(0)
	}
}

func permutations(r *JinjaRun, items []any, _ any, a []any, _ JinjaKwargs) ([]any, error) {
	n := int64(len(items))
	if a[0] != nil {
		var err error
		if n, err = intArg(a[0]); err != nil {
			return nil, err
		}
	}
	if n < 0 {
		return nil, jinjaValueError("r must be non-negative")
	}
	if n > int64(len(items)) {
		return nil, nil
	}
	var out []any
	used := make([]bool, len(items))
	pick := Tuple{}
	var walk func() error
	walk = func() error {
		if int64(len(pick)) == n {
			if len(out) >= maxCombinations {
				return tooManyCombinations()
			}
			out = append(out, append(Tuple{}, pick...))
			return r.step()
		}
		for k := range items {
			if used[k] {
				continue
			}
			used[k] = true
			pick = append(pick, items[k])
			if err := walk(); err != nil {
				return err
			}
			pick = pick[:len(pick)-1]
			used[k] = false
		}
		return nil
	}
	err := walk()
	return out, err
}

func product(r *JinjaRun, items []any, _ any, a []any, kw JinjaKwargs) ([]any, error) {
	pools := [][]any{items}
	for _, v := range a {
		pool, err := r.items(v)
		if err != nil {
			return nil, err
		}
		pools = append(pools, pool)
	}
	if v, ok := kw.Get("repeat"); ok {
		n, err := intArg(v)
		if err != nil {
			return nil, err
		}
		once := pools
		pools = nil
		for range max(0, min(n, 64)) {
			pools = append(pools, once...)
		}
	}
	out := []any{Tuple{}}
	for _, pool := range pools {
		if len(out)*len(pool) > maxCombinations {
			return nil, tooManyCombinations()
		}
		var next []any
		for _, head := range out {
			for _, item := range pool {
				next = append(next, append(append(Tuple{}, head.(Tuple)...), item))
			}
		}
		out = next
	}
	return out, nil
}

func zipItems(longest bool) func(r *JinjaRun, items []any, v any, a []any, kw JinjaKwargs) ([]any, error) {
	return func(r *JinjaRun, items []any, _ any, a []any, kw JinjaKwargs) ([]any, error) {
		pools := [][]any{items}
		shortest, most := len(items), len(items)
		for _, v := range a {
			pool, err := r.items(v)
			if err != nil {
				return nil, err
			}
			pools = append(pools, pool)
			shortest, most = min(shortest, len(pool)), max(most, len(pool))
		}
		fill, _ := kw.Get("fillvalue")
		n := shortest
		if longest {
			n = most
		}
		out := make([]any, n)
		for i := range out {
			t := make(Tuple, len(pools))
			for k, pool := range pools {
				t[k] = fill
				if i < len(pool) {
					t[k] = pool[i]
				}
			}
			out[i] = t
		}
		return out, nil
	}
}

func compress(r *JinjaRun, items []any, _ any, a []any, _ JinjaKwargs) ([]any, error) {
	selectors, err := r.items(a[0])
	if err != nil {
		return nil, err
	}
	var out []any
	for i, item := range items {
		if i >= len(selectors) {
			break
		}
		yes, err := r.truth(selectors[i])
		if err != nil {
			return nil, err
		}
		if yes {
			out = append(out, item)
		}
	}
	return out, nil
}
