// Formatting: str.format with its mini-language. The % operator is in
// jinja_percent.go.
package main

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// numberFormat is a parsed format: of {:…} or of %….
type numberFormat struct {
	fill      string
	align     byte // < > ^ = or 0
	sign      byte // + - space or 0
	alternate bool
	zero      bool
	width     int
	group     byte // , _ or 0
	precision int  // -1: none
	kind      byte // 0: none
}

// maxFormatWidth bounds widths and precisions.
const maxFormatWidth = 1 << 20

func parseFormatSpec(spec, typeName string) (numberFormat, error) {
	f := numberFormat{fill: " ", precision: -1}
	s := spec
	isAlign := func(c byte) bool { return strings.IndexByte("<>^=", c) >= 0 }
	if s != "" {
		_, n := utf8.DecodeRuneInString(s)
		if n < len(s) && isAlign(s[n]) {
			f.fill, f.align = s[:n], s[n]
			s = s[n+1:]
		} else if isAlign(s[0]) {
			f.align = s[0]
			s = s[1:]
		}
	}
	if s != "" && strings.IndexByte("+- ", s[0]) >= 0 {
		f.sign = s[0]
		s = s[1:]
	}
	if s != "" && s[0] == 'z' {
		s = s[1:]
	}
	if s != "" && s[0] == '#' {
		f.alternate = true
		s = s[1:]
	}
	if s != "" && s[0] == '0' {
		f.zero = true
		if f.align == 0 {
			f.fill, f.align = "0", '='
		}
		s = s[1:]
	}
	number := func() (int, bool) {
		n := span(s, decimalDigits)
		if n == 0 {
			return 0, false
		}
		v, err := strconv.Atoi(s[:n])
		s = s[n:]
		if err != nil || v > maxFormatWidth {
			v = maxFormatWidth + 1
		}
		return v, true
	}
	f.width, _ = number()
	if s != "" && (s[0] == ',' || s[0] == '_') {
		f.group = s[0]
		s = s[1:]
		if s != "" && (s[0] == ',' || s[0] == '_') {
			if s[0] == f.group {
				return f, jinjaValueError("Cannot specify '%c' with '%c'.", f.group, s[0])
			}
			return f, jinjaValueError("Cannot specify both ',' and '_'.")
		}
	}
	if s != "" && s[0] == '.' {
		s = s[1:]
		p, ok := number()
		if !ok {
			return f, jinjaValueError("Format specifier missing precision")
		}
		f.precision = p
	}
	if f.width > maxFormatWidth || f.precision > maxFormatWidth {
		return f, jinjaValueError("Too many decimal digits in format string")
	}
	if utf8.RuneCountInString(s) > 1 {
		return f, jinjaValueError("Invalid format specifier '%s' for object of type '%s'", spec, typeName)
	}
	if s != "" {
		if s[0] >= 0x80 {
			return f, jinjaValueError("Unknown format code '%s' for object of type '%s'", s, typeName)
		}
		f.kind = s[0]
	}
	return f, nil
}

// formatValue is format(v, spec).
func (r *JinjaRun) formatValue(v any, spec string) (string, error) {
	if m, ok := v.(Markup); ok {
		v = string(m)
	}
	if spec == "" {
		return r.str(v)
	}
	typeName := TypeName(v)
	switch v := v.(type) {
	case string, bool, int64, *big.Int, float64:
	case *JinjaUndefined:
		return "", v.fail()
	default:
		return "", jinjaTypeError("unsupported format string passed to %s.__format__", typeName)
	}
	f, err := parseFormatSpec(spec, typeName)
	if err != nil {
		return "", err
	}
	switch v := v.(type) {
	case string:
		switch {
		case f.sign != 0:
			return "", jinjaValueError("Sign not allowed in string format specifier")
		case f.alternate:
			return "", jinjaValueError("Alternate form (#) not allowed in string format specifier")
		case f.align == '=' && !f.zero:
			return "", jinjaValueError("'=' alignment not allowed in string format specifier")
		case f.group != 0:
			return "", jinjaValueError("Cannot specify '%c' with 's'.", f.group)
		case f.kind != 0 && f.kind != 's':
			return "", jinjaValueError("Unknown format code '%c' for object of type 'str'", f.kind)
		}
		if f.precision >= 0 {
			if rs := []rune(v); len(rs) > f.precision {
				v = string(rs[:f.precision])
			}
		}
		if f.align == 0 || f.align == '=' {
			f.align = '<'
		}
		return f.pad("", v), nil
	case bool:
		if f.kind == 0 || f.kind == 's' {
			if f.kind == 's' {
				return "", jinjaValueError("Unknown format code 's' for object of type 'bool'")
			}
			n := int64(0)
			if v {
				n = 1
			}
			return f.integer(big.NewInt(n), typeName)
		}
	}
	if fl, ok := v.(float64); ok {
		return f.float(fl, typeName)
	}
	i, _, _, _ := number(v)
	return f.integer(i, typeName)
}

