// Module file: line, which sees to one line of a file.
package main

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// lineEditArgs say what line, and what is done with it; for the state, too.
type lineEditArgs struct {
	Content     any  `def:"None"`
	Match       any  `def:"None"`
	Mode        any  `def:"None"`
	Location    any  `def:"None"`
	Before      any  `def:"None"`
	After       any  `def:"None"`
	ShowChanges bool `def:"True"`
	Backup      bool `def:"False"`
	Quiet       bool `def:"False"`
	Indent      bool `def:"True"`
}

type lineArgs struct {
	Path string
	lineEditArgs
}

func fileLine(_ context.Context, c *Call, a lineArgs) (any, error) {
	path := realPath(expandUser(a.Path))
	if !isFile(path) {
		if !a.Quiet {
			return nil, ExecErrorf("File \"%s\" does not exists or is not a file.", path)
		}
		return false, nil
	}
	mode := strings.ToLower(Str(orEmpty(a.Mode)))
	switch mode {
	case "insert", "ensure", "delete", "replace":
	default:
		if a.Mode == nil {
			return nil, ExecErrorf("Mode was not defined. How to process the file?")
		}
		return nil, ExecErrorf("Unknown mode: \"%s\"", mode)
	}
	if mode != "delete" && a.Content == nil {
		return nil, ExecErrorf("Content can only be empty if mode is \"delete\"")
	}
	if a.Before == nil && a.After == nil && !Truth(a.Match) {
		a.Match = a.Content
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, pyOSError(err)
	}
	text, _ := decodeText(data, "")
	body := byteLines(text)
	old := strings.Join(body, "")
	if n := len(body); n > 0 && lineEnd(body[n-1]) != "" {
		body = append(body, "")
	}
	if len(data) == 0 && (mode == "delete" || mode == "replace") {
		c.Log.Warn("Cannot find text to " + mode + ". File '" + path + "' is empty.")
		body = nil
	}
	l := lineEdit{lines: body, content: Str(orEmpty(a.Content)), mode: mode, location: Str(orEmpty(a.Location)), indent: a.Indent}
	if err := l.find(a); err != nil {
		return nil, err
	}
	if body, err = l.apply(a); err != nil {
		return nil, err
	}
	for i, line := range body {
		if lineEnd(line) == "" && i+1 < len(body) {
			prev := 1
			if i > 1 {
				prev = i - 1
			}
			body[i] = withLineEnd(body[min(prev, len(body)-1)], line)
		}
	}
	if n := len(body); n > 0 && body[n-1] == "" {
		body = body[:n-1]
	}
	changed := strings.Join(body, "") != old
	test := c.Opts.Bool("test")
	if a.Backup && changed && !test {
		if err := copyKeeping(path, path+"."+time.Now().Format("2006-01-02-15-04-05")); err != nil {
			return nil, ExecErrorf("Unable to create the backup file of %s. Exception: %s", path, osErrorText(err))
		}
	}
	if !changed {
		return false, nil
	}
	diff := unifiedDiff(pyLines(text, true), body, "", "")
	if !test {
		if err := replaceAtomically(path, []byte(strings.Join(body, ""))); err != nil {
			return nil, pyOSError(err)
		}
	}
	if a.ShowChanges && diff != "" {
		return diff, nil
	}
	return true, nil
}

// lineEdit is one change of the lines of a file. before, after and match are
// the lines that match those expressions; nil if none was given.
type lineEdit struct {
	lines                []string
	content              string
	mode                 string
	location             string
	indent               bool
	before, after, match []string
	hasBefore, hasAfter  bool
}

func (l *lineEdit) find(a lineArgs) (err error) {
	pick := func(v any) ([]string, error) {
		pattern := Str(orEmpty(v))
		if len(l.lines) == 0 || pattern == "" {
			return nil, nil
		}
		re, err := CompilePython(pattern, RegexpDotAll)
		if err != nil {
			return nil, ExecErrorf("%s: '%s'", err, pattern)
		}
		found := []string{}
		for _, line := range l.lines {
			m, err := re.Search(line)
			if err != nil {
				return nil, ExecErrorf("%s: '%s'", err, pattern)
			}
			if m != nil || strings.Contains(line, pattern) {
				found = append(found, line)
			}
		}
		return found, nil
	}
	if l.after, err = pick(a.After); err != nil {
		return err
	}
	if l.before, err = pick(a.Before); err != nil {
		return err
	}
	l.hasAfter, l.hasBefore = l.after != nil, l.before != nil
	l.match, err = pick(a.Match)
	return err
}

// once checks that an expression found exactly one line.
func once(found []string, name string) error {
	switch {
	case len(found) > 1:
		return ExecErrorf("Found more than expected occurrences in \"%s\" expression", name)
	case len(found) < 1:
		return ExecErrorf("Found less than expected occurrences in \"%s\" expression", name)
	}
	return nil
}

