// Module file: manage_file, which brings a file to the wanted contents, owner
// and mode and returns what a state returns.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

type manageFileArgs struct {
	Name                            string
	Sfn                             any
	Ret                             any
	Source                          any
	SourceSum                       any
	User, Group, Mode, Attrs        any
	Saltenv                         any
	Backup                          any
	Makedirs                        bool   `def:"False"`
	Template                        any    `def:"None"`
	ShowChanges                     bool   `def:"True"`
	Contents                        any    `def:"None"`
	DirMode                         any    `def:"None"`
	FollowSymlinks                  bool   `def:"True"`
	SkipVerify                      bool   `def:"False"`
	KeepMode                        bool   `def:"False"`
	Encoding                        any    `def:"None"`
	EncodingErrors                  string `def:"'strict'"`
	Seuser, Serole, Setype, Serange any    `def:"None"`
	VerifySsl                       bool   `def:"True"`
	UseEtag                         bool   `def:"False"`
	Kwargs                          *Map   `arg:"**kwargs"`
}

func fileManageFile(ctx context.Context, c *Call, a manageFileArgs) (any, error) {
	return orError(manageFile(ctx, c, a))
}

// managed is one run of manage_file.
type managed struct {
	manageFileArgs
	c      *Call
	ret    *Map
	sum    *Map
	sfn    string
	source string
	backup string
}

func (m *managed) fail(format string, args ...any) (*Map, error) {
	m.ret.Set("result", false)
	m.ret.Set("comment", fmt.Sprintf(format, args...))
	return m.ret, nil
}

func manageFile(ctx context.Context, c *Call, a manageFileArgs) (*Map, error) {
	m := &managed{manageFileArgs: a, c: c, sfn: Str(orEmpty(a.Sfn)), source: Str(orEmpty(a.Source))}
	m.Name = expandUser(a.Name)
	m.ret, _ = a.Ret.(*Map)
	if m.ret.Len() == 0 {
		m.ret = NewMap("name", m.Name, "changes", &Map{}, "comment", "", "result", true)
	}
	m.sum, _ = a.SourceSum.(*Map)
	if h, ok := m.sum.Get("hsum"); ok {
		m.sum.Set("hsum", strings.ToLower(Str(h)))
	}
	mode, err := configBackupMode(ctx, c, configBackupArgs{Backup: a.Backup})
	if err != nil {
		return nil, err
	}
	m.backup = Str(mode)
	if m.source != "" {
		if m.sfn == "" {
			if ret, err := m.fetch(ctx); ret != nil || err != nil {
				return ret, err
			}
			kind := m.hashType()
			sum, err := hashOfFile(m.sfn, kind)
			if err != nil {
				return nil, err
			}
			m.sum = NewMap("hash_type", kind, "hsum", sum)
		}
		if a.KeepMode {
			m.Mode = keptMode(ctx, c, m.source, a.Saltenv, m.Mode)
		}
	}
	if isFile(m.Name) || isSymlink(m.Name) {
		return m.update(ctx)
	}
	return m.create(ctx)
}

func (m *managed) hashType() string {
	if k := m.sum.Str("hash_type"); k != "" {
		return k
	}
	if k := m.c.Opts.Str("hash_type"); k != "" {
		return k
	}
	return "sha256"
}

// fetch brings the source into the cache; a map is the answer that ends it.
func (m *managed) fetch(ctx context.Context) (*Map, error) {
	got, err := m.c.RunKw(ctx, "cp.cache_file", []any{m.source, m.Saltenv}, NewMap("verify_ssl", m.VerifySsl, "use_etag", m.UseEtag))
	if err != nil {
		return nil, err
	}
	if !Truth(got) {
		return m.fail("Source file '%s' not found", m.source)
	}
	m.sfn = Str(got)
	return nil, nil
}

