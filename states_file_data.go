// State module file: accumulators, serialized data, patches, encoded files and
// the minion's cache.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// accumulators are the texts of file.accumulated in this run: file → name →
// texts, and file → name → ids that they are for.
func loadAccumulators(c *Call) (data, deps *Map) {
	data, deps = NewMap(), NewMap()
	if c.State == nil {
		return data, deps
	}
	m, ok := readStateFile(filepath.Join(accumulatorDir(c), c.State.Instance)).(*Map)
	if !ok {
		return data, deps
	}
	if d := m.Map("accumulators"); d != nil {
		data = d
	}
	if d := m.Map("accumulators_deps"); d != nil {
		deps = d
	}
	return data, deps
}

func fileStateAccumulated(_ context.Context, c *Call, a struct {
	Name     string
	Filename string
	Text     any
	Kwargs   *Map `arg:"**kwargs"`
}) (any, error) {
	ret := stateReturn(a.Name, true, "")
	if a.Name == "" {
		return stateSay(ret, false, "Must provide name to file.accumulated")
	}
	if a.Text == nil {
		return stateSay(ret, false, "No text supplied for accumulator")
	}
	if c.State == nil {
		return stateSay(ret, false, "file.accumulated is for state runs")
	}
	low := c.State.Low
	wanted := append(append([]any(nil), toItems(low.Value("require_in"))...), toItems(low.Value("watch_in"))...)
	forFile := false
	for _, w := range wanted {
		switch w := w.(type) {
		case *Map:
			forFile = forFile || w.Has("file")
		case string:
			forFile = forFile || strings.Contains(w, "file")
		}
	}
	if !forFile {
		return stateSay(ret, false, "Orphaned accumulator %s in %s:%s", a.Name, Str(low.Value("__sls__")), Str(low.Value("__id__")))
	}
	parts := toItems(a.Text)
	data, deps := loadAccumulators(c)
	list := func(m *Map) *List {
		file := m.Map(a.Filename)
		if file == nil {
			file = NewMap()
			m.Set(a.Filename, file)
		}
		l := file.List(a.Name)
		if l == nil {
			l = NewList()
			file.Set(a.Name, l)
		}
		return l
	}
	ids := list(deps)
	for _, w := range wanted {
		if m, ok := w.(*Map); ok {
			for _, v := range m.All() {
				ids.Append(v)
			}
		} else {
			ids.Append(w)
		}
	}
	have := list(data)
next:
	for _, p := range parts {
		for _, h := range have.Items {
			if Equal(h, p) {
				continue next
			}
		}
		have.Append(p)
		ret.Set("comment", fmt.Sprintf("Accumulator %s for file %s was charged by text", a.Name, a.Filename))
	}
	if err := os.MkdirAll(accumulatorDir(c), 0o700); err != nil {
		return nil, pyOSError(err)
	}
	p, err := EncodeBin(NewMap("accumulators", data, "accumulators_deps", deps))
	if err != nil {
		return nil, err
	}
	return ret, writeFileAtomic(filepath.Join(accumulatorDir(c), c.State.Instance), p, 0o600)
}

