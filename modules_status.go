// Module status: what the kernel counts: load, memory, disks, network, uptime.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func statusModule() Module {
	return Module{
		Doc: "What the kernel counts on this box.",
		Funcs: Funcs{
			"all_status":      {run: statusAll, doc: "Return everything that this module knows."},
			"cpuinfo":         {run: statusCPUInfo, doc: "Return what the kernel says of the processor."},
			"cpustats":        {run: statusCPUStats, doc: "Return the processor times and other counters of /proc/stat."},
			"custom":          {run: statusCustom, doc: "Return the values that the options status.* name."},
			"diskstats":       {run: statusDiskstats, doc: "Return the counters of block devices."},
			"diskusage":       {run: statusDiskusage, doc: "Return available and total bytes of mounted file systems: all, those of a type, or paths."},
			"loadavg":         {run: statusLoadavg, doc: "Return the load averages."},
			"master":          {run: statusMaster, doc: "Say whether there is a connection to a master."},
			"meminfo":         {run: statusMeminfo, doc: "Return what the kernel says of memory."},
			"netdev":          {run: statusNetdev, doc: "Return the counters of network interfaces."},
			"netstats":        {run: statusNetstats, doc: "Return the counters of the network protocols."},
			"nproc":           {run: statusNproc, doc: "Return the number of processors that can be used."},
			"pid":             {run: statusPid, doc: "Return the pids of processes whose command line matches a regular expression, one a line."},
			"ping_master":     {run: statusPingMaster, doc: "Say whether a master answers."},
			"procs":           {run: statusProcs, doc: "Return all processes with user and command line."},
			"proxy_reconnect": {run: statusProxyReconnect, doc: "False: this minion is no proxy."},
			"time":            {run: statusTime, pyname: "time_", doc: "Return the time of this box in a format."},
			"uptime":          {run: statusUptime, doc: "Return how long this box runs."},
			"version":         {run: statusVersion, doc: "Return the version of the kernel."},
			"vmstats":         {run: statusVmstats, doc: "Return the counters of virtual memory."},
			"w":               {run: statusW, doc: "Return who is logged in and what they do."},
		},
	}
}

// numberOrText is a number where the text is one.
func numberOrText(s string) any {
	if s != "" && strings.Trim(s, "0123456789") == "" {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n
		}
		if n, err := strconv.ParseUint(s, 10, 64); err == nil {
			return FromGo(n)
		}
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		return f
	}
	return s
}

// procLines are the lines of a file of the kernel that are not empty.
func procLines(path string) []string {
	return strings.FieldsFunc(readText(path), func(r rune) bool { return r == '\n' })
}

// loadAverages are those of 1, 5 and 15 minutes, finer than /proc shows them.
func loadAverages() (out [3]float64, err error) {
	var si syscall.Sysinfo_t
	if err := syscall.Sysinfo(&si); err != nil {
		return out, pyOSError(err)
	}
	for i := range out {
		out[i] = float64(si.Loads[i]) / 65536
	}
	return out, nil
}

func statusLoadavg(context.Context, *Call, noArgs) (any, error) {
	load, err := loadAverages()
	if err != nil {
		return nil, err
	}
	return NewMap("1-min", load[0], "5-min", load[1], "15-min", load[2]), nil
}

func statusUptime(context.Context, *Call, noArgs) (any, error) {
	f := strings.Fields(readText("/proc/uptime"))
	if len(f) == 0 {
		return nil, ExecErrorf("File /proc/uptime was not found.")
	}
	up, _ := strconv.ParseFloat(f[0], 64)
	seconds := int64(up)
	boot := time.Now().UTC().Add(-time.Duration(seconds) * time.Second)
	rest := seconds % 86400
	return NewMap("seconds", seconds, "since_iso", boot.Format("2006-01-02T15:04:05.000000"), "since_t", boot.Unix(), "days", seconds/86400,
		"time", fmt.Sprintf("%d:%d", rest/3600, rest%3600/60), "users", int64(max(1, len(loggedIn())))), nil
}

// login is one user that is logged in.
type login struct {
	user, tty, host string
	when            time.Time
	pid             int
}

