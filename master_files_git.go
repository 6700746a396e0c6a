// The file server backend `git`: branches and tags of repositories as
// environments (gitfs_remotes and the other gitfs_* options).
//
// The law of this room: the git program fetches, into bare repositories below
// cachedir/gitfs; of each reference the tree of its commit is unpacked once into
// a directory of its own, and those directories are served by the rules of the
// backend roots, with links that may not lead out. A fetch happens when files
// are asked for and gitfs_update_interval has gone by; a remote that cannot be
// reached costs a log line, and what was fetched before is served on. URLs are
// of a few known kinds and never reach git as an option.
package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// gitFetchTimeout bounds one run of git.
const gitFetchTimeout = 5 * time.Minute

// gitRemote is one entry of gitfs_remotes with its own settings.
type gitRemote struct {
	url, name      string
	base, root     string
	mountpoint     string
	fallback       string
	all            string // all_saltenvs: the reference of every environment
	user, password string
	privkey        string
	refTypes       []string
	saltenvs       *Map // environment → its own settings
	allow, deny    []string
	sslVerify      bool
	noMapping      bool
	insecure       bool
	refspecs       []string
}

// GitFileServer implements FileServer over git repositories.
type GitFileServer struct {
	opts    *Options
	log     *slog.Logger
	dir     string
	remotes []gitRemote
	every   time.Duration

	first  sync.Once
	demand sync.Mutex

	mu      sync.Mutex
	served  *RootsFileServer // nil before the first update
	fetched time.Time
	busy    bool
	extra   map[string]*RootsFileServer // environments that are no branch or tag
	old     []string                    // trees of the previous update: a request may still read them
}

// NewGitFileServer reads the options. Nothing is fetched before it is asked for.
func NewGitFileServer(o *Options, log *slog.Logger) (*GitFileServer, error) {
	s := &GitFileServer{opts: o, log: log, dir: filepath.Join(o.Path("cachedir"), "gitfs"), every: o.Duration("gitfs_update_interval")}
	for _, item := range toItems(o.Value("gitfs_remotes")) {
		url, own := Str(item), &Map{}
		if m, ok := item.(*Map); ok && m.Len() == 1 {
			k, v := m.At(0)
			url = Str(k)
			for _, setting := range toItems(v) {
				if sm, ok := setting.(*Map); ok {
					own.Merge(sm)
				}
			}
		}
		if err := validGitURL(url); err != nil {
			return nil, fmt.Errorf("gitfs_remotes: %w", err)
		}
		set := func(name string) any {
			if v, ok := own.Get(name); ok {
				return v
			}
			return o.Value("gitfs_" + name)
		}
		text := func(name string) string { v, _ := set(name).(string); return v }
		r := gitRemote{url: url, name: text("name"), base: text("base"), root: strings.Trim(text("root"), "/"),
			mountpoint: strings.Trim(strings.TrimPrefix(text("mountpoint"), "salt://"), "/"), fallback: text("fallback"),
			all: own.Str("all_saltenvs"), user: text("user"), password: text("password"), privkey: text("privkey"), refTypes: toStrings(set("ref_types")),
			saltenvs: &Map{}, allow: toStrings(set("saltenv_whitelist")), deny: toStrings(set("saltenv_blacklist")),
			sslVerify: Truth(set("ssl_verify")), noMapping: Truth(set("disable_saltenv_mapping")), insecure: Truth(set("insecure_auth")),
			refspecs: toStrings(set("refspecs"))}
		for _, e := range toItems(set("saltenv")) {
			if m, ok := e.(*Map); ok {
				for env, settings := range m.All() {
					one := &Map{}
					for _, x := range toItems(settings) {
						if xm, ok := x.(*Map); ok {
							one.Merge(xm)
						}
					}
					r.saltenvs.Set(env, one)
				}
			}
		}
		s.remotes = append(s.remotes, r)
	}
	return s, nil
}

