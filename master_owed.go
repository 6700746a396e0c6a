// Jobs for minions that are down: `salt --on-connect`.
//
// The law of this room: such a job is owed to each minion that it addressed,
// until that minion's return has come or the job is too old. When a minion that
// is owed something talks to the master, the job is published again, to it
// alone and with its own job id; a minion ignores a job id that it knows. What
// is owed stands in files, one empty file named owed/<minion>/<jid>, so that it
// survives the master; the job itself is in the job cache.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// owedPerMinion bounds what one minion that never comes back can pile up.
const owedPerMinion = 100

// owedTries are the waits before each attempt: a minion talks to its master a
// moment before it hears publications.
func owedTries() []time.Duration {
	return []time.Duration{500 * time.Millisecond, 2 * time.Second, 5 * time.Second, 15 * time.Second}
}

// owedJobs knows which jobs are owed to whom. Safe for concurrent use.
type owedJobs struct {
	dir string
	log *slog.Logger

	mu    sync.Mutex
	jids  map[string][]string // id → jids, oldest first
	going map[string]bool     // ids that are being served
}

// openOwedJobs reads what is still owed; jobs older than keep are forgotten.
func openOwedJobs(dir string, keep time.Duration, log *slog.Logger) *owedJobs {
	j := &owedJobs{dir: dir, log: log, jids: map[string][]string{}, going: map[string]bool{}}
	ids, _ := os.ReadDir(dir)
	for _, e := range ids {
		if ValidMinionID(e.Name()) != nil {
			continue
		}
		files, _ := os.ReadDir(filepath.Join(dir, e.Name()))
		for _, f := range files {
			started, ok := JIDTime(f.Name())
			if !ok || ValidJID(f.Name()) != nil || keep > 0 && time.Since(started) > keep {
				os.Remove(filepath.Join(dir, e.Name(), f.Name()))
				continue
			}
			j.jids[e.Name()] = append(j.jids[e.Name()], f.Name())
		}
	}
	return j
}

// owe notes a job for minions.
func (j *owedJobs) owe(jid string, ids []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, id := range ids {
		have := j.jids[id]
		if slices.Contains(have, jid) {
			continue
		}
		if len(have) >= owedPerMinion {
			j.log.Warn(fmt.Sprintf("minion %s is owed more than %d jobs; job %s is dropped", id, owedPerMinion, have[0]))
			os.Remove(filepath.Join(j.dir, id, have[0]))
			have = have[1:]
		}
		path := filepath.Join(j.dir, id, jid)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = writeFileAtomic(path, nil, 0o600)
		}
		if err != nil {
			j.log.Error(fmt.Sprintf("note job %s for %s: %v", jid, id, err))
		}
		j.jids[id] = append(have[:len(have):len(have)], jid)
	}
}

// settle forgets one job of a minion.
func (j *owedJobs) settle(jid, id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	i := slices.Index(j.jids[id], jid)
	if i < 0 {
		return
	}
	if left := slices.Delete(slices.Clone(j.jids[id]), i, i+1); len(left) > 0 {
		j.jids[id] = left
	} else {
		delete(j.jids, id)
	}
	os.Remove(filepath.Join(j.dir, id, jid))
	os.Remove(filepath.Join(j.dir, id)) // if it was the last
}

// forget drops everything that a minion is owed: its key is gone.
func (j *owedJobs) forget(id string) {
	for _, jid := range j.of(id) {
		j.settle(jid, id)
	}
}

// of lists what a minion is owed.
func (j *owedJobs) of(id string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.jids[id])
}

// begin says whether somebody has to serve the minion now; end follows.
func (j *owedJobs) begin(id string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.jids[id]) == 0 || j.going[id] {
		return false
	}
	j.going[id] = true
	return true
}

func (j *owedJobs) end(id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.going, id)
}

// payOwed publishes what a minion is owed that has just talked to us.
func (m *Master) payOwed(id string) {
	if !m.owed.begin(id) {
		return
	}
	m.background(func(ctx context.Context) {
		defer m.owed.end(id)
		for _, wait := range owedTries() {
			if !sleepContext(ctx, wait) {
				return
			}
			jids := m.owed.of(id)
			if len(jids) == 0 {
				return
			}
			for _, jid := range jids {
				if err := m.publishAgain(jid, id); err != nil {
					m.log.Error(fmt.Sprintf("job %s is no longer owed to %s: %v", jid, id, err))
					m.owed.settle(jid, id)
				}
			}
		}
	})
}

// publishAgain sends a job that was published before to one minion.
func (m *Master) publishAgain(jid, id string) error {
	if started, ok := JIDTime(jid); ok {
		if keep := m.o().Duration("keep_jobs_seconds"); keep > 0 && time.Since(started) > keep {
			return fmt.Errorf("it is older than keep_jobs_seconds")
		}
	}
	job, err := m.jobs.Load(jid)
	if err != nil {
		return err
	}
	if job.Returns.Has(id) {
		m.owed.settle(jid, id)
		return nil
	}
	r := &publishRequest{fun: job.Load.Value("fun"), arg: job.Load.List("arg"), tgt: NewList(id), tgtType: "list",
		ret: job.Load.Str("ret"), jid: jid, user: job.Load.Str("user"), kwargs: job.Load.Map("kwargs").Clone()}
	r.kwargs.Delete("delimiter")
	m.log.Info(fmt.Sprintf("publish job %s again for %s", jid, id))
	return m.send(m.publishLoad(jid, r), r, TargetResult{Minions: []string{id}})
}
