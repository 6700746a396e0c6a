// Module ps: processes and what they use, with the names that psutil gives the
// kernel's numbers.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func psModule() Module {
	return Module{
		Doc: "Processes, and what they use of the box.",
		Funcs: Funcs{
			"boot_time":             {run: psBootTime, doc: "Return when this box was started, as seconds or in a format."},
			"cpu_percent":           {run: psCPUPercent, doc: "Return how busy the processors are over an interval."},
			"cpu_times":             {run: psCPUTimes, doc: "Return the seconds that the processors spent in each state."},
			"disk_io_counters":      {run: psDiskIO, doc: "Return the counters of all disks together, or of one."},
			"disk_partition_usage":  {run: psDiskPartitionUsage, doc: "Return the partitions with their space."},
			"disk_partitions":       {run: psDiskPartitions, doc: "Return the mounted partitions."},
			"disk_usage":            {run: psDiskUsage, doc: "Return the space of the file system that a path lies on."},
			"get_pid_list":          {run: psPidList, doc: "List the pids of all processes."},
			"get_users":             {run: psUsers, doc: "Return who is logged in."},
			"kill_pid":              {run: psKillPid, doc: "Send a signal to a process; False if there is none."},
			"lsof":                  {run: psLsof, doc: "Return the open files of a command, by lsof."},
			"netstat":               {run: psNetstat, doc: "Return the lines of netstat that contain a text."},
			"network_io_counters":   {run: psNetworkIO, doc: "Return the counters of all interfaces together, or of one."},
			"num_cpus":              {run: psNumCPUs, doc: "Return the number of processors."},
			"pgrep":                 {run: psPgrep, doc: "List the pids of processes whose name (or with full whose command line) contains a text."},
			"pkill":                 {run: psPkill, doc: "Send a signal to processes as ps.pgrep finds them."},
			"proc_info":             {run: psProcInfo, doc: "Return what is known of a process, or some of it."},
			"psaux":                 {run: psAux, doc: "Return the lines of ps aux that match a regular expression."},
			"ss":                    {run: psSs, doc: "Return the lines of ss that contain a text."},
			"status":                {run: psStatus, doc: "Return the processes in a state: running, sleeping, zombie …"},
			"swap_memory":           {run: psSwapMemory, doc: "Return how much swap is used."},
			"top":                   {run: psTop, doc: "Return the processes that use the processors most over an interval."},
			"total_physical_memory": {run: psTotalMemory, doc: "Return the bytes of memory."},
			"virtual_memory":        {run: psVirtualMemory, doc: "Return how much memory is used."},
		},
	}
}

// clockTicks is the unit of times in /proc: a hundredth of a second on every
// Linux that programs see.
const clockTicks = 100

// procStat is what /proc/PID/stat says of a process.
type procStat struct {
	pid, ppid           int
	name, state         string
	user, system        float64
	childUser, childSys float64
	started             float64 // seconds since boot
	threads, nice       int64
	vms, rss            int64
	terminal            int64
}

func readProcStat(pid int) (procStat, bool) {
	text := readText("/proc/" + strconv.Itoa(pid) + "/stat")
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return procStat{}, false
	}
	f := strings.Fields(text[end+1:])
	if len(f) < 22 {
		return procStat{}, false
	}
	n := func(i int) int64 { v, _ := strconv.ParseInt(f[i], 10, 64); return v }
	s := procStat{pid: pid, ppid: int(n(1)), name: text[open+1 : end], state: f[0], threads: n(17), nice: n(16), terminal: n(4),
		user: float64(n(11)) / clockTicks, system: float64(n(12)) / clockTicks, childUser: float64(n(13)) / clockTicks, childSys: float64(n(14)) / clockTicks,
		started: float64(n(19)) / clockTicks, vms: n(20), rss: n(21) * int64(os.Getpagesize())}
	// The kernel cuts names at 15 bytes; the command line may have the rest.
	if len(s.name) >= 15 {
		if argv := processArgv(pid); len(argv) > 0 {
			if base := filepath.Base(argv[0]); strings.HasPrefix(base, s.name) {
				s.name = base
			}
		}
	}
	return s, true
}

