// Key files and every other file that must survive a power cut: written beside,
// synced, renamed, and the directory synced too.
//
// The law of this room: a key file that exists is read, through links where an
// installation has them, and never replaced; a broken one is an error for the
// user to see, since a new key would be a new identity.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// writeFileAtomic puts data under path so that after a crash the file is either
// the old or the new one, whole. A link under that name is replaced, not
// followed. The temporary name starts with a dot.
func writeFileAtomic(path string, data []byte, mode os.FileMode) error {
	if err := replaceFile(path, data, mode, true); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// writeFileReplace is writeFileAtomic for what can be made again: readers see the
// old file or the new one, whole, but a power cut may leave an empty one. It
// does not wait for the disk.
func writeFileReplace(path string, data []byte, mode os.FileMode) error {
	return replaceFile(path, data, mode, false)
}

func replaceFile(path string, data []byte, mode os.FileMode, sync bool) error {
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	f, err := os.CreateTemp(dir, ".tmp-*-"+shortName(name)) // O_EXCL, 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil && sync {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// shortName keeps temporary names below the limit of file systems.
func shortName(name string) string {
	name = strings.ReplaceAll(name, "*", "_")
	if len(name) > 100 {
		name = name[:100]
	}
	return name
}

// syncDir makes renames and removals in a directory durable. Some file systems
// cannot sync a directory; that is no reason to fail.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	d.Sync()
	return d.Close()
}

// KeyPath is the path of a private key in a directory; the public one ends in
// .pub.
func KeyPath(dir, name string) string { return filepath.Join(dir, name+".pem") }

// LoadKey reads the pair name.pem of a directory.
func LoadKey(dir, name, passphrase string) (*PrivateKey, error) {
	path := KeyPath(dir, name)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	k, err := ParsePrivateKey(text, passphrase)
	if err != nil {
		return nil, fmt.Errorf("read key %s: %w; put the right file back, or remove it to get a new identity", path, err)
	}
	return k, nil
}

// LoadOrCreateKey reads the pair name.pem/.pub of a directory, and makes it if
// there is none. The directory is made with mode 0700.
func LoadOrCreateKey(dir, name string, bits int) (*PrivateKey, error) {
	return LoadOrCreateKeyPass(dir, name, bits, "")
}

// LoadOrCreateKeyPass is LoadOrCreateKey for a pair that may be encrypted. New
// pairs are not.
func LoadOrCreateKeyPass(dir, name string, bits int, passphrase string) (*PrivateKey, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the key directory: %w", err)
	}
	k, err := LoadKey(dir, name, passphrase)
	if errors.Is(err, fs.ErrNotExist) {
		// A link to nowhere also ends here: its file is on a disk that is not
		// mounted, perhaps. It is not ours to replace.
		if _, statErr := os.Lstat(KeyPath(dir, name)); statErr == nil {
			return nil, fmt.Errorf("read key %s: the link leads to no file", KeyPath(dir, name))
		}
		if k, err = GenerateKey(bits); err == nil {
			err = writeFileAtomic(KeyPath(dir, name), k.PrivatePEM(), 0o400)
		}
	}
	if err != nil {
		return nil, err
	}
	pub := filepath.Join(dir, name+".pub")
	if _, err := os.Lstat(pub); errors.Is(err, fs.ErrNotExist) {
		if err := writeFileAtomic(pub, []byte(k.PublicPEM()+"\n"), 0o644); err != nil {
			return nil, err
		}
	}
	// The text of the public file is what the other side has stored, so it is what
	// is sent, as long as it is the same key.
	if text, err := os.ReadFile(pub); err == nil {
		if p, err := ParsePublicKey(text); err == nil && p.Equal(k.pub) {
			k.pub = p
		}
	}
	return k, nil
}

// GenerateKeyFiles is `--gen-keys`: a new pair under a name, unless there is one.
// It returns the text of the public file.
func GenerateKeyFiles(dir, name string, bits int) ([]byte, error) {
	k, err := LoadOrCreateKey(dir, name, bits)
	if err != nil {
		return nil, err
	}
	return []byte(k.PublicPEM() + "\n"), nil
}
