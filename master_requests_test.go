// Requests of minions: recorded, malformed, forged, and filed once.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The two allow-lists, spelled out: what is reachable from the network changes
// only together with this test.
func TestAllowLists(t *testing.T) {
	names := func(m map[string]sealedCommand) (out []string) {
		for k := range m {
			out = append(out, k)
		}
		slices.Sort(out)
		return out
	}
	want := strings.Fields(`_dir_list _file_envs _file_find _file_hash _file_hash_and_stat _file_list
		_file_list_emptydirs _file_recv _master_opts _master_tops _mine _mine_delete _mine_flush _mine_get
		_minion_event _pillar _register_resources _return _serve_file _symlink_list _syndic_return
		minion_pub minion_publish minion_runner pub_ret revoke_auth`)
	if got := names(sealedCommands()); !slices.Equal(got, want) {
		t.Errorf("encrypted commands:\n%s\nwant:\n%s", got, want)
	}
	var got []string
	for k := range clearCommands() {
		got = append(got, k)
	}
	slices.Sort(got)
	if want := strings.Fields("get_token mk_token ping publish runner wheel"); !slices.Equal(got, want) {
		t.Errorf("clear commands: %s, want %s", got, want)
	}
}

// vectorMaster is a master with the keys of the recorded one, so that recorded
// requests can be sent to it.
func vectorMaster(t *testing.T, keys vectorKeys, kv ...any) *testMaster {
	dir := shortTempDir(t)
	for path, text := range map[string]string{
		"pki/master.pem":          string(keys.pair["master"].PrivatePEM()),
		"pki/minions/tv-minion":   keys.pair["minion"].PublicPEM(),
		"pki/minions/tv-den":      keys.pair["minion2"].PublicPEM(),
		"srv/hello.txt":           "hello file\n",
		"srv/tv.sls":              "x:\n  test.nop\n",
		"srv/sub/s.txt":           "s",
		"srv/big.bin":             strings.Repeat("b", 3<<20),
		"cache/sessions/.present": "",
	} {
		full := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "srv/empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("hello.txt", filepath.Join(dir, "srv/link.txt")); err != nil {
		t.Fatal(err)
	}
	return startMasterIn(t, dir, kv...)
}

// useSession makes a recorded session key that of a minion.
func (m *testMaster) useSession(t *testing.T, id, key string) {
	t.Helper()
	if err := m.sessions.Forget(id); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.cachedir, "sessions", id), []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Everything that made a real master refuse, or never answer, is answered here.
func TestMalformedRequestsAreAnswered(t *testing.T) {
	keys := readVectorKeys(t)
	var file struct {
		Lines map[string][]struct {
			Name    string
			Request vectorMessage
			Reply   *vectorMessage
		}
	}
	readVectors(t, "errors", &file)
	m := vectorMaster(t, keys)
	for line, cases := range file.Lines {
		for _, c := range cases {
			t.Run(line+"/"+c.Name, func(t *testing.T) {
				v, err := DecodeWire(ask(t, m.asker(t), c.Request.body(t)))
				if err != nil {
					t.Fatal(err)
				}
				var want any = "bad load"
				if c.Reply != nil {
					recorded := vectorValue(t, c.Reply.Decoded)
					_, sealed := recorded.([]byte)
					if !sealed && c.Name != "enc unknown" && c.Name != "aes v3 no cmd" {
						want = recorded
					}
				}
				wantValue(t, "answer", v, want) // session keys are others here, so what was sealed is refused
			})
		}
	}
	// With the session key that it was sealed with.
	for line, cases := range file.Lines {
		for _, c := range cases {
			if c.Name != "aes v3 no cmd" {
				continue
			}
			answered := false
			for _, key := range keys.sessions[line] {
				m.useSession(t, "tv-minion", key)
				v, err := DecodeWire(ask(t, m.asker(t), c.Request.body(t)))
				if err != nil {
					t.Fatal(err)
				}
				answered = answered || v == "Some exception handling minion payload"
			}
			if !answered {
				t.Errorf("%s: a load without cmd is not answered as Salt does", line)
			}
		}
	}
}

