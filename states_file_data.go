// State module file: accumulators, serialized data, encoded files and the
// minion's cache.
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
