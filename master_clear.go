// Requests in clear: logins of minions, and what the command line and the API on
// the master's host ask for.
//
// The law of this room: clearCommands is the whole list. Everything but ping and
// a login goes through one gate, authenticate, before anything else is looked at.
package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
)

// clearCommand answers one command with a value to send in clear.
type clearCommand func(m *Master, ctx context.Context, p *Peer, load *Map) any

// clearCommands is the allow-list of commands in clear. _auth, which answers by
// itself, is in handleClear.
func clearCommands() map[string]clearCommand {
	return map[string]clearCommand{
		"get_token": (*Master).clearGetToken,
		"mk_token":  (*Master).clearMakeToken,
		"ping":      (*Master).clearPing,
		"publish":   (*Master).clearPublish,
		"runner":    (*Master).clearRunner,
		"wheel":     (*Master).clearWheel,
	}
}

// handleClear answers a request in clear.
func (m *Master) handleClear(ctx context.Context, p *Peer, r *Request) []byte {
	cmd, ok := r.Clear.Value("cmd").(string)
	if !ok {
		m.grumble.warn(hostOf(p.RemoteAddr), fmt.Sprintf("refused a request from %s: it has no command", p.RemoteAddr))
		return m.refuse(refusedBadLoad)
	}
	if cmd == "_auth" {
		return m.login(ctx, p, r)
	}
	f, ok := m.clear[cmd]
	if !ok {
		m.grumble.warn(hostOf(p.RemoteAddr), fmt.Sprintf("%s asks in clear for the unknown command %s", p.RemoteAddr, shortRepr(cmd)))
		return m.clearReply(NewMap())
	}
	return m.clearReply(m.runClear(ctx, p, cmd, f, r.Clear))
}

func (m *Master) runClear(ctx context.Context, p *Peer, cmd string, f clearCommand, load *Map) (v any) {
	defer func() {
		if r := recover(); r != nil {
			m.log.Error(fmt.Sprintf("%s from %s: panic: %v\n%s", cmd, p.RemoteAddr, r, debug.Stack()))
			v = RefusedServer
		}
	}()
	return f(m, ctx, p, load)
}

func (m *Master) clearReply(v any) []byte {
	out, err := EncodeWire(v)
	if err != nil {
		m.log.Error(fmt.Sprintf("encode an answer: %v", err))
		return m.refuse(RefusedServer)
	}
	return out
}

// errorReply is the form in which the command line and the API get errors.
func errorReply(name, message string) *Map {
	return NewMap("error", NewMap("name", name, "message", message))
}

func (m *Master) clearPing(_ context.Context, _ *Peer, load *Map) any { return load }

