// Module git: clones and what is done in them, through git(1).
//
// The law of this room: each function builds a list of words (no shell) and hands
// it to gitModRun, which knows users, keys and how a failure is told; names and
// passwords in URLs never show in errors or logs.
package main

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func gitModule() Module {
	return Module{
		Doc: "Manage clones of git repositories.",
		Virtual: func(context.Context, *Call) (bool, string) {
			return which("git") != "", "The git execution module cannot be loaded: git unavailable."
		},
		Funcs: Funcs{
			"version":               {run: gitModVersion, doc: "Return the version of git."},
			"clone":                 {run: gitModClone, doc: "Clone a repository into cwd, or into name below it.\n\nCLI Example:\n\n    salt myminion git.clone /path/to/repo_parent_dir git://github.com/saltstack/salt.git"},
			"init":                  {run: gitModInit, doc: "Make a repository."},
			"add":                   {run: gitModAdd, doc: "Add files to the index."},
			"rm":                    {run: gitModRm, pyname: "rm_", doc: "Remove files."},
			"commit":                {run: gitModCommit, doc: "Commit what is in the index, or one file."},
			"checkout":              {run: gitModCheckout, doc: "Check a revision out."},
			"branch":                {run: gitModBranch, doc: "Make a branch, or what opts says: -d removes it."},
			"list_branches":         {run: gitModListBranches, doc: "List the branches, or those of remotes."},
			"list_tags":             {run: gitModListTags, doc: "List the tags."},
			"tag":                   {run: gitModTag, doc: "Make a tag."},
			"fetch":                 {run: gitModFetch, doc: "Fetch from a remote; return what is new, changed and gone."},
			"pull":                  {run: gitModPull, doc: "Pull."},
			"push":                  {run: gitModPush, doc: "Push a reference to a remote."},
			"merge":                 {run: gitModMerge, doc: "Merge a revision."},
			"merge_base":            {run: gitModMergeBase, doc: "Return the best common ancestors of commits; is_ancestor: whether the first is one of the\nsecond."},
			"rebase":                {run: gitModRebase, doc: "Rebase onto a revision."},
			"reset":                 {run: gitModReset, doc: "Reset, as opts says: '--hard origin/main'."},
			"status":                {run: gitModStatus, doc: "Return the files that are modified, new, deleted, untracked."},
			"diff":                  {run: gitModDiff, doc: "Return the difference of revisions, or to the working tree."},
			"rev_parse":             {run: gitModRevParse, doc: "Resolve a revision."},
			"revision":              {run: gitModRevision, doc: "Return the commit of a revision."},
			"describe":              {run: gitModDescribe, doc: "Describe a revision by the nearest tag."},
			"current_branch":        {run: gitModCurrentBranch, doc: "Return the branch that is checked out."},
			"discard_local_changes": {run: gitModDiscard, doc: "Undo changes of files that are not committed."},
			"config_get":            {run: gitModConfigGet, doc: "Return an option of git's configuration; all: all its values."},
			"config_get_regexp":     {run: gitModConfigRegexp, doc: "Return the values of options whose names match a pattern."},
			"config_get_regex":      {run: gitModConfigRegexp, doc: "The same as git.config_get_regexp."},
			"config_set":            {run: gitModConfigSet, doc: "Set an option of git's configuration, with multivar to several values."},
			"config_unset":          {run: gitModConfigUnset, doc: "Remove an option of git's configuration."},
			"remotes":               {run: gitModRemotes, doc: "Return the remotes with their URLs."},
			"remote_get":            {run: gitModRemoteGet, doc: "Return the URLs of one remote."},
			"remote_set":            {run: gitModRemoteSet, doc: "Add a remote or change its URL."},
			"ls_remote":             {run: gitModLsRemote, doc: "Return the references of a remote with their commits."},
			"remote_refs":           {run: gitModRemoteRefs, doc: "Return the references of a URL with their commits."},
			"symbolic_ref":          {run: gitModSymbolicRef, doc: "Read, set or (opts=-d) remove a symbolic reference."},
			"submodule":             {run: gitModSubmodule, doc: "Run a command of git submodule."},
			"stash":                 {run: gitModStash, doc: "Stash changes, or what action says."},
			"archive":               {run: gitModArchive, doc: "Write an archive of a revision."},
			"is_worktree":           {run: gitModIsWorktree, doc: "Say whether a directory is a worktree that git worktree made."},
			"worktree_add":          {run: gitModWorktreeAdd, doc: "Add a worktree."},
			"worktree_rm":           {run: gitModWorktreeRm, doc: "Remove the directory of a worktree; git.worktree_prune makes git forget it."},
			"list_worktrees":        {run: gitModListWorktrees, doc: "Return the worktrees with their branches, commits and tags; stale: those whose directories\nare gone, all: both.\n\nCLI Example:\n\n    salt myminion git.list_worktrees /path/to/repo all=True"},
			"merge_tree":            {run: gitModMergeTree, doc: "Show what a merge of two commits would change, without making it. base is their common\nancestor unless it is given."},
			"worktree_prune":        {run: gitModWorktreePrune, doc: "Forget worktrees whose directories are gone."},
		},
	}
}

