// Wheel functions: what the API and eauth users may do to the master itself.
//
// The law of this room: the tables below are the whole list, in the idiom of the
// execution modules; names come from outside, so every one is checked before it
// becomes a path. A key that is deleted or rejected loses everything by which
// its minion was known, at once.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// wheelModules are the modules of wheel functions.
func (m *Master) wheelModules() map[string]Funcs {
	return map[string]Funcs{
		"key": {
			"list":           {run: m.wheelKeyList, pyname: "list_", doc: "List the keys in a state: acc, pre, rej, den or all."},
			"list_all":       {run: m.wheelKeyListAll, doc: "List all keys by their state, and the master's own."},
			"name_match":     {run: m.wheelKeyMatch, doc: "List the keys whose id matches a glob."},
			"accept":         {run: m.wheelKeyAccept, doc: "Accept the pending keys whose id matches a glob."},
			"accept_dict":    {run: m.wheelKeyAcceptDict, doc: "Accept keys given by their state."},
			"reject":         {run: m.wheelKeyReject, doc: "Reject the pending keys whose id matches a glob."},
			"reject_dict":    {run: m.wheelKeyRejectDict, doc: "Reject keys given by their state."},
			"delete":         {run: m.wheelKeyDelete, doc: "Delete the keys whose id matches a glob."},
			"delete_dict":    {run: m.wheelKeyDeleteDict, doc: "Delete keys given by their state."},
			"print":          {run: m.wheelKeyStr, pyname: "key_str", doc: "Return the keys whose id matches a glob."},
			"master_key_str": {run: m.wheelMasterKeyStr, doc: "Return the master's public key."},
			"finger":         {run: m.wheelKeyFinger, doc: "Return the fingerprints of the keys whose id matches a glob."},
			"finger_master":  {run: m.wheelFingerMaster, doc: "Return the fingerprint of the master's key."},
			"gen":            {run: m.wheelKeyGen, doc: "Make a pair of keys and return it; nothing is stored."},
			"gen_accept":     {run: m.wheelKeyGenAccept, doc: "Make a pair of keys, accept the public one and return both."},
		},
		"config": {
			"values":        {run: m.wheelConfigValues, doc: "Return the master's options."},
			"update_config": {run: m.wheelUpdateConfig, doc: "Write options to a file in master.d."},
		},
		"file_roots":   m.wheelRoots("file_roots"),
		"pillar_roots": m.wheelRoots("pillar_roots"),
		"minions":      {"connected": {run: m.wheelConnected, doc: "List the minions that are connected."}},
		"error":        {"error": {run: wheelError, doc: "Fail with an error, to try how it is shown."}},
	}
}

// runWheel calls a wheel function by name.
func (m *Master) runWheel(ctx context.Context, fun string, args []any, kwargs *Map) (any, error) {
	mod, name, _ := strings.Cut(fun, ".")
	m.customs.Follow()
	c := NewCall(&Env{Opts: m.o(), Grains: NewMap(), Pillar: NewMap(), Log: m.log, Loader: NewLoader(m.o(), m.customs.modules())}, fun, "", nil)
	f, err := m.wheelFunction(ctx, c, mod, name)
	if err != nil {
		return nil, err
	}
	return f.Invoke(ctx, c, args, kwargs)
}

// wheelFunction finds a function of a file in _wheel, or a built-in one.
func (m *Master) wheelFunction(ctx context.Context, c *Call, mod, name string) (Function, error) {
	own, err := m.customs.Function(ctx, c, "wheel", mod, name)
	if own != nil || err != nil {
		return own, err
	}
	if f, ok := m.wheelModules()[mod][name]; ok {
		return newBuiltin(name, f), nil
	}
	return nil, fmt.Errorf("'%s' is not available.", mod+"."+name)
}

type wheelNone struct{}

type wheelMatch struct{ Match any }

type wheelAccept struct {
	Match           any
	IncludeRejected bool `def:"False"`
	IncludeDenied   bool `def:"False"`
}

