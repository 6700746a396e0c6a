// State module archive: how archives are unpacked.
//
// Tar archives without options are unpacked by this program: no tar is needed,
// and nothing leaves the directory, whatever the names and links in the archive
// say. With options tar does the work.
package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// unpack extracts, or says that it would.
func (w *archiveWork) unpack(ctx context.Context, c *Call) (bool, error) {
	if !w.needed {
		return true, nil
	}
	if w.local && Truth(w.a.SourceHash) && !Truth(w.a.SkipVerify) {
		ok, err := runTruth(ctx, c, "file.check_hash", w.source, w.sum.Value("hsum"))
		if err != nil {
			return false, err
		}
		if !ok {
			return w.say(false, "%s does not match the desired source_hash %s", w.shown, Str(w.sum.Value("hsum"))), nil
		}
	}
	clean := Truth(w.a.Clean) && w.contents != nil
	if c.Testing() {
		cleaned := ""
		if clean {
			cleaned = ", after cleaning destination path(s)"
		}
		return w.say(nil, "Archive %s would be extracted to %s%s%s", w.shown, w.name, cleaned, w.because()), nil
	}
	if Truth(w.a.CleanParent) && w.contents != nil {
		if err := os.RemoveAll(strings.TrimRight(w.name, "/")); err != nil {
			w.ret.Set("comment", "Unable to remove the directory "+w.name+". The following errors were observed:\n\n- "+errText(osError(err)))
			return false, nil
		}
		w.ret.Map("changes").Set("removed", "Directory "+w.name+" was removed prior to the extraction")
	}
	if clean {
		var tops []string
		for _, key := range []string{"top_level_dirs", "top_level_files"} {
			for _, p := range toItems(w.contents.Value(key)) {
				tops = append(tops, Str(p))
			}
		}
		if failed := w.remove(tops); failed != "" {
			w.ret.Set("comment", "One or more paths could not be cleaned. The following errors were observed:\n"+failed)
			return false, nil
		}
	}
	if st, err := os.Stat(w.name); err != nil || !st.IsDir() {
		if _, err := callState(ctx, c, "file.directory", NewMap("name", w.name, "user", w.a.User, "makedirs", true)); err != nil {
			return false, err
		}
		w.made = true
	}
	kw := NewMap("trim_output", w.a.TrimOutput)
	for k, v := range w.a.Kwargs.All() {
		if k != "keep" && k != "keep_source" && !hidden(k) {
			kw.Set(k, v)
		}
	}
	var err error
	switch {
	case w.format == "zip":
		fun := "archive.unzip"
		kw.Set("options", w.a.Options)
		kw.Set("password", w.a.Password)
		if Truth(w.a.UseCmdUnzip) {
			fun = "archive.cmd_unzip"
		} else {
			kw.Set("extract_perms", w.a.ExtractPerms)
		}
		w.files, err = c.RunKw(ctx, fun, []any{w.cached, w.name}, kw)
	case w.format == "rar":
		w.files, err = c.RunKw(ctx, "archive.unrar", []any{w.cached, w.name}, kw)
	case w.a.Options != nil:
		return w.runTar(ctx, c)
	default:
		return w.untar(ctx)
	}
	if err != nil && isSaltError(err) {
		w.ret.Set("comment", errText(err))
		return false, nil
	}
	return err == nil, err
}

// trimmed is the list of files as far as it is shown.
func (w *archiveWork) trimmed(names []string) *List {
	if n, ok := toInt(w.a.TrimOutput); ok && n > 0 && int(n) < len(names) {
		names = names[:n]
	}
	return Strings(names)
}

// runTar unpacks with tar, because there are options for it.
func (w *archiveWork) runTar(ctx context.Context, c *Call) (bool, error) {
	if _, err := exec.LookPath("tar"); err != nil {
		w.ret.Set("comment", "tar command not available, it might not be installed on minion")
		return false, nil
	}
	words, err := splitShell(Str(w.a.Options))
	if err != nil {
		return false, err
	}
	short := "xv"
	var long []any
	first := true
	for _, opt := range words {
		if opt == "v" || opt == "-v" || opt == "--verbose" {
			continue
		}
		if strings.HasPrefix(opt, "-") || !first {
			long = append(long, opt)
		} else {
			short += strings.NewReplacer("x", "", "f", "").Replace(opt)
		}
		first = false
	}
	cmd := NewList("tar", short)
	cmd.Append(long...)
	cmd.Append("-f", w.cached)
	v, err := c.RunKw(ctx, "cmd.run_all", []any{cmd}, NewMap("cwd", w.name, "python_shell", false))
	if err != nil {
		return false, err
	}
	out, _ := v.(*Map)
	if Truth(out.Value("retcode")) {
		w.ret.Set("result", false)
		w.ret.Set("changes", out)
		return false, nil
	}
	text := Str(out.Value("stdout"))
	if version, err := c.RunKw(ctx, "cmd.run", []any{NewList("tar", "--version")}, NewMap("python_shell", false)); err == nil && strings.Contains(Str(version), "bsdtar") {
		text = Str(out.Value("stderr"))
	}
	names := pyLines(text, false)
	if len(names) == 0 {
		w.files = "no tar output so far"
	} else {
		w.files = w.trimmed(names)
	}
	return true, nil
}

