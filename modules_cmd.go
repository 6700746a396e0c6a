// Module cmd: running commands.
//
// The law of this room: a command that a person typed (Call.Direct) goes
// through a shell unless python_shell says otherwise and is checked against
// cmd_blacklist_glob and cmd_whitelist_glob; one that another module or a
// template runs is split into words and started as it is. All functions end in
// runCommand; what differs is which part of its result they return.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func cmdModule() Module {
	return Module{
		Doc: "Run commands and scripts. Who may call this module can do everything on the box.",
		Funcs: Funcs{
			"run":            {run: cmdRun, doc: cmdRunDoc},
			"shell":          {run: cmdShell, doc: "Run a command in a shell, whoever calls, and return its output. Arguments are those of cmd.run."},
			"run_stdout":     {run: cmdRunStdout, doc: "Run a command and return what it wrote to standard output. Arguments are those of cmd.run."},
			"run_stderr":     {run: cmdRunStderr, doc: "Run a command and return what it wrote to standard error. Arguments are those of cmd.run."},
			"run_all":        {run: cmdRunAll, doc: "Run a command and return a mapping of pid, retcode, stdout and stderr. Arguments are those of cmd.run;\nredirect_stderr puts both outputs into stdout."},
			"retcode":        {run: cmdRetcode, doc: "Run a command and return its exit code, negative if a signal ended it."},
			"run_bg":         {run: cmdRunBg, doc: "Start a command in the background, where it outlives the job, and return its pid."},
			"run_chroot":     {run: cmdRunChroot, doc: "Run a command in a chroot with dev, proc and sys mounted for its time, and binds besides.\nProcesses that it leaves behind are ended."},
			"script":         {run: cmdScript, doc: cmdScriptDoc},
			"script_retcode": {run: cmdScriptRetcode, doc: "Run a script as cmd.script does and return its exit code."},
			"exec_code":      {run: cmdExecCode, doc: "Write code to a file, run it with the interpreter lang and return its standard output.\n\nCLI Example:\n\n    salt '*' cmd.exec_code python3 'print(1)'"},
			"exec_code_all":  {run: cmdExecCodeAll, doc: "As cmd.exec_code, but return all that cmd.run_all returns."},
			"which":          {run: cmdWhich, doc: "Return the path of an executable, or None."},
			"which_bin":      {run: cmdWhichBin, doc: "Return the path of the first executable of a list that is installed, or None."},
			"has_exec":       {run: cmdHasExec, doc: "Say whether an executable is installed."},
			"shells":         {run: cmdShells, doc: "List the shells of /etc/shells."},
			"shell_info":     {run: cmdShellInfo, doc: "Tell path and version of a shell or of an interpreter: bash, zsh, tcsh, perl, python, ruby, php."},
			"tty":            {run: cmdTTY, doc: "Write a line to a terminal: tty0, pts3."},
			"powershell":     {run: cmdPowershell, doc: "Run a PowerShell command; refused where there is no PowerShell."},
			"powershell_all": {run: cmdPowershell, doc: "Run a PowerShell command; refused where there is no PowerShell."},
		},
	}
}

const cmdRunDoc = `Run a command and return its output, standard error included.

cmd             the command line, or a list of words
cwd             directory to run in; the home directory if not given
stdin           text for its standard input; \n becomes a line break
runas, group    user and group to run as, with the environment of that user
shell           shell to use
python_shell    True: through the shell; False: split into words and started
                directly. Default: through the shell if typed on a command line
env             more environment variables, as a mapping or a list of mappings
clean_env       no other variables than those of env
prepend_path    directories put before PATH
template        render cmd and cwd by this engine first, e.g. jinja
rstrip          cut white space at the end of the output
umask           octal file mode mask
output_encoding encoding of the output
output_loglevel level at which output is logged; quiet: not at all
hide_output     do not return output
timeout         seconds after which the command and all its children are killed
reset_system_locale  run in the C locale
ignore_retcode  a failure is not the failure of the job
use_vt          show output while the command runs
redirect_stderr put standard error into the result
bg              do not wait for the command
raise_err       a failure is an error
success_retcodes, success_stdout, success_stderr
                exit codes and texts of the output that mean success

CLI Example:

    salt '*' cmd.run 'ls -l | wc -l'
    salt '*' cmd.run 'grep f' stdin='one\ntwo\nfive\n'`

