// The transport room: bytes between a master and its minions, over ZeroMQ's
// wire protocol (ZMTP 3.0, NULL mechanism). This room knows nothing of Salt.
//
//	master  ListenPublisher  PUB      zmq4 PUB socket on the guard
//	        ListenRequests   ROUTER   a small socket of our own on the same framing
//	minion  DialSubscriber   SUB      zmq4 SUB socket on the guard
//	        DialRequester    REQ      zmq4 REQ socket on the guard
//	swarm   dialPlain…       SUB REQ  the framing alone, for thousands in one process
//
// zmq4 (github.com/go-zeromq/zmq4) speaks the protocol well but trusts its
// peers: one silent TCP connection stops its accept loop, a malformed READY or
// an absurd length kills the process, one reader that stalls stalls everybody.
// So no byte of a peer reaches zmq4 before it was checked here. The files, from
// the wire upwards:
//
//	transport_zmtp.go     what the bytes mean: pure encoding and decoding
//	transport_link.go     one connection: handshake, frames in, bounded queue out, heartbeats
//	transport_guard.go    the listening side: who may connect, who is refused, counters, log
//	transport_zmq4.go     the seam: a link dressed as the net.Conn that zmq4 wants
//	transport_publish.go  Publisher
//	transport_request.go  RequestServer
//	transport_dial.go     Subscriber, Requester
//	transport_plain.go    the same two without zmq4 and without goroutines
//
// The laws of the room:
//
//   - What a peer costs is bounded: time for its handshake, bytes and frames of
//     its messages, subscriptions, its outgoing queue, connections of its address.
//     Memory follows what a peer sent, never what it announced.
//   - No peer can delay another. Each has its own reader, its own queue, its own
//     deadlines; nobody waits for a peer while holding a lock.
//   - A frame that was handed over is never changed, by nobody. Bodies are shared
//     by all queues they are in, not copied: a publication for 5,000 minions is
//     in memory once.
//   - A refused or cut peer leaves one line in the log, saying who and why, and
//     one count in Stats. How many lines one address can cause is bounded too.
//   - Every goroutine ends with the object that started it, and Close waits for
//     it. zmq4's own, which nobody can wait for, end when their link is closed.
package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"
)

// TransportOptions are the limits of a transport; the zero value of a field
// means its default.
type TransportOptions struct {
	MaxMessage int64 // bytes of one incoming message, all its frames together (128 MiB)
	MaxFrames  int   // frames of one incoming message (64)
	MaxBodies  int64 // bytes of all large requests being received or in work (4 × MaxMessage)

	Handshake    time.Duration // for connecting and the handshake (10 s)
	Idle         time.Duration // the longest pause inside a message (60 s); between messages a peer may be silent for ever
	WriteTimeout time.Duration // for each 256 KiB of what we send (30 s); a peer that takes longer is cut
	Flush        time.Duration // how long Close waits for answers and publications on their way (5 s)
	Heartbeat    time.Duration // after this silence a PING is sent, the third in vain cuts the link (off)

	QueueMessages int   // messages waiting for one subscriber; beyond it they are dropped for this one (1000)
	QueueBytes    int64 // the same in bytes; the message that reaches it is still queued, whatever its size (64 MiB)

	MaxPerAddress int // connections of one source address, an IPv6 /64 counts as one; a quarter of them may be in handshake (16384)
	MaxPeers      int // connections of one listener (65536)

	KeepAlive net.KeepAliveConfig // TCP keepalive (on, idle 300 s, the system's interval and count); switched off by Enable: false with any other field set
	Local     string              // source host:port for dialling, each part may be empty
	Workers   int                 // requests in work at the same time (64)
	Log       *slog.Logger        // where refused and cut peers are reported (nowhere)
}

