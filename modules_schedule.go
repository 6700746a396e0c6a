// Module schedule: what users ask of the scheduler (minion_schedule.go). Without
// a minion in this process the schedule's file is changed, which a running minion
// notices.
package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

func scheduleModule() Module {
	return Module{
		Doc: "Manage the jobs that the minion runs by itself.",
		Funcs: Funcs{
			"list":                {run: scheduleList, pyname: "list_", doc: "List the jobs.\n\nshow_all       also those of the minion itself\nshow_disabled  also those that are disabled\nwhere          opts or pillar: only those from there\nreturn_yaml    False: a mapping instead of text\noffline        those in the file"},
			"is_enabled":          {run: scheduleIsEnabled, doc: "Return a job if it is there; without a name, whether the schedule is enabled."},
			"purge":               {run: schedulePurge, doc: "Remove all jobs."},
			"delete":              {run: scheduleDelete, doc: "Remove a job."},
			"build_schedule_item": {run: scheduleBuild, doc: "Return a job as schedule.add would add it."},
			"add":                 {run: scheduleAdd, doc: "Add a job.\n\nCLI Example:\n\n    salt '*' schedule.add job1 function='test.ping' seconds=3600\n    salt '*' schedule.add job2 function='cmd.run' job_args=\"['date >> /tmp/date.log']\" seconds=60\n    salt '*' schedule.add job3 function='state.apply' cron='0 3 * * *' splay=600"},
			"modify":              {run: scheduleModify, doc: "Change a job."},
			"run_job":             {run: scheduleRunJob, doc: "Run a job now."},
			"enable_job":          {run: scheduleSwitchJob(true), pyname: "enable_job", doc: "Enable a job."},
			"disable_job":         {run: scheduleSwitchJob(false), pyname: "disable_job", doc: "Disable a job."},
			"enable":              {run: scheduleSwitch(true), pyname: "enable", doc: "Enable the schedule."},
			"disable":             {run: scheduleSwitch(false), pyname: "disable", doc: "Disable the schedule: no job runs."},
			"save":                {run: scheduleSave, doc: "Save the jobs that are not the pillar's."},
			"reload":              {run: scheduleReload, pyname: "reload_", doc: "Read the schedule of the pillar and of schedule.conf again."},
			"move":                {run: scheduleMove, doc: "Move a job to other minions."},
			"copy":                {run: scheduleCopy, doc: "Copy a job to other minions."},
			"postpone_job":        {run: schedulePostpone, doc: "Run a job at another time than at one of its times."},
			"skip_job":            {run: scheduleSkip, doc: "Do not run a job at one of its times."},
			"show_next_fire_time": {run: scheduleNext, doc: "Return when a job runs next."},
			"job_status":          {run: scheduleStatus, doc: "Return a job with what the scheduler knows about it."},
		},
	}
}

// schedulerOf is the minion's scheduler, or one that knows the file only.
func schedulerOf(c *Call) *Scheduler {
	if c.Schedule != nil {
		return c.Schedule
	}
	s := NewScheduler(c.Opts, c.Log, func() *Map { return c.Pillar })
	for k, v := range s.saved().All() {
		s.jobs.Set(k, v)
	}
	return s
}

// scheduleKeys are the parts of a job that users see.
func scheduleKeys() []string {
	return []string{"name", "maxrunning", "function", "splay", "range", "when", "once", "once_fmt", "returner", "jid_include", "args", "kwargs",
		"_seconds", "seconds", "minutes", "hours", "days", "enabled", "return_job", "metadata", "cron", "until", "after", "return_config",
		"return_kwargs", "run_on_start", "skip_during_range", "run_after_skip_range"}
}

// shownSchedule is the schedule as schedule.list has it, without the yaml.
func shownSchedule(s *Scheduler, where string, all, disabled, offline bool) *Map {
	jobs := &Map{}
	if offline {
		jobs = s.saved()
	} else {
		jobs = s.List(where)
	}
	out := &Map{}
	for k, v := range jobs.All() {
		name := Str(k)
		m, ok := v.(*Map)
		switch {
		case name == "enabled" || name == "skip_function" || name == "skip_during_range":
			out.Set(k, v)
			continue
		case strings.HasPrefix(name, "__") && !all, !ok:
			continue
		}
		job := &Map{}
		for key, value := range m.All() {
			if !hasString(scheduleKeys(), Str(key)) || value == nil || key == "_seconds" {
				continue
			}
			switch value {
			case "true":
				value = true
			case "false":
				value = false
			}
			job.Set(key, value)
		}
		if !job.Has("enabled") {
			job.Set("enabled", true)
		}
		if !disabled && !Truth(job.Value("enabled")) {
			continue
		}
		out.Set(k, job)
	}
	return out
}

