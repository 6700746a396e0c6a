// The minion's file client: lists, hashes and files of the file server, and the
// cache of what was fetched.
//
// The law of this room: there is one client and it speaks the requests of
// protocol.md section 9.2; they go to the master over the encrypted channel or,
// for a masterless minion, to a file server in the same process. What arrives is
// checked before it takes its place: names may not leave their directory, a
// file whose hash differs from the announced one is thrown away. A file is
// written beside its place and renamed; what a broken connection left is
// resumed if the file is still the same. The next chunk is asked for while this
// one is written.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// fileAsk sends one file request (a load with cmd) and returns its result.
type fileAsk func(ctx context.Context, load *Map) (any, error)

// fileClient implements FileClient.
type fileClient struct {
	ask   fileAsk
	opts  *Options
	log   *slog.Logger
	local bool // the files are on this box: nothing is cached
}

// NewFileClient makes a client whose requests go to ask. local says that ask
// answers with files of this box.
func NewFileClient(o *Options, log *slog.Logger, ask fileAsk, local bool) FileClient {
	return &fileClient{ask: ask, opts: o, log: log, local: local}
}

// errFileHash is the end of a transfer whose content is not what was announced.
var errFileHash = errors.New("the file does not have the announced hash")

// saltPath takes salt:// and a ?saltenv= off a path. saltenv is the default
// where the path names none.
func saltPath(path, saltenv string) (rel, env string, err error) {
	rel = strings.TrimPrefix(path, "salt://")
	if strings.HasPrefix(rel, "|") { // the rest is a name as it is
		return rel[1:], saltenv, nil
	}
	if name, query, ok := strings.Cut(rel, "?"); ok {
		if env, ok := strings.CutPrefix(query, "saltenv="); ok {
			rel, saltenv = name, env
		}
	}
	if saltenv == "" {
		saltenv = "base"
	}
	if err := ValidEnv(saltenv); err != nil {
		return "", "", ExecErrorf("%s", err)
	}
	return strings.TrimLeft(rel, "/"), saltenv, nil
}

func (f *fileClient) names(ctx context.Context, cmd, saltenv, prefix string) ([]string, error) {
	v, err := f.ask(ctx, NewMap("cmd", cmd, "saltenv", saltenv, "prefix", strings.Trim(prefix, "/")))
	if err != nil {
		return nil, fmt.Errorf("file list of %s: %w", saltenv, err)
	}
	var out []string
	for _, item := range toItems(v) {
		name := Str(item)
		if _, err := SafeJoin("/", name); err != nil {
			f.log.Warn(fmt.Sprintf("the file server lists a name that leaves its directory: %q", name))
			continue
		}
		out = append(out, name)
	}
	return out, nil
}

// Envs lists the environments.
func (f *fileClient) Envs(ctx context.Context) ([]string, error) {
	v, err := f.ask(ctx, NewMap("cmd", "_file_envs"))
	if err != nil {
		return nil, fmt.Errorf("file server environments: %w", err)
	}
	return toStrings(v), nil
}

// Files lists the files of an environment whose path begins with prefix.
func (f *fileClient) Files(ctx context.Context, saltenv, prefix string) ([]string, error) {
	return f.names(ctx, "_file_list", saltenv, prefix)
}

// EmptyDirs lists the directories without files.
func (f *fileClient) EmptyDirs(ctx context.Context, saltenv, prefix string) ([]string, error) {
	return f.names(ctx, "_file_list_emptydirs", saltenv, prefix)
}

// Dirs lists the directories.
func (f *fileClient) Dirs(ctx context.Context, saltenv, prefix string) ([]string, error) {
	return f.names(ctx, "_dir_list", saltenv, prefix)
}

// Symlinks maps links to what they point to.
func (f *fileClient) Symlinks(ctx context.Context, saltenv, prefix string) (*Map, error) {
	v, err := f.ask(ctx, NewMap("cmd", "_symlink_list", "saltenv", saltenv, "prefix", strings.Trim(prefix, "/")))
	if err != nil {
		return nil, fmt.Errorf("links of %s: %w", saltenv, err)
	}
	m, _ := v.(*Map)
	if m == nil {
		m = &Map{}
	}
	return m, nil
}

