// Peers that mean harm. Each test attacks a publisher and a request server,
// and meanwhile a good client has to be served, promptly; afterwards the
// attackers must be gone, and with them what they cost.
package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// hostileTarget is what is attacked.
type hostileTarget struct {
	t    *testing.T
	ctx  context.Context
	p    *Publisher
	s    *RequestServer
	log  *lineCounter
	heap uint64
}

// lineCounter collects a log.
type lineCounter struct {
	mu    sync.Mutex
	lines []string
}

func (c *lineCounter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, strings.TrimSpace(string(p)))
	return len(p), nil
}

func (c *lineCounter) find(text string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, l := range c.lines {
		if strings.Contains(l, text) {
			n++
		}
	}
	return n
}

func newTarget(t *testing.T, o TransportOptions) *hostileTarget {
	ctx := transportTest(t)
	v := &hostileTarget{t: t, ctx: ctx, log: &lineCounter{}}
	o.Log = slog.New(slog.NewTextHandler(v.log, nil))
	v.p = listenPublisher(t, ctx, o)
	v.s = listenRequests(t, ctx, o, echoHandler)
	v.heap = heapInUse()
	return v
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// serves asserts that new good clients are served without delay.
func (v *hostileTarget) serves() {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, 3*time.Second)
	defer cancel()
	r, err := DialRequester(ctx, v.s.Addr().String(), TransportOptions{})
	if err != nil {
		v.t.Fatalf("good requester: %v", err)
	}
	defer r.Close()
	if answer, err := r.Request(ctx, []byte("good")); err != nil || string(answer) != "good" {
		v.t.Fatalf("good request: %q, %v", answer, err)
	}
	s, err := DialSubscriber(ctx, v.p.Addr().String(), []string{"good"}, TransportOptions{})
	if err != nil {
		v.t.Fatalf("good subscriber: %v", err)
	}
	defer s.Close()
	awaitFact(v.t, "the subscription of the good client", func() bool {
		for _, p := range v.p.Peers() {
			if len(p.Topics) == 1 && p.Topics[0] == "good" {
				return true
			}
		}
		return false
	})
	v.p.Publish([]byte("good"), []byte("news"))
	if m, err := s.Recv(ctx); err != nil || string(m[1]) != "news" {
		v.t.Fatalf("good subscription: %q, %v", m, err)
	}
}

// gone waits until no attacker is left.
func (v *hostileTarget) gone() {
	v.t.Helper()
	awaitFact(v.t, "all attackers gone", func() bool {
		p, s := v.p.Stats(), v.s.Stats()
		return p.Connected+p.Handshaking+s.Connected+s.Handshaking == 0
	}, func() string { return fmt.Sprintf("%+v\n%+v", v.p.Stats(), v.s.Stats()) })
}

// within asserts that memory did not grow by more than the given bytes.
func (v *hostileTarget) within(bytes uint64) {
	v.t.Helper()
	if now := heapInUse(); now > v.heap+bytes {
		v.t.Errorf("memory in use grew by %d KiB, %d are allowed", (now-v.heap)>>10, bytes>>10)
	}
}

// dial makes an attacker's connection.
func (v *hostileTarget) dial(a net.Addr) net.Conn {
	v.t.Helper()
	c, err := net.Dial("tcp", a.String())
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { c.Close() })
	return c
}

// cutsOff asserts that the server ends a connection.
func cutsOff(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, context.DeadlineExceeded) || err != nil && strings.Contains(err.Error(), "timeout") {
		t.Errorf("the server keeps the connection")
	}
}

// join shakes hands as a peer that knows the protocol.
func (v *hostileTarget) join(a net.Addr, socketType string) net.Conn {
	v.t.Helper()
	c := v.dial(a)
	if _, err := c.Write(playedHandshake(socketType)); err != nil {
		v.t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, len(playedHandshake(map[string]string{"REQ": "ROUTER", "SUB": "PUB"}[socketType])))); err != nil {
		v.t.Fatal(err)
	}
	return c
}

