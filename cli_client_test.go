// What salt waits for: a scripted master returns early, late, twice or never.
package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// scriptedMaster is the side of a master that the local client sees: the
// request port, the bus and the directories. What it answers to a publication
// is up to the test.
type scriptedMaster struct {
	t    *testing.T
	o    *Options
	dir  string
	jids JIDSource

	mu       sync.Mutex
	readers  []net.Conn
	listener net.Listener
	requests []*Map
	// publish answers a publication and may fire events, which are sent when
	// the answer is under way.
	publish func(m *scriptedMaster, jid string, load *Map) any
}

func newScriptedMaster(t *testing.T, publish func(m *scriptedMaster, jid string, load *Map) any) *scriptedMaster {
	t.Helper()
	dir := shortTempDir(t)
	m := &scriptedMaster{t: t, dir: dir, publish: publish}
	ctx, cancel := context.WithCancel(context.Background())
	srv, err := ListenRequests(ctx, "127.0.0.1:0", TransportOptions{}, m.answer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); srv.Close(); m.dropBus() })
	m.o = masterTestOptions(dir, "ret_port", int64(srv.Addr().(*net.TCPAddr).Port), "timeout", 0.2, "gather_job_timeout", 0.3)
	for _, d := range []string{"run", "cache", "pki/minions"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "run/publish_pull.ipc"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.openBus()
	return m
}

func (m *scriptedMaster) openBus() {
	l, err := net.Listen("unix", filepath.Join(m.dir, "run/master_event_pub.ipc"))
	if err != nil {
		m.t.Fatal(err)
	}
	m.mu.Lock()
	m.listener = l
	m.mu.Unlock()
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			m.mu.Lock()
			m.readers = append(m.readers, c)
			m.mu.Unlock()
		}
	}()
}

// dropBus ends the bus and every connection to it.
func (m *scriptedMaster) dropBus() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listener.Close()
	for _, c := range m.readers {
		c.Close()
	}
	m.readers = nil
}

// fire puts an event on the bus once somebody reads it.
func (m *scriptedMaster) fire(tag string, kv ...any) {
	eventually(m.t, "a reader of the bus", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return len(m.readers) > 0 })
	event, err := PackEvent(tag, NewMap(kv...))
	if err != nil {
		m.t.Error(err)
	}
	frame, err := BusFrame(event)
	if err != nil {
		m.t.Error(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.readers {
		c.Write(frame)
	}
}

// returns fires the return of a minion.
func (m *scriptedMaster) returns(jid, id string, ret any, retcode int) {
	m.fire("salt/job/"+jid+"/ret/"+id, "id", id, "jid", jid, "return", ret, "retcode", int64(retcode), "success", retcode == 0)
}

func (m *scriptedMaster) answer(_ context.Context, _ *Peer, body []byte) []byte {
	r, err := DecodeRequest(body)
	if err != nil {
		m.t.Error(err)
		return nil
	}
	m.mu.Lock()
	m.requests = append(m.requests, r.Clear)
	m.mu.Unlock()
	v := m.publish(m, m.jids.Next(time.Now()), r.Clear)
	p, err := EncodeWire(v)
	if err != nil {
		m.t.Error(err)
	}
	return p
}

// publishedTo is the answer of a master that sent the job.
func publishedTo(jid string, minions ...string) *Map {
	return NewMap("enc", "clear", "load", NewMap("jid", jid, "minions", Strings(minions)))
}

func (m *scriptedMaster) client() *LocalClient {
	c := NewLocalClient(m.o, PublishAuth{}, nil)
	m.t.Cleanup(c.Close)
	return c
}

// run runs test.ping and returns what came, id=text, sorted.
func (m *scriptedMaster) run(c *LocalClient, w WaitOptions) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var got []string
	_, err := c.Run(ctx, JobRequest{Tgt: "*", Fun: "test.ping"}, w, func(r MinionReturn) bool {
		text := Str(r.Return)
		if r.Silent != "" {
			text = string(r.Silent)
		}
		got = append(got, r.ID+"="+text)
		return true
	})
	slices.Sort(got)
	return strings.Join(got, " "), err
}

func isFindJobLoad(load *Map) bool { return load.Value("fun") == any("saltutil.find_job") }

