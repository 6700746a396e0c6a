// Environments of git repositories that are in no list: the hash of a commit,
// and, where a remote has a fallback or all_saltenvs, any name at all. They are
// unpacked when somebody asks for them.
//
// The law of this file: names come from minions, so what is kept between two
// updates is bounded, and only what has the form of a hash reaches git.
package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
)

// maxExtraEnvs bounds the environments that are remembered beside the listed ones.
const maxExtraEnvs = 64

// of is the server of an environment.
func (s *GitFileServer) of(env string) *RootsFileServer {
	served := s.current()
	if slices.Contains(served.Envs(), env) || ValidEnv(env) != nil {
		return served
	}
	s.demand.Lock() // one at a time runs git
	defer s.demand.Unlock()
	s.mu.Lock()
	have, ok := s.extra[env]
	s.mu.Unlock()
	if ok {
		return have
	}
	found, trees := served, []string{}
	for i := range s.remotes {
		r := &s.remotes[i]
		e, ok := s.demanded(context.Background(), r, env)
		if !ok {
			continue
		}
		tree, err := s.unpack(context.Background(), r, e)
		if err != nil {
			s.log.Error(fmt.Sprintf("gitfs %s: environment %s: %v", redactURL(r.url), env, err))
			continue
		}
		trees = append(trees, tree)
	}
	if len(trees) > 0 {
		found = s.serveTrees(map[string][]string{env: trees})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.extra == nil || len(s.extra) >= maxExtraEnvs {
		s.extra = map[string]*RootsFileServer{}
	}
	s.extra[env] = found
	s.old = append(s.old, trees...) // the next update removes them
	return found
}

// demanded is an environment of a remote that is neither branch nor tag.
func (s *GitFileServer) demanded(ctx context.Context, r *gitRemote, env string) (gitEnv, bool) {
	if !r.exposes(env) {
		return gitEnv{}, false
	}
	own := r.saltenvs.Map(env)
	if r.noMapping && own == nil && r.all == "" {
		return gitEnv{}, false
	}
	ref := r.all
	if ref == "" {
		if ref = own.Str("ref"); ref == "" {
			ref = env
		}
	}
	if ref == env && !isCommitHash(env) && r.fallback == "" {
		return gitEnv{}, false // branches and tags are known without git
	}
	for _, name := range []string{ref, r.fallback} {
		if commit := s.commitOf(ctx, r, name); commit != "" {
			return r.environment(env, commit, own), true
		}
	}
	return gitEnv{}, false
}

// completed adds the environments of other remotes that this one has by its
// fallback or all_saltenvs.
func (s *GitFileServer) completed(ctx context.Context, r *gitRemote, envs []gitEnv, all map[string]bool) []gitEnv {
	if r.fallback == "" && r.all == "" {
		return envs
	}
	for env := range all {
		if slices.ContainsFunc(envs, func(e gitEnv) bool { return e.env == env }) {
			continue
		}
		if e, ok := s.demanded(ctx, r, env); ok {
			envs = append(envs, e)
		}
	}
	return envs
}

// commitOf is the commit of a reference by the kinds that the remote allows, ""
// for none.
func (s *GitFileServer) commitOf(ctx context.Context, r *gitRemote, ref string) string {
	allows := func(kind string) bool { return len(r.refTypes) == 0 || slices.Contains(r.refTypes, kind) }
	var tries []string
	if ValidEnv(ref) == nil && !strings.HasPrefix(ref, "-") {
		if allows("branch") {
			tries = append(tries, "refs/remotes/origin/"+ref)
		}
		if allows("tag") {
			tries = append(tries, "refs/tags/"+ref)
		}
	}
	if allows("sha") && isCommitHash(ref) {
		tries = append(tries, ref)
	}
	for _, try := range tries {
		var out bytes.Buffer
		if s.git(ctx, r, &out, "rev-parse", "--verify", "--quiet", "--end-of-options", try+"^{commit}") == nil {
			lines := strings.Fields(out.String())
			if len(lines) > 0 {
				return lines[len(lines)-1]
			}
		}
	}
	return ""
}

// isCommitHash says whether a name has the form of a commit's hash, in full or
// abbreviated.
func isCommitHash(name string) bool {
	return len(name) >= 4 && len(name) <= 64 && strings.Trim(name, "0123456789abcdef") == ""
}
