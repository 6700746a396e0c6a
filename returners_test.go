// Returners against the servers that they write to, where these are installed.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startServer runs a database until the test ends; ready says when it answers.
func startServer(t *testing.T, cmd *exec.Cmd, ready func() error) {
	t.Helper()
	var out testLog
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(out.String())
		}
	})
	eventually(t, cmd.Path+" answers", func() bool { return ready() == nil })
}

func returnerEnv(options ...any) (*Env, *testLog) {
	var log testLog
	o := DefaultMinionOptions()
	o.Set("id", "m1")
	for k, v := range NewMap(options...).All() {
		o.Set(Str(k), v)
	}
	return &Env{Opts: o, Grains: NewMap(), Pillar: NewMap(), Log: slog.New(slog.NewTextHandler(&log, nil))}, &log
}

func keptReturn() *Map {
	return NewMap("id", "m1", "jid", "20260102030405060708", "fun", "test.echo", "fun_args", NewList("grün"), "success", true, "retcode", int64(0),
		"return", NewMap("text", "grün \x00 '; DROP TABLE jids; --", "n", int64(7), "list", NewList(nil, false, 1.5)))
}

// tryReturner keeps a job and its return and reads both back.
func tryReturner(t *testing.T, name string, env *Env, log *testLog, want *Map) {
	t.Helper()
	r, ok := findReturner(env, name)
	if !ok {
		t.Fatalf("there is no returner %s", name)
	}
	ctx := t.Context()
	ret := keptReturn()
	jid := ret.Str("jid")
	load := NewMap("jid", jid, "fun", "test.echo", "tgt", "*", "arg", NewList("grün"))
	for range 2 { // a second time is no failure
		if err := r.SaveLoad(ctx, env, jid, load); err != nil {
			t.Fatal(err)
		}
	}
	callReturners(ctx, env, []string{name}, ret, &bytes.Buffer{}, slog.LevelError)
	if log.String() != "" {
		t.Fatal(log.String())
	}
	gotLoad, got, err := r.Job(ctx, env, jid)
	if err != nil {
		t.Fatal(err)
	}
	if !Equal(gotLoad, load) {
		t.Errorf("load %s, want %s", Repr(gotLoad), Repr(load))
	}
	if !Equal(got, NewMap("m1", want)) {
		t.Errorf("returns %s, want %s", Repr(got), Repr(want))
	}
	if none, returns, err := r.Job(ctx, env, "20200102030405060708"); none != nil || returns.Len() != 0 || err != nil {
		t.Errorf("an unknown job: %s, %s, %v", Repr(none), Repr(returns), err)
	}
}

func TestReturnerRedis(t *testing.T) {
	exe, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("there is no redis-server")
	}
	dir, err := os.MkdirTemp("", "r") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	sock := filepath.Join(dir, "s")
	dial := func() error {
		c, err := net.Dial("unix", sock)
		if err == nil {
			c.Close()
		}
		return err
	}
	startServer(t, exec.Command(exe, "--port", "0", "--unixsocket", sock, "--save", "", "--dir", dir, "--requirepass", "secret"), dial)
	env, log := returnerEnv("redis.unix_socket_path", sock, "redis", NewMap("password", "secret"), "redis.db", "3", "keep_jobs_seconds", int64(600))
	tryReturner(t, "redis_return", env, log, keptReturn())
	ttl, err := redisDo(t.Context(), env, nil, [][]string{{"TTL", "ret:20260102030405060708"}, {"GET", "m1:test.echo"}, {"SMEMBERS", "minions"}})
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := ttl[0].(int64); n < 500 || n > 600 {
		t.Errorf("the return is kept for %v seconds", ttl[0])
	}
	if ttl[1] != "20260102030405060708" || fmt.Sprint(ttl[2]) != "[m1]" {
		t.Errorf("pointers %v", ttl[1:])
	}
	ret := keptReturn()
	ret.Set("ret_kwargs", NewMap("password", "wrong"))
	callReturners(t.Context(), env, []string{"redis"}, ret, &bytes.Buffer{}, slog.LevelError)
	if !strings.Contains(log.String(), "The return failed for job 20260102030405060708: redis: redis: AUTH: WRONGPASS") {
		t.Errorf("with a wrong password the log says %q", log.String())
	}
}

