// State module group: groups of users.
package main

import (
	"context"
	"strings"
)

func groupStates() Module {
	return Module{
		Doc: "Groups of users.",
		Funcs: Funcs{
			"present": {run: groupStatePresent, doc: "The group exists, with these properties. members are all its members; addusers and delusers are some of them."},
			"absent":  {run: groupStateAbsent, doc: "The group does not exist."},
		},
	}
}

type groupStateArgs struct {
	Name      string
	Gid       any `def:"None"`
	System    any `def:"False"`
	Addusers  any `def:"None"`
	Delusers  any `def:"None"`
	Members   any `def:"None"`
	NonUnique any `def:"False"`
}

// sameItems says whether two lists have the same items.
func sameItems(a, b []any) bool { return allWithin(a, b) && allWithin(b, a) }

// groupChanges is what has to change; nil if there is no such group.
func groupChanges(ctx context.Context, c *Call, a groupStateArgs) (*Map, error) {
	info, err := runMap(ctx, c, "group.info", a.Name)
	if err != nil || info.Len() == 0 {
		return nil, err
	}
	have := toItems(info.Value("members"))
	changes := NewMap()
	if Truth(a.Gid) {
		gid, ok := toInt(a.Gid)
		if !ok {
			return NewMap("result", false, "comment", "Invalid gid"), nil
		}
		if !Equal(info.Value("gid"), gid) {
			changes.Set("gid", gid)
		}
	}
	members := toItems(a.Members)
	if a.Members != nil && !sameItems(have, members) {
		if len(members) == 0 {
			changes.Set("delusers", NewSet(have...))
		} else {
			changes.Set("members", a.Members)
		}
	}
	pick := func(users any, there bool) *List {
		out := NewList()
		for _, u := range toItems(users) {
			if hasItem(have, u) == there {
				out.Append(u)
			}
		}
		return out
	}
	if l := pick(a.Addusers, false); l.Len() > 0 {
		changes.Set("addusers", l)
	}
	if l := pick(a.Delusers, true); l.Len() > 0 {
		changes.Set("delusers", l)
	}
	return changes, nil
}

// membersOf are the items of a list or of a set.
func membersOf(v any) []any {
	if s, ok := v.(*Set); ok {
		return s.Items()
	}
	return toItems(v)
}

func groupStatePresent(ctx context.Context, c *Call, a groupStateArgs) (any, error) {
	ret := stateReturn(a.Name, true, "Group "+a.Name+" is present and up to date")
	if a.Members != nil && (a.Addusers != nil || a.Delusers != nil) {
		return stateSay(ret, nil, "Error: Conflicting options \"members\" with \"addusers\" and/or \"delusers\" can not be used together. ")
	}
	for _, u := range toItems(a.Addusers) {
		if hasItem(toItems(a.Delusers), u) {
			return stateSay(ret, nil, "Error. Same user(s) can not be added and deleted simultaneously")
		}
	}
	changes, err := groupChanges(ctx, c, a)
	if err != nil {
		return nil, err
	}
	if changes == nil {
		return groupStateAdd(ctx, c, ret, a)
	}
	if changes.Len() == 0 {
		return ret, nil
	}
	text := "The following group attributes are set to be changed:\n"
	for k, v := range changes.All() {
		text += Str(k) + ": " + Str(v) + "\n"
	}
	ret.Set("comment", text)
	if c.Testing() {
		ret.Set("result", nil)
		return ret, nil
	}
	for k, v := range changes.All() {
		var err error
		switch k {
		case "gid":
			_, err = c.RunKw(ctx, "group.chgid", []any{a.Name, a.Gid}, NewMap("non_unique", a.NonUnique))
		case "addusers", "delusers":
			fun := "group.adduser"
			if k == "delusers" {
				fun = "group.deluser"
			}
			for _, u := range membersOf(v) {
				if _, err = c.Run(ctx, fun, a.Name, u); err != nil {
					break
				}
			}
		case "members":
			_, err = c.Run(ctx, "group.members", a.Name, joinTexts(toItems(a.Members), ","))
		}
		if err != nil {
			return nil, err
		}
	}
	if changes, err = groupChanges(ctx, c, a); err != nil {
		return nil, err
	}
	if changes.Len() > 0 {
		ret.Set("changes", NewMap("Failed", changes))
		return stateSay(ret, false, "%sSome changes could not be applied", text)
	}
	ret.Set("changes", NewMap("Final", "All changes applied successfully"))
	return ret, nil
}

func groupStateAdd(ctx context.Context, c *Call, ret *Map, a groupStateArgs) (any, error) {
	if c.Testing() {
		return stateSay(ret, nil, "Group %s set to be added", a.Name)
	}
	if a.Gid != nil && !Truth(a.NonUnique) {
		v, err := c.RunKw(ctx, "group.getent", nil, NewMap("refresh", true))
		if err != nil {
			return nil, err
		}
		for _, g := range toItems(v) {
			if m, ok := g.(*Map); ok && Equal(m.Value("gid"), a.Gid) {
				return stateSay(ret, false, "Group %s is not present but gid %s is already taken by group %s", a.Name, Str(a.Gid), Str(m.Value("name")))
			}
		}
	}
	v, err := c.RunKw(ctx, "group.add", []any{a.Name}, NewMap("gid", a.Gid, "system", a.System, "non_unique", a.NonUnique))
	if err != nil {
		return nil, err
	}
	if !Truth(v) {
		return stateSay(ret, false, "Failed to create new group %s", a.Name)
	}
	members := toItems(a.Members)
	if Truth(a.Addusers) {
		members = toItems(a.Addusers)
	}
	if len(members) > 0 {
		if _, err := c.Run(ctx, "group.members", a.Name, joinTexts(members, ",")); err != nil {
			return nil, err
		}
	}
	info, err := runMap(ctx, c, "group.info", a.Name)
	if err != nil {
		return nil, err
	}
	changes, err := groupChanges(ctx, c, a)
	if err != nil {
		return nil, err
	}
	if changes.Len() > 0 {
		ret.Set("changes", NewMap("Failed", changes))
		return stateSay(ret, false, "Group %s has been created but, some changes could not be applied", a.Name)
	}
	ret.Set("changes", mapOrNew(info))
	return stateSay(ret, true, "New group %s created", a.Name)
}

func groupStateAbsent(ctx context.Context, c *Call, a stateNameArgs) (any, error) {
	ret := stateReturn(a.Name, true, "")
	info, err := runMap(ctx, c, "group.info", a.Name)
	if err != nil {
		return nil, err
	}
	if info.Len() == 0 {
		return stateSay(ret, true, "Group not present")
	}
	if c.Testing() {
		return stateSay(ret, nil, "Group %s is set for removal", a.Name)
	}
	done, err := c.Run(ctx, "group.delete", a.Name)
	if err != nil {
		return nil, err
	}
	if !Truth(done) {
		return stateSay(ret, done, "Failed to remove group %s", a.Name)
	}
	ret.Set("changes", NewMap(a.Name, ""))
	return stateSay(ret, done, "Removed group %s", a.Name)
}

// commaTexts are the texts of a list, joined with commas.
func commaTexts(items []any) string { return strings.Join(texts(NewList(items...)), ",") }
