// The master's event bus: two Unix sockets in sock_dir that speak Salt's own
// framing, and subscriptions for the master's own goroutines.
//
// The law of this room: firing an event never waits for a reader. An event is
// packed once, whatever the number of readers; every reader has a queue with a
// limit, and what does not fit is dropped for that reader alone, counted and
// logged. Data of an event is shared by all who receive it: nobody changes it.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	eventPubSocket  = "master_event_pub.ipc"
	eventPullSocket = "master_event_pull.ipc"
	// publishPullSocket exists because Salt's `salt` looks for it before it
	// publishes; nothing is sent through it.
	publishPullSocket = "publish_pull.ipc"

	eventQueueLen   = 65536    // events that wait for one reader
	eventQueueBytes = 32 << 20 // bytes that wait for one reader
	eventPullLimit  = 64 << 20 // one event from a program on this machine
	eventBatch      = 64       // events in one write
)

// Event is one message of the bus.
type Event struct {
	Tag  string
	Data *Map
}

// EventBus hands events to everybody who listens.
type EventBus struct {
	log     *slog.Logger
	maxSize int // max_event_size

	fired   atomic.Int64
	dropped atomic.Int64

	mu      sync.Mutex
	readers map[*eventReader]struct{}
	subs    map[*EventSubscription]struct{}
}

// NewEventBus makes a bus that nobody outside of this process hears yet.
func NewEventBus(maxSize int, log *slog.Logger) *EventBus {
	if maxSize <= 0 {
		maxSize = MaxEventSize
	}
	return &EventBus{
		log: log, maxSize: maxSize,
		readers: map[*eventReader]struct{}{}, subs: map[*EventSubscription]struct{}{},
	}
}

// EventStats are the counters of the bus.
type EventStats struct {
	Fired, Dropped       int64
	Readers, QueuedBytes int
}

// Stats returns the counters of the bus.
func (b *EventBus) Stats() EventStats {
	s := EventStats{Fired: b.fired.Load(), Dropped: b.dropped.Load()}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.Readers = len(b.readers)
	for r := range b.readers {
		r.mu.Lock()
		s.QueuedBytes += r.bytes
		r.mu.Unlock()
	}
	return s
}

// Fire puts an event on the bus. It adds the time to data, so data must be the
// event's own map.
func (b *EventBus) Fire(tag string, data *Map) {
	data.Set("_stamp", EventStamp(time.Now()))
	b.mu.Lock()
	listeners := len(b.readers)
	b.mu.Unlock()
	var body []byte
	if listeners > 0 {
		var err error
		if body, err = PackEventMax(tag, data, b.maxSize); err != nil {
			b.log.Error(fmt.Sprintf("event %s is not sent: %v", tag, err))
			return
		}
	}
	b.spread(Event{tag, data}, body)
}

// spread hands one event to all. body is nil when there was no reader outside.
func (b *EventBus) spread(e Event, body []byte) {
	b.fired.Add(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subs {
		if !strings.HasPrefix(e.Tag, s.prefix) {
			continue
		}
		select {
		case s.c <- e:
		default:
			s.dropped.Add(1)
			b.dropped.Add(1)
		}
	}
	if body == nil || len(b.readers) == 0 {
		return
	}
	frame, err := eventFrame(body)
	if err != nil {
		b.log.Error(fmt.Sprintf("event %s is not sent: %v", e.Tag, err))
		return
	}
	for r := range b.readers {
		r.push(frame)
	}
}

// eventFrame is an event as it goes over a socket. The first four bytes are the
// length, for readers that want one; the others get the rest.
func eventFrame(body []byte) ([]byte, error) {
	p, err := BusFrame(body)
	if err != nil {
		return nil, err
	}
	frame := make([]byte, 4, 4+len(p))
	binary.BigEndian.PutUint32(frame, uint32(len(p)))
	return append(frame, p...), nil
}

// EventSubscription receives events inside the master.
type EventSubscription struct {
	C       <-chan Event
	c       chan Event
	prefix  string
	dropped atomic.Int64
	bus     *EventBus
}

// Subscribe hears events whose tag starts with prefix, up to n of them waiting.
func (b *EventBus) Subscribe(prefix string, n int) *EventSubscription {
	s := &EventSubscription{c: make(chan Event, n), prefix: prefix, bus: b}
	s.C = s.c
	b.mu.Lock()
	b.subs[s] = struct{}{}
	b.mu.Unlock()
	return s
}

// Dropped is how many events did not fit.
func (s *EventSubscription) Dropped() int64 { return s.dropped.Load() }

// Close ends the subscription; C stays open and silent.
func (s *EventSubscription) Close() {
	s.bus.mu.Lock()
	delete(s.bus.subs, s)
	s.bus.mu.Unlock()
}

// Serve opens the sockets of the bus in dir and calls ready; it serves them until
// ctx ends. What was queued for readers then is still sent, for a second at most.
func (b *EventBus) Serve(ctx context.Context, dir string, ready func()) error {
	pub, err := listenUnix(filepath.Join(dir, eventPubSocket), 0o660)
	if err != nil {
		return err
	}
	defer pub.Close()
	pull, err := listenUnix(filepath.Join(dir, eventPullSocket), 0o600)
	if err != nil {
		return err
	}
	defer pull.Close()
	fake, err := listenUnix(filepath.Join(dir, publishPullSocket), 0o660)
	if err != nil {
		return err
	}
	defer fake.Close()
	ready()

	peers := newEventPeers()
	var wg sync.WaitGroup
	accept := func(l net.Listener, serve func(context.Context, *net.UnixConn)) {
		defer wg.Done()
		for {
			c, err := l.Accept()
			if err != nil {
				if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
					return
				}
				b.log.Error(fmt.Sprintf("accept on the event bus: %v", err))
				// Out of descriptors: others need time to give some back.
				if !sleepContext(ctx, 100*time.Millisecond) {
					return
				}
				continue
			}
			wg.Add(1)
			go func() {
				defer wg.Done()
				defer c.Close()
				serve(ctx, c.(*net.UnixConn))
			}()
		}
	}
	wg.Add(3)
	go accept(pub, func(ctx context.Context, c *net.UnixConn) { b.serveReader(ctx, c, peers.wantsLength(c)) })
	go accept(pull, b.servePull)
	go accept(fake, func(context.Context, *net.UnixConn) {})
	<-ctx.Done()
	pub.Close()
	pull.Close()
	fake.Close()
	wg.Wait()
	return nil
}

