// Login: how a minion proves itself to a master and checks that the master is
// the one it knows.
//
// The law of this file: nothing of a reply is used or stored before everything
// in it was checked, and the master's key is stored last. One attempt sends one
// request; how often to try is the caller's business, by the kind of the error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// The refusals of a login that are told apart.
var (
	errAuthPending   = errors.New("the master has not accepted this minion's key yet")
	errAuthRefused   = errors.New("the master rejected this minion's key")
	errAuthFull      = errors.New("the master has as many minions as it takes (max_minions)")
	errMasterChanged = errors.New("the master's key has changed")
)

// ExitError ends the program with a code that init scripts know. Err is nil
// when everything has been said.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}
func (e *ExitError) Unwrap() error { return e.Err }

const (
	exitMasterFinger = 42 // the master's fingerprint is not the configured one
	exitKeyRejected  = 77 // the master rejected our key
)

// Credentials are what a minion proves itself with.
type Credentials struct {
	ID  string
	Key *PrivateKey
	// Tok is the signature that every request carries. It is always the same,
	// so it is made once, when it is first needed.
	Tok func() ([]byte, error)
}

// NewCredentials makes the credentials of a minion.
func NewCredentials(id string, key *PrivateKey) *Credentials {
	return &Credentials{ID: id, Key: key, Tok: sync.OnceValues(func() ([]byte, error) {
		return key.SignX931([]byte("salt"))
	})}
}

// MasterKeyStore remembers the master's public key between logins.
type MasterKeyStore interface {
	Load() ([]byte, error) // fs.ErrNotExist when none was stored yet
	Store(pem []byte) error
}

// masterKeyFile is the store of a real minion.
type masterKeyFile string

func (f masterKeyFile) Load() ([]byte, error) {
	text, err := os.ReadFile(string(f))
	if err == nil && len(strings.TrimSpace(string(text))) == 0 {
		// A power cut between creation and writing: as good as no file.
		return nil, fs.ErrNotExist
	}
	return text, err
}

func (f masterKeyFile) Store(pem []byte) error {
	return writeFileAtomic(string(f), pem, 0o644)
}

// LoginPolicy are the options that decide what a login sends and takes.
type LoginPolicy struct {
	EncAlgo, SigAlgo string
	OpenMode         bool   // take a changed master key
	SignKey          string // path of the key that must have signed the master's; "" = no check
	AlwaysVerify     bool   // check that signature also for a key that is known
	Finger, HashType string // expected fingerprint of the master; "" = any
	AutosignGrains   *Map
	Keys             MasterKeyStore
}

// loginPolicy reads the policy from a minion's options.
func loginPolicy(o *Options, grains *Map) (LoginPolicy, error) {
	dir := o.Path("pki_dir")
	p := LoginPolicy{
		EncAlgo: o.Str("encryption_algorithm"), SigAlgo: o.Str("signing_algorithm"),
		OpenMode: o.Bool("open_mode"), AlwaysVerify: o.Bool("always_verify_signature"),
		Finger: o.Str("master_finger"), HashType: o.Str("hash_type"),
		Keys: masterKeyFile(filepath.Join(dir, "minion_master.pub")),
	}
	if p.EncAlgo == "" {
		p.EncAlgo = AlgoOAEPSHA1
	}
	if p.SigAlgo == "" {
		p.SigAlgo = AlgoPKCS1v15SHA1
	}
	if !ValidEncAlgo(p.EncAlgo) {
		return p, fmt.Errorf("encryption_algorithm: %q is none; use %s or %s", p.EncAlgo, AlgoOAEPSHA1, AlgoOAEPSHA224)
	}
	if !ValidSigAlgo(p.SigAlgo) {
		return p, fmt.Errorf("signing_algorithm: %q is none; use %s or %s", p.SigAlgo, AlgoPKCS1v15SHA1, AlgoPKCS1v15SHA224)
	}
	if o.Bool("verify_master_pubkey_sign") {
		name := o.Str("master_sign_key_name")
		if name == "" {
			name = "master_sign"
		}
		p.SignKey = filepath.Join(dir, name+".pub")
	}
	for _, name := range o.List("autosign_grains") {
		if v, ok := grains.Get(name); ok {
			if p.AutosignGrains == nil {
				p.AutosignGrains = NewMap()
			}
			p.AutosignGrains.Set(name, v)
		}
	}
	return p, nil
}