// validGitURL refuses what git could take for an option or run as a helper.
func validGitURL(url string) error {
	for _, scheme := range []string{"file://", "https://", "http://", "ssh://", "git://"} {
		if strings.HasPrefix(url, scheme) {
			return nil
		}
	}
	if filepath.IsAbs(url) {
		return nil
	}
	host, _, ok := strings.Cut(url, ":") // user@host:path
	if ok && strings.Contains(host, "@") && !strings.HasPrefix(url, "-") && !strings.Contains(url, "::") {
		return nil
	}
	return fmt.Errorf("%q is no URL of a repository: file, https, http, ssh, git or user@host:path", url)
}

// git runs the program in the repository of a remote.
func (s *GitFileServer) git(ctx context.Context, r *gitRemote, out io.Writer, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, gitFetchTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", append([]string{"--git-dir", s.repo(r)}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=file:git:http:https:ssh", "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_ASKPASS=true")
	var config [][2]string
	if !r.sslVerify {
		config = append(config, [2]string{"http.sslVerify", "false"})
	}
	if r.user != "" && (strings.HasPrefix(r.url, "https://") || r.insecure) {
		login := base64.StdEncoding.EncodeToString([]byte(r.user + ":" + r.password))
		config = append(config, [2]string{"http.extraHeader", "Authorization: Basic " + login}) // not on the command line, where ps shows it
	}
	cmd.Env = append(cmd.Env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(config)))
	for i, kv := range config {
		cmd.Env = append(cmd.Env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	if r.privkey != "" {
		cmd.Env = append(cmd.Env, "GIT_SSH_COMMAND=ssh -o BatchMode=yes -o IdentitiesOnly=yes -i '"+strings.ReplaceAll(r.privkey, "'", `'\''`)+"'")
	}
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, firstLine(errs.String()))
	}
	return nil
}

// repo is the bare repository of a remote, named by what makes it this remote.
func (s *GitFileServer) repo(r *gitRemote) string {
	h := newHash("sha256")
	fmt.Fprintf(h, "%s\x00%s", r.url, r.name)
	return filepath.Join(s.dir, fmt.Sprintf("%x", h.Sum(nil))[:32])
}

// Update fetches all remotes and takes up what changed.
func (s *GitFileServer) Update(ctx context.Context) {
	roots, all := map[string][]string{}, map[string]bool{}
	found := make([][]gitEnv, len(s.remotes))
	var used []string
	for i := range s.remotes {
		r := &s.remotes[i]
		if err := s.fetch(ctx, r); err != nil {
			s.log.Error(fmt.Sprintf("gitfs %s: %v", redactURL(r.url), err))
		}
		envs, err := s.envsOf(ctx, r)
		if err != nil {
			s.log.Error(fmt.Sprintf("gitfs %s: %v", redactURL(r.url), err))
			continue
		}
		found[i] = envs
		for _, e := range envs {
			all[e.env] = true
		}
	}
	for i := range s.remotes {
		r := &s.remotes[i]
		for _, e := range s.completed(ctx, r, found[i], all) {
			tree, err := s.unpack(ctx, r, e)
			if err != nil {
				s.log.Error(fmt.Sprintf("gitfs %s: environment %s: %v", redactURL(r.url), e.env, err))
				continue
			}
			roots[e.env] = append(roots[e.env], tree)
			used = append(used, tree)
		}
	}
	served := s.serveTrees(roots)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, tree := range s.old { // two updates ago: nobody reads it any more
		if !slices.Contains(used, tree) {
			os.RemoveAll(filepath.Dir(tree))
		}
	}
	s.served, s.fetched, s.old, s.extra = served, time.Now(), used, nil
}

// serveTrees serves unpacked trees by environment.
func (s *GitFileServer) serveTrees(roots map[string][]string) *RootsFileServer {
	o := s.opts.Clone()
	fr := &Map{}
	for _, env := range sortedEnvs(roots) {
		fr.Set(env, Strings(roots[env]))
	}
	o.Set("file_roots", fr)
	o.Set("fileserver_followsymlinks", false)
	return NewRootsFileServer(o, s.log)
}