// verify compares what was fetched with its checksum, unless the file server
// vouches for it.
func (m *managed) verify(what, hint string) (*Map, error) {
	if m.source == "" || urlScheme(m.source) == "salt" || m.SkipVerify || m.UseEtag || m.sum.Len() == 0 {
		return nil, nil
	}
	sum, err := hashOfFile(m.sfn, m.hashType())
	if err != nil {
		return nil, err
	}
	if sum != m.sum.Str("hsum") {
		return m.fail("Specified %s checksum for %s (%s) does not match actual checksum (%s)%s", m.hashType(), what, m.sum.Str("hsum"), sum, hint)
	}
	return nil, nil
}

// contentsFile writes contents to a temporary file.
func (m *managed) contentsFile() (string, error) {
	data := asBytes(m.Contents)
	if Truth(m.Encoding) {
		data = []byte(encodeText(Str(m.Contents), Str(m.Encoding)))
	}
	return tempFile(data)
}

func (m *managed) perms(ctx context.Context, follow bool) error {
	ret, _, err := checkPerms(ctx, m.c, permsCheck{name: m.Name, ret: m.ret, user: m.User, group: m.Group, mode: m.Mode, attrs: m.Attrs,
		follow: follow, seuser: m.Seuser, serole: m.Serole, setype: m.Setype, serange: m.Serange})
	if err == nil {
		m.ret = ret
	}
	return err
}

// update changes a file that exists.
func (m *managed) update(ctx context.Context) (*Map, error) {
	changes := m.ret.Map("changes")
	link := isSymlink(m.Name)
	real := m.Name
	if link && m.FollowSymlinks {
		real = realPath(m.Name)
	}
	if m.source != "" {
		have := ""
		if m.FollowSymlinks || !isSymlink(real) {
			var err error
			if have, err = hashOfFile(real, m.hashType()); err != nil {
				return nil, err
			}
		}
		if have == "" || have != m.sum.Str("hsum") {
			if m.sfn == "" {
				if ret, err := m.fetch(ctx); ret != nil || err != nil {
					return ret, err
				}
			}
			if ret, err := m.verify(m.source, ". If the 'source_hash' value refers to a remote file with multiple possible matches, then it may be necessary to set 'source_hash_name'."); ret != nil || err != nil {
				return ret, err
			}
			diff, err := diffFiles(ctx, m.c, getDiffArgs{File1: real, File2: m.sfn, Saltenv: "base", ShowChanges: m.ShowChanges, Template: true})
			if err != nil {
				diff = err.Error()
			}
			if diff != "" {
				changes.Set("diff", diff)
			}
			if err := installFile(m.c, m.sfn, real, m.backup, 0o600); err != nil {
				cleanTemp(m.sfn)
				return m.fail("Failed to commit change: %s", osErrorText(err))
			}
		}
	}
	if m.Contents != nil {
		tmp, err := m.contentsFile()
		if err != nil {
			return nil, err
		}
		defer cleanTemp(tmp)
		diff, err := diffFiles(ctx, m.c, getDiffArgs{File1: real, File2: tmp, Saltenv: "base", ShowChanges: m.ShowChanges, Template: true})
		if err != nil {
			warnings, ok := m.ret.Value("warnings").(*List)
			if !ok {
				warnings = &List{}
				m.ret.Set("warnings", warnings)
			}
			warnings.Append("Failed to detect changes to file: " + err.Error())
		}
		if diff != "" {
			changes.Set("diff", diff)
			if err := installFile(m.c, tmp, real, m.backup, 0o600); err != nil {
				return m.fail("Failed to commit change: %s", osErrorText(err))
			}
		}
	}
	if link && !m.FollowSymlinks && isSymlink(m.Name) {
		if m.sfn == "" {
			if ret, err := m.fetch(ctx); ret != nil || err != nil {
				return ret, err
			}
		}
		if ret, err := m.verify(m.Name, ""); ret != nil || err != nil {
			return ret, err
		}
		if err := installFile(m.c, m.sfn, m.Name, m.backup, 0o600); err != nil {
			cleanTemp(m.sfn)
			return m.fail("Failed to commit change: %s", osErrorText(err))
		}
		changes.Set("diff", "Replace symbolic link with regular file")
	}
	if err := m.perms(ctx, m.FollowSymlinks); err != nil {
		return nil, err
	}
	switch {
	case m.ret.Map("changes").Len() > 0:
		m.ret.Set("comment", fmt.Sprintf("File %s updated", m.Name))
	case Truth(m.ret.Value("result")):
		m.ret.Set("comment", fmt.Sprintf("File %s is in the correct state", m.Name))
	}
	cleanTemp(m.sfn)
	return m.ret, nil
}

