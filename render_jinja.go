// Jinja as Salt sets it up: variables, the salt object, imports through the
// file client, and errors with the lines around them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// renderRun is what functions of one rendering need: JinjaRun.Data.
type renderRun struct {
	req     *RenderRequest
	rd      *Renderer
	sources map[string]string // of imported files, by where they are
}

// env makes (or finds) the environment for a set of options.
func (rd *Renderer) env(req *RenderRequest, extra *Map) *JinjaEnv {
	options := &Map{}
	chosen := rd.cfg.JinjaEnv
	if !req.NoSLS && req.SLS != "" {
		chosen = rd.cfg.JinjaSLSEnv
	}
	for k, v := range chosen.All() {
		options.Set(strings.ToLower(Str(k)), v)
	}
	if rd.cfg.TrimBlocks {
		options.Set("trim_blocks", true)
	}
	if rd.cfg.LstripBlocks {
		options.Set("lstrip_blocks", true)
	}
	for k, v := range extra.All() {
		options.Set(strings.ToLower(Str(k)), v)
	}
	key := EncodeJSON(options, JSONOptions{Indent: -1})
	rd.mu.Lock()
	defer rd.mu.Unlock()
	if env := rd.envs[key]; env != nil {
		return env
	}
	env := NewJinjaEnv()
	env.Undefined = JinjaStrict
	if rd.cfg.AllowUndefined {
		env.Undefined = JinjaLenient
	}
	env.Limits = rd.cfg.Limits
	env.Loader = saltLoader{}
	env.Finalize = finalizeValue
	for name, f := range rd.saltFilters() {
		env.Filters[name] = f
	}
	for name, f := range rd.saltTests() {
		env.Tests[name] = f
	}
	for name, v := range saltGlobals() {
		env.Globals[name] = v
	}
	for name, tag := range saltTags() {
		env.Tags[name] = tag
	}
	for k, v := range options.All() {
		if err := env.SetOption(Str(k), v); err != nil {
			req.Log.Warn(fmt.Sprintf("Jinja2 environment %s is not recognized", Str(k)))
		}
	}
	rd.envs[key] = env
	return env
}

// finalizeValue is what every {{ }} prints: mappings of every class as plain
// ones whose text is good YAML. It refuses a dict with an undefined value in it.
func finalizeValue(v any) (any, error) {
	if m, ok := v.(*Map); ok {
		if err := definedValues(m, 0); err != nil {
			return nil, err
		}
	}
	return printableValue(v, 0), nil
}

// printableValue copies a value for printing.
func printableValue(v any, depth int) any {
	if depth > maxReprDepth {
		return v
	}
	switch v := v.(type) {
	case *Map:
		m := NewMap()
		for k, item := range v.All() {
			if s, ok := item.(string); ok && strings.ContainsAny(s, "\n\r\t") {
				m.Set(k, yamlQuotedText(s))
			} else {
				m.Set(k, printableValue(item, depth+1))
			}
		}
		return m
	case *List:
		return &List{Items: printableItems(v.Items, depth)}
	case Tuple:
		return Tuple(printableItems(v, depth))
	}
	return v
}

func printableItems(items []any, depth int) []any {
	out := make([]any, len(items))
	for i, item := range items {
		out[i] = printableValue(item, depth+1)
	}
	return out
}

// yamlQuotedText is a text of several lines within a printed mapping: Python's
// repr of it would read back as another text.
type yamlQuotedText string

func (yamlQuotedText) TypeName() string { return "str" }
func (yamlQuotedText) Truth() bool      { return true }
func (t yamlQuotedText) Repr() string {
	return strings.TrimSuffix(DumpYAML(string(t), YAMLOptions{DefaultStyle: '"', Width: -1}), "\n")
}

