// Rules and fetches: words are built and output is read without the tools.
package main

import (
	"context"
	"testing"
)

func TestIptablesRulesAreBuilt(t *testing.T) {
	for _, c := range []struct {
		args *Map
		want string
	}{
		{NewMap("match", "state", "connstate", "RELATED,ESTABLISHED", "jump", "ACCEPT"), "-m state --state RELATED,ESTABLISHED --jump ACCEPT"},
		{NewMap("proto", "tcp", "dport", int64(22), "source", "not 10.0.0.0/8", "jump", "DROP"), "-p tcp --dport 22 ! --source 10.0.0.0/8 --jump DROP"},
		{NewMap("proto", "tcp", "dports", NewList(int64(80), int64(443)), "comment", "web", "target", "ACCEPT"),
			`-p tcp -m multiport --dports 80,443 -m comment --comment "web" --jump ACCEPT`},
		{NewMap("if", "!eth0", "jump", "LOG", "log-prefix", "in: "), `! -i eth0 --jump LOG --log-prefix "in: "`},
		{NewMap("dports", "80"), "Error: protocol must be specified"},
	} {
		got, err := netfilterBuild(context.Background(), nil, netfilterBuildArgs{Table: "filter", Family: "ipv4", Kwargs: c.args})
		if err != nil || got != c.want {
			t.Errorf("%s: got %v, %v, want %s", Repr(c.args), got, err, c.want)
		}
	}
	rules := parseIptables("*filter\n:INPUT ACCEPT [5:60]\n:mine - [0:0]\n-A INPUT -p tcp -m comment --comment \"a b\" -j mine\nCOMMIT\n")
	wantEqual(t, "policy", rules.Map("filter").Map("INPUT").Value("policy"), "ACCEPT")
	wantEqual(t, "rules", rules.Map("filter").Map("INPUT").Value("rules"), NewList("-p tcp -m comment --comment \"a b\" -j mine"))
	wantEqual(t, "packets", rules.Map("filter").Map("INPUT").Value("packet count"), "5")
}

func TestGitFetchIsUnderstood(t *testing.T) {
	out := "From /tmp/x\n * [new branch]      dev        -> origin/dev\n * [new tag]         v1         -> v1\n   5ad1b7e..f0c2a44  main       -> origin/main\n - [deleted]         (none)     -> origin/old\n"
	wantEqual(t, "fetch", parseGitFetch(out), NewMap("new branches", NewList("origin/dev"), "new tags", NewList("v1"),
		"updated branches", NewMap("origin/main", NewMap("old", "5ad1b7e", "new", "f0c2a44")), "deleted", NewList("origin/old")))
	if got := redactURLs("fatal: https://me:secret@example.org/x: no"); got != "fatal: https://<redacted>@example.org/x: no" {
		t.Errorf("redacted: %q", got)
	}
}
