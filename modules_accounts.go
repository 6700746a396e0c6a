// The files of users and groups: reading them under any root, and changing them
// directly where a box has no shadow-utils (busybox, OpenWrt).
//
// The law of this room: a change happens under the lock that shadow-utils and
// libc take (/etc/.pwd.lock), the file is replaced as a whole with its mode and
// owner, and lines that are not understood stay as they are.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// rootOf is an argument root as a prefix of paths: "" for none.
func rootOf(root any) string {
	if !Truth(root) {
		return ""
	}
	return strings.TrimRight(Str(root), "/")
}

// replaceSystemFile replaces a file, keeping mode and owner of what was there.
// A link is followed: it may lead to where an image keeps the file.
func replaceSystemFile(path string, data []byte, mode os.FileMode) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	var old *syscall.Stat_t
	if st, err := os.Stat(path); err == nil {
		mode = st.Mode().Perm()
		old, _ = st.Sys().(*syscall.Stat_t)
	}
	if err := writeFileAtomic(path, data, mode); err != nil {
		// A file that is itself a mount point cannot be renamed over.
		if errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EXDEV) {
			return os.WriteFile(path, data, mode)
		}
		return err
	}
	if old != nil && os.Geteuid() == 0 {
		return os.Chown(path, int(old.Uid), int(old.Gid))
	}
	return nil
}

