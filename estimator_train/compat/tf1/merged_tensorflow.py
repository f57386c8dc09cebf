"""The module `tensorflow` of a TF 1 script: tf.compat.v1, with TensorFlow 2's names where they do not clash."""

import sys
import types

# tf.compat has both versions. tf.estimator and Keras come from v1 only: TensorFlow 2's Keras optimizers would silently
# update nothing in a v1 graph.
UNMERGED = ("compat", "estimator", "keras")


def install() -> None:
    """Makes `import tensorflow` find the merged module and its submodules."""
    import tensorflow as tf

    merged = _merged("tensorflow", tf.compat.v1, tf)
    merged.compat = tf.compat
    merged.contrib = sys.modules["tensorflow.contrib"]
    sys.modules["tensorflow"] = merged


def _merged(name, v1, v2):
    module = types.ModuleType(name)
    vars(module).update({part: getattr(v2, part) for part in dir(v2)} | {"__name__": name})
    for part in dir(v1):
        ours, theirs = getattr(v1, part), getattr(v2, part, None)
        if part == "__path__":
            module.__path__ = [*ours, *theirs]
        elif not part.startswith("_") and part not in UNMERGED and _are_modules(ours, theirs):
            below = _merged(f"{name}.{part}", ours, theirs)
            setattr(module, part, below)
            # Do not replace real packages of this name, such as tensorflow.lite.
            sys.modules.setdefault(below.__name__, below)
        elif not part.startswith("__"):
            setattr(module, part, ours)
            if _are_modules(ours) and part not in UNMERGED:
                sys.modules.setdefault(f"{name}.{part}", ours)  # an import would load its file a second time
    return module


def _are_modules(*values):
    return all(isinstance(value, types.ModuleType) for value in values)
