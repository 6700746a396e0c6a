// Hashes of passwords as /etc/shadow has them: the schemes of crypt(3) for
// SHA-512, SHA-256 and MD5.
package main

import (
	"crypto/md5"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"strconv"
	"strings"
)

const cryptAlphabet = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// cryptHash hashes a password; salt is without its prefix and may begin with
// rounds=N$. "" if the algorithm is not known here.
func cryptHash(algorithm, salt, password string) string {
	switch algorithm {
	case "sha512":
		return shaCrypt("$6$", salt, password, sha512.New, sha512Order())
	case "sha256":
		return shaCrypt("$5$", salt, password, sha256.New, sha256Order())
	case "md5":
		return md5Crypt("$1$", salt, password)
	}
	return ""
}

// cryptSalt makes a salt of n characters.
func cryptSalt(n int) string {
	p := randomBinary(n)
	for i := range p {
		p[i] = cryptAlphabet[p[i]&63]
	}
	return string(p)
}

// crypt64 writes 24 bits as n characters, the lowest six bits first.
func crypt64(b *strings.Builder, v uint32, n int) {
	for ; n > 0; n-- {
		b.WriteByte(cryptAlphabet[v&63])
		v >>= 6
	}
}

// sha512Order and sha256Order are the places of the digest's bytes in its text.
func sha512Order() []int {
	return []int{0, 21, 42, 22, 43, 1, 44, 2, 23, 3, 24, 45, 25, 46, 4, 47, 5, 26, 6, 27, 48, 28, 49, 7, 50, 8, 29, 9, 30, 51,
		31, 52, 10, 53, 11, 32, 12, 33, 54, 34, 55, 13, 56, 14, 35, 15, 36, 57, 37, 58, 16, 59, 17, 38, 18, 39, 60, 40, 61, 19, 62, 20, 41, 63}
}

func sha256Order() []int {
	return []int{0, 10, 20, 21, 1, 11, 12, 22, 2, 3, 13, 23, 24, 4, 14, 15, 25, 5, 6, 16, 26, 27, 7, 17, 18, 28, 8, 9, 19, 29, 31, 30}
}

func shaCrypt(prefix, salt, password string, newHash func() hash.Hash, order []int) string {
	rounds, shown := 5000, ""
	if rest, ok := strings.CutPrefix(salt, "rounds="); ok {
		if n, tail, ok := strings.Cut(rest, "$"); ok {
			if v, err := strconv.Atoi(n); err == nil {
				rounds = min(max(v, 1000), 999999999)
				salt, shown = tail, "rounds="+strconv.Itoa(rounds)+"$"
			}
		}
	}
	salt, _, _ = strings.Cut(salt, "$")
	if len(salt) > 16 {
		salt = salt[:16]
	}
	key, s := []byte(password), []byte(salt)
	sum := func(parts ...[]byte) []byte {
		h := newHash()
		for _, p := range parts {
			h.Write(p)
		}
		return h.Sum(nil)
	}
	repeat := func(p []byte, n int) []byte {
		var out []byte
		for ; n > len(p); n -= len(p) {
			out = append(out, p...)
		}
		return append(out, p[:n]...)
	}
	b := sum(key, s, key)
	h := newHash()
	h.Write(key)
	h.Write(s)
	h.Write(repeat(b, len(key)))
	for n := len(key); n > 0; n >>= 1 {
		if n&1 != 0 {
			h.Write(b)
		} else {
			h.Write(key)
		}
	}
	a := h.Sum(nil)
	h = newHash()
	for range key {
		h.Write(key)
	}
	p := repeat(h.Sum(nil), len(key))
	h = newHash()
	for range 16 + int(a[0]) {
		h.Write(s)
	}
	ds := repeat(h.Sum(nil), len(s))
	for i := range rounds {
		h = newHash()
		if i&1 != 0 {
			h.Write(p)
		} else {
			h.Write(a)
		}
		if i%3 != 0 {
			h.Write(ds)
		}
		if i%7 != 0 {
			h.Write(p)
		}
		if i&1 != 0 {
			h.Write(a)
		} else {
			h.Write(p)
		}
		a = h.Sum(a[:0:0])
	}
	var out strings.Builder
	out.WriteString(prefix + shown + salt + "$")
	i := 0
	for ; i+3 <= len(order); i += 3 {
		crypt64(&out, uint32(a[order[i]])<<16|uint32(a[order[i+1]])<<8|uint32(a[order[i+2]]), 4)
	}
	switch len(order) - i {
	case 1:
		crypt64(&out, uint32(a[order[i]]), 2)
	case 2:
		crypt64(&out, uint32(a[order[i]])<<8|uint32(a[order[i+1]]), 3)
	}
	return out.String()
}

// md5Crypt is the scheme of $1$, and of Apache's $apr1$.
func md5Crypt(magic, salt, password string) string {
	salt, _, _ = strings.Cut(salt, "$")
	if len(salt) > 8 {
		salt = salt[:8]
	}
	key, s := []byte(password), []byte(salt)
	h := md5.New()
	h.Write(key)
	h.Write(s)
	h.Write(key)
	b := h.Sum(nil)
	h = md5.New()
	h.Write(key)
	h.Write([]byte(magic))
	h.Write(s)
	for n := len(key); n > 0; n -= 16 {
		h.Write(b[:min(16, n)])
	}
	for n := len(key); n > 0; n >>= 1 {
		if n&1 != 0 {
			h.Write([]byte{0})
		} else {
			h.Write(key[:1])
		}
	}
	a := h.Sum(nil)
	for i := range 1000 {
		h = md5.New()
		if i&1 != 0 {
			h.Write(key)
		} else {
			h.Write(a)
		}
		if i%3 != 0 {
			h.Write(s)
		}
		if i%7 != 0 {
			h.Write(key)
		}
		if i&1 != 0 {
			h.Write(a)
		} else {
			h.Write(key)
		}
		a = h.Sum(nil)
	}
	var out strings.Builder
	out.WriteString(magic + salt + "$")
	for _, o := range [][3]int{{0, 6, 12}, {1, 7, 13}, {2, 8, 14}, {3, 9, 15}, {4, 10, 5}} {
		crypt64(&out, uint32(a[o[0]])<<16|uint32(a[o[1]])<<8|uint32(a[o[2]]), 4)
	}
	crypt64(&out, uint32(a[11]), 2)
	return out.String()
}
