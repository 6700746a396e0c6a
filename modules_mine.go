// Module mine: results of functions that this minion leaves with the master, so
// that other minions can read them.
//
// The law of this file: what the mine keeps is told in one place, parseMineEntry,
// for the option mine_functions, for mine.send and for mine.valid. Without a
// master the mine is the value mine_cache of module data.
package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
)

func mineModule() Module {
	return Module{
		Doc: "Values that minions publish for each other.",
		Funcs: Funcs{
			"get":        {run: mineGet, doc: "Return what other minions have in the mine, by minion; by function and minion if several functions are asked for.\n\ntgt, tgt_type: which minions\nfun: the function or alias, several as a list or with commas\nexclude_minion: True leaves this minion out"},
			"send":       {run: mineSend, doc: "Run a function and put its result into the mine.\n\nname: the name in the mine, and the function unless mine_function is given\nmine_function: the function to run\nallow_tgt, allow_tgt_type: the minions that may read it\nFurther arguments go to the function."},
			"update":     {run: mineUpdate, doc: "Run all functions of mine_functions and put their results into the mine.\n\nclear: True removes everything else from the mine\nmine_functions: these functions instead of the configured ones"},
			"delete":     {run: mineDelete, doc: "Remove one function from this minion's mine."},
			"flush":      {run: mineFlush, doc: "Remove everything from this minion's mine."},
			"valid":      {run: mineValid, doc: "Return the configured functions of the mine that can be called here."},
			"get_docker": {run: mineGetDocker, doc: "List the published ports of containers, by image, from the docker.ps results in the mine.\n\ninterfaces: only addresses of these interfaces\ncidrs: only addresses in these networks\nwith_container_id: True adds the id of the container"},
		},
	}
}

// mineEntry is one function of the mine.
type mineEntry struct {
	alias string
	fun   string // "" = alias is the function
	args  []any
	kw    *Map
	allow *Map // allow_tgt and allow_tgt_type, as far as given
}

func (e mineEntry) function() string {
	if e.fun != "" {
		return e.fun
	}
	return e.alias
}

// take removes a keyword and returns it as text, "" for what is not true.
func takeText(m *Map, key string) string {
	v := m.Value(key)
	m.Delete(key)
	if !Truth(v) {
		return ""
	}
	return Str(v)
}

// parseMineEntry reads one definition: a mapping of keyword arguments, or a list
// of positional arguments with mappings among them.
func parseMineEntry(alias string, def any) mineEntry {
	e := mineEntry{alias: alias, kw: &Map{}, allow: &Map{}}
	switch def := def.(type) {
	case *Map:
		e.kw = def.Clone()
	case *List:
		for _, item := range def.Items {
			if m, ok := item.(*Map); ok {
				e.kw.Merge(m)
			} else {
				e.args = append(e.args, item)
			}
		}
	}
	e.fun = takeText(e.kw, "mine_function")
	for _, key := range []string{"allow_tgt", "allow_tgt_type"} {
		if v := e.kw.Value(key); Truth(v) {
			e.allow.Set(key, v)
		}
		e.kw.Delete(key)
	}
	return e
}

// mineEntries reads mine_functions, from the option unless given. nil: there are
// none.
func mineEntries(ctx context.Context, c *Call, given any) ([]mineEntry, *Map, error) {
	if !Truth(given) {
		var err error
		if given, err = c.Run(ctx, "config.merge", "mine_functions", &Map{}); err != nil {
			return nil, nil, err
		}
	}
	defs := &Map{}
	switch v := given.(type) {
	case *Map:
		defs = v
	case *List:
		for _, item := range v.Items {
			if m, ok := item.(*Map); ok {
				defs.Merge(m)
			} else {
				defs.Set(Str(item), &Map{})
			}
		}
	}
	var entries []mineEntry
	for alias, def := range defs.All() {
		e := parseMineEntry(Str(alias), def)
		if !c.Has(ctx, e.function()) {
			c.Log.Error(fmt.Sprintf("Function %s in mine_functions not available", e.function()))
			continue
		}
		entries = append(entries, e)
	}
	return entries, defs, nil
}

// value runs the function and puts it into the form that the mine keeps.
func (e mineEntry) value(ctx context.Context, c *Call) (any, error) {
	v, err := callLoosely(ctx, c, e.function(), e.args, e.kw)
	if err != nil || !e.allow.Has("allow_tgt") {
		return v, err
	}
	out := NewMap(mineACLData, v, mineACLMark, int64(1))
	out.Merge(e.allow)
	return out, nil
}

// callLoosely calls a function with arguments as users write them in a
// configuration: a mapping among the positional ones holds keywords.
func callLoosely(ctx context.Context, c *Call, fun string, args []any, kwargs *Map) (any, error) {
	kw := &Map{}
	var pos []any
	for _, a := range args {
		if m, ok := a.(*Map); ok {
			kw.Merge(m)
		} else {
			pos = append(pos, a)
		}
	}
	kw.Merge(kwargs)
	return c.RunKw(ctx, fun, pos, kw)
}

