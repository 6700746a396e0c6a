// Python's methods of texts.
package main

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// textMethod makes an entry; the result is of the kind of the text (plain or
// safe) when it is a text.
func textMethod(name, sig string, fn func(r *JinjaRun, s string, a []any) (any, error)) *JinjaFilter {
	return jinjaMethod("str."+name, sig, func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
		s, _ := textOf(v)
		out, err := fn(r, s, a)
		if _, safe := v.(Markup); safe && err == nil {
			out = markAll(out)
		}
		return out, err
	})
}

// atLeast marks a method whose error about missing arguments is worded in
// Python's newer way.
func atLeast(f *JinjaFilter) *JinjaFilter {
	f.style = 'd'
	return f
}

func markAll(v any) any {
	switch v := v.(type) {
	case string:
		return Markup(v)
	case *List:
		for i := range v.Items {
			v.Items[i] = markAll(v.Items[i])
		}
	case Tuple:
		for i := range v {
			v[i] = markAll(v[i])
		}
	}
	return v
}

// simpleText is a method without arguments.
func simpleText(name string, fn func(s string) any) *JinjaFilter {
	return textMethod(name, "", func(_ *JinjaRun, s string, _ []any) (any, error) { return fn(s), nil })
}

// everyRune says whether s has runes and all of them pass.
func everyRune(s string, ok func(r rune) bool) bool {
	for _, r := range s {
		if !ok(r) {
			return false
		}
	}
	return s != ""
}

func pythonUpper(s string) string {
	s = strings.ToUpper(s)
	if strings.ContainsRune(s, 'ß') {
		s = strings.ReplaceAll(s, "ß", "SS")
	}
	return s
}

func pythonCapitalize(s string) string {
	if s == "" {
		return s
	}
	r, n := utf8.DecodeRuneInString(s)
	head := string(unicode.ToTitle(r))
	if r == 'ß' {
		head = "Ss"
	}
	return head + strings.ToLower(s[n:])
}

func pythonTitle(s string) string {
	var b strings.Builder
	inWord := false
	for _, r := range s {
		cased := unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r)
		switch {
		case cased && inWord:
			b.WriteRune(unicode.ToLower(r))
		case cased:
			b.WriteRune(unicode.ToTitle(r))
		default:
			b.WriteRune(r)
		}
		inWord = cased
	}
	return b.String()
}

func isTitled(s string) bool {
	inWord, any := false, false
	for _, r := range s {
		switch {
		case unicode.IsUpper(r) || unicode.IsTitle(r):
			if inWord {
				return false
			}
			inWord, any = true, true
		case unicode.IsLower(r):
			if !inWord {
				return false
			}
		default:
			inWord = false
		}
	}
	return any
}

func isCase(s string, want, other func(rune) bool) bool {
	found := false
	for _, r := range s {
		if other(r) || unicode.IsTitle(r) {
			return false
		}
		found = found || want(r)
	}
	return found
}

// isLineBreak is what splitlines splits at.
func isLineBreak(r rune) bool {
	return r >= '\n' && r <= '\r' || r >= 0x1c && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
}

