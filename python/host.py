"""The process in which user-written Python modules run.

It is started by the minion with its end of a Unix socket as descriptor 3 and
keeps the modules imported. Each call is answered in a fork of this process, over
a socket of its own that comes with the request, so that a crash, an exit or an
endless loop ends that call alone. Only the Python standard library (3.6 or
newer) is used.

A message is a length of four bytes, big endian, and a JSON text. JSON has no
bytes, tuples or keys that are no text; such values travel as a mapping with the
one key "!" and its partner "v" (see pack and unpack).
"""
import array
import base64
import collections
import fcntl
import inspect
import io
import json
import logging
import os
import signal
import socket
import struct
import sys
import threading
import traceback
import types


# --- messages ---------------------------------------------------------------

def pack(v):
    if v is None or isinstance(v, (bool, float)):
        return v
    if isinstance(v, str):
        return str(v)
    if isinstance(v, int):
        return int(v)
    if isinstance(v, (bytes, bytearray, memoryview)):
        return {"!": "b", "v": base64.b64encode(bytes(v)).decode("ascii")}
    if isinstance(v, dict) or isinstance(v, collections.abc.Mapping):
        if "!" not in v and all(type(k) is str for k in v):
            return {k: pack(x) for k, x in v.items()}
        return {"!": "m", "v": [[pack(k), pack(x)] for k, x in v.items()]}
    if isinstance(v, tuple):
        return {"!": "t", "v": [pack(x) for x in v]}
    if isinstance(v, (list, set, frozenset, types.GeneratorType, collections.deque)) or \
            isinstance(v, (type({}.keys()), type({}.values()), type({}.items()), range, map, filter, zip)):
        return [pack(x) for x in v]
    if hasattr(v, "isoformat"):
        return v.isoformat()
    return str(v)


def unpack(v):
    if isinstance(v, list):
        return [unpack(x) for x in v]
    if isinstance(v, dict):
        kind = v.get("!")
        if kind == "b":
            return base64.b64decode(v["v"])
        if kind == "t":
            return tuple(unpack(x) for x in v["v"])
        if kind == "m":
            return {unpack(k): unpack(x) for k, x in v["v"]}
        return {k: unpack(x) for k, x in v.items()}
    return v


class Line:
    """One socket that carries messages."""

    def __init__(self, sock):
        self.sock = sock
        self.fds = []

    def send(self, msg):
        body = json.dumps(msg).encode("utf-8", "surrogatepass")
        self.sock.sendall(struct.pack("!I", len(body)) + body)

    def exactly(self, n):
        buf = b""
        while len(buf) < n:
            data, anc, _, _ = self.sock.recvmsg(min(n - len(buf), 1 << 20), socket.CMSG_SPACE(4 * 4))
            for level, kind, payload in anc:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    fds = array.array("i")
                    fds.frombytes(payload[:len(payload) - len(payload) % fds.itemsize])
                    self.fds.extend(fds)
            if not data:
                return None
            buf += data
        return buf

    def recv(self):
        head = self.exactly(4)
        if head is None:
            return None
        body = self.exactly(struct.unpack("!I", head)[0])
        if body is None:
            return None
        return json.loads(body.decode("utf-8", "surrogatepass"))


# --- the compatible salt package ----------------------------------------------

class BundleFinder:
    """Finds the bundled sources of the salt package before anything installed."""

    def __init__(self, sources):
        self.sources = sources

    def find_spec(self, name, path=None, target=None):
        import importlib.machinery
        if name in self.sources:
            package = any(other.startswith(name + ".") for other in self.sources)
            return importlib.machinery.ModuleSpec(name, self, is_package=package)
        if name.startswith("salt."):
            raise ModuleNotFoundError(
                "No module named '%s' (not in the salt package of this minion; see its documentation for what is)" % name, name=name)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        code = compile(self.sources[module.__name__], "<bundled %s>" % module.__name__, "exec")
        exec(code, module.__dict__)


# --- errors -------------------------------------------------------------------

def kind_of(exc):
    import salt.exceptions as se
    for name in ("CommandNotFoundError", "CommandExecutionError", "SaltInvocationError"):
        if isinstance(exc, getattr(se, name)):
            return name
    if isinstance(exc, TypeError):
        return "TypeError"
    return "other"