// parents sees to the directory of a new file; a map is the answer that ends it.
func (m *managed) parents(ctx context.Context) (*Map, error) {
	if isDir(filepath.Dir(m.Name)) {
		return nil, nil
	}
	if !m.Makedirs {
		cleanTemp(m.sfn)
		m.ret.Map("changes").Delete("diff")
		return m.fail("Parent directory not present")
	}
	mode := m.DirMode
	if mode == nil && m.Mode != nil {
		// Who may read the file may enter its directory.
		digits := []byte(Str(m.Mode))
		digits = append([]byte{}, digits[max(0, len(digits)-3):]...)
		for i, d := range digits {
			if d >= '1' && d <= '7' {
				digits[i] = '0' + (d - '0') | 1
			}
		}
		mode = string(digits)
	}
	_, err := makeParents(ctx, m.c, m.Name, m.User, m.Group, mode)
	return nil, err
}

// create makes a file that does not exist.
func (m *managed) create(ctx context.Context) (*Map, error) {
	changes := m.ret.Map("changes")
	test := m.c.Opts.Bool("test")
	if m.source != "" {
		if m.sfn == "" {
			if ret, err := m.fetch(ctx); ret != nil || err != nil {
				return ret, err
			}
		}
		if ret, err := m.verify(m.Name, ""); ret != nil || err != nil {
			return ret, err
		}
		changes.Set("diff", "New file")
		if ret, err := m.parents(ctx); ret != nil || err != nil {
			return ret, err
		}
	} else {
		if ret, err := m.parents(ctx); ret != nil || err != nil {
			return ret, err
		}
		if !test {
			if m.Contents == nil {
				f, err := os.OpenFile(m.Name, os.O_CREATE|os.O_WRONLY, m.newMode())
				if err != nil {
					return nil, ExecErrorf("%s", strerrorOf(err))
				}
				f.Close()
				changes.Set("new", fmt.Sprintf("file %s created", m.Name))
				m.ret.Set("comment", "Empty file")
			} else {
				changes.Set("diff", "New file")
			}
		}
	}
	from := m.sfn
	if m.Contents != nil {
		tmp, err := m.contentsFile()
		if err != nil {
			return nil, err
		}
		defer cleanTemp(tmp)
		from = tmp
	}
	if from != "" {
		fresh := os.FileMode(0o600) // as a copy of the source has it, until its own mode is set
		if m.source == "" {
			fresh = m.newMode()
			if mask, err := strconv.ParseUint(defaultFileMode(m.c), 8, 32); err == nil {
				fresh &= os.FileMode(mask)
			}
		}
		err := installFile(m.c, from, m.Name, m.backup, fresh)
		cleanTemp(m.sfn)
		if err != nil {
			return nil, pyOSError(err)
		}
	}
	if m.Mode == nil {
		m.Mode = defaultFileMode(m.c)
	}
	if err := m.perms(ctx, false); err != nil {
		return nil, err
	}
	if !Truth(m.ret.Value("comment")) {
		m.ret.Set("comment", "File "+m.Name+" updated")
	}
	switch {
	case test:
		m.ret.Set("comment", "File "+m.Name+" not updated")
	case m.ret.Map("changes").Len() == 0 && Truth(m.ret.Value("result")):
		m.ret.Set("comment", "File "+m.Name+" is in the correct state")
	}
	return m.ret, nil
}

// newMode is the mode that a file is made with before its own is set.
func (m *managed) newMode() os.FileMode {
	if Truth(m.Mode) {
		return 0o600
	}
	return 0o666 &^ umaskOf(m.c)
}
