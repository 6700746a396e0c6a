// Execution modules: the registry, and how a function is found and called.
//
// The law of this room: a function that can be called by name takes a context,
// a *Call and one struct of typed arguments; the struct is the only source of
// its signature (modules_bind.go). A module is a function that returns its
// literal table, listed once in builtinModules, so that nothing is built before
// it is used. A module that calls another goes through Call.Run, which is
// __salt__ in Salt's words: salt-call, states, templates, the scheduler and
// user-written modules all arrive at the same path. A panic in a module is a
// failed call with its stack in the log.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sort"
	"strings"
	"sync"
)

// Module is one file of execution functions.
type Module struct {
	Doc string
	// Virtual says whether the module fits this box; if not, reason is what
	// the user reads. nil: always.
	Virtual func(ctx context.Context, c *Call) (ok bool, reason string)
	Funcs   Funcs
}

// Funcs maps function names to functions.
type Funcs map[string]Func

// Func is one built-in function.
type Func struct {
	// run is func(context.Context, *Call, T) (any, error) with T a struct of
	// arguments as modules_bind.go describes them.
	run any
	// doc is plain text without indentation, from its first line on.
	doc string
	// pyname is the name that Python's error texts use, where it differs from
	// the name in the table (true_ for test.true).
	pyname string
	// value is what the parameter of field Value is called in this function,
	// where several share one struct (maxdays of shadow.set_maxdays).
	value string
}

// moduleEntry is one line of the registry. name is what Salt calls the file
// (aptpkg), virtual the name its functions are called by (pkg), if different.
type moduleEntry struct {
	name    string
	virtual string
	load    func() Module
	// joins: where the module fits, its functions join those of the one of the
	// same virtual name that was chosen, and are used for what that one lacks.
	joins bool
}

func (e moduleEntry) calledAs() string {
	if e.virtual != "" {
		return e.virtual
	}
	return e.name
}

// Function is what can be called: a built-in, or one of a user's module.
type Function interface {
	Doc() string
	Signature() *Signature
	// Invoke runs the function. args and kwargs were not checked yet.
	Invoke(ctx context.Context, c *Call, args []any, kwargs *Map) (any, error)
}

// LoadedModule is a module that is ready to be called, or that refused.
type LoadedModule struct {
	Name     string // as called: pkg
	Provider string // the file behind it: aptpkg
	Doc      string
	Funcs    map[string]Function
	Refused  string // reason of a refusal; then there are no functions
}

// CustomModules are the modules that users wrote. They come before built-in
// ones of the same name. Implementations are safe for concurrent use.
type CustomModules interface {
	// Lookup loads one module, nil if there is none of that name.
	Lookup(ctx context.Context, c *Call, name string) *LoadedModule
	// Names lists the names that Lookup knows.
	Names(ctx context.Context, c *Call) []string
}

// Loader finds functions by name. It is made for one set of options and
// grains; a refresh makes a new one. Safe for concurrent use.
type Loader struct {
	opts    *Options
	entries []moduleEntry
	custom  CustomModules

	mu     sync.Mutex
	loaded map[string]*LoadedModule
}

// NewLoader makes a loader over the built-in modules; custom may be nil.
func NewLoader(o *Options, custom CustomModules) *Loader {
	return &Loader{opts: o, entries: builtinModules(), custom: custom, loaded: map[string]*LoadedModule{}}
}

// NotAvailableError says that no function of that name can be called here.
type NotAvailableError struct {
	Name   string // mod.fun as it was asked for
	Module string // set when the module itself refused
	Reason string
}

// Error has Salt's words, which tools match on.
func (e *NotAvailableError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("'%s' __virtual__ returned False: %s", e.Module, e.Reason)
	}
	return fmt.Sprintf("'%s' is not available.", e.Name)
}

// Function finds "mod.fun". The error is a *NotAvailableError.
func (l *Loader) Function(ctx context.Context, c *Call, name string) (Function, error) {
	mod, fun, ok := strings.Cut(name, ".")
	if !ok {
		return nil, &NotAvailableError{Name: name}
	}
	m := l.Module(ctx, c, mod)
	if m == nil {
		return nil, &NotAvailableError{Name: name}
	}
	if m.Refused != "" {
		return nil, &NotAvailableError{Name: name, Module: mod, Reason: m.Refused}
	}
	f, ok := m.Funcs[fun]
	if !ok {
		return nil, &NotAvailableError{Name: name}
	}
	return f, nil
}