// Hash returns {hsum, hash_type} of a file of the server, or of a local path;
// an empty map if there is no such file.
func (f *fileClient) Hash(ctx context.Context, path, saltenv string) (*Map, error) {
	if filepath.IsAbs(path) {
		kind := f.hashType()
		sum, err := hashFile(path, kind)
		if errors.Is(err, os.ErrNotExist) {
			return &Map{}, nil
		}
		if err != nil {
			return nil, err
		}
		return NewMap("hsum", sum, "hash_type", kind), nil
	}
	rel, env, err := saltPath(path, saltenv)
	if err != nil {
		return nil, err
	}
	v, err := f.ask(ctx, NewMap("cmd", "_file_hash", "path", rel, "saltenv", env))
	if err != nil {
		return nil, fmt.Errorf("hash of salt://%s: %w", rel, err)
	}
	m, _ := v.(*Map)
	if m == nil {
		m = &Map{}
	}
	return m, nil
}

func (f *fileClient) hashType() string {
	if t := f.opts.Str("hash_type"); t != "" {
		return t
	}
	return "sha256"
}

// CachePath is where a file of the server is kept on this box.
func (f *fileClient) CachePath(rel, saltenv string) (string, error) {
	dest, err := SafeJoin(filepath.Join(f.opts.Path("cachedir"), "files", saltenv), rel)
	if err != nil {
		return "", ExecErrorf("%s", err)
	}
	return dest, nil
}

// Cache brings a file into the cache, if it is not there in the same state.
func (f *fileClient) Cache(ctx context.Context, path, saltenv string) (string, error) {
	rel, env, err := saltPath(path, saltenv)
	if err != nil {
		return "", err
	}
	if f.local {
		return f.find(ctx, rel, env)
	}
	dest, err := f.CachePath(rel, env)
	if err != nil {
		return "", err
	}
	ok, err := f.Fetch(ctx, rel, env, dest, 0)
	if err != nil || !ok {
		return "", err
	}
	return dest, nil
}

// find is the local path of a file of a server in the same process, "" if none.
func (f *fileClient) find(ctx context.Context, rel, env string) (string, error) {
	v, err := f.ask(ctx, NewMap("cmd", "_file_find", "path", rel, "saltenv", env))
	if err != nil {
		return "", err
	}
	m, _ := v.(*Map)
	return m.Str("path"), nil
}

// Fetch writes a file of the server to dest, with gzip as the level of
// compression on the way (0: none). It does nothing if dest has the file
// already. false: the server has no such file.
func (f *fileClient) Fetch(ctx context.Context, rel, env, dest string, level int) (bool, error) {
	sum, kind, size, err := f.announced(ctx, rel, env)
	if err != nil {
		return false, err
	}
	if sum == "" {
		return false, nil
	}
	if have, err := hashFile(dest, kind); err == nil && have == sum {
		return true, nil
	}
	if err := os.MkdirAll(filepath.Dir(dest), 0o755); err != nil {
		return false, err
	}
	part := filepath.Join(filepath.Dir(dest), "."+filepath.Base(dest)+"."+sum[:min(16, len(sum))]+".part")
	// A second try begins anew: what was resumed may have been another file's.
	for try := 0; ; try++ {
		err = f.transfer(ctx, rel, env, part, sum, kind, size, level)
		if !errors.Is(err, errFileHash) || try > 0 {
			break
		}
		f.log.Warn(fmt.Sprintf("salt://%s (%s): %v, fetching it again", rel, env, err))
	}
	if err != nil {
		return false, fmt.Errorf("fetch salt://%s (%s): %w", rel, env, err)
	}
	if info, err := os.Stat(dest); err == nil { // a file that is there keeps its mode
		os.Chmod(part, info.Mode().Perm())
	}
	if err := os.Rename(part, dest); err != nil {
		os.Remove(part)
		return false, err
	}
	return true, nil
}

// announced asks for hash and size of a file; sum "" if there is none, size -1
// if the server does not tell.
func (f *fileClient) announced(ctx context.Context, rel, env string) (sum, kind string, size int64, err error) {
	v, err := f.ask(ctx, NewMap("cmd", "_file_hash_and_stat", "path", rel, "saltenv", env))
	if err != nil {
		return "", "", 0, fmt.Errorf("hash of salt://%s: %w", rel, err)
	}
	pair := toItems(v)
	if len(pair) != 2 {
		return "", "", 0, fmt.Errorf("hash of salt://%s: the master answered with %s", rel, TypeName(v))
	}
	size = -1
	if stat := toItems(pair[1]); len(stat) > 6 {
		size, _ = toInt(stat[6])
	}
	m, _ := pair[0].(*Map)
	return m.Str("hsum"), m.Str("hash_type"), size, nil
}

// fileLanes is how many pieces of a file are on their way at once.
const fileLanes = 2

// chunk is one piece of a file, or how asking for it ended.
type chunk struct {
	data []byte
	err  error
}

