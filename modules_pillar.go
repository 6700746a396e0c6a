// Module pillar: reading the pillar, as it is in memory or compiled anew.
package main

import (
	"context"
	"os"
)

func pillarModule() Module {
	return Module{
		Doc: "Read the pillar of this minion.",
		Funcs: Funcs{
			"get":         {run: pillarGet, doc: "Return a value of the pillar in memory; a path like a:b:0 goes into nested ones. What does\nnot exist is default. With merge, default (a mapping or a list) is merged with the value.\n\nCLI Example:\n\n    salt '*' pillar.get pkg:apache"},
			"fetch":       {run: pillarGet, pyname: "get", doc: "The same as pillar.get, for templates, where get is a method."},
			"items":       {run: pillarItems, doc: "Compile the pillar anew and return it, or some values of the one in memory."},
			"data":        {run: pillarItems, pyname: "items", doc: "The same as pillar.items."},
			"item":        {run: pillarItem, doc: "Return some values by name."},
			"raw":         {run: pillarRaw, doc: "Return the pillar in memory, or one key of it."},
			"ls":          {run: pillarLs, doc: "List the keys of the pillar."},
			"keys":        {run: pillarKeys, doc: "List the keys of a mapping in the pillar."},
			"obfuscate":   {run: pillarObfuscate, doc: "Return the pillar with the types in place of the values."},
			"ext":         {run: pillarExt, doc: "Compile the pillar with one more external pillar."},
			"file_exists": {run: pillarFileExists, doc: "Say whether a file exists in the pillar roots of this box."},
			"filter_by":   {run: pillarFilterBy, doc: "Pick the value of a mapping whose key matches a pillar value, as grains.filter_by does."},
		},
	}
}

// notSet is the default that stands for no default.
const notSet = "__unset__"

type pillarGetArgs struct {
	Key              any
	Default          any    `def:"__unset__"`
	Merge            bool   `def:"False"`
	MergeNestedLists any    `def:"None"`
	Delimiter        string `def:"':'"`
	Pillarenv        any    `def:"None"`
	Saltenv          any    `def:"None"`
}

func pillarGet(ctx context.Context, c *Call, a pillarGetArgs) (any, error) {
	missing := a.Default == notSet
	if missing {
		a.Default = ""
	}
	pillar := c.Pillar
	if a.Pillarenv != nil || a.Saltenv != nil {
		var err error
		if pillar, err = compilePillar(ctx, c, pillarRun{pillarenv: a.Pillarenv, saltenv: a.Saltenv}); err != nil {
			return nil, err
		}
	}
	v, found := TraversePath(pillar, Str(a.Key), a.Delimiter)
	if a.Merge {
		lists := c.Opts.Bool("pillar_merge_lists")
		if a.MergeNestedLists != nil {
			lists = Truth(a.MergeNestedLists)
		}
		skipped := func(kind string) {
			c.Log.Error("pillar.get: Default (" + Str(a.Default) + ") is a " + kind + ", but the returned pillar value (" +
				Str(v) + ") is of type '" + TypeName(v) + "'. Merge will be skipped.")
		}
		switch d := a.Default.(type) {
		case *Map:
			m, ok := v.(*Map)
			if !found {
				return DeepCopy(d), nil
			}
			if ok {
				return UpdateMap(DeepCopy(d).(*Map), DeepCopy(m).(*Map), lists), nil
			}
			skipped("dict")
		case *List:
			l, ok := v.(*List)
			if !found {
				return DeepCopy(d), nil
			}
			if ok {
				out := DeepCopy(d).(*List)
				before := out.Items
				for _, item := range l.Items {
					if !containsItem(before, item) {
						out.Append(DeepCopy(item))
					}
				}
				return out, nil
			}
			skipped("list")
		default:
			c.Log.Error("pillar.get: Default (" + Str(a.Default) + ") is of type '" + TypeName(a.Default) + "', must be a dict or list to merge. Merge will be skipped.")
		}
	}
	if found {
		if a.Pillarenv != nil || a.Saltenv != nil {
			return v, nil
		}
		return c.lend(v), nil
	}
	if missing && c.Opts.Bool("pillar_raise_on_missing") {
		return nil, OtherErrorf("KeyError", "'Pillar key not found: %s'", Str(a.Key))
	}
	return a.Default, nil
}

// pillarRun says how the pillar is to be compiled.
type pillarRun struct {
	override           *Map
	pillarenv, saltenv any
	ext                *Map
}

// compilePillar makes the pillar anew: by the master, or here if this minion
// has its files itself.
func compilePillar(ctx context.Context, c *Call, r pillarRun) (*Map, error) {
	env := r.pillarenv
	if env == nil {
		env = c.Opts.Value("pillarenv")
		if c.Opts.Bool("pillarenv_from_saltenv") {
			if env = r.saltenv; !Truth(env) {
				env = c.Opts.Value("saltenv")
			}
		}
	}
	override := r.override
	if override == nil {
		override = &Map{}
	}
	if c.Master == nil || c.Opts.Str("file_client") == "local" {
		return compileLocalPillar(ctx, c.Env, override, env)
	}
	load := NewMap("id", c.Opts.Str("id"), "grains", c.Grains, "saltenv", c.Opts.Value("saltenv"), "pillarenv", env,
		"pillar_override", override, "extra_minion_data", &Map{}, "ver", "2", "cmd", "_pillar")
	if r.ext != nil {
		load.Set("ext", r.ext)
	}
	m, err := c.Master.FetchPillar(ctx, load)
	if err != nil {
		return nil, ExecErrorf("the master did not send the pillar: %s", err)
	}
	return m, nil
}