type scheduleListArgs struct {
	ShowAll      bool `def:"False"`
	ShowDisabled bool `def:"True"`
	Where        any  `def:"None"`
	ReturnYaml   bool `def:"True"`
	Offline      bool `def:"False"`
}

func scheduleList(_ context.Context, c *Call, a scheduleListArgs) (any, error) {
	s := schedulerOf(c)
	where := ""
	if a.Where != nil {
		where = Str(a.Where)
	}
	jobs := shownSchedule(s, where, a.ShowAll, a.ShowDisabled, a.Offline)
	if !a.ReturnYaml {
		return jobs, nil
	}
	saved := s.saved()
	for k, v := range jobs.All() {
		if m, ok := v.(*Map); ok {
			m.Set("saved", saved.Has(k))
		}
	}
	return DumpYAML(NewMap("schedule", jobs), YAMLOptions{SortKeys: true}), nil
}

type optNameArgs struct {
	Name any `def:"None"`
}

func scheduleIsEnabled(_ context.Context, c *Call, a optNameArgs) (any, error) {
	jobs := shownSchedule(schedulerOf(c), "", false, true, false)
	if !Truth(a.Name) {
		return kwargOf(jobs, "enabled", true), nil
	}
	return kwargOf(jobs, Str(a.Name), &Map{}), nil
}

type scheduleKwArgs struct {
	Name   string
	Kwargs *Map `arg:"**kwargs"`
}

func schedulePurge(_ context.Context, c *Call, a kwargsOnly) (any, error) {
	s := schedulerOf(c)
	offline := Truth(a.Kwargs.Value("offline"))
	comment, changes := &List{}, &Map{}
	ret := NewMap("comment", comment, "changes", changes, "result", true)
	jobs := shownSchedule(s, "", true, true, offline)
	left := jobs.Clone()
	for k := range jobs.All() {
		name := Str(k)
		if isHiddenKey(name) || strings.HasPrefix(name, "__") {
			continue
		}
		if Truth(a.Kwargs.Value("test")) {
			comment.Append("Job: " + name + " would be deleted from schedule.")
			continue
		}
		if offline {
			left.Delete(k)
		} else if err := s.change(Truth(kwargOf(a.Kwargs, "persist", true)), func(m *Map) { m.Delete(name) }); err != nil {
			return nil, err
		} else if s.List("").Has(name) {
			comment.Append("Failed to delete job " + name + " from schedule.")
			continue
		}
		comment.Append("Deleted job: " + name + " from schedule.")
		changes.Set(name, "removed")
	}
	if offline && changes.Len() > 0 {
		return ret, s.writeSchedule(left)
	}
	return ret, nil
}

func scheduleDelete(_ context.Context, c *Call, a scheduleKwArgs) (any, error) {
	s := schedulerOf(c)
	ret := NewMap("comment", "Failed to delete job "+a.Name+" from schedule.", "result", false, "changes", &Map{})
	done := func() {
		ret.Set("result", true)
		ret.Set("comment", "Deleted Job "+a.Name+" from schedule.")
		ret.Set("changes", NewMap(a.Name, "removed"))
	}
	switch {
	case Truth(a.Kwargs.Value("test")):
		ret.Set("comment", "Job: "+a.Name+" would be deleted from schedule.")
		ret.Set("result", true)
	case Truth(a.Kwargs.Value("offline")):
		jobs := s.saved()
		if !jobs.Delete(a.Name) {
			return nil, OtherErrorf("KeyError", "%s", Repr(a.Name))
		}
		done()
		return ret, s.writeSchedule(jobs)
	case s.List("opts").Has(a.Name):
		if err := s.change(Truth(kwargOf(a.Kwargs, "persist", true)), func(m *Map) { m.Delete(a.Name) }); err != nil {
			return nil, err
		}
		if !s.List("").Has(a.Name) {
			done()
		}
	case s.List("pillar").Has(a.Name):
		ret.Set("comment", "Failed to delete job "+a.Name+" from schedule: it is in the pillar, remove it there.")
	default:
		ret.Set("comment", "Job "+a.Name+" does not exist.")
	}
	return ret, nil
}

