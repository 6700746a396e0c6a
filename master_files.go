// The file server: what minions may read of file_roots, and the requests for it.
//
// The law of this room: a path from a minion is relative, clean, and stays below
// its root by its text; what is opened stays below it on disk too, unless
// fileserver_followsymlinks (Salt's default) lets links lead out. Only regular
// files are served. Files go out in chunks, so that none is ever in memory as a
// whole. Lists are kept per environment as long as nothing can have changed.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
)

// FoundFile is a file that was found.
type FoundFile struct {
	Path string // where it is on the master
	Rel  string // as asked for
	Back string // the backend
	Info os.FileInfo
}

// FileServer serves files to minions. It is called by many goroutines at once.
// A path that cannot be served is like one that does not exist.
type FileServer interface {
	Envs() []string
	// Find returns nil if there is no such file.
	Find(env, path string) (*FoundFile, error)
	// Open opens a file that was found.
	Open(env string, f *FoundFile) (*os.File, error)
	// Lists of an environment: relative paths.
	Files(env string) ([]string, error)
	EmptyDirs(env string) ([]string, error)
	Dirs(env string) ([]string, error)
	Links(env string) (*Map, error) // link → target
}

// envOf is the environment of a request.
func envOf(load *Map) string {
	env := load.Str("saltenv")
	if env == "" {
		env = load.Str("env")
	}
	if env == "" {
		env = "base"
	}
	return env
}

func (m *Master) cmdFileEnvs(context.Context, *minionRequest) (any, error) {
	if m.files() == nil {
		return NewList(), nil
	}
	return Strings(m.files().Envs()), nil
}

// cmdFileList answers the four listings.
func (m *Master) cmdFileList(_ context.Context, q *minionRequest) (any, error) {
	env := envOf(q.load)
	prefix := strings.Trim(q.load.Str("prefix"), "/")
	under := func(p string) bool { return strings.HasPrefix(p, prefix) }
	if m.files() == nil || ValidEnv(env) != nil {
		return NewList(), nil
	}
	if q.in.Cmd == "_symlink_list" {
		links, err := m.files().Links(env)
		if err != nil {
			return nil, err
		}
		out := NewMap()
		for k, v := range links.All() {
			if under(k.(string)) {
				out.Set(k, v)
			}
		}
		return out, nil
	}
	list := m.files().Files
	switch q.in.Cmd {
	case "_file_list_emptydirs":
		list = m.files().EmptyDirs
	case "_dir_list":
		list = m.files().Dirs
	}
	paths, err := list(env)
	if err != nil {
		return nil, err
	}
	out := NewList()
	for _, p := range paths {
		if under(p) {
			out.Append(p)
		}
	}
	return out, nil
}

// findFor finds the file that a request names, nil if it is not served.
func (m *Master) findFor(load *Map) (*FoundFile, error) {
	env, p := envOf(load), load.Str("path")
	if m.files() == nil || ValidEnv(env) != nil || p == "" {
		return nil, nil
	}
	return m.files().Find(env, p)
}

func (m *Master) cmdFileFind(_ context.Context, q *minionRequest) (any, error) {
	f, err := m.findFor(q.load)
	if err != nil || f == nil {
		return NewMap("path", "", "rel", ""), err
	}
	return NewMap("path", f.Path, "rel", f.Rel, "stat", statList(f.Info), "back", f.Back), nil
}

// cmdFileHash answers _file_hash and _file_hash_and_stat.
func (m *Master) cmdFileHash(_ context.Context, q *minionRequest) (any, error) {
	withStat := q.in.Cmd == "_file_hash_and_stat"
	var hash, stat any = "", nil
	f, err := m.findFor(q.load)
	if err != nil {
		return nil, err
	}
	if f != nil {
		sum, err := m.hashes.sum(m.files(), envOf(q.load), f, m.hashType)
		if err != nil {
			return nil, err
		}
		hash, stat = NewMap("hash_type", m.hashType, "hsum", sum), statList(f.Info)
	}
	if withStat {
		return NewList(hash, stat), nil
	}
	return hash, nil
}

// cmdServeFile answers one chunk of a file.
func (m *Master) cmdServeFile(_ context.Context, q *minionRequest) (any, error) {
	none := NewMap("data", "", "dest", "")
	loc, ok := toInt(q.load.Value("loc"))
	if !ok || loc < 0 {
		return none, nil
	}
	f, err := m.findFor(q.load)
	if err != nil || f == nil {
		return none, err
	}
	file, err := m.files().Open(envOf(q.load), f)
	if err != nil {
		m.log.Warn(fmt.Sprintf("serve %s to %s: %v", f.Rel, q.id, err))
		return none, nil
	}
	defer file.Close()
	size := m.o().Int("file_buffer_size")
	if size <= 0 {
		size = 1 << 20
	}
	n := int(min(int64(size), max(0, f.Info.Size()-loc)))
	chunk := m.takeBuffers(q, n).plain[:n]
	n, err = file.ReadAt(chunk, loc)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read %s: %w", f.Path, err)
	}
	chunk = chunk[:n]
	out := NewMap("data", chunk, "dest", f.Rel)
	if level, ok := toInt(q.load.Value("gzip")); ok && level > 0 && n > 0 {
		packed, err := gzipChunk(chunk, int(min(level, 9)))
		if err != nil {
			return nil, err
		}
		out.Set("data", packed)
		out.Set("gzip", level)
	}
	return out, nil
}

