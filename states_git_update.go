// State module git: how git.latest brings a checkout up to date.
package main

import "strings"

// gitCheckout is what is known of the checkout that is there.
type gitCheckout struct {
	branches, tags []any
	baseRev        string // the commit that an update begins at
	baseBranch     string
	dirty          bool
	hasRemote      bool // the wanted commit is there already
	forward        any  // whether it is a fast-forward; nil: not known yet
	upstream       string
	fetchURL       any
}

func (l *gitLatest) update() (any, error) {
	a, target := l.a, l.a.Target
	k := &gitCheckout{}
	var err error
	if k.branches, err = l.list("list_branches"); err != nil {
		return nil, err
	}
	if k.tags, err = l.list("list_tags"); err != nil {
		return nil, err
	}
	if l.localRev, l.localBranch, err = l.local(target); err != nil {
		return nil, err
	}
	if !l.bare && l.remoteRev == "" && l.localRev != "" {
		return l.fail("Remote repository is empty, cannot update from a non-empty to an empty repository")
	}
	k.baseRev, k.baseBranch = l.localRev, l.localBranch
	if l.branchChange() {
		k.baseRev = l.remoteRev
		if hasItem(k.branches, l.branch) {
			k.baseBranch = l.branch
			v, err := l.run("rev_parse", []any{target, l.branch + "^{commit}"}, "ignore_retcode", true)
			if isExecError(err) {
				return l.fail("Unable to get position of local branch '" + l.branch + "': " + gitReason(err))
			}
			if err != nil {
				return nil, err
			}
			k.baseRev = Str(v)
		}
	}
	v, err := l.run("remotes", []any{target}, "redact_auth", false)
	if err != nil {
		return nil, err
	}
	remotes, _ := v.(*Map)
	match := l.same(l.localRev)
	if !l.bare {
		v, err := l.run("diff", []any{target, "HEAD"})
		if err != nil && !isExecError(err) {
			return nil, err
		}
		k.dirty = err == nil && Truth(v)
	}
	if k.dirty && match {
		if a.ForceReset != true {
			return l.uptodate(target, l.comments, true)
		}
		if l.c.Testing() {
			l.changes().Set("forced update", true)
			return l.would(target + " is up-to-date, but with uncommitted changes. Since 'force_reset' is set to True, these local changes would be reset. " +
				"To only reset when there are changes in the remote repository, set 'force_reset' to 'remote-changes'.")
		}
	}
	if text, err := l.findRemoteRev(k, remotes); err != nil {
		return nil, err
	} else if text != "" {
		return l.fail(text)
	}
	if k.dirty && a.ForceReset != "remote-changes" {
		k.forward = false
	}
	headStays := !match && !Truth(a.UpdateHead) && (l.branch == "" || l.branch == l.localBranch)
	loc := l.loc
	if a.Rev == "HEAD" && loc != "" {
		loc = strings.ToUpper(loc[:1]) + strings.ToLower(loc[1:])
	}
	stays := loc + " is already present and local HEAD (" + shortSHA(l.localRev) + ") does not match, but update_head=False. HEAD has not been updated locally."
	if k.hasRemote {
		if headStays {
			l.ret.Set("comment", stays)
			return l.ret, nil
		}
		if k.forward != false {
			if err := l.ancestor(k, true); err != nil {
				return nil, err
			}
		}
	}
	if k.forward == false && a.ForceReset == false {
		return l.notForward(k)
	}
	if k.baseBranch != "" {
		if k.upstream, err = l.revParse(target, k.baseBranch+"@{upstream}", "opts", NewList("--abbrev-ref")); err != nil {
			return nil, err
		}
	}
	if r := remotes.Map(a.Remote); r != nil {
		k.fetchURL = r.Value("fetch")
	}
	if l.remoteRev != "" && k.fetchURL != l.url {
		if l.c.Testing() {
			return l.dryRemote(k, match)
		}
		if _, err := l.run("remote_set", []any{target}, "url", a.Name, "remote", a.Remote, "https_user", a.HTTPSUser, "https_pass", a.HTTPSPass); err != nil {
			return nil, err
		}
		if k.fetchURL == nil {
			l.did("Remote '" + a.Remote + "' set to " + withoutPassword(l.url))
			l.changes().Set("new", a.Name+" => "+a.Remote)
		} else {
			l.did("Remote '" + a.Remote + "' changed from " + withoutPassword(Str(k.fetchURL)) + " to " + withoutPassword(l.url))
		}
	}
	switch {
	case l.remoteRev != "" && l.c.Testing():
		return l.dry(k, match)
	case l.remoteRev != "":
		if ret, err := l.bring(k, headStays, stays); ret != nil || err != nil {
			return ret, err
		}
	case l.bare && l.c.Testing():
		return l.uptodate(target, []string{"Bare repository at " + target + " would be fetched"}, false)
	case l.bare:
		v, err := l.fetch()
		if isExecError(err) {
			return l.fetchFailed(err)
		}
		if err != nil {
			return nil, err
		}
		text := "Bare repository at " + target + " was fetched"
		if Truth(v) {
			text += ", resulting in updated refs"
		}
		l.did(text)
	}
	now, err := l.newRev(target)
	if err != nil {
		return nil, err
	}
	if !l.bare && !l.same(now) {
		return l.fail("Failed to update repository")
	}
	if l.localRev == now {
		return l.uptodate(target, l.comments, false)
	}
	l.changes().Set("revision", oldNew(noneIfEmpty(l.localRev), noneIfEmpty(now)))
	return stateSay(l.ret, true, "%s", gitSentences(l.comments))
}