// gitModCall is how a git command is run.
type gitModCall struct {
	cwd      string
	user     any
	identity any
	ignore   bool // the exit code is not the job's
	soft     bool // a failure is no error
	merge    bool
	env      *Map
}

// merged is g with what git writes to standard error in its output.
func (g gitModCall) merged() gitModCall {
	g.merge = true
	return g
}

// redactURLs hides names and passwords in the URLs of a text.
func redactURLs(s string) string {
	return regexp.MustCompile(`(https?)://[^\s/@]+@`).ReplaceAllString(s, "$1://<redacted>@")
}

// gitModRun runs git. The error of a failure has what git said.
func gitModRun(ctx context.Context, c *Call, g gitModCall, args ...string) (cmdResult, error) {
	o := toolOptions{ignore: g.ignore, merge: g.merge, env: g.env}
	if Truth(g.user) {
		o.runas = g.user
	}
	if g.cwd != "" {
		o.cwd = g.cwd
	}
	identities := []string{""}
	if Truth(g.identity) {
		identities = namesOf(toItems(g.identity))
	}
	var r cmdResult
	var problems []string
	for _, id := range identities {
		one := o
		if id != "" {
			path, done, err := gitModIdentity(ctx, c, id, g.user)
			if err != nil {
				problems = append(problems, err.Error())
				continue
			}
			one.env = &Map{}
			if o.env != nil {
				one.env = o.env.Clone()
			}
			one.env.Set("GIT_SSH_COMMAND", "ssh -oStrictHostKeyChecking=no -oUserKnownHostsFile=/dev/null -oControlPath=none -oBatchMode=yes -oIdentitiesOnly=yes -i "+quoteShell(path))
			r, err = runSaltTool(ctx, c, one, append([]string{"git"}, args...)...)
			done()
			if err != nil {
				return r, err
			}
		} else {
			var err error
			if r, err = runSaltTool(ctx, c, one, append([]string{"git"}, args...)...); err != nil {
				return r, err
			}
		}
		if !r.failed() {
			return r, nil
		}
		text := r.stderr
		if g.merge {
			text = r.stdout
		}
		if text != "" {
			problems = append(problems, redactURLs(text))
		}
	}
	if g.soft {
		return r, nil
	}
	if Truth(g.identity) {
		return r, ExecErrorf("Unable to authenticate using identity file:\n\n%s", strings.Join(problems, "\n"))
	}
	msg := "Command '" + redactURLs("git "+strings.Join(args, " ")) + "' failed"
	if len(problems) > 0 {
		msg += ": " + problems[0]
	}
	return r, ExecErrorf("%s", msg)
}