func fileStateSerialize(ctx context.Context, c *Call, a struct {
	Name             string
	Dataset          any    `def:"None"`
	DatasetPillar    any    `def:"None"`
	User             any    `def:"None"`
	Group            any    `def:"None"`
	Mode             any    `def:"None"`
	Backup           any    `def:"''"`
	Makedirs         bool   `def:"False"`
	ShowChanges      bool   `def:"True"`
	Create           bool   `def:"True"`
	MergeIfExists    bool   `def:"False"`
	Encoding         any    `def:"None"`
	EncodingErrors   string `def:"'strict'"`
	Serializer       any    `def:"None"`
	SerializerOpts   any    `def:"None"`
	DeserializerOpts any    `def:"None"`
	Kwargs           *Map   `arg:"**kwargs"`
}) (any, error) {
	a.Kwargs.Delete("env")
	name := expandUser(a.Name)
	ret := NewMap("changes", NewMap(), "comment", "", "name", name, "result", true)
	if name == "" {
		return stateSay(ret, false, "Must provide name to file.serialize")
	}
	if !a.Create && !isFile(name) {
		ret.Set("comment", fmt.Sprintf("File %s is not present and is not set for creation", name))
		return ret, nil
	}
	formatter := a.Kwargs.Value("formatter")
	a.Kwargs.Delete("formatter")
	if Truth(a.Serializer) && Truth(formatter) {
		return stateSay(ret, false, "Only one of serializer and formatter are allowed")
	}
	kind := "yaml"
	for _, v := range []any{formatter, a.Serializer} {
		if Truth(v) {
			kind = strings.ToLower(Str(v))
		}
	}
	dataset := a.Dataset
	if Truth(dataset) && Truth(a.DatasetPillar) {
		return stateSay(ret, false, "Only one of 'dataset' and 'dataset_pillar' is permitted")
	}
	if Truth(a.DatasetPillar) {
		v, err := c.Run(ctx, "pillar.get", a.DatasetPillar)
		if err != nil {
			return nil, err
		}
		dataset = v
	}
	if dataset == nil {
		return stateSay(ret, false, "Neither 'dataset' nor 'dataset_pillar' was defined")
	}
	codec, ok := serializerOf(kind)
	if !ok {
		return stateSay(ret, false, "The %s serializer could not be found. It either does not exist or its prerequisites are not installed.", kind)
	}
	opts := NewMap()
	if l, ok := a.SerializerOpts.(*List); ok {
		m, err := repackDictlist(l)
		if err != nil {
			return nil, err
		}
		opts = m
	} else if m, ok := a.SerializerOpts.(*Map); ok {
		opts = m
	}
	var existing any
	if a.MergeIfExists {
		if isFile(name) {
			if codec.decode == nil {
				return stateSay(ret, false, "merge_if_exists is not supported for the %s serializer", kind)
			}
			data, err := os.ReadFile(name)
			if err != nil {
				return nil, pyOSError(err)
			}
			if existing, err = codec.decode(data); err != nil {
				return stateSay(ret, false, "Failed to deserialize existing data: %s", errText(err))
			}
			if existing != nil {
				old, ok1 := existing.(*Map)
				more, ok2 := dataset.(*Map)
				if !ok1 || !ok2 {
					return nil, OtherErrorf("TypeError", "Cannot update using non-dict types in dictupdate.update()")
				}
				merged := UpdateMap(DeepCopy(old).(*Map), DeepCopy(more).(*Map), false)
				if Equal(old, merged) {
					ret.Set("comment", fmt.Sprintf("The file %s is in the correct state", name))
					return ret, nil
				}
				dataset = merged
			}
		}
	} else if Truth(a.DeserializerOpts) {
		ret.Set("warnings", NewList("The 'deserializer_opts' option is ignored unless merge_if_exists is set to True."))
	}
	contents, err := codec.encode(dataset, opts, Truth(a.Encoding))
	if err != nil {
		return nil, err
	}
	var body any = contents
	if s, ok := contents.(string); ok {
		body = s + "\n"
	}
	mode := normalizeMode(a.Mode)
	if c.Testing() {
		changes, comment, err := managedChanges(ctx, c, checkManagedChangesArgs{managedFile: managedFile{Name: name, User: a.User, Group: a.Group, Mode: mode,
			Saltenv: c.StateEnv(), Contents: body}, VerifySsl: true, Kwargs: a.Kwargs})
		if err != nil {
			return nil, err
		}
		if comment != "" {
			return stateSay(ret, false, "%s", comment)
		}
		if changes.Len() > 0 {
			ret.Set("changes", changes)
			ret.Set("result", nil)
			ret.Set("comment", fmt.Sprintf("Dataset will be serialized and stored into %s", name))
			if !a.ShowChanges {
				changes.Set("diff", "<show_changes=False>")
			}
		} else {
			ret.Set("comment", fmt.Sprintf("The file %s is in the correct state", name))
		}
	} else {
		if ret, err = manageFile(ctx, c, manageFileArgs{Name: name, Sfn: "", Ret: ret, User: a.User, Group: a.Group, Mode: mode, Saltenv: c.StateEnv(),
			Backup: a.Backup, Makedirs: a.Makedirs, ShowChanges: a.ShowChanges, Contents: body, FollowSymlinks: true, Encoding: a.Encoding,
			EncodingErrors: a.EncodingErrors, VerifySsl: true, SourceSum: NewMap(), Kwargs: NewMap()}); err != nil {
			return nil, err
		}
	}
	if old, ok := existing.(*Map); ok {
		if changes := ret.Map("changes"); changes != nil {
			changes.Set("diff", dataDiff(old, dataset.(*Map)))
		}
	}
	return ret, nil
}

