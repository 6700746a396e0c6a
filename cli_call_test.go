// salt-call with a master, without one, and with one that does not answer.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// callBox is the configuration of a minion for salt-call.
func callBox(t *testing.T, more string) string {
	t.Helper()
	dir := t.TempDir()
	conf := fmt.Sprintf("id: m1\nroot_dir: %s\npki_dir: %[1]s/pki\ncachedir: %[1]s/cache\nsock_dir: %[1]s/run\nlog_file: %[1]s/log\n"+
		"user: %[2]s\nfile_roots: {base: [%[1]s/srv]}\n%[3]s", dir, currentUser(), more)
	if err := os.WriteFile(filepath.Join(dir, "minion"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "srv"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func runCall(t *testing.T, dir string, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = appletCall(append([]string{"-c", dir}, args...), Stdio{In: strings.NewReader(""), Out: &o, Err: &e})
	return o.String(), e.String(), code
}

func TestSaltCallWithoutAMaster(t *testing.T) {
	dir := callBox(t, "")
	for _, tc := range []struct {
		args      string
		out, errs string // whole, or the beginning where it ends in …
		code      int
	}{
		{"test.ping", "local:\n    True\n", "", 0},
		{"test.echo hi --out=json", "{\n    \"local\": \"hi\"\n}\n", "", 0},
		{"test.echo hi --out=quiet", "", "", 0},
		{"test.echo 007 --out=raw", "{'local': 7}\n", "", 0},
		{"test.ping --out=txt --out=json", "{\n    \"local\": true\n}\n", "", 0},
		{"test.nosuch", "", "'test.nosuch' is not available.\n", 255},
		{"nosuch.fn --retcode-passthrough", "", "'nosuch.fn' is not available.\n", 255},
		{"test.ping,test.echo , hi", "", "'test.ping,test.echo' is not available.\n", 255},
		{"test.echo foo=bar", "", "The following keyword arguments are not valid: foo=bar\n", 1},
		{"test.echo", "…", "\nPassed invalid arguments: echo() missing 1 required positional argument: 'text'.\n\nUsage:\n", 1},
		{"test.exception boom", "", "Traceback (most recent call last):\nException: boom\n", 1},
		{"test.retcode 5", "local:\n    True\n", "", 1},
		{"test.retcode 5 --retcode-passthrough", "local:\n    True\n", "", 5},
		{"test.false --retcode-passthrough", "local:\n    False\n", "", 0},
		{"grains.nosuch.deep", "", "'grains.nosuch.deep' is not available.\n", 255},
		{"--id=other test.ping", "local:\n    True\n", "", 0},
		{"-d nosuch.fn", "", "", 0},
		{"-d test.ping", "test.ping:\n\n    …", "", 0},
		{"", "Usage: salt-call [options] <function> [arguments]\n…", "Usage: salt-call [options] <function> [arguments]\n\nsalt-call: error: Requires function, --grains or --doc\n", 64},
		{"test.ping --nosuch", "", "…no such option: --nosuch\n", 64},
		{"--metadata test.retcode 5 --out=raw", "{'local': {'jid': '…", "", 1},
		{"--return=nosuch test.ping", "local:\n    True\n", "", 0},
		{"--return=local test.ping", "{'jid': '…", "", 0},
	} {
		args := strings.Fields(tc.args)
		if tc.args != "" {
			args = append([]string{"--local"}, args...)
		}
		out, errs, code := runCall(t, dir, args...)
		if code != tc.code || !sameEnds(out, tc.out) || !sameEnds(errs, tc.errs) {
			t.Errorf("salt-call %s: exit %d, want %d\nstdout %q\nwant   %q\nstderr %q\nwant   %q", tc.args, code, tc.code, out, tc.out, errs, tc.errs)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "cache/proc/*")); len(left) != 0 {
		t.Errorf("proc files are left: %v", left)
	}
	if _, err := os.Stat(filepath.Join(dir, "pki")); err == nil {
		t.Error("a key was made without need")
	}
}

// sameEnds compares with a text that may be cut by … at either end.
func sameEnds(got, want string) bool {
	if rest, ok := strings.CutPrefix(want, "…"); ok {
		return strings.HasSuffix(got, rest)
	}
	if rest, ok := strings.CutSuffix(want, "…"); ok {
		return strings.HasPrefix(got, rest)
	}
	return got == want
}

func TestSaltCallKeywordsAndJobData(t *testing.T) {
	out, errs, code := runCall(t, callBox(t, ""), "--local", "test.arg", "1", "two", "a=b", "--out=json")
	v, err := DecodeJSON([]byte(out))
	if err != nil || code != 0 {
		t.Fatalf("exit %d, %v\n%s%s", code, err, out, errs)
	}
	got := v.(*Map).Map("local")
	kw := got.Map("kwargs")
	if Repr(got.Value("args")) != "[1, 'two']" || kw.Str("a") != "b" || kw.Str("__pub_fun") != "test.arg" ||
		kw.Value("__pub_pid") != int64(os.Getpid()) || kw.Str("__pub_tgt") != "salt-call" || ValidJID(kw.Str("__pub_jid")) != nil {
		t.Errorf("got %s", out)
	}
	if names := kw.Keys(); Repr(NewList(names...)) != "['a', '__pub_fun', '__pub_pid', '__pub_jid', '__pub_tgt']" {
		t.Errorf("in the order %s", Repr(NewList(names...)))
	}
}

func TestSaltCallWithItsMaster(t *testing.T) {
	m := masterFor(t, shortTempDir(t), [2]int{})
	dir := callBox(t, fmt.Sprintf("master: 127.0.0.1\nmaster_port: %d\nskip_grains: true\n", m.ports()[1]))
	sub := m.Bus().Subscribe("", 100)
	defer sub.Close()
	if out, errs, code := runCall(t, dir, "test.echo", "hello"); out != "local:\n    hello\n" || code != 0 {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	var ret *Map
	for ret == nil {
		select {
		case e := <-sub.C:
			if strings.HasSuffix(e.Tag, "/ret/m1") {
				ret = e.Data
			}
		default:
			t.Fatal("the result did not come to the bus of the master")
		}
	}
	if ret.Str("return") != "hello" || ret.Has("success") || ret.Has("user") || Repr(ret.Value("fun_args")) != "['hello']" || ValidJID(ret.Str("jid")) != nil {
		t.Errorf("the master got %s", Repr(ret))
	}
	if out, errs, code := runCall(t, dir, "event.send", "my/tag", "foo=bar"); out != "local:\n    True\n" || code != 0 {
		t.Errorf("event.send: exit %d\n%s%s", code, out, errs)
	}
}

func TestSaltCallBeforeItsKeyIsAccepted(t *testing.T) {
	m := startMaster(t)
	dir := callBox(t, fmt.Sprintf("master: 127.0.0.1\nmaster_port: %d\nskip_grains: true\n", m.ports()[1]))
	out, _, code := runCall(t, dir, "test.ping")
	if code != exitCallPending || !strings.Contains(out, "has the minion key been accepted?") {
		t.Errorf("pending: exit %d, stdout %q", code, out)
	}
	if err := m.keys.Reject("m1"); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := runCall(t, dir, "test.ping"); code != exitKeyRejected || !strings.Contains(errs, "rejected") {
		t.Errorf("rejected: exit %d, stderr %q", code, errs)
	}
}

func TestSaltCallWhereNobodyAnswers(t *testing.T) {
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	dir := callBox(t, fmt.Sprintf("master: 127.0.0.1\nmaster_port: %d\nskip_grains: true\nauth_tries: 1\n", ports[0]))
	if _, errs, code := runCall(t, dir, "test.ping"); code != 1 || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "connection refused") {
		t.Errorf("exit %d, stderr %q", code, errs)
	}
}

func BenchmarkSaltCallLocalPing(b *testing.B) {
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "minion"), []byte("id: m1\nroot_dir: "+dir+"\nuser: "+currentUser()+"\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var out bytes.Buffer
		if code := appletCall([]string{"-c", dir, "--local", "test.ping"}, Stdio{In: strings.NewReader(""), Out: &out, Err: &out}); code != 0 {
			b.Fatalf("exit %d: %s", code, out.String())
		}
	}
}
