// States: the registry of state modules, and what a state function is.
//
// The law of this room: a state function has the shape of an execution
// function (context, *Call, one struct of arguments), so that the binder of
// modules.go gives it its signature; it returns what Salt calls the state
// return, a mapping with name, changes, result and comment. A dry run is
// c.Testing(): a state then says what it would do, with result None, and
// touches nothing. What a state needs of the run it belongs to is c.State. A
// state calls execution modules through Call.Run, as __salt__ does.
//
// The way from files to results: states_compile.go renders and merges SLS files
// to high data, states_high.go checks high data and turns it into low chunks,
// states_requisites.go says which chunk waits for which, states_run.go runs
// them. modules_state.go has the functions that users call.
package main

import (
	"context"
	"errors"
)

// StateInfo is what a state function may know of the run it belongs to.
type StateInfo struct {
	Low      *Map   // __low__: the chunk that is running
	Running  *Map   // __running__: the returns so far, by tag
	Chunks   []*Map // __lowstate__
	Instance string // __instance_id__: one value for each run
	Saltenv  string // __env__
	OrchJID  string // __orchestration_jid__
}

// Testing says whether this is a dry run: __opts__['test'].
func (c *Call) Testing() bool { return c.Opts.Bool("test") }

// StateEnv is the environment that the running state comes from: __env__.
func (c *Call) StateEnv() string {
	if c.State != nil && c.State.Saltenv != "" {
		return c.State.Saltenv
	}
	return "base"
}

// stateDunders are the names that a state function in Python finds in its
// module. __running__ has the returns that the function's requisites came to.
func stateDunders(s *StateInfo) *Map {
	low := s.Low.Clone()
	running := NewMap()
	if reqs := low.Map("__reqs__"); reqs != nil {
		for _, list := range reqs.All() {
			for _, r := range toItems(list) {
				if m, ok := r.(*Map); ok {
					tag := lowTag(m)
					running.Set(tag, s.Running.Value(tag))
				}
			}
		}
	}
	out := NewMap("__low__", low, "__running__", running, "__env__", s.Saltenv, "__instance_id__", s.Instance)
	if s.OrchJID != "" {
		out.Set("__orchestration_jid__", s.OrchJID)
	}
	return out
}

// stateReturn starts a state return; result is True, False or nil for None.
func stateReturn(name string, result any, comment string) *Map {
	return NewMap("name", name, "changes", NewMap(), "result", result, "comment", comment)
}

// stateChanged is a state return with changes.
func stateChanged(name string, result any, comment string, changes *Map) *Map {
	return NewMap("name", name, "changes", changes, "result", result, "comment", comment)
}

// customStates shows the user-written files of kind "states" to a Loader.
type customStates struct{ u *Customs }

func (s customStates) Lookup(ctx context.Context, c *Call, name string) *LoadedModule {
	return s.u.LookupKind(ctx, c, "states", name)
}

func (s customStates) Names(ctx context.Context, c *Call) []string {
	return s.u.NamesKind(ctx, c, "states")
}

// NewStateLoader makes a loader over the state modules, for the same options
// and user-written files as the loader of a call.
func NewStateLoader(c *Call) *Loader {
	o := c.Opts.Clone()
	o.Set("disable_modules", NewList())
	o.Set("providers", NewMap())
	l := &Loader{opts: o, entries: builtinStates(), loaded: map[string]*LoadedModule{}}
	if u := c.Loader.customs(); u != nil {
		l.custom = customStates{u}
	}
	return l
}

// errText is the text of an error as str(exc) gives it.
func errText(err error) string {
	var e *ModuleError
	if errors.As(err, &e) {
		return e.Msg
	}
	return err.Error()
}

// isExecError says whether an error is a CommandExecutionError.
func isExecError(err error) bool {
	var e *ModuleError
	return errors.As(err, &e) && e.Kind == ErrExecution
}

// sysStates lists the state functions for module sys.
func sysStates(ctx context.Context, c *Call) []sysEntry {
	l := NewStateLoader(c)
	var out []sysEntry
	for _, mod := range l.ModuleNames(ctx, c) {
		m := l.Module(ctx, c, mod)
		for name, f := range m.Funcs {
			out = append(out, sysEntry{name: mod + "." + name, doc: f.Doc(), sig: f.Signature(), modDoc: m.Doc})
		}
	}
	return out
}
