// State module archive: archives, unpacked. states_archive_tar.go unpacks.
package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
)

func archiveStates() Module {
	return Module{
		Doc: "Archives, unpacked.",
		Funcs: Funcs{"extracted": {run: archiveStateExtracted, doc: "The archive's files are in the directory.\n\nsource, source_hash: as in file.managed\n" +
			"options: for tar or unzip\nenforce_toplevel: refuse archives with more than one directory at their top\nif_missing: do nothing if this path exists\n" +
			"overwrite, clean, clean_parent, force: what happens to files that are there"}},
	}
}

type archiveStateArgs struct {
	Name                string
	Source              any
	SourceHash          any  `def:"None"`
	SourceHashName      any  `def:"None"`
	SourceHashUpdate    any  `def:"False"`
	SkipFilesListVerify any  `def:"False"`
	SkipVerify          any  `def:"False"`
	Password            any  `def:"None"`
	Options             any  `def:"None"`
	ListOptions         any  `def:"None"`
	Force               any  `def:"False"`
	Overwrite           any  `def:"False"`
	Clean               any  `def:"False"`
	CleanParent         any  `def:"False"`
	User                any  `def:"None"`
	Group               any  `def:"None"`
	IfMissing           any  `def:"None"`
	TrimOutput          any  `def:"False"`
	UseCmdUnzip         any  `def:"None"`
	ExtractPerms        any  `def:"True"`
	EnforceToplevel     any  `def:"True"`
	EnforceOwnershipOn  any  `def:"None"`
	ArchiveFormat       any  `def:"None"`
	UseEtag             any  `def:"False"`
	Kwargs              *Map `arg:"**kwargs"`
}

// archiveWork is one state on its way.
type archiveWork struct {
	a        archiveStateArgs
	ret      *Map
	name     string // the directory, with a slash at its end
	source   string
	shown    string // the source without a password
	local    bool
	format   string
	strip    any
	uid, gid int
	cached   string
	contents *Map
	needed   bool // something has to be unpacked
	missing  bool // because files are missing
	byHash   bool // because the hash changed
	made     bool // the directory was made
	oldSum   *Map
	sum      *Map
	files    any
}

// say ends the state.
func (w *archiveWork) say(result any, format string, a ...any) bool {
	w.ret.Set("result", result)
	w.ret.Set("comment", fmt.Sprintf(format, a...))
	return false
}

func (w *archiveWork) warn(text string) {
	l := w.ret.List("warnings")
	if l == nil {
		l = NewList()
		w.ret.Set("warnings", l)
	}
	l.Append(text)
}

// because adds why something is unpacked.
func (w *archiveWork) because() string {
	switch {
	case w.byHash:
		return ", due to source_hash update"
	case w.missing:
		return ", due to absence of one or more files/dirs"
	}
	return ""
}

func archiveStateExtracted(ctx context.Context, c *Call, a archiveStateArgs) (any, error) {
	w := &archiveWork{a: a, ret: NewMap("name", a.Name, "result", false, "changes", NewMap(), "comment", ""), uid: -1, gid: -1}
	keep := true
	if v, ok := a.Kwargs.Get("keep_source"); ok {
		if a.Kwargs.Has("keep") {
			w.warn("Both 'keep_source' and 'keep' were used. Since these both do the same thing, 'keep' was ignored.")
		}
		keep = Truth(v)
	} else if v, ok := a.Kwargs.Get("keep"); ok {
		keep = Truth(v)
	}
	for _, step := range []func(context.Context, *Call) (bool, error){w.checkPaths, w.checkSource, w.checkFormat, w.fetch, w.list, w.compare, w.unpack, w.finish} {
		goOn, err := step(ctx, c)
		if err != nil {
			return nil, err
		}
		if !goOn {
			return w.ret, nil
		}
	}
	if !w.local && !keep {
		v, err := callState(ctx, c, "file.not_cached", NewMap("name", w.source, "saltenv", c.StateEnv()))
		if err != nil {
			return nil, err
		}
		if m, ok := v.(*Map); ok && !Truth(m.Value("result")) {
			w.warn(Str(m.Value("comment")))
		}
	}
	return w.ret, nil
}

func absOrNil(v any) bool {
	if v == nil {
		return true
	}
	s, ok := v.(string)
	return ok && filepath.IsAbs(s)
}

