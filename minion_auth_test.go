// A login takes an honest master and refuses what is not right.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// memoryKeys is a MasterKeyStore without files.
type memoryKeys struct{ pem []byte }

func (k *memoryKeys) Load() ([]byte, error) {
	if k.pem == nil {
		return nil, fs.ErrNotExist
	}
	return k.pem, nil
}

func (k *memoryKeys) Store(pem []byte) error { k.pem = pem; return nil }

// loginBox is a minion and a master that answers one login, honestly unless a
// test bends the reply.
type loginBox struct {
	minion, master *PrivateKey
	aes, session   string
	policy         LoginPolicy
	keys           *memoryKeys
	ret            string
	bend           func(req *AuthRequest, r *AuthReply)
	signWith       *PrivateKey
}

func newLoginBox(minion, master *PrivateKey) *loginBox {
	keys := &memoryKeys{}
	return &loginBox{
		minion: minion, master: master, aes: GenerateKeyString(), session: GenerateKeyString(), keys: keys, signWith: master,
		policy: LoginPolicy{EncAlgo: AlgoOAEPSHA1, SigAlgo: AlgoPKCS1v15SHA1, HashType: "sha256", Keys: keys},
	}
}

func (b *loginBox) login(t *testing.T, old *Session) (*Session, error) {
	t.Helper()
	return Login(t.Context(), func(_ context.Context, body []byte) ([]byte, error) {
		out, err := DecodeRequest(body)
		if err != nil {
			return nil, err
		}
		req, err := DecodeAuthRequest(out)
		if err != nil {
			return nil, err
		}
		r := &AuthReply{Ret: b.ret, Nonce: req.Nonce}
		if b.ret == AuthAccepted {
			seal := func(text string) []byte {
				p, err := b.minion.Pub().EncryptOAEP(req.EncAlgo, []byte(text))
				if err != nil {
					t.Fatal(err)
				}
				return p
			}
			sum := sha256.Sum256([]byte(b.aes))
			r.PubKey, r.PublishPort = CleanKey(b.master.PublicPEM()), 4505
			r.AES, r.Session = seal(b.aes), seal(b.session)
			if r.Sig, err = b.master.SignX931([]byte(hex.EncodeToString(sum[:]))); err != nil {
				t.Fatal(err)
			}
			if req.Token != nil {
				if token, err := b.master.DecryptOAEP(req.EncAlgo, req.Token); err == nil {
					r.Token = seal(string(token))
				}
			}
		}
		if b.bend != nil {
			b.bend(req, r)
		}
		return r.Encode(req.Version, func(msg []byte) ([]byte, error) { return b.signWith.Sign(req.SigAlgo, msg) })
	}, NewCredentials("m1", b.minion), b.policy, old)
}

func TestLoginTakesAnHonestMasterAndRemembersItsKey(t *testing.T) {
	b := newLoginBox(masterTestKeys()[0], masterTestKeys()[1])
	s, err := b.login(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Version != 3 || s.PublishPort != 4505 || s.AES == s.Requests {
		t.Errorf("session is %+v", s)
	}
	if !SameKey(b.keys.pem, []byte(b.master.PublicPEM())) {
		t.Error("the master's key was not stored")
	}
	// The second login sends a token; the same key of publications keeps its
	// memory of serials.
	again, err := b.login(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if again.AES != s.AES || again.Requests == s.Requests {
		t.Error("a login with the same key of publications must keep what it knows of serials")
	}
}

func TestLoginWithoutSessionKeyIsVersion2(t *testing.T) {
	b := newLoginBox(masterTestKeys()[0], masterTestKeys()[1])
	b.bend = func(_ *AuthRequest, r *AuthReply) { r.Session = nil }
	s, err := b.login(t, nil)
	if err != nil || s.Version != 2 || s.Requests != s.AES {
		t.Errorf("session %+v, error %v", s, err)
	}
}

func TestLoginRefusesWhatIsNotRight(t *testing.T) {
	minion, master, other := masterTestKeys()[0], masterTestKeys()[1], masterTestKeys()[2]
	dir := t.TempDir()
	signFile := filepath.Join(dir, "master_sign.pub")
	if err := os.WriteFile(signFile, []byte(other.PublicPEM()), 0o600); err != nil {
		t.Fatal(err)
	}
	known := func(b *loginBox) { b.keys.pem = []byte(master.PublicPEM()) }
	for _, tc := range []struct {
		name string
		set  func(b *loginBox)
		want string // in the error; "" = accepted
		is   error
	}{
		{"pending", func(b *loginBox) { b.ret = AuthPending }, "", errAuthPending},
		{"rejected", func(b *loginBox) { b.ret = AuthRefused }, "", errAuthRefused},
		{"full", func(b *loginBox) { b.ret = AuthFull }, "", errAuthFull},
		{"bad enc algo", func(b *loginBox) { b.ret = AuthBadEnc }, "encryption_algorithm", nil},
		{"pending by a stranger", func(b *loginBox) { known(b); b.ret = AuthPending; b.signWith = other }, "", errMasterChanged},
		{"other master", func(b *loginBox) { b.keys.pem = []byte(other.PublicPEM()) }, "", errMasterChanged},
		{"outer signature", func(b *loginBox) { b.signWith = other }, "signature of the reply", nil},
		{"nonce", func(b *loginBox) { b.bend = func(_ *AuthRequest, r *AuthReply) { r.Nonce = NewNonce() } }, "", ErrBadNonce},
		{"aes for another minion", func(b *loginBox) {
			b.bend = func(_ *AuthRequest, r *AuthReply) {
				r.AES, _ = other.Pub().EncryptOAEP(AlgoOAEPSHA1, []byte(b.aes))
			}
		}, "decrypt", nil},
		{"aes not signed", func(b *loginBox) {
			b.bend = func(_ *AuthRequest, r *AuthReply) { r.Sig, _ = master.SignX931([]byte(strings.Repeat("0", 64))) }
		}, "not signed by the master", nil},
		{"aes signed by another", func(b *loginBox) {
			b.bend = func(_ *AuthRequest, r *AuthReply) {
				sum := sha256.Sum256([]byte(b.aes))
				r.Sig, _ = other.SignX931([]byte(hex.EncodeToString(sum[:])))
			}
		}, "publications is not signed", nil},
		{"token not returned", func(b *loginBox) {
			known(b)
			b.bend = func(_ *AuthRequest, r *AuthReply) { r.Token = nil }
		}, "token", nil},
		{"token of another login", func(b *loginBox) {
			known(b)
			b.bend = func(_ *AuthRequest, r *AuthReply) {
				r.Token, _ = minion.Pub().EncryptOAEP(AlgoOAEPSHA1, []byte(GenerateKeyString()))
			}
		}, "token", nil},
		{"fingerprint", func(b *loginBox) { b.policy.Finger = "00:11" }, "master_finger", nil},
		{"signed key, not asked for", func(b *loginBox) {
			b.bend = func(_ *AuthRequest, r *AuthReply) { r.PubSig = "AAAA" }
		}, "verify_master_pubkey_sign is not set", nil},
		{"signed key missing", func(b *loginBox) { b.policy.SignKey = signFile }, "master_sign_pubkey", nil},
		{"signed by the wrong key", func(b *loginBox) {
			b.policy.SignKey = signFile
			b.bend = func(_ *AuthRequest, r *AuthReply) { r.PubSig = pubSig(t, master, r.PubKey) }
		}, "not signed with master_sign.pub", nil},
		{"weak master key", func(b *loginBox) {
			b.bend = func(_ *AuthRequest, r *AuthReply) {
				r.PubKey = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"
			}
		}, "key of the master", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newLoginBox(minion, master)
			tc.set(b)
			before := string(b.keys.pem)
			_, err := b.login(t, nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) || tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("error is %v, want %q, %v", err, tc.want, tc.is)
			}
			if string(b.keys.pem) != before {
				t.Error("a refused login changed the stored key")
			}
		})
	}
}

