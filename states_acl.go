// State module acl: entries in the access control lists of files.
package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

func aclStates() Module {
	return Module{
		Doc: "Entries of users and groups in the access control lists of files.",
		Virtual: func(context.Context, *Call) (bool, string) {
			return which("getfacl") != "" && which("setfacl") != "",
				"The linux_acl state cannot be loaded: the getfacl or setfacl binary is not in the path."
		},
		Funcs: Funcs{
			"present":      {run: aclStatePresent, doc: "The entry is there with these permissions; force drops all others."},
			"absent":       {run: aclStateAbsent, doc: "There is no such entry."},
			"list_present": {run: aclStateListPresent, doc: "An entry is there for each of acl_names; force drops all others."},
			"list_absent":  {run: aclStateListAbsent, doc: "There is no entry for any of acl_names."},
		},
	}
}

// aclLists are the lists of a path, and of what is below it, as they are.
type aclLists struct {
	kind      string // user, group … without default:
	ofDefault bool
	files     *Map // path → its lists
	entries   []any
	owner     string // who an entry without a name means
}

// readACLs reads the lists of a path. A state return is the answer that ends it.
func readACLs(ctx context.Context, c *Call, name, kind string, recurse bool) (*aclLists, *Map, error) {
	ret := stateReturn(name, false, "")
	if !pathExists(name) {
		ret.Set("comment", name+" does not exist")
		return nil, ret, nil
	}
	v, err := c.RunKw(ctx, "acl.getfacl", []any{name}, NewMap("recursive", recurse))
	if err != nil {
		return nil, nil, err
	}
	l := &aclLists{kind: kind}
	l.files, _ = v.(*Map)
	for _, prefix := range []string{"default:", "d:"} {
		if rest, ok := strings.CutPrefix(kind, prefix); ok {
			l.kind, l.ofDefault = rest, true
			break
		}
	}
	l.entries = l.of(name)
	l.owner = l.files.Map(name).Map("comment").Str(l.kind)
	if len(l.entries) == 0 && !l.ofDefault {
		ret.Set("comment", "ACL Type does not exist")
		return nil, ret, nil
	}
	return l, nil, nil
}

// of are the entries of the wanted kind for one path.
func (l *aclLists) of(path string) []any {
	lists := l.files.Map(path)
	if l.ofDefault {
		lists = lists.Map("defaults")
	}
	return toItems(lists.Value(l.kind))
}

// findACL is the entry of a user or group, nil if there is none.
func findACL(entries []any, who string) *Map {
	for _, e := range slices.Backward(entries) {
		if m, ok := e.(*Map); ok && m.Has(who) {
			return m.Map(who)
		}
	}
	return nil
}

// aclOctal is the number of permissions such as rwx.
func aclOctal(perms string) int64 {
	n := int64(0)
	for _, r := range perms {
		switch r {
		case 'r':
			n += 4
		case 'w':
			n += 2
		case 'x':
			n++
		}
	}
	return n
}

// aclOldPerms is how a report writes the permissions that were there.
func aclOldPerms(entry *Map) string {
	n, _ := toInt(entry.Value("octal"))
	text := ""
	for _, bit := range []struct {
		bit  int64
		name string
	}{{1, "r"}, {2, "w"}, {4, "x"}} {
		if n&bit.bit != 0 {
			text += bit.name
		} else {
			text += "-"
		}
	}
	return text
}

// setACLs sets an entry for each of names.
func setACLs(ctx context.Context, c *Call, path, kind string, names []string, perms string, recurse, force bool) error {
	kw := NewMap("recursive", recurse, "raise_err", true)
	if force {
		if _, err := c.RunKw(ctx, "acl.wipefacls", []any{path}, kw); err != nil {
			return err
		}
	}
	for _, n := range names {
		if _, err := c.RunKw(ctx, "acl.modfacl", []any{kind, n, perms, path}, kw); err != nil {
			return err
		}
	}
	return nil
}

// aclChange reports and makes a change: in a dry run it is only said.
type aclChange struct {
	would, did, who string
	changes         *Map
}

func (a aclChange) make(c *Call, ret *Map, set func() error) (any, error) {
	if c.Testing() {
		ret.Set("changes", a.changes)
		return stateSay(ret, nil, "%s", a.would)
	}
	if err := set(); err != nil {
		if !isExecError(err) {
			return nil, err
		}
		return stateSay(ret, false, "Error updating permissions for %s: %s", a.who, errText(err))
	}
	ret.Set("changes", a.changes)
	return stateSay(ret, true, "%s", a.did)
}