// processArgv are the words of a process's command line.
func processArgv(pid int) []string {
	text := strings.TrimRight(readText("/proc/"+strconv.Itoa(pid)+"/cmdline"), "\x00")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\x00")
}

// stateName is psutil's word for a state.
func stateName(state string) string {
	names := map[string]string{"R": "running", "S": "sleeping", "D": "disk-sleep", "T": "stopped", "t": "tracing-stop", "Z": "zombie",
		"X": "dead", "x": "dead", "K": "wake-kill", "W": "waking", "I": "idle", "P": "parked"}
	if n, ok := names[state]; ok {
		return n
	}
	return "?"
}

func bootTime() float64 {
	for _, line := range procLines("/proc/stat") {
		if v, ok := strings.CutPrefix(line, "btime "); ok {
			return float64(leadingInt(v))
		}
	}
	return 0
}

func (s procStat) cpuTimes() *Map {
	return NewMap("user", s.user, "system", s.system, "children_user", s.childUser, "children_system", s.childSys, "iowait", 0.0)
}

func (s procStat) memory() *Map {
	m := NewMap("rss", s.rss, "vms", s.vms, "shared", int64(0), "text", int64(0), "lib", int64(0), "data", int64(0), "dirty", int64(0))
	f := strings.Fields(readText("/proc/" + strconv.Itoa(s.pid) + "/statm"))
	for i, k := range []string{"vms", "rss", "shared", "text", "lib", "data", "dirty"} {
		if i < len(f) {
			m.Set(k, leadingInt(f[i])*int64(os.Getpagesize()))
		}
	}
	return m
}

type topArgs struct {
	NumProcesses int     `def:"5"`
	Interval     float64 `def:"3"`
}

func psTop(ctx context.Context, _ *Call, a topArgs) (any, error) {
	before := map[int]float64{}
	for _, pid := range processIDs() {
		if s, ok := readProcStat(pid); ok {
			before[pid] = s.user + s.system
		}
	}
	if err := pause(ctx, time.Duration(a.Interval*float64(time.Second))); err != nil {
		return nil, err
	}
	type usage struct {
		procStat
		used float64
	}
	var all []usage
	for pid, was := range before {
		if s, ok := readProcStat(pid); ok {
			all = append(all, usage{s, s.user + s.system - was})
		}
	}
	sort.Slice(all, func(i, j int) bool {
		return all[i].used > all[j].used || all[i].used == all[j].used && all[i].pid < all[j].pid
	})
	out := &List{}
	boot := bootTime()
	for _, u := range all[:min(a.NumProcesses, len(all))] {
		var cmd any = u.name
		if argv := processArgv(u.pid); len(argv) > 0 {
			cmd = Strings(argv)
		}
		out.Append(NewMap("cmd", cmd, "user", orNone(processUser(u.pid)), "status", stateName(u.state), "pid", int64(u.pid), "create_time", boot+u.started,
			"cpu", u.cpuTimes(), "mem", u.memory()))
	}
	return out, nil
}

func psPidList(context.Context, *Call, noArgs) (any, error) {
	out := &List{}
	for _, pid := range processIDs() {
		out.Append(int64(pid))
	}
	return out, nil
}

type procInfoArgs struct {
	Pid   int
	Attrs any `def:"None"`
}