// scheduleConflict says what is wrong with the times of a job.
func scheduleConflict(kw *Map, conflict string) string {
	for _, k := range []string{"seconds", "minutes", "hours", "days"} {
		if kw.Has(k) && (kw.Has("when") || kw.Has("cron")) {
			return conflict
		}
	}
	if kw.Has("when") && kw.Has("cron") {
		return "Unable to use \"when\" and \"cron\" options together.  Ignoring."
	}
	return ""
}

// buildJob makes a job from arguments; a result of False in it tells what is wrong.
func buildJob(name string, kw *Map) (*Map, error) {
	bad := func(text string) (*Map, error) { return NewMap("comment", text, "result", false), nil }
	if name == "" {
		return bad("Job name is required.")
	}
	job := &Map{}
	fun, ok := kw.Get("function")
	if !ok {
		return nil, OtherErrorf("KeyError", "'function'")
	}
	job.Set("function", fun)
	if why := scheduleConflict(kw, "Unable to use \"seconds\", \"minutes\", \"hours\", or \"days\" with \"when\" or \"cron\" options."); why != "" {
		return bad(why)
	}
	take := func(keys ...string) {
		for _, k := range keys {
			if v, ok := kw.Get(k); ok {
				job.Set(k, v)
			}
		}
	}
	take("seconds", "minutes", "hours", "days", "return_job", "metadata")
	if v, ok := kw.Get("job_args"); ok {
		if _, isList := v.(*List); !isList {
			return bad("job_args is not a list. please correct and try again.")
		}
		job.Set("args", v)
	}
	if v, ok := kw.Get("job_kwargs"); ok {
		if _, isMap := v.(*Map); !isMap {
			return bad("job_kwargs is not a dict. please correct and try again.")
		}
		job.Set("kwargs", v)
	}
	job.Set("maxrunning", kwargOf(kw, "maxrunning", int64(1)))
	job.Set("name", kwargOf(kw, "name", name))
	job.Set("enabled", kwargOf(kw, "enabled", true))
	job.Set("jid_include", kwargOf(kw, "jid_include", true))
	if v, ok := kw.Get("splay"); ok {
		if m, isMap := v.(*Map); isMap {
			v = NewMap("start", m.Value("start"), "end", m.Value("end"))
		}
		job.Set("splay", v)
	}
	if v, ok := kw.Get("when"); ok {
		for _, w := range toItems(v) {
			if _, err := parseWhen(Str(w), time.Now()); err != nil {
				return bad("Schedule item " + Str(w) + " for \"when\" in invalid.")
			}
		}
	}
	take("range", "when", "once", "once_fmt", "cron", "returner", "after", "return_config", "return_kwargs", "until", "run_on_start",
		"skip_during_range", "run_after_skip_range")
	return job, nil
}

func refusedJob(job *Map) bool {
	v, ok := job.Get("result")
	return ok && !Truth(v)
}

func scheduleBuild(_ context.Context, _ *Call, a scheduleKwArgs) (any, error) {
	return buildJob(a.Name, a.Kwargs)
}

func scheduleAdd(_ context.Context, c *Call, a scheduleKwArgs) (any, error) {
	s := schedulerOf(c)
	offline := Truth(a.Kwargs.Value("offline"))
	ret := NewMap("comment", "Failed to add job "+a.Name+" to schedule.", "result", false, "changes", &Map{})
	if shownSchedule(s, "", true, true, offline).Has(a.Name) {
		ret.Set("comment", "Job "+a.Name+" already exists in schedule.")
		return ret, nil
	}
	if why := scheduleConflict(a.Kwargs, "Error: Unable to use \"seconds\", \"minutes\", \"hours\", or \"days\" with \"when\" or \"cron\" options."); why != "" {
		ret.Set("comment", why)
		return ret, nil
	}
	job, err := buildJob(a.Name, a.Kwargs)
	if err != nil || refusedJob(job) {
		return job, err
	}
	if Truth(a.Kwargs.Value("test")) {
		ret.Set("comment", "Job: "+a.Name+" would be added to schedule.")
		ret.Set("result", true)
		return ret, nil
	}
	if offline {
		jobs := s.saved()
		jobs.Set(a.Name, job)
		err = s.writeSchedule(jobs)
	} else {
		err = s.change(Truth(kwargOf(a.Kwargs, "persist", true)), func(m *Map) { m.Set(a.Name, job) })
	}
	if err != nil {
		return nil, err
	}
	ret.Set("result", true)
	ret.Set("comment", "Added job: "+a.Name+" to schedule.")
	ret.Set("changes", NewMap(a.Name, "added"))
	return ret, nil
}

