// The scheduler: jobs that the minion runs by itself, from the options, the
// pillar and the schedule module.
//
// The law of this room: the schedule is a mapping as users write it and is never
// annotated; what is known about a job between two looks stands in scheduleState.
// One goroutine looks at all jobs, when the next one is due and at least every
// quarter of a minute, so that a clock that was set, and a file that another
// process changed, are noticed. Jobs run as the master's do, in the job table.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
)

// scheduleLook is the longest time between two looks at the schedule; a job with
// a fixed time may be late by scheduleSlack before it counts as missed.
const (
	scheduleLook  = 15 * time.Second
	scheduleSlack = 2 * time.Second
)

// scheduleState is what the scheduler knows about one job.
type scheduleState struct {
	def     *Map // the job as it was when the state was made
	next    time.Time
	splay   time.Time
	fired   time.Time // the fixed time it last ran for
	started bool      // run_on_start is done
	lastRun time.Time

	errText     string
	skipReason  string
	skippedTime time.Time
	explicit    []time.Time // runs that were put off to these times
	skips       []time.Time
	taken       []time.Time // explicit times of the definition, read already
	running     int
}

// scheduledRun is one run that is due.
type scheduledRun struct {
	name string
	fun  string
	def  *Map
	jid  string
}

// Scheduler keeps the schedule of a minion.
type Scheduler struct {
	opts *Options
	log  *slog.Logger
	// pillar gives the schedule of the pillar; it and grains (nil: none) have named
	// times.
	pillar, grains func() *Map
	// run starts a run; done is called at its end.
	run func(ctx context.Context, r scheduledRun, done func()) error

	mu    sync.Mutex
	jobs  *Map // of the options and the schedule module, with enabled and the like
	state map[string]*scheduleState
	mtime time.Time // of the file when it was read or written
	// merged is list("") as look reads it, nil when jobs has changed; it is of
	// mergedPillar, and never changed itself.
	merged, mergedPillar *Map
	wake                 chan struct{}
}

// NewScheduler makes a scheduler from the options. Nothing runs before Run.
func NewScheduler(o *Options, log *slog.Logger, pillar func() *Map) *Scheduler {
	s := &Scheduler{opts: o, log: log, pillar: pillar, state: map[string]*scheduleState{}, wake: make(chan struct{}, 1)}
	s.jobs = &Map{}
	if m := o.Map("schedule"); m != nil {
		s.jobs = DeepCopy(m).(*Map)
	}
	if st, err := os.Stat(s.file()); err == nil {
		s.mtime = st.ModTime()
	}
	return s
}

// file is where the schedule module keeps its jobs.
func (s *Scheduler) file() string {
	dir := filepath.Dir(s.opts.Str("default_include"))
	return filepath.Join(s.opts.ConfigDir(), dir, "_schedule.conf")
}

// saved reads the jobs in the file.
func (s *Scheduler) saved() *Map {
	p, err := os.ReadFile(s.file())
	if err != nil {
		return &Map{}
	}
	v, err := ParseYAML(p)
	m, ok := v.(*Map)
	if err != nil || !ok {
		return &Map{}
	}
	if jobs := m.Map("schedule"); jobs != nil {
		return jobs
	}
	return &Map{}
}

// writeSchedule puts jobs into the file.
func (s *Scheduler) writeSchedule(jobs *Map) error {
	if err := os.MkdirAll(filepath.Dir(s.file()), 0o755); err != nil {
		return fmt.Errorf("save the schedule: %w", err)
	}
	text := DumpYAML(NewMap("schedule", jobs), YAMLOptions{SortKeys: true})
	if err := writeFileAtomic(s.file(), []byte(text), 0o644); err != nil {
		return fmt.Errorf("save the schedule: %w", err)
	}
	return nil
}

