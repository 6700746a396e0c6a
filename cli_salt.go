// The `salt` command line: a job for minions, and what they answer.
//
// The law of this room: what Salt prints is printed in Salt's words, on the
// stream Salt uses, with Salt's exit code; answers are printed as they come.
// The wait, the verdicts and the publication itself belong to the local client
// (cli_client.go), slices to cli_salt_batch.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Exit codes of `salt` alone.
const (
	exitFailed    = 1 // a minion answered with an error, or not at all
	exitNoReturns = 2 // nobody was addressed, or nobody answered
)

const (
	textReturnsFailed = "ERROR: Minions returned with non-zero exit code\n"
	textNoReturns     = "ERROR: No return received\n"
)

// saltCommand is one run of `salt`.
type saltCommand struct {
	p    *ParsedCLI
	o    *Options
	std  Stdio
	log  *slog.Logger
	c    *LocalClient
	show *resultPrinter

	kind string
	tgt  any // text, or *List for -L
	fun  any // text, or *List of several
	arg  *List
}

func appletSalt(args []string, std Stdio) int {
	p, code, done := parseCLI("salt", args, std)
	if done {
		return code
	}
	s := &saltCommand{p: p, std: std}
	if code, done := s.readWords(); done {
		return code
	}
	if s.o, code, done = p.LoadConfig(std); done {
		return code
	}
	log, closeLog := OpenLog(s.o, std.Err, "log_file")
	defer closeLog()
	s.log = log.With(LogName, "salt.cli.salt")
	if p.Bool("config_dump") {
		return s.dumpConfig()
	}
	if s.p.Value("timeout") == nil || s.p.Int("timeout") <= 0 {
		s.p.values.Set("timeout", s.o.Value("timeout"))
	}
	s.o.Set("fun", s.fun)
	var err error
	if s.show, err = newResultPrinter(s.o, std, s.log); err != nil {
		fmt.Fprintf(std.Err, "salt: %v\n", err)
		return exitFailed
	}
	defer s.show.d.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return s.run(ctx)
}

// readWords makes target, function and arguments of the words.
func (s *saltCommand) readWords() (code int, done bool) {
	p := s.p
	if p.Bool("config_dump") {
		return 0, false
	}
	words := slices.Clone(p.Args)
	if len(words) <= 1 && !p.Bool("doc") && !p.Bool("preview_target") {
		p.PrintHelp(s.std.Out)
	}
	if p.Bool("preview_target") {
		words = append(words, "not_a_valid_command")
	}
	if p.Bool("doc") {
		if len(words) == 0 {
			words = []string{"*"}
		}
		if len(words) < 2 || words[1] != "sys.doc" {
			words = slices.Insert(words, 1, "sys.doc")
		}
		if len(words) > 3 {
			return p.UsageError(s.std, "You can only get documentation for one method at one time."), true
		}
	}
	if len(words) == 0 || p.Bool("preview_target") && len(words) < 2 {
		io.WriteString(s.std.Err, "\nCannot execute command without defining a target.\n\n")
		return exitIncomplete, true
	}
	s.kind = selectedTarget(p)
	s.tgt = words[0]
	if s.kind == "list" {
		s.tgt = Strings(SplitTargetList(words[0]))
	}
	if len(words) < 2 {
		io.WriteString(s.std.Err, "\nIncomplete options passed.\n\n")
		return exitIncomplete, true
	}
	return s.readFunction(words[1], words[2:])
}

// readFunction reads "fun" with its arguments, or "fun1,fun2" with one group of
// arguments for each.
func (s *saltCommand) readFunction(fun string, words []string) (code int, done bool) {
	noParse := noParseNames(s.p.Str("no_parse"))
	if !strings.Contains(fun, ",") {
		s.fun = fun
		s.arg = parseWords(words, noParse)
		return 0, false
	}
	funs, groups, err := splitFunctions(fun, words, s.p.Str("args_separator"))
	if err != nil {
		fmt.Fprintln(s.std.Err, err)
		return exitIncomplete, true
	}
	s.fun = Strings(funs)
	s.arg = NewList()
	for _, g := range groups {
		s.arg.Append(parseWords(g, noParse))
	}
	return 0, false
}

