// Processes of a job: which process groups a job has started, so that a signal
// for the job reaches all of them, and what a cancelled job died of.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// JobSignal is the cause of a context that was cancelled by a signal for its
// job (context.Cause).
type JobSignal struct{ Signal syscall.Signal }

func (s *JobSignal) Error() string {
	return fmt.Sprintf("the job was ended by signal %d", int(s.Signal))
}

// jobProcesses are the process groups of one job.
type jobProcesses struct {
	mu     sync.Mutex
	groups map[int]bool
}

type jobProcessesKey struct{}

// withJobProcesses makes a context whose process groups are known.
func withJobProcesses(ctx context.Context) (context.Context, *jobProcesses) {
	p := &jobProcesses{groups: map[int]bool{}}
	return context.WithValue(ctx, jobProcessesKey{}, p), p
}

// TrackProcessGroup tells the job of ctx about a process group that it has
// started; forget is called when its leader has been waited for. Outside jobs
// nothing happens.
func TrackProcessGroup(ctx context.Context, pgid int) (forget func()) {
	p, _ := ctx.Value(jobProcessesKey{}).(*jobProcesses)
	if p == nil || pgid <= 1 {
		return func() {}
	}
	p.mu.Lock()
	p.groups[pgid] = true
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		delete(p.groups, pgid)
		p.mu.Unlock()
	}
}

// signalGrace is how long a group has to end by itself after the signal that
// ends its job.
const signalGrace = 2 * time.Second

// endGroup ends a process group because its context has ended: by the signal
// that a user chose, if so, and in any case at last by force.
func endGroup(ctx context.Context, pgid int) error {
	var chosen *JobSignal
	if errors.As(context.Cause(ctx), &chosen) && chosen.Signal != syscall.SIGKILL {
		err := syscall.Kill(-pgid, chosen.Signal)
		for waited := time.Duration(0); err == nil && waited < signalGrace; waited += 20 * time.Millisecond {
			time.Sleep(20 * time.Millisecond) // a group has no event for its end
			err = syscall.Kill(-pgid, 0)
		}
		if err != nil {
			return os.ErrProcessDone
		}
	}
	return syscall.Kill(-pgid, syscall.SIGKILL)
}

// signal sends a signal to every group.
func (p *jobProcesses) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pgid := range p.groups {
		// A group that just ended is no error.
		_ = syscall.Kill(-pgid, sig)
	}
}
