// Module saltutil: the minion's own jobs, caches and custom modules.
//
// The law of this file: everything about the daemon goes through Env (Jobs,
// Minion, Master); outside the daemon, in salt-call, what needs it answers as if
// there were nothing to do.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func saltutilModule() Module {
	funcs := Funcs{
		"running":         {run: saltutilRunning, doc: "List the jobs that this minion runs, each as a mapping of its pid and publish data."},
		"find_job":        {run: saltutilFindJob, doc: "Describe a job if it runs on this minion, else return an empty mapping."},
		"is_running":      {run: saltutilIsRunning, doc: "List the running jobs whose function matches a shell pattern.\n\nfun: the pattern, such as state.*"},
		"find_cached_job": {run: saltutilFindCachedJob, doc: "Return what a job of the past returned. The minion keeps it only with cache_jobs: True."},
		"signal_job":      {run: saltutilSignalJob, doc: "Send a signal to a job and to every process it has started.\n\njid: the job\nsig: number of the signal"},
		"term_job":        {run: saltutilTermJob, doc: "End a job and its processes with signal 15."},
		"kill_job":        {run: saltutilKillJob, doc: "End a job and its processes with signal 9."},
		"term_all_jobs":   {run: saltutilTermAllJobs, doc: "End all running jobs with signal 15."},
		"kill_all_jobs":   {run: saltutilKillAllJobs, doc: "End all running jobs with signal 9."},

		"refresh_modules":  {run: saltutilRefreshModules, doc: "Load modules anew with their next use."},
		"refresh_grains":   {run: saltutilRefreshGrains, doc: "Gather the grains anew, and fetch the pillar that may depend on them.\n\nrefresh_pillar: False leaves the pillar as it is"},
		"refresh_pillar":   {run: saltutilRefreshPillar, doc: "Fetch the pillar anew. It is there when this function returns.\n\nwait, timeout, clean_cache: accepted as in Salt"},
		"pillar_refresh":   {run: saltutilRefreshPillar, pyname: "refresh_pillar", doc: "The same as refresh_pillar."},
		"refresh_beacons":  {run: saltutilNothing, doc: "Read the beacons anew. They are always read as they stand."},
		"refresh_matchers": {run: saltutilNothing, doc: "Load matchers anew. They are built in."},

		"clear_cache":     {run: saltutilClearCache, doc: "Remove the files in the minion's cache; what the daemon needs itself stays."},
		"clear_job_cache": {run: saltutilClearJobCache, doc: "Remove cached returns of old jobs.\n\nhours: how old a job must be"},
		"revoke_auth":     {run: saltutilRevokeAuth, doc: "Ask the master to forget this minion's key.\n\npreserve_minion_cache: True keeps what the master knows about the minion"},
		"regen_keys":      {run: saltutilRegenKeys, doc: "Make a new key pair and forget the master's key. The running minion uses them after its next start."},
		"list_extmods":    {run: saltutilListExtmods, doc: "List the custom modules on this minion, by kind."},
		"sync_all":        {run: saltutilSyncAll, doc: "Fetch custom modules of every kind from the file server.\n\nsaltenv: environments to take them from\nrefresh: load them at once"},
		"sync_pillar":     {run: saltutilSyncPillar, doc: "Fetch custom pillar modules. Only a minion without a master has use for them."},
	}
	for _, k := range syncKinds() {
		if k.name == "pillar" {
			continue
		}
		doc := fmt.Sprintf("Fetch custom %s from the directory _%s of the file server.\n\nsaltenv: environments to take them from", strings.ReplaceAll(k.name, "_", " "), k.name)
		run := saltutilSyncKind(k)
		funcs["sync_"+k.name] = Func{run: run, doc: doc}
		if k.name == "output" {
			funcs["sync_outputters"] = Func{run: run, pyname: "sync_output", doc: doc}
		}
	}
	for name, f := range saltutilMasterFuncs() {
		funcs[name] = f
	}
	return Module{Doc: "Jobs, caches and custom modules of the minion.", Funcs: funcs}
}

// Jobs.

// otherJobs are the running jobs without the one that asks.
func otherJobs(c *Call) []*Map {
	var out []*Map
	if c.Jobs == nil {
		return out
	}
	for _, load := range c.Jobs.Running() {
		if load.Str("jid") != c.JID {
			out = append(out, load)
		}
	}
	return out
}

func jobList(jobs []*Map) *List {
	l := NewList()
	for _, j := range jobs {
		l.Append(j)
	}
	return l
}

