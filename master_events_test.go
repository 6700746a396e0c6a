// The event bus: framings, slow readers, and sockets that only the right people
// open.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// startBus serves a bus in a directory of its own.
func startBus(t testing.TB) (*EventBus, string, *testLog) {
	t.Helper()
	out := &testLog{}
	b := NewEventBus(0, NewLogger(out, "debug"))
	dir := shortTempDir(t)
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- b.Serve(ctx, dir, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return b, dir, out
}

func dialBus(t testing.TB, dir, name string) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (b *EventBus) waitReaders(t testing.TB, n int) {
	t.Helper()
	eventually(t, "readers", func() bool { return b.Stats().Readers == n })
}

func TestBusReachesReadersInSaltsFraming(t *testing.T) {
	b, dir, _ := startBus(t)
	c := dialBus(t, dir, eventPubSocket)
	b.waitReaders(t, 1)
	b.Fire("my/tag", NewMap("a", int64(1), "bytes", []byte{0xff}))
	s := NewBinStream(c, 1<<20)
	v, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	frame := v.(*Map)
	if head, ok := frame.Get("head"); !ok || !Equal(head, NewMap()) {
		t.Errorf("head: %s", Repr(head))
	}
	tag, data, err := UnpackEvent(frame.Value("body").([]byte))
	if err != nil || tag != "my/tag" {
		t.Fatalf("event %q, %v", tag, err)
	}
	wantValue(t, "a", data.Value("a"), int64(1))
	if _, err := time.Parse("2006-01-02T15:04:05.000000", data.Str("_stamp")); err != nil {
		t.Error(err)
	}
}

// Programs put events on the bus with a length before each or without; both
// reach readers and subscriptions as they are.
func TestBusTakesEventsInBothFramings(t *testing.T) {
	b, dir, out := startBus(t)
	sub := b.Subscribe("from/", 8)
	c := dialBus(t, dir, eventPubSocket)
	b.waitReaders(t, 1)
	for i, withLength := range []bool{false, true} {
		push := dialBus(t, dir, eventPullSocket)
		for j := range 2 {
			body, err := PackEvent(fmt.Sprintf("from/%d/%d", i, j), NewMap("n", int64(j), "_stamp", "x"))
			if err != nil {
				t.Fatal(err)
			}
			frame, err := BusFrame(body)
			if err != nil {
				t.Fatal(err)
			}
			if withLength {
				frame = append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
			}
			if _, err := push.Write(frame); err != nil {
				t.Fatal(err)
			}
		}
		for j := range 2 {
			tag := fmt.Sprintf("from/%d/%d", i, j)
			wantValue(t, tag, nextEvent(t, sub, tag).Value("n"), int64(j))
		}
	}
	s := NewBinStream(c, 1<<20)
	for range 4 {
		if _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
	}
	// What is no event ends that connection, nobody else's.
	for _, junk := range []string{"\xc1\xc1\xc1", "\x7f\xff\xff\xff", "\x00\x00\x00\x02\xc1\xc1", "\x81\xa1a\xa1b"} {
		push := dialBus(t, dir, eventPullSocket)
		io.WriteString(push, junk)
		push.(*net.UnixConn).CloseWrite()
		io.Copy(io.Discard, push)
	}
	b.Fire("from/end", NewMap())
	nextEvent(t, sub, "from/end")
	eventually(t, "log", func() bool { return len(out.String()) > 0 })
}

func TestLengthFramingForReadersThatWantIt(t *testing.T) {
	b := NewEventBus(0, logNowhere())
	ctx, cancel := context.WithCancel(context.Background())
	path := filepath.Join(shortTempDir(t), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Add(1)
	go func() { defer wg.Done(); b.serveReader(ctx, s, true) }()
	b.waitReaders(t, 1)
	b.Fire("t", NewMap())
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c, p); err != nil {
		t.Fatal(err)
	}
	if v, err := DecodeBin(p); err != nil || !v.(*Map).Has("body") {
		t.Errorf("%v, %v", v, err)
	}
	cancel()
	wg.Wait()
}

// A burst of 20,000 events reaches three readers complete, while a fourth that
// does not read misses some, and nobody waits for it.
func TestBurstReachesReadersBesideOneThatSleeps(t *testing.T) {
	b, dir, out := startBus(t)
	const burst = 20000
	asleep := dialBus(t, dir, eventPubSocket)
	var wg sync.WaitGroup
	counts := make([]int, 3)
	for i := range counts {
		c := dialBus(t, dir, eventPubSocket)
		wg.Add(1)
		go func() {
			defer wg.Done()
			s := NewBinStream(bufio.NewReader(c), 1<<20)
			for counts[i] < burst {
				if _, err := s.Next(); err != nil {
					return
				}
				counts[i]++
			}
		}()
	}
	b.waitReaders(t, 4)
	started := time.Now()
	for i := range burst {
		b.Fire("salt/job/20240101000000000000/ret/m", NewMap("n", int64(i), "return", "0123456789012345678901234567890123456789"))
	}
	if d := time.Since(started); d > 10*time.Second {
		t.Errorf("firing took %v", d)
	}
	wg.Wait()
	for i, n := range counts {
		if n != burst {
			t.Errorf("reader %d got %d events of %d", i, n, burst)
		}
	}
	for b.Stats().Dropped == 0 { // until the sleeper's queue is full
		b.Fire("fill", NewMap("x", make([]byte, 100_000)))
	}
	if q := b.Stats().QueuedBytes; q > 4*eventQueueBytes+1<<20 {
		t.Errorf("%d bytes queued", q)
	}
	go io.Copy(io.Discard, asleep) // it wakes up
	eventually(t, "log of what was missed", func() bool {
		return strings.Contains(out.String(), "was too slow and missed")
	})
}

func TestSubscriptionThatIsFullDrops(t *testing.T) {
	b := NewEventBus(0, logNowhere())
	s := b.Subscribe("a/", 2)
	for range 5 {
		b.Fire("a/x", NewMap())
		b.Fire("b/x", NewMap())
	}
	if len(s.C) != 2 || s.Dropped() != 3 {
		t.Errorf("%d waiting, %d dropped", len(s.C), s.Dropped())
	}
	s.Close()
	b.Fire("a/x", NewMap())
	if s.Dropped() != 3 {
		t.Error("a closed subscription counts on")
	}
}

func TestSocketsHaveTheirModesAndGo(t *testing.T) {
	m := startMaster(t)
	for name, mode := range map[string]string{eventPubSocket: "Srw-rw----", eventPullSocket: "Srw-------", publishPullSocket: "Srw-rw----"} {
		st, err := os.Lstat(filepath.Join(m.sockDir, name))
		if err != nil || st.Mode().String() != mode {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	m.stop()
	for _, name := range []string{eventPubSocket, eventPullSocket, publishPullSocket} {
		if _, err := os.Lstat(filepath.Join(m.sockDir, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}

func BenchmarkFireToThreeReaders(b *testing.B) {
	bus, dir, _ := startBus(b)
	for range 3 {
		c := dialBus(b, dir, eventPubSocket)
		go io.Copy(io.Discard, c)
	}
	bus.waitReaders(b, 3)
	for b.Loop() {
		bus.Fire("salt/job/20240101000000000000/ret/m", NewMap("jid", "20240101000000000000", "id", "m", "return", true, "retcode", int64(0), "fun", "test.ping"))
	}
}
