// The minion daemon.
//
// The law of these rooms: a Minion is a struct, so that many can live in one
// process; nothing here writes to the terminal or ends the process, that is the
// business of cli_minion.go. The files:
//
//	minion.go         the daemon: its parts, start and stop
//	minion_link.go    the connection to one master, and its way back
//	minion_auth.go    the login
//	minion_channel.go encrypted requests
//	minion_work.go    a job from its publication to its return
//	minion_run.go     one function of a job
//	minion_jobs.go    the table of running jobs
//	minion_returns.go returns on their way to the master
//
// Who waits for whom: Run waits for the links; a link for its senders and
// watchers; the job table for the jobs. Locks are taken one at a time.
package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// stopTime is how long a minion that is told to stop waits for its jobs and
// returns. The whole stop takes less than 5 seconds.
const (
	stopTime         = 2500 * time.Millisecond
	flushReturnsTime = 700 * time.Millisecond
)

// Minion is one minion.
type Minion struct {
	// LeaveJobs lets programs that jobs have started run on when the minion
	// stops: right for a daemon that is restarted, perhaps by its own job.
	LeaveJobs bool
	// Status hears where the minion stands, for the init system. May be nil.
	Status func(text string)

	opts    *Options
	log     *slog.Logger
	id      string
	cred    *Credentials
	masters []masterAddr
	jobs    *jobTable
	sched   *Scheduler
	beacons *Beacons
	custom  *Customs
	// templates keeps what was parsed, for all jobs
	templates *Templates

	// ready is closed when the first link stands.
	ready     chan struct{}
	readyOnce sync.Once

	mu     sync.Mutex
	links  []*masterLink
	grains *Map
}

// NewMinion makes a minion from its options; its key is made if there is none.
func NewMinion(o *Options, log *slog.Logger) (*Minion, error) {
	m := &Minion{opts: o, log: log, id: o.Str("id"), ready: make(chan struct{})}
	if err := ValidMinionID(m.id); err != nil {
		return nil, err
	}
	key, err := loadMinionKey(o)
	if err != nil {
		return nil, err
	}
	m.cred = NewCredentials(m.id, key)
	m.custom = NewCustoms(o)
	m.templates = NewTemplates(o, customStages(m.custom))
	m.jobs = newJobTable(procDir(o), o.Int("process_count_max"), log)
	m.sched = NewScheduler(o, log, m.ownPillar)
	m.sched.grains = m.Grains
	m.beacons = NewBeacons(o, log, m.ownPillar)
	return m, nil
}

// loadMinionKey reads or makes the minion's key pair.
func loadMinionKey(o *Options) (*PrivateKey, error) {
	return LoadOrCreateKey(o.Path("pki_dir"), "minion", max(o.Int("keysize"), defaultKeyBits))
}

// Grains are the minion's grains; they are not changed, but replaced.
func (m *Minion) Grains() *Map {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.grains
}

// Links are the links to the masters, none before Run has made them.
func (m *Minion) Links() []*masterLink {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.links
}

func (m *Minion) status(text string) {
	if m.Status != nil {
		m.Status(text)
	}
}

