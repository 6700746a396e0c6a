// The kinds of beacons. Each has the options and the events of Salt's beacon of
// that name.
package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// percentLimit reads 90 or '90%'.
func percentLimit(v any) (float64, bool) { return toFloat(strings.ReplaceAll(Str(v), "%", "")) }

func checkPercent(name string) func(*Map, []any) string {
	return func(conf *Map, _ []any) string {
		if !conf.Has("percent") {
			return "Configuration for " + name + " beacon requires percent."
		}
		if _, ok := percentLimit(conf.Value("percent")); !ok {
			return "Configuration for " + name + " beacon: percent is no number."
		}
		return ""
	}
}

// beaconMemory reads /proc/meminfo in kB.
func beaconMemory() map[string]float64 {
	out := map[string]float64{}
	_ = scanLines("/proc/meminfo", func(line string) bool {
		f := strings.Fields(line)
		if len(f) >= 2 {
			if n, err := strconv.ParseFloat(f[1], 64); err == nil {
				out[strings.TrimSuffix(f[0], ":")] = n
			}
		}
		return true
	})
	return out
}

func oneDecimal(f float64) float64 {
	n, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', 1, 64), 64)
	return n
}

func overPercent(name string, used float64, conf *Map) []*Map {
	limit, _ := percentLimit(conf.Value("percent"))
	if used = oneDecimal(used); used >= limit {
		return []*Map{NewMap(name, used)}
	}
	return nil
}

func lookMemusage(_ context.Context, _ *Call, conf *Map, _ []any) ([]*Map, error) {
	m := beaconMemory()
	if m["MemTotal"] == 0 {
		return nil, nil
	}
	available, ok := m["MemAvailable"]
	if !ok {
		available = m["MemFree"] + m["Buffers"] + m["Cached"]
	}
	return overPercent("memusage", 100*(m["MemTotal"]-available)/m["MemTotal"], conf), nil
}

func lookSwapusage(_ context.Context, _ *Call, conf *Map, _ []any) ([]*Map, error) {
	m := beaconMemory()
	used := 0.0
	if m["SwapTotal"] > 0 {
		used = 100 * (m["SwapTotal"] - m["SwapFree"]) / m["SwapTotal"]
	}
	return overPercent("swapusage", used, conf), nil
}

