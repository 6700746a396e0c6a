"""Texts and bytes."""
import fnmatch
import os
import re
import shlex


def _codecs(encoding):
    if encoding is None:
        return ("utf-8", "latin-1")
    return encoding if isinstance(encoding, (tuple, list)) else (encoding,)


def to_unicode(s, encoding=None, errors="strict", normalize=False):
    if isinstance(s, str):
        return s
    if isinstance(s, (bytes, bytearray)):
        problem = None
        for enc in _codecs(encoding):
            try:
                return bytes(s).decode(enc, errors)
            except UnicodeDecodeError as exc:
                problem = exc
        raise problem
    raise TypeError("expected str, bytes, or bytearray, not %s" % type(s))


to_str = to_unicode


def to_bytes(s, encoding=None, errors="strict"):
    if isinstance(s, (bytes, bytearray)):
        return bytes(s)
    if isinstance(s, str):
        return s.encode(_codecs(encoding)[0], errors)
    raise TypeError("expected str, bytes, or bytearray, not %s" % type(s))


def random(size=32):
    return to_unicode(os.urandom(size), "latin-1")[:size]


def is_quoted(value):
    if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[0]
    return ""


def dequote(value):
    return value[1:-1] if is_quoted(value) else value


def is_hex(value):
    try:
        int(value, 16)
        return True
    except (TypeError, ValueError):
        return False


def is_binary(data):
    if not isinstance(data, (str, bytes)) or not data:
        return False
    return ("\0" if isinstance(data, str) else b"\0") in data


def contains_whitespace(text):
    return any(c.isspace() for c in text)


def to_num(text):
    for kind in (int, float):
        try:
            return kind(text)
        except (TypeError, ValueError):
            pass
    return text


def to_none(text):
    return None if text is None or not str(text).strip() or str(text).strip().lower() == "none" else text


def human_to_bytes(size):
    match = re.match(r"^\s*([\d.]+)\s*([KMGTPEZY]?)(i?B?)\s*$", str(size), re.I)
    if not match:
        return 0
    power = " KMGTPEZY".index(match.group(2).upper() or " ")
    return int(float(match.group(1)) * 1024 ** power)


def expr_match(line, expr):
    if line == expr or fnmatch.fnmatch(line, expr):
        return True
    try:
        return bool(re.match(r"\A%s\Z" % expr, line))
    except re.error:
        return False


def check_whitelist_blacklist(value, whitelist=None, blacklist=None):
    as_list = lambda v: [] if v is None else (v.split(",") if isinstance(v, str) else list(v))
    white, black = as_list(whitelist), as_list(blacklist)
    if any(expr_match(value, e) for e in black):
        return False
    return not white or any(expr_match(value, e) for e in white)


def build_whitespace_split_regex(text):
    return r"(?m)^(?:[\s]+)?" + r"(?:[\s]+)?".join(re.escape(p) for p in shlex.split(text, posix=False)) + r"(?:[\s]+)?$"


def camel_to_snake_case(camel):
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", camel).lower()


def snake_to_camel_case(snake, uppercamel=False):
    out = "".join(p.capitalize() for p in snake.split("_"))
    return out if uppercamel or not out else out[0].lower() + out[1:]


def get_context(template, line, num_lines=5, marker=None):
    lines = template.splitlines()
    return "\n".join(["---"] + lines[max(0, line - num_lines):line + num_lines] + ["---"])