// gitModIdentity brings a key file to where ssh takes it; done removes a copy.
func gitModIdentity(ctx context.Context, c *Call, id string, user any) (path string, done func(), err error) {
	nothing := func() {}
	if !strings.Contains(id, "salt://") {
		if !isFile(id) {
			return "", nothing, ExecErrorf("The following identity file(s) were not found: %s", id)
		}
		return id, nothing, nil
	}
	cached, err := c.Run(ctx, "cp.cache_file", id)
	if err != nil || !Truth(cached) {
		return "", nothing, ExecErrorf("The following identity file(s) were not found: %s", id)
	}
	key, err := os.ReadFile(Str(cached))
	if err != nil {
		return "", nothing, osError(err)
	}
	f, err := os.CreateTemp("", "git-identity-")
	if err != nil {
		return "", nothing, osError(err)
	}
	defer f.Close()
	done = func() { _ = os.Remove(f.Name()) }
	if _, err := f.Write(key); err != nil {
		done()
		return "", nothing, osError(err)
	}
	if err := keepOwner(f.Name(), user); err != nil {
		done()
		return "", nothing, err
	}
	return f.Name(), done, nil
}

// gitModWords splits options as a shell does.
func gitModWords(v any) ([]string, error) {
	if !Truth(v) {
		return nil, nil
	}
	if l, ok := v.(*List); ok {
		return namesOf(l.Items), nil
	}
	words, err := splitShell(Str(v))
	if err != nil {
		return nil, InvocationErrorf("%s are no options: %s", Repr(v), err)
	}
	if len(words) > 0 && words[len(words)-1] == "--" {
		words = words[:len(words)-1]
	}
	return words, nil
}

// gitModDir is an absolute directory; ~ is the user's home.
func gitModDir(cwd string, user any) (string, error) {
	if strings.HasPrefix(cwd, "~/") || cwd == "~" {
		name := ""
		if Truth(user) {
			name = Str(user)
		}
		cwd = strings.TrimRight(homeOf(name), "/") + cwd[1:]
	}
	if !filepath.IsAbs(cwd) {
		return "", InvocationErrorf("Path '%s' is not absolute", cwd)
	}
	return cwd, nil
}

// gitModInDir runs a command in a clone, with the options of o around it.
func gitModInDir(ctx context.Context, c *Call, g gitModCall, o gitModOpts, command string, rest ...string) (cmdResult, error) {
	dir, err := gitModDir(g.cwd, g.user)
	if err != nil {
		return cmdResult{}, err
	}
	g.cwd = dir
	before, err := gitModWords(o.GitOpts)
	if err != nil {
		return cmdResult{}, err
	}
	after, err := gitModWords(o.Opts)
	if err != nil {
		return cmdResult{}, err
	}
	args := append(before, command)
	return gitModRun(ctx, c, g, append(append(args, after...), rest...)...)
}

// gitModText is gitModInDir for what git writes.
func gitModText(ctx context.Context, c *Call, g gitModCall, o gitModOpts, command string, rest ...string) (any, error) {
	r, err := gitModInDir(ctx, c, g, o, command, rest...)
	if err != nil {
		return nil, err
	}
	return r.stdout, nil
}

// gitModDone is gitModInDir for what only works or does not.
func gitModDone(ctx context.Context, c *Call, g gitModCall, o gitModOpts, command string, rest ...string) (any, error) {
	_, err := gitModInDir(ctx, c, g, o, command, rest...)
	return err == nil, err
}

// gitModOpts are the options that a user gives: before git's command and after it.
type gitModOpts struct {
	Opts    any `def:"''"`
	GitOpts any `def:"''"`
}

// withOpts is o with these words in the place of Opts.
func (o gitModOpts) withOpts(words []string) gitModOpts {
	o.Opts = Strings(words)
	return o
}

