// Keys of swarm minions: made ahead, kept in a directory, used again.
//
// The law of this file: these keys are for measuring and for nothing else. So
// that thousands are there in seconds, they are made of few primes, each of
// which stands in many keys: whoever has two of the public keys can compute the
// private ones. For a master they cost what any keys cost. With each key lies
// the signature that every request carries, so that a swarm starts without
// thousands of private operations.
package main

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

const (
	swarmKeyBits    = 2048
	swarmTokenBlock = "SALT TOKEN"
)

// swarmKey is one key. Its private half is parsed when it is first needed.
type swarmKey struct {
	pub     string // as it is sent
	tok     []byte
	private func() (*PrivateKey, error)
}

// swarmKeyPath is the file of key number i.
func swarmKeyPath(dir string, i int) string {
	return filepath.Join(dir, fmt.Sprintf("key-%05d.pem", i))
}

// loadSwarmKeys reads n keys of a directory and makes those that are missing.
func loadSwarmKeys(dir string, n int) (keys []*swarmKey, made int, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, 0, fmt.Errorf("make the directory of keys: %w", err)
	}
	keys = make([]*swarmKey, n)
	var missing []int
	for i := range keys {
		text, err := os.ReadFile(swarmKeyPath(dir, i+1))
		if err == nil {
			keys[i], err = parseSwarmKey(text)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, i)
		case err != nil:
			return nil, 0, fmt.Errorf("read key %s: %w; remove it to get a new one", swarmKeyPath(dir, i+1), err)
		}
	}
	if len(missing) == 0 {
		return keys, 0, nil
	}
	pool, err := primePool(len(missing))
	if err != nil {
		return nil, 0, err
	}
	err = inParallel(len(missing), func(k int) error {
		text, err := newSwarmKey(pool, k)
		if err != nil {
			return err
		}
		i := missing[k]
		if err := writeFileReplace(swarmKeyPath(dir, i+1), text, 0o600); err != nil {
			return err
		}
		keys[i], err = parseSwarmKey(text)
		return err
	})
	return keys, len(missing), err
}

// inParallel calls f for 0 to n-1 on all processors.
func inParallel(n int, f func(i int) error) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	next := 0
	for range min(runtime.GOMAXPROCS(0), n) {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := i >= n || first != nil
				mu.Unlock()
				if stop {
					return
				}
				if err := f(i); err != nil {
					mu.Lock()
					first = err
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return first
}

// primePool makes as many primes as it takes to have n pairs of them.
func primePool(n int) ([]*big.Int, error) {
	pairs := 1
	for (2*pairs)*(2*pairs-1)/2 < n {
		pairs++
	}
	pool := make([]*big.Int, 2*pairs)
	err := inParallel(pairs, func(i int) error {
		k, err := rsa.GenerateKey(rand.Reader, swarmKeyBits)
		if err != nil {
			return fmt.Errorf("make a key: %w", err)
		}
		pool[2*i], pool[2*i+1] = k.Primes[0], k.Primes[1]
		return nil
	})
	return pool, err
}

// newSwarmKey makes the k-th key of a pool, as the text of its file.
func newSwarmKey(pool []*big.Int, k int) ([]byte, error) {
	i, j := k, 1
	for i >= j { // pairs i < j in the order of j: of each j there are j
		i -= j
		j++
	}
	p, q := pool[i], pool[j]
	one := big.NewInt(1)
	p1, q1 := new(big.Int).Sub(p, one), new(big.Int).Sub(q, one)
	e := big.NewInt(65537)
	lcm := new(big.Int).Mul(p1, q1)
	lcm.Div(lcm, new(big.Int).GCD(nil, nil, p1, q1))
	rk := &rsa.PrivateKey{
		PublicKey: rsa.PublicKey{N: new(big.Int).Mul(p, q), E: int(e.Int64())},
		D:         new(big.Int).ModInverse(e, lcm), Primes: []*big.Int{p, q},
	}
	if rk.D == nil {
		return nil, errors.New("make a key: the primes do not fit the exponent")
	}
	rk.Precompute()
	key, err := newPrivateKey(rk)
	if err != nil {
		return nil, err
	}
	tok, err := key.SignTok()
	if err != nil {
		return nil, fmt.Errorf("sign the token: %w", err)
	}
	text := key.PrivatePEM()
	text = append(text, key.PublicPEM()+"\n"...)
	return append(text, pem.EncodeToMemory(&pem.Block{Type: swarmTokenBlock, Bytes: tok})...), nil
}

// parseSwarmKey reads the text of a key's file.
func parseSwarmKey(text []byte) (*swarmKey, error) {
	k := &swarmKey{}
	var private []byte
	for rest := text; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		switch {
		case b.Type == swarmTokenBlock:
			k.tok = b.Bytes
		case b.Type == "PUBLIC KEY":
			k.pub = CleanKey(string(pem.EncodeToMemory(b)))
		case strings.HasSuffix(b.Type, "PRIVATE KEY"):
			private = pem.EncodeToMemory(b)
		}
	}
	if k.pub == "" || k.tok == nil || private == nil {
		return nil, errors.New("it is no key of a swarm")
	}
	k.private = sync.OnceValues(func() (*PrivateKey, error) { return ParsePrivateKey(private, "") })
	return k, nil
}

// preseed puts the public keys of a swarm among the accepted ones of a master.
func preseed(pki string, ids []string, keys []*swarmKey) error {
	dir := OpenKeyDir(pki)
	if err := dir.Create(); err != nil {
		return err
	}
	for i, id := range ids {
		path, err := dir.path(KeyAccepted, id)
		if err != nil {
			return err
		}
		if have, err := readRegular(path, maxPubLen); err == nil && string(have) == keys[i].pub {
			continue
		}
		// They can be put there again: no need to wait for the disk for each.
		if err := writeFileReplace(path, []byte(keys[i].pub), 0o644); err != nil {
			return fmt.Errorf("preseed: %w", err)
		}
	}
	return nil
}
