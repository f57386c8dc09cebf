"""Every private name of TensorFlow, tf_keras and Keras 3 that this package uses, each behind one function.

Any release may change them. A function raises AttributeError or ImportError once its name is gone, rather than going on
without it. tests/session/test_private_names.py calls every function and says what breaks without it; run it first on a
new TensorFlow. Private modules are imported inside the functions, so that one that moves breaks its own function only.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import types

import tensorflow as tf
import tf_keras as keras

v1 = tf.compat.v1


# Graphs and sessions


def eager_mode():
    """A context manager that returns to eager mode from inside a v1 graph, where tf.init_scope() does not."""
    return tf.__internal__.eager_context.eager_mode()


def global_step_read():
    """The tensor by which TensorFlow's hooks fetch the global step of the default graph; made if it is not there.

    TensorFlow keeps it in a collection, and both the function that makes it and the collection's name are private. But
    a hook gives it away.
    """
    hook = v1.train.StopAtStepHook(num_steps=1)
    hook.begin()
    return hook.before_run(None).fetches


# Distribution


def reduces_by_collectives(strategy):
    """Whether a MirroredStrategy reduces by collective ops, its default; nothing public tells how it reduces."""
    from tensorflow.python.distribute.cross_device_ops import CollectiveAllReduce

    return isinstance(strategy.extended._cross_device_ops, CollectiveAllReduce)


def averaging_losses(strategy):
    """A context manager in which v1 optimizers take the mean of the replicas' losses; only tf.estimator asked for it.

    `tf.compat.v1.distribute.get_loss_reduction()` is MEAN in it.
    """
    return strategy._scale_loss_for_estimator_enabled()


def is_loss_averaged():
    """Whether an optimizer of the default graph has divided its loss by the number of replicas.

    v1 optimizers note it on the graph, for tf.estimator.
    """
    return v1.get_default_graph()._is_loss_scaled_by_optimizer


def set_loss_averaged():
    """Makes `is_loss_averaged` true, as a v1 optimizer does."""
    if not is_loss_averaged():  # setting alone would work without the name, too
        v1.get_default_graph()._is_loss_scaled_by_optimizer = True


# Feature columns and layers of v1


def feature_column_class():
    """The base class of feature columns. tf.feature_column has the functions that make them, not the classes."""
    return tf.__internal__.feature_column.FeatureColumn


def dense_column_class():
    """The base class of the feature columns that have dense tensors."""
    return tf.__internal__.feature_column.DenseColumn


def column_cache(features):
    """The object that feature columns read from: the dict `features`, and the tensors that columns have made of it.

    The public way is Keras' DenseFeatures layer, which takes no variable scope's partitioner.
    """
    return tf.__internal__.feature_column.FeatureTransformationCache(features)


def column_state():
    """The object that makes the trainable variables and lookup tables of feature columns; see `column_cache`."""
    return tf.__internal__.feature_column.StateManager(keras.layers.Layer(), trainable=True)


def v1_dense_class():
    """`tf.compat.v1.layers.Dense`, which exists only if TF_USE_LEGACY_KERAS was set before TensorFlow was imported."""
    from tf_keras.src.legacy_tf_layers.core import Dense

    return Dense


def v1_batch_normalization_class():
    """`tf.compat.v1.layers.BatchNormalization`; see `v1_dense_class`."""
    from tf_keras.src.legacy_tf_layers.normalization import BatchNormalization

    return BatchNormalization


# Optimizers


def learning_rate_or_schedule(optimizer):
    """The learning rate of a new Keras optimizer, a variable, or its schedule; `learning_rate` has no schedule."""
    return optimizer._learning_rate


def hyperparameters(optimizer):
    """The variables that hold hyperparameters of a tf_keras optimizer, by their names.

    New ones keep the learning rate in a variable, legacy ones each number; neither do so with a schedule.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of a LossScaleOptimizer
    if isinstance(optimizer, keras.optimizers.legacy.Optimizer):
        optimizer.learning_rate  # noqa: B018, creates them
        kept = optimizer._hyper
    elif isinstance(optimizer, keras.optimizers.Optimizer):
        kept = {"learning_rate": optimizer._learning_rate}
    else:
        kept = {}
    return {name: value for name, value in kept.items() if hasattr(value, "assign")}


