// Module file: replace, search and blockreplace.
package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

type replaceArgs struct {
	Path              string
	Pattern           any
	Repl              any
	Count             int  `def:"0"`
	Flags             any  `def:"8"`
	Bufsize           any  `def:"1"`
	AppendIfNotFound  bool `def:"False"`
	PrependIfNotFound bool `def:"False"`
	NotFoundContent   any  `def:"None"`
	Backup            any  `def:"'.bak'"`
	DryRun            bool `def:"False"`
	SearchOnly        bool `def:"False"`
	ShowChanges       bool `def:"True"`
	IgnoreIfMissing   bool `def:"False"`
	PreserveInode     bool `def:"True"`
	BackslashLiteral  bool `def:"False"`
	Encoding          any  `def:"None"`
}

// regexpFlagsOf reads flags as Salt takes them: a number, a name or names.
func regexpFlagsOf(v any) (RegexpFlags, error) {
	bit := map[string]RegexpFlags{"I": RegexpIgnoreCase, "IGNORECASE": RegexpIgnoreCase, "M": RegexpMultiline, "MULTILINE": RegexpMultiline,
		"S": RegexpDotAll, "DOTALL": RegexpDotAll, "X": RegexpVerbose, "VERBOSE": RegexpVerbose, "A": RegexpASCII, "ASCII": RegexpASCII,
		"L": 0, "LOCALE": 0, "U": 0, "UNICODE": 0, "DEBUG": 0, "T": 0, "TEMPLATE": 0}
	var out RegexpFlags
	switch v := v.(type) {
	case int64:
		for n, f := range map[int64]RegexpFlags{2: RegexpIgnoreCase, 8: RegexpMultiline, 16: RegexpDotAll, 64: RegexpVerbose, 256: RegexpASCII} {
			if v&n != 0 {
				out |= f
			}
		}
		return out, nil
	case string, *List, Tuple:
		for _, item := range toItems(v) {
			f, ok := bit[strings.ToUpper(Str(item))]
			if !ok {
				return 0, ExecErrorf("Invalid re flag given: %s", Str(item))
			}
			out |= f
		}
		return out, nil
	}
	return 0, ExecErrorf("Invalid re flags: \"%s\", must be given either as a single flag string, a list of strings, as an integer, or as an re flag", Str(v))
}

