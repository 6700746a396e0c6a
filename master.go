// The master: it lets minions in, publishes jobs, takes their returns, and
// serves them what they ask for.
//
// The law of this room: every request gets an answer, whatever it was, and a
// request that fails fails alone. What may be asked for stands in two literal
// tables, one for requests in clear (master_clear.go) and one for encrypted ones
// (master_requests.go); nothing else is reachable. A minion is who its session
// key, its token and its id agree that it is, on every request. A Master is a
// value: several can live in one process, and all that it starts ends with the
// context of Run.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// PillarRequest is what a pillar is made for.
type PillarRequest struct {
	ID        string
	Grains    *Map
	Saltenv   string
	Pillarenv string
	Override  *Map // pillar_override: data from the command line
	Extra     *Map // extra_minion_data
	Under     *Map // what a masterless minion has already: the pillar lies over it
	Ext       any
}

// PillarProvider compiles pillars. It is called by many goroutines at once.
type PillarProvider interface {
	Pillar(ctx context.Context, r PillarRequest) (*Map, error)
}

// TopsProvider answers _master_tops: environment → list of state files.
type TopsProvider interface {
	Tops(ctx context.Context, id string, opts *Map) (*Map, error)
}

// Runners runs master-side functions by name.
type Runners interface {
	Run(ctx context.Context, fun string, args []any, kwargs *Map) (any, error)
}

// Authenticator checks the users of external_auth.
type Authenticator interface {
	// Login checks credentials (eauth, username, password …) and returns the
	// user's name and groups.
	Login(ctx context.Context, credentials *Map) (name string, groups []string, err error)
}

// masterConf is what a reload of the configuration replaces.
type masterConf struct {
	o        *Options
	rules    *AuthRules
	files    FileServer
	userKeys map[string]string // user → key of his clear requests
}

// Master is one master daemon.
type Master struct {
	conf     atomic.Pointer[masterConf]
	log      *slog.Logger
	cachedir string
	sockDir  string

	key        *PrivateKey
	signKey    *PrivateKey // of master_sign_pubkey, nil if off
	pubSigText string      // of master_use_pubkey_signature
	aes        atomic.Pointer[masterAES]
	sessions   *SessionKeys
	toks       *TokCache
	pubKeys    *pubKeyCache
	keys       *KeyDir

	minVersion  int
	requestTTL  time.Duration
	maxMinions  int
	authEvents  bool
	filtering   bool
	signPubs    bool
	pubAlgo     string
	publishPort int
	hashType    string

	index   *MinionIndex
	seen    *minionsSeen
	jobs    *JobCache
	owed    *owedJobs
	jids    JIDSource
	bus     *EventBus
	metrics *masterMetrics
	grumble *complaints

	// The parts that others provide; nil where there is none.
	Pillar  PillarProvider
	Tops    TopsProvider
	hashes  *fileHashes
	pieces  sync.Pool // *fileBuffers
	customs *Customs  // what the users wrote for the master
	Runners Runners
	Eauth   Authenticator

	clear  map[string]clearCommand
	sealed map[string]sealedCommand

	loginSlots chan struct{}
	deciding   sync.Mutex // key directory, pubSigs
	pubSigs    map[string]string
	publishing sync.Mutex // aes and its serial, against Publish
	mining     sync.Mutex // read-change-write of mine data

	req   *RequestServer
	pub   *Publisher
	tasks sync.WaitGroup // runners and the like that outlive their request
	life  context.Context
	ready chan struct{}
}

// maxRequestWorkers is how many requests may be in work at once. Most of them
// are logins that wait for their turn, which must not hold up anything else.
const maxRequestWorkers = 16384

// masterFlush is how long each port waits for what is under way when the master
// stops. Both together must leave time within the 5 seconds of SIGTERM.
const masterFlush = 1500 * time.Millisecond

