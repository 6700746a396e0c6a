// The channel: encrypted requests to one master, over a few connections that
// are kept open.
//
// The law of this file: a connection carries one request at a time and is
// thrown away after any error; a request that the master cannot read, because
// its keys changed, costs one new login, however many requests notice at once;
// and nobody waits longer than the context allows.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	maxRequesters  = 8               // connections to the master at one time
	idleRequesters = 1               // of them kept open between requests
	spareTime      = 2 * time.Second // the others stay that long after a burst
)

// requestConn is one request connection. transport's Requester is one.
type requestConn interface {
	Request(ctx context.Context, body []byte) ([]byte, error)
	Done() <-chan struct{} // closed when the connection has ended
	Close()
}

// tryPolicy says how often a request is sent, and how long one try may take.
type tryPolicy struct {
	tries            int
	timeout, longest time.Duration // each try takes a random time between the two
}

func (p tryPolicy) next() time.Duration {
	if p.longest <= p.timeout {
		return p.timeout
	}
	return p.timeout + rand.N(p.longest-p.timeout)
}

// masterChannel is the MasterChannel of a minion. It is safe for concurrent use.
type masterChannel struct {
	cred   *Credentials
	policy LoginPolicy
	log    *slog.Logger
	dial   func(ctx context.Context, addr string) (requestConn, error)
	reqs   tryPolicy // ordinary requests
	auth   time.Duration

	slots chan struct{} // taken by each connection in use
	login chan struct{} // taken by whoever logs in

	mu      sync.Mutex
	addr    string // of the request port
	session *Session
	idle    []requestConn
	trim    *time.Timer // closes the spare ones of idle
	closed  bool
}

func newMasterChannel(cred *Credentials, p LoginPolicy, dial func(context.Context, string) (requestConn, error), log *slog.Logger) *masterChannel {
	return &masterChannel{
		cred: cred, policy: p, log: log, dial: dial,
		reqs: tryPolicy{tries: 3, timeout: 60 * time.Second}, auth: 5 * time.Second,
		slots: make(chan struct{}, maxRequesters), login: make(chan struct{}, 1),
	}
}

// MasterAddr is the address of the request port in use.
func (ch *masterChannel) MasterAddr() string {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.addr
}

// SetAddr moves the channel to another address; open connections to the old
// one end with the request they carry.
func (ch *masterChannel) SetAddr(addr string) {
	ch.mu.Lock()
	idle := ch.idle
	if ch.addr == addr {
		idle = nil
	} else {
		ch.addr, ch.idle = addr, nil
	}
	ch.mu.Unlock()
	for _, c := range idle {
		c.Close()
	}
}

// Session is the one in use, nil before the first login.
func (ch *masterChannel) Session() *Session {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.session
}

// Close ends all idle connections; those in use end with their request.
func (ch *masterChannel) Close() {
	ch.mu.Lock()
	idle := ch.idle
	ch.idle, ch.closed = nil, true
	ch.mu.Unlock()
	for _, c := range idle {
		c.Close()
	}
}

// take gives a connection to the current address: an idle one, or a new one.
func (ch *masterChannel) take(ctx context.Context, fresh bool) (c requestConn, addr string, used bool, err error) {
	ch.mu.Lock()
	addr = ch.addr
	if n := len(ch.idle); n > 0 && !fresh {
		c, ch.idle = ch.idle[n-1], ch.idle[:n-1]
	}
	closed := ch.closed
	ch.mu.Unlock()
	if c != nil {
		select {
		case <-c.Done():
			c.Close()
		default:
			return c, addr, true, nil
		}
	}
	switch {
	case closed:
		return nil, addr, false, errors.New("the channel to the master is closed")
	case addr == "":
		return nil, addr, false, errors.New("not connected to a master")
	}
	c, err = ch.dial(ctx, addr)
	return c, addr, false, err
}

func (ch *masterChannel) giveBack(c requestConn, addr string) {
	ch.mu.Lock()
	keep := !ch.closed && addr == ch.addr
	if keep {
		ch.idle = append(ch.idle, c)
	}
	if len(ch.idle) > idleRequesters {
		if ch.trim != nil {
			ch.trim.Stop()
		}
		ch.trim = time.AfterFunc(spareTime, ch.closeSpare)
	}
	ch.mu.Unlock()
	if !keep {
		c.Close()
	}
}

// closeSpare closes the idle connections that only a burst of requests needed.
func (ch *masterChannel) closeSpare() {
	ch.mu.Lock()
	var spare []requestConn
	if len(ch.idle) > idleRequesters {
		spare = ch.idle[:len(ch.idle)-idleRequesters]
		ch.idle = slices.Clone(ch.idle[len(spare):])
	}
	ch.mu.Unlock()
	for _, c := range spare {
		c.Close()
	}
}

