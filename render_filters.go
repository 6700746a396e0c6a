// Salt's filters for templates: the table, and those on texts, patterns and
// formats. Lists and dicts are in render_filters_data.go, files and networks in
// render_filters_net.go.
package main

import (
	"strings"
	"unicode"
)

// saltFilters is the table of Salt's filters.
func (rd *Renderer) saltFilters() map[string]*JinjaFilter {
	f := map[string]*JinjaFilter{
		"skip": jinjaFilter("skip_filter", "", func(*JinjaRun, any, []any, JinjaKwargs) (any, error) { return "", nil }),
		"to_bool": jinjaFilter("to_bool", "", func(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			return saltBool(v), nil
		}),
		"quote": textArg("quote", "", "expected string or bytes-like object, got ", func(_ *JinjaRun, s string, _ []any) (any, error) {
			return quoteShell(s), nil
		}),
		"regex_escape":  textArg("regex_escape", "", "expected string or bytes-like object, got ", func(_ *JinjaRun, s string, _ []any) (any, error) { return escapePattern(s), nil }),
		"regex_search":  rd.regexFilter("regex_search", (*PyRegexp).Search),
		"regex_match":   rd.regexFilter("regex_match", (*PyRegexp).Match),
		"regex_replace": jinjaEntry('p', 1, "regex_replace", "rgx, val, ignorecase=False, multiline=False", rd.regexReplace),
		"uuid": jinjaFilter("uuid_", "", func(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			b, err := toBytes(v)
			if err != nil {
				return nil, jinjaTypeError("expected str, bytes, or bytearray not <class '%s'>", TypeName(v))
			}
			return saltUUID(string(b)), nil
		}),
		"method_call": jinjaFilter("method_call", "f_name, *args, **kwargs", func(r *JinjaRun, v any, a []any, kw JinjaKwargs) (any, error) {
			name, err := strArg(a[0], "attribute name must be string, not ")
			if err != nil {
				return nil, err
			}
			fn, ok, err := r.ownAttr(v, name)
			if err != nil || !ok {
				return nil, err
			}
			return r.CallValue(fn, a[1:], kw)
		}),
		"tojson": jinjaFilter("tojson", "indent=None, **kwargs", func(r *JinjaRun, v any, a []any, kw JinjaKwargs) (any, error) {
			if u := strictUndefined(v); u != nil {
				return u, nil
			}
			opt := JSONOptions{Indent: -1, EnsureASCII: true}
			jsonKwargs(&opt, kw)
			out, err := jsonForHTML(v, a[0], opt)
			if m, ok := out.(Markup); ok {
				return string(m), err
			}
			return out, err
		}),
		"json": strictFilter("format_json", "sort_keys=True, indent=None", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			opt := JSONOptions{Indent: -1, SortKeys: Truth(a[0])}
			switch n := a[1].(type) {
			case int64:
				opt.Indent = int(max(0, min(n, 100)))
			case string:
				opt.IndentText = n
			}
			s, err := EncodeJSONStrict(v, opt)
			if err != nil {
				return nil, jinjaTypeError("%s", err)
			}
			return Markup(strings.TrimFunc(s, isPythonSpace)), nil
		}),
		"yaml": strictFilter("format_yaml", "flow_style=True", func(_ *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			return formatYAML(v, a[0]), nil
		}),
		"dict_to_sls_yaml_params": strictFilter("dict_to_sls_yaml_params", "flow_style=False", func(_ *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
			m, ok := v.(*Map)
			if !ok {
				return nil, jinjaErr("AttributeError", "'%s' object has no attribute 'items'", TypeName(v))
			}
			l := &List{}
			for k, item := range m.All() {
				l.Append(NewMap(k, item))
			}
			return formatYAML(l, a[0]), nil
		}),
		"xml": strictFilter("format_xml", "", func(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) { return formatXML(v) }),
		"python": strictFilter("format_python", "", func(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			return Markup(strings.TrimFunc(pprint(v, 1), isPythonSpace)), nil
		}),
		"load_yaml": strictFilter("load_yaml", "", loadYAMLFilter),
		"load_json": strictFilter("load_json", "", func(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			var text string
			switch s := v.(type) {
			case *jinjaImported:
				text = s.body
			case []byte:
				text = string(s)
			default:
				var ok bool
				if text, ok = textOf(v); !ok {
					return nil, jinjaErr(jinjaRuntimeClass, "Unable to load json from %s", Str(v))
				}
			}
			out, err := DecodeJSON([]byte(text))
			if err != nil {
				return nil, jinjaErr(jinjaRuntimeClass, "Unable to load json from %s", text)
			}
			return out, nil
		}),
		"load_text": strictFilter("load_text", "", func(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			if m, ok := v.(*jinjaImported); ok {
				return m.body, nil
			}
			return v, nil
		}),
		"yaml_dquote": jinjaFilter("yaml_dquote", "", func(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			s, err := r.str(v)
			return yamlDoubleQuoted(s), err
		}),
		"yaml_squote": jinjaFilter("yaml_squote", "", func(r *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
			s, err := r.str(v)
			return "'" + strings.ReplaceAll(yamlBreaks(s), "'", "''") + "'", err
		}),
		"yaml_encode":         jinjaFilter("yaml_encode", "", yamlEncodeFilter),
		"to_num":              jinjaFilter("to_num", "", numFilter),
		"str_to_num":          jinjaFilter("to_num", "", numFilter),
		"to_bytes":            jinjaFilter("to_bytes", "encoding=None, errors='strict'", toBytesFilter),
		"is_hex":              jinjaFilter("is_hex", "", func(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) { return isHexFilter(v), nil }),
		"contains_whitespace": textArg("contains_whitespace", "", "", func(_ *JinjaRun, s string, _ []any) (any, error) { return strings.ContainsFunc(s, isPythonSpace), nil }),
		"human_to_bytes":      jinjaEntry('p', 0, "human_to_bytes", "default_unit='B', handle_metric=False", humanToBytes),
		"to_snake_case":       textArg("camel_to_snake_case", "", "", func(_ *JinjaRun, s string, _ []any) (any, error) { return saltSnakeCase(s) }),
		"to_camelcase": textArg("snake_to_camel_case", "uppercamel=False", "", func(r *JinjaRun, s string, a []any) (any, error) {
			upper, err := r.truth(a[0])
			words := strings.Split(s, "_")
			for i, w := range words {
				if i > 0 || upper {
					words[i] = pythonCapitalize(w)
				}
			}
			return strings.Join(words, ""), err
		}),
		"check_whitelist_blacklist": jinjaFilter("check_whitelist_blacklist", "whitelist=None, blacklist=None", rd.checkLists),
		"date_format":               jinjaEntry('p', 0, "strftime", "format='%Y-%m-%d'", strftimeFilter),
		"strftime":                  jinjaEntry('p', 0, "strftime", "format='%Y-%m-%d'", strftimeFilter),
		"json_query":                jinjaFilter("json_query", "expr", jsonQueryFilter),
	}
	for _, more := range []map[string]*JinjaFilter{dataFilters(), hashFilters(), fileFilters(), networkFilters()} {
		for name, entry := range more {
			f[name] = entry
		}
	}
	return f
}

