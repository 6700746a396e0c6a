// Module cmd: the functions, each a thin layer over runCommand.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func cmdRun(ctx context.Context, c *Call, a cmdRunArgs) (any, error) {
	return runAndShow(ctx, c, fillRequest(a))
}

// runAndShow is cmd.run: the output, with the failure in the log.
func runAndShow(ctx context.Context, c *Call, req cmdRequest) (any, error) {
	req.PythonShell = useShell(c, req.PythonShell)
	ret, err := runCommand(ctx, c, req)
	if err != nil {
		return nil, err
	}
	if level, logged := outputLevel(c, req.OutputLoglevel); logged {
		if !req.IgnoreRetcode && ret.failed() {
			level = max(level, slog.LevelError)
			name, err := logName(req.Cmd)
			if err != nil {
				return nil, err
			}
			c.Log.Error(fmt.Sprintf("Command '%s' failed with return code: %s", name, Str(ret.retcode)))
			if req.RaiseErr {
				if req.HideOutput {
					return nil, ExecErrorf("")
				}
				return nil, ExecErrorf("%s", ret.stdout)
			}
		}
		c.Log.Log(ctx, level, "output: "+ret.stdout)
	}
	if req.HideOutput {
		return "", nil
	}
	return ret.stdout, nil
}

func cmdShell(ctx context.Context, c *Call, a cmdShellArgs) (any, error) {
	req := fillRequest(a)
	req.RedirectStderr = true
	req.PythonShell = a.Kwargs.Value("python_shell")
	if req.PythonShell == nil {
		req.PythonShell = true
	}
	return runAndShow(ctx, c, req)
}

func cmdRunStdout(ctx context.Context, c *Call, a cmdStreamArgs) (any, error) {
	ret, err := runStream(ctx, c, fillRequest(a))
	return ret.stdout, err
}

func cmdRunStderr(ctx context.Context, c *Call, a cmdStreamArgs) (any, error) {
	ret, err := runStream(ctx, c, fillRequest(a))
	return ret.stderr, err
}

// runStream runs a request with the two outputs apart.
func runStream(ctx context.Context, c *Call, req cmdRequest) (cmdResult, error) {
	req.PythonShell = useShell(c, req.PythonShell)
	ret, err := runCommand(ctx, c, req)
	if req.HideOutput {
		ret.stdout, ret.stderr = "", ""
	}
	return ret, err
}

func cmdRunAll(ctx context.Context, c *Call, a cmdRunAllArgs) (any, error) {
	ret, err := runStream(ctx, c, fillRequest(a))
	if err != nil {
		return nil, err
	}
	return ret.asMap(), nil
}

func cmdRetcode(ctx context.Context, c *Call, a cmdRetcodeArgs) (any, error) {
	req := fillRequest(a)
	req.RedirectStderr = true
	ret, err := runStream(ctx, c, req)
	return ret.retcode, err
}

func cmdRunBg(ctx context.Context, c *Call, a cmdRunBgArgs) (any, error) {
	req := fillRequest(a)
	req.Bg, req.noCommunicate, req.Rstrip = true, true, false
	ret, err := runStream(ctx, c, req)
	if err != nil {
		return nil, err
	}
	return NewMap("pid", int64(ret.pid)), nil
}

func cmdRunChroot(ctx context.Context, c *Call, a cmdRunChrootArgs) (any, error) {
	if root := filepath.Clean(a.Root); root == "/" || !filepath.IsAbs(root) {
		return nil, InvocationErrorf("cmd.run_chroot: root must be an absolute path other than /, not %s", Repr(a.Root))
	}
	mount := func(args ...any) error {
		_, err := c.RunKw(ctx, "mount.mount", args[:2], args[2].(*Map))
		return err
	}
	for _, m := range [][2]string{{"dev", "devtmpfs"}, {"proc", "proc"}, {"sys", "sysfs"}} {
		device := m[1]
		if m[0] == "proc" {
			device = "proc"
		}
		if err := mount(filepath.Join(a.Root, m[0]), device, NewMap("fstype", m[1])); err != nil {
			return nil, err
		}
	}
	binds := toStrings(a.Binds)
	for _, b := range binds {
		if err := mount(filepath.Join(a.Root, b), b, NewMap("opts", "default,bind")); err != nil {
			return nil, err
		}
	}
	sh := "/bin/sh"
	if st, err := os.Stat(filepath.Join(a.Root, "bin/bash")); err == nil && st.Mode().IsRegular() {
		sh = "/bin/bash"
	}
	text := Str(a.Cmd)
	if l, ok := a.Cmd.(*List); ok {
		words := make([]string, l.Len())
		for i, w := range l.Items {
			words[i] = Str(w)
		}
		text = strings.Join(words, " ")
	}
	userspec := ""
	if Truth(a.Runas) {
		userspec = "--userspec " + quoteShell(Str(a.Runas)+":"+Str(orEmpty(a.Group)))
	}
	req := fillRequest(a)
	req.Runas, req.Group = nil, nil
	req.Cmd = fmt.Sprintf("chroot %s %s %s -c %s", userspec, quoteShell(a.Root), sh, quoteShell(text))
	ret, err := runStream(ctx, c, req)
	for i := 0; i < 6; i++ {
		pids := chrootPids(a.Root)
		if len(pids) == 0 {
			break
		}
		sig := syscall.SIGTERM
		if i >= 3 {
			sig = syscall.SIGKILL
		}
		killAll(pids, sig)
	}
	if len(chrootPids(a.Root)) > 0 {
		c.Log.Error("Processes running in chroot could not be killed, filesystem will remain mounted")
	}
	for _, b := range append(binds, "sys", "proc", "dev") {
		if _, uerr := c.Run(ctx, "mount.umount", filepath.Join(a.Root, b)); uerr != nil && err == nil {
			err = uerr
		}
	}
	if err != nil {
		return nil, err
	}
	return ret.asMap(), nil
}

