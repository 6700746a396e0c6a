// The `salt-run` command line: one runner, in this process.
//
// The law of this file: the runner runs here and now, with the master's
// configuration and as the user who typed it; only with external
// authentication does the master run it, after it has checked the user. What
// the runner returns is shown by an outputter, what it prints comes before.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

const textAsyncRunner = "Running in asynchronous mode. Results of this execution may be collected by attaching to the master event bus or " +
	"by examining the master job cache, if configured. This execution is running under tag %s"

// asyncRunnerEnv marks a process that runs a runner for one that has ended.
const asyncRunnerEnv = "HALITE_RUNNER_JID"

func appletRun(args []string, std Stdio) int {
	p, code, done := parseCLI("salt-run", args, std)
	if done {
		return code
	}
	if p.Bool("doc") && len(p.Args) > 1 {
		return p.UsageError(std, "You can only get documentation for one method at one time")
	}
	o, code, done := p.LoadConfig(std)
	if done {
		return code
	}
	if !p.Given("timeout") {
		o.Set("timeout", configuredTimeout(p, std))
	}
	log, closeLog := OpenLog(o, std.Err, "log_file")
	defer closeLog()
	log = log.With(LogName, "salt.cli.run")
	fun := ""
	words := []string{}
	if len(p.Args) > 0 {
		fun, words = p.Args[0], p.Args[1:]
	}
	o.Set("fun", fun)
	show, err := newResultPrinter(o, std, log)
	if err != nil {
		fmt.Fprintf(std.Err, "salt-run: %v\n", err)
		return exitFailed
	}
	defer show.d.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := NewRunnerClient(o, log, std.Out, NewCustoms(o))
	defer r.Close()
	c := r.call(fun, "", publishingUser())
	if p.Bool("doc") {
		return printRunnerDocs(ctx, c, fun, std)
	}
	arg := parseWords(words, noParseNames(p.Str("no_parse")))
	f, err := c.Loader.Function(ctx, c, fun)
	pos, kwargs := splitMarked(arg)
	if err != nil || !takesKeywords(f, kwargs) {
		return showRunnerHelp(ctx, c, show, p, fun, err)
	}
	if p.Str("eauth") != "" {
		return runWithEauth(ctx, r, p, std, show, fun, pos, kwargs)
	}
	jid := p.Str("jid")
	if jid == "" {
		jid = os.Getenv(asyncRunnerEnv)
	}
	if jid == "" {
		jid = NewJID(time.Now())
	}
	if ValidJID(jid) != nil {
		return p.UsageError(std, "%s is no job id", Repr(jid))
	}
	if p.Bool("async") && os.Getenv(asyncRunnerEnv) == "" {
		if err := startDetached(args, jid); err != nil {
			fmt.Fprintf(std.Err, "salt-run: start the runner in the background: %v\n", err)
			return exitFailed
		}
		log.Warn(fmt.Sprintf(textAsyncRunner, "salt/run/"+jid))
		return 0
	}
	q := runnerRun{Fun: fun, Args: pos, Kwargs: kwargs, JID: jid, User: publishingUser()}
	quiet := p.Bool("quiet")
	if !quiet {
		q.Show = func(suffix string, data *Map) {
			outputter := data.Str("outputter")
			if outputter != "" { // a result of states: it has no time of its own
				data = data.Clone()
				data.Delete("_stamp")
			}
			if err := show.value(NewMap("suffix", suffix, "event", data), outputter, 0); err != nil {
				log.Debug(err.Error())
			}
		}
	}
	res := r.execute(ctx, q)
	return showRunnerResult(show, std, res, quiet)
}

// configuredTimeout is the timeout of the configuration: the command line's own
// default only holds where none is configured.
func configuredTimeout(p *ParsedCLI, std Stdio) any {
	o, err := LoadMasterConfig(p.ConfigFlags(Stdio{In: std.In, Out: std.Out, Err: io.Discard}))
	if err != nil || o.Value("timeout") == nil {
		return int64(p.Int("timeout"))
	}
	return o.Value("timeout")
}

// takesKeywords says whether a function has a parameter for each keyword.
func takesKeywords(f Function, kwargs *Map) bool {
	if f.Signature() == nil {
		return true
	}
	for k := range kwargs.All() {
		if !f.Signature().TakesKeyword(Str(k)) {
			return false
		}
	}
	return true
}

// showRunnerHelp answers a call that names no function, or arguments that it
// does not have, with what is documented under that name.
func showRunnerHelp(ctx context.Context, c *Call, show *resultPrinter, p *ParsedCLI, fun string, err error) int {
	docs := functionDocs(ctx, c, fun+"*")
	var ret any = docs
	if docs.Len() == 0 {
		var missing *NotAvailableError
		if !errors.As(err, &missing) {
			missing = &NotAvailableError{Name: fun}
		}
		ret = missing.Error()
	}
	if p.Bool("quiet") {
		return 0
	}
	if err := show.value(ret, "nested", 0); err != nil {
		return exitFailed
	}
	return 0
}

