// Module random: random texts, numbers and choices, and hashes of passwords.
package main

import (
	"context"
	"encoding/hex"
	"strings"
)

func randomModule() Module {
	return Module{
		Doc: "Random texts, numbers and choices, and hashes of passwords.",
		Funcs: Funcs{
			"hash":        {run: randomHash, doc: "Return the hash of a value by any algorithm."},
			"str_encode":  {run: randomStrEncode, doc: "Encode a text as base64 or in a character encoding."},
			"get_str":     {run: randomGetStr, doc: "Return a random text of letters, digits and punctuation, or of the characters that are given."},
			"shadow_hash": {run: randomShadowHash, doc: "Return the hash of a password for /etc/shadow: sha512, sha256 or md5. Without a password one\nis made."},
			"rand_int":    {run: randomRandInt, doc: "Return a random whole number from start to end."},
			"seed":        {run: randomSeed, doc: "Return a number below range that is always the same for a minion, or for the text hash."},
			"sample":      {run: randomSample, doc: "Choose size items of a list."},
			"shuffle":     {run: randomShuffle, doc: "Return a list in random order."},
		},
	}
}

type randomHashOfArgs struct {
	Value     any
	Algorithm string `def:"'sha512'"`
}

func randomHash(_ context.Context, _ *Call, a randomHashOfArgs) (any, error) {
	h := newHash(a.Algorithm)
	if h == nil {
		return nil, OtherErrorf("salt.exceptions.SaltException", "You must specify a valid algorithm.")
	}
	h.Write(asBytes(a.Value))
	return hex.EncodeToString(h.Sum(nil)), nil
}

type strEncodeArgs struct {
	Value   any
	Encoder string `def:"'base64'"`
}

func randomStrEncode(_ context.Context, _ *Call, a strEncodeArgs) (any, error) {
	text, ok := a.Value.(string)
	if a.Encoder == "base64" {
		if !ok {
			return nil, InvocationErrorf("Value must be an encode-able string")
		}
		return strings.TrimRight(base64Lines([]byte(text)), "\n"), nil
	}
	// As in Salt the value is bytes by now, which cannot be encoded again.
	return nil, InvocationErrorf("Value must be an encode-able string")
}

type getStrArgs struct {
	Length      any  `def:"20"`
	Chars       any  `def:"None"`
	Lowercase   bool `def:"True"`
	Uppercase   bool `def:"True"`
	Digits      bool `def:"True"`
	Punctuation bool `def:"True"`
	Whitespace  bool `def:"False"`
	Printable   bool `def:"False"`
}

const (
	lowerLetters = "abcdefghijklmnopqrstuvwxyz"
	upperLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	punctuation  = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
	whitespace   = " \t\n\r\v\f"
)

func randomGetStr(_ context.Context, _ *Call, a getStrArgs) (any, error) {
	chars := Str(orEmpty(a.Chars))
	if a.Printable {
		chars = "0123456789" + lowerLetters + upperLetters + punctuation + whitespace
	}
	if chars == "" {
		for _, class := range []struct {
			on   bool
			text string
		}{{a.Lowercase, lowerLetters}, {a.Uppercase, upperLetters}, {a.Digits, "0123456789"}, {a.Punctuation, punctuation}, {a.Whitespace, whitespace}} {
			if class.on {
				chars += class.text
			}
		}
	}
	n, ok := toInt(a.Length)
	if !ok {
		return nil, ExecErrorf("invalid literal for int() with base 10: %s", Repr(a.Length))
	}
	if chars == "" {
		return nil, ExecErrorf("no characters to choose from")
	}
	return randomText(int(n), chars), nil
}

// randomText draws n characters.
func randomText(n int, chars string) string {
	runes := []rune(chars)
	var b strings.Builder
	for range n {
		b.WriteRune(runes[randomBelow(int64(len(runes)))])
	}
	return b.String()
}

type shadowHashArgs struct {
	CryptSalt any    `def:"None"`
	Password  any    `def:"None"`
	Algorithm string `def:"'sha512'"`
}

func randomShadowHash(_ context.Context, _ *Call, a shadowHashArgs) (any, error) {
	return shadowHash(a.CryptSalt, a.Password, a.Algorithm)
}

// shadowHash hashes a password for /etc/shadow; what is not given is made.
func shadowHash(salt, password any, algorithm string) (any, error) {
	if password == nil {
		password = randomText(20, lowerLetters+upperLetters+"0123456789"+punctuation)
	}
	if algorithm == "" {
		algorithm = "sha512"
	}
	text := Str(orEmpty(salt))
	if salt == nil {
		if text = cryptSalt(16); algorithm == "md5" {
			text = text[:8]
		}
	}
	out := cryptHash(algorithm, text, Str(password))
	if out == "" {
		return nil, InvocationErrorf("Cannot hash using '%s' hash algorithm. Natively supported algorithms are: ['sha512', 'sha256', 'md5'].", algorithm)
	}
	return out, nil
}

type randIntArgs struct {
	Start int64 `def:"1"`
	End   int64 `def:"10"`
	Seed  any   `def:"None"`
}

func randomRandInt(_ context.Context, _ *Call, a randIntArgs) (any, error) {
	if a.End < a.Start {
		return nil, OtherErrorf("ValueError", "empty range in randrange(%d, %d)", a.Start, a.End+1)
	}
	return a.Start + newPyRandom(a.Seed).below(a.End-a.Start+1), nil
}

type seedArgs struct {
	Range int64 `def:"10"`
	Hash  any   `def:"None"`
}

func randomSeed(_ context.Context, c *Call, a seedArgs) (any, error) {
	if a.Hash == nil {
		a.Hash = c.Grains.Value("id")
	}
	if a.Range <= 0 {
		return nil, OtherErrorf("ValueError", "empty range for randrange()")
	}
	return newPyRandom(a.Hash).below(a.Range), nil
}

type randomSampleArgs struct {
	Value any
	Size  int
	Seed  any `def:"None"`
}

func randomSample(_ context.Context, _ *Call, a randomSampleArgs) (any, error) {
	return sampleOf(a.Value, a.Size, a.Seed)
}

func sampleOf(value any, size int, seed any) (any, error) {
	l, ok := value.(*List)
	if !ok {
		return nil, TypeErrorf("Population must be a sequence.  For dicts or sets, use sorted(d).")
	}
	if size < 0 || size > l.Len() {
		return nil, OtherErrorf("ValueError", "Sample larger than population or is negative")
	}
	return newPyRandom(seed).sample(l.Items, size), nil
}

type shuffleArgs struct {
	Value any
	Seed  any `def:"None"`
}

func randomShuffle(_ context.Context, _ *Call, a shuffleArgs) (any, error) {
	l, _ := a.Value.(*List)
	return sampleOf(a.Value, l.Len(), a.Seed)
}
