// Scanning scalars: plain, quoted and in blocks.
package main

import (
	"strings"
	"unicode/utf8"
)

// yamlFold collects a scalar over several lines: white space between words, the
// first break after a line, and the breaks after that one.
type yamlFold struct {
	text        strings.Builder
	spaces      string
	first, more string
	blank       bool // a line ended since the last word
}

// join writes what was between two words.
func (f *yamlFold) join() {
	switch {
	case !f.blank:
		f.text.WriteString(f.spaces)
	case strings.HasPrefix(f.first, "\n"):
		if f.more == "" {
			f.text.WriteByte(' ')
		} else {
			f.text.WriteString(f.more)
		}
	default:
		f.text.WriteString(f.first)
		f.text.WriteString(f.more)
	}
	f.spaces, f.first, f.more, f.blank = "", "", "", false
}

// line notes a line break.
func (f *yamlFold) line(text string) {
	if !f.blank {
		f.spaces, f.first, f.blank = "", text, true
	} else {
		f.more += text
	}
}

func (s *yamlScanner) plainScalar() error {
	if err := s.saveKey(); err != nil {
		return err
	}
	s.allowed = false
	start, end := s.at, s.at
	indent := s.indent + 1
	var fold *yamlFold // only for a scalar of several lines
	simple := ""       // the text as long as it is on one line
	const context = "while scanning a plain scalar"
	for {
		if s.documentMarker('-') || s.documentMarker('.') || s.peek(0) == '#' {
			break
		}
		from := s.at.index
		i := from
	word:
		for i < len(s.src) {
			c := s.src[i]
			switch {
			case c == ' ' || c == '\t' || c == '\n' || c == '\r':
				break word
			case c >= 0x80:
				if s.breakWidth(i) > 0 {
					break word
				}
			case c == ':':
				next := byte(0)
				if i+1 < len(s.src) {
					next = s.src[i+1]
				}
				if s.flow > 0 && next != 0 && strings.IndexByte(",?[]{}", next) >= 0 {
					s.skipTo(i)
					return s.fail(context, start, "found unexpected ':'")
				}
				if next == 0 || next == ' ' || next == '\t' || s.breakWidth(i+1) > 0 {
					break word
				}
			case s.flow > 0 && (c == ',' || c == '[' || c == ']' || c == '{' || c == '}'):
				break word
			}
			i++
		}
		if i > from {
			if fold != nil {
				fold.join()
				fold.text.WriteString(s.src[from:i])
			} else {
				simple = s.src[start.index:i]
			}
			s.skipTo(i)
			end = s.at
		}
		if !(s.isBlank(0) || s.isBreak(0)) {
			break
		}
		for s.isBlank(0) || s.isBreak(0) {
			if s.isBreak(0) {
				if fold == nil {
					fold = &yamlFold{}
					fold.text.WriteString(simple)
				}
				fold.line(s.skipBreak())
				continue
			}
			if fold != nil && fold.blank {
				if s.at.column < indent && s.peek(0) == '\t' {
					return s.fail(context, start, "found a tab character that violates indentation")
				}
			} else if fold != nil {
				fold.spaces += s.src[s.at.index : s.at.index+1]
			}
			s.skip(1)
		}
		if s.flow == 0 && s.at.column < indent {
			break
		}
	}
	text := simple
	if fold != nil {
		text = fold.text.String()
		if fold.blank {
			s.allowed = true
		}
	}
	s.add(yamlToken{kind: yamlScalar, text: text, start: start, end: end})
	return nil
}

func (s *yamlScanner) flowScalar(quote byte) error {
	if err := s.saveKey(); err != nil {
		return err
	}
	s.allowed = false
	start := s.at
	s.skip(1)
	const context = "while scanning a quoted scalar"
	// most quoted scalars are on one line and have nothing to decode
	stop := "'\n\r"
	if quote == '"' {
		stop = "\"\\\n\r"
	}
	if n := strings.IndexAny(s.src[s.at.index:], stop); n >= 0 && s.src[s.at.index+n] == quote {
		text := s.src[s.at.index : s.at.index+n]
		doubled := quote == '\'' && s.peek(n+1) == '\''
		if !doubled && !strings.ContainsAny(text, "\u0085\u2028\u2029") && s.at.column > 0 {
			s.skipTo(s.at.index + n)
			s.skip(1)
			s.add(yamlToken{kind: yamlScalar, quoted: true, text: text, start: start, end: s.at})
			return nil
		}
	}
	var f yamlFold
	for {
		if s.documentMarker('-') || s.documentMarker('.') {
			return s.fail(context, start, "found unexpected document indicator")
		}
		if s.at.index >= len(s.src) {
			return s.fail(context, start, "found unexpected end of stream")
		}
		f.blank = false
		for !s.isBlankZ(0) {
			c := s.peek(0)
			if quote == '\'' && c == '\'' && s.peek(1) == '\'' {
				f.text.WriteByte('\'')
				s.skip(2)
				continue
			}
			if c == quote {
				break
			}
			if quote == '"' && c == '\\' {
				if s.isBreak(1) {
					s.skip(1)
					s.skipBreak()
					f.blank = true
					break
				}
				if err := s.escape(&f.text, start); err != nil {
					return err
				}
				continue
			}
			from := s.at.index
			s.skipRune()
			f.text.WriteString(s.src[from:s.at.index])
		}
		if s.peek(0) == quote && s.at.index < len(s.src) {
			break
		}
		for s.isBlank(0) || s.isBreak(0) {
			switch {
			case s.isBreak(0):
				f.line(s.skipBreak())
			case f.blank:
				s.skip(1)
			default:
				f.spaces += s.src[s.at.index : s.at.index+1]
				s.skip(1)
			}
		}
		if f.blank && f.first == "" { // after an escaped break there is no space
			f.text.WriteString(f.more)
			f.spaces, f.more = "", ""
		} else {
			f.join()
		}
	}
	s.skip(1)
	s.add(yamlToken{kind: yamlScalar, quoted: true, text: f.text.String(), start: start, end: s.at})
	return nil
}

