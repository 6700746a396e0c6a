// The YAML scanner: text to tokens, as libyaml does it under PyYAML.
//
// The law of this file and of render_yaml_tree.go: they follow libyaml's
// behaviour step by step, also where YAML 1.2 says otherwise, because the places
// and words of its errors are what Salt shows. Tokens are made only when they
// are asked for; so of several errors the one that libyaml meets first is found.
package main

import (
	"strings"
	"unicode/utf8"
)

type yamlTokenKind byte

const (
	yamlStreamEnd yamlTokenKind = iota
	yamlVersionDirective
	yamlTagDirective
	yamlDocumentStart
	yamlDocumentEnd
	yamlBlockSequenceStart
	yamlBlockMappingStart
	yamlBlockEnd
	yamlFlowSequenceStart
	yamlFlowSequenceEnd
	yamlFlowMappingStart
	yamlFlowMappingEnd
	yamlBlockEntry
	yamlFlowEntry
	yamlKey
	yamlValue
	yamlAlias
	yamlAnchor
	yamlTag
	yamlScalar
)

// yamlPlace is a position; lines and columns count from 0.
type yamlPlace struct{ index, line, column int }

func (p yamlPlace) mark() YAMLMark { return YAMLMark{p.line + 1, p.column + 1} }

type yamlToken struct {
	kind       yamlTokenKind
	quoted     bool // a scalar that is not plain
	text       string
	handle     string // of a tag; of a %TAG directive, with the prefix in text
	start, end yamlPlace
}

// yamlKeyPlace is a place where a key without ? may have begun.
type yamlKeyPlace struct {
	possible, required bool
	number             int
	at                 yamlPlace
}

type yamlScanner struct {
	src     string
	at      yamlPlace
	tokens  []yamlToken
	head    int // tokens before it are taken
	taken   int
	ended   bool
	flow    int
	indent  int
	indents []int
	keys    []yamlKeyPlace
	allowed bool // a simple key may begin here
}

func newYAMLScanner(src string) *yamlScanner {
	return &yamlScanner{src: src, indent: -1, allowed: true, keys: make([]yamlKeyPlace, 1, 16)}
}

func (s *yamlScanner) fail(context string, from yamlPlace, problem string) error {
	e := &YAMLError{Class: "ScannerError", Context: context, Problem: problem, Mark: s.at.mark()}
	if context != "" {
		e.ContextMark = from.mark()
	}
	return e
}

// peek is the byte n bytes ahead, 0 behind the end.
func (s *yamlScanner) peek(n int) byte {
	if i := s.at.index + n; i < len(s.src) {
		return s.src[i]
	}
	return 0
}

// breakWidth is how many bytes a line break at position i has, 0 if none is there.
func (s *yamlScanner) breakWidth(i int) int {
	if i >= len(s.src) {
		return 0
	}
	switch s.src[i] {
	case '\n':
		return 1
	case '\r':
		if i+1 < len(s.src) && s.src[i+1] == '\n' {
			return 2
		}
		return 1
	case 0xc2:
		if strings.HasPrefix(s.src[i:], "\u0085") {
			return 2
		}
	case 0xe2:
		if strings.HasPrefix(s.src[i:], "\u2028") || strings.HasPrefix(s.src[i:], "\u2029") {
			return 3
		}
	}
	return 0
}

func (s *yamlScanner) isBreak(n int) bool { return s.breakWidth(s.at.index+n) > 0 }

func (s *yamlScanner) isBlank(n int) bool { c := s.peek(n); return c == ' ' || c == '\t' }

// isBlankZ is a blank, a break or the end.
func (s *yamlScanner) isBlankZ(n int) bool {
	c := s.peek(n)
	return c == 0 || c == ' ' || c == '\t' || s.isBreak(n)
}

func (s *yamlScanner) isBreakZ() bool { return s.peek(0) == 0 || s.isBreak(0) }

// skip passes n characters of one byte each.
func (s *yamlScanner) skip(n int) { s.at.index += n; s.at.column += n }

// skipRune passes one character.
func (s *yamlScanner) skipRune() {
	if s.peek(0) < utf8.RuneSelf {
		s.skip(1)
		return
	}
	_, n := utf8.DecodeRuneInString(s.src[s.at.index:])
	s.at.index += n
	s.at.column++
}

