// State module git: checkouts of one commit, and options of git.
package main

import (
	"context"
	"path/filepath"
	"strings"
)

type gitDetachedArgs struct {
	Name           string
	Rev            string
	Target         string
	Remote         string `def:"origin"`
	User           any    `def:"None"`
	Password       any    `def:"None"`
	ForceClone     any    `def:"False"`
	ForceCheckout  any    `def:"False"`
	FetchRemote    any    `def:"True"`
	HardReset      any    `def:"False"`
	Submodules     any    `def:"False"`
	Identity       any    `def:"None"`
	HTTPSUser      any    `arg:"https_user" def:"None"`
	HTTPSPass      any    `arg:"https_pass" def:"None"`
	OutputEncoding any    `def:"None"`
	Kwargs         *Map   `arg:"**kwargs"`
}

// gitDetachedWork is a git.detached on its way.
type gitDetachedWork struct {
	*gitWork
	a        gitDetachedArgs
	identity any
	auth     []any  // arguments that say who we are
	rev      string // as asked for, a hash in lower case
	hash     bool   // rev is a hash
	known    bool   // the checkout has that hash: there is nothing to fetch
	before   string // the commit that was checked out
	commit   string // the wanted one
	now      string // the commit checked out here, "" if none was
}

func gitStateDetached(ctx context.Context, c *Call, a gitDetachedArgs) (any, error) {
	w := &gitDetachedWork{gitWork: newGitWork(ctx, c, a.Name, true, a.User, a.Password, a.OutputEncoding), a: a, rev: a.Rev, hash: isHexRev(a.Rev)}
	if w.hash {
		w.rev = strings.ToLower(w.rev)
	}
	return runSteps(ctx, c, w.checkArgs, w.prepare, w.fetch, w.findCommit, w.reset, w.checkout, w.finish)
}

func (w *gitDetachedWork) checkArgs(context.Context, *Call) (any, error) {
	a := w.a
	identity, problem := identities(a.Identity)
	w.identity = identity
	w.auth = []any{"identity", identity, "https_user", a.HTTPSUser, "https_pass", a.HTTPSPass}
	_, badURL := gitURL(a.Name, a.HTTPSUser, a.HTTPSPass)
	_, unknown := gitConfigKwargs(a.Kwargs)
	switch {
	case unknown != "":
		return w.fail(unknown)
	case a.Rev == "":
		return w.fail("'" + a.Rev + "' is not a valid value for the 'rev' argument")
	case a.Target == "":
		return w.fail("'" + a.Rev + "' is not a valid value for the 'target' argument")
	case !filepath.IsAbs(a.Target):
		return w.fail("Target '" + a.Target + "' is not an absolute path")
	case problem != "":
		return w.fail(strings.ToUpper(problem[:1]) + problem[1:])
	case isFile(a.Target):
		return w.fail("Target '" + a.Target + "' exists and is a regular file, cannot proceed")
	case badURL != "":
		return w.fail(badURL)
	}
	return nil, nil
}

// prepare sees to it that there is a checkout whose remote is the wanted one.
func (w *gitDetachedWork) prepare(ctx context.Context, c *Call) (any, error) {
	there, err := w.isRepo(w.a.Target, ".git")
	if err != nil {
		return nil, err
	}
	if !there {
		return w.clone(ctx, c)
	}
	if w.before, err = w.newRev(w.a.Target); err != nil {
		return nil, err
	}
	if !w.hash {
		return w.setRemote(ctx, c)
	}
	_, err = w.run("describe", []any{w.a.Target, w.rev}, "ignore_retcode", true)
	w.known = err == nil
	if err != nil && !isExecError(err) {
		return nil, err
	}
	return nil, nil
}

