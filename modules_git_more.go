// Module git: differences, configuration, remotes, worktrees and the rest.
package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

type gitDiffArgs struct {
	Cwd            string
	Item1          any  `def:"None"`
	Item2          any  `def:"None"`
	Opts           any  `def:"''"`
	GitOpts        any  `def:"''"`
	User           any  `def:"None"`
	Password       any  `def:"None"`
	NoIndex        bool `def:"False"`
	Cached         bool `def:"False"`
	Paths          any  `def:"None"`
	OutputEncoding any  `def:"None"`
}

func gitDiff(ctx context.Context, c *Call, a gitDiffArgs) (any, error) {
	if a.NoIndex && a.Cached {
		return nil, ExecErrorf("The 'no_index' and 'cached' options cannot be used together")
	}
	var rest []string
	g := gitCall{cwd: a.Cwd, user: a.User, merge: true}
	switch {
	case a.NoIndex:
		g.ignore, g.soft = true, true
		rest = append(rest, "--no-index")
	case a.Cached:
		rest = append(append(rest, "--cached"), oneWord(a.Item1)...)
	default:
		rest = append(append(rest, oneWord(a.Item1)...), oneWord(a.Item2)...)
	}
	if a.Paths != nil {
		rest = append(append(rest, "--"), groupList(a.Paths)...)
	}
	return gitText(ctx, c, g, a.GitOpts, a.Opts, "diff", rest...)
}

type gitRevisionArgs struct {
	Cwd            string
	Rev            any  `def:"'HEAD'"`
	Short          bool `def:"False"`
	User           any  `def:"None"`
	Password       any  `def:"None"`
	IgnoreRetcode  bool `def:"False"`
	OutputEncoding any  `def:"None"`
}

func gitRevision(ctx context.Context, c *Call, a gitRevisionArgs) (any, error) {
	var rest []string
	if a.Short {
		rest = append(rest, "--short")
	}
	return gitText(ctx, c, gitCall{cwd: a.Cwd, user: a.User, ignore: a.IgnoreRetcode}, nil, nil, "rev-parse", append(rest, Str(a.Rev))...)
}

type gitDescribeArgs struct {
	Cwd            string
	Rev            any  `def:"'HEAD'"`
	User           any  `def:"None"`
	Password       any  `def:"None"`
	IgnoreRetcode  bool `def:"False"`
	OutputEncoding any  `def:"None"`
}

func gitDescribe(ctx context.Context, c *Call, a gitDescribeArgs) (any, error) {
	return gitText(ctx, c, gitCall{cwd: a.Cwd, user: a.User, ignore: a.IgnoreRetcode}, nil, nil, "describe", "--always", Str(a.Rev))
}

func gitCurrentBranch(ctx context.Context, c *Call, a gitCwdArgs) (any, error) {
	return gitText(ctx, c, a.call(), nil, nil, "rev-parse", "--abbrev-ref", "HEAD")
}

type gitDiscardArgs struct {
	Cwd            string
	Path           any  `def:"'.'"`
	User           any  `def:"None"`
	Password       any  `def:"None"`
	IgnoreRetcode  bool `def:"False"`
	OutputEncoding any  `def:"None"`
}

func gitDiscard(ctx context.Context, c *Call, a gitDiscardArgs) (any, error) {
	return gitDone(ctx, c, gitCall{cwd: a.Cwd, user: a.User, ignore: a.IgnoreRetcode}, nil, nil, "checkout", "--", Str(a.Path))
}

type gitConfigGetArgs struct {
	Key            any
	Cwd            any  `def:"None"`
	User           any  `def:"None"`
	Password       any  `def:"None"`
	IgnoreRetcode  bool `def:"False"`
	OutputEncoding any  `def:"None"`
	Kwargs         *Map `arg:"**kwargs"`
}

// gitConfigCall says which configuration is meant: that of a clone, or the user's.
func gitConfigCall(cwd, user any, kwargs *Map) (gitCall, []string, error) {
	g := gitCall{user: user, cwd: "/"}
	rest := []string{"config"}
	if Truth(kwargs.Value("global")) {
		rest = append(rest, "--global")
	} else if cwd == nil {
		return g, nil, InvocationErrorf("'cwd' argument required unless global=True")
	}
	if cwd != nil {
		dir, err := gitDir(Str(cwd), user)
		if err != nil {
			return g, nil, err
		}
		g.cwd = dir
	}
	if g.env = nil; Truth(user) {
		g.env = NewMap("HOME", homeOf(Str(user)))
	}
	return g, rest, nil
}