// selectedTarget is the target type that the options name.
func selectedTarget(p *ParsedCLI) string {
	for _, name := range []string{"pcre", "list", "grain", "grain_pcre", "nodegroup", "range", "compound", "pillar_target", "pillar_pcre", "ipcidr", "list_hosts"} {
		if p.Bool(name) {
			return strings.TrimSuffix(name, "_target")
		}
	}
	return "glob"
}

func (s *saltCommand) dumpConfig() int {
	o, err := LoadMasterConfig(s.p.ConfigFlags(s.std))
	if err != nil {
		fmt.Fprintln(s.std.Err, err)
		return exitConfig
	}
	io.WriteString(s.std.Out, DumpYAML(o.All(), YAMLOptions{SortKeys: true}))
	return 0
}

func (s *saltCommand) run(ctx context.Context) int {
	if s.p.Bool("preview_target") {
		ids, err := newMinionPool(s.o).selectIDs(s.kind, s.tgt, "", true)
		if err != nil {
			s.log.Error(err.Error())
		}
		return s.finish(s.show.value(Strings(ids), "", 0), len(ids) == 0)
	}
	if _, err := ParseTarget(s.kind, s.tgt, s.p.Str("delimiter"), s.o.Map("nodegroups")); err != nil {
		// Salt only says that nothing matched; the reason is worth a line.
		var unknown *UnknownNodegroupError
		if !errors.As(err, &unknown) {
			s.log.Info(err.Error())
		}
		if s.kind == "range" {
			s.log.Error(err.Error())
		}
	}
	batch := s.p.Str("batch")
	if limit := s.p.Int("batch_safe_limit"); batch == "" && !s.p.Bool("static") && limit > 1 {
		ids, err := newMinionPool(s.o).selectIDs(s.kind, s.tgt, "", true)
		if err == nil && len(ids) >= limit {
			io.WriteString(s.std.Out, "\nNOTICE: Too many minions targeted, switching to batch execution.\n")
			batch = s.p.Str("batch_safe_size")
		}
	}
	inBatches := batch != "" || s.p.Bool("static")
	cred, code, done := s.credentials(ctx, inBatches)
	if done {
		return code
	}
	s.c = NewLocalClient(s.o, cred, s.log)
	defer s.c.Close()
	if inBatches {
		return s.runBatch(ctx, batch)
	}
	if s.p.Bool("async") {
		return s.runAsync(ctx)
	}
	return s.runWaiting(ctx)
}

// wait is how long answers are waited for.
func (s *saltCommand) wait() WaitOptions {
	return WaitOptions{
		Timeout:  time.Duration(s.p.Float("timeout") * float64(time.Second)),
		Deadline: s.o.Duration("job_deadline"),
		Silent:   s.p.Bool("show_timeout") || s.p.Bool("verbose"),
	}
}

// request is the job as it was asked for.
func (s *saltCommand) request() JobRequest {
	kw := NewMap("show_timeout", s.p.Bool("show_timeout"), "show_jid", s.p.Bool("show_jid"))
	for _, f := range []struct{ option, field string }{
		{"return_kwargs", "ret_kwargs"}, {"module_executors", "module_executors"}, {"executor_opts", "executor_opts"}, {"metadata", "metadata"},
	} {
		if text := s.p.Str(f.option); text != "" {
			kw.Set(f.field, convertWord(text))
		}
	}
	if name := s.p.Str("return_config"); name != "" {
		kw.Set("ret_config", name)
	}
	if s.p.Bool("on_connect") {
		kw.Set("on_connect", true)
	}
	return JobRequest{Tgt: s.tgt, TgtType: s.kind, Fun: s.fun, Arg: s.arg, Ret: s.p.Str("return"), Delimiter: s.p.Str("delimiter"), Kwargs: kw}
}

func (s *saltCommand) runAsync(ctx context.Context) int {
	jid := "0"
	job, err := s.c.Publish(ctx, s.request(), false)
	switch {
	case errors.Is(err, ErrNoMinions):
		fmt.Fprintln(s.std.Out, textNoMinions)
	case err != nil:
		return s.fail(err)
	default:
		jid = job.JID
		s.tellOwed(job)
	}
	fmt.Fprintf(s.std.Out, "Executed command with job ID: %s\n", jid)
	return 0
}

