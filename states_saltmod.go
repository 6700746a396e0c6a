// State module salt: orchestration. Its states run jobs on minions, runners and
// wheel functions; they are for salt-run state.orchestrate, where a call has the
// master's clients in Call.Runner. salt.state also works on a minion without a
// master, on itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

func saltStates() Module {
	return Module{
		Doc: "Orchestration: jobs on minions, runners, wheel functions and events, one after the other.",
		Funcs: Funcs{
			"state":            {run: saltStateState, doc: "Apply SLS files, a top file or the highstate on minions."},
			"function":         {run: saltStateFunction, doc: "Call an execution function on minions."},
			"runner":           {run: saltStateRunner, doc: "Call a runner."},
			"parallel_runners": {run: saltStateParallel, doc: "Call several runners at the same time."},
			"wheel":            {run: saltStateWheel, doc: "Call a wheel function."},
			"wait_for_event":   {run: saltStateWaitForEvent, doc: "Wait until events have come from all of a list of ids."},
		},
	}
}

// commandData runs a job and collects the returns with all that is in them. A
// minion that does not answer counts only where w asks for the silent ones.
func commandData(ctx context.Context, c *Call, req JobRequest, w WaitOptions) (*Map, string, error) {
	out := NewMap()
	job, err := c.Runner.Client.Run(ctx, req, w, func(r MinionReturn) bool {
		if r.Silent != "" {
			out.Set(r.ID, NewMap("failed", true))
			return true
		}
		one := NewMap("ret", r.Return, "jid", r.JID)
		if r.Retcode != nil {
			one.Set("retcode", r.Retcode)
		}
		if r.Out != "" {
			one.Set("out", r.Out)
		}
		out.Set(r.ID, one)
		return true
	})
	jid := ""
	if job != nil {
		jid = job.JID
	}
	if err != nil {
		if errors.Is(err, ErrNoMinions) {
			tellClientError(c, err)
			return out, jid, nil
		}
		return nil, jid, err
	}
	return out, jid, nil
}

// fireArgs tells on the bus what an orchestration is about to do.
func fireArgs(ctx context.Context, c *Call, what *Map) {
	if c.Runner == nil || c.State == nil || c.State.OrchJID == "" {
		return
	}
	c.Runner.client.fire(ctx, "salt/run/"+c.State.OrchJID+"/args", what)
}

// saltJob are the arguments that salt.state and salt.function have in common:
// whom a job is for and how it is run.
type saltJob struct {
	Tgt           any
	TgtType       string
	Ret           any
	RetConfig     any
	RetKwargs     any
	Timeout       any
	Batch         any
	Subset        any
	ExpectMinions any
}

// fired is the job as the args event of an orchestration tells of it.
func (j saltJob) fired(kind, name string, args *List, kw *Map) *Map {
	cmd := NewMap("arg", NewList(args.Items...), "kwarg", kw, "ret", j.Ret, "timeout", j.Timeout)
	if Truth(j.RetConfig) {
		cmd.Set("ret_config", j.RetConfig)
	}
	if Truth(j.RetKwargs) {
		cmd.Set("ret_kwargs", j.RetKwargs)
	}
	cmd.Merge(NewMap("tgt_type", j.TgtType, "ssh", false, "expect_minions", j.ExpectMinions))
	if j.Batch != nil {
		cmd.Set("batch", Str(j.Batch))
	}
	setGiven(cmd, "subset", j.Subset)
	if kind == "function" {
		cmd.Set("_cmd_meta", true)
	}
	return NewMap("type", kind, "tgt", j.Tgt, "name", name, "args", cmd)
}

// run publishes the job and returns what each minion answered, with the job's id.
func (j saltJob) run(ctx context.Context, c *Call, fun string, args *List, kw *Map) (*Map, string, error) {
	req := JobRequest{Tgt: j.Tgt, TgtType: j.TgtType, Fun: fun, Arg: withKeywords(args, kw), Ret: Str(orEmpty(j.Ret)), Kwargs: NewMap()}
	if Truth(j.RetConfig) {
		req.Kwargs.Set("ret_config", j.RetConfig)
	}
	if Truth(j.RetKwargs) {
		req.Kwargs.Set("ret_kwargs", j.RetKwargs)
	}
	w := WaitOptions{Timeout: seconds(j.Timeout), Silent: Truth(j.ExpectMinions)}
	return inBatches(ctx, c, req, w, j.Batch, j.Subset)
}

