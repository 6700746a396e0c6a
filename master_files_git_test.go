// The git backend: references are environments, and a remote may go away.
package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// gitRepo makes a repository with a branch dev, a tag v1 and a link that leads out.
func gitRepo(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git on this machine: the backend needs it")
	}
	dir := t.TempDir()
	gitIn(t, dir, "init", "-q", "-b", "master")
	gitFile(t, dir, "top.sls", "base: {}\n")
	gitFile(t, dir, "sub/a.txt", "from master\n")
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "evil")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("sub/a.txt", filepath.Join(dir, "good")); err != nil {
		t.Fatal(err)
	}
	gitCommit(t, dir)
	gitIn(t, dir, "tag", "-a", "v1", "-m", "one")
	gitIn(t, dir, "checkout", "-q", "-b", "dev")
	gitFile(t, dir, "sub/a.txt", "from dev\n")
	gitCommit(t, dir)
	gitIn(t, dir, "checkout", "-q", "master")
	return dir
}

func gitIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func gitFile(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func gitCommit(t *testing.T, dir string) {
	t.Helper()
	gitIn(t, dir, "add", "-A")
	gitIn(t, dir, "commit", "-q", "-m", "x")
}

func gitServer(t *testing.T, remotes *List, opts ...any) (*GitFileServer, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	o := DefaultMasterOptions()
	o.Set("cachedir", t.TempDir())
	o.Set("gitfs_remotes", remotes)
	o.Set("gitfs_update_interval", int64(3600))
	for k, v := range NewMap(opts...).All() {
		o.Set(Str(k), v)
	}
	s, err := NewGitFileServer(o, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return s, log
}

// served is the content of a file, or "-".
func served(t *testing.T, s FileServer, env, name string) string {
	t.Helper()
	f, err := s.Find(env, name)
	if err != nil || f == nil {
		return "-"
	}
	in, err := s.Open(env, f)
	if err != nil {
		return "-"
	}
	defer in.Close()
	var b bytes.Buffer
	b.ReadFrom(in)
	return b.String()
}

func TestGitBranchesAndTagsAreEnvironments(t *testing.T) {
	s, log := gitServer(t, NewList("file://"+gitRepo(t)))
	if got := strings.Join(s.Envs(), " "); got != "base dev v1" {
		t.Errorf("environments: %s\n%s", got, log)
	}
	for env, want := range map[string]string{"base": "from master\n", "v1": "from master\n", "dev": "from dev\n", "none": "-"} {
		if got := served(t, s, env, "sub/a.txt"); got != want {
			t.Errorf("%s: %q, want %q", env, got, want)
		}
	}
	if got := served(t, s, "base", "good"); got != "from master\n" {
		t.Errorf("a link within the tree: %q", got)
	}
	if got := served(t, s, "base", "evil"); got != "-" {
		t.Errorf("a link that leads out was served: %.20q", got)
	}
	if names, _ := s.Files("dev"); !strings.Contains(strings.Join(names, " "), "sub/a.txt top.sls") {
		t.Errorf("files: %v", names)
	}
}

// A commit is an environment by its hash, in full or abbreviated, without being listed.
func TestGitCommitsAreEnvironments(t *testing.T) {
	repo := gitRepo(t)
	out, err := exec.Command("git", "-C", repo, "rev-parse", "dev").Output()
	if err != nil {
		t.Fatal(err)
	}
	sha := strings.TrimSpace(string(out))
	s, log := gitServer(t, NewList(repo))
	for env, want := range map[string]string{sha: "from dev\n", sha[:8]: "from dev\n", strings.Repeat("0", 40): "-", "HEAD": "-", "--help": "-"} {
		if got := served(t, s, env, "sub/a.txt"); got != want {
			t.Errorf("%s: %q, want %q\n%s", env, got, want, log)
		}
	}
	if got := strings.Join(s.Envs(), " "); got != "base dev v1" {
		t.Errorf("environments: %s", got)
	}
	gitFile(t, repo, "sub/a.txt", "newer\n")
	gitCommit(t, repo)
	s.Update(context.Background())
	if got := served(t, s, sha, "sub/a.txt"); got != "from dev\n" {
		t.Errorf("after an update: %q", got)
	}
	s, _ = gitServer(t, NewList(repo), "gitfs_ref_types", NewList("branch"))
	if got := served(t, s, sha, "sub/a.txt") + served(t, s, "v1", "sub/a.txt") + served(t, s, "dev", "sub/a.txt"); got != "--from dev\n" {
		t.Errorf("only branches: %q", got)
	}
	s, _ = gitServer(t, NewList(repo), "gitfs_saltenv_blacklist", NewList(sha[:6]+"*"))
	if got := served(t, s, sha, "sub/a.txt"); got != "-" {
		t.Errorf("a commit on the blacklist: %q", got)
	}
}

func TestGitEnvironmentsWithOneReference(t *testing.T) {
	repo, other := gitRepo(t), gitRepo(t)
	gitIn(t, other, "branch", "only")
	remote := func(url string, settings ...any) *Map { return NewMap(url, NewList(NewMap(settings...))) }
	s, log := gitServer(t, NewList(remote(repo, "fallback", "dev")))
	if got := served(t, s, "any", "sub/a.txt") + served(t, s, "base", "sub/a.txt"); got != "from dev\nfrom master\n" {
		t.Errorf("fallback: %q\n%s", got, log)
	}
	s, log = gitServer(t, NewList(remote(repo, "all_saltenvs", "dev"), other))
	if got := served(t, s, "any", "sub/a.txt") + served(t, s, "base", "sub/a.txt") + served(t, s, "only", "sub/a.txt"); got != "from dev\nfrom dev\nfrom dev\n" {
		t.Errorf("all_saltenvs: %q\n%s", got, log)
	}
	s, log = gitServer(t, NewList(remote(repo, "disable_saltenv_mapping", true, "saltenv", NewList(NewMap("mine", NewList(NewMap("ref", "dev"), NewMap("root", "sub"), NewMap("mountpoint", "salt://x")))))))
	if got := strings.Join(s.Envs(), " ") + served(t, s, "mine", "x/a.txt") + served(t, s, "dev", "sub/a.txt"); got != "base minefrom dev\n-" {
		t.Errorf("one environment: %q\n%s", got, log)
	}
}

func TestGitSettingsOfARemote(t *testing.T) {
	repo := gitRepo(t)
	s, log := gitServer(t, NewList(NewMap("file://"+repo, NewList(NewMap("root", "sub"), NewMap("mountpoint", "salt://m/n"), NewMap("base", "dev"),
		NewMap("saltenv_blacklist", NewList("v*"))))))
	if got := served(t, s, "base", "m/n/a.txt"); got != "from dev\n" {
		t.Errorf("got %q\n%s", got, log)
	}
	if got := strings.Join(s.Envs(), " "); got != "base master" {
		t.Errorf("environments: %s", got)
	}
}

func TestGitTakesUpNewCommitsAndOutlivesItsRemote(t *testing.T) {
	repo := gitRepo(t)
	s, log := gitServer(t, NewList(repo))
	served(t, s, "base", "sub/a.txt")
	gitFile(t, repo, "sub/a.txt", "again\n")
	gitCommit(t, repo)
	s.Update(context.Background())
	if got := served(t, s, "base", "sub/a.txt"); got != "again\n" {
		t.Errorf("after an update: %q", got)
	}
	if err := os.Rename(repo, repo+".gone"); err != nil {
		t.Fatal(err)
	}
	s.Update(context.Background())
	if got := served(t, s, "base", "sub/a.txt"); got != "again\n" || !strings.Contains(log.String(), "git fetch") {
		t.Errorf("without its remote: %q, log %s", got, log)
	}
}

func TestGitURLs(t *testing.T) {
	for url, ok := range map[string]bool{"https://x/y.git": true, "git@host:a/b": true, "/srv/repo": true, "ssh://h/x": true,
		"ext::sh -c x": false, "--upload-pack=x": false, "-oProxyCommand=x@y:z": false, "relative": false, "a@b::c": false} {
		if err := validGitURL(url); (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestBackendsInOrder(t *testing.T) {
	repo := gitRepo(t)
	roots := t.TempDir()
	gitFile(t, roots, "sub/a.txt", "from roots\n")
	o := DefaultMasterOptions()
	o.Set("cachedir", t.TempDir())
	o.Set("gitfs_remotes", NewList(repo))
	o.Set("gitfs_update_interval", time.Hour.Seconds())
	o.Set("file_roots", NewMap("base", NewList(roots)))
	o.Set("fileserver_backend", NewList("roots", "git"))
	s := NewFileServer(o, slog.New(slog.DiscardHandler))
	if got := served(t, s, "base", "sub/a.txt") + served(t, s, "base", "top.sls") + served(t, s, "dev", "sub/a.txt"); got != "from roots\nbase: {}\nfrom dev\n" {
		t.Errorf("got %q", got)
	}
	if got := strings.Join(s.Envs(), " "); got != "base dev v1" {
		t.Errorf("environments: %s", got)
	}
}
