// Runners: functions that run on the master's machine, for `salt-run`, for
// clear requests to the master, and for states that orchestrate.
//
// The law of this room: a runner is a function of the same form as an execution
// function (modules.go) and found by the same Loader; what it needs of the
// master stands in Call.Runner. A run puts salt/run/<jid>/new and /ret on the
// event bus and is filed in the job cache; where the master does not run, it
// works without both. What a runner prints while it runs goes to Runner.Out.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// RunnerEnv is what a runner has besides the options.
type RunnerEnv struct {
	Client *LocalClient
	Pool   *minionPool
	Jobs   jobReader
	Files  FileServer
	Out    io.Writer // what the runner itself prints
	User   string
	client *RunnerClient
	tag    string // salt/run/<jid>
	// show displays an event of the run while it goes on; nil: nobody looks.
	show func(suffix string, data *Map)
}

// RunnerClient runs runners with one configuration. Safe for concurrent use.
type RunnerClient struct {
	o       *Options
	log     *slog.Logger
	mu      sync.Mutex
	loader  *Loader
	customs *Customs
	local   *LocalClient
	files   FileServer
	out     io.Writer
	push    *BusPusher

	// Pillar compiles pillars; a master hands its own over.
	Pillar PillarProvider

	grainsOnce sync.Once
	grains     *Map
}

// customRunners are the files in _runners as modules of the loader.
type customRunners struct{ *Customs }

func (u customRunners) Lookup(ctx context.Context, c *Call, name string) *LoadedModule {
	return u.LookupKind(ctx, c, "runners", name)
}

func (u customRunners) Names(ctx context.Context, c *Call) []string {
	return u.NamesKind(ctx, c, "runners")
}

// NewRunnerClient prepares runners; nothing is connected or loaded before it is
// needed. out takes what runners print; own are the files of the user, which
// Close closes.
func NewRunnerClient(o *Options, log *slog.Logger, out io.Writer, own *Customs) *RunnerClient {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &RunnerClient{o: o, log: log, customs: own, local: NewLocalClient(o, PublishAuth{}, log),
		files: NewFileServer(o, log), out: out, push: NewBusPusher(o.Path("sock_dir"))}
	r.Pillar = NewPillarCompiler(o, log, masterFiles(func() FileServer { return r.files }, o, log), own)
	r.loader = newRunnerLoader(own)
	return r
}

// newRunnerLoader makes a loader over the runners, with those of the user.
func newRunnerLoader(own *Customs) *Loader {
	l := &Loader{opts: NewOptions(NewMap()), entries: builtinRunners(), loaded: map[string]*LoadedModule{}}
	if own != nil {
		l.custom = customRunners{own}
	}
	return l
}

// runners is the loader as the files are now.
func (r *RunnerClient) runners() *Loader {
	changed := r.customs.Follow()
	r.mu.Lock()
	defer r.mu.Unlock()
	if changed {
		r.loader = newRunnerLoader(r.customs)
	}
	return r.loader
}

// Close ends connections and the host of user-written runners.
func (r *RunnerClient) Close() {
	r.local.Close()
	r.push.Close()
	r.customs.Close()
}

// call makes the context of one run.
func (r *RunnerClient) call(fun, jid, user string) *Call {
	env := &Env{Opts: r.o, Grains: NewMap(), Pillar: NewMap(), Loader: r.runners(), Log: r.log, Files: NewLocalFiles(r.o, r.log),
		Runner: &RunnerEnv{Client: r.local, Pool: newMinionPool(r.o), Jobs: newJobReader(r.o), Files: r.files, Out: r.out, User: user, client: r}}
	env.Runner.tag = "salt/run/" + jid
	return NewCall(env, fun, jid, nil)
}

// Run implements Runners of the master, which fires the events itself.
func (r *RunnerClient) Run(ctx context.Context, fun string, args []any, kwargs *Map) (any, error) {
	c := r.call(fun, NewJID(time.Now()), "UNKNOWN")
	ret, err := c.RunDirect(ctx, fun, args, kwargs)
	if err != nil {
		return nil, err
	}
	data, _ := unwrapOutput(ret)
	return data, nil
}

// unwrapOutput takes apart a result that names its outputter. One with more in
// it (an exit code) is shown whole, by that outputter.
func unwrapOutput(ret any) (data any, outputter string) {
	m, ok := ret.(*Map)
	if !ok || !m.Has("outputter") {
		return ret, ""
	}
	if m.Len() == 2 && m.Has("data") {
		return m.Value("data"), m.Str("outputter")
	}
	return ret, m.Str("outputter")
}

// runnerRun is one run as `salt-run` makes it.
type runnerRun struct {
	Fun    string
	Args   []any
	Kwargs *Map
	JID    string
	User   string
	Show   func(suffix string, data *Map)
}

// runnerResult is what became of it.
type runnerResult struct {
	Return  any
	Success bool
	Failed  bool // an exception: exit code 1
}

