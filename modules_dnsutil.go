// The modules dnsutil and dig: look-ups, zone files and /etc/hosts, by the
// resolver in this program; the tool dig is not needed.
package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

func dnsutilModule() Module {
	return Module{
		Doc: "Look up names, and read zone files and /etc/hosts.",
		Funcs: Funcs{
			"parse_hosts":  {run: dnsutilParseHosts, doc: "Return the names of each address in a hosts file."},
			"hosts_append": {run: dnsutilHostsAppend, doc: "Append a line of an address and its names, with commas, to a hosts file."},
			"hosts_remove": {run: dnsutilHostsRemove, doc: "Remove names, with commas, from a hosts file, and lines that then hold none."},
			"parse_zone":   {run: dnsutilParseZone, doc: "Return the records of a zone file."},
			"check_ip":     {run: dnsCheckIP, doc: "Say whether a text is an IP address."},
			"A":            {run: dnsA("ip4", true), doc: "List the IPv4 addresses of a name."},
			"AAAA":         {run: dnsA("ip6", true), doc: "List the IPv6 addresses of a name."},
			"NS":           {run: dnsNS, doc: "List the name servers of a domain: their addresses, or with resolve=False their names."},
			"SPF":          {run: dnsSPF, doc: "List the addresses that a domain's SPF record allows."},
			"MX":           {run: dnsMX, doc: "List the mail servers of a domain with their priorities."},
			"serial":       {run: dnsutilSerial, doc: "Return a serial number for a zone; with update, keep the next one in a grain."},
		},
	}
}

func digModule() Module {
	m := Module{
		Doc: "Look up names.",
		Funcs: Funcs{
			"check_ip": {run: digCheckIP, doc: "Say whether a text is an IP address."},
			"A":        {run: dnsA("ip4", false), doc: "List the IPv4 addresses of a name."},
			"AAAA":     {run: dnsA("ip6", false), doc: "List the IPv6 addresses of a name."},
			"PTR":      {run: dnsPTR, doc: "List the names of an address."},
			"CNAME":    {run: dnsCNAME, doc: "Return the name that a name stands for."},
			"NS":       {run: dnsNS, doc: "List the name servers of a domain: their addresses, or with resolve=False their names."},
			"SPF":      {run: dnsSPF, doc: "List the addresses that a domain's SPF record allows."},
			"MX":       {run: dnsMX, doc: "List the mail servers of a domain with their priorities."},
			"TXT":      {run: dnsTXT, doc: "List the texts of a name."},
		},
	}
	for _, name := range []string{"A", "AAAA", "PTR", "CNAME", "NS", "SPF", "MX"} { // either way of writing
		f := m.Funcs[name]
		f.pyname = name
		m.Funcs[strings.ToLower(name)] = f
	}
	return m
}

// dnsLimit bounds one look-up.
const dnsLimit = 10 * time.Second

// resolver asks the name server given, or those of the box.
func resolver(nameserver any) *net.Resolver {
	if !Truth(nameserver) {
		return net.DefaultResolver
	}
	address := strings.TrimPrefix(Str(nameserver), "@")
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(address, "53")
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
}

func dnsCheckIP(_ context.Context, _ *Call, a struct {
	Addr any `arg:"ip_addr"`
}) (any, error) {
	text, ok := a.Addr.(string)
	return ok && validAddress(text), nil
}

func digCheckIP(_ context.Context, _ *Call, a struct{ Addr any }) (any, error) {
	text, ok := a.Addr.(string)
	return ok && validAddress(text), nil
}

// validAddress says whether text is an address, perhaps with a prefix length.
func validAddress(text string) bool {
	host, bits, prefixed := text, "", false
	if i := strings.LastIndexByte(text, '/'); i >= 0 {
		host, bits, prefixed = text[:i], text[i+1:], true
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	if !prefixed {
		return true
	}
	n, err := strconv.Atoi(strings.TrimSpace(bits))
	if addr.Is4() {
		return err == nil && 1 <= n && n <= 32
	}
	return err == nil && 8 <= n && n <= 128
}

type dnsHostArgs struct {
	Host       string
	Nameserver any `def:"None"`
}

// dnsA makes the look-up of one family. complain has failures in words, as
// dnsutil has without dig; otherwise the list is empty.
func dnsA(network string, complain bool) any {
	return func(ctx context.Context, _ *Call, a dnsHostArgs) (any, error) {
		found := lookupAddresses(ctx, network, a.Host, a.Nameserver)
		if found.Len() == 0 && complain && a.Nameserver == nil {
			return "Unable to resolve " + a.Host, nil
		}
		return found, nil
	}
}

func lookupAddresses(ctx context.Context, network, host string, nameserver any) *List {
	ctx, cancel := context.WithTimeout(ctx, dnsLimit)
	defer cancel()
	addrs, _ := resolver(nameserver).LookupNetIP(ctx, network, host)
	out := &List{}
	for _, a := range addrs {
		out.Append(a.Unmap().String())
	}
	return out
}

func dnsPTR(ctx context.Context, _ *Call, a dnsHostArgs) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, dnsLimit)
	defer cancel()
	names, _ := resolver(a.Nameserver).LookupAddr(ctx, a.Host)
	return Strings(names), nil
}

