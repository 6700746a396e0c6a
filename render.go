// The renderer pipeline: SLS files, pillar files and file templates from text to
// data, stage by stage, as the #! line or the default says.
//
// The law of this room: what a template may reach comes in with the request
// (functions, grains, pillar, options, the file client); a renderer has no state
// but its configuration and its caches, so one Renderer serves every job of a
// daemon. Texts of errors are Salt's, since they end up in front of users.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
)

// RenderFunctions are the execution functions that a template may call.
type RenderFunctions interface {
	// CallFunction runs mod.fun.
	CallFunction(ctx context.Context, name string, args []any, kwargs *Map) (any, error)
	// HasFunction says whether there is mod.fun, HasModule whether there is mod.
	HasFunction(name string) bool
	HasModule(name string) bool
}

// RenderFiles is the file client as templates use it.
type RenderFiles interface {
	// FetchTemplate gets a file of the tree by its path below the roots, and the
	// path that it has on this box now. A missing one is fs.ErrNotExist.
	FetchTemplate(ctx context.Context, name, saltenv string) (content []byte, path string, err error)
}

// RenderRequest is one text to render.
type RenderRequest struct {
	Source    string
	Path      string // where Source was read from; ":string:" for none
	Renderers string // the pipe without a #! line; "" is the configured one
	Saltenv   string
	SLS       string // dotted name
	NoSLS     bool   // a file template: it has no sls variables at all
	// Vars are further variables (source, name, … of a managed file); Context
	// are those that the user gave, which win over everything.
	Vars, Context        *Map
	Grains, Pillar, Opts *Map
	Functions            RenderFunctions
	Files                RenderFiles
	Log                  *slog.Logger
}

// RenderStage is a renderer that is not built in: it gets the output of the
// stage before (text, or data) and the arguments behind its name.
type RenderStage func(ctx context.Context, req *RenderRequest, input any, args string) (any, error)

// RenderConfig configures a Renderer; the zero value works.
type RenderConfig struct {
	Default              string // "jinja|yaml" unless set
	JinjaEnv             *Map   // options of Jinja for file templates
	JinjaSLSEnv          *Map   // … and for SLS files
	TrimBlocks           bool
	LstripBlocks         bool
	AllowUndefined       bool
	Blacklist, Whitelist []string
	Stages               func(name string) RenderStage // py and the like, first of all
	Limits               JinjaLimits
}

// RenderConfigOf takes the options that renderers obey.
func RenderConfigOf(opts *Map) RenderConfig {
	names := func(key string) []string {
		var out []string
		if l := opts.List(key); l != nil {
			for _, v := range l.Items {
				out = append(out, Str(v))
			}
		}
		return out
	}
	return RenderConfig{Default: opts.Str("renderer"), JinjaEnv: opts.Map("jinja_env"), JinjaSLSEnv: opts.Map("jinja_sls_env"),
		TrimBlocks: Truth(opts.Value("jinja_trim_blocks")), LstripBlocks: Truth(opts.Value("jinja_lstrip_blocks")),
		AllowUndefined: Truth(opts.Value("allow_undefined")),
		Blacklist:      names("renderer_blacklist"), Whitelist: names("renderer_whitelist")}
}

// Renderer renders. It is safe for concurrent use.
type Renderer struct {
	cfg     RenderConfig
	regexps RegexpCache
	mu      sync.Mutex
	envs    map[string]*JinjaEnv // by their options
}

// NewRenderer makes a renderer.
func NewRenderer(cfg RenderConfig) *Renderer {
	if cfg.Default == "" {
		cfg.Default = "jinja|yaml"
	}
	return &Renderer{cfg: cfg, envs: map[string]*JinjaEnv{}}
}

// RenderError is what is wrong with a template. Its text is complete: with the
// place and the lines around it.
type RenderError struct {
	Text string
	Line int
	// Class is the Python exception if it was none of those that Salt turns into
	// a SaltRenderError: then SLS errors are worded differently.
	Class string
	Cause error
}

