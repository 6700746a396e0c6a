// Interoperation: this build against Python Salt, in both directions, for every
// line of Salt that is installed. HALITE_SALT_VENVS names the virtual
// environments (a list with colons); without it there is nothing to talk to and
// the tests are skipped.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// side is one implementation of the programs.
type side struct {
	name string
	dir  string // holds salt, salt-master …
	slow bool   // Python: a second for each command
}

// pythonSides lists the installed lines of Python Salt.
func pythonSides(t *testing.T) []side {
	t.Helper()
	var out []side
	for _, venv := range filepath.SplitList(os.Getenv("HALITE_SALT_VENVS")) {
		text, err := exec.Command(filepath.Join(venv, "bin/salt"), "--version").Output()
		if err != nil {
			t.Fatalf("%s of HALITE_SALT_VENVS has no working salt: %v", venv, err)
		}
		version := strings.Fields(string(text))[1]
		out = append(out, side{name: version, dir: filepath.Join(venv, "bin"), slow: true})
	}
	if len(out) == 0 {
		t.Skip("no Python Salt: set HALITE_SALT_VENVS to virtual environments with salt installed")
	}
	return out
}

// ourSide builds the product once for a test.
func ourSide(t testing.TB) side {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "halite")
	cmd := exec.Command("go", "build", "-o", bin, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	if out, err := exec.Command(bin, "install", dir).CombinedOutput(); err != nil {
		t.Fatalf("halite install: %v\n%s", err, out)
	}
	return side{name: "halite", dir: dir}
}

// pair is a master of one side with a minion of the other.
type pair struct {
	t              *testing.T
	master, minion side
	root           string
	ports          []int
	procs          map[string]*exec.Cmd
}

const interopMinion = "interop1"

func newPair(t *testing.T, master, minion side) *pair {
	t.Helper()
	root, err := os.MkdirTemp("/tmp", "hi-") // short: there are unix sockets below
	if err != nil {
		t.Fatal(err)
	}
	ports, err := freePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{t: t, master: master, minion: minion, root: root, ports: ports, procs: map[string]*exec.Cmd{}}
	t.Cleanup(p.end)
	p.file("etc/master", fmt.Sprintf("interface: 127.0.0.1\npublish_port: %d\nret_port: %d\nuser: root\nroot_dir: %s/master\npki_dir: %[3]s/master/pki\ncachedir: %[3]s/master/cache\nsock_dir: %[3]s/run\nlog_file: %[3]s/master.log\npidfile: %[3]s/master.pid\nworker_threads: 3\nloop_interval: 1\ngather_job_timeout: 5\ntimeout: 10\nfile_recv: True\nmax_event_size: 20000000\nfile_roots:\n  base: [%[3]s/srv]\npillar_roots:\n  base: [%[3]s/pillar]\npeer:\n  .*:\n    - test.*\next_pillar:\n  - mine: {number: 7}\n", ports[0], ports[1], root))
	p.file("etc/m/minion", fmt.Sprintf("master: 127.0.0.1\nmaster_port: %d\npublish_port: %d\nid: %s\nuser: root\nroot_dir: %s/minion\npki_dir: %[4]s/minion/pki\ncachedir: %[4]s/minion/cache\nsock_dir: %[4]s/minion/run\nlog_file: %[4]s/minion.log\npidfile: %[4]s/minion.pid\nacceptance_wait_time: 1\nrandom_reauth_delay: 1\nrecon_default: 100\nmax_event_size: 20000000\nrecon_max: 500\nmine_functions:\n  test.echo:\n    - from the mine\n", ports[1], ports[0], interopMinion, root))
	p.file("pillar/top.sls", "base:\n  '*':\n    - common\n")
	p.file("pillar/common.sls", "who: {{ grains['id'] }}\nnested:\n  list: [1, two, 3.5]\n")
	p.file("srv/hello.txt", "hello\n")
	return p
}

