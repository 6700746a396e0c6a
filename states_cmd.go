// State module cmd: commands and scripts.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
)

func cmdStates() Module {
	return Module{
		Doc: "Run commands and scripts as part of a state run.",
		Funcs: Funcs{
			"run":         {run: cmdStateRun, doc: "Run a command. stateful: True reads changed= and comment= from the last line of its output, or JSON."},
			"script":      {run: cmdStateScript, doc: "Fetch a script and run it."},
			"wait":        {run: cmdStateWait, doc: "Run a command only when a watched state has changed."},
			"watch":       {run: cmdStateWait, doc: "Run a command only when a watched state has changed."},
			"wait_script": {run: cmdStateWaitScript, doc: "Run a script only when a watched state has changed."},
			"call":        {run: cmdStateCall, doc: "Call a function of a template; only Python templates can."},
			"wait_call":   {run: cmdStateWaitCall, doc: "Call a function of a template when a watched state has changed."},
			"mod_watch":   {run: cmdStateModWatch, doc: "Run the command or script because a watched state has changed."},
		},
	}
}

// commandNotRun is a command's return before it ran.
func commandNotRun(name string) *Map { return stateReturn(name, false, "") }

type cmdStateRunArgs struct {
	Name            string
	Cwd             any  `def:"None"`
	Root            any  `def:"None"`
	Runas           any  `def:"None"`
	Password        any  `def:"None"`
	Shell           any  `def:"None"`
	Env             any  `def:"None"`
	PrependPath     any  `def:"None"`
	Stateful        any  `def:"False"`
	OutputLoglevel  any  `def:"debug"`
	HideOutput      any  `def:"False"`
	Timeout         any  `def:"None"`
	IgnoreTimeout   bool `def:"False"`
	UseVt           any  `def:"False"`
	SuccessRetcodes any  `def:"None"`
	SuccessStdout   any  `def:"None"`
	SuccessStderr   any  `def:"None"`
	Kwargs          *Map `arg:"**kwargs"`
}

// statefulOf reads stateful: whether the output speaks for itself, and the
// command to use in dry runs.
func statefulOf(v any) (stateful bool, testName string) {
	if l, ok := v.(*List); ok {
		if l.Len() > 0 {
			if m, ok := l.Items[0].(*Map); ok {
				testName = m.Str("test_name")
			}
		}
		return Truth(l), testName
	}
	return v == true, ""
}

// stateShell is the shell of a command: its own, or the one of the grains.
func stateShell(c *Call, own any) any {
	if Truth(own) {
		return own
	}
	return c.Grains.Value("shell")
}

// stateCmdKwargs are the arguments that a command function gets beside its own.
func stateCmdKwargs(c *Call, kw *Map) *Map {
	out := NewMap()
	for k, v := range kw.All() {
		if !strings.HasPrefix(Str(k), "__") && k != "sfun" {
			out.Set(k, v)
		}
	}
	if c.State != nil {
		if v, ok := c.State.Low.Get("__umask__"); ok {
			n, _ := toInt(v)
			out.Set("umask", fmt.Sprintf("%04o", n))
		}
	}
	return out
}

func setGiven(m *Map, kv ...any) {
	for i := 0; i < len(kv); i += 2 {
		if kv[i+1] != nil {
			m.Set(kv[i], kv[i+1])
		}
	}
}

func badEnv(env any) bool {
	switch env.(type) {
	case nil, *List, *Map:
		return false
	}
	return true
}

