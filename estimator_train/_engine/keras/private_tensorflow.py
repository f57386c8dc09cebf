"""Private names of TensorFlow that this package uses, each behind a function."""

import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_train._engine.libraries import private_names_of
from estimator_train._engine.types import Nest, Strategy


@private_names_of("tensorflow")
def copy_v1_optimizer(optimizer: tf.compat.v1.train.Optimizer) -> tf.compat.v1.train.Optimizer:
    """Copies a v1 optimizer, which has no configuration, without the variables and the bookkeeping of a deep copy."""
    copied = object.__new__(type(optimizer))
    vars(copied).update({name: value for name, value in vars(optimizer).items() if not name.startswith("_self_")})
    vars(copied).update({name: {} for name in ("_slots", "_non_slot_dict", "_deferred_slot_restorations")})
    return copied


@private_names_of("tensorflow")
def v2_behavior() -> bool:
    """Returns whether TensorFlow 2 behavior is on; `tf.compat.v1.disable_v2_behavior()` turns it off."""
    return tf.__internal__.tf2.enabled()


@private_names_of("tensorflow")
def as_wrapper(function: Callable, wrapped: Callable) -> Callable:
    """Returns `function` with the signature of `wrapped` for Keras, whose getfullargspec ignores functools.wraps."""
    return tf.__internal__.decorator.make_decorator(wrapped, function)


@private_names_of("tensorflow")
def with_autograph(function: Callable) -> Callable:
    """Returns `function` converted by AutoGraph, except for TensorFlow's and Keras' own code.

    Call it outside of a `tf.function(autograph=False)`, in which nothing is converted. `tf.autograph.to_graph` would
    convert TensorFlow's and Keras' code, too, and in a `tf.function` a replica cannot reduce gradients.
    """
    return tf.__internal__.autograph.tf_convert(function, tf.__internal__.autograph.control_status_ctx())


@private_names_of("tensorflow")
def is_stateful_op(name: str) -> bool:
    """Returns whether ops called `name` are stateful; a GraphDef's node, unlike a `tf.Operation`, has no `op_def`."""
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(name).is_stateful


@private_names_of("tensorflow")
def unchecked(function: tf.types.experimental.ConcreteFunction) -> Callable:
    """Returns a function that does not check its arguments, 0.2 ms a call, and that gradient tapes do not record."""

    def call(*arguments: Nest) -> Nest:
        # Other objects, such as the iterator of a strategy where TF 2 behavior is off, are captured.
        flat = filter(tf.is_tensor, tf.nest.flatten(arguments, expand_composites=True))
        return function.inference_fn.call_preflattened([*flat, *function.captured_inputs])

    return call


@private_names_of("tensorflow")
def strategy_of(iterator: Any) -> Strategy:
    """Returns the strategy that has distributed the dataset of a `tf.distribute.DistributedIterator`."""
    return iterator._strategy


@private_names_of("tensorflow")
def next_on_devices(iterator: Any) -> tuple[tf.Tensor, Callable[[], Nest]]:
    """Takes the next batch of each local replica; returns whether there is one, and a function that gives the batches.

    In `iterator`, a `tf.distribute.DistributedIterator`, each replica has a batch or none has.
    """
    from tensorflow.python.distribute import input_lib

    # Its own `get_next_as_optional` puts all batches into one Optional, which lies on one device, and waits for the
    # other workers. When it is traced, it asks for the size of the dataset, so the function would serve no other.
    strategy = strategy_of(iterator)
    (of_worker,) = iterator._iterators
    optionals = of_worker.get_next_as_optional_list()

    def on_each_device(method: str) -> list[Nest]:
        values = []
        for device, optional in zip(strategy.extended.worker_devices, optionals, strict=True):
            with tf.device(device):  # elsewhere, the whole batch would be moved there
                values.append(getattr(optional, method)())
        return values

    more = tf.reduce_all(on_each_device("has_value"))
    return more, lambda: input_lib._create_per_replica(on_each_device("get_value"), strategy)


@private_names_of("tensorflow")
def free_bytes(device: str) -> int:
    """Returns how many bytes TensorFlow may still use on a GPU; public functions do not tell how many it has."""
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.client import _pywrap_tf_session as session
    from tensorflow.python.eager import context

    devices = pywrap_tfe.TFE_ContextListDevices(context.context()._handle)
    names = [pywrap_tfe.TF_DeviceListName(devices, index) for index in range(pywrap_tfe.TF_DeviceListCount(devices))]
    limit = session.TF_DeviceListMemoryBytes(devices, names.index(device))
    return limit - tf.config.experimental.get_memory_info(device)["current"]


@private_names_of("tensorflow")
def timestamp() -> tf.Tensor:
    """Returns the time in seconds like tf.timestamp, which op determinism refuses; Python's clock takes longer."""
    from tensorflow.python.framework import config

    if not config.is_op_determinism_enabled():
        return tf.timestamp()
    return tf.ensure_shape(tf.numpy_function(time.time, [], tf.float64), [])


@private_names_of("tensorflow")
def graph_around_branches(graph: tf.Graph) -> tf.Graph:
    """Returns `graph` or, if it is that of a branch of tf.cond, the graph that calls tf.cond."""
    from tensorflow.python.ops.control_flow_v2_func_graphs import CondBranchFuncGraph

    while isinstance(graph, CondBranchFuncGraph):
        graph = graph.outer_graph
    return graph
