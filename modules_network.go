// Module network: interfaces, addresses, routes and connections.
//
// The law of this room: what the kernel tells is read from it (netlink, /proc),
// not from the text of tools; the keys and values are those that Salt makes of
// that text.
package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"
)

func networkModule() Module {
	return Module{
		Doc: "Interfaces, addresses, routes and connections of this box.",
		Funcs: Funcs{
			"active_tcp":      {run: networkActiveTCP, doc: "Return the established TCP connections."},
			"arp":             {run: networkArp, doc: "Return the ARP table: hardware addresses and their IP addresses."},
			"calc_net":        {run: networkCalcNet, doc: "Return the network of an address with a netmask or prefix."},
			"connect":         {run: networkConnect, doc: "Try to connect to a port: proto=tcp or udp, timeout in seconds, family=ipv4 or ipv6.\n\nCLI Example:\n\n    salt '*' network.connect example.org 443"},
			"convert_cidr":    {run: networkConvertCidr, doc: "Return network, netmask and broadcast address of a network in CIDR notation."},
			"default_route":   {run: networkDefaultRoute, doc: "Return the default routes."},
			"dig":             {run: networkDig, doc: "Ask name servers about a host with the program dig."},
			"fqdns":           {run: networkFqdns, doc: "Return the names that the addresses of this box have in DNS."},
			"get_bufsize":     {run: networkGetBufsize, doc: "Return the ring buffer sizes of an interface, by ethtool."},
			"get_fqdn":        {run: networkGetFqdn, doc: "Return the full name of this box."},
			"get_hostname":    {run: networkGetHostname, doc: "Return the host name."},
			"get_route":       {run: networkGetRoute, doc: "Return the route that packets to an address take."},
			"hw_addr":         {run: networkHwAddr, doc: "Return the hardware address of an interface."},
			"hwaddr":          {run: networkHwAddr, pyname: "hw_addr", doc: "Return the hardware address of an interface."},
			"ifacestartswith": {run: networkIfaceStartsWith, doc: "List the interfaces with an address that begins so."},
			"in_subnet":       {run: networkInSubnet, doc: "Say whether this box has an address in a network."},
			"interface":       {run: networkInterface, doc: "Return the IPv4 addresses of an interface with netmask and broadcast address."},
			"interface_ip":    {run: networkInterfaceIP, doc: "Return the first IPv4 address of an interface."},
			"interfaces":      {run: networkInterfaces, doc: "Return all interfaces with their addresses."},
			"ip_addrs":        {run: networkIPAddrs, doc: "List the IPv4 addresses; of some interfaces, in a network (cidr), public or private (type)."},
			"ip_addrs6":       {run: networkIPAddrs6, doc: "List the IPv6 addresses."},
			"ip_in_subnet":    {run: networkIPInSubnet, doc: "Say whether an address is in a network."},
			"ip_networks":     {run: networkIPNetworks, doc: "List the IPv4 networks that this box is in."},
			"ip_networks6":    {run: networkIPNetworks6, doc: "List the IPv6 networks that this box is in."},
			"ipaddrs":         {run: networkIPAddrs, pyname: "ip_addrs", doc: "The same as network.ip_addrs."},
			"ipaddrs6":        {run: networkIPAddrs6, pyname: "ip_addrs6", doc: "The same as network.ip_addrs6."},
			"iphexval":        {run: networkIphexval, doc: "Return an IPv4 address in hexadecimal."},
			"is_loopback":     {run: networkIsLoopback, doc: "Say whether an address is a loopback address."},
			"is_private":      {run: networkIsPrivate, doc: "Say whether an address is a private one."},
			"mod_bufsize":     {run: networkModBufsize, doc: "Set the ring buffer sizes of an interface, by ethtool: rx=, tx=."},
			"mod_hostname":    {run: networkModHostname, doc: "Set the host name, now and for the next start."},
			"netstat":         {run: networkNetstat, doc: "Return sockets with their owners and programs."},
			"ping":            {run: networkPing, doc: "Send four echo requests and return what came back; with return_boolean only whether it did."},
			"reverse_ip":      {run: networkReverseIP, doc: "Return the name that stands for an address in the reverse zone."},
			"routes":          {run: networkRoutes, doc: "Return the routes: all, or family=inet or inet6."},
			"subnets":         {run: networkSubnets, doc: "List the IPv4 networks that this box is in."},
			"subnets6":        {run: networkSubnets6, doc: "List the IPv6 networks that this box is in."},
			"traceroute":      {run: networkTraceroute, doc: "Return the way to a host, by traceroute."},
			"wol":             {run: networkWol, doc: "Wake a box by its hardware address."},
		},
	}
}

