// State module user: accounts, with their passwords and the ages of these.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

func userStates() Module {
	return Module{
		Doc: "Accounts of users.",
		Funcs: Funcs{
			"present": {run: userStatePresent, doc: "The account exists, with these properties; what is not named stays as it is.\n\ngroups: further groups, which have to exist; optional_groups may be missing\n" +
				"remove_groups: False leaves it in groups that are not named\npassword: the hash, or the clear text with hash_password\ncreatehome: make the home directory if it is missing"},
			"absent": {run: userStateAbsent, doc: "The account does not exist; purge removes its files as well."},
		},
	}
}

// secretText stands for passwords in reports.
const secretText = "XXX-REDACTED-XXX"

type userStateArgs struct {
	Name            string
	UID             any `arg:"uid" def:"None"`
	Gid             any `def:"None"`
	Usergroup       any `def:"None"`
	Groups          any `def:"None"`
	OptionalGroups  any `def:"None"`
	RemoveGroups    any `def:"True"`
	Home            any `def:"None"`
	Createhome      any `def:"True"`
	PersistHome     any `def:"False"`
	Password        any `def:"None"`
	HashPassword    any `def:"False"`
	EnforcePassword any `def:"True"`
	EmptyPassword   any `def:"False"`
	Shell           any `def:"None"`
	Unique          any `def:"True"`
	System          any `def:"False"`
	Fullname        any `def:"None"`
	Roomnumber      any `def:"None"`
	Workphone       any `def:"None"`
	Homephone       any `def:"None"`
	Other           any `def:"None"`
	Loginclass      any `def:"None"`
	Date            any `def:"None"`
	Mindays         any `def:"None"`
	Maxdays         any `def:"None"`
	Inactdays       any `def:"None"`
	Warndays        any `def:"None"`
	Expire          any `def:"None"`
	WinHomedrive    any `def:"None"`
	WinProfile      any `def:"None"`
	WinLogonscript  any `def:"None"`
	WinDescription  any `def:"None"`
	Nologinit       any `def:"False"`
	AllowUIDChange  any `arg:"allow_uid_change" def:"False"`
	AllowGIDChange  any `arg:"allow_gid_change" def:"False"`
	PasswordLock    any `def:"None"`
}

// ages are the fields of the shadow entry that a state may set.
func (a *userStateArgs) ages() []struct {
	name, shadow, fun, words string
	v                        any
} {
	return []struct {
		name, shadow, fun, words string
		v                        any
	}{
		{"date", "lstchg", "shadow.set_date", "last change date", a.Date},
		{"mindays", "min", "shadow.set_mindays", "minimum days", a.Mindays},
		{"maxdays", "max", "shadow.set_maxdays", "maximum days", a.Maxdays},
		{"inactdays", "inact", "shadow.set_inactdays", "inactive days", a.Inactdays},
		{"warndays", "warn", "shadow.set_warndays", "warn days", a.Warndays},
		{"expire", "expire", "shadow.set_expire", "expire days", a.Expire},
	}
}

// groupsDiffer says whether memberships have to change; two names of one group
// are the same.
func groupsDiffer(ctx context.Context, c *Call, have, wanted []any, remove bool) (bool, error) {
	have, wanted = uniqueItems(have...), uniqueItems(wanted...)
	if allWithin(wanted, have) && (!remove || allWithin(have, wanted)) {
		return false, nil
	}
	all := uniqueItems(append(slices.Clone(have), wanted...)...)
	gids := map[string]any{}
	for _, g := range all {
		info, err := runMap(ctx, c, "group.info", g)
		if err != nil {
			return false, err
		}
		gids[Str(g)] = info.Value("gid")
	}
	for _, g := range all {
		missing := hasItem(wanted, g) && !hasItem(have, g)
		extra := remove && hasItem(have, g) && !hasItem(wanted, g)
		if !missing && !extra {
			continue
		}
		twin := false
		for _, other := range all {
			twin = twin || !Equal(other, g) && Equal(gids[Str(other)], gids[Str(g)])
		}
		if !twin {
			return true, nil
		}
	}
	return false, nil
}

func dropItem(items []any, v any) []any {
	var out []any
	for _, item := range items {
		if !Equal(item, v) {
			out = append(out, item)
		}
	}
	return out
}

