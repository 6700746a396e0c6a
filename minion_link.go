// A link: everything between this minion and one master (or one of a list, with
// failover): the login, the subscription, what is refreshed from there, and the
// way back after it broke.
//
// The law of this file: a link never gives up and never hammers. Its name is
// resolved at each connect, and all connections of one connect go to one
// address. Losing the subscription is no reason to log in again (the keys are
// good as long as they work); a publication that cannot be read is.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// defaultHeartbeat is how often a silent master is asked whether it lives,
// where master_alive_interval does not say.
const defaultHeartbeat = 30 * time.Second

// slowCLI is how long after its publication a job must end for the `salt` command
// of a Python master to hear of it. That of 3007 listens to the bus only some
// milliseconds after it has published; what it misses it asks for 5 seconds
// later. No Python minion is as fast as this.
const slowCLI = 50 * time.Millisecond

// dnsCheck is how often the name of the master in use is looked up, so that a
// master that moved is followed though the old one still answers.
const dnsCheck = 5 * time.Minute

// masterAddr is one master as it was configured.
type masterAddr struct {
	Host string
	Port int
}

func (a masterAddr) String() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

// parseMaster reads a master option: host, host:port, an IPv6 address with or
// without brackets, [address]:port.
func parseMaster(text string, port int) (masterAddr, error) {
	text = strings.TrimSpace(text)
	a := masterAddr{Host: text, Port: port}
	bad := fmt.Errorf("master: %q is no host, host:port or address", text)
	if rest, ok := strings.CutPrefix(text, "["); ok {
		host, after, closed := strings.Cut(rest, "]")
		if !closed || net.ParseIP(host) == nil {
			return a, bad
		}
		a.Host = host
		text = after
	} else if strings.Count(text, ":") == 1 {
		a.Host, _, _ = strings.Cut(text, ":")
		text = text[len(a.Host):]
	} else {
		if strings.Contains(text, ":") && net.ParseIP(text) == nil {
			return a, bad
		}
		text = ""
	}
	if text != "" {
		n, err := strconv.Atoi(strings.TrimPrefix(text, ":"))
		if err != nil || n < 1 || n > 65535 || text[0] != ':' {
			return a, bad
		}
		a.Port = n
	}
	if a.Host == "" || strings.ContainsAny(a.Host, " /\t") {
		return a, bad
	}
	return a, nil
}

// resolve gives the addresses of a host, IPv4 first unless v6 is set.
func resolve(ctx context.Context, host string, v6 bool) ([]string, error) {
	if ip := net.ParseIP(host); ip != nil {
		return []string{host}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("look up the master %s: %w", host, err)
	}
	var first, second []string
	for _, a := range addrs {
		if a = a.Unmap(); a.Is4() == !v6 {
			first = append(first, a.String())
		} else {
			second = append(second, a.String())
		}
	}
	return append(first, second...), nil
}

// masterLink is one link.
type masterLink struct {
	m       *Minion
	log     *slog.Logger
	opts    *Options // of this link: master is the one it belongs to
	masters []masterAddr
	several bool // failover: masters are tried in turn
	channel *masterChannel
	spool   *returnSpool

	// Used by the goroutine of Run only.
	current  masterAddr
	loggedIn string // address of the last login
	started  bool   // the start event was sent
	libzmq   bool   // the master is one of Python
	lastBad  time.Time
	said     map[string]time.Time

	mu     sync.Mutex
	pillar *Map
	loader *Loader
	recent []string // jids, to notice repetitions
}

func (l *masterLink) transportOptions(local string) TransportOptions {
	o := l.opts
	t := TransportOptions{Log: l.log, Local: local, Heartbeat: defaultHeartbeat}
	if d := o.Duration("master_alive_interval"); d > 0 {
		t.Heartbeat = max(d/2, time.Second)
	}
	if o.Has("tcp_keepalive") && !o.Bool("tcp_keepalive") {
		t.KeepAlive = net.KeepAliveConfig{Idle: -1, Interval: -1, Count: -1}
		return t
	}
	orSystem := func(name string) time.Duration {
		if d := o.Duration(name); d > 0 {
			return d
		}
		return -1
	}
	t.KeepAlive = net.KeepAliveConfig{Enable: true, Idle: orSystem("tcp_keepalive_idle"), Interval: orSystem("tcp_keepalive_intvl"), Count: -1}
	if n := o.Int("tcp_keepalive_cnt"); n > 0 {
		t.KeepAlive.Count = n
	}
	return t
}