func (p *pair) file(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pair) start(name string, s side, program, conf string) {
	p.t.Helper()
	log, err := os.OpenFile(filepath.Join(p.root, name+".out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(s.dir, program), "-c", filepath.Join(p.root, conf), "-l", "info")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.procs[name] = cmd
}

func (p *pair) kill(name string) {
	if cmd := p.procs[name]; cmd != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		delete(p.procs, name)
	}
}

func (p *pair) end() {
	for name := range p.procs {
		p.kill(name)
	}
	if p.t.Failed() {
		for _, name := range []string{"master", "minion"} {
			text, _ := os.ReadFile(filepath.Join(p.root, name+".out"))
			p.t.Logf("--- %s\n%s", name, text[max(0, len(text)-6000):])
		}
	}
	os.RemoveAll(p.root)
}

// up starts both, accepts the key and waits for the first ping.
func (p *pair) up() {
	p.t.Helper()
	p.start("master", p.master, "salt-master", "etc")
	p.waitPort()
	p.start("minion", p.minion, "salt-minion", "etc/m")
	p.eventually("the key of the minion", func() error {
		_, err := os.Stat(filepath.Join(p.root, "master/pki/minions_pre", interopMinion))
		return err
	})
	if out, code := p.run("salt-key", "-A", "-y"); code != 0 {
		p.t.Fatalf("salt-key -A: %d\n%s", code, out)
	}
	p.pings()
}

func (p *pair) waitPort() {
	p.t.Helper()
	for _, port := range p.ports {
		p.eventually(fmt.Sprintf("port %d", port), func() error {
			c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err == nil {
				c.Close()
			}
			return err
		})
	}
}

func (p *pair) eventually(what string, f func() error) {
	p.t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("waited in vain for %s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// run runs a program of the master's side.
func (p *pair) run(program string, args ...string) (string, int) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(p.master.dir, program), append([]string{"-c", filepath.Join(p.root, "etc")}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if out.Len() == 0 {
			return errs.String(), exit.ExitCode()
		}
		return out.String(), exit.ExitCode()
	}
	if err != nil {
		return err.Error(), -1
	}
	return out.String(), 0
}

// ask runs a function on the minion and returns its result.
func (p *pair) ask(args ...string) (any, int) {
	p.t.Helper()
	out, code := p.run("salt", append([]string{"--out=json", interopMinion}, args...)...)
	v, err := DecodeJSON([]byte(out))
	if err != nil {
		return fmt.Sprintf("no JSON: %s", out), code
	}
	m, _ := v.(*Map)
	return m.Value(interopMinion), code
}

func (p *pair) want(want string, args ...string) {
	p.t.Helper()
	if got, code := p.ask(args...); Repr(got) != want || code != 0 {
		p.t.Errorf("%v: got %.300s, exit code %d; want %s", args, Repr(got), code, want)
	}
}

// pings waits until the minion answers.
func (p *pair) pings() {
	p.t.Helper()
	p.eventually("an answer of the minion", func() error {
		got, _ := p.ask("-t", "3", "test.ping")
		if got != true {
			return fmt.Errorf("got %s", Repr(got))
		}
		return nil
	})
}

// TestInteroperation is the matrix: each line of Python Salt as master over our
// minion, and as minion under our master.
func TestInteroperation(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes: not in the short run")
	}
	lines := pythonSides(t)
	ours := ourSide(t)
	for _, line := range lines {
		t.Run("master "+line.name, func(t *testing.T) { interoperate(t, newPair(t, line, ours)) })
		t.Run("minion "+line.name, func(t *testing.T) { interoperate(t, newPair(t, ours, line)) })
	}
}

func interoperate(t *testing.T, p *pair) {
	p.ownFiles()
	p.up()
	step := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			outer := p.t
			p.t = t
			defer func() { p.t = outer }()
			f(t)
		})
	}
	step("ping", func(*testing.T) { p.want("True", "test.ping") })
	step("cmd.run", func(*testing.T) { p.want("'one\\ntwo'", "cmd.run", "printf 'one\\ntwo\\n'", "python_shell=True") })
	step("keyword arguments", func(t *testing.T) {
		got, _ := p.ask("test.arg", "1", "two", "3.5", "txt=hello", "wow={a: [1, null, true]}")
		m, _ := got.(*Map)
		kw := m.Map("kwargs")
		if Repr(m.Value("args")) != "[1, 'two', 3.5]" || kw.Str("txt") != "hello" || Repr(kw.Value("wow")) != "{'a': [1, None, True]}" ||
			kw.Str("__pub_fun") != "test.arg" {
			t.Errorf("got %s", Repr(got))
		}
	})
	step("unicode and bytes", func(*testing.T) { p.want("'grün ✓ 日本'", "test.echo", "grün ✓ 日本") })
	step("several functions", func(*testing.T) {
		p.want("{'test.ping': True, 'test.echo': 'hi'}", "test.ping,test.echo", ",", "hi")
	})
	step("a failing command", func(t *testing.T) {
		if got, code := p.ask("cmd.run", "echo no; exit 7", "python_shell=True"); got != "no" || code != 1 {
			t.Errorf("got %s, exit code %d", Repr(got), code)
		}
		if got, _ := p.ask("cmd.retcode", "exit 7", "python_shell=True"); got != int64(7) {
			t.Errorf("retcode: %s", Repr(got))
		}
	})
	step("an unknown function", func(t *testing.T) {
		if got, code := p.ask("no.such"); got != "'no.such' is not available." || code != 1 {
			t.Errorf("got %s, exit code %d", Repr(got), code)
		}
	})
	step("a return of 5 MB", func(t *testing.T) {
		got, _ := p.ask("cmd.run", `head -c 5000000 /dev/zero | tr '\0' x`, "python_shell=True")
		if s, _ := got.(string); s != strings.Repeat("x", 5000000) {
			t.Errorf("got %d bytes: %.200s", len(s), Repr(got))
		}
	})
	step("modules of one's own", func(t *testing.T) { p.ownModules(t) })
	step("renderers, pillars, returners, outputters and runners of one's own", func(t *testing.T) { p.ownKinds(t) })
	step("a file of 100 MB", func(t *testing.T) { p.bigFile(t) })
	step("pillar", func(*testing.T) {
		p.want("True", "saltutil.refresh_pillar", "wait=True")
		// Through a template: 3008 hides the values in what pillar.get shows.
		p.want("'interop1 two 3.5'", "cmd.run", "echo {{ pillar.who }} {{ pillar.nested.list[1] }} {{ pillar['nested']['list'][2] }}",
			"template=jinja", "python_shell=True")
	})
	step("mine", func(*testing.T) {
		p.want("True", "mine.update")
		p.want("{'interop1': 'from the mine'}", "mine.get", "*", "test.echo")
	})
	step("publish.publish", func(*testing.T) {
		p.want("{'interop1': 'hi'}", "publish.publish", "*", "test.echo", "hi")
	})
	step("find_job and kill_job", func(t *testing.T) {
		out, _ := p.run("salt", "--async", interopMinion, "test.sleep", "600")
		fields := strings.Fields(out)
		if len(fields) == 0 || ValidJID(fields[len(fields)-1]) != nil {
			t.Fatalf("--async printed %q", out)
		}
		jid := fields[len(fields)-1]
		p.eventually("the running job", func() error {
			got, _ := p.ask("saltutil.find_job", jid)
			if m, ok := got.(*Map); !ok || m.Str("fun") != "test.sleep" {
				return fmt.Errorf("got %s", Repr(got))
			}
			return nil
		})
		if got, _ := p.ask("saltutil.kill_job", jid); !strings.HasPrefix(Str(got), "Signal 9 sent to job "+jid) {
			t.Errorf("kill_job: %s", Repr(got))
		}
		p.eventually("the end of the job", func() error {
			got, _ := p.ask("saltutil.find_job", jid)
			if m, ok := got.(*Map); !ok || m.Len() != 0 {
				return fmt.Errorf("got %s", Repr(got))
			}
			return nil
		})
	})
	step("rotation of the master's key", func(t *testing.T) {
		key, err := os.ReadFile(filepath.Join(p.root, "master/pki/minions", interopMinion))
		if err != nil {
			t.Fatal(err)
		}
		p.file("master/pki/minions/gone", string(key))
		if out, code := p.run("salt-key", "-d", "gone", "-y"); code != 0 {
			t.Fatalf("salt-key -d: %d\n%s", code, out)
		}
		p.pings()
		p.pings()
	})
	step("restart of the master", func(*testing.T) {
		p.kill("master")
		p.start("master", p.master, "salt-master", "etc")
		p.waitPort()
		p.pings()
		p.want("'again'", "test.echo", "again")
	})
}