// userGroupChange is the list of groups that an account has to get; nil if its
// groups are right.
func userGroupChange(ctx context.Context, c *Call, a *userStateArgs, gid any, optional []any, info *Map) (*List, error) {
	have := toItems(info.Value("groups"))
	wanted := uniqueItems(append(slices.Clone(toItems(a.Groups)), optional...)...)
	remove := Truth(a.RemoveGroups)
	if !remove || a.Groups == nil && len(optional) == 0 {
		wanted = uniqueItems(append(wanted, have...)...)
	}
	sortItems(wanted)
	if gid == nil {
		gid = info.Value("gid")
	}
	first, err := c.Run(ctx, "file.gid_to_group", gid)
	if err != nil {
		return nil, err
	}
	old, err := c.Run(ctx, "file.gid_to_group", info.Value("gid"))
	if err != nil {
		return nil, err
	}
	// Several names of one group count as one.
	names := func(group any) []any {
		id, err := c.Run(ctx, "file.group_to_gid", group)
		if err != nil {
			return []any{group}
		}
		out := []any{group}
		for _, g := range have {
			if v, err := c.Run(ctx, "file.group_to_gid", g); err == nil && Equal(v, id) && !Equal(g, group) {
				out = append(out, g)
			}
		}
		return out
	}
	for _, g := range names(first) {
		have, wanted = dropItem(have, g), dropItem(wanted, g)
	}
	if !Equal(old, first) {
		for _, g := range names(old) {
			have = dropItem(have, g)
		}
	}
	if hasItem(have, a.Name) && !hasItem(wanted, a.Name) {
		for _, g := range names(a.Name) {
			have = dropItem(have, g)
		}
	}
	differ, err := groupsDiffer(ctx, c, have, wanted, remove)
	if err != nil || !differ || len(wanted) == 0 && !remove {
		return nil, err
	}
	return NewList(wanted...), nil
}

// sortItems sorts as sorted() does; what cannot be compared stays.
func sortItems(items []any) {
	slices.SortStableFunc(items, func(a, b any) int {
		n, err := Compare(a, b)
		if err != nil {
			return 0
		}
		return n
	})
}

// userChanges is what has to change; nil if there is no such account. refused
// lists changes that the arguments do not allow.
func userChanges(ctx context.Context, c *Call, a *userStateArgs, gid any, optional []any, allow bool) (changes *Map, refused []string, err error) {
	shadow := NewMap()
	hasShadow := c.Has(ctx, "shadow.info")
	if hasShadow {
		if shadow, err = runMap(ctx, c, "shadow.info", a.Name); err != nil {
			return nil, nil, err
		}
	}
	info, err := runMap(ctx, c, "user.info", a.Name)
	if err != nil || info.Len() == 0 {
		return nil, nil, err
	}
	changes = NewMap()
	if Truth(a.UID) && !Equal(info.Value("uid"), a.UID) {
		changes.Set("uid", a.UID)
	}
	if gid != nil && !Equal(info.Value("gid"), gid) {
		number, err := c.Run(ctx, "file.group_to_gid", gid)
		if err != nil {
			return nil, nil, err
		}
		if !Equal(info.Value("gid"), number) {
			changes.Set("gid", gid)
		}
	}
	groups, err := userGroupChange(ctx, c, a, gid, optional, info)
	if err != nil {
		return nil, nil, err
	}
	if groups != nil {
		changes.Set("groups", groups)
	}
	if Truth(a.Home) && !Equal(info.Value("home"), a.Home) {
		changes.Set("home", a.Home)
	}
	if Truth(a.Createhome) {
		home := info.Value("home")
		if Truth(a.Home) {
			home = a.Home
		}
		if st, err := os.Stat(Str(home)); home != nil && (err != nil || !st.IsDir()) {
			changes.Set("homeDoesNotExist", home)
		}
	}
	if Truth(a.Shell) && !Equal(info.Value("shell"), a.Shell) {
		changes.Set("shell", a.Shell)
	}
	if hasShadow && c.Has(ctx, "shadow.default_hash") {
		hash := Str(shadow.Value("passwd"))
		if Truth(a.Password) && !Truth(a.EmptyPassword) {
			def, err := c.Run(ctx, "shadow.default_hash")
			if err != nil {
				return nil, nil, err
			}
			if (def == hash || Truth(a.EnforcePassword)) && hash != Str(a.Password) {
				changes.Set("passwd", a.Password)
			}
		}
		if Truth(a.EmptyPassword) && hash != "" {
			changes.Set("empty_password", true)
		}
		for _, age := range a.ages() {
			if age.v == nil || age.name == "expire" && !Truth(age.v) {
				continue
			}
			if !Equal(shadow.Value(age.shadow), age.v) {
				changes.Set(age.name, age.v)
			}
		}
		locked := strings.HasPrefix(hash, "!")
		if Truth(a.PasswordLock) && !locked || a.PasswordLock == false && locked {
			changes.Set("password_lock", a.PasswordLock)
		}
	}
	for _, f := range []struct {
		name string
		v    any
	}{{"fullname", a.Fullname}, {"roomnumber", a.Roomnumber}, {"workphone", a.Workphone}, {"homephone", a.Homephone}, {"other", a.Other}} {
		if f.v != nil && !Equal(info.Value(f.name), f.v) && (f.name == "fullname" || c.Has(ctx, "user.ch"+f.name)) {
			changes.Set(f.name, f.v)
		}
	}
	for _, f := range []struct {
		name    string
		v       any
		allowed any
	}{{"uid", a.UID, a.AllowUIDChange}, {"gid", gid, a.AllowGIDChange}} {
		if changes.Has(f.name) && !Truth(f.allowed) && !allow {
			refused = append(refused, fmt.Sprintf("Changing %s (%s -> %s) not permitted, set allow_%s_change to True to force this change. Note that this will not change file ownership.",
				f.name, Str(info.Value(f.name)), Str(f.v), f.name))
		}
	}
	return changes, refused, nil
}

