// User-written modules in Python and Starlark: calls, errors, and an end with
// the job.
package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// customBox is a minion's worth of user-written modules in a scratch directory.
type customBox struct {
	t    *testing.T
	dir  string
	log  *bytes.Buffer
	env  *Env
	mods *Customs
}

func newCustomBox(t *testing.T, opts ...any) *customBox {
	t.Helper()
	dir := t.TempDir()
	b := &customBox{t: t, dir: filepath.Join(dir, "extmods"), log: &bytes.Buffer{}}
	m := NewMap("id", "box", "cachedir", dir, "extension_modules", b.dir)
	m.Merge(NewMap(opts...))
	o := NewOptions(m)
	b.mods = NewCustoms(o)
	t.Cleanup(b.mods.Close)
	b.env = &Env{Opts: o, Grains: NewMap("os", "Testix"), Pillar: NewMap("secret", "s3"), Loader: NewLoader(o, b.mods),
		Log: slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	return b
}

func (b *customBox) file(kind, name, text string) {
	b.t.Helper()
	dir := filepath.Join(b.dir, kind)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *customBox) run(name string, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	return NewCall(b.env, name, "", nil).Run(ctx, name, args...)
}

func (b *customBox) want(want string, name string, args ...any) {
	b.t.Helper()
	got, err := b.run(name, args...)
	text := Repr(got)
	if err != nil {
		text = JobErrorText(name, err, "")
	}
	if text != want {
		b.t.Errorf("%s: got %s, want %s\nlog: %s", name, text, want, b.log)
	}
}

func needPython(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3 on this machine: the Python host cannot run")
	}
}

const hahaModule = `"""Greets."""
import logging
from salt.exceptions import CommandExecutionError, SaltInvocationError
import salt.utils.path
import salt.utils.yaml

log = logging.getLogger(__name__)
__func_alias__ = {"set_": "set"}


def hello():
    """Say hello."""
    return 'hello,boy!'


def set_(a, b=2, *rest, **kw):
    return [a, b, list(rest), {k: v for k, v in kw.items() if not k.startswith("__pub")}]


def kinds():
    return {"bytes": b"\xff\x00", "tuple": (1, "x"), "big": 2 ** 70, 1: "int key", "none": None, "f": 1.0, "u": "gr\u00fcn"}


def echo(v):
    return v


def cross(text):
    log.warning("crossing %s", text)
    return __salt__['test.echo'](text=text)


def dunders():
    return [__grains__['os'], __pillar__['secret'], __opts__['id'], 'test.ping' in __salt__, 'no.such' in __salt__]


def code(n):
    __context__['retcode'] = n
    return 'done'


def seen():
    return __context__.get('retcode')


def fails(kind):
    if kind == 'cee':
        raise CommandExecutionError('boom')
    if kind == 'sie':
        raise SaltInvocationError('boom')
    if kind == 'exit':
        raise SystemExit(3)
    if kind == 'hard':
        import os
        os._exit(7)
    if kind == 'crash':
        import os, signal
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == 'key':
        return __salt__['no.such']()
    if kind == 'through':
        return __salt__['test.echo'](1, 2, 3)
    raise ValueError('boom')


def prints():
    print('this must not disturb anything')
    return 'printed'


def pid():
    import os
    return os.getpid()


def forever():
    import subprocess
    subprocess.call(['sleep', '600'])


def yaml(text):
    return salt.utils.yaml.safe_load(text)


def _private():
    return 'never'
`

func TestPythonModule(t *testing.T) {
	needPython(t)
	b := newCustomBox(t)
	b.file("modules", "haha.py", hahaModule)
	b.want("'hello,boy!'", "haha.hello")
	b.want("[1, 2, [], {}]", "haha.set", int64(1))
	b.want("[1, 3, ['x'], {}]", "haha.set", int64(1), int64(3), "x")
	b.want("Passed invalid arguments to haha.set: set_() missing 1 required positional argument: 'a'\n", "haha.set")
	b.want("{'bytes': b'\\xff\\x00', 'tuple': (1, 'x'), 'big': 1180591620717411303424, 1: 'int key', 'none': None, 'f': 1.0, 'u': 'grün'}", "haha.kinds")
	b.want("'over there'", "haha.cross", "over there")
	b.want("['Testix', 's3', 'box', True, False]", "haha.dunders")
	b.want("'printed'", "haha.prints")
	b.want("{'a': [1, True], 'b': 644}", "haha.yaml", "a: [1, yes]\nb: 0644\n")
	b.want("'haha._private' is not available.", "haha._private")
	if !strings.Contains(b.log.String(), "crossing over there") {
		t.Errorf("the module's log line is missing: %s", b.log)
	}
	every := NewMap("t", Tuple{int64(1)}, "l", NewList(nil, true, 2.5), "m", NewMap(int64(1), "x"))
	b.want(Repr(every), "haha.echo", every)
	f, err := b.env.Loader.Function(context.Background(), NewCall(b.env, "", "", nil), "haha.hello")
	if err != nil || f.Doc() != "Say hello." {
		t.Errorf("documentation: %v %v", f, err)
	}
}