// persist writes the jobs that are not the pillar's. The lock is held.
func (s *Scheduler) persist() error {
	jobs := &Map{}
	for k, v := range s.jobs.All() {
		if !strings.HasPrefix(Str(k), "__") {
			jobs.Set(k, DeepCopy(v))
		}
	}
	err := s.writeSchedule(jobs)
	if st, serr := os.Stat(s.file()); serr == nil {
		s.mtime = st.ModTime()
	}
	return err
}

// noticeFile takes over what another process wrote into the file. The lock is
// held.
func (s *Scheduler) noticeFile() {
	st, err := os.Stat(s.file())
	if err != nil || st.ModTime().Equal(s.mtime) {
		return
	}
	s.mtime, s.merged = st.ModTime(), nil
	fresh := s.saved()
	if m := s.opts.Map("schedule"); m != nil {
		for k := range m.All() { // jobs of other configuration files stay
			if v, ok := s.jobs.Get(k); ok && !fresh.Has(k) && strings.HasPrefix(Str(k), "__") {
				fresh.Set(k, v)
			}
		}
	}
	for k, v := range s.jobs.All() {
		if strings.HasPrefix(Str(k), "__") {
			fresh.Set(k, v)
		}
	}
	s.jobs = DeepCopy(fresh).(*Map)
}

func isHiddenKey(k any) bool {
	switch k {
	case "enabled", "skip_function", "skip_during_range", "splay":
		return true
	}
	return false
}

// pillarJobs is the schedule of the pillar, as it is; nil if there is none.
func (s *Scheduler) pillarJobs() *Map {
	if s.pillar == nil {
		return nil
	}
	return s.pillar().Map("schedule")
}

// current is the schedule to look at. The lock is held.
func (s *Scheduler) current() *Map {
	if p := s.pillarJobs(); s.merged == nil || s.mergedPillar != p {
		s.merged, s.mergedPillar = s.list(""), p
	}
	return s.merged
}

// List is the schedule: of "opts", "pillar" or, with "", of both; the options win.
func (s *Scheduler) List(where string) *Map {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noticeFile()
	out := s.list(where)
	for name, st := range s.state { // a job that ran shows what it went by
		if m := out.Map(name); m != nil && !st.lastRun.IsZero() {
			m.Set("jid_include", kwargOf(m, "jid_include", true))
			m.Set("maxrunning", kwargOf(m, "maxrunning", int64(1)))
		}
	}
	return out
}

func (s *Scheduler) list(where string) *Map {
	out := &Map{}
	if where != "opts" {
		out.Merge(s.pillarJobs())
	}
	if where != "pillar" {
		out.Merge(s.jobs)
	}
	out = DeepCopy(out).(*Map)
	for k, v := range out.All() {
		if m, ok := v.(*Map); ok && !isHiddenKey(k) && !m.Has("name") {
			m.Set("name", k)
		}
	}
	return out
}

// change changes the jobs and persists them if asked for.
func (s *Scheduler) change(persist bool, f func(jobs *Map)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noticeFile()
	f(s.jobs)
	s.merged = nil
	s.poke()
	if persist {
		return s.persist()
	}
	return nil
}

// poke lets the loop look now.
func (s *Scheduler) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Poke lets the scheduler look at the schedule now: the pillar has changed.
func (s *Scheduler) Poke() { s.poke() }

// AddHidden adds a job of the minion itself; its name begins with __.
func (s *Scheduler) AddHidden(name string, def *Map) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs.Set(name, def)
	s.merged = nil
	s.poke()
}

// setJob puts one value into a job of the options, or of the pillar: such a job
// is taken over first.
func (s *Scheduler) setJob(name, key string, v any, persist bool) error {
	return s.change(persist, func(jobs *Map) {
		m := jobs.Map(name)
		if m == nil {
			p := s.pillarJobs().Map(name)
			if p == nil {
				return
			}
			m = DeepCopy(p).(*Map)
			jobs.Set(name, m)
		}
		m.Set(key, v)
	})
}

