// Module uci: OpenWrt's configuration, the files of /etc/config. They are read and
// written here, whole or not at all; a change is in force for the service when it
// is reloaded (service.reload network).
package main

import (
	"context"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

func uciModule() Module {
	return Module{
		Doc: "Read and change the configuration of OpenWrt. A path is package.section.option; a section may be\n@type[n]. confdir is another directory than /etc/config.",
		Virtual: func(context.Context, *Call) (bool, string) {
			return isDir("/etc/config") || which("uci") != "", "the uci module needs OpenWrt's /etc/config"
		},
		Funcs: Funcs{
			"get":      {run: uciGet, doc: "Return an option, a section or a package; None if it is not there.\n\nCLI Example:\n\n    salt '*' uci.get network.lan.ipaddr"},
			"set":      {run: uciSet, doc: "Set an option (a list makes a list), or make a section: uci.set network.guest interface.\n\nCLI Example:\n\n    salt '*' uci.set network.lan.ipaddr 192.168.7.1"},
			"add":      {run: uciAdd, doc: "Add a section of a type without a name, with options, and return how to call it.\n\nCLI Example:\n\n    salt '*' uci.add firewall rule name=ssh src=wan dest_port=22 target=ACCEPT"},
			"add_list": {run: uciAddList, doc: "Add a value to a list; say whether it was not in it."},
			"del_list": {run: uciDelList, doc: "Remove a value from a list; say whether it was in it."},
			"delete":   {run: uciDelete, doc: "Remove an option or a section; say whether it was there."},
			"rename":   {run: uciRename, doc: "Give a section or an option another name."},
			"show":     {run: uciShow, doc: "Return a package, or all, as a mapping of sections."},
			"packages": {run: uciPackages, doc: "List the packages."},
			"export":   {run: uciExport, doc: "Return a package as its file would be written."},
		},
	}
}

// uciOption is an option, or a list.
type uciOption struct {
	name   string
	values []string
	list   bool
}

// uciSection is a section; name is "" if it has none.
type uciSection struct {
	kind, name string
	options    []uciOption
}

func (s *uciSection) find(name string) *uciOption {
	for i := range s.options {
		if s.options[i].name == name {
			return &s.options[i]
		}
	}
	return nil
}

func (o *uciOption) value() any {
	if o.list {
		return Strings(o.values)
	}
	return o.values[0]
}

// parseUci reads a package. The error names the line.
func parseUci(text string) ([]*uciSection, error) {
	var out []*uciSection
	for n, line := range pyLines(text, false) {
		words, err := uciWords(line)
		if err != nil {
			return nil, ExecErrorf("line %d: %s", n+1, err)
		}
		if len(words) == 0 {
			continue
		}
		bad := ExecErrorf("line %d: %s is not understood", n+1, Repr(strings.TrimSpace(line)))
		switch words[0] {
		case "package":
		case "config":
			if len(words) < 2 || len(words) > 3 {
				return nil, bad
			}
			s := &uciSection{kind: words[1]}
			if len(words) == 3 {
				s.name = words[2]
			}
			out = append(out, s)
		case "option", "list":
			if len(words) != 3 || len(out) == 0 {
				return nil, bad
			}
			s := out[len(out)-1]
			o := s.find(words[1])
			switch {
			case o == nil:
				s.options = append(s.options, uciOption{words[1], []string{words[2]}, words[0] == "list"})
			case words[0] == "list":
				o.values, o.list = append(o.values, words[2]), true
			default:
				o.values, o.list = []string{words[2]}, false
			}
		default:
			return nil, bad
		}
	}
	return out, nil
}

// uciWords splits a line into words with quotes of both kinds; # begins a comment.
func uciWords(line string) ([]string, error) {
	var words []string
	var cur strings.Builder
	in := false
	for i := 0; i < len(line); i++ {
		switch ch := line[i]; {
		case ch == '\'' || ch == '"':
			end := i + 1
			for end < len(line) && line[end] != ch {
				if ch == '"' && line[end] == '\\' && end+1 < len(line) {
					end++
				}
				cur.WriteByte(line[end])
				end++
			}
			if end >= len(line) {
				return nil, ExecErrorf("a quote has no end")
			}
			i, in = end, true
		case ch == '\\' && i+1 < len(line):
			i++
			cur.WriteByte(line[i])
			in = true
		case ch == ' ' || ch == '\t':
			if in {
				words = append(words, cur.String())
				cur.Reset()
				in = false
			}
		case ch == '#' && !in:
			return words, nil
		default:
			cur.WriteByte(ch)
			in = true
		}
	}
	if in {
		words = append(words, cur.String())
	}
	return words, nil
}

func uciQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// uciText writes a package as uci does.
func uciText(sections []*uciSection) string {
	var b strings.Builder
	for _, s := range sections {
		b.WriteString("\nconfig " + s.kind)
		if s.name != "" {
			b.WriteString(" " + uciQuote(s.name))
		}
		b.WriteString("\n")
		for _, o := range s.options {
			word := "option"
			if o.list {
				word = "list"
			}
			for _, v := range o.values {
				b.WriteString("\t" + word + " " + o.name + " " + uciQuote(v) + "\n")
			}
		}
	}
	return b.String() + "\n"
}

// uciFile is a package that was read.
type uciFile struct {
	path     string
	sections []*uciSection
}

func uciDir(v any) string {
	if Truth(v) {
		return Str(v)
	}
	return "/etc/config"
}

func readUci(confdir any, name string, mayMiss bool) (*uciFile, error) {
	if name == "" || strings.ContainsAny(name, "/\x00") || strings.HasPrefix(name, ".") {
		return nil, InvocationErrorf("%s is no name of a package", Repr(name))
	}
	f := &uciFile{path: filepath.Join(uciDir(confdir), name)}
	p, err := os.ReadFile(f.path)
	if os.IsNotExist(err) && mayMiss {
		return f, nil
	}
	if err != nil {
		return nil, ExecErrorf("cannot read the package %s: %s", name, osErrorText(err))
	}
	if f.sections, err = parseUci(string(p)); err != nil {
		return nil, ExecErrorf("%s: %s", f.path, err)
	}
	return f, nil
}

func (f *uciFile) write() error {
	if err := replaceSystemFile(f.path, []byte(uciText(f.sections)), 0o600); err != nil {
		return osError(err)
	}
	return nil
}

// section finds a section by its name, or by @type[n]; n may count from the end.
func (f *uciFile) section(name string) *uciSection {
	if rest, ok := strings.CutPrefix(name, "@"); ok {
		kind, index, ok := strings.Cut(strings.TrimSuffix(rest, "]"), "[")
		n, err := strconv.Atoi(index)
		if !ok || err != nil {
			return nil
		}
		var all []*uciSection
		for _, s := range f.sections {
			if s.kind == kind {
				all = append(all, s)
			}
		}
		if n < 0 {
			n += len(all)
		}
		if n < 0 || n >= len(all) {
			return nil
		}
		return all[n]
	}
	for _, s := range f.sections {
		if s.name == name {
			return s
		}
	}
	return nil
}

// nameOf is how a section is called.
func (f *uciFile) nameOf(s *uciSection) string {
	if s.name != "" {
		return s.name
	}
	n := 0
	for _, other := range f.sections {
		if other == s {
			break
		}
		if other.kind == s.kind {
			n++
		}
	}
	return "@" + s.kind + "[" + strconv.Itoa(n) + "]"
}

func (s *uciSection) asMap() *Map {
	m := NewMap(".type", s.kind)
	for i := range s.options {
		m.Set(s.options[i].name, s.options[i].value())
	}
	return m
}

func (f *uciFile) asMap() *Map {
	m := &Map{}
	for _, s := range f.sections {
		m.Set(f.nameOf(s), s.asMap())
	}
	return m
}

// uciPath splits package.section.option.
func uciPath(path string) (pkg, section, option string) {
	parts := strings.SplitN(path, ".", 3)
	for len(parts) < 3 {
		parts = append(parts, "")
	}
	return parts[0], parts[1], parts[2]
}

type uciPathArgs struct {
	Path    string
	Confdir any `def:"None"`
}

func uciGet(_ context.Context, _ *Call, a uciPathArgs) (any, error) {
	pkg, section, option := uciPath(a.Path)
	f, err := readUci(a.Confdir, pkg, true)
	if err != nil {
		return nil, err
	}
	if section == "" {
		return f.asMap(), nil
	}
	s := f.section(section)
	if s == nil {
		return nil, nil
	}
	if option == "" {
		return s.asMap(), nil
	}
	if o := s.find(option); o != nil {
		return o.value(), nil
	}
	return nil, nil
}

type uciValueArgs struct {
	Path    string
	Value   any
	Confdir any `def:"None"`
}

// usableUci refuses names and values that a file cannot hold.
func usableUci(names []string, values ...string) error {
	for _, n := range names {
		for _, r := range n {
			if r != '_' && r != '-' && !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
				return InvocationErrorf("%s is no name: only letters, digits, _ and - may stand in it", Repr(n))
			}
		}
	}
	for _, v := range values {
		if strings.ContainsAny(v, "\n\x00") {
			return InvocationErrorf("%s has a line break", Repr(v))
		}
	}
	return nil
}