// postgresBin is the directory of the server's programs.
func postgresBin(t *testing.T) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		t.Skip("there is no PostgreSQL server")
	}
	return filepath.Dir(found[len(found)-1])
}

func TestReturnerPgjsonb(t *testing.T) {
	bin := postgresBin(t)
	u, err := user.Lookup("postgres")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("the server needs root here, to become the user postgres")
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	pw := filepath.Join(dir, "pw")
	if err := os.WriteFile(pw, []byte("sesame\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	as := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		cmd.Dir, cmd.Env = dir, []string{"LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin"}
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := as("initdb", "-D", data, "-U", "salt", "-E", "UTF8", "--auth=scram-sha-256", "--pwfile="+pw, "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	port := ports[0]
	config := pgConfig{Host: "127.0.0.1", Port: strconv.Itoa(port), User: "salt", Password: "sesame", Database: "postgres"}
	connect := func(c pgConfig) (*pgConn, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		return dialPostgres(ctx, c)
	}
	startServer(t, as("postgres", "-D", data, "-p", config.Port, "-k", dir, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"), func() error {
		p, err := connect(config)
		if err == nil {
			p.Close()
		}
		return err
	})
	p, err := connect(config)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, sql := range []string{
		"CREATE TABLE jids (jid varchar(255) NOT NULL primary key, load jsonb NOT NULL)",
		"CREATE TABLE salt_returns (fun varchar(50) NOT NULL, jid varchar(255) NOT NULL, return jsonb NOT NULL, id varchar(255) NOT NULL, " +
			"success varchar(10) NOT NULL, full_ret jsonb NOT NULL, alter_time TIMESTAMP WITH TIME ZONE DEFAULT NOW())",
		"CREATE TABLE salt_events (id BIGSERIAL UNIQUE, tag varchar(255) NOT NULL, data jsonb NOT NULL, " +
			"alter_time TIMESTAMP WITH TIME ZONE DEFAULT NOW(), master_id varchar(255) NOT NULL)",
	} {
		if _, err := p.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	env, log := returnerEnv("returner.pgjsonb.host", "127.0.0.1", "returner.pgjsonb.port", int64(port), "returner.pgjsonb.db", "postgres",
		"returner.pgjsonb.pass", "sesame", "spare.returner.pgjsonb.pass", "wrong")
	want := keptReturn()
	want.Map("return").Set("text", "grün \ufffd '; DROP TABLE jids; --")
	tryReturner(t, "pgjsonb", env, log, want)
	r, _ := findReturner(&Env{}, "pgjsonb")
	if err := r.Events(t.Context(), env, []*Map{NewMap("tag", "salt/minion/m1/start", "data", NewMap("id", "m1"))}, nil); err != nil {
		t.Fatal(err)
	}
	rows, err := p.Exec("SELECT tag, data->>'id', master_id, NULL FROM salt_events")
	if err != nil || fmt.Sprint(rows) != "[[salt/minion/m1/start m1 m1 <nil>]]" {
		t.Errorf("events %v, %v", rows, err)
	}
	checkPgjsonbClean(t, p, env, r)
	// A statement that fails leaves the connection usable.
	if _, err := p.Exec("SELECT nonsense"); err == nil || !strings.Contains(err.Error(), "42703") {
		t.Errorf("a wrong statement: %v", err)
	}
	if rows, err := p.Exec("SELECT $1::text", "after"); err != nil || fmt.Sprint(rows) != "[[after]]" {
		t.Errorf("after an error: %v, %v", rows, err)
	}
	ret := keptReturn()
	ret.Set("ret_config", "spare")
	callReturners(t.Context(), env, []string{"pgjsonb"}, ret, &bytes.Buffer{}, slog.LevelError)
	if !strings.Contains(log.String(), "password authentication failed") {
		t.Errorf("with a wrong password the log says %q", log.String())
	}
	required := config
	required.SSLMode = "require"
	if _, err := connect(required); err == nil || !strings.Contains(err.Error(), "does not offer TLS") {
		t.Errorf("sslmode require without TLS: %v", err)
	}
}

// checkPgjsonbClean makes all rows old but those of one job, and has them removed.
func checkPgjsonbClean(t *testing.T, p *pgConn, env *Env, r Returner) {
	t.Helper()
	exec := func(sql string) string {
		t.Helper()
		rows, err := p.Exec(sql)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		return fmt.Sprint(rows)
	}
	for _, table := range []string{"salt_returns", "salt_events"} {
		exec("UPDATE " + table + " SET alter_time = NOW() - interval '2 days'")
	}
	exec("INSERT INTO jids (jid, load) VALUES ('20300101000000000000', '{}'), ('waits', '{}')")
	exec("INSERT INTO salt_returns (fun, jid, return, id, success, full_ret) VALUES ('f', '20300101000000000000', '1', 'm', 'true', '{}')")
	env.Opts.Set("archive_jobs", true)
	if err := r.Clean(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	left := exec("SELECT (SELECT string_agg(jid, ',' ORDER BY jid) FROM jids), (SELECT string_agg(jid, ',') FROM salt_returns), (SELECT count(*) FROM salt_events)")
	if left != "[[20300101000000000000,waits 20300101000000000000 0]]" {
		t.Errorf("left: %s", left)
	}
	if kept := exec("SELECT (SELECT count(*) FROM jids_archive), (SELECT count(*) FROM salt_returns_archive), (SELECT count(*) FROM salt_events_archive)"); kept != "[[1 1 1]]" {
		t.Errorf("archived: %s", kept)
	}
}

func TestReturnerOfAServerThatTellsNonsense(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":        "",
		"a long string":  "$99999999999\r\n",
		"deep lists":     strings.Repeat("*1\r\n", 50),
		"an odd kind":    "?1\r\n",
		"postgres' size": "E\xff\xff\xff\xff",
		"postgres' text": "R\x00\x00\x00\x05x",
		"no proof":       "R\x00\x00\x00\x08\x00\x00\x00\x0c",
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = c.Read(make([]byte, 4096))
					_, _ = c.Write([]byte(answer))
					_ = c.(*net.TCPConn).CloseWrite()
					time.AfterFunc(time.Second, func() { c.Close() })
				}
			}()
			port := int64(l.Addr().(*net.TCPAddr).Port)
			env, _ := returnerEnv("redis.port", port, "redis.host", "127.0.0.1", "returner.pgjsonb.host", "127.0.0.1",
				"returner.pgjsonb.port", port, "returner.pgjsonb.sslmode", "disable")
			for _, returner := range []string{"redis", "pgjsonb"} {
				r, _ := findReturner(&Env{}, returner)
				if err := r.Return(t.Context(), env, keptReturn(), nil); err == nil {
					t.Errorf("%s took it", returner)
				}
			}
		})
	}
}

