// Module git: differences, configuration, remotes, worktrees and the rest.
package main

import (
	"context"
	"path/filepath"
	"strings"
)

type gitModDiffArgs struct {
	Cwd   string
	Item1 any `def:"None"`
	Item2 any `def:"None"`
	gitModOpts
	User           any  `def:"None"`
	Password       any  `def:"None"`
	NoIndex        bool `def:"False"`
	Cached         bool `def:"False"`
	Paths          any  `def:"None"`
	OutputEncoding any  `def:"None"`
}

func gitModDiff(ctx context.Context, c *Call, a gitModDiffArgs) (any, error) {
	if a.NoIndex && a.Cached {
		return nil, ExecErrorf("The 'no_index' and 'cached' options cannot be used together")
	}
	var rest []string
	g := gitModCall{cwd: a.Cwd, user: a.User, merge: true}
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
	return gitModText(ctx, c, g, a.gitModOpts, "diff", rest...)
}

type gitModRevisionArgs struct {
	Cwd   string
	Rev   any  `def:"'HEAD'"`
	Short bool `def:"False"`
	gitModAs
}

func gitModRevision(ctx context.Context, c *Call, a gitModRevisionArgs) (any, error) {
	var rest []string
	if a.Short {
		rest = append(rest, "--short")
	}
	return gitModText(ctx, c, a.in(a.Cwd), gitModOpts{}, "rev-parse", append(rest, Str(a.Rev))...)
}

type gitModDescribeArgs struct {
	Cwd string
	Rev any `def:"'HEAD'"`
	gitModAs
}

func gitModDescribe(ctx context.Context, c *Call, a gitModDescribeArgs) (any, error) {
	return gitModText(ctx, c, a.in(a.Cwd), gitModOpts{}, "describe", "--always", Str(a.Rev))
}

func gitModCurrentBranch(ctx context.Context, c *Call, a gitModCwdArgs) (any, error) {
	return gitModText(ctx, c, a.in(a.Cwd), gitModOpts{}, "rev-parse", "--abbrev-ref", "HEAD")
}

type gitModDiscardArgs struct {
	Cwd  string
	Path any `def:"'.'"`
	gitModAs
}

func gitModDiscard(ctx context.Context, c *Call, a gitModDiscardArgs) (any, error) {
	return gitModText(ctx, c, a.in(a.Cwd), gitModOpts{}, "checkout", "--", Str(a.Path))
}

type gitModConfigGetArgs struct {
	Key any
	Cwd any `def:"None"`
	gitModAs
	Kwargs *Map `arg:"**kwargs"`
}

