// Tests of the kinds of beacons: what each tells, and which configurations it
// refuses.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// utmpBytes writes an entry as glibc does on this architecture.
func utmpBytes(kind int16, line, user, host string, seconds int64) []byte {
	p := make([]byte, utmpSize())
	binary.NativeEndian.PutUint16(p, uint16(kind))
	binary.NativeEndian.PutUint32(p[4:], 42)
	copy(p[8:], line)
	copy(p[44:], user)
	copy(p[76:], host)
	if utmpWide() {
		binary.NativeEndian.PutUint64(p[344:], uint64(seconds))
	} else {
		binary.NativeEndian.PutUint32(p[340:], uint32(seconds))
	}
	return p
}

func TestLoginsBeacon(t *testing.T) {
	file := filepath.Join(t.TempDir(), "wtmp")
	b := &loginsBeacon{file: file}
	look := func(conf *Map) []*Map {
		t.Helper()
		events, err := b.look(context.Background(), nil, conf, nil)
		if err != nil {
			t.Fatal(err)
		}
		return events
	}
	write := func(entries ...[]byte) {
		t.Helper()
		f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, p := range entries {
			if _, err := f.Write(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(utmpBytes(utmpLogin, "pts/0", "old", "", 1))
	if got := look(&Map{}); len(got) != 0 {
		t.Fatalf("what was there before is told: %v", got)
	}
	write(utmpBytes(utmpLogin, "pts/1", "ann", "10.0.0.1", 1700000000), utmpBytes(utmpLogout, "pts/1", "", "", 1700000001))
	got := look(&Map{})
	if len(got) != 2 {
		t.Fatalf("%d events of two entries", len(got))
	}
	want := NewMap("type", int64(7), "PID", int64(42), "line", "pts/1", "inittab", "", "user", "ann", "hostname", "10.0.0.1",
		"exit_status", int64(0), "session", int64(0), "time", int64(0), "addr", int64(1700000000), "action", "login")
	if !Equal(got[0], want) {
		t.Errorf("login: %s\nwant %s", Repr(got[0]), Repr(want))
	}
	if got[1].Str("action") != "logout" || got[1].Str("user") != "ann" {
		t.Errorf("logout: %s", Repr(got[1]))
	}
	users := NewMap("users", NewMap("bob", nil))
	write(utmpBytes(utmpLogin, "pts/2", "ann", "", 2), utmpBytes(utmpLogin, "pts/3", "bob", "", 2))
	if got := look(users); len(got) != 1 || got[0].Str("user") != "bob" {
		t.Errorf("with users: %v", got)
	}
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.Local)
	hours := func(start, end string) *Map {
		return NewMap("defaults", NewMap("time_range", NewMap("start", start, "end", end)))
	}
	if !loginWanted("ann", hours("8am", "4pm"), now) || loginWanted("ann", hours("1pm", "4pm"), now) {
		t.Error("hours are not kept")
	}
}

func TestCertInfoBeacon(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, _ := new(big.Int).SetString("578454210413977124617974647992075375433376902452", 10)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{Country: []string{"DE"}, CommonName: "example.org"}, DNSNames: []string{"example.org"},
		NotBefore: time.Now(), NotAfter: time.Now().Add(20*24*time.Hour + time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
	}, &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}}, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "c.pem")
	writeFiles(t, filepath.Dir(file), map[string]string{"c.pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))})
	c := &Call{Env: &Env{Log: slog.New(slog.DiscardHandler)}}
	look := func(conf *Map) []*Map {
		t.Helper()
		events, err := lookCertInfo(context.Background(), c, conf, nil)
		if err != nil {
			t.Fatal(err)
		}
		return events
	}
	if got := look(NewMap("files", NewList(NewMap(file, NewMap("notify_days", int64(19))), file+".no"))); got != nil {
		t.Errorf("told too early: %v", got)
	}
	got := look(NewMap("files", NewList(file)))
	if len(got) != 1 {
		t.Fatalf("%d events", len(got))
	}
	data := toItems(got[0].Value("certificates"))[0].(*Map)
	for key, want := range map[string]any{"subject": `C="DE",CN="example.org"`, "issuer": `CN="authority"`, "signature_algorithm": "ecdsa-with-SHA256",
		"version": int64(2), "has_expired": false, "serial_number": serial} {
		if !Equal(data.Value(key), want) {
			t.Errorf("%s is %s, want %s", key, Repr(data.Value(key)), Repr(want))
		}
	}
	if text := Repr(data.Value("extensions")); !strings.Contains(text, "'DNS:example.org'") || !strings.Contains(text, "'Digital Signature'") {
		t.Errorf("extensions: %s", text)
	}
}

func TestWatchdogBeacon(t *testing.T) {
	dir := t.TempDir()
	conf := NewMap("directories", NewMap(dir, NewMap("mask", NewList("create", "move", "delete"))))
	b := &watchdogBeacon{}
	defer b.close()
	look := func() (out []string) {
		t.Helper()
		events, err := b.look(context.Background(), nil, conf, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			out = append(out, e.Str("change")+" "+filepath.Base(e.Str("path")))
		}
		return out
	}
	look()
	writeFiles(t, dir, map[string]string{"a": "x"})
	outside := filepath.Join(t.TempDir(), "c")
	for _, names := range [][2]string{{dir + "/a", dir + "/b"}, {dir + "/b", outside}, {outside, dir + "/d"}} {
		if err := os.Rename(names[0], names[1]); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(look(), ", "); got != "created a, moved a, deleted b, created d" {
		t.Errorf("saw %s", got)
	}
}

func TestJournaldBeacon(t *testing.T) {
	entries, cursor := journalEntries([]byte(`{"__CURSOR":"s=1","PRIORITY":"6","SYSLOG_IDENTIFIER":"sshd","MESSAGE":"hello"}
{"__CURSOR":"s=2","PRIORITY":"3","SYSLOG_IDENTIFIER":"cron","MESSAGE":"other"}
`))
	if len(entries) != 2 || cursor != "s=2" {
		t.Fatalf("%d entries, cursor %s", len(entries), cursor)
	}
	got := journalMatches(entries, NewMap("ssh", NewMap("SYSLOG_IDENTIFIER", "sshd", "PRIORITY", int64(6)), "none", NewMap("NOSUCH", "x")))
	if len(got) != 1 || got[0].Str("tag") != "ssh" || got[0].Value("PRIORITY") != int64(6) || got[0].Str("MESSAGE") != "hello" {
		t.Errorf("matches: %v", got)
	}
}

func TestExecveEvent(t *testing.T) {
	got := execveEvent(`[pid 77] execve("/bin/ls", ["ls", "-l"], 0x55d0 /* 20 vars */) = 0`)
	if want := NewMap("args", NewList("ls", "-l"), "cmd", "/bin/ls"); !Equal(got, want) {
		t.Errorf("got %s", Repr(got))
	}
	if execveEvent("+++ exited with 0 +++") != nil {
		t.Error("an event of a line without execve")
	}
}

func TestNetworkSettingsAsksTheKernel(t *testing.T) {
	all, err := networkSettings()
	if err != nil {
		t.Fatal(err)
	}
	lo := all.Map("lo")
	if lo == nil {
		t.Skip("no loopback interface here")
	}
	for _, key := range []string{"mtu", "operstate", "promiscuity", "ipaddr", "index"} {
		if !lo.Has(key) {
			t.Errorf("lo has no %s: %s", key, Repr(lo))
		}
	}
	if m := wantedAttrs(NewMap("eth*", NewMap("mtu", nil)), "eth0"); !m.Has("mtu") {
		t.Error("a pattern of names does not match")
	}
}

func TestBeaconChecks(t *testing.T) {
	list := func(kv ...any) *List { return NewList(NewMap(kv...)) }
	for _, tc := range []struct {
		name string
		conf any
		want string
	}{
		{"wtmp", &Map{}, "Configuration for wtmp beacon must be a list."},
		{"wtmp", list("users", "ann"), "User configuration for wtmp beacon must be a dictionary."},
		{"btmp", list("groups", NewMap("wheel", NewMap("time_range", NewMap("start", "8am")))), "The time_range parameter for btmp beacon must contain start & end options."},
		{"btmp", list("defaults", NewMap("time_range", "8am")), "The time_range parameter for btmp beacon must be a dictionary."},
		{"wtmp", NewList(), ""},
		{"pkg", list("pkgs", "bash"), "Configuration for pkg beacon requires list of pkgs."},
		{"pkg", list("pkgs", NewList("bash")), ""},
		{"cert_info", NewList(), "Configuration for cert_info beacon must contain files option."},
		{"journald", list("services", NewMap("sshd", "x")), "Services configuration for journald beacon must be a list of dictionaries."},
		{"network_settings", list("interfaces", NewList()), "interfaces section for network_settings beacon must be a dictionary."},
		{"network_settings", list("interfaces", NewMap("lo", NewMap("color", nil))), "Invalid attributes in beacon configuration."},
		{"watchdog", list("directories", NewMap("/x", NewMap("mask", NewList("open")))), "Configuration for watchdog beacon contains invalid mask"},
		{"salt_monitor", list("salt_fun", NewList(NewMap("test.echo", NewMap("args", "x")))), "args key for fun test.echo must be list"},
		{"salt_monitor", list("salt_fun", NewList(NewMap("test.echo", NewMap("text", "x")))), "key text not allowed under fun test.echo"},
		{"salt_monitor", list("salt_fun", "test.ping"), ""},
		{"sh", NewList(), ""},
	} {
		if got := checkBeacon(tc.name, tc.conf); got != tc.want {
			t.Errorf("%s %s: %q, want %q", tc.name, Repr(tc.conf), got, tc.want)
		}
	}
}
