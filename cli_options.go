// Options of the command lines: one table for each program, and a parser with
// the habits of the one that Salt uses.
//
// The law of this file: parsing, usage errors, help, completion scripts and man
// pages all read the same table, so they cannot differ. Options and arguments
// may be mixed; `--` ends the options; long names may be shortened to a unique
// prefix; -t5, -t 5 and -vs are understood; -1 is an option, not a number.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// cliKind is what an option takes.
type cliKind uint8

const (
	optFlag   cliKind = iota // true when given
	optUnset                 // false when given
	optText                  // a text
	optInt                   // a whole number
	optFloat                 // a number
	optChoice                // one of choices
	optMany                  // a text, may be given several times
)

// cliOption is one option of a program. The dest is the name under which its
// value is found, and the name of the configuration option that it overrides.
type cliOption struct {
	short   string // "-t", or ""
	long    string // "--timeout", several separated by blanks
	dest    string // "" = the first long name with underscores
	kind    cliKind
	def     any
	meta    string // name of its value in help; "" = dest in capitals
	choices []string
	help    string
}

// cliGroup is a section of the help. Of the options of an exclusive group only
// one may be given.
type cliGroup struct {
	title     string
	about     string
	exclusive bool
	options   []cliOption
}

// cliProgram describes a command line.
type cliProgram struct {
	name   string
	usage  string // what follows the name in the usage line
	about  string
	config string // the configuration file it reads: master or minion
	groups []cliGroup
}

func (o cliOption) takesValue() bool { return o.kind != optFlag && o.kind != optUnset }

func (o cliOption) longs() []string { return strings.Fields(o.long) }

func (o cliOption) name() string {
	if o.dest != "" {
		return o.dest
	}
	return strings.ReplaceAll(strings.TrimPrefix(o.longs()[0], "--"), "-", "_")
}

func (o cliOption) metavar() string {
	if o.meta != "" {
		return o.meta
	}
	return strings.ToUpper(o.name())
}

// ParsedCLI is a command line after parsing: the value of every option, which
// of them were given, and the other arguments.
type ParsedCLI struct {
	prog   cliProgram
	values *Map
	given  map[string]bool
	Args   []string
}

// Value is the value of an option by its dest, its default if it was not given.
func (p *ParsedCLI) Value(dest string) any { return p.values.Value(dest) }

// Given says whether an option was given, on the command line or in a Saltfile.
func (p *ParsedCLI) Given(dest string) bool { return p.given[dest] }

// Str is the value as text; "" for none.
func (p *ParsedCLI) Str(dest string) string { return NewOptions(p.values).Str(dest) }

// Int is the value as a whole number.
func (p *ParsedCLI) Int(dest string) int { return NewOptions(p.values).Int(dest) }

// Float is the value as a number.
func (p *ParsedCLI) Float(dest string) float64 { return NewOptions(p.values).Float(dest) }

// Bool is the truth of the value.
func (p *ParsedCLI) Bool(dest string) bool { return Truth(p.values.Value(dest)) }

// List is the value of an option that may be given several times.
func (p *ParsedCLI) List(dest string) []string { return NewOptions(p.values).List(dest) }

// usageError is a command line that cannot be understood.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usageErrorf(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// UsageError writes an error as Salt's programs do and returns their exit code.
func (p *ParsedCLI) UsageError(std Stdio, format string, args ...any) int {
	return p.prog.usageError(std, fmt.Sprintf(format, args...))
}

func (c cliProgram) usageError(std Stdio, text string) int {
	fmt.Fprintf(std.Err, "%s\n%s: error: %s\n", c.usageLine(), c.name, text)
	return exitUsage
}