func cmdStateRun(ctx context.Context, c *Call, a cmdStateRunArgs) (any, error) {
	ret := commandNotRun(a.Name)
	stateful, testName := statefulOf(a.Stateful)
	name := a.Name
	if c.Testing() && testName != "" {
		name = testName
	}
	if badEnv(a.Env) {
		ret.Set("comment", "Invalidly-formatted 'env' parameter. See documentation.")
		return ret, nil
	}
	if c.Testing() && testName == "" {
		ret.Set("result", nil)
		ret.Set("comment", fmt.Sprintf("Command \"%s\" would have been executed", name))
		ret.Set("changes", NewMap("cmd", name))
		if stateful {
			return reinterpretOutput(ret)
		}
		return ret, nil
	}
	if Truth(a.Cwd) {
		if info, err := os.Stat(Str(a.Cwd)); err != nil || !info.IsDir() {
			ret.Set("comment", fmt.Sprintf("Desired working directory \"%s\" is not available", Str(a.Cwd)))
			return ret, nil
		}
	}
	kw := stateCmdKwargs(c, a.Kwargs)
	setGiven(kw, "cwd", a.Cwd, "root", a.Root, "runas", a.Runas, "password", a.Password, "use_vt", a.UseVt, "shell", stateShell(c, a.Shell),
		"env", a.Env, "prepend_path", a.PrependPath, "output_loglevel", a.OutputLoglevel, "hide_output", a.HideOutput,
		"success_retcodes", a.SuccessRetcodes, "success_stdout", a.SuccessStdout, "success_stderr", a.SuccessStderr,
		"timeout", a.Timeout, "python_shell", true, "cmd", name)
	fun := "cmd.run_all"
	if Truth(a.Root) {
		fun = "cmd.run_chroot"
	}
	v, err := c.RunKw(ctx, fun, nil, kw)
	if err != nil {
		ret.Set("comment", errText(err))
		return ret, nil
	}
	all, ok := v.(*Map)
	if !ok {
		ret.Set("comment", Str(v))
		return ret, nil
	}
	code := all.Value("retcode")
	ret.Set("changes", all)
	ret.Set("result", !Truth(code))
	ret.Set("comment", fmt.Sprintf("Command \"%s\" run", name))
	if a.IgnoreTimeout && Equal(code, int64(1)) && strings.Contains(all.Str("stdout"), "Timed out after") {
		all.Set("retcode", int64(0))
		ret.Set("result", true)
	}
	if stateful {
		if v, err := reinterpretOutput(ret); err != nil {
			return nil, err
		} else {
			ret = v
		}
	}
	if c.Testing() && !Truth(code) && Truth(ret.Value("changes")) {
		ret.Set("result", nil)
	}
	return ret, nil
}

// reinterpretOutput makes a return of what a stateful command printed: a JSON
// object, or name=value pairs in its last line.
func reinterpretOutput(state *Map) (*Map, error) {
	ret := state.Map("changes")
	state.Set("changes", NewMap())
	state.Set("comment", "")
	out, _ := ret.Value("stdout").(string)
	if out == "" {
		if s := ret.Str("stderr"); s != "" {
			state.Set("comment", s)
		}
		return state, nil
	}
	data := NewMap()
	isJSON := false
	cut := 0
	if v, err := DecodeJSON([]byte(out)); err == nil {
		m, ok := v.(*Map)
		if !ok {
			state.Set("comment", "script JSON output must be a JSON object (e.g., {})!")
			state.Set("result", false)
			return state, nil
		}
		data, isJSON = m, true
	} else {
		line := out
		cut = strings.LastIndexByte(strings.TrimRight(out, " \t\r\n"), '\n')
		if cut >= 0 {
			line = out[cut+1:]
		}
		words, ok := shellWords(line)
		for _, w := range words {
			parts := strings.Split(w, "=")
			if len(parts) != 2 {
				ok = false
				break
			}
			data.Set(parts[0], parts[1])
		}
		if !ok {
			state.Set("comment", "Failed parsing script output! Stdout must be JSON or a line of name=value pairs.")
			state.Set("result", false)
			state.Map("changes").Merge(ret)
			return state, nil
		}
	}
	changed := "no"
	if v, ok := data.Get("changed"); ok {
		changed = Str(v)
	}
	var yes bool
	switch strings.ToLower(changed) {
	case "true", "yes", "1":
		yes = true
	case "false", "no", "0":
	default:
		return nil, OtherErrorf("ValueError", "Failed parsing boolean value: %s", changed)
	}
	if v, ok := data.Get("comment"); ok {
		state.Set("comment", v)
		data.Delete("comment")
	}
	if yes {
		for k, v := range ret.All() {
			if !data.Has(k) {
				data.Set(k, v)
			}
		}
		text := ""
		if s := data.Str("stdout"); !isJSON && s != "" {
			if cut >= 0 && cut <= len(s) {
				text = s[:cut]
			} else { // an index of -1 leaves out the last character
				text = s[:len(s)-1]
			}
		}
		data.Set("stdout", text)
		state.Set("changes", data)
	}
	return state, nil
}

