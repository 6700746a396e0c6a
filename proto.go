// The protocol: names that travel (minion ids, job ids, environments, paths)
// and the constants of Salt's wire. The other proto files hold the messages.
//
// The law of these rooms: no I/O, no keys. Whatever comes from a peer is
// checked here, where it is decoded, by its type; behind this line an id can be
// a file name and a jid can be a path.
package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	protocolVersion = 3 // session keys; replies are signed from 2 on

	AlgoOAEPSHA1       = "OAEP-SHA1"
	AlgoOAEPSHA224     = "OAEP-SHA224"
	AlgoPKCS1v15SHA1   = "PKCS1v15-SHA1"
	AlgoPKCS1v15SHA224 = "PKCS1v15-SHA224"

	// MaxEventSize is the default of max_event_size.
	MaxEventSize = 1048576
)

// ValidEncAlgo says whether name is an encryption algorithm of Salt's.
func ValidEncAlgo(name string) bool { return name == AlgoOAEPSHA1 || name == AlgoOAEPSHA224 }

// ValidSigAlgo says whether name is a signing algorithm of Salt's.
func ValidSigAlgo(name string) bool { return name == AlgoPKCS1v15SHA1 || name == AlgoPKCS1v15SHA224 }

// maxNameLen is what file systems take as one name.
const maxNameLen = 255

// ValidMinionID says which rule a minion id breaks. An id is the name of the
// minion's key file, and part of log lines and event tags.
func ValidMinionID(id string) error {
	switch {
	case id == "":
		return errors.New("minion id is empty")
	case len(id) > maxNameLen:
		return fmt.Errorf("minion id is longer than %d bytes", maxNameLen)
	case id[0] == '.':
		return fmt.Errorf("minion id %q starts with a dot", id)
	case !utf8.ValidString(id):
		return fmt.Errorf("minion id %q is not UTF-8", id)
	}
	for _, r := range id {
		if r == '/' || r == '\\' {
			return fmt.Errorf("minion id %q contains %q", id, r)
		}
		if r < ' ' || r == 0x7f {
			return fmt.Errorf("minion id %q contains a control character", id)
		}
	}
	return nil
}

// jidDigits is the length of a job id's time.
const jidDigits = 20

// ValidJID says whether jid is a job id: 20 digits, and with unique_jid an
// underscore and more letters or digits.
func ValidJID(jid string) error {
	ok := len(jid) == jidDigits || len(jid) > jidDigits+1 && len(jid) <= 64 && jid[jidDigits] == '_'
	for i := 0; ok && i < len(jid); i++ {
		c := jid[i]
		digit := '0' <= c && c <= '9'
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		ok = digit || i == jidDigits || i > jidDigits && letter
	}
	if !ok {
		if len(jid) > 80 {
			jid = jid[:80] + "…"
		}
		return fmt.Errorf("%q is not a job id", jid)
	}
	return nil
}

// ValidEnv says whether env can be the name of an environment. Branches of a
// repository may be environments, so it can have slashes, as a path within a
// directory.
func ValidEnv(env string) error {
	if env == "" || len(env) > maxNameLen || strings.ContainsAny(env, "\x00\\\r\n") ||
		!filepath.IsLocal(env) || filepath.Clean(env) != env || env == "." {
		return fmt.Errorf("%q is not the name of an environment", env)
	}
	return nil
}

// NewJID is the job id of a moment: its UTC time to the microsecond.
func NewJID(now time.Time) string {
	return strings.Replace(now.UTC().Format("20060102150405.000000"), ".", "", 1)
}

// JIDTime is the moment that a job id names, and false if it is no job id.
func JIDTime(jid string) (time.Time, bool) {
	if ValidJID(jid) != nil {
		return time.Time{}, false
	}
	t, err := time.Parse("20060102150405.000000", jid[:14]+"."+jid[14:jidDigits])
	return t, err == nil
}

// JIDSource makes job ids that never repeat, also when the clock stands still
// or goes back for a moment. Its zero value is ready for use.
type JIDSource struct {
	mu   sync.Mutex
	last time.Time
}

// Next is the id for a job that starts now.
func (s *JIDSource) Next(now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = now.UTC().Truncate(time.Microsecond)
	// A clock that went back by more than a minute was wrong before; following it
	// keeps new ids near the time that users see.
	if !now.After(s.last) && s.last.Sub(now) < time.Minute {
		now = s.last.Add(time.Microsecond)
	}
	s.last = now
	return NewJID(now)
}

// SafeJoin joins a relative path from a peer to a directory. The result is
// below the directory by its text; links are the business of whoever opens it.
func SafeJoin(root, rel string) (string, error) {
	if strings.IndexByte(rel, 0) >= 0 || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("path %q leaves its directory", rel)
	}
	rel = filepath.Clean(rel)
	if rel == "." {
		return "", fmt.Errorf("path %q names nothing in its directory", rel)
	}
	return filepath.Join(root, rel), nil
}