// gitModAs are the arguments of a command that stays on this box.
type gitModAs struct {
	User           any  `def:"None"`
	Password       any  `def:"None"`
	IgnoreRetcode  bool `def:"False"`
	OutputEncoding any  `def:"None"`
}

func (a gitModAs) in(cwd string) gitModCall {
	return gitModCall{cwd: cwd, user: a.User, ignore: a.IgnoreRetcode}
}

// gitModLocalKeyed are those of one that may ask a remote for objects it lacks.
type gitModLocalKeyed struct {
	User           any  `def:"None"`
	Password       any  `def:"None"`
	Identity       any  `def:"None"`
	IgnoreRetcode  bool `def:"False"`
	OutputEncoding any  `def:"None"`
}

// gitModKeyed are those of a command that may need a key for a remote.
type gitModKeyed struct {
	User           any  `def:"None"`
	Password       any  `def:"None"`
	Identity       any  `def:"None"`
	IgnoreRetcode  bool `def:"False"`
	Saltenv        any  `def:"'base'"`
	OutputEncoding any  `def:"None"`
}

func (a gitModKeyed) in(cwd string) gitModCall {
	return gitModCall{cwd: cwd, user: a.User, identity: a.Identity, ignore: a.IgnoreRetcode}
}

// gitModLogin are those of a command that may need a name and password, too.
type gitModLogin struct {
	User          any  `def:"None"`
	Password      any  `def:"None"`
	Identity      any  `def:"None"`
	HttpsUser     any  `def:"None"`
	HttpsPass     any  `def:"None"`
	IgnoreRetcode bool `def:"False"`
}

func (a gitModLogin) in(cwd string) gitModCall {
	return gitModCall{cwd: cwd, user: a.User, identity: a.Identity, ignore: a.IgnoreRetcode}
}

// withUserinfo puts a name and a password into an HTTPS URL.
func withUserinfo(address string, user, pass any) (string, error) {
	if !Truth(user) && !Truth(pass) {
		return address, nil
	}
	if !Truth(user) {
		return "", InvocationErrorf("Basic Auth requires a username")
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" {
		return "", InvocationErrorf("Basic Auth only supported for HTTPS")
	}
	u.User = url.User(Str(user))
	if Truth(pass) {
		u.User = url.UserPassword(Str(user), Str(pass))
	}
	return u.String(), nil
}

type gitModVersionArgs struct {
	Versioninfo bool `def:"False"`
}

func gitModVersion(ctx context.Context, c *Call, a gitModVersionArgs) (any, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, "git", "--version")
	if err != nil {
		return nil, err
	}
	f := strings.Fields(r.stdout)
	version := "unknown"
	if len(f) >= 3 {
		version = f[2]
	}
	if !a.Versioninfo {
		return version, nil
	}
	parts := &List{}
	for _, p := range strings.Split(version, ".") {
		if n, ok := intText(p); ok {
			parts.Append(n)
		} else {
			parts.Append(p)
		}
	}
	return parts, nil
}

type gitModCloneArgs struct {
	Cwd  string
	URL  any `def:"None"`
	Name any `def:"None"`
	gitModOpts
	gitModLogin
	Saltenv        any `def:"'base'"`
	OutputEncoding any `def:"None"`
}

func gitModClone(ctx context.Context, c *Call, a gitModCloneArgs) (any, error) {
	dir, err := gitModDir(a.Cwd, a.User)
	if err != nil {
		return nil, err
	}
	if !Truth(a.URL) {
		return nil, InvocationErrorf("Missing 'url' argument")
	}
	address, err := withUserinfo(Str(a.URL), a.HttpsUser, a.HttpsPass)
	if err != nil {
		return nil, err
	}
	target, at := dir, "/tmp"
	if a.Name != nil {
		target, at = Str(a.Name), dir
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, osError(err)
		}
	}
	return gitModDone(ctx, c, a.in(at), a.gitModOpts, "clone", "--", address, target)
}

