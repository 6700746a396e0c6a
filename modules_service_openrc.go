// Provider OpenRC of module service (gentoo_service): Alpine and Gentoo. What is
// enabled is read from the links in /etc/runlevels.
package main

import (
	"context"
	"os"
	"path/filepath"
	"sort"
)

func openrcServiceModule() Module {
	s := openrcServices{}
	return Module{
		Doc: "Manage services of OpenRC.",
		Virtual: func(_ context.Context, c *Call) (bool, string) {
			return which("rc-update") != "" && isDir("/etc/runlevels") && !systemdRuns(), "The gentoo_service execution module cannot be loaded: only available on Gentoo/Open-RC systems."
		},
		Funcs: serviceFuncs(s).with(Funcs{
			"zap":          {run: serviceCommon{s}.action("zap"), doc: "Make OpenRC forget that a service was started."},
			"get_enabled":  {run: s.getEnabled, doc: "Return the services that start with the box, with their runlevels."},
			"get_all":      {run: s.getAll, doc: "Return all services with their runlevels."},
			"enabled":      {run: s.enabled, doc: "Say whether a service starts with the box; runlevels: in all of these."},
			"get_disabled": {run: s.getDisabled, doc: "List the services that do not start with the box."},
		}),
	}
}

type openrcServices struct{}

func (openrcServices) onlyListed() bool { return true }

// levels maps services to the runlevels they start in.
func (openrcServices) levels() map[string][]string {
	out := map[string][]string{}
	files, _ := filepath.Glob("/etc/runlevels/*/*")
	for _, f := range files {
		name := filepath.Base(f)
		out[name] = append(out[name], filepath.Base(filepath.Dir(f)))
	}
	return out
}

func (s openrcServices) all(context.Context, *Call) ([]string, error) {
	return executables("/etc/init.d"), nil
}

func (s openrcServices) isEnabled(_ context.Context, _ *Call, name string) (bool, error) {
	return len(s.levels()[name]) > 0, nil
}

func (s openrcServices) mapOf(all bool) *Map {
	levels := s.levels()
	names := executables("/etc/init.d")
	for name := range levels {
		names = append(names, name)
	}
	out := &Map{}
	for _, name := range sortedSet(names) {
		l := levels[name]
		sort.Strings(l)
		if all || len(l) > 0 {
			out.Set(name, Strings(l))
		}
	}
	return out
}

func (s openrcServices) getEnabled(context.Context, *Call, noArgs) (any, error) {
	return s.mapOf(false), nil
}

func (s openrcServices) getAll(context.Context, *Call, noArgs) (any, error) {
	return s.mapOf(true), nil
}

func (s openrcServices) getDisabled(context.Context, *Call, noArgs) (any, error) {
	out, levels := &List{}, s.levels()
	for _, name := range executables("/etc/init.d") {
		if len(levels[name]) == 0 {
			out.Append(name)
		}
	}
	return out, nil
}

// wantedLevels are the runlevels of an argument, and whether there were any.
func wantedLevels(kwargs *Map) ([]string, bool) {
	v, ok := kwargs.Get("runlevels")
	if !ok {
		return nil, false
	}
	var out []string
	for _, item := range toItems(v) {
		out = append(out, Str(item))
	}
	return sortedSet(out), true
}

func (s openrcServices) enabled(_ context.Context, _ *Call, a serviceKwArgs) (any, error) {
	have := s.levels()[a.Name]
	wanted, ok := wantedLevels(a.Kwargs)
	if !ok || len(have) == 0 {
		return len(have) > 0, nil
	}
	for _, l := range wanted {
		if !hasString(have, l) {
			return false, nil
		}
	}
	return true, nil
}

func (s openrcServices) script(name string) (string, error) {
	return "/etc/init.d/" + name, usableServiceName(name)
}

func (s openrcServices) running(ctx context.Context, c *Call, name string) (bool, error) {
	script, err := s.script(name)
	if err != nil {
		return false, err
	}
	if _, err := os.Stat(script); err != nil {
		return false, nil
	}
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, script, "status")
	return err == nil && !r.failed(), err
}

func (s openrcServices) act(ctx context.Context, c *Call, name, action string) (bool, error) {
	script, err := s.script(name)
	if err != nil {
		return false, err
	}
	if _, err := os.Stat(script); err != nil {
		c.SetRetcode(1)
		return false, nil
	}
	return runOK(ctx, c, script, action)
}

func (s openrcServices) setEnabled(ctx context.Context, c *Call, name string, on bool, kwargs *Map) (bool, error) {
	if err := usableServiceName(name); err != nil {
		return false, err
	}
	have := s.levels()[name]
	wanted, given := wantedLevels(kwargs)
	if !given {
		if on {
			return runOK(ctx, c, "rc-update", "add", name)
		}
		return runOK(ctx, c, "rc-update", "delete", name)
	}
	var add, remove []string
	for _, l := range wanted {
		if on && !hasString(have, l) {
			add = append(add, l)
		}
		if !on && hasString(have, l) {
			remove = append(remove, l)
		}
	}
	if on {
		for _, l := range have {
			if !hasString(wanted, l) {
				remove = append(remove, l)
			}
		}
	}
	if len(remove) > 0 {
		sort.Strings(remove)
		if ok, err := runOK(ctx, c, append([]string{"rc-update", "delete", name}, remove...)...); !ok {
			return false, err
		}
	}
	if len(add) > 0 {
		return runOK(ctx, c, append([]string{"rc-update", "add", name}, add...)...)
	}
	return true, nil
}
