// Who may ask for what in clear: local users by their key files, users of
// external systems, and the lists that limit them.
//
// The law of this room: authenticate is the only gate. It compares in constant
// time, and its outcome is a name and, for everybody but the owner of the
// master's key, the list of rules that limit him. A rule that cannot be
// understood allows nothing.
package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// identity is who asks.
type identity struct {
	name    string // "" for the owner of the master's key under his own name
	groups  []string
	limited bool  // only what rules allow
	rules   []any // publisher_acl or external_auth entries
}

// makeUserKeys writes the key files of the users who may use the command line:
// the master's own and those of publisher_acl that exist.
func makeUserKeys(o *Options, cachedir string, log *slog.Logger) (map[string]string, error) {
	self := currentUser()
	names := map[string]bool{self: true}
	if u := o.Str("user"); u != "" {
		names[u] = true
	}
	acl := o.Map("publisher_acl")
	for name := range acl.All() {
		if s, ok := name.(string); ok && !strings.ContainsAny(s, `*?[]()^$|\/`) {
			names[s] = true
		}
	}
	if acl.Len() > 0 || o.Map("external_auth").Len() > 0 {
		// Those users must be able to reach their file.
		if st, err := os.Stat(cachedir); err == nil && st.Mode().Perm()&0o001 == 0 {
			os.Chmod(cachedir, st.Mode().Perm()|0o001)
		}
	}
	keys := map[string]string{}
	for name := range names {
		u, err := user.Lookup(name)
		if err != nil && name != self {
			log.Error(fmt.Sprintf("user %s of publisher_acl does not exist; it gets no key", name))
			continue
		}
		key, err := userKey(filepath.Join(cachedir, "."+name+"_key"))
		if err != nil {
			return nil, fmt.Errorf("make the key of user %s: %w", name, err)
		}
		if u != nil && name != self {
			uid, _ := strconv.Atoi(u.Uid)
			if err := os.Chown(filepath.Join(cachedir, "."+name+"_key"), uid, -1); err != nil {
				log.Error(fmt.Sprintf("give the key file to user %s: %v", name, err))
			}
		}
		keys[name] = key
	}
	return keys, nil
}

