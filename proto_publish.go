// Publications on port 4505, and the answer to a pillar request, which is sealed
// and signed in the same spirit.
package main

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
)

// Publication is the outer map of what a master publishes.
type Publication struct {
	Sealed  []byte
	SigAlgo string // "" when not signed
	Sig     []byte
}

// Encode is the publication as bytes, the same for every subscriber.
func (p *Publication) Encode() ([]byte, error) {
	m := NewMap("enc", "aes", "load", p.Sealed)
	if p.Sig != nil {
		m.Set("sig_algo", p.SigAlgo)
		m.Set("sig", p.Sig)
	}
	return EncodeWire(m)
}

// DecodePublication reads the outer map. Only encrypted ones exist; clear
// ones are refused.
func DecodePublication(p []byte) (*Publication, error) {
	v, err := DecodeWire(p)
	if err != nil {
		return nil, fmt.Errorf("publication: %w", err)
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, fmt.Errorf("publication is a %s", TypeName(v))
	}
	if m.Value("enc") != "aes" {
		return nil, fmt.Errorf("publication with enc %s", shortRepr(m.Value("enc")))
	}
	pub := &Publication{}
	if pub.Sealed, ok = bytesOf(m.Value("load")); !ok {
		return nil, errors.New("publication without load")
	}
	if v, signed := m.Get("sig"); signed {
		if pub.Sig, ok = bytesOf(v); !ok {
			return nil, fmt.Errorf("signature of the publication is a %s", TypeName(v))
		}
		if pub.SigAlgo, ok = m.Value("sig_algo").(string); !ok {
			pub.SigAlgo = AlgoPKCS1v15SHA1
		}
	}
	return pub, nil
}

// TopicBroadcast and TopicSyndic are the first frames of filtered publications
// that are not for one minion.
const (
	TopicBroadcast = "broadcast"
	TopicSyndic    = "syndic"
)

// MinionTopic is the topic of one minion under zmq_filtering.
func MinionTopic(id string) string {
	sum := sha1.Sum([]byte(id))
	return hex.EncodeToString(sum[:])
}

// PublishLoad is a job as it is published. Map is the load with every field,
// also those that have no place here; it is what `__pub_*` arguments, proc files
// and the job cache are made of.
type PublishLoad struct {
	Funs    []string
	Args    []*List // of each function
	Several bool    // fun was a list: the return is a map
	Tgt     any
	TgtType string // "glob" when not given
	JID     string
	Ret     string
	User    string
	Map     *Map
}

// DecodePublishLoad checks the fields that a minion acts on.
func DecodePublishLoad(m *Map) (*PublishLoad, error) {
	fail := func(format string, args ...any) (*PublishLoad, error) {
		return nil, fmt.Errorf("publication: "+format, args...)
	}
	p := &PublishLoad{Map: m, TgtType: "glob", Ret: m.Str("ret"), User: m.Str("user")}
	p.JID = m.Str("jid")
	if err := ValidJID(p.JID); err != nil {
		return fail("%w", err)
	}
	switch fun := m.Value("fun").(type) {
	case string:
		p.Funs = []string{fun}
	case *List:
		p.Several = true
		for _, f := range fun.Items {
			name, ok := f.(string)
			if !ok {
				return fail("fun holds a %s", TypeName(f))
			}
			p.Funs = append(p.Funs, name)
		}
	}
	if len(p.Funs) == 0 {
		return fail("fun is missing")
	}
	args, ok := m.Value("arg").(*List)
	if !ok {
		return fail("arg is missing or no list")
	}
	if !p.Several {
		p.Args = []*List{args}
	} else {
		for _, a := range args.Items {
			group, ok := a.(*List)
			if !ok {
				return fail("arg of several functions holds a %s", TypeName(a))
			}
			p.Args = append(p.Args, group)
		}
		if len(p.Args) != len(p.Funs) {
			return fail("%d functions with %d groups of arguments", len(p.Funs), len(p.Args))
		}
	}
	if p.Tgt, ok = m.Get("tgt"); !ok {
		return fail("tgt is missing")
	}
	if v, ok := m.Get("tgt_type"); ok && v != nil {
		if p.TgtType, ok = v.(string); !ok {
			return fail("tgt_type is a %s", TypeName(v))
		}
	}
	return p, nil
}

