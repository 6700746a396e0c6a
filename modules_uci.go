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
	sc := &uciScanner{text: text, line: 1}
	var p uciPackage
	for {
		words, at, err := sc.statement()
		if err == nil && words == nil {
			return p.sections, nil
		}
		if err == nil {
			err = p.add(words)
		}
		if err != nil {
			return nil, ExecErrorf("line %d: %s", at, err)
		}
	}
}

// uciKeyword is the word of a statement, which may be its first letter.
func uciKeyword(word string) string {
	for _, k := range []string{"package", "config", "option", "list"} {
		if word == k || word == k[:1] {
			return k
		}
	}
	return ""
}

// uciPackage is a package that is being read, with the section that options go into.
type uciPackage struct {
	sections []*uciSection
	open     *uciSection
}

// add adds what one statement says.
func (p *uciPackage) add(words []string) error {
	args := words[1:]
	keyword := uciKeyword(words[0])
	most := 2
	if keyword == "package" {
		most = 1
	}
	switch {
	case keyword == "":
		return ExecErrorf("%s is no keyword of uci", Repr(words[0]))
	case len(args) == 0 || args[0] == "":
		return ExecErrorf("%s needs more words", keyword)
	case len(args) > most && strings.Join(args[most:], "") != "":
		return ExecErrorf("%s has too many words", keyword)
	}
	args = append(args, "")
	switch keyword {
	case "package":
		return usableUciName(strings.ReplaceAll(args[0], "-", "_"))
	case "config":
		return p.section(args[0], args[1])
	}
	if p.open == nil {
		return ExecErrorf("%s stands before the first section", keyword)
	}
	if err := usableUciName(args[0]); err != nil {
		return err
	}
	p.open.put(args[0], args[1], keyword == "list")
	return nil
}

// section opens a section; one of a name that was there goes on.
func (p *uciPackage) section(kind, name string) error {
	if err := usableUciType(kind); err != nil {
		return err
	}
	if name != "" {
		if err := usableUciName(name); err != nil {
			return err
		}
		for _, s := range p.sections {
			if s.name == name {
				p.open = s
				if s.kind != kind {
					return ExecErrorf("the section %s is of type %s already", name, s.kind)
				}
				return nil
			}
		}
	}
	p.open = &uciSection{kind: kind, name: name}
	p.sections = append(p.sections, p.open)
	return nil
}

// put sets an option or adds to a list. An option without a value is none.
func (s *uciSection) put(name, value string, list bool) {
	o := s.find(name)
	switch {
	case o == nil && (list || value != ""):
		s.options = append(s.options, uciOption{name, []string{value}, list})
	case o == nil:
	case list:
		o.values, o.list = append(o.values, value), true
	case value == "":
		s.remove(name)
	default:
		o.values, o.list = []string{value}, false
	}
}

func (s *uciSection) remove(name string) {
	for i := range s.options {
		if s.options[i].name == name {
			s.options = append(s.options[:i], s.options[i+1:]...)
			return
		}
	}
}

// uciScanner splits a file into statements: lines, or parts of them between
// semicolons. Words may be in quotes of both kinds, which may go on over lines;
// # begins a comment.
type uciScanner struct {
	text string
	at   int
	line int
}

// statement is the words of the next one and the line it begins on; no words at
// the end of the file.
func (sc *uciScanner) statement() (words []string, line int, err error) {
	for sc.at < len(sc.text) {
		switch ch := sc.text[sc.at]; {
		case ch == '\n':
			sc.at++
			sc.line++
			if words != nil {
				return words, line, nil
			}
		case ch == ';':
			sc.at++
			if words != nil {
				return words, line, nil
			}
		case ch == '#':
			sc.skipLine()
		case ch == ' ' || ch == '\t' || ch == '\r' || ch == '\v' || ch == '\f':
			sc.at++
		default:
			if words == nil {
				line = sc.line
			}
			word, err := sc.word()
			if err != nil {
				return nil, line, err
			}
			words = append(words, word)
		}
	}
	return words, line, nil
}

func (sc *uciScanner) skipLine() {
	for sc.at < len(sc.text) && sc.text[sc.at] != '\n' {
		sc.at++
	}
}

