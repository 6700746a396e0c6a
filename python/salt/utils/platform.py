"""What system this is."""
import platform as _platform
import sys


def is_linux():
    return sys.platform.startswith("linux")


def is_windows():
    return sys.platform.startswith("win")


def is_darwin():
    return sys.platform == "darwin"


def is_freebsd():
    return sys.platform.startswith("freebsd")


def is_openbsd():
    return sys.platform.startswith("openbsd")


def is_netbsd():
    return sys.platform.startswith("netbsd")


def is_sunos():
    return sys.platform.startswith("sunos")


def is_smartos():
    return False


is_smartos_globalzone = is_smartos_zone = is_proxy = is_junos = is_smartos


def is_aix():
    return sys.platform.startswith("aix")


def is_fedora():
    return False


def linux_distribution():
    return (_platform.system(), _platform.release(), "")


def get_machine_identifier():
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            with open(path) as fh:
                return fh.read().strip()
        except OSError:
            continue
    return ""
