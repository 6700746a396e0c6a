// salt-call: one function on this box, with its master or without one.
//
// The law of this file: the function runs by the same path as a job; only what
// it may need is made ready, so that `salt-call --local test.ping` costs
// milliseconds: no key pair, no grains, no connection.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	exitCallPending = 2   // the master has not accepted our key
	exitCallUnknown = 255 // no such function
)

func appletCall(args []string, std Stdio) int {
	p, code, done := parseCLI("salt-call", args, std)
	if done {
		return code
	}
	if len(p.Args) == 0 && !p.Bool("grains_run") && !p.Bool("doc") {
		p.PrintHelp(std.Out)
		return p.UsageError(std, "Requires function, --grains or --doc")
	}
	o, code, done := p.LoadConfig(std)
	if done {
		return code
	}
	callOptions(p, o)
	log, closeLog := OpenLog(o, std.Err, "log_file")
	defer closeLog()
	log = log.With(LogName, "salt.cli.caller")
	if err := switchUser(o.Str("user")); err != nil {
		fmt.Fprintf(std.Err, "salt-call: %v\n", err)
		return exitNoUser
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	c := &caller{opts: o, std: std, log: log, parsed: p}
	defer c.close()
	err := c.run(ctx)
	var exit *ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if exit.Err != nil {
			fmt.Fprintln(std.Err, exit.Err)
		}
		return exit.Code
	}
	fmt.Fprintln(std.Err, err)
	return 1
}

// callOptions puts what the command line says about places into the options.
func callOptions(p *ParsedCLI, o *Options) {
	for option, roots := range map[string]string{"file_root": "file_roots", "pillar_root": "pillar_roots"} {
		if dir := p.Str(option); dir != "" {
			o.Set(roots, NewMap("base", NewList(absolutePath(dir))))
		}
	}
	if dir := p.Str("states_dir"); dir != "" {
		o.Set("states_dirs", NewList(absolutePath(dir)))
	}
	if p.Bool("local") {
		o.Set("file_client", "local")
	}
	if len(p.Args) > 0 {
		o.Set("fun", p.Args[0])
		o.Set("arg", Strings(p.Args[1:]))
	}
}

func absolutePath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// caller is one run of salt-call.
type caller struct {
	opts   *Options
	std    Stdio
	log    *slog.Logger
	parsed *ParsedCLI

	custom  *Customs
	channel *masterChannel // nil without a master
	env     *Env
}

func (c *caller) close() {
	if c.channel != nil {
		c.channel.Close()
	}
	if c.custom != nil {
		c.custom.Close()
	}
}

// run does what the command line asks for.
func (c *caller) run(ctx context.Context) error {
	display, err := openDisplay(c.opts, c.std, c.log)
	if err != nil {
		return err
	}
	defer display.Close()
	if err := c.prepare(ctx); err != nil {
		return err
	}
	switch {
	case c.parsed.Bool("doc"):
		return c.docs(ctx)
	case c.parsed.Bool("grains_run"):
		return display.Show(NewMap("local", c.env.Grains), "grains", 0)
	}
	return c.call(ctx, display)
}

// needsNothing says whether a function surely looks at neither grains nor
// pillar, so that it can run without them.
func needsNothing(fun string) bool {
	switch fun {
	case "test.ping", "test.echo", "test.arg", "test.kwarg", "test.true", "test.false", "test.version", "test.sleep", "test.retcode":
		return true
	}
	return false
}

