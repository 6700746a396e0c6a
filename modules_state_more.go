// Module state: what only shows states, and requests, pauses and switches.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

type stateShowArgs struct {
	Queue  any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}

// showRun prepares a run that only shows something.
func showRun(ctx context.Context, c *Call, s stateCommon) (*highState, any, error) {
	s.kwargs.Delete("env")
	r, busy, err := startRun(ctx, c, s)
	if r == nil {
		return nil, busy, err
	}
	if errs := r.pillarErrors(s.kwargs); errs != nil {
		return nil, nil, pillarFailure(c, errs)
	}
	h := newHighState(r)
	h.takeMasterOptions(ctx)
	return h, nil, nil
}

// topHigh renders the high data of the top file.
func (h *highState) topHigh(ctx context.Context) (*Map, []string, error) {
	top, err := h.mergedTop(ctx)
	if err != nil {
		return nil, nil, err
	}
	errs := verifyTop(top)
	matches, err := h.topMatches(ctx, top)
	if err != nil {
		return nil, nil, err
	}
	high, more := h.renderMatches(ctx, matches)
	return high, append(errs, more...), nil
}

// lowChunks compiles rendered data to low chunks without running them.
func (h *highState) lowChunks(high *Map, errs []string) (*List, []string) {
	errs = append(errs, reconcileExtend(high, false)...)
	errs = append(errs, verifyHigh(high)...)
	errs = append(errs, requisiteIn(high, h.run.disabledReqs)...)
	applyExclude(high)
	if len(errs) > 0 {
		return nil, errs
	}
	out := NewList()
	for _, c := range compileHigh(high, h.run.processed, "") {
		out.Append(c)
	}
	return out, nil
}

func stateShowHighstate(ctx context.Context, c *Call, a stateShowArgs) (any, error) {
	h, busy, err := showRun(ctx, c, stateCommon{nil, a.Queue, nil, a.Kwargs})
	if h == nil {
		return busy, err
	}
	high, errs, err := h.topHigh(ctx)
	if err != nil {
		return nil, err
	}
	if len(errs) > 0 {
		c.SetRetcode(exitStateCompile)
		return Strings(errs), nil
	}
	setStateRetcode(c, high, nil)
	return high, nil
}

func stateShowLowstate(ctx context.Context, c *Call, a stateShowArgs) (any, error) {
	h, busy, err := showRun(ctx, c, stateCommon{nil, a.Queue, nil, a.Kwargs})
	if h == nil {
		return busy, err
	}
	high, errs, err := h.topHigh(ctx)
	if err != nil {
		return nil, err
	}
	low, errs := h.lowChunks(high, errs)
	if len(errs) > 0 {
		return Strings(errs), nil
	}
	return low, nil
}

func stateShowStates(ctx context.Context, c *Call, a stateShowArgs) (any, error) {
	v, err := stateShowLowstate(ctx, c, a)
	if err != nil {
		return nil, err
	}
	out := NewList()
	seen := map[string]bool{}
	for _, item := range toItems(v) {
		m, ok := item.(*Map)
		if !ok {
			setStateRetcode(c, v, nil)
			return v, nil
		}
		if sls := m.Str("__sls__"); !seen[sls] {
			seen[sls] = true
			out.Append(sls)
		}
	}
	return out, nil
}

func stateShowUsage(ctx context.Context, c *Call, a stateShowArgs) (any, error) {
	h, busy, err := showRun(ctx, c, stateCommon{nil, a.Queue, nil, a.Kwargs})
	if h == nil {
		return busy, err
	}
	top, err := h.mergedTop(ctx)
	if err != nil {
		return nil, err
	}
	matches, err := h.topMatches(ctx, top)
	if err != nil {
		return nil, err
	}
	out := NewMap()
	for _, env := range h.environments(ctx) {
		used := texts(NewList(toItems(matches.Value(env))...))
		row := NewMap("used", NewList(), "unused", NewList(), "count_all", int64(0), "count_used", int64(0), "count_unused", int64(0))
		for _, sls := range h.avail.names(ctx, env) {
			if containsText(used, sls) {
				row.List("used").Append(sls)
			} else {
				row.List("unused").Append(sls)
			}
		}
		u, n := int64(row.List("used").Len()), int64(row.List("unused").Len())
		row.Set("count_all", u+n)
		row.Set("count_used", u)
		row.Set("count_unused", n)
		out.Set(env, row)
	}
	setStateRetcode(c, out, nil)
	return out, nil
}

