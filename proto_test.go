// Names, ids and requests: what is let through and with which words it is
// refused.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMinionIDs(t *testing.T) {
	for _, id := range []string{"web1.example.com", "a", "rack 7", "grüße", "a@b:c", "-x", strings.Repeat("x", 255)} {
		if err := ValidMinionID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", ".", "..", ".key_cache", "a/b", `a\b`, "a\x00", "a\nb", "\x1b[2J", "a\x7f", "\xff", strings.Repeat("x", 256), "../../etc/passwd"} {
		if ValidMinionID(id) == nil {
			t.Errorf("%q is valid", id)
		}
	}
}

func TestJobIDsAndEnvironments(t *testing.T) {
	for _, jid := range []string{"", "req", "../../etc", "2026113012025812706/", "20261130120258127067_../x", "20261130120258127067_",
		"20261130120258127067/", "20261130120258127067_" + strings.Repeat("1", 99), "2026113012025812706\x00"} {
		if ValidJID(jid) == nil {
			t.Errorf("jid %q is valid", jid)
		}
	}
	for _, env := range []string{"base", "feature/x", "v1.2", "__env__"} {
		if err := ValidEnv(env); err != nil {
			t.Error(err)
		}
	}
	for _, env := range []string{"", ".", "..", "../x", "a/../../b", "/etc", "a//b", "a/", "a\x00", `a\b`, "a\nb"} {
		if ValidEnv(env) == nil {
			t.Errorf("env %q is valid", env)
		}
	}
}

func TestJobIDsNeverRepeat(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 2, 58, 127067000, time.FixedZone("", 3600))
	if jid := NewJID(at); jid != "20261130110258127067" {
		t.Errorf("NewJID is %s", jid)
	}
	var s JIDSource
	seen := map[string]bool{}
	last := ""
	for i := range 1000 {
		jid := s.Next(at.Add(time.Duration(-i) * time.Millisecond)) // the clock runs backwards
		if seen[jid] || jid <= last || ValidJID(jid) != nil {
			t.Fatalf("%s after %s", jid, last)
		}
		seen[jid], last = true, jid
	}
	if jid := s.Next(at.Add(-24 * time.Hour)); jid != NewJID(at.Add(-24*time.Hour)) {
		t.Errorf("a clock that was set back by a day is not followed: %s", jid)
	}
}

func TestSafeJoin(t *testing.T) {
	for rel, want := range map[string]string{"a": "/r/a", "a/b": "/r/a/b", "./a": "/r/a", "a/../b": "/r/b", "a/": "/r/a", "..a": "/r/..a"} {
		if got, err := SafeJoin("/r", rel); err != nil || got != want {
			t.Errorf("%q: %q, %v", rel, got, err)
		}
	}
	for _, rel := range []string{"", ".", "..", "../x", "a/../..", "/etc", "//x", "a\x00b", "a/../../r/x", "./"} {
		if got, err := SafeJoin("/r", rel); err == nil {
			t.Errorf("%q: %q", rel, got)
		}
	}
}

func TestRequestsAreRefusedWithSaltsTexts(t *testing.T) {
	for name, c := range map[string]struct {
		request any
		want    any
	}{
		"a list":           {NewList(int64(1)), "bad load"},
		"enc alone":        {NewMap("enc", "clear"), "bad load"},
		"enc unknown":      {NewMap("enc", "pub", "load", NewMap()), "bad load"},
		"enc is no text":   {NewMap("enc", int64(1), "load", NewMap()), "bad load"},
		"clear text":       {NewMap("enc", "clear", "load", "x"), "payload and load must be a dict"},
		"sealed map":       {NewMap("enc", "aes", "load", NewMap("cmd", "_return")), "bad load"},
		"negative version": {NewMap("enc", "clear", "load", NewMap(), "version", int64(-1)), "bad load"},
		"id with NUL":      {NewMap("enc", "clear", "load", NewMap("id", "a\x00")), "bad load: id contains a null byte"},
		"id is a number":   {NewMap("enc", "clear", "load", NewMap("id", int64(5))), "bad load: id 5 is not a string"},
		"outer id":         {NewMap("enc", "aes", "load", []byte("x"), "id", NewList()), "bad load: id a list is not a string"},
	} {
		p, _ := EncodeWire(c.request)
		_, err := DecodeRequest(p)
		if err == nil {
			t.Errorf("%s: taken", name)
			continue
		}
		if got, _ := DecodeWire(RefusalOf(err).Reply()); !Equal(got, c.want) {
			t.Errorf("%s: %s, want %s", name, Repr(got), Repr(c.want))
		}
	}
}

