// What sync_* brings from several environments.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Two environments have a module of one name: as in Salt, the one that was named last
// is the one that the minion keeps.
func TestSyncTakesTheLastEnvironment(t *testing.T) {
	dir := t.TempDir()
	for _, env := range []string{"base", "dev"} {
		own := filepath.Join(dir, env, "_modules")
		if err := os.MkdirAll(own, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(own, "which.star"), fmt.Appendf(nil, "def env():\n    return %q\n", env), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	conf := fmt.Sprintf("root_dir: %[1]s/root\nid: box\nfile_roots:\n  base: [%[1]s/base]\n  dev: [%[1]s/dev]\n", dir)
	if err := os.WriteFile(filepath.Join(dir, "minion"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	call := func(args ...string) string {
		t.Helper()
		out, errText, code := runFor(append([]string{"salt-call", "--local", "-c", dir, "--out=newline_values_only"}, args...)...)
		if code != 0 {
			t.Fatalf("%q: exit %d, %s", args, code, errText)
		}
		return out
	}
	for _, c := range []struct{ envs, want string }{{"base,dev", "dev\n"}, {"dev,base", "base\n"}} {
		call("saltutil.sync_modules", "saltenv="+c.envs)
		if got := call("which.env"); got != c.want {
			t.Errorf("saltenv=%s: the minion has the file of %q, want %q", c.envs, got, c.want)
		}
	}
}
