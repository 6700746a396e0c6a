// Longer filters on texts: wrapping and links.
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