// skipTo passes the characters up to byte position i, without a break in them.
func (s *yamlScanner) skipTo(i int) {
	s.at.column += utf8.RuneCountInString(s.src[s.at.index:i])
	s.at.index = i
}

// skipBreak passes a line break and returns it as it goes into a scalar.
func (s *yamlScanner) skipBreak() string {
	n := s.breakWidth(s.at.index)
	text := "\n"
	if n == 3 {
		text = s.src[s.at.index : s.at.index+3]
	}
	s.at.index += n
	s.at.column = 0
	s.at.line++
	return text
}

// documentMarker says whether --- or ... stands here.
func (s *yamlScanner) documentMarker(c byte) bool {
	return s.at.column == 0 && s.peek(0) == c && s.peek(1) == c && s.peek(2) == c && s.isBlankZ(3)
}

// next looks at the next token without taking it.
func (s *yamlScanner) next() (*yamlToken, error) {
	for {
		need := s.head >= len(s.tokens)
		if !need {
			if err := s.staleKeys(); err != nil {
				return nil, err
			}
			for i := range s.keys {
				if s.keys[i].possible && s.keys[i].number == s.taken {
					need = true
					break
				}
			}
		}
		if !need {
			return &s.tokens[s.head], nil
		}
		if s.ended {
			return &s.tokens[len(s.tokens)-1], nil
		}
		if err := s.fetch(); err != nil {
			return nil, err
		}
	}
}

// take passes the token that next showed.
func (s *yamlScanner) take() {
	if s.tokens[s.head].kind == yamlStreamEnd {
		return
	}
	s.head++
	s.taken++
	if s.head == len(s.tokens) {
		s.tokens, s.head = s.tokens[:0], 0
	}
}

func (s *yamlScanner) add(t yamlToken) { s.tokens = append(s.tokens, t) }

// insert puts a token in front of the one with the given number.
func (s *yamlScanner) insert(number int, t yamlToken) {
	i := s.head + number - s.taken
	s.tokens = append(s.tokens, yamlToken{})
	copy(s.tokens[i+1:], s.tokens[i:])
	s.tokens[i] = t
}

// staleKeys gives up on keys that are on an earlier line or too far back.
func (s *yamlScanner) staleKeys() error {
	for i := range s.keys {
		k := &s.keys[i]
		if k.possible && (k.at.line < s.at.line || k.at.index+1024 < s.at.index) {
			if k.required {
				return s.fail("while scanning a simple key", k.at, "could not find expected ':'")
			}
			k.possible = false
		}
	}
	return nil
}

func (s *yamlScanner) saveKey() error {
	if !s.allowed {
		return nil
	}
	if err := s.removeKey(); err != nil {
		return err
	}
	s.keys[len(s.keys)-1] = yamlKeyPlace{possible: true, required: s.flow == 0 && s.indent == s.at.column,
		number: s.taken + len(s.tokens) - s.head, at: s.at}
	return nil
}

func (s *yamlScanner) removeKey() error {
	k := &s.keys[len(s.keys)-1]
	if k.possible && k.required {
		return s.fail("while scanning a simple key", k.at, "could not find expected ':'")
	}
	k.possible = false
	return nil
}

// rollIndent opens a block collection if the column is further right; number is
// the token it goes before, -1 for the end of the queue.
func (s *yamlScanner) rollIndent(column, number int, kind yamlTokenKind, at yamlPlace) {
	if s.flow > 0 || s.indent >= column {
		return
	}
	s.indents = append(s.indents, s.indent)
	s.indent = column
	t := yamlToken{kind: kind, start: at, end: at}
	if number < 0 {
		s.add(t)
	} else {
		s.insert(number, t)
	}
}

func (s *yamlScanner) unrollIndent(column int) {
	if s.flow > 0 {
		return
	}
	for s.indent > column {
		s.add(yamlToken{kind: yamlBlockEnd, start: s.at, end: s.at})
		s.indent = s.indents[len(s.indents)-1]
		s.indents = s.indents[:len(s.indents)-1]
	}
}

