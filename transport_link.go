// A link is one ZMTP connection, of either side: it does the handshake, cuts
// the byte stream into frames, answers heartbeats, and has a queue of its own
// for what goes out.
//
// The law of this file: reading is done by one goroutine at a time, writing by
// one goroutine that exists only while something is queued. An idle link is
// one parked reader with a small buffer and nothing else. send never waits for
// the peer; close may be called by anybody, any number of times.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	firstPiece   = 4 << 10   // what a body gets before its bytes are there
	writePiece   = 256 << 10 // what has to go out within WriteTimeout
	maxBatch     = 64        // messages for one write
	maxControls  = 16        // PINGs and PONGs in a queue
	missedToCut  = 3         // heartbeats without an answer
	subscriberIn = 128       // read buffers: subscriptions are short,
	requestIn    = 1 << 10   // a request mostly fits, what is larger is read past the buffer
	clientIn     = 4 << 10
)

// linkCounters are what the links of one listener or client add up to.
type linkCounters struct {
	queued      atomic.Int64
	queuedBytes atomic.Int64
	dropped     atomic.Uint64
}

// link is one connection. See the head of the file.
type link struct {
	conn     net.Conn
	opts     *TransportOptions
	counters *linkCounters
	id       uint64
	since    time.Time
	peer     readyInfo
	minor    byte // of the protocol version that the peer announced

	maxMessage int64 // limits of incoming messages: less than the options' for subscribers
	maxFrames  int

	// The reading half.
	buf    []byte
	r, w   int   // buf[r:w] was read and not used yet
	frames int   // frames and bytes of the message being read
	sum    int64 //
	armed  bool  // a read deadline is set
	missed int   // heartbeats since the peer was last heard of

	// The writing half.
	mu          sync.Mutex
	queue       []outgoing
	queued      int // messages in the queue or being written
	queuedBytes int64
	controls    int
	dropped     uint64
	writing     bool
	idle        chan struct{} // closed when all is written; made when somebody waits
	topics      []string      // a subscriber's
	closed      bool
	err         error // why it was closed

	dead    chan struct{}      // closed with the link
	onClose func(*link, error) // told once
}

// outgoing is one message or command in a queue.
type outgoing struct {
	frames  [][]byte
	size    int64
	command bool
	limited bool   // may be dropped when the queue is full
	sent    func() // told once, when it was written or will never be
}

func newLink(conn net.Conn, o *TransportOptions, c *linkCounters, buffer int) *link {
	return &link{
		conn: conn, opts: o, counters: c, since: time.Now(),
		maxMessage: o.MaxMessage, maxFrames: o.MaxFrames,
		buf: make([]byte, buffer), dead: make(chan struct{}),
	}
}

// handshake exchanges greetings and READYs under the handshake deadline. Both
// sides do the same.
func (l *link) handshake(socketType string) error {
	if err := l.conn.SetDeadline(time.Now().Add(l.opts.Handshake)); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	if err := l.exchange(socketType); err != nil {
		var f *fault
		switch {
		case errors.As(err, &f):
			return err
		case errors.Is(err, os.ErrDeadlineExceeded):
			return &fault{reasonTimeout, fmt.Sprintf("no complete handshake within %v", l.opts.Handshake)}
		case errors.Is(err, io.EOF):
			return fmt.Errorf("handshake: %w", errPeerLeft{})
		}
		return fmt.Errorf("handshake: %w", err)
	}
	if err := l.conn.SetDeadline(time.Time{}); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	return nil
}

