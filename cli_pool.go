// The minions of a master as its own directories tell: accepted keys, cached
// grains and pillar, established connections. For command lines and runners
// that run on the master's machine and need no daemon.
//
// The law of this room: reading only. What cannot be read is not there.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const minionDataLimit = 64 << 20 // of one cached data.p

// minionPool reads what a master knows of its minions.
type minionPool struct {
	keys     *KeyDir
	cacheDir string
	groups   *Map
	port     int
	cached   bool // minion_data_cache
}

func newMinionPool(o *Options) *minionPool {
	return &minionPool{
		keys:     OpenKeyDir(o.Path("pki_dir")),
		cacheDir: o.Path("cachedir"),
		groups:   o.Map("nodegroups"),
		port:     o.Int("publish_port"),
		cached:   o.Bool("minion_data_cache"),
	}
}

// accepted lists the ids with accepted keys, sorted.
func (p *minionPool) accepted() []string {
	ids, err := p.keys.List(KeyAccepted)
	if err != nil {
		return nil
	}
	return ids
}

// data is what is cached of one minion.
func (p *minionPool) data(id string) (grains, pillar *Map, ok bool) {
	m, ok := p.cacheFile(id, "data").(*Map)
	if !ok {
		return nil, nil, false
	}
	return m.Map("grains"), m.Map("pillar"), true
}

// cacheFile reads one file of a minion's cache: data or mine.
func (p *minionPool) cacheFile(id, name string) any {
	if ValidMinionID(id) != nil {
		return nil
	}
	raw, err := readRegular(filepath.Join(p.cacheDir, "minions", id, name+".p"), minionDataLimit)
	if err != nil {
		return nil
	}
	v, err := DecodeBin(raw)
	if err != nil {
		return nil
	}
	return v
}

func (p *minionPool) subject(id string) *Subject {
	s := &Subject{ID: id, Nodegroups: p.groups}
	if p.cached {
		s.Grains, s.Pillar, _ = p.data(id)
	}
	return s
}

// cachedIDs lists the minions with cached data, sorted.
func (p *minionPool) cachedIDs() []string {
	entries, err := os.ReadDir(filepath.Join(p.cacheDir, "minions"))
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && ValidMinionID(e.Name()) == nil {
			out = append(out, e.Name())
		}
	}
	return out
}

// selectIDs resolves a target over the accepted keys. unknown says how minions
// count of which nothing is cached.
func (p *minionPool) selectIDs(kind string, tgt any, delimiter string, unknown bool) ([]string, error) {
	return p.selectAmong(p.accepted(), kind, tgt, delimiter, unknown)
}

func (p *minionPool) selectAmong(ids []string, kind string, tgt any, delimiter string, unknown bool) ([]string, error) {
	t, err := ParseTarget(kind, tgt, delimiter, p.groups)
	if err != nil {
		return nil, err
	}
	return t.Select(ids, p.subject, unknown), nil
}

// keyState says in which state the key of an id is, "" if there is none.
func (p *minionPool) keyState(id string) string {
	for _, state := range KeyStates() {
		if p.keys.Has(state, id) {
			return state
		}
	}
	return ""
}

// connected maps the ids of connected minions to their addresses: the
// established connections of the publish port against the cached address
// grains. A connection over the loopback stands for this machine's own
// addresses. among is where to look; nil means all with cached data.
func (p *minionPool) connected(among []string) map[string]string {
	out := map[string]string{}
	if !p.cached {
		return out
	}
	addrs := connectedAddresses(p.port)
	if len(addrs) == 0 {
		return out
	}
	if among == nil {
		among = p.cachedIDs()
	}
	for _, id := range among {
		grains, _, ok := p.data(id)
		if !ok {
			continue
		}
		for _, grain := range []string{"ipv4", "ipv6"} {
			for _, v := range toItems(grains.Value(grain)) {
				if a := Str(v); addrs[a] && out[id] == "" {
					out[id] = a
				}
			}
		}
	}
	return out
}

// connectedAddresses are the remote addresses of the established connections
// to one local TCP port.
func connectedAddresses(port int) map[string]bool {
	out := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			fields := strings.Fields(lines.Text())
			if len(fields) < 4 || fields[3] != "01" { // established
				continue
			}
			if local, ok := procAddress(fields[1]); !ok || int(local.Port()) != port {
				continue
			}
			if remote, ok := procAddress(fields[2]); ok {
				out[remote.Addr().Unmap().String()] = true
			}
		}
		f.Close()
	}
	if !out["127.0.0.1"] && !out["::1"] {
		return out
	}
	four, six := out["127.0.0.1"], out["::1"]
	delete(out, "127.0.0.1")
	delete(out, "::1")
	own, _ := net.InterfaceAddrs()
	for _, a := range own {
		ipnet, ok := a.(*net.IPNet)
		if !ok || ipnet.IP.IsLoopback() {
			continue
		}
		if is4 := ipnet.IP.To4() != nil; is4 && four || !is4 && six {
			out[ipnet.IP.String()] = true
		}
	}
	return out
}

// procAddress reads "0100007F:1194" as the kernel writes it: each word of 32
// bits in the machine's order of bytes.
func procAddress(s string) (netip.AddrPort, bool) {
	host, port, ok := strings.Cut(s, ":")
	raw, err := hex.DecodeString(host)
	if !ok || err != nil || len(raw) != 4 && len(raw) != 16 {
		return netip.AddrPort{}, false
	}
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		for i := 0; i+4 <= len(raw); i += 4 {
			slices.Reverse(raw[i : i+4])
		}
	}
	addr, _ := netip.AddrFromSlice(raw)
	n, err := strconv.ParseUint(port, 16, 16)
	return netip.AddrPortFrom(addr, uint16(n)), err == nil
}