// linkMap describes an interface as Salt does.
func linkMap(l netLink) *Map {
	m := NewMap("up", l.up)
	if l.parent != "" {
		m.Set("parent", l.parent)
	}
	if l.hwaddr != "" {
		m.Set("hwaddr", l.hwaddr)
	}
	add := func(key string, v *Map) {
		if m.List(key) == nil {
			m.Set(key, &List{})
		}
		m.List(key).Append(v)
	}
	for _, a := range l.addrs {
		entry := &Map{}
		if a.secondary {
			entry.Set("type", "inet6")
			if a.addr.Is4() {
				entry.Set("type", "inet")
			}
		}
		entry.Set("address", a.addr.String())
		if a.addr.Is4() {
			entry.Set("netmask", net.IP(net.CIDRMask(a.bits, 32)).String())
			entry.Set("broadcast", orNone(a.broadcast))
			entry.Set("label", a.label)
		} else {
			entry.Set("prefixlen", strconv.Itoa(a.bits))
			entry.Set("scope", a.scope)
		}
		switch {
		case a.secondary:
			add("secondary", entry)
		case a.addr.Is4():
			add("inet", entry)
		default:
			add("inet6", entry)
		}
	}
	return m
}

func linksOrError() ([]netLink, error) {
	links, err := networkLinks()
	if err != nil {
		return nil, ExecErrorf("cannot read the network interfaces: %s", err)
	}
	return links, nil
}

func networkInterfaces(context.Context, *Call, noArgs) (any, error) {
	links, err := linksOrError()
	if err != nil {
		return nil, err
	}
	out := &Map{}
	for _, l := range links {
		out.Set(l.name, linkMap(l))
	}
	return out, nil
}

type ifaceArgs struct{ Iface string }

// linkNamed finds an interface; problem is what Salt answers for one that is
// not there.
func linkNamed(c *Call, name string) (m *Map, problem string, err error) {
	links, err := linksOrError()
	if err != nil {
		return nil, "", err
	}
	var names []string
	for _, l := range links {
		if l.name == name {
			return linkMap(l), "", nil
		}
		names = append(names, `"`+l.name+`"`)
	}
	problem = fmt.Sprintf("Interface \"%s\" not in available interfaces: %s", name, strings.Join(names, ", "))
	c.Log.Error(problem)
	return nil, problem, nil
}

func networkHwAddr(_ context.Context, c *Call, a ifaceArgs) (any, error) {
	m, problem, err := linkNamed(c, a.Iface)
	if m == nil {
		return problem, err
	}
	return m.Str("hwaddr"), nil
}

func networkInterface(_ context.Context, c *Call, a ifaceArgs) (any, error) {
	m, problem, err := linkNamed(c, a.Iface)
	if m == nil {
		return problem, err
	}
	if l := m.List("inet"); l != nil {
		return l, nil
	}
	return "", nil
}

func networkInterfaceIP(_ context.Context, c *Call, a ifaceArgs) (any, error) {
	m, problem, err := linkNamed(c, a.Iface)
	if m == nil {
		return problem, err
	}
	if l := m.List("inet"); l.Len() > 0 {
		return l.Items[0].(*Map).Str("address"), nil
	}
	return "", nil
}

