// Module beacons: what users ask of the beacons (minion_beacons.go).
package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

func beaconsModule() Module {
	return Module{
		Doc: "Manage what the minion watches and tells the master about.",
		Funcs: Funcs{
			"list":           {run: beaconsList, pyname: "list_", doc: "List the beacons that are configured."},
			"list_available": {run: beaconsAvailable, doc: "List the kinds of beacons."},
			"add":            {run: beaconsAdd, doc: "Add a beacon.\n\nCLI Example:\n\n    salt '*' beacons.add ps \"[{'processes': {'salt-master': 'stopped', 'apache2': 'stopped'}}]\""},
			"modify":         {run: beaconsModify, doc: "Change a beacon."},
			"delete":         {run: beaconsDelete, doc: "Remove a beacon."},
			"save":           {run: beaconsSave, doc: "Write the beacons to a file of the configuration, so that they last."},
			"enable":         {run: beaconsSwitch(true), pyname: "enable", doc: "Enable all beacons."},
			"disable":        {run: beaconsSwitch(false), pyname: "disable", doc: "Disable all beacons."},
			"enable_beacon":  {run: beaconsSwitchOne(true), pyname: "enable_beacon", doc: "Enable a beacon."},
			"disable_beacon": {run: beaconsSwitchOne(false), pyname: "disable_beacon", doc: "Disable a beacon."},
			"reset":          {run: beaconsReset, doc: "Remove all beacons."},
		},
	}
}

// beaconsOf are the minion's beacons, or, without a minion here, those of the
// options.
func beaconsOf(c *Call) *Beacons {
	if c.Beacons != nil {
		return c.Beacons
	}
	return NewBeacons(c.Opts, c.Log, func() *Map { return c.Pillar })
}

type beaconsListArgs struct {
	ReturnYaml    bool `def:"True"`
	IncludePillar bool `def:"True"`
	IncludeOpts   bool `def:"True"`
	Kwargs        *Map `arg:"**kwargs"`
}

func beaconsList(_ context.Context, c *Call, a beaconsListArgs) (any, error) {
	all := beaconsOf(c).List(a.IncludePillar, a.IncludeOpts)
	if a.ReturnYaml {
		return DumpYAML(NewMap("beacons", all), YAMLOptions{SortKeys: true}), nil
	}
	return all, nil
}

type beaconsYamlArgs struct {
	ReturnYaml bool `def:"True"`
	Kwargs     *Map `arg:"**kwargs"`
}

func beaconsAvailable(_ context.Context, _ *Call, a beaconsYamlArgs) (any, error) {
	names := &List{}
	for _, k := range beaconKinds() {
		names.Append(k.name)
	}
	if a.ReturnYaml {
		return DumpYAML(NewMap("beacons", names), YAMLOptions{SortKeys: true}), nil
	}
	return names, nil
}

type beaconsDataArgs struct {
	Name       string
	BeaconData any
	Kwargs     *Map `arg:"**kwargs"`
}

// checkNewBeacon is checkBeacon with what only a running minion knows: which
// functions there are.
func checkNewBeacon(ctx context.Context, c *Call, name string, v any) string {
	if why := checkBeacon(name, v); why != "" || beaconModule(name, v) != "salt_monitor" {
		return why
	}
	conf, _ := beaconDict(v)
	calls, err := monitoredCalls(conf)
	if err != nil {
		return err.Error()
	}
	for _, one := range calls {
		if !c.Has(ctx, one.fun) {
			return one.fun + " not in __salt__"
		}
	}
	return ""
}

func beaconsAdd(ctx context.Context, c *Call, a beaconsDataArgs) (any, error) {
	b := beaconsOf(c)
	ret := NewMap("comment", "Failed to add beacon "+a.Name+".", "result", false)
	if b.List(true, true).Has(a.Name) {
		return NewMap("comment", "Beacon "+a.Name+" is already configured.", "result", true), nil
	}
	module := beaconModule(a.Name, a.BeaconData)
	if _, ok := beaconKindOf(module); !ok {
		ret.Set("comment", "Beacon \""+module+"\" is not available.")
		return ret, nil
	}
	if Truth(a.Kwargs.Value("test")) {
		return NewMap("comment", "Beacon: "+a.Name+" would be added.", "result", true), nil
	}
	if why := checkNewBeacon(ctx, c, a.Name, a.BeaconData); why != "" {
		ret.Set("comment", "Beacon "+a.Name+" configuration invalid, not adding.\n"+why)
		return ret, nil
	}
	b.change(func(conf *Map) { conf.Set(a.Name, a.BeaconData) })
	return NewMap("comment", "Added beacon: "+a.Name+".", "result", true), nil
}

