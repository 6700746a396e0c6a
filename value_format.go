// Formatting of values as Python prints them: str() and repr(). The texts
// reach users (outputters, templates, error messages), so they follow CPython 3
// byte for byte.
package main

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Str is Python's str(v): texts as they are, everything else as Repr.
func Str(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case fmt.Stringer:
		if _, isObject := v.(Object); isObject {
			return v.String()
		}
	}
	return Repr(v)
}

// Repr is Python's repr(v).
func Repr(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return formatFloat(v)
	case string:
		return reprString(v)
	}
	var b strings.Builder
	writeRepr(&b, v, 0)
	return b.String()
}

// maxReprDepth bounds nesting: a template can make a list that contains itself.
const maxReprDepth = 200

func writeRepr(b *strings.Builder, v any, depth int) {
	if depth > maxReprDepth {
		b.WriteString("...")
		return
	}
	items := func(list []any) {
		for i, item := range list {
			if i > 0 {
				b.WriteString(", ")
			}
			writeRepr(b, item, depth+1)
		}
	}
	switch v := v.(type) {
	case nil, bool, int64, float64, string:
		b.WriteString(Repr(v))
	case *big.Int:
		b.WriteString(v.String())
	case []byte:
		b.WriteString(reprBytes(v))
	case *List:
		b.WriteByte('[')
		if v != nil {
			items(v.Items)
		}
		b.WriteByte(']')
	case Tuple:
		b.WriteByte('(')
		items(v)
		if len(v) == 1 {
			b.WriteByte(',')
		}
		b.WriteByte(')')
	case *Map:
		b.WriteByte('{')
		first := true
		for k, item := range v.All() {
			if !first {
				b.WriteString(", ")
			}
			first = false
			writeRepr(b, k, depth+1)
			b.WriteString(": ")
			writeRepr(b, item, depth+1)
		}
		b.WriteByte('}')
	case Object:
		b.WriteString(v.Repr())
	default:
		writeRepr(b, FromGo(v), depth+1)
	}
}

// formatFloat prints the shortest text that reads back as f, in Python's
// layout: an exponent below 1e-4 and from 1e16 on, at least one decimal.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64) // Go and Python both pad the exponent to two digits
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.ContainsRune(s, '.') {
		s += ".0"
	}
	return s
}

// reprString quotes with ' unless the text has ' and no ".
func reprString(s string) string {
	quote := byte('\'')
	if strings.IndexByte(s, '\'') >= 0 && strings.IndexByte(s, '"') < 0 {
		quote = '"'
	}
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte(quote)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\udc%02x`, s[i]) // as surrogateescape shows a stray byte
		case r == rune(quote) || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x7f:
			b.WriteByte(byte(r))
		case pythonPrintable(r):
			b.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += n
	}
	b.WriteByte(quote)
	return b.String()
}

// pythonPrintable is str.isprintable for one rune beyond ASCII.
func pythonPrintable(r rune) bool {
	return unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r)
}

func reprBytes(p []byte) string {
	quote := byte('\'')
	if strings.IndexByte(string(p), '\'') >= 0 && strings.IndexByte(string(p), '"') < 0 {
		quote = '"'
	}
	var b strings.Builder
	b.WriteByte('b')
	b.WriteByte(quote)
	for _, c := range p {
		switch {
		case c == quote || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte(quote)
	return b.String()
}
