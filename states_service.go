// State module service: what runs, and what starts at boot.
package main

import (
	"context"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

func serviceStates() Module {
	return Module{
		Doc: "Services: whether they run, and whether they start at boot.",
		Virtual: func(ctx context.Context, c *Call) (bool, string) {
			system := c.Grains.Str("osfinger")
			if system == "" {
				system = c.Grains.Str("os")
			}
			return c.Has(ctx, "service.start"), "No service execution module loaded: check support for service management on " + system + " "
		},
		Funcs: Funcs{
			"running":    {run: serviceStateRunning, doc: "The service runs; enable says whether it starts at boot. A watched change restarts it, or reloads with reload."},
			"dead":       {run: serviceStateDead, doc: "The service does not run; enable says whether it starts at boot."},
			"enabled":    {run: serviceStateEnabled, doc: "The service starts at boot."},
			"disabled":   {run: serviceStateDisabled, doc: "The service does not start at boot."},
			"masked":     {run: serviceStateMasked, doc: "The service cannot be started."},
			"unmasked":   {run: serviceStateUnmasked, doc: "The service can be started."},
			"mod_watch":  {run: serviceStateWatch, doc: "Restart or reload the service because a watched state has changed."},
			"mod_beacon": {run: serviceStateBeacon, doc: "Add a beacon that watches the service."},
		},
	}
}

// dataTrue is Salt's reading of a switch: numbers above 0, the text true, and
// what Python holds for true.
func dataTrue(v any) bool {
	s, ok := v.(string)
	if !ok {
		if n, num := toFloat(v); num && v != nil {
			return n > 0
		}
		return Truth(v)
	}
	if n, err := strconv.ParseFloat(strings.TrimSpace(s), 64); err == nil {
		return n > 0
	}
	return strings.EqualFold(s, "true")
}

// systemdOnly picks the arguments that only functions for systemd take, and
// warns on boxes without it.
func systemdOnly(ctx context.Context, c *Call, ret *Map, fun string, kwargs *Map) *Map {
	out := NewMap()
	f, err := c.Loader.Function(ctx, c, fun)
	if err != nil {
		return out
	}
	for _, name := range []string{"no_block", "unmask", "unmask_runtime"} {
		v, ok := kwargs.Get(name)
		if !ok || !hasParam(f, name) {
			continue
		}
		if pathExists("/run/systemd/system") {
			out.Set(name, v)
			continue
		}
		warnings := ret.List("warnings")
		if warnings == nil {
			warnings = NewList()
			ret.Set("warnings", warnings)
		}
		if text := "The '" + name + "' argument is not supported by this platform"; !hasItem(warnings.Items, text) {
			warnings.Append(text)
		}
	}
	return out
}

// serviceOffline says whether the box has systemd and was not booted with it, as
// an image that is being built: nothing can be started then.
func serviceOffline(ctx context.Context, c *Call) (bool, error) {
	if c.Has(ctx, "service.offline") {
		return runTruth(ctx, c, "service.offline")
	}
	_, err := exec.LookPath("systemctl")
	return err == nil && !pathExists("/run/systemd/system"), nil
}

// serviceKnown says whether there is such a service; if not, ret says so.
func serviceKnown(ctx context.Context, c *Call, name string, ret *Map) (bool, error) {
	known := false
	switch {
	case c.Has(ctx, "service.available"):
		v, err := runTruth(ctx, c, "service.available", name)
		if err != nil {
			return false, err
		}
		known = v
	case c.Has(ctx, "service.get_all"):
		all, err := runItems(ctx, c, "service.get_all")
		if err != nil {
			return false, err
		}
		known = hasItem(all, name)
	}
	if !known {
		ret.Set("result", false)
		ret.Set("comment", "The named service "+name+" is not available")
	}
	return known, nil
}

func serviceBad(ret *Map, err error) (*Map, error) {
	if !isExecError(err) {
		return nil, err
	}
	ret.Set("result", false)
	ret.Set("comment", errText(err))
	return ret, nil
}

// serviceBootWords are the ways to speak of a service whose start at boot is
// looked at, by whether it was started (true), is dead (false) or was left as
// it is (nil).
func byStarted(started any, yes, unchanged, no string) string {
	switch {
	case started == true:
		return yes
	case started == nil:
		return unchanged
	}
	return no
}

// serviceBoot switches the start at boot on or off. What it returns goes over
// the state's return.
func serviceBoot(ctx context.Context, c *Call, name string, on bool, started, result any, kwargs *Map) (*Map, error) {
	ret := NewMap()
	verb, look := "enable", "service.enabled"
	if !on {
		verb, look = "disable", "service.disabled"
	}
	known, err := serviceKnown(ctx, c, name, ret)
	if err != nil {
		return serviceBad(ret, err)
	}
	if !known {
		if !on {
			ret.Set("result", true)
		}
		return ret, nil
	}
	ret.Set("result", result)
	say := func(format string) (*Map, error) {
		ret.Set("comment", strings.ReplaceAll(format, "%s", name))
		return ret, nil
	}
	if !c.Has(ctx, "service."+verb) || !c.Has(ctx, look) {
		return say(strings.ToUpper(verb[:1]) + verb[1:] + " is not available on this minion, service %s " +
			byStarted(started, "started", "is in the desired state", "is dead"))
	}
	lookKw := NewMap()
	if on {
		lookKw = kwargs
	}
	state := func() (any, error) { return c.RunKw(ctx, look, []any{name}, lookKw.Clone()) }
	before, err := state()
	if err != nil {
		return nil, err
	}
	tail := byStarted(started, "and is running", "and is in the desired state", "and is dead")
	if Truth(before) {
		if started == nil {
			ret.Set("changes", NewMap())
		}
		return say("Service %s is already " + verb + "d, " + tail)
	}
	if c.Testing() {
		ret.Set("result", nil)
		return say("Service %s set to be " + verb + "d")
	}
	done, err := c.RunKw(ctx, "service."+verb, []any{name}, kwargs.Clone())
	more := ""
	if err != nil {
		if !on || !isExecError(err) {
			return nil, err
		}
		more = ". Additional information follows:\n\n" + errText(err)
	}
	if err == nil && Truth(done) {
		ret.Set("changes", NewMap())
		after, err := state()
		if err != nil {
			return nil, err
		}
		if !Equal(before, after) {
			ret.Map("changes").Set(name, true)
		}
		return say("Service %s has been " + verb + "d, " + tail)
	}
	ret.Set("result", false)
	if on {
		return say("Failed when setting service %s to start at boot, " +
			byStarted(started, "but the service is running", "but the service was already running", "and the service is dead") + more)
	}
	return say("Failed when setting service %s to not start at boot, " +
		byStarted(started, "and is running", "but the service was already running", "and the service is dead"))
}

type serviceStateArgs struct {
	Name      string
	Enable    any  `def:"None"`
	Sig       any  `def:"None"`
	InitDelay any  `def:"None"`
	Kwargs    *Map `arg:"**kwargs"`
}

// serviceWork is a service.running or service.dead on its way.
type serviceWork struct {
	a                  serviceStateArgs
	run                bool // it is to run
	name               string
	ret                *Map
	enable             any
	statusKw           *Map
	before, bootBefore any
	unmask             string // what unmasking it said
}

// serviceSet brings a service to run, or not to.
func serviceSet(ctx context.Context, c *Call, a serviceStateArgs, run bool) (any, error) {
	c.ContextSet("service.state", map[bool]string{true: "running", false: "dead"}[run])
	w := &serviceWork{a: a, run: run, name: a.Name, ret: stateReturn(a.Name, true, ""), enable: a.Enable}
	if s, ok := a.Enable.(string); ok {
		w.enable = dataTrue(s)
	}
	return runSteps(ctx, c, w.check, w.look, w.setUnmasked, w.compare, w.act, w.report)
}

// check ends the state where there is no such service, or none at all.
func (w *serviceWork) check(ctx context.Context, c *Call) (any, error) {
	if w.a.Kwargs.Has("enabled") {
		return stateSay(w.ret, false, "Service %s uses non-existent option \"enabled\".  Perhaps \"enable\" option was intended?", w.name)
	}
	off, err := serviceOffline(ctx, c)
	if err != nil {
		return nil, err
	}
	if off {
		return stateSay(w.ret, true, "Running in OFFLINE mode. Nothing to do")
	}
	known, err := serviceKnown(ctx, c, w.name, w.ret)
	switch {
	case err != nil:
		return serviceBad(w.ret, err)
	case known:
		return nil, nil
	case c.Testing():
		return stateSay(w.ret, nil, "Service %s not present; if created in this state run, it would have been %s", w.name,
			map[bool]string{true: "started", false: "stopped"}[w.run])
	case !w.run:
		w.ret.Set("result", true)
	}
	return w.ret, nil
}

// look learns whether the service runs and whether it starts at boot.
func (w *serviceWork) look(ctx context.Context, c *Call) (any, error) {
	w.statusKw = systemdOnly(ctx, c, w.ret, "service.status", w.a.Kwargs)
	var err error
	w.before, w.bootBefore, err = w.status(ctx, c)
	return nil, err
}

func (w *serviceWork) status(ctx context.Context, c *Call) (runs, boots any, err error) {
	if runs, err = c.RunKw(ctx, "service.status", []any{w.name, w.a.Sig}, w.statusKw.Clone()); err != nil {
		return nil, nil, err
	}
	if !c.Has(ctx, "service.enabled") {
		return runs, true, nil
	}
	boots, err = c.Run(ctx, "service.enabled", w.name)
	return runs, boots, err
}

func (w *serviceWork) setUnmasked(ctx context.Context, c *Call) (any, error) {
	if !w.run || !Truth(w.a.Kwargs.Value("unmask")) {
		return nil, nil
	}
	v, err := serviceMask(ctx, c, w.name, w.a.Kwargs.Value("unmask_runtime"), false)
	if err != nil {
		return nil, err
	}
	w.unmask = Str(v.(*Map).Value("comment"))
	return nil, nil
}

func (w *serviceWork) withUnmask(s string) string {
	if w.unmask != "" {
		return s + "\n" + w.unmask
	}
	return s
}

// boot sets whether the service starts at boot, if that is asked for.
func (w *serviceWork) boot(ctx context.Context, c *Call, started, result any) error {
	if w.enable != true && w.enable != false {
		return nil
	}
	upd, err := serviceBoot(ctx, c, w.name, w.enable == true, started, result, w.a.Kwargs)
	if err == nil {
		w.ret.Merge(upd)
	}
	return err
}

// compare ends the state of a service that is as wanted, and a dry run.
func (w *serviceWork) compare(ctx context.Context, c *Call) (any, error) {
	switch {
	case Truth(w.before) == w.run:
		if w.run {
			w.ret.Set("comment", w.withUnmask("The service "+w.name+" is already running"))
		} else {
			w.ret.Set("comment", "The service "+w.name+" is already dead")
		}
		if w.enable == true && !Truth(w.bootBefore) || w.enable == false && Truth(w.bootBefore) {
			return w.ret, w.boot(ctx, c, nil, true)
		}
		return w.ret, nil
	case !c.Testing():
		return nil, nil
	case w.run:
		return stateSay(w.ret, nil, "%s", w.withUnmask("Service "+w.name+" is set to start"))
	}
	return stateSay(w.ret, nil, "Service %s is set to be killed", w.name)
}

// failure is the comment on a service that does not do as it is told.
func (w *serviceWork) failure() string {
	if w.run {
		return "Service " + w.name + " failed to start"
	}
	return "Service " + w.name + " failed to die"
}

// act starts or stops the service.
func (w *serviceWork) act(ctx context.Context, c *Call) (any, error) {
	fun := "service.start"
	if !w.run {
		fun = "service.stop"
	}
	done, err := c.RunKw(ctx, fun, []any{w.name}, systemdOnly(ctx, c, w.ret, fun, w.a.Kwargs))
	switch {
	case err != nil && w.run:
		return serviceBad(w.ret, err)
	case err != nil:
		return nil, err
	case !Truth(done):
		w.ret.Set("result", false)
		w.ret.Set("comment", w.failure())
		return w.ret, w.boot(ctx, c, !w.run, false)
	}
	return nil, serviceDelay(ctx, w.a.InitDelay)
}

// report ends the state with what the service does now.
func (w *serviceWork) report(ctx context.Context, c *Call) (any, error) {
	after, bootAfter, err := w.status(ctx, c)
	if err != nil {
		return nil, err
	}
	if !Equal(w.bootBefore, bootAfter) || !Equal(w.before, after) {
		w.ret.Map("changes").Set(w.name, after)
	}
	switch {
	case Truth(after) != w.run:
		w.ret.Set("result", false)
		w.ret.Set("comment", w.failure())
	case w.run:
		w.ret.Set("comment", "Started service "+w.name)
	default:
		w.ret.Set("comment", "Service "+w.name+" was killed")
	}
	result := after
	if !w.run {
		result = !Truth(after)
	}
	if err := w.boot(ctx, c, after, result); err != nil {
		return nil, err
	}
	if w.run && Truth(w.a.InitDelay) {
		w.ret.Set("comment", Str(w.ret.Value("comment"))+"\nDelayed return for "+Str(w.a.InitDelay)+" seconds")
	}
	if w.run && Truth(w.a.Kwargs.Value("unmask")) {
		w.ret.Set("comment", Str(w.ret.Value("comment"))+"\n"+w.unmask)
	}
	return w.ret, nil
}

// serviceDelay waits as long as a service takes to come up.
func serviceDelay(ctx context.Context, delay any) error {
	if n, ok := toFloat(delay); ok && n > 0 && !sleepContext(ctx, time.Duration(n*float64(time.Second))) {
		return ctx.Err()
	}
	return nil
}

func serviceStateRunning(ctx context.Context, c *Call, a serviceStateArgs) (any, error) {
	return serviceSet(ctx, c, a, true)
}

func serviceStateDead(ctx context.Context, c *Call, a serviceStateArgs) (any, error) {
	return serviceSet(ctx, c, a, false)
}

func serviceStateEnabled(ctx context.Context, c *Call, a stateKwargsNamed) (any, error) {
	ret := stateReturn(a.Name, true, "")
	c.ContextSet("service.state", "enabled")
	upd, err := serviceBoot(ctx, c, a.Name, true, nil, true, a.Kwargs)
	if err != nil {
		return nil, err
	}
	ret.Merge(upd)
	if c.Testing() && ret.Str("comment") == "The named service "+a.Name+" is not available" {
		return stateSay(ret, nil, "Service %s not present; if created in this state run, it would have been enabled", a.Name)
	}
	return ret, nil
}

func serviceStateDisabled(ctx context.Context, c *Call, a stateKwargsNamed) (any, error) {
	ret := stateReturn(a.Name, true, "")
	c.ContextSet("service.state", "disabled")
	upd, err := serviceBoot(ctx, c, a.Name, false, nil, true, a.Kwargs)
	if err != nil {
		return nil, err
	}
	ret.Merge(upd)
	return ret, nil
}

type serviceMaskArgs struct {
	Name    string
	Runtime any `def:"False"`
}

func serviceStateMasked(ctx context.Context, c *Call, a serviceMaskArgs) (any, error) {
	return serviceMask(ctx, c, a.Name, a.Runtime, true)
}

func serviceStateUnmasked(ctx context.Context, c *Call, a serviceMaskArgs) (any, error) {
	return serviceMask(ctx, c, a.Name, a.Runtime, false)
}

func serviceMask(ctx context.Context, c *Call, name string, runtime any, mask bool) (any, error) {
	ret := stateReturn(name, true, "")
	if !c.Has(ctx, "service.masked") {
		return stateSay(ret, false, "Service masking not available on this minion")
	}
	if runtime == nil {
		runtime = false
	}
	kind, action, is, fun, verb := "masked", "masked", "is already ", "service.mask", "mask"
	if !mask {
		action, is, fun, verb = "unmasked", "was already ", "service.unmask", "unmask"
	}
	if Truth(runtime) {
		kind, action = "runtime "+kind, "runtime "+action
	}
	changes := NewMap(kind, oldNew(!mask, mask))
	have, err := runTruth(ctx, c, "service.masked", name, runtime)
	if err == nil {
		switch {
		case have == mask:
			return stateSay(ret, true, "Service %s %s%s", name, is, action)
		case c.Testing():
			ret.Set("changes", changes)
			return stateSay(ret, nil, "Service %s would be %s", name, action)
		}
		_, err = c.Run(ctx, fun, name, runtime)
	}
	if err == nil {
		have, err = runTruth(ctx, c, "service.masked", name, runtime)
	}
	if err != nil {
		m, err := serviceBad(ret, err)
		if err != nil {
			return nil, err
		}
		return m, nil
	}
	if have != mask {
		return stateSay(ret, true, "Failed to %s service %s", verb, name)
	}
	ret.Set("changes", changes)
	return stateSay(ret, true, "Service %s was %s", name, action)
}

func serviceStateWatch(ctx context.Context, c *Call, a struct {
	Name        string
	Sfun        any  `def:"None"`
	Sig         any  `def:"None"`
	Reload      any  `def:"False"`
	FullRestart any  `def:"False"`
	InitDelay   any  `def:"None"`
	Force       any  `def:"False"`
	Kwargs      *Map `arg:"**kwargs"`
}) (any, error) {
	ret := stateReturn(a.Name, true, "")
	if !slices.Contains([]string{"dead", "running"}, Str(a.Sfun)) {
		return stateSay(ret, false, "Unable to trigger watch for service.%s", Str(a.Sfun))
	}
	up, err := c.RunKw(ctx, "service.status", []any{a.Name, a.Sig}, systemdOnly(ctx, c, ret, "service.status", a.Kwargs))
	if err != nil {
		return nil, err
	}
	var fun, verb string
	did := ""
	switch {
	case a.Sfun == "dead" && !Truth(up):
		return stateSay(ret, true, "Service is already stopped")
	case a.Sfun == "dead":
		fun, verb, did = "stop", "stop", "stopped"
	case !Truth(up):
		fun, verb = "start", "start"
	case c.Has(ctx, "service.reload") && Truth(a.Reload):
		fun, verb = "reload", "reload"
		if c.Has(ctx, "service.force_reload") && Truth(a.Force) {
			fun, verb = "force_reload", "forcefully reload"
		}
	case c.Has(ctx, "service.full_restart") && Truth(a.FullRestart):
		fun, verb = "full_restart", "fully restart"
	default:
		fun, verb = "restart", "restart"
	}
	if did == "" {
		did = verb + "ed"
	}
	if c.Testing() {
		return stateSay(ret, nil, "Service is set to be %s", did)
	}
	if verb == "start" && c.Has(ctx, "service.stop") {
		if _, err := c.Run(ctx, "service.stop", a.Name); err != nil {
			return nil, err
		}
	}
	result, err := c.RunKw(ctx, "service."+fun, []any{a.Name}, systemdOnly(ctx, c, ret, "service."+fun, a.Kwargs))
	if err != nil {
		m, err := serviceBad(ret, err)
		if err != nil {
			return nil, err
		}
		return m, nil
	}
	if err := serviceDelay(ctx, a.InitDelay); err != nil {
		return nil, err
	}
	ret.Set("changes", NewMap(a.Name, result))
	if Truth(result) {
		return stateSay(ret, result, "Service %s", did)
	}
	return stateSay(ret, result, "Failed to %s the service", verb)
}

func serviceStateBeacon(ctx context.Context, c *Call, a stateKwargsNamed) (any, error) {
	sfun := a.Kwargs.Str("sfun")
	ret := NewMap("name", a.Name, "changes", NewMap(), "comment", "", "result", true)
	if sfun != "running" && sfun != "dead" {
		return stateSay(ret, false, "service.%s does not work with the beacon state function", sfun)
	}
	if !Truth(a.Kwargs.Value("beacon")) {
		return stateSay(ret, true, "Not adding beacon.")
	}
	d := a.Kwargs.Map("beacon_data")
	data := NewMap("onchangeonly", kwargOf(d, "onchangeonly", true), "delay", kwargOf(d, "delay", int64(0)),
		"emitatstartup", kwargOf(d, "emitatstartup", false), "uncleanshutdown", kwargOf(d, "emitatstartup", nil))
	return callState(ctx, c, "beacon.present", NewMap("name", "beacon_service_"+a.Name, "services", NewMap(a.Name, data),
		"interval", kwargOf(d, "interval", int64(60)), "beacon_module", "service"))
}
