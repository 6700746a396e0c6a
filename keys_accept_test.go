// Who is let in: the decision on a login, apart from how it is carried out.
package main

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"
)

func TestDecideAuth(t *testing.T) {
	keys := readVectorKeys(t)
	mine, other := []byte(keys.pub["minion"].PEM()), []byte(keys.pub["minion2"].PEM())
	for _, c := range []struct {
		name       string
		facts      AuthFacts
		reject     bool
		sign       bool
		ret, act   string
		store      string
		event      bool
		move, drop bool
	}{
		{name: "invalid id", facts: AuthFacts{IDErr: errors.New("x"), Accepted: mine, OpenMode: true}, ret: AuthRefused},
		{name: "full", facts: AuthFacts{Full: true, Accepted: mine, OpenMode: true}, ret: AuthFull, act: "full", event: true},
		{name: "text that is no key", facts: AuthFacts{Pub: []byte("junk"), OpenMode: true}, ret: AuthRefused, event: true},
		{name: "open mode, unknown", facts: AuthFacts{OpenMode: true}, ret: AuthAccepted, act: "accept", store: KeyAccepted, event: true},
		{name: "open mode, other key", facts: AuthFacts{OpenMode: true, Accepted: other}, ret: AuthAccepted, act: "accept", store: KeyAccepted, event: true},
		{name: "open mode, rejected", facts: AuthFacts{OpenMode: true, Rejected: mine}, ret: AuthAccepted, act: "accept", store: KeyAccepted, event: true},
		{name: "open mode, known", facts: AuthFacts{OpenMode: true, Accepted: mine}, ret: AuthAccepted, act: "accept", event: true},
		{name: "rejected", facts: AuthFacts{Rejected: mine, Accepted: mine}, ret: AuthRefused, event: true},
		{name: "rejected, autosign", facts: AuthFacts{Rejected: mine}, sign: true, ret: AuthRefused, event: true},
		{name: "accepted, other key", facts: AuthFacts{Accepted: other, Pending: mine}, sign: true, ret: AuthRefused, act: "denied", store: KeyDenied, event: true},
		{name: "accepted", facts: AuthFacts{Accepted: mine, Pending: other}, reject: true, ret: AuthAccepted, act: "accept", event: true},
		{name: "unknown, autoreject before autosign", reject: true, sign: true, ret: AuthRefused, act: "reject", store: KeyRejected, event: true},
		{name: "unknown, autosign", sign: true, ret: AuthAccepted, act: "accept", store: KeyAccepted, event: true},
		{name: "unknown", ret: AuthPending, act: "pend", store: KeyPending, event: true},
		{name: "pending, autoreject", facts: AuthFacts{Pending: other}, reject: true, ret: AuthRefused, act: "reject", move: true, event: true},
		{name: "pending, other key", facts: AuthFacts{Pending: other}, ret: AuthRefused, act: "denied", store: KeyDenied, event: true},
		{name: "pending", facts: AuthFacts{Pending: mine}, ret: AuthPending, act: "pend", event: true},
		{name: "pending, autosign, other key", facts: AuthFacts{Pending: other}, sign: true, ret: AuthRefused, store: KeyDenied, event: true},
		{name: "pending, autosign", facts: AuthFacts{Pending: mine}, sign: true, ret: AuthAccepted, act: "accept", store: KeyAccepted, drop: true, event: true},
		{name: "accepted file is no key", facts: AuthFacts{Accepted: []byte("junk")}, ret: AuthRefused, act: "denied", store: KeyDenied, event: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.facts.ID = "web"
			if c.facts.Pub == nil {
				c.facts.Pub = mine
			}
			c.facts.Autoreject = func() bool { return c.reject }
			c.facts.Autosign = func() bool { return c.sign }
			d := DecideAuth(c.facts)
			if d.Ret != c.ret || d.Act != c.act || d.Store != c.store || d.Event != c.event ||
				d.MovePending != c.move || d.RemovePending != c.drop {
				t.Errorf("%+v", d)
			}
			if wantResult := c.ret == AuthAccepted || c.ret == AuthPending; d.Result != wantResult {
				t.Errorf("result %v", d.Result)
			}
			if d.Why == "" {
				t.Error("no reason for the log")
			}
		})
	}
}

