// Modules mine and publish: what minions tell each other through the master.
package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

func mineModule() Module {
	return Module{
		Doc: "Store results of functions with the master, for other minions to read.",
		Funcs: Funcs{
			"update": {run: mineUpdate, doc: "Run the functions of mine_functions and store what they return; with clear in place of all\nthat is stored. mine_functions gives other functions, as a list or a mapping."},
			"send":   {run: mineSend, doc: "Store the result of one function.\n\nCLI Example:\n\n    salt '*' mine.send network.ip_addrs eth0\n    salt '*' mine.send eth0_ip_addrs mine_function=network.ip_addrs eth0 allow_tgt='G@role:web' allow_tgt_type=compound"},
			"get":    {run: mineGet, doc: "Return what minions have stored, by minion; of several functions by function first.\n\nCLI Example:\n\n    salt '*' mine.get '*' network.interfaces\n    salt '*' mine.get 'os:Fedora' network.interfaces grain"},
			"delete": {run: mineDelete, doc: "Remove one function from what is stored."},
			"flush":  {run: mineFlush, doc: "Remove all that is stored of this minion."},
			"valid":  {run: mineValid, doc: "Return the mine_functions that can be run."},
		},
	}
}

// mineAcl are the keys that say who may read a result.
const (
	mineAclID   = "__saltmine_acl__"
	mineAclData = "__data__"
)

// mineFunction is an entry of mine_functions, understood.
type mineFunction struct {
	name   string // "" = the alias is the name
	args   []any
	kwargs *Map
	tgt    any
	kind   any
}

// parseMineFunction reads arguments as a mapping, or as a list of arguments and
// mappings of keyword arguments; mine_function names the function.
func parseMineFunction(v any) mineFunction {
	f := mineFunction{kwargs: &Map{}}
	take := func(m *Map) {
		for k, v := range m.All() {
			switch k {
			case "mine_function":
				f.name = Str(v)
			case "allow_tgt":
				f.tgt = v
			case "allow_tgt_type":
				f.kind = v
			default:
				f.kwargs.Set(k, v)
			}
		}
	}
	switch v := v.(type) {
	case *Map:
		take(v)
	case *List:
		for _, item := range v.Items {
			if m, ok := item.(*Map); ok {
				take(m)
			} else {
				f.args = append(f.args, item)
			}
		}
	}
	return f
}

// wrapMine adds who may read a result.
func wrapMine(data, tgt, kind any) *Map {
	out := NewMap(mineAclData, data, mineAclID, int64(1))
	if Truth(tgt) {
		out.Set("allow_tgt", tgt)
		if Truth(kind) {
			out.Set("allow_tgt_type", kind)
		}
	}
	return out
}

// callMineFunction runs a function as the mine does: keywords that it does not
// take are left out.
func callMineFunction(ctx context.Context, c *Call, name string, args []any, kwargs *Map) (any, error) {
	f, err := c.Loader.Function(ctx, c, name)
	if err != nil {
		return nil, err
	}
	kw := &Map{}
	for k, v := range kwargs.All() {
		if f.Signature().TakesKeyword(Str(k)) {
			kw.Set(k, v)
		}
	}
	return c.RunKw(ctx, name, args, kw)
}

func mineLocal(c *Call) bool { return c.Opts.Str("file_client") == "local" || c.Master == nil }

// mineStore gives data to the master, or keeps it here without one.
func mineStore(ctx context.Context, c *Call, data *Map, clear bool) (any, error) {
	if mineLocal(c) {
		if old, ok := loadData(c).Value("mine_cache").(*Map); ok && !clear {
			old.Merge(data)
			data = old
		}
		return c.Run(ctx, "data.update", "mine_cache", data)
	}
	return mineRequest(ctx, c, NewMap("cmd", "_mine", "data", data, "id", c.Opts.Str("id"), "clear", clear))
}