func TestPythonModuleErrors(t *testing.T) {
	needPython(t)
	b := newCustomBox(t)
	b.file("modules", "haha.py", hahaModule)
	b.want("ERROR: boom", "haha.fails", "cee")
	b.want("ERROR executing 'haha.fails': boom", "haha.fails", "sie")
	b.want("ERROR: modules.fails: its process ended without an answer", "haha.fails", "hard")
	b.want("ERROR: modules.fails: its process ended without an answer", "haha.fails", "crash")
	for kind, last := range map[string]string{"exit": "SystemExit: 3\n", "key": "KeyError: 'no.such'\n", "value": "ValueError: boom\n"} {
		_, err := b.run("haha.fails", kind)
		text := JobErrorText("haha.fails", err, "")
		if !strings.HasPrefix(text, "The minion function caused an exception: Traceback (most recent call last):\n") || !strings.HasSuffix(text, last) {
			t.Errorf("%s: %s", kind, text)
		}
	}
	b.want("Passed invalid arguments to haha.fails: echo() takes 1 positional argument but 3 were given\n", "haha.fails", "through")
	b.want("'hello,boy!'", "haha.hello") // and the host lives on
}

func TestPythonContextIsShared(t *testing.T) {
	needPython(t)
	b := newCustomBox(t)
	b.file("modules", "haha.py", hahaModule)
	c := NewCall(b.env, "haha.code", "", nil)
	if _, err := c.Run(context.Background(), "haha.code", int64(9)); err != nil {
		t.Fatal(err)
	}
	if v, _ := c.ContextGet("retcode"); v != int64(9) {
		t.Errorf("retcode is %v, want 9", v)
	}
	if v, err := c.Run(context.Background(), "haha.seen"); v != int64(9) || err != nil {
		t.Errorf("the next call sees %v, %v", v, err)
	}
}

func TestKillingAJobEndsItsProcesses(t *testing.T) {
	needPython(t)
	b := newCustomBox(t)
	b.file("modules", "haha.py", hahaModule)
	b.want("'hello,boy!'", "haha.hello")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := NewCall(b.env, "haha.forever", "", nil).Run(ctx, "haha.forever")
		done <- err
	}()
	waitFor(t, "the sleeping child", func() bool { return childSleeps(b.mods.host) })
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the call ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the call did not end")
	}
	waitFor(t, "the end of the child", func() bool { return !childSleeps(b.mods.host) })
}

// childSleeps says whether a process "sleep 600" descends from the host.
func childSleeps(h *pythonHost) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cmd == nil {
		return false
	}
	procs, _ := filepath.Glob("/proc/[0-9]*/stat")
	parent, sleeps := map[string]string{}, []string{}
	for _, p := range procs {
		text, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		pid, rest, _ := strings.Cut(string(text), " (")
		i := strings.LastIndex(rest, ") ")
		if i < 0 {
			continue
		}
		fields := strings.Fields(rest[i+2:])
		parent[pid] = fields[1]
		if rest[:i] == "sleep" && fields[0] != "Z" {
			sleeps = append(sleeps, pid)
		}
	}
	host := Repr(int64(h.cmd.Process.Pid))
	for _, pid := range sleeps {
		for p := pid; p != "" && p != "0"; p = parent[p] {
			if p == host {
				return true
			}
		}
	}
	return false
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A file that misbehaves costs nobody else, and its name is in the answer.
func TestBrokenFilesCostNobodyElse(t *testing.T) {
	needPython(t)
	for name, tc := range map[string]struct{ text, want string }{
		"hangs at import":        {"import time\nwhile True:\n    time.sleep(1)\n", "the import did not end within"},
		"ends the process":       {"import os\nos._exit(1)\n", "the import ended the Python process"},
		"raises at import":       {"raise ValueError('no')\n", "no"},
		"exits at import":        {"import sys\nsys.exit(0)\n", "0"},
		"is binary":              {"\x00\x01\x02\xff", "null bytes"},
		"has a syntax error":     {"def f(:\n", "invalid syntax"},
		"refuses":                {"def __virtual__():\n    return (False, 'not for this box')\n", "not for this box"},
		"imports what is absent": {"import salt.modules.network\n", "salt.modules"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newCustomBox(t)
			if name == "hangs at import" {
				b = newCustomBox(t, "custom_load_timeout", int64(3))
			}
			b.file("modules", "bad.py", tc.text)
			b.file("modules", "haha.py", hahaModule)
			_, err := b.run("bad.f")
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "'bad' __virtual__ returned False") {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			b.want("'hello,boy!'", "haha.hello")
		})
	}
}

