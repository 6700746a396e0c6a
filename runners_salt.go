// Runners salt, survey, event, state, config, doc, test, error: calling
// functions from the master, and the event bus.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"
)

func saltRunner() Module {
	return Module{
		Doc: "Execution functions, on the master itself and on minions.",
		Funcs: Funcs{
			"cmd":     {run: runSaltCmd, doc: "Run an execution function on the master's machine.\n\nfun: the function; what follows are its arguments"},
			"execute": {run: runSaltExecute, doc: "Run an execution function on minions and return the answers by minion; False for one that did not answer.\n\ntgt, tgt_type: which minions\nfun: the function\narg, kwarg: its arguments\ntimeout: seconds to wait"},
		},
	}
}

type runSaltCmdArgs struct {
	Fun    string
	Args   []any `arg:"*args"`
	Kwargs *Map  `arg:"**kwargs"`
}

func runSaltCmd(ctx context.Context, c *Call, a runSaltCmdArgs) (any, error) {
	kwargs := NewMap()
	for k, v := range a.Kwargs.All() {
		if !strings.HasPrefix(Str(k), "__") && k != any("with_pillar") {
			kwargs.Set(k, v)
		}
	}
	inner := c.onMaster(ctx)
	ret, err := inner.RunDirect(ctx, a.Fun, a.Args, kwargs)
	var missing *NotAvailableError
	if errors.As(err, &missing) {
		return missing.Error(), nil
	}
	return ret, err
}

type runSaltExecuteArgs struct {
	Tgt     any
	Fun     any
	Arg     any    `def:"()"`
	Timeout any    `def:"None"`
	TgtType string `def:"'glob'"`
	Ret     string `def:"''"`
	Jid     string `def:"''"`
	Kwarg   any    `def:"None"`
	Kwargs  *Map   `arg:"**kwargs"`
}

func runSaltExecute(ctx context.Context, c *Call, a runSaltExecuteArgs) (any, error) {
	req := JobRequest{Tgt: a.Tgt, TgtType: a.TgtType, Fun: a.Fun, Arg: NewList(toItems(a.Arg)...), Ret: a.Ret, JID: a.Jid}
	if kw, ok := a.Kwarg.(*Map); ok && kw.Len() > 0 {
		m := NewMap("__kwarg__", true)
		m.Merge(kw)
		req.Arg.Append(m)
	}
	if a.Kwargs.Len() > 0 {
		req.Kwargs = NewMap()
		for k, v := range a.Kwargs.All() {
			if !strings.HasPrefix(Str(k), "__") {
				req.Kwargs.Set(k, v)
			}
		}
	}
	return commandAll(ctx, c, req, WaitOptions{Timeout: seconds(a.Timeout)})
}

// commandAll is runnerCommand with False for those that did not answer.
func commandAll(ctx context.Context, c *Call, req JobRequest, w WaitOptions) (*Map, error) {
	ret := NewMap()
	w.Silent = true
	_, err := c.Runner.Client.Run(ctx, req, w, func(r MinionReturn) bool {
		if r.Silent != "" {
			ret.Set(r.ID, false)
		} else {
			ret.Set(r.ID, r.Return)
		}
		return true
	})
	if err != nil && tellClientError(c, err) != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return ret, nil
}

func surveyRunner() Module {
	about := "\n\ntgt: which minions, a compound expression (tgt_type=pcre: a regular expression)\nfun: the function; its arguments follow\nsurvey_sort: up or down (default) by the number of minions"
	return Module{
		Doc: "Which minions agree with each other.",
		Funcs: Funcs{
			"hash": {run: runSurveyHash, doc: "Group minions by what a function returns there." + about},
			"diff": {run: runSurveyDiff, doc: "As hash, and print how the results differ from the largest group's." + about},
		},
	}
}

type runSurveyArgs struct {
	Args   []any `arg:"*args"`
	Kwargs *Map  `arg:"**kwargs"`
}

