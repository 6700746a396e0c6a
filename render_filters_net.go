// Salt's filters that look at this box: files, programs, addresses, networks.
package main

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// fileError words an error of a file as Python does.
func fileError(err error, name string) error {
	class, text := "OSError", "[Errno 5] Input/output error"
	switch {
	case os.IsNotExist(err):
		class, text = "FileNotFoundError", "[Errno 2] No such file or directory"
	case os.IsPermission(err):
		class, text = "PermissionError", "[Errno 13] Permission denied"
	}
	return &JinjaError{Class: class, Message: text + ": " + Repr(name), Cause: err}
}

// saltUUID is Salt's uuid filter: a name-based UUID in Salt's own namespace.
func saltUUID(name string) string {
	namespace, _ := hex.DecodeString("91633ebf1c865e33935a28061f4b480e")
	sum := sha1.Sum(append(namespace, name...))
	u := sum[:16]
	u[6] = u[6]&0x0f | 0x50
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

func fileFilters() map[string]*JinjaFilter {
	return map[string]*JinjaFilter{
		"which": jinjaEntry('p', 0, "which", "", func(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			name, _ := textOf(v)
			if name == "" {
				return nil, nil
			}
			if p := whichProgram(name); p != "" {
				return p, nil
			}
			return nil, nil
		}),
		"path_join": jinjaEntry('p', 0, "join", "*args, **kwargs", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			parts := make([]string, 0, len(a)+1)
			for _, part := range append([]any{v}, a...) {
				p, err := toBytes(part)
				if err != nil {
					return nil, jinjaTypeError("expected str, bytes, or bytearray not <class '%s'>", TypeName(part))
				}
				parts = append(parts, pythonNormpath(string(p)))
			}
			for i := range parts[1:] {
				parts[i+1] = strings.TrimLeft(parts[i+1], "/")
			}
			out := parts[0]
			for _, p := range parts[1:] {
				if out != "" && !strings.HasSuffix(out, "/") {
					out += "/"
				}
				out += p
			}
			return pythonNormpath(out), nil
		}),
		"is_empty": jinjaFilter("is_empty", "", func(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			st, err := os.Stat(Str(v))
			return err == nil && st.Size() == 0, nil
		}),
		"is_text_file": jinjaFilter("is_text", "blocksize=512", func(_ *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			n, err := intArg(a[0])
			if err != nil {
				return nil, err
			}
			block, err := readHead(Str(v), int(max(0, min(n, 1<<20))))
			if err != nil {
				return false, nil
			}
			return isTextBlock(block, "\n\r\t\f\b"), nil
		}),
		"is_bin_file": jinjaFilter("is_binary", "", func(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			st, err := os.Stat(Str(v))
			if err != nil || !st.Mode().IsRegular() {
				return false, nil
			}
			block, err := readHead(Str(v), 2048)
			if err != nil {
				return false, nil
			}
			if !utf8.Valid(block) {
				return true, nil
			}
			return len(block) > 0 && (strings.IndexByte(string(block), 0) >= 0 || textShare(string(block), "\n\r\t\b") > 0.30), nil
		}),
		"list_files": jinjaFilter("list_files", "", func(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			root := Str(v)
			out := NewList(root)
			err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
				if err != nil || p == root {
					return nil
				}
				out.Append(p)
				return r.step()
			})
			return out, err
		}),
		"get_uid": jinjaEntry('p', 0, "get_uid", "", func(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			if v == nil {
				return int64(os.Geteuid()), nil
			}
			if uid, ok := lookupUID(Str(v)); ok {
				return uid, nil
			}
			return nil, nil
		}),
		"http_query": jinjaEntry('p', 0, "query", "*args, **kwargs", func(r *JinjaRun, v any, a []any, kw JinjaKwargs) (any, error) {
			return callSalt(r, r.Data.(*renderRun).req, "http.query", append([]any{v}, a...), kw)
		}),
	}
}

