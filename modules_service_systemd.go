// Provider systemd of module service. What units exist is read from their files;
// states and changes go through systemctl.
package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

func systemdServiceModule() Module {
	s := systemdServices{}
	return Module{
		Doc: "Manage services and other units of systemd.",
		Virtual: func(_ context.Context, c *Call) (bool, string) {
			return grain(c, "kernel") == "Linux" && systemdRuns() && which("systemctl") != "",
				"The systemd execution module failed to load: only available on Linux systems which have been booted with systemd."
		},
		Funcs: serviceFuncs(s).with(Funcs{
			"start":            {run: s.startFunc("start", false), doc: "Start a service; unmask and unmask_runtime take a mask off first, no_block does not wait.\n\nCLI Example:\n\n    salt '*' service.start nginx"},
			"restart":          {run: s.startFunc("restart", true), doc: "Restart a service."},
			"reload":           {run: s.startFunc("reload", false), pyname: "reload_", doc: "Let a service read its configuration again."},
			"force_reload":     {run: s.startFunc("force-reload", false), doc: "Reload a service, or restart it if it cannot reload."},
			"stop":             {run: s.stop, doc: "Stop a service."},
			"enable":           {run: s.enable, doc: "Start a service when the box starts."},
			"disable":          {run: s.disable, doc: "Do not start a service when the box starts."},
			"enabled":          {run: s.enabled, doc: "Say whether a service starts with the box."},
			"disabled":         {run: s.disabled, doc: "Say whether a service does not start with the box."},
			"get_all":          {run: s.getAll, doc: "List all units; those of services without their suffix."},
			"get_enabled":      {run: s.byState("enabled"), doc: "List the units that start with the box."},
			"get_disabled":     {run: s.byState("disabled"), doc: "List the units that do not start with the box."},
			"get_static":       {run: s.byState("static"), doc: "List the units that can be neither enabled nor disabled."},
			"get_running":      {run: s.getRunning, doc: "List the units that run."},
			"available":        {run: s.available, doc: "Say whether there is a unit of that name."},
			"missing":          {run: s.missing, doc: "Say whether there is no unit of that name."},
			"mask":             {run: s.mask, doc: "Keep a unit from being started at all."},
			"unmask":           {run: s.unmask, pyname: "unmask_", doc: "Let a masked unit be started again."},
			"masked":           {run: s.masked, doc: "Say whether a unit is masked."},
			"show":             {run: s.show, doc: "Return the properties of a unit."},
			"execs":            {run: s.execs, doc: "Return the programs of all services."},
			"systemctl_reload": {run: s.daemonReload, doc: "Let systemd read the files of its units again."},
			"firstboot":        {run: s.firstboot, doc: "Set locale, keymap, timezone, hostname or machine id of a new system."},
			"offline":          {run: func(context.Context, *Call, noArgs) (any, error) { return !systemdRuns(), nil }, doc: "Say whether systemd does not run here."},
			"status":           {run: s.status, doc: "Say whether a service runs; with a glob, of all services that match."},
		}),
	}
}

// idleSystemdModule is systemd on a box where it is installed and not running, as
// in a container: what works on files (masks, lists, root directories) is then
// there beside the functions of init scripts.
func idleSystemdModule() Module {
	m := systemdServiceModule()
	m.Virtual = func(ctx context.Context, _ *Call) (bool, string) {
		if which("systemctl") == "" || systemdRuns() {
			return false, "systemd is not idle here"
		}
		r, err := runTool(ctx, "systemctl", "is-system-running")
		return err == nil && strings.TrimSpace(r.stdout) == "offline", "systemd is not idle here"
	}
	return m
}

type systemdServices struct{}

func unitTypes() []string {
	return []string{"service", "socket", "device", "mount", "automount", "swap", "target", "path", "timer"}
}

// unitName adds .service to names without a type.
func unitName(name string) string {
	for _, t := range unitTypes() {
		if strings.HasSuffix(name, t) {
			return name
		}
	}
	return name + ".service"
}

// shortUnit is how lists show a unit: services without their suffix. "" if the
// type is none of those that are shown.
func shortUnit(full string) string {
	name, kind, ok := rsplit(full, ".")
	if !ok || !hasString(unitTypes(), kind) {
		return ""
	}
	if kind == "service" {
		return name
	}
	return full
}

// systemctlOptions are the options before the action.
type systemctlOptions struct {
	scope, noBlock bool
	root           any
}

