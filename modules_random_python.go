// Python's random numbers: the Mersenne Twister with Python's ways to seed it
// and to draw from it, so that a seed gives the same choice as in Salt.
package main

import (
	"crypto/rand"
	"crypto/sha512"
	"math/big"
	"math/bits"
)

// pyRandom is one generator; not safe for concurrent use.
type pyRandom struct {
	state [624]uint32
	at    int
}

// newPyRandom seeds a generator as random.seed(v) does; nil seeds it by chance.
func newPyRandom(v any) *pyRandom {
	r := &pyRandom{}
	var n *big.Int
	switch v := v.(type) {
	case string:
		n = textSeed([]byte(v))
	case []byte:
		n = textSeed(v)
	case bool:
		n = big.NewInt(0)
		if v {
			n.SetInt64(1)
		}
	case int64:
		n = new(big.Int).Abs(big.NewInt(v))
	case *big.Int:
		n = new(big.Int).Abs(v)
	default:
		var p [32]byte
		_, _ = rand.Read(p[:])
		n = new(big.Int).SetBytes(p[:])
	}
	var key []uint32
	mask := big.NewInt(0xffffffff)
	for n.Sign() > 0 {
		key = append(key, uint32(new(big.Int).And(n, mask).Uint64()))
		n = new(big.Int).Rsh(n, 32)
	}
	if len(key) == 0 {
		key = []uint32{0}
	}
	r.initByArray(key)
	return r
}

func textSeed(p []byte) *big.Int {
	sum := sha512.Sum512(p)
	return new(big.Int).SetBytes(append(append([]byte{}, p...), sum[:]...))
}

func (r *pyRandom) initByArray(key []uint32) {
	s := &r.state
	s[0] = 19650218
	for i := 1; i < len(s); i++ {
		s[i] = 1812433253*(s[i-1]^s[i-1]>>30) + uint32(i)
	}
	i, j := 1, 0
	for k := max(len(s), len(key)); k > 0; k-- {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1664525) + key[j] + uint32(j)
		if i++; i >= len(s) {
			s[0], i = s[len(s)-1], 1
		}
		if j++; j >= len(key) {
			j = 0
		}
	}
	for k := len(s) - 1; k > 0; k-- {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1566083941) - uint32(i)
		if i++; i >= len(s) {
			s[0], i = s[len(s)-1], 1
		}
	}
	s[0] = 0x80000000
	r.at = len(s)
}

func (r *pyRandom) uint32() uint32 {
	s := &r.state
	if r.at >= len(s) {
		for i := range s {
			y := s[i]&0x80000000 | s[(i+1)%len(s)]&0x7fffffff
			s[i] = s[(i+397)%len(s)] ^ y>>1
			if y&1 != 0 {
				s[i] ^= 0x9908b0df
			}
		}
		r.at = 0
	}
	y := s[r.at]
	r.at++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// bits draws k bits, at most 64.
func (r *pyRandom) bits(k int) uint64 {
	if k <= 32 {
		return uint64(r.uint32() >> (32 - k))
	}
	low := uint64(r.uint32())
	return low | uint64(r.uint32()>>(64-k))<<32
}

// below draws a number from 0 to n-1.
func (r *pyRandom) below(n int64) int64 {
	if n <= 0 {
		return 0
	}
	k := bits.Len64(uint64(n))
	for {
		if v := r.bits(k); v < uint64(n) {
			return int64(v)
		}
	}
}

// sample chooses k items in chance order, as random.sample does.
func (r *pyRandom) sample(items []any, k int) []any {
	n := len(items)
	out := make([]any, k)
	setSize := 21
	if k > 5 {
		p := 1
		for p < k*3 {
			p *= 4
		}
		setSize += p
	}
	if n <= setSize {
		pool := append([]any{}, items...)
		for i := range out {
			j := r.below(int64(n - i))
			out[i] = pool[j]
			pool[j] = pool[n-i-1]
		}
		return out
	}
	taken := map[int64]bool{}
	for i := range out {
		j := r.below(int64(n))
		for taken[j] {
			j = r.below(int64(n))
		}
		taken[j] = true
		out[i] = items[j]
	}
	return out
}