// mountPoints lists where file systems are mounted.
func mountPoints() []string {
	var out []string
	_ = scanLines("/proc/self/mounts", func(line string) bool {
		if f := strings.Fields(line); len(f) > 1 {
			out = append(out, strings.NewReplacer(`\040`, " ", `\011`, "\t", `\134`, `\`).Replace(f[1]))
		}
		return true
	})
	return out
}

// diskusageBeacon keeps the patterns of mount points with their limits.
type diskusageBeacon struct{ limits []diskLimit }

type diskLimit struct {
	mounts *PyRegexp
	share  float64
}

// readLimits compiles the patterns of a configuration, once.
func (b *diskusageBeacon) readLimits(list []any) error {
	if b.limits != nil {
		return nil
	}
	limits := []diskLimit{}
	for _, conf := range withoutOptions(list) {
		k, v := conf.At(0)
		re, err := CompilePython(strings.TrimSuffix(Str(k), "$")+"$", 0)
		if err != nil {
			return err
		}
		share, _ := percentLimit(v)
		limits = append(limits, diskLimit{re, share})
	}
	b.limits = limits
	return nil
}

func (b *diskusageBeacon) look(_ context.Context, _ *Call, _ *Map, list []any) ([]*Map, error) {
	if err := b.readLimits(list); err != nil {
		return nil, err
	}
	var out []*Map
	points := mountPoints()
	for _, limit := range b.limits {
		for _, mount := range points {
			if m, err := limit.mounts.Match(mount); err != nil || m == nil {
				continue
			}
			var st syscall.Statfs_t
			if err := syscall.Statfs(mount, &st); err != nil || st.Blocks == 0 {
				continue
			}
			used := float64(st.Blocks - st.Bfree)
			share := 100 * used / (used + float64(st.Bavail))
			if share = oneDecimal(share); used > 0 && share >= limit.share {
				out = append(out, NewMap("diskusage", share, "mount", mount))
			}
		}
	}
	return out, nil
}

func loadKeys() []string { return []string{"1m", "5m", "15m"} }

func checkLoad(conf *Map, _ []any) string {
	for _, k := range []string{"emitatstartup", "onchangeonly"} {
		if v, ok := conf.Get(k); ok {
			if _, isBool := v.(bool); !isBool {
				return "Configuration for load beacon option " + k + " must be a boolean."
			}
		}
	}
	averages := conf.Map("averages")
	if averages == nil {
		return "Averages configuration is required for load beacon."
	}
	for _, k := range loadKeys() {
		l, ok := averages.Value(k).(*List)
		if !ok {
			return "Averages configuration for load beacon: 1m, 5m and 15m items must be a list of two items."
		}
		if l.Len() != 2 {
			return "Configuration for load beacon: 1m, 5m and 15m items must be a list of two items."
		}
		for _, v := range l.Items {
			if _, ok := toFloat(v); !ok {
				return "Configuration for load beacon: " + Repr(v) + " is no number."
			}
		}
	}
	return ""
}

type loadBeacon struct{ last map[string]float64 }

func (b *loadBeacon) look(_ context.Context, _ *Call, conf *Map, _ []any) ([]*Map, error) {
	averages, err := loadAverages()
	if err != nil {
		return nil, err
	}
	now, out := map[string]float64{}, &Map{}
	for i, k := range loadKeys() {
		now[k] = averages[i]
		out.Set(k, averages[i])
	}
	onChange := Truth(conf.Value("onchangeonly"))
	if onChange && b.last == nil {
		b.last = now
		if v, ok := conf.Get("emitatstartup"); ok && !Truth(v) {
			return nil, nil
		}
	}
	send := false
	for _, k := range loadKeys() {
		limits := toItems(conf.Map("averages").Value(k))
		lo, _ := toFloat(limits[0])
		hi, _ := toFloat(limits[1])
		if onChange {
			send = send || now[k] > hi && b.last[k] < hi || now[k] < lo && b.last[k] > lo
		} else {
			send = send || now[k] < lo || now[k] > hi
		}
	}
	b.last = now
	if send {
		return []*Map{out}, nil
	}
	return nil, nil
}

func checkService(conf *Map, _ []any) string {
	v, ok := conf.Get("services")
	if !ok {
		return "Configuration for service beacon requires services."
	}
	services, ok := v.(*Map)
	if !ok {
		return "Services configuration item for service beacon must be a dictionary."
	}
	for _, s := range services.All() {
		if _, ok := s.(*Map); !ok && s != nil {
			return "Configuration for service beacon must be a list of dictionaries."
		}
	}
	return ""
}

// serviceMemory is what was last seen of a service.
type serviceMemory struct {
	running bool
	changed time.Time // set while a change waits for its delay
}

type serviceBeacon struct{ last map[string]*serviceMemory }

func (b *serviceBeacon) look(ctx context.Context, c *Call, conf *Map, _ []any) ([]*Map, error) {
	if b.last == nil {
		b.last = map[string]*serviceMemory{}
	}
	now := time.Now()
	var out []*Map
	for k, v := range conf.Map("services").All() {
		name := Str(k)
		opt, _ := v.(*Map)
		status, err := c.Run(ctx, "service.status", name)
		if err != nil {
			return out, err
		}
		on := Truth(status)
		state := NewMap("running", status)
		if file := opt.Value("uncleanshutdown"); file != nil && !on {
			_, err := os.Stat(Str(file))
			state.Set("uncleanshutdown", err == nil)
		}
		event := NewMap(name, state, "service_name", name, "tag", name)
		if opt.Value("onchangeonly") != true {
			out = append(out, event)
			continue
		}
		delay, _ := toFloat(opt.Value("delay"))
		have, known := b.last[name]
		if !known {
			have = &serviceMemory{running: on}
			b.last[name] = have
			if e, ok := opt.Get("emitatstartup"); ok && !Truth(e) {
				continue
			}
		}
		if !known || have.running != on {
			have.running, have.changed = on, time.Time{}
			if delay > 0 {
				have.changed = now
			} else {
				out = append(out, event)
			}
		}
		if !have.changed.IsZero() && now.Sub(have.changed).Seconds() > delay {
			have.changed = time.Time{}
			out = append(out, event)
		}
	}
	return out, nil
}

func checkPs(conf *Map, _ []any) string {
	v, ok := conf.Get("processes")
	if !ok {
		return "Configuration for ps beacon requires processes."
	}
	if _, ok := v.(*Map); !ok {
		return "Processes for ps beacon must be a dictionary."
	}
	return ""
}

func lookPs(_ context.Context, _ *Call, conf *Map, _ []any) ([]*Map, error) {
	names := map[string]bool{}
	for _, pid := range processIDs() {
		if p, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm"); err == nil {
			names[strings.TrimSuffix(string(p), "\n")] = true
		}
	}
	var out []*Map
	for k, want := range conf.Map("processes").All() {
		name := Str(k)
		short := name
		if len(short) > 15 { // as much as the kernel keeps
			short = short[:15]
		}
		there := names[short]
		switch {
		case want == "running":
			if there {
				out = append(out, NewMap(name, "Running"))
			}
		case want == "stopped":
			if !there {
				out = append(out, NewMap(name, "Stopped"))
			}
		case !there:
			out = append(out, NewMap(name, false))
		}
	}
	return out, nil
}

func lookStatus(ctx context.Context, c *Call, _ *Map, list []any) ([]*Map, error) {
	confs := withoutOptions(list)
	if len(confs) == 0 {
		all := func() *List { return NewList("all") }
		confs = []*Map{NewMap("loadavg", all(), "cpustats", all(), "meminfo", all(), "vmstats", all(), "time", all())}
	}
	ret := &Map{}
	for _, conf := range confs {
		for k, items := range conf.All() {
			fun := Str(k)
			part := &Map{}
			ret.Set(fun, part)
			data, err := c.Run(ctx, "status."+fun)
			if err != nil {
				continue
			}
			for _, item := range toItems(items) {
				if item == "all" {
					ret.Set(fun, data)
					continue
				}
				var v any
				ok := false
				switch d := data.(type) {
				case *Map:
					v, ok = d.Get(item)
				case *List:
					if n, isInt := toInt(item); isInt && n >= 0 && int(n) < d.Len() {
						v, ok = d.Items[n], true
					}
				}
				if !ok {
					ret.Set(fun, "Status beacon is incorrectly configured: "+Repr(item))
					break
				}
				part.Set(item, v)
			}
		}
	}
	return []*Map{NewMap("tag", time.Now().UTC().Format("2006-01-02T15:04:05.000000"), "data", ret)}, nil
}

func checkLog(conf *Map, _ []any) string {
	if !conf.Has("file") {
		return "Configuration for log beacon must contain file option."
	}
	return ""
}

// logBeacon remembers how far a file was read. A file that got shorter, or was
// replaced, is read from its beginning.
type logBeacon struct {
	started bool
	offset  int64
	inode   uint64
	rest    string // a line that has no end yet
	tags    []logTag
}

// logTag is a tag with its pattern; re is nil if that is none.
type logTag struct {
	name string
	re   *PyRegexp
}

// readTags compiles the patterns of a configuration, once.
func (b *logBeacon) readTags(tags *Map) {
	if b.tags != nil {
		return
	}
	b.tags = []logTag{}
	for k, v := range tags.All() {
		m, _ := v.(*Map)
		if !Truth(m.Value("regex")) {
			continue
		}
		re, err := CompilePython(Str(m.Value("regex")), 0)
		if err != nil {
			re = nil
		}
		b.tags = append(b.tags, logTag{Str(k), re})
	}
}

// logBeaconMost is how much of a file one look reads.
const logBeaconMost = 1 << 20

func (b *logBeacon) look(_ context.Context, _ *Call, conf *Map, _ []any) ([]*Map, error) {
	f, err := os.Open(Str(conf.Value("file")))
	if err != nil {
		if os.IsNotExist(err) {
			return nil, nil // between two files of a rotation
		}
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	inode := uint64(0)
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		inode = s.Ino
	}
	if !b.started {
		b.started, b.offset, b.inode = true, st.Size(), inode
		return nil, nil
	}
	if inode != b.inode || st.Size() < b.offset {
		b.offset, b.inode, b.rest = 0, inode, ""
	}
	p := make([]byte, min(st.Size()-b.offset, logBeaconMost))
	n, err := f.ReadAt(p, b.offset)
	if err != nil && err != io.EOF {
		return nil, err
	}
	b.offset += int64(n)
	text, _ := decodeText(p[:n], "")
	text = b.rest + text
	end := strings.LastIndexByte(text, '\n') + 1
	b.rest = text[end:]
	if len(b.rest) > logBeaconMost {
		b.rest = ""
	}
	var out []*Map
	event := func(tag, raw, match, problem string) {
		out = append(out, NewMap("tag", tag, "match", match, "raw", raw, "error", problem))
	}
	b.readTags(conf.Map("tags"))
	for _, tag := range b.tags {
		if tag.re == nil {
			event(tag.name, "", "no", "bad regex")
		}
	}
	for _, line := range pyLines(text[:end], false) {
		for _, tag := range b.tags {
			if tag.re == nil {
				continue
			}
			if m, err := tag.re.Match(line); err == nil && m != nil {
				event(tag.name, line, "yes", "")
			}
		}
	}
	return out, nil
}

func netCounters() []string {
	return []string{"bytes_sent", "bytes_recv", "packets_sent", "packets_recv", "errin", "errout", "dropin", "dropout"}
}

func checkNetworkInfo(conf *Map, _ []any) string {
	for _, v := range conf.Map("interfaces").All() {
		m, ok := v.(*Map)
		if !ok {
			return "Configuration for network_info beacon must be a list of dictionaries."
		}
		valid := m.Has("type")
		for _, k := range netCounters() {
			valid = valid || m.Has(k)
		}
		if !valid {
			return "Invalid configuration item in Beacon configuration."
		}
	}
	return ""
}

// interfaceCounters reads the counters of an interface.
func interfaceCounters(name string) map[string]int64 {
	out := map[string]int64{}
	for key, file := range map[string]string{"bytes_sent": "tx_bytes", "bytes_recv": "rx_bytes", "packets_sent": "tx_packets", "packets_recv": "rx_packets",
		"errin": "rx_errors", "errout": "tx_errors", "dropin": "rx_dropped", "dropout": "tx_dropped"} {
		p, err := os.ReadFile(filepath.Join("/sys/class/net", filepath.Base(name), "statistics", file))
		if err != nil {
			return nil
		}
		out[key], _ = intText(string(p))
	}
	return out
}

func lookNetworkInfo(_ context.Context, _ *Call, conf *Map, _ []any) ([]*Map, error) {
	var out []*Map
	for k, v := range conf.Map("interfaces").All() {
		name := Str(k)
		have := interfaceCounters(name)
		if have == nil {
			continue
		}
		want := v.(*Map)
		hit := false
		shown := &Map{}
		for _, key := range netCounters() {
			shown.Set(key, have[key])
			if limit, ok := toInt(want.Value(key)); want.Has(key) && ok {
				if want.Value("type") == "greater" {
					hit = hit || have[key] > limit
				} else {
					hit = hit || have[key] == limit
				}
			}
		}
		if hit {
			out = append(out, NewMap("interface", name, "network_info", shown))
		}
	}
	return out, nil
}