// NewMaster makes a master: it opens keys and caches, but no port yet.
func NewMaster(o *Options, log *slog.Logger) (*Master, error) {
	m := &Master{
		log: log, cachedir: o.Path("cachedir"), sockDir: o.Path("sock_dir"),
		minVersion: o.Int("minimum_auth_version"), requestTTL: o.Duration("request_server_ttl"),
		maxMinions: o.Int("max_minions"), authEvents: o.Bool("auth_events"),
		filtering: o.Bool("zmq_filtering"), signPubs: o.Bool("sign_pub_messages"),
		pubAlgo: o.Str("publish_signing_algorithm"), publishPort: o.Int("publish_port"),
		hashType: o.Str("hash_type"),
		toks:     NewTokCache(), pubKeys: newPubKeyCache(), seen: newMinionsSeen(),
		pubSigs:    map[string]string{},
		loginSlots: make(chan struct{}, runtime.GOMAXPROCS(0)),
		metrics:    newMasterMetrics(), hashes: newFileHashes(), grumble: newComplaints(log),
		ready: make(chan struct{}),
	}
	if m.pubAlgo == "" {
		m.pubAlgo = AlgoPKCS1v15SHA1
	}
	pki := o.Path("pki_dir")
	m.conf.Store(&masterConf{o: o})
	for _, dir := range []struct {
		path string
		mode os.FileMode
	}{{m.cachedir, 0o750}, {m.sockDir, 0o755}, {filepath.Join(m.cachedir, "jobs"), 0o750}, {filepath.Join(m.cachedir, "minions"), 0o750},
		{filepath.Join(m.cachedir, "proc"), 0o750}} {
		if err := os.MkdirAll(dir.path, dir.mode); err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
	}
	m.keys = OpenKeyDir(pki)
	if err := m.keys.Create(); err != nil {
		return nil, err
	}
	if err := m.loadKeys(pki); err != nil {
		return nil, err
	}
	m.index = NewMinionIndex(m.keys, m.cachedir, log)
	m.jobs = OpenJobCache(filepath.Join(m.cachedir, "jobs"), JobCacheOptionsFrom(o, log))
	m.owed = openOwedJobs(filepath.Join(m.cachedir, "owed"), o.Duration("keep_jobs_seconds"), log)
	m.bus = NewEventBus(o.Int("max_event_size"), log)
	c, err := m.newConf(o)
	if err != nil {
		return nil, err
	}
	m.conf.Store(c)
	m.customs = NewCustoms(o)
	m.Runners = NewRunnerClient(o, log, io.Discard, m.customs)
	m.clear, m.sealed = clearCommands(), sealedCommands()
	return m, nil
}

// loadKeys opens the master's keys and makes what is new at each start.
func (m *Master) loadKeys(pki string) error {
	o := m.o()
	bits := o.Int("keysize")
	if bits < 2048 {
		bits = 2048
	}
	var err error
	if m.key, err = LoadOrCreateKeyPass(pki, "master", bits, o.Str("key_pass")); err != nil {
		return err
	}
	if o.Bool("master_sign_pubkey") {
		name := o.Str("master_sign_key_name")
		if name == "" {
			name = "master_sign"
		}
		if o.Bool("master_use_pubkey_signature") {
			file := o.Str("master_pubkey_signature")
			if file == "" {
				file = "master_pubkey_signature"
			}
			text, err := os.ReadFile(filepath.Join(pki, file))
			if err != nil {
				return fmt.Errorf("read the signature of the master's key: %w", err)
			}
			m.pubSigText = CleanKey(string(text))
		} else if m.signKey, err = LoadOrCreateKeyPass(pki, name, bits, o.Str("signing_key_pass")); err != nil {
			return err
		}
	}
	ttl := o.Duration("publish_session")
	if ttl <= 0 {
		ttl = 24 * time.Hour
	}
	if m.sessions, err = OpenSessionKeys(m.cachedir, ttl); err != nil {
		return err
	}
	aes, err := newMasterAES(m.key)
	if err != nil {
		return err
	}
	m.aes.Store(aes)
	return nil
}

// newConf makes the parts that follow a reload.
func (m *Master) newConf(o *Options) (*masterConf, error) {
	c := &masterConf{o: o, rules: newAuthRules(o, m.log), files: NewFileServer(o, m.log)}
	var err error
	c.userKeys, err = makeUserKeys(o, m.cachedir, m.log)
	return c, err
}

// Reload takes over a changed configuration: rules for keys and users, peer,
// file_roots, nodegroups and everything else that is read when it is needed.
// Ports, directories, keys and limits stay until the next start.
func (m *Master) Reload(o *Options) {
	c, err := m.newConf(o)
	if err != nil {
		m.log.Error(fmt.Sprintf("the configuration is not reloaded: %v", err))
		return
	}
	m.conf.Store(c)
	for _, part := range []any{m.Pillar, m.Tops, m.Runners, m.Eauth} {
		if r, ok := part.(interface{ Reload(o *Options) }); ok {
			r.Reload(o)
		}
	}
	m.log.Info("the configuration was reloaded")
}

// o are the options in force.
func (m *Master) o() *Options { return m.conf.Load().o }

// files is the file server in force.
func (m *Master) files() FileServer { return m.conf.Load().files }

