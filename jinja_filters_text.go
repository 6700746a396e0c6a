// Jinja's own filters on texts.
package main

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// textFilter is a filter that takes str(value).
func textFilter(name, sig string, fn func(r *JinjaRun, s string, a []any) (any, error)) *JinjaFilter {
	return jinjaFilter(name, sig, func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
		s, err := r.str(v)
		if err != nil {
			return nil, err
		}
		out, err := fn(r, s, a)
		if text, ok := out.(string); ok {
			return sameText(v, text), err
		}
		return out, err
	})
}

func jinjaTextFilters() map[string]*JinjaFilter {
	return map[string]*JinjaFilter{
		"capitalize": textFilter("do_capitalize", "", func(_ *JinjaRun, s string, _ []any) (any, error) { return pythonCapitalize(s), nil }),
		"center": textFilter("do_center", "width=80", func(r *JinjaRun, s string, a []any) (any, error) {
			width, err := intArg(a[0])
			if err != nil {
				return nil, err
			}
			return padText(s, width, " ", '^', r.limits.Output)
		}),
		"filesizeformat": jinjaFilter("do_filesizeformat", "binary=False", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			if u, ok := v.(*JinjaUndefined); ok {
				return nil, u.fail()
			}
			_, f, _, ok := number(v)
			if s, isText := textOf(v); isText {
				if f, ok = parsePythonFloat(s); !ok {
					return nil, jinjaValueError("could not convert string to float: %s", Repr(s))
				}
			}
			if !ok {
				return nil, jinjaTypeError("float() argument must be a string or a real number, not '%s'", TypeName(v))
			}
			binary, err := r.truth(a[0])
			return fileSize(f, binary), err
		}),
		"forceescape": jinjaFilter("do_forceescape", "", func(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			s, err := r.str(v)
			return Markup(escapeHTML(s)), err
		}),
		"format": jinjaFilter("do_format", "*args, **kwargs", func(r *JinjaRun, v any, a []any, kw JinjaKwargs) (any, error) {
			if len(a) > 0 && len(kw) > 0 {
				return nil, jinjaErr(jinjaFilterArgClass, "can't handle positional and keyword arguments at the same time")
			}
			s, err := r.str(v)
			if err != nil {
				return nil, err
			}
			var arg any = Tuple(a)
			if len(kw) > 0 {
				arg = kw.Map()
			}
			text, err := r.percentFormat(s, arg)
			return sameText(v, text), err
		}),
		"indent": jinjaFilter("do_indent", "width=4, first=False, blank=False", filterIndent),
		"lower":  textFilter("do_lower", "", func(_ *JinjaRun, s string, _ []any) (any, error) { return strings.ToLower(s), nil }),
		"pprint": jinjaFilter("do_pprint", "", func(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) { return pprint(v, 1), nil }),
		"replace": jinjaFilter2("do_replace", "old, new, count=None", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			texts := make([]string, 3)
			for i, x := range []any{v, a[0], a[1]} {
				var err error
				if texts[i], err = r.str(x); err != nil {
					return nil, err
				}
			}
			n := int64(-1)
			if a[2] != nil {
				var err error
				if n, err = intArg(a[2]); err != nil {
					return nil, err
				}
			}
			return r.replaceText(texts[0], texts[1], texts[2], n)
		}),
		"safe": jinjaFilter("do_mark_safe", "", func(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			s, err := r.str(v)
			return Markup(s), err
		}),
		"string": textFilter("soft_str", "", func(_ *JinjaRun, s string, _ []any) (any, error) { return s, nil }),
		"striptags": jinjaFilter("do_striptags", "", func(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			s, err := r.str(v)
			return stripTags(s), err
		}),
		"title": textFilter("do_title", "", func(_ *JinjaRun, s string, _ []any) (any, error) { return jinjaTitle(s), nil }),
		"tojson": jinjaFilter2("do_tojson", "indent=None", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			return jsonForHTML(v, a[0], JSONOptions{Indent: -1, SortKeys: true, EnsureASCII: true})
		}),
		"trim": textFilter("do_trim", "chars=None", func(_ *JinjaRun, s string, a []any) (any, error) {
			if a[0] == nil {
				return strings.TrimFunc(s, isPythonSpace), nil
			}
			chars, err := strArg(a[0], "strip arg must be None or str, not ")
			return strings.Trim(s, chars), err
		}),
		"truncate": jinjaFilter2("do_truncate", "length=255, killwords=False, end='...', leeway=None", filterTruncate),
		"upper":    textFilter("do_upper", "", func(_ *JinjaRun, s string, _ []any) (any, error) { return pythonUpper(s), nil }),
		"urlencode": jinjaFilter("do_urlencode", "", func(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			return r.urlEncode(v)
		}),
		"urlize": jinjaFilter2("do_urlize", "trim_url_limit=None, nofollow=False, target=None, rel=None, extra_schemes=None", filterUrlize),
		"wordcount": textFilter("do_wordcount", "", func(_ *JinjaRun, s string, _ []any) (any, error) {
			n, in := int64(0), false
			for _, r := range s {
				word := r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r)
				if word && !in {
					n++
				}
				in = word
			}
			return n, nil
		}),
		"wordwrap": jinjaFilter2("do_wordwrap", "width=79, break_long_words=True, wrapstring=None, break_on_hyphens=True", filterWordwrap),
		"xmlattr":  jinjaFilter2("do_xmlattr", "autospace=True", filterXMLAttr),
	}
}

