// Provider runit of module service: directories with a run file, linked into the
// directory that runsvdir watches.
package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func runitServiceModule() Module {
	s := runitServices{}
	return Module{
		Doc: "Manage services of runit.",
		Virtual: func(_ context.Context, c *Call) (bool, string) {
			return which("sv") != "" && (grain(c, "init") == "runit" || grain(c, "os") == "Void"), "Runit not available.  Please install sv"
		},
		Funcs: serviceFuncs(s).with(Funcs{
			"full_restart":        {run: s.fullRestart, doc: "Restart a service; tells nothing."},
			"get_svc_broken_path": {run: s.broken, doc: "List what is in the supervised directory and is no service."},
			"get_svc_avail_path":  {run: s.availPath, doc: "List the directories of services that can be enabled."},
			"get_svc_alias":       {run: s.aliases, doc: "Return the services that links stand for, with these links."},
			"status_autostart":    {run: s.autostart, doc: "Say whether a service is started by its supervisor."},
			"remove":              {run: s.remove, doc: "Stop a service and take it out of the supervised ones."},
			"show":                {run: s.show, doc: "Return state and paths of a service."},
		}),
	}
}

type runitServices struct{}

// runitAvailable is where services wait to be enabled.
const runitAvailable = "/etc/sv"

func (runitServices) dir() string {
	for _, d := range []string{"/service", "/var/service", "/etc/service"} {
		if _, err := os.Stat(d); err == nil {
			return d
		}
	}
	return ""
}

func isRunit(dir string) bool { return isExecutable(filepath.Join(dir, "run")) }

// find maps names to the directories of enabled and of available services.
func (s runitServices) find() (enabled, all map[string]string) {
	enabled, all = map[string]string{}, map[string]string{}
	if d := s.dir(); d != "" {
		files, _ := filepath.Glob(d + "/*")
		for _, f := range files {
			if isRunit(f) {
				target := f
				if t, err := os.Readlink(f); err == nil {
					if target = t; !filepath.IsAbs(t) {
						target = filepath.Join(d, t)
					}
				}
				enabled[filepath.Base(f)], all[filepath.Base(f)] = target, target
			}
		}
	}
	files, _ := filepath.Glob(runitAvailable + "/*")
	for _, f := range files {
		if _, ok := all[filepath.Base(f)]; !ok && isRunit(f) {
			all[filepath.Base(f)] = f
		}
	}
	return enabled, all
}

func (s runitServices) all(context.Context, *Call) ([]string, error) {
	_, all := s.find()
	var names []string
	for n := range all {
		names = append(names, n)
	}
	return sortedSet(names), nil
}

func (s runitServices) isEnabled(_ context.Context, _ *Call, name string) (bool, error) {
	enabled, _ := s.find()
	_, ok := enabled[name]
	return ok, nil
}

func (s runitServices) path(name string) (string, error) {
	if s.dir() == "" {
		return "", ExecErrorf("Could not find service directory.")
	}
	return filepath.Join(s.dir(), name), usableServiceName(name)
}

func (s runitServices) running(ctx context.Context, c *Call, name string) (bool, error) {
	path, err := s.path(name)
	if err != nil {
		return false, err
	}
	if _, err := os.Stat(path); err != nil {
		return false, nil
	}
	r, err := runSaltTool(ctx, c, toolOptions{}, "sv", "status", path)
	return err == nil && strings.HasPrefix(r.stdout, "run: "), err
}

func (s runitServices) act(ctx context.Context, c *Call, name, action string) (bool, error) {
	path, err := s.path(name)
	if err != nil {
		return false, err
	}
	return runOK(ctx, c, "sv", action, path)
}