func scheduleModify(_ context.Context, c *Call, a scheduleKwArgs) (any, error) {
	s := schedulerOf(c)
	offline := Truth(a.Kwargs.Value("offline"))
	ret := NewMap("comment", "", "changes", &Map{}, "result", true)
	if why := scheduleConflict(a.Kwargs, "Error: Unable to use \"seconds\", \"minutes\", \"hours\", or \"days\" with \"when\" option."); why != "" {
		ret.Set("result", false)
		ret.Set("comment", why)
		return ret, nil
	}
	old := shownSchedule(s, "", true, true, offline).Map(a.Name)
	if old == nil {
		ret.Set("comment", "Job "+a.Name+" does not exist in schedule.")
		ret.Set("result", false)
		return ret, nil
	}
	kw := a.Kwargs.Clone()
	if !kw.Has("function") {
		kw.Set("function", old.Value("function"))
	}
	job, err := buildJob(a.Name, kw)
	if err != nil || refusedJob(job) {
		return job, err
	}
	if Equal(job, old) {
		ret.Set("comment", "Job "+a.Name+" in correct state")
		return ret, nil
	}
	ret.Set("changes", NewMap(a.Name, NewMap("old", old, "new", DeepCopy(job))))
	switch {
	case Truth(kw.Value("test")):
		ret.Set("comment", "Job: "+a.Name+" would be modified in schedule.")
		return ret, nil
	case offline:
		jobs := s.saved()
		if m := jobs.Map(a.Name); m != nil {
			m.Merge(job)
		}
		err = s.writeSchedule(jobs)
	default:
		persist := Truth(kwargOf(kw, "persist", true)) && s.List("opts").Has(a.Name)
		err = s.change(persist, func(m *Map) { m.Set(a.Name, job) })
	}
	ret.Set("comment", "Modified job: "+a.Name+" in schedule.")
	return ret, err
}

type scheduleRunArgs struct {
	Name  string
	Force bool `def:"False"`
}

func scheduleRunJob(ctx context.Context, c *Call, a scheduleRunArgs) (any, error) {
	s := schedulerOf(c)
	job := shownSchedule(s, "", true, true, false).Map(a.Name)
	if job == nil {
		return NewMap("comment", "Job "+a.Name+" does not exist.", "result", false), nil
	}
	if !Truth(job.Value("enabled")) && !a.Force {
		return NewMap("comment", "Job "+a.Name+" is disabled.", "result", true), nil
	}
	// The run outlives this job.
	if err := s.RunNow(context.WithoutCancel(ctx), a.Name); err != nil {
		c.Log.Error("schedule.run_job: " + err.Error())
		return NewMap("comment", "Failed to run job "+a.Name+" on minion.", "result", false), nil
	}
	return NewMap("comment", "Scheduling Job "+a.Name+" on minion.", "result", true), nil
}

func scheduleSwitchJob(on bool) func(context.Context, *Call, scheduleKwArgs) (any, error) {
	word := "disable"
	if on {
		word = "enable"
	}
	return func(_ context.Context, c *Call, a scheduleKwArgs) (any, error) {
		s := schedulerOf(c)
		ret := NewMap("comment", &List{}, "result", true, "changes", &Map{})
		if Truth(a.Kwargs.Value("test")) || c.Opts.Bool("test") {
			ret.Set("comment", "Job: "+a.Name+" would be "+word+"d in schedule.")
			return ret, nil
		}
		inOpts := s.List("opts").Has(a.Name)
		if !inOpts && !s.List("pillar").Has(a.Name) {
			ret.Set("comment", "Job "+a.Name+" does not exist.")
			ret.Set("result", false)
			return ret, nil
		}
		if err := s.setJob(a.Name, "enabled", on, inOpts && Truth(kwargOf(a.Kwargs, "persist", true))); err != nil {
			return nil, err
		}
		ret.Set("comment", strings.ToUpper(word[:1])+word[1:]+"d Job "+a.Name+" in schedule.")
		ret.Set("changes", NewMap(a.Name, word+"d"))
		return ret, nil
	}
}

