// Beacons: what the minion watches and tells the master about.
//
// The law of this room: a beacon is a value with a check of its configuration
// and a look that returns events; what it remembers between looks is its own
// and goes when its configuration changes. One goroutine looks at all beacons,
// each at its interval. A look never waits: what happened meanwhile is kept by
// the kernel (inotify) or read from files.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"sort"
	"strings"
	"sync"
	"time"
)

// beaconEvent is one event for the master.
type beaconEvent struct {
	tag  string
	data *Map
}

// beacon is one kind of beacon, with what it remembers.
type beacon interface {
	// look returns what has happened: mappings, with an optional tag in each.
	look(ctx context.Context, c *Call, conf *Map, list []any) ([]*Map, error)
}

// beaconKind makes beacons of one kind.
type beaconKind struct {
	name string
	// check says what is wrong with a configuration, "" if nothing is.
	check func(conf *Map, list []any) string
	make  func() beacon
}

func beaconKinds() []beaconKind {
	none := func(*Map, []any) string { return "" }
	return []beaconKind{
		{"btmp", checkLogins("btmp"), func() beacon { return &loginsBeacon{file: "/var/log/btmp", failed: true} }},
		{"cert_info", checkCertInfo, func() beacon { return beaconFunc(lookCertInfo) }},
		{"diskusage", none, func() beacon { return &diskusageBeacon{} }},
		{"inotify", checkInotify, func() beacon { return &inotifyBeacon{} }},
		{"journald", checkJournald, func() beacon { return &journaldBeacon{} }},
		{"load", checkLoad, func() beacon { return &loadBeacon{} }},
		{"log", checkLog, func() beacon { return &logBeacon{} }},
		{"memusage", checkPercent("memusage"), func() beacon { return beaconFunc(lookMemusage) }},
		{"network_info", checkNetworkInfo, func() beacon { return beaconFunc(lookNetworkInfo) }},
		{"network_settings", checkNetworkSettings, func() beacon { return &networkSettingsBeacon{} }},
		{"pkg", checkPkg, func() beacon { return &pkgBeacon{} }},
		{"ps", checkPs, func() beacon { return beaconFunc(lookPs) }},
		{"salt_monitor", checkSaltMonitor, func() beacon { return beaconFunc(lookSaltMonitor) }},
		{"service", checkService, func() beacon { return &serviceBeacon{} }},
		{"sh", none, func() beacon { return &shBeacon{} }},
		{"status", none, func() beacon { return beaconFunc(lookStatus) }},
		{"swapusage", checkPercent("swapusage"), func() beacon { return beaconFunc(lookSwapusage) }},
		{"watchdog", checkWatchdog, func() beacon { return &watchdogBeacon{} }},
		{"wtmp", checkLogins("wtmp"), func() beacon { return &loginsBeacon{file: "/var/log/wtmp"} }},
	}
}

func beaconKindOf(name string) (beaconKind, bool) {
	for _, k := range beaconKinds() {
		if k.name == name {
			return k, true
		}
	}
	return beaconKind{}, false
}

// beaconFunc is a beacon that remembers nothing.
type beaconFunc func(ctx context.Context, c *Call, conf *Map, list []any) ([]*Map, error)

func (f beaconFunc) look(ctx context.Context, c *Call, conf *Map, list []any) ([]*Map, error) {
	return f(ctx, c, conf, list)
}

// beaconState is a configured beacon.
type beaconState struct {
	conf any    // as configured, to notice changes
	dict *Map   // conf as one mapping
	list []any  // and as a list
	b    beacon // nil: the configuration is not right
	next time.Time
	said string // the complaint that was logged last
}

// Beacons are the beacons of a minion.
type Beacons struct {
	opts   *Options
	log    *slog.Logger
	pillar func() *Map

	mu   sync.Mutex
	conf *Map // of the options and the beacons module
	// merged is list(true, true) as look reads it, nil when conf has changed; it is
	// of mergedPillar, and never changed itself.
	merged, mergedPillar *Map
	state                map[string]*beaconState
	wake                 chan struct{}
}

// NewBeacons makes the beacons of the options. Nothing is watched before Run.
func NewBeacons(o *Options, log *slog.Logger, pillar func() *Map) *Beacons {
	b := &Beacons{opts: o, log: log, pillar: pillar, conf: &Map{}, state: map[string]*beaconState{}, wake: make(chan struct{}, 1)}
	if m := o.Map("beacons"); m != nil {
		b.conf = DeepCopy(m).(*Map)
	}
	return b
}

