// What a login and a return cost the master.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkLogin is one login over the network, the fake minion's own RSA work
// included (one private operation to make the token's comparison possible).
func BenchmarkLogin(b *testing.B) {
	m := startMaster(b, "log_level", "quiet")
	m.log = logNowhere()
	if err := m.keys.Put(KeyAccepted, "m", []byte(masterTestKeys()[1].PublicPEM())); err != nil {
		b.Fatal(err)
	}
	a := &AuthRequest{Version: 3, ID: "m", Nonce: NewNonce(), EncAlgo: AlgoOAEPSHA1, SigAlgo: AlgoPKCS1v15SHA1, Pub: masterTestKeys()[1].PublicPEM()}
	body, err := a.Encode()
	if err != nil {
		b.Fatal(err)
	}
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		r := m.asker(b)
		for pb.Next() {
			if len(ask(b, r, body)) < 500 {
				b.Error("refused")
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "logins/s")
}

// BenchmarkReturn is one return over the network: decrypted, filed, on the bus,
// acknowledged.
func BenchmarkReturn(b *testing.B) {
	m := startMaster(b)
	m.log = logNowhere()
	f := m.accepted(b, "m", 1)
	tok, err := f.key.SignTok()
	if err != nil {
		b.Fatal(err)
	}
	const minions = 500
	type peer struct {
		id string
		c  *Crypticle
	}
	var peers [minions]peer
	for i := range peers {
		id := fmt.Sprintf("minion-%d", i)
		if err := os.WriteFile(filepath.Join(m.keys.Dir(), KeyAccepted, id), []byte(f.key.PublicPEM()), 0o644); err != nil {
			b.Fatal(err)
		}
		_, c, err := m.sessions.Get(id, time.Now())
		if err != nil {
			b.Fatal(err)
		}
		peers[i] = peer{id, c}
	}
	start := time.Now()
	var n atomic.Int64
	b.SetParallelism(32)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		r := m.asker(b)
		for pb.Next() {
			i := int(n.Add(1))
			p := peers[i%minions]
			load := NewMap("cmd", "_return", "id", p.id, "jid", jidAt(start, i/minions), "fun", "test.ping", "fun_args", NewList(), "return", true, "retcode", int64(0), "success", true)
			nonce := NewNonce()
			body, err := NewSealedRequest(p.c, 3, load, p.id, nonce, tok, time.Now(), f.enc, f.sig)
			if err != nil {
				b.Error(err)
			}
			if _, err := OpenReply(p.c, ask(b, r, body), nonce); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "returns/s")
}
