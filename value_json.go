// JSON in the layouts of Python's json module, and back.
//
// The law of this file: order is kept, integers have no limit, a float prints
// as Python prints it, and NaN and Infinity are written and read as Python does
// although JSON has no word for them. Errors of the reader carry Python's words
// and positions, because users meet them in the messages of states and returns.
package main

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// JSONOptions choose a layout. Separators left empty are Python's: ", " and
// ": ", without the space after the comma when there is an indent.
type JSONOptions struct {
	Indent      int // columns, -1 for all on one line
	IndentText  string
	SortKeys    bool
	EnsureASCII bool
	ItemSep     string
	KeySep      string
}

// EncodeJSON writes v. What JSON has no form for becomes a text: bytes as the
// text they hold, or else their repr, keys by their str(), objects by their repr.
func EncodeJSON(v any, opt JSONOptions) string {
	w := newJSONWriter(opt, false)
	_ = w.write(v, 0) // without strict there is no error
	return string(w.out)
}

// EncodeJSONStrict is EncodeJSON with Python's TypeError (as the error's text)
// for what json.dumps refuses.
func EncodeJSONStrict(v any, opt JSONOptions) (string, error) {
	w := newJSONWriter(opt, true)
	if err := w.write(v, 0); err != nil {
		return "", err
	}
	return string(w.out), nil
}

type jsonWriter struct {
	opt    JSONOptions
	strict bool
	lines  bool
	out    []byte
	open   map[any]bool // containers being written, against cycles
}

func newJSONWriter(opt JSONOptions, strict bool) *jsonWriter {
	w := &jsonWriter{opt: opt, strict: strict, lines: opt.Indent >= 0 || opt.IndentText != "", open: map[any]bool{}}
	if opt.IndentText == "" && opt.Indent > 0 {
		w.opt.IndentText = strings.Repeat(" ", opt.Indent)
	}
	if opt.ItemSep == "" {
		w.opt.ItemSep = ", "
		if w.lines {
			w.opt.ItemSep = ","
		}
	}
	if opt.KeySep == "" {
		w.opt.KeySep = ": "
	}
	return w
}

func (w *jsonWriter) newLine(depth int) {
	if !w.lines {
		return
	}
	w.out = append(w.out, '\n')
	for range depth {
		w.out = append(w.out, w.opt.IndentText...)
	}
}

func (w *jsonWriter) write(v any, depth int) error {
	switch v := v.(type) {
	case nil:
		w.out = append(w.out, "null"...)
	case bool:
		w.out = strconv.AppendBool(w.out, v)
	case int64:
		w.out = strconv.AppendInt(w.out, v, 10)
	case *big.Int:
		w.out = v.Append(w.out, 10)
	case float64:
		w.out = append(w.out, jsonFloat(v)...)
	case string:
		w.text(v)
	case *List:
		return w.array(v, v.Items, depth)
	case Tuple:
		return w.array(nil, v, depth)
	case *Map:
		return w.object(v, depth)
	case []byte:
		if w.strict {
			return fmt.Errorf("Object of type bytes is not JSON serializable")
		}
		if !utf8.Valid(v) {
			w.text(Repr(v))
			break
		}
		w.text(string(v))
	case *Set:
		if w.strict {
			return fmt.Errorf("Object of type set is not JSON serializable")
		}
		return w.array(v, v.Items(), depth)
	case Plainer:
		return w.write(v.PlainValue(), depth)
	case Object:
		if w.strict {
			return fmt.Errorf("Object of type %s is not JSON serializable", v.TypeName())
		}
		w.text(Str(v))
	default:
		return w.write(FromGo(v), depth)
	}
	return nil
}

// enter guards against containers that contain themselves.
func (w *jsonWriter) enter(id any, depth int) (leave func(), err error) {
	if id == nil {
		if depth > maxReprDepth*5 {
			return nil, fmt.Errorf("Circular reference detected")
		}
		return func() {}, nil
	}
	if w.open[id] {
		return nil, fmt.Errorf("Circular reference detected")
	}
	w.open[id] = true
	return func() { delete(w.open, id) }, nil
}

func (w *jsonWriter) array(id any, items []any, depth int) error {
	leave, err := w.enter(id, depth)
	if err != nil {
		if w.strict {
			return err
		}
		w.text("[...]")
		return nil
	}
	defer leave()
	if len(items) == 0 {
		w.out = append(w.out, "[]"...)
		return nil
	}
	w.out = append(w.out, '[')
	for i, item := range items {
		if i > 0 {
			w.out = append(w.out, w.opt.ItemSep...)
		}
		w.newLine(depth + 1)
		if err := w.write(item, depth+1); err != nil {
			return err
		}
	}
	w.newLine(depth)
	w.out = append(w.out, ']')
	return nil
}

