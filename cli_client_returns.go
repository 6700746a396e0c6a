// Following a job: returns as they come, the question whether it still runs,
// and a verdict on every minion that did not answer.
//
// The law of this room: after the timeout the silent minions are asked, with
// saltutil.find_job, whether they run the job; as long as one does, the wait
// goes on; otherwise it ends after gather_job_timeout, or earlier if all have
// said that they do not. A hard deadline ends it whatever they say. Every
// verdict begins with Salt's words.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// returnGrace is how long a return may still be on its way after its minion
	// said that the job does not run any more.
	returnGrace = 1500 * time.Millisecond
	// busRetry is how often a lost bus is dialled again.
	busRetry = 250 * time.Millisecond
	// defaultJobDeadline ends a wait for minions that run a job for ever.
	defaultJobDeadline = 24 * time.Hour
)

// MinionReturn is what one minion answered, or the verdict that it did not.
type MinionReturn struct {
	ID      string
	Return  any
	Out     string // the outputter the function asks for
	Retcode any    // nil if the minion sent none
	JID     string
	Success any
	Silent  Silence // "" for an answer
	Data    *Map    // the whole return, nil for a verdict
}

// Silence is the reason why a minion has not answered.
type Silence string

// The six verdicts.
const (
	SilentNoResponse   Silence = "No response"
	SilentNotConnected Silence = "Not connected"
	SilentRunning      Silence = "Still running"
	SilentNotTaken     Silence = "Not running"
	SilentRefused      Silence = "Key not accepted"
	SilentFailed       Silence = "No answer on the job"
)

// silenceText is what stands in the place of a return.
func silenceText(s Silence, jid, detail string) string {
	head := fmt.Sprintf("Minion did not return. [%s]", s)
	switch s {
	case SilentNotConnected:
		return head
	case SilentNoResponse:
		return head + "\nThe minions may not have all finished running and any remaining minions will return upon completion. " +
			"To look up the return data for this job later, run the following command:\n\nsalt-run jobs.lookup_jid " + jid
	case SilentRunning:
		return head + "\nThe minion still runs the job. To look up the return data for this job later, run the following command:\n\nsalt-run jobs.lookup_jid " + jid
	case SilentNotTaken:
		return head + "\nThe minion is up and does not run this job: its own target match or a filter turned it down, or its return got lost. " +
			"Its log tells which."
	}
	if detail != "" {
		head += "\n" + detail
	}
	return head
}

// WaitOptions say how long a job is followed.
type WaitOptions struct {
	Timeout  time.Duration // before the silent ones are asked
	Gather   time.Duration // for their answers
	Deadline time.Duration // for all; 0 is a day
	Silent   bool          // report the minions that did not answer
}

func (c *LocalClient) waitDefaults(w WaitOptions) WaitOptions {
	if w.Timeout <= 0 {
		w.Timeout = c.opts.Duration("timeout")
	}
	if w.Gather <= 0 {
		w.Gather = c.opts.Duration("gather_job_timeout")
	}
	if w.Deadline <= 0 {
		w.Deadline = defaultJobDeadline
	}
	return w
}

// jobWait is the state of one wait.
type jobWait struct {
	c     *LocalClient
	w     WaitOptions
	job   *PublishedJob
	emit  func(MinionReturn) bool
	start time.Time

	expected map[string]time.Time // id → when its patience ends
	found    map[string]bool
	open     int // expected and not found
	missing  map[string]bool
	stopped  bool // emit wants no more

	asked    *PublishedJob     // the latest find_job
	running  map[string]bool   // said so in the latest round
	idle     map[string]bool   // said the contrary
	failed   map[string]string // find_job itself failed there
	idleAt   time.Time         // of the latest such answer
	round    []string          // who was asked
	nextAsk  time.Time
	mayAsk   bool
	busDown  bool
	busTried time.Time
}

// Follow calls emit with every return of the job, then with the verdicts, until
// emit returns false, everybody has answered, or the wait is over. It closes job.
func (c *LocalClient) Follow(ctx context.Context, job *PublishedJob, w WaitOptions, emit func(MinionReturn) bool) error {
	j := &jobWait{c: c, w: c.waitDefaults(w), job: job, emit: emit, start: time.Now(), expected: map[string]time.Time{},
		found: map[string]bool{}, missing: map[string]bool{}, failed: map[string]string{}, mayAsk: true}
	defer job.Close()
	defer func() { j.asked.Close() }()
	for _, id := range job.Minions {
		j.expect(id)
	}
	for _, id := range job.Missing {
		j.missing[id] = true
	}
	j.nextAsk = j.start.Add(j.w.Timeout)
	if err := j.wait(ctx); err != nil || j.stopped {
		return err
	}
	j.fromCache()
	return j.verdicts(ctx)
}