// pad brings sign and digits to the width.
func (f *numberFormat) pad(sign, digits string) string {
	missing := f.width - utf8.RuneCountInString(sign) - utf8.RuneCountInString(digits)
	if missing <= 0 {
		return sign + digits
	}
	switch f.align {
	case '<':
		return sign + digits + strings.Repeat(f.fill, missing)
	case '^':
		return strings.Repeat(f.fill, missing/2) + sign + digits + strings.Repeat(f.fill, missing-missing/2)
	case '=':
		return sign + strings.Repeat(f.fill, missing) + digits
	}
	return strings.Repeat(f.fill, missing) + sign + digits
}

func (f *numberFormat) signOf(negative bool) string {
	switch {
	case negative:
		return "-"
	case f.sign == '+' || f.sign == ' ':
		return string(f.sign)
	}
	return ""
}

func (f *numberFormat) integer(i *big.Int, typeName string) (string, error) {
	base, prefix, every := 10, "", 3
	switch f.kind {
	case 0, 'd', 'n':
	case 'b':
		base, prefix, every = 2, "0b", 4
	case 'o':
		base, prefix, every = 8, "0o", 4
	case 'x', 'X':
		base, prefix, every = 16, "0x", 4
	case 'c':
		if f.sign != 0 {
			return "", jinjaValueError("Sign not allowed with integer format specifier 'c'")
		}
		if !i.IsInt64() || i.Int64() < 0 || i.Int64() > 0x10ffff {
			return "", jinjaErr("OverflowError", "%%c arg not in range(0x110000)")
		}
		if f.align == 0 {
			f.align = '<'
		}
		return f.pad("", string(rune(i.Int64()))), nil
	case 'e', 'E', 'f', 'F', 'g', 'G', '%':
		fl, _ := new(big.Float).SetInt(i).Float64()
		return f.float(fl, typeName)
	default:
		return "", jinjaValueError("Unknown format code '%c' for object of type '%s'", f.kind, typeName)
	}
	if f.precision >= 0 {
		return "", jinjaValueError("Precision not allowed in integer format specifier")
	}
	if f.group == ',' && base != 10 {
		return "", jinjaValueError("Cannot specify ',' with '%c'.", f.kind)
	}
	digits := new(big.Int).Abs(i).Text(base)
	if f.kind == 'X' {
		digits, prefix = strings.ToUpper(digits), "0X"
	}
	sign := f.signOf(i.Sign() < 0)
	if f.alternate {
		sign += prefix
	}
	return f.finish(sign, digits, "", every), nil
}

// finish groups the digits before the point and pads.
func (f *numberFormat) finish(sign, whole, rest string, every int) string {
	if f.group != 0 {
		want := 0
		if f.align == '=' && f.fill == "0" { // the zeros are grouped too
			want = f.width - len(sign) - utf8.RuneCountInString(rest)
		}
		grouped := groupDigits(whole, f.group, every)
		for len(grouped) < want {
			whole = "0" + whole
			grouped = groupDigits(whole, f.group, every)
		}
		if len(grouped) > want && want > 0 && grouped[0] == f.group {
			grouped = "0" + grouped
		}
		whole = grouped
	}
	if f.align == 0 {
		f.align = '>'
	}
	return f.pad(sign, whole+rest)
}

func groupDigits(s string, sep byte, every int) string {
	if len(s) <= every {
		return s
	}
	var b strings.Builder
	head := len(s) % every
	if head > 0 {
		b.WriteString(s[:head])
	}
	for i := head; i < len(s); i += every {
		if i > 0 {
			b.WriteByte(sep)
		}
		b.WriteString(s[i : i+every])
	}
	return b.String()
}

