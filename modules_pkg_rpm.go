// What the providers of module pkg over rpm have in common: the database of
// installed packages, and the files of repositories.
package main

import (
	"context"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

const rpmQueryFormat = "%{NAME}_|-%{EPOCH}_|-%{VERSION}_|-%{RELEASE}_|-%{ARCH}\n"

// rpmDatabase is embedded in the providers over rpm.
type rpmDatabase struct{}

func (rpmDatabase) compare(a, b string) int { return rpmCompare(a, b) }

// rpmArches are the architectures that are the box's own.
func rpmArches(c *Call) []string {
	own := grain(c, "osarch")
	if own == "" {
		own = grain(c, "cpuarch")
	}
	if own == "x86_64" || own == "amd64" {
		return []string{"x86_64", "noarch", "athlon", "amd64", "ia32e"}
	}
	return []string{own, "noarch"}
}

func (rpmDatabase) normalize(c *Call, name string) string {
	if base, arch, ok := rsplit(name, "."); ok && hasString(rpmArches(c), arch) {
		return base
	}
	return name
}

// parseRpmLine reads one line of a query: the name with a foreign architecture,
// and epoch:version-release without an epoch that is none.
func parseRpmLine(line string, own []string) (name, version string, ok bool) {
	f := strings.Split(line, "_|-")
	if len(f) < 5 {
		return "", "", false
	}
	name, version = f[0], f[2]
	if f[3] != "" && f[3] != "(none)" {
		version += "-" + f[3]
	}
	if f[1] != "" && f[1] != "(none)" && f[1] != "0" {
		version = f[1] + ":" + version
	}
	if arch := strings.TrimSpace(f[4]); arch != "" && arch != "(none)" && !hasString(own, arch) {
		name += "." + arch
	}
	return name, version, !strings.HasPrefix(name, "gpg-pubkey")
}

func (rpmDatabase) installed(ctx context.Context, c *Call) (have, removed *pkgVersions, err error) {
	r, err := runTool(ctx, "rpm", "-qa", "--queryformat", rpmQueryFormat)
	if err != nil {
		return nil, nil, err
	}
	if r.retcode != 0 {
		return nil, nil, ExecErrorf("cannot read the list of installed packages: %s", r.stderr)
	}
	return parseRpmQuery(r.stdout, rpmArches(c)), nil, nil
}

func parseRpmQuery(out string, own []string) *pkgVersions {
	have := &pkgVersions{}
	lines := strings.Split(out, "\n")
	sort.Strings(lines)
	for _, line := range lines {
		if name, version, ok := parseRpmLine(line, own); ok {
			have.add(name, version)
		}
	}
	return have
}

func (rpmDatabase) fileInfo(ctx context.Context, c *Call, path string) (name, version string, err error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, "rpm", "-qp", "--queryformat", rpmQueryFormat, path)
	if err != nil {
		return "", "", err
	}
	name, version, ok := parseRpmLine(r.stdout, rpmArches(c))
	if r.failed() || !ok {
		return "", "", ExecErrorf("Unable to get info for %s: %s", path, r.stderr)
	}
	return name, version, nil
}

func (rpmDatabase) owner(ctx context.Context, c *Call, path string) (string, error) {
	r, err := runSaltTool(ctx, c, toolOptions{}, "rpm", "-qf", "--queryformat", "%{name}", path)
	if err != nil {
		return "", err
	}
	if r.failed() || strings.Contains(r.stdout, "not owned") {
		return "", nil
	}
	return r.stdout, nil
}

func (d rpmDatabase) files(ctx context.Context, c *Call, names []string) (*Map, error) {
	if len(names) == 0 {
		have, _, err := d.installed(ctx, c)
		if err != nil {
			return nil, err
		}
		names = have.names
	}
	out := &Map{}
	for _, name := range names {
		r, err := runSaltTool(ctx, c, toolOptions{}, "rpm", "-ql", name)
		if err != nil {
			return nil, err
		}
		if r.failed() {
			return nil, ExecErrorf("%s", strings.TrimSpace(r.stdout+r.stderr))
		}
		out.Set(name, Strings(pyLines(r.stdout, false)))
	}
	return out, nil
}

func (rpmDatabase) run(ctx context.Context, c *Call, args []string, _ *Map) (cmdResult, error) {
	return runSaltTool(ctx, c, toolOptions{}, inScope(c, args)...)
}

func (rpmDatabase) failed(r cmdResult) string {
	if !r.failed() {
		return ""
	}
	if r.stdout != "" {
		return r.stdout
	}
	return r.stderr
}

// Files of repositories: one section for each.

// rpmRepos reads all repositories below a directory, with the file of each.
func rpmRepos(c *Call, dir string) (*Map, error) {
	files, _ := filepath.Glob(dir + "/*.repo")
	sort.Strings(files)
	out := &Map{}
	for _, file := range files {
		p, err := os.ReadFile(file)
		if err != nil {
			return nil, osError(err)
		}
		for id, repo := range parseRepoFile(string(p)).All() {
			repo.(*Map).Set("file", file)
			out.Set(id, repo)
		}
	}
	return out, nil
}

