// State module mount: swap, and entries of the fstab by themselves.
package main

import (
	"context"
	"path/filepath"
	"strings"
)

func mountStateSwap(ctx context.Context, c *Call, a struct {
	Name    string
	Persist any    `def:"True"`
	Config  string `def:"/etc/fstab"`
}) (any, error) {
	ret := stateReturn(a.Name, true, "")
	on, err := runMap(ctx, c, "mount.swaps")
	if err != nil {
		return nil, err
	}
	device := a.Name
	if link, err := runTruth(ctx, c, "file.is_link", a.Name); err != nil {
		return nil, err
	} else if link {
		if device, err = runString(ctx, c, "file.readlink", a.Name); err != nil {
			return nil, err
		}
		if !strings.HasPrefix(device, "/") {
			device = "/dev/" + filepath.Base(device)
		}
	}
	switch {
	case on.Has(device):
		ret.Set("comment", "Swap "+a.Name+" already active")
	case c.Testing():
		ret.Set("result", nil)
		ret.Set("comment", "Swap "+a.Name+" is set to be activated")
	default:
		if _, err := c.Run(ctx, "mount.swapon", device); err != nil {
			return nil, err
		}
		if on, err = runMap(ctx, c, "mount.swaps"); err != nil {
			return nil, err
		}
		if on.Has(device) {
			ret.Set("comment", "Swap "+a.Name+" activated")
			ret.Set("changes", mapOrNew(on.Map(device)).Clone())
		} else {
			ret.Set("comment", "Swap "+a.Name+" failed to activate")
			ret.Set("result", false)
		}
	}
	if !Truth(a.Persist) {
		return ret, nil
	}
	fstab, err := runMap(ctx, c, "mount.fstab", a.Config)
	if err != nil {
		return nil, err
	}
	if c.Testing() {
		known := fstab.Has(a.Name)
		for _, v := range fstab.All() {
			if m, ok := v.(*Map); ok && m.Value("device") == a.Name {
				known = true
			}
		}
		if !known {
			ret.Set("result", nil)
			if on.Has(a.Name) {
				ret.Set("comment", "Swap "+a.Name+" is set to be added to the fstab and to be activated")
			}
		}
		return ret, nil
	}
	if none := fstab.Map("none"); none != nil && none.Value("device") == a.Name && none.Value("fstype") != "swap" {
		return ret, nil
	}
	out, err := c.Run(ctx, "mount.set_fstab", "none", a.Name, "swap", NewList("defaults"), int64(0), int64(0), a.Config)
	if err != nil || out == "present" {
		return ret, err
	}
	return fstabWritten(ret, out)
}

// mountDevice names a device in another way: by its label, its UUID and so on.
// "" says that it has none.
func mountDevice(ctx context.Context, c *Call, device string, by any) (string, error) {
	kind := Str(by)
	if !Truth(by) || kind == "device" && strings.HasPrefix(device, "/") || strings.HasPrefix(device, strings.ToUpper(kind)+"=") {
		return device, nil
	}
	var v any
	var err error
	if strings.HasPrefix(device, "/") {
		v, err = c.Run(ctx, "disk.blkid", device)
	} else {
		v, err = c.RunKw(ctx, "disk.blkid", nil, NewMap("token", device))
	}
	found, _ := v.(*Map)
	if err != nil || found.Len() != 1 {
		return "", err
	}
	name, info := found.At(0)
	if kind == "device" {
		return Str(name), nil
	}
	key := strings.ToUpper(kind)
	m, _ := info.(*Map)
	val, ok := m.Get(key)
	if !ok {
		return "", OtherErrorf("KeyError", "%s", Repr(key))
	}
	return key + "=" + Str(val), nil
}

