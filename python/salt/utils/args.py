"""Arguments."""
import collections
import inspect
import shlex

from salt.exceptions import SaltInvocationError

ArgSpec = collections.namedtuple("ArgSpec", "args varargs keywords defaults")


def clean_kwargs(**kwargs):
    """Keyword arguments without the ones that Salt itself passes."""
    return {k: v for k, v in kwargs.items() if not k.startswith("__")}


def invalid_kwargs(invalid, raise_exc=True):
    if not invalid:
        return None
    text = "The following keyword arguments are not valid: " + ", ".join(
        "%s=%s" % (k, v) for k, v in invalid.items()) if isinstance(invalid, dict) else ", ".join(invalid)
    if raise_exc:
        raise SaltInvocationError(text)
    return text


def get_function_argspec(func, is_class_method=None):
    spec = inspect.getfullargspec(func)
    return ArgSpec(spec.args, spec.varargs, spec.varkw, spec.defaults)


def shlex_split(s, **kwargs):
    return shlex.split(s, **kwargs) if isinstance(s, str) else s


def split_input(val, mapper=None):
    mapper = mapper or (lambda x: x)
    if isinstance(val, list):
        return [mapper(x) for x in val]
    return [mapper(x.strip()) for x in str(val).split(",")]


def test_mode(**kwargs):
    return any(k.lower() == "test" and v for k, v in kwargs.items())


def yamlify_arg(arg):
    from salt.utils import yaml
    if not isinstance(arg, str) or not arg.strip():
        return arg
    try:
        return yaml.safe_load(arg)
    except Exception:
        return arg


def parse_input(args, condition=True, no_parse=None):
    out = []
    for arg in args:
        out.append(yamlify_arg(arg) if condition else arg)
    return out