// escape decodes one escape of a double-quoted scalar.
func (s *yamlScanner) escape(b *strings.Builder, start yamlPlace) error {
	const context = "while parsing a quoted scalar"
	digits := 0
	switch s.peek(1) {
	case '0':
		b.WriteByte(0)
	case 'a':
		b.WriteByte('\a')
	case 'b':
		b.WriteByte('\b')
	case 't', '\t':
		b.WriteByte('\t')
	case 'n':
		b.WriteByte('\n')
	case 'v':
		b.WriteByte('\v')
	case 'f':
		b.WriteByte('\f')
	case 'r':
		b.WriteByte('\r')
	case 'e':
		b.WriteByte(0x1b)
	case ' ', '"', '/', '\\':
		b.WriteByte(s.peek(1))
	case 'N':
		b.WriteRune(0x85)
	case '_':
		b.WriteRune(0xa0)
	case 'L':
		b.WriteRune(0x2028)
	case 'P':
		b.WriteRune(0x2029)
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	default:
		return s.fail(context, start, "found unknown escape character")
	}
	s.skip(2)
	var v uint64
	for k := range digits {
		c := s.peek(k)
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | uint64(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			v = v<<4 | uint64(c|0x20-'a'+10)
		default:
			return s.fail(context, start, "did not find expected hexdecimal number")
		}
	}
	if digits == 0 {
		return nil
	}
	if v >= 0xd800 && v <= 0xdfff || v > utf8.MaxRune {
		return s.fail(context, start, "found invalid Unicode character escape code")
	}
	b.WriteRune(rune(v))
	s.skip(digits)
	return nil
}

func (s *yamlScanner) blockScalar(literal bool) error {
	if err := s.removeKey(); err != nil {
		return err
	}
	s.allowed = true
	start := s.at
	const context = "while scanning a block scalar"
	s.skip(1)
	chomp, increment := 0, 0
	sign := func() bool {
		switch s.peek(0) {
		case '+':
			chomp = 1
		case '-':
			chomp = -1
		default:
			return false
		}
		s.skip(1)
		return true
	}
	digit := func() (bool, error) {
		c := s.peek(0)
		if c < '0' || c > '9' {
			return false, nil
		}
		if c == '0' {
			return false, s.fail(context, start, "found an indentation indicator equal to 0")
		}
		increment = int(c - '0')
		s.skip(1)
		return true, nil
	}
	if sign() {
		if _, err := digit(); err != nil {
			return err
		}
	} else if ok, err := digit(); err != nil {
		return err
	} else if ok {
		sign()
	}
	for s.isBlank(0) {
		s.skip(1)
	}
	if s.peek(0) == '#' {
		s.skipTo(s.lineEnd())
	}
	if !s.isBreakZ() {
		return s.fail(context, start, "did not find expected comment or line break")
	}
	if s.isBreak(0) {
		s.skipBreak()
	}
	end := s.at
	indent := 0
	if increment > 0 {
		indent = max(s.indent, 0) + increment
		if s.indent < 0 {
			indent = increment
		}
	}
	var text strings.Builder
	trailing, err := s.blockBreaks(&indent, start, &end)
	if err != nil {
		return err
	}
	leading, leadingBlank := "", false
	for s.at.column == indent && s.at.index < len(s.src) {
		blank := s.isBlank(0)
		if !literal && strings.HasPrefix(leading, "\n") && !leadingBlank && !blank {
			if trailing == "" {
				text.WriteByte(' ')
			}
		} else {
			text.WriteString(leading)
		}
		text.WriteString(trailing)
		leadingBlank = blank
		from := s.at.index
		s.skipTo(s.lineEnd())
		text.WriteString(s.src[from:s.at.index])
		leading = ""
		if s.isBreak(0) {
			leading = s.skipBreak()
		}
		if trailing, err = s.blockBreaks(&indent, start, &end); err != nil {
			return err
		}
	}
	if chomp != -1 {
		text.WriteString(leading)
	}
	if chomp == 1 {
		text.WriteString(trailing)
	}
	s.add(yamlToken{kind: yamlScalar, quoted: true, text: text.String(), start: start, end: end})
	return nil
}

// blockBreaks passes indentation and empty lines; an indent of 0 is found out.
func (s *yamlScanner) blockBreaks(indent *int, start yamlPlace, end *yamlPlace) (string, error) {
	breaks, deepest := "", 0
	*end = s.at
	for {
		for (*indent == 0 || s.at.column < *indent) && s.peek(0) == ' ' {
			s.skip(1)
		}
		deepest = max(deepest, s.at.column)
		if (*indent == 0 || s.at.column < *indent) && s.peek(0) == '\t' {
			return "", s.fail("while scanning a block scalar", start, "found a tab character where an indentation space is expected")
		}
		if !s.isBreak(0) {
			break
		}
		breaks += s.skipBreak()
		*end = s.at
	}
	if *indent == 0 {
		*indent = max(deepest, s.indent+1, 1)
	}
	return breaks, nil
}