func filterIndent(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	s, ok := textOf(v)
	if !ok {
		if u, ok := v.(*JinjaUndefined); ok {
			return nil, u.fail()
		}
		return nil, unsupported("+=", v, "")
	}
	prefix, ok := textOf(a[0])
	if !ok {
		n, err := intArg(a[0])
		if err != nil {
			return nil, err
		}
		prefix = strings.Repeat(" ", int(max(0, min(n, maxFormatWidth))))
	}
	first, err := r.truth(a[1])
	if err != nil {
		return nil, err
	}
	blank, err := r.truth(a[2])
	if err != nil {
		return nil, err
	}
	lines := splitLines(s+"\n", false)
	if len(lines)*len(prefix)+len(s) > r.limits.Output {
		return nil, jinjaErr("MemoryError", "the text is larger than %d bytes", r.limits.Output)
	}
	for i, line := range lines {
		if i > 0 && (blank || line != "") || i == 0 && first {
			lines[i] = prefix + line
		}
	}
	return sameText(v, strings.Join(lines, "\n")), nil
}

// jinjaTitle begins every word with a capital; words also start behind
// brackets and hyphens, but not behind an apostrophe.
func jinjaTitle(s string) string {
	var b strings.Builder
	start := true
	for _, r := range s {
		if strings.ContainsRune("-({[<", r) || isPythonSpace(r) {
			start = true
			b.WriteRune(r)
			continue
		}
		if start {
			b.WriteString(pythonUpper(string(r)))
		} else {
			b.WriteRune(unicode.ToLower(r))
		}
		start = false
	}
	return b.String()
}

func stripTags(s string) string {
	for {
		start := strings.Index(s, "<!--")
		if start < 0 {
			break
		}
		end := strings.Index(s[start:], "-->")
		if end < 0 {
			break
		}
		s = s[:start] + s[start+end+3:]
	}
	for {
		start := strings.IndexByte(s, '<')
		if start < 0 {
			break
		}
		end := strings.IndexByte(s[start:], '>')
		if end < 0 {
			break
		}
		s = s[:start] + s[start+end+1:]
	}
	return html.UnescapeString(strings.Join(splitSpace(s, -1), " "))
}

