// Module file: managed files: finding the source, getting it, comparing, and
// writing the file. The state file.managed goes through these functions.
package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"
)

// tempPrefix begins the names of temporary files; only such are removed.
const tempPrefix = "__salt.tmp."

// tempFile makes a temporary file with contents.
func tempFile(data []byte) (string, error) {
	f, err := os.CreateTemp("", tempPrefix+"*")
	if err != nil {
		return "", pyOSError(err)
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(f.Name())
		return "", pyOSError(err)
	}
	return f.Name(), nil
}

// cleanTemp removes a temporary file of ours, and nothing else.
func cleanTemp(path string) {
	if strings.HasPrefix(path, filepath.Join(os.TempDir(), tempPrefix)) {
		os.Remove(path)
	}
}

type sourceListArgs struct{ Source, SourceHash, Saltenv any }

func fileSourceList(ctx context.Context, c *Call, a sourceListArgs) (any, error) {
	src, sum, err := pickSource(ctx, c, a.Source, a.SourceHash, Str(orEmpty(a.Saltenv)))
	if err != nil {
		return nil, err
	}
	return NewList(src, sum), nil
}

// pickSource takes the first source of a list that exists, with its hash. One
// that is no list is taken as it is.
func pickSource(ctx context.Context, c *Call, source, sourceHash any, saltenv string) (any, any, error) {
	list, ok := source.(*List)
	if !ok {
		return source, sourceHash, nil
	}
	for _, item := range list.Items {
		hash := sourceHash
		if m, ok := item.(*Map); ok {
			if m.Len() != 1 {
				continue
			}
			k, v := m.At(0)
			item = k
			if Truth(v) {
				hash = v
			}
		}
		single := Str(item)
		found, err := sourceExists(ctx, c, single, saltenv)
		if err != nil {
			return nil, nil, err
		}
		if found {
			return single, hash, nil
		}
	}
	return nil, nil, ExecErrorf("none of the specified sources were found")
}

func sourceExists(ctx context.Context, c *Call, single, saltenv string) (bool, error) {
	switch scheme := urlScheme(single); scheme {
	case "salt":
		path, env := splitSaltURL(single)
		if env == "" {
			env = saltenv
		}
		for _, fun := range []string{"cp.list_master", "cp.list_master_dirs"} {
			got, err := c.Run(ctx, fun, env)
			if err != nil {
				return false, err
			}
			if containsItem(toItems(got), path) {
				return true, nil
			}
		}
		return false, nil
	case "http", "https", "ftp":
		got, err := c.RunKw(ctx, "http.query", []any{single}, NewMap("method", "HEAD", "decode_body", false))
		if err != nil {
			return false, nil
		}
		m, _ := got.(*Map)
		return m != nil && !m.Has("error"), nil
	case "file":
		u, err := url.Parse(single)
		return err == nil && (pathExists(u.Path) || u.Host != "" && pathExists(filepath.Join(u.Host, u.Path))), nil
	}
	return strings.HasPrefix(single, "/") && pathExists(single), nil
}

// splitSaltURL reads salt://path?saltenv=env.
func splitSaltURL(s string) (path, env string) {
	path = strings.TrimLeft(strings.TrimPrefix(strings.TrimPrefix(s, "salt://"), "|"), "/")
	if p, query, ok := strings.Cut(path, "?"); ok {
		if v, err := url.ParseQuery(query); err == nil && v.Get("saltenv") != "" {
			return p, v.Get("saltenv")
		}
	}
	return path, ""
}

type applyTemplateArgs struct{ Contents, Template, Context, Defaults, Saltenv any }

func fileApplyTemplate(ctx context.Context, c *Call, a applyTemplateArgs) (any, error) {
	engine := Str(orEmpty(a.Template))
	if !isTemplateEngine(engine) {
		return NewMap("result", false, "comment", fmt.Sprintf("Specified template format %s is not supported", Str(a.Template))), nil
	}
	return renderModuleText(ctx, c, engine, Str(a.Contents), a.Saltenv, templateContext(a.Defaults, a.Context))
}