func psProcInfo(_ context.Context, _ *Call, a procInfoArgs) (any, error) {
	s, ok := readProcStat(a.Pid)
	if !ok {
		return nil, ExecErrorf("process PID not found (pid=%d)", a.Pid)
	}
	dir := "/proc/" + strconv.Itoa(a.Pid)
	link := func(name string) any {
		v, err := os.Readlink(dir + "/" + name)
		if err != nil {
			return nil
		}
		return v
	}
	status := map[string]string{}
	for _, line := range procLines(dir + "/status") {
		k, v, _ := strings.Cut(line, ":")
		status[k] = strings.TrimSpace(v)
	}
	ids := func(key string) *Map {
		m := &Map{}
		for i, name := range []string{"real", "effective", "saved"} {
			if f := strings.Fields(status[key]); i < len(f) {
				m.Set(name, leadingInt(f[i]))
			}
		}
		return m
	}
	fds, _ := os.ReadDir(dir + "/fd")
	environ := &Map{}
	for _, kv := range strings.Split(readText(dir+"/environ"), "\x00") {
		if k, v, ok := strings.Cut(kv, "="); ok {
			environ.Set(k, v)
		}
	}
	threads := &List{}
	tasks, _ := os.ReadDir(dir + "/task")
	for _, t := range tasks {
		id, _ := strconv.Atoi(t.Name())
		threads.Append(NewMap("id", int64(id), "user_time", s.user, "system_time", s.system))
	}
	var total float64
	for _, line := range procLines("/proc/meminfo") {
		if v, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			total = float64(leadingInt(v)) * 1024
		}
	}
	percent := 0.0
	if total > 0 {
		percent = float64(s.rss) / total * 100
	}
	m := NewMap("pid", int64(s.pid), "ppid", int64(s.ppid), "name", s.name, "exe", link("exe"), "cmdline", Strings(processArgv(a.Pid)),
		"status", stateName(s.state), "username", orNone(processUser(a.Pid)), "create_time", bootTime()+s.started, "cwd", link("cwd"), "nice", s.nice,
		"uids", ids("Uid"), "gids", ids("Gid"), "num_threads", s.threads, "num_fds", int64(len(fds)), "cpu_times", s.cpuTimes(), "memory_info", s.memory(),
		"memory_percent", percent, "environ", environ, "threads", threads, "cpu_percent", 0.0, "terminal", nil)
	if a.Attrs == nil {
		return m, nil
	}
	some := &Map{}
	for _, k := range toItems(a.Attrs) {
		v, ok := m.Get(k)
		if !ok {
			return nil, OtherErrorf("ValueError", "invalid attr name %s", Repr(k))
		}
		some.Set(k, v)
	}
	return some, nil
}

type killPidArgs struct {
	Pid    int
	Signal int `def:"15"`
}

func psKillPid(_ context.Context, _ *Call, a killPidArgs) (any, error) {
	if a.Pid <= 0 {
		return nil, OtherErrorf("ValueError", "pid must be a positive integer (got %d)", a.Pid)
	}
	switch err := syscall.Kill(a.Pid, syscall.Signal(a.Signal)); err {
	case nil:
		return true, nil
	case syscall.ESRCH:
		return false, nil
	default:
		return nil, ExecErrorf("cannot signal process %d: %s", a.Pid, err)
	}
}

type pgrepArgs struct {
	Pattern        any
	User           any  `def:"None"`
	Full           bool `def:"False"`
	PatternIsRegex bool `def:"False"`
}

// findProcesses lists the pids of processes by name or command line.
func findProcesses(a pgrepArgs) ([]int, error) {
	var re *PyRegexp
	if a.PatternIsRegex {
		var err error
		if re, err = compileForModule(Str(a.Pattern), 0); err != nil {
			return nil, err
		}
	}
	var out []int
	for _, pid := range processIDs() {
		s, ok := readProcStat(pid)
		if !ok {
			continue
		}
		line := s.name
		if a.Full {
			line = strings.Join(processArgv(pid), " ")
		}
		match := strings.Contains(line, Str(a.Pattern))
		if re != nil {
			m, err := re.Search(line)
			match = err == nil && m != nil
		}
		if match && (a.User == nil || processUser(pid) == Str(a.User)) {
			out = append(out, pid)
		}
	}
	return out, nil
}

func psPgrep(_ context.Context, _ *Call, a pgrepArgs) (any, error) {
	pids, err := findProcesses(a)
	if err != nil || len(pids) == 0 {
		return nil, err
	}
	return pids, nil
}

type pkillArgs struct {
	Pattern any
	User    any  `def:"None"`
	Signal  int  `def:"15"`
	Full    bool `def:"False"`
}