// dataDiff are the values that differ, each with its old and new one; mappings
// are compared key for key.
func dataDiff(old, now *Map) *Map {
	out := NewMap()
	for k, v := range now.All() {
		was, ok := old.Get(k)
		if !ok {
			out.Set(k, NewMap("new", v, "old", "<_null_>"))
			continue
		}
		a, okA := was.(*Map)
		b, okB := v.(*Map)
		switch {
		case okA && okB:
			if d := dataDiff(a, b); d.Len() > 0 {
				out.Set(k, d)
			}
		case !Equal(was, v):
			out.Set(k, NewMap("new", v, "old", was))
		}
	}
	for k, v := range old.All() {
		if !now.Has(k) {
			out.Set(k, NewMap("new", "<_null_>", "old", v))
		}
	}
	return out
}

func fileStateDecode(ctx context.Context, c *Call, a struct {
	Name           string
	EncodedData    any    `def:"None"`
	ContentsPillar any    `def:"None"`
	EncodingType   string `def:"base64"`
	Checksum       string `def:"md5"`
}) (any, error) {
	ret := stateReturn(a.Name, false, "")
	var content any
	switch {
	case !Truth(a.EncodedData) && !Truth(a.ContentsPillar):
		return nil, ExecErrorf("Specify either the 'encoded_data' or 'contents_pillar' argument.")
	case Truth(a.EncodedData) && Truth(a.ContentsPillar):
		return nil, ExecErrorf("Specify only one 'encoded_data' or 'contents_pillar' argument.")
	case Truth(a.EncodedData):
		content = a.EncodedData
	default:
		v, err := c.Run(ctx, "pillar.get", a.ContentsPillar, false)
		if err != nil {
			return nil, err
		}
		if v == false {
			return nil, ExecErrorf("Pillar data not found.")
		}
		content = v
	}
	if isFile(a.Name) {
		decoded, err := c.Run(ctx, "hashutil.base64_decodestring", content)
		if err != nil {
			return nil, err
		}
		in, err := c.Run(ctx, "hashutil.digest", decoded, a.Checksum)
		if err != nil {
			return nil, err
		}
		out, err := hashOfFile(a.Name, a.Checksum)
		if err != nil {
			return nil, err
		}
		if Str(in) == out {
			return stateReturn(a.Name, true, "File is in the correct state."), nil
		}
		ret.Set("changes", NewMap("old", out, "new", in))
	}
	if c.Testing() {
		ret.Set("comment", "File is set to be updated.")
		ret.Set("result", nil)
		return ret, nil
	}
	v, err := c.Run(ctx, "hashutil.base64_decodefile", content, a.Name)
	if err != nil {
		return nil, err
	}
	ret.Set("result", v)
	ret.Set("comment", "File was updated.")
	if !Truth(ret.Value("changes")) {
		sum, err := hashOfFile(a.Name, a.Checksum)
		if err != nil {
			return nil, err
		}
		ret.Set("changes", NewMap("old", nil, "new", sum))
	}
	return ret, nil
}

// keptInCache makes a copy in the cache of a file that the file client found
// where the file server of this box has it: without a master nothing else would
// keep it.
func keptInCache(ctx context.Context, c *Call, source, saltenv, path string) (string, error) {
	if inside, err := filepath.Rel(c.Opts.Path("cachedir"), path); urlScheme(source) != "salt" || err == nil && filepath.IsLocal(inside) {
		return path, nil
	}
	dest, err := runString(ctx, c, "cp.cache_dest", source, saltenv)
	if err != nil || dest == "" {
		return path, err
	}
	src, err := os.Open(path)
	if err != nil {
		return "", osError(err)
	}
	defer src.Close()
	if err := os.MkdirAll(filepath.Dir(dest), 0o755); err != nil {
		return "", osError(err)
	}
	return dest, writeStream(dest, src)
}

