// Sorting as Python sorts: stable, by <, with Python's error where two values
// have no order between them.
package main

import "slices"

// sortValues sorts in place and returns the same slice. On an error the order
// of the items is not defined.
func sortValues(items []any) ([]any, error) {
	return sortValuesBy(items, nil, false)
}

// sortValuesBy sorts by keys[i] of items[i] (the items themselves if keys is
// nil). As in Python, a reversed sort keeps the order of equals.
func sortValuesBy(items, keys []any, reverse bool) ([]any, error) {
	type pair struct{ item, key any }
	pairs := make([]pair, len(items))
	for i, item := range items {
		pairs[i] = pair{item, item}
		if keys != nil {
			pairs[i].key = keys[i]
		}
	}
	var failure error
	slices.SortStableFunc(pairs, func(a, b pair) int {
		if failure != nil {
			return 0
		}
		// Python asks whether the later item is smaller than the earlier one; the
		// order of the two type names in its message comes from that.
		c, err := Compare(b.key, a.key)
		if err != nil {
			failure = err
			return 0
		}
		if reverse {
			return c
		}
		return -c
	})
	if failure != nil {
		return items, failure
	}
	for i, p := range pairs {
		items[i] = p.item
	}
	return items, nil
}
