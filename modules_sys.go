// Module sys: what can be called here, with its documentation and its arguments.
//
// Everything is read from the registries: functions, states, runners,
// returners and renderers are each a list of entries to this room, and one set
// of rules picks from a list by names, globs and module names.
package main

import (
	"context"
	"regexp"
	"sort"
	"strings"
)

func sysModule() Module {
	return Module{
		Doc: "What can be called here: names, documentation and arguments.",
		Funcs: Funcs{
			"doc":                     {run: sysDoc, doc: "Return the documentation of all functions, or of the named modules and functions.\n\nCLI Example:\n\n    salt '*' sys.doc\n    salt '*' sys.doc cmd.run\n    salt '*' sys.doc 'sys.l*'"},
			"argspec":                 {run: sysArgspec, doc: "Return the arguments of functions and their defaults.\n\nCLI Example:\n\n    salt '*' sys.argspec cmd.run\n    salt '*' sys.argspec 'pkg.*'"},
			"list_functions":          {run: sysListFunctions, doc: "List functions: all, those of modules, or those that match a glob."},
			"list_modules":            {run: sysListModules, doc: "List the modules, or those that match."},
			"reload_modules":          {run: sysReloadModules, doc: "Load the modules again."},
			"state_doc":               {run: sysStateDoc, doc: "Return the documentation of states."},
			"state_argspec":           {run: sysStateArgspec, doc: "Return the arguments of states."},
			"state_schema":            {run: sysStateSchema, doc: "Return the arguments of states as JSON schemas."},
			"list_state_functions":    {run: sysListStateFunctions, doc: "List states: all, those of modules, or those that match a glob."},
			"list_state_modules":      {run: sysListStateModules, doc: "List the state modules, or those that match."},
			"runner_doc":              {run: sysRunnerDoc, doc: "Return the documentation of runners."},
			"runner_argspec":          {run: sysRunnerArgspec, doc: "Return the arguments of runners."},
			"list_runners":            {run: sysListRunners, doc: "List the runner modules, or those that match."},
			"list_runner_functions":   {run: sysListRunnerFunctions, doc: "List the functions of runners."},
			"returner_doc":            {run: sysReturnerDoc, doc: "Return the documentation of returners."},
			"returner_argspec":        {run: sysReturnerArgspec, doc: "Return the arguments of returners."},
			"list_returners":          {run: sysListReturners, doc: "List the returners, or those that match."},
			"list_returner_functions": {run: sysListReturnerFunctions, doc: "List the functions of returners."},
			"renderer_doc":            {run: sysRendererDoc, doc: "Return the documentation of renderers."},
			"list_renderers":          {run: sysListRenderers, doc: "List the renderers, or those that match."},
		},
	}
}

// sysEntry is one thing that can be called by name.
type sysEntry struct {
	name   string
	doc    string
	sig    *Signature
	modDoc string // documentation of its module
}

// sysFunctions lists the execution functions.
func sysFunctions(ctx context.Context, c *Call) []sysEntry {
	var out []sysEntry
	for _, mod := range c.Loader.ModuleNames(ctx, c) {
		m := c.Loader.Module(ctx, c, mod)
		for fun, f := range m.Funcs {
			out = append(out, sysEntry{mod + "." + fun, f.Doc(), f.Signature(), m.Doc})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].name < out[j].name })
	return out
}

type namesArgs struct {
	Args []any `arg:"*args"`
}

type namesKwArgs struct {
	Args   []any `arg:"*args"`
	Kwargs *Map  `arg:"**kwargs"`
}

type sysModuleArgs struct {
	Module string `def:"''"`
}

// listNames picks names by module name, or by glob where there is a star or a
// dot. No words: all names.
func listNames(entries []sysEntry, words []any) *List {
	picked := map[string]bool{}
	for _, e := range entries {
		if len(words) == 0 {
			picked[e.name] = true
		}
		for _, w := range words {
			word := Str(w)
			if strings.ContainsAny(word, "*.") && GlobMatch(word, e.name) || strings.HasPrefix(e.name, word+".") {
				picked[e.name] = true
			}
		}
	}
	return sortedList(picked)
}

