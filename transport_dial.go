// Subscriber and Requester: the minion's two connections, zmq4 SUB and REQ
// sockets on checked links.
//
// The law of this file: a socket lives as long as its one connection. zmq4's
// own reconnection deadlocks or gives up, so there is none: when the link ends,
// so does the object, with the reason, and the caller dials a new one when it
// thinks fit. No call can hang: dialling is bounded by the Handshake option and
// its context, Recv and Request by theirs.
package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-zeromq/zmq4"
)

// dialLink connects and does the handshake; buffer is the size of the link's
// read buffer. Nothing runs in the background yet.
func dialLink(ctx context.Context, addr, socketType string, buffer int, o *TransportOptions) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Handshake)
	defer cancel()
	dialer := net.Dialer{KeepAlive: -1, KeepAliveConfig: o.KeepAlive}
	if o.Local != "" {
		local, err := net.ResolveTCPAddr("tcp", o.Local)
		if err != nil {
			return nil, fmt.Errorf("connect to %s from %q: %w", addr, o.Local, err)
		}
		dialer.LocalAddr = local
	}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	l := newLink(conn, o, &linkCounters{}, buffer)
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	err = l.handshake(socketType)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return l, nil
}

// openSocket makes a zmq4 socket on a link and starts the link's pump.
func openSocket(l *link, pump *sync.WaitGroup, newSocket func(context.Context, ...zmq4.Option) zmq4.Socket, topics []string) (zmq4.Socket, error) {
	if err := registerSeam(); err != nil {
		return nil, fmt.Errorf("register with zmq4: %w", err)
	}
	c := newClientConn(l)
	// The socket ends when we close it, after its goroutines were let go.
	socket := newSocket(context.WithValue(context.Background(), seamConnKey{}, c), seamOptions(l.opts)...)
	for _, t := range topics { // before Dial, which sends them
		if err := socket.SetOption(zmq4.OptionSubscribe, t); err != nil {
			socket.Close()
			return nil, fmt.Errorf("subscribe to %q: %w", t, err)
		}
	}
	if err := socket.Dial(seamEndpoint); err != nil {
		socket.Close()
		return nil, fmt.Errorf("start socket: %w", err)
	}
	pump.Go(c.pump)
	return socket, nil
}

// Subscriber is a SUB socket with one connection. See the head of the file.
type Subscriber struct {
	link     *link
	socket   zmq4.Socket
	messages chan [][]byte
	closing  context.Context
	close    context.CancelFunc
	running  sync.WaitGroup
	ended    chan struct{} // closed when no message will come any more
}

// DialSubscriber connects to a publisher and subscribes to the topics, which
// are prefixes of the first frame; "" is everything. ctx bounds the dialling
// only.
func DialSubscriber(ctx context.Context, addr string, topics []string, o TransportOptions) (*Subscriber, error) {
	for _, t := range topics {
		if len(t) > maxTopic {
			return nil, fmt.Errorf("subscribe to %.40q…: a topic has at most %d bytes", t, maxTopic)
		}
	}
	l, err := dialLink(ctx, addr, "SUB", clientIn, o.withDefaults())
	if err != nil {
		return nil, err
	}
	s := &Subscriber{link: l, messages: make(chan [][]byte), ended: make(chan struct{})}
	if s.socket, err = openSocket(l, &s.running, zmq4.NewSub, topics); err != nil {
		l.close(err)
		return nil, err
	}
	s.closing, s.close = context.WithCancel(context.Background())
	s.running.Go(s.run)
	return s, nil
}

// run takes the messages out of zmq4. It goes on until zmq4 tells the end of
// the link, as zmq4's reader blocks for ever on a message that nobody takes.
func (s *Subscriber) run() {
	defer close(s.ended)
	defer s.socket.Close()
	for {
		m, err := s.socket.Recv()
		if err != nil {
			s.link.close(err)
			return
		}
		select {
		case s.messages <- m.Frames:
		case <-s.closing.Done():
		}
	}
}

// Recv waits for the next message. After the connection ended it returns what
// had arrived before, then the reason.
func (s *Subscriber) Recv(ctx context.Context) ([][]byte, error) {
	select {
	case m := <-s.messages:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.ended:
		return nil, fmt.Errorf("subscription at %s ended: %w", s.link.conn.RemoteAddr(), s.link.cause())
	}
}

// RemoteAddr is the address of the publisher.
func (s *Subscriber) RemoteAddr() net.Addr { return s.link.conn.RemoteAddr() }

// PeerMinor is the minor version of the protocol that the publisher announced:
// 1 by libzmq since 4.3, 0 by this program.
func (s *Subscriber) PeerMinor() int { return int(s.link.minor) }

// Close ends the subscription.
func (s *Subscriber) Close() {
	s.close()
	s.link.close(errTransportClosed)
	s.running.Wait()
	<-s.link.flushed()
}

// Requester is a REQ socket with one connection. See the head of the file.
type Requester struct {
	link    *link
	socket  zmq4.Socket
	running sync.WaitGroup
	turn    chan struct{} // holds a token while no request is in flight
	once    sync.Once
}

// DialRequester connects to a request server. ctx bounds the dialling only.
func DialRequester(ctx context.Context, addr string, o TransportOptions) (*Requester, error) {
	l, err := dialLink(ctx, addr, "REQ", clientIn, o.withDefaults())
	if err != nil {
		return nil, err
	}
	r := &Requester{link: l, turn: make(chan struct{}, 1)}
	if r.socket, err = openSocket(l, &r.running, zmq4.NewReq, nil); err != nil {
		l.close(err)
		return nil, err
	}
	r.turn <- struct{}{}
	return r, nil
}

// Request sends a request and waits for the answer. Requests of several callers
// go one after the other. After any error, the end of ctx while the request is in
// flight too, the requester is closed: a late answer must not be taken for that
// of the next request. The body must not be changed afterwards.
func (r *Requester) Request(ctx context.Context, body []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-r.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { r.turn <- struct{}{} }()
	stop := context.AfterFunc(ctx, func() { r.link.close(context.Cause(ctx)) })
	answer, err := r.ask(body)
	if !stop() && err == nil {
		return answer, nil // it came in the last moment; the next call finds the link closed
	}
	if err != nil {
		r.link.close(err)
		if cause := r.link.cause(); cause != nil {
			err = cause
		}
		r.Close()
		return nil, fmt.Errorf("request to %s: %w", r.link.conn.RemoteAddr(), err)
	}
	return answer, nil
}

func (r *Requester) ask(body []byte) ([]byte, error) {
	if err := r.socket.Send(zmq4.NewMsg(body)); err != nil {
		return nil, err
	}
	m, err := r.socket.Recv()
	switch {
	case err != nil:
		return nil, err
	case len(m.Frames) != 1:
		return nil, fmt.Errorf("an answer of %d frames", len(m.Frames))
	}
	return m.Frames[0], nil
}

// Done is closed when the connection has ended.
func (r *Requester) Done() <-chan struct{} { return r.link.dead }

// RemoteAddr is the address of the server.
func (r *Requester) RemoteAddr() net.Addr { return r.link.conn.RemoteAddr() }

// Close ends the connection; a request in flight fails.
func (r *Requester) Close() {
	r.once.Do(func() {
		r.link.close(errTransportClosed)
		r.socket.Close()
	})
	r.running.Wait()
	<-r.link.flushed()
}
