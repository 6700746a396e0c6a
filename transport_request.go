// RequestServer: answers to requests, a ROUTER socket of our own.
//
// zmq4's ROUTER searches all its connections for each answer, which at 5,000
// minions costs more than all other work together, and buffers requests of
// peers that do not read. On the framing layer the socket is short enough to
// be ours.
//
// The law of this file: a peer has at most one request here. Its next one is
// not read from the network before the answer to the last was written; TCP
// does the waiting. Commands are still read meanwhile, so heartbeats are
// answered while a request is in work. Workers never write to the network, so
// peers that do not read hold no worker.
package main

import (
	"context"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

const (
	workerIdle  = 2 * time.Second // a worker with nothing to do goes home
	maxEnvelope = 255             // bytes of one routing frame in front of the delimiter
	smallBody   = 64 << 10        // larger bodies are counted against MaxBodies
)

// RequestServer is a ROUTER socket. See the head of the file.
type RequestServer struct {
	guard   *guard
	handler RequestHandler
	bodies  *budget

	life context.Context // of the handlers
	end  context.CancelFunc

	jobs    chan job
	waiting atomic.Int64
	inWork  atomic.Int64
	served  atomic.Uint64

	mu      sync.Mutex
	closing bool
	workers int
	crew    sync.WaitGroup // workers
	pending sync.WaitGroup // requests that were taken and not yet answered on the wire
	once    sync.Once
	closed  chan struct{}
	unwatch func() bool
}

// job is one request on its way through the server.
type job struct {
	peer     *Peer
	envelope [][]byte // routing frames and the empty delimiter, which the answer repeats
	body     []byte
	held     int64         // bytes of bodies it holds
	answered chan struct{} // gets one token when the peer may send again
}

// ListenRequests opens a port for requests. The end of ctx closes the server.
func ListenRequests(ctx context.Context, addr string, o TransportOptions, h RequestHandler) (*RequestServer, error) {
	opts := o.withDefaults()
	g, err := listenGuard(ctx, addr, "ROUTER", requestIn, opts)
	if err != nil {
		return nil, err
	}
	s := &RequestServer{
		guard: g, handler: h, bodies: newBudget(opts.MaxBodies),
		jobs: make(chan job), closed: make(chan struct{}),
	}
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	g.start(s.serve)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unwatch = context.AfterFunc(ctx, s.Close)
	return s, nil
}

// Addr is where the server listens.
func (s *RequestServer) Addr() net.Addr { return s.guard.listener.Addr() }

// Stats returns the counters.
func (s *RequestServer) Stats() TransportStats {
	st := s.guard.stats()
	st.Messages = s.served.Load()
	st.Waiting = int(s.waiting.Load())
	st.InWork = int(s.inWork.Load())
	return st
}

// serve reads the requests of one peer.
func (s *RequestServer) serve(l *link) {
	peer := &Peer{ID: l.id, RemoteAddr: l.conn.RemoteAddr(), link: l}
	answered := make(chan struct{}, 1)
	answered <- struct{}{}
	for {
		j, err := s.read(l, answered)
		if err == nil {
			j.peer, j.answered = peer, answered
			err = s.dispatch(j)
		}
		if err != nil {
			s.bodies.give(j.held)
			l.close(err)
			return
		}
	}
}

// read reads the next request, as soon as the last one was answered.
func (s *RequestServer) read(l *link, answered <-chan struct{}) (job, error) {
	var j job
	grow := func(bytes int64) error {
		if j.held == 0 && bytes < smallBody {
			return nil // small so far, the next growth is larger
		}
		if err := s.bodies.take(bytes, l.opts.Idle, l.dead); err != nil {
			return err
		}
		j.held += bytes
		return nil
	}
	for delimited := false; ; {
		h, err := l.next()
		if err != nil {
			return j, err
		}
		if j.envelope == nil {
			select {
			case <-answered:
			case <-l.dead:
				return j, errLinkClosed
			}
		}
		switch {
		case !delimited && !h.more():
			return j, &fault{reasonEnvelope, "no empty frame before the request"}
		case !delimited && h.size > maxEnvelope:
			return j, &fault{reasonEnvelope, fmt.Sprintf("a routing frame of %d bytes", h.size)}
		case delimited && h.more():
			return j, &fault{reasonEnvelope, "a request of more than one frame"}
		}
		body, err := l.body(h.size, grow)
		if err != nil {
			return j, err
		}
		if delimited {
			j.body = body
			return j, nil
		}
		j.envelope = append(j.envelope, body)
		delimited = h.size == 0
	}
}

// dispatch gives a request to a worker that is free, to a new one if there are
// not yet enough, or waits.
func (s *RequestServer) dispatch(j job) error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return errTransportClosed
	}
	s.pending.Add(1)
	select {
	case s.jobs <- j:
		s.mu.Unlock()
		return nil
	default:
	}
	if s.workers < s.guard.opts.Workers {
		s.workers++
		s.crew.Add(1)
		go s.work(j)
		s.mu.Unlock()
		return nil
	}
	s.waiting.Add(1) // before the lock is gone: no worker goes home now
	s.mu.Unlock()
	defer s.waiting.Add(-1)
	select {
	case s.jobs <- j:
		return nil
	case <-s.life.Done():
		s.pending.Done()
		return errTransportClosed
	}
}

