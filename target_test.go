// Who is meant: every target type, compound expressions, and refusals that
// help.
package main

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func targetSubjects() []Subject {
	nested := func(level2, color string, list ...any) *Map {
		return NewMap("level1", NewMap("level2", level2, "list", NewList(list...)), "color", color)
	}
	web := func(domain string) *Map {
		return NewMap("company", "acme", "tier", "web", "ports", NewList(int64(80), int64(443)),
			"shared", NewMap("list", NewList("one", "two", int64(3)), "map", NewMap("k1", "v1", "k2", NewMap("deep", int64(42)))),
			"web", NewMap("domain", domain, "col:on", "odd", "number", int64(8080), "truth", true))
	}
	groups := NewMap(
		"web", "L@web1.example.com,web2.example.com",
		"dbs", "G@role:db",
		"nested", "N@web and not web2*",
		"listform", NewList("web1.example.com", "db1"),
		"mixed", "G@osrel:10 or db*",
		"empty", "nosuch*",
		"pattern", "web[12].*",
		"loop", "N@loop2 or db1", "loop2", "N@loop",
		"number", int64(3))
	return []Subject{
		{ID: "web1.example.com", Nodegroups: groups, Pillar: web("web1.example.com"), Grains: NewMap("id", "web1.example.com", "role", "web",
			"roles", NewList("frontend", "proxy"), "osrel", int64(10), "osrelf", 10.5, "env", "prod", "dc", "eu:west",
			"spaced", "hello world", "enabled", true, "nothing", nil, "nested", nested("deep-web1", "red", "x", "y"),
			"apps", NewList(NewMap("name", "shop", "port", int64(80)), NewMap("name", "blog", "port", int64(8080))),
			"ipv4", NewList("127.0.0.1", "10.1.0.11"), "ipv6", NewList("::1", "fd00:1::11"), int64(7), "seven")},
		{ID: "web2.example.com", Nodegroups: groups, Pillar: web("web2.example.com"), Grains: NewMap("id", "web2.example.com", "role", "web",
			"roles", NewList("frontend", "cache"), "osrel", int64(9), "osrelf", 9.25, "env", "staging", "dc", "eu:east",
			"spaced", "hello  world", "enabled", false, "nested", nested("deep-web2", "green", "y", "z"),
			"ipv4", NewList("127.0.0.1", "10.1.0.12"), "ipv6", NewList("::1", "fd00:1::12"))},
		{ID: "db1", Nodegroups: groups, Pillar: NewMap("company", "acme", "tier", "db", "ports", NewList(int64(5432)), "db", NewMap("engine", "pg", "version", int64(15))),
			Grains: NewMap("id", "db1", "role", "db", "roles", NewList("database", "a:b"), "osrel", int64(10), "env", "prod", "dc", "us",
				"enabled", true, "nested", nested("deep-db1", "blue"),
				"ipv4", NewList("127.0.0.1", "10.2.0.21"), "ipv6", NewList("::1", "fd00:2::21"))},
	}
}