// Recorded requests of every command get the recorded answers.
func TestRecordedRequests(t *testing.T) {
	keys := readVectorKeys(t)
	var file struct {
		Lines map[string][]struct {
			Name       string
			Request    vectorMessage
			SessionKey string `json:"session_key"`
			Reply      vectorMessage
		}
	}
	readVectors(t, "requests", &file)
	// Answers that are ours by intention, or that no second master can give.
	ours := map[string]any{
		"_mine clear":    true, // where Salt fails
		"_syndic_return": nil,
		"verify_minion":  NewMap(),
		"minion_pub":     nil,
		"minion_publish": nil,
		"_master_opts":   nil,
	}
	for line, cases := range file.Lines {
		m := vectorMaster(t, keys, "file_recv", true, "peer", NewMap(".*", NewList(".*")), "peer_run", NewMap(".*", NewList(".*")), "timeout", 0.2, "gather_job_timeout", 0.2)
		for _, c := range cases {
			t.Run(line+"/"+c.Name, func(t *testing.T) {
				if c.Name == "minion_publish" {
					t.Skip("nobody is there to answer; TestPeerPublish has this")
				}
				m.useSession(t, "tv-minion", c.SessionKey)
				session, err := NewCrypticle(c.SessionKey)
				if err != nil {
					t.Fatal(err)
				}
				nonce := vectorValue(t, c.Request.Load).(*Map).Str("nonce")
				reply := ask(t, m.asker(t), c.Request.body(t))
				if c.Name == "_pillar" {
					p, err := DecodePillarReply(reply)
					if err != nil {
						t.Fatal(err)
					}
					key, err := keys.pair["minion"].DecryptOAEP(AlgoOAEPSHA1, p.Key)
					if err != nil {
						t.Fatal(err)
					}
					pillar, err := p.Open(3, string(key), nonce, func(msg, sig []byte) error { return keys.pub["master"].Verify(AlgoPKCS1v15SHA1, msg, sig) })
					if err != nil {
						t.Fatal(err)
					}
					wantValue(t, "pillar", pillar, NewMap())
					grains, _ := m.index.Data("tv-minion")
					wantValue(t, "cached grain", grains.Value("os"), "Debian")
					return
				}
				got, err := OpenReply(session, reply, nonce)
				if err != nil {
					t.Fatalf("%v\n%s", err, m.out)
				}
				want := vectorValue(t, c.Reply.Payload)
				if w, ok := ours[c.Name]; ok {
					if w == nil {
						return
					}
					want = w
				}
				switch {
				case c.Name == "_file_hash_and_stat": // inodes and times differ
					got, want = got.(*List).Items[0], want.(*List).Items[0]
				case c.Name == "_serve_file gzip":
					got, want = gunzipped(t, got), gunzipped(t, want)
				}
				if !sameOverWire(got, want) {
					t.Errorf("got %s, want %s", Repr(got), Repr(want))
				}
			})
		}
		p, err := os.ReadFile(filepath.Join(m.cachedir, "minions", "tv-minion", "files", "a", "b.txt"))
		if err != nil || string(p) != "hi" {
			t.Errorf("pushed file: %q, %v", p, err)
		}
	}
}

