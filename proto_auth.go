// The login: the `_auth` request of a minion and the three forms of its answer.
// Keys stay outside: whoever signs or decrypts is handed in.
package main

import (
	"errors"
	"fmt"
	"strings"
)

// maxPubLen bounds a public key sent by a stranger: 16384 bits have 2.9 KB.
const maxPubLen = 8192

// AuthRequest is the load of an `_auth` request.
type AuthRequest struct {
	Version        int
	ID             string // checked only for NUL: an invalid id has an answer of its own
	Nonce          string // set from version 2 on
	EncAlgo        string
	SigAlgo        string
	Pub            string // PEM text, cleaned
	Token          []byte // nil when the minion does not know the master's key yet
	AutosignGrains *Map   // nil when none
}

// DecodeAuthRequest reads the load of a clear request whose cmd is `_auth`.
// Its errors are Refusals.
func DecodeAuthRequest(r *Request) (*AuthRequest, error) {
	if r.Clear == nil {
		return nil, badLoad("_auth is not in clear")
	}
	m := r.Clear
	a := &AuthRequest{Version: r.Version, EncAlgo: AlgoOAEPSHA1, SigAlgo: AlgoPKCS1v15SHA1}
	var err error
	if a.ID, err = loadID(m.Value("id")); err != nil {
		return nil, err
	}
	if r.Version >= 2 {
		if a.Nonce, _ = m.Value("nonce").(string); !ValidNonce(a.Nonce) {
			return nil, badLoad("_auth of %q without a nonce", a.ID)
		}
	}
	pub, ok := bytesOf(m.Value("pub"))
	if !ok || len(pub) > maxPubLen {
		return nil, badLoad("_auth of %q without a public key of at most %d bytes", a.ID, maxPubLen)
	}
	a.Pub = CleanKey(string(pub))
	if v, ok := m.Get("token"); ok {
		if a.Token, ok = bytesOf(v); !ok {
			return nil, badLoad("token of %q is a %s", a.ID, TypeName(v))
		}
	}
	for _, f := range []struct {
		name string
		to   *string
	}{{"enc_algo", &a.EncAlgo}, {"sig_algo", &a.SigAlgo}} {
		if v, ok := m.Get(f.name); ok {
			if *f.to, ok = v.(string); !ok {
				return nil, badLoad("%s of %q is a %s", f.name, a.ID, TypeName(v))
			}
		}
	}
	a.AutosignGrains = m.Map("autosign_grains")
	return a, nil
}

// Encode is the request as bytes.
func (a *AuthRequest) Encode() ([]byte, error) {
	m := NewMap("cmd", "_auth", "id", a.ID)
	if a.Version >= 2 {
		m.Set("nonce", a.Nonce)
	}
	if a.Version >= 3 {
		m.Set("enc_algo", a.EncAlgo)
		m.Set("sig_algo", a.SigAlgo)
	}
	if a.AutosignGrains.Len() > 0 {
		m.Set("autosign_grains", a.AutosignGrains)
	}
	if a.Token != nil {
		m.Set("token", a.Token)
	}
	m.Set("pub", a.Pub)
	return (&Request{Enc: "clear", Version: a.Version, Clear: m}).Encode()
}

// CleanKey brings the text of a key to the form in which it is sent and
// compared as text: no blanks around it, line ends as \n.
func CleanKey(key string) string {
	key = strings.TrimSpace(key)
	key = strings.ReplaceAll(key, "\r\n", "\n")
	return strings.ReplaceAll(key, "\r", "\n")
}

// The values of AuthReply.Ret. An accepted login has no ret.
const (
	AuthAccepted = ""
	AuthPending  = "pending"  // true on the wire
	AuthRefused  = "refused"  // false
	AuthFull     = "full"     // the text
	AuthBadEnc   = "bad enc"  // the text "bad enc algo"
	AuthBadSig   = "bad sig"  // the text "bad sig algo"
	authUnknown  = "unknown " // any other ret
)

// AuthReply is the answer to a login, in either direction.
type AuthReply struct {
	Ret   string // AuthAccepted with the fields below, or why not
	Nonce string

	PubKey      string
	PublishPort int
	PubSig      string // base64 text, "" when the master does not sign its key
	Token       []byte // nil when there was none
	AES         []byte
	Session     []byte // nil from a master older than session keys
	Sig         []byte // X9.31, over the hash of the AES key

	// Only after decoding: what the outer signature covers, nil when the reply
	// was not signed.
	Signed    []byte
	Signature []byte
}