func fileStateCached(ctx context.Context, c *Call, a struct {
	Name           string
	SourceHash     any    `def:"''"`
	SourceHashName any    `def:"None"`
	SkipVerify     bool   `def:"False"`
	Saltenv        string `def:"base"`
	UseEtag        bool   `def:"False"`
}) (any, error) {
	ret := stateReturn(a.Name, false, "")
	scheme := urlScheme(a.Name)
	remote := scheme != "" && scheme != "file" && scheme != "salt" && isFileProtocol(scheme)
	if !a.SkipVerify && !Truth(a.SourceHash) && !a.UseEtag && remote {
		return stateSay(ret, false, "Unable to verify upstream hash of source file %s, please set source_hash or set skip_verify or use_etag to True", redactURL(a.Name))
	}
	sum := NewMap()
	if Truth(a.SourceHash) {
		v, err := c.RunKw(ctx, "file.get_source_sum", nil, NewMap("source", a.Name, "source_hash", a.SourceHash, "source_hash_name", a.SourceHashName, "saltenv", a.Saltenv))
		if err != nil {
			return stateSay(ret, false, "%s", errText(err))
		}
		m, _ := v.(*Map)
		if m.Len() == 0 {
			return stateSay(ret, false, "Failed to get source hash from %s. This may be a bug. If this error persists, please report it and set skip_verify to True to "+
				"work around it.", Str(a.SourceHash))
		}
		sum = m
	}
	kind := sum.Str("hash_type")
	if kind == "" {
		kind = c.Opts.Str("hash_type")
	}
	if kind == "" {
		kind = "sha256"
	}
	cachedAt := func() (string, error) {
		v, err := c.RunKw(ctx, "cp.is_cached", []any{a.Name}, NewMap("saltenv", a.Saltenv))
		s, _ := v.(string)
		return s, err
	}
	local, err := cachedAt()
	if err != nil {
		return nil, err
	}
	if c.Testing() {
		comment := "File will be cached: " + a.Name
		if local != "" {
			if sum.Len() > 0 {
				have, _ := hashOfFile(local, kind)
				if have == sum.Str("hsum") {
					comment = "File already cached: " + a.Name
				} else {
					comment = "Hashes don't match.\n" + comment
				}
			} else {
				comment = "No hash found. " + comment
			}
		}
		return stateReturn(a.Name, nil, comment), nil
	}
	if scheme == "" || scheme == "file" {
		p := a.Name
		if scheme == "file" {
			p = strings.TrimPrefix(p, "file://")
		}
		full := realPath(expandUser(p))
		if !pathExists(full) {
			return stateSay(ret, false, "File %s is not present on the minion", full)
		}
		if a.SkipVerify || sum.Len() == 0 {
			return stateReturn(a.Name, true, fmt.Sprintf("File %s is present on the minion", full)), nil
		}
		have, err := hashOfFile(full, kind)
		if err != nil {
			return nil, err
		}
		if have == sum.Str("hsum") {
			return stateReturn(a.Name, true, fmt.Sprintf("File %s is present on the minion and has hash %s", full, have)), nil
		}
		return stateSay(ret, false, "File %s is present on the minion, but the hash (%s) does not match the specified hash (%s)", full, have, sum.Str("hsum"))
	}
	var before any
	if local != "" {
		if h, err := hashOfFile(local, kind); err == nil {
			before = h
		}
	}
	v, err := c.RunKw(ctx, "cp.cache_file", []any{a.Name}, NewMap("saltenv", a.Saltenv, "source_hash", sum.Value("hsum"), "use_etag", a.UseEtag))
	if err != nil {
		return stateSay(ret, false, "%s", redactURL(errText(err)))
	}
	local, _ = v.(string)
	if local == "" {
		return stateSay(ret, false, "Failed to cache %s, check minion log for more information", redactURL(a.Name))
	}
	if local, err = keptInCache(ctx, c, a.Name, a.Saltenv, local); err != nil {
		return nil, err
	}
	after, err := hashOfFile(local, kind)
	if err != nil {
		return nil, err
	}
	if before != after {
		ret.Map("changes").Set("hash", NewMap("old", before, "new", after))
	}
	if !a.SkipVerify && sum.Len() > 0 {
		if after != sum.Str("hsum") {
			return stateSay(ret, false, "File is cached to %s, but the hash (%s) does not match the specified hash (%s)", local, after, sum.Str("hsum"))
		}
		ret.Set("comment", fmt.Sprintf("File is already cached to %s with hash %s", local, after))
	} else {
		ret.Set("comment", fmt.Sprintf("File is cached to %s", local))
	}
	ret.Set("result", true)
	return ret, nil
}

