// The swarm: thousands of minions in one process, to measure a master with and
// to size it.
//
// The law of this room: to the master each of them is a minion like any other.
// It has a key and a session of its own, one subscription and one request
// connection; it checks signatures, decides by the target whether it is meant,
// and keeps a return until the master has acknowledged it. What costs only the
// minion and is the same for all of them is done once for the swarm: the key of
// publications and a publication are opened once, a session key when it is first
// needed. An idle minion is one goroutine and two connections. The functions it
// knows are a short list without effect on the machine.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"
)

// SwarmOptions say what a swarm is made of.
type SwarmOptions struct {
	IDs         []string
	Keys        []*swarmKey // one for each id
	Host        string      // name or address of the master
	RetPort     int
	PublishPort int           // 0: as the master says
	Rate        float64       // logins a second; 0: all at once
	Timeout     time.Duration // for each request, a login too
	Topics      bool          // subscribe as under zmq_filtering
	Pillar      bool          // fetch the pillar after the login
	StartEvent  bool          // send the start event after the login
	Grains      *Map          // of every minion; each has its id besides
	Log         *slog.Logger
}

const (
	// swarmDials is how many connections are opened at a time, so that they do
	// not overrun the master's backlog.
	swarmDials = 256
	// swarmPublications is how many opened publications are kept.
	swarmPublications = 8
	// swarmRetry is the longest pause after a failure.
	swarmRetry = 10 * time.Second
	// swarmPatient is the number of failures from which the pause is that long.
	swarmPatient = 6
)

// Swarm is a swarm.
type Swarm struct {
	o       SwarmOptions
	minions []*swarmMinion
	dials   chan struct{}
	tally   swarmTally
	arrived chan struct{} // closed when every minion has logged in and subscribed
	ready   chan struct{} // closed when after that the session keys are open

	mu     sync.Mutex
	master *PublicKey             // that answered the last login
	aes    map[string]*Crypticle  // by the master's signature of the key
	recent []*swarmPublication    // the newest last
	addrs  map[string]resolvedFor // host → its address
}

type resolvedFor struct {
	addr  string
	until time.Time
}

// NewSwarm makes a swarm.
func NewSwarm(o SwarmOptions) *Swarm {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Swarm{o: o, dials: make(chan struct{}, swarmDials), arrived: make(chan struct{}), ready: make(chan struct{}),
		aes: map[string]*Crypticle{}, addrs: map[string]resolvedFor{}}
	s.tally.init(len(o.IDs))
	for i, id := range o.IDs {
		s.minions = append(s.minions, &swarmMinion{s: s, id: id, key: o.Keys[i]})
	}
	return s
}

// Run lets the swarm live until ctx ends.
func (s *Swarm) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { s.openSessions(ctx) })
	s.tally.begin()
	began := time.Now()
	for i, m := range s.minions {
		if s.o.Rate > 0 {
			due := began.Add(time.Duration(float64(i) / s.o.Rate * float64(time.Second)))
			if d := time.Until(due); d > 0 && !sleepContext(ctx, d) {
				return
			}
		}
		wg.Go(func() { m.run(ctx) })
	}
}

// Arrived is closed when all have logged in and subscribed; Ready when they can
// answer without opening a session key first.
func (s *Swarm) Arrived() <-chan struct{} { return s.arrived }

// Ready is described at Arrived.
func (s *Swarm) Ready() <-chan struct{} { return s.ready }

// openSessions opens the session keys once nobody logs in any more: real
// minions do it each on a processor of its own.
func (s *Swarm) openSessions(ctx context.Context) {
	select {
	case <-s.arrived:
	case <-ctx.Done():
		return
	}
	// An error comes up again when the session is used.
	_ = inParallel(len(s.minions), func(i int) error {
		if session := s.minions[i].current(); session != nil && ctx.Err() == nil {
			session.requests()
		}
		return nil
	})
	if ctx.Err() == nil {
		close(s.ready)
	}
}

// addr is the address of a port of the master. Thousands that connect at the
// same time ask for its name once.
func (s *Swarm) addr(ctx context.Context, port int) (string, error) {
	s.mu.Lock()
	known, ok := s.addrs[s.o.Host]
	s.mu.Unlock()
	if !ok || time.Now().After(known.until) {
		hosts, err := resolve(ctx, s.o.Host, false)
		if err != nil {
			return "", err
		}
		if len(hosts) == 0 {
			return "", fmt.Errorf("look up the master %s: no address", s.o.Host)
		}
		known = resolvedFor{hosts[0], time.Now().Add(5 * time.Second)}
		s.mu.Lock()
		s.addrs[s.o.Host] = known
		s.mu.Unlock()
	}
	return net.JoinHostPort(known.addr, strconv.Itoa(port)), nil
}

