// State module file: the table, what its functions share, and file.managed.
// states_file_dir.go has directories and trees, states_file_links.go links,
// copies and removals, states_file_edit.go edits of existing files,
// states_file_data.go accumulators, serialized data, patches and the cache.
//
// The law of these files: a file is brought to its state by the functions of
// the execution module, which write beside the file and rename, so that a box
// that dies has the old file or the new one.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func fileStates() Module {
	return Module{
		Doc: "Files, directories, links, and what is in them.",
		Funcs: Funcs{
			"managed":            {run: fileStateManaged, doc: "Bring a file to the wanted contents, owner and mode."},
			"directory":          {run: fileStateDirectory, doc: "Make a directory, with owner and mode, and for what is in it with recurse. clean removes what no state keeps."},
			"recurse":            {run: fileStateRecurse, doc: "Bring a directory of the file server to this box."},
			"symlink":            {run: fileStateSymlink, doc: "Make a symbolic link."},
			"hardlink":           {run: fileStateHardlink, doc: "Make a hard link."},
			"absent":             {run: fileStateAbsent, doc: "Remove a file or directory."},
			"exists":             {run: fileStateExists, doc: "Fail unless a path exists."},
			"missing":            {run: fileStateMissing, doc: "Fail if a path exists."},
			"touch":              {run: fileStateTouch, doc: "Make a file, or set its times."},
			"copy":               {run: fileStateCopy, pyname: "copy_", doc: "Copy a file or directory of this box."},
			"rename":             {run: fileStateRename, doc: "Move a file."},
			"mknod":              {run: fileStateMknod, doc: "Make a device or a pipe."},
			"tidied":             {run: fileStateTidied, doc: "Remove what is older or larger than wanted."},
			"pruned":             {run: fileStatePruned, doc: "Remove an empty directory, with recurse all empty ones below."},
			"retention_schedule": {run: fileStateRetention, doc: "Remove backups by age: first_of_hour, first_of_day, first_of_week, first_of_month, first_of_year, most_recent."},
			"line":               {run: fileStateLine, doc: "Edit one line: ensure, replace, insert or delete."},
			"replace":            {run: fileStateReplace, doc: "Replace what a regular expression matches."},
			"keyvalue":           {run: fileStateKeyvalue, doc: "Set values of key=value lines."},
			"blockreplace":       {run: fileStateBlockreplace, doc: "Keep the text between two markers."},
			"comment":            {run: fileStateComment, doc: "Comment out matching lines."},
			"uncomment":          {run: fileStateUncomment, doc: "Take comment signs off matching lines."},
			"append":             {run: fileStateAppend, doc: "Append lines that are not in the file."},
			"prepend":            {run: fileStatePrepend, doc: "Prepend lines that are not in the file."},
			"patch":              {run: fileStatePatch, doc: "Apply a patch."},
			"accumulated":        {run: fileStateAccumulated, doc: "Collect texts for the template of a managed file."},
			"serialize":          {run: fileStateSerialize, doc: "Write data as YAML, JSON, or another format."},
			"decode":             {run: fileStateDecode, doc: "Write a file from base64 text."},
			"cached":             {run: fileStateCached, doc: "Keep a file in the minion's cache."},
			"not_cached":         {run: fileStateNotCached, doc: "Remove a file from the minion's cache."},
			"mod_run_check_cmd":  {run: fileStateCheckCmd, doc: "Run the check_cmd of a managed file."},
			"mod_beacon":         {run: fileStateBeacon, doc: "Watch a managed file with a beacon."},
		},
	}
}

// startFile begins the state of a function about a path, which may start with
// ~. Where there is none, ok is false and ret says so.
func startFile(fun, path string, result any) (name string, ret *Map, ok bool) {
	name = expandUser(path)
	ret = stateReturn(name, result, "")
	if name == "" {
		_, _ = stateSay(ret, false, "Must provide name to file.%s", fun)
	}
	return name, ret, name != ""
}

