// Network interfaces and routes, read from the kernel by netlink: for grains
// and for the module network.
package main

import (
	"encoding/binary"
	"encoding/hex"
	"net"
	"net/netip"
	"sort"
	"strconv"
	"strings"
	"syscall"
)

// netAddr is one address of an interface.
type netAddr struct {
	addr      netip.Addr
	bits      int
	broadcast string // "" if there is none
	label     string
	scope     string
	secondary bool
}

// netLink is one interface.
type netLink struct {
	name   string
	parent string
	hwaddr string
	up     bool
	index  int
	mtu    int
	addrs  []netAddr
}

// networkLinks lists the interfaces with their addresses, in the kernel's order.
func networkLinks() ([]netLink, error) {
	tab, err := syscall.NetlinkRIB(syscall.RTM_GETLINK, syscall.AF_UNSPEC)
	if err != nil {
		return nil, err
	}
	msgs, err := syscall.ParseNetlinkMessage(tab)
	if err != nil {
		return nil, err
	}
	var links []netLink
	byIndex := map[int]int{}
	parents := map[int]int{}
	elsewhere := map[int]bool{}
	for i := range msgs {
		m := &msgs[i]
		if m.Header.Type != syscall.RTM_NEWLINK || len(m.Data) < syscall.SizeofIfInfomsg {
			continue
		}
		index := int(int32(binary.NativeEndian.Uint32(m.Data[4:8])))
		flags := binary.NativeEndian.Uint32(m.Data[8:12])
		l := netLink{index: index, up: flags&syscall.IFF_UP != 0}
		attrs, err := syscall.ParseNetlinkRouteAttr(m)
		if err != nil {
			continue
		}
		for _, a := range attrs {
			switch a.Attr.Type {
			case syscall.IFLA_IFNAME:
				l.name = cText(a.Value)
			case syscall.IFLA_ADDRESS:
				l.hwaddr = hardwareAddr(a.Value)
			case syscall.IFLA_MTU:
				l.mtu = int(binary.NativeEndian.Uint32(a.Value))
			case syscall.IFLA_LINK:
				parents[index] = int(binary.NativeEndian.Uint32(a.Value))
			case 37: // IFLA_LINK_NETNSID: the parent lives in another namespace
				elsewhere[index] = true
			}
		}
		byIndex[index] = len(links)
		links = append(links, l)
	}
	for index, parent := range parents {
		at, ok := byIndex[parent]
		switch {
		case parent == 0 || parent == index && !elsewhere[index]:
		case ok && !elsewhere[index]:
			links[byIndex[index]].parent = links[at].name
		default:
			links[byIndex[index]].parent = "if" + strconv.Itoa(parent)
		}
	}
	return links, addAddresses(links, byIndex)
}

func cText(p []byte) string { return strings.TrimRight(string(p), "\x00") }

// hardwareAddr writes an address as ip(8) does: tunnels have IP addresses.
func hardwareAddr(p []byte) string {
	switch len(p) {
	case 0:
		return ""
	case 4, 16:
		a, _ := netip.AddrFromSlice(p)
		return a.String()
	}
	return net.HardwareAddr(p).String()
}