// RunNow runs a job outside of its times.
func (s *Scheduler) RunNow(ctx context.Context, name string) error {
	def := s.List("").Map(name)
	if def == nil {
		return fmt.Errorf("there is no job %s", name)
	}
	s.mu.Lock()
	run := s.run
	s.mu.Unlock()
	if run == nil {
		return fmt.Errorf("no minion runs here that could run job %s", name)
	}
	for _, fun := range scheduleFuns(def) {
		if err := run(ctx, scheduledRun{name: name, fun: fun, def: def, jid: NewJID(time.Now())}, func() {}); err != nil {
			return err
		}
	}
	return nil
}

func scheduleFuns(def *Map) []string {
	for _, key := range []string{"function", "func", "fun"} {
		if v := def.Value(key); v != nil {
			return namesOf(toItems(v))
		}
	}
	return nil
}

// Next is when a job runs next; zero if that is not known.
func (s *Scheduler) Next(name string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.state[name]; st != nil {
		return st.due()
	}
	return time.Time{}
}

func (st *scheduleState) due() time.Time {
	if !st.splay.IsZero() {
		return st.splay
	}
	return st.next
}

// Status is a job with what the scheduler knows about it.
func (s *Scheduler) Status(name, layout string) *Map {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.list("").Map(name)
	if m == nil {
		return &Map{}
	}
	st := s.state[name]
	if st == nil {
		return m
	}
	put := func(key string, t time.Time) {
		if t.IsZero() {
			m.Set(key, nil)
		} else {
			m.Set(key, t.Format(layout))
		}
	}
	put("_next_fire_time", st.next)
	put("_splay", st.splay)
	if !st.next.IsZero() {
		put("_next_scheduled_fire_time", st.next)
	}
	if !st.lastRun.IsZero() {
		put("_last_run", st.lastRun)
	}
	if st.errText != "" {
		m.Set("_error", st.errText)
	}
	if st.skipReason != "" {
		m.Set("_skip_reason", st.skipReason)
		m.Set("_skipped", true)
		put("_skipped_time", st.skippedTime)
	}
	return m
}

// Postpone skips the run at one time and makes one at another; Skip only skips.
func (s *Scheduler) Postpone(name string, at, to time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stateOf(name)
	st.skips = append(st.skips, at)
	if !to.IsZero() {
		st.explicit = append(st.explicit, to)
	}
	s.poke()
}

func (s *Scheduler) stateOf(name string) *scheduleState {
	st := s.state[name]
	if st == nil {
		st = &scheduleState{}
		s.state[name] = st
	}
	return st
}

// Run looks at the schedule until ctx ends.
func (s *Scheduler) Run(ctx context.Context, run func(ctx context.Context, r scheduledRun, done func()) error) {
	s.mu.Lock()
	s.run = run
	s.mu.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.wake:
		}
		due, wait := s.look(time.Now())
		for _, r := range due {
			s.start(ctx, r)
		}
		timer.Reset(wait)
	}
}

// start starts one run and counts it until it ends.
func (s *Scheduler) start(ctx context.Context, r scheduledRun) {
	s.log.Info(fmt.Sprintf("Running scheduled job: %s with jid %s", r.name, r.jid))
	err := s.run(ctx, r, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stateOf(r.name).running--
	})
	if err != nil {
		s.mu.Lock()
		s.stateOf(r.name).running--
		s.mu.Unlock()
		s.log.Error(fmt.Sprintf("scheduled job %s: %v", r.name, err))
	}
}