func uciTexts(v any) []string {
	if b, ok := v.(bool); ok {
		if b {
			return []string{"1"}
		}
		return []string{"0"}
	}
	return namesOf(toItems(v))
}

func uciSet(_ context.Context, _ *Call, a uciValueArgs) (any, error) {
	pkg, section, option := uciPath(a.Path)
	if section == "" {
		return nil, InvocationErrorf("%s names no section", Repr(a.Path))
	}
	f, err := readUci(a.Confdir, pkg, true)
	if err != nil {
		return nil, err
	}
	values := uciTexts(a.Value)
	if err := usableUci([]string{option}, values...); err != nil {
		return nil, err
	}
	s := f.section(section)
	if option == "" {
		if err := usableUci([]string{section, values[0]}); err != nil {
			return nil, err
		}
		if s == nil {
			s = &uciSection{name: section}
			f.sections = append(f.sections, s)
		}
		s.kind = values[0]
		return true, f.write()
	}
	if s == nil {
		return nil, ExecErrorf("there is no section %s in %s; make it first: uci.set %s.%s <type>", section, pkg, pkg, section)
	}
	_, list := a.Value.(*List)
	o := s.find(option)
	switch {
	case len(values) == 0:
		return uciDelete(context.Background(), nil, uciPathArgs{a.Path, a.Confdir})
	case o == nil:
		s.options = append(s.options, uciOption{option, values, list})
	default:
		o.values, o.list = values, list
	}
	return true, f.write()
}

