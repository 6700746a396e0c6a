// What the master daemon prepares as root: a master of another user must reach
// its directories, and gets no more than is his.
package main

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

func TestMasterDirsOfAnotherUser(t *testing.T) {
	root := t.TempDir()
	shared := filepath.Join(root, "log")
	if err := os.Mkdir(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	kv := []any{"root_dir", root, "pki_dir", filepath.Join(root, "etc/salt/pki/master"), "cachedir", filepath.Join(root, "var/cache/salt/master"),
		"sock_dir", filepath.Join(root, "run/salt/master"), "log_file", filepath.Join(shared, "master.log")}
	other, err := user.Lookup("nobody")
	asRoot := err == nil && os.Geteuid() == 0
	if asRoot {
		kv = append(kv, "user", "nobody")
	}
	o := DefaultMasterOptions()
	for i := 0; i < len(kv); i += 2 {
		o.Set(kv[i].(string), kv[i+1])
	}
	if err := makeMasterDirs(o); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{
		"etc": 0o755, "etc/salt": 0o755, "etc/salt/pki": 0o755, "etc/salt/pki/master": 0o700,
		"var": 0o755, "var/cache/salt": 0o755, "var/cache/salt/master": 0o750,
	} {
		st, err := os.Stat(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if got := st.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
	if !asRoot {
		t.Skip("who owns what can only be tried as root, on a system with the user nobody")
	}
	for path, want := range map[string]string{
		"etc/salt/pki": "0", "etc/salt/pki/master": other.Uid, "var/cache/salt/master": other.Uid,
		"log": "0", "log/master.log": other.Uid,
	} {
		st, err := os.Stat(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if got := strconv.Itoa(int(st.Sys().(*syscall.Stat_t).Uid)); got != want {
			t.Errorf("%s belongs to %s, want %s", path, got, want)
		}
	}
}
