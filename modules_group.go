// Module group: groups of this box, by shadow-utils where they are installed
// and by editing the files where they are not.
package main

import (
	"context"
	"strconv"
	"strings"
)

func groupModule() Module {
	return Module{
		Doc: "Manage the groups of this box.",
		Virtual: func(_ context.Context, c *Call) (bool, string) {
			if grain(c, "kernel") != "Linux" {
				return false, "The groupadd execution module cannot be loaded:  only available on Linux, OpenBSD and NetBSD"
			}
			return true, ""
		},
		Funcs: Funcs{
			"add":     {run: groupAdd, doc: "Add a group.\n\nCLI Example:\n\n    salt '*' group.add foo 3456"},
			"delete":  {run: groupDelete, doc: "Remove a group."},
			"info":    {run: groupInfo, doc: "Return number and members of a group; an empty mapping if there is none."},
			"getent":  {run: groupGetent, doc: "List all groups with what group.info tells about each."},
			"chgid":   {run: groupChgid, doc: "Change the number of a group."},
			"adduser": {run: groupAdduser, doc: "Put a user into a group."},
			"deluser": {run: groupDeluser, doc: "Take a user out of a group."},
			"members": {run: groupMembers, doc: "Set the members of a group: names with commas between."},
		},
	}
}

type groupAddArgs struct {
	Name      string
	GID       any  `def:"None"`
	System    bool `def:"False"`
	Root      any  `def:"None"`
	NonUnique bool `def:"False"`
}

func groupAdd(ctx context.Context, c *Call, a groupAddArgs) (any, error) {
	path := which("groupadd")
	if path == "" {
		return accountDone(c, "group.add", addGroup(ctx, rootOf(a.Root), a))
	}
	cmd := []string{path}
	if Truth(a.GID) {
		cmd = append(cmd, "-g "+Str(a.GID))
		if a.NonUnique {
			cmd = append(cmd, "-o")
		}
	}
	if a.System {
		cmd = append(cmd, "-r")
	}
	if a.Root != nil {
		cmd = append(cmd, "-R", Str(a.Root))
	}
	return runAllOK(ctx, c, append(cmd, a.Name)...)
}

// accountDone turns the error of a change of files into what tools answer: False,
// with the reason in the log.
func accountDone(c *Call, what string, err error) (any, error) {
	if err != nil {
		c.Log.Error(what + ": " + err.Error())
		c.SetRetcode(1)
		return false, nil
	}
	return true, nil
}

func addGroup(ctx context.Context, root string, a groupAddArgs) error {
	if err := usableAccountName(a.Name); err != nil {
		return err
	}
	return withAccountLock(ctx, root, func() error {
		for _, g := range allGroups(root) {
			if g.name == a.Name {
				return ExecErrorf("group '%s' already exists", a.Name)
			}
		}
		used := usedGIDs(root)
		gid := 0
		if Truth(a.GID) {
			n, ok := toInt(a.GID)
			if !ok || n < 0 {
				return ExecErrorf("invalid group ID '%s'", Str(a.GID))
			}
			if gid = int(n); used[gid] && !a.NonUnique {
				return ExecErrorf("GID '%d' already exists", gid)
			}
		} else {
			n, err := freeID(root, a.System, used)
			if err != nil {
				return err
			}
			gid = n
		}
		return appendGroup(root, a.Name, gid)
	})
}

func groupDelete(ctx context.Context, c *Call, a userRootArgs) (any, error) {
	path := which("groupdel")
	if path == "" {
		root := rootOf(a.Root)
		return accountDone(c, "group.delete", withAccountLock(ctx, root, func() error {
			g, ok := findGroup(root, a.Name)
			if !ok || g.name != a.Name {
				return ExecErrorf("group '%s' does not exist", a.Name)
			}
			if primaryGroupInUse(root, g.gid) {
				return ExecErrorf("cannot remove the primary group of a user")
			}
			return dropGroup(root, a.Name)
		}))
	}
	cmd := []string{path}
	if a.Root != nil {
		cmd = append(cmd, "-R", Str(a.Root))
	}
	return runAllOK(ctx, c, append(cmd, a.Name)...)
}

func formatGroup(g groupEntry) *Map {
	return NewMap("name", g.name, "passwd", g.passwd, "gid", int64(g.gid), "members", Strings(g.members))
}

func infoOfGroup(name string, root any) *Map {
	if root == nil {
		if g, ok := groupByName(name); ok {
			return formatGroup(g)
		}
		return &Map{}
	}
	for _, g := range allGroups(rootOf(root)) {
		if g.name == name {
			return formatGroup(g)
		}
	}
	return &Map{}
}