// The answers are those that the three minions of the recorded runs gave:
// 1 and 2 are web1 and web2, d is db1.
func TestMatchTarget(t *testing.T) {
	cases := []struct{ kind, expr, delimiter, want string }{
		{"glob", "*", "", "12d"}, {"glob", "web*", "", "12"}, {"glob", "web?.example.com", "", "12"},
		{"glob", "web[12].example.com", "", "12"}, {"glob", "web[!1].example.com", "", "2"}, {"glob", "DB1", "", ""},
		{"glob", "db", "", ""}, {"glob", "*1", "", "d"}, {"glob", "web1*,db1", "", ""}, {"glob", "?b1", "", "d"},
		{"glob", "web1.example.com or db1", "", ""}, {"glob", "G@role:db", "", ""}, {"glob", "", "", ""},
		{"", "db1", "", "d"}, {"nosuchtype", "*", "", ""},

		{"pcre", `^web\d\.example\.com$`, "", "12"}, {"pcre", "(web1|db).*", "", "1d"}, {"pcre", "web1.example.com|db1", "", "1d"},
		{"pcre", "(?i)WEB.*", "", "12"}, {"pcre", "web", "", "12"}, {"pcre", "b1", "", ""}, {"pcre", "", "", "12d"}, {"pcre", "[", "", ""},
		{"list", "web1.example.com,db1", "", "1d"}, {"list", "db1,nosuch", "", "d"}, {"list", "", "", ""}, {"list", "db", "", ""}, {"list", "d*", "", ""},

		{"grain", "role:web", "", "12"}, {"grain", "role:we*", "", "12"}, {"grain", "role:*", "", "12d"}, {"grain", "roles:front*", "", "12"},
		{"grain", "roles:a:b", "", "d"}, {"grain", `roles:a\:b`, "", ""}, {"grain", "osrel:10", "", "1d"}, {"grain", "osrelf:*", "", "12"},
		{"grain", "enabled:False", "", "2"}, {"grain", "enabled:true", "", "1d"}, {"grain", "nothing:None", "", "1"}, {"grain", "nothing:null", "", ""},
		{"grain", "nothing:*", "", "1"}, {"grain", "nested:level1:level2:deep-*", "", "12d"}, {"grain", "nested:level1:list:y", "", "12"},
		{"grain", "nested:level1:list:*", "", "12"}, {"grain", "nested:*:level2:deep-db1", "", "d"}, {"grain", "nested:color:red", "", "1"},
		{"grain", "nested:color", "", "12d"}, {"grain", "nested:*", "", "12d"}, {"grain", "nested", "", ""}, {"grain", "dc:eu*", "", "12"}, {"grain", "dc:eu:west", "", "1"},
		{"grain", "spaced:hello world", "", "1"}, {"grain", "apps:name:shop", "", "1"}, {"grain", "apps:*:name:shop", "", "1"}, {"grain", "apps:port:80", "", "1"},
		{"grain", "apps:1:name:blog", "", "1"}, {"grain", "apps:-1:name:blog", "", "1"}, {"grain", "apps:2:name:blog", "", ""},
		{"grain", "ROLE:web", "", ""}, {"grain", "role:WEB", "", "12"}, {"grain", "ipv4:10.1.*", "", "12"}, {"grain", "role:", "", ""},
		{"grain", "role:!web", "", ""}, {"grain", "*:web", "", "12"}, {"grain", "7:sev*", "", "1"},
		{"grain", "nested|level1|level2|deep-web1", "|", "1"}, {"grain", "dc|eu:west", "|", "1"}, {"grain", "nested::color::red", "::", "1"},

		{"grain_pcre", "role:^w", "", "12"}, {"grain_pcre", "role:(web|db)", "", "12d"}, {"grain_pcre", "role:b$", "", ""}, {"grain_pcre", "osrel:10|9", "", "12d"},
		{"grain_pcre", "dc:eu:w.*", "", "1"}, {"grain_pcre", "enabled:T.*", "", "1d"}, {"grain_pcre", `spaced:hello\s+world`, "", "12"}, {"grain_pcre", "role:[", "", ""},
		{"grain_pcre", "role|^w.b", "|", "12"},

		{"pillar", "company:acme", "", "12d"}, {"pillar", "company:ACME", "", "12d"}, {"pillar", "shared:map:k2:deep:42", "", "12"}, {"pillar", "web:col:on:odd", "", ""},
		{"pillar", "web/col:on/odd", "/", "12"}, {"pillar", "ports:80", "", "12"}, {"pillar", "db:version:15", "", "d"},
		{"pillar_pcre", "tier:(web|db)", "", "12d"}, {"pillar_pcre", "ports:80", "", "12"}, {"pillar_pcre", "tier%d.", "%", "d"},
		{"pillar_exact", "tier:web", "", "12"}, {"pillar_exact", "tier:we*", "", ""}, {"pillar_exact", "TIER:web", "", ""},

		{"ipcidr", "10.1.0.0/24", "", "12"}, {"ipcidr", "10.0.0.0/8", "", "12d"}, {"ipcidr", "10.1.0.11", "", "1"}, {"ipcidr", "10.1.0.11/32", "", "1"},
		{"ipcidr", "10.1.0.0/255.255.0.0", "", "12"}, {"ipcidr", "10.1.0.0/0.0.255.255", "", "12"}, {"ipcidr", "0.0.0.0/0", "", "12d"},
		{"ipcidr", "bogus", "", ""}, {"ipcidr", "10.1.0", "", ""}, {"ipcidr", "10.1.0.5/24", "", ""}, {"ipcidr", "10.1.0.0/33", "", ""}, {"ipcidr", "fd00:1::11", "", "1"},
		{"ipcidr", "fd00:1::/64", "", "12"}, {"ipcidr", "fd00::/16", "", "12d"}, {"ipcidr", "::1", "", "12d"},

		{"nodegroup", "web", "", "12"}, {"nodegroup", "dbs", "", "d"}, {"nodegroup", "nested", "", "1"}, {"nodegroup", "listform", "", "1d"}, {"nodegroup", "empty", "", ""},
		{"nodegroup", "pattern", "", "12"}, {"nodegroup", "nosuch", "", ""}, {"nodegroup", "loop", "", ""}, {"nodegroup", "number", "", ""},
		{"range", "%web", "", ""},

		{"compound", "web* and G@role:web", "", "12"}, {"compound", "( web1* or db1 ) and G@osrel:10", "", "1d"}, {"compound", "(web1* or db1) and G@osrel:10", "", ""},
		{"compound", "( web* and not web1* ) or db1", "", "2d"}, {"compound", "L@web1.example.com,db1 and G@osrel:10", "", "1d"}, {"compound", "N@web and G@osrel:9", "", "2"},
		{"compound", "N@dbs or N@listform", "", "1d"}, {"compound", "N@mixed and web*", "", "1"}, {"compound", "J@tier:(web|db) and E@^d", "", "d"},
		{"compound", "G@spaced:hello world", "", ""}, {"compound", "G@role:web and", "", ""}, {"compound", "and web1*", "", ""}, {"compound", "web1* and and db1", "", ""},
		{"compound", "not", "", ""}, {"compound", "web1* )", "", ""}, {"compound", "( web1*", "", ""}, {"compound", "( )", "", ""}, {"compound", "web1* db1", "", ""},
		{"compound", "web1* AND db1", "", ""}, {"compound", "X@foo", "", ""}, {"compound", "X@foo or db1", "", "d"}, {"compound", "R@%foo or db1", "", ""}, {"compound", "T@vm or db1", "", ""},
		{"compound", "G@osrel:10 or G@env:prod and G@role:db", "", "1d"}, {"compound", "not web1* or db1", "", "2d"}, {"compound", "not ( not db1 )", "", "d"},
		{"compound", "not not db1", "", ""}, {"compound", "db1 or not db1", "", "12d"}, {"compound", "web1.example.com not db1", "", "1"},
		{"compound", "G!@role!web", "", "12"}, {"compound", "G@@role@web", "", "12"}, {"compound", "G|@dc|eu:west", "", "1"}, {"compound", "G@role:web@x", "", ""},
		{"compound", "  web1*  and \t G@role:web  ", "", "1"}, {"compound", "", "", ""}, {"compound", "S@10.2.0.0/16 or E@web1", "", "1d"}, {"compound", "E@[ or db1", "", "d"},
		{"compound", "G@nested|color|red", "|", ""}, {"compound", "G@nested:color:red", "|", "1"},
	}
	for _, c := range cases {
		got := ""
		for i, s := range targetSubjects() {
			if MatchTarget(c.kind, c.expr, c.delimiter, s) {
				got += "12d"[i : i+1]
			}
		}
		if got != c.want {
			t.Errorf("%s %q with delimiter %q: matches %q, want %q", c.kind, c.expr, c.delimiter, got, c.want)
		}
	}
}