func saltutilRunning(_ context.Context, c *Call, _ noArgs) (any, error) {
	return jobList(otherJobs(c)), nil
}

type jidArgs struct {
	JID any `arg:"jid"`
}

func saltutilFindJob(_ context.Context, c *Call, a jidArgs) (any, error) {
	for _, load := range otherJobs(c) {
		if load.Str("jid") == Str(a.JID) {
			return load, nil
		}
	}
	return NewMap(), nil
}

type isRunningArgs struct {
	Fun string
}

func saltutilIsRunning(_ context.Context, c *Call, a isRunningArgs) (any, error) {
	pattern := CompileGlob(a.Fun)
	var out []*Map
	for _, load := range otherJobs(c) {
		names := toItems(load.Value("fun"))
		for _, fun := range names {
			if pattern.Match(Str(fun)) {
				out = append(out, load)
				break
			}
		}
	}
	return jobList(out), nil
}

func saltutilFindCachedJob(_ context.Context, c *Call, a jidArgs) (any, error) {
	dir, err := SafeJoin(filepath.Join(c.Opts.Path("cachedir"), "minion_jobs"), Str(a.JID))
	if err != nil {
		return nil, InvocationErrorf("%v", err)
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		if !c.Opts.Bool("cache_jobs") {
			return "Local jobs cache directory not found; you may need to enable cache_jobs on this minion", nil
		}
		return fmt.Sprintf("Local jobs cache directory %s not found", dir), nil
	}
	data, err := os.ReadFile(filepath.Join(dir, "return.p"))
	if err != nil {
		return nil, ExecErrorf("read the cached job: %v", err)
	}
	v, _ := DecodeWire(data)
	if m, ok := v.(*Map); ok {
		return m, nil
	}
	return nil, nil
}

type signalArgs struct {
	JID any `arg:"jid"`
	Sig int
}

func saltutilSignalJob(_ context.Context, c *Call, a signalArgs) (any, error) {
	return signalJob(c, Str(a.JID), a.Sig)
}

func signalJob(c *Call, jid string, sig int) (any, error) {
	if sig < 0 || sig > 64 {
		return nil, InvocationErrorf("%d is no signal", sig)
	}
	if c.Jobs == nil || jid == c.JID {
		return "", nil
	}
	text, _ := c.Jobs.Signal(jid, sig)
	return text, nil
}

func saltutilTermJob(_ context.Context, c *Call, a jidArgs) (any, error) {
	return signalJob(c, Str(a.JID), 15)
}
func saltutilKillJob(_ context.Context, c *Call, a jidArgs) (any, error) {
	return signalJob(c, Str(a.JID), 9)
}

func signalAll(c *Call, sig int) (any, error) {
	out := NewList()
	for _, load := range otherJobs(c) {
		text, err := signalJob(c, load.Str("jid"), sig)
		if err != nil {
			return nil, err
		}
		out.Append(text)
	}
	return out, nil
}

func saltutilTermAllJobs(_ context.Context, c *Call, _ noArgs) (any, error) { return signalAll(c, 15) }
func saltutilKillAllJobs(_ context.Context, c *Call, _ noArgs) (any, error) { return signalAll(c, 9) }

// Refreshing.

// refreshed is what a refresh function answers: its failure is logged, as the
// daemon tries again by itself.
func refreshed(c *Call, what string, err error) (any, error) {
	if err != nil {
		c.Log.Error(fmt.Sprintf("refresh %s: %v", what, err))
		return false, nil
	}
	return true, nil
}

func saltutilRefreshModules(ctx context.Context, c *Call, _ kwargsOnly) (any, error) {
	if c.Minion == nil {
		return true, nil
	}
	return refreshed(c, "modules", c.Minion.RefreshModules(ctx))
}

func saltutilRefreshGrains(ctx context.Context, c *Call, a kwargsOnly) (any, error) {
	if c.Minion == nil {
		return true, nil
	}
	err := c.Minion.RefreshGrains(ctx)
	if v, given := a.Kwargs.Get("refresh_pillar"); err == nil && (!given || Truth(v)) {
		err = c.Minion.RefreshPillar(ctx)
	}
	return refreshed(c, "grains", err)
}

type refreshPillarArgs struct {
	Wait       bool    `def:"False"`
	Timeout    float64 `def:"30"`
	CleanCache bool    `def:"True"`
}

func saltutilRefreshPillar(ctx context.Context, c *Call, _ refreshPillarArgs) (any, error) {
	if c.Minion == nil {
		return true, nil
	}
	return refreshed(c, "pillar", c.Minion.RefreshPillar(ctx))
}

