// State module git: latest, which clones a repository or brings a checkout up to
// date. states_git_update.go has the update of a checkout.
package main

import (
	"context"
	"path/filepath"
	"strings"
)

type gitLatestArgs struct {
	Name           string
	Target         string
	Rev            string `def:"HEAD"`
	Branch         any    `def:"None"`
	User           any    `def:"None"`
	Password       any    `def:"None"`
	UpdateHead     any    `def:"True"`
	ForceCheckout  any    `def:"False"`
	ForceClone     any    `def:"False"`
	ForceFetch     any    `def:"False"`
	ForceReset     any    `def:"False"`
	Submodules     any    `def:"False"`
	Bare           any    `def:"False"`
	Mirror         any    `def:"False"`
	Remote         string `def:"origin"`
	FetchTags      any    `def:"True"`
	SyncTags       any    `def:"True"`
	Depth          any    `def:"None"`
	Identity       any    `def:"None"`
	HTTPSUser      any    `arg:"https_user" def:"None"`
	HTTPSPass      any    `arg:"https_pass" def:"None"`
	RefspecBranch  string `def:"*"`
	RefspecTag     string `def:"*"`
	OutputEncoding any    `def:"None"`
	Kwargs         *Map   `arg:"**kwargs"`
}

// gitLatest is a latest on its way.
type gitLatest struct {
	*gitWork
	a         gitLatestArgs
	branch    string // "" for none
	identity  any
	url       string // to fetch from, with its password
	bare      bool
	refs      *Map   // of the remote repository
	head      string // its HEAD
	defBranch string // the branch that its HEAD is

	remoteRev string
	revKind   string // branch, tag, sha1
	upstream  string // the branch to track
	track     bool   // whether tracking is to be changed; with upstream "" it is taken away
	loc       string // how to speak of the remote revision

	localRev, localBranch string
}

func gitStateLatest(ctx context.Context, c *Call, a gitLatestArgs) (any, error) {
	l := &gitLatest{gitWork: newGitWork(ctx, c, a.Name, true, a.User, a.Password, a.OutputEncoding), a: a, bare: Truth(a.Bare) || Truth(a.Mirror)}
	if a.Branch != nil {
		l.branch = Str(a.Branch)
	}
	var problem, badURL string
	l.identity, problem = identities(a.Identity)
	l.url, badURL = gitURL(a.Name, a.HTTPSUser, a.HTTPSPass)
	_, unknown := gitConfigKwargs(a.Kwargs)
	switch {
	case unknown != "":
		return l.fail(unknown)
	case a.Remote == "":
		return l.fail("'remote' argument is required")
	case a.Target == "":
		return l.fail("'target' argument is required")
	case a.Rev == "":
		return l.fail("'" + a.Rev + "' is not a valid value for the 'rev' argument")
	case a.ForceReset != true && a.ForceReset != false && a.ForceReset != "remote-changes":
		return l.fail("'force_reset' must be one of True, False, or 'remote-changes'")
	case !filepath.IsAbs(a.Target):
		return l.fail("target '" + a.Target + "' is not an absolute path")
	case problem != "":
		return l.fail(problem)
	case isFile(a.Target):
		return l.fail("Target '" + a.Target + "' exists and is a regular file, cannot proceed")
	case badURL != "":
		return l.fail(badURL)
	case a.Rev != "HEAD" && l.bare:
		return l.fail("'rev' is not compatible with the 'mirror' and 'bare' arguments")
	}
	v, err := l.run("remote_refs", []any{a.Name}, "heads", false, "tags", false, "identity", l.identity, "https_user", a.HTTPSUser, "https_pass", a.HTTPSPass,
		"ignore_retcode", false, "saltenv", c.StateEnv())
	if isExecError(err) {
		return l.fail("Failed to check remote refs: " + gitReason(err))
	}
	if err != nil {
		return nil, err
	}
	l.refs, _ = v.(*Map)
	l.readRemote()
	switch {
	case a.Depth != nil && l.revKind != "branch" && l.revKind != "tag":
		return l.fail("When 'depth' is used, 'rev' must be set to the name of a branch or tag on the remote repository")
	case l.remoteRev == "" && !l.bare && a.Rev != "HEAD":
		return l.fail("No revision matching '" + a.Rev + "' exists in the remote repository")
	}
	mark := ".git"
	if l.bare {
		mark = "refs"
	}
	there, err := l.isRepo(a.Target, mark)
	if err != nil {
		return nil, err
	}
	if !there {
		return l.clone()
	}
	ret, err := l.update()
	if err != nil {
		return l.fail(gitReason(err))
	}
	return ret, nil
}

