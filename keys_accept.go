// Who may log in: the rules by which a master accepts, keeps waiting or refuses
// the key of a minion.
//
// The law of this room: DecideAuth is a pure function of facts, so that the
// whole table of rules can be read and tested; gathering the facts and carrying
// the decision out are apart from it.
package main

import (
	"bufio"
	"bytes"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// AuthFacts are what a decision depends on. A stored text is nil where there is
// no key file.
type AuthFacts struct {
	ID         string
	Pub        []byte // as sent, cleaned
	IDErr      error  // why the id is invalid
	Full       bool   // max_minions is reached and this id is not among the connected
	OpenMode   bool
	Accepted   []byte
	Pending    []byte
	Rejected   []byte
	Autoreject func() bool // asked only when it matters
	Autosign   func() bool // same; may use up an autosign stub
}

// AuthDecision is the outcome: the answer, the event and what is to be done in
// the key directory.
type AuthDecision struct {
	Ret    string // AuthAccepted, AuthPending, AuthRefused, AuthFull
	Act    string // of the auth event, "" when Salt has none there
	Result bool   // of the auth event
	Event  bool   // whether there is an event at all
	Why    string // for the log

	Store         string // the state to store the sent key in, "" for none
	RemovePending bool
	MovePending   bool // to rejected, as it is
}

// DecideAuth applies the rules in Salt's order; the first that holds decides.
func DecideAuth(f AuthFacts) AuthDecision {
	refuse := func(act, why string) AuthDecision {
		return AuthDecision{Ret: AuthRefused, Act: act, Event: true, Why: why}
	}
	denied := func(act, why string) AuthDecision {
		d := refuse(act, why)
		d.Store = KeyDenied
		return d
	}
	accept := func(why string) AuthDecision {
		return AuthDecision{Ret: AuthAccepted, Act: "accept", Result: true, Event: true, Why: why}
	}
	pend := func(why string) AuthDecision {
		return AuthDecision{Ret: AuthPending, Act: "pend", Result: true, Event: true, Why: why}
	}
	if f.IDErr != nil {
		return AuthDecision{Ret: AuthRefused, Why: f.IDErr.Error()}
	}
	if f.Full {
		return AuthDecision{Ret: AuthFull, Act: "full", Event: true, Why: "max_minions is reached"}
	}
	// A text that is no key is refused before it is stored anywhere; the one it
	// claims to be may still come with its own.
	if _, err := ParsePublicKey(f.Pub); err != nil {
		return AuthDecision{Ret: AuthRefused, Event: true, Why: "the key sent is not usable: " + err.Error()}
	}
	if f.OpenMode {
		d := accept("open_mode")
		if f.Accepted == nil || !SameKey(f.Accepted, f.Pub) {
			d.Store = KeyAccepted
		}
		return d
	}
	switch {
	case f.Rejected != nil:
		return refuse("", "the key is rejected")
	case f.Accepted != nil:
		if !SameKey(f.Accepted, f.Pub) {
			return denied("denied", "another key is accepted under this id")
		}
		return accept("the key is accepted")
	case f.Pending == nil:
		switch {
		case f.Autoreject():
			d := refuse("reject", "autoreject_file")
			d.Store = KeyRejected
			return d
		case f.Autosign():
			d := accept("autosign")
			d.Store = KeyAccepted
			return d
		}
		d := pend("new key, waiting for acceptance")
		d.Store = KeyPending
		return d
	case f.Autoreject():
		d := refuse("reject", "autoreject_file")
		d.MovePending = true
		return d
	}
	same := SameKey(f.Pending, f.Pub)
	if f.Autosign() {
		if !same {
			return denied("", "another key is pending under this id")
		}
		d := accept("autosign")
		d.Store, d.RemovePending = KeyAccepted, true
		return d
	}
	if !same {
		return denied("denied", "another key is pending under this id")
	}
	return pend("still waiting for acceptance")
}

// AuthRules are the master's options that accept or refuse without a person.
type AuthRules struct {
	OpenMode          bool
	AutoAccept        bool
	AutosignFile      string // "" for none, as below
	AutorejectFile    string
	AutosignGrainsDir string
	AutosignTimeout   time.Duration // 0: stubs do not get old
	PermissivePKI     bool
	Match             func(pattern, id string) bool // a line of those files against an id
	Log               *slog.Logger
}

// GatherAuth collects the facts for a login.
func (d *KeyDir) GatherAuth(a *AuthRequest, rules *AuthRules, full bool, now time.Time) (AuthFacts, error) {
	f := AuthFacts{ID: a.ID, Pub: []byte(a.Pub), IDErr: ValidMinionID(a.ID), Full: full, OpenMode: rules.OpenMode}
	if f.IDErr != nil {
		return f, nil
	}
	for _, s := range []struct {
		state string
		to    *[]byte
	}{{KeyRejected, &f.Rejected}, {KeyAccepted, &f.Accepted}, {KeyPending, &f.Pending}} {
		text, err := d.Get(s.state, a.ID)
		switch {
		case err == nil:
			*s.to = append([]byte{}, text...) // an empty file is a key file, too
		case !errors.Is(err, ErrNoKey):
			return f, err
		}
	}
	f.Autoreject = func() bool { return rules.matchFile(rules.AutorejectFile, a.ID) }
	f.Autosign = func() bool {
		return rules.AutoAccept ||
			rules.matchFile(rules.AutosignFile, a.ID) ||
			d.useAutosignStub(a.ID, rules, now) ||
			rules.matchGrains(a.AutosignGrains)
	}
	return f, nil
}

// CarryOut does in the key directory what was decided.
func (d *KeyDir) CarryOut(f AuthFacts, dec AuthDecision) error {
	if dec.MovePending {
		return d.Move(f.ID, KeyPending, KeyRejected)
	}
	if dec.Store != "" {
		if err := d.Put(dec.Store, f.ID, f.Pub); err != nil {
			return err
		}
	}
	if dec.RemovePending {
		return d.Remove(KeyPending, f.ID)
	}
	return nil
}

// lines reads a file of rules. Others who could write to it could let anyone in,
// so such a file counts as empty.
func (r *AuthRules) lines(path string) []string {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !info.Mode().IsRegular() {
		r.warn("cannot read the rules in %s: %v", path, err)
		return nil
	}
	if mode := info.Mode(); mode&0o002 != 0 || mode&0o020 != 0 && !r.PermissivePKI {
		r.warn("wrong permissions of %s, ignoring its content: others can write to it", path)
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		r.warn("cannot read the rules in %s: %v", path, err)
		return nil
	}
	var lines []string
	scan := bufio.NewScanner(bytes.NewReader(text))
	for scan.Scan() {
		if line := strings.TrimSpace(scan.Text()); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines
}

func (r *AuthRules) warn(format string, args ...any) {
	if r.Log != nil {
		r.Log.Warn(fmt.Sprintf(format, args...))
	}
}

func (r *AuthRules) matchFile(path, id string) bool {
	for _, line := range r.lines(path) {
		if line == id || r.Match != nil && r.Match(line, id) {
			return true
		}
	}
	return false
}

// matchGrains compares the grains that a minion sends for this purpose with the
// files of their names. They are secrets often, so in constant time.
func (r *AuthRules) matchGrains(grains *Map) bool {
	if r.AutosignGrainsDir == "" {
		return false
	}
	for name, value := range grains.All() {
		name, ok := name.(string)
		if !ok {
			continue
		}
		path, err := SafeJoin(r.AutosignGrainsDir, name)
		if err != nil || filepath.Dir(path) != filepath.Clean(r.AutosignGrainsDir) {
			continue
		}
		for _, line := range r.lines(path) {
			if subtle.ConstantTimeCompare([]byte(line), []byte(Str(value))) == 1 {
				return true
			}
		}
	}
	return false
}

// useAutosignStub takes the stub of an id away, and says whether it was there
// and not too old.
func (d *KeyDir) useAutosignStub(id string, rules *AuthRules, now time.Time) bool {
	dir := filepath.Join(d.dir, keyAutosignDir)
	if rules.AutosignTimeout > 0 {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return false
		}
		for _, e := range entries {
			info, err := e.Info()
			if err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > rules.AutosignTimeout {
				rules.warn("autosign stub of %s has expired", e.Name())
				os.Remove(filepath.Join(dir, e.Name()))
			}
		}
	}
	path := filepath.Join(dir, id) // the id was found valid
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	return os.Remove(path) == nil // who removes it may use it: once
}
