// Module file: check_perms, which sees to owner, group, mode, attributes and
// SELinux context, and the tools for the last two.
package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
)

// permsCheck is what checkPerms is to see to. ret is the state's return that
// changes and comments go to; nil makes one.
type permsCheck struct {
	name                            string
	ret                             *Map
	user, group, mode, attrs        any
	follow                          bool
	seuser, serole, setype, serange any
}

type checkPermsArgs struct {
	Name                            string
	Ret                             any
	User, Group, Mode               any
	Attrs                           any  `def:"None"`
	FollowSymlinks                  bool `def:"False"`
	Seuser, Serole, Setype, Serange any  `def:"None"`
}

func fileCheckPerms(ctx context.Context, c *Call, a checkPermsArgs) (any, error) {
	ret, _ := a.Ret.(*Map)
	ret, perms, err := checkPerms(ctx, c, permsCheck{name: a.Name, ret: ret, user: a.User, group: a.Group, mode: a.Mode, attrs: a.Attrs,
		follow: a.FollowSymlinks, seuser: a.Seuser, serole: a.Serole, setype: a.Setype, serange: a.Serange})
	if err != nil {
		return nil, err
	}
	return NewList(ret, perms), nil
}

// isOwner says whether a wanted owner is the one that a file has.
func isOwner(want any, st *Map, name, id string) bool {
	return Equal(want, st.Value(name)) || Equal(want, st.Value(id))
}

// checkPerms brings a file to the wanted owner, group and mode, or with
// test=True says what it would do. perms has what was, and what was changed.
func checkPerms(ctx context.Context, c *Call, p permsCheck) (ret, perms *Map, err error) {
	name := expandUser(p.name)
	mode := normalizeMode(p.mode)
	test := c.Opts.Bool("test")
	ret = p.ret
	comments := &List{}
	before := any("")
	if ret.Len() == 0 {
		ret = NewMap("name", name, "changes", &Map{}, "comment", "", "result", true)
	} else {
		before = ret.Value("comment")
	}
	changes := ret.Map("changes")
	if changes == nil {
		changes = &Map{}
		ret.Set("changes", changes)
	}
	was, err := ownershipOf(name, p.follow)
	if err != nil {
		return nil, nil, err
	}
	perms = NewMap("luser", was.Value("user"), "lgroup", was.Value("group"), "lmode", was.Value("mode"))
	if _, ok := p.user.(int64); ok {
		perms.Set("luser", was.Value("uid"))
	}
	if _, ok := p.group.(int64); ok {
		perms.Set("lgroup", was.Value("gid"))
	}
	ownLink := isSymlink(name) && !p.follow
	if Truth(p.user) && !isOwner(p.user, was, "user", "uid") {
		perms.Set("cuser", p.user)
	}
	if Truth(p.group) && !isOwner(p.group, was, "group", "gid") {
		perms.Set("cgroup", p.group)
	}
	if (perms.Has("cuser") || perms.Has("cgroup")) && !test {
		user, group := p.user, p.group
		if user == nil {
			user = was.Value("user")
		}
		if group == nil {
			group = was.Value("group")
		}
		problem, err := chownPath(name, user, group, !ownLink)
		switch {
		case err != nil:
			ret.Set("result", false)
		case Truth(problem):
			ret.Set("result", false)
			comments.Append(problem)
		case !isSymlink(name): // chown drops the set-user-id bits
			if _, err := setMode(name, was.Value("mode")); err != nil {
				return nil, nil, err
			}
		}
	}
	if mode != nil && !test && !ownLink && !Equal(mode, was.Value("mode")) {
		perms.Set("cmode", mode)
		if _, err := setMode(name, mode); err != nil {
			return nil, nil, err
		}
	}
	now := was
	if perms.Has("cuser") || perms.Has("cgroup") || perms.Has("cmode") {
		if now, err = ownershipOf(name, p.follow); err != nil {
			return nil, nil, err
		}
	}
	verify := func(right bool, changed, key, what string, want any) {
		switch {
		case !right && test:
			changes.Set(key, want)
		case !right:
			ret.Set("result", false)
			comments.Append("Failed to change " + what + " to " + Str(want))
		case perms.Has(changed):
			changes.Set(key, want)
		}
	}
	if Truth(p.user) {
		verify(isOwner(p.user, now, "user", "uid"), "cuser", "user", "user", p.user)
	}
	if Truth(p.group) {
		verify(isOwner(p.group, now, "group", "gid"), "cgroup", "group", "group", p.group)
	}
	if mode != nil && !ownLink {
		verify(Equal(mode, now.Value("mode")), "cmode", "mode", "mode", mode)
	}
	if p.attrs != nil && !isDir(name) && !ownLink {
		if err := checkAttrs(ctx, c, name, Str(p.attrs), test, ret, changes, comments); err != nil {
			return nil, nil, err
		}
	}
	if Truth(p.seuser) || Truth(p.serole) || Truth(p.setype) || Truth(p.serange) {
		if err := checkSelinux(ctx, c, name, p, test, ret, changes, comments); err != nil {
			return nil, nil, err
		}
	}
	if text, ok := before.(string); ok {
		if text != "" {
			comments.Items = append([]any{text}, comments.Items...)
		}
		parts := make([]string, comments.Len())
		for i, item := range comments.Items {
			parts[i] = Str(item)
		}
		ret.Set("comment", strings.Join(parts, "; "))
	} else {
		ret.Set("comment", comments)
	}
	if test && changes.Len() > 0 {
		ret.Set("result", nil)
	}
	return ret, perms, nil
}

