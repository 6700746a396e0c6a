// Templates for execution modules: the renderer room joined to a call, so that
// templates reach the functions, files, grains and pillar that the call has.
//
// The law of this file: the renderer knows nothing of modules; what it needs is
// handed over here as its small interfaces.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Templates is the TemplateRenderer of minions, salt-call and the master's
// runners. One serves all calls made with the same options.
type Templates struct{ renderer *Renderer }

// NewTemplates makes the renderer that the options describe; stages are the
// renderers that are not built in (py).
func NewTemplates(o *Options, stages func(name string) RenderStage) *Templates {
	cfg := RenderConfigOf(o.All())
	cfg.Stages = stages
	return &Templates{NewRenderer(cfg)}
}

// callFunctions lends the functions of a call.
type callFunctions struct {
	ctx context.Context
	c   *Call
}

func (f callFunctions) CallFunction(ctx context.Context, name string, args []any, kwargs *Map) (any, error) {
	// in templates, as Salt has it, cmd.run goes through a shell
	return f.c.RunKw(ctx, name, args, kwargs)
}

func (f callFunctions) HasFunction(name string) bool { return f.c.Has(f.ctx, name) }

func (f callFunctions) HasModule(name string) bool {
	m := f.c.Loader.Module(f.ctx, f.c, name)
	return m != nil && m.Refused == ""
}

// callFiles fetches templates with the file client of a call.
type callFiles struct{ c *Call }

func (f callFiles) FetchTemplate(ctx context.Context, name, saltenv string) ([]byte, string, error) {
	if f.c.Files == nil {
		return nil, "", fs.ErrNotExist
	}
	path, err := f.c.Files.Cache(ctx, name, saltenv)
	if err != nil {
		return nil, "", err
	}
	if path == "" {
		return nil, "", fs.ErrNotExist
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, "", fs.ErrNotExist
	}
	return content, path, nil
}

// request fills in what every template of a call sees.
func (t *Templates) request(ctx context.Context, c *Call, req RenderRequest) RenderRequest {
	if !c.Own && req.Grains == nil { // the template may change what it sees
		inner := *c
		inner.Env = c.owned()
		c = &inner
	}
	req.Functions = callFunctions{ctx, c}
	req.Files = callFiles{c}
	req.Log = c.Log
	if req.Grains == nil {
		req.Grains = c.Grains
	}
	if req.Pillar == nil {
		req.Pillar = c.Pillar
	}
	if req.Opts == nil && c.Opts != nil {
		req.Opts = c.Opts.All()
	}
	return req
}

// Render runs the whole renderer pipe for a call: SLS files and the like.
func (t *Templates) Render(ctx context.Context, c *Call, req RenderRequest) (any, error) {
	return t.renderer.Render(withCall(ctx, c), t.request(ctx, c, req))
}

// RenderTemplate renders a file template with one engine.
func (t *Templates) RenderTemplate(ctx context.Context, c *Call, src, engine, name, saltenv string, vars *Map) (string, error) {
	req := t.request(ctx, c, RenderRequest{Source: src, Path: name, Saltenv: saltenv, NoSLS: true, Context: vars})
	if !t.renderer.known(engine) {
		return "", ExecErrorf("the template engine %s is not part of this build", engine)
	}
	return t.renderer.RenderText(withCall(ctx, c), engine, req)
}

// templatesOf is the renderer of a call, made on the spot where the call has none.
func templatesOf(c *Call) *Templates {
	if t, ok := c.Templates.(*Templates); ok {
		return t
	}
	return NewTemplates(c.Opts, nil)
}

// renderCallError words a render error for callers of execution functions.
func renderCallError(err error) error {
	var re *RenderError
	if !errors.As(err, &re) {
		return err
	}
	class := re.Class
	if class == "" {
		class = "salt.exceptions.SaltRenderError"
	}
	return &ModuleError{Kind: ErrOther, Class: class, Msg: re.Text}
}

// slsutilModule and jinjaModule are about templates and the data in them.
func jinjaModule() Module {
	return Module{
		Doc: "Look at what map files and data files give when they are loaded in a template.",
		Funcs: Funcs{
			"load_map":    {run: jinjaLoadMap, doc: "Load a map file of the tree and return one of the values that it defines."},
			"import_yaml": {run: jinjaImport("yaml"), doc: "Load a YAML file of the tree as import_yaml does in a template."},
			"import_json": {run: jinjaImport("json"), doc: "Load a JSON file of the tree as import_json does in a template."},
		},
	}
}

type jinjaLoadMapArgs struct{ Path, Value string }

func jinjaLoadMap(ctx context.Context, c *Call, a jinjaLoadMapArgs) (any, error) {
	return renderString(ctx, c, fmt.Sprintf("{%% from %s import %s with context %%}\n{{ %s | tojson }}\n", pythonDouble(a.Path), a.Value, a.Value))
}

type jinjaImportArgs struct{ Path string }

func jinjaImport(format string) func(context.Context, *Call, jinjaImportArgs) (any, error) {
	return func(ctx context.Context, c *Call, a jinjaImportArgs) (any, error) {
		return renderString(ctx, c, fmt.Sprintf("{%% import_%s %s as imported %%}\n{{ imported | tojson }}\n", format, pythonDouble(a.Path)))
	}
}

// pythonDouble is a text in double quotes, safe to stand in a template.
func pythonDouble(s string) string { return EncodeJSON(s, JSONOptions{Indent: -1}) }

func renderString(ctx context.Context, c *Call, source string) (any, error) {
	v, err := templatesOf(c).Render(ctx, c, RenderRequest{Source: source, Saltenv: "base", Path: "template"})
	if err != nil {
		return nil, renderCallError(err)
	}
	return v, nil
}
