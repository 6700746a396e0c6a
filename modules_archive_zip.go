// Zip archives: making and unpacking them, here or by the tools zip and unzip.
package main

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

type zipArgs struct {
	File     string `arg:"zip_file"`
	Sources  any
	Template any `def:"None"`
	Cwd      any `def:"None"`
	Runas    any `def:"None"`
}

func archiveCmdZip(ctx context.Context, c *Call, a zipArgs) (any, error) {
	if err := needBinary("zip"); err != nil {
		return nil, err
	}
	args := append([]string{"zip", "-r", a.File}, expandSources(a.Sources)...)
	return archiveTool(ctx, c, a.Cwd, a.Template, a.Runas, args...)
}

type zip64Args struct {
	File     string `arg:"zip_file"`
	Sources  any
	Template any  `def:"None"`
	Cwd      any  `def:"None"`
	Runas    any  `def:"None"`
	Zip64    bool `def:"False"`
}

func archiveZip(ctx context.Context, c *Call, a zip64Args) (any, error) {
	other, err := otherUser(a.Runas)
	if err != nil {
		return nil, err
	}
	if text, ok := a.Sources.(string); ok {
		if err := renderArchivePaths(ctx, c, a.Template, &a.File, &text); err != nil {
			return nil, err
		}
		a.Sources = text
	}
	sources := expandSources(a.Sources)
	cwd := ""
	if Truth(a.Cwd) {
		if cwd = Str(a.Cwd); !filepath.IsAbs(cwd) {
			return nil, InvocationErrorf("cwd must be absolute")
		}
	} else if slices.ContainsFunc(sources, func(src string) bool { return !filepath.IsAbs(src) }) {
		return nil, InvocationErrorf("Relative paths require the 'cwd' parameter")
	}
	if other {
		// One process has one user: the tool does it as another.
		return archiveCmdZip(ctx, c, zipArgs{File: a.File, Sources: a.Sources, Cwd: a.Cwd, Runas: a.Runas})
	}
	names, err := writeZip(a.File, cwd, sources)
	if err != nil {
		return nil, ExecErrorf("Exception encountered creating zipfile: %s", osErrorText(err))
	}
	return Strings(names), nil
}

// writeZip packs sources and returns the names of the members. A source that
// does not exist is left out.
func writeZip(dest, cwd string, sources []string) (names []string, err error) {
	out, err := os.Create(dest)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err2 := out.Close(); err == nil {
			err = err2
		}
	}()
	z := zip.NewWriter(out)
	base := func(p string) string {
		root := "/"
		if cwd != "" && strings.HasPrefix(p, cwd) {
			root = cwd
		}
		rel, _ := filepath.Rel(root, p)
		return rel
	}
	add := func(p, name string) error {
		names = append(names, name)
		return zipMember(z, p, name)
	}
	for _, src := range sources {
		if cwd != "" && !filepath.IsAbs(src) {
			src = filepath.Join(cwd, src)
		}
		if !pathExists(src) {
			continue
		}
		if !isDir(src) {
			if err := add(src, base(src)); err != nil {
				return nil, err
			}
			continue
		}
		err := filepath.WalkDir(realDirOf(src), func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // what cannot be read is left out, as os.walk does
			}
			switch {
			case d.IsDir():
				return add(p, base(p)+"/")
			case d.Type()&fs.ModeSymlink != 0 && isDir(p), !pathExists(p):
				return nil
			}
			return add(p, base(p))
		})
		if err != nil {
			return nil, err
		}
	}
	return names, z.Close()
}

// realDirOf makes WalkDir enter a directory that is named by a link.
func realDirOf(p string) string {
	if isSymlink(p) {
		return p + "/"
	}
	return p
}

