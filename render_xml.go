// Salt's xml filter: dicts and lists as a document.
package main

import (
	"strings"
	"unicode/utf8"
)

// xmlElement is one element of the document.
type xmlElement struct {
	tag      string
	attrs    *Map
	text     string
	hasText  bool
	children []*xmlElement
}

func formatXML(v any) (any, error) {
	pairs, err := xmlPairs(v)
	if err != nil {
		return nil, err
	}
	root, err := xmlTree(pairs, nil, 0)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return nil, jinjaErr("AttributeError", "'NoneType' object has no attribute 'iter'")
	}
	var b strings.Builder
	b.WriteString("<?xml version=\"1.0\" ?>\n")
	root.write(&b, "")
	return Markup(b.String()), nil
}

type xmlPair struct {
	tag   string
	value any
}

// xmlPairs are the tags and values of a dict; a list of texts has none that
// are looked at again.
func xmlPairs(v any) ([]xmlPair, error) {
	switch v := v.(type) {
	case *Map:
		var out []xmlPair
		for k, item := range v.All() {
			out = append(out, xmlPair{Str(k), item})
		}
		return out, nil
	case *List:
		return xmlListPairs(v.Items)
	case Tuple:
		return xmlListPairs(v)
	}
	return nil, jinjaErr(jinjaRuntimeClass, "Value is not a dict or list. Cannot render as XML")
}

func xmlListPairs(items []any) ([]xmlPair, error) {
	if len(items) == 0 {
		return nil, jinjaErr("IndexError", "list index out of range")
	}
	if _, ok := textOf(items[0]); !ok {
		return nil, nil
	}
	for _, item := range items {
		if s, ok := textOf(item); ok && utf8.RuneCountInString(s) < 2 {
			return nil, jinjaErr("IndexError", "string index out of range")
		}
	}
	return nil, nil
}

func xmlTree(pairs []xmlPair, parent *xmlElement, depth int) (*xmlElement, error) {
	if depth > maxReprDepth {
		return nil, jinjaErr("RecursionError", "maximum recursion depth exceeded")
	}
	var sub *xmlElement
	for _, p := range pairs {
		if l, ok := p.value.(*List); ok {
			for _, item := range l.Items {
				if _, err := xmlTree([]xmlPair{{p.tag, item}}, parent, depth+1); err != nil {
					return nil, err
				}
			}
			if _, err := xmlPairs(p.value); err != nil {
				return nil, err
			}
			continue
		}
		sub = &xmlElement{tag: p.tag}
		if parent != nil {
			parent.children = append(parent.children, sub)
		}
		switch v := p.value.(type) {
		case string, Markup, bool, int64, float64:
			sub.text, sub.hasText = Str(v), true
			continue
		case *Map:
			sub.attrs = &Map{}
			for k, item := range v.All() {
				switch item.(type) {
				case *Map, *List:
				default:
					sub.attrs.Set(Str(k), Str(item))
				}
			}
		}
		inner, err := xmlPairs(p.value)
		if err != nil {
			return nil, err
		}
		for _, q := range inner {
			switch q.value.(type) {
			case *Map, *List:
				if _, err := xmlTree([]xmlPair{q}, sub, depth+1); err != nil {
					return nil, err
				}
			}
		}
	}
	return sub, nil
}

func xmlEscape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;", ">", "&gt;").Replace(s)
}

func (e *xmlElement) write(b *strings.Builder, indent string) {
	b.WriteString(indent + "<" + e.tag)
	for k, v := range e.attrs.All() {
		b.WriteString(" " + k.(string) + `="` + xmlEscape(v.(string)) + `"`)
	}
	switch {
	case len(e.children) > 0:
		b.WriteString(">\n")
		if e.text != "" {
			b.WriteString(indent + " " + xmlEscape(e.text) + "\n")
		}
		for _, c := range e.children {
			c.write(b, indent+" ")
		}
		b.WriteString(indent + "</" + e.tag + ">\n")
	case e.text != "":
		b.WriteString(">" + xmlEscape(e.text) + "</" + e.tag + ">\n")
	default:
		b.WriteString("/>\n")
	}
}
