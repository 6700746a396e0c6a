// State module schedule: jobs that the minion starts by itself.
package main

import "context"

func scheduleStates() Module {
	return Module{
		Doc: "Jobs that the minion starts by itself.",
		Funcs: Funcs{
			"present":  {run: scheduleStatePresent, doc: "The job is in the schedule."},
			"absent":   {run: scheduleStateAbsent, doc: "The job is not in the schedule."},
			"enabled":  {run: scheduleStateEnabled, doc: "The job is enabled."},
			"disabled": {run: scheduleStateDisabled, doc: "The job is disabled."},
		},
	}
}

type stateKwargsNamed struct {
	Name   string
	Kwargs *Map `arg:"**kwargs"`
}

// currentSchedule is the schedule as it is.
func currentSchedule(ctx context.Context, c *Call, offline any) (*Map, error) {
	v, err := c.RunKw(ctx, "schedule.list", nil, NewMap("show_all", true, "return_yaml", false, "offline", offline))
	if err != nil {
		return nil, err
	}
	m, _ := v.(*Map)
	return m, nil
}

// scheduleChange calls a function that changes the schedule, and takes over
// what it says when it fails or only pretends.
func scheduleChange(ctx context.Context, c *Call, ret *Map, fun string, a stateKwargsNamed, did string, withChanges, dryChanges bool) (any, error) {
	kw := a.Kwargs.Clone()
	if c.Testing() {
		kw.Set("test", true)
	}
	v, err := c.RunKw(ctx, fun, []any{a.Name}, kw)
	if err != nil {
		return nil, err
	}
	out, ok := v.(*Map)
	if !ok {
		return stateSay(ret, false, "%s: %s", fun, Str(v))
	}
	if c.Testing() {
		ret.Set("comment", Str(out.Value("comment")))
		if dryChanges {
			ret.Set("changes", out.Value("changes"))
		}
		return ret, nil
	}
	if !Truth(out.Value("result")) {
		ret.Set("result", out.Value("result"))
		ret.Set("comment", out.Value("comment"))
		return ret, nil
	}
	if withChanges {
		ret.Set("changes", out.Value("changes"))
	}
	ret.Set("comment", did)
	return ret, nil
}

func scheduleStatePresent(ctx context.Context, c *Call, a stateKwargsNamed) (any, error) {
	ret := NewMap("name", a.Name, "result", true, "changes", NewMap(), "comment", "")
	have, err := currentSchedule(ctx, c, a.Kwargs.Value("offline"))
	if err != nil {
		return nil, err
	}
	job, ok := have.Get(a.Name)
	if !ok {
		return scheduleChange(ctx, c, ret, "schedule.add", a, "Adding new job "+a.Name+" to schedule", true, false)
	}
	item, err := c.RunKw(ctx, "schedule.build_schedule_item", []any{a.Name}, a.Kwargs)
	if err != nil {
		return nil, err
	}
	if m, ok := item.(*Map); ok {
		if res, ok := m.Get("result"); ok && !Truth(res) {
			ret.Set("result", res)
			ret.Set("comment", m.Value("comment"))
			return ret, nil
		}
		if !m.Has("enabled") {
			m.Set("enabled", true)
		}
	}
	if Equal(item, job) {
		return stateSay(ret, true, "Job %s in correct state", a.Name)
	}
	return scheduleChange(ctx, c, ret, "schedule.modify", a, "Modifying job "+a.Name+" in schedule", true, true)
}

func scheduleStateAbsent(ctx context.Context, c *Call, a stateKwargsNamed) (any, error) {
	return scheduleStateOf(ctx, c, a, a.Kwargs.Value("offline"), "schedule.delete", "Removed job "+a.Name+" from schedule", true)
}

func scheduleStateEnabled(ctx context.Context, c *Call, a stateKwargsNamed) (any, error) {
	return scheduleStateOf(ctx, c, a, nil, "schedule.enable_job", "Enabled job "+a.Name+" from schedule", false)
}

func scheduleStateDisabled(ctx context.Context, c *Call, a stateKwargsNamed) (any, error) {
	return scheduleStateOf(ctx, c, a, a.Kwargs.Value("offline"), "schedule.disable_job", "Disabled job "+a.Name+" from schedule", false)
}

func scheduleStateOf(ctx context.Context, c *Call, a stateKwargsNamed, offline any, fun, did string, withChanges bool) (any, error) {
	ret := NewMap("name", a.Name, "result", true, "changes", NewMap(), "comment", "")
	have, err := currentSchedule(ctx, c, offline)
	if err != nil {
		return nil, err
	}
	if !have.Has(a.Name) {
		return stateSay(ret, true, "Job %s not present in schedule", a.Name)
	}
	return scheduleChange(ctx, c, ret, fun, a, did, withChanges, false)
}
