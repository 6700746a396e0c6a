// Module file: reading and writing text: append, prepend, comment, sed, grep.
package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

type fileLinesArgs struct {
	Path   string
	Args   []any `arg:"*args"`
	Kwargs *Map  `arg:"**kwargs"`
}

// lines are the lines to write: the arguments, or the keyword args.
func (a fileLinesArgs) lines() []any {
	if v, ok := a.Kwargs.Get("args"); ok {
		if l, ok := v.(*List); ok {
			return l.Items
		}
		return []any{v}
	}
	return a.Args
}

func joinLines(items []any) string {
	var b strings.Builder
	for _, item := range items {
		b.WriteString(Str(item) + "\n")
	}
	return b.String()
}

func fileAppend(_ context.Context, _ *Call, a fileLinesArgs) (any, error) {
	path, lines := expandUser(a.Path), a.lines()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, pyOSError(err)
	}
	defer f.Close()
	text := joinLines(lines)
	if st, err := f.Stat(); err == nil && st.Size() > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, st.Size()-1); err == nil && last[0] != '\n' {
			text = "\n" + text
		}
	}
	if _, err = f.Seek(0, io.SeekEnd); err == nil {
		_, err = f.WriteString(text)
	}
	if err != nil {
		return nil, pyOSError(err)
	}
	return wroteLines("Wrote", len(lines), path), nil
}

func wroteLines(verb string, n int, path string) string {
	return verb + " " + Str(int64(n)) + " lines to \"" + path + "\""
}

func filePrepend(_ context.Context, _ *Call, a fileLinesArgs) (any, error) {
	path, lines := expandUser(a.Path), a.lines()
	old, err := os.ReadFile(path)
	if err != nil {
		old = nil
	}
	if err := overwriteFile(path, append([]byte(joinLines(lines)), old...)); err != nil {
		return nil, pyOSError(err)
	}
	return wroteLines("Prepended", len(lines), path), nil
}

func fileWrite(_ context.Context, _ *Call, a fileLinesArgs) (any, error) {
	path, lines := expandUser(a.Path), a.lines()
	if err := overwriteFile(path, []byte(joinLines(lines))); err != nil {
		return nil, pyOSError(err)
	}
	return wroteLines("Wrote", len(lines), path), nil
}

