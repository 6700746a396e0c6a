"""Paths and programs."""
import os
import posixpath
import shutil


def which(exe=None):
    """The path of a program, or None."""
    return shutil.which(str(exe)) if exe else None


def which_bin(exes):
    """The first of several programs that exists, or None."""
    if not isinstance(exes, (list, tuple, set)):
        return None
    for exe in exes:
        found = which(exe)
        if found:
            return found
    return None


def join(*parts, **kwargs):
    """Join below the first part, also where a later part is absolute."""
    if not parts:
        return ""
    head, tail = str(parts[0]), [str(p).lstrip("/") for p in parts[1:]]
    return posixpath.normpath(posixpath.join(head, *tail))


def islink(path):
    return os.path.islink(path)


def readlink(path):
    return os.readlink(path)


def os_walk(top, *args, **kwargs):
    return os.walk(top, *args, **kwargs)


def safe_path(path, allow_path=None):
    """Whether path stays below allow_path."""
    real = os.path.realpath(path)
    root = os.path.realpath(allow_path) if allow_path else os.getcwd()
    return real == root or real.startswith(root.rstrip(os.sep) + os.sep)


def sanitize_win_path(winpath):
    return winpath
