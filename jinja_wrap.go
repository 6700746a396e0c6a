// Longer filters on texts: wrapping, links, and the layout of pprint.
package main

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

func filterWordwrap(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	s, err := strArg(v, "expected string, got ")
	if err != nil {
		return nil, err
	}
	width, err := intArg(a[0])
	if err != nil {
		return nil, err
	}
	if width <= 0 {
		return nil, jinjaValueError("invalid width %d (must be > 0)", width)
	}
	breakLong, err := r.truth(a[1])
	if err != nil {
		return nil, err
	}
	sep := r.Env.Syntax.NewlineSequence
	if a[2] != nil {
		if sep, err = r.str(a[2]); err != nil {
			return nil, err
		}
	}
	hyphens, err := r.truth(a[3])
	if err != nil {
		return nil, err
	}
	lines := splitLines(s, false)
	for i, line := range lines {
		lines[i] = strings.Join(jinjaWrapText(line, int(width), breakLong, hyphens), sep)
	}
	return strings.Join(lines, sep), nil
}

// jinjaWrapChunks splits a line into words, white space, and where hyphens may break
// the pieces of words.
func jinjaWrapChunks(s string, hyphens bool) []string {
	var out []string
	for s != "" {
		blank := func(r rune) bool { return strings.ContainsRune("\t\n\v\f\r ", r) }
		r, _ := utf8.DecodeRuneInString(s)
		end := strings.IndexFunc(s, func(x rune) bool { return blank(x) != blank(r) })
		if end < 0 {
			end = len(s)
		}
		word := s[:end]
		s = s[end:]
		if blank(r) || !hyphens {
			out = append(out, word)
			continue
		}
		out = append(out, splitHyphens(word)...)
	}
	return out
}

func splitHyphens(word string) []string {
	letter := func(r rune) bool { return r == '_' || unicode.IsLetter(r) }
	rs := []rune(word)
	var out []string
	start := 0
	for i := 1; i+1 < len(rs); i++ {
		if rs[i] != '-' {
			continue
		}
		// a hyphen between letters, with two letters or so on both sides
		if i-start >= 2 && letter(rs[i-1]) && letter(rs[i-2]) && i+2 < len(rs) && letter(rs[i+1]) && letter(rs[i+2]) {
			out = append(out, string(rs[start:i+1]))
			start = i + 1
		} else if rs[i+1] == '-' && i+2 < len(rs) && rs[i+2] != '-' && letter(rs[i+2]) && letter(rs[i-1]) {
			out = append(out, string(rs[start:i]), "--")
			start = i + 2
			i++
		}
	}
	return append(out, string(rs[start:]))
}

// jinjaWrapText is textwrap.wrap for one paragraph.
func jinjaWrapText(s string, width int, breakLong, hyphens bool) []string {
	chunks := jinjaWrapChunks(s, hyphens)
	var lines []string
	length := utf8.RuneCountInString
	blank := func(s string) bool { return strings.TrimFunc(s, isPythonSpace) == "" }
	for len(chunks) > 0 {
		var cur []string
		n := 0
		if blank(chunks[0]) && len(lines) > 0 {
			chunks = chunks[1:]
			if len(chunks) == 0 {
				break
			}
		}
		for len(chunks) > 0 && n+length(chunks[0]) <= width {
			n += length(chunks[0])
			cur = append(cur, chunks[0])
			chunks = chunks[1:]
		}
		if len(chunks) > 0 && length(chunks[0]) > width {
			if breakLong {
				space := max(width-n, 1)
				rs := []rune(chunks[0])
				end := space
				if hyphens && len(rs) > space {
					for k := space - 1; k > 0; k-- {
						if rs[k] == '-' && strings.Trim(string(rs[:k]), "-") != "" {
							end = k + 1
							break
						}
					}
				}
				cur = append(cur, string(rs[:end]))
				chunks[0] = string(rs[end:])
			} else if len(cur) == 0 {
				cur = append(cur, chunks[0])
				chunks = chunks[1:]
			}
		}
		if len(cur) > 0 && blank(cur[len(cur)-1]) {
			cur = cur[:len(cur)-1]
		}
		if len(cur) > 0 {
			lines = append(lines, strings.Join(cur, ""))
		}
	}
	return lines
}