func (c cliProgram) usageLine() string {
	return fmt.Sprintf("Usage: %s [options]%s\n", c.name, prefixed(" ", c.usage))
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// PrintHelp writes the help of the program.
func (p *ParsedCLI) PrintHelp(w io.Writer) { io.WriteString(w, p.prog.help(terminalWidth(w))) }

// parseCLI parses the arguments of the program of that name. If done is true
// everything is said (help, version, an error) and code is the exit code.
func parseCLI(name string, args []string, std Stdio) (p *ParsedCLI, code int, done bool) {
	prog, ok := cliProgramNamed(name)
	if !ok {
		fmt.Fprintf(std.Err, "halite: no options are known for %s\n", name)
		return nil, exitUsage, true
	}
	p, err := prog.parse(args)
	if err != nil {
		return nil, prog.usageError(std, err.Error()), true
	}
	switch {
	case p.Bool("version"):
		io.WriteString(std.Out, versionLine(name))
		return nil, 0, true
	case p.Bool("help"):
		p.PrintHelp(std.Out)
		return nil, 0, true
	case p.Bool("versions_report"):
		io.WriteString(std.Out, versionsReport())
		return nil, 0, true
	}
	if p.Bool("args_stdin") {
		if err := p.readStdin(std.In); err != nil {
			return nil, prog.usageError(std, err.Error()), true
		}
	}
	if err := p.readSaltfile(); err != nil {
		return nil, prog.usageError(std, err.Error()), true
	}
	if err := p.checkExclusive(); err != nil {
		return nil, prog.usageError(std, err.Error()), true
	}
	return p, 0, false
}

// parse takes arguments apart; it knows nothing of files or streams. What ends
// the program (--help, --version) wins as soon as it is met.
func (c cliProgram) parse(args []string) (*ParsedCLI, error) {
	p := &ParsedCLI{prog: c, values: NewMap(), given: map[string]bool{}}
	short, long := map[string]cliOption{}, map[string]cliOption{}
	var names []string
	for _, g := range c.groups {
		for _, o := range g.options {
			if o.short != "" {
				short[o.short] = o
			}
			for _, l := range o.longs() {
				long[l] = o
				names = append(names, l)
			}
			p.values.Set(o.name(), o.defaultValue())
		}
	}
	sort.Strings(names)
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			p.Args = append(p.Args, args...)
			return p, nil
		case strings.HasPrefix(arg, "--"):
			name, value, hasValue := strings.Cut(arg, "=")
			full, err := matchLong(name, names)
			if err != nil {
				return nil, err
			}
			o := long[full]
			if !o.takesValue() {
				if hasValue {
					return nil, usageErrorf("%s option does not take a value", full)
				}
			} else if !hasValue {
				if len(args) == 0 {
					return nil, usageErrorf("%s option requires 1 argument", full)
				}
				value, args = args[0], args[1:]
			}
			if err := p.set(o, full, value); err != nil {
				return nil, err
			}
		case len(arg) > 1 && arg[0] == '-':
			rest := []rune(arg[1:])
			for i, r := range rest {
				name := "-" + string(r)
				o, ok := short[name]
				if !ok {
					return nil, usageErrorf("no such option: %s", name)
				}
				value := ""
				if o.takesValue() {
					if value = string(rest[i+1:]); value == "" {
						if len(args) == 0 {
							return nil, usageErrorf("%s option requires 1 argument", name)
						}
						value, args = args[0], args[1:]
					}
				}
				if err := p.set(o, name, value); err != nil {
					return nil, err
				}
				if o.takesValue() {
					break
				}
			}
		default:
			p.Args = append(p.Args, arg)
		}
		if p.Bool("help") || p.Bool("version") {
			return p, nil
		}
	}
	return p, nil
}

func (o cliOption) defaultValue() any {
	switch {
	case o.def != nil:
		return FromGo(o.def)
	case o.kind == optFlag:
		return false
	case o.kind == optUnset:
		return true
	case o.kind == optMany:
		return NewList()
	}
	return nil
}

// matchLong finds the option that a name, perhaps shortened, stands for.
func matchLong(name string, names []string) (string, error) {
	var found []string
	for _, n := range names {
		if n == name {
			return n, nil
		}
		if strings.HasPrefix(n, name) {
			found = append(found, n)
		}
	}
	switch len(found) {
	case 0:
		return "", usageErrorf("no such option: %s", name)
	case 1:
		return found[0], nil
	}
	return "", usageErrorf("ambiguous option: %s (%s?)", name, strings.Join(found, ", "))
}

// set puts the value of an option that was given under the name as typed.
func (p *ParsedCLI) set(o cliOption, as, text string) error {
	dest := o.name()
	p.given[dest] = true
	switch o.kind {
	case optFlag:
		p.values.Set(dest, true)
	case optUnset:
		p.values.Set(dest, false)
	case optInt:
		n, err := parseOptionInt(text)
		if err != nil {
			return usageErrorf("option %s: invalid integer value: %s", as, Repr(text))
		}
		p.values.Set(dest, n)
	case optFloat:
		f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil {
			return usageErrorf("option %s: invalid floating-point value: %s", as, Repr(text))
		}
		p.values.Set(dest, f)
	case optChoice:
		quoted := make([]string, len(o.choices))
		known := false
		for i, c := range o.choices {
			quoted[i] = Repr(c)
			known = known || c == text
		}
		if !known {
			return usageErrorf("option %s: invalid choice: %s (choose from %s)", as, Repr(text), strings.Join(quoted, ", "))
		}
		p.values.Set(dest, text)
	case optMany:
		l, _ := p.values.Value(dest).(*List)
		p.values.Set(dest, NewList(append(l.Items[:len(l.Items):len(l.Items)], text)...))
	default:
		p.values.Set(dest, text)
	}
	return nil
}

// parseOptionInt reads a number as the option parser of Salt does: 0x, 0b, and
// a leading 0 for octal.
func parseOptionInt(text string) (int64, error) {
	text = strings.TrimSpace(text)
	digits := strings.ToLower(text)
	switch {
	case strings.HasPrefix(digits, "0x"):
		return strconv.ParseInt(digits[2:], 16, 64)
	case strings.HasPrefix(digits, "0b"):
		return strconv.ParseInt(digits[2:], 2, 64)
	case len(digits) > 1 && digits[0] == '0':
		return strconv.ParseInt(digits, 8, 64)
	}
	return strconv.ParseInt(text, 10, 64)
}