// gitModConfigCall says which configuration is meant: that of a clone, or the user's.
func gitModConfigCall(cwd, user any, kwargs *Map) (gitModCall, []string, error) {
	g := gitModCall{user: user, cwd: "/"}
	rest := []string{"config"}
	if Truth(kwargs.Value("global")) {
		rest = append(rest, "--global")
	} else if cwd == nil {
		return g, nil, InvocationErrorf("'cwd' argument required unless global=True")
	} else {
		rest = append(rest, "--local")
	}
	if cwd != nil {
		dir, err := gitModDir(Str(cwd), user)
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

func gitModConfigGet(ctx context.Context, c *Call, a gitModConfigGetArgs) (any, error) {
	g, rest, err := gitModConfigCall(a.Cwd, a.User, a.Kwargs)
	if err != nil {
		return nil, err
	}
	all := Truth(a.Kwargs.Value("all"))
	option := "--get"
	if all {
		option = "--get-all"
	}
	g.ignore, g.soft = a.IgnoreRetcode, true
	r, err := gitModRun(ctx, c, g, append(rest, option, Str(a.Key))...)
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

// gitModConfigRegexp finds options by a pattern: the values of each.
func gitModConfigRegexp(ctx context.Context, c *Call, a gitModConfigUnsetArgs) (any, error) {
	g, rest, err := gitModConfigCall(a.Cwd, a.User, a.Kwargs)
	if err != nil {
		return nil, err
	}
	g.ignore, g.soft = a.IgnoreRetcode, true
	rest = append(rest, "--get-regexp", Str(a.Key))
	r, err := gitModRun(ctx, c, g, append(rest, oneWord(a.ValueRegex)...)...)
	if err != nil {
		return nil, err
	}
	out := NewMap()
	switch n, _ := toInt(r.retcode); {
	case n == 1: // nothing matches
		return out, nil
	case n > 1:
		return nil, ExecErrorf("Command 'git config --get-regexp %s' failed: %s", Str(a.Key), r.stderr)
	}
	for _, line := range pyLines(r.stdout, false) {
		name, value, ok := strings.Cut(line, " ")
		if !ok {
			continue
		}
		if l := out.List(name); l != nil {
			l.Append(value)
		} else {
			out.Set(name, NewList(value))
		}
	}
	return out, nil
}

type gitModConfigSetArgs struct {
	Key      any
	Value    any `def:"None"`
	Multivar any `def:"None"`
	Cwd      any `def:"None"`
	gitModAs
	Kwargs *Map `arg:"**kwargs"`
}

func gitModConfigSet(ctx context.Context, c *Call, a gitModConfigSetArgs) (any, error) {
	if a.Value != nil && a.Multivar != nil {
		return nil, InvocationErrorf("Only one of 'value' and 'multivar' is permitted")
	}
	if a.Value == nil && a.Multivar == nil {
		return nil, InvocationErrorf("One of 'value' or 'multivar' is required")
	}
	g, rest, err := gitModConfigCall(a.Cwd, a.User, a.Kwargs)
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
		if _, err := gitModRun(ctx, c, g, append(append([]string{}, rest...), option, Str(a.Key), v)...); err != nil {
			return nil, err
		}
	}
	kw := onlyKeys(a.Kwargs, "global")
	kw.Set("all", true)
	return gitModConfigGet(ctx, c, gitModConfigGetArgs{Key: a.Key, Cwd: a.Cwd, gitModAs: gitModAs{User: a.User}, Kwargs: kw})
}

type gitModConfigUnsetArgs struct {
	Key        any
	ValueRegex any `def:"None"`
	Cwd        any `def:"None"`
	gitModAs
	Kwargs *Map `arg:"**kwargs"`
}

func gitModConfigUnset(ctx context.Context, c *Call, a gitModConfigUnsetArgs) (any, error) {
	g, rest, err := gitModConfigCall(a.Cwd, a.User, a.Kwargs)
	if err != nil {
		return nil, err
	}
	option := "--unset"
	if Truth(a.Kwargs.Value("all")) {
		option = "--unset-all"
	}
	rest = append(rest, option, Str(a.Key))
	g.soft, g.ignore = true, a.IgnoreRetcode
	r, err := gitModRun(ctx, c, g, append(rest, oneWord(a.ValueRegex)...)...)
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

type gitModRemotesArgs struct {
	Cwd string
	gitModRedact
}

type gitModRedact struct {
	User           any  `def:"None"`
	Password       any  `def:"None"`
	RedactAuth     bool `def:"True"`
	IgnoreRetcode  bool `def:"False"`
	OutputEncoding any  `def:"None"`
}

func gitModRemotes(ctx context.Context, c *Call, a gitModRemotesArgs) (any, error) {
	r, err := gitModInDir(ctx, c, gitModCall{cwd: a.Cwd, user: a.User, ignore: a.IgnoreRetcode}, gitModOpts{}, "remote", "--verbose")
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

type gitModRemoteGetArgs struct {
	Cwd    string
	Remote any `def:"'origin'"`
	gitModRedact
}

func gitModRemoteGet(ctx context.Context, c *Call, a gitModRemoteGetArgs) (any, error) {
	all, err := gitModRemotes(ctx, c, gitModRemotesArgs{a.Cwd, a.gitModRedact})
	if err != nil {
		return nil, err
	}
	if v, ok := all.(*Map).Get(a.Remote); ok {
		return v, nil
	}
	return nil, ExecErrorf("Remote '%s' not present in git checkout located at %s", Str(a.Remote), a.Cwd)
}

type gitModRemoteSetArgs struct {
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

func gitModRemoteSet(ctx context.Context, c *Call, a gitModRemoteSetArgs) (any, error) {
	g := gitModCall{cwd: a.Cwd, user: a.User, ignore: a.IgnoreRetcode}
	name := Str(a.Remote)
	all, err := gitModRemotes(ctx, c, gitModRemotesArgs{a.Cwd, gitModRedact{User: a.User}})
	if err != nil {
		return nil, err
	}
	if all.(*Map).Has(name) {
		if _, err := gitModInDir(ctx, c, g, gitModOpts{}, "remote", "rm", name); err != nil {
			return nil, err
		}
	}
	address, err := withUserinfo(a.URL, a.HttpsUser, a.HttpsPass)
	if err != nil {
		return nil, err
	}
	if _, err := gitModInDir(ctx, c, g, gitModOpts{}, "remote", "add", name, address); err != nil {
		return nil, err
	}
	if Truth(a.PushURL) {
		push, err := withUserinfo(Str(a.PushURL), a.PushHttpsUser, a.PushHttpsPass)
		if err != nil {
			return nil, err
		}
		if _, err := gitModInDir(ctx, c, g, gitModOpts{}, "remote", "set-url", "--push", name, push); err != nil {
			return nil, err
		}
	}
	return gitModRemoteGet(ctx, c, gitModRemoteGetArgs{a.Cwd, name, gitModRedact{User: a.User, RedactAuth: true}})
}

type gitModLsRemoteArgs struct {
	Cwd    any `def:"None"`
	Remote any `def:"'origin'"`
	Ref    any `def:"None"`
	gitModOpts
	gitModLogin
	OutputEncoding any `def:"None"`
	Saltenv        any `def:"'base'"`
}

func gitModLsRemote(ctx context.Context, c *Call, a gitModLsRemoteArgs) (any, error) {
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
	r, err := gitModInDir(ctx, c, a.in(cwd), a.gitModOpts, "ls-remote", rest...)
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

type gitModRemoteRefsArgs struct {
	URL   string
	Heads bool `def:"False"`
	Tags  bool `def:"False"`
	gitModLogin
	OutputEncoding any  `def:"None"`
	Saltenv        any  `def:"'base'"`
	Kwargs         *Map `arg:"**kwargs"`
}

func gitModRemoteRefs(ctx context.Context, c *Call, a gitModRemoteRefsArgs) (any, error) {
	opts := &List{}
	if a.Heads {
		opts.Append("--heads")
	}
	if a.Tags {
		opts.Append("--tags")
	}
	return gitModLsRemote(ctx, c, gitModLsRemoteArgs{Remote: a.URL, gitModOpts: gitModOpts{Opts: opts}, gitModLogin: a.gitModLogin})
}

type gitModSymbolicRefArgs struct {
	Cwd   string
	Ref   any
	Value any `def:"None"`
	gitModOpts
	gitModAs
}

func gitModSymbolicRef(ctx context.Context, c *Call, a gitModSymbolicRefArgs) (any, error) {
	opts, err := gitModWords(a.Opts)
	if err != nil {
		return nil, err
	}
	g := a.in(a.Cwd)
	if a.Value != nil || hasString(opts, "-d") || hasString(opts, "--delete") {
		return gitModDone(ctx, c, g, a.gitModOpts, "symbolic-ref", append([]string{Str(a.Ref)}, oneWord(a.Value)...)...)
	}
	return gitModText(ctx, c, g, a.gitModOpts, "symbolic-ref", Str(a.Ref))
}

type gitModSubmoduleArgs struct {
	Cwd     string
	Command string
	gitModOpts
	gitModKeyed
	Kwargs *Map `arg:"**kwargs"`
}

func gitModSubmodule(ctx context.Context, c *Call, a gitModSubmoduleArgs) (any, error) {
	opts, err := gitModWords(a.Opts)
	if err != nil {
		return nil, err
	}
	rest := append(strings.Fields(a.Command), opts...)
	return gitModText(ctx, c, a.in(a.Cwd), a.withOpts(nil), "submodule", rest...)
}

type gitModStashArgs struct {
	Cwd    string
	Action string `def:"'save'"`
	gitModOpts
	gitModAs
}

func gitModStash(ctx context.Context, c *Call, a gitModStashArgs) (any, error) {
	opts, err := gitModWords(a.Opts)
	if err != nil {
		return nil, err
	}
	return gitModText(ctx, c, a.in(a.Cwd), a.withOpts(nil), "stash", append([]string{a.Action}, opts...)...)
}

type gitModArchiveArgs struct {
	Cwd     string
	Output  string
	Rev     any `def:"'HEAD'"`
	Prefix  any `def:"None"`
	GitOpts any `def:"''"`
	gitModAs
	Kwargs *Map `arg:"**kwargs"`
}

func gitModArchive(ctx context.Context, c *Call, a gitModArchiveArgs) (any, error) {
	prefix := filepath.Base(a.Cwd) + "/"
	if a.Prefix != nil {
		prefix = Str(a.Prefix)
	}
	rest := []string{"--prefix", prefix}
	if v := a.Kwargs.Value("format"); Truth(v) {
		rest = append(rest, "--format", Str(v))
	}
	return gitModDone(ctx, c, a.in(a.Cwd), gitModOpts{GitOpts: a.GitOpts}, "archive", append(rest, "--output", a.Output, Str(a.Rev))...)
}