// failMinions reads fail_minions: ids whose failure does not count.
func failMinions(ret *Map, v any) []string {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return splitInput(v)
	case *List:
		return texts(v)
	}
	ret.Set("warnings", NewList("'fail_minions' needs to be a list or a comma separated string. Ignored."))
	return nil
}

// inBatches runs a job on a few minions at a time where batch asks for it.
func inBatches(ctx context.Context, c *Call, req JobRequest, w WaitOptions, batch, subset any) (*Map, string, error) {
	if batch == nil && subset == nil {
		return commandData(ctx, c, req, w)
	}
	who := req
	who.Fun, who.Arg, who.Ret = "test.ping", nil, ""
	answers, _, err := commandData(ctx, c, who, w)
	if err != nil {
		return nil, "", err
	}
	var ids []string
	for id, v := range answers.All() {
		if m, _ := v.(*Map); !Truth(m.Value("failed")) {
			ids = append(ids, Str(id))
		}
	}
	slices.Sort(ids)
	if n, ok := toInt(subset); subset != nil && ok && int(n) < len(ids) {
		ids = ids[:n]
	}
	size := len(ids)
	if batch != nil {
		text := strings.TrimSpace(Str(batch))
		if p, ok := strings.CutSuffix(text, "%"); ok {
			f, _ := toFloat(p)
			size = int(float64(len(ids)) * f / 100)
		} else if n, ok := toInt(text); ok {
			size = int(n)
		}
	}
	size = max(size, 1)
	all, jid := NewMap(), ""
	for len(ids) > 0 {
		n := min(size, len(ids))
		part := req
		part.Tgt, part.TgtType = Strings(ids[:n]), "list"
		ids = ids[n:]
		got, j, err := commandData(ctx, c, part, w)
		if err != nil {
			return nil, "", err
		}
		if jid == "" {
			jid = j
		}
		all.Merge(got)
	}
	return all, jid, nil
}

func withKeywords(args *List, kw *Map) *List {
	if kw.Len() > 0 {
		m := NewMap("__kwarg__", true)
		m.Merge(kw)
		args.Append(m)
	}
	return args
}

