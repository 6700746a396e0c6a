// State module pkgrepo: repositories of packages.
package main

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func pkgrepoStates() Module {
	return Module{
		Doc:     "Repositories that packages come from.",
		Virtual: needsFunction("pkg.mod_repo", ""),
		Funcs: Funcs{
			"managed": {run: pkgrepoStateManaged, doc: "The repository is set up. On Debian name is its line, elsewhere its name; further arguments are those of pkg.mod_repo."},
			"absent":  {run: pkgrepoStateAbsent, doc: "The repository is not set up; keyid removes its key as well."},
		},
	}
}

// combinedComments is how comments of a repository are written: one text.
func combinedComments(v any) string {
	var out []string
	for _, item := range toItems(v) {
		if s := strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(Str(item)), "#")); s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, " ")
}

// sortedLine is a source line with its components in order.
func sortedLine(s string) []string {
	words := pyFields(s)
	if len(words) > 3 {
		slices.Sort(words[3:])
	}
	return words
}

func sameTextSets(a, b any) bool {
	x, y := toStrings(a), toStrings(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(slices.Compact(x), slices.Compact(y))
}

// repoAsWanted says whether a repository is set up as wanted.
func repoAsWanted(c *Call, want, have, kwargs *Map) bool {
	family := c.Grains.Str("os_family")
	for k, v := range want.All() {
		old, ok := have.Get(k)
		switch {
		case k == "file":
		case !ok && k == "enabled" && family == "RedHat":
			if !dataTrue(v) {
				return false
			}
		case !ok:
			return false
		case k == "comps" || k == "key_url":
			if !sameTextSets(v, old) {
				return false
			}
		case k == "line" && family == "Debian":
			if Truth(want.Value("disabled")) {
				continue
			}
			line, comments, _ := strings.Cut(Str(old), "#")
			if !slices.Equal(sortedLine(Str(v)), sortedLine(line)) {
				return false
			}
			if more, ok := kwargs.Get("comments"); ok && combinedComments(more) != strings.TrimSpace(comments) {
				return false
			}
		case k == "comments" && family == "RedHat":
			if combinedComments(v) != combinedComments(old) {
				return false
			}
		case k == "architectures" && Truth(v):
			if !sameTextSets(v, old) {
				return false
			}
		case (family == "RedHat" || family == "Suse") && (TypeName(v) == "bool" || TypeName(old) == "bool"):
			if dataTrue(v) != dataTrue(old) {
				return false
			}
		case Str(v) != Str(old):
			return false
		}
	}
	return true
}

type pkgrepoManagedArgs struct {
	Name   string
	Ppa    any  `def:"None"`
	Copr   any  `def:"None"`
	Aptkey any  `def:"True"`
	Kwargs *Map `arg:"**kwargs"`
}

// pkgrepoWork is a pkgrepo.managed on its way.
type pkgrepoWork struct {
	a      pkgrepoManagedArgs
	ret    *Map
	kw     *Map   // for the functions of pkg
	repo   string // what those call it
	family string
	off    bool // it is to be disabled
	pre    *Map // as it is
	want   *Map
}

func pkgrepoStateManaged(ctx context.Context, c *Call, a pkgrepoManagedArgs) (any, error) {
	if _, err := exec.LookPath("apt-key"); err != nil {
		a.Aptkey = false
	}
	w := &pkgrepoWork{a: a, ret: stateReturn(a.Name, nil, ""), kw: a.Kwargs.Clone(), repo: a.Name, family: c.Grains.Str("os_family")}
	return runSteps(ctx, c, w.checkArgs, w.readEnabled, w.checkKey, w.adapt, w.compare, w.dry, w.configure)
}

func (w *pkgrepoWork) checkArgs(ctx context.Context, c *Call) (any, error) {
	switch {
	case !c.Has(ctx, "pkg.get_repo"):
		return stateSay(w.ret, false, "Repo management not implemented on this platform")
	case w.kw.Has("repo"):
		return stateSay(w.ret, false, "'repo' is not a supported argument for this state. The 'name' argument is probably what was intended.")
	}
	// These say that two arguments exclude each other; the state goes on.
	for _, pair := range []struct{ one, other, words string }{
		{"key_url", "keyid", "\"keyid\"/\"keyserver\" and \"key_url\""},
		{"key_text", "keyid", "\"keyid\"/\"keyserver\" and \"key_text\""},
		{"key_text", "key_url", "\"key_url\" and \"key_text\""},
	} {
		if w.kw.Has(pair.one) && (w.kw.Has(pair.other) || pair.other == "keyid" && w.kw.Has("keyserver")) {
			w.ret.Set("result", false)
			w.ret.Set("comment", "You may not use both "+pair.words+" argument.")
		}
	}
	return nil, nil
}

// readEnabled takes enabled or disabled from the arguments: adapt says it in the
// way of the platform.
func (w *pkgrepoWork) readEnabled(context.Context, *Call) (any, error) {
	enabled, disabled := w.kw.Value("enabled"), w.kw.Value("disabled")
	w.kw.Delete("enabled")
	w.kw.Delete("disabled")
	switch {
	case enabled != nil && disabled != nil:
		return stateSay(w.ret, false, "Only one of enabled/disabled is allowed")
	case enabled != nil:
		w.off = !dataTrue(enabled)
	case disabled != nil:
		w.off = dataTrue(disabled)
	}
	return nil, nil
}

func (w *pkgrepoWork) checkKey(context.Context, *Call) (any, error) {
	insecure := kwargOf(w.kw, "allow_insecure_key", true)
	w.kw.Delete("allow_insecure_key")
	if strings.HasPrefix(strings.TrimSpace(Str(kwargOf(w.kw, "key_url", ""))), "http:") && !Truth(insecure) {
		return stateSay(w.ret, false, "Cannot have 'key_url' using http with 'allow_insecure_key' set to True")
	}
	return nil, nil
}

// adapt makes the arguments those of the platform.
func (w *pkgrepoWork) adapt(context.Context, *Call) (any, error) {
	w.kw.Set("name", w.a.Name)
	switch w.family {
	case "Debian":
		if w.a.Ppa != nil {
			w.repo = "ppa:" + Str(w.a.Ppa)
		}
		w.kw.Set("disabled", w.off)
	case "RedHat", "Suse":
		if w.family == "RedHat" && w.a.Copr != nil {
			w.repo = "copr:" + Str(w.a.Copr)
		}
		if v, ok := w.kw.Get("humanname"); ok {
			w.kw.Delete("humanname")
			w.kw.Set("name", v)
		}
		w.kw.Set("enabled", !w.off)
	case "NILinuxRT", "Poky":
		w.kw.Set("enabled", !w.off)
	}
	return nil, nil
}

func (w *pkgrepoWork) get(ctx context.Context, c *Call) (*Map, error) {
	v, err := c.RunKw(ctx, "pkg.get_repo", nil, pkgWith(w.kw, "repo", w.repo))
	if err != nil {
		return nil, err
	}
	m, _ := v.(*Map)
	return m.Clone(), nil
}

// compare ends the state of a repository that is as wanted.
func (w *pkgrepoWork) compare(ctx context.Context, c *Call) (any, error) {
	var err error
	w.pre, err = w.get(ctx, c)
	if isExecError(err) {
		return stateSay(w.ret, false, "Failed to examine repo '%s': %s", w.a.Name, errText(err))
	}
	if err != nil {
		return nil, err
	}
	w.want = w.kw.Clone()
	if w.family == "Debian" {
		v, err := c.RunKw(ctx, "pkg.expand_repo_def", nil, pkgWith(w.kw, "repo", w.repo, "os_name", c.Grains.Value("os"), "os_codename", c.Grains.Value("oscodename")))
		if err != nil {
			return nil, err
		}
		if m, ok := v.(*Map); ok {
			w.want = m.Clone()
		}
	}
	if w.pre.Len() > 0 && !otherLines(w.kw, w.a.Name) {
		w.pre.Delete("file")
		w.want.Delete("file")
		if repoAsWanted(c, w.want, w.pre, w.kw) {
			return stateSay(w.ret, true, "Package repo '%s' already configured", w.a.Name)
		}
	}
	return nil, nil
}

// change notes what differs from before: in now, of what is wanted.
func (w *pkgrepoWork) change(repo string, now *Map) {
	changes := w.ret.Map("changes")
	if w.pre.Len() == 0 {
		changes.Set("repo", repo)
		return
	}
	for k := range w.want.All() {
		if old, v := w.pre.Value(k), now.Value(k); !Equal(v, old) {
			changes.Set(k, NewMap("new", v, "old", old))
		}
	}
}

func (w *pkgrepoWork) dry(_ context.Context, c *Call) (any, error) {
	if !c.Testing() {
		return nil, nil
	}
	w.ret.Set("comment", "Package repo '"+w.a.Name+"' would be configured. This may cause pkg states to behave differently than stated if this action is repeated without test=True, "+
		"due to the differences in the configured repositories.")
	w.change(w.a.Name, w.want)
	return w.ret, nil
}

// configure sets the repository up and ends the state.
func (w *pkgrepoWork) configure(ctx context.Context, c *Call) (any, error) {
	if Truth(w.kw.Value("clean_file")) {
		if err := os.WriteFile(Str(w.kw.Value("file")), nil, 0o644); err != nil {
			return nil, osError(err)
		}
	}
	more := w.kw.Clone()
	if w.family == "Debian" {
		more.Merge(NewMap("saltenv", c.StateEnv(), "aptkey", w.a.Aptkey))
	}
	if _, err := c.RunKw(ctx, "pkg.mod_repo", []any{w.repo}, more); err != nil {
		return stateSay(w.ret, false, "Failed to configure repo '%s': %s", w.a.Name, errText(err))
	}
	post, err := w.get(ctx, c)
	if err != nil {
		return stateSay(w.ret, false, "Failed to confirm config of repo '%s': %s", w.a.Name, errText(err))
	}
	w.change(w.repo, post)
	return stateSay(w.ret, true, "Configured package repo '%s'", w.a.Name)
}

// otherLines says whether a file that is to be cleaned has lines of its own.
func otherLines(kw *Map, name string) bool {
	file, _ := kw.Value("file").(string)
	if !Truth(kw.Value("clean_file")) || file == "" {
		return false
	}
	lines, err := fileLines(file)
	if err != nil {
		return false
	}
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && line != strings.TrimSpace(name) {
			return true
		}
	}
	return false
}