func (l *link) exchange(socketType string) error {
	if _, err := l.conn.Write(appendGreeting(nil)); err != nil {
		return err
	}
	for l.w-l.r < greetingSize {
		n, err := l.conn.Read(l.buf[l.w:])
		l.w += n
		if err := checkGreeting(l.buf[:l.w]); err != nil {
			return err
		}
		if err != nil && l.w < greetingSize {
			return err
		}
	}
	l.minor = l.buf[l.r+11]
	l.r += greetingSize
	ready := encodeReady(readyInfo{socketType: socketType})
	if _, err := l.conn.Write(append(appendHeader(nil, flagCommand, len(ready)), ready...)); err != nil {
		return err
	}
	var h frameHeader
	for {
		var n int
		var err error
		if h, n, err = decodeHeader(l.buf[l.r:l.w]); err != nil {
			return err
		}
		if l.r += n; n > 0 {
			break
		}
		if err := l.rawFill(); err != nil {
			return err
		}
	}
	switch {
	case !h.command():
		return &fault{reasonHandshake, "a message before READY"}
	case h.size > maxCommand:
		return &fault{reasonHandshake, fmt.Sprintf("a command of %d bytes instead of READY", h.size)}
	}
	body := make([]byte, 0, min(h.size, 512))
	for int64(len(body)) < h.size {
		if l.r == l.w {
			if err := l.rawFill(); err != nil {
				return err
			}
		}
		n := min(l.w-l.r, int(h.size)-len(body))
		body = append(body, l.buf[l.r:l.r+n]...)
		l.r += n
	}
	name, data, err := decodeCommand(body)
	switch {
	case err != nil:
		return err
	case name == "ERROR":
		if len(data) > 0 {
			data = data[1:]
		}
		return &fault{reasonHandshake, fmt.Sprintf("the peer refuses us: %q", data)}
	case name != "READY":
		return &fault{reasonHandshake, fmt.Sprintf("the command %q instead of READY", name)}
	}
	if l.peer, err = decodeReady(data); err != nil {
		return err
	}
	if !slices.Contains(peersOf(socketType), l.peer.socketType) {
		return &fault{reasonSocketType, fmt.Sprintf("a %q socket cannot talk to our %s socket", l.peer.socketType, socketType)}
	}
	return nil
}

// rawFill reads some bytes into the buffer under whatever deadline is set.
func (l *link) rawFill() error {
	if l.r == l.w {
		l.r, l.w = 0, 0
	} else if l.w == len(l.buf) {
		l.w = copy(l.buf, l.buf[l.r:l.w])
		l.r = 0
	}
	n, err := l.conn.Read(l.buf[l.w:])
	l.w += n
	if n > 0 {
		return nil
	}
	return err
}

// arm sets the read deadline: inside a message Idle, else the heartbeat.
func (l *link) arm(inside bool) error {
	var wait time.Duration
	switch {
	case inside:
		wait = l.opts.Idle
	case l.opts.Heartbeat > 0:
		wait = l.opts.Heartbeat
	case !l.armed:
		return nil
	}
	if l.armed = wait > 0; !l.armed {
		return l.conn.SetReadDeadline(time.Time{})
	}
	return l.conn.SetReadDeadline(time.Now().Add(wait))
}

// heard judges the outcome of a read: nil means try again.
func (l *link) heard(n int, err error, inside bool) error {
	switch {
	case n > 0:
		l.missed = 0
		return nil
	case err == nil:
		return nil
	case !errors.Is(err, os.ErrDeadlineExceeded):
		if inside && errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		return err
	case inside:
		return &fault{reasonSlow, fmt.Sprintf("nothing came for %v in the middle of a message", l.opts.Idle)}
	}
	if l.missed++; l.missed >= missedToCut {
		return &fault{reasonHeartbeat, fmt.Sprintf("nothing came for %v", missedToCut*l.opts.Heartbeat)}
	}
	// No time to live: with one, the peer would cut us when our next PING is
	// late because it sends itself and we have no reason to ask, and libzmq up to
	// 4.3.4 counts it in 16 bits of milliseconds.
	l.control("PING", []byte{0, 0})
	return nil
}

// header reads the next frame header.
func (l *link) header() (frameHeader, error) {
	for {
		h, n, err := decodeHeader(l.buf[l.r:l.w])
		if err != nil || n > 0 {
			l.r += n
			return h, err
		}
		inside := l.r < l.w || l.frames > 0
		if err := l.arm(inside); err != nil {
			return h, err
		}
		had := l.w - l.r
		err = l.rawFill()
		if err = l.heard(l.w-l.r-had, err, inside); err != nil {
			return h, err
		}
	}
}

