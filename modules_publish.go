// Module publish: jobs and runners that this minion asks its master for. Which
// ones it may, the master's options peer and peer_run say.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

func publishModule() Module {
	args := "\n\ntgt, tgt_type: which minions\nfun: the function\narg: its argument, or a list of them; name=value is a keyword\nreturner: where results go, too\ntimeout: seconds to wait for the minions"
	return Module{
		Doc: "Jobs of this minion for others, as the master allows them.",
		Funcs: Funcs{
			"publish":   {run: publishPublish, doc: "Run a function on other minions and return the results by minion." + args + "\nvia_master: the master to ask, if there are several"},
			"full_data": {run: publishFullData, doc: "Run a function on other minions and return all that came back, by minion." + args},
			"runner":    {run: publishRunner, doc: "Call a runner of the master and return its result.\n\nfun: the runner's function\narg: its argument, or a list of them\ntimeout: accepted as in Salt"},
		},
	}
}

// publishPollEvery is the pause between two questions for results.
const publishPollEvery = 300 * time.Millisecond

// masterPicker is a MinionControl that knows several masters.
type masterPicker interface {
	// ChannelTo returns the channel to a master by its configured host name or
	// address, nil if there is none.
	ChannelTo(host string) MasterChannel
}

// ChannelTo finds the channel to another master of this minion.
func (l *masterLink) ChannelTo(host string) MasterChannel {
	for _, other := range l.m.Links() {
		if other.opts.Str("master") == host || hostOfChannel(other.channel) == host {
			return other.channel
		}
	}
	return nil
}

func hostOfChannel(ch MasterChannel) string {
	host, _, err := net.SplitHostPort(ch.MasterAddr())
	if err != nil {
		return ch.MasterAddr()
	}
	return host
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

type publishFullArgs struct {
	Tgt      any
	Fun      string
	Arg      any     `def:"None"`
	TgtType  string  `def:"'glob'"`
	Returner any     `def:"''"`
	Timeout  float64 `def:"5"`
}

// publishList makes the argument of publish a list of arguments.
func publishList(arg any) *List {
	if s, ok := arg.(string); ok {
		arg = convertWord(s)
	}
	switch arg := arg.(type) {
	case nil:
		return NewList()
	case *List:
		return arg
	}
	return NewList(arg)
}

func noParseOption(c *Call) any {
	if v := c.Opts.Value("no_parse"); v != nil {
		return v
	}
	return NewList()
}

func publishPublish(ctx context.Context, c *Call, a publishArgs) (any, error) {
	ch := c.Master
	if Truth(a.ViaMaster) && ch != nil {
		host := Str(a.ViaMaster)
		if c.Opts.Str("master") != host && hostOfChannel(ch) != host {
			ch = nil
			if p, ok := c.Minion.(masterPicker); ok {
				ch = p.ChannelTo(host)
			}
			if ch == nil {
				return nil, InvocationErrorf("Could not find match for %s in list of configured masters when using `via_master` option", host)
			}
		}
	}
	full := publishFullArgs{a.Tgt, a.Fun, a.Arg, a.TgtType, a.Returner, a.Timeout}
	ret, err := publishAndWait(ctx, c, ch, full, "clean")
	byMinion, ok := ret.(*Map)
	if err != nil || !ok {
		return ret, err
	}
	clean := NewMap()
	for id, v := range byMinion.All() {
		m, _ := v.(*Map)
		clean.Set(id, m.Value("ret"))
	}
	return clean, nil
}

func publishFullData(ctx context.Context, c *Call, a publishFullArgs) (any, error) {
	return publishAndWait(ctx, c, c.Master, a, "full")
}

// publishAndWait publishes a job and asks for its results until all are there
// or the time is over. A job for nobody returns nil, as in Salt.
func publishAndWait(ctx context.Context, c *Call, ch MasterChannel, a publishFullArgs, form string) (any, error) {
	if ch == nil {
		c.Log.Error("Cannot run publish commands without a connection to a salt master. No command sent.")
		return NewMap(), nil
	}
	if strings.HasPrefix(a.Fun, "publish.") {
		c.Log.Info("Cannot publish publish calls. Returning {}")
		return NewMap(), nil
	}
	id := c.Opts.Str("id")
	c.Log.Info(fmt.Sprintf("Publishing '%s' to %s", a.Fun, ch.MasterAddr()))
	reply, err := ch.Request(ctx, NewMap("cmd", "minion_pub", "fun", a.Fun, "arg", publishList(a.Arg), "tgt", a.Tgt, "tgt_type", a.TgtType,
		"ret", a.Returner, "tmo", a.Timeout, "form", form, "id", id, "no_parse", noParseOption(c)))
	if err != nil {
		return publishFailed(ctx, fmt.Sprintf("'%s' publish timed out", a.Fun), err)
	}
	job, _ := reply.(*Map)
	if job.Len() == 0 {
		return NewMap(), nil
	}
	expected := job.List("minions")
	if expected.Len() == 0 {
		return nil, nil
	}
	deadline := time.Now().Add(time.Duration(a.Timeout * float64(time.Second)))
	for {
		reply, err := ch.Request(ctx, NewMap("cmd", "pub_ret", "id", id, "jid", job.Value("jid")))
		if err != nil {
			return publishFailed(ctx, fmt.Sprintf("'%s' publish timed out", a.Fun), err)
		}
		ret, _ := reply.(*Map)
		if ret == nil {
			ret = NewMap()
		}
		missing := false
		for _, id := range expected.Items {
			missing = missing || !ret.Has(id)
		}
		if !missing || time.Now().After(deadline) {
			return ret, nil
		}
		if !sleepContext(ctx, publishPollEvery) {
			return nil, ctx.Err()
		}
	}
}

// publishFailed is the answer where the master gave none.
func publishFailed(ctx context.Context, timedOut string, err error) (any, error) {
	var n net.Error
	if ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) && n.Timeout()) {
		return timedOut, nil
	}
	return nil, ExecErrorf("ask the master: %v", err)
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
	c.Log.Info(fmt.Sprintf("Publishing runner '%s' to %s", a.Fun, c.Master.MasterAddr()))
	reply, err := c.Master.Request(ctx, NewMap("cmd", "minion_runner", "fun", a.Fun, "arg", publishList(a.Arg), "tmo", a.Timeout,
		"id", c.Opts.Str("id"), "no_parse", noParseOption(c)))
	if err != nil {
		return publishFailed(ctx, fmt.Sprintf("'%s' runner publish timed out", a.Fun), err)
	}
	return reply, nil
}
