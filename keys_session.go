// Keys of the running daemon: session keys of minions, the proof of identity in
// each request, and the signature of the master's public key.
package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// SessionKeys are the session keys of minions. They outlive a restart of the
// master in one file below cachedir, to which a line is added for each new key:
// a file for each minion, as Salt has them, would cost a login more than its
// cryptography. Such files are read where an older master left them. Safe for
// concurrent use.
type SessionKeys struct {
	dir string
	ttl time.Duration

	mu    sync.Mutex
	keys  map[string]sessionKey
	lines int // in the file
}

type sessionKey struct {
	text  string
	c     *Crypticle // made at the first use
	until time.Time
}

const (
	sessionJournal      = ".journal"
	sessionJournalLimit = 256 << 20
)

// OpenSessionKeys uses the directory `sessions` of a cachedir; a key is replaced
// on the first use after ttl (publish_session).
func OpenSessionKeys(cachedir string, ttl time.Duration) (*SessionKeys, error) {
	dir := filepath.Join(cachedir, "sessions")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of session keys: %w", err)
	}
	s := &SessionKeys{dir: dir, ttl: ttl, keys: map[string]sessionKey{}}
	text, err := readRegular(filepath.Join(dir, sessionJournal), sessionJournalLimit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read session keys: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		s.lines++
		var id, key string
		var until int64
		// A line that a crash tore counts as none: the minion will log in again.
		if n, _ := fmt.Sscanf(line, "%s %d %s\n", &id, &until, &key); n != 3 || !strings.HasSuffix(line, "\n") || ValidMinionID(id) != nil {
			continue
		}
		if key == "-" {
			delete(s.keys, id)
			continue
		}
		s.keys[id] = sessionKey{text: key, until: time.Unix(until, 0)}
	}
	if len(text) > 0 && text[len(text)-1] != '\n' { // the next line must not grow together with this one
		return s, s.rewrite()
	}
	return s, nil
}

// Get returns the key of a minion that is logging in, making a new one if there
// is none or it is too old.
func (s *SessionKeys) Get(id string, now time.Time) (string, *Crypticle, error) {
	k, err := s.lookup(id, now, true)
	return k.text, k.c, err
}

// Crypticle is the key for a request of a minion. An id that never logged in
// has none: the error is ErrNoKey, and nothing is written for it.
func (s *SessionKeys) Crypticle(id string, now time.Time) (*Crypticle, error) {
	k, err := s.lookup(id, now, false)
	return k.c, err
}

func (s *SessionKeys) lookup(id string, now time.Time, create bool) (sessionKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.keys[id]
	if ok && now.Before(k.until) && k.c != nil {
		return k, nil
	}
	if err := ValidMinionID(id); err != nil {
		return sessionKey{}, err
	}
	if !ok {
		var err error
		if k, err = s.salts(id); err != nil {
			return sessionKey{}, err
		}
		ok = k.text != ""
	}
	if !ok && !create {
		return sessionKey{}, fmt.Errorf("session of %s: %w", id, ErrNoKey)
	}
	if ok && now.Before(k.until) {
		if c, err := NewCrypticle(k.text); err == nil {
			k.c = c
			s.keys[id] = k
			return k, nil
		}
	}
	// What is there is too old or torn: the minion will log in again.
	k = sessionKey{text: GenerateKeyString(), until: now.Add(s.ttl)}
	var err error
	if k.c, err = NewCrypticle(k.text); err != nil {
		return sessionKey{}, err
	}
	s.keys[id] = k
	if err := s.note(id, k); err != nil {
		return sessionKey{}, err
	}
	return k, nil
}

// salts reads a file of Salt's layout; a key without text is none.
func (s *SessionKeys) salts(id string) (sessionKey, error) {
	path := filepath.Join(s.dir, id)
	text, err := readRegular(path, 1024)
	if errors.Is(err, fs.ErrNotExist) {
		return sessionKey{}, nil
	}
	if err != nil {
		return sessionKey{}, fmt.Errorf("read session key: %w", err)
	}
	k := sessionKey{text: string(bytes.TrimSpace(text))}
	if k.text == "" {
		k.text = "torn"
	}
	if info, err := os.Lstat(path); err == nil {
		k.until = info.ModTime().Add(s.ttl)
	}
	return k, nil
}

// note adds a key to the file, or writes the file anew when most of its lines
// are outdated. The caller holds s.mu.
func (s *SessionKeys) note(id string, k sessionKey) error {
	if s.lines > 2*len(s.keys)+1000 {
		return s.rewrite()
	}
	s.lines++
	return appendSessionLine(s.dir, sessionLine(id, k))
}