func TestMatchTargetOfOtherTypes(t *testing.T) {
	s := targetSubjects()[2]
	if !MatchTarget("list", NewList("db1", int64(3)), "", s) || MatchTarget("list", NewList("db"), "", s) {
		t.Error("a list on the wire is compared item by item")
	}
	if !MatchTarget("compound", NewList("G@role:db", "and", "not", "web*"), "", s) {
		t.Error("a compound list on the wire is the row of words")
	}
	if MatchTarget("glob", NewList("db1"), "", s) || MatchTarget("compound", int64(1), "", s) || MatchTarget("glob", nil, "", s) {
		t.Error("a target of a wrong type matches nothing")
	}
}

func TestTargetRefusalsSayWhatToUse(t *testing.T) {
	for _, c := range []struct{ kind, expr, want string }{
		{"range", "%web", "-L"}, {"compound", "R@%web", "-L"}, {"compound", "db1 or T@vm:x", "resource"},
		{"compound", "( db1", "not closed"}, {"nodegroup", "loop", "loop > loop2 > loop"}, {"ipcidr", "10.1.0.5/24", "10.1.0.0/24"},
	} {
		_, err := ParseTarget(c.kind, c.expr, "", targetSubjects()[0].Nodegroups)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: error %v, want one with %q", c.kind, c.expr, err, c.want)
		}
	}
}

