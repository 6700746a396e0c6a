// Outputters: from a value to the text that a user sees.
//
// The law of this room: an outputter is a pure function of a value and
// OutputOptions; the text is Salt's byte for byte, since scripts read it. What
// an outputter cannot show is an error, and the caller falls back.
package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"unicode"
)

// OutputOptions is what the outputters take from configuration and options.
type OutputOptions struct {
	Color       bool
	KeepEscapes bool // let escape codes of the data through (strip_colors: False)
	Retcode     int  // of the minion whose return is shown
	Forced      string
	Static      bool
	Fun         string // the function whose return is shown
	HasIndent   bool   // output_indent is set, to Indent:
	Indent      any    // nil, "pretty" or a number
	BaseIndent  int    // where nested output begins
	MultiKey    bool   // salt-key shows keys of several masters

	StateOutput   string
	StateVerbose  bool
	StateDiff     bool
	StateProfile  bool
	StatePct      bool
	StateCompress bool
	StateTabular  any // false, true, or a format
	StateExclude  []string
	StateTerse    []string

	Table *Map // options out.table.*, by their last word

	Log *slog.Logger
	Own *Customs // what the users wrote, nil for none
}

// newOutputOptions takes the options of outputters from a configuration. colour
// says whether the output goes where colours can be seen.
func newOutputOptions(o *Options, terminal bool) OutputOptions {
	out := OutputOptions{
		Color:         o.Bool("color"),
		KeepEscapes:   o.Has("strip_colors") && !o.Bool("strip_colors"),
		Static:        o.Bool("static"),
		Fun:           o.Str("fun"),
		HasIndent:     o.Has("output_indent"),
		Indent:        o.Value("output_indent"),
		BaseIndent:    o.Int("nested_indent"),
		StateOutput:   "full",
		StateVerbose:  o.Bool("state_verbose"),
		StateDiff:     o.Bool("state_output_diff"),
		StateProfile:  o.Bool("state_output_profile"),
		StatePct:      o.Bool("state_output_pct"),
		StateCompress: o.Bool("state_compress_ids"),
		StateTabular:  o.Value("state_tabular"),
		StateExclude:  wordList(o.Value("state_output_exclude")),
		StateTerse:    wordList(o.Value("state_output_terse")),
		Table:         NewMap(),
	}
	if s := o.Str("state_output"); s != "" {
		out.StateOutput = strings.ToLower(s)
	}
	if name := o.Str("output"); name != "highstate" {
		out.Forced = name
	}
	if !o.Has("color") {
		out.Color = terminal
	}
	switch {
	case o.Bool("force_color"):
		out.Color = true
	case o.Bool("no_color"):
		out.Color = false
	}
	for k, v := range o.All().All() {
		if name, ok := k.(string); ok && strings.HasPrefix(name, "out.table.") {
			out.Table.Set(strings.TrimPrefix(name, "out.table."), v)
		}
	}
	return out
}

// wordList is a list of texts, or a text with commas.
func wordList(v any) []string {
	switch v := v.(type) {
	case string:
		return strings.Split(v, ",")
	case *List:
		return texts(v)
	}
	return nil
}

// outputter is the form of every outputter.
type outputter func(data any, o OutputOptions) (string, error)

// outputters is the table of them.
func outputters(name string) outputter {
	switch name {
	case "highstate":
		return outputHighstate
	case "json":
		return outputJSON
	case "key":
		return outputKey
	case "nested":
		return outputNested
	case "newline_values_only":
		return outputValues
	case "no_return":
		return outputNoReturn
	case "overstatestage":
		return outputStages
	case "pprint":
		return outputPprint
	case "profile":
		return outputProfile
	case "quiet":
		return func(any, OutputOptions) (string, error) { return "", nil }
	case "raw":
		return outputRaw
	case "table":
		return outputTable
	case "txt":
		return outputTxt
	case "yaml":
		return outputYAML
	}
	return nil
}

// errCannotShow is what an outputter answers for a value it is not made for.
var errCannotShow = errors.New("the data is not of the kind that it shows")

// outputError is a value that could not be shown with the outputter that the
// user asked for.
type outputError struct {
	name string
	err  error
}

func (e *outputError) Error() string {
	return fmt.Sprintf("outputter %s: %v: leave it out, or use nested, json or yaml", e.name, e.err)
}

func (e *outputError) Unwrap() error { return e.err }

// outputterName decides which outputter shows a return: the one that the user
// asked for, else the one that the return names.
func outputterName(fromReturn string, o OutputOptions) string {
	name := fromReturn
	if o.Forced != "" {
		name = o.Forced
	}
	if name == "" && o.Static && strings.HasPrefix(o.Fun, "state.") {
		name = "highstate"
	}
	switch name {
	case "":
		return "nested"
	case "text":
		return "txt"
	}
	return name
}

