// Module git: worktrees, and the ancestors and merges of commits.
package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

type gitModIsWorktreeArgs struct {
	Cwd            string
	User           any `def:"None"`
	Password       any `def:"None"`
	OutputEncoding any `def:"None"`
}

func gitModIsWorktree(ctx context.Context, c *Call, a gitModIsWorktreeArgs) (any, error) {
	r, err := gitModInDir(ctx, c, gitModCall{cwd: a.Cwd, user: a.User, ignore: true, soft: true}, gitModOpts{}, "rev-parse", "--show-toplevel")
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

type gitModWorktreeAddArgs struct {
	Cwd          string
	WorktreePath string
	Ref          any  `def:"None"`
	ResetBranch  any  `def:"None"`
	Force        any  `def:"None"`
	Detach       bool `def:"False"`
	gitModOpts
	gitModAs
	Kwargs *Map `arg:"**kwargs"`
}

func gitModWorktreeAdd(ctx context.Context, c *Call, a gitModWorktreeAddArgs) (any, error) {
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
	opts, err := gitModWords(a.Opts)
	if err != nil {
		return nil, err
	}
	rest = append(append(rest, opts...), a.WorktreePath)
	return gitModText(ctx, c, a.in(a.Cwd).merged(), a.withOpts(nil), "worktree", append(rest, oneWord(a.Ref)...)...)
}

type gitModWorktreePruneArgs struct {
	Cwd     string
	DryRun  bool `def:"False"`
	Verbose bool `def:"True"`
	Expire  any  `def:"None"`
	gitModOpts
	gitModAs
}

func gitModWorktreePrune(ctx context.Context, c *Call, a gitModWorktreePruneArgs) (any, error) {
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
	opts, err := gitModWords(a.Opts)
	if err != nil {
		return nil, err
	}
	return gitModText(ctx, c, a.in(a.Cwd), a.withOpts(nil), "worktree", append(rest, opts...)...)
}

func gitModWorktreeRm(ctx context.Context, c *Call, a struct {
	Cwd            string
	User           any `def:"None"`
	OutputEncoding any `def:"None"`
}) (any, error) {
	dir, err := gitModDir(a.Cwd, a.User)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(dir); err != nil {
		return nil, ExecErrorf("%s does not exist", dir)
	}
	is, err := gitModIsWorktree(ctx, c, gitModIsWorktreeArgs{Cwd: dir, User: a.User})
	if err != nil {
		return nil, err
	}
	if is != true {
		return nil, ExecErrorf("%s is not a git worktree", dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, ExecErrorf("Unable to remove %s: %s", dir, pyOSError(err))
	}
	return true, nil
}

func gitModListWorktrees(ctx context.Context, c *Call, a struct {
	Cwd            string
	Stale          bool `def:"False"`
	User           any  `def:"None"`
	Password       any  `def:"None"`
	OutputEncoding any  `def:"None"`
	Kwargs         *Map `arg:"**kwargs"`
}) (any, error) {
	if err := noMoreKwargs(a.Kwargs, "all"); err != nil {
		return nil, err
	}
	all := Truth(a.Kwargs.Value("all"))
	if all && a.Stale {
		return nil, ExecErrorf("'all' and 'stale' cannot both be set to True")
	}
	g := gitModCall{cwd: a.Cwd, user: a.User}
	r, err := gitModInDir(ctx, c, g, gitModOpts{}, "worktree", "list", "--porcelain")
	if err != nil {
		return nil, err
	}
	ret := &Map{}
	for _, block := range strings.Split(strings.TrimSpace(r.stdout), "\n\n") {
		path, tree := parseWorktree(block)
		if tree == nil {
			continue
		}
		_, err := os.Stat(path)
		stale := err != nil
		if !all && stale != a.Stale {
			continue
		}
		tree.Set("stale", stale)
		ret.Set(path, tree)
		if tree.Value("detached") != true {
			continue
		}
		tags, err := gitModInDir(ctx, c, g, gitModOpts{}, "tag", "--points-at", tree.Str("HEAD"))
		if err != nil {
			return nil, err
		}
		if lines := pyLines(tags.stdout, false); len(lines) > 0 {
			tree.Set("tags", Strings(lines))
		}
	}
	return ret, nil
}

// parseWorktree reads one block of `git worktree list --porcelain`; nil if it
// says nothing of a commit, as that of a bare repository.
func parseWorktree(block string) (path string, tree *Map) {
	head, branch := "", ""
	for _, line := range strings.Split(block, "\n") {
		word, value, _ := strings.Cut(line, " ")
		switch word {
		case "worktree":
			path = value
		case "HEAD":
			head = value
		case "branch":
			branch = strings.TrimPrefix(value, "refs/heads/")
		case "detached":
			branch = "detached"
		}
	}
	if path == "" || head == "" || branch == "" {
		return path, nil
	}
	if branch == "detached" {
		return path, NewMap("HEAD", head, "detached", true, "branch", nil)
	}
	return path, NewMap("HEAD", head, "detached", false, "branch", branch)
}

type gitModMergeBaseArgs struct {
	Cwd         string
	Refs        any  `def:"None"`
	Octopus     bool `def:"False"`
	IsAncestor  bool `def:"False"`
	Independent bool `def:"False"`
	ForkPoint   any  `def:"None"`
	gitModOpts
	gitModAs
	Kwargs *Map `arg:"**kwargs"`
}

func gitModMergeBase(ctx context.Context, c *Call, a gitModMergeBaseArgs) (any, error) {
	if err := noMoreKwargs(a.Kwargs, "all"); err != nil {
		return nil, err
	}
	all := Truth(a.Kwargs.Value("all"))
	if all && (a.Independent || a.IsAncestor || Truth(a.ForkPoint)) {
		return nil, InvocationErrorf("The 'all' argument is not compatible with 'independent', 'is_ancestor', or 'fork_point'")
	}
	refs := groupList(a.Refs)
	var rest []string
	ways := 0
	way := func(on bool, words ...string) {
		if on {
			ways++
			rest = append(rest, words...)
		}
	}
	if all {
		rest = append(rest, "--all")
	}
	way(a.Octopus, "--octopus")
	way(a.IsAncestor, "--is-ancestor")
	way(a.Independent, "--independent")
	way(Truth(a.ForkPoint), "--fork-point", Str(a.ForkPoint))
	switch {
	case ways > 1:
		return nil, InvocationErrorf("Only one of 'octopus', 'independent', 'is_ancestor', and 'fork_point' is permitted")
	case a.IsAncestor && len(refs) != 2:
		return nil, InvocationErrorf("Two refs/commits are required if 'is_ancestor' is True")
	case Truth(a.ForkPoint) && len(refs) > 1:
		return nil, InvocationErrorf("At most one ref/commit can be passed if 'fork_point' is specified")
	case Truth(a.ForkPoint) && len(refs) == 0:
		refs = []string{"HEAD"}
	}
	g := a.in(a.Cwd)
	if a.IsAncestor {
		g.ignore, g.soft = true, true
	}
	r, err := gitModInDir(ctx, c, g, a.gitModOpts, "merge-base", append(rest, refs...)...)
	if err != nil {
		return nil, err
	}
	if a.IsAncestor {
		return !r.failed(), nil
	}
	bases := pyLines(r.stdout, false)
	if all {
		return Strings(bases), nil
	}
	if len(bases) == 0 {
		return nil, ExecErrorf("git merge-base: no common ancestor of %s", strings.Join(refs, " and "))
	}
	return bases[0], nil
}

func gitModMergeTree(ctx context.Context, c *Call, a struct {
	Cwd  string
	Ref1 string
	Ref2 string
	Base any `def:"None"`
	gitModAs
}) (any, error) {
	if a.Base == nil {
		base, err := gitModMergeBase(ctx, c, gitModMergeBaseArgs{Cwd: a.Cwd, Refs: NewList(a.Ref1, a.Ref2), gitModAs: a.gitModAs})
		if err != nil {
			return nil, ExecErrorf("Unable to determine merge base for %s and %s", a.Ref1, a.Ref2)
		}
		a.Base = base
	}
	return gitModText(ctx, c, a.in(a.Cwd), gitModOpts{}, "merge-tree", Str(a.Base), a.Ref1, a.Ref2)
}

// noMoreKwargs refuses keyword arguments beside the known ones.
func noMoreKwargs(kw *Map, known ...string) error {
	var bad []string
	for k, v := range cleanKwargs(kw).All() {
		if !hasString(known, Str(k)) {
			bad = append(bad, Str(k)+"="+Str(v))
		}
	}
	if len(bad) > 0 {
		return InvocationErrorf("The following keyword arguments are not valid: %s", strings.Join(bad, ", "))
	}
	return nil
}
