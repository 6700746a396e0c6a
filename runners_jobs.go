// Runner jobs: what was asked of whom, and what they answered.
//
// The law of this file: everything comes from the job cache on disk (ours or
// that of Salt's own master), except which jobs run just now, which the minions
// say.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

func jobsRunner() Module {
	return Module{
		Doc: "Jobs: those that run and those that are over.",
		Funcs: Funcs{
			"active":           {run: runJobsActive, doc: "Ask all minions which jobs they run.\n\ndisplay_progress: tell what is being asked"},
			"lookup_jid":       {run: runJobsLookup, doc: "Return what the minions answered to a job.\n\njid: the job\nreturned: include those that answered\nmissing: include those that did not\ndisplay_progress: tell who is looked at"},
			"list_job":         {run: runJobsListJob, doc: "Describe a job with all its returns.\n\njid: the job"},
			"list_jobs":        {run: runJobsList, doc: "List the jobs of the job cache.\n\noutputter: the outputter for the list\nsearch_metadata: a mapping that the job's metadata must agree with in one key\nsearch_function: shell patterns for the function, with commas\nsearch_target: shell patterns for the target, with commas\nstart_time: only jobs from then on\nend_time: only jobs until then"},
			"list_jobs_filter": {run: runJobsFilter, doc: "List the newest jobs.\n\ncount: how many\nfilter_find_job: leave the questions out that `salt` asks while it waits"},
			"print_job":        {run: runJobsPrint, doc: "Describe a job with all its returns, below its id.\n\njid: the job"},
			"exit_success":     {run: runJobsSuccess, doc: "Tell by minion whether its return to a job counts as true.\n\njid: the job"},
			"last_run":         {run: runJobsLast, doc: "Describe the newest job that fits.\n\nfunction: shell patterns for the function\ntarget: shell patterns for the target\nmetadata: as in list_jobs"},
			"master":           {run: runJobsMaster, doc: "List what the master itself is running."},
		},
	}
}

// jobDescription is the form in which jobs are shown.
func jobDescription(load *Map, minions []string) *Map {
	if load == nil {
		return NewMap("Error", "Cannot contact returner or no job with this jid")
	}
	get := func(key string, def any) any {
		if v, ok := load.Get(key); ok {
			return v
		}
		return def
	}
	m := NewMap("Function", get("fun", "unknown-function"), "Arguments", NewList(toItems(load.Value("arg"))...),
		"Target", get("tgt", "unknown-target"), "Target-type", get("tgt_type", "list"), "User", get("user", "root"))
	switch {
	case load.Has("metadata"):
		m.Set("Metadata", load.Value("metadata"))
	case load.Map("kwargs").Has("metadata"):
		m.Set("Metadata", load.Map("kwargs").Value("metadata"))
	}
	if minions != nil {
		m.Set("Minions", Strings(minions))
	}
	return m
}

// jobMetadata is what search_metadata looks at: the job's metadata, also where
// it was given as an argument of the function.
func jobMetadata(load *Map) *Map {
	if m, ok := jobDescription(load, nil).Value("Metadata").(*Map); ok {
		return m
	}
	for _, a := range toItems(load.Value("arg")) {
		if kw, ok := a.(*Map); ok && kw.Value("__kwarg__") == true && kw.Has("metadata") {
			return kw.Map("metadata")
		}
	}
	return nil
}

// jobStartTime is the time that a job id stands for, as jobs show it.
func jobStartTime(jid string) string {
	t, ok := JIDTime(jid)
	if !ok {
		return ""
	}
	return t.Format("2006, Jan 02 15:04:05.000000")
}