func surveyPools(ctx context.Context, c *Call, a runSurveyArgs) (*List, error) {
	if len(a.Args) < 2 {
		return nil, OtherErrorf("IndexError", "tuple index out of range")
	}
	kwargs := NewMap()
	sortUp, kind := false, "compound"
	for k, v := range a.Kwargs.All() {
		switch name := Str(k); {
		case name == "survey_sort":
			sortUp = v == any("up")
		case name == "tgt_type":
			if v == any("pcre") {
				kind = "pcre"
			}
		case !strings.HasPrefix(name, "_"):
			kwargs.Set(k, v)
		}
	}
	req := JobRequest{Tgt: a.Args[0], TgtType: kind, Fun: a.Args[1], Arg: NewList(a.Args[2:]...)}
	for i, v := range req.Arg.Items { // an argument list may come as one
		if l, ok := v.(*List); ok && i == 0 && len(req.Arg.Items) == 1 {
			req.Arg = NewList(l.Items...)
		}
	}
	if kwargs.Len() > 0 {
		kw := NewMap("__kwarg__", true)
		kw.Merge(kwargs)
		req.Arg.Append(kw)
	}
	answers, err := commandAll(ctx, c, req, WaitOptions{})
	if err != nil {
		return nil, err
	}
	pools := map[[32]byte]*Map{}
	var order []*Map
	for _, id := range answers.SortedKeys() {
		text := Str(answers.Value(id))
		key := sha256.Sum256([]byte(text))
		p := pools[key]
		if p == nil {
			p = NewMap("pool", NewList(), "result", text)
			pools[key] = p
			order = append(order, p)
		}
		p.List("pool").Append(id)
	}
	slices.SortStableFunc(order, func(a, b *Map) int {
		if sortUp {
			return a.List("pool").Len() - b.List("pool").Len()
		}
		return b.List("pool").Len() - a.List("pool").Len()
	})
	ret := NewList()
	for _, p := range order {
		ret.Append(p)
	}
	return ret, nil
}

func runSurveyHash(ctx context.Context, c *Call, a runSurveyArgs) (any, error) {
	return surveyPools(ctx, c, a)
}

func runSurveyDiff(ctx context.Context, c *Call, a runSurveyArgs) (any, error) {
	pools, err := surveyPools(ctx, c, a)
	if err != nil {
		return nil, err
	}
	w := c.Runner.Out
	var first *Map
	for i, item := range pools.Items {
		p := item.(*Map)
		fmt.Fprintf(w, "minion pool :\n------------\n%s\npool size :\n----------\n    %d\n", Repr(p.Value("pool")), p.List("pool").Len())
		if i == 0 {
			first = p
			fmt.Fprintf(w, "pool result :\n------------\n    %s\n\n", p.Str("result"))
			continue
		}
		from, to := Str(first.List("pool").Items[0]), Str(p.List("pool").Items[0])
		title := fmt.Sprintf("differences from \"%s\" results :", from)
		fmt.Fprintf(w, "%s\n%s\n", title, strings.Repeat("-", len(title)-1))
		writeLineDifferences(w, pyLines(first.Str("result"), false), pyLines(p.Str("result"), false), from, to)
		fmt.Fprintln(w)
	}
	return pools, nil
}

// writeLineDifferences writes which lines are only in one of two texts.
func writeLineDifferences(w io.Writer, a, b []string, from, to string) {
	// The longest common run of lines, by the usual table; results of a survey are short.
	const limit = 2000
	a, b = a[:min(len(a), limit)], b[:min(len(b), limit)]
	table := make([][]int, len(a)+1)
	for i := range table {
		table[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				table[i][j] = table[i+1][j+1] + 1
			} else {
				table[i][j] = max(table[i+1][j], table[i][j+1])
			}
		}
	}
	fmt.Fprintf(w, "--- %s\n+++ %s\n", from, to)
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i++
			j++
		case i < len(a) && (j == len(b) || table[i+1][j] >= table[i][j+1]):
			fmt.Fprintf(w, "-%s\n", a[i])
			i++
		default:
			fmt.Fprintf(w, "+%s\n", b[j])
			j++
		}
	}
}

