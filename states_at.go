// State modules at and alias: jobs that run once, and mail aliases.
package main

import "context"

func atStates() Module {
	return Module{
		Doc:     "Jobs that run once, at a time.",
		Virtual: needsFunction("at.at", "at module could not be loaded"),
		Funcs: Funcs{
			"present":   {run: atStatePresent, doc: "A job is queued. tag marks it; with unique_tag only if there is none with that tag."},
			"absent":    {run: atStateAbsent, doc: "Jobs are not queued: the one with jobid, those with a tag, a user and so on, or all."},
			"watch":     {run: atStateWait, doc: "Queue the job only when a watched state has changed."},
			"mod_watch": {run: atStateWatch, doc: "Queue the job because a watched state has changed."},
		},
	}
}

type atStateArgs struct {
	Name      string
	Timespec  any
	Tag       any `def:"None"`
	User      any `def:"None"`
	Job       any `def:"None"`
	UniqueTag any `def:"False"`
}

func atStatePresent(ctx context.Context, c *Call, a atStateArgs) (any, error) {
	ret := stateReturn(a.Name, true, "")
	job := a.Job
	if !Truth(job) {
		job = a.Name
	}
	if c.Testing() {
		return stateSay(ret, nil, "job %s added and will run on %s", Str(job), Str(a.Timespec))
	}
	if Truth(a.UniqueTag) {
		if !Truth(a.Tag) {
			return stateSay(ret, false, "no tag provided and unique_tag is set to True")
		}
		v, err := c.RunKw(ctx, "at.jobcheck", nil, NewMap("tag", a.Tag))
		if err != nil {
			return nil, err
		}
		if m, ok := v.(*Map); ok && m.List("jobs").Len() > 0 {
			return stateSay(ret, true, "atleast one job with tag %s exists.", Str(a.Tag))
		}
	}
	kw := NewMap("tag", a.Tag)
	as := ""
	if Truth(a.User) {
		known, err := runTruth(ctx, c, "user.info", a.User)
		if err != nil {
			return nil, err
		}
		if !known {
			return stateSay(ret, false, "user %s does not exists", Str(a.User))
		}
		kw.Set("runas", a.User)
		as = " as " + Str(a.User)
	}
	ret.Set("comment", "job "+Str(job)+" added and will run"+as+" on "+Str(a.Timespec))
	v, err := c.RunKw(ctx, "at.at", []any{a.Timespec, job}, kw)
	if err != nil {
		return nil, err
	}
	res, _ := v.(*Map)
	if jobs := res.List("jobs"); jobs.Len() > 0 {
		ret.Set("changes", jobs.Items[0])
	}
	if e, ok := res.Get("error"); ok {
		ret.Set("result", false)
		ret.Set("comment", e)
	}
	return ret, nil
}

