// States of everyday modules against execution modules that a test scripts:
// what they call, and what they report.
package main

import (
	"archive/tar"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// scriptedFunc is a function of a scripted module.
type scriptedFunc func(args []any, kw *Map) (any, error)

func (scriptedFunc) Doc() string { return "" }
func (scriptedFunc) Signature() *Signature {
	return &Signature{Varargs: "args", Kwargs: "kwargs", funcName: "scripted"}
}
func (f scriptedFunc) Invoke(_ context.Context, _ *Call, args []any, kw *Map) (any, error) {
	return f(args, mapOrNew(kw))
}

// scripted are execution modules by function name; calls lists what was called.
type scripted struct {
	funcs map[string]scriptedFunc
	calls []string
}

func (s *scripted) Lookup(_ context.Context, _ *Call, name string) *LoadedModule {
	m := &LoadedModule{Name: name, Provider: name, Funcs: map[string]Function{}}
	for full, f := range s.funcs {
		mod, fun, _ := strings.Cut(full, ".")
		if mod != name {
			continue
		}
		m.Funcs[fun] = scriptedFunc(func(args []any, kw *Map) (any, error) {
			s.calls = append(s.calls, full+Repr(Tuple(args)))
			return f(args, kw)
		})
	}
	if len(m.Funcs) == 0 {
		return nil
	}
	return m
}

func (s *scripted) Names(context.Context, *Call) []string { return nil }

func (s *scripted) called(what string) bool {
	for _, c := range s.calls {
		if strings.HasPrefix(c, what) {
			return true
		}
	}
	return false
}

// state runs one state function over scripted modules.
func (s *scripted) state(t *testing.T, test bool, name string, kw ...any) *Map {
	t.Helper()
	o := DefaultMinionOptions()
	o.Set("cachedir", t.TempDir())
	o.Set("test", test)
	env := &Env{Opts: o, Grains: NewMap("os", "Debian", "os_family", "Debian", "kernel", "Linux"), Pillar: NewMap(), Loader: NewLoader(o, s), Log: discardLog()}
	c := NewCall(env, name, "", nil)
	f, err := NewStateLoader(c).Function(context.Background(), c, name)
	if err != nil {
		t.Fatal(err)
	}
	v, err := f.Invoke(context.Background(), c, nil, NewMap(kw...))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	m, ok := v.(*Map)
	if !ok {
		t.Fatalf("%s returned %s", name, Repr(v))
	}
	return m
}

func always(v any) scriptedFunc { return func([]any, *Map) (any, error) { return v, nil } }

func wantReturn(t *testing.T, got *Map, result any, comment string, changes *Map) {
	t.Helper()
	if !Equal(got.Value("result"), result) || got.Value("comment") != comment || !Equal(got.Value("changes"), changes) {
		t.Errorf("got %s %q %s\nwant %s %q %s", Repr(got.Value("result")), got.Value("comment"), Repr(got.Value("changes")), Repr(result), comment, Repr(changes))
	}
}

func TestServiceStates(t *testing.T) {
	up, boots := false, false
	s := &scripted{funcs: map[string]scriptedFunc{
		"service.available": always(true), "service.offline": always(false),
		"service.status":  func([]any, *Map) (any, error) { return up, nil },
		"service.enabled": func([]any, *Map) (any, error) { return boots, nil },
		"service.start":   func([]any, *Map) (any, error) { up = true; return true, nil },
		"service.stop":    func([]any, *Map) (any, error) { up = false; return true, nil },
		"service.restart": always(true),
		"service.enable":  func([]any, *Map) (any, error) { boots = true; return true, nil },
	}}
	wantReturn(t, s.state(t, true, "service.running", "name", "web", "enable", true), nil, "Service web is set to start", NewMap())
	if s.called("service.start") {
		t.Error("a dry run started the service")
	}
	wantReturn(t, s.state(t, false, "service.running", "name", "web", "enable", true), true, "Service web has been enabled, and is running", NewMap("web", true))
	wantReturn(t, s.state(t, false, "service.running", "name", "web", "enable", true), true, "The service web is already running", NewMap())
	wantReturn(t, s.state(t, false, "service.mod_watch", "name", "web", "sfun", "running"), true, "Service restarted", NewMap("web", true))
	wantReturn(t, s.state(t, false, "service.dead", "name", "web"), true, "Service web was killed", NewMap("web", false))
	s.funcs["service.start"] = always(false)
	wantReturn(t, s.state(t, false, "service.running", "name", "web"), false, "Service web failed to start", NewMap())
}

func TestPackageStates(t *testing.T) {
	have := NewMap("bash", NewList("5.1"))
	s := &scripted{funcs: map[string]scriptedFunc{
		"pkg.list_pkgs": func(_ []any, kw *Map) (any, error) {
			if Truth(kw.Value("purge_desired")) || Truth(kw.Value("removed")) {
				return NewMap(), nil
			}
			return have.Clone(), nil
		},
		"pkg.version_cmp": func(args []any, _ *Map) (any, error) { return int64(strings.Compare(Str(args[0]), Str(args[1]))), nil },
		"pkg.install": func(_ []any, kw *Map) (any, error) {
			done := NewMap()
			for _, p := range toItems(kw.Value("pkgs")) {
				name, version := p.(*Map).At(0)
				if version == nil {
					version = "1"
				}
				have.Set(name, NewList(version))
				done.Set(name, NewMap("old", "", "new", version))
			}
			return done, nil
		},
		"pkg.remove": func(args []any, _ *Map) (any, error) {
			have.Delete(args[0])
			return NewMap(args[0], NewMap("old", "1", "new", "")), nil
		},
		"pkg.get_selections": always(NewMap("hold", NewList("bash"))),
		"pkg.hold":           always(NewMap("vim", NewMap("result", true, "name", "vim", "comment", "held", "changes", NewMap("new", "hold", "old", "install")))),
	}}
	wantReturn(t, s.state(t, false, "pkg.installed", "name", "bash"), true, "All specified packages are already installed", NewMap())
	wantReturn(t, s.state(t, false, "pkg.installed", "name", "x", "pkgs", NewList(NewMap("bash", ">=5"))), true,
		"All specified packages are already installed and are at the desired version", NewMap())
	wantReturn(t, s.state(t, true, "pkg.installed", "name", "vim"), nil, "The following packages would be installed/updated: vim",
		NewMap("vim", NewMap("new", "installed", "old", "")))
	wantReturn(t, s.state(t, false, "pkg.installed", "name", "x", "pkgs", NewList("bash", "vim")), true,
		"The following packages were installed/updated: vim\nThe following packages were already installed: bash",
		NewMap("vim", NewMap("old", "", "new", "1")))
	wantReturn(t, s.state(t, true, "pkg.removed", "name", "vim"), nil, "The following packages will be removed: vim.", NewMap("vim", NewMap("new", "removed", "old", "")))
	wantReturn(t, s.state(t, false, "pkg.removed", "name", "vim"), true, "All targeted packages were removed.", NewMap("vim", NewMap("old", "1", "new", "")))
	wantReturn(t, s.state(t, false, "pkg.removed", "name", "vim"), true, "All specified packages are already absent", NewMap())
	wantReturn(t, s.state(t, false, "pkg.held", "name", "bash"), true, "No changes made", NewMap())
	if got := s.state(t, false, "pkg.held", "name", "vim"); got.Value("comment") != "Package vim is now being held" {
		t.Errorf("held: %s", Repr(got))
	}
	s.funcs["pkg.install"] = func([]any, *Map) (any, error) { return nil, ExecErrorf("no space left") }
	wantReturn(t, s.state(t, false, "pkg.installed", "name", "vim"), false, "An error was encountered while installing package(s): no space left", NewMap())
}

func TestPackageAggregation(t *testing.T) {
	chunk := func(name string, more ...any) *Map {
		m := NewMap("state", "pkg", "fun", "installed", "name", name, "__id__", name)
		m.Merge(NewMap(more...))
		return m
	}
	low := chunk("a", "__agg__", true)
	chunks := NewList(low, chunk("b"), chunk("c", "version", "1"), chunk("d", "hold", true), chunk("e", "pkgs", NewList("f")), chunk("done"))
	running := NewMap(lowTag(chunks.Items[5].(*Map)), NewMap())
	if _, err := pkgStateAggregate(context.Background(), nil, struct {
		Low     *Map
		Chunks  *List
		Running *Map
	}{low, chunks, running}); err != nil {
		t.Fatal(err)
	}
	if want := NewList("b", NewMap("c", "1"), "f"); !Equal(low.Value("pkgs"), want) {
		t.Errorf("pkgs %s, want %s", Repr(low.Value("pkgs")), Repr(want))
	}
}

func TestModuleRunStyles(t *testing.T) {
	s := &scripted{funcs: map[string]scriptedFunc{}}
	wantReturn(t, s.state(t, false, "module.run", "name", "test.echo", "text", "hi"), true, "Module function test.echo executed", NewMap("ret", "hi"))
	wantReturn(t, s.state(t, true, "module.run", "name", "test.echo", "text", "hi"), nil, "Module function test.echo is set to execute", NewMap())
	wantReturn(t, s.state(t, false, "module.run", "name", "test.echo"), false, "The following arguments are missing: text", NewMap())
	wantReturn(t, s.state(t, false, "module.run", "test.echo", NewList(NewMap("text", "hi")), "test.ping", nil), true,
		"test.echo: hi, test.ping: True", NewMap("test.echo", "hi", "test.ping", true))
	wantReturn(t, s.state(t, false, "module.run", "test.echo", nil), false, "'test.echo' failed: Missing arguments: text", NewMap())
	wantReturn(t, s.state(t, false, "module.run", "no.such", nil, "no.other", nil), false, "Unavailable functionTrue: no.such, no.other.", NewMap())
}

func TestUserStateChanges(t *testing.T) {
	user := NewMap("name", "u", "uid", int64(5), "gid", int64(6), "groups", NewList("u"), "home", "/", "shell", "/bin/sh", "fullname", "A",
		"roomnumber", "", "workphone", "", "homephone", "", "other", "")
	s := &scripted{funcs: map[string]scriptedFunc{
		"user.info":           func([]any, *Map) (any, error) { return DeepCopy(user), nil },
		"user.chshell":        func(args []any, _ *Map) (any, error) { user.Set("shell", args[1]); return true, nil },
		"shadow.info":         always(NewMap("passwd", "$6$x", "min", int64(0), "max", int64(9))),
		"shadow.default_hash": always("!"),
		"group.info":          func(args []any, _ *Map) (any, error) { return NewMap("gid", Str(args[0])), nil },
		"file.gid_to_group":   always("u"),
		"file.group_to_gid":   func(args []any, _ *Map) (any, error) { return args[0], nil },
	}}
	wantReturn(t, s.state(t, true, "user.present", "name", "u", "shell", "/bin/zsh"), nil,
		"The following user attributes are set to be changed:\nshell: /bin/zsh\n", NewMap())
	wantReturn(t, s.state(t, false, "user.present", "name", "u", "shell", "/bin/zsh"), true, "Updated user u", NewMap("shell", "/bin/zsh"))
	wantReturn(t, s.state(t, false, "user.present", "name", "u", "shell", "/bin/zsh"), true, "User u is present and up to date", NewMap())
	got := s.state(t, false, "user.present", "name", "u", "uid", int64(7))
	if got.Value("result") != false || !strings.Contains(got.Str("comment"), "Changing uid (5 -> 7) not permitted") {
		t.Errorf("a change of uid that was not allowed: %s", Repr(got))
	}
	if got := s.state(t, true, "user.present", "name", "u", "password", "secret"); strings.Contains(got.Str("comment"), "secret") {
		t.Errorf("the password is shown: %s", got.Str("comment"))
	}
}

func TestHostStateTakesOldNames(t *testing.T) {
	s := &scripted{funcs: map[string]scriptedFunc{
		"hosts.list_hosts": always(NewMap("10.0.0.1", NewMap("aliases", NewList("old")), "10.0.0.2", NewMap("aliases", NewList("x")))),
		"hosts.add_host":   always(true), "hosts.rm_host": always(true),
	}}
	got := s.state(t, false, "host.present", "name", "old", "ip", "10.0.0.2", "clean", true)
	wantReturn(t, got, true, "Added host old (10.0.0.2)\nRemoved host old (10.0.0.1)",
		NewMap("added", NewMap("10.0.0.2", NewList("old")), "removed", NewMap("10.0.0.1", NewList("old"))))
	if got := s.state(t, true, "host.present", "name", "old", "ip", "10.0.0.2"); !Truth(got.Value("warnings")) {
		t.Errorf("no warning of the other address: %s", Repr(got))
	}
}

func TestVersionConditions(t *testing.T) {
	s := &scripted{funcs: map[string]scriptedFunc{
		"pkg.version_cmp": func(args []any, _ *Map) (any, error) { return int64(strings.Compare(Str(args[0]), Str(args[1]))), nil },
	}}
	o := DefaultMinionOptions()
	c := NewCall(&Env{Opts: o, Grains: NewMap(), Loader: NewLoader(o, s), Log: discardLog()}, "x", "", nil)
	for _, x := range []struct {
		installed, wanted string
		updates, want     bool
	}{
		{"2.1", "2.1", false, true}, {"2.1", "2.*", false, true}, {"2.1", ">=2,<3", false, true}, {"3.1", ">=2,<3", false, false},
		{"2.1", "2.0", false, false}, {"2.1", "2.0", true, true}, {"2.1", "!=2.1", false, false}, {"2.1", "", false, true},
	} {
		got, err := fulfillsVersion(context.Background(), c, []any{x.installed}, x.wanted, nil, x.updates)
		if err != nil || got != x.want {
			t.Errorf("%s fulfils %q: %v, %v; want %v", x.installed, x.wanted, got, err, x.want)
		}
	}
}

// tarball writes an archive of names and contents; a name with > is a link.
func tarball(t *testing.T, entries ...[2]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.tar")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	for _, e := range entries {
		h := &tar.Header{Name: e[0], Mode: 0o640, Size: int64(len(e[1])), Typeflag: tar.TypeReg, Uid: os.Getuid(), Gid: os.Getgid()}
		if name, to, ok := strings.Cut(e[0], ">"); ok {
			h.Name, h.Linkname, h.Typeflag, h.Size = name, to, tar.TypeSymlink, 0
		} else if strings.HasSuffix(e[0], "/") {
			h.Typeflag, h.Mode = tar.TypeDir, 0o750
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(e[1])); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUntarKeepsModesAndLinks(t *testing.T) {
	dir := t.TempDir()
	names, err := untarFile(context.Background(), tarball(t, [2]string{"d/"}, [2]string{"d/f", "text"}, [2]string{"d/l>f"}), dir)
	if err != nil || strings.Join(names, " ") != "d d/f d/l" {
		t.Fatalf("%v %v", names, err)
	}
	if p, err := os.ReadFile(filepath.Join(dir, "d/l")); err != nil || string(p) != "text" {
		t.Errorf("through the link: %q, %v", p, err)
	}
	for name, want := range map[string]os.FileMode{"d": 0o750, "d/f": 0o640} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v %v, want %o", name, st, err, want)
		}
	}
}