// filterUrlize makes links of web and mail addresses.
func filterUrlize(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	s, err := r.str(v)
	if err != nil {
		return nil, err
	}
	limit := int64(-1)
	if a[0] != nil {
		if limit, err = intArg(a[0]); err != nil {
			return nil, err
		}
	}
	rels := map[string]bool{"noopener": true}
	if a[3] != nil {
		for _, part := range splitSpace(Str(a[3]), -1) {
			rels[part] = true
		}
	}
	if yes, err := r.truth(a[1]); err != nil {
		return nil, err
	} else if yes {
		rels["nofollow"] = true
	}
	names := make([]string, 0, len(rels))
	for name := range rels {
		names = append(names, name)
	}
	sort.Strings(names)
	attrs := ` rel="` + escapeHTML(strings.Join(names, " ")) + `"`
	target := ""
	if a[2] != nil {
		target = ` target="` + escapeHTML(Str(a[2])) + `"`
	}
	var schemes []any
	if a[4] != nil {
		if schemes, err = r.items(a[4]); err != nil {
			return nil, err
		}
	}
	var b strings.Builder
	for s != "" {
		n := strings.IndexFunc(s, isPythonSpace)
		if n == 0 {
			n = strings.IndexFunc(s, func(r rune) bool { return !isPythonSpace(r) })
			if n < 0 {
				n = len(s)
			}
			b.WriteString(s[:n])
			s = s[n:]
			continue
		}
		if n < 0 {
			n = len(s)
		}
		b.WriteString(linkWord(escapeHTML(s[:n]), limit, attrs, target, schemes))
		s = s[n:]
	}
	return r.safe(b.String()), nil
}

func linkWord(word string, limit int64, attrs, target string, schemes []any) string {
	head, tail := "", ""
	for trimmed := true; trimmed; {
		trimmed = false
		for _, open := range []string{"(", "<", "&lt;"} {
			if strings.HasPrefix(word, open) {
				head, word, trimmed = head+open, word[len(open):], true
			}
		}
	}
	for trimmed := true; trimmed; {
		trimmed = false
		for _, end := range []string{")", ">", ".", ",", "\n", "&gt;"} {
			if !strings.HasSuffix(word, end) {
				continue
			}
			if end == ")" && strings.Count(word, "(") >= strings.Count(word, ")") {
				continue
			}
			tail, word, trimmed = end+tail, word[:len(word)-len(end)], true
		}
	}
	short := func(s string) string {
		if rs := []rune(s); limit >= 0 && int64(len(rs)) > limit {
			return string(rs[:limit]) + "..."
		}
		return s
	}
	link := word
	switch {
	case strings.HasPrefix(word, "http://"), strings.HasPrefix(word, "https://"):
		if len(word) > len("https://") {
			link = `<a href="` + word + `"` + attrs + target + `>` + short(word) + `</a>`
		}
	case isBareHost(word):
		link = `<a href="https://` + word + `"` + attrs + target + `>` + short(word) + `</a>`
	case strings.HasPrefix(word, "mailto:") && isMailAddress(word[7:]):
		link = `<a href="` + word + `">` + word[7:] + `</a>`
	case isMailAddress(word) && !strings.HasPrefix(word, "www."):
		link = `<a href="mailto:` + word + `">` + word + `</a>`
	default:
		for _, scheme := range schemes {
			if s := Str(scheme); s != word && strings.HasPrefix(word, s) {
				link = `<a href="` + word + `"` + attrs + target + `>` + word + `</a>`
			}
		}
	}
	return head + link + tail
}

// isBareHost says whether a word without a scheme is a web address.
func isBareHost(s string) bool {
	host, _, _ := strings.Cut(s, "/")
	host, _, _ = strings.Cut(host, ":")
	if strings.Contains(host, "@") {
		return false
	}
	if rest, ok := strings.CutPrefix(host, "www."); ok {
		return rest != "" && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") == ""
	}
	for _, tld := range []string{".com", ".net", ".org", ".int", ".edu", ".gov", ".mil", ".info"} {
		if name, ok := strings.CutSuffix(host, tld); ok && name != "" {
			return strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") == ""
		}
	}
	return false
}

func isMailAddress(s string) bool {
	user, host, ok := strings.Cut(s, "@")
	if !ok || user == "" || strings.Contains(host, "@") {
		return false
	}
	dot := strings.LastIndexByte(host, '.')
	return dot > 0 && dot < len(host)-1 && !strings.ContainsAny(s, " :/")
}

// prettyPython is pprint.pformat with its usual width of 80.
func prettyPython(v any) string {
	p := prettyPrinter{width: 80}
	p.format(v, 0, 0, nil)
	return p.b.String()
}

type prettyPrinter struct {
	b     strings.Builder
	width int
}