// templateContext is defaults with context on top.
func templateContext(defaults, over any) *Map {
	out := &Map{}
	for _, v := range []any{defaults, over} {
		if m, ok := v.(*Map); ok {
			out.Merge(m)
		}
	}
	return out
}

type getManagedArgs struct {
	Name           string
	Template       any
	Source         any
	SourceHash     any
	SourceHashName any
	User           any
	Group          any
	Mode           any
	Attrs          any
	Saltenv        any
	Context        any
	Defaults       any
	SkipVerify     bool `def:"False"`
	VerifySsl      bool `def:"True"`
	UseEtag        bool `def:"False"`
	Kwargs         *Map `arg:"**kwargs"`
}

func fileGetManaged(ctx context.Context, c *Call, a getManagedArgs) (any, error) {
	sfn, sum, comment, err := getManaged(ctx, c, a)
	if err != nil {
		return nil, err
	}
	return NewList(sfn, sum, comment), nil
}

// getManaged brings the source of a managed file to this box, rendered if it is
// a template: its path here, its checksum, and what went wrong.
func getManaged(ctx context.Context, c *Call, a getManagedArgs) (sfn string, sum *Map, comment string, err error) {
	sum = &Map{}
	source := Str(orEmpty(a.Source))
	if source == "" {
		return "", sum, "", nil
	}
	saltenv := Str(orEmpty(a.Saltenv))
	scheme := urlScheme(source)
	if !isFileProtocol(scheme) {
		scheme = ""
	}
	local := ""
	switch scheme {
	case "":
		local = source
	case "file":
		if u, err := url.Parse(source); err == nil {
			local = strings.TrimRight(filepath.Join(u.Host, u.Path), "/")
			if u.Host == "" {
				local = strings.TrimRight(u.Path, "/")
			}
		}
	}
	if local != "" {
		if sfn = local; !pathExists(sfn) {
			return "", &Map{}, fmt.Sprintf("Local file source %s does not exist", sfn), nil
		}
	}
	switch {
	case scheme == "salt":
		got, err := c.Run(ctx, "cp.hash_file", source, a.Saltenv)
		if err != nil {
			return "", nil, "", err
		}
		if m, ok := got.(*Map); ok && m.Len() > 0 {
			sum = m.Clone()
		} else {
			return "", &Map{}, fmt.Sprintf("Source file %s not found in saltenv '%s'", source, saltenv), nil
		}
	case !Truth(a.SourceHash) && local != "":
		hsum, err := hashOfFile(local, "sha256")
		if err != nil {
			return "", nil, "", err
		}
		sum = NewMap("hsum", hsum, "hash_type", "sha256")
	case a.SkipVerify:
	case Truth(a.SourceHash):
		sum, err = getSourceSum(ctx, c, sourceSumArgs{a.Name, source, a.SourceHash, a.SourceHashName, saltenv, a.VerifySsl})
		if err != nil {
			if asModuleError(err).Kind == ErrExecution {
				return "", &Map{}, err.Error(), nil
			}
			return "", nil, "", err
		}
	case !a.UseEtag:
		return "", &Map{}, fmt.Sprintf("Unable to verify upstream hash of source file %s, please set source_hash or set skip_verify to True", redactURL(source)), nil
	}
	engine := Str(orEmpty(a.Template))
	remote := scheme != "" && scheme != "file"
	if engine == "" && !remote {
		return sfn, sum, "", nil
	}
	if sfn, sum, comment, err = fetchManaged(ctx, c, a, source, sfn, sum); comment != "" || err != nil {
		return sfn, &Map{}, comment, err
	}
	if sfn == a.Name {
		return "", nil, "", InvocationErrorf("Source file cannot be the same as destination")
	}
	if engine == "" {
		return sfn, sum, "", nil
	}
	if !isTemplateEngine(engine) {
		return sfn, &Map{}, fmt.Sprintf("Specified template format %s is not supported", engine), nil
	}
	vars := NewMap("name", a.Name, "source", a.Source, "user", a.User, "group", a.Group, "mode", a.Mode, "attrs", a.Attrs)
	vars.Merge(a.Kwargs)
	vars.Merge(templateContext(a.Defaults, a.Context))
	data, err := os.ReadFile(sfn)
	if err != nil {
		return "", nil, "", pyOSError(err)
	}
	text, err := c.renderTemplate(ctx, string(data), engine, sfn, saltenv, vars)
	if err != nil {
		return "", nil, "", err
	}
	out, err := tempFile([]byte(text))
	if err != nil {
		return "", nil, "", err
	}
	return out, NewMap("hash_type", "sha256", "hsum", hexDigest("sha256", []byte(text))), "", nil
}

