// Tests of module cmd: what a command returns, and that nothing it starts can
// hold a job.
package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// moduleTestCall makes a call as salt-call --local has it, with more options.
func moduleTestCall(t *testing.T, options ...any) *Call {
	t.Helper()
	dir := t.TempDir()
	o := NewMap("id", "box", "root_dir", dir, "cachedir", filepath.Join(dir, "cache"), "conf_file", filepath.Join(dir, "minion"))
	o.Merge(NewMap(options...))
	opts := NewOptions(o)
	env := &Env{Opts: opts, Grains: NewMap("id", "box", "os", "Debian"), Pillar: &Map{},
		Loader: NewLoader(opts, nil), Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	return NewCall(env, "test", "20250101000000000000", nil)
}

// direct runs a function as a person would.
func direct(t *testing.T, c *Call, fun string, args []any, kw ...any) (any, error) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	return c.RunDirect(ctx, fun, args, NewMap(kw...))
}

func TestCmdReturns(t *testing.T) {
	c := moduleTestCall(t)
	for _, tc := range []struct {
		fun  string
		cmd  any
		kw   []any
		want string // Repr
		code any
	}{
		{"cmd.run", "echo a; echo b >&2", nil, `'a\nb'`, 0},
		{"cmd.run", "exit 3", nil, `''`, 3},
		{"cmd.run", "exit 3", []any{"ignore_retcode", true}, `''`, 0},
		{"cmd.run", "exit 3", []any{"success_retcodes", NewList(int64(3))}, `''`, 0},
		{"cmd.run", "echo OK; exit 3", []any{"success_stdout", "OK"}, `'OK'`, 0},
		{"cmd.run", "echo $HOME; exit 3", []any{"python_shell", false}, `'$HOME; exit 3'`, 0},
		{"cmd.run", "echo $FOO-$BAR", []any{"env", NewList(NewMap("FOO", int64(1)), NewMap("BAR", true))}, `'1-True'`, 0},
		{"cmd.run", "wc -c", []any{"stdin", "ab c"}, `'4'`, 0},
		{"cmd.run", "cat", []any{"stdin", `a\nb`}, `'a\nb'`, 0},
		{"cmd.run", "umask", []any{"umask", "077"}, `'0077'`, 0},
		{"cmd.run", "echo x", []any{"hide_output", true}, `''`, 0},
		{"cmd.run", `printf '\377a\342\202b'`, nil, "'\ufffda\ufffdb'", 0},
		{"cmd.run", "printf 'x  \\n\\n'", []any{"rstrip", false}, `'x  \n\n'`, 0},
		{"cmd.run", NewList("echo", "a b"), []any{"python_shell", false}, `'a b'`, 0},
		{"cmd.run", "pwd", []any{"cwd", "/"}, `'/'`, 0},
		{"cmd.run", "echo $PATH", []any{"prepend_path", "/foo", "env", NewMap("PATH", "/bin")}, `'/foo:/bin'`, 0},
		{"cmd.run_stdout", "echo o; echo e >&2; exit 2", nil, `'o'`, 2},
		{"cmd.run_stderr", "echo o; echo e >&2", nil, `'e'`, 0},
		{"cmd.retcode", "kill -9 $$", nil, `-9`, -9},
		{"cmd.shell", "exit 4", nil, `''`, 4},
	} {
		kw := append([]any{"shell", "/bin/sh"}, tc.kw...)
		got, err := direct(t, c, tc.fun, []any{tc.cmd}, kw...)
		if err != nil || Repr(got) != tc.want {
			t.Errorf("%s %v %v: %s, %v; want %s", tc.fun, tc.cmd, tc.kw, Repr(got), err, tc.want)
		}
		if code, _ := c.ContextGet("retcode"); !Equal(code, FromGo(tc.code)) {
			t.Errorf("%s %v: retcode %v, want %v", tc.fun, tc.cmd, code, tc.code)
		}
	}
}

func TestCmdErrors(t *testing.T) {
	c := moduleTestCall(t)
	for _, tc := range []struct {
		cmd  any
		kw   []any
		want string
	}{
		{"x", []any{"shell", "/bin/nosuch"}, "ERROR: The shell /bin/nosuch is not available"},
		{"x", []any{"runas", "no such user"}, "ERROR: User 'no such user' is not available"},
		{"x", []any{"umask", "99"}, "ERROR: Invalid umask: '99'"},
		{"x", []any{"umask", int64(0)}, "ERROR: Zero umask is not allowed."},
		{"x", []any{"cwd", "tmp"}, "ERROR: Specified cwd 'tmp' either not absolute or does not exist"},
		{"x", []any{"success_retcodes", "a"}, "ERROR executing 'cmd.run': success_retcodes must be a list of integers"},
		{"echo x; exit 3", []any{"raise_err", true}, "ERROR: x"},
		{"nosuchcommand", []any{"python_shell", false, "cwd", "/"}, "ERROR: Unable to run command '['nosuchcommand']' with the context " +
			"'{'cwd': '/', 'shell': False, 'stdout': -1, 'stderr': -2, 'with_communicate': True, 'timeout': None, 'bg': False, 'close_fds': True}', " +
			"reason: [Errno 2] No such file or directory: 'nosuchcommand'"},
	} {
		kw := append([]any{"shell", "/bin/sh"}, tc.kw...)
		_, err := direct(t, c, "cmd.run", []any{tc.cmd}, kw...)
		if err == nil || JobErrorText("cmd.run", err, "") != tc.want {
			t.Errorf("%v %v: %v; want %s", tc.cmd, tc.kw, err, tc.want)
		}
	}
}

