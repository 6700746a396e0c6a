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
	writeRepr(&b, v, nil)
	return b.String()
}

// reprPath is the chain of containers being printed, for those that contain
// themselves.
type reprPath struct {
	container any
	outer     *reprPath
	depth     int
}

// pathRepr is an Object that prints other values in itself.
type pathRepr interface {
	reprInto(b *strings.Builder, path *reprPath)
}

// maxReprDepth bounds nesting.
const maxReprDepth = 200

// enter adds a container to the path, or says that it is on it already (or that
// the path is too long).
func (p *reprPath) enter(container any) (*reprPath, bool) {
	inner := &reprPath{container: container, outer: p}
	if p != nil {
		if inner.depth = p.depth + 1; inner.depth > maxReprDepth {
			return p, false
		}
	}
	for q := p; q != nil; q = q.outer {
		if q.container == container {
			return p, false
		}
	}
	return inner, true
}

func writeRepr(b *strings.Builder, v any, path *reprPath) {
	items := func(list []any) {
		for i, item := range list {
			if i > 0 {
				b.WriteString(", ")
			}
			writeRepr(b, item, path)
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
		var ok bool
		if path, ok = path.enter(v); !ok {
			b.WriteString("[...]")
			return
		}
		b.WriteByte('[')
		if v != nil {
			items(v.Items)
		}
		b.WriteByte(']')
	case Tuple:
		var ok bool
		if path, ok = path.enter(new(byte)); !ok { // a tuple has no identity, only a depth
			b.WriteString("(...)")
			return
		}
		b.WriteByte('(')
		items(v)
		if len(v) == 1 {
			b.WriteByte(',')
		}
		b.WriteByte(')')
	case *Map:
		var ok bool
		if path, ok = path.enter(v); !ok {
			b.WriteString("{...}")
			return
		}
		if class := v.Class(); class != "" {
			writeClassRepr(b, class, v, path)
			return
		}
		b.WriteByte('{')
		first := true
		for k, item := range v.All() {
			if !first {
				b.WriteString(", ")
			}
			first = false
			writeRepr(b, k, path)
			b.WriteString(": ")
			writeRepr(b, item, path)
		}
		b.WriteByte('}')
	case pathRepr:
		v.reprInto(b, path)
	case Object:
		b.WriteString(v.Repr())
	default:
		writeRepr(b, FromGo(v), path)
	}
}

// writeClassRepr writes a mapping of another class than dict.
func writeClassRepr(b *strings.Builder, class string, m *Map, path *reprPath) {
	b.WriteString(class + "(")
	sep := "["
	for k, item := range m.All() {
		b.WriteString(sep + "(")
		writeRepr(b, k, path)
		b.WriteString(", ")
		writeRepr(b, item, path)
		b.WriteByte(')')
		sep = ", "
	}
	if m.Len() > 0 {
		b.WriteByte(']')
	}
	b.WriteByte(')')
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

// utf8Error is what Python says of bytes that are no UTF-8.
func utf8Error(p []byte) string {
	at := 0
	for at < len(p) {
		r, n := utf8.DecodeRune(p[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	if at == len(p) {
		return ""
	}
	reason := "invalid start byte"
	switch b := p[at]; {
	case b < 0xc2 || b > 0xf4:
	case at == len(p)-1:
		reason = "unexpected end of data"
	case !utf8.FullRune(p[at:]):
		return fmt.Sprintf("'utf-8' codec can't decode bytes in position %d-%d: unexpected end of data", at, len(p)-1)
	default:
		reason = "invalid continuation byte"
	}
	return fmt.Sprintf("'utf-8' codec can't decode byte 0x%02x in position %d: %s", p[at], at, reason)
}