// loggedIn reads the file of logins, whose records have the same layout on all
// Linux machines but for the width of the time.
func loggedIn() []login {
	var data []byte
	for _, path := range []string{"/run/utmp", "/var/run/utmp"} {
		if p, err := os.ReadFile(path); err == nil {
			data = p
			break
		}
	}
	const record, userProcess = 384, 7
	text := func(p []byte) string {
		s, _, _ := strings.Cut(string(p), "\x00")
		return s
	}
	var out []login
	for ; len(data) >= record; data = data[record:] {
		r := data[:record]
		if binary.NativeEndian.Uint16(r[0:]) != userProcess {
			continue
		}
		out = append(out, login{user: text(r[44:76]), tty: text(r[8:40]), host: text(r[76:332]), pid: int(binary.NativeEndian.Uint32(r[4:])),
			when: time.Unix(int64(binary.NativeEndian.Uint32(r[340:])), 0)})
	}
	return out
}

func statusW(ctx context.Context, _ *Call, _ noArgs) (any, error) {
	out := &List{}
	if which("w") != "" {
		res, err := runTool(ctx, "w", "-fh")
		if err != nil {
			return nil, err
		}
		for _, line := range strings.Split(res.stdout, "\n") {
			if f := strings.Fields(line); len(f) >= 6 {
				out.Append(NewMap("idle", f[3], "jcpu", f[4], "login", f[2], "pcpu", f[5], "tty", f[1], "user", f[0], "what", strings.Join(f[6:], " ")))
			}
		}
		return out, nil
	}
	for _, l := range loggedIn() {
		out.Append(NewMap("idle", "?", "jcpu", "?", "login", l.when.Format("15:04"), "pcpu", "?", "tty", l.tty, "user", l.user, "what", processLine(l.pid)))
	}
	return out, nil
}

func statusCPUStats(context.Context, *Call, noArgs) (any, error) {
	out := &Map{}
	for _, line := range procLines("/proc/stat") {
		f := strings.Fields(line)
		numbers := &List{}
		for _, w := range f[min(2, len(f)):] {
			numbers.Append(numberOrText(w))
		}
		switch {
		case len(f) < 2:
		case f[0] == "cpu" && len(f) > 8:
			out.Set("cpu", NewMap("idle", numberOrText(f[4]), "iowait", numberOrText(f[5]), "irq", numberOrText(f[6]), "nice", numberOrText(f[2]),
				"softirq", numberOrText(f[7]), "steal", numberOrText(f[8]), "system", numberOrText(f[3]), "user", numberOrText(f[1])))
		case f[0] == "intr":
			out.Set("intr", NewMap("total", numberOrText(f[1]), "irqs", numbers))
		case f[0] == "softirq":
			out.Set("softirq", NewMap("total", numberOrText(f[1]), "softirqs", numbers))
		default:
			out.Set(f[0], numberOrText(f[1]))
		}
	}
	return out, nil
}

func statusMeminfo(context.Context, *Call, noArgs) (any, error) {
	out := &Map{}
	for _, line := range procLines("/proc/meminfo") {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		m := NewMap("value", f[1])
		if len(f) > 2 {
			m.Set("unit", f[2])
		}
		out.Set(strings.ReplaceAll(f[0], ":", ""), m)
	}
	return out, nil
}

func statusCPUInfo(context.Context, *Call, noArgs) (any, error) {
	out := &Map{}
	for _, line := range procLines("/proc/cpuinfo") {
		k, v, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		v, _, _ = strings.Cut(v, ":")
		if k = strings.TrimSpace(k); k == "flags" {
			out.Set(k, Strings(strings.Fields(v)))
		} else {
			out.Set(k, strings.TrimSpace(v))
		}
	}
	return out, nil
}

func statusDiskstats(context.Context, *Call, noArgs) (any, error) {
	names := []string{"major", "minor", "device", "reads_issued", "reads_merged", "sectors_read", "ms_spent_reading", "writes_completed",
		"writes_merged", "sectors_written", "ms_spent_writing", "io_in_progress", "ms_spent_in_io", "weighted_ms_spent_in_io"}
	out := &Map{}
	for _, line := range procLines("/proc/diskstats") {
		f := strings.Fields(line)
		if len(f) < len(names) {
			continue
		}
		m := &Map{}
		for i, name := range names {
			m.Set(name, numberOrText(f[i]))
		}
		out.Set(f[2], m)
	}
	return out, nil
}

// mountEntry is one line of the kernel's table of mounts.
type mountEntry struct {
	device, point, fstype string
	opts                  []string
}

// kernelMounts lists what is mounted.
func kernelMounts() []mountEntry {
	var out []mountEntry
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for _, line := range procLines("/proc/self/mounts") {
		f := strings.Fields(line)
		if len(f) >= 4 {
			out = append(out, mountEntry{unescape.Replace(f[0]), unescape.Replace(f[1]), f[2], strings.Split(f[3], ",")})
		}
	}
	return out
}

