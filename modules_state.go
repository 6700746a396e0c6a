// Module state: what users call to apply states, and to see what would be
// applied. modules_state_more.go has requests, pauses and switches.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Return codes of state runs, which the job and the shell see.
const (
	exitStateCompile = 1
	exitStateFailure = 2
	exitStatePillar  = 5
)

func stateModule() Module {
	return Module{
		Doc: "Apply states, and look at what would be applied.",
		Funcs: Funcs{
			"apply":            {run: stateApply, pyname: "apply_", doc: "Apply the named SLS files, or the highstate if none is named."},
			"sls":              {run: stateSLS, doc: "Apply SLS files. test=True is a dry run; pillar={} adds to the pillar; queue=True waits for a running state run; exclude leaves states out."},
			"highstate":        {run: stateHighstate, doc: "Apply what the top file has for this minion."},
			"top":              {run: stateTop, doc: "Apply what another top file has for this minion."},
			"single":           {run: stateSingle, doc: "Call one state function: salt '*' state.single pkg.installed name=vim"},
			"low":              {run: stateLow, doc: "Call one low chunk."},
			"high":             {run: stateHigh, doc: "Run high data."},
			"template":         {run: stateTemplate, doc: "Apply one SLS file of this box."},
			"template_str":     {run: stateTemplateStr, doc: "Apply the text of an SLS file."},
			"test":             {run: stateTest, doc: "Apply as a dry run."},
			"sls_id":           {run: stateSLSID, doc: "Run the states of one id, with what they require."},
			"show_highstate":   {run: stateShowHighstate, doc: "Return the high data of the highstate."},
			"show_lowstate":    {run: stateShowLowstate, doc: "Return the low data of the highstate."},
			"show_low_sls":     {run: stateShowLowSLS, doc: "Return the low data of SLS files."},
			"show_sls":         {run: stateShowSLS, doc: "Return the high data of SLS files."},
			"show_states":      {run: stateShowStates, doc: "List the SLS files of the highstate."},
			"show_state_usage": {run: stateShowUsage, doc: "List used and unused SLS files by environment."},
			"show_top":         {run: stateShowTop, doc: "Return the SLS files that the top file has for this minion."},
			"sls_exists":       {run: stateSLSExists, doc: "Say whether SLS files exist and compile."},
			"id_exists":        {run: stateIDExists, doc: "Say whether ids are part of SLS files."},
			"running":          {run: stateRunning, doc: "List the state runs that are under way."},
			"request":          {run: stateRequest, doc: "Do a dry run and remember it for state.run_request."},
			"check_request":    {run: stateCheckRequest, doc: "Return what was requested."},
			"clear_request":    {run: stateClearRequest, doc: "Forget what was requested."},
			"run_request":      {run: stateRunRequest, doc: "Apply what was requested."},
			"clear_cache":      {run: stateClearCache, doc: "Remove the high data that was kept of former runs."},
			"disable":          {run: stateDisable, doc: "Switch off SLS files, or patterns of state functions, on this minion."},
			"enable":           {run: stateEnable, doc: "Switch on what was disabled."},
			"list_disabled":    {run: stateListDisabled, doc: "List what is disabled."},
			"pause":            {run: statePause, doc: "Hold a running job at an id, or at its next state."},
			"resume":           {run: stateResume, doc: "Let a paused job go on."},
			"soft_kill":        {run: stateSoftKill, doc: "End a running job after the state that runs now."},
			"get_pauses":       {run: stateGetPauses, doc: "List what is paused."},
			"pkg":              {run: statePkg, doc: "Run a package of states as salt-ssh makes them."},
			"orchestrate":      {run: stateOrchestrate, doc: "Run an orchestration on this minion."},
		},
	}
}

// stateCommon are the keywords that all of these functions share; the rest
// is in Kwargs.
type stateCommon struct {
	test        any
	queue       any
	stateEvents any
	kwargs      *Map
}