// mineRequest sends a load to the master. That it could not be sent is False.
func mineRequest(ctx context.Context, c *Call, load *Map) (any, error) {
	if _, err := c.Master.Request(ctx, load); err != nil {
		c.Log.Error(fmt.Sprintf("mine: %v", err))
		return false, nil
	}
	return true, nil
}

type mineUpdateArgs struct {
	Clear         bool `def:"False"`
	MineFunctions any  `def:"None"`
}

func configuredMine(ctx context.Context, c *Call) (*Map, error) {
	v, err := c.Run(ctx, "config.merge", "mine_functions", &Map{})
	if err != nil {
		return nil, err
	}
	if l, ok := v.(*List); ok {
		return mineOfList(l), nil
	}
	m, _ := v.(*Map)
	return m, nil
}

func mineOfList(l *List) *Map {
	out := &Map{}
	for _, item := range l.Items {
		if m, ok := item.(*Map); ok {
			out.Merge(m)
		} else {
			out.Set(item, &Map{})
		}
	}
	return out
}

func mineUpdate(ctx context.Context, c *Call, a mineUpdateArgs) (any, error) {
	var funs *Map
	switch v := a.MineFunctions.(type) {
	case *List:
		funs = mineOfList(v)
	case *Map:
		funs = v
	default:
		if Truth(v) {
			return nil, nil
		}
	}
	if funs.Len() == 0 {
		var err error
		if funs, err = configuredMine(ctx, c); err != nil || funs.Len() == 0 {
			return nil, err
		}
	}
	data := &Map{}
	for k, def := range funs.All() {
		alias, f := Str(k), parseMineFunction(def)
		name := f.name
		if name == "" {
			name = alias
		}
		if !c.Has(ctx, name) {
			c.Log.Error("Function " + name + " in mine_functions not available")
			continue
		}
		res, err := callMineFunction(ctx, c, name, f.args, f.kwargs)
		if err != nil {
			c.Log.Error("Function " + name + " in mine.update failed to execute: " + err.Error())
			continue
		}
		if Truth(f.tgt) {
			res = wrapMine(res, f.tgt, f.kind)
		}
		data.Set(alias, res)
	}
	return mineStore(ctx, c, data, a.Clear)
}

type mineSendArgs struct {
	Name   string
	Args   []any `arg:"*args"`
	Kwargs *Map  `arg:"**kwargs"`
}

func mineSend(ctx context.Context, c *Call, a mineSendArgs) (any, error) {
	kw := &Map{}
	for k, v := range a.Kwargs.All() {
		if !strings.HasPrefix(Str(k), "__") {
			kw.Set(k, v)
		}
	}
	f := parseMineFunction(kw)
	name := f.name
	if name == "" {
		name = a.Name
	}
	res, err := callMineFunction(ctx, c, name, a.Args, f.kwargs)
	if err != nil {
		c.Log.Error("Function " + name + " in mine.send failed to execute: " + err.Error())
		return false, nil
	}
	if Truth(f.tgt) {
		res = wrapMine(res, f.tgt, f.kind)
	}
	return mineStore(ctx, c, NewMap(a.Name, res), false)
}

type mineGetArgs struct {
	Tgt           any
	Fun           any
	TgtType       string `def:"'glob'"`
	ExcludeMinion bool   `def:"False"`
}

func mineGet(ctx context.Context, c *Call, a mineGetArgs) (any, error) {
	id := c.Opts.Str("id")
	if mineLocal(c) {
		return mineGetLocal(ctx, c, a, id)
	}
	v, err := c.Master.Request(ctx, NewMap("cmd", "_mine_get", "id", id, "tgt", a.Tgt, "fun", a.Fun, "tgt_type", a.TgtType))
	if err != nil {
		return nil, ExecErrorf("the master did not answer: %s", err)
	}
	if m, ok := v.(*Map); ok && a.ExcludeMinion {
		m.Delete(id)
	}
	return v, nil
}