def leave_out_of_checkpoints(trackable, left_out):
    """Makes checkpoints of `trackable` hold no values for those of its variables that are among `left_out`."""
    children, ids = trackable._trackable_children, {id(variable) for variable in left_out}
    without_value = tf.Module()

    def others(*args, **kwargs):
        found = children(*args, **kwargs)
        return {name: without_value if id(child) in ids else child for name, child in found.items()}

    trackable._trackable_children = others


@contextlib.contextmanager
def taking_all_of_checkpoints(trackable):
    """Around a restore of a checkpoint that has values for what `leave_out_of_checkpoints` leaves out."""
    others = vars(trackable).pop("_trackable_children")
    try:
        yield
    finally:
        trackable._trackable_children = others


@contextlib.contextmanager
def without_learning_rate(optimizer):
    """Around a check of what a restore has found: the learning rate of a Keras optimizer may be missing.

    A constant rate is a variable; a schedule has none, or another one, which holds its present rate.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of a LossScaleOptimizer
    children, own = optimizer._trackable_children, vars(optimizer).get("_trackable_children")

    def others(*args, **kwargs):
        rates = ("_learning_rate", "_current_learning_rate")
        return {name: child for name, child in children(*args, **kwargs).items() if name not in rates}

    optimizer._trackable_children = others
    try:
        yield
    finally:
        del optimizer._trackable_children
        if own is not None:
            optimizer._trackable_children = own


def build_legacy_optimizer(optimizer, variables):
    """Creates the variables of a legacy Keras optimizer, which has no `build` and creates them in its first update."""
    optimizer._create_all_weights(variables)


def forget_values_to_come(model):
    """Drops the values that earlier restores keep for variables of `model` to come: a new restore brings newer ones.

    With each value TensorFlow keeps all that it knows of its checkpoint.
    """
    for part in tf.train.TrackableView(model).descendants():
        part._deferred_dependencies.clear()


def weight_decay_exclusions(optimizer):
    """The variables and the names, two lists, given to `exclude_from_weight_decay`, which the config leaves out."""
    stand_in = types.SimpleNamespace()  # an optimizer that excludes nothing does not have the attributes
    keras.optimizers.Optimizer.exclude_from_weight_decay(stand_in, var_names=["any"])
    variables, names = "_exclude_from_weight_decay", "_exclude_from_weight_decay_names"
    if vars(stand_in).keys() != {variables, names}:
        raise AttributeError(f"exclude_from_weight_decay() sets {sorted(vars(stand_in))}, not {variables} and {names}")
    return getattr(optimizer, variables, []), getattr(optimizer, names, [])


def copy_v1_optimizer(optimizer):
    """A tf.compat.v1 optimizer with the settings of `optimizer` and no variables.

    It has no configuration to copy by. Its settings are its attributes, but for the variables and the bookkeeping of
    checkpoints. A deep copy would copy these, too.
    """
    variables = {name: {} for name in ("_slots", "_non_slot_dict", "_deferred_slot_restorations")}
    bookkeeping = {name for name in vars(optimizer) if name.startswith("_self_")}
    missing = variables.keys() - vars(optimizer).keys()
    if missing or not bookkeeping:
        raise AttributeError(f"{type(optimizer).__name__} lacks {sorted(missing) or 'attributes of its checkpoints'}")
    copied = object.__new__(type(optimizer))
    vars(copied).update({name: value for name, value in vars(optimizer).items() if name not in bookkeeping})
    vars(copied).update(variables)
    return copied


# Keras models


@contextlib.contextmanager
def eager_classes():
    """A context manager in which the classes of Keras' layers and models are those of eager mode.

    Making a layer in a v1 graph gives its class, and so all layers of it, a base of TensorFlow 1's engine; making one
    in eager mode takes it back. Nothing public does that for layers that exist. A caller in a graph finds the classes
    as they were: enter this context before eager mode.
    """
    from tf_keras.src.engine import base_layer, base_layer_v1, training, training_v1
    from tf_keras.src.utils.version_utils import swap_class

    is_in_graph = not tf.executing_eagerly()
    of_graphs = [*base_layer_v1.Layer.__subclasses__(), *training_v1.Model.__subclasses__()]

    def swap(to_eager):
        for kind in of_graphs:
            swap_class(kind, training.Model, training_v1.Model, to_eager)
            swap_class(kind, base_layer.Layer, base_layer_v1.Layer, to_eager)

    swap(True)
    try:
        yield
    finally:
        if is_in_graph:
            swap(False)


def v2_behavior():
    """Whether TensorFlow 2's behaviour is on: `tf.compat.v1.disable_v2_behavior()` turns it off."""
    return tf.__internal__.tf2.enabled()


