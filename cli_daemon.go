// Daemons: what salt-master and salt-minion have in common around the daemon
// itself: background, pid file, user, signals, the init system, life as pid 1.
//
// The law of this file: whatever can go wrong at the start goes wrong before the
// foreground command returns, with a text on the terminal; SIGTERM ends the
// process within 5 seconds, come what may.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// daemonPipeEnv names the descriptor on which a background daemon tells
	// the command that started it how the start went.
	daemonPipeEnv = "HALITE_DAEMON_PIPE"
	initChildEnv  = "HALITE_INIT_CHILD"

	daemonStopTime = 4500 * time.Millisecond
	exitNoUser     = 67 // the user to run as does not exist
)

// daemonProgram is one daemon.
type daemonProgram struct {
	// Run runs the daemon until ctx ends. It calls ready once everything that
	// can be wrong with the set-up has been seen.
	Run func(ctx context.Context, d *daemonRun) error
	// Hangup answers SIGHUP. May be nil.
	Hangup func(ctx context.Context)
}

// daemonRun is what a running daemon tells its surroundings.
type daemonRun struct {
	pipe *os.File // to the command in the foreground, nil without one
}

// Ready says that the start went well.
func (d *daemonRun) Ready() {
	sdNotify("READY=1")
	if d.pipe == nil {
		return
	}
	io.WriteString(d.pipe, "ok\n")
	d.pipe.Close()
	d.pipe = nil
	// From here on there is no terminal.
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		for fd := range 3 {
			_ = syscall.Dup3(int(null.Fd()), fd, 0)
		}
		if null.Fd() > 2 {
			null.Close()
		}
	}
}

// Status tells the init system in a few words where the daemon stands.
func (d *daemonRun) Status(text string) { sdNotify("STATUS=" + text) }

// runDaemon runs a daemon whose options are loaded, and returns its exit code.
func runDaemon(std Stdio, name string, o *Options, log *slog.Logger, background bool, prog daemonProgram) int {
	if os.Getpid() == 1 && os.Getenv(initChildEnv) == "" {
		return runAsInit(std)
	}
	pipe := os.Getenv(daemonPipeEnv)
	if background && pipe == "" {
		return startInBackground(std, name)
	}
	d := &daemonRun{}
	if pipe != "" {
		fd, _ := strconv.Atoi(pipe)
		d.pipe = os.NewFile(uintptr(fd), "start")
		syscall.CloseOnExec(fd)
		os.Unsetenv(daemonPipeEnv)
	}
	fail := func(code int, err error) int {
		if err == nil {
			return code
		}
		log.Log(context.Background(), LevelCritical, err.Error())
		return code
	}
	removePidfile, err := writePidfile(name, o.Path("pidfile"))
	if err != nil {
		return fail(1, err)
	}
	defer removePidfile()
	if err := switchUser(o.Str("user")); err != nil {
		return fail(exitNoUser, err)
	}
	if n := o.Int("memory_limit"); n > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(n))
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	done := make(chan error, 1)
	go func() { done <- prog.Run(ctx, d) }()
	go trimWhenIdle(ctx) // ends with ctx
	var deadline <-chan time.Time
	for {
		select {
		case err := <-done:
			var exit *ExitError
			switch {
			case err == nil:
				return 0
			case errors.As(err, &exit):
				return fail(exit.Code, exit.Err)
			}
			return fail(1, err)
		case <-deadline:
			log.Error(name + " does not stop by itself and is ended")
			return 1
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				log.Info("SIGHUP: reloading")
				if prog.Hangup != nil {
					go prog.Hangup(ctx) // ends with ctx
				}
				continue
			}
			if deadline != nil {
				return 1 // asked twice
			}
			log.Info(fmt.Sprintf("%s is stopping: %s", name, sig))
			sdNotify("STOPPING=1")
			cancel()
			deadline = time.After(daemonStopTime)
		}
	}
}