// attrChanges compares the attributes of a file with wanted ones; ok is false
// where they cannot be read.
func attrChanges(ctx context.Context, c *Call, name, want string) (added, removed string, ok bool) {
	got, err := listAttrs(ctx, c, name)
	if err != nil || got == nil {
		return "", "", false
	}
	have := ""
	for _, a := range toItems(got.Value(name)) {
		have += Str(a)
	}
	for _, r := range want {
		if !strings.ContainsRune(have, r) && !strings.ContainsRune(added, r) {
			added += string(r)
		}
	}
	for _, r := range have {
		if r != 'e' && !strings.ContainsRune(want, r) { // extents are no choice
			removed += string(r)
		}
	}
	return added, removed, true
}

func checkAttrs(ctx context.Context, c *Call, name, want string, test bool, ret, changes *Map, comments *List) error {
	added, removed, ok := attrChanges(ctx, c, name, want)
	if !ok || added == "" && removed == "" {
		return nil
	}
	text := func() string {
		got, _ := listAttrs(ctx, c, name)
		s := ""
		for _, a := range toItems(got.Value(name)) {
			s += Str(a)
		}
		return s
	}
	diff := NewMap("old", text(), "new", nil)
	if test {
		diff.Set("new", want)
	} else {
		for op, attrs := range map[string]string{"+": added, "-": removed} {
			if attrs != "" {
				if _, err := c.RunKw(ctx, "cmd.run", []any{NewList("chattr", op+attrs, name)}, NewMap("python_shell", false)); err != nil {
					return err
				}
			}
		}
		if added, removed, _ := attrChanges(ctx, c, name, want); added != "" || removed != "" {
			ret.Set("result", false)
			comments.Append("Failed to change attributes to " + want)
			diff.Set("new", text())
		} else {
			diff.Set("new", want)
		}
	}
	if !Equal(diff.Value("old"), diff.Value("new")) {
		changes.Set("attrs", diff)
	}
	return nil
}

