// The module slsutil: what SLS files and templates use to merge, to render, to
// look into the tree and to draw banners.
package main

import (
	"context"
	"os"
	"path"
	"strings"
	"unicode/utf8"
)

func slsutilModule() Module {
	return Module{
		Doc: "Helpers for SLS files and templates.",
		Funcs: Funcs{
			"update":      {run: slsutilUpdate, doc: "Merge one mapping into another, all the way down."},
			"merge":       {run: slsutilMerge, doc: "Merge two mappings by a strategy: smart, recurse, aggregate, list, overwrite."},
			"merge_all":   {run: slsutilMergeAll, doc: "Merge a list of mappings one after the other."},
			"renderer":    {run: slsutilRenderer, doc: "Render a file of the tree, of the disk, or a text, by a pipe of renderers."},
			"serialize":   {run: slsutilSerialize, doc: "Write data as json, yaml, python or msgpack."},
			"deserialize": {run: slsutilDeserialize, doc: "Read json, yaml or msgpack."},
			"banner":      {run: slsutilBanner, doc: "Draw a comment block for the head of a managed file."},
			"boolstr":     {run: slsutilBoolstr, doc: "Choose one of two texts by a truth value."},
			"file_exists": {run: slsutilExists(true, false), doc: "Say whether a file is in the state tree."},
			"dir_exists":  {run: slsutilExists(false, true), doc: "Say whether a directory is in the state tree."},
			"path_exists": {run: slsutilExists(true, true), doc: "Say whether a file or directory is in the state tree."},
			"findup":      {run: slsutilFindup, doc: "Find a file in a directory of the state tree or the nearest one above it."},
		},
	}
}

type slsutilUpdateArgs struct {
	Dest, Upd  any
	Recursive  bool `arg:"recursive_update" def:"True"`
	MergeLists bool `arg:"merge_lists" def:"False"`
}

func slsutilUpdate(_ context.Context, _ *Call, a slsutilUpdateArgs) (any, error) {
	dest, ok1 := a.Dest.(*Map)
	upd, ok2 := a.Upd.(*Map)
	if !ok1 || !ok2 {
		return nil, TypeErrorf("Cannot update using non-dict types in dictupdate.update()")
	}
	if !a.Recursive {
		dest.Merge(upd)
		return dest, nil
	}
	return UpdateMap(dest, upd, a.MergeLists), nil
}

type slsutilMergeArgs struct {
	ObjA       any    `arg:"obj_a"`
	ObjB       any    `arg:"obj_b"`
	Strategy   string `def:"'smart'"`
	Renderer   string `def:"'yaml'"`
	MergeLists bool   `arg:"merge_lists" def:"False"`
}

func slsutilMerge(_ context.Context, _ *Call, a slsutilMergeArgs) (any, error) {
	x, ok1 := a.ObjA.(*Map)
	y, ok2 := a.ObjB.(*Map)
	if !ok1 || !ok2 {
		return nil, TypeErrorf("Cannot update using non-dict types in dictupdate.update()")
	}
	return MergeMaps(x, y, a.Strategy, a.Renderer, a.MergeLists), nil
}

type slsutilMergeAllArgs struct {
	Lst        []any
	Strategy   string `def:"'smart'"`
	Renderer   string `def:"'yaml'"`
	MergeLists bool   `arg:"merge_lists" def:"False"`
}

func slsutilMergeAll(_ context.Context, _ *Call, a slsutilMergeAllArgs) (any, error) {
	out := &Map{}
	for _, item := range a.Lst {
		m, ok := item.(*Map)
		if !ok {
			return nil, TypeErrorf("Cannot update using non-dict types in dictupdate.update()")
		}
		out = MergeMaps(out, m, a.Strategy, a.Renderer, a.MergeLists)
	}
	return out, nil
}

type slsutilRendererArgs struct {
	Path            any    `def:"None"`
	String          any    `def:"None"`
	DefaultRenderer string `arg:"default_renderer" def:"'jinja|yaml'"`
	Kwargs          *Map   `arg:"**kwargs"`
}