type wheelReject struct {
	Match           any
	IncludeAccepted bool `def:"False"`
	IncludeDenied   bool `def:"False"`
}

// keyStatesShort maps what users type to states.
func keyStatesShort(s string) []string {
	switch {
	case strings.HasPrefix(s, "acc"):
		return []string{KeyAccepted}
	case strings.HasPrefix(s, "pre"), strings.HasPrefix(s, "un"):
		return []string{KeyPending}
	case strings.HasPrefix(s, "rej"):
		return []string{KeyRejected}
	case strings.HasPrefix(s, "den"):
		return []string{KeyDenied}
	case strings.HasPrefix(s, "all"):
		return KeyStates()
	}
	return nil
}

func (m *Master) wheelKeyList(_ context.Context, _ *Call, a wheelMatch) (any, error) {
	out := NewMap()
	for _, state := range keyStatesShort(Str(a.Match)) {
		ids, err := m.keys.List(state)
		if err != nil {
			return nil, err
		}
		out.Set(state, Strings(ids))
	}
	return out, nil
}

// localKeys lists the master's own key files.
func (m *Master) localKeys() []string {
	entries, _ := os.ReadDir(m.keys.Dir())
	var names []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext == ".pub" || ext == ".pem" {
			names = append(names, e.Name())
		}
	}
	return names
}

func (m *Master) wheelKeyListAll(context.Context, *Call, wheelNone) (any, error) {
	out := NewMap()
	for _, state := range KeyStates() {
		ids, err := m.keys.List(state)
		if err != nil {
			return nil, err
		}
		out.Set(state, Strings(ids))
	}
	out.Set("local", Strings(m.localKeys()))
	return out, nil
}

// matchKeys lists the ids that match a glob, a list with commas or a list, in
// the given states.
func (m *Master) matchKeys(match any, states ...string) (*Map, error) {
	var globs []string
	if s, ok := match.(string); ok {
		globs = strings.Split(s, ",")
	} else {
		globs = toStrings(match)
	}
	out := NewMap()
	for _, state := range states {
		ids, err := m.keys.List(state)
		if err != nil {
			return nil, err
		}
		var hits []string
		for _, id := range ids {
			if slices.ContainsFunc(globs, func(g string) bool { return GlobMatch(g, id) }) {
				hits = append(hits, id)
			}
		}
		if len(hits) > 0 {
			out.Set(state, Strings(hits))
		}
	}
	return out, nil
}

func (m *Master) wheelKeyMatch(_ context.Context, _ *Call, a wheelMatch) (any, error) {
	return m.matchKeys(a.Match, KeyStates()...)
}

// moveKeys takes keys, given by state, to a state ("" deletes them).
func (m *Master) moveKeys(keys *Map, to string, from ...string) error {
	var failed []error
	for _, state := range from {
		for _, id := range toStrings(keys.Value(state)) {
			if err := m.moveKey(id, state, to); err != nil && !errors.Is(err, ErrNoKey) {
				failed = append(failed, err)
			}
		}
	}
	return errors.Join(failed...)
}

func (m *Master) moveKey(id, from, to string) error {
	act := map[string]string{KeyAccepted: "accept", KeyRejected: "reject", "": "delete"}[to]
	m.deciding.Lock()
	err := func() error {
		if to == "" {
			return m.keys.Remove(from, id)
		}
		if to == KeyAccepted {
			text, err := m.keys.Get(from, id)
			if err != nil {
				return err
			}
			if _, err := ParsePublicKey(text); err != nil {
				return fmt.Errorf("accept %s: %w", id, err)
			}
		}
		return m.keys.Move(id, from, to)
	}()
	m.deciding.Unlock()
	if err != nil {
		return err
	}
	if from == KeyAccepted || to == "" {
		m.dropIdentity(id)
	}
	if to != KeyAccepted && !m.keys.Has(KeyAccepted, id) && !m.o().Bool("preserve_minion_cache") {
		if err := m.index.Forget(id); err != nil {
			m.log.Error(err.Error())
		}
	}
	m.keyEvent(act, id)
	return nil
}

