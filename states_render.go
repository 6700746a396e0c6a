// The one door from states to the render room: an SLS file or text to data.
package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// renderedSLS renders the SLS file at path, which the file server has as source
// ("" for a file of this box). The value is an empty mapping for a file that
// gives nothing. Errors of the template are *RenderError, and name the file by
// its place in the minion's cache, where a minion with a master has it.
func renderedSLS(ctx context.Context, c *Call, path, source, saltenv, sls string) (any, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if rel, ok := strings.CutPrefix(source, "salt://"); ok {
		path = filepath.Join(c.Opts.Path("cachedir"), "files", saltenv, rel)
	}
	return renderedText(ctx, c, string(src), path, saltenv, sls)
}

// renderedText renders the text of an SLS file.
func renderedText(ctx context.Context, c *Call, src, path, saltenv, sls string) (any, error) {
	v, err := templatesOf(c).Render(ctx, c, RenderRequest{Source: src, Path: path, Saltenv: saltenv, SLS: sls})
	if err != nil {
		return nil, err
	}
	markOrdered(v)
	return v, nil
}

// markOrdered makes the mappings of rendered data those of an ordered loader,
// which keep their order in reports and show it in texts.
func markOrdered(v any) {
	switch v := v.(type) {
	case *List:
		for _, item := range v.Items {
			markOrdered(item)
		}
	case *Map:
		v.SetClass("OrderedDict")
		for _, item := range v.All() {
			markOrdered(item)
		}
	}
}

// renderFailure is the message for an SLS that could not be rendered.
func renderFailure(saltenv, sls string, err error) string {
	var re *RenderError
	if errors.As(err, &re) {
		return tracebackAt(re.SLSText(saltenv, sls), sls)
	}
	return (&RenderError{Text: errText(err), Class: "OSError"}).SLSText(saltenv, sls)
}