func pubSig(t *testing.T, by *PrivateKey, text string) string {
	t.Helper()
	sig, err := by.Sign(AlgoPKCS1v15SHA1, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(sig) + "\n"
}

func TestLoginFollowsASignedNewMasterKey(t *testing.T) {
	minion, oldMaster, newMaster, sign := masterTestKeys()[0], masterTestKeys()[1], masterTestKeys()[2], masterTestKeys()[3]
	signFile := filepath.Join(t.TempDir(), "master_sign.pub")
	if err := os.WriteFile(signFile, []byte(sign.PublicPEM()), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newLoginBox(minion, newMaster)
	b.keys.pem = []byte(oldMaster.PublicPEM())
	b.policy.SignKey = signFile
	b.bend = func(_ *AuthRequest, r *AuthReply) { r.PubSig = pubSig(t, sign, r.PubKey) }
	if _, err := b.login(t, nil); err != nil {
		t.Fatal(err)
	}
	if !SameKey(b.keys.pem, []byte(newMaster.PublicPEM())) {
		t.Error("the new key was not stored")
	}
}

func TestOpenModeTakesAnotherMaster(t *testing.T) {
	b := newLoginBox(masterTestKeys()[0], masterTestKeys()[1])
	b.keys.pem = []byte(masterTestKeys()[2].PublicPEM())
	b.policy.OpenMode = true
	if _, err := b.login(t, nil); err != nil {
		t.Fatal(err)
	}
	if !SameKey(b.keys.pem, []byte(b.master.PublicPEM())) {
		t.Error("the new key was not stored")
	}
}

func TestStoredMasterKeyWithOtherLineEndsIsTheSame(t *testing.T) {
	b := newLoginBox(masterTestKeys()[0], masterTestKeys()[1])
	b.keys.pem = []byte("\n" + strings.ReplaceAll(b.master.PublicPEM(), "\n", "\r\n") + "\r\n\r\n")
	if _, err := b.login(t, nil); err != nil {
		t.Error(err)
	}
}

func TestMasterKeyFileOfZeroLengthIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "minion_master.pub")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := masterKeyFile(path).Load(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}

func TestParseMaster(t *testing.T) {
	for in, want := range map[string]string{
		"salt": "salt:4506", "10.1.2.3": "10.1.2.3:4506", "salt:99": "salt:99", " salt.example.com:1 ": "salt.example.com:1",
		"::1": "[::1]:4506", "[::1]": "[::1]:4506", "[fd00::2]:77": "[fd00::2]:77",
		"salt:": "", "salt:x": "", "salt:70000": "", "[::1": "", "[nonsense]:1": "", "a b": "", "": "", "1:2:3:x": "",
	} {
		a, err := parseMaster(in, 4506)
		if got := a.String(); (err != nil) != (want == "") || err == nil && got != want {
			t.Errorf("%q: %v, %v, want %q", in, got, err, want)
		}
	}
}
