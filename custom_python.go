// The Python host: one Python 3 process for each minion that keeps the
// user-written .py files imported and forks for every call (python/host.py).
//
// The law of this room: the host is started when a module is first needed and
// ends when it was idle for custom_host_idle seconds; a file that does not come
// back from its import within custom_load_timeout seconds, or that ends the
// host, is marked as broken and the host is started again without it. A call
// has a process and a socket of its own; a cancelled context kills that
// process's whole group.
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

//go:embed python/host.py python/salt/*.py python/salt/utils/*.py python/salt/utils/decorators/*.py python/salt/ext/*.py python/salt/log/*.py
var pythonSources embed.FS

// pythonHost owns the process. Its zero pointer parts mean: not running.
type pythonHost struct {
	opts *Options

	find   sync.Once
	python string

	mu     sync.Mutex // one request at a time on the control socket
	cmd    *exec.Cmd
	ctrl   *net.UnixConn
	sent   [3]any // the opts, grains and pillar that the host has
	loaded map[customKey]string
	broken map[string]string // path → why it is not loaded again
	idle   *time.Timer
	active int
}

func newPythonHost(o *Options) *pythonHost {
	return &pythonHost{opts: o, broken: map[string]string{}}
}

// available says whether the box has a Python that can run modules.
func (h *pythonHost) available() bool {
	h.find.Do(func() {
		if p := h.opts.Str("custom_python"); p != "" {
			if p != "none" {
				h.python = p
			}
			return
		}
		for _, name := range []string{"python3", "/usr/bin/python3", "/usr/local/bin/python3"} {
			if p, err := exec.LookPath(name); err == nil {
				h.python = p
				return
			}
		}
	})
	return h.python != ""
}

// bundle is the compatible salt package by module name.
func bundle() (*Map, error) {
	out := &Map{}
	err := fs.WalkDir(pythonSources, "python/salt", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".py" {
			return err
		}
		text, err := pythonSources.ReadFile(path)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(path, "python/"), ".py")
		name = strings.TrimSuffix(strings.ReplaceAll(name, "/", "."), ".__init__")
		out.Set(name, string(text))
		return nil
	})
	return out, err
}

// ensure starts the host if it does not run (any more: somebody may have killed
// it), and brings it the current options, grains and pillar. The lock is held.
func (h *pythonHost) ensure(c *Call, u *Customs) error {
	if h.ctrl != nil && hungUp(h.ctrl) {
		h.stopLocked()
	}
	if h.ctrl == nil {
		if err := h.start(c, u); err != nil {
			return err
		}
	}
	msg := NewMap("op", "env")
	if h.sent[1] != any(c.Grains) {
		msg.Set("grains", mapOrEmpty(c.Grains))
	}
	if h.sent[2] != any(c.Pillar) {
		msg.Set("pillar", mapOrEmpty(c.Pillar))
	}
	if msg.Len() == 1 {
		return nil
	}
	h.sent[1], h.sent[2] = c.Grains, c.Pillar
	if err := writeHostMessage(h.ctrl, msg); err != nil {
		h.stopLocked()
		return fmt.Errorf("python host: %w", err)
	}
	if _, err := readHostMessage(h.ctrl); err != nil {
		h.stopLocked()
		return fmt.Errorf("python host: %w", err)
	}
	return nil
}

// hungUp says whether the other end of a socket that owes no message is closed.
func hungUp(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	gone := true
	if err := raw.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = n == 0 && err == nil || err != nil && err != syscall.EAGAIN && err != syscall.EINTR
	}); err != nil {
		return true
	}
	return gone
}

func mapOrEmpty(m *Map) *Map {
	if m == nil {
		return &Map{}
	}
	return m
}