func systemctl(c *Call, o systemctlOptions, name string, action ...string) []string {
	var cmd []string
	if o.scope && which("systemd-run") != "" {
		if v, ok := configLookup(c, "systemd.scope"); !ok || Truth(v) {
			cmd = append(cmd, which("systemd-run"), "--scope")
		}
	}
	cmd = append(cmd, which("systemctl"))
	if o.noBlock {
		cmd = append(cmd, "--no-block")
	}
	if Truth(o.root) {
		cmd = append(cmd, "--root", Str(o.root))
	}
	cmd = append(cmd, action...)
	if name != "" {
		cmd = append(cmd, unitName(name))
	}
	if hasString(action, "status") {
		cmd = append(cmd, "-n", "0")
	}
	return cmd
}

// stripScope takes the line about the scope out of an error.
func stripScope(msg string) string {
	var out []string
	for _, line := range pyLines(msg, false) {
		if !strings.HasSuffix(line, ".scope") {
			out = append(out, line)
		}
	}
	return strings.TrimSpace(strings.Join(out, "\n"))
}

func (systemdServices) statusOf(ctx context.Context, c *Call, name string) (cmdResult, error) {
	return runSaltTool(ctx, c, toolOptions{merge: true, ignore: true}, systemctl(c, systemctlOptions{}, name, "status")...)
}

func (s systemdServices) known(ctx context.Context, c *Call, name string) (bool, error) {
	r, err := s.statusOf(ctx, c, name)
	if err != nil {
		return false, err
	}
	n, _ := toInt(r.retcode)
	return n >= 0 && n < 4, nil
}

// noticeChanges lets systemd read the units again if this one's file has changed.
func (s systemdServices) noticeChanges(ctx context.Context, c *Call, name string) error {
	r, err := s.statusOf(ctx, c, name)
	if err != nil {
		return err
	}
	n, _ := toInt(r.retcode)
	_, statErr := os.Stat("/etc/systemd/system/" + unitName(name))
	if statErr == nil && n >= 4 || strings.Contains(strings.ToLower(r.stdout), "'systemctl daemon-reload'") {
		_, err = s.daemonReload(ctx, c, noArgs{})
	}
	return err
}

func (systemdServices) daemonReload(ctx context.Context, c *Call, _ noArgs) (any, error) {
	r, err := runSaltTool(ctx, c, toolOptions{merge: true}, systemctl(c, systemctlOptions{}, "", "--system", "daemon-reload")...)
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return nil, ExecErrorf("Problem performing systemctl daemon-reload: %s", r.stdout)
	}
	return true, nil
}

type systemdStartArgs struct {
	Name          string
	NoBlock       any  `def:"None"`
	Unmask        bool `def:"False"`
	UnmaskRuntime bool `def:"False"`
}

// startFunc makes start, restart and the like. The minion's own service is not
// waited for if own is set: it would wait for itself.
func (s systemdServices) startFunc(action string, own bool) func(context.Context, *Call, systemdStartArgs) (any, error) {
	return func(ctx context.Context, c *Call, a systemdStartArgs) (any, error) {
		noBlock := Truth(a.NoBlock)
		if a.NoBlock == nil {
			noBlock = action == "force-reload" || own && unitName(a.Name) == "salt-minion.service"
		}
		if err := s.noticeChanges(ctx, c, a.Name); err != nil {
			return nil, err
		}
		for _, m := range []struct{ on, runtime bool }{{a.Unmask, false}, {a.UnmaskRuntime, true}} {
			if m.on {
				if _, err := s.unmask(ctx, c, systemdMaskArgs{Name: a.Name, Runtime: m.runtime}); err != nil {
					return nil, err
				}
			}
		}
		r, err := runSaltTool(ctx, c, toolOptions{}, systemctl(c, systemctlOptions{scope: true, noBlock: noBlock}, a.Name, action)...)
		if err != nil {
			return nil, err
		}
		if r.failed() {
			return nil, ExecErrorf("%s", stripScope(r.stderr))
		}
		return true, nil
	}
}

type systemdStopArgs struct {
	Name    string
	NoBlock any `def:"None"`
}

func (s systemdServices) stop(ctx context.Context, c *Call, a systemdStopArgs) (any, error) {
	noBlock := Truth(a.NoBlock) || a.NoBlock == nil && unitName(a.Name) == "salt-minion.service"
	if err := s.noticeChanges(ctx, c, a.Name); err != nil {
		return nil, err
	}
	return runOK(ctx, c, systemctl(c, systemctlOptions{scope: true, noBlock: noBlock}, a.Name, "stop")...)
}

