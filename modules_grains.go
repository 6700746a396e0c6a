// Module grains: reading grains, and setting those of the grains file.
//
// The grains of a job are a snapshot. What is set here goes to the grains file
// and into the job's own copy, so that the rest of the job sees it; the daemon
// then reads all grains anew.
package main

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

func grainsModule() Module {
	return Module{
		Doc: "Read grains, and set those that this minion keeps in its grains file.",
		Funcs: Funcs{
			"get":       {run: grainsGet, doc: "Return a grain; a path like a:b:0 goes into nested ones. What does not exist is default.\n\nCLI Example:\n\n    salt '*' grains.get pkg:apache"},
			"fetch":     {run: grainsGet, pyname: "get", doc: "The same as grains.get, for templates, where get is a method."},
			"has_value": {run: grainsHasValue, doc: "Say whether a grain exists."},
			"items":     {run: grainsItems, doc: "Return all grains; with sanitize the names of the box are hidden."},
			"item":      {run: grainsItem, doc: "Return some grains by name.\n\nCLI Example:\n\n    salt '*' grains.item os osrelease"},
			"ls":        {run: grainsLs, doc: "List the names of all grains."},
			"equals":    {run: grainsEquals, doc: "Say whether the text of a grain is that of value."},
			"filter_by": {run: grainsFilterBy, doc: "Pick the value of a mapping whose key matches a grain (os_family if none is named).\n\nmerge is put on top of what was picked, base below it; default is the key that\ncounts where none matches.\n\nCLI Example:\n\n    salt '*' grains.filter_by '{Debian: apache2, RedHat: httpd}'"},
			"setvals":   {run: grainsSetvals, doc: "Set several grains in the grains file; with destructive those that are None are removed."},
			"setval":    {run: grainsSetval, doc: "Set one grain in the grains file."},
			"set":       {run: grainsSet, doc: "Set a grain, also deep in nested ones; lists and mappings are replaced only with force.\n\nCLI Example:\n\n    salt '*' grains.set apps:myapp:port 2209"},
			"append":    {run: grainsAppend, doc: "Append a value to a grain that is a list; convert makes one of a single value."},
			"remove":    {run: grainsRemove, doc: "Remove a value from a grain that is a list."},
			"delval":    {run: grainsDelval, doc: "Set a grain to None; with destructive remove it."},
			"delkey":    {run: grainsDelkey, doc: "Remove a grain; lists and mappings only with force."},
		},
	}
}

type grainsGetArgs struct {
	Key       any
	Default   any    `def:"''"`
	Delimiter string `def:"':'"`
	Ordered   bool   `def:"True"`
}

func grainsGet(_ context.Context, c *Call, a grainsGetArgs) (any, error) {
	if v, ok := TraversePath(c.Grains, Str(a.Key), a.Delimiter); ok {
		if !a.Ordered {
			return DeepCopy(v), nil
		}
		return c.lend(v), nil
	}
	return a.Default, nil
}

type keyArgs struct{ Key string }

func grainsHasValue(_ context.Context, c *Call, a keyArgs) (any, error) {
	_, ok := TraversePath(c.Grains, a.Key, DefaultTargetDelim)
	return ok, nil
}

type sanitizeArgs struct {
	Sanitize any `def:"False"`
}

func grainsItems(_ context.Context, c *Call, a sanitizeArgs) (any, error) {
	out := DeepCopy(c.Grains).(*Map)
	if pyIsTrue(a.Sanitize) {
		sanitizeGrains(out)
	}
	return out, nil
}

// sanitizeGrains hides what names the box.
func sanitizeGrains(g *Map) {
	for k, word := range map[string]string{"domain": "DOMAINNAME", "fqdn": "MINION.DOMAINNAME", "id": "MINION.DOMAINNAME",
		"host": "MINION", "localhost": "MINION", "nodename": "MINION"} {
		if g.Has(k) {
			g.Set(k, word)
		}
	}
	if s, ok := g.Value("serialnumber").(string); ok {
		n := int(math.Floor(float64(len(s)) * 0.75))
		g.Set("serialnumber", s[:n]+strings.Repeat("X", len(s)-n))
	}
}

func grainsItem(_ context.Context, c *Call, a namesKwArgs) (any, error) {
	fallback, delimiter := itemOptions(a.Kwargs)
	out := itemsByPath(c.Grains, a.Args, fallback, delimiter)
	if pyIsTrue(a.Kwargs.Value("sanitize")) {
		sanitizeGrains(out)
	}
	return out, nil
}

// itemOptions are the keywords of grains.item and pillar.item.
func itemOptions(kwargs *Map) (fallback any, delimiter string) {
	fallback, delimiter = "", DefaultTargetDelim
	if v, ok := kwargs.Get("default"); ok {
		fallback = v
	}
	if v, ok := kwargs.Get("delimiter"); ok {
		delimiter = Str(v)
	}
	return fallback, delimiter
}

