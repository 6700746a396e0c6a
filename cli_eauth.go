// Credentials of the command lines: external authentication and tokens.
//
// The law of this file: a password comes from the option or from the person at
// the terminal, never from a file; a token is kept in a file that only its user
// can read. The master decides; here only the names are known.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

// eauthNames are the systems that masters of Salt know; which of them a master
// has is its own affair.
func eauthNames() []string {
	return []string{"auto", "file", "keystone", "ldap", "pam", "pki", "rest", "sharedsecret", "yubico"}
}

// credentials are what `salt` sends besides the local key. In batches a kept
// token is used even by who has the key, as in Salt.
func (s *saltCommand) credentials(ctx context.Context, inBatches bool) (cred PublishAuth, code int, done bool) {
	if token := s.o.Str("token"); token != "" {
		if inBatches || readPublishKey(s.o, publishingUser()) == "" {
			return PublishAuth{Token: token}, 0, false
		}
		return PublishAuth{}, 0, false
	}
	name := s.p.Str("eauth")
	if name == "" {
		return PublishAuth{}, 0, false
	}
	fields, ok := eauthFields(s.p, s.std, name)
	if !ok {
		fmt.Fprintln(s.std.Err, "ERROR: Authentication failed")
		return PublishAuth{}, exitNoReturns, true
	}
	cred = PublishAuth{Eauth: name, Fields: fields}
	if s.p.Bool("mktoken") {
		if token := makeToken(ctx, s.o, cred); token != "" {
			cred = PublishAuth{Token: token}
		}
	}
	return cred, 0, false
}

// eauthFields gathers user name and password, asking for what is missing.
func eauthFields(p *ParsedCLI, std Stdio, name string) (*Map, bool) {
	if !slices.Contains(eauthNames(), name) {
		fmt.Fprintf(std.Out, "The specified external authentication system %q is not available\n", name)
		fmt.Fprintf(std.Out, "Available eauth types: %s\n", strings.Join(eauthNames(), ", "))
		return nil, false
	}
	m := NewMap()
	username := p.Str("username")
	if !p.Given("username") {
		fmt.Fprint(std.Out, "username: ")
		line, err := readLine(std.In)
		if err != nil {
			fmt.Fprintf(std.Err, "salt: read the user name: %v\n", err)
			return nil, false
		}
		username = line
	}
	if username == "" {
		username = strings.TrimPrefix(publishingUser(), "sudo_")
	}
	m.Set("username", username)
	password := p.Str("password")
	if !p.Given("password") {
		var err error
		if password, err = readPassword(std, "password: "); err != nil {
			fmt.Fprintf(std.Err, "salt: read the password: %v\n", err)
			return nil, false
		}
	}
	m.Set("password", password)
	return m, true
}

// makeToken asks the master for a token and keeps it; "" if the master refuses.
func makeToken(ctx context.Context, o *Options, cred PublishAuth) string {
	c := NewLocalClient(o, PublishAuth{}, nil)
	defer c.Close()
	load := NewMap()
	load.Merge(cred.Fields)
	load.Set("cmd", "mk_token")
	load.Set("eauth", cred.Eauth)
	v, err := c.ask(ctx, load)
	m, _ := v.(*Map)
	token := m.Str("token")
	if err != nil || token == "" {
		return ""
	}
	if path := o.Str("token_file"); path != "" {
		if err := writeFileAtomic(path, []byte(token), 0o600); err != nil && !os.IsPermission(err) {
			c.log.Warn("keep the token: " + err.Error())
		}
	}
	return token
}
