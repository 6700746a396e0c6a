// State modules ssh_auth and ssh_known_hosts: keys that may log in, and keys of
// hosts.
package main

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

func sshAuthStates() Module {
	return Module{
		Doc: "Keys that may log in to an account.",
		Funcs: Funcs{
			"present": {run: sshAuthStatePresent, doc: "The key is among the authorized ones. name is the key, or a whole line; source is a file of keys."},
			"absent":  {run: sshAuthStateAbsent, doc: "The key is not among the authorized ones."},
			"manage":  {run: sshAuthStateManage, doc: "These keys are authorized and no others."},
		},
	}
}

type sshAuthArgs struct {
	Name string
	sshAccountArgs
}

// sshAccountArgs are the account, and what a key is when it has no line of its own.
type sshAccountArgs struct {
	User                any
	Enc                 any    `def:"ssh-rsa"`
	Comment             any    `def:"''"`
	Source              string `def:"''"`
	Options             any    `def:"None"`
	Config              any    `def:".ssh/authorized_keys"`
	FingerprintHashType any    `def:"None"`
}

var sshKeyLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(.*?)\s?((?:sk-)?(?:ssh-|ecds)[\w@.-]+\s.+)$`)
})

// split takes a whole line apart: options, kind, key and comment. most is how
// many fields of the line are looked at, -1 for all.
func (a *sshAuthArgs) split(most int) error {
	m := sshKeyLine().FindStringSubmatch(a.Name)
	if m == nil {
		parts := pySplitN(a.Name, most-1)
		if len(parts) == 0 {
			return OtherErrorf("IndexError", "list index out of range")
		}
		a.Name = parts[0]
		if len(parts) == 2 {
			a.Comment = parts[1]
		}
		return nil
	}
	if m[1] != "" {
		a.Options = Strings(strings.Split(m[1], ","))
	}
	parts := pySplitN(m[2], most)
	a.Enc, a.Name = parts[0], parts[1]
	if len(parts) == 3 {
		a.Comment = parts[2]
	}
	return nil
}

// pySplitN splits at blanks into at most n fields; all of them if n < 1.
func pySplitN(s string, n int) []string {
	if n < 1 {
		return pyFields(s)
	}
	var out []string
	s = strings.TrimLeftFunc(s, pySpace)
	for len(out) < n-1 && s != "" {
		i := strings.IndexFunc(s, pySpace)
		if i < 0 {
			break
		}
		out = append(out, s[:i])
		s = strings.TrimLeftFunc(s[i:], pySpace)
	}
	if s != "" {
		out = append(out, s)
	}
	return out
}

func (a *sshAuthArgs) options() any {
	if !Truth(a.Options) {
		return NewList()
	}
	return a.Options
}

// sshAuthError takes the error that a function left for its state.
func sshAuthError(c *Call) any {
	v, _ := c.ContextGet("ssh_auth.error")
	c.ContextSet("ssh_auth.error", nil)
	return v
}

// sshAuthDry is what a dry run says; gone is for states that remove.
func sshAuthDry(ctx context.Context, c *Call, ret *Map, a sshAuthArgs, gone bool) (any, error) {
	if a.Source != "" {
		keys, err := c.RunKw(ctx, "ssh.check_key_file", []any{a.User, a.Source, a.Config},
			NewMap("saltenv", c.StateEnv(), "fingerprint_hash_type", a.FingerprintHashType))
		if err != nil {
			return nil, err
		}
		text := ""
		m, _ := keys.(*Map)
		for key, status := range m.All() {
			switch {
			case gone && status != "add":
				text += "Set to remove: " + Str(key) + "\n"
			case !gone && status != "exists":
				text += "Set to " + Str(status) + ": " + Str(key) + "\n"
			}
		}
		if text != "" {
			return stateSay(ret, nil, "%s", text)
		}
		if e := sshAuthError(c); Truth(e) {
			return stateSay(ret, false, "%s", Str(e))
		}
		word := "present"
		if gone {
			word = "absent"
		}
		return stateSay(ret, true, "All host keys in file %s are already %s", a.Source, word)
	}
	if err := a.split(-1); err != nil {
		return nil, err
	}
	status, err := c.RunKw(ctx, "ssh.check_key", []any{a.User, a.Name, a.Enc, a.Comment, a.options()},
		NewMap("config", a.Config, "fingerprint_hash_type", a.FingerprintHashType))
	if err != nil {
		return nil, err
	}
	user := Str(a.User)
	switch {
	case gone && (status == "update" || status == "exists"):
		return stateSay(ret, nil, "Key %s for user %s is set for removal", a.Name, user)
	case gone:
		return stateSay(ret, true, "Key is already absent")
	case status == "update":
		return stateSay(ret, nil, "Key %s for user %s is set to be updated", a.Name, user)
	case status == "add":
		return stateSay(ret, nil, "Key %s for user %s is set to be added", a.Name, user)
	case status == "exists":
		return stateSay(ret, true, "The authorized host key %s is already present for user %s", a.Name, user)
	}
	return stateSay(ret, nil, "%s", Str(a.Comment))
}

func sshAuthStatePresent(ctx context.Context, c *Call, a struct {
	sshAuthArgs
	Kwargs *Map `arg:"**kwargs"`
}) (any, error) {
	return sshAuthPresent(ctx, c, a.sshAuthArgs)
}

func sshAuthPresent(ctx context.Context, c *Call, a sshAuthArgs) (any, error) {
	ret := stateReturn(a.Name, true, "")
	if a.Source == "" {
		if err := a.split(3); err != nil {
			return nil, err
		}
	}
	if c.Testing() {
		return sshAuthDry(ctx, c, ret, a, false)
	}
	var data any
	var err error
	if a.Source != "" {
		path, err := c.RunKw(ctx, "cp.get_url", []any{a.Source, nil}, NewMap("saltenv", c.StateEnv()))
		if err != nil {
			return nil, err
		}
		data = "no key"
		if Truth(path) {
			data, err = c.RunKw(ctx, "ssh.set_auth_key_from_file", []any{a.User, a.Source}, NewMap("config", a.Config, "saltenv", c.StateEnv(),
				"fingerprint_hash_type", a.FingerprintHashType, "options", a.Options))
			if err != nil {
				return nil, err
			}
		}
	} else {
		data, err = c.RunKw(ctx, "ssh.set_auth_key", []any{a.User, a.Name}, NewMap("enc", a.Enc, "comment", a.Comment, "options", a.options(),
			"config", a.Config, "fingerprint_hash_type", a.FingerprintHashType))
		if err != nil {
			return nil, err
		}
	}
	user := Str(a.User)
	switch data {
	case "replace":
		ret.Map("changes").Set(a.Name, "Updated")
		return stateSay(ret, true, "The authorized host key %s for user %s was updated", a.Name, user)
	case "no change":
		return stateSay(ret, true, "The authorized host key %s is already present for user %s", a.Name, user)
	case "new":
		ret.Map("changes").Set(a.Name, "New")
		return stateSay(ret, true, "The authorized host key %s for user %s was added", a.Name, user)
	case "no key":
		return stateSay(ret, false, "Failed to add the ssh key. Source file %s is missing", a.Source)
	case "fail":
		if e := sshAuthError(c); Truth(e) {
			return stateSay(ret, false, "%s", Str(e))
		}
		return stateSay(ret, false, "Failed to add the ssh key. Is the home directory available, and/or does the key file exist?")
	case "invalid", "Invalid public key":
		return stateSay(ret, false, "Invalid public ssh key, most likely has spaces or invalid syntax")
	}
	return ret, nil
}

func sshAuthStateAbsent(ctx context.Context, c *Call, a sshAuthArgs) (any, error) {
	ret := stateReturn(a.Name, true, "")
	if c.Testing() {
		return sshAuthDry(ctx, c, ret, a, true)
	}
	if a.Source != "" {
		path, err := c.RunKw(ctx, "cp.get_url", []any{a.Source, nil}, NewMap("saltenv", c.StateEnv()))
		if err != nil {
			return nil, err
		}
		if Truth(path) {
			v, err := c.RunKw(ctx, "ssh.rm_auth_key_from_file", []any{a.User, a.Source, a.Config},
				NewMap("saltenv", c.StateEnv(), "fingerprint_hash_type", a.FingerprintHashType))
			if err != nil {
				return nil, err
			}
			ret.Set("comment", v)
		}
	} else {
		if err := a.split(-1); err != nil {
			return nil, err
		}
		v, err := c.RunKw(ctx, "ssh.rm_auth_key", []any{a.User, a.Name}, NewMap("config", a.Config, "fingerprint_hash_type", a.FingerprintHashType))
		if err != nil {
			return nil, err
		}
		ret.Set("comment", v)
	}
	switch ret.Value("comment") {
	case "User authorized keys file not present":
		ret.Set("result", false)
	case "Key removed":
		ret.Map("changes").Set(a.Name, "Removed")
	}
	return ret, nil
}

func sshAuthStateManage(ctx context.Context, c *Call, a struct {
	Name    string
	SSHKeys *List `arg:"ssh_keys"`
	sshAccountArgs
	Kwargs *Map `arg:"**kwargs"`
}) (any, error) {
	ret := stateReturn("", true, "")
	changes := ret.Map("changes")
	wanted := map[string]bool{}
	for _, k := range a.SSHKeys.Items {
		for _, word := range strings.Split(Str(k), " ") {
			wanted[word] = true
		}
	}
	v, err := c.RunKw(ctx, "ssh.auth_keys", nil, NewMap("user", a.User, "config", a.Config, "fingerprint_hash_type", a.FingerprintHashType))
	if err != nil {
		return nil, err
	}
	have, _ := v.(*Map)
	one := func(key string) sshAuthArgs {
		return sshAuthArgs{key, a.sshAccountArgs}
	}
	for key := range have.All() {
		if wanted[Str(key)] {
			continue
		}
		if c.Testing() {
			ret.Set("comment", Str(key)+" Key set for removal")
			ret.Set("result", nil)
			continue
		}
		v, err := sshAuthStateAbsent(ctx, c, one(Str(key)))
		if err != nil {
			return nil, err
		}
		changes.Set(key, v.(*Map).Value("comment"))
	}
	for _, k := range a.SSHKeys.Items {
		v, err := sshAuthPresent(ctx, c, one(Str(k)))
		if err != nil {
			return nil, err
		}
		m := v.(*Map)
		if made := m.Map("changes"); made.Len() > 0 {
			changes.Merge(made)
		} else {
			ret.Set("comment", strings.TrimSpace(Str(ret.Value("comment"))+"\n"+Str(m.Value("comment"))))
		}
		switch res := m.Value("result"); {
		case res == nil:
			ret.Set("result", nil)
		case !Truth(res):
			ret.Set("result", false)
		}
	}
	return ret, nil
}

func sshKnownHostsStates() Module {
	return Module{
		Doc: "Keys of hosts that ssh knows.",
		Funcs: Funcs{
			"present": {run: knownHostStatePresent, doc: "The host is known by this key or fingerprint. Without user the file of the whole box is meant."},
			"absent":  {run: knownHostStateAbsent, doc: "The host is not known."},
		},
	}
}

// knownHostsPath is the file that a state means; ok is false for a relative one
// without a user.
func knownHostsPath(user, config any) (path string, ok bool) {
	path = ".ssh/known_hosts"
	if !Truth(user) {
		path = "/etc/ssh/ssh_known_hosts"
	}
	if Truth(config) {
		path = Str(config)
	}
	return path, Truth(user) || filepath.IsAbs(path)
}

func knownHostStatePresent(ctx context.Context, c *Call, a struct {
	Name                string
	User                any `def:"None"`
	Fingerprint         any `def:"None"`
	Key                 any `def:"None"`
	Port                any `def:"None"`
	Enc                 any `def:"None"`
	Config              any `def:"None"`
	HashKnownHosts      any `def:"True"`
	Timeout             any `def:"5"`
	FingerprintHashType any `def:"None"`
}) (any, error) {
	ret := stateReturn(a.Name, true, "")
	config, ok := knownHostsPath(a.User, a.Config)
	if !ok {
		return stateSay(ret, false, "If not specifying a \"user\", specify an absolute \"config\".")
	}
	if c.Testing() {
		switch {
		case Truth(a.Key) && Truth(a.Fingerprint):
			return stateSay(ret, false, "Specify either \"key\" or \"fingerprint\", not both.")
		case Truth(a.Key) && !Truth(a.Enc):
			return stateSay(ret, false, "Required argument \"enc\" if using \"key\" argument.")
		}
		v, err := c.RunKw(ctx, "ssh.check_known_host", []any{a.User, a.Name}, NewMap("key", a.Key, "fingerprint", a.Fingerprint,
			"config", config, "port", a.Port, "fingerprint_hash_type", a.FingerprintHashType))
		if err != nil {
			if asModuleError(err).Kind == ErrCommandNotFound {
				return stateSay(ret, false, "ssh.check_known_host error: %s", errText(err))
			}
			return nil, err
		}
		if m, ok := v.(*Map); ok && m.Has("error") {
			return stateSay(ret, false, "%s", Str(m.Value("error")))
		}
		switch v {
		case "exists":
			return stateSay(ret, true, "Host %s is already in %s", a.Name, config)
		case "add":
			return stateSay(ret, nil, "Key for %s is set to be added to %s", a.Name, config)
		}
		return stateSay(ret, nil, "Key for %s is set to be updated in %s", a.Name, config)
	}
	v, err := c.RunKw(ctx, "ssh.set_known_host", nil, NewMap("user", a.User, "hostname", a.Name, "fingerprint", a.Fingerprint, "key", a.Key,
		"port", a.Port, "enc", a.Enc, "config", config, "hash_known_hosts", a.HashKnownHosts, "timeout", a.Timeout,
		"fingerprint_hash_type", a.FingerprintHashType))
	if err != nil {
		return nil, err
	}
	res, _ := v.(*Map)
	switch res.Value("status") {
	case "exists":
		return stateSay(ret, true, "%s already exists in %s", a.Name, config)
	case "error":
		return stateSay(ret, false, "%s", Str(res.Value("error")))
	}
	ret.Set("changes", oldNew(res.Value("old"), res.Value("new")))
	first := func(field string) string {
		for _, item := range toItems(res.Value("new")) {
			if m, ok := item.(*Map); ok {
				return Str(m.Value(field))
			}
		}
		return ""
	}
	switch {
	case Truth(a.Key):
		return stateSay(ret, true, "%s's key saved to %s (key: %s)", a.Name, config, first("key"))
	case Truth(a.Fingerprint):
		return stateSay(ret, true, "%s's key saved to %s (fingerprint: %s)", a.Name, config, first("fingerprint"))
	case Truth(a.Enc):
		return stateSay(ret, true, "%s's %s key saved to %s (key: %s)", a.Name, Str(a.Enc), config, first("key"))
	}
	return stateSay(ret, true, "%s's key(s) saved to %s", a.Name, config)
}

func knownHostStateAbsent(ctx context.Context, c *Call, a struct {
	Name   string
	User   any `def:"None"`
	Config any `def:"None"`
}) (any, error) {
	ret := stateReturn(a.Name, true, "")
	config, ok := knownHostsPath(a.User, a.Config)
	if !ok {
		return stateSay(ret, false, "If not specifying a \"user\", specify an absolute \"config\".")
	}
	kw := NewMap("user", a.User, "hostname", a.Name, "config", config)
	have, err := c.RunKw(ctx, "ssh.get_known_host_entries", nil, kw.Clone())
	if err != nil {
		return nil, err
	}
	if !Truth(have) {
		return stateSay(ret, true, "Host is already absent")
	}
	if c.Testing() {
		return stateSay(ret, nil, "Key for %s is set to be removed from %s", a.Name, config)
	}
	v, err := c.RunKw(ctx, "ssh.rm_known_host", nil, kw)
	if err != nil {
		return nil, err
	}
	res, _ := v.(*Map)
	if res.Value("status") == "error" {
		return stateSay(ret, false, "%s", Str(res.Value("error")))
	}
	ret.Set("changes", oldNew(have, nil))
	ret.Set("comment", res.Value("comment"))
	return ret, nil
}