// dial runs f, which opens a connection, when it is its turn.
func (s *Swarm) dial(ctx context.Context, f func(ctx context.Context) error) error {
	select {
	case s.dials <- struct{}{}:
		defer func() { <-s.dials }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return f(ctx)
}

func (s *Swarm) transport() TransportOptions {
	return TransportOptions{Handshake: s.o.Timeout, Log: s.o.Log}
}

// swarmSession is what a login yields.
type swarmSession struct {
	version  int
	port     int
	aes      *Crypticle
	requests func() (*Crypticle, error)
}

// session checks the reply to a login and makes a session of it.
func (s *Swarm) session(req *AuthRequest, r *AuthReply, key *swarmKey) (*swarmSession, error) {
	switch {
	case r.Signed == nil:
		return nil, errors.New("login: the master's reply is not signed")
	case r.Nonce != req.Nonce:
		return nil, fmt.Errorf("login: %w", ErrBadNonce)
	case r.Ret == AuthPending:
		return nil, errAuthPending
	case r.Ret == AuthRefused:
		return nil, errAuthRefused
	case r.Ret == AuthFull:
		return nil, errAuthFull
	case r.Ret != AuthAccepted:
		return nil, fmt.Errorf("login: the master answered %s", r.Ret)
	}
	master, err := s.masterKey(r.PubKey)
	if err != nil {
		return nil, err
	}
	if err := master.Verify(req.SigAlgo, r.Signed, r.Signature); err != nil {
		return nil, fmt.Errorf("login: signature of the reply: %w", err)
	}
	session := &swarmSession{version: protocolVersion, port: r.PublishPort}
	if session.aes, err = s.publicationKey(req, r, key, master); err != nil {
		return nil, err
	}
	sealed := r.Session
	session.requests = sync.OnceValues(func() (*Crypticle, error) {
		private, err := key.private()
		if err != nil {
			return nil, err
		}
		text, err := private.DecryptOAEP(req.EncAlgo, sealed)
		if err != nil {
			return nil, fmt.Errorf("login: decrypt the session key: %w", err)
		}
		return NewCrypticle(string(text))
	})
	if sealed == nil {
		session.version = 2
		session.requests = func() (*Crypticle, error) { return session.aes, nil }
	}
	return session, nil
}

// masterKey is the master's key, parsed once as long as it stays the same.
func (s *Swarm) masterKey(text string) (*PublicKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.master == nil || s.master.PEM() != text {
		k, err := ParsePublicKey([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("login: key of the master: %w", err)
		}
		s.master = k
	}
	return s.master, nil
}

// publicationKey is the key of publications, opened by the first that gets it.
func (s *Swarm) publicationKey(req *AuthRequest, r *AuthReply, key *swarmKey, master *PublicKey) (*Crypticle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.aes[string(r.Sig)]; c != nil {
		return c, nil
	}
	private, err := key.private()
	if err != nil {
		return nil, err
	}
	text, err := private.DecryptOAEP(req.EncAlgo, r.AES)
	if err != nil {
		return nil, fmt.Errorf("login: decrypt the key of publications: %w", err)
	}
	if err := master.VerifyAESDigest(string(text), r.Sig); err != nil {
		return nil, fmt.Errorf("login: the key of publications is not signed by the master: %w", err)
	}
	c, err := NewCrypticle(string(text))
	if err != nil {
		return nil, fmt.Errorf("login: key of publications: %w", err)
	}
	s.aes[string(r.Sig)] = c
	return c, nil
}

// swarmPublication is an opened publication.
type swarmPublication struct {
	body   []byte
	aes    *Crypticle
	open   func() error
	load   *PublishLoad
	target *Target
	heard  time.Time
}

// publication opens a publication, once for all who hear it.
func (s *Swarm) publication(body []byte, aes *Crypticle) (*swarmPublication, error) {
	s.mu.Lock()
	var p *swarmPublication
	for i := len(s.recent) - 1; i >= 0 && p == nil; i-- {
		if q := s.recent[i]; q.aes == aes && bytes.Equal(q.body, body) {
			p = q
		}
	}
	master := s.master
	if p == nil {
		p = &swarmPublication{body: body, aes: aes, heard: time.Now()}
		p.open = sync.OnceValue(func() error { return p.decode(master) })
		if s.recent = append(s.recent, p); len(s.recent) > swarmPublications {
			s.recent = append([]*swarmPublication(nil), s.recent[1:]...)
		}
	}
	s.mu.Unlock()
	return p, p.open()
}

func (p *swarmPublication) decode(master *PublicKey) error {
	pub, err := DecodePublication(p.body)
	if err != nil {
		return err
	}
	if pub.Sig != nil {
		if err := master.Verify(pub.SigAlgo, pub.Sealed, pub.Sig); err != nil {
			return fmt.Errorf("signature of the publication: %w", err)
		}
	}
	v, err := p.aes.Decrypt(pub.Sealed, "")
	if err != nil {
		return err
	}
	m, ok := v.(*Map)
	if !ok {
		return fmt.Errorf("publication is a %s", TypeName(v))
	}
	if p.load, err = DecodePublishLoad(m); err != nil {
		return err
	}
	delimiter := m.Str("delimiter")
	if delimiter == "" {
		delimiter = DefaultTargetDelim
	}
	p.target, err = ParseTarget(p.load.TgtType, p.load.Tgt, delimiter, nil)
	return err
}

// swarmReason is a failure as it is counted.
func swarmReason(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, errAuthPending):
		return "key not accepted yet"
	case errors.Is(err, errAuthRefused):
		return "key rejected"
	case errors.Is(err, errAuthFull):
		return "master full"
	case errors.Is(err, ErrBadMAC):
		return "key of the session not valid any more"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	case errors.Is(err, io.EOF):
		return "connection ended"
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op + ": " + op.Err.Error()
	}
	return firstLine(err.Error())
}

// swarmPause waits after failure number n.
func swarmPause(ctx context.Context, n int) bool {
	d := min(250*time.Millisecond<<min(n, swarmPatient), swarmRetry)
	return sleepContext(ctx, d/2+rand.N(d))
}
