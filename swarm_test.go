// A swarm's minions are as good as real ones for the master that it measures.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// testSwarm is a swarm that lives at a master.
type testSwarm struct {
	*Swarm
	stop func()
}

// swarmTestIDs are the ids of n minions.
func swarmTestIDs(n int) []string {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("swarm-%05d", i+1))
	}
	return ids
}

// swarmTestKeys are keys of a swarm, made anew.
func swarmTestKeys(t testing.TB, n int) []*swarmKey {
	t.Helper()
	keys, _, err := loadSwarmKeys(t.TempDir(), n)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// startSwarm lets n minions with accepted keys live at the request port of a
// master, and waits until all are there.
func startSwarm(t testing.TB, pki, addr string, n int, change func(*SwarmOptions)) *testSwarm {
	t.Helper()
	a, err := parseMaster(addr, 4506)
	if err != nil {
		t.Fatal(err)
	}
	o := SwarmOptions{IDs: swarmTestIDs(n), Keys: swarmTestKeys(t, n), Host: a.Host, RetPort: a.Port, Timeout: 20 * time.Second,
		Grains: NewMap("os", "Swarm")}
	if change != nil {
		change(&o)
	}
	if pki != "" {
		if err := preseed(pki, o.IDs, o.Keys); err != nil {
			t.Fatal(err)
		}
	}
	s := NewSwarm(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	ts := &testSwarm{s, func() { cancel(); <-done }}
	t.Cleanup(ts.stop)
	return ts
}

func (s *testSwarm) await(t testing.TB) {
	t.Helper()
	select {
	case <-s.Ready():
	case <-time.After(30 * time.Second):
		t.Fatalf("the swarm does not get ready:\n%s", swarmText(s.Report()))
	}
}

// waiting is how many returns the master has not acknowledged.
func (s *testSwarm) returns() (acknowledged, waiting int64) {
	r := s.Report().Map("returns")
	return r.Value("acknowledged").(int64), r.Value("waiting").(int64)
}

func TestSwarmKeysAreMadeOnce(t *testing.T) {
	dir := t.TempDir()
	first, made, err := loadSwarmKeys(dir, 5)
	if err != nil || made != 5 {
		t.Fatalf("made %d, %v", made, err)
	}
	more, made, err := loadSwarmKeys(dir, 7)
	if err != nil || made != 2 {
		t.Fatalf("made %d more, %v", made, err)
	}
	seen := map[string]bool{}
	for i, k := range more {
		if i < len(first) && k.pub != first[i].pub {
			t.Errorf("key %d changed", i)
		}
		if seen[k.pub] {
			t.Errorf("key %d is there twice", i)
		}
		seen[k.pub] = true
		private, err := k.private()
		if err != nil {
			t.Fatal(err)
		}
		if err := private.Validate(); err != nil {
			t.Errorf("key %d: %v", i, err)
		}
		if bits := private.N.BitLen(); bits != swarmKeyBits {
			t.Errorf("key %d has %d bits", i, bits)
		}
		if msg, err := private.Pub().RecoverX931(k.tok); err != nil || string(msg) != tokMessage {
			t.Errorf("key %d: token of %q, %v", i, msg, err)
		}
	}
	if err := os.WriteFile(swarmKeyPath(dir, 3), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := loadSwarmKeys(dir, 7); err == nil || !strings.Contains(err.Error(), "key-00003.pem") {
		t.Errorf("a broken key: %v", err)
	}
}

// Pairs of primes are used once each.
func TestSwarmKeyPairsDiffer(t *testing.T) {
	pool, err := primePool(3)
	if err != nil || len(pool) != 4 {
		t.Fatalf("%d primes, %v", len(pool), err)
	}
	seen := map[string]bool{}
	for k := range 6 {
		text, err := newSwarmKey(pool, k)
		if err != nil {
			t.Fatal(err)
		}
		key, err := parseSwarmKey(text)
		if err != nil {
			t.Fatal(err)
		}
		if seen[key.pub] {
			t.Errorf("key %d repeats", k)
		}
		seen[key.pub] = true
	}
}

func TestSwarmAnswers(t *testing.T) {
	const n = 20
	for name, filtering := range map[string]bool{"plain": false, "filtered": true} {
		t.Run(name, func(t *testing.T) {
			m := startMaster(t, "zmq_filtering", filtering)
			_, addr := m.Addrs()
			starts := m.bus.Subscribe("salt/minion/", n)
			s := startSwarm(t, m.keys.Dir(), addr.String(), n, func(o *SwarmOptions) {
				o.Topics, o.Pillar, o.StartEvent = filtering, true, true
			})
			s.await(t)
			for range n {
				select {
				case <-starts.C:
				case <-time.After(20 * time.Second):
					t.Fatal("start events are missing")
				}
			}
			eventually(t, "subscriptions", func() bool { return len(m.pub.Peers()) == n })
			for _, c := range []struct {
				tgt        any
				kind, fun  string
				args       []any
				ret        any
				minions, k int
			}{
				{"*", "glob", "test.ping", nil, true, n, 0},
				{"swarm-0000[12]", "glob", "test.echo", []any{"x"}, "x", 2, 0},
				{NewList("swarm-00003", "swarm-00020"), "list", "grains.get", []any{"os"}, "Swarm", 2, 0},
				{"id:swarm-00004", "grain", "test.sleep", []any{0.2}, true, 1, 0},
				{"swarm-00005", "glob", "cmd.run", []any{"reboot"}, "'cmd.run' is not available.", 1, 254},
			} {
				jid, expected := m.publishAsOwner(t, c.tgt, c.kind, c.fun, c.args...)
				if len(expected) != c.minions {
					t.Errorf("%s: %d minions are expected to answer, want %d", c.fun, len(expected), c.minions)
				}
				var job *Job
				eventually(t, "returns of "+c.fun, func() bool {
					var err error
					job, err = m.jobs.Load(jid)
					return err == nil && job.Returns.Len() == c.minions
				})
				for id, ret := range job.Returns.All() {
					if !slices.Contains(expected, Str(id)) {
						t.Errorf("%s: %s answered", c.fun, id)
					}
					wantValue(t, c.fun, ret.(*Map).Value("return"), c.ret)
					wantValue(t, c.fun, ret.(*Map).Value("retcode"), int64(c.k))
				}
			}
			eventually(t, "acknowledgements", func() bool { _, waiting := s.returns(); return waiting == 0 })
			r := s.Report()
			wantValue(t, "subscribed", r.Value("subscribed"), int64(n))
			wantValue(t, "logins", r.Map("logins").Value("count"), int64(n))
			wantValue(t, "acknowledged", r.Map("returns").Value("acknowledged"), int64(n+2+2+1+1))
			wantValue(t, "failures", r.Value("failures"), NewMap())
			if jobs := r.List("jobs").Items; len(jobs) != 5 || jobs[0].(*Map).Str("fun") != "test.ping" {
				t.Errorf("jobs: %s", Repr(r.List("jobs")))
			}
			last := 0.0
			for _, k := range []string{"min", "median", "p95", "p99", "max"} {
				at := r.Map("logins").Value(k).(float64)
				if at < last || at == 0 {
					t.Errorf("%s of the login times: %f after %f", k, at, last)
				}
				last = at
			}
		})
	}
}

// A new key of publications costs each minion one login, and no job.
func TestSwarmFollowsARotation(t *testing.T) {
	const n = 5
	m := startMaster(t)
	_, addr := m.Addrs()
	s := startSwarm(t, m.keys.Dir(), addr.String(), n, nil)
	s.await(t)
	eventually(t, "subscriptions", func() bool { return len(m.pub.Peers()) == n })
	if err := m.rotateAES("a test wants it"); err != nil {
		t.Fatal(err)
	}
	m.publishAsOwner(t, "*", "glob", "test.ping")
	eventually(t, "answers after a rotation", func() bool { acked, _ := s.returns(); return acked == n })
	wantValue(t, "logins", s.Report().Map("logins").Value("count"), int64(2*n))
}

// Minions whose keys nobody accepted say so and are let in later.
func TestSwarmWaitsForAcceptance(t *testing.T) {
	m := startMaster(t)
	_, addr := m.Addrs()
	s := startSwarm(t, "", addr.String(), 1, nil)
	eventually(t, "the pending key", func() bool { return m.keys.Has(KeyPending, "swarm-00001") })
	eventually(t, "the failure", func() bool { return s.Report().Map("failures").Value("key not accepted yet") != nil })
}

func TestSwarmCommandLine(t *testing.T) {
	m := startMaster(t)
	_, addr := m.Addrs()
	keys := t.TempDir()
	run := func(args ...string) (string, string, int) {
		var out, errText bytes.Buffer
		code := appletSwarm(append([]string{"-n", "3", "--keys", keys}, args...), Stdio{Out: &out, Err: &errText})
		return out.String(), errText.String(), code
	}
	if _, text, code := run("--preseed", m.keys.Dir()); code != 0 || !strings.Contains(text, "made 3 keys") {
		t.Fatalf("preseed: %d, %s", code, text)
	}
	ids, err := m.keys.List(KeyAccepted)
	if err != nil || !slices.Equal(ids, swarmTestIDs(3)) {
		t.Fatalf("accepted: %s, %v", ids, err)
	}
	out, text, code := run("--master", addr.String(), "--out=json", "--duration=1.5", "--rate=50")
	if code != 0 || !strings.Contains(text, "all 3 minions are logged in") {
		t.Fatalf("exit %d\n%s%s", code, out, text)
	}
	v, err := DecodeJSON([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	wantValue(t, "logins", v.(*Map).Map("logins").Value("count"), int64(3))
	for _, c := range []struct{ args, want string }{
		{"-n 0", "1 to 60000"}, {"--prefix ../x", "--prefix"}, {"--master a:b", "--master"}, {"word", "no arguments"}, {"--request-timeout 0", "--request-timeout"},
	} {
		if _, text, code := run(strings.Fields(c.args)...); code != exitUsage || !strings.Contains(text, c.want) {
			t.Errorf("%s: exit %d, %s", c.args, code, text)
		}
	}
	if _, err := os.Stat(filepath.Join(keys, "key-00003.pem")); err != nil {
		t.Error(err)
	}
}
