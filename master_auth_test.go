// Logins at a master that runs: waiting, refusals, versions, modes and limits.
package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestLoginWaitsForAcceptance(t *testing.T) {
	m := startMaster(t)
	events := m.bus.Subscribe("salt/auth", 16)
	f := m.minion(t, "web1", 1)
	if ret := f.login(t, nil); ret != AuthPending {
		t.Fatalf("first login: %q", ret)
	}
	ev := nextEvent(t, events, "salt/auth")
	wantValue(t, "act", ev.Value("act"), "pend")
	wantValue(t, "id", ev.Value("id"), "web1")
	if err := m.keys.Accept("web1"); err != nil {
		t.Fatal(err)
	}
	for _, algo := range [][2]string{{AlgoOAEPSHA1, AlgoPKCS1v15SHA1}, {AlgoOAEPSHA224, AlgoPKCS1v15SHA224}} {
		f.enc, f.sig = algo[0], algo[1]
		if ret := f.login(t, nil); ret != AuthAccepted {
			t.Fatalf("login with %v: %q", algo, ret)
		}
	}
	wantValue(t, "port", int64(f.reply.PublishPort), int64(m.publishPort))
	wantValue(t, "act", nextEvent(t, events, "salt/auth").Value("act"), "accept")
	wantLog(t, m, "web1", "127.0.0.1", "waiting for acceptance")
	// Without a token, as a minion that does not know the master yet.
	if ret := f.login(t, func(a *AuthRequest) { a.Token = nil }); ret != AuthAccepted || f.reply.Token != nil {
		t.Errorf("login without token: %q, token %x", ret, f.reply.Token)
	}
	// A token for another master is ignored.
	if ret := f.login(t, func(a *AuthRequest) { a.Token = make([]byte, 256) }); ret != AuthAccepted || f.reply.Token != nil {
		t.Errorf("login with a token that does not open: %q, token %x", ret, f.reply.Token)
	}
}

func TestLoginRefusals(t *testing.T) {
	m := startMaster(t)
	f := m.accepted(t, "db1", 1)
	for _, c := range []struct {
		name   string
		change func(*AuthRequest)
		ret    string
		log    string
	}{
		{"an invalid id", func(a *AuthRequest) { a.ID = "../db1" }, AuthRefused, "../db1"},
		{"an unknown signing algorithm", func(a *AuthRequest) { a.SigAlgo = "MD5" }, AuthBadSig, "MD5"},
		{"an unknown encryption algorithm", func(a *AuthRequest) { a.EncAlgo = "ROT13"; a.Token = nil }, AuthBadEnc, "ROT13"},
		{"a text that is no key", func(a *AuthRequest) { a.ID = "new"; a.Pub = "ssh-rsa AAAA" }, AuthRefused, "not usable"},
	} {
		if ret := f.login(t, c.change); ret != c.ret {
			t.Errorf("%s: %q, want %q", c.name, ret, c.ret)
		}
		wantLog(t, m, "127.0.0.1", c.log)
	}
	if m.keys.Has(KeyPending, "new") {
		t.Error("the text that is no key was stored")
	}
	// The one below is a request that the decoder refuses.
	if v, err := DecodeWire(ask(t, f.r, mustEncode(t, NewMap("enc", "clear", "load", NewMap("cmd", "_auth", "id", "x"), "version", int64(3))))); err != nil || v != "bad load" {
		t.Errorf("login without key: %s, %v", Repr(v), err)
	}
}