type gitModInitArgs struct {
	Cwd            string
	Bare           bool `def:"False"`
	Template       any  `def:"None"`
	SeparateGitDir any  `def:"None"`
	Shared         any  `def:"None"`
	gitModOpts
	gitModAs
}

func gitModInit(ctx context.Context, c *Call, a gitModInitArgs) (any, error) {
	dir, err := gitModDir(a.Cwd, a.User)
	if err != nil {
		return nil, err
	}
	opts, err := gitModWords(a.Opts)
	if err != nil {
		return nil, err
	}
	if a.Bare {
		opts = append(opts, "--bare")
	}
	if a.Template != nil {
		opts = append(opts, "--template="+Str(a.Template))
	}
	if a.SeparateGitDir != nil {
		opts = append(opts, "--separate-git-dir="+Str(a.SeparateGitDir))
	}
	if v := a.Shared; v != nil && v != false {
		word := Str(v)
		if n, ok := v.(int64); ok && n != 0 {
			word = "0" + word
		} else if v == true {
			word = "group"
		}
		opts = append(opts, "--shared="+word)
	}
	return gitModText(ctx, c, a.in("/"), a.withOpts(opts), "init", dir)
}

type gitModFileArgs struct {
	Cwd      string
	Filename any
	gitModOpts
	gitModAs
}

func gitModAdd(ctx context.Context, c *Call, a gitModFileArgs) (any, error) {
	return gitModText(ctx, c, a.in(a.Cwd), a.gitModOpts, "add", "--verbose", "--", Str(a.Filename))
}

func gitModRm(ctx context.Context, c *Call, a gitModFileArgs) (any, error) {
	return gitModText(ctx, c, a.in(a.Cwd), a.gitModOpts, "rm", "--", Str(a.Filename))
}

type gitModCommitArgs struct {
	Cwd     string
	Message any
	gitModOpts
	User           any  `def:"None"`
	Password       any  `def:"None"`
	Filename       any  `def:"None"`
	IgnoreRetcode  bool `def:"False"`
	OutputEncoding any  `def:"None"`
}

func gitModCommit(ctx context.Context, c *Call, a gitModCommitArgs) (any, error) {
	rest := []string{"-m", Str(a.Message)}
	if Truth(a.Filename) {
		rest = append(rest, "--", Str(a.Filename))
	}
	return gitModText(ctx, c, gitModCall{cwd: a.Cwd, user: a.User, ignore: a.IgnoreRetcode}, a.gitModOpts, "commit", rest...)
}

type gitModCheckoutArgs struct {
	Cwd   string
	Rev   any  `def:"None"`
	Force bool `def:"False"`
	gitModOpts
	gitModAs
}

func gitModCheckout(ctx context.Context, c *Call, a gitModCheckoutArgs) (any, error) {
	opts, err := gitModWords(a.Opts)
	if err != nil {
		return nil, err
	}
	if a.Force && !hasString(opts, "--force") && !hasString(opts, "-f") {
		opts = append([]string{"--force"}, opts...)
	}
	var rest []string
	if a.Rev != nil {
		rest = []string{Str(a.Rev)}
	} else if !hasString(opts, "-b") && !hasString(opts, "-B") {
		return nil, InvocationErrorf("'rev' argument is required unless -b or -B in opts")
	}
	return gitModText(ctx, c, a.in(a.Cwd).merged(), a.withOpts(opts), "checkout", rest...)
}

type gitModNameArgs struct {
	Cwd  string
	Name any `def:"None"`
	gitModOpts
	gitModAs
}

func oneWord(v any) []string {
	if v == nil {
		return nil
	}
	return []string{Str(v)}
}

func gitModBranch(ctx context.Context, c *Call, a gitModNameArgs) (any, error) {
	return gitModDone(ctx, c, a.in(a.Cwd), a.gitModOpts, "branch", oneWord(a.Name)...)
}