func orEmpty(v any) any {
	if v == nil {
		return ""
	}
	return v
}

// chrootPids lists the processes whose root lies in root. Every process has its
// root in "/", so that is never what is meant.
func chrootPids(root string) []int {
	root = filepath.Clean(root)
	if root == "/" || !filepath.IsAbs(root) {
		return nil
	}
	var pids []int
	links, _ := filepath.Glob("/proc/[0-9]*/root")
	for _, link := range links {
		at, err := os.Readlink(link)
		if err != nil || at != root && !strings.HasPrefix(at, root+"/") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil && pid > 1 && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func cmdScript(ctx context.Context, c *Call, a cmdScriptArgs) (any, error) {
	return runScript(ctx, c, fillRequest(a), a.Source, a.Args)
}

func cmdScriptRetcode(ctx context.Context, c *Call, a cmdScriptRetcodeArgs) (any, error) {
	ret, err := runScript(ctx, c, fillRequest(a), a.Source, a.Args)
	if err != nil {
		return nil, err
	}
	code, ok := ret.Get("retcode")
	if !ok {
		return nil, OtherErrorf("KeyError", "'retcode'")
	}
	return code, nil
}

// runScript fetches, runs and removes a script. What goes wrong while it runs
// is logged and the answer is empty, as in Salt.
func runScript(ctx context.Context, c *Call, req cmdRequest, source string, args any) (*Map, error) {
	if req.Saltenv == nil {
		if req.Saltenv = c.Opts.Value("saltenv"); req.Saltenv == nil {
			req.Saltenv = "base"
		}
	}
	req.PythonShell = useShell(c, req.PythonShell)
	dir := os.TempDir()
	if Truth(req.Cwd) {
		dir = Str(req.Cwd)
	}
	path, _, _ := strings.Cut(source, "?saltenv=")
	file, err := os.CreateTemp(dir, "__salt.tmp.*"+filepath.Ext(path))
	if err != nil {
		return nil, OtherErrorf("FileNotFoundError", "%s", osErrorText(err))
	}
	name := file.Name()
	file.Close()
	remove := func() {
		if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
			c.Log.Error(fmt.Sprintf("cmd.script: Unable to clean tempfile '%s': %s", name, err))
		}
	}
	fetched, err := fetchScript(ctx, c, req, source, name)
	if err != nil || !fetched {
		remove()
		if err != nil {
			return nil, err
		}
		return NewMap("pid", int64(0), "retcode", int64(1), "stdout", "", "stderr", "", "cache_error", true), nil
	}
	if err := os.Chmod(name, 0o500); err != nil {
		remove()
		return nil, OtherErrorf("OSError", "%s", osErrorText(err))
	}
	if Truth(req.Runas) {
		u, ok := userByName(Str(req.Runas))
		if !ok {
			remove()
			return nil, OtherErrorf("TypeError", "an integer is required: there is no user %s", Str(req.Runas))
		}
		if err := os.Chown(name, u.uid, -1); err != nil {
			remove()
			return nil, OtherErrorf("PermissionError", "%s", osErrorText(err))
		}
	}
	if Truth(args) {
		req.PythonShell = false
	}
	words := []any{name}
	switch args := args.(type) {
	case string:
		parts, err := splitShell(args)
		if err != nil {
			remove()
			return nil, err
		}
		for _, w := range parts {
			words = append(words, w)
		}
	case *List:
		words = append(words, args.Items...)
	case nil:
	default:
		remove()
		return nil, TypeErrorf("Value after * must be an iterable, not %s", TypeName(args))
	}
	if req.Bg {
		// A shell removes the file when the script has ended.
		words = append([]any{"/bin/sh", "-c", `script=$1; shift; trap 'rm -f -- "$script"' EXIT; "$script" "$@"`, "sh"}, words...)
	} else {
		defer remove()
	}
	hide := req.HideOutput
	req.HideOutput, req.Template, req.Cmd, req.Rstrip = false, nil, NewList(words...), true
	ret, err := runCommand(ctx, c, req)
	out := ret.asMap()
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		if k := asModuleError(err).Kind; k != ErrExecution && k != ErrInvocation {
			return nil, err
		}
		c.Log.Error(fmt.Sprintf("cmd.script: Unable to run script '%s': %s", Repr(req.Cmd), err))
		if req.Bg {
			remove()
		}
		out = &Map{}
	}
	if hide {
		out.Set("stdout", "")
		out.Set("stderr", "")
	}
	return out, nil
}

