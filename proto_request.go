// Requests on port 4506 and their answers: the outer map of every request, the
// inner map of an encrypted one, and the texts that refuse them.
//
// The law of this room: every request gets an answer, so each error of a decoder
// here knows the bytes to answer with; and `enc` is clear or aes, nothing else.
package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Request is the outer map. Clear is the load of a clear request, Sealed that
// of an encrypted one.
type Request struct {
	Enc     string // "clear" or "aes"
	Version int    // 0 when the peer did not say
	ID      string // of the minion; in clear since it chooses the key
	EncAlgo string // as sent, perhaps of an unknown kind; the default when not sent
	SigAlgo string
	Clear   *Map
	Sealed  []byte
}

// Refusal is the error for a request that gets no other answer than a text.
type Refusal struct {
	Text  string // what a Salt master would answer
	Why   string // for the log
	asMap bool   // {"msg": text} in place of the text
}

func (r *Refusal) Error() string {
	if r.Why != "" {
		return r.Text + ": " + r.Why
	}
	return r.Text
}

// Reply is the answer to send, in clear.
func (r *Refusal) Reply() []byte {
	var v any = r.Text
	if r.asMap {
		v = NewMap("msg", r.Text)
	}
	p, err := EncodeWire(v)
	if err != nil {
		return nil
	}
	return p
}

const (
	refusedBadLoad  = "bad load"
	refusedNotADict = "payload and load must be a dict"
	// RefusedRequest answers a request whose handling failed before its command
	// was known; RefusedServer one whose command failed outside of its guard.
	RefusedRequest = "Some exception handling minion payload"
	RefusedServer  = "Server-side exception handling payload"
)

// badLoad is the refusal for everything that has no text of its own. The peer
// learns nothing from it; the log does.
func badLoad(why string, args ...any) *Refusal {
	return &Refusal{Text: refusedBadLoad, Why: fmt.Sprintf(why, args...)}
}

// RefusalOf finds the refusal in an error; any other error is a bad load.
func RefusalOf(err error) *Refusal {
	var r *Refusal
	if errors.As(err, &r) {
		return r
	}
	return badLoad("%v", err)
}

// DecodeRequest reads the outer map. Its errors are Refusals.
func DecodeRequest(p []byte) (*Request, error) {
	v, err := DecodeWire(p)
	if err != nil {
		r := badLoad("%v", err)
		r.asMap = true
		return nil, r
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, badLoad("request is a %s", TypeName(v))
	}
	load, hasLoad := m.Get("load")
	r := &Request{EncAlgo: AlgoOAEPSHA1, SigAlgo: AlgoPKCS1v15SHA1}
	if r.Enc, ok = m.Value("enc").(string); !ok || !hasLoad {
		return nil, badLoad("request without enc or load")
	}
	if v, ok := m.Get("version"); ok {
		n, ok := v.(int64)
		if !ok || n < 0 || n > 1000 {
			return nil, badLoad("version is %s", shortRepr(v))
		}
		r.Version = int(n)
	}
	if v, ok := m.Get("id"); ok && v != nil {
		if r.ID, err = loadID(v); err != nil {
			return nil, err
		}
	}
	if s, ok := m.Value("enc_algo").(string); ok {
		r.EncAlgo = s
	}
	if s, ok := m.Value("sig_algo").(string); ok {
		r.SigAlgo = s
	}
	switch r.Enc {
	case "clear":
		if r.Clear, ok = load.(*Map); !ok {
			return nil, &Refusal{Text: refusedNotADict, Why: "clear load is a " + TypeName(load)}
		}
		if v, ok := r.Clear.Get("id"); ok {
			if r.ID, err = loadID(v); err != nil {
				return nil, err
			}
		}
	case "aes":
		if r.Sealed, ok = bytesOf(load); !ok {
			return nil, badLoad("sealed load is a %s", TypeName(load))
		}
	default:
		return nil, badLoad("enc is %s", shortRepr(r.Enc))
	}
	return r, nil
}

// loadID checks that an id is a text without NUL, with Salt's refusals. Whether
// it can be the id of a minion is asked where it is used as one: Salt answers
// that in its own way for each command.
func loadID(v any) (string, error) {
	id, ok := v.(string)
	if b, isBytes := v.([]byte); isBytes {
		id, ok = string(b), true
	}
	switch {
	case !ok:
		return "", &Refusal{Text: "bad load: id " + shortRepr(v) + " is not a string"}
	case strings.IndexByte(id, 0) >= 0:
		return "", &Refusal{Text: "bad load: id contains a null byte"}
	}
	return id, nil
}

// Encode is the request as bytes.
func (r *Request) Encode() ([]byte, error) {
	m := NewMap("enc", r.Enc, "load", r.Sealed)
	if r.Enc == "clear" {
		m.Set("load", r.Clear)
	}
	if r.Version > 0 {
		m.Set("version", int64(r.Version))
	}
	if r.Enc != "clear" && r.Version >= 3 {
		m.Set("id", r.ID)
		m.Set("enc_algo", r.EncAlgo)
		m.Set("sig_algo", r.SigAlgo)
	}
	return EncodeWire(m)
}