// What is not cached is unknown, and unknown goes through not, and, or.
func TestTargetSelectUnknown(t *testing.T) {
	all := targetSubjects()
	subject := func(id string) *Subject {
		for _, s := range all {
			if s.ID == id {
				return &s
			}
		}
		return nil
	}
	ids := []string{"db1", "down1", "web1.example.com"}
	for _, c := range []struct{ expr, sure, maybe string }{
		{"G@role:db", "db1", "db1 down1"},
		{"not G@role:db", "web1.example.com", "down1 web1.example.com"},
		{"G@role:db and d*", "db1", "db1 down1"},
		{"G@role:db and web*", "", ""},
		{"G@role:db or down*", "db1 down1", "db1 down1"},
		{"S@10.2.0.21", "db1", "db1 down1"},
	} {
		target, err := ParseTarget("compound", c.expr, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(target.Select(ids, subject, false), " "); got != c.sure {
			t.Errorf("%s: certainly %q, want %q", c.expr, got, c.sure)
		}
		if got := strings.Join(target.Select(ids, subject, true), " "); got != c.maybe {
			t.Errorf("%s: possibly %q, want %q", c.expr, got, c.maybe)
		}
	}
	known := func(id string) bool { return id == "db1" }
	if got := TargetMissing("list", "db1,a b", known); strings.Join(got, " ") != "a b" {
		t.Errorf("missing of a list: %q", got)
	}
	if got := TargetMissing("compound", "L@a,db1 and not L@b", known); strings.Join(got, " ") != "a" {
		t.Errorf("missing of a compound: %q", got)
	}
}

func TestExpandTarget(t *testing.T) {
	groups := targetSubjects()[0].Nodegroups
	for _, c := range []struct{ kind, tgt, want string }{
		{"nodegroup", "nested", "L@web1.example.com,web2.example.com and not web2*"},
		{"nodegroup", "listform", "L@web1.example.com,db1"},
		{"compound", "N@mixed and web*", "( G@osrel:10 or db* ) and web*"},
		{"glob", "N@mixed", "N@mixed"},
	} {
		_, got, err := ExpandTarget(c.kind, c.tgt, groups)
		if err != nil || got != c.want {
			t.Errorf("%s %s: %q, %v; want %q", c.kind, c.tgt, got, err, c.want)
		}
	}
	if _, _, err := ExpandTarget("compound", "db1 or N@nosuch", groups); err == nil {
		t.Error("an unknown group inside a compound must be an error")
	}
}

// A random expression means the same as its parts combined by Go's operators.
func TestCompoundIsBooleanAlgebra(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	subjects := targetSubjects()
	atoms := []string{"*", "web*", "db1", "G@role:web", "E@w", "L@db1", "I@tier:db", "nosuch"}
	var build func(depth int) (string, func(Subject) bool)
	build = func(depth int) (string, func(Subject) bool) {
		if depth == 0 || r.IntN(4) == 0 {
			a := atoms[r.IntN(len(atoms))]
			return a, func(s Subject) bool { return MatchTarget("compound", a, "", s) }
		}
		l, lf := build(depth - 1)
		x, xf := build(depth - 1)
		switch r.IntN(3) {
		case 0:
			return "( " + l + " ) and ( " + x + " )", func(s Subject) bool { return lf(s) && xf(s) }
		case 1:
			return "( " + l + " ) or ( " + x + " )", func(s Subject) bool { return lf(s) || xf(s) }
		}
		return "not ( " + l + " )", func(s Subject) bool { return !lf(s) }
	}
	for range 500 {
		expr, want := build(4)
		for _, s := range subjects {
			if got := MatchTarget("compound", expr, "", s); got != want(s) {
				t.Fatalf("%s of %s: %v", expr, s.ID, got)
			}
		}
	}
}

func TestGlobMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"*.txt", "a/b/.c.txt", true}, {"[]a]", "]", true}, {"[!]a]", "b", true}, {"[!]a]", "]", false}, {"[a-c-]", "-", true},
		{"[z-a]", "m", false}, {"[a", "[a", true}, {"[!]", "[!]", true}, {"a[", "a[", true}, {"gr?n", "grün", true}, {"*a*b*c*", "xxaxxbxxc", true},
		{"*a*b", "ba", false}, {"", "", true}, {"*", "", true}, {"?", "", false}, {"a**b", "ab", true}, {`\*`, `\x`, true}, {`\*`, "*", false},
	} {
		if got := GlobMatch(c.pattern, c.text); got != c.want {
			t.Errorf("%q against %q: %v", c.pattern, c.text, got)
		}
	}
	// No pattern makes matching slow.
	if GlobMatch(strings.Repeat("*a", 2000)+"b", strings.Repeat("a", 20000)) {
		t.Error("the text has no b")
	}
}