func stateShowTop(ctx context.Context, c *Call, a stateShowArgs) (any, error) {
	h, busy, err := showRun(ctx, c, stateCommon{nil, a.Queue, nil, a.Kwargs})
	if h == nil {
		return busy, err
	}
	top, err := h.mergedTop(ctx)
	if err != nil {
		return nil, err
	}
	if errs := verifyTop(top); len(errs) > 0 {
		c.SetRetcode(exitStateCompile)
		return Strings(errs), nil
	}
	return h.topMatches(ctx, top)
}

type stateShowSLSArgs struct {
	Mods   any
	Test   any  `def:"None"`
	Queue  any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}

// slsHigh renders named SLS files and checks them.
func slsHigh(ctx context.Context, c *Call, a stateShowSLSArgs) (*highState, *Map, any, error) {
	h, busy, err := showRun(ctx, c, stateCommon{a.Test, a.Queue, nil, a.Kwargs})
	if h == nil {
		return nil, nil, busy, err
	}
	high, errs := h.renderMatches(ctx, NewMap(h.run.saltenv(), Strings(splitInput(a.Mods))))
	errs = append(errs, verifyHigh(high)...)
	if len(errs) > 0 {
		c.SetRetcode(exitStateCompile)
		return nil, nil, Strings(errs), nil
	}
	return h, high, nil, nil
}

func stateShowSLS(ctx context.Context, c *Call, a stateShowSLSArgs) (any, error) {
	_, high, bad, err := slsHigh(ctx, c, a)
	if high == nil {
		return bad, err
	}
	return high, nil
}

func stateShowLowSLS(ctx context.Context, c *Call, a stateShowSLSArgs) (any, error) {
	h, high, bad, err := slsHigh(ctx, c, a)
	if high == nil {
		return bad, err
	}
	out := NewList()
	for _, chunk := range compileHigh(high, h.run.processed, "") {
		out.Append(chunk)
	}
	return out, nil
}

func stateSLSExists(ctx context.Context, c *Call, a stateShowSLSArgs) (any, error) {
	v, err := stateShowSLS(ctx, c, a)
	_, ok := v.(*Map)
	return ok, err
}

func stateIDExists(ctx context.Context, c *Call, a struct {
	Ids    any
	Mods   any
	Test   any  `def:"None"`
	Queue  any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}) (any, error) {
	v, err := stateShowLowSLS(ctx, c, stateShowSLSArgs{a.Mods, a.Test, a.Queue, a.Kwargs})
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	for _, item := range toItems(v) {
		m, ok := item.(*Map)
		if !ok {
			return nil, OtherErrorf("TypeError", "string indices must be integers, not 'str'")
		}
		have[Str(m.Value("__id__"))] = true
	}
	for _, id := range splitInput(a.Ids) {
		if !have[id] {
			return false, nil
		}
	}
	return true, nil
}

func stateSLSID(ctx context.Context, c *Call, a struct {
	ID          string `arg:"id_"`
	Mods        any
	Test        any  `def:"None"`
	Queue       any  `def:"None"`
	StateEvents any  `def:"None"`
	Kwargs      *Map `arg:"**kwargs"`
}) (any, error) {
	s := stateCommon{a.Test, a.Queue, a.StateEvents, a.Kwargs}
	h, end, err := startHigh(ctx, c, s)
	if h == nil {
		return end, err
	}
	r := h.run
	high, errs := h.renderMatches(ctx, NewMap(r.saltenv(), Strings(splitInput(a.Mods))))
	errs = append(errs, verifyHigh(high)...)
	errs = append(errs, requisiteIn(high, r.disabledReqs)...)
	if len(errs) > 0 {
		c.SetRetcode(exitStateCompile)
		return Strings(errs), nil
	}
	chunks := compileHigh(high, r.processed, "")
	x := indexChunks(chunks)
	ret := NewMap()
	for _, low := range chunks {
		if Str(low.Value("__id__")) != a.ID {
			continue
		}
		running := newReturns()
		if err := r.callChunk(ctx, low, running, x, 0); err != nil {
			return nil, err
		}
		r.collectParallel(running, true)
		ret.Merge(running.m)
	}
	setStateRetcode(c, ret, nil)
	if ret.Len() == 0 {
		return nil, InvocationErrorf("No matches for ID '%s' found in SLS '%s' within saltenv '%s'", a.ID, Str(a.Mods), r.saltenv())
	}
	return ret, nil
}

// requestPath is where a requested run is kept.
func requestPath(c *Call) string { return filepath.Join(c.Opts.Path("cachedir"), "req_state.p") }

