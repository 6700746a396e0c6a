// State module git: repositories. This file has what all of its states share and
// the smaller ones; states_git_detached.go has git.detached and the options of
// git, states_git_latest.go has git.latest. Git 1.8.2 or newer is taken for
// granted.
package main

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

func gitStates() Module {
	return Module{
		Doc:     "Git repositories.",
		Virtual: needsFunction("git.version", "git module could not be loaded"),
		Funcs: Funcs{
			"latest":       {run: gitStateLatest, doc: "The repository is cloned to target and stands at rev, the newest of its branch. branch names the local branch; force_reset throws away what is in the way."},
			"present":      {run: gitStatePresent, doc: "There is a repository, made with git init if it is missing."},
			"detached":     {run: gitStateDetached, doc: "The repository is cloned to target and stands at the commit, detached from branches."},
			"cloned":       {run: gitStateCloned, doc: "The repository is cloned to target, at that branch, and then left alone."},
			"config_set":   {run: gitStateConfigSet, doc: "An option of git has the value, or the values of multivar; global: of the user."},
			"config_unset": {run: gitStateConfigUnset, doc: "An option of git is not set; all also where it has several values."},
		},
	}
}

// gitWork is a git state on its way: the calls with what all of them take.
type gitWork struct {
	ctx      context.Context
	c        *Call
	ret      *Map
	common   *Map
	comments []string
}

func newGitWork(ctx context.Context, c *Call, name string, result bool, user, password, encoding any) *gitWork {
	return &gitWork{ctx: ctx, c: c, ret: NewMap("name", name, "result", result, "comment", "", "changes", NewMap()),
		common: NewMap("user", user, "password", password, "output_encoding", encoding)}
}

func (w *gitWork) run(fun string, args []any, more ...any) (any, error) {
	kw := w.common.Clone()
	kw.Merge(NewMap(more...))
	return w.c.RunKw(w.ctx, "git."+fun, args, kw)
}

// revParse is the commit that a name stands for; "" if it stands for none.
func (w *gitWork) revParse(target, rev string, more ...any) (string, error) {
	v, err := w.run("rev_parse", []any{target, rev}, append(more, "ignore_retcode", true)...)
	if isExecError(err) {
		return "", nil
	}
	if err != nil || v == nil {
		return "", err
	}
	return Str(v), nil
}

func (w *gitWork) changes() *Map { return w.ret.Map("changes") }

func (w *gitWork) did(text string) { w.comments = append(w.comments, text) }

// gitSentences joins comments as sentences.
func gitSentences(comments []string) string {
	s := strings.Join(comments, ". ")
	if len(comments) > 1 {
		s += "."
	}
	return s
}

func (w *gitWork) fail(text string) (any, error) {
	if len(w.comments) > 0 {
		text += "\n\nChanges already made: " + gitSentences(w.comments)
	}
	return stateSay(w.ret, false, "%s", text)
}

func (w *gitWork) would(text string) (any, error) { return stateSay(w.ret, nil, "%s", text) }

func (w *gitWork) done(text string, comments []string) (any, error) {
	if len(comments) > 0 {
		text += "\n\nChanges "
		if w.c.Testing() {
			text += "that would be "
		}
		text += "made: " + gitSentences(comments)
	}
	w.ret.Set("comment", text)
	return w.ret, nil
}

func (w *gitWork) uptodate(target string, comments []string, dirty bool) (any, error) {
	text := "Repository " + target + " is up-to-date"
	if dirty {
		text += ", but with uncommitted changes. Set 'force_reset' to True to purge uncommitted changes."
	}
	return w.done(text, comments)
}