func scheduleSwitch(on bool) func(context.Context, *Call, kwargsOnly) (any, error) {
	word := "disable"
	if on {
		word = "enable"
	}
	return func(_ context.Context, c *Call, a kwargsOnly) (any, error) {
		ret := NewMap("comment", &List{}, "changes", &Map{}, "result", true)
		if Truth(a.Kwargs.Value("test")) {
			ret.Set("comment", "Schedule would be "+word+"d.")
			return ret, nil
		}
		err := schedulerOf(c).change(Truth(kwargOf(a.Kwargs, "persist", true)), func(m *Map) { m.Set("enabled", on) })
		if err != nil {
			return nil, err
		}
		ret.Set("comment", strings.ToUpper(word[:1])+word[1:]+"d schedule on minion.")
		ret.Set("changes", NewMap("schedule", word+"d"))
		return ret, nil
	}
}

func scheduleSave(_ context.Context, c *Call, a kwargsOnly) (any, error) {
	if Truth(a.Kwargs.Value("test")) {
		return NewMap("comment", "Schedule would be saved.", "result", true), nil
	}
	if err := schedulerOf(c).change(true, func(*Map) {}); err != nil {
		return nil, err
	}
	return NewMap("comment", "Schedule (non-pillar items) saved.", "result", true), nil
}

func scheduleReload(ctx context.Context, c *Call, _ noArgs) (any, error) {
	comment := &List{}
	ret := NewMap("comment", comment, "result", true)
	s := schedulerOf(c)
	if c.Pillar.Has("schedule") || c.Schedule != nil {
		word := "Reloaded schedule from pillar on minion."
		if c.Minion != nil {
			if err := c.Minion.RefreshPillar(ctx); err != nil {
				word = "Failed to reload schedule from pillar on minion."
				ret.Set("result", false)
			}
		}
		s.Poke()
		comment.Append(word)
	}
	file := strings.TrimSuffix(s.file(), "_schedule.conf") + "schedule.conf"
	if !isFile(file) {
		return ret, nil
	}
	m, err := readConfigFile(file, nil)
	jobs := m.Map("schedule")
	if err != nil || jobs.Len() == 0 {
		comment.Append("Failed to reload schedule on minion.  Saved file is empty or invalid.")
		ret.Set("result", false)
		return ret, nil
	}
	if err := s.change(false, func(all *Map) { all.Merge(DeepCopy(jobs).(*Map)) }); err != nil {
		return nil, err
	}
	comment.Append("Reloaded schedule on minion from schedule.conf.")
	return ret, nil
}

type scheduleMoveArgs struct {
	Name   string
	Target any
	Kwargs *Map `arg:"**kwargs"`
}

// sendJob adds a job to other minions. The text says why it did not work.
func sendJob(ctx context.Context, c *Call, a scheduleMoveArgs, ret *Map) (bool, error) {
	job := shownSchedule(schedulerOf(c), "", true, true, false).Map(a.Name)
	if job == nil {
		ret.Set("comment", "Job "+a.Name+" does not exist.")
		ret.Set("result", false)
		return false, nil
	}
	args := NewList(a.Name)
	for k, v := range job.All() {
		key := Str(k)
		switch key {
		case "name":
			continue
		case "args", "kwargs":
			key = "job_" + key
		}
		args.Append(fmt.Sprintf("%s=%s", key, EncodeJSON(v, JSONOptions{Indent: -1})))
	}
	answers, err := c.Run(ctx, "publish.publish", a.Target, "schedule.add", args)
	if err != nil {
		return false, err
	}
	m, _ := answers.(*Map)
	if m.Len() == 0 {
		ret.Set("comment", "no servers answered the published schedule.add command")
		return false, nil
	}
	minions, failed := &List{}, &List{}
	for id, v := range m.All() {
		minions.Append(id)
		if !Truth(v) {
			failed.Append(id)
		}
	}
	if failed.Len() > 0 {
		ret.Set("comment", "the following minions return False")
		ret.Set("minions", failed)
		return false, nil
	}
	ret.Set("minions", minions)
	ret.Set("result", true)
	return true, nil
}

