// The demonstration: a master and three minions on this machine, real commands
// with their output, and everything gone again at the end.
//
// The law of this room: the demo is a user of the product and nothing else. It
// starts this same executable under the names of the programs, writes its
// configuration into a directory of its own, takes free ports, and shows each
// command line as a person would type it. Only --keep leaves something behind.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// demoPatience bounds each wait of the demo for a fact.
const demoPatience = 60 * time.Second

var demoMinions = [...]string{"alpha", "beta", "gamma"}

// demo is one run.
type demo struct {
	exe, root string
	std       Stdio
	ports     []int // publish, requests
	daemons   map[string]*exec.Cmd
}

func appletDemo(args []string, std Stdio) int {
	keep := false
	for _, a := range args {
		switch a {
		case "--keep":
			keep = true
		case "-h", "--help":
			fmt.Fprint(std.Out, "Usage: halite demo [--keep]\n\nStart a master and three minions on this machine under a directory of their own,\nrun some commands, and end it all. --keep leaves it running and says how to use it.\n")
			return 0
		default:
			fmt.Fprintf(std.Err, "halite demo: unknown argument %q (only --keep)\n", a)
			return exitUsage
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	d := &demo{std: std, daemons: map[string]*exec.Cmd{}}
	err := d.run(ctx, keep)
	if err == nil && keep {
		d.leave()
		return 0
	}
	d.end()
	if err != nil {
		fmt.Fprintf(std.Err, "halite demo: %v\n", err)
		return 1
	}
	return 0
}

func (d *demo) run(ctx context.Context, keep bool) (err error) {
	if d.exe, err = os.Executable(); err != nil {
		return err
	}
	// The path must be short: unix sockets below it are limited to about 100 bytes.
	if d.root, err = os.MkdirTemp("/tmp", "halite-demo-"); err != nil {
		return err
	}
	if err := d.configure(); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	fmt.Fprintf(d.std.Out, "A master and %d minions below %s\n\n", len(demoMinions), d.root)
	if err := d.start("salt-master", "master", d.etc()); err != nil {
		return err
	}
	if err := d.waitPorts(ctx); err != nil {
		return err
	}
	for _, id := range demoMinions {
		if err := d.start("salt-minion", id, filepath.Join(d.etc(), id)); err != nil {
			return err
		}
	}
	if err := d.wait(ctx, "the minions' keys", func() bool {
		for _, id := range demoMinions {
			if _, err := os.Stat(filepath.Join(d.root, "master/pki/minions_pre", id)); err != nil {
				return false
			}
		}
		return true
	}); err != nil {
		return err
	}
	if err := d.show(ctx, 0, "salt-key", "-A", "-y"); err != nil {
		return err
	}
	if err := d.wait(ctx, "the minions' answers", func() bool {
		out, _ := d.quiet(ctx, "salt", "-t", "2", "--static", "--out=json", "*", "test.ping")
		return bytes.Count(out, []byte(": true")) == len(demoMinions)
	}); err != nil {
		return err
	}
	if err := d.show(ctx, 0, "salt", "*", "test.ping"); err != nil {
		return err
	}
	if err := d.show(ctx, 0, "salt", "*", "cmd.run", "uptime"); err != nil {
		return err
	}
	out, err := d.quiet(ctx, "salt", "--out=newline_values_only", demoMinions[0], "grains.get", "os")
	if err != nil {
		return fmt.Errorf("ask for the system: %w", err)
	}
	if err := d.show(ctx, 0, "salt", "-G", "os:"+strings.TrimSpace(string(out)), "grains.item", "os"); err != nil {
		return err
	}
	if keep {
		return nil
	}
	last := demoMinions[len(demoMinions)-1]
	fmt.Fprintf(d.std.Out, "# now %s is killed\n", last)
	d.kill(last)
	return d.show(ctx, 1, "salt", "-t", "2", "*", "test.ping")
}

func (d *demo) etc() string { return filepath.Join(d.root, "etc") }

// configure writes the files of the master and the minions.
func (d *demo) configure() error {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	d.ports = ports
	master := fmt.Sprintf("interface: 127.0.0.1\npublish_port: %d\nret_port: %d\nroot_dir: %s/master\npki_dir: %[3]s/master/pki\ncachedir: %[3]s/master/cache\nsock_dir: %[3]s/run\nlog_file: %[3]s/master/log\npidfile: %[3]s/master/pid\ngather_job_timeout: 2\nfile_roots:\n  base: [%[3]s/srv]\n",
		ports[0], ports[1], d.root)
	if err := d.write("etc/master", master); err != nil {
		return err
	}
	for _, id := range demoMinions {
		minion := fmt.Sprintf("master: 127.0.0.1\nmaster_port: %d\npublish_port: %d\nid: %s\nroot_dir: %s/%[3]s\npki_dir: %[4]s/%[3]s/pki\ncachedir: %[4]s/%[3]s/cache\nsock_dir: %[4]s/%[3]s/run\nlog_file: %[4]s/%[3]s/log\npidfile: %[4]s/%[3]s/pid\nacceptance_wait_time: 1\n",
			ports[1], ports[0], id, d.root)
		if err := d.write("etc/"+id+"/minion", minion); err != nil {
			return err
		}
	}
	return d.write("srv/hello.txt", "hello from the master\n")
}

func (d *demo) write(name, text string) error {
	path := filepath.Join(d.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// freePorts finds n ports of the loopback that nobody listens on.
func freePorts(n int) ([]int, error) {
	var out []int
	for len(out) < n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // only at the end, so that no port comes twice
		out = append(out, l.Addr().(*net.TCPAddr).Port)
	}
	return out, nil
}

// start begins a daemon in a process group of its own.
func (d *demo) start(program, name, conf string) error {
	log, err := os.Create(filepath.Join(d.root, name+".out"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(d.exe, program, "-c", conf)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	d.daemons[name] = cmd
	return nil
}

// waitPorts waits until the master listens.
func (d *demo) waitPorts(ctx context.Context) error {
	for _, port := range d.ports {
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		if err := d.wait(ctx, "the master on "+addr, func() bool {
			c, err := net.DialTimeout("tcp", addr, time.Second)
			if err == nil {
				c.Close()
			}
			return err == nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// wait polls for a fact; a daemon that ended meanwhile is an error at once.
func (d *demo) wait(ctx context.Context, what string, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s\n%s", what, d.logs())
		case <-tick.C:
		}
	}
}

// logs is what the daemons wrote, for an error.
func (d *demo) logs() string {
	var b strings.Builder
	for name := range d.daemons {
		text, _ := os.ReadFile(filepath.Join(d.root, name+".out"))
		fmt.Fprintf(&b, "--- %s\n%s", name, text)
	}
	return b.String()
}

func (d *demo) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, d.exe, append([]string{program, "-c", d.etc()}, args...)...)
}

func (d *demo) quiet(ctx context.Context, program string, args ...string) ([]byte, error) {
	return d.command(ctx, program, args...).Output()
}

// show prints a command line, runs it, and prints what it prints. want is the
// exit code that belongs to the story.
func (d *demo) show(ctx context.Context, want int, program string, args ...string) error {
	line := "$ " + program + " -c " + d.etc()
	for _, a := range args {
		if strings.ContainsAny(a, "*? ") {
			a = "'" + a + "'"
		}
		line += " " + a
	}
	fmt.Fprintln(d.std.Out, line)
	cmd := d.command(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = d.std.Out, d.std.Err
	err := cmd.Run()
	fmt.Fprintln(d.std.Out)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code, err = exit.ExitCode(), nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", line, err)
	}
	if code != want {
		return fmt.Errorf("%s ended with %d, not with %d\n%s", line, code, want, d.logs())
	}
	return nil
}

func (d *demo) kill(name string) {
	cmd := d.daemons[name]
	if cmd == nil {
		return
	}
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	cmd.Wait()
	delete(d.daemons, name)
}

// end stops the daemons and removes the directory.
func (d *demo) end() {
	for _, cmd := range d.daemons {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	}
	for name, cmd := range d.daemons {
		done := make(chan struct{})
		go func() { // ends with the daemon, which the SIGKILL below makes sure of
			cmd.Wait()
			close(done)
		}()
		select {
		case <-done:
			delete(d.daemons, name)
		case <-time.After(5 * time.Second):
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-done
		}
	}
	if d.root != "" {
		os.RemoveAll(d.root)
	}
}

// leave says how to use what goes on running.
func (d *demo) leave() {
	var pids []string
	for _, cmd := range d.daemons {
		pids = append(pids, fmt.Sprint(cmd.Process.Pid))
	}
	io.WriteString(d.std.Out, fmt.Sprintf(`Everything goes on running. Try:
  %s salt -c %s '*' test.version
  %[1]s salt-key -c %[2]s -L
  %[1]s salt-call -c %[2]s/alpha grains.items
End it with:
  kill %s && rm -r %s
`, d.exe, d.etc(), strings.Join(pids, " "), d.root))
}
