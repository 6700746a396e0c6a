// Peers that mean harm, against a whole master with minions that work. Whatever
// is done to it, the master answers the others, its memory stays bounded, and its
// log says in one line who did what. How connections and messages are cut is
// tested in transport_hostile_test.go; here it is what becomes of the daemon.
package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// besieged is a master with a few good minions.
type besieged struct {
	*testMaster
	good *testSwarm
	heap uint64
}

const besiegedMinions = 3

func besiege(t *testing.T, kv ...any) *besieged {
	t.Helper()
	m := startMaster(t, kv...)
	_, addr := m.Addrs()
	b := &besieged{testMaster: m, good: startSwarm(t, m.keys.Dir(), addr.String(), besiegedMinions, nil)}
	b.good.await(t)
	eventually(t, "subscriptions", func() bool { return len(m.pub.Peers()) == besiegedMinions })
	b.heap = heapInUse()
	return b
}

// serves asserts that a job gets through to all good minions and back.
func (b *besieged) serves(t *testing.T) {
	t.Helper()
	jid, _ := b.publishAsOwner(t, "swarm-*", "glob", "test.ping")
	eventually(t, "the returns of the good minions", func() bool {
		j, err := b.jobs.Load(jid)
		return err == nil && j.Returns.Len() == besiegedMinions
	})
}

// within asserts that memory did not grow by more than the given bytes.
func (b *besieged) within(t *testing.T, bytes uint64) {
	t.Helper()
	if now := heapInUse(); now > b.heap+bytes {
		t.Errorf("memory in use grew by %d KiB, %d are allowed", (now-b.heap)>>10, bytes>>10)
	}
}

// ports are both ports of the master.
func (b *besieged) ports() []string {
	pub, req := b.Addrs()
	return []string{req.String(), pub.String()}
}