func saltStateState(ctx context.Context, c *Call, a struct {
	Name             string
	Tgt              any
	SSH              any    `arg:"ssh" def:"False"`
	TgtType          string `def:"glob"`
	Ret              any    `def:"''"`
	RetConfig        any    `def:"None"`
	RetKwargs        any    `def:"None"`
	Highstate        any    `def:"None"`
	SLS              any    `arg:"sls" def:"None"`
	Top              any    `def:"None"`
	Saltenv          any    `def:"None"`
	Test             any    `def:"None"`
	Pillar           any    `def:"None"`
	Pillarenv        any    `def:"None"`
	ExpectMinions    bool   `def:"True"`
	Exclude          any    `def:"None"`
	FailMinions      any    `def:"None"`
	AllowFail        any    `def:"0"`
	Concurrent       any    `def:"False"`
	Timeout          any    `def:"None"`
	Batch            any    `def:"None"`
	Queue            any    `def:"False"`
	Subset           any    `def:"None"`
	OrchestrationJID any    `arg:"orchestration_jid" def:"None"`
	Failhard         any    `def:"None"`
	Kwargs           *Map   `arg:"**kwargs"`
}) (any, error) {
	ret := NewMap("name", a.Name, "changes", NewMap(), "comment", "", "result", true)
	allowed, ok := toInt(a.AllowFail)
	if !ok {
		return stateSay(ret, false, "Passed invalid value for 'allow_fail', must be an int")
	}
	args := NewList()
	fun := ""
	switch {
	case Truth(a.Highstate):
		fun = "state.highstate"
	case Truth(a.Top):
		fun = "state.top"
		args.Append(a.Top)
	case Truth(a.SLS):
		fun = "state.sls"
		args.Append(strings.Join(textList(a.SLS), ","))
	default:
		return stateSay(ret, false, "No highstate or sls specified, no execution made")
	}
	test := a.Test
	if test == nil && c.Testing() {
		test = true
	}
	kw := NewMap()
	setGiven(kw, "test", test)
	if Truth(a.Pillar) {
		kw.Set("pillar", a.Pillar)
	}
	setGiven(kw, "pillarenv", a.Pillarenv, "saltenv", a.Saltenv, "exclude", a.Exclude)
	kw.Set("queue", a.Queue)
	if _, ok := a.Concurrent.(bool); !ok {
		return stateSay(ret, false, "Must pass in boolean for value of 'concurrent'")
	}
	kw.Set("concurrent", a.Concurrent)
	var answers *Map
	if c.Runner == nil {
		if c.Opts.Str("file_client") != "local" {
			return stateSay(ret, false, "salt.state runs on the master: salt-run state.orchestrate")
		}
		kw.Set("concurrent", true) // the run that this state is part of is under way
		v, err := c.RunKw(ctx, fun, args.Items, kw)
		if err != nil {
			return nil, err
		}
		answers = NewMap(c.Opts.Str("id"), NewMap("ret", v, "out", "highstate"))
	} else {
		job := saltJob{a.Tgt, a.TgtType, a.Ret, a.RetConfig, a.RetKwargs, a.Timeout, a.Batch, a.Subset, a.ExpectMinions}
		fireArgs(ctx, c, job.fired("state", a.Name, args, kw))
		got, jid, err := job.run(ctx, c, fun, args, kw)
		if err != nil {
			return nil, err
		}
		answers = got
		if jid != "" && got.Len() > 0 {
			ret.Set("__jid__", jid)
		}
	}
	excused := failMinions(ret, a.FailMinions)
	if answers.Len() == 0 && a.ExpectMinions {
		return stateSay(ret, false, "No minions returned")
	}
	changes := NewMap()
	var failed, unchanged, reasons []string
	for id, v := range answers.All() {
		data := v.(*Map)
		minion := Str(id)
		result, has := data.Get("ret")
		if data.Str("out") != "highstate" {
			c.Log.Warn("Output from salt state not highstate")
		}
		states, isMap := result.(*Map)
		good := has && !Truth(data.Value("failed")) && isMap && stateResultGood(states, nil, true)
		if !good {
			if !slices.Contains(excused, minion) {
				failed = append(failed, minion)
				reasons = append(reasons, failureReason(minion, result, has))
			}
			if Truth(data.Value("failed")) || !has {
				result = false
			}
			changes.Set(minion, result)
			continue
		}
		changed := false
		for _, s := range states.All() {
			if m, ok := s.(*Map); ok && Truth(m.Value("changes")) {
				changed = true
			}
		}
		if changed {
			changes.Set(minion, states)
		} else {
			unchanged = append(unchanged, minion)
		}
	}
	if changes.Len() > 0 {
		ret.Set("changes", NewMap("out", "highstate", "ret", changes))
	}
	if int64(len(failed)) > allowed {
		ret.Set("result", false)
		slices.Sort(reasons)
		lines := append([]string{"Run failed on minions: " + strings.Join(failed, ", ")},
			slices.DeleteFunc(reasons, func(s string) bool { return s == "" })...)
		ret.Set("comment", strings.Join(lines, "\n"))
	} else {
		comment := "States ran successfully."
		if changes.Len() > 0 {
			comment += " Updating " + strings.Join(texts(NewList(changes.Keys()...)), ", ") + "."
		}
		if len(unchanged) > 0 {
			comment += " No changes made to " + strings.Join(unchanged, ", ") + "."
		}
		ret.Set("comment", comment)
	}
	if Truth(test) && changes.Len() > 0 && ret.Value("result") == true {
		ret.Set("result", nil)
	}
	return ret, nil
}

// failureReason says in a line why the state run of a minion failed. It is empty
// where the states themselves tell.
func failureReason(minion string, result any, returned bool) string {
	if !returned {
		return "Minion " + minion + " did not return a state result."
	}
	switch result := result.(type) {
	case *Map:
		return ""
	case *List:
		var said []string
		for _, item := range result.Items {
			if Truth(item) {
				said = append(said, Str(item))
			}
		}
		if len(said) == 0 {
			return "Minion " + minion + " returned an empty error list."
		}
		return "Minion " + minion + " returned errors: " + strings.Join(said, "; ")
	}
	return "Minion " + minion + " returned " + Repr(result) + " instead of a state result."
}

