// Logins of people: password hashes of every kind, and what eauth lets them do.
package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The hashes were made by the C library's crypt, openssl and htpasswd.
func TestPasswordHashes(t *testing.T) {
	long := strings.Repeat("a", 70)
	for _, c := range []struct{ password, hash string }{
		{"Hello world!", "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"},
		{"", "$5$saltstring$FdNfA4gXqvCeO6iZs7G/.wwwoywYZqo0l1pwmfWaBA7"},
		{long, "$5$saltstring$YbOpHS5oOxi.H5n.hqPAp3huEcjb3Z1IDPoKxWGH8F4"},
		{"grün", "$5$rounds=1000$x$q5UBhOyoOxON4aUNjDINcvTXCxNgJvTFv5bUmWhpUo3"},
		{"Hello world!", "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1"},
		{long, "$6$rounds=1400$anotherlongsalts$IgUP7uIMZ4AuYGEs3GS3.RVPG.W6VjADCPrAvTevdfjsmnH/W1UTz0mC.9fqVbt3dcWCIHj3h7q7Oo0w8mkY61"},
		{"Hello world!", "$1$abcdefgh$fzmjzFdo5nMtBG8gtud5e0"},
		{long, "$1$abcdefgh$RAACyPJgyZkwwCU2vKY6X0"},
		{"", "$1$abcdefgh$M55TzYaaccxVGbptZWaxX/"},
		{"secret", "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/"},
		{"U*U", "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"},
		{"secret", "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="},
	} {
		if ok, err := checkPassword(c.hash, c.password, "plaintext"); !ok || err != nil {
			t.Errorf("%s is not the hash of %q: %v", c.hash, c.password, err)
		}
		if ok, _ := checkPassword(c.hash, c.password+"x", "plaintext"); ok {
			t.Errorf("%s is also the hash of %q", c.hash, c.password+"x")
		}
	}
	for _, c := range []struct{ hash, hashType string }{
		{"$y$j9T$abc$def", "plaintext"}, {"$6$rounds=900000000$x$y", "plaintext"}, {"abc", "nosuch"}, {"AbCdEfGhIjKlM", "crypt"},
	} {
		if ok, err := checkPassword(c.hash, "x", c.hashType); ok || err == nil {
			t.Errorf("%s (%s) is refused with a reason: %v, %v", c.hash, c.hashType, ok, err)
		}
	}
}

func TestEauthLogin(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := func(options ...any) *Options {
		return NewOptions(NewMap("external_auth", NewMap("file", NewMap(options...)), "sharedsecret", "s3cret"))
	}
	text := write("text", "bob:pw\nann:$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5\nsum:x:5ebe2294ecd0e0f08eab7690d2a6ee69\n")
	htpasswd := write("htpasswd", "bob:$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/\n")
	htdigest := write("htdigest", "bob:other:x\nbob:salt:4f0d5df886e9714a6bf994bda9666f89\n")
	for _, c := range []struct {
		name, system, user, password string
		o                            *Options
		ok                           bool
	}{
		{"plain text", "file", "bob", "pw", file("^filename", text), true},
		{"plain text, wrong", "file", "bob", "PW", file("^filename", text), false},
		{"crypt in a text file", "file", "ann", "Hello world!", file("^filename", text), true},
		{"digest in the third field", "file", "sum", "secret", file("^filename", text, "^hashtype", "md5", "^password_field", int64(3)), true},
		{"unknown user", "file", "eve", "pw", file("^filename", text), false},
		{"htpasswd", "file", "bob", "secret", file("^filename", htpasswd, "^filetype", "htpasswd"), true},
		{"htdigest of another realm", "file", "bob", "secret", file("^filename", htdigest, "^filetype", "htdigest", "^realm", "nosuch"), false},
		{"htdigest", "file", "bob", "secret", file("^filename", htdigest, "^filetype", "htdigest", "^realm", "salt"), true},
		{"no file name", "file", "bob", "pw", file(), false},
		{"missing file", "file", "bob", "pw", file("^filename", text+"x"), false},
		{"shared secret", "sharedsecret", "bob", "s3cret", file(), true},
		{"shared secret, wrong", "sharedsecret", "bob", "s3cre", file(), false},
		{"shared secret, none configured", "sharedsecret", "bob", "", NewOptions(NewMap()), false},
		{"auto", "auto", "bob", "whatever", file(), true},
		{"no name", "auto", "", "x", file(), false},
		{"not built in", "ldap", "bob", "x", file(), false},
		{"pam, unknown user", "pam", "no-such-user-here", "x", file(), false},
	} {
		e := NewEauth(c.o, slog.New(slog.DiscardHandler))
		name, _, err := e.Login(context.Background(), NewMap("eauth", c.system, "username", c.user, "password", c.password))
		if (err == nil) != c.ok || c.ok && name != c.user {
			t.Errorf("%s: %q, %v", c.name, name, err)
		}
		if err != nil && c.password != "" && len(c.password) > 2 && strings.Contains(err.Error(), c.password) {
			t.Errorf("%s: the error tells the password: %v", c.name, err)
		}
	}
}
