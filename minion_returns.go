// Returns: results on their way to the master.
//
// The law of this file: a return is a file from the moment the job ended until
// the master has answered that it has it; only then the file goes. What could
// not be sent is sent again when the connection comes back, after a restart and
// after a reboot, in the order it came; the master files it once, by its jid. A
// file that is sent at once never needs to reach the disk, so it is synced only
// when the first try failed: flash lives longer, and a lost minute of power
// loses nothing that waited.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"
)

const (
	maxReturnSize  = 100 << 20 // bytes of one return, where return_max_size sets no other limit
	maxSpooled     = 10000     // returns that wait; the oldest goes first
	returnSenders  = 4         // returns sent at one time
	returnRetryMin = 10 * time.Second
	returnRetryMax = 5 * time.Minute
)

// pendingReturn is one return that the master has not acknowledged.
type pendingReturn struct {
	name   string // of its file; "" when it could not be written
	load   *Map   // nil: it is in the file only
	after  time.Time
	synced bool
}

// returnSpool sends the returns of one master.
type returnSpool struct {
	dir     string
	limit   int64
	log     *slog.Logger
	deliver func(ctx context.Context, load *Map) error

	mu      sync.Mutex
	seq     uint64
	fresh   []*pendingReturn // not tried yet
	held    []*pendingReturn // tried in vain
	backoff time.Duration
	retryAt time.Time
	sending int
	kick    chan struct{}
	tried   chan struct{} // hears the end of each try
}

// newReturnSpool opens the spool in dir with what an earlier run has left.
func newReturnSpool(dir string, limit int64, log *slog.Logger, deliver func(context.Context, *Map) error) *returnSpool {
	if limit <= 0 {
		limit = maxReturnSize
	}
	s := &returnSpool{dir: dir, limit: limit, log: log, deliver: deliver, kick: make(chan struct{}, 1), tried: make(chan struct{}, 1)}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return s // made with the first return
	}
	for _, e := range entries {
		switch {
		case strings.HasSuffix(e.Name(), ".new"):
			_ = os.Remove(filepath.Join(dir, e.Name()))
		case e.Type().IsRegular():
			s.held = append(s.held, &pendingReturn{name: e.Name(), synced: true})
		}
	}
	sort.Slice(s.held, func(i, j int) bool { return s.held[i].name < s.held[j].name })
	if len(s.held) > 0 {
		log.Info(fmt.Sprintf("%d returns of an earlier run wait to be sent", len(s.held)))
	}
	return s
}

// Add puts a return on its way.
func (s *returnSpool) Add(load *Map) { s.AddAt(load, time.Time{}) }

// AddAt puts a return on its way that is not to be sent before a moment.
func (s *returnSpool) AddAt(load *Map, after time.Time) {
	data, err := EncodeWire(load)
	switch {
	case err != nil:
		load = replaceReturn(load, fmt.Sprintf("ERROR: the return cannot be sent: %v", err))
	case int64(len(data)) > s.limit:
		load = replaceReturn(load, fmt.Sprintf("ERROR: the return has %d bytes, more than the %d that return_max_size allows; "+
			"let the function write to a file, or raise the limit", len(data), s.limit))
	}
	if err != nil || int64(len(data)) > s.limit {
		s.log.Error(fmt.Sprintf("job %s: %s", load.Str("jid"), load.Str("return")))
		if data, err = EncodeWire(load); err != nil {
			return // nothing in it is the user's any more, so this does not happen
		}
	}
	s.mu.Lock()
	s.seq++
	name := fmt.Sprintf("%016x-%06x-%s", time.Now().UnixNano(), s.seq&0xffffff, load.Str("jid"))
	s.mu.Unlock()
	r := &pendingReturn{name: name, load: load, after: after}
	if err := writeFileQuick(filepath.Join(s.dir, name), data, 0o600); err != nil {
		s.log.Warn(fmt.Sprintf("job %s: keep the return on disk: %v; it is kept in memory", load.Str("jid"), err))
		r.name = ""
	}
	s.mu.Lock()
	s.fresh = append(s.fresh, r)
	s.bound()
	s.mu.Unlock()
	s.wake()
}

// bound drops the oldest when too many wait. The lock is held.
func (s *returnSpool) bound() {
	for len(s.held)+len(s.fresh) > maxSpooled {
		from := &s.held
		if len(*from) == 0 {
			from = &s.fresh
		}
		r := (*from)[0]
		*from = (*from)[1:]
		s.log.Error(fmt.Sprintf("return %s is dropped: %d others wait to be sent", r.name, maxSpooled))
		s.remove(r)
	}
}