func TestSealedRequestsAreChecked(t *testing.T) {
	c, _ := NewCrypticle(GenerateKeyString())
	now := time.Unix(1796041085, 0)
	open := func(outer string, load *Map, ttl time.Duration) error {
		t.Helper()
		sealed, err := c.Encrypt(load, "")
		if err != nil {
			t.Fatal(err)
		}
		p, _ := (&Request{Enc: "aes", Version: 3, ID: outer, Sealed: sealed}).Encode()
		r, err := DecodeRequest(p)
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Open(c, now, ttl)
		return err
	}
	good := func() *Map {
		return NewMap("cmd", "_return", "id", "web", "tok", []byte{1}, "nonce", NewNonce(), "ts", now.Unix())
	}
	with := func(k string, v any) *Map { m := good(); m.Set(k, v); return m }
	without := func(k string) *Map { m := good(); m.Delete(k); return m }
	if err := open("web", good(), time.Minute); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		outer string
		load  *Map
	}{
		"another's id":   {"db", good()},
		"no outer id":    {"", good()},
		"no inner id":    {"web", without("id")},
		"a path as id":   {"../web", with("id", "../web")},
		"no tok":         {"web", without("tok")},
		"tok is a list":  {"web", with("tok", NewList())},
		"short nonce":    {"web", with("nonce", "ff")},
		"nonce is no id": {"web", with("nonce", int64(1))},
		"no cmd":         {"web", without("cmd")},
		"cmd is a list":  {"web", with("cmd", NewList("_return"))},
		"too old":        {"web", with("ts", now.Unix()-3600)},
	} {
		if open(c.outer, c.load, time.Minute) == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestReplyThatIsRefusedMeansLogin(t *testing.T) {
	c, _ := NewCrypticle(GenerateKeyString())
	for _, p := range [][]byte{(&Refusal{Text: "bad load"}).Reply(), badLoad("x").Reply(), (&Refusal{Text: "x", asMap: true}).Reply()} {
		if _, err := OpenReply(c, p, NewNonce()); !errors.Is(err, ErrBadMAC) {
			t.Errorf("%q: %v", p, err)
		}
		if _, err := DecodePillarReply(p); !errors.Is(err, ErrBadMAC) {
			t.Errorf("pillar %q: %v", p, err)
		}
	}
	if _, err := DecodePillarReply([]byte{0xc1}); err == nil {
		t.Error("garbage is a pillar")
	}
}

func TestAuthRepliesOfOldAndWrongForm(t *testing.T) {
	for name, m := range map[string]any{
		"text":             "bad load",
		"empty":            NewMap(),
		"no ret":           NewMap("enc", "clear", "load", NewMap()),
		"unsigned bytes":   NewMap("enc", "clear", "load", []byte{0x80}),
		"signed text":      NewMap("enc", "clear", "load", []byte{0xa1, 'x'}, "sig", []byte{1}),
		"port is a list":   NewMap("enc", "pub", "pub_key", "k", "publish_port", NewList(), "aes", "a", "sig", "s"),
		"port 0":           NewMap("enc", "pub", "pub_key", "k", "publish_port", int64(0), "aes", "a", "sig", "s"),
		"no aes":           NewMap("enc", "pub", "pub_key", "k", "publish_port", int64(4505), "sig", "s"),
		"no sig":           NewMap("enc", "pub", "pub_key", "k", "publish_port", int64(4505), "aes", "a"),
		"key is a map":     NewMap("enc", "pub", "pub_key", NewMap(), "publish_port", int64(4505), "aes", "a", "sig", "s"),
		"session is a map": NewMap("enc", "pub", "pub_key", "k", "publish_port", int64(4505), "aes", "a", "sig", "s", "session", NewMap()),
	} {
		p, _ := EncodeWire(m)
		if a, err := DecodeAuthReply(p); err == nil {
			t.Errorf("%s: %+v", name, a)
		}
	}
	p, _ := EncodeWire(NewMap("enc", "pub", "pub_key", "k", "publish_port", "4505", "aes", "a", "sig", "s"))
	if a, err := DecodeAuthReply(p); err != nil || a.PublishPort != 4505 || a.Session != nil {
		t.Errorf("an old master's reply: %+v, %v", a, err)
	}
}

func TestPublishLoadIsChecked(t *testing.T) {
	good := func() *Map {
		return NewMap("fun", "test.ping", "arg", NewList(), "tgt", "*", "jid", "20261130120258127067")
	}
	if p, err := DecodePublishLoad(good()); err != nil || p.TgtType != "glob" {
		t.Errorf("%+v, %v", p, err)
	}
	for k, bad := range map[string][]any{
		"fun": {nil, int64(1), NewList(), NewList(int64(1)), NewList("a", "b")}, "arg": {nil, "x", NewMap()},
		"jid": {nil, "", "../x", int64(20261130120258127)}, "tgt_type": {int64(1)},
	} {
		for _, v := range bad {
			m := good()
			m.Set(k, v)
			if p, err := DecodePublishLoad(m); err == nil {
				t.Errorf("%s %s: %+v", k, Repr(v), p)
			}
		}
	}
	m := good()
	m.Delete("tgt")
	if _, err := DecodePublishLoad(m); err == nil {
		t.Error("no tgt")
	}
	clear, _ := EncodeWire(NewMap("enc", "clear", "load", good()))
	if _, err := DecodePublication(clear); err == nil {
		t.Error("a publication in clear was taken")
	}
}

func TestReturnIsChecked(t *testing.T) {
	good := func() *Map {
		return NewMap("id", "web", "jid", "20261130120258127067", "return", nil, "fun", "test.ping", "retcode", int64(0))
	}
	if r, err := DecodeReturn(good(), "web"); err != nil || r.Retcodes()[0] != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := DecodeReturn(good(), "db"); err == nil {
		t.Error("a return for another minion was taken")
	}
	for _, jid := range []any{"../../x", "", nil, int64(1)} {
		m := good()
		m.Set("jid", jid)
		if _, err := DecodeReturn(m, "web"); err == nil {
			t.Errorf("jid %s was taken", Repr(jid))
		}
	}
	m := good()
	m.Set("jid", "req")
	m.Set("retcode", NewMap("a", int64(0), "b", int64(3)))
	if r, err := DecodeReturn(m, "web"); err != nil || fmt.Sprint(r.Retcodes()) != "[0 3]" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestLargeEventsAreTrimmed(t *testing.T) {
	data := NewMap("id", "web", "return", NewMap("big", strings.Repeat("x", 4000), "small", "y"), "list", NewList("z"))
	p, err := PackEventMax("salt/job/1/ret/web", data, 1000)
	if err != nil || len(p) > 1100 {
		t.Fatalf("%d bytes, %v", len(p), err)
	}
	_, got, err := UnpackEvent(p)
	if err != nil {
		t.Fatal(err)
	}
	if ret := got.Map("return"); ret.Str("big") != "VALUE_TRIMMED" || ret.Str("small") != "y" || got.Str("id") != "web" || got.List("list").Len() != 1 {
		t.Errorf("%s", Repr(got))
	}
	if len(data.Map("return").Str("big")) != 4000 {
		t.Error("the caller's data was trimmed")
	}
	if _, err := PackEvent("", NewMap()); err == nil {
		t.Error("an event without a tag")
	}
}

func TestBusFrames(t *testing.T) {
	var wire bytes.Buffer
	for i := range 3 {
		event, err := PackEvent(fmt.Sprintf("tag/%d", i), NewMap("n", int64(i), "b", []byte{0xff}))
		if err != nil {
			t.Fatal(err)
		}
		frame, err := BusFrame(event)
		if err != nil {
			t.Fatal(err)
		}
		wire.Write(frame)
	}
	s := NewBinStream(&wire, 1<<20)
	for i := range 3 {
		frame, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		body, err := BusBody(frame)
		if err != nil {
			t.Fatal(err)
		}
		if tag, data, err := UnpackEvent(body); err != nil || tag != fmt.Sprintf("tag/%d", i) || !Equal(data.Value("n"), int64(i)) {
			t.Errorf("%s %s, %v", tag, Repr(data), err)
		}
	}
}

func FuzzRequest(f *testing.F) {
	for _, name := range []string{"errors", "clear"} {
		var file struct {
			Lines map[string][]struct{ Request vectorMessage }
		}
		readVectors(f, name, &file)
		for _, v := range file.Lines["3006.x"] {
			if len(v.Request.ZMQParts) > 0 {
				f.Add(v.Request.body(f))
			}
		}
	}
	c, _ := NewCrypticle(GenerateKeyString())
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := DecodeRequest(p)
		if err != nil {
			if reply, err := DecodeWire(RefusalOf(err).Reply()); err != nil || reply == nil {
				t.Fatalf("no answer to %x: %v", p, err)
			}
			return
		}
		if strings.ContainsRune(r.ID, 0) || r.Enc == "clear" && r.Clear == nil || r.Enc == "aes" && r.Sealed == nil {
			t.Fatalf("%+v", r)
		}
		if r.Enc == "aes" {
			if _, err := r.Open(c, time.Now(), 0); err == nil {
				t.Fatal("opened without the key")
			}
		}
		// The same bytes as an inner load: whoever has a session key may send any.
		if v, err := DecodeWire(p); err == nil {
			sealed, err := c.Encrypt(v, "")
			if err != nil {
				t.Fatal(err)
			}
			r := &Request{Enc: "aes", Version: 3, ID: "web", Sealed: sealed}
			if l, err := r.Open(c, time.Now(), 0); err == nil && (l.ID != "web" || l.Tok == nil) {
				t.Fatalf("%+v", l)
			}
		}
	})
}