func FuzzTarget(f *testing.F) {
	for _, kind := range []string{"glob", "pcre", "list", "grain", "grain_pcre", "pillar", "pillar_exact", "ipcidr", "nodegroup", "compound"} {
		f.Add(kind, "( web* and not G@role:web ) or N@nested", ":")
		f.Add(kind, "*:*:name:[a-", "|")
		f.Add(kind, "10.0.0.0/8", "")
	}
	f.Fuzz(func(t *testing.T, kind, expr, delimiter string) {
		if len(expr) > 300 {
			return
		}
		for _, s := range targetSubjects() {
			got := MatchTarget(kind, expr, delimiter, s)
			if again := MatchTarget(kind, expr, delimiter, s); got != again {
				t.Fatal("matching is not a function of its arguments")
			}
			if kind != "compound" || strings.HasPrefix(strings.TrimSpace(expr), "not") {
				continue
			}
			if _, err := ParseTarget(kind, expr, delimiter, s.Nodegroups); err == nil {
				if MatchTarget(kind, "not ( "+expr+" )", delimiter, s) == got {
					t.Fatalf("%q and its opposite have the same answer for %s", expr, s.ID)
				}
			}
		}
	})
}

func BenchmarkGrainMatch10000(b *testing.B) {
	s := targetSubjects()[2]
	target, err := ParseTarget("grain", "nested:level1:level2:deep-w*", "", nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for range 10000 {
			if target.Match(s) {
				b.Fatal("db1 is not deep-w*")
			}
		}
	}
}