// someLinks are the interfaces that globs match; nil matches all.
func someLinks(names any) ([]netLink, error) {
	links, err := linksOrError()
	if err != nil || names == nil {
		return links, err
	}
	var out []netLink
	for _, l := range links {
		for _, glob := range splitInput(names) {
			if GlobMatch(glob, l.name) {
				out = append(out, l)
				break
			}
		}
	}
	return out, nil
}

type ipAddrsArgs struct {
	Interface       any  `def:"None"`
	IncludeLoopback bool `def:"False"`
	Cidr            any  `def:"None"`
	Type            any  `def:"None"`
}

func networkIPAddrs(_ context.Context, c *Call, a ipAddrsArgs) (any, error) {
	return addressList(c, a, isIPv4)
}

type ipAddrs6Args struct {
	Interface       any  `def:"None"`
	IncludeLoopback bool `def:"False"`
	Cidr            any  `def:"None"`
}

func networkIPAddrs6(_ context.Context, c *Call, a ipAddrs6Args) (any, error) {
	return addressList(c, ipAddrsArgs{a.Interface, a.IncludeLoopback, a.Cidr, nil}, isIPv6)
}

func addressList(c *Call, a ipAddrsArgs, want func(netip.Addr) bool) (any, error) {
	links, err := someLinks(a.Interface)
	if err != nil {
		return nil, err
	}
	out := &List{}
	for _, text := range sortedAddresses(links, want, a.IncludeLoopback) {
		private := isPrivateAddr(netip.MustParseAddr(text))
		switch {
		case Truth(a.Cidr):
			if !inSubnet(c, Str(a.Cidr), []string{text}) {
				continue
			}
		case a.Type == "public" && private, a.Type == "private" && !private:
			continue
		}
		out.Append(text)
	}
	return out, nil
}

// parseNetwork is ipaddress.ip_network: a network without host bits, unless
// loose.
func parseNetwork(s string, loose bool) (netip.Prefix, error) {
	addr, mask, given := strings.Cut(s, "/")
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return netip.Prefix{}, OtherErrorf("ValueError", "%s does not appear to be an IPv4 or IPv6 network", Repr(s))
	}
	bits := a.BitLen()
	if given {
		n, ok := 0, false
		if v, err := strconv.Atoi(mask); err == nil && v >= 0 && v <= bits {
			n, ok = v, true
		} else if m, err := netip.ParseAddr(mask); err == nil && m.Is4() && a.Is4() {
			n, ok = maskLength(mask, a)
		}
		if !ok {
			return netip.Prefix{}, OtherErrorf("ValueError", "%s does not appear to be an IPv4 or IPv6 network", Repr(s))
		}
		bits = n
	}
	p := netip.PrefixFrom(a, bits)
	if !loose && p.Masked() != p {
		return netip.Prefix{}, OtherErrorf("ValueError", "%s has host bits set", s)
	}
	return p.Masked(), nil
}

// inSubnet says whether one of the addresses is in a network; nil are those of
// this box.
func inSubnet(c *Call, cidr string, addrs []string) bool {
	p, err := parseNetwork(cidr, false)
	if err != nil {
		c.Log.Error("Invalid CIDR '" + cidr + "'")
		return false
	}
	if addrs == nil {
		links, _ := networkLinks()
		addrs = append(sortedAddresses(links, isIPv4, false), sortedAddresses(links, isIPv6, false)...)
	}
	for _, text := range addrs {
		if a, err := netip.ParseAddr(text); err == nil && p.Contains(a) {
			return true
		}
	}
	return false
}

type cidrArgs struct{ Cidr string }

func networkInSubnet(_ context.Context, c *Call, a cidrArgs) (any, error) {
	return inSubnet(c, a.Cidr, nil), nil
}

type ipCidrArgs struct {
	IPAddr any
	Cidr   string
}

func networkIPInSubnet(_ context.Context, c *Call, a ipCidrArgs) (any, error) {
	var addrs []string
	for _, v := range toItems(a.IPAddr) {
		addrs = append(addrs, Str(v))
	}
	return inSubnet(c, a.Cidr, append(addrs, "")), nil
}

