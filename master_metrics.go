// Numbers of the running master, as Prometheus reads them: metrics_port, off by
// default.
//
// The law of this room: counting costs an atomic addition, and nothing is
// computed before somebody asks.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// masterMetrics are the counters of a master.
type masterMetrics struct {
	started       time.Time
	requests      atomic.Int64
	refused       atomic.Int64
	logins        atomic.Int64
	loginsRefused atomic.Int64
	publishes     atomic.Int64
	returns       atomic.Int64
	duplicates    atomic.Int64
	rotations     atomic.Int64
	loginTime     histogram
	publishTime   histogram

	mu       sync.Mutex
	commands map[string]*histogram
}

func newMasterMetrics() *masterMetrics {
	return &masterMetrics{started: time.Now(), commands: map[string]*histogram{}}
}

// histogramBounds are the upper limits of the buckets in seconds.
func histogramBounds() [12]float64 {
	return [...]float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30}
}

// histogram counts durations.
type histogram struct {
	buckets [12]atomic.Int64
	count   atomic.Int64
	sum     atomic.Int64 // nanoseconds
}

func (h *histogram) observe(d time.Duration) {
	s := d.Seconds()
	for i, b := range histogramBounds() {
		if s <= b {
			h.buckets[i].Add(1)
			break
		}
	}
	h.count.Add(1)
	h.sum.Add(int64(d))
}

func (h *histogram) write(w io.Writer, name, labels string) {
	sep := ""
	if labels != "" {
		sep = ","
	}
	total := int64(0)
	for i, b := range histogramBounds() {
		total += h.buckets[i].Load()
		fmt.Fprintf(w, "%s_bucket{%s%sle=\"%g\"} %d\n", name, labels, sep, b, total)
	}
	fmt.Fprintf(w, "%s_bucket{%s%sle=\"+Inf\"} %d\n", name, labels, sep, h.count.Load())
	if labels != "" {
		labels = "{" + labels + "}"
	}
	fmt.Fprintf(w, "%s_sum%s %g\n%s_count%s %d\n", name, labels, time.Duration(h.sum.Load()).Seconds(), name, labels, h.count.Load())
}

// command counts one encrypted command. Only known ones come here.
func (c *masterMetrics) command(name string, d time.Duration) {
	c.mu.Lock()
	h := c.commands[name]
	if h == nil && len(c.commands) < 64 {
		h = &histogram{}
		c.commands[name] = h
	}
	c.mu.Unlock()
	if h != nil {
		h.observe(d)
	}
}

