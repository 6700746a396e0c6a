"""Versions."""
import re
import warnings


class LooseVersion:
    """Versions compared by their numbers and words."""

    def __init__(self, vstring=None):
        self.vstring = str(vstring or "")
        self.version = [int(p) if p.isdigit() else p for p in re.findall(r"\d+|[a-z]+", self.vstring)]

    def _cmp(self, other):
        if not isinstance(other, LooseVersion):
            other = LooseVersion(other)
        for a, b in zip(self.version, other.version):
            if a != b:
                if type(a) is not type(b):
                    a, b = str(a), str(b)
                return -1 if a < b else 1
        return (len(self.version) > len(other.version)) - (len(self.version) < len(other.version))

    def __eq__(self, o):
        return self._cmp(o) == 0

    def __lt__(self, o):
        return self._cmp(o) < 0

    def __le__(self, o):
        return self._cmp(o) <= 0

    def __gt__(self, o):
        return self._cmp(o) > 0

    def __ge__(self, o):
        return self._cmp(o) >= 0

    def __str__(self):
        return self.vstring

    __hash__ = None


StrictVersion = LooseVersion


def version_cmp(a, b, ignore_epoch=False):
    if ignore_epoch:
        a, b = str(a).split(":", 1)[-1], str(b).split(":", 1)[-1]
    return LooseVersion(a)._cmp(LooseVersion(b))


def compare(ver1="", oper="==", ver2="", cmp_func=None, ignore_epoch=False):
    c = (cmp_func or (lambda a, b: version_cmp(a, b, ignore_epoch)))(ver1, ver2)
    if c is None:
        return oper == "!="
    return {"==": c == 0, "!=": c != 0, "<": c < 0, "<=": c <= 0, ">": c > 0, ">=": c >= 0}[oper]


def warn_until(version, message, category=DeprecationWarning, stacklevel=None, **kwargs):
    warnings.warn(str(message), category, stacklevel=2)


warn_until_date = warn_until


def kwargs_warn_until(*args, **kwargs):
    return None