// Everything that can be said instead of, or after, a handshake to be cut.
func TestHostileBytes(t *testing.T) {
	unhex := func(s string) string {
		b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	command := func(body string) string {
		return string(appendHeader(nil, flagCommand, len(body))) + body
	}
	greeting := string(appendGreeting(nil))
	req, sub := string(playedHandshake("REQ")), string(playedHandshake("SUB"))
	random := make([]byte, 500)
	for i := range random {
		random[i] = byte(i*7 + 3)
	}
	for _, row := range []struct {
		name, toRequests, toPublisher, reason string
	}{
		{"random bytes", string(random), string(random), reasonNotZMTP},
		{"HTTP, short", "GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.0\r\n\r\n", reasonNotZMTP},
		{"HTTP, long", "POST / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X: y\r\n", 50), "HEAD /", reasonNotZMTP},
		{"ZMTP 1.0", "\x01\x00", "\x01\x00", reasonNotZMTP},
		{"ZMTP 2.0", unhex("ff00000000000000017f01 05 0000"), unhex("ff00000000000000017f01 02 0000"), reasonVersion},
		{"CURVE", greeting[:12] + "CURVE" + greeting[17:], greeting[:12] + "PLAIN" + greeting[17:], reasonMechanism},
		{"READY with a name and no value", greeting + command("\x05READY\x03abc"), greeting + command("\x05READY\x03abc"), reasonHandshake},
		{"READY without a socket type", greeting + command("\x05READY"), greeting + command("\x05READY\x08Identity\x00\x00\x00\x00"), reasonHandshake},
		{"an unknown socket type", greeting + command("\x05READY\x0bSocket-Type\x00\x00\x00\x03FOO"), greeting + command("\x05READY\x0bSocket-Type\x00\x00\x00\x03FOO"), reasonSocketType},
		{"the wrong socket type", sub, req, reasonSocketType},
		{"a command of 2^62 bytes instead of READY", greeting + unhex("06 4000000000000000"), greeting + unhex("06 4000000000000000"), reasonHandshake},
		{"a message instead of READY", greeting + "\x00\x01x", greeting + "\x00\x01\x01", reasonHandshake},
		{"another command instead of READY", greeting + command("\x04PING\x00\x00"), greeting + command("\x04PING\x00\x00"), reasonHandshake},
		{"a frame of 2^63-1 bytes", req + unhex("01 00 02 7fffffffffffffff"), sub + unhex("02 7fffffffffffffff"), reasonTooLarge},
		{"a frame of 2^40 bytes", req + unhex("01 00 02 0000010000000000"), sub + unhex("02 0000010000000000"), reasonTooLarge},
		{"a frame of 2^63 bytes", req + unhex("01 00 02 8000000000000000"), sub + unhex("02 8000000000000000"), reasonFrame},
		{"reserved flags", req + "\x40\x00", sub + "\x80\x01\x01", reasonFrame},
		{"a command of 2^62 bytes", req + unhex("06 4000000000000000"), sub + unhex("06 4000000000000000"), reasonFrame},
		{"an empty command", req + "\x04\x00", sub + "\x04\x00", reasonFrame},
		{"a command shorter than its name", req + "\x04\x02\x09x", sub + "\x04\x02\x09x", reasonFrame},
		{"a command with MORE", req + "\x05\x01\x00", sub + "\x05\x01\x00", reasonFrame},
		{"a PING with too much context", req + command("\x04PING\x00\x00"+strings.Repeat("x", 17)), sub + command("\x04PING\x00"), reasonFrame},
	} {
		t.Run(row.name, func(t *testing.T) {
			v := newTarget(t, TransportOptions{})
			for _, c := range []net.Conn{v.dial(v.s.Addr()), v.dial(v.p.Addr())} {
				said := row.toRequests
				if c.RemoteAddr().String() == v.p.Addr().String() {
					said = row.toPublisher
				}
				c.Write([]byte(said))
				cutsOff(t, c)
			}
			v.serves()
			v.gone()
			for _, st := range []TransportStats{v.s.Stats(), v.p.Stats()} {
				if st.Refused[row.reason]+st.Cut[row.reason] != 1 {
					t.Errorf("reason %q is not counted: %v %v", row.reason, st.Refused, st.Cut)
				}
			}
			if n := v.log.find(row.reason); n != 2 {
				t.Errorf("%d lines with %q in the log:\n%s", n, row.reason, strings.Join(v.log.lines, "\n"))
			}
			v.within(4 << 20)
		})
	}
}