// withAccountLock runs f while nobody else changes the account files under root.
func withAccountLock(ctx context.Context, root string, f func() error) error {
	path := root + "/etc/.pwd.lock"
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return ExecErrorf("cannot lock the account files: %s", osErrorText(err))
	}
	defer lock.Close()
	what := syscall.Flock_t{Type: syscall.F_WRLCK}
	deadline := time.Now().Add(15 * time.Second)
	for {
		err = syscall.FcntlFlock(lock.Fd(), syscall.F_SETLK, &what)
		if err == nil {
			return f()
		}
		if time.Now().After(deadline) {
			return ExecErrorf("cannot lock the account files: %s is held by another program", path)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// accountLines reads a file of the kind name:…:…
func accountLines(path string) ([][]string, error) {
	lines, err := fileLines(path)
	if err != nil {
		return nil, err
	}
	out := make([][]string, len(lines))
	for i, line := range lines {
		out[i] = strings.Split(line, ":")
	}
	return out, nil
}

// writeAccountLines writes an account file; what it held before stays beside it
// under the name that shadow-utils give such copies.
func writeAccountLines(path string, lines [][]string, mode os.FileMode) error {
	if old, err := os.ReadFile(path); err == nil {
		if err := replaceSystemFile(path+"-", old, mode); err != nil {
			return err
		}
	}
	var b strings.Builder
	for _, f := range lines {
		b.WriteString(strings.Join(f, ":"))
		b.WriteByte('\n')
	}
	return replaceSystemFile(path, []byte(b.String()), mode)
}

// editAccount changes the line of name in a file: f gets its fields, or nil if
// there is none, and returns the new ones, nil to remove the line. A file that
// does not exist is left alone if optional.
func editAccount(path, name string, optional bool, mode os.FileMode, f func(fields []string) []string) error {
	lines, err := accountLines(path)
	if err != nil {
		if os.IsNotExist(err) && optional {
			return nil
		}
		return err
	}
	found := false
	out := lines[:0]
	for _, fields := range lines {
		if !found && fields[0] == name {
			found = true
			if fields = f(fields); fields == nil {
				continue
			}
		}
		out = append(out, fields)
	}
	if !found {
		if fields := f(nil); fields != nil {
			out = append(out, fields)
		}
	}
	return writeAccountLines(path, out, mode)
}

// usableAccountName refuses names that would break the files.
func usableAccountName(name string) error {
	if name == "" || strings.ContainsAny(name, ":,\n/ \t") || strings.HasPrefix(name, "-") {
		return ExecErrorf("%s is no valid name of a user or group", Repr(name))
	}
	return nil
}

// usableField refuses values that would break a line.
func usableField(values ...string) error {
	for _, v := range values {
		if strings.ContainsAny(v, ":\n") {
			return ExecErrorf("%s cannot be stored: it has a colon or a line break", Repr(v))
		}
	}
	return nil
}

// loginDefs reads numbers of /etc/login.defs.
func loginDefs(root, name string, def int) int {
	n := def
	_ = scanLines(root+"/etc/login.defs", func(line string) bool {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == name {
			if v, err := strconv.ParseInt(f[1], 0, 32); err == nil {
				n = int(v)
			}
		}
		return true
	})
	return n
}

// freeID finds an unused number: the next one above those in use for people,
// counted from the top for the system, as useradd does.
func freeID(root string, system bool, used map[int]bool) (int, error) {
	if system {
		for id := loginDefs(root, "SYS_UID_MAX", 999); id >= loginDefs(root, "SYS_UID_MIN", 100); id-- {
			if !used[id] {
				return id, nil
			}
		}
		return 0, ExecErrorf("no number is free for a system account")
	}
	low, high := loginDefs(root, "UID_MIN", 1000), loginDefs(root, "UID_MAX", 60000)
	next := low
	for id := range used {
		if id >= next && id <= high {
			next = id + 1
		}
	}
	if next <= high {
		return next, nil
	}
	for id := low; id <= high; id++ {
		if !used[id] {
			return id, nil
		}
	}
	return 0, ExecErrorf("no number is free for an account")
}

func usedUIDs(root string) map[int]bool {
	used := map[int]bool{}
	for _, u := range allUsers(root) {
		used[u.uid] = true
	}
	return used
}

func usedGIDs(root string) map[int]bool {
	used := map[int]bool{}
	for _, g := range allGroups(root) {
		used[g.gid] = true
	}
	return used
}

// findGroup finds a group under root by name or number.
func findGroup(root, what string) (groupEntry, bool) {
	for _, g := range allGroups(root) {
		if g.name == what || strconv.Itoa(g.gid) == what {
			return g, true
		}
	}
	return groupEntry{}, false
}

// newAccount is what addAccount makes.
type newAccount struct {
	name, home, shell string
	uid, gid          string // "" = the next free number, a group of its own
	unique, system    bool
	createHome        bool
	ownGroup          bool // a group of the same name, if gid is not given
}

// addAccount makes a user by editing the files.
func addAccount(ctx context.Context, root string, a newAccount) error {
	if err := usableAccountName(a.name); err != nil {
		return err
	}
	if err := usableField(a.home, a.shell); err != nil {
		return err
	}
	return withAccountLock(ctx, root, func() error {
		users := usedUIDs(root)
		for _, u := range allUsers(root) {
			if u.name == a.name {
				return ExecErrorf("user '%s' already exists", a.name)
			}
		}
		uid, err := strconv.Atoi(a.uid)
		if a.uid == "" {
			if uid, err = freeID(root, a.system, users); err != nil {
				return err
			}
		} else if err != nil || uid < 0 {
			return ExecErrorf("invalid user ID '%s'", a.uid)
		} else if users[uid] && a.unique {
			return ExecErrorf("UID %d is not unique", uid)
		}
		gid := 0
		switch {
		case a.gid != "":
			g, ok := findGroup(root, a.gid)
			if !ok {
				return ExecErrorf("group '%s' does not exist", a.gid)
			}
			gid = g.gid
		case a.ownGroup:
			if _, ok := findGroup(root, a.name); ok {
				return ExecErrorf("group %s exists - if you want to add this user to that group, give gid", a.name)
			}
			groups := usedGIDs(root)
			if gid = uid; groups[gid] {
				if gid, err = freeID(root, a.system, groups); err != nil {
					return err
				}
			}
			if err := appendGroup(root, a.name, gid); err != nil {
				return err
			}
		default:
			gid = 100
			if g, ok := findGroup(root, "users"); ok {
				gid = g.gid
			}
		}
		if a.home == "" {
			a.home = "/home/" + a.name
		}
		if a.shell == "" {
			a.shell = "/bin/sh"
		}
		err = editAccount(root+"/etc/passwd", a.name, false, 0o644, func([]string) []string {
			return []string{a.name, "x", strconv.Itoa(uid), strconv.Itoa(gid), "", a.home, a.shell}
		})
		if err != nil {
			return err
		}
		days := strconv.FormatInt(time.Now().Unix()/86400, 10)
		err = editAccount(root+"/etc/shadow", a.name, true, 0o640, func([]string) []string {
			return []string{a.name, "!", days, "0", "99999", "7", "", "", ""}
		})
		if err != nil || !a.createHome {
			return err
		}
		return makeHome(root, a.home, uid, gid)
	})
}

// makeHome makes a home directory from /etc/skel, unless there is one.
func makeHome(root, home string, uid, gid int) error {
	dir := root + home
	if _, err := os.Lstat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	skel := root + "/etc/skel"
	if isDir(skel) {
		if err := os.CopyFS(dir, os.DirFS(skel)); err != nil {
			return fmt.Errorf("copy %s to the new home: %w", skel, err)
		}
	}
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, gid)
	})
}