type pillarItemsArgs struct {
	Args   []any `arg:"*args"`
	Kwargs *Map  `arg:"**kwargs"`
}

func pillarItems(ctx context.Context, c *Call, a pillarItemsArgs) (any, error) {
	m, err := pillarOf(ctx, c, a)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func pillarOf(ctx context.Context, c *Call, a pillarItemsArgs) (*Map, error) {
	if len(a.Args) > 0 {
		return itemsByPath(c.Pillar, a.Args, "", DefaultTargetDelim), nil
	}
	override, _ := a.Kwargs.Value("pillar").(*Map)
	if enc := a.Kwargs.Value("pillar_enc"); enc != nil && Truth(a.Kwargs.Value("pillar")) {
		var err error
		if override, err = decryptOverride(ctx, c, a.Kwargs.Value("pillar"), enc); err != nil {
			return nil, err
		}
	}
	return compilePillar(ctx, c, pillarRun{override: override, pillarenv: a.Kwargs.Value("pillarenv"), saltenv: a.Kwargs.Value("saltenv")})
}

func pillarItem(ctx context.Context, c *Call, a pillarItemsArgs) (any, error) {
	fallback, delimiter := itemOptions(a.Kwargs)
	pillar := c.Pillar
	if env, senv := a.Kwargs.Value("pillarenv"), a.Kwargs.Value("saltenv"); env != nil || senv != nil {
		var err error
		if pillar, err = compilePillar(ctx, c, pillarRun{pillarenv: env, saltenv: senv}); err != nil {
			return nil, err
		}
	}
	return itemsByPath(pillar, a.Args, fallback, delimiter), nil
}

type pillarRawArgs struct {
	Key any `def:"None"`
}

func pillarRaw(_ context.Context, c *Call, a pillarRawArgs) (any, error) {
	if !Truth(a.Key) {
		return DeepCopy(c.Pillar), nil
	}
	if v, ok := c.Pillar.Get(a.Key); ok {
		return DeepCopy(v), nil
	}
	return &Map{}, nil
}

func pillarLs(ctx context.Context, c *Call, a namesArgs) (any, error) {
	m, err := pillarOf(ctx, c, pillarItemsArgs{Args: a.Args})
	if err != nil {
		return nil, err
	}
	return NewList(m.Keys()...), nil
}

type pillarKeysArgs struct {
	Key       string
	Delimiter string `def:"':'"`
}

func pillarKeys(_ context.Context, c *Call, a pillarKeysArgs) (any, error) {
	v, ok := TraversePath(c.Pillar, a.Key, a.Delimiter)
	if !ok {
		return nil, OtherErrorf("KeyError", "'Pillar key not found: %s'", a.Key)
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, OtherErrorf("ValueError", "Pillar value in key %s is not a dict", a.Key)
	}
	return NewList(m.Keys()...), nil
}

func pillarObfuscate(ctx context.Context, c *Call, a pillarItemsArgs) (any, error) {
	m, err := pillarOf(ctx, c, a)
	if err != nil {
		return nil, err
	}
	return obfuscate(m), nil
}

// obfuscate puts types in the place of values.
func obfuscate(v any) any {
	switch v := v.(type) {
	case *Map:
		out := &Map{}
		for k, val := range v.All() {
			out.Set(k, obfuscate(val))
		}
		return out
	case *List:
		out := &List{}
		for _, item := range v.Items {
			out.Append(obfuscate(item))
		}
		return out
	}
	return "<" + TypeName(v) + ">"
}

type pillarExtArgs struct {
	External any
	Pillar   *Map `def:"None"`
}

func pillarExt(ctx context.Context, c *Call, a pillarExtArgs) (any, error) {
	if s, ok := a.External.(string); ok {
		v, err := ParseYAML([]byte(s))
		if err != nil {
			return nil, ExecErrorf("external: %s", err)
		}
		a.External = v
	}
	ext, _ := a.External.(*Map)
	return compilePillar(ctx, c, pillarRun{override: a.Pillar, ext: ext})
}

type pillarFileExistsArgs struct {
	Path    string
	Saltenv any `def:"None"`
}

func pillarFileExists(_ context.Context, c *Call, a pillarFileExistsArgs) (any, error) {
	roots := c.Opts.Map("pillar_roots")
	if roots.Len() == 0 {
		return nil, ExecErrorf("No pillar_roots found. Are you running this on the master?")
	}
	for env, dirs := range roots.All() {
		if Truth(a.Saltenv) && !Equal(env, a.Saltenv) {
			continue
		}
		for _, dir := range toItems(dirs) {
			path, err := SafeJoin(Str(dir), a.Path)
			if err != nil {
				continue
			}
			if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
				return true, nil
			}
		}
	}
	return false, nil
}

type pillarFilterByArgs struct {
	LookupDict *Map
	Pillar     string
	Merge      any `def:"None"`
	Default    any `def:"'default'"`
	Base       any `def:"None"`
}

func pillarFilterBy(_ context.Context, c *Call, a pillarFilterByArgs) (any, error) {
	return filterBy(a.LookupDict, a.Pillar, c.Pillar, a.Merge, a.Default, a.Base)
}