func statusDiskusage(_ context.Context, _ *Call, a namesArgs) (any, error) {
	var types, paths []string
	for _, arg := range a.Args {
		if s := Str(arg); strings.HasPrefix(s, "/") {
			paths = append(paths, s)
		} else {
			types = append(types, s)
		}
	}
	if len(a.Args) == 0 {
		types = []string{"*"}
	}
	if len(types) > 0 {
		for _, m := range kernelMounts() {
			for _, t := range types {
				if GlobMatch(t, m.fstype) {
					paths = append(paths, m.point)
					break
				}
			}
		}
	}
	out := &Map{}
	for _, path := range paths {
		var st syscall.Statfs_t
		if err := syscall.Statfs(path, &st); err != nil {
			if len(types) > 0 {
				continue // a mount that this process cannot look into
			}
			return nil, pyOSError(&os.PathError{Op: "statvfs", Path: path, Err: err})
		}
		out.Set(path, NewMap("available", int64(st.Bavail)*int64(st.Bsize), "total", int64(st.Blocks)*int64(st.Bsize)))
	}
	return out, nil
}

func statusVmstats(context.Context, *Call, noArgs) (any, error) {
	out := &Map{}
	for _, line := range procLines("/proc/vmstat") {
		if f := strings.Fields(line); len(f) == 2 {
			out.Set(f[0], numberOrText(f[1]))
		}
	}
	return out, nil
}

func statusNproc(context.Context, *Call, noArgs) (any, error) { return int64(usableCPUs()), nil }

// usableCPUs counts the processors that this process may run on.
func usableCPUs() int {
	for _, line := range procLines("/proc/self/status") {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			n := 0
			for _, part := range strings.Split(strings.TrimSpace(list), ",") {
				from, to, ranged := strings.Cut(part, "-")
				a, err := strconv.Atoi(from)
				b := a
				if ranged {
					b, _ = strconv.Atoi(to)
				}
				if err == nil && b >= a {
					n += b - a + 1
				}
			}
			if n > 0 {
				return n
			}
		}
	}
	return 1
}

func statusNetstats(context.Context, *Call, noArgs) (any, error) {
	out := &Map{}
	var head []string
	for _, line := range procLines("/proc/net/netstat") {
		f := strings.Fields(line)
		if len(head) == 0 || f[0] != head[0] {
			head = f
			continue
		}
		row := &Map{}
		for i := 1; i < len(head)-1 && i < len(f); i++ { // the last one is left out in Salt, too
			row.Set(head[i], numberOrText(f[i]))
		}
		out.Set(strings.ReplaceAll(head[0], ":", ""), row)
	}
	return out, nil
}

func statusNetdev(context.Context, *Call, noArgs) (any, error) {
	out := &Map{}
	for _, line := range procLines("/proc/net/dev") {
		name, rest, ok := strings.Cut(line, ":")
		f := strings.Fields(rest)
		if !ok || len(f) < 16 {
			continue
		}
		name = strings.TrimSpace(name)
		m := NewMap("iface", name)
		for _, c := range []struct {
			key string
			at  int
		}{{"rx_bytes", 0}, {"rx_compressed", 6}, {"rx_drop", 3}, {"rx_errs", 2}, {"rx_fifo", 4}, {"rx_frame", 5}, {"rx_multicast", 7}, {"rx_packets", 1},
			{"tx_bytes", 8}, {"tx_carrier", 14}, {"tx_colls", 13}, {"tx_compressed", 15}, {"tx_drop", 11}, {"tx_errs", 10}, {"tx_fifo", 12}, {"tx_packets", 9}} {
			m.Set(c.key, numberOrText(f[c.at]))
		}
		out.Set(name, m)
	}
	return out, nil
}

func statusAll(ctx context.Context, c *Call, _ noArgs) (any, error) {
	out := &Map{}
	for _, name := range []string{"cpuinfo", "cpustats", "diskstats", "diskusage", "loadavg", "meminfo", "netdev", "netstats", "uptime", "vmstats", "w"} {
		v, err := c.Run(ctx, "status."+name)
		if err != nil {
			return nil, err
		}
		out.Set(name, v)
	}
	return out, nil
}

