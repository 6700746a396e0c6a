// What templates reach of a call: its execution functions, and the files of its
// file client. The seam between the render room and modules.
package main

import (
	"context"
	"io/fs"
	"os"
	"strings"
)

// callFunctions lets templates call what a call can call.
type callFunctions struct{ c *Call }

// CallFunction implements RenderFunctions.
func (f callFunctions) CallFunction(ctx context.Context, name string, args []any, kwargs *Map) (any, error) {
	return f.c.RunKw(ctx, name, args, kwargs)
}

// HasFunction implements RenderFunctions.
func (f callFunctions) HasFunction(name string) bool { return f.c.Has(context.Background(), name) }

// HasModule implements RenderFunctions.
func (f callFunctions) HasModule(name string) bool {
	m := f.c.Loader.Module(context.Background(), f.c, name)
	return m != nil && m.Refused == ""
}

// clientTemplates fetches imports of templates by the file client.
type clientTemplates struct{ files FileClient }

// FetchTemplate implements RenderFiles.
func (t clientTemplates) FetchTemplate(ctx context.Context, name, saltenv string) ([]byte, string, error) {
	if t.files == nil {
		return nil, "", fs.ErrNotExist
	}
	path, err := t.files.Cache(ctx, "salt://|"+name, saltenv)
	if err != nil {
		return nil, "", err
	}
	if path == "" {
		return nil, "", fs.ErrNotExist
	}
	text, err := os.ReadFile(path)
	return text, path, err
}

// RenderTemplate implements TemplateRenderer for file templates: cp.get_template,
// file.managed and the like.
func (rd *Renderer) RenderTemplate(ctx context.Context, c *Call, src, engine, name, saltenv string, vars *Map) (string, error) {
	if name == "" {
		name = ":string:"
	}
	return rd.RenderText(ctx, strings.TrimSpace(engine), RenderRequest{Source: src, Path: name, Saltenv: saltenv, NoSLS: true, Context: vars,
		Grains: c.Grains, Pillar: c.Pillar, Opts: c.Opts.All(), Functions: callFunctions{c}, Files: clientTemplates{c.Files}, Log: c.Log})
}
