// State module grains: grains that the minion keeps in its grains file.
package main

import (
	"context"
	"slices"
	"strings"
)

func grainsStates() Module {
	return Module{
		Doc: "Grains that the minion keeps.",
		Funcs: Funcs{
			"exists":       {run: grainsStateExists, doc: "The grain exists."},
			"present":      {run: grainsStatePresent, doc: "The grain has the value."},
			"absent":       {run: grainsStateAbsent, doc: "The grain is None, or gone with destructive."},
			"list_present": {run: grainsStateListPresent, doc: "A list has the value, or the values."},
			"list_absent":  {run: grainsStateListAbsent, doc: "A list does not have the value, or the values."},
			"append":       {run: grainsStateAppend, doc: "A list that exists has the value; convert makes other grains a list."},
		},
	}
}

// grainMissing is the default that tells a missing grain from one that is None.
const grainMissing = "\x00no such grain"

// grainPath is a name with the usual delimiter.
func grainPath(name string, delimiter any) string {
	if d := Str(delimiter); d != "" && d != ":" {
		return strings.ReplaceAll(name, d, ":")
	}
	return name
}

// startGrain begins a state: the grain's path and value, missing where it is not
// there.
func startGrain(ctx context.Context, c *Call, path string, delimiter, missing any) (name string, ret *Map, value any, err error) {
	name = grainPath(path, delimiter)
	value, err = c.Run(ctx, "grains.get", name, missing)
	return name, stateReturn(name, true, ""), value, err
}

func grainsStateExists(ctx context.Context, c *Call, a struct {
	Name      string
	Delimiter any `def:":"`
}) (any, error) {
	_, ret, have, err := startGrain(ctx, c, a.Name, a.Delimiter, grainMissing)
	if err != nil {
		return nil, err
	}
	if have == grainMissing {
		return stateSay(ret, false, "Grain does not exist")
	}
	return stateSay(ret, true, "Grain exists")
}

func grainsStatePresent(ctx context.Context, c *Call, a struct {
	Name      string
	Value     any
	Delimiter any `def:":"`
	Force     any `def:"False"`
}) (any, error) {
	name, ret, have, err := startGrain(ctx, c, a.Name, a.Delimiter, grainMissing)
	if err != nil {
		return nil, err
	}
	if Equal(have, a.Value) {
		return stateSay(ret, true, "Grain is already set")
	}
	if c.Testing() {
		if have == grainMissing {
			ret.Set("changes", NewMap("new", name))
			return stateSay(ret, nil, "Grain %s is set to be added", name)
		}
		ret.Set("changes", NewMap("changed", NewMap(name, a.Value)))
		return stateSay(ret, nil, "Grain %s is set to be changed", name)
	}
	v, err := c.RunKw(ctx, "grains.set", []any{name, a.Value}, NewMap("force", a.Force))
	if err != nil {
		return nil, err
	}
	set, ok := v.(*Map)
	if !ok {
		return v, nil
	}
	if set.Value("result") == true && Truth(set.Value("changes")) {
		set.Set("comment", "Set grain "+name+" to "+Str(a.Value))
	}
	set.Set("name", name)
	return set, nil
}

// letterSets has the set of letters, or of items, of each entry of a list:
// lists of texts are compared by these.
func letterSets(items []any, into map[string]bool) error {
	for _, item := range items {
		var parts []string
		switch v := item.(type) {
		case *List:
			if len(into) > 0 {
				if err := letterSets(v.Items, into); err != nil {
					return err
				}
			}
			continue
		case string:
			for _, r := range v {
				parts = append(parts, string(r))
			}
		case *Map:
			for k := range v.All() {
				parts = append(parts, Repr(k))
			}
		default:
			return TypeErrorf("'%s' object is not iterable", TypeName(item))
		}
		slices.Sort(parts)
		into[strings.Join(slices.Compact(parts), "\x00")] = true
	}
	return nil
}

func allWithin(items, of []any) bool {
	for _, item := range items {
		if !hasItem(of, item) {
			return false
		}
	}
	return true
}

func grainsStateListPresent(ctx context.Context, c *Call, a struct {
	Name      string
	Value     any
	Delimiter any `def:":"`
}) (any, error) {
	name, ret, grain, err := startGrain(ctx, c, a.Name, a.Delimiter, "")
	if err != nil {
		return nil, err
	}
	value := a.Value
	if Truth(grain) {
		have, ok := grain.(*List)
		if !ok {
			return stateSay(ret, false, "Grain %s is not a valid list", name)
		}
		if l, ok := value.(*List); ok {
			want, is := map[string]bool{}, map[string]bool{}
			if err := letterSets(l.Items, want); err != nil {
				return nil, err
			}
			if err := letterSets(have.Items, is); err != nil {
				return nil, err
			}
			all := true
			for k := range want {
				all = all && is[k]
			}
			if all {
				return stateSay(ret, true, "Value %s is already in grain %s", Str(value), name)
			}
			pending := NewMap()
			if v, ok := c.ContextGet("pending_grains"); ok {
				pending = v.(*Map).Clone()
			}
			seen := toItems(pending.Value(name))
			left := NewList()
			for _, item := range uniqueItems(l.Items...) {
				if !hasItem(seen, item) {
					left.Append(item)
				}
			}
			if left.Len() < len(uniqueItems(l.Items...)) {
				value = left
			}
			pending.Set(name, NewList(uniqueItems(append(slices.Clone(seen), toItems(value)...)...)...))
			c.ContextSet("pending_grains", pending)
		} else if hasItem(have.Items, value) {
			return stateSay(ret, true, "Value %s is already in grain %s", Str(value), name)
		}
		if c.Testing() {
			ret.Set("changes", NewMap("new", grain))
			return stateSay(ret, nil, "Value %s is set to be appended to grain %s", Str(value), name)
		}
	}
	if c.Testing() {
		ret.Set("changes", NewMap("new", grain))
		return stateSay(ret, nil, "Grain %s is set to be added", name)
	}
	after, err := c.Run(ctx, "grains.append", name, value)
	if err != nil {
		return nil, err
	}
	now, err := runItems(ctx, c, "grains.get", name)
	if err != nil {
		return nil, err
	}
	if !allWithin(listOf(value), now) {
		return stateSay(ret, false, "Failed append value %s to grain %s", Str(value), name)
	}
	ret.Set("changes", NewMap("new", after))
	return stateSay(ret, true, "Append value %s to grain %s", Str(value), name)
}