// textArg is a filter whose value must be a text; wrong says what it is not.
func textArg(name, sig, wrong string, fn func(r *JinjaRun, s string, a []any) (any, error)) *JinjaFilter {
	return jinjaFilter(name, sig, func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
		s, ok := textOf(v)
		if !ok {
			if u, undefined := v.(*JinjaUndefined); undefined {
				return nil, u.fail()
			}
			if wrong == "" {
				return nil, jinjaErr("AttributeError", "'%s' object has no attribute 'split'", TypeName(v))
			}
			return nil, jinjaTypeError("%s'%s'", wrong, TypeName(v))
		}
		return fn(r, s, a)
	})
}

// strictFilter is a filter that hands strictly undefined values on, wherever
// they are in the value, instead of formatting them.
func strictFilter(name, sig string, fn jinjaImpl) *JinjaFilter {
	return jinjaFilter2(name, sig, func(r *JinjaRun, v any, a []any, kw JinjaKwargs) (any, error) {
		if u := strictUndefined(v); u != nil {
			return u, nil
		}
		return fn(r, v, a, kw)
	})
}

// strictUndefined collects the strictly undefined values in v into one.
func strictUndefined(v any) *JinjaUndefined {
	var messages []string
	seen := map[any]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case *JinjaUndefined:
			if v.Kind == JinjaStrict {
				messages = append(messages, v.Message())
			}
		case *Map:
			if seen[v] {
				return
			}
			seen[v] = true
			for _, item := range v.All() {
				walk(item)
			}
		case *List:
			if seen[v] {
				return
			}
			seen[v] = true
			for _, item := range v.Items {
				walk(item)
			}
		case Tuple:
			for _, item := range v {
				walk(item)
			}
		}
	}
	walk(v)
	if messages == nil {
		return nil
	}
	return &JinjaUndefined{Kind: JinjaStrict, Hint: strings.Join(messages, "\n")}
}

