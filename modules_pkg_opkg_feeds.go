// Provider opkg of module pkg: the feeds, lines of the files in /etc/opkg. A change
// replaces the line of a feed and leaves all others.
package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

const opkgConfDir = "/etc/opkg"

func opkgFeedFuncs(p opkgManager) Funcs {
	f := opkgFeeds{p, opkgConfDir}
	return Funcs{
		"list_repos": {run: f.list, doc: "List the feeds by URI."},
		"get_repo":   {run: f.get, doc: "Return one feed by its name."},
		"mod_repo":   {run: f.mod, doc: "Add a feed or change one: uri, alias (a new name), enabled, compressed, trusted; refresh brings\nthe lists up to date then.\n\nCLI Example:\n\n    salt '*' pkg.mod_repo repo uri=http://new/uri"},
		"del_repo":   {run: f.del, doc: "Remove a feed, and its file if it was the only one there."},
	}
}

type opkgFeeds struct {
	p   opkgManager
	dir string
}

// opkgFeed is one feed.
type opkgFeed struct {
	name, uri, file     string
	enabled, compressed bool
	options             *Map // trusted and others
}

// parseOpkgFeed reads a line; ok is false if it is no feed.
func parseOpkgFeed(line string) (f opkgFeed, ok bool) {
	re := regexp.MustCompile(`^(#?)\s*(src|src/gz)\s+([^\s<>"]+|"[^<>"]+")\s+([^\s<>]+)\s*(.*)`)
	m := re.FindStringSubmatch(line)
	if m == nil {
		return f, false
	}
	f = opkgFeed{name: strings.Trim(m[3], `"`), uri: m[4], enabled: m[1] == "", compressed: m[2] == "src/gz", options: &Map{}}
	for _, o := range strings.FieldsFunc(m[5], func(r rune) bool { return strings.ContainsRune("[] \t", r) }) {
		if k, v, ok := strings.Cut(o, "="); ok && k == "trusted" {
			f.options.Set(k, v == "yes")
		} else if ok {
			f.options.Set(k, v)
		}
	}
	return f, true
}

// line is the feed as it is written.
func (f opkgFeed) line() string {
	s := "src "
	if f.compressed {
		s = "src/gz "
	}
	if !f.enabled {
		s = "# " + s
	}
	if strings.Contains(f.name, " ") {
		s += `"` + f.name + `" `
	} else {
		s += f.name + " "
	}
	s += f.uri
	switch f.options.Value("trusted") {
	case true:
		s += " [trusted=yes]"
	case false:
		s += " [trusted=no]"
	}
	return s
}

func (f opkgFeed) asMap() *Map {
	m := NewMap("enabled", f.enabled, "compressed", f.compressed, "name", f.name, "uri", f.uri, "file", f.file)
	for k, v := range f.options.All() {
		m.Set(k, v)
	}
	return m
}

// all reads the feeds of all files; the first of a URI counts.
func (o opkgFeeds) all() ([]opkgFeed, error) {
	files, _ := filepath.Glob(o.dir + "/*.conf")
	sort.Strings(files)
	var feeds []opkgFeed
	seen := map[string]bool{}
	for _, file := range files {
		lines, err := fileLines(file)
		if err != nil {
			return nil, osError(err)
		}
		for _, line := range lines {
			if f, ok := parseOpkgFeed(line); ok && !seen[f.uri] {
				seen[f.uri] = true
				f.file = file
				feeds = append(feeds, f)
			}
		}
	}
	return feeds, nil
}

func (o opkgFeeds) list(context.Context, *Call, kwargsOnly) (any, error) {
	feeds, err := o.all()
	out := &Map{}
	for _, f := range feeds {
		out.Set(f.uri, NewList(f.asMap()))
	}
	return out, err
}

func (o opkgFeeds) get(_ context.Context, _ *Call, a aptRepoArgs) (any, error) {
	feeds, err := o.all()
	for _, f := range feeds {
		if f.name == a.Repo {
			return f.asMap(), err
		}
	}
	return &Map{}, err
}

