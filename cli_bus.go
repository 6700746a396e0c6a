// A reader of a master's event bus, for the command lines and runners.
//
// The law of this room: one connection and one goroutine for a program; whoever
// wants events subscribes, and subscribes before it asks for something, so that
// no answer is missed. Events are kept as bytes and decoded when they are
// taken; a subscriber that does not take them loses the newest ones and can see
// how many. Both framings that Salt's releases use are read.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	busFrameLimit  = 256 << 20 // of one event
	busQueueBytes  = 512 << 20 // of what one subscription keeps
	busDialTimeout = 5 * time.Second
)

// errBusClosed is the error for a bus whose connection ended.
var errBusClosed = errors.New("the connection to the event bus ended")

// BusEvent is an event as it came from the bus.
type BusEvent struct {
	Tag  string
	body []byte
}

// Data decodes the event.
func (e BusEvent) Data() (*Map, error) {
	_, data, err := UnpackEvent(e.body)
	return data, err
}

// BusClient is a connection to the bus.
type BusClient struct {
	conn net.Conn
	done chan struct{} // closed when the reader has ended

	mu   sync.Mutex
	subs map[*BusSubscription]bool
	err  error
}

// DialBus connects to the bus below a master's sock_dir and reads it until
// Close. The context bounds the dialling.
func DialBus(ctx context.Context, sockDir string) (*BusClient, error) {
	path := filepath.Join(sockDir, "master_event_pub.ipc")
	d := net.Dialer{Timeout: busDialTimeout}
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("connect to the event bus: %w", err)
	}
	b := &BusClient{conn: conn, done: make(chan struct{}), subs: map[*BusSubscription]bool{}}
	go b.read()
	return b, nil
}

// Close ends the connection and waits for the reader.
func (b *BusClient) Close() {
	b.conn.Close()
	<-b.done
}

func (b *BusClient) read() {
	defer close(b.done)
	in := bufio.NewReaderSize(b.conn, 64<<10)
	stream := NewBinStream(in, busFrameLimit)
	for {
		frame, err := nextBusFrame(in, stream)
		if err != nil {
			b.end(err)
			return
		}
		body, err := BusBody(frame)
		if err != nil {
			continue // not an event: nobody waits for it
		}
		tag, _, ok := bytes.Cut(body, []byte(eventTagEnd))
		if !ok {
			continue
		}
		b.deliver(BusEvent{Tag: string(tag), body: body})
	}
}

// nextBusFrame reads one frame: a map, or a length of four bytes and a map.
func nextBusFrame(in *bufio.Reader, stream *BinStream) (any, error) {
	first, err := in.Peek(1)
	if err != nil {
		return nil, err
	}
	if first[0] >= 0x80 {
		return stream.Next()
	}
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > busFrameLimit {
		return nil, fmt.Errorf("event of %d bytes", n)
	}
	p := make([]byte, n)
	if _, err := io.ReadFull(in, p); err != nil {
		return nil, err
	}
	return DecodeBin(p)
}

func (b *BusClient) end(err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		err = errBusClosed
	}
	b.conn.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
	for s := range b.subs {
		s.poke()
	}
}

func (b *BusClient) deliver(e BusEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subs {
		if !s.wants(e.Tag) {
			continue
		}
		if s.bytes+len(e.body) > busQueueBytes {
			s.dropped++
			continue
		}
		s.queue = append(s.queue, e)
		s.bytes += len(e.body)
		s.poke()
	}
}

// BusSubscription is one subscriber's queue.
type BusSubscription struct {
	bus      *BusClient
	prefixes []string
	queue    []BusEvent
	bytes    int
	dropped  int
	wake     chan struct{}
}

// Subscribe collects the events whose tags begin with one of the prefixes,
// all events if there is none.
func (b *BusClient) Subscribe(prefixes ...string) *BusSubscription {
	s := &BusSubscription{bus: b, prefixes: prefixes, wake: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subs[s] = true
	if b.err != nil {
		s.poke()
	}
	return s
}

func (s *BusSubscription) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *BusSubscription) wants(tag string) bool {
	if len(s.prefixes) == 0 {
		return true
	}
	for _, p := range s.prefixes {
		if strings.HasPrefix(tag, p) {
			return true
		}
	}
	return false
}

