// The guard is the listening side that Publisher and RequestServer share: it
// accepts connections, does their handshakes side by side, counts peers by
// source address, and reports who was refused or cut.
//
// The law of this file: the accept loop never does anything that depends on a
// peer. What a peer may cost before it has shown to speak our protocol is one
// goroutine and a small buffer for the time of the handshake deadline, and a
// share of its own address's allowance, not of anybody else's. Of the locks,
// guard.mu may be held while link.mu is taken, never the other way round.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// guard is one listener with its connections. See the head of the file.
type guard struct {
	opts       *TransportOptions
	socketType string
	buffer     int // read buffer of a link
	listener   net.Listener
	counters   linkCounters
	faults     *faultLog

	mu          sync.Mutex
	closing     bool
	nextID      uint64
	pending     map[net.Conn]struct{} // in handshake
	peers       map[uint64]*link
	from        map[netip.Prefix]addressCount
	accepted    uint64
	refused     map[string]uint64
	cut         map[string]uint64
	done        chan struct{}  // closed when closing begins
	connections sync.WaitGroup // goroutines of handshakes and what follows them
	accepting   sync.WaitGroup
}

// addressCount is what one source address holds.
type addressCount struct{ pending, total int }

// listenGuard opens the port; serve starts accepting.
func listenGuard(ctx context.Context, addr, socketType string, buffer int, o *TransportOptions) (*guard, error) {
	network, err := networkOf(addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", addr, err)
	}
	config := net.ListenConfig{KeepAlive: -1, KeepAliveConfig: o.KeepAlive}
	l, err := config.Listen(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return &guard{
		opts: o, socketType: socketType, buffer: buffer, listener: l,
		faults:  newFaultLog(o.Log),
		pending: map[net.Conn]struct{}{},
		peers:   map[uint64]*link{},
		from:    map[netip.Prefix]addressCount{},
		refused: map[string]uint64{},
		cut:     map[string]uint64{},
		done:    make(chan struct{}),
	}, nil
}

// networkOf says how to open an address: an IPv4 address, 0.0.0.0 too, means
// IPv4 alone, while [::] takes both.
func networkOf(addr string) (string, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
		return "tcp4", nil
	}
	return "tcp", nil
}

// start begins to accept; serve is called for each peer past its handshake, in
// a goroutine of the guard.
func (g *guard) start(serve func(*link)) {
	g.accepting.Go(func() {
		for {
			conn, err := g.listener.Accept()
			switch {
			case err == nil:
				g.admit(conn, serve)
			case errors.Is(err, net.ErrClosed):
				return
			default:
				// Out of file descriptors and the like: others give theirs
				// back sooner or later, and to spin would not hurry them.
				g.faults.warn(nil, fmt.Sprintf("cannot accept connections on %s: %v", g.listener.Addr(), err))
				select {
				case <-time.After(50 * time.Millisecond):
				case <-g.done:
				}
			}
		}
	})
}

// admit counts a new connection and starts its handshake, or turns it away.
func (g *guard) admit(conn net.Conn, serve func(*link)) {
	from := addressOf(conn.RemoteAddr())
	g.mu.Lock()
	n := g.from[from]
	var f *fault
	switch {
	case g.closing:
		f = &fault{reasonHandler, "the server is closing"}
	case len(g.peers)+len(g.pending) >= g.opts.MaxPeers:
		f = &fault{reasonPeerLimit, fmt.Sprintf("%d connections are the limit", g.opts.MaxPeers)}
	case n.total >= g.opts.MaxPerAddress:
		f = &fault{reasonAddressLimit, fmt.Sprintf("%d connections of one address are the limit", g.opts.MaxPerAddress)}
	case n.pending >= max(g.opts.MaxPerAddress/4, 1):
		f = &fault{reasonAddressLimit, fmt.Sprintf("%d handshakes of one address at a time are the limit", max(g.opts.MaxPerAddress/4, 1))}
	}
	if f != nil {
		g.refused[f.reason]++
		g.mu.Unlock()
		g.report("refused", conn.RemoteAddr(), f)
		conn.Close()
		return
	}
	n.pending++
	n.total++
	g.from[from] = n
	g.pending[conn] = struct{}{}
	g.connections.Add(1)
	g.mu.Unlock()

	go func() {
		defer g.connections.Done()
		l := newLink(conn, g.opts, &g.counters, g.buffer)
		err := l.handshake(g.socketType)
		if err == nil {
			err = g.welcome(l, from)
		}
		if err != nil {
			g.turnAway(conn, from, err)
			return
		}
		serve(l)
	}()
}

// welcome makes a connection a peer.
func (g *guard) welcome(l *link, from netip.Prefix) error {
	l.onClose = func(l *link, why error) { g.leave(l, from, why) }
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing {
		return errTransportClosed
	}
	delete(g.pending, l.conn)
	n := g.from[from]
	n.pending--
	g.from[from] = n
	g.nextID++
	l.id = g.nextID
	l.since = time.Now()
	g.peers[l.id] = l
	g.accepted++
	return nil
}