// runWaiting publishes the job and prints the answers as they come.
func (s *saltCommand) runWaiting(ctx context.Context) int {
	req := s.request()
	if n := s.p.Int("subset"); n > 0 {
		ids, err := s.subset(ctx, n)
		if err != nil {
			return s.fail(err)
		}
		if len(ids) == 0 {
			fmt.Fprintln(s.std.Out, textNoMinions)
			return s.finish(s.show.value(NewMap(), "", 0), true)
		}
		req.Tgt, req.TgtType, req.Delimiter = Strings(ids), "list", ""
	}
	job, err := s.c.Publish(ctx, req, true)
	if errors.Is(err, ErrNoMinions) {
		fmt.Fprintln(s.std.Out, textNoMinions)
		if s.isDoc() {
			io.WriteString(s.std.Err, "No minions found to gather docs from\n")
			return exitNoReturns
		}
		return s.finish(s.show.value(NewMap(), "", 0), true)
	}
	if err != nil {
		return s.fail(err)
	}
	s.tellOwed(job)
	s.printHeader(job.JID)
	if s.isDoc() {
		return s.docs(ctx, job)
	}
	sum := &returnSummary{}
	failed := false
	bar, answered := newProgressBar(s.std.Err, len(job.Minions)), 0
	var outErr error
	err = s.c.Follow(ctx, job, s.wait(), func(r MinionReturn) bool {
		code := answerRetcode(r.Retcode, r.Return)
		failed = failed || code != 0
		sum.add(r, code)
		if s.p.Bool("progress") {
			if r.Silent == "" {
				answered++
				bar.Update(answered)
			}
			if !isTerminal(s.std.Err) {
				return true // without a terminal there is neither bar nor output, as in Salt
			}
		}
		outErr = s.show.value(NewMap(r.ID, r.Return), r.Out, code)
		return outErr == nil
	})
	bar.End()
	if code, done := s.interrupted(ctx, job); done {
		return code
	}
	if err == nil {
		err = outErr
	}
	if err != nil {
		return s.fail(err)
	}
	if s.p.Bool("cli_summary") && s.p.Str("output") == "" {
		sum.print(s.std.Out, s.p.Bool("verbose"))
	}
	if failed && !s.p.Bool("progress") {
		io.WriteString(s.std.Err, textReturnsFailed)
		return exitFailed
	}
	return 0
}

func (s *saltCommand) isDoc() bool { return s.fun == any("sys.doc") }

// tellOwed says when --on-connect asks what the master does not do.
func (s *saltCommand) tellOwed(job *PublishedJob) {
	if s.p.Bool("on_connect") && !job.Owed {
		s.log.Warn("this master does not keep jobs for minions that are down: --on-connect has no effect")
	}
}

// printHeader names the job before its answers. With a machine's format it goes
// beside the output, which then is that format and nothing else.
func (s *saltCommand) printHeader(jid string) {
	w := s.std.Out
	switch s.p.Str("output") {
	case "json", "yaml", "raw", "pprint":
		w = s.std.Err
	}
	switch {
	case s.p.Bool("verbose"):
		line := "Executing job with jid " + jid
		fmt.Fprintf(w, "%s\n%s\n\n", line, strings.Repeat("-", len(line)))
	case s.p.Bool("show_jid"):
		fmt.Fprintf(w, "jid: %s\n", jid)
	}
}

// interrupted says what becomes of a job whose user pressed Ctrl-C.
func (s *saltCommand) interrupted(ctx context.Context, job *PublishedJob) (code int, done bool) {
	if ctx.Err() == nil {
		return 0, false
	}
	fmt.Fprintf(s.std.Err, "\nExiting gracefully on Ctrl-c\nThis job's jid is: %s\n"+
		"The minions may not have all finished running and any remaining minions will return upon completion. To look up the "+
		"return data for this job later, run the following command:\n\nsalt-run jobs.lookup_jid %s\n", job.JID, job.JID)
	return exitFailed, true
}

// subset chooses minions by chance among those that have the function.
func (s *saltCommand) subset(ctx context.Context, n int) ([]string, error) {
	funs := []string{}
	for _, f := range toItems(s.fun) {
		funs = append(funs, Str(f))
	}
	args := Strings(funs)
	req := JobRequest{Tgt: s.tgt, TgtType: s.kind, Fun: "sys.list_functions", Arg: args, Delimiter: s.p.Str("delimiter")}
	var have []string
	_, err := s.c.Run(ctx, req, s.wait(), func(r MinionReturn) bool {
		if r.Silent != "" {
			return true
		}
		var names []string
		for _, v := range toItems(r.Return) {
			names = append(names, Str(v))
		}
		for _, f := range funs {
			if !slices.Contains(names, f) {
				return true
			}
		}
		have = append(have, r.ID)
		return true
	})
	if errors.Is(err, ErrNoMinions) {
		fmt.Fprintln(s.std.Out, textNoMinions)
		return nil, nil
	}
	rand.Shuffle(len(have), func(i, j int) { have[i], have[j] = have[j], have[i] })
	return have[:min(n, len(have))], err
}