func slsutilRenderer(ctx context.Context, c *Call, a slsutilRendererArgs) (any, error) {
	if !Truth(a.Path) && !Truth(a.String) {
		return nil, InvocationErrorf("Must pass either path or string")
	}
	if Truth(a.Path) && Truth(a.String) {
		return nil, InvocationErrorf("Must not pass both path and string")
	}
	kw := cleanKwargs(a.Kwargs)
	req := RenderRequest{Renderers: a.DefaultRenderer, Saltenv: "base", Path: ":string:", Vars: &Map{}}
	if env := kw.Str("saltenv"); env != "" {
		req.Saltenv = env
	}
	req.SLS = kw.Str("sls")
	req.Context = kw.Map("context")
	for k, v := range kw.All() {
		switch k {
		case "saltenv", "sls", "context":
		default:
			req.Vars.Set(k, v)
		}
	}
	if Truth(a.String) {
		req.Source = Str(a.String)
	} else {
		got, err := c.RunKw(ctx, "cp.get_url", []any{a.Path}, NewMap("saltenv", req.Saltenv))
		if err != nil {
			return nil, err
		}
		where, _ := got.(string)
		if where == "" { // as an unknown template is: empty
			c.Log.Error("Template was specified incorrectly: " + Str(got))
			return &Map{}, nil
		}
		content, err := os.ReadFile(where)
		if err != nil {
			c.Log.Error("Template does not exist: " + where)
			return &Map{}, nil
		}
		req.Path, req.Source = where, string(content)
	}
	v, err := templatesOf(c).Render(ctx, c, req)
	if err != nil {
		return nil, renderCallError(err)
	}
	return v, nil
}

type slsutilSerializeArgs struct {
	Serializer string
	Obj        any
	Kwargs     *Map `arg:"**mod_kwargs"`
}

func slsutilSerialize(_ context.Context, _ *Call, a slsutilSerializeArgs) (any, error) {
	kw := cleanKwargs(a.Kwargs)
	switch a.Serializer {
	case "json":
		opt := JSONOptions{Indent: -1, SortKeys: Truth(kw.Value("sort_keys")), EnsureASCII: Truth(kw.Value("ensure_ascii"))}
		if n, ok := kw.Value("indent").(int64); ok {
			opt.Indent = int(max(0, min(n, 100)))
		}
		s, err := EncodeJSONStrict(a.Obj, opt)
		if err != nil {
			return nil, OtherErrorf("salt.serializers.SerializationError", "%s", err)
		}
		return s, nil
	case "yaml":
		opt := YAMLOptions{SortKeys: true, Flow: YAMLAuto, EscapeUnicode: true}
		if v, ok := kw.Get("default_flow_style"); ok && v != nil {
			opt.Flow = YAMLBlock
			if Truth(v) {
				opt.Flow = YAMLInline
			}
		}
		if v, ok := kw.Get("sort_keys"); ok {
			opt.SortKeys = Truth(v)
		}
		if v, ok := kw.Get("allow_unicode"); ok {
			opt.EscapeUnicode = !Truth(v)
		}
		if n, ok := kw.Value("indent").(int64); ok {
			opt.Indent = int(n)
		}
		s := DumpYAML(plainMaps(a.Obj), opt)
		if t, ok := strings.CutSuffix(s, "\n...\n"); ok {
			return t, nil
		}
		return strings.TrimSuffix(s, "\n"), nil
	case "python":
		return pprint(plainMaps(a.Obj), 1), nil
	case "msgpack":
		p, err := EncodeBin(a.Obj)
		if err != nil {
			return nil, OtherErrorf("salt.serializers.SerializationError", "%s", err)
		}
		return p, nil
	}
	return nil, ExecErrorf("Serializer '%s' not found.", a.Serializer)
}

type slsutilDeserializeArgs struct {
	Serializer string
	Stream     any  `arg:"stream_or_string"`
	Kwargs     *Map `arg:"**mod_kwargs"`
}

func slsutilDeserialize(_ context.Context, _ *Call, a slsutilDeserializeArgs) (any, error) {
	src, isBytes := a.Stream.([]byte)
	if !isBytes {
		src = []byte(Str(a.Stream))
	}
	var v any
	var err error
	switch a.Serializer {
	case "json":
		v, err = DecodeJSON(src)
	case "yaml":
		v, err = ParseYAML(src)
	case "msgpack":
		v, err = DecodeBin(src)
	case "python":
		return nil, ExecErrorf("Serializer '%s' does not implement deserialize.", a.Serializer)
	default:
		return nil, ExecErrorf("Serializer '%s' not found.", a.Serializer)
	}
	if err != nil {
		return nil, OtherErrorf("salt.serializers.DeserializationError", "%s", err)
	}
	return v, nil
}

type slsutilBannerArgs struct {
	Width       int    `def:"72"`
	Commentchar string `def:"'#'"`
	Borderchar  string `def:"'#'"`
	Blockstart  any    `def:"None"`
	Blockend    any    `def:"None"`
	Title       any    `def:"None"`
	Text        any    `def:"None"`
	Newline     bool   `def:"False"`
}