type uciAddArgs struct {
	Package string
	Type    string
	Confdir any  `def:"None"`
	Kwargs  *Map `arg:"**kwargs"`
}

func uciAdd(_ context.Context, _ *Call, a uciAddArgs) (any, error) {
	f, err := readUci(a.Confdir, a.Package, true)
	if err != nil {
		return nil, err
	}
	s := &uciSection{kind: a.Type}
	names := []string{a.Type}
	for k, v := range a.Kwargs.All() {
		if strings.HasPrefix(Str(k), "__") || v == nil {
			continue
		}
		_, list := v.(*List)
		values := uciTexts(v)
		if err := usableUci(nil, values...); err != nil {
			return nil, err
		}
		if len(values) > 0 {
			names = append(names, Str(k))
			s.options = append(s.options, uciOption{Str(k), values, list})
		}
	}
	if err := usableUci(names); err != nil {
		return nil, err
	}
	f.sections = append(f.sections, s)
	return f.nameOf(s), f.write()
}

// uciListOption finds the option of a list; the section must be there.
func uciListOption(a uciValueArgs) (*uciFile, *uciSection, string, error) {
	pkg, section, option := uciPath(a.Path)
	if option == "" {
		return nil, nil, "", InvocationErrorf("%s names no option", Repr(a.Path))
	}
	f, err := readUci(a.Confdir, pkg, false)
	if err != nil {
		return nil, nil, "", err
	}
	s := f.section(section)
	if s == nil {
		return nil, nil, "", ExecErrorf("there is no section %s in %s", section, pkg)
	}
	return f, s, option, usableUci([]string{option}, Str(a.Value))
}

