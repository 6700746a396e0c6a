// The module archive: listing, packing and unpacking. Listing reads archives
// here; tar, gzip and rar run the tools of the box, zip archives do not.
package main

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

func archiveModule() Module {
	return Module{
		Doc: "List, make and unpack archives.",
		Funcs: Funcs{
			"list":         {run: archiveList, doc: "List the members of a tar, zip or rar archive; with verbose, by kind.\n\nCLI Example:\n\n    salt '*' archive.list salt://foo.tar.gz verbose=True"},
			"tar":          {run: archiveTar, doc: "Run tar with options, an archive, sources and a directory.\n\nCLI Example:\n\n    salt '*' archive.tar cjvf /tmp/salt.tar.bz2 /tmp/foo"},
			"gzip":         {run: archiveGzip("gzip"), doc: "Run gzip on a file."},
			"gunzip":       {run: archiveGunzip, doc: "Run gunzip on a file."},
			"cmd_zip":      {run: archiveCmdZip, doc: "Run zip on files and directories."},
			"zip":          {run: archiveZip, doc: "Pack files and directories into a zip archive; names are relative to cwd or /."},
			"cmd_unzip":    {run: archiveCmdUnzip, doc: "Run unzip on an archive."},
			"unzip":        {run: archiveUnzip, doc: "Unpack a zip archive into a directory."},
			"is_encrypted": {run: archiveIsEncrypted, doc: "Say whether a zip archive needs a password."},
			"rar":          {run: archiveRar, doc: "Run rar on files and directories."},
			"unrar":        {run: archiveUnrar, doc: "Run unrar or rar on an archive."},
		},
	}
}

// needBinary is the error of a function whose program is missing.
func needBinary(name string) error {
	if which(name) == "" {
		return NotFoundErrorf("The '%s' binary was not found in $PATH.", name)
	}
	return nil
}

// guessArchive is the kind of an archive by its name, or nothing.
func guessArchive(name string) string {
	name = strings.ToLower(name)
	for _, end := range []string{".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tbz", ".tar.xz", ".txz", ".tar.lzma", ".tlz"} {
		if strings.HasSuffix(name, end) {
			return "tar"
		}
	}
	for _, kind := range []string{"zip", "rar"} {
		if strings.HasSuffix(name, "."+kind) {
			return kind
		}
	}
	return ""
}

// members are the names in an archive by kind; those of directories end in /.
type members struct{ dirs, files, links []string }

type archiveListArgs struct {
	Name       string
	Format     any    `arg:"archive_format" def:"None"`
	Options    any    `def:"None"`
	Strip      any    `arg:"strip_components" def:"None"`
	Clean      bool   `def:"False"`
	Verbose    bool   `def:"False"`
	Saltenv    string `def:"'base'"`
	SourceHash any    `arg:"source_hash" def:"None"`
	UseEtag    bool   `arg:"use_etag" def:"False"`
}

func archiveList(ctx context.Context, c *Call, a archiveListArgs) (any, error) {
	cached, err := cacheArchive(ctx, c, a.Name, a.Saltenv, a.SourceHash)
	if err != nil {
		return nil, err
	}
	out, err := listArchive(ctx, a, cached)
	if me := (*ModuleError)(nil); errors.As(err, &me) && me.Kind == ErrExecution {
		msg, info := me.Msg, NewMap()
		if me.Info != nil {
			msg, info = me.Short, me.Info
		}
		info.Set("archive location", cached)
		return nil, ExecErrorInfo(msg, info)
	}
	return out, err
}

// cacheArchive brings an archive to this box; one that is on it stays in place.
func cacheArchive(ctx context.Context, c *Call, name, saltenv string, sourceHash any) (string, error) {
	if path := strings.TrimPrefix(name, "file://"); strings.HasPrefix(path, "/") {
		return path, nil
	}
	cached, err := cacheSource(ctx, c, name, saltenv, sourceHash, true)
	if err == nil && cached == "" {
		err = ExecErrorf("Failed to cache %s", name)
	}
	return cached, err
}

