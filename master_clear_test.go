// What is asked in the clear: publishing, runners and wheel, and who may.
package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func (m *testMaster) publishAs(t testing.TB, user, key string, fun any, arg *List, kwargs *Map) *Map {
	t.Helper()
	v, ok := m.askClear(t, NewMap("cmd", "publish", "tgt", "*", "tgt_type", "glob", "fun", fun, "arg", arg, "ret", "", "jid", "",
		"user", user, "key", key, "kwargs", kwargs)).(*Map)
	if !ok {
		t.Fatal("publish: no mapping")
	}
	return v
}

func TestPublishNeedsAKey(t *testing.T) {
	m := startMaster(t)
	m.accepted(t, "m", 1)
	owner := m.o().Str("user")
	key := m.conf.Load().userKeys[owner]
	if st, err := os.Stat(filepath.Join(m.cachedir, "."+owner+"_key")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("key file: %v, %v", st, err)
	}
	denied := NewMap("error", NewMap("name", "AuthenticationError", "message", "Authentication error occurred."))
	for _, c := range []struct{ user, key string }{{owner, ""}, {owner, "x"}, {"nobody", "x"}, {"sudo_x", "x"}, {"", ""}} {
		wantValue(t, c.user+" with "+c.key, m.publishAs(t, c.user, c.key, "test.ping", NewList(), NewMap()), denied)
	}
	for _, kwargs := range []*Map{NewMap("token", "x"), NewMap("token", strings.Repeat("a", 64)), NewMap("token", "../.root_key"), NewMap("eauth", "pam", "username", owner, "password", "x")} {
		wantValue(t, Repr(kwargs), m.publishAs(t, owner, key, "test.ping", NewList(), kwargs), denied)
	}
	wantLog(t, m, "WARNING", "refused a publication", "127.0.0.1")
	for _, user := range []string{owner, "sudo_someone", "root"} {
		load := m.publishAs(t, user, key, "test.ping", NewList(), NewMap()).Map("load")
		wantValue(t, user, load.Value("minions"), NewList("m"))
	}
	// No secret goes into the job cache.
	load := m.publishAs(t, owner, key, "test.ping", NewList(), NewMap("metadata", NewMap("a", int64(1)))).Map("load")
	j, err := m.jobs.Load(load.Str("jid"))
	if err != nil || strings.Contains(Repr(j.Load), key) {
		t.Errorf("job: %s, %v", Repr(j.Load), err)
	}
}

func TestPublishAnswers(t *testing.T) {
	m := startMaster(t, "nodegroups", NewMap("web", "w*"))
	for _, id := range []string{"w1", "w2", "db"} {
		m.accepted(t, id, 1)
	}
	f := m.accepted(t, "w1", 1)
	f.pillar(t, NewMap("id", "w1", "os", "Debian"))
	pub := func(tgt any, kind string) *Map {
		t.Helper()
		return m.askClear(t, m.asOwner(NewMap("cmd", "publish", "tgt", tgt, "tgt_type", kind, "fun", "test.ping", "arg", NewList(), "ret", "", "jid", "", "kwargs", NewMap()))).(*Map)
	}
	for _, c := range []struct {
		tgt              any
		kind             string
		minions, missing []string
	}{
		{"*", "glob", []string{"db", "w1", "w2"}, nil},
		{"w1", "glob", []string{"w1"}, nil},
		{NewList("w1", "nosuch"), "list", []string{"w1"}, []string{"nosuch"}},
		{"w[2]|db", "pcre", []string{"db", "w2"}, nil},
		{"os:Debian", "grain", []string{"db", "w1", "w2"}, nil}, // nothing is known of two
		{"os:Arch", "grain", []string{"db", "w2"}, nil},
		{"w* and not w2", "compound", []string{"w1"}, nil},
		{"N@web", "compound", []string{"w1", "w2"}, nil},
	} {
		load := pub(c.tgt, c.kind).Map("load")
		wantValue(t, Repr(c.tgt)+" minions", load.Value("minions"), Strings(c.minions))
		wantValue(t, Repr(c.tgt)+" missing", load.Value("missing"), Strings(c.missing))
		if ValidJID(load.Str("jid")) != nil {
			t.Errorf("jid %q", load.Str("jid"))
		}
	}
	wantValue(t, "nobody", pub("nosuch", "glob"), NewMap("enc", "clear", "load",
		NewMap("jid", nil, "minions", NewList(), "error", "Master could not resolve minions for target nosuch")))
	for name, load := range map[string]*Map{
		"no fun":          NewMap("tgt", "*", "arg", NewList()),
		"fun of a number": NewMap("tgt", "*", "fun", int64(1), "arg", NewList()),
		"no arg":          NewMap("tgt", "*", "fun", "test.ping"),
		"no target":       NewMap("fun", "test.ping", "arg", NewList()),
		"too few args":    NewMap("tgt", "*", "fun", NewList("a.b", "c.d"), "arg", NewList(NewList())),
		"a jid as path":   NewMap("tgt", "*", "fun", "test.ping", "arg", NewList(), "jid", "../x"),
	} {
		load.Set("cmd", "publish")
		v := m.askClear(t, m.asOwner(load))
		if e := v.(*Map).Map("error"); e == nil {
			t.Errorf("%s: %s", name, Repr(v))
		}
	}
	// The key that the master was asked to use is used.
	jid := "20240101000000000001"
	load := m.askClear(t, m.asOwner(NewMap("cmd", "publish", "tgt", "*", "fun", "test.ping", "arg", NewList(), "jid", jid))).(*Map).Map("load")
	wantValue(t, "jid", load.Value("jid"), jid)
}

