// Tables: lists of mappings or of lists as columns, and the durations of states.
package main

import (
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"
)

// tableWriter draws tables into the structure around them.
type tableWriter struct {
	c                          palette
	lines                      []string
	header, separate           bool
	row, delim, prefix, suffix string
	justify                    string
	width                      int
	rowsKey, labelsKey         string
}

func outputTable(data any, o OutputOptions) (string, error) { return table(data, o, "", "") }

func table(data any, o OutputOptions, rowsKey, labelsKey string) (string, error) {
	t := tableWriter{c: colours(o.Color), header: true, separate: true, row: "-", delim: " | ", prefix: "| ", suffix: " |", justify: "center", width: 50}
	set := func(name string, into *string) {
		if v := o.Table.Str(name); v != "" {
			*into = v
		}
	}
	set("row_delimiter", &t.row)
	set("delim", &t.delim)
	set("prefix", &t.prefix)
	set("suffix", &t.suffix)
	set("justify", &t.justify)
	set("rows_key", &t.rowsKey)
	set("labels_key", &t.labelsKey)
	if n, ok := o.Table.Value("width").(int64); ok {
		t.width = int(n)
	}
	if v, ok := o.Table.Value("has_header").(bool); ok {
		t.header = v
	}
	if v, ok := o.Table.Value("separate_rows").(bool); ok {
		t.separate = v
	}
	if rowsKey != "" {
		t.rowsKey, t.labelsKey = rowsKey, labelsKey
	}
	indent, _ := o.Table.Value("nested_indent").(int64)
	if err := t.show(data, int(indent)); err != nil {
		return "", err
	}
	return strings.Join(t.lines, "\n"), nil
}

func (t *tableWriter) line(indent int, colour, text, suffix string) {
	t.lines = append(t.lines, strings.Repeat(" ", indent)+colour+text+t.c.end+suffix)
}

func sequence(v any) ([]any, bool) {
	switch v := v.(type) {
	case *List:
		return v.Items, true
	case Tuple:
		return v, true
	}
	return nil, false
}

func (t *tableWriter) show(v any, indent int) error {
	if items, ok := sequence(v); ok {
		if t.rowsKey != "" {
			return nil
		}
		return t.rows(items, nil, indent)
	}
	m, ok := v.(*Map)
	if !ok {
		return nil
	}
	if t.rowsKey != "" && !m.Has(t.rowsKey) {
		for _, k := range m.SortedKeys() {
			if err := t.show(m.Value(k), indent); err != nil {
				return err
			}
		}
		return nil
	}
	for _, k := range m.SortedKeys() {
		if t.rowsKey != "" && k != t.rowsKey {
			continue
		}
		if t.rowsKey == "" {
			t.line(indent, t.c.darkGray, Str(k), ":")
			t.line(indent, t.c.darkGray, "----------", "")
		}
		value := m.Value(k)
		items, ok := sequence(value)
		if !ok {
			if err := t.show(value, indent+4); err != nil {
				return err
			}
			continue
		}
		var labels any
		if t.labelsKey != "" {
			labels = m.Value(t.labelsKey)
		}
		if err := t.rows(items, labels, indent); err != nil {
			return err
		}
	}
	return nil
}

// rows draws one table; rows of different kinds are none.
func (t *tableWriter) rows(items []any, labels any, indent int) error {
	if len(items) == 0 {
		return nil
	}
	for _, item := range items[1:] {
		if TypeName(item) != TypeName(items[0]) {
			return nil
		}
	}
	var head []string
	if l, ok := sequence(labels); ok {
		for _, item := range l {
			head = append(head, Str(item))
		}
	} else if m, ok := labels.(*Map); ok {
		for _, k := range m.SortedKeys() {
			head = append(head, Str(m.Value(k)))
		}
	}
	var rows [][]string
	switch first := items[0].(type) {
	case *Map:
		if len(head) == 0 {
			for _, k := range first.SortedKeys() {
				head = append(head, titleCase(strings.ReplaceAll(Str(k), "_", " ")))
			}
		}
		for _, item := range items {
			var row []string
			m := item.(*Map)
			for _, k := range m.SortedKeys() {
				row = append(row, Str(m.Value(k)))
			}
			rows = append(rows, row)
		}
	case string:
		for _, item := range items {
			rows = append(rows, []string{item.(string)})
		}
	case *List, Tuple:
		for _, item := range items {
			cells, _ := sequence(item)
			var row []string
			for _, cell := range cells {
				text, ok := cell.(string)
				if !ok {
					return errCannotShow
				}
				row = append(row, text)
			}
			rows = append(rows, row)
		}
	default:
		return errCannotShow
	}
	if len(head) > 0 {
		rows = append([][]string{head}, rows...)
	}
	return t.draw(rows, indent+4, t.header && len(head) > 0)
}

