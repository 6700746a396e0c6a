// Runners cache and mine: what the master keeps of its minions.
//
// The law of this file: a bank is a directory below cachedir, a key a file with
// one packed value; names never lead out of it. Clearing removes only what was
// named.
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

func cacheRunner() Module {
	target := "\n\ntgt, tgt_type: which minions"
	return Module{
		Doc: "Data that the master caches.",
		Funcs: Funcs{
			"grains":          {run: runCacheGrains, doc: "Return cached grains by minion." + target},
			"pillar":          {run: runCachePillar, doc: "Return cached pillars by minion." + target},
			"mine":            {run: runCacheMine, doc: "Return cached mine data by minion." + target},
			"clear_pillar":    {run: runClearPillar, doc: "Forget cached pillars." + target},
			"clear_grains":    {run: runClearGrains, doc: "Forget cached grains." + target},
			"clear_mine":      {run: runClearMine, doc: "Forget cached mine data." + target},
			"clear_mine_func": {run: runClearMineFunc, doc: "Forget one function of cached mine data." + target + "\nclear_mine_func_flag: the function"},
			"clear_all":       {run: runClearAll, doc: "Forget all cached data." + target},
			"clear_git_lock":  {run: runClearGitLock, doc: "Remove locks of git repositories. There are none."},
			"cloud":           {run: runCacheCloud, doc: "Return cached cloud data. There is none."},
			"list":            {run: runCacheList, pyname: "list_", doc: "List the keys and banks below a bank.\n\nbank: such as minions/web1"},
			"fetch":           {run: runCacheFetch, doc: "Return the value of a key, an empty mapping if there is none."},
			"store":           {run: runCacheStore, doc: "Store a value under a key of a bank."},
			"flush":           {run: runCacheFlush, doc: "Remove a key, or a whole bank."},
		},
	}
}

type runCacheTgtArgs struct {
	Tgt     any
	TgtType string `def:"'glob'"`
	Kwargs  *Map   `arg:"**kwargs"`
}

type runCacheOptTgtArgs struct {
	Tgt     any    `def:"None"`
	TgtType string `def:"'glob'"`
	Kwargs  *Map   `arg:"**kwargs"`
}

// cachedTargets are the minions that a target means, among those with keys.
func cachedTargets(c *Call, tgt any, kind string) ([]string, error) {
	ids, err := c.Runner.Pool.selectIDs(kind, tgt, "", false)
	if err != nil {
		c.Log.Info(err.Error())
		return nil, nil
	}
	return ids, nil
}

func cachedBy(c *Call, tgt any, kind string, get func(id string) any) (any, error) {
	ids, err := cachedTargets(c, tgt, kind)
	if err != nil {
		return nil, err
	}
	ret := NewMap()
	for _, id := range ids {
		if v := get(id); v != nil {
			ret.Set(id, v)
		}
	}
	return ret, nil
}

func runCacheGrains(_ context.Context, c *Call, a runCacheTgtArgs) (any, error) {
	return cachedBy(c, a.Tgt, a.TgtType, func(id string) any {
		grains, _, ok := c.Runner.Pool.data(id)
		if !ok || grains == nil {
			return NewMap()
		}
		return grains
	})
}

func runCachePillar(_ context.Context, c *Call, a runCacheOptTgtArgs) (any, error) {
	return cachedBy(c, a.Tgt, a.TgtType, func(id string) any {
		_, pillar, ok := c.Runner.Pool.data(id)
		if !ok || pillar == nil {
			return NewMap()
		}
		return pillar
	})
}

func runCacheMine(_ context.Context, c *Call, a runCacheOptTgtArgs) (any, error) {
	return cachedBy(c, a.Tgt, a.TgtType, func(id string) any {
		m, ok := c.Runner.Pool.cacheFile(id, "mine").(*Map)
		if !ok {
			return NewMap()
		}
		shown := NewMap()
		for k, v := range m.All() {
			shown.Set(k, mineValue(v))
		}
		return shown
	})
}

// mineValue takes the value out of the wrapper that carries an access list.
func mineValue(v any) any {
	m, ok := v.(*Map)
	if ok && m.Has("__data__") {
		return m.Value("__data__")
	}
	return v
}

// changeMinionData rewrites or removes the cache files of minions.
func changeMinionData(c *Call, tgt any, kind string, change func(id string) error) (any, error) {
	if tgt == nil {
		return false, nil
	}
	ids, err := cachedTargets(c, tgt, kind)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if err := change(id); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, ExecErrorf("clear the cache of %s: %v", id, err)
		}
	}
	return true, nil
}

