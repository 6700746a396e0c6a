// Text formatted with Python's % operator.

package main

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// asciiRepr is ascii(v).
func asciiRepr(v any) string {
	s := Repr(v)
	if isASCII(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if r < 0x80 {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(reprNonASCII(r), "'"))
		}
	}
	return b.String()
}

// percentFormat is s % v.
func (r *JinjaRun) percentFormat(s string, v any) (string, error) {
	return r.percentFormatAs(s, v, func(_ any, text string) string { return text })
}

// escapeUnsafe escapes what is put into safe text.
func escapeUnsafe(v any, text string) string {
	if _, ok := v.(Markup); ok {
		return text
	}
	return escapeHTML(text)
}

// percentFormatAs is percentFormat with a step that the texts go through.
func (r *JinjaRun) percentFormatAs(s string, v any, escape func(v any, text string) string) (string, error) {
	var args []any
	mapping, _ := v.(*Map)
	single := false
	switch v := v.(type) {
	case Tuple:
		args = v
	default:
		args, single = []any{v}, true
	}
	used := 0
	usedMap := false
	take := func() (any, error) {
		if used >= len(args) {
			return nil, jinjaTypeError("not enough arguments for format string")
		}
		used++
		return args[used-1], nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		i++
		f := numberFormat{fill: " ", precision: -1}
		var key any
		if i < len(s) && s[i] == '(' {
			level, start := 1, i+1
			for i++; i < len(s) && level > 0; i++ {
				switch s[i] {
				case '(':
					level++
				case ')':
					level--
				}
			}
			if level > 0 {
				return "", jinjaValueError("incomplete format key")
			}
			if mapping == nil {
				return "", jinjaTypeError("format requires a mapping")
			}
			key = s[start : i-1]
			usedMap = true
		}
		for ; i < len(s) && strings.IndexByte("#0- +", s[i]) >= 0; i++ {
			switch s[i] {
			case '#':
				f.alternate = true
			case '0':
				f.zero = true
			case '-':
				f.align = '<'
			case '+':
				f.sign = '+'
			case ' ':
				if f.sign == 0 {
					f.sign = ' '
				}
			}
		}
		number := func() (int, bool, error) {
			if i < len(s) && s[i] == '*' {
				i++
				v, err := take()
				if err != nil {
					return 0, false, err
				}
				n, ok := v.(int64)
				if !ok {
					return 0, false, jinjaTypeError("* wants int")
				}
				return int(n), true, nil
			}
			n := span(s[i:], decimalDigits)
			if n == 0 {
				return 0, false, nil
			}
			v, err := strconv.Atoi(s[i : i+n])
			i += n
			if err != nil {
				v = maxFormatWidth + 1
			}
			return v, true, nil
		}
		width, _, err := number()
		if err != nil {
			return "", err
		}
		if width < 0 {
			f.align, width = '<', -width
		}
		f.width = width
		if i < len(s) && s[i] == '.' {
			i++
			p, _, err := number()
			if err != nil {
				return "", err
			}
			f.precision = max(p, 0)
		}
		if f.width > maxFormatWidth || f.precision > maxFormatWidth {
			return "", jinjaValueError("width too big")
		}
		for i < len(s) && strings.IndexByte("hlL", s[i]) >= 0 {
			i++
		}
		if i >= len(s) {
			return "", jinjaValueError("incomplete format")
		}
		if s[i] == '%' {
			b.WriteByte('%')
			continue
		}
		var arg any
		if key != nil {
			var ok bool
			if arg, ok = mapping.Get(key); !ok {
				return "", jinjaErr("KeyError", "%s", Repr(key))
			}
		} else if arg, err = take(); err != nil {
			return "", err
		}
		text, err := r.percentOne(&f, s, i, arg, escape)
		if err != nil {
			return "", err
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		i += n - 1
		b.WriteString(text)
		if b.Len() > r.limits.Output {
			return "", jinjaErr("MemoryError", "the text is larger than %d bytes", r.limits.Output)
		}
	}
	if used < len(args) && !usedMap && !(single && isMappingLike(v)) {
		return "", jinjaTypeError("not all arguments converted during string formatting")
	}
	return b.String(), nil
}

// isMappingLike is what % takes as a mapping that need not be used up.
func isMappingLike(v any) bool {
	switch v.(type) {
	case *Map, *List:
		return true
	}
	return false
}

func (r *JinjaRun) percentOne(f *numberFormat, s string, i int, arg any, escape func(any, string) string) (string, error) {
	c := s[i]
	if f.align == 0 {
		f.align = '>'
	}
	cut := func(text string) string {
		if f.precision >= 0 {
			if rs := []rune(text); len(rs) > f.precision {
				text = string(rs[:f.precision])
			}
		}
		return f.pad("", text)
	}
	if f.zero && f.align != '<' && strings.IndexByte("diuoxXeEfFgG", c) >= 0 {
		f.fill, f.align = "0", '='
	}
	switch c {
	case 's':
		text, err := r.str(arg)
		return cut(escape(arg, text)), err
	case 'r':
		return cut(escape(nil, Repr(arg))), nil
	case 'a':
		return cut(escape(nil, asciiRepr(arg))), nil
	case 'c':
		if n, ok := arg.(int64); ok {
			if n < 0 || n > 0x10ffff {
				return "", jinjaErr("OverflowError", "%%c arg not in range(0x110000)")
			}
			return f.pad("", string(rune(n))), nil
		}
		if t, ok := textOf(arg); ok && utf8.RuneCountInString(t) == 1 {
			return f.pad("", t), nil
		}
		return "", jinjaTypeError("%%c requires int or char")
	case 'd', 'i', 'u', 'o', 'x', 'X':
		if u, ok := arg.(*JinjaUndefined); ok {
			return "", u.fail()
		}
		n, fl, isInt, ok := number(arg)
		if !ok {
			if strings.IndexByte("oxX", c) >= 0 {
				return "", jinjaTypeError("%%%c format: an integer is required, not %s", c, TypeName(arg))
			}
			return "", jinjaTypeError("%%%c format: a real number is required, not %s", c, TypeName(arg))
		}
		if !isInt {
			if strings.IndexByte("oxX", c) >= 0 {
				return "", jinjaTypeError("%%%c format: an integer is required, not float", c)
			}
			if math.IsNaN(fl) || math.IsInf(fl, 0) {
				return "", jinjaErr("OverflowError", "cannot convert float infinity to integer")
			}
			n, _ = big.NewFloat(math.Trunc(fl)).Int(nil)
		}
		base, prefix := 10, ""
		switch c {
		case 'o':
			base, prefix = 8, "0o"
		case 'x':
			base, prefix = 16, "0x"
		case 'X':
			base, prefix = 16, "0X"
		}
		digits := new(big.Int).Abs(n).Text(base)
		if c == 'X' {
			digits = strings.ToUpper(digits)
		}
		if f.precision > len(digits) {
			digits = strings.Repeat("0", f.precision-len(digits)) + digits
		}
		sign := f.signOf(n.Sign() < 0)
		if f.alternate {
			sign += prefix
		}
		return f.pad(sign, digits), nil
	case 'e', 'E', 'f', 'F', 'g', 'G':
		if u, ok := arg.(*JinjaUndefined); ok {
			return "", u.fail()
		}
		_, fl, _, ok := number(arg)
		if !ok {
			return "", jinjaTypeError("must be real number, not %s", TypeName(arg))
		}
		sign := f.signOf(math.Signbit(fl) && !math.IsNaN(fl))
		return f.pad(sign, floatDigits(math.Abs(fl), c, f.precision, f.alternate)), nil
	}
	rn, _ := utf8.DecodeRuneInString(s[i:])
	return "", jinjaValueError("unsupported format character '%s' (0x%s) at index %d", string(rn), strings.ToLower(fmt.Sprintf("%x", rn)), utf8.RuneCountInString(s[:i]))
}
