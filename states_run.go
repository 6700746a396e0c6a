// Running low chunks: one after the other by their order, what they require
// first. The returns have Salt's keys and Salt's texts.
//
// The law of this file: a run belongs to one goroutine; states with parallel
// run in goroutines that the run waits for before it ends. An error stops the
// whole run and is for what Salt stops for (arguments that no state function
// takes); everything else is the result False of one state.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
)

// lowTag is the key of a state in the result of a run.
func lowTag(low *Map) string {
	return Str(low.Value("state")) + "_|-" + Str(low.Value("__id__")) + "_|-" + Str(low.Value("name")) + "_|-" + Str(low.Value("fun"))
}

// stateReturns are returns by tag, in the order in which they came.
type stateReturns struct {
	m       *Map
	waiting map[string]*parallelState
}

func newReturns() *stateReturns {
	return &stateReturns{m: NewMap(), waiting: map[string]*parallelState{}}
}

func (s *stateReturns) get(tag string) *Map { return s.m.Map(tag) }

// parallelState is a state that runs in its own goroutine.
type parallelState struct {
	done chan struct{}
	ret  *Map // valid once done is closed
}

// stateRun is one run of states over one set of options.
type stateRun struct {
	c       *Call // with the options of this run
	states  *Loader
	mocked  bool
	stopped bool // failhard

	jid       string
	instance  string
	processed map[string]bool // SLS names that were rendered

	disabledReqs []string
	conditions   *Map // global_state_conditions

	num     int
	nested  int // callChunk within callChunk
	pre     *stateReturns
	active  map[string]bool
	modInit map[string]bool
	noAgg   map[string]bool
	group   sync.WaitGroup
	started *parallelState // begun by the last call
}

// newStateRun prepares a run: c's options are those of the run.
func newStateRun(c *Call) *stateRun {
	r := &stateRun{c: c, states: NewStateLoader(c), jid: c.JID, processed: map[string]bool{}, pre: newReturns(),
		active: map[string]bool{}, modInit: map[string]bool{}, noAgg: map[string]bool{}, disabledReqs: c.Opts.List("disabled_requisites"),
		conditions: c.Opts.Map("global_state_conditions")}
	r.instance = strconv.FormatInt(time.Now().UnixNano(), 10)
	return r
}

// has says whether a state function exists.
func (r *stateRun) has(name string) bool {
	_, err := r.states.Function(context.Background(), r.c, name)
	return err == nil
}

// nextNum is the run number of the return that is made now.
func (r *stateRun) nextNum() int64 {
	n := r.num
	r.num++
	return int64(n)
}

// notRun is the return of a state that was not called.
func (r *stateRun) notRun(low *Map, result any, comment string, timed bool) *Map {
	ret := NewMap("changes", NewMap(), "result", result)
	if timed {
		ret.Set("duration", 0.001)
		ret.Set("start_time", startTime(time.Now()))
	}
	ret.Set("comment", comment)
	ret.Set("__run_num__", int64(r.num))
	for _, k := range []string{"__sls__", "__id__", "name"} {
		ret.Set(k, low.Value(k))
	}
	return ret
}

// startTime writes a time of day as Python's isoformat does.
func startTime(t time.Time) string { return t.Format("15:04:05.000000") }

// milliseconds is a duration as the returns have it.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// callHigh checks, compiles and runs high data: returns by tag, or a list of
// what is wrong.
func (r *stateRun) callHigh(ctx context.Context, high *Map, orchJID string) (any, error) {
	errs := reconcileExtend(high, false)
	errs = append(errs, verifyHigh(high)...)
	if len(errs) > 0 {
		return Strings(errs), nil
	}
	errs = requisiteIn(high, r.disabledReqs)
	applyExclude(high)
	if len(errs) > 0 {
		return Strings(errs), nil
	}
	chunks := compileHigh(high, r.processed, orchJID)
	return r.callLow(ctx, chunks)
}

// callLow runs chunks with their listeners and beacons.
func (r *stateRun) callLow(ctx context.Context, chunks []*Map) (any, error) {
	ret, err := r.callChunks(ctx, chunks)
	if err != nil {
		return nil, err
	}
	if err := r.callListen(ctx, chunks, ret); err != nil {
		return nil, err
	}
	if err := r.callBeacons(ctx, chunks, ret); err != nil {
		return nil, err
	}
	os.Remove(filepath.Join(accumulatorDir(r.c), r.instance))
	if r.jid != "" {
		os.Remove(pausePath(r.c, r.jid))
	}
	return ret, nil
}