// writeMetrics writes the page.
func (m *Master) writeMetrics(w io.Writer) {
	c := m.metrics
	metric := func(kind, name, help string, v float64) {
		fmt.Fprintf(w, "# HELP halite_%s %s\n# TYPE halite_%s %s\nhalite_%s %g\n", name, help, name, kind, name, v)
	}
	labelled := func(kind, name, help, label string, values map[string]uint64) {
		fmt.Fprintf(w, "# HELP halite_%s %s\n# TYPE halite_%s %s\n", name, help, name, kind)
		keys := make([]string, 0, len(values))
		for k := range values {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			fmt.Fprintf(w, "halite_%s{%s=%q} %d\n", name, label, k, values[k])
		}
	}
	fmt.Fprintf(w, "# HELP halite_info Version of this master.\n# TYPE halite_info gauge\nhalite_info{version=%q,salt=%q} 1\n", version, saltVersion)
	metric("gauge", "start_time_seconds", "When this master was started.", float64(c.started.Unix()))
	metric("counter", "requests_total", "Requests that came in.", float64(c.requests.Load()))
	metric("counter", "requests_refused_total", "Requests that were refused.", float64(c.refused.Load()))
	metric("counter", "logins_total", "Logins that were accepted.", float64(c.logins.Load()))
	metric("counter", "logins_refused_total", "Logins that were not accepted, pending ones included.", float64(c.loginsRefused.Load()))
	metric("counter", "key_rotations_total", "Rotations of the publication key.", float64(c.rotations.Load()))
	metric("counter", "publishes_total", "Jobs that were published.", float64(c.publishes.Load()))
	metric("counter", "returns_total", "Returns that came in.", float64(c.returns.Load()))
	metric("counter", "returns_duplicate_total", "Returns that had come before.", float64(c.duplicates.Load()))

	for _, l := range []struct {
		name  string
		stats TransportStats
	}{{"publish", m.pub.Stats()}, {"request", m.req.Stats()}} {
		metric("gauge", l.name+"_peers", "Connections to the "+l.name+" port.", float64(l.stats.Connected))
		metric("gauge", l.name+"_handshakes", "Connections to it that are not through their handshake.", float64(l.stats.Handshaking))
		metric("counter", l.name+"_accepted_total", "Connections that got through it.", float64(l.stats.Accepted))
		metric("gauge", l.name+"_queued_messages", "Messages in the queues of its peers.", float64(l.stats.Queued))
		metric("gauge", l.name+"_queued_bytes", "Their bytes.", float64(l.stats.QueuedBytes))
		metric("counter", l.name+"_dropped_total", "Messages dropped because a peer's queue was full.", float64(l.stats.Dropped))
		labelled("counter", l.name+"_turned_away_total", "Connections refused before their handshake was over.", "reason", l.stats.Refused)
		labelled("counter", l.name+"_cut_total", "Connections cut later.", "reason", l.stats.Cut)
		if l.name == "request" {
			metric("gauge", "request_waiting", "Requests that wait for a worker.", float64(l.stats.Waiting))
			metric("gauge", "request_in_work", "Requests in work.", float64(l.stats.InWork))
		}
	}
	keys := map[string]uint64{}
	for state, name := range map[string]string{KeyAccepted: "accepted", KeyPending: "pending", KeyRejected: "rejected", KeyDenied: "denied"} {
		if ids, err := m.keys.List(state); err == nil {
			keys[name] = uint64(len(ids))
		}
	}
	labelled("gauge", "keys", "Keys of minions.", "state", keys)
	metric("gauge", "minions_connected", "Minions that have a subscription.", float64(len(m.presentIDs())))
	bus := m.bus.Stats()
	metric("counter", "events_total", "Events on the bus.", float64(bus.Fired))
	metric("counter", "events_dropped_total", "Events that a slow reader missed.", float64(bus.Dropped))
	metric("gauge", "event_readers", "Programs that read the bus.", float64(bus.Readers))
	metric("gauge", "event_queued_bytes", "Bytes that wait for them.", float64(bus.QueuedBytes))
	jobs, size := m.jobs.Size()
	metric("gauge", "jobs", "Jobs in the cache.", float64(jobs))
	metric("gauge", "job_cache_bytes", "Bytes of the job cache.", float64(size))

	fmt.Fprintf(w, "# HELP halite_login_seconds Time of a login, waiting included.\n# TYPE halite_login_seconds histogram\n")
	c.loginTime.write(w, "halite_login_seconds", "")
	fmt.Fprintf(w, "# HELP halite_publish_seconds Time to encrypt, sign and queue a publication.\n# TYPE halite_publish_seconds histogram\n")
	c.publishTime.write(w, "halite_publish_seconds", "")
	fmt.Fprintf(w, "# HELP halite_command_seconds Time of an encrypted command.\n# TYPE halite_command_seconds histogram\n")
	c.mu.Lock()
	names := make([]string, 0, len(c.commands))
	for name := range c.commands {
		names = append(names, name)
	}
	c.mu.Unlock()
	sort.Strings(names)
	for _, name := range names {
		c.mu.Lock()
		h := c.commands[name]
		c.mu.Unlock()
		h.write(w, "halite_command_seconds", fmt.Sprintf("command=%q", name))
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	metric("gauge", "go_goroutines", "Goroutines.", float64(runtime.NumGoroutine()))
	metric("gauge", "go_heap_bytes", "Bytes of the heap in use.", float64(mem.HeapInuse))
}

// serveMetrics serves /metrics until ctx ends.
func (m *Master) serveMetrics(ctx context.Context, addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("open the metrics port: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		var b strings.Builder
		m.writeMetrics(&b)
		io.WriteString(w, b.String())
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	m.log.Info(fmt.Sprintf("metrics on http://%s/metrics", l.Addr()))
	if err := s.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}
