// Modules key, minion and sdb: a few functions each.
package main

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
)

func keyModule() Module {
	return Module{
		Doc: "Show fingerprints of keys.",
		Funcs: Funcs{
			"finger":        {run: keyFinger("minion.pub"), pyname: "finger", doc: "Return the fingerprint of this minion's public key."},
			"finger_master": {run: keyFinger("minion_master.pub"), pyname: "finger_master", doc: "Return the fingerprint of the master's public key."},
		},
	}
}

type hashTypeArgs struct {
	HashType any `def:"None"`
}

func keyFinger(file string) func(context.Context, *Call, hashTypeArgs) (any, error) {
	return func(_ context.Context, c *Call, a hashTypeArgs) (any, error) {
		kind := c.Opts.Str("hash_type")
		if a.HashType != nil {
			kind = Str(a.HashType)
		}
		p, err := os.ReadFile(filepath.Join(c.Opts.Path("pki_dir"), file))
		if err != nil {
			return "", nil
		}
		return Fingerprint(p, kind), nil
	}
}

func minionModule() Module {
	return Module{
		Doc: "Look after the minion itself.",
		Funcs: Funcs{
			"list":    {run: minionList, pyname: "list_", doc: "List the keys of the minions, where this box is the master too."},
			"restart": {run: minionRestart, doc: "Restart the minion's service, without waiting for it."},
			"kill":    {run: minionKill, doc: "End the minion; what starts services starts it again, or nobody does."},
		},
	}
}

func minionList(_ context.Context, c *Call, _ noArgs) (any, error) {
	dir := strings.ReplaceAll(c.Opts.Path("pki_dir"), "minion", "master")
	out := &Map{}
	for _, state := range []string{"minions", "minions_pre", "minions_rejected", "minions_denied"} {
		names := []string{}
		files, _ := os.ReadDir(filepath.Join(dir, state))
		for _, f := range files {
			if !strings.HasPrefix(f.Name(), ".") && isFile(filepath.Join(dir, state, f.Name())) {
				names = append(names, f.Name())
			}
		}
		sort.Slice(names, func(i, j int) bool { return strings.ToLower(names[i]) < strings.ToLower(names[j]) })
		out.Set(state, Strings(names))
	}
	return out, nil
}

// minionKill ends the daemon as a signal does: returns are sent first.
func minionKill(_ context.Context, c *Call, _ struct {
	Timeout any `def:"15"`
}) (any, error) {
	if c.Minion == nil {
		return NewMap("killed", nil, "retcode", int64(70), "comment", NewList("no minion runs here")), nil
	}
	pid := os.Getpid()
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return NewMap("killed", nil, "retcode", int64(1), "comment", NewList(err.Error())), nil
	}
	return NewMap("killed", int64(pid), "retcode", int64(0)), nil
}

type minionRestartArgs struct {
	Systemd       bool `def:"True"`
	WinService    bool `def:"True"`
	ScheduleRetry bool `def:"False"`
	RetryDelay    any  `def:"180"`
}

// minionRestart asks the init of the box: a minion that ended itself would have
// nobody to start it again.
func minionRestart(ctx context.Context, c *Call, a minionRestartArgs) (any, error) {
	comment := &List{}
	ret := NewMap("killed", nil, "restart", &Map{}, "service_restart", &Map{}, "retcode", int64(0))
	if v, ok := configLookup(c, "minion_restart_command"); ok && Truth(v) {
		comment.Append("Using configuration minion_restart_command:")
		words := namesOf(toItems(v))
		for _, w := range words {
			comment.Append("    " + w)
		}
		pid, err := startBackground(program{args: words, umask: -1, empty: true})
		if err != nil {
			return nil, err
		}
		ret.Set("restart", NewMap("pid", int64(pid)))
		ret.Set("comment", comment)
		return ret, nil
	}
	kw := &Map{}
	if a.Systemd && systemdRuns() {
		comment.Append("Using systemctl to restart salt-minion")
		kw.Set("no_block", true)
	}
	result, err := c.RunKw(ctx, "service.restart", []any{"salt-minion"}, kw)
	if err != nil || !Truth(result) {
		comment.Append("Service restart failed")
		why := "Failed to restart salt-minion service"
		if err != nil {
			why = err.Error()
		}
		ret.Set("service_restart", NewMap("result", false, "stderr", why))
		ret.Set("retcode", int64(70))
	} else {
		comment.Append("Service restart successful")
		ret.Set("service_restart", NewMap("result", result))
	}
	ret.Set("comment", comment)
	return ret, nil
}

