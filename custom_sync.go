// saltutil.sync_*: carrying user-written files from the file server to this box.
//
// The law of this room: what lies in _modules of an environment is what the
// box has below extension_modules, no more and no less; a file is replaced only
// if its hash differs, and written beside and renamed. Names are those of the
// file server, checked by the file client; a file that cannot be a module
// (a dot in its name) comes over too, with a warning.
package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
)

// SyncCustoms brings the files of one kind over. kind is the directory below
// extension_modules ("modules", "output"); form the part of the returned names.
// It returns the names that changed, as saltutil.sync_* answers.
func SyncCustoms(ctx context.Context, c *Call, kind string, saltenvs []string, whitelist, blacklist []string) ([]string, error) {
	f, err := c.files()
	if err != nil {
		return nil, err
	}
	dest := filepath.Join(extmodsDir(c.Opts), kind)
	if len(saltenvs) == 0 {
		saltenvs = []string{"base"}
	}
	sources := []string{"_" + kind}
	if kind == "output" {
		sources = append(sources, "_outputters")
	}
	if kind == "proxymodules" {
		sources = append(sources, "_proxy")
	}
	want := map[string]string{} // name below dest → path on this box
	for _, env := range saltenvs {
		for _, source := range sources {
			names, err := f.Files(ctx, env, source)
			if err != nil {
				return nil, err
			}
			for _, n := range names {
				rel, ok := strings.CutPrefix(n, source+"/")
				if !ok || strings.HasSuffix(rel, ".pyc") || strings.Contains(rel, "__pycache__") {
					continue
				}
				mod := strings.TrimSuffix(path.Base(strings.SplitN(rel, "/", 2)[0]), path.Ext(strings.SplitN(rel, "/", 2)[0]))
				if !isModuleName(mod) {
					c.Log.Warn(fmt.Sprintf("salt://%s (%s): %q cannot be the name of a module, so it cannot be called", n, env, mod))
				}
				if listed(mod, blacklist) || len(whitelist) > 0 && !listed(mod, whitelist) {
					continue
				}
				p, err := f.Cache(ctx, "salt://|"+n, env)
				if err != nil {
					c.Log.Error(fmt.Sprintf("cannot fetch salt://%s (%s): %v", n, env, err))
					continue
				}
				if p != "" {
					want[rel] = p // the last environment has its way, as in Salt
				}
			}
		}
	}
	var changed []string
	for rel, src := range want {
		to, err := SafeJoin(dest, rel)
		if err != nil {
			return nil, err
		}
		same, err := sameFile(src, to)
		if err != nil {
			return nil, err
		}
		if same {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return nil, err
		}
		in, err := os.Open(src)
		if err != nil {
			return nil, err
		}
		err = writeStream(to, in)
		in.Close()
		if err != nil {
			return nil, err
		}
		changed = append(changed, syncName(kind, rel))
	}
	if err := removeGone(dest, want, c.Opts); err != nil {
		return nil, err
	}
	sort.Strings(changed)
	return changed, nil
}

// syncName is how sync_* names a file: modules.haha.
func syncName(kind, rel string) string {
	rel = strings.TrimSuffix(rel, path.Ext(rel))
	return kind + "." + strings.ReplaceAll(rel, "/", ".")
}

// removeGone deletes what the file server no longer has. clean_dynamic_modules
// False keeps it.
func removeGone(dest string, want map[string]string, o *Options) error {
	if o.Has("clean_dynamic_modules") && !o.Bool("clean_dynamic_modules") {
		return nil
	}
	err := filepath.WalkDir(dest, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		rel, err := filepath.Rel(dest, p)
		if err != nil {
			return err
		}
		if _, ok := want[filepath.ToSlash(rel)]; ok || strings.Contains(rel, "__pycache__") {
			return nil
		}
		if err := os.Remove(p); err != nil {
			return err
		}
		os.Remove(filepath.Dir(p)) // succeeds only if it is empty now
		return nil
	})
	if os.IsNotExist(err) {
		err = nil
	}
	return err
}

func sameFile(a, b string) (bool, error) {
	ha, err := hashFile(a, "sha256")
	if err != nil {
		return false, err
	}
	hb, err := hashFile(b, "sha256")
	if os.IsNotExist(err) {
		return false, nil
	}
	return ha == hb, err
}

func listed(name string, list []string) bool {
	for _, l := range list {
		if l == name {
			return true
		}
	}
	return false
}