// Printing and forking at import disturb nothing.
func TestImportSideEffects(t *testing.T) {
	needPython(t)
	b := newCustomBox(t)
	b.file("modules", "noisy.py", "import os, sys\nprint('noise at import')\nsys.stdout.write('y')\nos.write(1, b'z')\npid = os.fork()\nif pid == 0:\n    pass\n\n\ndef f():\n    return 'ok'\n")
	b.want("'ok'", "noisy.f")
	b.want("'ok'", "noisy.f")
}

func TestVirtualNamesAndOverriding(t *testing.T) {
	needPython(t)
	b := newCustomBox(t)
	b.file("modules", "mypkg.py", "__virtualname__ = 'pkgs'\n\ndef __virtual__():\n    return __virtualname__ if __grains__['os'] == 'Testix' else False\n\ndef list_():\n    return ['a']\n\n__func_alias__ = {'list_': 'list'}\n")
	b.file("modules", "test.py", "def ping():\n    return 'mine'\n")
	b.want("['a']", "pkgs.list")
	b.want("'mypkg.list' is not available.", "mypkg.list")
	b.want("'mine'", "test.ping") // a user's file hides the built-in one of its name
	b.want("'test.echo' is not available.", "test.echo", "x")
	b.file("modules", "mygrains.py", "__virtualname__ = 'grains'\n\ndef get(key):\n    return 'mine'\n\ndef more():\n    return 'joined'\n")
	b.file("modules", "pkg.py", "def latest():\n    return 'mine'\n")
	b.mods.Refresh()
	b.env.Loader = NewLoader(b.env.Opts, b.mods)
	b.want("'joined'", "grains.more")      // under a built-in name its functions join the others,
	b.want("'Testix'", "grains.get", "os") // and the file of that name comes first
}

func TestPythonUtilsAndGrains(t *testing.T) {
	needPython(t)
	b := newCustomBox(t)
	b.file("utils", "helper.py", "def twice(n):\n    return 2 * n\n")
	b.file("modules", "uses.py", "def f(n):\n    return __utils__['helper.twice'](n)\n")
	b.file("grains", "rack.py", "def rack():\n    return {'rack': 'r7'}\n\ndef fromos(grains):\n    return {'os_again': grains['os']}\n\ndef bad():\n    raise ValueError('no grain')\n")
	b.want("14", "uses.f", int64(7))
	got := b.mods.Grains(context.Background(), NewCall(b.env, "", "", nil))
	if Repr(got) != "{'os_again': 'Testix', 'rack': 'r7'}" {
		t.Errorf("grains: %s", Repr(got))
	}
	if !strings.Contains(b.log.String(), "no grain") {
		t.Errorf("the failing grain is not in the log: %s", b.log)
	}
}

func TestStarlarkModule(t *testing.T) {
	b := newCustomBox(t, "custom_python", "none")
	b.file("modules", "star.star", `
"""Doc of the module."""

def hello(name, greeting="hello"):
    """Greet somebody."""
    return "%s,%s!" % (greeting, name)

def cross(text):
    return __salt__["test.echo"](text)

def os():
    return [__grains__.get("os"), __opts__.get("id"), __pillar__.get("none", "d")]

def numbers(s):
    return [m for m in re.findall("[0-9]+", s)] + [path.basename("/a/b.c")]

def loops():
    while True:
        pass

def boom():
    fail("boom")
`)
	b.file("modules", "plain.py", "import json\n\n\ndef f(x):\n    return json.decode('[1, %d]' % x)\n")
	b.file("modules", "toomuch.py", "import json\n\n\nclass A:\n    pass\n")
	b.want("'hello,boy!'", "star.hello", "boy")
	b.want("'x'", "star.cross", "x")
	b.want("['Testix', 'box', 'd']", "star.os")
	b.want("['12', '7', 'b.c']", "star.numbers", "a12b7")
	b.want("ERROR: boom", "star.boom")
	b.want("[1, 5]", "plain.f", int64(5))
	_, err := b.run("toomuch.f")
	if err == nil || !strings.Contains(err.Error(), "toomuch.py:4") || !strings.Contains(err.Error(), "no Python 3") {
		t.Errorf("the error must name the line and what is missing: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := NewCall(b.env, "star.loops", "", nil).Run(ctx, "star.loops"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a loop that is cancelled ends with %v", err)
	}
}

