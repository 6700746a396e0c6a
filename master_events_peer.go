// Who reads the event bus. Salt's newest 3006 releases put four bytes of length
// before every event on the bus, all other releases don't, and a reader says
// nothing about itself when it connects.
//
// The law of this room: the kernel says which process is at the other end of a
// Unix socket. If that is a Salt installation whose reader wants the length, it
// gets it; everything else, also what cannot be found out, gets the framing
// without.
package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// eventPeers remembers what the Salt installations of this machine want.
type eventPeers struct {
	mu    sync.Mutex
	known map[string]eventPeerKind // by salt/transport/ipc.py
}

type eventPeerKind struct {
	stamp  int64 // of the file
	length bool
}

func newEventPeers() *eventPeers { return &eventPeers{known: map[string]eventPeerKind{}} }

// peerPID is the process at the other end, 0 if the kernel doesn't tell.
func peerPID(c *net.UnixConn) int {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	raw.Control(func(fd uintptr) {
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}

// peerName is the other end for log lines.
func peerName(c *net.UnixConn) string {
	pid := peerPID(c)
	if pid == 0 {
		return "unknown process"
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return fmt.Sprintf("process %d", pid)
	}
	return fmt.Sprintf("process %d, %s", pid, strings.TrimSpace(string(name)))
}

// wantsLength says whether the reader at the other end expects the length.
func (p *eventPeers) wantsLength(c *net.UnixConn) bool {
	pid := peerPID(c)
	if pid == 0 {
		return false
	}
	for _, dir := range saltPackages(pid) {
		if want, found := p.installation(dir); found {
			return want
		}
	}
	return false
}

// saltPackages lists the directories where the process may have its Salt: beside
// the interpreter or script it was started with, and beside the compiled modules
// that it has loaded.
func saltPackages(pid int) []string {
	var dirs []string
	cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	for i, arg := range bytes.SplitN(cmdline, []byte{0}, 4) {
		if i > 2 || !filepath.IsAbs(string(arg)) {
			continue
		}
		prefix := filepath.Dir(filepath.Dir(string(arg)))
		for _, lib := range []string{"lib/python3*/site-packages", "lib/python3*/dist-packages", "lib/python3/dist-packages"} {
			found, _ := filepath.Glob(filepath.Join(prefix, lib, "salt"))
			dirs = append(dirs, found...)
		}
	}
	maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	for line := range bytes.Lines(maps) {
		at := bytes.IndexByte(line, '/')
		end := bytes.Index(line, []byte("-packages/"))
		if at < 0 || end < at {
			continue
		}
		dir := filepath.Join(string(line[at:end]) + "-packages/salt")
		if len(dirs) == 0 || dirs[len(dirs)-1] != dir {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// installation reads what the Salt in dir expects of the master's bus.
func (p *eventPeers) installation(dir string) (want, found bool) {
	ipc := filepath.Join(dir, "transport", "ipc.py")
	st, err := os.Stat(ipc)
	if err != nil {
		// Without this file there is no reader that wants a length; but it must be
		// a Salt for that to be an answer.
		_, err = os.Stat(filepath.Join(dir, "transport"))
		return false, err == nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	kind, ok := p.known[ipc]
	if !ok || kind.stamp != st.ModTime().UnixNano() {
		reader, _ := os.ReadFile(ipc)
		bus, _ := os.ReadFile(filepath.Join(dir, "utils", "event.py"))
		kind = eventPeerKind{st.ModTime().UnixNano(),
			bytes.Contains(reader, []byte("frame_msg_ipc")) && bytes.Contains(bus, []byte("salt.transport.ipc.IPCMessageSubscriber"))}
		if len(p.known) > 64 {
			clear(p.known)
		}
		p.known[ipc] = kind
	}
	return kind.length, true
}

// masterWantsLength says whether the master that reads events at the other end
// of its pull socket expects the length before each. Halite's takes both; of
// Salt's the newest release of every line does, and old ones don't.
func masterWantsLength(c *net.UnixConn) bool {
	for _, dir := range saltPackages(peerPID(c)) {
		if frames, err := os.ReadFile(filepath.Join(dir, "transport", "frame.py")); err == nil {
			return bytes.Contains(frames, []byte(`struct.pack(">I"`))
		}
	}
	return true
}