// ownModules walks through a module that a user writes, word for word: from the
// file server to its first call, its documentation, and one that calls another
// module. Both files are there from the start: a Python master lists its files
// anew only every 20 seconds.
func (p *pair) ownModules(t *testing.T) {
	shows := func(want string, args ...string) {
		t.Helper()
		out, code := p.run("salt", append([]string{"*"}, args...)...)
		if !strings.HasPrefix(out, want) || code != 0 {
			t.Errorf("salt '*' %s: exit code %d\n%s\nwant\n%s", strings.Join(args, " "), code, out, want)
		}
	}
	all := func(args ...string) string {
		out, _ := p.run("salt", append([]string{"*"}, args...)...)
		return out
	}
	shows("interop1:\n    - modules.adds\n    - modules.haha\n", "saltutil.sync_modules")
	shows("interop1:\n    ----------\n    beacons:\n    clouds:\n    engines:\n", "saltutil.sync_all")
	shows("interop1:\n    hello,boy!\n", "haha.hello")
	if found, _ := filepath.Glob(filepath.Join(p.root, "minion/var/cache/salt/minion/extmods/modules/haha.py")); len(found) != 1 {
		t.Error("haha.py is not below extmods/modules of the minion's cache")
	}
	if out := all("sys.list_functions", "saltutil"); !strings.Contains(out, "    - saltutil.sync_modules\n") || !strings.Contains(out, "    - saltutil.clear_cache\n") {
		t.Errorf("sys.list_functions saltutil:\n%s", out)
	}
	if out := all("sys.doc", "saltutil.sync_modules"); !strings.HasPrefix(out, "saltutil.sync_modules:\n") {
		t.Errorf("sys.doc saltutil.sync_modules:\n%s", out)
	}
	if out := all("sys.doc", "adds"); !strings.HasPrefix(out, "adds.user:\n") || !strings.Contains(out, "Add a user.") {
		t.Errorf("sys.doc adds:\n%s", out)
	}
	shows("interop1:\n    - haha.hello\n", "sys.list_functions", "haha")
	if os.Geteuid() != 0 {
		t.Log("adding a user needs root: left out")
		return
	}
	name := fmt.Sprintf("hi%d", p.ports[0])
	defer exec.Command("userdel", name).Run()
	p.want("{'retcode': 0, 'there': True}", "adds.user", name)
}

