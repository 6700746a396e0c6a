// Python's pprint: a value on one line if it fits, else one item a line, with
// sorted keys.
package main

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

const pprintWidth = 80

type pprinter struct {
	b      strings.Builder
	indent int // columns for each level
}

func pprint(v any, indent int) string {
	p := pprinter{indent: indent}
	p.format(v, 0, 0, 0, nil)
	return p.b.String()
}

// sortedDeep is the value with the keys of all its maps sorted, as the one-line
// form shows them. What contains itself is left as it is.
func sortedDeep(v any, outer *reprPath) any {
	path, ok := outer.enter(identityOf(v))
	if !ok {
		return v
	}
	switch v := v.(type) {
	case *List:
		l := NewList()
		for _, item := range v.Items {
			l.Append(sortedDeep(item, path))
		}
		return l
	case Tuple:
		t := make(Tuple, len(v))
		for i, item := range v {
			t[i] = sortedDeep(item, path)
		}
		return t
	case *Map:
		m := NewMap().SetClass(v.Class())
		for _, k := range pprintKeys(v) {
			m.Set(k, sortedDeep(v.Value(k), path))
		}
		return m
	}
	return v
}

// identityOf is what tells a container from an equal one.
func identityOf(v any) any {
	switch v.(type) {
	case *Map, *List:
		return v
	}
	return new(byte)
}

// pprintKeys sorts keys; those of different kinds by the name of their type.
func pprintKeys(m *Map) []any {
	keys := m.Keys()
	if m.Class() != "" {
		return keys
	}
	sort.SliceStable(keys, func(i, j int) bool {
		c, err := Compare(keys[i], keys[j])
		if err != nil {
			return TypeName(keys[i]) < TypeName(keys[j])
		}
		return c < 0
	})
	return keys
}

func (p *pprinter) format(v any, indent, allowance, level int, outer *reprPath) {
	rep := Repr(sortedDeep(v, nil))
	path, ok := outer.enter(identityOf(v))
	if !ok || utf8.RuneCountInString(rep) <= pprintWidth-indent-allowance {
		p.b.WriteString(rep)
		return
	}
	level++
	switch v := v.(type) {
	case *Map:
		if class := v.Class(); class != "" {
			items := make([]any, 0, v.Len())
			for k, item := range v.All() {
				items = append(items, Tuple{k, item})
			}
			p.b.WriteString(class + "(")
			p.format(NewList(items...), indent+len(class)+1, allowance+1, level-1, path)
			p.b.WriteByte(')')
			return
		}
		p.b.WriteByte('{')
		p.pad()
		keys := pprintKeys(v)
		inner := indent + p.indent
		for i, k := range keys {
			krep := Repr(sortedDeep(k, nil))
			p.b.WriteString(krep + ": ")
			rest := 1
			if i == len(keys)-1 {
				rest = allowance + 1
			}
			p.format(v.Value(k), inner+utf8.RuneCountInString(krep)+2, rest, level, path)
			if i < len(keys)-1 {
				p.b.WriteString(",\n" + strings.Repeat(" ", inner))
			}
		}
		p.b.WriteByte('}')
	case *List:
		p.b.WriteByte('[')
		p.items(v.Items, indent, allowance+1, level, path)
		p.b.WriteByte(']')
	case Tuple:
		end := ")"
		if len(v) == 1 {
			end = ",)"
		}
		p.b.WriteByte('(')
		p.items(v, indent, allowance+len(end), level, path)
		p.b.WriteString(end)
	case string:
		p.text(v, indent, allowance, level)
	case []byte:
		p.bytes(v, indent, allowance, level)
	default:
		p.b.WriteString(rep)
	}
}

func (p *pprinter) pad() {
	if p.indent > 1 {
		p.b.WriteString(strings.Repeat(" ", p.indent-1))
	}
}

func (p *pprinter) items(items []any, indent, allowance, level int, path *reprPath) {
	p.pad()
	inner := indent + p.indent
	for i, item := range items {
		if i > 0 {
			p.b.WriteString(",\n" + strings.Repeat(" ", inner))
		}
		rest := 1
		if i == len(items)-1 {
			rest = allowance
		}
		p.format(item, inner, rest, level, path)
	}
}

// text breaks a long text at its line ends, then between words.
func (p *pprinter) text(s string, indent, allowance, level int) {
	if level == 1 {
		indent++
		allowance++
	}
	width := func(s string) int { return utf8.RuneCountInString(Repr(s)) }
	lines := pyLines(s, true)
	var chunks []string
	for i, line := range lines {
		last := i == len(lines)-1
		most := pprintWidth - indent
		if last {
			most -= allowance
		}
		if width(line) <= most {
			chunks = append(chunks, Repr(line))
			continue
		}
		parts := wordsWithBlanks(line)
		most = pprintWidth - indent
		current := ""
		for j, part := range parts {
			if last && j == len(parts)-1 {
				most -= allowance
			}
			if width(current+part) > most {
				if current != "" {
					chunks = append(chunks, Repr(current))
				}
				current = part
			} else {
				current += part
			}
		}
		if current != "" {
			chunks = append(chunks, Repr(current))
		}
	}
	if len(chunks) == 1 {
		p.b.WriteString(Repr(s))
		return
	}
	open, shut := "", ""
	if level == 1 {
		open, shut = "(", ")"
	}
	p.b.WriteString(open + strings.Join(chunks, "\n"+strings.Repeat(" ", indent)) + shut)
}

// bytes breaks long bytes into rows of a multiple of four.
func (p *pprinter) bytes(v []byte, indent, allowance, level int) {
	if len(v) <= 4 {
		p.b.WriteString(Repr(v))
		return
	}
	open, shut := "", ""
	if level == 1 {
		indent++
		allowance++
		open, shut = "(", ")"
	}
	width := pprintWidth - indent
	last := len(v) / 4 * 4
	var rows []string
	current := ""
	for i := 0; i < len(v); i += 4 {
		part := v[i:min(i+4, len(v))]
		candidate := current + string(part)
		if i == last {
			width -= allowance
		}
		if len(Repr([]byte(candidate))) > width {
			if current != "" {
				rows = append(rows, Repr([]byte(current)))
			}
			current = string(part)
		} else {
			current = candidate
		}
	}
	if current != "" {
		rows = append(rows, Repr([]byte(current)))
	}
	p.b.WriteString(open + strings.Join(rows, "\n"+strings.Repeat(" ", indent)) + shut)
}

// wordsWithBlanks splits before every word; blanks stay with the word before.
func wordsWithBlanks(s string) []string {
	var out []string
	start, blank := 0, false
	for i, r := range s {
		space := unicode.IsSpace(r)
		if !space && blank {
			out = append(out, s[start:i])
			start = i
		}
		blank = space
	}
	return append(out, s[start:])
}