// look finds the runs that are due, and how long nothing will be.
func (s *Scheduler) look(now time.Time) ([]scheduledRun, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noticeFile()
	all := s.current()
	on := true
	if v, ok := all.Get("enabled"); ok {
		on = Truth(v)
	}
	for name := range s.state {
		if !all.Has(name) {
			delete(s.state, name)
		}
	}
	var due []scheduledRun
	wait := scheduleLook
	names := namesOf(all.Keys())
	sort.Strings(names)
	for _, name := range names {
		def := all.Map(name)
		if def == nil || isHiddenKey(name) {
			continue
		}
		st := s.stateOf(name)
		if st.def == nil || st.def != def && !Equal(scheduleTimesOf(st.def), scheduleTimesOf(def)) {
			// New, or with other times: it starts afresh.
			*st = scheduleState{running: st.running, lastRun: st.lastRun, explicit: st.explicit, skips: st.skips, taken: st.taken, started: st.started && st.def != nil}
		}
		st.def = def
		if s.isDue(all, def, st, now, on) {
			for _, fun := range s.funsFor(all, def, st, now) {
				st.running++
				due = append(due, scheduledRun{name: name, fun: fun, def: def, jid: NewJID(now.Add(time.Duration(len(due)) * time.Microsecond))})
			}
		}
		if t := st.due(); !t.IsZero() {
			wait = min(wait, max(t.Sub(now), 0))
		}
		for _, t := range st.explicit {
			wait = min(wait, max(t.Sub(now), 0))
		}
	}
	// Not sooner than 10 ms: times are compared to the clock, which is coarser on
	// some boxes than the timer.
	return due, max(wait, 10*time.Millisecond)
}

// scheduleTimesOf are the parts of a job that decide when it runs.
func scheduleTimesOf(def *Map) *Map {
	return onlyKeys(def, "seconds", "minutes", "hours", "days", "when", "cron", "once", "once_fmt", "splay")
}

// isDue says whether a job is to be run now, and plans its next time.
func (s *Scheduler) isDue(all, def *Map, st *scheduleState, now time.Time, on bool) bool {
	st.errText, st.skipReason = "", ""
	interval, kind, err := scheduleKind(def)
	if err != nil {
		s.complain(def, st, err)
		return false
	}
	if kind == "" && len(st.explicit) == 0 {
		return false
	}
	if st.next.IsZero() && kind != "" {
		st.splay = time.Time{}
		if st.next, err = s.plan(def, st, kind, interval, now); err != nil {
			s.complain(def, st, err)
			return false
		}
	}
	splay := def.Value("splay")
	if splay == nil {
		splay = all.Value("splay")
	}
	if !st.next.IsZero() && st.splay.IsZero() && Truth(splay) {
		st.splay = st.next.Add(splayOf(splay))
	}
	run, explicit := false, false
	if t := st.due(); !t.IsZero() && !now.Before(t) {
		late := now.Sub(t)
		run = kind == "interval" || kind == "cron" && late < time.Minute || late <= scheduleSlack+scheduleLook
		st.fired = st.next
		st.next, st.splay = time.Time{}, time.Time{}
		if kind == "interval" {
			st.next = now.Add(interval)
		} else if st.next, err = s.plan(def, st, kind, interval, now); err != nil {
			s.complain(def, st, err)
		}
	}
	s.readExplicit(def, st, now)
	kept := st.explicit[:0]
	for _, t := range st.explicit {
		if now.Before(t) {
			kept = append(kept, t)
		} else {
			run, explicit = true, true
		}
	}
	st.explicit = kept
	startRun := false
	if !st.started {
		st.started = true
		if Truth(def.Value("run_on_start")) {
			run, startRun = true, true
		}
	}
	if !run {
		return false
	}
	skip := func(reason string) bool {
		st.skipReason, st.skippedTime = reason, now
		return false
	}
	if !on || !Truth(kwargOf(def, "enabled", true)) {
		return skip("disabled")
	}
	if !startRun && !explicit {
		reason, err := s.skipped(all, def, st, now)
		if err != nil {
			s.complain(def, st, err)
			return false
		}
		if reason != "" {
			if Truth(all.Value("skip_function")) && (reason == "in_skip_range" || reason == "not_in_range" || reason == "skip_explicit") {
				st.skipReason = "skip_function"
				return true
			}
			return skip(reason)
		}
	}
	if Truth(kwargOf(def, "jid_include", true)) {
		most, ok := toInt(kwargOf(def, "maxrunning", int64(1)))
		if ok && st.running >= int(most) {
			s.log.Info(fmt.Sprintf("The scheduled job %s was not started, %d already running", Str(def.Value("name")), st.running))
			return skip("maxrunning")
		}
	}
	st.lastRun = now
	return true
}