func gitConfigGet(ctx context.Context, c *Call, a gitConfigGetArgs) (any, error) {
	g, rest, err := gitConfigCall(a.Cwd, a.User, a.Kwargs)
	if err != nil {
		return nil, err
	}
	all := Truth(a.Kwargs.Value("all"))
	option := "--get"
	if all {
		option = "--get-all"
	}
	g.ignore, g.soft = true, true
	r, err := gitRun(ctx, c, g, append(rest, option, Str(a.Key))...)
	if err != nil {
		return nil, err
	}
	// git ends with 1 for an option that is not set.
	if n, _ := toInt(r.retcode); n > 1 {
		return nil, ExecErrorf("Command 'git config %s %s' failed: %s", option, Str(a.Key), r.stderr)
	} else if n == 1 {
		return nil, nil
	}
	values := pyLines(r.stdout, false)
	if all {
		return Strings(values), nil
	}
	if len(values) == 0 {
		return "", nil
	}
	return values[len(values)-1], nil
}

type gitConfigSetArgs struct {
	Key            any
	Value          any  `def:"None"`
	Multivar       any  `def:"None"`
	Cwd            any  `def:"None"`
	User           any  `def:"None"`
	Password       any  `def:"None"`
	IgnoreRetcode  bool `def:"False"`
	OutputEncoding any  `def:"None"`
	Kwargs         *Map `arg:"**kwargs"`
}

func gitConfigSet(ctx context.Context, c *Call, a gitConfigSetArgs) (any, error) {
	if a.Value != nil && a.Multivar != nil {
		return nil, InvocationErrorf("Only one of 'value' and 'multivar' is permitted")
	}
	if a.Value == nil && a.Multivar == nil {
		return nil, InvocationErrorf("One of 'value' or 'multivar' is required")
	}
	g, rest, err := gitConfigCall(a.Cwd, a.User, a.Kwargs)
	if err != nil {
		return nil, err
	}
	values := []string{Str(a.Value)}
	if a.Multivar != nil {
		values = groupList(a.Multivar)
	}
	for i, v := range values {
		option := "--add"
		if i == 0 {
			option = "--replace-all"
		}
		if _, err := gitRun(ctx, c, g, append(append([]string{}, rest...), option, Str(a.Key), v)...); err != nil {
			return nil, err
		}
	}
	kw := onlyKeys(a.Kwargs, "global")
	kw.Set("all", true)
	return gitConfigGet(ctx, c, gitConfigGetArgs{Key: a.Key, Cwd: a.Cwd, User: a.User, Kwargs: kw})
}

type gitConfigUnsetArgs struct {
	Key            any
	ValueRegex     any  `def:"None"`
	Cwd            any  `def:"None"`
	User           any  `def:"None"`
	Password       any  `def:"None"`
	IgnoreRetcode  bool `def:"False"`
	OutputEncoding any  `def:"None"`
	Kwargs         *Map `arg:"**kwargs"`
}

func gitConfigUnset(ctx context.Context, c *Call, a gitConfigUnsetArgs) (any, error) {
	g, rest, err := gitConfigCall(a.Cwd, a.User, a.Kwargs)
	if err != nil {
		return nil, err
	}
	option := "--unset"
	if Truth(a.Kwargs.Value("all")) {
		option = "--unset-all"
	}
	rest = append(rest, option, Str(a.Key))
	g.soft, g.ignore = true, a.IgnoreRetcode
	r, err := gitRun(ctx, c, g, append(rest, oneWord(a.ValueRegex)...)...)
	if err != nil {
		return nil, err
	}
	switch n, _ := toInt(r.retcode); n {
	case 0:
		return true, nil
	case 1:
		return nil, ExecErrorf("Section or key is invalid")
	case 5:
		if option == "--unset" && a.ValueRegex == nil {
			return nil, ExecErrorf("Key '%s' has several values or is not set; all=True unsets them all", Str(a.Key))
		}
		return nil, ExecErrorf("Key '%s' is not set", Str(a.Key))
	}
	return nil, ExecErrorf("git config failed: %s", r.stderr)
}

type gitRemotesArgs struct {
	Cwd            string
	User           any  `def:"None"`
	Password       any  `def:"None"`
	RedactAuth     bool `def:"True"`
	IgnoreRetcode  bool `def:"False"`
	OutputEncoding any  `def:"None"`
}