// status is that of all providers, except that sig does not matter here.
func (s systemdServices) status(ctx context.Context, c *Call, a serviceStatusArgs) (any, error) {
	return serviceCommon{s}.status(ctx, c, serviceStatusArgs{Name: a.Name})
}

func (s systemdServices) act(ctx context.Context, c *Call, name, action string) (bool, error) {
	return runOK(ctx, c, systemctl(c, systemctlOptions{scope: true}, name, action)...)
}

func (s systemdServices) running(ctx context.Context, c *Call, name string) (bool, error) {
	if err := s.noticeChanges(ctx, c, name); err != nil {
		return false, err
	}
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, systemctl(c, systemctlOptions{}, name, "is-active")...)
	return err == nil && !r.failed(), err
}

func (s systemdServices) unitFiles(root string) []string {
	var out []string
	for _, dir := range []string{"/lib/systemd/system", "/usr/lib/systemd/system", "/etc/systemd/system"} {
		if isSymlink(root + dir) {
			continue
		}
		files, err := os.ReadDir(root + dir)
		if err != nil {
			continue
		}
		for _, f := range files {
			if name := shortUnit(f.Name()); name != "" {
				out = append(out, name)
			}
		}
	}
	return sortedSet(out)
}

// scripts are those in /etc/init.d that no unit stands for.
func (s systemdServices) scripts(root string, units []string) []string {
	var out []string
	for _, name := range executables(root + "/etc/init.d") {
		if !hasString(units, name) {
			out = append(out, name)
		}
	}
	return out
}

func (s systemdServices) all(context.Context, *Call) ([]string, error) { return s.allUnder(""), nil }

func (s systemdServices) allUnder(root string) []string {
	units := s.unitFiles(root)
	return sortedSet(units, s.scripts(root, units))
}

func (s systemdServices) getAll(_ context.Context, _ *Call, a rootArgs) (any, error) {
	return Strings(s.allUnder(rootOf(a.Root))), nil
}

func scriptEnabled(root, name string) bool {
	links, _ := filepath.Glob(root + "/etc/rc[2345].d/S[0-9][0-9]" + globQuote(name))
	return len(links) > 0
}

func (s systemdServices) byState(state string) func(context.Context, *Call, rootArgs) (any, error) {
	return func(ctx context.Context, c *Call, a rootArgs) (any, error) {
		r, err := runSaltTool(ctx, c, toolOptions{merge: true, ignore: true},
			systemctl(c, systemctlOptions{root: a.Root}, "", "--full", "--no-legend", "--no-pager", "list-unit-files")...)
		if err != nil {
			return nil, err
		}
		names := parseUnitFiles(r.stdout, state)
		if state != "static" {
			root := rootOf(a.Root)
			for _, name := range s.scripts(root, s.unitFiles(root)) {
				if scriptEnabled(root, name) == (state == "enabled") {
					names = append(names, name)
				}
			}
		}
		return Strings(sortedSet(names)), nil
	}
}

// parseUnitFiles picks the units of one state out of `systemctl list-unit-files`.
func parseUnitFiles(text, state string) []string {
	var out []string
	for _, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) < 2 || f[1] != state {
			continue
		}
		if name := shortUnit(f[0]); name != "" {
			out = append(out, name)
		}
	}
	return out
}

func (s systemdServices) getRunning(ctx context.Context, c *Call, _ noArgs) (any, error) {
	r, err := runSaltTool(ctx, c, toolOptions{merge: true, ignore: true}, systemctl(c, systemctlOptions{}, "", "--full", "--no-legend", "--no-pager")...)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, line := range strings.Split(r.stdout, "\n") {
		f := strings.Fields(strings.TrimLeft(line, " ●*"))
		if len(f) > 3 && f[3] == "running" {
			if name := shortUnit(f[0]); name != "" {
				out = append(out, name)
			}
		}
	}
	return Strings(sortedSet(out)), nil
}

func (s systemdServices) available(ctx context.Context, c *Call, a nameArgs) (any, error) {
	if err := s.noticeChanges(ctx, c, a.Name); err != nil {
		return nil, err
	}
	return s.known(ctx, c, a.Name)
}

func (s systemdServices) missing(ctx context.Context, c *Call, a nameArgs) (any, error) {
	there, err := s.available(ctx, c, a)
	return there == false, err
}

