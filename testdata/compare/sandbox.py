"""A copy of this box for each call: namespaces over an overlay of its files.

What a call changes lands in the overlay's upper directory, which is therefore
also the answer to the question what it did. The clock, reboots and kernel
modules are out of reach (the capabilities are dropped), processes and
the host name are of the call's own, and so is the network where asked for.
"""
import ctypes
import hashlib
import os
import signal
import stat
import subprocess
import sys

NEWNS, NEWUTS, NEWIPC, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
MS_REC, MS_PRIVATE, MS_BIND, MNT_DETACH = 0x4000, 0x40000, 0x1000, 2
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}[os.uname().machine]
CAPBSET_DROP, SYS_MODULE, SYS_BOOT, SYS_TIME = 24, 16, 22, 25

libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, kind, flags=0, data=""):
    check(libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode()), f"mount {target}")


def unshare(flags):
    check(libc.unshare(flags), "unshare")


def drop_capabilities():
    """For good, and of all children: no setting of the clock, no reboot, no modules."""
    for cap in (SYS_MODULE, SYS_BOOT, SYS_TIME):
        check(libc.prctl(CAPBSET_DROP, cap, 0, 0, 0), "prctl")

    class Header(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]

    class Data(ctypes.Structure):
        _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]

    header, data = Header(0x20080522, 0), (Data * 2)()
    check(libc.capget(ctypes.byref(header), data), "capget")
    for cap in (SYS_MODULE, SYS_BOOT, SYS_TIME):
        for field in ("effective", "permitted", "inheritable"):
            setattr(data[0], field, getattr(data[0], field) & ~(1 << cap))
    check(libc.capset(ctypes.byref(header), data), "capset")


def enter(root, lowers, upper, work):
    """Make root, an overlay of lowers below upper, the root directory."""
    mount("overlay", root, "overlay", 0, f"lowerdir={':'.join(lowers)},upperdir={upper},workdir={work}")
    mount("proc", f"{root}/proc", "proc")
    for d in ("dev", "sys"):
        mount(f"/{d}", f"{root}/{d}", "", MS_BIND | MS_REC)
    os.chdir(root)
    check(libc.syscall(PIVOT_ROOT, b".", b"."), "pivot_root")
    check(libc.umount2(b".", MNT_DETACH), "umount")
    os.chdir("/")


def run(work, lowers, upper, job, private_net=False, timeout=300):
    """Run job() in a sandbox of its own. Returns its exit code, 124 when it was too slow."""
    for d in ("root", "work"):
        os.makedirs(f"{work}/{d}", exist_ok=True)
    os.makedirs(upper, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    outside = os.fork()
    if outside:
        def late(*_):
            os.killpg(outside, signal.SIGKILL)
        signal.signal(signal.SIGALRM, late)
        signal.alarm(timeout)
        _, status = os.waitpid(outside, 0)
        signal.alarm(0)
        return 124 if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    code = 125
    try:
        os.setpgid(0, 0)
        unshare(NEWNS | NEWUTS | NEWIPC | NEWPID | (NEWNET if private_net else 0))
        init = os.fork()
        if init == 0:
            libc.prctl(1, signal.SIGKILL, 0, 0, 0)  # dies with its parent, and all of the namespace with it
            enter(f"{work}/root", lowers, upper, f"{work}/work")
            with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as f:
                f.write("30000")  # so that a pid is no part of other numbers, which Salt takes for itself
            if private_net:
                subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
            worker = os.fork()
            if worker == 0:
                code = 125
                try:
                    os.setsid()
                    code = job() or 0
                finally:
                    os._exit(code)
            while True:  # as init does: reap what was left behind
                pid, status = os.waitpid(-1, 0)
                if pid == worker:
                    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
        _, status = os.waitpid(init, 0)
        code = os.waitstatus_to_exitcode(status) & 0xFF
    finally:
        os._exit(code)


def shell(text, out):
    """Run a shell text with its output to the open file out."""
    return subprocess.run(["/bin/bash", "-c", text], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False).returncode


def describe(path):
    """What a file is: kind, mode, owner, content."""
    st = os.lstat(path)
    owner = f"{stat.S_IMODE(st.st_mode):04o} {st.st_uid}:{st.st_gid}"
    attrs = []
    for name in sorted(os.listxattr(path, follow_symlinks=False)):
        if not name.startswith("trusted.overlay"):
            attrs.append(f"{name}={os.getxattr(path, name, follow_symlinks=False).hex()}")
    if stat.S_ISLNK(st.st_mode):
        return f"link to {os.readlink(path)} {st.st_uid}:{st.st_gid}"
    if stat.S_ISCHR(st.st_mode) and st.st_rdev == 0:
        return "gone"
    if stat.S_ISREG(st.st_mode):
        with open(path, "rb") as f:
            data = f.read()
        text = data.decode("utf-8", "backslashreplace") if len(data) < 1 << 20 else hashlib.sha256(data).hexdigest()
        return "\n".join([f"file {owner}", *attrs, text])
    kind = {stat.S_IFDIR: "directory", stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket"}.get(stat.S_IFMT(st.st_mode))
    if kind is None:
        kind = f"device {stat.S_IFMT(st.st_mode):o} {os.major(st.st_rdev)},{os.minor(st.st_rdev)}"
    return " ".join([kind, owner, *attrs])


def effects(upper, lowers, ignored):
    """Map what differs from the layers below, by path."""
    found = {}
    for folder, dirs, files in os.walk(upper):
        rel = folder[len(upper):]
        dirs[:] = [d for d in dirs if not ignored(f"{rel}/{d}")]
        for name in dirs + files:
            path = f"{rel}/{name}"
            if ignored(path):
                continue
            now = describe(upper + path)
            below = next((low + path for low in lowers if os.path.lexists(low + path)), None)
            if below is None or describe(below) != now:
                found[path] = now
    return found