func (f *numberFormat) float(v float64, typeName string) (string, error) {
	switch f.kind {
	case 0, 'e', 'E', 'f', 'F', 'g', 'G', 'n', '%':
	default:
		return "", jinjaValueError("Unknown format code '%c' for object of type '%s'", f.kind, typeName)
	}
	sign := f.signOf(math.Signbit(v) && !math.IsNaN(v))
	digits := floatDigits(math.Abs(v), f.kind, f.precision, f.alternate)
	whole, rest := digits, ""
	if at := strings.IndexAny(digits, ".eE%"); at >= 0 {
		whole, rest = digits[:at], digits[at:]
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		if f.fill == "0" && f.zero {
			return f.pad(sign, digits), nil
		}
		if f.align == 0 {
			f.align = '>'
		}
		return f.pad(sign, digits), nil
	}
	return f.finish(sign, whole, rest, 3), nil
}

// floatDigits formats a number that is not negative.
func floatDigits(v float64, kind byte, precision int, alternate bool) string {
	upper := kind == 'E' || kind == 'F' || kind == 'G'
	if math.IsNaN(v) || math.IsInf(v, 0) {
		s := "inf"
		if math.IsNaN(v) {
			s = "nan"
		}
		if upper {
			s = strings.ToUpper(s)
		}
		if kind == '%' {
			s += "%"
		}
		return s
	}
	p := precision
	if p < 0 {
		p = 6
	}
	var s string
	switch kind {
	case 'e', 'E':
		s = strconv.FormatFloat(v, 'e', p, 64)
		if alternate && p == 0 {
			s = strings.Replace(s, "e", ".e", 1)
		}
	case 'f', 'F':
		s = strconv.FormatFloat(v, 'f', p, 64)
		if alternate && p == 0 {
			s += "."
		}
	case '%':
		s = strconv.FormatFloat(v*100, 'f', p, 64)
		if alternate && p == 0 {
			s += "."
		}
		return s + "%"
	case 'g', 'G', 'n':
		s = generalFloat(v, p, alternate, false)
	default:
		if precision < 0 {
			return formatFloat(v)
		}
		s = generalFloat(v, p, alternate, true)
	}
	if upper {
		s = strings.ToUpper(s)
	}
	return s
}

// generalFloat is %g; point asks for a decimal in the result, as str() has it.
func generalFloat(v float64, p int, alternate, point bool) string {
	if p == 0 {
		p = 1
	}
	s := strconv.FormatFloat(v, 'e', p-1, 64)
	at := strings.IndexByte(s, 'e')
	exp, _ := strconv.Atoi(s[at+1:])
	limit := p
	if point { // str() has a digit behind the point as well
		limit = p - 1
	}
	if exp < -4 || exp >= limit {
		mantissa := s[:at]
		if !alternate && strings.Contains(mantissa, ".") {
			mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
		}
		return mantissa + s[at:]
	}
	s = strconv.FormatFloat(v, 'f', max(p-1-exp, 0), 64)
	if !alternate && strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if point && !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// formatText is s.format(*args, **kwargs).
func (r *JinjaRun) formatText(s string, args []any, kwargs *Map) (string, error) {
	f := formatter{r: r, args: args, kwargs: kwargs}
	return f.format(s, 2)
}

// formatSafeText is format for safe text: what is put in is escaped.
func (r *JinjaRun) formatSafeText(s string, args []any, kwargs *Map) (string, error) {
	f := formatter{r: r, args: args, kwargs: kwargs, safe: true}
	return f.format(s, 2)
}

type formatter struct {
	r      *JinjaRun
	args   []any
	kwargs *Map
	auto   int
	safe   bool // what is put in is escaped
	manual bool
}

func (f *formatter) format(s string, depth int) (string, error) {
	if depth < 0 {
		return "", jinjaValueError("Max string recursion exceeded")
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '{' && i+1 < len(s) && s[i+1] == '{', c == '}' && i+1 < len(s) && s[i+1] == '}':
			b.WriteByte(c)
			i += 2
			continue
		case c == '}':
			return "", jinjaValueError("Single '}' encountered in format string")
		case c != '{':
			b.WriteByte(c)
			i++
			continue
		case i+1 == len(s):
			return "", jinjaValueError("Single '{' encountered in format string")
		}
		// the field up to its closing brace
		level, bracket, end := 1, false, -1
		for k := i + 1; k < len(s); k++ {
			switch {
			case s[k] == '[' && level == 1:
				bracket = true
			case s[k] == ']':
				bracket = false
			case bracket:
			case s[k] == '{':
				level++
			case s[k] == '}':
				if level--; level == 0 {
					end = k
				}
			}
			if end >= 0 {
				break
			}
		}
		if end < 0 {
			return "", jinjaValueError("expected '}' before end of string")
		}
		text, err := f.field(s[i+1:end], depth)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
		if b.Len() > f.r.limits.Output {
			return "", jinjaErr("MemoryError", "the text is larger than %d bytes", f.r.limits.Output)
		}
		i = end + 1
	}
	return b.String(), nil
}

