// Module file: what files are: owners, modes, times, kinds.
package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// pyOSError is an OSError as Python raises it, under the name of its class.
func pyOSError(err error) error {
	var me *ModuleError
	if errors.As(err, &me) {
		return err
	}
	class := "OSError"
	var errno syscall.Errno
	if errors.As(err, &errno) {
		switch errno {
		case syscall.ENOENT:
			class = "FileNotFoundError"
		case syscall.EACCES, syscall.EPERM:
			class = "PermissionError"
		case syscall.EEXIST:
			class = "FileExistsError"
		case syscall.ENOTDIR:
			class = "NotADirectoryError"
		case syscall.EISDIR:
			class = "IsADirectoryError"
		}
	}
	return OtherErrorf(class, "%s", osErrorText(err))
}

// strerrorOf is exc.strerror: the text of the error number alone.
func strerrorOf(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return strerror(errno)
	}
	return err.Error()
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

func isSymlink(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && st.Mode()&os.ModeSymlink != 0
}

func pathExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// realPath is os.path.realpath: links are followed as far as they lead.
func realPath(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real
	}
	if link, err := os.Readlink(abs); err == nil && link != abs {
		if !filepath.IsAbs(link) {
			link = filepath.Join(filepath.Dir(abs), link)
		}
		if filepath.Dir(abs) != abs && link != abs {
			return filepath.Join(realPath(filepath.Dir(link)), filepath.Base(link))
		}
	}
	if dir := filepath.Dir(abs); dir != abs {
		return filepath.Join(realPath(dir), filepath.Base(abs))
	}
	return abs
}

// fileStat is stat(2) of a path; a dangling link is described itself.
func fileStat(path string, follow bool) (*syscall.Stat_t, error) {
	var st syscall.Stat_t
	err := syscall.Stat(path, &st)
	if err != nil || !follow {
		if lerr := syscall.Lstat(path, &st); lerr != nil {
			return nil, ExecErrorf("Path not found: %s", path)
		}
	}
	return &st, nil
}

func statTime(t syscall.Timespec) float64 {
	sec, nsec := t.Unix()
	return float64(sec) + 1e-9*float64(nsec)
}

// fileModeText is the mode of a file as Salt writes it: 0644.
func fileModeText(st *syscall.Stat_t) string {
	return normalizeMode(strconv.FormatUint(uint64(st.Mode)&0o7777, 8)).(string)
}

// ownershipOf is the part of statsOf that says whose a file is, and its mode.
func ownershipOf(path string, follow bool) (*Map, error) {
	st, err := fileStat(expandUser(path), follow)
	if err != nil {
		return nil, err
	}
	return NewMap("uid", int64(st.Uid), "gid", int64(st.Gid), "user", uidToUser(int64(st.Uid)), "group", gidToGroup(int64(st.Gid)),
		"mode", fileModeText(st)), nil
}

// statsOf is file.stats.
func statsOf(path, hashType string, follow bool) (*Map, error) {
	path = expandUser(path)
	st, err := fileStat(path, follow)
	if err != nil {
		return nil, err
	}
	m := NewMap("inode", FromGo(st.Ino), "uid", int64(st.Uid), "gid", int64(st.Gid),
		"group", gidToGroup(int64(st.Gid)), "user", uidToUser(int64(st.Uid)),
		"atime", statTime(st.Atim), "mtime", statTime(st.Mtim), "ctime", statTime(st.Ctim),
		"size", st.Size, "mode", fileModeText(st))
	if hashType != "" {
		sum, err := hashOfFile(path, hashType)
		if err != nil {
			return nil, err
		}
		m.Set("sum", sum)
	}
	kind := "file"
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		kind = "dir"
	case syscall.S_IFCHR:
		kind = "char"
	case syscall.S_IFBLK:
		kind = "block"
	case syscall.S_IFLNK:
		kind = "link"
	case syscall.S_IFIFO:
		kind = "pipe"
	case syscall.S_IFSOCK:
		kind = "socket"
	}
	m.Set("type", kind)
	m.Set("target", realPath(path))
	return m, nil
}