// PillarReply is the answer to `_pillar`: a one-shot key for the minion and the
// pillar under that key, signed by the master from version 2 on.
type PillarReply struct {
	Key    []byte // the one-shot key, encrypted for the minion
	Sealed []byte
}

// NewPillarReply builds the answer to a request of the given version. encrypt is
// for the minion's key, sign with the master's.
func NewPillarReply(version int, pillar *Map, nonce string, encrypt, sign func([]byte) ([]byte, error)) ([]byte, error) {
	keyString := GenerateKeyString()
	c, err := NewCrypticle(keyString)
	if err != nil {
		return nil, err
	}
	key, err := encrypt([]byte(keyString))
	if err != nil {
		return nil, fmt.Errorf("encrypt the key of the pillar: %w", err)
	}
	var inner any = pillar
	if version >= 2 {
		if nonce == "" {
			return EncodeWire(NewMap("error", "pillar request without nonce"))
		}
		data, err := EncodeWire(NewMap("key", key, "pillar", pillar, "nonce", nonce))
		if err != nil {
			return nil, err
		}
		sig, err := sign(data)
		if err != nil {
			return nil, fmt.Errorf("sign the pillar: %w", err)
		}
		inner = NewMap("data", data, "sig", sig)
	}
	sealed, err := c.Encrypt(inner, "")
	if err != nil {
		return nil, err
	}
	return EncodeWire(NewMap("key", key, "pillar", sealed))
}

// DecodePillarReply reads the outer map. A reply of another form (a refusal) is
// ErrBadMAC: the sign to log in again.
func DecodePillarReply(p []byte) (*PillarReply, error) {
	v, err := DecodeWire(p)
	if err != nil {
		return nil, fmt.Errorf("pillar reply: %w", err)
	}
	m, _ := v.(*Map)
	key, okKey := bytesOf(m.Value("key"))
	sealed, okSealed := bytesOf(m.Value("pillar"))
	if !okKey || !okSealed {
		why := v
		if text, ok := m.Get("error"); ok {
			why = text
		}
		return nil, fmt.Errorf("pillar reply: master answered %s: %w", shortRepr(why), ErrBadMAC)
	}
	return &PillarReply{Key: key, Sealed: sealed}, nil
}

// Open returns the pillar. keyString is the decrypted Key; verify checks the
// master's signature. Version and nonce are those of the request.
func (r *PillarReply) Open(version int, keyString, nonce string, verify func(msg, sig []byte) error) (*Map, error) {
	c, err := NewCrypticle(keyString)
	if err != nil {
		return nil, err
	}
	v, err := c.Decrypt(r.Sealed, "")
	if err != nil {
		return nil, fmt.Errorf("pillar reply: %w", err)
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, fmt.Errorf("pillar reply holds a %s", TypeName(v))
	}
	if version < 2 {
		return m, nil
	}
	data, okData := bytesOf(m.Value("data"))
	sig, okSig := bytesOf(m.Value("sig"))
	if !okData || !okSig {
		return nil, errors.New("pillar reply is not signed")
	}
	if err := verify(data, sig); err != nil {
		return nil, fmt.Errorf("pillar reply: %w", err)
	}
	if v, err = DecodeWire(data); err != nil {
		return nil, fmt.Errorf("pillar reply: %w", err)
	}
	signed, _ := v.(*Map)
	if key, _ := bytesOf(signed.Value("key")); !bytes.Equal(key, r.Key) {
		return nil, errors.New("pillar reply is signed for another key")
	}
	if signed.Str("nonce") != nonce {
		return nil, ErrBadNonce
	}
	pillar, ok := signed.Value("pillar").(*Map)
	if !ok {
		return nil, fmt.Errorf("pillar is a %s", TypeName(signed.Value("pillar")))
	}
	return pillar, nil
}
