// The seam to zmq4: the only file that registers anything with it.
//
// zmq4 opens its connections through a transport that it finds by name. Ours
// opens nothing: what it hands out, a listener or a finished link, travels in
// the context that the socket was made with. So there is one transport for the
// whole process, registered once, that has no state.
//
// zmq4 wants to shake hands itself. By then the real handshake is over; a
// seamConn plays the peer with a clean greeting and READY of our making, and
// swallows what zmq4 says. After that it passes frames: inwards only headers
// that were checked and bodies, never commands; outwards it puts zmq4's writes
// together to whole messages and queues them on the link.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/transport"
)

const (
	seamName     = "halite"
	seamEndpoint = seamName + "://link"
)

var registerSeam = sync.OnceValue(func() error { return zmq4.RegisterTransport(seamName, seamTransport{}) })

// Keys of context values.
type (
	seamListenerKey struct{}
	seamConnKey     struct{}
)

// seamTransport is the transport that zmq4 knows by the name seamName.
type seamTransport struct{}

func (seamTransport) Dial(ctx context.Context, _ transport.Dialer, _ string) (net.Conn, error) {
	c, ok := ctx.Value(seamConnKey{}).(*seamConn)
	if !ok {
		return nil, errors.New("no link in the socket's context")
	}
	return c, nil
}

func (seamTransport) Listen(ctx context.Context, _ string) (net.Listener, error) {
	l, ok := ctx.Value(seamListenerKey{}).(*seamListener)
	if !ok {
		return nil, errors.New("no listener in the socket's context")
	}
	return l, nil
}

func (seamTransport) Addr(ep string) (string, error) { return ep, nil }

// seamOptions are what every zmq4 socket of ours is made with.
func seamOptions(o *TransportOptions) []zmq4.Option {
	return []zmq4.Option{
		zmq4.WithAutomaticReconnect(false),
		zmq4.WithDialerMaxRetries(0),
		zmq4.WithLogger(slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)),
	}
}

// seamListener gives zmq4's accept loop what is sent to conns.
type seamListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newSeamListener() *seamListener {
	return &seamListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *seamListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *seamListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *seamListener) Addr() net.Addr { return seamAddr{} }

type seamAddr struct{}

func (seamAddr) Network() string { return seamName }
func (seamAddr) String() string  { return "link" }

// playedHandshake is what zmq4 hears of a peer of the given socket type.
func playedHandshake(socketType string) []byte {
	ready := encodeReady(readyInfo{socketType: socketType})
	b := appendHeader(appendGreeting(nil), flagCommand, len(ready))
	return append(b, ready...)
}

// A frameJoiner makes messages of the byte stream that zmq4 writes. It relies
// on nothing of how the stream is cut into writes, but a body that comes in
// one write is kept and not copied.
type frameJoiner struct {
	greeted int // bytes of the greeting swallowed
	head    [longHeaderSize]byte
	headLen int
	inBody  bool
	header  frameHeader
	body    []byte // when it comes in pieces
	frames  [][]byte
}

// write takes bytes; each message that they complete is given to emit.
func (j *frameJoiner) write(p []byte, emit func(frames [][]byte)) error {
	if j.greeted < greetingSize {
		n := min(len(p), greetingSize-j.greeted)
		j.greeted += n
		p = p[n:]
	}
	for len(p) > 0 || j.inBody && j.header.size == 0 {
		if !j.inBody {
			n := copy(j.head[j.headLen:], p)
			h, used, err := decodeHeader(j.head[:j.headLen+n])
			if err != nil {
				return err
			}
			if used == 0 {
				j.headLen += n
				return nil
			}
			p = p[used-j.headLen:]
			j.header, j.headLen, j.inBody = h, 0, true
			continue
		}
		size := int(j.header.size)
		var body []byte
		switch {
		case j.body == nil && len(p) >= size:
			body, p = p[:size:size], p[size:]
		default:
			n := min(len(p), size-len(j.body))
			j.body, p = append(j.body, p[:n]...), p[n:]
			if len(j.body) < size {
				return nil
			}
			body, j.body = j.body, nil
		}
		j.inBody = false
		if j.header.command() {
			continue // zmq4's READY; it sends no other
		}
		j.frames = append(j.frames, body)
		if !j.header.more() {
			frames := j.frames
			j.frames = nil
			emit(frames)
		}
	}
	return nil
}

// seamConn is a link as zmq4 sees it.
type seamConn struct {
	link   *link
	heard  []byte // what zmq4 hears before it hears the link again
	left   int64  // of the body that is passing
	frame  func() error
	limit  bool // outgoing messages may be dropped
	joiner frameJoiner

	// Of a client, whose link is read by pump so that heartbeats are answered
	// while zmq4 does not read.
	headers chan frameHeader
	resume  chan struct{}
}

