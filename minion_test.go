// A minion and its master: jobs, losses of either, and coming back.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// masterFor runs a master that accepts everybody, in dir; with the ports of an
// earlier one it takes its place.
func masterFor(t *testing.T, dir string, ports [2]int) *testMaster {
	t.Helper()
	return startMasterIn(t, dir, "auto_accept", true, "publish_port", int64(ports[0]), "ret_port", int64(ports[1]))
}

func (m *testMaster) ports() [2]int {
	pub, req := m.Addrs()
	return [2]int{pub.(*net.TCPAddr).Port, req.(*net.TCPAddr).Port}
}

// publish sends a job as the salt command does and returns its jid.
func (m *testMaster) publish(t testing.TB, tgt, fun string, arg ...any) string {
	t.Helper()
	jid, _ := m.publishAsOwner(t, tgt, "glob", fun, arg...)
	return jid
}

// run publishes a job and waits for the return of one minion.
func (m *testMaster) run(t testing.TB, id, fun string, arg ...any) *Map {
	t.Helper()
	sub := m.Bus().Subscribe("salt/job/", 100)
	defer sub.Close()
	jid := m.publish(t, id, fun, arg...)
	return m.await(t, sub, jid, id)
}

func (m *testMaster) await(t testing.TB, sub *EventSubscription, jid, id string) *Map {
	t.Helper()
	deadline := time.After(15 * time.Second)
	for {
		select {
		case e := <-sub.C:
			if e.Tag == "salt/job/"+jid+"/ret/"+id {
				return e.Data
			}
		case <-deadline:
			t.Fatalf("no return of %s for job %s", id, jid)
		}
	}
}

// startMinion runs a minion of a master and waits for its start event.
func startMinion(t testing.TB, m *testMaster, id string, opts ...any) (*Minion, func()) {
	t.Helper()
	dir := filepath.Join(m.dir, id)
	o := DefaultMinionOptions()
	for _, kv := range [][2]any{
		{"id", id}, {"root_dir", dir}, {"pki_dir", dir + "/pki"}, {"cachedir", dir + "/cache"}, {"sock_dir", dir + "/run"},
		{"master", "127.0.0.1"}, {"master_port", int64(m.ports()[1])}, {"recon_default", int64(20)}, {"recon_max", int64(100)},
		{"acceptance_wait_time", 0.1}, {"return_retry_timer", int64(1)}, {"return_retry_timer_max", int64(1)}, {"skip_grains", true},
	} {
		o.Set(kv[0].(string), kv[1])
	}
	for i := 0; i+1 < len(opts); i += 2 {
		o.Set(opts[i].(string), opts[i+1])
	}
	minion, err := NewMinion(o, discardLog())
	if err != nil {
		t.Fatal(err)
	}
	sub := m.Bus().Subscribe("salt/minion/"+id+"/start", 4)
	defer sub.Close()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- minion.Run(ctx) }()
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			cancel()
			<-done
		}
	}
	t.Cleanup(stop)
	select {
	case <-sub.C:
	case err := <-done:
		t.Fatalf("the minion ended: %v", err)
	case <-time.After(15 * time.Second):
		t.Fatal("no start event")
	}
	return minion, stop
}