// turnAway ends a connection that did not become a peer.
func (g *guard) turnAway(conn net.Conn, from netip.Prefix, why error) {
	defer conn.Close()
	reason := "lost in handshake"
	var f *fault
	if errors.As(why, &f) {
		reason = f.reason
	}
	g.mu.Lock()
	delete(g.pending, conn)
	n := g.from[from]
	n.pending--
	g.release(from, n)
	closing := g.closing
	if !closing {
		g.refused[reason]++
	}
	g.mu.Unlock()
	if !closing {
		g.report("refused", conn.RemoteAddr(), why)
	}
}

// release gives one connection of an address back; g.mu is held.
func (g *guard) release(from netip.Prefix, n addressCount) {
	if n.total--; n.total > 0 {
		g.from[from] = n
	} else {
		delete(g.from, from)
	}
}

// leave forgets a peer; it is called once for each, by link.close.
func (g *guard) leave(l *link, from netip.Prefix, why error) {
	g.mu.Lock()
	delete(g.peers, l.id)
	g.release(from, g.from[from])
	closing := g.closing
	var f *fault
	if errors.As(why, &f) {
		g.cut[f.reason]++
	}
	g.mu.Unlock()
	if !closing {
		g.report("cut", l.conn.RemoteAddr(), why)
	}
}

// report writes the one line. Peers that just leave, or lose their connection,
// are everyday and told at debug level.
func (g *guard) report(what string, who net.Addr, why error) {
	var f *fault
	if errors.As(why, &f) {
		g.faults.warn(who, fmt.Sprintf("%s %s on %s (%s): %v", what, who, g.listener.Addr(), g.socketType, why))
		return
	}
	if errors.Is(why, io.EOF) || errors.Is(why, syscall.ECONNRESET) {
		what = "left"
	}
	g.opts.Log.Debug(fmt.Sprintf("%s %s on %s (%s): %v", what, who, g.listener.Addr(), g.socketType, why))
}

// close stops accepting, gives the peers until the deadline to take what is
// queued for them, cuts them and waits for their goroutines.
func (g *guard) close(flush context.Context) {
	g.stop()
	for _, l := range g.snapshot() {
		select {
		case <-l.flushed():
		case <-flush.Done():
		}
	}
	for _, l := range g.snapshot() {
		l.close(errTransportClosed)
		<-l.flushed()
	}
	g.connections.Wait()
	g.faults.summary()
}

// stop closes the port and the connections in handshake. Peers stay.
func (g *guard) stop() {
	g.mu.Lock()
	if !g.closing {
		g.closing = true
		close(g.done)
	}
	pending := slices.Collect(maps.Keys(g.pending))
	g.mu.Unlock()
	g.listener.Close()
	for _, c := range pending {
		c.Close()
	}
	g.accepting.Wait()
}

// snapshot lists the peers, by age.
func (g *guard) snapshot() []*link {
	g.mu.Lock()
	peers := slices.Collect(maps.Values(g.peers))
	g.mu.Unlock()
	slices.SortFunc(peers, func(a, b *link) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	return peers
}

// count tells how many peers fit.
func (g *guard) count(fits func(*link) bool) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, l := range g.peers {
		if fits(l) {
			n++
		}
	}
	return n
}

func (g *guard) infos() []PeerInfo {
	var all []PeerInfo
	for _, l := range g.snapshot() {
		l.mu.Lock()
		all = append(all, PeerInfo{
			ID: l.id, RemoteAddr: l.conn.RemoteAddr(), Since: l.since, Topics: slices.Clone(l.topics),
			Queued: l.queued, QueuedBytes: l.queuedBytes, Dropped: l.dropped,
		})
		l.mu.Unlock()
	}
	return all
}

func (g *guard) stats() TransportStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return TransportStats{
		Connected: len(g.peers), Handshaking: len(g.pending), Accepted: g.accepted,
		Refused: maps.Clone(g.refused), Cut: maps.Clone(g.cut),
		Dropped: g.counters.dropped.Load(), Queued: int(g.counters.queued.Load()), QueuedBytes: g.counters.queuedBytes.Load(),
	}
}

// addressOf is what connections are counted by: the IPv4 address, or the /64
// network of an IPv6 address, as that is what one host can have.
func addressOf(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// A faultLog writes lines about peers, but only so many: an attacker must not
// fill the disk. What was left out is counted and told afterwards.
type faultLog struct {
	log *slog.Logger

	mu    sync.Mutex
	began time.Time
	lines map[netip.Prefix]int
	total int
	left  int
}

const (
	faultWindow     = 10 * time.Second
	linesPerAddress = 5  // in a window
	linesPerWindow  = 50 // of all addresses
)

func newFaultLog(log *slog.Logger) *faultLog {
	return &faultLog{log: log, lines: map[netip.Prefix]int{}}
}

func (f *faultLog) warn(who net.Addr, text string) {
	from := addressOf(who)
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.began) > faultWindow {
		f.tell()
		f.began, f.total = now, 0
		clear(f.lines)
	}
	if f.total >= linesPerWindow || f.lines[from] >= linesPerAddress {
		f.left++
		return
	}
	f.total++
	f.lines[from]++
	f.log.Warn(printable(text))
}

// tell reports what was left out; f.mu is held.
func (f *faultLog) tell() {
	if f.left > 0 {
		f.log.Warn(fmt.Sprintf("%d more connections were refused or cut, not logged one by one", f.left))
		f.left = 0
	}
}

func (f *faultLog) summary() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tell()
}

// printable keeps a line one line: parts of it come from peers.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}