func sortedEnvs(m map[string][]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (s *GitFileServer) fetch(ctx context.Context, r *gitRemote) error {
	repo := s.repo(r)
	if _, err := os.Stat(filepath.Join(repo, "HEAD")); err != nil {
		if err := os.MkdirAll(repo, 0o700); err != nil {
			return err
		}
		if err := s.git(ctx, r, nil, "init", "--quiet", "--bare"); err != nil {
			return err
		}
	}
	specs := r.refspecs
	if len(specs) == 0 {
		specs = []string{"+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"}
	}
	return s.git(ctx, r, nil, append([]string{"fetch", "--quiet", "--prune", "--no-write-fetch-head", "--", r.url}, specs...)...)
}

// gitEnv is one environment that a remote has.
type gitEnv struct{ env, commit, root, mountpoint string }

// envsOf maps the references of a remote to environments.
func (s *GitFileServer) envsOf(ctx context.Context, r *gitRemote) ([]gitEnv, error) {
	var out bytes.Buffer
	if err := s.git(ctx, r, &out, "for-each-ref", "--format=%(refname) %(objectname) %(*objectname)"); err != nil {
		return nil, err
	}
	refs := map[string]string{} // branch or tag → commit
	var names []string
	for _, line := range strings.Split(out.String(), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		commit := f[len(f)-1] // of an annotated tag: what it points to
		name, isBranch := strings.CutPrefix(f[0], "refs/remotes/origin/")
		kind := "branch"
		if !isBranch {
			tag, isTag := strings.CutPrefix(f[0], "refs/tags/")
			if !isTag {
				continue
			}
			name, kind = tag, "tag"
		}
		if len(r.refTypes) > 0 && !slices.Contains(r.refTypes, kind) {
			continue
		}
		if _, dup := refs[name]; !dup {
			refs[name] = commit
			names = append(names, name)
		}
	}
	var envs []gitEnv
	add := func(env, ref string, own *Map) {
		commit, ok := refs[ref]
		if !ok {
			return
		}
		if err := ValidEnv(env); err != nil {
			s.log.Debug(fmt.Sprintf("gitfs %s: %s cannot be an environment: %v", redactURL(r.url), env, err))
			return
		}
		if r.exposes(env) {
			envs = append(envs, r.environment(env, commit, own))
		}
	}
	own := r.saltenvs.Map("base")
	switch ref := own.Str("ref"); {
	case r.all != "":
		add("base", r.all, own)
	case ref != "":
		add("base", ref, own)
	default:
		add("base", r.base, own)
	}
	if !r.noMapping && r.all == "" {
		for _, name := range names {
			if name != r.base && !r.saltenvs.Has(name) {
				add(name, name, nil)
			}
		}
	}
	for env, v := range r.saltenvs.All() {
		own, _ := v.(*Map)
		if Str(env) == "base" {
			continue
		}
		ref := own.Str("ref")
		if ref == "" {
			ref = Str(env)
		}
		if _, ok := refs[ref]; !ok && r.fallback != "" {
			ref = r.fallback
		}
		add(Str(env), ref, own)
	}
	return envs, nil
}

// exposes says whether an environment may be served from a remote.
func (r *gitRemote) exposes(env string) bool {
	return !globsMatch(r.deny, env) && (len(r.allow) == 0 || globsMatch(r.allow, env))
}

// environment is one environment, with the settings of its own.
func (r *gitRemote) environment(env, commit string, own *Map) gitEnv {
	e := gitEnv{env: env, commit: commit, root: r.root, mountpoint: r.mountpoint}
	if v, ok := own.Get("root"); ok {
		e.root = strings.Trim(Str(v), "/")
	}
	if v, ok := own.Get("mountpoint"); ok {
		e.mountpoint = strings.Trim(strings.TrimPrefix(Str(v), "salt://"), "/")
	}
	return e
}

func globsMatch(globs []string, name string) bool {
	for _, g := range globs {
		if GlobMatch(g, name) {
			return true
		}
	}
	return false
}

// unpack writes the tree of an environment's commit to a directory that is named
// by its content, if it is not there yet, and returns it.
func (s *GitFileServer) unpack(ctx context.Context, r *gitRemote, e gitEnv) (string, error) {
	h := newHash("sha256")
	fmt.Fprintf(h, "%s\x00%s\x00%s", e.commit, e.root, e.mountpoint)
	top := filepath.Join(s.repo(r), "trees", fmt.Sprintf("%x", h.Sum(nil))[:32])
	tree := filepath.Join(top, "tree")
	if _, err := os.Stat(tree); err == nil {
		return tree, nil
	}
	tmp := top + ".new"
	os.RemoveAll(tmp)
	defer os.RemoveAll(tmp)
	into := filepath.Join(tmp, "tree")
	if e.mountpoint != "" {
		var err error
		if into, err = SafeJoin(into, e.mountpoint); err != nil {
			return "", fmt.Errorf("mountpoint: %w", err)
		}
	}
	if err := os.MkdirAll(into, 0o700); err != nil {
		return "", err
	}
	object := e.commit
	if e.root != "" {
		if _, err := SafeJoin("/", e.root); err != nil {
			return "", fmt.Errorf("root: %w", err)
		}
		object += ":" + e.root
	}
	pr, pw := io.Pipe()
	unpacked := make(chan error, 1)
	go func() { // ends with the pipe, which is closed below
		err := untar(pr, into)
		pr.CloseWithError(err)
		unpacked <- err
	}()
	err := s.git(ctx, r, pw, "archive", "--format=tar", object)
	pw.CloseWithError(err)
	if uerr := <-unpacked; err == nil {
		err = uerr
	}
	if err != nil {
		return "", err
	}
	if err := os.Rename(tmp, top); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return tree, nil
}

// untar writes an archive below dir. Names stay below it; links are made as they
// are, and it is up to the one who serves them where they may lead.
func untar(r io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if err == io.EOF {
			_, err = io.Copy(io.Discard, r) // the padding after the last entry
			return err
		}
		if err != nil {
			return err
		}
		name := path.Clean(h.Name)
		if name == "." || h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if !filepath.IsLocal(name) {
			return fmt.Errorf("the archive has the name %q", h.Name)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(name, 0o755)
		case tar.TypeSymlink:
			err = root.Symlink(h.Linkname, name)
		case tar.TypeReg:
			if err = root.MkdirAll(path.Dir(name), 0o755); err != nil && path.Dir(name) != "." {
				return err
			}
			var f *os.File
			if f, err = root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, os.FileMode(h.Mode&0o777)|0o400); err == nil {
				_, err = io.Copy(f, in)
				if cerr := f.Close(); err == nil {
					err = cerr
				}
			}
		}
		if err != nil {
			return err
		}
	}
}

