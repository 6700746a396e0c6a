// Keys: the RSA pairs of master and minion, what they encrypt and sign, and
// their fingerprints.
//
// The law of these rooms: key material comes from and goes to files in Salt's
// form, a private key that exists is never made anew, and keys are compared
// parsed, not as text. Algorithms are Salt's and their names travel; an unknown
// name is an error, never a default.
package main

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"strings"
)

const (
	minKeyBits     = 2048
	maxKeyBits     = 16384 // verifying costs the square of the size
	defaultKeyBits = 2048
)

// PrivateKey is a key pair.
type PrivateKey struct {
	*rsa.PrivateKey
	pub *PublicKey
}

// PublicKey is the public half, with the text that it was read from.
type PublicKey struct {
	key *rsa.PublicKey
	pem string
}

// GenerateKey makes a key pair.
func GenerateKey(bits int) (*PrivateKey, error) {
	if bits < minKeyBits || bits > maxKeyBits {
		return nil, fmt.Errorf("a key has %d to %d bits, not %d", minKeyBits, maxKeyBits, bits)
	}
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return newPrivateKey(k)
}

func newPrivateKey(k *rsa.PrivateKey) (*PrivateKey, error) {
	if bits := k.N.BitLen(); bits < minKeyBits || bits > maxKeyBits {
		return nil, fmt.Errorf("key has %d bits; %d to %d are taken", bits, minKeyBits, maxKeyBits)
	}
	der, err := x509.MarshalPKIXPublicKey(&k.PublicKey)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	return &PrivateKey{PrivateKey: k, pub: &PublicKey{key: &k.PublicKey, pem: CleanKey(string(text))}}, nil
}

// ParsePrivateKey reads the text of a private key: PKCS#1 as Salt writes it, or
// PKCS#8. The passphrase is for the encrypted form of Salt's key_pass options.
func ParsePrivateKey(text []byte, passphrase string) (*PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no private key in PEM form")
	}
	der := block.Bytes
	//lint:ignore SA1019 the form that Salt writes; there is no other reader for it
	if x509.IsEncryptedPEMBlock(block) {
		var err error
		//lint:ignore SA1019 as above
		if der, err = x509.DecryptPEMBlock(block, []byte(passphrase)); err != nil {
			return nil, fmt.Errorf("the private key is encrypted: %w", err)
		}
	}
	switch block.Type {
	case "RSA PRIVATE KEY":
		k, err := x509.ParsePKCS1PrivateKey(der)
		if err != nil {
			return nil, err
		}
		return newPrivateKey(k)
	case "PRIVATE KEY":
		k, err := x509.ParsePKCS8PrivateKey(der)
		if err != nil {
			return nil, err
		}
		if k, ok := k.(*rsa.PrivateKey); ok {
			return newPrivateKey(k)
		}
		return nil, errors.New("the private key is not an RSA key")
	}
	return nil, fmt.Errorf("a %q is no private key", block.Type)
}

// PrivatePEM is the pair as Salt writes it.
func (k *PrivateKey) PrivatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k.PrivateKey)})
}

// PublicPEM is the public half as it is sent: without a line end behind it.
func (k *PrivateKey) PublicPEM() string { return k.pub.pem }

// Pub is the public half.
func (k *PrivateKey) Pub() *PublicKey { return k.pub }

// ParsePublicKey reads the text of a public key. Keys below 2048 bits are
// refused, and those with an exponent that nobody uses.
func ParsePublicKey(text []byte) (*PublicKey, error) {
	clean := CleanKey(string(text))
	block, rest := pem.Decode([]byte(clean))
	if block == nil {
		return nil, errors.New("no public key in PEM form")
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("more than a public key")
	}
	var key *rsa.PublicKey
	switch block.Type {
	case "PUBLIC KEY":
		k, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		var ok bool
		if key, ok = k.(*rsa.PublicKey); !ok {
			return nil, errors.New("the public key is not an RSA key")
		}
	case "RSA PUBLIC KEY":
		var err error
		if key, err = x509.ParsePKCS1PublicKey(block.Bytes); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("a %q is no public key", block.Type)
	}
	if bits := key.N.BitLen(); bits < minKeyBits || bits > maxKeyBits {
		return nil, fmt.Errorf("key has %d bits; %d to %d are taken", bits, minKeyBits, maxKeyBits)
	}
	if key.E < 3 || key.E&1 == 0 || key.N.Bit(0) == 0 {
		return nil, errors.New("no usable RSA key")
	}
	return &PublicKey{key: key, pem: clean}, nil
}

