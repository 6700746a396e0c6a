// Files arrive whole or not at all, and only where they belong.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// fakeFiles answers file requests from a map, with the faults a test asks for.
type fakeFiles struct {
	files   map[string][]byte // path → content
	chunk   int
	wrong   bool  // announces another hash
	extra   []any // further names in the list
	failAt  int64 // an error from this offset on
	uneven  bool  // every other piece is shorter than asked for
	mu      sync.Mutex
	asked   []int64
	endless bool
}

func (s *fakeFiles) ask(ctx context.Context, load *Map) (any, error) {
	p := load.Str("path")
	data, ok := s.files[p]
	switch load.Str("cmd") {
	case "_file_envs":
		return NewList("base", "dev"), nil
	case "_file_list":
		l := NewList(s.extra...)
		for n := range s.files {
			if strings.HasPrefix(n, load.Str("prefix")) {
				l.Append(n)
			}
		}
		return l, nil
	case "_file_list_emptydirs":
		return NewList(), nil
	case "_file_hash":
		if !ok {
			return "", nil
		}
		sum := sha256.Sum256(data)
		if s.wrong {
			sum[0] ^= 1
		}
		return NewMap("hash_type", "sha256", "hsum", hex.EncodeToString(sum[:])), nil
	case "_file_hash_and_stat":
		h, err := s.ask(ctx, NewMap("cmd", "_file_hash", "path", p))
		return NewList(h, NewList(0, 0, 0, 1, 0, 0, int64(len(data)), 0, 0, 0)), err
	case "_serve_file":
		loc, _ := toInt(load.Value("loc"))
		s.mu.Lock()
		s.asked = append(s.asked, loc)
		s.mu.Unlock()
		if s.failAt > 0 && loc >= s.failAt {
			return nil, errors.New("the link broke")
		}
		if s.endless {
			return NewMap("data", bytes.Repeat([]byte{7}, 1<<20), "dest", p), nil
		}
		n := s.chunk
		if s.uneven && loc%2000 != 0 {
			n = s.chunk/2 + 1
		}
		piece := data[min(int(loc), len(data)):min(int(loc)+n, len(data))]
		if level, _ := toInt(load.Value("gzip")); level > 0 && len(piece) > 0 {
			var b bytes.Buffer
			w, _ := gzip.NewWriterLevel(&b, int(level))
			w.Write(piece)
			w.Close()
			return NewMap("data", b.Bytes(), "dest", p, "gzip", level), nil
		}
		return NewMap("data", piece, "dest", p), nil
	}
	return nil, errors.New("unknown request")
}

func newFakeFiles(t *testing.T, names ...string) *fakeFiles {
	t.Helper()
	s := &fakeFiles{files: map[string][]byte{}, chunk: 1000}
	for _, n := range names {
		p := make([]byte, 4500)
		rand.Read(p)
		s.files[n] = p
	}
	return s
}

func fileBox(t *testing.T, s *fakeFiles) (*Call, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	o := NewOptions(NewMap("id", "box", "cachedir", t.TempDir()))
	l := slog.New(slog.NewTextHandler(log, nil))
	env := &Env{Opts: o, Loader: NewLoader(o, nil), Log: l, Files: NewFileClient(o, l, s.ask, false)}
	return NewCall(env, "cp", "", nil), log
}

func TestFilesAreCachedByHash(t *testing.T) {
	s := newFakeFiles(t, "a/b.bin")
	c, _ := fileBox(t, s)
	p, err := c.Files.Cache(context.Background(), "salt://a/b.bin", "base")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(p); !bytes.Equal(got, s.files["a/b.bin"]) {
		t.Error("the cached file differs")
	}
	if want := filepath.Join(c.Opts.Path("cachedir"), "files/base/a/b.bin"); p != want {
		t.Errorf("cached at %s, want %s", p, want)
	}
	n := len(s.asked)
	if _, err := c.Files.Cache(context.Background(), "salt://a/b.bin?saltenv=base", "dev"); err != nil || len(s.asked) != n {
		t.Errorf("a file that is there was fetched again (%v)", err)
	}
	if p, err := c.Files.Cache(context.Background(), "salt://none", "base"); p != "" || err != nil {
		t.Errorf("a file that does not exist: %q, %v", p, err)
	}
}