// parseRepoFile reads sections of key=value; lines that begin with a blank go on.
func parseRepoFile(text string) *Map {
	out := &Map{}
	var repo *Map
	key := ""
	for _, line := range pyLines(text, false) {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "", strings.HasPrefix(trimmed, "#"), strings.HasPrefix(trimmed, ";"):
		case strings.HasPrefix(trimmed, "[") && strings.HasSuffix(trimmed, "]"):
			repo, key = &Map{}, ""
			out.Set(strings.Trim(trimmed, "[]"), repo)
		case repo == nil:
		case line[0] == ' ' || line[0] == '\t':
			if key != "" {
				repo.Set(key, repo.Str(key)+"\n"+trimmed)
			}
		default:
			k, v, ok := strings.Cut(trimmed, "=")
			if key = ""; ok {
				key = strings.TrimSpace(k)
				repo.Set(key, strings.TrimSpace(v))
			}
		}
	}
	return out
}

// writeRepoFile writes sections back; comments are not kept.
func writeRepoFile(path string, repos *Map) error {
	var b strings.Builder
	for id, v := range repos.All() {
		b.WriteString("[" + Str(id) + "]\n")
		for k, value := range v.(*Map).All() {
			if k != "file" {
				b.WriteString(Str(k) + "=" + strings.ReplaceAll(Str(value), "\n", "\n ") + "\n")
			}
		}
		b.WriteString("\n")
	}
	return replaceSystemFile(path, []byte(b.String()), 0o644)
}

// repoFuncs are list_repos, get_repo, mod_repo and del_repo over .repo files.
func repoFuncs(dir string) Funcs {
	return Funcs{
		"list_repos": {run: func(_ context.Context, c *Call, _ kwargsOnly) (any, error) { return rpmRepos(c, dir) }, doc: "List the repositories."},
		"get_repo": {run: func(_ context.Context, c *Call, a aptRepoArgs) (any, error) {
			all, err := rpmRepos(c, dir)
			if err != nil {
				return nil, err
			}
			return kwargOf(all, a.Repo, &Map{}), nil
		}, doc: "Return one repository."},
		"mod_repo": {run: func(_ context.Context, c *Call, a aptRepoArgs) (any, error) { return modRpmRepo(c, dir, a) }, doc: "Add a repository or change one: name, baseurl, mirrorlist, enabled, gpgcheck and so on."},
		"del_repo": {run: func(_ context.Context, c *Call, a aptRepoArgs) (any, error) { return delRpmRepo(c, dir, a) }, doc: "Remove a repository, and its file if it was the only one there."},
	}
}

func modRpmRepo(c *Call, dir string, a aptRepoArgs) (any, error) {
	if strings.ContainsAny(a.Repo, "/[]\n") {
		return nil, InvocationErrorf("%s is no name of a repository", Repr(a.Repo))
	}
	all, err := rpmRepos(c, dir)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, a.Repo+".repo")
	repo := all.Map(a.Repo)
	if repo == nil {
		if !a.Kwargs.Has("name") {
			return nil, InvocationErrorf("The repo does not exist and needs to be created, but a name was not given")
		}
		if !a.Kwargs.Has("baseurl") && !a.Kwargs.Has("mirrorlist") && !a.Kwargs.Has("metalink") {
			return nil, InvocationErrorf("The repo does not exist and needs to be created, but none of baseurl, mirrorlist or metalink was given")
		}
		repo = &Map{}
	} else {
		file = repo.Str("file")
	}
	for k, v := range a.Kwargs.All() {
		key := Str(k)
		if strings.HasPrefix(key, "__") || key == "file" || key == "repo" || key == "refresh" {
			continue
		}
		switch v := v.(type) {
		case nil:
			repo.Delete(key)
			continue
		case bool:
			n := "0"
			if v {
				n = "1"
			}
			repo.Set(key, n)
		case *List:
			repo.Set(key, strings.Join(namesOf(v.Items), "\n"))
		default:
			repo.Set(key, Str(v))
		}
	}
	p, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return nil, osError(err)
	}
	there := parseRepoFile(string(p))
	repo.Delete("file")
	there.Set(a.Repo, repo)
	if err := writeRepoFile(file, there); err != nil {
		return nil, osError(err)
	}
	return NewMap(file, NewMap(a.Repo, repo)), nil
}

func delRpmRepo(c *Call, dir string, a aptRepoArgs) (any, error) {
	all, err := rpmRepos(c, dir)
	if err != nil {
		return nil, err
	}
	repo := all.Map(a.Repo)
	if repo == nil {
		return "Error: the " + a.Repo + " repo does not exist in " + dir, nil
	}
	file := repo.Str("file")
	p, err := os.ReadFile(file)
	if err != nil {
		return nil, osError(err)
	}
	there := parseRepoFile(string(p))
	there.Delete(a.Repo)
	if there.Len() == 0 {
		if err := os.Remove(file); err != nil {
			return nil, osError(err)
		}
		return "File " + file + " containing repo " + a.Repo + " has been removed", nil
	}
	if err := writeRepoFile(file, there); err != nil {
		return nil, osError(err)
	}
	return "Repo " + a.Repo + " has been removed from " + file, nil
}