func saltutilNothing(context.Context, *Call, noArgs) (any, error) { return true, nil }

// Caches and keys.

func saltutilClearCache(_ context.Context, c *Call, _ noArgs) (any, error) {
	root := c.Opts.Path("cachedir")
	var failed error
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			if path == root {
				return err
			}
			failed = errors.Join(failed, err)
		case d.IsDir() && (path == procDir(c.Opts) || path == filepath.Join(root, "returns")):
			return fs.SkipDir
		case !d.IsDir():
			failed = errors.Join(failed, os.Remove(path))
		}
		return nil
	})
	if failed != nil {
		c.Log.Error(fmt.Sprintf("clear the cache: %v", failed))
		return false, nil
	}
	return err == nil || errors.Is(err, fs.ErrNotExist), nil
}

type clearJobCacheArgs struct {
	Hours int `def:"24"`
}

func saltutilClearJobCache(_ context.Context, c *Call, a clearJobCacheArgs) (any, error) {
	dir := filepath.Join(c.Opts.Path("cachedir"), "minion_jobs")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, ExecErrorf("clear the job cache: %v", err)
	}
	before := time.Now().Add(-time.Duration(a.Hours) * time.Hour)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().Before(before) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return nil, ExecErrorf("clear the job cache: %v", err)
			}
		}
	}
	return true, nil
}

type revokeArgs struct {
	PreserveMinionCache bool `def:"False"`
}

func saltutilRevokeAuth(ctx context.Context, c *Call, a revokeArgs) (any, error) {
	if c.Master == nil {
		return false, nil
	}
	_, err := c.Master.Request(ctx, NewMap("cmd", "revoke_auth", "id", c.Opts.Str("id"), "preserve_minion_cache", a.PreserveMinionCache))
	if err != nil {
		// The master's reply comes under a key that it may just have dropped.
		c.Log.Warn(fmt.Sprintf("revoke_auth: %v", err))
		return errors.Is(err, errAuthPending) || errors.Is(err, ErrBadMAC), nil
	}
	return true, nil
}

func saltutilRegenKeys(_ context.Context, c *Call, _ noArgs) (any, error) {
	dir := c.Opts.Path("pki_dir")
	for _, name := range []string{"minion.pem", "minion.pub", "minion_master.pub"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, ExecErrorf("remove the old keys: %v", err)
		}
	}
	if _, err := loadMinionKey(c.Opts); err != nil {
		return nil, ExecErrorf("make new keys: %v", err)
	}
	return nil, nil
}

// Custom modules.

// syncKind is one kind of custom modules, with what Salt does by default after
// it fetched some.
type syncKind struct {
	name    string
	refresh bool
}

// syncKinds are in the order in which sync_all answers.
func syncKinds() []syncKind {
	return []syncKind{
		{"clouds", true}, {"beacons", true}, {"modules", true}, {"states", true}, {"sdb", false}, {"grains", true}, {"renderers", true},
		{"returners", true}, {"output", true}, {"utils", true}, {"log_handlers", true}, {"executors", true}, {"proxymodules", false},
		{"engines", false}, {"thorium", false}, {"serializers", true}, {"matchers", false}, {"pillar", true},
	}
}

type syncArgs struct {
	Saltenv         any  `def:"None"`
	Refresh         bool `def:"True"`
	ExtmodWhitelist any  `def:"None"`
	ExtmodBlacklist any  `def:"None"`
}

// syncLaterArgs are those of kinds that are not loaded at once unless asked for.
type syncLaterArgs struct {
	Saltenv         any  `def:"None"`
	Refresh         bool `def:"False"`
	ExtmodWhitelist any  `def:"None"`
	ExtmodBlacklist any  `def:"None"`
}

type syncGrainsArgs struct {
	syncArgs
	CleanPillarCache bool `def:"False"`
}

// saltutilSyncKind is the function that fetches one kind.
func saltutilSyncKind(k syncKind) any {
	switch {
	case k.name == "grains":
		return func(ctx context.Context, c *Call, a syncGrainsArgs) (any, error) {
			return saltutilSync(ctx, c, k.name, a.syncArgs)
		}
	case !k.refresh:
		return func(ctx context.Context, c *Call, a syncLaterArgs) (any, error) {
			return saltutilSync(ctx, c, k.name, syncArgs(a))
		}
	}
	return func(ctx context.Context, c *Call, a syncArgs) (any, error) { return saltutilSync(ctx, c, k.name, a) }
}

