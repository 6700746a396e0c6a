// The beacon network_settings: changes of interfaces and of their addresses.
package main

import (
	"context"
	"encoding/binary"
	"slices"
	"sort"
	"strings"
	"syscall"
)

// networkAttrs are the settings that can be watched, by their names in pyroute2.
func networkAttrs() []string {
	return []string{"family", "txqlen", "ipdb_scope", "index", "operstate", "group", "carrier_changes", "ipaddr", "neighbours", "ifname", "promiscuity",
		"linkmode", "broadcast", "address", "num_tx_queues", "ipdb_priority", "kind", "qdisc", "mtu", "num_rx_queues", "carrier", "flags",
		"ifi_type", "ports"}
}

func checkNetworkSettings(conf *Map, _ []any) string {
	v := conf.Value("interfaces")
	if _, isList := v.(*List); isList {
		return "interfaces section for network_settings beacon must be a dictionary."
	}
	interfaces, _ := v.(*Map)
	for _, v := range interfaces.All() {
		m, ok := v.(*Map)
		if !ok {
			return "Interface attributes for network_settings beacon must be a dictionary."
		}
		for k := range m.All() {
			if !slices.Contains(networkAttrs(), Str(k)) {
				return "Invalid attributes in beacon configuration."
			}
		}
	}
	return ""
}

// networkSettingsBeacon remembers the settings of the interfaces.
type networkSettingsBeacon struct{ last *Map }

func (b *networkSettingsBeacon) look(_ context.Context, _ *Call, conf *Map, _ []any) ([]*Map, error) {
	now, err := networkSettings()
	if err != nil {
		return nil, err
	}
	before := b.last
	b.last = now
	if before == nil {
		return nil, nil
	}
	var out []*Map
	changes := &Map{}
	wanted := conf.Map("interfaces")
	names := namesOf(now.Keys())
	sort.Strings(names)
	for _, name := range names {
		attrs := wantedAttrs(wanted, name)
		old := before.Map(name)
		if attrs == nil || old == nil {
			continue
		}
		change := &Map{}
		for k, v := range attrs.All() {
			have, ok := now.Map(name).Get(k)
			if !ok || Equal(have, old.Value(k)) {
				continue
			}
			opt, _ := v.(*Map)
			if want := opt.Value("onvalue"); Truth(want) && !Equal(want, have) {
				continue
			}
			change.Set(k, have)
		}
		if change.Len() == 0 {
			continue
		}
		changes.Set(name, change)
		out = append(out, NewMap("tag", name, "interface", name, "change", change))
	}
	if Truth(conf.Value("coalesce")) && changes.Len() > 0 {
		return []*Map{NewMap("tag", "result", "changes", changes)}, nil
	}
	return out, nil
}

// wantedAttrs are the settings to watch of an interface: of its own entry, or of
// one whose name, as a regular expression, is found in it; nil if there is none.
func wantedAttrs(interfaces *Map, name string) *Map {
	if m := interfaces.Map(name); m != nil {
		return m
	}
	for k, v := range interfaces.All() {
		re, err := CompilePython(Str(k), 0)
		if err != nil {
			continue
		}
		if m, err := re.Search(name); err == nil && m != nil {
			attrs, _ := v.(*Map)
			return attrs
		}
	}
	return nil
}

// networkSettings asks the kernel for the settings of all interfaces.
func networkSettings() (*Map, error) {
	tab, err := syscall.NetlinkRIB(syscall.RTM_GETLINK, syscall.AF_UNSPEC)
	if err != nil {
		return nil, err
	}
	msgs, err := syscall.ParseNetlinkMessage(tab)
	if err != nil {
		return nil, err
	}
	out := &Map{}
	masters := map[string]int64{}
	for i := range msgs {
		if msgs[i].Header.Type == syscall.RTM_NEWLINK && len(msgs[i].Data) >= syscall.SizeofIfInfomsg {
			m, master := linkSettings(&msgs[i])
			out.Set(m.Str("ifname"), m)
			masters[m.Str("ifname")] = master
		}
	}
	for name, master := range masters {
		for _, v := range out.All() {
			if m := v.(*Map); master != 0 && m.Value("index") == master {
				ports, _ := m.Value("ports").(*List)
				ports.Append(out.Map(name).Value("index"))
			}
		}
	}
	links, err := networkLinks()
	for _, l := range links {
		addrs := &List{}
		for _, a := range l.addrs {
			addrs.Append(NewList(a.addr.String(), int64(a.bits)))
		}
		if m := out.Map(l.name); m != nil {
			m.Set("ipaddr", addrs)
		}
	}
	return out, err
}

