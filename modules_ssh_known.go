// Module ssh: the keys of hosts in known_hosts files, with plain and with hashed
// names.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// knownHostsFile is the path of a known_hosts file, or the answer why there is none.
func knownHostsFile(config, user any) (string, *Map) {
	path := ""
	switch {
	case Truth(config):
		path = Str(config)
	case Truth(user):
		path = ".ssh/known_hosts"
	default:
		path = "/etc/ssh/ssh_known_hosts"
	}
	if filepath.IsAbs(path) {
		return path, nil
	}
	if !Truth(user) {
		return "", NewMap("status", "error", "error", "Cannot determine absolute path to file.")
	}
	u, ok := userByName(Str(user))
	if !ok {
		return "", NewMap("status", "error", "error", "User "+Str(user)+" does not exist")
	}
	return filepath.Join(u.home, path), nil
}

// sshHostname is a host as known_hosts has it: with a port in brackets.
func sshHostname(host string, port any) string {
	if n, ok := toInt(port); Truth(port) && ok && n != 22 {
		return "[" + host + "]:" + Str(n)
	}
	return host
}

// hashedName hashes a name with a salt: |1|salt|hash.
func hashedName(name string, salt []byte) string {
	h := hmac.New(sha1.New, salt)
	h.Write([]byte(name))
	return "|1|" + base64.StdEncoding.EncodeToString(salt) + "|" + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// namesHost says whether the names of a line are those of a host.
func namesHost(names, host string) bool {
	for _, name := range strings.Split(names, ",") {
		if rest, ok := strings.CutPrefix(name, "|1|"); ok {
			salt, _, _ := strings.Cut(rest, "|")
			raw, err := base64.StdEncoding.DecodeString(salt)
			if err == nil && hashedName(host, raw) == name {
				return true
			}
			continue
		}
		if strings.EqualFold(name, host) || strings.ContainsAny(name, "*?") && GlobMatch(name, host) {
			return true
		}
	}
	return false
}

// knownHostLine splits a line into names, kind and key.
func knownHostLine(line string) (names, enc, key string, ok bool) {
	f := pyFields(line)
	if len(f) > 0 && strings.HasPrefix(f[0], "@") {
		f = f[1:]
	}
	if len(f) < 3 || strings.HasPrefix(f[0], "#") {
		return "", "", "", false
	}
	return f[0], f[1], f[2], true
}

// knownEntries finds the entries of a host in lines; host "" finds all.
func knownEntries(lines []string, host string, hashType any) ([]*Map, error) {
	var out []*Map
	for _, line := range lines {
		names, enc, key, ok := knownHostLine(line)
		if !ok || host != "" && !namesHost(names, host) {
			continue
		}
		fp, ok, err := sshFingerprint(key, hashType)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, NewMap("hostname", names, "key", key, "enc", enc, "fingerprint", fp))
		}
	}
	return out, nil
}

func entryList(entries []*Map) any {
	if len(entries) == 0 {
		return nil
	}
	l := &List{}
	for _, e := range entries {
		l.Append(e)
	}
	return l
}

type sshKnownArgs struct {
	User                any
	Hostname            string
	Config              any `def:"None"`
	Port                any `def:"None"`
	FingerprintHashType any `def:"None"`
}

func storedEntries(user any, host string, config, port, hashType any) ([]*Map, *Map, error) {
	path, problem := knownHostsFile(config, user)
	if problem != nil {
		return nil, problem, nil
	}
	lines, err := fileLines(path)
	if err != nil {
		return nil, nil, nil
	}
	entries, err := knownEntries(lines, sshHostname(host, port), hashType)
	return entries, nil, err
}

func sshGetKnownHost(_ context.Context, _ *Call, a sshKnownArgs) (any, error) {
	entries, problem, err := storedEntries(a.User, a.Hostname, a.Config, a.Port, a.FingerprintHashType)
	if err != nil || problem != nil {
		return problem, err
	}
	return entryList(entries), nil
}

type sshRecvArgs struct {
	Hostname            string
	Enc                 any  `def:"None"`
	Port                any  `def:"None"`
	HashKnownHosts      bool `def:"True"`
	Timeout             any  `def:"5"`
	FingerprintHashType any  `def:"None"`
}

func recvEntries(ctx context.Context, c *Call, a sshRecvArgs) ([]*Map, error) {
	if strings.HasPrefix(a.Hostname, "-") {
		return nil, InvocationErrorf("%s is no host name", Repr(a.Hostname))
	}
	cmd := []string{"ssh-keyscan"}
	if Truth(a.Port) {
		cmd = append(cmd, "-p", Str(a.Port))
	}
	if Truth(a.Enc) {
		cmd = append(cmd, "-t", Str(a.Enc))
	}
	if a.HashKnownHosts {
		cmd = append(cmd, "-H")
	}
	cmd = append(cmd, "-T", Str(a.Timeout), a.Hostname)
	for try := 0; try < 5; try++ {
		text, err := runText(ctx, c, cmd...)
		if err != nil {
			return nil, err
		}
		entries, err := knownEntries(pyLines(text, false), "", a.FingerprintHashType)
		if err != nil || len(entries) > 0 {
			return entries, err
		}
	}
	return nil, nil
}