// next returns the header of the next frame of a message, with the limits
// checked. Commands that come before it are dealt with here.
func (l *link) next() (frameHeader, error) {
	for {
		h, err := l.header()
		switch {
		case err != nil:
			return h, err
		case h.command():
			if err := l.command(h.size); err != nil {
				return h, err
			}
			continue
		}
		l.frames++
		switch {
		case l.frames > l.maxFrames:
			return h, &fault{reasonTooMany, fmt.Sprintf("more than %d frames in one message", l.maxFrames)}
		case h.size > l.maxMessage-l.sum:
			return h, &fault{reasonTooLarge, fmt.Sprintf("a frame of %d bytes, the limit for a message is %d", h.size, l.maxMessage)}
		}
		l.sum += h.size
		if !h.more() {
			l.frames, l.sum = 0, 0
		}
		return h, nil
	}
}

// command reads a command and does what it asks: PING is answered, all others
// are none of our business.
func (l *link) command(size int64) error {
	if size > maxCommand {
		return &fault{reasonFrame, fmt.Sprintf("a command of %d bytes", size)}
	}
	body, err := l.body(size, nil)
	if err != nil {
		return err
	}
	name, data, err := decodeCommand(body)
	if err != nil {
		return err
	}
	switch name {
	case "PING":
		if len(data) < 2 || len(data) > 2+maxPingContext {
			return &fault{reasonFrame, fmt.Sprintf("a PING of %d bytes", len(data))}
		}
		l.control("PONG", data[2:])
	case "SUBSCRIBE", "CANCEL":
		return &fault{reasonFrame, name + " as a command, although we announced ZMTP 3.0"}
	}
	return nil
}