// readRemote works out what the wanted revision is in the remote repository.
func (l *gitLatest) readRemote() {
	ref := func(name string) string { return Str(kwargOf(l.refs, name, "")) }
	if l.head = ref("HEAD"); l.head != "" {
		for k, v := range l.refs.All() {
			if b, ok := strings.CutPrefix(Str(k), "refs/heads/"); ok && v == l.head {
				l.defBranch = b
				break
			}
		}
	}
	l.track = true
	if l.bare {
		return
	}
	rev := l.a.Rev
	switch {
	case rev == "HEAD":
		if l.remoteRev = l.head; l.head != "" {
			l.revKind, l.track = "sha1", false
		}
	case ref("refs/heads/"+rev) != "":
		l.remoteRev, l.revKind, l.upstream = ref("refs/heads/"+rev), "branch", l.a.Remote+"/"+rev
	case ref("refs/tags/"+rev+"^{}") != "":
		l.remoteRev, l.revKind = ref("refs/tags/"+rev+"^{}"), "tag"
	case ref("refs/tags/"+rev) != "":
		l.remoteRev, l.revKind = ref("refs/tags/"+rev), "tag"
	case isHexRev(rev):
		rev = strings.ToLower(rev)
		l.a.Rev, l.remoteRev, l.revKind = rev, rev, "sha1"
	}
	switch {
	case l.revKind == "sha1" && rev == "HEAD":
		l.loc = "remote HEAD (" + shortSHA(l.remoteRev) + ")"
	case l.revKind == "sha1":
		l.loc = shortSHA(l.remoteRev)
	case l.revKind == "branch":
		l.loc = l.upstream + " (" + shortSHA(l.remoteRev) + ")"
	case l.revKind == "tag":
		l.loc = rev + " (" + shortSHA(l.remoteRev) + ")"
	}
}

// same compares a local commit with the remote one.
func (l *gitLatest) same(rev string) bool {
	if rev == "" || l.remoteRev == "" {
		return rev == l.remoteRev
	}
	return rev == l.remoteRev || l.revKind == "sha1" && strings.HasPrefix(rev, l.remoteRev)
}

func (l *gitLatest) branchChange() bool { return l.branch != "" && l.branch != l.localBranch }

func (l *gitLatest) list(fun string) ([]any, error) {
	v, err := l.run(fun, []any{l.a.Target})
	return toItems(v), err
}

// tracking says how the upstream branch has to change, and the options for it;
// options are nil if there is nothing to do yet.
func (l *gitLatest) tracking(upstream string, branches []any) (what string, opts *List) {
	set := func(words string) (string, *List) {
		if l.branch != "" && !hasItem(branches, l.branch) {
			return words + l.upstream, nil
		}
		return words + l.upstream, NewList("--set-upstream-to", l.upstream)
	}
	switch {
	case upstream == "" && l.upstream != "":
		return set("Tracking branch was set to ")
	case upstream != "" && l.track && l.upstream == "":
		return "Tracking branch was unset", NewList("--unset-upstream")
	case l.upstream != "" && upstream != l.upstream:
		return set("Tracking branch was updated to ")
	}
	return "", nil
}

// checkoutRev is the revision that a new branch starts at.
func (l *gitLatest) checkoutRev() string {
	switch {
	case l.a.Rev == "HEAD":
		return l.remoteRev
	case l.upstream != "":
		return l.upstream
	}
	return l.a.Rev
}

func (l *gitLatest) cloneOpts() *List {
	opts := NewList()
	switch {
	case Truth(l.a.Mirror):
		opts.Append("--mirror")
	case l.bare:
		opts.Append("--bare")
	}
	if l.a.Remote != "origin" {
		opts.Append("--origin", l.a.Remote)
	}
	if l.a.Depth != nil {
		opts.Append("--depth", Str(l.a.Depth), "--branch", l.a.Rev)
	}
	return opts
}