// startEdit is startFile for a function that needs the file to be there.
func startEdit(fun, path string, result any) (name string, ret *Map, ok bool) {
	if name, ret, ok = startFile(fun, path, result); !ok {
		return name, ret, false
	}
	if msg := checkEditable(name); msg != "" {
		_, _ = stateSay(ret, false, "%s", msg)
		return name, ret, false
	}
	return name, ret, true
}

// checkOwner says which of user and group this box does not have.
func checkOwner(c *Call, user, group any) string {
	msg := ""
	if Truth(user) && userToUid(user) == "" {
		msg += fmt.Sprintf("User %s is not available ", Str(user))
	}
	if Truth(group) && groupToGid(group) == "" {
		msg += fmt.Sprintf("Group %s is not available", Str(group))
	}
	if msg != "" && c.Testing() {
		c.Log.Warn(msg)
		return ""
	}
	return msg
}

// checkEditable says why a file cannot be edited.
func checkEditable(name string) string {
	if !filepath.IsAbs(name) {
		return fmt.Sprintf("Specified file %s is not an absolute path", name)
	}
	if !pathExists(name) {
		return name + ": file not found"
	}
	return ""
}

// ownerOf is user, or the argument owner that some write for it.
func ownerOf(kw *Map, user any) any {
	if Truth(user) {
		return user
	}
	if v, ok := kw.Get("owner"); ok {
		return v
	}
	return user
}

// textList reads an argument that is a text or a list of texts.
func textList(v any) []string {
	switch v := v.(type) {
	case []byte:
		return []string{string(v)}
	case *List, Tuple:
		var out []string
		for _, item := range toItems(v) {
			out = append(out, Str(item))
		}
		return out
	}
	return []string{Str(v)}
}

// lexists says whether there is anything at a path.
func lexists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

type fileManagedArgs struct {
	Name            string
	Source          any    `def:"None"`
	SourceHash      any    `def:"''"`
	SourceHashName  any    `def:"None"`
	KeepSource      bool   `def:"True"`
	User            any    `def:"None"`
	Group           any    `def:"None"`
	Mode            any    `def:"None"`
	Attrs           any    `def:"None"`
	Template        any    `def:"None"`
	Makedirs        bool   `def:"False"`
	DirMode         any    `def:"None"`
	Context         any    `def:"None"`
	Replace         bool   `def:"True"`
	Defaults        any    `def:"None"`
	Backup          any    `def:"''"`
	ShowChanges     bool   `def:"True"`
	Create          bool   `def:"True"`
	Contents        any    `def:"None"`
	TmpDir          string `def:"''"`
	TmpExt          string `def:"''"`
	ContentsPillar  any    `def:"None"`
	ContentsGrains  any    `def:"None"`
	ContentsNewline bool   `def:"True"`
	ContentsDelim   string `arg:"contents_delimiter" def:"':'"`
	Encoding        any    `def:"None"`
	EncodingErrors  string `def:"'strict'"`
	AllowEmpty      bool   `def:"True"`
	FollowSymlinks  bool   `def:"True"`
	CheckCmd        any    `def:"None"`
	SkipVerify      bool   `def:"False"`
	Selinux         any    `def:"None"`
	WinOwner        any    `def:"None"`
	WinPerms        any    `def:"None"`
	WinDenyPerms    any    `def:"None"`
	WinInheritance  any    `def:"True"`
	WinPermsReset   any    `def:"False"`
	VerifySSL       bool   `arg:"verify_ssl" def:"True"`
	UseEtag         bool   `def:"False"`
	Kwargs          *Map   `arg:"**kwargs"`
}