// read reads some bytes of a body.
func (l *link) read(p []byte) (int, error) {
	for len(p) > 0 {
		if l.r < l.w {
			n := copy(p, l.buf[l.r:l.w])
			l.r += n
			return n, nil
		}
		if err := l.arm(true); err != nil {
			return 0, err
		}
		var n int
		var err error
		if len(p) >= len(l.buf) {
			n, err = l.conn.Read(p) // past the buffer
			if n > 0 {
				l.missed = 0
				return n, nil
			}
		} else {
			err = l.rawFill()
			n = l.w - l.r
		}
		if err := l.heard(n, err, true); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func (l *link) readFull(p []byte) error {
	for len(p) > 0 {
		n, err := l.read(p)
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// body reads a body of the announced size into memory that grows with what has
// come. Each growth asks grow, if there is one, before it is done.
func (l *link) body(size int64, grow func(bytes int64) error) ([]byte, error) {
	b := make([]byte, min(size, firstPiece))
	for got := 0; ; {
		if err := l.readFull(b[got:]); err != nil {
			return nil, err
		}
		got = len(b)
		if int64(got) == size {
			return b, nil
		}
		larger := min(size, 2*int64(got))
		if grow != nil {
			if err := grow(larger - int64(got)); err != nil {
				return nil, err
			}
		}
		b = append(make([]byte, 0, larger), b...)[:larger]
	}
}

var (
	errQueueFull  = errors.New("queue is full")
	errLinkClosed = errors.New("link is closed")
)

// errPeerLeft is io.EOF in words for the user.
type errPeerLeft struct{}

func (errPeerLeft) Error() string { return "the other side closed the connection" }
func (errPeerLeft) Unwrap() error { return io.EOF }

// send queues a message. It does not wait: an error says that the message was
// not taken, and then m.sent is not called.
func (l *link) send(m outgoing) error {
	for _, f := range m.frames {
		m.size += int64(len(f))
	}
	l.mu.Lock()
	switch {
	case l.closed:
		l.mu.Unlock()
		return errLinkClosed
	case m.command && l.controls >= maxControls,
		m.limited && (l.queued >= l.opts.QueueMessages || l.queuedBytes >= l.opts.QueueBytes):
		if !m.command {
			l.dropped++
			l.counters.dropped.Add(1)
		}
		l.mu.Unlock()
		return errQueueFull
	}
	if m.command {
		l.controls++
	}
	l.queue = append(l.queue, m)
	l.queued++
	l.queuedBytes += m.size
	start := !l.writing
	l.writing = true
	l.mu.Unlock()
	l.counters.queued.Add(1)
	l.counters.queuedBytes.Add(m.size)
	if start {
		go l.flush()
	}
	return nil
}

// control sends a command. One that finds the queue full of commands is lost;
// its peer does not read anyway.
func (l *link) control(name string, data []byte) {
	l.send(outgoing{frames: [][]byte{encodeCommand(name, data)}, command: true})
}

// flush is the writer: it lives while something is queued.
func (l *link) flush() {
	for {
		l.mu.Lock()
		if len(l.queue) == 0 {
			l.queue = nil
			l.writing = false
			if l.idle != nil {
				close(l.idle)
				l.idle = nil
			}
			l.mu.Unlock()
			return
		}
		batch := l.queue[:min(len(l.queue), maxBatch)]
		l.queue = l.queue[len(batch):]
		l.mu.Unlock()

		err := l.write(batch)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = &fault{reasonStalled, fmt.Sprintf("it took nothing for %v", l.opts.WriteTimeout)}
		}
		if err != nil {
			l.close(err)
		}
		l.settle(batch)
	}
}

// settle takes messages off the account, written or not.
func (l *link) settle(batch []outgoing) {
	var bytes int64
	var controls int
	for _, m := range batch {
		bytes += m.size
		if m.command {
			controls++
		}
	}
	l.mu.Lock()
	l.queued -= len(batch)
	l.queuedBytes -= bytes
	l.controls -= controls
	l.mu.Unlock()
	l.counters.queued.Add(-int64(len(batch)))
	l.counters.queuedBytes.Add(-bytes)
	for i := range batch {
		if batch[i].sent != nil {
			batch[i].sent()
		}
		batch[i] = outgoing{} // the bodies may go although the queue's array stays
	}
}

// write puts a batch on the connection, in pieces that each have their own
// deadline: a slow peer is served as long as it makes progress.
func (l *link) write(batch []outgoing) error {
	frames := 0
	for i := range batch {
		frames += len(batch[i].frames)
	}
	head := make([]byte, 0, frames*longHeaderSize)
	piece := make(net.Buffers, 0, 2*frames)
	size := 0
	put := func() error {
		if err := l.conn.SetWriteDeadline(time.Now().Add(l.opts.WriteTimeout)); err != nil {
			return err
		}
		rest := piece
		_, err := rest.WriteTo(l.conn)
		piece, size = piece[:0], 0
		return err
	}
	add := func(b []byte) error {
		for len(b) > 0 {
			n := min(len(b), writePiece-size)
			piece = append(piece, b[:n:n])
			b, size = b[n:], size+n
			if size == writePiece {
				if err := put(); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for i := range batch {
		m := &batch[i]
		for k, f := range m.frames {
			var flags byte
			switch {
			case m.command:
				flags = flagCommand
			case k < len(m.frames)-1:
				flags = flagMore
			}
			at := len(head)
			head = appendHeader(head, flags, len(f))
			if err := add(head[at:]); err != nil {
				return err
			}
			if err := add(f); err != nil {
				return err
			}
		}
	}
	if size == 0 {
		return nil
	}
	return put()
}

// close ends the link; the first caller's reason is the one that counts.
func (l *link) close(why error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	l.err = why
	rest := l.queue
	l.queue = nil
	l.mu.Unlock()
	close(l.dead)
	if l.onClose != nil {
		l.onClose(l, why) // counted before the peer can notice
	}
	l.conn.Close()
	l.settle(rest)
}

// cause is why the link was closed, nil while it lives.
func (l *link) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// flushed returns a channel that is closed when the queue is empty.
func (l *link) flushed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.writing {
		done := make(chan struct{})
		close(done)
		return done
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	return l.idle
}
