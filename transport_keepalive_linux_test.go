// TCP keepalive as the options say, on both sides, looked up at the kernel.
package main

import (
	"net"
	"syscall"
	"testing"
	"time"
)

func TestTransportKeepAlive(t *testing.T) {
	ctx := transportTest(t)
	option := func(c net.Conn, level, name int) (value int) {
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		raw.Control(func(fd uintptr) { value, err = syscall.GetsockoptInt(int(fd), level, name) })
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	for _, c := range []struct {
		name     string
		config   net.KeepAliveConfig
		on, idle int
	}{
		{"default", net.KeepAliveConfig{}, 1, 300},
		{"set", net.KeepAliveConfig{Enable: true, Idle: 77 * time.Second, Interval: -1, Count: -1}, 1, 77},
		{"off", net.KeepAliveConfig{Enable: false, Idle: -1}, 0, 0},
	} {
		o := TransportOptions{KeepAlive: c.config}
		s := listenRequests(t, ctx, o, echoHandler)
		r := dialRequester(t, ctx, s.Addr(), o)
		awaitFact(t, "connected", func() bool { return s.Stats().Connected == 1 })
		for side, conn := range map[string]net.Conn{"server": s.guard.snapshot()[0].conn, "client": r.link.conn} {
			if on := option(conn, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE); on != c.on {
				t.Errorf("%s, %s: keepalive is %d, want %d", c.name, side, on, c.on)
			}
			if idle := option(conn, syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE); c.on == 1 && idle != c.idle {
				t.Errorf("%s, %s: idle is %d s, want %d", c.name, side, idle, c.idle)
			}
		}
	}
}