// listenUnix makes a socket with exactly these permissions from its first moment
// on; one that a dead master left is replaced.
func listenUnix(path string, mode os.FileMode) (net.Listener, error) {
	tmp := fmt.Sprintf("%s.%d", path, os.Getpid())
	os.Remove(tmp)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: tmp, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("open socket %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(tmp, mode); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		l.Close()
		os.Remove(tmp)
		return nil, fmt.Errorf("open socket %s: %w", path, err)
	}
	return &unixListener{l, path}, nil
}

// unixListener removes its socket when it is closed.
type unixListener struct {
	net.Listener
	path string
}

func (l *unixListener) Close() error {
	err := l.Listener.Close()
	if err == nil {
		os.Remove(l.path)
	}
	return err
}

// eventReader is one connection to the pub socket.
type eventReader struct {
	mu      sync.Mutex
	queue   [][]byte
	bytes   int
	dropped int64 // since the last log line
	wake    chan struct{}
	bus     *EventBus
}

func (r *eventReader) push(frame []byte) {
	r.mu.Lock()
	if len(r.queue) >= eventQueueLen || r.bytes+len(frame) > eventQueueBytes && len(r.queue) > 0 {
		r.dropped++
		r.mu.Unlock()
		r.bus.dropped.Add(1)
		return
	}
	r.queue = append(r.queue, frame)
	r.bytes += len(frame)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take removes a batch from the queue.
func (r *eventReader) take() (batch [][]byte, dropped int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.queue), eventBatch)
	batch = r.queue[:n:n]
	r.queue = r.queue[n:]
	if len(r.queue) == 0 {
		r.queue = nil
		dropped, r.dropped = r.dropped, 0
	}
	for _, f := range batch {
		r.bytes -= len(f)
	}
	return batch, dropped
}

func (b *EventBus) serveReader(ctx context.Context, c *net.UnixConn, withLength bool) {
	r := &eventReader{wake: make(chan struct{}, 1), bus: b}
	b.mu.Lock()
	b.readers[r] = struct{}{}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.readers, r)
		b.mu.Unlock()
	}()
	// A reader never writes: when its side can be read, it is gone.
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		io.Copy(io.Discard, c)
	}()
	defer func() { c.Close(); <-gone }()
	skip := 4
	if withLength {
		skip = 0
	}
	stop := context.AfterFunc(ctx, func() { c.SetWriteDeadline(time.Now().Add(time.Second)) })
	defer stop()
	for {
		batch, dropped := r.take()
		if dropped > 0 {
			b.log.Warn(fmt.Sprintf("a reader of the event bus (%s) was too slow and missed %d events", peerName(c), dropped))
		}
		if len(batch) == 0 {
			select {
			case <-r.wake:
				continue
			case <-gone:
				return
			case <-ctx.Done():
				if batch, _ = r.take(); len(batch) == 0 {
					return
				}
			}
		}
		out := make(net.Buffers, len(batch))
		for i, f := range batch {
			out[i] = f[skip:]
		}
		if _, err := out.WriteTo(c); err != nil {
			return
		}
	}
}

// servePull reads events that programs on this machine put on the bus: with a
// length before each, as some of Salt's releases do, or back to back.
func (b *EventBus) servePull(ctx context.Context, c *net.UnixConn) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	in := bufio.NewReaderSize(c, 32<<10)
	first, err := in.Peek(1)
	if err != nil {
		return
	}
	next := NewBinStream(in, eventPullLimit).Next
	if first[0] < 0x80 { // no map begins like this: a length
		next = func() (any, error) {
			var head [4]byte
			if _, err := io.ReadFull(in, head[:]); err != nil {
				return nil, err
			}
			n := binary.BigEndian.Uint32(head[:])
			if n > eventPullLimit {
				return nil, fmt.Errorf("event of %d bytes", n)
			}
			p, err := io.ReadAll(io.LimitReader(in, int64(n)))
			if err == nil && len(p) < int(n) {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				return nil, err
			}
			return DecodeBin(p)
		}
	}
	for {
		v, err := next()
		if err != nil {
			if !errors.Is(err, io.EOF) && ctx.Err() == nil {
				b.log.Warn(fmt.Sprintf("a program (%s) wrote what is no event: %v", peerName(c), err))
			}
			return
		}
		var tag string
		var data *Map
		body, err := BusBody(v)
		if err == nil {
			tag, data, err = UnpackEvent(body)
		}
		if err != nil {
			b.log.Warn(fmt.Sprintf("a program (%s) wrote what is no event: %v", peerName(c), err))
			continue
		}
		b.spread(Event{tag, data}, body)
	}
}
