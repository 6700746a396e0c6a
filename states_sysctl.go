// State module sysctl: parameters of the kernel.
package main

import (
	"context"
	"strings"
)

func sysctlStates() Module {
	return Module{
		Doc:     "Parameters of the kernel, set now and at each boot.",
		Virtual: needsFunction("sysctl.show", "sysctl module could not be loaded"),
		Funcs:   Funcs{"present": {run: sysctlStatePresent, doc: "The parameter has the value, now and in the configuration file."}},
	}
}

// oneBlank makes each run of blanks, and each run of tabs, one blank.
func oneBlank(s string) string {
	var b strings.Builder
	last := rune(0)
	for _, r := range s {
		if r == ' ' || r == '\t' {
			if r != last {
				b.WriteByte(' ')
			}
		} else {
			b.WriteRune(r)
		}
		last = r
	}
	return b.String()
}

func sysctlStatePresent(ctx context.Context, c *Call, a struct {
	Name   string
	Value  any
	Config any `def:"None"`
}) (any, error) {
	ret := NewMap("name", a.Name, "result", true, "changes", NewMap(), "comment", "")
	value := Str(a.Value)
	config := a.Config
	if config == nil {
		config = "/etc/sysctl.conf"
		if c.Has(ctx, "sysctl.default_config") {
			v, err := c.Run(ctx, "sysctl.default_config")
			if err != nil {
				return nil, err
			}
			config = v
		}
	}
	if c.Testing() {
		v, err := c.RunKw(ctx, "sysctl.show", nil, NewMap("config_file", config))
		if err != nil {
			return nil, err
		}
		if v == nil {
			return stateSay(ret, nil, "Sysctl option %s might be changed, we failed to check config file at %s. The file is either unreadable, or missing.", a.Name, Str(config))
		}
		configured, _ := v.(*Map)
		current, err := runString(ctx, c, "sysctl.get", a.Name)
		if err != nil {
			return nil, err
		}
		switch {
		case current != "" && configured.Has(a.Name):
			if strings.Join(pyFields(value), " ") == strings.Join(pyFields(current), " ") {
				return stateSay(ret, true, "Sysctl value %s = %s is already set", a.Name, value)
			}
		case current != "" && oneBlank(current) != oneBlank(value):
			return stateSay(ret, nil, "Sysctl option %s set to be changed to %s", a.Name, value)
		case current != "":
			return stateSay(ret, nil, "Sysctl value is currently set on the running system but not in a config file. Sysctl option %s set to be changed to %s in config file.", a.Name, value)
		case configured.Has(a.Name):
			return stateSay(ret, nil, "Sysctl value %s is present in configuration file but is not present in the running config. The value %s is set to be changed to %s", a.Name, a.Name, value)
		}
		return stateSay(ret, nil, "Sysctl option %s would be changed to %s", a.Name, value)
	}
	update, err := c.Run(ctx, "sysctl.persist", a.Name, a.Value, config)
	if isExecError(err) {
		return stateSay(ret, false, "Failed to set %s to %s: %s", a.Name, value, errText(err))
	}
	if err != nil {
		return nil, err
	}
	switch update {
	case "Updated":
		ret.Set("changes", NewMap(a.Name, a.Value))
		return stateSay(ret, true, "Updated sysctl value %s = %s", a.Name, value)
	case "Already set":
		return stateSay(ret, true, "Sysctl value %s = %s is already set", a.Name, value)
	}
	return ret, nil
}