// listModules picks the modules of names; a glob is held against whole names.
func listModules(entries []sysEntry, words []any) *List {
	picked := map[string]bool{}
	for _, e := range entries {
		mod, _, _ := strings.Cut(e.name, ".")
		if len(words) == 0 {
			picked[mod] = true
		}
		for _, w := range words {
			word := Str(w)
			if mod == word || strings.Contains(word, "*") && GlobMatch(word, e.name) {
				picked[mod] = true
			}
		}
	}
	return sortedList(picked)
}

func sortedList(names map[string]bool) *List {
	out := make([]string, 0, len(names))
	for n := range names {
		out = append(out, n)
	}
	sort.Strings(out)
	return Strings(out)
}

// docsOf picks documentation; withModules adds that of the modules.
func docsOf(entries []sysEntry, words []any, withModules bool) *Map {
	out := &Map{}
	for _, e := range entries {
		take := len(words) == 0
		for _, w := range words {
			word := Str(w)
			if strings.Contains(word, "*") {
				take = take || GlobMatch(word, e.name)
			} else {
				take = take || e.name == word || word == "" || strings.HasPrefix(e.name, strings.TrimSuffix(word, ".")+".")
			}
		}
		if !take {
			continue
		}
		if mod, _, _ := strings.Cut(e.name, "."); withModules && !out.Has(mod) {
			out.Set(mod, orNone(plainDoc(e.modDoc)))
		}
		out.Set(e.name, orNone(plainDoc(e.doc)))
	}
	return out
}

// plainDoc takes directives of reStructuredText out of a text, which modules of
// users have.
func plainDoc(doc string) string {
	if !strings.Contains(doc, ".. ") {
		return doc
	}
	doc = regexp.MustCompile(` *\.\. code-block:: \S+\n{1,2}`).ReplaceAllString(doc, "")
	return strings.NewReplacer(".. note::", "Note:", ".. warning::", "Warning:", ".. versionadded::", "New in version",
		".. versionchanged::", "Changed in version").Replace(doc)
}

// argspecOf describes arguments in Salt's form, where what is empty is None.
func argspecOf(entries []sysEntry, word string) *Map {
	out := &Map{}
	for _, e := range entries {
		if strings.ContainsAny(word, "*.") {
			if !GlobMatch(word, e.name) {
				continue
			}
		} else if !strings.HasPrefix(e.name, word+".") {
			continue
		}
		out.Set(e.name, signatureMap(e.sig))
	}
	return out
}

func signatureMap(sig *Signature) *Map {
	args, defaults := &List{}, &List{}
	for _, p := range sig.Params {
		args.Append(p.Name)
		if p.Optional {
			defaults.Append(DeepCopy(p.Default))
		}
	}
	m := NewMap("args", nil, "defaults", nil, "varargs", nil, "kwargs", nil)
	if args.Len() > 0 {
		m.Set("args", args)
	}
	if defaults.Len() > 0 {
		m.Set("defaults", defaults)
	}
	if sig.Varargs != "" {
		m.Set("varargs", true)
	}
	if sig.Kwargs != "" {
		m.Set("kwargs", true)
	}
	return m
}

func sysDoc(ctx context.Context, c *Call, a namesArgs) (any, error) {
	return docsOf(sysFunctions(ctx, c), a.Args, false), nil
}

func sysArgspec(ctx context.Context, c *Call, a sysModuleArgs) (any, error) {
	return argspecOf(sysFunctions(ctx, c), a.Module), nil
}

func sysListFunctions(ctx context.Context, c *Call, a namesKwArgs) (any, error) {
	return listNames(sysFunctions(ctx, c), a.Args), nil
}

func sysListModules(ctx context.Context, c *Call, a namesArgs) (any, error) {
	return listModules(sysFunctions(ctx, c), a.Args), nil
}

func sysReloadModules(ctx context.Context, c *Call, _ noArgs) (any, error) {
	if c.Minion != nil {
		return nil, c.Minion.RefreshModules(ctx)
	}
	return nil, nil
}

func sysStateDoc(ctx context.Context, c *Call, a namesArgs) (any, error) {
	return docsOf(sysStates(ctx, c), a.Args, true), nil
}

