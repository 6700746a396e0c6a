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
	if reverse { // with equals in their old order, as Python does it
		slices.Reverse(pairs)
	}
	var failure error
	slices.SortStableFunc(pairs, func(a, b pair) int {
		if failure != nil {
			return 0
		}
		// here and in Python the later item comes first, which decides the order
		// of the two type names in the message
		c, err := Compare(a.key, b.key)
		if err != nil {
			failure = err
		}
		return c
	})
	if failure != nil {
		return items, failure
	}
	if reverse {
		slices.Reverse(pairs)
	}
	for i, p := range pairs {
		items[i] = p.item
	}
	return items, nil
}
