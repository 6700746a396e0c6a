// Text as Python handles it, for modules: splitting and quoting of command
// lines, decoding of bytes, stripping of white space.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// splitShell splits a command line into words as shlex.split does.
func splitShell(s string) ([]string, error) {
	const (
		between = iota
		word
		single
		double
	)
	var words []string
	var cur strings.Builder
	state, quoted := between, false
	end := func() {
		if state != between || quoted {
			words = append(words, cur.String())
		}
		cur.Reset()
		state, quoted = between, false
	}
	runes := []rune(s)
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		switch state {
		case single:
			if r == '\'' {
				state = word
			} else {
				cur.WriteRune(r)
			}
			continue
		case double:
			switch {
			case r == '"':
				state = word
			case r == '\\':
				if i+1 == len(runes) {
					return nil, OtherErrorf("ValueError", "No escaped character")
				}
				i++
				if runes[i] != '"' && runes[i] != '\\' {
					cur.WriteRune('\\')
				}
				cur.WriteRune(runes[i])
			default:
				cur.WriteRune(r)
			}
			continue
		}
		switch r {
		case ' ', '\t', '\r', '\n':
			end()
		case '\'':
			state, quoted = single, true
		case '"':
			state, quoted = double, true
		case '\\':
			if i+1 == len(runes) {
				return nil, OtherErrorf("ValueError", "No escaped character")
			}
			i++
			state = word
			cur.WriteRune(runes[i])
		default:
			state = word
			cur.WriteRune(r)
		}
	}
	if state == single || state == double {
		return nil, OtherErrorf("ValueError", "No closing quotation")
	}
	end()
	return words, nil
}

// quoteShell quotes one word for a POSIX shell, only where it must.
func quoteShell(s string) string {
	if s == "" {
		return "''"
	}
	safe := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("@%+=:,./-_", r))
	}
	if strings.IndexFunc(s, func(r rune) bool { return !safe(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'"'"'`) + "'"
}

// pySpace is Python's str.isspace for one character.
func pySpace(r rune) bool {
	return unicode.IsSpace(r) || (r >= 0x1c && r <= 0x1f)
}

func pyStrip(s string) string  { return strings.TrimFunc(s, pySpace) }
func pyRstrip(s string) string { return strings.TrimRightFunc(s, pySpace) }

// pyFields is str.split() without arguments.
func pyFields(s string) []string { return strings.FieldsFunc(s, pySpace) }

// pyLines is str.splitlines(): no empty last line. With keep the ends stay.
func pyLines(s string, keep bool) []string {
	var lines []string
	start := 0
	for i, r := range s {
		if i < start {
			continue
		}
		n := 0
		switch r {
		case '\r':
			n = 1
			if i+1 < len(s) && s[i+1] == '\n' {
				n = 2
			}
		case '\n', '\v', '\f', 0x1c, 0x1d, 0x1e:
			n = 1
		case 0x85:
			n = 2
		case 0x2028, 0x2029:
			n = 3
		default:
			continue
		}
		end := i
		if keep {
			end = i + n
		}
		lines = append(lines, s[start:end])
		start = i + n
	}
	if start < len(s) {
		lines = append(lines, s[start:])
	}
	return lines
}

// decodeText decodes bytes as text; what does not fit becomes U+FFFD, and the
// second result is true. An unknown encoding is read as UTF-8.
func decodeText(p []byte, encoding string) (string, bool) {
	switch strings.ReplaceAll(strings.ToLower(encoding), "_", "-") {
	case "latin-1", "latin1", "iso-8859-1", "iso8859-1", "l1":
		r := make([]rune, len(p))
		for i, b := range p {
			r[i] = rune(b)
		}
		return string(r), false
	case "ascii", "us-ascii":
		bad := false
		var b strings.Builder
		for _, c := range p {
			if c >= utf8.RuneSelf {
				bad = true
				b.WriteRune(utf8.RuneError)
				continue
			}
			b.WriteByte(c)
		}
		return b.String(), bad
	}
	if utf8.Valid(p) {
		return string(p), false
	}
	var b strings.Builder
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		if r == utf8.RuneError && n <= 1 {
			n = brokenPrefix(p)
		}
		b.WriteRune(r)
		p = p[n:]
	}
	return b.String(), true
}

// brokenPrefix is the length of the bytes at the start of p that one
// replacement character stands for: the longest start of a valid sequence.
func brokenPrefix(p []byte) int {
	c := p[0]
	need, lo, hi := 0, byte(0x80), byte(0xbf)
	switch {
	case c >= 0xc2 && c <= 0xdf:
		need = 1
	case c >= 0xe0 && c <= 0xef:
		need = 2
		if c == 0xe0 {
			lo = 0xa0
		} else if c == 0xed {
			hi = 0x9f
		}
	case c >= 0xf0 && c <= 0xf4:
		need = 3
		if c == 0xf0 {
			lo = 0x90
		} else if c == 0xf4 {
			hi = 0x8f
		}
	}
	n := 1
	for n <= need && n < len(p) && p[n] >= lo && p[n] <= hi {
		n, lo, hi = n+1, 0x80, 0xbf
	}
	return n
}

// splitInput is how Salt reads a list that may be a text with commas.
func splitInput(v any) []string {
	if l, ok := v.(*List); ok {
		out := make([]string, 0, l.Len())
		for _, item := range l.Items {
			out = append(out, Str(item))
		}
		return out
	}
	var out []string
	for _, part := range strings.Split(Str(v), ",") {
		out = append(out, pyStrip(part))
	}
	return out
}

// repackDictlist turns a list of one-key mappings into one mapping; plain items
// become keys without a value. The error is what Salt logs.
func repackDictlist(l *List) (*Map, error) {
	out := &Map{}
	for _, item := range l.Items {
		switch v := item.(type) {
		case string, int64, float64, bool:
			out.Set(v, nil)
		case *Map:
			if v.Len() != 1 {
				return &Map{}, fmt.Errorf("Invalid input for repack_dictlist: key/value pairs must contain only one element (data passed: %s).", Repr(v))
			}
			k, val := v.At(0)
			out.Set(k, val)
		default:
			return &Map{}, fmt.Errorf("Invalid input for repack_dictlist: element %s is not a string/dict/numeric value", Repr(item))
		}
	}
	return out, nil
}

// randomHex is n random bytes in hexadecimal.
func randomHex(n int) string {
	return hex.EncodeToString(randomBinary(n))
}

// randomBinary is n random bytes.
func randomBinary(n int) []byte {
	p := make([]byte, n)
	_, _ = rand.Read(p)
	return p
}