func requests(c *Call) *Map {
	if m, ok := readStateFile(requestPath(c)).(*Map); ok {
		return m
	}
	return NewMap()
}

func stateRequest(ctx context.Context, c *Call, a stateApplyArgs) (any, error) {
	a.Kwargs.Set("test", true)
	kept := DeepCopy(a.Kwargs).(*Map)
	ret, err := stateApply(ctx, c, a)
	if err != nil {
		return nil, err
	}
	name := "default"
	if v, ok := a.Kwargs.Get("name"); ok {
		name = Str(v)
	}
	req := requests(c)
	req.Set(name, NewMap("test_run", ret, "mods", a.Mods, "kwargs", kept))
	writeStateFile(c, requestPath(c), req)
	return ret, nil
}

type stateRequestName struct {
	Name any `def:"None"`
}

func stateCheckRequest(_ context.Context, c *Call, a stateRequestName) (any, error) {
	req := requests(c)
	if !Truth(a.Name) {
		return req, nil
	}
	v, ok := req.Get(a.Name)
	if !ok {
		return nil, OtherErrorf("KeyError", "%s", Repr(a.Name))
	}
	return v, nil
}

func stateClearRequest(_ context.Context, c *Call, a stateRequestName) (any, error) {
	path := requestPath(c)
	if _, err := os.Stat(path); err != nil {
		return true, nil
	}
	if !Truth(a.Name) {
		os.Remove(path)
		return true, nil
	}
	req := requests(c)
	if !req.Delete(a.Name) {
		return false, nil
	}
	writeStateFile(c, path, req)
	return true, nil
}

func stateRunRequest(ctx context.Context, c *Call, a struct {
	Name   any  `def:"default"`
	Kwargs *Map `arg:"**kwargs"`
}) (any, error) {
	n := requests(c).Map(a.Name)
	if n == nil || !n.Has("mods") || n.Map("kwargs") == nil {
		return NewMap(), nil
	}
	kw := n.Map("kwargs")
	kw.Merge(a.Kwargs)
	kw.Delete("test")
	ret, err := stateApply(ctx, c, stateApplyArgs{n.Value("mods"), kw})
	if err != nil {
		return nil, err
	}
	os.Remove(requestPath(c))
	return ret, nil
}

func stateClearCache(_ context.Context, c *Call, _ noArgs) (any, error) {
	dir := c.Opts.Path("cachedir")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := NewList()
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".cache.p") && e.Type().IsRegular() {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return nil, err
			}
			out.Append(e.Name())
		}
	}
	return out, nil
}

// disabledStates says which of these names the grains disable, and why.
func disabledStates(c *Call, names []any) []string {
	var out []string
	for _, n := range names {
		name := Str(n)
		for _, d := range toItems(c.Grains.Value("state_runs_disabled")) {
			off := Str(d)
			if strings.Contains(off, ".*") {
				prefix, _, _ := strings.Cut(off, ".")
				if strings.HasPrefix(name, prefix+".") {
					out = append(out, fmt.Sprintf("The state file \"%[1]s\" is currently disabled by \"%[2]s\", to re-enable, run state.enable %[2]s.", name, off))
				}
			} else if off == name {
				out = append(out, fmt.Sprintf("The state file \"%[1]s\" is currently disabled, to re-enable, run state.enable %[1]s.", name))
			}
		}
	}
	return out
}

type stateNamesArgs struct{ States any }

// switchStates changes the grain that disables states.
func switchStates(ctx context.Context, c *Call, names []string, off bool) (any, error) {
	var have []string
	if l, ok := c.Grains.Value("state_runs_disabled").(*List); ok {
		have = texts(l)
	}
	word := map[bool]string{true: "disabled", false: "enabled"}[off]
	var msg []string
	changed := false
	for _, n := range names {
		if containsText(have, n) == off {
			msg = append(msg, fmt.Sprintf("Info: %s state already %s.", n, word))
			continue
		}
		msg = append(msg, fmt.Sprintf("Info: %s state %s.", n, word))
		changed = true
		if off {
			have = append(have, n)
			continue
		}
		var left []string
		for _, h := range have {
			if h != n {
				left = append(left, h)
			}
		}
		have = left
	}
	if changed {
		if _, err := c.Run(ctx, "grains.setval", "state_runs_disabled", Strings(have)); err != nil {
			return nil, err
		}
	}
	if _, err := c.Run(ctx, "saltutil.refresh_modules"); err != nil {
		return nil, err
	}
	return NewMap("res", true, "msg", strings.Join(msg, "\n")), nil
}