type calcNetArgs struct {
	IPAddr  string
	Netmask any `def:"None"`
}

func networkCalcNet(_ context.Context, _ *Call, a calcNetArgs) (any, error) {
	text := a.IPAddr
	if a.Netmask != nil {
		text += "/" + Str(a.Netmask)
	}
	p, err := parseNetwork(text, true)
	if err != nil {
		return nil, err
	}
	return p.String(), nil
}

func netmaskOf(p netip.Prefix) string {
	if p.Addr().Is4() {
		return net.IP(net.CIDRMask(p.Bits(), 32)).String()
	}
	a, _ := netip.AddrFromSlice(net.CIDRMask(p.Bits(), 128))
	return a.String()
}

func networkConvertCidr(_ context.Context, _ *Call, a cidrArgs) (any, error) {
	p, err := parseNetwork(a.Cidr, true)
	if err != nil {
		return nil, err
	}
	last := p.Addr().AsSlice()
	for i := p.Bits(); i < len(last)*8; i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	end, _ := netip.AddrFromSlice(last)
	return NewMap("network", p.Addr().String(), "netmask", netmaskOf(p), "broadcast", end.String()), nil
}

// networksOf lists the networks of interfaces, in order.
func networksOf(links []netLink, want func(netip.Addr) bool, loopback bool) []netip.Prefix {
	seen := map[netip.Prefix]bool{}
	var out []netip.Prefix
	for _, l := range links {
		for _, a := range l.addrs {
			p := netip.PrefixFrom(a.addr, a.bits).Masked()
			if want(a.addr) && !seen[p] && (loopback || !p.Addr().IsLoopback()) {
				seen[p] = true
				out = append(out, p)
			}
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if c := out[i].Addr().Compare(out[j].Addr()); c != 0 {
			return c < 0
		}
		return out[i].Bits() < out[j].Bits()
	})
	return out
}

type ipNetworksArgs struct {
	Interface       any  `def:"None"`
	IncludeLoopback bool `def:"False"`
	Verbose         bool `def:"False"`
}

func networkIPNetworks(_ context.Context, _ *Call, a ipNetworksArgs) (any, error) {
	return networkList(a, isIPv4)
}

func networkIPNetworks6(_ context.Context, _ *Call, a ipNetworksArgs) (any, error) {
	return networkList(a, isIPv6)
}

func networkList(a ipNetworksArgs, want func(netip.Addr) bool) (any, error) {
	links, err := someLinks(a.Interface)
	if err != nil {
		return nil, err
	}
	names, verbose := &List{}, &Map{}
	for _, p := range networksOf(links, want, a.IncludeLoopback) {
		names.Append(p.String())
		var count any = int64(1) << min(62, p.Addr().BitLen()-p.Bits())
		if n := p.Addr().BitLen() - p.Bits(); n > 62 {
			count = powerOfTwo(n)
		}
		verbose.Set(p.String(), NewMap("address", p.Addr().String(), "netmask", netmaskOf(p), "num_addresses", count, "prefixlen", int64(p.Bits())))
	}
	if a.Verbose {
		return verbose, nil
	}
	return names, nil
}

type subnetsArgs struct {
	Interfaces any `def:"None"`
}

func networkSubnets(_ context.Context, _ *Call, a subnetsArgs) (any, error) {
	return networkList(ipNetworksArgs{Interface: a.Interfaces}, isIPv4)
}

func networkSubnets6(context.Context, *Call, noArgs) (any, error) {
	return networkList(ipNetworksArgs{}, isIPv6)
}

func networkIfaceStartsWith(_ context.Context, _ *Call, a cidrArgs) (any, error) {
	links, err := linksOrError()
	if err != nil {
		return nil, err
	}
	out := &List{}
	for _, l := range links {
		for _, addr := range l.addrs {
			if addr.addr.Is4() && !addr.secondary && strings.HasPrefix(addr.addr.String(), a.Cidr) {
				out.Append(addr.label)
			}
		}
	}
	return out, nil
}