// rewrite writes the file anew, with the keys that are in force.
func (s *SessionKeys) rewrite() error {
	var all strings.Builder
	for id, k := range s.keys {
		all.WriteString(sessionLine(id, k))
	}
	s.lines = len(s.keys)
	return writeFileReplace(filepath.Join(s.dir, sessionJournal), []byte(all.String()), 0o600)
}

func sessionLine(id string, k sessionKey) string {
	return fmt.Sprintf("%s %d %s\n", id, k.until.Unix(), k.text)
}

func appendSessionLine(dir, line string) error {
	f, err := os.OpenFile(filepath.Join(dir, sessionJournal), os.O_WRONLY|os.O_CREATE|os.O_APPEND|oNoFollow, 0o600)
	if err != nil {
		return fmt.Errorf("write session key: %w", err)
	}
	_, err = f.WriteString(line)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("write session key: %w", err)
	}
	return nil
}

// Forget drops the key of an id, so that its next request is refused.
func (s *SessionKeys) Forget(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, id)
	s.lines++
	return forgetSession(s.dir, id)
}

// forgetSession drops what is kept of an id in a directory of session keys.
func forgetSession(dir, id string) error {
	if err := ValidMinionID(id); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove session key: %w", err)
	}
	if !fileExists(filepath.Join(dir, sessionJournal)) {
		return nil
	}
	return appendSessionLine(dir, sessionLine(id, sessionKey{text: "-"}))
}

// tokMessage is what every `tok` signs.
const tokMessage = "salt"

// SignTok is the minion's proof of identity. It is the same for the life of the
// key, so sign it once.
func (k *PrivateKey) SignTok() ([]byte, error) { return k.SignX931([]byte(tokMessage)) }

// TokCache checks the `tok` of requests. Having verified one for a key it
// compares bytes from then on. Safe for concurrent use.
type TokCache struct {
	mu    sync.Mutex
	known map[string]knownTok
}

type knownTok struct {
	pem string
	tok []byte
}

// NewTokCache makes an empty cache.
func NewTokCache() *TokCache { return &TokCache{known: map[string]knownTok{}} }

// Verify says whether tok proves that the sender owns the key. A tok that was
// verified for another key of this id does not count.
func (c *TokCache) Verify(id string, pub *PublicKey, tok []byte) bool {
	c.mu.Lock()
	k, ok := c.known[id]
	c.mu.Unlock()
	if ok && k.pem == pub.pem && subtle.ConstantTimeCompare(k.tok, tok) == 1 {
		return true
	}
	msg, err := pub.RecoverX931(tok)
	if err != nil || string(msg) != tokMessage {
		return false
	}
	c.mu.Lock()
	c.known[id] = knownTok{pem: pub.pem, tok: bytes.Clone(tok)}
	c.mu.Unlock()
	return true
}

// Forget drops what is known of an id whose key was removed.
func (c *TokCache) Forget(id string) {
	c.mu.Lock()
	delete(c.known, id)
	c.mu.Unlock()
}

// AESDigest is what `sig` of a login reply signs: the hash of the key string.
func AESDigest(keyString string) []byte {
	sum := sha256.Sum256([]byte(keyString))
	return []byte(hex.EncodeToString(sum[:]))
}

// VerifyAESDigest is the minion's check of `sig` against the decrypted `aes`.
func (k *PublicKey) VerifyAESDigest(keyString string, sig []byte) error {
	msg, err := k.RecoverX931(sig)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(msg, AESDigest(keyString)) != 1 {
		return ErrBadSignature
	}
	return nil
}

// SignPub is `pub_sig`: the signature of the master's public key by the signing
// key, in the form in which it travels.
func (k *PrivateKey) SignPub(algo, pubPEM string) (string, error) {
	sig, err := k.Sign(algo, []byte(CleanKey(pubPEM)))
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(sig) + "\n", nil
}

// VerifyPub is the minion's check of `pub_sig` with the public signing key.
func (k *PublicKey) VerifyPub(algo, pubPEM, pubSig string) error {
	sig, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(pubSig), ""))
	if err != nil {
		return fmt.Errorf("signature of the master's key: %w", err)
	}
	return k.Verify(algo, []byte(CleanKey(pubPEM)), sig)
}

// CheckMasterFinger compares the option master_finger with a key. The text of
// the option may be in upper case and without colons.
func CheckMasterFinger(finger string, pub *PublicKey, hashType string) error {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(strings.TrimSpace(s), ":", "")) }
	have := Fingerprint([]byte(pub.pem), hashType)
	if subtle.ConstantTimeCompare([]byte(plain(finger)), []byte(plain(have))) == 1 {
		return nil
	}
	return fmt.Errorf("master_finger is %s, but the master's key has the fingerprint %s", finger, have)
}
