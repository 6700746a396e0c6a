// Grains: what a minion knows about its box.
//
// The law of this room: grains come from files and the kernel; a program is
// asked only for what stands in no file, and all programs and name look-ups run
// side by side and are bounded in time, so that a box without DNS is no slower.
// Everything is read below a root directory, which tests replace by a recorded
// tree. Later sources win: core grains, the grains file, the option grains.
package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"runtime/debug"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

// grainsLookupTime bounds all name look-ups together, grainsProgramTime each
// program.
const (
	grainsLookupTime  = time.Second
	grainsProgramTime = 5 * time.Second
)

// grainBox is the box that is looked at.
type grainBox struct {
	root string // "" is the real one
	opts *Options
	// run returns what a program prints, "" if it is missing or fails. nil in
	// recorded trees.
	run func(ctx context.Context, args ...string) string
}

// at is a path below the root.
func (b *grainBox) at(path string) string { return b.root + path }

// read returns a file's text, "" if it cannot be read.
func (b *grainBox) read(path string) string {
	p, err := os.ReadFile(b.at(path))
	if err != nil {
		return ""
	}
	text, _ := decodeText(p, "")
	return text
}

func (b *grainBox) exists(path string) bool {
	_, err := os.Stat(b.at(path))
	return err == nil
}

// lines returns the lines of a file.
func (b *grainBox) lines(path string) []string {
	return strings.FieldsFunc(b.read(path), func(r rune) bool { return r == '\n' })
}

// which finds a program, as which does, in the usual places below the root.
func (b *grainBox) which(name string) string {
	if b.root == "" {
		return which(name)
	}
	for _, dir := range []string{"/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/"} {
		if b.exists(dir + name) {
			return dir + name
		}
	}
	return ""
}

// program runs a program if it is installed.
func (b *grainBox) program(ctx context.Context, args ...string) string {
	if b.run == nil || b.which(args[0]) == "" {
		return ""
	}
	return b.run(ctx, args...)
}

// runForGrains is grainBox.run of a real box.
func runForGrains(ctx context.Context, args ...string) string {
	res, err := runToolIn(ctx, program{args: args, umask: -1, empty: true, dir: "/", timeout: grainsProgramTime})
	if err != nil || res.retcode != 0 {
		return ""
	}
	return strings.TrimRight(res.stdout, "\n")
}

// CoreGrains collects the grains of this box: core grains, those of the grains
// file and those of the option grains. Grains that users wrote come on top by
// MergeGrains.
func CoreGrains(ctx context.Context, o *Options) *Map {
	if o.Bool("skip_grains") {
		return &Map{}
	}
	b := &grainBox{opts: o, run: runForGrains}
	g := b.collect(ctx)
	MergeGrains(o, g, StaticGrains(o, nil))
	if own := o.Map("grains"); own != nil {
		MergeGrains(o, g, DeepCopy(own).(*Map))
	}
	return g
}

// MergeGrains sets grains on top of others, without those that the option
// grains_blacklist names, deeply with grains_deep_merge.
func MergeGrains(o *Options, into, more *Map) {
	drop := o.List("grains_blacklist")
	for k, v := range more.All() {
		blocked := false
		for _, glob := range drop {
			blocked = blocked || GlobMatch(glob, Str(k))
		}
		if blocked {
			continue
		}
		if have, ok := into.Value(k).(*Map); ok && o.Bool("grains_deep_merge") {
			if add, ok := v.(*Map); ok {
				UpdateMap(have, add, false)
				continue
			}
		}
		into.Set(k, v)
	}
}

// grainsFile is the file of static grains, beside the configuration.
func grainsFile(o *Options) string {
	conf := o.Str("conf_file")
	if st, err := os.Stat(conf); err == nil && st.IsDir() {
		return filepath.Join(conf, "grains")
	}
	if conf == "" {
		return filepath.Join(o.ConfigDir(), "grains")
	}
	return filepath.Join(filepath.Dir(conf), "grains")
}