func addAddresses(links []netLink, byIndex map[int]int) error {
	tab, err := syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_UNSPEC)
	if err != nil {
		return err
	}
	msgs, err := syscall.ParseNetlinkMessage(tab)
	if err != nil {
		return err
	}
	for i := range msgs {
		m := &msgs[i]
		if m.Header.Type != syscall.RTM_NEWADDR || len(m.Data) < syscall.SizeofIfAddrmsg {
			continue
		}
		at, ok := byIndex[int(binary.NativeEndian.Uint32(m.Data[4:8]))]
		if !ok {
			continue
		}
		a := netAddr{bits: int(m.Data[1]), secondary: m.Data[2]&syscall.IFA_F_SECONDARY != 0, scope: scopeName(m.Data[3])}
		attrs, err := syscall.ParseNetlinkRouteAttr(m)
		if err != nil {
			continue
		}
		for _, at := range attrs {
			switch at.Attr.Type {
			case syscall.IFA_LOCAL:
				a.addr, _ = netip.AddrFromSlice(at.Value)
			case syscall.IFA_ADDRESS:
				if !a.addr.IsValid() {
					a.addr, _ = netip.AddrFromSlice(at.Value)
				}
			case syscall.IFA_BROADCAST:
				if b, ok := netip.AddrFromSlice(at.Value); ok {
					a.broadcast = b.String()
				}
			case syscall.IFA_LABEL:
				a.label = cText(at.Value)
			}
		}
		// The temporary addresses of IPv6 have the flag too, and are shown as
		// what they are.
		if a.addr.IsValid() {
			links[at].addrs = append(links[at].addrs, a)
		}
	}
	return nil
}

func scopeName(scope byte) string {
	switch scope {
	case syscall.RT_SCOPE_UNIVERSE:
		return "global"
	case syscall.RT_SCOPE_SITE:
		return "site"
	case syscall.RT_SCOPE_LINK:
		return "link"
	case syscall.RT_SCOPE_HOST:
		return "host"
	}
	return strconv.Itoa(int(scope))
}

// addresses lists the addresses of a family, primary ones first, as text.
func (l netLink) addresses(want func(netip.Addr) bool) []string {
	var out []string
	for _, second := range []bool{false, true} {
		for _, a := range l.addrs {
			if a.secondary == second && want(a.addr) {
				out = append(out, a.addr.String())
			}
		}
	}
	return out
}

func isIPv4(a netip.Addr) bool { return a.Is4() }
func isIPv6(a netip.Addr) bool { return a.Is6() }

// sortedAddresses lists all addresses of a family in numeric order.
func sortedAddresses(links []netLink, want func(netip.Addr) bool, loopback bool) []string {
	seen := map[netip.Addr]bool{}
	var all []netip.Addr
	for _, l := range links {
		for _, a := range l.addrs {
			if want(a.addr) && !seen[a.addr] && (loopback || !a.addr.IsLoopback()) {
				seen[a.addr] = true
				all = append(all, a.addr)
			}
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Less(all[j]) })
	out := make([]string, len(all))
	for i, a := range all {
		out[i] = a.String()
	}
	return out
}

// defaultRoutes finds the default gateways in the kernel's tables below root:
// an address, true for a default route without a gateway, false for none.
func defaultRoutes(read func(path string) string) (ip4, ip6 any) {
	ip4, ip6 = false, false
	best := uint64(1 << 62)
	for _, line := range strings.Split(read("/proc/net/route"), "\n") {
		f := strings.Fields(line)
		if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" {
			continue
		}
		metric, _ := strconv.ParseUint(f[6], 10, 64)
		p, err := hex.DecodeString(f[2])
		if err != nil || len(p) != 4 || metric >= best {
			continue
		}
		best, ip4 = metric, true
		if gw := netip.AddrFrom4([4]byte{p[3], p[2], p[1], p[0]}); !gw.IsUnspecified() {
			ip4 = gw.String()
		}
	}
	best = 1 << 62
	for _, line := range strings.Split(read("/proc/net/ipv6_route"), "\n") {
		f := strings.Fields(line)
		if len(f) < 10 || f[1] != "00" || strings.Trim(f[0], "0") != "" || f[9] == "lo" {
			continue
		}
		metric, _ := strconv.ParseUint(f[5], 16, 64)
		p, err := hex.DecodeString(f[4])
		if err != nil || len(p) != 16 || metric >= best {
			continue
		}
		best, ip6 = metric, true
		if gw := netip.AddrFrom16([16]byte(p)); !gw.IsUnspecified() {
			ip6 = gw.String()
		}
	}
	return ip4, ip6
}