func eventRunner() Module {
	return Module{
		Doc: "The master's event bus.",
		Funcs: Funcs{
			"send": {run: runEventSend, doc: "Put an event on the bus.\n\ntag: its tag\ndata: its data, a mapping"},
		},
	}
}

type runEventSendArgs struct {
	Tag  string
	Data any `def:"None"`
}

func runEventSend(ctx context.Context, c *Call, a runEventSendArgs) (any, error) {
	data := NewMap()
	if Truth(a.Data) {
		m, ok := a.Data.(*Map)
		if !ok {
			return nil, OtherErrorf("ValueError", "Dict object expected, not '%s'.", Str(a.Data))
		}
		data = m.Clone()
	}
	if a.Tag == "" {
		return nil, OtherErrorf("ValueError", "Empty tag.")
	}
	if err := c.Runner.client.push.Fire(ctx, a.Tag, data); err != nil {
		c.Log.Error(err.Error())
		return false, nil
	}
	return true, nil
}

func stateRunner() Module {
	orchestrate := Func{run: runOrchestrate, doc: "Run state files on the master.\n\nmods: the files\nsaltenv, pillarenv: the environments\ntest: only tell what would be done\nexclude: states to leave out\npillar: a mapping that goes over the pillar"}
	return Module{
		Doc: "The event stream, and states that orchestrate.",
		Funcs: Funcs{
			"orchestrate":          orchestrate,
			"orch":                 orchestrate,
			"sls":                  orchestrate,
			"orchestrate_single":   {run: runOrchestrateSingle, doc: "Run one state on the master.\n\nfun: the state function\nname: its name; other arguments follow as keywords"},
			"orchestrate_high":     {run: runOrchestrateHigh, doc: "Run high data on the master.\n\ndata: the high data"},
			"orchestrate_show_sls": {run: runOrchestrateShow, doc: "Return the high data of state files as the master renders them.\n\nmods: the files"},
			"orch_show_sls":        {run: runOrchestrateShow, doc: "Return the high data of state files as the master renders them.\n\nmods: the files"},
			"event":                {run: runStateEvent, doc: "Print events as they come: the tag, a tab, the data as JSON.\n\ntagmatch: a shell pattern for the tag\ncount: end after so many events\nquiet: do not print, only wait\nsock_dir: the directory of another bus\npretty: print the data over several lines\nnode: master or minion, whose bus sock_dir has"},
		},
	}
}

type runOrchestrateArgs struct {
	Mods             any
	Saltenv          any  `def:"'base'"`
	Test             any  `def:"None"`
	Exclude          any  `def:"None"`
	Pillar           any  `def:"None"`
	Pillarenv        any  `def:"None"`
	PillarEnc        any  `def:"None"`
	OrchestrationJid any  `def:"None"`
	Kwargs           *Map `arg:"**kwargs"`
}

// orchestrated is the result of a state run on the master, with what shows it
// and the exit code.
func orchestrated(inner *Call, running any) *Map {
	code := int64(0)
	if v, ok := inner.ContextGet("retcode"); ok && Truth(v) {
		code = 1
	}
	if m, ok := running.(*Map); ok {
		for _, v := range m.All() {
			if ret, ok := v.(*Map); ok && ret.Has("result") && ret.Value("result") == false {
				code = 1
			}
		}
	} else {
		code = 1 // a list of errors
	}
	return NewMap("data", NewMap(inner.Opts.Str("id"), running), "outputter", "highstate", "retcode", code)
}

func runOrchestrate(ctx context.Context, c *Call, a runOrchestrateArgs) (any, error) {
	if _, ok := a.Pillar.(*Map); a.Pillar != nil && !ok {
		return nil, InvocationErrorf("Pillar data must be formatted as a dictionary")
	}
	jid := a.OrchestrationJid
	if jid == nil {
		jid = c.JID
	}
	kw := NewMap("saltenv", a.Saltenv, "orchestration_jid", jid, "__pub_jid", jid)
	for k, v := range map[string]any{"test": a.Test, "exclude": a.Exclude, "pillar": a.Pillar, "pillarenv": a.Pillarenv, "pillar_enc": a.PillarEnc} {
		if v != nil {
			kw.Set(k, v)
		}
	}
	inner := c.orchestrating(ctx)
	running, err := inner.RunKw(ctx, "state.sls", []any{a.Mods}, kw)
	if err != nil {
		return nil, err
	}
	return orchestrated(inner, running), nil
}

