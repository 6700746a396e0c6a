// Module cp: files that a minion sends to its master, and files that salt-cp
// sends to a minion.
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// pushChunk is the size of the pieces in which files go to the master:
// file_buffer_size of the minion, 256 KiB.
func pushChunk(o *Options) int {
	if n := o.Int("file_buffer_size"); n > 0 {
		return n
	}
	return 256 << 10
}

type cpPushArgs struct {
	Path         string
	KeepSymlinks bool `def:"False"`
	UploadPath   any  `def:"None"`
	RemoveSource bool `def:"False"`
}

func cpPush(ctx context.Context, c *Call, a cpPushArgs) (any, error) {
	if !filepath.IsAbs(a.Path) || strings.Contains(a.Path, "../") {
		return false, nil
	}
	src := a.Path
	if !a.KeepSymlinks {
		if p, err := filepath.EvalSymlinks(src); err == nil {
			src = p
		}
	}
	name := src
	if a.KeepSymlinks {
		name = a.Path
	}
	if s, ok := a.UploadPath.(string); ok && s != "" {
		name = s
	}
	if strings.Contains(name, "..") || c.Master == nil {
		return false, nil
	}
	f, err := os.Open(src)
	if err != nil {
		return false, nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false, nil
	}
	parts := Strings(strings.Split(strings.Trim(filepath.Clean(name), "/"), "/"))
	buf := make([]byte, pushChunk(c.Opts))
	for loc, first := int64(0), true; ; first = false {
		n, err := io.ReadFull(f, buf)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return nil, err
		}
		if n == 0 && !first {
			break
		}
		v, err := c.Master.Request(ctx, NewMap("cmd", "_file_recv", "id", c.Opts.Str("id"), "path", parts,
			"size", info.Size(), "loc", loc, "data", append([]byte(nil), buf[:n]...)))
		if err != nil {
			return nil, err
		}
		if !Truth(v) {
			c.Log.Error("cp.push Failed transfer failed. Ensure master has 'file_recv' set to True and that the file is not larger than the 'file_recv_max_size' setting on the master.")
			return v, nil
		}
		loc += int64(n)
		if n < len(buf) {
			break
		}
	}
	if a.RemoveSource {
		if err := os.Remove(a.Path); err != nil {
			return nil, err
		}
	}
	return true, nil
}

type cpPushDirArgs struct {
	Path       string
	Glob       any `def:"None"`
	UploadPath any `def:"None"`
}

func cpPushDir(ctx context.Context, c *Call, a cpPushDirArgs) (any, error) {
	root := strings.TrimRight(a.Path, "/")
	upload, _ := a.UploadPath.(string)
	if !filepath.IsAbs(root) || strings.Contains(root+upload, "../") {
		return false, nil
	}
	if info, err := os.Stat(root); err != nil {
		return false, nil
	} else if !info.IsDir() {
		return cpPush(ctx, c, cpPushArgs{Path: root, UploadPath: a.UploadPath})
	}
	var names []string
	err := filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if g, ok := a.Glob.(string); ok && g != "" {
			if hit, _ := path.Match(g, d.Name()); !hit {
				return nil
			}
		}
		names = append(names, p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		var to any
		if upload != "" {
			to = path.Join(upload, strings.TrimPrefix(n, root))
		}
		v, err := cpPush(ctx, c, cpPushArgs{Path: n, UploadPath: to})
		if err != nil || !Truth(v) {
			return v, err
		}
	}
	return true, nil
}

func cpRecv(_ context.Context, _ *Call, a struct {
	Files *Map
	Dest  string
}) (any, error) {
	out := &Map{}
	for k, v := range a.Files.All() {
		name := Str(k)
		final := a.Dest
		if strings.HasSuffix(a.Dest, "/") || isDir(a.Dest) {
			final = filepath.Join(a.Dest, filepath.Base(name))
		} else if a.Files.Len() > 1 {
			out.Set(a.Dest, fmt.Sprintf("%s is no directory: several files need one", a.Dest))
			return out, nil
		}
		mode := os.FileMode(0)
		data := v
		if m, ok := v.(*Map); ok { // name → {data, mode}
			data = m.Value("data")
			n, _ := toInt(m.Value("mode"))
			mode = os.FileMode(n)
		}
		p, _ := bytesOf(data)
		if err := writeStream(final, bytes.NewReader(p)); err != nil {
			out.Set(final, false)
			continue
		}
		if mode != 0 {
			os.Chmod(final, mode)
		}
		out.Set(final, true)
	}
	return out, nil
}

type cpRecvChunkedArgs struct {
	Dest       string
	Chunk      any
	Append     bool `def:"False"`
	Compressed bool `def:"True"`
	Mode       any  `def:"None"`
}

func cpRecvChunked(_ context.Context, c *Call, a cpRecvChunkedArgs) (any, error) {
	fail := func(err error) (any, error) {
		c.SetRetcode(1)
		return err.Error(), nil
	}
	if a.Chunk == nil { // an empty directory
		if st, err := os.Stat(a.Dest); err == nil && !st.IsDir() {
			return "Path exists and is a file", nil
		}
		if err := os.MkdirAll(a.Dest, 0o755); err != nil {
			return fail(err)
		}
		return true, nil
	}
	text, ok := bytesOf(a.Chunk)
	if !ok {
		return nil, InvocationErrorf("chunk must be bytes")
	}
	data, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil {
		return nil, InvocationErrorf("chunk is not base64: %v", err)
	}
	if a.Compressed {
		if data, err = gunzip(data, 256<<20); err != nil {
			return nil, ExecErrorf("%s", err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(a.Dest), 0o755); err != nil {
		return fail(err)
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if a.Append {
		flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	f, err := os.OpenFile(a.Dest, flags, 0o644)
	if err != nil {
		return fail(err)
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fail(err)
	}
	if a.Mode != nil && !a.Append {
		n, ok := toInt(a.Mode)
		if s, isText := a.Mode.(string); isText {
			v, err := strconv.ParseInt(s, 8, 32)
			n, ok = v, err == nil
		}
		if ok {
			if err := os.Chmod(a.Dest, os.FileMode(n)); err != nil {
				return fail(err)
			}
		}
	}
	return true, nil
}
