// The lexer of the template engine: source text to tokens.
//
// The law of the jinja room: the engine knows templates, the value model and
// nothing else. What a program adds comes in through tables (filters, tests,
// globals, tags, a loader), so that the room could be a library of its own.
//
// The lexer is lazy: an error further down the source is found only when the
// parser gets there, so that of several errors the first one is reported.
package main

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// jinjaToken is one token; kind is the word that Jinja's messages use.
type jinjaToken struct {
	kind  string
	value string
	num   any // of integer and float tokens
	line  int
}

// jinjaSyntax are the delimiters and the rules for white space.
type jinjaSyntax struct {
	BlockStart, BlockEnd       string
	VariableStart, VariableEnd string
	CommentStart, CommentEnd   string
	LineStatementPrefix        string
	LineCommentPrefix          string
	TrimBlocks, LstripBlocks   bool
	KeepTrailingNewline        bool
	NewlineSequence            string
}

func defaultJinjaSyntax() jinjaSyntax {
	return jinjaSyntax{BlockStart: "{%", BlockEnd: "%}", VariableStart: "{{", VariableEnd: "}}",
		CommentStart: "{#", CommentEnd: "#}", NewlineSequence: "\n"}
}

type jinjaLexer struct {
	last         int // line of the last token: the end of a template has that line, too
	syn          *jinjaSyntax
	name         string
	src          string
	pos          int
	line         int
	state        string // root, or the kind of the token that opened the state
	balance      []byte // closing brackets that are due
	lineStarting bool
	queue        []jinjaToken
	starts       []jinjaStart
}

// jinjaStart is a delimiter that opens a state.
type jinjaStart struct {
	kind, text string
}

func newJinjaLexer(source, name string, syn *jinjaSyntax) *jinjaLexer {
	l := &jinjaLexer{syn: syn, name: name, line: 1, state: "root", lineStarting: true}
	if strings.IndexByte(source, '\r') >= 0 {
		source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	}
	if !syn.KeepTrailingNewline {
		source = strings.TrimSuffix(source, "\n")
	}
	l.src = source
	l.starts = []jinjaStart{{"comment_begin", syn.CommentStart}, {"block_begin", syn.BlockStart}, {"variable_begin", syn.VariableStart}}
	if syn.LineStatementPrefix != "" {
		l.starts = append(l.starts, jinjaStart{"linestatement_begin", syn.LineStatementPrefix})
	}
	if syn.LineCommentPrefix != "" {
		l.starts = append(l.starts, jinjaStart{"linecomment_begin", syn.LineCommentPrefix})
	}
	// the longest delimiter wins where several match
	for i := 1; i < len(l.starts); i++ {
		for j := i; j > 0; j-- {
			a, b := l.starts[j-1], l.starts[j]
			if len(a.text) > len(b.text) || len(a.text) == len(b.text) && a.kind > b.kind {
				break
			}
			l.starts[j-1], l.starts[j] = b, a
		}
	}
	return l
}

func (l *jinjaLexer) fail(format string, args ...any) error {
	return &JinjaError{Class: jinjaSyntaxErrorClass, Message: fmt.Sprintf(format, args...), Line: l.line, Template: l.name}
}

// next returns the next token that means something to the parser; at the end
// of the source it returns eof tokens for ever.
func (l *jinjaLexer) next() (jinjaToken, error) {
	for len(l.queue) == 0 {
		if l.pos >= len(l.src) && l.state != "linestatement_begin" {
			return jinjaToken{kind: "eof", line: max(l.last, 1)}, nil
		}
		done, err := l.step()
		if err != nil {
			return jinjaToken{}, err
		}
		if done {
			return jinjaToken{kind: "eof", line: max(l.last, 1)}, nil
		}
	}
	t := l.queue[0]
	l.queue = l.queue[1:]
	l.last = t.line
	return t, nil
}

func (l *jinjaLexer) emit(kind, value string) {
	l.queue = append(l.queue, jinjaToken{kind: kind, value: value, line: l.line})
}

// step reads one piece of the source. It says when nothing is left.
func (l *jinjaLexer) step() (done bool, err error) {
	switch l.state {
	case "root":
		return l.root()
	case "comment_begin":
		return false, l.comment()
	case "raw_begin":
		return false, l.raw()
	case "linecomment_begin":
		end := strings.IndexByte(l.src[l.pos:], '\n')
		if end < 0 {
			end = len(l.src) - l.pos
		}
		l.advance(end)
		l.state = "root"
		return false, nil
	}
	return l.code()
}