// readExplicit takes the times over that a job's definition itself names:
// run_explicit and skip_explicit, lists of {time, time_fmt}. Each counts once.
func (s *Scheduler) readExplicit(def *Map, st *scheduleState, now time.Time) {
	for _, list := range []struct {
		key string
		to  *[]time.Time
	}{{"run_explicit", &st.explicit}, {"skip_explicit", &st.skips}} {
		for _, item := range toItems(def.Value(list.key)) {
			m, ok := item.(*Map)
			if !ok {
				m = NewMap("time", item)
			}
			format := Str(kwargOf(m, "time_fmt", scheduleTimeFormat))
			t, err := time.ParseInLocation(strptimeLayout(format), Str(m.Value("time")), now.Location())
			if err != nil {
				s.complain(def, st, fmt.Errorf("%s: %s is no time as %s", list.key, Str(m.Value("time")), format))
				continue
			}
			if !slices.ContainsFunc(st.taken, t.Equal) && t.After(now.Add(-scheduleSlack-scheduleLook)) {
				st.taken = append(st.taken, t)
				*list.to = append(*list.to, t)
			}
		}
	}
}

// funsFor are the functions of a due job, or the one that stands for skipped jobs.
func (s *Scheduler) funsFor(all, def *Map, st *scheduleState, _ time.Time) []string {
	if st.skipReason == "skip_function" {
		st.skipReason = ""
		return []string{Str(all.Value("skip_function"))}
	}
	return scheduleFuns(def)
}

func (s *Scheduler) complain(def *Map, st *scheduleState, err error) {
	text := fmt.Sprintf("%v. Ignoring job %s.", err, Str(def.Value("name")))
	if st.errText != text {
		s.log.Error("schedule: " + text)
	}
	st.errText = text
}

// scheduleKind is how a job's times are given: interval, when, cron, once or "".
func scheduleKind(def *Map) (interval time.Duration, kind string, err error) {
	seconds, timed := int64(0), false
	for _, unit := range []struct {
		key string
		n   int64
	}{{"seconds", 1}, {"minutes", 60}, {"hours", 3600}, {"days", 86400}} {
		v, ok := def.Get(unit.key)
		if !ok || v == nil {
			continue
		}
		n, isInt := toInt(v)
		if !isInt || n < 0 {
			return 0, "", fmt.Errorf("%s: %s is no number", unit.key, Repr(v))
		}
		seconds, timed = seconds+n*unit.n, true
	}
	for _, k := range []string{"when", "cron", "once"} {
		if def.Value(k) == nil {
			continue
		}
		if kind != "" {
			return 0, "", fmt.Errorf("unable to use \"%s\" and \"%s\" options together", kind, k)
		}
		kind = k
	}
	if timed && kind != "" {
		return 0, "", fmt.Errorf("unable to use \"seconds\", \"minutes\", \"hours\", or \"days\" with \"when\", \"cron\" or \"once\" options")
	}
	if timed {
		return max(time.Duration(seconds)*time.Second, time.Second), "interval", nil
	}
	return 0, kind, nil
}

// plan finds the next time of a job. Zero: there is none any more.
func (s *Scheduler) plan(def *Map, st *scheduleState, kind string, interval time.Duration, now time.Time) (time.Time, error) {
	switch kind {
	case "interval":
		return now.Add(interval), nil
	case "cron":
		spec, err := parseCronLine(Str(def.Value("cron")))
		if err != nil {
			return time.Time{}, fmt.Errorf("invalid cron string: %w", err)
		}
		return spec.next(now), nil
	case "once":
		format := Str(kwargOf(def, "once_fmt", scheduleTimeFormat))
		t, err := time.ParseInLocation(strptimeLayout(format), Str(def.Value("once")), now.Location())
		if err != nil {
			return time.Time{}, fmt.Errorf("date string could not be parsed: %s, %s", Str(def.Value("once")), format)
		}
		if t.Before(now.Add(-scheduleSlack)) || !t.After(st.fired) {
			return time.Time{}, nil
		}
		return t, nil
	}
	var best time.Time
	for _, v := range toItems(def.Value("when")) {
		t, err := parseWhen(Str(s.namedTime(v)), now)
		if err != nil {
			return time.Time{}, fmt.Errorf("invalid date string %s", Str(v))
		}
		if t.Before(now.Add(-scheduleSlack)) || !t.After(st.fired) {
			continue
		}
		if best.IsZero() || t.Before(best) {
			best = t
		}
	}
	return best, nil
}