def describe_error(exc):
    cls = type(exc)
    name = cls.__name__ if cls.__module__ in ("builtins", "__main__") else "%s.%s" % (cls.__module__, cls.__name__)
    lines = traceback.format_exception(cls, exc, exc.__traceback__)
    # Frames of this file say nothing to the author of a module.
    kept = [l for l in lines if not l.startswith('  File "<halite host>"')]
    return {"kind": kind_of(exc), "class": name, "msg": str(exc), "trace": "".join(kept),
            "info": pack(getattr(exc, "info", None) or None), "error": str(getattr(exc, "error", ""))}


def raise_from(err):
    """Raise in Python what a call into the minion ended with."""
    import builtins
    import salt.exceptions as se
    kind = err.get("kind")
    if kind in ("CommandNotFoundError", "CommandExecutionError", "SaltInvocationError"):
        raise getattr(se, kind)(err["msg"])
    cls = getattr(builtins, err.get("class") or "", None)
    if kind == "TypeError":
        cls = TypeError
    if kind == "KeyError":
        raise KeyError(err["msg"])
    if isinstance(cls, type) and issubclass(cls, Exception):
        raise cls(err["msg"])
    raise Exception(err["msg"])


# --- what modules see -----------------------------------------------------------

class Minion:
    """The state of one call: the line to the minion and __context__."""

    def __init__(self):
        self.line = None
        self.context = {}
        self.turn = threading.RLock()  # a module may have threads

    def ask(self, msg):
        if self.line is None:
            raise RuntimeError("the minion's functions cannot be called while a module is being imported")
        with self.turn:
            msg["context"] = pack(self.context)
            self.line.send(msg)
            answer = self.line.recv()
        if answer is None:
            os._exit(1)  # the minion has gone, or has given this call up
        if "context" in answer:
            fresh = unpack(answer["context"])
            self.context.update(fresh)
        if "error" in answer:
            raise_from(answer["error"])
        return unpack(answer.get("return"))


minion = Minion()


class SaltCall:
    """One function of the minion: __salt__['mod.fun']."""

    def __init__(self, name, table="salt"):
        self.__name__ = name.rpartition(".")[2]
        self.name = name
        self.table = table

    def __call__(self, *args, **kwargs):
        return minion.ask({"op": self.table, "name": self.name, "args": [pack(a) for a in args],
                           "kwargs": {k: pack(v) for k, v in kwargs.items()}})

    @property
    def __doc__(self):
        return minion.ask({"op": "doc", "name": self.name})

    def __repr__(self):
        return "<function %s of the minion>" % self.name


class SaltFunctions(collections.abc.Mapping):
    """__salt__: every function that the minion has, looked up when it is needed."""

    def __init__(self, table="salt"):
        self.table = table
        self.known = {}

    def local(self, name):
        """A function of a module that lives in this process, called without a detour."""
        return None

    def __getitem__(self, name):
        if name not in self.known:
            if not isinstance(name, str) or not minion.ask({"op": "has", "table": self.table, "name": name}):
                raise KeyError(name)
            self.known[name] = SaltCall(name, self.table)
        return self.known[name]

    def __contains__(self, name):
        try:
            self[name]
        except KeyError:
            return False
        return True

    def __iter__(self):
        return iter(minion.ask({"op": "names", "table": self.table}))

    def __len__(self):
        return len(minion.ask({"op": "names", "table": self.table}))

    def __getattr__(self, module):
        if module.startswith("__"):
            raise AttributeError(module)
        return SaltModule(self, module)


class SaltModule:
    def __init__(self, functions, module):
        self.functions, self.module = functions, module

    def __getattr__(self, fun):
        try:
            return self.functions["%s.%s" % (self.module, fun)]
        except KeyError:
            raise AttributeError("%s.%s" % (self.module, fun))


class Utils(dict):
    """__utils__: the functions of the modules in _utils."""

    def __missing__(self, name):
        mod, _, fun = name.rpartition(".")
        module = host.modules.get(("utils", mod)) if mod else None
        if module is None and mod:
            module = host.load_by_name("utils", mod)
        if module is None or not hasattr(module, fun):
            raise KeyError(name)
        self[name] = getattr(module, fun)
        return self[name]

    def __contains__(self, name):
        try:
            self[name]
        except KeyError:
            return False
        return True


class NamedContext(dict):
    """The plain dictionaries that are handed to modules."""


# --- the host -------------------------------------------------------------------