// stateCallFor prepares a run with the options that the arguments change.
func stateCallFor(ctx context.Context, c *Call, s stateCommon) (*stateRun, error) {
	o := c.Opts.Clone()
	kw := s.kwargs
	if path, ok := kw.Get("localconfig"); ok {
		local, err := localConfig(Str(path))
		if err != nil {
			return nil, err
		}
		for k, v := range local.All() {
			o.Set(Str(k), v)
		}
	} else {
		if v, ok := kw.Get("saltenv"); ok && v != nil {
			if o.Bool("lock_saltenv") && Str(v) != o.Str("saltenv") {
				return nil, ExecErrorf("lock_saltenv is enabled, saltenv cannot be changed")
			}
			o.Set("saltenv", Str(v))
		}
		if v, ok := kw.Get("pillarenv"); ok {
			if v != nil {
				v = Str(v)
			}
			o.Set("pillarenv", v)
		} else if v, ok := kw.Get("saltenv"); ok && o.Bool("pillarenv_from_saltenv") {
			o.Set("pillarenv", v)
		}
	}
	o.Set("test", stateTestValue(ctx, c, s))
	if s.stateEvents != nil {
		o.Set("state_events", s.stateEvents)
	}
	env := *c.Env
	env.Opts = o
	inner := *c
	inner.Env = &env
	inner.State = nil
	if s, ok := kw.Get("__pub_jid"); ok {
		inner.JID = Str(s)
	}
	r := newStateRun(&inner)
	r.mocked = Truth(kw.Value("mock"))
	override, err := pillarOverride(ctx, c, kw)
	if err != nil {
		return nil, err
	}
	samePillarenv := Equal(o.Value("pillarenv"), c.Opts.Value("pillarenv"))
	if override != nil || !samePillarenv || c.Pillar == nil {
		p, err := r.freshPillar(ctx, override)
		if err != nil {
			return nil, err
		}
		env.Pillar = p
	}
	inner.Env = env.owned()
	return r, nil
}

// pillarOverride is the pillar= of the command line.
func pillarOverride(ctx context.Context, c *Call, kw *Map) (*Map, error) {
	v := kw.Value("pillar")
	if v == nil {
		return nil, nil
	}
	if enc := kw.Value("pillar_enc"); enc != nil {
		return decryptOverride(ctx, c, v, enc)
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, InvocationErrorf("Pillar data must be formatted as a dictionary, unless pillar_enc is specified.")
	}
	return m, nil
}

// freshPillar compiles the pillar anew, for the options of the run.
func (r *stateRun) freshPillar(ctx context.Context, override *Map) (*Map, error) {
	kw := NewMap()
	if override != nil {
		kw.Set("pillar", override)
	}
	if v := r.c.Opts.Value("pillarenv"); v != nil {
		kw.Set("pillarenv", v)
	}
	v, err := r.c.RunKw(ctx, "pillar.items", nil, kw)
	if err != nil {
		return nil, err
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, ExecErrorf("the pillar is no mapping but %s", TypeName(v))
	}
	return m, nil
}

// stateTestValue is whether a run is a dry run: the argument, or the option.
func stateTestValue(ctx context.Context, c *Call, s stateCommon) any {
	switch t := s.test.(type) {
	case nil:
		if v, ok := s.kwargs.Get("test"); ok && Truth(v) {
			return true
		}
		return c.Opts.Value("test")
	case bool:
		return t
	}
	return true
}

// pillarErrors are the errors of the pillar, nil if there are none or force=True.
func (r *stateRun) pillarErrors(kw *Map) *List {
	if Truth(kw.Value("force")) {
		return nil
	}
	l := r.c.Pillar.List("_errors")
	if l.Len() == 0 {
		return nil
	}
	return NewList(append([]any{"Pillar failed to render with the following messages:"}, l.Items...)...)
}

// pillarFailure is what functions that only show something do about such errors.
func pillarFailure(c *Call, errs *List) error {
	c.SetRetcode(exitStatePillar)
	return ExecErrorf("Pillar failed to render. Additional info follows:\n\n- %s", strings.Join(texts(NewList(errs.Items[1:]...)), "\n- "))
}

type stateApplyArgs struct {
	Mods   any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}

func stateApply(ctx context.Context, c *Call, a stateApplyArgs) (any, error) {
	if Truth(a.Mods) {
		return callBuiltin(ctx, c, "sls", stateSLS, []any{a.Mods}, a.Kwargs)
	}
	return callBuiltin(ctx, c, "highstate", stateHighstate, nil, a.Kwargs)
}

// callBuiltin calls a function of this room with arguments still to be bound.
func callBuiltin(ctx context.Context, c *Call, name string, run any, args []any, kwargs *Map) (any, error) {
	return newBuiltin(name, Func{run: run}).Invoke(ctx, c, args, kwargs)
}