// prepare makes ready what functions are lent: grains, modules, pillar, files.
func (c *caller) prepare(ctx context.Context) error {
	o := c.opts
	c.custom = NewCustoms(o)
	grains := NewMap("id", o.Str("id"))
	local := isLocal(o)
	if !local || len(c.parsed.Args) == 0 || !needsNothing(c.parsed.Args[0]) {
		grains = gatherGrains(ctx, o, c.custom, c.log)
	}
	c.env = &Env{
		Opts: o, Grains: grains, Pillar: NewMap(), Log: c.log, Loader: NewLoader(o, c.custom),
		Jobs:      newJobTable(procDir(o), 0, c.log),
		Templates: NewTemplates(o, customStages(c.custom)),
	}
	if local {
		c.env.Files = NewLocalFiles(o, c.log)
		if len(c.parsed.Args) > 0 && needsNothing(c.parsed.Args[0]) {
			return nil
		}
		pillar, err := compileLocalPillar(ctx, c.env, nil, o.Value("pillarenv"))
		if err != nil {
			return fmt.Errorf("compile the pillar: %w", err)
		}
		c.env.Pillar = pillar
		return nil
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	c.env.Master = c.channel
	c.env.Files = NewFileClient(o, c.log, c.channel.Request, false)
	pillar, err := c.channel.FetchPillar(ctx, pillarRequest(o, o.Str("id"), grains))
	if err != nil {
		return fmt.Errorf("fetch the pillar: %w", err)
	}
	c.env.Pillar = pillar
	if errs := pillar.List("_errors"); errs.Len() > 0 {
		c.log.Log(ctx, LevelCritical, "Pillar render error: "+Str(errs))
	}
	return nil
}

// connect logs in at the first master that takes us.
func (c *caller) connect(ctx context.Context) error {
	o := c.opts
	key, err := loadMinionKey(o)
	if err != nil {
		return err
	}
	policy, err := loginPolicy(o, c.env.Grains)
	if err != nil {
		return err
	}
	names := slices.Clone(o.List("master"))
	if o.Bool("random_master") {
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	}
	// The link lends its knowledge of addresses and transport options.
	l := &masterLink{log: c.log, opts: o}
	c.channel = newMasterChannel(NewCredentials(o.Str("id"), key), policy, l.dialRequester, c.log)
	configureChannel(c.channel, o)
	var last error
	for _, name := range names {
		a, err := parseMaster(name, max(o.Int("master_port"), 1))
		if err != nil {
			return err
		}
		if last = c.login(ctx, a); last == nil {
			return nil
		}
		var exit *ExitError
		if errors.As(last, &exit) || ctx.Err() != nil {
			return last
		}
	}
	switch {
	case last == nil:
		return errors.New("no master is configured; set master in the minion's configuration, or use --local")
	case errors.Is(last, errAuthPending):
		fmt.Fprintln(c.std.Out, "Minion failed to authenticate with the master, has the minion key been accepted?")
		return &ExitError{Code: exitCallPending}
	case errors.Is(last, errAuthRefused):
		return &ExitError{exitKeyRejected, last}
	}
	return last
}

// login tries one master auth_tries times.
func (c *caller) login(ctx context.Context, a masterAddr) error {
	var last error
	for n := range max(c.opts.Int("auth_tries"), 1) {
		if n > 0 && !sleepContext(ctx, time.Second/2) {
			return ctx.Err()
		}
		hosts, err := resolve(ctx, a.Host, c.opts.Bool("ipv6"))
		if err != nil {
			if last = err; n > 0 {
				break // a name that is not found twice will not be found soon
			}
			continue
		}
		for _, host := range hosts {
			c.channel.SetAddr(net.JoinHostPort(host, strconv.Itoa(a.Port)))
			_, err := c.channel.Renew(ctx, nil)
			if err == nil {
				return nil
			}
			last = err
			var exit *ExitError
			if errors.As(err, &exit) || errors.Is(err, errAuthPending) || errors.Is(err, errAuthRefused) ||
				errors.Is(err, errMasterChanged) || errors.Is(err, errAuthFull) {
				return err
			}
		}
	}
	return fmt.Errorf("master %s: %w", a, last)
}

// docs prints the documentation of all functions whose name begins so.
func (c *caller) docs(ctx context.Context) error {
	prefix := ""
	if len(c.parsed.Args) > 0 {
		prefix = c.parsed.Args[0]
	}
	call := NewCall(c.env, "", "", nil)
	names := c.env.Loader.FunctionNames(ctx, call)
	sort.Strings(names)
	for _, name := range names {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if f, err := c.env.Loader.Function(ctx, call, name); err == nil && f.Doc() != "" {
			fmt.Fprintf(c.std.Out, "%s:\n%s\n\n", name, f.Doc())
		}
	}
	return nil
}

// call runs the function and shows, returns and rates its result.
func (c *caller) call(ctx context.Context, display *Display) error {
	o := c.opts
	fun, words := c.parsed.Args[0], c.parsed.Args[1:]
	jid := NewJID(time.Now())
	call := NewCall(c.env, fun, jid, nil)
	f, err := c.env.Loader.Function(ctx, call, fun)
	if err != nil {
		return c.unknown(ctx, call, display, err)
	}
	meta := c.parsed.Value("metadata")
	pub := NewMap("fun", fun, "pid", int64(os.Getpid()), "jid", jid, "tgt", "salt-call")
	if meta != nil {
		meta = convertWord(Str(meta))
		pub.Set("metadata", meta)
	}
	items := parseWords(words, noParseNames(c.parsed.Str("no_parse"))).Items
	args, kwargs, err := SplitKeywords(f.Signature(), items, nil)
	if err != nil {
		return err
	}
	if f.Signature().Kwargs != "" {
		for k, v := range pub.All() {
			kwargs.Set("__pub_"+Str(k), v)
		}
	}
	if err := writeProcFile(procDir(o), jid, pub); err != nil {
		c.log.Warn(err.Error())
	}
	defer os.Remove(filepath.Join(procDir(o), jid))
	result, err := call.RunDirect(ctx, fun, args, kwargs)
	if ctx.Err() != nil {
		return &ExitError{130, errors.New("interrupted")}
	}
	if err != nil {
		return c.failed(fun, f, err)
	}
	ret := NewMap("jid", jid, "return", result, "retcode", retcodeOf(call, result))
	if out := outputterOf(fun); out != "" {
		ret.Set("out", out)
	}
	ret.Set("id", o.Str("id"))
	ret.Set("fun", fun)
	ret.Set("fun_args", Strings(words))
	if meta != nil {
		ret.Set("metadata", meta)
	}
	var returners []string
	for _, v := range o.List("return") {
		returners = append(returners, strings.Split(v, ",")...)
	}
	if slices.ContainsFunc(returners, func(s string) bool { return s != "" }) {
		ret.Set("success", true)
		callReturners(ctx, c.env, returners, ret, c.std.Out, slog.LevelInfo)
	}
	return c.finish(ctx, display, ret)
}

// finish shows a result, sends it to the master and turns its retcode into the
// exit code.
func (c *caller) finish(ctx context.Context, display *Display, ret *Map) error {
	retcode, _ := toInt(ret.Value("retcode"))
	shown, out := ret.Value("return"), ret.Str("out")
	if c.parsed.Bool("print_metadata") {
		shown, out = ret, "nested"
	}
	if err := display.Show(NewMap("local", shown), out, int(retcode)); err != nil {
		return err
	}
	switch {
	case c.channel != nil && !c.parsed.Bool("no_return_event"):
		load := NewMap("cmd", "_return", "id", c.opts.Str("id"))
		load.Merge(ret)
		load.Set("jid", "req")
		if _, err := c.channel.Request(ctx, load); err != nil {
			c.log.Warn(fmt.Sprintf("send the result to the master: %v", err))
		}
	case c.opts.Bool("cache_jobs"):
		if err := cacheJob(c.opts, ret.Str("jid"), ret); err != nil {
			c.log.Warn(err.Error())
		}
	}
	switch {
	case c.parsed.Bool("retcode_passthrough"):
		if retcode != 0 {
			return &ExitError{Code: int(retcode & 0xff)}
		}
	case retcode != 0:
		return &ExitError{Code: 1}
	}
	return nil
}

// unknown tells about a function that does not exist.
func (c *caller) unknown(ctx context.Context, call *Call, display *Display, err error) error {
	var missing *NotAvailableError
	if !errors.As(err, &missing) {
		return err
	}
	text := missingFunction(ctx, call, missing.Name, missing)
	if docs, ok := text.(*Map); ok {
		if err := display.Show(NewMap("local", docs), "nested", 1); err != nil {
			return err
		}
		return &ExitError{Code: 1}
	}
	return &ExitError{exitCallUnknown, errors.New(Str(text))}
}

// failed tells about a function that failed: each kind of error in the words
// that salt-call has for it, which are not those of a job.
func (c *caller) failed(fun string, f Function, err error) error {
	me := asModuleError(err)
	var text string
	switch me.Kind {
	case ErrExecution:
		text = fmt.Sprintf("Error running '%s': %s\n", fun, me.Msg)
	case ErrCommandNotFound:
		text = fmt.Sprintf("Command required for '%s' not found: %s\n", fun, me.Msg)
	case ErrType, ErrInvocation:
		text = fmt.Sprintf("\nPassed invalid arguments: %s.\n\nUsage:\n", me.Msg)
		doc := f.Doc()
		if doc == "" {
			doc = "None"
		}
		fmt.Fprintln(c.std.Out, doc)
	default:
		text = me.Traceback()
	}
	fmt.Fprint(c.std.Err, text)
	return &ExitError{Code: 1}
}