func mountStateFstabPresent(ctx context.Context, c *Call, a struct {
	Name      string
	FsFile    string
	FsVfstype any
	FsMntops  any    `def:"defaults"`
	FsFreq    any    `def:"0"`
	FsPassno  any    `def:"0"`
	MountBy   any    `def:"None"`
	Config    string `def:"/etc/fstab"`
	Mount     any    `def:"True"`
	MatchOn   any    `def:"auto"`
	NotChange any    `def:"False"`
	FsMount   any    `def:"True"`
}) (any, error) {
	comment := NewList()
	ret := NewMap("name", a.Name, "result", false, "changes", NewMap(), "comment", comment)
	file := a.FsFile
	if file != "/" {
		file = strings.TrimRight(file, "/")
	}
	spec, err := mountDevice(ctx, c, a.Name, a.MountBy)
	if err != nil {
		return nil, err
	}
	if spec == "" {
		comment.Append("Device " + a.Name + " cannot be converted to " + Str(a.MountBy))
		return ret, nil
	}
	kw := NewMap("name", file, "device", spec, "fstype", a.FsVfstype, "opts", a.FsMntops, "dump", a.FsFreq, "pass_num", a.FsPassno,
		"config", a.Config, "match_on", a.MatchOn, "not_change", a.NotChange)
	if c.Testing() {
		kw.Set("test", true)
	}
	out, err := c.RunKw(ctx, "mount.set_fstab", nil, kw)
	if err != nil {
		return nil, err
	}
	if c.Testing() {
		ret.Set("result", nil)
		switch out {
		case "present":
			comment.Append(file + " entry is already in " + a.Config + ".")
		case "new":
			comment.Append(file + " entry will be written in " + a.Config + ".")
			if Truth(a.Mount) {
				comment.Append("Will mount " + a.Name + " on " + file)
			}
		case "change":
			comment.Append(file + " entry will be updated in " + a.Config + ".")
		default:
			ret.Set("result", false)
			comment.Append(file + " entry cannot be created in " + a.Config + ": " + Str(out) + ".")
		}
		return ret, nil
	}
	ret.Set("result", true)
	switch out {
	case "present":
		comment.Append(file + " entry was already in " + a.Config + ".")
	case "new":
		ret.Map("changes").Set("persist", out)
		comment.Append(file + " entry added in " + a.Config + ".")
		if !Truth(a.Mount) {
			break
		}
		out, err := c.Run(ctx, "mount.mount", file)
		if err != nil {
			return nil, err
		}
		if s, ok := out.(string); ok {
			ret.Set("result", false)
			_, text, _ := strings.Cut(s, ":")
			comment.Append("Error while mounting " + text)
		} else {
			comment.Append("Mounted " + a.Name + " on " + file)
		}
	case "change":
		ret.Map("changes").Set("persist", out)
		comment.Append(file + " entry updated in " + a.Config + ".")
	default:
		ret.Set("result", false)
		comment.Append(file + " entry cannot be changed in " + a.Config + ": " + Str(out) + ".")
	}
	return ret, nil
}

func mountStateFstabAbsent(ctx context.Context, c *Call, a struct {
	Name    string
	FsFile  string
	MountBy any    `def:"None"`
	Config  string `def:"/etc/fstab"`
}) (any, error) {
	ret := NewMap("name", a.Name, "result", false, "changes", NewMap(), "comment", NewList())
	say := func(result any, text string) (any, error) {
		ret.Set("result", result)
		ret.List("comment").Append(text)
		return ret, nil
	}
	file := a.FsFile
	if file != "/" {
		file = strings.TrimRight(file, "/")
	}
	spec, err := mountDevice(ctx, c, a.Name, a.MountBy)
	if err != nil {
		return nil, err
	}
	fstab, err := runMap(ctx, c, "mount.fstab", a.Config)
	if err != nil {
		return nil, err
	}
	there := fstab.Has(file)
	switch {
	case c.Testing() && !there:
		return say(nil, file+" entry is already missing in "+a.Config+".")
	case c.Testing():
		return say(nil, file+" entry will be removed from "+a.Config+".")
	case !there:
		return say(true, file+" entry is already missing in "+a.Config+".")
	}
	var device any = spec
	if spec == "" {
		device = nil
	}
	out, err := c.RunKw(ctx, "mount.rm_fstab", nil, NewMap("name", file, "device", device, "config", a.Config))
	if err != nil {
		return nil, err
	}
	if out != true {
		return say(false, file+" entry failed when removing from "+a.Config+".")
	}
	ret.Map("changes").Set("persist", "removed")
	return say(true, file+" entry removed from "+a.Config+".")
}
