// State module lvm: physical volumes, volume groups and logical volumes.
package main

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
)

func lvmStates() Module {
	return Module{
		Doc: "Physical volumes, volume groups and logical volumes.",
		Virtual: func(ctx context.Context, c *Call) (bool, string) {
			if _, err := exec.LookPath("lvm"); err != nil {
				return false, "lvm command not found"
			}
			return c.Has(ctx, "lvm.pvdisplay"), "lvm module could not be loaded"
		},
		Funcs: Funcs{
			"pv_present": {run: lvmStatePVPresent, doc: "The device is a physical volume."},
			"pv_absent":  {run: lvmStatePVAbsent, doc: "The device is no physical volume."},
			"vg_present": {run: lvmStateVGPresent, doc: "The volume group exists and has the devices."},
			"vg_absent":  {run: lvmStateVGAbsent, doc: "There is no such volume group."},
			"lv_present": {run: lvmStateLVPresent, doc: "The logical volume exists with that size; force lets it shrink, resizefs takes its file system along."},
			"lv_absent":  {run: lvmStateLVAbsent, doc: "There is no such logical volume."},
		},
	}
}

// lvmShow calls one of lvm's display functions, without a word of missing ones.
func lvmShow(ctx context.Context, c *Call, fun string, what any) (*Map, error) {
	v, err := c.RunKw(ctx, fun, []any{what}, NewMap("quiet", true))
	if err != nil {
		return nil, err
	}
	m, _ := v.(*Map)
	return m, nil
}

// lvmThing is a kind of thing that is there or not.
type lvmThing struct {
	kind, show string // how to speak of it, and the function that shows it
	what       any    // what to show
	none       string // what is said if it is missing already
}

func (t lvmThing) absent(ctx context.Context, c *Call, name, fun string, args ...any) (any, error) {
	ret := stateReturn(name, true, "")
	have, err := lvmShow(ctx, c, t.show, t.what)
	if err != nil {
		return nil, err
	}
	if have.Len() == 0 {
		return stateSay(ret, true, "%s %s %s", t.kind, name, t.none)
	}
	if c.Testing() {
		return stateSay(ret, nil, "%s %s is set to be removed", t.kind, name)
	}
	changes, err := c.Run(ctx, fun, args...)
	if err != nil {
		return nil, err
	}
	if have, err = lvmShow(ctx, c, t.show, t.what); err != nil {
		return nil, err
	}
	if have.Len() > 0 {
		return stateSay(ret, false, "Failed to remove %s %s", t.kind, name)
	}
	ret.Map("changes").Set("removed", changes)
	return stateSay(ret, true, "Removed %s %s", t.kind, name)
}

// create makes what is missing; the caller has looked.
func (t lvmThing) create(ctx context.Context, c *Call, name, fun string, args []any, kw *Map) (any, error) {
	ret := stateReturn(name, true, "")
	if c.Testing() {
		return stateSay(ret, nil, "%s %s is set to be created", t.kind, name)
	}
	changes, err := c.RunKw(ctx, fun, args, kw)
	if err != nil {
		return nil, err
	}
	have, err := lvmShow(ctx, c, t.show, t.what)
	if err != nil {
		return nil, err
	}
	if have.Len() > 0 {
		ret.Map("changes").Set("created", changes)
		return stateSay(ret, true, "Created %s %s", t.kind, name)
	}
	text := "Failed to create " + t.kind + " " + name
	if m, ok := changes.(*Map); ok && m.Has("Output from lvcreate") {
		text += ". Error: " + Str(m.Value("Output from lvcreate"))
	}
	return stateSay(ret, false, "%s", text)
}

func lvmStatePVPresent(ctx context.Context, c *Call, a stateKwargsNamed) (any, error) {
	t := lvmThing{kind: "Physical Volume", show: "lvm.pvdisplay", what: a.Name}
	have, err := lvmShow(ctx, c, t.show, a.Name)
	if err != nil {
		return nil, err
	}
	if have.Len() > 0 {
		return stateReturn(a.Name, true, "Physical Volume "+a.Name+" already present"), nil
	}
	return t.create(ctx, c, a.Name, "lvm.pvcreate", []any{a.Name}, a.Kwargs.Clone())
}