// work is a worker.
func (s *RequestServer) work(j job) {
	defer s.crew.Done()
	idle := time.NewTimer(workerIdle)
	defer idle.Stop()
	for {
		s.do(j)
		idle.Reset(workerIdle)
		var more bool
		if j, more = s.nextJob(idle.C); !more {
			return
		}
	}
}

// nextJob waits for another request; none means that the worker is dismissed.
func (s *RequestServer) nextJob(idle <-chan time.Time) (job, bool) {
	for {
		select {
		case j := <-s.jobs:
			return j, true
		case <-s.life.Done():
			return job{}, false
		case <-idle:
		}
		s.mu.Lock()
		if s.waiting.Load() == 0 {
			s.workers--
			s.mu.Unlock()
			return job{}, false
		}
		s.mu.Unlock()
	}
}

// do carries out one request and queues its answer.
func (s *RequestServer) do(j job) {
	s.inWork.Add(1)
	answer := s.call(j)
	s.inWork.Add(-1)
	s.served.Add(1)
	done := func() {
		if f := j.peer.after; f != nil {
			j.peer.after = nil
			f()
		}
		s.bodies.give(j.held)
		j.answered <- struct{}{}
		s.pending.Done()
	}
	l := j.peer.link
	if answer == nil {
		l.close(&fault{reasonHandler, "the server has no answer for it"})
		done()
		return
	}
	if l.send(outgoing{frames: append(j.envelope, answer), sent: done}) != nil {
		done()
	}
}

// call runs the handler; a panic in it costs its peer the connection, no more.
func (s *RequestServer) call(j job) (answer []byte) {
	defer func() {
		if r := recover(); r != nil {
			answer = nil
			s.guard.opts.Log.Error(fmt.Sprintf("request of %s failed: %v\n%s", j.peer.RemoteAddr, r, debug.Stack()))
		}
	}()
	return s.handler(s.life, j.peer, j.body)
}

// Close ends the server: requests in work are finished and their answers
// flushed, as far as the Flush option gives time; then the handlers' context
// ends, and Close waits for the handlers to return.
func (s *RequestServer) Close() {
	s.once.Do(func() {
		defer close(s.closed)
		s.mu.Lock()
		s.closing = true
		s.unwatch()
		s.mu.Unlock()
		s.guard.stop()
		flush, cancel := context.WithTimeout(context.Background(), s.guard.opts.Flush)
		defer cancel()
		finished := make(chan struct{})
		go func() {
			s.pending.Wait()
			close(finished)
		}()
		select {
		case <-finished:
		case <-flush.Done():
		}
		s.end()
		s.guard.close(flush)
		<-finished
		s.crew.Wait()
	})
	<-s.closed
}

// budget is an amount of memory that large requests share. A peer that needs
// more than is left waits, and is cut when that takes too long.
type budget struct {
	mu      sync.Mutex
	left    int64
	changed chan struct{} // closed when something was given back
}

func newBudget(bytes int64) *budget {
	return &budget{left: bytes, changed: make(chan struct{})}
}

func (b *budget) take(bytes int64, wait time.Duration, dead <-chan struct{}) error {
	var timeout <-chan time.Time
	for {
		b.mu.Lock()
		if b.left >= bytes {
			b.left -= bytes
			b.mu.Unlock()
			return nil
		}
		changed := b.changed
		b.mu.Unlock()
		if timeout == nil {
			t := time.NewTimer(wait)
			defer t.Stop()
			timeout = t.C
		}
		select {
		case <-changed:
		case <-timeout:
			return &fault{reasonMemory, fmt.Sprintf("no room for its large request within %v", wait)}
		case <-dead:
			return errLinkClosed
		}
	}
}

func (b *budget) give(bytes int64) {
	if bytes == 0 {
		return
	}
	b.mu.Lock()
	b.left += bytes
	close(b.changed)
	b.changed = make(chan struct{})
	b.mu.Unlock()
}
