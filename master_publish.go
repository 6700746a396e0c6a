// Publishing: from the clear `publish` request of the command line, or from a
// peer, to one message for all minions.
//
// The law of this room: nothing is published before the sender was checked and
// the target resolved. A publication is encrypted and signed once, whatever the
// number of minions. The job is filed and announced on the bus before it goes
// out, so that no return can come to a job that nobody knows.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
)

// publishRequest is a job to publish.
type publishRequest struct {
	fun     any   // text, or list of texts
	arg     *List // with several functions a list of lists
	tgt     any
	tgtType string
	ret     string
	jid     string // "" to get one
	user    string
	from    string // id of the minion that publishes
	to      any    // timeout, for masters below this one
	kwargs  *Map   // metadata, ret_config and so on, as sent
	load    *Map   // the clear load, for the job cache; nil: made from the rest
}

// published is a job on its way.
type published struct {
	jid     string
	minions []string
	missing []string
}

// noMinionsError says that a target means nobody.
type noMinionsError struct{ tgt any }

func (e *noMinionsError) Error() string {
	return "Master could not resolve minions for target " + Str(e.tgt)
}

func (m *Master) resolve(kind string, tgt any, delimiter string, greedy bool) (TargetResult, error) {
	return m.index.Resolve(kind, tgt, delimiter, m.o().Map("nodegroups"), greedy)
}

// nextJID is the id for a job that starts now.
func (m *Master) nextJID() string {
	jid := m.jids.Next(time.Now())
	if m.o().Bool("unique_jid") {
		jid += fmt.Sprintf("_%d", os.Getpid())
	}
	return jid
}

// publish resolves, files, announces and sends a job.
func (m *Master) publish(ctx context.Context, r *publishRequest) (*published, error) {
	res, err := m.resolve(r.tgtType, r.tgt, r.kwargs.Str("delimiter"), true)
	if err != nil {
		m.log.Info(fmt.Sprintf("target %s: %v", shortRepr(r.tgt), err))
	}
	return m.publishTo(ctx, r, res)
}

// publishTo is publish for a target that was resolved.
func (m *Master) publishTo(_ context.Context, r *publishRequest, res TargetResult) (*published, error) {
	if len(res.Minions) == 0 && !m.o().Bool("order_masters") {
		return nil, &noMinionsError{r.tgt}
	}
	jid := r.jid
	if jid == "" {
		jid = m.nextJID()
	} else if err := ValidJID(jid); err != nil {
		return nil, err
	}
	if m.dummyPub() {
		m.log.Warn("dummy_pub is on: nothing is published")
	}
	if err := m.fileJob(jid, r, res); err != nil {
		// A full disk must not keep anybody from running the job that frees it.
		m.log.Error(err.Error())
	}
	if Truth(r.kwargs.Value("on_connect")) {
		m.owed.owe(jid, res.Minions)
	}
	load := m.publishLoad(jid, r)
	if err := m.send(load, r, res); err != nil {
		return nil, err
	}
	m.metrics.publishes.Add(1)
	user := ""
	if r.user != "" {
		user = " of user " + r.user
	}
	m.log.Info(fmt.Sprintf("published %s%s with jid %s", shortRepr(r.fun), user, jid))
	return &published{jid, res.Minions, res.Missing}, nil
}

func (m *Master) dummyPub() bool { return m.o().Bool("dummy_pub") }

// fileJob announces a job on the bus and puts it into the job cache.
func (m *Master) fileJob(jid string, r *publishRequest, res TargetResult) error {
	minions, missing := Strings(res.Minions), Strings(res.Missing)
	m.bus.Fire(jid, NewMap("minions", minions))
	m.bus.Fire("salt/job/"+jid+"/new", NewMap("jid", jid, "tgt_type", r.tgtType, "tgt", r.tgt, "user", r.user,
		"fun", r.fun, "arg", r.arg, "minions", minions, "missing", missing))
	load := r.load
	if load == nil {
		load = NewMap("cmd", "publish", "tgt", r.tgt, "fun", r.fun, "arg", r.arg, "tgt_type", r.tgtType, "ret", r.ret, "user", r.user)
		kwargs := NewMap()
		if r.kwargs != nil {
			kwargs.Merge(r.kwargs)
		}
		if r.from != "" {
			kwargs.Set("id", r.from)
		}
		load.Set("kwargs", kwargs)
	}
	load = withoutSecrets(load)
	load.Set("jid", jid)
	if err := m.jobs.Begin(jid, load, res.Minions, Truth(r.kwargs.Value("nocache"))); err != nil {
		return err
	}
	return m.jobs.Show(jid, load, res.Minions)
}

// withoutSecrets copies a publish load without what proves who sent it.
func withoutSecrets(load *Map) *Map {
	load = load.Clone()
	load.Delete("key")
	kwargs := load.Map("kwargs").Clone()
	for _, k := range []string{"token", "password", "key"} {
		kwargs.Delete(k)
	}
	load.Set("kwargs", kwargs)
	return load
}