func (s runitServices) setEnabled(ctx context.Context, c *Call, name string, on bool, kwargs *Map) (bool, error) {
	enabled, all := s.find()
	dir, there := all[name]
	_, isOn := enabled[name]
	down := filepath.Join(dir, "down")
	if !on {
		if !isOn {
			return false, nil
		}
		if Truth(kwargs.Value("stop")) {
			if _, err := s.act(ctx, c, name, "stop"); err != nil {
				return false, err
			}
		}
		if err := os.WriteFile(down, nil, 0o644); err != nil {
			return false, osError(err)
		}
		return true, nil
	}
	if aliases, err := s.aliases(ctx, c, noArgs{}); err != nil || aliases.(*Map).Has(name) {
		return false, err // the alias is what can be enabled
	}
	if !there {
		return false, nil
	}
	if isOn {
		if err := os.Remove(down); err != nil && !os.IsNotExist(err) {
			return false, osError(err)
		}
		return true, nil
	}
	link, err := s.path(name)
	if err != nil {
		return false, err
	}
	// A file down keeps the service from starting until it was asked to.
	start := Truth(kwargs.Value("start"))
	if !start {
		if err := os.WriteFile(down, nil, 0o644); err != nil {
			return false, osError(err)
		}
		defer os.Remove(down)
	}
	if err := os.Symlink(dir, link); err != nil {
		return false, osError(err)
	}
	for try := 0; try < 10; try++ {
		if !sleepContext(ctx, 500*time.Millisecond) {
			return false, ctx.Err()
		}
		if ok, err := runOK(ctx, c, "sv", "status", link); ok || err != nil {
			return ok, err
		}
	}
	return false, os.Remove(link)
}

func (s runitServices) fullRestart(ctx context.Context, c *Call, a nameArgs) (any, error) {
	_, err := s.act(ctx, c, a.Name, "restart")
	return nil, err
}

type runitBrokenArgs struct {
	Name string `def:"'*'"`
}

func (s runitServices) broken(_ context.Context, _ *Call, a runitBrokenArgs) (any, error) {
	if s.dir() == "" {
		return nil, ExecErrorf("Could not find service directory.")
	}
	files, err := filepath.Glob(filepath.Join(s.dir(), a.Name))
	out := &List{}
	for _, f := range files {
		if !isRunit(f) {
			out.Append(f)
		}
	}
	return out, err
}

func (runitServices) availPath(context.Context, *Call, noArgs) (any, error) {
	if !isDir(runitAvailable) {
		return &List{}, nil
	}
	return NewList(runitAvailable), nil
}

func (runitServices) aliases(context.Context, *Call, noArgs) (any, error) {
	out := &Map{}
	files, _ := filepath.Glob(runitAvailable + "/*")
	for _, f := range files {
		if target, err := os.Readlink(f); err == nil {
			appendTo(out, filepath.Base(target), f)
		}
	}
	return out, nil
}

func (s runitServices) autostart(_ context.Context, _ *Call, a nameArgs) (any, error) {
	path, err := s.path(a.Name)
	if err != nil {
		return nil, err
	}
	_, err = os.Stat(filepath.Join(path, "down"))
	return err != nil, nil
}

func (s runitServices) remove(ctx context.Context, c *Call, a nameArgs) (any, error) {
	path, err := s.path(a.Name)
	if err != nil {
		return nil, err
	}
	if enabled, _ := s.find(); enabled[a.Name] == "" || !isSymlink(path) {
		return false, nil
	}
	if ok, err := s.act(ctx, c, a.Name, "stop"); !ok {
		return false, err
	}
	if err := os.Remove(path); err != nil {
		return nil, osError(err)
	}
	return true, nil
}

func (s runitServices) show(ctx context.Context, c *Call, a nameArgs) (any, error) {
	enabled, all := s.find()
	out := NewMap("enabled", false, "disabled", true, "running", false, "service_path", nil, "autostart", false, "command_path", nil, "available", false)
	dir, there := all[a.Name]
	if !there {
		return out, nil
	}
	_, on := enabled[a.Name]
	running, err := s.running(ctx, c, a.Name)
	if err != nil {
		return nil, err
	}
	auto, err := s.autostart(ctx, c, a)
	if err != nil {
		return nil, err
	}
	out.Merge(NewMap("available", true, "enabled", on, "disabled", !on, "running", running, "autostart", auto, "service_path", dir, "command_path", filepath.Join(dir, "run")))
	return out, nil
}
