// What the transport promises between our own ends: requests, publications,
// order, limits, clean ends. The other transport tests: transport_zmtp_test.go
// (bytes), transport_hostile_test.go (peers that mean harm),
// transport_interop_test.go (libzmq), transport_bench_test.go (figures).
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// transportTest is what the tests share: a context with an end, and the check
// that no goroutine of ours is left.
func transportTest(t testing.TB) context.Context {
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(func() {
		cancel()
		awaitFact(t, "all goroutines ended", func() bool { return runtime.NumGoroutine() <= before }, func() string {
			buf := make([]byte, 1<<20)
			return string(buf[:runtime.Stack(buf, true)])
		})
	})
	return ctx
}

// awaitFact polls until a fact holds, or fails the test.
func awaitFact(t testing.TB, what string, holds func() bool, explain ...func() string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			text := ""
			for _, f := range explain {
				text += "\n" + f()
			}
			t.Fatalf("timed out waiting for: %s%s", what, text)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func echoHandler(_ context.Context, _ *Peer, body []byte) []byte { return body }

func listenRequests(t testing.TB, ctx context.Context, o TransportOptions, h RequestHandler) *RequestServer {
	t.Helper()
	s, err := ListenRequests(ctx, "127.0.0.1:0", o, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func listenPublisher(t testing.TB, ctx context.Context, o TransportOptions) *Publisher {
	t.Helper()
	p, err := ListenPublisher(ctx, "127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func dialRequester(t testing.TB, ctx context.Context, addr net.Addr, o TransportOptions) *Requester {
	t.Helper()
	r, err := DialRequester(ctx, addr.String(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func dialSubscriber(t testing.TB, ctx context.Context, p *Publisher, o TransportOptions, topics ...string) *Subscriber {
	t.Helper()
	before := subscriptions(p)
	s, err := DialSubscriber(ctx, p.Addr().String(), topics, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	awaitFact(t, "subscriptions arrived", func() bool { return subscriptions(p) >= before+len(topics) })
	return s
}

func subscriptions(p *Publisher) int {
	n := 0
	for _, peer := range p.Peers() {
		n += len(peer.Topics)
	}
	return n
}

func TestTransportRequests(t *testing.T) {
	ctx := transportTest(t)
	s := listenRequests(t, ctx, TransportOptions{}, echoHandler)
	r := dialRequester(t, ctx, s.Addr(), TransportOptions{})
	for _, size := range []int{0, 1, 255, 256, 4095, 4096, 4097, 65535, 65536, 1 << 20, 64 << 20} {
		body := bytes.Repeat([]byte{byte(size), 1, 2}, size/3+1)[:size]
		answer, err := r.Request(ctx, body)
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if !bytes.Equal(answer, body) {
			t.Fatalf("%d bytes: the answer of %d bytes differs", size, len(answer))
		}
	}
	if st := s.Stats(); st.Connected != 1 || st.Accepted != 1 || st.Messages != 11 || len(st.Refused)+len(st.Cut) != 0 {
		t.Errorf("stats: %+v", st)
	}
}

func TestTransportPublishTopics(t *testing.T) {
	ctx := transportTest(t)
	p := listenPublisher(t, ctx, TransportOptions{})
	all := dialSubscriber(t, ctx, p, TransportOptions{}, "")
	some := dialSubscriber(t, ctx, p, TransportOptions{}, "broadcast", "abc")
	for _, m := range []struct {
		topic string
		want  int
	}{{"broadcast", 2}, {"abcd", 2}, {"ab", 1}, {"", 1}} {
		if n := p.Publish([]byte(m.topic), []byte("body of "+m.topic)); n != m.want {
			t.Errorf("Publish(%q) = %d, want %d", m.topic, n, m.want)
		}
	}
	p.Publish([]byte("abc"), []byte("last"))
	collect := func(s *Subscriber) (topics []string) {
		for {
			m, err := s.Recv(ctx)
			if err != nil {
				t.Fatal(err)
			}
			topics = append(topics, string(m[0]))
			if string(m[1]) == "last" {
				return topics
			}
		}
	}
	if got, want := collect(all), []string{"broadcast", "abcd", "ab", "", "abc"}; !slices.Equal(got, want) {
		t.Errorf("all: %q, want %q", got, want)
	}
	if got, want := collect(some), []string{"broadcast", "abcd", "abc"}; !slices.Equal(got, want) {
		t.Errorf("some: %q, want %q", got, want)
	}
}

// What was published or asked before Close still arrives.
func TestTransportCloseFlushes(t *testing.T) {
	ctx := transportTest(t)
	p := listenPublisher(t, ctx, TransportOptions{})
	s := dialSubscriber(t, ctx, p, TransportOptions{}, "")
	const messages = 300
	for i := range messages {
		p.Publish([]byte(fmt.Sprint(i)))
	}
	p.Close()
	for i := range messages {
		m, err := s.Recv(ctx)
		if err != nil || string(m[0]) != fmt.Sprint(i) {
			t.Fatalf("message %d: %q, %v", i, m, err)
		}
	}
	if _, err := s.Recv(ctx); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	if n := p.Publish([]byte("late")); n != 0 {
		t.Errorf("Publish after Close = %d", n)
	}

	inWork, goOn := make(chan struct{}), make(chan struct{})
	rs := listenRequests(t, ctx, TransportOptions{}, func(ctx context.Context, _ *Peer, body []byte) []byte {
		close(inWork)
		<-goOn
		return body
	})
	r := dialRequester(t, ctx, rs.Addr(), TransportOptions{})
	go func() {
		<-inWork
		go close(goOn)
		rs.Close()
	}()
	if answer, err := r.Request(ctx, []byte("x")); err != nil || string(answer) != "x" {
		t.Errorf("request during Close: %q, %v", answer, err)
	}
}

// The end of the context closes both servers, and with it all connections.
func TestTransportContextEnds(t *testing.T) {
	outer := transportTest(t)
	ctx, cancel := context.WithCancel(outer)
	p := listenPublisher(t, ctx, TransportOptions{})
	s := dialSubscriber(t, outer, p, TransportOptions{}, "")
	stuck := make(chan struct{})
	rs := listenRequests(t, ctx, TransportOptions{Flush: 50 * time.Millisecond}, func(ctx context.Context, _ *Peer, _ []byte) []byte {
		close(stuck)
		<-ctx.Done()
		return nil
	})
	r := dialRequester(t, outer, rs.Addr(), TransportOptions{})
	go func() {
		<-stuck
		cancel()
	}()
	if _, err := r.Request(outer, []byte("x")); err == nil {
		t.Error("a request of a closed server was answered")
	}
	if _, err := s.Recv(outer); err == nil {
		t.Error("a closed publisher sent something")
	}
	p.Close()
	rs.Close()
	if _, err := DialRequester(outer, rs.Addr().String(), TransportOptions{}); err == nil {
		t.Error("the port is still open")
	}
}

// Requests of different peers run side by side, those of one peer in order.
func TestTransportRequestConcurrency(t *testing.T) {
	ctx := transportTest(t)
	const workers = 8
	var now, most atomic.Int64
	all := make(chan struct{})
	s := listenRequests(t, ctx, TransportOptions{Workers: workers}, func(ctx context.Context, p *Peer, body []byte) []byte {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if n == workers {
			close(all)
		}
		<-all
		now.Add(-1)
		return body
	})
	var wg sync.WaitGroup
	for i := range 3 * workers {
		r := dialRequester(t, ctx, s.Addr(), TransportOptions{})
		wg.Go(func() {
			body := []byte(fmt.Sprint(i))
			if answer, err := r.Request(ctx, body); err != nil || !bytes.Equal(answer, body) {
				t.Errorf("request %d: %q, %v", i, answer, err)
			}
		})
	}
	wg.Wait()
	if most.Load() != workers {
		t.Errorf("%d requests at the same time, want %d", most.Load(), workers)
	}
}

func TestTransportRequestDeadline(t *testing.T) {
	ctx := transportTest(t)
	s := listenRequests(t, ctx, TransportOptions{Flush: 50 * time.Millisecond}, func(ctx context.Context, _ *Peer, body []byte) []byte {
		if string(body) == "hang" {
			<-ctx.Done()
		}
		return body
	})
	r := dialRequester(t, ctx, s.Addr(), TransportOptions{})
	if answer, err := r.Request(ctx, []byte("a")); err != nil || string(answer) != "a" {
		t.Fatalf("%q, %v", answer, err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := r.Request(short, []byte("hang")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hanging request: %v", err)
	}
	if _, err := r.Request(ctx, []byte("b")); err == nil {
		t.Error("a requester that failed works again")
	}
	select {
	case <-r.Done():
	default:
		t.Error("a requester that failed is not done")
	}
}

// A nil answer and a panic cost the peer its connection and nobody else.
func TestTransportHandlerRefuses(t *testing.T) {
	ctx := transportTest(t)
	s := listenRequests(t, ctx, TransportOptions{}, func(_ context.Context, p *Peer, body []byte) []byte {
		switch string(body) {
		case "nil":
			return nil
		case "panic":
			panic("as asked")
		case "close":
			p.Close()
		}
		return body
	})
	good := dialRequester(t, ctx, s.Addr(), TransportOptions{})
	for _, what := range []string{"nil", "panic", "close"} {
		r := dialRequester(t, ctx, s.Addr(), TransportOptions{})
		if answer, err := r.Request(ctx, []byte(what)); err == nil {
			t.Errorf("%s was answered: %q", what, answer)
		}
		if answer, err := good.Request(ctx, []byte("ok")); err != nil || string(answer) != "ok" {
			t.Errorf("after %s: %q, %v", what, answer, err)
		}
	}
	if n := s.Stats().Cut[reasonHandler]; n != 3 {
		t.Errorf("%d peers cut by the handler, want 3", n)
	}
}

// Dialling something that is not a master ends with a reason and in time.
func TestTransportDialFails(t *testing.T) {
	ctx := transportTest(t)
	short := TransportOptions{Handshake: 100 * time.Millisecond}
	for name, c := range map[string]struct {
		serve func(net.Conn)
		want  string
	}{
		"silent": {func(c net.Conn) { io.Copy(io.Discard, c) }, "within 100ms"},
		"http":   {func(c net.Conn) { c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }, "not ZMTP"},
		"closes": {func(c net.Conn) {
			io.ReadFull(c, make([]byte, greetingSize))
		}, "closed the connection"},
		"wrong socket": {func(c net.Conn) {
			c.Write(playedHandshake("PULL"))
			io.Copy(io.Discard, c)
		}, `a "PULL" socket cannot talk`},
		"error": {func(c net.Conn) {
			body := encodeCommand("ERROR", []byte("\x07go away"))
			c.Write(append(appendHeader(appendGreeting(nil), flagCommand, len(body)), body...))
			io.Copy(io.Discard, c)
		}, `the peer refuses us: "go away"`},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					wg.Go(func() {
						defer conn.Close()
						c.serve(conn)
					})
				}
			})
			defer wg.Wait()
			defer l.Close()
			if _, err := DialRequester(ctx, l.Addr().String(), short); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("requester: %v, want %q", err, c.want)
			}
			if _, err := DialSubscriber(ctx, l.Addr().String(), []string{""}, short); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("subscriber: %v, want %q", err, c.want)
			}
		})
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := DialRequester(ended, "127.0.0.1:1", TransportOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("dial with an ended context: %v", err)
	}
}

// A link whose other side is gone without a word is noticed by heartbeats, one
// that lives is not cut, and a requester answers while it has nothing to ask.
func TestTransportHeartbeat(t *testing.T) {
	ctx := transportTest(t)
	beat := TransportOptions{Heartbeat: 100 * time.Millisecond}
	p := listenPublisher(t, ctx, beat)
	s := dialSubscriber(t, ctx, p, beat, "")
	rs := listenRequests(t, ctx, beat, echoHandler)
	r := dialRequester(t, ctx, rs.Addr(), beat)
	quiet, cancel := context.WithTimeout(ctx, 15*beat.Heartbeat)
	defer cancel()
	if m, err := s.Recv(quiet); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("subscriber heard %q, %v", m, err)
	}
	if answer, err := r.Request(ctx, []byte("x")); err != nil || string(answer) != "x" {
		t.Errorf("after heartbeats: %q, %v", answer, err)
	}
	p.Publish([]byte("y"))
	if m, err := s.Recv(ctx); err != nil || string(m[0]) != "y" {
		t.Errorf("after heartbeats: %q, %v", m, err)
	}

	// A publisher that shakes hands and is never heard of again.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer l.Close()
	wg.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.Write(playedHandshake("PUB"))
		io.Copy(io.Discard, conn)
	})
	dead, err := DialSubscriber(ctx, l.Addr().String(), []string{""}, beat)
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	var f *fault
	if _, err := dead.Recv(ctx); !errors.As(err, &f) || f.reason != reasonHeartbeat {
		t.Errorf("half-open link: %v", err)
	}
}

// A subscriber that nobody reads can still be closed.
func TestTransportCloseUnread(t *testing.T) {
	ctx := transportTest(t)
	p := listenPublisher(t, ctx, TransportOptions{})
	s := dialSubscriber(t, ctx, p, TransportOptions{}, "")
	for range 200 {
		p.Publish([]byte("nobody takes this"))
	}
	s.Close()
	if _, err := s.Recv(ctx); !errors.Is(err, errTransportClosed) {
		t.Errorf("Recv after Close: %v", err)
	}
}

func TestTransportListenErrors(t *testing.T) {
	ctx := transportTest(t)
	s := listenRequests(t, ctx, TransportOptions{}, echoHandler)
	if _, err := ListenRequests(ctx, s.Addr().String(), TransportOptions{}, echoHandler); err == nil {
		t.Error("a port was opened twice")
	}
	if _, err := ListenPublisher(ctx, "no port", TransportOptions{}); err == nil {
		t.Error("an address without a port was taken")
	}
	v6, err := ListenRequests(ctx, "[::1]:0", TransportOptions{}, echoHandler)
	if err != nil {
		t.Skipf("no IPv6 here: %v", err)
	}
	defer v6.Close()
	r := dialRequester(t, ctx, v6.Addr(), TransportOptions{Local: "[::1]:0"})
	if answer, err := r.Request(ctx, []byte("6")); err != nil || string(answer) != "6" {
		t.Errorf("over IPv6: %q, %v", answer, err)
	}
}

// envOr is a setting for tests.
func envOr(name, other string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return other
}
