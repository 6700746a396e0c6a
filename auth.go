// External authentication: whether a user of an external system is who he says.
//
// The law of this room: this is only the question "is the password right";
// what the user then may do stands in external_auth and is the master's affair
// (master_acl.go). A system that is not configured, not built in or cannot be
// asked lets nobody in and says in one line why. Secrets are compared in
// constant time and appear in no message.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"strings"
	"sync/atomic"
	"time"
)

// eauthLoginLimit bounds one check.
const eauthLoginLimit = 20 * time.Second

// Eauth implements Authenticator with the systems that are built in.
type Eauth struct {
	opts atomic.Pointer[Options]
	log  *slog.Logger
}

// NewEauth makes the systems for one configuration.
func NewEauth(o *Options, log *slog.Logger) *Eauth {
	e := &Eauth{log: log}
	e.opts.Store(o)
	return e
}

// Reload takes another configuration.
func (e *Eauth) Reload(o *Options) { e.opts.Store(o) }

// errWrongPassword is the same for an unknown user and a wrong password.
var errWrongPassword = errors.New("unknown user or wrong password")

// eauthBackend checks one user.
type eauthBackend func(ctx context.Context, e *Eauth, o *Options, username, password string) error

// eauthBackendNamed is the table of built-in systems.
func eauthBackendNamed(name string) eauthBackend {
	switch name {
	case "auto":
		return eauthAuto
	case "file":
		return eauthFile
	case "pam":
		return eauthPAM
	case "sharedsecret":
		return eauthSharedSecret
	}
	return nil
}

// Login checks credentials and returns the user's name and groups.
func (e *Eauth) Login(ctx context.Context, credentials *Map) (name string, groups []string, err error) {
	system := credentials.Str("eauth")
	backend := eauthBackendNamed(system)
	if backend == nil {
		return "", nil, fmt.Errorf("external authentication %q is not built in: use pam, file, sharedsecret or auto", system)
	}
	name, ok := credentials.Value("username").(string)
	if !ok || name == "" || len(name) > 256 || strings.ContainsAny(name, "\x00\n/") {
		return "", nil, errors.New("the user name is missing or malformed")
	}
	password, ok := credentials.Value("password").(string)
	if !ok {
		if n, isNumber := credentials.Value("password").(int64); isNumber { // typed as digits
			password = Str(n)
		}
	}
	if len(password) > 4096 || strings.Contains(password, "\x00") {
		return "", nil, errors.New("the password is malformed")
	}
	ctx, cancel := context.WithTimeout(ctx, eauthLoginLimit)
	defer cancel()
	if err := backend(ctx, e, e.opts.Load(), name, password); err != nil {
		return "", nil, err
	}
	if system == "pam" {
		groups = systemGroups(name)
	}
	return name, groups, nil
}

// eauthAuto believes everybody: for tests, and behind other gates.
func eauthAuto(context.Context, *Eauth, *Options, string, string) error { return nil }

// eauthSharedSecret knows one password for all.
func eauthSharedSecret(_ context.Context, _ *Eauth, o *Options, _, password string) error {
	secret := o.Str("sharedsecret")
	if secret == "" {
		return errors.New("sharedsecret is not configured")
	}
	if !equalSecrets(secret, password) {
		return errWrongPassword
	}
	return nil
}

// equalSecrets compares in a time that tells nothing, not even the length.
func equalSecrets(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// systemGroups are the names of a user's groups on this machine.
func systemGroups(name string) []string {
	u, err := user.Lookup(name)
	if err != nil {
		return nil
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil
	}
	var out []string
	for _, id := range ids {
		if g, err := user.LookupGroupId(id); err == nil {
			out = append(out, g.Name)
		}
	}
	return out
}

// pamHelper is the program that checks a password for PAM's own unix module. A
// static binary cannot load PAM modules, so those of other systems (LDAP,
// Kerberos) are out of reach this way.
func pamHelper() string {
	for _, path := range []string{"/usr/sbin/unix_chkpwd", "/sbin/unix_chkpwd"} {
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// eauthPAM checks a local user with the system's helper.
func eauthPAM(ctx context.Context, _ *Eauth, _ *Options, username, password string) error {
	helper := pamHelper()
	switch {
	case helper == "":
		return errors.New("pam: this system has no unix_chkpwd, the program that checks passwords for PAM: use the file system of external_auth")
	case os.Geteuid() != 0:
		return errors.New("pam: only a master that runs as root may check passwords of other users: use the file system of external_auth")
	case strings.HasPrefix(username, "-"):
		return errWrongPassword
	}
	if _, err := user.Lookup(username); err != nil {
		return errWrongPassword
	}
	check := exec.CommandContext(ctx, helper, username, "nonull")
	check.Stdin = bytes.NewReader(append([]byte(password), 0))
	check.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	if err := check.Run(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return errWrongPassword
		}
		return fmt.Errorf("pam: run %s: %w", helper, err)
	}
	expiry := exec.CommandContext(ctx, helper, username, "chkexpiry")
	expiry.Env = check.Env
	if err := expiry.Run(); err != nil {
		return fmt.Errorf("pam: the account of %s has expired or is locked", username)
	}
	return nil
}