func (w *jsonWriter) object(m *Map, depth int) error {
	leave, err := w.enter(m, depth)
	if err != nil {
		if w.strict {
			return err
		}
		w.text("{...}")
		return nil
	}
	defer leave()
	if m.Len() == 0 {
		w.out = append(w.out, "{}"...)
		return nil
	}
	keys := m.keys
	if w.opt.SortKeys {
		if keys, err = sortValues(m.Keys()); err != nil {
			if w.strict {
				return err
			}
			keys = m.SortedKeys()
		}
	}
	w.out = append(w.out, '{')
	for i, k := range keys {
		if i > 0 {
			w.out = append(w.out, w.opt.ItemSep...)
		}
		w.newLine(depth + 1)
		switch k := k.(type) {
		case string:
			w.text(k)
		case nil, bool, int64, *big.Int, float64:
			w.out = append(w.out, '"')
			_ = w.write(k, depth)
			w.out = append(w.out, '"')
		default:
			if w.strict {
				return fmt.Errorf("keys must be str, int, float, bool or None, not %s", TypeName(k))
			}
			w.text(Str(k))
		}
		w.out = append(w.out, w.opt.KeySep...)
		v := m.Value(k)
		if err := w.write(v, depth+1); err != nil {
			return err
		}
	}
	w.newLine(depth)
	w.out = append(w.out, '}')
	return nil
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return formatFloat(f)
}

const hexDigits = "0123456789abcdef"

func (w *jsonWriter) text(s string) {
	out := append(w.out, '"')
	start := 0
	flush := func(end int) { out = append(out, s[start:end]...) }
	unicodeEscape := func(c uint16) {
		out = append(out, '\\', 'u', hexDigits[c>>12], hexDigits[c>>8&15], hexDigits[c>>4&15], hexDigits[c&15])
	}
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			if c == 0x7f && !w.opt.EnsureASCII {
				i++
				continue
			}
			flush(i)
			switch c {
			case '"', '\\':
				out = append(out, '\\', c)
			case '\n':
				out = append(out, '\\', 'n')
			case '\r':
				out = append(out, '\\', 'r')
			case '\t':
				out = append(out, '\\', 't')
			case '\b':
				out = append(out, '\\', 'b')
			case '\f':
				out = append(out, '\\', 'f')
			default:
				unicodeEscape(uint16(c))
			}
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1: // a stray byte, as surrogateescape shows it
			flush(i)
			unicodeEscape(0xdc00 + uint16(c))
			start = i + 1
		case w.opt.EnsureASCII:
			flush(i)
			if r > 0xffff {
				hi, lo := utf16.EncodeRune(r)
				unicodeEscape(uint16(hi))
				unicodeEscape(uint16(lo))
			} else {
				unicodeEscape(uint16(r))
			}
			start = i + n
		}
		i += n
	}
	flush(len(s))
	w.out = append(out, '"')
}

// JSONError is an error of DecodeJSON, with Python's words.
type JSONError struct {
	Problem      string
	Line, Column int
	Char         int
}

func (e *JSONError) Error() string {
	return fmt.Sprintf("%s: line %d column %d (char %d)", e.Problem, e.Line, e.Column, e.Char)
}

// maxJSONDepth bounds nesting, so that hostile input cannot exhaust the stack.
const maxJSONDepth = 2000

// DecodeJSON reads one value; the error, if any, is a *JSONError.
func DecodeJSON(src []byte) (any, error) {
	d := jsonReader{s: string(src)}
	if strings.HasPrefix(d.s, "\ufeff") {
		return nil, d.fail("Unexpected UTF-8 BOM (decode using utf-8-sig)", 0)
	}
	d.space()
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	d.space()
	if d.i < len(d.s) {
		return nil, d.fail("Extra data", d.i)
	}
	return v, nil
}

type jsonReader struct {
	s string
	i int
}

func (d *jsonReader) fail(problem string, at int) error {
	before := d.s[:at]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return &JSONError{Problem: problem, Line: line, Column: column, Char: utf8.RuneCountInString(before)}
}

func (d *jsonReader) space() {
	for d.i < len(d.s) {
		switch d.s[d.i] {
		case ' ', '\t', '\n', '\r':
			d.i++
		default:
			return
		}
	}
}

func (d *jsonReader) word(s string) bool {
	if strings.HasPrefix(d.s[d.i:], s) {
		d.i += len(s)
		return true
	}
	return false
}

func (d *jsonReader) value(depth int) (any, error) {
	if depth > maxJSONDepth {
		return nil, d.fail("maximum recursion depth exceeded", d.i)
	}
	if d.i < len(d.s) {
		switch c := d.s[d.i]; c {
		case '"':
			d.i++
			return d.text()
		case '{':
			d.i++
			return d.object(depth)
		case '[':
			d.i++
			return d.array(depth)
		case 'n':
			if d.word("null") {
				return nil, nil
			}
		case 't':
			if d.word("true") {
				return true, nil
			}
		case 'f':
			if d.word("false") {
				return false, nil
			}
		case 'N':
			if d.word("NaN") {
				return math.NaN(), nil
			}
		case 'I':
			if d.word("Infinity") {
				return math.Inf(1), nil
			}
		default:
			if c == '-' && d.word("-Infinity") {
				return math.Inf(-1), nil
			}
			if v, ok := d.number(); ok {
				return v, nil
			}
		}
	}
	return nil, d.fail("Expecting value", d.i)
}

