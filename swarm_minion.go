// One minion of a swarm: from its login to its returns.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// swarmMinion is one minion. Its run goroutine hears publications; a second one
// exists only while there are returns to send.
type swarmMinion struct {
	s   *Swarm
	id  string
	key *swarmKey

	renewing sync.Mutex // one login at a time
	asking   sync.Mutex // one request at a time
	req      *plainRequester

	mu      sync.Mutex
	session *swarmSession
	running []*swarmReturn // of functions that take their time
	queue   []*swarmReturn // not acknowledged yet, in order
	sending bool
}

// swarmReturn is a return on its way.
type swarmReturn struct {
	load *Map
	job  *swarmJob
}

func (m *swarmMinion) current() *swarmSession {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.session
}

// run keeps the minion connected until ctx ends.
func (m *swarmMinion) run(ctx context.Context) {
	var senders sync.WaitGroup
	defer senders.Wait()
	defer m.hangUp()
	for failures := 0; ; {
		served, err := m.connect(ctx, &senders)
		if ctx.Err() != nil {
			return
		}
		if served {
			failures = 0
		}
		m.s.tally.fail(swarmReason(err))
		m.s.o.Log.Debug(fmt.Sprintf("%s: %v", m.id, err))
		if errors.Is(err, errAuthPending) || errors.Is(err, errAuthRefused) {
			failures = max(failures, swarmPatient)
		}
		if !swarmPause(ctx, failures) {
			return
		}
		failures++
	}
}

func (m *swarmMinion) hangUp() {
	m.asking.Lock()
	defer m.asking.Unlock()
	if m.req != nil {
		m.req.Close()
	}
}

// connect logs in if there is no session, subscribes and hears publications
// until the subscription ends.
func (m *swarmMinion) connect(ctx context.Context, senders *sync.WaitGroup) (served bool, err error) {
	session := m.current()
	if session == nil {
		if session, err = m.renew(ctx, nil); err != nil {
			return false, err
		}
	}
	port := m.s.o.PublishPort
	if port == 0 {
		port = session.port
	}
	addr, err := m.s.addr(ctx, port)
	if err != nil {
		return false, err
	}
	topics := []string{""}
	if m.s.o.Topics {
		topics = []string{TopicBroadcast, MinionTopic(m.id)}
	}
	var sub *plainSubscriber
	if err := m.s.dial(ctx, func(ctx context.Context) (err error) {
		sub, err = dialPlainSubscriber(ctx, addr, topics, m.s.transport())
		return err
	}); err != nil {
		return false, err
	}
	defer sub.Close()
	defer context.AfterFunc(ctx, sub.Close)()
	if err := m.started(ctx); err != nil {
		return false, err
	}
	if m.s.tally.subscribed(1) {
		close(m.s.arrived)
	}
	defer m.s.tally.subscribed(-1)
	m.send(ctx, senders) // what a lost link left over
	for {
		frames, err := sub.Recv()
		if err != nil {
			return true, err
		}
		if err := m.published(ctx, frames[len(frames)-1], senders); err != nil {
			return true, err
		}
	}
}

// started does what a minion does after its first login, as far as the swarm
// was asked for it.
func (m *swarmMinion) started(ctx context.Context) error {
	if m.s.o.Pillar {
		load := NewMap("id", m.id, "grains", m.grains(), "saltenv", nil, "pillarenv", nil, "pillar_override", NewMap(),
			"extra_minion_data", NewMap(), "ver", "2", "cmd", "_pillar")
		if err := m.request(ctx, load, func(_ *Crypticle, reply []byte, _ string) error {
			_, err := DecodePillarReply(reply)
			return err
		}); err != nil {
			return fmt.Errorf("pillar: %w", err)
		}
	}
	if m.s.o.StartEvent {
		load := NewMap("id", m.id, "cmd", "_minion_event", "pretag", nil, "tag", "salt/minion/"+m.id+"/start",
			"data", "Minion "+m.id+" started at "+time.Now().Format(time.ANSIC))
		if err := m.request(ctx, load, openReply); err != nil {
			return fmt.Errorf("start event: %w", err)
		}
	}
	return nil
}

// grains are those of the swarm and the id.
func (m *swarmMinion) grains() *Map {
	g := m.s.o.Grains.Clone()
	g.Set("id", m.id)
	return g
}

