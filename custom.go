// Modules that users write: files in _modules, _states, _grains … that
// saltutil.sync_* carried to this box, or that stand in module_dirs.
//
// The law of this room: a file is run by the first that can: a .py file by the
// box's Python in a host process (custom_python.go), or, without Python, by
// Starlark where its syntax allows (custom_starlark.go); a .star file always by
// Starlark; any other file that is a program (a #! line or an ELF image) as a
// program (custom_exec.go). What a file does wrong costs that file alone: it is
// reported once, by name, and everybody else's modules go on.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// customKinds maps the kinds of user-written files to the names of their
// directories below extension_modules; the source directory is "_" + dir, but
// for outputters it is _output and _outputters.
var customKinds = [...]string{"modules", "states", "grains", "utils", "returners", "runners", "output", "pillar", "renderers",
	"beacons", "clouds", "engines", "executors", "log_handlers", "matchers", "proxymodules", "sdb", "serializers", "thorium", "wheel", "tops"}

// customModule is one loaded file.
type customModule struct {
	file    string // name without suffix
	path    string
	called  string // the name that __virtual__ chose
	doc     string
	refused string
	funcs   map[string]Function
}

// Customs are the user-written files of one minion. Safe for concurrent use.
type Customs struct {
	opts *Options
	host *pythonHost // nil: no Python on this box

	mu       sync.Mutex
	files    map[customKey]string // path by kind and name
	loaded   map[customKey]*customModule
	scanned  bool
	stamp    string          // of the directories, when Follow looked last
	reported map[string]bool // problems already logged
}

type customKey struct{ kind, name string }

// NewCustoms prepares the user-written files of a minion; nothing is read and
// no process is started before a module is asked for. Close ends what runs.
func NewCustoms(o *Options) *Customs {
	return &Customs{opts: o, host: newPythonHost(o), reported: map[string]bool{}}
}

// Close ends the Python host.
func (u *Customs) Close() {
	if u != nil {
		u.host.stop()
	}
}

// Refresh forgets what was loaded, so that the next use reads the files anew.
func (u *Customs) Refresh() {
	u.mu.Lock()
	u.files, u.loaded, u.scanned = nil, nil, false
	u.reported = map[string]bool{}
	u.mu.Unlock()
	u.host.stop() // may wait for an import; nobody waits with it
}

// Follow is for who lives long and is told of no change, as a master: it
// forgets what was loaded if a file has changed since, and says whether it did.
func (u *Customs) Follow() bool {
	if u == nil {
		return false
	}
	var b strings.Builder
	for _, kind := range customKinds {
		for _, dir := range u.dirs(kind) {
			entries, err := os.ReadDir(dir)
			if err != nil {
				continue
			}
			for _, e := range entries {
				if info, err := e.Info(); err == nil {
					fmt.Fprintf(&b, "%s/%s@%d.%d\n", dir, e.Name(), info.ModTime().UnixNano(), info.Size())
				}
			}
		}
	}
	u.mu.Lock()
	changed := u.scanned && u.stamp != b.String()
	u.stamp = b.String()
	u.mu.Unlock()
	if changed {
		u.Refresh()
	}
	return changed
}

// modules is u as the loader takes it.
func (u *Customs) modules() CustomModules {
	if u == nil {
		return nil
	}
	return u
}

// customs are the files of the user behind a loader, nil for none.
func (l *Loader) customs() *Customs {
	if l == nil {
		return nil
	}
	switch u := l.custom.(type) {
	case *Customs:
		return u
	case customRunners:
		return u.Customs
	}
	return nil
}

// extmodsDir is where files of the file server lie on this box.
func extmodsDir(o *Options) string {
	if ext := o.Path("extension_modules"); ext != "" {
		return ext
	}
	return filepath.Join(o.Path("cachedir"), "extmods")
}

// dirsOption is the option that names further directories of a kind.
func dirsOption(kind string) string {
	switch kind {
	case "modules", "returners", "runners":
		return strings.TrimSuffix(kind, "s") + "_dirs"
	case "output":
		return "outputter_dirs"
	case "renderers":
		return "render_dirs"
	case "tops":
		return "top_dirs"
	}
	return kind + "_dirs"
}

// dirs lists where files of a kind are looked for; the first hit wins: trees
// that module_dirs (or -m) names, the last of them first, what was synced, and
// directories of this kind alone.
func (u *Customs) dirs(kind string) []string {
	var out []string
	for _, tree := range u.opts.List("module_dirs") {
		for _, sub := range []string{kind, "_" + kind} {
			if dir := filepath.Join(tree, sub); isDir(dir) {
				out = append([]string{dir}, out...)
				break
			}
		}
	}
	out = append(out, filepath.Join(extmodsDir(u.opts), kind))
	return append(out, u.opts.List(dirsOption(kind))...)
}

