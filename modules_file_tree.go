// Module file: making, linking, copying, moving and removing files and
// directories, device nodes and backups.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type touchArgs struct {
	Name  string
	Atime any `def:"None"`
	Mtime any `def:"None"`
}

func fileTouch(_ context.Context, _ *Call, a touchArgs) (any, error) {
	name := expandUser(a.Name)
	when := func(v any) (time.Time, bool) {
		if !Truth(v) {
			if n, ok := v.(int64); ok {
				return time.Unix(n, 0), true
			}
			return time.Now(), true
		}
		if _, isText := v.(string); isText {
			if strings.Trim(Str(v), "0123456789") != "" {
				return time.Time{}, false
			}
		}
		f, ok := toFloat(v)
		return time.Unix(0, int64(f*1e9)), ok
	}
	if !pathExists(name) {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
		if err != nil {
			return nil, ExecErrorf("%s", strerrorOf(err))
		}
		f.Close()
	}
	atime, ok1 := when(a.Atime)
	mtime, ok2 := when(a.Mtime)
	if !ok1 || !ok2 {
		return nil, InvocationErrorf("atime and mtime must be integers")
	}
	if err := os.Chtimes(name, atime, mtime); err != nil {
		return nil, ExecErrorf("%s", strerrorOf(err))
	}
	return pathExists(name), nil
}

type linkArgs struct{ Src, Path string }

func fileLink(_ context.Context, _ *Call, a linkArgs) (any, error) {
	src := expandUser(a.Src)
	if !filepath.IsAbs(src) {
		return nil, InvocationErrorf("File path must be absolute.")
	}
	if err := os.Link(src, a.Path); err != nil {
		return nil, ExecErrorf("Could not create '%s': %s", a.Path, osErrorText(err))
	}
	return true, nil
}

type symlinkArgs struct {
	Src, Path string
	Force     bool `def:"False"`
	Atomic    bool `def:"False"`
}

func fileSymlink(_ context.Context, _ *Call, a symlinkArgs) (any, error) {
	path := expandUser(a.Path)
	if !filepath.IsAbs(path) {
		return nil, InvocationErrorf("Link path must be absolute: %s", path)
	}
	if target, err := os.Readlink(path); err == nil {
		if filepath.Clean(target) == filepath.Clean(a.Src) {
			return true, nil
		}
		if !a.Force && !a.Atomic {
			return nil, ExecErrorf("Found existing symlink: %s", path)
		}
	}
	if pathExists(path) && !a.Force && !a.Atomic {
		return nil, ExecErrorf("Existing path is not a symlink: %s", path)
	}
	there := isSymlink(path) || pathExists(path)
	if a.Atomic && !(there && a.Force) {
		temp := filepath.Join(filepath.Dir(path), ".tmp"+randomHex(6))
		if err := os.Symlink(a.Src, temp); err != nil {
			return nil, ExecErrorf("Could not create '%s'", path)
		}
		if err := os.Rename(temp, path); err != nil {
			os.Remove(temp)
			return nil, ExecErrorf("Could not create '%s'", path)
		}
		return true, nil
	}
	if there && a.Force {
		if a.Atomic {
			temp := filepath.Join(filepath.Dir(path), ".tmp"+randomHex(6))
			if os.Symlink(a.Src, temp) == nil && os.Rename(temp, path) == nil {
				return true, nil
			}
			os.Remove(temp)
			return nil, ExecErrorf("Could not create '%s'", path)
		}
		if err := syscall.Unlink(path); err != nil {
			return nil, pyOSError(&os.PathError{Op: "unlink", Path: path, Err: err})
		}
	}
	if err := os.Symlink(a.Src, path); err != nil {
		return nil, ExecErrorf("Could not create '%s'", path)
	}
	return true, nil
}

type readlinkArgs struct {
	Path         string
	Canonicalize bool `def:"False"`
}

func fileReadlink(_ context.Context, c *Call, a readlinkArgs) (any, error) {
	env := jobEnviron(c)
	path := os.Expand(expandUser(a.Path), func(k string) string {
		if v, ok := env.Get(k); ok {
			return Str(v)
		}
		return "$" + k
	})
	if !filepath.IsAbs(path) {
		return nil, InvocationErrorf("Path to link must be absolute: %s", path)
	}
	if !isSymlink(path) {
		return nil, InvocationErrorf("A valid link was not specified: %s", path)
	}
	if a.Canonicalize {
		return realPath(path), nil
	}
	target, err := os.Readlink(path)
	if err != nil {
		return nil, ExecErrorf("%s", osErrorText(err))
	}
	return target, nil
}

