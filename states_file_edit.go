// State module file: edits of files that exist.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// editedState turns the diff of an edit into a return.
func editedState(c *Call, ret *Map, diff any, dry string) (any, error) {
	switch {
	case !Truth(diff):
		ret.Set("result", true)
		ret.Set("comment", "No changes needed to be made")
	case c.Testing():
		ret.Map("changes").Set("diff", diff)
		ret.Set("result", nil)
		ret.Set("comment", dry)
	default:
		ret.Map("changes").Set("diff", diff)
		ret.Set("result", true)
		ret.Set("comment", "Changes were made")
	}
	return ret, nil
}

func fileStateLine(ctx context.Context, c *Call, a struct {
	Name string
	lineEditArgs
	Create   bool `def:"False"`
	User     any  `def:"None"`
	Group    any  `def:"None"`
	FileMode any  `def:"None"`
}) (any, error) {
	name, ret, ok := startFile("line", a.Name, true)
	if !ok {
		return ret, nil
	}
	m := newManagedArgs(name)
	m.Create, m.User, m.Group, m.Mode, m.Replace = a.Create, a.User, a.Group, a.FileMode, false
	if _, err := managedState(ctx, c, m); err != nil {
		return nil, err
	}
	if msg := checkEditable(name); msg != "" {
		return stateSay(ret, false, "%s", msg)
	}
	mode := strings.ToLower(Str(orEmpty(a.Mode)))
	if a.Mode == nil {
		return stateSay(ret, false, "Mode was not defined. How to process the file?")
	}
	if mode != "delete" && a.Content == nil {
		return stateSay(ret, false, "Content can only be empty if mode is ['delete']")
	}
	diff, err := c.RunKw(ctx, "file.line", []any{name, a.Content}, NewMap("match", a.Match, "mode", mode, "location", a.Location, "before", a.Before,
		"after", a.After, "show_changes", a.ShowChanges, "backup", a.Backup, "quiet", a.Quiet, "indent", a.Indent))
	if err != nil {
		return nil, err
	}
	return editedState(c, ret, diff, "Changes would be made")
}

func fileStateReplace(ctx context.Context, c *Call, a struct {
	Name              string
	Pattern           any
	Repl              any
	Count             any  `def:"0"`
	Flags             any  `def:"8"`
	Bufsize           any  `def:"1"`
	AppendIfNotFound  bool `def:"False"`
	PrependIfNotFound bool `def:"False"`
	NotFoundContent   any  `def:"None"`
	Backup            any  `def:"'.bak'"`
	ShowChanges       bool `def:"True"`
	IgnoreIfMissing   bool `def:"False"`
	BackslashLiteral  bool `def:"False"`
	Encoding          any  `def:"None"`
}) (any, error) {
	name, ret, ok := startFile("replace", a.Name, true)
	if !ok {
		return ret, nil
	}
	if msg := checkEditable(name); msg != "" {
		if a.IgnoreIfMissing && strings.Contains(msg, "file not found") {
			ret.Set("comment", "No changes needed to be made")
			return ret, nil
		}
		return stateSay(ret, false, "%s", msg)
	}
	diff, err := c.RunKw(ctx, "file.replace", []any{name, a.Pattern, a.Repl}, NewMap("count", a.Count, "flags", a.Flags, "bufsize", a.Bufsize,
		"append_if_not_found", a.AppendIfNotFound, "prepend_if_not_found", a.PrependIfNotFound, "not_found_content", a.NotFoundContent,
		"backup", a.Backup, "dry_run", c.Testing(), "show_changes", a.ShowChanges, "ignore_if_missing", a.IgnoreIfMissing,
		"backslash_literal", a.BackslashLiteral, "encoding", a.Encoding))
	if err != nil {
		return nil, err
	}
	return editedState(c, ret, diff, "Changes would have been made")
}

// sourcesOf joins source and sources with their hashes.
func sourcesOf(source, hash, sources, hashes any) ([][2]any, string) {
	list, sums := toItems(sources), toItems(hashes)
	switch {
	case Truth(source) && len(list) > 0:
		return nil, "source and sources are mutually exclusive"
	case Truth(hash) && len(sums) > 0:
		return nil, "source_hash and source_hashes are mutually exclusive"
	case Truth(source):
		return [][2]any{{source, hash}}, ""
	}
	var out [][2]any
	for i, s := range list {
		var sum any
		if i < len(sums) {
			sum = sums[i]
		}
		out = append(out, [2]any{s, sum})
	}
	return out, ""
}