// findRemoteRev says whether the wanted commit is in the checkout.
func (l *gitLatest) findRemoteRev(k *gitCheckout, remotes *Map) (problem string, err error) {
	target := l.a.Target
	if l.revKind == "sha1" && k.baseRev != "" && strings.HasPrefix(k.baseRev, l.remoteRev) {
		k.hasRemote = true
		return "", nil
	}
	if l.remoteRev == "" {
		return "", nil
	}
	there, err := l.revParse(target, l.remoteRev+"^{commit}")
	if err != nil || there == "" {
		return "", err
	}
	switch l.revKind {
	case "sha1":
		k.hasRemote = true
	case "branch":
		if remotes.Has(l.a.Remote) {
			have, err := l.revParse(target, l.upstream)
			if err != nil {
				return "", err
			}
			k.hasRemote = have == l.remoteRev
		}
	case "tag":
		if !hasItem(k.tags, l.a.Rev) {
			break
		}
		have, err := l.revParse(target, l.a.Rev+"^{commit}")
		if err != nil {
			return "", err
		}
		if have == l.remoteRev {
			k.hasRemote = true
		} else if !Truth(l.a.ForceReset) {
			return "'" + l.a.Rev + "' is a tag, but the remote SHA1 for this tag (" + shortSHA(l.remoteRev) + ") doesn't match the local SHA1 (" + Str(noneIfEmpty(shortSHA(have))) +
				"). Set 'force_reset' to True to force this update.", nil
		}
	}
	return "", nil
}

// ancestor looks whether the update is a fast-forward.
func (l *gitLatest) ancestor(k *gitCheckout, quiet bool) error {
	if k.baseRev == "" {
		k.forward = true
		return nil
	}
	v, err := l.run("merge_base", []any{l.a.Target}, "refs", NewList(k.baseRev, l.remoteRev), "is_ancestor", true, "ignore_retcode", quiet)
	k.forward = Truth(v)
	return err
}