// fetchManaged brings a source into the cache, if what is there does not do.
func fetchManaged(ctx context.Context, c *Call, a getManagedArgs, source, sfn string, sum *Map) (string, *Map, string, error) {
	refetch := false
	if urlScheme(source) != "" && (Truth(a.SourceHash) || a.SkipVerify || a.UseEtag) {
		cached, err := c.Run(ctx, "cp.is_cached", source, a.Saltenv)
		if err != nil {
			return "", nil, "", err
		}
		if path := Str(orEmpty(cached)); path != "" && isFile(path) {
			kind := sum.Str("hash_type")
			if kind == "" {
				kind = "sha256"
			}
			have, err := hashOfFile(path, kind)
			if err != nil {
				return "", nil, "", err
			}
			switch {
			case a.SkipVerify:
				sfn, sum = path, NewMap("hsum", have, "hash_type", kind)
			case a.UseEtag || have != sum.Str("hsum"):
				refetch = true
			default:
				sfn = path
			}
		}
	}
	if sfn == "" || refetch {
		got, err := c.RunKw(ctx, "cp.cache_file", []any{source, a.Saltenv},
			NewMap("source_hash", sum.Value("hsum"), "verify_ssl", a.VerifySsl, "use_etag", a.UseEtag))
		if err != nil {
			if ctx.Err() != nil {
				return "", nil, "", err
			}
			return "", nil, fmt.Sprintf("Failed to cache %s: %s", redactURL(source), err), nil
		}
		sfn = ""
		if Truth(got) {
			sfn = Str(got)
		}
	}
	if sfn == "" || !pathExists(sfn) {
		return sfn, nil, fmt.Sprintf("Source file '%s' not found", redactURL(source)), nil
	}
	return sfn, sum, "", nil
}

type getDiffArgs struct {
	File1           string
	File2           string
	Saltenv         any  `def:"'base'"`
	ShowFilenames   bool `def:"True"`
	ShowChanges     bool `def:"True"`
	Template        bool `def:"False"`
	SourceHashFile1 any  `def:"None"`
	SourceHashFile2 any  `def:"None"`
}

func fileGetDiff(ctx context.Context, c *Call, a getDiffArgs) (any, error) {
	return diffFiles(ctx, c, a)
}

// diffFiles compares two files, here or on the file server, as a unified diff.
func diffFiles(ctx context.Context, c *Call, a getDiffArgs) (string, error) {
	var paths []string
	var problems []string
	for i, name := range []string{a.File1, a.File2} {
		if filepath.IsAbs(name) {
			paths = append(paths, name)
			continue
		}
		hash := []any{a.SourceHashFile1, a.SourceHashFile2}[i]
		got, err := c.RunKw(ctx, "cp.cache_file", []any{name, a.Saltenv}, NewMap("source_hash", hash))
		switch {
		case err != nil:
			problems = append(problems, "- "+err.Error())
		case !Truth(got):
			problems = append(problems, "- File "+name+" not found")
		default:
			paths = append(paths, Str(got))
		}
	}
	if len(problems) > 0 {
		return "", ExecErrorf("Failed to cache one or more files. Additional info follows:\n\n%s", strings.Join(problems, "\n"))
	}
	var texts [2][]byte
	for i, path := range paths {
		p, err := os.ReadFile(path)
		if err != nil {
			return "", ExecErrorf("Failed to read %s: %s", path, strerrorOf(err))
		}
		texts[i] = p
	}
	if bytes.Equal(texts[0], texts[1]) {
		return "", nil
	}
	switch option, _ := configLookup(c, "obfuscate_templates"); {
	case a.Template && Truth(option):
		return "<Obfuscated Template>", nil
	case !a.ShowChanges:
		return "<show_changes=False>", nil
	}
	switch old, now := isTextData(texts[0]), isTextData(texts[1]); {
	case !old && !now:
		return "Replace binary file", nil
	case !old:
		return "Replace binary file with text file", nil
	case !now:
		return "Replace text file with binary file", nil
	}
	from, to := "", ""
	if a.ShowFilenames {
		from, to = paths[0], paths[1]
	}
	return unifiedDiff(keepEnds(anyText(texts[0])), keepEnds(anyText(texts[1])), from, to), nil
}