func definedValues(m *Map, depth int) error {
	if depth > maxReprDepth {
		return nil
	}
	for _, item := range m.All() {
		switch item := item.(type) {
		case *JinjaUndefined:
			if item.Kind == JinjaStrict {
				return item.fail()
			}
		case *Map:
			if err := definedValues(item, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// fileOptions takes the options of a "#jinja2:" line at the top of a template,
// and the template without it.
func fileOptions(req *RenderRequest, source string) (string, *Map) {
	lines := strings.SplitAfter(source, "\n")
	i := 0
	if strings.HasPrefix(lines[0], "#!") && !strings.HasPrefix(lines[0], "#!/") {
		i = 1
	}
	if i >= len(lines) || !strings.HasPrefix(lines[i], "#jinja2:") {
		return source, nil
	}
	payload := strings.TrimSpace(strings.TrimPrefix(lines[i], "#jinja2:"))
	if payload == "" {
		return source, nil
	}
	v, err := DecodeJSON([]byte(payload))
	m, ok := v.(*Map)
	if err != nil || !ok {
		req.Log.Warn("Ignoring malformed '#jinja2:' header in template: " + strings.TrimRight(lines[i], "\r\n"))
		return source, nil
	}
	return strings.Join(append(append([]string{}, lines[:i]...), lines[i+1:]...), ""), m
}

// slsVariables are the variables that tell a template where it is.
func slsVariables(tmplpath, sls string) map[string]any {
	vars := map[string]any{}
	slspath := strings.ReplaceAll(sls, ".", "/")
	if tmplpath != "" {
		tmpl := tmplpath
		switch {
		case sls == "":
			tmpl = tmpl[strings.LastIndexByte(tmpl, '/')+1:]
		case strings.HasSuffix(tmpl, slspath+".sls"):
			tmpl = tmpl[len(tmpl)-len(slspath)-4:]
		case strings.HasSuffix(tmpl, slspath+"/init.sls"):
			tmpl = tmpl[len(tmpl)-len(slspath)-9:]
		}
		slspath = ""
		if at := strings.LastIndexByte(tmpl, '/'); at >= 0 {
			slspath = tmpl[:at]
		}
		vars["tplpath"], vars["tplfile"] = tmplpath, tmpl
		vars["tpldir"] = slspath
		if slspath == "" {
			vars["tpldir"] = "."
		}
		vars["tpldot"] = strings.ReplaceAll(slspath, "/", ".")
	}
	vars["slspath"] = slspath
	vars["slsdotpath"] = strings.ReplaceAll(slspath, "/", ".")
	vars["slscolonpath"] = strings.ReplaceAll(slspath, "/", ":")
	vars["sls_path"] = strings.ReplaceAll(slspath, "/", "_")
	return vars
}

// variables are all variables of a template.
func (rd *Renderer) variables(req *RenderRequest) map[string]any {
	vars := map[string]any{"saltenv": req.Saltenv, "salt": &saltObject{req}}
	orEmpty := func(m *Map) *Map {
		if m == nil {
			return &Map{}
		}
		return m
	}
	vars["grains"], vars["pillar"], vars["opts"] = orEmpty(req.Grains), orEmpty(req.Pillar), orEmpty(req.Opts)
	if !req.NoSLS {
		vars["sls"] = req.SLS
	}
	for k, v := range req.Vars.All() {
		vars[Str(k)] = v
	}
	for k, v := range req.Context.All() {
		vars[Str(k)] = v
	}
	if sls, ok := vars["sls"].(string); ok {
		for k, v := range slsVariables(req.Path, sls) {
			if _, given := vars[k]; !given {
				vars[k] = v
			}
		}
	}
	return vars
}

func (rd *Renderer) renderJinja(ctx context.Context, req *RenderRequest, source string) (any, error) {
	ending := ""
	if strings.HasSuffix(source, "\n") {
		ending = "\n"
	}
	text, options := fileOptions(req, source)
	env := rd.env(req, options)
	run := &renderRun{req: req, rd: rd, sources: map[string]string{}}
	vars := rd.variables(req)
	globals := make(map[string]any, len(vars)+3)
	for k, v := range vars {
		globals[k] = v // imported templates see them without asking
	}
	tmpl, err := env.Parse(text, "")
	var out string
	if err == nil {
		out, err = tmpl.Render(ctx, JinjaVars{Vars: vars, Globals: globals, Data: run})
	}
	if err != nil {
		return nil, run.errorOf(err, text, vars)
	}
	return out + ending, nil
}

// lineContext shows the lines around a line, which is marked.
func lineContext(template string, line int) string { return linesContext(template, line, false) }

// linesContext is lineContext; with traced the lines go on with a traceback
// that is cut off after its head.
func linesContext(template string, line int, traced bool) string {
	const around = 5
	lines := splitLines(template, false)
	more := len(lines)
	if traced {
		if strings.HasSuffix(template, "\n") {
			lines = append(lines, "")
		}
		lines = append(lines, "Traceback (most recent call last):")
		more = len(lines) + around
	}
	if line > len(lines) || line < 1 {
		return template
	}
	start, end := max(0, line-around-1), min(len(lines), line+around)
	marked := line - start - 1
	var buf []string
	if start > 0 {
		buf = append(buf, "[...]")
		marked++
	}
	buf = append(buf, lines[start:end]...)
	if end < len(lines) || end < more {
		buf = append(buf, "[...]")
	}
	buf[marked] += "    <======================"
	return "---\n" + strings.Join(buf, "\n") + "\n---"
}

// errorOf words an error as Salt does.
func (run *renderRun) errorOf(err error, source string, vars map[string]any) error {
	var je *JinjaError
	if !errors.As(err, &je) {
		je = &JinjaError{Class: pythonClassOf(err), Message: err.Error(), Cause: err, Line: 1}
	}
	if run.req.Log != nil && je.Cause != nil && errors.Is(je.Cause, context.Canceled) {
		return je.Cause
	}
	// the innermost level that is no block says where it happened
	line, file := je.Line, ""
	for i := len(je.Trace) - 1; i >= 0; i-- {
		if f := je.Trace[i]; f.Block == "" {
			line, file = f.Line, f.Filename
			break
		}
	}
	where := ""
	if content, ok := run.sources[file]; ok && file != "" {
		sls, inSLS := vars["sls"].(string)
		if !inSLS || !strings.HasSuffix(file, strings.ReplaceAll(sls, ".", "/")) {
			where = fmt.Sprintf("\n%s(%d):\n%s", file, line, lineContext(content, line))
			line = 0
		}
	}
	e := &RenderError{Line: line, Cause: err}
	trace := ""
	switch {
	case je.Class == jinjaUndefinedClass:
		e.Text = "Jinja variable " + je.Message + where
	case isJinjaRuntimeClass(je.Class):
		e.Text = "Jinja syntax error: " + je.Message + where
	case je.Class == "salt.exceptions.SaltInvocationError" || je.Class == "salt.exceptions.CommandExecutionError" ||
		je.Class == "salt.exceptions.CommandNotFoundError":
		e.Text = "Problem running salt function in Jinja template: " + je.Message + where
	default:
		trace = tracebackText(je)
		e.Text = "Jinja error: " + je.Message + where + "\n" + trace + "\n"
	}
	if line > 0 {
		e.Text += fmt.Sprintf("; line %d\n\n%s", line, linesContext(source, line, trace != ""))
	}
	return e
}

func isJinjaRuntimeClass(class string) bool {
	switch class {
	case jinjaRuntimeClass, jinjaSyntaxErrorClass, jinjaAssertionClass, jinjaSecurityClass, jinjaFilterArgClass:
		return true
	}
	return false
}

// tracebackText stands for Python's traceback: its first and its last line, and
// the error before it if there was one.
func tracebackText(e *JinjaError) string {
	const head = "Traceback (most recent call last):\n"
	text := ""
	var ye *YAMLError
	if errors.As(e.Cause, &ye) {
		text = head + yamlClass(ye) + ": " + ye.Error() + "\n\nDuring handling of the above exception, another exception occurred:\n\n"
	}
	last := e.Class
	if e.Message != "" {
		last += ": " + e.Message
	}
	return text + head + last + "\n"
}

// saltLoader loads imported templates through the file client.
type saltLoader struct{}

// LoadTemplate finds a template by its path in the tree, or relative to the
// template that was loaded last when it begins with a dot.
func (saltLoader) LoadTemplate(r *JinjaRun, name string) (string, string, error) {
	run := r.Data.(*renderRun)
	files := run.req.Files
	if files == nil && run.req.Path != "" {
		files = DirectoryFiles(path.Dir(run.req.Path))
	}
	if files == nil {
		return "", "", JinjaNotFound(name)
	}
	target := name
	first, _, _ := strings.Cut(name, "/")
	relative := first == "." || first == ".."
	tpldir, hasDir := textOf(r.Globals["tpldir"])
	if relative {
		if !hasDir {
			run.req.Log.Warn(fmt.Sprintf("Relative path \"%s\" cannot be resolved without an environment", name))
			return "", "", JinjaNotFound(name)
		}
		target = path.Clean(tpldir + "/" + name)
		if first, _, _ := strings.Cut(target, "/"); first == ".." {
			run.req.Log.Warn(fmt.Sprintf("Discarded template path \"%s\": attempts to ascend outside of salt://", target))
			return "", "", JinjaNotFound(name)
		}
	}
	// the position of the template loaded last is what relative names start from
	dir, file := path.Dir(target), target
	if relative {
		dir, file = tpldir, name
	}
	r.Globals["tplfile"] = file
	r.Globals["tpldir"] = dir
	r.Globals["tpldot"] = strings.ReplaceAll(strings.TrimPrefix(dir, "."), "/", ".")
	content, where, err := files.FetchTemplate(r.Ctx, target, run.req.Saltenv)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", JinjaNotFound(name)
	}
	if err != nil {
		return "", "", fmt.Errorf("fetch the template %s: %w", target, err)
	}
	run.sources[where] = string(content)
	return string(content), where, nil
}

// saltObject is salt in templates.
type saltObject struct{ req *RenderRequest }

func (s *saltObject) TypeName() string      { return "AliasedLoader" }
func (s *saltObject) QualifiedName() string { return "salt.utils.templates.AliasedLoader" }
func (s *saltObject) Truth() bool           { return true }
func (s *saltObject) Repr() string          { return "<salt.utils.templates.AliasedLoader object at 0x0>" }

// Attribute is salt.mod.
func (s *saltObject) Attribute(_ *JinjaRun, name string) (any, bool, error) {
	f := s.req.Functions
	if f == nil || strings.HasPrefix(name, "_") || !f.HasModule(name) {
		return nil, false, nil
	}
	return &saltModule{s.req, name}, true, nil
}

// Item is salt['mod.fun'].
func (s *saltObject) Item(_ *JinjaRun, key any) (any, bool, error) {
	name, ok := textOf(key)
	if !ok || s.req.Functions == nil || !s.req.Functions.HasFunction(name) {
		return nil, false, nil
	}
	return saltFunction(s.req, name), true, nil
}

// Contains is 'mod.fun' in salt.
func (s *saltObject) Contains(_ *JinjaRun, v any) (bool, error) {
	name, ok := textOf(v)
	return ok && s.req.Functions != nil && s.req.Functions.HasFunction(name), nil
}

// saltModule is salt.mod.
type saltModule struct {
	req  *RenderRequest
	name string
}

func (m *saltModule) TypeName() string      { return "LoadedMod" }
func (m *saltModule) QualifiedName() string { return "salt.loader.lazy.LoadedMod" }
func (m *saltModule) Truth() bool           { return true }
func (m *saltModule) Repr() string {
	return "<salt.loader.lazy.LoadedMod object at 0x0>"
}

func (m *saltModule) Attribute(_ *JinjaRun, name string) (any, bool, error) {
	full := m.name + "." + name
	if strings.HasPrefix(name, "_") || !m.req.Functions.HasFunction(full) {
		return nil, false, nil
	}
	return saltFunction(m.req, full), true, nil
}

// saltFunction is an execution function as a value.
func saltFunction(req *RenderRequest, name string) *JinjaFunc {
	return &JinjaFunc{Name: name, Fn: func(r *JinjaRun, args []any, kw JinjaKwargs) (any, error) {
		return callSalt(r, req, name, args, kw)
	}}
}

func callSalt(r *JinjaRun, req *RenderRequest, name string, args []any, kw JinjaKwargs) (any, error) {
	if req.Functions == nil {
		return nil, jinjaErr("KeyError", "%s", Repr(name))
	}
	plain := make([]any, len(args))
	for i, a := range args {
		if u, ok := a.(*JinjaUndefined); ok && u.Kind == JinjaStrict {
			return nil, u.fail()
		}
		plain[i] = plainOutgoing(r, a)
	}
	kwargs := &Map{}
	for _, k := range kw {
		if u, ok := k.Value.(*JinjaUndefined); ok && u.Kind == JinjaStrict {
			return nil, u.fail()
		}
		kwargs.Set(k.Name, plainOutgoing(r, k.Value))
	}
	v, err := req.Functions.CallFunction(r.Ctx, name, plain, kwargs)
	if err != nil {
		return nil, err
	}
	return FromGo(v), nil
}

// plainOutgoing makes a value of a template into one of the model: safe text becomes
// text, an iterator a list.
func plainOutgoing(r *JinjaRun, v any) any {
	switch v := v.(type) {
	case Plainer:
		return v.PlainValue()
	case *JinjaIterator, *jinjaView, *jinjaRange:
		if items, err := r.items(v); err == nil {
			return &List{Items: append([]any(nil), items...)}
		}
	case *jinjaImported:
		return v.body
	case *JinjaUndefined:
		return nil
	case *List:
		for i, item := range v.Items {
			if p, ok := item.(Plainer); ok {
				v.Items[i] = p.PlainValue()
			}
		}
	case *Map:
		for k, item := range v.All() {
			if p, ok := item.(Plainer); ok {
				v.Set(k, p.PlainValue())
			}
		}
	}
	return v
}
