// Managing keys: what salt-key does on the key directory. Results have the shape
// that it shows: a map from a state to names, or to a map from name to text.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// keyLocal is the place of the master's own key files among states.
const keyLocal = "local"

// KeyManager acts on the keys of a master and on what hangs on them: events,
// the change of the session key, data kept of minions.
type KeyManager struct {
	dir      *KeyDir
	cachedir string
	masterID string
	user     string
	hashType string
	rotate   bool // rotate_aes_key
	keepData bool // preserve_minion_cache
	keepOwn  bool // preserve_minions: only the data of those that are deleted now
	signName string
	sigFile  string
	signPass string
	keysize  int
	fire     func(tag string, data *Map)
}

// NewKeyManager takes what it needs from the options of a master. fire puts an
// event on the bus; it may be nil.
func NewKeyManager(o *Options, fire func(tag string, data *Map)) *KeyManager {
	m := &KeyManager{
		dir: OpenKeyDir(o.Path("pki_dir")), cachedir: o.Path("cachedir"), masterID: o.Str("id"),
		user: o.Str("user"), hashType: o.Str("hash_type"), rotate: isTrueText(o.Value("rotate_aes_key")),
		keepData: o.Bool("preserve_minion_cache"), keepOwn: isTrueText(o.Value("preserve_minions")),
		signName: o.Str("master_sign_key_name"), sigFile: o.Str("master_pubkey_signature"),
		signPass: o.Str("signing_key_pass"), keysize: o.Int("keysize"), fire: fire,
	}
	if m.fire == nil {
		m.fire = func(string, *Map) {}
	}
	if m.signName == "" {
		m.signName = "master_sign"
	}
	if m.sigFile == "" {
		m.sigFile = "master_pubkey_signature"
	}
	return m
}

// isTrueText is the truth of an option that the command line gives as text.
func isTrueText(v any) bool {
	if s, ok := v.(string); ok {
		return !strings.EqualFold(s, "false") && s != ""
	}
	return Truth(v)
}

// List is every state with its ids.
func (m *KeyManager) List() (*Map, error) {
	all := NewMap()
	for _, state := range KeyStates() {
		ids, err := m.dir.List(state)
		if err != nil {
			return nil, err
		}
		all.Set(state, Strings(ids))
	}
	return all, nil
}

// ListState is the list of the state that a word of the command line means.
func (m *KeyManager) ListState(word string) (*Map, error) {
	state := ""
	switch {
	case strings.HasPrefix(word, "acc"):
		state = KeyAccepted
	case strings.HasPrefix(word, "pre"), strings.HasPrefix(word, "un"):
		state = KeyPending
	case strings.HasPrefix(word, "rej"):
		state = KeyRejected
	case strings.HasPrefix(word, "den"):
		state = KeyDenied
	case strings.HasPrefix(word, "all"):
		return m.List()
	default:
		return NewMap(), nil
	}
	ids, err := m.dir.List(state)
	if err != nil {
		return nil, err
	}
	return NewMap(state, Strings(ids)), nil
}

// localKeys are the key files of the master itself.
func (m *KeyManager) localKeys() ([]string, error) {
	entries, err := os.ReadDir(m.dir.Dir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	var names []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext == ".pub" || ext == ".pem" {
			if info, err := os.Stat(filepath.Join(m.dir.Dir(), e.Name())); err == nil && info.Mode().IsRegular() {
				names = append(names, e.Name())
			}
		}
	}
	sortIgnoringCase(names)
	return names, nil
}

// Match is every state with those of its ids that fit a pattern or one of a
// comma list of patterns; states without a match are not in it.
func (m *KeyManager) Match(pattern string, local bool) (*Map, error) {
	all, err := m.List()
	if err != nil {
		return nil, err
	}
	if local {
		names, err := m.localKeys()
		if err != nil {
			return nil, err
		}
		all.Set(keyLocal, Strings(names))
	}
	var globs []*Glob
	for _, p := range strings.Split(pattern, ",") {
		globs = append(globs, CompileGlob(p))
	}
	found := NewMap()
	for state, names := range all.All() {
		var matches []string
		for _, name := range names.(*List).Items {
			for _, g := range globs {
				if g.Match(name.(string)) {
					matches = append(matches, name.(string))
					break
				}
			}
		}
		if len(matches) > 0 {
			found.Set(state, Strings(matches))
		}
	}
	return found, nil
}

