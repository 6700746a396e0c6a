// What becomes of the results of scheduled jobs, on minions and on the master: they
// go to the returners that the job or the options name, and are told.
package main

import (
	"context"
	"log/slog"
	"os"
	"time"
)

// scheduleFailed is the exit code of a scheduled job that could not be run to its
// end.
const scheduleFailed = 254

// arguments are the positional and the named arguments of a job's function.
func (r scheduledRun) arguments() ([]any, *Map) {
	var args []any
	if v := r.def.Value("args"); v != nil {
		args = toItems(DeepCopy(v))
	}
	kwargs := r.def.Map("kwargs")
	if kwargs != nil {
		kwargs = DeepCopy(kwargs).(*Map)
	}
	return args, kwargs
}

// shownArguments are arguments as returns show them, without the mark of named
// ones.
func shownArguments(args *List) *List {
	shown := &List{}
	for _, a := range args.Items {
		if kw, ok := a.(*Map); ok {
			kw = kw.Clone()
			kw.Delete("__kwarg__")
			a = kw
		}
		shown.Append(a)
	}
	return shown
}

// scheduledPub is what a scheduled function is told of its job, as __pub_…
func scheduledPub(id string, r scheduledRun, args *List) *Map {
	pub := NewMap("id", id, "fun", r.fun, "fun_args", shownArguments(args), "schedule", r.name, "jid", r.jid)
	if meta := r.metadata(); meta != nil {
		pub.Set("metadata", meta)
	}
	pub.Set("pid", int64(os.Getpid()))
	return pub
}

// metadata is the job's metadata with the time and its zone; nil if there is none.
func (r scheduledRun) metadata() *Map {
	meta := r.def.Map("metadata")
	if meta == nil {
		return nil
	}
	now := time.Now()
	meta = meta.Clone()
	meta.Set("_TOS", now.Format("-0700"))
	meta.Set("_TS", now.Format(time.ANSIC))
	meta.Set("_TT", now.UTC().Format("2006 January 02 Mon 15 01"))
	return meta
}

// scheduledLoad is the return of a scheduled job.
func scheduledLoad(log *slog.Logger, id string, r scheduledRun, args *List, o outcome) *Map {
	retcode := o.Retcode
	if o.Err != nil {
		retcode = scheduleFailed
	}
	load := NewMap("cmd", "_return", "id", id, "fun", r.fun, "fun_args", shownArguments(args), "schedule", r.name, "jid", r.jid, "pid", int64(os.Getpid()),
		"return", o.Return, "retcode", retcode, "success", o.Err == nil)
	if o.Out != "" && o.Err == nil {
		load.Set("out", o.Out)
	}
	if meta := r.metadata(); meta != nil {
		load.Set("metadata", meta)
	} else if r.def.Value("metadata") != nil {
		log.Warn("schedule: The metadata parameter must be specified as a dictionary.  Ignoring.")
	}
	return load
}

// keepScheduled gives a return to the returners of the job and of the options,
// and says whether there are any.
func keepScheduled(ctx context.Context, env *Env, r scheduledRun, load *Map) bool {
	var returners []string
	for _, v := range []any{r.def.Value("returner"), env.Opts.Value("schedule_returner")} {
		for _, name := range namesOf(toItems(v)) {
			if name != "" && !hasString(returners, name) {
				returners = append(returners, name)
			}
		}
	}
	if len(returners) == 0 {
		return false
	}
	if v := r.def.Value("return_config"); v != nil {
		load.Set("ret_config", v)
	}
	if v := r.def.Value("return_kwargs"); v != nil {
		load.Set("ret_kwargs", v)
	}
	whole := load.Clone()
	whole.Delete("cmd")
	callReturners(context.WithoutCancel(ctx), env, returners, whole, os.Stdout, slog.LevelError)
	return true
}

// goesToMaster says whether a job's return is told: unless return_job is off.
func (r scheduledRun) goesToMaster() bool {
	return !r.def.Has("return_job") || Truth(r.def.Value("return_job"))
}

// scheduledAnswer is what is told: a return that no returner keeps is one the
// master gives a job id of its own, or keeps not at all.
func scheduledAnswer(r scheduledRun, load *Map, kept bool) *Map {
	if !kept {
		load.Set("jid", JIDRequest)
		if r.def.Value("return_job") == "nocache" {
			load.Set("jid", JIDNoCache)
		}
	}
	return load
}