// execute runs a runner with its events, and files it in the job cache.
func (r *RunnerClient) execute(ctx context.Context, q runnerRun) runnerResult {
	c := r.call(q.Fun, q.JID, q.User)
	c.Runner.show = q.Show
	funArgs := NewList(q.Args...)
	if q.Kwargs.Len() > 0 {
		funArgs.Append(q.Kwargs)
	}
	data := NewMap("fun", "runner."+q.Fun, "jid", q.JID, "user", q.User, "fun_args", funArgs)
	r.fire(ctx, c.Runner.tag+"/new", data)
	res := runnerResult{}
	ret, err := c.RunDirect(ctx, q.Fun, q.Args, q.Kwargs)
	if err != nil {
		res.Return, res.Failed = runnerErrorText(ctx, c, q.Fun, err)
	} else {
		res.Return, res.Success = ret, true
		if m, ok := ret.(*Map); ok && m.Has("data") { // what states did, in an orchestration
			states, ok := m.Value("data").(*Map)
			res.Success = ok && stateResultGood(states, nil, false)
		}
		shown, _ := unwrapOutput(ret)
		if m, ok := shown.(*Map); ok {
			for _, k := range []string{"result", "success"} {
				if m.Value(k) == false {
					res.Success = false
				}
			}
		}
	}
	data.Set("return", res.Return)
	data.Set("success", res.Success)
	r.file(q, data)
	r.fire(ctx, c.Runner.tag+"/ret", data)
	return res
}

// runnerErrorText is what a failed run returns.
func runnerErrorText(ctx context.Context, c *Call, fun string, err error) (text string, failed bool) {
	var missing *NotAvailableError
	if errors.As(err, &missing) {
		return missing.Error(), false
	}
	e := asModuleError(err)
	switch e.Kind {
	case ErrType, ErrInvocation:
		doc := "None"
		if f, ferr := c.Loader.Function(ctx, c, fun); ferr == nil && f.Doc() != "" {
			doc = f.Doc()
		}
		return fmt.Sprintf("\nPassed invalid arguments: %s\n\nUsage:\n%s", e.Msg, doc), false
	}
	return fmt.Sprintf("Exception occurred in runner %s: %s", fun, e.Traceback()), true
}

// fire puts an event on the bus, if there is one.
func (r *RunnerClient) fire(ctx context.Context, tag string, data *Map) {
	if err := r.push.Fire(ctx, tag, data); err != nil {
		r.log.Debug(fmt.Sprintf("event %s: %v", tag, err))
	}
}

// masterID is the id under which the master itself stands in the job cache.
func (r *RunnerClient) masterID() string {
	if id := r.o.Str("id"); id != "" {
		return id
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return host + "_master"
}

// file keeps the run in the job cache, as a job of the master's own.
func (r *RunnerClient) file(q runnerRun, data *Map) {
	id := r.masterID()
	load := NewMap("fun", data.Value("fun"), "fun_args", data.Value("fun_args"), "tgt", id, "tgt_type", "list", "jid", q.JID, "user", q.User, "id", id)
	cache := OpenJobCache(newJobReader(r.o).dir, JobCacheOptions{Off: !r.o.Bool("job_cache"), HashType: r.o.Str("hash_type"), Log: r.log})
	err := cache.Begin(q.JID, load, []string{id}, false)
	if err == nil {
		ret := NewMap("return", data.Clone(), "success", data.Value("success"))
		_, err = cache.Return(q.JID, id, ret)
	}
	if err != nil {
		r.log.Debug(fmt.Sprintf("file the run in the job cache: %v", err))
	}
}

// progress tells whoever watches the run how far it is.
func (c *Call) progress(ctx context.Context, data *Map) {
	e := c.Runner
	stamped := data.Clone()
	stamped.Set("_stamp", EventStamp(time.Now()))
	e.client.fire(ctx, e.tag+"/progress", stamped)
	if e.show != nil {
		e.show("progress", stamped)
	}
}

// onMaster is a call of execution functions on the master's own machine, with
// the files of its file server: as a minion without a master would run them.
func (c *Call) onMaster(ctx context.Context) *Call {
	r := c.Runner.client
	o := c.Opts.Clone()
	o.Set("id", r.masterID())
	o.Set("file_client", "local")
	env := &Env{Opts: o, Grains: r.masterGrains(ctx), Pillar: NewMap(), Loader: NewLoader(o, r.customs), Log: c.Log,
		Files: NewLocalFiles(o, c.Log), Templates: NewTemplates(o, customStages(r.customs)), Runner: c.Runner}
	return NewCall(env, c.Fun, c.JID, nil)
}

// orchestrating is onMaster for states, which see the pillar that the master
// compiles for itself.
func (c *Call) orchestrating(ctx context.Context) *Call {
	inner := c.onMaster(ctx)
	inner.Pillar = nil // compiled by the state run, for its environment
	return inner
}

// masterGrains are the grains of this machine, gathered when first needed.
func (r *RunnerClient) masterGrains(ctx context.Context) *Map {
	r.grainsOnce.Do(func() { r.grains = CoreGrains(ctx, r.o) })
	return r.grains
}