func lvmStatePVAbsent(ctx context.Context, c *Call, a stateNameArgs) (any, error) {
	return lvmThing{"Physical Volume", "lvm.pvdisplay", a.Name, "does not exist"}.absent(ctx, c, a.Name, "lvm.pvremove", a.Name)
}

func lvmStateVGPresent(ctx context.Context, c *Call, a struct {
	Name    string
	Devices any  `def:"None"`
	Kwargs  *Map `arg:"**kwargs"`
}) (any, error) {
	t := lvmThing{kind: "Volume Group", show: "lvm.vgdisplay", what: a.Name}
	have, err := lvmShow(ctx, c, t.show, a.Name)
	if err != nil {
		return nil, err
	}
	devices := toStrings(a.Devices)
	if have.Len() == 0 {
		return t.create(ctx, c, a.Name, "lvm.vgcreate", []any{a.Name, Strings(devices)}, a.Kwargs.Clone())
	}
	ret := stateReturn(a.Name, true, "Volume Group "+a.Name+" already present")
	say := func(text string, ok bool) {
		ret.Set("comment", ret.Str("comment")+"\n"+text)
		if !ok {
			ret.Set("result", false)
		}
	}
	group := func(device string) (string, bool, error) {
		v, err := c.RunKw(ctx, "lvm.pvdisplay", []any{device}, NewMap("real", true))
		if err != nil {
			return "", false, err
		}
		m, _ := v.(*Map)
		one := m.Map(device)
		return Str(one.Value("Volume Group Name")), one != nil, nil
	}
	for _, d := range devices {
		real := realPath(d)
		in, there, err := group(real)
		if err != nil {
			return nil, err
		}
		switch {
		case !there:
			say("pv "+d+" is not present", false)
		case in == a.Name:
			say(d+" is part of Volume Group", true)
		case in != "" && in != "#orphans_lvm2":
			say(d+" is part of "+in, false)
		case c.Testing():
			// Nothing may change in a dry run, so the group stays as it is.
			ret.Set("result", nil)
			ret.Set("comment", ret.Str("comment")+"\n"+d+" would be added to "+a.Name)
		default:
			if _, err := c.Run(ctx, "lvm.vgextend", a.Name, d); err != nil {
				return nil, err
			}
			if in, _, err = group(real); err != nil {
				return nil, err
			}
			if in == a.Name {
				ret.Map("changes").Set(d, "added to "+a.Name)
			} else {
				say(d+" could not be added", false)
			}
		}
	}
	return ret, nil
}

func lvmStateVGAbsent(ctx context.Context, c *Call, a stateNameArgs) (any, error) {
	return lvmThing{"Volume Group", "lvm.vgdisplay", a.Name, "already absent"}.absent(ctx, c, a.Name, "lvm.vgremove", a.Name)
}

// lvmMegabytes reads a size with its unit, megabytes without one.
func lvmMegabytes(size any) (float64, error) {
	s := strings.ToLower(Str(size))
	bad := func() (float64, error) { return 0, OtherErrorf("ArgumentValueError", "Size %s is invalid.", Str(size)) }
	if len(s) > 1 && strings.HasSuffix(s, "b") {
		s = s[:len(s)-1]
	}
	unit := "m"
	if s != "" && (s[len(s)-1] < '0' || s[len(s)-1] > '9') {
		unit, s = s[len(s)-1:], s[:len(s)-1]
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return bad()
	}
	f := float64(n)
	switch unit {
	case "s":
		return f / 2048, nil
	case "m":
		return f, nil
	case "g":
		return f * 1024, nil
	case "t":
		return f * 1024 * 1024, nil
	case "p":
		return f * 1024 * 1024 * 1024, nil
	}
	return 0, OtherErrorf("ArgumentValueError", "Unit %s is invalid.", unit)
}