// lookupUID finds a user's number in /etc/passwd.
func lookupUID(name string) (int64, bool) {
	content, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return 0, false
	}
	for _, line := range strings.Split(string(content), "\n") {
		f := strings.Split(line, ":")
		if len(f) > 2 && f[0] == name {
			uid, err := strconv.ParseInt(f[2], 10, 64)
			return uid, err == nil
		}
	}
	return 0, false
}

func readHead(name string, n int) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	block := make([]byte, n)
	got, err := io.ReadFull(f, block)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return block[:got], err
}

// isTextBlock guesses from the start of a file whether it is a text.
func isTextBlock(block []byte, controls string) bool {
	s := string(block)
	switch {
	case strings.IndexByte(s, 0) >= 0:
		return false
	case s == "" || utf8.ValidString(s):
		return true
	}
	return textShare(s, controls) <= 0.30
}

// textShare is the share of characters that are no usual text.
func textShare(s, controls string) float64 {
	odd, n := 0, 0
	if utf8.ValidString(s) {
		for _, r := range s {
			n++
			if (r < 32 || r >= 127) && !strings.ContainsRune(controls, r) {
				odd++
			}
		}
	} else {
		for i := 0; i < len(s); i++ {
			n++
			if (s[i] < 32 || s[i] >= 127) && strings.IndexByte(controls, s[i]) < 0 {
				odd++
			}
		}
	}
	return float64(odd) / float64(max(n, 1))
}

// whichProgram looks for an executable, by its path or in PATH.
func whichProgram(name string) string {
	runnable := func(p string) bool {
		st, err := os.Stat(p)
		return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
	}
	if runnable(name) {
		return name
	}
	for _, dir := range strings.Split(os.Getenv("PATH"), ":") {
		p := pythonNormpath(dir + "/" + strings.TrimLeft(name, "/"))
		if runnable(p) {
			return p
		}
	}
	return ""
}

// pythonNormpath is os.path.normpath.
func pythonNormpath(p string) string {
	if p == "" {
		return "."
	}
	out := filepath.Clean(p)
	if strings.HasPrefix(p, "//") && !strings.HasPrefix(p, "///") {
		return "/" + out
	}
	return out
}

// --- addresses

// pyIP is what Python's ip_address or ip_interface makes of a text.
type pyIP struct {
	addr netip.Addr
	bits int // -1: an address without a prefix
}

func parsePyIP(s string) (pyIP, bool) {
	if a, err := netip.ParseAddr(s); err == nil {
		return pyIP{a, -1}, true
	}
	host, mask, ok := strings.Cut(s, "/")
	if !ok {
		return pyIP{}, false
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return pyIP{}, false
	}
	if isDigits(mask) {
		n, err := strconv.Atoi(mask)
		if err == nil && n <= a.BitLen() {
			return pyIP{a, n}, true
		}
		return pyIP{}, false
	}
	m, err := netip.ParseAddr(mask)
	if err != nil || !m.Is4() || !a.Is4() {
		return pyIP{}, false
	}
	b := m.As4()
	v := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	for _, x := range []uint32{v, ^v} { // a netmask, or a hostmask
		n := 0
		for n < 32 && x&(1<<(31-n)) != 0 {
			n++
		}
		if n == 32 || x<<n == 0 {
			return pyIP{a, n}, true
		}
	}
	return pyIP{}, false
}

func (p pyIP) version() int {
	if p.addr.Is4() {
		return 4
	}
	return 6
}

func (p pyIP) String() string {
	s := p.addr.String()
	if p.addr.Is4In6() { // Python writes it in hexadecimal
		b := p.addr.As16()
		s = fmt.Sprintf("::ffff:%x:%x", int(b[12])<<8|int(b[13]), int(b[14])<<8|int(b[15]))
	}
	if p.bits >= 0 {
		s += "/" + strconv.Itoa(p.bits)
	}
	return s
}