func gitRemotes(ctx context.Context, c *Call, a gitRemotesArgs) (any, error) {
	r, err := gitInDir(ctx, c, gitCall{cwd: a.Cwd, user: a.User, ignore: a.IgnoreRetcode}, nil, nil, "remote", "--verbose")
	if err != nil {
		return nil, err
	}
	ret := &Map{}
	for _, line := range strings.Split(r.stdout, "\n") {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		address := f[1]
		if a.RedactAuth {
			address = redactURLs(address)
		}
		m := ret.Map(f[0])
		if m == nil {
			m = &Map{}
			ret.Set(f[0], m)
		}
		m.Set(strings.Trim(f[2], "()"), address)
	}
	return ret, nil
}

type gitRemoteGetArgs struct {
	Cwd            string
	Remote         any  `def:"'origin'"`
	User           any  `def:"None"`
	Password       any  `def:"None"`
	RedactAuth     bool `def:"True"`
	IgnoreRetcode  bool `def:"False"`
	OutputEncoding any  `def:"None"`
}

func gitRemoteGet(ctx context.Context, c *Call, a gitRemoteGetArgs) (any, error) {
	all, err := gitRemotes(ctx, c, gitRemotesArgs{a.Cwd, a.User, a.Password, a.RedactAuth, a.IgnoreRetcode, nil})
	if err != nil {
		return nil, err
	}
	if v, ok := all.(*Map).Get(a.Remote); ok {
		return v, nil
	}
	return nil, ExecErrorf("Remote '%s' not present in git checkout located at %s", Str(a.Remote), a.Cwd)
}

type gitRemoteSetArgs struct {
	Cwd            string
	URL            string
	Remote         any  `def:"'origin'"`
	User           any  `def:"None"`
	Password       any  `def:"None"`
	HttpsUser      any  `def:"None"`
	HttpsPass      any  `def:"None"`
	PushURL        any  `def:"None"`
	PushHttpsUser  any  `def:"None"`
	PushHttpsPass  any  `def:"None"`
	IgnoreRetcode  bool `def:"False"`
	OutputEncoding any  `def:"None"`
}

func gitRemoteSet(ctx context.Context, c *Call, a gitRemoteSetArgs) (any, error) {
	g := gitCall{cwd: a.Cwd, user: a.User, ignore: a.IgnoreRetcode}
	name := Str(a.Remote)
	all, err := gitRemotes(ctx, c, gitRemotesArgs{Cwd: a.Cwd, User: a.User})
	if err != nil {
		return nil, err
	}
	if all.(*Map).Has(name) {
		if _, err := gitInDir(ctx, c, g, nil, nil, "remote", "rm", name); err != nil {
			return nil, err
		}
	}
	address, err := withUserinfo(a.URL, a.HttpsUser, a.HttpsPass)
	if err != nil {
		return nil, err
	}
	if _, err := gitInDir(ctx, c, g, nil, nil, "remote", "add", name, address); err != nil {
		return nil, err
	}
	if Truth(a.PushURL) {
		push, err := withUserinfo(Str(a.PushURL), a.PushHttpsUser, a.PushHttpsPass)
		if err != nil {
			return nil, err
		}
		if _, err := gitInDir(ctx, c, g, nil, nil, "remote", "set-url", "--push", name, push); err != nil {
			return nil, err
		}
	}
	return gitRemoteGet(ctx, c, gitRemoteGetArgs{Cwd: a.Cwd, Remote: name, User: a.User, RedactAuth: true})
}

type gitLsRemoteArgs struct {
	Cwd            any  `def:"None"`
	Remote         any  `def:"'origin'"`
	Ref            any  `def:"None"`
	Opts           any  `def:"''"`
	GitOpts        any  `def:"''"`
	User           any  `def:"None"`
	Password       any  `def:"None"`
	Identity       any  `def:"None"`
	HttpsUser      any  `def:"None"`
	HttpsPass      any  `def:"None"`
	IgnoreRetcode  bool `def:"False"`
	OutputEncoding any  `def:"None"`
	Saltenv        any  `def:"'base'"`
}

