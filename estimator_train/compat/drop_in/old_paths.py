"""Modules at their old paths: one finder, and a table of the old paths with the provider of the modules there."""

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterable, Mapping
from types import ModuleType


class Provider(importlib.abc.Loader):
    """Provides the modules at an old path of the table, and below it.

    A module gets the names of the modules that have them today, all at once, unless a subclass does otherwise.
    """

    def sources(self, path: str) -> list[str] | None:
        """Returns the modules that have the names of the module at `path`; None if there is no such module.

        It imports nothing, because `compat/scan/` asks, too.
        """
        raise NotImplementedError

    def spec_of(self, path: str, parent_path: list[str] | None) -> importlib.machinery.ModuleSpec | None:
        """Returns the spec of the module at `path`, or None; `parent_path` is the `__path__` of the package above."""
        if self.sources(path) is None:
            return None
        return importlib.machinery.ModuleSpec(path, self, origin="estimator_train", is_package=True)

    def exec_module(self, module):
        fill(module, self.sources(module.__name__))


def fill(module: ModuleType, sources: Iterable[str]) -> None:
    """Gives a module the names of other modules; of those of one name, the last counts."""
    for path in sources:
        source = importlib.import_module(path)
        vars(module).update({name: value for name, value in vars(source).items() if not name.startswith("__")})


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self):
        self.providers = {}

    def find_spec(self, fullname, path, target=None):
        provider = provider_of(self.providers, fullname)
        return provider.spec_of(fullname, path) if provider else None


_FINDER = _Finder()


def install(providers: Mapping[str, Provider]) -> None:
    """Makes Python ask these providers for the modules at their old paths, and below them, before it looks for files.

    Providers that are installed later take the place of earlier ones of the same path.
    """
    _FINDER.providers |= providers
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


def is_installed(path: str) -> bool:
    """Returns whether the modules at an old path have a provider."""
    return _FINDER in sys.meta_path and path in _FINDER.providers


def provider_of(providers: Mapping[str, Provider], path: str) -> Provider | None:
    """Returns the provider that a table has for a path, or for the nearest of the paths above it."""
    while path and path not in providers:
        path = path.rpartition(".")[0]
    return providers.get(path)