// exchange sends one body and returns the answer. A connection that was idle
// may have died unnoticed, so a failure there is tried again on a new one.
func (ch *masterChannel) exchange(ctx context.Context, body []byte) ([]byte, error) {
	select {
	case ch.slots <- struct{}{}:
		defer func() { <-ch.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for fresh := false; ; fresh = true {
		c, addr, used, err := ch.take(ctx, fresh)
		if err != nil {
			return nil, err
		}
		reply, err := c.Request(ctx, body)
		if err == nil {
			ch.giveBack(c, addr)
			return reply, nil
		}
		c.Close()
		if !used || ctx.Err() != nil {
			return nil, err
		}
	}
}

// Renew logs in again, once for all who ask with the same old session.
func (ch *masterChannel) Renew(ctx context.Context, old *Session) (*Session, error) {
	select {
	case ch.login <- struct{}{}:
		defer func() { <-ch.login }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s := ch.Session(); s != old {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(ctx, ch.auth)
	defer cancel()
	s, err := Login(ctx, ch.exchange, ch.cred, ch.policy, old)
	if err != nil {
		return nil, err
	}
	if old != nil && !s.SharesAES(old) {
		ch.log.Info(fmt.Sprintf("the master %s has a new key for publications: logged in again", ch.MasterAddr()))
	}
	ch.mu.Lock()
	ch.session = s
	ch.mu.Unlock()
	return s, nil
}

// Request sends an encrypted request with the usual number of tries.
func (ch *masterChannel) Request(ctx context.Context, load *Map) (any, error) {
	return ch.request(ctx, load, ch.reqs)
}

func (ch *masterChannel) request(ctx context.Context, load *Map, p tryPolicy) (any, error) {
	var reply any
	err := ch.attempts(ctx, load.Str("cmd"), p, func(ctx context.Context, s *Session) error {
		nonce := NewNonce()
		body, err := ch.seal(s, load, nonce)
		if err != nil {
			return err
		}
		if body, err = ch.exchange(ctx, body); err != nil {
			return err
		}
		reply, err = OpenReply(s.Requests, body, nonce)
		return err
	})
	return reply, err
}

func (ch *masterChannel) seal(s *Session, load *Map, nonce string) ([]byte, error) {
	tok, err := ch.cred.Tok()
	if err != nil {
		return nil, err
	}
	return NewSealedRequest(s.Requests, s.Version, load, ch.cred.ID, nonce, tok, time.Now(), ch.policy.EncAlgo, ch.policy.SigAlgo)
}

// attempts runs try until it succeeds, at most p.tries times, and logs in anew
// once if the master could not read us, or we it.
func (ch *masterChannel) attempts(ctx context.Context, what string, p tryPolicy, try func(context.Context, *Session) error) error {
	renewed := false
	for n := 1; ; n++ {
		s := ch.Session()
		if s == nil {
			return fmt.Errorf("%s: not logged in at the master", what)
		}
		tctx, cancel := context.WithTimeout(ctx, p.next())
		err := try(tctx, s)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case errors.Is(err, ErrBadMAC) && !renewed:
			ch.log.Debug(fmt.Sprintf("%s: %v; logging in again", what, err))
			if _, lerr := ch.Renew(ctx, s); lerr != nil {
				return fmt.Errorf("%s: log in again: %w", what, lerr)
			}
			renewed = true
			n-- // the refused try does not count
		case errors.Is(err, ErrBadMAC) || n >= p.tries:
			return fmt.Errorf("%s: %w", what, err)
		default:
			ch.log.Debug(fmt.Sprintf("%s: try %d of %d: %v", what, n, p.tries, err))
			// An address where nobody listens fails at once; do not hammer it.
			if !sleepContext(ctx, time.Second/2+rand.N(time.Second)) {
				return fmt.Errorf("%s: %w", what, ctx.Err())
			}
		}
	}
}

// FetchPillar asks for the pillar, which comes under a key of its own and
// signed.
func (ch *masterChannel) FetchPillar(ctx context.Context, load *Map) (*Map, error) {
	var pillar *Map
	nonce := NewNonce() // the same for all tries
	err := ch.attempts(ctx, "pillar", ch.reqs, func(ctx context.Context, s *Session) error {
		body, err := ch.seal(s, load, nonce)
		if err != nil {
			return err
		}
		if body, err = ch.exchange(ctx, body); err != nil {
			return err
		}
		reply, err := DecodePillarReply(body)
		if err != nil {
			return err
		}
		key, err := ch.cred.Key.DecryptOAEP(ch.policy.EncAlgo, reply.Key)
		if err != nil {
			return fmt.Errorf("decrypt the key of the pillar: %w", err)
		}
		pillar, err = reply.Open(s.Version, string(key), nonce, func(msg, sig []byte) error {
			return s.Master.Verify(ch.policy.SigAlgo, msg, sig)
		})
		return err
	})
	return pillar, err
}

// FireEvent puts an event on the master's bus.
func (ch *masterChannel) FireEvent(ctx context.Context, tag string, data *Map) error {
	return ch.fire(ctx, tag, data, nil)
}

// fire is FireEvent for data of any kind; grains, if any, go along.
func (ch *masterChannel) fire(ctx context.Context, tag string, data any, grains *Map) error {
	load := NewMap("id", ch.cred.ID, "cmd", "_minion_event", "pretag", nil, "data", data, "tag", tag)
	if grains.Len() > 0 {
		load.Set("grains", grains)
	}
	_, err := ch.Request(ctx, load)
	return err
}
