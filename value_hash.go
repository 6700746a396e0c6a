// Hashes by name: those of Python's hashlib, which hash_type, functions and
// filters name.
package main

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"hash"
	"strings"
)

// newHash makes a hash by Python's name of it; nil if there is none.
func newHash(name string) hash.Hash {
	switch strings.ToLower(name) {
	case "md5":
		return md5.New()
	case "sha1":
		return sha1.New()
	case "sha224":
		return sha256.New224()
	case "sha256":
		return sha256.New()
	case "sha384":
		return sha512.New384()
	case "sha512":
		return sha512.New()
	case "sha3_224":
		return sha3.New224()
	case "sha3_256":
		return sha3.New256()
	case "sha3_384":
		return sha3.New384()
	case "sha3_512":
		return sha3.New512()
	}
	return nil
}

// hashByName is newHash for an option hash_type, which may be left empty.
func hashByName(name string) hash.Hash {
	if name == "" {
		name = "sha256"
	}
	return newHash(name)
}
