// salt-key does what Salt's does, in its order, and tells the bus.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// keyFixture makes a configuration directory with n pending keys.
func keyFixture(t testing.TB, n int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	config := fmt.Sprintf("root_dir: %[1]s\npki_dir: %[1]s/pki\ncachedir: %[1]s/cache\nsock_dir: %[1]s/run\n", dir)
	if err := os.WriteFile(filepath.Join(dir, "master"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	pem := []byte(readVectorKeys(t).pub["minion"].PEM())
	if err := OpenKeyDir(filepath.Join(dir, "pki")).Create(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, "pki", KeyPending, fmt.Sprintf("minion-%05d.example.com", i)), pem, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func saltKey(stdin string, args ...string) (out, errs string, code int) {
	var o, e bytes.Buffer
	code = appletSaltKey(args, Stdio{In: strings.NewReader(stdin), Out: &o, Err: &e})
	return o.String(), e.String(), code
}

func TestSaltKeyTellsTheBus(t *testing.T) {
	dir := keyFixture(t, 2)
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "run", "master_event_pull.ipc"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	events := make(chan string, 8)
	go func() {
		defer close(events)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(c)
			for {
				var head [4]byte // this process is no old Salt, so lengths come
				if _, err := io.ReadFull(in, head[:]); err != nil {
					break
				}
				p := make([]byte, binary.BigEndian.Uint32(head[:]))
				if _, err := io.ReadFull(in, p); err != nil {
					break
				}
				frame, _ := DecodeBin(p)
				body, _ := BusBody(frame)
				tag, data, err := UnpackEvent(body)
				if err != nil {
					events <- err.Error()
					continue
				}
				events <- fmt.Sprint(tag, " ", data.Str("act"), " ", data.Str("id"), " ", data.Value("result"), " ", len(data.Str("_stamp")))
			}
			c.Close()
		}
	}()
	for _, args := range [][]string{{"-A", "-y"}, {"-r", "*0.example.com", "--include-accepted", "-y"}, {"-d", "*1.example.com", "-y"}} {
		if out, errs, code := saltKey("", append([]string{"-c", dir}, args...)...); code != 0 || errs != "" {
			t.Fatalf("%v: %d %s %s", args, code, out, errs)
		}
	}
	for _, want := range []string{
		"salt/key accept minion-00000.example.com true 26", "salt/key accept minion-00001.example.com true 26",
		"salt/key reject minion-00000.example.com true 26", "salt/key delete minion-00001.example.com true 26",
	} {
		select {
		case got := <-events:
			if got != want {
				t.Errorf("event %q, want %q", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no event %q", want)
		}
	}
}

func TestSaltKeyDoesOneActionInSaltsOrder(t *testing.T) {
	dir := keyFixture(t, 1)
	out, _, _ := saltKey("", "-c", dir, "-D", "-a", "*", "-y")
	if !strings.Contains(out, "accepted") || strings.Contains(out, "deleted") {
		t.Errorf("accept and delete on one line: %s", out)
	}
	if out, _, _ = saltKey("", "-c", dir, "-L", "-D", "-y"); !strings.Contains(out, "Accepted Keys:\nminion-00000.example.com\n") {
		t.Errorf("list and delete on one line: %s", out)
	}
	if _, errs, code := saltKey("", "-c", dir, "-D", "web"); code != 0 || !strings.Contains(errs, "takes no arguments") {
		t.Errorf("delete all with an argument: %d %s", code, errs)
	}
}

func TestSaltKeyNamesTheStatesWithoutMatch(t *testing.T) {
	dir := keyFixture(t, 0)
	for args, want := range map[string]string{
		"-a x":                                     "unaccepted",
		"-a x --include-all":                       "unaccepted or rejected",
		"-a x --include-all --include-denied":      "unaccepted, rejected or denied",
		"-r x --include-all":                       "unaccepted or accepted",
		"-d x --include-denied":                    "unaccepted or denied",
		"-a x --include-accepted":                  "unaccepted",
		"-r x --include-rejected --include-denied": "unaccepted or denied",
	} {
		out, _, _ := saltKey("", append([]string{"-c", dir}, strings.Fields(args)...)...)
		if out != "The key glob 'x' does not match any "+want+" keys.\n" {
			t.Errorf("%s: %s", args, out)
		}
	}
}

func BenchmarkSaltKeyListOf10000(b *testing.B) {
	dir := keyFixture(b, 10000)
	for b.Loop() {
		out, errs, code := saltKey("", "-c", dir, "-L")
		if code != 0 || strings.Count(out, "\n") != 10004 {
			b.Fatal(code, errs)
		}
	}
}
