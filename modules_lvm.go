// Module lvm: physical volumes, volume groups and logical volumes.
package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

func lvmModule() Module {
	return Module{
		Doc: "Manage the volumes of LVM.",
		Virtual: func(context.Context, *Call) (bool, string) {
			return which("lvm") != "", "The linux_lvm execution module cannot be loaded: the lvm binary is not in the path."
		},
		Funcs: Funcs{
			"version":     {run: lvmVersion, doc: "Return the version of LVM."},
			"fullversion": {run: lvmFullVersion, doc: "Return all versions that LVM tells."},
			"pvdisplay":   {run: lvmPvdisplay, doc: "Return the physical volumes, or one."},
			"vgdisplay":   {run: lvmVgdisplay, doc: "Return the volume groups, or one."},
			"lvdisplay":   {run: lvmLvdisplay, doc: "Return the logical volumes, or one."},
			"pvcreate":    {run: lvmPvcreate, doc: "Make physical volumes."},
			"pvremove":    {run: lvmPvremove, doc: "Remove physical volumes."},
			"vgcreate":    {run: lvmVgcreate, doc: "Make a volume group."},
			"vgextend":    {run: lvmVgextend, doc: "Add physical volumes to a volume group."},
			"vgremove":    {run: lvmVgremove, doc: "Remove a volume group."},
			"lvcreate":    {run: lvmLvcreate, doc: "Make a logical volume.\n\nCLI Example:\n\n    salt '*' lvm.lvcreate new_volume_name vg_name size=10G"},
			"lvremove":    {run: lvmLvremove, doc: "Remove a logical volume."},
			"lvresize":    {run: lvmResize("lvresize"), doc: "Set the size of a logical volume."},
			"lvextend":    {run: lvmResize("lvextend"), doc: "Make a logical volume larger."},
			"pvresize":    {run: lvmPvresize, doc: "Let physical volumes take all of their devices."},
		},
	}
}

func lvmVersions(ctx context.Context, c *Call) (*Map, error) {
	text, err := runText(ctx, c, "lvm", "version")
	out := &Map{}
	for _, line := range pyLines(text, false) {
		if k, v, ok := strings.Cut(line, ":"); ok {
			out.Set(strings.TrimSpace(k), strings.TrimSpace(v))
		}
	}
	return out, err
}

func lvmVersion(ctx context.Context, c *Call, _ noArgs) (any, error) {
	m, err := lvmVersions(ctx, c)
	if err != nil || m.Len() == 0 {
		return "", err
	}
	_, v := m.At(0)
	return v, nil
}

func lvmFullVersion(ctx context.Context, c *Call, _ noArgs) (any, error) { return lvmVersions(ctx, c) }

// lvmTable reads lines of fields with colons, as the display tools write with -c.
func lvmTable(out string, keys []string) *Map {
	ret := &Map{}
	for _, line := range pyLines(out, false) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 2 || strings.Contains(line, "is a new physical volume") {
			continue
		}
		m := &Map{}
		for i, k := range keys {
			if i < len(f) {
				m.Set(k, f[i])
			}
		}
		ret.Set(f[0], m)
	}
	return ret
}

func lvmDisplay(ctx context.Context, c *Call, tool, name string, quiet bool, keys ...string) (*Map, error) {
	cmd := []string{tool, "-c"}
	if name != "" {
		cmd = append(cmd, name)
	}
	r, err := runSaltTool(ctx, c, toolOptions{ignore: quiet}, cmd...)
	if err != nil || r.failed() {
		return &Map{}, err
	}
	return lvmTable(r.stdout, keys), nil
}

type lvmPvArgs struct {
	Pvname string `def:"''"`
	Real   bool   `def:"False"`
	Quiet  bool   `def:"False"`
}