func (f *formatter) field(field string, depth int) (string, error) {
	name, spec := field, ""
	bracket := false
	conv := byte(0)
scan:
	for k := 0; k < len(field); k++ {
		switch c := field[k]; {
		case c == '[':
			bracket = true
		case c == ']':
			bracket = false
		case bracket:
		case c == ':':
			name, spec = field[:k], field[k+1:]
			break scan
		case c == '!':
			name = field[:k]
			rest := field[k+1:]
			if rest == "" {
				return "", jinjaValueError("end of string while looking for conversion specifier")
			}
			conv = rest[0]
			if len(rest) > 1 {
				if rest[1] != ':' {
					return "", jinjaValueError("expected ':' after conversion specifier")
				}
				spec = rest[2:]
			}
			break scan
		}
	}
	v, err := f.lookup(name)
	if err != nil {
		return "", err
	}
	switch conv {
	case 0:
	case 's':
		if v, err = f.r.str(v); err != nil {
			return "", err
		}
	case 'r':
		v = Repr(v)
	case 'a':
		v = asciiRepr(v)
	default:
		return "", jinjaValueError("Unknown conversion specifier %c", conv)
	}
	if strings.ContainsAny(spec, "{}") {
		if spec, err = f.format(spec, depth-1); err != nil {
			return "", err
		}
	}
	text, err := f.r.formatValue(v, spec)
	if f.safe && err == nil {
		text = escapeUnsafe(v, text)
	}
	return text, err
}

func (f *formatter) lookup(name string) (any, error) {
	end := strings.IndexAny(name, ".[")
	first, rest := name, ""
	if end >= 0 {
		first, rest = name[:end], name[end:]
	}
	if name == "" {
		if f.manual {
			return nil, jinjaValueError("cannot switch from manual field specification to automatic field numbering")
		}
		first = strconv.Itoa(f.auto)
		f.auto++
	} else if isDigits(name) {
		if f.auto > 0 {
			return nil, jinjaValueError("cannot switch from manual field specification to automatic field numbering")
		}
		f.manual = true
	}
	var v any
	if isDigits(first) {
		n, err := strconv.Atoi(first)
		if err != nil || n >= len(f.args) {
			return nil, jinjaErr("IndexError", "tuple index out of range")
		}
		v = f.args[n]
	} else {
		var ok bool
		if v, ok = f.kwargs.Get(first); !ok {
			return nil, jinjaErr("KeyError", "%s", Repr(first))
		}
	}
	var err error
	for rest != "" {
		if rest[0] == '.' {
			end := strings.IndexAny(rest[1:], ".[")
			attr := rest[1:]
			if end >= 0 {
				attr = rest[1 : 1+end]
			}
			if attr == "" {
				return nil, jinjaValueError("Empty attribute in format string")
			}
			rest = rest[1+len(attr):]
			v, err = f.r.getAttr(v, attr)
		} else {
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				return nil, jinjaValueError("Missing ']' in format string")
			}
			key := rest[1:end]
			rest = rest[end+1:]
			if key == "" {
				return nil, jinjaValueError("Empty attribute in format string")
			}
			if isDigits(key) {
				n, _ := strconv.ParseInt(key, 10, 64)
				v, err = f.r.getItem(v, n)
			} else {
				v, err = f.r.getItem(v, key)
			}
			if rest != "" && rest[0] != '.' && rest[0] != '[' {
				return nil, jinjaValueError("Only '.' or '[' may follow ']' in format field specifier")
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return v, nil
}
