// Translation of Python's pattern syntax to that of Go's engine and to that of
// regexp2, with Python's words for what is wrong in a pattern.
package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// regexpTranslation is a pattern in both languages.
type regexpTranslation struct {
	re2, net     string
	groups       int
	names        map[string]int
	backtrack    bool // only regexp2 can do it
	dollar       bool // has a $ that also matches before a last line end
	wordBoundary bool
}

type regexpTranslator struct {
	src      string
	i        int
	flags    RegexpFlags
	re2, net strings.Builder
	out      regexpTranslation
	closed   map[int]bool // groups that can be referred to
	depth    int
}

// maxRegexpDepth bounds the nesting of groups.
const maxRegexpDepth = 200

func translateRegexp(pattern string, flags RegexpFlags) (regexpTranslation, error) {
	t := &regexpTranslator{src: pattern, flags: flags, closed: map[int]bool{}}
	t.out.names = map[string]int{}
	if err := t.globalFlags(); err != nil {
		return t.out, err
	}
	if err := t.alternatives(); err != nil {
		return t.out, err
	}
	if t.i < len(t.src) {
		return t.out, t.fail("unbalanced parenthesis", t.i)
	}
	t.out.re2, t.out.net = t.re2.String(), t.net.String()
	return t.out, nil
}

func (t *regexpTranslator) fail(problem string, at int) error { return regexpError(problem, t.src, at) }

func (t *regexpTranslator) both(s string) { t.re2.WriteString(s); t.net.WriteString(s) }

// globalFlags takes (?ims) at the start of the pattern.
func (t *regexpTranslator) globalFlags() error {
	for strings.HasPrefix(t.src[t.i:], "(?") {
		end := t.i + 2
		var add RegexpFlags
		for end < len(t.src) && strings.IndexByte("aiLmsux", t.src[end]) >= 0 {
			add |= regexpFlag(t.src[end])
			end++
		}
		if end == t.i+2 || end >= len(t.src) || t.src[end] != ')' {
			return nil
		}
		t.flags |= add
		t.i = end + 1
	}
	return nil
}

func regexpFlag(c byte) RegexpFlags {
	switch c {
	case 'i':
		return RegexpIgnoreCase
	case 'm':
		return RegexpMultiline
	case 's':
		return RegexpDotAll
	case 'x':
		return RegexpVerbose
	case 'a':
		return RegexpASCII
	}
	return 0
}

func (t *regexpTranslator) alternatives() error {
	if t.depth++; t.depth > maxRegexpDepth {
		return t.fail("too many nested groups", t.i)
	}
	defer func() { t.depth-- }()
	for {
		if err := t.sequence(); err != nil {
			return err
		}
		if t.i >= len(t.src) || t.src[t.i] != '|' {
			return nil
		}
		t.i++
		t.both("|")
	}
}

func (t *regexpTranslator) skipVerbose() {
	if t.flags&RegexpVerbose == 0 {
		return
	}
	for t.i < len(t.src) {
		switch c := t.src[t.i]; {
		case strings.IndexByte(" \t\n\r\f\v", c) >= 0:
			t.i++
		case c == '#':
			for t.i < len(t.src) && t.src[t.i] != '\n' {
				t.i++
			}
		default:
			return
		}
	}
}

// sequence reads items with their repetitions up to | or ).
func (t *regexpTranslator) sequence() error {
	for {
		t.skipVerbose()
		if t.i >= len(t.src) || t.src[t.i] == '|' || t.src[t.i] == ')' {
			return nil
		}
		from2, fromNet := t.re2.Len(), t.net.Len()
		repeatable, err := t.atom()
		if err != nil {
			return err
		}
		if err := t.repeat(from2, fromNet, repeatable); err != nil {
			return err
		}
	}
}