func TestProgramModule(t *testing.T) {
	b := newCustomBox(t)
	b.file("modules", "shelly", `#!/bin/sh
case "$1" in
--describe) echo '{"functions": {"hello": {"doc": "Say hello."}, "echo": {"params": [{"name": "text"}]}, "bad": {}, "slow": {}}}' ;;
hello) echo '"hello,boy!"' ;;
echo) cat ;;
slow) sleep 600 ;;
*) echo "this went wrong" >&2; exit 3 ;;
esac
`)
	b.file("modules", "nothing.txt", "just text\n")
	b.want("'hello,boy!'", "shelly.hello")
	b.want("{'args': ['x'], 'kwargs': {}, 'id': 'box', 'grains': {'os': 'Testix'}}", "shelly.echo", "x")
	b.want("ERROR: this went wrong", "shelly.bad")
	b.want("Passed invalid arguments to shelly.echo: echo() missing 1 required positional argument: 'text'\n", "shelly.echo")
	if _, err := b.run("nothing.f"); err == nil || !strings.Contains(err.Error(), "is no module") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := NewCall(b.env, "shelly.slow", "", nil).Run(ctx, "shelly.slow"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
		t.Errorf("a cancelled program ended after %s with %v", time.Since(began), err)
	}
}

func BenchmarkPythonCall(b *testing.B) {
	if _, err := exec.LookPath("python3"); err != nil {
		b.Skip("no python3 on this machine")
	}
	dir := b.TempDir()
	os.MkdirAll(filepath.Join(dir, "extmods/modules"), 0o755)
	os.WriteFile(filepath.Join(dir, "extmods/modules/haha.py"), []byte(hahaModule), 0o644)
	benchmarkCustom(b, dir, "haha.hello")
}

func BenchmarkStarlarkCall(b *testing.B) {
	dir := b.TempDir()
	os.MkdirAll(filepath.Join(dir, "extmods/modules"), 0o755)
	os.WriteFile(filepath.Join(dir, "extmods/modules/haha.star"), []byte("def hello():\n    return 'hello,boy!'\n"), 0o644)
	benchmarkCustom(b, dir, "haha.hello")
}

func benchmarkCustom(b *testing.B, dir, fun string) {
	o := NewOptions(NewMap("id", "box", "cachedir", dir, "extension_modules", filepath.Join(dir, "extmods")))
	mods := NewCustoms(o)
	defer mods.Close()
	env := &Env{Opts: o, Grains: &Map{}, Pillar: &Map{}, Loader: NewLoader(o, mods), Log: slog.New(slog.DiscardHandler)}
	if _, err := NewCall(env, fun, "", nil).Run(context.Background(), fun); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := NewCall(env, fun, "", nil).Run(context.Background(), fun); err != nil {
			b.Fatal(err)
		}
	}
}

func TestPythonRenderer(t *testing.T) {
	needPython(t)
	b := newCustomBox(t)
	b.env.Templates = NewTemplates(b.env.Opts, customStages(b.mods))
	c := NewCall(b.env, "state.sls", "", nil)
	render := func(src string) (any, error) {
		return templatesOf(c).Render(context.Background(), c, RenderRequest{Source: src, Path: "/srv/salt/a.sls", SLS: "a", Saltenv: "base"})
	}
	v, err := render("#!py\ndef run():\n    return {__sls__: {'os': __grains__['os'], 'echo': __salt__['test.echo']('x'), 'env': saltenv}}\n")
	if err != nil || Repr(v) != "{'a': {'os': 'Testix', 'echo': 'x', 'env': 'base'}}" {
		t.Errorf("got %s, %v", Repr(v), err)
	}
	if _, err := render("#!py\ndef run():\n    raise ValueError('boom')\n"); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("got %v", err)
	}
	if _, err := render("#!py\nx = 1\n"); err == nil || !strings.Contains(err.Error(), "no function run()") {
		t.Errorf("got %v", err)
	}
}