// mineStore brings data into the mine.
func mineStore(ctx context.Context, c *Call, data *Map, clear bool) (any, error) {
	if c.Opts.Str("file_client") == "local" {
		if have, ok := loadData(c).Value("mine_cache").(*Map); ok && !clear {
			have.Merge(data)
			data = have
		}
		return mineLocal(c, data)
	}
	load := NewMap("cmd", "_mine", "data", data, "id", c.Opts.Str("id"), "clear", clear)
	reply, ok := mineRequest(ctx, c, load)
	if ok && clear && reply != true {
		// Masters of Python Salt fail with clear: two requests do the same.
		if _, ok = mineRequest(ctx, c, NewMap("cmd", "_mine_flush", "id", c.Opts.Str("id"))); ok {
			load.Set("clear", false)
			_, ok = mineRequest(ctx, c, load)
		}
	}
	return ok, nil
}

func mineLocal(c *Call, data *Map) (any, error) {
	all := loadData(c)
	all.Set("mine_cache", data)
	dumpData(c, all)
	return true, nil
}

// mineRequest sends one request; ok says whether the master has answered.
func mineRequest(ctx context.Context, c *Call, load *Map) (reply any, ok bool) {
	if c.Master == nil {
		c.Log.Error("Could not authenticate with master. Mine data will not be transmitted.")
		return nil, false
	}
	reply, err := c.Master.Request(ctx, load)
	if err != nil {
		c.Log.Error(fmt.Sprintf("mine: %v", err))
		return nil, false
	}
	return reply, true
}

type mineUpdateArgs struct {
	Clear         bool `def:"False"`
	MineFunctions any  `def:"None"`
}

func mineUpdate(ctx context.Context, c *Call, a mineUpdateArgs) (any, error) {
	if s, ok := a.MineFunctions.(string); ok && s != "" {
		return nil, nil
	}
	entries, defs, err := mineEntries(ctx, c, a.MineFunctions)
	if err != nil || defs.Len() == 0 {
		return nil, err
	}
	data := NewMap()
	for _, e := range entries {
		v, err := e.value(ctx, c)
		if err != nil {
			c.Log.Error(fmt.Sprintf("Function %s in mine.update failed to execute", e.function()))
			c.Log.Debug(fmt.Sprintf("Error: %v", err))
			continue
		}
		data.Set(e.alias, v)
	}
	return mineStore(ctx, c, data, a.Clear)
}

type mineSendArgs struct {
	Name   string
	Args   []any `arg:"*args"`
	Kwargs *Map  `arg:"**kwargs"`
}

func mineSend(ctx context.Context, c *Call, a mineSendArgs) (any, error) {
	e := parseMineEntry(a.Name, cleanKwargs(a.Kwargs))
	e.args = a.Args
	v, err := e.value(ctx, c)
	if err != nil {
		c.Log.Error(fmt.Sprintf("Function %s in mine.send failed to execute", e.function()))
		c.Log.Debug(fmt.Sprintf("Error: %v", err))
		return false, nil
	}
	return mineStore(ctx, c, NewMap(e.alias, v), false)
}

type mineGetArgs struct {
	Tgt           any
	Fun           any
	TgtType       string `def:"'glob'"`
	ExcludeMinion bool   `def:"False"`
}

func mineGet(ctx context.Context, c *Call, a mineGetArgs) (any, error) {
	id := c.Opts.Str("id")
	if c.Opts.Str("file_client") == "local" {
		return mineGetLocal(c, a), nil
	}
	if c.Master == nil {
		return nil, ExecErrorf("no connection to a master: the mine can't be read")
	}
	reply, err := c.Master.Request(ctx, NewMap("cmd", "_mine_get", "id", id, "tgt", a.Tgt, "fun", a.Fun, "tgt_type", a.TgtType))
	if err != nil {
		return nil, ExecErrorf("read the mine: %v", err)
	}
	if m, ok := reply.(*Map); ok && a.ExcludeMinion {
		m.Delete(id)
	}
	return reply, nil
}

func mineGetLocal(c *Call, a mineGetArgs) *Map {
	ret := NewMap()
	data, ok := loadData(c).Value("mine_cache").(*Map)
	if !ok || !matchExpression(c, a.TgtType, a.Tgt, "", matchSubject(c, nil)) {
		return ret
	}
	var funs []string
	several := false
	switch fun := a.Fun.(type) {
	case string:
		funs = strings.Split(fun, ",")
		several = len(funs) > 1
	case *List:
		funs, several = toStrings(fun), true
	}
	for _, fun := range funs {
		v, ok := data.Get(fun)
		if !ok {
			continue
		}
		if m, ok := v.(*Map); ok && m.Has(mineACLMark) {
			v = m.Value(mineACLData)
		}
		if several {
			ret.Set(fun, NewMap(c.Opts.Str("id"), v))
		} else {
			ret.Set(c.Opts.Str("id"), v)
		}
	}
	return ret
}

