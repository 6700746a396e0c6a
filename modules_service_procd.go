// Provider procd of module service: OpenWrt. Scripts stand in /etc/init.d, links
// to those that start with the box in /etc/rc.d.
package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

func procdServiceModule() Module {
	return Module{
		Doc: "Manage services of OpenWrt.",
		Virtual: func(_ context.Context, _ *Call) (bool, string) {
			return procdRuns(), "the procd provider works on OpenWrt only"
		},
		Funcs: serviceFuncs(procdServices{}),
	}
}

type procdServices struct{}

func (procdServices) onlyListed() bool { return true }

func (procdServices) all(context.Context, *Call) ([]string, error) {
	return executables("/etc/init.d", "rcS", "rcK"), nil
}

func (procdServices) isEnabled(_ context.Context, _ *Call, name string) (bool, error) {
	links, err := filepath.Glob("/etc/rc.d/S[0-9][0-9]" + globQuote(name))
	return len(links) > 0, err
}

// globQuote makes a name match itself in a glob.
func globQuote(s string) string {
	var b []rune
	for _, r := range s {
		if r == '*' || r == '?' || r == '[' || r == '\\' {
			b = append(b, '\\')
		}
		b = append(b, r)
	}
	return string(b)
}

func (procdServices) script(name string) (string, bool, error) {
	path := "/etc/init.d/" + name
	_, err := os.Stat(path)
	return path, err == nil, usableServiceName(name)
}

func (p procdServices) running(ctx context.Context, c *Call, name string) (bool, error) {
	script, there, err := p.script(name)
	if err != nil || !there {
		return false, err
	}
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, script, "running")
	if err == nil && strings.HasPrefix(r.stdout, "Syntax: ") {
		// A script without procd does not know the word and tells its usage; what is
		// left is a process of that name.
		pid, err := c.Run(ctx, "status.pid", name)
		return Truth(pid), err
	}
	return err == nil && !r.failed(), err
}

func (p procdServices) act(ctx context.Context, c *Call, name, action string) (bool, error) {
	script, there, err := p.script(name)
	if err != nil {
		return false, err
	}
	if !there {
		c.SetRetcode(1)
		return false, nil
	}
	if action == "force-reload" {
		action = "reload"
	}
	return runOK(ctx, c, script, action)
}

func (p procdServices) setEnabled(ctx context.Context, c *Call, name string, on bool, _ *Map) (bool, error) {
	script, there, err := p.script(name)
	if err != nil {
		return false, err
	}
	if !there {
		c.SetRetcode(1)
		return false, nil
	}
	word := "disable"
	if on {
		word = "enable"
	}
	// The script's exit code tells nothing: what counts is the link.
	if _, err := runSaltTool(ctx, c, toolOptions{ignore: true}, script, word); err != nil {
		return false, err
	}
	now, err := p.isEnabled(ctx, c, name)
	return now == on, err
}
