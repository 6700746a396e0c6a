// What a plain YAML scalar means: the resolver of YAML 1.1, written out by hand
// instead of as patterns because every plain scalar of every document passes
// here, on reading and (to know what needs quotes) on writing.
package main

import (
	"errors"
	"fmt"
	"strings"
)

// resolveYAMLScalar names the standard tag of a plain scalar without one: bool,
// float, int, merge, null, timestamp, value, or str.
func resolveYAMLScalar(s string) string {
	if s == "" {
		return "null"
	}
	switch c := s[0]; {
	case c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.':
		switch {
		case isYAMLFloat(s):
			return "float"
		case c != '.' && isYAMLInt(s):
			return "int"
		case c >= '0' && c <= '9' && isYAMLTimestamp(s):
			return "timestamp"
		}
		return "str"
	}
	switch s {
	case "~", "null", "Null", "NULL":
		return "null"
	case "yes", "Yes", "YES", "no", "No", "NO", "true", "True", "TRUE", "false", "False", "FALSE",
		"on", "On", "ON", "off", "Off", "OFF":
		return "bool"
	case "<<":
		return "merge"
	case "=":
		return "value"
	}
	return "str"
}

// span counts how many leading bytes of s are digits of the given set.
func span(s, set string) int {
	n := 0
	for n < len(s) && strings.IndexByte(set, s[n]) >= 0 {
		n++
	}
	return n
}

const (
	decimalDigits    = "0123456789"
	underscoreDigits = "0123456789_"
)

func unsigned(s string) string {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		return s[1:]
	}
	return s
}

// isExponent matches the whole of (?:[eE][-+][0-9]+)?
func isExponent(s string) bool {
	if s == "" {
		return true
	}
	return len(s) > 2 && (s[0] == 'e' || s[0] == 'E') && (s[1] == '-' || s[1] == '+') &&
		span(s[2:], decimalDigits) == len(s)-2
}

// base60 skips (?::[0-5]?[0-9])+ and says how long it is, 0 if it is not there.
// What follows must be the end or, for floats, a dot.
func base60(s string) int {
	n := 0
	for n < len(s) && s[n] == ':' {
		d := span(s[n+1:], decimalDigits)
		if d == 0 || d > 2 || d == 2 && s[n+1] > '5' {
			return 0
		}
		n += 1 + d
	}
	return n
}

func isYAMLFloat(s string) bool {
	switch s {
	case ".nan", ".NaN", ".NAN":
		return true
	}
	u := unsigned(s)
	switch u {
	case "":
		return false
	case ".inf", ".Inf", ".INF":
		return true
	}
	if s[0] == '.' {
		rest := s[1:]
		if rest == "" || rest[0] < '0' || rest[0] > '9' {
			return false
		}
		return isExponent(rest[span(rest, underscoreDigits):])
	}
	if u[0] < '0' || u[0] > '9' {
		return false
	}
	rest := u[span(u, underscoreDigits):]
	if n := base60(rest); n > 0 {
		rest = rest[n:]
		return rest != "" && rest[0] == '.' && span(rest[1:], underscoreDigits) == len(rest)-1
	}
	if rest == "" || rest[0] != '.' {
		return false
	}
	rest = rest[1:]
	return isExponent(rest[span(rest, underscoreDigits):])
}

func isYAMLInt(s string) bool {
	u := unsigned(s)
	if u == "" {
		return false
	}
	if u[0] == '0' {
		if len(u) == 1 {
			return true
		}
		rest := u[2:]
		switch u[1] {
		case 'b':
			return rest != "" && span(rest, "01_") == len(rest)
		case 'x':
			return rest != "" && span(rest, "0123456789abcdefABCDEF_") == len(rest)
		}
		return span(u[1:], "01234567_") == len(u)-1
	}
	if u[0] < '1' || u[0] > '9' {
		return false
	}
	rest := u[span(u, underscoreDigits):]
	return rest == "" || base60(rest) == len(rest)
}

// isYAMLTimestamp matches a date, or a date with a time and perhaps a zone.
func isYAMLTimestamp(s string) bool {
	digits := func(min, max int) bool {
		n := span(s, decimalDigits)
		if n < min || n > max {
			return false
		}
		s = s[n:]
		return true
	}
	char := func(set string) bool {
		if s == "" || strings.IndexByte(set, s[0]) < 0 {
			return false
		}
		s = s[1:]
		return true
	}
	if len(s) == 10 && s[4] == '-' && s[7] == '-' && span(s, decimalDigits) == 4 &&
		span(s[5:], decimalDigits) == 2 && span(s[8:], decimalDigits) == 2 {
		return true
	}
	if !(digits(4, 4) && char("-") && digits(1, 2) && char("-") && digits(1, 2)) {
		return false
	}
	if !char("Tt") {
		n := span(s, " \t")
		if n == 0 {
			return false
		}
		s = s[n:]
	}
	if !(digits(1, 2) && char(":") && digits(2, 2) && char(":") && digits(2, 2)) {
		return false
	}
	if char(".") {
		s = s[span(s, decimalDigits):]
	}
	if s == "" {
		return true
	}
	s = s[span(s, " \t"):]
	if char("Z") {
		return s == ""
	}
	if !(char("-+") && digits(1, 2)) {
		return false
	}
	return s == "" || char(":") && digits(2, 2) && s == ""
}

// decodeBase64Lenient decodes as Python's binascii does by default: characters
// outside the alphabet are skipped, the padding has to be right.
func decodeBase64Lenient(s string) ([]byte, error) {
	out := make([]byte, 0, len(s)*3/4)
	var acc uint32
	quad, pads := 0, 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		var d byte
		switch {
		case c >= 'A' && c <= 'Z':
			d = c - 'A'
		case c >= 'a' && c <= 'z':
			d = c - 'a' + 26
		case c >= '0' && c <= '9':
			d = c - '0' + 52
		case c == '+':
			d = 62
		case c == '/':
			d = 63
		case c == '=':
			if quad >= 2 {
				if pads++; quad+pads >= 4 {
					return out, nil // what follows a complete quad is ignored
				}
			}
			continue
		default:
			continue
		}
		pads = 0
		acc = acc<<6 | uint32(d)
		switch quad {
		case 1:
			out = append(out, byte(acc>>4))
		case 2:
			out = append(out, byte(acc>>2))
		case 3:
			out = append(out, byte(acc))
		}
		quad = (quad + 1) % 4
	}
	switch quad {
	case 0:
		return out, nil
	case 1:
		return nil, fmt.Errorf("Invalid base64-encoded string: number of data characters (%d) cannot be 1 more than a multiple of 4", len(out)/3*4+1)
	}
	return nil, errors.New("Incorrect padding")
}