func itemsByPath(data *Map, names []any, fallback any, delimiter string) *Map {
	out := &Map{}
	for _, name := range names {
		v, ok := TraversePath(data, Str(name), delimiter)
		if !ok {
			v = fallback
		}
		out.Set(name, DeepCopy(v))
	}
	return out
}

func grainsLs(_ context.Context, c *Call, _ noArgs) (any, error) {
	var names []string
	for k := range c.Grains.All() {
		names = append(names, Str(k))
	}
	sort.Strings(names)
	return Strings(names), nil
}

type grainsEqualsArgs struct {
	Key   string
	Value any
}

func grainsEquals(_ context.Context, c *Call, a grainsEqualsArgs) (any, error) {
	v, ok := TraversePath(c.Grains, a.Key, DefaultTargetDelim)
	if !ok {
		v = ""
	}
	return Str(a.Value) == Str(v), nil
}

type filterByArgs struct {
	LookupDict *Map
	Grain      string `def:"'os_family'"`
	Merge      any    `def:"None"`
	Default    any    `def:"'default'"`
	Base       any    `def:"None"`
}

func grainsFilterBy(_ context.Context, c *Call, a filterByArgs) (any, error) {
	return filterBy(a.LookupDict, a.Grain, c.Grains, a.Merge, a.Default, a.Base)
}

// setGrains writes grains to the grains file and to the job's own copy.
func setGrains(ctx context.Context, c *Call, vals *Map, destructive, refreshPillar bool) (any, error) {
	path := grainsFile(c.Opts)
	stored := &Map{}
	if src, err := os.ReadFile(path); err == nil {
		v, err := ParseYAML(src)
		if err != nil {
			return "Unable to read existing grains file: " + err.Error(), nil
		}
		if m, ok := v.(*Map); ok {
			stored = m
		}
	}
	own := c.Grains.Clone()
	for k, v := range vals.All() {
		if v == nil && destructive {
			stored.Delete(k)
			own.Delete(k)
			continue
		}
		stored.Set(k, DeepCopy(v))
		own.Set(k, DeepCopy(v))
	}
	c.Env.Grains = own
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.Log.Error("Unable to write to grains file at " + path + ". Check permissions.")
		return vals, nil
	}
	if err := writeFileAtomic(path, []byte(DumpYAML(stored, YAMLOptions{SortKeys: true})), 0o644); err != nil {
		c.Log.Error("Unable to write to grains file at " + path + ". Check permissions.")
	}
	if c.Minion != nil && !c.Opts.Bool("local") {
		if err := c.Minion.RefreshGrains(ctx); err != nil {
			c.Log.Error("refresh grains: " + err.Error())
		}
		if refreshPillar {
			if err := c.Minion.RefreshPillar(ctx); err != nil {
				c.Log.Error("refresh pillar: " + err.Error())
			}
		}
	}
	return vals, nil
}

type grainsSetvalsArgs struct {
	Grains        any
	Destructive   bool `def:"False"`
	RefreshPillar bool `def:"True"`
}

func grainsSetvals(ctx context.Context, c *Call, a grainsSetvalsArgs) (any, error) {
	vals, ok := a.Grains.(*Map)
	if !ok {
		return nil, OtherErrorf("salt.exceptions.SaltException", "setvals grains must be a dictionary.")
	}
	return setGrains(ctx, c, vals, a.Destructive, a.RefreshPillar)
}

type grainsSetvalArgs struct {
	Key           string
	Val           any
	Destructive   bool `def:"False"`
	RefreshPillar bool `def:"True"`
}

func grainsSetval(ctx context.Context, c *Call, a grainsSetvalArgs) (any, error) {
	return setGrains(ctx, c, NewMap(a.Key, a.Val), a.Destructive, a.RefreshPillar)
}

type grainsAppendArgs struct {
	Key       string
	Val       any
	Convert   bool   `def:"False"`
	Delimiter string `def:"':'"`
}

// grainCopy reads a grain as a copy that may be changed.
func grainCopy(c *Call, key, delimiter string, fallback any) any {
	if v, ok := TraversePath(c.Grains, key, delimiter); ok {
		return DeepCopy(v)
	}
	return fallback
}

// rsplit cuts at the last delimiter.
func rsplit(key, delimiter string) (head, tail string, ok bool) {
	if i := strings.LastIndex(key, delimiter); delimiter != "" && i >= 0 {
		return key[:i], key[i+len(delimiter):], true
	}
	return key, "", false
}

func grainsAppend(ctx context.Context, c *Call, a grainsAppendArgs) (any, error) {
	have := grainCopy(c, a.Key, a.Delimiter, &List{})
	if _, ok := have.(*List); a.Convert && !ok {
		if have == nil {
			have = &List{}
		} else {
			have = NewList(have)
		}
	}
	list, ok := have.(*List)
	if !ok {
		return "The key " + a.Key + " is not a valid list", nil
	}
	if containsItem(list.Items, a.Val) {
		return "The val " + Str(a.Val) + " was already in the list " + a.Key, nil
	}
	if more, ok := a.Val.(*List); ok {
		list.Append(more.Items...)
	} else {
		list.Append(a.Val)
	}
	return setNested(ctx, c, a.Key, list, a.Delimiter, &Map{})
}