func (h *pythonHost) start(c *Call, u *Customs) error {
	source, err := pythonSources.ReadFile("python/host.py")
	if err != nil {
		return err
	}
	pkgs, err := bundle()
	if err != nil {
		return err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return fmt.Errorf("python host: %w", err)
	}
	codeR, codeW, err := os.Pipe()
	if err != nil {
		ours.Close()
		theirs.Close()
		return fmt.Errorf("python host: %w", err)
	}
	cmd := exec.Command(h.python, "-u", "-B", "-c", "exec(compile(open(4, encoding='utf-8').read(), '<halite host>', 'exec'))")
	cmd.ExtraFiles = []*os.File{theirs, codeR}
	cmd.Stderr = os.Stderr
	if c.Runner != nil && c.Runner.Out == io.Writer(os.Stdout) {
		cmd.Stdout = os.Stdout
		cmd.Env = append(os.Environ(), "HALITE_HOST_PRINTS=1")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	theirs.Close()
	codeR.Close()
	if err != nil {
		ours.Close()
		codeW.Close()
		return fmt.Errorf("cannot start %s for user-written modules: %w", h.python, err)
	}
	go func() { // ends when the host has read its program, or is gone
		codeW.Write(source)
		codeW.Close()
	}()
	files := &List{}
	for _, kind := range []string{"utils", "modules"} {
		for name, path := range u.paths(kind) {
			files.Append(NewList(kind, name, path))
		}
	}
	h.cmd, h.ctrl, h.loaded = cmd, ours, map[customKey]string{}
	h.sent = [3]any{h.opts, c.Grains, c.Pillar}
	hello := NewMap("bundle", pkgs, "opts", h.opts.All(), "grains", mapOrEmpty(c.Grains), "pillar", mapOrEmpty(c.Pillar),
		"files", files, "level", int64(10))
	ours.SetDeadline(time.Now().Add(hostStartTimeout))
	if err := writeHostMessage(ours, hello); err == nil {
		_, err = readHostMessage(ours)
		if err != nil {
			h.stopLocked()
			return fmt.Errorf("%s does not start as the host of user-written modules (3.6 or newer is needed): %w", h.python, err)
		}
	} else {
		h.stopLocked()
		return fmt.Errorf("python host: %w", err)
	}
	ours.SetDeadline(time.Time{})
	return nil
}

// hostStartTimeout bounds the start of the interpreter, on a slow and busy box.
const hostStartTimeout = time.Minute

// loadTimeout bounds the import of one file. Option custom_load_timeout, 30 s.
func (h *pythonHost) loadTimeout() time.Duration { return customLoadTimeout(h.opts) }

func customLoadTimeout(o *Options) time.Duration {
	if d := o.Duration("custom_load_timeout"); d > 0 {
		return d
	}
	return 30 * time.Second
}

// stop ends a host that is well: it forks for the calls that it was asked for
// and leaves. Calls have processes of their own and go on.
func (h *pythonHost) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retireLocked()
}

// hostLeaveTimeout is how long a host may take to leave.
const hostLeaveTimeout = 5 * time.Second

func (h *pythonHost) retireLocked() {
	if h.cmd == nil {
		return
	}
	host := h.cmd.Process
	h.ctrl.Close()
	late := time.AfterFunc(hostLeaveTimeout, func() { host.Kill() })
	h.cmd.Wait()
	late.Stop()
	h.cmd = nil
	h.stopLocked()
}

// stopLocked ends a host that does not answer as it should.
func (h *pythonHost) stopLocked() {
	if h.idle != nil {
		h.idle.Stop()
	}
	if h.ctrl != nil {
		h.ctrl.Close()
	}
	if h.cmd != nil {
		// The host alone: running calls go on, also those that do not have their
		// group yet.
		h.cmd.Process.Kill()
		h.cmd.Wait()
	}
	h.cmd, h.ctrl, h.loaded = nil, nil, nil
}

// rest starts the clock after which an idle host is ended. The lock is held.
func (h *pythonHost) rest() {
	wait := h.opts.Duration("custom_host_idle")
	if wait <= 0 {
		wait = 5 * time.Minute
	}
	if h.idle != nil {
		h.idle.Stop()
	}
	h.idle = time.AfterFunc(wait, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.active == 0 {
			h.retireLocked()
		}
	})
}