func (w *archiveWork) checkPaths(ctx context.Context, c *Call) (bool, error) {
	a := w.a
	if Truth(a.SkipFilesListVerify) && Truth(a.SkipVerify) {
		return w.say(false, "Only one of \"skip_files_list_verify\" and \"skip_verify\" can be set to True"), nil
	}
	if !filepath.IsAbs(a.Name) {
		return w.say(false, "%s is not an absolute path", a.Name), nil
	}
	name := strings.TrimRight(a.Name, "/")
	if st, err := os.Stat(name); err == nil && st.Mode().IsRegular() {
		return w.say(false, "%s exists and is not a directory", name), nil
	}
	w.name = name + "/"
	if !absOrNil(a.IfMissing) {
		return w.say(false, "Value for 'if_missing' is not an absolute path"), nil
	}
	if !absOrNil(a.EnforceOwnershipOn) {
		return w.say(false, "Value for 'enforce_ownership_on' is not an absolute path"), nil
	}
	if on, ok := a.EnforceOwnershipOn.(string); ok {
		if rel, err := filepath.Rel(w.name, on); err != nil || strings.HasPrefix(rel, "../") {
			return w.say(false, "Value for 'enforce_ownership_on' must be within %s", w.name), nil
		}
	}
	if p, ok := a.IfMissing.(string); ok && pathExists(p) {
		return w.say(true, "Path %s exists", p), nil
	}
	for _, owner := range []struct {
		v               any
		fun, what, name string
		to              *int
	}{{a.User, "file.user_to_uid", "User", "user", &w.uid}, {a.Group, "file.group_to_gid", "Group", "group", &w.gid}} {
		if !Truth(owner.v) {
			continue
		}
		id, err := c.Run(ctx, owner.fun, owner.v)
		if err != nil {
			return false, err
		}
		n, ok := toInt(id)
		if id == "" || !ok {
			return w.say(false, "%s %s does not exist", owner.what, Str(owner.v)), nil
		}
		*owner.to = int(n)
	}
	if Truth(a.SourceHashUpdate) && !Truth(a.SourceHash) {
		w.warn("The 'source_hash_update' argument is ignored when 'source_hash' is not also specified.")
	}
	return true, nil
}

// withoutPassword hides user and password of an address.
func withoutPassword(s string) string {
	if u, err := url.Parse(s); err == nil && u.User != nil && strings.HasPrefix(u.Scheme, "http") {
		return strings.Replace(s, u.User.String()+"@", "<redacted>@", 1)
	}
	return s
}

func (w *archiveWork) checkSource(ctx context.Context, c *Call) (bool, error) {
	v, err := c.Run(ctx, "file.source_list", w.a.Source, w.a.SourceHash, c.StateEnv())
	if isExecError(err) {
		return w.say(false, "%s", errText(err)), nil
	}
	if err != nil {
		return false, err
	}
	if items := toItems(v); len(items) > 0 && Truth(items[0]) {
		w.source = Str(items[0])
	}
	if w.source == "" {
		return w.say(false, "Invalid source \"%s\"", Str(w.a.Source)), nil
	}
	w.shown = withoutPassword(w.source)
	path := w.source
	if rest, ok := strings.CutPrefix(path, "file://"); ok {
		path, w.local = rest, true
	} else if !strings.Contains(path, "://") {
		w.local = true
	} else if u, err := url.Parse(path); err == nil {
		path = strings.TrimRight(u.Host+u.Path, "/")
	}
	if w.local {
		if home, err := os.UserHomeDir(); err == nil && strings.HasPrefix(path, "~/") {
			path = filepath.Join(home, path[2:])
		}
		w.source = realPath(path)
		w.shown = w.source
		if st, err := os.Stat(w.source); err != nil || !st.Mode().IsRegular() {
			return w.say(false, "Source file '%s' does not exist", w.source), nil
		}
	}
	if f, ok := w.a.ArchiveFormat.(string); ok && f != "" {
		w.format = strings.ToLower(f)
	} else if w.format = guessArchive(path); w.format == "" {
		return w.say(false, "Could not guess archive_format from the value of the 'source' argument. Please set this archive_format to one of the following: tar, rar, zip"), nil
	}
	return true, nil
}