// describeJob is a job with its returns: of the master's job cache, or of the
// returner source; where neither is asked for nor has it, of those that keep the
// master's jobs.
func describeJob(ctx context.Context, c *Call, jid string, source any) (*Map, *Job) {
	name := ""
	if Truth(source) {
		name = Str(source)
	}
	job, err := (*Job)(nil), ErrNoJob
	if name == "" {
		job, err = c.Runner.Jobs.load(jid)
	}
	if errors.Is(err, ErrNoJob) {
		if job, err = externalJob(ctx, c.Env, name, jid); err != nil && !errors.Is(err, ErrNoJob) {
			c.Log.Error(err.Error())
		}
	}
	if err != nil {
		if !errors.Is(err, ErrNoJob) {
			c.Log.Debug(fmt.Sprintf("job %s: %v", jid, err))
		}
		m := jobDescription(nil, nil)
		m.Set("StartTime", jobStartTime(jid))
		m.Set("Result", NewMap())
		return m, nil
	}
	minions := slices.Clone(job.Minions)
	slices.Sort(minions)
	m := jobDescription(job.Load, append([]string{}, minions...))
	m.Set("StartTime", jobStartTime(jid))
	result := NewMap()
	for _, id := range job.Returns.SortedKeys() { // not as they came: the same job is told the same each time
		ret := job.Returns.Map(id)
		if ret == nil {
			continue
		}
		shown := NewMap()
		for _, k := range []string{"return", "retcode", "success", "out"} {
			if v, ok := ret.Get(k); ok {
				shown.Set(k, v)
			}
		}
		result.Set(id, shown)
	}
	m.Set("Result", result)
	if c.Opts.Bool("job_cache_store_endtime") && !job.End.IsZero() {
		m.Set("EndTime", job.End.Format("2006, Jan 02 15:04:05.000000"))
	}
	return m, job
}

type runJobArgs struct {
	Jid             string
	ExtSource       any  `def:"None"`
	DisplayProgress bool `def:"False"`
}

func runJobsListJob(ctx context.Context, c *Call, a runJobArgs) (any, error) {
	if a.DisplayProgress {
		c.progress(ctx, NewMap("message", "Querying returner: local_cache"))
	}
	m := NewMap("jid", a.Jid)
	desc, _ := describeJob(ctx, c, a.Jid, a.ExtSource)
	m.Merge(desc)
	return m, nil
}

type runPrintJobArgs struct {
	Jid       string
	ExtSource any `def:"None"`
}

func runJobsPrint(ctx context.Context, c *Call, a runPrintJobArgs) (any, error) {
	desc, _ := describeJob(ctx, c, a.Jid, a.ExtSource)
	return NewMap(a.Jid, desc), nil
}

type runLookupArgs struct {
	Jid             string
	ExtSource       any  `def:"None"`
	Returned        bool `def:"True"`
	Missing         bool `def:"False"`
	DisplayProgress bool `def:"False"`
}

func runJobsLookup(ctx context.Context, c *Call, a runLookupArgs) (any, error) {
	if a.DisplayProgress {
		c.progress(ctx, NewMap("message", "Querying returner: local_cache"))
	}
	ret := NewMap()
	_, job := describeJob(ctx, c, a.Jid, a.ExtSource)
	if job == nil {
		return ret, nil
	}
	out := ""
	for i, id := range job.Returns.SortedKeys() {
		v, _ := job.Returns.Value(id).(*Map)
		if a.DisplayProgress {
			c.progress(ctx, NewMap("message", id))
		}
		if i == 0 {
			out = v.Str("out")
		}
		if a.Returned {
			ret.Set(id, v.Value("return"))
		}
	}
	if a.Missing {
		for _, id := range job.Minions {
			if !job.Returns.Has(id) {
				ret.Set(id, "Minion did not return")
			}
		}
	}
	if out != "" {
		return NewMap("outputter", out, "data", ret), nil
	}
	return ret, nil
}

func runJobsSuccess(ctx context.Context, c *Call, a runPrintJobArgs) (any, error) {
	ret := NewMap()
	_, job := describeJob(ctx, c, a.Jid, a.ExtSource)
	if job == nil {
		return ret, nil
	}
	for _, id := range job.Minions {
		ret.Set(id, false)
	}
	for id, v := range job.Returns.All() {
		if m, ok := v.(*Map); ok && Truth(m.Value("return")) {
			ret.Set(id, true)
		} else if !ret.Has(id) {
			ret.Set(id, false)
		}
	}
	return ret, nil
}

type runListJobsArgs struct {
	ExtSource       any  `def:"None"`
	Outputter       any  `def:"None"`
	SearchMetadata  any  `def:"None"`
	SearchFunction  any  `def:"None"`
	SearchTarget    any  `def:"None"`
	StartTime       any  `def:"None"`
	EndTime         any  `def:"None"`
	DisplayProgress bool `def:"False"`
}

// patternList is a text with commas, or a list, as globs.
func patternList(v any) []*Glob {
	var out []*Glob
	for _, item := range toItems(v) {
		for _, p := range strings.Split(Str(item), ",") {
			out = append(out, CompileGlob(strings.TrimSpace(p)))
		}
	}
	return out
}

