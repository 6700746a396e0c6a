// Tests of module network: what is calculated, and what every box has.
package main

import "testing"

func TestNetworkCalculates(t *testing.T) {
	c := moduleTestCall(t)
	checkCalls(t, c, []moduleCall{
		{"network.calc_net", []any{"10.0.0.5", "255.255.240.0"}, nil, "'10.0.0.0/20'"},
		{"network.convert_cidr", []any{"10.0.0.5/20"}, nil, "{'network': '10.0.0.0', 'netmask': '255.255.240.0', 'broadcast': '10.0.15.255'}"},
		{"network.reverse_ip", []any{"127.0.0.1"}, nil, "'1.0.0.127.in-addr.arpa'"},
		{"network.reverse_ip", []any{"fe80::1"}, nil, "'1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.e.f.ip6.arpa'"},
		{"network.ip_in_subnet", []any{"10.0.0.1", "10.0.0.0/8"}, nil, "True"},
		{"network.ip_in_subnet", []any{"10.0.0.1", "10.0.0.1/8"}, nil, "False"},
		{"network.is_private", []any{"2a00::1"}, nil, "False"},
		{"network.is_private", []any{"x"}, nil, "The minion function caused an exception: Traceback (most recent call last):\nValueError: 'x' does not appear to be an IPv4 or IPv6 address\n"},
		{"network.iphexval", []any{"192.168.1.10"}, nil, "'C0A8010A'"},
		{"network.connect", []any{"127.0.0.1"}, nil, "{'result': False, 'comment': 'Required argument, port, is missing.'}"},
	})
}

func TestNetworkReadsTheKernel(t *testing.T) {
	c := moduleTestCall(t)
	got, err := direct(t, c, "network.interfaces", nil)
	if err != nil {
		t.Fatal(err)
	}
	lo := got.(*Map).Map("lo")
	if lo == nil || lo.List("inet").Len() == 0 {
		t.Skip("this box has no loopback interface")
	}
	if s := Repr(lo.List("inet").Items[0]); s != "{'address': '127.0.0.1', 'netmask': '255.0.0.0', 'broadcast': None, 'label': 'lo'}" {
		t.Errorf("lo: %s", s)
	}
	checkCalls(t, c, []moduleCall{
		{"network.interface_ip", []any{"lo"}, nil, "'127.0.0.1'"},
		{"network.get_route", []any{"127.0.0.1"}, nil, "{'destination': '127.0.0.1', 'gateway': None, 'interface': 'lo', 'source': '127.0.0.1'}"},
		{"network.ip_networks", []any{"lo"}, []any{"include_loopback", true}, "['127.0.0.0/8']"},
	})
}

func TestSocketTable(t *testing.T) {
	if a := socketAddr("0100007F:0016"); a.Port() != 22 {
		t.Errorf("port: %s", a)
	}
	if got := hexIPv6("fe800000000000000000000000000001"); got != "fe80::1" {
		t.Errorf("got %s", got)
	}
}