// untar unpacks without any program, but for xz.
func (w *archiveWork) untar(ctx context.Context) (bool, error) {
	names, err := untarFile(ctx, w.cached, w.name)
	if err == nil {
		w.files = w.trimmed(names)
		return true, nil
	}
	if w.made {
		os.Remove(w.name) // only if nothing was unpacked
	}
	if errors.Is(err, errNoXZ) {
		return w.say(false, "Failed to read from tar archive. If it is XZ-compressed, install xz-utils to attempt extraction."), nil
	}
	if errors.Is(err, errNoTar) {
		return w.say(false, "Failed to read from tar archive using Python's native tar file support. If archive is compressed using something other than gzip or bzip2, "+
			"the 'options' argument may be required to pass the correct options to the tar command in order to extract the archive."), nil
	}
	return false, osError(err)
}

var (
	errNoXZ  = errors.New("the archive is compressed with xz and there is no program for it")
	errNoTar = errors.New("not a tar archive")
)

// tarReader opens an archive, compressed or not. The caller calls end.
func tarReader(ctx context.Context, file string) (r io.Reader, end func(), err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	end = func() { f.Close() }
	b := bufio.NewReader(f)
	head, _ := b.Peek(6)
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err != nil {
			end()
			return nil, nil, errNoTar
		}
		return z, end, nil
	case bytes.HasPrefix(head, []byte("BZh")):
		return bzip2.NewReader(b), end, nil
	case bytes.HasPrefix(head, []byte("\xfd7zXZ")), bytes.HasPrefix(head, []byte{0x5d, 0, 0}):
		xz, err := exec.LookPath("xz")
		if err != nil {
			end()
			return nil, nil, errNoXZ
		}
		cmd := exec.CommandContext(ctx, xz, "--decompress", "--stdout")
		cmd.Stdin = b
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			end()
			return nil, nil, err
		}
		return out, func() { out.Close(); cmd.Wait(); f.Close() }, nil
	}
	return b, end, nil
}

// untarFile unpacks an archive below a directory and lists what it unpacked.
func untarFile(ctx context.Context, file, dir string) ([]string, error) {
	r, end, err := tarReader(ctx, file)
	if err != nil {
		return nil, err
	}
	defer end()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var names []string
	type dirMeta struct {
		name string
		h    *tar.Header
	}
	var dirs []dirMeta // modes and times of directories come last
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			if len(names) == 0 {
				return nil, errNoTar
			}
			return names, err
		}
		if err := ctx.Err(); err != nil {
			return names, err
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		shown := strings.TrimRight(h.Name, "/")
		if path.Clean(strings.TrimPrefix(h.Name, "/")) != name && name != "" {
			return names, fmt.Errorf("%s in the archive would be outside of %s", h.Name, dir)
		}
		names = append(names, shown)
		if name == "" {
			continue
		}
		if err := untarEntry(root, t, name, h); err != nil {
			return names, err
		}
		if h.Typeflag == tar.TypeDir {
			dirs = append(dirs, dirMeta{name, h})
		}
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		if err := tarMeta(root, dirs[i].name, dirs[i].h); err != nil {
			return names, err
		}
	}
	return names, nil
}

// untarEntry makes one file of an archive.
func untarEntry(root *os.Root, t io.Reader, name string, h *tar.Header) error {
	if parent := filepath.Dir(name); parent != "." {
		if err := root.MkdirAll(parent, 0o755); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.Mkdir(name, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		return nil
	case tar.TypeReg, tar.TypeGNUSparse:
		// A new file, never one that a link of the archive leads to.
		if err := root.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, t)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
		return tarMeta(root, name, h)
	case tar.TypeSymlink, tar.TypeLink:
		if err := root.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if h.Typeflag == tar.TypeLink {
			return root.Link(strings.TrimPrefix(path.Clean("/"+h.Linkname), "/"), name)
		}
		if err := root.Symlink(h.Linkname, name); err != nil {
			return err
		}
		return tarOwner(root, name, h)
	}
	return nil // devices and pipes have no place in what people deploy
}

// tarMeta gives a file owner, mode and time of the archive.
func tarMeta(root *os.Root, name string, h *tar.Header) error {
	if err := tarOwner(root, name, h); err != nil {
		return err
	}
	if err := root.Chmod(name, h.FileInfo().Mode().Perm()|h.FileInfo().Mode()&(os.ModeSetuid|os.ModeSetgid|os.ModeSticky)); err != nil {
		return err
	}
	return root.Chtimes(name, time.Time{}, h.ModTime)
}

// tarOwner gives a file its owner: by name, by number where there is no such
// name. Only root can.
func tarOwner(root *os.Root, name string, h *tar.Header) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid := h.Uid, h.Gid
	if u, err := user.Lookup(h.Uname); h.Uname != "" && err == nil {
		if n, err := strconv.Atoi(u.Uid); err == nil {
			uid = n
		}
	}
	if g, err := user.LookupGroup(h.Gname); h.Gname != "" && err == nil {
		if n, err := strconv.Atoi(g.Gid); err == nil {
			gid = n
		}
	}
	return root.Lchown(name, uid, gid)
}