func TestReturnerRawfile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	env, log := returnerEnv("rawfile_json.filename", path)
	for range 2 {
		callReturners(t.Context(), env, []string{"rawfile_json"}, NewMap("jid", "1", "return", "grün"), &bytes.Buffer{}, slog.LevelError)
	}
	got, err := os.ReadFile(path)
	if want := `{"jid": "1", "return": "grün"}` + "\n"; string(got) != want+want || err != nil {
		t.Errorf("file %q, %v; log %s", got, err, log)
	}
}

func TestReturnerSyslog(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	line, err := syslogLine(NewMap("level", "LOG_ERR", "facility", "LOG_LOCAL1", "tag", "salty", "options", NewList("LOG_CONS")), "{}", now)
	if want := "<139>Jan  2 03:04:05 salty: {}"; line != want || err != nil {
		t.Errorf("line %q, %v, want %q", line, err, want)
	}
	for _, bad := range []*Map{NewMap("level", "LOG_LOUD"), NewMap("facility", "x"), NewMap("tag", strings.Repeat("t", 33)), NewMap("options", NewList("PID"))} {
		if _, err := syslogLine(bad, "", now); err == nil {
			t.Errorf("%s is no mistake", Repr(bad))
		}
	}
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	sock, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: dir + "/log", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	if err := sendSyslog(t.Context(), dir+"/log", line); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 200)
	n, err := sock.Read(buf)
	if string(buf[:n]) != line || err != nil {
		t.Errorf("the socket got %q, %v", buf[:n], err)
	}
	if err := sendSyslog(t.Context(), dir+"/none", line); err == nil {
		t.Error("a socket that is not there took it")
	}
}

func TestJSONBText(t *testing.T) {
	for in, want := range map[string]string{"a\x00b": `"a\ufffdb"`, `\u0000`: `"\\u0000"`, "\\\x00": `"\\\ufffd"`, "plain": `"plain"`} {
		if got := jsonbText(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