// newManagedArgs has the defaults that a call by name has.
func newManagedArgs(name string) fileManagedArgs {
	return fileManagedArgs{Name: name, SourceHash: "", KeepSource: true, Replace: true, Backup: "", ShowChanges: true, Create: true,
		ContentsNewline: true, ContentsDelim: ":", EncodingErrors: "strict", AllowEmpty: true, FollowSymlinks: true, VerifySSL: true, Kwargs: NewMap()}
}

func fileStateManaged(ctx context.Context, c *Call, a fileManagedArgs) (any, error) {
	return managedState(ctx, c, a)
}

// managedContents finds the contents that the arguments give; given is false
// if they give none. A text in problem ends the state.
func managedContents(ctx context.Context, c *Call, a fileManagedArgs) (value any, given bool, problem string, err error) {
	lookup := func(fun, what string, keys any) (any, string, error) {
		missing := "\x00missing"
		get := func(key any) (any, bool, error) {
			v, err := c.RunKw(ctx, fun, []any{key, missing}, NewMap("delimiter", a.ContentsDelim))
			return v, v != missing, err
		}
		if l, ok := keys.(*List); ok {
			var parts []string
			for _, key := range l.Items {
				v, ok, err := get(key)
				if err != nil {
					return nil, "", err
				}
				if !ok {
					return nil, fmt.Sprintf("%s %s does not exist", what, Str(key)), nil
				}
				parts = append(parts, Str(v))
			}
			return strings.Join(parts, "\n"), "", nil
		}
		v, ok, err := get(keys)
		if err != nil {
			return nil, "", err
		}
		if !ok {
			return nil, fmt.Sprintf("%s %s does not exist", what, Str(keys)), nil
		}
		return v, "", nil
	}
	switch {
	case a.ContentsPillar != nil:
		value, problem, err = lookup("pillar.get", "Pillar", a.ContentsPillar)
	case a.ContentsGrains != nil:
		value, problem, err = lookup("grains.get", "Grain", a.ContentsGrains)
	case a.Contents != nil:
		value = a.Contents
	}
	return value, value != nil, problem, err
}

// linesOfContents joins contents to one text with an end at every line.
func linesOfContents(parts []string, newline bool) string {
	var b strings.Builder
	for _, part := range parts {
		for _, line := range pyLines(part, false) {
			b.WriteString(strings.TrimRight(strings.TrimRight(line, "\n"), "\r") + "\n")
		}
	}
	if !newline {
		return strings.TrimRight(strings.TrimRight(b.String(), "\n"), "\r")
	}
	return b.String()
}

// managedWork is a file.managed on its way. Its steps end the state by returning
// its return, which is nil while there is more to do.
type managedWork struct {
	a        fileManagedArgs
	name     string
	ret      *Map
	env      string
	label    selinuxLabel
	keepMode bool // the mode is that of the source
	replace  bool

	source, sourceHash any
	mode, user, group  any
	contents           any
	vars               *Map // what a template sees
}

func managedState(ctx context.Context, c *Call, a fileManagedArgs) (*Map, error) {
	w := newManagedWork(c, a)
	for _, step := range []func(context.Context, *Call) (*Map, error){
		w.checkSource, w.readContents, w.checkTarget, w.compareHash, w.keepContents, w.dry,
	} {
		if end, err := step(ctx, c); end != nil || err != nil {
			return end, err
		}
	}
	return w.install(ctx, c)
}

func newManagedWork(c *Call, a fileManagedArgs) *managedWork {
	a.Kwargs = a.Kwargs.Clone()
	a.Kwargs.Delete("env")
	name := expandUser(a.Name)
	se, _ := a.Selinux.(*Map)
	w := &managedWork{
		a: a, name: name, env: c.StateEnv(), replace: a.Replace, source: a.Source, sourceHash: a.SourceHash,
		ret:      NewMap("changes", NewMap(), "comment", "", "name", name, "result", true),
		label:    selinuxLabel{se.Value("seuser"), se.Value("serole"), se.Value("setype"), se.Value("serange")},
		keepMode: strings.EqualFold(Str(orEmpty(a.Mode)), "keep"),
		mode:     a.Mode, user: ownerOf(a.Kwargs, a.User), group: a.Group,
	}
	if w.keepMode {
		w.mode = nil
	}
	w.mode = normalizeMode(w.mode)
	return w
}

