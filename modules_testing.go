// Module test: functions that try the connection and the calling convention.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"runtime/debug"
	"sort"
	"strings"
	"time"
)

func testModule() Module {
	return Module{
		Doc: "Functions that try the connection and the calling convention.",
		Funcs: Funcs{
			"ping":                 {run: testPing, doc: "Answer True: the minion is up and has heard us.\n\nCLI Example:\n\n    salt '*' test.ping"},
			"echo":                 {run: testEcho, doc: "Return the argument as it came.\n\nCLI Example:\n\n    salt '*' test.echo 'foo bar'"},
			"arg":                  {run: testArg, doc: "Return all arguments, positional and by name."},
			"arg_type":             {run: testArgType, doc: "Return the types of all arguments."},
			"arg_repr":             {run: testArgRepr, doc: "Return all arguments as Python writes them."},
			"arg_clean":            {run: testArgClean, doc: "Return all arguments without those that Salt adds."},
			"kwarg":                {run: testKwarg, doc: "Return the arguments given by name."},
			"fib":                  {run: testFib, doc: "Return a Fibonacci number and the seconds it took."},
			"collatz":              {run: testCollatz, doc: "Return the steps of the Collatz sequence and the seconds they took."},
			"outputter":            {run: testOutputter, doc: "Return the data that is given, to look at an outputter."},
			"retcode":              {run: testRetcode, doc: "Make the job end with an exit code."},
			"sleep":                {run: testSleep, doc: "Wait for so many seconds and return True."},
			"rand_sleep":           {run: testRandSleep, doc: "Wait for a random number of seconds up to max."},
			"version":              {run: testVersion, doc: "Return the version of Salt that this minion behaves like."},
			"versions_information": {run: testVersionsInformation, doc: "Return the versions of the minion and of what it was built from."},
			"versions_report":      {run: testVersionsReport, doc: "Return the versions as text."},
			"versions":             {run: testVersionsReport, pyname: "versions_report", doc: "Return the versions as text."},
			"conf_test":            {run: testConfTest, doc: "Return the value of the option test.foo."},
			"get_opts":             {run: testGetOpts, doc: "Return the minion's options."},
			"opts_pkg":             {run: testOptsPkg, doc: "Return the minion's options with its grains among them."},
			"cross_test":           {run: testCrossTest, doc: "Run another function with a list of arguments."},
			"provider":             {run: testProvider, doc: "Name the file behind a module: aptpkg for pkg on Debian."},
			"providers":            {run: testProviders, doc: "Return a mapping of all files behind modules to the modules' names."},
			"not_loaded":           {run: testNotLoaded, doc: "List the modules that do not fit this box."},
			"module_report":        {run: testModuleReport, doc: "List what can be called, as the loader sees it."},
			"attr_call":            {run: testAttrCall, doc: "Return all grains, by way of another module."},
			"rand_str":             {run: testRandomHash, pyname: "random_hash", doc: "Return a random text: the hash of a random number."},
			"random_hash":          {run: testRandomHash, doc: "Return the hash of a random number up to size."},
			"exception":            {run: testException, doc: "Fail with an exception."},
			"raise_exception":      {run: testRaiseException, doc: "Fail with the exception of that name, given the other arguments.\n\nCLI Example:\n\n    salt '*' test.raise_exception ValueError 'some text'"},
			"stack":                {run: testStack, doc: "Return the stack of the running call."},
			"tty":                  {run: testTTY, doc: "Say that this function is cmd.tty now."},
			"try":                  {run: testTry, pyname: "try_", doc: "Run a function and return None, or the error, where it fails."},
			"assertion":            {run: testAssertion, doc: "Fail unless the argument is true."},
			"true":                 {run: testTrue, pyname: "true_", doc: "Return True."},
			"false":                {run: testFalse, pyname: "false_", doc: "Return False."},
			"deprecation_warning":  {run: testTrue, pyname: "deprecation_warning", doc: "Return True; there is nothing here to warn of."},
		},
	}
}

func testPing(context.Context, *Call, noArgs) (any, error) { return true, nil }

type echoArgs struct {
	Text any
}

func testEcho(_ context.Context, _ *Call, a echoArgs) (any, error) { return a.Text, nil }

func testTrue(context.Context, *Call, noArgs) (any, error)  { return true, nil }
func testFalse(context.Context, *Call, noArgs) (any, error) { return false, nil }