func (m *Master) wheelKeyAccept(_ context.Context, _ *Call, a wheelAccept) (any, error) {
	return m.moveMatching(a.Match, KeyAccepted, append([]string{KeyPending}, optional(a.IncludeRejected, KeyRejected, a.IncludeDenied, KeyDenied)...))
}

func (m *Master) wheelKeyReject(_ context.Context, _ *Call, a wheelReject) (any, error) {
	return m.moveMatching(a.Match, KeyRejected, append([]string{KeyPending}, optional(a.IncludeAccepted, KeyAccepted, a.IncludeDenied, KeyDenied)...))
}

func (m *Master) wheelKeyDelete(_ context.Context, _ *Call, a wheelMatch) (any, error) {
	return m.moveMatching(a.Match, "", KeyStates())
}

func optional(a bool, as string, b bool, bs string) []string {
	var out []string
	if a {
		out = append(out, as)
	}
	if b {
		out = append(out, bs)
	}
	return out
}

func (m *Master) moveMatching(match any, to string, from []string) (any, error) {
	keys, err := m.matchKeys(match, from...)
	if err != nil {
		return nil, err
	}
	if err := m.moveKeys(keys, to, from...); err != nil {
		return nil, err
	}
	return m.matchKeys(match, KeyStates()...)
}

func (m *Master) moveDict(match any, to string, from []string) (any, error) {
	keys, ok := match.(*Map)
	if !ok {
		return nil, InvocationErrorf("match must be a mapping of states to lists of ids")
	}
	if err := m.moveKeys(keys, to, from...); err != nil {
		return nil, err
	}
	var ids []string
	for _, v := range keys.All() {
		ids = append(ids, toStrings(v)...)
	}
	return m.matchKeys(Strings(ids), KeyStates()...)
}

func (m *Master) wheelKeyAcceptDict(_ context.Context, _ *Call, a wheelAccept) (any, error) {
	return m.moveDict(a.Match, KeyAccepted, append([]string{KeyPending}, optional(a.IncludeRejected, KeyRejected, a.IncludeDenied, KeyDenied)...))
}

func (m *Master) wheelKeyRejectDict(_ context.Context, _ *Call, a wheelReject) (any, error) {
	return m.moveDict(a.Match, KeyRejected, append([]string{KeyPending}, optional(a.IncludeAccepted, KeyAccepted, a.IncludeDenied, KeyDenied)...))
}

func (m *Master) wheelKeyDeleteDict(_ context.Context, _ *Call, a wheelMatch) (any, error) {
	return m.moveDict(a.Match, "", KeyStates())
}

// eachKey calls f with every key that matches, its text included.
func (m *Master) eachKey(match any, f func(state, id string, text []byte) any) (*Map, error) {
	keys, err := m.matchKeys(match, KeyStates()...)
	if err != nil {
		return nil, err
	}
	out := NewMap()
	for state, ids := range keys.All() {
		byID := NewMap()
		for _, id := range toStrings(ids) {
			text, err := m.keys.Get(state.(string), id)
			if err != nil {
				return nil, err
			}
			byID.Set(id, f(state.(string), id, text))
		}
		out.Set(state, byID)
	}
	return out, nil
}

func (m *Master) wheelKeyStr(_ context.Context, _ *Call, a wheelMatch) (any, error) {
	return m.eachKey(a.Match, func(_, _ string, text []byte) any { return string(text) })
}

func (m *Master) wheelMasterKeyStr(context.Context, *Call, wheelNone) (any, error) {
	return NewMap("local", NewMap("master.pub", m.key.PublicPEM()+"\n")), nil
}

type wheelFinger struct {
	Match    any
	HashType string `def:"None"`
}