type mineDeleteArgs struct{ Fun any }

func mineDelete(ctx context.Context, c *Call, a mineDeleteArgs) (any, error) {
	if c.Opts.Str("file_client") == "local" {
		data, ok := loadData(c).Value("mine_cache").(*Map)
		if !ok {
			data = NewMap()
		}
		data.Delete(a.Fun)
		return mineLocal(c, data)
	}
	_, ok := mineRequest(ctx, c, NewMap("cmd", "_mine_delete", "id", c.Opts.Str("id"), "fun", a.Fun))
	return ok, nil
}

func mineFlush(ctx context.Context, c *Call, _ noArgs) (any, error) {
	if c.Opts.Str("file_client") == "local" {
		return mineLocal(c, NewMap())
	}
	_, ok := mineRequest(ctx, c, NewMap("cmd", "_mine_flush", "id", c.Opts.Str("id")))
	return ok, nil
}

func mineValid(ctx context.Context, c *Call, _ noArgs) (any, error) {
	entries, defs, err := mineEntries(ctx, c, nil)
	if err != nil || defs.Len() == 0 {
		return nil, err
	}
	ret := NewMap()
	for _, e := range entries {
		if e.fun == "" {
			def := defs.Value(e.alias)
			if _, ok := def.(*Map); ok {
				def = e.kw
			}
			ret.Set(e.alias, def)
			continue
		}
		l := NewList(e.args...)
		for k, v := range e.kw.All() {
			l.Append(NewMap(k, v))
		}
		ret.Set(e.alias, NewMap(e.fun, l))
	}
	return ret, nil
}

type mineGetDockerArgs struct {
	Interfaces      any  `def:"None"`
	Cidrs           any  `def:"None"`
	WithContainerId bool `def:"False"`
}

func mineGetDocker(ctx context.Context, c *Call, a mineGetDockerArgs) (any, error) {
	v, err := mineGet(ctx, c, mineGetArgs{Tgt: "*", Fun: "docker.ps", TgtType: "glob"})
	if err != nil {
		return nil, err
	}
	hosts, _ := v.(*Map)
	ret := NewMap()
	for _, v := range hosts.All() {
		containers, _ := v.(*Map)
		if containers == nil {
			continue
		}
		ips, err := dockerHostIPs(containers.Map("host").Map("interfaces"), toItems(a.Interfaces), toItems(a.Cidrs))
		if err != nil {
			return nil, err
		}
		for name, v := range containers.All() {
			if box, ok := v.(*Map); ok && name != "host" {
				addDockerPorts(ret, box, ips, a.WithContainerId)
			}
		}
	}
	return ret, nil
}

// dockerHostIPs are the IPv4 addresses of a host, as far as they are wanted.
func dockerHostIPs(interfaces *Map, names, cidrs []any) ([]string, error) {
	if len(names) == 0 {
		names = interfaces.Keys()
	}
	var out []string
	for _, name := range names {
		info, _ := interfaces.Value(name).(*Map)
		for _, v := range toItems(info.Value("inet")) {
			m, _ := v.(*Map)
			ip := m.Str("address")
			wanted := len(cidrs) == 0
			for _, cidr := range cidrs {
				p, err := netip.ParsePrefix(Str(cidr))
				if err != nil {
					return nil, InvocationErrorf("cidrs: %s is no network", Str(cidr))
				}
				addr, err := netip.ParseAddr(ip)
				wanted = wanted || err == nil && p.Contains(addr)
			}
			if wanted && !hasString(out, ip) {
				out = append(out, ip)
			}
		}
	}
	return out, nil
}

// addDockerPorts adds the ports of one container that are reachable from outside.
func addDockerPorts(ret, box *Map, ips []string, withID bool) {
	image := box.Value("Image")
	if !ret.Has(image) {
		ret.Set(image, NewMap())
	}
	byImage, _ := ret.Value(image).(*Map)
	for _, v := range toItems(box.Value("Ports")) {
		port, _ := v.(*Map)
		ip := port.Str("IP")
		on := []string{ip}
		switch ip {
		case "":
			continue // not exposed
		case "0.0.0.0":
			on = ips
		}
		for _, ip := range on {
			if !byImage.Has("ipv4") {
				byImage.Set("ipv4", NewMap())
			}
			byPort := byImage.Map("ipv4")
			private := port.Value("PrivatePort")
			list, _ := byPort.Value(private).(*List)
			if list == nil {
				list = NewList()
				byPort.Set(private, list)
			}
			var value any = ip + ":" + Str(port.Value("PublicPort"))
			if withID {
				value = Tuple{value, box.Map("Info").Value("Id")}
			}
			known := false
			for _, have := range list.Items {
				known = known || Equal(have, value)
			}
			if !known {
				list.Append(value)
			}
		}
	}
}