// Module loads a module by the name it is called by: nil if nothing has that
// name, and one with Refused set if all candidates refused.
func (l *Loader) Module(ctx context.Context, c *Call, name string) *LoadedModule {
	for _, off := range l.opts.List("disable_modules") {
		if off == name {
			return nil
		}
	}
	l.mu.Lock()
	m, ok := l.loaded[name]
	l.mu.Unlock()
	if ok {
		return m
	}
	// Not under the lock: a __virtual__ may itself call modules.
	m = l.load(ctx, c, name)
	l.mu.Lock()
	defer l.mu.Unlock()
	if have, ok := l.loaded[name]; ok {
		return have
	}
	l.loaded[name] = m
	return m
}

// load finds the files of a name: those of the user, and a built-in one. A
// user's file hides the built-in one of the same name; with only the virtual
// name in common, both have their functions under it.
func (l *Loader) load(ctx context.Context, c *Call, name string) *LoadedModule {
	var own *LoadedModule
	if l.custom != nil {
		own = l.custom.Lookup(ctx, c, name)
	}
	if own == nil {
		return l.builtin(ctx, c, name, "")
	}
	builtin := l.builtin(ctx, c, name, own.Provider)
	switch {
	case builtin == nil || builtin.Refused != "":
		return own
	case own.Refused != "":
		return builtin
	}
	first, second := own, builtin
	if builtin.Provider == name && own.Provider != name { // the file of that name comes first
		first, second = builtin, own
	}
	for fun, f := range second.Funcs {
		if _, have := first.Funcs[fun]; !have {
			first.Funcs[fun] = f
		}
	}
	return first
}

// builtin finds the built-in module of a name, without the file hidden.
func (l *Loader) builtin(ctx context.Context, c *Call, name, hidden string) *LoadedModule {
	wanted := ""
	if p := l.opts.Map("providers"); p != nil {
		wanted = p.Str(name)
	}
	var refused *LoadedModule
	for _, e := range l.entries {
		if e.calledAs() != name && e.name != name || e.name == hidden {
			continue
		}
		if wanted != "" && e.name != wanted || e.joins {
			continue
		}
		m := e.load()
		lm := &LoadedModule{Name: name, Provider: e.name, Doc: m.Doc}
		if m.Virtual != nil && wanted == "" {
			if ok, reason := m.Virtual(ctx, c); !ok {
				if reason == "" {
					reason = fmt.Sprintf("the %s module does not fit this system", e.name)
				}
				if refused == nil {
					lm.Refused = reason
					refused = lm
				}
				continue
			}
		}
		if e.calledAs() != name { // asked for by its file's name: only the virtual name is callable
			return nil
		}
		lm.Funcs = make(map[string]Function, len(m.Funcs))
		for fun, f := range m.Funcs {
			lm.Funcs[fun] = newBuiltin(fun, f)
		}
		l.join(ctx, c, lm)
		return lm
	}
	return refused
}

// join adds the functions of modules that join the chosen one.
func (l *Loader) join(ctx context.Context, c *Call, chosen *LoadedModule) {
	for _, e := range l.entries {
		if !e.joins || e.calledAs() != chosen.Name || e.name == chosen.Provider {
			continue
		}
		m := e.load()
		if m.Virtual != nil {
			if ok, _ := m.Virtual(ctx, c); !ok {
				continue
			}
		}
		for fun, f := range m.Funcs {
			if chosen.Funcs[fun] == nil {
				chosen.Funcs[fun] = newBuiltin(fun, f)
			}
		}
	}
}

// ModuleNames lists the modules that are loaded or can be, sorted.
func (l *Loader) ModuleNames(ctx context.Context, c *Call) []string {
	names := map[string]bool{}
	for _, e := range l.entries {
		names[e.calledAs()] = true
	}
	if l.custom != nil {
		for _, n := range l.custom.Names(ctx, c) {
			names[n] = true
		}
	}
	var out []string
	for n := range names {
		if m := l.Module(ctx, c, n); m != nil && m.Refused == "" {
			out = append(out, n)
		}
	}
	sort.Strings(out)
	return out
}

