// State modules beacon and http: what the minion watches, and what a web server
// answers.
package main

import (
	"context"
	"strings"
	"time"
)

func beaconStates() Module {
	return Module{
		Doc: "Beacons of the minion.",
		Funcs: Funcs{
			"present":  {run: beaconStatePresent, doc: "The beacon is set up with these options; save keeps it over a restart."},
			"absent":   {run: beaconStateAbsent, doc: "There is no such beacon."},
			"enabled":  {run: beaconStateEnabled, doc: "The beacon is enabled."},
			"disabled": {run: beaconStateDisabled, doc: "The beacon is disabled."},
		},
	}
}

type beaconStateArgs struct {
	Name   string
	Save   any  `def:"False"`
	Kwargs *Map `arg:"**kwargs"`
}

// beaconWork changes the beacons and reports; stop says that it failed.
func beaconWork(ctx context.Context, c *Call, ret *Map, fun string, args []any, kw *Map, did string, changes bool) (stop bool, err error) {
	kw = kw.Clone()
	if c.Testing() {
		kw.Set("test", true)
	}
	v, err := c.RunKw(ctx, fun, args, kw)
	if err != nil {
		return false, err
	}
	res, _ := v.(*Map)
	comment := ret.List("comment")
	switch made, ok := res.Get("changes"); {
	case c.Testing():
		comment.Append(Str(res.Value("comment")))
		if changes && ok {
			ret.Set("changes", made)
		}
	case !Truth(res.Value("result")):
		ret.Set("result", res.Value("result"))
		ret.Set("comment", res.Value("comment"))
		return true, nil
	case changes && ok:
		comment.Append(did)
		ret.Set("changes", made)
	case changes:
		comment.Append(Str(res.Value("comment")))
	default:
		comment.Append(did)
	}
	return false, nil
}

func currentBeacons(ctx context.Context, c *Call, kw *Map) (*Map, error) {
	kw = kw.Clone()
	kw.Set("return_yaml", false)
	v, err := c.RunKw(ctx, "beacons.list", nil, kw)
	if err != nil {
		return nil, err
	}
	m, _ := v.(*Map)
	return m, nil
}

// beaconDone ends a state: beacons are saved, the comment becomes one text.
func beaconDone(ctx context.Context, c *Call, ret *Map, name string, save any) (any, error) {
	comment := ret.List("comment")
	switch {
	case !Truth(save):
	case c.Testing():
		comment.Append("Beacon " + name + " would be saved")
	default:
		if _, err := c.Run(ctx, "beacons.save"); err != nil {
			return nil, err
		}
		comment.Append("Beacon " + name + " saved")
	}
	ret.Set("comment", joinTexts(comment.Items, "\n"))
	return ret, nil
}

func beaconStatePresent(ctx context.Context, c *Call, a beaconStateArgs) (any, error) {
	ret := NewMap("name", a.Name, "result", true, "changes", NewMap(), "comment", NewList())
	have, err := currentBeacons(ctx, c, a.Kwargs)
	if err != nil {
		return nil, err
	}
	data := NewList(pairs(a.Kwargs)...)
	stop := false
	switch old, ok := have.Get(a.Name); {
	case ok && Equal(old, data):
		ret.List("comment").Append("Job " + a.Name + " in correct state")
	case ok:
		stop, err = beaconWork(ctx, c, ret, "beacons.modify", []any{a.Name, data}, a.Kwargs, "Modifying "+a.Name+" in beacons", true)
	default:
		stop, err = beaconWork(ctx, c, ret, "beacons.add", []any{a.Name, data}, a.Kwargs, "Adding "+a.Name+" to beacons", false)
	}
	if err != nil || stop {
		return ret, err
	}
	return beaconDone(ctx, c, ret, a.Name, a.Save)
}

func beaconStateAbsent(ctx context.Context, c *Call, a beaconStateArgs) (any, error) {
	return beaconStateOf(ctx, c, a, "beacons.delete", "Removed "+a.Name+" from beacons", a.Name+" not configured in beacons")
}

func beaconStateEnabled(ctx context.Context, c *Call, a stateKwargsNamed) (any, error) {
	return beaconStateOf(ctx, c, beaconStateArgs{Name: a.Name, Kwargs: a.Kwargs}, "beacons.enable_beacon",
		"Enabled "+a.Name+" from beacons", a.Name+" not a configured beacon")
}

func beaconStateDisabled(ctx context.Context, c *Call, a stateKwargsNamed) (any, error) {
	return beaconStateOf(ctx, c, beaconStateArgs{Name: a.Name, Kwargs: a.Kwargs}, "beacons.disable_beacon",
		"Disabled beacon "+a.Name+".", "Job "+a.Name+" is not configured.")
}