type ipAddrArgs struct{ IPAddr string }

func parseIP(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return a, OtherErrorf("ValueError", "%s does not appear to be an IPv4 or IPv6 address", Repr(s))
	}
	return a, nil
}

// isPrivateAddr is ipaddress.is_private: addresses that are not for the public
// network, documentation and loopback among them.
func isPrivateAddr(a netip.Addr) bool {
	for _, p := range []string{"0.0.0.0/8", "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/29", "192.0.0.170/31",
		"192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "::/127", "::ffff:0:0/96",
		"100::/64", "2001::/23", "2001:db8::/32", "fc00::/7", "fe80::/10"} {
		if netip.MustParsePrefix(p).Contains(a) {
			return true
		}
	}
	return false
}

func networkIsPrivate(_ context.Context, _ *Call, a ipAddrArgs) (any, error) {
	addr, err := parseIP(a.IPAddr)
	return isPrivateAddr(addr), err
}

func networkIsLoopback(_ context.Context, _ *Call, a ipAddrArgs) (any, error) {
	addr, err := parseIP(a.IPAddr)
	return addr.IsLoopback(), err
}

func networkReverseIP(_ context.Context, _ *Call, a ipAddrArgs) (any, error) {
	addr, err := parseIP(a.IPAddr)
	if err != nil {
		return nil, err
	}
	return reversePointer(addr), nil
}

func reversePointer(a netip.Addr) string {
	if a.Is4() {
		p := a.As4()
		return fmt.Sprintf("%d.%d.%d.%d.in-addr.arpa", p[3], p[2], p[1], p[0])
	}
	var b strings.Builder
	p := a.As16()
	for i := 15; i >= 0; i-- {
		fmt.Fprintf(&b, "%x.%x.", p[i]&15, p[i]>>4)
	}
	return b.String() + "ip6.arpa"
}

type ipArgs struct{ IP string }

func networkIphexval(_ context.Context, _ *Call, a ipArgs) (any, error) {
	out := ""
	for _, part := range strings.Split(a.IP, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, OtherErrorf("ValueError", "invalid literal for int() with base 10: %s", Repr(part))
		}
		out += fmt.Sprintf("%02X", n)
	}
	return out, nil
}

func networkGetHostname(context.Context, *Call, noArgs) (any, error) {
	return os.Hostname()
}

func networkGetFqdn(ctx context.Context, _ *Call, _ noArgs) (any, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, grainsLookupTime)
	defer stop()
	return fullName(host, idSources{lookup: func(name string) string {
		cname, err := (&net.Resolver{PreferGo: true}).LookupCNAME(ctx, name)
		if err != nil {
			return ""
		}
		return strings.TrimSuffix(cname, ".")
	}}.withDefaults()), nil
}

func networkFqdns(ctx context.Context, _ *Call, _ noArgs) (any, error) {
	links, err := linksOrError()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	return NewMap("fqdns", Strings(reverseNames(ctx, &net.Resolver{PreferGo: true}, links))), nil
}

type hostArgs struct{ Host string }

// cleanHost leaves out what cannot be in a host name, so that nothing becomes
// an option of a program.
func cleanHost(host string) string {
	return strings.TrimLeft(regexp.MustCompile(`[^0-9A-Za-z:._%-]`).ReplaceAllString(host, ""), "-")
}

func networkDig(ctx context.Context, c *Call, a hostArgs) (any, error) {
	if which("dig") == "" {
		return nil, NotFoundErrorf("The 'dig' binary was not found in $PATH.")
	}
	return c.Run(ctx, "cmd.run", "dig "+cleanHost(a.Host))
}