func sshRecvKnownHost(ctx context.Context, c *Call, a sshRecvArgs) (any, error) {
	entries, err := recvEntries(ctx, c, a)
	return entryList(entries), err
}

type sshCheckKnownArgs struct {
	User                any `def:"None"`
	Hostname            any `def:"None"`
	Key                 any `def:"None"`
	Fingerprint         any `def:"None"`
	Config              any `def:"None"`
	Port                any `def:"None"`
	FingerprintHashType any `def:"None"`
}

func needsHostname() *Map {
	return NewMap("status", "error", "error", "hostname argument required")
}

func sshCheckKnownHost(_ context.Context, _ *Call, a sshCheckKnownArgs) (any, error) {
	if !Truth(a.Hostname) {
		return needsHostname(), nil
	}
	entries, problem, err := storedEntries(a.User, Str(a.Hostname), a.Config, a.Port, a.FingerprintHashType)
	if err != nil || problem != nil {
		return problem, err
	}
	if len(entries) == 0 {
		return "add", nil
	}
	field, want := "", any(nil)
	if Truth(a.Key) {
		field, want = "key", a.Key
	} else if Truth(a.Fingerprint) {
		field, want = "fingerprint", a.Fingerprint
	} else {
		return "exists", nil
	}
	for _, e := range entries {
		if Equal(e.Value(field), want) {
			return "exists", nil
		}
	}
	return "update", nil
}

type sshRmKnownArgs struct {
	User     any `def:"None"`
	Hostname any `def:"None"`
	Config   any `def:"None"`
	Port     any `def:"None"`
}

// dropKnown removes the lines of a host, of one kind if enc is given.
//
// The result are the numbers of the lines, counted from one.
func dropKnown(path, host string, enc any) ([]int, error) {
	lines, err := fileLines(path)
	if err != nil {
		return nil, osError(err)
	}
	var out []string
	var dropped []int
	for i, line := range lines {
		names, kind, _, ok := knownHostLine(line)
		if ok && namesHost(names, host) && (enc == nil || kind == Str(enc)) {
			dropped = append(dropped, i+1)
			continue
		}
		out = append(out, line)
	}
	if len(dropped) == 0 {
		return nil, nil
	}
	if err := replaceKnown(path, out); err != nil {
		return nil, ExecErrorf("Couldn't remove old entry(ies) from known hosts file: '%s'", osErrorText(err))
	}
	return dropped, nil
}

// replaceKnown writes a known_hosts file anew; what it held goes to its name
// with .old, where ssh-keygen keeps it too.
func replaceKnown(path string, lines []string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := writeFileAtomic(path+".old", old, 0o644); err != nil {
		return err
	}
	if st, err := fileStat(path, true); err == nil && st.Uid != 0 {
		_ = os.Chown(path+".old", int(st.Uid), int(st.Gid)) // the user of the file may have it
	}
	text := strings.Join(lines, "\n")
	if text != "" {
		text += "\n"
	}
	return replaceSystemFile(path, []byte(text), 0o600)
}

// retained is ssh-keygen's word on a file that it changed.
func retained(path string) string {
	return path + " updated.\nOriginal contents retained as " + path + ".old"
}

func sshRmKnownHost(_ context.Context, _ *Call, a sshRmKnownArgs) (any, error) {
	if !Truth(a.Hostname) {
		return needsHostname(), nil
	}
	path, problem := knownHostsFile(a.Config, a.User)
	if problem != nil {
		return problem, nil
	}
	if !isFile(path) {
		return NewMap("status", "error", "error", "Known hosts file "+path+" does not exist"), nil
	}
	host := sshHostname(Str(a.Hostname), a.Port)
	dropped, err := dropKnown(path, host, nil)
	if err != nil {
		return nil, err
	}
	comment := "Host " + host + " not found in " + path
	if len(dropped) > 0 {
		comment = ""
		for _, n := range dropped {
			comment += "# Host " + host + " found: line " + strconv.Itoa(n) + "\n"
		}
		comment += retained(path)
	}
	return NewMap("status", "removed", "comment", comment), keepOwner(path, a.User)
}

type sshSetKnownArgs struct {
	User                any  `def:"None"`
	Hostname            any  `def:"None"`
	Fingerprint         any  `def:"None"`
	Key                 any  `def:"None"`
	Port                any  `def:"None"`
	Enc                 any  `def:"None"`
	Config              any  `def:"None"`
	HashKnownHosts      bool `def:"True"`
	Timeout             any  `def:"5"`
	FingerprintHashType any  `def:"None"`
}

func fieldsOf(entries []*Map, field string) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.Str(field))
	}
	return out
}