func scheduleMove(ctx context.Context, c *Call, a scheduleMoveArgs) (any, error) {
	ret := NewMap("comment", &List{}, "result", true)
	if Truth(a.Kwargs.Value("test")) {
		ret.Set("comment", "Job: "+a.Name+" would be moved from schedule.")
		return ret, nil
	}
	if ok, err := sendJob(ctx, c, a, ret); !ok {
		return ret, err
	}
	if err := schedulerOf(c).change(true, func(m *Map) { m.Delete(a.Name) }); err != nil {
		return nil, err
	}
	ret.Set("comment", "Moved Job "+a.Name+" from schedule.")
	return ret, nil
}

func scheduleCopy(ctx context.Context, c *Call, a scheduleMoveArgs) (any, error) {
	ret := NewMap("comment", &List{}, "result", true)
	if Truth(a.Kwargs.Value("test")) {
		ret.Set("comment", "Job: "+a.Name+" would be copied from schedule.")
		return ret, nil
	}
	if ok, err := sendJob(ctx, c, a, ret); !ok {
		return ret, err
	}
	ret.Set("comment", "Copied Job "+a.Name+" from schedule to minion(s).")
	return ret, nil
}

type schedulePostponeArgs struct {
	Name                 string
	CurrentTime, NewTime any
	Kwargs               *Map `arg:"**kwargs"`
}

type scheduleSkipArgs struct {
	Name        string
	CurrentTime any
	Kwargs      *Map `arg:"**kwargs"`
}

// putOff is postpone_job and skip_job.
func putOff(c *Call, name string, times []any, kwargs *Map, would, done string) (any, error) {
	format := scheduleTimeFormat
	if v := kwargs.Value("time_fmt"); Truth(v) {
		format = Str(v)
	}
	var parsed []time.Time
	for _, v := range times {
		t, err := time.ParseInLocation(strptimeLayout(format), Str(v), time.Local)
		if err != nil {
			c.Log.Error("Date string could not be parsed: " + Str(v) + ", " + format)
			return NewMap("comment", "Date string could not be parsed.", "result", false), nil
		}
		parsed = append(parsed, t)
	}
	if c.Opts.Bool("test") {
		return NewMap("comment", would, "result", true), nil
	}
	s := schedulerOf(c)
	if !s.List("").Has(name) {
		return NewMap("comment", "Job "+name+" does not exist.", "result", false), nil
	}
	to := time.Time{}
	if len(parsed) > 1 {
		to = parsed[1]
	}
	s.Postpone(name, parsed[0], to)
	return NewMap("comment", done, "result", true), nil
}

func schedulePostpone(_ context.Context, c *Call, a schedulePostponeArgs) (any, error) {
	return putOff(c, a.Name, []any{a.CurrentTime, a.NewTime}, a.Kwargs, "Job: "+a.Name+" would be postponed in schedule.", "Postponed Job "+a.Name+" in schedule.")
}

func scheduleSkip(_ context.Context, c *Call, a scheduleSkipArgs) (any, error) {
	return putOff(c, a.Name, []any{a.CurrentTime}, a.Kwargs, "Job: "+a.Name+" would be skipped in schedule.", "Added Skip Job "+a.Name+" in schedule.")
}

func scheduleNext(_ context.Context, c *Call, a scheduleKwArgs) (any, error) {
	ret := NewMap("result", true, "next_fire_time", nil)
	if t := schedulerOf(c).Next(a.Name); !t.IsZero() {
		ret.Set("next_fire_time", t.Format("2006-01-02T15:04:05"))
	}
	return ret, nil
}

type scheduleStatusArgs struct {
	Name    string
	TimeFmt string `def:"'%Y-%m-%dT%H:%M:%S'"`
}

func scheduleStatus(_ context.Context, c *Call, a scheduleStatusArgs) (any, error) {
	return schedulerOf(c).Status(a.Name, strptimeLayout(a.TimeFmt)), nil
}