// fetchScript brings a script to a local file, rendered if a template engine is
// named. false: there is no such file.
func fetchScript(ctx context.Context, c *Call, req cmdRequest, source, name string) (bool, error) {
	if Truth(req.Template) {
		kwargs := &Map{}
		for k, v := range req.Kwargs.All() {
			if !strings.HasPrefix(Str(k), "__pub_") {
				kwargs.Set(k, v)
			}
		}
		got, err := c.RunKw(ctx, "cp.get_template", []any{source, name, req.Template, req.Saltenv}, kwargs)
		return Truth(got), err
	}
	got, err := c.Run(ctx, "cp.cache_file", source, req.Saltenv)
	if err != nil {
		return false, err
	}
	if !Truth(got) {
		return false, nil
	}
	data, err := os.ReadFile(Str(got))
	if err != nil {
		return false, nil
	}
	return true, os.WriteFile(name, data, 0o600)
}

func cmdExecCode(ctx context.Context, c *Call, a cmdExecCodeArgs) (any, error) {
	ret, err := execCode(ctx, c, a)
	if err != nil {
		return nil, err
	}
	return ret.Value("stdout"), nil
}

func cmdExecCodeAll(ctx context.Context, c *Call, a cmdExecCodeArgs) (any, error) {
	ret, err := execCode(ctx, c, a)
	if err != nil {
		return nil, err
	}
	return ret, nil
}

// execCode writes code to a file and runs it. Further keywords are those of
// cmd.run_all.
func execCode(ctx context.Context, c *Call, a cmdExecCodeArgs) (*Map, error) {
	file, err := os.CreateTemp("", "__salt.tmp.*")
	if err != nil {
		return nil, OtherErrorf("OSError", "%s", osErrorText(err))
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(a.Code)
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, OtherErrorf("OSError", "%s", osErrorText(err))
	}
	words := []any{a.Lang, file.Name()}
	switch args := a.Args.(type) {
	case string:
		words = append(words, args)
	case *List:
		words = append(words, args.Items...)
	}
	if runas := a.Kwargs.Value("runas"); runas != nil {
		if u, ok := userByName(Str(runas)); ok {
			if err := os.Chown(file.Name(), u.uid, -1); err != nil {
				return nil, OtherErrorf("PermissionError", "%s", osErrorText(err))
			}
		}
	}
	kwargs := NewMap("cwd", a.Cwd, "python_shell", false)
	for k, v := range a.Kwargs.All() {
		if kwargs.Has(k) {
			return nil, TypeErrorf("halite.run_all() got multiple values for keyword argument '%s'", Str(k))
		}
		kwargs.Set(k, v)
	}
	// Not RunKw: a person's code is checked as a person's command is.
	ret, err := c.invoke(ctx, "cmd.run_all", []any{NewList(words...)}, kwargs)
	m, _ := ret.(*Map)
	return m, err
}

type cmdNameArgs struct{ Cmd any }

func cmdWhich(_ context.Context, _ *Call, a cmdNameArgs) (any, error) {
	return orNone(which(Str(a.Cmd))), nil
}

func cmdHasExec(_ context.Context, _ *Call, a cmdNameArgs) (any, error) {
	return which(Str(a.Cmd)) != "", nil
}

type cmdNamesArgs struct{ Cmds any }

func cmdWhichBin(_ context.Context, _ *Call, a cmdNamesArgs) (any, error) {
	for _, name := range toItems(a.Cmds) {
		if path := which(Str(name)); path != "" {
			return path, nil
		}
	}
	return nil, nil
}