// fileBuffers are what a piece of a file needs on its way out. They are used
// again when its answer was written.
type fileBuffers struct{ plain, sealed []byte }

// takeBuffers gives a request the buffers for a piece of size bytes.
func (m *Master) takeBuffers(q *minionRequest, size int) *fileBuffers {
	b, _ := m.pieces.Get().(*fileBuffers)
	if b == nil || len(b.plain) < size {
		b = &fileBuffers{make([]byte, size), make([]byte, 0, size+1024)}
	}
	q.bufs = b
	q.peer.AfterAnswer(func() { m.pieces.Put(b) })
	return b
}

func gzipChunk(p []byte, level int) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(p); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// cmdFileRecv takes a chunk of a file that a minion pushes.
func (m *Master) cmdFileRecv(_ context.Context, q *minionRequest) (any, error) {
	if !m.o().Bool("file_recv") {
		return false, nil
	}
	var parts []string
	switch p := q.load.Value("path").(type) {
	case string:
		parts = strings.Split(p, "/")
	case *List:
		parts = toStrings(p)
	}
	loc, ok := toInt(q.load.Value("loc"))
	data, okData := bytesOf(q.load.Value("data"))
	if len(parts) == 0 || !ok || !okData || loc < 0 {
		return false, nil
	}
	limit := int64(m.o().Int("file_recv_max_size")) << 20
	size, _ := toInt(q.load.Value("size"))
	if size > limit || loc+int64(len(data)) > limit {
		m.log.Error(fmt.Sprintf("minion %s pushes a file that exceeds file_recv_max_size (%d MB)", q.id, limit>>20))
		return false, nil
	}
	rel := strings.ReplaceAll(path.Join(parts...), `\`, "/")
	for _, part := range parts {
		if part == ".." || strings.ContainsRune(part, 0) {
			rel = ""
		}
	}
	if rel == "" || path.IsAbs(strings.Join(parts, "/")) || !filepath.IsLocal(filepath.FromSlash(rel)) {
		m.log.Warn(fmt.Sprintf("minion %s pushes a file to the unsafe path %s", q.id, shortRepr(q.load.Value("path"))))
		return false, nil
	}
	dir := filepath.Join(m.cachedir, "minions", q.id, "files")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir) // no link in there leads out
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := root.MkdirAll(path.Dir(rel), 0o750); err != nil {
		m.log.Warn(fmt.Sprintf("minion %s pushes %s: %v", q.id, rel, err))
		return false, nil
	}
	flags := os.O_WRONLY | os.O_CREATE
	if loc == 0 {
		flags |= os.O_TRUNC
	}
	f, err := root.OpenFile(rel, flags, 0o640)
	if err != nil {
		m.log.Warn(fmt.Sprintf("minion %s pushes %s: %v", q.id, rel, err))
		return false, nil
	}
	st, err := f.Stat()
	if err == nil && (!st.Mode().IsRegular() || loc > st.Size()) {
		err = fmt.Errorf("chunk at %d of a file of %d bytes", loc, st.Size())
	}
	if err == nil {
		_, err = f.WriteAt(data, loc)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		m.log.Warn(fmt.Sprintf("minion %s pushes %s: %v", q.id, rel, err))
		return false, nil
	}
	return true, nil
}

// fileHashes remembers the hash of files that did not change.
type fileHashes struct {
	mu    sync.Mutex
	known map[string]fileHash
}

type fileHash struct {
	info os.FileInfo
	kind string
	sum  string
}

// fileHashesKept bounds what is remembered.
const fileHashesKept = 10000

func newFileHashes() *fileHashes { return &fileHashes{known: map[string]fileHash{}} }

func (h *fileHashes) sum(fs FileServer, env string, f *FoundFile, kind string) (string, error) {
	h.mu.Lock()
	have, ok := h.known[f.Path]
	h.mu.Unlock()
	if ok && have.kind == kind && unchanged(have.info, f.Info) {
		return have.sum, nil
	}
	file, err := fs.Open(env, f)
	if err != nil {
		return "", err
	}
	defer file.Close()
	w := hashByName(kind)
	if w == nil {
		return "", fmt.Errorf("unknown hash_type %q", kind)
	}
	before, err := file.Stat()
	if err != nil {
		return "", err
	}
	if _, err := io.Copy(w, file); err != nil {
		return "", fmt.Errorf("read %s: %w", f.Path, err)
	}
	sum := fmt.Sprintf("%x", w.Sum(nil))
	h.mu.Lock()
	if len(h.known) >= fileHashesKept {
		clear(h.known)
	}
	if settled(before) {
		h.known[f.Path] = fileHash{before, kind, sum}
	}
	h.mu.Unlock()
	return sum, nil
}
