// Publisher: one message to every subscriber whose topic matches. A zmq4 PUB
// socket on the guard.
//
// The law of this file: Publish costs the same whether the peers read or not.
// zmq4's writer goes through all subscribers and hands each message to the
// queue of each; a queue that is full drops the message for that one peer.
//
// zmq4's PUB has three gaps, which one helper closes: its queue has no end, it
// cannot tell when a message has gone to all, and its writer goroutine outlives
// the socket. The tally is a subscriber to everything that exists only here.
// It connects before anybody else, so the writer comes to it first: seeing a
// message means that the one before has been handed to all. And it ends the
// writer, by runtime.Goexit from inside the writer's call.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zeromq/zmq4"
)

// publishWindow is how many messages may wait for zmq4's writer.
const publishWindow = 64

// Publisher is a PUB socket. See the head of the file.
type Publisher struct {
	guard    *guard
	socket   zmq4.Socket
	listener *seamListener
	tally    *tally
	messages atomic.Uint64

	sending sync.Mutex // one Publish at a time; held while closing begins
	closing bool
	once    sync.Once
	closed  chan struct{}
	unwatch func() bool
}

// ListenPublisher opens a port for subscribers. The end of ctx closes the
// publisher.
func ListenPublisher(ctx context.Context, addr string, o TransportOptions) (*Publisher, error) {
	if err := registerSeam(); err != nil {
		return nil, fmt.Errorf("register with zmq4: %w", err)
	}
	opts := o.withDefaults()
	g, err := listenGuard(ctx, addr, "PUB", subscriberIn, opts)
	if err != nil {
		return nil, err
	}
	p := &Publisher{guard: g, listener: newSeamListener(), tally: newTally(), closed: make(chan struct{})}
	// The socket outlives ctx until Close has flushed and closed it.
	life := context.WithValue(context.WithoutCancel(ctx), seamListenerKey{}, p.listener)
	p.socket = zmq4.NewPub(life, seamOptions(opts)...)
	if err := p.socket.Listen(seamEndpoint); err != nil {
		g.close(ctx)
		return nil, fmt.Errorf("start publisher: %w", err)
	}
	p.listener.conns <- p.tally
	<-p.tally.subscribed
	g.start(func(l *link) {
		select {
		case p.listener.conns <- newSubscriberConn(l):
		case <-p.listener.done:
			l.close(errTransportClosed)
		}
	})
	p.sending.Lock()
	defer p.sending.Unlock()
	p.unwatch = context.AfterFunc(ctx, p.Close)
	return p, nil
}

// Addr is where the publisher listens.
func (p *Publisher) Addr() net.Addr { return p.guard.listener.Addr() }

// Publish sends one message and returns how many connected peers subscribed to
// it. It waits only while earlier messages are still being handed to the
// queues. The frames must not be changed afterwards.
func (p *Publisher) Publish(frames ...[]byte) int {
	if len(frames) == 0 {
		return 0
	}
	p.sending.Lock()
	defer p.sending.Unlock()
	if p.closing {
		return 0
	}
	topic := string(frames[0][:min(len(frames[0]), maxTopic)])
	p.send(frames)
	p.messages.Add(1)
	return p.guard.count(func(l *link) bool { return l.subscribed(topic) })
}

// send gives a message to zmq4 when there is room in the window.
func (p *Publisher) send(frames [][]byte) {
	p.tally.window <- struct{}{}
	// zmq4's PUB queues without end and has no way to fail.
	p.socket.Send(zmq4.NewMsgFrom(frames...))
}

// subscribed tells whether a message with this first frame is for the peer.
func (l *link) subscribed(topic string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.topics {
		if strings.HasPrefix(topic, t) {
			return true
		}
	}
	return false
}

// Peers lists the connected subscribers.
func (p *Publisher) Peers() []PeerInfo { return p.guard.infos() }

// Stats returns the counters.
func (p *Publisher) Stats() TransportStats {
	s := p.guard.stats()
	s.Messages = p.messages.Load()
	return s
}

// Close ends the publisher: what was published is flushed, as far as the Flush
// option gives time.
func (p *Publisher) Close() {
	p.once.Do(func() {
		defer close(p.closed)
		p.sending.Lock()
		p.closing = true
		p.unwatch()
		p.sending.Unlock()
		p.guard.stop()
		for range publishWindow { // the window is full of ours when the writer has come to all messages
			p.tally.window <- struct{}{}
		}
		p.tally.last.Store(true)
		p.socket.Send(zmq4.NewMsg(nil))
		<-p.tally.writerEnded
		flush, cancel := context.WithTimeout(context.Background(), p.guard.opts.Flush)
		defer cancel()
		p.guard.close(flush)
		p.socket.Close()
		p.tally.Close()
	})
	<-p.closed
}

// tally is the subscriber that the head of the file tells of; for zmq4 it is a
// connection like others.
type tally struct {
	heard       []byte
	subscribed  chan struct{} // closed when zmq4 knows the subscription
	window      chan struct{} // a token for each message that the writer has not come to
	last        atomic.Bool   // the next message is the last and ends the writer
	writerEnded chan struct{}
	joiner      frameJoiner
	done        chan struct{}
	once        sync.Once
	asked       bool
}

func newTally() *tally {
	subscribe := []byte{0, 1, 1} // a frame of one byte: subscribe to the empty prefix
	return &tally{
		heard:       append(playedHandshake("SUB"), subscribe...),
		subscribed:  make(chan struct{}),
		window:      make(chan struct{}, publishWindow),
		writerEnded: make(chan struct{}),
		done:        make(chan struct{}),
	}
}

// Read plays a handshake and a subscription; that zmq4 wants to hear more says
// that it has noted the subscription.
func (t *tally) Read(p []byte) (int, error) {
	if len(t.heard) > 0 {
		n := copy(p, t.heard)
		t.heard = t.heard[n:]
		return n, nil
	}
	if !t.asked {
		t.asked = true
		close(t.subscribed)
	}
	<-t.done
	return 0, io.EOF
}

// Write sees every message first.
func (t *tally) Write(p []byte) (int, error) {
	ended := false
	err := t.joiner.write(p, func([][]byte) {
		if t.last.Load() {
			ended = true
			return
		}
		<-t.window
	})
	if ended {
		close(t.writerEnded)
		// zmq4 holds one mutex here, which it releases by defer.
		runtime.Goexit()
	}
	return len(p), err
}

func (t *tally) Close() error {
	t.once.Do(func() { close(t.done) })
	return nil
}

func (t *tally) LocalAddr() net.Addr              { return seamAddr{} }
func (t *tally) RemoteAddr() net.Addr             { return seamAddr{} }
func (t *tally) SetDeadline(time.Time) error      { return nil }
func (t *tally) SetReadDeadline(time.Time) error  { return nil }
func (t *tally) SetWriteDeadline(time.Time) error { return nil }