func fileReaddir(_ context.Context, _ *Call, a pathArgs) (any, error) {
	path := expandUser(a.Path)
	if !filepath.IsAbs(path) {
		return nil, InvocationErrorf("Dir path must be absolute.")
	}
	if !isDir(path) {
		return nil, InvocationErrorf("A valid directory was not specified: %s", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, pyOSError(err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1) // in the order of the directory
	if err != nil {
		return nil, pyOSError(err)
	}
	return append([]string{".", ".."}, names...), nil
}

type renameArgs struct{ Src, Dst string }

func fileRename(_ context.Context, _ *Call, a renameArgs) (any, error) {
	src, dst := expandUser(a.Src), expandUser(a.Dst)
	if !filepath.IsAbs(src) {
		return nil, InvocationErrorf("File path must be absolute.")
	}
	if err := os.Rename(src, dst); err != nil {
		return nil, ExecErrorf("Could not rename '%s' to '%s'", src, dst)
	}
	return true, nil
}

type moveArgs struct {
	Src, Dst              string
	DisallowCopyAndUnlink bool `def:"False"`
}

func fileMove(ctx context.Context, c *Call, a moveArgs) (any, error) {
	if a.DisallowCopyAndUnlink {
		return fileRename(ctx, c, renameArgs{a.Src, a.Dst})
	}
	src, dst := expandUser(a.Src), expandUser(a.Dst)
	if !filepath.IsAbs(src) {
		return nil, InvocationErrorf("Source path must be absolute.")
	}
	if !filepath.IsAbs(dst) {
		return nil, InvocationErrorf("Destination path must be absolute.")
	}
	if _, err := os.Lstat(src); err != nil {
		return nil, ExecErrorf("Unable to move '%s' to '%s': %s", src, dst, osErrorText(err))
	}
	if err := movePath(src, dst); err != nil {
		return nil, ExecErrorf("Unable to move '%s' to '%s': %s", src, dst, osErrorText(err))
	}
	return NewMap("result", true, "comment", fmt.Sprintf("'%s' moved to '%s'", src, dst)), nil
}

// movePath is shutil.move: a rename, or across file systems a copy.
func movePath(src, dst string) error {
	if isDir(dst) && !isSymlink(dst) {
		dst = filepath.Join(dst, filepath.Base(src))
		if _, err := os.Lstat(dst); err == nil {
			return fmt.Errorf("Destination path '%s' already exists", dst)
		}
	}
	err := os.Rename(src, dst)
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	if err := copyTree(src, dst, false); err != nil {
		return err
	}
	return os.RemoveAll(src)
}

// copyTree copies a file, link or directory with everything below it; with
// follow what links lead to in their place.
func copyTree(src, dst string, follow bool) error {
	st, err := os.Lstat(src)
	if err == nil && follow {
		st, err = os.Stat(src)
	}
	if err != nil {
		return err
	}
	switch {
	case st.Mode()&os.ModeSymlink != 0:
		target, err := os.Readlink(src)
		if err != nil {
			return err
		}
		return os.Symlink(target, dst)
	case st.IsDir():
		if err := os.MkdirAll(dst, 0o777); err != nil {
			return err
		}
		entries, err := os.ReadDir(src)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := copyTree(filepath.Join(src, e.Name()), filepath.Join(dst, e.Name()), follow); err != nil {
				return err
			}
		}
		return os.Chmod(dst, st.Mode())
	}
	return copyKeeping(src, dst)
}

// copyFilesBelow copies files one by one into what is there already.
func copyFilesBelow(src, dst string) error {
	return filepath.WalkDir(src, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dst, rel)
		if e.IsDir() {
			return os.MkdirAll(to, 0o777)
		}
		return copyContents(path, to)
	})
}

type copyArgs struct {
	Src, Dst       string
	Recurse        bool `def:"False"`
	RemoveExisting bool `def:"False"`
}