func saltutilSync(ctx context.Context, c *Call, kind string, a syncArgs) (any, error) {
	names, err := syncExtmods(ctx, c, kind, a)
	if err != nil {
		return nil, err
	}
	if a.Refresh && c.Minion != nil {
		if err := refreshAfterSync(ctx, c, kind == "grains" && len(names) > 0); err != nil {
			c.Log.Error(fmt.Sprintf("load what was fetched: %v", err))
		}
	}
	return Strings(names), nil
}

func refreshAfterSync(ctx context.Context, c *Call, grains bool) error {
	err := c.Minion.RefreshModules(ctx)
	if grains {
		err = errors.Join(err, c.Minion.RefreshGrains(ctx), c.Minion.RefreshPillar(ctx))
	}
	return err
}

type syncAllArgs struct {
	Saltenv          any  `def:"None"`
	Refresh          bool `def:"True"`
	ExtmodWhitelist  any  `def:"None"`
	ExtmodBlacklist  any  `def:"None"`
	CleanPillarCache bool `def:"False"`
}

func saltutilSyncAll(ctx context.Context, c *Call, a syncAllArgs) (any, error) {
	ret := NewMap()
	changed := false
	for _, k := range syncKinds() {
		if k.name == "pillar" && c.Opts.Str("file_client") != "local" {
			continue
		}
		names, err := syncExtmods(ctx, c, k.name, syncArgs{a.Saltenv, false, a.ExtmodWhitelist, a.ExtmodBlacklist})
		if err != nil {
			return nil, err
		}
		changed = changed || len(names) > 0
		ret.Set(k.name, Strings(names))
	}
	if a.Refresh && c.Minion != nil {
		err := refreshAfterSync(ctx, c, changed)
		if !changed {
			err = errors.Join(err, c.Minion.RefreshPillar(ctx))
		}
		if err != nil {
			c.Log.Error(fmt.Sprintf("load what was fetched: %v", err))
		}
	}
	return ret, nil
}

func saltutilSyncPillar(ctx context.Context, c *Call, a syncAllArgs) (any, error) {
	if c.Opts.Str("file_client") != "local" {
		return nil, ExecErrorf("Pillar modules can only be synced to masterless minions")
	}
	return saltutilSync(ctx, c, "pillar", syncArgs{a.Saltenv, a.Refresh, a.ExtmodWhitelist, a.ExtmodBlacklist})
}

// extmodFilter makes a black or white list of one kind: a text is meant for this
// kind, a mapping has a list for each. A list does not say which kind it is for,
// and is left aside as in Salt.
func extmodFilter(c *Call, v any, option, kind string) []string {
	switch v := v.(type) {
	case nil:
		return toStrings(c.Opts.Map(option).Value(kind))
	case *Map:
		return toStrings(v.Value(kind))
	case string:
		return toStrings(v)
	}
	c.Log.Error(fmt.Sprintf("%s must be a text or a mapping from kinds of modules to lists, not %s", option, Repr(v)))
	return nil
}

// syncExtmods brings the files of one kind to what the file server has, and
// returns the names of new and changed ones.
func syncExtmods(ctx context.Context, c *Call, kind string, a syncArgs) ([]string, error) {
	envs := toStrings(a.Saltenv)
	if len(envs) == 0 {
		envs = toStrings(c.Opts.Value("saltenv"))
	}
	return SyncCustoms(ctx, c, kind, envs,
		extmodFilter(c, a.ExtmodWhitelist, "extmod_whitelist", kind),
		extmodFilter(c, a.ExtmodBlacklist, "extmod_blacklist", kind))
}

func saltutilListExtmods(_ context.Context, c *Call, _ noArgs) (any, error) {
	dir := filepath.Join(c.Opts.Path("cachedir"), "extmods")
	kinds, err := os.ReadDir(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, OtherErrorf("FileNotFoundError", "[Errno 2] No such file or directory: %s", Repr(dir))
		}
		return nil, ExecErrorf("list custom modules: %v", err)
	}
	ret := NewMap()
	for _, kind := range kinds {
		files, err := os.ReadDir(filepath.Join(dir, kind.Name()))
		if err != nil {
			continue
		}
		names := NewList()
		seen := map[string]bool{}
		for _, f := range files {
			name, _, _ := strings.Cut(f.Name(), ".")
			if name != "" && name != "__pycache__" && !seen[name] {
				seen[name] = true
				names.Append(name)
			}
		}
		ret.Set(kind.Name(), names)
	}
	return ret, nil
}
