// Module mount: mounting file systems, the file of those to mount at boot, and
// swap.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

func mountModule() Module {
	return Module{
		Doc: "Mount file systems, keep fstab, switch swap on and off.",
		Funcs: Funcs{
			"active":               {run: mountActive, doc: "Return what is mounted; with extended as the kernel's mountinfo has it."},
			"fstab":                {run: mountFstab, doc: "Return the entries of fstab by mount point."},
			"set_fstab":            {run: mountSetFstab, doc: "See to an entry of fstab; the answer is new, change or present."},
			"rm_fstab":             {run: mountRmFstab, doc: "Remove an entry from fstab."},
			"mount":                {run: mountMount, doc: "Mount a device; True, or what mount(8) says."},
			"remount":              {run: mountRemount, doc: "Mount with other options what is mounted already."},
			"umount":               {run: mountUmount, doc: "Unmount; True, or what umount(8) says."},
			"is_mounted":           {run: mountIsMounted, doc: "Say whether something is mounted at a path."},
			"is_fuse_exec":         {run: mountIsFuseExec, doc: "Say whether a program mounts by FUSE."},
			"swaps":                {run: mountSwaps, doc: "Return the swap spaces in use."},
			"swapon":               {run: mountSwapon, doc: "Use a swap space."},
			"swapoff":              {run: mountSwapoff, doc: "Stop using a swap space."},
			"read_mount_cache":     {run: mountReadCache, doc: "Return how a mount point was mounted last."},
			"write_mount_cache":    {run: mountWriteCache, doc: "Keep how a mount point was mounted."},
			"delete_mount_cache":   {run: mountDeleteCache, doc: "Forget how a mount point was mounted."},
			"get_mount_from_path":  {run: mountFromPath, doc: "Return the mount point that a path lies under."},
			"get_device_from_path": {run: mountDeviceFromPath, doc: "Return the device that a path lies on."},
		},
	}
}

type extendedArgs struct {
	Extended bool `def:"False"`
}

// mountOptions writes uid= and gid= as numbers and blanks as fstab has them.
func mountOptions(opts []string) *List {
	out := &List{}
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		switch {
		case k == "uid":
			if u, ok := userByName(v); ok {
				o = "uid=" + strconv.Itoa(u.uid)
			}
		case k == "gid":
			if g, ok := groupByName(v); ok {
				o = "gid=" + strconv.Itoa(g.gid)
			}
		}
		out.Append(strings.ReplaceAll(o, `\040`, `\ `))
	}
	return out
}

// altDevices maps mount points to the names that mount(8) knows devices by.
func altDevices() map[string]string {
	out := map[string]string{}
	for _, line := range procLines("/run/mount/utab") {
		src, target := "", ""
		for _, f := range strings.Fields(line) {
			if v, ok := strings.CutPrefix(f, "SRC="); ok {
				src = v
			}
			if v, ok := strings.CutPrefix(f, "TARGET="); ok {
				target = v
			}
		}
		if src != "" && target != "" {
			out[target] = src
		}
	}
	return out
}

func activeMounts() *Map {
	out, alt := &Map{}, altDevices()
	for _, line := range procLines("/proc/self/mounts") {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		other := f[0]
		if a, ok := alt[f[1]]; ok {
			other = a
		}
		out.Set(f[1], NewMap("device", f[0], "alt_device", other, "fstype", f[2], "opts", mountOptions(strings.Split(f[3], ","))))
	}
	return out
}

func mountActive(ctx context.Context, c *Call, a extendedArgs) (any, error) {
	if !a.Extended {
		return activeMounts(), nil
	}
	ids := &Map{}
	if which("blkid") != "" {
		if got, err := diskBlkid(ctx, c, blkidArgs{}); err == nil {
			ids, _ = got.(*Map)
		}
	}
	plain, out := activeMounts(), &Map{}
	for _, line := range procLines("/proc/self/mountinfo") {
		f := strings.Fields(line)
		sep := slices.Index(f, "-")
		if sep < 6 || len(f) < sep+4 {
			continue
		}
		major, minor, _ := strings.Cut(f[2], ":")
		id := ids.Map(f[sep+2])
		out.Set(f[4], NewMap("mountid", f[0], "parentid", f[1], "major", major, "minor", minor, "root", f[3],
			"opts", mountOptions(strings.Split(f[5], ",")), "fstype", f[sep+1], "device", strings.ReplaceAll(f[sep+2], `\040`, `\ `),
			"alt_device", plain.Map(f[4]).Value("alt_device"), "superopts", mountOptions(strings.Split(f[sep+3], ",")),
			"device_uuid", orNone(strings.ToLower(id.Str("UUID"))), "device_label", orNone(id.Str("LABEL"))))
	}
	return out, nil
}

