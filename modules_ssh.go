// Module ssh: keys that may log in (authorized_keys), keys of hosts (known_hosts,
// modules_ssh_known.go), and keys of this box.
//
// The law of this room: files are read and written here, no program is run but
// ssh-keyscan, and a file keeps its lines that are not understood, its mode and
// its owner.
package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

func sshModule() Module {
	return Module{
		Doc: "Manage the keys of SSH.",
		Funcs: Funcs{
			"host_keys":               {run: sshHostKeys, doc: "Return the keys of this box; private=False without the private ones."},
			"auth_keys":               {run: sshAuthKeys, doc: "Return the keys that may log in as a user, or as each of a list."},
			"check_key_file":          {run: sshCheckKeyFile, doc: "Say for each key of a file what setting it would do."},
			"check_key":               {run: sshCheckKey, doc: "Say what setting a key would do: add, update, or nothing: exists."},
			"set_auth_key":            {run: sshSetAuthKey, doc: "Let a key log in as a user: new, replace, no change, fail or invalid.\n\nCLI Example:\n\n    salt '*' ssh.set_auth_key <user> '<key>' enc='ssh-ed25519'"},
			"set_auth_key_from_file":  {run: sshSetAuthKeyFromFile, doc: "Let the keys of a file log in as a user."},
			"rm_auth_key":             {run: sshRmAuthKey, doc: "Take a key from those that may log in as a user."},
			"rm_auth_key_from_file":   {run: sshRmAuthKeyFromFile, doc: "Take the keys of a file from those that may log in as a user."},
			"user_keys":               {run: sshUserKeys, doc: "Return the key pairs of users."},
			"get_known_host_entries":  {run: sshGetKnownHost, doc: "Return the keys that a user's known_hosts has for a host."},
			"check_known_host":        {run: sshCheckKnownHost, doc: "Say what setting a host's key would do: add, update, or nothing: exists."},
			"recv_known_host_entries": {run: sshRecvKnownHost, doc: "Ask a host for its keys."},
			"set_known_host":          {run: sshSetKnownHost, doc: "Store the key of a host; without key the host is asked, and its fingerprint compared.\n\nCLI Example:\n\n    salt '*' ssh.set_known_host <user> fingerprint='xx:xx:..:xx' enc='ssh-rsa' hostname='github.com'"},
			"rm_known_host":           {run: sshRmKnownHost, doc: "Remove the keys of a host."},
			"hash_known_hosts":        {run: sshHashKnownHosts, doc: "Hash the names in a known_hosts file."},
			"key_is_encrypted":        {run: sshKeyIsEncrypted, doc: "Say whether a private key file has a passphrase."},
		},
	}
}

// refineEnc is the full name of a kind of key.
func refineEnc(enc string) (string, error) {
	switch enc {
	case "r", "rsa", "ssh-rsa":
		return "ssh-rsa", nil
	case "d", "dsa", "dss", "ssh-dss":
		return "ssh-dss", nil
	case "e", "ecdsa":
		return "ecdsa-sha2-nistp256", nil
	case "ed25519", "ssh-ed25519":
		return "ssh-ed25519", nil
	case "ecdsa-sha2-nistp521", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp256",
		"rsa-sha2-512", "rsa-sha2-256", "rsa-sha2-512-cert-v01@openssh.com", "rsa-sha2-256-cert-v01@openssh.com", "ssh-rsa-cert-v01@openssh.com",
		"ecdsa-sha2-nistp256-cert-v01@openssh.com", "ecdsa-sha2-nistp384-cert-v01@openssh.com", "ecdsa-sha2-nistp521-cert-v01@openssh.com",
		"sk-ecdsa-sha2-nistp256@openssh.com", "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com", "ssh-ed25519-cert-v01@openssh.com",
		"sk-ssh-ed25519@openssh.com", "sk-ssh-ed25519-cert-v01@openssh.com":
		return enc, nil
	}
	return "", ExecErrorf("Incorrect encryption key type '%s'.", enc)
}

// sshFingerprint is the hash of a key as pairs; ok is false if it is no key.
func sshFingerprint(key string, hashType any) (fp string, ok bool, err error) {
	kind := "sha256"
	if Truth(hashType) {
		kind = strings.ToLower(Str(hashType))
	}
	h := newHash(kind)
	if h == nil {
		return "", false, ExecErrorf("The fingerprint_hash_type %s is not supported.", kind)
	}
	raw, derr := base64.StdEncoding.DecodeString(key)
	if derr != nil {
		return "", false, nil
	}
	h.Write(raw)
	text := hex.EncodeToString(h.Sum(nil))
	var pairs []string
	for i := 0; i+1 < len(text); i += 2 {
		pairs = append(pairs, text[i:i+2])
	}
	return strings.Join(pairs, ":"), true, nil
}