func physicalVolumes(ctx context.Context, c *Call, name string, quiet bool) (*Map, error) {
	return lvmDisplay(ctx, c, "pvdisplay", name, quiet, "Physical Volume Device", "Volume Group Name", "Physical Volume Size (kB)",
		"Internal Physical Volume Number", "Physical Volume Status", "Physical Volume (not) Allocatable", "Current Logical Volumes Here",
		"Physical Extent Size (kB)", "Total Physical Extents", "Free Physical Extents", "Allocated Physical Extents")
}

func lvmPvdisplay(ctx context.Context, c *Call, a lvmPvArgs) (any, error) {
	all, err := physicalVolumes(ctx, c, a.Pvname, a.Quiet)
	if err != nil || !a.Real {
		return all, err
	}
	out := &Map{}
	for k, v := range all.All() {
		device := Str(k)
		if real, err := filepath.EvalSymlinks(device); err == nil {
			device = real
		}
		v.(*Map).Set("Real Physical Volume Device", device)
		out.Set(device, v)
	}
	return out, nil
}

type lvmVgArgs struct {
	Vgname string `def:"''"`
	Quiet  bool   `def:"False"`
}

func volumeGroups(ctx context.Context, c *Call, name string, quiet bool) (*Map, error) {
	return lvmDisplay(ctx, c, "vgdisplay", name, quiet, "Volume Group Name", "Volume Group Access", "Volume Group Status", "Internal Volume Group Number",
		"Maximum Logical Volumes", "Current Logical Volumes", "Open Logical Volumes", "Maximum Logical Volume Size", "Maximum Physical Volumes",
		"Current Physical Volumes", "Actual Physical Volumes", "Volume Group Size (kB)", "Physical Extent Size (kB)", "Total Physical Extents",
		"Allocated Physical Extents", "Free Physical Extents", "UUID")
}

func lvmVgdisplay(ctx context.Context, c *Call, a lvmVgArgs) (any, error) {
	return volumeGroups(ctx, c, a.Vgname, a.Quiet)
}

type lvmLvArgs struct {
	Lvname string `def:"''"`
	Quiet  bool   `def:"False"`
}

func logicalVolumes(ctx context.Context, c *Call, name string, quiet bool) (*Map, error) {
	return lvmDisplay(ctx, c, "lvdisplay", name, quiet, "Logical Volume Name", "Volume Group Name", "Logical Volume Access", "Logical Volume Status",
		"Internal Logical Volume Number", "Open Logical Volumes", "Logical Volume Size", "Current Logical Extents Associated", "Allocated Logical Extents",
		"Allocation Policy", "Read Ahead Sectors", "Major Device Number", "Minor Device Number")
}

func lvmLvdisplay(ctx context.Context, c *Call, a lvmLvArgs) (any, error) {
	return logicalVolumes(ctx, c, a.Lvname, a.Quiet)
}

// lvmOptions turns keyword arguments into options, those in flags without values.
func lvmOptions(kwargs *Map, flags ...string) []string {
	var out []string
	for k, v := range kwargs.All() {
		key := Str(k)
		if strings.HasPrefix(key, "__") || !Truth(v) {
			continue
		}
		if out = append(out, "--"+key); !hasString(flags, key) {
			out = append(out, Str(v))
		}
	}
	return out
}

// lvmRun runs a tool; the text is its complaint, or done.
func lvmRun(ctx context.Context, c *Call, done string, cmd ...string) (string, bool, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, cmd...)
	if err != nil {
		return "", false, err
	}
	if r.failed() {
		return strings.TrimSpace(r.stderr), false, nil
	}
	return done, true, nil
}

func forced(on bool) string {
	if on {
		return "--yes"
	}
	return "-qq"
}

type lvmPvcreateArgs struct {
	Devices  any
	Override bool `def:"True"`
	Force    bool `def:"True"`
	Kwargs   *Map `arg:"**kwargs"`
}