func (t *regexpTranslator) repeat(from2, fromNet int, repeatable bool) error {
	t.skipVerbose()
	if t.i >= len(t.src) {
		return nil
	}
	at := t.i
	var quant string
	switch c := t.src[t.i]; c {
	case '*', '+', '?':
		quant = string(c)
		t.i++
	case '{':
		lo, hi, n, ok := parseRegexpCount(t.src[t.i:])
		if !ok {
			return nil // a literal brace, the next item
		}
		if hi >= 0 && lo > hi {
			return t.fail("min repeat greater than max repeat", t.i+1)
		}
		switch {
		case hi < 0:
			quant = fmt.Sprintf("{%d,}", lo)
		case lo == hi:
			quant = fmt.Sprintf("{%d}", lo)
		default:
			quant = fmt.Sprintf("{%d,%d}", lo, hi)
		}
		if lo > 1000 || hi > 1000 {
			t.out.backtrack = true
		}
		t.i += n
	default:
		return nil
	}
	if !repeatable {
		return t.fail("nothing to repeat", at)
	}
	wrap := func(b *strings.Builder, from int, before, after string) {
		s := b.String()
		b.Reset()
		b.WriteString(s[:from] + before + s[from:] + after)
	}
	wrap(&t.re2, from2, "(?:", ")")
	wrap(&t.net, fromNet, "(?:", ")")
	if t.i < len(t.src) && t.src[t.i] == '?' {
		t.i++
		quant += "?"
		t.both(quant)
	} else if t.i < len(t.src) && t.src[t.i] == '+' {
		t.i++
		t.both(quant)
		t.out.backtrack = true
		wrap(&t.net, fromNet, "(?>", ")")
	} else {
		t.both(quant)
	}
	t.skipVerbose()
	if t.i < len(t.src) {
		again := strings.IndexByte("*+?", t.src[t.i]) >= 0
		if t.src[t.i] == '{' {
			_, _, _, again = parseRegexpCount(t.src[t.i:])
		}
		if again {
			return t.fail("multiple repeat", t.i)
		}
	}
	return nil
}

// parseRegexpCount reads {m}, {m,}, {,n}, {m,n}; hi is -1 for no limit.
func parseRegexpCount(s string) (lo, hi, n int, ok bool) {
	end := strings.IndexByte(s, '}')
	if end < 2 {
		return 0, 0, 0, false
	}
	a, b, comma := strings.Cut(s[1:end], ",")
	number := func(s string, def int) (int, bool) {
		if s == "" {
			return def, true
		}
		v, err := strconv.ParseUint(s, 10, 31)
		return int(v), err == nil
	}
	lo, ok1 := number(a, 0)
	if !comma {
		return lo, lo, end + 1, ok1 && a != ""
	}
	hi, ok2 := number(b, -1)
	return lo, hi, end + 1, ok1 && ok2
}