func (l *gitLatest) notForward(k *gitCheckout) (any, error) {
	hint := ""
	if l.branch == "" {
		if rev := l.a.Rev; rev != "HEAD" {
			if l.localBranch != rev {
				hint = " The desired rev (" + rev + ") differs from the name of the local branch (" + Str(noneIfEmpty(l.localBranch)) +
					"), if the desired rev is a branch name then a forced update could possibly be avoided by setting the 'branch' argument to '" + rev + "' instead."
			}
		} else if d := l.defBranch; d != "" && l.localBranch != d {
			hint = " The default remote branch (" + d + ") differs from the local branch (" + Str(noneIfEmpty(l.localBranch)) +
				"). This could be caused by changing the default remote branch, or if the local branch was manually changed. Rather than forcing an update, " +
				"it may be advisable to set the 'branch' argument to '" + d + "' instead. To ensure that this state follows the '" + d +
				"' branch instead of the remote HEAD, set the 'rev' argument to '" + d + "'."
		}
	}
	pre, post := shortSHA(k.baseRev), shortSHA(l.remoteRev)
	text := "Repository would be updated to " + post
	if k.dirty && pre != post {
		text = "Repository would be updated from " + pre + " to " + post
	}
	if l.branchChange() {
		text += " (after checking out local branch '" + l.branch + "')"
	}
	if k.dirty {
		text += ", but there are uncommitted changes. Set 'force_reset' to True (or 'remote-changes') to force this update and discard these changes."
	} else {
		text += ", but this is not a fast-forward merge. Set 'force_reset' to True to force this update."
	}
	return l.fail(text + hint)
}

func (k *gitCheckout) mergeWord() string {
	switch k.forward {
	case false:
		return "hard-reset"
	case true:
		return "fast-forwarded"
	}
	return "updated"
}

// dryRemote is a dry run that would change the remote.
func (l *gitLatest) dryRemote(k *gitCheckout, match bool) (any, error) {
	actions := []string{"Remote '" + l.a.Remote + "' would be changed from " + withoutPassword(Str(k.fetchURL)) + " to " + withoutPassword(l.url)}
	if !k.hasRemote {
		actions = append(actions, "Remote would be fetched")
	}
	if !match && Truth(l.a.UpdateHead) {
		l.changes().Set("revision", oldNew(noneIfEmpty(l.localRev), l.remoteRev))
		if k.forward == false {
			l.changes().Set("forced update", true)
		}
		actions = append(actions, "Repository would be "+k.mergeWord()+" to "+shortSHA(l.remoteRev))
	}
	return l.dryEnd(actions, match)
}

func (l *gitLatest) dryEnd(actions []string, match bool) (any, error) {
	switch {
	case l.changes().Len() > 0:
		return l.would(gitSentences(actions))
	case !match && !Truth(l.a.UpdateHead) && len(actions) > 0:
		l.ret.Set("comment", gitSentences(actions))
		return l.ret, nil
	}
	return l.uptodate(l.a.Target, actions, false)
}

// dry is what a dry run says of an update.
func (l *gitLatest) dry(k *gitCheckout, match bool) (any, error) {
	a := l.a
	var actions []string
	say := func(s string) { actions = append(actions, s) }
	if !k.hasRemote {
		say("Remote '" + a.Remote + "' would be fetched")
	}
	if !match && (Truth(a.UpdateHead) || l.branchChange()) {
		l.changes().Set("revision", oldNew(noneIfEmpty(l.localRev), l.remoteRev))
	}
	from, to := shortSHA(l.localRev), shortSHA(l.remoteRev)
	switch {
	case l.branchChange() && !hasItem(k.branches, l.branch):
		say("New branch '" + l.branch + "' would be checked out, with " + l.loc + " as a starting point")
		if l.upstream != "" {
			say("Tracking branch would be set to " + l.upstream)
		}
	case l.branchChange():
		say("Branch '" + l.branch + "' would be checked out and " + k.mergeWord() + " to " + to)
	case match:
	case !Truth(a.UpdateHead):
		say("Local HEAD (" + from + ") does not match " + l.loc + " but update_head=False, HEAD would not be updated locally")
	case k.forward == true:
		say("Repository would be fast-forwarded from " + from + " to " + to)
	case Truth(a.ForceReset) && k.hasRemote:
		say("Repository would be hard-reset from " + from + " to " + to)
	default:
		say("Repository would be updated from " + from + " to " + to)
	}
	switch {
	case k.upstream == "" && l.upstream != "":
		say("Tracking branch would be set to " + l.upstream)
	case k.upstream != "" && l.track && l.upstream == "":
		say("Tracking branch would be unset")
	case l.upstream != "" && k.upstream != l.upstream:
		say("Tracking branch would be updated to " + l.upstream)
	}
	return l.dryEnd(actions, match)
}