func appendGroup(root, name string, gid int) error {
	err := editAccount(root+"/etc/group", name, false, 0o644, func([]string) []string {
		return []string{name, "x", strconv.Itoa(gid), ""}
	})
	if err != nil {
		return err
	}
	return editAccount(root+"/etc/gshadow", name, true, 0o640, func([]string) []string { return []string{name, "!", "", ""} })
}

// removeAccount removes a user from the files, and its home if asked for.
func removeAccount(ctx context.Context, root, name string, withHome bool) error {
	return withAccountLock(ctx, root, func() error {
		var user *passwdEntry
		for _, u := range allUsers(root) {
			if u.name == name {
				user = &u
				break
			}
		}
		if user == nil {
			return ExecErrorf("user '%s' does not exist", name)
		}
		gone := func([]string) []string { return nil }
		if err := editAccount(root+"/etc/passwd", name, false, 0o644, gone); err != nil {
			return err
		}
		if err := editAccount(root+"/etc/shadow", name, true, 0o640, gone); err != nil {
			return err
		}
		if err := editMembers(root, func(group string, members []string) []string { return without(members, name) }); err != nil {
			return err
		}
		if g, ok := findGroup(root, name); ok && g.gid == user.gid && len(g.members) == 0 && !primaryGroupInUse(root, g.gid) {
			if err := dropGroup(root, name); err != nil {
				return err
			}
		}
		if withHome && user.home != "" && user.home != "/" {
			return os.RemoveAll(root + user.home)
		}
		return nil
	})
}

func primaryGroupInUse(root string, gid int) bool {
	for _, u := range allUsers(root) {
		if u.gid == gid {
			return true
		}
	}
	return false
}

func dropGroup(root, name string) error {
	gone := func([]string) []string { return nil }
	if err := editAccount(root+"/etc/group", name, false, 0o644, gone); err != nil {
		return err
	}
	return editAccount(root+"/etc/gshadow", name, true, 0o640, gone)
}

func without(items []string, what string) []string {
	var out []string
	for _, s := range items {
		if s != what {
			out = append(out, s)
		}
	}
	return out
}

func hasString(items []string, what string) bool {
	for _, s := range items {
		if s == what {
			return true
		}
	}
	return false
}

// editMembers changes the members of all groups, in group and gshadow.
func editMembers(root string, f func(group string, members []string) []string) error {
	for _, file := range []struct {
		path string
		mode os.FileMode
	}{{root + "/etc/group", 0o644}, {root + "/etc/gshadow", 0o640}} {
		lines, err := accountLines(file.path)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		changed := false
		for _, fields := range lines {
			if len(fields) < 4 {
				continue
			}
			var members []string
			for _, m := range strings.Split(fields[3], ",") {
				if m != "" {
					members = append(members, m)
				}
			}
			if now := strings.Join(f(fields[0], members), ","); now != fields[3] {
				fields[3], changed = now, true
			}
		}
		if changed {
			if err := writeAccountLines(file.path, lines, file.mode); err != nil {
				return err
			}
		}
	}
	return nil
}

// setSupplementary puts a user into groups, and out of all others unless add.
func setSupplementary(ctx context.Context, root, name string, groups []string, add bool) error {
	for _, g := range groups {
		if _, ok := findGroup(root, g); !ok {
			return ExecErrorf("group '%s' does not exist", g)
		}
	}
	return withAccountLock(ctx, root, func() error {
		return editMembers(root, func(group string, members []string) []string {
			switch {
			case hasString(groups, group):
				if hasString(members, name) {
					return members
				}
				return append(members, name)
			case add:
				return members
			}
			return without(members, name)
		})
	})
}

// changePasswd changes fields of a user's line in the passwd file.
func changePasswd(ctx context.Context, root, name string, f func(fields []string)) error {
	return withAccountLock(ctx, root, func() error {
		return editAccount(root+"/etc/passwd", name, false, 0o644, func(fields []string) []string {
			if len(fields) >= 7 {
				f(fields)
			}
			return fields
		})
	})
}

// renameAccount gives a user another name everywhere.
func renameAccount(ctx context.Context, root, name, newName string) error {
	if err := usableAccountName(newName); err != nil {
		return err
	}
	return withAccountLock(ctx, root, func() error {
		rename := func(fields []string) []string {
			if fields != nil {
				fields[0] = newName
			}
			return fields
		}
		if err := editAccount(root+"/etc/passwd", name, false, 0o644, rename); err != nil {
			return err
		}
		if err := editAccount(root+"/etc/shadow", name, true, 0o640, rename); err != nil {
			return err
		}
		return editMembers(root, func(_ string, members []string) []string {
			for i := range members {
				if members[i] == name {
					members[i] = newName
				}
			}
			return members
		})
	})
}
