// Modules sysctl and kmod: parameters and modules of the kernel, read from /proc
// and /sys. Only loading a module needs a program.
package main

import (
	"bufio"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

func sysctlModule() Module {
	return Module{
		Doc: "Manage the parameters of the kernel.",
		Virtual: func(_ context.Context, c *Call) (bool, string) {
			return grain(c, "kernel") == "Linux", "The linux_sysctl execution module cannot be loaded: only available on Linux systems."
		},
		Funcs: Funcs{
			"default_config": {run: sysctlDefaultConfig, doc: "Return the file that parameters are kept in."},
			"show":           {run: sysctlShow, doc: "Return all parameters, or those of a file."},
			"get":            {run: sysctlGet, doc: "Return a parameter.\n\nCLI Example:\n\n    salt '*' sysctl.get net.ipv4.ip_forward"},
			"assign":         {run: sysctlAssign, doc: "Set a parameter until the next start.\n\nCLI Example:\n\n    salt '*' sysctl.assign net.ipv4.ip_forward 1"},
			"persist":        {run: sysctlPersist, doc: "Set a parameter now and for good.\n\nCLI Example:\n\n    salt '*' sysctl.persist net.ipv4.ip_forward 1"},
		},
	}
}

// sysctlPath is the file of a parameter: dots and slashes change places, unless
// the name is a path already.
func sysctlPath(name string) string {
	first := strings.IndexAny(name, "./")
	if first >= 0 && name[first] == '/' {
		return filepath.Join("/proc/sys", name)
	}
	swapped := strings.Map(func(r rune) rune {
		switch r {
		case '.':
			return '/'
		case '/':
			return '.'
		}
		return r
	}, name)
	return filepath.Join("/proc/sys", swapped)
}

func sysctlConfig() string {
	if systemdRuns() {
		return "/etc/sysctl.d/99-salt.conf"
	}
	return "/etc/sysctl.conf"
}

func sysctlDefaultConfig(context.Context, *Call, noArgs) (any, error) { return sysctlConfig(), nil }

type sysctlShowArgs struct {
	ConfigFile any `def:"False"`
}

func sysctlShow(_ context.Context, c *Call, a sysctlShowArgs) (any, error) {
	out := &Map{}
	if Truth(a.ConfigFile) {
		path := Str(a.ConfigFile)
		if _, err := os.Stat(path); err != nil {
			return &List{}, nil
		}
		lines, err := fileLines(path)
		if err != nil {
			c.Log.Error("Could not open sysctl file")
			return nil, nil
		}
		for _, line := range lines {
			line = pyStrip(line)
			if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
				out.Set(pyRstrip(key), strings.TrimLeftFunc(value, pySpace))
			}
		}
		return out, nil
	}
	err := filepath.WalkDir("/proc/sys", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // what cannot be read is left out
		}
		if st, err := d.Info(); err != nil || st.Mode()&0o444 == 0 {
			return nil
		}
		name := strings.Map(func(r rune) rune {
			switch r {
			case '.':
				return '/'
			case '/':
				return '.'
			}
			return r
		}, strings.TrimPrefix(path, "/proc/sys/"))
		p, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		// A value of several lines shows as its last one, as sysctl -a reads.
		for _, line := range strings.Split(strings.TrimRight(string(p), "\n"), "\n") {
			out.Set(name, line)
		}
		return nil
	})
	return out, err
}

func sysctlGet(_ context.Context, c *Call, a nameArgs) (any, error) {
	path := sysctlPath(a.Name)
	p, err := os.ReadFile(path)
	if err != nil {
		c.SetRetcode(1)
		if os.IsNotExist(err) {
			c.SetRetcode(255)
			return "sysctl: cannot stat " + path + ": No such file or directory", nil
		}
		return "sysctl: " + strerrorOf(err) + " on key \"" + a.Name + "\"", nil
	}
	c.SetRetcode(0)
	return pyRstrip(string(p)), nil
}

type sysctlAssignArgs struct {
	Name  string
	Value any
}

func sysctlAssign(_ context.Context, c *Call, a sysctlAssignArgs) (any, error) {
	path := sysctlPath(a.Name)
	if _, err := os.Stat(path); err != nil {
		return nil, ExecErrorf("sysctl %s does not exist", a.Name)
	}
	value := Str(a.Value)
	st, err := os.Stat(path)
	if err == nil && st.Mode()&0o222 == 0 {
		c.SetRetcode(1)
		return nil, ExecErrorf("sysctl -w failed: ")
	}
	if err := os.WriteFile(path, []byte(value+"\n"), 0o644); err != nil {
		c.SetRetcode(255)
		return nil, ExecErrorf("sysctl -w failed: sysctl: setting key \"%s\": %s", a.Name, strerrorOf(err))
	}
	return NewMap(a.Name, value), nil
}