func (w *gitDetachedWork) setRemote(_ context.Context, c *Call) (any, error) {
	a := w.a
	v, err := w.run("remotes", []any{a.Target}, "redact_auth", false)
	if err != nil {
		return nil, err
	}
	remotes, _ := v.(*Map)
	have := remotes.Map(a.Remote).Value("fetch")
	if have != nil && strings.Contains(Str(have), a.Name) {
		return nil, nil
	}
	if c.Testing() {
		return w.would("Remote " + a.Remote + " would be set to " + a.Name)
	}
	if _, err := w.run("remote_set", []any{a.Target}, "url", a.Name, "remote", a.Remote, "https_user", a.HTTPSUser, "https_pass", a.HTTPSPass); err != nil {
		return nil, err
	}
	w.did("Remote " + a.Remote + " updated from '" + Str(have) + "' to '" + a.Name + "'")
	return nil, nil
}

func (w *gitDetachedWork) clone(_ context.Context, c *Call) (any, error) {
	if goOn, ret, err := w.emptied(w.a.Target, w.a.Name, w.a.ForceClone, false); err != nil || !goOn {
		return ret, err
	}
	if c.Testing() {
		return w.would("Repository " + w.a.Name + " would be cloned to " + w.a.Target)
	}
	opts := NewList("--no-checkout")
	if w.a.Remote != "origin" {
		opts.Append("--origin", w.a.Remote)
	}
	if _, err := w.run("clone", []any{w.a.Target, w.a.Name}, append(w.auth, "opts", opts, "saltenv", c.StateEnv())...); err != nil {
		return w.fail(gitReason(err))
	}
	w.did(w.a.Name + " cloned to " + w.a.Target)
	return nil, nil
}

func (w *gitDetachedWork) fetch(_ context.Context, c *Call) (any, error) {
	if w.known || w.a.FetchRemote == false {
		return nil, nil
	}
	remote := w.a.Remote
	if c.Testing() {
		return w.would("Repository remote " + remote + " would be fetched")
	}
	v, err := w.run("fetch", []any{w.a.Target}, "remote", remote, "force", true, "identity", w.identity, "saltenv", c.StateEnv(),
		"refspecs", NewList("refs/heads/*:refs/remotes/"+remote+"/*", "+refs/tags/*:refs/tags/*"))
	if isExecError(err) {
		return w.fail("Fetch failed:\n\n" + errText(err))
	}
	if err != nil {
		return nil, err
	}
	if Truth(v) {
		w.did("Remote " + remote + " was fetched, resulting in updated refs")
	}
	return nil, nil
}

// findCommit finds the commit that rev stands for: a hash, a branch or a tag.
func (w *gitDetachedWork) findCommit(context.Context, *Call) (any, error) {
	if w.hash {
		v, err := w.run("describe", []any{w.a.Target, w.rev})
		if err != nil {
			return nil, err
		}
		if Truth(v) {
			w.commit = w.rev
		}
	} else {
		v, err := w.run("remote_refs", []any{w.a.Target}, append(w.auth, "ignore_retcode", false)...)
		if isExecError(err) {
			return w.fail("Failed to list refs for " + w.a.Remote + ": " + gitReason(err))
		}
		if err != nil {
			return nil, err
		}
		refs, _ := v.(*Map)
		for _, ref := range []string{"refs/tags/" + w.rev, "refs/remotes/" + w.a.Remote + "/" + w.rev} {
			if v, ok := refs.Get(ref); ok {
				w.commit = Str(v)
			}
		}
	}
	if w.commit == "" {
		return w.fail("Revision '" + w.rev + "' does not exist")
	}
	return nil, nil
}

func (w *gitDetachedWork) reset(_ context.Context, c *Call) (any, error) {
	if !Truth(w.a.HardReset) {
		return nil, nil
	}
	if c.Testing() {
		return w.would("Hard reset to HEAD would be performed on " + w.a.Target)
	}
	if _, err := w.run("reset", []any{w.a.Target}, "opts", NewList("--hard", "HEAD")); err != nil {
		return nil, err
	}
	w.did("Repository was reset to HEAD before checking out revision")
	return nil, nil
}