type runOrchestrateSingleArgs struct {
	Fun    string
	Name   string
	Test   any  `def:"None"`
	Queue  any  `def:"False"`
	Pillar any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}

func runOrchestrateSingle(ctx context.Context, c *Call, a runOrchestrateSingleArgs) (any, error) {
	kw := NewMap()
	for k, v := range a.Kwargs.All() {
		if !strings.HasPrefix(Str(k), "__") {
			kw.Set(k, v)
		}
	}
	for k, v := range map[string]any{"test": a.Test, "pillar": a.Pillar} {
		if v != nil {
			kw.Set(k, v)
		}
	}
	inner := c.orchestrating(ctx)
	running, err := inner.RunKw(ctx, "state.single", []any{a.Fun, a.Name}, kw)
	if err != nil {
		return nil, err
	}
	ret := NewMap(inner.Opts.Str("id"), running)
	c.progress(ctx, NewMap("data", ret, "outputter", "highstate"))
	return ret, nil
}

type runOrchestrateHighArgs struct {
	Data   any
	Test   any  `def:"None"`
	Queue  any  `def:"False"`
	Pillar any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}

func runOrchestrateHigh(ctx context.Context, c *Call, a runOrchestrateHighArgs) (any, error) {
	kw := NewMap()
	for k, v := range map[string]any{"test": a.Test, "pillar": a.Pillar} {
		if v != nil {
			kw.Set(k, v)
		}
	}
	inner := c.orchestrating(ctx)
	running, err := inner.RunKw(ctx, "state.high", []any{a.Data}, kw)
	if err != nil {
		return nil, err
	}
	ret := NewMap(inner.Opts.Str("id"), running)
	c.progress(ctx, NewMap("data", ret, "outputter", "highstate"))
	return ret, nil
}

type runOrchestrateShowArgs struct {
	Mods      any
	Saltenv   any `def:"'base'"`
	Test      any `def:"None"`
	Queue     any `def:"False"`
	Pillar    any `def:"None"`
	Pillarenv any `def:"None"`
	PillarEnc any `def:"None"`
}

func runOrchestrateShow(ctx context.Context, c *Call, a runOrchestrateShowArgs) (any, error) {
	if _, ok := a.Pillar.(*Map); a.Pillar != nil && !ok {
		return nil, InvocationErrorf("Pillar data must be formatted as a dictionary")
	}
	kw := NewMap("saltenv", a.Saltenv)
	setGiven(kw, "test", a.Test, "pillar", a.Pillar, "pillarenv", a.Pillarenv, "pillar_enc", a.PillarEnc)
	inner := c.orchestrating(ctx)
	high, err := inner.RunKw(ctx, "state.show_sls", []any{a.Mods}, kw)
	if err != nil {
		return nil, err
	}
	return NewMap(inner.Opts.Str("id"), high), nil
}

type runStateEventArgs struct {
	Tagmatch string `def:"'*'"`
	Count    any    `def:"-1"`
	Quiet    bool   `def:"False"`
	SockDir  any    `def:"None"`
	Pretty   bool   `def:"False"`
	Node     string `def:"'master'"`
}

