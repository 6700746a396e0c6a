// Logins: the clear `_auth` request and its signed answer.
//
// The law of this room: a login runs beside the request loop, and no more of
// them at once than the machine has cores. It costs one private RSA operation,
// a second one if the minion sent a token; everything else is public or was
// computed before. Who may log in is decided by DecideAuth alone. Each outcome
// is one log line with id and address, and one event.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// masterAES is the shared key under which everything is published, and what
// was computed once for it. A rotation makes a new one.
type masterAES struct {
	text   string
	c      *Crypticle
	sig    []byte // the inner signature of every login reply
	serial atomic.Int64
}

// newMasterAES makes a key, signed by the master's key.
func newMasterAES(k *PrivateKey) (*masterAES, error) {
	a := &masterAES{text: GenerateKeyString()}
	var err error
	if a.c, err = NewCrypticle(a.text); err != nil {
		return nil, err
	}
	if a.sig, err = k.SignX931(AESDigest(a.text)); err != nil {
		return nil, fmt.Errorf("sign the publication key: %w", err)
	}
	return a, nil
}

// rotateAES replaces the shared key. Minions notice with the next publication.
func (m *Master) rotateAES(why string) error {
	a, err := newMasterAES(m.key)
	if err != nil {
		return err
	}
	m.publishing.Lock() // serials of one key never go out under another
	m.aes.Store(a)
	m.publishing.Unlock()
	m.log.Info(fmt.Sprintf("rotated the publication key: %s", why))
	m.metrics.rotations.Add(1)
	m.bus.Fire("key", NewMap("rotate_aes_key", true))
	return nil
}

// dropFile is the file that asks for a rotation.
const dropFile = ".dfn"

// checkDropFile rotates the key if the drop file is there with exactly the mode
// that salt-key gives it, and takes the file away.
func (m *Master) checkDropFile() {
	path := filepath.Join(m.cachedir, dropFile)
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil || !st.Mode().IsRegular() || st.Mode().Perm() != 0o400 {
		m.log.Error(fmt.Sprintf("drop file %s has wrong permissions; the key is not rotated", path))
		return
	}
	if err := os.Remove(path); err != nil {
		m.log.Error(fmt.Sprintf("remove drop file: %v", err))
		return
	}
	if err := m.rotateAES("asked for by the drop file"); err != nil {
		m.log.Error(fmt.Sprintf("rotate the publication key: %v", err))
	}
}

// login answers an _auth request. It waits for its turn first.
func (m *Master) login(ctx context.Context, p *Peer, r *Request) []byte {
	started := time.Now()
	select {
	case m.loginSlots <- struct{}{}:
		defer func() { <-m.loginSlots }()
	case <-ctx.Done():
		return nil
	}
	a, err := DecodeAuthRequest(r)
	if err != nil {
		refusal := RefusalOf(err)
		m.log.Warn(fmt.Sprintf("refused a login from %s: %v", p.RemoteAddr, refusal))
		m.metrics.refused.Add(1)
		return refusal.Reply()
	}
	reply := m.decideLogin(p, a)
	out, err := reply.Encode(a.Version, func(msg []byte) ([]byte, error) { return m.key.Sign(a.SigAlgo, msg) })
	if err != nil {
		m.log.Error(fmt.Sprintf("login of %s from %s: %v", shortRepr(a.ID), p.RemoteAddr, err))
		return m.refuse(RefusedServer)
	}
	if reply.Ret == AuthAccepted {
		m.metrics.logins.Add(1)
	} else {
		m.metrics.loginsRefused.Add(1)
	}
	m.metrics.loginTime.observe(time.Since(started))
	return out
}

// decideLogin builds the answer and does what belongs to it.
func (m *Master) decideLogin(p *Peer, a *AuthRequest) *AuthReply {
	reply := &AuthReply{Ret: AuthRefused, Nonce: a.Nonce}
	who := fmt.Sprintf("%s from %s", shortRepr(a.ID), p.RemoteAddr)
	switch {
	case a.Version < m.minVersion:
		m.log.Warn(fmt.Sprintf("refused login of %s: it speaks version %d, minimum_auth_version is %d", who, a.Version, m.minVersion))
		return reply
	case !ValidSigAlgo(a.SigAlgo):
		m.log.Warn(fmt.Sprintf("refused login of %s: unknown signing algorithm %s", who, shortRepr(a.SigAlgo)))
		reply.Ret = AuthBadSig
		return reply
	case !ValidEncAlgo(a.EncAlgo):
		m.log.Warn(fmt.Sprintf("refused login of %s: unknown encryption algorithm %s", who, shortRepr(a.EncAlgo)))
		reply.Ret = AuthBadEnc
		return reply
	}
	facts, dec, err := m.applyAuthRules(a)
	if err != nil {
		m.log.Error(fmt.Sprintf("login of %s: %v", who, err))
		return reply
	}
	reply.Ret = dec.Ret
	if dec.Event && m.authEvents {
		ev := NewMap("result", dec.Result, "id", a.ID, "pub", a.Pub)
		if dec.Act != "" {
			ev.Set("act", dec.Act)
		}
		m.bus.Fire("salt/auth", ev)
	}
	switch dec.Ret {
	case AuthPending:
		m.log.Info(fmt.Sprintf("login of %s: %s", who, dec.Why))
		return reply
	case AuthAccepted:
	default:
		m.log.Warn(fmt.Sprintf("refused login of %s: %s", who, dec.Why))
		if dec.Store == KeyDenied {
			m.reportTwoKeys(p, a, facts)
		}
		return reply
	}
	if dec.Store == KeyAccepted {
		m.log.Info(fmt.Sprintf("accepted the key of %s by %s", who, dec.Why))
	}
	if err := m.fillLogin(reply, a); err != nil {
		m.log.Error(fmt.Sprintf("login of %s: %v", who, err))
		return &AuthReply{Ret: AuthRefused, Nonce: a.Nonce}
	}
	m.seen.note(a.ID, p.RemoteAddr)
	m.log.Debug(fmt.Sprintf("login of %s accepted", who))
	return reply
}