// current is what is served now. The first call fetches; later ones, when the
// interval has gone by, start a fetch beside the request.
func (s *GitFileServer) current() *RootsFileServer {
	s.first.Do(func() { s.Update(context.Background()) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.fetched) >= s.every && !s.busy {
		s.busy = true
		go func() { // one at a time; ends by gitFetchTimeout for each remote
			s.Update(context.Background())
			s.mu.Lock()
			s.busy = false
			s.mu.Unlock()
		}()
	}
	return s.served
}

// Envs implements FileServer, as do the others: by what is served now.
func (s *GitFileServer) Envs() []string { return s.current().Envs() }

func (s *GitFileServer) Find(env, p string) (*FoundFile, error) {
	f, err := s.of(env).Find(env, p)
	if f != nil {
		f.Back = "git"
	}
	return f, err
}

func (s *GitFileServer) Open(env string, f *FoundFile) (*os.File, error) {
	return s.of(env).Open(env, f)
}
func (s *GitFileServer) Files(env string) ([]string, error)     { return s.of(env).Files(env) }
func (s *GitFileServer) EmptyDirs(env string) ([]string, error) { return s.of(env).EmptyDirs(env) }
func (s *GitFileServer) Dirs(env string) ([]string, error)      { return s.of(env).Dirs(env) }
func (s *GitFileServer) Links(env string) (*Map, error)         { return s.of(env).Links(env) }