func grainsStateListAbsent(ctx context.Context, c *Call, a struct {
	Name      string
	Value     any
	Delimiter any `def:":"`
}) (any, error) {
	name, ret, grain, err := startGrain(ctx, c, a.Name, a.Delimiter, nil)
	if err != nil {
		return nil, err
	}
	if !Truth(grain) {
		return stateSay(ret, true, "Grain %s does not exist", name)
	}
	have, ok := grain.(*List)
	if !ok {
		return stateSay(ret, false, "Grain %s is not a valid list", name)
	}
	items := slices.Clone(have.Items)
	var comments []string
	deleted := NewList()
	for _, v := range listOf(a.Value) {
		if !hasItem(items, v) {
			comments = append(comments, "Value "+Str(v)+" is absent from grain "+name)
			continue
		}
		if c.Testing() {
			ret.Set("result", nil)
			comments = append(comments, "Value "+Str(v)+" in grain "+name+" is set to be deleted")
		} else {
			if _, err := c.Run(ctx, "grains.remove", name, v); err != nil {
				return nil, err
			}
			comments = append(comments, "Value "+Str(v)+" was deleted from grain "+name)
		}
		deleted.Append(v)
		ret.Set("changes", NewMap("deleted", deleted))
	}
	ret.Set("comment", strings.Join(comments, "\n"))
	return ret, nil
}

func grainsStateAbsent(ctx context.Context, c *Call, a struct {
	Name        string
	Destructive any `def:"False"`
	Delimiter   any `def:":"`
	Force       any `def:"False"`
}) (any, error) {
	name, ret, grain, err := startGrain(ctx, c, a.Name, a.Delimiter, grainMissing)
	if err != nil {
		return nil, err
	}
	if grain == grainMissing {
		return stateSay(ret, true, "Grain %s does not exist", name)
	}
	away := a.Destructive == true
	if c.Testing() {
		ret.Set("result", nil)
		switch {
		case away:
			ret.Set("changes", NewMap("deleted", name))
			ret.Set("comment", "Grain "+name+" is set to be deleted")
		case grain != nil:
			ret.Set("changes", NewMap("grain", name, "value", nil))
			ret.Set("comment", "Value for grain "+name+" is set to be deleted (None)")
		}
		return ret, nil
	}
	v, err := c.RunKw(ctx, "grains.set", []any{name, nil}, NewMap("destructive", a.Destructive, "force", a.Force))
	if err != nil {
		return nil, err
	}
	set, ok := v.(*Map)
	if !ok {
		return v, nil
	}
	if Truth(set.Value("result")) {
		switch {
		case away:
			set.Set("comment", "Grain "+name+" was deleted")
			set.Set("changes", NewMap("deleted", name))
		case grain != nil:
			set.Set("comment", "Value for grain "+name+" was set to None")
			set.Set("changes", NewMap("grain", name, "value", nil))
		}
	}
	set.Set("name", name)
	return set, nil
}

func grainsStateAppend(ctx context.Context, c *Call, a struct {
	Name      string
	Value     any
	Convert   any `def:"False"`
	Delimiter any `def:":"`
}) (any, error) {
	name, ret, grain, err := startGrain(ctx, c, a.Name, a.Delimiter, nil)
	if err != nil {
		return nil, err
	}
	if !Truth(grain) && !c.Grains.Has(name) {
		return stateSay(ret, false, "Grain %s does not exist", name)
	}
	value := Str(a.Value)
	list, isList := grain.(*List)
	switch {
	case isList && hasItem(list.Items, a.Value):
		return stateSay(ret, true, "Value %s is already in the list for grain %s", value, name)
	case !isList && a.Convert != true:
		return stateSay(ret, false, "Grain %s is not a valid list", name)
	}
	ret.Set("changes", NewMap("added", a.Value))
	if c.Testing() {
		if isList {
			return stateSay(ret, nil, "Value %s in grain %s is set to be added", value, name)
		}
		return stateSay(ret, nil, "Grain %s is set to be converted to list and value %s will be added", name, value)
	}
	if isList {
		_, err = c.Run(ctx, "grains.append", name, a.Value)
	} else {
		whole := NewList()
		if grain != nil {
			whole.Append(grain)
		}
		whole.Append(a.Value)
		_, err = c.Run(ctx, "grains.setval", name, whole)
	}
	if err != nil {
		return nil, err
	}
	return stateSay(ret, true, "Value %s was added to grain %s", value, name)
}
