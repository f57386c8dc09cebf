"""The module `tensorflow` of a TF 1 script: tf.compat.v1, with TensorFlow 2's names where they do not clash."""

from __future__ import annotations

import sys
import types

import tensorflow as tf

# tf.compat leads to both versions; tf.estimator and Keras are v1's alone: TensorFlow 2's optimizers of Keras would
# update nothing in a v1 graph, and say nothing.
_UNMERGED = ("compat", "estimator", "keras")


def install() -> None:
    """Puts the merged module, and those below it, where `import tensorflow` finds them."""
    merged = _merged("tensorflow", tf.compat.v1, tf)
    merged.compat = tf.compat
    merged.contrib = sys.modules["tensorflow.contrib"]
    sys.modules["tensorflow"] = merged


def _merged(name, v1, v2):
    module = types.ModuleType(name)
    vars(module).update({part: getattr(v2, part) for part in dir(v2)})
    for part in dir(v1):
        ours = getattr(v1, part)
        theirs = getattr(v2, part, ours)
        if part == "__path__":
            module.__path__ = [*ours, *theirs]
        elif part.startswith("__"):
            continue
        elif part in _UNMERGED or ours is theirs or not (_is_module(ours) and _is_module(theirs)):
            setattr(module, part, ours)
        else:
            below = _merged(f"{name}.{part}", ours, theirs)
            setattr(module, part, below)
            # Python folders of this name, such as tensorflow/lite, stay what they are.
            sys.modules.setdefault(below.__name__, below)
    return module


def _is_module(value):
    return isinstance(value, types.ModuleType)