func gitLsRemote(ctx context.Context, c *Call, a gitLsRemoteArgs) (any, error) {
	remote, err := withUserinfo(Str(a.Remote), a.HttpsUser, a.HttpsPass)
	if err != nil {
		return nil, err
	}
	cwd := "/"
	if a.Cwd != nil {
		cwd = Str(a.Cwd)
	}
	rest := []string{remote}
	if Truth(a.Ref) {
		rest = append(rest, Str(a.Ref))
	}
	r, err := gitInDir(ctx, c, gitCall{cwd: cwd, user: a.User, identity: a.Identity, ignore: a.IgnoreRetcode}, a.GitOpts, a.Opts, "ls-remote", rest...)
	if err != nil {
		return nil, err
	}
	ret := &Map{}
	for _, line := range pyLines(r.stdout, false) {
		if f := strings.Fields(line); len(f) == 2 {
			ret.Set(f[1], f[0])
		}
	}
	return ret, nil
}

type gitRemoteRefsArgs struct {
	URL            string
	Heads          bool `def:"False"`
	Tags           bool `def:"False"`
	User           any  `def:"None"`
	Password       any  `def:"None"`
	Identity       any  `def:"None"`
	HttpsUser      any  `def:"None"`
	HttpsPass      any  `def:"None"`
	IgnoreRetcode  bool `def:"False"`
	OutputEncoding any  `def:"None"`
	Saltenv        any  `def:"'base'"`
	Kwargs         *Map `arg:"**kwargs"`
}

func gitRemoteRefs(ctx context.Context, c *Call, a gitRemoteRefsArgs) (any, error) {
	opts := &List{}
	if a.Heads {
		opts.Append("--heads")
	}
	if a.Tags {
		opts.Append("--tags")
	}
	return gitLsRemote(ctx, c, gitLsRemoteArgs{Remote: a.URL, Opts: opts, User: a.User, Identity: a.Identity, HttpsUser: a.HttpsUser, HttpsPass: a.HttpsPass, IgnoreRetcode: a.IgnoreRetcode})
}

type gitSymbolicRefArgs struct {
	Cwd            string
	Ref            any
	Value          any  `def:"None"`
	Opts           any  `def:"''"`
	GitOpts        any  `def:"''"`
	User           any  `def:"None"`
	Password       any  `def:"None"`
	IgnoreRetcode  bool `def:"False"`
	OutputEncoding any  `def:"None"`
}

func gitSymbolicRef(ctx context.Context, c *Call, a gitSymbolicRefArgs) (any, error) {
	opts, err := gitWords(a.Opts)
	if err != nil {
		return nil, err
	}
	g := gitCall{cwd: a.Cwd, user: a.User, ignore: a.IgnoreRetcode}
	if a.Value != nil || hasString(opts, "-d") || hasString(opts, "--delete") {
		return gitDone(ctx, c, g, a.GitOpts, a.Opts, "symbolic-ref", append([]string{Str(a.Ref)}, oneWord(a.Value)...)...)
	}
	return gitText(ctx, c, g, a.GitOpts, a.Opts, "symbolic-ref", Str(a.Ref))
}

type gitSubmoduleArgs struct {
	Cwd            string
	Command        string
	Opts           any  `def:"''"`
	GitOpts        any  `def:"''"`
	User           any  `def:"None"`
	Password       any  `def:"None"`
	Identity       any  `def:"None"`
	IgnoreRetcode  bool `def:"False"`
	Saltenv        any  `def:"'base'"`
	OutputEncoding any  `def:"None"`
	Kwargs         *Map `arg:"**kwargs"`
}

func gitSubmodule(ctx context.Context, c *Call, a gitSubmoduleArgs) (any, error) {
	opts, err := gitWords(a.Opts)
	if err != nil {
		return nil, err
	}
	rest := append(strings.Fields(a.Command), opts...)
	return gitText(ctx, c, gitCall{cwd: a.Cwd, user: a.User, identity: a.Identity, ignore: a.IgnoreRetcode}, a.GitOpts, nil, "submodule", rest...)
}

type gitStashArgs struct {
	Cwd            string
	Action         string `def:"'save'"`
	Opts           any    `def:"''"`
	GitOpts        any    `def:"''"`
	User           any    `def:"None"`
	Password       any    `def:"None"`
	IgnoreRetcode  bool   `def:"False"`
	OutputEncoding any    `def:"None"`
}

func gitStash(ctx context.Context, c *Call, a gitStashArgs) (any, error) {
	opts, err := gitWords(a.Opts)
	if err != nil {
		return nil, err
	}
	return gitText(ctx, c, gitCall{cwd: a.Cwd, user: a.User, ignore: a.IgnoreRetcode}, a.GitOpts, nil, "stash", append([]string{a.Action}, opts...)...)
}