func TestMinionRunsJobsOfItsMaster(t *testing.T) {
	m := masterFor(t, shortTempDir(t), [2]int{})
	minion, _ := startMinion(t, m, "m1")
	if minion.Links()[0].libzmq {
		t.Error("our own master is taken for one of Python, whose commands need slow returns")
	}
	if ret := m.run(t, "m1", "test.ping"); ret.Value("return") != true || ret.Value("retcode") != int64(0) || ret.Value("success") != true || ret.Str("user") != "root" {
		t.Errorf("test.ping returned %s", Repr(ret))
	}
	ret := m.run(t, "m1", "test.arg", int64(1), "b=2", NewMap("__kwarg__", true, "c", "three"))
	got := ret.Map("return")
	if Repr(got.Value("args")) != "[1]" || got.Map("kwargs").Value("b") != int64(2) || got.Map("kwargs").Str("c") != "three" ||
		got.Map("kwargs").Str("__pub_fun") != "test.arg" || got.Map("kwargs").Has("__pub_serial") {
		t.Errorf("test.arg returned %s", Repr(got))
	}
	for _, tc := range []struct {
		fun     string
		arg     []any
		ret     string // part of the text
		retcode int64
	}{
		{"cmd.run", []any{"echo x; exit 3"}, "x", 3},
		{"test.nosuch", nil, "'test.nosuch' is not available.", 1},
		{"test.echo", nil, "Passed invalid arguments to test.echo: echo() missing 1 required positional argument: 'text'\n", 1},
		{"test.ping", []any{NewMap("__kwarg__", true, "x", int64(1))}, "ERROR executing 'test.ping': The following keyword arguments are not valid: x=1", 1},
		{"test.exception", []any{"my words"}, "The minion function caused an exception: Traceback (most recent call last):\n", 1},
	} {
		ret := m.run(t, "m1", tc.fun, tc.arg...)
		if !strings.Contains(Str(ret.Value("return")), tc.ret) || ret.Value("retcode") != tc.retcode || ret.Value("success") != false {
			t.Errorf("%s returned %s", tc.fun, Repr(ret))
		}
	}
	ret = m.run(t, "m1", "te")
	if docs := ret.Map("return"); docs.Str("te") != "'te' is not available." || !docs.Has("test.ping") || ret.Str("out") != "nested" {
		t.Errorf("a function without a dot returned %.200s", Repr(ret))
	}
}

func TestSeveralFunctionsInOneJob(t *testing.T) {
	m := masterFor(t, shortTempDir(t), [2]int{})
	minion, _ := startMinion(t, m, "m1")
	l := minion.Links()[0]
	p := &PublishLoad{JID: jidNumber(1), Several: true, Funs: []string{"test.ping", "test.retcode", "test.nosuch", "test.exception"},
		Args: []*List{NewList(), NewList(int64(7)), NewList(), NewList("no")}, Map: NewMap("jid", jidNumber(1))}
	ret := severalFunctions(t.Context(), NewCall(minion.env(l), "", p.JID, p.Map), p, false)
	if got := Repr(ret.Map("retcode")); got != "{'test.ping': 0, 'test.retcode': 7}" {
		t.Errorf("retcode is %s", got)
	}
	if got := Repr(ret.Map("success")); got != "{'test.ping': True, 'test.retcode': False, 'test.nosuch': False, 'test.exception': False}" {
		t.Errorf("success is %s", got)
	}
	if got := ret.Map("return").Str("test.nosuch"); !strings.HasSuffix(got, "TypeError: 'str' object is not callable\n") {
		t.Errorf("the missing function returned %q", got)
	}
	if got := ret.Map("return").Str("test.exception"); !strings.HasSuffix(got, "Exception: no\n") {
		t.Errorf("the failing function returned %q", got)
	}
}

func TestKillJobOverTheMaster(t *testing.T) {
	m := masterFor(t, shortTempDir(t), [2]int{})
	startMinion(t, m, "m1")
	sub := m.Bus().Subscribe("salt/job/", 100)
	defer sub.Close()
	file := filepath.Join(m.dir, "pid")
	jid := m.publish(t, "m1", "cmd.run", "sleep 600 & echo $! > "+file+"; wait")
	child := childPid(t, file)
	if load := m.run(t, "m1", "saltutil.find_job", jid).Map("return"); load.Str("fun") != "cmd.run" || load.Str("jid") != jid {
		t.Errorf("find_job returned %s", Repr(load))
	}
	if text := m.run(t, "m1", "saltutil.kill_job", jid).Str("return"); !strings.HasPrefix(text, "Signal 9 sent to job "+jid+" at pid ") {
		t.Errorf("kill_job returned %q", text)
	}
	if ret := m.await(t, sub, jid, "m1"); ret.Value("retcode") != int64(137) {
		t.Errorf("the killed job returned %s", Repr(ret))
	}
	gone(t, child)
	if load := m.run(t, "m1", "saltutil.find_job", jid).Map("return"); load.Len() != 0 {
		t.Errorf("find_job still finds %s", Repr(load))
	}
}

