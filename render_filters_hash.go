// Salt's filters that hash, encode and draw at random.
package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"math/big"
	"os"
	"unicode/utf8"
)

func hashFilters() map[string]*JinjaFilter {
	digest := func(name string) *JinjaFilter {
		return jinjaFilter(name+"_digest", "", func(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			p, err := toBytes(v)
			if err != nil {
				return nil, err
			}
			h := newHash(name)
			h.Write(p)
			return hex.EncodeToString(h.Sum(nil)), nil
		})
	}
	mac := func(v, secret any) ([]byte, error) {
		msg, err := toBytes(v)
		if err != nil {
			return nil, err
		}
		key, err := toBytes(secret)
		if err != nil {
			return nil, err
		}
		h := hmac.New(sha256.New, key)
		h.Write(msg)
		return h.Sum(nil), nil
	}
	randomHash := jinjaEntry('p', 0, "random_hash", "hash_type=None", func(_ *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
		name := "md5"
		if Truth(a[0]) {
			name = Str(a[0])
		}
		h := newHash(name)
		if h == nil {
			return nil, jinjaErr("AttributeError", "module 'hashlib' has no attribute %s", Repr(name))
		}
		n, err := intArg(v)
		if err != nil {
			return nil, err
		}
		if n < 0 {
			return nil, jinjaValueError("empty range for randrange() (0, %d, %d)", n+1, n+1)
		}
		k, err := rand.Int(rand.Reader, big.NewInt(n+1))
		if err != nil {
			return nil, err
		}
		h.Write([]byte(k.String()))
		return hex.EncodeToString(h.Sum(nil)), nil
	})
	return map[string]*JinjaFilter{
		"md5": digest("md5"), "sha1": digest("sha1"), "sha256": digest("sha256"), "sha512": digest("sha512"),
		"base64_encode": jinjaFilter("base64_b64encode", "", func(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			p, err := toBytes(v)
			return base64.StdEncoding.EncodeToString(p), err
		}),
		"base64_decode": jinjaFilter("base64_b64decode", "", func(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			p, err := toBytes(v)
			if err != nil {
				return nil, err
			}
			out, err := decodeBase64Lenient(string(p))
			if err != nil {
				return nil, jinjaErr("binascii.Error", "%s", err)
			}
			if utf8.Valid(out) {
				return string(out), nil
			}
			return out, nil
		}),
		"hmac": jinjaFilter("hmac_signature", "shared_secret, challenge_hmac", func(_ *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			sum, err := mac(v, a[0])
			if err != nil {
				return nil, err
			}
			want, err := toBytes(a[1])
			return hmac.Equal([]byte(base64.StdEncoding.EncodeToString(sum)), want), err
		}),
		"hmac_compute": jinjaFilter("hmac_compute", "shared_secret", func(_ *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			sum, err := mac(v, a[0])
			return hex.EncodeToString(sum), err
		}),
		"rand_str": randomHash, "random_hash": randomHash,
		"random_str": jinjaEntry('p', 0, "random", "", func(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			n, err := intArg(v)
			if err != nil {
				return nil, err
			}
			if n < 0 || n > 1<<20 {
				return nil, jinjaValueError("negative argument not allowed")
			}
			p := make([]byte, n)
			if _, err := rand.Read(p); err != nil {
				return nil, err
			}
			return base64.StdEncoding.EncodeToString(p)[:n], nil
		}),
		"file_hashsum": jinjaFilter("get_hash", "form='sha256', chunk_size=65536", func(_ *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			h := newHash(Str(a[0]))
			if h == nil {
				return nil, jinjaValueError("Invalid hash type: %s", Str(a[0]))
			}
			f, err := os.Open(Str(v))
			if err != nil {
				return nil, fileError(err, Str(v))
			}
			defer f.Close()
			if _, err := io.Copy(h, f); err != nil {
				return nil, fileError(err, Str(v))
			}
			return hex.EncodeToString(h.Sum(nil)), nil
		}),
	}
}