func atStateAbsent(ctx context.Context, c *Call, a struct {
	Name   string
	Jobid  any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}) (any, error) {
	ret := stateReturn(a.Name, true, "")
	if a.Kwargs.Has("limit") {
		return stateSay(ret, false, "limit parameter not supported %s", a.Name)
	}
	if c.Testing() {
		return stateSay(ret, nil, "removed ? job(s)")
	}
	removed := func(ids ...any) (*List, error) {
		res, err := runMap(ctx, c, "at.atrm", ids...)
		if err != nil {
			return nil, err
		}
		return NewList(toItems(res.Map("jobs").Value("removed"))...), nil
	}
	if Truth(a.Jobid) {
		queue, err := runMap(ctx, c, "at.atq", a.Jobid)
		if err != nil {
			return nil, err
		}
		jobs := toItems(queue.Value("jobs"))
		switch {
		case queue.Has("jobs") && len(jobs) == 0:
			return stateSay(ret, true, "job with id %s not present", Str(a.Jobid))
		case len(jobs) != 1:
			return stateSay(ret, false, "more than one job was return for job with id %s", Str(a.Jobid))
		}
		if one, ok := jobs[0].(*Map); ok && Truth(one.Value("job")) {
			gone, err := removed(a.Jobid)
			if err != nil {
				return nil, err
			}
			ret.Map("changes").Set("removed", gone)
			if hasItem(gone.Items, a.Jobid) || hasItem(gone.Items, Str(a.Jobid)) {
				return stateSay(ret, true, "job with id %s was removed", Str(a.Jobid))
			}
			return stateSay(ret, false, "failed to remove job with id %s", Str(a.Jobid))
		}
	}
	ids := []any{"all"}
	if a.Kwargs.Len() > 0 {
		v, err := c.RunKw(ctx, "at.jobcheck", nil, a.Kwargs.Clone())
		if err != nil {
			return nil, err
		}
		m, _ := v.(*Map)
		ids = nil
		for _, j := range toItems(m.Value("jobs")) {
			if one, ok := j.(*Map); ok {
				ids = append(ids, Str(one.Value("job")))
			}
		}
	}
	gone, err := removed(ids...)
	if err != nil {
		return nil, err
	}
	if gone.Len() > 0 {
		ret.Map("changes").Set("removed", gone)
	}
	return stateSay(ret, true, "removed %d job(s)", gone.Len())
}

func atStateWait(_ context.Context, _ *Call, a atStateArgs) (any, error) {
	return stateReturn(a.Name, true, ""), nil
}

func atStateWatch(ctx context.Context, c *Call, a stateKwargsNamed) (any, error) {
	if a.Kwargs.Value("sfun") != "watch" {
		return stateReturn(a.Name, false, ""), nil
	}
	kw := a.Kwargs.Clone()
	kw.Delete("sfun")
	kw.Set("name", a.Name)
	return callState(ctx, c, "at.present", kw)
}

func aliasStates() Module {
	return Module{
		Doc: "Mail aliases.",
		Funcs: Funcs{
			"present": {run: aliasStatePresent, doc: "Mail to the name goes to the target."},
			"absent":  {run: aliasStateAbsent, doc: "There is no alias of that name."},
		},
	}
}

func aliasStatePresent(ctx context.Context, c *Call, a struct {
	Name   string
	Target any
}) (any, error) {
	ret := stateReturn(a.Name, false, "")
	target := Str(a.Target)
	have, err := runTruth(ctx, c, "aliases.has_target", a.Name, a.Target)
	if err != nil {
		return nil, err
	}
	if have {
		return stateSay(ret, true, "Alias %s already present", a.Name)
	}
	if c.Testing() {
		return stateSay(ret, nil, "Alias %s -> %s is set to be added", a.Name, target)
	}
	done, err := runTruth(ctx, c, "aliases.set_target", a.Name, a.Target)
	if err != nil {
		return nil, err
	}
	if !done {
		return stateSay(ret, false, "Failed to set alias %s -> %s", a.Name, target)
	}
	ret.Set("changes", NewMap("alias", a.Name))
	return stateSay(ret, true, "Set email alias %s -> %s", a.Name, target)
}

func aliasStateAbsent(ctx context.Context, c *Call, a stateNameArgs) (any, error) {
	ret := stateReturn(a.Name, false, "")
	have, err := runTruth(ctx, c, "aliases.get_target", a.Name)
	if err != nil {
		return nil, err
	}
	if !have {
		return stateSay(ret, true, "Alias %s already absent", a.Name)
	}
	if c.Testing() {
		return stateSay(ret, nil, "Alias %s is set to be removed", a.Name)
	}
	done, err := runTruth(ctx, c, "aliases.rm_alias", a.Name)
	if err != nil {
		return nil, err
	}
	if !done {
		return stateSay(ret, false, "Failed to remove alias %s", a.Name)
	}
	ret.Set("changes", NewMap("alias", a.Name))
	return stateSay(ret, true, "Removed alias %s", a.Name)
}