func (e *RenderError) Error() string { return e.Text }

func (e *RenderError) Unwrap() error { return e.Cause }

// SLSText is the text of the error as the compilation of states reports it.
func (e *RenderError) SLSText(saltenv, sls string) string {
	if e.Class == "" {
		return fmt.Sprintf("Rendering SLS '%s:%s' failed: %s", saltenv, sls, e.Text)
	}
	return fmt.Sprintf("Rendering SLS %s failed, render error: %s\nTraceback (most recent call last):\n%s: %s\n",
		sls, e.Text, e.Class, e.Text)
}

// Render runs the whole pipe. The result is text if the last stage makes text,
// else data. The error, if any, is a *RenderError.
func (rd *Renderer) Render(ctx context.Context, req RenderRequest) (any, error) {
	if req.Log == nil {
		req.Log = slog.New(slog.DiscardHandler)
	}
	if req.Path != ":string:" && strings.TrimFunc(req.Source, isPythonSpace) == "" {
		if req.Source != "" {
			req.Log.Error("Template is nothing but whitespace: " + req.Path)
		}
		return &Map{}, nil
	}
	pipe, err := rd.pipe(&req)
	if err != nil {
		return nil, err
	}
	var value any = req.Source
	for _, stage := range pipe {
		if value, err = rd.stage(ctx, &req, stage.name, stage.args, value); err != nil {
			return nil, renderError(err)
		}
	}
	if text, ok := value.(string); ok && strings.Contains(req.Source, "\r\n") && !strings.Contains(text, "\r\n") {
		value = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return value, nil
}

// RenderText renders with one engine, as the template argument of states and
// modules asks for it: the result is text.
func (rd *Renderer) RenderText(ctx context.Context, engine string, req RenderRequest) (string, error) {
	if req.Log == nil {
		req.Log = slog.New(slog.DiscardHandler)
	}
	v, err := rd.stage(ctx, &req, engine, "", req.Source)
	if err != nil {
		return "", renderError(err)
	}
	return Str(v), nil
}

func renderError(err error) error {
	var re *RenderError
	if errors.As(err, &re) {
		return re
	}
	return &RenderError{Text: err.Error(), Class: pythonClassOf(err), Cause: err}
}

type renderPart struct{ name, args string }

// oldPipe resolves names of pipes from before there were pipes.
func oldPipe(name string) string {
	switch name {
	case "yaml_jinja", "yaml_mako", "yaml_wempy", "json_jinja", "json_mako", "json_wempy", "yamlex_jinja":
		format, engine, _ := strings.Cut(name, "_")
		return engine + "|" + format
	}
	return name
}

// pipe finds the stages: those of the #! line, or the default ones.
func (rd *Renderer) pipe(req *RenderRequest) ([]renderPart, error) {
	line, _, _ := strings.Cut(req.Source, "\n")
	if req.Path == ":string:" {
		if words := splitSpace(req.Source, 1); len(words) > 0 {
			line = words[0]
		}
	}
	names := req.Renderers
	if names == "" {
		names = rd.cfg.Default
	}
	if strings.HasPrefix(line, "#!") && !strings.HasPrefix(line, "#!/") {
		names = strings.TrimFunc(line, isPythonSpace)[2:]
	}
	var parts []renderPart
	for _, part := range strings.Split(oldPipe(names), "|") {
		name, args, _ := strings.Cut(strings.TrimFunc(part, isPythonSpace), " ")
		if len(rd.cfg.Whitelist) > 0 && !slices.Contains(rd.cfg.Whitelist, name) || slices.Contains(rd.cfg.Blacklist, name) {
			req.Log.Warn(fmt.Sprintf("The renderer \"%s\" is disallowed by configuration and will be skipped.", name))
			continue
		}
		if !rd.known(name) {
			return nil, &RenderError{Text: fmt.Sprintf("The renderer \"%s\" is not available", names)}
		}
		parts = append(parts, renderPart{name, strings.TrimFunc(args, isPythonSpace)})
	}
	return parts, nil
}

func (rd *Renderer) known(name string) bool {
	switch name {
	case "jinja", "yaml", "json", "text", "gpg":
		return true
	}
	return rd.custom(name) != nil
}

// custom is a renderer that is not built in, nil for none of that name.
func (rd *Renderer) custom(name string) RenderStage {
	if rd.cfg.Stages == nil {
		return nil
	}
	return rd.cfg.Stages(name)
}

// stage runs one renderer.
func (rd *Renderer) stage(ctx context.Context, req *RenderRequest, name, args string, input any) (any, error) {
	if stage := rd.custom(name); stage != nil {
		return stage(ctx, req, input, args)
	}
	text, ok := input.(string)
	switch name {
	case "jinja":
		if args != "" && args != "-s" {
			return nil, &RenderError{Text: "Unknown renderer option: " + args}
		}
		if !ok {
			return nil, &RenderError{Text: "the jinja renderer needs text, not " + TypeName(input), Class: "AttributeError"}
		}
		return rd.renderJinja(ctx, req, text)
	case "yaml":
		if !ok {
			return nil, &RenderError{Text: "'" + TypeName(input) + "' object has no attribute 'read'", Class: "AttributeError"}
		}
		return renderYAML(text)
	case "json":
		if !ok {
			return nil, &RenderError{Text: "'" + TypeName(input) + "' object has no attribute 'read'", Class: "AttributeError"}
		}
		return renderJSON(text)
	case "gpg":
		return renderGPG(ctx, req, input)
	case "text":
		if ok && strings.HasPrefix(text, "#!") {
			_, text, _ = strings.Cut(text, "\n")
			return text, nil
		}
		return input, nil
	}
	return nil, &RenderError{Text: fmt.Sprintf("The renderer \"%s\" is not available", name)}
}

func renderYAML(text string) (any, error) {
	v, err := ParseYAML([]byte(text))
	if err != nil {
		var ye *YAMLError
		if !errors.As(err, &ye) {
			return nil, err
		}
		switch ye.Class {
		case "ScannerError": // Salt shows nothing but the problem
			return nil, &RenderError{Text: ye.Problem, Line: ye.Mark.Line, Cause: ye}
		case "ParserError", "ConstructorError":
			return nil, &RenderError{Text: ye.Error(), Line: ye.Mark.Line, Cause: ye}
		}
		return nil, &RenderError{Text: ye.Error(), Class: yamlClass(ye), Cause: ye}
	}
	if !Truth(v) {
		return NewMap().SetClass("OrderedDict"), nil
	}
	markOrdered(v)
	return v, nil
}

// yamlClass is the class of a YAML error with its module.
func yamlClass(e *YAMLError) string {
	switch e.Class {
	case "ScannerError", "ParserError", "ComposerError", "ConstructorError", "ReaderError":
		return "yaml." + strings.ToLower(strings.TrimSuffix(e.Class, "Error")) + "." + e.Class
	}
	return e.Class
}

func renderJSON(text string) (any, error) {
	if strings.HasPrefix(text, "#!") {
		_, text, _ = strings.Cut(text, "\n")
	}
	if strings.TrimFunc(text, isPythonSpace) == "" {
		return &Map{}, nil
	}
	v, err := DecodeJSON([]byte(text))
	if err != nil {
		return nil, &RenderError{Text: err.Error(), Class: "json.decoder.JSONDecodeError", Cause: err}
	}
	return v, nil
}

// DirectoryFiles are templates of a directory, for templates that are not part
// of a file tree.
type DirectoryFiles string

// FetchTemplate reads a file of the directory.
func (d DirectoryFiles) FetchTemplate(_ context.Context, name, _ string) ([]byte, string, error) {
	full := path.Join(string(d), path.Clean("/"+name))
	content, err := os.ReadFile(full)
	if err != nil {
		return nil, "", fs.ErrNotExist
	}
	return content, full, nil
}