class Host:
    def __init__(self, line):
        self.line = line
        self.modules = {}
        self.paths = {}
        self.opts, self.grains, self.pillar = {}, {}, {}
        self.pack = {
            "__opts__": self.opts, "__orig_opts__": self.opts, "__grains__": self.grains, "__pillar__": self.pillar,
            "__salt__": SaltFunctions(), "__utils__": Utils(), "__context__": minion.context,
            "__states__": SaltFunctions("states"), "__runner__": SaltFunctions("runner"),
            "__ret__": SaltFunctions("returners"), "__serializers__": {}, "__proxy__": {}, "__low__": {},
            "__running__": {}, "__instance_id__": "", "__lowstate__": {}, "__env__": "base",
        }

    def serve(self):
        while True:
            msg = self.line.recv()
            if msg is None:
                return
            op = msg.get("op")
            if op == "env":
                self.set_env(msg)
                self.line.send({})
            elif op == "load":
                self.line.send(self.load_answer(msg))
            elif op == "call":
                self.start_call(msg)

    def set_env(self, msg):
        for name, have in (("opts", self.opts), ("grains", self.grains), ("pillar", self.pillar)):
            if name in msg:
                have.clear()
                have.update(unpack(msg[name]))
        if "opts" in msg:
            self.opts["grains"] = self.grains
            self.opts["pillar"] = self.pillar
        for kind, name, path in msg.get("files", ()):
            self.paths[(kind, name)] = path

    # -- importing

    def load_by_name(self, kind, name):
        path = self.paths.get((kind, name))
        if path is None:
            return None
        return self.load(kind, name, path)

    def load(self, kind, name, path):
        """Import one file under a private name and give it what modules expect to find."""
        import importlib.machinery
        import importlib.util
        private = "halite.loaded.%s.%s" % (kind, name)
        if os.path.isdir(path):
            path = os.path.join(path, "__init__.py")
        loader = importlib.machinery.SourceFileLoader(private, path)
        spec = importlib.util.spec_from_file_location(private, path, loader=loader)
        module = importlib.util.module_from_spec(spec)
        sys.modules[private] = module
        folder = os.path.dirname(path)
        if folder not in sys.path:
            sys.path.append(folder)
        pid = os.getpid()
        try:
            loader.exec_module(module)
        except BaseException:
            sys.modules.pop(private, None)
            if os.getpid() != pid:
                os._exit(1)
            raise
        if os.getpid() != pid:
            os._exit(0)  # the file forked while it was imported: only the original goes on
        for key, value in self.pack.items():
            if key not in module.__dict__ or key in ("__opts__", "__salt__", "__grains__", "__pillar__", "__context__"):
                module.__dict__[key] = value
        init = getattr(module, "__init__", None)
        if inspect.isfunction(init):
            init(self.opts)
        self.modules[(kind, name)] = module
        return module

    def load_answer(self, msg):
        kind, name, path = msg["kind"], msg["name"], msg["path"]
        self.paths[(kind, name)] = path
        try:
            module = self.load(kind, name, path)
            called = getattr(module, "__virtualname__", name)
            reason = None
            virtual = getattr(module, "__virtual__", None)
            if inspect.isfunction(virtual):
                try:
                    verdict = virtual()
                except Exception as exc:
                    raise ImportError("Exception raised when processing __virtual__ function for salt.loaded.ext.%s.%s. "
                                      "Module will not be loaded: %s" % (kind.rstrip("s"), name, exc)) from exc
                if isinstance(verdict, tuple):
                    verdict, reason = verdict[0], verdict[1] if len(verdict) > 1 else None
                if verdict is False or verdict is None:
                    return {"refused": str(reason or "%s is not available: __virtual__ returned False" % name), "called": called}
                if isinstance(verdict, str):
                    called = verdict
            return {"called": called, "doc": module.__doc__ or "", "funcs": self.describe(module)}
        except BaseException as exc:  # also SystemExit: a file must not end the host
            return {"error": describe_error(exc)}

    def describe(self, module):
        alias = getattr(module, "__func_alias__", {})
        out = {}
        for attr in getattr(module, "__load__", dir(module)):
            if attr.startswith("_"):
                continue
            func = getattr(module, attr, None)
            if not inspect.isfunction(func):
                continue
            home = getattr(func, "__module__", None)
            if home and not home.startswith("halite.loaded."):
                continue  # imported from elsewhere
            out[alias.get(attr, attr)] = self.signature(attr, func)
        return out

    @staticmethod
    def signature(attr, func):
        params, varargs, kwargs = [], "", ""
        try:
            for p in inspect.signature(func).parameters.values():
                if p.kind == p.VAR_POSITIONAL:
                    varargs = p.name
                elif p.kind == p.VAR_KEYWORD:
                    kwargs = p.name
                elif p.default is p.empty:
                    params.append({"name": p.name})
                else:
                    params.append({"name": p.name, "default": pack(p.default)})
        except (TypeError, ValueError):
            varargs, kwargs = "args", "kwargs"
        return {"attr": attr, "name": func.__name__, "doc": func.__doc__ or "", "params": params,
                "varargs": varargs, "kwargs": kwargs}

    # -- calling

    def start_call(self, msg):
        fd = self.line.fds.pop(0)
        pid = os.fork()
        if pid:
            os.close(fd)
            return
        try:
            self.run_call(msg, fd)
        finally:
            os._exit(1)

    def run_call(self, msg, fd):
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.line.sock.close()
        try:  # out of the way of modules that close the lowest descriptors
            fd = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 700)
        except OSError:
            pass
        line = Line(socket.socket(fileno=fd))
        line.send({"op": "pid", "pid": os.getpid()})
        minion.line = line
        me = os.getpid()
        try:
            minion.context.update(unpack(msg.get("context") or {}))
            if "test" in msg:
                self.opts["test"] = msg["test"]
            self.opts.update(unpack(msg.get("opts") or {}))
            for key, value in (msg.get("dunder") or {}).items():
                self.pack[key] = unpack(value)
            module = self.modules[(msg["kind"], msg["name"])]
            for key in (msg.get("dunder") or {}):
                module.__dict__[key] = self.pack[key]
            func = getattr(module, msg["attr"])
            args = [unpack(a) for a in msg.get("args", ())]
            kwargs = {k: unpack(v) for k, v in (msg.get("kwargs") or {}).items()}
            if "streams" in msg and args and isinstance(args[0], str):
                args[0] = io.StringIO(args[0])
            result = func(*args, **kwargs)
            if "streams" in msg and hasattr(result, "read"):
                result.seek(0)
                result = result.read()
            answer = {"return": pack(result)}
        except BaseException as exc:
            answer = {"error": describe_error(exc)}
        if os.getpid() != me:
            os._exit(0)  # a fork of the module's own that came back here
        answer["op"] = "done"
        answer["context"] = pack({k: v for k, v in minion.context.items() if isinstance(k, str)})
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass  # the module has closed it
        try:
            line.send(answer)
        except (TypeError, ValueError, RecursionError) as exc:
            line.send({"op": "done", "error": {"kind": "other", "class": type(exc).__name__,
                                               "msg": "the result cannot be sent: %s" % exc, "trace": ""}})
        os._exit(0)