func (m *Master) wheelKeyFinger(_ context.Context, _ *Call, a wheelFinger) (any, error) {
	kind := firstOf(a.HashType, m.hashType)
	if hashByName(kind) == nil {
		return nil, InvocationErrorf("unknown hash_type %s", kind)
	}
	return m.eachKey(a.Match, func(_, _ string, text []byte) any { return Fingerprint(text, kind) })
}

type wheelFingerMasterArgs struct {
	HashType string `def:"None"`
}

func (m *Master) wheelFingerMaster(_ context.Context, _ *Call, a wheelFingerMasterArgs) (any, error) {
	kind := firstOf(a.HashType, m.hashType)
	if hashByName(kind) == nil {
		return nil, InvocationErrorf("unknown hash_type %s", kind)
	}
	out := NewMap("master.pub", Fingerprint([]byte(m.key.PublicPEM()+"\n"), kind))
	return NewMap("local", out), nil
}

type wheelGen struct {
	ID      any `arg:"id_" def:"None"`
	Keysize int `def:"2048"`
}

func (m *Master) wheelKeyGen(_ context.Context, _ *Call, a wheelGen) (any, error) {
	k, err := GenerateKey(max(2048, a.Keysize))
	if err != nil {
		return nil, err
	}
	return NewMap("priv", string(k.PrivatePEM()), "pub", k.PublicPEM()), nil
}

type wheelGenAccept struct {
	ID      string `arg:"id_"`
	Keysize int    `def:"2048"`
	Force   bool   `def:"False"`
}

func (m *Master) wheelKeyGenAccept(_ context.Context, _ *Call, a wheelGenAccept) (any, error) {
	if err := ValidMinionID(a.ID); err != nil {
		return nil, err
	}
	if m.keys.Has(KeyAccepted, a.ID) && !a.Force {
		return NewMap(), nil
	}
	k, err := GenerateKey(max(2048, a.Keysize))
	if err != nil {
		return nil, err
	}
	m.deciding.Lock()
	err = m.keys.Put(KeyAccepted, a.ID, []byte(k.PublicPEM()))
	m.deciding.Unlock()
	if err != nil {
		return nil, err
	}
	m.keyEvent("accept", a.ID)
	return NewMap("priv", string(k.PrivatePEM()), "pub", k.PublicPEM()), nil
}

func (m *Master) wheelConfigValues(context.Context, *Call, wheelNone) (any, error) {
	return m.o().All(), nil
}

type wheelUpdateConfigArgs struct {
	FileName     string
	YamlContents any
}

func (m *Master) wheelUpdateConfig(_ context.Context, _ *Call, a wheelUpdateConfigArgs) (any, error) {
	name := a.FileName + ".conf"
	if a.FileName == "" || strings.ContainsAny(a.FileName, "/\\\x00") || a.FileName[0] == '.' {
		return "Invalid path", nil
	}
	if _, ok := a.YamlContents.(*Map); !ok {
		return nil, InvocationErrorf("yaml_contents must be a mapping of options")
	}
	dir := filepath.Join(filepath.Dir(m.o().Str("conf_file")), filepath.Dir(m.o().Str("default_include")))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	text := DumpYAML(a.YamlContents, YAMLOptions{})
	if err := writeFileAtomic(filepath.Join(dir, name), []byte(text), 0o640); err != nil {
		return nil, err
	}
	return "Wrote " + name, nil
}

func (m *Master) wheelConnected(context.Context, *Call, wheelNone) (any, error) {
	var ids []string
	for id := range m.presentIDs() {
		ids = append(ids, id)
	}
	return sortedStrings(ids), nil
}

type wheelErrorArgs struct {
	Name    string `def:"None"`
	Message string `def:"''"`
}

func wheelError(_ context.Context, _ *Call, a wheelErrorArgs) (any, error) {
	return nil, ExecErrorf("%s", firstOf(a.Message, firstOf(a.Name, "Exception")))
}

type wheelEnv struct {
	Saltenv string `def:"base"`
}

type wheelPath struct {
	Path    string
	Saltenv string `def:"base"`
}

