"""Says whether a script finds a name, without importing TensorFlow: by the drop-in's tables and TensorFlow's files."""

import functools
import itertools
import re
from typing import NamedTuple

from estimator_train.compat import drop_in
from estimator_train.compat.drop_in import moved, names
from estimator_train.compat.drop_in.old_paths import provider_of
from estimator_train.compat.scan.installed import Target, file_of, names_of, paths_of
from estimator_train.compat.scan.private_tensorflow import API
from estimator_train.compat.tf1 import contrib_modules, merged_tensorflow, private_tensorflow
from estimator_train.compat.tf1.contrib_moved import MOVED

_V1 = f"{API}.compat.v1"
_CONTRIB = "tensorflow.contrib"


class Reference(NamedTuple):
    """A use of a name: `import module`, then `from module import imported`, then `.attributes` of that.

    >>> Reference("tensorflow.contrib", "layers", ("conv2d",)).name
    'tensorflow.contrib.layers.conv2d'
    """

    module: str
    imported: str = ""
    attributes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return ".".join(filter(None, [self.module, self.imported, *self.attributes]))


class Value:
    """Stands for anything but a module, such as a class, whose attributes are not looked up."""


class Merged(NamedTuple):
    """A module of `compat.tf1.merged_tensorflow`."""

    v1: str
    v2: str


Found = str | Merged | Value  # a str is the path of a module
VALUE = Value()


