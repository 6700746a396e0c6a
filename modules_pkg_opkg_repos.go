// Provider opkg of module pkg: the feeds in /etc/opkg.conf and /etc/opkg.
package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// opkgFeed is one line of a file of feeds.
type opkgFeed struct {
	name, uri, file string
	line            int // its place in the file
	packed, enabled bool
	options         []string // what stands after the URI: [trusted=yes]
}

// parseOpkgFeed reads a line such as `src/gz base https://host/path [trusted=yes]`;
// nil if it is none.
func parseOpkgFeed(line string) *opkgFeed {
	text := strings.TrimSpace(line)
	enabled := !strings.HasPrefix(text, "#")
	words, err := splitShell(strings.TrimLeft(text, "# "))
	if err != nil || len(words) < 3 || words[0] != "src" && words[0] != "src/gz" {
		return nil
	}
	return &opkgFeed{name: words[1], uri: words[2], packed: words[0] == "src/gz", enabled: enabled, options: words[3:]}
}

// text is the line of a feed.
func (f *opkgFeed) text() string {
	mark, kind, name := "", "src", f.name
	if !f.enabled {
		mark = "# "
	}
	if f.packed {
		kind = "src/gz"
	}
	if strings.Contains(name, " ") {
		name = `"` + name + `"`
	}
	return mark + strings.Join(append([]string{kind, name, f.uri}, f.options...), " ")
}

func (f *opkgFeed) asMap() *Map {
	m := NewMap("uri", f.uri, "name", f.name, "compressed", f.packed, "enabled", f.enabled, "file", f.file)
	for _, o := range f.options {
		if key, value, ok := strings.Cut(strings.Trim(o, "[]"), "="); ok && key == "trusted" {
			m.Set(key, value == "yes")
		} else if ok {
			m.Set(key, value)
		}
	}
	return m
}

// opkgFeeds reads all feeds of a root.
func opkgFeeds(root string) []*opkgFeed {
	files, _ := filepath.Glob(filepath.Join(root, "/etc/opkg/*.conf"))
	var feeds []*opkgFeed
	for _, file := range append([]string{filepath.Join(root, "/etc/opkg.conf")}, files...) {
		lines, err := fileLines(file)
		if err != nil {
			continue
		}
		for i, line := range lines {
			if f := parseOpkgFeed(line); f != nil {
				f.file, f.line = file, i
				feeds = append(feeds, f)
			}
		}
	}
	return feeds
}

// writeOpkgLine puts a line in the place of one of a file; "" takes it out.
func writeOpkgLine(file string, at int, text string) error {
	lines, err := fileLines(file)
	if err != nil {
		return pyOSError(err)
	}
	if text == "" {
		lines = append(lines[:at], lines[at+1:]...)
	} else {
		lines[at] = text
	}
	return replaceText(file, strings.Join(lines, "\n")+"\n", 0o644)
}

func opkgListRepos(context.Context, *Call, kwargsOnly) (any, error) {
	out := &Map{}
	for _, f := range opkgFeeds("/") {
		l, _ := out.Value(f.uri).(*List)
		if l == nil {
			l = &List{}
			out.Set(f.uri, l)
		}
		l.Append(f.asMap())
	}
	return out, nil
}

type opkgRepoArgs struct {
	Repo   string
	Kwargs *Map `arg:"**kwargs"`
}

func opkgGetRepo(_ context.Context, _ *Call, a opkgRepoArgs) (any, error) {
	for _, f := range opkgFeeds("/") {
		if f.name == a.Repo {
			return f.asMap(), nil
		}
	}
	return &Map{}, nil
}

func opkgDelRepo(ctx context.Context, c *Call, a opkgRepoArgs) (any, error) {
	told, err := deleteOpkgFeed("/", a.Repo)
	if err != nil {
		return nil, err
	}
	if told == "" {
		return "Repo " + a.Repo + " doesn't exist in the opkg repo lists", nil
	}
	if Truth(kwargOf(a.Kwargs, "refresh", true)) {
		if _, err := (opkgManager{}).refresh(ctx, c, &Map{}); err != nil {
			return nil, err
		}
	}
	return told, nil
}

// deleteOpkgFeed removes a feed everywhere and tells where it was.
func deleteOpkgFeed(root, name string) (told string, err error) {
	feeds := opkgFeeds(root)
	left := map[string]int{}
	for _, f := range feeds {
		left[f.file]++
	}
	for i := len(feeds) - 1; i >= 0; i-- { // from the end, so that places stay right
		f := feeds[i]
		if f.name != name {
			continue
		}
		if left[f.file] == 1 {
			if err := os.Remove(f.file); err != nil {
				return told, pyOSError(err)
			}
			told += "File " + f.file + " containing repo '" + name + "' has been removed.\n"
			continue
		}
		left[f.file]--
		if err := writeOpkgLine(f.file, f.line, ""); err != nil {
			return told, err
		}
		told += "Repo '" + name + "' has been removed from " + f.file + ".\n"
	}
	return told, nil
}

func opkgModRepo(ctx context.Context, c *Call, a opkgRepoArgs) (any, error) {
	if err := changeOpkgFeed("/", a.Repo, a.Kwargs); err != nil {
		return nil, err
	}
	if a.Kwargs.Has("refresh") {
		_, err := (opkgManager{}).refresh(ctx, c, &Map{})
		return nil, err
	}
	return nil, nil
}

// changeOpkgFeed changes a feed, or adds it in a file of its own.
func changeOpkgFeed(root, name string, kw *Map) error {
	var found *opkgFeed
	for _, f := range opkgFeeds(root) {
		if f.name == name {
			found = f
		} else if uri := kw.Str("uri"); uri != "" && f.uri == uri {
			return ExecErrorf("Repository '%s' already exists as '%s'.", uri, f.name)
		}
	}
	isNew := found == nil
	if isNew {
		if !kw.Has("uri") {
			return ExecErrorf("Repository '%s' not found and no URI passed to create one.", name)
		}
		found = &opkgFeed{name: name, packed: true, enabled: true, file: filepath.Join(root, "/etc/opkg", filepath.Base(name)+".conf")}
	}
	if v, ok := kw.Get("uri"); ok {
		found.uri = Str(v)
	}
	if v, ok := kw.Get("alias"); ok {
		found.name = Str(v)
	}
	found.packed = Truth(kwargOf(kw, "compressed", found.packed))
	found.enabled = Truth(kwargOf(kw, "enabled", found.enabled))
	if v := kw.Value("trusted"); v != nil {
		found.options = nil
		if Truth(v) {
			found.options = []string{"[trusted=yes]"}
		}
	}
	if !isNew {
		return writeOpkgLine(found.file, found.line, found.text())
	}
	if err := os.MkdirAll(filepath.Dir(found.file), 0o755); err != nil {
		return pyOSError(err)
	}
	return replaceText(found.file, found.text()+"\n", 0o644)
}

func opkgVersionClean(_ context.Context, _ *Call, a struct{ Version any }) (any, error) {
	return a.Version, nil
}

func opkgNoRequirements(context.Context, *Call, struct{ Pkgname, Pkgver any }) (any, error) {
	return true, nil
}