func networkTraceroute(ctx context.Context, c *Call, a hostArgs) (any, error) {
	if which("traceroute") == "" {
		return nil, NotFoundErrorf("The 'traceroute' binary was not found in $PATH.")
	}
	got, err := c.RunKw(ctx, "cmd.run", []any{"traceroute " + cleanHost(a.Host)}, NewMap("timeout", int64(120)))
	if err != nil {
		return nil, err
	}
	out := &List{}
	hop := regexp.MustCompile(`^\s*(\d+)\s+(?:(\S+) \((\S+)\)\s+(.*)|(\* \* \*))$`)
	ms := regexp.MustCompile(`(\d+\.\d+) ms`)
	for _, line := range strings.Split(Str(got), "\n") {
		m := hop.FindStringSubmatch(strings.TrimRight(line, " "))
		if m == nil {
			continue
		}
		count, _ := strconv.ParseInt(m[1], 10, 64)
		if m[5] != "" {
			out.Append(NewMap("count", count, "hostname", "*"))
			continue
		}
		entry := NewMap("count", count, "hostname", m[2], "ip", m[3])
		for i, t := range ms.FindAllStringSubmatch(m[4], 3) {
			f, _ := strconv.ParseFloat(t[1], 64)
			entry.Set(fmt.Sprintf("ms%d", i+1), f)
		}
		out.Append(entry)
	}
	return out, nil
}

type bufsizeArgs struct {
	Iface  string
	Args   []any `arg:"*args"`
	Kwargs *Map  `arg:"**kwargs"`
}

func networkGetBufsize(ctx context.Context, c *Call, a ifaceArgs) (any, error) {
	if !pathExists("/sbin/ethtool") {
		return &Map{}, nil
	}
	res, err := runTool(ctx, "/sbin/ethtool", "-g", a.Iface)
	if err != nil {
		return nil, err
	}
	ret := NewMap("result", false)
	suffix := "-max"
	for _, line := range strings.Split(res.stdout, "\n") {
		k, v, ok := strings.Cut(line, ":")
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		switch {
		case strings.HasSuffix(line, "settings:"):
			suffix = ""
		case ok && err == nil:
			ret.Set(strings.ReplaceAll(strings.ToLower(k), " ", "-")+suffix, n)
			ret.Set("result", true)
		}
	}
	if !Truth(ret.Value("result")) {
		ret.Set("comment", strings.TrimSpace(res.stdout+res.stderr))
	}
	return ret, nil
}

func networkModBufsize(ctx context.Context, _ *Call, a bufsizeArgs) (any, error) {
	if !pathExists("/sbin/ethtool") {
		return false, nil
	}
	ret := NewMap("result", false, "comment", "Requires rx=<val> tx==<val> rx-mini=<val> and/or rx-jumbo=<val>")
	words := []string{"/sbin/ethtool", "-G", a.Iface}
	for _, k := range []string{"rx", "tx", "rx-mini", "rx-jumbo"} {
		if v := a.Kwargs.Value(k); v != nil {
			words = append(words, k, Str(v))
		}
	}
	if len(words) == 3 {
		return ret, nil
	}
	res, err := runTool(ctx, words...)
	if err != nil {
		return nil, err
	}
	if text := strings.TrimSpace(res.stdout + res.stderr); text != "" {
		ret.Set("comment", text)
		return ret, nil
	}
	ret.Set("result", true)
	ret.Set("comment", strings.Join(words[3:], " "))
	return ret, nil
}

type hostnameArgs struct{ Hostname any }