func TestAutosignRules(t *testing.T) {
	dir := t.TempDir()
	d := OpenKeyDir(filepath.Join(dir, "pki"))
	if err := d.Create(); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(p), 0o755)
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		os.Chmod(p, mode)
		return p
	}
	glob := func(pattern, id string) bool { ok, _ := path.Match(pattern, id); return ok }
	now := time.Now()
	autosigned := func(r *AuthRules, grains *Map) bool {
		t.Helper()
		r.Match = glob
		f, err := d.GatherAuth(&AuthRequest{ID: "web1", AutosignGrains: grains}, r, false, now)
		if err != nil {
			t.Fatal(err)
		}
		return f.Autosign()
	}
	file := write("autosign.conf", "# web1\n\n  web*  \n", 0o644)
	if !autosigned(&AuthRules{AutosignFile: file}, nil) {
		t.Error("autosign_file with a glob does not match")
	}
	if autosigned(&AuthRules{AutosignFile: write("comment", "#web1\n", 0o644)}, nil) {
		t.Error("a comment matches")
	}
	loose := write("loose.conf", "web*\n", 0o666)
	if autosigned(&AuthRules{AutosignFile: loose, PermissivePKI: true}, nil) {
		t.Error("a file that all can write is believed")
	}
	group := write("group.conf", "web*\n", 0o664)
	if autosigned(&AuthRules{AutosignFile: group}, nil) || !autosigned(&AuthRules{AutosignFile: group, PermissivePKI: true}, nil) {
		t.Error("group write access is not as permissive_pki_access says")
	}
	if autosigned(&AuthRules{AutosignFile: filepath.Join(dir, "missing")}, nil) || autosigned(&AuthRules{}, nil) {
		t.Error("no rules, and accepted")
	}
	if !autosigned(&AuthRules{AutoAccept: true}, nil) {
		t.Error("auto_accept")
	}

	write("grains/uuid", "other\n4ac3\n", 0o644)
	write("uuid2", "4ac3\n", 0o644)
	grains := &AuthRules{AutosignGrainsDir: filepath.Join(dir, "grains")}
	if !autosigned(grains, NewMap("uuid", "4ac3")) {
		t.Error("a grain of the list does not match")
	}
	for _, g := range []*Map{nil, NewMap("uuid", "4ac"), NewMap("nosuch", "4ac3"), NewMap("../uuid2", "4ac3"), NewMap("/etc/passwd", "x"), NewMap(int64(1), "x")} {
		if autosigned(grains, g) {
			t.Errorf("accepted for the grains %s", Repr(g))
		}
	}
	write("grains/serial", "12\n", 0o644)
	if !autosigned(grains, NewMap("serial", int64(12))) {
		t.Error("a number is not compared as text")
	}

	stub := write("pki/minions_autosign/web1", "", 0o644)
	if !autosigned(&AuthRules{AutosignTimeout: 2 * time.Hour}, nil) {
		t.Error("a stub does not accept")
	}
	if autosigned(&AuthRules{AutosignTimeout: 2 * time.Hour}, nil) {
		t.Error("a stub accepts twice")
	}
	write("pki/minions_autosign/web1", "", 0o644)
	os.Chtimes(stub, now, now.Add(-3*time.Hour))
	if autosigned(&AuthRules{AutosignTimeout: 2 * time.Hour}, nil) {
		t.Error("an old stub accepts")
	}
	if _, err := os.Stat(stub); err == nil {
		t.Error("an old stub stays")
	}
}

func TestLoginIsCarriedOut(t *testing.T) {
	keys := readVectorKeys(t)
	d := OpenKeyDir(filepath.Join(t.TempDir(), "pki"))
	login := func(key string, rules *AuthRules) AuthDecision {
		t.Helper()
		f, err := d.GatherAuth(&AuthRequest{ID: "web", Pub: keys.pub[key].PEM()}, rules, false, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		dec := DecideAuth(f)
		if err := d.CarryOut(f, dec); err != nil {
			t.Fatal(err)
		}
		return dec
	}
	rules := &AuthRules{}
	if dec := login("minion", rules); dec.Ret != AuthPending || !d.Has(KeyPending, "web") {
		t.Errorf("first login: %+v", dec)
	}
	if dec := login("minion2", rules); dec.Act != "denied" || !d.Has(KeyDenied, "web") {
		t.Errorf("login with another key: %+v", dec)
	}
	if dec := login("minion", &AuthRules{AutoAccept: true}); dec.Ret != AuthAccepted || d.Has(KeyPending, "web") || !d.Has(KeyAccepted, "web") {
		t.Errorf("login with auto_accept: %+v", dec)
	}
	if err := d.Reject("web"); err != nil {
		t.Fatal(err)
	}
	if dec := login("minion", &AuthRules{AutoAccept: true}); dec.Ret != AuthRefused {
		t.Errorf("login when rejected: %+v", dec)
	}
}