func minionCacheFile(c *Call, id, name string) string {
	return filepath.Join(c.Runner.Pool.cacheDir, "minions", id, name+".p")
}

// dropData removes grains or pillar of a minion and keeps the other.
func dropData(c *Call, id string, fields ...string) error {
	m, ok := c.Runner.Pool.cacheFile(id, "data").(*Map)
	if !ok {
		return nil
	}
	left := m.Clone()
	for _, f := range fields {
		left.Delete(f)
	}
	path := minionCacheFile(c, id, "data")
	if left.Len() == 0 {
		return os.Remove(path)
	}
	p, err := EncodeBin(left)
	if err != nil {
		return err
	}
	return writeFileAtomic(path, p, 0o600)
}

type runClearArgs struct {
	Tgt     any    `def:"None"`
	TgtType string `def:"'glob'"`
}

func runClearPillar(_ context.Context, c *Call, a runClearArgs) (any, error) {
	return changeMinionData(c, a.Tgt, a.TgtType, func(id string) error { return dropData(c, id, "pillar") })
}

func runClearGrains(_ context.Context, c *Call, a runClearArgs) (any, error) {
	return changeMinionData(c, a.Tgt, a.TgtType, func(id string) error { return dropData(c, id, "grains") })
}

func runClearMine(_ context.Context, c *Call, a runClearArgs) (any, error) {
	return changeMinionData(c, a.Tgt, a.TgtType, func(id string) error { return os.Remove(minionCacheFile(c, id, "mine")) })
}