// Session is what a login yields.
type Session struct {
	Version     int // 3, or 2 with a master that has no session keys
	PublishPort int
	Master      *PublicKey
	AES         *Crypticle // of publications
	Requests    *Crypticle // of requests and their replies

	aesText string
}

// SharesAES says whether two sessions have the key of publications in common.
func (s *Session) SharesAES(other *Session) bool {
	return s != nil && other != nil && s.aesText == other.aesText
}

// Login does one login over exchange, which carries a request to the master and
// brings its reply. old is the session to replace, or nil: while the master's
// key for publications stays the same, its memory of serials is kept.
func Login(ctx context.Context, exchange func(context.Context, []byte) ([]byte, error), c *Credentials, p LoginPolicy, old *Session) (*Session, error) {
	known, err := storedMasterKey(p)
	if err != nil {
		return nil, err
	}
	req := &AuthRequest{
		Version: protocolVersion, ID: c.ID, Nonce: NewNonce(), EncAlgo: p.EncAlgo, SigAlgo: p.SigAlgo,
		Pub: CleanKey(c.Key.PublicPEM()), AutosignGrains: p.AutosignGrains,
	}
	token := ""
	if known != nil {
		token = GenerateKeyString()
		if req.Token, err = known.EncryptOAEP(p.EncAlgo, []byte(token)); err != nil {
			return nil, fmt.Errorf("encrypt the login token: %w", err)
		}
	}
	body, err := req.Encode()
	if err != nil {
		return nil, err
	}
	if body, err = exchange(ctx, body); err != nil {
		return nil, fmt.Errorf("login: %w", err)
	}
	reply, err := DecodeAuthReply(body)
	if err != nil {
		return nil, err
	}
	return checkLogin(req, reply, token, known, c, p, old)
}

// storedMasterKey is the master's key as it was stored, nil before the first
// contact.
func storedMasterKey(p LoginPolicy) (*PublicKey, error) {
	text, err := p.Keys.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the stored key of the master: %w", err)
	}
	key, err := ParsePublicKey(text)
	if err != nil {
		return nil, fmt.Errorf("read the stored key of the master: %w; remove minion_master.pub from pki_dir to trust the master anew", err)
	}
	return key, nil
}

// checkLogin does every check of a reply and stores the master's key.
func checkLogin(req *AuthRequest, r *AuthReply, token string, known *PublicKey, c *Credentials, p LoginPolicy, old *Session) (*Session, error) {
	switch r.Ret {
	case AuthBadEnc:
		return nil, fmt.Errorf("login: the master does not know encryption_algorithm %s", p.EncAlgo)
	case AuthBadSig:
		return nil, fmt.Errorf("login: the master does not know signing_algorithm %s", p.SigAlgo)
	}
	master, err := masterKeyOf(r, known, p)
	if err != nil {
		return nil, err
	}
	if r.Signed == nil {
		return nil, errors.New("login: the master's reply is not signed; its version is too old")
	}
	if master != nil {
		if err := master.Verify(p.SigAlgo, r.Signed, r.Signature); err != nil {
			if r.Ret != AuthAccepted {
				return nil, fmt.Errorf("login: the refusal is not signed by the master that this minion knows: %w", errMasterChanged)
			}
			return nil, fmt.Errorf("login: signature of the reply: %w", err)
		}
	}
	if r.Nonce != req.Nonce {
		return nil, fmt.Errorf("login: %w", ErrBadNonce)
	}
	switch r.Ret {
	case AuthAccepted:
	case AuthPending:
		return nil, errAuthPending
	case AuthRefused:
		return nil, errAuthRefused
	case AuthFull:
		return nil, errAuthFull
	default:
		return nil, fmt.Errorf("login: the master answered %s", r.Ret)
	}
	if known != nil && !known.Equal(master) {
		token = "" // a new master, which we have reason to trust, could not read it
	}
	s, err := openSession(r, token, master, c, p, old)
	if err != nil {
		return nil, err
	}
	if p.Finger != "" {
		if err := CheckMasterFinger(p.Finger, master, p.HashType); err != nil {
			return nil, &ExitError{exitMasterFinger, fmt.Errorf("%w: check on the master with `salt-key -F master`", err)}
		}
	}
	if known == nil || !known.Equal(master) {
		if err := p.Keys.Store([]byte(r.PubKey)); err != nil {
			return nil, fmt.Errorf("store the master's key: %w", err)
		}
	}
	return s, nil
}