// authKey is one line of an authorized_keys file.
type authKey struct {
	key, enc, comment string
	options           []string
	fingerprint       string
}

func (k authKey) line() string {
	line := ""
	if len(k.options) > 0 {
		line = strings.Join(k.options, ",") + " "
	}
	return line + k.enc + " " + k.key + " " + k.comment + "\n"
}

func authLinePattern() *regexp.Regexp {
	return regexp.MustCompile(`^(.*?)\s?((?:sk-)?(?:ssh-|ecds)[\w@.-]+\s.+)$`)
}

// parseAuthLine reads one line; ok is false if it is no key.
func parseAuthLine(line string) (k authKey, ok bool) {
	m := authLinePattern().FindStringSubmatch(pyStrip(line))
	if m == nil || strings.HasPrefix(pyStrip(line), "#") {
		return k, false
	}
	f := pyFields(m[2])
	if len(f) < 2 {
		return k, false
	}
	if m[1] != "" {
		k.options = strings.Split(m[1], ",")
	}
	k.enc, k.key, k.comment = f[0], f[1], strings.Join(f[2:], " ")
	return k, true
}

// readAuthKeys reads the keys of a file in order.
func readAuthKeys(path string, hashType any) ([]authKey, error) {
	lines, err := fileLines(path)
	if err != nil {
		return nil, ExecErrorf("Problem reading ssh key file %s", path)
	}
	var out []authKey
	for _, line := range lines {
		k, ok := parseAuthLine(line)
		if !ok {
			continue
		}
		fp, ok, err := sshFingerprint(k.key, hashType)
		if err != nil {
			return nil, err
		}
		if ok {
			k.fingerprint = fp
			out = append(out, k)
		}
	}
	return out, nil
}

// authKeysFile is the path of a user's file: %u and %h stand for name and home.
func authKeysFile(user, config string) (string, passwdEntry, error) {
	u, ok := userByName(user)
	if !ok {
		return "", u, ExecErrorf("User '%s' does not exist", user)
	}
	var b strings.Builder
	escape := false
	for _, r := range config {
		switch {
		case escape && r == '%':
			b.WriteRune('%')
		case escape && r == 'u':
			b.WriteString(user)
		case escape && r == 'h':
			b.WriteString(u.home)
		case escape:
			return "", u, ExecErrorf("AuthorizedKeysFile path: unknown token character \"%%%c\"", r)
		case r == '%':
			escape = true
			continue
		default:
			b.WriteRune(r)
		}
		escape = false
	}
	if escape {
		return "", u, ExecErrorf("AuthorizedKeysFile path: Last character can't be escape character")
	}
	path := b.String()
	if !filepath.IsAbs(path) {
		path = filepath.Join(u.home, path)
	}
	return path, u, nil
}

type sshHostKeysArgs struct {
	Keydir  any  `def:"None"`
	Private bool `def:"True"`
	Certs   bool `def:"True"`
}

func sshHostKeys(_ context.Context, c *Call, a sshHostKeysArgs) (any, error) {
	dir := "/etc/ssh"
	if Truth(a.Keydir) {
		dir = Str(a.Keydir)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, osError(err)
	}
	name := regexp.MustCompile(`^ssh_host_(.+)_key((-cert)?\.pub)?`)
	out := &Map{}
	for _, f := range files {
		m := name.FindStringSubmatch(f.Name())
		if m == nil || m[2] == "" && !a.Private || m[3] != "" && !a.Certs {
			continue
		}
		p, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			c.Log.Debug("ssh.host_keys: " + err.Error())
		}
		text, _ := decodeText(p, "")
		out.Set(m[1]+m[2], pyStrip(text))
	}
	return out, nil
}

type sshAuthKeysArgs struct {
	User                any    `def:"None"`
	Config              string `def:"'.ssh/authorized_keys'"`
	FingerprintHashType any    `def:"None"`
}

func sshKeyMap(keys []authKey) *Map {
	out := &Map{}
	for _, k := range keys {
		out.Set(k.key, NewMap("enc", k.enc, "comment", k.comment, "options", Strings(k.options), "fingerprint", k.fingerprint))
	}
	return out
}