func listArchive(ctx context.Context, a archiveListArgs, cached string) (any, error) {
	strip := 0
	if Truth(a.Strip) {
		n, ok := intText(Str(a.Strip))
		if !ok || n <= 0 {
			return nil, ExecErrorf("'strip_components' must be a positive integer")
		}
		strip = int(n)
	}
	kind := Str(a.Format)
	if !Truth(a.Format) {
		if kind = guessArchive(a.Name); kind == "" {
			return nil, ExecErrorf("Unable to guess archive format, please pass an 'archive_format' argument.")
		}
	}
	var m members
	var err error
	switch kind {
	case "tar":
		m, err = listTar(ctx, a.Name, cached, a.Options)
	case "zip":
		m, err = listZip(a.Name, cached)
	case "rar":
		m, err = listRar(ctx, cached)
	default:
		return nil, ExecErrorf("Unsupported archive format '%s'", kind)
	}
	if me := (*ModuleError)(nil); err != nil && !errors.As(err, &me) {
		err = ExecErrorf("Failed to list contents of %s: %s", a.Name, osErrorText(err))
	}
	if err != nil {
		return nil, err
	}
	if a.Clean {
		_ = os.Remove(cached)
	}
	for _, names := range []*[]string{&m.dirs, &m.files, &m.links} {
		if strip > 0 {
			*names = stripNames(*names, strip)
		}
		slices.Sort(*names)
	}
	if !a.Verbose {
		all := slices.Concat(m.dirs, m.files, m.links)
		slices.Sort(all)
		return Strings(all), nil
	}
	flat := func(names []string) *List {
		out := &List{}
		for _, n := range names {
			if !strings.Contains(n, "/") {
				out.Append(n)
			}
		}
		return out
	}
	top := &List{}
	for _, d := range m.dirs {
		if strings.Count(d, "/") == 1 {
			top.Append(d)
		}
	}
	// A directory that all members share need not be a member itself.
	if first, _, ok := strings.Cut(commonPrefix(slices.Concat(m.dirs, m.files, m.links)), "/"); ok && !containsItem(top.Items, first+"/") {
		top.Append(first + "/")
	}
	return NewMap("dirs", Strings(m.dirs), "files", Strings(m.files), "links", Strings(m.links),
		"top_level_dirs", top, "top_level_files", flat(m.files), "top_level_links", flat(m.links)), nil
}

// stripNames takes leading directories off names; what is not deeper goes.
func stripNames(names []string, n int) []string {
	var out []string
	for _, name := range names {
		if parts := strings.SplitN(name, "/", n+1); len(parts) > n && parts[n] != "" {
			out = append(out, parts[n])
		}
	}
	return out
}

func commonPrefix(names []string) string {
	if len(names) == 0 {
		return ""
	}
	low, high := slices.Min(names), slices.Max(names)
	i := 0
	for i < len(low) && i < len(high) && low[i] == high[i] {
		i++
	}
	return low[:i]
}

// errNotTar says that a file is no tar archive in a compression known here.
var errNotTar = errors.New("not a tar archive")