// change replaces the lines of a feed: edit returns the new line, "" for none.
func (o opkgFeeds) change(file, name string, edit func(opkgFeed) string) error {
	lines, err := fileLines(file)
	if err != nil {
		return osError(err)
	}
	var out strings.Builder
	for _, line := range lines {
		if f, ok := parseOpkgFeed(line); ok && f.name == name {
			if line = edit(f); line == "" {
				continue
			}
		}
		out.WriteString(line + "\n")
	}
	if err := replaceSystemFile(file, []byte(out.String()), 0o644); err != nil {
		return osError(err)
	}
	return nil
}

// apply puts the arguments of mod_repo into a feed.
func (f *opkgFeed) apply(kw *Map) {
	if v := kw.Value("uri"); v != nil {
		f.uri = Str(v)
	}
	if v := kw.Value("alias"); v != nil {
		f.name = Str(v)
	}
	if v, ok := kw.Get("compressed"); ok {
		f.compressed = Truth(v)
	}
	f.enabled = Truth(kwargOf(kw, "enabled", true))
	if v := kw.Value("trusted"); v != nil {
		f.options.Set("trusted", Truth(v))
	}
}

func (o opkgFeeds) mod(ctx context.Context, c *Call, a aptRepoArgs) (any, error) {
	if strings.ContainsAny(a.Repo+Str(kwargOf(a.Kwargs, "uri", "")), "\n\"<>") || strings.Contains(a.Repo, "/") {
		return nil, InvocationErrorf("%s is no name of a feed", Repr(a.Repo))
	}
	feeds, err := o.all()
	if err != nil {
		return nil, err
	}
	found := false
	for _, f := range feeds {
		switch {
		case f.name == a.Repo:
			found = true
			err = o.change(f.file, a.Repo, func(f opkgFeed) string {
				f.apply(a.Kwargs)
				return f.line()
			})
			if err != nil {
				return nil, err
			}
		case Truth(a.Kwargs.Value("uri")) && f.uri == Str(a.Kwargs.Value("uri")):
			return nil, ExecErrorf("Repository '%s' already exists as '%s'.", f.uri, f.name)
		}
	}
	if !found {
		if err := o.add(a); err != nil {
			return nil, err
		}
	}
	if a.Kwargs.Has("refresh") {
		_, err = pkgCommon{o.p}.refreshDB(ctx, c, pkgRefreshArgs{Kwargs: &Map{}})
	}
	return nil, err
}

func (o opkgFeeds) add(a aptRepoArgs) error {
	if !a.Kwargs.Has("uri") {
		return ExecErrorf("Repository '%s' not found and no URI passed to create one.", a.Repo)
	}
	f := opkgFeed{name: a.Repo, compressed: true, options: &Map{}}
	f.apply(onlyKeys(a.Kwargs, "uri", "compressed", "enabled", "trusted"))
	path := filepath.Join(o.dir, a.Repo+".conf")
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return osError(err)
	}
	if err := replaceSystemFile(path, append(old, f.line()+"\n"...), 0o644); err != nil {
		return osError(err)
	}
	return nil
}

func (o opkgFeeds) del(ctx context.Context, c *Call, a aptRepoArgs) (any, error) {
	feeds, err := o.all()
	if err != nil {
		return nil, err
	}
	in := map[string]int{} // how many feeds a file has
	var files []string
	for _, f := range feeds {
		if in[f.file]++; f.name == a.Repo {
			files = append(files, f.file)
		}
	}
	if files == nil {
		return "Repo " + a.Repo + " doesn't exist in the opkg repo lists", nil
	}
	told := ""
	for _, file := range sortedSet(files) {
		if in[file] == 1 {
			err = os.Remove(file)
			told += "File " + file + " containing repo '" + a.Repo + "' has been removed.\n"
		} else {
			err = o.change(file, a.Repo, func(opkgFeed) string { return "" })
			told += "Repo '" + a.Repo + "' has been removed from " + file + ".\n"
		}
		if err != nil {
			return nil, osError(err)
		}
	}
	if Truth(kwargOf(a.Kwargs, "refresh", true)) {
		if _, err := (pkgCommon{o.p}).refreshDB(ctx, c, pkgRefreshArgs{Kwargs: &Map{}}); err != nil {
			return nil, err
		}
	}
	return told, nil
}