class Lookup:
    """Looks names up as `estimator_train run` provides them, or `estimator_train run --tf1`.

    >>> Lookup(tf1=False).find(Reference("tensorflow", attributes=("Session",)))
    (False, 'tensorflow.Session')
    >>> Lookup(tf1=True).find(Reference("tensorflow", attributes=("Session", "run")))
    (True, 'tensorflow.Session')
    """

    def __init__(self, tf1: bool) -> None:
        self._tf1 = tf1
        self._top: Found = "tensorflow"
        self._providers = drop_in.PROVIDERS
        if tf1:
            self._top = Merged(_V1, "tensorflow")
            self._providers = self._providers | contrib_modules.PROVIDERS | private_tensorflow.PROVIDERS
        self._paths = {API, *paths_of("tensorflow"), *paths_of(_V1)}
        self.module = functools.cache(self._module)
        self.attribute = functools.cache(self._attribute)

    def find(self, reference: Reference) -> tuple[bool, str]:
        """Returns whether the name is found, and the part of it that decides: the first that is absent or no module."""
        found: Found | None = None
        for reached in itertools.accumulate(reference.module.split("."), "{}.{}".format):
            found = self.module(reached)
            if found is None:
                return False, reached
        if reference.imported:
            reached = f"{reached}.{reference.imported}"
            found = self.attribute(found, reference.imported) or self.module(reached)
        for name in reference.attributes:
            if found is None or isinstance(found, Value):
                break
            found = self.attribute(found, name)
            reached = f"{reached}.{name}"
        return found is not None, reached

    def _module(self, path: str) -> Found | None:
        """Returns what `import path` finds."""
        parent = path.rpartition(".")[0]
        if self._tf1 and path.startswith("tensorflow.estimator"):
            path = path.replace("tensorflow", "tensorflow.compat.v1", 1)
        if path == "tensorflow":
            return self._top
        sources = self._sources(path)
        if sources is not None and path not in moved.MODULES:
            return self._old_module(path, sources)
        if parent and not _is_of_contrib(path):
            return self._module_below(self.module(parent), path)
        return _installed(path)

    def _sources(self, path: str) -> list[str] | None:
        """Returns the modules whose names an old module has; see `Provider`."""
        provider = provider_of(self._providers, path)
        return provider.sources(path) if provider else None

    def _old_module(self, path: str, sources: list[str]) -> Found | None:
        if _is_of_contrib(path):
            return path if all(map(self.module, sources)) else None
        if sources:
            return self._module_of_keras(path, sources)
        return path

    def _module_of_keras(self, path: str, sources: list[str]) -> Found | None:
        """Returns what --tf1 makes of a module of tensorflow.python.keras: the modules of `sources` that there are."""
        match [module for module in map(self.module, sources) if isinstance(module, str)]:
            case [only]:
                return only
            case [v2, v1]:
                return Merged(v1, v2)
        return _installed(path)

    def _module_below(self, package: Found | None, path: str) -> Found | None:
        if package is None or isinstance(package, Value):
            return None
        name = path.rpartition(".")[2]
        in_newest = f"{getattr(package, 'v2', package)}.{name}"  # where an import below a package looks
        file = file_of(in_newest)
        if file is not None and not file.is_dir():
            return in_newest
        attribute = self.attribute(package, name)
        if isinstance(attribute, Merged) or (isinstance(attribute, str) and self._is_below(attribute, package)):
            return attribute
        if self._sources(path) is not None:
            return path
        return _installed(in_newest)

    def _is_below(self, module: str, package: Found) -> bool:
        """Returns whether a module that is an attribute of a package is found in it by an import, too."""
        parent = module.rpartition(".")[0]
        if module in names.MODULES or parent in self._paths:
            return True
        if isinstance(package, Merged):
            return parent in package
        return parent == package

    def _attribute(self, module: Found, name: str) -> Found | None:
        """Returns what `module.name` is."""
        if isinstance(module, Merged):
            return self._of_merged(module, name)
        if isinstance(module, Value) or (name.startswith("__") and name.endswith("__")):
            return VALUE
        if _is_of_contrib(module):
            return self._of_contrib(module, name)
        # As in tf.compat.v2.compat.v1.estimator, the last version counts.
        public = re.sub(r"(\.compat\.v[12])+$", r"\1", module.replace(API, "tensorflow", 1))
        below = f"{public}.{name}"
        if below in drop_in.PROVIDERS:
            return below
        if module in names.MODULES:
            target = names.MODULES[module].get(name)
            if target and ":" in target:
                return VALUE
            return target
        if module in moved.MODULES and not file_of(module):
            places = (self.attribute(path, name) for path in moved.MODULES[module].split())
            return next((found for found in places if found), None)
        found = self._of_file(module, name)
        if found is None and name in moved.NAMES.get(module, ()):
            return VALUE
        return found

    def _of_merged(self, module: Merged, name: str) -> Found | None:
        if (module.v1, name) == (_V1, "contrib"):
            return _CONTRIB
        theirs = self.attribute(module.v2, name)
        if (module.v1, name) == (_V1, "compat"):
            return theirs
        ours = self.attribute(module.v1, name)
        if isinstance(ours, str) and isinstance(theirs, str) and name not in merged_tensorflow.UNMERGED:
            return Merged(ours, theirs)
        return ours or theirs

    def _of_contrib(self, module: str, name: str) -> Found | None:
        if module == _CONTRIB:
            return self.module(f"{module}.{name}")
        sources = self._sources(module)
        if not sources or name == "tf" or name.startswith("_"):
            return None
        (source,) = sources
        ours = self.module(source)
        for file in contrib_modules.names_below(module):
            below = self.attribute(ours, file) if ours else None
            ours = below if isinstance(below, str) else ours
        if isinstance(ours, str) and name in MOVED.get(ours, ()):
            return VALUE
        return ours and self.attribute(ours, name)

    def _of_file(self, module: str, name: str) -> Found | None:
        """Returns what a name is in the module's file."""
        held = names_of(module)
        parent, _, last = module.rpartition(".")
        if name in held.deleted:
            return None
        if name in held.targets:
            return self._target(held.targets[name])
        if parent and f"{last}.{name}" in names_of(parent).targets:
            return self._target(names_of(parent).targets[f"{last}.{name}"])
        for star in held.stars:
            if _exports(star, name) and (found := self.attribute(star, name)):
                return found
        if not held.known:
            return VALUE
        # TensorFlow imports most of its modules itself, and tensorflow/__init__.py deletes some of their names.
        return _installed(f"{module}.{name}") and self.module(f"{module}.{name}")

    def _target(self, target: Target | None) -> Found:
        """Returns what a name refers to; VALUE also where that cannot be followed."""
        if target is None or not file_of(target.module):
            return VALUE
        found: Found | None = target.module
        for name in filter(None, target.name.split(".")):
            if isinstance(found, str) and file_of(f"{found}.{name}"):
                found = f"{found}.{name}"
            elif found:
                found = self.attribute(found, name)
        return found or VALUE


def _is_of_contrib(module: str) -> bool:
    return module == _CONTRIB or module.startswith(f"{_CONTRIB}.")


def _installed(module: str) -> str | None:
    """Returns the path of a module if there is a file of it, or a folder."""
    return module if file_of(module) else None


def _exports(module: str, name: str) -> bool:
    """Returns whether `from module import *` takes a name along, if there is one."""
    public = names_of(module).public
    if public is None:
        return not name.startswith("_")
    return name in public