// toNextToken passes spaces, comments and line breaks.
func (s *yamlScanner) toNextToken() {
	for {
		for s.peek(0) == ' ' || (s.flow > 0 || !s.allowed) && s.peek(0) == '\t' {
			s.skip(1)
		}
		if s.peek(0) == '#' {
			s.skipTo(s.lineEnd())
		}
		if !s.isBreak(0) {
			return
		}
		s.skipBreak()
		if s.flow == 0 {
			s.allowed = true
		}
	}
}

// lineEnd is where the line ends.
func (s *yamlScanner) lineEnd() int {
	i := s.at.index
	for i < len(s.src) {
		if c := s.src[i]; c == '\n' || c == '\r' || c >= 0x80 && s.breakWidth(i) > 0 {
			return i
		}
		i++
	}
	return i
}

// fetch scans one more token (a block may begin or end on the way).
func (s *yamlScanner) fetch() error {
	s.toNextToken()
	if err := s.staleKeys(); err != nil {
		return err
	}
	s.unrollIndent(s.at.column)
	c := s.peek(0)
	switch {
	case s.at.index >= len(s.src):
		return s.streamEnd()
	case s.at.column == 0 && c == '%':
		return s.directive()
	case s.documentMarker('-'):
		return s.documentIndicator(yamlDocumentStart)
	case s.documentMarker('.'):
		return s.documentIndicator(yamlDocumentEnd)
	}
	switch c {
	case '[':
		return s.flowStart(yamlFlowSequenceStart)
	case '{':
		return s.flowStart(yamlFlowMappingStart)
	case ']':
		return s.flowEnd(yamlFlowSequenceEnd)
	case '}':
		return s.flowEnd(yamlFlowMappingEnd)
	case ',':
		if err := s.removeKey(); err != nil {
			return err
		}
		s.allowed = true
		s.indicator(yamlFlowEntry, 1)
		return nil
	case '-':
		if s.isBlankZ(1) {
			return s.blockEntry()
		}
	case '?':
		if s.flow > 0 || s.isBlankZ(1) {
			return s.key()
		}
	case ':':
		if s.flow > 0 || s.isBlankZ(1) {
			return s.value()
		}
	case '*':
		return s.anchor(yamlAlias)
	case '&':
		return s.anchor(yamlAnchor)
	case '!':
		return s.tag()
	case '|', '>':
		if s.flow == 0 {
			return s.blockScalar(c == '|')
		}
	case '\'', '"':
		return s.flowScalar(c)
	}
	plain := !(s.isBlankZ(0) || strings.IndexByte("-?:,[]{}#&*!|>'\"%@`", c) >= 0) ||
		c == '-' && !s.isBlank(1) || s.flow == 0 && (c == '?' || c == ':') && !s.isBlankZ(1)
	if !plain {
		return s.fail("while scanning for the next token", s.at, "found character that cannot start any token")
	}
	return s.plainScalar()
}

func (s *yamlScanner) indicator(kind yamlTokenKind, n int) {
	start := s.at
	s.skip(n)
	s.add(yamlToken{kind: kind, start: start, end: s.at})
}

func (s *yamlScanner) streamEnd() error {
	if s.at.column != 0 { // as if a line ended here
		s.at.column = 0
		s.at.line++
	}
	s.unrollIndent(-1)
	if err := s.removeKey(); err != nil {
		return err
	}
	s.allowed = false
	s.add(yamlToken{kind: yamlStreamEnd, start: s.at, end: s.at})
	s.ended = true
	return nil
}

func (s *yamlScanner) documentIndicator(kind yamlTokenKind) error {
	s.unrollIndent(-1)
	if err := s.removeKey(); err != nil {
		return err
	}
	s.allowed = false
	s.indicator(kind, 3)
	return nil
}

func (s *yamlScanner) flowStart(kind yamlTokenKind) error {
	if err := s.saveKey(); err != nil {
		return err
	}
	s.keys = append(s.keys, yamlKeyPlace{})
	s.flow++
	s.allowed = true
	s.indicator(kind, 1)
	return nil
}

