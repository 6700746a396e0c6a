// Providers sysv of module service: scripts in /etc/init.d and links in rcN.d,
// as Debian has them (debian_service), with chkconfig (rh_service), and bare.
package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func debianServiceModule() Module {
	return Module{
		Doc: "Manage services by scripts in /etc/init.d.",
		Virtual: func(_ context.Context, c *Call) (bool, string) {
			switch grain(c, "os") {
			case "Debian", "Raspbian", "Devuan", "NILinuxRT":
				if !systemdRuns() {
					return true, ""
				}
			}
			return false, "The debian_service module could not be loaded: unsupported OS family and/or systemd running."
		},
		Funcs: serviceFuncs(sysvServices{debian: true}),
	}
}

func rhServiceModule() Module {
	return Module{
		Doc: "Manage services by chkconfig.",
		Virtual: func(_ context.Context, c *Call) (bool, string) {
			return which("chkconfig") != "" && !systemdRuns() && grain(c, "os_family") != "Debian",
				"the rh_service module needs chkconfig and a box that does not run systemd"
		},
		Funcs: serviceFuncs(sysvServices{chkconfig: true}).with(Funcs{
			"delete": {run: func(ctx context.Context, c *Call, a serviceKwArgs) (any, error) {
				return runOK(ctx, c, "chkconfig", "--del", a.Name)
			}, doc: "Take a service out of all runlevels."},
		}),
	}
}

func plainServiceModule() Module {
	return Module{
		Doc: "Manage services by scripts in /etc/init.d.",
		Virtual: func(_ context.Context, c *Call) (bool, string) {
			return isDir("/etc/init.d") && !systemdRuns(), "this box has no init that is known: neither systemd, OpenRC, procd, runit nor /etc/init.d"
		},
		Funcs: serviceFuncs(sysvServices{}),
	}
}

type sysvServices struct{ debian, chkconfig bool }

func (sysvServices) onlyListed() bool { return true }

// runlevel is the level that links are looked for in. As in Salt the exit code of
// runlevel(8) is that of the job.
func (s sysvServices) runlevel(ctx context.Context, c *Call) string {
	if v, ok := c.ContextGet("service.runlevel"); ok && v != "" {
		return Str(v)
	}
	level := "2"
	if which("runlevel") != "" {
		if out, err := runText(ctx, c, "runlevel"); err == nil {
			if f := strings.Fields(out); len(f) > 1 && !strings.Contains(out, "unknown") {
				level = f[1]
			}
		}
	}
	c.ContextSet("service.runlevel", level)
	return level
}

// links lists the services with start links for the level and for S.
func (s sysvServices) links(level string) []string {
	var out []string
	digits := regexp.MustCompile(`\d+`)
	for _, pattern := range []string{"/etc/rc" + level + ".d/S*", "/etc/rcS.d/S*", "/etc/rc.d/rc" + level + ".d/S*"} {
		files, _ := filepath.Glob(pattern)
		for _, f := range files {
			parts := digits.Split(filepath.Base(f), -1)
			out = append(out, parts[len(parts)-1])
		}
	}
	return sortedSet(out)
}

func (s sysvServices) enabledNames(ctx context.Context, c *Call) []string {
	return s.links(s.runlevel(ctx, c))
}

func (s sysvServices) all(ctx context.Context, c *Call) ([]string, error) {
	var scripts []string
	files, _ := filepath.Glob("/etc/init.d/*")
	for _, f := range files {
		if name := filepath.Base(f); name != "README" && (s.debian || isExecutable(f)) {
			scripts = append(scripts, name)
		}
	}
	return sortedSet(scripts, s.enabledNames(ctx, c)), nil
}

func isExecutable(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
}

func (s sysvServices) isEnabled(ctx context.Context, c *Call, name string) (bool, error) {
	return hasString(s.enabledNames(ctx, c), name), nil
}

// command calls service(8), or the script itself where there is none.
func (s sysvServices) command(name, action string) ([]string, error) {
	if err := usableServiceName(name); err != nil {
		return nil, err
	}
	if path := which("service"); path != "" {
		return []string{"service", name, action}, nil
	}
	return []string{"/etc/init.d/" + name, action}, nil
}

func (s sysvServices) running(ctx context.Context, c *Call, name string) (bool, error) {
	cmd, err := s.command(name, "status")
	if err != nil {
		return false, err
	}
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, cmd...)
	if err != nil {
		return false, nil
	}
	return !r.failed(), nil
}

func (s sysvServices) act(ctx context.Context, c *Call, name, action string) (bool, error) {
	cmd, err := s.command(name, action)
	if err != nil {
		return false, err
	}
	return runOK(ctx, c, cmd...)
}

func (s sysvServices) setEnabled(ctx context.Context, c *Call, name string, on bool, _ *Map) (bool, error) {
	if err := usableServiceName(name); err != nil {
		return false, err
	}
	word := "disable"
	if on {
		word = "enable"
	}
	switch {
	case s.chkconfig:
		if on {
			if ok, err := runOK(ctx, c, "chkconfig", "--add", name); !ok {
				return false, err
			}
			return runOK(ctx, c, "chkconfig", name, "on")
		}
		return runOK(ctx, c, "chkconfig", name, "off")
	case which("update-rc.d") != "":
		if on && which("insserv") != "" {
			if ok, err := runOK(ctx, c, "insserv", name); !ok {
				return false, err
			}
		}
		return runOK(ctx, c, "update-rc.d", name, word)
	}
	return s.link(ctx, c, name, on)
}

// link makes or removes the links of the runlevel itself.
func (s sysvServices) link(ctx context.Context, c *Call, name string, on bool) (bool, error) {
	script := "/etc/init.d/" + name
	if !isExecutable(script) {
		c.SetRetcode(1)
		return false, nil
	}
	dir := "/etc/rc" + s.runlevel(ctx, c) + ".d"
	old, _ := filepath.Glob(dir + "/[SK][0-9][0-9]" + name)
	for _, f := range old {
		if err := os.Remove(f); err != nil {
			return false, osError(err)
		}
	}
	if !on {
		return true, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, osError(err)
	}
	if err := os.Symlink("../init.d/"+name, dir+"/S99"+name); err != nil {
		return false, osError(err)
	}
	return true, nil
}