// namedTime is the time that the pillar or the grains have under a name in whens.
func (s *Scheduler) namedTime(name any) any {
	for _, source := range []func() *Map{s.pillar, s.grains} {
		if source == nil {
			continue
		}
		if v, ok := source().Map("whens").Get(name); ok {
			return v
		}
	}
	return name
}

// splayOf picks a delay: 1 to n seconds, or between start and end.
func splayOf(v any) time.Duration {
	lo, hi := int64(1), int64(0)
	if m, ok := v.(*Map); ok {
		lo, _ = toInt(m.Value("start"))
		hi, _ = toInt(m.Value("end"))
	} else {
		hi, _ = toInt(v)
	}
	if hi < lo {
		return 0
	}
	return time.Duration(lo+rand.Int64N(hi-lo+1)) * time.Second
}

// scheduleRange reads {start, end}.
func scheduleRange(v any, now time.Time) (start, end time.Time, err error) {
	m, ok := v.(*Map)
	if !ok {
		return start, end, fmt.Errorf("a range must be a mapping of start and end")
	}
	if start, err = parseWhen(Str(m.Value("start")), now); err != nil {
		return start, end, fmt.Errorf("invalid date string for start: %w", err)
	}
	if end, err = parseWhen(Str(m.Value("end")), now); err != nil {
		return start, end, fmt.Errorf("invalid date string for end: %w", err)
	}
	if !end.After(start) {
		return start, end, fmt.Errorf("invalid range, end must be larger than start")
	}
	return start, end, nil
}

// skipped says why a due job is not run, "" if it is.
func (s *Scheduler) skipped(all, def *Map, st *scheduleState, now time.Time) (string, error) {
	if r := def.Value("range"); r != nil {
		start, end, err := scheduleRange(r, now)
		if err != nil {
			return "", err
		}
		inside := !now.Before(start) && !now.After(end)
		if m, ok := r.(*Map); ok && Truth(m.Value("invert")) {
			if inside {
				return "in_skip_range", nil
			}
		} else if !inside {
			return "not_in_range", nil
		}
	}
	r := def.Value("skip_during_range")
	if r == nil {
		r = all.Value("skip_during_range")
	}
	if Truth(r) {
		start, end, err := scheduleRange(r, now)
		if err != nil {
			return "", err
		}
		if !now.Before(start) && !now.After(end) {
			if Truth(def.Value("run_after_skip_range")) {
				after := end.Add(time.Second)
				if len(st.explicit) == 0 || !st.explicit[len(st.explicit)-1].Equal(after) {
					st.explicit = append(st.explicit, after)
				}
			}
			return "in_skip_range", nil
		}
	}
	kept, hit := st.skips[:0], false
	for _, t := range st.skips {
		switch d := now.Sub(t); {
		case d > scheduleSlack+scheduleLook: // over
		case d >= -scheduleSlack:
			hit = true
		default:
			kept = append(kept, t)
		}
	}
	if st.skips = kept; hit {
		return "skip_explicit", nil
	}
	for _, limit := range []string{"until", "after"} {
		v := def.Value(limit)
		if v == nil {
			continue
		}
		t, err := parseWhen(Str(v), now)
		if err != nil {
			return "", fmt.Errorf("invalid date string for %s", limit)
		}
		if limit == "until" && !t.After(now) {
			return "until_passed", nil
		}
		if limit == "after" && !t.Before(now) {
			return "after_not_passed", nil
		}
	}
	return "", nil
}