// templateTexts renders sources; a return instead of texts ends the state.
func templateTexts(ctx context.Context, c *Call, sources [][2]any, template, defaults, vars any) ([]string, *Map, error) {
	all := NewMap()
	for _, v := range []any{defaults, vars} {
		if m, ok := v.(*Map); ok {
			all.Merge(m)
		}
	}
	var out []string
	for _, s := range sources {
		bad := NewMap("name", s[0], "changes", NewMap(), "result", false, "data", NewList())
		dir, err := os.MkdirTemp("", "halite-template-")
		if err != nil {
			return nil, nil, pyOSError(err)
		}
		defer os.RemoveAll(dir)
		p := filepath.Join(dir, "text")
		v, err := c.RunKw(ctx, "cp.get_template", []any{s[0], p}, NewMap("template", template, "saltenv", c.StateEnv(), "context", all))
		if err != nil {
			return nil, nil, err
		}
		if !Truth(v) {
			bad.Set("comment", fmt.Sprintf("Failed to load template file %s", Str(s[0])))
			return nil, bad, nil
		}
		data, err := os.ReadFile(p)
		if err != nil || len(data) == 0 {
			bad.Set("comment", fmt.Sprintf("Failed to read rendered template file %s (%s)", p, Str(s[0])))
			return nil, bad, nil
		}
		out = append(out, string(data))
	}
	return out, nil, nil
}

func fileStateBlockreplace(ctx context.Context, c *Call, a struct {
	Name              string
	MarkerStart       any  `def:"'#-- start managed zone --'"`
	MarkerEnd         any  `def:"'#-- end managed zone --'"`
	Source            any  `def:"None"`
	SourceHash        any  `def:"None"`
	Template          any  `def:"jinja"`
	Sources           any  `def:"None"`
	SourceHashes      any  `def:"None"`
	Defaults          any  `def:"None"`
	Context           any  `def:"None"`
	Content           any  `def:"''"`
	AppendIfNotFound  bool `def:"False"`
	PrependIfNotFound bool `def:"False"`
	Backup            any  `def:"'.bak'"`
	ShowChanges       bool `def:"True"`
	AppendNewline     any  `def:"None"`
	InsertBeforeMatch any  `def:"None"`
	InsertAfterMatch  any  `def:"None"`
}) (any, error) {
	name, ret, ok := startFile("blockreplace", a.Name, false)
	if !ok {
		return ret, nil
	}
	sources, msg := sourcesOf(a.Source, a.SourceHash, a.Sources, a.SourceHashes)
	if msg == "" {
		msg = checkEditable(name)
	}
	if msg != "" {
		return stateSay(ret, false, "%s", msg)
	}
	content := Str(orEmpty(a.Content))
	data, deps := loadAccumulators(c)
	if acc := data.Map(name); acc != nil {
		var names []any
		id := ""
		if c.State != nil {
			id = Str(c.State.Low.Value("__id__"))
		}
		for k, ids := range deps.Map(name).All() {
			if acc.Has(k) && containsText(texts(NewList(toItems(ids)...)), id) {
				names = append(names, k)
			}
		}
		if len(names) == 0 {
			names = acc.Keys()
		}
		for _, k := range names {
			for _, line := range toItems(acc.Value(k)) {
				if content == "" {
					content = Str(line)
				} else {
					content += "\n" + Str(line)
				}
			}
		}
	}
	if len(sources) > 0 {
		texts, bad, err := templateTexts(ctx, c, sources, a.Template, a.Defaults, a.Context)
		if err != nil || bad != nil {
			return bad, err
		}
		content += strings.Join(texts, "")
	}
	diff, err := c.RunKw(ctx, "file.blockreplace", []any{name, a.MarkerStart, a.MarkerEnd}, NewMap("content", content,
		"append_if_not_found", a.AppendIfNotFound, "prepend_if_not_found", a.PrependIfNotFound, "insert_before_match", a.InsertBeforeMatch,
		"insert_after_match", a.InsertAfterMatch, "backup", a.Backup, "dry_run", c.Testing(), "show_changes", a.ShowChanges,
		"append_newline", a.AppendNewline))
	if err != nil {
		return stateSay(ret, false, "Encountered error managing block: %s. See the log for details.", errText(err))
	}
	return editedState(c, ret, diff, "Changes would be made")
}

