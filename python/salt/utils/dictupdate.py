"""Merging of dictionaries."""
import copy


def update(dest, upd, recursive_update=True, merge_lists=False):
    """Merge upd into dest, deeply, and return dest."""
    if not isinstance(dest, dict) or not isinstance(upd, dict):
        raise TypeError("Cannot update using non-dict types in dictupdate.update()")
    for key, val in upd.items():
        have = dest.get(key)
        if recursive_update and isinstance(have, dict) and isinstance(val, dict):
            update(have, val, recursive_update, merge_lists)
        elif merge_lists and isinstance(have, list) and isinstance(val, list):
            dest[key] = have + [i for i in val if i not in have]
        else:
            dest[key] = val
    return dest


def merge_recurse(a, b, merge_lists=False):
    return update(copy.deepcopy(a), b, merge_lists=merge_lists)


def merge_overwrite(a, b, merge_lists=False):
    out = dict(a)
    out.update(b)
    return out


def merge_list(a, b):
    out = dict(a)
    for key in b:
        out[key] = [a[key], b[key]] if key in a else b[key]
    return out


def merge(a, b, strategy="smart", renderer="yaml", merge_lists=False):
    if strategy == "list":
        return merge_list(a, b)
    if strategy == "overwrite":
        return merge_overwrite(a, b, merge_lists)
    if strategy == "none":
        return a
    return merge_recurse(a, b, merge_lists)


def _walk(d, keys, delimiter):
    parts = keys.split(delimiter)
    for part in parts[:-1]:
        d = d.setdefault(part, {})
    return d, parts[-1]


def set_dict_key_value(in_dict, keys, value, delimiter=":", ordered_dict=False):
    d, last = _walk(in_dict, keys, delimiter)
    d[last] = value
    return in_dict


def append_dict_key_value(in_dict, keys, value, delimiter=":", ordered_dict=False):
    d, last = _walk(in_dict, keys, delimiter)
    d.setdefault(last, []).append(value)
    return in_dict


def extend_dict_key_value(in_dict, keys, value, delimiter=":", ordered_dict=False):
    d, last = _walk(in_dict, keys, delimiter)
    d.setdefault(last, []).extend(value)
    return in_dict


def update_dict_key_value(in_dict, keys, value, delimiter=":", ordered_dict=False):
    d, last = _walk(in_dict, keys, delimiter)
    d.setdefault(last, {}).update(value)
    return in_dict
