// Tests of the module nftables: the texts of rules, and rules found again in what
// nft lists; with nft itself where it may be used.
package main

import (
	"context"
	"os"
	"os/exec"
	"testing"
)

func TestNftRuleText(t *testing.T) {
	for _, tc := range []struct {
		kw   *Map
		want string
	}{
		{NewMap("proto", "tcp", "dport", int64(22), "jump", "accept"), "tcp dport { 22 } accept"},
		{NewMap("if", "eth0", "proto", "udp", "sports", "53,5353,67", "counter", nil, "jump", "drop"), "meta iifname eth0 counter udp sport { 5353, 67, 53 } drop"},
		{NewMap("connstate", "related,established", "source", "10.0.0.0/8", "target", "accept"), "ct state { related,established } ip saddr 10.0.0.0/8 accept"},
		{NewMap("proto", "tcp", "dport", "80:90", "redirect-to", ":8080"), "tcp dport { 80-90 } redirect to :8080"},
		{NewMap("table", "filter", "chain", "input", "order", int64(1)), ""},
	} {
		if got := nftRuleText("ip", tc.kw); got != tc.want {
			t.Errorf("%s: %q, want %q", Repr(tc.kw), got, tc.want)
		}
	}
	got, err := nftBuild(context.Background(), nil, nftBuildArgs{Table: "filter", Chain: "input", Command: "insert", Position: int64(3), Full: "True", Family: "ipv6",
		Kwargs: NewMap("proto", "tcp", "dport", int64(22), "jump", "accept")})
	want := NewMap("comment", "Successfully built rule", "rule", "nft insert rule ip6 filter input position 3 tcp dport { 22 } accept", "result", true)
	if err != nil || !Equal(got, want) {
		t.Errorf("the whole command: %s, %v", Repr(got), err)
	}
}

func TestNftHandle(t *testing.T) {
	listing := `table ip filter { # handle 4
	chain input { # handle 1
		type filter hook input priority 0; policy accept;
		tcp dport 22 accept # handle 2
		ct state { established, related } counter packets 7 bytes 90 accept # handle 5
		iifname "eth0" drop # handle 6
	}
}`
	for rule, want := range map[string]string{"tcp dport { 22 } accept": "2", "ct state { established,related } counter accept": "5", "iifname eth0 drop": "6",
		"tcp dport 2 accept": "", "tcp dport 22": ""} {
		if got := nftHandle(listing, rule); got != want {
			t.Errorf("%s has handle %q, want %q", rule, got, want)
		}
	}
}

func TestNftForReal(t *testing.T) {
	const table = "halitetest"
	if os.Geteuid() != 0 || exec.Command("nft", "add", "table", "inet", table).Run() != nil {
		t.Skip("nft cannot be used here")
	}
	defer func() { _ = exec.Command("nft", "delete", "table", "inet", table).Run() }()
	c := moduleTestCall(t)
	run := func(fun string, kv ...any) any {
		t.Helper()
		kw := NewMap(kv...)
		kw.Set("table", table)
		kw.Set("family", "inet")
		v, err := c.RunKw(context.Background(), "nftables."+fun, nil, kw)
		if err != nil {
			t.Fatalf("%s: %v", fun, err)
		}
		return v
	}
	ok := func(v any) bool {
		m, isMap := v.(*Map)
		return isMap && Truth(m.Value("result"))
	}
	rule := "tcp dport { 22 } accept"
	if !ok(run("new_chain", "chain", "in", "table_type", "filter", "hook", "input", "priority", int64(10))) || !ok(run("check_chain", "chain", "in")) {
		t.Fatal("the base chain is not made")
	}
	if v := run("append", "chain", "in", "rule", rule); !ok(v) || !ok(run("check", "chain", "in", "rule", rule)) {
		t.Errorf("append: %s", Repr(v))
	}
	if ok(run("append", "chain", "in", "rule", rule)) {
		t.Error("a rule that is there is added again")
	}
	if v := run("insert", "chain", "in", "rule", "udp dport 53 counter accept"); !ok(v) {
		t.Errorf("insert: %s", Repr(v))
	}
	if v := run("get_policy", "chain", "in"); v != "accept" {
		t.Errorf("policy %v", v)
	}
	if v := run("set_policy", "chain", "in", "policy", "accept"); v != true {
		t.Errorf("set_policy: %v", v)
	}
	if v := run("delete", "chain", "in", "rule", rule); !ok(v) || ok(run("check", "chain", "in", "rule", rule)) {
		t.Errorf("delete: %s", Repr(v))
	}
	if v := run("flush", "chain", "in"); !ok(v) {
		t.Errorf("flush: %s", Repr(v))
	}
	if !ok(run("delete_chain", "chain", "in")) || !ok(run("delete_table")) || ok(run("check_table")) {
		t.Error("chain or table is not deleted")
	}
}