// advance moves on, counting lines.
func (l *jinjaLexer) advance(n int) {
	if n == 0 {
		return
	}
	s := l.src[l.pos : l.pos+n]
	l.line += strings.Count(s, "\n")
	l.lineStarting = s[len(s)-1] == '\n'
	l.pos += n
}

func (l *jinjaLexer) root() (bool, error) {
	at, kind, length, sign := l.findTag(l.pos)
	if at < 0 {
		text := l.src[l.pos:]
		if text != "" {
			l.emit("data", text)
		}
		l.advance(len(text))
		return l.pos >= len(l.src) && len(l.queue) == 0, nil
	}
	l.data(l.src[l.pos:at], sign, kind == "variable_begin")
	l.lineStarting = false
	l.pos = at
	switch kind {
	case "raw_begin", "comment_begin", "linecomment_begin":
	case "linestatement_begin":
		l.emit("block_begin", "")
	default:
		l.emit(kind, "")
	}
	l.advance(length)
	l.state = kind
	return false, nil
}

// data emits the text before a tag, stripped as the tag's sign says.
func (l *jinjaLexer) data(text string, sign byte, variable bool) {
	whole := text
	if sign == '-' {
		text = strings.TrimRightFunc(text, isPythonSpace)
	} else if sign != '+' && l.syn.LstripBlocks && !variable {
		from := strings.LastIndexByte(text, '\n') + 1
		if (from > 0 || l.lineStarting) && from < len(text) && strings.TrimFunc(text[from:], isPythonSpace) == "" {
			text = text[:from]
			l.emitData(text)
			l.line += strings.Count(text, "\n")
			return
		}
	}
	l.emitData(text)
	l.line += strings.Count(whole, "\n")
}

func (l *jinjaLexer) emitData(text string) {
	if text == "" {
		return
	}
	if l.syn.NewlineSequence != "\n" {
		text = strings.ReplaceAll(text, "\n", l.syn.NewlineSequence)
	}
	l.emit("data", text)
}

// isPythonSpace is str.isspace for one rune.
func isPythonSpace(r rune) bool {
	if r < 0x80 {
		return r == ' ' || r >= '\t' && r <= '\r' || r >= 0x1c && r <= 0x1f
	}
	return unicode.IsSpace(r)
}

func skipSpace(s string, i int) int {
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		if !isPythonSpace(r) {
			break
		}
		i += n
	}
	return i
}

// findTag looks for the next place where a tag opens: its position, its kind,
// how long the opening is, and the sign that controls white space.
func (l *jinjaLexer) findTag(from int) (at int, kind string, length int, sign byte) {
	lines := l.syn.LineStatementPrefix != "" || l.syn.LineCommentPrefix != ""
	for i := from; i < len(l.src); i++ {
		if !lines { // jump to the next byte that can open something
			n := strings.IndexByte(l.src[i:], l.syn.BlockStart[0])
			for _, s := range l.starts {
				if s.text[0] != l.syn.BlockStart[0] {
					if k := strings.IndexByte(l.src[i:], s.text[0]); k >= 0 && (n < 0 || k < n) {
						n = k
					}
				}
			}
			if n < 0 {
				return -1, "", 0, 0
			}
			i += n
		}
		rest := l.src[i:]
		if n, s := l.rawStart(rest); n > 0 {
			return i, "raw_begin", n, s
		}
		for _, s := range l.starts {
			n := 0
			switch s.kind {
			case "linestatement_begin":
				if i > 0 && l.src[i-1] != '\n' {
					continue
				}
				n = span(rest, " \t\v")
			case "linecomment_begin":
				if i > 0 && l.src[i-1] != '\n' {
					if r, _ := utf8.DecodeLastRuneInString(l.src[:i]); isPythonSpace(r) {
						continue
					}
				}
				n = span(rest, " \t\v\f")
			}
			if !strings.HasPrefix(rest[n:], s.text) {
				continue
			}
			n += len(s.text)
			var c byte
			if n < len(rest) && (rest[n] == '-' || rest[n] == '+') {
				c = rest[n]
				n++
			}
			return i, s.kind, n, c
		}
	}
	return -1, "", 0, 0
}