// List is the configuration, of the pillar and of the options.
func (b *Beacons) List(pillar, opts bool) *Map {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.list(pillar, opts)
}

func (b *Beacons) list(pillar, opts bool) *Map {
	out := &Map{}
	if pillar {
		out.Merge(b.pillarConf())
	}
	if opts {
		out.Merge(b.conf)
	}
	return DeepCopy(out).(*Map)
}

// pillarConf are the beacons of the pillar, nil if there are none.
func (b *Beacons) pillarConf() *Map {
	if b.pillar == nil {
		return nil
	}
	return b.pillar().Map("beacons")
}

// current is the configuration to look at. The lock is held.
func (b *Beacons) current() *Map {
	if p := b.pillarConf(); b.merged == nil || b.mergedPillar != p {
		b.merged, b.mergedPillar = b.list(true, true), p
	}
	return b.merged
}

// InPillar says whether a beacon is the pillar's, so that it cannot be changed here.
func (b *Beacons) InPillar(name string) bool { return b.List(true, false).Has(name) }

// change changes the configuration and lets the loop look at it.
func (b *Beacons) change(f func(conf *Map)) {
	b.mu.Lock()
	f(b.conf)
	b.merged = nil
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// beaconDict joins a configuration's list of mappings into one.
func beaconDict(v any) (conf *Map, list []any) {
	switch v := v.(type) {
	case *Map:
		return v, []any{v}
	case *List:
		conf = &Map{}
		for _, item := range v.Items {
			if m, ok := item.(*Map); ok {
				conf.Merge(m)
			}
		}
		return conf, v.Items
	}
	return nil, nil
}

// beaconModule is the kind of a configured beacon: its name, unless it says else.
func beaconModule(name string, v any) string {
	conf, _ := beaconDict(v)
	if s := conf.Str("beacon_module"); s != "" {
		return s
	}
	return name
}

// checkBeacon says what is wrong with a configuration, "" if nothing is.
func checkBeacon(name string, v any) string {
	kind, ok := beaconKindOf(beaconModule(name, v))
	if !ok {
		return fmt.Sprintf("Beacon \"%s\" is not available.", beaconModule(name, v))
	}
	if _, isList := v.(*List); !isList {
		return "Configuration for " + kind.name + " beacon must be a list."
	}
	conf, list := beaconDict(v)
	return kind.check(conf, list)
}

// beaconOptions are the keys of a configuration that are not the kind's own.
func isBeaconOption(key string) bool {
	switch key {
	case "enabled", "interval", "disable_during_state_run", "beacon_module", "run_once", "_beacon_name":
		return true
	}
	return false
}

// withoutOptions drops what is not the kind's own from a list of mappings.
func withoutOptions(list []any) []*Map {
	var out []*Map
	for _, item := range list {
		m, ok := item.(*Map)
		if !ok {
			continue
		}
		own := &Map{}
		for k, v := range m.All() {
			if !isBeaconOption(Str(k)) {
				own.Set(k, v)
			}
		}
		if own.Len() > 0 {
			out = append(out, own)
		}
	}
	return out
}

// Run looks at the beacons until ctx ends. fire sends events; call makes a Call.
func (b *Beacons) Run(ctx context.Context, fire func(context.Context, []beaconEvent), call func() *Call) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer b.closeAll()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-b.wake:
		}
		events, wait := b.look(ctx, call, time.Now())
		if len(events) > 0 {
			fire(ctx, events)
		}
		timer.Reset(wait)
	}
}

// dropBeacon lets go of what a beacon holds open.
func dropBeacon(b beacon) {
	if c, ok := b.(interface{ close() }); ok {
		c.close()
	}
}

func (b *Beacons) closeAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, st := range b.state {
		dropBeacon(st.b)
		delete(b.state, name)
	}
}

// loopInterval is how often a beacon without an interval is looked at.
func (b *Beacons) loopInterval() time.Duration {
	if d := b.opts.Duration("loop_interval"); d > 0 {
		return max(d, 100*time.Millisecond)
	}
	return time.Second
}