// ClearRequest is a request in clear, as bytes.
func ClearRequest(load *Map) ([]byte, error) {
	return (&Request{Enc: "clear", Version: protocolVersion, Clear: load}).Encode()
}

// RequestLoad is the inner map of an encrypted request. Data is the whole map
// without tok; the fields beside it were checked.
type RequestLoad struct {
	Cmd   string
	ID    string
	Nonce string // "" or a nonce
	TS    int64
	Tok   []byte // nil when not sent
	Data  *Map
}

// NewSealedRequest builds an encrypted request of a minion: load with the four
// fields that the channel adds. The nonce must be kept for the reply.
func NewSealedRequest(c *Crypticle, version int, load *Map, id, nonce string, tok []byte, now time.Time, encAlgo, sigAlgo string) ([]byte, error) {
	load = load.Clone()
	load.Set("nonce", nonce)
	load.Set("ts", now.Unix())
	load.Set("tok", tok)
	load.Set("id", id)
	sealed, err := c.Encrypt(load, "")
	if err != nil {
		return nil, err
	}
	return (&Request{Enc: "aes", Version: version, ID: id, EncAlgo: encAlgo, SigAlgo: sigAlgo, Sealed: sealed}).Encode()
}

// Open decrypts the load of an encrypted request and checks what can be checked
// without the minion's key. From version 3 on the sender must be the one whose
// session key was taken. A ttl above zero bounds the age of the request.
func (r *Request) Open(c *Crypticle, now time.Time, ttl time.Duration) (*RequestLoad, error) {
	v, err := c.Decrypt(r.Sealed, "")
	if err != nil {
		return nil, badLoad("%v", err)
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, &Refusal{Text: refusedNotADict, Why: "load is a " + TypeName(v)}
	}
	l := &RequestLoad{Data: m}
	if v, ok := m.Get("id"); ok {
		if l.ID, err = loadID(v); err != nil {
			return nil, err
		}
		if err := ValidMinionID(l.ID); err != nil {
			return nil, badLoad("%v", err)
		}
	}
	if v, ok := m.Get("nonce"); ok {
		if l.Nonce, ok = v.(string); !ok || !ValidNonce(l.Nonce) {
			return nil, badLoad("nonce is %s", shortRepr(v))
		}
	}
	if v, ok := m.Get("tok"); ok {
		if l.Tok, ok = bytesOf(v); !ok {
			return nil, badLoad("tok is a %s", TypeName(v))
		}
		m.Delete("tok")
	}
	l.TS, _ = m.Value("ts").(int64)
	if r.Version >= 3 {
		switch {
		case l.ID == "" || l.ID != r.ID:
			return nil, badLoad("request of %q carries the id %q", r.ID, l.ID)
		case l.Tok == nil:
			return nil, badLoad("request of %q without tok", r.ID)
		case ttl > 0 && now.Sub(time.Unix(l.TS, 0)) > ttl:
			return nil, badLoad("request of %q is older than request_server_ttl", r.ID)
		}
	}
	if l.Cmd, ok = m.Value("cmd").(string); !ok {
		return nil, &Refusal{Text: RefusedRequest, Why: "load without cmd"}
	}
	return l, nil
}

// SealReply is the ordinary answer to an encrypted request, as bytes. Versions
// 0 and 1 know no nonce in replies. buf is used if it has room; it may be nil.
func (r *Request) SealReply(buf []byte, c *Crypticle, nonce string, v any) ([]byte, error) {
	if r.Version < 2 {
		nonce = ""
	}
	const room = 5 // for the longest header of bytes
	buf, err := c.encryptBehind(buf, room, v, nonce)
	if err != nil {
		return nil, err
	}
	header, err := rawHeader(len(buf) - room)
	if err != nil {
		return nil, err
	}
	out := buf[room-len(header):]
	copy(out, header)
	return out, nil
}

// OpenReply is the minion's side of SealReply; p is not the caller's any more. A refusal in clear, or one that
// does not authenticate, is ErrBadMAC: the sign to log in again.
func OpenReply(c *Crypticle, p []byte, nonce string) (any, error) {
	v, err := decodeOwnedWire(p)
	if err != nil {
		return nil, err
	}
	sealed, ok := bytesOf(v)
	if !ok {
		return nil, fmt.Errorf("reply is a %s: %w", TypeName(v), ErrBadMAC)
	}
	v, err = c.decryptOwned(sealed, nonce)
	if errors.Is(err, ErrBadMAC) && len(sealed) < 80 {
		return nil, fmt.Errorf("master refused the request (%s): %w", shortRepr(string(sealed)), err)
	}
	return v, err
}

// bytesOf takes a field that is bytes whatever it arrived as: bytes that happen
// to be UTF-8 come as text.
func bytesOf(v any) ([]byte, bool) {
	switch v := v.(type) {
	case []byte:
		return v, true
	case string:
		return []byte(v), true
	}
	return nil, false
}

// shortRepr is a value of a peer as it may stand in a log line.
func shortRepr(v any) string {
	switch v.(type) {
	case *Map, *List:
		return "a " + TypeName(v)
	}
	s := Repr(v)
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return s
}