func (j *jobWait) expect(id string) {
	if _, ok := j.expected[id]; !ok {
		j.expected[id] = time.Now().Add(j.w.Timeout)
		if !j.found[id] {
			j.open++
		}
	}
}

// silent lists who is expected and has not answered. Between the returns of
// thousands only their number is asked for.
func (j *jobWait) silent() []string {
	if j.open == 0 {
		return nil
	}
	out := make([]string, 0, j.open)
	for id := range j.expected {
		if !j.found[id] {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

func (j *jobWait) wait(ctx context.Context) error {
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		if err := j.takeReturns(ctx); err != nil || j.stopped {
			return err
		}
		j.takeAnswers()
		now := time.Now()
		if j.open == 0 && (!j.c.opts.Bool("order_masters") || now.After(j.start.Add(j.c.opts.Duration("syndic_wait")))) {
			return nil
		}
		if now.After(j.start.Add(j.w.Deadline)) {
			return nil
		}
		switch {
		case !j.mayAsk:
			if j.over(j.silent(), now) {
				return nil
			}
		case now.After(j.nextAsk) && j.open > 0:
			j.ask(ctx, j.silent())
			now = time.Now()
		}
		tick.Reset(j.nextLook(now))
		var answers <-chan struct{}
		if j.asked != nil && j.asked.sub != nil {
			answers = j.asked.sub.Wake()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-j.job.sub.Wake():
		case <-answers:
		case <-tick.C:
		}
	}
}

// nextLook is how long nothing can change without an event.
func (j *jobWait) nextLook(now time.Time) time.Duration {
	until := j.start.Add(j.w.Deadline)
	sooner := func(t time.Time) {
		if t.After(now) && t.Before(until) {
			until = t
		}
	}
	sooner(j.nextAsk)
	if !j.idleAt.IsZero() {
		sooner(j.idleAt.Add(returnGrace))
	}
	if !j.mayAsk { // before the question nobody's patience counts
		for id, t := range j.expected {
			if !j.found[id] {
				sooner(t)
			}
		}
	}
	if j.busDown {
		sooner(now.Add(busRetry))
	}
	if d := until.Sub(now) + time.Millisecond; d < time.Minute {
		return d
	}
	return time.Minute
}

// over says whether waiting longer makes no sense.
func (j *jobWait) over(silent []string, now time.Time) bool {
	all := true
	for _, id := range silent {
		if !j.idle[id] && j.failed[id] == "" {
			all = false
		}
	}
	if all && now.After(j.idleAt.Add(returnGrace)) {
		return true
	}
	if !now.After(j.nextAsk) {
		return false
	}
	for _, id := range silent {
		if now.Before(j.expected[id]) {
			return false
		}
	}
	return true
}

// takeReturns handles what came for the job itself.
func (j *jobWait) takeReturns(ctx context.Context) error {
	events, err := j.job.sub.Take()
	if err != nil {
		j.reconnect(ctx)
		return nil
	}
	for _, e := range events {
		data, err := e.Data()
		if err != nil {
			j.c.log.Warn(fmt.Sprintf("unreadable event %s: %v", e.Tag, err))
			continue
		}
		if data.Has("error") && strings.HasSuffix(e.Tag, "/error") {
			return &ClientError{Name: "AuthorizationError", Msg: "Authorization error occurred."}
		}
		if minions, ok := data.Get("minions"); ok {
			for _, v := range toItems(minions) {
				j.expect(Str(v))
			}
			for _, v := range toItems(data.Value("missing")) {
				j.missing[Str(v)] = true
			}
			continue
		}
		if !strings.HasPrefix(e.Tag, "salt/job/"+j.job.JID+"/ret/") || !data.Has("return") {
			continue
		}
		j.hand(data.Str("id"), data)
		if j.stopped {
			return nil
		}
	}
	return nil
}

// hand gives one return to the caller.
func (j *jobWait) hand(id string, data *Map) {
	if id == "" || j.found[id] {
		return
	}
	if data.Value("return") == any(eventTrimmed) { // too large for the bus, but not for the cache
		if job, err := j.c.jobs.load(j.job.JID); err == nil {
			if full := job.Returns.Map(id); full.Has("return") {
				data = data.Clone()
				data.Set("return", full.Value("return"))
			}
		}
	}
	j.found[id] = true
	if _, ok := j.expected[id]; ok {
		j.open--
	}
	ret := MinionReturn{ID: id, Return: data.Value("return"), Out: data.Str("out"), Retcode: data.Value("retcode"),
		JID: data.Str("jid"), Success: data.Value("success"), Data: data}
	if ret.JID == "" {
		ret.JID = j.job.JID
	}
	j.stopped = !j.emit(ret)
}

// fromCache looks for returns that the bus did not bring.
func (j *jobWait) fromCache() {
	if j.open == 0 && len(j.missing) == 0 {
		return
	}
	job, err := j.c.jobs.load(j.job.JID)
	if err != nil {
		return
	}
	for id, v := range job.Returns.All() {
		m, ok := v.(*Map)
		if ok && !j.stopped && !j.found[Str(id)] {
			data := m.Clone()
			data.Set("id", id)
			data.Set("jid", j.job.JID)
			j.hand(Str(id), data)
		}
	}
}

// reconnect dials a lost bus again and reads from the cache what it missed.
func (j *jobWait) reconnect(ctx context.Context) {
	j.busDown = true
	if time.Since(j.busTried) < busRetry {
		return
	}
	j.busTried = time.Now()
	bus, err := j.c.openBus(ctx)
	if err != nil {
		j.fromCache()
		return
	}
	j.job.sub.Close()
	j.job.sub = bus.Subscribe("salt/job/"+j.job.JID+"/", j.job.JID)
	j.asked.Close()
	j.asked = nil
	j.busDown = false
	j.fromCache()
}

// ask sends find_job to the silent minions.
func (j *jobWait) ask(ctx context.Context, silent []string) {
	j.asked.Close()
	j.asked, j.mayAsk = nil, false
	j.running, j.idle, j.round = map[string]bool{}, map[string]bool{}, silent
	job, err := j.c.Publish(ctx, JobRequest{Tgt: Strings(silent), TgtType: "list", Fun: "saltutil.find_job", Arg: NewList(j.job.JID)}, true)
	switch {
	case err == nil:
		j.asked = job
	case !errors.Is(err, ErrNoMinions) && ctx.Err() == nil:
		j.c.log.Warn(fmt.Sprintf("ask whether job %s still runs: %v", j.job.JID, err))
	}
	j.nextAsk = time.Now().Add(j.w.Gather)
}

// takeAnswers handles answers to find_job.
func (j *jobWait) takeAnswers() {
	if j.asked == nil {
		return
	}
	events, err := j.asked.sub.Take()
	if err != nil {
		return
	}
	now := time.Now()
	for _, e := range events {
		if !strings.HasPrefix(e.Tag, "salt/job/"+j.asked.JID+"/ret/") {
			continue
		}
		data, err := e.Data()
		id := data.Str("id")
		if err != nil || id == "" {
			continue
		}
		ret := data.Value("return")
		if n, _ := toInt(data.Value("retcode")); n > 0 {
			j.failed[id] = "The minion cannot say whether it runs the job: " + firstLine(Str(ret))
			j.idleAt = now
			continue
		}
		m, _ := ret.(*Map)
		if m.Len() == 0 {
			j.idle[id] = true
			j.idleAt = now
			continue
		}
		delete(j.failed, id)
		j.running[id] = true
		j.expected[id] = now.Add(j.w.Timeout)
		j.mayAsk = true
	}
}

// verdicts reports those that did not answer.
func (j *jobWait) verdicts(ctx context.Context) error {
	var report []string
	if j.w.Silent {
		report = j.silent()
	}
	for id := range j.missing {
		if !j.found[id] && !slices.Contains(report, id) {
			report = append(report, id)
		}
	}
	if len(report) == 0 || j.stopped {
		return ctx.Err()
	}
	slices.Sort(report)
	connected := j.c.pool.connected(nil)
	for _, id := range report {
		kind, detail := j.verdict(id, connected)
		ret := MinionReturn{ID: id, Return: silenceText(kind, j.job.JID, detail), Out: "no_return", Retcode: int64(1), JID: j.job.JID, Silent: kind}
		if !j.emit(ret) {
			break
		}
	}
	return ctx.Err()
}

func (j *jobWait) verdict(id string, connected map[string]string) (Silence, string) {
	switch {
	case j.running[id]:
		return SilentRunning, ""
	case j.idle[id]:
		return SilentNotTaken, ""
	case j.failed[id] != "":
		return SilentFailed, j.failed[id]
	}
	switch state := j.c.pool.keyState(id); state {
	case KeyAccepted:
		if len(connected) > 0 && connected[id] == "" {
			if _, _, cached := j.c.pool.data(id); cached {
				return SilentNotConnected, ""
			}
		}
	case KeyPending:
		return SilentRefused, "The master waits for its key to be accepted: salt-key -a " + id
	case KeyRejected, KeyDenied:
		return SilentRefused, "The master has refused its key (" + state + "): salt-key -L"
	}
	return SilentNoResponse, ""
}

// Run publishes a job and follows it.
func (c *LocalClient) Run(ctx context.Context, r JobRequest, w WaitOptions, emit func(MinionReturn) bool) (*PublishedJob, error) {
	job, err := c.Publish(ctx, r, true)
	if err != nil {
		return nil, err
	}
	return job, c.Follow(ctx, job, w, emit)
}