func lvmStateLVPresent(ctx context.Context, c *Call, a struct {
	Name       string
	Vgname     any  `def:"None"`
	Size       any  `def:"None"`
	Extents    any  `def:"None"`
	Snapshot   any  `def:"None"`
	Pv         any  `def:"''"`
	Thinvolume any  `def:"False"`
	Thinpool   any  `def:"False"`
	Force      any  `def:"False"`
	Resizefs   any  `def:"False"`
	Kwargs     *Map `arg:"**kwargs"`
}) (any, error) {
	ret := stateReturn(a.Name, true, "")
	if Truth(a.Extents) && Truth(a.Size) {
		return stateSay(ret, false, "Only one of extents or size can be specified.")
	}
	sizeMB := 0.0
	if Truth(a.Size) {
		n, err := lvmMegabytes(a.Size)
		if err != nil {
			return nil, err
		}
		sizeMB = n
	}
	name, snapshot := a.Name, any(nil)
	if Truth(a.Snapshot) {
		name, snapshot = Str(a.Snapshot), a.Name
	}
	path := "/dev/" + Str(a.Vgname) + "/" + name
	if Truth(a.Thinvolume) {
		group, _, _ := strings.Cut(Str(a.Vgname), "/")
		path = "/dev/" + group + "/" + name
	}
	shown, err := lvmShow(ctx, c, "lvm.lvdisplay", path)
	if err != nil {
		return nil, err
	}
	info := shown.Map(path)
	if info.Len() == 0 {
		kw := a.Kwargs.Clone()
		kw.Merge(NewMap("size", a.Size, "extents", a.Extents, "snapshot", snapshot, "pv", a.Pv, "thinvolume", a.Thinvolume, "thinpool", a.Thinpool, "force", a.Force))
		v, err := lvmThing{kind: "Logical Volume", show: "lvm.lvdisplay", what: path}.create(ctx, c, name, "lvm.lvcreate", []any{name, a.Vgname}, kw)
		if m, ok := v.(*Map); ok {
			m.Set("name", a.Name)
		}
		return v, err
	}
	ret.Set("comment", "Logical Volume "+name+" already present")
	if !Truth(a.Size) && !Truth(a.Extents) {
		return ret, nil
	}
	oldExtents, _ := toInt(info.Value("Current Logical Extents Associated"))
	oldMB, err := lvmMegabytes(Str(info.Value("Logical Volume Size")) + "s")
	if err != nil {
		return nil, err
	}
	extents := oldExtents
	if !Truth(a.Size) {
		sizeMB = oldMB
		if strings.Contains(Str(a.Extents), "%") {
			ret.Set("comment", "Logical Volume "+name+" already present, "+Str(a.Extents)+" won't be resized.")
		} else if n, ok := toInt(a.Extents); ok {
			extents = n
		}
	}
	switch {
	case a.Force == false && (sizeMB < oldMB || extents < oldExtents):
		return stateSay(ret, false, "To reduce a Logical Volume option 'force' must be True.")
	case sizeMB == oldMB && extents == oldExtents:
		return ret, nil
	case c.Testing():
		return stateSay(ret, nil, "Logical Volume %s is set to be resized", name)
	}
	kw := NewMap("lvpath", path, "resizefs", a.Resizefs, "force", a.Force)
	if Truth(a.Size) {
		kw.Set("size", a.Size)
	} else {
		kw.Set("extents", extents)
	}
	changes, err := c.RunKw(ctx, "lvm.lvresize", nil, kw)
	if err != nil {
		return nil, err
	}
	if shown, err = lvmShow(ctx, c, "lvm.lvdisplay", path); err != nil {
		return nil, err
	}
	newMB, err := lvmMegabytes(Str(shown.Map(path).Value("Logical Volume Size")) + "s")
	if err != nil {
		return nil, err
	}
	if newMB == oldMB {
		made, _ := changes.(*Map)
		return stateSay(ret, false, "Failed to resize Logical Volume %s.\nError: %s", name, Str(made.Value("Output from lvresize")))
	}
	ret.Map("changes").Set("resized", changes)
	return stateSay(ret, true, "Resized Logical Volume %s", name)
}

func lvmStateLVAbsent(ctx context.Context, c *Call, a struct {
	Name   string
	Vgname any `def:"None"`
}) (any, error) {
	return lvmThing{"Logical Volume", "lvm.lvdisplay", "/dev/" + Str(a.Vgname) + "/" + a.Name, "already absent"}.absent(ctx, c, a.Name, "lvm.lvremove", a.Name, a.Vgname)
}