func dnsCNAME(ctx context.Context, _ *Call, a dnsHostArgs) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, dnsLimit)
	defer cancel()
	name, _ := resolver(a.Nameserver).LookupCNAME(ctx, a.Host)
	if strings.TrimSuffix(name, ".") == strings.TrimSuffix(a.Host, ".") {
		name = ""
	}
	return name, nil
}

func dnsTXT(ctx context.Context, _ *Call, a dnsHostArgs) (any, error) {
	out := &List{}
	for _, text := range lookupTXT(ctx, a.Host, a.Nameserver) {
		out.Append(`"` + text + `"`)
	}
	return out, nil
}

func lookupTXT(ctx context.Context, host string, nameserver any) []string {
	ctx, cancel := context.WithTimeout(ctx, dnsLimit)
	defer cancel()
	texts, _ := resolver(nameserver).LookupTXT(ctx, host)
	return texts
}

type dnsNSArgs struct {
	Domain     string
	Resolve    bool `def:"True"`
	Nameserver any  `def:"None"`
}

func dnsNS(ctx context.Context, _ *Call, a dnsNSArgs) (any, error) {
	limited, cancel := context.WithTimeout(ctx, dnsLimit)
	defer cancel()
	servers, _ := resolver(a.Nameserver).LookupNS(limited, a.Domain)
	out := &List{}
	for _, s := range servers {
		if !a.Resolve {
			out.Append(s.Host)
			continue
		}
		out.Append(lookupAddresses(ctx, "ip4", s.Host, a.Nameserver).Items...)
	}
	return out, nil
}

type dnsMXArgs struct {
	Domain     string
	Resolve    bool `def:"False"`
	Nameserver any  `def:"None"`
}

func dnsMX(ctx context.Context, _ *Call, a dnsMXArgs) (any, error) {
	limited, cancel := context.WithTimeout(ctx, dnsLimit)
	defer cancel()
	servers, _ := resolver(a.Nameserver).LookupMX(limited, a.Domain)
	out := &List{}
	for _, s := range servers {
		name := s.Host
		if a.Resolve {
			addrs := lookupAddresses(ctx, "ip4", name, a.Nameserver)
			if addrs.Len() == 0 {
				return nil, OtherErrorf("IndexError", "list index out of range")
			}
			name = Str(addrs.Items[0])
		}
		out.Append(NewList(strconv.Itoa(int(s.Pref)), name))
	}
	return out, nil
}

type dnsSPFArgs struct {
	Domain     string
	Record     string `def:"'SPF'"`
	Nameserver any    `def:"None"`
}