func (w *gitDetachedWork) checkout(_ context.Context, c *Call) (any, error) {
	if w.commit == w.before {
		return nil, nil
	}
	if c.Testing() {
		w.changes().Set("HEAD", oldNew(noneIfEmpty(w.before), w.commit))
		return w.would("Commit ID " + w.commit + " would be checked out at " + w.a.Target)
	}
	if _, err := w.run("checkout", []any{w.a.Target, w.commit}, "force", w.a.ForceCheckout); err != nil {
		return nil, err
	}
	w.did("Commit ID " + w.commit + " was checked out at " + w.a.Target)
	var err error
	w.now, err = w.newRev(w.a.Target)
	return nil, err
}

// finish brings submodules up to date and ends the state.
func (w *gitDetachedWork) finish(context.Context, *Call) (any, error) {
	if Truth(w.a.Submodules) {
		if _, err := w.run("submodule", []any{w.a.Target, "update"}, "opts", NewList("--init", "--recursive"), "identity", w.identity); err != nil {
			return nil, err
		}
		w.did("Submodules were updated")
	}
	if w.now != "" {
		w.changes().Set("HEAD", oldNew(noneIfEmpty(w.before), w.now))
	} else {
		w.did("Already checked out at correct revision")
	}
	return stateSay(w.ret, true, "%s", gitSentences(w.comments))
}

type gitConfigArgs struct {
	Name           string
	Value          any  `def:"None"`
	Multivar       any  `def:"None"`
	Repo           any  `def:"None"`
	User           any  `def:"None"`
	Password       any  `def:"None"`
	OutputEncoding any  `def:"None"`
	Kwargs         *Map `arg:"**kwargs"`
}

// gitConfigKwargs takes the keywords that Python cannot have as parameters; any
// other one is a problem.
func gitConfigKwargs(kw *Map, names ...string) (out []any, problem string) {
	kw = kw.Clone()
	for _, name := range names {
		out = append(out, kwargOf(kw, name, false))
		kw.Delete(name)
	}
	var bad []string
	for k, v := range kw.All() {
		if !hidden(k) {
			bad = append(bad, Str(k)+"="+Str(v))
		}
	}
	if len(bad) > 0 {
		problem = "The following keyword arguments are not valid: " + strings.Join(bad, ", ")
	}
	return out, problem
}

func gitStateConfigSet(ctx context.Context, c *Call, a gitConfigArgs) (any, error) {
	w := newGitWork(ctx, c, a.Name, true, a.User, a.Password, a.OutputEncoding)
	if a.Value != nil && a.Multivar != nil {
		return w.fail("Only one of 'value' and 'multivar' is permitted")
	}
	kw, problem := gitConfigKwargs(a.Kwargs, "global")
	if problem != "" {
		return w.fail(problem)
	}
	global, key := kw[0], "'"+a.Name+"'"
	if !Truth(global) && !Truth(a.Repo) {
		return w.fail("Non-global config options require the 'repo' argument to be set")
	}
	capital, small := "", ""
	if Truth(global) {
		capital, small = "Global key ", "global key "
	}
	desired := NewList()
	shown := ""
	switch l, isList := a.Multivar.(*List); {
	case a.Value != nil:
		a.Value = Str(a.Value)
		desired, shown = NewList(a.Value), "'"+Str(a.Value)+"'"
	case isList:
		desired = Strings(texts(l))
		a.Multivar, shown = desired, Str(desired)
	case a.Multivar != nil:
		desired = Strings(strings.Split(Str(a.Multivar), ","))
		a.Multivar, shown = desired, Str(desired)
	}
	pre, err := w.run("config_get", nil, "cwd", a.Repo, "key", a.Name, "ignore_retcode", true, "all", true, "global", global)
	if err != nil {
		return nil, err
	}
	if Equal(pre, desired) {
		return stateSay(w.ret, true, "%s%s is already set to %s", capital, key, shown)
	}
	how := "set to"
	if pre == nil {
		how = "added as"
	}
	if c.Testing() {
		w.ret.Set("changes", oldNew(pre, desired))
		return w.would(capital + key + " would be " + how + " " + shown)
	}
	post, err := w.run("config_set", nil, "cwd", a.Repo, "key", a.Name, "value", a.Value, "multivar", a.Multivar, "global", global)
	if isExecError(err) {
		return w.fail("Failed to set " + small + key + " to " + shown + ": " + gitReason(err))
	}
	if err != nil {
		return nil, err
	}
	if !Equal(pre, post) {
		w.changes().Set(a.Name, oldNew(pre, post))
	}
	if !Equal(post, desired) {
		return w.fail("Failed to set " + small + key + " to " + shown)
	}
	return stateSay(w.ret, true, "%s%s was %s %s", capital, key, how, shown)
}