// rawStart matches {% raw %} and returns its length and sign.
func (l *jinjaLexer) rawStart(s string) (int, byte) {
	if !strings.HasPrefix(s, l.syn.BlockStart) {
		return 0, 0
	}
	i := len(l.syn.BlockStart)
	var sign byte
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		sign = s[i]
		i++
	}
	i = skipSpace(s, i)
	if !strings.HasPrefix(s[i:], "raw") {
		return 0, 0
	}
	i = skipSpace(s, i+3)
	if strings.HasPrefix(s[i:], "-"+l.syn.BlockEnd) {
		return skipSpace(s, i+1+len(l.syn.BlockEnd)), sign
	}
	if strings.HasPrefix(s[i:], l.syn.BlockEnd) {
		return i + len(l.syn.BlockEnd), sign
	}
	return 0, 0
}

// tagEnd matches the end of a tag at s, with its sign and what is stripped after
// it. plus says whether +%} is possible here.
func (l *jinjaLexer) tagEnd(s, end string, plus, trim bool) int {
	switch {
	case plus && strings.HasPrefix(s, "+"+end):
		return 1 + len(end)
	case strings.HasPrefix(s, "-"+end):
		return skipSpace(s, 1+len(end))
	case strings.HasPrefix(s, end):
		n := len(end)
		if trim && l.syn.TrimBlocks && n < len(s) && s[n] == '\n' {
			n++
		}
		return n
	}
	return 0
}

func (l *jinjaLexer) comment() error {
	for i := l.pos; i < len(l.src); i++ {
		if n := l.tagEnd(l.src[i:], l.syn.CommentEnd, true, true); n > 0 {
			l.advance(i + n - l.pos)
			l.state = "root"
			return nil
		}
	}
	return l.fail("Missing end of comment tag")
}

func (l *jinjaLexer) raw() error {
	for i := l.pos; i < len(l.src); i++ {
		s := l.src[i:]
		if !strings.HasPrefix(s, l.syn.BlockStart) {
			continue
		}
		k := len(l.syn.BlockStart)
		var sign byte
		if k < len(s) && (s[k] == '-' || s[k] == '+') {
			sign = s[k]
			k++
		}
		k = skipSpace(s, k)
		if !strings.HasPrefix(s[k:], "endraw") {
			continue
		}
		k = skipSpace(s, k+len("endraw"))
		n := l.tagEnd(s[k:], l.syn.BlockEnd, true, true)
		if n == 0 {
			continue
		}
		l.data(l.src[l.pos:i], sign, false)
		l.pos = i
		l.advance(k + n)
		l.state = "root"
		return nil
	}
	return l.fail("Missing end of raw directive")
}

// code reads one token inside a block, variable or line statement.
func (l *jinjaLexer) code() (bool, error) {
	s := l.src[l.pos:]
	if len(l.balance) == 0 {
		n, kind := 0, ""
		switch l.state {
		case "block_begin":
			n, kind = l.tagEnd(s, l.syn.BlockEnd, true, true), "block_end"
		case "variable_begin":
			n, kind = l.tagEnd(s, l.syn.VariableEnd, false, false), "variable_end"
		case "linestatement_begin":
			ws := skipSpace(l.src, l.pos) - l.pos
			if ws == len(s) {
				l.emit("block_end", "")
				l.advance(ws)
				l.state = "root"
				return false, nil
			}
			n, kind = strings.LastIndexByte(s[:ws], '\n')+1, "block_end"
		}
		if n > 0 {
			l.emit(kind, "")
			l.advance(n)
			l.state = "root"
			return false, nil
		}
	}
	if s == "" {
		return true, nil
	}
	if n := skipSpace(s, 0); n > 0 {
		l.advance(n)
		return false, nil
	}
	if s[0] >= '0' && s[0] <= '9' {
		return false, l.number(s)
	}
	if n := identifierLength(s); n > 0 {
		name := s[:n]
		if r, _ := utf8.DecodeRuneInString(name); unicode.IsDigit(r) || !isPythonIdentifier(name) {
			return false, l.fail("Invalid character in identifier")
		}
		l.emit("name", name)
		l.advance(n)
		return false, nil
	}
	if s[0] == '"' || s[0] == '\'' {
		if n := stringLength(s); n > 0 {
			literal := s[1 : n-1]
			if l.syn.NewlineSequence != "\n" {
				literal = strings.ReplaceAll(literal, "\n", l.syn.NewlineSequence)
			}
			text, err := unescapeJinja(literal)
			if err != nil {
				return false, l.fail("%s", err)
			}
			l.emit("string", text)
			l.advance(n)
			return false, nil
		}
	}
	if op, kind := jinjaOperator(s); op != "" {
		switch op[0] {
		case '{':
			l.balance = append(l.balance, '}')
		case '(':
			l.balance = append(l.balance, ')')
		case '[':
			l.balance = append(l.balance, ']')
		case '}', ')', ']':
			if len(l.balance) == 0 {
				return false, l.fail("unexpected '%s'", op)
			}
			want := l.balance[len(l.balance)-1]
			l.balance = l.balance[:len(l.balance)-1]
			if want != op[0] {
				return false, l.fail("unexpected '%s', expected '%c'", op, want)
			}
		}
		l.emit(kind, op)
		l.advance(len(op))
		return false, nil
	}
	r, _ := utf8.DecodeRuneInString(s)
	return false, l.fail("unexpected char %s at %d", Repr(string(r)), utf8.RuneCountInString(l.src[:l.pos]))
}