// Narrow changes what is collected, also among what already came: a program
// subscribes widely before it publishes and narrows when it knows the job id.
func (s *BusSubscription) Narrow(prefixes ...string) {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	s.prefixes = prefixes
	kept := s.queue[:0]
	s.bytes = 0
	for _, e := range s.queue {
		if s.wants(e.Tag) {
			kept = append(kept, e)
			s.bytes += len(e.body)
		}
	}
	clear(s.queue[len(kept):])
	s.queue = kept
}

// Take returns everything that came, and the error that ended the bus if
// nothing more can come.
func (s *BusSubscription) Take() ([]BusEvent, error) {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	batch := s.queue
	s.queue, s.bytes = nil, 0
	if len(batch) == 0 {
		return nil, s.bus.err
	}
	return batch, nil
}

// Wake is signalled when Take may return something new.
func (s *BusSubscription) Wake() <-chan struct{} { return s.wake }

// Dropped is how many events the queue had no room for.
func (s *BusSubscription) Dropped() int {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	return s.dropped
}

// Close ends the subscription.
func (s *BusSubscription) Close() {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	delete(s.bus.subs, s)
	s.queue = nil
}

// Next waits for one event.
func (s *BusSubscription) Next(ctx context.Context) (BusEvent, error) {
	for {
		s.bus.mu.Lock()
		if len(s.queue) > 0 {
			e := s.queue[0]
			s.queue = s.queue[1:]
			s.bytes -= len(e.body)
			s.bus.mu.Unlock()
			return e, nil
		}
		err := s.bus.err
		s.bus.mu.Unlock()
		if err != nil {
			return BusEvent{}, err
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return BusEvent{}, ctx.Err()
		}
	}
}

// BusPusher puts events on the bus of a master on this machine, in their order.
type BusPusher struct {
	path string

	mu   sync.Mutex
	conn net.Conn
	wrap func(event []byte) ([]byte, error) // into the frames that the master reads
}

// NewBusPusher makes a pusher; it connects when it is first used.
func NewBusPusher(sockDir string) *BusPusher {
	return &BusPusher{path: filepath.Join(sockDir, "master_event_pull.ipc")}
}

// Close ends the connection.
func (b *BusPusher) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn != nil {
		b.conn.Close()
		b.conn = nil
	}
}

// Fire puts one event on the bus, stamped if it is not. A connection that the
// master closed meanwhile is made anew once.
func (b *BusPusher) Fire(ctx context.Context, tag string, data *Map) error {
	if !data.Has("_stamp") {
		data = data.Clone()
		data.Set("_stamp", EventStamp(time.Now()))
	}
	event, err := PackEvent(tag, data)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for fresh := false; ; {
		if b.conn == nil {
			d := net.Dialer{Timeout: busDialTimeout}
			conn, err := d.DialContext(ctx, "unix", b.path)
			if err != nil {
				return fmt.Errorf("connect to the event bus: %w", err)
			}
			b.conn, b.wrap, fresh = conn, busFramer(conn), true
		}
		frame, err := b.wrap(event)
		if err != nil {
			return err
		}
		b.conn.SetWriteDeadline(time.Now().Add(busDialTimeout))
		_, err = b.conn.Write(frame)
		if err == nil {
			return nil
		}
		b.conn.Close()
		b.conn = nil
		if fresh {
			return fmt.Errorf("write event %s: %w", tag, err)
		}
	}
}

// busFramer is what wraps events for the master at the other end of its pull
// socket.
func busFramer(conn net.Conn) func(event []byte) ([]byte, error) {
	if c, ok := conn.(*net.UnixConn); ok && masterWantsLength(c) {
		return BusFrameLength
	}
	return BusFrame
}