// newSubscriberConn is the publisher's end: zmq4 hears subscriptions only.
func newSubscriberConn(l *link) *seamConn {
	l.maxFrames = 1
	l.maxMessage = maxTopic + 1
	c := &seamConn{link: l, heard: playedHandshake(l.peer.socketType), limit: true}
	c.frame = c.subscription
	return c
}

// newClientConn is the subscriber's and the requester's end. Its pump has to
// run.
func newClientConn(l *link) *seamConn {
	c := &seamConn{
		link: l, heard: playedHandshake(l.peer.socketType),
		headers: make(chan frameHeader), resume: make(chan struct{}),
	}
	c.frame = c.pumped
	return c
}

func (c *seamConn) Read(p []byte) (int, error) {
	for {
		if len(c.heard) > 0 {
			n := copy(p, c.heard)
			if c.heard = c.heard[n:]; len(c.heard) == 0 {
				c.heard = nil
			}
			return n, nil
		}
		if c.left > 0 {
			n, err := c.link.read(p[:min(int64(len(p)), c.left)])
			if err != nil {
				c.link.close(err)
				return 0, io.EOF
			}
			if c.left -= int64(n); c.left == 0 {
				c.passed()
			}
			return n, nil
		}
		if err := c.frame(); err != nil {
			c.link.close(err)
			return 0, io.EOF // the one error that zmq4 takes for the end in all its sockets
		}
	}
}

// pump reads the headers of a client's link.
func (c *seamConn) pump() {
	for {
		h, err := c.link.next()
		if err == io.EOF {
			err = errPeerLeft{}
		}
		if err != nil {
			c.link.close(err)
			return
		}
		select {
		case c.headers <- h:
		case <-c.link.dead:
			return
		}
		select {
		case <-c.resume:
		case <-c.link.dead:
			return
		}
	}
}

// pumped is the next frame of a client.
func (c *seamConn) pumped() error {
	select {
	case h := <-c.headers:
		c.heard = appendHeader(nil, h.flags, int(h.size))
		if c.left = h.size; c.left == 0 {
			c.passed()
		}
		return nil
	case <-c.link.dead:
		return c.link.cause()
	}
}

// passed lets the pump go on: the body is through.
func (c *seamConn) passed() {
	if c.resume != nil {
		select {
		case c.resume <- struct{}{}:
		case <-c.link.dead:
		}
	}
}

const (
	maxTopic  = 1 << 10
	maxTopics = 256
)

// subscription is the next frame of a subscriber: whole, checked, and noted on
// the link.
func (c *seamConn) subscription() error {
	h, err := c.link.next()
	if err != nil {
		return err
	}
	body, err := c.link.body(h.size, nil)
	switch {
	case err != nil:
		return err
	case h.more() || len(body) == 0 || body[0] > 1:
		return &fault{reasonSubscription, "a message that is no subscription"}
	}
	topic := string(body[1:])
	l := c.link
	l.mu.Lock()
	at := slices.Index(l.topics, topic)
	switch {
	case body[0] == 1 && at < 0 && len(l.topics) >= maxTopics:
		err = &fault{reasonSubscription, fmt.Sprintf("more than %d subscriptions", maxTopics)}
	case body[0] == 1 && at < 0:
		l.topics = append(l.topics, topic)
	case body[0] == 0 && at >= 0:
		l.topics = slices.Delete(l.topics, at, at+1)
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}
	c.heard = append(appendHeader(nil, 0, len(body)), body...)
	return nil
}

// Write takes what zmq4 sends. It never waits for the peer.
func (c *seamConn) Write(p []byte) (int, error) {
	var failed error
	err := c.joiner.write(p, func(frames [][]byte) {
		if err := c.link.send(outgoing{frames: frames, limited: c.limit}); err != nil && err != errQueueFull {
			failed = net.ErrClosed
		}
	})
	if err != nil {
		c.link.close(err)
		return 0, net.ErrClosed
	}
	if failed != nil {
		return 0, failed
	}
	return len(p), nil
}

func (c *seamConn) Close() error {
	c.link.close(errTransportClosed)
	return nil
}

func (c *seamConn) LocalAddr() net.Addr  { return c.link.conn.LocalAddr() }
func (c *seamConn) RemoteAddr() net.Addr { return c.link.conn.RemoteAddr() }

// Deadlines are the link's business.
func (c *seamConn) SetDeadline(time.Time) error      { return nil }
func (c *seamConn) SetReadDeadline(time.Time) error  { return nil }
func (c *seamConn) SetWriteDeadline(time.Time) error { return nil }