type gitArchiveArgs struct {
	Cwd            string
	Output         string
	Rev            any  `def:"'HEAD'"`
	Prefix         any  `def:"None"`
	GitOpts        any  `def:"''"`
	User           any  `def:"None"`
	Password       any  `def:"None"`
	IgnoreRetcode  bool `def:"False"`
	OutputEncoding any  `def:"None"`
	Kwargs         *Map `arg:"**kwargs"`
}

func gitArchive(ctx context.Context, c *Call, a gitArchiveArgs) (any, error) {
	prefix := filepath.Base(a.Cwd) + "/"
	if a.Prefix != nil {
		prefix = Str(a.Prefix)
	}
	rest := []string{"--prefix", prefix}
	if v := a.Kwargs.Value("format"); Truth(v) {
		rest = append(rest, "--format", Str(v))
	}
	return gitDone(ctx, c, gitCall{cwd: a.Cwd, user: a.User, ignore: a.IgnoreRetcode}, a.GitOpts, nil, "archive", append(rest, "--output", a.Output, Str(a.Rev))...)
}

type gitIsWorktreeArgs struct {
	Cwd            string
	User           any `def:"None"`
	Password       any `def:"None"`
	OutputEncoding any `def:"None"`
}

func gitIsWorktree(ctx context.Context, c *Call, a gitIsWorktreeArgs) (any, error) {
	r, err := gitInDir(ctx, c, gitCall{cwd: a.Cwd, user: a.User, ignore: true, soft: true}, nil, nil, "rev-parse", "--show-toplevel")
	if err != nil || r.failed() {
		return false, nil
	}
	p, err := os.ReadFile(filepath.Join(r.stdout, ".git"))
	if err != nil {
		return false, nil
	}
	label, path, _ := strings.Cut(strings.TrimSpace(string(p)), " ")
	return label == "gitdir:" && filepath.IsAbs(path), nil
}

type gitWorktreeAddArgs struct {
	Cwd            string
	WorktreePath   string
	Ref            any  `def:"None"`
	ResetBranch    any  `def:"None"`
	Force          any  `def:"None"`
	Detach         bool `def:"False"`
	Opts           any  `def:"''"`
	GitOpts        any  `def:"''"`
	User           any  `def:"None"`
	Password       any  `def:"None"`
	IgnoreRetcode  bool `def:"False"`
	OutputEncoding any  `def:"None"`
	Kwargs         *Map `arg:"**kwargs"`
}

func gitWorktreeAdd(ctx context.Context, c *Call, a gitWorktreeAddArgs) (any, error) {
	branch := a.Kwargs.Value("branch")
	if branch != nil && a.Detach {
		return nil, InvocationErrorf("Only one of 'branch' and 'detach' is allowed")
	}
	rest := []string{"add"}
	if a.Detach {
		rest = append(rest, "--detach")
	}
	if branch != nil {
		option := "-b"
		if Truth(a.ResetBranch) {
			option = "-B"
		}
		rest = append(rest, option, Str(branch))
	}
	if Truth(a.Force) {
		rest = append(rest, "--force")
	}
	opts, err := gitWords(a.Opts)
	if err != nil {
		return nil, err
	}
	rest = append(append(rest, opts...), a.WorktreePath)
	return gitText(ctx, c, gitCall{cwd: a.Cwd, user: a.User, ignore: a.IgnoreRetcode, merge: true}, a.GitOpts, nil, "worktree", append(rest, oneWord(a.Ref)...)...)
}

type gitWorktreePruneArgs struct {
	Cwd            string
	DryRun         bool `def:"False"`
	Verbose        bool `def:"True"`
	Expire         any  `def:"None"`
	Opts           any  `def:"''"`
	GitOpts        any  `def:"''"`
	User           any  `def:"None"`
	Password       any  `def:"None"`
	IgnoreRetcode  bool `def:"False"`
	OutputEncoding any  `def:"None"`
}

func gitWorktreePrune(ctx context.Context, c *Call, a gitWorktreePruneArgs) (any, error) {
	rest := []string{"prune"}
	if a.DryRun {
		rest = append(rest, "--dry-run")
	}
	if a.Verbose {
		rest = append(rest, "--verbose")
	}
	if Truth(a.Expire) {
		rest = append(rest, "--expire", Str(a.Expire))
	}
	opts, err := gitWords(a.Opts)
	if err != nil {
		return nil, err
	}
	return gitText(ctx, c, gitCall{cwd: a.Cwd, user: a.User, ignore: a.IgnoreRetcode}, a.GitOpts, nil, "worktree", append(rest, opts...)...)
}
