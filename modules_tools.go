// Running the tools of a box for modules whose Salt counterparts go through cmd:
// exit codes become that of the job (the last one counts), failures are logged
// in Salt's words.
package main

import (
	"context"
	"os"
	"strconv"
	"strings"
)

// toolOptions say how runSaltTool differs from a plain run.
type toolOptions struct {
	merge  bool  // standard error goes into stdout, as cmd.run has it
	ignore bool  // the exit code is not the job's
	quiet  bool  // output is not logged
	stdin  any   // text
	runas  any   // user
	cwd    any   // directory
	env    *Map  // more variables
	limit  any   // seconds
	shell  bool  // args[0] is a line for the shell
	group  any   // group
	umask  any   // octal mask
	codes  []int // exit codes that are success besides 0
}

// runSaltTool runs a program as __salt__['cmd.run_all'] does without a shell.
// A program that is missing is an error that names it.
func runSaltTool(ctx context.Context, c *Call, o toolOptions, args ...string) (cmdResult, error) {
	inner, req := toolRequest(c, o, args)
	return runCommand(ctx, inner, req)
}

// toolRequest is what runs a tool, and the call it runs in.
func toolRequest(c *Call, o toolOptions, args []string) (*Call, cmdRequest) {
	inner := *c
	inner.Direct = false
	req := cmdRequest{
		Rstrip: true, ResetSystemLocale: true, OutputLoglevel: "debug", Shell: defaultShell(), RedirectStderr: o.merge, IgnoreRetcode: o.ignore,
		Stdin: o.stdin, Runas: o.runas, Cwd: o.cwd, Timeout: o.limit, Group: o.group, Umask: o.umask,
		PythonShell: o.shell, Kwargs: NewMap("stdin_raw_newlines", true),
	}
	if o.shell {
		req.Cmd = args[0]
	} else {
		req.Cmd = Strings(args)
	}
	if o.quiet {
		req.OutputLoglevel = "quiet"
	}
	if o.env != nil {
		req.Env = o.env
	}
	if len(o.codes) > 0 {
		codes := NewList(int64(0))
		for _, n := range o.codes {
			codes.Append(int64(n))
		}
		req.SuccessRetcodes = codes
	}
	return &inner, req
}

// runOK is cmd.retcode: whether a program ended with 0.
func runOK(ctx context.Context, c *Call, args ...string) (bool, error) {
	r, err := runSaltTool(ctx, c, toolOptions{merge: true}, args...)
	return err == nil && !r.failed(), err
}

// runAllOK is cmd.run_all, of which only the exit code matters.
func runAllOK(ctx context.Context, c *Call, args ...string) (bool, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, args...)
	return err == nil && !r.failed(), err
}

// runText is cmd.run: what a program wrote, both outputs together.
func runText(ctx context.Context, c *Call, args ...string) (string, error) {
	return runTextWith(ctx, c, toolOptions{}, args...)
}

// runTextWith is runText with more options.
func runTextWith(ctx context.Context, c *Call, o toolOptions, args ...string) (string, error) {
	o.merge = true
	inner, req := toolRequest(c, o, args)
	text, err := runAndShow(ctx, inner, req)
	if err != nil {
		return "", err
	}
	return Str(text), nil
}

// needTool is the path of a program, or the error that it is missing.
func needTool(name string) (string, error) {
	if path := which(name); path != "" {
		return path, nil
	}
	return "", ExecErrorf("Command '%s' cannot be found", name)
}

// grain is a grain as text.
func grain(c *Call, name string) string {
	v := c.Grains.Value(name)
	if v == nil {
		return ""
	}
	return Str(v)
}

// fileLines reads a text file as lines without their ends.
func fileLines(path string) ([]string, error) {
	p, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	text, _ := decodeText(p, "")
	return pyLines(text, false), nil
}

// osError is Python's OSError for an error of the file system.
func osError(err error) error {
	class := "OSError"
	switch {
	case os.IsNotExist(err):
		class = "FileNotFoundError"
	case os.IsPermission(err):
		class = "PermissionError"
	}
	return OtherErrorf(class, "%s", osErrorText(err))
}

// intText reads a whole number out of a text.
func intText(s string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	return n, err == nil
}

// replaceText writes a file of the system anew: whole or not at all, with the
// mode and owner it had. mode is for a file that was not there.
func replaceText(path, text string, mode os.FileMode) error {
	return replaceSystemFile(path, []byte(text), mode)
}

// kwargOf takes a keyword argument by name, with a default.
func kwargOf(m *Map, name string, def any) any {
	if v, ok := m.Get(name); ok {
		return v
	}
	return def
}
