// A master in the test's process, and minions that speak the wire by hand.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// testLog is a log that a test can wait on.
type testLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *testLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// eventually waits until f is true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// testMaster is a master that runs, on free ports under a directory of its own.
type testMaster struct {
	*Master
	dir  string
	out  *testLog
	stop func()
}

// masterTestKey is one of a few key pairs, made once for all tests.
var masterTestKeys = sync.OnceValue(func() []*PrivateKey {
	var keys []*PrivateKey
	for range 4 {
		k, err := GenerateKey(2048)
		if err != nil {
			panic(err)
		}
		keys = append(keys, k)
	}
	return keys
})

func masterTestOptions(dir string, kv ...any) *Options {
	o := DefaultMasterOptions()
	for k, v := range NewMap("root_dir", dir, "pki_dir", filepath.Join(dir, "pki"), "cachedir", filepath.Join(dir, "cache"),
		"sock_dir", filepath.Join(dir, "run"), "interface", "127.0.0.1", "publish_port", int64(0), "ret_port", int64(0),
		"user", currentUser(), "file_roots", NewMap("base", NewList(filepath.Join(dir, "srv")))).All() {
		o.Set(k.(string), v)
	}
	for k, v := range NewMap(kv...).All() {
		o.Set(k.(string), v)
	}
	return o
}

// newTestMaster makes a master without running it.
func newTestMaster(t testing.TB, dir string, kv ...any) (*Master, *testLog) {
	t.Helper()
	out := &testLog{}
	pki := filepath.Join(dir, "pki")
	if _, err := os.Stat(filepath.Join(pki, "master.pem")); err != nil {
		if err := os.MkdirAll(pki, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(pki, "master.pem"), masterTestKeys()[0].PrivatePEM(), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	m, err := NewMaster(masterTestOptions(dir, kv...), NewLogger(out, "debug"))
	if err != nil {
		t.Fatal(err)
	}
	return m, out
}

// shortTempDir is a directory whose name is short enough for sockets.
func shortTempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func startMaster(t testing.TB, kv ...any) *testMaster {
	t.Helper()
	return startMasterIn(t, shortTempDir(t), kv...)
}

func startMasterIn(t testing.TB, dir string, kv ...any) *testMaster {
	t.Helper()
	m, out := newTestMaster(t, dir, kv...)
	return runTestMaster(t, m, dir, out)
}

// runTestMaster runs a master until the test ends.
func runTestMaster(t testing.TB, m *Master, dir string, out *testLog) *testMaster {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	var once sync.Once
	tm := &testMaster{Master: m, dir: dir, out: out, stop: func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("master: %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Error("the master does not stop")
			}
		})
	}}
	select {
	case <-m.Ready():
	case err := <-done:
		done <- err
		t.Fatalf("master: %v\n%s", err, out)
	}
	t.Cleanup(tm.stop)
	return tm
}

