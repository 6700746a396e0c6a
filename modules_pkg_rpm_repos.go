// Files of repositories for the providers of module pkg over rpm: sections of
// key=value with comments, as dnf, yum and zypper read them. Comments survive a
// change: those before the first section at the head, the others at the end of
// their section.
package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// repoFile is one file. A section with comments has them as a list under comments.
type repoFile struct {
	header string
	repos  *Map
}

// parseRepoFile reads sections; lines that begin with a blank go on with the value.
func parseRepoFile(text string) repoFile {
	f := repoFile{repos: &Map{}}
	var repo *Map
	key := ""
	for _, line := range pyLines(text, false) {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "", strings.HasPrefix(trimmed, ";"):
		case strings.HasPrefix(trimmed, "#"):
			if repo == nil {
				f.header += trimmed + "\n"
			} else {
				appendTo(repo, "comments", strings.TrimSpace(trimmed[1:]))
			}
		case strings.HasPrefix(trimmed, "[") && strings.HasSuffix(trimmed, "]"):
			repo, key = &Map{}, ""
			f.repos.Set(strings.Trim(trimmed, "[]"), repo)
		case repo == nil:
		case line[0] == ' ' || line[0] == '\t':
			if key != "" {
				repo.Set(key, repo.Str(key)+"\n"+trimmed)
			}
		default:
			k, v, ok := strings.Cut(trimmed, "=")
			if key = ""; ok {
				key = strings.ToLower(strings.TrimSpace(k))
				repo.Set(key, strings.TrimSpace(v))
			}
		}
	}
	return f
}

func readRepoFile(path string) (repoFile, error) {
	p, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return repoFile{}, osError(err)
	}
	return parseRepoFile(string(p)), nil
}