// look looks at the beacons that are due.
func (b *Beacons) look(ctx context.Context, call func() *Call, now time.Time) (events []beaconEvent, wait time.Duration) {
	b.mu.Lock()
	all := b.current()
	for name, st := range b.state {
		if !all.Has(name) {
			dropBeacon(st.b)
			delete(b.state, name)
		}
	}
	b.mu.Unlock()
	wait = 15 * time.Second
	if v, ok := all.Get("enabled"); ok && !Truth(v) {
		return nil, wait
	}
	names := namesOf(all.Keys())
	sort.Strings(names)
	for _, name := range names {
		if name == "enabled" {
			continue
		}
		st := b.stateOf(name, all.Value(name))
		conf := st.dict
		if st.b == nil || conf.Has("enabled") && !Truth(conf.Value("enabled")) {
			continue
		}
		every := b.loopInterval()
		if n, ok := toFloat(conf.Value("interval")); ok && n > 0 {
			every = time.Duration(n * float64(time.Second))
		}
		if st.next.IsZero() && conf.Has("interval") {
			st.next = now.Add(every)
		}
		if now.Before(st.next) {
			wait = min(wait, st.next.Sub(now))
			continue
		}
		st.next = now.Add(every)
		wait = min(wait, every)
		c := call()
		if Truth(conf.Value("disable_during_state_run")) && stateRuns(c) {
			if _, holds := st.b.(interface{ close() }); holds { // what happens meanwhile is not told later
				dropBeacon(st.b)
			}
			continue
		}
		events = append(events, b.lookAt(ctx, c, name, st)...)
		if Truth(conf.Value("run_once")) {
			b.Enable(name, false)
		}
	}
	return events, max(wait, 50*time.Millisecond)
}

// lookAt looks at one beacon.
func (b *Beacons) lookAt(ctx context.Context, c *Call, name string, st *beaconState) (events []beaconEvent) {
	prefix := "salt/beacon/" + b.opts.Str("id") + "/" + name + "/"
	found, err := st.b.look(ctx, c, st.dict, st.list)
	if err != nil {
		if err.Error() == st.said {
			return nil // said once, until it is another
		}
		st.said = err.Error()
		b.log.Error(fmt.Sprintf("Unable to start %s beacon, %s", name, st.said))
		return []beaconEvent{{prefix, NewMap("id", b.opts.Str("id"), "error", err.Error())}}
	}
	st.said = ""
	for _, data := range found {
		tag := prefix
		if v, ok := data.Get("tag"); ok {
			tag += Str(v)
			data.Delete("tag")
		}
		if !data.Has("id") {
			data.Set("id", b.opts.Str("id"))
		}
		events = append(events, beaconEvent{tag, data})
	}
	return events
}

// stateOf is the state of a configured beacon, made anew when its configuration
// has changed.
func (b *Beacons) stateOf(name string, v any) *beaconState {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.state[name]
	l, isList := v.(*List)
	if st != nil && (isList && st.conf == any(l) || Equal(st.conf, v)) {
		st.conf = v // the same, so that the next look only compares the pointer
		return st
	}
	if st != nil {
		dropBeacon(st.b)
	}
	st = &beaconState{conf: v}
	b.state[name] = st
	if why := checkBeacon(name, v); why != "" {
		b.log.Error(fmt.Sprintf("Beacon %s configuration invalid, not running. %s", name, why))
		return st
	}
	st.dict, st.list = beaconDict(v)
	kind, _ := beaconKindOf(beaconModule(name, v))
	st.b = kind.make()
	return st
}

// Enable switches one beacon.
func (b *Beacons) Enable(name string, on bool) {
	b.change(func(conf *Map) {
		v, ok := conf.Get(name)
		if !ok {
			return
		}
		switch v := v.(type) {
		case *Map:
			v.Set("enabled", on)
		case *List:
			for _, item := range v.Items {
				if m, ok := item.(*Map); ok && m.Has("enabled") {
					m.Set("enabled", on)
					return
				}
			}
			v.Append(NewMap("enabled", on))
		}
	})
}

// stateRuns says whether a job that applies states runs now.
func stateRuns(c *Call) bool {
	if c.Jobs == nil {
		return false
	}
	for _, job := range c.Jobs.Running() {
		for _, fun := range namesOf(toItems(job.Value("fun"))) {
			if strings.HasPrefix(fun, "state.") {
				return true
			}
		}
	}
	return false
}
