// The template engine: Jinja 3.1 on the value model.
//
// A JinjaEnv holds what a program adds (filters, tests, globals, tags, loader)
// and the options; Parse makes a template of a text, kept by its content;
// Render runs one with variables. Variables are values of the model, and what a
// template does to lists and maps stays done. A template reaches nothing but
// what it is handed, and its time and memory are bounded by JinjaLimits.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// JinjaUndefinedKind says what an undefined name or attribute may be used for.
type JinjaUndefinedKind int

// The kinds of Jinja: the lenient one prints nothing, the chainable one also
// has attributes, the debugging one prints its name, the strict one can only be
// asked whether it is defined.
const (
	JinjaLenient JinjaUndefinedKind = iota
	JinjaChainable
	JinjaDebug
	JinjaStrict
)

// JinjaLimits bound a rendering; zero is the default in brackets.
type JinjaLimits struct {
	Iterations int64 // of all loops together (50 million)
	Output     int   // bytes, of the output and of any text built on the way (256 MiB)
	Depth      int   // macros, includes and recursive loops in each other (250)
}

// JinjaEnv is the configuration of the engine. It must not be changed once it
// is in use; then it is safe for concurrent use.
type JinjaEnv struct {
	Syntax     jinjaSyntax
	Undefined  JinjaUndefinedKind
	Autoescape bool
	Limits     JinjaLimits
	Filters    map[string]*JinjaFilter
	Tests      map[string]*JinjaFilter
	Globals    map[string]any
	Tags       map[string]func(p *jinjaParser) jinjaStmt
	Loader     JinjaLoader
	// ObjectName, if set, may name an object in messages about undefined
	// attributes; "" means the usual name.
	ObjectName func(v any) string
	// Finalize, if set, may change a value before it is printed, or refuse it.
	Finalize func(v any) (any, error)

	methods *jinjaMethodTables

	mu    sync.Mutex
	cache map[string]*jinjaCode
}

// JinjaLoader finds the templates that others import or include. A template
// that does not exist is an error made by JinjaNotFound.
type JinjaLoader interface {
	LoadTemplate(r *JinjaRun, name string) (source, filename string, err error)
}

// maxJinjaCache is how many parsed templates an environment keeps.
const maxJinjaCache = 256

// NewJinjaEnv makes an environment with everything that Jinja brings itself.
func NewJinjaEnv() *JinjaEnv {
	return &JinjaEnv{Syntax: defaultJinjaSyntax(), Filters: jinjaFilters(), Tests: jinjaTests(),
		Globals: jinjaGlobals(), Tags: jinjaTags(), methods: newJinjaMethods(), cache: map[string]*jinjaCode{}}
}

// jinjaTags are the extension tags that come with Jinja: do, break, continue.
func jinjaTags() map[string]func(p *jinjaParser) jinjaStmt {
	return map[string]func(p *jinjaParser) jinjaStmt{
		"do": func(p *jinjaParser) jinjaStmt {
			pos := p.begin()
			return &jExprStmt{pos, p.parseTuple(true, nil, false)}
		},
		"break":    func(p *jinjaParser) jinjaStmt { return &jBreak{p.begin()} },
		"continue": func(p *jinjaParser) jinjaStmt { return &jContinue{p.begin()} },
	}
}

// JinjaTemplate is a parsed template with the name it was loaded by.
type JinjaTemplate struct {
	Name     string // in messages; "" for a text without a name
	Filename string // where it came from, for tracebacks
	env      *JinjaEnv
	code     *jinjaCode
}

// jinjaCode is what templates of the same text share.
type jinjaCode struct {
	body   []jinjaStmt
	blocks map[string]*jBlock
}

// Parse makes a template of its source.
func (env *JinjaEnv) Parse(source, name string) (*JinjaTemplate, error) {
	t := &JinjaTemplate{Name: name, Filename: name, env: env}
	env.mu.Lock()
	t.code = env.cache[source]
	env.mu.Unlock()
	if t.code != nil {
		return t, nil
	}
	body, err := parseJinja(env, source, name)
	if err != nil {
		return nil, err
	}
	c := jinjaChecker{env: env, tmpl: t, blocks: map[string]*jBlock{}}
	if err := c.body(body, false, false); err != nil {
		return nil, err
	}
	t.code = &jinjaCode{body: body, blocks: c.blocks}
	env.mu.Lock()
	defer env.mu.Unlock()
	if len(env.cache) >= maxJinjaCache {
		clear(env.cache)
	}
	env.cache[source] = t.code
	return t, nil
}