func stateDisable(ctx context.Context, c *Call, a stateNamesArgs) (any, error) {
	return switchStates(ctx, c, splitInput(a.States), true)
}

func stateEnable(ctx context.Context, c *Call, a stateNamesArgs) (any, error) {
	return switchStates(ctx, c, splitInput(a.States), false)
}

func stateListDisabled(ctx context.Context, c *Call, _ noArgs) (any, error) {
	return c.Run(ctx, "grains.get", "state_runs_disabled")
}

type statePauseArgs struct {
	JID      any `arg:"jid"`
	StateID  any `def:"None"`
	Duration any `def:"None"`
}

// changePause edits the pause file of a job.
func changePause(c *Call, jid string, change func(data *Map)) (any, error) {
	if err := ValidJID(jid); err != nil {
		return nil, InvocationErrorf("%v", err)
	}
	path := pausePath(c, jid)
	data := NewMap()
	if p, err := os.ReadFile(path); err == nil {
		if v, err := DecodeWire(p); err == nil {
			if m, ok := v.(*Map); ok {
				data = m
			}
		}
	}
	change(data)
	p, err := EncodeBin(data)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return nil, writeFileAtomic(path, p, 0o600)
}

// pauseEntry is the entry of an id in a pause file.
func pauseEntry(data *Map, id any) *Map {
	if id == nil {
		id = "__all__"
	}
	m := data.Map(Str(id))
	if m == nil {
		m = NewMap()
		data.Set(Str(id), m)
	}
	return m
}

func statePause(_ context.Context, c *Call, a statePauseArgs) (any, error) {
	return changePause(c, Str(a.JID), func(data *Map) {
		m := pauseEntry(data, a.StateID)
		if Truth(a.Duration) {
			n, _ := toInt(a.Duration)
			m.Set("duration", n)
		}
	})
}

type stateResumeArgs struct {
	JID     any `arg:"jid"`
	StateID any `def:"None"`
}

func stateResume(_ context.Context, c *Call, a stateResumeArgs) (any, error) {
	return changePause(c, Str(a.JID), func(data *Map) {
		if a.StateID != nil && a.StateID != "__all__" {
			data.Delete(Str(a.StateID))
			return
		}
		for _, k := range data.Keys() {
			data.Delete(k)
		}
	})
}

func stateSoftKill(_ context.Context, c *Call, a stateResumeArgs) (any, error) {
	return changePause(c, Str(a.JID), func(data *Map) { pauseEntry(data, a.StateID).Set("kill", true) })
}

func stateGetPauses(ctx context.Context, c *Call, a struct {
	JID any `arg:"jid" def:"None"`
}) (any, error) {
	out := NewMap()
	dir := filepath.Dir(pausePath(c, "x"))
	var jids []string
	if a.JID == nil {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			jids = append(jids, e.Name())
		}
	} else {
		jids = texts(NewList(toItems(a.JID)...))
	}
	v, err := c.Run(ctx, "saltutil.is_running", "state.*")
	if err != nil {
		return nil, err
	}
	active := map[string]bool{}
	for _, job := range toItems(v) {
		if m, ok := job.(*Map); ok {
			active[Str(m.Value("jid"))] = true
		}
	}
	for _, jid := range jids {
		if ValidJID(jid) != nil {
			continue
		}
		path := pausePath(c, jid)
		if !active[jid] {
			os.Remove(path)
			continue
		}
		if p, err := os.ReadFile(path); err == nil {
			if v, err := DecodeWire(p); err == nil {
				out.Set(jid, v)
			}
		}
	}
	return out, nil
}

func statePkg(_ context.Context, _ *Call, a struct {
	PkgPath  string
	PkgSum   string
	HashType string
	Test     any  `def:"None"`
	Kwargs   *Map `arg:"**kwargs"`
}) (any, error) {
	if !isFile(a.PkgPath) {
		return NewMap(), nil
	}
	return nil, ExecErrorf("state.pkg is for salt-ssh, which this build does not have: use state.apply")
}

func stateOrchestrate(_ context.Context, _ *Call, _ struct {
	Mods      any
	Saltenv   any `def:"base"`
	Test      any `def:"None"`
	Exclude   any `def:"None"`
	Pillar    any `def:"None"`
	Pillarenv any `def:"None"`
}) (any, error) {
	return nil, ExecErrorf("orchestrations run on the master: salt-run state.orchestrate")
}
