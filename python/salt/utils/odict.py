"""Dictionaries keep their order; these names are for older modules."""
import collections

OrderedDict = collections.OrderedDict


class DefaultOrderedDict(collections.OrderedDict):
    def __init__(self, default_factory=None, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.default_factory = default_factory

    def __missing__(self, key):
        if self.default_factory is None:
            raise KeyError(key)
        self[key] = self.default_factory()
        return self[key]
