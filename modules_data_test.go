// Tests of the modules that read and keep data: grains, pillar, config,
// environ, data, hashutil, random.
package main

import (
	"os"
	"path/filepath"
	"testing"
)

// checkCalls runs functions one after the other and compares what they return.
func checkCalls(t *testing.T, c *Call, calls []moduleCall) {
	t.Helper()
	for _, tc := range calls {
		got, err := direct(t, c, tc.fun, tc.args, tc.kw...)
		text := Repr(got)
		if err != nil {
			text = JobErrorText(tc.fun, err, "")
		}
		if text != tc.want {
			t.Errorf("%s %s %v:\n got %s\nwant %s", tc.fun, Repr(NewList(tc.args...)), tc.kw, text, tc.want)
		}
	}
}

// moduleCall is one call and the repr of its result, or the text of its error.
type moduleCall struct {
	fun  string
	args []any
	kw   []any
	want string
}

func TestGrainsArePersistent(t *testing.T) {
	c := moduleTestCall(t)
	checkCalls(t, c, []moduleCall{
		{"grains.setval", []any{"g1", "v1"}, nil, "{'g1': 'v1'}"},
		{"grains.get", []any{"g1"}, nil, "'v1'"},
		{"grains.setvals", []any{NewMap("g5", NewList(int64(1), int64(2)))}, nil, "{'g5': [1, 2]}"},
		{"grains.set", []any{"g6:sub:key", "val"}, nil, "{'comment': '', 'changes': {'g6': {'sub': {'key': 'val'}}}, 'result': True}"},
		{"grains.set", []any{"g6", "flat"}, nil, "{'comment': \"The key 'g6' exists but is a dict or a list. Use 'force=True' to overwrite.\", 'changes': {}, 'result': False}"},
		{"grains.set", []any{"g1", "v1"}, nil, "{'comment': 'Grain is already set', 'changes': {}, 'result': True}"},
		{"grains.append", []any{"g5", int64(3)}, nil, "{'g5': [1, 2, 3]}"},
		{"grains.append", []any{"g5", int64(3)}, nil, "'The val 3 was already in the list g5'"},
		{"grains.append", []any{"g1", "x"}, nil, "'The key g1 is not a valid list'"},
		{"grains.append", []any{"g1", "x"}, []any{"convert", true}, "{'g1': ['v1', 'x']}"},
		{"grains.append", []any{"g6:list", "item"}, nil, "{'g6': {'sub': {'key': 'val'}, 'list': ['item']}}"},
		{"grains.remove", []any{"g5", int64(3)}, nil, "{'g5': [1, 2]}"},
		{"grains.delval", []any{"g1"}, []any{"force", true}, "{'comment': '', 'changes': {'g1': None}, 'result': True}"},
		{"grains.delkey", []any{"g6"}, []any{"force", true}, "{'comment': '', 'changes': {'g6': None}, 'result': True}"},
		{"grains.item", []any{"g1", "g6"}, nil, "{'g1': None, 'g6': ''}"},
	})
	got, err := os.ReadFile(filepath.Join(filepath.Dir(c.Opts.Str("conf_file")), "grains"))
	if want := "g1: null\ng5:\n- 1\n- 2\n"; err != nil || string(got) != want {
		t.Errorf("grains file: %q, %v", got, err)
	}
}

func TestGrainsFilterBy(t *testing.T) {
	c := moduleTestCall(t)
	c.Grains.Set("role", "db")
	checkCalls(t, c, []moduleCall{
		{"grains.filter_by", []any{NewMap("d*", NewMap("a", int64(1)))}, []any{"grain", "role", "merge", NewMap("b", int64(2))}, "{'a': 1, 'b': 2}"},
		{"grains.filter_by", []any{NewMap("x", "X", "y", "Y")}, []any{"grain", "role", "default", "y"}, "'Y'"},
		{"grains.filter_by", []any{NewMap("db", NewMap("a", int64(1)), "base", NewMap("a", int64(0), "c", int64(2)))}, []any{"grain", "role", "base", "base"}, "{'a': 1, 'c': 2}"},
		{"grains.filter_by", []any{NewMap("x", int64(1))}, []any{"grain", "role"}, "None"},
		{"grains.item", []any{"id"}, []any{"sanitize", "true"}, "{'id': 'MINION.DOMAINNAME'}"},
	})
}