// word reads one word; it ends at a blank, a semicolon or a comment.
func (sc *uciScanner) word() (string, error) {
	var b strings.Builder
	for sc.at < len(sc.text) {
		switch ch := sc.text[sc.at]; ch {
		case '\'', '"':
			if err := sc.quoted(&b, ch); err != nil {
				return "", err
			}
		case '\\':
			sc.escaped(&b)
		case ' ', '\t', '\r', '\v', '\f', '\n', ';':
			return b.String(), nil
		case '#':
			sc.skipLine()
			return b.String(), nil
		default:
			b.WriteByte(ch)
			sc.at++
		}
	}
	return b.String(), nil
}

func (sc *uciScanner) quoted(b *strings.Builder, quote byte) error {
	sc.at++
	for sc.at < len(sc.text) {
		switch ch := sc.text[sc.at]; {
		case ch == quote:
			sc.at++
			return nil
		case ch == '\\' && quote == '"':
			sc.escaped(b)
		default:
			if ch == '\n' {
				sc.line++
			}
			b.WriteByte(ch)
			sc.at++
		}
	}
	return ExecErrorf("a quote has no end")
}

// escaped reads what follows a backslash; a line that ends with one goes on.
func (sc *uciScanner) escaped(b *strings.Builder) {
	sc.at++
	rest := sc.text[sc.at:]
	switch {
	case rest == "":
	case rest[0] == '\n':
		sc.at++
		sc.line++
	case strings.HasPrefix(rest, "\r\n"):
		sc.at += 2
		sc.line++
	default:
		b.WriteByte(rest[0])
		sc.at++
	}
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

// usableUciName refuses names that uci does not take, for options and sections.
func usableUciName(name string) error {
	for _, r := range name {
		if r != '_' && !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return InvocationErrorf("%s is no name: only letters, digits and _ may stand in it", Repr(name))
		}
	}
	if name == "" {
		return InvocationErrorf("a name is empty")
	}
	return nil
}

// usableUciType refuses types of sections with blanks and the like.
func usableUciType(kind string) error {
	for _, r := range kind {
		if r < 33 || r > 126 {
			return InvocationErrorf("%s is no type of a section", Repr(kind))
		}
	}
	if kind == "" {
		return InvocationErrorf("a section has no type")
	}
	return nil
}

// usableUciValues refuses values with control characters.
func usableUciValues(values []string) error {
	for _, v := range values {
		for _, r := range v {
			if r < 32 && r != '\t' && r != '\n' && r != '\r' {
				return InvocationErrorf("%s has a character that uci does not take", Repr(v))
			}
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
	if err := usableUciValues(values); err != nil {
		return nil, err
	}
	s := f.section(section)
	if option == "" {
		if err := usableUciType(strings.Join(values, " ")); err != nil {
			return nil, err
		}
		if err := usableUciName(section); err != nil && s == nil {
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
	if err := usableUciName(option); err != nil {
		return nil, err
	}
	_, list := a.Value.(*List)
	o := s.find(option)
	switch {
	case len(values) == 0 || !list && values[0] == "":
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
	if err := usableUciType(a.Type); err != nil {
		return nil, err
	}
	s := &uciSection{kind: a.Type}
	for k, v := range a.Kwargs.All() {
		if strings.HasPrefix(Str(k), "__") || v == nil {
			continue
		}
		_, list := v.(*List)
		values := uciTexts(v)
		if err := usableUciValues(values); err != nil {
			return nil, err
		}
		if err := usableUciName(Str(k)); err != nil {
			return nil, err
		}
		if len(values) > 0 {
			s.options = append(s.options, uciOption{Str(k), values, list})
		}
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
	if err := usableUciName(option); err != nil {
		return nil, nil, "", err
	}
	return f, s, option, usableUciValues([]string{Str(a.Value)})
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
	if err := usableUciName(a.Name); err != nil {
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

// setUciHostname makes the name of a box last on OpenWrt, which keeps it in the
// package system. Boxes without that have nothing to do here.
func setUciHostname(confdir any, name string) error {
	if !isFile(filepath.Join(uciDir(confdir), "system")) {
		return nil
	}
	f, err := readUci(confdir, "system", false)
	if err != nil {
		return err
	}
	s := f.section("@system[0]")
	if s == nil {
		return nil
	}
	s.put("hostname", name, false)
	return f.write()
}
