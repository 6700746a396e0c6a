// The one door from states to the render room: an SLS file or text to data.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
)

// renderedSLS renders the SLS file at path. The value is nil for a file that
// gives nothing. Errors of the template are *RenderError.
func renderedSLS(ctx context.Context, c *Call, path, saltenv, sls string, mods map[string]bool) (any, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return renderedText(ctx, c, src, path, saltenv, sls)
}

// renderedText renders the text of an SLS file.
func renderedText(_ context.Context, c *Call, src []byte, path, _, _ string) (any, error) {
	if len(bytes.TrimSpace(src)) == 0 {
		c.Log.Error(fmt.Sprintf("Template is nothing but whitespace: %s", path))
		return nil, nil
	}
	return ParseYAML(src)
}