// anyArgs takes whatever is given.
type anyArgs struct {
	Args   []any `arg:"*args"`
	Kwargs *Map  `arg:"**kwargs"`
}

func testArg(_ context.Context, _ *Call, a anyArgs) (any, error) {
	return NewMap("args", NewList(a.Args...), "kwargs", a.Kwargs), nil
}

func testArgType(_ context.Context, _ *Call, a anyArgs) (any, error) {
	class := func(v any) string { return "<class '" + TypeName(v) + "'>" }
	args, kwargs := &List{}, &Map{}
	for _, v := range a.Args {
		args.Append(class(v))
	}
	for k, v := range a.Kwargs.All() {
		kwargs.Set(k, class(v))
	}
	return NewMap("args", args, "kwargs", kwargs), nil
}

func testArgRepr(_ context.Context, _ *Call, a anyArgs) (any, error) {
	return NewMap("args", Repr(Tuple(a.Args)), "kwargs", Repr(a.Kwargs)), nil
}

func testArgClean(_ context.Context, _ *Call, a anyArgs) (any, error) {
	return NewMap("args", NewList(a.Args...), "kwargs", cleanKwargs(a.Kwargs)), nil
}

// cleanKwargs leaves out the arguments that Salt adds to a call: those whose
// names begin with two underscores.
func cleanKwargs(kwargs *Map) *Map {
	out := &Map{}
	for k, v := range kwargs.All() {
		if !strings.HasPrefix(Str(k), "__") {
			out.Set(k, v)
		}
	}
	return out
}

type kwargsOnly struct {
	Kwargs *Map `arg:"**kwargs"`
}

func testKwarg(_ context.Context, _ *Call, a kwargsOnly) (any, error) { return a.Kwargs, nil }

// clockTick is the step of the time that Python prints, a float of seconds:
// no duration is shown shorter.
const clockTick = 1.0 / (1 << 22)

func secondsSince(start time.Time) float64 {
	return max(math.Floor(time.Since(start).Seconds()/clockTick), 1) * clockTick
}

type numberArgs struct{ Num any }