func stateTest(ctx context.Context, c *Call, a struct {
	Args   []any `arg:"*args"`
	Kwargs *Map  `arg:"**kwargs"`
}) (any, error) {
	a.Kwargs.Set("test", true)
	return callBuiltin(ctx, c, "apply_", stateApply, a.Args, a.Kwargs)
}

type stateSLSArgs struct {
	Mods        any
	Test        any  `def:"None"`
	Exclude     any  `def:"None"`
	Queue       any  `def:"None"`
	SyncMods    any  `def:"None"`
	StateEvents any  `def:"None"`
	Kwargs      *Map `arg:"**kwargs"`
}

func stateSLS(ctx context.Context, c *Call, a stateSLSArgs) (any, error) {
	a.Kwargs.Delete("env")
	s := stateCommon{a.Test, a.Queue, a.StateEvents, a.Kwargs}
	r, busy, err := startRun(ctx, c, s)
	if r == nil {
		return busy, err
	}
	names := []any{a.Mods}
	if l, ok := a.Mods.(*List); ok {
		names = l.Items
	}
	if off := disabledStates(c, names); len(off) > 0 {
		c.SetRetcode(exitStateCompile)
		return Strings(off), nil
	}
	if errs := r.pillarErrors(a.Kwargs); errs != nil {
		c.SetRetcode(exitStatePillar)
		return errs, nil
	}
	syncModules(ctx, r.c, a.SyncMods)
	h := newHighState(r)
	h.takeMasterOptions(ctx)
	orch := a.Kwargs.Str("orchestration_jid")
	cache := stateCacheFile(c, a.Kwargs, "highstate")
	if Truth(a.Kwargs.Value("cache")) {
		if high, ok := readStateFile(cache).(*Map); ok {
			return r.callHigh(ctx, high, orch)
		}
	}
	high, errs := h.renderMatches(ctx, NewMap(r.saltenv(), Strings(splitInput(a.Mods))))
	if len(errs) > 0 {
		c.SetRetcode(exitStateCompile)
		return Strings(errs), nil
	}
	addExclude(high, a.Exclude)
	kept := DeepCopy(high).(*Map)
	ret, err := r.callHigh(ctx, high, orch)
	if err != nil {
		return nil, err
	}
	ret = terseReturns(c, a.Kwargs, ret)
	writeStateFile(c, filepath.Join(c.Opts.Path("cachedir"), "sls.p"), ret)
	setStateRetcode(c, ret, kept)
	writeStateFile(c, cache, kept)
	return ret, nil
}

// startRun prepares the run of a function. Where another one is in the way, r is
// nil and busy is the answer.
func startRun(ctx context.Context, c *Call, s stateCommon) (r *stateRun, busy any, err error) {
	others, err := stateConflict(ctx, c, s)
	if err != nil {
		return nil, nil, err
	}
	if others != nil {
		return nil, others, nil
	}
	r, err = stateCallFor(ctx, c, s)
	return r, nil, err
}

// startHigh is startRun for a function that renders SLS files, which a broken
// pillar stops.
func startHigh(ctx context.Context, c *Call, s stateCommon) (h *highState, end any, err error) {
	r, busy, err := startRun(ctx, c, s)
	if r == nil {
		return nil, busy, err
	}
	if errs := r.pillarErrors(s.kwargs); errs != nil {
		c.SetRetcode(exitStatePillar)
		return nil, errs, nil
	}
	h = newHighState(r)
	h.takeMasterOptions(ctx)
	return h, nil, nil
}

// saltenv is the environment of a run.
func (r *stateRun) saltenv() string {
	if s := r.c.Opts.Str("saltenv"); s != "" {
		return s
	}
	return "base"
}

// addExclude puts the exclude= of the command line to the data.
func addExclude(high *Map, exclude any) {
	if !Truth(exclude) {
		return
	}
	l := high.List("__exclude__")
	if l == nil {
		l = NewList()
		high.Set("__exclude__", l)
	}
	if given, ok := exclude.(*List); ok {
		l.Append(given.Items...)
		return
	}
	for _, s := range splitInput(exclude) {
		l.Append(s)
	}
}