// applyAuthRules decides and carries the decision out. Two logins under one id
// wait for each other, so that both see what the first one did.
func (m *Master) applyAuthRules(a *AuthRequest) (AuthFacts, AuthDecision, error) {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	facts, err := m.keys.GatherAuth(a, m.conf.Load().rules, m.isFull(a.ID), time.Now())
	if err != nil {
		return facts, AuthDecision{}, err
	}
	dec := DecideAuth(facts)
	if err := m.keys.CarryOut(facts, dec); err != nil {
		return facts, dec, err
	}
	return facts, dec, nil
}

// fillLogin puts the keys into the answer to an accepted login.
func (m *Master) fillLogin(reply *AuthReply, a *AuthRequest) error {
	pub, err := m.publicKeyOf(a.ID) // the accepted one, which its requests will need too
	if err != nil {
		return err
	}
	aes := m.aes.Load()
	reply.PubKey = CleanKey(m.key.PublicPEM())
	reply.PublishPort = m.publishPort
	reply.Sig = aes.sig
	if reply.PubSig, err = m.pubSig(a.SigAlgo); err != nil {
		return fmt.Errorf("sign the master's key: %w", err)
	}
	if a.Token != nil {
		// A token that was not made for this master is ignored, as Salt does.
		if token, err := m.key.DecryptOAEP(a.EncAlgo, a.Token); err == nil {
			if reply.Token, err = pub.EncryptOAEP(a.EncAlgo, token); err != nil {
				return fmt.Errorf("encrypt the token: %w", err)
			}
		}
	}
	if reply.AES, err = pub.EncryptOAEP(a.EncAlgo, []byte(aes.text)); err != nil {
		return fmt.Errorf("encrypt the publication key: %w", err)
	}
	session, _, err := m.sessions.Get(a.ID, time.Now())
	if err != nil {
		return err
	}
	if reply.Session, err = pub.EncryptOAEP(a.EncAlgo, []byte(session)); err != nil {
		return fmt.Errorf("encrypt the session key: %w", err)
	}
	return nil
}

// pubSig is the signature of the master's public key by the signing key, "" if
// there is none. It is made once for each algorithm.
func (m *Master) pubSig(algo string) (string, error) {
	if m.pubSigText != "" {
		return m.pubSigText, nil
	}
	if m.signKey == nil {
		return "", nil
	}
	m.deciding.Lock()
	defer m.deciding.Unlock()
	if sig, ok := m.pubSigs[algo]; ok {
		return sig, nil
	}
	sig, err := m.signKey.SignPub(algo, m.key.PublicPEM())
	if err == nil {
		m.pubSigs[algo] = sig
	}
	return sig, err
}

// reportTwoKeys says that two keys claim one id: mostly a cloned machine.
func (m *Master) reportTwoKeys(p *Peer, a *AuthRequest, facts AuthFacts) {
	have, state := facts.Accepted, "accepted"
	if have == nil {
		have, state = facts.Pending, "pending"
	}
	old, sent := Fingerprint(have, m.hashType), Fingerprint([]byte(a.Pub), m.hashType)
	m.log.Error(fmt.Sprintf("two keys claim the id %s: %s has the fingerprint %s, %s sent by %s; "+
		"give the machine another id, or delete the key with salt-key -d %s", a.ID, state, old, sent, p.RemoteAddr, a.ID))
	m.bus.Fire("salt/auth/duplicate", NewMap("id", a.ID, "state", state, "fingerprint", old,
		"sent", sent, "address", p.RemoteAddr.String()))
}

// isFull says whether max_minions keeps this id out.
func (m *Master) isFull(id string) bool {
	if m.maxMinions <= 0 {
		return false
	}
	present := m.presentIDs()
	if _, ok := present[id]; ok {
		return false
	}
	return len(present) >= m.maxMinions
}

// publicKeyOf is the accepted key of a minion. ErrNoKey if it is not accepted.
func (m *Master) publicKeyOf(id string) (*PublicKey, error) {
	return m.pubKeys.get(m.keys, id)
}
