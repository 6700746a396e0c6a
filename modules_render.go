// Templates in execution modules: template=jinja and the like.
package main

import "context"

// renderModuleText renders text by a template engine with what templates of
// modules see: salt, grains, pillar, opts, saltenv, and the values of extra.
func renderModuleText(_ context.Context, _ *Call, engine, _ string, _ any, _ *Map) (string, error) {
	return "", ExecErrorf("Attempted to render file paths with unavailable engine %s", engine)
}