func (w *managedWork) fail(format string, args ...any) (*Map, error) {
	_, _ = stateSay(w.ret, false, format, args...)
	return w.ret, nil
}

// checkSource sees to it that there is one place at most that contents come from.
func (w *managedWork) checkSource(_ context.Context, c *Call) (*Map, error) {
	if w.name == "" {
		return w.fail("Destination file name is required")
	}
	count := 0
	for _, v := range []any{w.a.Contents, w.a.ContentsPillar, w.a.ContentsGrains} {
		if v != nil {
			count++
		}
	}
	switch {
	case Truth(w.source) && count > 0:
		return w.fail("'source' cannot be used in combination with 'contents', 'contents_pillar', or 'contents_grains'")
	case w.keepMode && count > 0:
		return w.fail("Mode preservation cannot be used in combination with 'contents', 'contents_pillar', or 'contents_grains'")
	case count > 1:
		return w.fail("Only one of 'contents', 'contents_pillar', and 'contents_grains' is permitted")
	}
	if !Truth(w.source) && count == 0 && w.replace {
		w.replace = false
		c.Log.Warn(fmt.Sprintf("State for file: %s - Neither 'source' nor 'contents' nor 'contents_pillar' nor 'contents_grains' was defined, yet "+
			"'replace' was set to 'True'. As there is no source to replace the file with, 'replace' has been set to 'False' to avoid reading the "+
			"file unnecessarily.", w.name))
	}
	if w.a.Kwargs.Has("file_mode") {
		w.ret.Set("warnings", NewList("The 'file_mode' argument will be ignored.  Please use 'mode' instead to set file permissions."))
	}
	return nil, nil
}

// readContents makes the contents that the state itself gives, rendered.
func (w *managedWork) readContents(ctx context.Context, c *Call) (*Map, error) {
	value, given, problem, err := managedContents(ctx, c, w.a)
	if err != nil {
		return nil, err
	}
	if problem != "" {
		return w.fail("%s", problem)
	}
	if !given {
		return nil, nil
	}
	if !w.a.AllowEmpty && !Truth(value) {
		id := "'contents'"
		if Truth(w.a.ContentsPillar) {
			id = "contents_pillar " + Str(w.a.ContentsPillar)
		} else if Truth(w.a.ContentsGrains) {
			id = "contents_grains " + Str(w.a.ContentsGrains)
		}
		return w.fail("%s value would result in empty contents. Set allow_empty to True to allow the managed file to be empty.", id)
	}
	if p, ok := value.([]byte); ok {
		w.contents = p
	} else {
		parts := textList(value)
		if len(parts) == 0 {
			return w.fail("Contents specified by contents/contents_pillar/contents_grains is not a string or list of strings, and is not binary " +
				"data. SLS is likely malformed.")
		}
		w.contents = linesOfContents(parts, w.a.ContentsNewline)
	}
	if !Truth(w.a.Template) {
		return nil, nil
	}
	v, err := c.RunKw(ctx, "file.apply_template_on_contents", []any{w.contents}, NewMap("template", w.a.Template, "context", w.a.Context,
		"defaults", w.a.Defaults, "saltenv", w.env))
	if err != nil {
		return nil, err
	}
	m, failed := v.(*Map)
	if !failed {
		w.contents = v
		return nil, nil
	}
	w.ret.Set("result", kwargOf(m, "result", false))
	w.ret.Set("comment", kwargOf(m, "comment", "Error while applying template on contents"))
	return w.ret, nil
}