// The classes of Jinja's own errors, as Python names them.
const (
	jinjaSyntaxErrorClass = "jinja2.exceptions.TemplateSyntaxError"
	jinjaAssertionClass   = "jinja2.exceptions.TemplateAssertionError"
	jinjaUndefinedClass   = "jinja2.exceptions.UndefinedError"
	jinjaRuntimeClass     = "jinja2.exceptions.TemplateRuntimeError"
	jinjaSecurityClass    = "jinja2.exceptions.SecurityError"
	jinjaNotFoundClass    = "jinja2.exceptions.TemplateNotFound"
	jinjaNoneFoundClass   = "jinja2.exceptions.TemplatesNotFound"
	jinjaFilterArgClass   = "jinja2.exceptions.FilterArgumentError"
)

// JinjaFrame is one level of a traceback.
type JinjaFrame struct {
	Filename string // "" for a template without one
	Line     int
	Block    string // the name of the block, if the level is one
}

// JinjaError is an error of a template: of its syntax, or while it ran.
type JinjaError struct {
	Class    string // the Python class, with its module unless it is a builtin
	Message  string
	Template string
	Line     int
	Trace    []JinjaFrame // outermost first
	Cause    error        // what a function of the program returned, if it was that
}

func (e *JinjaError) Error() string { return e.Message }

func (e *JinjaError) Unwrap() error { return e.Cause }

// jinjaErr makes an error of a Python class.
//
//go:noinline
func jinjaErr(class, format string, args ...any) error {
	return &JinjaError{Class: class, Message: fmt.Sprintf(format, args...)}
}

//go:noinline
func jinjaTypeError(format string, args ...any) error {
	return jinjaErr("TypeError", format, args...)
}

//go:noinline
func jinjaValueError(format string, args ...any) error {
	return jinjaErr("ValueError", format, args...)
}

// JinjaNotFound is the error of a loader that has no such template.
func JinjaNotFound(name string) error { return jinjaErr(jinjaNotFoundClass, "%s", name) }

// isJinjaClass says whether an error is of one of the classes.
func isJinjaClass(err error, classes ...string) bool {
	var e *JinjaError
	if !errors.As(err, &e) {
		return false
	}
	for _, c := range classes {
		if e.Class == c {
			return true
		}
	}
	return false
}

// JinjaRun is one rendering. Functions of the program get it and may call
// templates' macros with it.
type JinjaRun struct {
	Ctx     context.Context
	Env     *JinjaEnv
	Data    any            // of the program
	Globals map[string]any // of this rendering; a loader may change them

	tmpl       *JinjaTemplate
	vars       *jinjaContext
	scope      *jinjaScope
	out        []byte
	autoescape bool
	line       int
	frames     []JinjaFrame
	iterations int64
	depth      int
	loaded     map[string]*JinjaTemplate
	modules    map[string]*jinjaImported
	extended   bool // the running template handed over to a parent
	limits     JinjaLimits
	grown      int // bytes of large values made so far
}

// jinjaContext are the variables of a template while it runs: what it set at
// top level, what it was given, and for includes what its includer sees.
type jinjaContext struct {
	tmpl     *JinjaTemplate
	vars     map[string]any
	exported []string
	given    map[string]any
	scope    *jinjaScope
	outer    *jinjaContext
	blocks   map[string][]jinjaBlock
	parent   *JinjaTemplate // the template that this one extends, once it is known
}

type jinjaBlock struct {
	def  *jBlock
	tmpl *JinjaTemplate
}

// jinjaScope are the names of one loop, macro, with or block.
type jinjaScope struct {
	names    []string
	vals     []any
	parent   *jinjaScope
	captured bool // a macro refers to it: it must not be used again
}

func (s *jinjaScope) set(name string, v any) {
	for i, n := range s.names {
		if n == name {
			s.vals[i] = v
			return
		}
	}
	s.names = append(s.names, name)
	s.vals = append(s.vals, v)
}

func (s *jinjaScope) reset() {
	s.names = s.names[:0]
	clear(s.vals)
	s.vals = s.vals[:0]
}

// lookup finds a variable.
func (r *JinjaRun) lookup(name string) (any, bool) {
	scope, ctx := r.scope, r.vars
	for {
		for s := scope; s != nil; s = s.parent {
			for i, n := range s.names {
				if n == name {
					return s.vals[i], true
				}
			}
		}
		if v, ok := ctx.vars[name]; ok {
			return v, true
		}
		if v, ok := ctx.given[name]; ok {
			return v, true
		}
		if ctx.outer == nil {
			break
		}
		scope, ctx = ctx.scope, ctx.outer
	}
	if v, ok := r.Globals[name]; ok {
		return v, true
	}
	v, ok := r.Env.Globals[name]
	return v, ok
}