func TestUntarStaysInItsDirectory(t *testing.T) {
	outside := t.TempDir()
	for name, entries := range map[string][][2]string{
		"parent":   {{"../escaped", "x"}},
		"deep":     {{"a/../../escaped", "x"}},
		"link":     {{"out>" + outside}, {"out/escaped", "x"}},
		"rel link": {{"up>.."}, {"up/escaped", "x"}},
	} {
		base := t.TempDir()
		dir := filepath.Join(base, "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := untarFile(context.Background(), tarball(t, entries...), dir); err == nil {
			t.Errorf("%s: unpacked without an error", name)
		}
		for _, where := range []string{base, outside} {
			if pathExists(filepath.Join(where, "escaped")) {
				t.Errorf("%s: the archive wrote outside of its directory", name)
			}
		}
	}
}

func TestAbsentStatesSayWhy(t *testing.T) {
	s := &scripted{}
	o := DefaultMinionOptions()
	c := NewCall(&Env{Opts: o, Grains: NewMap(), Loader: NewLoader(o, s), Log: discardLog()}, "x", "", nil)
	_, err := NewStateLoader(c).Function(context.Background(), c, "selinux.boolean")
	if err == nil || err.Error() != "'selinux' __virtual__ returned False: selinux module could not be loaded" {
		t.Errorf("selinux: %v", err)
	}
	seen := map[string]bool{}
	for _, e := range builtinStates() {
		if seen[e.calledAs()] {
			t.Errorf("state module %s is listed twice", e.calledAs())
		}
		seen[e.calledAs()] = true
		for fun, f := range e.load().Funcs {
			newBuiltin(fun, f) // panics on a wrong table
		}
	}
}

