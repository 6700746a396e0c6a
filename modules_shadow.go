// Module shadow: passwords and their ages.
//
// The law of this room: /etc/shadow is read and changed directly, under the
// lock of the account files; no program of the box is needed, and passwords
// never stand on a command line.
package main

import (
	"context"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
)

func shadowModule() Module {
	return Module{
		Doc: "Manage the passwords of users and their ages.",
		Virtual: func(_ context.Context, c *Call) (bool, string) {
			return grain(c, "kernel") == "Linux", "the shadow module manages /etc/shadow, which only Linux has"
		},
		Funcs: Funcs{
			"default_hash":    {run: func(context.Context, *Call, noArgs) (any, error) { return "!", nil }, doc: "Return the hash that stands for no password."},
			"info":            {run: shadowInfo, doc: "Return hash and ages of a user's password."},
			"list_users":      {run: shadowListUsers, doc: "List the users that have an entry in /etc/shadow."},
			"gen_password":    {run: shadowGenPassword, doc: "Hash a password as /etc/shadow has it.\n\nCLI Example:\n\n    salt '*' shadow.gen_password 'I_am_password' crypt_salt='I_am_salt' algorithm=sha256"},
			"set_password":    {run: shadowSetPassword, doc: "Set the hash of a user's password. It must be hashed already, see shadow.gen_password."},
			"del_password":    {run: shadowDelPassword, doc: "Let a user log in without a password."},
			"lock_password":   {run: shadowLockPassword, doc: "Lock a user's password."},
			"unlock_password": {run: shadowUnlockPassword, doc: "Unlock a user's password."},
			"set_inactdays":   {run: shadowSetter("inact", 6, true), value: "inactdays", doc: "Set after how many days with an expired password an account is locked."},
			"set_maxdays":     {run: shadowSetter("max", 4, true), value: "maxdays", doc: "Set how many days a password is valid."},
			"set_mindays":     {run: shadowSetter("min", 3, true), value: "mindays", doc: "Set how many days must be between changes of a password."},
			"set_warndays":    {run: shadowSetter("warn", 5, true), value: "warndays", doc: "Set how many days ahead a user is warned."},
			"set_date":        {run: shadowSetter("lstchg", 2, false), value: "date", doc: "Set when the password was changed: days since 1970 or YYYY-MM-DD.\n\nCLI Example:\n\n    salt '*' shadow.set_date username 0"},
			"set_expire":      {run: shadowSetter("expire", 7, false), value: "expire", doc: "Set when an account expires: days since 1970, YYYY-MM-DD or -1 for never.\n\nCLI Example:\n\n    salt '*' shadow.set_expire username -1"},
		},
	}
}

// shadowLine finds the fields of a user in /etc/shadow under root.
func shadowLine(root, name string) []string {
	lines, err := accountLines(root + "/etc/shadow")
	if err != nil {
		return nil
	}
	for _, f := range lines {
		if f[0] == name && len(f) >= 2 {
			for len(f) < 9 {
				f = append(f, "")
			}
			return f
		}
	}
	return nil
}

func infoOfShadow(root any, name string) *Map {
	keys := []string{"name", "passwd", "lstchg", "min", "max", "warn", "inact", "expire"}
	out := &Map{}
	f := shadowLine(rootOf(root), name)
	for i, key := range keys {
		switch {
		case f == nil:
			out.Set(key, "")
		case i < 2:
			out.Set(key, f[i])
		default:
			n, ok := intText(f[i])
			if !ok {
				n = -1
			}
			out.Set(key, n)
		}
	}
	return out
}

func shadowInfo(_ context.Context, _ *Call, a userRootArgs) (any, error) {
	return infoOfShadow(a.Root, a.Name), nil
}

func shadowListUsers(_ context.Context, _ *Call, a rootArgs) (any, error) {
	lines, err := accountLines(rootOf(a.Root) + "/etc/shadow")
	if err != nil {
		return nil, osError(err)
	}
	var names []string
	for _, f := range lines {
		if f[0] != "" {
			names = append(names, f[0])
		}
	}
	sort.Strings(names)
	return Strings(names), nil
}

type genPasswordArgs struct {
	Password  any
	CryptSalt any    `def:"None"`
	Algorithm string `def:"'sha512'"`
}

func shadowGenPassword(_ context.Context, _ *Call, a genPasswordArgs) (any, error) {
	return shadowHash(a.CryptSalt, a.Password, a.Algorithm)
}