def is_initialized_by_keras(variable):
    """Whether Keras' session has given a value to a variable of a v1 graph.

    Asking that session itself would initialise the variable.
    """
    return getattr(variable, "_keras_initialized", False)


def as_wrapper(function, wrapped):
    """`function`, which takes any arguments, with the signature of `wrapped` for Keras.

    Keras looks for a signature with `inspect.getfullargspec`, which does not follow functools.wraps.
    """
    return tf.__internal__.decorator.make_decorator(wrapped, function)


def with_autograph(function):
    """`function`, converted by AutoGraph when it is called, except for TensorFlow's and Keras' own code.

    To be called outside of a `tf.function(autograph=False)`, in which nothing is converted.
    `tf.autograph.to_graph` converts that, too, and `tf.function` makes a function of it, in which a replica cannot
    reduce gradients.
    """
    return tf.__internal__.autograph.tf_convert(function, tf.__internal__.autograph.control_status_ctx())


def last_metric_results(metrics):
    """Returns a list of the last results of those Keras metrics whose `result()` has been called.

    In a replica, that is the result of all replicas, which a tensor does not tell.
    """
    _check_that_metrics_keep_results()
    return [metric._call_result for metric in metrics if hasattr(metric, "_call_result")]


@functools.cache
def _check_that_metrics_keep_results():
    class Zero(keras.metrics.Metric):
        def update_state(self):
            pass

        def result(self):
            return 0.0

    with eager_mode():
        metric = Zero()
        metric.result()
    if not hasattr(metric, "_call_result"):
        raise AttributeError("Keras metrics do not keep their last result as _call_result")


class LoadedLambdas:
    """A context manager that says of the model files loaded inside whether any holds a lambda, in `found`.

    A lambda is saved as Python bytecode, and nothing public refuses it in .h5 files and SavedModels. The loaders of all
    formats ask this scope, once for each lambda, and only then load it.

    Args:
      refused: whether lambdas are not loaded. A SavedModel's layer is then made of its graph; other files raise
        ValueError.
    """

    def __init__(self, refused):
        from tf_keras.src.saving.serialization_lib import SafeModeScope

        self.found = False
        self._refused = refused
        self._scope = SafeModeScope(self)

    def __bool__(self):
        self.found = True
        return self._refused

    def __enter__(self):
        self._scope.__enter__()
        return self

    def __exit__(self, *exc_info):
        self._scope.__exit__(*exc_info)


def train_counter(model):
    """The variable by which a tf_keras model's fit counts its steps, for callbacks such as TensorBoard."""
    return model._train_counter


def compile_arguments(model):
    """The arguments of a model's `compile()`, a dict; of a model made in a v1 graph, those but for the optimizer.

    `get_compile_config()` serialises them, which lambdas and functions that are not registered do not survive.
    """
    if hasattr(model, "_compile_weighted_metrics"):
        of_metrics = {"metrics": model._compile_metrics, "weighted_metrics": model._compile_weighted_metrics}
        return of_metrics | {"loss": model.loss, "loss_weights": model.loss_weights}
    return dict(model._compile_config.config)


def functional_class():
    """The class of functional models, which `keras.Model(inputs, outputs)` makes; `keras.Model` is any model's."""
    from tf_keras.src.engine.functional import Functional

    return Functional


def nodes_by_depth(model):
    """The calls that a functional model is made of, a dict of depths to lists of nodes; outputs are at depth 0."""
    return model._nodes_by_depth


def keras_mask(tensor):
    """The mask that a layer has given with `tensor`, or None. Public properties give those of symbolic tensors only."""
    _check_that_layers_attach_masks()
    return getattr(tensor, "_keras_mask", None)


@functools.cache
def _check_that_layers_attach_masks():
    with eager_mode():
        masked = keras.layers.Masking()(tf.zeros([1, 1, 1]))
    if not hasattr(masked, "_keras_mask"):
        raise AttributeError("Keras layers do not attach masks to their outputs as _keras_mask")


def is_stateful_op(name):
    """Whether ops of that name are stateful. A `tf.Operation` tells in its `op_def`, a node of a GraphDef does not."""
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(name).is_stateful


# Keras 3


def sublayers(layer):
    """The layers that a Keras 3 layer or model has as attributes or in lists of these, a list."""
    return list(layer._layers)