const cmdScriptDoc = `Fetch a script from the file server (or a URL) and run it with arguments.

Returns pid, retcode, stdout and stderr; cache_error if the script could not
be fetched. template renders it first. Other arguments are those of cmd.run.

CLI Example:

    salt '*' cmd.script salt://scripts/run.sh 'one two'`

// cmdRequest holds every argument that runCommand knows, by the names that the
// argument structs of the functions use. fillRequest copies them over.
type cmdRequest struct {
	Cmd, Cwd, Stdin, Runas, Group, Shell, PythonShell, Env any
	CleanEnv                                               bool
	PrependPath, Template                                  any
	Rstrip                                                 bool
	Umask, OutputEncoding                                  any
	OutputLoglevel, LogCallback                            any
	HideOutput                                             bool
	Timeout, ResetSystemLocale                             any
	IgnoreRetcode                                          bool
	Saltenv                                                any
	UseVt, RedirectStderr, Bg                              bool
	EncodedCmd, RaiseErr                                   bool
	SuccessRetcodes, SuccessStdout, SuccessStderr          any
	Kwargs                                                 *Map

	noCommunicate bool // output is not read: run_bg
}

// fillRequest copies the fields of an argument struct into a request.
func fillRequest(args any) cmdRequest {
	req := cmdRequest{Rstrip: true, ResetSystemLocale: true, OutputLoglevel: "debug"}
	to, from := reflect.ValueOf(&req).Elem(), reflect.ValueOf(args)
	for _, field := range reflect.VisibleFields(from.Type()) {
		if f := to.FieldByName(field.Name); f.IsValid() && f.CanSet() {
			f.Set(from.FieldByIndex(field.Index))
		}
	}
	return req
}

// cmdResult is what a command left.
type cmdResult struct {
	pid            int
	retcode        any // int64, or nil for what runs in the background
	stdout, stderr string
}

func (r cmdResult) asMap() *Map {
	return NewMap("pid", int64(r.pid), "retcode", r.retcode, "stdout", r.stdout, "stderr", r.stderr)
}

func (r cmdResult) failed() bool { return !Equal(r.retcode, int64(0)) }

// useShell is python_shell with its default: a person's command uses a shell.
func useShell(c *Call, v any) any {
	if v != nil {
		return v
	}
	if c.Direct || (c.Opts.Has("cmd_safe") && c.Opts.Value("cmd_safe") == false) {
		return true
	}
	return nil
}

// logName is the word by which log lines name a command.
func logName(cmd any) (string, error) {
	var first string
	switch cmd := cmd.(type) {
	case *List:
		if cmd.Len() == 0 {
			return "", OtherErrorf("IndexError", "list index out of range")
		}
		first = Str(cmd.Items[0])
	default:
		words := pyFields(Str(cmd))
		if len(words) == 0 {
			return "", OtherErrorf("IndexError", "list index out of range")
		}
		first = words[0]
	}
	return pyStrip(first), nil
}

// outputLevel reads output_loglevel; ok is false for quiet.
func outputLevel(c *Call, v any) (level slog.Level, ok bool) {
	name, isText := v.(string)
	name = strings.ToLower(name)
	if isText && name == "quiet" {
		return 0, false
	}
	if isText {
		if level, ok := ParseLogLevel(name); ok {
			return level, true
		}
	}
	c.Log.Error(fmt.Sprintf("output_loglevel %s is no log level, info is used", Repr(v)))
	return slog.LevelInfo, true
}

