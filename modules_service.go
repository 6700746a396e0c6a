// Module service: what its providers have in common. The provider is chosen by
// what runs as init: systemd, OpenRC, procd, runit or scripts in /etc/init.d.
//
// The law of this room: a provider is a value that knows how to list, ask and
// change services (serviceManager); the functions users call are built over it
// here, so that names, arguments and returns are the same everywhere.
package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// serviceManager is one provider.
type serviceManager interface {
	all(ctx context.Context, c *Call) ([]string, error)
	isEnabled(ctx context.Context, c *Call, name string) (bool, error)
	running(ctx context.Context, c *Call, name string) (bool, error)
	// act does start, stop, restart, reload or force-reload.
	act(ctx context.Context, c *Call, name, action string) (bool, error)
	setEnabled(ctx context.Context, c *Call, name string, on bool, kwargs *Map) (bool, error)
}

// serviceFuncs are the functions that all providers have.
func serviceFuncs(m serviceManager) Funcs {
	s := serviceCommon{m}
	return Funcs{
		"start":        {run: s.action("start"), doc: "Start a service.\n\nCLI Example:\n\n    salt '*' service.start nginx"},
		"stop":         {run: s.action("stop"), doc: "Stop a service."},
		"restart":      {run: s.action("restart"), doc: "Restart a service."},
		"reload":       {run: s.action("reload"), pyname: "reload_", doc: "Let a service read its configuration again."},
		"force_reload": {run: s.action("force-reload"), doc: "Reload a service, or restart it if it cannot reload."},
		"status":       {run: s.status, doc: "Say whether a service runs; with a glob, of all services that match. With sig say whether a\nprocess matches that pattern."},
		"enable":       {run: s.enable, doc: "Start a service when the box starts."},
		"disable":      {run: s.disable, doc: "Do not start a service when the box starts."},
		"enabled":      {run: s.enabled, doc: "Say whether a service starts with the box."},
		"disabled":     {run: s.disabled, doc: "Say whether a service does not start with the box."},
		"get_all":      {run: s.getAll, doc: "List all services."},
		"get_enabled":  {run: s.getEnabled, doc: "List the services that start with the box."},
		"get_disabled": {run: s.getDisabled, doc: "List the services that do not start with the box."},
		"available":    {run: s.available, doc: "Say whether there is a service of that name."},
		"missing":      {run: s.missing, doc: "Say whether there is no service of that name."},
	}
}

type serviceCommon struct{ m serviceManager }

func (s serviceCommon) action(what string) func(context.Context, *Call, nameArgs) (any, error) {
	return func(ctx context.Context, c *Call, a nameArgs) (any, error) { return s.m.act(ctx, c, a.Name, what) }
}

// isServiceGlob says whether a name stands for several.
func isServiceGlob(name string) bool {
	return strings.ContainsAny(name, "*?") || regexp.MustCompile(`\[.+\]`).MatchString(name)
}

type serviceStatusArgs struct {
	Name string
	Sig  any `def:"None"`
}

func (s serviceCommon) status(ctx context.Context, c *Call, a serviceStatusArgs) (any, error) {
	if Truth(a.Sig) {
		pid, err := c.Run(ctx, "status.pid", a.Sig)
		return Truth(pid), err
	}
	if !isServiceGlob(a.Name) {
		return s.m.running(ctx, c, a.Name)
	}
	all, err := s.m.all(ctx, c)
	if err != nil {
		return nil, err
	}
	out := &Map{}
	for _, name := range all {
		if !GlobMatch(a.Name, name) {
			continue
		}
		on, err := s.m.running(ctx, c, name)
		if err != nil {
			return nil, err
		}
		out.Set(name, on)
	}
	return out, nil
}

type serviceKwArgs struct {
	Name   string
	Kwargs *Map `arg:"**kwargs"`
}

func (s serviceCommon) enable(ctx context.Context, c *Call, a serviceKwArgs) (any, error) {
	return s.m.setEnabled(ctx, c, a.Name, true, a.Kwargs)
}

func (s serviceCommon) disable(ctx context.Context, c *Call, a serviceKwArgs) (any, error) {
	return s.m.setEnabled(ctx, c, a.Name, false, a.Kwargs)
}

func (s serviceCommon) enabled(ctx context.Context, c *Call, a serviceKwArgs) (any, error) {
	return s.m.isEnabled(ctx, c, a.Name)
}

// disabledLister is a provider for which a service that does not exist is not
// disabled either.
type disabledLister interface{ onlyListed() bool }

func (s serviceCommon) disabled(ctx context.Context, c *Call, a nameArgs) (any, error) {
	if d, ok := s.m.(disabledLister); ok && d.onlyListed() {
		if there, err := s.exists(ctx, c, a.Name); err != nil || !there {
			return false, err
		}
	}
	on, err := s.m.isEnabled(ctx, c, a.Name)
	return !on, err
}

func (s serviceCommon) getAll(ctx context.Context, c *Call, _ noArgs) (any, error) {
	all, err := s.m.all(ctx, c)
	return Strings(all), err
}

func (s serviceCommon) filtered(ctx context.Context, c *Call, enabled bool) (any, error) {
	all, err := s.m.all(ctx, c)
	if err != nil {
		return nil, err
	}
	out := &List{}
	for _, name := range all {
		on, err := s.m.isEnabled(ctx, c, name)
		if err != nil {
			return nil, err
		}
		if on == enabled {
			out.Append(name)
		}
	}
	return out, nil
}

func (s serviceCommon) getEnabled(ctx context.Context, c *Call, _ noArgs) (any, error) {
	return s.filtered(ctx, c, true)
}

func (s serviceCommon) getDisabled(ctx context.Context, c *Call, _ noArgs) (any, error) {
	return s.filtered(ctx, c, false)
}

func (s serviceCommon) exists(ctx context.Context, c *Call, name string) (bool, error) {
	all, err := s.m.all(ctx, c)
	return hasString(all, name), err
}

func (s serviceCommon) available(ctx context.Context, c *Call, a nameArgs) (any, error) {
	return s.exists(ctx, c, a.Name)
}

func (s serviceCommon) missing(ctx context.Context, c *Call, a nameArgs) (any, error) {
	there, err := s.exists(ctx, c, a.Name)
	return !there, err
}

// usableServiceName refuses names that would lead out of /etc/init.d.
func usableServiceName(name string) error {
	if name == "" || strings.ContainsAny(name, "/\n\x00") || strings.HasPrefix(name, "-") {
		return InvocationErrorf("%s is no name of a service", Repr(name))
	}
	return nil
}

// systemdRuns says whether systemd is the init of this box.
func systemdRuns() bool { return isDir("/run/systemd/system") }

// procdRuns says whether this is OpenWrt's init.
func procdRuns() bool {
	return isFile("/etc/rc.common") && (isFile("/sbin/procd") || which("ubus") != "")
}

// executables lists the names of programs in a directory.
func executables(dir string, skip ...string) []string {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, f := range files {
		st, err := os.Stat(filepath.Join(dir, f.Name()))
		if err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 && !hasString(skip, f.Name()) {
			out = append(out, f.Name())
		}
	}
	sort.Strings(out)
	return out
}

func sortedSet(lists ...[]string) []string {
	seen := map[string]bool{}
	out := []string{}
	for _, l := range lists {
		for _, s := range l {
			if !seen[s] {
				seen[s] = true
				out = append(out, s)
			}
		}
	}
	sort.Strings(out)
	return out
}