// anyText reads bytes as UTF-8, or else as Latin-1, in which everything is text.
func anyText(p []byte) string {
	encoding := "utf-8"
	if !utf8.Valid(p) {
		encoding = "latin-1"
	}
	text, _ := decodeText(p, encoding)
	return text
}

type fileMetaArgs struct {
	Name                            string
	Sfn                             any
	Source                          any
	SourceSum                       any
	User, Group, Mode, Attrs        any
	Saltenv                         any
	Contents                        any  `def:"None"`
	Seuser, Serole, Setype, Serange any  `def:"None"`
	VerifySsl                       bool `def:"True"`
	FollowSymlinks                  bool `def:"False"`
}

func fileCheckFileMeta(ctx context.Context, c *Call, a fileMetaArgs) (any, error) {
	return orError(checkFileMeta(ctx, c, a))
}

// checkFileMeta lists what would change if a file were managed.
func checkFileMeta(ctx context.Context, c *Call, a fileMetaArgs) (*Map, error) {
	changes := &Map{}
	sum, _ := a.SourceSum.(*Map)
	st, err := statsOf(a.Name, sum.Str("hash_type"), a.FollowSymlinks)
	if err != nil {
		if asModuleError(err).Kind != ErrExecution {
			return nil, err
		}
		changes.Set("newfile", a.Name)
		return changes, nil
	}
	sfn := Str(orEmpty(a.Sfn))
	if want, ok := sum.Get("hsum"); ok && !Equal(want, st.Value("sum")) {
		if sfn == "" && Truth(a.Source) {
			got, err := c.RunKw(ctx, "cp.cache_file", []any{a.Source, a.Saltenv}, NewMap("source_hash", want, "verify_ssl", a.VerifySsl))
			if err != nil {
				return nil, err
			}
			if Truth(got) {
				sfn = Str(got)
			}
		}
		if sfn == "" {
			changes.Set("sum", "Checksum differs")
		} else {
			diff, err := diffFiles(ctx, c, getDiffArgs{File1: a.Name, File2: sfn, Saltenv: "base", ShowChanges: true, Template: true})
			if err != nil {
				diff = err.Error()
			}
			changes.Set("diff", diff)
		}
	}
	if a.Contents != nil {
		tmp, err := tempFile(asBytes(a.Contents))
		if err != nil {
			return nil, err
		}
		diff, err := diffFiles(ctx, c, getDiffArgs{File1: a.Name, File2: tmp, Saltenv: "base", ShowChanges: true})
		cleanTemp(tmp)
		if err != nil {
			c.Log.Error("Failed to diff files: " + err.Error())
			diff = err.Error()
		}
		if diff != "" {
			if option, _ := configLookup(c, "obfuscate_templates"); Truth(option) {
				diff = "<Obfuscated Template>"
			}
			changes.Set("diff", diff)
		}
	}
	if a.User != nil && !isOwner(a.User, st, "user", "uid") {
		changes.Set("user", a.User)
	}
	if a.Group != nil && !isOwner(a.Group, st, "group", "gid") {
		changes.Set("group", a.Group)
	}
	if mode := normalizeMode(a.Mode); mode != nil && !Equal(mode, st.Value("mode")) {
		changes.Set("mode", mode)
	}
	if Truth(a.Attrs) {
		if added, removed, ok := attrChanges(ctx, c, a.Name, Str(a.Attrs)); ok && (added != "" || removed != "") {
			changes.Set("attrs", a.Attrs)
		}
	}
	if Truth(a.Seuser) || Truth(a.Serole) || Truth(a.Setype) || Truth(a.Serange) {
		parts := strings.SplitN(selinuxContext(a.Name), ":", 4)
		for i, w := range []struct {
			key string
			v   any
		}{{"user", a.Seuser}, {"role", a.Serole}, {"type", a.Setype}, {"range", a.Serange}} {
			if Truth(w.v) && (len(parts) != 4 || parts[i] != Str(w.v)) {
				changes.Set("selinux", NewMap(w.key, w.v))
			}
		}
	}
	return changes, nil
}