// Output makes the text of data with the outputter of that name, or nested
// where there is none. The text has no blank end, and may be empty.
func Output(name string, data any, o OutputOptions) (string, error) {
	name = outputterName(name, o)
	text, err := o.Own.outputter(o.Log, name, data, o)
	if err == nil {
		return pyRstrip(text), nil
	}
	f := outputters(name)
	switch {
	case !errors.Is(err, errNoOutputter):
		f = func(any, OutputOptions) (string, error) { return "", err }
	case f == nil:
		if name != "grains" && o.Log != nil {
			o.Log.Error(fmt.Sprintf("Invalid outputter %s specified, fall back to nested", name))
		}
		f = outputNested
	}
	text, err = f(data, o)
	if err != nil && o.Forced == "" {
		text, err = outputNested(data, o)
	}
	if err != nil {
		return "", &outputError{name, err}
	}
	return pyRstrip(text), nil
}

// palette is the colours of outputters; all are empty without colours.
type palette struct {
	darkGray, red, lightRed, green, lightGreen, yellow, lightYellow string
	blue, lightBlue, magenta, lightMagenta, cyan, lightGray, white  string
	end                                                             string
}

func colours(on bool) palette {
	if !on {
		return palette{}
	}
	return palette{
		darkGray: "\x1b[0;1;30m", red: "\x1b[0;31m", lightRed: "\x1b[0;1;31m",
		green: "\x1b[0;32m", lightGreen: "\x1b[0;1;32m", yellow: "\x1b[0;33m", lightYellow: "\x1b[0;1;33m",
		blue: "\x1b[0;34m", lightBlue: "\x1b[0;1;34m", magenta: "\x1b[0;35m", lightMagenta: "\x1b[0;1;35m",
		cyan: "\x1b[0;36m", lightGray: "\x1b[0;37m", white: "\x1b[0;1;37m", end: "\x1b[0;0m",
	}
}

// safe replaces escape characters, so that data does not write to the terminal.
func (o OutputOptions) safe(text string) string {
	if o.KeepEscapes {
		return text
	}
	return strings.ReplaceAll(text, "\x1b", "?")
}

// sortedForDisplay returns a map with the order in which it is shown. Keys of
// several kinds become texts, and of those that then are equal the last stays.
func sortedForDisplay(m *Map) (*Map, []any) {
	keys := m.Keys()
	if m.Class() != "" {
		return m, keys
	}
	for i := 1; i < len(keys); i++ {
		if _, err := Compare(keys[0], keys[i]); err != nil {
			byText := NewMap()
			for k, v := range m.All() {
				byText.Set(Str(k), v)
			}
			return byText, byText.SortedKeys()
		}
	}
	return m, m.SortedKeys()
}

func outputJSON(data any, o OutputOptions) (string, error) {
	opt := JSONOptions{Indent: 4}
	if o.HasIndent {
		switch n := o.Indent.(type) {
		case nil:
			opt.Indent = -1
		case int64:
			opt.Indent = max(int(n), -1)
		case string:
			if n != "pretty" {
				opt.Indent, opt.IndentText = 0, n
			}
			opt.SortKeys = n == "pretty"
		}
	}
	return EncodeJSON(data, opt), nil
}

func outputYAML(data any, o OutputOptions) (string, error) {
	opt := YAMLOptions{SortKeys: true}
	if n, ok := o.Indent.(int64); o.HasIndent && ok {
		if n < 0 {
			opt.Flow = YAMLInline
		} else {
			opt.Indent = int(n)
		}
	}
	// PyYAML has no form for a mapping of this class and writes NULL.
	if m, ok := data.(*Map); ok && m.Len() == 1 {
		if k, v := m.At(0); v != nil {
			if inner, ok := v.(*Map); ok && inner.Class() == "DefaultOrderedDict" {
				return strings.TrimSuffix(DumpYAML(NewMap(k, nil), opt), "null\n") + "NULL\n", nil
			}
		}
	}
	return DumpYAML(data, opt), nil
}

func outputRaw(data any, _ OutputOptions) (string, error) { return Str(data), nil }

func outputPprint(data any, o OutputOptions) (string, error) {
	indent := 1
	if n, ok := o.Indent.(int64); o.HasIndent && ok && n >= 0 {
		indent = int(n)
	}
	return pprint(data, indent), nil
}

