// Address targets (-S): one address or one network against the grains ipv4 and ipv6.
//
// The law of this file: addresses are written as Python's ipaddress module
// takes them; a network with bits set behind its mask is refused, because it is
// more often a mistake than a wish.
package main

import (
	"math/bits"
	"net/netip"
	"strconv"
	"strings"
)

func ipcidrMatcher(text string) (func(*Subject) Verdict, error) {
	addr, net, err := parseIPTarget(text)
	if err != nil {
		return nil, err
	}
	grain := "ipv4"
	if addr.Is6() || net.Addr().Is6() {
		grain = "ipv6"
	}
	return func(s *Subject) Verdict {
		if s.Grains == nil {
			return MatchUnknown
		}
		for _, v := range toItems(s.Grains.Value(grain)) {
			have, ok := v.(string)
			if !ok {
				continue
			}
			if addr.IsValid() && have == addr.String() {
				return MatchYes
			}
			if net.IsValid() {
				if a, err := netip.ParseAddr(have); err == nil && net.Contains(a.WithZone("")) {
					return MatchYes
				}
			}
		}
		return MatchNo
	}, nil
}

// parseIPTarget returns an address, or else a network.
func parseIPTarget(text string) (netip.Addr, netip.Prefix, error) {
	refuse := func(why string) (netip.Addr, netip.Prefix, error) {
		return netip.Addr{}, netip.Prefix{}, targetErrorf("ipcidr", "address target %q: %s", text, why)
	}
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr, netip.Prefix{}, nil
	}
	base, mask, ok := strings.Cut(text, "/")
	addr, err := netip.ParseAddr(base)
	if !ok || err != nil || addr.Zone() != "" {
		return refuse("not an address or network (10.0.0.1, 10.0.0.0/8, fd00::/16)")
	}
	n, ok := maskLength(mask, addr)
	if !ok {
		return refuse("the part behind the slash is no length and no mask")
	}
	net := netip.PrefixFrom(addr, n)
	if net.Masked().Addr() != addr {
		return refuse("has bits set behind its mask, the network is " + net.Masked().String())
	}
	return netip.Addr{}, net, nil
}

// maskLength reads 24, and for IPv4 also 255.255.255.0 and 0.0.0.255.
func maskLength(mask string, addr netip.Addr) (int, bool) {
	if mask != "" && strings.Trim(mask, "0123456789") == "" {
		n, err := strconv.Atoi(mask)
		return n, err == nil && n <= addr.BitLen()
	}
	m, err := netip.ParseAddr(mask)
	if err != nil || !m.Is4() || !addr.Is4() {
		return 0, false
	}
	b := m.As4()
	v := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	if ones := bits.LeadingZeros32(^v); v == ^uint32(0)<<(32-ones) {
		return ones, true
	}
	if zeros := bits.LeadingZeros32(v); v == uint32(uint64(1)<<(32-zeros)-1) {
		return zeros, true
	}
	return 0, false
}