// fstabEntry is one line of fstab, its six fields as texts.
type fstabEntry struct{ device, name, fstype, opts, dump, pass string }

// parseFstab reads a line; comments and what is no entry are not ok.
func parseFstab(line string) (fstabEntry, bool) {
	f := strings.Fields(line)
	if strings.HasPrefix(line, "#") || len(f) < 4 || len(f) > 6 {
		return fstabEntry{}, false
	}
	for len(f) < 6 {
		f = append(f, "0")
	}
	return fstabEntry{f[0], f[1], f[2], f[3], f[4], f[5]}, true
}

func (e fstabEntry) String() string {
	return fmt.Sprintf("%s\t\t%s\t%s\t%s\t%s %s\n", e.device, e.name, e.fstype, e.opts, e.dump, e.pass)
}

// field is the field that match_on names.
func (e fstabEntry) field(name string) (string, bool) {
	switch name {
	case "device":
		return e.device, true
	case "name":
		return e.name, true
	case "fstype":
		return e.fstype, true
	case "opts":
		o := strings.Split(e.opts, ",")
		slices.Sort(o)
		return strings.Join(o, ","), true
	case "dump":
		return e.dump, true
	case "pass_num":
		return e.pass, true
	}
	return "", false
}

func (e fstabEntry) same(other fstabEntry, fields []string) bool {
	for _, f := range fields {
		a, _ := e.field(f)
		b, _ := other.field(f)
		if a != b {
			return false
		}
	}
	return true
}

type fstabConfigArgs struct {
	Config string `def:"'/etc/fstab'"`
}

func mountFstab(_ context.Context, _ *Call, a fstabConfigArgs) (any, error) {
	out := &Map{}
	for _, line := range keepEnds(readText(a.Config)) {
		e, ok := parseFstab(line)
		if !ok {
			continue
		}
		for out.Has(e.name) {
			e.name += "_"
		}
		out.Set(e.name, NewMap("device", e.device, "fstype", e.fstype, "opts", Strings(strings.Split(e.opts, ",")), "dump", e.dump, "pass", e.pass))
	}
	return out, nil
}

type rmFstabArgs struct {
	Name   string
	Device any
	Config string `def:"'/etc/fstab'"`
}

func mountRmFstab(_ context.Context, _ *Call, a rmFstabArgs) (any, error) {
	src, err := os.ReadFile(a.Config)
	if err != nil {
		return nil, ExecErrorf("Couldn't read from %s: %s", a.Config, osErrorText(err))
	}
	kept, changed := "", false
	for _, line := range keepEnds(string(src)) {
		if e, ok := parseFstab(line); ok && e.name == a.Name && (a.Device == nil || e.device == Str(a.Device)) {
			changed = true
			continue
		}
		kept += line
	}
	if changed {
		if err := replaceAtomically(a.Config, []byte(kept)); err != nil {
			return nil, ExecErrorf("Couldn't write to %s: %s", a.Config, osErrorText(err))
		}
	}
	return true, nil
}

type setFstabArgs struct {
	Name      string
	Device    string
	Fstype    string
	Opts      any    `def:"'defaults'"`
	Dump      any    `def:"0"`
	PassNum   any    `def:"0"`
	Config    string `def:"'/etc/fstab'"`
	Test      bool   `def:"False"`
	MatchOn   any    `def:"'auto'"`
	NotChange bool   `def:"False"`
	Kwargs    *Map   `arg:"**kwargs"`
}

func joinOptions(v any) string {
	if l, ok := v.(*List); ok {
		parts := make([]string, l.Len())
		for i, item := range l.Items {
			parts[i] = Str(item)
		}
		return strings.Join(parts, ",")
	}
	return Str(orEmpty(v))
}

