// The id of a minion: found as Salt finds it, so that a box keeps the name it
// had under Python, and never localhost, which is no name.
package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// idLookupTime bounds the question to DNS for the box's own name.
const idLookupTime = time.Second

// idSources is where an id may come from; tests replace them. Empty paths are
// the system's files; without lookup no name server is asked.
type idSources struct {
	hostname  func() (string, error)
	hosts     string
	nameFiles []string
	lookup    func(name string) string
	addresses func() []string
}

func (s idSources) withDefaults() idSources {
	if s.hostname == nil {
		s.hostname = os.Hostname
	}
	if s.hosts == "" {
		s.hosts = "/etc/hosts"
	}
	if s.nameFiles == nil {
		s.nameFiles = []string{"/etc/hostname", "/etc/nodename"}
	}
	if s.addresses == nil {
		s.addresses = ownAddresses
	}
	return s
}

// findMinionID returns the id of this box and whether it is only an address.
// It is kept in the file minion_id, so that it does not change with the name
// of the box.
func findMinionID(o *Options, f ConfigFlags) (id string, isAddress bool, err error) {
	caching := o.Bool("minion_id_caching")
	files := minionIDFiles(o)
	if caching {
		for _, path := range files {
			if id := readMinionID(path); id != "" {
				return id, false, nil
			}
		}
	}
	if fn := o.Value("id_function"); Truth(fn) {
		return "", false, configErrorf("Error in configuration: id_function is not supported: set id, or write the id to %s", files[0])
	}
	id, isAddress = guessMinionID(o, idSources{lookup: lookupOwnName})
	if id == "" {
		return "", false, configErrorf("this box has no name to use as an id: set id in %s", filepath.Join(o.ConfigDir(), "minion"))
	}
	if caching && f.CacheID && usableID(id) == nil {
		if err := writeMinionID(files, id); err != nil {
			f.log().Error("Could not cache minion ID: " + err.Error())
		}
	}
	return id, isAddress, nil
}

// minionIDFiles is where the id may be kept: beside the configuration that was
// asked for, and where Salt keeps it.
func minionIDFiles(o *Options) []string {
	salt := filepath.Join(o.Str("root_dir"), defaultConfigDir, "minion_id")
	own := filepath.Join(o.ConfigDir(), "minion_id")
	if o.ConfigDir() == defaultConfigDir || own == salt {
		return []string{salt}
	}
	return []string{own, salt}
}

// readMinionID reads the id that was kept; an empty or torn file is none.
func readMinionID(path string) string {
	src, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	line, _, _ := strings.Cut(string(src), "\n")
	line = strings.TrimSpace(line)
	if isLocalName(line) || usableID(line) != nil {
		return ""
	}
	return line
}

// writeMinionID keeps the id in the first place that can be written.
func writeMinionID(files []string, id string) error {
	var err error
	for _, path := range files {
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			continue
		}
		tmp := path + ".new"
		if err = os.WriteFile(tmp, []byte(id), 0o644); err != nil {
			continue
		}
		if err = os.Rename(tmp, path); err == nil {
			return nil
		}
	}
	return err
}

// guessMinionID makes an id of what the box is called: its full name, its
// short name, a name in a file, at last an address. "" is none.
func guessMinionID(o *Options, s idSources) (id string, isAddress bool) {
	s = s.withDefaults()
	host, _ := s.hostname()
	candidates := []string{fullName(host, s), host}
	for _, path := range s.nameFiles {
		if src, err := os.ReadFile(path); err == nil {
			for _, fields := range hostsLines(src) {
				if len(fields) == 1 {
					candidates = append(candidates, fields[0])
				}
			}
		}
	}
	if src, err := os.ReadFile(s.hosts); err == nil {
		for _, fields := range hostsLines(src) {
			if strings.HasPrefix(fields[0], "127.") || strings.HasPrefix(fields[0], "::1") {
				candidates = append(candidates, fields[1:]...)
			}
		}
	}
	for _, c := range candidates {
		if !isLocalName(c) {
			id = c
			break
		}
	}
	if id == "" {
		for _, a := range s.addresses() {
			return a, true
		}
		return "", false
	}
	if o.Bool("minion_id_lowercase") {
		id = strings.ToLower(id)
	}
	switch domain := o.Value("minion_id_remove_domain").(type) {
	case bool:
		if domain {
			id, _, _ = strings.Cut(id, ".")
		}
	case string:
		if suffix := "." + domain; domain != "" && len(id) > len(suffix) && strings.EqualFold(id[len(id)-len(suffix):], suffix) {
			id = id[:len(id)-len(suffix)]
		}
	}
	return id, false
}

// fullName is the name with a domain that the hosts file, or else DNS, gives
// the box.
func fullName(host string, s idSources) string {
	if host == "" || strings.Contains(host, ".") {
		return host
	}
	src, err := os.ReadFile(s.hosts)
	if err == nil {
		lines := hostsLines(src)
		at := slices.IndexFunc(lines, func(f []string) bool { return slices.Contains(f[1:], host) })
		if at >= 0 {
			// As a resolver does: the name gives the address, and the address
			// the names of the first line that has it.
			address := lines[at][0]
			first := slices.IndexFunc(lines, func(f []string) bool { return f[0] == address })
			for _, name := range lines[first][1:] {
				if strings.Contains(name, ".") {
					return name
				}
			}
			return lines[first][1]
		}
	}
	if s.lookup != nil {
		if name := s.lookup(host); name != "" {
			return name
		}
	}
	return host
}

// lookupOwnName asks DNS for the full name of this box, for a bounded time.
func lookupOwnName(host string) string {
	ctx, cancel := context.WithTimeout(context.Background(), idLookupTime)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil || len(addresses) == 0 {
		return ""
	}
	names, err := net.DefaultResolver.LookupAddr(ctx, addresses[0])
	if err != nil {
		return ""
	}
	for _, name := range names {
		if name = strings.TrimSuffix(name, "."); strings.Contains(name, ".") {
			return name
		}
	}
	return ""
}

// hostsLines splits a hosts file into the words of its lines, comments cut;
// a line with one word is kept for files that hold just a name.
func hostsLines(src []byte) [][]string {
	var lines [][]string
	for line := range strings.Lines(string(src)) {
		line, _, _ = strings.Cut(line, "#")
		if fields := strings.Fields(line); len(fields) > 0 {
			lines = append(lines, fields)
		}
	}
	return lines
}

// isLocalName says whether a name means "this box" on every box.
func isLocalName(name string) bool {
	if name == "" || name == "(none)" || name == "0.0.0.0" {
		return true
	}
	for _, prefix := range []string{"localhost", "ip6-", "ipv6-", "127.", "::1", "fe00::", "fe02::"} {
		if strings.HasPrefix(strings.ToLower(name), prefix) {
			return true
		}
	}
	return false
}

// ownAddresses lists the addresses of the box that others can reach.
func ownAddresses() []string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var out []string
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			out = append(out, fmt.Sprint(n.IP))
		}
	}
	slices.Sort(out)
	return out
}

// usableID says why an id cannot be the name of a key file.
func usableID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("the id is empty")
	case len(id) > 255:
		return fmt.Errorf("the id is longer than 255 bytes")
	case id[0] == '.' || strings.ContainsAny(id, "/\\\x00\n\r"):
		return fmt.Errorf("%q cannot be the name of a file", id)
	}
	return nil
}
