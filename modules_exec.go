// Running programs for execution modules: one helper for all of them.
//
// The law of this room: programs are started from a list of arguments, never
// through a shell that a module did not ask for; each has a process group of
// its own, which ends with the context or the time limit; output that a daemon
// keeps open after the program has ended is not waited for. Modules that read
// a program's output call runTool, which sets the C locale.
package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// outputGrace is how long output is read after the program itself has ended:
// enough for what its children still hold in their buffers.
const outputGrace = 300 * time.Millisecond

// program is what runProgram starts.
type program struct {
	args  []string // args[0] is looked up in the PATH of env unless it has a slash
	dir   string
	env   []string // nil: the environment of this process
	stdin []byte   // nil: the terminal or file this process reads from
	empty bool     // with stdin nil: read from nothing

	cred  *syscall.Credential
	umask int // -1: as it is

	merge   bool      // stderr goes where stdout goes
	show    io.Writer // also copy output here, as it comes
	discard bool      // do not keep output: the program inherits ours

	timeout time.Duration // 0: none
}

// programResult is how a program ended.
type programResult struct {
	pid      int
	retcode  int // negative: the signal that ended it, as Python counts
	stdout   []byte
	stderr   []byte
	timedOut bool
}

// startError says why a program could not be started, in Python's words for
// OSError, which Salt shows.
type startError struct {
	errno syscall.Errno
	path  string
}

func (e *startError) Error() string {
	return "[Errno " + strconv.Itoa(int(e.errno)) + "] " + strerror(e.errno) + ": " + Repr(e.path)
}

func (e *startError) Unwrap() error { return e.errno }

// strerror is C's text for an error number: Go's begins in lower case.
func strerror(errno syscall.Errno) string {
	s := errno.Error()
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// osErrorText is str(OSError) for an error of a file operation.
func osErrorText(err error) string {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err.Error()
	}
	text := "[Errno " + strconv.Itoa(int(errno)) + "] " + strerror(errno)
	var pe *os.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		text += ": " + Repr(pe.Path)
	case errors.As(err, &le):
		text += ": " + Repr(le.Old) + " -> " + Repr(le.New)
	}
	return text
}

// prepare makes the exec.Cmd of p; ctx ends it with its whole group.
func (p *program) prepare(ctx context.Context) (*exec.Cmd, error) {
	env := p.env
	if env == nil {
		env = os.Environ()
	}
	path, err := findProgram(p.args[0], envValue(env, "PATH"), p.dir)
	if err != nil {
		return nil, err
	}
	args := p.args
	if p.umask >= 0 {
		// The mask of this process is shared by all its goroutines, so the
		// child sets its own before it becomes the program.
		sh, err := findProgram("sh", "/bin:/usr/bin", "")
		if err != nil {
			return nil, err
		}
		args = append([]string{"sh", "-c", `umask "$1" && shift && exec "$@"`, "sh",
			"0" + strconv.FormatInt(int64(p.umask), 8), path}, p.args[1:]...)
		path = sh
	}
	cmd := exec.CommandContext(ctx, path)
	cmd.Path, cmd.Args = path, args
	if cmd.Err != nil && errors.Is(cmd.Err, exec.ErrDot) {
		cmd.Err = nil
	}
	cmd.Dir, cmd.Env = p.dir, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: p.cred}
	cmd.WaitDelay = outputGrace
	cmd.Cancel = func() error { return endGroup(ctx, cmd.Process.Pid) }
	switch {
	case p.stdin != nil:
		cmd.Stdin = bytes.NewReader(p.stdin)
	case !p.empty && !isTerminal(os.Stdin):
		// A background group that reads from a terminal would be stopped.
		cmd.Stdin = os.Stdin
	}
	return cmd, nil
}

// runProgram runs p to its end. The error is a *startError, or the context's.
func runProgram(ctx context.Context, p program) (*programResult, error) {
	limited := ctx
	if p.timeout > 0 {
		var stop context.CancelFunc
		limited, stop = context.WithTimeout(ctx, p.timeout)
		defer stop()
	}
	cmd, err := p.prepare(limited)
	if err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	if p.discard {
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	} else {
		var out, errs io.Writer = &stdout, &stderr
		if p.show != nil {
			out, errs = io.MultiWriter(out, p.show), io.MultiWriter(errs, p.show)
		}
		if p.merge {
			errs = out
		}
		cmd.Stdout, cmd.Stderr = out, errs
	}
	if err := cmd.Start(); err != nil {
		return nil, asStartError(err, p)
	}
	forget := TrackProcessGroup(ctx, cmd.Process.Pid)
	waitErr := cmd.Wait()
	forget()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	res := &programResult{pid: cmd.Process.Pid, retcode: exitStatus(cmd.ProcessState), stdout: stdout.Bytes(), stderr: stderr.Bytes()}
	res.timedOut = limited.Err() != nil && waitErr != nil && res.retcode == -int(syscall.SIGKILL)
	return res, nil
}

