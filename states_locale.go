// State modules timezone and locale.
package main

import (
	"context"
	"strings"
)

func timezoneStates() Module {
	return Module{
		Doc:     "The time zone of the box.",
		Virtual: needsFunction("timezone.get_zone", "timezone module could not be loaded"),
		Funcs:   Funcs{"system": {run: timezoneStateSystem, doc: "The box has this time zone; utc: the hardware clock runs on UTC."}},
	}
}

func timezoneStateSystem(ctx context.Context, c *Call, a struct {
	Name string
	UTC  any `arg:"utc" def:"True"`
}) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	same, err := c.Run(ctx, "timezone.zone_compare", a.Name)
	if err != nil {
		if k := asModuleError(err).Kind; k == ErrExecution || k == ErrInvocation {
			return stateSay(ret, false, "Unable to compare desired timezone '%s' to system timezone: %s", a.Name, errText(err))
		}
		return nil, err
	}
	clock, err := runString(ctx, c, "timezone.get_hwclock")
	if err != nil {
		return nil, err
	}
	utc := Truth(a.UTC)
	doZone, doUTC := same != true, utc && clock == "localtime"
	var messages []string
	if !doZone && !doUTC {
		messages = append(messages, "Timezone "+a.Name+" already set")
		if utc {
			messages = append(messages, "UTC already set to "+a.Name)
		}
		return stateSay(ret, true, "%s", strings.Join(messages, ", "))
	}
	if c.Testing() {
		if same == false {
			messages = append(messages, "Timezone "+a.Name+" needs to be set")
		}
		if doUTC {
			messages = append(messages, "UTC needs to be set to "+Str(a.UTC))
		}
		return stateSay(ret, nil, "%s", strings.Join(messages, ", "))
	}
	if doZone {
		ok, err := runTruth(ctx, c, "timezone.set_zone", a.Name)
		if err != nil {
			return nil, err
		}
		if ok {
			ret.Map("changes").Set("timezone", a.Name)
			messages = append(messages, "Set timezone "+a.Name)
		} else {
			messages = append(messages, "Failed to set timezone")
		}
		ret.Set("result", ok)
	}
	if doUTC {
		ok, err := runTruth(ctx, c, "timezone.set_hwclock", "UTC")
		if err != nil {
			return nil, err
		}
		if ok {
			ret.Map("changes").Set("utc", a.UTC)
			messages = append(messages, "Set UTC to "+Str(a.UTC))
		} else {
			messages = append(messages, "Failed to set UTC to "+Str(a.UTC))
		}
		ret.Set("result", ok)
	}
	ret.Set("comment", strings.Join(messages, ", "))
	return ret, nil
}

func localeStates() Module {
	return Module{
		Doc:     "Locales, and the one that the box uses.",
		Virtual: needsFunction("locale.get_locale", "'locale.get_locale' is not available."),
		Funcs: Funcs{
			"system":  {run: localeStateSystem, doc: "The box uses this locale."},
			"present": {run: localeStatePresent, doc: "The locale has been generated."},
		},
	}
}

type stateNameArgs struct{ Name string }

func localeStateSystem(ctx context.Context, c *Call, a stateNameArgs) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	have, err := c.Run(ctx, "locale.get_locale")
	done := false
	if err == nil {
		if have == a.Name {
			return stateSay(ret, true, "System locale %s already set", a.Name)
		}
		if c.Testing() {
			return stateSay(ret, nil, "System locale %s needs to be set", a.Name)
		}
		done, err = runTruth(ctx, c, "locale.set_locale", a.Name)
	}
	if isExecError(err) {
		return stateSay(ret, false, "Failed to set system locale: %s", errText(err))
	}
	if err != nil {
		return nil, err
	}
	if !done {
		return stateSay(ret, false, "Failed to set system locale to %s", a.Name)
	}
	ret.Set("changes", NewMap("locale", a.Name))
	return stateSay(ret, true, "Set system locale %s", a.Name)
}

func localeStatePresent(ctx context.Context, c *Call, a stateNameArgs) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	have, err := runTruth(ctx, c, "locale.avail", a.Name)
	if err != nil {
		return nil, err
	}
	if have {
		return stateSay(ret, true, "Locale %s is already present", a.Name)
	}
	if c.Testing() {
		return stateSay(ret, nil, "Locale %s needs to be generated", a.Name)
	}
	done, err := runTruth(ctx, c, "locale.gen_locale", a.Name)
	if err != nil {
		return nil, err
	}
	if !done {
		return stateSay(ret, false, "Failed to generate locale %s", a.Name)
	}
	ret.Set("changes", NewMap("locale", a.Name))
	return stateSay(ret, true, "Generated locale %s", a.Name)
}