// source is the local address to connect from, "" = any.
func (l *masterLink) source(portOption string) string {
	host := l.opts.Str("source_address")
	if name := l.opts.Str("source_interface_name"); name != "" {
		if i, err := net.InterfaceByName(name); err == nil {
			if addrs, err := i.Addrs(); err == nil && len(addrs) > 0 {
				if ip, ok := addrs[0].(*net.IPNet); ok {
					host = ip.IP.String()
				}
			}
		}
	}
	port := l.opts.Int(portOption)
	if host == "" && port == 0 {
		return ""
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

func (l *masterLink) dialRequester(ctx context.Context, addr string) (requestConn, error) {
	r, err := DialRequester(ctx, addr, l.transportOptions(l.source("source_ret_port")))
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Run keeps the link up until ctx ends. An error other than nil ends the minion.
func (l *masterLink) Run(ctx context.Context) error {
	for failures := 0; ; failures++ {
		began := time.Now()
		err := l.connectAndServe(ctx)
		if ctx.Err() != nil {
			return nil
		}
		var exit *ExitError
		if errors.As(err, &exit) {
			return err
		}
		if time.Since(began) > time.Minute {
			failures = 0
		}
		l.complain(slog.LevelWarn, fmt.Sprintf("master %s: %v", l.current, err))
		if !sleepContext(ctx, l.reconnectDelay(failures)) {
			return nil
		}
	}
}

// complain logs what repeats itself only now and then.
func (l *masterLink) complain(level slog.Level, text string) {
	if time.Since(l.said[text]) < 10*time.Minute {
		level = min(level, slog.LevelDebug)
	} else {
		if len(l.said) > 50 {
			clear(l.said)
		}
		l.said[text] = time.Now()
	}
	l.log.Log(context.Background(), level, text)
}

// reconnectDelay is the pause before connect number n+1: from recon_default
// growing to recon_max, spread so that the minions of a master that restarts do
// not come all at once.
func (l *masterLink) reconnectDelay(n int) time.Duration {
	first := time.Duration(l.opts.Float("recon_default") * float64(time.Millisecond))
	most := time.Duration(l.opts.Float("recon_max") * float64(time.Millisecond))
	first = max(first, 10*time.Millisecond)
	most = max(most, first)
	d := first
	for range min(n, 20) {
		d = min(2*d, most)
	}
	if l.opts.Bool("recon_randomize") {
		d = first/2 + rand.N(d+first/2)
	}
	return d
}

// connectAndServe connects to the first master that takes us and serves it
// until the link breaks.
func (l *masterLink) connectAndServe(ctx context.Context) error {
	var last error
	for _, a := range slices.Clone(l.masters) {
		l.current = a
		sub, err := l.connect(ctx, a)
		if err == nil {
			err = l.serve(ctx, sub)
			if l.several && !errors.Is(err, errFailback) {
				l.moveToEnd(a)
			}
			return err
		}
		var exit *ExitError
		if ctx.Err() != nil || errors.As(err, &exit) {
			return err
		}
		if l.several {
			l.complain(slog.LevelInfo, fmt.Sprintf("master %s: %v; trying the next", a, err))
		}
		last = err
	}
	return last
}

func (l *masterLink) moveToEnd(a masterAddr) {
	if i := slices.Index(l.masters, a); i >= 0 {
		l.masters = append(slices.Delete(l.masters, i, i+1), a)
	}
}

// connect resolves, logs in where that is needed, and subscribes.
func (l *masterLink) connect(ctx context.Context, a masterAddr) (*Subscriber, error) {
	hosts, err := resolve(ctx, a.Host, l.opts.Bool("ipv6"))
	if err != nil {
		return nil, err
	}
	for _, host := range hosts {
		addr := net.JoinHostPort(host, strconv.Itoa(a.Port))
		l.channel.SetAddr(addr)
		session := l.channel.Session()
		if session == nil || l.loggedIn != addr {
			if session, err = l.login(ctx, session); err != nil {
				if errors.Is(err, errUnreachable) {
					continue // perhaps another address of the same name
				}
				return nil, err
			}
			l.loggedIn = addr
		}
		port := session.PublishPort
		if n := l.opts.Int("publish_port"); n > 0 && n != 4506 {
			port = n
		}
		topics := []string{""}
		if l.opts.Bool("zmq_filtering") {
			topics = []string{TopicBroadcast, MinionTopic(l.m.id)}
		}
		var sub *Subscriber
		sub, err = DialSubscriber(ctx, net.JoinHostPort(host, strconv.Itoa(port)), topics, l.transportOptions(l.source("source_publish_port")))
		if err == nil {
			return sub, nil
		}
	}
	return nil, err
}

// errUnreachable marks logins that failed because nobody answered.
var errUnreachable = errors.New("no answer from the master")

// login logs in, waiting for acceptance as long as it takes. It gives up, for
// the caller to resolve the name again or to try another master, after
// auth_tries tries without an answer.
func (l *masterLink) login(ctx context.Context, old *Session) (*Session, error) {
	wait := l.opts.Duration("acceptance_wait_time")
	if wait <= 0 {
		wait = 10 * time.Second
	}
	longest := max(l.opts.Duration("acceptance_wait_time_max"), wait)
	tries := max(l.opts.Int("auth_tries"), 1)
	for n := 1; ; {
		s, err := l.channel.Renew(ctx, old)
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var exit *ExitError
		switch {
		case errors.As(err, &exit):
			return nil, err
		case errors.Is(err, errAuthPending):
			l.complain(slog.LevelError, fmt.Sprintf("The master %s has our key but has not accepted it yet: accept it there with `salt-key -a %s`; trying again every %v",
				l.current, l.m.id, wait))
		case errors.Is(err, errAuthRefused):
			if !l.opts.Bool("rejected_retry") && !l.several {
				err = fmt.Errorf("the master %s rejected the key of minion %s: look at it there with `salt-key -L`; with rejected_retry: True the minion would wait", l.current, l.m.id)
				// Whatever starts us again should not do it in a tight loop.
				pause := max(l.opts.Duration("random_reauth_delay"), 0)
				l.log.Log(ctx, LevelCritical, err.Error())
				sleepContext(ctx, pause+rand.N(pause+time.Millisecond))
				return nil, &ExitError{Code: exitKeyRejected}
			}
			l.complain(slog.LevelError, fmt.Sprintf("The master %s rejected our key; trying again every %v", l.current, wait))
		case errors.Is(err, errAuthFull), errors.Is(err, errMasterChanged):
			l.complain(slog.LevelError, fmt.Sprintf("master %s: %v", l.current, err))
		default:
			// Nobody answered, or not as a master should.
			l.complain(slog.LevelError, fmt.Sprintf("master %s: %v", l.current, err))
			if n >= tries || l.several {
				return nil, fmt.Errorf("%w after %d tries: %w", errUnreachable, n, err)
			}
			n++
			if !sleepContext(ctx, l.reconnectDelay(n)) {
				return nil, ctx.Err()
			}
			continue
		}
		if l.several {
			return nil, err
		}
		if !sleepContext(ctx, wait+rand.N(wait/10+time.Millisecond)) {
			return nil, ctx.Err()
		}
		wait = min(2*wait, longest)
	}
}

var (
	errFailback = errors.New("going back to the first master")
	errMoved    = errors.New("the master's name means another address now")
)

// serve handles what the master publishes until the subscription breaks.
func (l *masterLink) serve(ctx context.Context, sub *Subscriber) error {
	defer sub.Close()
	ctx, end := context.WithCancelCause(ctx)
	var side sync.WaitGroup
	defer side.Wait()
	defer end(nil)
	l.log.Info(fmt.Sprintf("connected to the master %s", sub.RemoteAddr()))
	clear(l.said)
	l.libzmq = sub.PeerMinor() > 0
	l.m.status(fmt.Sprintf("connected to %s", l.current))
	if err := l.start(ctx); err != nil {
		return err
	}
	l.spool.Retry()
	side.Go(func() { l.watchAddress(ctx, end) })
	side.Go(func() { l.ping(ctx) })
	if l.several && l.opts.Bool("master_failback") {
		side.Go(func() { l.watchFirst(ctx, end) })
	}
	for {
		frames, err := sub.Recv(ctx)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
		if err := l.published(ctx, frames); err != nil {
			return err
		}
	}
}

// start fetches the pillar and sends the start events, once in the life of the
// process; after failover the pillar of the new master is fetched.
func (l *masterLink) start(ctx context.Context) error {
	if l.started && !l.several {
		return nil
	}
	for {
		err := l.fetchPillar(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.complain(slog.LevelError, fmt.Sprintf("fetch the pillar: %v", err))
		if errors.Is(err, errAuthPending) || errors.Is(err, errAuthRefused) {
			l.loggedIn = ""
			return err
		}
		if !sleepContext(ctx, l.reconnectDelay(3)) {
			return ctx.Err()
		}
	}
	if l.started {
		return nil
	}
	l.started = true
	text := fmt.Sprintf("Minion %s started at %s", l.m.id, time.Now().Format("Mon Jan _2 15:04:05 2006"))
	grains := NewMap()
	for _, name := range l.opts.List("start_event_grains") {
		if v, ok := l.m.Grains().Get(name); ok {
			grains.Set(name, v)
		}
	}
	tags := []string{"salt/minion/" + l.m.id + "/start"}
	if !l.opts.Has("enable_legacy_startup_events") || l.opts.Bool("enable_legacy_startup_events") {
		tags = append([]string{"minion_start"}, tags...)
	}
	for _, tag := range tags {
		if err := l.channel.fire(ctx, tag, text, grains); err != nil {
			l.log.Warn(fmt.Sprintf("send the start event: %v", err))
		}
	}
	l.m.setReady()
	return nil
}

// ping sends the minion_ping event every ping_interval minutes.
func (l *masterLink) ping(ctx context.Context) {
	every := time.Duration(l.opts.Float("ping_interval") * float64(time.Minute))
	for every > 0 && sleepContext(ctx, every) {
		if err := l.channel.fire(ctx, "minion_ping", "ping", nil); err != nil && ctx.Err() == nil {
			l.log.Warn(fmt.Sprintf("ping the master: %v", err))
		}
	}
}

// watchAddress ends the link when the master's name no longer means the
// address in use.
func (l *masterLink) watchAddress(ctx context.Context, end context.CancelCauseFunc) {
	host := l.current.Host
	if net.ParseIP(host) != nil {
		return
	}
	for sleepContext(ctx, dnsCheck+rand.N(dnsCheck/4)) {
		hosts, err := resolve(ctx, host, l.opts.Bool("ipv6"))
		in, _, _ := net.SplitHostPort(l.channel.MasterAddr())
		if err == nil && len(hosts) > 0 && !slices.Contains(hosts, in) {
			end(errMoved)
			return
		}
	}
}

// watchFirst goes back to the first master of the list when it can be reached.
func (l *masterLink) watchFirst(ctx context.Context, end context.CancelCauseFunc) {
	first := l.m.masters[0]
	every := l.opts.Duration("master_failback_interval")
	if every <= 0 {
		every = l.opts.Duration("master_alive_interval")
	}
	if l.current == first || every <= 0 {
		return
	}
	for sleepContext(ctx, every) {
		hosts, err := resolve(ctx, first.Host, l.opts.Bool("ipv6"))
		if err != nil || len(hosts) == 0 {
			continue
		}
		trial := newMasterChannel(l.channel.cred, l.channel.policy, l.dialRequester, l.log)
		trial.SetAddr(net.JoinHostPort(hosts[0], strconv.Itoa(first.Port)))
		_, err = trial.Renew(ctx, nil)
		trial.Close()
		if err == nil {
			l.masters = slices.Clone(l.m.masters) // serve waits for us before anybody reads it
			end(errFailback)
			return
		}
	}
}

// published handles one publication. An error breaks the link.
func (l *masterLink) published(ctx context.Context, frames [][]byte) error {
	body := frames[len(frames)-1]
	if len(frames) == 2 {
		if topic := string(frames[0]); topic != TopicBroadcast && topic != MinionTopic(l.m.id) {
			return nil
		}
	} else if len(frames) != 1 {
		l.log.Debug(fmt.Sprintf("publication of %d frames ignored", len(frames)))
		return nil
	}
	load, err := l.open(ctx, body)
	if err != nil {
		if errors.Is(err, errAuthPending) || errors.Is(err, errAuthRefused) || errors.Is(err, errMasterChanged) {
			l.loggedIn = "" // the next connect logs in, and waits if need be
			return err
		}
		var exit *ExitError
		if errors.As(err, &exit) || ctx.Err() != nil {
			return err
		}
		l.complain(slog.LevelWarn, fmt.Sprintf("publication ignored: %v", err))
		return nil
	}
	p, err := DecodePublishLoad(load)
	if err != nil {
		l.log.Warn(fmt.Sprintf("publication ignored: %v", err))
		return nil
	}
	if !l.matches(p) || l.repeated(p.JID) {
		return nil
	}
	var returnAt time.Time
	if l.libzmq {
		returnAt = time.Now().Add(slowCLI)
	}
	l.startJob(p, returnAt)
	return nil
}

// open checks and decrypts a publication. One under an unknown key means that
// the master has a new one: log in and try the same again.
func (l *masterLink) open(ctx context.Context, body []byte) (*Map, error) {
	pub, err := DecodePublication(body)
	if err != nil {
		return nil, err
	}
	s := l.channel.Session()
	if l.opts.Bool("sign_pub_messages") {
		if pub.Sig == nil {
			return nil, errors.New("the publication is not signed, but sign_pub_messages is set")
		}
		if err := s.Master.Verify(pub.SigAlgo, pub.Sealed, pub.Sig); err != nil {
			return nil, fmt.Errorf("signature of the publication: %w", err)
		}
	}
	load, err := s.AES.DecryptPublished(pub.Sealed)
	if !errors.Is(err, ErrBadMAC) {
		return load, err
	}
	if time.Since(l.lastBad) < 5*time.Second {
		return nil, err // somebody sends rubbish; the master is not to pay for it
	}
	fresh, lerr := l.renewPatiently(ctx, s)
	if lerr != nil {
		return nil, fmt.Errorf("publication under an unknown key, log in again: %w", lerr)
	}
	if fresh.SharesAES(s) {
		l.lastBad = time.Now()
		return nil, err
	}
	return fresh.AES.DecryptPublished(pub.Sealed)
}

// renewPatiently renews the session; a master that just came up may be slow.
func (l *masterLink) renewPatiently(ctx context.Context, old *Session) (*Session, error) {
	for n := 1; ; n++ {
		s, err := l.channel.Renew(ctx, old)
		var exit *ExitError
		switch {
		case err == nil, ctx.Err() != nil, errors.As(err, &exit), n >= 3,
			errors.Is(err, errAuthPending), errors.Is(err, errAuthRefused), errors.Is(err, errMasterChanged):
			return s, err
		}
		if !sleepContext(ctx, time.Second/2+rand.N(time.Second)) {
			return nil, ctx.Err()
		}
	}
}

// matches says whether a job is meant for this minion.
func (l *masterLink) matches(p *PublishLoad) bool {
	delimiter := p.Map.Str("delimiter")
	if delimiter == "" {
		delimiter = DefaultTargetDelim
	}
	l.mu.Lock()
	pillar := l.pillar
	l.mu.Unlock()
	return MatchTarget(p.TgtType, p.Tgt, delimiter, Subject{ID: l.m.id, Grains: l.m.Grains(), Pillar: pillar, Nodegroups: l.opts.Map("nodegroups")})
}

// repeated says whether a jid was seen before, and remembers it.
func (l *masterLink) repeated(jid string) bool {
	keep := l.opts.Int("minion_jid_queue_hwm")
	if keep <= 0 {
		keep = 100
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.recent, jid) {
		return true
	}
	if len(l.recent) >= keep {
		l.recent = append(l.recent[:0], l.recent[len(l.recent)-keep+1:]...)
	}
	l.recent = append(l.recent, jid)
	return false
}