func mustEncode(t testing.TB, v any) []byte {
	t.Helper()
	p, err := EncodeWire(v)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMinimumAuthVersion(t *testing.T) {
	m := startMaster(t)
	f := m.accepted(t, "old", 1)
	f.version = 2
	if ret := f.login(t, nil); ret != AuthRefused {
		t.Errorf("version 2 against the default: %q", ret)
	}
	wantLog(t, m, "'old'", "127.0.0.1", "version 2", "minimum_auth_version is 3")
	if _, err := f.try(t, "cmd", "_file_envs"); !errors.Is(err, ErrBadMAC) {
		t.Errorf("request of version 2: %v", err)
	}
	for version := range 3 {
		low := startMaster(t, "minimum_auth_version", int64(0))
		f := low.accepted(t, "old", 1)
		f.version = version
		if ret := f.login(t, nil); ret != AuthAccepted {
			t.Fatalf("version %d: %q", version, ret)
		}
		nonce := NewNonce()
		reply := ask(t, f.r, f.sealed(t, NewMap("cmd", "_file_envs"), nonce))
		if version < 2 {
			nonce = ""
		}
		v, err := OpenReply(f.aes, reply, nonce)
		if err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		wantValue(t, "envs", v, NewList("base"))
	}
}

func TestTwoKeysUnderOneID(t *testing.T) {
	m := startMaster(t)
	m.accepted(t, "clone", 1)
	events := m.bus.Subscribe("salt/auth", 16)
	if ret := m.minion(t, "clone", 2).login(t, nil); ret != AuthRefused {
		t.Fatalf("second key: %q", ret)
	}
	wantValue(t, "act", nextEvent(t, events, "salt/auth").Value("act"), "denied")
	ev := nextEvent(t, events, "salt/auth/duplicate")
	keys := masterTestKeys()
	wantValue(t, "fingerprint", ev.Value("fingerprint"), Fingerprint([]byte(keys[1].PublicPEM()), "sha256"))
	wantValue(t, "sent", ev.Value("sent"), Fingerprint([]byte(keys[2].PublicPEM()), "sha256"))
	wantLog(t, m, "two keys claim the id clone", ev.Str("fingerprint"), ev.Str("sent"), "127.0.0.1")
	if !m.keys.Has(KeyDenied, "clone") {
		t.Error("the second key is not among the denied")
	}
}

func TestOpenModeWarnsAndAccepts(t *testing.T) {
	m := startMaster(t, "open_mode", true)
	wantLog(t, m, "WARNING", "open_mode", "EVERY minion")
	if ret := m.minion(t, "any", 1).login(t, nil); ret != AuthAccepted {
		t.Errorf("login: %q", ret)
	}
	if ret := m.minion(t, "any", 2).login(t, nil); ret != AuthAccepted {
		t.Errorf("login with another key: %q", ret)
	}
}

func TestMaxMinions(t *testing.T) {
	m := startMaster(t, "max_minions", int64(1))
	a := m.accepted(t, "a", 1)
	a.subscribe(t)
	if err := m.keys.Put(KeyAccepted, "b", []byte(masterTestKeys()[2].PublicPEM())); err != nil {
		t.Fatal(err)
	}
	if ret := m.minion(t, "b", 2).login(t, nil); ret != AuthFull {
		t.Errorf("one too many: %q", ret)
	}
	if ret := a.login(t, nil); ret != AuthAccepted {
		t.Errorf("the one that is connected: %q", ret)
	}
}

func TestSignedMasterKey(t *testing.T) {
	m := startMaster(t, "master_sign_pubkey", true)
	f := m.accepted(t, "m", 1)
	text, err := os.ReadFile(filepath.Join(m.dir, "pki", "master_sign.pub"))
	if err != nil {
		t.Fatal(err)
	}
	pub, err := ParsePublicKey(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, algo := range []string{AlgoPKCS1v15SHA1, AlgoPKCS1v15SHA224} {
		f.sig = algo
		if ret := f.login(t, nil); ret != AuthAccepted {
			t.Fatal(ret)
		}
		if err := pub.VerifyPub(algo, f.reply.PubKey, f.reply.PubSig); err != nil {
			t.Errorf("%s: %v", algo, err)
		}
	}
}

// A rotation: the drop file makes a new key, old publications keep their key, and
// the minion gets the new one by logging in again. Session keys stay.
func TestKeyRotation(t *testing.T) {
	m := startMaster(t, "loop_interval", 0.05)
	f := m.accepted(t, "m", 1)
	sub := f.subscribe(t)
	m.publishAsOwner(t, "*", "glob", "test.ping")
	wantValue(t, "serial", f.job(t, sub).Value("serial"), int64(1))
	old := f.aes
	events := m.bus.Subscribe("key", 4)
	drop := filepath.Join(m.cachedir, ".dfn")
	if err := os.WriteFile(drop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantLog(t, m, "wrong permissions")
	if err := os.Chmod(drop, 0o400); err != nil {
		t.Fatal(err)
	}
	wantValue(t, "event", nextEvent(t, events, "key").Value("rotate_aes_key"), true)
	wantValue(t, "envs with the old session", f.call(t, "cmd", "_file_envs"), NewList("base"))
	m.publishAsOwner(t, "*", "glob", "test.ping")
	if ret := f.login(t, nil); ret != AuthAccepted || f.aes == old {
		t.Fatalf("login after the rotation: %q", ret)
	}
	job := f.job(t, sub) // published under the new key
	wantValue(t, "serial", job.Value("serial"), int64(1))
	if _, err := os.Stat(drop); err == nil {
		t.Error("the drop file is still there")
	}
}

func TestSessionsOutliveTheMaster(t *testing.T) {
	dir := shortTempDir(t)
	m := startMasterIn(t, dir)
	f := m.accepted(t, "m", 1)
	m.stop()
	m = startMasterIn(t, dir)
	f.m, f.r = m, m.asker(t)
	wantValue(t, "envs", f.call(t, "cmd", "_file_envs"), NewList("base"))
}

// A key that is gone counts at once, also if somebody else removed the file.
func TestRemovedKeyIsRefusedAtOnce(t *testing.T) {
	m := startMaster(t)
	f := m.accepted(t, "m", 1)
	wantValue(t, "envs", f.call(t, "cmd", "_file_envs"), NewList("base"))
	if err := os.Remove(filepath.Join(m.dir, "pki", KeyAccepted, "m")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.try(t, "cmd", "_file_envs"); !errors.Is(err, ErrBadMAC) {
		t.Errorf("request without a key: %v", err)
	}
	// Nor does another key under that id make the old token good.
	if err := m.keys.Put(KeyAccepted, "m", []byte(masterTestKeys()[2].PublicPEM())); err != nil {
		t.Fatal(err)
	}
	if _, err := f.try(t, "cmd", "_file_envs"); !errors.Is(err, ErrBadMAC) {
		t.Errorf("request with another key's token: %v", err)
	}
}

func TestRevokeAuth(t *testing.T) {
	m := startMaster(t, "allow_minion_key_revoke", false)
	f := m.accepted(t, "m", 1)
	if v, ok := f.call(t, "cmd", "revoke_auth").(*Map); !ok || v.Str("id") != "m" {
		t.Errorf("revoke that is off: %v", v)
	}
	m = startMaster(t)
	f = m.accepted(t, "m", 1)
	events := m.bus.Subscribe("salt/key", 4)
	wantValue(t, "revoke", f.call(t, "cmd", "revoke_auth"), true)
	wantValue(t, "event", nextEvent(t, events, "salt/key").Value("act"), "delete")
	if _, err := f.try(t, "cmd", "_file_envs"); !errors.Is(err, ErrBadMAC) {
		t.Errorf("request after revoking: %v", err)
	}
}

// Many logins at once: each is answered, and other requests go on meanwhile.
func TestLoginStorm(t *testing.T) {
	m := startMaster(t)
	f := m.accepted(t, "m", 1)
	const n = 60
	done := make(chan string, n)
	for range n {
		g := m.minion(t, "m", 1)
		go func() {
			ret := "failed"
			defer func() { done <- ret }()
			ret = g.login(t, nil)
		}()
	}
	started := time.Now()
	wantValue(t, "envs", f.call(t, "cmd", "_file_envs"), NewList("base"))
	if d := time.Since(started); d > 5*time.Second {
		t.Errorf("a request took %v beside logins", d)
	}
	for range n {
		if ret := <-done; ret != AuthAccepted {
			t.Fatalf("login: %q", ret)
		}
	}
}