type sysctlPersistArgs struct {
	Name   string
	Value  any
	Config any `def:"None"`
}

func sysctlPersist(ctx context.Context, c *Call, a sysctlPersistArgs) (any, error) {
	config := sysctlConfig()
	if a.Config != nil {
		config = Str(a.Config)
	}
	if !isFile(config) {
		if err := os.MkdirAll(filepath.Dir(config), 0o755); err != nil {
			return nil, osError(err)
		}
		if err := os.WriteFile(config, []byte("#\n# Kernel sysctl configuration\n#\n"), 0o644); err != nil {
			return nil, ExecErrorf("Could not write to file: %s", config)
		}
	}
	text, err := os.ReadFile(config)
	if err != nil {
		return nil, ExecErrorf("Could not read from file: %s", config)
	}
	spaces := regexp.MustCompile(`\s+`)
	same := func(s string) string { return spaces.ReplaceAllString(s, "\t") }
	value := Str(a.Value)
	line := a.Name + " = " + value + "\n"
	var b strings.Builder
	edited := false
	for _, have := range pyLines(string(text), true) {
		key, old, ok := strings.Cut(have, "=")
		key = pyStrip(key)
		if !ok || strings.HasPrefix(key, "#") || key != a.Name {
			b.WriteString(have)
			continue
		}
		if same(pyStrip(old)) == same(value) {
			now, err := sysctlGet(ctx, c, nameArgs{a.Name})
			if err != nil {
				return nil, err
			}
			if same(Str(now)) == same(value) {
				return "Already set", nil
			}
			_, err = sysctlAssign(ctx, c, sysctlAssignArgs{a.Name, value})
			return "Updated", err
		}
		b.WriteString(line)
		edited = true
	}
	if !edited {
		b.WriteString(line)
	}
	if err := replaceSystemFile(config, []byte(b.String()), 0o644); err != nil {
		return nil, ExecErrorf("Could not write to file: %s", config)
	}
	if _, err := sysctlAssign(ctx, c, sysctlAssignArgs{a.Name, value}); err != nil {
		return nil, err
	}
	return "Updated", nil
}

func kmodModule() Module {
	return Module{
		Doc: "Manage the modules of the kernel.",
		Virtual: func(_ context.Context, c *Call) (bool, string) {
			return grain(c, "kernel") == "Linux", "the kmod module works on Linux only"
		},
		Funcs: Funcs{
			"available":       {run: kmodAvailable, doc: "List the modules that can be loaded."},
			"check_available": {run: kmodCheckAvailable, doc: "Say whether a module can be loaded."},
			"lsmod":           {run: kmodLsmod, doc: "List the loaded modules with their sizes and users."},
			"mod_list":        {run: kmodModList, doc: "List the names of the loaded modules, or those that are loaded at each start."},
			"load":            {run: kmodLoad, doc: "Load a module; persist: at each start too."},
			"remove":          {run: kmodRemove, doc: "Unload a module; persist: do not load it at the start any more."},
			"is_loaded":       {run: kmodIsLoaded, doc: "Say whether a module is loaded."},
		},
	}
}

func kernelRelease() string {
	p, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(string(p))
}

func kernelModules() []string {
	dir := "/lib/modules/" + kernelRelease()
	var out []string
	_ = scanLines(dir+"/modules.builtin", func(line string) bool {
		out = append(out, strings.TrimSuffix(filepath.Base(line), ".ko"))
		return true
	})
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if name, _, ok := strings.Cut(d.Name(), ".ko"); ok {
				out = append(out, strings.ReplaceAll(name, "-", "_"))
			}
		}
		return nil
	})
	sort.Strings(out)
	return out
}

func kmodAvailable(context.Context, *Call, noArgs) (any, error) { return Strings(kernelModules()), nil }

type kmodModArgs struct{ Mod string }

func kmodCheckAvailable(_ context.Context, _ *Call, a kmodModArgs) (any, error) {
	return hasString(kernelModules(), a.Mod), nil
}

// loadedModules reads /proc/modules: name, size, count of users, users.
func loadedModules() ([]*Map, error) {
	f, err := os.Open("/proc/modules")
	if err != nil {
		return nil, ExecErrorf("this kernel has no loadable modules: %s", osErrorText(err))
	}
	defer f.Close()
	var out []*Map
	s := bufio.NewScanner(f)
	for s.Scan() {
		w := strings.Fields(s.Text())
		if len(w) < 4 {
			continue
		}
		deps := []string{}
		for _, d := range strings.Split(w[3], ",") {
			if d != "" && d != "-" {
				deps = append(deps, d)
			}
		}
		out = append(out, NewMap("size", w[1], "module", w[0], "depcount", w[2], "deps", Strings(deps)))
	}
	return out, s.Err()
}