func sdbModule() Module {
	return Module{
		Doc: "Look values up in the stores that the options name: sdb://profile/key.",
		Funcs: Funcs{
			"get":             {run: sdbGet, doc: "Return a value; the URI itself if it names no store. Stores are of the drivers env and yaml."},
			"set":             {run: sdbSet, pyname: "set_", doc: "Set a value, in stores of the driver env."},
			"delete":          {run: sdbDelete, doc: "Refused: no store that can be read here can forget."},
			"get_or_set_hash": {run: sdbGetOrSetHash, doc: "Return a value; if there is none, make up a random one and set it."},
		},
	}
}

// sdbProfile finds the profile and the key of a URI. ok is false if it names none.
func sdbProfile(c *Call, uri string) (profile *Map, key string, ok bool) {
	rest, ok := strings.CutPrefix(uri, "sdb://")
	if !ok {
		return nil, "", false
	}
	name, key, ok := strings.Cut(rest, "/")
	if !ok || key == "" {
		return nil, "", false
	}
	if profile, _ = c.Opts.Value(name).(*Map); profile.Len() == 0 {
		profile = c.Pillar.Map(name)
	}
	return profile, key, profile.Has("driver")
}

type sdbGetArgs struct {
	URI    any
	Strict bool `def:"False"`
}

func sdbGet(ctx context.Context, c *Call, a sdbGetArgs) (any, error) {
	uri, isText := a.URI.(string)
	profile, key, ok := sdbProfile(c, uri)
	if !isText || !ok {
		if a.Strict {
			return nil, OtherErrorf("salt.exceptions.SaltException", "SDB URI must have a profile and a key: %s", Str(a.URI))
		}
		return a.URI, nil
	}
	switch driver := profile.Str("driver"); driver {
	case "env":
		if v, ok := os.LookupEnv(key); ok {
			return v, nil
		}
		return nil, nil
	case "yaml":
		data := &Map{}
		for _, f := range toItems(profile.Value("files")) {
			p, err := os.ReadFile(Str(f))
			if err != nil {
				return nil, osError(err)
			}
			v, err := ParseYAML(p)
			if err != nil {
				return nil, err
			}
			if m, ok := v.(*Map); ok {
				UpdateMap(data, m, Truth(profile.Value("merge_lists")))
			}
		}
		v, _ := TraversePath(data, key, ":")
		return v, nil
	default:
		return nil, ExecErrorf("the sdb driver %s is not built in; env and yaml are", Repr(driver))
	}
}

type sdbSetArgs struct{ URI, Value any }

func sdbSet(_ context.Context, c *Call, a sdbSetArgs) (any, error) {
	profile, key, ok := sdbProfile(c, Str(a.URI))
	if !ok {
		return false, nil
	}
	if driver := profile.Str("driver"); driver != "env" {
		return nil, ExecErrorf("values of the sdb driver %s cannot be set", Repr(driver))
	}
	if err := os.Setenv(key, Str(a.Value)); err != nil {
		return nil, err
	}
	return a.Value, nil
}

type sdbURIArgs struct{ URI any }

func sdbDelete(_ context.Context, c *Call, a sdbURIArgs) (any, error) {
	if _, _, ok := sdbProfile(c, Str(a.URI)); !ok {
		return false, nil
	}
	return nil, ExecErrorf("values of the sdb drivers env and yaml cannot be deleted")
}

type sdbHashArgs struct {
	URI    any
	Length int    `def:"8"`
	Chars  string `def:"'abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*(-_=+)'"`
}

func sdbGetOrSetHash(ctx context.Context, c *Call, a sdbHashArgs) (any, error) {
	if _, _, ok := sdbProfile(c, Str(a.URI)); !ok {
		return false, nil
	}
	v, err := sdbGet(ctx, c, sdbGetArgs{URI: a.URI})
	if err != nil || v != nil {
		return v, err
	}
	text := randomText(a.Length, a.Chars)
	if len(text) > 0 && text[0] >= '0' && text[0] <= '9' { // must not read as a number
		text = string(lowerLetters[rand.IntN(len(lowerLetters))]) + text[1:]
	}
	return sdbSet(ctx, c, sdbSetArgs{a.URI, text})
}