var stripComponents = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`--strip(?:-components)?(?:\s+|=)["']?(\d+)["']?`)
})

func (w *archiveWork) checkFormat(ctx context.Context, c *Call) (bool, error) {
	if w.format != "tar" && w.format != "rar" && w.format != "zip" {
		return w.say(false, "Invalid archive_format '%s'. Either set it to a supported value (tar, rar, zip) or remove this argument and the archive format will be guessed based on file extension.", w.format), nil
	}
	options := ""
	if w.a.Options != nil {
		options = Str(w.a.Options)
		w.a.Options = options
	}
	if m := stripComponents().FindStringSubmatch(options); m != nil && w.format == "tar" {
		w.strip, _ = toInt(m[1])
	}
	switch {
	case w.format == "zip":
		if options != "" {
			if w.a.UseCmdUnzip == nil {
				w.a.UseCmdUnzip = true
			} else if !Truth(w.a.UseCmdUnzip) {
				return w.say(false, "'use_cmd_unzip' cannot be set to False if CLI options are being specified (via the 'options' argument). Either remove 'use_cmd_unzip', or set it to True."), nil
			}
			if !c.Has(ctx, "archive.cmd_unzip") {
				return w.say(false, "archive.cmd_unzip function not available, unzip might not be installed on minion"), nil
			}
		}
		if Truth(w.a.Password) {
			if w.a.UseCmdUnzip == nil {
				w.a.UseCmdUnzip = false
			} else if Truth(w.a.UseCmdUnzip) {
				w.warn("Using a password in combination with setting 'use_cmd_unzip' to True is considered insecure. It is recommended to remove the 'use_cmd_unzip' argument (or set it to False) and allow Salt to extract the archive using Python's built-in ZIP file support.")
			}
		}
	case Truth(w.a.Password):
		return w.say(false, "The 'password' argument is only supported for zip archives"), nil
	case w.format == "rar" && !c.Has(ctx, "archive.unrar"):
		return w.say(false, "archive.unrar function not available, rar/unrar might not be installed on minion"), nil
	case w.format == "rar" && options != "":
		return w.say(false, "The 'options' argument is only compatible with the following archive formats: tar, zip"), nil
	}
	if w.a.TrimOutput == true {
		w.a.TrimOutput = int64(100)
	}
	if Truth(w.a.SourceHash) {
		v, err := c.RunKw(ctx, "file.get_source_sum", nil, NewMap("source", w.source, "source_hash", w.a.SourceHash,
			"source_hash_name", w.a.SourceHashName, "saltenv", c.StateEnv()))
		if isExecError(err) {
			w.ret.Set("comment", errText(err))
			return false, nil
		}
		if err != nil {
			return false, err
		}
		w.sum, _ = v.(*Map)
	}
	return true, nil
}

// sumFile is where the hash of an archive is remembered.
func (w *archiveWork) sumFile(c *Call, path string) string {
	cache := c.Opts.Path("cachedir")
	rel, err := filepath.Rel(cache, path)
	rel += ".hash"
	if err != nil || strings.HasPrefix(rel, "../") {
		rel = filepath.Join("local", strings.TrimLeft(path, "/"))
	}
	return filepath.Join(cache, "archive_hash", rel)
}

// readSum is the remembered hash of an archive, nil if there is none.
func (w *archiveWork) readSum(c *Call, path, kind string) *Map {
	lines, err := fileLines(w.sumFile(c, path))
	if err != nil {
		return nil
	}
	for _, line := range lines {
		if k, sum, ok := strings.Cut(strings.TrimRight(line, "\n"), ":"); ok && k == kind {
			return NewMap("hash_type", k, "hsum", sum)
		}
	}
	return nil
}

// writeSum remembers the hash of an archive.
func (w *archiveWork) writeSum(ctx context.Context, c *Call) error {
	kind := c.Opts.Str("hash_type")
	sum, err := runString(ctx, c, "file.get_hash", w.cached, kind)
	if err != nil {
		return err
	}
	path := w.sumFile(c, w.cached)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return osError(err)
	}
	text, found := "", false
	if lines, err := fileLines(path); err == nil {
		for _, line := range lines {
			k, old, ok := strings.Cut(strings.TrimRight(line, "\n"), ":")
			if !ok {
				continue
			}
			if k == kind {
				old, found = sum, true
			}
			text += k + ":" + old + "\n"
		}
	}
	if !found {
		text += kind + ":" + sum + "\n"
	}
	return replaceText(path, text, 0o644)
}