func saltStateFunction(ctx context.Context, c *Call, a struct {
	Name          string
	Tgt           any
	SSH           any    `arg:"ssh" def:"False"`
	TgtType       string `def:"glob"`
	Ret           any    `def:"''"`
	RetConfig     any    `def:"None"`
	RetKwargs     any    `def:"None"`
	ExpectMinions any    `def:"False"`
	FailMinions   any    `def:"None"`
	FailFunction  any    `def:"None"`
	Arg           any    `def:"None"`
	Kwarg         any    `def:"None"`
	Timeout       any    `def:"None"`
	Batch         any    `def:"None"`
	Subset        any    `def:"None"`
	Failhard      any    `def:"None"`
	Kwargs        *Map   `arg:"**kwargs"`
}) (any, error) {
	ret := NewMap("name", a.Name, "changes", NewMap(), "comment", "", "result", true)
	args := NewList(toItems(a.Arg)...)
	if s, ok := a.Arg.(string); ok {
		ret.Set("warnings", NewList("Please specify 'arg' as a list of arguments."))
		args = Strings(strings.Fields(s))
	}
	if c.Testing() {
		return stateSay(ret, nil, "Function %s would be executed on target %s", a.Name, Str(a.Tgt))
	}
	if c.Runner == nil {
		return stateSay(ret, false, "salt.function runs on the master: salt-run state.orchestrate")
	}
	kw, _ := a.Kwarg.(*Map)
	job := saltJob{a.Tgt, a.TgtType, a.Ret, a.RetConfig, a.RetKwargs, a.Timeout, a.Batch, a.Subset, a.ExpectMinions}
	fireArgs(ctx, c, job.fired("function", a.Name, args, mapOrEmpty(kw)))
	answers, jid, err := job.run(ctx, c, a.Name, args, kw)
	if err != nil {
		return stateSay(ret, false, "%s", err)
	}
	if jid != "" && answers.Len() > 0 {
		ret.Set("__jid__", jid)
	}
	excused := failMinions(ret, a.FailMinions)
	changes := NewMap()
	var failed []string
	for id, v := range answers.All() {
		data := v.(*Map)
		minion := Str(id)
		var result any = false
		bad := false
		if Truth(data.Value("retcode")) {
			ret.Set("result", false)
			bad = true
		}
		good := false
		if !Truth(data.Value("failed")) {
			result = data.Value("ret")
			good = true
			if Truth(a.FailFunction) {
				v, err := c.Run(ctx, Str(a.FailFunction), result)
				if err != nil {
					return nil, err
				}
				good = Truth(v)
			}
			good = good && result != false
		}
		if bad || !good && !slices.Contains(excused, minion) {
			failed = append(failed, minion)
		}
		changes.Set(minion, result)
	}
	if answers.Len() == 0 {
		return stateSay(ret, false, "No minions responded")
	}
	ret.Set("changes", NewMap("ret", changes))
	comment := "Function ran successfully."
	if len(failed) > 0 {
		ret.Set("result", false)
		comment = fmt.Sprintf("Running function %s failed on minions: %s", a.Name, strings.Join(failed, ", "))
	}
	ret.Set("comment", comment+fmt.Sprintf(" Function %s ran on %s.", a.Name, strings.Join(texts(NewList(changes.Keys()...)), ", ")))
	return ret, nil
}

// runnerArguments sorts what a state gives to a runner or wheel function: arg,
// kwarg, and everything else by its name.
func runnerArguments(given *Map) (args []any, kwargs *Map) {
	kwargs = NewMap()
	for k, v := range given.All() {
		switch key := Str(k); {
		case key == "arg":
			args = toItems(v)
		case key == "kwarg":
			if m, ok := v.(*Map); ok {
				kwargs.Merge(m)
			}
		case !strings.HasPrefix(key, "__"):
			kwargs.Set(k, v)
		}
	}
	return args, kwargs
}

// callRunner runs a runner as a state does: with events and a job of its own.
func callRunner(ctx context.Context, c *Call, name string, given *Map) (runnerResult, string, error) {
	if c.Runner == nil {
		return runnerResult{}, "", ExecErrorf("runners run on the master: salt-run state.orchestrate")
	}
	r := c.Runner.client
	jid := NewJID(time.Now())
	if _, err := r.loader.Function(ctx, r.call(name, jid, c.Runner.User), name); err != nil {
		if !strings.Contains(name, ".") {
			return runnerResult{}, "", OtherErrorf("KeyError", "\"The key '%s' should contain a '.'\"", name)
		}
		return runnerResult{}, "", OtherErrorf("KeyError", "'%s'", name)
	}
	args, kwargs := runnerArguments(given)
	return r.execute(ctx, runnerRun{Fun: name, Args: args, Kwargs: kwargs, JID: jid, User: c.Runner.User}), jid, nil
}