// sortedForPrint sorts keys as pprint does: by value, or by type where values
// have no order.
func sortedForPrint(keys []any) []any {
	out := append([]any(nil), keys...)
	sort.SliceStable(out, func(i, j int) bool {
		c, err := Compare(out[i], out[j])
		if err != nil {
			return TypeName(out[i]) < TypeName(out[j])
		}
		return c < 0
	})
	return out
}

// prettyRepr is the repr with sorted keys.
func prettyRepr(v any, depth int) string {
	if depth > maxReprDepth {
		return "..."
	}
	switch v := v.(type) {
	case *Map:
		var parts []string
		for _, k := range sortedForPrint(v.Keys()) {
			parts = append(parts, prettyRepr(k, depth+1)+": "+prettyRepr(v.Value(k), depth+1))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case *List:
		var parts []string
		for _, item := range v.Items {
			parts = append(parts, prettyRepr(item, depth+1))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case Tuple:
		var parts []string
		for _, item := range v {
			parts = append(parts, prettyRepr(item, depth+1))
		}
		if len(v) == 1 {
			return "(" + parts[0] + ",)"
		}
		return "(" + strings.Join(parts, ", ") + ")"
	}
	return Repr(v)
}

func (p *prettyPrinter) format(v any, indent, allowance int, outer *reprPath) {
	rep := prettyRepr(v, 0)
	room := p.width - indent - allowance
	if utf8.RuneCountInString(rep) <= room {
		p.b.WriteString(rep)
		return
	}
	path, ok := outer.enter(identityOf(v))
	if !ok {
		p.b.WriteString(rep)
		return
	}
	items := func(open, close string, items []any, one func(item any, indent, allowance int)) {
		p.b.WriteString(open)
		indent++
		for i, item := range items {
			if i > 0 {
				p.b.WriteString(",\n" + strings.Repeat(" ", indent))
			}
			rest := 1
			if i == len(items)-1 {
				rest = allowance + len(close)
			}
			one(item, indent, rest)
		}
		p.b.WriteString(close)
	}
	plain := func(item any, indent, allowance int) { p.format(item, indent, allowance, path) }
	switch v := v.(type) {
	case *Map:
		items("{", "}", sortedForPrint(v.Keys()), func(k any, indent, allowance int) {
			key := prettyRepr(k, 0)
			p.b.WriteString(key + ": ")
			p.format(v.Value(k), indent+utf8.RuneCountInString(key)+2, allowance, path)
		})
	case *List:
		items("[", "]", v.Items, plain)
	case Tuple:
		end := ")"
		if len(v) == 1 {
			end = ",)"
		}
		items("(", end, v, plain)
	case string:
		p.text(v, indent, allowance, outer == nil)
	default:
		p.b.WriteString(rep)
	}
}

func identityOf(v any) any {
	switch v.(type) {
	case *Map, *List:
		return v
	}
	return new(byte)
}

// text breaks a long text at spaces into several literals.
func (p *prettyPrinter) text(s string, indent, allowance int, top bool) {
	if s == "" {
		p.b.WriteString("''")
		return
	}
	if top {
		indent++
		allowance++
	}
	var chunks []string
	lines := splitLines(s, true)
	for i, line := range lines {
		rep := Repr(line)
		room := p.width - indent
		if i == len(lines)-1 {
			room -= allowance
		}
		if utf8.RuneCountInString(rep) <= room {
			chunks = append(chunks, rep)
			continue
		}
		var parts []string // words with the space behind them
		for rest := line; rest != ""; {
			end := strings.IndexFunc(rest, isPythonSpace)
			if end < 0 {
				parts = append(parts, rest)
				break
			}
			for end < len(rest) {
				r, n := utf8.DecodeRuneInString(rest[end:])
				if !isPythonSpace(r) {
					break
				}
				end += n
			}
			parts = append(parts, rest[:end])
			rest = rest[end:]
		}
		room2 := p.width - indent
		cur := ""
		for j, part := range parts {
			candidate := cur + part
			if j == len(parts)-1 && i == len(lines)-1 {
				room2 -= allowance
			}
			if utf8.RuneCountInString(Repr(candidate)) > room2 {
				if cur != "" {
					chunks = append(chunks, Repr(cur))
				}
				cur = part
			} else {
				cur = candidate
			}
		}
		if cur != "" {
			chunks = append(chunks, Repr(cur))
		}
	}
	if len(chunks) == 1 {
		p.b.WriteString(Repr(s))
		return
	}
	if top {
		p.b.WriteByte('(')
	}
	for i, c := range chunks {
		if i > 0 {
			p.b.WriteString("\n" + strings.Repeat(" ", indent))
		}
		p.b.WriteString(c)
	}
	if top {
		p.b.WriteByte(')')
	}
}