// PEM is the text of the key, cleaned.
func (k *PublicKey) PEM() string { return k.pem }

// Equal says whether both are the same key, whatever their texts look like.
func (k *PublicKey) Equal(other *PublicKey) bool {
	return k != nil && other != nil && k.key.Equal(other.key)
}

// SameKey compares two texts of public keys: parsed, or as cleaned texts if
// either is no key.
func SameKey(a, b []byte) bool {
	ka, errA := ParsePublicKey(a)
	kb, errB := ParsePublicKey(b)
	if errA != nil || errB != nil {
		return CleanKey(string(a)) == CleanKey(string(b))
	}
	return ka.Equal(kb)
}

// algoHash is the hash behind the name of an algorithm.
func algoHash(algo string) (func() hash.Hash, crypto.Hash, error) {
	switch algo {
	case AlgoOAEPSHA1, AlgoPKCS1v15SHA1:
		return sha1.New, crypto.SHA1, nil
	case AlgoOAEPSHA224, AlgoPKCS1v15SHA224:
		return sha256.New224, crypto.SHA224, nil
	}
	return nil, 0, fmt.Errorf("algorithm %q does not exist", algo)
}

// EncryptOAEP encrypts a short message for the owner of the key.
func (k *PublicKey) EncryptOAEP(algo string, msg []byte) ([]byte, error) {
	newHash, _, err := algoHash(algo)
	if err != nil || !ValidEncAlgo(algo) {
		return nil, fmt.Errorf("encrypt: algorithm %q does not exist", algo)
	}
	return rsa.EncryptOAEP(newHash(), rand.Reader, k.key, msg, nil)
}

// DecryptOAEP opens what EncryptOAEP made.
func (k *PrivateKey) DecryptOAEP(algo string, sealed []byte) ([]byte, error) {
	newHash, _, err := algoHash(algo)
	if err != nil || !ValidEncAlgo(algo) {
		return nil, fmt.Errorf("decrypt: algorithm %q does not exist", algo)
	}
	return rsa.DecryptOAEP(newHash(), nil, k.PrivateKey, sealed, nil)
}

// Sign signs a message.
func (k *PrivateKey) Sign(algo string, msg []byte) ([]byte, error) {
	newHash, id, err := algoHash(algo)
	if err != nil || !ValidSigAlgo(algo) {
		return nil, fmt.Errorf("sign: algorithm %q does not exist", algo)
	}
	h := newHash()
	h.Write(msg)
	return rsa.SignPKCS1v15(nil, k.PrivateKey, id, h.Sum(nil))
}

// ErrBadSignature is the error of Verify and RecoverX931.
var ErrBadSignature = errors.New("signature does not verify")

// Verify checks a signature of Sign.
func (k *PublicKey) Verify(algo string, msg, sig []byte) error {
	newHash, id, err := algoHash(algo)
	if err != nil || !ValidSigAlgo(algo) {
		return fmt.Errorf("verify: algorithm %q does not exist", algo)
	}
	h := newHash()
	h.Write(msg)
	if rsa.VerifyPKCS1v15(k.key, id, h.Sum(nil), sig) != nil {
		return ErrBadSignature
	}
	return nil
}

// Fingerprint is the fingerprint of a key's text as 3006 and 3007 print it and
// as every minion compares it with master_finger: the hash of the lines between
// the first and the last. A text that is no PEM is hashed as it is. The result
// is "" for an unknown hash.
func Fingerprint(text []byte, hashType string) string {
	var lines [][]byte
	for _, line := range bytes.Split(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\n")) {
		if len(bytes.TrimSpace(line)) > 0 {
			lines = append(lines, line)
		}
	}
	last := len(lines) - 1
	if last < 1 || !bytes.HasPrefix(bytes.TrimSpace(lines[0]), []byte("-----BEGIN")) ||
		!bytes.HasPrefix(bytes.TrimSpace(lines[last]), []byte("-----END")) {
		return hexPairs(hashType, text)
	}
	var body []byte
	for _, line := range lines[1:last] {
		body = append(append(body, line...), '\n')
	}
	return hexPairs(hashType, body)
}

func hexPairs(hashType string, data []byte) string {
	h := hashByName(hashType)
	if h == nil {
		return ""
	}
	h.Write(data)
	return colonHex(h.Sum(nil))
}

// colonHex writes bytes as 0a:1b.
func colonHex(p []byte) string {
	var b strings.Builder
	for i, c := range p {
		if i > 0 {
			b.WriteByte(':')
		}
		b.WriteString(hex.EncodeToString([]byte{c}))
	}
	return b.String()
}