// load imports one file and describes it.
func (h *pythonHost) load(ctx context.Context, c *Call, u *Customs, kind, name, path string) (*customModule, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	answer, err := h.importFile(ctx, c, u, kind, name, path)
	if err != nil {
		return nil, err
	}
	if e := answer.Map("error"); e != nil {
		return nil, hostError(e)
	}
	m := &customModule{called: answer.Str("called"), doc: answer.Str("doc"), refused: answer.Str("refused"), funcs: map[string]Function{}}
	if funcs := answer.Map("funcs"); funcs != nil {
		for fun, d := range funcs.All() {
			desc, ok := d.(*Map)
			if !ok {
				continue
			}
			m.funcs[Str(fun)] = &pythonFunction{host: h, customs: u, kind: kind, name: name, path: path,
				attr: desc.Str("attr"), doc: desc.Str("doc"), sig: describedSignature(desc)}
		}
	}
	h.rest()
	return m, nil
}

// importFile has the host import a file, answering what __virtual__ asks for
// meanwhile. A file that hangs or ends the host is not tried again. The lock is held.
func (h *pythonHost) importFile(ctx context.Context, c *Call, u *Customs, kind, name, path string) (*Map, error) {
	stamp := fileStamp(path)
	if why, ok := h.broken[path+stamp]; ok {
		return nil, errors.New(why)
	}
	if err := h.ensure(c, u); err != nil {
		return nil, err
	}
	give := func(why string) (*Map, error) {
		h.broken[path+stamp] = why
		syscall.Kill(-h.cmd.Process.Pid, syscall.SIGKILL) // with what the import has started
		h.stopLocked()
		return nil, errors.New(why)
	}
	h.ctrl.SetDeadline(time.Now().Add(h.loadTimeout()))
	stop := context.AfterFunc(ctx, func() { h.ctrl.SetDeadline(time.Now()) })
	defer stop()
	if err := writeHostMessage(h.ctrl, NewMap("op", "load", "kind", kind, "name", name, "path", path)); err != nil {
		h.stopLocked()
		return nil, fmt.Errorf("python host: %w", err)
	}
	for {
		msg, err := readHostMessage(h.ctrl)
		switch {
		case ctx.Err() != nil:
			h.stopLocked()
			return nil, ctx.Err()
		case errors.Is(err, os.ErrDeadlineExceeded):
			return give(fmt.Sprintf("%s: the import did not end within %s", filepath.Base(path), h.loadTimeout()))
		case err != nil:
			return give(fmt.Sprintf("%s: the import ended the Python process", filepath.Base(path)))
		}
		if msg.Str("op") == "" {
			h.ctrl.SetDeadline(time.Time{})
			h.loaded[customKey{kind, name}] = path
			return msg, nil
		}
		if answer := serveModule(ctx, c, msg); answer != nil {
			if err := writeHostMessage(h.ctrl, answer); err != nil {
				return give(fmt.Sprintf("%s: %v", filepath.Base(path), err))
			}
		}
	}
}

func fileStamp(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("@%d.%d", info.ModTime().UnixNano(), info.Size())
}

// begin asks the host to fork for a call and returns the call's own socket.
func (h *pythonHost) begin(ctx context.Context, c *Call, f *pythonFunction, msg *Map) (*net.UnixConn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.ensure(c, f.customs); err != nil {
		return nil, err
	}
	if h.loaded[customKey{f.kind, f.name}] == "" { // the host was started anew since
		answer, err := h.importFile(context.WithValue(ctx, nestedLoad{}, true), c, f.customs, f.kind, f.name, f.path)
		if err != nil {
			return nil, ExecErrorf("%s", err)
		}
		if e := answer.Map("error"); e != nil {
			return nil, hostError(e)
		}
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("python host: %w", err)
	}
	defer theirs.Close()
	body := appendHostJSON(make([]byte, 4, 512), msg)
	n := len(body) - 4
	body[0], body[1], body[2], body[3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	// The descriptor travels with the first bytes; the rest may need more writes.
	sent, _, err := h.ctrl.WriteMsgUnix(body, syscall.UnixRights(int(theirs.Fd())), nil)
	if err == nil && sent < len(body) {
		_, err = h.ctrl.Write(body[sent:])
	}
	if err != nil {
		ours.Close()
		h.stopLocked()
		return nil, fmt.Errorf("python host: %w", err)
	}
	h.active++
	return ours, nil
}

func (h *pythonHost) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.active--
	h.rest()
}

