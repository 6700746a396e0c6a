// `salt -b` and `salt --static`: a job in slices.
//
// The law of this file: a ping first tells who is there; only those get the job,
// never more of them at a time than the size allows; a minion that answered
// makes room for the next at once. A minion that stays silent gives its place
// back when its wait is over, so that a batch always ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// batchGather is how long a freed place waits for others that become free at
// the same moment, so that they share one publication.
const batchGather = 25 * time.Millisecond

// parseBatchSize reads "10" or "25%" for so many minions.
func parseBatchSize(text string, minions int) (int, error) {
	bad := fmt.Errorf("Invalid batch data sent: %s\nData must be in the form of %%10, 10%% or 3", text)
	n := 0
	if strings.Contains(text, "%") {
		percent, err := strconv.ParseFloat(strings.TrimSpace(strings.Trim(text, "%")), 64)
		if err != nil || !(percent > 0) || percent > 1e6 {
			return 0, bad
		}
		n = max(1, int(percent/100*float64(minions)))
	} else {
		v, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || v < 1 {
			return 0, bad
		}
		n = v
	}
	return n, nil
}

// batchRun is one run in slices.
type batchRun struct {
	s       *saltCommand
	quiet   bool // --static: nothing but the answers, at the end
	waiting []string
	active  map[string]bool
	free    []time.Time // places that become free later (--batch-wait)
	results chan MinionReturn
	workers sync.WaitGroup
	retcode int
	all     *Map
}

func (s *saltCommand) runBatch(ctx context.Context, size string) int {
	b := &batchRun{s: s, quiet: s.p.Bool("static"), active: map[string]bool{}, all: NewMap()}
	if b.quiet && size == "" {
		size = "100%"
	}
	up, down, err := b.ping(ctx)
	var refused *ClientError
	switch {
	case errors.Is(err, ErrNoMinions):
		return b.nobody(true)
	case errors.As(err, &refused):
		// Nothing is printed as a result here: these runs have no single one.
		fmt.Fprintf(s.std.Err, "salt.exceptions.%s: %s\n", refused.Name, refused.Msg)
		return exitFailed
	case err != nil:
		return s.fail(err)
	}
	limit, err := parseBatchSize(size, len(up))
	if err != nil {
		fmt.Fprintln(s.std.Out, err)
		fmt.Fprintln(s.std.Err, "salt: error: the batch size must be a number or a percentage above 0")
		return exitFailed
	}
	if len(up) == 0 {
		return b.nobody(false)
	}
	if !b.quiet {
		for _, id := range down {
			fmt.Fprintf(s.std.Out, "Minion %s did not respond. No job will be sent.\n", id)
		}
	}
	b.waiting = up
	err = b.run(ctx, limit)
	if err != nil {
		return s.fail(err)
	}
	if b.quiet {
		return s.finish(s.show.value(b.all, "", 0), b.all.Len() == 0)
	}
	return b.retcode
}

// nobody ends a run without minions: none matched, or none is there.
func (b *batchRun) nobody(unmatched bool) int {
	if unmatched {
		fmt.Fprintln(b.s.std.Out, textNoMinions)
	}
	if b.quiet {
		return b.s.finish(b.s.show.value(NewMap(), "", 0), true)
	}
	if !unmatched {
		return 0
	}
	fmt.Fprintln(b.s.std.Out, "No minions matched the target.")
	io.WriteString(b.s.std.Err, textNoReturns)
	return exitNoReturns
}

// ping asks who is there, in the order of the answers. The delimiter does not
// go with it, as in Salt.
func (b *batchRun) ping(ctx context.Context) (up, down []string, err error) {
	w := b.s.wait()
	w.Silent = true
	req := JobRequest{Tgt: b.s.tgt, TgtType: b.s.kind, Fun: "test.ping"}
	_, err = b.s.c.Run(ctx, req, w, func(r MinionReturn) bool {
		if r.Silent == "" {
			up = append(up, r.ID)
		} else {
			down = append(down, r.ID)
		}
		return true
	})
	return up, down, err
}