func replaceReturn(load *Map, text string) *Map {
	short := NewMap()
	for _, key := range []string{"cmd", "id", "jid", "fun", "user", "master_id"} {
		if v, ok := load.Get(key); ok {
			short.Set(key, v)
		}
	}
	short.Set("return", text)
	short.Set("retcode", int64(1))
	short.Set("success", false)
	short.Set("out", "nested")
	short.Set("fun_args", NewList())
	return short
}

func (s *returnSpool) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// Retry sends what waits now: the connection is back.
func (s *returnSpool) Retry() {
	s.mu.Lock()
	s.retryAt = time.Time{}
	s.mu.Unlock()
	s.wake()
}

// Pending is the number of returns that are not acknowledged.
func (s *returnSpool) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.fresh) + len(s.held) + s.sending
}

// Flush waits until every return has been tried once, or ctx ends.
func (s *returnSpool) Flush(ctx context.Context) {
	for {
		s.mu.Lock()
		open := len(s.fresh) + s.sending
		s.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-s.tried:
		case <-ctx.Done():
			return
		}
	}
}

// Run sends returns until ctx ends. What is not sent by then stays on disk.
func (s *returnSpool) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, returnSenders)
	for {
		select { // a place first, so that what waits stays in one list
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		r, wait := s.next()
		if r == nil {
			<-slots
			var due <-chan time.Time
			var timer *time.Timer
			if wait > 0 {
				timer = time.NewTimer(wait)
				due = timer.C
			}
			select {
			case <-s.kick:
			case <-due:
			case <-ctx.Done():
			}
			if timer != nil {
				timer.Stop()
			}
			if ctx.Err() != nil {
				return
			}
			continue
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			s.attempt(ctx, r)
			<-slots
			s.wake()
			select {
			case s.tried <- struct{}{}:
			default:
			}
		}()
	}
}

// next is the return to send, or how long to wait for one (0: until kicked).
func (s *returnSpool) next() (*pendingReturn, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.fresh) > 0 {
		r := s.fresh[0]
		s.fresh = s.fresh[1:]
		s.sending++
		return r, 0
	}
	if len(s.held) == 0 {
		return nil, 0
	}
	if wait := time.Until(s.retryAt); wait > 0 {
		return nil, wait
	}
	r := s.held[0]
	s.held = s.held[1:]
	s.sending++
	return r, 0
}

// attempt sends one return.
func (s *returnSpool) attempt(ctx context.Context, r *pendingReturn) {
	if wait := time.Until(r.after); wait > 0 && !sleepContext(ctx, wait) {
		s.keep(r)
		return
	}
	load := r.load
	if load == nil {
		data, err := os.ReadFile(filepath.Join(s.dir, r.name))
		var v any
		if err == nil {
			v, err = DecodeWire(data)
		}
		var ok bool
		if load, ok = v.(*Map); err != nil || !ok {
			// A torn file after a power cut.
			s.log.Warn(fmt.Sprintf("return %s cannot be read and is dropped: %v", r.name, err))
			s.done(r)
			return
		}
	}
	err := s.deliver(ctx, load)
	if err == nil {
		s.done(r)
		return
	}
	if ctx.Err() == nil {
		s.log.Warn(fmt.Sprintf("return of job %s was not acknowledged, it will be sent again: %v", load.Str("jid"), err))
	}
	s.keep(r)
}

// done forgets a return.
func (s *returnSpool) done(r *pendingReturn) {
	s.remove(r)
	s.mu.Lock()
	s.sending--
	s.backoff, s.retryAt = 0, time.Time{}
	s.mu.Unlock()
}

func (s *returnSpool) remove(r *pendingReturn) {
	if r.name != "" {
		_ = os.Remove(filepath.Join(s.dir, r.name))
	}
}

// keep puts a return back, behind those that are older.
func (s *returnSpool) keep(r *pendingReturn) {
	if r.name != "" {
		if !r.synced {
			r.synced = syncFile(filepath.Join(s.dir, r.name)) == nil
		}
		r.load = nil // it may wait for long; the file has it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sending--
	at := sort.Search(len(s.held), func(i int) bool { return s.held[i].name > r.name })
	s.held = append(s.held, nil)
	copy(s.held[at+1:], s.held[at:])
	s.held[at] = r
	if s.backoff *= 2; s.backoff < returnRetryMin {
		s.backoff = returnRetryMin
	}
	s.backoff = min(s.backoff, returnRetryMax)
	s.retryAt = time.Now().Add(s.backoff + rand.N(s.backoff/4))
}

// syncFile makes sure that a file and its name reach the disk.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close(), syncDir(filepath.Dir(path)))
}