// renew logs in, unless the session is another than old already.
func (m *swarmMinion) renew(ctx context.Context, old *swarmSession) (*swarmSession, error) {
	m.renewing.Lock()
	defer m.renewing.Unlock()
	if s := m.current(); s != old {
		return s, nil
	}
	req := &AuthRequest{Version: protocolVersion, ID: m.id, Nonce: NewNonce(), EncAlgo: AlgoOAEPSHA1, SigAlgo: AlgoPKCS1v15SHA1, Pub: m.key.pub}
	if old != nil { // the master is known by now: let it prove that it can read us
		m.s.mu.Lock()
		master := m.s.master
		m.s.mu.Unlock()
		var err error
		if req.Token, err = master.EncryptOAEP(req.EncAlgo, []byte(GenerateKeyString())); err != nil {
			return nil, fmt.Errorf("encrypt the login token: %w", err)
		}
	}
	body, err := req.Encode()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if body, err = m.exchange(ctx, body); err != nil {
		return nil, fmt.Errorf("login: %w", err)
	}
	r, err := DecodeAuthReply(body)
	if err != nil {
		return nil, err
	}
	session, err := m.s.session(req, r, m.key)
	if err != nil {
		return nil, err
	}
	m.s.tally.login(time.Since(began))
	m.mu.Lock()
	m.session = session
	m.mu.Unlock()
	return session, nil
}

// exchange sends one request over the minion's connection, which it opens if
// need be. A connection that was idle may have ended unnoticed: then the request
// is sent again over a new one.
func (m *swarmMinion) exchange(ctx context.Context, body []byte) ([]byte, error) {
	m.asking.Lock()
	defer m.asking.Unlock()
	ctx, cancel := context.WithTimeout(ctx, m.s.o.Timeout)
	defer cancel()
	for {
		used := m.req != nil
		if !used {
			addr, err := m.s.addr(ctx, m.s.o.RetPort)
			if err != nil {
				return nil, err
			}
			if err := m.s.dial(ctx, func(ctx context.Context) (err error) {
				m.req, err = dialPlainRequester(ctx, addr, m.s.transport())
				return err
			}); err != nil {
				m.req = nil
				return nil, err
			}
		}
		reply, err := m.req.Request(ctx, body)
		if err == nil {
			return reply, nil
		}
		m.req = nil
		if !used || ctx.Err() != nil {
			return nil, err
		}
	}
}

// request sends an encrypted request and gives the reply to open. Where the
// master does not know the session key any more, the minion logs in again.
func (m *swarmMinion) request(ctx context.Context, load *Map, open func(c *Crypticle, reply []byte, nonce string) error) error {
	for renewed := false; ; renewed = true {
		session := m.current()
		c, err := session.requests()
		if err != nil {
			return err
		}
		nonce := NewNonce()
		body, err := NewSealedRequest(c, session.version, load, m.id, nonce, m.key.tok, time.Now(), AlgoOAEPSHA1, AlgoPKCS1v15SHA1)
		if err != nil {
			return err
		}
		reply, err := m.exchange(ctx, body)
		if err == nil {
			err = open(c, reply, nonce)
		}
		if !errors.Is(err, ErrBadMAC) || renewed {
			return err
		}
		if _, err := m.renew(ctx, session); err != nil {
			return err
		}
	}
}

// openReply checks an ordinary reply.
func openReply(c *Crypticle, reply []byte, nonce string) error {
	_, err := OpenReply(c, reply, nonce)
	return err
}

// published handles one publication. One under an unknown key means that the
// master has a new one.
func (m *swarmMinion) published(ctx context.Context, body []byte, senders *sync.WaitGroup) error {
	session := m.current()
	p, err := m.s.publication(body, session.aes)
	if errors.Is(err, ErrBadMAC) {
		if session, err = m.renew(ctx, session); err != nil {
			return err
		}
		p, err = m.s.publication(body, session.aes)
	}
	if err != nil {
		m.s.tally.fail("publication: " + swarmReason(err))
		return nil
	}
	m.s.tally.publication()
	who := Subject{ID: m.id}
	if p.target.NeedsData() {
		who.Grains, who.Pillar = m.grains(), NewMap()
	}
	if !p.target.Match(who) {
		return nil
	}
	job := m.s.tally.job(p)
	load := NewMap("cmd", "_return", "id", m.id)
	wait, ret := m.execute(p.load)
	load.Merge(ret)
	load.Set("jid", p.load.JID)
	load.Set("fun", p.load.Map.Value("fun"))
	load.Set("fun_args", p.load.Map.Value("arg"))
	for _, key := range []string{"user", "master_id", "nocache", "metadata"} {
		if v, ok := p.load.Map.Get(key); ok {
			load.Set(key, v)
		}
	}
	r := &swarmReturn{load, job}
	if wait == 0 {
		m.give(ctx, senders, r)
		return nil
	}
	m.mu.Lock()
	m.running = append(m.running, r)
	m.mu.Unlock()
	senders.Go(func() {
		done := sleepContext(ctx, wait)
		m.mu.Lock()
		m.running = slices.DeleteFunc(m.running, func(o *swarmReturn) bool { return o == r })
		m.mu.Unlock()
		if done {
			m.give(ctx, senders, r)
		}
	})
	return nil
}