def keras3_functional_class():
    """As `functional_class`, of Keras 3."""
    from keras.src.models.functional import Functional

    return Functional


def seed_states(layer):
    """The variables that hold the states of a Keras 3 layer's own random generators, a list."""
    return [generator.state for generator in layer._seed_generators]


def compute_output_spec(function, *arguments):
    """Calls a function of a Keras 3 model on KerasTensors; variables that it creates stay, and none changes.

    The public one, of layers, hides the errors of the function in a message of its own.
    """
    from keras.src import backend

    return backend.compute_output_spec(function, *arguments)


def parts_of_optimizer(optimizer):
    """The trackable parts of a Keras 3 optimizer by their names, but for the list of the variables that it updates.

    By that list TensorFlow would give the variables of a model the names that they have in the optimizer. In the list
    of its own variables the place of the learning rate is left free: a schedule takes none.
    """
    optimizer._trainable_variables  # noqa: B018, leaving it out would work without the name, too
    parts = tf.train.TrackableView.children(optimizer)
    others = {name: part for name, part in parts.items() if name != "_trainable_variables"}
    others["_variables"] = tf.Module()
    listed = [variable for variable in optimizer._variables if variable is not optimizer._learning_rate]
    for number, variable in enumerate(listed):
        setattr(others["_variables"], str(number and number + 1), variable)
    return others


def deserialized_lambdas():
    """A context manager in which Keras 3 makes layers of configurations with lambdas, those of the user's own model.

    `keras.config.enable_unsafe_deserialization` is for the whole process.
    """
    from keras.src.saving.serialization_lib import SafeModeScope

    return SafeModeScope(False)


def keras3_weight_decay_exclusions(optimizer):
    """The variables and the name patterns given to `exclude_from_weight_decay`, which the config leaves out."""
    stand_in = types.SimpleNamespace()
    type(optimizer).exclude_from_weight_decay(stand_in, var_names=["any"])
    variables, pattern = "_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern"
    if not {variables, pattern} <= vars(stand_in).keys():
        raise AttributeError(
            f"exclude_from_weight_decay() sets {sorted(vars(stand_in))}, not {variables} and {pattern}"
        )
    names = getattr(optimizer, pattern, None)
    return getattr(optimizer, variables, ()), [] if names is None else [names.pattern]


def compute_loss(model, features, labels, predictions, weights, training):
    """The loss of a Keras 3 model for a batch, as its steps compute it and add it to the metric `loss`.

    The public `compute_loss` adds nothing to the metric, and older overrides of it do not know of `training`.
    """
    loss = model._compute_loss(x=features, y=labels, y_pred=predictions, sample_weight=weights, training=training)
    examples = tf.shape(tf.nest.flatten(features)[0])[0]
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    model._loss_tracker.update_state(loss * tf.cast(replicas, loss.dtype), sample_weight=examples)
    return loss


# tf.estimator's old module paths


def fn_args(function):
    """The names of a function's arguments, a tuple: what `util.fn_args` of the old library was."""
    from tensorflow.python.util import function_utils

    return function_utils.fn_args(function)


def unwrapped_compat_module(version):
    """The module "v1" or "v2" that `tf.compat.v1` or `tf.compat.v2` wraps, and that `tensorflow._api` leads to."""
    return importlib.import_module(f"tensorflow._api.v2.compat.{version}")


# Hooks


def set_timer(hook, timer):
    """Replaces the timer of a CheckpointSaverHook, whose constructor takes only the numbers to make one of."""
    if not isinstance(hook._timer, v1.train.SecondOrStepTimer):
        raise AttributeError("CheckpointSaverHook does not keep its timer as _timer")
    hook._timer = timer


def listeners(hook):
    """The listeners of a CheckpointSaverHook, a list; nothing public tells them."""
    return list(hook._listeners)


def set_listeners(hook, listeners):
    """Replaces the listeners of a CheckpointSaverHook, which takes them in its constructor only."""
    hook._listeners  # noqa: B018, setting alone would work without the name, too
    hook._listeners = list(listeners)


def share_event_writer(directory, spelling):
    """Makes the FileWriterCache return the writer of `directory` for another spelling of its path, too."""
    cache = v1.summary.FileWriterCache
    with cache._lock:
        cache._cache[spelling] = cache.get(directory)


def last_step(hook):
    """The global step at which a StopAtStepHook stops; None until the session of one that counts from there exists."""
    return hook._last_step