func anyGlob(globs []*Glob, texts ...string) bool {
	for _, g := range globs {
		if slices.ContainsFunc(texts, g.Match) {
			return true
		}
	}
	return false
}

// jobFilter builds the test for list_jobs.
func jobFilter(a runListJobsArgs) (func(desc *Map, s JobSummary) bool, error) {
	var tests []func(desc *Map, s JobSummary) bool
	if m, ok := a.SearchMetadata.(*Map); ok && m.Len() > 0 {
		tests = append(tests, func(_ *Map, s JobSummary) bool {
			have := jobMetadata(s.Load)
			for k, want := range m.All() {
				if v, ok := have.Get(k); ok && Equal(v, want) {
					return true
				}
			}
			return false
		})
	} else if Truth(a.SearchMetadata) {
		tests = append(tests, func(*Map, JobSummary) bool { return false })
	}
	if Truth(a.SearchTarget) {
		globs := patternList(a.SearchTarget)
		tests = append(tests, func(desc *Map, _ JobSummary) bool {
			var texts []string
			for _, t := range toItems(desc.Value("Target")) {
				texts = append(texts, Str(t))
			}
			return anyGlob(globs, texts...)
		})
	}
	if Truth(a.SearchFunction) {
		globs := patternList(a.SearchFunction)
		tests = append(tests, func(desc *Map, _ JobSummary) bool {
			var texts []string
			for _, f := range toItems(desc.Value("Function")) {
				texts = append(texts, Str(f))
			}
			return anyGlob(globs, texts...)
		})
	}
	for _, limit := range []struct {
		v     any
		after bool
	}{{a.StartTime, true}, {a.EndTime, false}} {
		if !Truth(limit.v) {
			continue
		}
		at, err := parseJobTime(Str(limit.v))
		if err != nil {
			return nil, err
		}
		tests = append(tests, func(_ *Map, s JobSummary) bool {
			t, ok := JIDTime(s.JID)
			if !ok {
				return false
			}
			return limit.after && !t.Before(at) || !limit.after && !t.After(at)
		})
	}
	return func(desc *Map, s JobSummary) bool {
		for _, t := range tests {
			if !t(desc, s) {
				return false
			}
		}
		return true
	}, nil
}

// parseJobTime reads a time as people write it: "2015, Mar 16 19:00",
// "2015-03-16 19:00", a date alone, or a time of today.
func parseJobTime(text string) (time.Time, error) {
	text = strings.Join(strings.Fields(text), " ")
	for _, layout := range []string{
		"2006, Jan 02 15:04:05.999999", "2006, Jan 02 15:04:05", "2006, Jan 02 15:04", "2006, Jan 2 15:04", "2006, Jan 02", "2006, Jan 2",
		"2006-01-02 15:04:05.999999", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05.999999", "2006-01-02T15:04:05", "2006-01-02T15:04",
		"2006-01-02", "2006/01/02", "2006/01/02 15:04", "20060102", "Jan 02 2006", "Jan 2 2006", "Jan 02 2006 15:04", "2 Jan 2006", "2 Jan 2006 15:04", "01/02/2006", "01/02/2006 15:04",
	} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			now := time.Now().UTC()
			return time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC), nil
		}
	}
	return time.Time{}, InvocationErrorf("%q is no time that is understood: write it as 2006-01-02 15:04", text)
}

// listJobs lists what the filter takes, oldest first.
func listJobs(c *Call, a runListJobsArgs) (*Map, error) {
	fits, err := jobFilter(a)
	if err != nil {
		return nil, err
	}
	ret := NewMap()
	err = c.Runner.Jobs.list(func(s JobSummary) bool {
		desc := jobDescription(s.Load, nil)
		if fits(desc, s) {
			desc.Set("StartTime", jobStartTime(s.JID))
			ret.Set(s.JID, desc)
		}
		return true
	})
	if err != nil {
		return nil, ExecErrorf("list jobs: %v", err)
	}
	return ret, nil
}

func runJobsList(ctx context.Context, c *Call, a runListJobsArgs) (any, error) {
	if a.DisplayProgress {
		c.progress(ctx, NewMap("message", "Querying returner local_cache for jobs."))
	}
	ret, err := listJobs(c, a)
	if err != nil {
		return nil, err
	}
	if name := a.Outputter; Truth(name) {
		return NewMap("outputter", name, "data", ret), nil
	}
	return ret, nil
}