// scan finds the files once; the lock is held.
func (u *Customs) scan() {
	if u.scanned {
		return
	}
	u.scanned = true
	u.files = map[customKey]string{}
	u.loaded = map[customKey]*customModule{}
	for _, kind := range customKinds {
		for _, dir := range u.dirs(kind) {
			entries, err := os.ReadDir(dir)
			if err != nil {
				continue
			}
			for _, e := range entries {
				name, ok := customName(dir, e)
				if !ok {
					continue
				}
				key := customKey{kind, name}
				if _, dup := u.files[key]; !dup {
					u.files[key] = filepath.Join(dir, e.Name())
				}
			}
		}
	}
}

// customName is the module name of a directory entry; a package is a directory
// with __init__.py.
func customName(dir string, e fs.DirEntry) (string, bool) {
	name := e.Name()
	if strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") {
		return "", false
	}
	if e.IsDir() {
		_, err := os.Stat(filepath.Join(dir, name, "__init__.py"))
		return name, err == nil && isModuleName(name)
	}
	ext := filepath.Ext(name)
	if ext == ".pyc" || ext == ".pyo" {
		return "", false
	}
	name = strings.TrimSuffix(name, ext)
	return name, isModuleName(name)
}

// isModuleName says whether functions of a file of that name can be called: a
// dot would end the name of the module.
func isModuleName(s string) bool {
	return s != "" && !strings.ContainsAny(s, "./\\\x00 ") && utf8.ValidString(s)
}

// Has says whether a file of a kind may be called name, without loading it.
func (u *Customs) Has(kind, name string) bool {
	if u == nil {
		return false
	}
	for _, file := range u.names(kind) {
		if file == name || u.mayBeCalled(kind, file, name) {
			return true
		}
	}
	return false
}

// HasAny says whether there is any file of a kind.
func (u *Customs) HasAny(kind string) bool { return u != nil && len(u.names(kind)) > 0 }

// Function finds one function of a file of a kind, such as render of a renderer
// or returner of a returner; nil if the users wrote none. The error is that the
// file refused this box, or cannot be loaded.
func (u *Customs) Function(ctx context.Context, c *Call, kind, name, fun string) (Function, error) {
	if !u.Has(kind, name) {
		return nil, nil
	}
	m := u.LookupKind(ctx, c, kind, name)
	if m == nil {
		return nil, nil
	}
	if m.Refused != "" {
		return nil, errors.New(m.Refused)
	}
	if f, ok := m.Funcs[fun]; ok {
		return f, nil
	}
	return nil, nil
}

func (u *Customs) names(kind string) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.scan()
	var out []string
	for k := range u.files {
		if k.kind == kind {
			out = append(out, k.name)
		}
	}
	sort.Strings(out)
	return out
}

// nestedLoad marks the context of calls that a file makes while it is loaded:
// those see only what is loaded already, or two files could wait for each other.
type nestedLoad struct{}

// module loads one file of a kind, once.
func (u *Customs) module(ctx context.Context, c *Call, kind, name string) *customModule {
	u.mu.Lock()
	u.scan()
	key := customKey{kind, name}
	m, done := u.loaded[key]
	path, ok := u.files[key]
	u.mu.Unlock()
	if done || !ok || ctx.Value(nestedLoad{}) != nil {
		return m
	}
	m = u.load(context.WithValue(ctx, nestedLoad{}, true), c, kind, name, path)
	u.mu.Lock()
	defer u.mu.Unlock()
	if have, ok := u.loaded[key]; ok {
		return have
	}
	if u.loaded != nil {
		u.loaded[key] = m
	}
	return m
}

func (u *Customs) load(ctx context.Context, c *Call, kind, name, path string) *customModule {
	began := time.Now()
	m, err := u.loadFile(ctx, c, kind, name, path)
	if err == nil {
		err = m.checkNames()
	}
	if err != nil {
		u.report(c, path, err)
		return &customModule{file: name, path: path, called: name, refused: firstLine(err.Error())}
	}
	m.file, m.path = name, path
	if m.called == "" {
		m.called = name
	}
	c.Log.Debug(fmt.Sprintf("loaded %s in %s", path, time.Since(began).Round(time.Millisecond)))
	return m
}

// checkNames refuses names that nobody could call: they end up in lists, logs and
// paths of the cache.
func (m *customModule) checkNames() error {
	if m.called != "" && !isModuleName(m.called) {
		return fmt.Errorf("%q cannot be the name of a module", m.called)
	}
	for name := range m.funcs {
		if !isModuleName(name) {
			return fmt.Errorf("%q cannot be the name of a function", name)
		}
	}
	return nil
}