// RefusedModules maps the names of the files that refused to their reasons.
func (l *Loader) RefusedModules(ctx context.Context, c *Call) map[string]string {
	out := map[string]string{}
	for _, e := range l.entries {
		if e.joins {
			continue
		}
		if m := l.Module(ctx, c, e.calledAs()); m == nil || m.Provider != e.name {
			reason := ""
			if m != nil {
				reason = m.Refused
			}
			out[e.name] = reason
		}
	}
	return out
}

// FunctionNames lists every callable "mod.fun", sorted.
func (l *Loader) FunctionNames(ctx context.Context, c *Call) []string {
	var out []string
	for _, mod := range l.ModuleNames(ctx, c) {
		for fun := range l.Module(ctx, c, mod).Funcs {
			out = append(out, mod+"."+fun)
		}
	}
	sort.Strings(out)
	return out
}

// Env is what a minion (or salt-call, or the master for its runners) lends to
// the functions it runs: a snapshot, taken when the job starts. Grains and
// Pillar are never changed once they are here; a refresh replaces them. Only a
// run that owns its copies may change them.
type Env struct {
	Opts   *Options
	Grains *Map
	Pillar *Map
	Own    bool // Grains and Pillar are copies for this run: see owned
	Loader *Loader
	Log    *slog.Logger

	Files  FileClient    // nil: no file server
	Master MasterChannel // nil: masterless
	Jobs   JobControl    // nil: outside the daemon
	Minion MinionControl // nil: outside the daemon

	Schedule *Scheduler // nil: outside the daemon
	Beacons  *Beacons   // nil: outside the daemon

	Templates TemplateRenderer // nil: no templates
	Runner    *RunnerEnv       // nil: not a runner
}

// owned is an Env for one state run: what its templates change in pillar and
// grains is seen by those after them, as in Salt, and by nobody else.
func (e *Env) owned() *Env {
	own := *e
	own.Own = true
	own.Grains, own.Pillar = DeepCopy(mapOrEmpty(e.Grains)).(*Map), DeepCopy(mapOrEmpty(e.Pillar)).(*Map)
	return &own
}

// lend is a part of Grains or Pillar for a caller that may change it.
func (e *Env) lend(v any) any {
	if e.Own {
		return v
	}
	return DeepCopy(v)
}

// MasterChannel talks to the master this minion belongs to.
type MasterChannel interface {
	// Request sends one encrypted request and returns the decoded reply.
	// The load is protocol.md section 9 without the channel's own fields.
	Request(ctx context.Context, load *Map) (any, error)
	// FetchPillar asks for the pillar (the private reply of section 7.1).
	FetchPillar(ctx context.Context, load *Map) (*Map, error)
	// FireEvent puts an event on the master's bus.
	FireEvent(ctx context.Context, tag string, data *Map) error
	// MasterAddr is the address in use, host:port of the request socket.
	MasterAddr() string
}

// JobControl is what saltutil's job functions need of the daemon.
type JobControl interface {
	Running() []*Map      // as the proc files describe them
	Find(jid string) *Map // nil if it does not run
	// Signal ends or signals a job's process group and cancels its context.
	// The text is what saltutil answers.
	Signal(jid string, signal int) (string, bool)
}

// MinionControl are the daemon's own switches.
type MinionControl interface {
	RefreshModules(ctx context.Context) error
	RefreshGrains(ctx context.Context) error
	RefreshPillar(ctx context.Context) error
	// FireLocal puts an event on the minion's own bus.
	FireLocal(ctx context.Context, tag string, data *Map) error
}

// TemplateRenderer renders a file template (cp.get_template, file.managed):
// engine is the template's kind ("jinja"), name the path shown in errors, vars
// what the template sees beside the usual names.
type TemplateRenderer interface {
	RenderTemplate(ctx context.Context, c *Call, src, engine, name, saltenv string, vars *Map) (string, error)
}

