// Module network: the kernel's tables of routes, neighbours and sockets, and
// echo requests.
package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func powerOfTwo(n int) any { return normalInt(new(big.Int).Lsh(big.NewInt(1), uint(n))) }

func setHostname(name string) error { return syscall.Sethostname([]byte(name)) }

type familyArgs struct {
	Family any `def:"None"`
}

func networkRoutes(_ context.Context, _ *Call, a familyArgs) (any, error) {
	return routesOf(a.Family)
}

// routesOf lists the routes as netstat -rn shows them.
func routesOf(family any) (*List, error) {
	if family != nil && family != "inet" && family != "inet6" {
		return nil, ExecErrorf("Invalid address family %s", Str(family))
	}
	out := &List{}
	add := func(family, destination, gateway, mask, flags, iface string) {
		out.Append(NewMap("addr_family", family, "destination", destination, "gateway", gateway, "netmask", mask, "flags", flags, "interface", iface))
	}
	if family != "inet6" {
		for _, line := range strings.Split(readText("/proc/net/route"), "\n") {
			f := strings.Fields(line)
			if len(f) < 8 || f[0] == "Iface" {
				continue
			}
			bits, _ := strconv.ParseUint(f[3], 16, 32)
			flags := "U"
			for _, fl := range []struct {
				bit  uint64
				text string
			}{{2, "G"}, {4, "H"}, {8, "R"}, {16, "D"}, {32, "M"}, {0x200, "!"}} {
				if bits&fl.bit != 0 {
					flags += fl.text
				}
			}
			add("inet", hexIPv4(f[1]), hexIPv4(f[2]), hexIPv4(f[7]), flags, f[0])
		}
	}
	if family != "inet" {
		for _, line := range strings.Split(readText("/proc/net/ipv6_route"), "\n") {
			f := strings.Fields(line)
			if len(f) < 10 {
				continue
			}
			length, _ := strconv.ParseInt(f[1], 16, 32)
			bits, _ := strconv.ParseUint(f[8], 16, 64)
			flags := "U"
			if bits&0x200 != 0 {
				flags = "!"
			}
			for _, fl := range []struct {
				bit  uint64
				text string
			}{{2, "G"}, {4, "H"}, {0x10000, "D"}, {0x40000, "A"}, {0x1000000, "C"}, {0x20000, "a"}, {0x400000, "e"}, {0x20, "m"}, {0x200000, "n"}, {0x2000000, "f"}} {
				if bits&fl.bit != 0 {
					flags += fl.text
				}
			}
			add("inet6", fmt.Sprintf("%s/%d", hexIPv6(f[0]), length), hexIPv6(f[4]), "", flags, f[9])
		}
	}
	return out, nil
}

// hexIPv4 reads an address as /proc/net/route has it, in the order of the box.
func hexIPv4(s string) string {
	n, err := strconv.ParseUint(s, 16, 32)
	if err != nil {
		return s
	}
	var p [4]byte
	binary.NativeEndian.PutUint32(p[:], uint32(n))
	return netip.AddrFrom4(p).String()
}

// hexIPv6 reads an address as /proc/net/ipv6_route has it.
func hexIPv6(s string) string {
	p, err := hex.DecodeString(s)
	if err != nil || len(p) != 16 {
		return s
	}
	return netip.AddrFrom16([16]byte(p)).String()
}

func networkDefaultRoute(_ context.Context, _ *Call, a familyArgs) (any, error) {
	routes, err := routesOf(a.Family)
	if err != nil {
		return nil, err
	}
	out := &List{}
	for _, r := range routes.Items {
		if d := r.(*Map).Str("destination"); d == "0.0.0.0" || d == "::/0" || d == "default" {
			out.Append(r)
		}
	}
	return out, nil
}