// managedFile is what the functions that check a managed file take first.
type managedFile struct {
	Name                     string
	Source, SourceHash       any
	SourceHashName           any
	User, Group, Mode, Attrs any
	Template                 any
	Context, Defaults        any
	Saltenv                  any
	Contents                 any  `def:"None"`
	SkipVerify               bool `def:"False"`
}

type selinuxLabel struct {
	Seuser, Serole, Setype, Serange any `def:"None"`
}

type checkManagedArgs struct {
	managedFile
	selinuxLabel
	FollowSymlinks bool `def:"False"`
	Kwargs         *Map `arg:"**kwargs"`
}

type checkManagedChangesArgs struct {
	managedFile
	KeepMode bool `def:"False"`
	selinuxLabel
	VerifySsl      bool `def:"True"`
	FollowSymlinks bool `def:"False"`
	Kwargs         *Map `arg:"**kwargs"`
}

// managedChanges lists the changes of a managed file, or says what went wrong.
func managedChanges(ctx context.Context, c *Call, a checkManagedChangesArgs) (changes *Map, comment string, err error) {
	saltenv := Str(orEmpty(a.Saltenv))
	source, hash, err := pickSource(ctx, c, a.Source, a.SourceHash, saltenv)
	if err != nil {
		return nil, "", err
	}
	sfn, mode := "", a.Mode
	var sum *Map
	if a.Contents == nil {
		sfn, sum, comment, err = getManaged(ctx, c, getManagedArgs{Name: a.Name, Template: a.Template, Source: source, SourceHash: hash,
			SourceHashName: a.SourceHashName, User: a.User, Group: a.Group, Mode: a.Mode, Attrs: a.Attrs, Saltenv: a.Saltenv,
			Context: a.Context, Defaults: a.Defaults, SkipVerify: a.SkipVerify, VerifySsl: a.VerifySsl, Kwargs: cleanKwargs(a.Kwargs)})
		if err != nil || comment != "" {
			cleanTemp(sfn)
			return nil, comment, err
		}
		if h, ok := sum.Get("hsum"); ok {
			sum.Set("hsum", strings.ToLower(Str(h)))
		}
		if sfn != "" && a.KeepMode {
			mode = keptMode(ctx, c, Str(orEmpty(source)), a.Saltenv, mode)
		}
	}
	changes, err = checkFileMeta(ctx, c, fileMetaArgs{Name: a.Name, Sfn: sfn, Source: source, SourceSum: sum, User: a.User, Group: a.Group, Mode: mode,
		Attrs: a.Attrs, Saltenv: a.Saltenv, Contents: a.Contents, Seuser: a.Seuser, Serole: a.Serole, Setype: a.Setype, Serange: a.Serange,
		VerifySsl: true, FollowSymlinks: a.FollowSymlinks})
	cleanTemp(sfn)
	return changes, "", err
}