// newAuthRules reads the options that accept keys without a person.
func newAuthRules(o *Options, log *slog.Logger) *AuthRules {
	r := &AuthRules{
		OpenMode: o.Bool("open_mode"), AutoAccept: o.Value("auto_accept") == true,
		AutosignFile: o.Path("autosign_file"), AutorejectFile: o.Path("autoreject_file"),
		AutosignGrainsDir: o.Path("autosign_grains_dir"), PermissivePKI: o.Bool("permissive_pki_access"),
		AutosignTimeout: time.Duration(o.Float("autosign_timeout") * float64(time.Minute)),
		Match:           exprMatch, Log: log,
	}
	if r.OpenMode {
		log.Warn("open_mode is on: EVERY minion is let in, whatever its key. Anybody who reaches the master's port " +
			"can read pillars and take the place of any minion. Switch it off as soon as possible.")
	}
	if r.AutoAccept {
		log.Warn("auto_accept is on: every new key is accepted without asking")
	}
	return r
}

// Run serves until ctx ends; then it stops within a few seconds.
func (m *Master) Run(ctx context.Context) error {
	life, stop := context.WithCancel(ctx)
	defer stop()
	m.life = life
	var err error
	to := m.transportOptions()
	iface := m.o().Str("interface")
	if iface == "" {
		iface = "0.0.0.0"
	}
	// The ports are closed by hand below, after the work that is still under way.
	if m.pub, err = ListenPublisher(context.WithoutCancel(ctx), hostPort(iface, m.publishPort), to); err != nil {
		return fmt.Errorf("open the publish port: %w", err)
	}
	defer m.pub.Close()
	if m.publishPort == 0 {
		m.publishPort = m.pub.Addr().(*net.TCPAddr).Port
	}

	var background sync.WaitGroup
	fail := make(chan error, 4)
	start := func(name string, f func(context.Context) error) {
		background.Add(1)
		go func() {
			defer background.Done()
			if err := f(life); err != nil && life.Err() == nil {
				fail <- fmt.Errorf("%s: %w", name, err)
			}
		}()
	}
	busReady := make(chan struct{})
	start("event bus", func(ctx context.Context) error {
		return m.bus.Serve(ctx, m.sockDir, func() { close(busReady) })
	})
	select {
	case <-busReady:
	case err := <-fail:
		stop()
		background.Wait()
		return err
	}
	// Requests come last: whoever connects finds everything in place.
	if m.req, err = ListenRequests(context.WithoutCancel(ctx), hostPort(iface, m.o().Int("ret_port")), to, m.handle); err != nil {
		stop()
		background.Wait()
		return fmt.Errorf("open the request port: %w", err)
	}
	if port := m.o().Int("metrics_port"); port > 0 {
		start("metrics", func(ctx context.Context) error { return m.serveMetrics(ctx, hostPort(iface, port)) })
	}
	start("maintenance", m.maintain)
	start("reactor", m.newReactor())
	start("schedule", m.schedule)
	start("returners", m.newReturners())
	m.log.Info(fmt.Sprintf("master is ready: publishing on %s, requests on %s", m.pub.Addr(), m.req.Addr()))
	close(m.ready)

	select {
	case <-ctx.Done():
		err = nil
	case err = <-fail:
	}
	m.req.Close() // answers that are due still go out
	m.pub.Close()
	stop()
	background.Wait()
	m.tasks.Wait()
	if c, ok := m.Runners.(interface{ Close() }); ok {
		c.Close()
	}
	m.customs.Close()
	m.log.Info("master has stopped")
	return err
}

// Ready is closed once the master serves.
func (m *Master) Ready() <-chan struct{} { return m.ready }

// Addrs are the addresses of the publish and the request port, once ready.
func (m *Master) Addrs() (publish, request net.Addr) { return m.pub.Addr(), m.req.Addr() }

// Bus is the master's event bus.
func (m *Master) Bus() *EventBus { return m.bus }

func hostPort(host string, port int) string {
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(port))
}

// transportOptions takes what options say about connections.
func (m *Master) transportOptions() TransportOptions {
	to := TransportOptions{Workers: maxRequestWorkers, Flush: masterFlush, Log: m.log, QueueMessages: m.o().Int("pub_hwm")}
	if m.o().Has("tcp_keepalive") {
		to.KeepAlive = net.KeepAliveConfig{Enable: m.o().Bool("tcp_keepalive"), Idle: 300 * time.Second, Interval: -1, Count: -1}
		if s := m.o().Int("tcp_keepalive_idle"); s > 0 {
			to.KeepAlive.Idle = time.Duration(s) * time.Second
		}
		if s := m.o().Int("tcp_keepalive_intvl"); s > 0 {
			to.KeepAlive.Interval = time.Duration(s) * time.Second
		}
		if n := m.o().Int("tcp_keepalive_cnt"); n > 0 {
			to.KeepAlive.Count = n
		}
	}
	return to
}

// refuse is a refusal as bytes.
func (m *Master) refuse(text string) []byte { return (&Refusal{Text: text}).Reply() }