func mountSetFstab(_ context.Context, _ *Call, a setFstabArgs) (any, error) {
	entry := fstabEntry{device: strings.ReplaceAll(a.Device, `\ `, `\040`), name: a.Name, fstype: a.Fstype,
		opts: strings.ReplaceAll(joinOptions(a.Opts), `\ `, `\040`), dump: Str(a.Dump), pass: Str(a.PassNum)}
	var on []string
	switch m := a.MatchOn.(type) {
	case *List:
		on = toStrings(m)
	case string:
		on = []string{m}
		if m == "auto" {
			on = []string{"device"}
			switch a.Fstype {
			case "none", "tmpfs", "sysfs", "proc", "fusectl", "debugfs", "securityfs", "devtmpfs", "cgroup", "nfs", "nfs4", "glusterfs", "btrfs":
				on = []string{"name"}
			}
		}
	default:
		return nil, ExecErrorf("match_on must be a string or list of strings")
	}
	for _, f := range on {
		if _, ok := entry.field(f); !ok {
			return nil, ExecErrorf("Unrecognized keys in match_on: \"%s\"", f)
		}
	}
	if !isFile(a.Config) {
		return nil, ExecErrorf("Bad config file \"%s\"", a.Config)
	}
	src, err := os.ReadFile(a.Config)
	if err != nil {
		return nil, ExecErrorf("Couldn't read from %s: %s", a.Config, osErrorText(err))
	}
	out, ret := "", ""
	all := []string{"device", "name", "fstype", "opts", "dump", "pass_num"}
	for _, line := range keepEnds(string(src)) {
		e, ok := parseFstab(line)
		if !ok || !entry.same(e, on) {
			out += line
			continue
		}
		if ret = "present"; entry.same(e, all) || a.NotChange {
			out += line
			continue
		}
		ret = "change"
		out += entry.String()
	}
	if ret == "" {
		ret = "new"
		if out != "" && !strings.HasSuffix(out, "\n") {
			out += "\n"
		}
		out += entry.String()
	}
	test := a.Test
	for k, v := range a.Kwargs.All() {
		test = test || strings.EqualFold(Str(k), "test") && pyIsTrue(v)
	}
	if ret != "present" && !test {
		if err := replaceAtomically(a.Config, []byte(out)); err != nil {
			return nil, ExecErrorf("File not writable %s", a.Config)
		}
	}
	return ret, nil
}

type mountArgs struct {
	Name   string
	Device any    `def:"False"`
	Mkmnt  bool   `def:"False"`
	Fstype string `def:"''"`
	Opts   any    `def:"'defaults'"`
	User   any    `def:"None"`
	Util   string `def:"'mount'"`
}

func mountMount(ctx context.Context, c *Call, a mountArgs) (any, error) {
	if a.Util != "mount" {
		return false, nil
	}
	if !pathExists(a.Name) && a.Mkmnt {
		if err := mkdirIfMissing(ctx, c, a.Name, a.User, nil, nil); err != nil {
			return nil, err
		}
	}
	words := []string{"mount"}
	if Truth(a.Device) {
		if a.Opts != nil {
			words = append(words, "-o", joinOptions(a.Opts))
		}
		if a.Fstype != "" {
			words = append(words, "-t", a.Fstype)
		}
		words = append(words, Str(a.Device))
	}
	return runMountTool(ctx, c, a.User, append(words, a.Name)...)
}

// runMountTool is True, or what the program has to say.
func runMountTool(ctx context.Context, c *Call, user any, words ...string) (any, error) {
	res, err := runSaltTool(ctx, c, toolOptions{runas: user}, words...)
	if err != nil {
		return nil, err
	}
	if res.failed() {
		return res.stderr, nil
	}
	return true, nil
}

type remountArgs struct {
	Name   string
	Device string
	Mkmnt  bool   `def:"False"`
	Fstype string `def:"''"`
	Opts   any    `def:"'defaults'"`
	User   any    `def:"None"`
}

func mountRemount(ctx context.Context, c *Call, a remountArgs) (any, error) {
	if !activeMounts().Has(a.Name) {
		return mountMount(ctx, c, mountArgs{a.Name, a.Device, a.Mkmnt, a.Fstype, a.Opts, a.User, "mount"})
	}
	opts := strings.Split(joinOptions(a.Opts), ",")
	if !slices.Contains(opts, "remount") {
		opts = append(opts, "remount")
	}
	words := []string{"mount", "-o", strings.Join(opts, ",")}
	if a.Fstype != "" {
		words = append(words, "-t", a.Fstype)
	}
	return runMountTool(ctx, c, a.User, append(words, a.Device, a.Name)...)
}

type umountArgs struct {
	Name   string
	Device any    `def:"None"`
	User   any    `def:"None"`
	Util   string `def:"'mount'"`
}

func mountUmount(ctx context.Context, c *Call, a umountArgs) (any, error) {
	if !activeMounts().Has(a.Name) {
		return a.Name + " does not have anything mounted", nil
	}
	what := a.Name
	if Truth(a.Device) {
		what = Str(a.Device)
	}
	return runMountTool(ctx, c, a.User, "umount", what)
}

func mountIsMounted(_ context.Context, _ *Call, a nameArgs) (any, error) {
	return activeMounts().Has(a.Name), nil
}