func saltStateRunner(ctx context.Context, c *Call, a struct {
	Name   string
	Kwargs *Map `arg:"**kwargs"`
}) (any, error) {
	if c.Testing() {
		return stateReturn(a.Name, nil, fmt.Sprintf("Runner function '%s' would be executed.", a.Name)), nil
	}
	args, kwargs := runnerArguments(a.Kwargs)
	fireArgs(ctx, c, NewMap("type", "runner", "name", a.Name, "args", NewList(args...), "kwargs", kwargs))
	res, jid, err := callRunner(ctx, c, a.Name, a.Kwargs)
	if err != nil {
		return nil, err
	}
	success := res.Success
	if m, ok := res.Return.(*Map); ok && m.Has("Error") {
		success = false
	}
	word := "executed"
	if !success {
		word = "failed"
	}
	ret := stateChanged(a.Name, success, fmt.Sprintf("Runner function '%s' %s.", a.Name, word), NewMap("return", res.Return))
	ret.Set("__jid__", jid)
	return ret, nil
}

func saltStateParallel(ctx context.Context, c *Call, a struct {
	Name    string
	Runners any
	Kwargs  *Map `arg:"**kwargs"`
}) (any, error) {
	runners := a.Runners
	if s, ok := runners.(string); ok {
		runners = NewMap(s, NewList(NewMap("name", s)))
	}
	given, ok := runners.(*Map)
	if !ok {
		return stateReturn(a.Name, false, "The runners parameter must be a string or dict."), nil
	}
	type run struct {
		id, name string
		kwarg    *Map
		ret      runnerResult
		err      error
	}
	var runs []*run
	for id, v := range given.All() {
		cfg := NewMap()
		if l, ok := v.(*List); ok {
			m, err := repackDictlist(l)
			if err != nil {
				return nil, err
			}
			cfg = m
		} else if m, ok := v.(*Map); ok {
			cfg = m
		}
		one := &run{id: Str(id), name: Str(id), kwarg: mapOrEmpty(cfg.Map("kwarg"))}
		if n := cfg.Str("name"); n != "" {
			one.name = n
		}
		runs = append(runs, one)
	}
	var group sync.WaitGroup
	for _, one := range runs {
		group.Add(1)
		go func() {
			defer group.Done()
			one.ret, _, one.err = callRunner(ctx, c, one.name, one.kwarg)
		}()
	}
	group.Wait()
	outputs := NewMap()
	highstates := true
	for _, one := range runs {
		if one.err != nil {
			ret := stateReturn(a.Name, false, "One of the runners raised an exception: "+errText(one.err))
			ret.Set("success", false)
			return ret, nil
		}
		outputs.Set(one.id, one.ret.Return)
		m, _ := one.ret.Return.(*Map)
		highstates = highstates && m.Str("outputter") == "highstate" && m.Has("data")
	}
	var failed []string
	changes := NewMap()
	for id, v := range outputs.All() {
		m, _ := v.(*Map)
		if highstates {
			if Truth(m.Value("retcode")) || Truth(m.Map("data").Value("retcode")) {
				failed = append(failed, Str(id))
			}
			if ch := changesIn(m.Value("data")); Truth(ch) {
				changes.Set(id, ch)
			}
		} else if Truth(m.Value("exit_code")) {
			failed = append(failed, Str(id))
		}
	}
	if !highstates {
		changes.Set("ret", outputs)
	}
	comment := "All runner functions executed successfully."
	switch {
	case len(failed) > 0 && highstates:
		var parts []string
		for _, id := range failed {
			text, err := Output("nested", outputs.Value(id), OutputOptions{BaseIndent: 2})
			if err != nil {
				return nil, err
			}
			parts = append(parts, fmt.Sprintf("Runner %s failed with return value:\n%s", id, text))
		}
		comment = strings.Join(parts, "\n")
	case len(failed) == 1:
		comment = fmt.Sprintf("Runner %s failed.", failed[0])
	case len(failed) > 1:
		comment = fmt.Sprintf("Runners %s failed.", strings.Join(failed, ", "))
	}
	return stateChanged(a.Name, len(failed) == 0, comment, changes), nil
}