// commandAllowed checks a person's command against the lists of the minion.
func commandAllowed(c *Call, cmd any) bool {
	text := Str(cmd)
	if l, ok := cmd.(*List); ok {
		words := make([]string, l.Len())
		for i, w := range l.Items {
			words[i] = Str(w)
		}
		text = strings.Join(words, " ")
	}
	globs := func(option string) []string {
		v, _ := configLookup(c, option)
		var out []string
		for _, item := range toItems(v) {
			out = append(out, Str(item))
		}
		return out
	}
	for _, glob := range globs("cmd_blacklist_glob") {
		if GlobMatch(glob, text) {
			return false
		}
	}
	white := globs("cmd_whitelist_glob")
	for _, glob := range white {
		if GlobMatch(glob, text) {
			return true
		}
	}
	return len(white) == 0
}

// runCommand is what all functions of this module do in the end.
func runCommand(ctx context.Context, c *Call, req cmdRequest) (cmdResult, error) {
	var none cmdResult
	shell := ""
	if req.Shell != nil {
		shell = Str(req.Shell)
	}
	level, logged := outputLevel(c, req.OutputLoglevel)
	if logged && shellListed(shell) == no {
		c.Log.Warn(fmt.Sprintf("the shell %s is not listed in /etc/shells", shell))
	}
	if req.LogCallback != nil {
		c.Log.Error("log_callback is not callable, ignoring")
	}
	runas, group := "", ""
	if req.Runas == nil {
		req.Runas, _ = c.ContextGet("runas")
	}
	if Truth(req.Runas) {
		runas = Str(req.Runas)
	}
	if Truth(req.Group) {
		group = Str(req.Group)
	}
	cwd := Str(req.Cwd)
	if !Truth(req.Cwd) {
		cwd = homeOf(runas)
		if st, err := os.Stat(cwd); err != nil || !st.IsDir() {
			cwd = "/"
		}
	}
	if req.Bg {
		req.IgnoreRetcode, req.UseVt = true, false
	}
	if shell != "" {
		if st, err := os.Stat(shell); err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
			return none, ExecErrorf("The shell %s is not available", shell)
		}
	}
	cmd := req.Cmd
	if Truth(req.Template) {
		var err error
		if cmd, cwd, err = renderCommand(ctx, c, cmd, cwd, req); err != nil {
			return none, err
		}
	}
	if c.Direct && !commandAllowed(c, cmd) {
		return none, ExecErrorf("The shell command \"%s\" is not permitted", Str(cmd))
	}
	env, err := commandEnv(c, req.Env)
	if err != nil {
		return none, err
	}
	name, err := logName(cmd)
	if err != nil {
		return none, err
	}
	if logged {
		c.Log.Info(fmt.Sprintf("Executing command %s in directory '%s'", name, cwd))
	}

	p := program{dir: cwd, merge: req.RedirectStderr}
	if err := asUser(ctx, c, &p, &env, runas, group, shell); err != nil {
		return none, err
	}
	if req.ResetSystemLocale == true {
		resetLocale(env)
	}
	if p.env, err = wholeEnv(c, env, req); err != nil {
		return none, err
	}
	if p.umask, err = commandUmask(req.Umask); err != nil {
		return none, err
	}
	if st, err := os.Stat(cwd); !filepath.IsAbs(cwd) || err != nil || !st.IsDir() {
		return none, ExecErrorf("Specified cwd '%s' either not absolute or does not exist", cwd)
	}
	inShell := Truth(req.PythonShell)
	if !inShell && req.Shell != nil {
		if text, ok := cmd.(string); ok {
			words, err := splitShell(text)
			if err != nil {
				return none, err
			}
			cmd = Strings(words)
		}
	}
	success, err := successRules(req)
	if err != nil {
		return none, err
	}
	if p.timeout, err = commandTimeout(req.Timeout); err != nil {
		return none, err
	}
	if req.Stdin != nil {
		text := Str(req.Stdin)
		if !Truth(req.Kwargs.Value("stdin_raw_newlines")) {
			text = strings.ReplaceAll(text, `\n`, "\n")
		}
		p.stdin = []byte(text)
	}
	if req.UseVt {
		p.show = os.Stdout
	}
	p.args = commandWords(cmd, inShell, shell)

	res, err := startCommand(ctx, c, &p, req, cmd, inShell, logged)
	if err != nil {
		return none, err
	}
	if res.timedOut {
		text := fmt.Sprintf("%s : Timed out after %s seconds", Str(cmd), Str(req.Timeout))
		return cmdResult{pid: res.pid, retcode: int64(1), stdout: text}, nil
	}
	ret := cmdResult{pid: res.pid, stdout: req.decode(c, res.stdout, "stdout", name), stderr: req.decode(c, res.stderr, "stderr", name)}
	if !req.Bg && !req.noCommunicate {
		ret.retcode = int64(res.retcode)
	}
	if success.matches(ret) {
		ret.retcode = int64(0)
	}
	if req.IgnoreRetcode {
		c.SetRetcode(0)
	} else {
		c.ContextSet("retcode", ret.retcode)
	}
	if logged {
		if name, err = logName(cmd); err != nil {
			return none, err
		}
		logResult(ctx, c, level, name, req, ret)
	}
	return ret, nil
}