func gitStateConfigUnset(ctx context.Context, c *Call, a struct {
	Name           string
	ValueRegex     any  `def:"None"`
	Repo           any  `def:"None"`
	User           any  `def:"None"`
	Password       any  `def:"None"`
	OutputEncoding any  `def:"None"`
	Kwargs         *Map `arg:"**kwargs"`
}) (any, error) {
	w := newGitWork(ctx, c, a.Name, true, a.User, a.Password, a.OutputEncoding)
	w.ret.Set("comment", "No matching keys are set")
	kw, problem := gitConfigKwargs(a.Kwargs, "global", "all")
	if problem != "" {
		return w.fail(problem)
	}
	global, all := kw[0], kw[1]
	if !Truth(global) && !Truth(a.Repo) {
		return w.fail("Non-global config options require the 'repo' argument to be set")
	}
	key := "^" + strings.TrimRight(strings.TrimLeft(a.Name, "^"), "$") + "$"
	get := func(value any) (*Map, error) {
		v, err := w.run("config_get_regexp", nil, "cwd", a.Repo, "key", key, "value_regex", value, "ignore_retcode", true, "global", global)
		m, _ := v.(*Map)
		return mapOrNew(m), err
	}
	list := func(m *Map, least int) string {
		var out []string
		for k, v := range m.All() {
			if items := toItems(v); len(items) >= least {
				out = append(out, Str(k)+" ("+joinTexts(items, ", ")+")")
			}
		}
		return strings.Join(out, "; ")
	}
	matched, err := get(a.ValueRegex)
	if err != nil || matched.Len() == 0 {
		return w.ret, err
	}
	if many := list(matched, 2); many != "" && !Truth(all) {
		if a.ValueRegex != nil {
			return w.fail("Multiple values are matched by value_regex for the following keys (set 'all' to True to force removal): " + many)
		}
		return w.fail("Multivar(s) matched by the key expression (set 'all' to True to force removal): " + many)
	}
	if c.Testing() {
		w.ret.Set("changes", matched)
		return stateSay(w.ret, nil, "%d key(s) would have value(s) unset", matched.Len())
	}
	pre, err := get(nil)
	if err != nil {
		return nil, err
	}
	var failed []string
	for k := range matched.All() {
		_, err := w.run("config_unset", nil, "cwd", a.Repo, "key", a.Name, "value_regex", a.ValueRegex, "all", all, "global", global)
		if isExecError(err) {
			c.Log.Error("Failed to unset '" + Str(k) + "': " + gitReason(err))
			failed = append(failed, Str(k))
		} else if err != nil {
			return nil, err
		}
	}
	if len(failed) > 0 {
		return w.fail("Error(s) occurred unsetting values for the following keys (see the minion log for details): " + strings.Join(failed, ", "))
	}
	post, err := get(nil)
	if err != nil {
		return nil, err
	}
	for k, v := range pre.All() {
		gone := NewList()
		for _, item := range toItems(v) {
			if !hasItem(toItems(post.Value(k)), item) {
				gone.Append(item)
			}
		}
		if gone.Len() > 0 {
			w.changes().Set(k, gone)
		}
	}
	left, err := get(a.ValueRegex)
	if err != nil {
		return nil, err
	}
	if left.Len() > 0 {
		return w.fail("Failed to unset value(s): " + list(left, 0))
	}
	return stateSay(w.ret, true, "Value(s) successfully unset")
}