func quoteRegexpRune(r rune) string {
	if r < utf8.RuneSelf && !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' {
		if r < ' ' || r == 0x7f || r == ' ' || r == '#' {
			return fmt.Sprintf(`\x%02x`, r)
		}
		return `\` + string(r)
	}
	return string(r)
}

func (t *regexpTranslator) literal(r rune) {
	q := quoteRegexpRune(r)
	if t.flags&RegexpIgnoreCase != 0 && unicode.IsLetter(r) {
		t.both("(?i:" + q + ")")
		return
	}
	t.both(q)
}

// atom translates one item and says whether it may be repeated.
func (t *regexpTranslator) atom() (bool, error) {
	at := t.i
	r, n := utf8.DecodeRuneInString(t.src[t.i:])
	t.i += n
	switch r {
	case '.':
		if t.flags&RegexpDotAll != 0 {
			t.re2.WriteString("(?s:.)")
			t.net.WriteString("(?s:.)")
		} else {
			t.both(`[^\n]`)
		}
	case '^':
		if t.flags&RegexpMultiline != 0 {
			t.both("(?m:^)")
		} else {
			t.both(`\A`)
		}
	case '$':
		if t.flags&RegexpMultiline != 0 {
			t.re2.WriteString("(?m:$)")
			t.net.WriteString(`(?=\n|\z)`)
		} else {
			t.out.dollar = true
			t.re2.WriteString(`\z`)
			t.net.WriteString(`(?=\n?\z)`)
		}
	case '(':
		return t.group(at)
	case '[':
		return true, t.class(at)
	case '\\':
		return t.escape(at)
	case '*', '+', '?':
		return false, t.fail("nothing to repeat", at)
	case '{':
		if _, _, _, ok := parseRegexpCount(t.src[at:]); ok {
			return false, t.fail("nothing to repeat", at)
		}
		t.literal(r)
	default:
		t.literal(r)
	}
	return true, nil
}

// Classes by the letter after the backslash, as the content of a set.
func (t *regexpTranslator) shorthand(c byte) string {
	if t.flags&RegexpASCII != 0 {
		switch c {
		case 'd':
			return "0-9"
		case 'w':
			return "0-9A-Za-z_"
		}
		return `\t-\r\x20`
	}
	switch c {
	case 'd':
		return `\p{Nd}`
	case 'w':
		return `\p{L}\p{N}_`
	}
	return `\t-\r\x1c-\x20\x{85}\p{Z}`
}

// forNet brings the content of a set into regexp2's spelling.
func forNet(set string) string { return strings.ReplaceAll(set, `\x{85}`, `\x85`) }

func (t *regexpTranslator) escape(at int) (bool, error) {
	if t.i >= len(t.src) {
		return false, t.fail("bad escape (end of pattern)", at)
	}
	c := t.src[t.i]
	switch c {
	case 'd', 'w', 's':
		t.i++
		set := t.shorthand(c)
		t.re2.WriteString("[" + set + "]")
		t.net.WriteString("[" + forNet(set) + "]")
		return true, nil
	case 'D', 'W', 'S':
		t.i++
		set := t.shorthand(c + 'a' - 'A')
		t.re2.WriteString("[^" + set + "]")
		t.net.WriteString("[^" + forNet(set) + "]")
		return true, nil
	case 'b', 'B':
		t.i++
		t.out.wordBoundary = true
		t.both(`\` + string(c))
		return true, nil
	case 'A':
		t.i++
		t.both(`\A`)
		return true, nil
	case 'Z':
		t.i++
		t.both(`\z`)
		return true, nil
	}
	if c >= '1' && c <= '9' {
		n := int(c - '0')
		end := t.i + 1
		if end < len(t.src) && t.src[end] >= '0' && t.src[end] <= '9' {
			if c <= '3' && t.src[end] <= '7' && end+1 < len(t.src) && t.src[end+1] >= '0' && t.src[end+1] <= '7' {
				t.literal(rune(n*64 + int(t.src[end]-'0')*8 + int(t.src[end+1]-'0')))
				t.i = end + 2
				return true, nil
			}
			n = n*10 + int(t.src[end]-'0')
			end++
		}
		if n > t.out.groups {
			return false, t.fail(fmt.Sprintf("invalid group reference %d", n), at+1)
		}
		if !t.closed[n] {
			return false, t.fail("cannot refer to an open group", at)
		}
		t.i = end
		t.backReference(n)
		return true, nil
	}
	r, err := t.escapedRune(at)
	if err != nil {
		return false, err
	}
	t.literal(r)
	return true, nil
}

func (t *regexpTranslator) backReference(n int) {
	t.out.backtrack = true
	ref := fmt.Sprintf(`\k<%d>`, n)
	if t.flags&RegexpIgnoreCase != 0 {
		ref = "(?i:" + ref + ")"
	}
	t.net.WriteString(ref)
}

// escapedRune reads what follows a backslash, where it means one character.
func (t *regexpTranslator) escapedRune(at int) (rune, error) {
	r, n := utf8.DecodeRuneInString(t.src[t.i:])
	t.i += n
	hex := func(digits int) (rune, error) {
		end := t.i
		for end < len(t.src) && end < t.i+digits && strings.IndexByte("0123456789abcdefABCDEF", t.src[end]) >= 0 {
			end++
		}
		if end-t.i != digits {
			return 0, t.fail("incomplete escape "+t.src[at:end], at)
		}
		v, _ := strconv.ParseUint(t.src[t.i:end], 16, 32)
		t.i = end
		return rune(v), nil
	}
	switch r {
	case 'n':
		return '\n', nil
	case 't':
		return '\t', nil
	case 'r':
		return '\r', nil
	case 'f':
		return '\f', nil
	case 'v':
		return '\v', nil
	case 'a':
		return '\a', nil
	case 'x':
		return hex(2)
	case 'u':
		return hex(4)
	case 'U':
		return hex(8)
	case '0':
		v := 0
		for k := 0; k < 2 && t.i < len(t.src) && t.src[t.i] >= '0' && t.src[t.i] <= '7'; k++ {
			v = v*8 + int(t.src[t.i]-'0')
			t.i++
		}
		return rune(v), nil
	}
	if r < utf8.RuneSelf && (unicode.IsLetter(r)) {
		return 0, t.fail(`bad escape \`+string(r), at)
	}
	return r, nil
}

// class translates a set in brackets; the bracket itself was read.
func (t *regexpTranslator) class(at int) error {
	negated := false
	if t.i < len(t.src) && t.src[t.i] == '^' {
		negated = true
		t.i++
	}
	var set strings.Builder
	var complements []byte // \W, \D, \S in the set
	ranged := func(lo, hi rune) {
		set.WriteString(quoteRegexpRune(lo))
		if hi != lo {
			set.WriteByte('-')
			set.WriteString(quoteRegexpRune(hi))
		}
	}
	// item reads one member: a rune, or a class of its own (second result).
	item := func() (rune, bool, error) {
		from := t.i
		r, n := utf8.DecodeRuneInString(t.src[t.i:])
		t.i += n
		if r != '\\' {
			return r, false, nil
		}
		if t.i >= len(t.src) {
			return 0, false, t.fail("bad escape (end of pattern)", from)
		}
		switch c := t.src[t.i]; c {
		case 'd', 'w', 's':
			t.i++
			set.WriteString(t.shorthand(c))
			return 0, true, nil
		case 'D', 'W', 'S':
			t.i++
			if c == 'D' {
				if t.flags&RegexpASCII != 0 {
					set.WriteString(`\x00-/:-\x{10ffff}`)
				} else {
					set.WriteString(`\P{Nd}`)
				}
			} else {
				complements = append(complements, c+'a'-'A')
			}
			return 0, true, nil
		case 'b':
			t.i++
			return '\b', false, nil
		case '1', '2', '3', '4', '5', '6', '7':
			v, k := 0, 0
			for ; k < 3 && t.i < len(t.src) && t.src[t.i] >= '0' && t.src[t.i] <= '7'; k++ {
				v = v*8 + int(t.src[t.i]-'0')
				t.i++
			}
			return rune(v), false, nil
		}
		r, err := t.escapedRune(from)
		return r, false, err
	}
	for first := true; ; first = false {
		if t.i >= len(t.src) {
			return t.fail("unterminated character set", at)
		}
		if t.src[t.i] == ']' && !first {
			t.i++
			break
		}
		from := t.i
		lo, isClass, err := item()
		if err != nil {
			return err
		}
		if t.i+1 < len(t.src) && t.src[t.i] == '-' && t.src[t.i+1] != ']' {
			t.i++
			hi, hiClass, err := item()
			if err != nil {
				return err
			}
			if isClass || hiClass || lo > hi {
				return t.fail("bad character range "+t.src[from:t.i], from)
			}
			ranged(lo, hi)
			continue
		}
		if !isClass {
			ranged(lo, lo)
		}
	}
	fold := ""
	if t.flags&RegexpIgnoreCase != 0 {
		fold = "i"
	}
	content := set.String()
	if len(complements) == 0 {
		not := ""
		if negated {
			not = "^"
		}
		t.re2.WriteString("(?" + fold + ":[" + not + content + "])")
		t.net.WriteString("(?" + fold + ":[" + not + forNet(content) + "])")
		return nil
	}
	// A complement inside a set: one of several sets instead; when the set is
	// negated, none of them.
	var choices []string
	if content != "" {
		choices = append(choices, "["+content+"]")
	}
	for _, c := range complements {
		choices = append(choices, "[^"+t.shorthand(c)+"]")
	}
	union := "(?" + fold + ":" + strings.Join(choices, "|") + ")"
	if negated {
		t.out.backtrack = true
		t.net.WriteString("(?:(?!" + forNet(union) + ")(?s:.))")
		return nil
	}
	t.re2.WriteString(union)
	t.net.WriteString(forNet(union))
	return nil
}

// group translates what starts with a parenthesis; at is its place.
func (t *regexpTranslator) group(at int) (bool, error) {
	outer := t.flags
	finish := func(restore bool) error {
		if t.i >= len(t.src) {
			return t.fail("missing ), unterminated subpattern", at)
		}
		t.i++ // the )
		t.both(")")
		if restore {
			t.flags = outer
		}
		return nil
	}
	capture := func(name string) (bool, error) {
		t.out.groups++
		n := t.out.groups
		if name != "" {
			if _, ok := t.out.names[name]; ok {
				return false, t.fail(fmt.Sprintf("redefinition of group name %s as group %d; was group %d", Repr(name), n, t.out.names[name]), at+4)
			}
			t.out.names[name] = n
		}
		t.re2.WriteString("(")
		fmt.Fprintf(&t.net, "(?<%d>", n)
		if err := t.alternatives(); err != nil {
			return false, err
		}
		t.closed[n] = true
		return true, finish(true)
	}
	open := func(re2, net string, backtrack bool) (bool, error) {
		t.out.backtrack = t.out.backtrack || backtrack
		t.re2.WriteString(re2)
		t.net.WriteString(net)
		if err := t.alternatives(); err != nil {
			return false, err
		}
		return true, finish(true)
	}
	rest := t.src[t.i:]
	if !strings.HasPrefix(rest, "?") {
		return capture("")
	}
	name := func(from int, end byte) (string, error) {
		k := strings.IndexByte(t.src[from:], end)
		if k < 0 {
			return "", t.fail("missing "+string(end)+", unterminated name", from)
		}
		if k == 0 {
			return "", t.fail("missing group name", from)
		}
		id := t.src[from : from+k]
		for j, r := range id {
			if !(r == '_' || unicode.IsLetter(r) || j > 0 && unicode.IsDigit(r)) {
				if end == ')' && j == 0 && isDigits(id) {
					break
				}
				return "", t.fail(fmt.Sprintf("bad character in group name %s", Repr(id)), from)
			}
		}
		t.i = from + k + 1
		return id, nil
	}
	switch {
	case strings.HasPrefix(rest, "?P<"):
		id, err := name(t.i+3, '>')
		if err != nil {
			return false, err
		}
		return capture(id)
	case strings.HasPrefix(rest, "?P="):
		from := t.i + 3
		id, err := name(from, ')')
		if err != nil {
			return false, err
		}
		n, ok := t.out.names[id]
		if !ok {
			return false, t.fail("unknown group name "+Repr(id), from)
		}
		if !t.closed[n] {
			return false, t.fail("cannot refer to an open group", from)
		}
		t.backReference(n)
		return true, nil
	case strings.HasPrefix(rest, "?P"):
		what := rest
		if len(rest) > 2 {
			what = rest[:3]
			return false, t.fail("unknown extension "+what, at+1)
		}
		return false, t.fail("unexpected end of pattern", len(t.src))
	case strings.HasPrefix(rest, "?:"):
		t.i += 2
		return open("(?:", "(?:", false)
	case strings.HasPrefix(rest, "?#"):
		end := strings.IndexByte(t.src[t.i:], ')')
		if end < 0 {
			return false, t.fail("missing ), unterminated comment", at)
		}
		t.i += end + 1
		return false, nil
	case strings.HasPrefix(rest, "?="), strings.HasPrefix(rest, "?!"), strings.HasPrefix(rest, "?>"):
		t.i += 2
		return open("(?:", "("+rest[:2], true)
	case strings.HasPrefix(rest, "?<="), strings.HasPrefix(rest, "?<!"):
		t.i += 3
		return open("(?:", "("+rest[:3], true)
	case strings.HasPrefix(rest, "?<"):
		if len(rest) == 2 {
			return false, t.fail("unexpected end of pattern", len(t.src))
		}
		return false, t.fail("unknown extension "+rest[:3], at+1)
	case strings.HasPrefix(rest, "?("):
		from := t.i + 2
		id, err := name(from, ')')
		if err != nil {
			return false, err
		}
		n, ok := t.out.names[id]
		if !ok {
			if n, err = strconv.Atoi(id); err != nil {
				return false, t.fail("unknown group name "+Repr(id), from)
			}
			if n == 0 {
				return false, t.fail("bad group number", from)
			}
			if n > t.out.groups {
				return false, t.fail(fmt.Sprintf("invalid group reference %d", n), from)
			}
		}
		return open("(?:", fmt.Sprintf("(?(%d)", n), true)
	}
	// flags: (?i), (?i:…), (?-i:…)
	i := t.i + 1
	var on, off RegexpFlags
	minus := false
	for i < len(t.src) && (strings.IndexByte("aiLmsux-", t.src[i]) >= 0) {
		if t.src[i] == '-' {
			if minus {
				break
			}
			minus = true
		} else if minus {
			off |= regexpFlag(t.src[i])
		} else {
			on |= regexpFlag(t.src[i])
		}
		i++
	}
	if i >= len(t.src) {
		if i == t.i+1 {
			return false, t.fail("unexpected end of pattern", i)
		}
		return false, t.fail("missing -, : or )", i)
	}
	switch {
	case i == t.i+1:
		_, n := utf8.DecodeRuneInString(t.src[i:])
		return false, t.fail("unknown extension ?"+t.src[i:i+n], at+1)
	case t.src[i] == ')' && !minus:
		return false, t.fail("global flags not at the start of the expression", at)
	case t.src[i] == ':':
		t.i = i + 1
		t.flags = t.flags&^off | on
		return open("(?:", "(?:", false)
	}
	return false, t.fail("unknown flag", i)
}

func isDigits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
