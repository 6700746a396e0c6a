// Help texts, man pages and completion scripts, made from the tables of options.
package main

import (
	"fmt"
	"io"
	"strings"
)

const (
	helpColumn   = 24 // where the texts of options begin
	minHelpWidth = 11
)

// help is the text of --help for a terminal of that width.
func (c cliProgram) help(columns int) string {
	width := columns - 2
	var b strings.Builder
	b.WriteString(c.usageLine())
	b.WriteString("\n" + wrap(c.about, width, "") + "\n\nOptions:\n")
	for _, g := range c.groups {
		indent := 2
		if g.title != "" {
			fmt.Fprintf(&b, "\n  %s:\n", g.title)
			if g.about != "" {
				b.WriteString(wrap(g.about, width, "    ") + "\n\n")
			}
			indent = 4
		}
		for _, o := range g.options {
			o.writeHelp(&b, indent, width)
		}
	}
	fmt.Fprintf(&b, "\nMore: halite man %s\n", c.name)
	return b.String()
}

// forms are the ways to write an option, with its value.
func (o cliOption) forms() []string {
	var forms []string
	for _, s := range strings.Fields(o.short) {
		if o.takesValue() {
			s += " " + o.metavar()
		}
		forms = append(forms, s)
	}
	for _, l := range o.longs() {
		if o.takesValue() {
			l += "=" + o.metavar()
		}
		forms = append(forms, l)
	}
	return forms
}

// fullHelp is the help with what the table knows besides: choices and default.
func (o cliOption) fullHelp() string {
	text := o.help
	if len(o.choices) > 0 {
		text += " One of " + strings.Join(o.choices, ", ") + "."
	}
	if o.def != nil && o.def != "" {
		text += fmt.Sprintf(" Default: %v.", o.def)
	}
	return text
}

func (o cliOption) writeHelp(b *strings.Builder, indent, width int) {
	head := strings.Repeat(" ", indent) + strings.Join(o.forms(), ", ")
	lines := strings.Split(wrap(o.fullHelp(), max(width-helpColumn, minHelpWidth), ""), "\n")
	if len(head) > helpColumn-2 {
		b.WriteString(head + "\n")
	} else {
		fmt.Fprintf(b, "%-*s%s\n", helpColumn, head, lines[0])
		lines = lines[1:]
	}
	for _, l := range lines {
		b.WriteString(strings.Repeat(" ", helpColumn) + l + "\n")
	}
}

// wrap fills lines of at most that width, each with the indent in front.
func wrap(text string, width int, indent string) string {
	var lines []string
	line := indent
	for _, word := range strings.Fields(text) {
		if line != indent && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n")
}

// appletMan writes the man page of a program, for `man -l -` or a file.
func appletMan(args []string, std Stdio) int {
	if len(args) == 1 {
		if prog, ok := cliProgramNamed(args[0]); ok {
			io.WriteString(std.Out, prog.manPage())
			return 0
		}
	}
	return programNameWanted(args, std, "man PROGRAM", "halite man salt-key | man -l -")
}

// appletCompletion writes the completion script of a shell for all programs.
func appletCompletion(args []string, std Stdio) int {
	if len(args) == 1 {
		switch args[0] {
		case "bash":
			io.WriteString(std.Out, bashCompletion())
			return 0
		case "zsh":
			io.WriteString(std.Out, zshCompletion())
			return 0
		case "fish":
			io.WriteString(std.Out, fishCompletion())
			return 0
		}
	}
	return programNameWanted(args, std, "completion bash|zsh|fish", "halite completion bash > /etc/bash_completion.d/halite")
}

func programNameWanted(args []string, std Stdio, usage, example string) int {
	w, code := std.Err, exitUsage
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
		w, code = std.Out, 0
	}
	fmt.Fprintf(w, "Usage: halite %s\n\nExample: %s\n\nPrograms:", usage, example)
	for _, p := range programs() {
		fmt.Fprintf(w, " %s", p.name)
	}
	fmt.Fprintln(w)
	return code
}