func (l *gitLatest) clone() (any, error) {
	a, target := l.a, l.a.Target
	if goOn, ret, err := l.emptied(target, a.Name, a.ForceClone, true); err != nil || !goOn {
		return ret, err
	}
	if l.c.Testing() {
		l.changes().Set("new", a.Name+" => "+target)
		return l.would("Repository " + a.Name + " would be cloned to " + target)
	}
	_, err := l.run("clone", []any{target, a.Name}, "opts", l.cloneOpts(), "identity", l.identity, "https_user", a.HTTPSUser, "https_pass", a.HTTPSPass,
		"saltenv", l.c.StateEnv())
	if isExecError(err) {
		return l.fail("Clone failed: " + gitReason(err))
	}
	if err != nil {
		return l.fail(errText(err))
	}
	l.changes().Set("new", a.Name+" => "+target)
	as := ""
	switch {
	case Truth(a.Mirror):
		as = " as mirror"
	case l.bare:
		as = " as bare repository"
	}
	l.did(a.Name + " cloned to " + target + as)
	if !l.bare && l.remoteRev == "" && a.Rev != "HEAD" {
		return l.fail("Repository was cloned but is empty, so " + a.Remote + "/" + a.Rev + " cannot be checked out")
	}
	if !l.bare && l.remoteRev != "" {
		if text, err := l.afterClone(); err != nil {
			return l.fail(gitReason(err))
		} else if text != "" {
			return l.fail(text)
		}
	}
	if Truth(a.Submodules) && l.remoteRev != "" {
		if err := l.submodules(); err != nil {
			return l.fail("Failed to update submodules: " + gitReason(err))
		}
	}
	now, err := l.newRev(target)
	if err != nil {
		return l.fail(gitReason(err))
	}
	if now != "" {
		l.changes().Set("revision", oldNew(nil, now))
	}
	return stateSay(l.ret, true, "%s", gitSentences(l.comments))
}

func (l *gitLatest) submodules() error {
	_, err := l.run("submodule", []any{l.a.Target, "update"}, "opts", NewList("--init", "--recursive"), "identity", l.identity, "saltenv", l.c.StateEnv())
	return err
}

// afterClone brings a fresh clone to the wanted revision; problem ends the state.
func (l *gitLatest) afterClone() (problem string, err error) {
	a, target := l.a, l.a.Target
	if l.revKind == "tag" {
		tags, err := l.list("list_tags")
		if err != nil {
			return "", err
		}
		if !hasItem(tags, a.Rev) {
			return "Revision '" + a.Rev + "' does not exist in clone", nil
		}
	}
	branches, err := l.list("list_branches")
	if err != nil {
		return "", err
	}
	if l.branch != "" && !hasItem(branches, l.branch) {
		if _, err := l.run("checkout", []any{target, l.checkoutRev()}, "opts", NewList("-b", l.branch)); err != nil {
			return "", err
		}
		l.did("Branch '" + l.branch + "' checked out, with " + l.loc + " as a starting point")
	}
	if l.localRev, l.localBranch, err = l.local(target); err != nil {
		return "", err
	}
	if l.localBranch == "" && l.head == "" {
		return "Remote HEAD refers to a ref that does not exist. This can happen when the default branch on the remote repository is renamed or deleted. " +
			"If you are unable to fix the remote repository, you can work around this by setting the 'branch' argument (which will ensure that the named branch is created if it does not already exist).", nil
	}
	if !l.same(l.localRev) {
		if _, err := l.run("reset", []any{target}, "opts", NewList("--hard", l.remoteRev)); err != nil {
			return "", err
		}
		l.did("Repository was reset to " + l.loc)
	}
	upstream, err := l.revParse(target, l.localBranch+"@{upstream}", "opts", NewList("--abbrev-ref"))
	if err != nil {
		return "", err
	}
	if branches, err = l.list("list_branches"); err != nil {
		return "", err
	}
	if what, opts := l.tracking(upstream, branches); opts != nil {
		if _, err := l.run("branch", []any{target}, "opts", opts); err != nil {
			return "", err
		}
		l.did(what)
	}
	return "", nil
}
