// Tests of the modules status and disk.
package main

import (
	"strings"
	"testing"
)

func TestStatusReadsTheKernel(t *testing.T) {
	c := moduleTestCall(t)
	for fun, keys := range map[string]string{
		"status.loadavg":  "1-min 5-min 15-min",
		"status.uptime":   "seconds since_iso since_t days time users",
		"status.meminfo":  "MemTotal MemFree",
		"status.cpustats": "cpu ctxt btime processes",
		"status.netdev":   "lo",
	} {
		got, err := direct(t, c, fun, nil)
		m, _ := got.(*Map)
		if err != nil || m == nil {
			t.Errorf("%s: %v, %v", fun, got, err)
			continue
		}
		for _, k := range strings.Fields(keys) {
			if !m.Has(k) {
				t.Errorf("%s has no %s", fun, k)
			}
		}
	}
	checkCalls(t, c, []moduleCall{
		{"status.proxy_reconnect", []any{"x"}, nil, "False"},
		{"status.pid", []any{"no such process as this one"}, nil, "''"},
		{"status.diskusage", []any{"/nosuch"}, nil, "The minion function caused an exception: Traceback (most recent call last):\nFileNotFoundError: [Errno 2] No such file or directory: '/nosuch'\n"},
		{"disk.percent", []any{"/nosuch"}, nil, "{}"},
		{"disk.usage", []any{"q"}, nil, "ERROR: Invalid flag passed to disk.usage"},
		{"disk.tune", []any{"/dev/nosuch"}, []any{"x", int64(1)}, "ERROR executing 'disk.tune': Invalid keyword arguments: x=1"},
	})
	got, err := direct(t, c, "disk.usage", nil)
	if root := got.(*Map).Map("/"); err != nil || root != nil && !strings.HasSuffix(root.Str("capacity"), "%") {
		t.Errorf("usage: %s, %v", Repr(got), err)
	}
}

func TestNumberOrText(t *testing.T) {
	for in, want := range map[string]string{"12": "12", "18446744073709551615": "18446744073709551615", "1.5": "1.5", "x": "'x'", "": "''"} {
		if got := Repr(numberOrText(in)); got != want {
			t.Errorf("%q: %s", in, got)
		}
	}
}