// dialFrom connects from a loopback address of its own.
func dialFrom(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func unhexed(t *testing.T, s string) string {
	t.Helper()
	p, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

// Bytes that are no ZeroMQ, and those that kill a stock socket.
func TestMasterUnderHostileBytes(t *testing.T) {
	b := besiege(t)
	greeting := string(appendGreeting(nil))
	command := func(body string) string { return string(appendHeader(nil, flagCommand, len(body))) + body }
	joined := map[string]string{b.ports()[0]: string(playedHandshake("REQ")), b.ports()[1]: string(playedHandshake("SUB"))}
	for i, row := range []struct{ name, after, bytes, why string }{
		{"random bytes", "", strings.Repeat("\x03\x8a\x11\x98\x1f", 100), "not ZMTP"},
		{"HTTP", "", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "a web browser or health check?"},
		{"a property without value", "", greeting + command("\x05READY\x03abc"), "truncated property"},
		{"no socket type", "", greeting + command("\x05READY"), "no socket type"},
		{"an unknown socket type", "", greeting + command("\x05READY\x0bSocket-Type\x00\x00\x00\x03FOO"), "FOO"},
		{"a command of 2^62 bytes", "", greeting + unhexed(t, "06 4000000000000000"), "4611686018427387904"},
		{"a frame of 2^63-1 bytes", "joined", unhexed(t, "02 7fffffffffffffff"), ""},
		{"a frame of 2^63 bytes", "joined", unhexed(t, "02 8000000000000000"), "beyond 63 bits"},
		{"a frame of 2^40 bytes", "joined", unhexed(t, "02 0000010000000000"), ""},
	} {
		from := fmt.Sprintf("127.0.9.%d", i+1)
		for _, port := range b.ports() {
			c := dialFrom(t, from, port)
			said := row.bytes
			if row.after != "" {
				said = joined[port] + said
			}
			c.Write([]byte(said))
			cutsOff(t, c)
			wantLog(t, b.testMaster, "WARNING", from+":", " on "+port+" ", row.why)
		}
		b.serves(t)
	}
	b.within(t, 8<<20)
}

// 2,000 connections that say nothing and some that stop in the handshake are
// held for its deadline, and nobody else notices.
func TestMasterUnderSilence(t *testing.T) {
	b := besiege(t)
	hello := playedHandshake("REQ")
	var held []net.Conn
	for i := range 1000 {
		for _, port := range b.ports() {
			c := dialFrom(t, fmt.Sprintf("127.0.8.%d", i%4+1), port)
			if i%10 == 0 {
				c.Write(hello[:i*len(hello)/1000])
			}
			held = append(held, c)
		}
	}
	eventually(t, "all are in handshake", func() bool {
		return b.req.Stats().Handshaking+b.pub.Stats().Handshaking >= len(held)*9/10
	})
	b.serves(t)
	b.within(t, 48<<20)
	for _, c := range held {
		cutsOff(t, c)
	}
	b.serves(t)
	eventually(t, "nothing is left of them", func() bool { return b.req.Stats().Handshaking+b.pub.Stats().Handshaking == 0 })
	wantLog(t, b.testMaster, "WARNING", "127.0.8.", "handshake timeout")
	if n := strings.Count(b.out.String(), "handshake timeout"); n > 2*4*linesPerAddress*2 {
		t.Errorf("%d lines about %d connections", n, len(held))
	}
	b.within(t, 8<<20)
}

// Peers that stop reading: a subscriber loses what does not fit into its queue,
// a requester is asked no further, and jobs go their way.
func TestMasterUnderPeersThatDoNotRead(t *testing.T) {
	b := besiege(t, "pub_hwm", int64(4))
	sub := dialFrom(t, "127.0.7.1", b.ports()[1])
	sub.(*net.TCPConn).SetReadBuffer(4 << 10)
	sub.Write(append(playedHandshake("SUB"), 0, 1, 1))
	ping, err := ClearRequest(NewMap("cmd", "ping", "pad", strings.Repeat("x", 1<<10)))
	if err != nil {
		t.Fatal(err)
	}
	flood := append(appendHeader([]byte{1, 0}, 0, len(ping)), ping...)
	var flooding sync.WaitGroup
	t.Cleanup(flooding.Wait) // after the connections are closed
	for i := range 4 {
		c := dialFrom(t, fmt.Sprintf("127.0.7.%d", i+2), b.ports()[0])
		c.(*net.TCPConn).SetReadBuffer(4 << 10)
		c.Write(playedHandshake("DEALER"))
		flooding.Go(func() {
			for range 20000 {
				if _, err := c.Write(flood); err != nil {
					return
				}
			}
		})
	}
	eventually(t, "the subscription that is not read", func() bool {
		for _, p := range b.pub.Peers() {
			if hostOf(p.RemoteAddr) == "127.0.7.1" && len(p.Topics) == 1 {
				return true
			}
		}
		return false
	})
	large := strings.Repeat("x", 1<<20)
	for range 16 {
		b.publishAsOwner(t, "swarm-*", "glob", "test.ping", large)
		b.serves(t)
	}
	if b.pub.Stats().Dropped == 0 {
		t.Error("nothing was dropped for the subscriber that does not read")
	}
	for _, p := range b.pub.Peers() {
		if p.Dropped > 0 && hostOf(p.RemoteAddr) != "127.0.7.1" {
			t.Errorf("%s missed %d publications", p.RemoteAddr, p.Dropped)
		}
	}
	b.within(t, 64<<20)
}

// Absurd values, in clear and sealed: each is answered or refused at once, and
// costs what was sent and not what it announces.
func TestMasterUnderAbsurdMessages(t *testing.T) {
	b := besiege(t)
	f := b.accepted(t, "absurd", 1)
	deep := strings.Repeat("\x91", 200000) + "\xc0"
	wide := "\xdf\x7f\xff\xff\xff" + strings.Repeat("\xa1a\xc0", 1000)
	many := unhexed(t, "de ffff") + func() string {
		var s strings.Builder
		for i := range 65535 {
			fmt.Fprintf(&s, "\xa8%08d\xc0", i)
		}
		return s.String()
	}()
	for name, raw := range map[string]string{
		"nothing": "", "deep lists": deep, "a map of 2^31 entries": wide, "a list of 2^32-1": "\xdd\xff\xff\xff\xff",
		"a text of 4 GiB": "\xdb\xff\xff\xff\xff" + "abc", "an extension": "\xc7\x04\x4exxxx", "a list as a key": "\x81\x91\x01\x01",
		"a map as a key": "\x81\x80\x01", "the reserved byte": "\xc1", "65535 fields": many, "not a map": "\x2a",
		"no load": "\x81\xa3enc\xa5clear", "a load that is a list": "\x82\xa3enc\xa5clear\xa4load\x90",
		"a negative version": "\x83\xa3enc\xa5clear\xa4load\x80\xa7version\xd0\x80", "an id of bytes": "\x82\xa3enc\xa3aes\xa2id\xc4\x03a\x00b",
		"two million nils": "\xdd\x00\x1e\x84\x80" + strings.Repeat("\xc0", 2000000),
	} {
		answer := ask(t, b.asker(t), []byte(raw))
		if v, err := DecodeWire(answer); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !strings.Contains(Repr(v), "bad load") && !strings.Contains(Repr(v), "must be a dict") {
			t.Errorf("%s is answered by %.80s", name, Repr(v))
		}
		// The same under the session key of a minion.
		body := f.session.seal(append(append(make([]byte, 16, 64+len(raw)), crypticlePrefix...), raw...), 0)
		outer, err := EncodeWire(NewMap("enc", "aes", "load", body, "version", int64(3), "id", "absurd", "enc_algo", f.enc, "sig_algo", f.sig))
		if err != nil {
			t.Fatal(err)
		}
		if answer := ask(t, f.r, outer); len(answer) > 200 {
			t.Errorf("%s, sealed, is answered by %d bytes", name, len(answer))
		}
	}
	wantLog(t, b.testMaster, "WARNING", "127.0.0.1", "refused a request")
	wantLog(t, b.testMaster, "WARNING", "127.0.0.1", "'absurd'")
	// Fields of the wrong kind in every command.
	for cmd := range sealedCommands() {
		for _, v := range []any{nil, int64(-1), "../../etc/shadow", []byte{0xff}, NewList(NewMap()), NewMap("x", NewMap("x", NewList())), 1e308, true} {
			load := NewMap("cmd", cmd)
			for _, k := range []string{"tgt", "fun", "arg", "jid", "return", "load", "path", "loc", "saltenv", "data", "tag", "events", "grains", "minions", "gzip", "prefix", "size", "tmo", "form", "ret", "id_", "mine", "tok_"} {
				load.Set(k, v)
			}
			ask(t, f.r, f.sealed(t, load, NewNonce()))
			if cmd == "revoke_auth" {
				if err := b.keys.Put(KeyAccepted, "absurd", []byte(f.key.PublicPEM())); err != nil {
					t.Fatal(err)
				}
				f.login(t, nil)
			}
		}
	}
	if strings.Contains(b.out.String(), "panic:") {
		t.Errorf("a panic:\n%s", b.out)
	}
	b.serves(t)
	b.within(t, 32<<20)
}

// Changed, repeated and foreign requests of a minion.
func TestMasterUnderForgedRequests(t *testing.T) {
	b := besiege(t)
	a, victim := b.accepted(t, "liar", 1), b.accepted(t, "victim", 2)
	jid, _ := b.publishAsOwner(t, "victim", "glob", "test.ping")
	ret := func(id string) *Map {
		return NewMap("cmd", "_return", "id", id, "jid", jid, "fun", "test.ping", "fun_args", NewList(), "return", "forged", "retcode", int64(0), "success", true)
	}
	refused := func(what string, answer []byte) {
		t.Helper()
		if v, err := DecodeWire(answer); err != nil || v != any("bad load") {
			t.Errorf("%s: %s, %v", what, Repr(v), err)
		}
	}
	// A bit of the sealed load is turned.
	good := a.sealed(t, ret("liar"), NewNonce())
	v, err := DecodeWire(good)
	if err != nil {
		t.Fatal(err)
	}
	sealed, _ := bytesOf(v.(*Map).Value("load"))
	for _, at := range []int{0, 16, len(sealed) / 2, len(sealed) - 33, len(sealed) - 32, len(sealed) - 1} {
		forged := bytes.Clone(sealed)
		forged[at] ^= 1
		m := v.(*Map).Clone()
		m.Set("load", forged)
		refused(fmt.Sprintf("bit %d", at), ask(t, a.r, mustEncode(t, m)))
	}
	for _, short := range [][]byte{nil, sealed[:16], sealed[:47], sealed[:len(sealed)-1]} {
		m := v.(*Map).Clone()
		m.Set("load", short)
		refused("a short load", ask(t, a.r, mustEncode(t, m)))
	}
	wantLog(t, b.testMaster, "WARNING", "127.0.0.1", "'liar'", "does not authenticate")

	// Every command in another's name.
	tok, err := a.key.SignTok()
	if err != nil {
		t.Fatal(err)
	}
	for cmd := range sealedCommands() {
		load := ret("victim")
		load.Set("cmd", cmd)
		for _, as := range []struct{ outer, inner string }{{"liar", "victim"}, {"victim", "liar"}, {"victim", "victim"}} {
			body, err := NewSealedRequest(a.session, 3, load, as.inner, NewNonce(), tok, time.Now(), a.enc, a.sig)
			if err != nil {
				t.Fatal(err)
			}
			v, err := DecodeWire(body)
			if err != nil {
				t.Fatal(err)
			}
			v.(*Map).Set("id", as.outer)
			refused(cmd+" as "+as.outer+" and "+as.inner, ask(t, a.r, mustEncode(t, v)))
		}
	}
	wantLog(t, b.testMaster, "WARNING", "127.0.0.1", "'liar'", "victim")

	// A return that is heard and sent again, by its minion and by others, counts once.
	replay := victim.sealed(t, ret("victim"), NewNonce())
	first := ask(t, victim.r, replay)
	for range 5 {
		if answer := ask(t, b.asker(t), replay); bytes.Equal(answer, first) {
			t.Error("two answers are the same bytes")
		}
	}
	job, err := b.jobs.Load(jid)
	if err != nil {
		t.Fatal(err)
	}
	if ids := job.Returns.Keys(); len(ids) != 1 || ids[0] != any("victim") {
		t.Errorf("returns of %s", Repr(NewList(ids...)))
	}
	wantLog(t, b.testMaster, "victim sent its return for job "+jid+" again")

	// A login that is heard and sent again tells nothing to who cannot open it.
	login := &AuthRequest{Version: 3, ID: "victim", Nonce: NewNonce(), EncAlgo: a.enc, SigAlgo: a.sig, Pub: victim.key.PublicPEM()}
	body, err := login.Encode()
	if err != nil {
		t.Fatal(err)
	}
	reply, err := DecodeAuthReply(ask(t, b.asker(t), body))
	if err != nil || reply.Ret != AuthAccepted {
		t.Fatalf("login: %v, %v", reply, err)
	}
	for _, p := range [][]byte{reply.AES, reply.Session} {
		if text, err := a.key.DecryptOAEP(a.enc, p); err == nil {
			t.Errorf("another's key opens it: %q", text)
		}
	}
	wantValue(t, "the session of the victim", victim.call(t, "cmd", "_file_envs"), NewList("base"))
	b.serves(t)
	b.within(t, 16<<20)
}

// Job ids that are paths, wherever a jid can be given, write nothing anywhere.
func TestMasterUnderPathsAsJobIDs(t *testing.T) {
	b := besiege(t, "peer", NewMap(".*", NewList(".*")))
	f := b.accepted(t, "m", 1)
	files := func() []string {
		var all []string
		filepath.WalkDir(b.dir, func(p string, d fs.DirEntry, _ error) error {
			if d != nil && !d.IsDir() && !strings.Contains(p, "/sessions/") {
				all = append(all, p)
			}
			return nil
		})
		slices.Sort(all)
		return all
	}
	before := files()
	for _, jid := range []string{"../../../x", "/etc/cron.d/x", "20240101000000000000/../../x", "20240101\x00", "..", ".", "-rf", strings.Repeat("1", 5000)} {
		for _, cmd := range []string{"_return", "pub_ret", "minion_pub", "_syndic_return", "_minion_event"} {
			f.call(t, "cmd", cmd, "jid", jid, "return", true, "fun", "test.ping", "arg", NewList(), "tgt", "nobody", "tgt_type", "glob", "ret", "",
				"tag", "salt/job/"+jid+"/ret/m", "data", NewMap("jid", jid, "minions", NewList("m")),
				"load", NewList(NewMap("jid", jid, "return", NewMap())))
		}
		v := b.askClear(t, b.asOwner(NewMap("cmd", "publish", "tgt", "m", "tgt_type", "glob", "fun", "test.ping", "arg", NewList(), "ret", "", "jid", jid, "kwargs", NewMap())))
		if m, ok := v.(*Map); ok && m.Map("load").Has("jid") {
			t.Errorf("published under %q: %s", jid, Repr(v))
		}
	}
	if after := files(); !slices.Equal(before, after) {
		t.Errorf("files before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	wantLog(t, b.testMaster, "WARNING", "127.0.0.1", "is not a job id")
	b.serves(t)
}

// A master that is killed while returns come in: each is filed once afterwards.
func TestKilledMasterLosesNoReturn(t *testing.T) {
	const n = 200
	exe, err := exec.LookPath("salt-master")
	if err != nil {
		t.Skip("no salt-master: the test binary was not started by go test")
	}
	dir := shortTempDir(t)
	ports := freeTestPorts(t, 2)
	etc := filepath.Join(dir, "etc")
	if err := os.MkdirAll(etc, 0o755); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("pki_dir: %[1]s/pki\ncachedir: %[1]s/cache\nsock_dir: %[1]s/run\npidfile: %[1]s/pid\nlog_file: %[1]s/log\n"+
		"interface: 127.0.0.1\npublish_port: %d\nret_port: %d\nuser: %s\n", dir, ports[0], ports[1], currentUser())
	if err := os.WriteFile(filepath.Join(etc, "master"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", ports[1])
	start := func() *exec.Cmd {
		t.Helper()
		cmd := exec.Command(exe, "-c", etc)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		eventually(t, "the master listens", func() bool {
			c, err := net.Dial("tcp", addr)
			if err == nil {
				c.Close()
			}
			return err == nil
		})
		return cmd
	}
	master := start()
	s := startSwarm(t, filepath.Join(dir, "pki"), addr, n, nil)
	s.await(t)
	for try := 1; ; try++ {
		acked, _ := s.returns()
		out, err := exec.Command("salt", "-c", etc, "--async", "*", "test.sleep", "1").CombinedOutput() // salt has left before returns come
		if err != nil {
			t.Fatalf("salt: %v\n%s", err, out)
		}
		words := strings.Fields(string(out))
		jid := words[len(words)-1]
		for now := acked; now == acked; now, _ = s.returns() {
		}
		if err := master.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		master.Wait()
		done, waiting := s.returns()
		master = start()
		eventually(t, "all returns are acknowledged", func() bool {
			now, waiting := s.returns()
			return waiting == 0 && now >= acked+n
		})
		counts := map[string]int{}
		f, err := os.Open(filepath.Join(dir, "cache", "jobs", jid[:8], jid))
		if err != nil {
			t.Fatal(err)
		}
		_, err = scanJob(f, func(rec *Map) error {
			if id := rec.Str("id"); id != "" {
				counts[id]++
			}
			return nil
		})
		f.Close()
		if err != nil || len(counts) != n {
			t.Fatalf("%d of %d returns are filed, %v; %d were acknowledged when the master died", len(counts), n, err, done-acked)
		}
		for id, k := range counts {
			if k != 1 {
				t.Errorf("the return of %s is filed %d times", id, k)
			}
		}
		if waiting > 0 {
			t.Logf("killed with %d returns acknowledged and %d not", done-acked, waiting)
			return
		}
		if try == 10 {
			t.Fatal("the master was never killed in time")
		}
		// It comes up again for the next try: all have to be subscribed.
		eventually(t, "subscriptions", func() bool { return Equal(s.Report().Value("subscribed"), int64(n)) })
	}
}

// freeTestPorts are ports that nobody listens on.
func freeTestPorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