// terseReturns leaves good states without changes out of the return where that
// is wanted.
func terseReturns(c *Call, kw *Map, ret any) any {
	m, ok := ret.(*Map)
	if !ok || c.Opts.Str("state_data") != "terse" && !Truth(kw.Value("terse")) {
		return ret
	}
	out := NewMap()
	for tag, v := range m.All() {
		if s, ok := v.(*Map); ok && (!Truth(s.Value("result")) || Truth(s.Value("changes"))) {
			out.Set(tag, v)
		}
	}
	return out
}

// syncModules runs the saltutil.sync_ functions that sync_mods names.
func syncModules(ctx context.Context, c *Call, v any) {
	var kinds []string
	switch v := v.(type) {
	case nil:
	case bool:
		if v {
			kinds = []string{"all"}
		}
	default:
		kinds = splitInput(v)
	}
	if containsText(kinds, "all") {
		kinds = []string{"all"}
	}
	for _, k := range kinds {
		if _, err := c.RunKw(ctx, "saltutil.sync_"+k, nil, NewMap("saltenv", c.saltenvOf(nil))); err != nil {
			c.Log.Warn(fmt.Sprintf("Invalid custom module type '%s', ignoring", k))
		}
	}
}

// stateCacheFile is where the high data of a run is kept.
func stateCacheFile(c *Call, kw *Map, name string) string {
	if s := kw.Str("cache_name"); s != "" {
		name = s
	}
	return filepath.Join(c.Opts.Path("cachedir"), filepath.Base(name)+".cache.p")
}

// writeStateFile keeps a value of a run; that it cannot is only worth a line.
func writeStateFile(c *Call, path string, v any) {
	p, err := EncodeBin(v)
	if err == nil {
		err = writeFileAtomic(path, p, 0o600)
	}
	if err != nil {
		c.Log.Error(fmt.Sprintf("keep the data of a state run: %v", err))
	}
}

func readStateFile(path string) any {
	p, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	v, err := DecodeBin(p)
	if err != nil {
		return nil
	}
	return v
}

type stateHighstateArgs struct {
	Test        any  `def:"None"`
	Queue       any  `def:"None"`
	StateEvents any  `def:"None"`
	Kwargs      *Map `arg:"**kwargs"`
}

func stateHighstate(ctx context.Context, c *Call, a stateHighstateArgs) (any, error) {
	if len(disabledStates(c, []any{"highstate"})) > 0 {
		return NewMap("name", "Salt highstate run is disabled. To re-enable, run state.enable highstate", "result", "False", "comment", "Disabled"), nil
	}
	s := stateCommon{a.Test, a.Queue, a.StateEvents, a.Kwargs}
	a.Kwargs.Delete("env")
	h, end, err := startHigh(ctx, c, s)
	if h == nil {
		return end, err
	}
	ret, high, err := h.callHighstate(ctx, a.Kwargs)
	if err != nil {
		return nil, err
	}
	ret = terseReturns(c, a.Kwargs, ret)
	setStateRetcode(c, ret, high)
	return ret, nil
}

// callHighstate finds, renders and runs the states of the top file.
func (h *highState) callHighstate(ctx context.Context, kw *Map) (ret any, high *Map, err error) {
	r := h.run
	nothing := func(comment string) *Map {
		return NewMap("no_|-states_|-states_|-None", NewMap("result", false, "comment", comment, "name", "No States",
			"changes", NewMap(), "__run_num__", int64(0)))
	}
	cache := stateCacheFile(r.c, kw, "highstate")
	orch := kw.Str("orchestration_jid")
	if Truth(kw.Value("cache")) {
		if high, ok := readStateFile(cache).(*Map); ok {
			ret, err := r.callHigh(ctx, high, orch)
			return ret, high, err
		}
	}
	top, err := h.mergedTop(ctx)
	if errors.Is(err, errTopTargets) {
		return nothing("Unable to render top file: " + strings.TrimPrefix(err.Error(), "Unable to render top file: ")), nil, nil
	}
	if err != nil {
		return NewList(asModuleError(err).Traceback()), nil, nil
	}
	errs := verifyTop(top)
	matches, err := h.topMatches(ctx, top)
	if err != nil {
		return nil, nil, err
	}
	if matches.Len() == 0 {
		return nothing("No Top file or master_tops data matches found. Please see master log for details."), nil, nil
	}
	if w := kw.Value("whitelist"); Truth(w) {
		allowed := splitInput(w)
		left := NewMap()
		for env, list := range matches.All() {
			for _, sls := range toItems(list) {
				if containsText(allowed, Str(sls)) {
					if left.List(env) == nil {
						left.Set(env, NewList())
					}
					left.List(env).Append(sls)
				}
			}
		}
		matches = left
	}
	h.loadDynamic(ctx, matches)
	high, more := h.renderMatches(ctx, matches)
	addExclude(high, kw.Value("exclude"))
	errs = append(errs, more...)
	if len(errs) > 0 {
		return Strings(errs), nil, nil
	}
	if high.Len() == 0 {
		return nothing("No states found for this minion"), nil, nil
	}
	kept := DeepCopy(high).(*Map)
	writeStateFile(r.c, cache, kept)
	ret, err = r.callHigh(ctx, high, orch)
	return ret, kept, err
}