func inAny(a netip.Addr, nets ...string) bool {
	a = a.WithZone("")
	for _, n := range nets {
		if netip.MustParsePrefix(n).Contains(a) {
			return true
		}
	}
	return false
}

// has answers one of Salt's options for addresses; known is false for a word
// that is none.
func (p pyIP) has(option string) (yes, known bool) {
	a := p.addr
	private := func() bool {
		if a.Is4() {
			return inAny(a, "0.0.0.0/8", "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/29",
				"192.0.0.170/31", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
				"240.0.0.0/4", "255.255.255.255/32")
		}
		return inAny(a, "::1/128", "::/128", "::ffff:0:0/96", "100::/64", "2001::/23", "2001:2::/48", "2001:db8::/32",
			"2001:10::/28", "fc00::/7", "fe80::/10")
	}
	switch option {
	case "global", "public":
		return !private(), true
	case "private":
		return private(), true
	case "link-local", "linklocal", "ll", "link_local":
		return inAny(a, "169.254.0.0/16", "fe80::/10"), true
	case "loopback", "lo":
		return inAny(a, "127.0.0.0/8", "::1/128"), true
	case "multicast":
		return inAny(a, "224.0.0.0/4", "ff00::/8"), true
	case "reserved":
		return inAny(a, "240.0.0.0/4", "::/8", "100::/8", "200::/7", "400::/6", "800::/5", "1000::/4", "4000::/3",
			"6000::/3", "8000::/3", "a000::/3", "c000::/3", "e000::/4", "f000::/5", "f800::/6", "fe00::/9"), true
	case "site-local", "sl", "site_local":
		return !a.Is4() && inAny(a, "fec0::/10"), true
	case "unspecified":
		return a.IsUnspecified(), true
	}
	return false, false
}

// ipOf is Salt's check of one address: its text, or nil.
func ipOf(v any, version int, options any) (any, error) {
	s, ok := textOf(v)
	if !ok {
		if p, isBytes := v.([]byte); isBytes && (len(p) == 4 || len(p) == 16) {
			a, _ := netip.AddrFromSlice(p)
			s = a.String()
		} else if i, isInt := v.(int64); isInt && i >= 0 && i < 1<<32 {
			s = netip.AddrFrom4([4]byte{byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)}).String()
		} else {
			return nil, nil
		}
	}
	ip, ok := parsePyIP(s)
	if !ok || ip.version() != version {
		return nil, nil
	}
	if Truth(options) {
		o, err := strArg(options, "options must be text, not ")
		if err != nil {
			return nil, err
		}
		for _, option := range strings.Split(o, ",") {
			if yes, known := ip.has(strings.TrimFunc(option, isPythonSpace)); known && !yes {
				return nil, nil
			}
		}
	}
	return ip.String(), nil
}

// ipFilter is ipv4 and ipv6: one address, or those of a list.
func ipFilter(r *JinjaRun, v any, version int, options any) (any, error) {
	switch v.(type) {
	case string, Markup, []byte:
		return ipOf(v, version, options)
	case *List, Tuple, *JinjaIterator:
		items, err := r.items(v)
		if err != nil {
			return nil, err
		}
		out := &List{}
		for _, item := range items {
			ip, err := ipOf(item, version, options)
			if err != nil {
				return nil, err
			}
			if ip != nil {
				out.Append(ip)
			}
		}
		return out, nil
	case *JinjaUndefined:
		return nil, nil
	}
	return nil, nil
}

func ipAddrFilter(r *JinjaRun, v any, options any) (any, error) {
	if it, ok := v.(*JinjaIterator); ok {
		items, err := it.rest()
		if err != nil {
			return nil, err
		}
		v = &List{Items: items}
	}
	four, err := ipFilter(r, v, 4, options)
	if err != nil {
		return nil, err
	}
	six, err := ipFilter(r, v, 6, options)
	if err != nil {
		return nil, err
	}
	a, ok1 := four.(*List)
	b, ok2 := six.(*List)
	if ok1 && ok2 {
		return &List{Items: append(append([]any{}, a.Items...), b.Items...)}, nil
	}
	if Truth(four) {
		return four, nil
	}
	return six, nil
}