// masterKeyOf decides whose signature the reply must carry: the known key, or
// the one in the reply if that may be trusted. It is nil while there is none.
func masterKeyOf(r *AuthReply, known *PublicKey, p LoginPolicy) (*PublicKey, error) {
	if r.Ret != AuthAccepted {
		return known, nil
	}
	master, err := ParsePublicKey([]byte(r.PubKey))
	if err != nil {
		return nil, fmt.Errorf("login: key of the master: %w", err)
	}
	same := known != nil && known.Equal(master)
	switch {
	case p.SignKey == "" && r.PubSig != "":
		return nil, errors.New("login: the master signs its key, but verify_master_pubkey_sign is not set")
	case p.SignKey != "" && r.PubSig == "":
		return nil, errors.New("login: verify_master_pubkey_sign is set, but the master does not sign its key (master_sign_pubkey)")
	case p.SignKey != "" && (!same || p.AlwaysVerify):
		if err := verifyMasterSign(r, p); err != nil {
			return nil, err
		}
	case known != nil && !same && !p.OpenMode:
		return nil, fmt.Errorf("%w: it may be another machine that answers; if the change is right, remove minion_master.pub from pki_dir", errMasterChanged)
	}
	return master, nil
}

// verifyMasterSign checks that the signing key of the installation vouches for
// the master's key.
func verifyMasterSign(r *AuthReply, p LoginPolicy) error {
	text, err := os.ReadFile(p.SignKey)
	if err != nil {
		return fmt.Errorf("login: verify_master_pubkey_sign needs the public signing key: %w", err)
	}
	key, err := ParsePublicKey(text)
	if err != nil {
		return fmt.Errorf("login: read %s: %w", p.SignKey, err)
	}
	if err := key.VerifyPub(p.SigAlgo, r.PubKey, r.PubSig); err != nil {
		return fmt.Errorf("login: the master's key is not signed with %s: %w", filepath.Base(p.SignKey), err)
	}
	return nil
}

// openSession decrypts the keys of an accepted login.
func openSession(r *AuthReply, token string, master *PublicKey, c *Credentials, p LoginPolicy, old *Session) (*Session, error) {
	aes, err := c.Key.DecryptOAEP(p.EncAlgo, r.AES)
	if err != nil {
		return nil, fmt.Errorf("login: decrypt the master's key for publications: %w", err)
	}
	if err := master.VerifyAESDigest(string(aes), r.Sig); err != nil {
		return nil, fmt.Errorf("login: the key for publications is not signed by the master: %w", err)
	}
	if token != "" {
		echo, err := c.Key.DecryptOAEP(p.EncAlgo, r.Token)
		if err != nil || string(echo) != token {
			return nil, errors.New("login: the master did not return our token")
		}
	}
	// Some old masters put the token behind the key.
	aesText, _, _ := strings.Cut(string(aes), "_|-")
	s := &Session{Version: 2, PublishPort: r.PublishPort, Master: master, aesText: aesText}
	if s.SharesAES(old) {
		s.AES = old.AES
	} else if s.AES, err = NewCrypticle(aesText); err != nil {
		return nil, fmt.Errorf("login: key for publications: %w", err)
	}
	s.Requests = s.AES
	if r.Session != nil {
		text, err := c.Key.DecryptOAEP(p.EncAlgo, r.Session)
		if err != nil {
			return nil, fmt.Errorf("login: decrypt the session key: %w", err)
		}
		if s.Requests, err = NewCrypticle(string(text)); err != nil {
			return nil, fmt.Errorf("login: session key: %w", err)
		}
		s.Version = protocolVersion
	}
	return s, nil
}
