// State module mount: what is mounted now. states_mount_fstab.go has what is
// mounted at boot, and swap.
package main

import (
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func mountStates() Module {
	return Module{
		Doc: "File systems, now and at boot, and swap.",
		Funcs: Funcs{
			"mounted":       {run: mountStateMounted, doc: "The device is mounted; with persist the fstab has it too. mkmnt makes the mount point."},
			"unmounted":     {run: mountStateUnmounted, doc: "Nothing is mounted there; with persist the fstab has nothing either."},
			"swap":          {run: mountStateSwap, doc: "The swap is in use; with persist the fstab has it too."},
			"fstab_present": {run: mountStateFstabPresent, doc: "The fstab has the entry. mount_by: device, label, uuid, partlabel or partuuid."},
			"fstab_absent":  {run: mountStateFstabAbsent, doc: "The fstab does not have the entry."},
			"mod_watch":     {run: mountStateWatch, doc: "Mount again because a watched state has changed."},
		},
	}
}

type mountStateArgs struct {
	Name                       string
	Device                     string
	Fstype                     string
	Mkmnt                      any    `def:"False"`
	Opts                       any    `def:"defaults"`
	Dump                       any    `def:"0"`
	PassNum                    any    `def:"0"`
	Config                     string `def:"/etc/fstab"`
	Persist                    any    `def:"True"`
	Mount                      any    `def:"True"`
	User                       any    `def:"None"`
	MatchOn                    any    `def:"auto"`
	DeviceNameRegex            any    `def:"None"`
	ExtraMountInvisibleOptions any    `def:"None"`
	ExtraMountInvisibleKeys    any    `def:"None"`
	ExtraMountIgnoreFsKeys     any    `def:"None"`
	ExtraMountTranslateOptions any    `def:"None"`
	HiddenOpts                 any    `def:"None"`
	BindMountCopyActiveOpts    any    `def:"True"`
	Kwargs                     *Map   `arg:"**kwargs"`
}

func mountsNow(ctx context.Context, c *Call) (*Map, error) {
	v, err := c.RunKw(ctx, "mount.active", nil, NewMap("extended", true))
	if err != nil {
		return nil, err
	}
	m, _ := v.(*Map)
	return mapOrNew(m), nil
}

// mountSize brings size=N with a unit to kilobytes.
func mountSize(opt string) (string, bool) {
	rest, ok := strings.CutPrefix(opt, "size=")
	if !ok {
		return opt, false
	}
	i := 0
	for i < len(rest) && rest[i] >= '0' && rest[i] <= '9' {
		i++
	}
	if i == 0 || i == len(rest) || !strings.ContainsRune("kmg", rune(rest[i])) {
		return opt, false
	}
	n, err := strconv.ParseInt(rest[:i], 10, 64)
	if err != nil {
		return opt, false
	}
	switch rest[i] {
	case 'm':
		n *= 1024
	case 'g':
		n *= 1024 * 1024
	}
	return "size=" + strconv.FormatInt(n, 10) + "k", true
}

// mountWork is one mounted state on its way.
type mountWork struct {
	a          mountStateArgs
	ret        *Map
	opts       []string
	real       string // the mount point, links followed
	active     *Map
	here       *Map // what is mounted there
	realDevice string
	devices    []string // names of what is mounted there
	cache      bool     // the mount cache has to be written
}

func (w *mountWork) optList() *List { return Strings(w.opts) }

// findDevice works out which device a state means.
func (w *mountWork) findDevice(ctx context.Context, c *Call) (ok bool, err error) {
	device := w.a.Device
	upper := strings.ToUpper(device)
	comp := strings.ReplaceAll(w.real, " ", `\040`)
	switch {
	case strings.HasPrefix(device, "/") && slices.Contains(w.opts, "bind") && w.active.Has(comp):
		w.bindDevice(comp)
	case strings.HasPrefix(device, "/"):
		w.realDevice = realPath(device)
	case strings.HasPrefix(upper, "UUID="):
		w.realDevice = strings.ToLower(strings.Trim(strings.SplitN(device, "=", 3)[1], `"`))
	case strings.HasPrefix(upper, "LABEL="):
		label := strings.SplitN(device, "=", 3)[1]
		out, err := runMap(ctx, c, "cmd.run_all", "blkid -t LABEL="+label)
		if err != nil {
			return false, err
		}
		found, _, _ := strings.Cut(Str(out.Value("stdout")), ":")
		if n, _ := toInt(out.Value("retcode")); n > 0 || found == "" {
			w.ret.Set("comment", "Unable to find device with label "+label+".")
			w.ret.Set("result", false)
			return false, nil
		}
		w.devices = append(w.devices, found)
		w.realDevice = found
	default:
		w.realDevice = device
	}
	if parts := strings.Split(device, "/"); len(parts) == 4 && parts[0] == "" && parts[1] == "dev" && parts[2] != "" && parts[3] != "" {
		mapper := "/dev/mapper/" + strings.ReplaceAll(parts[2], "-", "--") + "-" + strings.ReplaceAll(parts[3], "-", "--")
		if pathExists(mapper) {
			w.realDevice = mapper
		}
	}
	if kind, name, ok := strings.Cut(device, "#"); ok && kind != "" && name != "" && !strings.ContainsAny(kind, "/:.- ") {
		w.realDevice = name
	}
	return true, nil
}

// bindDevice finds the file system that a bind mount shows.
func (w *mountWork) bindDevice(comp string) {
	here := w.active.Map(comp)
	take := func(m *Map) {
		if Truth(w.a.BindMountCopyActiveOpts) {
			w.opts = append(w.opts, texts(m.List("opts"))...)
			w.opts = append(w.opts, texts(m.List("superopts"))...)
			slices.Sort(w.opts)
			w.opts = slices.Compact(w.opts)
		}
		if l := here.List("opts"); l != nil {
			l.Append("bind")
		}
	}
	device := strings.ReplaceAll(w.a.Device, " ", `\040`)
	if !strings.HasPrefix(here.Str("device"), "/") {
		if m := w.active.Map(device); m != nil {
			take(m)
		}
		w.realDevice = here.Str("device")
		return
	}
	for {
		if m := w.active.Map(device); m != nil {
			w.realDevice = m.Str("device")
			take(m)
			return
		}
		if device == "/" || device == "." {
			w.realDevice = realPath(w.a.Device)
			return
		}
		device = filepath.Dir(strings.ReplaceAll(device, `\040`, " "))
	}
}

// changedOptions lists the options that are wanted and not in use. Options that
// the kernel does not show are left out.
func (w *mountWork) changedOptions(ctx context.Context, c *Call) ([]string, error) {
	invisible := []string{"_netdev", "actimeo", "bg", "comment", "defaults", "delay_connect", "direct-io-mode", "intr", "loop", "nointr", "nobootwait",
		"nofail", "password", "reconnect", "retry", "soft", "auto", "users", "bind", "nonempty", "transform_symlinks", "port", "backup-volfile-servers"}
	invisible = append(append(invisible, toStrings(w.a.ExtraMountInvisibleOptions)...), toStrings(w.a.HiddenOpts)...)
	keys := []string{"actimeo", "comment", "credentials", "direct-io-mode", "password", "port", "retry", "secretfile"}
	keys = append(keys, toStrings(w.a.ExtraMountInvisibleKeys)...)
	ignore := NewMap("ramfs", Strings([]string{"size"}))
	if m, ok := w.a.ExtraMountIgnoreFsKeys.(*Map); ok {
		ignore.Merge(m)
	}
	ignored := toStrings(ignore.Value(w.a.Fstype))
	translate := NewMap("tcp", "proto=tcp", "udp", "proto=udp")
	if m, ok := w.a.ExtraMountTranslateOptions.(*Map); ok {
		translate.Merge(m)
	}
	super := texts(w.here.List("superopts"))
	var changed []string
	for _, opt := range w.opts {
		if v, ok := translate.Get(opt); ok {
			opt = Str(v)
		}
		key, val, hasVal := strings.Cut(opt, "=")
		if slices.Contains(keys, key) {
			opt = key
		}
		opt, _ = mountSize(opt)
		if w.a.Fstype == "cifs" && key == "user" {
			opt = "username=" + val
		}
		if slices.Contains(ignored, key) {
			opt = key
		}
		if fun := map[string]string{"uid": "user.info", "gid": "group.info"}[key]; fun != "" && hasVal {
			id := val
			if _, err := strconv.Atoi(val); err != nil {
				info, err := runMap(ctx, c, fun, val)
				if err != nil {
					return nil, err
				}
				if v, ok := info.Get(key); ok {
					id = Str(v)
				}
			}
			opt = key + "=" + id
		}
		for i, s := range super {
			if size, ok := mountSize(s); ok {
				super[i], opt = size, size
			}
		}
		if !hasItem(w.here.List("opts").items(), opt) && !slices.Contains(super, opt) && !slices.Contains(invisible, opt) &&
			!slices.Contains(ignored, opt) && !slices.Contains(keys, opt) {
			changed = append(changed, opt)
		}
	}
	return changed, nil
}

// items are the items of a list that may be nil.
func (l *List) items() []any {
	if l == nil {
		return nil
	}
	return l.Items
}

// again mounts once more because options changed; false ends the state.
func (w *mountWork) again(ctx context.Context, c *Call, why string) (bool, error) {
	changes := w.ret.Map("changes")
	kw := NewMap("mkmnt", w.a.Mkmnt, "fstype", w.a.Fstype, "opts", w.optList())
	w.cache = true
	if w.a.Fstype == "nfs" || w.a.Fstype == "cvfs" || strings.HasPrefix(w.a.Fstype, "fuse") {
		changes.Set("umount", "Forced unmount and mount because options ("+why+") changed")
		out, err := c.Run(ctx, "mount.umount", w.real)
		if err != nil {
			return false, err
		}
		if out != true {
			w.ret.Set("result", false)
			w.ret.Set("comment", "Unable to unmount "+w.real+": "+Str(out)+".")
			return false, nil
		}
		out, err = c.RunKw(ctx, "mount.mount", []any{w.real, w.a.Device}, kw)
		w.ret.Set("result", out)
		return true, err
	}
	changes.Set("umount", "Forced remount because options ("+why+") changed")
	out, err := c.RunKw(ctx, "mount.remount", []any{w.real, w.a.Device}, kw)
	w.ret.Set("result", out)
	w.opts = slices.DeleteFunc(w.opts, func(s string) bool { return s == "remount" })
	return true, err
}

// compare looks at what is mounted where the state wants its device.
func (w *mountWork) compare(ctx context.Context, c *Call) (goOn bool, err error) {
	device := w.here.Str("device")
	w.devices = append(w.devices, device)
	w.devices = append(w.devices, realPath(w.devices[0]))
	for _, k := range []string{"alt_device", "device_uuid", "device_label"} {
		if s := w.here.Str(k); s != "" && !slices.Contains(w.devices, s) {
			w.devices = append(w.devices, s)
		}
	}
	if len(w.opts) > 0 {
		changed, err := w.changedOptions(ctx, c)
		if err != nil {
			return false, err
		}
		if len(changed) > 0 {
			slices.Sort(changed)
			why := strings.Join(changed, ",")
			if c.Testing() {
				_, err := stateSay(w.ret, nil, "Remount would be forced because options (%s) changed", why)
				return false, err
			}
			if ok, err := w.again(ctx, c, why); !ok || err != nil {
				return false, err
			}
		}
		cached, err := runMap(ctx, c, "mount.read_mount_cache", w.real)
		if err != nil {
			return false, err
		}
		if old, ok := cached.Get("opts"); ok {
			var gone []string
			for _, o := range toStrings(old) {
				if !slices.Contains(w.opts, o) {
					gone = append(gone, o)
				}
			}
			if len(gone) > 0 {
				if c.Testing() {
					_, err := stateSay(w.ret, nil, "Remount would be forced because options (%s)changed", strings.Join(gone, ","))
					return false, err
				}
				if ok, err := w.again(ctx, c, w.opts[len(w.opts)-1]); !ok || err != nil {
					return false, err
				}
			}
		} else {
			w.cache = true
		}
	}
	if slices.Contains(w.devices, w.realDevice) {
		w.ret.Set("comment", "Target was already mounted")
		return true, nil
	}
	for _, pattern := range toItems(w.a.DeviceNameRegex) {
		re, err := regexp.Compile(`^(?:` + Str(pattern) + `)`)
		if err != nil {
			return false, InvocationErrorf("device_name_regex: %v", err)
		}
		for _, d := range w.devices {
			if re.MatchString(d) {
				_, err := stateSay(w.ret, true, "An umount will not be forced because device matched device_name_regex: %s", d)
				return true, err
			}
		}
	}
	if c.Testing() {
		_, err := stateSay(w.ret, nil, "An umount would have been forced because devices do not match.  Watched: %s", w.a.Device)
		return true, err
	}
	text := "Forced unmount because devices don't match. Wanted: " + w.a.Device
	if w.realDevice != w.a.Device {
		text += " (" + w.realDevice + ")"
	}
	w.ret.Map("changes").Set("umount", text+", current: "+strings.Join(w.devices, ", "))
	if _, err := c.RunKw(ctx, "mount.umount", []any{w.real}, NewMap("user", w.a.User)); err != nil {
		return false, err
	}
	if w.active, err = mountsNow(ctx, c); err != nil {
		return false, err
	}
	if w.active.Has(strings.ReplaceAll(w.real, " ", `\040`)) {
		_, err := stateSay(w.ret, nil, "Unable to unmount")
		return false, err
	}
	w.cache = true
	return true, nil
}

// attach mounts what is not mounted.
func (w *mountWork) attach(ctx context.Context, c *Call) (goOn bool, err error) {
	name, exists, make := w.a.Name, pathExists(w.a.Name), Truth(w.a.Mkmnt)
	say := func(result any, text string) {
		w.ret.Set("result", result)
		w.ret.Set("comment", text)
	}
	switch {
	case Truth(w.a.Mount) && c.Testing():
		switch {
		case exists:
			say(nil, name+" would be mounted")
		case make:
			say(nil, name+" would be created and mounted")
		default:
			say(nil, name+" does not exist and would not be created")
		}
		return false, nil
	case Truth(w.a.Mount):
		if !exists && !make {
			say(false, "Mount directory is not present")
			return false, nil
		}
		out, err := c.RunKw(ctx, "mount.mount", []any{name, w.a.Device, w.a.Mkmnt, w.a.Fstype, w.optList()}, NewMap("user", w.a.User))
		if err != nil {
			return false, err
		}
		if w.active, err = mountsNow(ctx, c); err != nil {
			return false, err
		}
		w.cache = true
		if s, ok := out.(string); ok {
			say(false, s)
			return false, nil
		}
		if w.active.Has(strings.ReplaceAll(w.real, " ", `\040`)) {
			w.ret.Set("comment", "Target was successfully mounted")
			w.ret.Map("changes").Set("mount", true)
		}
	case !exists && c.Testing() && make:
		say(nil, name+" would be created, but not mounted")
	case !exists && c.Testing():
		say(nil, name+" does not exist and would neither be created nor mounted")
	case !exists && make:
		if _, err := c.RunKw(ctx, "file.mkdir", []any{name}, NewMap("user", w.a.User)); err != nil {
			return false, err
		}
		w.ret.Set("comment", name+" was created, not mounted")
	case !exists:
		w.ret.Set("comment", name+" not present and not mounted")
	case c.Testing():
		w.ret.Set("comment", name+" would not be mounted")
	default:
		w.ret.Set("comment", name+" not mounted")
	}
	return true, nil
}

func mountStateMounted(ctx context.Context, c *Call, a mountStateArgs) (any, error) {
	ret := stateReturn(a.Name, true, "")
	for _, f := range []struct{ name, v string }{{"name", a.Name}, {"device", a.Device}, {"fstype", a.Fstype}} {
		if f.v == "" {
			return stateSay(ret, false, "Must provide %s to mount.mounted", f.name)
		}
	}
	w := &mountWork{a: a, ret: ret, opts: toStrings(a.Opts)}
	if w.a.Name != "/" {
		w.a.Name = strings.TrimRight(a.Name, "/")
	}
	w.real = realPath(w.a.Name)
	comp := strings.ReplaceAll(w.real, " ", `\040`)
	var err error
	if w.active, err = mountsNow(ctx, c); err != nil {
		return nil, err
	}
	if ok, err := w.findDevice(ctx, c); err != nil || !ok {
		return ret, err
	}
	if w.here = w.active.Map(comp); w.here != nil && Truth(a.Mount) {
		if goOn, err := w.compare(ctx, c); err != nil || !goOn {
			return ret, err
		}
	}
	if !w.active.Has(comp) {
		if goOn, err := w.attach(ctx, c); err != nil || !goOn {
			return ret, err
		}
	}
	if !Truth(a.Persist) {
		return ret, nil
	}
	return w.persist(ctx, c)
}

// persist writes the fstab.
func (w *mountWork) persist(ctx context.Context, c *Call) (any, error) {
	ret, a := w.ret, w.a
	args := []any{a.Name, a.Device, a.Fstype, w.optList(), a.Dump, a.PassNum, a.Config}
	kw := NewMap("match_on", a.MatchOn)
	have := Str(ret.Value("comment"))
	if c.Testing() {
		kw.Set("test", true)
		out, err := c.RunKw(ctx, "mount.set_fstab", args, kw)
		if err != nil || out == "present" {
			return ret, err
		}
		ret.Set("result", nil)
		text := ""
		switch mount := Truth(a.Mount); {
		case out == "new" && mount:
			text = a.Name + " is mounted, but needs to be written to the fstab in order to be made persistent."
		case out == "new":
			text = a.Name + " needs to be written to the fstab in order to be made persistent."
		case out == "change" && mount:
			text = a.Name + " is mounted, but its fstab entry must be updated."
		case out == "change":
			text = "The " + a.Name + " fstab entry must be updated."
		default:
			ret.Set("result", false)
			text = "Unable to detect fstab status for mount point " + a.Name + " due to unexpected output '" + Str(out) +
				"' from call to mount.set_fstab. This is most likely a bug."
		}
		ret.Set("comment", have+". "+text)
		return ret, nil
	}
	out, err := c.RunKw(ctx, "mount.set_fstab", args, kw)
	if err != nil {
		return nil, err
	}
	if w.cache {
		if _, err := c.RunKw(ctx, "mount.write_mount_cache", []any{w.real, a.Device},
			NewMap("mkmnt", a.Mkmnt, "fstype", a.Fstype, "mount_opts", w.optList())); err != nil {
			return nil, err
		}
	}
	if out == "present" {
		ret.Set("comment", have+". Entry already exists in the fstab.")
		return ret, nil
	}
	return fstabWritten(ret, out)
}

// fstabWritten reports what set_fstab did.
func fstabWritten(ret *Map, out any) (any, error) {
	have := Str(ret.Value("comment"))
	switch out {
	case "new":
		ret.Map("changes").Set("persist", "new")
		ret.Set("comment", have+". Added new entry to the fstab.")
	case "change":
		ret.Map("changes").Set("persist", "update")
		ret.Set("comment", have+". Updated the entry in the fstab.")
	case "bad config":
		ret.Set("result", false)
		ret.Set("comment", have+". However, the fstab was not found.")
	}
	return ret, nil
}

func mountStateUnmounted(ctx context.Context, c *Call, a struct {
	Name    string
	Device  any    `def:"None"`
	Config  string `def:"/etc/fstab"`
	Persist any    `def:"False"`
	User    any    `def:"None"`
	Kwargs  *Map   `arg:"**kwargs"`
}) (any, error) {
	ret := stateReturn(a.Name, true, "")
	if a.Name == "" {
		return stateSay(ret, false, "Must provide name to mount.unmounted")
	}
	active, err := mountsNow(ctx, c)
	if err != nil {
		return nil, err
	}
	if active.Has(strings.ReplaceAll(a.Name, " ", `\040`)) {
		if c.Testing() {
			return stateSay(ret, nil, "Mount point %s is mounted but should not be", a.Name)
		}
		args := []any{a.Name}
		if Truth(a.Device) {
			args = append(args, a.Device)
		}
		out, err := c.RunKw(ctx, "mount.umount", args, NewMap("user", a.User))
		if err != nil {
			return nil, err
		}
		switch {
		case TypeName(out) == "str":
			ret.Set("comment", out)
			ret.Set("result", false)
		case out == true:
			ret.Set("comment", "Target was successfully unmounted")
			ret.Map("changes").Set("umount", true)
		default:
			ret.Set("comment", "Execute set to False, Target was not unmounted")
		}
		if _, err := c.Run(ctx, "mount.delete_mount_cache", a.Name); err != nil {
			return nil, err
		}
	} else {
		ret.Set("comment", "Target was already unmounted")
	}
	if !Truth(a.Persist) {
		return ret, nil
	}
	have := Str(ret.Value("comment"))
	fstab, err := runMap(ctx, c, "mount.fstab", a.Config)
	if err != nil {
		return nil, err
	}
	entry := fstab.Map(a.Name)
	switch {
	case entry == nil:
		ret.Set("comment", have+". fstab entry not found")
		return ret, nil
	case Truth(a.Device) && !Equal(entry.Value("device"), a.Device):
		ret.Set("comment", have+". fstab entry for device "+Str(a.Device)+" not found")
		return ret, nil
	case c.Testing():
		return stateSay(ret, nil, "Mount point %s is unmounted but needs to be purged from %s to be made persistent", a.Name, a.Config)
	}
	out, err := c.Run(ctx, "mount.rm_fstab", a.Name, a.Device, a.Config)
	if err != nil {
		return nil, err
	}
	if out != true {
		return stateSay(ret, false, "%s. Failed to persist purge", have)
	}
	ret.Map("changes").Set("persist", "purged")
	ret.Set("comment", have+". Removed target from fstab")
	return ret, nil
}

func mountStateWatch(ctx context.Context, c *Call, a struct {
	Name   string
	User   any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}) (any, error) {
	ret := stateReturn(a.Name, true, "")
	if a.Kwargs.Value("sfun") != "mounted" {
		return stateSay(ret, true, "Watch not supported in %s at this time", a.Kwargs.Str("sfun"))
	}
	out, err := c.RunKw(ctx, "mount.remount", []any{a.Name, a.Kwargs.Value("device"), false, a.Kwargs.Value("fstype"), a.Kwargs.Value("opts")},
		NewMap("user", a.User))
	if err != nil {
		return nil, err
	}
	if !Truth(out) {
		return stateSay(ret, false, "%s failed to remount: %s", a.Name, Str(out))
	}
	return stateSay(ret, true, "%s remounted", a.Name)
}