func slsutilBanner(_ context.Context, _ *Call, a slsutilBannerArgs) (any, error) {
	title, text := "THIS FILE IS MANAGED BY SALT - DO NOT EDIT",
		"The contents of this file are managed by Salt. Any changes to this file may be overwritten automatically and without warning."
	if a.Title != nil {
		title = Str(a.Title)
	}
	if a.Text != nil {
		text = Str(a.Text)
	}
	length := utf8.RuneCountInString
	repeat := func(s string, n int) string { return strings.Repeat(s, max(n, 0)) }
	left := strings.TrimRightFunc(a.Commentchar, isPythonSpace)
	right := strings.TrimFunc(a.Commentchar, isPythonSpace)
	width := a.Width - length(left) - length(right) - 2
	if width <= 0 || a.Width > 10000 {
		return nil, OtherErrorf("salt.exceptions.ArgumentValueError", "Width is too small to render banner")
	}
	border := ""
	if a.Borderchar != "" {
		_, n := utf8.DecodeRuneInString(a.Borderchar)
		border = a.Borderchar[:n]
	}
	borderLine := a.Commentchar + repeat(border, a.Width-length(left)-length(right)) + right
	spacer := a.Commentchar + repeat(" ", a.Width-length(a.Commentchar)*2) + a.Commentchar
	var lines []string
	if a.Blockstart != nil {
		lines = append(lines, Str(a.Blockstart))
	}
	lines = append(lines, borderLine, spacer)
	wrap := func(s string) []string {
		s = strings.Map(func(r rune) rune {
			if isPythonSpace(r) {
				return ' '
			}
			return r
		}, s)
		return jinjaWrapText(s, width, true, true)
	}
	for _, line := range wrap(title) {
		line, _ = padText(line, int64(width), " ", '^', 1<<20)
		lines = append(lines, left+" "+line+" "+right)
	}
	lines = append(lines, spacer)
	for _, line := range wrap(text) {
		lines = append(lines, left+" "+line+repeat(" ", width-length(line))+" "+right)
	}
	lines = append(lines, borderLine)
	if a.Blockend != nil {
		lines = append(lines, Str(a.Blockend))
	}
	out := strings.Join(lines, "\n")
	if a.Newline {
		out += "\n"
	}
	return out, nil
}

type slsutilBoolstrArgs struct {
	Value any
	Yes   any `arg:"true" def:"'true'"`
	No    any `arg:"false" def:"'false'"`
}

func slsutilBoolstr(_ context.Context, _ *Call, a slsutilBoolstrArgs) (any, error) {
	if Truth(a.Value) {
		return a.Yes, nil
	}
	return a.No, nil
}

type slsutilPathArgs struct {
	Path    string
	Saltenv string `def:"'base'"`
}

// inTree says whether the state tree has a file or directory of that path.
func inTree(ctx context.Context, c *Call, p, saltenv string, files, dirs bool) (bool, error) {
	if c.Files == nil {
		return false, nil
	}
	if files {
		list, err := c.Files.Files(ctx, saltenv, "")
		if err != nil {
			return false, ExecErrorf("list the files of %s: %s", saltenv, err)
		}
		for _, f := range list {
			if f == p {
				return true, nil
			}
		}
	}
	if dirs {
		list, err := c.Files.Dirs(ctx, saltenv, "")
		if err != nil {
			return false, ExecErrorf("list the directories of %s: %s", saltenv, err)
		}
		for _, f := range list {
			if f == p {
				return true, nil
			}
		}
	}
	return false, nil
}

func slsutilExists(files, dirs bool) func(context.Context, *Call, slsutilPathArgs) (any, error) {
	return func(ctx context.Context, c *Call, a slsutilPathArgs) (any, error) {
		return inTree(ctx, c, a.Path, a.Saltenv, files, dirs)
	}
}

type slsutilFindupArgs struct {
	Startpath string
	Filenames any
	Saltenv   string `def:"'base'"`
}

func slsutilFindup(ctx context.Context, c *Call, a slsutilFindupArgs) (any, error) {
	start := a.Startpath
	if start != "" {
		start = path.Clean(start)
		found, err := inTree(ctx, c, start, a.Saltenv, true, true)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, InvocationErrorf("Starting path not found in the state tree: %s", start)
		}
	}
	var names []any
	switch n := a.Filenames.(type) {
	case string:
		names = []any{n}
	case *List:
		names = n.Items
	default:
		return nil, InvocationErrorf("Filenames argument must be a string or list of strings")
	}
	for {
		for _, name := range names {
			full := path.Join(start, Str(name))
			found, err := inTree(ctx, c, full, a.Saltenv, true, true)
			if err != nil {
				return nil, err
			}
			if found {
				return full, nil
			}
		}
		if start == "" || start == "." {
			return nil, ExecErrorf("File pattern(s) not found in path ancestry")
		}
		if start = path.Dir(start); start == "." {
			start = ""
		}
	}
}