// orNone turns an empty text into None.
func orNone(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func cmdShells(context.Context, *Call, noArgs) (any, error) {
	shells := &List{}
	_ = scanLines("/etc/shells", func(line string) bool {
		if line = pyStrip(line); line != "" && line[0] != '#' {
			shells.Append(line)
		}
		return true
	})
	return shells, nil
}

type cmdTTYArgs struct {
	Device string
	Echo   string `def:"''"`
}

func cmdTTY(_ context.Context, _ *Call, a cmdTTYArgs) (any, error) {
	var device string
	switch {
	case strings.HasPrefix(a.Device, "tty"):
		device = "/dev/" + a.Device
	case strings.HasPrefix(a.Device, "pts"):
		device = "/dev/" + strings.ReplaceAll(a.Device, "pts", "pts/")
	default:
		return NewMap("Error", "The specified device is not a valid TTY"), nil
	}
	if strings.Contains(a.Device, "..") {
		return NewMap("Error", "The specified device is not a valid TTY"), nil
	}
	file, err := os.OpenFile(device, os.O_WRONLY|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err == nil {
		_, err = file.WriteString(a.Echo)
		file.Close()
	}
	if err != nil {
		return NewMap("Error", fmt.Sprintf("Echoing to %s returned error", device)), nil
	}
	return NewMap("Success", fmt.Sprintf("Message was successfully echoed to %s", device)), nil
}

type cmdShellInfoArgs struct {
	Shell       string
	ListModules bool `def:"False"`
}

// shellProbe is how the version of an interpreter is asked for.
type shellProbe struct {
	pattern string
	args    []string
}

func shellProbes() map[string]shellProbe {
	return map[string]shellProbe{
		"bash":       {`version (\d\S*)`, []string{"bash", "--version"}},
		"zsh":        {`(?m)\Azsh (\d\S*)`, []string{"zsh", "--version"}},
		"tcsh":       {`\Atcsh (\d\S*)`, []string{"tcsh", "--version"}},
		"perl":       {`\A(\d\S*)`, []string{"perl", "-e", `printf "%vd\n", $^V;`}},
		"python":     {`\APython (\d\S*)`, []string{"python", "-V"}},
		"ruby":       {`\Aruby (\d\S*)`, []string{"ruby", "-v"}},
		"php":        {`\APHP (\d\S*)`, []string{"php", "-v"}},
		"cmd":        {`Version ([\d.]+)`, []string{"cmd.exe", "/C", "ver"}},
		"powershell": {`PSVersion\s+(\d\S*)`, []string{"powershell", "-NonInteractive", "$PSVersionTable"}},
	}
}

func cmdShellInfo(ctx context.Context, c *Call, a cmdShellInfoArgs) (any, error) {
	probe, ok := shellProbes()[a.Shell]
	if !ok {
		return NewMap("error", "Salt does not know how to get the version number for "+a.Shell, "installed", nil), nil
	}
	res, err := runProgram(ctx, program{args: probe.args, umask: -1, empty: true, merge: true, timeout: 10 * time.Second})
	line := strings.Join(probe.args, " ")
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return NewMap("error", fmt.Sprintf("Unable to run command '%s' Reason: %s", line, err), "installed", false), nil
	}
	if res.timedOut {
		return NewMap("error", fmt.Sprintf("Unable to run command '%s' Reason: Timed out.", line), "installed", false), nil
	}
	ret := NewMap("installed", nil, "path", orNone(which(probe.args[0])))
	if m := regexp.MustCompile("(?i)" + probe.pattern).FindSubmatch(res.stdout); m != nil {
		raw := string(m[1])
		ret.Set("version_raw", raw)
		digits := raw[:len(raw)-len(strings.TrimLeft(raw, "0123456789."))]
		if digits != "" && digits[0] != '.' {
			parts := strings.Split(digits, ".")
			if len(parts) == 1 {
				parts = append(parts, "0")
			}
			ret.Set("installed", true)
			ret.Set("version", strings.Join(parts[:min(3, len(parts))], "."))
		}
	}
	if !ret.Has("version") {
		text := fmt.Sprintf("The version regex pattern for shell %s, could not find the version string", a.Shell)
		ret.Set("error", text)
		ret.Set("stdout", string(res.stdout))
		c.Log.Error(text)
	}
	return ret, nil
}

type cmdPowershellArgs struct {
	Cmd    any
	Args   []any `arg:"*args"`
	Kwargs *Map  `arg:"**kwargs"`
}

func cmdPowershell(_ context.Context, _ *Call, _ cmdPowershellArgs) (any, error) {
	if which("pwsh") == "" && which("powershell") == "" {
		return nil, NotFoundErrorf("powershell is not installed on this system")
	}
	return nil, ExecErrorf("PowerShell is not supported by this minion: run it with cmd.run and shell=pwsh")
}