func outputTxt(data any, _ OutputOptions) (string, error) {
	var b strings.Builder
	m, ok := data.(*Map)
	switch {
	case ok:
		for k, v := range m.All() {
			if text, ok := v.(string); ok {
				for _, line := range pyLines(text, false) {
					fmt.Fprintf(&b, "%s: %s\n", Str(k), line)
				}
				continue
			}
			fmt.Fprintf(&b, "%s: %s\n", Str(k), Str(v))
		}
	default:
		if text, ok := data.(string); ok {
			return text + "\n", nil
		}
		return pprint(data, 1) + "\n", nil
	}
	return b.String(), nil
}

func outputValues(data any, _ OutputOptions) (string, error) {
	m, ok := data.(*Map)
	if !ok {
		return "", errCannotShow
	}
	var lines []string
	for _, v := range m.All() {
		if l, ok := v.(*List); ok {
			lines = append(lines, texts(l)...)
			continue
		}
		lines = append(lines, Str(v))
	}
	return strings.Join(lines, "\n"), nil
}

// keySection is one state of keys: its name in the data, heading and colours.
type keySection struct{ name, title, heading, colour string }

// outputKey shows lists of keys, or of keys with fingerprints, by state.
func outputKey(data any, o OutputOptions) (string, error) {
	m, ok := data.(*Map)
	if !ok {
		return "", errCannotShow
	}
	c := colours(o.Color)
	sections := []keySection{
		{"local", "Local", c.lightMagenta, c.magenta},
		{"minions", "Accepted", c.lightGreen, c.green},
		{"minions_denied", "Denied", c.lightMagenta, c.magenta},
		{"minions_pre", "Unaccepted", c.lightRed, c.red},
		{"minions_rejected", "Rejected", c.lightBlue, c.blue},
	}
	indent := ""
	if o.MultiKey {
		indent = "    "
	}
	known := 0
	var b strings.Builder
	for _, s := range sections {
		v, ok := m.Get(s.name)
		if !ok {
			continue
		}
		known++
		fmt.Fprintf(&b, "%s%s%s Keys:%s\n", indent, s.heading, s.title, c.end)
		switch v := v.(type) {
		case *List:
			names := NewMap()
			for _, item := range v.Items {
				names.Set(Str(item), nil)
			}
			for _, k := range names.SortedKeys() {
				fmt.Fprintf(&b, "%s%s%s%s\n", indent, s.colour, o.safe(k.(string)), c.end)
			}
		case *Map:
			for _, k := range v.SortedKeys() {
				fmt.Fprintf(&b, "%s%s%s:  %s%s\n", indent, s.colour, o.safe(Str(k)), Str(v.Value(k)), c.end)
			}
		}
	}
	if known != m.Len() {
		return "", errCannotShow
	}
	return b.String(), nil
}

// outputNoReturn shows minions that did not answer.
func outputNoReturn(data any, o OutputOptions) (string, error) {
	c := colours(o.Color)
	var b strings.Builder
	var show func(v any, indent int)
	show = func(v any, indent int) {
		pad := strings.Repeat(" ", indent)
		switch v := v.(type) {
		case string:
			for _, line := range strings.Split(v, "\n") {
				b.WriteString(c.red + pad + line + c.end + "\n")
			}
		case *Map:
			m, keys := sortedForDisplay(v)
			for _, k := range keys {
				b.WriteString(c.cyan + pad + Str(k) + c.end + ":\n")
				show(m.Value(k), indent+4)
			}
		}
	}
	show(data, 0)
	return b.String(), nil
}

// outputStages shows a list of stages, each a mapping of mappings.
func outputStages(data any, o OutputOptions) (string, error) {
	l, ok := data.(*List)
	if !ok {
		return "", errCannotShow
	}
	c := colours(o.Color)
	var b strings.Builder
	for _, item := range l.Items {
		m, ok := item.(*Map)
		if !ok {
			return "", errCannotShow
		}
		for name, stage := range m.All() {
			fmt.Fprintf(&b, "%s%s: %s\n", c.lightBlue, Str(name), c.end)
			sm, ok := stage.(*Map)
			if !ok {
				return "", errCannotShow
			}
			for _, k := range sm.SortedKeys() {
				fmt.Fprintf(&b, "    %s%s: %s%s\n", c.lightBlue, Str(k), Str(sm.Value(k)), c.end)
			}
		}
	}
	return b.String(), nil
}

// titleCase is Python's str.title.
func titleCase(s string) string {
	prev := false
	return strings.Map(func(r rune) rune {
		letter := unicode.IsLetter(r)
		switch {
		case letter && !prev:
			r = unicode.ToTitle(r)
		case letter:
			r = unicode.ToLower(r)
		}
		prev = letter
		return r
	}, s)
}
