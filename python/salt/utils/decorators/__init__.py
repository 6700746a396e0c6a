"""Decorators."""
import functools
import importlib

from salt.exceptions import CommandExecutionError


class depends:
    """Leave a function usable only where what it needs is there."""

    def __init__(self, *dependencies, **kwargs):
        self.dependencies = dependencies
        self.fallback = kwargs.get("fallback_function")

    def missing(self, func):
        for dep in self.dependencies:
            if dep is False:
                return "a condition"
            if isinstance(dep, str) and dep not in func.__globals__:
                try:
                    importlib.import_module(dep)
                except ImportError:
                    return dep
            elif isinstance(dep, str) and not func.__globals__[dep]:
                return dep
        return None

    def __call__(self, func):
        lack = self.missing(func)
        if lack is None:
            return func
        if self.fallback is not None:
            return self.fallback

        @functools.wraps(func)
        def unavailable(*args, **kwargs):
            raise CommandExecutionError("%s needs %s, which is not here" % (func.__name__, lack))
        return unavailable


def memoize(func):
    cache = {}

    @functools.wraps(func)
    def inner(*args, **kwargs):
        key = (args, tuple(sorted(kwargs.items())))
        if key not in cache:
            cache[key] = func(*args, **kwargs)
        return cache[key]
    return inner


def ensure_unicode_args(func):
    return func


def timing(func):
    return func


def allow_one_of(*names):
    def decorate(func):
        @functools.wraps(func)
        def inner(*args, **kwargs):
            given = [n for n in names if n in kwargs]
            if len(given) > 1:
                from salt.exceptions import SaltInvocationError
                raise SaltInvocationError("Only one of %s may be given" % ", ".join(names))
            return func(*args, **kwargs)
        return inner
    return decorate


def require_one_of(*names):
    def decorate(func):
        @functools.wraps(func)
        def inner(*args, **kwargs):
            if not any(n in kwargs for n in names):
                from salt.exceptions import SaltInvocationError
                raise SaltInvocationError("One of %s is needed" % ", ".join(names))
            return func(*args, **kwargs)
        return inner
    return decorate


def is_deprecated(globals, version, with_successor=None):
    return lambda func: func


with_deprecated = is_deprecated