// openTar opens a tar archive, compressed or not, as a stream of tar. For xz and
// other compressions it runs a program; options name one of the user's choice.
func openTar(ctx context.Context, path string, options any) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r := bufio.NewReader(f)
	head, _ := r.Peek(512)
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		z, err := gzip.NewReader(r)
		if err != nil {
			f.Close()
			return nil, errNotTar
		}
		return readCloser{z, f.Close}, nil
	case bytes.HasPrefix(head, []byte("BZh")):
		return readCloser{bzip2.NewReader(r), f.Close}, nil
	case len(head) > 262 && string(head[257:262]) == "ustar" || len(head) == 512 && oldTarHeader(head):
		return readCloser{r, f.Close}, nil
	}
	f.Close()
	args := []string{"xz", "--decompress", "--stdout"}
	if text, ok := options.(string); ok && text != "" {
		if args, err = splitShell(text); err != nil || len(args) == 0 {
			return nil, ExecErrorf("Invalid CLI options")
		}
	} else if !bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")) && !bytes.HasPrefix(head, []byte("\x5d\x00\x00")) || which("xz") == "" {
		return nil, errNotTar
	}
	cmd := exec.CommandContext(ctx, args[0], append(args[1:], path)...)
	cmd.Env = toolEnv()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	return readCloser{out, func() error {
		_ = out.Close()
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%s", strings.TrimSpace(stderr.String()))
		}
		return nil
	}}, nil
}

// readCloser joins a reader with what ends it.
type readCloser struct {
	io.Reader
	end func() error
}

func (r readCloser) Close() error { return r.end() }

// oldTarHeader checks the sum of a header from before there was a mark in it.
func oldTarHeader(h []byte) bool {
	want, err := strconv.ParseInt(strings.Trim(string(h[148:156]), " \x00"), 8, 64)
	if err != nil {
		return false
	}
	sum := int64(8 * ' ')
	for i, b := range h {
		if i < 148 || i >= 156 {
			sum += int64(b)
		}
	}
	return sum == want
}

func listTar(ctx context.Context, name, cached string, options any) (members, error) {
	var m members
	unreadable := ExecErrorf("Unable to list contents of %s. If this is an XZ-compressed tar archive, install XZ Utils to enable listing its contents. "+
		"If it is compressed using something other than XZ, it may be necessary to specify CLI options to decompress the archive. "+
		"See the documentation for details.", name)
	r, err := openTar(ctx, cached, options)
	if errors.Is(err, errNotTar) {
		return m, unreadable
	}
	if err != nil {
		return m, err
	}
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if err == io.EOF {
			break
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			if text := r.Close(); text != nil && text.Error() != "" {
				return m, ExecErrorInfo("Failed to decompress "+name, NewMap("error", text.Error()))
			}
			return m, unreadable
		}
		member := strings.TrimRight(h.Name, "/")
		switch h.Typeflag {
		case tar.TypeSymlink:
			m.links = append(m.links, member)
		case tar.TypeDir:
			m.dirs = append(m.dirs, member+"/")
		default:
			m.files = append(m.files, member)
		}
	}
	_ = r.Close()
	return m, nil
}

func listZip(name, cached string) (members, error) {
	var m members
	z, err := openZip(cached)
	if errors.Is(err, zip.ErrFormat) {
		return m, ExecErrorf("%s is not a ZIP file", name)
	}
	if err != nil {
		return m, err
	}
	defer z.Close()
	dirs, files := map[string]bool{}, map[string]bool{}
	for _, f := range z.File {
		switch mode := zipMode(f); {
		case mode&0o170000 == 0o120000:
			m.links = append(m.links, f.Name)
		case mode&0o170000 == 0o040000:
			dirs[f.Name] = true
		default:
			files[f.Name] = true
		}
	}
	// Some programs leave out directories, others do not mark them.
	for f := range files {
		if i := strings.LastIndexByte(f, '/'); i >= 0 {
			dirs[f[:i+1]] = true
		}
	}
	for d := range dirs {
		delete(files, d)
		m.dirs = append(m.dirs, d)
	}
	for f := range files {
		m.files = append(m.files, f)
	}
	return m, nil
}

// openZip opens a zip archive; names that leave the directory are not its error.
func openZip(path string) (*zip.ReadCloser, error) {
	z, err := zip.OpenReader(path)
	if errors.Is(err, zip.ErrInsecurePath) {
		err = nil
	}
	return z, err
}

// zipMode is the mode of Unix that a member has, 0 where the archive has none.
func zipMode(f *zip.File) uint32 { return f.ExternalAttrs >> 16 }

