"""Files."""
import contextlib
import errno
import os
import re
import shutil
import stat
import tempfile


def fopen(*args, **kwargs):
    """open, with UTF-8 for text and descriptors that programs do not inherit."""
    mode = kwargs.get("mode", args[1] if len(args) > 1 else "r")
    if "b" not in mode:
        kwargs.setdefault("encoding", "utf-8")
    return open(*args, **kwargs)


@contextlib.contextmanager
def fpopen(*args, **kwargs):
    """open that also sets owner and mode."""
    uid, gid, mode = kwargs.pop("uid", -1), kwargs.pop("gid", -1), kwargs.pop("mode", None)
    with fopen(*args, **kwargs) as fh:
        path = args[0]
        if uid != -1 or gid != -1:
            os.chown(path, uid, gid)
        if mode is not None and stat.S_IMODE(os.stat(path).st_mode) != mode:
            os.chmod(path, mode)
        yield fh


@contextlib.contextmanager
def flopen(*args, **kwargs):
    """open under an exclusive lock."""
    import fcntl
    with fopen(*args, **kwargs) as fh:
        fcntl.flock(fh.fileno(), fcntl.LOCK_EX)
        try:
            yield fh
        finally:
            fcntl.flock(fh.fileno(), fcntl.LOCK_UN)


def mkstemp(*args, **kwargs):
    """The name of a fresh temporary file."""
    close = kwargs.pop("close_fd", True)
    kwargs.setdefault("prefix", "__salt.tmp.")
    fd, path = tempfile.mkstemp(*args, **kwargs)
    if not close:
        return fd, path
    os.close(fd)
    return path


def safe_rm(path):
    with contextlib.suppress(OSError):
        os.remove(path)


remove = safe_rm


def rm_rf(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        safe_rm(path)


def copyfile(source, dest, backup_mode="", cachedir=""):
    """Copy beside the target, then rename, keeping its mode and owner."""
    if not os.path.isfile(source):
        raise OSError(errno.ENOENT, "[Errno 2] No such file or directory: %s" % source)
    fd, tmp = tempfile.mkstemp(prefix=".", dir=os.path.dirname(dest) or ".")
    os.close(fd)
    shutil.copyfile(source, tmp)
    if os.path.exists(dest):
        st = os.stat(dest)
        os.chmod(tmp, stat.S_IMODE(st.st_mode))
        with contextlib.suppress(OSError):
            os.chown(tmp, st.st_uid, st.st_gid)
    os.rename(tmp, dest)


@contextlib.contextmanager
def set_umask(mask):
    if mask is None:
        yield
        return
    old = os.umask(mask)
    try:
        yield
    finally:
        os.umask(old)


def is_binary(path):
    """Whether the file holds a NUL or many bytes that are no text."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as fh:
        data = fh.read(2048)
    if b"\0" in data:
        return True
    try:
        data.decode("utf-8")
        return False
    except UnicodeDecodeError as exc:
        return exc.start < len(data) - 4


def is_text(path, blocksize=512):
    return not is_binary(path)


def is_empty(filename):
    try:
        return os.stat(filename).st_size == 0
    except OSError:
        return False


def is_fcntl_available(check_sunos=False):
    return True


def normalize_mode(mode):
    if mode is None:
        return None
    return str(mode).strip("\"'").replace("0o", "0").zfill(4) if re.match(r"^[\"']?(0o)?[0-7]+[\"']?$", str(mode)) else mode


def list_files(directory):
    out = {directory}
    for root, dirs, files in os.walk(directory):
        out.update(os.path.join(root, n) for n in dirs + files)
    return list(out)


def process_read_exception(exc, path, ignore=None):
    from salt.exceptions import CommandExecutionError
    if ignore is not None and exc.errno in (ignore if isinstance(ignore, (list, tuple)) else [ignore]):
        return
    if exc.errno == errno.ENOENT:
        raise CommandExecutionError("%s does not exist" % path)
    if exc.errno == errno.EACCES:
        raise CommandExecutionError("Permission denied reading from %s" % path)
    raise CommandExecutionError("Error %d encountered reading from %s: %s" % (exc.errno, path, exc.strerror))