// networkGetRoute asks the kernel for the route to an address.
func networkGetRoute(_ context.Context, _ *Call, a ipArgs) (any, error) {
	addr, err := parseIP(a.IP)
	if err != nil {
		return nil, err
	}
	r, err := lookupRoute(addr)
	if err != nil {
		return nil, ExecErrorf("there is no route to %s: %s", addr, err)
	}
	return NewMap("destination", a.IP, "gateway", orNone(r.gateway), "interface", r.iface, "source", r.source), nil
}

// kernelRoute is an answer of the kernel's routing.
type kernelRoute struct{ gateway, iface, source string }

func lookupRoute(addr netip.Addr) (kernelRoute, error) {
	var none kernelRoute
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return none, err
	}
	defer syscall.Close(fd)
	dst := addr.AsSlice()
	family := byte(syscall.AF_INET)
	if addr.Is6() {
		family = syscall.AF_INET6
	}
	size := syscall.SizeofNlMsghdr + syscall.SizeofRtMsg + 4 + len(dst)
	p := make([]byte, size)
	binary.NativeEndian.PutUint32(p[0:], uint32(size))
	binary.NativeEndian.PutUint16(p[4:], syscall.RTM_GETROUTE)
	binary.NativeEndian.PutUint16(p[6:], syscall.NLM_F_REQUEST)
	binary.NativeEndian.PutUint32(p[8:], 1)
	p[16], p[17] = family, byte(len(dst)*8)
	at := syscall.SizeofNlMsghdr + syscall.SizeofRtMsg
	binary.NativeEndian.PutUint16(p[at:], uint16(4+len(dst)))
	binary.NativeEndian.PutUint16(p[at+2:], syscall.RTA_DST)
	copy(p[at+4:], dst)
	if err := syscall.Sendto(fd, p, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return none, err
	}
	buf := make([]byte, 8192)
	n, _, err := syscall.Recvfrom(fd, buf, 0)
	if err != nil {
		return none, err
	}
	msgs, err := syscall.ParseNetlinkMessage(buf[:n])
	if err != nil {
		return none, err
	}
	for i := range msgs {
		m := &msgs[i]
		if m.Header.Type == syscall.NLMSG_ERROR && len(m.Data) >= 4 {
			if code := int32(binary.NativeEndian.Uint32(m.Data)); code != 0 {
				return none, syscall.Errno(-code)
			}
		}
		if m.Header.Type != syscall.RTM_NEWROUTE {
			continue
		}
		attrs, err := syscall.ParseNetlinkRouteAttr(m)
		if err != nil {
			return none, err
		}
		var r kernelRoute
		for _, attr := range attrs {
			switch attr.Attr.Type {
			case syscall.RTA_GATEWAY:
				a, _ := netip.AddrFromSlice(attr.Value)
				r.gateway = a.String()
			case syscall.RTA_PREFSRC:
				a, _ := netip.AddrFromSlice(attr.Value)
				r.source = a.String()
			case syscall.RTA_OIF:
				if ifc, err := net.InterfaceByIndex(int(binary.NativeEndian.Uint32(attr.Value))); err == nil {
					r.iface = ifc.Name
				}
			}
		}
		return r, nil
	}
	return none, syscall.ENETUNREACH
}

func networkArp(context.Context, *Call, noArgs) (any, error) {
	out := &Map{}
	for i, line := range strings.Split(readText("/proc/net/arp"), "\n") {
		f := strings.Fields(line)
		if i > 0 && len(f) >= 6 && f[3] != "00:00:00:00:00:00" {
			out.Set(f[3], f[0])
		}
	}
	return out, nil
}

// kernelSocket is one line of /proc/net/tcp and its like.
type kernelSocket struct {
	proto         string
	local, remote netip.AddrPort
	state         int
	recvq, sendq  uint64
	uid, inode    string
}