// callChunks runs chunks in their order and returns their results by tag.
func (r *stateRun) callChunks(ctx context.Context, chunks []*Map) (*Map, error) {
	out := NewMap()
	if off := toItems(r.c.Grains.Value("state_runs_disabled")); len(off) > 0 {
		chunks = r.withoutDisabled(chunks, off, out)
	}
	x := indexChunks(chunks)
	running := newReturns()
	defer r.group.Wait()
	for _, low := range chunks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !running.m.Has(lowTag(low)) {
			if r.paused(ctx, low) == "kill" {
				break
			}
			if err := r.callChunk(ctx, low, running, x, 0); err != nil {
				return nil, err
			}
			if r.stopped || r.failhard(low, running) {
				r.stopped = false
				r.collectParallel(running, true)
				return running.m, nil
			}
		}
		clear(r.active)
	}
	r.collectParallel(running, true)
	out.Merge(running.m)
	return out, nil
}

// withoutDisabled takes out the chunks that grains disable, with their returns.
func (r *stateRun) withoutDisabled(chunks []*Map, off []any, out *Map) []*Map {
	var left []*Map
next:
	for _, low := range chunks {
		full := low.Str("state") + "." + low.Str("fun")
		for _, p := range off {
			if GlobMatch(Str(p), full) {
				out.Set(lowTag(low), NewMap("changes", NewMap(), "result", false, "comment",
					fmt.Sprintf("The state function \"%[1]s\" is currently disabled by \"%[2]s\", to re-enable, run state.enable %[2]s.", full, Str(p)),
					"__run_num__", r.nextNum(), "__sls__", low.Value("__sls__")))
				continue next
			}
		}
		left = append(left, low)
	}
	return left
}

// failhard says whether the run ends with this chunk.
func (r *stateRun) failhard(low *Map, running *stateReturns) bool {
	if r.c.Testing() {
		return false
	}
	want, ok := low.Get("failhard")
	if !ok {
		want = r.c.Opts.Value("failhard")
	}
	ret := running.get(lowTag(low))
	return Truth(want) && ret != nil && ret.Value("result") != nil && !Truth(ret.Value("result"))
}

// recursive is the return of a chunk whose requisites lead back to it.
func (r *stateRun) recursive(low *Map, running *stateReturns) {
	r.c.Log.Error(fmt.Sprintf("Recursive requisite found: state %s.%s, ID '%s' in SLS '%s' leads back to itself",
		low.Str("state"), low.Str("fun"), Str(low.Value("__id__")), Str(low.Value("__sls__"))))
	running.m.Set(lowTag(low), r.notRun(low, false, "Recursive requisite found", false))
}

// maxChunkDepth is how often a chunk is looked at again after its requisites ran.
const maxChunkDepth = 20

// callChunk runs what a chunk requires, then the chunk. Requisites of an SLS can
// lead round in ways that no check finds; such a run ends with an error.
func (r *stateRun) callChunk(ctx context.Context, low *Map, running *stateReturns, x *chunkIndex, depth int) error {
	r.nested++
	defer func() { r.nested-- }()
	if r.nested > maxChunkDepth*len(x.chunks)+100 {
		return OtherErrorf("RecursionError", "maximum recursion depth exceeded")
	}
	r.aggregate(ctx, low, running, x)
	r.initModule(ctx, low)
	tag := lowTag(low)
	if !Truth(low.Value("prerequired")) {
		r.active[tag] = true
	}
	prereq := Truth(low.Value("__prereq__"))
	status, reqs, err := r.checkRequisite(low, running, x, !prereq)
	if err != nil {
		return err
	}
	call := func() error {
		ret, err := r.call(ctx, low, running, x, 1)
		if err != nil {
			return err
		}
		if prereq {
			r.pre.m.Set(tag, ret)
		} else {
			running.m.Set(tag, ret)
			r.adopt(tag, running)
		}
		return nil
	}
	switch status {
	case "unmet":
		done, err := r.callNeeded(ctx, low, running, x, depth, prereq, tag)
		if err != nil || done {
			return err
		}
	case "fail":
		if ret := r.pre.get(tag); ret != nil {
			if Truth(ret.Value("changes")) {
				ret.Set("changes", NewMap())
			}
			running.m.Set(tag, ret)
			ret.Set("__run_num__", int64(r.num))
			for _, k := range []string{"__sls__", "__id__", "name"} {
				ret.Set(k, low.Value(k))
			}
		} else {
			ret := r.notRun(low, false, "One or more requisite failed: "+r.failedRequisites(reqs, running), true)
			running.m.Set(tag, ret)
			r.pre.m.Set(tag, ret)
		}
		r.num++
	case "change":
		if prereq {
			if err := call(); err != nil {
				return err
			}
			break
		}
		ret, err := r.call(ctx, low, running, x, 1)
		if err != nil {
			return err
		}
		if !Truth(ret.Value("changes")) && !Truth(ret.Value("skip_watch")) {
			again := low.Clone()
			again.Set("sfun", low.Value("fun"))
			again.Set("fun", "mod_watch")
			all := NewMap()
			for _, kind := range checkedRequisites(true) {
				l := NewList()
				for _, c := range reqs[kind] {
					l.Append(c)
				}
				all.Set(kind, l)
			}
			again.Set("__reqs__", all)
			if ret, err = r.call(ctx, again, running, x, 1); err != nil {
				return err
			}
		}
		running.m.Set(tag, ret)
		r.adopt(tag, running)
	case "pre":
		ret := r.notRun(low, true, "No changes detected", true)
		running.m.Set(tag, ret)
		r.pre.m.Set(tag, ret)
		r.num++
	case "onfail", "onchanges":
		comment := "State was not run because onfail req did not change"
		if status == "onchanges" {
			comment = "State was not run because none of the onchanges reqs changed"
		}
		ret := r.notRun(low, true, comment, true)
		ret.Set("__state_ran__", false)
		running.m.Set(tag, ret)
		r.num++
	default:
		if err := call(); err != nil {
			return err
		}
	}
	ret := running.get(tag)
	if ret == nil {
		return nil
	}
	r.event(ctx, ret, len(x.chunks), low.Value("fire_event"))
	r.subStates(low, ret, running)
	return nil
}