// texts makes a map of state → name → f(text of the key).
func (m *KeyManager) texts(matches *Map, f func([]byte) string) (*Map, error) {
	all := NewMap()
	for state, names := range matches.All() {
		of := NewMap()
		for _, name := range listItems(names) {
			id, _ := name.(string)
			var text []byte
			var err error
			if state == keyLocal {
				text, err = os.ReadFile(filepath.Join(m.dir.Dir(), filepath.Base(id)))
			} else {
				text, err = m.dir.Get(Str(state), id)
			}
			if errors.Is(err, ErrNoKey) {
				continue // it went while we looked
			}
			if err != nil {
				return nil, err
			}
			of.Set(id, f(text))
		}
		all.Set(state, of)
	}
	return all, nil
}

func listItems(v any) []any {
	switch v := v.(type) {
	case *List:
		return v.Items
	case Tuple:
		return v
	}
	return nil
}

// Print is the text of the keys that match.
func (m *KeyManager) Print(pattern string) (*Map, error) {
	matches, err := m.Match(pattern, false)
	if err != nil {
		return nil, err
	}
	return m.texts(matches, func(text []byte) string { return string(text) })
}

// Fingers are the fingerprints of the keys that match, the master's own files
// among them.
func (m *KeyManager) Fingers(pattern, hashType string) (*Map, error) {
	if hashType == "" {
		hashType = m.hashType
	}
	if hashByName(hashType) == nil {
		return nil, fmt.Errorf("hash type %q does not exist", hashType)
	}
	matches, err := m.Match(pattern, true)
	if err != nil {
		return nil, err
	}
	return m.texts(matches, func(text []byte) string { return Fingerprint(text, hashType) })
}

// KeyInclude says in which states besides pending an action looks.
type KeyInclude struct{ Accepted, Rejected, Denied bool }

func (i KeyInclude) states() []string {
	states := []string{KeyPending}
	if i.Accepted {
		states = append(states, KeyAccepted)
	}
	if i.Rejected {
		states = append(states, KeyRejected)
	}
	if i.Denied {
		states = append(states, KeyDenied)
	}
	return states
}

// Accept accepts the matched keys. Done are the ids in order, bad those whose
// text is no key.
func (m *KeyManager) Accept(matches *Map, include KeyInclude) (done, bad []string, err error) {
	include.Accepted = false
	for _, state := range include.states() {
		for _, name := range listItems(matches.Value(state)) {
			id := Str(name)
			text, err := m.dir.Get(state, id)
			if errors.Is(err, ErrNoKey) {
				continue
			}
			if err != nil {
				return done, bad, err
			}
			if _, err := ParsePublicKey(text); err != nil {
				bad = append(bad, id)
				continue
			}
			if err := m.dir.Move(id, state, KeyAccepted); err != nil {
				return done, bad, err
			}
			m.fireKey("accept", id)
			done = append(done, id)
		}
	}
	return done, bad, nil
}

// Reject rejects the matched keys.
func (m *KeyManager) Reject(matches *Map, include KeyInclude) (done []string, err error) {
	include.Rejected = false
	for _, state := range include.states() {
		for _, name := range listItems(matches.Value(state)) {
			id := Str(name)
			err := m.dir.Move(id, state, KeyRejected)
			if errors.Is(err, ErrNoKey) {
				continue
			}
			if err != nil {
				return done, err
			}
			m.fireKey("reject", id)
			done = append(done, id)
		}
	}
	return done, m.afterRemoval(done, nil)
}

// Delete deletes the matched keys in the states in which they matched.
func (m *KeyManager) Delete(matches *Map) (done []string, err error) {
	for state, names := range matches.All() {
		for _, name := range listItems(names) {
			id := Str(name)
			err := m.dir.Remove(Str(state), id)
			if errors.Is(err, ErrNoKey) {
				continue
			}
			if err != nil {
				return done, err
			}
			m.fireKey("delete", id)
			done = append(done, id)
		}
	}
	var keep []string
	if m.keepOwn {
		keep = done
	}
	return done, m.afterRemoval(done, keep)
}

func (m *KeyManager) fireKey(act, id string) {
	m.fire("salt/key", NewMap("result", true, "act", act, "id", id))
}

// afterRemoval ends what rejected or deleted ids had: their session keys, the
// session key of all, and the data kept of ids that have no key any more.
func (m *KeyManager) afterRemoval(ids, keep []string) error {
	for _, id := range ids {
		if ValidMinionID(id) == nil && !m.dir.Has(KeyAccepted, id) {
			if err := forgetSession(filepath.Join(m.cachedir, "sessions"), id); err != nil {
				return err
			}
		}
	}
	if !m.keepData {
		if err := m.removeData(keep); err != nil {
			return err
		}
	}
	if m.rotate {
		return RequestKeyRotation(m.cachedir, m.masterID, m.user)
	}
	return nil
}