func (w *archiveWork) fetch(ctx context.Context, c *Call) (bool, error) {
	kind := c.Opts.Str("hash_type")
	if Truth(w.a.SkipFilesListVerify) {
		path := w.source
		if !w.local {
			v, err := c.RunKw(ctx, "cp.is_cached", []any{w.source}, NewMap("saltenv", c.StateEnv()))
			if err != nil {
				return false, err
			}
			path = Str(v)
			if u, err := url.Parse(w.source); !Truth(v) && err == nil {
				path = filepath.Join(c.Opts.Path("cachedir"), "extrn_files", c.StateEnv(), u.Host, u.Path)
			}
		}
		if old := w.readSum(c, path, kind); old != nil && w.sum.Len() > 0 && Equal(old.Value("hsum"), w.sum.Value("hsum")) {
			var res any = true
			if c.Testing() {
				res = nil
			}
			return w.say(res, "Archive %s existing source sum is the same as the expected one and skip_files_list_verify argument was set to True. Extraction is not needed", w.shown), nil
		}
	}
	if w.local {
		w.cached = w.source
	} else {
		if c.Testing() {
			return w.say(nil, "Archive %s would be cached (if necessary) and checked to discover if extraction is needed", w.shown), nil
		}
		v, err := callState(ctx, c, "file.cached", NewMap("name", w.source, "source_hash", w.a.SourceHash, "source_hash_name", w.a.SourceHashName,
			"skip_verify", w.a.SkipVerify, "saltenv", c.StateEnv(), "use_etag", w.a.UseEtag))
		if err != nil {
			w.ret.Set("comment", "Failed to cache "+w.shown+": "+errText(err))
			return false, nil
		}
		m, _ := v.(*Map)
		if !Truth(m.Value("result")) {
			w.ret = m
			return false, nil
		}
		path, err := c.RunKw(ctx, "cp.is_cached", []any{w.source}, NewMap("saltenv", c.StateEnv()))
		if err != nil {
			return false, err
		}
		w.cached = Str(path)
	}
	w.oldSum = w.readSum(c, w.cached, kind)
	if Truth(w.a.SourceHash) && Truth(w.a.SourceHashUpdate) && !Truth(w.a.SkipVerify) {
		if err := w.writeSum(ctx, c); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (w *archiveWork) list(ctx context.Context, c *Call) (bool, error) {
	if w.format == "zip" && !Truth(w.a.Password) {
		locked, err := c.RunKw(ctx, "archive.is_encrypted", []any{w.cached}, NewMap("clean", false, "saltenv", c.StateEnv()))
		if err != nil && !isExecError(err) {
			return false, err
		}
		if err == nil && Truth(locked) {
			return w.say(false, "Archive %s is password-protected, but no password was specified. Please set the 'password' argument.", w.shown), nil
		}
	}
	v, err := c.RunKw(ctx, "archive.list", []any{w.cached}, NewMap("archive_format", w.format, "options", w.a.ListOptions, "strip_components", w.strip,
		"clean", false, "verbose", true))
	if isExecError(err) {
		text := errText(err)
		var hints []string
		if !Truth(w.a.IfMissing) {
			hints = append(hints, "'if_missing' must be set")
		}
		if !Truth(w.a.EnforceOwnershipOn) && (Truth(w.a.User) || Truth(w.a.Group)) {
			hints = append(hints, "Ownership cannot be managed without setting 'enforce_ownership_on'.")
		}
		if len(hints) > 0 {
			text += "\n\n"
			if w.format == "tar" {
				text += "If the source archive is a tar archive compressed using a compression type not natively supported by the tar command, then setting the " +
					"'list_options' argument may allow the contents to be listed. Otherwise, if Salt is unable to determine the files/directories in the archive, " +
					"the following workaround(s) would need to be used for this state to proceed"
			} else {
				text += "The following workarounds must be used for this state to proceed"
			}
			text += " (assuming the source file is a valid " + w.format + " archive):\n"
			for _, h := range hints {
				text += "\n- " + h
			}
		}
		w.ret.Set("comment", text)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	w.contents, _ = v.(*Map)
	if Truth(w.a.EnforceToplevel) && w.contents != nil && (len(toItems(w.contents.Value("top_level_dirs"))) > 1 || len(toItems(w.contents.Value("top_level_files"))) > 0) {
		return w.say(false, "Archive does not have a single top-level directory. To allow this archive to be extracted, set 'enforce_toplevel' to False. "+
			"To avoid a '%s-bomb' it may also be advisable to set a top-level directory by adding it to the 'name' value (for example, setting 'name' to %s instead of %s).",
			w.format, w.name+"some_dir", w.name), nil
	}
	if Truth(w.a.Clean) && Truth(w.a.CleanParent) {
		return w.say(false, "Only one of 'clean' and 'clean_parent' can be set to True"), nil
	}
	return true, nil
}

// compare looks which of the archive's files are there.
func (w *archiveWork) compare(ctx context.Context, c *Call) (bool, error) {
	w.needed = Truth(w.a.Overwrite)
	if w.contents == nil {
		w.needed = true
		return true, nil
	}
	var wrong []string
	for _, kind := range []struct {
		key  string
		fits func(os.FileMode) bool
	}{
		{"dirs", os.FileMode.IsDir},
		{"files", func(m os.FileMode) bool { return m&os.ModeSymlink == 0 && !m.IsDir() }},
		{"links", func(m os.FileMode) bool { return m&os.ModeSymlink != 0 }},
	} {
		for _, p := range toItems(w.contents.Value(kind.key)) {
			path := Str(p)
			st, err := os.Lstat(strings.TrimRight(w.name+path, "/"))
			switch {
			case err == nil:
				if !kind.fits(st.Mode()) {
					wrong = append(wrong, path)
				}
			case os.IsNotExist(err) && !isNotDir(err):
				w.needed, w.missing = true, true
			case !isNotDir(err):
				return w.say(false, "%s", errText(osError(err))), nil
			}
		}
	}
	if len(wrong) > 0 {
		return w.wrongType(c, wrong), nil
	}
	return w.hashChanged(ctx, c)
}

func isNotDir(err error) bool {
	pe, ok := err.(*os.PathError)
	return ok && pe.Err == syscall.ENOTDIR
}

// wrongType deals with paths that are of another kind than in the archive.
func (w *archiveWork) wrongType(c *Call, wrong []string) bool {
	list := "\n\n- " + strings.Join(wrong, "\n- ")
	text := "The below paths (relative to " + w.name + ") exist, but are the incorrect type (file instead of directory, symlink instead of file, etc.)."
	clean := Truth(w.a.Clean)
	switch {
	case c.Testing() && clean:
		return w.say(nil, "%s Since the 'clean' option is enabled, the destination paths would be cleared and the archive would be extracted.%s", text, list)
	case c.Testing() && Truth(w.a.CleanParent):
		return w.say(nil, "%s Since the 'clean_parent' option is enabled, the destination parent directory would be removed first and then re-created and the archive would be extracted", text)
	case clean:
		w.ret.Set("comment", text)
		return true
	case !Truth(w.a.Force):
		return w.say(w.ret.Value("result"), "%s To proceed with extraction, set 'force' to True. Note that this will remove these paths before extracting.%s", text, list)
	}
	w.ret.Set("comment", text)
	failed := w.remove(wrong)
	if failed != "" {
		w.ret.Set("comment", "One or more paths existed by were the incorrect type (i.e. file instead of directory or vice-versa), but could not be removed. The following errors were observed:\n"+failed)
		return false
	}
	w.needed = true
	return true
}

// remove takes paths below the directory away, and lists the failures.
func (w *archiveWork) remove(paths []string) (failed string) {
	for _, p := range paths {
		full := w.name + p
		if err := os.RemoveAll(strings.TrimRight(full, "/")); err != nil {
			failed += "\n- " + errText(osError(err))
			continue
		}
		removed := w.ret.Map("changes").List("removed")
		if removed == nil {
			removed = NewList()
			w.ret.Map("changes").Set("removed", removed)
		}
		removed.Append(full)
	}
	return failed
}

func (w *archiveWork) hashChanged(_ context.Context, c *Call) (bool, error) {
	if !w.needed && Truth(w.a.SourceHashUpdate) && w.oldSum != nil && !Equal(w.oldSum, w.readSum(c, w.cached, Str(w.oldSum.Value("hash_type")))) {
		w.needed, w.byHash = true, true
	}
	return true, nil
}

// finish sets owners and reports.
func (w *archiveWork) finish(ctx context.Context, c *Call) (bool, error) {
	missing, failed, err := w.own(ctx, c)
	if err != nil {
		return false, err
	}
	changes := w.ret.Map("changes")
	text := ""
	switch n, isList := w.files.(*List); {
	case w.needed && (isList && n.Len() > 0 || !isList && Truth(w.files)):
		if w.made {
			changes.Set("directories_created", NewList(w.name))
		}
		changes.Set("extracted_files", w.files)
		w.ret.Set("result", true)
		text = w.shown + " extracted to " + w.name + w.because() + ". Output was trimmed to " + Str(w.a.TrimOutput) + " number of lines"
	case w.needed:
		w.ret.Set("result", false)
		text = "No files were extracted from " + w.shown
	default:
		w.ret.Set("result", true)
		text = "All files in archive are already present"
		if c.Testing() && Truth(changes.Value("updated ownership")) {
			w.ret.Set("result", nil)
			text += ". Ownership would be updated on one or more files/directories."
		}
	}
	if len(missing) > 0 {
		if !Truth(w.a.IfMissing) {
			w.ret.Set("result", false)
		}
		text += "\n\nWhile trying to enforce user/group ownership, the following paths were missing:\n\n- " + strings.Join(missing, "\n- ")
	}
	if len(failed) > 0 {
		w.ret.Set("result", false)
		text += "\n\nWhile trying to enforce user/group ownership, Salt was unable to change ownership on the following paths:\n\n- " + strings.Join(failed, "\n- ")
	}
	w.ret.Set("comment", text)
	return true, nil
}

// own gives the files their owners.
func (w *archiveWork) own(ctx context.Context, c *Call) (missing, failed []string, err error) {
	if !Truth(w.a.User) && !Truth(w.a.Group) {
		return nil, nil, nil
	}
	var dirs, files []any
	if on, ok := w.a.EnforceOwnershipOn.(string); ok && on != "" {
		if st, err := os.Stat(on); err == nil && st.IsDir() {
			dirs = []any{on}
		} else {
			files = []any{on}
		}
	} else {
		dirs = toItems(w.contents.Value("top_level_dirs"))
		files = append(append(files, toItems(w.contents.Value("top_level_files"))...), toItems(w.contents.Value("top_level_links"))...)
	}
	recurse := NewList()
	if Truth(w.a.User) {
		recurse.Append("user")
	}
	if Truth(w.a.Group) {
		recurse.Append("group")
	}
	changes := w.ret.Map("changes")
	full := func(p any) string {
		if s := Str(p); filepath.IsAbs(s) {
			return s
		}
		return w.name + Str(p)
	}
	for _, d := range dirs {
		path := full(d)
		if st, err := os.Stat(path); err != nil || !st.IsDir() {
			if !c.Testing() {
				missing = append(missing, path)
			}
			continue
		}
		v, err := callState(ctx, c, "file.directory", NewMap("name", path, "user", w.a.User, "group", w.a.Group, "recurse", recurse))
		if err != nil {
			return nil, nil, err
		}
		m, _ := v.(*Map)
		if Truth(m.Value("changes")) {
			changes.Set("updated ownership", true)
		}
		if !Truth(m.Value("result")) {
			failed = append(failed, path)
		}
	}
	for _, f := range files {
		path := full(f)
		st, err := os.Lstat(path)
		if err != nil {
			if !c.Testing() {
				if os.IsNotExist(err) {
					missing = append(missing, path)
				}
				failed = append(failed, path)
			}
			continue
		}
		sys, ok := st.Sys().(*syscall.Stat_t)
		if !ok || (w.uid < 0 || int(sys.Uid) == w.uid) && (w.gid < 0 || int(sys.Gid) == w.gid) {
			continue
		}
		if !c.Testing() && os.Lchown(path, w.uid, w.gid) != nil {
			failed = append(failed, Str(f))
			continue
		}
		changes.Set("updated ownership", true)
	}
	return missing, failed, nil
}