// clearPublish checks who asks, publishes, and answers who is expected to reply.
func (m *Master) clearPublish(ctx context.Context, p *Peer, load *Map) any {
	kwargs := load.Map("kwargs")
	if kwargs == nil {
		kwargs = NewMap()
	}
	r := &publishRequest{
		fun: load.Value("fun"), tgt: load.Value("tgt"), tgtType: load.Str("tgt_type"), ret: load.Str("ret"),
		jid: load.Str("jid"), user: load.Str("user"), to: load.Value("to"), kwargs: kwargs, load: load,
	}
	if r.tgtType == "" {
		r.tgtType = "glob"
	}
	fail := func(name string) any {
		err := errorReply(name, strings.TrimSuffix(name, "Error")+" error occurred.")
		if r.jid != "" && ValidJID(r.jid) == nil {
			ev := withoutSecrets(load)
			ev.Merge(err)
			m.bus.Fire("salt/job/"+r.jid+"/error", ev)
		}
		return err
	}
	id, err := m.authenticate(ctx, load, kwargs)
	if err != nil {
		m.log.Warn(fmt.Sprintf("refused a publication from %s of user %s: %v", p.RemoteAddr, shortRepr(load.Value("user")), err))
		return fail("AuthenticationError")
	}
	var ok bool
	if r.arg, ok = load.Value("arg").(*List); !ok || !validFun(r.fun) || r.tgt == nil {
		return errorReply("SaltInvocationError", "a publication needs fun, arg and tgt")
	}
	if several, isList := r.fun.(*List); isList && several.Len() != r.arg.Len() {
		return errorReply("SaltInvocationError", "several functions need one list of arguments each")
	}
	if m.blacklisted(r.user, r.fun) {
		m.log.Error(fmt.Sprintf("user %s does not have permissions to run %s: publisher_acl_blacklist forbids it", r.user, shortRepr(r.fun)))
		return fail("AuthorizationError")
	}
	if id.name != "" {
		r.user = id.name
	}
	res, err := m.resolve(r.tgtType, r.tgt, kwargs.Str("delimiter"), true)
	if err != nil {
		m.log.Info(fmt.Sprintf("target %s of user %s: %v", shortRepr(r.tgt), r.user, err))
	}
	if id.limited && !isFindJob(r.fun) && !m.authCheck(id.rules, r.fun, r.arg, res.Minions, m.validTarget) {
		m.log.Warn(fmt.Sprintf("refused user %s to run %s on %s", r.user, shortRepr(r.fun), shortRepr(r.tgt)))
		return fail("AuthorizationError")
	}
	if r.jid != "" {
		if err := ValidJID(r.jid); err != nil {
			return errorReply("SaltInvocationError", err.Error())
		}
	}
	pub, err := m.publishTo(ctx, r, res)
	var nobody *noMinionsError
	switch {
	case errors.As(err, &nobody):
		return NewMap("enc", "clear", "load", NewMap("jid", nil, "minions", NewList(), "error", nobody.Error()))
	case err != nil:
		m.log.Error(fmt.Sprintf("publish: %v", err))
		return errorReply("SaltMasterError", err.Error())
	}
	answer := NewMap("jid", pub.jid, "minions", Strings(pub.minions), "missing", Strings(pub.missing))
	if Truth(kwargs.Value("on_connect")) {
		answer.Set("on_connect", true)
	}
	return NewMap("enc", "clear", "load", answer)
}

func validFun(fun any) bool {
	switch fun := fun.(type) {
	case string:
		return fun != ""
	case *List:
		return fun.Len() > 0 && !slices.ContainsFunc(fun.Items, func(v any) bool { s, ok := v.(string); return !ok || s == "" })
	}
	return false
}

func isFindJob(fun any) bool { return fun == "saltutil.find_job" }

// clearRunner starts a runner and answers under which tag its result will come.
func (m *Master) clearRunner(ctx context.Context, p *Peer, load *Map) any {
	fun := load.Str("fun")
	user, refusal := m.gate(ctx, p, load, fun, "runner")
	if refusal != nil {
		return refusal
	}
	if m.Runners == nil {
		return errorReply("SaltInvocationError", "this master runs no runners")
	}
	args, kwargs := lowArguments(load.Value("kwarg"))
	jid := m.nextJID()
	m.background(func(ctx context.Context) { m.runRunner(ctx, jid, user, fun, args, kwargs) })
	return NewMap("tag", "salt/run/"+jid, "jid", jid)
}

// runRunner runs a runner function between its two events.
func (m *Master) runRunner(ctx context.Context, jid, user, fun string, args []any, kwargs *Map) {
	tag := "salt/run/" + jid
	data := NewMap("fun", "runner."+fun, "jid", jid, "user", user, "fun_args", lowFunArgs(args, kwargs))
	m.bus.Fire(tag+"/new", data.Clone())
	ret, err := m.Runners.Run(ctx, fun, args, kwargs)
	data.Set("return", ret)
	data.Set("success", err == nil)
	if err != nil {
		m.log.Error(fmt.Sprintf("runner %s of user %s: %v", fun, user, err))
		data.Set("return", "Exception occurred in runner "+fun+": "+err.Error())
	}
	m.bus.Fire(tag+"/ret", data)
}