// asker is a connection to the request port.
func (m *testMaster) asker(t testing.TB) *Requester {
	t.Helper()
	_, addr := m.Addrs()
	r, err := DialRequester(context.Background(), addr.String(), TransportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// ask sends bytes and returns the answer.
func ask(t testing.TB, r *Requester, body []byte) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := r.Request(ctx, body)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	return out
}

// askClear sends a load in clear and returns the decoded answer.
func (m *testMaster) askClear(t testing.TB, load *Map) any {
	t.Helper()
	body, err := ClearRequest(load)
	if err != nil {
		t.Fatal(err)
	}
	v, err := DecodeWire(ask(t, m.asker(t), body))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// asOwner adds what the owner of the master's key proves himself with.
func (m *testMaster) asOwner(load *Map) *Map {
	user := m.o().Str("user")
	load.Set("user", user)
	load.Set("key", m.conf.Load().userKeys[user])
	return load
}

// publishAsOwner publishes and returns jid and minions.
func (m *testMaster) publishAsOwner(t testing.TB, tgt any, kind, fun string, args ...any) (string, []string) {
	t.Helper()
	v := m.askClear(t, m.asOwner(NewMap("cmd", "publish", "tgt", tgt, "tgt_type", kind, "fun", fun, "arg", NewList(args...), "ret", "", "jid", "", "kwargs", NewMap())))
	load := v.(*Map).Map("load")
	if load == nil || load.Str("jid") == "" {
		t.Fatalf("publish: %s", Repr(v))
	}
	return load.Str("jid"), toStrings(load.Value("minions"))
}

// fakeMinion speaks to a master as a minion does.
type fakeMinion struct {
	m       *testMaster
	id      string
	key     *PrivateKey
	version int
	enc     string
	sig     string
	r       *Requester
	session *Crypticle
	aes     *Crypticle
	reply   *AuthReply
}

func (m *testMaster) minion(t testing.TB, id string, key int) *fakeMinion {
	t.Helper()
	return &fakeMinion{m: m, id: id, key: masterTestKeys()[key], version: 3, enc: AlgoOAEPSHA1, sig: AlgoPKCS1v15SHA1, r: m.asker(t)}
}

// accepted is a minion whose key is accepted and who has logged in.
func (m *testMaster) accepted(t testing.TB, id string, key int) *fakeMinion {
	t.Helper()
	if err := m.keys.Put(KeyAccepted, id, []byte(masterTestKeys()[key].PublicPEM())); err != nil {
		t.Fatal(err)
	}
	f := m.minion(t, id, key)
	if ret := f.login(t, nil); ret != AuthAccepted {
		t.Fatalf("login of %s: %q\n%s", id, ret, m.out)
	}
	return f
}

// login logs in, checks everything that a minion checks, and returns the ret.
func (f *fakeMinion) login(t testing.TB, change func(*AuthRequest)) string {
	t.Helper()
	token := GenerateKeyString()
	sealedToken, err := f.m.key.Pub().EncryptOAEP(f.enc, []byte(token))
	if err != nil {
		t.Fatal(err)
	}
	a := &AuthRequest{Version: f.version, ID: f.id, Nonce: NewNonce(), EncAlgo: f.enc, SigAlgo: f.sig, Pub: f.key.PublicPEM(), Token: sealedToken}
	if change != nil {
		change(a)
	}
	body, err := a.Encode()
	if err != nil {
		t.Fatal(err)
	}
	reply, err := DecodeAuthReply(ask(t, f.r, body))
	if err != nil {
		t.Fatal(err)
	}
	f.reply = reply
	if f.version >= 2 && reply.Signed != nil {
		if err := f.m.key.Pub().Verify(a.SigAlgo, reply.Signed, reply.Signature); err != nil {
			t.Fatalf("outer signature: %v", err)
		}
		if reply.Nonce != a.Nonce {
			t.Fatalf("nonce %q, want %q", reply.Nonce, a.Nonce)
		}
	}
	if reply.Ret != AuthAccepted {
		return reply.Ret
	}
	open := func(p []byte) string {
		text, err := f.key.DecryptOAEP(a.EncAlgo, p)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if reply.Token != nil && open(reply.Token) != token {
		t.Fatal("the token came back changed")
	}
	aes := open(reply.AES)
	if err := f.m.key.Pub().VerifyAESDigest(aes, reply.Sig); err != nil {
		t.Fatalf("inner signature: %v", err)
	}
	if f.aes, err = NewCrypticle(aes); err != nil {
		t.Fatal(err)
	}
	if f.session, err = NewCrypticle(open(reply.Session)); err != nil {
		t.Fatal(err)
	}
	return AuthAccepted
}

// sealed builds an encrypted request.
func (f *fakeMinion) sealed(t testing.TB, load *Map, nonce string) []byte {
	t.Helper()
	tok, err := f.key.SignTok()
	if err != nil {
		t.Fatal(err)
	}
	c := f.session
	if f.version < 3 {
		c = f.aes
	}
	body, err := NewSealedRequest(c, f.version, load, f.id, nonce, tok, time.Now(), f.enc, f.sig)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// call sends an encrypted request and returns the decrypted answer.
func (f *fakeMinion) call(t testing.TB, kv ...any) any {
	t.Helper()
	v, err := f.try(t, kv...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", Repr(NewMap(kv...)), err, f.m.out)
	}
	return v
}

func (f *fakeMinion) try(t testing.TB, kv ...any) (any, error) {
	t.Helper()
	nonce := NewNonce()
	c := f.session
	if f.version < 3 {
		c = f.aes
	}
	return OpenReply(c, ask(t, f.r, f.sealed(t, NewMap(kv...), nonce)), nonce)
}

// pillar asks for the pillar and opens the private answer.
func (f *fakeMinion) pillar(t testing.TB, grains *Map) *Map {
	t.Helper()
	nonce := NewNonce()
	p, err := DecodePillarReply(ask(t, f.r, f.sealed(t, NewMap("cmd", "_pillar", "grains", grains, "ver", "2"), nonce)))
	if err != nil {
		t.Fatalf("pillar: %v\n%s", err, f.m.out)
	}
	key, err := f.key.DecryptOAEP(f.enc, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	pillar, err := p.Open(f.version, string(key), nonce, func(msg, sig []byte) error { return f.m.key.Pub().Verify(f.sig, msg, sig) })
	if err != nil {
		t.Fatal(err)
	}
	return pillar
}

// subscribe follows the publications.
func (f *fakeMinion) subscribe(t testing.TB, topics ...string) *Subscriber {
	t.Helper()
	pub, _ := f.m.Addrs()
	if len(topics) == 0 {
		topics = []string{""}
	}
	before := len(f.m.pub.Peers())
	s, err := DialSubscriber(context.Background(), pub.String(), topics, TransportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	eventually(t, "subscription", func() bool {
		peers := f.m.pub.Peers()
		n := 0
		for _, p := range peers {
			if len(p.Topics) > 0 {
				n++
			}
		}
		return n > before
	})
	return s
}

// job receives one publication and opens it.
func (f *fakeMinion) job(t testing.TB, s *Subscriber) *Map {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	frames, err := s.Recv(ctx)
	if err != nil {
		t.Fatal(err)
	}
	p, err := DecodePublication(frames[len(frames)-1])
	if err != nil {
		t.Fatal(err)
	}
	if err := f.m.key.Pub().Verify(p.SigAlgo, p.Sealed, p.Sig); err != nil {
		t.Fatalf("signature of the publication: %v", err)
	}
	v, err := f.aes.Decrypt(p.Sealed, "")
	if err != nil {
		t.Fatal(err)
	}
	return v.(*Map)
}

// nextEvent waits for an event with a tag.
func nextEvent(t testing.TB, s *EventSubscription, tag string) *Map {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case e := <-s.C:
			if e.Tag == tag {
				return e.Data
			}
		case <-deadline:
			t.Fatalf("no event %s", tag)
		}
	}
}

func logNowhere() *slog.Logger { return slog.New(slog.DiscardHandler) }

// wantValue compares a value of the model with what it should be.
func wantValue(t testing.TB, what string, got, want any) {
	t.Helper()
	if !Equal(got, want) {
		t.Errorf("%s: got %s, want %s", what, Repr(got), Repr(want))
	}
}

func wantLog(t testing.TB, m *testMaster, parts ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("log line with %q in:\n%s", parts, m.out), func() bool {
		for _, line := range strings.Split(m.out.String(), "\n") {
			all := true
			for _, p := range parts {
				all = all && strings.Contains(line, p)
			}
			if all {
				return true
			}
		}
		return false
	})
}