func fileStateNotCached(ctx context.Context, c *Call, a struct {
	Name    string
	Saltenv string `def:"base"`
}) (any, error) {
	ret := stateReturn(a.Name, true, "")
	if s := urlScheme(a.Name); s == "" || s == "file" {
		ret.Set("comment", fmt.Sprintf("File %s is a local path, no action taken", realPath(expandUser(strings.TrimPrefix(a.Name, "file://")))))
		return ret, nil
	}
	v, err := c.RunKw(ctx, "cp.is_cached", []any{a.Name}, NewMap("saltenv", a.Saltenv))
	if err != nil {
		return nil, err
	}
	local, _ := v.(string)
	if local == "" {
		ret.Set("comment", a.Name+" is not cached")
		return ret, nil
	}
	if err := os.Remove(local); err != nil {
		return stateSay(ret, false, "Failed to delete %s: %s", local, errText(pyOSError(err)))
	}
	return stateChanged(a.Name, true, local+" was deleted", NewMap("deleted", true)), nil
}

func fileStatePatch(ctx context.Context, c *Call, a struct {
	Name           string
	Source         any    `def:"None"`
	SourceHash     any    `def:"None"`
	SourceHashName any    `def:"None"`
	SkipVerify     bool   `def:"False"`
	Template       any    `def:"None"`
	Context        any    `def:"None"`
	Defaults       any    `def:"None"`
	Options        string `def:"''"`
	RejectFile     any    `def:"None"`
	Strip          any    `def:"None"`
	Saltenv        any    `def:"None"`
	Kwargs         *Map   `arg:"**kwargs"`
}) (any, error) {
	name := a.Name
	ret := stateReturn(name, false, "")
	if v, err := c.Run(ctx, "cmd.has_exec", "patch"); err == nil && !Truth(v) {
		return stateSay(ret, false, "patch executable not found on minion")
	}
	if name == "" {
		return stateSay(ret, false, "A file/directory to be patched is required")
	}
	name = expandUser(name)
	if !filepath.IsAbs(name) {
		return stateSay(ret, false, "%s is not an absolute path", name)
	}
	if !pathExists(name) {
		return stateSay(ret, false, "%s does not exist", name)
	}
	for _, old := range []string{"hash", "dry_run_first"} {
		if a.Kwargs.Has(old) {
			l := ret.List("warnings")
			if l == nil {
				l = NewList()
				ret.Set("warnings", l)
			}
			l.Append(fmt.Sprintf("The '%s' argument is no longer used and has been ignored.", old))
		}
	}
	if a.RejectFile != nil {
		dir := filepath.Dir(Str(a.RejectFile))
		if !filepath.IsAbs(dir) {
			return stateSay(ret, false, "'%s' is not an absolute path", Str(a.RejectFile))
		}
		if !isDir(dir) {
			return stateSay(ret, false, "Parent directory for reject_file '%s' either does not exist, or is not a directory", Str(a.RejectFile))
		}
	}
	strip := a.Strip
	words, _ := splitShell(a.Options)
	var options, refused []string
	for i := 0; i < len(words); i++ {
		w := words[i]
		for _, p := range []string{"-N", "--forward", "-r", "--reject-file", "-o", "--output"} {
			if strings.HasPrefix(w, p) {
				refused = append(refused, w)
				break
			}
		}
		number := func(s, option string) bool {
			n, ok := toInt(s)
			if !ok || s == "" {
				stateSay(ret, false, "Invalid format for '%s' CLI option. Consider using the 'strip' option for this state.", option)
				return false
			}
			strip = n
			return true
		}
		switch {
		case strings.HasPrefix(w, "-p"):
			if !number(w[2:], "-p") {
				return ret, nil
			}
		case strings.HasPrefix(w, "--strip"):
			_, v, ok := strings.Cut(w, "=")
			if !ok && i+1 < len(words) {
				i++
				v = words[i]
			}
			if !number(v, "-strip") {
				return ret, nil
			}
		default:
			options = append(options, w)
		}
	}
	if len(refused) > 0 {
		return stateSay(ret, false, "The following CLI options are not allowed: %s", strings.Join(refused, ", "))
	}
	src, _, err := pickSource(ctx, c, a.Source, a.SourceHash, c.StateEnv())
	if err != nil {
		return stateSay(ret, false, "%s", errText(err))
	}
	var temps []string
	temp := func() (string, error) {
		f, err := os.CreateTemp("", "__salt.tmp.*")
		if err != nil {
			return "", pyOSError(err)
		}
		temps = append(temps, f.Name())
		return f.Name(), f.Close()
	}
	defer func() {
		for _, p := range temps {
			os.Remove(p)
		}
	}()
	patchFile, err := temp()
	if err != nil {
		return nil, err
	}
	rejects, err := temp()
	if err != nil {
		return nil, err
	}
	output, err := temp()
	if err != nil {
		return nil, err
	}
	real := *c
	env := *c.Env
	env.Opts = c.Opts.Clone()
	env.Opts.Set("test", false)
	real.Env = &env
	m := newManagedArgs(patchFile)
	m.Source, m.SourceHash, m.SourceHashName, m.SkipVerify, m.Template, m.Context, m.Defaults = src, a.SourceHash, a.SourceHashName, a.SkipVerify,
		a.Template, a.Context, a.Defaults
	got, err := managedState(ctx, &real, m)
	if err != nil {
		return stateSay(ret, false, "Failed to cache patch file %s: %s", redactURL(Str(src)), errText(err))
	}
	if !c.Testing() && !Truth(got.Value("result")) {
		return got, nil
	}
	run := func(file string, more []string, dry bool) (*Map, error) {
		var quoted []string
		for _, w := range append(append([]string(nil), options...), more...) {
			quoted = append(quoted, quoteShell(w))
		}
		v, err := c.RunKw(ctx, "file.patch", []any{name, file}, NewMap("options", strings.Join(quoted, " "), "dry_run", dry))
		if err != nil {
			return nil, err
		}
		out, _ := v.(*Map)
		return out, nil
	}
	if a.RejectFile != nil {
		rejects = Str(a.RejectFile)
	}
	pre := []string{"-N", "-r", rejects, "-o", output}
	var last []string
	if strip != nil && isDir(name) {
		last = []string{"-p" + Str(strip)}
		pre = append(pre, last...)
	}
	check, err := run(m.Name, pre, false)
	if err != nil {
		return nil, err
	}
	if code, _ := toInt(check.Value("retcode")); code != 0 {
		reverse, err := run(rejects, []string{"-R", "-f"}, true)
		if err != nil {
			return nil, err
		}
		if s := check.Str("stderr"); code == 2 && s != "" {
			return stateSay(ret, false, "%s", s)
		}
		if n, _ := toInt(reverse.Value("retcode")); n == 0 {
			return stateReturn(a.Name, true, "Patch was already applied"), nil
		}
		comment := "Patch would not apply cleanly, no changes made. Results of dry-run are below."
		if a.RejectFile == nil {
			comment += " Run state again using the reject_file option to save rejects to a persistent file."
		}
		text, err := Output("nested", check, OutputOptions{BaseIndent: 14})
		if err != nil {
			return nil, err
		}
		return stateSay(ret, false, "%s", comment+"\n\n"+text)
	}
	if c.Testing() {
		return stateChanged(a.Name, nil, "The patch would be applied", check), nil
	}
	done, err := run(m.Name, last, false)
	if err != nil {
		return nil, err
	}
	if n, _ := toInt(done.Value("retcode")); n == 0 {
		return stateChanged(a.Name, true, "Patch successfully applied", done), nil
	}
	return stateChanged(a.Name, false, "Failed to apply patch", done), nil
}