func FuzzAuth(f *testing.F) {
	var file struct {
		Lines map[string][]struct{ Request, Reply *vectorMessage }
	}
	readVectors(f, "auth", &file)
	for _, v := range file.Lines["3006.x"] {
		f.Add(v.Request.body(f))
		if v.Reply != nil {
			f.Add(v.Reply.body(f))
		}
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if r, err := DecodeRequest(p); err == nil {
			if a, err := DecodeAuthRequest(r); err == nil {
				if a.Version >= 2 && !ValidNonce(a.Nonce) || len(a.Pub) > maxPubLen {
					t.Fatalf("%+v", a)
				}
				d := DecideAuth(AuthFacts{ID: a.ID, IDErr: ValidMinionID(a.ID), Pub: []byte(a.Pub),
					Autoreject: func() bool { return false }, Autosign: func() bool { return false }})
				if d.Ret == AuthAccepted {
					t.Fatal("a stranger was accepted")
				}
			}
		}
		if a, err := DecodeAuthReply(p); err == nil && a.Ret == AuthAccepted && (a.AES == nil || a.Sig == nil || a.PublishPort == 0) {
			t.Fatalf("%+v", a)
		}
	})
}

func FuzzPublish(f *testing.F) {
	var file struct {
		Lines map[string][]struct {
			ZMQParts []string `json:"zmq_parts"`
			Plain    string   `json:"plain_after_prefix_b64"`
		}
	}
	readVectors(f, "publish", &file)
	for _, v := range file.Lines["3006.x"] {
		f.Add(unbase64(f, v.ZMQParts[len(v.ZMQParts)-1]))
		f.Add(unbase64(f, v.Plain))
	}
	c, _ := NewCrypticle(GenerateKeyString())
	f.Fuzz(func(t *testing.T, p []byte) {
		if pub, err := DecodePublication(p); err == nil {
			if _, err := c.DecryptPublished(pub.Sealed); err == nil {
				t.Fatal("opened without the key")
			}
		}
		if reply, err := DecodePillarReply(p); err == nil {
			reply.Open(3, GenerateKeyString(), NewNonce(), func(msg, sig []byte) error { return nil })
		}
		v, err := DecodeWire(p)
		if err != nil {
			return
		}
		m, ok := v.(*Map)
		if !ok {
			return
		}
		if load, err := DecodePublishLoad(m); err == nil && (len(load.Funs) != len(load.Args) || ValidJID(load.JID) != nil) {
			t.Fatalf("%+v", load)
		}
		if r, err := DecodeReturn(m, m.Str("id")); err == nil {
			r.Retcodes()
		}
	})
}

