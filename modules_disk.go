// Module disk: space of file systems and properties of block devices.
package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
)

func diskModule() Module {
	return Module{
		Doc: "Space of file systems and properties of block devices.",
		Funcs: Funcs{
			"usage":                {run: diskUsage, doc: "Return the space of mounted file systems."},
			"inodeusage":           {run: diskInodeUsage, doc: "Return the inodes of mounted file systems."},
			"percent":              {run: diskPercent, doc: "Return how full file systems are, or one mount point."},
			"blkid":                {run: diskBlkid, doc: "Return labels, ids and types of block devices, by blkid."},
			"tune":                 {run: diskTune, doc: "Set read-ahead and read-only flags of a block device, by blockdev."},
			"wipe":                 {run: diskWipe, doc: "Remove the signatures of file systems from a device."},
			"dump":                 {run: diskDump, doc: "Return the properties of a block device, by blockdev."},
			"resize2fs":            {run: diskResize2fs, doc: "Grow an ext file system to the size of its device."},
			"format":               {run: diskFormat, pyname: "format_", doc: "Make a file system on a device."},
			"get_fstype_from_path": {run: diskFstypeOfPath, doc: "Return the type of the file system that a path is on."},
			"fstype":               {run: diskFstype, doc: "Return the type of the file system on a device."},
			"hdparms":              {run: diskHdparms, doc: "Return the settings of disks, by hdparm."},
			"hpa":                  {run: diskHpa, doc: "Return the host protected areas of disks, by hdparm."},
			"smart_attributes":     {run: diskSmart, doc: "Return the SMART attributes of a disk, by smartctl."},
			"iostat":               {run: diskIostat, doc: "Return input and output of disks over some seconds."},
		},
	}
}

type flagsArgs struct {
	Args any `def:"None"`
}

// checkFlags lets through the flags of df that Salt lets through.
func checkFlags(v any, caller string) (string, error) {
	flags := ""
	for _, item := range toItems(v) {
		for _, r := range Str(item) {
			if !strings.ContainsRune("aBhHiklPtTxv", r) {
				return "", ExecErrorf("Invalid flag passed to %s", caller)
			}
			flags += string(r)
		}
	}
	return flags, nil
}

// mountSpace is the space of one mounted file system.
type mountSpace struct {
	mountEntry
	blocks, used, avail  int64 // in 1K blocks
	inodes, iused, ifree int64
}

func (m mountSpace) percent() string  { return roundedUp(m.used, m.used+m.avail) }
func (m mountSpace) ipercent() string { return roundedUp(m.iused, m.inodes) }

func roundedUp(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	return strconv.FormatInt((part*100+whole-1)/whole, 10) + "%"
}

// mountSpaces measures what is mounted, as df lists it: without file systems
// that have no size, and each device once unless all is set.
func mountSpaces(all bool) []mountSpace {
	var out []mountSpace
	at := map[string]int{}
	seen := map[string]int{}
	for _, m := range kernelMounts() {
		var st syscall.Statfs_t
		if syscall.Statfs(m.point, &st) != nil || st.Blocks == 0 && !all {
			continue
		}
		unit := int64(st.Frsize)
		if unit == 0 {
			unit = int64(st.Bsize)
		}
		k := func(blocks uint64) int64 { return (int64(blocks)*unit + 1023) / 1024 }
		s := mountSpace{mountEntry: m, blocks: k(uint64(st.Blocks)), used: k(uint64(st.Blocks) - uint64(st.Bfree)), avail: k(uint64(st.Bavail)),
			inodes: int64(st.Files), iused: int64(st.Files) - int64(st.Ffree), ifree: int64(st.Ffree)}
		if i, ok := at[m.point]; ok { // mounted over
			out[i] = s
			continue
		}
		if i, ok := seen[m.device]; ok && strings.HasPrefix(m.device, "/") && !all {
			if len(m.point) < len(out[i].point) {
				delete(at, out[i].point)
				out[i] = s
				at[m.point] = i
			}
			continue
		}
		at[m.point], seen[m.device] = len(out), len(out)
		out = append(out, s)
	}
	return out
}