// listAttrs is file.lsattr: nil where there is no lsattr.
func listAttrs(ctx context.Context, c *Call, path string) (*Map, error) {
	if which("lsattr") == "" {
		return nil, nil
	}
	if !pathExists(path) {
		return nil, InvocationErrorf("File or directory does not exist: %s", path)
	}
	out, err := c.RunKw(ctx, "cmd.run", []any{NewList("lsattr", path)}, NewMap("python_shell", false, "ignore_retcode", true))
	if err != nil {
		return nil, err
	}
	re := regexp.MustCompile(`[aAcCdDeijPsStTu]`)
	got := &Map{}
	for _, line := range strings.Split(Str(out), "\n") {
		attrs, file, ok := strings.Cut(strings.TrimLeft(line, " "), " ")
		if ok && !strings.HasPrefix(line, "lsattr: ") {
			got.Set(strings.TrimLeft(file, " "), Strings(re.FindAllString(attrs, -1)))
		}
	}
	return got, nil
}

func fileLsattr(ctx context.Context, c *Call, a pathArgs) (any, error) {
	m, err := listAttrs(ctx, c, a.Path)
	if err != nil || m == nil {
		return nil, err
	}
	return m, nil
}

type chattrArgs struct {
	Files  []any `arg:"*files"`
	Kwargs *Map  `arg:"**kwargs"`
}

func fileChattr(ctx context.Context, c *Call, a chattrArgs) (any, error) {
	sign, ok := map[any]string{"add": "+", "remove": "-"}[a.Kwargs.Str("operator")]
	if !ok {
		return nil, InvocationErrorf("Need an operator: 'add' or 'remove' to modify attributes.")
	}
	attributes := a.Kwargs.Value("attributes")
	if attributes == nil {
		return nil, InvocationErrorf("Need attributes: [aAcCdDeijPsStTu]")
	}
	words := NewList("chattr", sign+Str(attributes))
	if flags := a.Kwargs.Value("flags"); flags != nil {
		words.Append("-" + Str(flags))
	}
	if version := a.Kwargs.Value("version"); version != nil {
		words.Append("-v", version)
	}
	words.Append(a.Files...)
	out, err := c.RunKw(ctx, "cmd.run", []any{words}, NewMap("python_shell", false))
	return !Truth(out), err
}

// selinuxContext reads the SELinux context of a file, "" if it has none.
func selinuxContext(path string) string {
	p := make([]byte, 512)
	n, err := syscall.Getxattr(path, "security.selinux", p)
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(p[:n]), "\x00")
}

func fileGetSelinuxContext(_ context.Context, _ *Call, a pathArgs) (any, error) {
	if s := selinuxContext(a.Path); s != "" {
		return s, nil
	}
	if !pathExists(a.Path) || !pathExists("/sys/fs/selinux/enforce") {
		return "No selinux context information is available for " + a.Path, nil
	}
	return "?", nil
}

type setSelinuxArgs struct {
	Path                    string
	User, Role, Type, Range any  `def:"None"`
	Persist                 bool `def:"False"`
}

func fileSetSelinuxContext(ctx context.Context, c *Call, a setSelinuxArgs) (any, error) {
	return setSelinux(ctx, c, a)
}

func setSelinux(ctx context.Context, c *Call, a setSelinuxArgs) (any, error) {
	words := NewList("chcon")
	for _, o := range []struct {
		flag string
		v    any
	}{{"-u", a.User}, {"-r", a.Role}, {"-t", a.Type}, {"-l", a.Range}} {
		if Truth(o.v) {
			words.Append(o.flag, o.v)
		}
	}
	if words.Len() == 1 {
		return false, nil
	}
	if a.Persist {
		got, err := c.RunKw(ctx, "selinux.fcontext_add_policy", []any{a.Path}, NewMap("sel_type", a.Type, "sel_user", a.User, "sel_level", a.Range))
		if err != nil {
			return nil, err
		}
		if m, ok := got.(*Map); !ok || !Equal(m.Value("retcode"), int64(0)) {
			return nil, ExecErrorf("Problem setting fcontext: %s", Str(got))
		}
	}
	words.Append(a.Path)
	code, err := c.RunKw(ctx, "cmd.retcode", []any{words}, NewMap("python_shell", false))
	if err != nil || Truth(code) {
		return false, err
	}
	return selinuxContext(a.Path), nil
}