// What a module does to its own process stays there, and the minion answers.
func TestModulesThatMisbehave(t *testing.T) {
	needPython(t)
	b := newCustomBox(t)
	b.file("modules", "grün-1.py", "def f():\n    return 'odd name'\n")
	b.file("modules", "bad.py", `import os, sys, threading
from os.path import join
from salt.exceptions import CommandExecutionError


def forks():
    if os.fork() == 0:
        return 'child'
    os.wait()
    return 'parent'


def execs():
    os.execv('/bin/true', ['true'])


def closes():
    for fd in range(256):
        try:
            os.close(fd)
        except OSError:
            pass
    return 'closed'


def huge():
    return 'z' * (20 << 20)


def recursion(n=0):
    return recursion(n + 1)


def threads():
    got = []
    ts = [threading.Thread(target=lambda n=n: got.append(__salt__['test.echo'](n))) for n in range(8)]
    [t.start() for t in ts]
    [t.join() for t in ts]
    return sorted(got)


def info():
    raise CommandExecutionError('boom', info={'a': 1})

`)
	b.file("modules", "raises.py", "def __virtual__():\n    raise ValueError('boom')\n\ndef f():\n    return 1\n")
	b.want("'odd name'", "grün-1.f")
	b.want("'parent'", "bad.forks")
	b.want("ERROR: modules.execs: its process ended without an answer", "bad.execs")
	b.want("'closed'", "bad.closes")
	if v, err := b.run("bad.huge"); err != nil || len(Str(v)) != 20<<20 {
		t.Errorf("a large result: %d bytes, %v", len(Str(v)), err)
	}
	if _, err := b.run("bad.recursion"); err == nil || asModuleError(err).Class != "RecursionError" {
		t.Errorf("recursion: %v", err)
	}
	b.want("[0, 1, 2, 3, 4, 5, 6, 7]", "bad.threads")
	b.want("ERROR: boom. Additional info follows:\n\na:\n    1", "bad.info")
	b.want("'bad.join' is not available.", "bad.join") // imported from elsewhere
	_, err := b.run("raises.f")
	if err == nil || err.Error() != "'raises' __virtual__ returned False: Exception raised when processing __virtual__ function for "+
		"salt.loaded.ext.module.raises. Module will not be loaded: boom" {
		t.Errorf("an exception in __virtual__: %v", err)
	}
	b.want("'parent'", "bad.forks") // and the host lives on
}

// Files that come anew while calls run do not disturb these.
func TestRefreshWhileCallsRun(t *testing.T) {
	needPython(t)
	b := newCustomBox(t)
	b.file("modules", "slow.py", "import time\n\n\ndef f(n):\n    time.sleep(0.02)\n    return __salt__['test.echo'](n)\n")
	b.want("0", "slow.f", int64(0))
	done := make(chan error, 8)
	for n := range 8 {
		go func() {
			for i := range 5 {
				v, err := b.run("slow.f", int64(n*5+i))
				if err == nil && v != int64(n*5+i) {
					err = errors.New("got " + Repr(v))
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 5 {
		b.mods.Refresh()
		time.Sleep(10 * time.Millisecond)
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// The page about the package says what the package has.
func TestThePackagesPageIsTrue(t *testing.T) {
	page, err := os.ReadFile("python/README.md")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := bundle()
	if err != nil {
		t.Fatal(err)
	}
	listed := 0
	for name, text := range sources.All() {
		row := ""
		for _, line := range strings.Split(string(page), "\n") {
			if strings.HasPrefix(line, "| `"+Str(name)+"` |") {
				row = line
			}
		}
		for _, line := range strings.Split(Str(text), "\n") {
			for _, word := range []string{"def ", "class "} {
				rest, ok := strings.CutPrefix(line, word)
				if !ok || strings.HasPrefix(rest, "_") {
					continue
				}
				listed++
				if item := "`" + rest[:strings.IndexAny(rest, "(:")] + "`"; !strings.Contains(row, item) {
					t.Errorf("python/README.md lacks %s of %s", item, Str(name))
				}
			}
		}
	}
	if listed < 100 {
		t.Errorf("only %d names were looked for", listed)
	}
}
