// The beacon sh: what is run from the shells of the box, as strace sees it.
package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// shKept is how many runs are kept between two looks.
const shKept = 1000

// shBeacon has one strace for each shell, until the shell ends.
type shBeacon struct {
	traces map[int]*shTrace
}

// shTrace is one strace, its reader, and what the reader has seen.
type shTrace struct {
	user  string
	cmd   *exec.Cmd
	ended chan struct{} // closed when strace is gone

	mu   sync.Mutex
	seen []*Map
}

func (b *shBeacon) look(_ context.Context, _ *Call, _ *Map, _ []any) ([]*Map, error) {
	if _, err := needTool("strace"); err != nil {
		return nil, err
	}
	if b.traces == nil {
		b.traces = map[int]*shTrace{}
	}
	shells := loginShells()
	for _, pid := range processIDs() {
		if b.traces[pid] != nil || !isShell(pid, shells) {
			continue
		}
		t, err := traceShell(pid)
		if err != nil {
			return nil, err
		}
		b.traces[pid] = t
	}
	var out []*Map
	for pid, t := range b.traces {
		gone := false
		select {
		case <-t.ended:
			gone = true
		default:
		}
		t.mu.Lock()
		out = append(out, t.seen...)
		t.seen = nil
		t.mu.Unlock()
		if gone {
			delete(b.traces, pid)
		}
	}
	return out, nil
}

func (b *shBeacon) close() {
	for _, t := range b.traces {
		_ = t.cmd.Process.Signal(syscall.SIGTERM) // strace lets go of the shell
	}
	for _, t := range b.traces {
		<-t.ended
	}
	b.traces = nil
}

// loginShells are the paths in /etc/shells.
func loginShells() map[string]bool {
	shells := map[string]bool{}
	_ = scanLines("/etc/shells", func(line string) bool {
		if strings.HasPrefix(line, "/") {
			shells[strings.TrimSpace(line)] = true
		}
		return true
	})
	return shells
}

// isShell says whether a process is a shell that a person may type into: one
// that was started by its name alone, not to run a script.
func isShell(pid int, shells map[string]bool) bool {
	p, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return false
	}
	cmd := strings.TrimLeft(strings.TrimRight(strings.ReplaceAll(string(p), "\x00", " "), " "), "-")
	if cmd == "" {
		return false
	}
	for path := range shells {
		if path == cmd || strings.HasSuffix(path, "/"+cmd) {
			return true
		}
	}
	return false
}

// traceShell starts strace on a shell, and a reader that ends with it.
func traceShell(pid int) (*shTrace, error) {
	t := &shTrace{ended: make(chan struct{})}
	var st syscall.Stat_t
	if err := syscall.Stat("/proc/"+strconv.Itoa(pid), &st); err == nil {
		if u, ok := userByID(int(st.Uid)); ok {
			t.user = u.name
		}
	}
	t.cmd = exec.Command("strace", "-f", "-e", "execve", "-p", strconv.Itoa(pid))
	t.cmd.Env = toolEnv()
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	stderr, err := t.cmd.StderrPipe()
	if err == nil {
		err = t.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(t.ended)
		t.read(stderr, strconv.Itoa(pid))
		_ = t.cmd.Wait()
	}()
	return t, nil
}

func (t *shTrace) read(r io.Reader, tag string) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		event := execveEvent(lines.Text())
		if event == nil {
			continue
		}
		event.Set("tag", tag)
		event.Set("user", t.user)
		t.mu.Lock()
		if len(t.seen) < shKept {
			t.seen = append(t.seen, event)
		}
		t.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, r) // a line that was too long must not stop strace
}

// execveEvent reads a line of strace such as
//
//	execve("/bin/ls", ["ls", "-l"], 0x55 /* 20 vars */) = 0
//
// as Salt does: the text between quotes, the first of them the program.
func execveEvent(line string) *Map {
	_, call, ok := strings.Cut(line, "execve")
	if !ok {
		return nil
	}
	event, args := &Map{}, &List{}
	event.Set("args", args)
	for i, part := range strings.Split(call, `"`) {
		switch {
		case i == 1:
			event.Set("cmd", part)
		case i%2 == 1:
			args.Append(part)
		}
	}
	return event
}