// StaticGrains reads the grains file; one that cannot be read counts as empty.
func StaticGrains(o *Options, log *slog.Logger) *Map {
	src, err := os.ReadFile(grainsFile(o))
	if err != nil {
		return &Map{}
	}
	v, err := ParseYAML(src)
	if err != nil {
		if log != nil {
			log.Warn("Bad syntax in grains file! Skipping.")
		}
		return &Map{}
	}
	m, _ := v.(*Map)
	if m == nil {
		return &Map{}
	}
	return m
}

// collect gathers everything, what takes time side by side.
func (b *grainBox) collect(ctx context.Context) *Map {
	g := &Map{}
	parts := []func(context.Context) *Map{
		b.processGrains, b.gatewayGrains, b.dnsGrains, b.identityGrains, b.nameGrains, b.kernelGrains,
		b.osGrains, b.systemdGrains, b.initGrains, b.cpuGrains, b.memoryGrains, b.gpuGrains, b.hardwareGrains,
		b.virtualGrains, b.diskGrains, b.storageGrains, b.miscGrains,
	}
	got := make([]*Map, len(parts))
	var wg sync.WaitGroup
	for i, part := range parts {
		wg.Go(func() { got[i] = part(ctx) })
	}
	wg.Wait()
	for _, m := range got {
		MergeGrains(b.opts, g, m)
	}
	if arch := b.osArch(ctx, g.Str("os_family"), g.Str("cpuarch")); arch != nil {
		MergeGrains(b.opts, g, NewMap("osarch", arch))
	}
	return g
}

// processGrains describes this process and its configuration.
func (b *grainBox) processGrains(context.Context) *Map {
	cwd, _ := os.Getwd()
	path := strings.TrimSpace(os.Getenv("PATH"))
	u, _ := userByID(os.Geteuid())
	gr, _ := groupByID(u.gid)
	exe, _ := os.Executable()
	m := NewMap("cwd", cwd, "path", path, "systempath", Strings(strings.Split(path, ":")),
		"username", u.name, "groupname", gr.name, "pid", os.Getpid(), "gid", os.Getegid(), "uid", os.Geteuid(),
		"shell", defaultShell(), "saltpath", filepath.Dir(exe), "saltversion", saltVersion,
		"saltversioninfo", saltVersionInfo(), "zmqversion", moduleVersion("github.com/go-zeromq/zmq4"),
		// Formulas choose the names of Python packages by this one: what the
		// packages of that Salt release bring along.
		"pythonversion", NewList(int64(3), int64(10), int64(0), "final", int64(0)))
	for _, k := range []string{"pid", "gid", "uid"} {
		m.Set(k, FromGo(m.Value(k)))
	}
	return m
}

// moduleVersion is the version of a library in this program.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == path {
				return strings.TrimPrefix(d.Version, "v")
			}
		}
	}
	return ""
}

// identityGrains names the minion and the box.
func (b *grainBox) identityGrains(context.Context) *Map {
	m := &Map{}
	for _, path := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		if b.exists(path) {
			m.Set("machine_id", strings.TrimSpace(b.read(path)))
			break
		}
	}
	id := b.opts.Str("id")
	sum := sha256.Sum256([]byte(id))
	n := new(big.Int).Mod(new(big.Int).SetBytes(sum[:]), big.NewInt(1<<31))
	master := b.opts.Value("master")
	if master == nil {
		master = ""
	}
	m.Set("master", DeepCopy(master))
	m.Set("server_id", n.Int64())
	m.Set("id", id)
	if domain := b.opts.Str("append_domain"); domain != "" {
		m.Set("append_domain", domain)
	}
	return m
}

// kernelGrains describes the kernel.
func (b *grainBox) kernelGrains(context.Context) *Map {
	m := NewMap("kernel", "Linux")
	u := uname()
	if b.root == "" {
		m = NewMap("kernel", u.system, "nodename", u.node, "kernelrelease", u.release, "kernelversion", u.version, "cpuarch", u.machine)
	}
	if cmdline := b.read("/proc/cmdline"); cmdline != "" {
		words, err := splitShell(cmdline)
		if err != nil {
			words = strings.Fields(cmdline)
		}
		params := &List{}
		for _, w := range words {
			parts := strings.Split(w, "=")
			var value any
			if len(parts) == 2 {
				value = strings.Trim(parts[1], `"`)
			}
			params.Append(NewList(parts[0], value))
		}
		m.Set("kernelparams", params)
	}
	return m
}