func fileCopy(ctx context.Context, c *Call, a copyArgs) (any, error) {
	src, dst := expandUser(a.Src), expandUser(a.Dst)
	if !filepath.IsAbs(src) {
		return nil, InvocationErrorf("File path must be absolute.")
	}
	if !pathExists(src) {
		return nil, ExecErrorf("No such file or directory '%s'", src)
	}
	was, err := statsOf(src, "", true)
	if err != nil {
		return nil, err
	}
	switch {
	case isDir(dst) || isDir(src):
		if !a.Recurse {
			return nil, InvocationErrorf("Cannot copy overwriting a directory without recurse flag set to true!")
		}
		if a.RemoveExisting {
			if err = os.RemoveAll(dst); err == nil {
				err = copyTree(src, dst, true)
			}
		} else {
			err = copyFilesBelow(src, dst)
		}
	default:
		err = copyContents(src, dst)
	}
	if err != nil {
		return nil, ExecErrorf("Could not copy '%s' to '%s'", src, dst)
	}
	if _, _, err := checkPerms(ctx, c, permsCheck{name: dst, user: was.Value("user"), group: was.Value("group"), mode: was.Value("mode")}); err != nil {
		return nil, err
	}
	return true, nil
}

type removeArgs struct {
	Path   string
	Kwargs *Map `arg:"**kwargs"`
}

func fileRemove(_ context.Context, _ *Call, a removeArgs) (any, error) {
	path := expandUser(a.Path)
	if !filepath.IsAbs(path) {
		return nil, InvocationErrorf("File path must be absolute: %s", path)
	}
	st, err := os.Lstat(path)
	if err != nil {
		return false, nil
	}
	if st.IsDir() {
		err = os.RemoveAll(path)
	} else {
		err = os.Remove(path)
	}
	if err != nil {
		return nil, ExecErrorf("Could not remove '%s': %s", path, osErrorText(err))
	}
	return true, nil
}

type rmdirArgs struct {
	Path      string
	Recurse   bool `def:"False"`
	Verbose   bool `def:"False"`
	OlderThan any  `def:"None"`
}

func fileRmdir(_ context.Context, c *Call, a rmdirArgs) (any, error) {
	path := expandUser(a.Path)
	if !filepath.IsAbs(path) {
		return nil, InvocationErrorf("File path must be absolute.")
	}
	if !isDir(path) {
		return nil, InvocationErrorf("A valid directory was not specified: %s", path)
	}
	var before time.Time
	if Truth(a.OlderThan) {
		if days, ok := toInt(a.OlderThan); ok {
			before = time.Now().AddDate(0, 0, -int(days))
		} else {
			c.Log.Error("Unable to set 'older_than'. Defaulting to 0 days.")
		}
	}
	deleted, problems := &List{}, &List{}
	remove := func(dir string) bool {
		st, err := os.Lstat(dir)
		if err == nil && !before.IsZero() && !st.ModTime().Before(before) {
			return true
		}
		if err = syscall.Rmdir(dir); err != nil {
			text := osErrorText(&os.PathError{Op: "rmdir", Path: dir, Err: err})
			problems.Append(NewList(dir, text))
			c.Log.Error(fmt.Sprintf("Could not remove '%s': %s", dir, text))
			return false
		}
		deleted.Append(dir)
		return true
	}
	if a.Recurse {
		var dirs []string
		_ = filepath.WalkDir(path, func(p string, e os.DirEntry, err error) error {
			if err == nil && e.IsDir() && p != path {
				dirs = append(dirs, p)
			}
			return nil
		})
		for i := len(dirs) - 1; i >= 0; i-- {
			remove(dirs[i])
		}
	}
	st, err := os.Stat(path)
	old := err == nil && (before.IsZero() || st.ModTime().Before(before))
	result := a.Recurse && problems.Len() == 0
	if old {
		ok := remove(path)
		result = ok && (result || !a.Recurse)
	}
	if a.Verbose {
		return NewMap("deleted", deleted, "errors", problems, "result", result), nil
	}
	return result, nil
}

type mkdirArgs struct {
	DirPath     string
	User, Group any `def:"None"`
	Mode        any `def:"None"`
}

func fileMkdir(ctx context.Context, c *Call, a mkdirArgs) (any, error) {
	return true, mkdirIfMissing(ctx, c, a.DirPath, a.User, a.Group, a.Mode)
}