// keysOf reads the keys of one user; found is false if there is no file.
func keysOf(user, config string, hashType any) (keys []authKey, found bool, err error) {
	path, _, err := authKeysFile(user, config)
	if err != nil || !isFile(path) {
		return nil, false, nil
	}
	keys, err = readAuthKeys(path, hashType)
	return keys, true, err
}

func sshAuthKeys(_ context.Context, _ *Call, a sshAuthKeysArgs) (any, error) {
	single := false
	var users []string
	switch u := a.User.(type) {
	case *List:
		users = namesOf(u.Items)
	default:
		if Truth(u) {
			users, single = []string{Str(u)}, true
		}
	}
	if len(users) == 0 {
		for _, u := range allUsers("") {
			users = append(users, u.name)
		}
		users = sortedSet(users)
	}
	out := &Map{}
	for _, u := range users {
		keys, found, err := keysOf(u, a.Config, a.FingerprintHashType)
		if err != nil {
			return nil, err
		}
		if found {
			out.Set(u, sshKeyMap(keys))
		}
	}
	if single {
		if m := out.Map(users[0]); m != nil {
			return m, nil
		}
		return &Map{}, nil
	}
	return out, nil
}

type sshCheckKeyArgs struct {
	User                string
	Key                 string
	Enc                 string
	Comment             any
	Options             any
	Config              string `def:"'.ssh/authorized_keys'"`
	CacheKeys           any    `def:"None"`
	FingerprintHashType any    `def:"None"`
}

func optionWords(v any) []string {
	if !Truth(v) {
		return nil
	}
	if s, ok := v.(string); ok {
		// As a sequence of characters, which is what joining a text means.
		return strings.Split(s, "")
	}
	return namesOf(toItems(v))
}

func checkKey(user string, k authKey, config string, hashType any) (string, error) {
	keys, _, err := keysOf(user, config, hashType)
	if err != nil {
		return "", err
	}
	for _, have := range keys {
		if have.key == k.key {
			if have.line() != k.line() {
				return "update", nil
			}
			return "exists", nil
		}
	}
	return "add", nil
}

func sshCheckKey(_ context.Context, _ *Call, a sshCheckKeyArgs) (any, error) {
	enc, err := refineEnc(a.Enc)
	if err != nil {
		return nil, err
	}
	return checkKey(a.User, authKey{key: a.Key, enc: enc, comment: Str(a.Comment), options: optionWords(a.Options)}, a.Config, a.FingerprintHashType)
}

type sshKeyFileArgs struct {
	User                string
	Source              string
	Config              string `def:"'.ssh/authorized_keys'"`
	Saltenv             string `def:"'base'"`
	FingerprintHashType any    `def:"None"`
}

// sourceKeys reads the keys of a file of the file server. ok is false if it has
// none.
func sourceKeys(ctx context.Context, c *Call, source, saltenv string, hashType any) (keys []authKey, ok bool, err error) {
	path, err := c.Run(ctx, "cp.cache_file", source, saltenv)
	if err != nil {
		return nil, false, err
	}
	if !Truth(path) || !isFile(Str(path)) {
		return nil, false, ExecErrorf("Failed to pull key file from salt file server")
	}
	keys, err = readAuthKeys(Str(path), hashType)
	if err == nil && len(keys) == 0 {
		why := "No keys detected in " + source + ". Is file properly formatted?"
		c.Log.Error(why)
		c.ContextSet("ssh_auth.error", why)
		return nil, false, nil
	}
	return keys, true, err
}

func sshCheckKeyFile(ctx context.Context, c *Call, a sshKeyFileArgs) (any, error) {
	keys, ok, err := sourceKeys(ctx, c, a.Source, a.Saltenv, a.FingerprintHashType)
	if isExecError(err) { // no such file: nothing to check
		return &Map{}, nil
	}
	if err != nil || !ok {
		return &Map{}, err
	}
	out := &Map{}
	for _, k := range keys {
		word, err := checkKey(a.User, k, a.Config, a.FingerprintHashType)
		if err != nil {
			return nil, err
		}
		out.Set(k.key, word)
	}
	return out, nil
}

type sshSetKeyArgs struct {
	User                string
	Key                 string
	Enc                 string `def:"'ssh-rsa'"`
	Comment             any    `def:"''"`
	Options             any    `def:"None"`
	Config              string `def:"'.ssh/authorized_keys'"`
	CacheKeys           any    `def:"None"`
	FingerprintHashType any    `def:"None"`
}