// Requests and subscriptions that are no requests and no subscriptions.
func TestHostileMessages(t *testing.T) {
	for _, row := range []struct{ name, toRequests, toPublisher, why string }{
		{"no delimiter", "\x00\x05hello", "\x00\x05hello", "no empty frame"},
		{"a long routing frame", "\x03" + "\x00\x00\x00\x00\x00\x00\x10\x00", "\x00\x00", "routing frame of 4096 bytes"},
		{"frames without end", strings.Repeat("\x01\x01x", 2000), strings.Repeat("\x01\x01\x01", 2000), "more than 64 frames"},
		{"a body of two frames", "\x01\x00\x01\x01x\x00\x01y", "\x00\x02\x02x", "more than one frame"},
	} {
		t.Run(row.name, func(t *testing.T) {
			v := newTarget(t, TransportOptions{})
			c := v.join(v.s.Addr(), "REQ")
			c.Write([]byte(row.toRequests))
			cutsOff(t, c)
			c = v.join(v.p.Addr(), "SUB")
			c.Write([]byte(row.toPublisher))
			cutsOff(t, c)
			v.serves()
			v.gone()
			if cut := v.s.Stats().Cut; cut[reasonEnvelope]+cut[reasonTooMany] != 1 || v.log.find(row.why) != 1 {
				t.Errorf("request server: %+v\n%s", v.s.Stats(), strings.Join(v.log.lines, "\n"))
			}
			if v.p.Stats().Cut[reasonSubscription] != 1 || v.log.find("no subscription") != 1 {
				t.Errorf("publisher: %+v\n%s", v.p.Stats(), strings.Join(v.log.lines, "\n"))
			}
		})
	}
}

func TestHostileSubscriptions(t *testing.T) {
	v := newTarget(t, TransportOptions{})
	c := v.join(v.p.Addr(), "SUB")
	go func() {
		var b bytes.Buffer
		for i := range 300000 {
			topic := fmt.Sprint("\x01", i)
			b.Write(appendHeader(nil, 0, len(topic)))
			b.WriteString(topic)
		}
		c.Write(b.Bytes())
	}()
	cutsOff(t, c)
	v.serves()
	v.gone()
	if v.p.Stats().Cut[reasonSubscription] != 1 {
		t.Errorf("%+v", v.p.Stats())
	}
	v.within(4 << 20)
}

// Connections that stop anywhere in the handshake are held until the deadline
// and hinder nobody meanwhile.
func TestHostileHalfHandshakes(t *testing.T) {
	v := newTarget(t, TransportOptions{Handshake: 1500 * time.Millisecond})
	hello := playedHandshake("REQ")
	var held []net.Conn
	for n := range hello {
		for _, a := range []net.Addr{v.s.Addr(), v.p.Addr()} {
			c := v.dial(a)
			c.Write(hello[:n])
			held = append(held, c)
		}
	}
	v.serves()
	for _, c := range held {
		cutsOff(t, c)
	}
	v.gone()
	if n := v.s.Stats().Refused[reasonTimeout]; n != uint64(len(hello)) {
		t.Errorf("%d handshakes timed out, want %d", n, len(hello))
	}
	if n := v.log.find(reasonTimeout); n == 0 || n > 2*linesPerAddress {
		t.Errorf("%d lines about %d refused connections", n, len(held))
	}
	v.within(4 << 20)
}

// Two thousand silent connections cost little and hinder nobody; the share of
// one address in handshakes ends somewhere.
func TestHostileSilence(t *testing.T) {
	v := newTarget(t, TransportOptions{MaxPerAddress: 9000})
	goroutines := runtime.NumGoroutine()
	const silent = 1000 // each
	for range silent {
		v.dial(v.s.Addr())
		v.dial(v.p.Addr())
	}
	awaitFact(t, "all connected", func() bool {
		return v.s.Stats().Handshaking == silent && v.p.Stats().Handshaking == silent
	})
	v.serves()
	v.within(2 * silent * 16 << 10)
	if n := runtime.NumGoroutine() - goroutines; n > 2*silent+20 {
		t.Errorf("%d goroutines for %d connections", n, 2*silent)
	}
}