// Run runs the minion until ctx ends; then it stops within 5 seconds. The error
// is nil after an ordinary stop; an ExitError says with which code to end.
func (m *Minion) Run(ctx context.Context) error {
	clearProcDir(procDir(m.opts))
	if n := m.opts.Float("random_startup_delay"); n > 0 {
		d := rand.N(time.Duration(n * float64(time.Second)))
		m.log.Info(fmt.Sprintf("waiting %v before the start (random_startup_delay)", d.Round(time.Millisecond)))
		if !sleepContext(ctx, d) {
			return nil
		}
	}
	grains := gatherGrains(ctx, m.opts, m.custom, m.log)
	m.mu.Lock()
	m.grains = grains
	m.mu.Unlock()

	defer m.custom.Close()
	links, err := m.makeLinks(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.links = links
	m.mu.Unlock()
	lctx, stopLinks := context.WithCancelCause(ctx)
	defer stopLinks(nil)
	// Senders outlive the links: what the last jobs return still goes out.
	var running, senders sync.WaitGroup
	sctx, stopSenders := context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		stopSenders()
		senders.Wait()
		for _, l := range links {
			l.channel.Close()
		}
	}()
	if len(links) == 0 {
		m.setReady()
	}
	for _, l := range links {
		senders.Go(func() { l.spool.Run(sctx) })
		running.Go(func() {
			for {
				err := l.Run(lctx)
				if err == nil {
					return
				}
				if len(links) == 1 {
					stopLinks(err)
					return
				}
				// One of several masters does not want us: serve the others.
				m.log.Error(fmt.Sprintf("master %s: %v", l.current, err))
				if !sleepContext(lctx, time.Minute+rand.N(10*time.Second)) {
					return
				}
			}
		})
	}
	if every := time.Duration(m.opts.Float("grains_refresh_every") * float64(time.Minute)); every > 0 {
		running.Go(func() {
			for sleepContext(lctx, every) {
				m.Refresh(lctx)
			}
		})
	}
	m.ownWork(lctx, func(f func()) { running.Go(f) })
	if len(links) == 0 {
		m.log.Warn("master_type is disable: this minion has no master")
	}
	<-lctx.Done()
	m.stop()
	running.Wait()
	fctx, cancel := context.WithTimeout(sctx, flushReturnsTime)
	defer cancel()
	for _, l := range links {
		l.spool.Flush(fctx)
	}
	var exit *ExitError
	if errors.As(context.Cause(lctx), &exit) {
		return exit
	}
	return nil
}

// stop ends the jobs. Whoever asked for one that still runs gets told, by a
// return that is sent after the next start if not now.
func (m *Minion) stop() {
	m.status("stopping")
	m.jobs.Close(nil)
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if m.jobs.Wait(ctx) {
		return
	}
	for _, load := range m.jobs.Running() {
		m.log.Warn(fmt.Sprintf("job %s (%s) still runs", load.Str("jid"), Str(load.Value("fun"))))
	}
	if m.LeaveJobs {
		for _, l := range m.Links() {
			l.returnInterrupted()
		}
		return
	}
	m.jobs.Close(errStopping)
	ctx, cancel = context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	m.jobs.Wait(ctx)
}

// makeLinks makes one link for each master, or one for all with failover.
func (m *Minion) makeLinks(ctx context.Context) ([]*masterLink, error) {
	o := m.opts
	kind := o.Str("master_type")
	if kind == "disable" {
		return nil, nil
	}
	names := o.List("master")
	if kind == "func" {
		ret, err := NewCall(m.env(nil), "", "", nil).Run(ctx, o.Str("master"))
		if err != nil {
			return nil, fmt.Errorf("find the master with %s (master_type: func): %w", o.Str("master"), err)
		}
		names = nil
		for _, v := range toItems(ret) {
			names = append(names, Str(v))
		}
	}
	for _, name := range names {
		a, err := parseMaster(name, max(o.Int("master_port"), 1))
		if err != nil {
			return nil, err
		}
		m.masters = append(m.masters, a)
	}
	if len(m.masters) == 0 {
		return nil, errors.New("no master is configured; set master, or master_type: disable")
	}
	order := slices.Clone(m.masters)
	if kind == "distributed" {
		// Each minion has its own favourite, so that they spread evenly.
		i := int(crc32.ChecksumIEEE([]byte(m.id)) % uint32(len(order)))
		order[0], order[i] = order[i], order[0]
		m.masters = slices.Clone(order)
	}
	if o.Bool("random_master") || o.Bool("master_shuffle") {
		from := order
		if kind == "failover" && o.Bool("master_failback") {
			from = order[1:] // the first stays the one to go back to
		}
		rand.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
	}
	if kind == "failover" || kind == "distributed" {
		l, err := m.newLink(order, "")
		return []*masterLink{l}, err
	}
	var links []*masterLink
	for _, a := range order {
		spool := ""
		if len(order) > 1 {
			spool = url.PathEscape(a.String())
		}
		l, err := m.newLink([]masterAddr{a}, spool)
		if err != nil {
			return nil, err
		}
		links = append(links, l)
	}
	return links, nil
}