// unameInfo is what uname(2) tells.
type unameInfo struct{ system, node, release, version, machine string }

func uname() unameInfo {
	var u syscall.Utsname
	if err := syscall.Uname(&u); err != nil {
		return unameInfo{system: "Linux"}
	}
	return unameInfo{utsText(u.Sysname[:]), utsText(u.Nodename[:]), utsText(u.Release[:]), utsText(u.Version[:]), utsText(u.Machine[:])}
}

// utsText reads a field of uname(2), whose bytes are signed on some machines.
func utsText[T int8 | uint8](field []T) string {
	var out []byte
	for _, c := range field {
		if c == 0 {
			break
		}
		out = append(out, byte(c))
	}
	return string(out)
}

// initGrains names the init system.
func (b *grainBox) initGrains(context.Context) *Map {
	return NewMap("init", b.initSystem())
}

func (b *grainBox) initSystem() string {
	if b.exists("/run/systemd/system") {
		return "systemd"
	}
	words := strings.Fields(strings.ReplaceAll(b.read("/proc/1/cmdline"), "\x00", " "))
	if len(words) == 0 {
		return "unknown"
	}
	has := func(path string) bool {
		for _, w := range words {
			if path != "" && w == path {
				return true
			}
		}
		return false
	}
	bin := words[0]
	if !strings.Contains(bin, "/") {
		bin = b.which(bin)
	}
	switch {
	case strings.HasSuffix(bin, "bin/init") && b.exists(bin):
		text := strings.ToLower(b.read(bin))
		for _, name := range []string{"upstart", "sysvinit", "systemd"} {
			if strings.Contains(text, name) {
				return name
			}
		}
		return "unknown"
	case has(b.which("supervisord")):
		return "supervisord"
	case has(b.which("dumb-init")):
		return "dumb-init"
	case has(b.which("tini")):
		return "tini"
	case len(words) == 1 && words[0] == "runit", has("/sbin/my_init"):
		return "runit"
	}
	return "unknown"
}

// systemdGrains tells the version of systemd, where its tools are installed.
func (b *grainBox) systemdGrains(ctx context.Context) *Map {
	m := &Map{}
	if b.which("selinuxenabled") != "" {
		mode := strings.TrimSpace(b.read("/sys/fs/selinux/enforce"))
		se := NewMap("enabled", mode != "")
		if b.which("getenforce") != "" {
			se.Set("enforced", map[string]string{"1": "Enforcing", "0": "Permissive", "": "Disabled"}[mode])
		}
		m.Set("selinux", se)
	}
	if b.which("systemctl") == "" || b.which("localectl") == "" {
		return m
	}
	version, features := "UNDEFINED", ""
	if out := strings.Split(b.program(ctx, "systemctl", "--version"), "\n"); len(out) > 1 && strings.HasPrefix(out[0], "systemd ") {
		version, features = strings.Fields(out[0])[1], out[1]
	}
	m.Set("systemd", NewMap("version", version, "features", features))
	return m
}

// miscGrains are small facts that fit nowhere else.
func (b *grainBox) miscGrains(context.Context) *Map {
	language, encoding := localeNames(os.Getenv)
	zone, _ := time.Now().Zone()
	m := NewMap("ps", "ps -efHww",
		"locale_info", NewMap("defaultlanguage", language, "defaultencoding", encoding, "detectedencoding", "utf-8", "timezone", zone),
		"transactional", b.which("transactional-update") != "", "efi", false, "efi-secure-boot", false)
	for _, dir := range []string{"/sys/firmware/efi/efivars", "/sys/firmware/efi/vars"} {
		if !b.exists(dir) {
			continue
		}
		m.Set("efi", true)
		found, _ := filepath.Glob(b.at(dir) + "/SecureBoot-*")
		if strings.HasSuffix(dir, "/vars") {
			found, _ = filepath.Glob(b.at(dir) + "/SecureBoot-*/data")
		}
		if len(found) == 1 {
			p, err := os.ReadFile(found[0])
			m.Set("efi-secure-boot", err == nil && len(p) > 0 && p[len(p)-1] == 1)
		}
		break
	}
	if opts := b.opts; opts.Bool("grain_opts") {
		m.Set("opts", DeepCopy(opts.All()))
	}
	return m
}