// startInBackground starts this program again without a terminal and waits
// until it says that it runs.
func startInBackground(std Stdio, name string) int {
	exe, err := os.Executable()
	if err != nil {
		fmt.Fprintf(std.Err, "%s: find the own program: %v\n", name, err)
		return 1
	}
	r, w, err := os.Pipe()
	if err != nil {
		fmt.Fprintf(std.Err, "%s: %v\n", name, err)
		return 1
	}
	defer r.Close()
	cmd := &exec.Cmd{
		Path: exe, Args: os.Args, Stderr: std.Err, ExtraFiles: []*os.File{w},
		Env:         append(os.Environ(), daemonPipeEnv+"=3"),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if f, ok := std.Err.(*os.File); ok {
		cmd.Stderr = f // itself, without a copying goroutine that would end with us
	} else {
		cmd.Stderr = nil
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(std.Err, "%s: start in the background: %v\n", name, err)
		return 1
	}
	w.Close()
	if line, _ := bufio.NewReader(r).ReadString('\n'); line == "ok\n" {
		return 0
	}
	if err := cmd.Wait(); err == nil {
		return 1
	}
	return max(cmd.ProcessState.ExitCode(), 1)
}

// runAsInit is pid 1 of a container: it starts the daemon as its child, passes
// signals on, and reaps whatever is left to it.
func runAsInit(std Stdio) int {
	exe, err := os.Executable()
	if err != nil {
		fmt.Fprintf(std.Err, "find the own program: %v\n", err)
		return 1
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals)
	child, err := os.StartProcess(exe, os.Args, &os.ProcAttr{
		Env: append(os.Environ(), initChildEnv+"=1"), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		fmt.Fprintf(std.Err, "start the daemon: %v\n", err)
		return 1
	}
	for sig := range signals {
		switch sig {
		case syscall.SIGCHLD:
		case syscall.SIGURG: // the Go runtime's own
			continue
		default:
			_ = child.Signal(sig)
			continue
		}
		for {
			var ws syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
			if pid <= 0 || err != nil {
				break
			}
			if pid != child.Pid {
				continue
			}
			if ws.Signaled() {
				return 128 + int(ws.Signal())
			}
			return ws.ExitStatus()
		}
	}
	return 0
}

// writePidfile writes the process id, unless another instance runs.
func writePidfile(name, path string) (remove func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	me := os.Getpid()
	if text, err := os.ReadFile(path); err == nil {
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		if pid > 1 && pid != me && pid != os.Getppid() && saltProcess(pid) {
			return nil, fmt.Errorf("another %s runs already, with pid %d (%s)", name, pid, path)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("write the pid file: %w", err)
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(me)), 0o644); err != nil {
		return nil, fmt.Errorf("write the pid file: %w", err)
	}
	return func() {
		if text, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(text)) == strconv.Itoa(me) {
			_ = os.Remove(path)
		}
	}, nil
}

// switchUser becomes the user that the configuration names.
func switchUser(name string) error {
	if name == "" {
		return nil
	}
	me := os.Geteuid()
	u, err := user.Lookup(name)
	if err != nil {
		if me == 0 && name == "root" {
			return nil // a box without /etc/passwd
		}
		return fmt.Errorf("the configured user does not exist: %w", err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	if uid == me {
		return nil
	}
	if me != 0 {
		if name == "root" {
			return nil // the default of every configuration; who runs as somebody else means it
		}
		return fmt.Errorf("only root can run as the user %s", name)
	}
	groups := []int{gid}
	if ids, err := u.GroupIds(); err == nil {
		for _, id := range ids {
			if n, err := strconv.Atoi(id); err == nil && n != gid {
				groups = append(groups, n)
			}
		}
	}
	if err := errors.Join(syscall.Setgroups(groups), syscall.Setgid(gid), syscall.Setuid(uid)); err != nil {
		return fmt.Errorf("become the user %s: %w", name, err)
	}
	os.Setenv("HOME", u.HomeDir)
	os.Setenv("USER", name)
	os.Setenv("LOGNAME", name)
	return nil
}

// sdNotify tells systemd about the daemon; without systemd nothing happens.
func sdNotify(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, state)
}
