// What the running master remembers of its minions: from which address each was
// last heard, and its public key as parsed.
package main

import (
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// minionsSeen remembers where each minion was last heard.
type minionsSeen struct {
	mu  sync.Mutex
	ids map[string]seenAt
}

type seenAt struct {
	addr string // without port
	at   time.Time
}

func newMinionsSeen() *minionsSeen { return &minionsSeen{ids: map[string]seenAt{}} }

// note says that a minion that proved its identity was heard from an address.
func (s *minionsSeen) note(id string, from net.Addr) {
	host := hostOf(from)
	now := time.Now()
	s.mu.Lock()
	s.ids[id] = seenAt{host, now}
	s.mu.Unlock()
}

func (s *minionsSeen) forget(id string) {
	s.mu.Lock()
	delete(s.ids, id)
	s.mu.Unlock()
}

func (s *minionsSeen) all() map[string]seenAt {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]seenAt, len(s.ids))
	for id, at := range s.ids {
		out[id] = at
	}
	return out
}

// hostOf is an address without its port.
func hostOf(a net.Addr) string {
	if a == nil {
		return ""
	}
	if t, ok := a.(*net.TCPAddr); ok {
		return t.IP.String()
	}
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}

// presentIDs are the minions with an open subscription. A subscriber doesn't say
// who it is, except under zmq_filtering; else those count that were heard from an
// address that has a subscription.
func (m *Master) presentIDs() map[string]string {
	present := map[string]string{}
	if m.pub == nil {
		return present
	}
	hosts := map[string]bool{}
	topics := map[string]bool{}
	for _, p := range m.pub.Peers() {
		hosts[hostOf(p.RemoteAddr)] = true
		for _, t := range p.Topics {
			topics[t] = true
		}
	}
	for id, at := range m.seen.all() {
		if !hosts[at.addr] || m.filtering && !topics[""] && !topics[MinionTopic(id)] {
			continue
		}
		present[id] = at.addr
	}
	return present
}

// pubKeyCache keeps the parsed keys of accepted minions. The file is looked at
// for each use, so that a key that was deleted or changed counts at once.
type pubKeyCache struct {
	mu   sync.Mutex
	keys map[string]parsedKey
}

type parsedKey struct {
	stat os.FileInfo
	key  *PublicKey
}

func newPubKeyCache() *pubKeyCache { return &pubKeyCache{keys: map[string]parsedKey{}} }

func (c *pubKeyCache) get(d *KeyDir, id string) (*PublicKey, error) {
	if err := ValidMinionID(id); err != nil {
		return nil, err
	}
	st, err := os.Lstat(filepath.Join(d.Dir(), KeyAccepted, id))
	if err == nil {
		c.mu.Lock()
		have, ok := c.keys[id]
		c.mu.Unlock()
		if ok && os.SameFile(have.stat, st) && have.stat.ModTime().Equal(st.ModTime()) && have.stat.Size() == st.Size() {
			return have.key, nil
		}
	}
	c.forget(id)
	text, err := d.Get(KeyAccepted, id)
	if err != nil {
		return nil, err
	}
	key, err := ParsePublicKey(text)
	if err != nil {
		return nil, err
	}
	if time.Since(st.ModTime()) > dirSettle {
		c.mu.Lock()
		c.keys[id] = parsedKey{st, key}
		c.mu.Unlock()
	}
	return key, nil
}

func (c *pubKeyCache) forget(id string) {
	c.mu.Lock()
	delete(c.keys, id)
	c.mu.Unlock()
}