// hashedPassword makes the hash of a clear text, with the salt of the present
// hash so that the same text gives the same hash.
func hashedPassword(ctx context.Context, c *Call, name string, password any) (any, error) {
	info, err := runMap(ctx, c, "shadow.info", name)
	if err != nil {
		return nil, err
	}
	if parts := strings.SplitN(Str(info.Value("passwd")), "$", 5); len(parts) == 4 {
		algorithms := map[string]any{"1": "md5", "2a": "blowfish", "5": "sha256", "6": "sha512"}
		return c.RunKw(ctx, "shadow.gen_password", []any{password}, NewMap("crypt_salt", parts[2], "algorithm", algorithms[parts[1]]))
	}
	return c.Run(ctx, "shadow.gen_password", password)
}

func userStatePresent(ctx context.Context, c *Call, a userStateArgs) (any, error) {
	if Truth(a.Password) && Truth(a.HashPassword) {
		hash, err := hashedPassword(ctx, c, a.Name, a.Password)
		if err != nil {
			return nil, err
		}
		a.Password = hash
	}
	for _, f := range []*any{&a.Fullname, &a.Roomnumber, &a.Workphone, &a.Homephone, &a.Other} {
		if *f != nil {
			*f = Str(*f)
		}
	}
	ret := stateReturn(a.Name, true, "User "+a.Name+" is present and up to date")
	for _, f := range []any{a.Fullname, a.Roomnumber, a.Workphone} {
		if s, _ := f.(string); strings.Contains(s, ",") {
			return stateSay(ret, false, "Unsupported char ',' in %s", s)
		}
	}
	exists := func(items any) (there, missing []any, err error) {
		for _, g := range toItems(items) {
			ok, err := runTruth(ctx, c, "group.info", g)
			if err != nil {
				return nil, nil, err
			}
			if ok {
				there = append(there, g)
			} else {
				missing = append(missing, g)
			}
		}
		return there, missing, nil
	}
	_, missing, err := exists(a.Groups)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return stateSay(ret, false, "The following group(s) are not present: %s", commaTexts(missing))
	}
	optional, _, err := exists(a.OptionalGroups)
	if err != nil {
		return nil, err
	}
	gid := a.Gid
	if Truth(a.Usergroup) {
		if v, err := c.Run(ctx, "file.group_to_gid", a.Name); err != nil {
			return nil, err
		} else if v != "" {
			gid = a.Name
		}
	}
	changes, refused, err := userChanges(ctx, c, &a, gid, optional, false)
	if err != nil {
		return nil, err
	}
	switch {
	case len(refused) > 0:
		return stateSay(ret, false, "Encountered error checking for needed changes. Additional info follows:\n\n%s", "- "+strings.Join(refused, "\n- "))
	case changes == nil:
		return userStateAdd(ctx, c, ret, &a, optional)
	case changes.Len() == 0:
		return ret, nil
	case c.Testing():
		text := "The following user attributes are set to be changed:\n"
		for k, v := range changes.All() {
			if k == "passwd" {
				v = secretText
			}
			text += Str(k) + ": " + Str(v) + "\n"
		}
		return stateSay(ret, nil, "%s", text)
	}
	return userStateChange(ctx, c, ret, &a, changes, optional)
}