// publishLoad is the job as minions see it, fields in Salt's order.
func (m *Master) publishLoad(jid string, r *publishRequest) *Map {
	load := NewMap("fun", r.fun, "arg", r.arg, "tgt", r.tgt, "jid", jid, "ret", retOf(m.o(), r.ret))
	if id := m.o().Str("master_id"); id != "" {
		load.Set("master_id", id)
	}
	if id, ok := r.kwargs.Get("master_id"); ok {
		load.Set("master_id", id)
	}
	if d := r.kwargs.Str("delimiter"); d != "" && d != DefaultTargetDelim {
		load.Set("delimiter", d)
	}
	if r.from != "" {
		load.Set("id", r.from)
	}
	load.Set("tgt_type", r.tgtType)
	if r.to != nil {
		load.Set("to", r.to)
	}
	for _, k := range []string{"ret_config", "metadata", "module_executors", "executor_opts", "ret_kwargs"} {
		if v, ok := r.kwargs.Get(k); ok {
			load.Set(k, v)
		}
	}
	if r.user != "" {
		load.Set("user", r.user)
	}
	return load
}

// send encrypts, signs and publishes a load.
func (m *Master) send(load *Map, r *publishRequest, res TargetResult) error {
	started := time.Now()
	m.publishing.Lock()
	defer m.publishing.Unlock()
	aes := m.aes.Load()
	load.Set("serial", aes.serial.Add(1))
	sealed, err := aes.c.Encrypt(load, "")
	if err != nil {
		return fmt.Errorf("encrypt the publication: %w", err)
	}
	p := &Publication{Sealed: sealed}
	if m.signPubs {
		p.SigAlgo = m.pubAlgo
		if p.Sig, err = m.key.Sign(m.pubAlgo, sealed); err != nil {
			return fmt.Errorf("sign the publication: %w", err)
		}
	}
	body, err := p.Encode()
	if err != nil {
		return fmt.Errorf("encode the publication: %w", err)
	}
	if m.dummyPub() {
		return nil
	}
	switch {
	case !m.filtering:
		m.pub.Publish(body)
	case slices.Contains([]string{"glob", "pcre", "list"}, r.tgtType):
		for _, id := range res.Minions {
			m.pub.Publish([]byte(MinionTopic(id)), body)
		}
		if m.o().Bool("order_masters") {
			m.pub.Publish([]byte(TopicSyndic), body)
		}
	default:
		m.pub.Publish([]byte(TopicBroadcast), body)
	}
	m.metrics.publishTime.observe(time.Since(started))
	return nil
}

// runAndWait publishes a job and calls each with every return, until all have
// come or nothing runs any more. Minions that are still at work after the
// timeout are asked, as `salt` does.
func (m *Master) runAndWait(ctx context.Context, r *publishRequest, timeout time.Duration, each func(id string, ret *Map)) (jid string, err error) {
	r.jid = m.nextJID()
	sub := m.bus.Subscribe("salt/job/"+r.jid+"/ret/", 4096)
	defer sub.Close()
	pub, err := m.publish(ctx, r)
	if err != nil {
		return "", err
	}
	waiting := map[string]bool{}
	for _, id := range pub.minions {
		waiting[id] = true
	}
	gather := m.o().Duration("gather_job_timeout")
	if gather <= 0 {
		gather = 10 * time.Second
	}
	got := map[string]bool{}
	deadline := time.Now().Add(timeout)
	for len(waiting) > 0 {
		select {
		case e := <-sub.C:
			id := e.Data.Str("id")
			if got[id] {
				continue
			}
			got[id] = true
			delete(waiting, id)
			each(id, e.Data)
		case <-ctx.Done():
			return pub.jid, ctx.Err()
		case <-time.After(time.Until(deadline)):
			running, err := m.findJob(ctx, pub.jid, waiting, gather)
			if err != nil {
				return pub.jid, err
			}
			if !running && len(sub.C) == 0 {
				return pub.jid, nil
			}
			deadline = time.Now().Add(min(timeout, gather))
		}
	}
	return pub.jid, nil
}

// findJob asks minions whether a job runs. True if one says so.
func (m *Master) findJob(ctx context.Context, jid string, ids map[string]bool, timeout time.Duration) (bool, error) {
	var names []string
	for id := range ids {
		names = append(names, id)
	}
	slices.Sort(names)
	ask := &publishRequest{fun: "saltutil.find_job", arg: NewList(jid), tgt: Strings(names), tgtType: "list", user: m.o().Str("user"),
		jid: m.nextJID()}
	sub := m.bus.Subscribe("salt/job/"+ask.jid+"/ret/", 1024)
	defer sub.Close()
	if _, err := m.publish(ctx, ask); err != nil {
		return false, err
	}
	end := time.After(timeout)
	for range names {
		select {
		case e := <-sub.C:
			if Truth(e.Data.Value("return")) {
				return true, nil
			}
		case <-end:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return false, nil
}

// exprMatch is how Salt compares a name with an entry of a list of users, ids or
// modules: equal, a glob, or a regular expression for the whole name.
func exprMatch(expr, name string) bool {
	if expr == name || GlobMatch(expr, name) {
		return true
	}
	match, err := compileAnchored(`(?:` + expr + `)\Z`)
	return err == nil && match(name)
}

// JobCacheOptionsFrom reads the options of the job cache.
func JobCacheOptionsFrom(o *Options, log *slog.Logger) JobCacheOptions {
	c := JobCacheOptions{
		Keep: o.Duration("keep_jobs_seconds"), MaxJobs: o.Int("job_cache_max_jobs"), MaxBytes: int64(o.Int("job_cache_max_bytes")),
		Off: !o.Bool("job_cache"), View: o.Int("job_cache_salt_view"), HashType: o.Str("hash_type"), Log: log,
	}
	return c
}

func sortedStrings(s []string) *List {
	slices.SortFunc(s, strings.Compare)
	return Strings(s)
}