// checkExclusive refuses several options of a group of which one may be given.
func (p *ParsedCLI) checkExclusive() error {
	for _, g := range p.prog.groups {
		if !g.exclusive {
			continue
		}
		var given []string
		for _, o := range g.options {
			if p.Bool(o.name()) {
				given = append(given, o.longs()[0])
			}
		}
		if len(given) > 1 {
			return usageErrorf("The options %s are mutually exclusive. Please only choose one of them", strings.Join(given, "/"))
		}
	}
	return nil
}

// readStdin takes further options and arguments, one a line.
func (p *ParsedCLI) readStdin(in io.Reader) error {
	src, err := io.ReadAll(in)
	if err != nil {
		return usageErrorf("read arguments from the standard input: %v", err)
	}
	var words []string
	for line := range strings.Lines(string(src)) {
		words = append(words, strings.TrimRight(line, "\r\n"))
	}
	more, err := p.prog.parse(words)
	if err != nil {
		return err
	}
	for name := range more.given {
		p.values.Set(name, more.values.Value(name))
		p.given[name] = true
	}
	p.Args = append(p.Args, more.Args...)
	return nil
}

// readSaltfile takes values for options that were not given from the section
// of this program in a Saltfile: the one that --saltfile or SALT_SALTFILE
// names, or ./Saltfile, or ~/.salt/Saltfile.
func (p *ParsedCLI) readSaltfile() error {
	path := p.Str("saltfile")
	if path == "" {
		path = os.Getenv("SALT_SALTFILE")
	}
	named := path != ""
	if !named {
		path = "Saltfile"
		if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
			home, err := os.UserHomeDir()
			if err != nil {
				return nil
			}
			path = filepath.Join(home, ".salt", "Saltfile")
		}
	}
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		if named {
			return usageErrorf("'%s' file does not exist.\n", path)
		}
		return nil
	}
	content, err := readConfigFile(path, nil)
	if err != nil {
		return err
	}
	section, _ := content.Value(p.prog.name).(*Map)
	for k, v := range section.All() {
		name, ok := k.(string)
		if !ok || p.given[name] {
			continue
		}
		p.values.Set(name, v)
		p.given[name] = true
	}
	return nil
}

// MergeInto lets options that were given win over the configuration, and the
// configuration over defaults of the command line.
func (p *ParsedCLI) MergeInto(o *Options) {
	for _, k := range p.values.Keys() {
		name := k.(string)
		if p.given[name] {
			v := p.values.Value(name)
			if name == "state_verbose" { // a text on the command line
				switch strings.ToLower(Str(v)) {
				case "true":
					v = true
				case "false":
					v = false
				}
			}
			o.Set(name, v)
			continue
		}
		if v, ok := o.m.Get(name); ok && v != nil {
			p.values.Set(name, v)
		}
	}
}

// ConfigFlags are the parts of the command line that loading needs.
func (p *ParsedCLI) ConfigFlags(std Stdio) ConfigFlags {
	dir := p.Str("config_dir")
	if dir == "" {
		dir = ConfigDirFromEnv()
	}
	dir = expandHome(dir)
	level := p.Str("log_level")
	if level == "" {
		level = "warning"
	}
	return ConfigFlags{Dir: dir, Log: NewLogger(std.Err, level)}
}

// LoadConfig reads the configuration of the program and merges the command
// line. An error is said in one line; then done is true. A directory that does
// not exist is a warning, and then the defaults hold.
func (p *ParsedCLI) LoadConfig(std Stdio) (o *Options, code int, done bool) {
	flags := p.ConfigFlags(std)
	if st, err := os.Stat(flags.Dir); err != nil || !st.IsDir() {
		fmt.Fprintf(std.Err, "WARNING: CONFIG '%s' directory does not exist.\n", flags.Dir)
	}
	var err error
	switch {
	case p.prog.config == "minion":
		if id := p.Str("id"); id != "" {
			flags.Set = NewMap("id", id)
		}
		flags.CacheID = true
		o, err = LoadMinionConfig(flags)
	case p.prog.name == "salt-master":
		o, err = LoadMasterConfig(flags)
	default:
		o, err = LoadClientConfig(flags)
	}
	if err != nil {
		flags.Log.Error(oneLine(err.Error()))
		return nil, exitConfig, true
	}
	p.MergeInto(o)
	o.Set("__cli", p.prog.name)
	if !p.given["no_parse"] && p.values.Has("no_parse") {
		p.values.Set("no_parse", os.Getenv("SALT_NO_PARSE"))
	}
	for _, name := range []string{"log_level", "log_level_logfile"} {
		if _, ok := ParseLogLevel(o.Str(name)); !ok && o.Str(name) != "" {
			flags.Log.Error(fmt.Sprintf("%s is %s and must be one of %s", name, Repr(o.Str(name)), strings.Join(logLevels(), ", ")))
			return nil, exitConfig, true
		}
	}
	return o, 0, false
}
