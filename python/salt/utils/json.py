"""JSON with the defaults that modules expect."""
import json as _json

JSONDecodeError = _json.JSONDecodeError


def loads(s, **kwargs):
    kwargs.pop("_json_module", None)
    if isinstance(s, (bytes, bytearray)):
        s = s.decode("utf-8")
    return _json.loads(s, **kwargs)


def load(fp, **kwargs):
    return loads(fp.read(), **kwargs)


def dumps(obj, **kwargs):
    kwargs.pop("_json_module", None)
    kwargs.setdefault("ensure_ascii", False)
    return _json.dumps(obj, **kwargs)


def dump(obj, fp, **kwargs):
    fp.write(dumps(obj, **kwargs))


def find_json(raw):
    """The first JSON value in a text with other lines around it."""
    decoder = _json.JSONDecoder()
    for pos, char in enumerate(raw):
        if char in "{[":
            try:
                return decoder.raw_decode(raw[pos:])[0]
            except ValueError:
                continue
    raise ValueError("no JSON found")


def import_json():
    return _json