// anchorPattern takes inline flags and anchors off a pattern.
func anchorPattern() *regexp.Regexp { return anchorOnce() }

var anchorOnce = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\(\?[iLmsux]\))?\^?(.*?)\$?$`)
})

// searchFile says whether a pattern is in a file, over line ends.
func searchFile(ctx context.Context, c *Call, name, pattern string) (bool, error) {
	v, err := c.RunKw(ctx, "file.search", []any{name, pattern}, NewMap("multiline", true))
	return Truth(v), err
}

// commentEdit runs the edit of comment and uncomment and checks it.
func commentEdit(ctx context.Context, c *Call, ret *Map, name, regex, char string, on bool, backup any, after, word string) (any, error) {
	if c.Testing() {
		return stateChanged(name, nil, fmt.Sprintf("File %s is set to be updated", name), NewMap(name, "updated")), nil
	}
	before, err := os.ReadFile(name)
	if err != nil {
		return nil, pyOSError(err)
	}
	if _, err := c.Run(ctx, "file.comment_line", name, regex, char, on, backup); err != nil {
		return nil, err
	}
	now, err := os.ReadFile(name)
	if err != nil {
		return nil, pyOSError(err)
	}
	ok, err := searchFile(ctx, c, name, after)
	if err != nil {
		return nil, err
	}
	ret.Set("result", ok)
	if string(before) != string(now) {
		diff := "Replace binary file"
		if isTextFile(name) {
			diff = unifiedDiff(pyLines(string(before), true), pyLines(string(now), true), "", "")
		}
		ret.Map("changes").Set("diff", diff)
	}
	if ok {
		ret.Set("comment", strings.ToUpper(word[:1])+word[1:]+" lines successfully")
	} else {
		ret.Set("comment", "Expected "+word+" lines not found")
	}
	return ret, nil
}

func fileStateComment(ctx context.Context, c *Call, a struct {
	Name           string
	Regex          string
	Char           string `def:"'#'"`
	Backup         any    `def:"'.bak'"`
	IgnoreMissing  bool   `def:"False"`
	Encoding       any    `def:"None"`
	EncodingErrors string `def:"'strict'"`
}) (any, error) {
	name, ret, ok := startEdit("comment", a.Name, false)
	if !ok {
		return ret, nil
	}
	bare := anchorPattern().ReplaceAllString(a.Regex, "$2")
	commented := a.Char + bare
	found, err := searchFile(ctx, c, name, `^(?!\s*`+a.Char+`)\s*`+bare)
	if err != nil {
		return nil, err
	}
	if !found {
		already, err := searchFile(ctx, c, name, commented)
		if err != nil {
			return nil, err
		}
		switch {
		case already:
			return stateReturn(name, true, "Pattern already commented"), nil
		case a.IgnoreMissing:
			return stateReturn(name, true, "Pattern not found and ignore_missing set to True"), nil
		}
		return stateSay(ret, false, "%s: Pattern not found", bare)
	}
	return commentEdit(ctx, c, ret, name, a.Regex, a.Char, true, a.Backup, commented, "commented")
}

func fileStateUncomment(ctx context.Context, c *Call, a struct {
	Name   string
	Regex  string
	Char   string `def:"'#'"`
	Backup any    `def:"'.bak'"`
}) (any, error) {
	name, ret, ok := startEdit("uncomment", a.Name, false)
	if !ok {
		return ret, nil
	}
	bare := strings.TrimLeft(a.Regex, "^")
	plain := "^[ \t]*" + bare
	found, err := searchFile(ctx, c, name, a.Char+"[ \t]*"+bare)
	if err != nil {
		return nil, err
	}
	if !found {
		already, err := searchFile(ctx, c, name, plain)
		if err != nil {
			return nil, err
		}
		if already {
			return stateReturn(name, true, "Pattern already uncommented"), nil
		}
		return stateSay(ret, false, "%s: Pattern not found", a.Regex)
	}
	return commentEdit(ctx, c, ret, name, a.Regex, a.Char, false, a.Backup, plain, "uncommented")
}

type fileAppendArgs struct {
	Name             string
	Text             any    `def:"None"`
	Makedirs         any    `def:"False"`
	Source           any    `def:"None"`
	SourceHash       any    `def:"None"`
	Template         any    `def:"jinja"`
	Sources          any    `def:"None"`
	SourceHashes     any    `def:"None"`
	Defaults         any    `def:"None"`
	Context          any    `def:"None"`
	IgnoreWhitespace bool   `def:"True"`
	Encoding         any    `def:"None"`
	EncodingErrors   string `def:"'strict'"`
}

// whitespaceRegexp is a pattern for a text whose blanks may differ.
func whitespaceRegexp(text string) string {
	var b strings.Builder
	for _, line := range pyLines(text, false) {
		words := splitWordsAndSigns(line)
		var parts []string
		for _, w := range words {
			parts = append(parts, escapeRegexp(w))
		}
		b.WriteString(`(?:[\s]+)?` + strings.Join(parts, `(?:[\s]+)?`) + `(?:[\s]+)?`)
	}
	return "(?m)^" + b.String() + "$"
}

// splitWordsAndSigns splits at blanks, and takes other signs as words of one.
func splitWordsAndSigns(line string) []string {
	var out []string
	word := ""
	flush := func() {
		if word != "" {
			out = append(out, word)
			word = ""
		}
	}
	for _, r := range line {
		switch {
		case r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r > 127:
			word += string(r)
		case pySpace(r):
			flush()
		default:
			flush()
			out = append(out, string(r))
		}
	}
	flush()
	return out
}

// openForText prepares append and prepend: the file made if it is missing, and
// its text. A return ends the state.
func openForText(ctx context.Context, c *Call, name string, a fileAppendArgs, ret *Map) (text []string, lines string, end *Map, err error) {
	sources, msg := sourcesOf(a.Source, a.SourceHash, a.Sources, a.SourceHashes)
	stop := func(format string, args ...any) ([]string, string, *Map, error) {
		stateSay(ret, false, format, args...)
		return nil, "", ret, nil
	}
	if msg != "" {
		return stop("%s", msg)
	}
	if a.Makedirs == true {
		dir := filepath.Dir(name)
		if c.Testing() {
			ret.Set("comment", fmt.Sprintf("Directory %s is set to be updated", dir))
			ret.Set("result", nil)
		} else if !isDir(dir) {
			if _, err := makeParents(ctx, c, name, nil, nil, nil); err != nil {
				return nil, "", nil, err
			}
		}
	}
	if msg := checkEditable(name); msg != "" {
		touched, err := touchState(ctx, c, fileTouchArgs{Name: name, Makedirs: Truth(a.Makedirs)})
		if err != nil {
			return nil, "", nil, err
		}
		if c.Testing() {
			return nil, "", touched, nil
		}
		if checkEditable(name) != "" {
			return stop("%s", msg)
		}
	}
	if len(sources) > 0 {
		list, bad, err := templateTexts(ctx, c, sources, a.Template, a.Defaults, a.Context)
		if err != nil || bad != nil {
			return nil, "", bad, err
		}
		text = list
	} else {
		text = textList(a.Text)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, "", nil, pyOSError(err)
	}
	return text, string(data), nil, nil
}

// textDiff is the diff of an append or prepend.
func textDiff(name string, before, after []string, ends bool) string {
	if !isTextFile(name) {
		return "Replace binary file"
	}
	if ends {
		return unifiedDiff(before, after, "", "")
	}
	// Lines without ends are joined with ends, headers included: they have one
	// of their own.
	plain := func(lines []string) []string {
		out := make([]string, len(lines))
		for i, l := range lines {
			out[i] = l + "\n"
		}
		return out
	}
	d := unifiedDiff(plain(before), plain(after), "", "")
	var b strings.Builder
	for i, line := range strings.SplitAfter(d, "\n") {
		b.WriteString(line)
		if i < 2 || strings.HasPrefix(line, "@@ ") {
			b.WriteString("\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func fileStateAppend(ctx context.Context, c *Call, a fileAppendArgs) (any, error) {
	name, ret, ok := startFile("append", a.Name, false)
	if !ok {
		return ret, nil
	}
	text, old, end, err := openForText(ctx, c, name, a, ret)
	if err != nil || end != nil {
		return end, err
	}
	var more []string
	for _, chunk := range text {
		pattern := chunk
		if a.IgnoreWhitespace {
			pattern = whitespaceRegexp(chunk)
		}
		found, err := searchFile(ctx, c, name, pattern)
		if err != nil {
			return nil, err
		}
		if !found {
			more = append(more, pyLines(chunk, false)...)
		}
	}
	before := pyLines(old, false)
	if c.Testing() {
		if len(more) == 0 {
			return stateReturn(name, true, fmt.Sprintf("File %s is in correct state", name)), nil
		}
		after := append(append([]string(nil), before...), more...)
		return stateChanged(name, nil, fmt.Sprintf("File %s is set to be updated", name), NewMap("diff", textDiff(name, before, after, false))), nil
	}
	if len(more) > 0 {
		if _, err := c.RunKw(ctx, "file.append", []any{name}, NewMap("args", Strings(more))); err != nil {
			return nil, err
		}
		ret.Set("comment", fmt.Sprintf("Appended %d lines", len(more)))
	} else {
		ret.Set("comment", fmt.Sprintf("File %s is in correct state", name))
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, pyOSError(err)
	}
	after := pyLines(string(data), false)
	if strings.Join(before, "\n") != strings.Join(after, "\n") || len(before) != len(after) {
		ret.Map("changes").Set("diff", textDiff(name, before, after, false))
	}
	ret.Set("result", true)
	return ret, nil
}

func fileStatePrepend(ctx context.Context, c *Call, a struct {
	Name           string
	Text           any    `def:"None"`
	Makedirs       any    `def:"False"`
	Source         any    `def:"None"`
	SourceHash     any    `def:"None"`
	Template       any    `def:"jinja"`
	Sources        any    `def:"None"`
	SourceHashes   any    `def:"None"`
	Defaults       any    `def:"None"`
	Context        any    `def:"None"`
	Header         any    `def:"None"`
	Encoding       any    `def:"None"`
	EncodingErrors string `def:"'strict'"`
}) (any, error) {
	name, ret, ok := startFile("prepend", a.Name, false)
	if !ok {
		return ret, nil
	}
	text, old, end, err := openForText(ctx, c, name, fileAppendArgs{Name: name, Text: a.Text, Makedirs: a.Makedirs, Source: a.Source, SourceHash: a.SourceHash,
		Template: a.Template, Sources: a.Sources, SourceHashes: a.SourceHashes, Defaults: a.Defaults, Context: a.Context}, ret)
	if err != nil || end != nil {
		return end, err
	}
	var preface []string
	for _, chunk := range text {
		if !Truth(a.Header) {
			found, err := searchFile(ctx, c, name, whitespaceRegexp(chunk))
			if err != nil {
				return nil, err
			}
			if found {
				continue
			}
		}
		preface = append(preface, pyLines(chunk, false)...)
	}
	before := pyLines(old, true)
	if c.Testing() {
		if len(preface) == 0 {
			return stateReturn(name, true, fmt.Sprintf("File %s is in correct state", name)), nil
		}
		var after []string
		for _, l := range preface {
			after = append(after, l+"\n")
		}
		after = append(after, before...)
		return stateChanged(name, nil, fmt.Sprintf("File %s is set to be updated", name), NewMap("diff", textDiff(name, before, after, true))), nil
	}
	count := len(preface)
	write := true
	if Truth(a.Header) {
		head := pyLines(old, false)
		if len(head) > count {
			head = head[:count]
		}
		if strings.Join(head, "\n") == strings.Join(preface, "\n") && len(head) == count {
			write, count = false, 0
		}
	}
	if write {
		args := []any{name}
		for _, l := range preface {
			args = append(args, l)
		}
		if _, err := c.RunKw(ctx, "file.prepend", args, nil); err != nil {
			return nil, err
		}
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, pyOSError(err)
	}
	if string(data) != old {
		ret.Map("changes").Set("diff", textDiff(name, before, pyLines(string(data), true), true))
	}
	if count > 0 {
		ret.Set("comment", fmt.Sprintf("Prepended %d lines", count))
	} else {
		ret.Set("comment", fmt.Sprintf("File %s is in correct state", name))
	}
	ret.Set("result", true)
	return ret, nil
}