// All lists every variable that can be seen, outermost first: globals, what was
// given, what was set.
func (r *JinjaRun) All() *Map {
	m := &Map{}
	add := func(from map[string]any) {
		for _, k := range sortedNames(from) {
			m.Set(k, from[k])
		}
	}
	add(r.Env.Globals)
	add(r.Globals)
	r.collect(r.scope, r.vars, add)
	return m
}

// collect hands out the layers of variables from the outermost one inwards.
func (r *JinjaRun) collect(scope *jinjaScope, ctx *jinjaContext, add func(map[string]any)) {
	if ctx.outer != nil {
		r.collect(ctx.scope, ctx.outer, add)
	}
	add(ctx.given)
	add(ctx.vars)
	var chain []*jinjaScope
	for s := scope; s != nil; s = s.parent {
		chain = append(chain, s)
	}
	for i := len(chain) - 1; i >= 0; i-- {
		layer := map[string]any{}
		for k, n := range chain[i].names {
			layer[n] = chain[i].vals[k]
		}
		add(layer)
	}
}

func sortedNames(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for k := range m {
		names = append(names, k)
	}
	sortStrings(names)
	return names
}

// assign sets a variable where the template is: in its scope, or at top level.
func (r *JinjaRun) assign(name string, v any) {
	if r.scope != nil {
		r.scope.set(name, v)
		return
	}
	if r.vars.vars == nil {
		r.vars.vars = map[string]any{}
	}
	if _, known := r.vars.vars[name]; !known && !strings.HasPrefix(name, "_") {
		r.vars.exported = append(r.vars.exported, name)
	}
	r.vars.vars[name] = v
}

// JinjaVars are the inputs of a rendering.
type JinjaVars struct {
	Vars    map[string]any // of the template
	Globals map[string]any // seen by imported templates as well; the map is used as it is
	Data    any            // for functions of the program: JinjaRun.Data
}

// Render runs the template.
func (t *JinjaTemplate) Render(ctx context.Context, in JinjaVars) (string, error) {
	r := &JinjaRun{Ctx: ctx, Env: t.env, Data: in.Data, Globals: in.Globals, autoescape: t.env.Autoescape,
		loaded: map[string]*JinjaTemplate{}, modules: map[string]*jinjaImported{}, limits: t.env.Limits}
	if r.limits.Iterations == 0 {
		r.limits.Iterations = 50_000_000
	}
	if r.limits.Output == 0 {
		r.limits.Output = 256 << 20
	}
	if r.limits.Depth == 0 {
		r.limits.Depth = 250
	}
	if r.Globals == nil {
		r.Globals = map[string]any{}
	}
	r.vars = &jinjaContext{tmpl: t, given: in.Vars}
	if err := r.runTemplate(t, r.vars); err != nil {
		return "", err
	}
	return string(r.out), nil
}

// runTemplate runs a template's top level with the given variables, into the
// current output.
func (r *JinjaRun) runTemplate(t *JinjaTemplate, vars *jinjaContext) error {
	if vars.blocks == nil {
		vars.blocks = map[string][]jinjaBlock{}
		for name, def := range t.code.blocks {
			vars.blocks[name] = []jinjaBlock{{def, t}}
		}
	}
	return r.inside(t, "", func() error {
		r.vars, r.scope, r.extended = vars, nil, false
		if err := r.exec(t.code.body); err != nil || vars.parent == nil {
			return err
		}
		parent := vars.parent
		vars.parent = nil
		return r.runTemplate(parent, vars)
	})
}

// inside runs f as one more level of the traceback and restores the state that
// belongs to the level outside.
func (r *JinjaRun) inside(t *JinjaTemplate, block string, f func() error) error {
	tmpl, vars, scope, line, extended, autoescape := r.tmpl, r.vars, r.scope, r.line, r.extended, r.autoescape
	if r.depth++; r.depth > r.limits.Depth {
		r.depth--
		return r.traced(jinjaErr("RecursionError", "maximum recursion depth exceeded"))
	}
	if tmpl != nil {
		r.frames[len(r.frames)-1].Line = line
	}
	r.frames = append(r.frames, JinjaFrame{Filename: t.Filename, Block: block})
	r.tmpl, r.line = t, 1
	err := f()
	if err != nil {
		err = r.traced(err)
	}
	r.frames = r.frames[:len(r.frames)-1]
	r.tmpl, r.vars, r.scope, r.line, r.extended, r.autoescape = tmpl, vars, scope, line, extended, autoescape
	r.depth--
	return err
}