// ownFiles are the files of the user that the steps below need.
func (p *pair) ownFiles() {
	p.file("srv/_modules/haha.py", "def hello():\n    return 'hello,boy!'\n")
	p.file("srv/_modules/adds.py", `def user(name):
    """Add a user."""
    cmd = ['useradd', '-M', name]
    ret = __salt__['cmd.run_all'](cmd, python_shell=False)
    return {'retcode': ret['retcode'], 'there': __salt__['cmd.retcode'](['id', name], python_shell=False) == 0}
`)
	p.file("srv/_renderers/upper.py", "def render(data, saltenv='base', sls='', **kwargs):\n    return data.read().partition('\\n')[2].upper()\n")
	p.file("srv/loud.sls", "#!upper|yaml\nloud:\n  test.nop: []\n")
	p.file("srv/_pillar/mine.py", "def ext_pillar(minion_id, pillar, number):\n    return {'external': '%s has %d' % (minion_id, number)}\n")
	p.file("srv/_runners/own.py", "def hello():\n    return 'hello from the master'\n")
	p.file("srv/_output/shout.py", "def output(data, **kwargs):\n    return ' '.join('%s: %s!' % (k, v) for k, v in data.items()).upper()\n")
	p.file("srv/_returners/paper.py", `import json


def returner(ret):
    with open(__opts__['root_dir'] + '/paper', 'a') as f:
        f.write(json.dumps(ret) + '\n')
`)
}

// ownKinds runs what users write for the other rooms, on whichever side it runs.
func (p *pair) ownKinds(t *testing.T) {
	p.ask("saltutil.sync_all")
	out, code := p.run("salt-run", "saltutil.sync_all", "--out=json")
	for _, name := range []string{"renderers.upper", "pillar.mine", "runners.own", "output.shout", "returners.paper"} {
		if !strings.Contains(out, `"`+name+`"`) || code != 0 {
			t.Errorf("salt-run saltutil.sync_all lacks %s, exit code %d:\n%s", name, code, out)
		}
	}
	if out, _ := p.run("salt-run", "own.hello", "--out=txt"); strings.TrimSpace(out) != "hello from the master" {
		t.Errorf("own.hello: %s", out)
	}
	if out, _ := p.run("salt", "*", "test.echo", "quiet", "--out=shout"); out != "INTEROP1: QUIET!\n" {
		t.Errorf("--out=shout: %q", out)
	}
	p.want("True", "saltutil.refresh_pillar", "wait=True")
	p.want("'interop1 has 7'", "cmd.run", "echo {{ pillar.external }}", "template=jinja", "python_shell=True")
	if got, _ := p.ask("state.show_sls", "loud"); !strings.Contains(Repr(got), "'LOUD'") {
		t.Errorf("state.show_sls through a renderer of one's own: %s", Repr(got))
	}
	p.want("'on paper'", "test.echo", "on paper", "--return=paper")
	p.eventually("the file of the returner", func() error {
		text, err := os.ReadFile(filepath.Join(p.root, "minion/paper"))
		if err == nil && !strings.Contains(string(text), "on paper") {
			err = fmt.Errorf("got %s", text)
		}
		return err
	})
}

// bigFile brings a file of 100 MB over and compares it.
func (p *pair) bigFile(t *testing.T) {
	block := make([]byte, 1<<20)
	f, err := os.Create(filepath.Join(p.root, "srv/big"))
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		rand.Read(block)
		if _, err := f.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	dest := filepath.Join(p.root, "got")
	p.want(Repr(dest), "-t", "60", "cp.get_file", "salt://big", dest)
	want, _ := hashFile(filepath.Join(p.root, "srv/big"), "sha256")
	if got, err := hashFile(dest, "sha256"); got != want || err != nil {
		t.Errorf("the copy has the hash %s (%v), the original %s", got, err, want)
	}
	os.Remove(dest)
	os.Remove(filepath.Join(p.root, "srv/big"))
}
