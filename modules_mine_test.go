// The mine is sent and read by master and peers.
package main

import (
	"context"
	"testing"
)

// mineMaster answers requests of the mine and of publish like a master.
type mineMaster struct {
	loads  []*Map
	answer func(load *Map) (any, error)
}

func (m *mineMaster) Request(_ context.Context, load *Map) (any, error) {
	m.loads = append(m.loads, load.Clone())
	return m.answer(load)
}
func (m *mineMaster) FetchPillar(context.Context, *Map) (*Map, error) { return NewMap(), nil }
func (m *mineMaster) FireEvent(context.Context, string, *Map) error   { return nil }
func (m *mineMaster) MasterAddr() string                              { return "192.0.2.1:4506" }
func mineCall(t *testing.T, m *mineMaster, options ...any) *Call {
	t.Helper()
	env, _ := returnerEnv(options...)
	env.Opts.Set("cachedir", t.TempDir())
	env.Loader = NewLoader(env.Opts, nil)
	if m != nil {
		env.Master = m
	}
	return NewCall(env, "", "", nil)
}

func wantRun(t *testing.T, c *Call, want any, fun string, args []any, kwargs *Map) {
	t.Helper()
	got, err := c.RunKw(t.Context(), fun, args, kwargs)
	if err != nil || !Equal(got, want) {
		t.Errorf("%s %s: %s, %v, want %s", fun, Repr(NewList(args...)), Repr(got), err, Repr(want))
	}
}

func TestMineUpdateRunsBothStylesOfFunctions(t *testing.T) {
	m := &mineMaster{answer: func(*Map) (any, error) { return true, nil }}
	c := mineCall(t, m, "mine_functions", NewMap(
		"test.echo", NewList("plain"),
		"alias", NewList(NewMap("mine_function", "test.echo"), "listed", NewMap("allow_tgt", "web*")),
		"mapped", NewMap("mine_function", "test.echo", "text", "by name", "allow_tgt", "G@a:b", "allow_tgt_type", "compound"),
		"no.such", NewList(), "test.exception", NewMap(),
	))
	wantRun(t, c, true, "mine.update", nil, nil)
	want := NewMap("test.echo", "plain",
		"alias", NewMap("__data__", "listed", "__saltmine_acl__", int64(1), "allow_tgt", "web*"),
		"mapped", NewMap("__data__", "by name", "__saltmine_acl__", int64(1), "allow_tgt", "G@a:b", "allow_tgt_type", "compound"))
	if len(m.loads) != 1 || !Equal(m.loads[0].Value("data"), want) {
		t.Fatalf("sent %v, want %s", m.loads, Repr(want))
	}
}

func TestMineUpdateClearsOnMastersThatCannot(t *testing.T) {
	m := &mineMaster{answer: func(load *Map) (any, error) {
		if load.Value("clear") == true {
			return "", nil
		}
		return true, nil
	}}
	c := mineCall(t, m)
	wantRun(t, c, true, "mine.update", nil, NewMap("clear", true, "mine_functions", NewMap("test.ping", NewList())))
	var cmds []any
	for _, l := range m.loads {
		cmds = append(cmds, NewList(l.Value("cmd"), l.Value("clear")))
	}
	if want := NewList(NewList("_mine", true), NewList("_mine_flush", nil), NewList("_mine", false)); !Equal(NewList(cmds...), want) {
		t.Errorf("requests %s", Repr(NewList(cmds...)))
	}
}

func TestMineWithoutAMaster(t *testing.T) {
	c := mineCall(t, nil, "file_client", "local")
	wantRun(t, c, true, "mine.send", []any{"test.echo", "one"}, nil)
	wantRun(t, c, true, "mine.send", []any{"two"}, NewMap("mine_function", "test.echo", "text", "2", "allow_tgt", "x"))
	wantRun(t, c, NewMap("m1", "one"), "mine.get", []any{"m*", "test.echo"}, nil)
	wantRun(t, c, NewMap("two", NewMap("m1", "2"), "test.echo", NewMap("m1", "one")), "mine.get", []any{"m1", "two,test.echo"}, nil)
	wantRun(t, c, NewMap(), "mine.get", []any{"other", "two"}, nil)
	wantRun(t, c, true, "mine.delete", []any{"two"}, nil)
	wantRun(t, c, NewMap(), "mine.get", []any{"m1", "two"}, nil)
	wantRun(t, c, true, "mine.flush", nil, nil)
	wantRun(t, c, NewMap(), "mine.get", []any{"m1", "test.echo"}, nil)
	wantRun(t, c, false, "mine.send", []any{"no.such"}, nil)
}

func TestMineGetDocker(t *testing.T) {
	ports := NewList(NewMap("IP", "0.0.0.0", "PrivatePort", int64(80), "PublicPort", int64(8080)), NewMap("PrivatePort", int64(81)),
		NewMap("IP", "192.0.2.9", "PrivatePort", int64(82), "PublicPort", int64(82)))
	m := &mineMaster{answer: func(*Map) (any, error) {
		return NewMap("h", NewMap(
			"host", NewMap("interfaces", NewMap("eth0", NewMap("inet", NewList(NewMap("address", "10.0.0.1"))), "eth1", NewMap("inet", NewList(NewMap("address", "10.9.0.1"))))),
			"c1", NewMap("Image", "web", "Info", NewMap("Id", "id1"), "Ports", ports))), nil
	}}
	wantRun(t, mineCall(t, m), NewMap("web", NewMap("ipv4", NewMap(int64(80), NewList("10.9.0.1:8080"), int64(82), NewList("192.0.2.9:82")))),
		"mine.get_docker", nil, NewMap("cidrs", "10.9.0.0/16"))
}

func TestPublishWaitsForAllAndNamesThem(t *testing.T) {
	asked := 0
	m := &mineMaster{answer: func(load *Map) (any, error) {
		switch load.Str("cmd") {
		case "minion_pub":
			if load.Str("tgt") == "nobody" {
				return NewMap("jid", int64(0), "minions", NewList()), nil
			}
			return NewMap("jid", "1", "minions", NewList("a", "b")), nil
		case "minion_runner":
			return load.Value("arg"), nil
		}
		if asked++; asked == 1 {
			return NewMap("a", NewMap("ret", int64(1))), nil
		}
		return NewMap("a", NewMap("ret", int64(1)), "b", NewMap("ret", int64(2), "out", "txt")), nil
	}}
	c := mineCall(t, m)
	wantRun(t, c, NewMap("a", int64(1), "b", int64(2)), "publish.publish", []any{"*", "test.arg", "[1, x=2]"}, NewMap("tgt_type", "pcre", "timeout", int64(60)))
	if got := m.loads[0]; !Equal(got.Value("arg"), NewList(int64(1), "x=2")) || got.Str("tgt_type") != "pcre" {
		t.Errorf("published %s", Repr(got))
	}
	wantRun(t, c, NewMap("a", NewMap("ret", int64(1)), "b", NewMap("ret", int64(2), "out", "txt")), "publish.full_data", []any{"*", "test.ping"}, nil)
	wantRun(t, c, nil, "publish.publish", []any{"nobody", "test.ping"}, nil)
	wantRun(t, c, NewMap(), "publish.publish", []any{"*", "publish.publish"}, nil)
	wantRun(t, c, NewList("x"), "publish.runner", []any{"test.arg", "x"}, nil)
	if _, err := c.RunKw(t.Context(), "publish.publish", []any{"*", "test.ping"}, NewMap("via_master", "elsewhere")); err == nil {
		t.Error("an unknown master is used")
	}
}