func (s *yamlScanner) flowEnd(kind yamlTokenKind) error {
	if err := s.removeKey(); err != nil {
		return err
	}
	if s.flow > 0 {
		s.flow--
		s.keys = s.keys[:len(s.keys)-1]
	}
	s.allowed = false
	s.indicator(kind, 1)
	return nil
}

func (s *yamlScanner) blockEntry() error {
	if s.flow == 0 {
		if !s.allowed {
			return s.fail("", s.at, "block sequence entries are not allowed in this context")
		}
		s.rollIndent(s.at.column, -1, yamlBlockSequenceStart, s.at)
	}
	if err := s.removeKey(); err != nil {
		return err
	}
	s.allowed = true
	s.indicator(yamlBlockEntry, 1)
	return nil
}

func (s *yamlScanner) key() error {
	if s.flow == 0 {
		if !s.allowed {
			return s.fail("", s.at, "mapping keys are not allowed in this context")
		}
		s.rollIndent(s.at.column, -1, yamlBlockMappingStart, s.at)
	}
	if err := s.removeKey(); err != nil {
		return err
	}
	s.allowed = s.flow == 0
	s.indicator(yamlKey, 1)
	return nil
}

func (s *yamlScanner) value() error {
	k := &s.keys[len(s.keys)-1]
	if k.possible {
		s.insert(k.number, yamlToken{kind: yamlKey, start: k.at, end: k.at})
		s.rollIndent(k.at.column, k.number, yamlBlockMappingStart, k.at)
		k.possible = false
		s.allowed = false
	} else {
		if s.flow == 0 {
			if !s.allowed {
				return s.fail("", s.at, "mapping values are not allowed in this context")
			}
			s.rollIndent(s.at.column, -1, yamlBlockMappingStart, s.at)
		}
		s.allowed = s.flow == 0
	}
	s.indicator(yamlValue, 1)
	return nil
}

