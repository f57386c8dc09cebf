"""An input_fn from a Python generator."""

import functools
import inspect

import numpy as np
import tensorflow as tf


def generator(make_generator, *, batch_size=None, num_epochs=1, output_signature=None, augment=None):
    """Returns an input_fn over what Python code yields.

    Args:
      make_generator: a function that returns a fresh iterator of tuples (features, labels), each an array,
        a number, or a dict or tuple of such; called once an epoch. The tuples are examples, or batches
        without `batch_size`.
      batch_size: examples a batch on each replica; only the very last batch may be short. None: tuples are
        batches.
      num_epochs: passes, each with a new iterator; None is forever.
      output_signature: nested `tf.TensorSpec` of one tuple. None takes that of the first tuple of an
        iterator made for this alone, and leaves the leading dimension of batches open.
      augment: a function (features, labels) -> (features, labels) of numpy and Python, called on every
        tuple in every epoch, before the signature is checked.

    The input_fn takes an optional `tf.distribute.InputContext`. Every input pipeline calls `make_generator`
    itself, and nothing shards what it yields: a `make_generator` with a parameter `input_context` gets the
    context for that.

    Raises:
      ValueError: from the input_fn, where the iterator made to infer the signature yields nothing, or a
        scalar in a batch.
      tf.errors.OpError: from the dataset, with type, message and traceback of what the Python code raised,
        or with the number of the element that does not fit the signature.
    """

    def input_fn(input_context=None):
        make = make_generator
        if "input_context" in inspect.signature(make_generator).parameters:
            make = functools.partial(make_generator, input_context=input_context)
        elements = functools.partial(_elements, make, augment)
        signature = output_signature
        if signature is None:
            signature = _signature_of(next(elements()), batched=batch_size is None)
        dataset = tf.data.Dataset.from_generator(
            lambda: _checked(elements(), signature), output_signature=signature
        ).repeat(num_epochs)
        if batch_size is not None:
            dataset = dataset.batch(batch_size, num_parallel_calls=tf.data.AUTOTUNE)
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)

    return input_fn


def _elements(make, augment):
    element = None
    for element in make():
        if not isinstance(element, tuple):
            kind = type(element).__name__
            raise TypeError(f"make_generator yielded a {kind}, not a tuple (features, labels)")
        yield augment(*element) if augment else element
    if element is None:
        raise ValueError("make_generator yielded nothing; it must return a fresh iterator at every call")


def _signature_of(value, batched):
    if isinstance(value, dict):
        return {key: _signature_of(item, batched) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_signature_of(item, batched) for item in value)
    if not hasattr(value, "dtype"):
        # Python numbers take the dtypes that TensorFlow gives them: 1.0 is float32.
        value = tf.make_ndarray(tf.make_tensor_proto(value))
    if batched and not value.shape:
        raise ValueError(f"make_generator put a scalar {value} in a batch; pass batch_size for examples")
    shape = (None, *value.shape[1:]) if batched else value.shape
    return tf.TensorSpec(shape, tf.as_dtype(value.dtype))


def _checked(elements, signature):
    for number, element in enumerate(elements):
        if not _fits(element, signature):
            got = _signature_of(element, batched=False)
            raise ValueError(
                f"element {number} (from 0) of make_generator is {got}, expected {signature}; "
                "pass output_signature if the elements may differ"
            )
        yield element


def _fits(value, signature):
    if isinstance(signature, dict):
        return (
            isinstance(value, dict)
            and value.keys() == signature.keys()
            and all(_fits(value[key], signature[key]) for key in signature)
        )
    if isinstance(signature, tuple):
        return (
            isinstance(value, tuple)
            and len(value) == len(signature)
            and all(_fits(item, spec) for item, spec in zip(value, signature, strict=True))
        )
    if isinstance(value, dict | tuple) or not signature.shape.is_compatible_with(np.shape(value)):
        return False
    if hasattr(value, "dtype"):
        return tf.as_dtype(value.dtype) == signature.dtype
    try:
        tf.make_tensor_proto(value, dtype=signature.dtype)
    except (TypeError, ValueError):
        return False
    return True