func TestPythonVersions(t *testing.T) {
	order := []string{"1.0.dev1", "1.0a1", "1.0b2", "1.0rc1", "1.0", "1.0.post1", "1.0.1", "1.2", "1.10", "2!0.1"}
	for i := 1; i < len(order); i++ {
		if comparePython(order[i-1], order[i]) >= 0 || comparePython(order[i], order[i-1]) <= 0 {
			t.Errorf("%s is not before %s", order[i-1], order[i])
		}
	}
	for _, x := range []struct {
		version, pkg string
		want         bool
	}{
		{"1.0.0", "a==1.0", true}, {"1.4.2", "a~=1.4.1", true}, {"1.5", "a~=1.4.1", false}, {"2.1", "a>=2,<3", true},
		{"3.0", "a >=2, <3", false}, {"1.2.3", "a==1.2.*", true}, {"1.3", "a!=1.2.*", true}, {"1", "a[x]", true},
	} {
		w, problem := readPipWanted(x.pkg)
		if problem != "" || w.prefix != "a" || pipFulfills(x.version, w.specs) != x.want {
			t.Errorf("%s with %s: %v %q, want %v", x.pkg, x.version, w, problem, x.want)
		}
	}
	if _, problem := readPipWanted("a=1"); !strings.Contains(problem, "use '==' instead") {
		t.Errorf("a=1: %q", problem)
	}
}

