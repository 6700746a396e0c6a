"""YAML, read and written by the minion itself: no further package is needed."""
import sys

YAMLError = ValueError


def safe_load(stream, Loader=None):
    if hasattr(stream, "read"):
        stream = stream.read()
    if isinstance(stream, bytes):
        stream = stream.decode("utf-8")
    return sys.modules["__main__"].minion.ask({"op": "yaml_load", "text": stream})


load = safe_load


def safe_dump(data, stream=None, **kwargs):
    main = sys.modules["__main__"]
    text = main.minion.ask({"op": "yaml_dump", "data": main.pack(data),
                            "flow": kwargs.get("default_flow_style", True) is not False})
    if stream is None:
        return text
    stream.write(text)


dump = safe_dump