func TestHostileAddressLimit(t *testing.T) {
	v := newTarget(t, TransportOptions{MaxPerAddress: 40})
	for range 10 {
		v.dial(v.s.Addr())
	}
	awaitFact(t, "all connected", func() bool { return v.s.Stats().Handshaking == 10 })
	cutsOff(t, v.dial(v.s.Addr()))
	if n := v.s.Stats().Refused[reasonAddressLimit]; n != 1 {
		t.Errorf("%d refused, want 1", n)
	}
	// Another address is not concerned.
	r, err := DialRequester(v.ctx, v.s.Addr().String(), TransportOptions{Local: "127.0.0.2:0"})
	if err != nil {
		t.Fatalf("another address: %v", err)
	}
	defer r.Close()
	if answer, err := r.Request(v.ctx, []byte("x")); err != nil || string(answer) != "x" {
		t.Errorf("another address: %q, %v", answer, err)
	}
}

func TestHostilePeerLimit(t *testing.T) {
	v := newTarget(t, TransportOptions{MaxPeers: 3})
	var inside []net.Conn
	for range 3 {
		inside = append(inside, v.join(v.s.Addr(), "REQ"))
	}
	cutsOff(t, v.dial(v.s.Addr()))
	if n := v.s.Stats().Refused[reasonPeerLimit]; n != 1 {
		t.Errorf("%d refused, want 1", n)
	}
	for _, c := range inside {
		c.Close()
	}
	v.gone()
	v.serves()
}

// A hundred peers far away, whose greeting and READY each take their time,
// come in side by side.
func TestHostileFarPeers(t *testing.T) {
	v := newTarget(t, TransportOptions{})
	const far, delay = 100, 50 * time.Millisecond
	hello := playedHandshake("REQ")
	began := time.Now()
	var wg sync.WaitGroup
	for range far {
		c := v.dial(v.s.Addr())
		wg.Go(func() {
			for _, part := range [][]byte{hello[:greetingSize], hello[greetingSize:]} {
				<-time.After(delay)
				c.Write(part)
			}
		})
	}
	awaitFact(t, "all in", func() bool { return v.s.Stats().Connected == far })
	if d := time.Since(began); d > 20*delay {
		t.Errorf("%d handshakes of %v took %v", far, 2*delay, d)
	}
	wg.Wait()
}

// A peer that stays in the middle of a message is cut, one between messages is
// not.
func TestHostileSlowMessage(t *testing.T) {
	v := newTarget(t, TransportOptions{Idle: 100 * time.Millisecond})
	patient := dialRequester(t, v.ctx, v.s.Addr(), TransportOptions{})
	for _, part := range []string{"\x01", "\x01\x00", "\x01\x00\x00\x05hell", "\x01\x00\x02\x00"} {
		c := v.join(v.s.Addr(), "REQ")
		c.Write([]byte(part))
		cutsOff(t, c)
	}
	if n := v.s.Stats().Cut[reasonSlow]; n != 4 {
		t.Errorf("%d peers cut, want 4", n)
	}
	if answer, err := patient.Request(v.ctx, []byte("x")); err != nil || string(answer) != "x" {
		t.Errorf("a silent peer was cut: %q, %v", answer, err)
	}
}

// Large bodies that are announced cost nothing; that are sent, they share what
// MaxBodies allows, and small requests do not wait for them.
func TestHostileLargeBodies(t *testing.T) {
	v := newTarget(t, TransportOptions{MaxMessage: 8 << 20, MaxBodies: 16 << 20, Idle: 500 * time.Millisecond})
	for range 100 {
		c := v.join(v.s.Addr(), "REQ")
		c.Write(appendHeader([]byte{1, 0}, 0, 8<<20))
	}
	v.serves()
	v.within(8 << 20)
	// Now most of the body: all together would be 700 MiB.
	most := make([]byte, 7<<20)
	for range 100 {
		c := v.join(v.s.Addr(), "REQ")
		go func() {
			c.Write(appendHeader([]byte{1, 0}, 0, 8<<20))
			c.Write(most)
		}()
	}
	awaitFact(t, "some are cut", func() bool { return v.s.Stats().Cut[reasonMemory] > 0 })
	v.serves()
	v.within(80 << 20)
	v.gone()
	// And the allowance is given back.
	r := dialRequester(t, v.ctx, v.s.Addr(), TransportOptions{})
	body := make([]byte, 8<<20)
	if answer, err := r.Request(v.ctx, body); err != nil || len(answer) != len(body) {
		t.Errorf("a large request afterwards: %d bytes, %v", len(answer), err)
	}
}