func isYAMLAlpha(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// alphas takes letters, digits, _ and -.
func (s *yamlScanner) alphas() string {
	from := s.at.index
	for isYAMLAlpha(s.peek(0)) {
		s.skip(1)
	}
	return s.src[from:s.at.index]
}

func (s *yamlScanner) anchor(kind yamlTokenKind) error {
	if err := s.saveKey(); err != nil {
		return err
	}
	s.allowed = false
	start := s.at
	s.skip(1)
	name := s.alphas()
	if name == "" || !(s.isBlankZ(0) || strings.IndexByte("?:,]}%@`", s.peek(0)) >= 0) {
		context := "while scanning an anchor"
		if kind == yamlAlias {
			context = "while scanning an alias"
		}
		return s.fail(context, start, "did not find expected alphabetic or numeric character")
	}
	s.add(yamlToken{kind: kind, text: name, start: start, end: s.at})
	return nil
}

func (s *yamlScanner) tag() error {
	if err := s.saveKey(); err != nil {
		return err
	}
	s.allowed = false
	start := s.at
	var handle, suffix string
	var err error
	if s.peek(1) == '<' {
		s.skip(2)
		if suffix, err = s.tagURI(true, false, "", start); err != nil {
			return err
		}
		if s.peek(0) != '>' {
			return s.fail("while scanning a tag", start, "did not find the expected '>'")
		}
		s.skip(1)
	} else {
		if handle, err = s.tagHandle(false, start); err != nil {
			return err
		}
		if len(handle) > 1 && handle[len(handle)-1] == '!' {
			if suffix, err = s.tagURI(false, false, "", start); err != nil {
				return err
			}
		} else {
			if suffix, err = s.tagURI(false, false, handle, start); err != nil {
				return err
			}
			handle = "!"
			if suffix == "" {
				handle, suffix = "", "!"
			}
		}
	}
	if !s.isBlankZ(0) && !(s.flow > 0 && s.peek(0) == ',') {
		return s.fail("while scanning a tag", start, "did not find expected whitespace or line break")
	}
	s.add(yamlToken{kind: yamlTag, handle: handle, text: suffix, start: start, end: s.at})
	return nil
}

func (s *yamlScanner) tagHandle(directive bool, start yamlPlace) (string, error) {
	if s.peek(0) != '!' {
		context := "while scanning a tag"
		if directive {
			context = "while scanning a tag directive"
		}
		return "", s.fail(context, start, "did not find expected '!'")
	}
	from := s.at.index
	s.skip(1)
	s.alphas()
	if s.peek(0) == '!' {
		s.skip(1)
	} else if directive && s.at.index-from != 1 {
		return "", s.fail("while parsing a tag directive", start, "did not find expected '!'")
	}
	return s.src[from:s.at.index], nil
}

func (s *yamlScanner) tagURI(uri, directive bool, head string, start yamlPlace) (string, error) {
	context := "while parsing a tag"
	if directive {
		context = "while parsing a %TAG directive"
	}
	var b strings.Builder
	if len(head) > 1 {
		b.WriteString(head[1:])
	}
	found := head != ""
	for {
		c := s.peek(0)
		if !(isYAMLAlpha(c) || c != 0 && strings.IndexByte(";/?:@&=+$.%!~*'()", c) >= 0 || uri && (c == ',' || c == '[' || c == ']')) {
			break
		}
		found = true
		if c != '%' {
			b.WriteByte(c)
			s.skip(1)
			continue
		}
		hex := func(c byte) int { return strings.IndexByte("0123456789abcdef", c|0x20) }
		isHex := func(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }
		value := func(c byte) byte {
			if c >= '0' && c <= '9' {
				return c - '0'
			}
			return byte(hex(c))
		}
		if !isHex(s.peek(1)) || !isHex(s.peek(2)) {
			return "", s.fail(context, start, "did not find URI escaped octet")
		}
		b.WriteByte(value(s.peek(1))<<4 | value(s.peek(2)))
		s.skip(3)
	}
	if !found {
		return "", s.fail(context, start, "did not find expected tag URI")
	}
	return b.String(), nil
}

func (s *yamlScanner) directive() error {
	s.unrollIndent(-1)
	if err := s.removeKey(); err != nil {
		return err
	}
	s.allowed = false
	start := s.at
	const context = "while scanning a directive"
	s.skip(1)
	name := s.alphas()
	if name == "" {
		return s.fail(context, start, "could not find expected directive name")
	}
	if !s.isBlankZ(0) {
		return s.fail(context, start, "found unexpected non-alphabetical character")
	}
	blanks := func() {
		for s.isBlank(0) {
			s.skip(1)
		}
	}
	t := yamlToken{start: start}
	switch name {
	case "YAML":
		t.kind = yamlVersionDirective
		const context = "while scanning a %YAML directive"
		blanks()
		number := func() (string, error) {
			from := s.at.index
			for c := s.peek(0); c >= '0' && c <= '9'; c = s.peek(0) {
				if s.at.index-from >= 9 {
					return "", s.fail(context, start, "found extremely long version number")
				}
				s.skip(1)
			}
			if s.at.index == from {
				return "", s.fail(context, start, "did not find expected version number")
			}
			return s.src[from:s.at.index], nil
		}
		major, err := number()
		if err != nil {
			return err
		}
		if s.peek(0) != '.' {
			return s.fail(context, start, "did not find expected digit or '.' character")
		}
		s.skip(1)
		minor, err := number()
		if err != nil {
			return err
		}
		t.text = major + "." + minor
	case "TAG":
		t.kind = yamlTagDirective
		const context = "while scanning a %TAG directive"
		blanks()
		var err error
		if t.handle, err = s.tagHandle(true, start); err != nil {
			return err
		}
		if !s.isBlank(0) {
			return s.fail(context, start, "did not find expected whitespace")
		}
		blanks()
		if t.text, err = s.tagURI(true, true, "", start); err != nil {
			return err
		}
		if !s.isBlankZ(0) {
			return s.fail(context, start, "did not find expected whitespace or line break")
		}
	default:
		return s.fail(context, start, "found unknown directive name")
	}
	t.end = s.at
	blanks()
	if s.peek(0) == '#' {
		s.skipTo(s.lineEnd())
	}
	if !s.isBreakZ() {
		return s.fail(context, start, "did not find expected comment or line break")
	}
	if s.isBreak(0) {
		s.skipBreak()
	}
	s.add(t)
	return nil
}