func userStateChange(ctx context.Context, c *Call, ret *Map, a *userStateArgs, changes *Map, optional []any) (any, error) {
	hasShadow := c.Has(ctx, "shadow.info")
	var shadow *Map
	var err error
	if hasShadow {
		if shadow, err = runMap(ctx, c, "shadow.info", a.Name); err != nil {
			return nil, err
		}
	}
	pre, err := runMap(ctx, c, "user.info", a.Name)
	if err != nil {
		return nil, err
	}
	if err := applyUserChanges(ctx, c, a, changes, pre); err != nil {
		return nil, err
	}
	post, err := runMap(ctx, c, "user.info", a.Name)
	if err != nil {
		return nil, err
	}
	did := ret.Map("changes")
	for k, v := range post.All() {
		if !Equal(v, pre.Value(k)) {
			did.Set(k, v)
		}
	}
	if hasShadow && !Equal(shadow.Value("passwd"), a.Password) {
		after, err := runMap(ctx, c, "shadow.info", a.Name)
		if err != nil {
			return nil, err
		}
		for k, v := range after.All() {
			if Equal(v, shadow.Value(k)) {
				continue
			}
			if k == "passwd" {
				v = secretText
			}
			did.Set(k, v)
		}
	}
	if did.Len() > 0 {
		ret.Set("comment", "Updated user "+a.Name)
	}
	left, _, err := userChanges(ctx, c, a, a.Gid, optional, true)
	if err != nil {
		return nil, err
	}
	if left.Len() > 0 {
		return stateSay(ret, false, "These values could not be changed: %s", Str(left))
	}
	return ret, nil
}

// applyUserChanges makes the changes, in the order that keeps each possible.
func applyUserChanges(ctx context.Context, c *Call, a *userStateArgs, changes, pre *Map) error {
	run := func(fun string, args ...any) error {
		_, err := c.Run(ctx, fun, append([]any{a.Name}, args...)...)
		return err
	}
	take := func(key string) (any, bool) {
		v, ok := changes.Get(key)
		changes.Delete(key)
		return v, ok
	}
	if v, ok := take("passwd"); ok && !Truth(a.EmptyPassword) {
		if err := run("shadow.set_password", v); err != nil {
			return err
		}
	}
	if _, ok := take("empty_password"); ok {
		if err := run("shadow.del_password"); err != nil {
			return err
		}
	}
	if v, ok := take("password_lock"); ok {
		fun := "shadow.unlock_password"
		if Truth(v) {
			fun = "shadow.lock_password"
		}
		if err := run(fun); err != nil {
			return err
		}
	}
	if v, ok := take("date"); ok {
		if err := run("shadow.set_date", v); err != nil {
			return err
		}
	}
	home := func(v any) error {
		_, err := c.RunKw(ctx, "user.chhome", []any{a.Name, v}, NewMap("persist", a.PersistHome))
		return err
	}
	if v, ok := take("home"); ok && !changes.Has("homeDoesNotExist") {
		if err := home(v); err != nil {
			return err
		}
	}
	if v, ok := take("homeDoesNotExist"); ok {
		if err := home(v); err != nil {
			return err
		}
		if st, err := os.Stat(Str(v)); err != nil || !st.IsDir() {
			if _, err := c.Run(ctx, "file.mkdir", v, pre.Value("uid"), pre.Value("gid"), int64(0o755)); err != nil {
				return err
			}
		}
	}
	for _, age := range a.ages()[1:] {
		if v, ok := take(age.name); ok {
			if err := run(age.fun, v); err != nil {
				return err
			}
		}
	}
	for _, key := range changes.Keys() {
		if fun := "user.ch" + Str(key); key != "groups" && c.Has(ctx, fun) {
			v, _ := take(Str(key))
			if err := run(fun, v); err != nil {
				return err
			}
		}
	}
	if v, ok := take("groups"); ok {
		return run("user.chgroups", v, !Truth(a.RemoveGroups))
	}
	return nil
}