// docs merges what the minions know about functions into one listing.
func (s *saltCommand) docs(ctx context.Context, job *PublishedJob) int {
	docs := map[string]string{}
	err := s.c.Follow(ctx, job, s.wait(), func(r MinionReturn) bool {
		m, _ := r.Return.(*Map)
		for k, v := range m.All() {
			if text, ok := v.(string); ok && text != "" && docs[Str(k)] == "" {
				docs[Str(k)] = text
			}
		}
		return true
	})
	if code, done := s.interrupted(ctx, job); done {
		return code
	}
	if err != nil {
		return s.fail(err)
	}
	return s.show.docs(docs, s.p.Str("output") != "")
}

// finish ends a run whose output is written.
func (s *saltCommand) finish(err error, nothing bool) int {
	if err != nil {
		return s.fail(err)
	}
	if nothing {
		io.WriteString(s.std.Err, textNoReturns)
		return exitNoReturns
	}
	return 0
}

// fail tells an error. Salt prints what the master refuses as a result, with
// exit code 0; whatever is wrong on this side is an error.
func (s *saltCommand) fail(err error) int {
	var refused *ClientError
	if !errors.As(err, &refused) {
		var told *outputError
		if errors.Is(err, syscall.EPIPE) || errors.As(err, &told) {
			return exitFailed
		}
		fmt.Fprintf(s.std.Err, "salt: %v\n", err)
		return exitFailed
	}
	if refused.Err != nil {
		s.log.Debug(fmt.Sprintf("%s: %v", refused.Name, refused.Err))
	}
	switch refused.Name {
	case "SaltReqTimeoutError", "PublishError":
		fmt.Fprintf(s.std.Err, "salt: %s\n", refused.Msg)
		return exitFailed
	}
	if err := s.show.value(refused.Msg, "", 1); err != nil {
		return exitFailed
	}
	return 0
}

// answerRetcode is the exit code of one answer; the highest, where several functions
// ran. That of a program which a signal ended is negative and does not count.
func answerRetcode(retcode, ret any) int {
	switch v := retcode.(type) {
	case *Map:
		highest := 0
		for _, code := range v.All() {
			n, _ := toInt(code)
			highest = max(highest, int(n))
		}
		return highest
	case nil:
		return 0
	case bool:
		if v {
			return 1
		}
		return 0
	}
	n, ok := toInt(retcode)
	if !ok {
		return 1
	}
	return max(int(n), 0)
}

// returnSummary counts answers.
type returnSummary struct {
	returned                          int
	notConnected, noResponse, failing []string
	silent                            int
}

func (s *returnSummary) add(r MinionReturn, code int) {
	switch {
	case r.Silent == SilentNotConnected:
		s.silent++
		s.notConnected = append(s.notConnected, r.ID)
	case r.Silent != "":
		s.silent++
		s.noResponse = append(s.noResponse, r.ID)
	default:
		s.returned++
		if code != 0 {
			s.failing = append(s.failing, r.ID)
		}
	}
}

func (s *returnSummary) print(w io.Writer, names bool) {
	rule := strings.Repeat("-", 43)
	fmt.Fprintf(w, "\n\n%s\nSummary\n%s\n", rule, rule)
	fmt.Fprintf(w, "# of minions targeted: %d\n# of minions returned: %d\n# of minions that did not return: %d\n# of minions with errors: %d\n",
		s.returned+s.silent, s.returned, s.silent, len(s.failing))
	if names {
		for _, l := range []struct {
			text string
			ids  []string
		}{{"Minions not connected", s.notConnected}, {"Minions not responding", s.noResponse}, {"Minions with failures", s.failing}} {
			if len(l.ids) > 0 {
				fmt.Fprintf(w, "%s: %s\n", l.text, strings.Join(l.ids, " "))
			}
		}
	}
	fmt.Fprintln(w, rule)
}