// socketPair makes a connected pair: one end as a connection for us, one as a
// file to hand away.
func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs := os.NewFile(uintptr(fds[1]), "module")
	mine := os.NewFile(uintptr(fds[0]), "minion")
	conn, err := net.FileConn(mine)
	mine.Close()
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), theirs, nil
}

// pythonFunction is one function of a .py file.
type pythonFunction struct {
	host             *pythonHost
	customs          *Customs
	kind, name, path string
	attr, doc        string
	sig              *Signature
	dunder           *Map // further names that the module sees; nil for none
	streams          bool // text goes to it as a stream, and a stream comes back as text
}

func (f *pythonFunction) Doc() string           { return f.doc }
func (f *pythonFunction) Signature() *Signature { return f.sig }

func (f *pythonFunction) Invoke(ctx context.Context, c *Call, args []any, kwargs *Map) (any, error) {
	if _, _, _, err := f.sig.Bind(args, kwargs); err != nil {
		return nil, err
	}
	c.job.mu.Lock()
	context0 := c.job.vals.Clone()
	c.job.mu.Unlock()
	msg := NewMap("op", "call", "kind", f.kind, "name", f.name, "attr", f.attr,
		"args", NewList(args...), "kwargs", mapOrEmpty(kwargs), "context", context0)
	dunder := mapOrEmpty(f.dunder)
	if c.State != nil {
		dunder = dunder.Clone()
		dunder.Merge(stateDunders(c.State))
		msg.Set("test", c.Testing())
	}
	msg.Set("dunder", dunder)
	if f.streams {
		msg.Set("streams", true)
	}
	if c.Opts != f.host.opts { // a pillar on a master: the options of one minion
		own := &Map{}
		for _, key := range []string{"id", "minion_id", "saltenv", "pillarenv"} {
			own.Set(key, c.Opts.Value(key))
		}
		msg.Set("opts", own)
	}
	conn, err := f.host.begin(ctx, c, f, msg)
	if err != nil {
		return nil, err
	}
	defer f.host.end()
	return serveCall(ctx, c, conn, f.kind+"."+f.attr)
}

// serveCall follows one call until its answer: it runs what the module asks
// for, and kills the call's process group when the context ends.
func serveCall(ctx context.Context, c *Call, conn *net.UnixConn, what string) (any, error) {
	defer conn.Close()
	var mu sync.Mutex
	pid := 0
	stop := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		if pid > 1 {
			syscall.Kill(-pid, syscall.SIGKILL)
		}
		conn.Close()
	})
	defer stop()
	for {
		msg, err := readHostMessage(conn)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("its process ended without an answer")
			}
			return nil, ExecErrorf("%s: %s", what, err)
		}
		switch msg.Str("op") {
		case "pid":
			n, _ := toInt(msg.Value("pid"))
			mu.Lock()
			pid = int(n)
			gone := ctx.Err() != nil
			mu.Unlock()
			if gone && pid > 1 {
				syscall.Kill(-pid, syscall.SIGKILL)
			}
		case "done":
			c.mergeContext(msg)
			if e := msg.Map("error"); e != nil {
				return nil, hostError(e)
			}
			return unpackHost(msg.Value("return")), nil
		default:
			if answer := serveModule(ctx, c, msg); answer != nil {
				if err := writeHostMessage(conn, answer); err != nil {
					return nil, ExecErrorf("%s: %s", what, err)
				}
			}
		}
	}
}

// mergeContext takes over what the module put into __context__.
func (c *Call) mergeContext(msg *Map) {
	if fresh, ok := unpackHost(msg.Value("context")).(*Map); ok {
		c.job.mu.Lock()
		c.job.vals.Merge(fresh)
		c.job.mu.Unlock()
	}
}

