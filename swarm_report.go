// What a swarm saw: counted while it lives, told as text or as data.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// swarmJobsKept is how many of the newest jobs are told one by one.
const swarmJobsKept = 100

// swarmTally counts. Safe for concurrent use.
type swarmTally struct {
	mu           sync.Mutex
	n            int
	began        time.Time
	logins       []time.Duration // the first of each minion and all later ones
	lastLogin    time.Time
	connected    int
	everyone     time.Duration // until all were subscribed, 0 before
	publications int
	jobs         []*swarmJob
	acked, due   int
	failures     map[string]int
}

// swarmJob is what came of one job.
type swarmJob struct {
	jid, fun     string
	heard        time.Time
	matched      int
	acknowledged int
	last         time.Time
}

func (t *swarmTally) init(n int) { t.n, t.failures = n, map[string]int{} }

func (t *swarmTally) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began = time.Now()
}

func (t *swarmTally) login(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.logins = append(t.logins, d)
	t.lastLogin = time.Now()
}

// subscribed counts subscriptions up or down; it says when the last one of all
// came for the first time.
func (t *swarmTally) subscribed(d int) (complete bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.connected += d
	if t.connected == t.n && t.everyone == 0 {
		t.everyone = time.Since(t.began)
		return true
	}
	return false
}

func (t *swarmTally) fail(reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures[reason]++
}

func (t *swarmTally) publication() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.publications++
}

// job counts a minion that is meant by a job.
func (t *swarmTally) job(p *swarmPublication) *swarmJob {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.due++
	for i := len(t.jobs) - 1; i >= 0; i-- {
		if t.jobs[i].jid == p.load.JID {
			t.jobs[i].matched++
			return t.jobs[i]
		}
	}
	j := &swarmJob{jid: p.load.JID, fun: strings.Join(p.load.Funs, ","), heard: p.heard, matched: 1}
	if t.jobs = append(t.jobs, j); len(t.jobs) > swarmJobsKept {
		t.jobs = slices.Delete(t.jobs, 0, 1)
	}
	return j
}

func (t *swarmTally) acknowledged(j *swarmJob) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acked++
	j.acknowledged++
	j.last = time.Now()
}

// perSecond is the rate of the returns of a job, from its publication to the
// last acknowledgement.
func (j *swarmJob) perSecond() float64 {
	if d := j.last.Sub(j.heard).Seconds(); d > 0 {
		return float64(j.acknowledged) / d
	}
	return 0
}

// Report is what happened so far, as data. Times are seconds.
func (s *Swarm) Report() *Map {
	t := &s.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	times := slices.Clone(t.logins)
	slices.Sort(times)
	at := func(share float64) float64 {
		if len(times) == 0 {
			return 0
		}
		return times[min(int(share*float64(len(times))), len(times)-1)].Seconds()
	}
	rate := 0.0
	if d := t.lastLogin.Sub(t.began).Seconds(); d > 0 {
		rate = float64(len(times)) / d
	}
	jobs := NewList()
	for _, j := range t.jobs {
		jobs.Append(NewMap("jid", j.jid, "fun", j.fun, "minions", int64(j.matched), "returns", int64(j.acknowledged),
			"seconds", j.last.Sub(j.heard).Seconds(), "returns_per_second", j.perSecond()))
	}
	failures := NewMap()
	for _, reason := range sortedKeys(t.failures) {
		failures.Set(reason, int64(t.failures[reason]))
	}
	pss := processPSS()
	return NewMap(
		"minions", int64(t.n), "subscribed", int64(t.connected), "all_subscribed_after", t.everyone.Seconds(),
		"logins", NewMap("count", int64(len(times)), "per_second", rate, "min", at(0), "median", at(0.5), "p95", at(0.95), "p99", at(0.99), "max", at(1)),
		"publications_heard", int64(t.publications), "jobs", jobs,
		"returns", NewMap("acknowledged", int64(t.acked), "waiting", int64(t.due-t.acked)),
		"failures", failures,
		"memory", NewMap("pss_bytes", pss, "pss_bytes_per_minion", pss/int64(max(t.n, 1)), "goroutines", int64(runtime.NumGoroutine())),
	)
}

// swarmText is a report for people.
func swarmText(r *Map) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s "+format+"\n", append([]any{name}, args...)...)
	}
	ms := func(m *Map, k string) string { f, _ := toFloat(m.Value(k)); return fmt.Sprintf("%.0f ms", f*1000) }
	l, ret, mem := r.Map("logins"), r.Map("returns"), r.Map("memory")
	after, _ := toFloat(r.Value("all_subscribed_after"))
	line("minions", "%d, %d subscribed", r.Value("minions"), r.Value("subscribed"))
	if after > 0 {
		line("", "all of them after %.2f s", after)
	}
	line("logins", "%d, %.1f a second", l.Value("count"), l.Value("per_second"))
	line("login time", "min %s, median %s, p95 %s, p99 %s, max %s", ms(l, "min"), ms(l, "median"), ms(l, "p95"), ms(l, "p99"), ms(l, "max"))
	jobs := r.List("jobs").Items
	line("jobs", "%d heard, in %d publications", len(jobs), r.Value("publications_heard"))
	for _, v := range jobs {
		j := v.(*Map)
		line("", "%s %s: %d minions, %d returns in %s, %.0f a second", j.Str("jid"), j.Str("fun"), j.Value("minions"), j.Value("returns"),
			ms(j, "seconds"), j.Value("returns_per_second"))
	}
	line("returns", "%d acknowledged, %d waiting", ret.Value("acknowledged"), ret.Value("waiting"))
	line("failures", "%d", func() (n int64) {
		for _, v := range r.Map("failures").All() {
			n += v.(int64)
		}
		return n
	}())
	for reason, n := range r.Map("failures").All() {
		line("", "%d × %s", n, reason)
	}
	pss, _ := toInt(mem.Value("pss_bytes"))
	each, _ := toInt(mem.Value("pss_bytes_per_minion"))
	line("memory", "%.1f MB, %.1f KB a minion, %d goroutines", float64(pss)/1e6, float64(each)/1e3, mem.Value("goroutines"))
	return b.String()
}

// processPSS is the memory of this process, shared pages counted by their
// share; 0 where the system does not tell.
func processPSS() int64 {
	f, err := os.Open("/proc/self/smaps_rollup")
	if err != nil {
		return 0
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if rest, ok := strings.CutPrefix(in.Text(), "Pss:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			return kb << 10
		}
	}
	return 0
}