// loadDynamic brings the user-written modules of the chosen environments here.
func (h *highState) loadDynamic(ctx context.Context, matches *Map) {
	c := h.run.c
	if !c.Opts.Bool("autoload_dynamic_modules") || c.Files == nil {
		return
	}
	envs := NewList()
	for env := range matches.All() {
		envs.Append(env)
	}
	v, err := c.RunKw(ctx, "saltutil.sync_all", []any{envs}, NewMap("refresh", false))
	if err != nil {
		h.run.warn(err)
		return
	}
	m, _ := v.(*Map)
	changed := false
	for _, list := range m.All() {
		changed = changed || Truth(list)
	}
	if changed {
		if u := c.Loader.customs(); u != nil {
			u.Refresh()
		}
		h.run.refreshModules()
	}
}

type stateTopArgs struct {
	Topfn  string
	Test   any  `def:"None"`
	Queue  any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}

func stateTop(ctx context.Context, c *Call, a stateTopArgs) (any, error) {
	s := stateCommon{a.Test, a.Queue, nil, a.Kwargs}
	h, end, err := startHigh(ctx, c, s)
	if h == nil {
		return end, err
	}
	h.top.top = "salt://" + strings.TrimPrefix(strings.TrimPrefix(a.Topfn, "salt://"), "/")
	if v, ok := a.Kwargs.Get("saltenv"); ok {
		h.top.topEnv = Str(v)
	}
	ret, high, err := h.callHighstate(ctx, a.Kwargs)
	if err != nil {
		return nil, err
	}
	setStateRetcode(c, ret, high)
	return ret, nil
}

type stateDataArgs struct {
	Data   any
	Queue  any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}

func stateLow(ctx context.Context, c *Call, a stateDataArgs) (any, error) {
	s := stateCommon{nil, a.Queue, nil, a.Kwargs}
	r, busy, err := startRun(ctx, c, s)
	if r == nil {
		return busy, err
	}
	low, ok := a.Data.(*Map)
	if !ok {
		return nil, OtherErrorf("TypeError", "a low chunk is a dictionary, not %s", TypeName(a.Data))
	}
	errs, err := r.verifyLow(ctx, low)
	if err != nil {
		return nil, err
	}
	if len(errs) > 0 {
		c.SetRetcode(exitStateCompile)
		return Strings(errs), nil
	}
	ret, err := r.call(ctx, low, newReturns(), indexChunks(nil), 1)
	if err != nil {
		return nil, err
	}
	if stateResultGood(ret, nil, false) {
		c.SetRetcode(exitStateFailure)
	}
	return ret, nil
}

type stateHighArgs struct {
	Data   any
	Test   any  `def:"None"`
	Queue  any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}

func stateHigh(ctx context.Context, c *Call, a stateHighArgs) (any, error) {
	s := stateCommon{a.Test, a.Queue, nil, a.Kwargs}
	r, busy, err := startRun(ctx, c, s)
	if r == nil {
		return busy, err
	}
	high, ok := a.Data.(*Map)
	if !ok {
		return nil, OtherErrorf("AttributeError", "'%s' object has no attribute 'items'", TypeName(a.Data))
	}
	kept := DeepCopy(high).(*Map)
	ret, err := r.callHigh(ctx, high, "")
	if err != nil {
		return nil, err
	}
	setStateRetcode(c, ret, kept)
	return ret, nil
}

type stateTemplateArgs struct {
	Tem    string
	Queue  any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}

