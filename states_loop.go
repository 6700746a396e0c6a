// State module loop: waiting until an execution function answers as wanted.
package main

import (
	"context"
	"strings"
	"time"
)

func loopStates() Module {
	return Module{
		Doc: "Waiting until an execution function answers as wanted.",
		Funcs: Funcs{
			"until":         {run: loopUntil, doc: "Call the function name until condition, an expression about m_ret, is true; every period seconds, for timeout seconds."},
			"until_no_eval": {run: loopUntilNoEval, doc: "Call the function name until it answers what is expected. compare_operator is eq, ne, lt, le, gt, ge, contains or an execution function."},
		},
	}
}

// loopTimes are how long a loop goes on, in seconds.
type loopTimes struct{ period, timeout time.Duration }

// loopSeconds reads period and timeout; problem says what is no number.
func loopSeconds(period, timeout any) (t loopTimes, problem string) {
	for _, v := range []struct {
		name string
		from any
		to   *time.Duration
	}{{"Period", period, &t.period}, {"Timeout", timeout, &t.timeout}} {
		seconds, ok := toFloat(v.from)
		if _, text := v.from.(string); text || !ok {
			return t, v.name + " must be specified as a float in seconds"
		}
		*v.to = time.Duration(seconds * float64(time.Second))
	}
	return t, ""
}

// repeat calls try until it says that it is done; false if the time was over before.
func (t loopTimes) repeat(ctx context.Context, try func() (done bool, err error)) (bool, error) {
	for end := time.Now().Add(t.timeout); time.Now().Before(end); {
		if done, err := try(); done || err != nil {
			return done, err
		}
		if !sleepContext(ctx, t.period) {
			return false, ctx.Err()
		}
	}
	return false, nil
}

func loopUntil(ctx context.Context, c *Call, a struct {
	Name      string
	MArgs     any `def:"None"`
	MKwargs   any `def:"None"`
	Condition any `def:"None"`
	Period    any `def:"1"`
	Timeout   any `def:"60"`
}) (any, error) {
	ret := stateReturn(a.Name, false, "")
	times, problem := loopSeconds(a.Period, a.Timeout)
	switch {
	case !c.Has(ctx, a.Name):
		return stateSay(ret, false, "Cannot find module %s", a.Name)
	case a.Condition == nil:
		return stateSay(ret, false, "An exit condition must be specified")
	case problem != "":
		return stateSay(ret, false, "%s", problem)
	case c.Testing():
		return stateSay(ret, nil, "The execution module %s will be run", a.Name)
	}
	kwargs, _ := a.MKwargs.(*Map)
	condition := Str(a.Condition)
	met, err := times.repeat(ctx, func() (bool, error) {
		v, err := c.RunKw(ctx, a.Name, toItems(a.MArgs), kwargs)
		if err != nil {
			return false, err
		}
		return starlarkCondition(ctx, c, identityAsEquality(condition), NewMap("m_ret", v))
	})
	switch {
	case err != nil:
		return nil, err
	case met:
		return stateSay(ret, true, "Condition %s was met", condition)
	}
	return stateSay(ret, false, "Timed out while waiting for condition %s", condition)
}

// identityAsEquality writes Python's `is` as a comparison, but not within quotes:
// the conditions compare with True, False and None.
func identityAsEquality(condition string) string {
	words := strings.NewReplacer(" is not ", " != ", " is ", " == ")
	var out strings.Builder
	for condition != "" {
		i := strings.IndexAny(condition, `'"`)
		if i < 0 {
			break
		}
		end := strings.IndexByte(condition[i+1:], condition[i])
		if end < 0 {
			break
		}
		end += i + 2
		out.WriteString(words.Replace(condition[:i]) + condition[i:end])
		condition = condition[end:]
	}
	return out.String() + words.Replace(condition)
}

func loopUntilNoEval(ctx context.Context, c *Call, a struct {
	Name            string
	Expected        any
	CompareOperator string `def:"eq"`
	Timeout         any    `def:"60"`
	Period          any    `def:"1"`
	InitWait        any    `def:"0"`
	Args            any    `def:"None"`
	Kwargs          any    `arg:"kwargs" def:"None"`
}) (any, error) {
	ret := stateReturn(a.Name, false, "")
	times, problem := loopSeconds(a.Period, a.Timeout)
	compare := loopComparison(ctx, c, a.CompareOperator)
	switch {
	case c.Testing():
		return stateSay(ret, nil, "Would have waited for \"%s\" to produce \"%s\".", a.Name, Str(a.Expected))
	case !c.Has(ctx, a.Name):
		return stateSay(ret, false, "Module.function \"%s\" is unavailable.", a.Name)
	case problem != "":
		return stateSay(ret, false, "%s", problem)
	case compare == nil:
		return stateSay(ret, false, "Invalid operator \"%s\" supplied.", a.CompareOperator)
	}
	if first, _ := toFloat(a.InitWait); first > 0 && !sleepContext(ctx, time.Duration(first*float64(time.Second))) {
		return nil, ctx.Err()
	}
	kwargs, _ := a.Kwargs.(*Map)
	attempts := 0
	var failed error
	met, err := times.repeat(ctx, func() (bool, error) {
		attempts++
		v, err := c.RunKw(ctx, a.Name, toItems(a.Args), kwargs)
		if failed = err; err != nil {
			return true, nil
		}
		return compare(v, a.Expected)
	})
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case failed != nil:
		return stateSay(ret, false, "Exception occurred while executing %s: <class '%s'>:%s", a.Name, pythonClassOf(failed), errText(failed))
	case met:
		return stateSay(ret, true, "Call provided the expected results in %d attempts", attempts)
	}
	return stateSay(ret, false, "Call did not produce the expected result after %d attempts", attempts)
}

// loopComparison is the comparison that a name means, nil for none.
func loopComparison(ctx context.Context, c *Call, name string) func(got, want any) (bool, error) {
	if c.Has(ctx, name) {
		return func(got, want any) (bool, error) { return runTruth(ctx, c, name, got, want) }
	}
	ordered := func(good func(int) bool) func(got, want any) (bool, error) {
		return func(got, want any) (bool, error) {
			n, err := Compare(got, want)
			return err == nil && good(n), err
		}
	}
	switch name {
	case "eq":
		return func(got, want any) (bool, error) { return Equal(got, want), nil }
	case "ne":
		return func(got, want any) (bool, error) { return !Equal(got, want), nil }
	case "lt":
		return ordered(func(n int) bool { return n < 0 })
	case "le":
		return ordered(func(n int) bool { return n <= 0 })
	case "gt":
		return ordered(func(n int) bool { return n > 0 })
	case "ge":
		return ordered(func(n int) bool { return n >= 0 })
	case "contains":
		return func(got, want any) (bool, error) {
			if s, ok := got.(string); ok {
				return strings.Contains(s, Str(want)), nil
			}
			return hasItem(iterated(got), want), nil
		}
	}
	return nil
}