// A subscriber that stops reading loses messages, then its connection; the
// others lose nothing.
func TestHostileStalledSubscriber(t *testing.T) {
	v := newTarget(t, TransportOptions{QueueMessages: 50, WriteTimeout: 500 * time.Millisecond})
	good := dialSubscriber(t, v.ctx, v.p, TransportOptions{}, "")
	stalled := v.join(v.p.Addr(), "SUB")
	stalled.(*net.TCPConn).SetReadBuffer(4 << 10)
	stalled.Write([]byte{0, 1, 1})
	awaitFact(t, "subscription", func() bool { return subscriptions(v.p) == 2 })
	body := make([]byte, 256<<10)
	const messages = 200 // 50 MiB
	for i := range messages {
		v.p.Publish([]byte(fmt.Sprint(i)), body)
		m, err := good.Recv(v.ctx)
		if err != nil || string(m[0]) != fmt.Sprint(i) {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if n := v.p.Stats().Dropped; n == 0 {
		t.Error("nothing was dropped for the stalled subscriber")
	}
	v.within(32 << 20) // its queue shares one body
	v.serves()
	awaitFact(t, "the stalled subscriber is cut", func() bool { return v.p.Stats().Cut[reasonStalled] == 1 })
	awaitFact(t, "its queue is gone", func() bool { return v.p.Stats().Queued == 0 })
	if v.log.find(reasonStalled) != 1 {
		t.Errorf("log: %s", strings.Join(v.log.lines, "\n"))
	}
}

// A requester that sends and never reads: it holds no worker, and not more
// than one answer.
func TestHostileStalledRequesters(t *testing.T) {
	v := newTarget(t, TransportOptions{Workers: 2, WriteTimeout: time.Second})
	request := append(appendHeader([]byte{1, 0}, 0, 1<<20), make([]byte, 1<<20)...)
	var attackers sync.WaitGroup
	for range 8 { // four times the workers
		c := v.join(v.s.Addr(), "DEALER")
		c.(*net.TCPConn).SetReadBuffer(4 << 10)
		attackers.Go(func() {
			for {
				if _, err := c.Write(request); err != nil {
					return
				}
			}
		})
	}
	awaitFact(t, "answers wait for them", func() bool { return v.s.Stats().Queued == 8 })
	v.serves()
	if n := v.s.Stats().Queued; n > 8 {
		t.Errorf("%d answers for 8 peers", n)
	}
	v.within(8*4<<20 + 8<<20)
	attackers.Wait()
	awaitFact(t, "all are cut", func() bool { return v.s.Stats().Cut[reasonStalled] == 8 })
	v.gone()
}

// Floods of PINGs whose answers nobody reads, and of requests of a reader that
// is as fast as we are.
func TestHostileFloods(t *testing.T) {
	v := newTarget(t, TransportOptions{WriteTimeout: time.Second})
	ping := bytes.Repeat([]byte("\x04\x17\x04PING\x00\x00sixteen bytes ok"), 1000)
	ping = bytes.ReplaceAll(ping, []byte("\x04\x17"), []byte{4, 23})
	echo := bytes.Repeat([]byte("\x01\x00\x00\x05hello"), 1000)
	ctx, stop := context.WithTimeout(v.ctx, time.Second)
	defer stop()
	var flood sync.WaitGroup
	attack := func(c net.Conn, what []byte, read bool) {
		context.AfterFunc(ctx, func() { c.Close() })
		flood.Go(func() {
			for {
				if _, err := c.Write(what); err != nil {
					return
				}
			}
		})
		if read {
			flood.Go(func() { io.Copy(io.Discard, c) })
		}
	}
	for range 4 {
		attack(v.join(v.s.Addr(), "REQ"), ping, false)
		attack(v.join(v.p.Addr(), "SUB"), ping, false)
		attack(v.join(v.s.Addr(), "REQ"), echo, true)
		attack(v.join(v.p.Addr(), "SUB"), bytes.Repeat([]byte("\x00\x02\x01x\x00\x02\x00x"), 1000), true)
	}
	for ctx.Err() == nil {
		v.serves()
		v.within(16 << 20)
	}
	flood.Wait()
	v.gone()
}

// Peers that vanish at any moment, thousands of them.
func TestHostileVanishing(t *testing.T) {
	v := newTarget(t, TransportOptions{})
	said := append(playedHandshake("REQ"), "\x01\x00\x00\x05hello"...)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 500 {
				c, err := net.Dial("tcp", v.s.Addr().String())
				if err != nil {
					t.Errorf("dial: %v", err)
					return
				}
				c.Write(said[:(i*7+w)%(len(said)+1)])
				if i%2 == 0 {
					c.(*net.TCPConn).SetLinger(0) // RST
				}
				c.Close()
			}
		})
	}
	v.serves()
	wg.Wait()
	v.gone()
	v.within(4 << 20)
}