// eachAddress applies f to the addresses in v.
func eachAddress(f func(pyIP) (any, error)) jinjaImpl {
	return func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
		var found any
		var err error
		switch version, _ := intArg(a[1]); version {
		case 4, 6:
			found, err = ipFilter(r, v, int(version), a[0])
		default:
			found, err = ipAddrFilter(r, v, a[0])
		}
		if err != nil || !Truth(found) {
			return nil, err
		}
		one := func(text any) (any, error) {
			ip, _ := parsePyIP(Str(text))
			return f(ip)
		}
		l, many := found.(*List)
		if !many {
			return one(found)
		}
		out := &List{}
		for _, item := range l.Items {
			x, err := one(item)
			if err != nil {
				return nil, err
			}
			out.Append(x)
		}
		return out, nil
	}
}

func (p pyIP) prefix() netip.Prefix {
	bits := p.bits
	if bits < 0 {
		bits = p.addr.BitLen()
	}
	return netip.PrefixFrom(p.addr.WithZone(""), bits).Masked()
}

func (p pyIP) size() *big.Int {
	n := p.prefix()
	return new(big.Int).Lsh(big.NewInt(1), uint(n.Addr().BitLen()-n.Bits()))
}

// hosts lists the addresses of a network that hosts can have.
func (p pyIP) hosts() (any, error) {
	n := p.prefix()
	size := p.size()
	if size.BitLen() > 21 {
		return nil, jinjaErr("MemoryError", "the network %s has too many hosts", n)
	}
	count := size.Int64()
	skipFirst, skipLast := int64(1), int64(1)
	if count <= 2 {
		skipFirst, skipLast = 0, 0
	} else if n.Addr().Is6() {
		skipLast = 0
	}
	out := &List{}
	a := n.Addr()
	for i := range count {
		if i >= skipFirst && i < count-skipLast {
			out.Append(pyIP{a, -1}.String())
		}
		a = a.Next()
	}
	return out, nil
}

func networkFilters() map[string]*JinjaFilter {
	is := func(name string, versions ...int) *JinjaFilter {
		return jinjaFilter(name+"_filter", "options=None", func(_ *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			for _, version := range versions {
				ip, err := ipOf(v, version, a[0])
				if err != nil || ip != nil {
					return ip != nil, err
				}
			}
			return false, nil
		})
	}
	family := func(version int) *JinjaFilter {
		return jinjaFilter("ipv"+strconv.Itoa(version), "options=None", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			return ipFilter(r, v, version, a[0])
		})
	}
	return map[string]*JinjaFilter{
		"is_ip": is("is_ip", 4, 6), "is_ipv4": is("is_ipv4", 4), "is_ipv6": is("is_ipv6", 6),
		"ipv4": family(4), "ipv6": family(6),
		"ipaddr": jinjaFilter("ipaddr", "options=None", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			return ipAddrFilter(r, v, a[0])
		}),
		"ip_host": jinjaFilter("ip_host", "options=None, version=None", eachAddress(func(p pyIP) (any, error) {
			if p.bits < 0 {
				p.bits = p.addr.BitLen()
			}
			return p.String(), nil
		})),
		"network_hosts": jinjaFilter("network_hosts", "options=None, version=None", eachAddress(pyIP.hosts)),
		"network_size": jinjaFilter("network_size", "options=None, version=None", eachAddress(func(p pyIP) (any, error) {
			return normalInt(p.size()), nil
		})),
		"filter_by_networks": jinjaFilter("filter_by_networks", "networks", filterByNetworks),
		"ipwrap": jinjaFilter("ipwrap", "", func(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			wrap := func(v any) any {
				if ip, err := ipOf(v, 6, nil); err == nil && ip != nil {
					if p, ok := parsePyIP(strings.Trim(Str(v), "[]")); ok && p.bits < 0 {
						return "[" + p.String() + "]"
					}
				}
				return v
			}
			switch v.(type) {
			case *List, Tuple:
				items, err := r.items(v)
				out := &List{}
				for _, item := range items {
					out.Append(wrap(item))
				}
				return out, err
			}
			return wrap(v), nil
		}),
		"gen_mac": jinjaEntry('p', 0, "gen_mac", "", func(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			s, err := r.str(v)
			return fmt.Sprintf("%s:%02X:%02X:%02X", s, mathrand.IntN(256), mathrand.IntN(256), mathrand.IntN(256)), err
		}),
		"mac_str_to_bytes": jinjaFilter("mac_str_to_bytes", "", func(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			s, err := strArg(v, "object has no len(): ")
			if err != nil {
				return nil, err
			}
			switch len(s) {
			case 12:
			case 17:
				s = strings.ReplaceAll(s, s[2:3], "")
			default:
				return nil, jinjaValueError("Invalid MAC address")
			}
			p, err := hex.DecodeString(s)
			if err != nil {
				return nil, jinjaValueError("invalid literal for int() with base 16: %s", Repr(s))
			}
			return p, nil
		}),
		"dns_check": jinjaEntry('p', 0, "dns_check", "port, safe=False, ipv6=None", dnsCheckFilter),
	}
}