func TestClientTakesReturnsThatComeBeforeTheAnswer(t *testing.T) {
	m := newScriptedMaster(t, func(m *scriptedMaster, jid string, load *Map) any {
		m.returns(jid, "a", true, 0) // the master is still busy with the answer
		m.returns("20200101000000000000", "a", "of another job", 0)
		return publishedTo(jid, "a")
	})
	if got, err := m.run(m.client(), WaitOptions{Silent: true}); got != "a=True" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestClientVerdicts(t *testing.T) {
	m := newScriptedMaster(t, func(m *scriptedMaster, jid string, load *Map) any {
		if !isFindJobLoad(load) {
			go m.returns(jid, "good", true, 0)
			p := publishedTo(jid, "good", "dead", "gone", "idle", "broken")
			p.Map("load").Set("missing", NewList("pending", "unknown"))
			return p
		}
		go func() {
			m.returns(jid, "idle", NewMap(), 0)
			m.returns(jid, "broken", "no such thing", 1)
		}()
		return publishedTo(jid, toStrings(load.Value("tgt"))...)
	})
	for _, id := range []string{"good", "dead", "gone", "idle", "broken"} {
		os.WriteFile(filepath.Join(m.dir, "pki/minions", id), []byte("key"), 0o644)
	}
	os.MkdirAll(filepath.Join(m.dir, "pki/minions_pre"), 0o755)
	os.WriteFile(filepath.Join(m.dir, "pki/minions_pre/pending"), []byte("key"), 0o644)
	c := m.client()
	got, err := m.run(c, WaitOptions{Silent: true})
	want := "broken=No answer on the job dead=No response gone=No response good=True idle=Not running pending=Key not accepted unknown=No response"
	if got != want || err != nil {
		t.Errorf("got  %s (%v)\nwant %s", got, err, want)
	}
	// Without silent ones only names that nobody has are reported.
	if got, _ := m.run(c, WaitOptions{}); got != "good=True pending=Key not accepted unknown=No response" {
		t.Errorf("hidden: %s", got)
	}
	for _, s := range []Silence{SilentNoResponse, SilentNotConnected, SilentRunning, SilentNotTaken, SilentRefused, SilentFailed} {
		if text := silenceText(s, "1", "x"); !strings.HasPrefix(text, "Minion did not return. ["+string(s)+"]") {
			t.Errorf("%q does not begin with Salt's words", text)
		}
	}
}

func TestClientWaitsWhileAMinionRuns(t *testing.T) {
	var job string
	asked := 0
	m := newScriptedMaster(t, func(m *scriptedMaster, jid string, load *Map) any {
		if !isFindJobLoad(load) {
			job = jid
			return publishedTo(jid, "a")
		}
		asked++
		n := asked
		go func() {
			if n < 3 {
				m.returns(jid, "a", NewMap("jid", job, "pid", int64(1)), 0)
				return
			}
			m.returns(job, "a", "at last", 0)
		}()
		return publishedTo(jid, "a")
	})
	if got, err := m.run(m.client(), WaitOptions{Silent: true}); got != "a=at last" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if asked < 3 {
		t.Errorf("asked only %d times", asked)
	}
}

func TestClientDeadlineEndsAWaitForASickMinion(t *testing.T) {
	m := newScriptedMaster(t, func(m *scriptedMaster, jid string, load *Map) any {
		if isFindJobLoad(load) {
			go m.returns(jid, "sick", NewMap("pid", int64(1)), 0)
		}
		return publishedTo(jid, "sick")
	})
	began := time.Now()
	got, err := m.run(m.client(), WaitOptions{Silent: true, Deadline: 1200 * time.Millisecond})
	if got != "sick=Still running" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if took := time.Since(began); took < time.Second || took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestClientReadsTheJobCacheBeforeItSaysSilent(t *testing.T) {
	m := newScriptedMaster(t, func(m *scriptedMaster, jid string, load *Map) any {
		if !isFindJobLoad(load) {
			cache := OpenJobCache(filepath.Join(m.dir, "cache/jobs"), JobCacheOptions{})
			if err := cache.Begin(jid, NewMap("fun", "test.ping"), []string{"a"}, false); err != nil {
				m.t.Error(err)
			}
			cache.Return(jid, "a", NewMap("return", "from the cache", "retcode", int64(0)))
		}
		return publishedTo(jid, "a")
	})
	if got, err := m.run(m.client(), WaitOptions{Silent: true}); got != "a=from the cache" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestClientReadsSaltsJobCache(t *testing.T) {
	m := newScriptedMaster(t, nil)
	r := newJobReader(m.o)
	jid := "20240131093000123456"
	dir := r.saltsDir(jid)
	put := func(name string, v any) {
		p, err := EncodeBin(v)
		if err != nil {
			t.Fatal(err)
		}
		os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
		if err := os.WriteFile(filepath.Join(dir, name), p, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put(".load.p", NewMap("fun", "state.apply", "jid", jid))
	put(".minions.p", NewList("b", "a"))
	put("a/return.p", NewMap("return", int64(1), "retcode", int64(2)))
	put("a/out.p", "highstate")
	os.WriteFile(filepath.Join(dir, "jid"), []byte(jid), 0o644)
	job, err := r.load(jid)
	if err != nil || strings.Join(job.Minions, " ") != "a b" || job.Returns.Map("a").Str("out") != "highstate" {
		t.Fatalf("%+v, %v", job, err)
	}
	var listed []string
	r.list(func(s JobSummary) bool { listed = append(listed, s.JID); return true })
	if strings.Join(listed, " ") != jid {
		t.Errorf("listed %v", listed)
	}
	for _, bad := range []string{"../../etc/passwd", "", "abc", "2024"} {
		if _, err := r.load(bad); err == nil {
			t.Errorf("%q is a job", bad)
		}
	}
}

// The bus goes away with a return on it; the client finds it in the cache, and
// hears the rest on the new bus.
func TestClientSurvivesALostBus(t *testing.T) {
	m := newScriptedMaster(t, func(m *scriptedMaster, jid string, load *Map) any {
		if !isFindJobLoad(load) {
			go func() {
				m.returns(jid, "a", 1, 0)
				cache := OpenJobCache(filepath.Join(m.dir, "cache/jobs"), JobCacheOptions{})
				cache.Begin(jid, NewMap("fun", "x"), []string{"a", "b", "c"}, false)
				cache.Return(jid, "b", NewMap("return", int64(2)))
				m.dropBus()
				m.openBus()
				m.returns(jid, "c", 3, 0)
			}()
			return publishedTo(jid, "a", "b", "c")
		}
		return publishedTo(jid, toStrings(load.Value("tgt"))...)
	})
	if got, err := m.run(m.client(), WaitOptions{Silent: true, Timeout: 5 * time.Second}); got != "a=1 b=2 c=3" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestClientErrorsOfTheMaster(t *testing.T) {
	for _, c := range []struct {
		answer any
		name   string
	}{
		{NewMap("error", NewMap("name", "AuthorizationError", "message", "Authorization error occurred.")), "AuthorizationError"},
		{NewMap("error", "it is full"), "PublishError"},
		{"", "EauthAuthenticationError"},
	} {
		m := newScriptedMaster(t, func(*scriptedMaster, string, *Map) any { return c.answer })
		_, err := m.run(m.client(), WaitOptions{})
		var refused *ClientError
		if !errors.As(err, &refused) || refused.Name != c.name {
			t.Errorf("%s: %v", Repr(c.answer), err)
		}
	}
	m := newScriptedMaster(t, func(_ *scriptedMaster, _ string, _ *Map) any {
		return NewMap("enc", "clear", "load", NewMap("jid", nil, "minions", NewList()))
	})
	if _, err := m.run(m.client(), WaitOptions{}); !errors.Is(err, ErrNoMinions) {
		t.Errorf("no minions: %v", err)
	}
	os.Remove(filepath.Join(m.dir, "run/publish_pull.ipc"))
	if _, err := m.run(m.client(), WaitOptions{}); err == nil || err.Error() != textNoMaster {
		t.Errorf("no master: %v", err)
	}
	o := m.o.Clone()
	o.Set("nodegroups", NewMap("g", "a or b"))
	nodegroups := NewLocalClient(o, PublishAuth{}, nil)
	defer nodegroups.Close()
	if _, err := nodegroups.Publish(context.Background(), JobRequest{Tgt: "h", TgtType: "nodegroup", Fun: "x"}, false); err == nil ||
		err.Error() != "Node group h unavailable in "+o.Str("conf_file") {
		t.Errorf("unknown group: %v", err)
	}
}

func TestParseBatchSize(t *testing.T) {
	for _, c := range []struct {
		text    string
		minions int
		want    int
	}{{"1", 3, 1}, {"10", 3, 10}, {"10%", 3, 1}, {"50%", 3, 1}, {"%50", 4, 2}, {"33.4%", 3, 1}, {"100%", 7, 7}, {"200%", 3, 6},
		{"abc", 3, 0}, {"0", 3, 0}, {"-1", 3, 0}, {"0%", 3, 0}, {"", 3, 0}, {"NaN%", 3, 0}} {
		n, err := parseBatchSize(c.text, c.minions)
		if n != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%q of %d: %d, %v", c.text, c.minions, n, err)
		}
	}
}

func TestConnectedAddressOfProc(t *testing.T) {
	got, ok := procAddress("0100007F:1194")
	if !ok || got.String() != "127.0.0.1:4500" {
		t.Errorf("%v, %v", got, ok)
	}
	got, ok = procAddress("000080FE00000000FF005450B6AD1DFE:01BB")
	if !ok || got.String() != "[fe80::5054:ff:fe1d:adb6]:443" {
		t.Errorf("%v, %v", got, ok)
	}
	for _, bad := range []string{"", "xx:1", "0100007F", "01:02"} {
		if _, ok := procAddress(bad); ok {
			t.Errorf("%q is an address", bad)
		}
	}
}