func (l *gitLatest) fetch() (any, error) {
	refspecs := NewList()
	if Truth(l.a.FetchTags) {
		b, t := l.a.RefspecBranch, l.a.RefspecTag
		refspecs.Append("refs/heads/"+b+":refs/remotes/"+l.a.Remote+"/"+b, "+refs/tags/"+t+":refs/tags/"+t)
	}
	return l.run("fetch", []any{l.a.Target}, "remote", l.a.Remote, "force", l.a.ForceFetch, "refspecs", refspecs, "identity", l.identity, "saltenv", l.c.StateEnv())
}

func (l *gitLatest) fetchFailed(err error) (any, error) {
	return l.fail("Fetch failed. Set 'force_fetch' to True to force the fetch if the failure was due to not being able to fast-forward. " +
		"Output of the fetch command follows:\n\n" + gitReason(err))
}

// tagsChanged compares the tags here and there, and drops what is gone there.
func (l *gitLatest) tagsChanged(k *gitCheckout) (bool, error) {
	v, err := l.run("ls_remote", nil, "cwd", l.a.Target, "remote", l.a.Remote, "opts", "--tags", "identity", l.identity, "saltenv", l.c.StateEnv(), "ignore_retcode", true)
	if err != nil {
		return false, err
	}
	refs, _ := v.(*Map)
	var there []any
	for ref := range refs.All() {
		if s := Str(ref); !strings.Contains(s, "^{}") {
			there = append(there, strings.ReplaceAll(s, "refs/tags/", ""))
		}
	}
	if sameItems(there, k.tags) {
		return false, nil
	}
	fresh := NewSet()
	for _, t := range there {
		if !hasItem(k.tags, t) {
			fresh.Add(t)
		}
	}
	if fresh.Len() > 0 {
		l.changes().Set("new_tags", fresh)
	}
	gone := NewList()
	for _, t := range k.tags {
		if hasItem(there, t) || !Truth(l.a.SyncTags) {
			continue
		}
		if _, err := l.run("tag", []any{l.a.Target, t}, "opts", "-d"); isExecError(err) {
			warnings := l.ret.List("warnings")
			if warnings == nil {
				warnings = NewList()
				l.ret.Set("warnings", warnings)
			}
			warnings.Append("Failed to remove local tag '" + Str(t) + "':\n\n" + errText(err) + "\n\n")
		} else if err != nil {
			return false, err
		} else {
			gone.Append(t)
		}
	}
	if gone.Len() > 0 {
		l.changes().Set("deleted_tags", gone)
		l.did("The following tags were removed from the local checkout: " + joinTexts(gone.Items, ", "))
	}
	return true, nil
}

