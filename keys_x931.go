// X9.31 signatures with message recovery and without a hash: the form of `tok`
// in requests and of `sig` in a login reply. crypto/rsa has neither the padding
// nor the bare operation, so the arithmetic is here.
//
// Only two messages are ever signed this way, each once for a key and kept, so
// this need not be fast; the private operation is blinded and its result checked.
package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
)

// SignX931 signs a message that is shorter than the key by two bytes at least.
func (k *PrivateKey) SignX931(msg []byte) ([]byte, error) {
	size := (k.N.BitLen() + 7) / 8
	fill := size - len(msg) - 3 // between 6B … BA and CC
	if fill < -1 {
		return nil, fmt.Errorf("sign: message of %d bytes is too long for the key", len(msg))
	}
	block := make([]byte, 0, size)
	if fill < 0 {
		block = append(block, 0x6a)
	} else {
		block = append(block, 0x6b)
		block = append(block, bytes.Repeat([]byte{0xbb}, fill)...)
		block = append(block, 0xba)
	}
	block = append(append(block, msg...), 0xcc)
	m := new(big.Int).SetBytes(block)
	if m.Cmp(k.N) >= 0 {
		return nil, errors.New("sign: message does not fit the key")
	}
	s, err := k.rawPrivate(m)
	if err != nil {
		return nil, err
	}
	if other := new(big.Int).Sub(k.N, s); other.Cmp(s) < 0 {
		s = other
	}
	return s.FillBytes(make([]byte, size)), nil
}

// rawPrivate is m^d mod n, blinded by a random factor so that its time tells
// nothing of m, and checked so that no faulty result leaves.
func (k *PrivateKey) rawPrivate(m *big.Int) (*big.Int, error) {
	e := big.NewInt(int64(k.E))
	var r, inverse *big.Int
	for {
		var err error
		if r, err = rand.Int(rand.Reader, k.N); err != nil {
			return nil, err
		}
		if inverse = new(big.Int).ModInverse(r, k.N); r.Sign() > 0 && inverse != nil {
			break
		}
	}
	c := new(big.Int).Exp(r, e, k.N)
	c.Mul(c, m).Mod(c, k.N)
	s := c.Exp(c, k.D, k.N)
	s.Mul(s, inverse).Mod(s, k.N)
	if new(big.Int).Exp(s, e, k.N).Cmp(m) != 0 {
		return nil, errors.New("sign: the key pair does not fit together")
	}
	return s, nil
}

// RecoverX931 checks a signature and returns the message in it.
func (k *PublicKey) RecoverX931(sig []byte) ([]byte, error) {
	n := k.key.N
	size := (n.BitLen() + 7) / 8
	s := new(big.Int).SetBytes(sig)
	if len(sig) != size || s.Cmp(n) >= 0 {
		return nil, ErrBadSignature
	}
	t := new(big.Int).Exp(s, big.NewInt(int64(k.key.E)), n)
	if t.Bit(3) != 1 || t.Bit(2) != 1 || t.Bit(1) != 0 || t.Bit(0) != 0 { // not …C
		t.Sub(n, t)
	}
	block := t.FillBytes(make([]byte, size))
	if block[size-1] != 0xcc {
		return nil, ErrBadSignature
	}
	body := block[1 : size-1]
	switch block[0] {
	case 0x6a:
		return body, nil
	case 0x6b:
		for i, c := range body {
			if c == 0xba {
				return body[i+1:], nil
			}
			if c != 0xbb {
				break
			}
		}
	}
	return nil, ErrBadSignature
}