// Encode is the answer to a request of the given version, as bytes. From
// version 2 on sign must make the outer signature.
func (a *AuthReply) Encode(version int, sign func(msg []byte) ([]byte, error)) ([]byte, error) {
	var ret any
	switch a.Ret {
	case AuthAccepted:
	case AuthPending:
		ret = true
	case AuthFull:
		ret = "full"
	case AuthBadEnc, AuthBadSig: // these two are never signed: the peer's algorithm is unknown
		return EncodeWire(NewMap("enc", "clear", "load", NewMap("ret", a.Ret+" algo")))
	default:
		ret = false
	}
	m := NewMap("ret", ret)
	if a.Ret == AuthAccepted {
		m = NewMap("enc", "pub", "pub_key", a.PubKey, "publish_port", int64(a.PublishPort))
		if a.PubSig != "" {
			m.Set("pub_sig", a.PubSig)
		}
		if a.Token != nil {
			m.Set("token", a.Token)
		}
		m.Set("aes", a.AES)
		if a.Session != nil {
			m.Set("session", a.Session)
		}
		m.Set("sig", a.Sig)
	}
	if version < 2 {
		if a.Ret != AuthAccepted {
			m = NewMap("enc", "clear", "load", m)
		}
		return EncodeWire(m)
	}
	m.Set("nonce", a.Nonce)
	load, err := EncodeWire(m)
	if err != nil {
		return nil, err
	}
	sig, err := sign(load)
	if err != nil {
		return nil, fmt.Errorf("sign the login reply: %w", err)
	}
	return EncodeWire(NewMap("enc", "clear", "load", load, "sig", sig))
}

// DecodeAuthReply reads an answer. It checks forms only; the signature and the
// nonce are the caller's to check, before it uses anything.
func DecodeAuthReply(p []byte) (*AuthReply, error) {
	fail := func(format string, args ...any) (*AuthReply, error) {
		return nil, fmt.Errorf("login reply: "+format, args...)
	}
	v, err := DecodeWire(p)
	if err != nil {
		return fail("%w", err)
	}
	outer, ok := v.(*Map)
	if !ok {
		return fail("master answered %s", shortRepr(v))
	}
	a := &AuthReply{}
	body := outer
	if load, ok := outer.Get("load"); ok {
		if body, ok = load.(*Map); !ok {
			if a.Signed, ok = bytesOf(load); !ok {
				return fail("load is a %s", TypeName(load))
			}
			if a.Signature, ok = bytesOf(outer.Value("sig")); !ok {
				return fail("load is not signed")
			}
			if v, err = DecodeWire(a.Signed); err != nil {
				return fail("%w", err)
			}
			if body, ok = v.(*Map); !ok {
				return fail("signed load is a %s", TypeName(v))
			}
		}
	} else if outer.Value("enc") != "pub" {
		return fail("master answered %s", shortRepr(outer.Value("msg")))
	}
	a.Nonce, _ = body.Value("nonce").(string)
	if _, accepted := body.Get("pub_key"); !accepted {
		a.Ret, err = authRet(body)
		if err != nil {
			return fail("%w", err)
		}
		return a, nil
	}
	pub, ok := bytesOf(body.Value("pub_key"))
	if !ok || len(pub) > maxPubLen {
		return fail("pub_key is no text of at most %d bytes", maxPubLen)
	}
	a.PubKey = CleanKey(string(pub))
	switch port := body.Value("publish_port").(type) {
	case int64:
		a.PublishPort = int(port)
	case string: // an old form, which Salt's minions take as well
		fmt.Sscanf(port, "%d", &a.PublishPort)
	}
	if a.PublishPort < 1 || a.PublishPort > 65535 {
		return fail("publish_port is %s", shortRepr(body.Value("publish_port")))
	}
	if v, ok := body.Get("pub_sig"); ok {
		sig, ok := bytesOf(v)
		if !ok {
			return fail("pub_sig is a %s", TypeName(v))
		}
		a.PubSig = string(sig)
	}
	for _, f := range []struct {
		name     string
		to       *[]byte
		required bool
	}{{"aes", &a.AES, true}, {"sig", &a.Sig, true}, {"token", &a.Token, false}, {"session", &a.Session, false}} {
		v, have := body.Get(f.name)
		if !have && !f.required {
			continue
		}
		if *f.to, ok = bytesOf(v); !ok {
			return fail("%s is missing or no byte string", f.name)
		}
	}
	return a, nil
}

func authRet(body *Map) (string, error) {
	switch ret := body.Value("ret").(type) {
	case bool:
		if ret {
			return AuthPending, nil
		}
		return AuthRefused, nil
	case string:
		switch ret {
		case "full":
			return AuthFull, nil
		case "bad enc algo":
			return AuthBadEnc, nil
		case "bad sig algo":
			return AuthBadSig, nil
		}
		return authUnknown + shortRepr(ret), nil
	}
	return "", errors.New("neither accepted nor refused")
}
