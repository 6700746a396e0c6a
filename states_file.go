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

func managedState(ctx context.Context, c *Call, a fileManagedArgs) (*Map, error) {
	a.Kwargs = a.Kwargs.Clone()
	a.Kwargs.Delete("env")
	name := expandUser(a.Name)
	ret := NewMap("changes", NewMap(), "comment", "", "name", name, "result", true)
	fail := func(format string, args ...any) (*Map, error) {
		stateSay(ret, false, format, args...)
		return ret, nil
	}
	if name == "" {
		return fail("Destination file name is required")
	}
	se, _ := a.Selinux.(*Map)
	mode := a.Mode
	keepMode := strings.EqualFold(Str(orEmpty(mode)), "keep")
	if keepMode {
		mode = nil
	}
	mode = normalizeMode(mode)
	count := 0
	for _, v := range []any{a.Contents, a.ContentsPillar, a.ContentsGrains} {
		if v != nil {
			count++
		}
	}
	source := a.Source
	switch {
	case Truth(source) && count > 0:
		return fail("'source' cannot be used in combination with 'contents', 'contents_pillar', or 'contents_grains'")
	case keepMode && count > 0:
		return fail("Mode preservation cannot be used in combination with 'contents', 'contents_pillar', or 'contents_grains'")
	case count > 1:
		return fail("Only one of 'contents', 'contents_pillar', and 'contents_grains' is permitted")
	}
	replace := a.Replace
	if !Truth(source) && count == 0 && replace {
		replace = false
		c.Log.Warn(fmt.Sprintf("State for file: %s - Neither 'source' nor 'contents' nor 'contents_pillar' nor 'contents_grains' was defined, yet "+
			"'replace' was set to 'True'. As there is no source to replace the file with, 'replace' has been set to 'False' to avoid reading the "+
			"file unnecessarily.", name))
	}
	if a.Kwargs.Has("file_mode") {
		ret.Set("warnings", NewList("The 'file_mode' argument will be ignored.  Please use 'mode' instead to set file permissions."))
	}
	value, given, problem, err := managedContents(ctx, c, a)
	if err != nil {
		return nil, err
	}
	if problem != "" {
		return fail("%s", problem)
	}
	var contents any
	if given {
		if !a.AllowEmpty && !Truth(value) {
			id := "'contents'"
			if Truth(a.ContentsPillar) {
				id = "contents_pillar " + Str(a.ContentsPillar)
			} else if Truth(a.ContentsGrains) {
				id = "contents_grains " + Str(a.ContentsGrains)
			}
			return fail("%s value would result in empty contents. Set allow_empty to True to allow the managed file to be empty.", id)
		}
		if p, ok := value.([]byte); ok {
			contents = p
		} else {
			parts := textList(value)
			if len(parts) == 0 {
				return fail("Contents specified by contents/contents_pillar/contents_grains is not a string or list of strings, and is not binary " +
					"data. SLS is likely malformed.")
			}
			contents = linesOfContents(parts, a.ContentsNewline)
		}
		if Truth(a.Template) {
			v, err := c.RunKw(ctx, "file.apply_template_on_contents", []any{contents}, NewMap("template", a.Template, "context", a.Context,
				"defaults", a.Defaults, "saltenv", c.StateEnv()))
			if err != nil {
				return nil, err
			}
			if m, ok := v.(*Map); ok {
				ret.Set("result", false)
				if r, ok := m.Get("result"); ok {
					ret.Set("result", r)
				}
				ret.Set("comment", "Error while applying template on contents")
				if r, ok := m.Get("comment"); ok {
					ret.Set("comment", r)
				}
				return ret, nil
			}
			contents = v
		}
	}
	user, group := ownerOf(a.Kwargs, a.User), a.Group
	if !a.Create && !isFile(name) {
		ret.Set("comment", fmt.Sprintf("File %s is not present and is not set for creation", name))
		return ret, nil
	}
	if msg := checkOwner(c, user, group); msg != "" {
		return fail("%s", msg)
	}
	if !filepath.IsAbs(name) {
		return fail("Specified file %s is not an absolute path", name)
	}
	if isDir(name) {
		return fail("Specified target %s is a directory", name)
	}
	vars, ok := a.Context.(*Map)
	if a.Context != nil && !ok {
		return fail("Context must be formed as a dict")
	}
	vars = vars.Clone()
	if _, ok := a.Defaults.(*Map); Truth(a.Defaults) && !ok {
		return fail("Defaults must be formed as a dict")
	}
	env := c.StateEnv()
	sourceHash := a.SourceHash
	if m, ok := source.(*Map); ok {
		class := "dict"
		if m.Class() != "" {
			class = "collections." + m.Class()
		}
		return fail("Unable to manage file: '%s' object has no attribute 'decode'", class)
	}
	if contents == nil && !Truth(a.Template) && Truth(source) && !a.SkipVerify && pathExists(name) && replace {
		if src, hash, err := pickSource(ctx, c, source, sourceHash, env); err != nil {
			c.Log.Error(fmt.Sprintf("Failed checking existing file's hash against specified source_hash: %s", errText(err)))
		} else {
			source, sourceHash = src, hash
			s := Str(orEmpty(source))
			if scheme := urlScheme(s); Truth(sourceHash) && scheme != "salt" && scheme != "file" && !filepath.IsAbs(s) {
				sum, err := c.RunKw(ctx, "file.get_source_sum", []any{name, source, sourceHash, a.SourceHashName, env}, NewMap("verify_ssl", a.VerifySSL))
				if err != nil {
					c.Log.Error(fmt.Sprintf("Failed checking existing file's hash against specified source_hash: %s", errText(err)))
				} else if m, ok := sum.(*Map); ok {
					if have, err := hashOfFile(name, m.Str("hash_type")); err == nil && have == m.Str("hsum") {
						replace = false
					}
				}
			}
		}
	}
	if !replace && pathExists(name) {
		_, perms, err := checkPerms(ctx, c, permsCheck{name: name, ret: ret, user: user, group: group, mode: mode, attrs: a.Attrs, follow: a.FollowSymlinks,
			seuser: se.Value("seuser"), serole: se.Value("serole"), setype: se.Value("setype"), serange: se.Value("serange")})
		if err != nil {
			return nil, err
		}
		switch {
		case c.Testing():
			if lmode, ok := perms.Get("lmode"); Truth(mode) && ok && !Equal(mode, lmode) {
				ret.Set("comment", fmt.Sprintf("File %s will be updated with permissions %s from its current state of %s", name, Str(mode), Str(lmode)))
			} else {
				ret.Set("comment", fmt.Sprintf("File %s not updated", name))
			}
		case !Truth(ret.Value("changes")) && Truth(ret.Value("result")):
			ret.Set("comment", fmt.Sprintf("File %s exists with proper permissions. No changes made.", name))
		}
		return ret, nil
	}
	accumulated, _ := loadAccumulators(c)
	if texts := accumulated.Map(name); texts != nil {
		vars.Set("accumulator", texts)
	}
	if c.Testing() {
		changes, comment, err := managedChanges(ctx, c, checkManagedChangesArgs{managedFile: managedFile{Name: name, Source: source, SourceHash: sourceHash,
			SourceHashName: a.SourceHashName, User: user, Group: group, Mode: mode, Attrs: a.Attrs, Template: a.Template, Context: vars,
			Defaults: a.Defaults, Saltenv: env, Contents: contents, SkipVerify: a.SkipVerify}, KeepMode: keepMode,
			selinuxLabel: selinuxLabel{se.Value("seuser"), se.Value("serole"), se.Value("setype"), se.Value("serange")}, VerifySsl: a.VerifySSL,
			FollowSymlinks: a.FollowSymlinks, Kwargs: a.Kwargs})
		switch {
		case err != nil && isExecError(err):
			return fail("Unable to manage file: %s", errText(err))
		case err != nil:
			return nil, err
		case comment != "":
			ret.Set("result", false)
			ret.Set("comment", comment)
		case changes.Len() > 0:
			ret.Set("result", nil)
			ret.Set("changes", changes)
			ret.Set("comment", fmt.Sprintf("The file %s is set to be changed\nNote: No changes made, actual changes may\nbe different due to other states.", name))
			if changes.Has("diff") && !a.ShowChanges {
				changes.Set("diff", "<show_changes=False>")
			}
		default:
			ret.Set("comment", fmt.Sprintf("The file %s is in the correct state", name))
		}
		return ret, nil
	}
	source, sourceHash, err = pickSource(ctx, c, source, sourceHash, env)
	if err != nil {
		if !isExecError(err) {
			return nil, err
		}
		return fail("Unable to manage file: %s", errText(err))
	}
	sfn, sum, comment, err := getManaged(ctx, c, getManagedArgs{Name: name, Template: a.Template, Source: source, SourceHash: sourceHash,
		SourceHashName: a.SourceHashName, User: user, Group: group, Mode: mode, Attrs: a.Attrs, Saltenv: env, Context: vars, Defaults: a.Defaults,
		SkipVerify: a.SkipVerify, VerifySsl: a.VerifySSL, UseEtag: a.UseEtag, Kwargs: a.Kwargs})
	if err != nil {
		ret.Set("changes", NewMap())
		return fail("Unable to manage file: %s", errText(err))
	}
	manage := func(target, sfn string, ret *Map) (*Map, error) {
		return manageFile(ctx, c, manageFileArgs{Name: target, Sfn: sfn, Ret: ret, Source: source, SourceSum: sum, User: user, Group: group, Mode: mode,
			Attrs: a.Attrs, Saltenv: env, Backup: a.Backup, Makedirs: a.Makedirs, Template: a.Template, ShowChanges: a.ShowChanges, Contents: contents,
			DirMode: a.DirMode, FollowSymlinks: a.FollowSymlinks, SkipVerify: a.SkipVerify, KeepMode: keepMode, Encoding: a.Encoding,
			EncodingErrors: a.EncodingErrors, Seuser: se.Value("seuser"), Serole: se.Value("serole"), Setype: se.Value("setype"),
			Serange: se.Value("serange"), VerifySsl: a.VerifySSL, UseEtag: a.UseEtag, Kwargs: a.Kwargs})
	}
	if Truth(a.CheckCmd) {
		tmp, err := os.CreateTemp(a.TmpDir, "__salt.tmp.*"+a.TmpExt)
		if err != nil {
			return nil, pyOSError(err)
		}
		tmp.Close()
		defer os.Remove(tmp.Name())
		if isFile(name) {
			if err := copyKeeping(name, tmp.Name()); err != nil {
				return fail("Unable to copy file %s to %s: %s", name, tmp.Name(), errText(err))
			}
		}
		tried, err := manage(tmp.Name(), sfn, ret)
		if err != nil {
			ret.Set("changes", NewMap())
			return fail("Unable to check_cmd file: %s", errText(err))
		}
		changed := Truth(tried.Value("changes"))
		ret = NewMap("changes", NewMap(), "comment", "", "name", name, "result", true)
		if changed {
			kw := NewMap()
			if sh, ok := c.Grains.Get("shell"); ok {
				kw.Set("shell", sh)
			}
			bad, err := runFileCheck(ctx, c, Str(a.CheckCmd), tmp.Name(), kw)
			if err != nil {
				return nil, err
			}
			if bad != nil {
				ret.Merge(bad)
				return ret, nil
			}
			sfn = tmp.Name()
		}
	}
	if comment != "" && contents == nil {
		return fail("%s", comment)
	}
	out, err := manage(name, sfn, ret)
	if err != nil {
		ret.Set("changes", NewMap())
		out, err = fail("Unable to manage file: %s", errText(err))
	}
	if !a.KeepSource {
		if s := Str(orEmpty(source)); sfn == "" && urlScheme(s) == "salt" {
			if v, err := c.Run(ctx, "cp.is_cached", source, env); err == nil {
				sfn = Str(v)
			}
		}
		if cache := c.Opts.Path("cachedir"); sfn != "" && cache != "" && strings.HasPrefix(sfn, cache) {
			os.Remove(sfn)
		}
	}
	return out, err
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