func (s systemdServices) isEnabled(ctx context.Context, c *Call, name string) (bool, error) {
	return s.enabledUnder(ctx, c, name, nil)
}

func (s systemdServices) enabledUnder(ctx context.Context, c *Call, name string, root any) (bool, error) {
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, systemctl(c, systemctlOptions{root: root}, name, "is-enabled")...)
	if err != nil || !r.failed() {
		return err == nil, err
	}
	dir := rootOf(root)
	if strings.Contains(name, "@") {
		found := false
		_ = filepath.WalkDir("/etc/systemd/system", func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type()&os.ModeSymlink != 0 && d.Name() == name {
				found = true
				return filepath.SkipAll
			}
			return nil
		})
		return found, nil
	}
	if hasString(s.scripts(dir, s.unitFiles(dir)), name) {
		return scriptEnabled(dir, name), nil
	}
	return false, nil
}

type systemdEnabledArgs struct {
	Name   string
	Root   any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}

func (s systemdServices) enabled(ctx context.Context, c *Call, a systemdEnabledArgs) (any, error) {
	return s.enabledUnder(ctx, c, a.Name, a.Root)
}

func (s systemdServices) disabled(ctx context.Context, c *Call, a userRootArgs) (any, error) {
	on, err := s.enabledUnder(ctx, c, a.Name, a.Root)
	return !on, err
}

type systemdEnableArgs struct {
	Name          string
	NoBlock       bool `def:"False"`
	Unmask        bool `def:"False"`
	UnmaskRuntime bool `def:"False"`
	Root          any  `def:"None"`
	Kwargs        *Map `arg:"**kwargs"`
}

// initTool enables scripts that have no unit.
func (s systemdServices) initTool(ctx context.Context, c *Call, name string, on bool) (bool, error) {
	var cmd []string
	switch {
	case which("update-rc.d") != "" && on:
		cmd = []string{"update-rc.d", "-f", name, "defaults", "99"}
	case which("update-rc.d") != "":
		cmd = []string{"update-rc.d", "-f", name, "remove"}
	case which("chkconfig") != "" && on:
		cmd = []string{"chkconfig", name, "on"}
	case which("chkconfig") != "":
		cmd = []string{"chkconfig", name, "off"}
	default:
		return false, ExecErrorf("Unable to find sysv service manager (tried update-rc.d, chkconfig)")
	}
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, cmd...)
	return err == nil && !r.failed(), err
}

func (s systemdServices) enable(ctx context.Context, c *Call, a systemdEnableArgs) (any, error) {
	if err := s.noticeChanges(ctx, c, a.Name); err != nil {
		return nil, err
	}
	for _, m := range []struct{ on, runtime bool }{{a.Unmask, false}, {a.UnmaskRuntime, true}} {
		if m.on {
			if _, err := s.unmask(ctx, c, systemdMaskArgs{Name: a.Name, Runtime: m.runtime, Root: a.Root}); err != nil {
				return nil, err
			}
		}
	}
	root := rootOf(a.Root)
	if hasString(s.scripts(root, s.unitFiles(root)), a.Name) {
		return s.initTool(ctx, c, a.Name, true)
	}
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, systemctl(c, systemctlOptions{scope: true, noBlock: a.NoBlock, root: a.Root}, a.Name, "enable")...)
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return nil, ExecErrorf("%s", stripScope(r.stderr))
	}
	return true, nil
}

type systemdDisableArgs struct {
	Name    string
	NoBlock bool `def:"False"`
	Root    any  `def:"None"`
	Kwargs  *Map `arg:"**kwargs"`
}

func (s systemdServices) disable(ctx context.Context, c *Call, a systemdDisableArgs) (any, error) {
	if err := s.noticeChanges(ctx, c, a.Name); err != nil {
		return nil, err
	}
	root := rootOf(a.Root)
	if hasString(s.scripts(root, s.unitFiles(root)), a.Name) {
		return s.initTool(ctx, c, a.Name, false)
	}
	r, err := runSaltTool(ctx, c, toolOptions{ignore: true}, systemctl(c, systemctlOptions{scope: true, noBlock: a.NoBlock, root: a.Root}, a.Name, "disable")...)
	return err == nil && !r.failed(), err
}

func (s systemdServices) setEnabled(ctx context.Context, c *Call, name string, on bool, _ *Map) (bool, error) {
	var v any
	var err error
	if on {
		v, err = s.enable(ctx, c, systemdEnableArgs{Name: name})
	} else {
		v, err = s.disable(ctx, c, systemdDisableArgs{Name: name})
	}
	return v == true, err
}