func listRar(ctx context.Context, cached string) (members, error) {
	var m members
	if which("rar") == "" {
		return m, ExecErrorf("rar command not available, is it installed?")
	}
	r, err := runTool(ctx, "rar", "lt", cached)
	if err != nil {
		return m, err
	}
	name := ""
	for _, line := range pyLines(string(r.stdout), false) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch value = strings.TrimSpace(value); key {
		case "Name":
			name = value
		case "Type":
			if value == "Directory" {
				m.dirs = append(m.dirs, name+"/")
			} else {
				m.files = append(m.files, name)
			}
		}
	}
	if len(m.dirs)+len(m.files) == 0 {
		return m, ExecErrorInfo("Failed to list "+cached+", is it a rar file?", NewMap("error", string(r.stdout)))
	}
	return m, nil
}

// expandSources are the files that an argument sources names: a list, a text
// with commas or a number, each perhaps a pattern.
func expandSources(v any) []string {
	var names []string
	switch v := v.(type) {
	case nil:
	case *List:
		for _, item := range v.Items {
			names = append(names, Str(item))
		}
	default:
		for _, name := range strings.Split(Str(v), ",") {
			names = append(names, pyStrip(name))
		}
	}
	var out []string
	for _, name := range names {
		if strings.ContainsAny(name, "*?[") {
			out = append(out, globPaths(name)...)
		} else {
			out = append(out, name)
		}
	}
	return out
}

// archiveTool runs a program as these functions do and returns its lines.
func archiveTool(ctx context.Context, c *Call, cwd, template, runas any, args ...string) (any, error) {
	inner, req := archiveRequest(c, cmdRequest{Cmd: Strings(args), Cwd: cwd, Template: template, Runas: runas, OutputLoglevel: "debug"})
	text, err := runAndShow(ctx, inner, req)
	if err != nil {
		return nil, err
	}
	return Strings(pyLines(Str(text), false)), nil
}

// archiveRequest completes the request for an archiver, and gives the call it runs in.
func archiveRequest(c *Call, req cmdRequest) (*Call, cmdRequest) {
	inner := *c
	inner.Direct = false
	req.Rstrip, req.ResetSystemLocale, req.RedirectStderr, req.PythonShell, req.Kwargs = true, true, true, false, NewMap()
	req.Shell = defaultShell()
	return &inner, req
}

func archiveRun(ctx context.Context, c *Call, req cmdRequest) (cmdResult, error) {
	inner, req := archiveRequest(c, req)
	return runCommand(ctx, inner, req)
}

type archiveTarArgs struct {
	Options  any
	Tarfile  any
	Sources  any `def:"None"`
	Dest     any `def:"None"`
	Cwd      any `def:"None"`
	Template any `def:"None"`
	Runas    any `def:"None"`
}

func archiveTar(ctx context.Context, c *Call, a archiveTarArgs) (any, error) {
	if err := needBinary("tar"); err != nil {
		return nil, err
	}
	if !Truth(a.Options) {
		return nil, InvocationErrorf("Tar options can not be empty")
	}
	args := append([]string{"tar"}, pyFields(Str(a.Options))...)
	args = append(args, Str(a.Tarfile))
	if Truth(a.Dest) {
		args = append(args, "-C", Str(a.Dest))
	}
	return archiveTool(ctx, c, a.Cwd, a.Template, a.Runas, append(args, expandSources(a.Sources)...)...)
}

type gzipArgs struct {
	Sourcefile any
	Template   any `def:"None"`
	Runas      any `def:"None"`
	Options    any `def:"None"`
}