// changeShadow changes a user's line. add: make one if there is none.
func changeShadow(ctx context.Context, root any, name string, add bool, f func(fields []string)) error {
	dir := rootOf(root)
	return withAccountLock(ctx, dir, func() error {
		return editAccount(dir+"/etc/shadow", name, false, 0o640, func(fields []string) []string {
			if fields == nil {
				if !add {
					return nil
				}
				fields = []string{name}
			}
			for len(fields) < 9 {
				fields = append(fields, "")
			}
			f(fields)
			return fields
		})
	})
}

type setPasswordArgs struct {
	Name       string
	Password   any
	UseUsermod any `def:"False"`
	Root       any `def:"None"`
}

func shadowSetPassword(ctx context.Context, c *Call, a setPasswordArgs) (any, error) {
	c.SetRetcode(0)
	if _, ok := findUser(a.Name, a.Root); !ok {
		c.Log.Warn("user " + a.Name + " does not exist, cannot set password")
		return false, nil
	}
	if !isFile(rootOf(a.Root) + "/etc/shadow") {
		return &Map{}, nil
	}
	hash := Str(a.Password)
	if err := usableField(hash); err != nil {
		return nil, err
	}
	err := changeShadow(ctx, a.Root, a.Name, true, func(f []string) {
		f[1], f[2] = hash, strconv.FormatInt(time.Now().Unix()/86400, 10)
	})
	if err != nil {
		return nil, err
	}
	return infoOfShadow(a.Root, a.Name).Str("passwd") == hash, nil
}

func shadowDelPassword(ctx context.Context, c *Call, a userRootArgs) (any, error) {
	if shadowLine(rootOf(a.Root), a.Name) == nil {
		c.SetRetcode(1)
		return false, nil
	}
	err := changeShadow(ctx, a.Root, a.Name, false, func(f []string) { f[1] = "" })
	return err == nil, err
}

func shadowLockPassword(ctx context.Context, _ *Call, a userRootArgs) (any, error) {
	f := shadowLine(rootOf(a.Root), a.Name)
	if f == nil {
		return false, nil
	}
	if strings.HasPrefix(f[1], "!") {
		return true, nil
	}
	err := changeShadow(ctx, a.Root, a.Name, false, func(f []string) { f[1] = "!" + f[1] })
	return err == nil, err
}

func shadowUnlockPassword(ctx context.Context, c *Call, a userRootArgs) (any, error) {
	f := shadowLine(rootOf(a.Root), a.Name)
	if f == nil {
		return false, nil
	}
	if !strings.HasPrefix(f[1], "!") {
		return true, nil
	}
	rest := strings.TrimLeft(f[1], "!")
	if rest == "" {
		// Unlocking would leave an account without a password.
		c.Log.Error("shadow.unlock_password: " + a.Name + " has no password to unlock; set one first")
		c.SetRetcode(3)
		return false, nil
	}
	err := changeShadow(ctx, a.Root, a.Name, false, func(f []string) { f[1] = rest })
	return err == nil, err
}

// shadowDays reads a number of days or a date; -1 means that there is none.
func shadowDays(v any) (string, bool) {
	text := strings.TrimSpace(Str(v))
	if text == "" {
		return "", true
	}
	if n, ok := intText(text); ok {
		if n < 0 {
			return "", n == -1
		}
		return strconv.FormatInt(n, 10), true
	}
	t, err := time.Parse("2006-01-02", text)
	if err != nil {
		return "", false
	}
	return strconv.FormatInt(t.Unix()/86400, 10), true
}

type shadowFieldArgs struct {
	Name  string
	Value any
	Root  any `def:"None"`
}

// shadowSetter sets one field. With validate the result is whether it then
// reads as the value that was given.
func shadowSetter(key string, field int, validate bool) func(context.Context, *Call, shadowFieldArgs) (any, error) {
	return func(ctx context.Context, c *Call, a shadowFieldArgs) (any, error) {
		info := infoOfShadow(a.Root, a.Name)
		if info.Str("name") == "" {
			return false, nil
		}
		if Equal(a.Value, info.Value(key)) {
			return true, nil
		}
		days, ok := shadowDays(a.Value)
		if !ok {
			c.Log.Error("shadow: " + Repr(a.Value) + " is neither a number of days nor a date like 2030-01-31")
			c.SetRetcode(2)
			return false, nil
		}
		if err := changeShadow(ctx, a.Root, a.Name, false, func(f []string) { f[field] = days }); err != nil {
			if os.IsPermission(err) {
				return false, nil
			}
			return nil, err
		}
		if validate {
			return Equal(infoOfShadow(a.Root, a.Name).Value(key), a.Value), nil
		}
		return true, nil
	}
}