func psPkill(_ context.Context, _ *Call, a pkillArgs) (any, error) {
	if Str(a.Pattern) == "" { // it is part of every name
		return nil, InvocationErrorf("ps.pkill needs a pattern: an empty one means every process")
	}
	pids, err := findProcesses(pgrepArgs{Pattern: a.Pattern, User: a.User, Full: a.Full})
	if err != nil {
		return nil, err
	}
	killed := &List{}
	for _, pid := range pids {
		if pid == os.Getpid() && a.Full {
			continue // the pattern is on our own command line
		}
		if syscall.Kill(pid, syscall.Signal(a.Signal)) == nil {
			killed.Append(int64(pid))
		}
	}
	if killed.Len() == 0 {
		return nil, nil
	}
	return NewMap("killed", killed), nil
}

// cpuNames are the columns of the processor lines of /proc/stat.
func cpuNames() []string {
	return []string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"}
}

// cpuLines reads the times of all processors together, or of each.
func cpuLines(each bool) []*Map {
	var out []*Map
	for _, line := range procLines("/proc/stat") {
		f := strings.Fields(line)
		if len(f) < 5 || !strings.HasPrefix(f[0], "cpu") || (f[0] == "cpu") == each {
			continue
		}
		m := &Map{}
		for i, name := range cpuNames() {
			if i+1 < len(f) {
				m.Set(name, float64(leadingInt(f[i+1]))/clockTicks)
			}
		}
		out = append(out, m)
	}
	return out
}

type cpuPercentArgs struct {
	Interval float64 `def:"0.1"`
	PerCPU   bool    `arg:"per_cpu" def:"False"`
}

func psCPUPercent(ctx context.Context, _ *Call, a cpuPercentArgs) (any, error) {
	before := cpuLines(a.PerCPU)
	if err := pause(ctx, time.Duration(max(a.Interval, 0.01)*float64(time.Second))); err != nil {
		return nil, err
	}
	out := &List{}
	for i, now := range cpuLines(a.PerCPU) {
		if i >= len(before) {
			break
		}
		all, idle := 0.0, 0.0
		for k, v := range now.All() {
			was, _ := before[i].Value(k).(float64)
			d := v.(float64) - was
			switch k {
			case "guest", "guest_nice": // counted with user
			case "idle", "iowait":
				idle += d
				all += d
			default:
				all += d
			}
		}
		busy := 0.0
		if all > 0 {
			busy = float64(int64((all-idle)/all*1000+0.5)) / 10
		}
		out.Append(busy)
	}
	if a.PerCPU {
		return out, nil
	}
	if out.Len() == 0 {
		return 0.0, nil
	}
	return out.Items[0], nil
}

type perCPUArgs struct {
	PerCPU bool `arg:"per_cpu" def:"False"`
}

func psCPUTimes(_ context.Context, _ *Call, a perCPUArgs) (any, error) {
	lines := cpuLines(a.PerCPU)
	if !a.PerCPU {
		if len(lines) == 0 {
			return &Map{}, nil
		}
		return lines[0], nil
	}
	out := &List{}
	for _, m := range lines {
		out.Append(m)
	}
	return out, nil
}

// memInfo reads /proc/meminfo as bytes.
func memInfo() map[string]int64 {
	out := map[string]int64{}
	for _, line := range procLines("/proc/meminfo") {
		k, v, _ := strings.Cut(line, ":")
		out[k] = leadingInt(v) * 1024
	}
	return out
}

// percentOf is a share in percent with one decimal.
func percentOf(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	f, _ := strconv.ParseFloat(strconv.FormatFloat(float64(part)/float64(whole)*100, 'f', 1, 64), 64)
	return f
}

func psVirtualMemory(context.Context, *Call, noArgs) (any, error) {
	m := memInfo()
	total, avail := m["MemTotal"], m["MemAvailable"]
	cached := m["Cached"] + m["SReclaimable"]
	return NewMap("total", total, "available", avail, "percent", percentOf(total-avail, total), "used", total-avail, "free", m["MemFree"],
		"active", m["Active"], "inactive", m["Inactive"], "buffers", m["Buffers"], "cached", cached, "shared", m["Shmem"], "slab", m["Slab"]), nil
}