func jinjaOperator(s string) (op, kind string) {
	if len(s) >= 2 {
		switch s[:2] {
		case "//":
			return "//", "floordiv"
		case "**":
			return "**", "pow"
		case "==":
			return "==", "eq"
		case "!=":
			return "!=", "ne"
		case ">=":
			return ">=", "gteq"
		case "<=":
			return "<=", "lteq"
		}
	}
	switch s[0] {
	case '+':
		kind = "add"
	case '-':
		kind = "sub"
	case '/':
		kind = "div"
	case '*':
		kind = "mul"
	case '%':
		kind = "mod"
	case '~':
		kind = "tilde"
	case '[':
		kind = "lbracket"
	case ']':
		kind = "rbracket"
	case '(':
		kind = "lparen"
	case ')':
		kind = "rparen"
	case '{':
		kind = "lbrace"
	case '}':
		kind = "rbrace"
	case '>':
		kind = "gt"
	case '<':
		kind = "lt"
	case '=':
		kind = "assign"
	case '.':
		kind = "dot"
	case ':':
		kind = "colon"
	case '|':
		kind = "pipe"
	case ',':
		kind = "comma"
	case ';':
		kind = "semicolon"
	default:
		return "", ""
	}
	return s[:1], kind
}

func identifierLength(s string) int {
	for i, r := range s {
		if r == '_' || r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9') ||
			r >= 0x80 && (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Mc, r)) && r != utf8.RuneError {
			continue
		}
		return i
	}
	return len(s)
}

// isPythonIdentifier is str.isidentifier.
func isPythonIdentifier(s string) bool {
	for i, r := range s {
		if r == '_' || unicode.IsLetter(r) || unicode.Is(unicode.Nl, r) {
			continue
		}
		if i > 0 && (unicode.Is(unicode.Nd, r) || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Mc, r) || unicode.Is(unicode.Pc, r)) {
			continue
		}
		return false
	}
	return s != ""
}

// stringLength is how long the quoted string at s is, 0 if it does not end.
func stringLength(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return 0
}

// digitRun is the length of (\d+_)*\d+ at s.
func digitRun(s string) int {
	i := 0
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '_' && i > 0 && s[i-1] != '_' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9') {
		i++
	}
	return i
}

