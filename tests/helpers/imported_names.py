"""Compares what `scan` says of names with importing them: python imported_names.py as_it_is|tf1 FOLDER...

Prints JSON: the number of public names of TensorFlow, and of the uses in the folders' files, and on which they differ.
"""

import importlib
import json
import sys
import types

from estimator_train.compat import drop_in, tf1
from estimator_train.compat.scan.lookup import VALUE, Lookup
from estimator_train.compat.scan.sources import files_in, parts_of
from estimator_train.compat.scan.uses import uses_in


def public_names(module, path):
    """Yields the names of a module and of the public modules below it, as tuples, with their values."""
    for name in dir(module):
        if name.startswith("_"):
            continue
        value = getattr(module, name)
        yield (*path, name), value
        # Not the modules that those of tf.contrib import.
        is_inside = isinstance(value, types.ModuleType) and value.__name__.startswith(("tensorflow", "tf_keras.api"))
        if is_inside and name != "python" and len(path) < (1 if path[:1] == ("contrib",) else 4):
            yield from public_names(value, (*path, name))


def looked_up(lookup, path):
    found = lookup.module("tensorflow")
    for name in path:
        found = found and lookup.attribute(found, name)
    return found


def is_imported(reference):
    try:
        value = importlib.import_module(reference.module)
        if reference.imported:
            value = getattr(value, reference.imported, None) or importlib.import_module(
                f"{reference.module}.{reference.imported}"
            )
        for name in reference.attributes:
            if not isinstance(value, types.ModuleType):
                break
            value = getattr(value, name)
    except (AttributeError, ImportError):
        return False
    return True


def main(mode, *folders):
    (tf1 if mode == "tf1" else drop_in).install()
    import tensorflow as tf

    lookup = Lookup(tf1=mode == "tf1")
    public, differing = 0, []
    for path, value in public_names(tf, ()):
        found = looked_up(lookup, path)
        public += 1
        if found is None or isinstance(value, types.ModuleType) == (found is VALUE):
            differing.append(".".join(path))
    trees = [[part.tree for part in parts_of(file)] for folder in folders for file in files_in(folder)]
    references = [each for tree in trees for use in uses_in(tree) for each in use.references if each]
    wrong = {each.name for each in set(references) if lookup.find(each)[0] != is_imported(each)}
    print(json.dumps({"public": public, "differing": differing, "uses": len(references), "wrong": sorted(wrong)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