// mineGetLocal is mine.get without a master: all that there is is our own.
func mineGetLocal(ctx context.Context, c *Call, a mineGetArgs, id string) (any, error) {
	ret := &Map{}
	hit, err := c.Run(ctx, "match."+a.TgtType, a.Tgt)
	if err != nil || !Truth(hit) {
		return ret, err
	}
	data, ok := loadData(c).Value("mine_cache").(*Map)
	if !ok {
		return ret, nil
	}
	funs, several := groupList(a.Fun), false
	if _, isText := a.Fun.(string); !isText || len(funs) > 1 {
		several = true
	}
	for _, fun := range funs {
		v, ok := data.Get(fun)
		if !ok {
			continue
		}
		if m, isMap := v.(*Map); isMap && m.Has(mineAclID) {
			v = m.Value(mineAclData)
		}
		if several {
			ret.Set(fun, NewMap(id, v))
		} else {
			ret.Set(id, v)
		}
	}
	return ret, nil
}

type mineDeleteArgs struct{ Fun any }

func mineDelete(ctx context.Context, c *Call, a mineDeleteArgs) (any, error) {
	if mineLocal(c) {
		data, _ := loadData(c).Value("mine_cache").(*Map)
		if data == nil {
			data = &Map{}
		}
		data.Delete(a.Fun)
		return c.Run(ctx, "data.update", "mine_cache", data)
	}
	return mineRequest(ctx, c, NewMap("cmd", "_mine_delete", "id", c.Opts.Str("id"), "fun", a.Fun))
}

func mineFlush(ctx context.Context, c *Call, _ noArgs) (any, error) {
	if mineLocal(c) {
		return c.Run(ctx, "data.update", "mine_cache", &Map{})
	}
	return mineRequest(ctx, c, NewMap("cmd", "_mine_flush", "id", c.Opts.Str("id")))
}

func mineValid(ctx context.Context, c *Call, _ noArgs) (any, error) {
	funs, err := configuredMine(ctx, c)
	if err != nil || funs.Len() == 0 {
		return nil, err
	}
	out := &Map{}
	for k, def := range funs.All() {
		f := parseMineFunction(def)
		name := f.name
		if name == "" {
			name = Str(k)
		}
		if !c.Has(ctx, name) {
			c.Log.Error("Function " + name + " in mine_functions not available")
			continue
		}
		if f.name == "" {
			out.Set(k, def)
			continue
		}
		args := NewList(f.args...)
		for key, v := range f.kwargs.All() {
			args.Append(NewMap(key, v))
		}
		out.Set(k, NewMap(f.name, args))
	}
	return out, nil
}

func publishModule() Module {
	return Module{
		Doc: "Run functions on other minions through the master, as far as its options peer and peer_run allow.",
		Funcs: Funcs{
			"publish":   {run: publishPublish, doc: "Run a function on other minions and return what they returned.\n\nCLI Example:\n\n    salt system.example.com publish.publish '*' cmd.run 'ls -la /tmp'"},
			"full_data": {run: publishFullData, doc: "As publish.publish, but return all that the minions told."},
			"runner":    {run: publishRunner, doc: "Run a runner on the master and return what it returned."},
		},
	}
}

// publishArgs reads arg as YAML, and makes a list of it.
func publishArgsOf(arg any) *List {
	if s, ok := arg.(string); ok {
		if v, err := ParseYAML([]byte(s)); err == nil {
			switch v.(type) {
			case *List, nil:
				arg = v
			default:
				if strings.TrimSpace(s) == Str(v) || !strings.ContainsAny(s, "#") {
					arg = v
				}
			}
		}
	}
	switch v := arg.(type) {
	case nil:
		return &List{}
	case *List:
		return v
	}
	return NewList(arg)
}

