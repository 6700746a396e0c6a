// The master's key directory: one file for each minion key, in a directory for
// each state. The file name is the id, the content the key as it arrived.
//
// The law of this room: the directory belongs to Salt as much as to us. Names
// that start with a dot are never ids, links are not followed, and every change
// is one rename or one removal.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// The states of a minion key are the names of their directories.
const (
	KeyAccepted = "minions"
	KeyPending  = "minions_pre"
	KeyRejected = "minions_rejected"
	KeyDenied   = "minions_denied"

	keyAutosignDir = "minions_autosign"
)

// KeyStates are the states in the order in which listings have them.
func KeyStates() []string { return []string{KeyAccepted, KeyPending, KeyRejected, KeyDenied} }

// ErrNoKey is the error for an id that has no key in a state.
var ErrNoKey = errors.New("no such key")

// KeyDir is a pki_dir of a master. It keeps nothing in memory, so several
// programs may work on one directory.
type KeyDir struct{ dir string }

// OpenKeyDir names the directory; it need not exist yet.
func OpenKeyDir(dir string) *KeyDir { return &KeyDir{dir: dir} }

// Dir is the path of the directory.
func (d *KeyDir) Dir() string { return d.dir }

// Create makes what is missing of the directories, with Salt's modes.
func (d *KeyDir) Create() error {
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return fmt.Errorf("make the key directory: %w", err)
	}
	for _, state := range append(KeyStates(), keyAutosignDir) {
		if err := os.Mkdir(filepath.Join(d.dir, state), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make the key directory: %w", err)
		}
	}
	return nil
}

func validState(state string) bool {
	switch state {
	case KeyAccepted, KeyPending, KeyRejected, KeyDenied:
		return true
	}
	return false
}

func (d *KeyDir) path(state, id string) (string, error) {
	if !validState(state) {
		return "", fmt.Errorf("%q is no state of a key", state)
	}
	if err := ValidMinionID(id); err != nil {
		return "", err
	}
	return filepath.Join(d.dir, state, id), nil
}

// List returns the ids with a key in a state, sorted without regard to case. A
// state whose directory does not exist has none.
func (d *KeyDir) List(state string) ([]string, error) {
	if !validState(state) {
		return nil, fmt.Errorf("%q is no state of a key", state)
	}
	f, err := os.Open(filepath.Join(d.dir, state))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	defer f.Close()
	entries, err := f.ReadDir(-1) // the kind of a file comes with its name: no stat for each
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	ids := make([]string, 0, len(entries))
	for _, e := range entries {
		if e.Type().IsRegular() && ValidMinionID(e.Name()) == nil {
			ids = append(ids, e.Name())
		}
	}
	sortIgnoringCase(ids)
	return ids, nil
}

func sortIgnoringCase(names []string) {
	type pair struct{ name, lower string }
	pairs := make([]pair, len(names))
	for i, n := range names {
		pairs[i] = pair{n, strings.ToLower(n)}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(strings.Compare(a.lower, b.lower), strings.Compare(a.name, b.name))
	})
	for i, p := range pairs {
		names[i] = p.name
	}
}

// Get returns the stored text of a key. ErrNoKey if there is none.
func (d *KeyDir) Get(state, id string) ([]byte, error) {
	path, err := d.path(state, id)
	if err != nil {
		return nil, err
	}
	text, err := readRegular(path, 4*maxPubLen)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s in %s: %w", id, state, ErrNoKey)
	}
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	return text, nil
}

// readRegular reads a file of limited size and follows no link at the end of
// its path; it does not block on pipes.
func readRegular(path string, max int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > max {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", path, max)
	}
	return io.ReadAll(io.LimitReader(f, max))
}

// Has says whether an id has a key in a state.
func (d *KeyDir) Has(state, id string) bool {
	path, err := d.path(state, id)
	if err != nil {
		return false
	}
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// Put stores a key as it is.
func (d *KeyDir) Put(state, id string, text []byte) error {
	path, err := d.path(state, id)
	if err != nil {
		return err
	}
	if err := d.Create(); err != nil {
		return err
	}
	return writeFileAtomic(path, text, 0o644)
}

// Move takes a key from one state to another, over one that is there.
func (d *KeyDir) Move(id, from, to string) error {
	source, err := d.path(from, id)
	if err != nil {
		return err
	}
	target, err := d.path(to, id)
	if err != nil {
		return err
	}
	if !d.Has(from, id) {
		return fmt.Errorf("%s in %s: %w", id, from, ErrNoKey)
	}
	if err := d.Create(); err != nil {
		return err
	}
	if err := os.Rename(source, target); err != nil {
		return fmt.Errorf("move key: %w", err)
	}
	if err := syncDir(filepath.Dir(target)); err != nil {
		return err
	}
	return syncDir(filepath.Dir(source))
}

// Accept accepts a pending key, or a rejected or denied one if none is pending.
// A text that is no usable key is not accepted.
func (d *KeyDir) Accept(id string) error {
	from, err := d.find(id, KeyPending, KeyRejected, KeyDenied)
	if err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	text, err := d.Get(from, id)
	if err != nil {
		return err
	}
	if _, err := ParsePublicKey(text); err != nil {
		return fmt.Errorf("accept %s: %w", id, err)
	}
	return d.Move(id, from, KeyAccepted)
}

// Reject rejects a pending key, or an accepted or denied one if none is pending.
func (d *KeyDir) Reject(id string) error {
	from, err := d.find(id, KeyPending, KeyAccepted, KeyDenied)
	if err != nil {
		return fmt.Errorf("reject: %w", err)
	}
	return d.Move(id, from, KeyRejected)
}

func (d *KeyDir) find(id string, states ...string) (string, error) {
	for _, state := range states {
		if d.Has(state, id) {
			return state, nil
		}
	}
	if err := ValidMinionID(id); err != nil {
		return "", err
	}
	return "", fmt.Errorf("%s: %w", id, ErrNoKey)
}

// Remove deletes the key of an id in one state.
func (d *KeyDir) Remove(state, id string) error {
	path, err := d.path(state, id)
	if err != nil {
		return err
	}
	if err := os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s in %s: %w", id, state, ErrNoKey)
	} else if err != nil {
		return fmt.Errorf("delete key: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

// Delete deletes the keys of an id in every state.
func (d *KeyDir) Delete(id string) error {
	found := false
	for _, state := range KeyStates() {
		err := d.Remove(state, id)
		switch {
		case err == nil:
			found = true
		case !errors.Is(err, ErrNoKey):
			return err
		}
	}
	if !found {
		return fmt.Errorf("%s: %w", id, ErrNoKey)
	}
	return nil
}