func zipMember(z *zip.Writer, p, name string) error {
	st, err := os.Stat(p)
	if err != nil {
		return err
	}
	h, err := zip.FileInfoHeader(st)
	if err != nil {
		return err
	}
	h.Name = strings.TrimLeft(path.Clean(name), "/")
	if st.IsDir() {
		h.Name += "/"
		_, err = z.CreateHeader(h)
		return err
	}
	h.Method = zip.Deflate
	w, err := z.CreateHeader(h)
	if err != nil {
		return err
	}
	f, err := os.Open(p)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

type cmdUnzipArgs struct {
	File     string `arg:"zip_file"`
	Dest     string
	Excludes any `def:"None"`
	Options  any `def:"None"`
	Template any `def:"None"`
	Runas    any `def:"None"`
	Trim     any `arg:"trim_output" def:"False"`
	Password any `def:"None"`
}

func archiveCmdUnzip(ctx context.Context, c *Call, a cmdUnzipArgs) (any, error) {
	if err := needBinary("unzip"); err != nil {
		return nil, err
	}
	args, level := []string{"unzip"}, "debug"
	if Truth(a.Password) {
		args, level = append(args, "-P", Str(a.Password)), "quiet"
	}
	if Truth(a.Options) {
		words, err := splitShell(Str(a.Options))
		if err != nil {
			return nil, err
		}
		args = append(args, words...)
	}
	args = append(args, a.File, "-d", a.Dest)
	if a.Excludes != nil {
		args = append(append(args, "-x"), excludeNames(a.Excludes)...)
	}
	r, err := archiveRun(ctx, c, cmdRequest{Cmd: Strings(args), Template: a.Template, Runas: a.Runas, OutputLoglevel: level})
	if err != nil {
		return nil, err
	}
	if r.failed() {
		return nil, ExecErrorf("%s", r.stdout)
	}
	return trimNames(Strings(pyLines(r.stdout, false)), a.Trim), nil
}

type unzipArgs struct {
	cmdUnzipArgs
	ExtractPerms bool `arg:"extract_perms" def:"True"`
}

func archiveUnzip(ctx context.Context, c *Call, a unzipArgs) (any, error) {
	other, err := otherUser(a.Runas)
	if err != nil {
		return nil, err
	}
	if err := renderArchivePaths(ctx, c, a.Template, &a.File, &a.Dest); err != nil {
		return nil, err
	}
	names, locked, err := zipNames(a.File, excludeNames(a.Excludes))
	switch {
	case err != nil:
	case other || locked && Truth(a.Password):
		// Another user, or a password: the tool does it.
		var excludes any
		if Truth(a.Excludes) {
			excludes = a.Excludes
		}
		_, err = archiveCmdUnzip(ctx, c, cmdUnzipArgs{File: a.File, Dest: a.Dest, Excludes: excludes, Options: "-o", Runas: a.Runas, Password: a.Password})
		if err != nil {
			return nil, err
		}
	case locked:
		err = errors.New("File is encrypted, password required for extraction")
	default:
		err = extractZip(a.File, a.Dest, names, a.ExtractPerms)
	}
	if err != nil {
		text := osErrorText(err)
		if errors.Is(err, zip.ErrFormat) {
			text = "File is not a zip file"
		}
		return nil, ExecErrorf("Exception encountered unpacking zipfile: %s", text)
	}
	return trimNames(Strings(names), a.Trim), nil
}

// zipNames lists the members but for those excluded; locked says that one needs
// a password.
func zipNames(file string, excludes []string) (names []string, locked bool, err error) {
	z, err := openZip(file)
	if err != nil {
		return nil, false, err
	}
	defer z.Close()
	for _, f := range z.File {
		if !slices.Contains(excludes, f.Name) {
			names = append(names, f.Name)
			locked = locked || f.Flags&1 != 0
		}
	}
	return names, locked, nil
}

// extractZip unpacks members below dest. Nothing leaves dest: neither by a name
// nor through a link that the archive made.
func extractZip(file, dest string, names []string, perms bool) error {
	z, err := openZip(file)
	if err != nil {
		return err
	}
	defer z.Close()
	if err := os.MkdirAll(dest, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dest)
	if err != nil {
		return err
	}
	defer root.Close()
	wanted := map[string]bool{}
	for _, n := range names {
		wanted[n] = true
	}
	for _, f := range z.File {
		name := insideName(f.Name)
		if !wanted[f.Name] || name == "" {
			continue
		}
		if err := extractZipMember(root, f, name, perms); err != nil {
			return err
		}
	}
	return nil
}

// insideName is the name of a member without what leads out of the archive.
func insideName(name string) string {
	var parts []string
	for _, p := range strings.Split(name, "/") {
		if p != "" && p != "." && p != ".." {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, "/")
}

func extractZipMember(root *os.Root, f *zip.File, name string, perms bool) error {
	mode := zipMode(f)
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	isDirectory := strings.HasSuffix(f.Name, "/")
	switch {
	case mode&0o170000 == 0o120000:
		target, err := readZipMember(f)
		if err != nil {
			return err
		}
		return root.Symlink(string(target), name)
	case isDirectory:
		if err := root.MkdirAll(name, 0o755); err != nil {
			return err
		}
	default:
		r, err := f.Open()
		if err != nil {
			return err
		}
		defer r.Close()
		w, err := root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = io.Copy(w, r)
		if err2 := w.Close(); err == nil {
			err = err2
		}
		if err != nil {
			return err
		}
	}
	if !perms {
		return nil
	}
	bits := fs.FileMode(mode & 0o777)
	switch {
	case mode == 0 && isDirectory:
		bits = 0o755
	case mode == 0:
		bits = 0o644
	}
	if mode&0o4000 != 0 {
		bits |= fs.ModeSetuid
	}
	if mode&0o2000 != 0 {
		bits |= fs.ModeSetgid
	}
	if mode&0o1000 != 0 {
		bits |= fs.ModeSticky
	}
	return root.Chmod(name, bits)
}

func readZipMember(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, 1<<16))
}

type isEncryptedArgs struct {
	Name       string
	Clean      bool   `def:"False"`
	Saltenv    string `def:"'base'"`
	SourceHash any    `arg:"source_hash" def:"None"`
	UseEtag    bool   `arg:"use_etag" def:"False"`
}

func archiveIsEncrypted(ctx context.Context, c *Call, a isEncryptedArgs) (any, error) {
	cached, err := cacheArchive(ctx, c, a.Name, a.Saltenv, a.SourceHash)
	if err != nil {
		return nil, err
	}
	_, locked, err := zipNames(cached, nil)
	where := NewMap("archive location", cached)
	if errors.Is(err, zip.ErrFormat) {
		return nil, ExecErrorInfo(a.Name+" is not a ZIP file", where)
	}
	if err != nil {
		return nil, ExecErrorInfo(osErrorText(err), where)
	}
	if a.Clean {
		_ = os.Remove(cached)
	}
	return locked, nil
}
