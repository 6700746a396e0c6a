// State module alternatives: which of several programs a name stands for.
package main

import (
	"context"
	"strings"
)

func alternativesStates() Module {
	return Module{
		Doc:     "The system of alternatives: which of several programs a name stands for.",
		Virtual: needsFunction("alternatives.auto", "alernatives module could not be loaded"),
		Funcs: Funcs{
			"install": {run: alternativesStateInstall, doc: "The alternative is registered."},
			"remove":  {run: alternativesStateRemove, doc: "The alternative is not registered."},
			"auto":    {run: alternativesStateAuto, doc: "The name follows the priorities."},
			"set":     {run: alternativesStateSet, pyname: "set_", doc: "The name stands for this path."},
		},
	}
}

func alternativesStateInstall(ctx context.Context, c *Call, a struct {
	Name     string
	Link     any
	Path     any
	Priority any
}) (any, error) {
	ret := NewMap("name", a.Name, "link", a.Link, "path", a.Path, "priority", a.Priority, "result", true, "changes", NewMap(), "comment", "")
	path, prio := Str(a.Path), Str(a.Priority)
	have, err := runTruth(ctx, c, "alternatives.check_exists", a.Name, a.Path)
	if err != nil {
		return nil, err
	}
	if have {
		return stateSay(ret, true, "Alternative %s for %s is already registered", path, a.Name)
	}
	if c.Testing() {
		return stateSay(ret, nil, "Alternative will be set for %s to %s with priority %s", a.Name, path, prio)
	}
	out, err := c.Run(ctx, "alternatives.install", a.Name, a.Link, a.Path, a.Priority)
	if err != nil {
		return nil, err
	}
	if have, err = runTruth(ctx, c, "alternatives.check_exists", a.Name, a.Path); err != nil {
		return nil, err
	}
	if !have {
		return stateSay(ret, false, "Alternative for %s not installed: %s", a.Name, Str(out))
	}
	ret.Set("changes", NewMap("name", a.Name, "link", a.Link, "path", a.Path, "priority", a.Priority))
	used, err := runTruth(ctx, c, "alternatives.check_installed", a.Name, a.Path)
	if err != nil {
		return nil, err
	}
	if used {
		return stateSay(ret, true, "Alternative for %s set to path %s with priority %s", a.Name, path, prio)
	}
	return stateSay(ret, true, "Alternative %s for %s registered with priority %s and not set to default", path, a.Name, prio)
}

type alternativesPathArgs struct {
	Name string
	Path any
}

func alternativesStateRemove(ctx context.Context, c *Call, a alternativesPathArgs) (any, error) {
	ret := NewMap("name", a.Name, "path", a.Path, "result", true, "changes", NewMap(), "comment", "")
	have, err := runTruth(ctx, c, "alternatives.check_exists", a.Name, a.Path)
	if err != nil {
		return nil, err
	}
	if have {
		if c.Testing() {
			return stateSay(ret, nil, "Alternative for %s will be removed", a.Name)
		}
		if _, err := c.Run(ctx, "alternatives.remove", a.Name, a.Path); err != nil {
			return nil, err
		}
	}
	current, err := c.Run(ctx, "alternatives.show_current", a.Name)
	if err != nil {
		return nil, err
	}
	switch {
	case have && Truth(current):
		ret.Set("changes", NewMap("path", current))
		return stateSay(ret, true, "Alternative for %s removed. Falling back to path %s", a.Name, Str(current))
	case have:
		return stateSay(ret, true, "Alternative for %s removed", a.Name)
	case Truth(current):
		return stateSay(ret, true, "Alternative for %s is set to it's default path %s", a.Name, Str(current))
	}
	return stateSay(ret, false, "Alternative for %s doesn't exist", a.Name)
}

func alternativesStateAuto(ctx context.Context, c *Call, a stateNameArgs) (any, error) {
	ret := NewMap("name", a.Name, "result", true, "comment", "", "changes", NewMap())
	display, err := runString(ctx, c, "alternatives.display", a.Name)
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(display, "\n")
	if display == "" {
		return nil, OtherErrorf("IndexError", "list index out of range")
	}
	if strings.HasSuffix(first, " auto mode") {
		return stateSay(ret, true, "%s already in auto mode", a.Name)
	}
	if c.Testing() {
		return stateSay(ret, nil, "%s will be put in auto mode", a.Name)
	}
	out, err := c.Run(ctx, "alternatives.auto", a.Name)
	if err != nil {
		return nil, err
	}
	ret.Map("changes").Set("result", out)
	return ret, nil
}

func alternativesStateSet(ctx context.Context, c *Call, a alternativesPathArgs) (any, error) {
	ret := NewMap("name", a.Name, "path", a.Path, "result", true, "changes", NewMap(), "comment", "")
	path := Str(a.Path)
	current, err := c.Run(ctx, "alternatives.show_current", a.Name)
	if err != nil {
		return nil, err
	}
	if Equal(current, a.Path) {
		return stateSay(ret, true, "Alternative for %s already set to %s", a.Name, path)
	}
	display, err := runString(ctx, c, "alternatives.display", a.Name)
	if err != nil {
		return nil, err
	}
	known := false
	for _, line := range pyLines(display, false) {
		known = known || strings.HasPrefix(line, path)
	}
	if !known {
		return stateSay(ret, false, "Alternative %s for %s doesn't exist", path, a.Name)
	}
	if c.Testing() {
		return stateSay(ret, nil, "Alternative for %s will be set to path %s", a.Name, path)
	}
	if _, err := c.Run(ctx, "alternatives.set", a.Name, a.Path); err != nil {
		return nil, err
	}
	if current, err = c.Run(ctx, "alternatives.show_current", a.Name); err != nil {
		return nil, err
	}
	if !Equal(current, a.Path) {
		return stateSay(ret, true, "Alternative for %s not updated", a.Name)
	}
	ret.Set("changes", NewMap("path", current))
	return stateSay(ret, true, "Alternative for %s set to path %s", a.Name, Str(current))
}