func lvmPvcreate(ctx context.Context, c *Call, a lvmPvcreateArgs) (any, error) {
	if !Truth(a.Devices) {
		return "Error: at least one device is required", nil
	}
	devices := groupList(a.Devices)
	var fresh []string
	for _, d := range devices {
		if _, err := os.Stat(d); err != nil {
			return d + " does not exist", nil
		}
		have, err := physicalVolumes(ctx, c, d, true)
		if err != nil {
			return nil, err
		}
		if have.Len() == 0 {
			fresh = append(fresh, d)
		} else if !a.Override {
			return "Device \"" + d + "\" is already an LVM physical volume.", nil
		}
	}
	if len(fresh) == 0 {
		return true, nil
	}
	cmd := append(append([]string{"pvcreate", forced(a.Force)}, fresh...), lvmOptions(a.Kwargs, "norestorefile")...)
	if text, ok, err := lvmRun(ctx, c, "", cmd...); !ok {
		return text, err
	}
	return true, nil
}

type lvmPvremoveArgs struct {
	Devices  any
	Override bool `def:"True"`
	Force    bool `def:"True"`
}

func lvmPvremove(ctx context.Context, c *Call, a lvmPvremoveArgs) (any, error) {
	var there []string
	for _, d := range groupList(a.Devices) {
		have, err := physicalVolumes(ctx, c, d, true)
		if err != nil {
			return nil, err
		}
		if have.Len() > 0 {
			there = append(there, d)
		} else if !a.Override {
			return d + " is not a physical volume", nil
		}
	}
	if len(there) == 0 {
		return true, nil
	}
	if text, ok, err := lvmRun(ctx, c, "", append([]string{"pvremove", forced(a.Force)}, there...)...); !ok {
		return text, err
	}
	return true, nil
}

type lvmVgcreateArgs struct {
	Vgname  string
	Devices any
	Force   bool `def:"False"`
	Kwargs  *Map `arg:"**kwargs"`
}

func lvmVgcreate(ctx context.Context, c *Call, a lvmVgcreateArgs) (any, error) {
	if a.Vgname == "" || !Truth(a.Devices) {
		return "Error: vgname and device(s) are both required", nil
	}
	cmd := append(append([]string{"vgcreate", a.Vgname}, groupList(a.Devices)...), forced(a.Force))
	text, _, err := lvmRun(ctx, c, "Volume group \""+a.Vgname+"\" successfully created", append(cmd, lvmOptions(a.Kwargs)...)...)
	if err != nil {
		return nil, err
	}
	m, err := volumeGroups(ctx, c, a.Vgname, false)
	m.Set("Output from vgcreate", text)
	return m, err
}

type lvmVgextendArgs struct {
	Vgname  string
	Devices any
	Force   bool `def:"False"`
}

func lvmVgextend(ctx context.Context, c *Call, a lvmVgextendArgs) (any, error) {
	if a.Vgname == "" || !Truth(a.Devices) {
		return "Error: vgname and device(s) are both required", nil
	}
	text, _, err := lvmRun(ctx, c, "Volume group \""+a.Vgname+"\" successfully extended", append([]string{"vgextend", a.Vgname, forced(a.Force)}, groupList(a.Devices)...)...)
	return NewMap("Output from vgextend", text), err
}

type lvmVgremoveArgs struct {
	Vgname string
	Force  bool `def:"True"`
}

func lvmVgremove(ctx context.Context, c *Call, a lvmVgremoveArgs) (any, error) {
	text, _, err := lvmRun(ctx, c, "Volume group \""+a.Vgname+"\" successfully removed", "vgremove", forced(a.Force), a.Vgname)
	return text, err
}

type lvmLvcreateArgs struct {
	Lvname     string
	Vgname     string
	Size       any  `def:"None"`
	Extents    any  `def:"None"`
	Snapshot   any  `def:"None"`
	Pv         any  `def:"None"`
	Thinvolume bool `def:"False"`
	Thinpool   bool `def:"False"`
	Force      bool `def:"False"`
	Kwargs     *Map `arg:"**kwargs"`
}