func networkModHostname(ctx context.Context, c *Call, a hostnameArgs) (any, error) {
	if a.Hostname == nil {
		return false, nil
	}
	name := Str(a.Hostname)
	if name == "" || cleanHost(name) != name {
		return nil, InvocationErrorf("%s is no host name", Repr(name))
	}
	old, _ := os.Hostname()
	if tool := which("hostnamectl"); tool != "" && pathExists("/run/systemd/system") {
		res, err := runTool(ctx, tool, "set-hostname", name)
		if err != nil || res.retcode != 0 {
			return false, err
		}
	} else if err := setHostname(name); err != nil {
		return false, nil
	}
	if hosts, err := os.ReadFile("/etc/hosts"); err == nil {
		var lines []string
		for _, line := range strings.Split(strings.TrimRight(string(hosts), "\n"), "\n") {
			words := strings.Fields(line)
			for i, w := range words {
				if w == old {
					words[i] = name
					line = strings.Join(words, "\t")
					break
				}
			}
			lines = append(lines, line)
		}
		if err := replaceAtomically("/etc/hosts", []byte(strings.Join(lines, "\n")+"\n")); err != nil {
			return nil, ExecErrorf("cannot write /etc/hosts: %s", osErrorText(err))
		}
	}
	if err := setUciHostname(nil, name); err != nil {
		return nil, err
	}
	if isFile("/etc/hostname") || c.Grains.Str("os_family") == "Debian" {
		if err := replaceAtomically("/etc/hostname", []byte(name+"\n")); err != nil {
			return nil, ExecErrorf("cannot write /etc/hostname: %s", osErrorText(err))
		}
	}
	return true, nil
}

type wolArgs struct {
	Mac      string
	Bcast    string `def:"'255.255.255.255'"`
	Destport int    `def:"9"`
}

func networkWol(_ context.Context, _ *Call, a wolArgs) (any, error) {
	text := a.Mac
	if len(text) == 12 {
		text = fmt.Sprintf("%s:%s:%s:%s:%s:%s", text[:2], text[2:4], text[4:6], text[6:8], text[8:10], text[10:])
	}
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != 6 {
		return nil, OtherErrorf("ValueError", "Invalid MAC address")
	}
	packet := []byte{255, 255, 255, 255, 255, 255}
	for range 16 {
		packet = append(packet, mac...)
	}
	conn, err := net.ListenPacket("udp4", ":0")
	if err != nil {
		return nil, pyOSError(err)
	}
	defer conn.Close()
	to, err := net.ResolveUDPAddr("udp4", net.JoinHostPort(a.Bcast, strconv.Itoa(a.Destport)))
	if err == nil {
		_, err = conn.WriteTo(packet, to)
	}
	if err != nil {
		return nil, pyOSError(err)
	}
	return true, nil
}

type connectArgs struct {
	Host   any
	Port   any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}

func networkConnect(ctx context.Context, _ *Call, a connectArgs) (any, error) {
	answer := func(ok bool, format string, args ...any) (any, error) {
		return NewMap("result", ok, "comment", fmt.Sprintf(format, args...)), nil
	}
	if !Truth(a.Host) {
		return answer(false, "Required argument, host, is missing.")
	}
	if !Truth(a.Port) {
		return answer(false, "Required argument, port, is missing.")
	}
	host, port := Str(a.Host), Str(a.Port)
	proto := "tcp"
	if a.Kwargs.Str("proto") == "udp" {
		proto = "udp"
	}
	timeout := 5 * time.Second
	if f, ok := toFloat(a.Kwargs.Value("timeout")); ok && a.Kwargs.Value("timeout") != nil {
		timeout = time.Duration(f * float64(time.Second))
	}
	family := map[string]string{"ipv4": "ip4", "ipv6": "ip6"}[a.Kwargs.Str("family")]
	if family == "" {
		family = "ip"
	}
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	addrs, err := (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, family, cleanHost(host))
	if err != nil || len(addrs) == 0 {
		return answer(false, "Unable to resolve host %s on %s port %s", host, proto, port)
	}
	addr := addrs[0].Unmap().String()
	conn, err := (&net.Dialer{}).DialContext(ctx, proto, net.JoinHostPort(addr, port))
	if err == nil {
		if proto == "udp" {
			deadline, _ := ctx.Deadline()
			_ = conn.SetDeadline(deadline)
			if _, err = conn.Write([]byte(randomHex(16))); err == nil {
				_, err = conn.Read(make([]byte, 255))
			}
		}
		conn.Close()
	}
	if err != nil {
		return answer(false, "Unable to connect to %s (%s) on %s port %s", host, addr, proto, port)
	}
	return answer(true, "Successfully connected to %s (%s) on %s port %s", host, addr, proto, port)
}