// FileClient reads the master's (or the local) file server.
type FileClient interface {
	Envs(ctx context.Context) ([]string, error)
	Files(ctx context.Context, saltenv, prefix string) ([]string, error)
	EmptyDirs(ctx context.Context, saltenv, prefix string) ([]string, error)
	Dirs(ctx context.Context, saltenv, prefix string) ([]string, error)
	Symlinks(ctx context.Context, saltenv, prefix string) (*Map, error)
	// Hash returns {hash_type, hsum}, or an empty map if there is no such file.
	Hash(ctx context.Context, path, saltenv string) (*Map, error)
	// Cache brings salt://path into the minion's cache and returns the local
	// path, "" if the file does not exist.
	Cache(ctx context.Context, path, saltenv string) (string, error)
}

// Call is one run of one function.
type Call struct {
	*Env
	Fun    string // as called
	JID    string
	Pub    *Map // the publish load, nil outside jobs of a master
	Direct bool // typed by a person on a command line: cmd functions use a shell

	State *StateInfo // nil outside state functions

	depth int // calls within calls

	job *jobContext
}

// jobContext is __context__: shared by all calls of one job.
type jobContext struct {
	mu   sync.Mutex
	vals *Map
}

// NewCall starts a job: a fresh __context__ over env.
func NewCall(env *Env, fun, jid string, pub *Map) *Call {
	return &Call{Env: env, Fun: fun, JID: jid, Pub: pub, job: &jobContext{vals: &Map{}}}
}

// ContextGet reads a value of __context__.
func (c *Call) ContextGet(key string) (any, bool) {
	c.job.mu.Lock()
	defer c.job.mu.Unlock()
	return c.job.vals.Get(key)
}

// ContextSet sets a value of __context__.
func (c *Call) ContextSet(key string, v any) {
	c.job.mu.Lock()
	defer c.job.mu.Unlock()
	c.job.vals.Set(key, v)
}

// SetRetcode sets the exit code of the job, as modules do that ran a command.
func (c *Call) SetRetcode(n int) { c.ContextSet("retcode", int64(n)) }

// Run calls a function by name with positional arguments: __salt__[name](…).
func (c *Call) Run(ctx context.Context, name string, args ...any) (any, error) {
	return c.RunKw(ctx, name, args, nil)
}

// RunKw is Run with keyword arguments. Unknown names are *NotAvailableError,
// calls that do not fit the signature *ModuleError of kind ErrType.
func (c *Call) RunKw(ctx context.Context, name string, args []any, kwargs *Map) (any, error) {
	inner := *c
	inner.Fun = name
	inner.Direct = false
	if inner.depth++; inner.depth > maxCallDepth {
		return nil, OtherErrorf("RecursionError", "maximum recursion depth exceeded: %d calls of functions within each other", maxCallDepth)
	}
	return inner.invoke(ctx, name, args, kwargs)
}

// maxCallDepth bounds functions that call each other in a circle. A call of a
// Python module within another costs a process.
const maxCallDepth = 64

// RunDirect is RunKw for the function that a person named on a command line.
func (c *Call) RunDirect(ctx context.Context, name string, args []any, kwargs *Map) (any, error) {
	inner := *c
	inner.Fun = name
	inner.Direct = true
	return inner.invoke(ctx, name, args, kwargs)
}

func (c *Call) invoke(ctx context.Context, name string, args []any, kwargs *Map) (ret any, err error) {
	f, err := c.Loader.Function(ctx, c, name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if p := recover(); p != nil {
			stack := string(debug.Stack())
			c.Log.Error(fmt.Sprintf("%s: panic: %v\n%s", name, p, stack))
			ret, err = nil, &ModuleError{Kind: ErrOther, Class: "RuntimeError", Msg: fmt.Sprint(p)}
		}
	}()
	ret, err = f.Invoke(ctx, c, args, kwargs)
	if err != nil {
		return nil, err
	}
	return FromGo(ret), nil
}

// Has says whether a function can be called: `name in __salt__`.
func (c *Call) Has(ctx context.Context, name string) bool {
	_, err := c.Loader.Function(ctx, c, name)
	return err == nil
}