type publishArgs struct {
	Tgt       any
	Fun       string
	Arg       any     `def:"None"`
	TgtType   string  `def:"'glob'"`
	Returner  any     `def:"''"`
	Timeout   float64 `def:"5"`
	ViaMaster any     `def:"None"`
}

// publishJob publishes a job and gathers its returns until all have come or the
// time is over.
func publishJob(ctx context.Context, c *Call, a publishArgs, full bool) (any, error) {
	if c.Master == nil {
		c.Log.Error("Cannot run publish commands without a connection to a salt master. No command sent.")
		return &Map{}, nil
	}
	if strings.HasPrefix(a.Fun, "publish.") {
		c.Log.Info("Cannot publish publish calls. Returning {}")
		return &Map{}, nil
	}
	if via := a.ViaMaster; Truth(via) && !hasString(c.Opts.List("master"), Str(via)) {
		return nil, InvocationErrorf("Could not find match for %s in list of configured masters %s when using `via_master` option", Str(via), strings.Join(c.Opts.List("master"), ", "))
	}
	form := "clean"
	if full {
		form = "full"
	}
	id := c.Opts.Str("id")
	noParse, _ := c.Opts.Value("no_parse").(*List)
	if noParse == nil {
		noParse = &List{}
	}
	answer, err := c.Master.Request(ctx, NewMap("cmd", "minion_pub", "fun", a.Fun, "arg", publishArgsOf(a.Arg), "tgt", a.Tgt, "tgt_type", a.TgtType,
		"ret", a.Returner, "tmo", int64(a.Timeout), "form", form, "id", id, "no_parse", noParse))
	if err != nil {
		return "'" + a.Fun + "' publish timed out", nil
	}
	job, _ := answer.(*Map)
	if job.Len() == 0 {
		return &Map{}, nil
	}
	waiting := map[string]bool{}
	for _, m := range toItems(job.Value("minions")) {
		waiting[Str(m)] = true
	}
	deadline := time.Now().Add(time.Duration(a.Timeout * float64(time.Second)))
	got := &Map{}
	for len(waiting) > 0 {
		v, err := c.Master.Request(ctx, NewMap("cmd", "pub_ret", "id", id, "jid", job.Value("jid")))
		if m, ok := v.(*Map); ok && err == nil {
			got = m
		}
		all := true
		for m := range waiting {
			all = all && got.Has(m)
		}
		if all || time.Now().After(deadline) {
			break
		}
		if !waitRetry(ctx, 300*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
	if full {
		return got, nil
	}
	out := &Map{}
	for host, v := range got.All() {
		m, _ := v.(*Map)
		out.Set(host, m.Value("ret"))
	}
	return out, nil
}

func publishPublish(ctx context.Context, c *Call, a publishArgs) (any, error) {
	return publishJob(ctx, c, a, false)
}

type publishFullArgs struct {
	Tgt      any
	Fun      string
	Arg      any     `def:"None"`
	TgtType  string  `def:"'glob'"`
	Returner any     `def:"''"`
	Timeout  float64 `def:"5"`
}

func publishFullData(ctx context.Context, c *Call, a publishFullArgs) (any, error) {
	return publishJob(ctx, c, publishArgs{a.Tgt, a.Fun, a.Arg, a.TgtType, a.Returner, a.Timeout, nil}, true)
}

type publishRunnerArgs struct {
	Fun     string
	Arg     any     `def:"None"`
	Timeout float64 `def:"5"`
}

func publishRunner(ctx context.Context, c *Call, a publishRunnerArgs) (any, error) {
	if c.Master == nil {
		return "No access to master. If using salt-call with --local, please remove.", nil
	}
	v, err := c.Master.Request(ctx, NewMap("cmd", "minion_runner", "fun", a.Fun, "arg", publishArgsOf(a.Arg), "tmo", int64(a.Timeout),
		"id", c.Opts.Str("id"), "no_parse", &List{}))
	if err != nil {
		return "'" + a.Fun + "' runner publish timed out", nil
	}
	return v, nil
}
