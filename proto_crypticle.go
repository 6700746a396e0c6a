// The symmetric layer: AES-192-CBC with an HMAC-SHA256 over IV and cipher text.
// Requests, replies, publications and pillars travel in it.
//
// The law of this room: nothing is looked at before its MAC is right, and a
// Crypticle may be used by any number of goroutines.
package main

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
)

const (
	crypticleAESLen = 24
	crypticleMACLen = 32 // of the key and of the MAC
	crypticlePrefix = "pickle::"

	// NonceLen is the length of a nonce: 16 random bytes in hex.
	NonceLen = 32
)

var (
	// ErrBadMAC is the error of Decrypt when the message was not made with this
	// key, or was changed.
	ErrBadMAC = errors.New("message does not authenticate under this key")
	// ErrBadNonce is the error of Decrypt when a reply answers another request.
	ErrBadNonce = errors.New("reply carries another nonce than its request")
	// ErrOldSerial is the error for a publication that was heard before.
	ErrOldSerial = errors.New("serial of the message is not newer than the last one")
)

// Crypticle encrypts and decrypts under one key string.
type Crypticle struct {
	block cipher.Block
	mac   []byte

	mu     sync.Mutex
	serial int64 // of the last publication taken under this key
}

// GenerateKeyString makes a new key: the base64 text of 56 random bytes.
func GenerateKeyString() string {
	raw := make([]byte, crypticleAESLen+crypticleMACLen)
	rand.Read(raw)
	return base64.StdEncoding.EncodeToString(raw)
}

// NewNonce makes the nonce of a request.
func NewNonce() string {
	raw := make([]byte, NonceLen/2)
	rand.Read(raw)
	return hex.EncodeToString(raw)
}

// ValidNonce says whether s has the form of a nonce.
func ValidNonce(s string) bool {
	if len(s) != NonceLen {
		return false
	}
	_, err := hex.DecodeString(s)
	return err == nil
}

// NewCrypticle reads a key string.
func NewCrypticle(keyString string) (*Crypticle, error) {
	raw, err := base64.StdEncoding.DecodeString(keyString)
	if err != nil {
		return nil, fmt.Errorf("read session key: %w", err)
	}
	if len(raw) != crypticleAESLen+crypticleMACLen {
		return nil, fmt.Errorf("read session key: it has %d bytes instead of %d", len(raw), crypticleAESLen+crypticleMACLen)
	}
	block, err := aes.NewCipher(raw[:crypticleAESLen])
	if err != nil {
		return nil, fmt.Errorf("read session key: %w", err)
	}
	return &Crypticle{block: block, mac: raw[crypticleAESLen:]}, nil
}

// Encrypt seals v. A reply carries the nonce of its request; a request, a
// publication and the reply to a request without nonce have "".
func (c *Crypticle) Encrypt(v any, nonce string) ([]byte, error) {
	return c.encryptBehind(nil, 0, v, nonce)
}

// encryptBehind is Encrypt with room bytes in front for a header; what buf has
// is overwritten.
func (c *Crypticle) encryptBehind(buf []byte, room int, v any, nonce string) ([]byte, error) {
	// One buffer for everything: IV, then the plain text, encrypted where it
	// stands, then the MAC. A piece of a file must not make it grow.
	buf = slices.Grow(buf[:0], room+512+bulkOf(v))[:room+aes.BlockSize]
	rand.Read(buf[room:])
	buf = append(buf, crypticlePrefix...)
	buf = append(buf, nonce...)
	buf, err := appendMsgpack(buf, v, true)
	if err != nil {
		return nil, err
	}
	return c.seal(buf, room), nil
}

// bulkOf is about how many bytes a mapping such as a piece of a file will need.
func bulkOf(v any) int {
	m, ok := v.(*Map)
	if !ok {
		return 0
	}
	n := 0
	for _, v := range m.All() {
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// seal encrypts what stands behind the IV at room in buf, and appends the MAC.
func (c *Crypticle) seal(buf []byte, room int) []byte {
	pad := aes.BlockSize - (len(buf)-room)%aes.BlockSize
	for i := 0; i < pad; i++ {
		buf = append(buf, byte(pad))
	}
	iv, body := buf[room:room+aes.BlockSize], buf[room+aes.BlockSize:]
	cipher.NewCBCEncrypter(c.block, iv).CryptBlocks(body, body)
	mac := hmac.New(sha256.New, c.mac)
	mac.Write(buf[room:])
	return mac.Sum(buf)
}

// open checks the MAC and returns the plain text: in a fresh buffer, or, if the
// message is the caller's own, where the message was.
func (c *Crypticle) open(p []byte, owned bool) ([]byte, error) {
	end := len(p) - crypticleMACLen
	if end < 2*aes.BlockSize || end%aes.BlockSize != 0 {
		return nil, ErrBadMAC
	}
	mac := hmac.New(sha256.New, c.mac)
	mac.Write(p[:end])
	if !hmac.Equal(mac.Sum(nil), p[end:]) {
		return nil, ErrBadMAC
	}
	plain := p[aes.BlockSize:end]
	if !owned {
		plain = make([]byte, end-aes.BlockSize)
	}
	cipher.NewCBCDecrypter(c.block, p[:aes.BlockSize]).CryptBlocks(plain, p[aes.BlockSize:end])
	pad := int(plain[len(plain)-1])
	if pad < 1 || pad > aes.BlockSize {
		return nil, fmt.Errorf("decrypt: padding of %d bytes", pad)
	}
	return plain[:len(plain)-pad], nil
}

// Decrypt opens a message and decodes the value in it. With a nonce, the
// message must be a reply that carries it. A message whose plain text is of
// another kind is an empty map, as it is for Salt.
func (c *Crypticle) Decrypt(p []byte, nonce string) (any, error) {
	return c.decrypt(p, nonce, false)
}

// decryptOwned is Decrypt for a message that nobody reads afterwards: it is
// decrypted where it is, and large bytes of the value are parts of it.
func (c *Crypticle) decryptOwned(p []byte, nonce string) (any, error) {
	return c.decrypt(p, nonce, true)
}

func (c *Crypticle) decrypt(p []byte, nonce string, owned bool) (any, error) {
	plain, err := c.open(p, owned)
	if err != nil {
		return nil, err
	}
	rest, ok := bytes.CutPrefix(plain, []byte(crypticlePrefix))
	if !ok {
		return NewMap(), nil
	}
	if nonce != "" {
		if rest, ok = bytes.CutPrefix(rest, []byte(nonce)); !ok {
			return nil, ErrBadNonce
		}
	}
	return decodeOwnedWire(rest) // the plain text is ours
}

// DecryptPublished opens a publication. One with a serial is taken only once
// and in order; the serial is not part of the result.
func (c *Crypticle) DecryptPublished(p []byte) (*Map, error) {
	v, err := c.Decrypt(p, "")
	if err != nil {
		return nil, err
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, fmt.Errorf("publication is a %s", TypeName(v))
	}
	sent, ok := m.Get("serial")
	if !ok {
		return m, nil
	}
	m.Delete("serial")
	serial, ok := sent.(int64)
	if !ok {
		return nil, fmt.Errorf("serial of the publication is a %s", TypeName(sent))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if serial <= c.serial {
		return nil, ErrOldSerial
	}
	c.serial = serial
	return m, nil
}
