// Templates in execution modules: template=jinja and the like.
package main

import "context"

// isTemplateEngine says whether there is a template engine of that name in Salt.
func isTemplateEngine(name string) bool {
	switch name {
	case "jinja", "mako", "py", "wempy", "genshi", "cheetah":
		return true
	}
	return false
}

// renderModuleText renders text by a template engine with what templates of
// modules see: salt, grains, pillar, opts, saltenv, and the values of extra.
func renderModuleText(ctx context.Context, c *Call, engine, text string, saltenv any, extra *Map) (string, error) {
	if !isTemplateEngine(engine) {
		return "", ExecErrorf("Attempted to render file paths with unavailable engine %s", engine)
	}
	env := Str(orEmpty(saltenv))
	if env == "" {
		if env = c.Opts.Str("saltenv"); env == "" {
			env = "base"
		}
	}
	return c.renderTemplate(ctx, text, engine, "", env, extra)
}