func sshSetAuthKey(_ context.Context, _ *Call, a sshSetKeyArgs) (any, error) {
	if len(pyFields(a.Key)) > 1 {
		return "invalid", nil
	}
	enc, err := refineEnc(a.Enc)
	if err != nil {
		return nil, err
	}
	return setKey(a.User, authKey{key: a.Key, enc: enc, comment: Str(a.Comment), options: optionWords(a.Options)}, a.Config, a.FingerprintHashType)
}

func setKey(user string, k authKey, config string, hashType any) (string, error) {
	path, u, err := authKeysFile(user, config)
	if err != nil {
		return "fail", nil
	}
	if strings.ContainsAny(k.comment+strings.Join(k.options, ""), "\n") {
		return "", InvocationErrorf("comment and options of a key must be one line")
	}
	if _, ok, err := sshFingerprint(k.key, hashType); err != nil || !ok {
		return "Invalid public key", err
	}
	status, err := checkKey(user, k, config, hashType)
	if err != nil {
		return "", err
	}
	switch status {
	case "exists":
		return "no change", nil
	case "update":
		err := rewriteKeys(path, func(have authKey) string {
			if have.key == k.key {
				return k.line()
			}
			return have.line()
		})
		return "replace", err
	}
	if strings.HasPrefix(path, u.home) && !isDir(u.home) {
		return "fail", nil
	}
	if err := makeKeyDir(filepath.Dir(path), u); err != nil {
		return "", err
	}
	old, err := os.ReadFile(path)
	fresh := os.IsNotExist(err)
	text := string(old)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if err := replaceSystemFile(path, []byte(text+k.line()), 0o600); err != nil {
		return "", ExecErrorf("Could not write to key file: %s", osErrorText(err))
	}
	if fresh && os.Geteuid() == 0 {
		if err := os.Chown(path, u.uid, u.gid); err != nil {
			return "", osError(err)
		}
	}
	return "new", nil
}

// makeKeyDir makes the directory of a user's keys, if it is not there.
func makeKeyDir(dir string, u passwdEntry) error {
	if isDir(dir) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return osError(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, u.uid, u.gid); err != nil {
			return osError(err)
		}
	}
	return nil
}

// rewriteKeys writes a key file anew: f gives the line of each key, "" to drop it.
// Other lines stay, empty ones go.
func rewriteKeys(path string, f func(authKey) string) error {
	lines, err := fileLines(path)
	if err != nil {
		return ExecErrorf("Problem reading or writing to key file: %s", osErrorText(err))
	}
	var b strings.Builder
	for _, line := range lines {
		line = pyStrip(line)
		if line == "" {
			continue
		}
		k, ok := parseAuthLine(line)
		if !ok {
			b.WriteString(line + "\n")
			continue
		}
		if out := f(k); out != k.line() {
			b.WriteString(out)
		} else {
			b.WriteString(line + "\n")
		}
	}
	if err := replaceSystemFile(path, []byte(b.String()), 0o600); err != nil {
		return ExecErrorf("Problem reading or writing to key file: %s", osErrorText(err))
	}
	return nil
}

type sshSetKeyFileArgs struct {
	User                string
	Source              string
	Config              string `def:"'.ssh/authorized_keys'"`
	Saltenv             string `def:"'base'"`
	FingerprintHashType any    `def:"None"`
	Kwargs              *Map   `arg:"**kwargs"`
}

func sshSetAuthKeyFromFile(ctx context.Context, c *Call, a sshSetKeyFileArgs) (any, error) {
	keys, ok, err := sourceKeys(ctx, c, a.Source, a.Saltenv, a.FingerprintHashType)
	if err != nil {
		return nil, err
	}
	if !ok {
		return "fail", nil
	}
	seen := map[string]bool{}
	for _, k := range keys {
		if v := a.Kwargs.Value("options"); Truth(v) {
			k.options = optionWords(v)
		}
		word, err := setKey(a.User, k, a.Config, a.FingerprintHashType)
		if err != nil {
			return nil, err
		}
		seen[word] = true
	}
	for _, word := range []string{"fail", "replace", "new"} {
		if seen[word] {
			return word, nil
		}
	}
	return "no change", nil
}

type sshRmKeyArgs struct {
	User                string
	Key                 string
	Config              string `def:"'.ssh/authorized_keys'"`
	FingerprintHashType any    `def:"None"`
}