// handle answers one request on the request port.
func (m *Master) handle(ctx context.Context, p *Peer, body []byte) (out []byte) {
	defer func() {
		if r := recover(); r != nil {
			m.log.Error(fmt.Sprintf("request from %s: panic: %v\n%s", p.RemoteAddr, r, debug.Stack()))
			out = m.refuse(RefusedServer)
		}
	}()
	m.metrics.requests.Add(1)
	r, err := DecodeRequest(body)
	if err == nil {
		if r.Enc == "clear" {
			return m.handleClear(ctx, p, r)
		}
		if out, err = m.handleSealed(ctx, p, r); err == nil {
			return out
		}
	}
	refusal := RefusalOf(err)
	m.metrics.refused.Add(1)
	id := ""
	if r != nil && r.ID != "" {
		id = " as " + shortRepr(r.ID)
	}
	why := fmt.Sprint(refusal)
	if errors.Is(err, ErrNoKey) {
		why = "its key is not accepted: salt-key -L"
	}
	m.grumble.warn(hostOf(p.RemoteAddr), fmt.Sprintf("refused a request from %s%s: %s", p.RemoteAddr, id, why))
	return refusal.Reply()
}

// background runs f beside the requests, until the master stops.
func (m *Master) background(f func(ctx context.Context)) {
	m.tasks.Add(1)
	go func() {
		defer m.tasks.Done()
		defer func() {
			if r := recover(); r != nil {
				m.log.Error(fmt.Sprintf("background task: panic: %v\n%s", r, debug.Stack()))
			}
		}()
		f(m.life)
	}()
}

// maintain does what recurs: the drop file, key rotation, cleaning, presence.
func (m *Master) maintain(ctx context.Context) error {
	loop := m.o().Duration("loop_interval")
	if loop <= 0 {
		loop = time.Minute
	}
	session := m.o().Duration("publish_session")
	if session <= 0 {
		session = 24 * time.Hour
	}
	// Not on the dot: masters that were started together must not make their
	// minions log in together for ever.
	nextRotation := time.Now().Add(session - time.Duration(rand.Int64N(int64(session)/10+1)))
	nextLoop := time.Now()
	present := map[string]string(nil)
	tick := time.NewTicker(min(loop, 2*time.Second))
	defer tick.Stop()
	for {
		m.checkDropFile()
		now := time.Now()
		if now.After(nextRotation) {
			if err := m.rotateAES("publish_session is over"); err != nil {
				m.log.Error(fmt.Sprintf("rotate the publication key: %v", err))
			}
			nextRotation = now.Add(session)
		}
		if m.jobs.Full() || !now.Before(nextLoop) {
			if _, err := m.jobs.Clean(now); err != nil {
				m.log.Error(fmt.Sprintf("clean the job cache: %v", err))
			}
		}
		if !now.Before(nextLoop) {
			if m.o().Bool("presence_events") {
				present = m.firePresence(present)
			}
			m.cleanTokens()
			nextLoop = now.Add(loop)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// firePresence puts the presence events on the bus.
func (m *Master) firePresence(before map[string]string) map[string]string {
	now := m.presentIDs()
	if before != nil {
		var fresh, lost []string
		for id := range now {
			if _, ok := before[id]; !ok {
				fresh = append(fresh, id)
			}
		}
		for id := range before {
			if _, ok := now[id]; !ok {
				lost = append(lost, id)
			}
		}
		if len(fresh)+len(lost) > 0 {
			m.bus.Fire("salt/presence/change", NewMap("new", sortedStrings(fresh), "lost", sortedStrings(lost)))
		}
	}
	ids := make([]string, 0, len(now))
	for id := range now {
		ids = append(ids, id)
	}
	m.bus.Fire("salt/presence/present", NewMap("present", sortedStrings(ids)))
	return now
}

// complaints writes warnings about peers and bounds how many one address can
// cause.
type complaints struct {
	log *slog.Logger
	mu  sync.Mutex
	by  map[string]*complaint
}

type complaint struct {
	since  time.Time
	n      int
	silent int
}

const (
	complaintsPerMinute = 20
	complaintAddresses  = 4096
)

func newComplaints(log *slog.Logger) *complaints {
	return &complaints{log: log, by: map[string]*complaint{}}
}

func (c *complaints) warn(host, text string) {
	now := time.Now()
	c.mu.Lock()
	e := c.by[host]
	if e == nil || now.Sub(e.since) > time.Minute {
		if e != nil && e.silent > 0 {
			text += fmt.Sprintf(" (and %d more of this address before)", e.silent)
		}
		if len(c.by) >= complaintAddresses {
			clear(c.by)
		}
		e = &complaint{since: now}
		c.by[host] = e
	}
	e.n++
	quiet := e.n > complaintsPerMinute
	if quiet {
		e.silent++
	}
	c.mu.Unlock()
	if !quiet {
		c.log.Warn(text)
	}
}

// errNotServed is the error for what this master has no part for.
var errNotServed = errors.New("this master does not serve that")