// changesIn collects the changes of a nested result of states.
func changesIn(v any) any {
	m, ok := v.(*Map)
	if !ok {
		return NewMap()
	}
	if ch, ok := m.Get("changes"); ok {
		if cm, ok := ch.(*Map); ok && cm.Str("out") == "highstate" && cm.Has("ret") {
			return cm.Value("ret")
		}
		return ch
	}
	out := NewMap()
	for k, item := range m.All() {
		if ch := changesIn(item); Truth(ch) {
			out.Set(k, ch)
		}
	}
	return out
}

func saltStateWheel(ctx context.Context, c *Call, a struct {
	Name   string
	Kwargs *Map `arg:"**kwargs"`
}) (any, error) {
	if c.Testing() {
		return stateReturn(a.Name, nil, fmt.Sprintf("Wheel function '%s' would be executed.", a.Name)), nil
	}
	if c.Runner == nil {
		return stateReturn(a.Name, false, "salt.wheel runs on the master: salt-run state.orchestrate"), nil
	}
	fireArgs(ctx, c, NewMap("type", "wheel", "name", a.Name, "args", a.Kwargs))
	args, kw := runnerArguments(a.Kwargs)
	out, err := c.Runner.Client.Wheel(ctx, a.Name, NewList(args...), kw)
	if err != nil {
		return nil, err
	}
	data := out.Map("data")
	if data == nil {
		data = out
	}
	success := true
	if v, ok := data.Get("success"); ok {
		success = Truth(v)
	}
	result := data.Value("return")
	if m, ok := result.(*Map); ok && m.Has("Error") {
		success = false
	}
	word := "executed"
	if !success {
		word = "failed"
	}
	ret := stateChanged(a.Name, success, fmt.Sprintf("Wheel function '%s' %s.", a.Name, word), NewMap("return", result))
	if jid, ok := data.Get("jid"); ok {
		ret.Set("__jid__", jid)
	}
	return ret, nil
}

func saltStateWaitForEvent(ctx context.Context, c *Call, a struct {
	Name    string
	IDList  any     `arg:"id_list"`
	EventID string  `def:"id"`
	Timeout float64 `def:"300"`
	Node    string  `def:"master"`
}) (any, error) {
	ret := stateReturn(a.Name, false, "")
	if c.Testing() {
		return stateSay(ret, nil, "Orchestration would wait for event '%s'", a.Name)
	}
	left := texts(NewList(toItems(a.IDList)...))
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(a.Timeout*float64(time.Second)))
	defer cancel()
	bus, err := DialBus(ctx, c.Opts.Path("sock_dir"))
	if err != nil {
		return stateSay(ret, false, "no event bus to wait at: %v", err)
	}
	defer bus.Close()
	sub := bus.Subscribe()
	defer sub.Close()
	pattern := CompileGlob(a.Name)
	changes := ret.Map("changes")
	for {
		e, err := sub.Next(ctx)
		if err != nil {
			return stateSay(ret, false, "Timeout value reached.")
		}
		if !pattern.Match(e.Tag) {
			continue
		}
		data, err := e.Data()
		if err != nil {
			continue
		}
		val := data.Value(a.EventID)
		if val == nil {
			val = data.Map("data").Value(a.EventID)
		}
		for _, item := range toItems(val) {
			i := slices.Index(left, Str(item))
			if i < 0 {
				continue
			}
			left = slices.Delete(left, i, i+1)
			seen := changes.List("minions_seen")
			if seen == nil {
				seen = NewList()
				changes.Set("minions_seen", seen)
			}
			seen.Append(item)
		}
		if len(left) == 0 {
			return stateSay(ret, true, "All events seen in %s seconds.", Str(time.Since(began).Seconds()))
		}
	}
}

// Wheel runs a wheel function of the running master: {tag, data}.
func (c *LocalClient) Wheel(ctx context.Context, fun string, args *List, kwargs *Map) (*Map, error) {
	load := NewMap("cmd", "wheel", "fun", fun, "arg", args, "kwarg", kwargs, "key", c.key, "user", c.user)
	c.cred.addTo(load)
	answer, err := c.ask(ctx, load)
	if err != nil {
		return nil, err
	}
	m, ok := answer.(*Map)
	if !ok {
		return nil, fmt.Errorf("wheel %s: the master answered %s", fun, shortRepr(answer))
	}
	if failed := m.Map("error"); failed != nil {
		return nil, errors.New(failed.Str("message"))
	}
	return m, nil
}
