"""Recognizes errors of scripts that need --tf1."""

import re
import types

import tensorflow as tf


def name_of_tf1(error: BaseException) -> str | None:
    """Returns the TensorFlow 1 name, such as tf.Session, whose absence in TensorFlow 2 caused this error, or None."""
    if isinstance(error, AttributeError):
        if error.obj is None:  # AutoGraph raises a new error, as for a function of Dataset.map, with the message alone
            named = re.search(r"module '([\w.]+)' has no attribute '(\w+)'\s*$", str(error))
            return _name(named[1], named[2]) if named else None
        return _attribute(error.obj, error.name)
    if not isinstance(error, ImportError) or error.name is None:
        return None
    module, _, last = error.name.rpartition(".")
    imported = re.match(r"cannot import name '(\w+)'", str(error))
    return _name(error.name, imported[1]) if imported else _name(module, last)


def _attribute(owner, name):
    if isinstance(owner, types.ModuleType):
        return _name(owner.__name__, name)
    if isinstance(owner, tf.data.Dataset) and hasattr(tf.compat.v1.data.Dataset, name):
        return f"tf.data.Dataset.{name}"
    return None


def _name(module, name):
    """Returns tf.`module`.`name` if TensorFlow 1 has that name, otherwise None."""
    if (module, name) == ("tensorflow", "contrib"):
        return "tf.contrib"
    public = re.fullmatch(r"tensorflow(?:\._api\.v2)?(\.(?!compat\.)[\w.]+)?", module)
    if public is None:
        return None
    found = tf.compat.v1
    for part in [*(public[1] or "").split(".")[1:], name]:
        if not hasattr(found, part):
            return None
        found = getattr(found, part)
    return f"tf{public[1] or ''}.{name}"