func pkgrepoStateAbsent(ctx context.Context, c *Call, a stateKwargsNamed) (any, error) {
	name, kw := a.Name, a.Kwargs.Clone()
	ret := stateReturn(name, nil, "")
	for _, p := range []struct {
		key  string
		here bool
	}{{"ppa", slices.Contains([]string{"Ubuntu", "Mint"}, c.Grains.Str("os"))}, {"copr", c.Grains.Str("os_family") == "RedHat"}} {
		if v, ok := kw.Get(p.key); ok && p.here {
			kw.Delete(p.key)
			name = p.key + ":" + strings.TrimPrefix(Str(v), p.key+":")
		}
	}
	withKey := kw.Value("keyid") != nil || kw.Value("keyid_ppa") != nil
	if withKey && !c.Has(ctx, "pkg.del_repo_key") {
		return stateSay(ret, false, "Repo key management is not implemented for this platform")
	}
	stripped := name
	debian := c.Grains.Str("os_family") == "Debian"
	if debian {
		words := pyFields(name)
		for i, w := range words {
			if strings.Contains(w, "://") || strings.HasPrefix(w, "/") {
				words[i] = strings.TrimRight(w, "/")
			}
		}
		stripped = strings.Join(words, " ")
	}
	v, err := c.RunKw(ctx, "pkg.get_repo", []any{stripped}, kw.Clone())
	if isExecError(err) {
		return stateSay(ret, false, "Failed to configure repo '%s': %s", name, errText(err))
	}
	if err != nil {
		return nil, err
	}
	repo, _ := v.(*Map)
	if debian && repo.Len() > 0 {
		v, err := c.RunKw(ctx, "pkg.expand_repo_def", nil, NewMap("repo", stripped))
		if err != nil {
			return nil, err
		}
		if m, ok := v.(*Map); ok && !sameTextSets(m.Value("architectures"), repo.Value("architectures")) {
			repo = nil
		}
	}
	if repo.Len() == 0 {
		return stateSay(ret, true, "Package repo %s is absent", name)
	}
	if c.Testing() {
		return stateSay(ret, nil, "Package repo '%s' will be removed. This may cause pkg states to behave differently than stated if this action is repeated without test=True, "+
			"due to the differences in the configured repositories.", name)
	}
	failed := func(err error) bool {
		return err != nil && (isExecError(err) || asModuleError(err).Kind == ErrInvocation)
	}
	if _, err := c.RunKw(ctx, "pkg.del_repo", nil, pkgWith(kw, "repo", stripped)); failed(err) {
		return stateSay(ret, false, "%s", errText(err))
	} else if err != nil {
		return nil, err
	}
	left, err := runMap(ctx, c, "pkg.list_repos")
	if err != nil {
		return nil, err
	}
	if left.Has(stripped) {
		return stateSay(ret, false, "Failed to remove repo %s", name)
	}
	ret.Map("changes").Set("repo", name)
	if !withKey {
		return stateSay(ret, true, "Removed repo %s", name)
	}
	key, err := c.RunKw(ctx, "pkg.del_repo_key", []any{stripped}, kw)
	if failed(err) {
		return stateSay(ret, false, "Removed repo %s, but failed to remove key: %s", name, errText(err))
	}
	if err != nil {
		return nil, err
	}
	ret.Map("changes").Set("keyid", key)
	return stateSay(ret, true, "Removed repo %s, and keyid %s", name, Str(key))
}
