// Modules that are programs: any executable file in _modules, for boxes without
// Python, in whatever language.
//
// The law of this room: `FILE --describe` prints JSON that names the functions;
// `FILE FUNCTION` gets {"args": […], "kwargs": {…}, "id": …, "grains": {…}} on
// its standard input and answers with JSON on its standard output (text that is
// no JSON is the result itself). Exit status 0 is success; anything else is an
// error whose text is what the program wrote to its standard error. A cancelled
// call kills the program's whole process group.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// What a program may print: the answer of a function, the names of its
// functions, and what it says on its standard error.
const (
	maxProgramOutput   = 256 << 20
	maxProgramDescribe = 4 << 20
	maxProgramErrors   = 1 << 20
)

// isProgram says whether a file can be started: a #! line or an ELF image.
func isProgram(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 4)
	n, _ := f.Read(head)
	return bytes.HasPrefix(head[:n], []byte("#!")) || bytes.Equal(head[:n], []byte("\x7fELF"))
}

// loadProgram asks a program for its functions. The file server does not carry
// permissions, so the execute bit is set here.
func loadProgram(ctx context.Context, c *Call, path string) (*customModule, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() || !isProgram(path) {
		return nil, fmt.Errorf("%s is no module: no .py or .star file, and no program (#! line or ELF image)", path)
	}
	if info.Mode()&0o100 == 0 {
		if err := os.Chmod(path, info.Mode()|0o500); err != nil {
			return nil, err
		}
	}
	wait := customLoadTimeout(c.Opts)
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("%s --describe did not end within %s", filepath.Base(path), wait))
	defer cancel()
	out, err := askProgram(ctx, path, "--describe", nil, maxProgramDescribe)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	v, err := DecodeJSON(out)
	if err != nil {
		return nil, fmt.Errorf("%s --describe: no JSON: %w", path, err)
	}
	desc, ok := v.(*Map)
	if !ok || desc.Map("functions") == nil {
		return nil, fmt.Errorf(`%s --describe: {"functions": {name: {"doc": text, "params": [{"name": …}]}}} is expected`, path)
	}
	m := &customModule{called: desc.Str("virtual"), doc: desc.Str("doc"), refused: desc.Str("refused"), funcs: map[string]Function{}}
	for name, d := range desc.Map("functions").All() {
		fd, _ := d.(*Map)
		if fd == nil {
			fd = &Map{}
		}
		sig := describedSignature(fd)
		sig.funcName = Str(name)
		m.funcs[Str(name)] = &programFunction{path: path, name: Str(name), doc: fd.Str("doc"), sig: sig}
	}
	return m, nil
}

type programFunction struct {
	path, name, doc string
	sig             *Signature
}

func (f *programFunction) Doc() string           { return f.doc }
func (f *programFunction) Signature() *Signature { return f.sig }

func (f *programFunction) Invoke(ctx context.Context, c *Call, args []any, kwargs *Map) (any, error) {
	if _, _, _, err := f.sig.Bind(args, kwargs); err != nil {
		return nil, err
	}
	in := appendHostJSON(nil, NewMap("args", NewList(args...), "kwargs", mapOrEmpty(kwargs),
		"id", c.Opts.Str("id"), "grains", mapOrEmpty(c.Grains)))
	out, err := askProgram(ctx, f.path, f.name, in, maxProgramOutput)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, ExecErrorf("%s", err)
	}
	if v, err := DecodeJSON(out); err == nil {
		return unpackHost(v), nil
	}
	return strings.TrimRight(string(out), "\n"), nil
}

// boundedBuffer refuses to grow over its limit, and calls full when it is
// asked to. The buffer is not embedded: io.Copy would find its ReadFrom and
// read past the limit.
type boundedBuffer struct {
	buf  bytes.Buffer
	max  int
	over error // the refusal
	full func()
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.buf.Len()+len(p) > b.max {
		b.over = fmt.Errorf("more than %d bytes of output", b.max)
		b.full()
		return 0, b.over
	}
	return b.buf.Write(p)
}

func askProgram(ctx context.Context, path, arg string, stdin []byte, limit int) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, arg)
	cmd.Stdin = bytes.NewReader(stdin)
	out, errs := &boundedBuffer{max: limit, full: cancel}, &boundedBuffer{max: maxProgramErrors, full: cancel}
	cmd.Stdout, cmd.Stderr = out, errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // a child that keeps the pipe open does not hold the call
	err := cmd.Run()
	if over := cmp.Or(out.over, errs.over); over != nil {
		return nil, fmt.Errorf("%s %s: %w", path, arg, over)
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		if text := strings.TrimSpace(errs.buf.String()); text != "" {
			return nil, errors.New(text)
		}
		return nil, fmt.Errorf("%s %s: %w", path, arg, err)
	}
	return out.buf.Bytes(), nil
}