// keptMode is the mode that a source has, for mode: keep.
func keptMode(ctx context.Context, c *Call, source string, saltenv, mode any) any {
	switch urlScheme(source) {
	case "salt", "file", "":
		got, err := c.RunKw(ctx, "cp.stat_file", []any{source}, NewMap("saltenv", saltenv, "octal", true))
		if err == nil {
			return got
		}
		c.Log.Warn(fmt.Sprintf("Unable to stat %s: %s", source, err))
	}
	return mode
}

func fileCheckManaged(ctx context.Context, c *Call, a checkManagedArgs) (any, error) {
	changes, comment, err := managedChanges(ctx, c, checkManagedChangesArgs{managedFile: a.managedFile, selinuxLabel: a.selinuxLabel, VerifySsl: true,
		FollowSymlinks: a.FollowSymlinks, Kwargs: a.Kwargs})
	if err != nil {
		return nil, err
	}
	if comment != "" {
		return NewList(false, comment), nil
	}
	if strings.HasPrefix(a.Name, os.TempDir()) {
		for _, k := range []string{"user", "group", "mode"} {
			changes.Delete(k)
		}
	}
	if changes.Len() == 0 {
		return NewList(true, fmt.Sprintf("The file %s is in the correct state", a.Name)), nil
	}
	text := "The following values are set to be changed:\n"
	for k, v := range changes.All() {
		text += Str(k) + ": " + Str(v) + "\n"
	}
	return NewList(nil, text), nil
}

func fileCheckManagedChanges(ctx context.Context, c *Call, a checkManagedChangesArgs) (any, error) {
	changes, comment, err := managedChanges(ctx, c, a)
	if err != nil {
		return nil, err
	}
	if comment != "" {
		return NewList(false, comment), nil
	}
	return changes, nil
}

// installFile puts a file in place of another one: beside, then renamed, owner
// and mode before the name, so that whoever looks has the old file or the new
// one. What was there keeps its owner and mode, and a backup if that is wanted;
// fresh is the mode of a file that was not there.
func installFile(c *Call, source, dest, backup string, fresh os.FileMode) error {
	if !isFile(source) {
		return fmt.Errorf("[Errno 2] No such file or directory: %s", source)
	}
	dir := filepath.Dir(dest)
	if !isDir(dir) {
		return fmt.Errorf("[Errno 2] No such file or directory: %s", dest)
	}
	tmp, err := os.CreateTemp(dir, filepath.Base(dest)+"*")
	if err != nil {
		return err
	}
	tmp.Close()
	defer os.Remove(tmp.Name())
	if err := copyContents(source, tmp.Name()); err != nil {
		return err
	}
	if (backup == "minion" || backup == "both") && pathExists(dest) {
		if err := backupFile(c, dest); err != nil {
			return err
		}
	}
	mode := uint32(fresh)
	if was, err := fileStat(dest, true); err == nil {
		mode = uint32(was.Mode) & 0o7777
		if err := os.Chown(tmp.Name(), int(was.Uid), int(was.Gid)); err != nil {
			return err
		}
	}
	if err := syscall.Chmod(tmp.Name(), mode); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), dest)
}

// umaskOf is the umask that a state asked for, 0 if it asked for none.
func umaskOf(c *Call) os.FileMode {
	if c.State != nil {
		if n, ok := c.State.Low.Value("__umask__").(int64); ok {
			return os.FileMode(n)
		}
	}
	return 0
}

// defaultFileMode is the mode of new files under the state's mask or the
// process's.
func defaultFileMode(c *Call) string {
	if mask := umaskOf(c); mask != 0 {
		return strconv.FormatUint(uint64((0o777^mask)&0o666), 8)
	}
	for _, line := range strings.Split(readText("/proc/self/status"), "\n") {
		if v, ok := strings.CutPrefix(line, "Umask:"); ok {
			if mask, err := strconv.ParseUint(strings.TrimSpace(v), 8, 32); err == nil {
				return strconv.FormatUint((0o777^mask)&0o666, 8)
			}
		}
	}
	return "644"
}

func readText(path string) string {
	p, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(p)
}
