"""Nested data."""
import collections.abc
import copy

from salt.utils.stringutils import to_unicode

_MISSING = object()


def is_dictlist(data):
    return isinstance(data, list) and bool(data) and all(isinstance(i, dict) and len(i) == 1 for i in data)


def repack_dictlist(data, strict=False, recurse=False, key_cb=None, val_cb=None):
    out = {}
    for item in data or ():
        if isinstance(item, dict) and len(item) == 1:
            key, val = next(iter(item.items()))
            key = key_cb(key) if key_cb else key
            if recurse and is_dictlist(val):
                val = repack_dictlist(val, recurse=True)
            out[key] = val_cb(key, val) if val_cb else val
        elif isinstance(item, (str, int, float)):
            out[item] = val_cb(item, None) if val_cb else None
        elif strict:
            return {}
    return out


def traverse_dict(data, key, default=None, delimiter=":"):
    for part in key.split(delimiter):
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return default
    return data


def traverse_dict_and_list(data, key, default=None, delimiter=":"):
    for part in (key.split(delimiter) if isinstance(key, str) else [key]):
        if isinstance(data, (list, tuple)):
            try:
                data = data[int(part)]
                continue
            except (ValueError, IndexError):
                for item in data:
                    if isinstance(item, dict) and part in item:
                        data = item[part]
                        break
                else:
                    return default
        else:
            found = _MISSING
            if isinstance(data, dict):
                found = data.get(part, _MISSING)
                if found is _MISSING and isinstance(part, str) and part.lstrip("-").isdigit():
                    found = data.get(int(part), _MISSING)
            if found is _MISSING:
                return default
            data = found
    return data


def is_true(value=None):
    if isinstance(value, str):
        try:
            return float(value) > 0
        except ValueError:
            return value.lower() == "true"
    return value > 0 if isinstance(value, (int, float)) and not isinstance(value, bool) else bool(value)


def is_list(obj):
    return isinstance(obj, list)


def is_iter(thing, ignore=(str,)):
    return not isinstance(thing, ignore) and isinstance(thing, collections.abc.Iterable)


def compare_dicts(old=None, new=None):
    old, new = old or {}, new or {}
    return {k: {"old": old.get(k, ""), "new": new.get(k, "")}
            for k in list(dict.fromkeys(list(new) + list(old))) if old.get(k, _MISSING) != new.get(k, _MISSING)}


def compare_lists(old=None, new=None):
    old, new = old or [], new or []
    out = {}
    added, gone = [i for i in new if i not in old], [i for i in old if i not in new]
    if added:
        out["new"] = added
    if gone:
        out["old"] = gone
    return out


def decode(data, *args, **kwargs):
    """bytes to text, all the way down, where they are text."""
    if isinstance(data, bytes):
        try:
            return to_unicode(data)
        except UnicodeDecodeError:
            return data
    if isinstance(data, dict):
        return {decode(k): decode(v) for k, v in data.items()}
    if isinstance(data, (list, tuple)):
        out = [decode(i) for i in data]
        return tuple(out) if isinstance(data, tuple) and kwargs.get("preserve_tuples") else out
    return data


def simple_types_filter(data):
    if isinstance(data, (list, tuple)):
        return [simple_types_filter(i) for i in data]
    if isinstance(data, dict):
        return {str(k): simple_types_filter(v) for k, v in data.items()}
    return data if data is None or isinstance(data, (str, int, float, bool)) else repr(data)


def filter_by(lookup_dict, lookup, traverse, merge=None, default="default", base=None):
    import fnmatch
    from salt.utils import dictupdate
    found = traverse_dict_and_list(traverse, lookup, None)
    values = found if isinstance(found, list) else [found if found is not None else default]
    ret = None
    for each in values:
        ret = next((lookup_dict[k] for k in lookup_dict if fnmatch.fnmatchcase(str(each), str(k))), None)
        if ret is not None:
            break
    if ret is None:
        ret = lookup_dict.get(default)
    if base and base in lookup_dict:
        ret = dictupdate.update(copy.deepcopy(lookup_dict[base]), ret or {})
    if merge:
        ret = dictupdate.update(copy.deepcopy(ret or {}), copy.deepcopy(merge))
    return ret


def subdict_match(data, expr, delimiter=":", regex_match=False, exact_match=False):
    import fnmatch
    import re
    path, _, pattern = expr.rpartition(delimiter)
    value = traverse_dict_and_list(data, path, _MISSING, delimiter)
    if value is _MISSING:
        return False
    for item in value if isinstance(value, list) else [value]:
        text = str(item).lower()
        if exact_match and text == pattern.lower() or \
                regex_match and re.match(pattern.lower(), text) or \
                not regex_match and not exact_match and fnmatch.fnmatch(text, pattern.lower()):
            return True
    return False