// kernelSockets reads the table of a protocol: tcp, tcp6, udp, udp6.
func kernelSockets(proto string) []kernelSocket {
	var out []kernelSocket
	for i, line := range strings.Split(readText("/proc/net/"+proto), "\n") {
		f := strings.Fields(line)
		if i == 0 || len(f) < 10 {
			continue
		}
		s := kernelSocket{proto: proto, local: socketAddr(f[1]), remote: socketAddr(f[2]), uid: f[7], inode: f[9]}
		state, _ := strconv.ParseUint(f[3], 16, 16)
		s.state = int(state)
		if tx, rx, ok := strings.Cut(f[4], ":"); ok {
			s.sendq, _ = strconv.ParseUint(tx, 16, 64)
			s.recvq, _ = strconv.ParseUint(rx, 16, 64)
		}
		out = append(out, s)
	}
	return out
}

// socketAddr reads an address and port in hexadecimal, words of 32 bits in the
// order of the box.
func socketAddr(s string) netip.AddrPort {
	addr, port, _ := strings.Cut(s, ":")
	n, _ := strconv.ParseUint(port, 16, 16)
	p := make([]byte, len(addr)/2)
	for i := 0; i+8 <= len(addr); i += 8 {
		word, _ := strconv.ParseUint(addr[i:i+8], 16, 32)
		binary.NativeEndian.PutUint32(p[i/2:], uint32(word))
	}
	a, _ := netip.AddrFromSlice(p)
	return netip.AddrPortFrom(a, uint16(n))
}

// socketStates are the names of TCP's states by their numbers.
func socketStates() []string {
	return []string{"", "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE", "CLOSE_WAIT", "LAST_ACK", "LISTEN", "CLOSING"}
}

func networkActiveTCP(context.Context, *Call, noArgs) (any, error) {
	out := &Map{}
	for _, proto := range []string{"tcp", "tcp6"} {
		for _, s := range kernelSockets(proto) {
			if s.state != 1 {
				continue
			}
			out.Set(int64(out.Len()), NewMap("local_addr", s.local.Addr().Unmap().String(), "local_port", int64(s.local.Port()),
				"remote_addr", s.remote.Addr().Unmap().String(), "remote_port", int64(s.remote.Port())))
		}
	}
	return out, nil
}

func networkNetstat(context.Context, *Call, noArgs) (any, error) {
	owners := socketOwners()
	out := &List{}
	show := func(a netip.AddrPort) string {
		port := "*"
		if a.Port() != 0 {
			port = strconv.Itoa(int(a.Port()))
		}
		return a.Addr().Unmap().String() + ":" + port
	}
	states := socketStates()
	for _, proto := range []string{"tcp", "tcp6", "udp", "udp6"} {
		for _, s := range kernelSockets(proto) {
			m := NewMap("proto", proto, "recv-q", strconv.FormatUint(s.recvq, 10), "send-q", strconv.FormatUint(s.sendq, 10),
				"local-address", show(s.local), "remote-address", show(s.remote))
			if strings.HasPrefix(proto, "tcp") {
				state := ""
				if s.state < len(states) {
					state = states[s.state]
				}
				m.Set("state", state)
			}
			m.Set("user", s.uid)
			m.Set("inode", s.inode)
			program := "-"
			if p, ok := owners[s.inode]; ok {
				program = p
			}
			m.Set("program", program)
			out.Append(m)
		}
	}
	return out, nil
}

// socketOwners maps the inodes of sockets to pid/program.
func socketOwners() map[string]string {
	out := map[string]string{}
	for _, pid := range processIDs() {
		dir := "/proc/" + strconv.Itoa(pid)
		entries, err := os.ReadDir(dir + "/fd")
		if err != nil {
			continue
		}
		name := ""
		for _, e := range entries {
			link, err := os.Readlink(dir + "/fd/" + e.Name())
			if err != nil || !strings.HasPrefix(link, "socket:[") {
				continue
			}
			if name == "" {
				argv0, _, _ := strings.Cut(readText(dir+"/cmdline"), "\x00")
				name = strconv.Itoa(pid) + "/" + strings.TrimRight(filepath.Base(argv0), ":")
			}
			out[strings.TrimSuffix(link[len("socket:["):], "]")] = name
		}
	}
	return out
}

