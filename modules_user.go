// Module user: users of this box, by shadow-utils where they are installed and
// by editing the files where they are not.
package main

import (
	"context"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

func userModule() Module {
	return Module{
		Doc: "Manage the users of this box.",
		Virtual: func(_ context.Context, c *Call) (bool, string) {
			if k := grain(c, "kernel"); k != "Linux" {
				return false, "useradd execution module not loaded: either pwd python library not available or system not one of Linux, OpenBSD, NetBSD or AIX"
			}
			return true, ""
		},
		Funcs: Funcs{
			"add":            {run: userAdd, doc: userAddDoc},
			"delete":         {run: userDelete, doc: "Remove a user; with remove its home directory and mail too, with force although it is\nlogged in.\n\nCLI Example:\n\n    salt '*' user.delete name remove=True force=True"},
			"getent":         {run: userGetent, doc: "List all users with what user.info tells about each."},
			"info":           {run: userInfo, doc: "Return what is known about a user; an empty mapping if there is none."},
			"list_groups":    {run: userListGroups, doc: "List the groups a user is in."},
			"list_users":     {run: userListUsers, doc: "List the names of all users."},
			"primary_group":  {run: userPrimaryGroup, doc: "Return the name of a user's primary group."},
			"chuid":          {run: userChuid, value: "uid", doc: "Change the number of a user.\n\nCLI Example:\n\n    salt '*' user.chuid foo 4376"},
			"chgid":          {run: userChgid, value: "gid", doc: "Change the primary group of a user."},
			"chshell":        {run: userChshell, value: "shell", doc: "Change the login shell of a user."},
			"chhome":         {run: userChhome, doc: "Change the home directory of a user; persist moves what is in the old one."},
			"chgroups":       {run: userChgroups, doc: "Change the groups a user is in besides the primary one; append leaves it in those it is in."},
			"chfullname":     {run: userSetGecos("fullname"), value: "fullname", doc: "Change the full name of a user."},
			"chroomnumber":   {run: userSetGecos("roomnumber"), value: "roomnumber", doc: "Change the room number of a user."},
			"chworkphone":    {run: userSetGecos("workphone"), value: "workphone", doc: "Change the work phone number of a user."},
			"chhomephone":    {run: userSetGecos("homephone"), value: "homephone", doc: "Change the home phone number of a user."},
			"chother":        {run: userSetGecos("other"), value: "other", doc: "Change the other information on a user."},
			"chloginclass":   {run: userChloginclass, value: "loginclass", doc: "Change the login class of a user: always False, Linux has none."},
			"get_loginclass": {run: userGetLoginclass, doc: "Return the login class of a user: always False, Linux has none."},
			"rename":         {run: userRename, doc: "Change the name of a user."},
		},
	}
}

const userAddDoc = `Add a user. Returns whether it was added.

uid, gid     numbers (gid also a name); the next free ones if not given
groups       further groups, a list or a text with commas
home, shell  home directory and login shell
unique       False: the uid may be in use
system       make a system account
fullname, roomnumber, workphone, homephone, other   what finger shows
createhome   make the home directory
loginclass   has no meaning on Linux
nologinit    do not add it to lastlog and faillog
root         directory of another system to change
usergroup    True or False: make a group of the user's name, or none

CLI Example:

    salt '*' user.add name <uid> <gid> <groups> <home> <shell>`

type userAddArgs struct {
	Name       string
	UID        any  `def:"None"`
	GID        any  `def:"None"`
	Groups     any  `def:"None"`
	Home       any  `def:"None"`
	Shell      any  `def:"None"`
	Unique     bool `def:"True"`
	System     bool `def:"False"`
	Fullname   any  `def:"''"`
	Roomnumber any  `def:"''"`
	Workphone  any  `def:"''"`
	Homephone  any  `def:"''"`
	Other      any  `def:"''"`
	Createhome bool `def:"True"`
	Loginclass any  `def:"None"`
	Nologinit  bool `def:"False"`
	Root       any  `def:"None"`
	Usergroup  any  `def:"None"`
}

func given(v any) bool { return v != nil && v != "" }

// groupList is a list of groups, or a text with commas.
func groupList(v any) []string {
	if s, ok := v.(string); ok {
		return strings.Split(s, ",")
	}
	var out []string
	for _, g := range toItems(v) {
		out = append(out, Str(g))
	}
	return out
}

// mentions is Python's `name in groups`, which for a text looks for a part of it.
func mentions(groups any, name string) bool {
	if s, ok := groups.(string); ok {
		return strings.Contains(s, name)
	}
	return hasString(groupList(groups), name)
}

func userGroupsEnabled(root string) bool {
	on := false
	_ = scanLines(root+"/etc/login.defs", func(line string) bool {
		if len(line) > 15 && strings.Contains(line[:15], "USERGROUPS_ENAB") {
			on = strings.Contains(line, "yes")
			return false
		}
		return true
	})
	return on
}

func userAdd(ctx context.Context, c *Call, a userAddArgs) (any, error) {
	path := which("useradd")
	if path == "" {
		return userAddFiles(ctx, c, a)
	}
	cmd := []string{path}
	if Truth(a.Shell) {
		cmd = append(cmd, "-s", Str(a.Shell))
	}
	if given(a.UID) {
		cmd = append(cmd, "-u", Str(a.UID))
	}
	switch {
	case given(a.GID):
		cmd = append(cmd, "-g", Str(a.GID))
	case Truth(a.Usergroup):
		cmd = append(cmd, "-U")
	case a.Groups != nil && mentions(a.Groups, a.Name) && userGroupsEnabled(""):
		gid := ""
		if g, ok := groupByName(a.Name); ok {
			gid = Str(int64(g.gid))
		}
		cmd = append(cmd, "-g", gid)
	}
	if a.Usergroup == false {
		cmd = append(cmd, "-N")
	}
	if a.Createhome {
		cmd = append(cmd, "-m")
	} else {
		cmd = append(cmd, "-M")
	}
	if a.Nologinit {
		cmd = append(cmd, "-l")
	}
	if a.Home != nil {
		cmd = append(cmd, "-d", Str(a.Home))
	}
	if !a.Unique {
		cmd = append(cmd, "-o")
	}
	if a.System {
		cmd = append(cmd, "-r")
	}
	cmd = append(cmd, a.Name)
	if a.Root != nil {
		cmd = append(cmd, "-R", Str(a.Root))
	}
	if ok, err := runAllOK(ctx, c, cmd...); !ok {
		return false, err
	}
	return userAddRest(ctx, c, a)
}

// userAddRest sets what useradd does not.
func userAddRest(ctx context.Context, c *Call, a userAddArgs) (any, error) {
	if Truth(a.Groups) {
		if _, err := userChgroups(ctx, c, userChgroupsArgs{Name: a.Name, Groups: a.Groups, Root: a.Root}); err != nil {
			return nil, err
		}
	}
	for _, g := range []struct {
		key   string
		value any
	}{{"fullname", a.Fullname}, {"roomnumber", a.Roomnumber}, {"workphone", a.Workphone}, {"homephone", a.Homephone}, {"other", a.Other}} {
		if Truth(g.value) {
			if _, err := updateGecos(ctx, c, a.Name, g.key, g.value, a.Root); err != nil {
				return nil, err
			}
		}
	}
	return true, nil
}

func userAddFiles(ctx context.Context, c *Call, a userAddArgs) (any, error) {
	n := newAccount{name: a.Name, unique: a.Unique, system: a.System, createHome: a.Createhome, ownGroup: a.Usergroup != false}
	if given(a.UID) {
		n.uid = Str(a.UID)
	}
	if given(a.GID) {
		n.gid = Str(a.GID)
	} else if a.Groups != nil && mentions(a.Groups, a.Name) {
		if g, ok := findGroup(rootOf(a.Root), a.Name); ok {
			n.gid = Str(int64(g.gid))
		}
	}
	if a.Home != nil {
		n.home = Str(a.Home)
	}
	if Truth(a.Shell) {
		n.shell = Str(a.Shell)
	}
	if err := addAccount(ctx, rootOf(a.Root), n); err != nil {
		c.Log.Error("user.add: " + err.Error())
		c.SetRetcode(1)
		return false, nil
	}
	return userAddRest(ctx, c, a)
}

type userDeleteArgs struct {
	Name   string
	Remove bool `def:"False"`
	Force  bool `def:"False"`
	Root   any  `def:"None"`
}

func userDelete(ctx context.Context, c *Call, a userDeleteArgs) (any, error) {
	path := which("userdel")
	if path == "" {
		if err := removeAccount(ctx, rootOf(a.Root), a.Name, a.Remove); err != nil {
			c.Log.Error("user.delete: " + err.Error())
			c.SetRetcode(1)
			return false, nil
		}
		return true, nil
	}
	cmd := []string{path}
	if a.Remove {
		cmd = append(cmd, "-r")
	}
	if a.Force {
		cmd = append(cmd, "-f")
	}
	cmd = append(cmd, a.Name)
	if a.Root != nil {
		cmd = append(cmd, "-R", Str(a.Root))
	}
	r, err := runSaltTool(ctx, c, toolOptions{}, cmd...)
	if err != nil || !r.failed() {
		return true, err
	}
	// Debian's userdel fails with 12 where there was no mail spool to remove.
	mail := strings.Contains(r.stderr, "var/mail") || strings.Contains(r.stderr, "var/spool/mail")
	return Equal(r.retcode, int64(12)) && grain(c, "os_family") == "Debian" && mail, nil
}

type userRootArgs struct {
	Name string
	Root any `def:"None"`
}

// findUser is pwd.getpwnam, or its like in the files under root.
func findUser(name string, root any) (passwdEntry, bool) {
	if root == nil {
		return userByName(name)
	}
	for _, u := range allUsers(rootOf(root)) {
		if u.name == name {
			return u, true
		}
	}
	return passwdEntry{}, false
}

// memberIndex maps the names of users to those of their groups; numbers to names.
type memberIndex struct {
	byUser map[string][]string
	byGID  map[int]string
}

func newMemberIndex() memberIndex {
	x := memberIndex{map[string][]string{}, map[int]string{}}
	for _, g := range allGroups("") {
		if _, ok := x.byGID[g.gid]; !ok {
			x.byGID[g.gid] = g.name
		}
		for _, m := range g.members {
			x.byUser[m] = append(x.byUser[m], g.name)
		}
	}
	return x
}

func (x memberIndex) groups(name string, gid int, known bool) *List {
	set := map[string]bool{}
	for _, g := range x.byUser[name] {
		set[g] = true
	}
	if known {
		if g, ok := x.byGID[gid]; ok {
			set[g] = true
		} else if g, ok := groupByID(gid); ok {
			set[g.name] = true
		}
	}
	names := make([]string, 0, len(set))
	for g := range set {
		names = append(names, g)
	}
	sort.Strings(names)
	return Strings(names)
}

func (x memberIndex) info(u passwdEntry) *Map {
	gecos := gecosFields(u.gecos)
	return NewMap("gid", int64(u.gid), "groups", x.groups(u.name, u.gid, true), "home", u.home, "name", u.name, "passwd", u.passwd,
		"shell", u.shell, "uid", int64(u.uid), "fullname", gecos[0], "roomnumber", gecos[1], "workphone", gecos[2], "homephone", gecos[3], "other", gecos[4])
}

func gecosFields(s string) []string {
	f := strings.SplitN(s, ",", 5)
	for len(f) < 5 {
		f = append(f, "")
	}
	return f
}

func userInfo(_ context.Context, _ *Call, a userRootArgs) (any, error) {
	return infoOfUser(a.Name, a.Root), nil
}

func infoOfUser(name string, root any) *Map {
	u, ok := findUser(name, root)
	if !ok {
		return &Map{}
	}
	return newMemberIndex().info(u)
}

type refreshRootArgs struct {
	Refresh bool `def:"False"`
	Root    any  `def:"None"`
}

func userGetent(_ context.Context, c *Call, a refreshRootArgs) (any, error) {
	if v, ok := c.ContextGet("user.getent"); ok && !a.Refresh {
		return v, nil
	}
	x, out := newMemberIndex(), &List{}
	for _, u := range allUsers(rootOf(a.Root)) {
		out.Append(x.info(u))
	}
	c.ContextSet("user.getent", out)
	return out, nil
}

func userListGroups(_ context.Context, _ *Call, a nameArgs) (any, error) {
	u, ok := userByName(a.Name)
	return newMemberIndex().groups(a.Name, u.gid, ok), nil
}

type rootArgs struct {
	Root any `def:"None"`
}

func userListUsers(_ context.Context, _ *Call, a rootArgs) (any, error) {
	var names []string
	for _, u := range allUsers(rootOf(a.Root)) {
		names = append(names, u.name)
	}
	sort.Strings(names)
	return Strings(names), nil
}

func userPrimaryGroup(_ context.Context, c *Call, a nameArgs) (any, error) {
	u, ok := userByName(a.Name)
	if !ok {
		c.SetRetcode(1)
		return "id: " + quoteLocale(a.Name) + ": no such user", nil
	}
	if g, ok := groupByID(u.gid); ok {
		return g.name, nil
	}
	c.SetRetcode(1)
	return Str(int64(u.gid)), nil
}

// quoteLocale is how GNU tools quote names: with typographic marks where the
// environment asks for UTF-8.
func quoteLocale(s string) string {
	if l := strings.ToLower(os.Getenv("LC_ALL")); strings.HasSuffix(l, "utf-8") || strings.HasSuffix(l, "utf8") {
		return "\u2018" + s + "\u2019"
	}
	return "'" + s + "'"
}

// changeUser changes one attribute by usermod, or by f in the passwd file, and
// says whether it has the value then.
func changeUser(ctx context.Context, c *Call, name, key string, value any, option string, persist bool, root any, f func([]string)) (any, error) {
	info := infoOfUser(name, root)
	if info.Len() == 0 {
		return nil, ExecErrorf("User '%s' does not exist", name)
	}
	if Equal(value, info.Value(key)) {
		return true, nil
	}
	path := which("usermod")
	if path == "" {
		if err := usableField(Str(value)); err != nil {
			return nil, err
		}
		if err := changePasswd(ctx, rootOf(root), name, f); err != nil {
			return nil, err
		}
	} else {
		cmd := []string{path}
		if root != nil {
			cmd = append(cmd, "-R", Str(root))
		}
		if persist {
			cmd = append(cmd, "-m")
		}
		if _, err := runText(ctx, c, append(cmd, option, Str(value), name)...); err != nil {
			return nil, err
		}
	}
	return Equal(infoOfUser(name, root).Value(key), value), nil
}

func setField(i int, v any) func([]string) { return func(f []string) { f[i] = Str(v) } }

func userChuid(ctx context.Context, c *Call, a userFieldArgs) (any, error) {
	if which("usermod") == "" {
		n, ok := toInt(a.Value)
		if !ok || n < 0 {
			return false, nil
		}
		if usedUIDs(rootOf(a.Root))[int(n)] && !Equal(infoOfUser(a.Name, a.Root).Value("uid"), n) {
			return nil, ExecErrorf("UID %d is in use", n)
		}
	}
	return changeUser(ctx, c, a.Name, "uid", a.Value, "-u", false, a.Root, setField(2, a.Value))
}

func userChgid(ctx context.Context, c *Call, a userFieldArgs) (any, error) {
	return changeUser(ctx, c, a.Name, "gid", a.Value, "-g", false, a.Root, func(f []string) {
		if g, ok := findGroup(rootOf(a.Root), Str(a.Value)); ok {
			f[3] = Str(int64(g.gid))
		}
	})
}

func userChshell(ctx context.Context, c *Call, a userFieldArgs) (any, error) {
	return changeUser(ctx, c, a.Name, "shell", a.Value, "-s", false, a.Root, setField(6, a.Value))
}

type userChhomeArgs struct {
	Name    string
	Home    any
	Persist bool `def:"False"`
	Root    any  `def:"None"`
}

func userChhome(ctx context.Context, c *Call, a userChhomeArgs) (any, error) {
	before, _ := findUser(a.Name, a.Root)
	v, err := changeUser(ctx, c, a.Name, "home", a.Home, "-d", a.Persist, a.Root, setField(5, a.Home))
	if err != nil || !a.Persist || which("usermod") != "" || v != true || before.home == Str(a.Home) {
		return v, err
	}
	from, to := rootOf(a.Root)+before.home, rootOf(a.Root)+Str(a.Home)
	if _, err := os.Lstat(to); err == nil || !isDir(from) {
		return v, nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return nil, osError(err)
	}
	if err := os.Rename(from, to); err != nil {
		return nil, osError(err)
	}
	return v, nil
}

type userChgroupsArgs struct {
	Name   string
	Groups any
	Append bool `def:"False"`
	Root   any  `def:"None"`
}

func userChgroups(ctx context.Context, c *Call, a userChgroupsArgs) (any, error) {
	groups := groupList(a.Groups)
	u, known := userByName(a.Name)
	have := newMemberIndex().groups(a.Name, u.gid, known)
	same := true
	want := map[string]bool{}
	for _, g := range groups {
		want[g] = true
	}
	for _, g := range have.Items {
		same = same && want[Str(g)]
		delete(want, Str(g))
	}
	if same && len(want) == 0 {
		return true, nil
	}
	path := which("usermod")
	if path == "" {
		if _, ok := findUser(a.Name, a.Root); !ok {
			return false, nil
		}
		if err := setSupplementary(ctx, rootOf(a.Root), a.Name, groups, a.Append); err != nil {
			c.Log.Error("user.chgroups: " + err.Error())
			c.SetRetcode(1)
			return false, nil
		}
		return true, nil
	}
	cmd := []string{path}
	if a.Append {
		cmd = append(cmd, "-a")
	}
	cmd = append(cmd, "-G", strings.Join(groups, ","), a.Name)
	if a.Root != nil {
		cmd = append(cmd, "-R", Str(a.Root))
	}
	r, err := runSaltTool(ctx, c, toolOptions{}, cmd...)
	if err != nil {
		return nil, err
	}
	if r.failed() && strings.Contains(r.stderr, "not found in") {
		all := true
		for _, g := range groups {
			ok, err := runOK(ctx, c, "gpasswd", "-a", a.Name, g)
			if err != nil {
				return nil, err
			}
			all = all && ok
		}
		return all, nil
	}
	return !r.failed(), nil
}

// updateGecos changes one part of what finger shows.
func updateGecos(ctx context.Context, c *Call, name, key string, value, root any) (any, error) {
	text := ""
	if value != nil {
		text = Str(value)
	}
	u, ok := findUser(name, root)
	if !ok {
		if root != nil {
			return nil, OtherErrorf("KeyError", "")
		}
		return nil, OtherErrorf("KeyError", "%s", Repr("getpwnam(): name not found: "+Repr(name)))
	}
	i := 0
	for n, k := range []string{"fullname", "roomnumber", "workphone", "homephone", "other"} {
		if k == key {
			i = n
		}
	}
	fields := gecosFields(u.gecos)
	if fields[i] == text {
		return true, nil
	}
	fields[i] = text
	gecos := strings.TrimRight(strings.Join(fields, ","), ",")
	if path := which("usermod"); path == "" {
		if err := usableField(gecos); err != nil {
			return nil, err
		}
		if err := changePasswd(ctx, rootOf(root), name, setField(4, gecos)); err != nil {
			return nil, err
		}
	} else {
		cmd := []string{path}
		if root != nil {
			cmd = append(cmd, "-R", Str(root))
		}
		if _, err := runText(ctx, c, append(cmd, "-c", gecos, name)...); err != nil {
			return nil, err
		}
	}
	u, _ = findUser(name, root)
	return gecosFields(u.gecos)[i] == text, nil
}

type userFieldArgs struct {
	Name  string
	Value any
	Root  any `def:"None"`
}

// userSetGecos is the function that changes one part of what finger shows.
func userSetGecos(key string) func(context.Context, *Call, userFieldArgs) (any, error) {
	return func(ctx context.Context, c *Call, a userFieldArgs) (any, error) {
		return updateGecos(ctx, c, a.Name, key, a.Value, a.Root)
	}
}

func userChloginclass(context.Context, *Call, userFieldArgs) (any, error) { return false, nil }
func userGetLoginclass(context.Context, *Call, nameArgs) (any, error)     { return false, nil }

type userRenameArgs struct {
	Name    string
	NewName string
	Root    any `def:"None"`
}

// userRename returns what the old name's entry looks like afterwards, compared
// with the new name: Salt's answer to a rename that worked is False.
func userRename(ctx context.Context, c *Call, a userRenameArgs) (any, error) {
	if infoOfUser(a.NewName, a.Root).Len() > 0 {
		return nil, ExecErrorf("User '%s' already exists", a.NewName)
	}
	if which("usermod") == "" {
		if infoOfUser(a.Name, a.Root).Len() == 0 {
			return nil, ExecErrorf("User '%s' does not exist", a.Name)
		}
		if err := renameAccount(ctx, rootOf(a.Root), a.Name, a.NewName); err != nil {
			return nil, err
		}
		return false, nil
	}
	return changeUser(ctx, c, a.Name, "name", a.NewName, "-l", false, a.Root, func([]string) {})
}
