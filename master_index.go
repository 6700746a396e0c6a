// The index of minions: which ids are accepted, and what grains, pillar and mine
// data the master has of them. Targets are answered from it.
//
// The law of this room: a target over thousands of minions reads no file. The
// accepted ids follow the key directory (one stat tells whether it changed);
// grains and pillar are loaded once, when the first target needs them, and from
// then on replaced as minions send them. On disk the data lies in Salt's own
// layout, cachedir/minions/<id>/data.p and mine.p, and whoever writes does it
// through here. What the index hands out is shared: nobody changes it.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

const (
	cacheDataFile = "data.p"
	cacheMineFile = "mine.p"
	// cacheFileLimit bounds one file of the data cache.
	cacheFileLimit = 256 << 20
	// dirSettle is the age from which a directory's time is trusted: changes
	// within one tick of the file system's clock cannot be told apart.
	dirSettle = 100 * time.Millisecond
)

// MinionIndex knows the accepted minions and their data.
type MinionIndex struct {
	keys *KeyDir
	dir  string // cachedir/minions, "" to keep nothing on disk
	log  *slog.Logger

	mu       sync.Mutex
	ids      []string
	idsStamp time.Time // of the key directory when it was listed
	idsOK    bool
	data     map[string]*minionData
	warm     bool // a target has asked for data: keep what comes in memory
}

type minionData struct {
	grains, pillar *Map // nil: nothing is known
}

// NewMinionIndex makes the index over a key directory and a cachedir.
func NewMinionIndex(keys *KeyDir, cachedir string, log *slog.Logger) *MinionIndex {
	return &MinionIndex{keys: keys, dir: filepath.Join(cachedir, "minions"), log: log, data: map[string]*minionData{}}
}

// IDs lists the accepted minions. The slice is shared.
func (x *MinionIndex) IDs() ([]string, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	st, err := os.Stat(filepath.Join(x.keys.Dir(), KeyAccepted))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list accepted keys: %w", err)
	}
	if x.idsOK && st.ModTime().Equal(x.idsStamp) {
		return x.ids, nil
	}
	ids, err := x.keys.List(KeyAccepted)
	if err != nil {
		return nil, err
	}
	slices.Sort(ids)
	x.ids, x.idsStamp = ids, st.ModTime()
	x.idsOK = time.Since(st.ModTime()) > dirSettle
	return ids, nil
}

// dataOf returns the data of a minion, from disk at the first time.
func (x *MinionIndex) dataOf(id string) *minionData {
	x.mu.Lock()
	d := x.data[id]
	x.mu.Unlock()
	if d != nil {
		return d
	}
	d = &minionData{}
	if m, err := x.read(id, cacheDataFile); err == nil {
		d.grains, d.pillar = m.Map("grains"), m.Map("pillar")
		if d.grains != nil && d.pillar == nil {
			d.pillar = NewMap()
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		x.log.Warn(fmt.Sprintf("data cache of minion %s: %v", id, err))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if newer := x.data[id]; newer != nil {
		return newer
	}
	x.data[id] = d
	return d
}

// Data returns the cached grains and pillar of a minion, nil where nothing is
// known.
func (x *MinionIndex) Data(id string) (grains, pillar *Map) {
	if ValidMinionID(id) != nil {
		return nil, nil
	}
	d := x.dataOf(id)
	return d.grains, d.pillar
}

// SetData replaces the grains and pillar of a minion.
func (x *MinionIndex) SetData(id string, grains, pillar *Map) error {
	x.mu.Lock()
	if x.warm {
		x.data[id] = &minionData{grains: grains, pillar: pillar}
	} else {
		delete(x.data, id)
	}
	x.mu.Unlock()
	return x.write(id, cacheDataFile, NewMap("grains", grains, "pillar", pillar))
}

// Mine returns the mine data of a minion: function → value. It is the caller's.
func (x *MinionIndex) Mine(id string) (*Map, error) {
	m, err := x.read(id, cacheMineFile)
	if errors.Is(err, fs.ErrNotExist) {
		return NewMap(), nil
	}
	return m, err
}

// SetMine replaces the mine data of a minion; nil removes it.
func (x *MinionIndex) SetMine(id string, mine *Map) error {
	if mine != nil {
		return x.write(id, cacheMineFile, mine)
	}
	path, err := x.path(id, cacheMineFile)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("flush mine: %w", err)
	}
	return nil
}

// Forget removes everything that is known of a minion.
func (x *MinionIndex) Forget(id string) error {
	if err := ValidMinionID(id); err != nil {
		return err
	}
	x.mu.Lock()
	delete(x.data, id)
	x.idsOK = false
	x.mu.Unlock()
	if err := os.RemoveAll(filepath.Join(x.dir, id)); err != nil {
		return fmt.Errorf("remove cached data of %s: %w", id, err)
	}
	return nil
}

func (x *MinionIndex) path(id, file string) (string, error) {
	if err := ValidMinionID(id); err != nil {
		return "", err
	}
	return filepath.Join(x.dir, id, file), nil
}

func (x *MinionIndex) read(id, file string) (*Map, error) {
	path, err := x.path(id, file)
	if err != nil {
		return nil, err
	}
	p, err := readRegular(path, cacheFileLimit)
	if err != nil {
		return nil, err
	}
	v, err := DecodeBin(p)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, fmt.Errorf("read %s: it holds a %s", path, TypeName(v))
	}
	return m, nil
}

// write replaces a file of the data cache. It can be made again, so it is not
// forced to the disk; a torn one is read as nothing.
func (x *MinionIndex) write(id, file string, m *Map) error {
	path, err := x.path(id, file)
	if err != nil {
		return err
	}
	p, err := EncodeBin(m)
	if err != nil {
		return fmt.Errorf("write data cache of %s: %w", id, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write data cache: %w", err)
	}
	return writeFileReplace(path, p, 0o640)
}

// TargetResult is who a target means, as far as the master knows.
type TargetResult struct {
	Minions []string
	Missing []string // ids named in a list that are not accepted
}

// Resolve finds the minions that a target means. Greedy counts a minion whose
// data is not known as meant: it may well answer; access checks are not greedy.
func (x *MinionIndex) Resolve(kind string, expr any, delimiter string, groups *Map, greedy bool) (TargetResult, error) {
	ids, err := x.IDs()
	if err != nil {
		return TargetResult{}, err
	}
	known := func(id string) bool { _, ok := slices.BinarySearch(ids, id); return ok }
	if text, ok := expr.(string); ok && (kind == "glob" || kind == "") && !hasGlobMeta(text) {
		if known(text) {
			return TargetResult{Minions: []string{text}}, nil
		}
		return TargetResult{}, nil
	}
	t, err := ParseTarget(kind, expr, delimiter, groups)
	if err != nil {
		return TargetResult{}, err
	}
	if t.NeedsData() {
		x.mu.Lock()
		x.warm = true
		x.mu.Unlock()
	}
	subject := func(id string) *Subject {
		d := x.dataOf(id)
		return &Subject{ID: id, Grains: d.grains, Pillar: d.pillar}
	}
	return TargetResult{Minions: t.Select(ids, subject, greedy), Missing: TargetMissing(kind, expr, known)}, nil
}

func hasGlobMeta(s string) bool {
	for i := range len(s) {
		switch s[i] {
		case '*', '?', '[':
			return true
		}
	}
	return false
}