// manPage is the page in the man macros.
func (c cliProgram) manPage() string {
	esc := func(s string) string {
		s = strings.ReplaceAll(s, `\`, `\e`)
		s = strings.ReplaceAll(s, "-", `\-`)
		if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
			s = `\&` + s
		}
		return s
	}
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"halite %s\" \"Halite\"\n", strings.ToUpper(esc(c.name)), esc(version))
	summary := c.name
	if a, ok := findApplet(c.name); ok {
		summary = a.summary
	}
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", esc(c.name), esc(summary))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n[options]%s\n", esc(c.name), esc(prefixed(" ", c.usage)))
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", esc(c.about))
	b.WriteString(".SH OPTIONS\n")
	for _, g := range c.groups {
		if g.title != "" {
			fmt.Fprintf(&b, ".SS %s\n", esc(g.title))
			if g.about != "" {
				fmt.Fprintf(&b, "%s\n", esc(g.about))
			}
		}
		for _, o := range g.options {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", esc(strings.Join(o.forms(), ", ")), esc(o.fullHelp()))
		}
	}
	if c.config == "" {
		return b.String()
	}
	fmt.Fprintf(&b, ".SH FILES\n/etc/salt/%s, /etc/salt/%s.d/*.conf, Saltfile\n", c.config, c.config)
	return b.String()
}

// allOptions lists the options of all groups.
func (c cliProgram) allOptions() []cliOption {
	var all []cliOption
	for _, g := range c.groups {
		all = append(all, g.options...)
	}
	return all
}

// bashCompletion completes options, choices, minion ids where a target stands
// and function names behind it.
func bashCompletion() string {
	var b strings.Builder
	b.WriteString("# Completion of halite's programs for bash: halite completion bash\n")
	for _, p := range programs() {
		var names, valued []string
		var cases strings.Builder
		for _, o := range p.allOptions() {
			forms := append(strings.Fields(o.short), o.longs()...)
			names = append(names, forms...)
			if !o.takesValue() {
				continue
			}
			valued = append(valued, forms...)
			if len(o.choices) > 0 {
				fmt.Fprintf(&cases, "    %s) COMPREPLY=($(compgen -W %q -- \"$cur\")); return ;;\n", strings.Join(forms, "|"), strings.Join(o.choices, " "))
			}
		}
		fn := "_halite_" + strings.ReplaceAll(p.name, "-", "_")
		fmt.Fprintf(&b, "%s() {\n  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} i n=0\n", fn)
		fmt.Fprintf(&b, "  case $prev in\n%s    %s) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n  esac\n", cases.String(), strings.Join(valued, "|"))
		fmt.Fprintf(&b, "  if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W %q -- \"$cur\")); return; fi\n", strings.Join(names, " "))
		words := completionWords(p)
		if len(words) > 0 {
			b.WriteString("  for ((i = 1; i < COMP_CWORD; i++)); do [[ ${COMP_WORDS[i]} == -* ]] || n=$((n + 1)); done\n  case $n in\n")
			for i, w := range words {
				fmt.Fprintf(&b, "    %d) COMPREPLY=($(compgen -W \"$(%s 2>/dev/null)\" -- \"$cur\")); return ;;\n", i, w)
			}
			b.WriteString("  esac\n")
		}
		fmt.Fprintf(&b, "  COMPREPLY=($(compgen -f -- \"$cur\"))\n}\ncomplete -o filenames -F %s %s\n", fn, p.name)
	}
	return b.String()
}

// completionWords are the commands that list what can stand at the positions
// of a program's arguments.
func completionWords(p cliProgram) []string {
	const (
		ids       = "salt-key --list=acc --out=newline_values_only --no-color"
		functions = "salt-call --local --out=newline_values_only sys.list_functions"
		runners   = "salt-call --local --out=newline_values_only sys.list_runner_functions"
	)
	switch p.name {
	case "salt":
		return []string{ids, functions}
	case "salt-cp":
		return []string{ids}
	case "salt-call":
		return []string{functions}
	case "salt-run":
		return []string{runners}
	}
	return nil
}

func zshCompletion() string {
	quote := func(s string) string {
		return strings.NewReplacer("'", "'\\''", "[", "(", "]", ")", ":", "\\:").Replace(s)
	}
	var b strings.Builder
	var names []string
	for _, p := range programs() {
		names = append(names, p.name)
	}
	fmt.Fprintf(&b, "#compdef %s\n# Completion of halite's programs for zsh: halite completion zsh\n", strings.Join(names, " "))
	b.WriteString("local -a words_here\ncase $service in\n")
	for _, p := range programs() {
		fmt.Fprintf(&b, "%s)\n  _arguments -s", p.name)
		for _, o := range p.allOptions() {
			for _, form := range append(strings.Fields(o.short), o.longs()...) {
				spec := form
				if o.takesValue() && strings.HasPrefix(form, "--") {
					spec += "="
				}
				spec += "[" + quote(o.help) + "]"
				switch {
				case len(o.choices) > 0:
					spec += ":" + o.name() + ":(" + strings.Join(o.choices, " ") + ")"
				case o.takesValue():
					spec += ":" + o.name() + ":_files"
				}
				fmt.Fprintf(&b, " \\\n    '%s'", spec)
			}
		}
		for i, w := range completionWords(p) {
			fmt.Fprintf(&b, " \\\n    '%d:argument:{words_here=(${(f)\"$(%s 2>/dev/null)\"}); compadd -a words_here}'", i+1, w)
		}
		b.WriteString(" \\\n    '*:argument:_files'\n  ;;\n")
	}
	b.WriteString("esac\n")
	return b.String()
}

func fishCompletion() string {
	quote := func(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'" }
	var b strings.Builder
	b.WriteString("# Completion of halite's programs for fish: halite completion fish\n")
	for _, p := range programs() {
		for _, o := range p.allOptions() {
			fmt.Fprintf(&b, "complete -c %s", p.name)
			for _, s := range strings.Fields(o.short) {
				fmt.Fprintf(&b, " -s %s", strings.TrimPrefix(s, "-"))
			}
			for _, l := range o.longs() {
				fmt.Fprintf(&b, " -l %s", strings.TrimPrefix(l, "--"))
			}
			if o.takesValue() {
				b.WriteString(" -r")
			}
			if len(o.choices) > 0 {
				fmt.Fprintf(&b, " -f -a %s", quote(strings.Join(o.choices, " ")))
			}
			fmt.Fprintf(&b, " -d %s\n", quote(o.help))
		}
		for i, w := range completionWords(p) {
			fmt.Fprintf(&b, "complete -c %s -n 'test (count (commandline -opc | string match -v -- \"-*\")) -eq %d' -a '(%s 2>/dev/null)'\n", p.name, i+1, w)
		}
	}
	return b.String()
}