func (o TransportOptions) withDefaults() *TransportOptions {
	orInt := func(p *int, d int) {
		if *p <= 0 {
			*p = d
		}
	}
	orInt64 := func(p *int64, d int64) {
		if *p <= 0 {
			*p = d
		}
	}
	orTime := func(p *time.Duration, d time.Duration) {
		if *p <= 0 {
			*p = d
		}
	}
	orInt64(&o.MaxMessage, 128<<20)
	orInt(&o.MaxFrames, 64)
	orInt64(&o.MaxBodies, 4*o.MaxMessage)
	orTime(&o.Handshake, 10*time.Second)
	orTime(&o.Idle, 60*time.Second)
	orTime(&o.WriteTimeout, 30*time.Second)
	orTime(&o.Flush, 5*time.Second)
	orInt(&o.QueueMessages, 1000)
	orInt64(&o.QueueBytes, 64<<20)
	orInt(&o.MaxPerAddress, 16384)
	orInt(&o.MaxPeers, 65536)
	orInt(&o.Workers, 64)
	if o.KeepAlive == (net.KeepAliveConfig{}) {
		o.KeepAlive = net.KeepAliveConfig{Enable: true, Idle: 300 * time.Second, Interval: -1, Count: -1}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &o
}

// Peer is who sent a request.
type Peer struct {
	ID         uint64 // number of the connection, never used twice by one server
	RemoteAddr net.Addr
	link       *link
	after      func() // set by the handler of the request in work
}

// AfterAnswer has f called when the answer to the request in work was written,
// or will never be: then the answer may be changed again.
func (p *Peer) AfterAnswer(f func()) { p.after = f }

// Close cuts the connection of the peer; an answer on its way is lost.
func (p *Peer) Close() {
	if p.link != nil {
		p.link.close(&fault{reasonHandler, "closed by the server"})
	}
}

// RequestHandler answers one request. It is called by many goroutines at once,
// for one peer never before its previous answer was sent. The context ends
// when the server is closed, not when the peer leaves: a request that arrived
// is carried out. A nil answer cuts the peer. The handler owns body; the answer
// must not be changed after it was returned, before AfterAnswer.
type RequestHandler func(ctx context.Context, p *Peer, body []byte) []byte

// PeerInfo describes one connected peer.
type PeerInfo struct {
	ID          uint64
	RemoteAddr  net.Addr
	Since       time.Time
	Topics      []string // what it subscribed to
	Queued      int      // messages waiting for it
	QueuedBytes int64
	Dropped     uint64 // messages it missed because its queue was full
}

// TransportStats are the counters of a listener.
type TransportStats struct {
	Connected   int               // peers past their handshake
	Handshaking int               // connections before it
	Accepted    uint64            // handshakes completed since the start
	Refused     map[string]uint64 // connections turned away before that, by reason
	Cut         map[string]uint64 // peers cut after that, by reason
	Messages    uint64            // publications or requests
	Dropped     uint64            // messages dropped because a subscriber's queue was full
	Queued      int               // messages in the queues of all peers
	QueuedBytes int64             // their bytes, counted for each peer though bodies are shared
	Waiting     int               // requests that wait for a worker
	InWork      int               // requests in the hands of workers
}

// A fault is why a peer was refused or cut: a reason to count by and a detail
// for the log.
type fault struct {
	reason string
	detail string
}

func (f *fault) Error() string { return f.reason + ": " + f.detail }

// The reasons of faults.
const (
	reasonAddressLimit = "address limit"
	reasonPeerLimit    = "peer limit"
	reasonNotZMTP      = "not ZMTP"
	reasonVersion      = "old ZMTP"
	reasonMechanism    = "mechanism"
	reasonHandshake    = "bad handshake"
	reasonTimeout      = "handshake timeout"
	reasonSocketType   = "socket type"
	reasonFrame        = "bad frame"
	reasonTooLarge     = "message too large"
	reasonTooMany      = "too many frames"
	reasonSubscription = "bad subscription"
	reasonEnvelope     = "bad request"
	reasonSlow         = "message stalled"
	reasonStalled      = "peer does not read"
	reasonMemory       = "out of request memory"
	reasonHeartbeat    = "no heartbeat"
	reasonHandler      = "handler"
)

// errTransportClosed is what operations on a closed transport return.
var errTransportClosed = errors.New("transport is closed")
