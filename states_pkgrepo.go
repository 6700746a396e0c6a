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

func pkgrepoStateManaged(ctx context.Context, c *Call, a struct {
	Name   string
	Ppa    any  `def:"None"`
	Copr   any  `def:"None"`
	Aptkey any  `def:"True"`
	Kwargs *Map `arg:"**kwargs"`
}) (any, error) {
	ret := stateReturn(a.Name, nil, "")
	if _, err := exec.LookPath("apt-key"); err != nil {
		a.Aptkey = false
	}
	kw := a.Kwargs.Clone()
	switch {
	case !c.Has(ctx, "pkg.get_repo"):
		return stateSay(ret, false, "Repo management not implemented on this platform")
	case kw.Has("repo"):
		return stateSay(ret, false, "'repo' is not a supported argument for this state. The 'name' argument is probably what was intended.")
	}
	// These say that two arguments exclude each other; the state goes on.
	for _, pair := range []struct{ one, other, words string }{
		{"key_url", "keyid", "\"keyid\"/\"keyserver\" and \"key_url\""},
		{"key_text", "keyid", "\"keyid\"/\"keyserver\" and \"key_text\""},
		{"key_text", "key_url", "\"key_url\" and \"key_text\""},
	} {
		if kw.Has(pair.one) && (kw.Has(pair.other) || pair.other == "keyid" && kw.Has("keyserver")) {
			ret.Set("result", false)
			ret.Set("comment", "You may not use both "+pair.words+" argument.")
		}
	}
	enabled, disabled := kw.Value("enabled"), kw.Value("disabled")
	kw.Delete("enabled")
	kw.Delete("disabled")
	switch {
	case enabled != nil && disabled != nil:
		return stateSay(ret, false, "Only one of enabled/disabled is allowed")
	case enabled == nil && disabled == nil:
		enabled = true
	}
	insecure := kwargOf(kw, "allow_insecure_key", true)
	kw.Delete("allow_insecure_key")
	if strings.HasPrefix(strings.TrimSpace(Str(kwargOf(kw, "key_url", ""))), "http:") && !Truth(insecure) {
		return stateSay(ret, false, "Cannot have 'key_url' using http with 'allow_insecure_key' set to True")
	}
	repo := a.Name
	kw.Set("name", a.Name)
	isOff := dataTrue(disabled)
	if enabled != nil {
		isOff = !dataTrue(enabled)
	}
	family := c.Grains.Str("os_family")
	switch family {
	case "Debian":
		if a.Ppa != nil {
			repo = "ppa:" + Str(a.Ppa)
		}
		kw.Set("disabled", isOff)
	case "RedHat", "Suse":
		if family == "RedHat" && a.Copr != nil {
			repo = "copr:" + Str(a.Copr)
		}
		if v, ok := kw.Get("humanname"); ok {
			kw.Delete("humanname")
			kw.Set("name", v)
		}
		kw.Set("enabled", !isOff)
	case "NILinuxRT", "Poky":
		kw.Set("enabled", !isOff)
	}
	get := func() (*Map, error) {
		v, err := c.RunKw(ctx, "pkg.get_repo", nil, pkgWith(kw, "repo", repo))
		if err != nil {
			return nil, err
		}
		m, _ := v.(*Map)
		return m.Clone(), nil
	}
	pre, err := get()
	if isExecError(err) {
		return stateSay(ret, false, "Failed to examine repo '%s': %s", a.Name, errText(err))
	}
	if err != nil {
		return nil, err
	}
	want := kw.Clone()
	if family == "Debian" {
		v, err := c.RunKw(ctx, "pkg.expand_repo_def", nil, pkgWith(kw, "repo", repo, "os_name", c.Grains.Value("os"), "os_codename", c.Grains.Value("oscodename")))
		if err != nil {
			return nil, err
		}
		if m, ok := v.(*Map); ok {
			want = m.Clone()
		}
	}
	if pre.Len() > 0 && !otherLines(kw, a.Name) {
		pre.Delete("file")
		want.Delete("file")
		if repoAsWanted(c, want, pre, kw) {
			return stateSay(ret, true, "Package repo '%s' already configured", a.Name)
		}
	}
	changes := ret.Map("changes")
	if c.Testing() {
		ret.Set("comment", "Package repo '"+a.Name+"' would be configured. This may cause pkg states to behave differently than stated if this action is repeated without test=True, "+
			"due to the differences in the configured repositories.")
		if pre.Len() == 0 {
			changes.Set("repo", a.Name)
		} else {
			for k, v := range want.All() {
				if !Equal(v, pre.Value(k)) {
					changes.Set(k, NewMap("new", v, "old", pre.Value(k)))
				}
			}
		}
		return ret, nil
	}
	if Truth(kw.Value("clean_file")) {
		if err := os.WriteFile(Str(kw.Value("file")), nil, 0o644); err != nil {
			return nil, osError(err)
		}
	}
	more := kw.Clone()
	if family == "Debian" {
		more.Merge(NewMap("saltenv", c.StateEnv(), "aptkey", a.Aptkey))
	}
	if _, err := c.RunKw(ctx, "pkg.mod_repo", []any{repo}, more); err != nil {
		return stateSay(ret, false, "Failed to configure repo '%s': %s", a.Name, errText(err))
	}
	post, err := get()
	if err != nil {
		return stateSay(ret, false, "Failed to confirm config of repo '%s': %s", a.Name, errText(err))
	}
	if pre.Len() == 0 {
		changes.Set("repo", repo)
	} else {
		for k := range want.All() {
			if !Equal(post.Value(k), pre.Value(k)) {
				changes.Set(k, NewMap("new", post.Value(k), "old", pre.Value(k)))
			}
		}
	}
	return stateSay(ret, true, "Configured package repo '%s'", a.Name)
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
