"""Private names of TensorFlow that this package uses, each behind a function."""

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from estimator_train._engine.libraries import private_names_of

v1 = tf.compat.v1


@private_names_of("tensorflow")
def run_after(op: tf.Operation, earlier: list[tf.Operation]) -> None:
    """Lets `op` of a v1 graph wait for the ops `earlier`; tf.control_dependencies only orders ops to be created."""
    op._add_control_inputs(earlier)


@private_names_of("tensorflow")
def add_train_op(builder: tf.compat.v1.saved_model.Builder, train_op: tf.Operation | tf.Tensor) -> None:
    """Adds `train_op` to the collection of the default graph in which who loads a SavedModel looks for it."""
    builder._add_train_op(train_op)


@private_names_of("tensorflow")
def reduces_by_collectives(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether a MirroredStrategy reduces by collective ops, its default; no public name reveals it."""
    from tensorflow.python.distribute.cross_device_ops import CollectiveAllReduce

    return isinstance(strategy.extended._cross_device_ops, CollectiveAllReduce)


@private_names_of("tensorflow")
def set_loss_reduction(reduction: str) -> None:
    """Sets the Reduction of the default graph's loss; get_loss_reduction() only knows those of tf.compat.v1.losses."""
    v1.get_default_graph()._last_loss_reduction = reduction


@private_names_of("tensorflow")
def averaging_losses(strategy: tf.distribute.Strategy) -> contextlib.AbstractContextManager[None]:
    """A context manager in which v1 optimizers average the replicas' losses, and get_loss_reduction() is MEAN."""
    return strategy._scale_loss_for_estimator_enabled()


@private_names_of("tensorflow")
def is_loss_averaged() -> bool:
    """Returns whether an optimizer in the default graph has divided its loss by the number of replicas."""
    return v1.get_default_graph()._is_loss_scaled_by_optimizer  # v1 optimizers set it for tf.estimator


@private_names_of("tensorflow")
def set_loss_averaged() -> None:
    """Makes `is_loss_averaged` true, as a v1 optimizer does."""
    v1.get_default_graph()._is_loss_scaled_by_optimizer = True


@private_names_of("tensorflow")
def add_init_feeds(scaffold: tf.compat.v1.train.Scaffold, feeds: dict[tf.Tensor, Any]) -> None:
    """Adds to what a Scaffold feeds to its init_op; a copy would not be the one that the user's hooks have."""
    scaffold._init_feed_dict = (scaffold._init_feed_dict or {}) | feeds


@private_names_of("tensorflow")
def forget_gradients(graph: tf.Graph) -> None:
    """Forgets what tf.custom_gradient has registered for the ops of `graph`, or TensorFlow would keep it for ever."""
    from tensorflow.python.framework import ops

    for op in graph.get_operations():
        if op.type == "IdentityN" and "_gradient_op_type" in op.node_def.attr:
            name = tf.compat.as_str(op.get_attr("_gradient_op_type"))
            if name.startswith("CustomGradient-"):
                ops.gradient_registry._registry.pop(name, None)


@private_names_of("tensorflow")
def session_config() -> tf.compat.v1.ConfigProto:
    """Returns a copy of the settings of a session that is created without any, with the devices of eager mode."""
    from tensorflow.python.eager import context

    config = v1.ConfigProto()
    config.CopyFrom(context.context().config)
    return config


@contextlib.contextmanager
@private_names_of("tensorflow")
def unfinalized(graph: tf.Graph) -> Iterator[None]:
    """A context manager in which ops can be added to a graph, even if it is finalized; it is the default graph."""
    was_finalized = graph.finalized
    graph._unsafe_unfinalize()
    try:
        with graph.as_default():
            yield
    finally:
        if was_finalized:
            graph.finalize()


@private_names_of("tensorflow")
def is_stateful(kind: str) -> bool:
    """Returns whether ops of a type, such as "RandomUniform", have effects or a state; False for names of no op."""
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(kind)
    return definition is not None and definition.is_stateful


@private_names_of("tensorflow")
def located(error: tf.errors.OpError, session: tf.compat.v1.Session) -> tf.errors.OpError:
    """Returns the error that `session.run` would raise for one of a callable: it has the op, and where it was made."""

    def fail() -> None:
        raise error

    try:
        session._do_call(fail)
    except tf.errors.OpError as located_error:
        return located_error
    return error
