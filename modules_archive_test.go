// Tests of the module archive.
package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"
)

// sampleTar writes an archive of a directory that is no member itself.
func sampleTar(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	for _, h := range []tar.Header{
		{Name: "src/sub/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "src/a", Typeflag: tar.TypeReg, Mode: 0o644},
		{Name: "src/l", Typeflag: tar.TypeSymlink, Linkname: "a"},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	z.Close()
}

func TestArchiveLists(t *testing.T) {
	c := moduleTestCall(t)
	dir := t.TempDir()
	tgz, bad := filepath.Join(dir, "t.tar.gz"), filepath.Join(dir, "bad.tar")
	sampleTar(t, tgz)
	if err := os.WriteFile(bad, []byte("no archive"), 0o644); err != nil {
		t.Fatal(err)
	}
	checkCalls(t, c, []moduleCall{
		{"archive.list", []any{tgz}, nil, "['src/a', 'src/l', 'src/sub/']"},
		{"archive.list", []any{tgz}, []any{"strip_components", int64(1)}, "['a', 'l', 'sub/']"},
		{"archive.list", []any{tgz}, []any{"verbose", true}, "{'dirs': ['src/sub/'], 'files': ['src/a'], 'links': ['src/l'], " +
			"'top_level_dirs': ['src/'], 'top_level_files': [], 'top_level_links': []}"},
		{"archive.list", []any{tgz}, []any{"archive_format", "cpio"}, "ERROR: Unsupported archive format 'cpio'. Additional info follows:\n\narchive location:\n    " + tgz},
		{"archive.list", []any{tgz}, []any{"archive_format", "zip"}, "ERROR: " + tgz + " is not a ZIP file. Additional info follows:\n\narchive location:\n    " + tgz},
	})
	if _, err := direct(t, c, "archive.list", []any{bad}); err == nil {
		t.Error("a text was listed as tar")
	}
}

func TestArchiveZipAndBack(t *testing.T) {
	c := moduleTestCall(t)
	dir := t.TempDir()
	file, out := filepath.Join(dir, "z.zip"), filepath.Join(dir, "out")
	if err := os.MkdirAll(filepath.Join(dir, "src/sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "src/sub/a"), []byte("text"), 0o640); err != nil {
		t.Fatal(err)
	}
	checkCalls(t, c, []moduleCall{
		{"archive.zip", []any{file, "src"}, nil, "ERROR executing 'archive.zip': Relative paths require the 'cwd' parameter"},
		{"archive.zip", []any{file, "src"}, []any{"cwd", dir}, "['src/', 'src/sub/', 'src/sub/a']"},
		{"archive.unzip", []any{file, out}, nil, "['src/', 'src/sub/', 'src/sub/a']"},
		{"archive.unzip", []any{file, out}, []any{"trim_output", int64(1)}, "['src/', 'List trimmed after 1 files.']"},
		{"archive.is_encrypted", []any{file}, nil, "False"},
	})
	st, err := os.Stat(filepath.Join(out, "src/sub/a"))
	if err != nil || st.Size() != 4 || st.Mode() != 0o640 {
		t.Errorf("unpacked: %v, %v", st, err)
	}
}

// What an archive of someone else names must not be written outside.
func TestArchiveUnzipStaysInside(t *testing.T) {
	c := moduleTestCall(t)
	dir := t.TempDir()
	file, out := filepath.Join(dir, "evil.zip"), filepath.Join(dir, "in/out")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	link := &zip.FileHeader{Name: "link"}
	link.SetMode(os.ModeSymlink | 0o777)
	w, _ := z.CreateHeader(link)
	_, _ = w.Write([]byte(dir))
	_, _ = z.Create("../escaped")
	_, _ = z.Create("link/through")
	z.Close()
	f.Close()
	if _, err := direct(t, c, "archive.unzip", []any{file, out}); err == nil {
		t.Error("unpacking through a link was no error")
	}
	for _, name := range []string{"in/escaped", "escaped", "through"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	if _, err := os.Lstat(filepath.Join(out, "escaped")); err != nil {
		t.Error(err)
	}
}