type gitModListBranchesArgs struct {
	Cwd    string
	Remote bool `def:"False"`
	gitModAs
}

func gitModRefs(ctx context.Context, c *Call, g gitModCall, where string) (any, error) {
	r, err := gitModInDir(ctx, c, g, gitModOpts{}, "for-each-ref", "--format", "%(refname:short)", where)
	if err != nil {
		return nil, err
	}
	return Strings(pyLines(r.stdout, false)), nil
}

func gitModListBranches(ctx context.Context, c *Call, a gitModListBranchesArgs) (any, error) {
	where := "refs/heads/"
	if a.Remote {
		where = "refs/remotes/"
	}
	return gitModRefs(ctx, c, a.in(a.Cwd), where)
}

type gitModCwdArgs struct {
	Cwd string
	gitModAs
}

func gitModListTags(ctx context.Context, c *Call, a gitModCwdArgs) (any, error) {
	return gitModRefs(ctx, c, a.in(a.Cwd), "refs/tags/")
}

type gitModTagArgs struct {
	Cwd     string
	Name    any
	Ref     any `def:"'HEAD'"`
	Message any `def:"None"`
	gitModOpts
	gitModAs
}

func gitModTag(ctx context.Context, c *Call, a gitModTagArgs) (any, error) {
	opts, err := gitModWords(a.Opts)
	if err != nil {
		return nil, err
	}
	if Truth(a.Message) {
		opts = append(opts, "-m", Str(a.Message))
	}
	rest := []string{Str(a.Name)}
	if !hasString(opts, "-d") && !hasString(opts, "--delete") {
		rest = append(rest, Str(a.Ref))
	}
	return gitModText(ctx, c, a.in(a.Cwd).merged(), a.withOpts(opts), "tag", rest...)
}

type gitModFetchArgs struct {
	Cwd      string
	Remote   any  `def:"None"`
	Force    bool `def:"False"`
	Refspecs any  `def:"None"`
	gitModOpts
	gitModKeyed
}

func gitModFetch(ctx context.Context, c *Call, a gitModFetchArgs) (any, error) {
	opts, err := gitModWords(a.Opts)
	if err != nil {
		return nil, err
	}
	if a.Force {
		opts = append([]string{"--force"}, opts...)
	}
	rest := oneWord(a.Remote)
	if a.Refspecs != nil {
		for _, spec := range groupList(a.Refspecs) {
			rest = append(rest, strings.TrimSpace(spec))
		}
	}
	r, err := gitModInDir(ctx, c, a.in(a.Cwd).merged(), a.withOpts(opts), "fetch", rest...)
	if err != nil {
		return nil, err
	}
	return parseGitFetch(r.stdout), nil
}

// parseGitFetch reads which references are new, changed and gone.
func parseGitFetch(out string) *Map {
	ret := &Map{}
	put := func(kind, key string, v any) {
		m := ret.Map(kind)
		if m == nil {
			m = &Map{}
			ret.Set(kind, m)
		}
		m.Set(key, v)
	}
	line := regexp.MustCompile(`[\s*]*(?:([0-9a-f]+)\.\.([0-9a-f]+)|\[(?:new (tag|branch)|tag update)\]|\[deleted\])\s+(?:\(none\)|(\S+))\s+->\s+(\S+)`)
	for _, l := range pyLines(out, false) {
		m := line.FindStringSubmatch(l)
		switch {
		case m == nil:
		case strings.Contains(l, "[deleted]"):
			deleted, _ := ret.Value("deleted").(*List)
			if deleted == nil {
				deleted = &List{}
				ret.Set("deleted", deleted)
			}
			deleted.Append(m[5])
		case m[3] == "branch":
			put("new branches", m[5], nil)
		case m[3] == "tag":
			put("new tags", m[5], nil)
		case m[1] != "":
			put("updated branches", m[5], NewMap("old", m[1], "new", m[2]))
		}
	}
	for _, kind := range []string{"new branches", "new tags"} {
		if m := ret.Map(kind); m != nil {
			ret.Set(kind, NewList(m.Keys()...))
		}
	}
	return ret
}

