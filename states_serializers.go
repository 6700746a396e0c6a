// Serializers of file.serialize: data to text and back.
package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// serializer is one format; decode is nil where files cannot be merged.
type serializer struct {
	encode func(v any, opts *Map, unicode bool) (any, error)
	decode func(p []byte) (any, error)
}

func serializerOf(kind string) (serializer, bool) {
	switch kind {
	case "yaml":
		return serializer{encodeYAMLFile, func(p []byte) (any, error) { return ParseYAML(p) }}, true
	case "json":
		return serializer{encodeJSONFile, DecodeJSON}, true
	case "python":
		return serializer{func(v any, opts *Map, _ bool) (any, error) { return pprint(plainMaps(v), 1), nil }, nil}, true
	case "msgpack":
		return serializer{func(v any, _ *Map, _ bool) (any, error) { return EncodeBin(v) }, DecodeBin}, true
	case "configparser":
		return serializer{encodeINI, decodeINI}, true
	case "toml":
		return serializer{func(v any, _ *Map, _ bool) (any, error) { return encodeTOML(v) }, nil}, true
	case "keyvalue":
		return serializer{encodeKeyValue, nil}, true
	}
	return serializer{}, false
}

// plainMaps is the value with plain dictionaries.
func plainMaps(v any) any {
	switch v := v.(type) {
	case *List:
		l := NewList()
		for _, item := range v.Items {
			l.Append(plainMaps(item))
		}
		return l
	case *Map:
		m := NewMap()
		for k, item := range v.All() {
			m.Set(k, plainMaps(item))
		}
		return m
	}
	return v
}

func encodeYAMLFile(v any, opts *Map, unicode bool) (any, error) {
	o := YAMLOptions{}
	applyYAMLOptions(&o, opts, unicode)
	return strings.TrimSuffix(DumpYAML(plainMaps(v), o), "\n"), nil
}

func encodeJSONFile(v any, opts *Map, _ bool) (any, error) {
	o := JSONOptions{Indent: 2, SortKeys: true, EnsureASCII: false}
	if n, ok := opts.Get("indent"); ok {
		o.Indent = -1
		if i, ok := n.(int64); ok {
			o.Indent = int(i)
		}
	}
	if b, ok := opts.Get("sort_keys"); ok {
		o.SortKeys = Truth(b)
	}
	if b, ok := opts.Get("ensure_ascii"); ok {
		o.EnsureASCII = Truth(b)
	}
	o.ItemSep, o.KeySep = ",", ": "
	if l := toItems(opts.Value("separators")); len(l) == 2 {
		o.ItemSep, o.KeySep = Str(l[0]), Str(l[1])
	}
	return EncodeJSON(plainMaps(v), o), nil
}

// encodeINI writes sections as Python's configparser does.
func encodeINI(v any, _ *Map, _ bool) (any, error) {
	m, ok := v.(*Map)
	if !ok {
		return nil, OtherErrorf("TypeError", "configparser needs a mapping of sections, not %s", TypeName(v))
	}
	var b strings.Builder
	section := func(name string, body *Map) {
		fmt.Fprintf(&b, "[%s]\n", name)
		for k, item := range body.All() {
			fmt.Fprintf(&b, "%s = %s\n", strings.ToLower(Str(k)), strings.ReplaceAll(Str(item), "\n", "\n\t"))
		}
		b.WriteByte('\n')
	}
	if d := m.Map("DEFAULT"); d != nil {
		section("DEFAULT", d)
	}
	for k, item := range m.All() {
		if k == "DEFAULT" {
			continue
		}
		body, ok := item.(*Map)
		if !ok {
			return nil, OtherErrorf("TypeError", "section %s is no mapping", Str(k))
		}
		section(Str(k), body)
	}
	return b.String(), nil
}