func mkdirIfMissing(ctx context.Context, c *Call, path string, user, group, mode any) error {
	path = filepath.Clean(expandUser(path))
	if isDir(path) {
		return nil
	}
	return makedirsPerms(ctx, c, path, user, group, mode)
}

type makedirsArgs struct {
	Path        string
	User, Group any `def:"None"`
	Mode        any `def:"None"`
}

func fileMakedirs(ctx context.Context, c *Call, a makedirsArgs) (any, error) {
	return makeParents(ctx, c, a.Path, a.User, a.Group, a.Mode)
}

// makeParents makes the directories above a path; the answer is None, or why
// there was nothing to make.
func makeParents(ctx context.Context, c *Call, path string, user, group, mode any) (any, error) {
	path = expandUser(path)
	if Truth(mode) {
		mode = normalizeMode(mode)
	}
	dir := filepath.Dir(path)
	if strings.HasSuffix(path, "/") {
		dir = filepath.Clean(path)
	}
	if isDir(dir) {
		return fmt.Sprintf("Directory '%s' already exists", dir), nil
	}
	if pathExists(dir) {
		return fmt.Sprintf("The path '%s' already exists and is not a directory", dir), nil
	}
	if !filepath.IsAbs(dir) {
		return nil, InvocationErrorf("Recursive creation for path '%s' would result in an infinite loop. Please use an absolute path.", "")
	}
	var missing []string
	for ; !isDir(dir); dir = filepath.Dir(dir) {
		missing = append(missing, dir)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := mkdirIfMissing(ctx, c, missing[i], user, group, mode); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

type makedirsPermsArgs struct {
	Name        string
	User, Group any `def:"None"`
	Mode        any `def:"'0755'"`
}

func fileMakedirsPerms(ctx context.Context, c *Call, a makedirsPermsArgs) (any, error) {
	return nil, makedirsPerms(ctx, c, expandUser(a.Name), a.User, a.Group, a.Mode)
}

func makedirsPerms(ctx context.Context, c *Call, name string, user, group, mode any) error {
	if dir := filepath.Dir(filepath.Clean(name)); dir != name && !pathExists(dir) {
		if err := makedirsPerms(ctx, c, dir, user, group, mode); err != nil {
			return err
		}
	}
	if err := os.Mkdir(name, 0o777); err != nil {
		return pyOSError(err)
	}
	if !Truth(mode) {
		mode = nil
	}
	_, _, err := checkPerms(ctx, c, permsCheck{name: name, user: user, group: group, mode: mode})
	return err
}

type mknodArgs struct {
	Name        string
	Ntype       string
	Major       int64 `def:"0"`
	Minor       int64 `def:"0"`
	User, Group any   `def:"None"`
	Mode        any   `def:"'0600'"`
}

func fileMknod(ctx context.Context, c *Call, a mknodArgs) (any, error) {
	if _, err := makeParents(ctx, c, a.Name, a.User, a.Group, nil); err != nil {
		return nil, err
	}
	switch a.Ntype {
	case "c":
		return makeNode(ctx, c, syscall.S_IFCHR, a.Name, a.Major, a.Minor, a.User, a.Group, a.Mode)
	case "b":
		return makeNode(ctx, c, syscall.S_IFBLK, a.Name, a.Major, a.Minor, a.User, a.Group, a.Mode)
	case "p":
		return makeNode(ctx, c, syscall.S_IFIFO, a.Name, 0, 0, a.User, a.Group, a.Mode)
	}
	return nil, InvocationErrorf("Node type unavailable: '%s'. Available node types are character ('c'), block ('b'), and pipe ('p').", a.Ntype)
}

type mknodDeviceArgs struct {
	Name         string
	Major, Minor int64
	User, Group  any `def:"None"`
	Mode         any `def:"'0660'"`
}

func fileMknodChrdev(ctx context.Context, c *Call, a mknodDeviceArgs) (any, error) {
	return makeNode(ctx, c, syscall.S_IFCHR, a.Name, a.Major, a.Minor, a.User, a.Group, a.Mode)
}

func fileMknodBlkdev(ctx context.Context, c *Call, a mknodDeviceArgs) (any, error) {
	return makeNode(ctx, c, syscall.S_IFBLK, a.Name, a.Major, a.Minor, a.User, a.Group, a.Mode)
}

type mknodFifoArgs struct {
	Name        string
	User, Group any `def:"None"`
	Mode        any `def:"'0660'"`
}

func fileMknodFifo(ctx context.Context, c *Call, a mknodFifoArgs) (any, error) {
	return makeNode(ctx, c, syscall.S_IFIFO, a.Name, 0, 0, a.User, a.Group, a.Mode)
}

func makeNode(ctx context.Context, c *Call, kind uint32, name string, major, minor int64, user, group, mode any) (any, error) {
	name = expandUser(name)
	what := map[uint32]string{syscall.S_IFCHR: "Character device", syscall.S_IFBLK: "Block device", syscall.S_IFIFO: "Fifo pipe"}[kind]
	changes := NewMap("new", fmt.Sprintf("%s %s created.", what, name))
	ret := NewMap("name", name, "changes", &Map{}, "comment", "", "result", false)
	bits, err := strconv.ParseUint(strings.TrimLeft(Str(mode), "0Oo"), 8, 32)
	if err != nil {
		return nil, OtherErrorf("ValueError", "invalid literal for int() with base 8: %s", Repr(strings.TrimLeft(Str(mode), "0Oo")))
	}
	if c.Opts.Bool("test") {
		ret.Set("changes", changes)
		ret.Set("result", nil)
	} else if err := syscall.Mknod(name, kind|uint32(bits), int(makeDevice(major, minor))); err == nil {
		ret.Set("changes", changes)
		ret.Set("result", true)
	} else if err == syscall.EEXIST {
		ret.Set("comment", fmt.Sprintf("File %s exists and cannot be overwritten", name))
	} else {
		return nil, pyOSError(&os.PathError{Op: "mknod", Path: name, Err: err})
	}
	if !Truth(mode) {
		mode = nil
	}
	if _, _, err := checkPerms(ctx, c, permsCheck{name: name, user: user, group: group, mode: mode}); err != nil {
		return nil, err
	}
	return ret, nil
}

// backupRoot is where old versions of managed files are kept.
func backupRoot(c *Call) string { return filepath.Join(c.Opts.Path("cachedir"), "file_backup") }

// backupTime is the time in the name of a backup, name_Mon_Nov_30_14:22:04_123456_2026.
const backupTime = "Mon_Jan_02_15:04:05.000000_2006"

// backupFile keeps a copy of a file under the backup root.
func backupFile(c *Call, path string) error {
	st, err := fileStat(path, true)
	if err != nil {
		return err
	}
	dir := filepath.Join(backupRoot(c), filepath.Dir(path)[1:])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	stamp := strings.Replace(time.Now().Format(backupTime), ".", "_", 1)
	to := filepath.Join(dir, filepath.Base(path)+"_"+stamp)
	if err := copyContents(path, to); err != nil {
		return err
	}
	if err := os.Chown(to, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	return os.Chmod(to, os.FileMode(st.Mode&0o777))
}

// backupEntry is one kept version.
type backupEntry struct {
	when     time.Time
	location string
	size     int64
}

func (b backupEntry) asMap() *Map {
	return NewMap("Backup Time", b.when.Format("Mon Jan 02 2006 15:04:05.000000"), "Size", b.size, "Location", b.location)
}

// backupsIn lists the backups of a name in a directory, newest first.
func backupsIn(dir, name string) []backupEntry {
	var out []backupEntry
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		stamp, ok := strings.CutPrefix(e.Name(), name+"_")
		if !ok || !e.Type().IsRegular() {
			continue
		}
		// The third underscore from the end stands for the decimal point.
		if i := strings.LastIndexByte(stamp, '_'); i > 0 {
			if j := strings.LastIndexByte(stamp[:i], '_'); j > 0 {
				stamp = stamp[:j] + "." + stamp[j+1:]
			}
		}
		when, err := time.Parse(backupTime, stamp)
		if err != nil {
			continue
		}
		b := backupEntry{when: when, location: filepath.Join(dir, e.Name())}
		if st, err := e.Info(); err == nil {
			b.size = st.Size()
		}
		out = append(out, b)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].when.After(out[j].when) })
	return out
}