// subStates gives the parts of a state that report on their own their returns.
func (r *stateRun) subStates(low, ret *Map, running *stateReturns) {
	subs, ok := ret.Get("sub_state_run")
	if !ok {
		return
	}
	ret.Delete("sub_state_run")
	for _, s := range toItems(subs) {
		sub, ok := s.(*Map)
		if !ok || sub.Map("low") == nil {
			continue
		}
		r.num++
		get := func(key string, def any) any {
			if v, ok := sub.Get(key); ok {
				return v
			}
			return def
		}
		out := NewMap("name", sub.Map("low").Value("name"), "changes", sub.Value("changes"), "result", sub.Value("result"),
			"duration", get("duration", 0.001), "start_time", get("start_time", startTime(time.Now())), "comment", get("comment", ""),
			"__state_ran__", true, "__run_num__", int64(r.num))
		for _, k := range []string{"__sls__", "__id__", "name"} {
			out.Set(k, low.Value(k))
		}
		running.m.Set(lowTag(sub.Map("low")), out)
	}
}

// callNeeded runs the chunks that low waits for and then low itself. done: the
// return is complete and no event of it is due.
func (r *stateRun) callNeeded(ctx context.Context, low *Map, running *stateReturns, x *chunkIndex, depth int, prereq bool, tag string) (bool, error) {
	need, lost := r.neededChunks(low, x)
	if lost.Len() > 0 {
		ret := r.notRun(low, false, lostComment(lost), true)
		if prereq {
			r.pre.m.Set(tag, ret)
		} else {
			running.m.Set(tag, ret)
		}
		r.num++
		r.event(ctx, ret, len(x.chunks), low.Value("fire_event"))
		return true, nil
	}
	for _, c := range need {
		ctag := lowTag(c)
		if running.m.Has(ctag) {
			continue
		}
		if r.active[ctag] {
			if Truth(c.Value("__prerequired__")) {
				if !r.pre.m.Has(tag) {
					low.Set("__prereq__", true)
					ret, err := r.call(ctx, low, running, x, 1)
					if err != nil {
						return true, err
					}
					r.pre.m.Set(ctag, ret)
				}
				return true, nil
			}
			r.recursive(low, running)
			r.num++
			r.event(ctx, running.get(tag), len(x.chunks), low.Value("fire_event"))
			return true, nil
		}
		if err := r.callChunk(ctx, c, running, x, 0); err != nil {
			return true, err
		}
		if r.stopped || r.failhard(c, running) {
			r.stopped = true
			return true, nil
		}
	}
	if Truth(low.Value("__prereq__")) {
		status, _, err := r.checkRequisite(low, running, x, false)
		if err != nil {
			return true, err
		}
		if status == "pre" {
			ret := r.notRun(low, true, "No changes detected", true)
			ret.Set("__state_ran__", false)
			r.pre.m.Set(tag, ret)
			r.num++
		} else {
			ret, err := r.call(ctx, low, running, x, 1)
			if err != nil {
				return true, err
			}
			r.pre.m.Set(tag, ret)
			if !Truth(ret.Value("changes")) && status == "change" {
				ret.Set("changes", NewMap("watch", "watch"))
				ret.Set("result", nil)
			}
		}
	} else if depth++; depth >= maxChunkDepth {
		r.recursive(low, running)
	} else {
		// That call has told about the return, too.
		if err := r.callChunk(ctx, low, running, x, depth); err != nil {
			return true, err
		}
		r.stopped = r.stopped || len(need) > 0 && r.failhard(need[len(need)-1], running)
		return true, nil
	}
	if len(need) > 0 && r.failhard(need[len(need)-1], running) {
		r.stopped = true
		return true, nil
	}
	return false, nil
}

