// Returners: places outside of the master where results of jobs are kept, by
// the ret field of a job (salt --return), the option return, salt-call --return,
// the schedule, and the master's options ext_job_cache, master_job_cache and
// event_return.
//
// The law of this room: one line in returnerTable for each returner, one file for
// each that talks to something; a returner connects for each call and leaves
// nothing behind, so that a server that is down costs one line in the log and
// never a job. Their options are read in one place, returnerOptions.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sort"
	"strings"
	"time"
)

// returnerTimeout bounds one call of a returner.
const returnerTimeout = 30 * time.Second

// Returner is one returner; what it cannot do is nil.
type Returner struct {
	doc string
	// Return keeps one return; out is where trials are printed.
	Return func(ctx context.Context, env *Env, ret *Map, out io.Writer) error
	// SaveLoad keeps what a job was.
	SaveLoad func(ctx context.Context, env *Env, jid string, load *Map) error
	// Job reads a job: load is nil if it is not known.
	Job func(ctx context.Context, env *Env, jid string) (load, returns *Map, err error)
	// Clean removes what is older than the option keep_jobs_seconds.
	Clean func(ctx context.Context, env *Env) error
	// Events keeps events of the bus, each a mapping of tag and data.
	Events func(ctx context.Context, env *Env, events []*Map, out io.Writer) error
}

// functions are the names of what a returner can do, as Salt has them.
func (r Returner) functions() map[string]*Signature {
	out := map[string]*Signature{"returner": signatureOf("ret")}
	if r.Events != nil {
		out["event_return"] = signatureOf("events")
	}
	if r.Clean != nil {
		out["clean_old_jobs"] = signatureOf()
	}
	if r.SaveLoad != nil {
		out["save_load"] = signatureOf("jid", "load", "minions")
	}
	if r.Job != nil {
		out["get_load"] = signatureOf("jid")
		out["get_jid"] = signatureOf("jid")
	}
	return out
}

// returnerTable are the returners by name.
func returnerTable() map[string]Returner {
	return map[string]Returner{
		"local":        localReturner(),
		"rawfile_json": rawfileReturner(),
		"syslog":       syslogReturner(),
		"redis":        redisReturner(),
		"pgjsonb":      pgjsonbReturner(),
	}
}

// findReturner finds a returner by its name, or by the name of Salt's file; those
// that the users wrote come first.
func findReturner(env *Env, name string) (Returner, bool) {
	if env.Loader.customs().Has("returners", name) {
		return ownReturner(name), true
	}
	r, ok := returnerTable()[strings.TrimSuffix(name, "_return")]
	return r, ok
}

// sysReturners lists the functions of returners.
func sysReturners(context.Context, *Call) []sysEntry {
	var out []sysEntry
	for name, r := range returnerTable() {
		for fun, sig := range r.functions() {
			out = append(out, sysEntry{name: name + "." + fun, doc: r.doc, sig: sig, modDoc: r.doc})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].name < out[j].name })
	return out
}

// returnerOptions reads the options of a returner: prefix is a mapping of the
// configuration or pillar, or the first part of names with dots. What the job's
// ret_config names comes first, what it gives as ret_kwargs before all.
func returnerOptions(env *Env, prefix string, ret *Map, names ...string) *Map {
	lookup := func(key string) any {
		for _, m := range []*Map{env.Opts.All(), env.Grains, env.Pillar, env.Pillar.Map("master")} {
			if v, ok := m.Get(key); ok {
				return v
			}
		}
		return nil
	}
	alternative := ""
	if v := ret.Value("ret_config"); Truth(v) {
		alternative = Str(v) + "."
	}
	out := &Map{}
	for _, name := range names {
		for _, p := range []string{alternative + prefix, prefix} {
			var v any
			if m, ok := lookup(p).(*Map); ok {
				v = m.Value(name)
			}
			if v == nil {
				v = lookup(p + "." + name)
			}
			if v != nil && v != "" {
				out.Set(name, v)
				break
			}
		}
	}
	out.Merge(ret.Map("ret_kwargs"))
	return out
}

// optionOr is an option of a returner as text.
func optionOr(o *Map, name, def string) string {
	if v := o.Value(name); v != nil && v != "" {
		return Str(v)
	}
	return def
}

// returnJSON is a value as Salt's returners write it.
func returnJSON(v any) string { return EncodeJSON(v, JSONOptions{Indent: -1}) }

// keepJobs is how long jobs are kept, for returners whose servers forget by
// themselves.
func keepJobs(o *Options) time.Duration {
	if d := o.Duration("keep_jobs_seconds"); d > 0 {
		return d
	}
	if o.Has("keep_jobs") && !o.Has("keep_jobs_seconds") {
		return time.Duration(o.Int("keep_jobs")) * time.Hour
	}
	return 24 * time.Hour
}

// runReturner runs one returner with a time limit; a panic is its failure.
func runReturner(ctx context.Context, name string, f func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, returnerTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("returner %s: panic: %v", name, p)
		}
	}()
	return f(ctx)
}

// callReturners runs the named returners, each once. Their failures are logged
// at level: the return itself does not depend on them.
func callReturners(ctx context.Context, env *Env, names []string, ret *Map, out io.Writer, level slog.Level) {
	seen := map[string]bool{}
	for _, name := range names {
		name = strings.TrimSpace(name)
		if name == "" || seen[name] {
			continue
		}
		seen[name] = true
		err := runReturner(ctx, name, func(ctx context.Context) error { return returnTo(ctx, env, name, ret.Clone(), out) })
		if errors.Is(err, errNoReturner) {
			env.Log.Log(ctx, level, fmt.Sprintf("Returner %s.returner could not be loaded: '%s.returner' is not available.", name, name))
		} else if err != nil {
			env.Log.Log(ctx, level, fmt.Sprintf("The return failed for job %s: %s: %v", ret.Str("jid"), name, err))
		}
	}
}

var errNoReturner = errors.New("there is no such returner")

// returnTo runs one returner: one that the users wrote, or a built-in one.
func returnTo(ctx context.Context, env *Env, name string, ret *Map, out io.Writer) error {
	if hasString(env.Opts.List("disable_returners"), name) {
		return errNoReturner
	}
	r, ok := findReturner(env, name)
	if !ok || r.Return == nil {
		return errNoReturner
	}
	return r.Return(ctx, env, ret, out)
}
