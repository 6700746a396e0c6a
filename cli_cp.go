// The `salt-cp` command line: files of the master's machine to minions.
//
// The law of this file: small texts go in one message (cp.recv); with --chunked,
// and for whatever is no text, a file goes in pieces, each a job of its own
// (cp.recv_chunked), in their order; a minion that failed at one piece keeps its
// first error. No file is ever in memory as a whole, except in the small form.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

// copyCommand is one run of `salt-cp`.
type copyCommand struct {
	p    *ParsedCLI
	o    *Options
	std  Stdio
	log  *slog.Logger
	c    *LocalClient
	kind string
	tgt  any
	src  []string
	dest string
	ret  *Map
}

func appletCp(args []string, std Stdio) int {
	p, code, done := parseCLI("salt-cp", args, std)
	if done {
		return code
	}
	if len(p.Args) <= 1 {
		p.PrintHelp(std.Out)
		return p.UsageError(std, "Insufficient arguments")
	}
	o, code, done := p.LoadConfig(std)
	if done {
		return code
	}
	s := &copyCommand{p: p, o: o, std: std, log: p.ConfigFlags(std).Log, kind: selectedTarget(p), tgt: p.Args[0], ret: NewMap()}
	if s.kind == "list" {
		s.tgt = Strings(SplitTargetList(p.Args[0]))
	}
	s.dest = p.Args[len(p.Args)-1]
	for _, path := range p.Args[1 : len(p.Args)-1] {
		abs, err := filepath.Abs(path)
		if real, rerr := filepath.EvalSymlinks(abs); rerr == nil {
			abs = real
		} else if err != nil {
			abs = path
		}
		s.src = append(s.src, abs)
	}
	show, err := newResultPrinter(o, std, s.log)
	if err != nil {
		fmt.Fprintf(std.Err, "salt-cp: %v\n", err)
		return exitFailed
	}
	defer show.d.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s.c = NewLocalClient(o, PublishAuth{Token: cpToken(o)}, s.log)
	defer s.c.Close()
	if code, done := s.copy(ctx); done {
		return code
	}
	if err := show.value(s.ret, "", 0); err != nil {
		fmt.Fprintf(std.Err, "salt-cp: %v\n", err)
		return exitFailed
	}
	return 0
}

// cpToken is the kept token of a user who has no key.
func cpToken(o *Options) string {
	if readPublishKey(o, publishingUser()) != "" {
		return ""
	}
	return o.Str("token")
}

func (s *copyCommand) copy(ctx context.Context) (code int, done bool) {
	if s.p.Bool("chunked") {
		return s.copyChunked(ctx)
	}
	files := NewMap()
	for _, path := range s.src {
		st, err := os.Stat(path)
		switch {
		case err != nil:
			s.log.Warn(fmt.Sprintf("%s is not copied: %v", path, err))
			continue
		case st.IsDir():
			fmt.Fprintf(s.std.Out, "%s is a directory, only files are supported in non-chunked mode. Use \"--chunked\" command line argument.\n", path)
			return exitFailed, true
		}
		text, err := os.ReadFile(path)
		if err != nil {
			fmt.Fprintf(s.std.Err, "salt-cp: %v\n", err)
			return exitIncomplete, true
		}
		if !utf8.Valid(text) { // the small form is for texts alone
			return s.copyChunked(ctx)
		}
		files.Set(path, string(text))
	}
	answers, err := s.send(ctx, "cp.recv", files, s.dest)
	if err != nil {
		return s.fail(err), true
	}
	s.ret = answers
	return 0, false
}

// send runs one job and collects the answers; False for a silent minion.
func (s *copyCommand) send(ctx context.Context, fun string, args ...any) (*Map, error) {
	answers := NewMap()
	w := WaitOptions{Timeout: time.Duration(s.p.Float("timeout") * float64(time.Second)), Silent: true}
	req := JobRequest{Tgt: s.tgt, TgtType: s.kind, Fun: fun, Arg: NewList(args...), Delimiter: s.p.Str("delimiter")}
	_, err := s.c.Run(ctx, req, w, func(r MinionReturn) bool {
		if r.Silent != "" {
			answers.Set(r.ID, false)
		} else {
			answers.Set(r.ID, r.Return)
		}
		return true
	})
	return answers, err
}