func runStateEvent(ctx context.Context, c *Call, a runStateEventArgs) (any, error) {
	dir := c.Opts.Path("sock_dir")
	if Truth(a.SockDir) {
		dir = Str(a.SockDir)
	}
	count, ok := toInt(a.Count)
	if !ok {
		count = -1
	}
	pattern := CompileGlob(a.Tagmatch)
	layout := JSONOptions{Indent: -1}
	if a.Pretty {
		layout = JSONOptions{Indent: 4}
	}
	layout.SortKeys = a.Pretty
	for first := true; ; first = false {
		bus, err := DialBus(ctx, dir)
		if err != nil {
			if first {
				return nil, ExecErrorf("%v: is the master running?", err)
			}
			if !sleepContext(ctx, busRetry) { // the master may be starting anew
				return nil, nil
			}
			continue
		}
		err = followEvents(ctx, bus, func(e BusEvent) (bool, error) {
			if !pattern.Match(e.Tag) {
				return true, nil
			}
			data, err := e.Data()
			if err != nil {
				c.Log.Warn(fmt.Sprintf("unreadable event %s: %v", e.Tag, err))
				return true, nil
			}
			if !a.Quiet {
				if _, err := fmt.Fprintf(c.Runner.Out, "%s\t%s\n", e.Tag, EncodeJSON(data, layout)); err != nil {
					return false, err
				}
			}
			if count > 0 {
				count--
			}
			return count != 0, nil
		})
		bus.Close()
		if err == nil || ctx.Err() != nil {
			return nil, nil
		}
		if !errors.Is(err, errBusClosed) {
			var neterr net.Error
			if !errors.As(err, &neterr) {
				return nil, nil // whoever read the output is gone
			}
		}
	}
}

// followEvents hands on events until more says no.
func followEvents(ctx context.Context, bus *BusClient, each func(BusEvent) (more bool, err error)) error {
	sub := bus.Subscribe()
	defer sub.Close()
	for {
		e, err := sub.Next(ctx)
		if err != nil {
			return err
		}
		more, err := each(e)
		if err != nil || !more {
			return err
		}
	}
}

func configRunner() Module {
	return Module{
		Doc: "The master's configuration.",
		Funcs: Funcs{
			"get": {run: runConfigGet, doc: "Return an option.\n\nkey: its name, or a path into it\ndefault: what to return if it is not set\ndelimiter: what separates the parts of the path"},
		},
	}
}

type runConfigGetArgs struct {
	Key       string
	Default   any    `def:"''"`
	Delimiter string `def:"':'"`
}

func runConfigGet(_ context.Context, c *Call, a runConfigGetArgs) (any, error) {
	if v, ok := TraversePath(c.Opts.All(), a.Key, a.Delimiter); ok {
		return v, nil
	}
	return a.Default, nil
}

func docRunner() Module {
	return Module{
		Doc: "Documentation.",
		Funcs: Funcs{
			"runner":    {run: runDocRunner, doc: "Return the documentation of all runners."},
			"execution": {run: runDocExecution, doc: "Ask the minions for the documentation of all execution functions."},
			"wheel":     {run: runDocWheel, doc: "Return the documentation of wheel functions."},
		},
	}
}

func runDocRunner(ctx context.Context, c *Call, _ noArgs) (any, error) {
	return functionDocs(ctx, c, ""), nil
}

func runDocWheel(context.Context, *Call, noArgs) (any, error) { return NewMap(), nil }

func runDocExecution(ctx context.Context, c *Call, _ noArgs) (any, error) {
	answers, err := runnerCommand(ctx, c, JobRequest{Tgt: "*", TgtType: "glob", Fun: "sys.doc"}, WaitOptions{})
	if err != nil {
		return NewList(), nil
	}
	docs := NewMap()
	for _, v := range answers.All() {
		if m, ok := v.(*Map); ok {
			docs.Merge(m)
		}
	}
	return docs, nil
}

// functionDocs are the texts of the functions that name means: one function, a
// module, a shell pattern, or all.
func functionDocs(ctx context.Context, c *Call, name string) *Map {
	fits := func(string) bool { return true }
	switch {
	case strings.Contains(name, "*"):
		fits = CompileGlob(name).Match
	case name != "":
		prefix := strings.TrimSuffix(name, ".") + "."
		fits = func(f string) bool { return f == name || strings.HasPrefix(f, prefix) }
	}
	docs := NewMap()
	for _, f := range c.Loader.FunctionNames(ctx, c) {
		if !fits(f) {
			continue
		}
		var doc any
		if fn, err := c.Loader.Function(ctx, c, f); err == nil && fn.Doc() != "" {
			doc = fn.Doc()
		}
		docs.Set(f, doc)
	}
	return docs
}

