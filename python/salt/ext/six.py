"""What modules written for both Pythons use of six."""
import io
import itertools
import urllib.error
import urllib.parse
import urllib.request

PY2, PY3 = False, True
string_types = (str,)
integer_types = (int,)
class_types = (type,)
text_type, binary_type = str, bytes
StringIO, BytesIO = io.StringIO, io.BytesIO


def iteritems(d, **kw):
    return iter(d.items(**kw))


def iterkeys(d, **kw):
    return iter(d.keys(**kw))


def itervalues(d, **kw):
    return iter(d.values(**kw))


def reraise(cls, value, tb=None):
    raise (value if value is not None else cls()).with_traceback(tb)


def b(s):
    return s.encode("latin-1")


def u(s):
    return s


class moves:
    range, zip, map, filter, input = range, zip, map, filter, input
    zip_longest = itertools.zip_longest

    class urllib:
        parse, request, error = urllib.parse, urllib.request, urllib.error