func TestFilteredPublications(t *testing.T) {
	m := startMaster(t, "zmq_filtering", true)
	a, b := m.accepted(t, "a", 1), m.accepted(t, "b", 2)
	subA, subB := a.subscribe(t, TopicBroadcast, MinionTopic("a")), b.subscribe(t, TopicBroadcast, MinionTopic("b"))
	m.publishAsOwner(t, "a", "glob", "test.echo", "for a")
	m.publishAsOwner(t, "a or b", "compound", "test.echo", "for both")
	wantValue(t, "first of a", a.job(t, subA).Value("arg"), NewList("for a"))
	wantValue(t, "second of a", a.job(t, subA).Value("arg"), NewList("for both"))
	wantValue(t, "first of b", b.job(t, subB).Value("arg"), NewList("for both"))
}

func TestPublisherBlacklist(t *testing.T) {
	m := startMaster(t, "publisher_acl_blacklist", NewMap("users", NewList("sudo_ba.*"), "modules", NewList("cmd.*")))
	m.accepted(t, "m", 1)
	key := m.conf.Load().userKeys[m.o().Str("user")]
	denied := NewMap("error", NewMap("name", "AuthorizationError", "message", "Authorization error occurred."))
	wantValue(t, "module", m.publishAs(t, m.o().Str("user"), key, "cmd.run", NewList("id"), NewMap()), denied)
	wantValue(t, "module among others", m.publishAs(t, m.o().Str("user"), key, NewList("test.ping", "cmd.run"), NewList(NewList(), NewList()), NewMap()), denied)
	wantValue(t, "user", m.publishAs(t, "sudo_bad", key, "test.ping", NewList(), NewMap()), denied)
	if v := m.publishAs(t, "sudo_good", key, "test.ping", NewList(), NewMap()); !v.Has("load") {
		t.Errorf("another user: %s", Repr(v))
	}
}

// oneUser is an external system with one user.
type oneUser struct{}

func (oneUser) Login(_ context.Context, c *Map) (string, []string, error) {
	if c.Str("username") != "ann" || c.Str("password") != "pw" {
		return "", nil, errors.New("wrong password")
	}
	return "ann", []string{"ops"}, nil
}

