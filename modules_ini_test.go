// Tests of the modules ini, dnsutil and defaults.
package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestIniKeepsCommentsAndOrder(t *testing.T) {
	c := moduleTestCall(t)
	path := filepath.Join(t.TempDir(), "t.ini")
	before := "; head\ntop = 1\n#foo = old\n[s one]\nk=v\n  more\n#c = 5\nnonsense\n\n[b]\nx: y\nx = z\n[b]\nx = again\n"
	if err := os.WriteFile(path, []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}
	checkCalls(t, c, []moduleCall{
		{"ini.get_ini", []any{path}, nil, `{'top': '1', 's one': {'k': 'v\n  more'}, 'b': {'x': 'again'}}`},
		{"ini.get_option", []any{path, "b", "x"}, nil, "'again'"},
		{"ini.get_option", []any{path, "top", "x"}, nil, "None"},
		{"ini.set_option", []any{path, NewMap("foo", true, "s one", NewMap("c", int64(7)), "n", NewMap("a", nil))}, nil,
			"{'foo': {'before': None, 'after': 'True'}, 's one': {'c': {'before': None, 'after': '7'}}, 'n': {'before': None, 'after': {'a': 'None'}}}"},
		{"ini.remove_option", []any{path, "b", "x"}, nil, "'again'"},
		{"ini.remove_section", []any{path, "n"}, nil, "{'a': 'None'}"},
		{"ini.remove_section", []any{path, "n"}, nil, "None"},
		{"ini.get_ini", []any{path + ".absent"}, nil, "{}"},
	})
	got, err := os.ReadFile(path)
	if want := "; head\ntop = 1\nfoo = True\n\n[s one]\nk = v\n  more\nc = 7\nnonsense\n\n[b]\nx: y\n"; err != nil || string(got) != want {
		t.Errorf("file: %q, %v", got, err)
	}
}

func TestDnsutilReadsFiles(t *testing.T) {
	c := moduleTestCall(t)
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost\n# a b\n\n10.0.0.1 a b\n10.0.0.2 d\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	zone := "$ORIGIN ex.org.\n@ 3600 IN SOA ns.ex.org. admin.ex.org. (\n 2020010101 ; serial\n 2H\n 1D\n 2W\n 600 )\n@ 3600 IN NS ns\nwww 300 IN A 1.2.3.4\n"
	checkCalls(t, c, []moduleCall{
		{"dnsutil.hosts_append", []any{hosts, "10.0.0.1", "a,n"}, nil, `'The following line was added to ` + hosts + `:\n10.0.0.1 n'`},
		{"dnsutil.hosts_append", []any{hosts, "10.0.0.1", "n"}, nil, "'No additional hosts were added to " + hosts + "'"},
		{"dnsutil.hosts_remove", []any{hosts, "d,b"}, nil, "None"},
		{"dnsutil.parse_hosts", []any{hosts}, nil, "{'127.0.0.1': ['localhost'], '10.0.0.1': ['a', 'n']}"},
		{"dnsutil.parse_hosts", []any{"/nonexistent"}, nil, "'Error: hosts data was not found'"},
		{"dnsutil.parse_zone", nil, []any{"zone", zone}, "{'ORIGIN': 'ex.org.', 'NETWORK': 'IN', 'SOURCE': 'ns.ex.org.', " +
			"'CONTACT': 'admin@ex.org.', 'SERIAL': '2020010101', 'REFRESH': 7200, 'RETRY': 86400, 'EXPIRE': 604800, 'MINTTL': 600, " +
			"'IN': {'ex.org.': 'NS'}, 'A': {'www.ex.org.': {'TARGET': '1.2.3.4', 'TTL': '300'}}}"},
		{"dnsutil.check_ip", []any{"1.2.3.4"}, nil, "True"},
		{"dnsutil.check_ip", []any{"999.1.1.1"}, nil, "False"},
		{"dnsutil.check_ip", []any{"::1/64"}, nil, "True"},
	})
}

func TestDefaultsMerge(t *testing.T) {
	c := moduleTestCall(t)
	checkCalls(t, c, []moduleCall{
		{"defaults.merge", []any{NewMap("a", NewMap("b", int64(1)), "l", NewList(int64(1))), NewMap("a", NewMap("c", int64(2)), "l", NewList(int64(2)))}, nil,
			"{'a': {'b': 1, 'c': 2}, 'l': [2]}"},
		{"defaults.update", []any{NewMap("n", NewMap("a", int64(1)), "m", NewMap()), NewMap("a", int64(0), "l", NewList(int64(1)))}, nil,
			"{'n': {'a': 1, 'l': [1]}, 'm': {'a': 0, 'l': [1]}}"},
	})
}