func jsonKwargs(opt *JSONOptions, kw JinjaKwargs) {
	for _, k := range kw {
		switch k.Name {
		case "sort_keys":
			opt.SortKeys = Truth(k.Value)
		case "ensure_ascii":
			opt.EnsureASCII = Truth(k.Value)
		case "separators":
			if t, ok := k.Value.(Tuple); ok && len(t) == 2 {
				opt.ItemSep, opt.KeySep = Str(t[0]), Str(t[1])
			}
			if l, ok := k.Value.(*List); ok && len(l.Items) == 2 {
				opt.ItemSep, opt.KeySep = Str(l.Items[0]), Str(l.Items[1])
			}
		}
	}
}

func formatYAML(v, flow any) Markup {
	opt := YAMLOptions{SortKeys: true, Flow: YAMLAuto}
	if flow != nil {
		opt.Flow = YAMLBlock
		if Truth(flow) {
			opt.Flow = YAMLInline
		}
	}
	s := strings.TrimFunc(DumpYAML(v, opt), isPythonSpace)
	return Markup(strings.TrimSuffix(s, "\n..."))
}

func loadYAMLFilter(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
	var text string
	switch s := v.(type) {
	case *jinjaImported:
		text = s.body
	case []byte:
		text = string(s)
	default:
		var ok bool
		if text, ok = textOf(v); !ok {
			return nil, jinjaTypeError("a string or stream input is required")
		}
	}
	out, err := ParseYAML([]byte(text))
	if err == nil {
		return out, nil
	}
	ye, ok := err.(*YAMLError)
	switch {
	case !ok || ye.Class == "ReaderError":
		return nil, jinjaErr(jinjaRuntimeClass, "Encountered error loading yaml: %s", err)
	case strings.HasPrefix(yamlClass(ye), "yaml."):
		// Salt fails while it words the error; the text below it tells what is wrong
		return nil, &JinjaError{Class: "AttributeError", Message: "'NoneType' object has no attribute 'splitlines'", Cause: ye}
	}
	return nil, &JinjaError{Class: ye.Class, Message: ye.Problem, Cause: ye}
}

// saltBool is Salt's to_bool.
func saltBool(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		switch strings.ToLower(v) {
		case "yes", "1", "true":
			return true
		}
		return false
	case Markup:
		return saltBool(string(v))
	case *List:
		return len(v.Items) > 0
	case *Map:
		return v.Len() > 0
	case *Set:
		return v.Len() > 0
	}
	if i, _, isInt, _ := number(v); isInt {
		return i.Sign() > 0
	}
	return false
}