func groupInfo(_ context.Context, _ *Call, a userRootArgs) (any, error) {
	return infoOfGroup(a.Name, a.Root), nil
}

func groupGetent(_ context.Context, c *Call, a refreshRootArgs) (any, error) {
	if v, ok := c.ContextGet("group.getent"); ok && !a.Refresh {
		return v, nil
	}
	out := &List{}
	for _, g := range allGroups(rootOf(a.Root)) {
		out.Append(formatGroup(g))
	}
	c.ContextSet("group.getent", out)
	return out, nil
}

type groupChgidArgs struct {
	Name      string
	GID       any
	Root      any  `def:"None"`
	NonUnique bool `def:"False"`
}

func groupChgid(ctx context.Context, c *Call, a groupChgidArgs) (any, error) {
	info := infoOfGroup(a.Name, a.Root)
	if info.Len() == 0 {
		return false, nil
	}
	if Equal(a.GID, info.Value("gid")) {
		return true, nil
	}
	path := which("groupmod")
	if path == "" {
		root := rootOf(a.Root)
		n, ok := toInt(a.GID)
		if !ok || n < 0 || usedGIDs(root)[int(n)] && !a.NonUnique {
			return accountDone(c, "group.chgid", ExecErrorf("GID '%s' is in use or no number", Str(a.GID)))
		}
		err := withAccountLock(ctx, root, func() error {
			return editAccount(root+"/etc/group", a.Name, false, 0o644, func(f []string) []string {
				if len(f) > 2 {
					f[2] = strconv.FormatInt(n, 10)
				}
				return f
			})
		})
		return accountDone(c, "group.chgid", err)
	}
	cmd := []string{path}
	if a.Root != nil {
		cmd = append(cmd, "-R", Str(a.Root))
	}
	option := "-g"
	if a.NonUnique {
		option = "-og"
	}
	if _, err := runText(ctx, c, append(cmd, option, Str(a.GID), a.Name)...); err != nil {
		return nil, err
	}
	return Equal(infoOfGroup(a.Name, a.Root).Value("gid"), a.GID), nil
}

type groupUserArgs struct {
	Name     string
	Username string
	Root     any `def:"None"`
}

// gpasswd runs gpasswd, or f on the members of the group where it is missing.
func gpasswd(ctx context.Context, c *Call, group, option, value string, root any, f func(members []string) []string) (any, error) {
	path := which("gpasswd")
	if path == "" {
		dir := rootOf(root)
		err := withAccountLock(ctx, dir, func() error {
			if g, ok := findGroup(dir, group); !ok || g.name != group {
				return ExecErrorf("group '%s' does not exist", group)
			}
			return editMembers(dir, func(name string, members []string) []string {
				if name != group {
					return members
				}
				return f(members)
			})
		})
		return accountDone(c, "group", err)
	}
	cmd := []string{path, option, value, group}
	if root != nil {
		cmd = append(cmd, "--root", Str(root))
	}
	return runOK(ctx, c, cmd...)
}

func groupAdduser(ctx context.Context, c *Call, a groupUserArgs) (any, error) {
	if which("gpasswd") == "" {
		if _, ok := findUser(a.Username, a.Root); !ok {
			return accountDone(c, "group.adduser", ExecErrorf("user '%s' does not exist", a.Username))
		}
	}
	return gpasswd(ctx, c, a.Name, "--add", a.Username, a.Root, func(members []string) []string {
		return append(without(members, a.Username), a.Username)
	})
}

func groupDeluser(ctx context.Context, c *Call, a groupUserArgs) (any, error) {
	members, _ := infoOfGroup(a.Name, nil).Value("members").(*List)
	if members == nil || !containsItem(members.Items, a.Username) {
		return true, nil
	}
	return gpasswd(ctx, c, a.Name, "--del", a.Username, a.Root, func(members []string) []string { return without(members, a.Username) })
}

type groupMembersArgs struct {
	Name        string
	MembersList any
	Root        any `def:"None"`
}

func groupMembers(ctx context.Context, c *Call, a groupMembersArgs) (any, error) {
	text := strings.Join(groupList(a.MembersList), ",")
	return gpasswd(ctx, c, a.Name, "--members", text, a.Root, func([]string) []string {
		var out []string
		for _, m := range strings.Split(text, ",") {
			if m != "" {
				out = append(out, m)
			}
		}
		return out
	})
}