func TestMinionComesBackAfterTheMasterWasStartedAgain(t *testing.T) {
	dir := shortTempDir(t)
	m := masterFor(t, dir, [2]int{})
	ports := m.ports()
	startMinion(t, m, "m1")
	starts := 0
	m.run(t, "m1", "test.ping")
	m.stop()
	m = masterFor(t, dir, ports) // new key for publications
	sub := m.Bus().Subscribe("salt/minion/", 10)
	defer sub.Close()
	eventually(t, "subscription", func() bool { return len(m.pub.Peers()) == 1 })
	if ret := m.run(t, "m1", "test.ping"); ret.Value("return") != true {
		t.Errorf("test.ping returned %s", Repr(ret))
	}
	for len(sub.C) > 0 {
		<-sub.C
		starts++
	}
	if starts != 0 {
		t.Errorf("%d start events after a mere loss of the connection", starts)
	}
}

func TestAReturnWaitsForTheMasterAndForTheMinion(t *testing.T) {
	dir := shortTempDir(t)
	m := masterFor(t, dir, [2]int{})
	ports := m.ports()
	_, stop := startMinion(t, m, "m1")
	file := filepath.Join(dir, "go")
	jid := m.publish(t, "m1", "cmd.run", "while [ ! -e "+file+" ]; do sleep 0.02; done; echo late")
	eventually(t, "the job", func() bool {
		_, err := os.Stat(filepath.Join(dir, "m1/cache/proc", jid))
		return err == nil
	})
	m.stop()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	spooled := func() bool {
		names, _ := filepath.Glob(filepath.Join(dir, "m1/cache/returns/*-"+jid))
		return len(names) == 1
	}
	eventually(t, "the return on disk", spooled)
	stop()
	if !spooled() {
		t.Fatal("the return is gone though no master has it")
	}
	m = masterFor(t, dir, ports)
	sub := m.Bus().Subscribe("salt/job/"+jid, 10)
	defer sub.Close()
	startMinion(t, m, "m1")
	if ret := m.await(t, sub, jid, "m1"); ret.Str("return") != "late" {
		t.Errorf("the late return is %s", Repr(ret))
	}
	eventually(t, "the end of the file", func() bool { return !spooled() })
}

func TestAStoppedMinionTellsAboutJobsThatRan(t *testing.T) {
	dir := shortTempDir(t)
	m := masterFor(t, dir, [2]int{})
	minion, stop := startMinion(t, m, "m1")
	minion.LeaveJobs = true
	jid := m.publish(t, "m1", "cmd.run", "sleep 30")
	eventually(t, "the job", func() bool { return minion.jobs.Find(jid) != nil })
	sub := m.Bus().Subscribe("salt/job/"+jid, 10)
	defer sub.Close()
	began := time.Now()
	stop()
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("the stop took %v", d)
	}
	minion.jobs.Close(&JobSignal{9}) // what the end of the process does
	startMinion(t, m, "m1")
	if ret := m.await(t, sub, jid, "m1"); !strings.Contains(ret.Str("return"), "stopped while the job ran") {
		t.Errorf("the return is %s", Repr(ret))
	}
}

