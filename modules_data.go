// Module data: a small store of values on the minion, one file in its cache.
package main

import (
	"context"
	"os"
	"path/filepath"
)

func dataModule() Module {
	return Module{
		Doc: "Keep values in a file of this minion's cache.",
		Funcs: Funcs{
			"clear":   {run: dataClear, doc: "Remove all values."},
			"load":    {run: dataLoad, doc: "Return all values."},
			"items":   {run: dataLoad, pyname: "items", doc: "Return all values."},
			"dump":    {run: dataDump, doc: "Replace all values by those of a mapping."},
			"update":  {run: dataUpdate, doc: "Set one value."},
			"cas":     {run: dataCas, doc: "Set one value if it still is old_value; say whether it was set."},
			"pop":     {run: dataPop, doc: "Remove one value and return it."},
			"get":     {run: dataGet, doc: "Return one value, or those of a list of keys."},
			"keys":    {run: dataKeys, doc: "List the keys."},
			"values":  {run: dataValues, doc: "List the values."},
			"has_key": {run: dataHasKey, doc: "Say whether there is a value of that name."},
		},
	}
}

func dataPath(c *Call) string { return filepath.Join(c.Opts.Path("cachedir"), "datastore") }

// loadData reads the store; one that is missing or torn is empty.
func loadData(c *Call) *Map {
	p, err := os.ReadFile(dataPath(c))
	if err != nil {
		return &Map{}
	}
	v, err := DecodeBin(p)
	if m, ok := v.(*Map); ok && err == nil {
		return m
	}
	return &Map{}
}

func dumpData(c *Call, m *Map) bool {
	p, err := EncodeBin(m)
	if err != nil {
		return false
	}
	if err := os.MkdirAll(filepath.Dir(dataPath(c)), 0o755); err != nil {
		return false
	}
	return writeFileAtomic(dataPath(c), p, 0o600) == nil
}

func dataClear(_ context.Context, c *Call, _ noArgs) (any, error) {
	_ = os.Remove(dataPath(c))
	return true, nil
}

func dataLoad(_ context.Context, c *Call, _ noArgs) (any, error) { return loadData(c), nil }

type dataDumpArgs struct{ NewData any }

func dataDump(_ context.Context, c *Call, a dataDumpArgs) (any, error) {
	m, ok := a.NewData.(*Map)
	if !ok {
		v, err := ParseYAML([]byte(Str(a.NewData)))
		if _, isText := v.(string); err != nil || isText {
			return nil, OtherErrorf("ValueError", "malformed node or string on line 1: <ast.Name object at 0x7f0000000000>")
		}
		if m, ok = v.(*Map); !ok {
			return false, nil
		}
	}
	return dumpData(c, m), nil
}

type dataUpdateArgs struct{ Key, Value any }

func dataUpdate(_ context.Context, c *Call, a dataUpdateArgs) (any, error) {
	m := loadData(c)
	m.Set(a.Key, a.Value)
	dumpData(c, m)
	return true, nil
}

type dataCasArgs struct{ Key, Value, OldValue any }

func dataCas(_ context.Context, c *Call, a dataCasArgs) (any, error) {
	m := loadData(c)
	if have, ok := m.Get(a.Key); !ok || !Equal(have, a.OldValue) {
		return false, nil
	}
	m.Set(a.Key, a.Value)
	dumpData(c, m)
	return true, nil
}

type dataGetArgs struct {
	Key     any
	Default any `def:"None"`
}

func dataPop(_ context.Context, c *Call, a dataGetArgs) (any, error) {
	m := loadData(c)
	v, ok := m.Get(a.Key)
	if !ok {
		v = a.Default
	}
	m.Delete(a.Key)
	dumpData(c, m)
	return v, nil
}

func dataGet(_ context.Context, c *Call, a dataGetArgs) (any, error) {
	m := loadData(c)
	keys, isList := a.Key.(*List)
	if !isList {
		if v, ok := m.Get(a.Key); ok {
			return v, nil
		}
		return a.Default, nil
	}
	out := &List{}
	for _, k := range keys.Items {
		v, ok := m.Get(k)
		switch {
		case ok:
			out.Append(v)
		case a.Default != nil:
			out.Append(a.Default)
		}
	}
	return out, nil
}

func dataKeys(_ context.Context, c *Call, _ noArgs) (any, error) {
	return NewList(loadData(c).Keys()...), nil
}

func dataValues(_ context.Context, c *Call, _ noArgs) (any, error) {
	out := &List{}
	for _, v := range loadData(c).All() {
		out.Append(v)
	}
	return out, nil
}

type dataHasKeyArgs struct{ Key any }

func dataHasKey(_ context.Context, c *Call, a dataHasKeyArgs) (any, error) {
	return loadData(c).Has(a.Key), nil
}