func psSwapMemory(context.Context, *Call, noArgs) (any, error) {
	m := memInfo()
	total, free := m["SwapTotal"], m["SwapFree"]
	in, out := int64(0), int64(0)
	for _, line := range procLines("/proc/vmstat") {
		if v, ok := strings.CutPrefix(line, "pswpin "); ok {
			in = leadingInt(v) * 4096
		}
		if v, ok := strings.CutPrefix(line, "pswpout "); ok {
			out = leadingInt(v) * 4096
		}
	}
	return NewMap("total", total, "used", total-free, "free", free, "percent", percentOf(total-free, total), "sin", in, "sout", out), nil
}

type allArgs struct {
	All bool `def:"False"`
}

func diskPartitions(all bool) []*Map {
	real := map[string]bool{"zfs": true}
	for _, line := range procLines("/proc/filesystems") {
		if f := strings.Fields(line); len(f) == 1 {
			real[f[0]] = true
		}
	}
	var out []*Map
	for _, m := range kernelMounts() {
		device := m.device
		if device == "none" {
			device = ""
		}
		if !all && (device == "" || !real[m.fstype]) {
			continue
		}
		out = append(out, NewMap("device", device, "mountpoint", m.point, "fstype", m.fstype, "opts", strings.Join(m.opts, ",")))
	}
	return out
}

func psDiskPartitions(_ context.Context, _ *Call, a allArgs) (any, error) {
	out := &List{}
	for _, m := range diskPartitions(a.All) {
		out.Append(m)
	}
	return out, nil
}

func pathSpace(path string) (*Map, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return nil, pyOSError(&os.PathError{Op: "statvfs", Path: path, Err: err})
	}
	unit := int64(st.Frsize)
	if unit == 0 {
		unit = int64(st.Bsize)
	}
	total, free, avail := int64(st.Blocks)*unit, int64(st.Bfree)*unit, int64(st.Bavail)*unit
	used := total - free
	return NewMap("total", total, "used", used, "free", avail, "percent", percentOf(used, used+avail)), nil
}

func psDiskUsage(_ context.Context, _ *Call, a pathArgs) (any, error) {
	return orError(pathSpace(a.Path))
}

func psDiskPartitionUsage(_ context.Context, _ *Call, a allArgs) (any, error) {
	out := &List{}
	for _, m := range diskPartitions(a.All) {
		space, err := pathSpace(m.Str("mountpoint"))
		if err != nil {
			return nil, err
		}
		m.Merge(space)
		out.Append(m)
	}
	return out, nil
}

func psTotalMemory(context.Context, *Call, noArgs) (any, error) { return memInfo()["MemTotal"], nil }

func psNumCPUs(context.Context, *Call, noArgs) (any, error) { return int64(len(cpuLines(true))), nil }

type timeFormatArgs struct {
	TimeFormat any `def:"None"`
}

func psBootTime(_ context.Context, _ *Call, a timeFormatArgs) (any, error) {
	boot := int64(bootTime())
	if !Truth(a.TimeFormat) {
		return boot, nil
	}
	text, ok := a.TimeFormat.(string)
	if !ok {
		return nil, InvocationErrorf("Invalid format string: %s", Repr(a.TimeFormat))
	}
	return strftime(text, time.Unix(boot, 0)), nil
}

type ioInterfaceArgs struct {
	Interface any `def:"None"`
}

func psNetworkIO(_ context.Context, _ *Call, a ioInterfaceArgs) (any, error) {
	columns := []struct {
		name string
		at   int
	}{{"bytes_sent", 8}, {"bytes_recv", 0}, {"packets_sent", 9}, {"packets_recv", 1}, {"errin", 2}, {"errout", 10}, {"dropin", 3}, {"dropout", 11}}
	sum, found := &Map{}, false
	for _, col := range columns {
		sum.Set(col.name, int64(0))
	}
	for _, line := range procLines("/proc/net/dev") {
		name, rest, ok := strings.Cut(line, ":")
		f := strings.Fields(rest)
		if !ok || len(f) < 16 || Truth(a.Interface) && strings.TrimSpace(name) != Str(a.Interface) {
			continue
		}
		found = true
		for _, col := range columns {
			sum.Set(col.name, sum.Value(col.name).(int64)+leadingInt(f[col.at]))
		}
	}
	if !found {
		return false, nil
	}
	return sum, nil
}

