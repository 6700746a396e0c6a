// halite install DIR: a link for every program beside or away from the binary.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func appletInstall(args []string, std Stdio) int {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
		fmt.Fprint(std.Out, "Usage: halite install DIR\n\nMakes a symbolic link to this binary in DIR for every program (salt, salt-key, …).\n")
		return 0
	}
	if len(args) != 1 || strings.HasPrefix(args[0], "-") {
		fmt.Fprint(std.Err, "Usage: halite install DIR\n")
		return exitUsage
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintf(std.Err, "halite: find this binary: %v\n", err)
		return 1
	}
	if err := installLinks(self, args[0]); err != nil {
		fmt.Fprintf(std.Err, "halite: %v\n", err)
		return 1
	}
	return 0
}

// installLinks makes the links in dir. A link that stands there already is
// replaced; any other file is left alone and is an error, since it may be the
// Salt that somebody still uses.
func installLinks(binary, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("install links: %w", err)
	}
	target := binary
	if same, err := sameDir(filepath.Dir(binary), dir); err == nil && same {
		target = filepath.Base(binary)
	}
	var failed []error
	for _, a := range applets() {
		if !a.link {
			continue
		}
		path := filepath.Join(dir, a.name)
		if st, err := os.Lstat(path); err == nil {
			if st.Mode()&os.ModeSymlink == 0 {
				failed = append(failed, fmt.Errorf("install %s: a file that is no link is in the way: move it first", path))
				continue
			}
			if err := os.Remove(path); err != nil {
				failed = append(failed, err)
				continue
			}
		}
		if err := os.Symlink(target, path); err != nil {
			failed = append(failed, fmt.Errorf("install %s: %w", path, err))
		}
	}
	return errors.Join(failed...)
}

func sameDir(a, b string) (bool, error) {
	sa, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	sb, err := os.Stat(b)
	if err != nil {
		return false, err
	}
	return os.SameFile(sa, sb), nil
}