func (l *jinjaLexer) number(s string) error {
	if l.pos == 0 || l.src[l.pos-1] != '.' { // not the second part of a.1.2
		if n := digitRun(s); n > 0 {
			end, float := n, false
			if end+1 < len(s) && s[end] == '.' {
				if k := digitRun(s[end+1:]); k > 0 {
					end, float = end+1+k, true
				}
			}
			if end < len(s) && (s[end] == 'e' || s[end] == 'E') {
				k := end + 1
				if k < len(s) && (s[k] == '+' || s[k] == '-') {
					k++
				}
				if d := digitRun(s[min(k, len(s)):]); d > 0 {
					end, float = k+d, true
				}
			}
			if float {
				f, _ := strconv.ParseFloat(strings.ReplaceAll(s[:end], "_", ""), 64)
				l.queue = append(l.queue, jinjaToken{kind: "float", value: s[:end], num: f, line: l.line})
				l.advance(end)
				return nil
			}
		}
	}
	n := integerLength(s)
	i, ok := new(big.Int).SetString(strings.ReplaceAll(s[:n], "_", ""), 0)
	if !ok { // a row of zeros is octal to Go
		i, ok = new(big.Int).SetString(strings.ReplaceAll(s[:n], "_", ""), 10)
	}
	if !ok {
		return l.fail("invalid number %s", s[:n])
	}
	l.queue = append(l.queue, jinjaToken{kind: "integer", value: s[:n], num: normalInt(i), line: l.line})
	l.advance(n)
	return nil
}

func integerLength(s string) int {
	run := func(from int, digits string) int {
		i := from
		for i < len(s) {
			k := i
			if s[k] == '_' {
				k++
			}
			if k >= len(s) || strings.IndexByte(digits, s[k]) < 0 {
				break
			}
			i = k + 1
		}
		return i
	}
	if s[0] == '0' {
		if len(s) > 2 {
			digits := ""
			switch s[1] {
			case 'b', 'B':
				digits = "01"
			case 'o', 'O':
				digits = "01234567"
			case 'x', 'X':
				digits = "0123456789abcdefABCDEF"
			}
			if digits != "" {
				if n := run(2, digits); n > 2 {
					return n
				}
			}
		}
		return run(1, "0")
	}
	return run(1, decimalDigits)
}

// unescapeJinja decodes the escapes of a string as Python's unicode-escape does.
func unescapeJinja(s string) (string, error) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i >= len(s) {
			return "", fmt.Errorf(`\ at end of string`)
		}
		switch c := s[i]; c {
		case '\n':
		case '\\', '\'', '"':
			b.WriteByte(c)
		case 'a':
			b.WriteByte('\a')
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
		case 'v':
			b.WriteByte('\v')
		case 'x', 'u', 'U':
			digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			if i+1+digits > len(s) {
				return "", truncatedEscape(c)
			}
			v, err := strconv.ParseUint(s[i+1:i+1+digits], 16, 32)
			if err != nil {
				return "", truncatedEscape(c)
			}
			if v > unicode.MaxRune {
				return "", fmt.Errorf("illegal Unicode character")
			}
			b.WriteRune(rune(v))
			i += digits
		case 'N':
			return "", fmt.Errorf("unknown Unicode character name")
		case '0', '1', '2', '3', '4', '5', '6', '7':
			v := 0
			k := 0
			for ; k < 3 && i+k < len(s) && s[i+k] >= '0' && s[i+k] <= '7'; k++ {
				v = v*8 + int(s[i+k]-'0')
			}
			b.WriteRune(rune(v))
			i += k - 1
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

func truncatedEscape(c byte) error {
	switch c {
	case 'x':
		return fmt.Errorf(`truncated \xXX escape`)
	case 'u':
		return fmt.Errorf(`truncated \uXXXX escape`)
	}
	return fmt.Errorf(`truncated \UXXXXXXXX escape`)
}

// describeJinjaToken names a token as messages do.
func describeJinjaToken(t jinjaToken) string {
	if t.kind == "name" {
		return t.value
	}
	return describeJinjaKind(t.kind)
}

// describeJinjaExpr does so for an expectation like "name:endfor".
func describeJinjaExpr(expr string) string {
	kind, value, found := strings.Cut(expr, ":")
	if found && kind == "name" {
		return value
	}
	return describeJinjaKind(kind)
}

func describeJinjaKind(kind string) string {
	switch kind {
	case "comment_begin":
		return "begin of comment"
	case "comment_end":
		return "end of comment"
	case "comment", "linecomment":
		return "comment"
	case "block_begin":
		return "begin of statement block"
	case "block_end":
		return "end of statement block"
	case "variable_begin":
		return "begin of print statement"
	case "variable_end":
		return "end of print statement"
	case "data":
		return "template data / text"
	case "eof":
		return "end of template"
	}
	for _, op := range []string{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"} {
		if _, k := jinjaOperator(op); k == kind {
			return op
		}
	}
	return kind
}