// needLsmod refuses where Salt does: it reads the output of lsmod.
func kmodLsmod(context.Context, *Call, noArgs) (any, error) {
	if _, err := needTool("lsmod"); err != nil {
		return nil, err
	}
	mods, err := loadedModules()
	if err != nil {
		return nil, err
	}
	out := &List{}
	for _, m := range mods {
		out.Append(m)
	}
	return out, nil
}

func loadedNames() ([]string, error) {
	if _, err := needTool("lsmod"); err != nil {
		return nil, err
	}
	mods, err := loadedModules()
	var names []string
	for _, m := range mods {
		names = append(names, m.Str("module"))
	}
	return sortedSet(names), err
}

func kmodConf(c *Call) string {
	if c.Grains.Has("systemd") {
		return "/etc/modules-load.d/salt_managed.conf"
	}
	return "/etc/modules"
}

func persistentModules(c *Call) []string {
	var out []string
	_ = scanLines(kmodConf(c), func(line string) bool {
		if f := strings.Fields(line); len(f) > 0 && !strings.HasPrefix(f[0], "#") {
			out = append(out, f[0])
		}
		return true
	})
	return sortedSet(out)
}

type kmodListArgs struct {
	OnlyPersist bool `def:"False"`
}

func kmodModList(_ context.Context, c *Call, a kmodListArgs) (any, error) {
	if a.OnlyPersist {
		return Strings(persistentModules(c)), nil
	}
	names, err := loadedNames()
	return Strings(names), err
}

func kmodIsLoaded(_ context.Context, _ *Call, a kmodModArgs) (any, error) {
	names, err := loadedNames()
	return hasString(names, a.Mod), err
}

type kmodLoadArgs struct {
	Mod     string
	Persist bool `def:"False"`
}

func difference(a, b []string) []string {
	var out []string
	for _, s := range a {
		if !hasString(b, s) {
			out = append(out, s)
		}
	}
	return out
}

func kmodLoad(ctx context.Context, c *Call, a kmodLoadArgs) (any, error) {
	before, err := loadedNames()
	if err != nil {
		return nil, err
	}
	path, err := needTool("modprobe")
	if err != nil {
		return nil, err
	}
	r, err := runSaltTool(ctx, c, toolOptions{}, append([]string{path}, strings.Fields(a.Mod)...)...)
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return "Error loading module " + a.Mod + ": " + r.stderr, nil
	}
	after, err := loadedNames()
	if err != nil {
		return nil, err
	}
	changed := difference(after, before)
	name, _, _ := strings.Cut(strings.TrimSpace(a.Mod), " ")
	if a.Persist && name != "" && !hasString(persistentModules(c), name) && hasString(kernelModules(), name) {
		lines, _ := fileLines(kmodConf(c))
		done := false
		for i, line := range lines {
			if strings.TrimSpace(strings.TrimLeft(line, "#\t ")) == strings.TrimSpace(a.Mod) && strings.HasPrefix(line, "#") {
				lines[i], done = a.Mod, true
			}
		}
		if !done {
			lines = append(lines, a.Mod)
		}
		if err := replaceSystemFile(kmodConf(c), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			return nil, osError(err)
		}
		changed = append(changed, name)
	}
	return Strings(sortedSet(changed)), nil
}

type kmodRemoveArgs struct {
	Mod     string
	Persist bool `def:"False"`
	Comment bool `def:"True"`
}

func kmodRemove(ctx context.Context, c *Call, a kmodRemoveArgs) (any, error) {
	before, err := loadedNames()
	if err != nil {
		return nil, err
	}
	path, err := needTool("rmmod")
	if err != nil {
		return nil, err
	}
	r, err := runSaltTool(ctx, c, toolOptions{}, path, a.Mod)
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return "Error removing module " + a.Mod + ": " + r.stderr, nil
	}
	after, err := loadedNames()
	if err != nil {
		return nil, err
	}
	changed := difference(before, after)
	if a.Persist && hasString(persistentModules(c), a.Mod) {
		lines, _ := fileLines(kmodConf(c))
		var out []string
		for _, line := range lines {
			if f := strings.Fields(line); len(f) > 0 && f[0] == a.Mod {
				if !a.Comment {
					continue
				}
				line = "#" + line
			}
			out = append(out, line)
		}
		if err := replaceSystemFile(kmodConf(c), []byte(strings.Join(out, "\n")+"\n"), 0o644); err != nil {
			return nil, osError(err)
		}
		changed = append(changed, a.Mod)
	}
	return Strings(sortedSet(changed)), nil
}
