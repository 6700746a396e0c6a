// State module file: links, copies, moves, removals, times and device nodes.
package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// defaultOwner fills in user and group as links and copies have them: the user
// the minion runs as, and that user's group.
func defaultOwner(c *Call, user, group any) (any, any) {
	if user == nil {
		user = c.Opts.Str("user")
		if user == "" {
			user = "root"
		}
	}
	if group == nil {
		gid := int64(0)
		if u, ok := lookupPasswd(Str(user)); ok {
			gid = u
		}
		group = gidToGroup(gid)
	}
	return user, group
}

// lookupPasswd is the primary group of a user.
func lookupPasswd(user string) (gid int64, ok bool) {
	data, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return 0, false
	}
	for _, line := range strings.Split(string(data), "\n") {
		f := strings.Split(line, ":")
		if len(f) >= 4 && f[0] == user {
			n, err := strconv.ParseInt(f[3], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// preflight joins what speaks against a link.
func preflight(user, group any, more ...string) string {
	var errs []string
	if userToUid(user) == "" {
		errs = append(errs, fmt.Sprintf("User %s does not exist", Str(user)))
	}
	if groupToGid(group) == "" {
		errs = append(errs, fmt.Sprintf("Group %s does not exist", Str(group)))
	}
	for _, m := range more {
		if m != "" {
			errs = append(errs, m)
		}
	}
	msg := strings.Join(errs, ". ")
	if len(errs) > 1 {
		msg += "."
	}
	return msg
}

func notAbsolute(what, path string) string {
	if filepath.IsAbs(path) {
		return ""
	}
	return fmt.Sprintf("Specified %s %s is not an absolute path", what, path)
}

// linkOwner is the owner of the link itself.
func linkOwner(path string) (user, group any) {
	st, err := statsOf(path, "", false)
	if err != nil {
		return nil, nil
	}
	return st.Value("user"), st.Value("group")
}

func ownsLink(path string, user, group any) bool {
	u, g := linkOwner(path)
	return Equal(u, user) && Equal(g, group)
}

func setLinkOwner(path string, user, group any) bool {
	if _, err := chownPath(path, user, group, false); err != nil {
		return false
	}
	return ownsLink(path, user, group)
}

type fileSymlinkArgs struct {
	Name                  string
	Target                string
	Force                 bool `def:"False"`
	Backupname            any  `def:"None"`
	Makedirs              bool `def:"False"`
	User                  any  `def:"None"`
	Group                 any  `def:"None"`
	Mode                  any  `def:"None"`
	WinOwner              any  `def:"None"`
	WinPerms              any  `def:"None"`
	WinDenyPerms          any  `def:"None"`
	WinInheritance        any  `def:"None"`
	Atomic                bool `def:"False"`
	DisallowCopyAndUnlink bool `def:"False"`
	InheritUserAndGroup   bool `def:"False"`
	Kwargs                *Map `arg:"**kwargs"`
}

// checkSymlink says what a symlink state would do.
func checkSymlink(name, target string, force bool, user, group any) (any, string, *Map) {
	switch {
	case !lexists(name):
		return nil, fmt.Sprintf("Symlink %s to %s is set for creation", name, target), NewMap("new", name)
	case isSymlink(name):
		if have, _ := os.Readlink(name); have != target {
			return nil, fmt.Sprintf("Link %s target is set to be changed to %s", name, target), NewMap("change", name)
		}
		msg := fmt.Sprintf("The symlink %s is present", name)
		if ownsLink(name, user, group) {
			return true, msg, NewMap()
		}
		u, g := linkOwner(name)
		return nil, msg + fmt.Sprintf(", but the ownership of the symlink would be changed from %s:%s to %s:%s", Str(u), Str(g), Str(user), Str(group)),
			NewMap("ownership", Str(u)+":"+Str(g))
	case force:
		return nil, fmt.Sprintf("The file or directory %s is set for removal to make way for a new symlink targeting %s", name, target), NewMap()
	}
	return false, fmt.Sprintf("File or directory exists where the symlink %s should be. Did you mean to use force?", name), NewMap()
}

func fileStateSymlink(ctx context.Context, c *Call, a fileSymlinkArgs) (any, error) {
	name, ret, ok := startFile("symlink", a.Name, true)
	if !ok {
		return ret, nil
	}
	user, group := ownerOf(a.Kwargs, a.User), a.Group
	if a.InheritUserAndGroup && (user == nil || group == nil) && isSymlink(name) {
		u, g := linkOwner(name)
		if user == nil {
			user = u
		}
		if group == nil {
			group = g
		}
	}
	user, group = defaultOwner(c, user, group)
	if msg := preflight(user, group, notAbsolute("file", name)); msg != "" {
		return stateSay(ret, false, "%s", msg)
	}
	result, comment, changes := checkSymlink(name, a.Target, a.Force, user, group)
	dir := filepath.Dir(name)
	if !isDir(dir) {
		missing := fmt.Sprintf("Directory %s for symlink is not present", dir)
		switch {
		case a.Makedirs && c.Testing():
			comment += "\n" + dir + " will be created"
		case a.Makedirs:
			if _, err := makeParents(ctx, c, name, user, group, normalizeMode(a.Mode)); err != nil {
				return nil, err
			}
		case c.Testing():
			comment += "\n" + missing
		default:
			return stateSay(ret, false, "%s", missing)
		}
	}
	if c.Testing() {
		return stateChanged(name, result, comment, changes), nil
	}
	done := ret.Map("changes")
	if isSymlink(name) {
		have, _ := os.Readlink(name)
		if filepath.Clean(have) == filepath.Clean(a.Target) {
			owner := Str(user) + ":" + Str(group)
			switch {
			case ownsLink(name, user, group):
				ret.Set("comment", fmt.Sprintf("Symlink %s is present and owned by %s", name, owner))
			case setLinkOwner(name, user, group):
				ret.Set("comment", fmt.Sprintf("Set ownership of symlink %s to %s", name, owner))
				done.Set("ownership", owner)
			default:
				return stateSay(ret, false, "Failed to set ownership of symlink %s to %s", name, owner)
			}
			return ret, nil
		}
		if err := os.Remove(name); err != nil {
			return nil, pyOSError(err)
		}
	} else if pathExists(name) {
		if a.Backupname != nil {
			backup := Str(a.Backupname)
			if !filepath.IsAbs(backup) {
				if backup != filepath.Base(backup) {
					return stateSay(ret, false, "Backupname must be an absolute path or a file name: %s", backup)
				}
				backup = filepath.Join(filepath.Dir(filepath.Clean(name)), backup)
			}
			if lexists(backup) {
				if !a.Force {
					return stateSay(ret, false, "Symlink & backup dest exists and Force not set. %s -> %s - backup: %s", name, a.Target, backup)
				}
				if err := os.RemoveAll(backup); err != nil {
					return nil, pyOSError(err)
				}
			}
			if err := movePath(name, backup); err != nil {
				ret.Set("changes", NewMap())
				return stateSay(ret, false, "Unable to rename %s to backup %s -> : %s", name, backup, errText(err))
			}
		} else if !a.Force && !a.Atomic {
			kind := "File system entry"
			if isFile(name) {
				kind = "File"
			} else if isDir(name) {
				kind = "Directory"
			}
			return stateSay(ret, false, "%s exists where the symlink %s should be", kind, name)
		}
	}
	if a.Force && isDir(name) && !isSymlink(name) {
		if err := os.RemoveAll(name); err != nil {
			return stateSay(ret, false, "Unable to create new symlink %s -> %s: %s", name, a.Target, errText(pyOSError(err)))
		}
	}
	if _, err := c.RunKw(ctx, "file.symlink", []any{a.Target, name}, NewMap("force", a.Force, "atomic", a.Atomic)); err != nil {
		return stateSay(ret, false, "Unable to create new symlink %s -> %s: %s", name, a.Target, errText(err))
	}
	ret.Set("comment", fmt.Sprintf("Created new symlink %s -> %s", name, a.Target))
	done.Set("new", name)
	if !ownsLink(name, user, group) && !setLinkOwner(name, user, group) {
		ret.Set("result", false)
		ret.Set("comment", Str(ret.Value("comment"))+fmt.Sprintf(", but was unable to set ownership to %s:%s", Str(user), Str(group)))
	}
	return ret, nil
}

func sameInode(a, b string) bool {
	x, err1 := os.Lstat(a)
	y, err2 := os.Lstat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// isHardlink says whether a file has more than one name.
func isHardlink(p string) bool {
	info, err := os.Lstat(p)
	if err != nil || info.IsDir() {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink > 1
}

func checkHardlink(name, target string, force bool) (any, string, *Map) {
	none := NewMap()
	switch {
	case !pathExists(target):
		return false, fmt.Sprintf("Target %s for hard link does not exist", target), none
	case isDir(target):
		return false, fmt.Sprintf("Unable to hard link from directory %s", target), none
	case isDir(name):
		return false, fmt.Sprintf("Unable to hard link to directory %s", name), none
	case !pathExists(name):
		return nil, fmt.Sprintf("Hard link %s to %s is set for creation", name, target), NewMap("new", name)
	case isHardlink(name):
		if sameInode(name, target) {
			return true, fmt.Sprintf("The hard link %s is presently targetting %s", name, target), none
		}
		return nil, fmt.Sprintf("Link %s target is set to be changed to %s", name, target), NewMap("change", name)
	case force:
		return nil, fmt.Sprintf("The file or directory %s is set for removal to make way for a new hard link targeting %s", name, target), none
	}
	return false, fmt.Sprintf("File or directory exists where the hard link %s should be. Did you mean to use force?", name), none
}

func fileStateHardlink(ctx context.Context, c *Call, a struct {
	Name     string
	Target   string
	Force    bool `def:"False"`
	Makedirs bool `def:"False"`
	User     any  `def:"None"`
	Group    any  `def:"None"`
	DirMode  any  `def:"None"`
	Kwargs   *Map `arg:"**kwargs"`
}) (any, error) {
	name, ret, ok := startFile("hardlink", a.Name, true)
	if !ok {
		return ret, nil
	}
	user, group := defaultOwner(c, ownerOf(a.Kwargs, a.User), a.Group)
	if msg := preflight(user, group, notAbsolute("file", name), notAbsolute("target", a.Target)); msg != "" {
		return stateSay(ret, false, "%s", msg)
	}
	if c.Testing() {
		result, comment, changes := checkHardlink(name, a.Target, a.Force)
		return stateChanged(name, result, comment, changes), nil
	}
	for _, d := range [][2]string{{"to", name}, {"from", a.Target}} {
		if isDir(d[1]) {
			return stateSay(ret, false, "Unable to hard link %s directory %s", d[0], d[1])
		}
	}
	if !pathExists(a.Target) {
		return stateSay(ret, false, "Target %s for hard link does not exist", a.Target)
	}
	if dir := filepath.Dir(name); !isDir(dir) {
		if !a.Makedirs {
			return stateSay(ret, false, "Directory %s for hard link is not present", dir)
		}
		if _, err := makeParents(ctx, c, name, user, group, normalizeMode(a.DirMode)); err != nil {
			return nil, err
		}
	}
	changes := ret.Map("changes")
	if isFile(name) && !isHardlink(name) {
		if !a.Force {
			return stateSay(ret, false, "File exists where the hard link %s should be", name)
		}
		if err := os.Remove(name); err != nil {
			return nil, pyOSError(err)
		}
		changes.Set("forced", "File for hard link was forcibly replaced")
	}
	if isHardlink(name) {
		if sameInode(name, a.Target) {
			ret.Set("comment", fmt.Sprintf("Target of hard link %s is already pointing to %s", name, a.Target))
			return ret, nil
		}
		if err := os.Remove(name); err != nil {
			return nil, pyOSError(err)
		}
		if _, err := c.Run(ctx, "file.link", a.Target, name); err != nil {
			return stateSay(ret, false, "Unable to set target of hard link %s -> %s: %s", name, a.Target, errText(err))
		}
		ret.Set("comment", fmt.Sprintf("Set target of hard link %s -> %s", name, a.Target))
		changes.Set("new", name)
	} else if !pathExists(name) {
		if _, err := c.Run(ctx, "file.link", a.Target, name); err != nil {
			return stateSay(ret, false, "Unable to create new hard link %s -> %s: %s", name, a.Target, errText(err))
		}
		ret.Set("comment", fmt.Sprintf("Created new hard link %s -> %s", name, a.Target))
		changes.Set("new", name)
	}
	return ret, nil
}

type fileNameArgs struct {
	Name   string
	Kwargs *Map `arg:"**kwargs"`
}

func fileStateAbsent(ctx context.Context, c *Call, a fileNameArgs) (any, error) {
	name := expandUser(a.Name)
	ret := stateReturn(name, true, "")
	switch {
	case name == "":
		return stateSay(ret, false, "Must provide name to file.absent")
	case !filepath.IsAbs(name):
		return stateSay(ret, false, "Specified file %s is not an absolute path", name)
	case name == "/":
		return stateSay(ret, false, "Refusing to make \"/\" absent")
	}
	kind := ""
	switch {
	case isFile(name) || isSymlink(name):
		kind = "file"
	case isDir(name):
		kind = "directory"
	default:
		ret.Set("comment", fmt.Sprintf("File %s is not present", name))
		return ret, nil
	}
	if c.Testing() {
		return stateChanged(name, nil, fmt.Sprintf("%s%s %s is set for removal", strings.ToUpper(kind[:1]), kind[1:], name), NewMap("removed", name)), nil
	}
	if _, err := c.RunKw(ctx, "file.remove", []any{name}, NewMap("force", true)); err != nil {
		return stateSay(ret, false, "%s", errText(err))
	}
	return stateChanged(name, true, fmt.Sprintf("Removed %s %s", kind, name), NewMap("removed", name)), nil
}

func fileStateExists(_ context.Context, _ *Call, a fileNameArgs) (any, error) {
	name, ret, ok := startFile("exists", a.Name, true)
	if !ok {
		return ret, nil
	}
	if !pathExists(name) {
		return stateSay(ret, false, "Specified path %s does not exist", name)
	}
	ret.Set("comment", fmt.Sprintf("Path %s exists", name))
	return ret, nil
}

func fileStateMissing(_ context.Context, _ *Call, a fileNameArgs) (any, error) {
	name, ret, ok := startFile("missing", a.Name, true)
	if !ok {
		return ret, nil
	}
	if pathExists(name) {
		return stateSay(ret, false, "Specified path %s exists", name)
	}
	ret.Set("comment", fmt.Sprintf("Path %s is missing", name))
	return ret, nil
}

type fileTouchArgs struct {
	Name     string
	Atime    any  `def:"None"`
	Mtime    any  `def:"None"`
	Makedirs bool `def:"False"`
}

func fileStateTouch(ctx context.Context, c *Call, a fileTouchArgs) (any, error) {
	return touchState(ctx, c, a)
}

func touchState(ctx context.Context, c *Call, a fileTouchArgs) (*Map, error) {
	name := expandUser(a.Name)
	ret := NewMap("name", name, "changes", NewMap())
	fail := func(format string, args ...any) (*Map, error) {
		stateSay(ret, false, format, args...)
		return ret, nil
	}
	if name == "" {
		return fail("Must provide name to file.touch")
	}
	if !filepath.IsAbs(name) {
		return fail("Specified file %s is not an absolute path", name)
	}
	if c.Testing() {
		if !pathExists(name) {
			return stateChanged(name, nil, fmt.Sprintf("File %s is set to be created", name), NewMap("new", name)), nil
		}
		st, err := statsOf(name, "", false)
		if err != nil {
			return nil, err
		}
		if a.Atime != nil && Str(a.Atime) != Str(st.Value("atime")) || a.Mtime != nil && Str(a.Mtime) != Str(st.Value("mtime")) {
			return stateChanged(name, nil, fmt.Sprintf("Times set to be updated on file %s", name), NewMap("touched", name)), nil
		}
		return stateChanged(name, true, fmt.Sprintf("File %s exists and has the correct times", name), NewMap("new", name)), nil
	}
	if a.Makedirs {
		if _, err := makeParents(ctx, c, name, nil, nil, nil); err != nil {
			return nil, err
		}
	}
	if !isDir(filepath.Dir(name)) {
		return fail("Directory not present to touch file %s", name)
	}
	extant := pathExists(name)
	v, err := c.Run(ctx, "file.touch", name, a.Atime, a.Mtime)
	if err != nil {
		return nil, err
	}
	ret.Set("result", v)
	if Truth(v) {
		if extant {
			kind := "file"
			if isDir(name) {
				kind = "directory"
			}
			ret.Set("comment", fmt.Sprintf("Updated times on %s %s", kind, name))
			ret.Map("changes").Set("touched", name)
		} else {
			ret.Set("comment", fmt.Sprintf("Created empty file %s", name))
			ret.Map("changes").Set("new", name)
		}
	}
	return ret, nil
}

func fileStateCopy(ctx context.Context, c *Call, a struct {
	Name     string
	Source   string
	Force    bool `def:"False"`
	Makedirs bool `def:"False"`
	Preserve bool `def:"False"`
	User     any  `def:"None"`
	Group    any  `def:"None"`
	Mode     any  `def:"None"`
	DirMode  any  `def:"None"`
	Subdir   bool `def:"False"`
	Kwargs   *Map `arg:"**kwargs"`
}) (any, error) {
	name, source := expandUser(a.Name), expandUser(a.Source)
	ret := stateReturn(name, true, fmt.Sprintf("Copied \"%s\" to \"%s\"", source, name))
	switch {
	case name == "":
		return stateSay(ret, false, "Must provide name to file.copy")
	case !filepath.IsAbs(name):
		return stateSay(ret, false, "Specified file %s is not an absolute path", name)
	case !pathExists(source):
		return stateSay(ret, false, "Source file \"%s\" is not present", source)
	}
	st, err := statsOf(source, "", true)
	if err != nil {
		return nil, err
	}
	user, group, mode := a.User, a.Group, a.Mode
	if a.Preserve {
		user, group, mode = st.Value("user"), st.Value("group"), st.Value("mode")
	} else {
		user, group = defaultOwner(c, ownerOf(a.Kwargs, user), group)
		if msg := checkOwner(c, user, group); msg != "" {
			return stateSay(ret, false, "%s", msg)
		}
		if mode == nil {
			mode = st.Value("mode")
		}
	}
	if isDir(name) && a.Subdir {
		name = filepath.Join(name, filepath.Base(source))
	}
	changed := true
	if lexists(source) && lexists(name) {
		if a.Force && isFile(name) {
			h1, err1 := hashOfFile(name, "sha256")
			h2, err2 := hashOfFile(source, "sha256")
			if err1 == nil && err2 == nil && h1 == h2 {
				ret.Set("comment", Str(ret.Value("comment"))+" - files are identical but force flag is set")
			}
		}
		if !a.Force {
			changed = false
		} else if !c.Testing() {
			if err := os.RemoveAll(name); err != nil {
				return stateSay(ret, false, "Failed to delete \"%s\" in preparation for forced move", name)
			}
		}
	}
	switch {
	case !changed:
		ret.Set("comment", fmt.Sprintf("The target file \"%s\" exists and will not be overwritten", name))
		return ret, nil
	case c.Testing():
		return stateSay(ret, nil, "File \"%s\" is set to be copied to \"%s\"", source, name)
	}
	if dir := filepath.Dir(name); !isDir(dir) {
		if !a.Makedirs {
			return stateSay(ret, false, "The target directory %s is not present", dir)
		}
		dirMode := a.DirMode
		if dirMode == nil && mode != nil {
			dirMode = searchableMode(Str(mode))
		}
		if _, err := makeParents(ctx, c, name, user, group, dirMode); err != nil {
			return nil, err
		}
	}
	if isDir(source) {
		err = copyTree(source, name, false)
		if err == nil {
			err = filepath.WalkDir(name, func(p string, _ fs.DirEntry, err error) error {
				if err == nil && p != name {
					_, err = chownPath(p, user, group, false)
				}
				return err
			})
		}
	} else {
		target := name
		if isDir(name) {
			target = filepath.Join(name, filepath.Base(source))
		}
		if err = copyKeeping(source, target); err == nil && !a.Preserve {
			err = os.Chtimes(target, time.Now(), time.Now())
		}
	}
	if err != nil {
		return stateSay(ret, false, "Failed to copy \"%s\" to \"%s\"", source, name)
	}
	ret.Set("changes", NewMap(name, source))
	if !a.Preserve {
		if _, _, err := checkPerms(ctx, c, permsCheck{name: name, ret: ret, user: user, group: group, mode: mode}); err != nil {
			return nil, err
		}
	}
	return ret, nil
}

// searchableMode is a file's mode with search permission where it can be read.
func searchableMode(mode string) any {
	if len(mode) > 3 {
		mode = mode[len(mode)-3:]
	}
	out := []byte(mode)
	for i, d := range out {
		if d != '0' {
			out[i] = '0' + (d - '0') | 1
		}
	}
	return string(out)
}

func fileStateRename(ctx context.Context, c *Call, a struct {
	Name     string
	Source   string
	Force    bool `def:"False"`
	Makedirs bool `def:"False"`
	Kwargs   *Map `arg:"**kwargs"`
}) (any, error) {
	name, source := os.ExpandEnv(expandUser(a.Name)), os.ExpandEnv(expandUser(a.Source))
	ret := stateReturn(name, true, "")
	switch {
	case name == "":
		return stateSay(ret, false, "Must provide name to file.rename")
	case !filepath.IsAbs(name):
		return stateSay(ret, false, "Specified file %s is not an absolute path", name)
	case !lexists(source):
		ret.Set("comment", fmt.Sprintf("Source file \"%s\" has already been moved out of place", source))
		return ret, nil
	}
	if lexists(name) {
		if !a.Force {
			ret.Set("comment", fmt.Sprintf("The target file \"%s\" exists and will not be overwritten", name))
			return ret, nil
		}
		if !c.Testing() {
			if err := os.RemoveAll(name); err != nil {
				return stateSay(ret, false, "Failed to delete \"%s\" in preparation for forced move", name)
			}
		}
	}
	if c.Testing() {
		return stateSay(ret, nil, "File \"%s\" is set to be moved to \"%s\"", source, name)
	}
	if dir := filepath.Dir(name); !isDir(dir) {
		if !a.Makedirs {
			return stateSay(ret, false, "The target directory %s is not present", dir)
		}
		if _, err := makeParents(ctx, c, name, nil, nil, nil); err != nil {
			return nil, err
		}
	}
	if err := movePath(source, name); err != nil {
		return stateSay(ret, false, "Failed to move \"%s\" to \"%s\"", source, name)
	}
	return stateChanged(name, true, fmt.Sprintf("Moved \"%s\" to \"%s\"", source, name), NewMap(name, source)), nil
}

func fileStateMknod(ctx context.Context, c *Call, a struct {
	Name  string
	Ntype string
	Major int64 `def:"0"`
	Minor int64 `def:"0"`
	User  any   `def:"None"`
	Group any   `def:"None"`
	Mode  any   `def:"'0600'"`
}) (any, error) {
	name, ret, ok := startFile("mknod", a.Name, false)
	if !ok {
		return ret, nil
	}
	var title, word string
	var want fs.FileMode
	switch a.Ntype {
	case "c":
		title, word, want = "Character device", "character device", fs.ModeDevice|fs.ModeCharDevice
	case "b":
		title, word, want = "Block device", "block device", fs.ModeDevice
	case "p":
		title, word, want = "Fifo pipe", "fifo pipe", fs.ModeNamedPipe
	default:
		return stateSay(ret, false, "Node type unavailable: '%s'. Available node types are character ('c'), block ('b'), and pipe ('p')", a.Ntype)
	}
	if isFile(name) {
		return stateSay(ret, false, "File %s exists and is not a %s. Refusing to continue", name, word)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode()&(fs.ModeDevice|fs.ModeCharDevice|fs.ModeNamedPipe) != want {
		if c.Testing() {
			return stateSay(ret, nil, "%s %s is set to be created", title, name)
		}
		return c.Run(ctx, "file.mknod", name, a.Ntype, a.Major, a.Minor, a.User, a.Group, a.Mode)
	}
	if a.Ntype != "p" {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			if maj, min := deviceNumbers(uint64(st.Rdev)); maj != a.Major || min != a.Minor {
				return stateSay(ret, false, "%s %s exists and has a different major/minor %d/%d. Refusing to continue", title, name, maj, min)
			}
		}
	}
	got, _, err := checkPerms(ctx, c, permsCheck{name: name, user: a.User, group: a.Group, mode: a.Mode})
	if err != nil {
		return nil, err
	}
	if !Truth(got.Value("changes")) {
		got.Set("comment", fmt.Sprintf("%s %s is in the correct state", title, name))
	}
	return got, nil
}