// resetLocale makes programs speak as Salt expects where env does not say how.
func resetLocale(env *Map) {
	for _, name := range []string{"LC_CTYPE", "LC_NUMERIC", "LC_TIME", "LC_COLLATE", "LC_MONETARY", "LC_MESSAGES",
		"LC_PAPER", "LC_NAME", "LC_ADDRESS", "LC_TELEPHONE", "LC_MEASUREMENT", "LC_IDENTIFICATION", "LANGUAGE"} {
		if !env.Has(name) {
			env.Set(name, "C")
		}
	}
}

// commandUmask reads a file mode mask; -1 leaves the mask as it is.
func commandUmask(v any) (int, error) {
	if v == nil {
		return -1, nil
	}
	digits := strings.TrimLeft(Str(v), "0")
	if digits == "" {
		return -1, ExecErrorf("Zero umask is not allowed.")
	}
	n, err := strconv.ParseInt(digits, 8, 32)
	if err != nil {
		return -1, ExecErrorf("Invalid umask: '%s'", Str(v))
	}
	return int(n), nil
}

// commandTimeout reads seconds; none is no limit.
func commandTimeout(v any) (time.Duration, error) {
	seconds, ok := v.(float64)
	if n, isInt := v.(int64); isInt {
		seconds, ok = float64(n), true
	}
	if !ok && Truth(v) {
		return 0, OtherErrorf("salt.exceptions.TimedProcTimeoutError", "Error: timeout %s must be a number", Str(v))
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// decode makes text of one output of the command name.
func (req cmdRequest) decode(c *Call, p []byte, stream, name string) string {
	text, replaced := decodeText(p, Str(req.OutputEncoding))
	if replaced {
		c.Log.Error(fmt.Sprintf("Failed to decode %s from command %s, non-decodable characters have been replaced", stream, name))
	}
	if req.Rstrip {
		text = pyRstrip(text)
	}
	return text
}

// logResult writes what a command left to the log, a failure at least as an error.
func logResult(ctx context.Context, c *Call, level slog.Level, name string, req cmdRequest, ret cmdResult) {
	if !req.IgnoreRetcode && ret.failed() {
		level = max(level, slog.LevelError)
		c.Log.Error(fmt.Sprintf("Command '%s' failed with return code: %s", name, Str(ret.retcode)))
	}
	if ret.stdout != "" {
		c.Log.Log(ctx, level, "stdout: "+ret.stdout)
	}
	if ret.stderr != "" {
		c.Log.Log(ctx, level, "stderr: "+ret.stderr)
	}
	if Truth(ret.retcode) {
		c.Log.Log(ctx, level, "retcode: "+Str(ret.retcode))
	}
}

// startCommand starts and, unless it goes to the background, waits.
func startCommand(ctx context.Context, c *Call, p *program, req cmdRequest, cmd any, inShell, logged bool) (*programResult, error) {
	var res *programResult
	var err error
	if req.Bg {
		res = &programResult{}
		res.pid, err = startBackground(*p)
	} else {
		res, err = runProgram(ctx, *p)
	}
	if err == nil {
		return res, nil
	}
	if ctx.Err() != nil {
		return nil, ExecErrorf("the job was ended while it ran a command")
	}
	var start *startError
	if !errors.As(err, &start) {
		return nil, err
	}
	shown := Str(cmd)
	if !logged {
		shown = "REDACTED"
	}
	stderr := int64(-1)
	if req.RedirectStderr {
		stderr = -2
	}
	shellWord := any(false)
	if inShell {
		shellWord = req.PythonShell
	}
	state := NewMap("cwd", p.dir, "shell", shellWord, "stdout", int64(-1), "stderr", stderr,
		"with_communicate", !req.noCommunicate, "timeout", req.Timeout, "bg", req.Bg, "close_fds", true)
	return nil, ExecErrorf("Unable to run command '%s' with the context '%s', reason: %s", shown, Repr(state), start)
}

// commandWords are the words to start.
func commandWords(cmd any, inShell bool, shell string) []string {
	var words []string
	if inShell {
		if shell == "" {
			shell = "/bin/sh"
		}
		words = []string{shell, "-c"}
	}
	switch cmd := cmd.(type) {
	case *List:
		for _, w := range cmd.Items {
			words = append(words, Str(w))
		}
	case Tuple:
		for _, w := range cmd {
			words = append(words, Str(w))
		}
	default:
		words = append(words, Str(cmd))
	}
	return words
}

// commandEnv reads env: a mapping, or a list of mappings with one key each.
func commandEnv(c *Call, v any) (*Map, error) {
	env := &Map{}
	switch v := v.(type) {
	case *Map:
		env = v.Clone()
	case *List:
		m, err := repackDictlist(v)
		if err != nil {
			c.Log.Error(err.Error())
		}
		env = m
	}
	for k, v := range env.All() {
		if v == nil {
			c.Log.Error(fmt.Sprintf("Environment variable '%s' passed without a value. Setting value to an empty string", Str(k)))
			env.Set(k, "")
		}
	}
	return env, nil
}

// wholeEnv is the environment of the command: the job's under env, or env alone.
func wholeEnv(c *Call, env *Map, req cmdRequest) ([]string, error) {
	all := &Map{}
	if !req.CleanEnv {
		all = jobEnviron(c)
	}
	all.Merge(env)
	if Truth(req.PrependPath) {
		path, ok := all.Get("PATH")
		if !ok {
			return nil, OtherErrorf("KeyError", "'PATH'")
		}
		all.Set("PATH", Str(req.PrependPath)+":"+Str(path))
	}
	if !env.Has("NOTIFY_SOCKET") {
		all.Delete("NOTIFY_SOCKET")
	}
	out := make([]string, 0, all.Len())
	for k, v := range all.All() {
		if strings.Contains(Str(k), "\x00") || strings.Contains(Str(v), "\x00") {
			return nil, OtherErrorf("ValueError", "embedded null byte")
		}
		out = append(out, Str(k)+"="+Str(v))
	}
	return out, nil
}

// asUser makes p run as another user or group, with that user's environment
// under env.
func asUser(ctx context.Context, c *Call, p *program, env **Map, runas, group, shell string) error {
	if runas == "" && group == "" {
		return nil
	}
	u, _ := userByID(os.Geteuid())
	if runas != "" {
		var ok bool
		if u, ok = userByName(runas); !ok {
			return ExecErrorf("User '%s' is not available", runas)
		}
	}
	var g *groupEntry
	if group != "" {
		if which("sudo") == "" {
			return ExecErrorf("group argument requires sudo but not found")
		}
		found, ok := groupByName(group)
		if !ok {
			return ExecErrorf("Group '%s' is not available", group)
		}
		g = &found
	}
	p.cred = credentialOf(u, g)
	theirs := loginEnv(ctx, c, u, shell)
	theirs.Merge(*env)
	theirs.Set("USER", u.name)
	theirs.Set("HOME", u.home)
	*env = theirs
	return nil
}

// loginEnv is the environment that a user has after a login, read from a login
// shell; where su does not let us in, an error is logged and it is empty.
func loginEnv(ctx context.Context, c *Call, u passwdEntry, shell string) *Map {
	env := &Map{}
	args := []string{"su"}
	if shell != "" {
		args = append(args, "-s", shell)
	}
	marker := "<<<" + randomHex(16) + ">>>"
	script := "printf %s '" + marker + "'; cat /proc/self/environ; printf %s '" + marker + "'"
	args = append(args, "-", u.name, "-c", script)
	res, err := runProgram(ctx, program{args: args, umask: -1, empty: true, dir: "/", timeout: 10 * time.Second})
	if err != nil {
		c.Log.Error(fmt.Sprintf("Environment could not be retrieved for user '%s': %s", u.name, err))
		return env
	}
	parts := strings.Split(string(res.stdout), marker)
	if len(parts) != 3 {
		c.Log.Error(fmt.Sprintf("Environment could not be retrieved for user '%s': stderr=%s stdout=%s", u.name, Repr(res.stderr), Repr(res.stdout)))
		return env
	}
	for _, kv := range strings.Split(parts[1], "\x00") {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env.Set(k, v)
		}
	}
	return env
}

// successTexts are the outcomes that count as success.
type successTexts struct {
	codes          []int64
	stdout, stderr []string
}

func successRules(req cmdRequest) (s successTexts, err error) {
	if req.SuccessRetcodes == nil {
		s.codes = []int64{0}
	} else {
		for _, text := range splitInput(req.SuccessRetcodes) {
			n, err := strconv.ParseInt(pyStrip(text), 10, 64)
			if err != nil {
				return s, InvocationErrorf("success_retcodes must be a list of integers")
			}
			s.codes = append(s.codes, n)
		}
	}
	if req.SuccessStdout != nil {
		s.stdout = splitInput(req.SuccessStdout)
	}
	if req.SuccessStderr != nil {
		s.stderr = splitInput(req.SuccessStderr)
	}
	return s, nil
}

func (s successTexts) matches(r cmdResult) bool {
	for _, n := range s.codes {
		if Equal(r.retcode, n) {
			return true
		}
	}
	for _, text := range s.stdout {
		if strings.Contains(r.stdout, text) {
			return true
		}
	}
	for _, text := range s.stderr {
		if strings.Contains(r.stderr, text) {
			return true
		}
	}
	return false
}

// renderCommand renders the command line and the directory as templates.
func renderCommand(ctx context.Context, c *Call, cmd any, cwd string, req cmdRequest) (any, string, error) {
	render := func(text string) (string, error) {
		out, err := renderModuleText(ctx, c, Str(req.Template), text, req.Saltenv, nil)
		if err != nil {
			var me *ModuleError
			if errors.As(err, &me) && me.Kind == ErrExecution {
				return "", err
			}
			return "", ExecErrorf("Failed to execute cmd with error: %s", err)
		}
		return out, nil
	}
	text, err := render(Str(cmd))
	if err != nil {
		return nil, "", err
	}
	dir, err := render(cwd)
	return text, dir, err
}

// yesNo is an answer that may be unknown.
type yesNo int

const (
	unknown yesNo = iota
	yes
	no
)

// shellListed says whether /etc/shells has a shell; unknown without that file.
func shellListed(shell string) yesNo {
	found := no
	err := scanLines("/etc/shells", func(line string) bool {
		if !strings.HasPrefix(line, "#") && line == shell {
			found = yes
		}
		return found == no
	})
	if err != nil {
		return unknown
	}
	return found
}

// defaultShell is the shell that commands run in if none is named.
func defaultShell() string {
	if s := os.Getenv("SHELL"); s != "" {
		return s
	}
	return "/bin/sh"
}

// killAll sends a signal to processes, without regard to those that are gone.
func killAll(pids []int, sig syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig)
	}
}
