// Arguments of state functions that only some calls give: each reaches the
// execution function that it is for.
package main

import "testing"

func TestVirtualenvManagedHandsOnWhatIsForPip(t *testing.T) {
	var got *Map
	s := &scripted{funcs: map[string]scriptedFunc{
		"virtualenv.create": always(NewMap("retcode", int64(0))),
		"cmd.run":           always("Python 3"),
		"pip.freeze":        always(NewList()),
		"pip.install":       func(_ []any, kw *Map) (any, error) { got = kw; return NewMap("retcode", int64(0)), nil },
	}}
	s.state(t, false, "virtualenv.managed", "name", t.TempDir(), "pip_pkgs", NewList("six"), "pip_exists_action", "w", "no_binary", "six",
		"pip_download", "/d", "pip_no_cache_dir", true, "cert", "/c")
	for _, want := range []struct {
		key   string
		value any
	}{{"exists_action", "w"}, {"no_binary", "six"}, {"download", "/d"}, {"no_cache_dir", true}, {"cert", "/c"}, {"use_wheel", false}} {
		if v, given := got.Get(want.key); !given || !Equal(v, want.value) {
			t.Errorf("pip.install got %s=%s, want %s", want.key, Repr(v), Repr(want.value))
		}
	}
}

func TestGitStatesRefuseUnknownArguments(t *testing.T) {
	s := &scripted{funcs: map[string]scriptedFunc{}}
	const want = "The following keyword arguments are not valid: bogus=1"
	wantReturn(t, s.state(t, false, "git.latest", "name", "r", "target", "/t", "bogus", int64(1)), false, want, NewMap())
	wantReturn(t, s.state(t, false, "git.detached", "name", "r", "rev", "x", "target", "/t", "bogus", int64(1)), false, want, NewMap())
}

func TestWaitCallDoesNothingByItself(t *testing.T) {
	s := &scripted{funcs: map[string]scriptedFunc{}}
	wantReturn(t, s.state(t, false, "cmd.wait_call", "name", "x", "func", "f", "stateful", true, "use_vt", false), true, "", NewMap())
	if got := s.state(t, false, "cmd.call", "name", "x", "func", "f", "hide_output", true); got.Value("result") != false {
		t.Errorf("cmd.call returned %s", Repr(got))
	}
}

func TestPatchStates(t *testing.T) {
	s := &scripted{funcs: map[string]scriptedFunc{}}
	wantReturn(t, s.state(t, false, "pkg.patch_installed", "name", "A-1", "advisory_ids", NewList()), false,
		"The pkg.patch_installed state is not available on this platform", NewMap())
	var got *Map
	done := NewMap("pa", NewMap("old", "1", "new", "2"))
	s.funcs["pkg.list_installed_patches"] = always(NewMap("A-1", NewMap("installed", true)))
	s.funcs["pkg.install"] = func(_ []any, kw *Map) (any, error) { got = kw; return done, nil }
	wantReturn(t, s.state(t, false, "pkg.patch_installed", "name", "x", "advisory_ids", NewList()), true, "No advisory ids provided", NewMap())
	wantReturn(t, s.state(t, false, "pkg.patch_installed", "name", "A-1"), true, "Advisory patch A-1 is already installed", NewMap())
	wantReturn(t, s.state(t, false, "pkg.patch_installed", "name", "x", "advisory_ids", NewList("A-1")), true,
		"All specified advisory patches are already installed", NewMap())
	ids := NewList("A-1", "A-2")
	wantReturn(t, s.state(t, true, "pkg.patch_installed", "name", "x", "advisory_ids", ids), nil,
		"The following advisory patches would be downloaded: A-2", NewMap())
	wantReturn(t, s.state(t, false, "pkg.patch_installed", "name", "x", "advisory_ids", ids), true, "", done)
	if !Equal(got.Value("advisory_ids"), ids) || got.Value("downloadonly") != nil {
		t.Errorf("pkg.install got %s", Repr(got))
	}
	done = NewMap()
	wantReturn(t, s.state(t, false, "pkg.patch_downloaded", "name", "x", "advisory_ids", ids, "downloadonly", false), true,
		"Advisory patch is not needed or related packages are already downloaded", NewMap())
	if got.Value("downloadonly") != true {
		t.Errorf("pkg.install got %s", Repr(got))
	}
}

func TestExtendWithAText(t *testing.T) {
	// A loop over a text sees letters: the last one is the function.
	have := NewList("nop", NewMap("name", "x"))
	extendArgs(have, iterated("run"))
	if got, want := Repr(have), "['n', {'name': 'x'}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