type backupsArgs struct {
	Path  string
	Limit any `def:"None"`
}

func limited(c *Call, all []backupEntry, limit any) []backupEntry {
	if limit == nil {
		return all
	}
	n, ok := toInt(limit)
	if !ok {
		c.Log.Error("file.list_backups: 'limit' value must be numeric")
		return all
	}
	if n < 0 {
		n = max(0, int64(len(all))+n)
	}
	return all[:min(int(n), len(all))]
}

func fileListBackups(_ context.Context, c *Call, a backupsArgs) (any, error) {
	return numbered(limited(c, fileBackups(c, a.Path), a.Limit)), nil
}

func fileBackups(c *Call, path string) []backupEntry {
	path = expandUser(path)
	dir := filepath.Dir(path)
	return backupsIn(filepath.Join(backupRoot(c), strings.TrimPrefix(dir, "/")), filepath.Base(path))
}

func numbered(all []backupEntry) *Map {
	out := &Map{}
	for i, b := range all {
		out.Set(int64(i), b.asMap())
	}
	return out
}

func fileListBackupsDir(_ context.Context, c *Call, a backupsArgs) (any, error) {
	dir := filepath.Join(backupRoot(c), strings.TrimPrefix(filepath.Dir(expandUser(a.Path)), "/"))
	if strings.HasSuffix(a.Path, "/") {
		dir = filepath.Join(backupRoot(c), strings.TrimPrefix(filepath.Clean(a.Path), "/"))
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return &Map{}, nil
	}
	out := &Map{}
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), "_")
		if !out.Has(name) {
			out.Set(name, numbered(limited(c, backupsIn(dir, name), a.Limit)))
		}
	}
	return out, nil
}