// removeData removes the data of ids that have no key in any state.
func (m *KeyManager) removeData(keep []string) error {
	dir := filepath.Join(m.cachedir, "minions")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("clean the data of minions: %w", err)
	}
	kept := map[string]bool{}
	for _, id := range keep {
		kept[id] = true
	}
	for _, state := range KeyStates() {
		ids, err := m.dir.List(state)
		if err != nil {
			return err
		}
		for _, id := range ids {
			kept[id] = true
		}
	}
	for _, e := range entries {
		if !kept[e.Name()] {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("clean the data of minions: %w", err)
			}
		}
	}
	return nil
}

// RequestKeyRotation leaves the file that makes a running master change its AES
// key. Since 3007 it names the master that is meant.
func RequestKeyRotation(cachedir, masterID, owner string) error {
	path := filepath.Join(cachedir, keyDropFile)
	if _, err := os.Lstat(path); err == nil {
		return nil // already asked for
	}
	if err := os.MkdirAll(cachedir, 0o755); err != nil {
		return fmt.Errorf("ask for a new AES key: %w", err)
	}
	if err := writeFileAtomic(path, []byte(masterID), 0o400); err != nil {
		return err
	}
	return giveTo(owner, path)
}

const keyDropFile = ".dfn"

// giveTo makes a user the owner of files that root made. Other users own what
// they make anyway.
func giveTo(owner string, paths ...string) error {
	if owner == "" || owner == "root" || os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup(owner)
	if err != nil {
		return nil // the daemon will tell that there is no such user
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil
	}
	for _, p := range paths {
		if err := os.Lchown(p, uid, -1); err != nil {
			return err
		}
	}
	return nil
}

// Generate makes a key pair in a directory and returns its fingerprint. A pair
// that is there stays.
func (m *KeyManager) Generate(dir, name string, bits int, owner string) (string, error) {
	if err := ValidMinionID(name); err != nil {
		return "", fmt.Errorf("name of the key pair: %w", err)
	}
	text, err := GenerateKeyFiles(dir, name, bits)
	if err != nil {
		return "", err
	}
	if err := giveTo(owner, KeyPath(dir, name), filepath.Join(dir, name+".pub")); err != nil {
		return "", err
	}
	return Fingerprint(text, "sha256"), nil
}

// SignMaster is `--gen-signature`: it signs the master's public key and writes
// the signature. The result is what Salt answers: true, false if there is a
// signature already, or a text that says what is missing.
func (m *KeyManager) SignMaster(priv, pub, sigDir string, create bool, bits int) (any, error) {
	isFile := func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.Mode().IsRegular()
	}
	pki := m.dir.Dir()
	if pub != "" && !isFile(pub) {
		return fmt.Sprintf("Public-key %s does not exist", pub), nil
	}
	if pub == "" && isFile(filepath.Join(pki, "master.pub")) {
		pub = filepath.Join(pki, "master.pub")
	}
	if priv != "" && !isFile(priv) {
		return fmt.Sprintf("Private-key %s does not exist", priv), nil
	}
	if priv == "" && isFile(KeyPath(pki, m.signName)) {
		priv = KeyPath(pki, m.signName)
	}
	if priv == "" {
		if !create {
			return "No usable private-key found", nil
		}
		if _, err := LoadOrCreateKey(pki, m.signName, bits); err != nil {
			return nil, err
		}
		priv = KeyPath(pki, m.signName)
		if err := giveTo(m.user, priv, filepath.Join(pki, m.signName+".pub")); err != nil {
			return nil, err
		}
	}
	if pub == "" {
		return "No usable public-key found", nil
	}
	if sigDir == "" {
		sigDir = pki
	}
	keyText, err := os.ReadFile(priv)
	if err != nil {
		return nil, err
	}
	signer, err := ParsePrivateKey(keyText, m.signPass)
	if err != nil {
		return nil, fmt.Errorf("read key %s: %w", priv, err)
	}
	pubText, err := os.ReadFile(pub)
	if err != nil {
		return nil, err
	}
	sig, err := signer.SignPub(AlgoPKCS1v15SHA1, string(pubText))
	if err != nil {
		return nil, err
	}
	path := filepath.Join(sigDir, m.sigFile)
	if isFile(path) {
		return false, nil
	}
	return true, writeFileAtomic(path, []byte(sig), 0o644)
}