// Mutated handshakes and messages.
func TestHostileMutations(t *testing.T) {
	v := newTarget(t, TransportOptions{Handshake: 200 * time.Millisecond, Idle: 200 * time.Millisecond})
	var wg sync.WaitGroup
	for w := range 4 {
		rnd := rand.New(rand.NewPCG(uint64(w), 1))
		wg.Go(func() {
			for i := range 400 {
				addr, said := v.s.Addr(), append(playedHandshake("REQ"), "\x01\x00\x00\x05hello\x04\x07\x04PING\x00\x01"...)
				if i%2 == 0 {
					addr, said = v.p.Addr(), append(playedHandshake("SUB"), "\x00\x01\x01\x04\x07\x04PING\x00\x01"...)
				}
				for range 1 + rnd.IntN(4) {
					at := rnd.IntN(len(said))
					switch rnd.IntN(4) {
					case 0:
						said[at] = byte(rnd.Uint32())
					case 1:
						said[at] ^= 1 << rnd.IntN(8)
					case 2:
						said = append(said[:at], said[min(len(said), at+1+rnd.IntN(8)):]...)
						said = append(said, 0)
					case 3:
						said = append(said[:at:at], append([]byte{0xff, 0x02}, said[at:]...)...)
					}
				}
				c, err := net.Dial("tcp", addr.String())
				if err != nil {
					t.Errorf("dial: %v", err)
					return
				}
				c.Write(said)
				if i%10 == 0 {
					c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
					io.Copy(io.Discard, c)
				}
				c.Close()
			}
		})
	}
	v.serves()
	wg.Wait()
	v.serves()
	v.gone()
	v.within(4 << 20)
	if p, s := v.p.Stats(), v.s.Stats(); len(p.Refused) < 3 || len(s.Refused) < 3 {
		t.Errorf("too few kinds of refusals: %v %v", p.Refused, s.Refused)
	}
}

// The log of a storm is short and says how much it left out.
func TestHostileLog(t *testing.T) {
	ctx := transportTest(t)
	lines := &lineCounter{}
	s := listenRequests(t, ctx, TransportOptions{Log: slog.New(slog.NewTextHandler(lines, nil))}, echoHandler)
	const storm = 100
	for range storm {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
		cutsOff(t, c)
		c.Close()
	}
	awaitFact(t, "all refused", func() bool { return s.Stats().Refused[reasonNotZMTP] == storm })
	s.Close()
	if n := lines.find("refused 127.0.0.1:"); n != linesPerAddress {
		t.Errorf("%d lines, want %d:\n%s", n, linesPerAddress, strings.Join(lines.lines, "\n"))
	}
	if n := lines.find(fmt.Sprint(storm-linesPerAddress, " more connections")); n != 1 {
		t.Errorf("no summary:\n%s", strings.Join(lines.lines, "\n"))
	}
}

// brokenListener fails like a process out of file descriptors, then works.
type brokenListener struct {
	net.Listener
	mu    sync.Mutex
	fails int
	calls int
}

func (l *brokenListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	l.calls++
	fail := l.calls <= l.fails
	l.mu.Unlock()
	if fail {
		return nil, errors.New("accept4: too many open files")
	}
	return l.Listener.Accept()
}

func TestHostileAcceptErrors(t *testing.T) {
	ctx := transportTest(t)
	lines := &lineCounter{}
	o := TransportOptions{Log: slog.New(slog.NewTextHandler(lines, nil))}
	g, err := listenGuard(ctx, "127.0.0.1:0", "ROUTER", requestIn, o.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	broken := &brokenListener{Listener: g.listener, fails: 3}
	g.listener = broken
	began := time.Now()
	g.start(func(l *link) { l.close(errTransportClosed) })
	defer g.close(ctx)
	dialRequester(t, ctx, g.listener.Addr(), TransportOptions{})
	if d := time.Since(began); d < 100*time.Millisecond {
		t.Errorf("three errors were retried within %v", d)
	}
	if lines.find("too many open files") != 3 {
		t.Errorf("log: %q", lines.lines)
	}
}