// escapePattern is re.escape.
func escapePattern(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if strings.IndexByte("()[]{}?*+-|^$\\.&~# \t\n\r\v\f", s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func regexFlags(r *JinjaRun, ignorecase, multiline any) (flags RegexpFlags, err error) {
	for i, v := range []any{ignorecase, multiline} {
		yes, err := r.truth(v)
		if err != nil {
			return 0, err
		}
		if yes && i == 0 {
			flags |= RegexpIgnoreCase
		} else if yes {
			flags |= RegexpMultiline
		}
	}
	return flags, nil
}

func (rd *Renderer) pattern(r *JinjaRun, pattern, ignorecase, multiline any) (*PyRegexp, error) {
	flags, err := regexFlags(r, ignorecase, multiline)
	if err != nil {
		return nil, err
	}
	p, ok := textOf(pattern)
	if !ok {
		if u, undefined := pattern.(*JinjaUndefined); undefined {
			return nil, u.fail()
		}
		return nil, jinjaTypeError("first argument must be string or compiled pattern")
	}
	re, err := rd.regexps.Get(p, flags)
	if err != nil {
		return nil, jinjaErr("re.error", "%s", err)
	}
	return re, nil
}

func (rd *Renderer) regexp(r *JinjaRun, v, pattern, ignorecase, multiline any, find func(*PyRegexp, string) (*PyMatch, error)) (*PyMatch, error) {
	re, err := rd.pattern(r, pattern, ignorecase, multiline)
	if err != nil {
		return nil, err
	}
	s, ok := textOf(v)
	if !ok {
		return nil, jinjaTypeError("expected string or bytes-like object, got '%s'", TypeName(v))
	}
	return find(re, s)
}

func (rd *Renderer) regexFilter(name string, find func(*PyRegexp, string) (*PyMatch, error)) *JinjaFilter {
	return jinjaFilter(name, "rgx, ignorecase=False, multiline=False", func(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
		m, err := rd.regexp(r, v, a[0], a[1], a[2], find)
		if err != nil || m == nil {
			return nil, err
		}
		return m.GroupTuple(), nil
	})
}

func (rd *Renderer) regexReplace(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	re, err := rd.pattern(r, a[0], a[2], a[3])
	if err != nil {
		return nil, err
	}
	s, ok := textOf(v)
	if !ok {
		return nil, jinjaTypeError("expected string or bytes-like object, got '%s'", TypeName(v))
	}
	repl, err := strArg(a[1], "decoding to str: need a bytes-like object, ")
	if err != nil {
		return nil, err
	}
	out, err := re.ReplaceAll(s, repl, 0)
	if err != nil {
		return nil, jinjaErr("re.error", "%s", err)
	}
	return out, nil
}

// checkLists is check_whitelist_blacklist.
func (rd *Renderer) checkLists(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	list := func(v any, name string) ([]any, error) {
		if !Truth(v) {
			return nil, nil
		}
		if s, ok := textOf(v); ok {
			return []any{s}, nil
		}
		items, err := r.items(v)
		if err != nil {
			return nil, jinjaTypeError("Expecting iterable %s, but got %s (%s)", name, TypeName(v), Str(v))
		}
		return items, nil
	}
	black, err := list(a[1], "blacklist")
	if err != nil {
		return nil, err
	}
	white, err := list(a[0], "whitelist")
	if err != nil {
		return nil, err
	}
	in := func(exprs []any) bool {
		s, ok := textOf(v)
		if !ok {
			return false
		}
		for _, e := range exprs {
			expr, ok := textOf(e)
			if !ok {
				continue
			}
			if GlobMatch(expr, s) {
				return true
			}
			if re, err := rd.regexps.Get(`\A`+expr+`\Z`, 0); err == nil {
				if m, err := re.Match(s); err == nil && m != nil {
					return true
				}
			}
		}
		return false
	}
	switch {
	case len(black) > 0 && len(white) > 0:
		return !in(black) && in(white), nil
	case len(black) > 0:
		return !in(black), nil
	case len(white) > 0:
		return in(white), nil
	}
	return true, nil
}

// toBytes is a text or bytes as bytes.
func toBytes(v any) ([]byte, error) {
	if p, ok := v.([]byte); ok {
		return p, nil
	}
	if s, ok := textOf(v); ok {
		return []byte(s), nil
	}
	if u, ok := v.(*JinjaUndefined); ok {
		return nil, u.fail()
	}
	return nil, jinjaTypeError("expected str, bytes, or bytearray not <class '%s'>", TypeName(v))
}

func toBytesFilter(_ *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	if p, ok := v.([]byte); ok {
		return p, nil
	}
	s, ok := textOf(v)
	if !ok {
		return toBytes(v)
	}
	encoding := "utf-8"
	if a[0] != nil {
		encoding = Str(a[0])
	}
	return jinjaEncode(s, encoding, Str(a[1]))
}

func numFilter(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
	if s, ok := textOf(v); ok {
		if i, ok := parsePythonInt(s, 10); ok {
			return i, nil
		}
		if f, ok := parsePythonFloat(s); ok {
			return f, nil
		}
		return v, nil
	}
	if i, ok := pythonInt(v); ok {
		return i, nil
	}
	if u, ok := v.(*JinjaUndefined); ok {
		return nil, u.fail()
	}
	return nil, jinjaTypeError("int() argument must be a string, a bytes-like object or a real number, not '%s'", TypeName(v))
}

func isHexFilter(v any) bool {
	s, ok := textOf(v)
	if !ok {
		return false
	}
	_, ok = parsePythonInt(s, 16)
	return ok
}

func saltSnakeCase(s string) (any, error) {
	rs := []rune(s)
	if len(rs) == 0 {
		return nil, jinjaErr("IndexError", "string index out of range")
	}
	var b strings.Builder
	b.WriteRune(unicode.ToLower(rs[0]))
	for i := 1; i < len(rs); i++ {
		if unicode.IsUpper(rs[i]) && (unicode.IsLower(rs[i-1]) || i != len(rs)-1 && unicode.IsLower(rs[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(rs[i]))
	}
	return b.String(), nil
}

// humanToBytes reads sizes like 2G, 30MB, 64KiB.
func humanToBytes(r *JinjaRun, v any, a []any, _ JinjaKwargs) (any, error) {
	s, err := r.str(v)
	if err != nil {
		return nil, err
	}
	s = strings.TrimFunc(s, isPythonSpace)
	n := span(s, "0123456789.")
	num, unit := s[:n], strings.ToLower(strings.TrimLeftFunc(s[n:], isPythonSpace))
	if unit == "" {
		unit = strings.ToLower(Str(a[0]))
	}
	value, ok := parsePythonInt(num, 10)
	if !ok {
		f, isFloat := parsePythonFloat(num)
		if !isFloat {
			return int64(0), nil
		}
		value = f
	}
	const units = "bkmgtpezy"
	decimal := false
	switch {
	case len(unit) == 2 && unit[1] == 'b' && strings.IndexByte(units[1:], unit[0]) >= 0:
		if decimal, err = r.truth(a[1]); err != nil {
			return nil, err
		}
	case unit == "b", len(unit) == 1 && strings.IndexByte(units[1:], unit[0]) >= 0,
		len(unit) == 3 && unit[1:] == "ib" && strings.IndexByte(units[1:], unit[0]) >= 0:
	default:
		return int64(0), nil
	}
	power := int64(strings.IndexByte(units, unit[0]))
	base, exp := int64(2), power*10
	if decimal {
		base, exp = 10, power*3
	}
	factor, err := arithmetic("**", base, exp)
	if err != nil {
		return nil, err
	}
	out, err := arithmetic("*", value, factor)
	if err != nil {
		return nil, err
	}
	i, _ := pythonInt(out)
	return i, nil
}

func yamlDoubleQuoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		if r >= ' ' && r <= '~' && r != '"' && r != '\\' {
			b.WriteRune(r)
		} else {
			b.WriteString(yamlEscape(r))
		}
	}
	b.WriteByte('"')
	return b.String()
}

// yamlBreaks doubles the first line break of a row, as a single-quoted text
// needs it.
func yamlBreaks(s string) string {
	var b strings.Builder
	inBreak := false
	for _, r := range s {
		isBreak := isYAMLBreak(r) && r != '\r'
		if isBreak && !inBreak && r == '\n' {
			b.WriteByte('\n')
		}
		inBreak = isBreak
		b.WriteRune(r)
	}
	return b.String()
}

func yamlEncodeFilter(_ *JinjaRun, v any, _ []any, _ JinjaKwargs) (any, error) {
	var e yamlEmitter
	switch v := v.(type) {
	case string:
		return yamlDoubleQuoted(v), nil
	case Markup:
		return nil, jinjaErr("yaml.representer.RepresenterError", "('cannot represent an object', %s)", v.Repr())
	case nil, bool, int64, float64, []byte:
		return e.item(v).text, nil
	case *List, *Map, Tuple, *Set:
		return nil, jinjaTypeError("yaml_encode() only works with YAML scalar data; failed for <class '%s'>", TypeName(v))
	case *JinjaUndefined:
		return nil, jinjaErr("yaml.representer.RepresenterError", "('cannot represent an object', %s)", v.Repr())
	}
	if isNumber(v) {
		return e.item(v).text, nil
	}
	return nil, jinjaErr("yaml.representer.RepresenterError", "('cannot represent an object', %s)", Repr(v))
}