class MinionLogHandler(logging.Handler):
    """Log records of modules go to the minion's log."""

    def emit(self, record):
        try:
            text = self.format(record)
            if minion.line is not None:
                with minion.turn:
                    minion.line.send({"op": "log", "level": record.levelno, "text": text})
            else:
                sys.stderr.write("[%-8s] %s\n" % (record.levelname, text))
        except Exception:
            pass


host = None


def main():
    global host
    # What modules print must not reach the minion's own output, and a program
    # that they start must not inherit the line to it. What runners print is
    # meant for who called them.
    if not os.environ.pop("HALITE_HOST_PRINTS", ""):
        os.dup2(2, 1)
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding="utf-8", errors="replace", line_buffering=True)
    os.set_inheritable(3, False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = Line(socket.socket(fileno=3))
    hello = line.recv()
    if hello is None:
        return
    sys.meta_path.insert(0, BundleFinder(hello["bundle"]))
    loaded = types.ModuleType("halite.loaded")
    loaded.__path__ = []
    sys.modules["halite"] = types.ModuleType("halite")
    sys.modules["halite.loaded"] = loaded
    for kind in ("modules", "states", "grains", "utils", "returners", "runners", "output", "pillar", "renderers"):
        package = types.ModuleType("halite.loaded." + kind)
        package.__path__ = []
        sys.modules["halite.loaded." + kind] = package
    log = logging.getLogger()
    for level, name in ((5, "trace"), (1, "garbage"), (15, "profile")):
        logging.addLevelName(level, name.upper())

        def method(self, msg, *args, _level=level, **kw):
            if self.isEnabledFor(_level):
                self._log(_level, msg, args, **kw)
        setattr(logging.Logger, name, method)
    log.setLevel(hello.get("level", 30))
    log.addHandler(MinionLogHandler())
    host = Host(line)
    sys.modules["__main__"].host = host
    host.set_env(hello)
    line.send({"python": sys.version.split()[0]})
    host.serve()


main()