func statusCustom(ctx context.Context, c *Call, _ noArgs) (any, error) {
	conf, err := configDotVals(ctx, c, configValueArgs{Value: "status"})
	if err != nil {
		return nil, err
	}
	out := &Map{}
	for k, want := range conf.(*Map).All() {
		i := strings.LastIndexByte(Str(k), '.')
		fun := Str(k)[:i]
		if fun == "status.custom" || fun == "status" {
			continue
		}
		got, err := c.Run(ctx, fun)
		if err != nil {
			c.Log.Warn("custom status " + fun + " isn't loaded")
			continue
		}
		vals, _ := got.(*Map)
		for _, item := range toItems(want) {
			v, ok := vals.Get(item)
			if !ok {
				c.Log.Warn("val " + Str(item) + " not in return of " + fun)
				v = "UNKNOWN"
			}
			out.Set(item, v)
		}
	}
	return out, nil
}

// processLine is the command line of a process as ps shows it: with the name
// in brackets for those of the kernel.
func processLine(pid int) string {
	dir := "/proc/" + strconv.Itoa(pid)
	line := strings.TrimRight(strings.ReplaceAll(readText(dir+"/cmdline"), "\x00", " "), " ")
	if line == "" {
		if name := strings.TrimSpace(readText(dir + "/comm")); name != "" {
			return "[" + name + "]"
		}
	}
	return line
}

// processUser is the name of a process's owner.
func processUser(pid int) string {
	st, err := os.Stat("/proc/" + strconv.Itoa(pid))
	if err != nil {
		return ""
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return Str(uidToUser(int64(sys.Uid)))
}

func statusProcs(context.Context, *Call, noArgs) (any, error) {
	out, users := &Map{}, map[uint32]string{}
	for _, pid := range processIDs() {
		st, err := os.Stat("/proc/" + strconv.Itoa(pid))
		if err != nil {
			continue
		}
		line := processLine(pid)
		if line == "" {
			continue
		}
		uid := st.Sys().(*syscall.Stat_t).Uid
		if _, ok := users[uid]; !ok {
			users[uid] = Str(uidToUser(int64(uid)))
		}
		out.Set(strconv.Itoa(pid), NewMap("user", users[uid], "cmd", line))
	}
	return out, nil
}

type sigArgs struct{ Sig any }

func statusPid(_ context.Context, _ *Call, a sigArgs) (any, error) {
	re, err := compileForModule(Str(a.Sig), 0)
	if err != nil {
		return nil, err
	}
	var pids []string
	for _, pid := range processIDs() {
		if pid == os.Getpid() {
			continue
		}
		m, err := re.Search(processUser(pid) + " " + strconv.Itoa(pid) + " " + processLine(pid))
		if err != nil {
			return nil, OtherErrorf("re.error", "%s", err)
		}
		if m != nil {
			pids = append(pids, strconv.Itoa(pid))
		}
	}
	return strings.Join(pids, "\n"), nil
}

func statusVersion(context.Context, *Call, noArgs) (any, error) {
	return strings.TrimSpace(readText("/proc/version")), nil
}

type timeArgs struct {
	Format string `def:"'%A, %d. %B %Y %I:%M%p'"`
}

func statusTime(_ context.Context, _ *Call, a timeArgs) (any, error) {
	return strftime(a.Format, time.Now()), nil
}

type statusMasterArgs struct {
	Master    any  `def:"None"`
	Connected bool `def:"True"`
}

func statusMaster(ctx context.Context, c *Call, a statusMasterArgs) (any, error) {
	if !Truth(a.Master) {
		return nil, nil
	}
	lookup, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	addrs, err := (&net.Resolver{PreferGo: true}).LookupNetIP(lookup, "ip", Str(a.Master))
	if err != nil {
		return nil, nil
	}
	port := c.Opts.Int("publish_port")
	if port == 0 {
		port = 4505
	}
	for _, proto := range []string{"tcp", "tcp6"} {
		for _, s := range kernelSockets(proto) {
			if s.state != 1 || int(s.remote.Port()) != port {
				continue
			}
			for _, addr := range addrs {
				if addr.Unmap() == s.remote.Addr().Unmap() {
					return true, nil
				}
			}
		}
	}
	return false, nil
}

type masterNameArgs struct{ Master any }

func statusPingMaster(ctx context.Context, c *Call, a masterNameArgs) (any, error) {
	if !Truth(a.Master) {
		return false, nil
	}
	port := c.Opts.Int("master_port")
	if port == 0 {
		port = 4506
	}
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(Str(a.Master), strconv.Itoa(port)))
	if err != nil {
		return false, nil
	}
	conn.Close()
	return true, nil
}

type proxyArgs struct {
	ProxyName any
	Opts      any `def:"None"`
}

func statusProxyReconnect(context.Context, *Call, proxyArgs) (any, error) { return false, nil }