// pieces asks for the pieces of one file in order, some ahead of their use. How
// long a piece is the master decides: the first tells, and the others are asked
// for where they should begin. If one is shorter, what was asked behind it is
// dropped.
type pieces struct {
	get   func(at int64) chunk
	size  int64        // of the file, -1 if unknown
	loc   int64        // what next returns begins here
	ask   int64        // what is asked for next
	step  int64        // length of a piece, 0 before the first
	ahead []chan chunk // asked for, in order
}

// more asks until enough is on its way.
func (p *pieces) more() {
	for len(p.ahead) < fileLanes && (len(p.ahead) == 0 || p.step > 0 && p.ask < p.size) {
		answer, at := make(chan chunk, 1), p.ask
		go func() { answer <- p.get(at) }()
		p.ahead = append(p.ahead, answer)
		p.ask += p.step
	}
}

// next returns the piece at loc; an empty one is the end.
func (p *pieces) next() chunk {
	p.more()
	c := <-p.ahead[0]
	p.ahead = p.ahead[1:]
	n := int64(len(c.data))
	p.loc += n
	switch {
	case p.step == 0:
		p.step, p.ask = n, p.loc
	case n < p.step:
		p.drop()
		p.ask = p.loc
	}
	if c.err == nil && n > 0 {
		p.more()
	}
	return c
}

// drop waits for what is on its way and forgets it.
func (p *pieces) drop() {
	for _, answer := range p.ahead {
		<-answer
	}
	p.ahead = nil
}

// transfer fills part and checks it. A part that exists is continued.
func (f *fileClient) transfer(ctx context.Context, rel, env, part, sum, kind string, size int64, level int) error {
	file, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	h, err := newFileHash(kind)
	if err != nil {
		return err
	}
	loc, err := io.Copy(h, file) // also moves to the end of what is there
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := pieces{size: size, loc: loc, ask: loc, get: func(at int64) chunk { return f.piece(ctx, rel, env, at, level) }}
	defer p.drop()
	defer cancel() // first, so that nothing is waited for in vain
	limit := f.maxChunk()
	for {
		c := p.next()
		if c.err != nil {
			return c.err
		}
		if len(c.data) == 0 {
			break
		}
		if int64(len(c.data)) > limit {
			return fmt.Errorf("a chunk of %d bytes, more than the %d that are allowed", len(c.data), limit)
		}
		if size >= 0 && p.loc > size {
			os.Remove(part)
			return errFileHash
		}
		h.Write(c.data)
		if _, err := file.Write(c.data); err != nil {
			os.Remove(part) // of a full disk, where it would be in everybody's way
			return ExecErrorf("%s", err)
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != sum {
		os.Remove(part)
		return errFileHash
	}
	return file.Close()
}

// piece asks for one piece of a file.
func (f *fileClient) piece(ctx context.Context, rel, env string, at int64, level int) chunk {
	load := NewMap("cmd", "_serve_file", "path", rel, "saltenv", env, "loc", at)
	if level > 0 {
		load.Set("gzip", int64(level))
	}
	v, err := f.ask(ctx, load)
	if err != nil {
		return chunk{err: err}
	}
	m, ok := v.(*Map)
	if !ok {
		return chunk{err: fmt.Errorf("the master answered with %s, no file data", TypeName(v))}
	}
	data, _ := bytesOf(m.Value("data"))
	if Truth(m.Value("gzip")) && len(data) > 0 {
		data, err = gunzip(data, f.maxChunk())
	}
	return chunk{data, err}
}

// maxChunk bounds what one reply may carry: option file_client_max_chunk,
// default 64 MiB.
func (f *fileClient) maxChunk() int64 {
	if n := f.opts.Int("file_client_max_chunk"); n > 0 {
		return int64(n)
	}
	return 64 << 20
}

func gunzip(p []byte, limit int64) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(p))
	if err != nil {
		return nil, fmt.Errorf("compressed chunk: %w", err)
	}
	out, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("compressed chunk: %w", err)
	}
	return out, nil
}

// newFileHash makes a hash by Salt's name of it; "" is sha256.
func newFileHash(kind string) (hash.Hash, error) {
	if kind == "" {
		kind = "sha256"
	}
	if h := newHash(kind); h != nil {
		return h, nil
	}
	return nil, fmt.Errorf("unknown hash type %q", kind)
}

// hashFile is the hexadecimal hash of a file.
func hashFile(path, kind string) (string, error) {
	h, err := newFileHash(kind)
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size := int64(32 << 10) // a small file needs no large buffer
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		size = min(size, info.Size()+1)
	}
	if _, err := io.CopyBuffer(h, struct{ io.Reader }{f}, make([]byte, size)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