var gitCommandFailed = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^Command ['"].+['"] failed: `) })

// gitReason is an error of git without the command that failed.
func gitReason(err error) string { return gitCommandFailed().ReplaceAllString(errText(err), "") }

func shortSHA(s string) string {
	if len(s) > 7 {
		return s[:7]
	}
	return s
}

// noneIfEmpty is None for "".
func noneIfEmpty(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// isHexRev says whether a revision may be the beginning of a hash.
func isHexRev(rev string) bool {
	return len(rev) <= 40 && strings.Trim(rev, "0123456789abcdefABCDEF") == ""
}

// isRepo says whether a directory is a checkout; check is what marks one.
func (w *gitWork) isRepo(target, check string) (bool, error) {
	if isDir(filepath.Join(target, check)) {
		return true, nil
	}
	v, err := w.run("is_worktree", []any{target})
	return Truth(v), err
}

// local are commit and branch of a checkout, "" where there is none.
func (w *gitWork) local(target string) (rev, branch string, err error) {
	for _, q := range []struct {
		fun string
		to  *string
	}{{"revision", &rev}, {"current_branch", &branch}} {
		v, err := w.run(q.fun, []any{target}, "ignore_retcode", true)
		if err != nil && !isExecError(err) {
			return "", "", err
		}
		if err == nil && Truth(v) {
			*q.to = Str(v)
		}
	}
	return rev, branch, nil
}

// newRev is the commit after the work.
func (w *gitWork) newRev(target string) (string, error) {
	rev, _, err := w.local(target)
	return rev, err
}

// identities checks the key files of a state; problem is what is wrong.
func identities(v any) (out any, problem string) {
	var items []any
	switch v := v.(type) {
	case nil:
		return nil, ""
	case string:
		items = []any{v}
	case *List:
		items = v.Items
	default:
		return nil, "identity must be either a list or a string"
	}
	l := NewList()
	for _, item := range items {
		p := expandUser(Str(item))
		if !strings.Contains(p, "salt://") && !filepath.IsAbs(p) {
			return nil, "identity '" + p + "' is not an absolute path"
		}
		l.Append(p)
	}
	return l, ""
}

// gitURL adds user and password to an address.
func gitURL(name string, user, password any) (address, problem string) {
	if !Truth(user) {
		return name, ""
	}
	u, err := url.Parse(name)
	if err != nil || u.Scheme != "https" {
		return "", "Basic Auth only supported for HTTPS"
	}
	u.User = url.User(Str(user))
	if Truth(password) {
		u.User = url.UserPassword(Str(user), Str(password))
	}
	return u.String(), ""
}

// emptied makes room for a clone. goOn is false if the state ends here.
func (w *gitWork) emptied(target, name string, force any, testNew bool) (goOn bool, ret any, err error) {
	if !isDir(target) {
		return true, nil, nil
	}
	files, err := os.ReadDir(target)
	if err != nil {
		return false, nil, osError(err)
	}
	if !Truth(force) {
		if len(files) == 0 {
			return true, nil, nil
		}
		ret, err = w.fail("Target '" + target + "' exists, is non-empty and is not a git repository. Set the 'force_clone' option to True to remove this directory's contents " +
			"and proceed with cloning the remote repository")
		return false, ret, err
	}
	if w.c.Testing() {
		if testNew {
			w.changes().Set("forced clone", true)
			w.changes().Set("new", name+" => "+target)
		}
		ret, err = w.would("Target directory " + target + " exists. Since force_clone=True, the contents of " + target + " would be deleted, and " + name +
			" would be cloned into this directory.")
		return false, ret, err
	}
	failed := ""
	for _, f := range files {
		p := filepath.Join(target, f.Name())
		if err := os.RemoveAll(p); err != nil {
			failed += "\n  " + p + "\n    " + errText(osError(err))
		}
	}
	if failed != "" {
		ret, err = w.fail("Unable to remove" + failed)
		return false, ret, err
	}
	w.changes().Set("forced clone", true)
	return true, nil, nil
}

func gitStatePresent(ctx context.Context, c *Call, a struct {
	Name           string
	Force          any `def:"False"`
	Bare           any `def:"True"`
	Template       any `def:"None"`
	SeparateGitDir any `def:"None"`
	Shared         any `def:"None"`
	User           any `def:"None"`
	Password       any `def:"None"`
	OutputEncoding any `def:"None"`
}) (any, error) {
	w := newGitWork(ctx, c, a.Name, true, a.User, a.Password, a.OutputEncoding)
	bare, kind := Truth(a.Bare), ""
	if bare {
		kind = "bare "
	}
	if isDir(a.Name) {
		there := bare && isFile(filepath.Join(a.Name, "HEAD"))
		if !bare {
			v, err := w.isRepo(a.Name, ".git")
			if err != nil {
				return nil, err
			}
			there = v
		}
		files, err := os.ReadDir(a.Name)
		switch {
		case there:
			return w.ret, nil
		case Truth(a.Force) && c.Testing():
			w.changes().Set("new", a.Name)
			w.changes().Set("forced init", true)
			return w.would("Target directory " + a.Name + " exists. Since force=True, the contents of " + a.Name + " would be deleted, and a " + kind +
				"repository would be initialized in its place.")
		case Truth(a.Force):
			if err := os.RemoveAll(a.Name); err != nil {
				return w.fail("Unable to remove " + a.Name + ": " + errText(osError(err)))
			}
			w.changes().Set("forced init", true)
		case err != nil:
			return nil, osError(err)
		case len(files) > 0:
			return w.fail("Target '" + a.Name + "' exists, is non-empty, and is not a git repository. Set the 'force' option to True to remove this directory's contents " +
				"and proceed with initializing a repository")
		}
	}
	w.changes().Set("new", a.Name)
	if c.Testing() {
		return w.would("New " + kind + "repository would be created")
	}
	if _, err := w.run("init", nil, "cwd", a.Name, "bare", a.Bare, "template", a.Template, "separate_git_dir", a.SeparateGitDir, "shared", a.Shared); err != nil {
		return nil, err
	}
	w.did("Initialized " + kind + "repository in " + a.Name)
	if Truth(a.Template) {
		w.did("Template directory set to " + Str(a.Template))
	}
	if Truth(a.SeparateGitDir) {
		w.did("Gitdir set to " + Str(a.SeparateGitDir))
	}
	return stateSay(w.ret, true, "%s", gitSentences(w.comments))
}

func gitStateCloned(ctx context.Context, c *Call, a struct {
	Name           string
	Target         string
	Branch         any `def:"None"`
	User           any `def:"None"`
	Password       any `def:"None"`
	Identity       any `def:"None"`
	HTTPSUser      any `arg:"https_user" def:"None"`
	HTTPSPass      any `arg:"https_pass" def:"None"`
	OutputEncoding any `def:"None"`
}) (any, error) {
	w := newGitWork(ctx, c, a.Name, false, a.User, a.Password, a.OutputEncoding)
	branch := Str(a.Branch)
	with := ""
	switch {
	case a.Target == "":
		return stateSay(w.ret, false, "'target' argument is required")
	case !filepath.IsAbs(a.Target):
		return stateSay(w.ret, false, "'target' path must be absolute")
	case a.Branch == nil:
		branch = ""
	case branch == "":
		return stateSay(w.ret, false, "Invalid 'branch' argument")
	default:
		with = " with branch '" + branch + "'"
	}
	if !pathExists(a.Target) {
		w.changes().Set("new", a.Name+" => "+a.Target)
		if c.Testing() {
			return w.would(a.Name + " would be cloned to " + a.Target + with)
		}
		var opts any
		if branch != "" {
			opts = NewList("--branch", branch)
		}
		if _, err := w.run("clone", []any{a.Target, a.Name}, "opts", opts, "identity", a.Identity, "https_user", a.HTTPSUser, "https_pass", a.HTTPSPass); isExecError(err) {
			w.ret.Set("changes", NewMap())
			return w.fail("Clone failed: " + gitReason(err))
		} else if err != nil {
			return nil, err
		}
		return stateSay(w.ret, true, "%s", a.Name+" cloned to "+a.Target+with)
	}
	if _, err := w.run("status", []any{a.Target}); err != nil {
		return stateSay(w.ret, false, "%s", errText(err))
	}
	same := func() (any, error) {
		text := "Repository already exists at " + a.Target
		if branch != "" {
			text += " and is checked out to branch '" + branch + "'"
		}
		w.ret.Set("result", true)
		return w.done(text, nil)
	}
	if branch == "" {
		return same()
	}
	v, err := w.run("current_branch", []any{a.Target})
	if err != nil {
		return nil, err
	}
	if v == branch {
		return same()
	}
	if c.Testing() {
		w.changes().Set("branch", oldNew(v, branch))
		return w.would("Branch would be changed to '" + branch + "'")
	}
	rev, opts := branch, any(nil)
	have, err := w.revParse(a.Target, branch)
	if err != nil {
		return nil, err
	}
	if have == "" {
		rev, opts = "origin/"+branch, NewList("-b", branch)
	}
	if _, err := w.run("checkout", []any{a.Target}, "rev", rev, "opts", opts); isExecError(err) {
		return w.fail("Failed to change branch to '" + branch + "': " + errText(err))
	} else if err != nil {
		return nil, err
	}
	w.changes().Set("branch", oldNew(v, branch))
	return stateSay(w.ret, true, "Branch changed to '%s'", branch)
}