type backupIDArgs struct {
	Path     string
	BackupID any
}

// oneBackup finds a backup by its number; ret says what is wrong with it.
func oneBackup(c *Call, a backupIDArgs) (b backupEntry, ret *Map) {
	n, err := strconv.Atoi(Str(a.BackupID))
	if err != nil || strconv.Itoa(n) != Str(a.BackupID) {
		return b, NewMap("result", false, "comment", fmt.Sprintf("Invalid backup_id '%s'", Str(a.BackupID)))
	}
	all := fileBackups(c, a.Path)
	if n < 0 || n >= len(all) {
		return b, NewMap("result", false, "comment", fmt.Sprintf("backup_id '%s' does not exist for %s", Str(a.BackupID), expandUser(a.Path)))
	}
	return all[n], nil
}

func fileRestoreBackup(_ context.Context, c *Call, a backupIDArgs) (any, error) {
	b, bad := oneBackup(c, a)
	if bad != nil {
		return bad, nil
	}
	path := expandUser(a.Path)
	if pathExists(path) {
		if err := backupFile(c, path); err != nil {
			return nil, pyOSError(err)
		}
	}
	if err := copyContents(b.location, path); err != nil {
		return NewMap("result", false, "comment", fmt.Sprintf("Unable to restore %s to %s: %s", b.location, path, osErrorText(err))), nil
	}
	return NewMap("result", true, "comment", fmt.Sprintf("Successfully restored %s to %s", b.location, path)), nil
}

func fileDeleteBackup(_ context.Context, c *Call, a backupIDArgs) (any, error) {
	b, bad := oneBackup(c, a)
	if bad != nil {
		return bad, nil
	}
	if err := os.Remove(b.location); err != nil {
		return NewMap("result", false, "comment", fmt.Sprintf("Unable to remove %s: %s", b.location, osErrorText(err))), nil
	}
	return NewMap("result", true, "comment", "Successfully removed "+b.location), nil
}

func fileDiskusage(_ context.Context, _ *Call, a pathArgs) (any, error) {
	if st, err := os.Stat(a.Path); err == nil && st.Mode().IsRegular() {
		return st.Size(), nil
	}
	total, seen := int64(0), map[uint64]bool{}
	_ = filepath.WalkDir(a.Path, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil
		}
		var st syscall.Stat_t
		if syscall.Stat(p, &st) != nil || uint32(st.Mode)&syscall.S_IFMT == syscall.S_IFDIR || seen[uint64(st.Ino)] {
			return nil
		}
		seen[uint64(st.Ino)] = true
		total += st.Size
		return nil
	})
	return total, nil
}