// text is the file as it is written back.
func (f repoFile) text() string {
	var b strings.Builder
	b.WriteString(f.header)
	for id, v := range f.repos.All() {
		b.WriteString("[" + Str(id) + "]\n")
		repo := v.(*Map)
		for k, value := range repo.All() {
			if k == "comments" || k == "file" {
				continue
			}
			switch v := value.(type) {
			case bool:
				value = "0"
				if v {
					value = "1"
				}
			case *List:
				value = strings.Join(namesOf(v.Items), "\n")
			}
			b.WriteString(Str(k) + "=" + strings.ReplaceAll(Str(value), "\n", "\n ") + "\n")
		}
		for _, comment := range toItems(repo.Value("comments")) {
			b.WriteString("# " + strings.TrimSpace(strings.TrimLeft(Str(comment), "#")) + "\n")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// rpmRepos reads all repositories below some directories, with the file of each.
func rpmRepos(dirs []string) (*Map, error) {
	out := &Map{}
	for _, dir := range dirs {
		files, _ := filepath.Glob(dir + "/*.repo")
		sort.Strings(files)
		for _, path := range files {
			f, err := readRepoFile(path)
			if err != nil {
				return nil, err
			}
			for id, repo := range f.repos.All() {
				repo.(*Map).Set("file", path)
				out.Set(id, repo)
			}
		}
	}
	return out, nil
}

// dnfConfigFiles are the places of the configuration; the first that is there counts.
func dnfConfigFiles() []string {
	return []string{"/etc/yum/yum.conf", "/etc/yum.conf", "/etc/dnf/dnf.conf", "/etc/tdnf/tdnf.conf"}
}

// dnfRepoDirs are the directories that an argument, the configuration or custom name.
func dnfRepoDirs(basedir any) ([]string, error) {
	if l, ok := basedir.(*List); ok && l.Len() > 0 {
		return namesOf(l.Items), nil
	}
	if Truth(basedir) {
		return textOptions(NewMap("basedir", Str(basedir)), "basedir")
	}
	for _, path := range dnfConfigFiles() {
		if !pathExists(path) {
			continue
		}
		f, err := readRepoFile(path)
		if err != nil {
			return nil, err
		}
		if dirs := f.repos.Map("main").Str("reposdir"); dirs != "" {
			return textOptions(NewMap("reposdir", dirs), "reposdir")
		}
		return []string{"/etc/yum/repos.d", "/etc/yum.repos.d"}, nil
	}
	return nil, ExecErrorf("No suitable yum config file found in: %s", Repr(Tuple(Strings(dnfConfigFiles()).Items)))
}

type basedirArgs struct {
	Basedir any  `def:"None"`
	Kwargs  *Map `arg:"**kwargs"`
}

type dnfRepoArgs struct {
	Repo string
	basedirArgs
}

// dnfRepoFuncs are list_repos, get_repo, mod_repo and del_repo for dnf.
func dnfRepoFuncs() Funcs {
	return Funcs{
		"list_repos": {run: dnfListRepos, doc: "List the repositories."},
		"get_repo":   {run: dnfGetRepo, doc: "Return one repository."},
		"mod_repo":   {run: dnfModRepo, doc: "Add a repository or change one: name, baseurl, mirrorlist, enabled, gpgcheck and so on. An\nempty value removes a key.\n\nCLI Example:\n\n    salt '*' pkg.mod_repo reponame enabled=1 gpgcheck=1"},
		"del_repo":   {run: dnfDelRepo, doc: "Remove a repository, and its file if it was the only one there."},
	}
}

func dnfListRepos(_ context.Context, _ *Call, a basedirArgs) (any, error) {
	dirs, err := dnfRepoDirs(a.Basedir)
	if err != nil {
		return nil, err
	}
	return rpmRepos(dirs)
}

// dnfRepo finds a repository; a short copr: name stands for the long one.
func dnfRepo(repo string) string {
	if name, ok := strings.CutPrefix(repo, "copr:"); ok {
		if owner, project, ok := strings.Cut(name, "/"); ok {
			return "copr:copr.fedorainfracloud.org:" + owner + ":" + project
		}
	}
	return repo
}

func dnfGetRepo(ctx context.Context, c *Call, a dnfRepoArgs) (any, error) {
	all, err := dnfListRepos(ctx, c, a.basedirArgs)
	if err != nil {
		return nil, err
	}
	repo := all.(*Map).Map(dnfRepo(a.Repo))
	if repo == nil {
		return &Map{}, nil
	}
	repo.Delete("file")
	return repo, nil
}

// dnfRepoChange sorts out the arguments of mod_repo: what is set and what goes.
func dnfRepoChange(kwargs *Map) (set *Map, remove []string, err error) {
	set = &Map{}
	if kwargs.Has("mirrorlist") && kwargs.Has("baseurl") {
		return nil, nil, InvocationErrorf("Only one of 'mirrorlist' and 'baseurl' can be specified")
	}
	for k, v := range kwargs.All() {
		key := Str(k)
		switch _, isBool := v.(bool); {
		case strings.HasPrefix(key, "__"), key == "saltenv":
		case !Truth(v) && !isBool && !Equal(v, int64(0)):
			remove = append(remove, key)
		default:
			set.Set(key, v)
		}
	}
	if set.Has("mirrorlist") {
		remove = append(remove, "baseurl")
	} else if set.Has("baseurl") {
		remove = append(remove, "mirrorlist")
	}
	if hasString(remove, "name") {
		return nil, nil, InvocationErrorf("The repo name cannot be deleted")
	}
	return set, remove, nil
}

// dnfNewRepoFile is the file of a repository that is not there yet.
func dnfNewRepoFile(repo string, set *Map, dirs []string) (string, error) {
	if strings.ContainsAny(repo, "/[]\n") {
		return "", InvocationErrorf("%s is no name of a repository", Repr(repo))
	}
	for _, dir := range dirs {
		if !isDir(dir) {
			continue
		}
		if !set.Has("name") {
			return "", InvocationErrorf("The repo does not exist and needs to be created, but a name was not given")
		}
		if !set.Has("baseurl") && !set.Has("mirrorlist") {
			return "", InvocationErrorf("The repo does not exist and needs to be created, but either a baseurl or a mirrorlist needs to be given")
		}
		return filepath.Join(dir, repo+".repo"), nil
	}
	return "", InvocationErrorf("The repo does not exist and needs to be created, but none of the following basedir directories exist: %s", Repr(Strings(dirs)))
}

func dnfModRepo(ctx context.Context, c *Call, a dnfRepoArgs) (any, error) {
	set, remove, err := dnfRepoChange(a.Kwargs)
	if err != nil {
		return nil, err
	}
	dirs, err := dnfRepoDirs(a.Basedir)
	if err != nil {
		return nil, err
	}
	all, err := rpmRepos(dirs)
	if err != nil {
		return nil, err
	}
	name := dnfRepo(a.Repo)
	if name != a.Repo && !all.Has(name) {
		if err := dnfEnableCopr(ctx, c, strings.TrimPrefix(a.Repo, "copr:")); err != nil {
			return nil, err
		}
		if all, err = rpmRepos(dirs); err != nil {
			return nil, err
		}
	}
	path := ""
	if known := all.Map(name); known != nil {
		path = known.Str("file")
	} else if path, err = dnfNewRepoFile(name, set, dirs); err != nil {
		return nil, err
	}
	f, err := readRepoFile(path)
	if err != nil {
		return nil, err
	}
	repo := f.repos.Map(name)
	if repo == nil {
		repo = &Map{}
		f.repos.Set(name, repo)
	}
	for _, pair := range [][2]string{{"baseurl", "mirrorlist"}, {"mirrorlist", "baseurl"}} {
		if hasString(remove, pair[0]) && !set.Has(pair[1]) && !repo.Has(pair[1]) {
			return nil, InvocationErrorf("Cannot delete %s without specifying %s", pair[0], pair[1])
		}
	}
	for _, key := range remove {
		repo.Delete(key)
	}
	for k, v := range set.All() {
		repo.Set(k, v)
	}
	if err := replaceSystemFile(path, []byte(f.text()), 0o644); err != nil {
		return nil, osError(err)
	}
	for _, one := range f.repos.All() {
		one.(*Map).Delete("comments")
	}
	return NewMap(path, f.repos), nil
}

func dnfEnableCopr(ctx context.Context, c *Call, name string) error {
	have, _, err := rpmDatabase{}.installed(ctx, c)
	if err != nil {
		return err
	}
	plugin := "dnf-plugins-core"
	if dnfTool() == "yum" {
		plugin = "yum-plugin-copr"
	}
	if have.by[plugin] == nil {
		return InvocationErrorf("%s must be installed to use COPR", plugin)
	}
	r, err := runSaltTool(ctx, c, toolOptions{}, dnfTool(), "copr", "enable", name, "-y")
	if err == nil && r.failed() {
		err = ExecErrorf("Unable to add COPR '%s'. '%s' exited with status %s: '%s' ", name, dnfTool(), Str(r.retcode), r.stderr)
	}
	return err
}

func dnfDelRepo(_ context.Context, _ *Call, a dnfRepoArgs) (any, error) {
	dirs, err := dnfRepoDirs(a.Basedir)
	if err != nil {
		return nil, err
	}
	all, err := rpmRepos(dirs)
	if err != nil {
		return nil, err
	}
	name := dnfRepo(a.Repo)
	repo := all.Map(name)
	if repo == nil {
		return "Error: the " + name + " repo does not exist in " + Repr(Strings(dirs)), nil
	}
	path := repo.Str("file")
	f, err := readRepoFile(path)
	if err != nil {
		return nil, err
	}
	if f.repos.Delete(name); f.repos.Len() == 0 {
		if err := os.Remove(path); err != nil {
			return nil, osError(err)
		}
		return "File " + path + " containing repo " + name + " has been removed", nil
	}
	if err := replaceSystemFile(path, []byte(f.text()), 0o644); err != nil {
		return nil, osError(err)
	}
	return "Repo " + name + " has been removed from " + path, nil
}

// Repositories of zypper, which changes the files itself.

const zyppRepoDir = "/etc/zypp/repos.d"

type rootOnlyArgs struct {
	Root   any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}

type zypperRepoArgs struct {
	Repo string
	rootOnlyArgs
}

type zypperModRepoArgs struct {
	Repo   string
	Kwargs *Map `arg:"**kwargs"`
}

func (z zypperManager) repoFuncs() Funcs {
	return Funcs{
		"list_repos": {run: z.listRepos, doc: "List the repositories."},
		"get_repo":   {run: z.getRepo, doc: "Return one repository."},
		"mod_repo":   {run: z.modRepo, doc: "Add a repository or change one: url (or baseurl, mirrorlist), name, enabled, refresh, cache,\ngpgcheck, priority; gpgautoimport takes its key.\n\nCLI Example:\n\n    salt '*' pkg.mod_repo alias url=http://host.example.com/repo"},
		"del_repo":   {run: z.delRepo, doc: "Remove a repository."},
	}
}

// zypperRepos reads the repositories: 0 and 1 are truth values, NONE is nothing.
func zypperRepos(root any) (*Map, error) {
	all, err := rpmRepos([]string{rootOf(root) + zyppRepoDir})
	if err != nil {
		return nil, err
	}
	for alias, v := range all.All() {
		repo := v.(*Map)
		repo.Delete("file")
		repo.Delete("comments")
		repo.Set("alias", alias)
		for k, value := range repo.Clone().All() {
			switch value {
			case "0", "1":
				repo.Set(k, value == "1")
			case "NONE":
				repo.Set(k, nil)
			}
		}
	}
	return all, nil
}

func (zypperManager) listRepos(_ context.Context, _ *Call, a rootOnlyArgs) (any, error) {
	return zypperRepos(a.Root)
}

func (zypperManager) getRepo(_ context.Context, _ *Call, a zypperRepoArgs) (any, error) {
	all, err := zypperRepos(a.Root)
	if err != nil {
		return nil, err
	}
	return kwargOf(all, a.Repo, &Map{}), nil
}

func (zypperManager) delRepo(ctx context.Context, c *Call, a zypperRepoArgs) (any, error) {
	all, err := zypperRepos(a.Root)
	if err != nil {
		return nil, err
	}
	if all.Has(a.Repo) {
		doc, err := zypperCall{root: a.Root}.xml(ctx, c, "rr", "--loose-auth", "--loose-query", a.Repo)
		if err != nil {
			return nil, err
		}
		if message := doc.text("message"); message != "" && len(doc.all("progress")) > 0 {
			return NewMap(a.Repo, true, "message", message), nil
		}
	}
	return nil, ExecErrorf("Repository '%s' not found.", a.Repo)
}

// zypperNewRepo finds the URL of a repository that is to be added.
func zypperNewRepo(repo string, all, kw *Map) (string, error) {
	address := ""
	for _, k := range []string{"url", "mirrorlist", "baseurl"} {
		if kw.Has(k) {
			address = Str(kw.Value(k))
			break
		}
	}
	if address == "" {
		return "", ExecErrorf("Repository '%s' not found, and neither 'baseurl' nor 'mirrorlist' was specified", repo)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" {
		return "", ExecErrorf("Repository '%s' not found and URL for baseurl/mirrorlist is malformed", repo)
	}
	if u.Path == "" {
		u.Path = "/"
	}
	for alias, v := range all.All() {
		if v.(*Map).Str("baseurl") == u.String() {
			return "", ExecErrorf("Repository '%s' already exists as '%s'.", repo, Str(alias))
		}
	}
	return address, nil
}

// zypperRepoOptions are the options of zypper mr for what is to change.
func zypperRepoOptions(kw *Map) []string {
	var out []string
	for _, o := range [][3]string{{"enabled", "--enable", "--disable"}, {"refresh", "--refresh", "--no-refresh"},
		{"cache", "--keep-packages", "--no-keep-packages"}, {"gpgcheck", "--gpgcheck", "--no-gpgcheck"}} {
		if v, ok := kw.Get(o[0]); ok && Truth(v) {
			out = append(out, o[1])
		} else if ok {
			out = append(out, o[2])
		}
	}
	if kw.Has("priority") {
		out = append(out, "--priority="+Str(kw.Value("priority")))
	}
	for _, k := range []string{"humanname", "name"} {
		if kw.Has(k) {
			out = append(out, "--name", Str(kw.Value(k)))
		}
	}
	return out
}

func (z zypperManager) modRepo(ctx context.Context, c *Call, a zypperModRepoArgs) (any, error) {
	root := a.Kwargs.Value("root")
	all, err := zypperRepos(root)
	if err != nil {
		return nil, err
	}
	tool := zypperCall{root: root}
	known := all.Map(a.Repo)
	if known == nil {
		address, err := zypperNewRepo(a.Repo, all, a.Kwargs)
		if err != nil {
			return nil, err
		}
		if _, err := tool.xml(ctx, c, "ar", address, a.Repo); err != nil {
			return nil, err
		}
		if all, err = zypperRepos(root); err != nil {
			return nil, err
		}
		if !all.Has(a.Repo) {
			return nil, ExecErrorf("Failed add new repository '%s' for unspecified reason. Please check zypper logs.", a.Repo)
		}
	} else if base := a.Kwargs.Value("baseurl"); a.Kwargs.Has("baseurl") && !Equal(base, known.Value("baseurl")) {
		return z.moveRepo(ctx, c, a, known)
	}
	options := zypperRepoOptions(a.Kwargs)
	var global []string
	if a.Kwargs.Value("gpgautoimport") == true {
		global = []string{"--gpg-auto-import-keys"}
	}
	if len(options) > 0 {
		refreshing := zypperCall{root: root, refresh: true}
		if _, err := refreshing.xml(ctx, c, append(append(append(global, "mr"), options...), a.Repo)...); err != nil {
			return nil, err
		}
	}
	if global != nil {
		if _, err := tool.xml(ctx, c, append(global, "refresh", a.Repo)...); err != nil {
			return nil, err
		}
	}
	if all, err = zypperRepos(root); err != nil {
		return nil, err
	}
	repo := all.Map(a.Repo)
	if repo == nil {
		return nil, fmt.Errorf("repository %s is gone", a.Repo)
	}
	if global == nil && known != nil && len(options) == 0 {
		repo.Set("comment", "Specified arguments did not result in modification of repo")
	}
	return repo, nil
}

// moveRepo gives a repository another URL, which zypper cannot: it goes and comes
// again with what it had.
func (z zypperManager) moveRepo(ctx context.Context, c *Call, a zypperModRepoArgs, known *Map) (any, error) {
	for k, v := range a.Kwargs.All() {
		known.Set(k, v)
	}
	if !known.Has("cache") {
		known.Set("cache", false)
	}
	if _, err := z.delRepo(ctx, c, zypperRepoArgs{Repo: a.Repo, rootOnlyArgs: rootOnlyArgs{Root: a.Kwargs.Value("root")}}); err != nil {
		return nil, err
	}
	return z.modRepo(ctx, c, zypperModRepoArgs{Repo: a.Repo, Kwargs: known})
}