// shellWords splits a line at blanks as a shell does, quotes taken off.
func shellWords(s string) ([]string, bool) {
	var out []string
	var word strings.Builder
	in, quote := false, rune(0)
	escaped := false
	for _, c := range s {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, in = true, true
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				word.WriteRune(c)
			}
		case c == '"' || c == '\'':
			quote, in = c, true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if in {
				out = append(out, word.String())
				word.Reset()
				in = false
			}
		default:
			word.WriteRune(c)
			in = true
		}
	}
	if in {
		out = append(out, word.String())
	}
	return out, quote == 0 && !escaped
}

type cmdStateScriptArgs struct {
	Name            string
	Source          any  `def:"None"`
	Template        any  `def:"None"`
	Cwd             any  `def:"None"`
	Runas           any  `def:"None"`
	Password        any  `def:"None"`
	Shell           any  `def:"None"`
	Env             any  `def:"None"`
	Stateful        any  `def:"False"`
	Timeout         any  `def:"None"`
	UseVt           any  `def:"False"`
	OutputLoglevel  any  `def:"debug"`
	HideOutput      any  `def:"False"`
	Defaults        any  `def:"None"`
	Context         any  `def:"None"`
	SuccessRetcodes any  `def:"None"`
	SuccessStdout   any  `def:"None"`
	SuccessStderr   any  `def:"None"`
	Kwargs          *Map `arg:"**kwargs"`
}

func cmdStateScript(ctx context.Context, c *Call, a cmdStateScriptArgs) (any, error) {
	stateful, testName := statefulOf(a.Stateful)
	name := a.Name
	if c.Testing() && testName != "" {
		name = testName
	}
	ret := commandNotRun(name)
	fail := func(comment string) (any, error) {
		ret.Set("comment", comment)
		return ret, nil
	}
	if badEnv(a.Env) {
		return fail("Invalidly-formatted 'env' parameter. See documentation.")
	}
	vars := NewMap()
	for _, part := range []struct {
		name string
		v    any
	}{{"context", a.Context}, {"defaults", a.Defaults}} {
		if _, ok := part.v.(*Map); Truth(part.v) && !ok {
			return fail(fmt.Sprintf("Invalidly-formatted '%s' parameter. Must be formed as a dict.", part.name))
		}
	}
	if m, ok := a.Defaults.(*Map); ok {
		vars.Merge(m)
	}
	if m, ok := a.Context.(*Map); ok {
		vars.Merge(m)
	}
	source := a.Source
	if source == nil {
		source = name
	}
	kw := stateCmdKwargs(c, a.Kwargs)
	if !Truth(kw.Value("args")) {
		if _, args, ok := strings.Cut(name, " "); ok && len(strings.Fields(name)) > 1 {
			kw.Set("args", args)
		}
	}
	if c.Testing() && testName == "" {
		ret.Set("result", nil)
		ret.Set("comment", fmt.Sprintf("Command '%s' would have been executed", name))
		if stateful {
			return reinterpretOutput(ret)
		}
		return ret, nil
	}
	if Truth(a.Cwd) {
		if info, err := os.Stat(Str(a.Cwd)); err != nil || !info.IsDir() {
			return fail(fmt.Sprintf("Desired working directory \"%s\" is not available", Str(a.Cwd)))
		}
	}
	setGiven(kw, "runas", a.Runas, "password", a.Password, "shell", stateShell(c, a.Shell), "env", a.Env, "cwd", a.Cwd, "template", a.Template,
		"timeout", a.Timeout, "output_loglevel", a.OutputLoglevel, "hide_output", a.HideOutput, "use_vt", a.UseVt, "context", vars,
		"saltenv", c.StateEnv(), "success_retcodes", a.SuccessRetcodes, "success_stdout", a.SuccessStdout, "success_stderr", a.SuccessStderr,
		"python_shell", true)
	v, err := c.RunKw(ctx, "cmd.script", []any{source}, kw)
	if err != nil {
		return fail(errText(err))
	}
	all, ok := v.(*Map)
	if !ok {
		return fail(Str(v))
	}
	ret.Set("changes", all)
	ret.Set("result", !Truth(all.Value("retcode")))
	if Truth(all.Value("cache_error")) {
		ret.Set("comment", fmt.Sprintf("Unable to cache script %s from saltenv '%s'", Str(source), c.StateEnv()))
	} else {
		ret.Set("comment", fmt.Sprintf("Command '%s' run", name))
	}
	code := all.Value("retcode")
	if stateful {
		if ret, err = reinterpretOutput(ret); err != nil {
			return nil, err
		}
	}
	if c.Testing() && !Truth(code) && Truth(ret.Value("changes")) {
		ret.Set("result", nil)
	}
	return ret, nil
}