type wheelWrite struct {
	Data    string
	Path    string
	Saltenv string `def:"base"`
	Index   int    `def:"0"`
}

// wheelRoots are the functions on the directories of file_roots or pillar_roots.
func (m *Master) wheelRoots(option string) Funcs {
	roots := func(env string) ([]string, error) {
		if err := ValidEnv(env); err != nil {
			return nil, err
		}
		return toStrings(m.o().Map(option).Value(env)), nil
	}
	find := func(_ context.Context, _ *Call, a wheelPath) (any, error) {
		dirs, err := roots(a.Saltenv)
		if err != nil {
			return nil, err
		}
		out := NewList()
		for _, dir := range dirs {
			full, err := SafeJoin(dir, a.Path)
			if err != nil {
				return nil, err
			}
			if st, err := os.Stat(full); err == nil && st.Mode().IsRegular() {
				kind := "txt"
				if p, err := os.ReadFile(full); err == nil && slices.Contains(p[:min(len(p), 1024)], 0) {
					kind = "bin"
				}
				out.Append(NewMap(full, kind))
			}
		}
		return out, nil
	}
	list := func(env string) (*Map, error) {
		dirs, err := roots(env)
		if err != nil {
			return nil, err
		}
		out := NewMap()
		for _, dir := range dirs {
			var files []string
			filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					rel, _ := filepath.Rel(dir, path)
					files = append(files, rel)
				}
				return nil
			})
			out.Set(dir, Strings(files))
		}
		return out, nil
	}
	return Funcs{
		"find": {run: find, doc: "Find a file in the directories of an environment: its paths and whether each is text."},
		"list_env": {run: func(_ context.Context, _ *Call, a wheelEnv) (any, error) { return list(a.Saltenv) },
			doc: "List the files of an environment by directory."},
		"list_roots": {run: func(context.Context, *Call, wheelNone) (any, error) {
			out := NewMap()
			for env := range m.o().Map(option).All() {
				l, err := list(Str(env))
				if err != nil {
					return nil, err
				}
				out.Set(env, NewList(l))
			}
			return out, nil
		}, doc: "List the files of all environments."},
		"read": {run: func(ctx context.Context, c *Call, a wheelPath) (any, error) {
			found, err := find(ctx, c, a)
			if err != nil {
				return nil, err
			}
			out := NewList()
			for _, v := range found.(*List).Items {
				path, kind := v.(*Map).At(0)
				if kind != "txt" {
					continue
				}
				p, err := os.ReadFile(path.(string))
				if err != nil {
					return nil, err
				}
				out.Append(NewMap(path, string(p)))
			}
			return out, nil
		}, doc: "Return the content of a text file of an environment."},
		"write": {run: func(_ context.Context, _ *Call, a wheelWrite) (any, error) {
			dirs, err := roots(a.Saltenv)
			if err != nil {
				return nil, err
			}
			if len(dirs) == 0 {
				return "Named environment " + a.Saltenv + " is not present", nil
			}
			if a.Index < 0 || a.Index >= len(dirs) {
				return "Specified index " + fmt.Sprint(a.Index) + " in environment " + a.Saltenv + " is not present", nil
			}
			if filepath.IsAbs(a.Path) {
				return "The path passed in " + a.Path + " is not relative to the environment " + a.Saltenv, nil
			}
			full, err := SafeJoin(dirs[a.Index], a.Path)
			if err != nil {
				return "Invalid path", nil
			}
			root, err := os.OpenRoot(dirs[a.Index])
			if err != nil {
				return nil, err
			}
			defer root.Close()
			rel := filepath.Clean(a.Path)
			if err := root.MkdirAll(filepath.Dir(rel), 0o755); err != nil {
				return nil, err
			}
			if err := root.WriteFile(rel, []byte(a.Data), 0o644); err != nil {
				return nil, err
			}
			return "Wrote data to file " + full, nil
		}, doc: "Write a file into an environment."},
	}
}
