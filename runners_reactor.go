// Runner reactor: lists and changes what the running master reacts to. Requests
// and answers are events; master_reactor_manage.go answers.
package main

import (
	"context"
	"time"
)

// reactorAnswerTime is how long the master may take to answer.
const reactorAnswerTime = 30 * time.Second

// reactorAskAgain is how long an answer that nobody may have heard is waited for.
const reactorAskAgain = 500 * time.Millisecond

func reactorRunner() Module {
	return Module{
		Doc: "What the master does when events come.",
		Funcs: Funcs{
			"list":       {run: runReactorList, pyname: "list_", doc: "List the reactions."},
			"add":        {run: runReactorAdd, doc: "Add a reaction, until the master stops.\n\nevent: a shell pattern for tags\nreactors: the files to render"},
			"delete":     {run: runReactorDelete, doc: "Delete a reaction, until the master stops.\n\nevent: its pattern for tags"},
			"is_leader":  {run: runReactorIsLeader, doc: "Tell whether this master reacts."},
			"set_leader": {run: runReactorSetLeader, doc: "Let this master react, or not.\n\nvalue: False stops it"},
		},
	}
}

// askReactor sends a request to the reactor and returns a part of its answer.
func askReactor(ctx context.Context, c *Call, what, answer, part string, data *Map) (any, error) {
	if len(toItems(c.Opts.Value("reactor"))) == 0 {
		return nil, ExecErrorf("Reactor system is not running.")
	}
	ctx, cancel := context.WithTimeout(ctx, reactorAnswerTime)
	defer cancel()
	bus, err := DialBus(ctx, c.Opts.Path("sock_dir"))
	if err != nil {
		return nil, ExecErrorf("ask the reactor: %v", err)
	}
	defer bus.Close()
	sub := bus.Subscribe(reactorManageTag)
	defer sub.Close()
	key := readPublishKey(c.Opts, "root")
	// The bus may not know of this listener yet: a question that changes nothing
	// is asked until its answer is heard.
	heard := NewMap()
	for heard.Len() == 0 {
		once, done := context.WithTimeout(ctx, reactorAskAgain)
		heard, err = askReactorOnce(once, c, sub, "list", "list-results", NewMap("key", key))
		done()
		if err != nil && (ctx.Err() != nil || once.Err() == nil) {
			return nil, err
		}
	}
	if what != "list" {
		data.Set("key", key)
		if heard, err = askReactorOnce(ctx, c, sub, what, answer, data); err != nil {
			return nil, err
		}
	}
	return heard.Value(part), nil
}

// askReactorOnce sends one request and waits for the event that answers it.
func askReactorOnce(ctx context.Context, c *Call, sub *BusSubscription, what, answer string, data *Map) (*Map, error) {
	if err := c.Runner.client.push.Fire(ctx, c.Runner.tag+"/"+reactorManageTag+what, data); err != nil {
		return nil, ExecErrorf("ask the reactor: %v", err)
	}
	for {
		e, err := sub.Next(ctx)
		if err != nil {
			return nil, ExecErrorf("the reactor of the master did not answer: %v", err)
		}
		if e.Tag != reactorManageTag+answer {
			continue
		}
		m, err := e.Data()
		if err != nil {
			return nil, ExecErrorf("read the answer of the reactor: %v", err)
		}
		return m, nil
	}
}

// reactorEnvArgs are taken and not used: reactions have no environment.
type reactorEnvArgs struct {
	Saltenv any `def:"'base'"`
	Test    any `def:"None"`
}

func runReactorList(ctx context.Context, c *Call, _ reactorEnvArgs) (any, error) {
	return askReactor(ctx, c, "list", "list-results", "reactors", NewMap())
}

func runReactorAdd(ctx context.Context, c *Call, a struct {
	Event    string
	Reactors any
	reactorEnvArgs
}) (any, error) {
	return askReactor(ctx, c, "add", "add-complete", "result", NewMap("event", a.Event, "reactors", NewList(toItems(a.Reactors)...)))
}

func runReactorDelete(ctx context.Context, c *Call, a struct {
	Event string
	reactorEnvArgs
}) (any, error) {
	return askReactor(ctx, c, "delete", "delete-complete", "result", NewMap("event", a.Event))
}

func runReactorIsLeader(ctx context.Context, c *Call, _ struct{}) (any, error) {
	return askReactor(ctx, c, "is_leader", "leader/value", "result", NewMap())
}

func runReactorSetLeader(ctx context.Context, c *Call, a struct {
	Value any `def:"True"`
}) (any, error) {
	return askReactor(ctx, c, "set_leader", "leader/value", "result", NewMap("id", c.Runner.client.masterID(), "value", a.Value))
}
