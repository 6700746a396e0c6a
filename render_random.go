// Python's random numbers from a seed: the Mersenne Twister, as random.Random
// runs it. Templates pick "random" minutes and members from a seed and expect
// the same ones on every run and from every Salt.
package main

import (
	"crypto/sha512"
	"encoding/hex"
	"math/big"
	"math/bits"
	"math/rand/v2"
)

// pythonRandom is random.Random.
type pythonRandom struct {
	mt    [624]uint32
	index int
}

// newPythonRandom seeds as random.Random(text) does.
func newPythonRandom(seed string) *pythonRandom {
	sum := sha512.Sum512([]byte(seed))
	n := new(big.Int).SetBytes(append([]byte(seed), sum[:]...))
	var key []uint32
	mask := new(big.Int).SetUint64(0xffffffff)
	for n.Sign() > 0 {
		key = append(key, uint32(new(big.Int).And(n, mask).Uint64()))
		n.Rsh(n, 32)
	}
	if len(key) == 0 {
		key = []uint32{0}
	}
	p := &pythonRandom{}
	p.init(19650218)
	i, j := 1, 0
	for range max(624, len(key)) {
		p.mt[i] = (p.mt[i] ^ (p.mt[i-1]^p.mt[i-1]>>30)*1664525) + key[j] + uint32(j)
		i++
		j++
		if i >= 624 {
			p.mt[0], i = p.mt[623], 1
		}
		if j >= len(key) {
			j = 0
		}
	}
	for range 623 {
		p.mt[i] = (p.mt[i] ^ (p.mt[i-1]^p.mt[i-1]>>30)*1566083941) - uint32(i)
		i++
		if i >= 624 {
			p.mt[0], i = p.mt[623], 1
		}
	}
	p.mt[0] = 0x80000000
	return p
}

func (p *pythonRandom) init(s uint32) {
	p.mt[0] = s
	for i := 1; i < 624; i++ {
		p.mt[i] = 1812433253*(p.mt[i-1]^p.mt[i-1]>>30) + uint32(i)
	}
	p.index = 624
}

func (p *pythonRandom) uint32() uint32 {
	if p.index >= 624 {
		for i := range 624 {
			y := p.mt[i]&0x80000000 | p.mt[(i+1)%624]&0x7fffffff
			p.mt[i] = p.mt[(i+397)%624] ^ y>>1
			if y&1 != 0 {
				p.mt[i] ^= 0x9908b0df
			}
		}
		p.index = 0
	}
	y := p.mt[p.index]
	p.index++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// below is randbelow(n) for n up to 2^32.
func (p *pythonRandom) below(n int) int {
	k := bits.Len(uint(n))
	for {
		r := int(p.uint32() >> (32 - k))
		if r < n {
			return r
		}
	}
}

// sample is random.sample over positions.
func (p *pythonRandom) sample(n, k int) []int {
	out := make([]int, k)
	setsize := 21
	if k > 5 {
		for size := 1; ; size *= 4 {
			if size >= k*3 {
				setsize += size
				break
			}
		}
	}
	if n <= setsize {
		pool := make([]int, n)
		for i := range pool {
			pool[i] = i
		}
		for i := range out {
			j := p.below(n - i)
			out[i] = pool[j]
			pool[j] = pool[n-i-1]
		}
		return out
	}
	selected := map[int]bool{}
	for i := range out {
		j := p.below(n)
		for selected[j] {
			j = p.below(n)
		}
		selected[j] = true
		out[i] = j
	}
	return out
}

// sampleFilter is random_sample.
func sampleFilter(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	switch v := v.(type) {
	case *List, Tuple, string, Markup, *jinjaRange:
	case *JinjaUndefined:
		return nil, v.fail()
	default:
		return nil, jinjaTypeError("Population must be a sequence.  For dicts or sets, use sorted(d).")
	}
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	k, err := intArg(a[0])
	if err != nil {
		return nil, err
	}
	if k < 0 || k > int64(len(items)) {
		return nil, jinjaValueError("Sample larger than population or is negative")
	}
	var picks []int
	if a[1] == nil {
		picks = rand.Perm(len(items))[:k]
	} else {
		// the seed is hashed first
		seed, err := toBytes(a[1])
		if err != nil {
			return nil, jinjaTypeError("object supporting the buffer API required")
		}
		sum := sha512.Sum512(seed)
		picks = newPythonRandom(hex.EncodeToString(sum[:])).sample(len(items), int(k))
	}
	out := &List{}
	for _, i := range picks {
		out.Append(items[i])
	}
	return out, nil
}