func archiveGzip(tool string) func(context.Context, *Call, gzipArgs) (any, error) {
	return func(ctx context.Context, c *Call, a gzipArgs) (any, error) {
		if err := needBinary(tool); err != nil {
			return nil, err
		}
		args := []string{tool}
		if Truth(a.Options) {
			args = append(args, Str(a.Options))
		}
		return archiveTool(ctx, c, nil, a.Template, a.Runas, append(args, Str(a.Sourcefile))...)
	}
}

type gunzipArgs struct {
	Gzipfile any
	Template any `def:"None"`
	Runas    any `def:"None"`
	Options  any `def:"None"`
}

func archiveGunzip(ctx context.Context, c *Call, a gunzipArgs) (any, error) {
	return archiveGzip("gunzip")(ctx, c, gzipArgs{a.Gzipfile, a.Template, a.Runas, a.Options})
}

type rarArgs struct {
	Rarfile  any
	Sources  any
	Template any `def:"None"`
	Cwd      any `def:"None"`
	Runas    any `def:"None"`
}

func archiveRar(ctx context.Context, c *Call, a rarArgs) (any, error) {
	if err := needBinary("rar"); err != nil {
		return nil, err
	}
	args := append([]string{"rar", "a", "-idp", Str(a.Rarfile)}, expandSources(a.Sources)...)
	return archiveTool(ctx, c, a.Cwd, a.Template, a.Runas, args...)
}

type unrarArgs struct {
	Rarfile  any
	Dest     any
	Excludes any `def:"None"`
	Template any `def:"None"`
	Runas    any `def:"None"`
	Trim     any `arg:"trim_output" def:"False"`
}

func archiveUnrar(ctx context.Context, c *Call, a unrarArgs) (any, error) {
	tool := "unrar"
	if which(tool) == "" {
		tool = "rar"
	}
	if which(tool) == "" {
		return nil, NotFoundErrorf("None of provided binaries([\"'unrar'\", \"'rar'\"]) were found in $PATH.")
	}
	args := []string{tool, "x", "-idp", Str(a.Rarfile)}
	for _, e := range excludeNames(a.Excludes) {
		args = append(args, "-x", e)
	}
	out, err := archiveTool(ctx, c, nil, a.Template, a.Runas, append(args, Str(a.Dest))...)
	if err != nil {
		return nil, err
	}
	return trimNames(out.(*List), a.Trim), nil
}

func excludeNames(v any) []string {
	switch v := v.(type) {
	case nil:
		return nil
	case *List:
		return texts(v)
	}
	var out []string
	for _, name := range strings.Split(Str(v), ",") {
		out = append(out, pyStrip(name))
	}
	return out
}

// trimNames cuts a long list: True after 100 names, a number after so many.
func trimNames(names *List, trim any) *List {
	count := 100
	switch v := trim.(type) {
	case bool:
		if !v {
			return names
		}
	case int64:
		count = int(v)
	default:
		return names
	}
	if count < 0 || names.Len() <= count {
		return names
	}
	out := NewList(names.Items[:count]...)
	out.Append(fmt.Sprintf("List trimmed after %d files.", count))
	return out
}

// otherUser says whether runas is someone else than this process.
func otherUser(runas any) (bool, error) {
	if !Truth(runas) {
		return false, nil
	}
	u, ok := userByName(Str(runas))
	if !ok {
		return false, InvocationErrorf("User '%s' does not exist", Str(runas))
	}
	return u.uid != os.Geteuid() || u.gid != os.Getegid(), nil
}

// renderArchivePaths renders two path arguments where a template engine is named.
func renderArchivePaths(ctx context.Context, c *Call, template any, paths ...*string) error {
	if !Truth(template) {
		return nil
	}
	if !isTemplateEngine(Str(template)) {
		return ExecErrorf("Attempted to render file paths with unavailable engine %s", Str(template))
	}
	for _, p := range paths {
		text, err := renderModuleText(ctx, c, Str(template), *p, nil, nil)
		if err != nil {
			return ExecErrorf("Failed to render file path with error: %s", err)
		}
		*p = text
	}
	return nil
}
