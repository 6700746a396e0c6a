// Module saltutil: what a minion on the master's own machine may do there:
// runners, wheel functions and jobs.
//
// The law of this file: the master's configuration is the file master beside the
// minion's; runners run in this process, as salt-run's do, wheel functions and
// jobs are asked of the running master with the key of this user.
package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"time"
)

// saltutilMasterFuncs are the functions of this file.
func saltutilMasterFuncs() Funcs {
	job := "\n\ntgt, tgt_type: which minions\nfun: the function\narg, kwarg: its arguments\ntimeout: seconds to wait\nret: a returner for the results"
	return Funcs{
		"runner":   {run: saltutilRunRunner, doc: "Run a runner, on a minion on the master's machine.\n\nname: the runner's function\narg, kwarg: its arguments, as a list and a mapping; other keywords are added\nfull_return: True returns all that is known of the run"},
		"wheel":    {run: saltutilWheel, doc: "Call a wheel function of the master on this machine.\n\nname: the function; its arguments follow"},
		"cmd":      {run: saltutilCmd, doc: "Run a function on minions of the master on this machine." + job},
		"cmd_iter": {run: saltutilCmdIter, doc: "As cmd, but return a list with an entry for each minion." + job},
		"mmodule":  {run: saltutilMmodule, doc: "Call an execution function, for pillars and the like.\n\nsaltenv: accepted as in Salt\nfun: the function; its arguments follow"},
	}
}

// masterConfigOf are the options of the master on this machine.
func masterConfigOf(c *Call) (*Options, error) {
	if c.Runner != nil {
		return c.Runner.client.o, nil
	}
	dir := filepath.Dir(c.Opts.Str("conf_file"))
	if !filepath.IsAbs(dir) {
		dir = ""
	}
	o, err := LoadMasterConfig(ConfigFlags{Dir: dir, Log: c.Log})
	if err != nil {
		return nil, ExecErrorf("read the master's configuration: %v", err)
	}
	return o, nil
}

type saltutilRunnerArgs struct {
	Name       string
	Arg        any    `def:"None"`
	Kwarg      any    `def:"None"`
	FullReturn bool   `def:"False"`
	Saltenv    string `def:"'base'"`
	Jid        any    `def:"None"`
	Kwargs     *Map   `arg:"**kwargs"`
}

func saltutilRunRunner(ctx context.Context, c *Call, a saltutilRunnerArgs) (any, error) {
	o, err := masterConfigOf(c)
	if err != nil {
		return nil, err
	}
	r := NewRunnerClient(o, c.Log, io.Discard, NewCustoms(o))
	defer r.Close()
	user := "UNKNOWN"
	if v := a.Kwargs.Value("__pub_user"); Truth(v) {
		user = Str(v)
	}
	jid := NewJID(time.Now())
	f, err := r.runners().Function(ctx, r.call(a.Name, jid, user), a.Name)
	if err != nil {
		return nil, OtherErrorf("KeyError", "%s", Repr(a.Name))
	}
	kwargs := NewMap()
	if m, ok := a.Kwarg.(*Map); ok {
		kwargs.Merge(m)
	}
	kwargs.Merge(cleanKwargs(a.Kwargs))
	if namedParam(f.Signature(), "saltenv") {
		saltenv := a.Saltenv
		if v := a.Kwargs.Value("__env__"); Truth(v) {
			saltenv = Str(v)
		}
		kwargs.Set("saltenv", saltenv)
	}
	switch a.Name {
	case "state.orchestrate", "state.orch", "state.sls":
		above := a.Jid
		if v, ok := a.Kwargs.Get("__orchestration_jid__"); ok {
			above = v
		}
		kwargs.Set("orchestration_jid", above)
	}
	args := toItems(a.Arg)
	res := r.execute(ctx, runnerRun{Fun: a.Name, Args: args, Kwargs: kwargs, JID: jid, User: user})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	ret, _ := unwrapOutput(res.Return)
	if !a.FullReturn {
		return ret, nil
	}
	return NewMap("fun", "runner."+a.Name, "jid", jid, "user", user, "fun_args", lowFunArgs(args, kwargs), "return", ret, "success", res.Success), nil
}

// namedParam says whether a function has a parameter of that name.
func namedParam(sig *Signature, name string) bool {
	if sig == nil {
		return false
	}
	for _, p := range sig.Params {
		if p.Name == name {
			return true
		}
	}
	return false
}

type saltutilWheelArgs struct {
	Name   string
	Args   []any `arg:"*args"`
	Kwargs *Map  `arg:"**kwargs"`
}

