// The transport against libzmq, by way of Python's zmq package. Python is
// HALITE_PYTHON or python3; without the package these tests are skipped.
package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// zmqScript starts a Python program with sys and zmq imported, an open context
// ctx and the arguments in args. Each of its lines goes to the returned
// function's caller; at the end of the test it must have exited with success.
func zmqScript(t *testing.T, ctx context.Context, program string, args ...string) (next func() string) {
	t.Helper()
	python := envOr("HALITE_PYTHON", "python3")
	if out, err := exec.Command(python, "-c", "import zmq").CombinedOutput(); err != nil {
		t.Skipf("%s has no zmq (set HALITE_PYTHON): %v %s", python, err, bytes.TrimSpace(out))
	}
	head := `
import sys, time, zmq
args = sys.argv[1:]
ctx = zmq.Context()
def sock(kind, beat=0):
    s = ctx.socket(kind)
    s.linger = 0
    s.rcvtimeo = 20000
    if beat:
        s.setsockopt(zmq.HEARTBEAT_IVL, beat)
        s.setsockopt(zmq.HEARTBEAT_TIMEOUT, 5 * beat)
        s.setsockopt(zmq.HEARTBEAT_TTL, 6 * beat)
    return s
def cuts(s):
    # the events of a socket's connections being lost
    return s.get_monitor_socket(zmq.EVENT_DISCONNECTED)
def lost(m):
    n = 0
    while m.poll(0):
        m.recv_multipart()
        n += 1
    return n
def say(*a):
    print(*a, flush=True)
`
	cmd := exec.CommandContext(ctx, python, append([]string{"-c", head + program}, args...)...)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	t.Cleanup(func() {
		if t.Failed() {
			cmd.Process.Kill()
		}
		io.Copy(io.Discard, lines)
		if err := cmd.Wait(); err != nil && !t.Failed() {
			t.Errorf("the Python side: %v\n%s", err, errors.String())
		}
	})
	return func() string {
		t.Helper()
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the Python side ended: %v\n%s", err, errors.String())
		}
		return strings.TrimSpace(line)
	}
}

// What goes through each pair of sockets. A libzmq socket with heartbeats cuts
// the connection when one message takes longer than its patience, so there the
// largest is left out.
const (
	interopSizes = "[0, 1, 255, 256, 65535, 65536, 1 << 20]"
	interopLarge = 64 << 20
)

func sizedBody(n int) []byte { return bytes.Repeat([]byte{byte(n % 251)}, n) }