// checkTarget sees to it that the file can be managed with these arguments.
func (w *managedWork) checkTarget(_ context.Context, c *Call) (*Map, error) {
	if !w.a.Create && !isFile(w.name) {
		w.ret.Set("comment", fmt.Sprintf("File %s is not present and is not set for creation", w.name))
		return w.ret, nil
	}
	if msg := checkOwner(c, w.user, w.group); msg != "" {
		return w.fail("%s", msg)
	}
	if !filepath.IsAbs(w.name) {
		return w.fail("Specified file %s is not an absolute path", w.name)
	}
	if isDir(w.name) {
		return w.fail("Specified target %s is a directory", w.name)
	}
	vars, ok := w.a.Context.(*Map)
	if w.a.Context != nil && !ok {
		return w.fail("Context must be formed as a dict")
	}
	w.vars = vars.Clone()
	if _, ok := w.a.Defaults.(*Map); Truth(w.a.Defaults) && !ok {
		return w.fail("Defaults must be formed as a dict")
	}
	if m, ok := w.source.(*Map); ok {
		class := "dict"
		if m.Class() != "" {
			class = "collections." + m.Class()
		}
		return w.fail("Unable to manage file: '%s' object has no attribute 'decode'", class)
	}
	return nil, nil
}

// compareHash keeps a file from being replaced that has the hash of its remote
// source: that need not be fetched.
func (w *managedWork) compareHash(ctx context.Context, c *Call) (*Map, error) {
	if w.contents != nil || Truth(w.a.Template) || !Truth(w.source) || w.a.SkipVerify || !pathExists(w.name) || !w.replace {
		return nil, nil
	}
	failed := func(err error) (*Map, error) {
		c.Log.Error(fmt.Sprintf("Failed checking existing file's hash against specified source_hash: %s", errText(err)))
		return nil, nil
	}
	source, hash, err := pickSource(ctx, c, w.source, w.sourceHash, w.env)
	if err != nil {
		return failed(err)
	}
	w.source, w.sourceHash = source, hash
	s := Str(orEmpty(source))
	if scheme := urlScheme(s); !Truth(hash) || scheme == "salt" || scheme == "file" || filepath.IsAbs(s) {
		return nil, nil
	}
	sum, err := c.RunKw(ctx, "file.get_source_sum", []any{w.name, source, hash, w.a.SourceHashName, w.env}, NewMap("verify_ssl", w.a.VerifySSL))
	if err != nil {
		return failed(err)
	}
	if m, ok := sum.(*Map); ok {
		if have, err := hashOfFile(w.name, m.Str("hash_type")); err == nil && have == m.Str("hsum") {
			w.replace = false
		}
	}
	return nil, nil
}

// keepContents sees to owner and mode alone where the contents are to stay.
func (w *managedWork) keepContents(ctx context.Context, c *Call) (*Map, error) {
	if w.replace || !pathExists(w.name) {
		return nil, nil
	}
	_, perms, err := checkPerms(ctx, c, permsCheck{name: w.name, ret: w.ret, user: w.user, group: w.group, mode: w.mode, attrs: w.a.Attrs,
		follow: w.a.FollowSymlinks, seuser: w.label.Seuser, serole: w.label.Serole, setype: w.label.Setype, serange: w.label.Serange})
	if err != nil {
		return nil, err
	}
	switch {
	case c.Testing():
		if lmode, ok := perms.Get("lmode"); Truth(w.mode) && ok && !Equal(w.mode, lmode) {
			w.ret.Set("comment", fmt.Sprintf("File %s will be updated with permissions %s from its current state of %s", w.name, Str(w.mode), Str(lmode)))
		} else {
			w.ret.Set("comment", fmt.Sprintf("File %s not updated", w.name))
		}
	case !Truth(w.ret.Value("changes")) && Truth(w.ret.Value("result")):
		w.ret.Set("comment", fmt.Sprintf("File %s exists with proper permissions. No changes made.", w.name))
	}
	return w.ret, nil
}