func saltutilWheel(ctx context.Context, c *Call, a saltutilWheelArgs) (any, error) {
	mod, fun, _ := strings.Cut(a.Name, ".")
	o, err := masterConfigOf(c)
	if err != nil {
		return nil, err
	}
	master := &Master{log: c.Log, customs: NewCustoms(o)}
	defer master.customs.Close()
	f, err := master.wheelFunction(ctx, NewCall(&Env{Opts: o, Log: c.Log, Loader: NewLoader(o, master.customs)}, a.Name, "", nil), mod, fun)
	if err != nil {
		return nil, OtherErrorf("KeyError", "%s", Repr(a.Name))
	}
	kwargs := cleanKwargs(a.Kwargs)
	if namedParam(f.Signature(), "saltenv") && !kwargs.Has("saltenv") {
		kwargs.Set("saltenv", "base")
	}
	client := NewLocalClient(o, PublishAuth{}, c.Log)
	defer client.Close()
	answer, err := client.ask(ctx, NewMap("cmd", "wheel", "fun", a.Name, "arg", NewList(a.Args...), "kwarg", kwargs, "key", client.key, "user", client.user))
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, ExecErrorf("This command can only be executed on a minion that is located on the master.")
	}
	m, _ := answer.(*Map)
	if failed := m.Map("error"); failed != nil {
		return nil, ExecErrorf("the master refused %s: %s", a.Name, oneLine(failed.Str("message")))
	}
	data := m.Map("data")
	if data == nil {
		return nil, ExecErrorf("the master answered %s", shortRepr(answer))
	}
	data.Delete("tag")
	data.Delete("_stamp")
	data.Set("fun_args", lowFunArgs(a.Args, kwargs))
	return data, nil
}

type saltutilCmdArgs struct {
	Tgt     any
	Fun     any
	Arg     any    `def:"()"`
	Timeout any    `def:"None"`
	TgtType string `def:"'glob'"`
	Ret     string `def:"''"`
	Kwarg   any    `def:"None"`
	Ssh     bool   `def:"False"`
	Kwargs  *Map   `arg:"**kwargs"`
}

// jobFromMinion runs a job and hands each result over as Salt's client has it.
func jobFromMinion(ctx context.Context, c *Call, a saltutilCmdArgs, each func(id string, ret *Map)) error {
	if a.Ssh {
		return InvocationErrorf("ssh=True is not supported: there is no salt-ssh here")
	}
	kwargs := cleanKwargs(a.Kwargs)
	for _, key := range []string{"batch", "subset"} {
		if Truth(kwargs.Value(key)) {
			return InvocationErrorf("%s is not supported here: use the options of the program salt", key)
		}
	}
	o, err := masterConfigOf(c)
	if err != nil {
		return err
	}
	client := NewLocalClient(o, PublishAuth{}, c.Log)
	defer client.Close()
	req := JobRequest{Tgt: a.Tgt, TgtType: a.TgtType, Fun: a.Fun, Arg: NewList(toItems(a.Arg)...), Ret: a.Ret, Kwargs: kwargs}
	if kw, ok := a.Kwarg.(*Map); ok && kw.Len() > 0 {
		m := kw.Clone()
		m.Set("__kwarg__", true)
		req.Arg.Append(m)
	}
	_, err = client.Run(ctx, req, WaitOptions{Timeout: seconds(a.Timeout)}, func(r MinionReturn) bool {
		ret := NewMap("ret", r.Return)
		if r.Out != "" {
			ret.Set("out", r.Out)
		}
		if r.Retcode != nil {
			ret.Set("retcode", r.Retcode)
		}
		ret.Set("jid", r.JID)
		each(r.ID, ret)
		return true
	})
	var known *ClientError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ErrNoMinions):
		return nil
	case errors.As(err, &known):
		return OtherErrorf("salt.exceptions."+known.Name, "%s", known.Msg)
	}
	return err
}

func saltutilCmd(ctx context.Context, c *Call, a saltutilCmdArgs) (any, error) {
	out := NewMap()
	err := jobFromMinion(ctx, c, a, func(id string, ret *Map) { out.Set(id, ret) })
	return out, err
}

func saltutilCmdIter(ctx context.Context, c *Call, a saltutilCmdArgs) (any, error) {
	out := NewList()
	err := jobFromMinion(ctx, c, a, func(id string, ret *Map) { out.Append(NewMap(id, ret)) })
	return out, err
}

type saltutilMmoduleArgs struct {
	Saltenv string
	Fun     string
	Args    []any `arg:"*args"`
	Kwargs  *Map  `arg:"**kwargs"`
}

func saltutilMmodule(ctx context.Context, c *Call, a saltutilMmoduleArgs) (any, error) {
	ret, err := c.RunKw(ctx, a.Fun, a.Args, cleanKwargs(a.Kwargs))
	var missing *NotAvailableError
	if errors.As(err, &missing) && missing.Name == a.Fun {
		return nil, OtherErrorf("KeyError", "%s", Repr(a.Fun))
	}
	return ret, err
}
