// The default outputter: nested data with indentation.
package main

import (
	"math/big"
	"strings"
	"unicode/utf8"
)

type nestedWriter struct {
	o     OutputOptions
	c     palette
	lines []string
}

func outputNested(data any, o OutputOptions) (string, error) {
	w := nestedWriter{o: o, c: colours(o.Color)}
	w.show(data, o.BaseIndent, "")
	return strings.Join(w.lines, "\n"), nil
}

func (w *nestedWriter) line(indent int, colour, text, prefix, suffix string) {
	w.lines = append(w.lines, strings.Repeat(" ", indent)+colour+prefix+text+w.c.end+suffix)
}

// keyColour is the colour of keys and list marks: red where the job failed.
func (w *nestedWriter) keyColour(good string) string {
	if w.o.Retcode != 0 {
		return w.c.red
	}
	return good
}

func (w *nestedWriter) show(v any, indent int, prefix string) {
	if p, ok := v.([]byte); ok {
		if !utf8.Valid(p) {
			return // binary data has no text
		}
		v = string(p)
	}
	switch v := v.(type) {
	case nil, bool, int64, float64, *big.Int:
		w.line(indent, w.c.lightYellow, Repr(v), prefix, "")
	case string:
		for i, l := range pyLines(v, false) {
			if i > 0 {
				prefix = strings.Repeat(" ", utf8.RuneCountInString(prefix))
			}
			w.line(indent, w.c.green, w.o.safe(l), prefix, "")
		}
	case *List:
		w.list(v.Items, indent)
	case Tuple:
		w.list(v, indent)
	case *Map:
		if indent > 0 {
			w.line(indent, w.keyColour(w.c.cyan), "----------", "", "")
		}
		m, keys := sortedForDisplay(v)
		for _, k := range keys {
			w.line(indent, w.keyColour(w.c.cyan), Str(k), prefix, ":")
			w.show(m.Value(k), indent+4, "")
		}
	}
}

func (w *nestedWriter) list(items []any, indent int) {
	for _, item := range items {
		switch item.(type) {
		case *List, Tuple:
			w.line(indent, w.keyColour(w.c.green), "|_", "", "")
			w.show(item, indent+2, "- ")
		case *Map:
			w.line(indent, w.keyColour(w.c.green), "|_", "", "")
			w.show(item, indent+2, "")
		default:
			w.show(item, indent, "- ")
		}
	}
}
