// Renderers that are Python or that users wrote: the stage py, files and
// templates with a function run(), and the files in _renderers with a function
// render(data, saltenv, sls, …).
//
// The law of this room: a stage runs in the call that renders, and sees what its
// modules see; text goes to a renderer as a stream, as Salt hands it over, and
// what comes back as a stream is text again.
package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// callInContext is the key under which a render carries its call.
type callInContext struct{}

// withCall is the context of a render that belongs to a call.
func withCall(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, callInContext{}, c)
}

// customStages are the renderers beside the built-in ones; those of the user
// come first. nil: none of that name.
func customStages(u *Customs) func(name string) RenderStage {
	return func(name string) RenderStage {
		switch {
		case u.Has("renderers", name):
			return u.stage(func(ctx context.Context, c *Call, req *RenderRequest, input any, args string) (any, error) {
				return u.render(ctx, c, name, req, input, args)
			})
		case name == "py" && u != nil:
			return u.stage(u.renderPy)
		}
		return nil
	}
}

// stage gives a renderer the call that it runs in, and its errors their form.
func (u *Customs) stage(run func(ctx context.Context, c *Call, req *RenderRequest, input any, args string) (any, error)) RenderStage {
	return func(ctx context.Context, req *RenderRequest, input any, args string) (any, error) {
		c, ok := ctx.Value(callInContext{}).(*Call)
		if !ok {
			return nil, errors.New("a user-written renderer needs a call to run in")
		}
		v, err := run(ctx, c, req, input, args)
		var re *RenderError
		if err == nil || errors.As(err, &re) {
			return v, err
		}
		e := asModuleError(err)
		return nil, &RenderError{Text: e.Msg, Class: e.Class, Cause: err}
	}
}

// render runs a renderer of the user.
func (u *Customs) render(ctx context.Context, c *Call, name string, req *RenderRequest, input any, args string) (any, error) {
	f, err := u.Function(ctx, c, "renderers", name, "render")
	if err != nil {
		return nil, &RenderError{Text: fmt.Sprintf("The renderer \"%s\" is not available: %v", name, err), Cause: err}
	}
	if f == nil {
		return nil, &RenderError{Text: fmt.Sprintf("The renderer \"%s\" is not available: its file has no function render()", name)}
	}
	offered := NewMap("saltenv", req.Saltenv, "sls", req.SLS, "tmplpath", req.Path)
	if args != "" {
		offered.Set("argline", args)
	}
	if req.Context.Len() > 0 {
		offered.Set("context", req.Context)
	}
	if p, ok := f.(*pythonFunction); ok {
		streams := *p
		streams.streams = true
		f = &streams
	}
	return f.Invoke(ctx, c, []any{input}, acceptedBy(f.Signature(), offered))
}

// acceptedBy keeps the keyword arguments that a function takes.
func acceptedBy(s *Signature, offered *Map) *Map {
	if s.Kwargs != "" {
		return offered
	}
	out := &Map{}
	for _, p := range s.Params {
		if v, ok := offered.Get(p.Name); ok {
			out.Set(p.Name, v)
		}
	}
	return out
}

// renderPy is the renderer py.
func (u *Customs) renderPy(ctx context.Context, c *Call, req *RenderRequest, input any, _ string) (any, error) {
	source, ok := input.(string)
	if !ok {
		return nil, &RenderError{Text: fmt.Sprintf("the renderer py takes text, not %s", TypeName(input))}
	}
	if !u.host.available() {
		return nil, &RenderError{Text: "the renderer py needs Python 3, which this box does not have"}
	}
	return u.runPython(ctx, c, source, req)
}

// runPython runs the function run() of a text. The text lies in a private file
// while it runs, so that tracebacks name its lines.
func (u *Customs) runPython(ctx context.Context, c *Call, source string, req *RenderRequest) (any, error) {
	h := newHash("sha256")
	h.Write([]byte(req.Path))
	h.Write([]byte(source))
	name := "sls_" + hex.EncodeToString(h.Sum(nil))[:24]
	dir, err := os.MkdirTemp(c.Opts.Path("cachedir"), "py-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, name+".py")
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		return nil, err
	}
	m, err := u.host.load(ctx, c, u, "renderers", name, path)
	if err != nil {
		return nil, err
	}
	run, ok := m.funcs["run"].(*pythonFunction)
	if !ok {
		return nil, fmt.Errorf("%s has no function run()", req.Path)
	}
	names := NewMap("__sls__", req.SLS, "__env__", req.Saltenv, "__saltenv__", req.Saltenv, "sls", req.SLS, "saltenv", req.Saltenv, "env", req.Saltenv)
	names.Merge(req.Vars)
	names.Merge(req.Context)
	run.dunder = names
	return run.Invoke(ctx, c, nil, nil)
}