func rmKey(c *Call, user, key, config string, hashType any) (string, error) {
	keys, _, err := keysOf(user, config, hashType)
	if err != nil {
		return "", err
	}
	there := false
	for _, k := range keys {
		there = there || k.key == key
	}
	if !there {
		return "Key not present", nil
	}
	path, _, err := authKeysFile(user, config)
	if err != nil {
		return "", err
	}
	err = rewriteKeys(path, func(k authKey) string {
		if k.key == key {
			return ""
		}
		return k.line()
	})
	if err != nil {
		c.Log.Warn("Could not read/write key file: " + err.Error())
		return "Key not removed", nil
	}
	return "Key removed", nil
}

func sshRmAuthKey(_ context.Context, c *Call, a sshRmKeyArgs) (any, error) {
	return rmKey(c, a.User, a.Key, a.Config, a.FingerprintHashType)
}

func sshRmAuthKeyFromFile(ctx context.Context, c *Call, a sshKeyFileArgs) (any, error) {
	keys, ok, err := sourceKeys(ctx, c, a.Source, a.Saltenv, a.FingerprintHashType)
	if err != nil {
		return nil, err
	}
	if !ok {
		return "fail", nil
	}
	seen := map[string]bool{}
	for _, k := range keys {
		word, err := rmKey(c, a.User, k.key, a.Config, a.FingerprintHashType)
		if err != nil {
			return nil, err
		}
		seen[word] = true
	}
	for _, word := range []string{"Key not removed", "Key removed"} {
		if seen[word] {
			return word, nil
		}
	}
	return "Key not present", nil
}

type sshUserKeysArgs struct {
	User    any `def:"None"`
	Pubfile any `def:"None"`
	Prvfile any `def:"None"`
}

func sshUserKeys(_ context.Context, _ *Call, a sshUserKeysArgs) (any, error) {
	users := namesOf(toItems(a.User))
	if !Truth(a.User) {
		users = nil
		for _, u := range allUsers("") {
			users = append(users, u.name)
		}
		users = sortedSet(users)
	}
	var files []string
	add := func(v any, usual []string) {
		if Truth(v) {
			files = append(files, Str(v))
		} else if v != false {
			files = append(files, usual...)
		}
	}
	add(a.Pubfile, []string{"id_rsa.pub", "id_dsa.pub", "id_ecdsa.pub", "id_ed25519.pub"})
	add(a.Prvfile, []string{"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"})
	out := &Map{}
	for _, name := range users {
		u, ok := userByName(name)
		if !ok {
			continue
		}
		keys := &Map{}
		for _, f := range files {
			path := f
			if !filepath.IsAbs(f) {
				path = filepath.Join(u.home, ".ssh", f)
			}
			if p, err := os.ReadFile(path); err == nil {
				text, _ := decodeText(p, "")
				keys.Set(filepath.Base(f), pyStrip(text))
			}
		}
		if keys.Len() > 0 {
			out.Set(name, keys)
		}
	}
	return out, nil
}

type sshKeyArgs struct{ Key string }

// sshKeyIsEncrypted looks at the head of a private key file: the word of the old
// formats, the cipher's name of OpenSSH's own.
func sshKeyIsEncrypted(_ context.Context, _ *Call, a sshKeyArgs) (any, error) {
	path := expandUser(a.Key)
	p, err := os.ReadFile(path)
	if err != nil {
		return nil, ExecErrorf("%s does not exist", path)
	}
	text := string(p)
	if strings.Contains(text, "ENCRYPTED") {
		return true, nil
	}
	_, body, ok := strings.Cut(text, "-----BEGIN OPENSSH PRIVATE KEY-----")
	if !ok {
		return false, nil
	}
	body, _, _ = strings.Cut(body, "-----END")
	raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(body), ""))
	if err != nil {
		return false, nil
	}
	const magic = "openssh-key-v1\x00"
	rest, ok := strings.CutPrefix(string(raw), magic)
	return ok && len(rest) > 8 && rest[4:8] != "none", nil
}

// keepOwner gives a file to a user, if we may.
func keepOwner(path string, user any) error {
	if !Truth(user) || os.Geteuid() != 0 {
		return nil
	}
	u, ok := userByName(Str(user))
	if !ok {
		return nil
	}
	err := os.Chown(path, u.uid, u.gid)
	if err == syscall.ENOENT {
		return nil
	}
	return err
}