// setNested sets a value under a path: the outermost grain is written.
func setNested(ctx context.Context, c *Call, key string, val any, delimiter string, missing any) (any, error) {
	for {
		head, rest, ok := rsplit(key, delimiter)
		if !ok {
			return setGrains(ctx, c, NewMap(key, val), false, true)
		}
		outer := grainCopy(c, head, delimiter, DeepCopy(missing))
		if m, ok := outer.(*Map); ok {
			m.Set(rest, val)
		}
		key, val = head, outer
	}
}

type grainsRemoveArgs struct {
	Key       string
	Val       any
	Delimiter string `def:"':'"`
}

func grainsRemove(ctx context.Context, c *Call, a grainsRemoveArgs) (any, error) {
	list, ok := grainCopy(c, a.Key, a.Delimiter, &List{}).(*List)
	if !ok {
		return "The key " + a.Key + " is not a valid list", nil
	}
	for i, item := range list.Items {
		if Equal(item, a.Val) {
			list.Items = append(list.Items[:i], list.Items[i+1:]...)
			return setNested(ctx, c, a.Key, list, a.Delimiter, nil)
		}
	}
	return "The val " + Str(a.Val) + " was not in the list " + a.Key, nil
}

type grainsDelkeyArgs struct {
	Key   string
	Force bool `def:"False"`
}

func grainsDelkey(ctx context.Context, c *Call, a grainsDelkeyArgs) (any, error) {
	return setGrain(ctx, c, grainsSetArgs{Key: a.Key, Force: a.Force, Destructive: true, Delimiter: DefaultTargetDelim})
}

type grainsDelvalArgs struct {
	Key         string
	Destructive bool `def:"False"`
	Force       bool `def:"False"`
}

func grainsDelval(ctx context.Context, c *Call, a grainsDelvalArgs) (any, error) {
	return setGrain(ctx, c, grainsSetArgs{Key: a.Key, Force: a.Force, Destructive: a.Destructive, Delimiter: DefaultTargetDelim})
}

type grainsSetArgs struct {
	Key         string
	Val         any    `def:"''"`
	Force       bool   `def:"False"`
	Destructive bool   `def:"False"`
	Delimiter   string `def:"':'"`
}

func grainsSet(ctx context.Context, c *Call, a grainsSetArgs) (any, error) {
	return setGrain(ctx, c, a)
}

func isCollection(v any) bool {
	switch v.(type) {
	case *Map, *List:
		return true
	}
	return false
}

func setGrain(ctx context.Context, c *Call, a grainsSetArgs) (any, error) {
	answer := func(comment string, result bool) (any, error) {
		return NewMap("comment", comment, "changes", &Map{}, "result", result), nil
	}
	have, exists := TraversePath(c.Grains, a.Key, a.Delimiter)
	if exists && Equal(have, a.Val) && (a.Val != nil || !a.Destructive) {
		return answer("Grain is already set", true)
	}
	if exists && have != nil && !a.Force {
		if isCollection(have) {
			return answer("The key '"+a.Key+"' exists but is a dict or a list. Use 'force=True' to overwrite.", false)
		}
		if isCollection(a.Val) {
			return answer("The key '"+a.Key+"' exists and the given value is a dict or a list. Use 'force=True' to overwrite.", false)
		}
	}
	key, val := a.Key, a.Val
	for {
		head, rest, ok := rsplit(key, a.Delimiter)
		if !ok {
			break
		}
		outer := grainCopy(c, head, a.Delimiter, &Map{})
		switch o := outer.(type) {
		case *Map:
			if val == nil && a.Destructive {
				o.Delete(rest)
			} else {
				o.Set(rest, val)
			}
		case *List:
			updated := false
			for i, item := range o.Items {
				if Equal(item, rest) {
					o.Items[i], updated = NewMap(rest, val), true
				} else if m, ok := item.(*Map); ok && m.Has(rest) {
					m.Set(rest, val)
					updated = true
				}
			}
			if !updated {
				o.Append(NewMap(rest, val))
			}
		default:
			if !Equal(outer, rest) && !a.Force {
				return answer("The key '"+head+"' value is '"+Str(outer)+"', which is different from the provided key '"+rest+"'. Use 'force=True' to overwrite.", false)
			}
			outer = NewMap(rest, val)
		}
		key, val = head, outer
	}
	set, err := setGrains(ctx, c, NewMap(key, val), a.Destructive, true)
	if err != nil {
		return nil, err
	}
	if m, ok := set.(*Map); ok {
		return NewMap("comment", "", "changes", m, "result", true), nil
	}
	return answer(Str(set), false)
}
