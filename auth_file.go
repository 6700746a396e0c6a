// External authentication by a file of users, and the password hashes in it.
//
// The law of this file: the options stand in external_auth below file, with ^ in
// front: ^filename, ^filetype (text, htpasswd, htdigest), ^hashtype (plaintext
// or a digest), ^realm, ^field_separator, ^username_field, ^password_field. In a
// text or htpasswd file a password that looks like a crypt hash is checked as
// one, whatever ^hashtype says. An unknown user costs the time of a known one.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

func eauthFile(_ context.Context, _ *Eauth, o *Options, username, password string) error {
	conf := NewMap()
	for k, v := range o.Map("external_auth").Map("file").All() {
		if name := Str(k); strings.HasPrefix(name, "^") {
			conf.Set(name[1:], v)
		}
	}
	get := func(name, def string) string {
		if v, ok := conf.Get(name); ok && v != nil {
			return Str(v)
		}
		return def
	}
	path := get("filename", "")
	if path == "" {
		return errors.New("file: external_auth has no ^filename below file")
	}
	text, err := readRegular(path, 16<<20)
	if err != nil {
		return fmt.Errorf("file: %w", err)
	}
	separator, userField, passField := get("field_separator", ":"), 1, 2
	kind, hashType := get("filetype", "text"), get("hashtype", "plaintext")
	switch kind {
	case "text":
		for _, f := range []struct {
			name string
			into *int
		}{{"username_field", &userField}, {"password_field", &passField}} {
			n, err := strconv.Atoi(get(f.name, strconv.Itoa(*f.into)))
			if err != nil || n < 1 {
				return fmt.Errorf("file: ^%s is no number from 1 on", f.name)
			}
			*f.into = n
		}
	case "htpasswd":
		separator, hashType = ":", "crypt"
	case "htdigest":
		separator, passField, hashType = ":", 3, "htdigest"
	default:
		return fmt.Errorf("file: ^filetype %q is none of text, htpasswd, htdigest", kind)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Split(strings.TrimSpace(lines.Text()), separator)
		if len(fields) < userField || len(fields) < passField || fields[userField-1] != username {
			continue
		}
		stored := fields[passField-1]
		if hashType == "htdigest" {
			if fields[1] != get("realm", "") {
				continue
			}
			sum := md5.Sum([]byte(username + ":" + fields[1] + ":" + password))
			return secretResult(equalSecrets(strings.ToLower(stored), hex.EncodeToString(sum[:])))
		}
		ok, err := checkPassword(stored, password, hashType)
		if err != nil {
			return fmt.Errorf("file: %w", err)
		}
		return secretResult(ok)
	}
	cryptHash("sha256", "halitehalite", password)
	return errWrongPassword
}

func secretResult(ok bool) error {
	if !ok {
		return errWrongPassword
	}
	return nil
}

// checkPassword compares a password with what is stored: a crypt hash by its
// own sign, else plain text or a digest in hexadecimal.
func checkPassword(stored, password, hashType string) (bool, error) {
	switch {
	case strings.HasPrefix(stored, "$2a$"), strings.HasPrefix(stored, "$2b$"), strings.HasPrefix(stored, "$2y$"):
		// Longer passwords were cut where the hash was made.
		err := bcrypt.CompareHashAndPassword([]byte(stored), []byte(password)[:min(len(password), 72)])
		return err == nil, nil
	case strings.HasPrefix(stored, "{SHA}"):
		sum := sha1.Sum([]byte(password))
		return equalSecrets(base64.StdEncoding.EncodeToString(sum[:]), stored[5:]), nil
	case strings.HasPrefix(stored, "$"):
		return cryptMatches(stored, password)
	}
	switch strings.ToLower(hashType) {
	case "crypt":
		return false, errors.New("the password is hashed in a way that is not built in: use htpasswd -B")
	case "plaintext", "":
		return equalSecrets(stored, password), nil
	}
	h := hashByName(hashType)
	if h == nil {
		return false, fmt.Errorf("^hashtype %q is none of plaintext, md5, sha1, sha224, sha256, sha384, sha512", hashType)
	}
	h.Write([]byte(password))
	return equalSecrets(strings.ToLower(stored), hex.EncodeToString(h.Sum(nil))), nil
}

// shaRoundsTrusted bounds the rounds of a hash: more would let one line of the
// file block logins.
const shaRoundsTrusted = 10_000_000

// cryptMatches compares a password with a hash of crypt(3).
func cryptMatches(stored, password string) (bool, error) {
	for _, scheme := range []struct{ prefix, name string }{{"$5$", "sha256"}, {"$6$", "sha512"}, {"$1$", "md5"}, {"$apr1$", "apr1"}} {
		setting, ok := strings.CutPrefix(stored, scheme.prefix)
		if !ok {
			continue
		}
		if text, ok := strings.CutPrefix(setting, "rounds="); ok {
			number, _, _ := strings.Cut(text, "$")
			if n, err := strconv.Atoi(number); err != nil || n > shaRoundsTrusted {
				return false, fmt.Errorf("the password's hash has more than %d rounds", shaRoundsTrusted)
			}
		}
		if scheme.name == "apr1" {
			return equalSecrets(md5Crypt(scheme.prefix, setting, password), stored), nil
		}
		salt := setting[:max(strings.LastIndexByte(setting, '$'), 0)]
		return equalSecrets(cryptHash(scheme.name, salt, password), stored), nil
	}
	return false, errors.New("the password is hashed in a way that is not built in: use bcrypt ($2b$), sha-512 ($6$) or sha-256 ($5$)")
}