func filterByNetworks(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	if a[0] == nil {
		return v, nil
	}
	list, err := r.items(a[0])
	if err != nil {
		return nil, err
	}
	var nets []netip.Prefix
	for _, n := range list {
		ip, ok := parsePyIP(Str(n))
		if !ok {
			return nil, jinjaValueError("%s does not appear to be an IPv4 or IPv6 network", Repr(n))
		}
		p := ip.prefix()
		if p.Addr() != ip.addr {
			return nil, jinjaValueError("%s has host bits set", Str(n))
		}
		nets = append(nets, p)
	}
	filter := func(v any) (any, error) {
		ips, err := r.items(v)
		if err != nil {
			return nil, err
		}
		out := &List{}
		for _, item := range ips {
			a, err := netip.ParseAddr(Str(item))
			if err != nil {
				return nil, jinjaValueError("%s does not appear to be an IPv4 or IPv6 address", Repr(item))
			}
			for _, n := range nets {
				if n.Contains(a.WithZone("")) {
					out.Append(item)
				}
			}
		}
		return out, nil
	}
	switch v := v.(type) {
	case *Map:
		out := &Map{}
		for k, ips := range v.All() {
			kept, err := filter(ips)
			if err != nil {
				return nil, err
			}
			out.Set(k, kept)
		}
		return out, nil
	case *List, Tuple, string:
		return filter(v)
	}
	return nil, jinjaValueError("Do not know how to filter a <class '%s'>", TypeName(v))
}

// dnsCheckFilter resolves a name and prefers an address that answers on the port.
func dnsCheckFilter(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	name, err := r.str(v)
	if err != nil {
		return nil, err
	}
	network := "ip"
	if a[2] != nil {
		network = "ip4"
		if Truth(a[2]) {
			network = "ip6"
		}
	}
	ctx, cancel := context.WithTimeout(r.Ctx, 10*time.Second)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, network, name)
	if err != nil && network == "ip6" {
		ips, err = net.DefaultResolver.LookupNetIP(ctx, "ip4", name)
	}
	if err != nil || len(ips) == 0 {
		return nil, jinjaErr("salt.exceptions.SaltSystemExit", "DNS lookup or connection check of '%s' failed.", name)
	}
	best := ips[0].Unmap()
	for _, ip := range ips {
		d := net.Dialer{Timeout: 2 * time.Second}
		c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(ip.Unmap().String(), Str(a[0])))
		if err == nil {
			c.Close()
			best = ip.Unmap()
			break
		}
	}
	if best.Is6() {
		return "[" + best.String() + "]", nil
	}
	return best.String(), nil
}