func TestAccessLists(t *testing.T) {
	rules := NewList(
		"test.echo",
		NewMap("w*", NewList("test.*", NewMap("cmd.run", NewList(NewMap("args", NewList("uptime|id"), "kwargs", NewMap("cwd", "/tmp")))))),
		NewMap("G@os:Debian", NewList("grains.items")),
		"@jobs", NewMap("@wheel", NewList("key.list.*")))
	m := startMaster(t, "external_auth", NewMap("file", NewMap("ann", rules, "ops%", NewList("status.uptime"))))
	m.Eauth = oneUser{}
	for _, id := range []string{"w1", "db"} {
		m.accepted(t, id, 1)
	}
	cred := func() *Map { return NewMap("eauth", "file", "username", "ann", "password", "pw") }
	try := func(tgt, fun any, arg *List, kwargs *Map) string {
		t.Helper()
		v := m.askClear(t, NewMap("cmd", "publish", "tgt", tgt, "tgt_type", "glob", "fun", fun, "arg", arg, "kwargs", kwargs)).(*Map)
		if e := v.Map("error"); e != nil {
			return e.Str("name")
		}
		return "ok"
	}
	none := NewList()
	for _, c := range []struct {
		name string
		tgt  any
		fun  any
		arg  *List
		want string
	}{
		{"a function for all", "*", "test.echo", none, "ok"},
		{"a function for some", "w*", "test.ping", none, "ok"},
		{"the same on others", "*", "test.ping", none, "AuthorizationError"},
		{"of a group", "*", "status.uptime", none, "ok"},
		{"not at all", "w*", "file.remove", none, "AuthorizationError"},
		{"one allowed, one not", "w*", NewList("test.ping", "file.remove"), NewList(none, none), "AuthorizationError"},
		{"both allowed", "w*", NewList("test.ping", "test.echo"), NewList(none, none), "ok"},
		{"argument and keyword fit", "w*", "cmd.run", NewList("id", NewMap("__kwarg__", true, "cwd", "/tmp")), "ok"},
		{"another argument", "w*", "cmd.run", NewList("rm -r /", NewMap("__kwarg__", true, "cwd", "/tmp")), "AuthorizationError"},
		{"without the keyword", "w*", "cmd.run", NewList("id"), "AuthorizationError"},
		{"grains that nobody knows", "w1", "grains.items", none, "AuthorizationError"},
		{"find_job", "*", "saltutil.find_job", NewList("x"), "ok"},
	} {
		if got := try(c.tgt, c.fun, c.arg, cred()); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if got := try("*", "test.echo", none, NewMap("eauth", "file", "username", "ann", "password", "no")); got != "AuthenticationError" {
		t.Errorf("wrong password: %s", got)
	}
	// A token stands for the user until it expires.
	tok := m.askClear(t, withCmd("mk_token", cred())).(*Map)
	if st, err := os.Stat(filepath.Join(m.tokenDir(), tok.Str("token"))); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("token file: %v, %v", st, err)
	}
	if got := try("*", "test.echo", none, NewMap("token", tok.Str("token"))); got != "ok" {
		t.Errorf("with a token: %s", got)
	}
	if got := try("*", "test.ping", none, NewMap("token", tok.Str("token"))); got != "AuthorizationError" {
		t.Errorf("with a token, too much: %s", got)
	}
	wantValue(t, "get_token", m.askClear(t, NewMap("cmd", "get_token", "token", tok.Str("token"))).(*Map).Value("name"), "ann")
	wantValue(t, "mk_token refused", m.askClear(t, withCmd("mk_token", NewMap("eauth", "file", "username", "ann", "password", "x"))), "")
	path := filepath.Join(m.tokenDir(), tok.Str("token"))
	tok.Set("expire", unixFloat(time.Now().Add(-time.Second)))
	if err := os.WriteFile(path, mustEncode(t, tok), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := try("*", "test.echo", none, NewMap("token", tok.Str("token"))); got != "AuthenticationError" {
		t.Errorf("with an expired token: %s", got)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the expired token is still there")
	}
	// Runners and wheel.
	m.Runners = fakeRunners{}
	for fun, want := range map[string]bool{"jobs.active": true, "manage.up": false, "jobs": false} {
		v := m.askClear(t, withCmd("runner", cred(), "fun", fun)).(*Map)
		if v.Has("tag") != want {
			t.Errorf("runner %s: %s", fun, Repr(v))
		}
	}
	for fun, want := range map[string]bool{"key.list_all": true, "key.delete": false, "config.values": false} {
		v := m.askClear(t, withCmd("wheel", cred(), "fun", fun, "match", "*")).(*Map)
		if v.Has("tag") != want {
			t.Errorf("wheel %s: %s", fun, Repr(v))
		}
	}
}

func withCmd(cmd string, m *Map, kv ...any) *Map {
	out := NewMap("cmd", cmd)
	out.Merge(m)
	out.Merge(NewMap(kv...))
	return out
}

type fakeRunners struct{}

func (fakeRunners) Run(_ context.Context, fun string, args []any, kwargs *Map) (any, error) {
	if fun == "test.fail" {
		return nil, errors.New("no luck")
	}
	return NewMap("fun", fun, "args", NewList(args...), "kwargs", kwargs), nil
}

func TestRunnersFromOutside(t *testing.T) {
	m := startMaster(t, "peer_run", NewMap("m", NewList("test.*")))
	m.Runners = fakeRunners{}
	events := m.bus.Subscribe("salt/run/", 16)
	v := m.askClear(t, m.asOwner(NewMap("cmd", "runner", "fun", "test.arg", "kwarg", NewMap("arg", NewList(int64(1)), "kwarg", NewMap("a", "b"))))).(*Map)
	tag := v.Str("tag")
	ev := nextEvent(t, events, tag+"/ret")
	wantValue(t, "success", ev.Value("success"), true)
	wantValue(t, "return", ev.Value("return"), NewMap("fun", "test.arg", "args", NewList(int64(1)), "kwargs", NewMap("a", "b")))
	v = m.askClear(t, m.asOwner(NewMap("cmd", "runner", "fun", "test.fail"))).(*Map)
	ev = nextEvent(t, events, v.Str("tag")+"/ret")
	wantValue(t, "success", ev.Value("success"), false)
	v = m.askClear(t, NewMap("cmd", "runner", "fun", "test.arg", "user", "x", "key", "x")).(*Map)
	wantValue(t, "refusal", v.Map("error").Value("name"), "UserAuthenticationError")
	f := m.accepted(t, "m", 1)
	wantValue(t, "of a minion", f.call(t, "cmd", "minion_runner", "fun", "test.arg", "arg", NewList(int64(1), NewMap("__kwarg__", true, "k", "v"))),
		NewMap("fun", "test.arg", "args", NewList(int64(1)), "kwargs", NewMap("k", "v")))
	wantValue(t, "not allowed", f.call(t, "cmd", "minion_runner", "fun", "manage.up", "arg", NewList()), NewMap())
}

func TestWheelFunctions(t *testing.T) {
	m := startMaster(t)
	keys := masterTestKeys()
	for id, state := range map[string]string{"a": KeyAccepted, "p1": KeyPending, "p2": KeyPending, "r": KeyRejected} {
		if err := m.keys.Put(state, id, []byte(keys[1].PublicPEM())); err != nil {
			t.Fatal(err)
		}
	}
	wheel := func(fun string, kv ...any) (any, bool) {
		t.Helper()
		v := m.askClear(t, m.asOwner(withCmd("wheel", NewMap("fun", fun), kv...))).(*Map)
		data := v.Map("data")
		if data == nil {
			t.Fatalf("%s: %s", fun, Repr(v))
		}
		return data.Value("return"), data.Value("success") == true
	}
	events := m.bus.Subscribe("salt/key", 16)
	v, _ := wheel("key.list_all")
	wantValue(t, "list_all", v, NewMap("minions", NewList("a"), "minions_pre", NewList("p1", "p2"), "minions_rejected", NewList("r"),
		"minions_denied", NewList(), "local", NewList("master.pem", "master.pub")))
	v, _ = wheel("key.accept", "match", "p1")
	wantValue(t, "accept", v, NewMap("minions", NewList("p1")))
	wantValue(t, "event", nextEvent(t, events, "salt/key").Value("act"), "accept")
	v, _ = wheel("key.reject", "match", "p*", "include_accepted", true)
	wantValue(t, "reject", v, NewMap("minions_rejected", NewList("p1", "p2")))
	v, _ = wheel("key.delete", "match", "p1,r")
	wantValue(t, "delete", v, NewMap())
	v, _ = wheel("key.delete_dict", "match", NewMap("minions_rejected", NewList("p2")))
	wantValue(t, "delete_dict", v, NewMap())
	v, _ = wheel("key.finger", "match", "*")
	wantValue(t, "finger", v, NewMap("minions", NewMap("a", Fingerprint([]byte(keys[1].PublicPEM()), "sha256"))))
	v, _ = wheel("key.gen_accept", "id_", "new")
	if pub := v.(*Map).Str("pub"); pub == "" || !m.keys.Has(KeyAccepted, "new") {
		t.Errorf("gen_accept: %s", Repr(v))
	}
	v, _ = wheel("key.gen_accept", "id_", "new")
	wantValue(t, "gen_accept again", v, NewMap())
	for _, bad := range []string{"../x", "a/b", ".hidden", ""} {
		if v, ok := wheel("key.gen_accept", "id_", bad); ok {
			t.Errorf("gen_accept %q: %s", bad, Repr(v))
		}
	}
	if err := os.MkdirAll(filepath.Join(m.dir, "srv"), 0o755); err != nil {
		t.Fatal(err)
	}
	v, _ = wheel("file_roots.write", "data", "x: 1", "path", "sub/x.sls")
	if !strings.HasPrefix(Str(v), "Wrote") {
		t.Fatal(v)
	}
	for _, bad := range []string{"../x", "/etc/x", "a/../../x"} {
		if v, _ := wheel("file_roots.write", "data", "x", "path", bad); strings.HasPrefix(Str(v), "Wrote") {
			t.Errorf("write %q: %s", bad, Repr(v))
		}
	}
	if v, ok := wheel("file_roots.read", "path", "../pki/master.pem"); ok {
		t.Errorf("read outside: %s", Repr(v))
	}
	for _, fun := range []string{"key.nosuch", "nosuch.x", "key", "__init__.x"} {
		if v, ok := wheel(fun); ok || !strings.Contains(Str(v), "is not available") {
			t.Errorf("%s: %s", fun, Repr(v))
		}
	}
	if v, ok := wheel("config.values"); !ok || v.(*Map).Str("cachedir") != m.cachedir {
		t.Error("config.values")
	}
}

func TestClearCommandsOfStrangers(t *testing.T) {
	m := startMaster(t)
	wantValue(t, "ping", m.askClear(t, NewMap("cmd", "ping", "a", int64(1))), NewMap("cmd", "ping", "a", int64(1)))
	for _, cmd := range []string{"_return", "_pillar", "_prep_auth_info", "publish_", "connect", "nosuch"} {
		wantValue(t, cmd, m.askClear(t, NewMap("cmd", cmd)), NewMap())
	}
	wantValue(t, "get_token without token", m.askClear(t, NewMap("cmd", "get_token")), false)
	wantValue(t, "get_token of a path", m.askClear(t, NewMap("cmd", "get_token", "token", "../.root_key")), NewMap())
}

func TestMetricsPage(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	m := startMaster(t, "metrics_port", int64(port))
	f := m.accepted(t, "m", 1)
	f.call(t, "cmd", "_file_envs")
	f.subscribe(t)
	m.publishAsOwner(t, "*", "glob", "test.ping")
	var page string
	eventually(t, "metrics", func() bool {
		r, err := http.Get("http://127.0.0.1:" + Str(int64(port)) + "/metrics")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		p, err := io.ReadAll(r.Body)
		page = string(p)
		return err == nil && r.StatusCode == 200
	})
	for _, line := range []string{"halite_logins_total 1", "halite_publishes_total 1", `halite_keys{state="accepted"} 1`, "halite_publish_peers 1",
		"halite_minions_connected 1", `halite_command_seconds_count{command="_file_envs"} 1`, "halite_login_seconds_count 1", "halite_jobs 1"} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(page), "\n") {
		if fields := strings.Fields(line); line[0] != '#' && len(fields) != 2 {
			t.Errorf("line %q", line)
		}
	}
}

func TestReload(t *testing.T) {
	m := startMaster(t)
	f := m.accepted(t, "m", 1)
	o := m.o().Clone()
	o.Set("file_roots", NewMap("base", NewList("/a"), "dev", NewList("/b")))
	m.Reload(o)
	wantValue(t, "envs", f.call(t, "cmd", "_file_envs"), NewList("base", "dev"))
}

func TestPresenceEvents(t *testing.T) {
	m := startMaster(t, "presence_events", true, "loop_interval", 0.05)
	events := m.bus.Subscribe("salt/presence/", 256)
	f := m.accepted(t, "m", 1)
	sub := f.subscribe(t)
	wantValue(t, "new", nextEvent(t, events, "salt/presence/change").Value("new"), NewList("m"))
	sub.Close()
	wantValue(t, "lost", nextEvent(t, events, "salt/presence/change").Value("lost"), NewList("m"))
}