func uciAddList(_ context.Context, _ *Call, a uciValueArgs) (any, error) {
	f, s, option, err := uciListOption(a)
	if err != nil {
		return nil, err
	}
	o := s.find(option)
	if o == nil {
		s.options = append(s.options, uciOption{option, []string{Str(a.Value)}, true})
		return true, f.write()
	}
	if hasString(o.values, Str(a.Value)) {
		return false, nil
	}
	o.values, o.list = append(o.values, Str(a.Value)), true
	return true, f.write()
}

func uciDelList(_ context.Context, _ *Call, a uciValueArgs) (any, error) {
	f, s, option, err := uciListOption(a)
	if err != nil {
		return nil, err
	}
	o := s.find(option)
	if o == nil || !hasString(o.values, Str(a.Value)) {
		return false, nil
	}
	if o.values = without(o.values, Str(a.Value)); len(o.values) == 0 {
		s.drop(option)
	}
	return true, f.write()
}

func (s *uciSection) drop(option string) bool {
	for i := range s.options {
		if s.options[i].name == option {
			s.options = append(s.options[:i:i], s.options[i+1:]...)
			return true
		}
	}
	return false
}

func uciDelete(_ context.Context, _ *Call, a uciPathArgs) (any, error) {
	pkg, section, option := uciPath(a.Path)
	if section == "" {
		return nil, InvocationErrorf("%s names no section", Repr(a.Path))
	}
	f, err := readUci(a.Confdir, pkg, true)
	if err != nil {
		return nil, err
	}
	s := f.section(section)
	if s == nil {
		return false, nil
	}
	if option != "" {
		if !s.drop(option) {
			return false, nil
		}
		return true, f.write()
	}
	for i := range f.sections {
		if f.sections[i] == s {
			f.sections = append(f.sections[:i:i], f.sections[i+1:]...)
			break
		}
	}
	return true, f.write()
}

type uciRenameArgs struct {
	Path    string
	Name    string
	Confdir any `def:"None"`
}

func uciRename(_ context.Context, _ *Call, a uciRenameArgs) (any, error) {
	pkg, section, option := uciPath(a.Path)
	f, err := readUci(a.Confdir, pkg, false)
	if err != nil {
		return nil, err
	}
	if err := usableUci([]string{a.Name}); err != nil || a.Name == "" {
		return false, err
	}
	s := f.section(section)
	if s == nil {
		return nil, ExecErrorf("there is no section %s in %s", section, pkg)
	}
	if option == "" {
		s.name = a.Name
		return true, f.write()
	}
	o := s.find(option)
	if o == nil {
		return nil, ExecErrorf("there is no option %s", a.Path)
	}
	o.name = a.Name
	return true, f.write()
}

type uciPackageArgs struct {
	Package any `def:"None"`
	Confdir any `def:"None"`
}

func uciNames(confdir any) []string {
	var out []string
	files, _ := os.ReadDir(uciDir(confdir))
	for _, f := range files {
		if !f.IsDir() && !strings.HasPrefix(f.Name(), ".") && !strings.Contains(f.Name(), ".") {
			out = append(out, f.Name())
		}
	}
	sort.Strings(out)
	return out
}

func uciShow(_ context.Context, _ *Call, a uciPackageArgs) (any, error) {
	if Truth(a.Package) {
		f, err := readUci(a.Confdir, Str(a.Package), false)
		if err != nil {
			return nil, err
		}
		return f.asMap(), nil
	}
	out := &Map{}
	for _, name := range uciNames(a.Confdir) {
		f, err := readUci(a.Confdir, name, false)
		if err != nil {
			return nil, err
		}
		out.Set(name, f.asMap())
	}
	return out, nil
}

type uciConfdirArgs struct {
	Confdir any `def:"None"`
}

func uciPackages(_ context.Context, _ *Call, a uciConfdirArgs) (any, error) {
	return Strings(uciNames(a.Confdir)), nil
}

func uciExport(_ context.Context, _ *Call, a uciPackageArgs) (any, error) {
	f, err := readUci(a.Confdir, Str(a.Package), false)
	if err != nil {
		return nil, err
	}
	return "package " + Str(a.Package) + "\n" + uciText(f.sections), nil
}