func (m *swarmMinion) give(ctx context.Context, senders *sync.WaitGroup, r *swarmReturn) {
	m.mu.Lock()
	m.queue = append(m.queue, r)
	m.mu.Unlock()
	m.send(ctx, senders)
}

// send starts the sender if there is something to send.
func (m *swarmMinion) send(ctx context.Context, senders *sync.WaitGroup) {
	m.mu.Lock()
	start := !m.sending && len(m.queue) > 0
	m.sending = m.sending || start
	m.mu.Unlock()
	if start {
		senders.Go(func() { m.deliver(ctx) })
	}
}

// deliver sends returns until none is left.
func (m *swarmMinion) deliver(ctx context.Context) {
	for failures := 0; ; {
		m.mu.Lock()
		if len(m.queue) == 0 {
			m.queue, m.sending = nil, false
			m.mu.Unlock()
			return
		}
		r := m.queue[0]
		m.mu.Unlock()
		err := m.request(ctx, r.load, openReply)
		if err == nil {
			failures = 0
			m.s.tally.acknowledged(r.job)
			m.mu.Lock()
			m.queue = m.queue[1:]
			m.mu.Unlock()
			continue
		}
		if ctx.Err() == nil {
			m.s.tally.fail("return: " + swarmReason(err))
		}
		if !swarmPause(ctx, failures) {
			m.mu.Lock()
			m.sending = false
			m.mu.Unlock()
			return
		}
		failures++
	}
}

// execute runs the functions of a job. The result goes out after wait.
func (m *swarmMinion) execute(p *PublishLoad) (wait time.Duration, ret *Map) {
	if !p.Several {
		v, code, d := m.call(p.Funs[0], p.Args[0].Items)
		return d, NewMap("success", code == 0, "return", v, "retcode", code)
	}
	rets, codes, oks := NewMap(), NewMap(), NewMap()
	for i, fun := range p.Funs {
		v, code, d := m.call(fun, p.Args[i].Items)
		wait += d
		rets.Set(fun, v)
		codes.Set(fun, code)
		oks.Set(fun, code == 0)
	}
	return wait, NewMap("success", oks, "return", rets, "retcode", codes)
}

// swarmFunctions is what a swarm minion can do.
func swarmFunctions() []string {
	return []string{"grains.get", "grains.item", "grains.items", "saltutil.find_job", "saltutil.is_running", "saltutil.running",
		"sys.list_functions", "test.echo", "test.false", "test.ping", "test.sleep", "test.true", "test.version"}
}

func (m *swarmMinion) call(fun string, args []any) (v any, retcode int64, wait time.Duration) {
	var first any
	if len(args) > 0 {
		first = args[0]
	}
	switch fun {
	case "test.ping", "test.true":
		return true, 0, 0
	case "test.false":
		return false, 1, 0
	case "test.echo":
		return first, 0, 0
	case "test.version":
		return saltVersion, 0, 0
	case "test.sleep":
		seconds, _ := toFloat(first)
		return true, 0, time.Duration(seconds * float64(time.Second))
	case "grains.items":
		return m.grains(), 0, 0
	case "grains.get":
		v, _ := TraversePath(m.grains(), Str(first), DefaultTargetDelim)
		return v, 0, 0
	case "grains.item":
		out, g := NewMap(), m.grains()
		for _, a := range args {
			out.Set(a, g.Value(Str(a)))
		}
		return out, 0, 0
	case "saltutil.find_job":
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, r := range m.running {
			if r.load.Str("jid") == Str(first) {
				return NewMap("jid", r.load.Value("jid"), "fun", r.load.Value("fun"), "arg", r.load.Value("fun_args"), "pid", int64(os.Getpid())), 0, 0
			}
		}
		return NewMap(), 0, 0
	case "saltutil.running", "saltutil.is_running":
		return NewList(), 0, 0
	case "sys.list_functions":
		return Strings(swarmFunctions()), 0, 0
	}
	return fmt.Sprintf("'%s' is not available.", fun), 254, 0
}
