// State module uci: the configuration of OpenWrt.
package main

import "context"

func uciStates() Module {
	return Module{
		Doc:     "The configuration of OpenWrt, option by option or by section.",
		Virtual: needsFunction("uci.get", "uci module could not be loaded"),
		Funcs: Funcs{
			"present": {run: uciStatePresent, doc: "The option (package.section.option) has the value; a list makes a list. With type or values name is a section, with its type and its options."},
			"absent":  {run: uciStateAbsent, doc: "The option or the section is not there."},
		},
	}
}

func uciStatePresent(ctx context.Context, c *Call, a struct {
	Name    string
	Value   any  `def:"None"`
	Values  *Map `def:"None"`
	Type    any  `def:"None"`
	Confdir any  `def:"None"`
}) (any, error) {
	ret := stateReturn(a.Name, true, "")
	wanted := NewMap() // in the order in which it is set: a section first
	section := a.Values != nil || a.Type != nil
	switch {
	case section && a.Value != nil:
		return stateSay(ret, false, "uci.present takes value for an option, or type and values for a section, not both")
	case section:
		if a.Type != nil {
			wanted.Set(a.Name, a.Type)
		}
		for k, v := range a.Values.All() {
			wanted.Set(a.Name+"."+Str(k), v)
		}
	case a.Value == nil:
		return stateSay(ret, false, "uci.present needs value, or type and values with the options of a section")
	default:
		wanted.Set(a.Name, a.Value)
	}
	where := NewMap("confdir", a.Confdir)
	changes := ret.Map("changes")
	for k, v := range wanted.All() {
		have, err := c.RunKw(ctx, "uci.get", []any{k}, where.Clone())
		if err != nil {
			return uciFailed(ret, a.Name, err)
		}
		if m, ok := have.(*Map); ok {
			have = m.Value(".type")
		}
		if want := uciPlain(v); !Equal(have, want) {
			changes.Set(k, oldNew(have, want))
		}
	}
	switch {
	case changes.Len() == 0:
		return stateSay(ret, true, "%s is already set", a.Name)
	case c.Testing():
		return stateSay(ret, nil, "%s is set to be changed", a.Name)
	}
	did := NewMap()
	ret.Set("changes", did)
	for k, v := range changes.All() {
		if _, err := c.RunKw(ctx, "uci.set", []any{k, v.(*Map).Value("new")}, where.Clone()); err != nil {
			return uciFailed(ret, Str(k), err)
		}
		did.Set(k, v)
	}
	return stateSay(ret, true, "%s was set", a.Name)
}

// uciPlain is a value as uci keeps it: a text, or a list of texts.
func uciPlain(v any) any {
	if _, ok := v.(*List); ok {
		return Strings(uciTexts(v))
	}
	if t := uciTexts(v); len(t) == 1 {
		return t[0]
	}
	return Str(v)
}

// uciFailed reports an error; what was changed before it stays in the changes.
func uciFailed(ret *Map, name string, err error) (any, error) {
	if !isSaltError(err) {
		return nil, err
	}
	return stateSay(ret, false, "Failed to set %s: %s", name, errText(err))
}

func uciStateAbsent(ctx context.Context, c *Call, a struct {
	Name    string
	Confdir any `def:"None"`
}) (any, error) {
	ret := stateReturn(a.Name, true, "")
	where := NewMap("confdir", a.Confdir)
	have, err := c.RunKw(ctx, "uci.get", []any{a.Name}, where.Clone())
	if err != nil {
		return uciFailed(ret, a.Name, err)
	}
	if have == nil {
		return stateSay(ret, true, "%s is already absent", a.Name)
	}
	if c.Testing() {
		ret.Set("changes", NewMap(a.Name, oldNew(have, nil)))
		return stateSay(ret, nil, "%s is set to be removed", a.Name)
	}
	if _, err := c.RunKw(ctx, "uci.delete", []any{a.Name}, where); err != nil {
		return stateSay(ret, false, "Failed to remove %s: %s", a.Name, errText(err))
	}
	ret.Set("changes", NewMap(a.Name, oldNew(have, nil)))
	return stateSay(ret, true, "%s was removed", a.Name)
}