// dry ends a dry run with what would change.
func (w *managedWork) dry(ctx context.Context, c *Call) (*Map, error) {
	accumulated, _ := loadAccumulators(c)
	if texts := accumulated.Map(w.name); texts != nil {
		w.vars.Set("accumulator", texts)
	}
	if !c.Testing() {
		return nil, nil
	}
	changes, comment, err := managedChanges(ctx, c, checkManagedChangesArgs{managedFile: managedFile{Name: w.name, Source: w.source,
		SourceHash: w.sourceHash, SourceHashName: w.a.SourceHashName, User: w.user, Group: w.group, Mode: w.mode, Attrs: w.a.Attrs,
		Template: w.a.Template, Context: w.vars, Defaults: w.a.Defaults, Saltenv: w.env, Contents: w.contents, SkipVerify: w.a.SkipVerify},
		KeepMode: w.keepMode, selinuxLabel: w.label, VerifySsl: w.a.VerifySSL, FollowSymlinks: w.a.FollowSymlinks, Kwargs: w.a.Kwargs})
	switch {
	case err != nil && isExecError(err):
		return w.fail("Unable to manage file: %s", errText(err))
	case err != nil:
		return nil, err
	case comment != "":
		return w.fail("%s", comment)
	case changes.Len() > 0:
		if changes.Has("diff") && !w.a.ShowChanges {
			changes.Set("diff", "<show_changes=False>")
		}
		w.ret.Set("changes", changes)
		_, _ = stateSay(w.ret, nil, "The file %s is set to be changed\nNote: No changes made, actual changes may\nbe different due to other states.", w.name)
	default:
		w.ret.Set("comment", fmt.Sprintf("The file %s is in the correct state", w.name))
	}
	return w.ret, nil
}

// install fetches the source and puts the file in place, past check_cmd.
func (w *managedWork) install(ctx context.Context, c *Call) (*Map, error) {
	var err error
	if w.source, w.sourceHash, err = pickSource(ctx, c, w.source, w.sourceHash, w.env); err != nil {
		if !isExecError(err) {
			return nil, err
		}
		return w.fail("Unable to manage file: %s", errText(err))
	}
	sfn, sum, comment, err := getManaged(ctx, c, getManagedArgs{Name: w.name, Template: w.a.Template, Source: w.source, SourceHash: w.sourceHash,
		SourceHashName: w.a.SourceHashName, User: w.user, Group: w.group, Mode: w.mode, Attrs: w.a.Attrs, Saltenv: w.env, Context: w.vars,
		Defaults: w.a.Defaults, SkipVerify: w.a.SkipVerify, VerifySsl: w.a.VerifySSL, UseEtag: w.a.UseEtag, Kwargs: w.a.Kwargs})
	if err != nil {
		w.ret.Set("changes", NewMap())
		return w.fail("Unable to manage file: %s", errText(err))
	}
	if Truth(w.a.CheckCmd) {
		tmp, err := os.CreateTemp(w.a.TmpDir, "__salt.tmp.*"+w.a.TmpExt)
		if err != nil {
			return nil, pyOSError(err)
		}
		tmp.Close()
		defer os.Remove(tmp.Name())
		checked, end, err := w.check(ctx, c, tmp.Name(), sfn, sum)
		if end != nil || err != nil {
			return end, err
		}
		if checked {
			sfn = tmp.Name()
		}
	}
	if comment != "" && w.contents == nil {
		return w.fail("%s", comment)
	}
	out, err := w.put(ctx, c, w.name, sfn, sum)
	if err != nil {
		w.ret.Set("changes", NewMap())
		out, err = w.fail("Unable to manage file: %s", errText(err))
	}
	if !w.a.KeepSource {
		w.dropSource(ctx, c, sfn)
	}
	return out, err
}