type statsArgs struct {
	Path           string
	HashType       any  `def:"None"`
	FollowSymlinks bool `def:"True"`
}

func fileStats(_ context.Context, _ *Call, a statsArgs) (any, error) {
	return orError(statsOf(a.Path, Str(orEmpty(a.HashType)), a.FollowSymlinks))
}

// orError keeps a nil *Map with an error from becoming a value.
func orError(m *Map, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

// statField makes file.get_user and its like.
func statField(field string) func(context.Context, *Call, pathFollowArgs) (any, error) {
	return func(_ context.Context, _ *Call, a pathFollowArgs) (any, error) {
		m, err := statsOf(a.Path, "", a.FollowSymlinks)
		if err != nil {
			return nil, err
		}
		return m.Value(field), nil
	}
}

type pathFollowArgs struct {
	Path           string
	FollowSymlinks bool `def:"True"`
}

type pathArgs struct{ Path string }

type nameArgs struct{ Name string }

func gidToGroup(gid int64) any {
	if g, ok := groupByID(int(gid)); ok {
		return g.name
	}
	return gid
}

func uidToUser(uid int64) any {
	if u, ok := userByID(int(uid)); ok {
		return u.name
	}
	return uid
}

// groupToGid is the gid of a group, "" if there is none; numbers are gids.
func groupToGid(group any) any {
	return idOf(group, func(name string) (int, bool) {
		g, ok := groupByName(name)
		return g.gid, ok
	})
}

// idOf is a numeric id as it is, and that of a name if there is one; else "".
func idOf(v any, byName func(string) (int, bool)) any {
	switch v := v.(type) {
	case int64:
		return v
	case string:
		if id, ok := byName(v); ok {
			return int64(id)
		}
	}
	return ""
}

// userToUid is the uid of a user, "" if there is none; None is who we are.
func userToUid(user any) any {
	if user == nil {
		return int64(os.Geteuid())
	}
	return idOf(user, func(name string) (int, bool) {
		u, ok := userByName(name)
		return u.uid, ok
	})
}

type gidArgs struct{ Gid any }

func fileGidToGroup(_ context.Context, _ *Call, a gidArgs) (any, error) {
	gid := a.Gid
	if n, ok := toInt(gid); ok && gid != nil {
		gid = n
	} else {
		gid = groupToGid(gid)
	}
	if n, ok := gid.(int64); ok {
		return gidToGroup(n), nil
	}
	return "", nil
}

type groupArgs struct{ Group any }

func fileGroupToGid(_ context.Context, _ *Call, a groupArgs) (any, error) {
	return groupToGid(a.Group), nil
}

type uidArgs struct{ UID any }

func fileUidToUser(_ context.Context, _ *Call, a uidArgs) (any, error) {
	if n, ok := a.UID.(int64); ok {
		return uidToUser(n), nil
	}
	return nil, TypeErrorf("uid should be integer, not %s", TypeName(a.UID))
}

type userArgs struct{ User any }

func fileUserToUid(_ context.Context, _ *Call, a userArgs) (any, error) {
	return userToUid(a.User), nil
}

type setModeArgs struct {
	Path string
	Mode any
}

func fileSetMode(_ context.Context, _ *Call, a setModeArgs) (any, error) {
	return setMode(a.Path, a.Mode)
}

// setMode changes a mode and returns the new one, or a text for one that is
// none.
func setMode(path string, mode any) (any, error) {
	path = expandUser(path)
	digits := strings.TrimLeft(Str(mode), "0Oo")
	if digits == "" {
		digits = "0"
	}
	if !pathExists(path) {
		return nil, ExecErrorf("%s: File not found", path)
	}
	n, err := strconv.ParseUint(digits, 8, 32)
	if err != nil || syscall.Chmod(path, uint32(n)) != nil {
		return "Invalid Mode " + digits, nil
	}
	m, err := statsOf(path, "", true)
	if err != nil {
		return nil, err
	}
	return m.Value("mode"), nil
}

type chownArgs struct {
	Path        string
	User, Group any
}

func fileChown(_ context.Context, _ *Call, a chownArgs) (any, error) {
	return chownPath(a.Path, a.User, a.Group, true)
}

func fileLchown(_ context.Context, _ *Call, a chownArgs) (any, error) {
	return chownPath(a.Path, a.User, a.Group, false)
}

// chownPath changes owner and group; the answer is None, or what is wrong.
func chownPath(path string, user, group any, follow bool) (any, error) {
	path = expandUser(path)
	problem := ""
	id := func(v, given any, what string) int {
		if n, ok := v.(int64); ok {
			return int(n)
		}
		if Truth(given) {
			problem += what + " does not exist\n"
		}
		return -1
	}
	uid, gid := id(userToUid(user), user, "User"), id(groupToGid(group), group, "Group")
	if !follow {
		if err := os.Lchown(path, uid, gid); err != nil {
			return nil, pyOSError(err)
		}
		return nil, nil
	}
	if !pathExists(path) {
		if os.Lchown(path, uid, gid) == nil {
			return nil, nil
		}
		problem += "File not found"
	}
	if problem != "" {
		return problem, nil
	}
	if err := os.Chown(path, uid, gid); err != nil {
		return nil, pyOSError(err)
	}
	return nil, nil
}

type chgrpArgs struct {
	Path  string
	Group any
}

func fileChgrp(_ context.Context, _ *Call, a chgrpArgs) (any, error) {
	m, err := statsOf(a.Path, "", true)
	if err != nil {
		return nil, err
	}
	return chownPath(a.Path, m.Value("user"), a.Group, true)
}

func fileLstat(_ context.Context, _ *Call, a pathArgs) (any, error) {
	path := expandUser(a.Path)
	if !filepath.IsAbs(path) {
		return nil, InvocationErrorf("Path to file must be absolute.")
	}
	var st syscall.Stat_t
	if syscall.Lstat(path, &st) != nil {
		return &Map{}, nil
	}
	return NewMap("st_atime", statTime(st.Atim), "st_ctime", statTime(st.Ctim), "st_gid", int64(st.Gid), "st_mode", int64(st.Mode),
		"st_mtime", statTime(st.Mtim), "st_nlink", int64(st.Nlink), "st_size", st.Size, "st_uid", int64(st.Uid)), nil
}

func fileStatvfs(_ context.Context, _ *Call, a pathArgs) (any, error) {
	path := expandUser(a.Path)
	if !filepath.IsAbs(path) {
		return nil, InvocationErrorf("File path must be absolute.")
	}
	var st syscall.Statfs_t
	if syscall.Statfs(path, &st) != nil {
		return nil, ExecErrorf("Could not statvfs '%s'", path)
	}
	frag := int64(st.Frsize)
	if frag == 0 {
		frag = int64(st.Bsize)
	}
	// The flag that only says that the flags are valid is the C library's secret.
	const stValid = 0x20
	return NewMap("f_bavail", int64(st.Bavail), "f_bfree", int64(st.Bfree), "f_blocks", int64(st.Blocks), "f_bsize", int64(st.Bsize),
		"f_favail", int64(st.Ffree), "f_ffree", int64(st.Ffree), "f_files", int64(st.Files), "f_flag", int64(st.Flags)&^stValid,
		"f_frsize", frag, "f_namemax", int64(st.Namelen)), nil
}

type accessArgs struct {
	Path string
	Mode any
}

func fileAccess(_ context.Context, _ *Call, a accessArgs) (any, error) {
	path := expandUser(a.Path)
	if !filepath.IsAbs(path) {
		return nil, InvocationErrorf("Path to link must be absolute.")
	}
	mode, ok := map[any]uint32{"f": 0, "r": 4, "w": 2, "x": 1, int64(0): 0, int64(4): 4, int64(2): 2, int64(1): 1}[a.Mode]
	if !ok {
		return nil, InvocationErrorf("Invalid mode specified.")
	}
	return syscall.Access(path, mode) == nil, nil
}

// hasMode makes file.is_chrdev and its like.
func hasMode(kind uint32) func(context.Context, *Call, nameArgs) (any, error) {
	return func(_ context.Context, _ *Call, a nameArgs) (any, error) {
		name := expandUser(a.Name)
		var st syscall.Stat_t
		if err := syscall.Stat(name, &st); err != nil {
			if err == syscall.ENOENT {
				return false, nil
			}
			return nil, pyOSError(&os.PathError{Op: "stat", Path: name, Err: err})
		}
		return uint32(st.Mode)&syscall.S_IFMT == kind, nil
	}
}

func fileGetDevmm(_ context.Context, _ *Call, a nameArgs) (any, error) {
	var st syscall.Stat_t
	if syscall.Stat(expandUser(a.Name), &st) == nil {
		if k := uint32(st.Mode) & syscall.S_IFMT; k == syscall.S_IFCHR || k == syscall.S_IFBLK {
			major, minor := deviceNumbers(uint64(st.Rdev))
			return NewList(major, minor), nil
		}
	}
	return NewList(int64(0), int64(0)), nil
}

// deviceNumbers splits a device number as Linux does.
func deviceNumbers(dev uint64) (major, minor int64) {
	return int64(dev>>8&0xfff | dev>>32&^uint64(0xfff)), int64(dev&0xff | dev>>12&^uint64(0xff))
}

func makeDevice(major, minor int64) uint64 {
	return uint64(major)&0xfff<<8 | uint64(major)&^uint64(0xfff)<<32 | uint64(minor)&0xff | uint64(minor)&^uint64(0xff)<<12
}

func fileIsHardlink(_ context.Context, _ *Call, a pathArgs) (any, error) {
	path := expandUser(a.Path)
	if !filepath.IsAbs(path) {
		return nil, InvocationErrorf("Path to file must be absolute.")
	}
	var st syscall.Stat_t
	if syscall.Lstat(path, &st) != nil {
		return &Map{}, nil
	}
	return st.Nlink > 1, nil
}

func fileIsLink(_ context.Context, _ *Call, a pathArgs) (any, error) {
	return isSymlink(expandUser(a.Path)), nil
}

func fileDirectoryExists(_ context.Context, _ *Call, a pathArgs) (any, error) {
	return isDir(expandUser(a.Path)), nil
}

func fileFileExists(_ context.Context, _ *Call, a pathArgs) (any, error) {
	return isFile(expandUser(a.Path)), nil
}

func filePathExistsGlob(_ context.Context, _ *Call, a pathArgs) (any, error) {
	return len(globPaths(expandUser(a.Path))) > 0, nil
}

// globPaths is glob.glob: names that begin with a dot only where the pattern
// says so.
func globPaths(pattern string) []string {
	if !strings.ContainsAny(pattern, "*?[") {
		if _, err := os.Lstat(pattern); err != nil {
			return nil
		}
		return []string{pattern}
	}
	dir, base := filepath.Split(pattern)
	var out []string
	dirs := []string{dir}
	if trimmed := strings.TrimRight(dir, "/"); trimmed != "" && strings.ContainsAny(trimmed, "*?[") {
		dirs = nil
		for _, d := range globPaths(trimmed) {
			dirs = append(dirs, d+"/")
		}
	}
	for _, d := range dirs {
		if base == "" {
			if isDir(d) {
				out = append(out, d)
			}
			continue
		}
		at := d
		if at == "" {
			at = "."
		}
		if base == "**" {
			base = "*"
		}
		entries, _ := os.ReadDir(at)
		for _, e := range entries {
			name := e.Name()
			if strings.HasPrefix(name, ".") && !strings.HasPrefix(base, ".") {
				continue
			}
			if GlobMatch(base, name) {
				out = append(out, d+name)
			}
		}
	}
	return out
}