func testFib(ctx context.Context, _ *Call, a numberArgs) (any, error) {
	n, ok := toInt(a.Num)
	if !ok {
		return nil, OtherErrorf("ValueError", "invalid literal for int() with base 10: %s", Repr(a.Num))
	}
	if n < 0 {
		return nil, OtherErrorf("ValueError", "Negative number is not allowed!")
	}
	start := time.Now()
	if n < 2 {
		return NewList(n, secondsSince(start)), nil
	}
	prev, curr := big.NewInt(0), big.NewInt(1)
	for i := int64(1); i < n; i++ {
		prev.Add(prev, curr)
		prev, curr = curr, prev
		if i%4096 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return NewList(normalInt(curr), secondsSince(start)), nil
}

type startArgs struct{ Start any }

func testCollatz(_ context.Context, _ *Call, a startArgs) (any, error) {
	n, ok := toInt(a.Start)
	if !ok {
		return nil, OtherErrorf("ValueError", "invalid literal for int() with base 10: %s", Repr(a.Start))
	}
	if n < 1 {
		return nil, OtherErrorf("ValueError", "the sequence begins with a number above 0")
	}
	begin := time.Now()
	steps := &List{}
	// The first halving makes it a float, as in Python.
	for v, halved := float64(n), false; v != 1; {
		if halved {
			steps.Append(v)
		} else {
			steps.Append(int64(v))
		}
		if int64(v)%2 == 0 {
			v, halved = v/2, true
		} else {
			v = v*3 + 1
		}
	}
	return NewList(steps, secondsSince(begin)), nil
}

type dataArgs struct{ Data any }

func testOutputter(_ context.Context, _ *Call, a dataArgs) (any, error) { return a.Data, nil }

type testRetcodeArgs struct {
	Code any `def:"42"`
}

func testRetcode(_ context.Context, c *Call, a testRetcodeArgs) (any, error) {
	c.ContextSet("retcode", a.Code)
	return true, nil
}

type lengthArgs struct{ Length any }

func testSleep(ctx context.Context, _ *Call, a lengthArgs) (any, error) {
	n, ok := toInt(a.Length)
	if !ok {
		return nil, OtherErrorf("ValueError", "invalid literal for int() with base 10: %s", Repr(a.Length))
	}
	return true, pause(ctx, time.Duration(n)*time.Second)
}

type randSleepArgs struct {
	Max int64 `def:"60"`
}

func testRandSleep(ctx context.Context, _ *Call, a randSleepArgs) (any, error) {
	if a.Max < 0 {
		return nil, OtherErrorf("ValueError", "empty range in randrange(0, %d)", a.Max+1)
	}
	return true, pause(ctx, time.Duration(randomBelow(a.Max+1))*time.Second)
}

// randomBelow is a random number from 0 to n-1.
func randomBelow(n int64) int64 {
	r, err := rand.Int(rand.Reader, big.NewInt(n))
	if err != nil {
		return 0
	}
	return r.Int64()
}

func testVersion(context.Context, *Call, noArgs) (any, error) { return saltVersion, nil }

func testVersionsInformation(context.Context, *Call, noArgs) (any, error) {
	return versionsInformation(), nil
}

func testVersionsReport(context.Context, *Call, noArgs) (any, error) {
	return strings.TrimRight(versionsReport(), "\n"), nil
}

func testConfTest(ctx context.Context, c *Call, _ noArgs) (any, error) {
	return c.Run(ctx, "config.option", "test.foo")
}

func testGetOpts(_ context.Context, c *Call, _ noArgs) (any, error) {
	return DeepCopy(c.Opts.All()), nil
}

func testOptsPkg(_ context.Context, c *Call, _ noArgs) (any, error) {
	out := DeepCopy(c.Opts.All()).(*Map)
	out.Set("grains", DeepCopy(c.Grains))
	return out, nil
}

type crossTestArgs struct {
	Func string
	Args any `def:"None"`
}

func testCrossTest(ctx context.Context, c *Call, a crossTestArgs) (any, error) {
	var args []any
	switch v := a.Args.(type) {
	case nil:
	case string: // a text is a sequence of its characters
		for _, r := range v {
			args = append(args, string(r))
		}
	case *Map:
		args = v.Keys()
	case *List, Tuple:
		args = toItems(v)
	default:
		return nil, TypeErrorf("Value after * must be an iterable, not %s", TypeName(v))
	}
	return c.Run(ctx, a.Func, args...)
}

type moduleNameArgs struct{ Module string }

func testProvider(ctx context.Context, c *Call, a moduleNameArgs) (any, error) {
	m := c.Loader.Module(ctx, c, a.Module)
	if m == nil || m.Refused != "" {
		return "", nil
	}
	return m.Provider, nil
}

func testProviders(ctx context.Context, c *Call, _ noArgs) (any, error) {
	out := &Map{}
	for _, name := range c.Loader.ModuleNames(ctx, c) {
		out.Set(c.Loader.Module(ctx, c, name).Provider, name)
	}
	return out, nil
}

func testNotLoaded(ctx context.Context, c *Call, _ noArgs) (any, error) {
	var names []string
	for name := range c.Loader.RefusedModules(ctx, c) {
		names = append(names, name)
	}
	sort.Strings(names)
	return names, nil
}

func testModuleReport(ctx context.Context, c *Call, _ noArgs) (any, error) {
	names := c.Loader.FunctionNames(ctx, c)
	return NewMap("functions", Strings(names), "function_attrs", &List{}, "function_subs", &List{}, "modules", &List{},
		"module_attrs", &List{}, "missing_attrs", Strings(names), "missing_subs", Strings(names)), nil
}

func testAttrCall(ctx context.Context, c *Call, _ noArgs) (any, error) {
	return c.Run(ctx, "grains.items")
}

type randomHashArgs struct {
	Size     int64 `def:"9999999999"`
	HashType any   `def:"None"`
}

func testRandomHash(_ context.Context, c *Call, a randomHashArgs) (any, error) {
	kind := Str(orEmpty(a.HashType))
	if kind == "" {
		if kind = c.Opts.Str("hash_type"); kind == "" {
			kind = "sha256"
		}
	}
	h := newHash(kind)
	if h == nil {
		return nil, OtherErrorf("AttributeError", "module 'hashlib' has no attribute %s", Repr(kind))
	}
	if a.Size < 0 {
		return nil, OtherErrorf("ValueError", "empty range in randrange(0, %d)", a.Size+1)
	}
	fmt.Fprint(h, randomBelow(a.Size+1))
	return hex.EncodeToString(h.Sum(nil)), nil
}

type exceptionArgs struct {
	Message any `def:"'Test Exception'"`
}

func testException(_ context.Context, _ *Call, a exceptionArgs) (any, error) {
	return nil, OtherErrorf("Exception", "%s", Str(a.Message))
}

func testStack(context.Context, *Call, noArgs) (any, error) { return string(debug.Stack()), nil }

func testTTY(context.Context, *Call, anyArgs) (any, error) {
	return "ERROR: This function has been moved to cmd.tty", nil
}

type tryArgs struct {
	Module             string
	ReturnTryException bool `def:"False"`
	Kwargs             *Map `arg:"**kwargs"`
}

func testTry(ctx context.Context, c *Call, a tryArgs) (any, error) {
	ret, err := c.RunKw(ctx, a.Module, nil, a.Kwargs)
	if err == nil {
		return ret, nil
	}
	if a.ReturnTryException {
		return err.Error(), nil
	}
	return nil, nil
}

type assertionArgs struct{ Assertion any }

func testAssertion(_ context.Context, _ *Call, a assertionArgs) (any, error) {
	if Truth(a.Assertion) {
		return nil, nil
	}
	return nil, OtherErrorf("AssertionError", "")
}

type raiseArgs struct {
	Name   string
	Args   []any `arg:"*args"`
	Kwargs *Map  `arg:"**kwargs"`
}

func testRaiseException(_ context.Context, c *Call, a raiseArgs) (any, error) {
	text := ""
	switch len(a.Args) {
	case 0:
	case 1:
		text = Str(a.Args[0])
	default:
		text = Repr(Tuple(a.Args))
	}
	switch short, isSalt := strings.CutPrefix(a.Name, "salt.exceptions."); {
	case isSalt && short == "CommandExecutionError":
		return nil, ExecErrorf("%s", text)
	case isSalt && short == "SaltInvocationError":
		return nil, InvocationErrorf("%s", text)
	case isSalt && short == "CommandNotFoundError":
		return nil, NotFoundErrorf("%s", text)
	case isSalt && strings.HasSuffix(short, "Error"):
		return nil, OtherErrorf(a.Name, "%s", text)
	case a.Name == "TypeError":
		return nil, TypeErrorf("%s", text)
	case a.Name == "KeyError" && len(a.Args) == 1:
		return nil, OtherErrorf(a.Name, "%s", Repr(a.Args[0]))
	case strings.Contains(" "+pythonExceptions+" ", " "+a.Name+" "):
		return nil, OtherErrorf(a.Name, "%s", text)
	case strings.Contains(" BaseException bool bytearray bytes classmethod complex dict enumerate filter float frozenset int list map memoryview object property range reversed set slice staticmethod str super tuple type zip ", " "+a.Name+" "):
		c.Log.Error(a.Name + " is not an exception")
	default:
		c.Log.Error("No such exception: " + a.Name)
	}
	return false, nil
}

// pythonExceptions are the exceptions that test.raise_exception knows by name.
const pythonExceptions = "ArithmeticError AssertionError AttributeError BlockingIOError BrokenPipeError BufferError " +
	"BytesWarning ChildProcessError ConnectionAbortedError ConnectionError ConnectionRefusedError ConnectionResetError " +
	"DeprecationWarning EOFError EnvironmentError Exception FileExistsError FileNotFoundError FloatingPointError " +
	"FutureWarning GeneratorExit IOError ImportError ImportWarning IndentationError IndexError InterruptedError " +
	"IsADirectoryError KeyError KeyboardInterrupt LookupError MemoryError ModuleNotFoundError NameError " +
	"NotADirectoryError NotImplementedError OSError OverflowError PendingDeprecationWarning PermissionError " +
	"ProcessLookupError RecursionError ReferenceError ResourceWarning RuntimeError RuntimeWarning StopAsyncIteration " +
	"StopIteration SyntaxError SyntaxWarning SystemError SystemExit TabError TimeoutError TypeError UnboundLocalError " +
	"UnicodeDecodeError UnicodeEncodeError UnicodeError UnicodeTranslateError UnicodeWarning UserWarning ValueError " +
	"Warning ZeroDivisionError"
