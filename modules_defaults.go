// The modules defaults (the defaults files of formulas), log (messages from
// templates) and out (data in the form of an outputter).
package main

import (
	"context"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
)

func defaultsModule() Module {
	return Module{
		Doc: "Read the defaults files of formulas, and merge mappings in templates.",
		Funcs: Funcs{
			"get":      {run: defaultsGet, doc: "Return a value of salt://<formula>/defaults.yaml or .json; the first word of key is the formula.\n\nCLI Example:\n\n    salt '*' defaults.get core:users:root"},
			"merge":    {run: defaultsMerge, doc: "Merge src into dest, all the way down, and return dest."},
			"deepcopy": {run: defaultsDeepcopy, doc: "Return a copy of data that shares nothing with it."},
			"update":   {run: defaultsUpdate, doc: "Give every mapping of a mapping the values of defaults that it lacks."},
		},
	}
}

type defaultsGetArgs struct {
	Key     string
	Default any `def:"''"`
}

func defaultsGet(ctx context.Context, c *Call, a defaultsGetArgs) (any, error) {
	formula, rest, deep := strings.Cut(a.Key, ":")
	defaults, err := formulaDefaults(ctx, c, formula)
	if err != nil || !deep || rest == "" {
		return defaults, err
	}
	if m, ok := defaults.(*Map); ok {
		if v, ok := TraversePath(m, rest, ":"); ok {
			return v, nil
		}
	}
	return a.Default, nil
}

// formulaDefaults reads the defaults file of a formula, or returns nil.
func formulaDefaults(ctx context.Context, c *Call, formula string) (any, error) {
	for _, ext := range []string{"yaml", "json"} {
		cached, err := cacheSource(ctx, c, "salt://"+formula+"/defaults."+ext, "base", nil, true)
		if err != nil || cached == "" {
			continue
		}
		data, err := os.ReadFile(cached)
		if err != nil {
			continue
		}
		parse := ParseYAML
		if ext == "json" {
			parse = DecodeJSON
		}
		v, err := parse(data)
		if err == nil && !Truth(v) {
			v = &Map{}
		}
		return v, err
	}
	return nil, nil
}

type defaultsMergeArgs struct {
	Dest, Src   any
	MergeLists  bool `arg:"merge_lists" def:"False"`
	InPlace     bool `arg:"in_place" def:"True"`
	ConvertNone bool `arg:"convert_none" def:"True"`
}

func defaultsMerge(_ context.Context, _ *Call, a defaultsMergeArgs) (any, error) {
	if a.Src == nil && a.ConvertNone {
		a.Src = &Map{}
	}
	if a.Dest == nil && a.ConvertNone {
		if a.InPlace {
			return nil, TypeErrorf("Can't perform in-place merge into NoneType")
		}
		a.Dest = &Map{}
	}
	dest, ok1 := a.Dest.(*Map)
	src, ok2 := a.Src.(*Map)
	if !ok1 || !ok2 {
		return nil, TypeErrorf("Cannot update using non-dict types in dictupdate.update()")
	}
	if !a.InPlace {
		dest = DeepCopy(dest).(*Map)
	}
	return UpdateMap(dest, src, a.MergeLists), nil
}

func defaultsDeepcopy(_ context.Context, _ *Call, a struct{ Source any }) (any, error) {
	return DeepCopy(a.Source), nil
}

type defaultsUpdateArgs struct {
	Dest, Defaults any
	MergeLists     bool `arg:"merge_lists" def:"True"`
	InPlace        bool `arg:"in_place" def:"True"`
	ConvertNone    bool `arg:"convert_none" def:"True"`
}

func defaultsUpdate(ctx context.Context, c *Call, a defaultsUpdateArgs) (any, error) {
	if a.Dest == nil {
		if a.InPlace {
			return nil, TypeErrorf("Can't perform in-place update into NoneType")
		}
		if a.ConvertNone {
			a.Dest = &Map{}
		}
	}
	if a.Defaults == nil && a.ConvertNone {
		a.Defaults = &Map{}
	}
	nodes, ok := a.Dest.(*Map)
	if !ok {
		return nil, OtherErrorf("AttributeError", "'%s' object has no attribute 'items'", TypeName(a.Dest))
	}
	if !a.InPlace {
		nodes = DeepCopy(nodes).(*Map)
	}
	for _, name := range nodes.Keys() {
		node, _ := nodes.Get(name)
		merged, err := defaultsMerge(ctx, c, defaultsMergeArgs{
			Dest: DeepCopy(a.Defaults), Src: node, MergeLists: a.MergeLists, InPlace: true, ConvertNone: a.ConvertNone,
		})
		if err != nil {
			return nil, err
		}
		nodes.Set(name, merged)
	}
	return nodes, nil
}

func logModule() Module {
	at := func(level slog.Level, word string) Func {
		return Func{
			run: func(ctx context.Context, c *Call, a struct{ Message any }) (any, error) {
				c.Log.Log(ctx, level, Str(a.Message))
				return true, nil
			},
			doc: "Write a message of level " + word + " to the log of this minion.",
		}
	}
	return Module{
		Doc: "Write to the log of this minion, mostly from templates.",
		Funcs: Funcs{
			"debug": at(slog.LevelDebug, "debug"), "info": at(slog.LevelInfo, "info"), "warning": at(slog.LevelWarn, "warning"),
			"error": at(slog.LevelError, "error"), "exception": at(slog.LevelError, "error"), "critical": at(LevelCritical, "critical"),
		},
	}
}

func outModule() Module {
	return Module{
		Doc: "Show data as an outputter of the command line would.",
		Funcs: Funcs{
			"out_format":    {run: outFormat, doc: "Return data as the text of an outputter."},
			"string_format": {run: outString, doc: "Return data as the text of an outputter, without colours."},
			"html_format":   {run: outHTML, doc: "Return data as the text of an outputter, with the blanks and line ends of HTML."},
		},
	}
}

type outArgs struct {
	Data   any
	Out    string `def:"'nested'"`
	Opts   any    `def:"None"`
	Kwargs *Map   `arg:"**"`
}

func outFormat(_ context.Context, c *Call, a outArgs) (any, error) {
	return Output(a.Out, a.Data, newOutputOptions(c.Opts, false))
}

// escapeCodes are the colours of a terminal.
var escapeCodes = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\x1b[^m]*m`) })

func outString(ctx context.Context, c *Call, a outArgs) (any, error) {
	text, err := outFormat(ctx, c, a)
	if err != nil {
		return nil, err
	}
	return escapeCodes().ReplaceAllString(text.(string), ""), nil
}

func outHTML(ctx context.Context, c *Call, a outArgs) (any, error) {
	text, err := outString(ctx, c, a)
	if err != nil {
		return nil, err
	}
	return strings.NewReplacer(" ", "&nbsp;", "\n", "<br />").Replace(text.(string)), nil
}