// startBackground starts p and returns its pid; nothing waits for its output.
// It outlives the job that started it.
func startBackground(p program) (int, error) {
	cmd, err := p.prepare(context.Background())
	if err != nil {
		return 0, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, asStartError(err, p)
	}
	// Ends with the child, which must not stay a zombie.
	go func() { _ = cmd.Wait() }()
	return cmd.Process.Pid, nil
}

func asStartError(err error, p program) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err
	}
	var pe *os.PathError
	if errors.As(err, &pe) && pe.Op == "chdir" {
		return &startError{errno, p.dir}
	}
	return &startError{errno, p.args[0]}
}

func exitStatus(ps *os.ProcessState) int {
	if ws, ok := ps.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return -int(ws.Signal())
	}
	return ps.ExitCode()
}

// findProgram looks a program up as execvpe does. dir is where the program
// will run: relative names are meant from there.
func findProgram(name, path, dir string) (string, error) {
	if name == "" {
		return "", &startError{syscall.ENOENT, name}
	}
	executable := func(file string) error {
		at := file
		if !filepath.IsAbs(at) {
			at = filepath.Join(dir, at)
		}
		st, err := os.Stat(at)
		if err != nil {
			return err
		}
		if st.IsDir() || st.Mode()&0o111 == 0 {
			return syscall.EACCES
		}
		return nil
	}
	if strings.Contains(name, "/") {
		if err := executable(name); err != nil {
			errno := syscall.ENOENT
			errors.As(err, &errno)
			return "", &startError{errno, name}
		}
		return name, nil
	}
	if path == "" {
		path = "/bin:/usr/bin"
	}
	errno := syscall.ENOENT
	for _, d := range filepath.SplitList(path) {
		if d == "" {
			d = "."
		}
		file := filepath.Join(d, name)
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if errors.Is(err, syscall.EACCES) {
			errno = syscall.EACCES
		}
	}
	return "", &startError{errno, name}
}

// which finds an executable as Salt does: a path as it is, a bare name in PATH
// and then in the usual directories. "" if there is none.
func which(name string) string {
	if name == "" {
		return ""
	}
	ok := func(file string) bool {
		st, err := os.Stat(file)
		return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
	}
	if strings.Contains(name, "/") && ok(name) {
		return name
	}
	seen := map[string]bool{}
	for _, d := range append(filepath.SplitList(os.Getenv("PATH")), "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin") {
		if d == "" || seen[d] {
			continue
		}
		seen[d] = true
		if file := filepath.Join(d, name); ok(file) {
			return file
		}
	}
	return ""
}

// envValue reads a variable of a list name=value; the last one counts.
func envValue(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// toolEnv is our environment in the C locale, for programs whose output is read.
func toolEnv(extra ...string) []string {
	var env []string
	for _, kv := range os.Environ() {
		if strings.HasPrefix(kv, "LC_") || strings.HasPrefix(kv, "LANG") || strings.HasPrefix(kv, "NOTIFY_SOCKET=") {
			continue
		}
		env = append(env, kv)
	}
	if envValue(env, "PATH") == "" {
		env = append(env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	}
	return append(append(env, "LC_ALL=C", "LANGUAGE=C"), extra...)
}

// tool is the outcome of a program that a module runs for its own purposes.
type tool struct {
	retcode int
	stdout  string
	stderr  string
}

// runTool runs a program in the C locale with empty standard input. A program
// that is missing is a CommandNotFoundError; any exit code is an outcome.
func runTool(ctx context.Context, args ...string) (tool, error) {
	return runToolIn(ctx, program{args: args, umask: -1, empty: true})
}

// runToolIn is runTool with everything that a program can have.
func runToolIn(ctx context.Context, p program) (tool, error) {
	if p.env == nil {
		p.env = toolEnv()
	}
	if !strings.Contains(p.args[0], "/") {
		if full := which(p.args[0]); full != "" {
			p.args = append([]string{full}, p.args[1:]...)
		}
	}
	res, err := runProgram(ctx, p)
	if err != nil {
		if errors.Is(err, syscall.ENOENT) {
			return tool{}, NotFoundErrorf("'%s' is not in the path", p.args[0])
		}
		return tool{}, err
	}
	out, _ := decodeText(res.stdout, "")
	errs, _ := decodeText(res.stderr, "")
	if res.timedOut {
		return tool{}, ExecErrorf("%s did not end within %s", p.args[0], p.timeout)
	}
	return tool{retcode: res.retcode, stdout: out, stderr: errs}, nil
}

// processIDs lists the processes of this box, in order.
func processIDs() []int {
	f, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	var out []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			out = append(out, pid)
		}
	}
	sort.Ints(out)
	return out
}