func splitLines(s string, keep bool) []string {
	var out []string
	start := 0
	for i, r := range s {
		if i < start || !isLineBreak(r) {
			continue
		}
		end := i + utf8.RuneLen(r)
		if r == '\r' && strings.HasPrefix(s[i:], "\r\n") {
			end = i + 2
		}
		if keep {
			out = append(out, s[start:end])
		} else {
			out = append(out, s[start:i])
		}
		start = end
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}

func toList(parts []string) *List { return Strings(parts) }

// splitSpace is split() without a separator.
func splitSpace(s string, max int64) []string {
	parts := []string{}
	for {
		s = strings.TrimLeftFunc(s, isPythonSpace)
		if s == "" {
			return parts
		}
		if max >= 0 && int64(len(parts)) >= max {
			return append(parts, s)
		}
		end := strings.IndexFunc(s, isPythonSpace)
		if end < 0 {
			return append(parts, s)
		}
		parts = append(parts, s[:end])
		s = s[end:]
	}
}

func rsplitSpace(s string, max int64) []string {
	var parts []string
	for {
		s = strings.TrimRightFunc(s, isPythonSpace)
		if s == "" {
			break
		}
		if max >= 0 && int64(len(parts)) >= max {
			parts = append(parts, s)
			break
		}
		at := strings.LastIndexFunc(s, isPythonSpace)
		if at < 0 {
			parts = append(parts, s)
			break
		}
		_, n := utf8.DecodeRuneInString(s[at:])
		parts = append(parts, s[at+n:])
		s = s[:at]
	}
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return parts
}

func splitText(s string, a []any, right bool) (any, error) {
	max, err := intArg(a[1])
	if err != nil {
		return nil, err
	}
	if a[0] == nil {
		if right {
			return toList(rsplitSpace(s, max)), nil
		}
		return toList(splitSpace(s, max)), nil
	}
	sep, err := strArg(a[0], "must be str or None, not ")
	if err != nil {
		return nil, err
	}
	if sep == "" {
		return nil, jinjaValueError("empty separator")
	}
	if max < 0 {
		return toList(strings.Split(s, sep)), nil
	}
	if !right {
		return toList(strings.SplitN(s, sep, int(min(max, 1<<30))+1)), nil
	}
	var parts []string
	for int64(len(parts)) < max {
		at := strings.LastIndex(s, sep)
		if at < 0 {
			break
		}
		parts = append(parts, s[at+len(sep):])
		s = s[:at]
	}
	parts = append(parts, s)
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return toList(parts), nil
}

// textRange cuts s to [start, stop) in runes and says how many runes and bytes
// were before.
func textRange(s string, start, stop any) (part string, before int, ok bool, err error) {
	n := int64(utf8.RuneCountInString(s))
	lo, hi := int64(0), n
	for i, v := range []any{start, stop} {
		if v == nil {
			continue
		}
		k, isInt := indexOf(v)
		if !isInt {
			return "", 0, false, jinjaTypeError("slice indices must be integers or None or have an __index__ method")
		}
		if k < 0 {
			k = max(k+n, 0)
		}
		if i == 0 {
			lo = k
		} else {
			hi = min(k, n)
		}
	}
	if lo > hi {
		return "", 0, false, nil
	}
	if int64(len(s)) == n {
		return s[lo:hi], int(lo), true, nil
	}
	rs := []rune(s)
	return string(rs[lo:hi]), int(lo), true, nil
}

func findText(s string, a []any, last bool) (int64, error) {
	sub, err := strArg(a[0], "must be str, not ")
	if err != nil {
		return 0, err
	}
	part, before, ok, err := textRange(s, a[1], a[2])
	if err != nil || !ok {
		return -1, err
	}
	at := strings.Index(part, sub)
	if last {
		at = strings.LastIndex(part, sub)
	}
	if at < 0 {
		return -1, nil
	}
	return int64(before + utf8.RuneCountInString(part[:at])), nil
}

// affix is startswith and endswith.
func affix(name string, has func(s, fix string) bool) *JinjaFilter {
	return atLeast(textMethod(name, "prefix, start=None, end=None", func(_ *JinjaRun, s string, a []any) (any, error) {
		part, _, ok, err := textRange(s, a[1], a[2])
		if err != nil {
			return nil, err
		}
		options := []any{a[0]}
		if t, isTuple := a[0].(Tuple); isTuple {
			options = t
		}
		for _, o := range options {
			fix, isText := textOf(o)
			if !isText {
				if u, ok := o.(*JinjaUndefined); ok && u.Kind == JinjaStrict {
					return nil, jinjaTypeError("%s first arg must be str or a tuple of str, not %s", name, TypeName(o))
				}
				return nil, jinjaTypeError("%s first arg must be str or a tuple of str, not %s", name, TypeName(o))
			}
			if ok && has(part, fix) {
				return true, nil
			}
		}
		return false, nil
	}))
}

// pad is center, ljust and rjust; side says where the text goes.
func padText(s string, width int64, fill string, side byte, limit int) (string, error) {
	n := int64(utf8.RuneCountInString(s))
	if width <= n {
		return s, nil
	}
	if width > int64(limit) {
		return "", jinjaErr("MemoryError", "the text is larger than %d bytes", limit)
	}
	total := int(width - n)
	left := 0
	switch side {
	case '>':
		left = total
	case '^':
		left = total/2 + total&int(width)&1
	}
	return strings.Repeat(fill, left) + s + strings.Repeat(fill, total-left), nil
}

func justify(name string, side byte) *JinjaFilter {
	return textMethod(name, "width, fillchar=' '", func(r *JinjaRun, s string, a []any) (any, error) {
		width, err := intArg(a[0])
		if err != nil {
			return nil, err
		}
		fill, err := strArg(a[1], "The fill character must be a unicode character, not ")
		if err != nil {
			return nil, err
		}
		if utf8.RuneCountInString(fill) != 1 {
			return nil, jinjaTypeError("The fill character must be exactly one character long")
		}
		return padText(s, width, fill, side, r.limits.Output)
	})
}

func strip(name string, left, right bool) *JinjaFilter {
	return textMethod(name, "chars=None", func(_ *JinjaRun, s string, a []any) (any, error) {
		cut := isPythonSpace
		if a[0] != nil {
			chars, err := strArg(a[0], "%s arg must be None or str", name)
			if err != nil {
				return nil, jinjaTypeError("%s arg must be None or str", name)
			}
			cut = func(r rune) bool { return strings.ContainsRune(chars, r) }
		}
		if left {
			s = strings.TrimLeftFunc(s, cut)
		}
		if right {
			s = strings.TrimRightFunc(s, cut)
		}
		return s, nil
	})
}

func textMethods() map[string]*JinjaFilter {
	return map[string]*JinjaFilter{
		"upper":      simpleText("upper", func(s string) any { return pythonUpper(s) }),
		"lower":      simpleText("lower", func(s string) any { return strings.ToLower(s) }),
		"casefold":   simpleText("casefold", func(s string) any { return strings.ReplaceAll(strings.ToLower(s), "ß", "ss") }),
		"title":      simpleText("title", func(s string) any { return pythonTitle(s) }),
		"capitalize": simpleText("capitalize", func(s string) any { return pythonCapitalize(s) }),
		"swapcase": simpleText("swapcase", func(s string) any {
			return strings.Map(func(r rune) rune {
				if unicode.IsUpper(r) {
					return unicode.ToLower(r)
				}
				return unicode.ToUpper(r)
			}, s)
		}),
		"isalnum": simpleText("isalnum", func(s string) any {
			return everyRune(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
		}),
		"isalpha":   simpleText("isalpha", func(s string) any { return everyRune(s, unicode.IsLetter) }),
		"isascii":   simpleText("isascii", func(s string) any { return isASCII(s) }),
		"isdecimal": simpleText("isdecimal", func(s string) any { return everyRune(s, unicode.IsDigit) }),
		"isdigit": simpleText("isdigit", func(s string) any {
			return everyRune(s, func(r rune) bool {
				return unicode.IsDigit(r) || strings.ContainsRune("²³¹⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", r)
			})
		}),
		"isnumeric":    simpleText("isnumeric", func(s string) any { return everyRune(s, unicode.IsNumber) }),
		"isidentifier": simpleText("isidentifier", func(s string) any { return isPythonIdentifier(s) }),
		"islower":      simpleText("islower", func(s string) any { return isCase(s, unicode.IsLower, unicode.IsUpper) }),
		"isupper":      simpleText("isupper", func(s string) any { return isCase(s, unicode.IsUpper, unicode.IsLower) }),
		"istitle":      simpleText("istitle", func(s string) any { return isTitled(s) }),
		"isspace":      simpleText("isspace", func(s string) any { return everyRune(s, isPythonSpace) }),
		"isprintable": simpleText("isprintable", func(s string) any {
			return s == "" || everyRune(s, func(r rune) bool { return r == ' ' || r >= 0x7f && pythonPrintable(r) || r > ' ' && r < 0x7f })
		}),
		"strip":  strip("strip", true, true),
		"lstrip": strip("lstrip", true, false),
		"rstrip": strip("rstrip", false, true),
		"split": textMethod("split", "sep=None, maxsplit=-1", func(_ *JinjaRun, s string, a []any) (any, error) {
			return splitText(s, a, false)
		}),
		"rsplit": textMethod("rsplit", "sep=None, maxsplit=-1", func(_ *JinjaRun, s string, a []any) (any, error) {
			return splitText(s, a, true)
		}),
		"splitlines": textMethod("splitlines", "keepends=False", func(r *JinjaRun, s string, a []any) (any, error) {
			keep, err := r.truth(a[0])
			return toList(splitLines(s, keep)), err
		}),
		"partition": textMethod("partition", "sep", func(_ *JinjaRun, s string, a []any) (any, error) {
			sep, err := strArg(a[0], "must be str, not ")
			if err != nil {
				return nil, err
			}
			if sep == "" {
				return nil, jinjaValueError("empty separator")
			}
			if at := strings.Index(s, sep); at >= 0 {
				return Tuple{s[:at], sep, s[at+len(sep):]}, nil
			}
			return Tuple{s, "", ""}, nil
		}),
		"rpartition": textMethod("rpartition", "sep", func(_ *JinjaRun, s string, a []any) (any, error) {
			sep, err := strArg(a[0], "must be str, not ")
			if err != nil {
				return nil, err
			}
			if sep == "" {
				return nil, jinjaValueError("empty separator")
			}
			if at := strings.LastIndex(s, sep); at >= 0 {
				return Tuple{s[:at], sep, s[at+len(sep):]}, nil
			}
			return Tuple{"", "", s}, nil
		}),
		"replace": textMethod("replace", "old, new, count=-1", func(r *JinjaRun, s string, a []any) (any, error) {
			old, err := strArg(a[0], "replace() argument 1 must be str, not ")
			if err != nil {
				return nil, err
			}
			repl, err := strArg(a[1], "replace() argument 2 must be str, not ")
			if err != nil {
				return nil, err
			}
			n, err := intArg(a[2])
			if err != nil {
				return nil, err
			}
			return r.replaceText(s, old, repl, n)
		}),
		"join": jinjaMethod("str.join", "iterable", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			s, _ := textOf(v)
			_, safe := v.(Markup)
			items, err := r.items(a[0])
			if err != nil {
				if isJinjaClass(err, "TypeError") {
					return nil, jinjaTypeError("can only join an iterable")
				}
				return nil, err
			}
			parts := make([]string, len(items))
			for i, item := range items {
				part, ok := textOf(item)
				if !ok {
					return nil, jinjaTypeError("sequence item %d: expected str instance, %s found", i, TypeName(item))
				}
				if safe {
					part = escapeUnsafe(item, part)
				}
				parts[i] = part
			}
			return sameText(v, strings.Join(parts, s)), nil
		}),
		"startswith": affix("startswith", strings.HasPrefix),
		"endswith":   affix("endswith", strings.HasSuffix),
		"find": atLeast(textMethod("find", "sub, start=None, end=None", func(_ *JinjaRun, s string, a []any) (any, error) {
			n, err := findText(s, a, false)
			return n, err
		})),
		"rfind": atLeast(textMethod("rfind", "sub, start=None, end=None", func(_ *JinjaRun, s string, a []any) (any, error) {
			n, err := findText(s, a, true)
			return n, err
		})),
		"index": atLeast(textMethod("index", "sub, start=None, end=None", func(_ *JinjaRun, s string, a []any) (any, error) {
			n, err := findText(s, a, false)
			if err == nil && n < 0 {
				err = jinjaValueError("substring not found")
			}
			return n, err
		})),
		"rindex": atLeast(textMethod("rindex", "sub, start=None, end=None", func(_ *JinjaRun, s string, a []any) (any, error) {
			n, err := findText(s, a, true)
			if err == nil && n < 0 {
				err = jinjaValueError("substring not found")
			}
			return n, err
		})),
		"count": atLeast(textMethod("count", "sub, start=None, end=None", func(_ *JinjaRun, s string, a []any) (any, error) {
			sub, err := strArg(a[0], "must be str, not ")
			if err != nil {
				return nil, err
			}
			part, _, ok, err := textRange(s, a[1], a[2])
			if err != nil || !ok {
				return int64(0), err
			}
			return int64(strings.Count(part, sub)), nil
		})),
		"center": justify("center", '^'),
		"ljust":  justify("ljust", '<'),
		"rjust":  justify("rjust", '>'),
		"zfill": textMethod("zfill", "width", func(r *JinjaRun, s string, a []any) (any, error) {
			width, err := intArg(a[0])
			if err != nil {
				return nil, err
			}
			sign := ""
			if s != "" && (s[0] == '-' || s[0] == '+') {
				sign, s = s[:1], s[1:]
			}
			s, err = padText(s, width-int64(len(sign)), "0", '>', r.limits.Output)
			return sign + s, err
		}),
		"expandtabs": textMethod("expandtabs", "tabsize=8", func(_ *JinjaRun, s string, a []any) (any, error) {
			size, err := intArg(a[0])
			if err != nil {
				return nil, err
			}
			var b strings.Builder
			col := int64(0)
			for _, r := range s {
				switch r {
				case '\t':
					if size > 0 {
						n := size - col%size
						b.WriteString(strings.Repeat(" ", int(min(n, 1024))))
						col += n
					}
				case '\n', '\r':
					b.WriteRune(r)
					col = 0
				default:
					b.WriteRune(r)
					col++
				}
			}
			return b.String(), nil
		}),
		"removeprefix": textMethod("removeprefix", "prefix", func(_ *JinjaRun, s string, a []any) (any, error) {
			fix, err := strArg(a[0], "removeprefix() argument must be str, not ")
			return strings.TrimPrefix(s, fix), err
		}),
		"removesuffix": textMethod("removesuffix", "suffix", func(_ *JinjaRun, s string, a []any) (any, error) {
			fix, err := strArg(a[0], "removesuffix() argument must be str, not ")
			return strings.TrimSuffix(s, fix), err
		}),
		"encode": textMethod("encode", "encoding='utf-8', errors='strict'", func(_ *JinjaRun, s string, a []any) (any, error) {
			return jinjaEncode(s, Str(a[0]), Str(a[1]))
		}),
		"format": jinjaMethod("str.format", "*args, **kwargs", func(r *JinjaRun, v any, a []any, kw JinjaKwargs) (any, error) {
			if m, safe := v.(Markup); safe {
				text, err := r.formatSafeText(string(m), a, kw.Map())
				return Markup(text), err
			}
			return r.formatText(v.(string), a, kw.Map())
		}),
		"format_map": textMethod("format_map", "mapping", func(r *JinjaRun, s string, a []any) (any, error) {
			m, ok := a[0].(*Map)
			if !ok {
				return nil, jinjaTypeError("format_map() argument must be a mapping")
			}
			return r.formatText(s, nil, m)
		}),
		"translate": textMethod("translate", "table", func(_ *JinjaRun, s string, a []any) (any, error) {
			m, ok := a[0].(*Map)
			if !ok {
				return s, nil
			}
			var b strings.Builder
			for _, r := range s {
				v, ok := m.Get(int64(r))
				switch v := v.(type) {
				case nil:
					if !ok {
						b.WriteRune(r)
					}
				case int64:
					b.WriteRune(rune(v))
				default:
					b.WriteString(Str(v))
				}
			}
			return b.String(), nil
		}),
		"maketrans": textMethod("maketrans", "x, y=None, z=None", func(_ *JinjaRun, _ string, a []any) (any, error) {
			out := &Map{}
			if m, ok := a[0].(*Map); ok {
				for k, v := range m.All() {
					if s, ok := k.(string); ok {
						r, _ := utf8.DecodeRuneInString(s)
						k = int64(r)
					}
					out.Set(k, v)
				}
				return out, nil
			}
			x, y := []rune(Str(a[0])), []rune(Str(a[1]))
			if len(x) != len(y) {
				return nil, jinjaValueError("the first two maketrans arguments must have equal length")
			}
			for i := range x {
				out.Set(int64(x[i]), int64(y[i]))
			}
			if a[2] != nil {
				for _, r := range Str(a[2]) {
					out.Set(int64(r), nil)
				}
			}
			return out, nil
		}),
	}
}

// replaceText is str.replace; n < 0 replaces all.
func (r *JinjaRun) replaceText(s, old, repl string, n int64) (string, error) {
	if grow := len(repl) - len(old); grow > 0 {
		count := strings.Count(s, old)
		if n >= 0 && int64(count) > n {
			count = int(n)
		}
		if count > 0 && grow > r.limits.Output/count {
			return "", jinjaErr("MemoryError", "the text is larger than %d bytes", r.limits.Output)
		}
	}
	if n < 0 {
		n = -1
	}
	if err := r.grow(len(s)); err != nil {
		return "", err
	}
	return strings.Replace(s, old, repl, int(min(n, 1<<40))), nil
}

// jinjaDecode decodes bytes in one of the encodings that templates meet.
func jinjaDecode(p []byte, encoding, mode string) (any, error) {
	switch strings.ReplaceAll(strings.ToLower(encoding), "_", "-") {
	case "utf-8", "utf8", "u8":
		if utf8.Valid(p) {
			return string(p), nil
		}
		switch mode {
		case "ignore":
			return strings.ToValidUTF8(string(p), ""), nil
		case "replace":
			return strings.ToValidUTF8(string(p), "\ufffd"), nil
		}
		return nil, jinjaErr("UnicodeDecodeError", "%s", utf8Error(p))
	case "ascii", "us-ascii":
		for i, c := range p {
			if c >= 0x80 {
				return nil, jinjaErr("UnicodeDecodeError", "'ascii' codec can't decode byte 0x%02x in position %d: ordinal not in range(128)", c, i)
			}
		}
		return string(p), nil
	case "latin-1", "latin1", "iso-8859-1":
		rs := make([]rune, len(p))
		for i, c := range p {
			rs[i] = rune(c)
		}
		return string(rs), nil
	}
	return nil, jinjaErr("LookupError", "unknown encoding: %s", encoding)
}

func jinjaEncode(s, encoding, mode string) (any, error) {
	limit := rune(-1)
	name := ""
	switch strings.ReplaceAll(strings.ToLower(encoding), "_", "-") {
	case "utf-8", "utf8", "u8":
		return []byte(s), nil
	case "ascii", "us-ascii":
		limit, name = 128, "ascii"
	case "latin-1", "latin1", "iso-8859-1":
		limit, name = 256, "latin-1"
	default:
		return nil, jinjaErr("LookupError", "unknown encoding: %s", encoding)
	}
	var out []byte
	for i, r := range []rune(s) {
		switch {
		case r < limit:
			out = append(out, byte(r))
		case mode == "ignore":
		case mode == "replace":
			out = append(out, '?')
		default:
			return nil, jinjaErr("UnicodeEncodeError", "'%s' codec can't encode character %s in position %d: ordinal not in range(%d)",
				name, reprNonASCII(r), i, limit)
		}
	}
	return out, nil
}

func reprNonASCII(r rune) string {
	const hex = "0123456789abcdef"
	digits := func(n int) string {
		out := make([]byte, n)
		for i := range out {
			out[n-1-i] = hex[r>>(4*i)&15]
		}
		return string(out)
	}
	switch {
	case r <= 0xff:
		return `'\x` + digits(2) + "'"
	case r <= 0xffff:
		return `'\u` + digits(4) + "'"
	}
	return `'\U` + digits(8) + "'"
}