func TestPublicationsThatAreNotForUs(t *testing.T) {
	m := masterFor(t, shortTempDir(t), [2]int{})
	minion, _ := startMinion(t, m, "m1")
	l := minion.Links()[0]
	for _, frames := range [][][]byte{
		{[]byte("0123456789012345678901234567890123456789"), []byte("x")},
		{[]byte("a"), []byte("b"), []byte("c")},
		{[]byte("rubbish")},
		{nil},
	} {
		if err := l.published(t.Context(), frames); err != nil {
			t.Errorf("%q broke the link: %v", frames, err)
		}
	}
	// A publication under a key that nobody has costs one login, and the next
	// one within seconds costs none.
	c, err := NewCrypticle(GenerateKeyString())
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := c.Encrypt(NewMap("fun", "test.ping"), "")
	if err != nil {
		t.Fatal(err)
	}
	body, err := (&Publication{Sealed: sealed}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	before := l.channel.Session()
	if _, err := l.open(t.Context(), body); !errors.Is(err, ErrBadMAC) {
		t.Errorf("error is %v", err)
	}
	once := l.channel.Session()
	if once == before {
		t.Error("no login after an unreadable publication")
	}
	if _, err := l.open(t.Context(), body); !errors.Is(err, ErrBadMAC) || l.channel.Session() != once {
		t.Errorf("a second login at once, or error %v", err)
	}
}

func TestSignPubMessagesRefusesUnsignedPublications(t *testing.T) {
	m := masterFor(t, shortTempDir(t), [2]int{})
	minion, _ := startMinion(t, m, "m1", "sign_pub_messages", true)
	l := minion.Links()[0]
	if ret := m.run(t, "m1", "test.ping"); ret.Value("return") != true {
		t.Errorf("a signed job returned %s", Repr(ret))
	}
	sealed, err := l.channel.Session().AES.Encrypt(NewMap("fun", "test.ping"), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, pub := range []*Publication{{Sealed: sealed}, {Sealed: sealed, SigAlgo: AlgoPKCS1v15SHA1, Sig: make([]byte, 256)}} {
		body, err := pub.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.open(t.Context(), body); err == nil {
			t.Errorf("taken: %+v", pub)
		}
	}
}

func TestRepeatedJobsAreNotRunAgain(t *testing.T) {
	l := &masterLink{opts: NewOptions(NewMap("minion_jid_queue_hwm", int64(3)))}
	for n := range 10 {
		if l.repeated(jidNumber(n)) {
			t.Errorf("job %d counts as repeated", n)
		}
		if !l.repeated(jidNumber(n)) {
			t.Errorf("job %d is not known", n)
		}
	}
	if len(l.recent) != 3 {
		t.Errorf("%d jids are remembered", len(l.recent))
	}
}

func TestFailoverTakesTheNextMasterAndSendsNoSecondStartEvent(t *testing.T) {
	one, two := masterFor(t, shortTempDir(t), [2]int{}), masterFor(t, shortTempDir(t), [2]int{})
	events := two.Bus().Subscribe("salt/minion/", 10)
	defer events.Close()
	addr := func(m *testMaster) string { return fmt.Sprintf("127.0.0.1:%d", m.ports()[1]) }
	startMinion(t, one, "m1", "master_type", "failover", "master", NewList(addr(one), addr(two)))
	one.run(t, "m1", "test.ping")
	one.stop()
	eventually(t, "subscription at the second master", func() bool { return len(two.pub.Peers()) == 1 })
	if ret := two.run(t, "m1", "test.ping"); ret.Value("return") != true {
		t.Errorf("test.ping returned %s", Repr(ret))
	}
	if len(events.C) != 0 {
		t.Error("a start event at the second master")
	}
}

func TestSeveralMastersAtOnce(t *testing.T) {
	one, two := masterFor(t, shortTempDir(t), [2]int{}), masterFor(t, shortTempDir(t), [2]int{})
	addr := func(m *testMaster) string { return fmt.Sprintf("127.0.0.1:%d", m.ports()[1]) }
	startMinion(t, one, "m1", "master", NewList(addr(one), addr(two)))
	eventually(t, "subscription at the second master", func() bool { return len(two.pub.Peers()) == 1 })
	for _, m := range []*testMaster{one, two} {
		if ret := m.run(t, "m1", "test.ping"); ret.Value("return") != true {
			t.Errorf("test.ping returned %s", Repr(ret))
		}
	}
	one.stop()
	if ret := two.run(t, "m1", "test.ping"); ret.Value("return") != true {
		t.Errorf("with one master gone test.ping returned %s", Repr(ret))
	}
}

func TestMinionWithoutMaster(t *testing.T) {
	o := DefaultMinionOptions()
	dir := t.TempDir()
	for _, kv := range [][2]any{{"id", "m1"}, {"pki_dir", dir + "/pki"}, {"cachedir", dir + "/cache"}, {"master_type", "disable"}, {"skip_grains", true}} {
		o.Set(kv[0].(string), kv[1])
	}
	m, err := NewMinion(o, discardLog())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAJobThatEndsWhileTheMinionStopsIsStillReturned(t *testing.T) {
	dir := shortTempDir(t)
	m := masterFor(t, dir, [2]int{})
	minion, stop := startMinion(t, m, "m1")
	file := filepath.Join(dir, "go")
	sub := m.Bus().Subscribe("salt/job/", 10)
	defer sub.Close()
	jid := m.publish(t, "m1", "cmd.run", "while [ ! -e "+file+" ]; do sleep 0.02; done; echo done")
	eventually(t, "the job", func() bool { return minion.jobs.Find(jid) != nil })
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	eventually(t, "the end of the subscription", func() bool { return len(m.pub.Peers()) == 0 })
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-stopped
	if ret := m.await(t, sub, jid, "m1"); ret.Str("return") != "done" {
		t.Errorf("the return is %s", Repr(ret))
	}
}