func filterTruncate(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	s, ok := textOf(v)
	if !ok {
		n, err := r.length(v)
		if err != nil {
			return nil, err
		}
		_ = n
		return v, nil
	}
	length, err := intArg(a[0])
	if err != nil {
		return nil, err
	}
	end, err := r.str(a[2])
	if err != nil {
		return nil, err
	}
	leeway := int64(5)
	if a[3] != nil {
		if leeway, err = intArg(a[3]); err != nil {
			return nil, err
		}
	}
	endLen := int64(utf8.RuneCountInString(end))
	if length < endLen {
		return nil, jinjaErr("AssertionError", "expected length >= %d, got %d", endLen, length)
	}
	if leeway < 0 {
		return nil, jinjaErr("AssertionError", "expected leeway >= 0, got %d", leeway)
	}
	rs := []rune(s)
	if int64(len(rs)) <= length+leeway {
		return v, nil
	}
	kill, err := r.truth(a[1])
	if err != nil {
		return nil, err
	}
	cut := string(rs[:length-endLen])
	if !kill {
		if at := strings.LastIndexByte(cut, ' '); at >= 0 {
			cut = cut[:at]
		}
	}
	return sameText(v, cut+end), nil
}

// quoteURL is urllib.parse.quote over UTF-8; form is for a query string.
func quoteURL(s string, form bool) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("_.-~", c) >= 0, c == '/' && !form:
			b.WriteByte(c)
		case c == ' ' && form:
			b.WriteByte('+')
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

func (r *JinjaRun) urlEncode(v any) (any, error) {
	text := func(v any, form bool) (string, error) {
		if p, ok := v.([]byte); ok {
			return quoteURL(string(p), form), nil
		}
		s, err := r.str(v)
		return quoteURL(s, form), err
	}
	var pairs []any
	switch v := v.(type) {
	case string, Markup, nil, bool, int64, float64:
		return text(v, false)
	case *Map:
		pairs = (&jinjaView{v, 'i'}).items()
	default:
		var err error
		if pairs, err = r.items(v); err != nil {
			if isJinjaClass(err, "TypeError") {
				return text(v, false)
			}
			return nil, err
		}
	}
	parts := make([]string, len(pairs))
	for i, p := range pairs {
		kv, err := r.unpack(p, 2)
		if err != nil {
			return nil, err
		}
		k, err := text(kv[0], true)
		if err != nil {
			return nil, err
		}
		val, err := text(kv[1], true)
		if err != nil {
			return nil, err
		}
		parts[i] = k + "=" + val
	}
	return strings.Join(parts, "&"), nil
}

func filterXMLAttr(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	if u, ok := v.(*JinjaUndefined); ok {
		return nil, u.fail()
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, jinjaErr("AttributeError", "'%s' object has no attribute 'items'", TypeName(v))
	}
	var parts []string
	escaped := func(v any) (string, error) {
		s, err := r.str(v)
		if _, safe := v.(Markup); !safe {
			s = escapeHTML(s)
		}
		return s, err
	}
	for k, val := range m.All() {
		if _, undefined := val.(*JinjaUndefined); undefined || val == nil {
			continue
		}
		key, err := strArg(k, "expected string or bytes-like object, got ")
		if err != nil {
			return nil, err
		}
		if strings.ContainsAny(key, " \t\n\r\f\v/>=") {
			return nil, jinjaValueError("Invalid character in attribute name: %s", Repr(key))
		}
		s, err := escaped(val)
		if err != nil {
			return nil, err
		}
		parts = append(parts, escapeHTML(key)+`="`+s+`"`)
	}
	out := strings.Join(parts, " ")
	space, err := r.truth(a[0])
	if err != nil {
		return nil, err
	}
	if space && out != "" {
		out = " " + out
	}
	return r.safe(out), nil
}

// jsonForHTML is JSON that can stand in HTML.
func jsonForHTML(v any, indent any, opt JSONOptions) (any, error) {
	switch n := indent.(type) {
	case int64:
		opt.Indent = int(max(0, min(n, 100)))
	case string:
		opt.IndentText = n
	}
	s, err := EncodeJSONStrict(v, opt)
	if err != nil {
		return nil, jinjaTypeError("%s", err)
	}
	s = strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`, "'", `\u0027`).Replace(s)
	return Markup(s), nil
}