func (d *jsonReader) number() (any, bool) {
	i := d.i
	digits := func() bool {
		from := i
		for i < len(d.s) && d.s[i] >= '0' && d.s[i] <= '9' {
			i++
		}
		return i > from
	}
	if i < len(d.s) && d.s[i] == '-' {
		i++
	}
	if i < len(d.s) && d.s[i] == '0' {
		i++
	} else if !digits() {
		return nil, false
	}
	end, float := i, false
	if i < len(d.s) && d.s[i] == '.' {
		if i++; digits() {
			end, float = i, true
		}
		i = end
	}
	if i < len(d.s) && (d.s[i] == 'e' || d.s[i] == 'E') {
		i++
		if i < len(d.s) && (d.s[i] == '-' || d.s[i] == '+') {
			i++
		}
		if digits() {
			end, float = i, true
		}
	}
	text := d.s[d.i:end]
	d.i = end
	if float {
		f, _ := strconv.ParseFloat(text, 64) // out of range is ±Inf, as in Python
		return f, true
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		return nil, false
	}
	return normalInt(n), true
}

func (d *jsonReader) array(depth int) (any, error) {
	l := &List{}
	d.space()
	if d.i < len(d.s) && d.s[d.i] == ']' {
		d.i++
		return l, nil
	}
	for {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		l.Items = append(l.Items, v)
		d.space()
		if d.i < len(d.s) && d.s[d.i] == ']' {
			d.i++
			return l, nil
		}
		if d.i >= len(d.s) || d.s[d.i] != ',' {
			return nil, d.fail("Expecting ',' delimiter", d.i)
		}
		d.i++
		d.space()
	}
}

func (d *jsonReader) object(depth int) (any, error) {
	m := &Map{}
	d.space()
	if d.i < len(d.s) && d.s[d.i] == '}' {
		d.i++
		return m, nil
	}
	for {
		if d.i >= len(d.s) || d.s[d.i] != '"' {
			return nil, d.fail("Expecting property name enclosed in double quotes", d.i)
		}
		d.i++
		key, err := d.text()
		if err != nil {
			return nil, err
		}
		d.space()
		if d.i >= len(d.s) || d.s[d.i] != ':' {
			return nil, d.fail("Expecting ':' delimiter", d.i)
		}
		d.i++
		d.space()
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		m.Set(key, v)
		d.space()
		if d.i < len(d.s) && d.s[d.i] == '}' {
			d.i++
			return m, nil
		}
		if d.i >= len(d.s) || d.s[d.i] != ',' {
			return nil, d.fail("Expecting ',' delimiter", d.i)
		}
		d.i++
		d.space()
	}
}

// text reads the rest of a string, after its opening quote.
func (d *jsonReader) text() (string, error) {
	start := d.i
	for i := start; i < len(d.s); i++ { // most texts have nothing to decode
		switch c := d.s[i]; {
		case c == '"':
			d.i = i + 1
			return d.s[start:i], nil
		case c == '\\' || c < ' ':
			return d.escapedText(start)
		}
	}
	return "", d.fail("Unterminated string starting at", start-1)
}

func (d *jsonReader) escapedText(start int) (string, error) {
	var b strings.Builder
	hex4 := func(at int) (rune, bool) {
		if at+4 > len(d.s) {
			return 0, false
		}
		n, err := strconv.ParseUint(d.s[at:at+4], 16, 32)
		return rune(n), err == nil
	}
	for i := start; i < len(d.s); {
		c := d.s[i]
		switch {
		case c == '"':
			d.i = i + 1
			return b.String(), nil
		case c < ' ':
			return "", d.fail("Invalid control character at", i)
		case c != '\\':
			b.WriteByte(c)
			i++
			continue
		}
		if i+1 >= len(d.s) {
			break
		}
		switch e := d.s[i+1]; e {
		case '"', '\\', '/':
			b.WriteByte(e)
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'u':
			r, ok := hex4(i + 2)
			if !ok {
				return "", d.fail("Invalid \\uXXXX escape", i+1)
			}
			i += 4
			if utf16.IsSurrogate(r) && strings.HasPrefix(d.s[i+2:], `\u`) {
				if lo, ok := hex4(i + 4); ok {
					if pair := utf16.DecodeRune(r, lo); pair != utf8.RuneError {
						r = pair
						i += 6
					}
				}
			}
			b.WriteRune(r)
		default:
			return "", d.fail("Invalid \\escape", i)
		}
		i += 2
	}
	return "", d.fail("Unterminated string starting at", start-1)
}