type cmdStateWaitArgs struct {
	Name            string
	Cwd             any  `def:"None"`
	Root            any  `def:"None"`
	Runas           any  `def:"None"`
	Shell           any  `def:"None"`
	Env             any  `def:"()"`
	Stateful        any  `def:"False"`
	OutputLoglevel  any  `def:"debug"`
	HideOutput      any  `def:"False"`
	UseVt           any  `def:"False"`
	SuccessRetcodes any  `def:"None"`
	SuccessStdout   any  `def:"None"`
	SuccessStderr   any  `def:"None"`
	Kwargs          *Map `arg:"**kwargs"`
}

func cmdStateWait(_ context.Context, _ *Call, a cmdStateWaitArgs) (any, error) {
	return stateReturn(a.Name, true, ""), nil
}

func cmdStateWaitScript(_ context.Context, _ *Call, a struct {
	Name            string
	Source          any  `def:"None"`
	Template        any  `def:"None"`
	Cwd             any  `def:"None"`
	Runas           any  `def:"None"`
	Shell           any  `def:"None"`
	Env             any  `def:"None"`
	Stateful        any  `def:"False"`
	UseVt           any  `def:"False"`
	OutputLoglevel  any  `def:"debug"`
	HideOutput      any  `def:"False"`
	SuccessRetcodes any  `def:"None"`
	SuccessStdout   any  `def:"None"`
	SuccessStderr   any  `def:"None"`
	Kwargs          *Map `arg:"**kwargs"`
}) (any, error) {
	return stateReturn(a.Name, true, ""), nil
}

// cmdCallArgs are those of a function that a template hands over.
type cmdCallArgs struct {
	Func           any
	Args           any `def:"()"`
	Kws            any `def:"None"`
	OutputLoglevel any `def:"debug"`
	HideOutput     any `def:"False"`
	UseVt          any `def:"False"`
}

func cmdStateCall(_ context.Context, _ *Call, a struct {
	Name string
	cmdCallArgs
	Kwargs *Map `arg:"**kwargs"`
}) (any, error) {
	return stateReturn(a.Name, false, "cmd.call needs a Python template that hands over a function; there is none in this build"), nil
}

// cmdStateWaitCall does nothing: only a watched state that changed makes the call.
func cmdStateWaitCall(_ context.Context, _ *Call, a struct {
	Name string
	cmdCallArgs
	Stateful any  `def:"False"`
	Kwargs   *Map `arg:"**kwargs"`
}) (any, error) {
	return stateReturn(a.Name, true, ""), nil
}

func cmdStateModWatch(ctx context.Context, c *Call, a struct {
	Name   string
	Kwargs *Map `arg:"**kwargs"`
}) (any, error) {
	sfun := a.Kwargs.Str("sfun")
	stateful := Truth(a.Kwargs.Value("stateful"))
	kw := NewMap("name", a.Name)
	for k, v := range a.Kwargs.All() {
		if k != "stateful" {
			kw.Set(k, v)
		}
	}
	var v any
	var err error
	switch sfun {
	case "wait", "run", "watch":
		v, err = newBuiltin("run", Func{run: cmdStateRun}).Invoke(ctx, c, nil, kw)
	case "wait_script", "script":
		v, err = newBuiltin("script", Func{run: cmdStateScript}).Invoke(ctx, c, nil, kw)
	case "wait_call", "call":
		return stateReturn(a.Name, false, "cmd."+sfun+" needs a named parameter func"), nil
	default:
		return stateReturn(a.Name, false, "cmd."+sfun+" does not work with the watch requisite, please use cmd.wait or cmd.wait_script"), nil
	}
	if ret, ok := v.(*Map); ok && err == nil && stateful {
		return reinterpretOutput(ret)
	}
	return v, err
}