// overwriteFile writes in place, so that owner, mode and links stay.
func overwriteFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// replaceAtomically writes beside and renames, keeping owner and mode.
func replaceAtomically(path string, data []byte) error {
	st, err := fileStat(path, true)
	if err != nil {
		return writeFileAtomic(path, data, 0o644)
	}
	if err := writeFileAtomic(path, data, os.FileMode(st.Mode&0o777)); err != nil {
		return err
	}
	if err := os.Chown(path, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	_, err = setMode(path, fileModeText(st))
	return err
}

type fileReadArgs struct {
	Path   string
	Binary bool `def:"False"`
}

func fileRead(_ context.Context, _ *Call, a fileReadArgs) (any, error) {
	p, err := os.ReadFile(a.Path)
	if err != nil {
		return nil, pyOSError(err)
	}
	if a.Binary {
		return p, nil
	}
	if !utf8.Valid(p) {
		return nil, OtherErrorf("UnicodeDecodeError", "%s", utf8Error(p))
	}
	return string(p), nil
}

type textInFileArgs struct {
	Path string
	Text any
}

func fileContains(_ context.Context, _ *Call, a textInFileArgs) (any, error) {
	p, err := os.ReadFile(expandUser(a.Path))
	if err != nil {
		return false, nil
	}
	return bytes.Contains(p, []byte(pyStrip(Str(a.Text)))), nil
}

type containsRegexArgs struct {
	Path  string
	Regex any
	Lchar string `def:"''"`
}

func fileContainsRegex(_ context.Context, _ *Call, a containsRegexArgs) (any, error) {
	p, err := os.ReadFile(expandUser(a.Path))
	if err != nil {
		return false, nil
	}
	re, err := compileForModule(Str(a.Regex), 0)
	if err != nil {
		return nil, err
	}
	text, _ := decodeText(p, "")
	for _, line := range byteLines(text) {
		if a.Lchar != "" {
			line = strings.TrimLeft(line, a.Lchar)
		}
		if m, err := re.Search(line); err != nil {
			return nil, OtherErrorf("re.error", "%s", err)
		} else if m != nil {
			return true, nil
		}
	}
	return false, nil
}

// keepEnds splits at \n and keeps it.
func keepEnds(s string) []string {
	lines := strings.SplitAfter(s, "\n")
	if n := len(lines); n > 0 && lines[n-1] == "" {
		lines = lines[:n-1]
	}
	return lines
}

// compileForModule compiles a pattern; its errors are those of Python's re.
func compileForModule(pattern string, flags RegexpFlags) (*PyRegexp, error) {
	re, err := CompilePython(pattern, flags)
	if err != nil {
		return nil, OtherErrorf("re.error", "%s", err)
	}
	return re, nil
}

type containsGlobArgs struct {
	Path     string
	GlobExpr string
}

func fileContainsGlob(_ context.Context, _ *Call, a containsGlobArgs) (any, error) {
	p, err := os.ReadFile(expandUser(a.Path))
	if err != nil || len(p) == 0 {
		return false, nil
	}
	text, _ := decodeText(p, "")
	return GlobMatch(a.GlobExpr, text), nil
}

type seekReadArgs struct {
	Path         string
	Size, Offset int64
}

func fileSeekRead(_ context.Context, _ *Call, a seekReadArgs) (any, error) {
	f, err := os.Open(expandUser(a.Path))
	if err != nil {
		return nil, pyOSError(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, pyOSError(err)
	}
	size := a.Size
	if st.Mode().IsRegular() {
		size = max(0, min(size, st.Size()-a.Offset))
	}
	p := make([]byte, size)
	n, err := f.ReadAt(p, a.Offset)
	if err != nil && err != io.EOF {
		return nil, pyOSError(err)
	}
	return p[:n], nil
}

type seekWriteArgs struct {
	Path   string
	Data   any
	Offset int64
}

func fileSeekWrite(_ context.Context, _ *Call, a seekWriteArgs) (any, error) {
	f, err := os.OpenFile(expandUser(a.Path), os.O_WRONLY, 0)
	if err != nil {
		return nil, pyOSError(err)
	}
	defer f.Close()
	n, err := f.WriteAt(asBytes(a.Data), a.Offset)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, pyOSError(err)
	}
	return int64(n), nil
}

type truncateArgs struct {
	Path   string
	Length int64
}

func fileTruncate(_ context.Context, _ *Call, a truncateArgs) (any, error) {
	path := expandUser(a.Path)
	if !pathExists(path) {
		return nil, OtherErrorf("FileNotFoundError", "[Errno 2] No such file or directory: %s", Repr(path))
	}
	if err := os.Truncate(path, a.Length); err != nil {
		return nil, pyOSError(err)
	}
	return nil, nil
}

// sedEscape makes a text fit between the slashes of a sed command.
func sedEscape(s string, all bool) string {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "'", `'"'"'`), "/", `\/`)
	if all {
		for _, r := range "^.[$()|*+?{" {
			s = strings.ReplaceAll(s, string(r), `\`+string(r))
		}
	}
	return s
}

type sedArgs struct {
	Path          string
	Before, After any
	Limit         any    `def:"''"`
	Backup        any    `def:"'.bak'"`
	Options       string `def:"'-r -e'"`
	Flags         string `def:"'g'"`
	EscapeAll     any    `def:"False"`
	NegateMatch   bool   `def:"False"`
}

func fileSed(ctx context.Context, c *Call, a sedArgs) (any, error) {
	path := expandUser(a.Path)
	if !pathExists(path) {
		return false, nil
	}
	all := a.EscapeAll == true
	words := []any{"sed", "-i"}
	if Truth(a.Backup) {
		words[1] = "-i" + Str(a.Backup)
	}
	options, err := splitShell(a.Options)
	if err != nil {
		return nil, err
	}
	for _, o := range options {
		words = append(words, o)
	}
	script := ""
	if limit := sedEscape(Str(orEmpty(a.Limit)), all); limit != "" {
		script = "/" + limit + "/ "
	}
	if a.NegateMatch {
		script += "!"
	}
	script += "s/" + sedEscape(Str(a.Before), all) + "/" + sedEscape(Str(a.After), all) + "/" + a.Flags
	return c.RunKw(ctx, "cmd.run_all", []any{NewList(append(words, script, path)...)}, NewMap("python_shell", false))
}

type sedContainsArgs struct {
	Path  string
	Text  any
	Limit any    `def:"''"`
	Flags string `def:"'g'"`
}

func fileSedContains(ctx context.Context, c *Call, a sedContainsArgs) (any, error) {
	path := expandUser(a.Path)
	if !pathExists(path) {
		return false, nil
	}
	script := ""
	if limit := sedEscape(Str(a.Limit), false); limit != "" {
		script = "/" + limit + "/ "
	}
	script += "s/" + sedEscape(Str(a.Text), false) + "/$/p" + a.Flags
	out, err := c.RunKw(ctx, "cmd.run", []any{NewList("sed", "-n", "-r", "-e", script, path)}, NewMap("python_shell", false))
	return Truth(out), err
}

type psedArgs struct {
	Path          string
	Before, After any
	Limit         any    `def:"''"`
	Backup        string `def:"'.bak'"`
	Flags         string `def:"'gMS'"`
	EscapeAll     any    `def:"False"`
	Multi         bool   `def:"False"`
}

func filePsed(_ context.Context, _ *Call, a psedArgs) (any, error) {
	path := expandUser(a.Path)
	if err := copyKeeping(path, path+a.Backup); err != nil {
		return nil, pyOSError(err)
	}
	p, err := os.ReadFile(path)
	if err != nil {
		return nil, pyOSError(err)
	}
	text, _ := decodeText(p, "")
	all := a.EscapeAll == true
	var flags RegexpFlags
	count := 1
	for _, f := range a.Flags {
		switch f {
		case 'g':
			count = 0
		case 'I':
			flags |= RegexpIgnoreCase
		case 'M':
			flags |= RegexpMultiline
		case 'S':
			flags |= RegexpDotAll
		case 'X':
			flags |= RegexpVerbose
		case 'L', 'U':
		default:
			return nil, OtherErrorf("KeyError", "%s", Repr(string(f)))
		}
	}
	if limit := sedEscape(Str(orEmpty(a.Limit)), all); limit != "" {
		_, rest, _ := strings.Cut(text, limit)
		text = strings.ReplaceAll(rest, limit, "")
	}
	re, err := compileForModule(sedEscape(Str(a.Before), all), flags)
	if err != nil {
		return nil, err
	}
	out, err := re.ReplaceAll(text, Str(a.After), count)
	if err != nil {
		return nil, OtherErrorf("re.error", "%s", err)
	}
	if err := overwriteFile(path, []byte(out)); err != nil {
		return nil, pyOSError(err)
	}
	return nil, nil
}

type commentArgs struct {
	Path   string
	Regex  string
	Char   string `def:"'#'"`
	Backup any    `def:"'.bak'"`
}

func fileComment(ctx context.Context, c *Call, a commentArgs) (any, error) {
	return commentLine(ctx, c, commentLineArgs{a.Path, a.Regex, a.Char, true, a.Backup})
}

func fileUncomment(ctx context.Context, c *Call, a commentArgs) (any, error) {
	return commentLine(ctx, c, commentLineArgs{a.Path, a.Regex, a.Char, false, a.Backup})
}

type commentLineArgs struct {
	Path   string
	Regex  string
	Char   string `def:"'#'"`
	Cmnt   bool   `def:"True"`
	Backup any    `def:"'.bak'"`
}

func commentLine(_ context.Context, _ *Call, a commentLineArgs) (any, error) {
	start, end := "", ""
	if strings.HasPrefix(a.Regex, "^") {
		start = "^"
	}
	if strings.HasSuffix(a.Regex, "$") {
		end = "$"
	}
	body := strings.TrimRight(strings.TrimLeft(a.Regex, "^"), "$")
	pattern := start + "(" + body + ")" + end
	if !a.Cmnt {
		pattern = "^" + a.Char + `\s*(` + body + ")" + end
	}
	path := realPath(expandUser(a.Path))
	if !isFile(path) {
		return nil, InvocationErrorf("File not found: %s", path)
	}
	p, err := os.ReadFile(path)
	if err != nil {
		return nil, ExecErrorf("Unable to open file '%s'. Exception: %s", path, osErrorText(err))
	}
	if !isTextData(p) {
		return nil, InvocationErrorf("Cannot perform string replacements on a binary file: %s", path)
	}
	re, err := compileForModule(pattern, 0)
	if err != nil {
		return nil, err
	}
	text, _ := decodeText(p, "")
	var before, after []string
	var out strings.Builder
	for _, line := range keepEnds(text) {
		m, err := re.Match(line)
		if err != nil {
			return nil, OtherErrorf("re.error", "%s", err)
		}
		if m == nil {
			out.WriteString(line)
			continue
		}
		changed := a.Char + line
		if !a.Cmnt {
			changed = strings.TrimLeft(line, a.Char)
		}
		before, after = append(before, line), append(after, changed)
		out.WriteString(changed)
	}
	if len(before) == 0 {
		return false, nil
	}
	if Truth(a.Backup) {
		if err := copyOwned(path, path+Str(a.Backup)); err != nil {
			return nil, ExecErrorf("Exception: %s", osErrorText(err))
		}
	}
	if err := replaceAtomically(path, []byte(out.String())); err != nil {
		return nil, ExecErrorf("Exception: %s", osErrorText(err))
	}
	return unifiedDiff(before, after, "", ""), nil
}

// isTextData guesses whether a file is text, by its first bytes.
func isTextData(p []byte) bool {
	if len(p) > 512 {
		p = p[:512]
	}
	if bytes.IndexByte(p, 0) >= 0 {
		return false
	}
	if len(p) == 0 || utf8.Valid(p) {
		return true
	}
	odd := 0
	for _, b := range p {
		if (b < 32 || b >= 127) && !bytes.ContainsRune([]byte("\n\r\t\f\b"), rune(b)) {
			odd++
		}
	}
	return float64(odd)/float64(len(p)) <= 0.30
}

// isTextFile is isTextData of a file.
func isTextFile(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	p := make([]byte, 512)
	n, _ := io.ReadFull(f, p)
	return isTextData(p[:n])
}

// isBinaryFile guesses whether a file is none that lines can be edited in.
func isBinaryFile(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	p := make([]byte, 2048)
	n, _ := io.ReadFull(f, p)
	p = p[:n]
	if n == 0 {
		return false
	}
	if bytes.IndexByte(p, 0) >= 0 || !utf8.Valid(p) {
		return true
	}
	odd, all := 0, 0
	for _, r := range string(p) {
		if all++; (r < 32 || r > 126) && !strings.ContainsRune("\n\r\t\b", r) {
			odd++
		}
	}
	return float64(odd)/float64(all) > 0.3
}

type grepArgs struct {
	Path    string
	Pattern any
	Opts    []any `arg:"*opts"`
}

func fileGrep(ctx context.Context, c *Call, a grepArgs) (any, error) {
	path := expandUser(a.Path)
	words := []any{"grep"}
	for _, o := range a.Opts {
		split, err := splitShell(Str(o))
		if err != nil {
			return nil, err
		}
		if len(split) > 1 {
			return nil, InvocationErrorf("Passing multiple command line arguments in a single string is not supported, please pass the following arguments separately: %s", Str(o))
		}
		for _, w := range split {
			words = append(words, w)
		}
	}
	words = append(words, a.Pattern)
	if files := globPaths(path); len(files) > 0 {
		for _, f := range files {
			words = append(words, f)
		}
	} else {
		words = append(words, path)
	}
	return c.RunKw(ctx, "cmd.run_all", []any{NewList(words...)}, NewMap("python_shell", false))
}

type patchArgs struct {
	Originalfile string
	Patchfile    string
	Options      string `def:"''"`
	DryRun       bool   `def:"False"`
}

func filePatch(ctx context.Context, c *Call, a patchArgs) (any, error) {
	tool := which("patch")
	if tool == "" {
		return nil, ExecErrorf("patch executable not found. Is the distribution's patch package installed?")
	}
	words := []string{tool}
	options, err := splitShell(a.Options)
	if err != nil {
		return nil, err
	}
	words = append(words, options...)
	if a.DryRun {
		words = append(words, "--dry-run")
	}
	has := func(test func(w string) bool) bool {
		for _, w := range words {
			if test(w) {
				return true
			}
		}
		return false
	}
	if !has(func(w string) bool { return w == "-N" || w == "--forward" }) {
		words = append(words, "-N")
	}
	if !isBusybox(tool) && !has(func(w string) bool {
		return w == "-r" || strings.HasPrefix(w, "-r ") || strings.HasPrefix(w, "--reject-file")
	}) {
		words = append(words, "--reject-file=-")
	}
	words = append(words, "-i", a.Patchfile)
	if isDir(a.Originalfile) {
		words = append(words, "-d", a.Originalfile)
		if !has(func(w string) bool { return strings.HasPrefix(w, "-p") || strings.HasPrefix(w, "--strip=") }) {
			words = append(words, "-p0")
		}
	} else {
		words = append(words, a.Originalfile)
	}
	return c.RunKw(ctx, "cmd.run_all", []any{Strings(words)}, NewMap("python_shell", false))
}

// isBusybox says whether a program is busybox, whose tools know only short options.
func isBusybox(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	return err == nil && filepath.Base(real) == "busybox"
}

// copyKeeping copies contents, mode and times: shutil.copy2.
func copyKeeping(src, dst string) error {
	if isDir(dst) {
		dst = filepath.Join(dst, filepath.Base(src))
	}
	if err := copyContents(src, dst); err != nil {
		return err
	}
	st, err := os.Stat(src)
	if err != nil {
		return err
	}
	if err := os.Chmod(dst, st.Mode()); err != nil {
		return err
	}
	return os.Chtimes(dst, st.ModTime(), st.ModTime())
}

// copyOwned is copyKeeping, and the copy has the owner of the original.
func copyOwned(src, dst string) error {
	st, err := fileStat(src, true)
	if err != nil {
		return err
	}
	if err := copyKeeping(src, dst); err != nil {
		return err
	}
	return os.Chown(dst, int(st.Uid), int(st.Gid))
}

// copyContents copies contents in place: shutil.copyfile.
func copyContents(src, dst string) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}