var spfMechanism = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:\+|~)?(ip[46]|include):(.+)`)
})

// dnsSPF reads the texts of a domain: the record type SPF is no more.
func dnsSPF(ctx context.Context, _ *Call, a dnsSPFArgs) (any, error) {
	out := &List{}
	seen := map[string]bool{}
	var visit func(domain string)
	visit = func(domain string) {
		// A record may include itself; Salt would ask forever.
		if seen[domain] || len(seen) > 50 {
			return
		}
		seen[domain] = true
		for _, text := range lookupTXT(ctx, domain, a.Nameserver) {
			words := pyFields(text)
			if len(words) < 2 || words[0] != "v=spf1" {
				continue
			}
			if to, ok := strings.CutPrefix(words[1], "redirect="); ok {
				visit(to)
				return
			}
			for _, w := range words[1:] {
				m := spfMechanism().FindStringSubmatch(w)
				switch {
				case m == nil:
				case m[1] == "include":
					visit(m[2])
				case validAddress(m[2]):
					out.Append(m[2])
				}
			}
			return
		}
	}
	visit(a.Domain)
	return out, nil
}

type hostsFileArgs struct {
	File  string `arg:"hostsfile" def:"'/etc/hosts'"`
	Hosts any    `def:"None"`
}

func dnsutilParseHosts(_ context.Context, _ *Call, a hostsFileArgs) (any, error) {
	text := Str(a.Hosts)
	if !Truth(a.Hosts) {
		data, err := os.ReadFile(a.File)
		if err != nil {
			return "Error: hosts data was not found", nil
		}
		text = string(data)
	}
	return hostsOf(text), nil
}

func hostsOf(text string) *Map {
	out := &Map{}
	for _, line := range pyLines(text, false) {
		words := pyFields(line)
		if len(words) == 0 || line[0] == '#' {
			continue
		}
		l, _ := out.Get(words[0])
		list, ok := l.(*List)
		if !ok {
			list = &List{}
			out.Set(words[0], list)
		}
		list.Append(Strings(words[1:]).Items...)
	}
	return out
}

type hostsAppendArgs struct {
	File    string `arg:"hostsfile" def:"'/etc/hosts'"`
	Addr    any    `arg:"ip_addr" def:"None"`
	Entries any    `def:"None"`
}

func dnsutilHostsAppend(_ context.Context, _ *Call, a hostsAppendArgs) (any, error) {
	entries, ok := a.Entries.(string)
	if !ok {
		return nil, OtherErrorf("AttributeError", "'%s' object has no attribute 'split'", TypeName(a.Entries))
	}
	data, err := os.ReadFile(a.File)
	if err != nil {
		return nil, pyOSError(err)
	}
	var known []any
	if l, ok := hostsOf(string(data)).Get(a.Addr); ok {
		known = l.(*List).Items
	}
	names := slices.DeleteFunc(strings.Split(entries, ","), func(name string) bool { return slices.Contains(known, any(name)) })
	if len(names) == 0 {
		return "No additional hosts were added to " + a.File, nil
	}
	line := "\n" + Str(a.Addr) + " " + strings.Join(names, " ")
	f, err := os.OpenFile(a.File, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return nil, pyOSError(err)
	}
	_, err = f.WriteString(line)
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err != nil {
		return nil, pyOSError(err)
	}
	return "The following line was added to " + a.File + ":" + line, nil
}

type hostsRemoveArgs struct {
	File    string `arg:"hostsfile" def:"'/etc/hosts'"`
	Entries any    `def:"None"`
}

func dnsutilHostsRemove(_ context.Context, _ *Call, a hostsRemoveArgs) (any, error) {
	entries, ok := a.Entries.(string)
	if !ok {
		return nil, OtherErrorf("AttributeError", "'%s' object has no attribute 'split'", TypeName(a.Entries))
	}
	data, err := os.ReadFile(a.File)
	if err != nil {
		return nil, pyOSError(err)
	}
	names := strings.Split(entries, ",")
	var b strings.Builder
	for _, line := range pyLines(string(data), false) {
		words := pyFields(line)
		if len(words) == 0 || words[0][0] == '#' {
			b.WriteString(line + "\n")
			continue
		}
		kept := slices.DeleteFunc(slices.Clone(words[1:]), func(w string) bool { return slices.Contains(names, w) })
		if len(kept) > 0 {
			b.WriteString(words[0] + " " + strings.Join(kept, " ") + "\n")
		}
	}
	// The file may be a mount of its own, in a container: it is not replaced.
	if err := os.WriteFile(a.File, []byte(b.String()), 0o644); err != nil {
		return nil, pyOSError(err)
	}
	return nil, nil
}

type parseZoneArgs struct {
	File any `arg:"zonefile" def:"None"`
	Zone any `def:"None"`
}

func dnsutilParseZone(_ context.Context, _ *Call, a parseZoneArgs) (any, error) {
	text := Str(a.Zone)
	if Truth(a.File) {
		if data, err := os.ReadFile(Str(a.File)); err == nil {
			text, a.Zone = string(data), string(data)
		}
	}
	if !Truth(a.Zone) {
		return "Error: Zone data was not found", nil
	}
	zone, multi := &Map{}, ""
	for _, line := range pyLines(text, false) {
		line, _, _ = strings.Cut(line, ";")
		if line = pyStrip(line); line == "" {
			continue
		}
		if multi != "" || strings.Contains(line, "(") && !strings.Contains(line, ")") {
			multi += " " + line
			if !strings.Contains(line, ")") {
				continue
			}
			line, multi = strings.NewReplacer("(", "", ")", "").Replace(multi), ""
		}
		if err := zoneLine(zone, line); err != nil {
			return nil, err
		}
	}
	return zone, nil
}

// zoneLine takes one record of a zone.
func zoneLine(zone *Map, line string) (err error) {
	words := pyFields(line)
	if strings.HasPrefix(line, "$") {
		if len(words) < 2 {
			return errShortRecord(line)
		}
		zone.Set(strings.ReplaceAll(words[0], "$", ""), words[1])
		return nil
	}
	origin, known := zone.Get("ORIGIN")
	if known {
		words = pyFields(strings.ReplaceAll(line, "@", Str(origin)))
	}
	if strings.Contains(line, "SOA") {
		if len(words) > 1 && words[1] != "IN" {
			words = slices.Delete(words, 1, 2)
		}
		if len(words) < 10 {
			return errShortRecord(line)
		}
		zone.Set("ORIGIN", words[0])
		zone.Set("NETWORK", words[1])
		zone.Set("SOURCE", words[3])
		zone.Set("CONTACT", strings.Replace(words[4], ".", "@", 1))
		zone.Set("SERIAL", words[5])
		for i, key := range []string{"REFRESH", "RETRY", "EXPIRE", "MINTTL"} {
			zone.Set(key, zoneSeconds(words[6+i]))
		}
		return nil
	}
	if words[0] == "IN" {
		words = append([]string{Str(origin)}, words...)
	}
	if !strings.HasSuffix(words[0], ".") && !strings.Contains(line, "NS") {
		if !known {
			return OtherErrorf("KeyError", "'ORIGIN'")
		}
		words[0] += "." + Str(origin)
	}
	if len(words) < 4 {
		return errShortRecord(line)
	}
	under := func(key string) *Map {
		v, _ := zone.Get(key)
		m, ok := v.(*Map)
		if !ok {
			m = &Map{}
			zone.Set(key, m)
		}
		return m
	}
	switch {
	case words[2] == "NS":
		v, _ := zone.Get("NS")
		l, ok := v.(*List)
		if !ok {
			l = &List{}
			zone.Set("NS", l)
		}
		l.Append(words[3])
	case words[2] == "MX":
		if len(words) < 5 {
			return errShortRecord(line)
		}
		if !zone.Has("MX") {
			zone.Set("MX", NewList(NewMap("priority", words[3], "host", words[4])))
		}
	case words[3] == "A" || words[3] == "AAAA":
		if len(words) < 5 {
			return errShortRecord(line)
		}
		under(words[3]).Set(words[0], NewMap("TARGET", words[4], "TTL", words[1]))
	default:
		under(words[2]).Set(words[0], words[3])
	}
	return nil
}

func errShortRecord(line string) error {
	return OtherErrorf("IndexError", "list index out of range in %s", Repr(line))
}

// zoneSeconds is a time of a zone in seconds: at most a week, which is also
// what cannot be read.
func zoneSeconds(text string) int64 {
	const week = 604800
	text = strings.ToUpper(text)
	unit := int64(1)
	switch {
	case strings.Contains(text, "H"):
		text, unit = strings.ReplaceAll(text, "H", ""), 3600
	case strings.Contains(text, "D"):
		text, unit = strings.ReplaceAll(text, "D", ""), 86400
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > week/unit {
		return week
	}
	return n * unit
}

type serialArgs struct {
	Zone   string `def:"''"`
	Update bool   `def:"False"`
}

func dnsutilSerial(ctx context.Context, c *Call, a serialArgs) (any, error) {
	key := "dnsserial"
	if a.Zone != "" {
		key += "_" + a.Zone
	}
	var stored any = ""
	if v, ok := TraversePath(c.Grains, key, DefaultTargetDelim); ok {
		stored = v
	}
	present := time.Now().Format("20060102") + "01"
	if !a.Update {
		if Truth(stored) {
			return stored, nil
		}
		return present, nil
	}
	current := present
	if Truth(stored) && Str(stored) >= present {
		n, err := strconv.ParseInt(Str(stored), 10, 64)
		if err != nil {
			return nil, OtherErrorf("ValueError", "invalid literal for int() with base 10: %s", Repr(Str(stored)))
		}
		current = fmt.Sprint(n + 1)
	}
	_, err := grainsSetval(ctx, c, grainsSetvalArgs{Key: key, Val: current})
	return current, err
}
