// Running one function of a job, the same for the daemon and for salt-call:
// arguments, the function itself, its exit code, and the texts of failures.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// outcome is what one function of a job came to.
type outcome struct {
	Return  any
	Retcode int64
	Out     string // outputter that the function asks for, "" = none
	Err     error  // why it failed; Return is then the text for the user
}

// outputterOf is the outputter that shows the results of a function.
func outputterOf(fun string) string {
	mod, name, _ := strings.Cut(fun, ".")
	switch mod {
	case "state":
		switch name {
		case "sls", "sls_id", "pkg", "top", "single", "highstate", "template", "template_str", "apply", "test",
			"request", "check_request", "run_request":
			return "highstate"
		}
	case "grains":
		switch name {
		case "items", "item", "setval":
			return "nested"
		}
	case "aliases":
		if name == "list_aliases" {
			return "yaml"
		}
		return "txt"
	case "alternatives":
		switch name {
		case "display", "install", "remove":
			return "txt"
		}
	}
	return ""
}

// callFunction runs fun with the arguments of a job. pub is what functions that
// take any keyword get as __pub_…; it has no other effect.
func callFunction(ctx context.Context, c *Call, fun string, arg []any, pub *Map) (any, error) {
	f, err := c.Loader.Function(ctx, c, fun)
	if err != nil {
		return nil, err
	}
	sig := f.Signature()
	args, kwargs, err := SplitKeywords(sig, arg, KeywordFromWord)
	if err != nil {
		return nil, err
	}
	if sig.Kwargs != "" {
		for k, v := range pub.All() {
			kwargs.Set("__pub_"+Str(k), v)
		}
	}
	c.SetRetcode(0)
	return c.RunDirect(ctx, fun, args, kwargs)
}

// retcodeOf is the exit code of a function that did not fail: the one that it
// set, or 1 if its result says that it was no success.
func retcodeOf(c *Call, ret any) int64 {
	if v, ok := c.ContextGet("retcode"); ok {
		if n, ok := toInt(v); !ok {
			return 1
		} else if n != 0 {
			return n
		}
	}
	if m, ok := ret.(*Map); ok {
		for _, key := range []string{"result", "success"} {
			if v, ok := m.Get(key); ok && !Truth(v) {
				return 1
			}
		}
	}
	return 0
}

// runFunction runs one function to its outcome.
func runFunction(ctx context.Context, c *Call, fun string, arg []any, pub *Map) outcome {
	if err := blackout(c.Env, fun); err != nil {
		return failedOutcome(ctx, c, fun, err)
	}
	if err := checkExecutors(c); err != nil {
		return failedOutcome(ctx, c, fun, err)
	}
	ret, err := callFunction(ctx, c, fun, arg, pub)
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
		// What a function makes of being cancelled says less than why it was.
		var sig *JobSignal
		if errors.As(cause, &sig) {
			return outcome{Return: fmt.Sprintf("ERROR: Job %s was ended by signal %d", c.JID, int(sig.Signal)), Retcode: 128 + int64(sig.Signal), Out: "nested", Err: cause}
		}
		return outcome{Return: "ERROR: " + cause.Error(), Retcode: 1, Out: "nested", Err: cause}
	}
	if err != nil {
		return failedOutcome(ctx, c, fun, err)
	}
	return outcome{Return: ret, Retcode: retcodeOf(c, ret), Out: outputterOf(fun)}
}

// checkExecutors refuses a job that asks for a way to run functions that there
// is not: module_executors of the job, or of the minion. direct_call is how
// every function runs.
func checkExecutors(c *Call) error {
	names := toStrings(c.Pub.Value("module_executors"))
	if len(names) == 0 {
		names = c.Opts.List("module_executors")
	}
	for _, name := range names {
		if name != "direct_call" {
			return InvocationErrorf("Executor '%s' is not available", name)
		}
	}
	return nil
}

// failedOutcome puts an error into the words that users know.
func failedOutcome(ctx context.Context, c *Call, fun string, err error) outcome {
	o := outcome{Retcode: 1, Out: "nested", Err: err}
	var missing *NotAvailableError
	if errors.As(err, &missing) && missing.Name == fun {
		o.Return = missingFunction(ctx, c, fun, missing)
		return o
	}
	doc := ""
	if f, ferr := c.Loader.Function(ctx, c, fun); ferr == nil {
		doc = f.Doc()
	}
	o.Return = JobErrorText(fun, err, doc)
	first, _, _ := strings.Cut(Str(o.Return), "\n")
	c.Log.Warn(fmt.Sprintf("job %s: %s: %s", c.JID, fun, first))
	return o
}

// missingFunction is what an unknown function returns: a text, or, where other
// functions have names that begin so, their documentation with it.
func missingFunction(ctx context.Context, c *Call, fun string, missing *NotAvailableError) any {
	docs, err := c.Run(ctx, "sys.doc", fun+"*")
	if m, ok := docs.(*Map); err == nil && ok && m.Len() > 0 {
		m.Set(fun, missing.Error())
		return m
	}
	return missing.Error()
}

// blackout refuses everything but what may lift the blackout.
func blackout(e *Env, fun string) error {
	if fun == "saltutil.refresh_pillar" {
		return nil
	}
	for _, data := range []*Map{e.Pillar, e.Grains} {
		if !Truth(data.Value("minion_blackout")) {
			continue
		}
		allowed := false
		for _, name := range toItems(data.Value("minion_blackout_whitelist")) {
			allowed = allowed || name == fun
		}
		if !allowed {
			return InvocationErrorf("Minion in blackout mode: until minion_blackout is off in pillar and grains, only " +
				"saltutil.refresh_pillar and the functions of minion_blackout_whitelist run")
		}
	}
	return nil
}