func gunzipped(t *testing.T, v any) any {
	t.Helper()
	m := v.(*Map)
	data, _ := bytesOf(m.Value("data"))
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	p, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

func TestImpostorsAreRefused(t *testing.T) {
	m := startMaster(t)
	a, b := m.accepted(t, "a", 1), m.accepted(t, "b", 2)
	tokA, _ := a.key.SignTok()
	send := func(c *Crypticle, outer, inner string, tok []byte, ts time.Time) any {
		t.Helper()
		load := NewMap("cmd", "_file_envs")
		body, err := NewSealedRequest(c, 3, load, inner, NewNonce(), tok, ts, AlgoOAEPSHA1, AlgoPKCS1v15SHA1)
		if err != nil {
			t.Fatal(err)
		}
		v, _ := DecodeWire(body)
		v.(*Map).Set("id", outer)
		out, err := DecodeWire(ask(t, a.r, mustEncode(t, v)))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	now := time.Now()
	for name, got := range map[string]any{
		"another's id in both places":  send(a.session, "b", "b", tokA, now),
		"another's id inside":          send(a.session, "a", "b", tokA, now),
		"another's id outside":         send(b.session, "b", "a", tokA, now),
		"another's session, own token": send(b.session, "b", "b", tokA, now),
		"a made-up token":              send(a.session, "a", "a", make([]byte, 256), now),
		"an id nobody has":             send(a.session, "nobody", "nobody", tokA, now),
		"an id that is a path":         send(a.session, "../a", "../a", tokA, now),
	} {
		wantValue(t, name, got, "bad load")
	}
	wantLog(t, m, "WARNING", "127.0.0.1", "'b'")
	m = startMaster(t, "request_server_ttl", int64(60))
	a = m.accepted(t, "a", 1)
	wantValue(t, "an old request", send(a.session, "a", "a", tokA, now.Add(-time.Hour)), "bad load")
	if v, ok := send(a.session, "a", "a", tokA, now).([]byte); !ok {
		t.Errorf("a fresh request: %v", v)
	}
}

// panicking is a pillar provider that panics, and one that fails.
type panicking struct{ err error }

func (p panicking) Pillar(context.Context, PillarRequest) (*Map, error) {
	if p.err != nil {
		return nil, p.err
	}
	panic("no pillar today")
}

func TestFailingCommandIsAnswered(t *testing.T) {
	var m *testMaster
	var f *fakeMinion
	for _, tc := range []struct {
		pillar panicking
		log    string
	}{{panicking{}, "panic: no pillar today"}, {panicking{errors.New("top file is broken")}, "top file is broken"}} {
		dir := shortTempDir(t)
		master, out := newTestMaster(t, dir)
		master.Pillar = tc.pillar
		m = runTestMaster(t, master, dir, out)
		f = m.accepted(t, "m", 1)
		wantValue(t, "pillar", f.call(t, "cmd", "_pillar", "grains", NewMap("id", "m"), "ver", "2"), "")
		wantLog(t, m, "_pillar of m", tc.log)
	}
	wantValue(t, "the next request", f.call(t, "cmd", "_file_envs"), NewList("base"))
	for _, cmd := range []string{"_ext_nodes", "publish", "_auth", "handle", "__init__", ""} {
		wantValue(t, cmd, f.call(t, "cmd", cmd), NewMap())
	}
}

func TestReturnsAreFiledOnce(t *testing.T) {
	m := startMaster(t)
	f := m.accepted(t, "m", 1)
	sub := f.subscribe(t)
	events := m.bus.Subscribe("salt/job/", 64)
	jid, minions := m.publishAsOwner(t, "*", "glob", "test.echo", "hallo")
	wantValue(t, "expected", Strings(minions), NewList("m"))
	job := f.job(t, sub)
	wantValue(t, "jid", job.Value("jid"), jid)
	wantValue(t, "arg", job.Value("arg"), NewList("hallo"))
	wantValue(t, "user", job.Value("user"), m.o().Str("user"))
	news := nextEvent(t, events, "salt/job/"+jid+"/new")
	wantValue(t, "minions of the event", news.Value("minions"), NewList("m"))

	ret := []any{"cmd", "_return", "id", "m", "jid", jid, "fun", "test.echo", "fun_args", NewList("hallo"), "return", "hallo", "retcode", int64(0), "success", true}
	wantValue(t, "answer", f.call(t, ret...), nil)
	ev := nextEvent(t, events, "salt/job/"+jid+"/ret/m")
	wantValue(t, "return", ev.Value("return"), "hallo")
	for _, secret := range []string{"tok", "nonce"} {
		if ev.Has(secret) {
			t.Errorf("the event has %s", secret)
		}
	}
	wantValue(t, "second answer", f.call(t, ret...), nil)
	wantLog(t, m, "m sent its return for job "+jid+" again")
	j, err := m.jobs.Load(jid)
	if err != nil {
		t.Fatal(err)
	}
	wantValue(t, "filed", j.Returns.Map("m").Value("return"), "hallo")
	wantValue(t, "load", j.Load.Value("fun"), "test.echo")
	if j.Load.Has("key") {
		t.Error("the job cache has the key of the user")
	}
	select {
	case e := <-events.C:
		t.Errorf("an event for the second return: %s", e.Tag)
	default:
	}

	// One that is not to be kept is told.
	wantValue(t, "nocache", f.call(t, "cmd", "_return", "id", "m", "jid", "nocache", "fun", "test.ping", "fun_args", NewList(), "return", true, "retcode", int64(0)), nil)
	if e := <-events.C; e.Tag != "salt/job/nocache/ret/m" {
		t.Errorf("the event of a return that is not kept is %s", e.Tag)
	}
	if m.jobs.Known("nocache") {
		t.Error("a return that is not to be kept is in the job cache")
	}

	// A salt-call gets a job id, a job that nobody published is made.
	wantValue(t, "salt-call", f.call(t, "cmd", "_return", "id", "m", "jid", "req", "fun", "test.ping", "fun_args", NewList(), "return", true, "retcode", int64(0)), nil)
	var tag string
	eventually(t, "event of the salt-call", func() bool {
		select {
		case e := <-events.C:
			tag = e.Tag
			return strings.HasSuffix(tag, "/ret/m")
		default:
			return false
		}
	})
	j, err = m.jobs.Load(strings.Split(tag, "/")[2])
	if err != nil {
		t.Fatal(err)
	}
	wantValue(t, "target", j.Load.Value("tgt"), "m")
	wantValue(t, "minions", Strings(j.Minions), NewList("m"))
}

// A master that cannot write its jobs, on a full disk or so, still hands out
// what minions answer.
func TestReturnsArriveWithoutAJobCache(t *testing.T) {
	m := startMaster(t)
	f := m.accepted(t, "m", 1)
	events := m.bus.Subscribe("salt/job/", 64)
	if err := os.RemoveAll(m.jobs.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.jobs.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	jid, minions := m.publishAsOwner(t, "*", "glob", "test.echo", "hallo")
	wantValue(t, "expected", Strings(minions), NewList("m"))
	wantValue(t, "answer", f.call(t, "cmd", "_return", "id", "m", "jid", jid, "fun", "test.echo", "fun_args", NewList("hallo"), "return", "hallo", "retcode", int64(0)), nil)
	wantValue(t, "return", nextEvent(t, events, "salt/job/"+jid+"/ret/m").Value("return"), "hallo")
	wantLog(t, m, "ERROR", jid)
}

// The log names the cause in words for whoever reads it: a minion whose key was
// deleted while it runs.
func TestRequestsWithoutAKeyAreExplained(t *testing.T) {
	m := startMaster(t)
	f := m.accepted(t, "m", 1)
	if err := m.keys.Delete("m"); err != nil {
		t.Fatal(err)
	}
	v, err := DecodeWire(ask(t, f.r, f.sealed(t, NewMap("cmd", "_file_envs", "id", "m"), NewNonce())))
	if err != nil {
		t.Fatal(err)
	}
	wantValue(t, "answer", v, "bad load")
	wantLog(t, m, "WARNING", "as 'm'", "its key is not accepted")
}

func TestReturnsThatAreNotTaken(t *testing.T) {
	m := startMaster(t)
	f := m.accepted(t, "m", 1)
	for _, jid := range []any{"../../../etc/cron.d/x", "2024", "", int64(5), "20240101000000000000/../x"} {
		wantValue(t, "answer", f.call(t, "cmd", "_return", "id", "m", "jid", jid, "return", true, "fun", "x"), nil)
	}
	var files []string
	filepath.WalkDir(filepath.Join(m.cachedir, "jobs"), func(p string, d os.DirEntry, _ error) error {
		if !d.IsDir() {
			files = append(files, p)
		}
		return nil
	})
	if len(files) > 0 {
		t.Errorf("files: %s", files)
	}
	wantLog(t, m, "WARNING", "is not a job id", "127.0.0.1")
}

func TestMinionEvents(t *testing.T) {
	m := startMaster(t)
	f := m.accepted(t, "m", 1)
	all := m.bus.Subscribe("", 256)
	fired := func() map[string]*Map {
		out := map[string]*Map{}
		for {
			select {
			case e := <-all.C:
				out[e.Tag] = e.Data
			default:
				return out
			}
		}
	}
	f.call(t, "cmd", "_minion_event", "pretag", nil, "tag", "my/tag", "data", NewMap("a", int64(1)))
	if d := fired()["my/tag"]; d == nil || !Equal(d.Map("data").Value("a"), int64(1)) || d.Str("id") != "m" {
		t.Errorf("event: %v", Repr(d))
	}
	events := NewList()
	good := []string{"my/x", "salt/beacon/m/load/", "salt/minion/m/start", "salt/job/20240101000000000000/prog/m/1", "salt/custom"}
	bad := []string{"salt/key", "salt/auth", "salt/job/20240101000000000000/new", "salt/job/20240101000000000000/ret/other",
		"salt/job/20240101000000000000/publish", "salt/run/1/ret", "salt/wheel/1/new", "salt/minion/other/start", "salt/beacon/other/x",
		"salt/presence/change", "salt/cluster/x", "salt/cloud/x", "minion/refresh/other", "key", "a\n\nb"}
	for _, tag := range append(good, bad...) {
		events.Append(NewMap("tag", tag, "data", NewMap("tag", tag)))
	}
	f.call(t, "cmd", "_minion_event", "pretag", "pre", "events", events)
	got := fired()
	for _, tag := range good {
		if got[tag] == nil || got["pre/"+tag] == nil {
			t.Errorf("event %s did not come", tag)
		}
	}
	for _, tag := range bad {
		if got[tag] != nil {
			t.Errorf("event %s came", tag)
		}
	}
	for _, tag := range bad {
		f.call(t, "cmd", "_minion_event", "tag", tag, "data", NewMap())
		if fired()[tag] != nil {
			t.Errorf("single event %s came", tag)
		}
	}
}

func TestMineRules(t *testing.T) {
	m := startMaster(t)
	a, b := m.accepted(t, "a", 1), m.accepted(t, "b", 2)
	wantValue(t, "store", a.call(t, "cmd", "_mine", "data", NewMap("ip", "10.0.0.1",
		"secret", NewMap("__data__", "s", "__saltmine_acl__", int64(1), "allow_tgt", "a*", "allow_tgt_type", "glob"))), true)
	wantValue(t, "own", a.call(t, "cmd", "_mine_get", "tgt", "*", "fun", "secret", "tgt_type", "glob"), NewMap("a", "s"))
	wantValue(t, "of another", b.call(t, "cmd", "_mine_get", "tgt", "*", "fun", "secret", "tgt_type", "glob"), NewMap())
	wantValue(t, "two", b.call(t, "cmd", "_mine_get", "tgt", "*", "fun", "ip,secret", "tgt_type", "glob"), NewMap("ip", NewMap("a", "10.0.0.1")))
	wantValue(t, "merge", a.call(t, "cmd", "_mine", "data", NewMap("n", int64(1))), true)
	wantValue(t, "both", b.call(t, "cmd", "_mine_get", "tgt", "a", "fun", NewList("ip", "n")), NewMap("ip", NewMap("a", "10.0.0.1"), "n", NewMap("a", int64(1))))
	wantValue(t, "clear", a.call(t, "cmd", "_mine", "data", NewMap("n", int64(2)), "clear", true), true)
	wantValue(t, "after clear", b.call(t, "cmd", "_mine_get", "tgt", "a", "fun", NewList("ip", "n")), NewMap("n", NewMap("a", int64(2))))
	wantValue(t, "flush", a.call(t, "cmd", "_mine_flush"), true)
	wantValue(t, "after flush", b.call(t, "cmd", "_mine_get", "tgt", "a", "fun", "n"), NewMap())
	// The data goes with the key.
	a.call(t, "cmd", "_mine", "data", NewMap("n", int64(3)))
	if err := m.deleteKey("a", false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(m.cachedir, "minions", "a")); err == nil {
		t.Error("the cached data of a deleted minion is still there")
	}
	limited := startMaster(t, "mine_get", NewMap("b", NewList("ip")))
	c := limited.accepted(t, "b", 2)
	c.call(t, "cmd", "_mine", "data", NewMap("ip", "1", "n", "2"))
	wantValue(t, "allowed", c.call(t, "cmd", "_mine_get", "tgt", "*", "fun", NewList("ip", "n")), NewMap("ip", NewMap("b", "1")))
	wantValue(t, "not allowed", c.call(t, "cmd", "_mine_get", "tgt", "*", "fun", "n"), NewMap())
}

func TestPeerPublish(t *testing.T) {
	m := startMaster(t, "peer", NewMap("a", NewList("test.*")), "timeout", 10.0)
	a, b := m.accepted(t, "a", 1), m.accepted(t, "b", 2)
	sub := b.subscribe(t)
	load := []any{"cmd", "minion_pub", "fun", "test.ping", "arg", NewList(), "tgt", "b", "tgt_type", "glob", "ret", "", "tmo", int64(5), "form", "clean"}
	out := a.call(t, load...).(*Map)
	wantValue(t, "minions", out.Value("minions"), NewList("b"))
	job := b.job(t, sub)
	wantValue(t, "publisher", job.Value("id"), "a")
	b.call(t, "cmd", "_return", "id", "b", "jid", out.Str("jid"), "fun", "test.ping", "fun_args", NewList(), "return", true, "retcode", int64(0))
	wantValue(t, "returns for the publisher", a.call(t, "cmd", "pub_ret", "jid", out.Str("jid")), NewMap("b", NewMap("ret", true)))
	wantValue(t, "returns for another", b.call(t, "cmd", "pub_ret", "jid", out.Str("jid")), NewMap())
	for name, change := range map[string][]any{
		"another minion's rules": {"cmd", "minion_pub", "fun", "test.ping"},
		"a recursive publish":    {"fun", "publish.publish"},
		"another function":       {"fun", "cmd.run"},
		"one function of two":    {"fun", "test.ping,cmd.run", "arg", NewList("", "id")},
	} {
		who := a
		if name == "another minion's rules" {
			who = b
		}
		l := NewMap(load...)
		l.Merge(NewMap(change...))
		var kv []any
		for k, v := range l.All() {
			kv = append(kv, k, v)
		}
		wantValue(t, name, who.call(t, kv...), NewMap())
	}
	done := make(chan any, 1)
	go func() {
		var v any
		defer func() { done <- v }()
		l := NewMap(load...)
		l.Set("cmd", "minion_publish")
		var kv []any
		for k, v := range l.All() {
			kv = append(kv, k, v)
		}
		v = a.call(t, kv...)
	}()
	job = b.job(t, sub)
	b.call(t, "cmd", "_return", "id", "b", "jid", job.Str("jid"), "fun", "test.ping", "fun_args", NewList(), "return", "pong", "retcode", int64(0))
	wantValue(t, "answer to minion_publish", <-done, NewMap("b", "pong"))
}

// A master stops in time, whoever waits for it or does not read.
func TestMasterStopsInTime(t *testing.T) {
	m := startMaster(t, "peer", NewMap(".*", NewList(".*")))
	a := m.accepted(t, "a", 1)
	idle, err := net.Dial("tcp", m.req.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	body := a.sealed(t, NewMap("cmd", "minion_publish", "fun", "test.ping", "arg", NewList(), "tgt", "a", "tgt_type", "glob", "ret", "", "tmo", int64(600)), NewNonce())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		a.r.Request(context.Background(), body)
	}()
	eventually(t, "request in work", func() bool { return m.req.Stats().InWork > 0 })
	started := time.Now()
	m.stop()
	if d := time.Since(started); d > 4*time.Second {
		t.Errorf("stopping took %v", d)
	}
	<-gone
}

func TestPushedFilesStayInside(t *testing.T) {
	m := startMaster(t, "file_recv", true, "file_recv_max_size", int64(1))
	f := m.accepted(t, "m", 1)
	dir := filepath.Join(m.cachedir, "minions", "m", "files")
	push := func(path any, loc int, data string) any {
		return f.call(t, "cmd", "_file_recv", "path", path, "loc", int64(loc), "size", int64(len(data)), "data", data)
	}
	wantValue(t, "push", push(NewList("etc", "x"), 0, "hello "), true)
	wantValue(t, "second chunk", push(NewList("etc", "x"), 6, "world"), true)
	if p, err := os.ReadFile(filepath.Join(dir, "etc", "x")); err != nil || string(p) != "hello world" {
		t.Errorf("file: %q, %v", p, err)
	}
	outside := filepath.Join(m.dir, "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []any{NewList("..", "x"), NewList("a", "..", "..", "x"), NewList("/etc/x"), "/etc/x", "../x", NewList("link", "x"), NewList(), NewList("a\x00b"), NewList(`..\x`)} {
		if push(path, 0, "x") == true {
			if _, err := os.Stat(filepath.Join(outside, "x")); err == nil {
				t.Errorf("%s was written outside", Repr(path))
			}
		}
	}
	wantValue(t, "too large", push(NewList("y"), 0, strings.Repeat("y", 1<<20+1)), false)
	wantValue(t, "a hole", push(NewList("y"), 500, "y"), false)
	wantValue(t, "negative", push(NewList("y"), -1, "y"), false)
	for _, p := range []string{filepath.Join(m.cachedir, "minions", "x"), filepath.Join(outside, "x"), filepath.Join(m.cachedir, "minions", "m", "x")} {
		if _, err := os.Stat(p); err == nil {
			t.Errorf("%s was written", p)
		}
	}
	m = startMaster(t)
	f = m.accepted(t, "m", 1)
	wantValue(t, "push while it is off", push(NewList("x"), 0, "x"), false)
}

func FuzzMasterRequest(f *testing.F) {
	var file struct {
		Lines map[string][]struct{ Request vectorMessage }
	}
	readVectors(f, "errors", &file)
	for _, cases := range file.Lines {
		for _, c := range cases {
			f.Add(c.Request.body(f))
		}
	}
	m, _ := newTestMaster(f, f.TempDir())
	m.log = logNowhere()
	peer := &Peer{RemoteAddr: testAddr("198.51.100.1:5")}
	f.Fuzz(func(t *testing.T, body []byte) {
		if out := m.handle(t.Context(), peer, body); len(out) == 0 {
			t.Error("no answer")
		}
	})
}

type testAddr string

func (testAddr) Network() string  { return "tcp" }
func (a testAddr) String() string { return string(a) }