func diskUsage(ctx context.Context, c *Call, a flagsArgs) (any, error) {
	flags, err := checkFlags(a.Args, "disk.usage")
	if err != nil {
		return nil, err
	}
	out := &Map{}
	if strings.Trim(flags, "aklPTv") == "" {
		for _, m := range mountSpaces(strings.Contains(flags, "a")) {
			if strings.Contains(flags, "l") && strings.Contains(m.device, ":") {
				continue
			}
			out.Set(m.point, NewMap("filesystem", m.device, "1K-blocks", strconv.FormatInt(m.blocks, 10), "used", strconv.FormatInt(m.used, 10),
				"available", strconv.FormatInt(m.avail, 10), "capacity", m.percent()))
		}
		return out, nil
	}
	res, err := runTool(ctx, "df", "-P", "-"+flags)
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(res.stdout, "\n") {
		f := strings.Fields(line)
		if len(f) >= 6 && f[0] != "Filesystem" {
			out.Set(f[5], NewMap("filesystem", f[0], "1K-blocks", f[1], "used", f[2], "available", f[3], "capacity", f[4]))
		}
	}
	return out, nil
}

func diskInodeUsage(_ context.Context, _ *Call, a flagsArgs) (any, error) {
	flags, err := checkFlags(a.Args, "disk.inodeusage")
	if err != nil {
		return nil, err
	}
	out := &Map{}
	for _, m := range mountSpaces(strings.Contains(flags, "a")) {
		out.Set(m.point, NewMap("inodes", strconv.FormatInt(m.inodes, 10), "used", strconv.FormatInt(m.iused, 10),
			"free", strconv.FormatInt(m.ifree, 10), "use", m.ipercent(), "filesystem", m.device))
	}
	return out, nil
}

func diskPercent(_ context.Context, c *Call, a flagsArgs) (any, error) {
	out := &Map{}
	for _, m := range mountSpaces(false) {
		out.Set(m.point, m.percent())
	}
	if !Truth(a.Args) {
		return out, nil
	}
	if v, ok := out.Get(a.Args); ok {
		return v, nil
	}
	c.Log.Error(fmt.Sprintf("Problem parsing disk usage information: Partition '%s' does not exist!", Str(a.Args)))
	return &Map{}, nil
}

// requireTool is the error for a program that is missing.
func requireTool(name string) error {
	if which(name) == "" {
		return NotFoundErrorf("The '%s' binary was not found in $PATH.", name)
	}
	return nil
}

type blkidArgs struct {
	Device any `def:"None"`
	Token  any `def:"None"`
}

func diskBlkid(ctx context.Context, _ *Call, a blkidArgs) (any, error) {
	if err := requireTool("blkid"); err != nil {
		return nil, err
	}
	words := []string{"blkid"}
	if Truth(a.Device) {
		words = append(words, Str(a.Device))
	} else if Truth(a.Token) {
		words = append(words, "-t", Str(a.Token))
	}
	out := &Map{}
	res, err := runTool(ctx, words...)
	if err != nil || res.retcode > 0 {
		return out, err
	}
	for _, line := range strings.Split(res.stdout, "\n") {
		device, rest, ok := strings.Cut(line, ": ")
		if !ok {
			continue
		}
		info := &Map{}
		for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
			k, tail, ok := strings.Cut(rest, `="`)
			if !ok {
				break
			}
			v, tail, _ := strings.Cut(tail, `"`)
			info.Set(k, v)
			rest = tail
		}
		out.Set(device, info)
	}
	return out, nil
}

type deviceArgs struct{ Device string }

type tuneArgs struct {
	Device string
	Kwargs *Map `arg:"**kwargs"`
}

func diskTune(ctx context.Context, c *Call, a tuneArgs) (any, error) {
	switches := map[string]string{"read-ahead": "ra", "filesystem-read-ahead": "fra", "read-only": "ro", "read-write": "rw"}
	words := []string{"blockdev"}
	read := &List{}
	var invalid []string
	for k, v := range cleanKwargs(a.Kwargs).All() {
		key := Str(k)
		s, ok := switches[key]
		flag := key == "read-only" || key == "read-write"
		if !ok || flag && v != true && v != "True" {
			invalid = append(invalid, key+"="+Str(v))
			continue
		}
		words = append(words, "--set"+s)
		if !flag {
			words = append(words, Str(v))
		}
		if s == "rw" {
			s = "ro"
		}
		read.Append("get" + s)
	}
	if len(invalid) > 0 {
		return nil, InvocationErrorf("Invalid keyword arguments: %s", strings.Join(invalid, ", "))
	}
	res, err := runSaltTool(ctx, c, toolOptions{}, append(words, a.Device)...)
	if err != nil {
		return nil, err
	}
	if res.failed() {
		return nil, ExecErrorf("%s", res.stderr)
	}
	return diskDump(ctx, c, dumpArgs{a.Device, read})
}