func runClearAll(_ context.Context, c *Call, a runClearArgs) (any, error) {
	return changeMinionData(c, a.Tgt, a.TgtType, func(id string) error {
		if err := os.Remove(minionCacheFile(c, id, "mine")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return os.Remove(minionCacheFile(c, id, "data"))
	})
}

type runClearMineFuncArgs struct {
	Tgt               any    `def:"None"`
	TgtType           string `def:"'glob'"`
	ClearMineFuncFlag any    `def:"None"`
}

func runClearMineFunc(_ context.Context, c *Call, a runClearMineFuncArgs) (any, error) {
	return changeMinionData(c, a.Tgt, a.TgtType, func(id string) error {
		m, ok := c.Runner.Pool.cacheFile(id, "mine").(*Map)
		if !ok || !m.Delete(Str(a.ClearMineFuncFlag)) {
			return nil
		}
		p, err := EncodeBin(m)
		if err != nil {
			return err
		}
		return writeFileAtomic(minionCacheFile(c, id, "mine"), p, 0o600)
	})
}

type runGitLockArgs struct {
	Role   any
	Remote any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}

func runClearGitLock(context.Context, *Call, runGitLockArgs) (any, error) {
	return nil, ExecErrorf("there is no git backend here, so there are no locks of one")
}

type runCacheCloudArgs struct {
	Tgt      any
	Provider any `def:"None"`
}

func runCacheCloud(context.Context, *Call, runCacheCloudArgs) (any, error) { return NewMap(), nil }

type runBankArgs struct {
	Bank     string
	Cachedir any `def:"None"`
}

type runBankKeyArgs struct {
	Bank     string
	Key      string
	Cachedir any `def:"None"`
}

// bankPath is the directory of a bank, or the file of a key in it.
func bankPath(c *Call, cachedir any, bank, key string) (string, error) {
	base := c.Opts.Path("cachedir")
	if Truth(cachedir) {
		base = Str(cachedir)
	}
	if bank == "" {
		return "", InvocationErrorf("the bank has no name")
	}
	dir, err := SafeJoin(base, bank)
	if err != nil {
		return "", InvocationErrorf("bank %q: %v", bank, err)
	}
	if key == "" {
		return dir, nil
	}
	if strings.ContainsAny(key, "/\x00") || key == "." || key == ".." {
		return "", InvocationErrorf("%q cannot be a key of a bank", key)
	}
	return filepath.Join(dir, key+".p"), nil
}

func runCacheList(_ context.Context, c *Call, a runBankArgs) (any, error) {
	dir, err := bankPath(c, a.Cachedir, a.Bank, "")
	if err != nil {
		return nil, err
	}
	names := []string{}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, ExecErrorf("list bank %s: %v", a.Bank, err)
	}
	for _, e := range entries {
		switch name, isKey := strings.CutSuffix(e.Name(), ".p"); {
		case isKey:
			names = append(names, name)
		case e.IsDir():
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return Strings(names), nil
}

func runCacheFetch(_ context.Context, c *Call, a runBankKeyArgs) (any, error) {
	path, err := bankPath(c, a.Cachedir, a.Bank, a.Key)
	if err != nil {
		return nil, err
	}
	raw, err := readRegular(path, minionDataLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return NewMap(), nil
	}
	if err != nil {
		return nil, ExecErrorf("fetch %s from bank %s: %v", a.Key, a.Bank, err)
	}
	v, err := DecodeBin(raw)
	if err != nil {
		return nil, ExecErrorf("fetch %s from bank %s: %v", a.Key, a.Bank, err)
	}
	return v, nil
}

type runBankStoreArgs struct {
	Bank     string
	Key      string
	Data     any
	Cachedir any `def:"None"`
}

func runCacheStore(_ context.Context, c *Call, a runBankStoreArgs) (any, error) {
	path, err := bankPath(c, a.Cachedir, a.Bank, a.Key)
	if err != nil {
		return nil, err
	}
	p, err := EncodeBin(a.Data)
	if err == nil {
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = writeFileAtomic(path, p, 0o600)
		}
	}
	if err != nil {
		return nil, ExecErrorf("store %s in bank %s: %v", a.Key, a.Bank, err)
	}
	return nil, nil
}

type runBankFlushArgs struct {
	Bank     string
	Key      any `def:"None"`
	Cachedir any `def:"None"`
}

func runCacheFlush(_ context.Context, c *Call, a runBankFlushArgs) (any, error) {
	key := ""
	if a.Key != nil {
		key = Str(a.Key)
	}
	path, err := bankPath(c, a.Cachedir, a.Bank, key)
	if err != nil {
		return nil, err
	}
	if !fileExists(path) {
		return false, nil
	}
	if err := os.RemoveAll(path); err != nil {
		return nil, ExecErrorf("flush bank %s: %v", a.Bank, err)
	}
	return true, nil
}

func mineRunner() Module {
	return Module{
		Doc: "The mine: values that minions publish for each other.",
		Funcs: Funcs{
			"get":    {run: runMineGet, doc: "Return mine data by minion, or by function and minion if several functions are asked for.\n\ntgt, tgt_type: which minions\nfun: the function, or several"},
			"update": {run: runMineUpdate, doc: "Let minions send their mine data anew.\n\ntgt, tgt_type: which minions"},
		},
	}
}

type runMineGetArgs struct {
	Tgt     any
	Fun     any
	TgtType string `def:"'glob'"`
}

func runMineGet(_ context.Context, c *Call, a runMineGetArgs) (any, error) {
	ids, err := cachedTargets(c, a.Tgt, a.TgtType)
	if err != nil {
		return nil, err
	}
	var funs []string
	several := false
	for _, f := range toItems(a.Fun) {
		for _, name := range strings.Split(Str(f), ",") {
			funs = append(funs, strings.TrimSpace(name))
		}
	}
	if _, isList := a.Fun.(*List); isList || len(funs) > 1 {
		several = true
	}
	ret := NewMap()
	for _, id := range ids {
		m, ok := c.Runner.Pool.cacheFile(id, "mine").(*Map)
		if !ok {
			continue
		}
		for _, f := range funs {
			v, ok := m.Get(f)
			if !ok {
				continue
			}
			into := ret
			if several {
				if ret.Map(f) == nil {
					ret.Set(f, NewMap())
				}
				into = ret.Map(f)
			}
			into.Set(id, mineValue(v))
		}
	}
	return ret, nil
}

type runMineUpdateArgs struct {
	Tgt           any
	TgtType       string `def:"'glob'"`
	Clear         bool   `def:"False"`
	MineFunctions any    `def:"None"`
}

func runMineUpdate(ctx context.Context, c *Call, a runMineUpdateArgs) (any, error) {
	kw := NewMap("__kwarg__", true, "clear", a.Clear)
	if a.MineFunctions != nil {
		kw.Set("mine_functions", a.MineFunctions)
	}
	ret, err := runnerCommand(ctx, c, JobRequest{Tgt: a.Tgt, TgtType: a.TgtType, Fun: "mine.update", Arg: NewList(kw)}, WaitOptions{})
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("update the mine: %w", err)
	}
	return ret, nil
}