// escapeRegexp is re.escape.
func escapeRegexp(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune("()[]{}?*+-|^$\\.&~# \t\n\r\v\f", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

func fileReplace(_ context.Context, _ *Call, a replaceArgs) (any, error) {
	given := expandUser(a.Path)
	link := ""
	if isSymlink(given) {
		link, _ = os.Readlink(given)
	}
	path := realPath(given)
	if !pathExists(path) {
		if a.IgnoreIfMissing {
			return false, nil
		}
		return nil, InvocationErrorf("File not found: %s", path)
	}
	if a.Encoding == nil && !isTextFile(path) {
		return nil, InvocationErrorf("Cannot perform string replacements on a binary file: %s", path)
	}
	if a.SearchOnly && (a.AppendIfNotFound || a.PrependIfNotFound) {
		return nil, InvocationErrorf("search_only cannot be used with append/prepend_if_not_found")
	}
	if a.AppendIfNotFound && a.PrependIfNotFound {
		return nil, InvocationErrorf("Only one of append and prepend_if_not_found is permitted")
	}
	flags, err := regexpFlagsOf(a.Flags)
	if err != nil {
		return nil, err
	}
	re, err := compileForModule(Str(a.Pattern), flags)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, ExecErrorf("Unable to open file '%s'. Exception: %s", path, osErrorText(err))
	}
	text := string(data)
	if a.Encoding != nil {
		text, _ = decodeText(data, Str(a.Encoding))
	}
	if a.SearchOnly {
		m, err := re.Search(text)
		if err != nil {
			return nil, OtherErrorf("re.error", "%s", err)
		}
		return m != nil, nil
	}
	repl := Str(a.Repl)
	template := func(*PyMatch) string { return repl }
	if !a.BackslashLiteral {
		if template, err = re.template(repl); err != nil {
			return nil, OtherErrorf("re.error", "%s", err)
		}
	}
	matches := 0
	result, err := re.ReplaceFunc(text, a.Count, func(m *PyMatch) string {
		matches++
		return template(m)
	})
	if err != nil {
		return nil, OtherErrorf("re.error", "%s", err)
	}
	found := matches > 0
	wanted := repl
	if Truth(a.NotFoundContent) {
		wanted = Str(a.NotFoundContent)
	}
	if a.AppendIfNotFound || a.PrependIfNotFound {
		line, err := compileForModule("^"+escapeRegexp(wanted)+`($|(?=\r\n))`, flags)
		if err != nil {
			return nil, err
		}
		if m, err := line.Search(text); err == nil && m != nil {
			found = true
		}
	}
	before, after := byteLines(text), byteLines(result)
	if !found && (a.AppendIfNotFound || a.PrependIfNotFound) {
		if a.NotFoundContent != nil {
			wanted = Str(a.NotFoundContent)
		}
		if a.PrependIfNotFound {
			after = append([]string{wanted + "\n"}, after...)
		} else {
			if n := len(after); n > 0 && !strings.HasSuffix(after[n-1], "\n") {
				after[n-1] += "\n"
			}
			after = append(after, wanted+"\n")
		}
		result = strings.Join(after, "")
	}
	changed := result != text
	if changed && !a.DryRun {
		if err := commitEdit(path, []byte(encodeText(result, Str(orEmpty(a.Encoding)))), a.Backup, a.PreserveInode); err != nil {
			return nil, err
		}
		if Truth(a.Backup) && link != "" {
			backup := given + Str(a.Backup)
			_ = os.Remove(backup)
			if err := os.Symlink(link+Str(a.Backup), backup); err != nil {
				return nil, ExecErrorf("Unable create backup symlink '%s'. Target was '%s'. Exception: %s", backup, link+Str(a.Backup), osErrorText(err))
			}
		}
	}
	if a.ShowChanges {
		return unifiedDiff(before, after, "", ""), nil
	}
	return changed, nil
}

// byteLines is bytes.splitlines(True): \n, \r and \r\n end lines.
func byteLines(s string) []string {
	var lines []string
	for len(s) > 0 {
		i := strings.IndexAny(s, "\r\n")
		if i < 0 {
			return append(lines, s)
		}
		n := i + 1
		if s[i] == '\r' && n < len(s) && s[n] == '\n' {
			n++
		}
		lines = append(lines, s[:n])
		s = s[n:]
	}
	return lines
}

// encodeText writes text in an encoding that decodeText reads.
func encodeText(s, encoding string) string {
	switch strings.ReplaceAll(strings.ToLower(encoding), "_", "-") {
	case "latin-1", "latin1", "iso-8859-1", "iso8859-1", "l1":
		p := make([]byte, 0, len(s))
		for _, r := range s {
			if r > 0xff {
				r = '?'
			}
			p = append(p, byte(r))
		}
		return string(p)
	}
	return s
}

// commitEdit keeps the old contents as a backup and writes the new ones; with
// inode in place, else beside and renamed.
func commitEdit(path string, data []byte, backup any, inode bool) error {
	if Truth(backup) {
		name := path + Str(backup)
		keep := copyKeeping
		if !inode {
			keep = copyOwned
		}
		if err := keep(path, name); err != nil {
			return ExecErrorf("Unable to copy file '%s' to the backup file '%s'. Exception: %s", path, name, osErrorText(err))
		}
	}
	write := replaceAtomically
	if inode {
		write = overwriteFile
	}
	if err := write(path, data); err != nil {
		return ExecErrorf("Exception: %s", osErrorText(err))
	}
	return nil
}

type searchArgs struct {
	Path            string
	Pattern         any
	Flags           any  `def:"8"`
	Bufsize         any  `def:"1"`
	IgnoreIfMissing bool `def:"False"`
	Multiline       bool `def:"False"`
}

func fileSearch(ctx context.Context, c *Call, a searchArgs) (any, error) {
	flags, err := regexpFlagsOf(a.Flags)
	if err != nil {
		return nil, err
	}
	if a.Multiline {
		flags |= RegexpMultiline
	}
	var n int64
	for bit, f := range map[int64]RegexpFlags{2: RegexpIgnoreCase, 8: RegexpMultiline, 16: RegexpDotAll, 64: RegexpVerbose, 256: RegexpASCII} {
		if flags&f != 0 {
			n |= bit
		}
	}
	return fileReplace(ctx, c, replaceArgs{Path: a.Path, Pattern: a.Pattern, Repl: "", Flags: n, DryRun: true, SearchOnly: true, IgnoreIfMissing: a.IgnoreIfMissing})
}

type blockreplaceArgs struct {
	Path              string
	MarkerStart       string `def:"'#-- start managed zone --'"`
	MarkerEnd         string `def:"'#-- end managed zone --'"`
	Content           any    `def:"''"`
	AppendIfNotFound  bool   `def:"False"`
	PrependIfNotFound bool   `def:"False"`
	Backup            any    `def:"'.bak'"`
	DryRun            bool   `def:"False"`
	ShowChanges       bool   `def:"True"`
	AppendNewline     any    `def:"False"`
	InsertBeforeMatch any    `def:"None"`
	InsertAfterMatch  any    `def:"None"`
}

// blockOf are the lines of the block: content and the end marker, the last
// line of content with a line end only where newline says so.
func (a blockreplaceArgs) blockOf(content, sep, end string, newline bool) []string {
	end = strings.TrimRight(end, "\r\n") + sep
	parts := strings.Split(strings.ReplaceAll(content, "\r\n", "\n"), "\n")
	var lines []string
	for i, part := range parts {
		switch {
		case i < len(parts)-1:
			lines = append(lines, part+sep)
		case newline:
			lines = append(lines, part+sep, end)
		default:
			lines = append(lines, part+end)
		}
	}
	return lines
}

func fileBlockreplace(_ context.Context, _ *Call, a blockreplaceArgs) (any, error) {
	exclusive := 0
	for _, on := range []bool{a.AppendIfNotFound, a.PrependIfNotFound, Truth(a.InsertBeforeMatch), Truth(a.InsertAfterMatch)} {
		if on {
			exclusive++
		}
	}
	if exclusive > 1 {
		return nil, InvocationErrorf("Only one of append_if_not_found, prepend_if_not_found, insert_before_match, and insert_after_match is permitted")
	}
	path := expandUser(a.Path)
	if !pathExists(path) {
		return nil, InvocationErrorf("File not found: %s", path)
	}
	if isBinaryFile(path) && !isTextFile(path) {
		return nil, InvocationErrorf("Cannot perform string replacements on a binary file: %s", path)
	}
	if Truth(a.InsertBeforeMatch) {
		if _, ok := a.InsertBeforeMatch.(string); !ok {
			return nil, ExecErrorf("RegEx expected in insert_before_match parameter.")
		}
	} else if Truth(a.InsertAfterMatch) {
		if _, ok := a.InsertAfterMatch.(string); !ok {
			return nil, ExecErrorf("RegEx expected in insert_after_match parameter.")
		}
	}
	content := Str(a.Content)
	newline := Truth(a.AppendNewline)
	if a.AppendNewline == nil && !strings.HasSuffix(content, "\n") {
		newline = true
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, ExecErrorf("Failed to read from %s: %s", path, osErrorText(err))
	}
	text, _ := decodeText(data, "")
	before := byteLines(text)
	sep := "\n"
	if len(before) > 0 && strings.HasSuffix(before[0], "\r\n") {
		sep = "\r\n"
	}
	var after []string
	inside, found := false, false
	for _, line := range before {
		if strings.Contains(line, a.MarkerStart) {
			inside = true
			after = append(after, line)
			continue
		}
		if !inside {
			after = append(after, line)
			continue
		}
		if at := strings.Index(line, a.MarkerEnd); at >= 0 {
			inside, found = false, true
			after = append(after, a.blockOf(content, sep, line[at:], newline)...)
		}
	}
	if inside {
		return nil, ExecErrorf("Unterminated marked block. End of file reached before marker_end.")
	}
	if !found {
		block := append([]string{a.MarkerStart + sep}, a.blockOf(content, sep, a.MarkerEnd, newline)...)
		switch pattern, isAfter := a.InsertBeforeMatch, false; {
		case a.PrependIfNotFound:
			after, found = append(block, after...), true
		case a.AppendIfNotFound:
			if n := len(after); n > 0 && !strings.HasSuffix(after[n-1], sep) {
				after[n-1] += sep
			}
			after, found = append(after, block...), true
		case Truth(a.InsertBeforeMatch), Truth(a.InsertAfterMatch):
			if !Truth(pattern) {
				pattern, isAfter = a.InsertAfterMatch, true
			}
			re, err := compileForModule(Str(pattern), 0)
			if err != nil {
				return nil, err
			}
			for i, line := range before {
				m, err := re.Search(line)
				if err != nil {
					return nil, OtherErrorf("re.error", "%s", err)
				}
				if m == nil {
					continue
				}
				if isAfter {
					i++
				}
				after = append(append(append([]string{}, after[:i]...), block...), after[i:]...)
				found = true
				break
			}
		}
	}
	if !found {
		return nil, ExecErrorf("Cannot edit marked block. Markers were not found in file.")
	}
	diff := unifiedDiff(before, after, "", "")
	if diff != "" && !a.DryRun {
		backup := a.Backup
		if backup == false {
			backup = nil
		}
		target := path
		if isSymlink(path) {
			target = realPath(path)
		}
		if Truth(backup) && target != path { // the backup stands beside the name that was given
			if err := copyKeeping(path, path+Str(backup)); err != nil {
				return nil, pyOSError(err)
			}
			backup = nil
		}
		if err := commitEdit(filepath.Clean(target), []byte(strings.Join(after, "")), backup, false); err != nil {
			return nil, err
		}
	}
	if a.ShowChanges {
		return diff, nil
	}
	return diff != "", nil
}