// linkSettings reads one message of the kernel; master is the index of the bridge
// or bond that the interface is a port of.
func linkSettings(msg *syscall.NetlinkMessage) (m *Map, master int64) {
	p := msg.Data
	m = NewMap("family", int64(p[0]), "ifi_type", int64(binary.NativeEndian.Uint16(p[2:])), "index", int64(int32(binary.NativeEndian.Uint32(p[4:]))),
		"flags", int64(binary.NativeEndian.Uint32(p[8:])), "ipdb_scope", "system", "ipdb_priority", int64(0), "ipaddr", &List{}, "ports", &List{})
	attrs, _ := syscall.ParseNetlinkRouteAttr(msg)
	for _, a := range attrs {
		number := func() int64 {
			switch len(a.Value) {
			case 1:
				return int64(a.Value[0])
			case 4:
				return int64(binary.NativeEndian.Uint32(a.Value))
			}
			return 0
		}
		switch a.Attr.Type {
		case syscall.IFLA_IFNAME:
			m.Set("ifname", cText(a.Value))
		case syscall.IFLA_ADDRESS:
			m.Set("address", hardwareAddr(a.Value))
		case syscall.IFLA_BROADCAST:
			m.Set("broadcast", hardwareAddr(a.Value))
		case syscall.IFLA_QDISC:
			m.Set("qdisc", cText(a.Value))
		case syscall.IFLA_MASTER:
			master = number()
		case syscall.IFLA_OPERSTATE:
			m.Set("operstate", operState(number()))
		case syscall.IFLA_LINKINFO:
			m.Set("kind", linkKind(a.Value))
		default:
			if name := numberAttr(a.Attr.Type); name != "" {
				m.Set(name, number())
			}
		}
	}
	return m, master
}

// numberAttr names the attributes of a link that are numbers.
func numberAttr(kind uint16) string {
	switch kind {
	case syscall.IFLA_MTU:
		return "mtu"
	case syscall.IFLA_TXQLEN:
		return "txqlen"
	case syscall.IFLA_LINKMODE:
		return "linkmode"
	case 27: // IFLA_GROUP
		return "group"
	case 30: // IFLA_PROMISCUITY
		return "promiscuity"
	case 31: // IFLA_NUM_TX_QUEUES
		return "num_tx_queues"
	case 32: // IFLA_NUM_RX_QUEUES
		return "num_rx_queues"
	case 33: // IFLA_CARRIER
		return "carrier"
	case 35: // IFLA_CARRIER_CHANGES
		return "carrier_changes"
	}
	return ""
}

// operState names a state of RFC 2863.
func operState(n int64) string {
	names := []string{"UNKNOWN", "NOTPRESENT", "DOWN", "LOWERLAYERDOWN", "TESTING", "DORMANT", "UP"}
	if n < int64(len(names)) {
		return names[n]
	}
	return names[0]
}

// linkKind finds IFLA_INFO_KIND, the first attribute within IFLA_LINKINFO.
func linkKind(p []byte) string {
	if len(p) < 4 || binary.NativeEndian.Uint16(p[2:]) != 1 {
		return ""
	}
	size := int(binary.NativeEndian.Uint16(p))
	if size < 4 || size > len(p) {
		return ""
	}
	return strings.TrimRight(string(p[4:size]), "\x00")
}