func (b *batchRun) run(ctx context.Context, limit int) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	b.results = make(chan MinionReturn)
	defer func() {
		cancel()
		b.workers.Wait()
	}()
	wait := time.Duration(b.s.p.Float("batch_wait") * float64(time.Second))
	for len(b.waiting) > 0 || len(b.active) > 0 {
		b.free = slices.DeleteFunc(b.free, func(t time.Time) bool { return !t.After(time.Now()) })
		if n := min(limit-len(b.active)-len(b.free), len(b.waiting)); n > 0 {
			slice := b.waiting[:n:n]
			b.waiting = b.waiting[n:]
			b.start(ctx, slice)
			continue
		}
		var later <-chan time.Time
		if len(b.waiting) > 0 && len(b.free) > 0 {
			later = time.After(time.Until(b.free[0]))
		}
		select {
		case r := <-b.results:
			if stop, err := b.take(r, wait); stop || err != nil {
				return err
			}
			// Others may have answered in the same moment.
			for more := time.After(batchGather); more != nil; {
				select {
				case r := <-b.results:
					if stop, err := b.take(r, wait); stop || err != nil {
						return err
					}
				case <-more:
					more = nil
				}
			}
		case <-later:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// start sends the job to one slice.
func (b *batchRun) start(ctx context.Context, ids []string) {
	for _, id := range ids {
		b.active[id] = true
	}
	if !b.quiet {
		shown := slices.Sorted(slices.Values(ids))
		fmt.Fprintf(b.s.std.Out, "\nExecuting run on %s\n\n", Repr(Strings(shown)))
	}
	req := b.s.request()
	req.Tgt, req.TgtType, req.Delimiter = Strings(ids), "list", ""
	w := b.s.wait()
	w.Silent = true
	b.workers.Add(1)
	go func() {
		defer b.workers.Done()
		answered := map[string]bool{}
		give := func(r MinionReturn) bool {
			answered[r.ID] = true
			select {
			case b.results <- r:
				return true
			case <-ctx.Done():
				return false
			}
		}
		_, err := b.s.c.Run(ctx, req, w, give)
		if err != nil && ctx.Err() == nil {
			b.s.log.Error(fmt.Sprintf("run on %s: %v", strings.Join(ids, ", "), err))
		}
		for _, id := range ids {
			if !answered[id] && !give(MinionReturn{ID: id, Silent: SilentNoResponse}) {
				return
			}
		}
	}()
}

// take handles one answer; stop is true if the run ends with it.
func (b *batchRun) take(r MinionReturn, wait time.Duration) (stop bool, err error) {
	if !b.active[r.ID] {
		return false, nil
	}
	delete(b.active, r.ID)
	if wait > 0 {
		b.free = append(b.free, time.Now().Add(wait))
	}
	failhard := b.s.p.Bool("failhard")
	if r.Silent != "" {
		if !b.quiet {
			fmt.Fprintf(b.s.std.Out, "Minion '%s' failed to respond to job sent\n", r.ID)
		}
		if stop = failhard; stop {
			b.stopped(r.ID)
		}
		return stop, nil
	}
	code := answerRetcode(r.Retcode, r.Return)
	b.retcode = max(b.retcode, code)
	b.all.Set(r.ID, r.Return)
	if !b.quiet {
		shown := NewMap()
		if r.Retcode != nil {
			shown.Set("retcode", int64(code))
		}
		shown.Set("jid", r.JID)
		shown.Set(r.ID, r.Return)
		err = b.s.show.value(shown, r.Out, 0)
	}
	if stop = failhard && code > 0; stop {
		b.stopped(r.ID)
	}
	return stop, err
}

func (b *batchRun) stopped(id string) {
	b.s.log.Error(fmt.Sprintf("Minion %s returned with non-zero exit code. Batch run stopped due to failhard", id))
}
