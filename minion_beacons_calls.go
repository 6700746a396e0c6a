// Beacons that ask execution modules: packages with upgrades, and functions of
// the user's choice.
package main

import (
	"context"
	"errors"
	"fmt"
)

func checkPkg(conf *Map, _ []any) string {
	if _, ok := conf.Value("pkgs").(*List); !ok {
		return "Configuration for pkg beacon requires list of pkgs."
	}
	return ""
}

// pkgBeacon remembers the status of each package. The first look only learns it.
type pkgBeacon struct{ status map[string]string }

func (b *pkgBeacon) look(ctx context.Context, c *Call, conf *Map, _ []any) ([]*Map, error) {
	if b.status == nil {
		b.status = map[string]string{}
	}
	var out []*Map
	refresh := Truth(conf.Value("refresh"))
	for _, v := range toItems(conf.Value("pkgs")) {
		name := Str(v)
		version, err := c.RunKw(ctx, "pkg.version", []any{name}, NewMap("use_context", false))
		if err != nil {
			return out, err
		}
		status := "not-installed"
		if Truth(version) {
			status = "installed"
			latest, err := c.RunKw(ctx, "pkg.latest_version", []any{name}, NewMap("refresh", refresh))
			if err != nil {
				return out, err
			}
			refresh = false // once a look is enough
			if Truth(latest) {
				version, status = latest, "upgrade"
			}
		} else {
			version = nil
		}
		before := b.status[name]
		b.status[name] = status
		if before != "" && before != status {
			out = append(out, NewMap("pkg", name, "version", version, "status", status))
		}
	}
	return out, nil
}

// monitoredCall is one function of salt_monitor with its arguments.
type monitoredCall struct {
	fun    string
	args   []any
	kwargs *Map
}

// monitoredCalls reads the functions of a configuration: names, or mappings of
// a name to args and kwargs, both lists.
func monitoredCalls(conf *Map) ([]monitoredCall, error) {
	v, ok := conf.Get("salt_fun")
	if !ok {
		return nil, errors.New("Configuration for salt_monitor beacon requires salt_fun.")
	}
	var calls []monitoredCall
	for _, item := range toItems(v) {
		entry, ok := item.(*Map)
		if !ok || entry.Len() == 0 {
			calls = append(calls, monitoredCall{fun: Str(item), kwargs: &Map{}})
			continue
		}
		k, v := entry.At(0)
		one := monitoredCall{fun: Str(k), kwargs: &Map{}}
		opts, _ := v.(*Map)
		for k, v := range opts.All() {
			list, isList := v.(*List)
			switch {
			case k == "args" && !isList:
				return nil, fmt.Errorf("args key for fun %s must be list", one.fun)
			case k == "args":
				one.args = list.Items
			case k == "kwargs" && !isList:
				return nil, fmt.Errorf("kwargs key for fun %s must be list of key value pairs", one.fun)
			case k == "kwargs":
				for _, pair := range list.Items {
					m, ok := pair.(*Map)
					if !ok {
						return nil, fmt.Errorf("%s is not a key / value pair", Str(pair))
					}
					one.kwargs.Merge(m)
				}
			default:
				return nil, fmt.Errorf("key %s not allowed under fun %s", Str(k), one.fun)
			}
		}
		calls = append(calls, one)
	}
	return calls, nil
}

func checkSaltMonitor(conf *Map, _ []any) string {
	if _, err := monitoredCalls(conf); err != nil {
		return err.Error()
	}
	return ""
}

// lookSaltMonitor tells what functions return, unless that is false or empty; a
// single name, not in a list, is always told.
func lookSaltMonitor(ctx context.Context, c *Call, conf *Map, _ []any) ([]*Map, error) {
	calls, err := monitoredCalls(conf)
	if err != nil {
		return nil, err
	}
	_, several := conf.Value("salt_fun").(*List)
	var out []*Map
	for _, one := range calls {
		ret, err := c.RunKw(ctx, one.fun, one.args, one.kwargs)
		if err != nil {
			return out, err
		}
		if several && !Truth(ret) {
			continue
		}
		event := NewMap("salt_fun", one.fun, "ret", ret)
		if len(one.args) > 0 {
			event.Set("args", NewList(one.args...))
		}
		if one.kwargs.Len() > 0 {
			event.Set("kwargs", one.kwargs)
		}
		out = append(out, event)
	}
	return out, nil
}
