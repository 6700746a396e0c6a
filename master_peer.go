// What minions may do to others through the master: publish jobs and call
// runners, as far as the options peer and peer_run let them.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// rulesFor collects what an option like peer grants to an id: the rules under
// every expression that matches it.
func rulesFor(option any, id string) []any {
	rules, ok := option.(*Map)
	if !ok {
		return nil
	}
	var out []any
	for expr, v := range rules.All() {
		list, ok := v.(*List)
		if !ok {
			continue
		}
		if match, err := compileAnchored(Str(expr)); err == nil && match(id) {
			out = append(out, list.Items...)
		}
	}
	return out
}

// matchesAny says whether one of the expressions matches the name.
func matchesAny(exprs []any, name string) bool {
	for _, e := range exprs {
		if s, ok := e.(string); ok {
			if match, err := compileAnchored(s); err == nil && match(name) {
				return true
			}
		}
	}
	return false
}

// peerJob checks a publication of a minion and makes it a job. nil if it is not
// allowed.
func (m *Master) peerJob(q *minionRequest) *publishRequest {
	for _, k := range []string{"fun", "arg", "tgt", "ret"} {
		if !q.load.Has(k) {
			return nil
		}
	}
	funText := q.load.Str("fun")
	args, ok := q.load.Value("arg").(*List)
	if funText == "" || !ok || strings.HasPrefix(funText, "publish.") {
		return nil
	}
	job := &publishRequest{
		fun: funText, arg: args, tgt: q.load.Value("tgt"), tgtType: q.load.Str("tgt_type"),
		ret: Str(q.load.Value("ret")), from: q.id, user: currentUser(),
	}
	if job.tgtType == "" {
		job.tgtType = "glob"
	}
	if strings.HasPrefix(job.tgtType, "node") {
		kind, tgt, err := ExpandTarget("nodegroup", Str(job.tgt), m.o().Map("nodegroups"))
		if err != nil {
			m.log.Warn(fmt.Sprintf("minion %s publishes to a nodegroup: %v", q.id, err))
			return nil
		}
		job.tgtType, job.tgt = kind, tgt
	}
	noParse := map[string]bool{}
	for _, name := range toStrings(q.load.Value("no_parse")) {
		noParse[name] = true
	}
	if strings.Contains(funText, ",") {
		funs := strings.Split(funText, ",")
		job.fun = Strings(funs)
		groups := NewList()
		for _, a := range args.Items {
			groups.Append(Strings(strings.Fields(Str(a))))
		}
		for groups.Len() < len(funs) {
			groups.Append(NewList())
		}
		job.arg = groups
	}
	allowed := m.authCheck(rulesFor(m.o().Value("peer"), q.id), job.fun, job.arg, nil, nil)
	// A pattern over pillar data that matches more than an exact one would is a
	// way to read pillars.
	if allowed && exactKind(job.tgtType) != job.tgtType {
		wide, err1 := m.resolve(job.tgtType, job.tgt, "", true)
		exact, err2 := m.resolve(exactKind(job.tgtType), job.tgt, "", true)
		allowed = err1 == nil && err2 == nil && len(wide.Minions) <= len(exact.Minions)
	}
	if !allowed {
		m.log.Warn(fmt.Sprintf("minion %s at %s may not publish %s to %s: option peer does not allow it",
			q.id, q.peer.RemoteAddr, shortRepr(job.fun), shortRepr(job.tgt)))
		return nil
	}
	if _, several := job.fun.(*List); !several {
		job.arg = parseInput(args.Items, noParse)
	}
	return job
}

// cmdMinionPub publishes a job of a minion and answers at once.
func (m *Master) cmdMinionPub(ctx context.Context, q *minionRequest) (any, error) {
	job := m.peerJob(q)
	if job == nil {
		return NewMap(), nil
	}
	pub, err := m.publish(ctx, job)
	var nobody *noMinionsError
	if errors.As(err, &nobody) {
		return NewMap("jid", int64(0), "minions", NewList()), nil
	}
	if err != nil {
		return NewMap(), err
	}
	return NewMap("jid", pub.jid, "minions", Strings(pub.minions)), nil
}

// cmdMinionPublish publishes a job of a minion and answers with the returns.
func (m *Master) cmdMinionPublish(ctx context.Context, q *minionRequest) (any, error) {
	timeout := m.o().Duration("timeout")
	if timeout <= 0 {
		timeout = 5 * time.Second
	}
	for _, k := range []string{"tmo", "timeout"} {
		if v, ok := q.load.Get(k); ok {
			s, ok := toFloat(v)
			if !ok {
				m.log.Warn(fmt.Sprintf("minion %s publishes with the timeout %s", q.id, shortRepr(v)))
				return NewMap(), nil
			}
			timeout = time.Duration(min(s, 86400) * float64(time.Second))
		}
	}
	job := m.peerJob(q)
	if job == nil {
		return NewMap(), nil
	}
	full := q.load.Str("form") == "full"
	out := NewMap()
	jid, err := m.runAndWait(ctx, job, timeout, func(id string, ret *Map) {
		if !full {
			out.Set(id, ret.Value("return"))
			return
		}
		r := ret.Clone()
		v := r.Value("return")
		r.Delete("return")
		r.Set("ret", v)
		out.Set(id, r)
	})
	if err != nil {
		return NewMap(), err
	}
	if full {
		out.Set("__jid__", jid)
	}
	return out, nil
}

// cmdPubRet answers the returns of a job that this minion published.
func (m *Master) cmdPubRet(_ context.Context, q *minionRequest) (any, error) {
	j, err := m.jobs.Load(q.load.Str("jid"))
	if errors.Is(err, ErrNoJob) {
		return NewMap(), nil
	}
	if err != nil {
		return nil, err
	}
	if j.Load.Map("kwargs").Str("id") != q.id {
		return NewMap(), nil
	}
	out := NewMap()
	for _, id := range j.Returns.SortedKeys() {
		r := j.Returns.Map(id)
		e := NewMap("ret", r.Value("return"))
		if v, ok := r.Get("out"); ok {
			e.Set("out", v)
		}
		out.Set(id, e)
	}
	return out, nil
}

// cmdMinionRunner calls a runner for a minion.
func (m *Master) cmdMinionRunner(ctx context.Context, q *minionRequest) (any, error) {
	fun := q.load.Str("fun")
	args, ok := q.load.Value("arg").(*List)
	if fun == "" || !ok {
		return NewMap(), nil
	}
	if !matchesAny(rulesFor(m.o().Value("peer_run"), q.id), fun) {
		m.log.Warn(fmt.Sprintf("minion %s at %s may not call the runner %s: option peer_run does not allow it", q.id, q.peer.RemoteAddr, shortRepr(fun)))
		return NewMap(), nil
	}
	if m.Runners == nil {
		return nil, errNotServed
	}
	noParse := map[string]bool{}
	for _, name := range toStrings(q.load.Value("no_parse")) {
		noParse[name] = true
	}
	var pos []any
	kwargs := NewMap()
	for _, a := range parseInput(args.Items, noParse).Items {
		if kw, ok := a.(*Map); ok && kw.Value("__kwarg__") == true {
			for k, v := range kw.All() {
				if k != "__kwarg__" {
					kwargs.Set(k, v)
				}
			}
			continue
		}
		pos = append(pos, a)
	}
	return m.Runners.Run(ctx, fun, pos, kwargs)
}