// newLink makes the link to one master or, with failover, to the first of
// several that answers. spool is a directory for its returns, "" = the common one.
func (m *Minion) newLink(masters []masterAddr, spool string) (*masterLink, error) {
	policy, err := loginPolicy(m.opts, m.Grains())
	if err != nil {
		return nil, err
	}
	l := &masterLink{m: m, log: m.log, masters: masters, current: masters[0], several: len(masters) > 1, opts: m.opts.Clone(), said: map[string]time.Time{}}
	l.opts.Set("master", masters[0].Host)
	l.channel = newMasterChannel(m.cred, policy, l.dialRequester, m.log)
	configureChannel(l.channel, m.opts)
	l.spool = newReturnSpool(filepath.Join(m.opts.Path("cachedir"), "returns", spool), int64(m.opts.Int("return_max_size")), m.log, l.deliver)
	l.loader = NewLoader(l.opts, m.custom)
	return l, nil
}

// configureChannel sets the times of a channel from options.
func configureChannel(ch *masterChannel, o *Options) {
	if d := o.Duration("auth_timeout"); d > 0 {
		ch.auth = d
	}
	if d := o.Duration("request_channel_timeout"); d > 0 {
		ch.reqs.timeout = d
	}
	if n := o.Int("request_channel_tries"); n > 0 {
		ch.reqs.tries = n
	}
}

// env is what functions get that run outside of any link, or for l.
func (m *Minion) env(l *masterLink) *Env {
	e := &Env{Opts: m.opts, Grains: m.Grains(), Pillar: NewMap(), Log: m.log, Jobs: m.jobs, Templates: m.templates, Schedule: m.sched, Beacons: m.beacons}
	if l == nil {
		e.Loader = NewLoader(m.opts, m.custom)
		return e
	}
	e.Opts, e.Master, e.Minion = l.opts, l.channel, l
	e.Files = NewFileClient(l.opts, m.log, l.channel.Request, false)
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Loader = l.loader
	if l.pillar != nil {
		e.Pillar = l.pillar
	}
	return e
}

// Refresh reads grains and modules anew, and the pillar from every master, as
// SIGHUP asks.
func (m *Minion) Refresh(ctx context.Context) {
	m.refreshGrains(ctx)
	for _, l := range m.Links() {
		if err := l.fetchPillar(ctx); err != nil {
			m.log.Warn(fmt.Sprintf("refresh the pillar: %v", err))
		}
	}
}

// refreshGrains computes the grains anew. Modules may depend on them.
func (m *Minion) refreshGrains(ctx context.Context) {
	grains := gatherGrains(ctx, m.opts, m.custom, m.log)
	m.mu.Lock()
	m.grains = grains
	m.mu.Unlock()
	for _, l := range m.Links() {
		l.mu.Lock()
		l.loader = NewLoader(l.opts, m.custom)
		l.mu.Unlock()
	}
}

// gatherGrains collects the grains: those of the box, of the configuration, and
// what user-written grains add.
func gatherGrains(ctx context.Context, o *Options, custom *Customs, log *slog.Logger) *Map {
	grains := CoreGrains(ctx, o)
	if custom.HasAny("grains") {
		c := NewCall(&Env{Opts: o, Grains: grains, Pillar: NewMap(), Log: log, Loader: NewLoader(o, custom)}, "", "", nil)
		MergeGrains(o, grains, custom.Grains(ctx, c))
	}
	return grains
}