func aclStatePresent(ctx context.Context, c *Call, a struct {
	Name    string
	AclType string
	AclName string `def:"''"`
	Perms   string `def:"''"`
	Recurse bool   `def:"False"`
	Force   bool   `def:"False"`
}) (any, error) {
	l, ret, err := readACLs(ctx, c, a.Name, a.AclType, a.Recurse)
	if l == nil {
		return ret, err
	}
	ret = stateReturn(a.Name, true, "")
	who := a.AclName
	if who == "" {
		who = l.owner
	}
	set := func() error {
		return setACLs(ctx, c, a.Name, a.AclType, []string{a.AclName}, a.Perms, a.Recurse, a.Force)
	}
	wanted := NewMap("acl_name", a.AclName, "acl_type", a.AclType, "perms", a.Perms)
	have := findACL(l.entries, who)
	if have == nil {
		return aclChange{
			would: fmt.Sprintf("New permissions will be applied for %s: %s", a.AclName, a.Perms),
			did:   "Applied new permissions for " + a.AclName, who: a.AclName, changes: NewMap("new", wanted),
		}.make(c, ret, set)
	}
	right := func(entry *Map) bool {
		n, ok := toInt(entry.Value("octal"))
		return ok && n == aclOctal(a.Perms)
	}
	good := right(have)
	if a.Recurse {
		good = true
		for p := range l.files.All() {
			if path := Str(p); !l.ofDefault || isDir(path) {
				good = good && right(findACL(l.of(path), who))
			}
		}
	}
	if good {
		return stateSay(ret, true, "Permissions are in the desired state")
	}
	old := aclOldPerms(have)
	return aclChange{
		would: fmt.Sprintf("Updated permissions will be applied for %s: %s -> %s", a.AclName, old, a.Perms),
		did:   "Updated permissions for " + a.AclName, who: a.AclName,
		changes: NewMap("new", wanted, "old", NewMap("acl_name", a.AclName, "acl_type", a.AclType, "perms", old)),
	}.make(c, ret, set)
}

func aclStateAbsent(ctx context.Context, c *Call, a struct {
	Name    string
	AclType string
	AclName string `def:"''"`
	Perms   string `def:"''"`
	Recurse bool   `def:"False"`
}) (any, error) {
	l, ret, err := readACLs(ctx, c, a.Name, a.AclType, a.Recurse)
	if l == nil {
		return ret, err
	}
	who := a.AclName
	if who == "" {
		who = l.owner
	}
	found := false
	for p := range l.files.All() {
		found = found || findACL(l.of(Str(p)), who) != nil
	}
	return removeACLs(ctx, c, a.Name, a.AclType, []string{a.AclName}, a.Recurse, found)
}

// removeACLs removes the entries of names if one of them was found.
func removeACLs(ctx context.Context, c *Call, path, kind string, names []string, recurse, found bool) (any, error) {
	ret := stateReturn(path, true, "")
	if !found {
		return stateSay(ret, true, "Permissions are in the desired state")
	}
	const comment = "Removing permissions"
	if c.Testing() {
		return stateSay(ret, nil, comment)
	}
	for _, n := range names {
		if _, err := c.RunKw(ctx, "acl.delfacl", []any{kind, n, path}, NewMap("recursive", recurse)); err != nil {
			return nil, err
		}
	}
	return stateSay(ret, true, comment)
}

func aclStateListPresent(ctx context.Context, c *Call, a struct {
	Name     string
	AclType  string
	AclNames any    `def:"None"`
	Perms    string `def:"''"`
	Recurse  bool   `def:"False"`
	Force    bool   `def:"False"`
}) (any, error) {
	l, ret, err := readACLs(ctx, c, a.Name, a.AclType, false)
	if l == nil {
		return ret, err
	}
	ret = stateReturn(a.Name, true, "")
	names := texts(NewList(toItems(a.AclNames)...))
	all, shown := strings.Join(names, ", "), Str(NewList(toItems(a.AclNames)...))
	set := func() error { return setACLs(ctx, c, a.Name, a.AclType, names, a.Perms, a.Recurse, a.Force) }
	add := aclChange{would: fmt.Sprintf("New permissions will be applied for %s: %s", shown, a.Perms), did: "Applied new permissions for " + all,
		who: shown, changes: NewMap("new", NewMap("acl_name", all, "acl_type", a.AclType, "perms", a.Perms))}
	for _, n := range names {
		have := findACL(l.entries, n)
		if have == nil {
			return add.make(c, ret, set)
		}
		octal, _ := toInt(have.Value("octal"))
		if want := aclOctal(a.Perms); octal != want {
			entry := func(perms any) *Map { return NewMap("acl_name", all, "acl_type", a.AclType, "perms", perms) }
			return aclChange{would: fmt.Sprintf("Updated permissions will be applied for %s: %d -> %s", shown, octal, a.Perms),
				did: "Updated permissions for " + shown, who: shown,
				changes: NewMap("new", entry(want), "old", entry(fmt.Sprint(octal)))}.make(c, ret, set)
		}
	}
	if len(names) == 0 {
		return add.make(c, ret, set)
	}
	return stateSay(ret, true, "Permissions are in the desired state")
}

func aclStateListAbsent(ctx context.Context, c *Call, a struct {
	Name     string
	AclType  string
	AclNames any  `def:"None"`
	Recurse  bool `def:"False"`
}) (any, error) {
	l, ret, err := readACLs(ctx, c, a.Name, a.AclType, false)
	if l == nil {
		return ret, err
	}
	names := texts(NewList(toItems(a.AclNames)...))
	found := false
	for _, n := range names {
		found = found || findACL(l.entries, n) != nil
	}
	return removeACLs(ctx, c, a.Name, a.AclType, names, a.Recurse, found)
}