// localeNames is the language and the encoding of the locale, as Python names
// them; the C locale is read as UTF-8.
func localeNames(getenv func(string) string) (language, encoding any) {
	name := ""
	for _, k := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if name = getenv(k); name != "" {
			break
		}
	}
	if (name == "C" || name == "POSIX") && getenv("LC_ALL") != "" {
		return nil, nil
	}
	lang, enc, _ := strings.Cut(name, ".")
	if lang == "" || lang == "C" || lang == "POSIX" {
		lang, enc = "en_US", "UTF-8"
	}
	if enc == "" {
		enc = "ISO8859-1"
	}
	if e := strings.ToUpper(strings.ReplaceAll(enc, "-", "")); e == "UTF8" {
		enc = "UTF-8"
	}
	enc, _, _ = strings.Cut(enc, "@")
	return lang, enc
}

// diskGrains lists disks: those that turn, and those that do not.
func (b *grainBox) diskGrains(context.Context) *Map {
	disks, ssds := &List{}, &List{}
	entries, _ := filepath.Glob(b.at("/sys/block/*"))
	sort.Strings(entries)
	for _, entry := range entries {
		if link, err := os.Readlink(entry); err == nil && strings.HasPrefix(link, "../devices/virtual/") {
			continue
		}
		p, err := os.ReadFile(entry + "/queue/rotational")
		if err != nil || len(p) == 0 {
			continue
		}
		switch p[0] {
		case '0':
			ssds.Append(filepath.Base(entry))
		case '1':
			disks.Append(filepath.Base(entry))
		}
	}
	return NewMap("disks", disks, "ssds", ssds)
}

// storageGrains describes what lies above disks: RAID, LVM, ZFS, iSCSI, NVMe.
func (b *grainBox) storageGrains(ctx context.Context) *Map {
	m := &Map{}
	if b.exists("/proc/mdstat") {
		seen := map[string]bool{}
		for _, line := range b.lines("/proc/mdstat") {
			if name, _, ok := strings.Cut(line, " : "); ok && !strings.HasPrefix(line, "Personalities : ") && !strings.HasPrefix(line, "unused devices:") {
				seen[name] = true
			}
		}
		m.Set("mdadm", sortedList(seen))
	}
	if b.which("lvm") != "" {
		groups := &Map{}
		for _, vg := range strings.Fields(b.program(ctx, "lvm", "vgs", "-o", "vg_name", "--noheadings")) {
			groups.Set(vg, Strings(strings.Fields(b.program(ctx, "lvm", "lvs", "-o", "lv_name", "--noheadings", vg))))
		}
		m.Set("lvm", groups)
	}
	zfs := b.which("zfs") != "" && b.exists("/sys/module/zfs")
	m.Set("zfs_support", zfs)
	m.Set("zfs_feature_flags", zfs)
	if zfs {
		pools := &Map{}
		for _, line := range strings.Split(b.program(ctx, "zpool", "list", "-H", "-o", "name,size"), "\n") {
			if f := strings.Fields(line); len(f) == 2 {
				pools.Set(f[0], f[1])
			}
		}
		if pools.Len() > 0 {
			m.Set("zpool", pools)
		}
	}
	prefixed := func(path, prefix string, cut int) *List {
		out := &List{}
		for _, line := range b.lines(path) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, prefix) {
				out.Append(line[cut:])
			}
		}
		return out
	}
	if b.opts.Bool("iscsi_grains") {
		m.Set("iscsi_iqn", prefixed("/etc/iscsi/initiatorname.iscsi", "InitiatorName=", len("InitiatorName=")))
	}
	if b.opts.Bool("nvme_grains") {
		m.Set("nvme_nqn", prefixed("/etc/nvme/hostnqn", "nqn.", 0))
	}
	return m
}

// leadingInt is fmt.Sscan of one integer, 0 if there is none.
func leadingInt(s string) int64 {
	var n int64
	_, _ = fmt.Sscan(s, &n)
	return n
}
