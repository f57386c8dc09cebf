"""Says whether a script finds a name, without importing TensorFlow: by the drop-in's tables and TensorFlow's files."""

from __future__ import annotations

import functools
from typing import NamedTuple

from estimator_train.compat.drop_in import moved, names
from estimator_train.compat.scan.installed import Target, file_of, names_of, paths_of
from estimator_train.compat.scan.private_tensorflow import API, INSIDE
from estimator_train.compat.tf1 import contrib_modules, merged_tensorflow, private_tensorflow

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
        self._top: Found = Merged(_V1, "tensorflow") if tf1 else "tensorflow"
        self._paths = {API, *paths_of("tensorflow"), *paths_of(_V1)}
        self.module = functools.cache(self._module)
        self.attribute = functools.cache(self._attribute)

    def find(self, reference: Reference) -> tuple[bool, str]:
        """Returns whether the name is found, and the part of it that decides: the first that is absent or no module."""
        reached = ""
        found: Found | None = None
        for part in reference.module.split("."):
            reached = f"{reached}.{part}" if reached else part
            found = self.module(reached)
            if found is None:
                return False, reached
        if reference.imported:
            module = reached
            reached = f"{reached}.{reference.imported}"
            found = self.attribute(found, reference.imported) or self.module(f"{module}.{reference.imported}")
        for name in reference.attributes:
            if found is None or isinstance(found, Value):
                break
            found = self.attribute(found, name)
            reached = f"{reached}.{name}"
        return found is not None, reached

    def _module(self, path: str) -> Found | None:
        """Returns what `import path` finds."""
        parent, _, name = path.rpartition(".")
        if self._tf1 and path.startswith("tensorflow.estimator"):
            path = path.replace("tensorflow", "tensorflow.compat.v1", 1)
        if path in names.MODULES:
            return path
        if path == "tensorflow":
            return self._top
        if path == _CONTRIB or path.startswith(f"{_CONTRIB}."):
            source = contrib_modules.source_of(path) if self._tf1 else None
            return path if source and self.module(source) else None
        if self._tf1 and (sources := private_tensorflow.sources_of(path)):
            found = [module for module in map(self.module, sources) if isinstance(module, str)]
            own = path if file_of(path) else None
            return Merged(found[-1], found[0]) if found[1:] else next(iter(found), own)
        if not parent:
            return path if file_of(path) else None
        package = self.module(parent)
        if package is None or isinstance(package, Value):
            return None
        below = f"{package.v2 if isinstance(package, Merged) else package}.{name}"
        file = file_of(below)
        if file is not None and not file.is_dir():
            return below
        attribute = self.attribute(package, name)
        if isinstance(attribute, Merged) or (isinstance(attribute, str) and self._is_below(attribute, package)):
            return attribute
        if path in moved.MODULES:
            return path
        return below if file else None

    def _is_below(self, module: str, package: Found) -> bool:
        """Returns whether a module that is an attribute of a package is found in it by an import, too."""
        packages = set(package) if isinstance(package, Merged) else {package}
        return module in names.MODULES or module.rpartition(".")[0] in packages | self._paths

    def _attribute(self, module: Found, name: str) -> Found | None:
        """Returns what `module.name` is."""
        if isinstance(module, Merged):
            return self._of_merged(module, name)
        if isinstance(module, Value) or (name.startswith("__") and name.endswith("__")):
            return VALUE
        if module == _CONTRIB or module.startswith(f"{_CONTRIB}."):
            return self._of_contrib(module, name)
        public = module.replace(API, "tensorflow", 1)
        below = f"{public}.{name}"
        if below in names.MODULES or below in moved.MODULES:
            return below
        if module in names.MODULES:
            target = names.MODULES[module].get(name)
            return target and (VALUE if ":" in target else target)
        for path in moved.MODULES.get(module, "").split():
            if found := self.attribute(path, name):
                return found
        return self._of_file(module, name) or (VALUE if name in _restored(module) else None)

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
        source = contrib_modules.source_of(module)
        ours = self.module(source) if source else None
        if ours is None or name == "tf" or name.startswith("_"):
            return None
        file = self.attribute(ours, module.rpartition(".")[2]) if ".python" in module else None
        return self.attribute(ours if file is None or isinstance(file, Value) else file, name)

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
            public = names_of(star).public
            is_public = not name.startswith("_") if public is None else name in public
            found = self.attribute(star, name) if is_public else None
            if found:
                return found
        if not held.known:
            return VALUE
        # TensorFlow imports most of its modules itself, and tensorflow/__init__.py deletes some of their names.
        below = f"{module}.{name}"
        return self.module(below) if file_of(below) else None

    def _target(self, target: Target | None) -> Found:
        """Returns what a name refers to; VALUE also where that cannot be followed."""
        if target is None or not file_of(target.module):
            return VALUE
        found: Found | None = target.module
        for name in filter(None, target.name.split(".")):
            if isinstance(found, str) and file_of(f"{found}.{name}"):
                found = f"{found}.{name}"
            else:
                found = self.attribute(found, name) if found else None
        return found or VALUE


def _restored(module: str) -> set[str]:
    """Returns the names that `moved.restore_names` sets in a module."""
    tables = moved.NAMES.get(module.removeprefix(f"{INSIDE}."), {})
    return {name.partition("=")[0] for listed in tables.values() for name in listed.split()}