type gitModOptsArgs struct {
	Cwd string
	gitModOpts
	gitModKeyed
}

func gitModPull(ctx context.Context, c *Call, a gitModOptsArgs) (any, error) {
	return gitModText(ctx, c, a.in(a.Cwd), a.gitModOpts, "pull")
}

type gitModPushArgs struct {
	Cwd    string
	Remote any `def:"None"`
	Ref    any `def:"None"`
	gitModOpts
	gitModKeyed
	Kwargs *Map `arg:"**kwargs"`
}

func gitModPush(ctx context.Context, c *Call, a gitModPushArgs) (any, error) {
	if err := noMoreKwargs(a.Kwargs); err != nil {
		return nil, err
	}
	rest := append(oneWord(a.Remote), oneWord(a.Ref)...)
	return gitModText(ctx, c, a.in(a.Cwd), a.gitModOpts, "push", rest...)
}

func gitModMerge(ctx context.Context, c *Call, a struct {
	Cwd string
	Rev any `def:"None"`
	gitModOpts
	gitModLocalKeyed
	Kwargs *Map `arg:"**kwargs"`
}) (any, error) {
	if err := noMoreKwargs(a.Kwargs); err != nil {
		return nil, err
	}
	g := gitModCall{cwd: a.Cwd, user: a.User, identity: a.Identity, ignore: a.IgnoreRetcode}
	return gitModText(ctx, c, g, a.gitModOpts, "merge", oneWord(a.Rev)...)
}

func gitModReset(ctx context.Context, c *Call, a struct {
	Cwd string
	gitModOpts
	gitModLocalKeyed
}) (any, error) {
	g := gitModCall{cwd: a.Cwd, user: a.User, identity: a.Identity, ignore: a.IgnoreRetcode}
	return gitModText(ctx, c, g, a.gitModOpts, "reset")
}

func gitModRevParse(ctx context.Context, c *Call, a struct {
	Cwd string
	Rev any `def:"None"`
	gitModOpts
	gitModAs
}) (any, error) {
	return gitModText(ctx, c, a.in(a.Cwd), a.gitModOpts, "rev-parse", oneWord(a.Rev)...)
}

func gitModRebase(ctx context.Context, c *Call, a struct {
	Cwd string
	Rev any `def:"'master'"`
	gitModOpts
	gitModAs
}) (any, error) {
	opts, err := gitModWords(a.Opts)
	if err != nil {
		return nil, err
	}
	if hasString(opts, "-i") || hasString(opts, "--interactive") {
		return nil, InvocationErrorf("Interactive rebases are not supported")
	}
	return gitModText(ctx, c, a.in(a.Cwd), a.gitModOpts, "rebase", strings.Fields(Str(a.Rev))...)
}

func gitModStatus(ctx context.Context, c *Call, a gitModCwdArgs) (any, error) {
	r, err := gitModInDir(ctx, c, a.in(a.Cwd), gitModOpts{}, "status", "-z", "--porcelain")
	if err != nil {
		return nil, err
	}
	names := map[string]string{"M": "modified", "A": "new", "D": "deleted", "??": "untracked"}
	ret := &Map{}
	for _, item := range strings.Split(r.stdout, "\x00") {
		state, file, ok := strings.Cut(strings.TrimLeft(item, " "), " ")
		if file = strings.TrimLeft(file, " "); !ok || file == "" {
			continue
		}
		if n, ok := names[state]; ok {
			state = n
		}
		l, _ := ret.Value(state).(*List)
		if l == nil {
			l = &List{}
			ret.Set(state, l)
		}
		l.Append(file)
	}
	return ret, nil
}