func testRunner() Module {
	return Module{
		Doc: "Functions that try the calling convention.",
		Funcs: Funcs{
			"arg":           {run: runTestArg, doc: "Return the arguments."},
			"raw_arg":       {run: runTestRawArg, doc: "Return the arguments as they came."},
			"metasyntactic": {run: runTestMetasyntactic, doc: "Return words that mean nothing, of a country."},
			"stdout_print":  {run: runTestPrint, doc: "Print foo and return bar."},
			"sleep":         {run: runTestSleep, doc: "Print the time to sleep, in seconds, and sleep."},
			"stream":        {run: runTestStream, doc: "Tell a progress of 99 steps in ten seconds."},
			"get_opts":      {run: runTestOpts, doc: "Return the master's configuration."},
		},
	}
}

type runAnyArgs struct {
	Args   []any `arg:"*args"`
	Kwargs *Map  `arg:"**kwargs"`
}

func runTestArg(_ context.Context, _ *Call, a runAnyArgs) (any, error) {
	kwargs := NewMap()
	for k, v := range a.Kwargs.All() {
		if !strings.HasPrefix(Str(k), "__") {
			kwargs.Set(k, v)
		}
	}
	return NewMap("args", NewList(a.Args...), "kwargs", kwargs), nil
}

func runTestRawArg(_ context.Context, _ *Call, a runAnyArgs) (any, error) {
	return NewMap("args", NewList(a.Args...), "kwargs", a.Kwargs), nil
}

type runLocalityArgs struct {
	Locality string `def:"'us'"`
}

func runTestMetasyntactic(_ context.Context, _ *Call, a runLocalityArgs) (any, error) {
	switch a.Locality {
	case "us":
		return Strings(strings.Fields("foo bar baz qux quux quuz corge grault garply waldo fred plugh xyzzy thud")), nil
	case "uk":
		return Strings(strings.Fields("wibble wobble wubble flob")), nil
	}
	return nil, nil
}

func runTestPrint(_ context.Context, c *Call, _ noArgs) (any, error) {
	io.WriteString(c.Runner.Out, "foo\n")
	return "bar", nil
}

type runSleepArgs struct {
	STime any `def:"10"`
}

func runTestSleep(ctx context.Context, c *Call, a runSleepArgs) (any, error) {
	fmt.Fprintln(c.Runner.Out, Str(a.STime))
	f, ok := toFloat(a.STime)
	if !ok {
		return nil, TypeErrorf("'%s' object cannot be interpreted as an integer", TypeName(a.STime))
	}
	return true, pause(ctx, time.Duration(f*float64(time.Second)))
}

func runTestStream(ctx context.Context, c *Call, _ noArgs) (any, error) {
	for i := 1; i < 100; i++ {
		c.progress(ctx, NewMap("message", fmt.Sprintf("Runner is %d%% done", i)))
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return true, nil
}

func runTestOpts(_ context.Context, c *Call, _ noArgs) (any, error) { return c.Opts.All(), nil }

func errorRunner() Module {
	return Module{
		Doc: "Errors to try what becomes of them.",
		Funcs: Funcs{
			"error": {run: runError, doc: "Fail with an exception; without a name return an empty mapping.\n\nname: the exception\nmessage: its text"},
		},
	}
}

type runErrorArgs struct {
	Name    any    `def:"None"`
	Message string `def:"''"`
}

func runError(_ context.Context, _ *Call, a runErrorArgs) (any, error) {
	if a.Name == nil {
		return NewMap(), nil
	}
	switch name := Str(a.Name); name {
	case "CommandExecutionError":
		return nil, ExecErrorf("%s", a.Message)
	case "SaltInvocationError":
		return nil, InvocationErrorf("%s", a.Message)
	case "CommandNotFoundError":
		return nil, NotFoundErrorf("%s", a.Message)
	case "TypeError":
		return nil, TypeErrorf("%s", a.Message)
	default:
		return nil, OtherErrorf(name, "%s", a.Message)
	}
}