func TestPillarAndConfig(t *testing.T) {
	c := moduleTestCall(t, "golden", NewMap("conf", "minion"), "pillarenv", nil)
	c.Pillar.Set("shared", NewMap("map", NewMap("k1", "v1", "k2", NewMap("deep", int64(42))), "list", NewList("one", int64(3))))
	c.Pillar.Set("company", "acme")
	checkCalls(t, c, []moduleCall{
		{"pillar.get", []any{"shared:map:k2:deep"}, nil, "42"},
		{"pillar.get", []any{"nosuch"}, nil, "''"},
		{"pillar.get", []any{"shared/map/k1"}, []any{"delimiter", "/"}, "'v1'"},
		{"pillar.get", []any{"shared:map"}, []any{"default", NewMap("k9", "x", "k2", NewMap("z", int64(1))), "merge", true}, "{'k9': 'x', 'k2': {'z': 1, 'deep': 42}, 'k1': 'v1'}"},
		{"pillar.get", []any{"shared:list"}, []any{"default", NewList("zero", "one"), "merge", true}, "['zero', 'one', 3]"},
		{"pillar.item", []any{"company", "nosuch"}, []any{"default", "dd"}, "{'company': 'acme', 'nosuch': 'dd'}"},
		{"pillar.keys", []any{"company"}, nil, "The minion function caused an exception: Traceback (most recent call last):\nValueError: Pillar value in key company is not a dict\n"},
		{"pillar.obfuscate", []any{"company"}, nil, "{'company': '<str>'}"},
		{"config.get", []any{"golden:conf"}, nil, "'minion'"},
		{"config.get", []any{"company"}, nil, "'acme'"},
		{"config.get", []any{"golden"}, []any{"omit_opts", true}, "''"},
		{"config.option", []any{"hosts.file"}, nil, "'/etc/hosts'"},
		{"config.manage_mode", []any{int64(644)}, nil, "'0644'"},
		{"config.valid_fileproto", []any{"salt://x"}, nil, "True"},
	})
}

func TestEnvironIsTheJobsOwn(t *testing.T) {
	c := moduleTestCall(t)
	checkCalls(t, c, []moduleCall{
		{"environ.setval", []any{"HALITE_T", "x"}, nil, "'x'"},
		{"environ.get", []any{"HALITE_T"}, nil, "'x'"},
		{"cmd.run", []any{"echo $HALITE_T"}, []any{"shell", "/bin/sh"}, "'x'"},
		{"environ.setval", []any{"HALITE_T", false}, []any{"false_unsets", true}, "None"},
		{"environ.has_value", []any{"HALITE_T"}, nil, "False"},
		{"environ.setval", []any{"HALITE_T", int64(5)}, nil, "False"},
	})
	if _, set := os.LookupEnv("HALITE_T"); set {
		t.Error("the environment of the process was changed")
	}
}

func TestDataHashRandom(t *testing.T) {
	c := moduleTestCall(t)
	checkCalls(t, c, []moduleCall{
		{"data.update", []any{"k1", "v1"}, nil, "True"},
		{"data.get", []any{NewList("k1", "nosuch")}, nil, "['v1']"},
		{"data.cas", []any{"k1", "v2", "other"}, nil, "False"},
		{"data.pop", []any{"k1"}, nil, "'v1'"},
		{"data.load", nil, nil, "{}"},
		{"hashutil.digest", []any{"foo", "sha1"}, nil, "ERROR: Hash func 'sha1' is not supported."},
		{"hashutil.md5_digest", []any{"foo"}, nil, "'acbd18db4cc2f85cedef654fccc4a4d8'"},
		{"hashutil.hmac_compute", []any{"foo", "key"}, nil, "'6ea1d9f5e93a8f3ade026261ffe5d72a1c90804ed94404a69892a163b8a35497'"},
		{"hashutil.base64_decodestring", []any{"Zm9v\n"}, nil, "'foo'"},
		{"random.seed", []any{int64(10)}, []any{"hash", "x"}, "5"},
		{"random.sample", []any{NewList(int64(0), int64(1), int64(2), int64(3), int64(4), int64(5), int64(6), int64(7), int64(8), int64(9)), int64(3)}, []any{"seed", int64(7)}, "[5, 2, 6]"},
		{"random.shadow_hash", nil, []any{"crypt_salt", "saltsalt", "password", "x"}, "'$6$saltsalt$8RWsOfwR6M6PpnoeQiEiWzNTPo1f0HjVYjDnLZhGx16aBFRkeqiHAzfXP/LgrOWMBMXqiU2pLrXsSOHNUyUm91'"},
		{"random.shadow_hash", nil, []any{"crypt_salt", "saltsalt", "password", "x", "algorithm", "bogus"}, "ERROR executing 'random.shadow_hash': Cannot hash using 'bogus' hash algorithm. Natively supported algorithms are: ['sha512', 'sha256', 'md5']."},
	})
}