// event tells the master about a state that has run.
func (r *stateRun) event(ctx context.Context, ret *Map, total int, fire any) {
	if r.c.Master == nil || r.jid == "" || !r.c.Opts.Bool("state_events") && !Truth(fire) {
		return
	}
	id := r.c.Opts.Str("id")
	data := NewMap("ret", ret, "jid", r.jid)
	var tag string
	switch fire := fire.(type) {
	case string:
		tag = strings.Join([]string{"salt", "state_result", r.jid, id, fire}, "/")
	case bool:
		tag = strings.Join([]string{"salt", "state_result", r.jid, id, Str(ret.Value("name"))}, "/")
	default:
		tag = strings.Join([]string{"salt", "job", r.jid, "prog", id, Str(ret.Value("__run_num__"))}, "/")
		data.Set("len", int64(total))
	}
	if err := r.c.Master.FireEvent(ctx, tag, data); err != nil {
		r.c.Log.Warn(fmt.Sprintf("tell the master about state %s: %v", Str(ret.Value("name")), err))
	}
}

// aggregate lets a module join a chunk with later ones of its kind.
func (r *stateRun) aggregate(ctx context.Context, low *Map, running *stateReturns, x *chunkIndex) {
	state := low.Str("state")
	want := r.c.Opts.Value("state_aggregate")
	if v, ok := low.Get("aggregate"); ok {
		want = v
	}
	switch w := want.(type) {
	case bool:
		if !w {
			return
		}
	case *List:
		if !containsText(texts(w), state) {
			return
		}
	default:
		return
	}
	if Truth(low.Value("__agg__")) || r.noAgg[state] {
		return
	}
	f, err := r.states.Function(ctx, r.c, state+".mod_aggregate")
	if err != nil {
		r.noAgg[state] = true
		return
	}
	low.Set("__agg__", true)
	chunks := NewList()
	for _, c := range x.chunks {
		chunks.Append(c)
	}
	v, err := f.Invoke(ctx, r.c, []any{low, chunks, running.m}, nil)
	if err != nil {
		r.c.Log.Error(fmt.Sprintf("Failed to execute aggregate for state %s: %v", state, err))
		return
	}
	if m, ok := v.(*Map); ok && m != low {
		low.Merge(m)
	}
	joined := NewMap()
	for _, c := range x.chunks {
		if c.Value("state") != state || !Truth(c.Value("__agg__")) || Equal(c.Value("name"), low.Value("name")) {
			continue
		}
		for k, v := range c.All() {
			if key := Str(k); requisiteKeyword(key) || requisiteInKeyword(key) {
				if have := joined.List(key); have != nil {
					have.Append(toItems(v)...)
				} else {
					joined.Set(key, NewList(toItems(v)...))
				}
			}
		}
	}
	low.Merge(joined)
}

// initModule calls a module's mod_init until it says that it is done.
func (r *stateRun) initModule(ctx context.Context, low *Map) {
	state := low.Str("state")
	if r.modInit[state] || !r.has(state+"."+low.Str("fun")) {
		return
	}
	f, err := r.states.Function(ctx, r.c, state+".mod_init")
	if err != nil {
		r.modInit[state] = true
		return
	}
	if v, err := f.Invoke(ctx, r.c, []any{low}, nil); err == nil && Truth(v) {
		r.modInit[state] = true
	}
}

// invoke calls a state function; a panic is the failure of one state.
func (r *stateRun) invoke(ctx context.Context, c *Call, f Function, full string, kwargs *Map) (ret any, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.Log.Error(fmt.Sprintf("%s: panic: %v\n%s", full, p, debug.Stack()))
			ret, err = nil, &ModuleError{Kind: ErrOther, Class: "RuntimeError", Msg: fmt.Sprint(p)}
		}
	}()
	return f.Invoke(ctx, c, nil, kwargs)
}