func (u *Customs) loadFile(ctx context.Context, c *Call, kind, name, path string) (*customModule, error) {
	switch filepath.Ext(path) {
	case ".star":
		return loadStarlark(path, false)
	case ".py", "":
		if info, err := os.Stat(path); err == nil && (info.IsDir() || filepath.Ext(path) == ".py") {
			if u.host.available() {
				return u.host.load(ctx, c, u, kind, name, path)
			}
			return loadStarlark(path, true)
		}
	}
	return loadProgram(ctx, c, path)
}

// report logs what is wrong with a file, once until the next refresh.
func (u *Customs) report(c *Call, path string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.reported[path] {
		return
	}
	u.reported[path] = true
	text := err.Error()
	var e *ModuleError
	if errors.As(err, &e) && e.Trace != "" {
		text = e.Trace
	}
	c.Log.Error(fmt.Sprintf("cannot load %s: %s", path, strings.TrimSpace(text)))
}

// Lookup implements CustomModules.
func (u *Customs) Lookup(ctx context.Context, c *Call, name string) *LoadedModule {
	return u.LookupKind(ctx, c, "modules", name)
}

// LookupKind finds the module of a kind that is called name: the file of that
// name, or one whose __virtual__ chose it. Several files may share a virtual
// name; their functions are joined, the first file's win.
func (u *Customs) LookupKind(ctx context.Context, c *Call, kind, name string) *LoadedModule {
	var found *LoadedModule
	add := func(m *customModule) {
		if m == nil || m.called != name {
			return
		}
		if m.refused != "" {
			if found == nil {
				found = &LoadedModule{Name: name, Provider: m.file, Refused: m.refused}
			}
			return
		}
		if found == nil || found.Refused != "" {
			found = &LoadedModule{Name: name, Provider: m.file, Doc: m.doc, Funcs: map[string]Function{}}
		}
		for fun, f := range m.funcs {
			if _, dup := found.Funcs[fun]; !dup {
				found.Funcs[fun] = f
			}
		}
	}
	add(u.module(ctx, c, kind, name))
	if found != nil && found.Refused == "" {
		return found
	}
	for _, other := range u.names(kind) {
		if other != name && u.mayBeCalled(kind, other, name) {
			add(u.module(ctx, c, kind, other))
		}
	}
	return found
}

// mayBeCalled says whether a file could have the virtual name: it must have
// the name in its text, which saves starting Python for names it cannot have.
func (u *Customs) mayBeCalled(kind, file, name string) bool {
	u.mu.Lock()
	path := u.files[customKey{kind, file}]
	u.mu.Unlock()
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "__init__.py")
	}
	text, err := os.ReadFile(path)
	return err == nil && bytes.Contains(text, []byte("__virtual")) && bytes.Contains(text, []byte(name))
}

// Names implements CustomModules.
func (u *Customs) Names(ctx context.Context, c *Call) []string { return u.NamesKind(ctx, c, "modules") }

// NamesKind lists the names by which modules of a kind are called.
func (u *Customs) NamesKind(ctx context.Context, c *Call, kind string) []string {
	seen := map[string]bool{}
	for _, file := range u.names(kind) {
		if m := u.module(ctx, c, kind, file); m != nil && m.refused == "" {
			seen[m.called] = true
		}
	}
	out := make([]string, 0, len(seen))
	for n := range seen {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

// Grains runs the functions of the files in _grains and joins their results.
// A function that fails costs its own grains only.
func (u *Customs) Grains(ctx context.Context, c *Call) *Map {
	out := &Map{}
	for _, file := range u.names("grains") {
		m := u.module(ctx, c, "grains", file)
		if m == nil || m.refused != "" {
			continue
		}
		names := make([]string, 0, len(m.funcs))
		for n := range m.funcs {
			names = append(names, n)
		}
		sort.Strings(names)
		for _, n := range names {
			f := m.funcs[n]
			var args []any
			if s := f.Signature(); len(s.Params) > 0 && s.Params[0].Name == "grains" {
				args = []any{c.Grains}
			}
			v, err := f.Invoke(ctx, c, args, nil)
			if err != nil {
				c.Log.Error(fmt.Sprintf("grains: %s in %s: %s", n, m.path, err))
				continue
			}
			g, ok := v.(*Map)
			if !ok {
				continue
			}
			if _, err := EncodeWire(g); err != nil { // no master could be told
				c.Log.Error(fmt.Sprintf("grains: %s in %s: %s", n, m.path, err))
				continue
			}
			out.Merge(g)
		}
	}
	return out
}

// paths lists the files of a kind for the Python host's own look-ups.
func (u *Customs) paths(kind string) map[string]string {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.scan()
	out := map[string]string{}
	for k, p := range u.files {
		if k.kind == kind {
			out[k.name] = p
		}
	}
	return out
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