func userStateAdd(ctx context.Context, c *Call, ret *Map, a *userStateArgs, optional []any) (any, error) {
	if c.Testing() {
		return stateSay(ret, nil, "User %s set to be added", a.Name)
	}
	groups := a.Groups
	if len(optional) > 0 {
		groups = NewList(append(slices.Clone(toItems(groups)), optional...)...)
	}
	result, err := c.RunKw(ctx, "user.add", nil, NewMap("name", a.Name, "uid", a.UID, "gid", a.Gid, "groups", groups, "home", a.Home, "shell", a.Shell,
		"unique", a.Unique, "system", a.System, "fullname", a.Fullname, "roomnumber", a.Roomnumber, "workphone", a.Workphone, "homephone", a.Homephone,
		"other", a.Other, "createhome", a.Createhome, "nologinit", a.Nologinit, "loginclass", a.Loginclass, "usergroup", a.Usergroup))
	if err != nil {
		return nil, err
	}
	if result != true {
		if s, ok := result.(string); ok {
			return stateSay(ret, false, "%s", s)
		}
		return stateSay(ret, false, "Failed to create new user %s", a.Name)
	}
	ret.Set("comment", "New user "+a.Name+" created")
	changes, err := runMap(ctx, c, "user.info", a.Name)
	if err != nil {
		return nil, err
	}
	changes = mapOrNew(changes)
	ret.Set("changes", changes)
	if !Truth(a.Createhome) {
		changes.Set("home", "")
	}
	if !c.Has(ctx, "shadow.info") {
		return ret, nil
	}
	// set makes one change and looks whether it took.
	set := func(field string, want any, fail, key string, shown any, fun string, args ...any) error {
		if _, err := c.Run(ctx, fun, append([]any{a.Name}, args...)...); err != nil {
			return err
		}
		now, err := runMap(ctx, c, "shadow.info", a.Name)
		if err != nil {
			return err
		}
		if !Equal(now.Value(field), want) {
			ret.Set("comment", "User "+a.Name+" created but failed to "+fail)
			ret.Set("result", false)
		}
		changes.Set(key, shown)
		return nil
	}
	if Truth(a.Password) && !Truth(a.EmptyPassword) {
		if err := set("passwd", a.Password, "set password to "+secretText, "password", secretText, "shadow.set_password", a.Password); err != nil {
			return nil, err
		}
	}
	if Truth(a.EmptyPassword) && !Truth(a.Password) {
		if err := set("passwd", "", "empty password", "password", "", "shadow.del_password"); err != nil {
			return nil, err
		}
	}
	for _, age := range a.ages() {
		if age.v == nil || age.name != "date" && !Truth(age.v) {
			continue
		}
		if err := set(age.shadow, age.v, "set "+age.words+" to "+Str(age.v), age.name, age.v, age.fun, age.v); err != nil {
			return nil, err
		}
	}
	return ret, nil
}

func userStateAbsent(ctx context.Context, c *Call, a struct {
	Name  string
	Purge any `def:"False"`
	Force any `def:"False"`
}) (any, error) {
	ret := stateReturn(a.Name, true, "")
	info, err := runMap(ctx, c, "user.info", a.Name)
	if err != nil {
		return nil, err
	}
	if info.Len() == 0 {
		return stateSay(ret, true, "User %s is not present", a.Name)
	}
	if c.Testing() {
		return stateSay(ret, nil, "User %s set for removal", a.Name)
	}
	done, err := c.Run(ctx, "user.delete", a.Name, a.Purge, a.Force)
	if err != nil {
		return nil, err
	}
	if !Truth(done) {
		return stateSay(ret, false, "Failed to remove user %s", a.Name)
	}
	for _, g := range toItems(info.Value("groups")) {
		there, err := runTruth(ctx, c, "group.info", g)
		if err != nil {
			return nil, err
		}
		if !there {
			ret.Map("changes").Set(Str(g)+" group", "removed")
		}
	}
	ret.Map("changes").Set(a.Name, "removed")
	return stateSay(ret, done, "Removed user %s", a.Name)
}
