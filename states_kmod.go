// State module kmod: modules of the kernel.
package main

import (
	"context"
	"fmt"
)

func kmodStates() Module {
	return Module{
		Doc:     "Modules of the kernel.",
		Virtual: needsFunction("kmod.available", "kmod module could not be loaded"),
		Funcs: Funcs{
			"present": {run: kmodStatePresent, doc: "The module, or each of mods, is loaded; with persist at each boot."},
			"absent":  {run: kmodStateAbsent, doc: "The module, or each of mods, is not loaded; with persist neither at boot."},
		},
	}
}

// kmodWord says something about one module or several.
func kmodWord(ret *Map, mods []any, one, many string) {
	switch len(mods) {
	case 0:
	case 1:
		addComment(ret, fmt.Sprintf(one, Str(mods[0])))
	default:
		addComment(ret, fmt.Sprintf(many, joinTexts(mods, ", ")))
	}
}

func kmodNames(name string, mods any) []any {
	switch mods.(type) {
	case *List, Tuple:
		return toItems(mods)
	}
	return []any{name}
}

// kmodWork loads or removes modules and reports.
func kmodWork(ret *Map, mods []any, did, verb, word string, do func(mod any) (any, error)) error {
	var yes, no []any
	var failed [][2]any
	var along []any
	for _, mod := range mods {
		if verb == "load" && hasItem(along, mod) {
			yes = append(yes, mod)
			continue
		}
		v, err := do(mod)
		if err != nil {
			return err
		}
		switch v.(type) {
		case *List, Tuple:
			items := toItems(v)
			if len(items) == 0 {
				ret.Set("result", false)
				no = append(no, mod)
				continue
			}
			for _, m := range items {
				ret.Map("changes").Set(m, word)
				if !Equal(m, mod) {
					along = append(along, m)
				}
			}
			yes = append(yes, mod)
		default:
			ret.Set("result", false)
			failed = append(failed, [2]any{mod, v})
		}
	}
	kmodWord(ret, yes, did+" kernel module %s", did+" kernel modules %s")
	kmodWord(ret, no, "Failed to "+verb+" kernel module %s", "Failed to "+verb+" kernel modules %s")
	for _, f := range failed {
		addComment(ret, fmt.Sprintf("Failed to %s kernel module %s: %s", verb, Str(f[0]), Str(f[1])))
	}
	return nil
}

func kmodStatePresent(ctx context.Context, c *Call, a struct {
	Name    string
	Persist any `def:"False"`
	Mods    any `def:"None"`
}) (any, error) {
	mods := uniqueItems(kmodNames(a.Name, a.Mods)...)
	ret := NewMap("name", a.Name, "result", true, "changes", NewMap(), "comment", "")
	loaded, err := runItems(ctx, c, "kmod.mod_list")
	if err != nil {
		return nil, err
	}
	var kept []any
	if Truth(a.Persist) {
		if kept, err = runItems(ctx, c, "kmod.mod_list", true); err != nil {
			return nil, err
		}
	}
	var have, missing []any
	for _, m := range mods {
		if hasItem(loaded, m) && (!Truth(a.Persist) || hasItem(kept, m)) {
			have = append(have, m)
		} else {
			missing = append(missing, m)
		}
	}
	kmodWord(ret, have, "Kernel module %s is already present", "Kernel modules %s are already present")
	if len(missing) == 0 {
		return ret, nil
	}
	if c.Testing() {
		ret.Set("result", nil)
		kmodWord(ret, missing, "Kernel module %s is set to be loaded", "Kernel modules %s are set to be loaded")
		return ret, nil
	}
	known, err := runItems(ctx, c, "kmod.available")
	if err != nil {
		return nil, err
	}
	var able, unable []any
	for _, m := range missing {
		if hasItem(known, m) {
			able = append(able, m)
		} else {
			unable = append(unable, m)
		}
	}
	if len(unable) > 0 {
		kmodWord(ret, unable, "Kernel module %s is unavailable", "Kernel modules %s are unavailable")
		ret.Set("result", false)
	}
	err = kmodWork(ret, able, "Loaded", "load", "loaded", func(mod any) (any, error) { return c.Run(ctx, "kmod.load", mod, a.Persist) })
	return ret, err
}

func kmodStateAbsent(ctx context.Context, c *Call, a struct {
	Name    string
	Persist any `def:"False"`
	Comment any `def:"True"`
	Mods    any `def:"None"`
}) (any, error) {
	mods := uniqueItems(kmodNames(a.Name, a.Mods)...)
	ret := NewMap("name", a.Name, "result", true, "changes", NewMap(), "comment", "")
	loaded, err := runItems(ctx, c, "kmod.mod_list")
	if err != nil {
		return nil, err
	}
	if Truth(a.Persist) {
		kept, err := runItems(ctx, c, "kmod.mod_list", true)
		if err != nil {
			return nil, err
		}
		loaded = append(append([]any{}, loaded...), kept...)
	}
	var out []any
	for _, m := range mods {
		if hasItem(loaded, m) {
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		kmodWord(ret, mods, "Kernel module %s is already removed", "Kernel modules %s are already removed")
		return ret, nil
	}
	if c.Testing() {
		ret.Set("result", nil)
		kmodWord(ret, out, "Kernel module %s is set to be removed", "Kernel modules %s are set to be removed")
		return ret, nil
	}
	err = kmodWork(ret, out, "Removed", "remove", "removed", func(mod any) (any, error) {
		return c.Run(ctx, "kmod.remove", mod, a.Persist, a.Comment)
	})
	return ret, err
}