func beaconStateOf(ctx context.Context, c *Call, a beaconStateArgs, fun, did, none string) (any, error) {
	ret := NewMap("name", a.Name, "result", true, "changes", NewMap(), "comment", NewList())
	have, err := currentBeacons(ctx, c, a.Kwargs)
	if err != nil {
		return nil, err
	}
	if !have.Has(a.Name) {
		ret.List("comment").Append(none)
	} else if stop, err := beaconWork(ctx, c, ret, fun, []any{a.Name}, a.Kwargs, did, false); err != nil || stop {
		return ret, err
	}
	return beaconDone(ctx, c, ret, a.Name, a.Save)
}

func httpStates() Module {
	return Module{
		Doc: "What a web server answers.",
		Funcs: Funcs{
			"query":                     {run: httpStateQuery, doc: "The answer has a text (match) or a status code (status). match_type: string or pcre; status_type: string, list or pcre."},
			"wait_for_successful_query": {run: httpStateWait, doc: "As query, asked again until it is so, for wait_for seconds."},
		},
	}
}

type httpStateArgs struct {
	Name       string
	Match      any  `def:"None"`
	MatchType  any  `def:"string"`
	Status     any  `def:"None"`
	StatusType any  `def:"string"`
	WaitFor    any  `def:"None"`
	Kwargs     *Map `arg:"**kwargs"`
}

func searchText(pattern, text string) (bool, error) {
	re, err := CompilePython(pattern, 0)
	if err != nil {
		return false, OtherErrorf("re.error", "%v", err)
	}
	m, err := re.Search(text)
	return m != nil, err
}

func httpStateQuery(ctx context.Context, c *Call, a httpStateArgs) (any, error) {
	ret := NewMap("name", a.Name, "result", nil, "comment", "", "changes", NewMap(), "data", NewMap())
	if a.Match == nil && a.Status == nil {
		return stateSay(ret, false, " Either match text (match) or a status code (status) is required.")
	}
	kw := a.Kwargs.Clone()
	if !kw.Has("decode") {
		kw.Set("decode", false)
	}
	kw.Set("text", true)
	kw.Set("status", true)
	if c.Testing() {
		kw.Set("test", true)
	}
	fun := "http.query"
	if Truth(a.WaitFor) {
		fun = "http.wait_for_successful_query"
		kw.Set("wait_for", a.WaitFor)
	}
	v, err := c.RunKw(ctx, fun, []any{a.Name}, kw)
	if err != nil {
		return nil, err
	}
	data, _ := v.(*Map)
	part := func(key string) string {
		if v, ok := data.Get(key); ok {
			return Str(v)
		}
		return ""
	}
	var result any
	comment := ""
	if a.Match != nil {
		found, kind := false, ""
		switch a.MatchType {
		case "string":
			found, kind = strings.Contains(part("text"), Str(a.Match)), "text"
		case "pcre":
			kind = "pattern"
			if found, err = searchText(Str(a.Match), part("text")); err != nil {
				return nil, err
			}
		}
		if kind != "" {
			result = found
			comment += " Match " + kind + " \"" + Str(a.Match) + "\" was " + notFound(found)
		}
	}
	if a.Status != nil {
		status := part("status")
		set := func(found bool, what string) {
			comment += " " + what + " was " + notFound(found)
			if !found {
				result = false
			} else if result == nil {
				result = true
			}
		}
		switch a.StatusType {
		case "list":
			for _, s := range toItems(a.Status) {
				if Str(s) == status {
					set(true, "Status "+Str(s))
				}
			}
			if result != true {
				comment += " Statuses " + Str(a.Status) + " were not found."
				result = false
			}
		case "pcre":
			found, err := searchText(Str(a.Status), status)
			if err != nil {
				return nil, err
			}
			set(found, "Status pattern \""+Str(a.Status)+"\"")
		case "string":
			set(status == Str(a.Status), "Status "+Str(a.Status))
		}
	}
	comment = strings.TrimSpace(comment)
	if c.Testing() {
		result = nil
		comment += " (TEST MODE"
		if v, ok := kw.Get("test_url"); ok {
			comment += ", TEST URL WAS: " + Str(v)
		}
		comment += ")"
	}
	ret.Set("data", data)
	return stateSay(ret, result, "%s", comment)
}

func notFound(found bool) string {
	if found {
		return "found."
	}
	return "not found."
}

func httpStateWait(ctx context.Context, c *Call, a struct {
	Name    string
	WaitFor float64 `def:"300"`
	Kwargs  *Map    `arg:"**kwargs"`
}) (any, error) {
	end := time.Now().Add(time.Duration(a.WaitFor * float64(time.Second)))
	kw := a.Kwargs.Clone()
	kw.Set("name", a.Name)
	pause := time.Duration(0)
	if n, ok := toFloat(a.Kwargs.Value("request_interval")); ok {
		pause = time.Duration(n * float64(time.Second))
	}
	for {
		v, err := callState(ctx, c, "http.query", kw.Clone())
		if m, ok := v.(*Map); err == nil && ok && Truth(m.Value("result")) {
			return m, nil
		}
		if time.Now().After(end) {
			return v, err
		}
		// A server that refuses at once is not asked without a break.
		if !sleepContext(ctx, max(pause, 100*time.Millisecond)) {
			return nil, ctx.Err()
		}
	}
}