func TestCmdFromOtherModulesUsesNoShell(t *testing.T) {
	c := moduleTestCall(t)
	got, err := c.RunKw(context.Background(), "cmd.run", []any{"echo $HOME; exit 3"}, nil)
	if err != nil || got != "$HOME; exit 3" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestCmdGlobLists(t *testing.T) {
	c := moduleTestCall(t, "cmd_blacklist_glob", NewList("rm *"), "cmd_whitelist_glob", NewList("echo *", "rm *"))
	for cmd, allowed := range map[string]bool{"echo a": true, "rm -rf x": false, "true": false} {
		_, err := direct(t, c, "cmd.run", []any{cmd}, "shell", "/bin/sh")
		if (err == nil) != allowed {
			t.Errorf("%s: %v", cmd, err)
		}
		if err != nil && err.Error() != `The shell command "`+cmd+`" is not permitted` {
			t.Errorf("%s: %v", cmd, err)
		}
	}
	if _, err := c.Run(context.Background(), "cmd.run", "true"); err != nil {
		t.Errorf("modules are not bound by the lists: %v", err)
	}
}

// gone waits until a process has ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if syscall.Kill(pid, 0) != nil {
			return
		}
		if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil && strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	t.Errorf("process %d still runs", pid)
}

// childPid reads the pid that a command wrote to a file.
func childPid(t *testing.T, path string) int {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if p, err := os.ReadFile(path); err == nil && strings.HasSuffix(string(p), "\n") {
			pid, err := strconv.Atoi(strings.TrimSpace(string(p)))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("the command did not start")
	return 0
}

func TestCmdTimeoutEndsTheWholeGroup(t *testing.T) {
	c := moduleTestCall(t)
	file := filepath.Join(t.TempDir(), "pid")
	start := time.Now()
	cmd := "sleep 60 & echo $! > " + file + "; wait"
	got, err := direct(t, c, "cmd.run_all", []any{cmd}, "timeout", 0.5, "shell", "/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 1500*time.Millisecond {
		t.Errorf("took %s", took)
	}
	m := got.(*Map)
	if m.Str("stdout") != cmd+" : Timed out after 0.5 seconds" || m.Value("retcode") != int64(1) {
		t.Errorf("got %s", Repr(m))
	}
	gone(t, childPid(t, file))
}

func TestCmdIsNotHeldByADaemon(t *testing.T) {
	c := moduleTestCall(t)
	start := time.Now()
	got, err := direct(t, c, "cmd.run", []any{"sleep 60 & echo $!"}, "shell", "/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("took %s", took)
	}
	pid, err := strconv.Atoi(Str(got))
	if err != nil {
		t.Fatal(err)
	}
	if syscall.Kill(pid, 0) != nil {
		t.Error("the daemon was ended")
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

func TestCmdEndsWithItsJob(t *testing.T) {
	c := moduleTestCall(t)
	ctx, stop := context.WithCancel(context.Background())
	file := filepath.Join(t.TempDir(), "pid")
	done := make(chan error, 1)
	go func() {
		_, err := c.RunDirect(ctx, "cmd.run", []any{"sleep 60 & echo $! > " + file + "; wait"}, NewMap("shell", "/bin/sh"))
		done <- err
	}()
	pid := childPid(t, file)
	stop()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a killed command is a failed call")
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the job goes on")
	}
	gone(t, pid)
}

func TestCmdScriptIsRemoved(t *testing.T) {
	c := moduleTestCall(t)
	dir := t.TempDir()
	got, err := direct(t, c, "cmd.exec_code_all", []any{"sh", "echo $0 $1; exit 3"}, "args", NewList("a b"), "cwd", dir)
	if err != nil {
		t.Fatal(err)
	}
	m := got.(*Map)
	file, arg, _ := strings.Cut(m.Str("stdout"), " ")
	if arg != "a b" || m.Value("retcode") != int64(3) {
		t.Errorf("got %s", Repr(m))
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", file, err)
	}
}

func TestSplitShell(t *testing.T) {
	for in, want := range map[string]string{
		`echo 'a  b' "c\"d\e" e\ f ''  x''y`: `['echo', 'a  b', 'c"d\\e', 'e f', '', 'xy']`,
		`  a	b` + "\n":                       `['a', 'b']`,
		``:                                   `[]`,
		`"a'b"'c"d'`:                         `['a\'bc"d']`,
	} {
		words, err := splitShell(in)
		if got := Repr(Strings(words)); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", in, got, err, want)
		}
	}
	for in, want := range map[string]string{"a 'b": "No closing quotation", `a\`: "No escaped character"} {
		if _, err := splitShell(in); err == nil || err.Error() != want {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// Ending what runs in a chroot must never mean the whole machine.
func TestChrootPidsNeverMeanEverybody(t *testing.T) {
	for _, root := range []string{"/", "", ".", "//", "/..", "relative"} {
		if pids := chrootPids(root); len(pids) > 0 {
			t.Errorf("%q: %d processes", root, len(pids))
		}
	}
}