func (l *lineEdit) insert(at int, line string) { l.lines = slices.Insert(l.lines, at, line) }

// like gives content the indent of a line.
func (l *lineEdit) like(line string) string {
	if !l.indent {
		return l.content
	}
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))] + strings.TrimLeftFunc(l.content, pySpace)
}

func (l *lineEdit) same(line string) bool {
	return strings.TrimRight(line, "\r\n") == strings.TrimRight(l.content, "\r\n")
}

func (l *lineEdit) apply(a lineArgs) ([]string, error) {
	switch {
	case len(l.lines) == 0 && (l.mode == "delete" || l.mode == "replace"):
		return nil, nil
	case l.mode == "delete" && len(l.match) > 0:
		l.lines = slices.DeleteFunc(l.lines, func(line string) bool { return line == l.match[0] })
	case l.mode == "replace" && len(l.match) > 0:
		i := slices.Index(l.lines, l.match[0])
		l.lines[i] = l.like(l.lines[i])
	case l.mode == "insert":
		return l.lines, l.insertLine()
	case l.mode == "ensure":
		return l.lines, l.ensureLine()
	}
	return l.lines, nil
}

func (l *lineEdit) insertLine() error {
	if !l.hasBefore && !l.hasAfter && l.location == "" {
		return ExecErrorf("On insert either \"location\" or \"before/after\" conditions are required.")
	}
	n := len(l.lines)
	switch {
	case l.location == "end" && n > 0:
		l.lines = append(l.lines, l.like(l.lines[n-1]))
	case l.location == "end":
		l.lines = []string{l.content}
	case l.location == "start" && n > 0:
		l.insert(0, withLineEnd(l.lines[0], l.content))
	case l.location == "start":
		l.lines = []string{l.content + "\n"}
	case l.location != "":
	case len(l.before) > 0 && len(l.after) > 0:
		if err := once(l.before, "before"); err != nil {
			return err
		}
		if err := once(l.after, "after"); err != nil {
			return err
		}
		at := slices.Index(l.lines, l.before[0])
		l.insert(at, l.like(l.lines[at]))
	case len(l.after) > 0:
		if err := once(l.after, "after"); err != nil {
			return err
		}
		at := slices.Index(l.lines, l.after[0])
		if at+1 >= n || !l.same(l.lines[at+1]) {
			l.insert(at+1, l.like(l.lines[at]))
		}
	case len(l.before) > 0:
		if err := once(l.before, "before"); err != nil {
			return err
		}
		at := slices.Index(l.lines, l.before[0])
		if !l.same(l.lines[(at-1+n)%n]) {
			l.insert(at, l.like(l.lines[at]))
		}
	default:
		return ExecErrorf("Neither before or after was found in file")
	}
	return nil
}

func (l *lineEdit) ensureLine() error {
	n := len(l.lines)
	switch {
	case len(l.before) > 0 && len(l.after) > 0:
		if err := once(l.after, "after"); err != nil {
			return err
		}
		if err := once(l.before, "before"); err != nil {
			return err
		}
		after, before := slices.Index(l.lines, l.after[0]), slices.Index(l.lines, l.before[0])
		for _, line := range l.lines {
			if strings.TrimLeftFunc(line, pySpace) == l.content {
				return nil
			}
		}
		switch {
		case after+1 == before:
			l.insert(after+1, l.like(l.lines[after]))
		case after+2 == before:
			l.lines[after+1] = l.like(l.lines[after])
		default:
			return ExecErrorf("Found more than one line between boundaries \"before\" and \"after\".")
		}
	case len(l.before) > 0:
		if err := once(l.before, "before"); err != nil {
			return err
		}
		at := slices.Index(l.lines, l.before[0])
		if at == 0 || !l.same(l.lines[at-1]) {
			l.insert(at, l.like(l.lines[(at-1+n)%n]))
		}
	case len(l.after) > 0:
		if err := once(l.after, "after"); err != nil {
			return err
		}
		at := slices.Index(l.lines, l.after[0])
		if at+1 >= n || !l.same(l.lines[at+1]) {
			l.insert(at+1, l.like(l.lines[at]))
		}
	default:
		return ExecErrorf("Wrong conditions? Unable to ensure line without knowing where to put it before and/or after.")
	}
	return nil
}

// lineEnd is the line end that a line has.
func lineEnd(line string) string {
	return regexp.MustCompile(`(\r\n|\n|\r)\z`).FindString(line)
}

// withLineEnd gives a line the line end of another one.
func withLineEnd(like, line string) string {
	end := lineEnd(like)
	if end == "" {
		end = "\n"
	}
	return pyRstrip(line) + end
}