type systemdMaskArgs struct {
	Name    string
	Runtime bool `def:"False"`
	Root    any  `def:"None"`
}

func (s systemdServices) mask(ctx context.Context, c *Call, a systemdMaskArgs) (any, error) {
	if err := s.noticeChanges(ctx, c, a.Name); err != nil {
		return nil, err
	}
	return s.changeMask(ctx, c, a, "mask")
}

func (s systemdServices) changeMask(ctx context.Context, c *Call, a systemdMaskArgs, action string) (any, error) {
	cmd := []string{action}
	if a.Runtime {
		cmd = append(cmd, "--runtime")
	}
	r, err := runSaltTool(ctx, c, toolOptions{merge: true}, systemctl(c, systemctlOptions{scope: true, root: a.Root}, a.Name, cmd...)...)
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return nil, ExecErrorf("Failed to %s service '%s': %s", action, a.Name, r.stdout)
	}
	return true, nil
}

func (s systemdServices) unmask(ctx context.Context, c *Call, a systemdMaskArgs) (any, error) {
	if on, err := s.masked(ctx, c, a); err != nil || on == false {
		return true, err
	}
	return s.changeMask(ctx, c, a, "unmask")
}

func (s systemdServices) masked(ctx context.Context, c *Call, a systemdMaskArgs) (any, error) {
	if err := s.noticeChanges(ctx, c, a.Name); err != nil {
		return nil, err
	}
	dir := "/etc"
	if a.Runtime {
		dir = "/run"
	}
	target, err := os.Readlink(rootOf(a.Root) + dir + "/systemd/system/" + unitName(a.Name))
	return err == nil && target == "/dev/null", nil
}

func (s systemdServices) show(ctx context.Context, c *Call, a userRootArgs) (any, error) {
	text, err := runText(ctx, c, systemctl(c, systemctlOptions{root: a.Root}, a.Name, "show")...)
	if err != nil {
		return nil, err
	}
	return parseUnitShow(text), nil
}

// parseUnitShow reads the properties that systemctl show prints.
func parseUnitShow(text string) *Map {
	out := &Map{}
	for _, line := range strings.Split(text, "\n") {
		name, value, _ := strings.Cut(line, "=")
		switch {
		case strings.HasPrefix(value, "{"):
			parts := &Map{}
			for _, item := range strings.Split(strings.NewReplacer("{", "", "}", "").Replace(value), " ; ") {
				if k, v, ok := strings.Cut(item, "="); ok {
					v, _, _ = strings.Cut(v, "=")
					parts.Set(strings.TrimSpace(k), strings.TrimSpace(v))
				}
			}
			out.Set(name, parts)
		case name == "Before" || name == "After" || name == "Wants":
			out.Set(name, Strings(pyFields(value)))
		default:
			out.Set(name, value)
		}
	}
	return out
}

func (s systemdServices) execs(ctx context.Context, c *Call, a rootArgs) (any, error) {
	out := &Map{}
	for _, name := range s.allUnder(rootOf(a.Root)) {
		v, err := s.show(ctx, c, userRootArgs{Name: name, Root: a.Root})
		if err != nil {
			return nil, err
		}
		if exec := v.(*Map).Map("ExecStart"); exec != nil {
			out.Set(name, exec.Value("path"))
		}
	}
	return out, nil
}

type systemdFirstbootArgs struct {
	Locale        any `def:"None"`
	LocaleMessage any `def:"None"`
	Keymap        any `def:"None"`
	Timezone      any `def:"None"`
	Hostname      any `def:"None"`
	MachineID     any `def:"None"`
	Root          any `def:"None"`
}

func (s systemdServices) firstboot(ctx context.Context, c *Call, a systemdFirstbootArgs) (any, error) {
	cmd := []string{"systemd-firstboot"}
	for _, p := range []struct {
		name  string
		value any
	}{{"locale", a.Locale}, {"locale-message", a.LocaleMessage}, {"keymap", a.Keymap}, {"timezone", a.Timezone}, {"hostname", a.Hostname}, {"machine-ID", a.MachineID}, {"root", a.Root}} {
		if Truth(p.value) {
			cmd = append(cmd, "--"+p.name, Str(p.value))
		}
	}
	r, err := runSaltTool(ctx, c, toolOptions{}, cmd...)
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return nil, ExecErrorf("systemd-firstboot error: %s", r.stderr)
	}
	return true, nil
}