func stateTemplate(ctx context.Context, c *Call, a stateTemplateArgs) (any, error) {
	a.Kwargs.Delete("env")
	s := stateCommon{nil, a.Queue, nil, a.Kwargs}
	r, busy, err := startRun(ctx, c, s)
	if r == nil {
		return busy, err
	}
	if errs := r.pillarErrors(a.Kwargs); errs != nil {
		return nil, pillarFailure(c, errs)
	}
	tem := a.Tem
	if !strings.HasSuffix(tem, ".sls") {
		tem += ".sls"
	}
	h := newHighState(r)
	h.takeMasterOptions(ctx)
	if info, err := os.Stat(tem); err != nil || !info.Mode().IsRegular() {
		c.SetRetcode(exitStateCompile)
		return NewList(fmt.Sprintf("Specified SLS %s on local filesystem cannot be found.", tem)), nil
	}
	v, errs := h.renderState(ctx, tem, a.Kwargs.Str("saltenv"), nil, tem)
	if len(errs) > 0 {
		c.SetRetcode(exitStateCompile)
		return Strings(errs), nil
	}
	high, _ := v.(*Map)
	kept := DeepCopy(high).(*Map)
	ret, err := r.callHigh(ctx, high, "")
	if err != nil {
		return nil, err
	}
	setStateRetcode(c, ret, kept)
	return ret, nil
}

func stateTemplateStr(ctx context.Context, c *Call, a stateTemplateArgs) (any, error) {
	s := stateCommon{nil, a.Queue, nil, a.Kwargs}
	r, busy, err := startRun(ctx, c, s)
	if r == nil {
		return busy, err
	}
	v, err := renderedText(ctx, r.c, a.Tem, "<template-str>", "base", "")
	if err != nil {
		return nil, err
	}
	if !Truth(v) {
		setStateRetcode(c, v, nil)
		return v, nil
	}
	high, ok := v.(*Map)
	var errs []string
	if !ok {
		errs = []string{"Template <template-str> does not render to a dictionary"}
	} else {
		errs = padTemplate(high, "<template-str>")
	}
	if len(errs) > 0 {
		c.SetRetcode(exitStateCompile)
		return Strings(errs), nil
	}
	ret, err := r.callHigh(ctx, high, "")
	if err != nil {
		return nil, err
	}
	setStateRetcode(c, ret, nil)
	return ret, nil
}

type stateSingleArgs struct {
	Fun    string
	Name   any
	Test   any  `def:"None"`
	Queue  any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}

func stateSingle(ctx context.Context, c *Call, a stateSingleArgs) (any, error) {
	s := stateCommon{a.Test, a.Queue, nil, a.Kwargs}
	r, busy, err := startRun(ctx, c, s)
	if r == nil {
		return busy, err
	}
	comps := strings.Split(a.Fun, ".")
	if len(comps) < 2 {
		c.SetRetcode(exitStateCompile)
		return "Invalid function passed", nil
	}
	low := a.Kwargs
	for _, kv := range [][2]any{{"state", comps[0]}, {"fun", comps[1]}, {"__id__", a.Name}, {"name", a.Name}} {
		low.Set(kv[0], kv[1])
	}
	errs, err := r.verifyLow(ctx, low)
	if err != nil {
		return nil, err
	}
	if len(errs) > 0 {
		c.SetRetcode(exitStateCompile)
		return Strings(errs), nil
	}
	r.initModule(ctx, low)
	running := newReturns()
	ret, err := r.call(ctx, low, running, indexChunks([]*Map{low}), 1)
	if err != nil {
		return nil, err
	}
	tag := lowTag(low)
	running.m.Set(tag, ret)
	r.adopt(tag, running)
	r.collectParallel(running, true)
	os.Remove(filepath.Join(accumulatorDir(c), r.instance))
	setStateRetcode(c, running.m, nil)
	return running.m, nil
}

// localConfig reads the configuration that localconfig= names.
func localConfig(path string) (*Map, error) {
	p, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return NewMap(), nil
	}
	if err != nil {
		return nil, ExecErrorf("read localconfig: %v", err)
	}
	v, err := ParseYAML(p)
	if err != nil {
		return nil, ExecErrorf("read localconfig %s: %v", path, err)
	}
	m, ok := v.(*Map)
	if !ok {
		return NewMap(), nil
	}
	return m, nil
}