func checkSelinux(ctx context.Context, c *Call, name string, p permsCheck, test bool, ret, changes *Map, comments *List) error {
	parts := strings.SplitN(selinuxContext(name), ":", 4)
	if len(parts) != 4 {
		c.Log.Error("Unable to get current selinux attributes")
		ret.Set("result", false)
		comments.Append("Failed to get selinux attributes")
		return nil
	}
	var before, after string
	wanted := [4]any{}
	for i, w := range []struct {
		label string
		v     any
	}{{"User", p.seuser}, {"Role", p.serole}, {"Type", p.setype}, {"Range", p.serange}} {
		if Truth(w.v) && Str(w.v) != parts[i] {
			wanted[i] = w.v
			after += w.label + ": " + Str(w.v) + " "
			before += w.label + ": " + parts[i] + " "
		}
	}
	if after == "" {
		return nil
	}
	diff := NewMap("Old", strings.TrimSpace(before), "New", strings.TrimSpace(after))
	if test {
		ret.Set("result", nil)
		comments.Append(fmt.Sprintf("File %s selinux context to be updated", name))
		changes.Set("selinux", diff)
		return nil
	}
	kind := wanted[2]
	if kind == nil {
		kind = parts[2]
	}
	got, err := setSelinux(ctx, c, setSelinuxArgs{Path: name, User: wanted[0], Role: wanted[1], Type: kind, Range: wanted[3], Persist: true})
	if err != nil {
		return err
	}
	now := strings.SplitN(Str(got), ":", 4)
	if len(now) != 4 {
		ret.Set("result", false)
		comments.Append("Failed to set selinux attributes")
		return nil
	}
	comments.Append(fmt.Sprintf("The file %s is set to be changed", name))
	for i, label := range []string{"seuser", "serole", "setype", "serange"} {
		if wanted[i] != nil && Str(wanted[i]) != now[i] {
			ret.Set("result", false)
			comments.Append("Unable to update " + label + " context")
		}
	}
	changes.Set("selinux", diff)
	return nil
}

type restoreconArgs struct {
	Path      string
	Recursive bool `def:"False"`
}

func fileRestorecon(ctx context.Context, c *Call, a restoreconArgs) (any, error) {
	flag := "-F"
	if a.Recursive {
		flag = "-FR"
	}
	code, err := c.RunKw(ctx, "cmd.retcode", []any{NewList("restorecon", flag, a.Path)}, NewMap("python_shell", false))
	return !Truth(code), err
}

// openFilesOf maps the files that processes have open to their pids, or pids to
// files.
func openFilesOf(byPid bool) *Map {
	out := &Map{}
	add := func(k, v any) {
		l, ok := out.Value(k).(*List)
		if !ok {
			l = &List{}
			out.Set(k, l)
		}
		if !containsItem(l.Items, v) {
			l.Append(v)
		}
	}
	for _, pid := range processIDs() {
		dir := fmt.Sprintf("/proc/%d", pid)
		links := []string{dir + "/exe"}
		entries, err := os.ReadDir(dir + "/fd")
		if err != nil {
			continue
		}
		for _, e := range entries {
			links = append(links, dir+"/fd/"+e.Name())
		}
		for _, link := range links {
			name, err := os.Readlink(link)
			if err != nil || !pathExists(name) {
				continue
			}
			if byPid {
				add(int64(pid), name)
			} else {
				add(name, int64(pid))
			}
		}
	}
	return out
}

type openFilesArgs struct {
	ByPid bool `def:"False"`
}

func fileOpenFiles(_ context.Context, _ *Call, a openFilesArgs) (any, error) {
	return openFilesOf(a.ByPid), nil
}