// serveModule answers one request of a user-written module; nil: no answer due.
func serveModule(ctx context.Context, c *Call, msg *Map) *Map {
	c.mergeContext(msg)
	answer := &Map{}
	fail := func(err error) {
		e := asModuleError(err)
		answer.Set("error", NewMap("kind", hostKind(e.Kind), "class", e.Class, "msg", e.Msg))
	}
	table := msg.Str("table")
	switch op := msg.Str("op"); op {
	case "log":
		logFromModule(c, msg)
		return nil
	case "has":
		has := table == "salt" && c.Has(ctx, msg.Str("name"))
		if table == "states" {
			_, err := NewStateLoader(c).Function(ctx, c, msg.Str("name"))
			has = err == nil
		}
		answer.Set("return", has)
	case "names":
		if table == "salt" {
			answer.Set("return", Strings(c.Loader.FunctionNames(ctx, c)))
		} else {
			answer.Set("return", &List{})
		}
	case "doc":
		if f, err := c.Loader.Function(ctx, c, msg.Str("name")); err == nil {
			answer.Set("return", f.Doc())
		}
	case "salt":
		args, _ := unpackHost(msg.Value("args")).(*List)
		kwargs, _ := unpackHost(msg.Value("kwargs")).(*Map)
		v, err := c.RunKw(ctx, msg.Str("name"), toItems(args), kwargs)
		if err != nil {
			fail(err)
			break
		}
		answer.Set("return", v)
	case "states":
		kwargs, _ := unpackHost(msg.Value("kwargs")).(*Map)
		args, _ := unpackHost(msg.Value("args")).(*List)
		f, err := NewStateLoader(c).Function(ctx, c, msg.Str("name"))
		var v any
		if err == nil {
			v, err = f.Invoke(ctx, c, toItems(args), kwargs)
		}
		if err != nil {
			fail(err)
			break
		}
		answer.Set("return", FromGo(v))
	case "yaml_load":
		v, err := ParseYAML([]byte(msg.Str("text")))
		if err != nil {
			fail(OtherErrorf("ValueError", "%s", err))
			break
		}
		answer.Set("return", v)
	case "yaml_dump":
		flow := YAMLBlock
		if Truth(msg.Value("flow")) {
			flow = YAMLAuto
		}
		answer.Set("return", DumpYAML(unpackHost(msg.Value("data")), YAMLOptions{Flow: flow, SortKeys: true}))
	default:
		fail(OtherErrorf("RuntimeError", "the minion does not know the request %q", op))
	}
	c.job.mu.Lock()
	answer.Set("context", c.job.vals.Clone())
	c.job.mu.Unlock()
	return answer
}

func logFromModule(c *Call, msg *Map) {
	level, _ := toInt(msg.Value("level"))
	text := msg.Str("text")
	switch {
	case level >= 40:
		c.Log.Error(text)
	case level >= 30:
		c.Log.Warn(text)
	case level >= 20:
		c.Log.Info(text)
	default:
		c.Log.Debug(text)
	}
}

func hostKind(k ErrorKind) string {
	switch k {
	case ErrExecution:
		return "CommandExecutionError"
	case ErrInvocation:
		return "SaltInvocationError"
	case ErrCommandNotFound:
		return "CommandNotFoundError"
	case ErrType:
		return "TypeError"
	}
	return "other"
}

// hostError is the error that a module ended with.
func hostError(e *Map) error {
	kind := ErrOther
	for _, k := range []ErrorKind{ErrExecution, ErrInvocation, ErrCommandNotFound, ErrType} {
		if hostKind(k) == e.Str("kind") {
			kind = k
		}
	}
	if info, ok := unpackHost(e.Value("info")).(*Map); ok && kind == ErrExecution {
		return ExecErrorInfo(e.Str("error"), info)
	}
	return &ModuleError{Kind: kind, Class: e.Str("class"), Msg: e.Str("msg"), Trace: e.Str("trace")}
}

// describedSignature reads a signature as host and programs describe it.
func describedSignature(d *Map) *Signature {
	s := &Signature{funcName: d.Str("name"), Varargs: d.Str("varargs"), Kwargs: d.Str("kwargs")}
	if params := d.List("params"); params != nil {
		for _, p := range params.Items {
			if m, ok := p.(*Map); ok {
				def, optional := m.Get("default")
				s.Params = append(s.Params, Param{Name: m.Str("name"), Optional: optional, Default: unpackHost(def)})
			}
		}
	}
	return s
}