func mountIsFuseExec(ctx context.Context, _ *Call, a cmdNameArgs) (any, error) {
	path := which(Str(a.Cmd))
	if path == "" {
		return false, nil
	}
	if which("ldd") == "" {
		return nil, NotFoundErrorf("ldd")
	}
	res, err := runTool(ctx, "ldd", path)
	return strings.Contains(res.stdout, "libfuse"), err
}

func activeSwaps() *Map {
	out := &Map{}
	for i, line := range procLines("/proc/swaps") {
		if f := strings.Fields(line); i > 0 && len(f) >= 5 {
			out.Set(f[0], NewMap("type", f[1], "size", f[2], "used", f[3], "priority", f[4]))
		}
	}
	return out
}

func mountSwaps(context.Context, *Call, noArgs) (any, error) { return activeSwaps(), nil }

type swaponArgs struct {
	Name     string
	Priority any `def:"None"`
}

func mountSwapon(ctx context.Context, c *Call, a swaponArgs) (any, error) {
	if st, ok := activeSwaps().Get(a.Name); ok {
		return NewMap("stats", st, "new", false), nil
	}
	words := []string{"swapon", a.Name}
	if Truth(a.Priority) {
		words = append(words, "-p", Str(a.Priority))
	}
	if _, err := runText(ctx, c, words...); err != nil {
		return nil, err
	}
	if st, ok := activeSwaps().Get(a.Name); ok {
		return NewMap("stats", st, "new", true), nil
	}
	return &Map{}, nil
}

func mountSwapoff(ctx context.Context, c *Call, a nameArgs) (any, error) {
	if !activeSwaps().Has(a.Name) {
		return nil, nil
	}
	if _, err := runText(ctx, c, "swapoff", a.Name); err != nil {
		return nil, err
	}
	return !activeSwaps().Has(a.Name), nil
}

func mountCachePath(c *Call) string { return filepath.Join(c.Opts.Path("cachedir"), "mounts") }

// mountCache reads how mount points were mounted last.
func mountCache(c *Call) (whole, mounts *Map) {
	v, err := ParseYAML([]byte(readText(mountCachePath(c))))
	whole, _ = v.(*Map)
	if err != nil || whole == nil {
		whole = &Map{}
	}
	if mounts = whole.Map("mounts"); mounts == nil {
		mounts = &Map{}
		whole.Set("mounts", mounts)
	}
	return whole, mounts
}

func saveMountCache(c *Call, whole *Map) error {
	err := os.MkdirAll(filepath.Dir(mountCachePath(c)), 0o755)
	if err == nil {
		err = writeFileAtomic(mountCachePath(c), []byte(DumpYAML(whole, YAMLOptions{SortKeys: true})), 0o644)
	}
	if err != nil {
		return ExecErrorf("Unable to write mount cache.")
	}
	return nil
}

func mountReadCache(_ context.Context, c *Call, a nameArgs) (any, error) {
	_, mounts := mountCache(c)
	if v, ok := mounts.Get(a.Name); ok {
		return v, nil
	}
	return &Map{}, nil
}

type writeMountCacheArgs struct {
	RealName                         string
	Device, Mkmnt, Fstype, MountOpts any
}

func mountWriteCache(_ context.Context, c *Call, a writeMountCacheArgs) (any, error) {
	whole, mounts := mountCache(c)
	mounts.Set(a.RealName, NewMap("device", a.Device, "fstype", a.Fstype, "mkmnt", a.Mkmnt, "opts", a.MountOpts))
	return true, saveMountCache(c, whole)
}

type realNameArgs struct{ RealName string }

func mountDeleteCache(_ context.Context, c *Call, a realNameArgs) (any, error) {
	whole, mounts := mountCache(c)
	if !mounts.Delete(a.RealName) {
		return true, nil
	}
	return true, saveMountCache(c, whole)
}

// mountPointOf walks up to where another file system begins.
func mountPointOf(path string) string {
	for path = realPath(path); path != "/"; path = filepath.Dir(path) {
		var here, above syscall.Stat_t
		if syscall.Lstat(path, &here) == nil && syscall.Lstat(filepath.Dir(path), &above) == nil && here.Dev != above.Dev {
			return path
		}
	}
	return path
}

func mountFromPath(_ context.Context, _ *Call, a pathArgs) (any, error) {
	return mountPointOf(a.Path), nil
}

func mountDeviceFromPath(_ context.Context, _ *Call, a pathArgs) (any, error) {
	return activeMounts().Map(mountPointOf(a.Path)).Value("device"), nil
}