func decodeINI(p []byte) (any, error) {
	out := NewMap()
	var section *Map
	last := ""
	for _, line := range strings.Split(string(p), "\n") {
		text := strings.TrimSpace(line)
		switch {
		case text == "" || text[0] == '#' || text[0] == ';':
		case text[0] == '[' && strings.Contains(text, "]"):
			section = NewMap()
			out.Set(text[1:strings.IndexByte(text, ']')], section)
		case section == nil:
			return nil, ExecErrorf("File contains no section headers.")
		case (line[0] == ' ' || line[0] == '\t') && last != "":
			section.Set(last, section.Str(last)+"\n"+text)
		default:
			i := strings.IndexAny(text, "=:")
			if i < 0 {
				return nil, ExecErrorf("Source contains parsing errors: %s", Repr(text))
			}
			last = strings.ToLower(strings.TrimSpace(text[:i]))
			section.Set(last, strings.TrimSpace(text[i+1:]))
		}
	}
	return out, nil
}

func encodeKeyValue(v any, opts *Map, _ bool) (any, error) {
	m, ok := v.(*Map)
	if !ok {
		return nil, OtherErrorf("TypeError", "keyvalue needs a mapping, not %s", TypeName(v))
	}
	sep := "="
	if s := opts.Str("separator"); s != "" {
		sep = s
	}
	quote := Truth(opts.Value("quoting"))
	var lines []string
	for k, item := range m.All() {
		value := Str(item)
		if quote {
			value = quoteShell(value)
		}
		lines = append(lines, Str(k)+sep+value)
	}
	return strings.Join(lines, "\n"), nil
}

// encodeTOML writes tables, arrays and scalars.
func encodeTOML(v any) (any, error) {
	m, ok := v.(*Map)
	if !ok {
		return nil, OtherErrorf("TypeError", "toml needs a mapping, not %s", TypeName(v))
	}
	var b strings.Builder
	if err := tomlTable(&b, "", m); err != nil {
		return nil, err
	}
	return b.String(), nil
}

func tomlKey(k any) string {
	s := Str(k)
	for _, r := range s {
		if r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return strconv.Quote(s)
		}
	}
	if s == "" {
		return `""`
	}
	return s
}

func tomlTable(b *strings.Builder, path string, m *Map) error {
	for k, v := range m.All() {
		if _, isTable := v.(*Map); isTable || v == nil {
			continue
		}
		text, err := tomlValue(v)
		if err != nil {
			return err
		}
		b.WriteString(tomlKey(k) + " = " + text + "\n")
	}
	for k, v := range m.All() {
		t, ok := v.(*Map)
		if !ok {
			continue
		}
		name := tomlKey(k)
		if path != "" {
			name = path + "." + name
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("[" + name + "]\n")
		if err := tomlTable(b, name, t); err != nil {
			return err
		}
	}
	return nil
}

func tomlValue(v any) (string, error) {
	switch v := v.(type) {
	case string:
		p, err := json.Marshal(v)
		return string(p), err
	case bool:
		return strings.ToLower(Str(v)), nil
	case *List:
		var parts []string
		for _, item := range v.Items {
			s, err := tomlValue(item)
			if err != nil {
				return "", err
			}
			parts = append(parts, s)
		}
		return "[ " + strings.Join(parts, ", ") + ",]", nil
	case *Map:
		var parts []string
		for k, item := range v.All() {
			s, err := tomlValue(item)
			if err != nil {
				return "", err
			}
			parts = append(parts, tomlKey(k)+" = "+s)
		}
		return "{ " + strings.Join(parts, ", ") + " }", nil
	}
	return Str(v), nil
}

// applyYAMLOptions reads the options that PyYAML's dump has.
func applyYAMLOptions(o *YAMLOptions, opts *Map, unicode bool) {
	o.SortKeys, o.EscapeUnicode, o.Flow = true, !unicode, YAMLBlock
	for k, v := range opts.All() {
		switch k {
		case "indent":
			n, _ := toInt(v)
			o.Indent = int(n)
		case "width":
			n, _ := toInt(v)
			o.Width = int(n)
		case "sort_keys":
			o.SortKeys = Truth(v)
		case "allow_unicode":
			o.EscapeUnicode = !Truth(v)
		case "explicit_start":
			o.ExplicitStart = Truth(v)
		case "explicit_end":
			o.ExplicitEnd = Truth(v)
		case "line_break":
			o.LineBreak = Str(v)
		case "default_style":
			if s := Str(v); len(s) == 1 {
				o.DefaultStyle = s[0]
			}
		case "default_flow_style":
			switch v {
			case true:
				o.Flow = YAMLInline
			case nil:
				o.Flow = YAMLAuto
			}
		}
	}
}