// lowArguments takes positional and named arguments out of the kwarg of a runner
// request: {"arg": [...], "kwarg": {...}}, or the named ones directly.
func lowArguments(v any) ([]any, *Map) {
	low, _ := v.(*Map)
	args := toItems(low.Value("arg"))
	kwargs := NewMap()
	if low.Has("arg") || low.Has("kwarg") {
		kwargs.Merge(low.Map("kwarg"))
	} else {
		kwargs.Merge(low)
	}
	for _, k := range []string{"__current_eauth_user", "__current_eauth_groups", "__kwarg__"} {
		kwargs.Delete(k)
	}
	return args, kwargs
}

func lowFunArgs(args []any, kwargs *Map) *List {
	l := NewList(args...)
	if kwargs.Len() > 0 {
		l.Append(kwargs)
	}
	return l
}

// clearWheel runs a wheel function and answers with its result.
func (m *Master) clearWheel(ctx context.Context, p *Peer, load *Map) any {
	fun := load.Str("fun")
	user, refusal := m.gate(ctx, p, load, fun, "wheel")
	if refusal != nil {
		return refusal
	}
	kwargs := load.Clone()
	for _, k := range []string{"cmd", "fun", "key", "token", "eauth", "username", "password", "user", "client"} {
		kwargs.Delete(k)
	}
	var args []any
	if kwargs.Has("arg") || kwargs.Has("kwarg") {
		args, kwargs = lowArguments(kwargs)
	}
	data := m.runWheelJob(ctx, user, fun, args, kwargs)
	return NewMap("tag", data.Str("tag"), "data", data)
}

// runWheelJob runs a wheel function between its two events and returns the second.
func (m *Master) runWheelJob(ctx context.Context, user, fun string, args []any, kwargs *Map) *Map {
	jid := m.nextJID()
	tag := "salt/wheel/" + jid
	data := NewMap("fun", "wheel."+fun, "jid", jid, "tag", tag, "user", user)
	m.bus.Fire(tag+"/new", data.Clone())
	ret, err := m.runWheel(ctx, fun, args, kwargs)
	data.Set("return", ret)
	data.Set("success", err == nil)
	if err != nil {
		m.log.Error(fmt.Sprintf("wheel %s of user %s: %v", fun, user, err))
		data.Set("return", "Exception occurred in wheel "+fun+": "+err.Error())
	}
	m.bus.Fire(tag+"/ret", data)
	return data
}

// gate checks who asks for a runner or wheel function and whether he may.
func (m *Master) gate(ctx context.Context, p *Peer, load *Map, fun, form string) (user string, refusal *Map) {
	id, err := m.authenticate(ctx, load, load)
	if err != nil {
		m.log.Warn(fmt.Sprintf("refused %s %s from %s of user %s: %v", form, shortRepr(load.Value("fun")), p.RemoteAddr, shortRepr(load.Value("user")), err))
		return "", errorReply(authErrorName(load), err.Error())
	}
	if fun == "" {
		return "", errorReply("SaltInvocationError", "A command invocation error occurred: Check syntax.")
	}
	if id.limited {
		if strings.Count(fun, ".") != 1 {
			return "", errorReply("SaltInvocationError", "A command invocation error occurred: Check syntax.")
		}
		args, kwargs := lowArguments(load.Value("kwarg"))
		if !specCheck(id.rules, fun, form, args, kwargs) {
			m.log.Warn(fmt.Sprintf("refused user %s the %s %s", id.name, form, fun))
			return "", errorReply(authErrorName(load), fmt.Sprintf("Authentication failure of type %q occurred for user %s.", authKind(load), id.name))
		}
	}
	user = id.name
	if user == "" {
		user = load.Str("user")
	}
	if user == "" {
		user = m.o().Str("user")
	}
	return user, nil
}
