// The module ini: options of files with sections, with their comments and order.
package main

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

func iniModule() Module {
	return Module{
		Doc: "Read and edit INI files.",
		Funcs: Funcs{
			"set_option":     {run: iniSetOption, doc: "Set options in sections of an INI file and return what changed.\n\nCLI Example:\n\n    salt '*' ini.set_option /path/to/ini '{section_foo: {key: value}}'"},
			"get_option":     {run: iniGetOption, doc: "Return one option of a section, or None."},
			"remove_option":  {run: iniRemoveOption, doc: "Remove one option and return the value that it had."},
			"get_section":    {run: iniGetSection, doc: "Return the options of a section."},
			"remove_section": {run: iniRemoveSection, doc: "Remove a section and return the options that it had."},
			"get_ini":        {run: iniGetIni, doc: "Return all sections and options of an INI file."},
		},
	}
}

var (
	iniHeading  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\s*\[(.+?)\]\s*$`) })
	iniComment  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\s*(#|;)\s*(.*)`) })
	iniIndented = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\s+)(.*)`) })
)

// iniSection is one section, or the head of a file: texts and sections by name.
// Comments are entries of names that begin with #.
type iniSection struct {
	name    string
	sep     string
	tight   bool // no blanks around the separator
	options *regexp.Regexp
	names   []string
	values  map[string]any // string or *iniSection
}

func newIniSection(name, sep string, tight bool) *iniSection {
	return &iniSection{
		name: name, sep: sep, tight: tight, values: map[string]any{},
		options: regexp.MustCompile(`^(\s*)(.+?)\s*(` + regexp.QuoteMeta(sep) + `)\s*(.*)\s*`),
	}
}

func (s *iniSection) set(name string, v any) {
	if _, ok := s.values[name]; !ok {
		s.names = append(s.names, name)
	}
	s.values[name] = v
}

func (s *iniSection) pop(name string) (any, bool) {
	v, ok := s.values[name]
	if !ok {
		return nil, false
	}
	delete(s.values, name)
	for i, n := range s.names {
		if n == name {
			s.names = append(s.names[:i:i], s.names[i+1:]...)
			break
		}
	}
	return v, true
}

// read takes the options of one section from its lines.
func (s *iniSection) read(text string) {
	text = strings.Trim(text, "\n")
	if text == "" {
		return
	}
	comments, unknown, indent := 0, 0, ""
	for _, line := range strings.Split(text, "\n") {
		if iniComment().MatchString(line) {
			comments++
			s.put("#comment"+strconv.Itoa(comments), line)
			continue
		}
		if m := iniIndented().FindStringSubmatch(line); m != nil && len(s.names) > 0 && strings.ReplaceAll(m[1], "\t", "    ") > indent {
			last := s.names[len(s.names)-1]
			if before, ok := s.values[last].(string); ok {
				s.values[last] = before + "\n" + line
				continue
			}
		}
		if m := s.options.FindStringSubmatch(line); m != nil {
			indent = strings.ReplaceAll(m[1], "\t", "    ")
			s.put(m[2], m[4])
			continue
		}
		unknown++
		s.put("#unknown"+strconv.Itoa(unknown), line)
	}
}

// uncomment makes room for a new option: in the place of a comment that holds
// it, otherwise at the end.
func (s *iniSection) uncomment(name string) {
	at := -1
	for i, n := range s.names {
		if text, ok := s.values[n].(string); ok && strings.Contains(n, "#comment") {
			if m := s.options.FindStringSubmatch(strings.TrimLeft(text, "#")); m != nil && m[2] == name {
				at = i
				break
			}
		}
	}
	if at >= 0 {
		delete(s.values, s.names[at])
		s.names[at] = name
	} else {
		s.names = append(s.names, name)
	}
	s.values[name] = nil
}

// put sets one option and returns how it changed: nil where it did not.
func (s *iniSection) put(name string, value any) any {
	old, had := s.values[name]
	after := iniValue(value)
	if !had {
		if _, isText := value.(string); isText {
			s.uncomment(name)
		}
		s.set(name, value)
		return NewMap("before", nil, "after", after)
	}
	if sect, ok := old.(*iniSection); ok {
		upd, ok := value.(*iniSection)
		if !ok {
			s.values[name] = value
			return NewMap("before", iniValue(old), "after", after)
		}
		if changes := sect.putAll(upd); changes.Len() > 0 {
			return changes
		}
		return nil
	}
	if old == value {
		return nil
	}
	s.values[name] = value
	return NewMap("before", old, "after", after)
}

func (s *iniSection) putAll(from *iniSection) *Map {
	changes := &Map{}
	for _, name := range from.names {
		if ch := s.put(name, from.values[name]); ch != nil {
			changes.Set(name, ch)
		}
	}
	return changes
}

// sectionOf makes a section of a mapping.
func (s *iniSection) sectionOf(name string, m *Map) *iniSection {
	sect := newIniSection(name, s.sep, s.tight)
	for k, v := range m.All() {
		if sub, ok := v.(*Map); ok {
			sect.put(Str(k), sect.sectionOf(Str(k), sub))
		} else {
			sect.put(Str(k), Str(v))
		}
	}
	return sect
}

// iniValue is a value as it is returned.
func iniValue(v any) any {
	sect, ok := v.(*iniSection)
	if !ok {
		return v
	}
	out := &Map{}
	for _, name := range sect.names {
		out.Set(name, iniValue(sect.values[name]))
	}
	return out
}

// visible is a section without its comments.
func (s *iniSection) visible() *Map {
	out := &Map{}
	for _, name := range s.names {
		if !strings.HasPrefix(name, "#") {
			if sect, ok := s.values[name].(*iniSection); ok {
				out.Set(name, sect.visible())
			} else {
				out.Set(name, s.values[name])
			}
		}
	}
	return out
}

// write appends the lines of a section, its sections last.
func (s *iniSection) write(b *strings.Builder, head bool) {
	if !head {
		b.WriteString("\n[" + s.name + "]\n")
	}
	for _, name := range s.names {
		text, ok := s.values[name].(string)
		switch {
		case !ok:
		case iniComment().MatchString(name):
			b.WriteString(text + "\n")
		default:
			// A separator of blanks shrinks from line to line, as in Salt.
			switch {
			case strings.Trim(s.sep, " ") == "":
				s.sep = " "
			case s.tight:
				s.sep = pyStrip(s.sep)
			default:
				s.sep = " " + pyStrip(s.sep) + " "
			}
			b.WriteString(name + s.sep + text + "\n")
		}
	}
	for _, name := range s.names {
		if sect, ok := s.values[name].(*iniSection); ok {
			sect.write(b, false)
		}
	}
}

// iniFile says which file and how it is written.
type iniFile struct {
	path     string
	sep      string
	encoding any
	tight    bool
}

func (f iniFile) load(c *Call) (*iniSection, error) {
	head := newIniSection(f.path, f.sep, f.tight)
	data, err := os.ReadFile(f.path)
	if err != nil {
		if os.IsNotExist(err) || Truth(c.Opts.Value("test")) {
			return head, nil
		}
		return nil, ExecErrorf("Unable to open file '%s'. Exception: %s", f.path, osErrorText(err))
	}
	encoding := "utf-8"
	if f.encoding != nil {
		encoding = Str(f.encoding)
	}
	text, _ := decodeText(data, encoding)
	text = strings.Join(pyLines(text, false), "\n")
	at, section := 0, head
	add := func(part string) {
		section.read(part)
		if section != head {
			head.put(section.name, section)
		}
	}
	for _, m := range iniHeading().FindAllStringSubmatchIndex(text, -1) {
		add(text[at:m[0]])
		section, at = newIniSection(text[m[2]:m[3]], f.sep, f.tight), m[1]
	}
	add(text[at:])
	return head, nil
}

func (f iniFile) save(s *iniSection) error {
	var b strings.Builder
	s.write(&b, true)
	out := []byte(strings.TrimLeft(b.String(), "\n"))
	if f.encoding != nil {
		switch strings.ReplaceAll(strings.ToLower(Str(f.encoding)), "_", "-") {
		case "utf-8", "utf8":
		case "latin-1", "latin1", "iso-8859-1", "iso8859-1", "ascii", "us-ascii":
			narrow := make([]byte, 0, len(out))
			for _, r := range string(out) {
				if r > 0xff {
					return OtherErrorf("UnicodeEncodeError", "'%s' codec can't encode character %s", Str(f.encoding), Repr(string(r)))
				}
				narrow = append(narrow, byte(r))
			}
			out = narrow
		default:
			return OtherErrorf("LookupError", "unknown encoding: %s", Str(f.encoding))
		}
	}
	if err := replaceAtomically(realPath(f.path), out); err != nil {
		// The error is about a file beside the one that was meant.
		text := err.Error()
		var errno syscall.Errno
		if errors.As(err, &errno) {
			text = (&startError{errno, f.path}).Error()
		}
		return ExecErrorf("Unable to write file '%s'. Exception: %s", f.path, text)
	}
	return nil
}

type iniSetArgs struct {
	File      string `arg:"file_name"`
	Sections  any    `def:"None"`
	Separator string `def:"'='"`
	Encoding  any    `def:"None"`
	NoSpaces  bool   `arg:"no_spaces" def:"False"`
}

func iniSetOption(_ context.Context, c *Call, a iniSetArgs) (any, error) {
	f := iniFile{a.File, a.Separator, a.Encoding, a.NoSpaces}
	head, err := f.load(c)
	if err != nil {
		return nil, err
	}
	if !Truth(a.Sections) {
		a.Sections = &Map{}
	}
	m, ok := a.Sections.(*Map)
	if !ok {
		return nil, OtherErrorf("AttributeError", "'%s' object has no attribute 'items'", TypeName(a.Sections))
	}
	changes := &Map{}
	for k, v := range m.All() {
		var value any = Str(v)
		if sub, ok := v.(*Map); ok {
			value = head.sectionOf(Str(k), sub)
		} else if _, ok := head.values[Str(k)].(*iniSection); ok {
			return nil, OtherErrorf("AttributeError", "'str' object has no attribute 'items'")
		}
		if ch := head.put(Str(k), value); ch != nil {
			changes.Set(k, ch)
		}
	}
	return changes, f.save(head)
}

type iniOptionArgs struct {
	File      string `arg:"file_name"`
	Section   any
	Option    string
	Separator string `def:"'='"`
	Encoding  any    `def:"None"`
}

func iniGetOption(_ context.Context, c *Call, a iniOptionArgs) (any, error) {
	head, err := iniFile{a.File, a.Separator, a.Encoding, false}.load(c)
	if err != nil {
		return nil, err
	}
	if !Truth(a.Section) {
		return iniValue(head.values[a.Option]), nil
	}
	if sect, ok := head.values[Str(a.Section)].(*iniSection); ok {
		return iniValue(sect.values[a.Option]), nil
	}
	return nil, nil
}

func iniRemoveOption(_ context.Context, c *Call, a iniOptionArgs) (any, error) {
	f := iniFile{a.File, a.Separator, a.Encoding, false}
	head, err := f.load(c)
	if err != nil {
		return nil, err
	}
	from := head
	if sect, ok := head.values[Str(a.Section)].(*iniSection); ok {
		from = sect
	}
	v, _ := from.pop(a.Option)
	return iniValue(v), f.save(head)
}

type iniSectionArgs struct {
	File      string `arg:"file_name"`
	Section   string
	Separator string `def:"'='"`
	Encoding  any    `def:"None"`
}

func iniGetSection(_ context.Context, c *Call, a iniSectionArgs) (any, error) {
	head, err := iniFile{a.File, a.Separator, a.Encoding, false}.load(c)
	if err != nil {
		return nil, err
	}
	switch v := head.values[a.Section].(type) {
	case *iniSection:
		return v.visible(), nil
	case string:
		return nil, OtherErrorf("AttributeError", "'str' object has no attribute 'items'")
	}
	return &Map{}, nil
}

func iniRemoveSection(_ context.Context, c *Call, a iniSectionArgs) (any, error) {
	f := iniFile{a.File, a.Separator, a.Encoding, false}
	head, err := f.load(c)
	if err != nil {
		return nil, err
	}
	v, ok := head.pop(a.Section)
	if !ok {
		return nil, nil
	}
	if err := f.save(head); err != nil {
		return nil, err
	}
	if sect, ok := v.(*iniSection); ok {
		return sect.visible(), nil
	}
	return nil, OtherErrorf("AttributeError", "'str' object has no attribute 'items'")
}

type iniFileArgs struct {
	File      string `arg:"file_name"`
	Separator string `def:"'='"`
	Encoding  any    `def:"None"`
}

func iniGetIni(_ context.Context, c *Call, a iniFileArgs) (any, error) {
	head, err := iniFile{a.File, a.Separator, a.Encoding, false}.load(c)
	if err != nil {
		return nil, err
	}
	return head.visible(), nil
}
