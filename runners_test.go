// Runners of salt-run, with a master and without one.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// testRunners are runners over a directory without a master.
func testRunners(t testing.TB) (*RunnerClient, *bytes.Buffer, string) {
	t.Helper()
	dir := shortTempDir(t)
	var out bytes.Buffer
	o := masterTestOptions(dir)
	r := NewRunnerClient(o, nil, &out, NewCustoms(o))
	t.Cleanup(r.Close)
	return r, &out, dir
}

// runRunner runs one and returns its result as text.
func runRunner(t testing.TB, r *RunnerClient, fun string, args []any, kv ...any) string {
	t.Helper()
	v, err := r.Run(context.Background(), fun, args, NewMap(kv...))
	if err != nil {
		return "error: " + err.Error()
	}
	return Repr(v)
}

func fileJobs(t testing.TB, dir string, jobs ...[]any) {
	t.Helper()
	cache := OpenJobCache(filepath.Join(dir, "cache/jobs"), JobCacheOptions{})
	for _, j := range jobs {
		jid := j[0].(string)
		load := NewMap("jid", jid, "fun", j[1], "tgt", j[2], "tgt_type", "glob", "user", "root", "arg", NewList())
		if len(j) > 3 {
			load.Set("metadata", j[3])
		}
		if err := cache.Begin(jid, load, []string{"a", "b"}, false); err != nil {
			t.Fatal(err)
		}
		if _, err := cache.Return(jid, "a", NewMap("return", "", "retcode", int64(3), "out", "nested")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRunnerJobs(t *testing.T) {
	r, _, dir := testRunners(t)
	fileJobs(t, dir,
		[]any{"20240101100000000001", "test.ping", "*"},
		[]any{"20240102100000000001", "state.apply", "web*", NewMap("ticket", int64(7))},
		[]any{"20240103100000000001", NewList("test.ping", "cmd.run"), NewList("a", "b")},
		[]any{"20240104100000000001", "saltutil.find_job", "*"})
	jids := func(v string) string {
		var found []string
		for _, day := range []string{"1", "2", "3", "4"} {
			if strings.Contains(v, "2024010"+day+"100000000001") {
				found = append(found, day)
			}
		}
		return strings.Join(found, "")
	}
	for _, c := range []struct {
		kv   []any
		want string
	}{
		{nil, "1234"},
		{[]any{"search_function", "test.*"}, "13"},
		{[]any{"search_function", "state.*,cmd.run"}, "23"},
		{[]any{"search_target", "web*"}, "2"},
		{[]any{"search_target", "a"}, "3"},
		{[]any{"search_metadata", NewMap("ticket", int64(7))}, "2"},
		{[]any{"search_metadata", "ticket"}, ""},
		{[]any{"start_time", "2024-01-02 10:00"}, "234"},
		{[]any{"start_time", "2024, Jan 02 10:00:01", "end_time", "2024/01/04"}, "3"},
		{[]any{"end_time", "2024-01-02"}, "1"},
		{[]any{"search_function", "nosuch"}, ""},
	} {
		if got := jids(runRunner(t, r, "jobs.list_jobs", nil, c.kv...)); got != c.want {
			t.Errorf("list_jobs %v: jobs %q, want %q", c.kv, got, c.want)
		}
	}
	if got := runRunner(t, r, "jobs.list_jobs", nil, "start_time", "yesterday"); !strings.Contains(got, "no time") {
		t.Errorf("a time that is none: %s", got)
	}
	if got := jids(runRunner(t, r, "jobs.list_jobs_filter", []any{int64(2)})); got != "23" {
		t.Errorf("list_jobs_filter: %q", got)
	}
	if got := runRunner(t, r, "jobs.last_run", nil, "function", "state.*"); jids(got) != "2" || !strings.Contains(got, "'Metadata': {'ticket': 7}") {
		t.Errorf("last_run: %s", got)
	}
	if got := runRunner(t, r, "jobs.lookup_jid", []any{"20240101100000000001"}, "missing", true); got != "{'a': '', 'b': 'Minion did not return'}" {
		t.Errorf("lookup_jid: %s", got)
	}
	if got := runRunner(t, r, "jobs.exit_success", []any{"20240101100000000001"}); got != "{'a': False, 'b': False}" {
		t.Errorf("exit_success: %s", got)
	}
	for _, bad := range []string{"../../../etc/passwd", "20990101000000000000"} {
		if got := runRunner(t, r, "jobs.print_job", []any{bad}); !strings.Contains(got, "no job with this jid") {
			t.Errorf("print_job %s: %s", bad, got)
		}
	}
	if got := runRunner(t, r, "jobs.lookup_jid", nil); got != "error: lookup_jid() missing 1 required positional argument: 'jid'" {
		t.Errorf("without an argument: %s", got)
	}
}

func TestRunnerCacheBanksStayInside(t *testing.T) {
	r, _, dir := testRunners(t)
	if got := runRunner(t, r, "cache.store", []any{"bank/sub", "key", NewMap("a", int64(1))}); got != "None" {
		t.Fatal(got)
	}
	for _, c := range []struct{ fun, bank, key, want string }{
		{"cache.fetch", "bank/sub", "key", "{'a': 1}"}, {"cache.fetch", "bank/sub", "nokey", "{}"}, {"cache.list", "bank", "", "['sub']"},
		{"cache.list", "bank/sub", "", "['key']"}, {"cache.list", "nobank", "", "[]"},
	} {
		args := []any{c.bank}
		if c.key != "" {
			args = append(args, c.key)
		}
		if got := runRunner(t, r, c.fun, args); got != c.want {
			t.Errorf("%s %s %s: %s", c.fun, c.bank, c.key, got)
		}
	}
	outside := filepath.Join(dir, "outside.p")
	os.WriteFile(outside, []byte("x"), 0o600)
	for _, c := range [][]any{{"../", "outside"}, {"..", "outside"}, {"bank", "../../outside"}, {"/" + dir, "outside"}, {"", "x"}} {
		for _, fun := range []string{"cache.fetch", "cache.flush"} {
			if got := runRunner(t, r, fun, c); strings.HasPrefix(got, "error") || got == "False" || got == "{}" {
				continue
			} else {
				t.Errorf("%s %v: %s", fun, c, got)
			}
		}
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error("a file outside the cache is gone")
	}
	if got := runRunner(t, r, "cache.flush", []any{"bank/sub", "key"}); got != "True" {
		t.Errorf("flush: %s", got)
	}
}

func TestRunnerCacheOfMinions(t *testing.T) {
	r, _, dir := testRunners(t)
	keys := OpenKeyDir(filepath.Join(dir, "pki"))
	put := func(id string, data, mine *Map) {
		if err := keys.Put(KeyAccepted, id, []byte("key")); err != nil {
			t.Fatal(err)
		}
		os.MkdirAll(filepath.Join(dir, "cache/minions", id), 0o755)
		for name, v := range map[string]*Map{"data": data, "mine": mine} {
			p, err := EncodeBin(v)
			if err != nil {
				t.Fatal(err)
			}
			os.WriteFile(filepath.Join(dir, "cache/minions", id, name+".p"), p, 0o600)
		}
	}
	put("a", NewMap("grains", NewMap("role", "web"), "pillar", NewMap("x", int64(1))), NewMap("f", int64(5), "g", NewMap("__data__", "kept", "allow_tgt", "*")))
	put("b", NewMap("grains", NewMap("role", "db"), "pillar", NewMap()), NewMap("f", int64(6)))
	for _, c := range []struct {
		fun  string
		args []any
		kv   []any
		want string
	}{
		{"cache.grains", []any{"a"}, nil, "{'a': {'role': 'web'}}"},
		{"cache.grains", []any{"role:db"}, []any{"tgt_type", "grain"}, "{'b': {'role': 'db'}}"},
		{"cache.pillar", nil, []any{"tgt", "*"}, "{'a': {'x': 1}, 'b': {}}"},
		{"cache.mine", []any{"a"}, nil, "{'a': {'f': 5, 'g': 'kept'}}"},
		{"mine.get", []any{"*", "f"}, nil, "{'a': 5, 'b': 6}"},
		{"mine.get", []any{"*", "f,g"}, nil, "{'f': {'a': 5, 'b': 6}, 'g': {'a': 'kept'}}"},
		{"cache.clear_mine_func", []any{"a"}, []any{"clear_mine_func_flag", "f"}, "True"},
		{"cache.mine", []any{"a"}, nil, "{'a': {'g': 'kept'}}"},
		{"cache.clear_grains", []any{"a"}, nil, "True"},
		{"cache.grains", []any{"*"}, nil, "{'a': {}, 'b': {'role': 'db'}}"},
		{"cache.pillar", nil, []any{"tgt", "a"}, "{'a': {'x': 1}}"},
		{"cache.clear_all", []any{"*"}, nil, "True"},
		{"cache.mine", nil, []any{"tgt", "*"}, "{'a': {}, 'b': {}}"},
		{"cache.clear_all", nil, nil, "False"},
	} {
		if got := runRunner(t, r, c.fun, c.args, c.kv...); got != c.want {
			t.Errorf("%s %v %v: %s, want %s", c.fun, c.args, c.kv, got, c.want)
		}
	}
}

func TestRunnersWithoutAMaster(t *testing.T) {
	r, out, _ := testRunners(t)
	for _, c := range []struct {
		fun  string
		args []any
		want string
	}{
		{"manage.up", nil, "[]"},
		{"manage.present", nil, "[]"},
		{"test.arg", []any{int64(1), "x"}, "{'args': [1, 'x'], 'kwargs': {}}"},
		{"test.stdout_print", nil, "'bar'"},
		{"config.get", []any{"hash_type"}, "'sha256'"},
		{"config.get", []any{"file_roots:base:0"}, Repr(r.o.Map("file_roots").List("base").Items[0])},
		{"config.get", []any{"nosuch"}, "''"},
		{"error.error", nil, "{}"},
		{"error.error", []any{"KeyError", "k"}, "error: k"},
		{"event.send", []any{"a/b", NewMap("x", int64(1))}, "False"},
		{"event.send", []any{"a/b", "text"}, "error: Dict object expected, not 'text'."},
		{"nosuch.fun", nil, "error: 'nosuch.fun' is not available."},
		{"network.wol", []any{"not a mac"}, "error: Invalid MAC address"},
		{"auth.del_token", []any{"../../etc/passwd"}, "False"},
		{"manage.up", []any{int64(1), int64(2), int64(3), int64(4), int64(5)}, "error: up() takes from 0 to 4 positional arguments but 5 were given"},
	} {
		if got := runRunner(t, r, c.fun, c.args); got != c.want {
			t.Errorf("%s %v: %s, want %s", c.fun, c.args, got, c.want)
		}
	}
	if !strings.Contains(out.String(), textNoMaster) || !strings.Contains(out.String(), "foo\n") {
		t.Errorf("printed: %q", out.String())
	}
}

func TestCompareVersions(t *testing.T) {
	ordered := []string{"2019.2.8", "3000", "3006rc1", "3006.0rc3", "3006.0", "3006.9", "3006.10", "3007.0", "3008.1"}
	for i := range ordered {
		for j := range ordered {
			want := 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			if ordered[i] == "3006rc1" && ordered[j] == "3006.0rc3" || ordered[j] == "3006rc1" && ordered[i] == "3006.0rc3" {
				continue // both are candidates of the same release
			}
			if got := compareVersions(ordered[i], ordered[j]); got != want {
				t.Errorf("%s against %s: %d, want %d", ordered[i], ordered[j], got, want)
			}
		}
	}
	if compareVersions("3006", "3006.0") != 0 {
		t.Error("3006 is 3006.0")
	}
}

// Every runner has a text, and no argument struct is malformed: loading them
// all would panic.
func TestRunnerTable(t *testing.T) {
	r, _, _ := testRunners(t)
	c := r.call("", "", "")
	docs := functionDocs(context.Background(), c, "")
	for k, v := range docs.All() {
		if v == nil {
			t.Errorf("%s has no documentation", k)
		}
	}
	last := ""
	for _, e := range builtinRunners() {
		if e.name <= last {
			t.Errorf("%s is out of order", e.name)
		}
		last = e.name
	}
	if got := functionDocs(context.Background(), c, "test.s*"); got.Len() != 3 {
		t.Errorf("test.s*: %v", got.Keys())
	}
}

// The state.event runner sees what event.send fires, in order.
func TestRunnerEvents(t *testing.T) {
	m := startMaster(t)
	var out testLog
	watch := NewRunnerClient(m.o(), nil, &out, nil)
	defer watch.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := watch.Run(ctx, "state.event", nil, NewMap("tagmatch", "my/*"))
		done <- err
	}()
	send := NewRunnerClient(m.o(), nil, &out, nil)
	defer send.Close()
	eventually(t, "the watcher hears events", func() bool {
		send.Run(ctx, "event.send", []any{"my/first", NewMap()}, NewMap())
		return strings.Contains(out.String(), "my/first")
	})
	for i := range 3 {
		if v, err := send.Run(ctx, "event.send", []any{fmt.Sprintf("my/%d", i), NewMap("n", int64(i))}, NewMap()); v != true || err != nil {
			t.Fatalf("%v, %v", v, err)
		}
	}
	eventually(t, "the last event is seen", func() bool { return strings.Contains(out.String(), "my/2\t") })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	text := out.String()
	if a, b := strings.Index(text, "my/0\t{\"n\": 0"), strings.Index(text, "my/1\t{\"n\": 1"); a < 0 || a > b {
		t.Errorf("missing or out of order:\n%s", text)
	}
}

func BenchmarkRunnerListJobs20000(b *testing.B) {
	r, _, dir := testRunners(b)
	cache := OpenJobCache(filepath.Join(dir, "cache/jobs"), JobCacheOptions{})
	for i := range 20000 {
		jid := fmt.Sprintf("20240101100000%06d", i)
		load := NewMap("jid", jid, "fun", "test.ping", "tgt", "*", "tgt_type", "glob", "user", "root", "arg", NewList())
		if err := cache.Begin(jid, load, []string{"a"}, false); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		v, err := r.Run(context.Background(), "jobs.list_jobs", nil, NewMap("search_function", "test.*"))
		if err != nil || v.(*Map).Len() != 20000 {
			b.Fatal(err)
		}
	}
}