func printRunnerDocs(ctx context.Context, c *Call, fun string, std Stdio) int {
	docs := functionDocs(ctx, c, fun)
	for _, name := range docs.SortedKeys() {
		if _, err := fmt.Fprintf(std.Out, "%s:\n%s\n", name, Str(docs.Value(name))); err != nil {
			return exitFailed
		}
	}
	return 0
}

// showRunnerResult prints the result and makes the exit code.
func showRunnerResult(show *resultPrinter, std Stdio, res runnerResult, quiet bool) int {
	data, out := unwrapOutput(res.Return)
	if !quiet {
		if err := show.value(data, out, 0); err != nil {
			if !errors.Is(err, syscall.EPIPE) {
				fmt.Fprintf(std.Err, "salt-run: %v\n", err)
			}
			return exitFailed
		}
	}
	if res.Failed {
		return exitFailed
	}
	if m, ok := res.Return.(*Map); ok {
		for _, m := range []*Map{m, m.Map("data")} {
			if code, ok := m.Get("retcode"); ok {
				n, _ := toInt(code)
				return int(n)
			}
		}
	}
	return 0
}

// splitMarked takes the keyword arguments out of converted words.
func splitMarked(arg *List) (pos []any, kwargs *Map) {
	kwargs = NewMap()
	for _, v := range arg.Items {
		if m, ok := v.(*Map); ok && m.Value("__kwarg__") == true {
			kwargs.Merge(m)
			continue
		}
		pos = append(pos, v)
	}
	kwargs.Delete("__kwarg__")
	return pos, kwargs
}

// startDetached runs the same command line in a process of its own session.
func startDetached(args []string, jid string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Args = append([]string{"salt-run"}, args...)
	cmd.Env = append(os.Environ(), asyncRunnerEnv+"="+jid)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// runWithEauth lets the master run the runner for a user of an external system
// and waits for the result on the event bus.
func runWithEauth(ctx context.Context, r *RunnerClient, p *ParsedCLI, std Stdio, show *resultPrinter, fun string, pos []any, kwargs *Map) int {
	load := NewMap("cmd", "runner", "fun", fun, "kwarg", NewMap("arg", NewList(pos...), "kwarg", kwargs))
	switch token := r.o.Str("token"); {
	case token != "" && r.local.key != "":
		load.Set("key", r.local.key)
	case token != "":
		load.Set("token", token)
	default:
		fields, ok := eauthFields(p, std, p.Str("eauth"))
		if !ok {
			r.log.Error("Authentication failed")
			return 0
		}
		cred := PublishAuth{Eauth: p.Str("eauth"), Fields: fields}
		if p.Bool("mktoken") {
			if token := makeToken(ctx, r.o, cred); token != "" {
				cred = PublishAuth{Token: token}
			}
		}
		cred.addTo(load)
	}
	ret, out, err := askForRunner(ctx, r.local, load, !p.Bool("async"))
	if err != nil {
		ret, out = err.Error(), ""
	}
	if p.Bool("async") && err == nil {
		r.log.Warn(fmt.Sprintf(textAsyncRunner, Str(ret)))
		return 0
	}
	if !p.Bool("quiet") {
		if err := show.value(ret, out, 0); err != nil {
			return exitFailed
		}
	}
	return 0
}

// askForRunner sends a runner request and, with wait, follows the bus to its
// result; else it returns the tag.
func askForRunner(ctx context.Context, c *LocalClient, load *Map, wait bool) (ret any, outputter string, err error) {
	bus, err := c.openBus(ctx)
	if err != nil {
		return nil, "", &ClientError{Name: "SaltClientError", Msg: textNoMaster, Err: err}
	}
	sub := bus.Subscribe("salt/run/")
	defer sub.Close()
	v, err := c.ask(ctx, load)
	if err != nil {
		return nil, "", err
	}
	m, _ := v.(*Map)
	if e, ok := m.Get("error"); ok {
		text := Str(e)
		if detail, ok := e.(*Map); ok {
			text = detail.Str("message")
		}
		return nil, "", &ClientError{Name: "EauthAuthenticationError", Msg: text}
	}
	tag := m.Str("tag")
	if tag == "" {
		return nil, "", &ClientError{Name: "SaltClientError", Msg: "the master did not take the runner"}
	}
	if !wait {
		return tag, "", nil
	}
	sub.Narrow(tag + "/ret")
	e, err := sub.Next(ctx)
	if err != nil {
		return nil, "", err
	}
	data, err := e.Data()
	if err != nil {
		return nil, "", err
	}
	ret, outputter = unwrapOutput(data.Value("return"))
	return ret, outputter, nil
}