func TestZMQRequests(t *testing.T) {
	ctx := transportTest(t)
	s := listenRequests(t, ctx, TransportOptions{}, func(ctx context.Context, _ *Peer, body []byte) []byte {
		if bytes.HasPrefix(body, []byte("slow")) {
			select {
			case <-time.After(2 * time.Second): // longer than the peer's patience without PONG
			case <-ctx.Done():
			}
		}
		return body
	})
	next := zmqScript(t, ctx, `
s = sock(zmq.REQ)
s.connect(args[0])
for n in `+interopSizes+` + [64 << 20]:
    body = bytes([n % 251]) * n
    s.send(body)
    assert s.recv() == body, n
say("sizes")

# heartbeats, while a request is in work too
s = sock(zmq.REQ, beat=300)
m = cuts(s)
s.connect(args[0])
s.send(b"slow")
assert s.recv() == b"slow"
time.sleep(1.8)
s.send(b"after")
assert s.recv() == b"after"
assert lost(m) == 0
say("heartbeats")

# a proxy's DEALER: several requests under way, routing frames in front
s = sock(zmq.DEALER)
s.connect(args[0])
for i in range(50):
    s.send_multipart([b"client%d" % i, b"", b"body%d" % i])
for i in range(50):
    assert s.recv_multipart() == [b"client%d" % i, b"", b"body%d" % i]
say("dealer")

# a request without the delimiter is no request; the socket may come back
m = cuts(s)
s.send_multipart([b"x"])
assert m.poll(10000)
say("cut")
`, "tcp://"+s.Addr().String())
	for _, want := range []string{"sizes", "heartbeats", "dealer", "cut"} {
		if got := next(); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	awaitFact(t, "the peer is counted as cut", func() bool { return s.Stats().Cut[reasonEnvelope] == 1 })
}

func TestZMQSubscribers(t *testing.T) {
	ctx := transportTest(t)
	p := listenPublisher(t, ctx, TransportOptions{})
	next := zmqScript(t, ctx, `
s = sock(zmq.SUB, beat=300)
m = cuts(s)
for t in (b"broadcast", b"abc", b"size"):
    s.subscribe(t)
s.connect(args[0])
assert s.recv_multipart() == [b"broadcast", b"one"]
assert s.recv_multipart() == [b"abcd", b"two", b"", b"three"]
s.unsubscribe(b"abc")
say("unsubscribed")
for n in `+interopSizes+`:
    topic, body = s.recv_multipart()
    assert topic == b"size" and body == bytes([n % 251]) * n, n
time.sleep(1.8)
say("quiet")
assert s.recv_multipart() == [b"broadcast"]
assert lost(m) == 0
say("done")
s = sock(zmq.SUB)
s.subscribe(b"large")
s.connect(args[0])
topic, body = s.recv_multipart()
assert topic == b"large" and len(body) == 64 << 20
say("large")
`, "tcp://"+p.Addr().String())
	awaitFact(t, "subscriptions", func() bool { return subscriptions(p) == 3 })
	p.Publish([]byte("other"), []byte("zero"))
	p.Publish([]byte("broadcast"), []byte("one"))
	p.Publish([]byte("abcd"), []byte("two"), nil, []byte("three"))
	if got := next(); got != "unsubscribed" {
		t.Fatal(got)
	}
	awaitFact(t, "unsubscription", func() bool { return subscriptions(p) == 2 })
	if n := p.Publish([]byte("abcd")); n != 0 {
		t.Errorf("%d subscribers after unsubscription", n)
	}
	for _, n := range []int{0, 1, 255, 256, 65535, 65536, 1 << 20} {
		p.Publish([]byte("size"), sizedBody(n))
	}
	if got := next(); got != "quiet" {
		t.Fatal(got)
	}
	p.Publish([]byte("broadcast"))
	if got := next(); got != "done" {
		t.Fatal(got)
	}
	awaitFact(t, "the other subscription", func() bool { return p.Publish([]byte("large"), sizedBody(interopLarge)) == 1 })
	if got := next(); got != "large" {
		t.Fatal(got)
	}
	if st := p.Stats(); st.Dropped != 0 || len(st.Cut) != 0 {
		t.Errorf("%+v", st)
	}
}

func TestZMQPublisher(t *testing.T) {
	ctx := transportTest(t)
	next := zmqScript(t, ctx, `
s = sock(zmq.XPUB, beat=300)
m = cuts(s)
port = s.bind_to_random_port("tcp://127.0.0.1", min_port=21000, max_port=21999)
say(port)
assert s.recv() == b"\x01topic"
s.send_multipart([b"other", b"zero"])
for n in `+interopSizes+`:
    s.send_multipart([b"topic", bytes([n % 251]) * n])
time.sleep(1.8)
s.send_multipart([b"topic", b"last", b"three"])
assert s.recv() == b"\x00topic"  # it left only now
say("left")
`)
	s, err := DialSubscriber(ctx, net.JoinHostPort("127.0.0.1", next()), []string{"topic"}, TransportOptions{Heartbeat: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, n := range []int{0, 1, 255, 256, 65535, 65536, 1 << 20} {
		m, err := s.Recv(ctx)
		if err != nil || len(m) != 2 || string(m[0]) != "topic" || !bytes.Equal(m[1], sizedBody(n)) {
			t.Fatalf("%d bytes: %d frames, %v", n, len(m), err)
		}
	}
	if m, err := s.Recv(ctx); err != nil || fmt.Sprintf("%s", m) != "[topic last three]" {
		t.Errorf("%s, %v", m, err)
	}
	s.Close()
	if got := next(); got != "left" {
		t.Error(got)
	}
}

func TestZMQAnswers(t *testing.T) {
	for _, kind := range []string{"REP", "ROUTER"} {
		t.Run(kind, func(t *testing.T) {
			ctx := transportTest(t)
			next := zmqScript(t, ctx, `
s = sock(getattr(zmq, args[0]), beat=300)
m = cuts(s)
port = s.bind_to_random_port("tcp://127.0.0.1", min_port=21000, max_port=21999)
say(port)
for n in `+interopSizes+`:
    frames = s.recv_multipart()
    assert len(frames[-1]) == n
    s.send_multipart(frames)
frames = s.recv_multipart()
assert lost(m) == 0  # it answered heartbeats while it was idle
s.send_multipart(frames)
say("done")
`, kind)
			r, err := DialRequester(ctx, net.JoinHostPort("127.0.0.1", next()), TransportOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			for _, n := range []int{0, 1, 255, 256, 65535, 65536, 1 << 20} {
				body := sizedBody(n)
				if answer, err := r.Request(ctx, body); err != nil || !bytes.Equal(answer, body) {
					t.Fatalf("%d bytes: %d, %v", n, len(answer), err)
				}
			}
			select {
			case <-r.Done():
				t.Fatal("cut while idle")
			case <-time.After(1800 * time.Millisecond): // more than its patience
			}
			if answer, err := r.Request(ctx, []byte("again")); err != nil || string(answer) != "again" {
				t.Errorf("%q, %v", answer, err)
			}
			if got := next(); got != "done" {
				t.Error(got)
			}
		})
	}
}