func FuzzSafeJoin(f *testing.F) {
	for _, s := range []string{"a/b", "../x", "/etc/passwd", "a/../../b", "a\x00", "", "./..", "..\\x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, rel string) {
		got, err := SafeJoin("/srv/salt", rel)
		if err != nil {
			return
		}
		if filepath.Clean(got) != got || !strings.HasPrefix(got, "/srv/salt/") || strings.Contains(got, "/../") {
			t.Fatalf("%q became %q", rel, got)
		}
		if ValidMinionID(rel) == nil && filepath.Dir(got) != "/srv/salt" {
			t.Fatalf("id %q became %q", rel, got)
		}
	})
}

func FuzzEvent(f *testing.F) {
	f.Add([]byte("salt/job/1/new\n\n\x81\xa1a\x01"))
	f.Add([]byte("\n\n\x80"))
	f.Fuzz(func(t *testing.T, p []byte) {
		if tag, data, err := UnpackEvent(p); err == nil {
			again, err := PackEventMax(tag, data, 100)
			if err != nil {
				t.Fatalf("pack %q: %v", tag, err)
			}
			if tag2, _, err := UnpackEvent(again); err != nil || tag2 != tag {
				t.Fatalf("%q became %q (%v)", tag, tag2, err)
			}
		}
		if frame, err := DecodeBin(p); err == nil {
			BusBody(frame)
		}
	})
}

func FuzzX931(f *testing.F) {
	pair := readVectorKeys(f).pair["minion"]
	sig, _ := pair.SignTok()
	// n - s signs the same message; there is no third signature of it.
	other := new(big.Int).Sub(pair.N, new(big.Int).SetBytes(sig)).FillBytes(make([]byte, len(sig)))
	f.Add(sig)
	f.Add(other)
	f.Fuzz(func(t *testing.T, p []byte) {
		msg, err := pair.Pub().RecoverX931(p)
		if err == nil && string(msg) == tokMessage && !bytes.Equal(p, sig) && !bytes.Equal(p, other) {
			t.Fatalf("forged %x", p)
		}
	})
}