// userKey reads a key file, or makes it. A good one is kept over a restart of
// the master, so that programs which run longer than it go on working.
func userKey(path string) (string, error) {
	st, err := os.Lstat(path)
	if err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o077 == 0 {
		if text, err := readRegular(path, 1024); err == nil {
			if _, err := NewCrypticle(string(text)); err == nil {
				return string(text), nil
			}
		}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	key := GenerateKeyString()
	return key, writeFileAtomic(path, []byte(key), 0o600)
}

// currentUser is the name of the user this process runs as. Not by user.Current,
// which remembers who it was before the daemon changed its user.
func currentUser() string {
	uid := strconv.Itoa(os.Geteuid())
	if u, err := user.LookupId(uid); err == nil {
		return u.Username
	}
	if uid == "0" {
		return "root" // a box without /etc/passwd
	}
	return uid
}

func authKind(load *Map) string {
	switch {
	case load.Has("token"):
		return "token"
	case load.Has("eauth"):
		return "eauth"
	}
	return "user"
}

func authErrorName(load *Map) string {
	kind := authKind(load)
	return strings.ToUpper(kind[:1]) + kind[1:] + "AuthenticationError"
}

// authenticate finds out who asks. load is the clear load, credentials the map
// that holds token or eauth (the kwargs of a publication).
func (m *Master) authenticate(ctx context.Context, load, credentials *Map) (identity, error) {
	switch kind := authKind(credentials); kind {
	case "token":
		return m.tokenIdentity(ctx, credentials.Str("token"))
	case "eauth":
		return m.eauthIdentity(ctx, credentials)
	}
	bad := errors.New(`Authentication failure of type "user" occurred`)
	key, ok := load.Value("key").(string)
	if !ok || key == "" {
		return identity{}, bad
	}
	matches := func(name string) bool {
		have, ok := m.conf.Load().userKeys[name]
		return ok && subtle.ConstantTimeCompare([]byte(have), []byte(key)) == 1
	}
	owner := m.o().Str("user")
	if _, ok := m.conf.Load().userKeys[owner]; !ok {
		owner = currentUser()
	}
	name := load.Str("user")
	acl := m.o().Map("publisher_acl")
	limit := func(name string) (identity, error) {
		var rules []any
		for expr, list := range acl.All() {
			if exprMatch(Str(expr), name) {
				rules = append(rules, toItems(list)...)
			}
		}
		if len(rules) == 0 {
			return identity{}, bad
		}
		return identity{limited: true, rules: rules}, nil
	}
	switch {
	case strings.HasPrefix(name, "sudo_"):
		if !matches(owner) {
			return identity{}, bad
		}
		if !m.o().Bool("sudo_acl") || acl.Len() == 0 {
			return identity{}, nil
		}
		return limit(strings.TrimPrefix(name, "sudo_"))
	case matches(owner), m.conf.Load().userKeys["root"] != "" && matches("root"):
		return identity{}, nil
	case name != "" && name != owner && name != "root" && matches(name):
		return limit(name)
	}
	return identity{}, bad
}

// blacklisted says whether publisher_acl_blacklist forbids a user or function.
func (m *Master) blacklisted(name string, fun any) bool {
	list := m.o().Map("publisher_acl_blacklist")
	if list.Len() == 0 {
		return false
	}
	listed := func(key, s string) bool {
		for _, expr := range toItems(list.Value(key)) {
			if exprMatch(Str(expr), s) {
				return true
			}
		}
		return false
	}
	if listed("users", name) {
		return true
	}
	for _, f := range funNames(fun) {
		if listed("modules", f) {
			return true
		}
	}
	return false
}

func funNames(fun any) []string {
	if s, ok := fun.(string); ok {
		return []string{s}
	}
	return toStrings(fun)
}

// matchCheck says whether an expression of a rule matches a name from its start.
func matchCheck(expr any, name string) bool {
	s, ok := expr.(string)
	if !ok {
		return false
	}
	match, err := compileAnchored(s)
	return err == nil && match(name)
}

// authCheck says whether rules allow every one of the functions. A rule is an
// expression for the function, or {target: [expressions]}, which valid decides;
// with valid nil there are no targets in the rules.
func (m *Master) authCheck(rules []any, fun any, arg *List, minions []string, valid func(target string, minions []string) bool) bool {
	names := funNames(fun)
	if len(names) == 0 {
		return false
	}
	_, several := fun.(*List)
	for i, name := range names {
		args := arg
		if several {
			args, _ = argAt(arg, i).(*List)
		}
		if !ruleAllows(rules, name, args, minions, valid) {
			return false
		}
	}
	return true
}

func argAt(arg *List, i int) any {
	if arg == nil || i >= len(arg.Items) {
		return nil
	}
	return arg.Items[i]
}

func ruleAllows(rules []any, fun string, arg *List, minions []string, valid func(string, []string) bool) bool {
	args, kwargs := splitKwarg(arg)
	for _, rule := range rules {
		switch rule := rule.(type) {
		case string:
			if matchCheck(rule, fun) {
				return true
			}
		case *Map:
			if rule.Len() != 1 || valid == nil {
				continue
			}
			target, conds := rule.At(0)
			if t, ok := target.(string); ok && valid(t, minions) && funCheck(conds, fun, args, kwargs) {
				return true
			}
		}
	}
	return false
}

// splitKwarg takes the map of named arguments off the end.
func splitKwarg(arg *List) (args []any, kwargs *Map) {
	if arg.Len() == 0 {
		return nil, nil
	}
	args = arg.Items
	if kw, ok := args[len(args)-1].(*Map); ok && kw.Has("__kwarg__") {
		return args[:len(args)-1], kw
	}
	return args, nil
}

// funCheck matches a function and its arguments with the conditions of a rule.
func funCheck(conds any, fun string, args []any, kwargs *Map) bool {
	for _, cond := range toItems(conds) {
		switch cond := cond.(type) {
		case string:
			if matchCheck(cond, fun) {
				return true
			}
		case *Map:
			if cond.Len() != 1 {
				continue
			}
			name, limits := cond.At(0)
			if matchCheck(name, fun) && argsCheck(limits, args, kwargs) {
				return true
			}
		}
	}
	return false
}

func argsCheck(limits any, args []any, kwargs *Map) bool {
	for _, limit := range toItems(limits) {
		l, ok := limit.(*Map)
		if !ok {
			continue
		}
		good := true
		for i, want := range toItems(l.Value("args")) {
			if i >= len(args) || want != nil && !matchCheck(want, Str(args[i])) {
				good = false
				break
			}
		}
		for k, want := range l.Map("kwargs").All() {
			v, ok := kwargs.Get(k)
			if !ok || want != nil && !matchCheck(want, Str(v)) {
				good = false
				break
			}
		}
		if good {
			return true
		}
	}
	return false
}

// validTarget says whether all of the minions are among those that the target of
// a rule means. Minions of which no data is known don't count.
func (m *Master) validTarget(target string, minions []string) bool {
	res, err := m.resolve("compound", target, "", false)
	if err != nil {
		m.log.Error(fmt.Sprintf("access rule for %s: %v", shortRepr(target), err))
		return false
	}
	allowed := map[string]bool{}
	for _, id := range res.Minions {
		allowed[id] = true
	}
	for _, id := range minions {
		if !allowed[id] {
			return false
		}
	}
	return len(allowed) > 0
}

// specCheck says whether rules allow a runner or wheel function: "@runner",
// "@module", or {"@module": [functions]}.
func specCheck(rules []any, fun, form string, args []any, kwargs *Map) bool {
	module, name, _ := strings.Cut(fun, ".")
	for _, rule := range rules {
		switch rule := rule.(type) {
		case string:
			if rule == "@"+module || rule == "@"+form || rule == "@"+form+"s" {
				return true
			}
		case *Map:
			if rule.Len() != 1 {
				continue
			}
			k, conds := rule.At(0)
			switch k {
			case "@" + module:
				if funCheck(conds, name, args, kwargs) {
					return true
				}
			case "@" + form, "@" + form + "s":
				if funCheck(conds, fun, args, kwargs) {
					return true
				}
			}
		}
	}
	return false
}