type runJobsFilterArgs struct {
	Count           any
	FilterFindJob   bool `def:"True"`
	ExtSource       any  `def:"None"`
	Outputter       any  `def:"None"`
	DisplayProgress bool `def:"False"`
}

func runJobsFilter(ctx context.Context, c *Call, a runJobsFilterArgs) (any, error) {
	count, ok := toInt(a.Count)
	if !ok {
		return nil, InvocationErrorf("count is no number: %s", Str(a.Count))
	}
	if a.DisplayProgress {
		c.progress(ctx, NewMap("message", "Querying returner local_cache for jobs."))
	}
	var all []JobSummary
	err := c.Runner.Jobs.list(func(s JobSummary) bool {
		if !a.FilterFindJob || s.Load.Value("fun") != any("saltutil.find_job") {
			all = append(all, s)
		}
		return true
	})
	if err != nil {
		return nil, ExecErrorf("list jobs: %v", err)
	}
	if over := len(all) - int(count); over > 0 {
		all = all[over:]
	}
	ret := NewList()
	for _, s := range all {
		desc := jobDescription(s.Load, nil)
		desc.Set("StartTime", jobStartTime(s.JID))
		desc.Set("JID", s.JID)
		ret.Append(desc)
	}
	if Truth(a.Outputter) {
		return NewMap("outputter", a.Outputter, "data", ret), nil
	}
	return ret, nil
}

type runLastRunArgs struct {
	ExtSource       any  `def:"None"`
	Outputter       any  `def:"None"`
	Metadata        any  `def:"None"`
	Function        any  `def:"None"`
	Target          any  `def:"None"`
	DisplayProgress bool `def:"False"`
}

func runJobsLast(ctx context.Context, c *Call, a runLastRunArgs) (any, error) {
	if _, ok := a.Metadata.(*Map); Truth(a.Metadata) && !ok {
		c.Log.Info("The metadata parameter must be specified as a dictionary")
		return false, nil
	}
	all, err := listJobs(c, runListJobsArgs{SearchMetadata: a.Metadata, SearchFunction: a.Function, SearchTarget: a.Target})
	if err != nil || all.Len() == 0 {
		return false, err
	}
	jid, _ := all.At(all.Len() - 1)
	desc, _ := describeJob(ctx, c, Str(jid), nil)
	return NewMap(jid, desc), nil
}

type runProgressArgs struct {
	DisplayProgress bool `def:"False"`
}

func runJobsActive(ctx context.Context, c *Call, a runProgressArgs) (any, error) {
	ret := NewMap()
	answers, err := runnerCommand(ctx, c, JobRequest{Tgt: "*", TgtType: "glob", Fun: "saltutil.running"}, WaitOptions{})
	if err != nil {
		return ret, nil
	}
	if a.DisplayProgress {
		c.progress(ctx, NewMap("message", "Attempting to contact minions: "+Repr(NewList(answers.Keys()...))))
	}
	for id, v := range answers.All() {
		if a.DisplayProgress {
			c.progress(ctx, NewMap("message", "Received reply from minion "+Str(id)))
		}
		l, ok := v.(*List)
		if !ok {
			continue
		}
		for _, item := range l.Items {
			job, ok := item.(*Map)
			if !ok {
				continue
			}
			jid := job.Str("jid")
			if have := ret.Map(jid); have != nil {
				have.List("Running").Append(NewMap(id, job.Value("pid")))
				continue
			}
			desc := jobDescription(job, nil)
			desc.Set("StartTime", jobStartTime(jid))
			desc.Set("Running", NewList(NewMap(id, job.Value("pid"))))
			desc.Set("Returned", NewList())
			ret.Set(jid, desc)
		}
	}
	for jid, v := range ret.All() {
		job, err := c.Runner.Jobs.load(Str(jid))
		if err != nil {
			continue
		}
		for _, id := range job.Returns.SortedKeys() {
			v.(*Map).List("Returned").Append(id)
		}
	}
	return ret, nil
}

// runJobsMaster lists the master's own running jobs. Runners run in the process
// of who called them and leave no trace outside it.
func runJobsMaster(context.Context, *Call, noArgs) (any, error) { return NewList(), nil }