func sysStateArgspec(ctx context.Context, c *Call, a sysModuleArgs) (any, error) {
	return argspecOf(sysStates(ctx, c), a.Module), nil
}

func sysListStateFunctions(ctx context.Context, c *Call, a namesKwArgs) (any, error) {
	return listNames(sysStates(ctx, c), a.Args), nil
}

func sysListStateModules(ctx context.Context, c *Call, a namesArgs) (any, error) {
	return listModules(sysStates(ctx, c), a.Args), nil
}

func sysRunnerDoc(ctx context.Context, c *Call, a namesArgs) (any, error) {
	return docsOf(sysRunners(ctx, c), a.Args, false), nil
}

func sysRunnerArgspec(ctx context.Context, c *Call, a sysModuleArgs) (any, error) {
	return argspecOf(sysRunners(ctx, c), a.Module), nil
}

func sysListRunners(ctx context.Context, c *Call, a namesArgs) (any, error) {
	return listModules(sysRunners(ctx, c), a.Args), nil
}

func sysListRunnerFunctions(ctx context.Context, c *Call, a namesKwArgs) (any, error) {
	return listNames(sysRunners(ctx, c), a.Args), nil
}

func sysReturnerDoc(ctx context.Context, c *Call, a namesArgs) (any, error) {
	return docsOf(sysReturners(ctx, c), a.Args, false), nil
}

func sysReturnerArgspec(ctx context.Context, c *Call, a sysModuleArgs) (any, error) {
	return argspecOf(sysReturners(ctx, c), a.Module), nil
}

func sysListReturners(ctx context.Context, c *Call, a namesArgs) (any, error) {
	return listModules(sysReturners(ctx, c), a.Args), nil
}

func sysListReturnerFunctions(ctx context.Context, c *Call, a namesKwArgs) (any, error) {
	return listNames(sysReturners(ctx, c), a.Args), nil
}

func sysRendererDoc(ctx context.Context, c *Call, a namesArgs) (any, error) {
	out := &Map{}
	for _, e := range sysRenderers(ctx, c) {
		take := len(a.Args) == 0
		for _, w := range a.Args {
			word := Str(w)
			take = take || strings.ContainsAny(word, "*.") && GlobMatch(word, e.name)
		}
		if take {
			out.Set(e.name, orNone(plainDoc(e.doc)))
		}
	}
	return out, nil
}

func sysListRenderers(ctx context.Context, c *Call, a namesArgs) (any, error) {
	picked := map[string]bool{}
	for _, e := range sysRenderers(ctx, c) {
		if len(a.Args) == 0 {
			picked[e.name] = true
		}
		for _, w := range a.Args {
			if GlobMatch(Str(w), e.name) {
				picked[e.name] = true
			}
		}
	}
	return sortedList(picked), nil
}

func sysStateSchema(ctx context.Context, c *Call, a sysModuleArgs) (any, error) {
	out := &List{}
	for name, spec := range argspecOf(sysStates(ctx, c), a.Module).All() {
		args, defaults := spec.(*Map).List("args"), spec.(*Map).List("defaults")
		required, properties, order := &List{}, &Map{}, &List{}
		for i := 0; i < args.Len(); i++ {
			arg := args.Items[i]
			forms := &List{}
			for _, kind := range []string{"boolean", "integer", "number", "string"} {
				form := NewMap("type", kind, "title", arg, "description", arg)
				if at := i - (args.Len() - defaults.Len()); at >= 0 {
					form.Set("default", defaults.Items[at])
				}
				forms.Append(form)
			}
			properties.Set(arg, NewMap("oneOf", forms))
			order.Append(arg)
			if i < args.Len()-defaults.Len() {
				required.Append(arg)
			}
		}
		schema := NewMap("$schema", "http://json-schema.org/draft-04/schema#", "title", name, "description", name,
			"type", "object", "properties", properties, "x-ordering", order)
		if required.Len() > 0 {
			schema.Set("required", required)
		}
		schema.Set("additionalProperties", false)
		out.Append(schema)
	}
	return out, nil
}