func TestUCIStates(t *testing.T) {
	conf := NewMap("network.lan", NewMap(".type", "interface"), "network.lan.ipaddr", "192.168.1.1", "network.lan.dns", NewList("1.1.1.1", "9.9.9.9"))
	s := &scripted{funcs: map[string]scriptedFunc{
		"uci.get":    func(args []any, _ *Map) (any, error) { return conf.Value(args[0]), nil },
		"uci.set":    func(args []any, _ *Map) (any, error) { conf.Set(args[0], args[1]); return true, nil },
		"uci.delete": func(args []any, _ *Map) (any, error) { conf.Delete(args[0]); return true, nil },
	}}
	name := "network.lan.ipaddr"
	change := NewMap(name, oldNew("192.168.1.1", "10.0.0.1"))
	wantReturn(t, s.state(t, true, "uci.present", "name", name, "value", "10.0.0.1"), nil, name+" is set to be changed", change)
	wantReturn(t, s.state(t, false, "uci.present", "name", name, "value", "10.0.0.1"), true, name+" was set", change)
	wantReturn(t, s.state(t, false, "uci.present", "name", name, "value", "10.0.0.1"), true, name+" is already set", NewMap())
	wantReturn(t, s.state(t, false, "uci.present", "name", "network.lan", "type", "interface", "values", NewMap("dns", NewList("1.1.1.1", "9.9.9.9"), "up", true)), true,
		"network.lan was set", NewMap("network.lan.up", oldNew(nil, "1")))
	wantReturn(t, s.state(t, false, "uci.absent", "name", name), true, name+" was removed", NewMap(name, oldNew("10.0.0.1", nil)))
	wantReturn(t, s.state(t, false, "uci.absent", "name", name), true, name+" is already absent", NewMap())
	s.funcs["uci.set"] = func([]any, *Map) (any, error) { return nil, ExecErrorf("read-only") }
	wantReturn(t, s.state(t, false, "uci.present", "name", name, "value", "x"), false, "Failed to set "+name+": read-only", NewMap())
}