type ioDeviceArgs struct {
	Device any `def:"None"`
}

func psDiskIO(_ context.Context, _ *Call, a ioDeviceArgs) (any, error) {
	columns := []struct {
		name   string
		at     int
		factor int64
	}{{"read_count", 3, 1}, {"write_count", 7, 1}, {"read_bytes", 5, 512}, {"write_bytes", 9, 512}, {"read_time", 6, 1}, {"write_time", 10, 1},
		{"read_merged_count", 4, 1}, {"write_merged_count", 8, 1}, {"busy_time", 12, 1}}
	sum, found := &Map{}, false
	for _, col := range columns {
		sum.Set(col.name, int64(0))
	}
	for _, line := range procLines("/proc/diskstats") {
		f := strings.Fields(line)
		if len(f) < 14 {
			continue
		}
		if Truth(a.Device) {
			if f[2] != Str(a.Device) {
				continue
			}
		} else if !pathExists("/sys/block/" + strings.ReplaceAll(f[2], "/", "!")) {
			continue // a partition: its disk is counted
		}
		found = true
		for _, col := range columns {
			sum.Set(col.name, sum.Value(col.name).(int64)+leadingInt(f[col.at])*col.factor)
		}
	}
	if !found {
		return false, nil
	}
	return sum, nil
}

func psUsers(context.Context, *Call, noArgs) (any, error) {
	out := &List{}
	for _, l := range loggedIn() {
		out.Append(NewMap("name", l.user, "terminal", orNone(l.tty), "host", orNone(l.host), "started", float64(l.when.Unix()), "pid", int64(l.pid)))
	}
	return out, nil
}

type psNameArgs struct{ Name any }

// linesWith are the lines of a tool's output that contain a text.
func linesWith(ctx context.Context, text string, words ...string) (any, error) {
	if err := requireTool(words[0]); err != nil {
		return nil, err
	}
	res, err := runTool(ctx, words...)
	if err != nil {
		return nil, err
	}
	found := &List{}
	for _, line := range pyLines(res.stdout, false) {
		if strings.Contains(line, text) {
			found.Append(line)
		}
	}
	return NewList(text, found), nil
}

func psLsof(ctx context.Context, _ *Call, a psNameArgs) (any, error) {
	if err := requireTool("lsof"); err != nil {
		return nil, err
	}
	res, err := runTool(ctx, "lsof", "-c", Str(a.Name))
	return NewList(Str(a.Name), pyRstrip(res.stdout)), err
}

func psNetstat(ctx context.Context, _ *Call, a psNameArgs) (any, error) {
	return linesWith(ctx, Str(a.Name), "netstat", "-nap")
}

func psSs(ctx context.Context, _ *Call, a psNameArgs) (any, error) {
	return linesWith(ctx, Str(a.Name), "ss", "-neap")
}

func psAux(ctx context.Context, _ *Call, a psNameArgs) (any, error) {
	re, err := compileForModule(Str(a.Name), 0)
	if err != nil {
		return nil, err
	}
	res, err := runTool(ctx, "ps", "aux")
	if err != nil {
		return nil, err
	}
	found := &List{}
	for _, line := range pyLines(res.stdout, false) {
		m, err := re.Search(line)
		if err == nil && m != nil && !strings.Contains(line, "ps.psaux") {
			found.Append(line)
		}
	}
	return NewList(Str(a.Name), found, fmt.Sprintf("%d occurrence(s).", found.Len())), nil
}

type psStatusArgs struct{ Status any }

func psStatus(_ context.Context, _ *Call, a psStatusArgs) (any, error) {
	if !Truth(a.Status) {
		return nil, InvocationErrorf("Filter is required for ps.status")
	}
	out := &List{}
	for _, pid := range processIDs() {
		if s, ok := readProcStat(pid); ok && stateName(s.state) == Str(a.Status) {
			out.Append(NewMap("pid", int64(pid), "name", s.name))
		}
	}
	return out, nil
}
