// A return is on disk until the master has acknowledged it.
package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// fakeAck is a master that acknowledges returns, when it is up.
type fakeAck struct {
	mu    sync.Mutex
	down  bool
	tried int
	got   []string
}

func (a *fakeAck) deliver(_ context.Context, load *Map) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tried++
	if a.down {
		return errors.New("nobody answers")
	}
	a.got = append(a.got, load.Str("jid"))
	return nil
}

func (a *fakeAck) set(down bool) { a.mu.Lock(); a.down = down; a.mu.Unlock() }

func (a *fakeAck) tries() int { a.mu.Lock(); defer a.mu.Unlock(); return a.tried }

func (a *fakeAck) have() []string { a.mu.Lock(); defer a.mu.Unlock(); return slices.Clone(a.got) }

func testReturn(n int) *Map {
	return NewMap("cmd", "_return", "id", "m1", "success", true, "return", "hello", "retcode", int64(0), "jid", jidNumber(n), "fun", "test.echo", "fun_args", NewList("hello"))
}

// runSpool runs a spool until the returned function is called.
func runSpool(s *returnSpool) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	return func() { cancel(); <-done }
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestReturnIsAFileUntilItIsAcknowledged(t *testing.T) {
	dir, ack := filepath.Join(t.TempDir(), "returns"), &fakeAck{down: true}
	s := newReturnSpool(dir, 0, discardLog(), ack.deliver)
	s.Add(testReturn(1))
	if names := files(t, dir); len(names) != 1 || !strings.HasSuffix(names[0], jidNumber(1)) {
		t.Fatalf("the directory has %v", names)
	}
	defer runSpool(s)()
	eventually(t, "a try", func() bool { return ack.tries() > 0 && s.Pending() == 1 })
	if len(files(t, dir)) != 1 {
		t.Error("the file is gone though nobody acknowledged the return")
	}
	ack.set(false)
	eventually(t, "the end of the try", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.sending == 0 && len(s.held) == 1 })
	s.Retry()
	eventually(t, "the acknowledgement", func() bool { return s.Pending() == 0 })
	if names := files(t, dir); len(names) != 0 {
		t.Errorf("the directory still has %v", names)
	}
}

func TestReturnsSurviveARestartInOrder(t *testing.T) {
	dir, ack := t.TempDir(), &fakeAck{}
	s := newReturnSpool(dir, 0, discardLog(), ack.deliver)
	for n := range 3 {
		s.Add(testReturn(n))
	}
	// A torn file and one that was being written when the power went.
	torn := filepath.Join(dir, "0000000000000001-000001-"+jidNumber(7))
	for _, path := range []string{torn, filepath.Join(dir, ".x.new")} {
		if err := os.WriteFile(path, []byte{0x85, 0xa3}, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := newReturnSpool(dir, 0, discardLog(), ack.deliver)
	if again.Pending() != 4 {
		t.Fatalf("%d returns wait after the restart", again.Pending())
	}
	defer runSpool(again)()
	eventually(t, "delivery", func() bool { return again.Pending() == 0 })
	got := ack.have()
	slices.Sort(got)
	if !slices.Equal(got, []string{jidNumber(0), jidNumber(1), jidNumber(2)}) {
		t.Errorf("delivered %v", got)
	}
	if names := files(t, dir); len(names) != 0 {
		t.Errorf("the directory still has %v", names)
	}
}

func TestAReturnThatIsTooLargeSaysSo(t *testing.T) {
	var sent *Map
	done := make(chan struct{})
	s := newReturnSpool(t.TempDir(), 1000, discardLog(), func(_ context.Context, load *Map) error {
		sent = load
		close(done)
		return nil
	})
	defer runSpool(s)()
	big := testReturn(1)
	big.Set("return", strings.Repeat("x", 2000))
	s.Add(big)
	<-done
	if text := sent.Str("return"); !strings.Contains(text, "return_max_size") || sent.Value("retcode") != int64(1) || sent.Value("success") != false {
		t.Errorf("sent %s", Repr(sent))
	}
}

func TestAReturnGoesOutWhereNothingCanBeWritten(t *testing.T) {
	ack := &fakeAck{}
	s := newReturnSpool("/proc/nothing/here", 0, discardLog(), ack.deliver)
	defer runSpool(s)()
	s.Add(testReturn(1))
	eventually(t, "delivery", func() bool { return len(ack.have()) == 1 })
}

func TestReturnersRunOnceEachAndAnUnknownOneIsNoFailure(t *testing.T) {
	var out bytes.Buffer
	env := &Env{Opts: DefaultMinionOptions(), Log: discardLog()}
	callReturners(t.Context(), env, []string{"local", "", "nosuch", "local"}, NewMap("jid", "1", "return", true), &out, slog.LevelError)
	if got := out.String(); got != "{'jid': '1', 'return': True}\n" {
		t.Errorf("printed %q", got)
	}
}