// traced puts the traceback into an error that has none yet, and makes errors
// of functions into errors of the template.
func (r *JinjaRun) traced(err error) error {
	if err == errJinjaBreak || err == errJinjaContinue {
		return err
	}
	e, ok := err.(*JinjaError)
	if !ok {
		e = &JinjaError{Class: pythonClassOf(err), Message: err.Error(), Cause: err}
	}
	if e.Trace != nil {
		return e
	}
	if ok && e.Class != jinjaSyntaxErrorClass && e.Class != jinjaAssertionClass {
		c := *e // errors may be values that are used again
		e = &c
	}
	e.Trace = append([]JinjaFrame(nil), r.frames...)
	if n := len(e.Trace); n > 0 {
		e.Trace[n-1].Line = r.line
		if e.Line == 0 {
			e.Line, e.Template = r.line, r.tmpl.Name
		}
	}
	return e
}

// PythonError is an error that knows which Python exception it stands for.
type PythonError interface {
	error
	PythonClass() string
}

func pythonClassOf(err error) string {
	var p PythonError
	if errors.As(err, &p) {
		return p.PythonClass()
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return "TimeoutError"
	}
	return "Exception"
}

// capture runs f and returns what it wrote.
func (r *JinjaRun) capture(f func() error) (string, error) {
	out := r.out
	r.out = nil
	err := f()
	text := string(r.out)
	r.out = out
	if err == nil {
		err = r.grow(len(text))
	}
	return text, err
}

func (r *JinjaRun) write(s string) error {
	r.out = append(r.out, s...)
	if len(r.out) > r.limits.Output {
		return jinjaErr("MemoryError", "the output of the template is larger than %d bytes", r.limits.Output)
	}
	return nil
}

// largeJinjaValue is from where values count against the memory of a rendering.
const largeJinjaValue = 64 << 10

// grow is asked before a value of so many bytes is made: single values are bound
// by the limit of the output, all large ones together by four times that.
func (r *JinjaRun) grow(bytes int) error {
	if bytes < largeJinjaValue {
		return nil
	}
	r.grown += bytes
	if bytes > r.limits.Output || r.grown > 4*r.limits.Output {
		return jinjaErr("MemoryError", "the template makes more than %d bytes of data", r.limits.Output)
	}
	return nil
}

// step counts one iteration of any loop.
func (r *JinjaRun) step() error {
	r.iterations++
	if r.iterations&0xfff == 0 {
		if r.iterations > r.limits.Iterations {
			return jinjaErr("RuntimeError", "the loops of the template ran more than %d times", r.limits.Iterations)
		}
		if err := r.Ctx.Err(); err != nil {
			return fmt.Errorf("rendering was stopped: %w", err)
		}
	}
	return nil
}

// template loads another template.
func (r *JinjaRun) template(name string) (*JinjaTemplate, error) {
	if t := r.loaded[name]; t != nil {
		return t, nil
	}
	if r.Env.Loader == nil {
		return nil, jinjaTypeError("no loader for this environment specified")
	}
	source, filename, err := r.Env.Loader.LoadTemplate(r, name)
	if err != nil {
		return nil, err
	}
	t, err := r.Env.Parse(source, name)
	if err != nil {
		var e *JinjaError
		if errors.As(err, &e) && e.Trace == nil {
			r.frames[len(r.frames)-1].Line = r.line
			e.Trace = append(append([]JinjaFrame(nil), r.frames...), JinjaFrame{Filename: filename, Line: e.Line})
		}
		return nil, err
	}
	if t.Filename != filename {
		t = &JinjaTemplate{Name: name, Filename: filename, env: t.env, code: t.code}
	}
	r.loaded[name] = t
	return t, nil
}

// SetOption sets an option by the name that Jinja's Environment has for it.
func (env *JinjaEnv) SetOption(name string, v any) error {
	texts := map[string]*string{
		"block_start_string": &env.Syntax.BlockStart, "block_end_string": &env.Syntax.BlockEnd,
		"variable_start_string": &env.Syntax.VariableStart, "variable_end_string": &env.Syntax.VariableEnd,
		"comment_start_string": &env.Syntax.CommentStart, "comment_end_string": &env.Syntax.CommentEnd,
		"line_statement_prefix": &env.Syntax.LineStatementPrefix, "line_comment_prefix": &env.Syntax.LineCommentPrefix,
		"newline_sequence": &env.Syntax.NewlineSequence,
	}
	flags := map[string]*bool{"trim_blocks": &env.Syntax.TrimBlocks, "lstrip_blocks": &env.Syntax.LstripBlocks,
		"keep_trailing_newline": &env.Syntax.KeepTrailingNewline, "autoescape": &env.Autoescape}
	if p := texts[name]; p != nil {
		s, ok := v.(string)
		if !ok && v != nil || s == "" && !strings.HasPrefix(name, "line_") {
			return fmt.Errorf("the Jinja option %s must be a text that is not empty", name)
		}
		*p = s
		return nil
	}
	if p := flags[name]; p != nil {
		*p = Truth(v)
		return nil
	}
	return fmt.Errorf("there is no Jinja option %s", name)
}