func TestBrokenTransferIsResumed(t *testing.T) {
	s := newFakeFiles(t, "big")
	c, _ := fileBox(t, s)
	s.failAt = 3000
	if _, err := c.Files.Cache(context.Background(), "salt://big", "base"); err == nil {
		t.Fatal("the broken link was not reported")
	}
	s.asked, s.failAt = nil, 0
	p, err := c.Files.Cache(context.Background(), "salt://big", "base")
	if err != nil {
		t.Fatal(err)
	}
	if from := slices.Min(s.asked); from != 3000 {
		t.Errorf("the transfer began at %d, want 3000", from)
	}
	if got, _ := os.ReadFile(p); !bytes.Equal(got, s.files["big"]) {
		t.Error("the resumed file differs")
	}
	if left, _ := filepath.Glob(filepath.Dir(p) + "/.*.part"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Pieces are asked for ahead; a master may send less than it did before.
func TestPiecesOfDifferentLength(t *testing.T) {
	s := newFakeFiles(t, "x")
	s.uneven = true
	c, log := fileBox(t, s)
	p, err := c.Files.Cache(context.Background(), "salt://x", "base")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(p); !bytes.Equal(got, s.files["x"]) {
		t.Error("the file differs")
	}
	if strings.Contains(log.String(), "again") {
		t.Errorf("the file needed a second try: %s", log)
	}
}

func TestWrongHashLeavesNothing(t *testing.T) {
	s := newFakeFiles(t, "x")
	s.wrong = true
	c, _ := fileBox(t, s)
	_, err := c.Files.Cache(context.Background(), "salt://x", "base")
	if !errors.Is(err, errFileHash) {
		t.Errorf("got %v", err)
	}
	if found, _ := filepath.Glob(filepath.Join(c.Opts.Path("cachedir"), "files/base/*")); len(found) > 0 {
		t.Errorf("the cache has %v", found)
	}
}

// A server that never ends a file is stopped at the size it announced.
func TestEndlessFileEnds(t *testing.T) {
	s := newFakeFiles(t, "x")
	s.endless = true
	c, _ := fileBox(t, s)
	if _, err := c.Files.Cache(context.Background(), "salt://x", "base"); !errors.Is(err, errFileHash) {
		t.Errorf("got %v", err)
	}
	if len(s.asked) > 4 {
		t.Errorf("asked %d times", len(s.asked))
	}
}

func TestNamesThatLeaveTheirDirectory(t *testing.T) {
	s := newFakeFiles(t, "good")
	s.extra = []any{"../evil", "/etc/passwd", "a/../../b"}
	c, log := fileBox(t, s)
	got, err := c.Files.Files(context.Background(), "base", "")
	if err != nil || strings.Join(got, " ") != "good" {
		t.Errorf("got %v, %v", got, err)
	}
	if !strings.Contains(log.String(), "../evil") {
		t.Errorf("no warning: %s", log)
	}
	for _, p := range []string{"salt://../x", "salt://a/../../x", "salt://x?saltenv=../.."} {
		if _, err := c.Files.Cache(context.Background(), p, "base"); err == nil {
			t.Errorf("%s was accepted", p)
		}
	}
}

func TestGetFileWithGzip(t *testing.T) {
	s := newFakeFiles(t, "x/y")
	s.files["x/y"] = bytes.Repeat([]byte("some text "), 1000)
	c, _ := fileBox(t, s)
	dest := filepath.Join(t.TempDir(), "sub/y")
	kw := NewMap("gzip", int64(5))
	if v, err := c.RunKw(context.Background(), "cp.get_file", []any{"salt://x/y", dest}, kw); v != false || err != nil {
		t.Errorf("without makedirs: %v, %v", v, err)
	}
	kw.Set("makedirs", true)
	if v, err := c.RunKw(context.Background(), "cp.get_file", []any{"salt://x/y", dest}, kw); v != dest || err != nil {
		t.Errorf("got %v, %v", v, err)
	}
	if got, _ := os.ReadFile(dest); !bytes.Equal(got, s.files["x/y"]) {
		t.Error("the file differs")
	}
}

func TestSyncModules(t *testing.T) {
	s := newFakeFiles(t)
	s.files["_modules/haha.py"] = []byte("def hello():\n    return 'hello,boy!'\n")
	s.files["_modules/bad.name.py"] = []byte("x")
	s.files["_modules/pkg/__init__.py"] = []byte("")
	c, log := fileBox(t, s)
	dest := filepath.Join(c.Opts.Path("cachedir"), "extmods/modules")
	sync := func(want string) {
		t.Helper()
		got, err := SyncCustoms(context.Background(), c, "modules", []string{"base"}, nil, nil)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("got %v, %v; want %s", got, err, want)
		}
	}
	sync("modules.bad.name modules.haha modules.pkg.__init__")
	sync("")
	s.files["_modules/haha.py"] = []byte("def hello():\n    return 'again'\n")
	sync("modules.haha")
	if got, _ := os.ReadFile(filepath.Join(dest, "haha.py")); !strings.Contains(string(got), "again") {
		t.Errorf("the file is %s", got)
	}
	delete(s.files, "_modules/pkg/__init__.py")
	sync("")
	if _, err := os.Stat(filepath.Join(dest, "pkg")); !os.IsNotExist(err) {
		t.Error("what the file server no longer has is still here")
	}
	if !strings.Contains(log.String(), "bad.name") {
		t.Errorf("the odd name is not in the log: %s", log)
	}
}