// wrapCell breaks a cell between words where it is wider than a column may be.
func (t *tableWriter) wrapCell(text string) []string {
	words := strings.Split(text, " ")
	line := words[0]
	for _, word := range words[1:] {
		last := line[strings.LastIndexByte(line, '\n')+1:]
		first, _, _ := strings.Cut(word, "\n")
		if utf8.RuneCountInString(last)+utf8.RuneCountInString(first) >= t.width {
			line += "\n" + word
		} else {
			line += " " + word
		}
	}
	return strings.Split(line, "\n")
}

// draw sets the rows; all have as many columns as the shortest.
func (t *tableWriter) draw(rows [][]string, indent int, header bool) error {
	var logical [][][]string
	columns := -1
	for _, row := range rows {
		if len(row) == 0 {
			return errCannotShow
		}
		cells := make([][]string, len(row))
		height := 0
		for i, cell := range row {
			cells[i] = t.wrapCell(cell)
			if i == 0 || len(cells[i]) < height {
				height = len(cells[i])
			}
		}
		var physical [][]string
		for y := range height {
			line := make([]string, len(row))
			for i := range cells {
				line[i] = cells[i][y]
			}
			physical = append(physical, line)
		}
		if columns < 0 || len(row) < columns {
			columns = len(row)
		}
		logical = append(logical, physical)
	}
	widths := make([]int, columns)
	total := len(t.prefix) + len(t.suffix) + len(t.delim)*(columns-1)
	for _, physical := range logical {
		for _, line := range physical {
			for i := range widths {
				widths[i] = max(widths[i], utf8.RuneCountInString(line[i]))
			}
		}
	}
	for _, w := range widths {
		total += w
	}
	rule := strings.Repeat(t.row, total)
	if t.separate {
		t.line(indent, t.c.lightGray, rule, "")
	}
	for _, physical := range logical {
		for _, line := range physical {
			cells := make([]string, columns)
			for i := range cells {
				cells[i] = justifyText(line[i], widths[i], t.justify)
			}
			t.line(indent, t.c.white, t.prefix+strings.Join(cells, t.delim)+t.suffix, "")
		}
		if t.separate || header {
			t.line(indent, t.c.lightGray, rule, "")
			header = false
		}
	}
	return nil
}

// justifyText pads as Python's ljust, rjust and center do.
func justifyText(s string, width int, how string) string {
	pad := width - utf8.RuneCountInString(s)
	if pad <= 0 {
		return s
	}
	left := 0
	switch strings.ToLower(how) {
	case "right":
		left = pad
	case "center":
		left = pad/2 + pad&width&1
	case "middle": // as str.format does, which is not as str.center does
		left = pad / 2
	}
	return strings.Repeat(" ", left) + s + strings.Repeat(" ", pad-left)
}

// outputProfile shows how long each state took.
func outputProfile(data any, o OutputOptions) (string, error) {
	m, ok := data.(*Map)
	if !ok {
		return "", errCannotShow
	}
	const nameMax = 60
	type row struct {
		duration  float64
		name, fun string
	}
	var rows []row
	width := len("duration (ms)")
	for _, states := range m.All() {
		var ids []any
		sm, isMap := states.(*Map)
		if isMap {
			ids = sm.Keys()
		} else if items, ok := sequence(states); ok {
			ids = items
		} else if text, ok := states.(string); ok {
			for _, r := range text {
				ids = append(ids, string(r))
			}
		} else {
			return "", errCannotShow
		}
		for _, id := range ids {
			state := NewMap()
			if n, f, isInt, ok := number(id); ok && isInt && !isMap {
				// An item of a list that is also a place in it has a name.
				if items, _ := sequence(states); f < 0 || int(f) >= len(items) || !n.IsInt64() {
					return "", errCannotShow
				}
				state.Set("name", Str(id))
			}
			if isMap {
				if s, ok := sm.Value(id).(*Map); ok {
					state = s
				} else {
					state.Set("name", Str(id))
				}
			}
			parts := strings.Split(Str(id), "_|-")
			name, ok := state.Get("name")
			if !ok {
				name = state.Value("__id__")
			}
			text := "<>"
			if name != nil {
				text = Str(name)
			}
			if r := []rune(text); len(r) > nameMax {
				text = string(r[:nameMax-3]) + "..."
			}
			duration := -1.0
			if v, ok := state.Get("duration"); ok {
				duration = NewOptions(NewMap("d", v)).Float("d")
			}
			width = max(width, len(fmt.Sprintf("%.4f", duration)))
			rows = append(rows, row{duration, text, parts[0] + "." + parts[len(parts)-1]})
		}
	}
	sort.SliceStable(rows, func(i, j int) bool {
		a, b := rows[i], rows[j]
		if da, db := fmt.Sprintf("%*.4f", width, a.duration), fmt.Sprintf("%*.4f", width, b.duration); da != db {
			return da < db
		}
		if a.name != b.name {
			return a.name < b.name
		}
		return a.fun < b.fun
	})
	list := NewList()
	for _, r := range rows {
		list.Append(NewList(r.name, r.fun, fmt.Sprintf("%*.4f", width, r.duration)))
	}
	return table(NewMap("labels", NewList("name", "mod.fun", "duration (ms)"), "rows", list), o, "rows", "labels")
}
