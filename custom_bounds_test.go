// What a module of a user may cost: bounds of output, memory, depth and names.
package main

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"
)

// wantError runs a function that must fail with a text within some seconds.
func (b *customBox) wantError(want, name string, args ...any) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if _, err := NewCall(b.env, name, "", nil).Run(ctx, name, args...); err == nil || !strings.Contains(err.Error(), want) {
		b.t.Errorf("%s: got %v, want an error with %q", name, err, want)
	}
}

// What a program prints without end is not kept in the minion's memory.
func TestProgramOutputIsBounded(t *testing.T) {
	b := newCustomBox(t)
	b.file("modules", "yesprog", "#!/bin/sh\nexec yes\n")
	b.file("modules", "talker", "#!/bin/sh\n[ \"$1\" = --describe ] && { echo '{\"functions\": {\"err\": {}}}'; exit; }\nexec yes >&2\n")
	b.wantError("bytes of output", "yesprog.f")
	b.wantError("bytes of output", "talker.err")
}

// Starlark runs in the minion's own process: what would exhaust its memory or
// its stack ends that call alone.
func TestStarlarkIsBounded(t *testing.T) {
	b := newCustomBox(t)
	b.file("modules", "bad.star", `
def double():
    x = "a"
    for i in range(60):
        x = x + x
    return len(x)

def own():
    a = []
    a.append(a)
    a.append(a)
    return a

def laughs():
    a = [1]
    for i in range(60):
        a = [a, a]
    return a

def given():
    a = []
    a.append(a)
    return __salt__["test.arg"](a)

def fine():
    return [[1], (2, {"a": 3})]
`)
	b.file("modules", "atimport.star", "x = 'a'\nfor i in range(60):\n    x = x + x\n")
	b.wantError("too much memory", "bad.double")
	b.wantError("holds itself", "bad.own")
	b.wantError("items", "bad.laughs")
	b.wantError("holds itself", "bad.given")
	b.want("[[1], (2, {'a': 3})]", "bad.fine")
	b.wantError("too much memory", "atimport.f")
}

// Functions that call each other in a circle end with an error, not with a
// process for each call until the box has no more.
func TestCallsInACircleEnd(t *testing.T) {
	needPython(t)
	b := newCustomBox(t)
	b.file("modules", "circle.py", "def f():\n    return __salt__['circle.f']()\n")
	b.file("modules", "round.star", "def f():\n    return __salt__['round.f']()\n")
	b.wantError("maximum recursion depth exceeded", "circle.f")
	b.wantError("maximum recursion depth exceeded", "round.f")
}

// A host that something else killed is started anew for the next call.
func TestKilledHostIsStartedAnew(t *testing.T) {
	needPython(t)
	b := newCustomBox(t)
	b.file("modules", "haha.py", hahaModule)
	b.file("modules", "other.py", "def f():\n    return 1\n")
	kill := func() {
		h := b.mods.host
		h.mu.Lock()
		defer h.mu.Unlock()
		h.cmd.Process.Signal(syscall.SIGKILL)
		waitFor(t, "the end of the host", func() bool { return hungUp(h.ctrl) })
	}
	b.want("'hello,boy!'", "haha.hello")
	kill()
	b.want("'hello,boy!'", "haha.hello")
	kill()
	b.want("1", "other.f") // an import is the first that it is asked for
}

// A return with a tuple as a key, which no receiver could read, is an error
// return and not lost.
func TestTupleAsKeyIsRefused(t *testing.T) {
	if _, err := EncodeWire(NewMap("jid", "1", "return", NewMap(Tuple{int64(1), int64(2)}, "x"))); err == nil || !strings.Contains(err.Error(), "(1, 2)") {
		t.Errorf("got %v", err)
	}
}

// A program that never tells its functions is given up as an import is.
func TestProgramThatDescribesForEver(t *testing.T) {
	b := newCustomBox(t, "custom_load_timeout", int64(1))
	b.file("modules", "hangs", "#!/bin/sh\nexec sleep 600\n")
	b.wantError("'hangs' __virtual__ returned False: hangs --describe did not end within 1s", "hangs.f")
}

// A path or environment that leaves its directory is a plain error.
func TestEscapingPathsArePlainErrors(t *testing.T) {
	f := &fileClient{opts: NewOptions(NewMap("cachedir", t.TempDir()))}
	_, _, err := saltPath("salt://x?saltenv=../..", "base")
	if text := JobErrorText("cp.get_file", err, ""); text != `ERROR: "../.." is not the name of an environment` {
		t.Errorf("got %s", text)
	}
	_, err = f.CachePath("../../x", "base")
	if text := JobErrorText("cp.cache_file", err, ""); text != `ERROR: path "../../x" leaves its directory` {
		t.Errorf("got %s", text)
	}
}

// Grains that cannot be sent would cost the minion its pillar: they are left out.
func TestGrainsThatCannotBeSent(t *testing.T) {
	needPython(t)
	b := newCustomBox(t)
	b.file("grains", "odd.py", "def odd():\n    return {(1, 2): 3}\n\ndef good():\n    return {'rack': 'r7'}\n")
	if got := b.mods.Grains(context.Background(), NewCall(b.env, "", "", nil)); Repr(got) != "{'rack': 'r7'}" {
		t.Errorf("grains: %s", Repr(got))
	}
}

// Names that no one can call are refused with the file that has them.
func TestNamesOfFunctionsAreChecked(t *testing.T) {
	b := newCustomBox(t)
	b.file("modules", "escapes", "#!/bin/sh\necho '{\"functions\": {\"../x\": {}, \"fine\": {}}}'\n")
	b.file("modules", "empty", "#!/bin/sh\necho '{\"functions\": {\"\": {}}}'\n")
	b.file("modules", "virtually.star", "__virtualname__ = '../../x'\n\ndef f():\n    return 1\n")
	b.wantError(`"../x" cannot be the name of a function`, "escapes.fine")
	b.wantError(`"" cannot be the name of a function`, "empty.f")
	b.wantError(`"../../x" cannot be the name of a module`, "virtually.f")
}