func lvmLvcreate(ctx context.Context, c *Call, a lvmLvcreateArgs) (any, error) {
	switch {
	case Truth(a.Size) && Truth(a.Extents):
		return "Error: Please specify only one of size or extents", nil
	case a.Thinvolume && a.Thinpool:
		return "Error: Please set only one of thinvolume or thinpool to True", nil
	case !Truth(a.Size) && !Truth(a.Extents):
		return "Error: Either size or extents must be specified", nil
	}
	cmd := []string{"lvcreate"}
	switch {
	case a.Thinvolume:
		cmd = append(cmd, "--thin", "-n", a.Lvname)
	case a.Thinpool:
		cmd = append(cmd, "--thinpool", a.Lvname)
	default:
		cmd = append(cmd, "-n", a.Lvname)
	}
	target := a.Vgname
	if Truth(a.Snapshot) {
		cmd = append(cmd, "-s")
		target = a.Vgname + "/" + Str(a.Snapshot)
	}
	switch {
	case Truth(a.Size) && a.Thinvolume:
		cmd = append(cmd, "-V", Str(a.Size))
	case Truth(a.Size):
		cmd = append(cmd, "-L", Str(a.Size))
	default:
		cmd = append(cmd, "-l", Str(a.Extents))
	}
	cmd = append(cmd, target)
	if Truth(a.Pv) {
		cmd = append(cmd, Str(a.Pv))
	}
	cmd = append(append(cmd, lvmOptions(a.Kwargs, "nosync", "noudevsync", "ignoremonitoring", "thin")...), forced(a.Force))
	text, ok, err := lvmRun(ctx, c, "Logical volume \""+a.Lvname+"\" created.", cmd...)
	if err != nil {
		return nil, err
	}
	m := &Map{}
	if ok {
		if m, err = logicalVolumes(ctx, c, "/dev/"+a.Vgname+"/"+a.Lvname, false); err != nil {
			return nil, err
		}
	}
	m.Set("Output from lvcreate", text)
	return m, nil
}

type lvmLvremoveArgs struct {
	Lvname string
	Vgname string
	Force  bool `def:"True"`
}

func lvmLvremove(ctx context.Context, c *Call, a lvmLvremoveArgs) (any, error) {
	text, _, err := lvmRun(ctx, c, "Logical volume \""+a.Lvname+"\" successfully removed", "lvremove", forced(a.Force), a.Vgname+"/"+a.Lvname)
	return text, err
}

type lvmResizeArgs struct {
	Size     any    `def:"None"`
	Lvpath   string `def:"''"`
	Extents  any    `def:"None"`
	Force    bool   `def:"False"`
	Resizefs bool   `def:"False"`
}

func lvmResize(tool string) func(context.Context, *Call, lvmResizeArgs) (any, error) {
	return func(ctx context.Context, c *Call, a lvmResizeArgs) (any, error) {
		if Truth(a.Size) == Truth(a.Extents) {
			c.Log.Error("Error: Please specify one of size or extents")
			return &Map{}, nil
		}
		cmd := []string{tool}
		if a.Force {
			cmd = append(cmd, "--yes")
		} else {
			cmd = append(cmd, "-qq")
		}
		if a.Resizefs {
			cmd = append(cmd, "--resizefs")
		}
		if Truth(a.Size) {
			cmd = append(cmd, "-L", Str(a.Size))
		} else {
			cmd = append(cmd, "-l", Str(a.Extents))
		}
		text, _, err := lvmRun(ctx, c, "Logical volume \""+a.Lvpath+"\" successfully resized.", append(cmd, a.Lvpath)...)
		return NewMap("Output from "+tool, text), err
	}
}

type lvmPvresizeArgs struct {
	Devices  any
	Override bool `def:"True"`
	Force    bool `def:"True"`
}

func lvmPvresize(ctx context.Context, c *Call, a lvmPvresizeArgs) (any, error) {
	if text, ok, err := lvmRun(ctx, c, "", append([]string{"pvresize", forced(a.Force)}, groupList(a.Devices)...)...); !ok {
		return text, err
	}
	return true, nil
}