func diskWipe(ctx context.Context, c *Call, a deviceArgs) (any, error) {
	res, err := runSaltTool(ctx, c, toolOptions{}, "wipefs", "-a", a.Device)
	if err != nil {
		return nil, err
	}
	if res.failed() {
		c.Log.Error(fmt.Sprintf("Error wiping device %s: %s", a.Device, res.stderr))
	}
	return !res.failed(), nil
}

type dumpArgs struct {
	Device string
	Args   any `def:"None"`
}

func diskDump(ctx context.Context, c *Call, a dumpArgs) (any, error) {
	names := []string{"getro", "getsz", "getss", "getpbsz", "getiomin", "getioopt", "getalignoff", "getmaxsect", "getsize", "getsize64", "getra", "getfra"}
	words := []string{"blockdev"}
	for _, n := range names {
		words = append(words, "--"+n)
	}
	res, err := runSaltTool(ctx, c, toolOptions{}, append(words, a.Device)...)
	if err != nil {
		return nil, err
	}
	if res.failed() {
		return false, nil
	}
	all := &Map{}
	for i, line := range strings.Fields(res.stdout) {
		if i < len(names) {
			all.Set(names[i], line)
		}
	}
	wanted := toItems(a.Args)
	if len(wanted) == 0 {
		return all, nil
	}
	some := &Map{}
	for _, k := range wanted {
		some.Set(k, all.Value(k))
	}
	return some, nil
}

func diskResize2fs(ctx context.Context, c *Call, a deviceArgs) (any, error) {
	res, err := runSaltTool(ctx, c, toolOptions{}, "resize2fs", a.Device)
	if err != nil {
		return nil, err
	}
	if !res.failed() {
		return true, nil
	}
	return nil, nil
}

type formatArgs struct {
	Device         string
	FsType         string `def:"'ext4'"`
	InodeSize      any    `def:"None"`
	LazyItableInit any    `def:"None"`
	Fat            any    `def:"None"`
	Force          bool   `def:"False"`
}

func diskFormat(ctx context.Context, _ *Call, a formatArgs) (any, error) {
	if err := requireTool("mkfs"); err != nil {
		return nil, err
	}
	words := []string{"mkfs", "-t", a.FsType}
	ext := strings.HasPrefix(a.FsType, "ext")
	if a.InodeSize != nil {
		if ext {
			words = append(words, "-i", Str(a.InodeSize))
		} else if a.FsType == "xfs" {
			words = append(words, "-i", "size="+Str(a.InodeSize))
		}
	}
	if a.LazyItableInit != nil && ext {
		words = append(words, "-E", "lazy_itable_init="+Str(a.LazyItableInit))
	}
	if a.Fat != nil && (Equal(a.Fat, int64(12)) || Equal(a.Fat, int64(16)) || Equal(a.Fat, int64(32))) && strings.HasSuffix(a.FsType, "fat") {
		words = append(words, "-F", Str(a.Fat))
	}
	if a.Force {
		if ext {
			words = append(words, "-F")
		} else if a.FsType == "xfs" {
			words = append(words, "-f")
		}
	}
	res, err := runTool(ctx, append(words, a.Device)...)
	if err != nil {
		return nil, err
	}
	syscall.Sync()
	return res.retcode == 0, nil
}

func diskFstypeOfPath(ctx context.Context, c *Call, a pathArgs) (any, error) {
	device, err := c.Run(ctx, "mount.get_device_from_path", a.Path)
	if err != nil {
		return nil, err
	}
	return c.Run(ctx, "disk.fstype", device)
}