func fileStateBeacon(ctx context.Context, c *Call, a fileNameArgs) (any, error) {
	sfun := a.Kwargs.Str("sfun")
	if sfun != "managed" && sfun != "directory" {
		return stateReturn(a.Name, false, fmt.Sprintf("file.%s does not work with the beacon state function", sfun)), nil
	}
	if !Truth(a.Kwargs.Value("beacon")) {
		return stateReturn(a.Name, true, "Not adding beacon."), nil
	}
	data := a.Kwargs.Map("beacon_data")
	get := func(key string, def any) any {
		if v, ok := data.Get(key); ok {
			return v
		}
		return def
	}
	file := NewMap("mask", get("mask", Strings([]string{"create", "delete", "modify"})))
	if sfun == "directory" {
		file.Set("auto_add", get("auto_add", true))
		file.Set("recurse", get("recurse", true))
		file.Set("exclude", get("exclude", NewList()))
	}
	return callState(ctx, c, "beacon.present", NewMap("name", "beacon_inotify_"+a.Name, "files", NewMap(a.Name, file), "interval", get("interval", int64(60)),
		"coalesce", get("coalesce", false), "beacon_module", "inotify"))
}

// callState calls another state function: __states__ in Salt's words.
func callState(ctx context.Context, c *Call, name string, kwargs *Map) (any, error) {
	f, err := NewStateLoader(c).Function(ctx, c, name)
	if err != nil {
		return nil, err
	}
	return f.Invoke(ctx, c, nil, kwargs)
}
