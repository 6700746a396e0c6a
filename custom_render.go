// The renderer py: SLS files and templates that are Python, with a function
// run() that returns the data. They run in the host of user-written modules, and
// see what those see, and sls, saltenv and the template's own variables.
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

// pythonStages are the renderer stages that need the box's Python.
func pythonStages(u *Customs) map[string]RenderStage {
	return map[string]RenderStage{"py": func(ctx context.Context, req *RenderRequest, input any, _ string) (any, error) {
		c, ok := ctx.Value(callInContext{}).(*Call)
		if !ok {
			return nil, errors.New("the renderer py needs a call to run in")
		}
		source, ok := input.(string)
		if !ok {
			return nil, &RenderError{Text: fmt.Sprintf("the renderer py takes text, not %s", TypeName(input))}
		}
		if !u.host.available() {
			return nil, &RenderError{Text: "the renderer py needs Python 3, which this box does not have"}
		}
		v, err := u.runPython(ctx, c, source, req)
		if err == nil {
			return v, nil
		}
		e := asModuleError(err)
		return nil, &RenderError{Text: e.Msg, Class: e.Class, Cause: err}
	}}
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
