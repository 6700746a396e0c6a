// Grains: names and addresses of the box. Look-ups run side by side under one
// deadline; what is not answered by then is left out.
package main

import (
	"context"
	"net"
	"net/netip"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
)

// gatewayGrains are the default gateways.
func (b *grainBox) gatewayGrains(context.Context) *Map {
	ip4, ip6 := defaultRoutes(b.read)
	return NewMap("ip_gw", ip4 != false || ip6 != false, "ip4_gw", ip4, "ip6_gw", ip6)
}

// nameGrains are the host's names, its addresses and what they resolve to.
func (b *grainBox) nameGrains(ctx context.Context) *Map {
	var links []netLink
	host := b.opts.Str("id")
	if b.root == "" {
		links, _ = networkLinks()
		host, _ = os.Hostname()
	}
	ctx, stop := context.WithTimeout(ctx, grainsLookupTime)
	defer stop()

	m := &Map{}
	ip4, ip6 := sortedAddresses(links, isIPv4, true), sortedAddresses(links, isIPv6, true)
	resolver := &net.Resolver{PreferGo: true}
	var wg sync.WaitGroup
	var fqdns []string
	if b.root == "" && b.opts.Bool("enable_fqdns_grains") {
		wg.Go(func() { fqdns = reverseNames(ctx, resolver, links) })
	}
	fqdn := host
	if b.root == "" {
		fqdn = ownFullName(ctx, resolver, host)
	}
	if fqdn == "" {
		fqdn = "localhost.localdomain"
	}
	forward := func(network string, have []string) []string {
		out := []string{}
		if len(have) == 0 || b.root != "" {
			return out
		}
		found, _ := resolver.LookupNetIP(ctx, network, fqdn)
		for _, a := range found {
			if text := a.Unmap().String(); !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
		return out
	}
	var fqdn4, fqdn6 []string
	wg.Go(func() { fqdn4 = forward("ip4", ip4) })
	wg.Go(func() { fqdn6 = forward("ip6", ip6) })
	wg.Wait()

	short, domain, _ := strings.Cut(fqdn, ".")
	m.Set("fqdns", Strings(fqdns))
	m.Set("localhost", host)
	m.Set("fqdn", fqdn)
	m.Set("host", short)
	m.Set("domain", domain)
	hw, i4, i6, all := &Map{}, &Map{}, &Map{}, &Map{}
	for _, l := range links {
		if l.hwaddr != "" {
			hw.Set(l.name, l.hwaddr)
		}
		v4, v6 := l.addresses(isIPv4), l.addresses(isIPv6)
		i4.Set(l.name, Strings(v4))
		i6.Set(l.name, Strings(v6))
		all.Set(l.name, Strings(append(slices.Clone(v4), v6...)))
	}
	m.Set("hwaddr_interfaces", hw)
	m.Set("ip4_interfaces", i4)
	m.Set("ip6_interfaces", i6)
	m.Set("ipv4", Strings(ip4))
	m.Set("ipv6", Strings(ip6))
	m.Set("fqdn_ip4", Strings(fqdn4))
	m.Set("fqdn_ip6", Strings(fqdn6))
	m.Set("ip_interfaces", all)
	return m
}

// ownFullName is the canonical name of the box: the first one on its line of
// the hosts file, or else what name servers answer in time.
func ownFullName(ctx context.Context, r *net.Resolver, host string) string {
	src, _ := os.ReadFile("/etc/hosts")
	if name := canonicalHostsName(src, host); name != "" {
		return name
	}
	if cname, err := r.LookupCNAME(ctx, host); err == nil {
		return strings.TrimSuffix(cname, ".")
	}
	return host
}

// canonicalHostsName is the first name on the first line of a hosts file that
// has the name host, "" if there is none.
func canonicalHostsName(src []byte, host string) string {
	for _, f := range hostsLines(src) {
		if len(f) > 1 && slices.Contains(f[1:], host) {
			return f[1]
		}
	}
	return ""
}

// reverseNames are the names that the addresses of this box have in DNS.
func reverseNames(ctx context.Context, r *net.Resolver, links []netLink) []string {
	found := map[string]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, addr := range append(sortedAddresses(links, isIPv4, false), sortedAddresses(links, isIPv6, false)...) {
		wg.Go(func() {
			names, err := r.LookupAddr(ctx, addr)
			if err != nil || len(names) == 0 {
				return
			}
			name := names[0]
			for _, n := range names {
				if strings.Contains(strings.TrimSuffix(n, "."), ".") {
					name = n
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			found[strings.TrimSuffix(name, ".")] = true
		})
	}
	wg.Wait()
	out := make([]string, 0, len(found))
	for n := range found {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

// dnsGrains reads the resolver's configuration.
func (b *grainBox) dnsGrains(context.Context) *Map {
	path := "/run/systemd/resolve/resolv.conf"
	if !b.exists(path) {
		path = "/etc/resolv.conf"
	}
	if !b.exists(path) {
		return &Map{}
	}
	return NewMap("dns", parseResolvConf(b.read(path)))
}

// parseResolvConf reads resolv.conf.
func parseResolvConf(text string) *Map {
	all, ip4, ip6, search, sorts, options := &List{}, &List{}, &List{}, &List{}, &List{}, &List{}
	domain := ""
	add := func(l *List, s string) {
		for _, v := range l.Items {
			if v == s {
				return
			}
		}
		l.Append(s)
	}
	for _, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		for i, w := range f {
			if i > 0 && (w[0] == '#' || w[0] == ';') {
				f = f[:i]
				break
			}
		}
		if len(f) < 2 {
			continue
		}
		switch strings.ToLower(f[0]) {
		case "nameserver":
			a, err := netip.ParseAddr(f[1])
			if err != nil {
				continue
			}
			add(all, a.String())
			if a.Is4() {
				add(ip4, a.String())
			} else {
				add(ip6, a.String())
			}
		case "domain":
			domain = f[1]
		case "search":
			search = Strings(f[1:])
		case "sortlist":
			for _, raw := range f[1:] {
				if net := sortlistEntry(raw); net != "" {
					add(sorts, net)
				}
			}
		case "options":
			add(options, f[1])
		}
	}
	return NewMap("nameservers", all, "ip4_nameservers", ip4, "ip6_nameservers", ip6, "sortlist", sorts,
		"domain", domain, "search", search, "options", options)
}

// sortlistEntry writes an entry of sortlist as address/netmask; without a mask
// the one that its class had counts.
func sortlistEntry(raw string) string {
	addr, mask, given := strings.Cut(raw, "/")
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return ""
	}
	if a.Is6() {
		if !given {
			mask = "128"
		}
		return addr + "/" + mask
	}
	bits := 32
	first := a.As4()[0]
	switch {
	case given && strings.Contains(mask, "."):
		m, err := netip.ParseAddr(mask)
		if err != nil {
			return ""
		}
		b := m.As4()
		bits, _ = net.IPv4Mask(b[0], b[1], b[2], b[3]).Size()
	case given:
		bits = int(leadingInt(mask))
	case first < 128:
		bits = 8
	case first < 192:
		bits = 16
	case first < 224:
		bits = 24
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return ""
	}
	return p.Addr().String() + "/" + net.IP(net.CIDRMask(bits, 32)).String()
}