type pingArgs struct {
	Host          string
	Timeout       any  `def:"False"`
	ReturnBoolean bool `def:"False"`
}

func networkPing(ctx context.Context, c *Call, a pingArgs) (any, error) {
	host := cleanHost(a.Host)
	if which("ping") == "" {
		return nativePing(ctx, c, host, a)
	}
	line := "ping -c 4 " + host
	if Truth(a.Timeout) {
		line = "ping -W " + quoteShell(Str(a.Timeout)) + " -c 4 " + host
	}
	if !a.ReturnBoolean {
		return c.Run(ctx, "cmd.run", line)
	}
	got, err := c.Run(ctx, "cmd.run_all", line)
	if err != nil {
		return nil, err
	}
	return Equal(got.(*Map).Value("retcode"), int64(0)), nil
}

// nativePing sends echo requests itself, on a box without ping.
func nativePing(ctx context.Context, c *Call, host string, a pingArgs) (any, error) {
	wait := time.Second
	if f, ok := toFloat(a.Timeout); ok && Truth(a.Timeout) {
		wait = time.Duration(f * float64(time.Second))
	}
	lookup, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	addrs, err := (&net.Resolver{PreferGo: true}).LookupNetIP(lookup, "ip", host)
	if err != nil || len(addrs) == 0 {
		if a.ReturnBoolean {
			return false, nil
		}
		c.SetRetcode(2)
		return "ping: " + host + ": Name or service not known", nil
	}
	addr := addrs[0].Unmap()
	var b strings.Builder
	fmt.Fprintf(&b, "PING %s (%s) 56(84) bytes of data.\n", host, addr)
	got := 0
	for seq := 1; seq <= 4; seq++ {
		took, err := echoOnce(ctx, addr, seq, wait)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil {
			got++
			fmt.Fprintf(&b, "64 bytes from %s: icmp_seq=%d time=%.3g ms\n", addr, seq, float64(took.Microseconds())/1000)
		}
		if seq < 4 && !a.ReturnBoolean {
			if err := pause(ctx, time.Second); err != nil {
				return nil, err
			}
		}
	}
	if a.ReturnBoolean {
		return got > 0, nil
	}
	if got == 0 {
		c.SetRetcode(1)
	}
	fmt.Fprintf(&b, "\n--- %s ping statistics ---\n4 packets transmitted, %d received, %d%% packet loss", host, got, (4-got)*25)
	return b.String(), nil
}

// echoOnce sends one echo request and waits for its answer.
func echoOnce(ctx context.Context, addr netip.Addr, seq int, wait time.Duration) (time.Duration, error) {
	network, request, reply := "ip4:icmp", byte(8), byte(0)
	if addr.Is6() {
		network, request, reply = "ip6:ipv6-icmp", 128, 129
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr.String())
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	id := uint16(randomBelow(1 << 16))
	p := make([]byte, 64)
	p[0] = request
	binary.BigEndian.PutUint16(p[4:], id)
	binary.BigEndian.PutUint16(p[6:], uint16(seq))
	sum := uint32(0)
	for i := 0; i < len(p); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(p[2:], ^uint16(sum)) // the kernel does it for IPv6
	start := time.Now()
	_ = conn.SetDeadline(start.Add(wait))
	if _, err := conn.Write(p); err != nil {
		return 0, err
	}
	buf := make([]byte, 512)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return 0, err
		}
		answer := buf[:n]
		if n >= 20 && answer[0]>>4 == 4 { // raw IPv4 sockets hand over the header, too
			answer = answer[min(n, int(answer[0]&15)*4):]
		}
		if len(answer) >= 8 && answer[0] == reply && binary.BigEndian.Uint16(answer[4:]) == id && binary.BigEndian.Uint16(answer[6:]) == uint16(seq) {
			return time.Since(start), nil
		}
	}
}