// put makes a file of what was fetched.
func (w *managedWork) put(ctx context.Context, c *Call, target, sfn string, sum *Map) (*Map, error) {
	return manageFile(ctx, c, manageFileArgs{Name: target, Sfn: sfn, Ret: w.ret, Source: w.source, SourceSum: sum, User: w.user, Group: w.group,
		Mode: w.mode, Attrs: w.a.Attrs, Saltenv: w.env, Backup: w.a.Backup, Makedirs: w.a.Makedirs, Template: w.a.Template,
		ShowChanges: w.a.ShowChanges, Contents: w.contents, DirMode: w.a.DirMode, FollowSymlinks: w.a.FollowSymlinks, SkipVerify: w.a.SkipVerify,
		KeepMode: w.keepMode, Encoding: w.a.Encoding, EncodingErrors: w.a.EncodingErrors, Seuser: w.label.Seuser, Serole: w.label.Serole,
		Setype: w.label.Setype, Serange: w.label.Serange, VerifySsl: w.a.VerifySSL, UseEtag: w.a.UseEtag, Kwargs: w.a.Kwargs})
}

// check makes the file as tmp and runs check_cmd on it; changed says that it
// differs from what is there.
func (w *managedWork) check(ctx context.Context, c *Call, tmp, sfn string, sum *Map) (changed bool, end *Map, err error) {
	if isFile(w.name) {
		if err := copyKeeping(w.name, tmp); err != nil {
			end, err := w.fail("Unable to copy file %s to %s: %s", w.name, tmp, errText(err))
			return false, end, err
		}
	}
	tried, err := w.put(ctx, c, tmp, sfn, sum)
	if err != nil {
		w.ret.Set("changes", NewMap())
		end, err := w.fail("Unable to check_cmd file: %s", errText(err))
		return false, end, err
	}
	changed = Truth(tried.Value("changes"))
	w.ret = NewMap("changes", NewMap(), "comment", "", "name", w.name, "result", true)
	if !changed {
		return false, nil, nil
	}
	kw := NewMap()
	if sh, ok := c.Grains.Get("shell"); ok {
		kw.Set("shell", sh)
	}
	bad, err := runFileCheck(ctx, c, Str(w.a.CheckCmd), tmp, kw)
	if err != nil {
		return false, nil, err
	}
	if bad != nil {
		w.ret.Merge(bad)
		return false, w.ret, nil
	}
	return true, nil, nil
}

// dropSource takes the copy of the source out of the minion's cache.
func (w *managedWork) dropSource(ctx context.Context, c *Call, sfn string) {
	if sfn == "" && urlScheme(Str(orEmpty(w.source))) == "salt" {
		if v, err := c.Run(ctx, "cp.is_cached", w.source, w.env); err == nil {
			sfn = Str(v)
		}
	}
	if cache := c.Opts.Path("cachedir"); sfn != "" && cache != "" && strings.HasPrefix(sfn, cache) {
		os.Remove(sfn)
	}
}

// runFileCheck runs check_cmd on a file; nil if the file is good.
func runFileCheck(ctx context.Context, c *Call, cmd, path string, kw *Map) (*Map, error) {
	v, err := c.RunKw(ctx, "cmd.run_all", []any{cmd + " " + path}, kw)
	if err != nil {
		return nil, err
	}
	m, _ := v.(*Map)
	if !Truth(m.Value("retcode")) {
		return nil, nil
	}
	comment := "check_cmd execution failed"
	for _, k := range []string{"stdout", "stderr"} {
		if s := m.Str(k); s != "" {
			comment += "\n" + s
		}
	}
	return NewMap("comment", comment, "skip_watch", true, "result", false), nil
}

func fileStateCheckCmd(ctx context.Context, c *Call, a struct {
	Cmd      string
	Filename string
	Kwargs   *Map `arg:"**kwargs"`
}) (any, error) {
	bad, err := runFileCheck(ctx, c, a.Cmd, a.Filename, a.Kwargs)
	if bad == nil && err == nil {
		return true, nil
	}
	return bad, err
}