// bring brings a checkout to the wanted commit; a return ends the state.
func (l *gitLatest) bring(k *gitCheckout, headStays bool, stays string) (any, error) {
	a, target := l.a, l.a.Target
	what, trackOpts := l.tracking(k.upstream, k.branches)
	if trackOpts != nil && l.localBranch == "" {
		return l.fail("Cannot set/unset upstream tracking branch, local HEAD refers to nonexistent branch. This may have been caused by cloning a remote repository for which the default " +
			"branch was renamed or deleted. If you are unable to fix the remote repository, you can work around this by setting the 'branch' argument (which will ensure that the named " +
			"branch is created if it does not already exist).")
	}
	changed, err := l.tagsChanged(k)
	if err != nil {
		return nil, err
	}
	if changed || !k.hasRemote {
		if ret, err := l.fetchRev(k, headStays, stays); ret != nil || err != nil {
			return ret, err
		}
	}
	if l.branchChange() {
		if k.dirty && !Truth(a.ForceCheckout) {
			l.comments = nil
			return l.fail("Local branch '" + l.localBranch + "' has uncommitted changes. Set 'force_checkout' to True to discard them and proceed.")
		}
		rev, opts := l.branch, NewList()
		if !hasItem(k.branches, l.branch) {
			rev, opts = l.checkoutRev(), NewList("-b", l.branch)
		}
		if _, err := l.run("checkout", []any{target, rev}, "force", a.ForceCheckout, "opts", opts); err != nil {
			return nil, err
		}
		if opts.Len() > 0 {
			l.did("New branch '" + l.branch + "' was checked out, with " + l.loc + " as a starting point")
		} else {
			l.did("'" + rev + "' was checked out")
		}
	}
	switch {
	case k.forward == false:
		if _, err := l.run("reset", []any{target}, "opts", NewList("--hard", l.remoteRev)); err != nil {
			return nil, err
		}
		l.changes().Set("forced update", true)
		if k.dirty {
			l.did("Uncommitted changes were discarded")
		}
		l.did("Repository was hard-reset to " + l.loc)
	case k.forward == true && k.dirty && a.ForceReset != false:
		if _, err := l.run("discard_local_changes", []any{target}); err != nil {
			return nil, err
		}
		l.did("Uncommitted changes were discarded")
	}
	if trackOpts != nil {
		if _, err := l.run("branch", []any{target}, "opts", trackOpts); err != nil {
			return nil, err
		}
		l.did(what)
	}
	if k.forward == true && !l.same(k.baseRev) {
		if ret, err := l.forward(); ret != nil || err != nil {
			return ret, err
		}
	}
	if Truth(a.Submodules) {
		if err := l.submodules(); err != nil {
			return l.fail("Failed to update submodules: " + gitReason(err))
		}
	}
	return nil, nil
}

// fetchRev fetches the wanted commit.
func (l *gitLatest) fetchRev(k *gitCheckout, headStays bool, stays string) (any, error) {
	v, err := l.fetch()
	if isExecError(err) {
		return l.fetchFailed(err)
	}
	if err != nil {
		return nil, err
	}
	if Truth(v) {
		l.did(l.a.Name + " was fetched, resulting in updated refs")
	}
	if _, err := l.run("rev_parse", []any{l.a.Target, l.remoteRev + "^{commit}"}, "ignore_retcode", true); isExecError(err) {
		l.comments = nil
		return l.fail("Fetch did not successfully retrieve rev '" + l.a.Rev + "' from " + l.a.Name + ": " + errText(err))
	} else if err != nil {
		return nil, err
	}
	if headStays {
		l.ret.Set("comment", stays)
		return l.ret, nil
	}
	if err := l.ancestor(k, false); err != nil {
		return nil, err
	}
	if l.a.ForceReset == false && (k.forward == false || k.dirty) {
		return l.notForward(k)
	}
	return nil, nil
}

// forward moves the branch to the wanted commit.
func (l *gitLatest) forward() (any, error) {
	a, target := l.a, l.a.Target
	if l.upstream == "" && a.Rev != "HEAD" {
		if _, err := l.run("reset", []any{target}, "opts", NewList("--hard", a.Rev)); err != nil {
			return nil, err
		}
		l.did("Repository was reset to " + a.Rev + " (fast-forward)")
		return nil, nil
	}
	v, err := l.run("symbolic_ref", []any{target, "HEAD"}, "opts", NewList("--quiet"), "ignore_retcode", true)
	if err != nil {
		return nil, err
	}
	if !Truth(v) {
		return l.fail("Unable to fast-forward, HEAD is detached")
	}
	if _, err := l.run("merge", []any{target}, "rev", l.remoteRev, "opts", NewList("--ff-only")); err != nil {
		return nil, err
	}
	l.did("Repository was fast-forwarded to " + l.loc)
	return nil, nil
}