func sshSetKnownHost(ctx context.Context, c *Call, a sshSetKnownArgs) (any, error) {
	if !Truth(a.Hostname) {
		return needsHostname(), nil
	}
	host := Str(a.Hostname)
	if n, ok := toInt(a.Port); a.Port != nil && ok && n != 22 && a.HashKnownHosts {
		return NewMap("status", "error", "error", "argument port can not be used in conjunction with argument hash_known_hosts"), nil
	}
	stored, problem, err := storedEntries(a.User, host, a.Config, a.Port, a.FingerprintHashType)
	if err != nil || problem != nil {
		return problem, err
	}
	var keys []string
	for _, e := range stored {
		if a.Enc == nil || Equal(e.Value("enc"), a.Enc) {
			keys = append(keys, e.Str("key"))
		}
	}
	update := len(stored) == 0 || Truth(a.Fingerprint) && !hasString(fieldsOf(stored, "fingerprint"), Str(a.Fingerprint)) ||
		Truth(a.Key) && !hasString(keys, Str(a.Key))
	check := !update && a.Key == nil && a.Fingerprint == nil
	if !update && !check {
		return NewMap("status", "exists", "keys", Strings(keys)), nil
	}
	var fresh []*Map
	if !Truth(a.Key) {
		fresh, err = recvEntries(ctx, c, sshRecvArgs{host, a.Enc, a.Port, a.HashKnownHosts, a.Timeout, a.FingerprintHashType})
		if err != nil {
			return nil, err
		}
		if len(fresh) == 0 {
			return NewMap("status", "error", "error", "Unable to receive remote host keys"), nil
		}
		if Truth(a.Fingerprint) && !hasString(fieldsOf(fresh, "fingerprint"), Str(a.Fingerprint)) {
			return NewMap("status", "error", "error", "Remote host public keys found but none of their fingerprints match the one you have provided"), nil
		}
		if check && strings.Join(sortedSet(fieldsOf(fresh, "key")), " ") == strings.Join(sortedSet(keys), " ") {
			return NewMap("status", "exists", "keys", Strings(keys)), nil
		}
	} else {
		fresh = []*Map{NewMap("hostname", host, "enc", a.Enc, "key", a.Key)}
		if !a.HashKnownHosts && Truth(a.Port) {
			fresh[0].Set("port", a.Port)
		}
	}
	path, problem := knownHostsFile(a.Config, a.User)
	if problem != nil {
		return problem, nil
	}
	if isFile(path) {
		if _, err := dropKnown(path, sshHostname(host, a.Port), a.Enc); err != nil {
			return nil, err
		}
	}
	if Truth(a.User) {
		if u, ok := userByName(Str(a.User)); ok {
			if err := makeKeyDir(filepath.Dir(path), u); err != nil {
				return nil, err
			}
		}
	} else if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, osError(err)
	}
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, osError(err)
	}
	text := string(old)
	for _, e := range fresh {
		name := e.Str("hostname")
		if !a.HashKnownHosts && !strings.Contains(name, ":") {
			name = sshHostname(name, a.Port)
		}
		text += name + " " + Str(e.Value("enc")) + " " + Str(e.Value("key")) + "\n"
	}
	if err := replaceSystemFile(path, []byte(text), 0o600); err != nil {
		return nil, ExecErrorf("Couldn't append to known hosts file: '%s'", osErrorText(err))
	}
	if a.HashKnownHosts {
		if err := hashKnownNames(path); err != nil {
			return nil, err
		}
	}
	return NewMap("status", "updated", "old", entryList(stored), "new", entryList(fresh)), keepOwner(path, a.User)
}

func freshHash(name string) (string, error) {
	salt := make([]byte, sha1.Size)
	if _, err := rand.Read(salt); err != nil {
		return "", err
	}
	return hashedName(name, salt), nil
}

type sshHashArgs struct {
	User   any `def:"None"`
	Config any `def:"None"`
}

func sshHashKnownHosts(_ context.Context, _ *Call, a sshHashArgs) (any, error) {
	path, problem := knownHostsFile(a.Config, a.User)
	if problem != nil {
		return problem, nil
	}
	if !isFile(path) {
		return NewMap("status", "error", "error", "Known hosts file "+path+" does not exist"), nil
	}
	if err := hashKnownNames(path); err != nil {
		return nil, err
	}
	return NewMap("status", "updated", "comment", retained(path)), keepOwner(path, a.User)
}

// hashKnownNames hashes all names of a known_hosts file that are not hashed.
func hashKnownNames(path string) error {
	lines, err := fileLines(path)
	if err != nil {
		return osError(err)
	}
	var out []string
	for _, line := range lines {
		names, _, _, ok := knownHostLine(line)
		if !ok || strings.HasPrefix(names, "|1|") || strings.ContainsAny(names, "*?!") || strings.HasPrefix(line, "@") {
			out = append(out, line)
			continue
		}
		for _, name := range strings.Split(names, ",") {
			hash, err := freshHash(name)
			if err != nil {
				return err
			}
			out = append(out, strings.Replace(line, names, hash, 1))
		}
	}
	if err := replaceKnown(path, out); err != nil {
		return osError(err)
	}
	return nil
}
