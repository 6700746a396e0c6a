// Module hashutil: digests and base64.
package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"os"
	"strings"
	"unicode/utf8"
)

func hashutilModule() Module {
	return Module{
		Doc: "Digests of texts and files, and base64.",
		Funcs: Funcs{
			"digest":              {run: hashutilDigest, doc: "Return the digest of a text: md5, sha256 or sha512."},
			"digest_file":         {run: hashutilDigestFile, doc: "Return the digest of a file."},
			"md5_digest":          {run: digestWith("md5"), doc: "Return the MD5 digest of a text."},
			"sha256_digest":       {run: digestWith("sha256"), doc: "Return the SHA-256 digest of a text."},
			"sha512_digest":       {run: digestWith("sha512"), doc: "Return the SHA-512 digest of a text."},
			"base64_b64encode":    {run: base64Encode, doc: "Encode a text as base64 without line breaks."},
			"base64_b64decode":    {run: base64Decode, doc: "Decode base64."},
			"base64_encodestring": {run: base64EncodeLines, doc: "Encode a text as base64 in lines of 76 characters."},
			"base64_decodestring": {run: base64Decode, doc: "Decode base64 with line breaks."},
			"base64_encodefile":   {run: base64EncodeFile, doc: "Encode a file as base64 in lines of 76 characters."},
			"base64_decodefile":   {run: base64DecodeFile, doc: "Decode base64 into a file."},
			"hmac_signature":      {run: hmacSignature, doc: "Say whether challenge_hmac is the base64 HMAC-SHA256 of a text."},
			"hmac_compute":        {run: hmacCompute, doc: "Return the HMAC-SHA256 of a text in hexadecimal."},
			"github_signature":    {run: githubSignature, doc: "Say whether a signature like sha1=… of a webhook is right."},
		},
	}
}

type instrArgs struct{ Instr any }

// asBytes is the bytes of a text or of bytes.
func asBytes(v any) []byte {
	if p, ok := v.([]byte); ok {
		return p
	}
	return []byte(Str(v))
}

// asText is text if it can be, bytes else.
func asText(p []byte) any {
	if utf8.Valid(p) {
		return string(p)
	}
	return p
}

func hexDigest(kind string, p []byte) string {
	h := newHash(kind)
	h.Write(p)
	return hex.EncodeToString(h.Sum(nil))
}

func digestWith(kind string) func(context.Context, *Call, instrArgs) (any, error) {
	return func(_ context.Context, _ *Call, a instrArgs) (any, error) {
		return hexDigest(kind, asBytes(a.Instr)), nil
	}
}

type digestArgs struct {
	Instr    any
	Checksum string `def:"'md5'"`
}

func digestOf(kind string, p []byte) (any, error) {
	switch kind {
	case "md5", "sha256", "sha512":
		return hexDigest(kind, p), nil
	}
	return nil, ExecErrorf("Hash func '%s' is not supported.", kind)
}

func hashutilDigest(_ context.Context, _ *Call, a digestArgs) (any, error) {
	return digestOf(a.Checksum, asBytes(a.Instr))
}

type digestFileArgs struct {
	Infile   string
	Checksum string `def:"'md5'"`
}

func hashutilDigestFile(_ context.Context, _ *Call, a digestFileArgs) (any, error) {
	st, err := os.Stat(a.Infile)
	if err != nil || !st.Mode().IsRegular() {
		return nil, ExecErrorf("File path '%s' not found.", a.Infile)
	}
	switch a.Checksum {
	case "md5", "sha256", "sha512":
	default:
		return nil, ExecErrorf("Hash func '%s' is not supported.", a.Checksum)
	}
	sum, err := hashFile(a.Infile, a.Checksum)
	if err != nil {
		return nil, OtherErrorf("OSError", "%s", osErrorText(err))
	}
	return sum, nil
}

func base64Encode(_ context.Context, _ *Call, a instrArgs) (any, error) {
	return base64.StdEncoding.EncodeToString(asBytes(a.Instr)), nil
}

func base64Lines(p []byte) string {
	var b strings.Builder
	for len(p) > 0 {
		n := min(57, len(p))
		b.WriteString(base64.StdEncoding.EncodeToString(p[:n]))
		b.WriteByte('\n')
		p = p[n:]
	}
	return b.String()
}

func base64EncodeLines(_ context.Context, _ *Call, a instrArgs) (any, error) {
	return base64Lines(asBytes(a.Instr)), nil
}

// decodeBase64 decodes as Python does: characters of no meaning are passed over.
func decodeBase64(p []byte) ([]byte, error) {
	kept := bytes.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (r == '+' || r == '/' || r == '=' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
			return r
		}
		return -1
	}, p)
	out, err := base64.StdEncoding.DecodeString(string(kept))
	if err != nil {
		return nil, OtherErrorf("binascii.Error", "Incorrect padding")
	}
	return out, nil
}

func base64Decode(_ context.Context, _ *Call, a instrArgs) (any, error) {
	p, err := decodeBase64(asBytes(a.Instr))
	if err != nil {
		return nil, err
	}
	return asText(p), nil
}

type fnameArgs struct{ Fname string }

func base64EncodeFile(_ context.Context, _ *Call, a fnameArgs) (any, error) {
	p, err := os.ReadFile(a.Fname)
	if err != nil {
		return nil, OtherErrorf("FileNotFoundError", "%s", osErrorText(err))
	}
	return base64Lines(p), nil
}

type decodeFileArgs struct {
	Instr   any
	Outfile string
}

func base64DecodeFile(_ context.Context, _ *Call, a decodeFileArgs) (any, error) {
	p, err := decodeBase64(asBytes(a.Instr))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(a.Outfile, p, 0o644); err != nil {
		return nil, OtherErrorf("OSError", "%s", osErrorText(err))
	}
	return true, nil
}

type hmacArgs struct{ String, SharedSecret, ChallengeHmac any }

func hmacOf(kind func() hash.Hash, key, text any) []byte {
	h := hmac.New(kind, asBytes(key))
	h.Write(asBytes(text))
	return h.Sum(nil)
}

func hmacSignature(_ context.Context, _ *Call, a hmacArgs) (any, error) {
	sum := hmacOf(func() hash.Hash { return newHash("sha256") }, a.SharedSecret, a.String)
	return hmac.Equal([]byte(base64.StdEncoding.EncodeToString(sum)), asBytes(a.ChallengeHmac)), nil
}

type hmacComputeArgs struct{ String, SharedSecret any }

func hmacCompute(_ context.Context, _ *Call, a hmacComputeArgs) (any, error) {
	return hex.EncodeToString(hmacOf(func() hash.Hash { return newHash("sha256") }, a.SharedSecret, a.String)), nil
}

func githubSignature(_ context.Context, _ *Call, a hmacArgs) (any, error) {
	kind, want, ok := strings.Cut(Str(a.ChallengeHmac), "=")
	if !ok || strings.Contains(want, "=") {
		return nil, OtherErrorf("ValueError", "not enough values to unpack (expected 2, got 1)")
	}
	if newHash(kind) == nil {
		return nil, OtherErrorf("AttributeError", "module 'hashlib' has no attribute %s", Repr(kind))
	}
	sum := hmacOf(func() hash.Hash { return newHash(kind) }, a.SharedSecret, a.String)
	return hmac.Equal([]byte(hex.EncodeToString(sum)), []byte(want)), nil
}