func beaconsModify(ctx context.Context, c *Call, a beaconsDataArgs) (any, error) {
	b := beaconsOf(c)
	old, ok := b.List(true, true).Get(a.Name)
	if !ok {
		return NewMap("comment", "Beacon "+a.Name+" is not configured.", "result", true), nil
	}
	if Truth(a.Kwargs.Value("test")) {
		return NewMap("comment", "Beacon: "+a.Name+" would be modified.", "result", true), nil
	}
	if why := checkNewBeacon(ctx, c, a.Name, a.BeaconData); why != "" {
		return NewMap("comment", "Beacon "+a.Name+" configuration invalid, not modifying.\n"+why, "result", false), nil
	}
	if Equal(old, a.BeaconData) {
		return NewMap("comment", "Job "+a.Name+" in correct state", "result", true), nil
	}
	if b.InPillar(a.Name) {
		return NewMap("comment", "Cannot modify beacon item "+a.Name+", it is configured in pillar.", "result", false), nil
	}
	lines := func(v any) []string {
		var out []string
		for _, item := range toItems(v) {
			if m, ok := item.(*Map); ok {
				for k, v := range m.All() {
					out = append(out, Str(k)+":"+Str(v)+"\n")
				}
			}
		}
		return out
	}
	diff := unifiedDiff(lines(old), lines(a.BeaconData), "", "")
	b.change(func(conf *Map) { conf.Set(a.Name, a.BeaconData) })
	return NewMap("comment", "Modified beacon: "+a.Name+".", "result", true, "changes", NewMap("diff", diff)), nil
}

func beaconsDelete(_ context.Context, c *Call, a scheduleKwArgs) (any, error) {
	b := beaconsOf(c)
	if Truth(a.Kwargs.Value("test")) {
		return NewMap("comment", "Beacon: "+a.Name+" would be deleted.", "result", true), nil
	}
	if b.InPillar(a.Name) {
		return NewMap("comment", "Cannot delete beacon item "+a.Name+", it is configured in pillar.", "result", false), nil
	}
	b.change(func(conf *Map) { conf.Delete(a.Name) })
	return NewMap("comment", "Deleted beacon: "+a.Name+".", "result", true), nil
}

func beaconsSave(_ context.Context, c *Call, _ kwargsOnly) (any, error) {
	file := filepath.Join(c.Opts.ConfigDir(), filepath.Dir(c.Opts.Str("default_include")), "beacons.conf")
	text := ""
	if all := beaconsOf(c).List(false, true); all.Len() > 0 {
		text = DumpYAML(NewMap("beacons", all), YAMLOptions{SortKeys: true})
	}
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = replaceSystemFile(file, []byte(text), 0o644)
	}
	if err != nil {
		c.Log.Error("beacons.save: " + err.Error())
		return NewMap("comment", "Unable to write to beacons file at "+file+". Check permissions.", "result", false), nil
	}
	return NewMap("comment", "Beacons saved to "+file+".", "result", true), nil
}

func beaconsSwitch(on bool) func(context.Context, *Call, kwargsOnly) (any, error) {
	word := "disable"
	if on {
		word = "enable"
	}
	return func(_ context.Context, c *Call, a kwargsOnly) (any, error) {
		if Truth(a.Kwargs.Value("test")) {
			return NewMap("comment", "Beacons would be "+word+"d.", "result", true), nil
		}
		beaconsOf(c).change(func(conf *Map) { conf.Set("enabled", on) })
		return NewMap("comment", strings.ToUpper(word[:1])+word[1:]+"d beacons on minion.", "result", true), nil
	}
}

func beaconsSwitchOne(on bool) func(context.Context, *Call, scheduleKwArgs) (any, error) {
	word := "disable"
	if on {
		word = "enable"
	}
	return func(_ context.Context, c *Call, a scheduleKwArgs) (any, error) {
		b := beaconsOf(c)
		switch {
		case Truth(a.Kwargs.Value("test")):
			return NewMap("comment", "Beacon "+a.Name+" would be "+word+"d.", "result", true), nil
		case !b.List(true, true).Has(a.Name):
			return NewMap("comment", "Beacon "+a.Name+" is not currently configured.", "result", false), nil
		case b.InPillar(a.Name):
			return NewMap("comment", "Cannot "+word+" beacon item "+a.Name+", it is configured in pillar.", "result", false), nil
		}
		b.Enable(a.Name, on)
		return NewMap("comment", strings.ToUpper(word[:1])+word[1:]+"d beacon "+a.Name+" on minion.", "result", true), nil
	}
}

func beaconsReset(_ context.Context, c *Call, a kwargsOnly) (any, error) {
	if Truth(a.Kwargs.Value("test")) {
		return NewMap("comment", "Beacons would be reset.", "result", true), nil
	}
	beaconsOf(c).change(func(conf *Map) {
		for _, k := range conf.Keys() {
			conf.Delete(k)
		}
	})
	return NewMap("comment", "Beacon configuration reset.", "result", true), nil
}