func diskFstype(ctx context.Context, _ *Call, a deviceArgs) (any, error) {
	if which("lsblk") != "" {
		res, err := runTool(ctx, "lsblk", "-o", "fstype", a.Device)
		if err != nil {
			return nil, err
		}
		for _, line := range strings.Split(res.stdout, "\n") {
			if f := strings.TrimSpace(line); f != "" && f != "FSTYPE" {
				return f, nil
			}
		}
	}
	for _, m := range kernelMounts() {
		if m.device == a.Device {
			return m.fstype, nil
		}
	}
	return "", nil
}

type disksArgs struct {
	Disks any
	Args  any `def:"None"`
}

type disksOnlyArgs struct {
	Disks any
	Size  any `def:"None"`
}

func diskHdparms(ctx context.Context, _ *Call, a disksArgs) (any, error) {
	return eachDisk(ctx, a.Disks, "-aAbBcCdgHiJkMmNnQrRuW", func(out string) any {
		info := &Map{}
		for _, line := range strings.Split(out, "\n") {
			if k, v, ok := strings.Cut(line, "="); ok {
				info.Set(strings.ToLower(strings.TrimSpace(k)), strings.TrimSpace(v))
			}
		}
		return info
	})
}

func diskHpa(ctx context.Context, _ *Call, a disksOnlyArgs) (any, error) {
	return eachDisk(ctx, a.Disks, "-N", func(out string) any { return strings.TrimSpace(out) })
}

// eachDisk asks hdparm about disks; read makes a value of what it says of one.
func eachDisk(ctx context.Context, disks any, option string, read func(out string) any) (any, error) {
	if err := requireTool("hdparm"); err != nil {
		return nil, err
	}
	out := &Map{}
	for _, d := range toStrings(disks) {
		d = devicePath(d)
		res, err := runTool(ctx, "hdparm", option, d)
		if err != nil {
			return nil, err
		}
		out.Set(d, read(res.stdout))
	}
	return out, nil
}

// devicePath is the path of a device that may be named without /dev.
func devicePath(name string) string {
	if strings.HasPrefix(name, "/dev/") {
		return name
	}
	return "/dev/" + name
}

type smartArgs struct {
	Dev        string
	Attributes any `def:"None"`
	Values     any `def:"None"`
}

func diskSmart(ctx context.Context, _ *Call, a smartArgs) (any, error) {
	if err := requireTool("smartctl"); err != nil {
		return nil, err
	}
	dev := devicePath(a.Dev)
	res, err := runTool(ctx, "smartctl", "--attributes", dev)
	if err != nil {
		return nil, err
	}
	out := &Map{}
	for _, line := range strings.Split(res.stdout, "\n") {
		f := strings.Fields(line)
		if len(f) < 10 {
			continue
		}
		id, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil {
			continue
		}
		out.Set(id, NewMap("attribute_name", f[1], "flag", f[2], "value", f[3], "worst", f[4], "thresh", f[5], "type", f[6], "updated", f[7],
			"when_failed", f[8], "raw_value", strings.Join(f[9:], " ")))
	}
	return out, nil
}

type iostatArgs struct {
	Interval int `def:"1"`
	Count    int `def:"5"`
	Disks    any `def:"None"`
}

func diskIostat(ctx context.Context, c *Call, a iostatArgs) (any, error) {
	if a.Interval < 1 || a.Count < 1 {
		return nil, errors.New("interval and count are at least 1")
	}
	if err := requireTool("iostat"); err != nil {
		return nil, err
	}
	words := []string{"iostat", "-xd", "-y", strconv.Itoa(a.Interval), strconv.Itoa(a.Count)}
	words = append(words, toStrings(a.Disks)...)
	res, err := runTool(ctx, words...)
	if err != nil {
		return nil, err
	}
	var head []string
	out := &Map{}
	for _, line := range strings.Split(res.stdout, "\n") {
		f := strings.Fields(line)
		switch {
		case len(f) < 2:
		case strings.HasPrefix(f[0], "Device"):
			head = f
		case len(head) == len(f):
			m := &Map{}
			for i := 1; i < len(f); i++ {
				m.Set(head[i], numberOrText(f[i]))
			}
			out.Set(f[0], m)
		}
	}
	return out, nil
}