func (s *copyCommand) fail(err error) int {
	var refused *ClientError
	switch {
	case errors.Is(err, ErrNoMinions):
		fmt.Fprintln(s.std.Out, textNoMinions)
		return 0
	case errors.As(err, &refused):
		fmt.Fprintln(s.std.Err, refused.Msg)
	default:
		fmt.Fprintf(s.std.Err, "salt-cp: %v\n", err)
	}
	return exitFailed
}

// copyItem is a file or an empty directory to send.
type copyItem struct {
	path, remote string
	mode         fs.FileMode
	dir          bool
}

// items lists what the sources hold, with its place on the minions.
func (s *copyCommand) items() ([]copyItem, error) {
	var out []copyItem
	for _, src := range s.src {
		err := filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			st, err := os.Stat(path)
			if err != nil {
				s.log.Warn(fmt.Sprintf("%s is not copied: %v", path, err))
				return nil
			}
			rel, err := filepath.Rel(src, path)
			if err != nil {
				return err
			}
			item := copyItem{path: path, mode: st.Mode(), remote: filepath.Join(s.dest, filepath.Base(src), rel)}
			switch {
			case d.IsDir():
				names, err := os.ReadDir(path)
				if err != nil {
					return err
				}
				item.dir = true
				if len(names) == 0 {
					out = append(out, item)
				}
			case st.Mode().IsRegular():
				out = append(out, item)
			default:
				s.log.Warn(path + " is not copied: it is no regular file")
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(out) == 1 && !out[0].dir && !strings.HasSuffix(s.dest, "/") && slices.Contains(s.src, out[0].path) {
		out[0].remote = s.dest // one file to one name
	}
	return out, nil
}

func (s *copyCommand) copyChunked(ctx context.Context) (code int, done bool) {
	items, err := s.items()
	if errors.Is(err, fs.ErrNotExist) {
		var where *fs.PathError
		if errors.As(err, &where) {
			fmt.Fprintf(s.std.Err, "%s does not exist\n", where.Path)
		}
		return exitIncomplete, true
	}
	if err != nil {
		fmt.Fprintf(s.std.Err, "salt-cp: %v\n", err)
		return exitFailed, true
	}
	for _, item := range items {
		if item.dir {
			answers, err := s.send(ctx, "cp.recv_chunked", item.remote, nil)
			if err != nil {
				return s.fail(err), true
			}
			s.note(item.remote, answers)
			continue
		}
		if err := s.sendFile(ctx, item); err != nil {
			return s.fail(err), true
		}
	}
	return 0, false
}

// note keeps the answers for a file. An answer that is not True stays.
func (s *copyCommand) note(remote string, answers *Map) {
	for id, v := range answers.All() {
		if s.ret.Map(id) == nil {
			s.ret.Set(id, NewMap())
		}
		if have, ok := s.ret.Map(id).Get(remote); !ok || have == true {
			s.ret.Map(id).Set(remote, v)
		}
	}
}

// sendFile sends one file in pieces.
func (s *copyCommand) sendFile(ctx context.Context, item copyItem) error {
	f, err := os.Open(item.path)
	if err != nil {
		return err
	}
	defer f.Close()
	size := s.o.Int("salt_cp_chunk_size")
	if size <= 0 {
		size = 98304
	}
	compressed := s.p.Bool("gzip")
	buf := make([]byte, size)
	for n := 0; ; n++ {
		got, err := io.ReadFull(f, buf)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("read %s: %w", item.path, err)
		}
		if got == 0 && n > 0 {
			return nil
		}
		piece := buf[:got]
		if compressed {
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			z.Write(piece)
			z.Close()
			piece = packed.Bytes()
		}
		answers, serr := s.send(ctx, "cp.recv_chunked", item.remote, base64.StdEncoding.EncodeToString(piece), n > 0, compressed, int64(item.mode.Perm()))
		if serr != nil {
			return serr
		}
		s.note(item.remote, answers)
		if got < size {
			return nil
		}
	}
}
