"""Every private name of TensorFlow, tf_keras and Keras 3 that this package uses, each behind one function.

Any release may change them. A function raises AttributeError or ImportError if its name is gone, rather than ignoring
it. tests/_engine/session/test_private_names.py calls every function and says what breaks without it; run it first on
a new TensorFlow. Private modules are imported inside the functions, so a module that moves breaks only its own
function.
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
    """Returns a context manager for eager mode inside a v1 graph, where tf.init_scope() does not suffice."""
    return tf.__internal__.eager_context.eager_mode()


def global_step_read():
    """Returns the tensor that TensorFlow's hooks fetch for the default graph's global step; creates it if needed.

    TensorFlow keeps the tensor in a collection. The function that creates it and the collection's name are private, but
    a hook reveals it.
    """
    hook = v1.train.StopAtStepHook(num_steps=1)
    hook.begin()
    return hook.before_run(None).fetches


def run_after(op, earlier):
    """Lets `op` of a v1 graph wait for the ops `earlier`; tf.control_dependencies only orders ops to be created."""
    op._add_control_inputs(earlier)


# Distribution


def reduces_by_collectives(strategy):
    """Returns whether a MirroredStrategy reduces by collective ops, its default; no public name reveals it."""
    from tensorflow.python.distribute.cross_device_ops import CollectiveAllReduce

    return isinstance(strategy.extended._cross_device_ops, CollectiveAllReduce)


def averaging_losses(strategy):
    """Returns a context manager in which v1 optimizers average the replicas' losses, as tf.estimator requested.

    Inside it, `tf.compat.v1.distribute.get_loss_reduction()` is MEAN.
    """
    return strategy._scale_loss_for_estimator_enabled()


def is_loss_averaged():
    """Returns whether an optimizer in the default graph has divided its loss by the number of replicas.

    v1 optimizers set an attribute of the graph for tf.estimator.
    """
    return v1.get_default_graph()._is_loss_scaled_by_optimizer


def set_loss_averaged():
    """Makes `is_loss_averaged` true, as a v1 optimizer does."""
    if not is_loss_averaged():  # setting it would not fail if the name were gone
        v1.get_default_graph()._is_loss_scaled_by_optimizer = True


# Feature columns and layers of v1


def feature_column_class():
    """Returns the base class of feature columns; tf.feature_column only has the functions that create them."""
    return tf.__internal__.feature_column.FeatureColumn


def dense_column_class():
    """Returns the base class of dense feature columns."""
    return tf.__internal__.feature_column.DenseColumn


def column_cache(features):
    """Returns the object that feature columns read: the dict `features` with the tensors that columns derive from it.

    The public alternative, Keras' DenseFeatures layer, ignores a variable scope's partitioner.
    """
    return tf.__internal__.feature_column.FeatureTransformationCache(features)


def column_state():
    """Returns the object that creates feature columns' trainable variables and lookup tables; see `column_cache`."""
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
    """Returns the learning rate variable of a new Keras optimizer, or its schedule, which `learning_rate` lacks."""
    return optimizer._learning_rate


def legacy_step_variable(optimizer):
    """Returns the variable of a legacy Keras optimizer's `iterations`, or None before it has one."""
    return optimizer._iterations


def set_legacy_step_variable(optimizer, variable):
    """Replaces the variable of a legacy Keras optimizer's `iterations`, which can be set only once publicly."""
    optimizer._iterations  # noqa: B018, fails if the name is gone, unlike setting it
    optimizer._iterations = variable


def hyperparameters(optimizer):
    """Returns the hyperparameters of a tf_keras optimizer that are variables, by their names.

    New optimizers have a variable for the learning rate, legacy ones for every number; schedules have none.
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
    """Excludes the values of the variables in `left_out` from checkpoints of `trackable`."""
    children, ids = trackable._trackable_children, {id(variable) for variable in left_out}
    without_value = tf.Module()

    def others(*args, **kwargs):
        found = children(*args, **kwargs)
        return {name: without_value if id(child) in ids else child for name, child in found.items()}

    trackable._trackable_children = others


@contextlib.contextmanager
def taking_all_of_checkpoints(trackable):
    """Wraps a restore of a checkpoint that has the values that `leave_out_of_checkpoints` excludes."""
    others = vars(trackable).pop("_trackable_children")
    try:
        yield
    finally:
        trackable._trackable_children = others


@contextlib.contextmanager
def without_rate_and_product(optimizer):
    """Wraps a check of a restore, and lets the learning rate and the product of a Keras optimizer be missing.

    A constant rate is a variable; a schedule has none, or another one with its current rate. Checkpoints of earlier
    versions lack the product of `multiply_momenta_once`.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of a LossScaleOptimizer
    children, own = optimizer._trackable_children, vars(optimizer).get("_trackable_children")

    def others(*args, **kwargs):
        missing = ("_learning_rate", "_current_learning_rate", "_u_product")
        return {name: child for name, child in children(*args, **kwargs).items() if name not in missing}

    optimizer._trackable_children = others
    try:
        yield
    finally:
        del optimizer._trackable_children
        if own is not None:
            optimizer._trackable_children = own


class _AlwaysEqual:
    """A number of multiplications that is always the right one, in `multiply_momenta_once`."""

    def __eq__(self, other):
        return tf.constant(True)

    def __add__(self, other):
        return self


def multiply_momenta_once(nadam):
    """Makes a tf_keras Nadam multiply its product of momenta once per step, and save the product in checkpoints.

    Keras counts the multiplications in a Python number, which is a constant in a compiled step. The update of each
    variable would multiply the product again, or a replica would not multiply it at all and divide by zero.
    """
    build, apply = nadam.build, nadam._distributed_apply_gradients_fn

    def build_with_product(variables):
        build(variables)
        nadam._u_product_counter = _AlwaysEqual()
        type(nadam)._trackable_children(nadam)["_u_product"] = nadam._u_product  # Keras keeps those of an earlier time

    def multiply(product):
        product.assign(product * _momentum(nadam, tf.cast(nadam.iterations + 1, product.dtype)))

    def apply_after_product(distribution, grads_and_vars, **kwargs):
        distribution.extended.update(nadam._u_product, multiply, group=False)
        return apply(distribution, grads_and_vars, **kwargs)

    nadam.build, nadam._distributed_apply_gradients_fn = build_with_product, apply_after_product


def complete_product(nadam):
    """Computes the product of momenta of a tf_keras Nadam if a checkpoint of an earlier version lacked it."""
    product = getattr(nadam, "_u_product", None)  # missing before the optimizer has created its variables
    if product is not None and nadam.iterations.numpy() > 0 and product.numpy() == 1:
        steps = tf.range(1, nadam.iterations + 1)
        product.assign(tf.reduce_prod(_momentum(nadam, tf.cast(steps, product.dtype))))


def _momentum(nadam, step):
    return nadam.beta_1 * (1.0 - 0.5 * tf.pow(tf.cast(0.96, step.dtype), step))


def build_legacy_optimizer(optimizer, variables):
    """Creates the variables of a legacy Keras optimizer, which has no `build` and creates them in its first update."""
    optimizer._create_all_weights(variables)


def forget_values_to_come(model):
    """Drops the values that earlier restores hold for variables that `model` has not created yet.

    A new restore replaces them, and with each value TensorFlow would keep all it knows of the old checkpoint.
    """
    for part in tf.train.TrackableView(model).descendants():
        part._deferred_dependencies.clear()


def without_slots(root):
    """Returns a stand-in for the root of a model's checkpoint whose optimizer lacks the variables of the weights."""
    children, found = tf.train.TrackableView.children, set()

    def of_optimizer(optimizer):
        parts = children(optimizer)
        found.update(parts.keys() & {"_variables"})
        listed = set(map(id, children(parts["_variables"]).values())) if "_variables" in parts else set()
        stand_in = tf.Module()
        for name, part in parts.items():
            if "_variables" in children(part):  # an optimizer in a LossScaleOptimizer, or in a dict of several
                setattr(stand_in, name, of_optimizer(part))
            elif listed.isdisjoint(map(id, children(part).values())):
                setattr(stand_in, name, part)
        return stand_in

    stand_in = tf.Module()
    for name, part in children(root).items():
        setattr(stand_in, name, of_optimizer(part) if name == "optimizer" else part)
    if not found:
        raise AttributeError(f"the optimizer {root.optimizer!r} does not keep its variables as _variables")
    return stand_in


def weight_decay_exclusions(optimizer):
    """Returns the variables and names passed to `exclude_from_weight_decay`, two lists that the config lacks."""
    stand_in = types.SimpleNamespace()  # an optimizer that excludes nothing does not have the attributes
    keras.optimizers.Optimizer.exclude_from_weight_decay(stand_in, var_names=["any"])
    variables, names = "_exclude_from_weight_decay", "_exclude_from_weight_decay_names"
    if vars(stand_in).keys() != {variables, names}:
        raise AttributeError(f"exclude_from_weight_decay() sets {sorted(vars(stand_in))}, not {variables} and {names}")
    return getattr(optimizer, variables, []), getattr(optimizer, names, [])


def copy_v1_optimizer(optimizer):
    """Returns a tf.compat.v1 optimizer with the settings of `optimizer` and no variables.

    v1 optimizers have no configuration. Their settings are all attributes except the variables and the bookkeeping of
    checkpoints, which a deep copy would include.
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
    """A context manager in which the classes of Keras' layers and models have their eager base classes.

    Creating a layer in a v1 graph switches its class, and thus all its instances, to a base class of TensorFlow 1's
    engine; creating one in eager mode switches it back. No public function does so for existing layers. If the caller
    is in a graph, the classes are switched back on exit; enter this context before eager mode.
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
    """Returns whether TensorFlow 2 behavior is on; `tf.compat.v1.disable_v2_behavior()` turns it off."""
    return tf.__internal__.tf2.enabled()


def is_initialized_by_keras(variable):
    """Returns whether Keras' session has initialized a variable of a v1 graph.

    Getting that session would initialize the variable.
    """
    return getattr(variable, "_keras_initialized", False)


def as_wrapper(function, wrapped):
    """Returns `function`, which takes any arguments, with the signature of `wrapped` for Keras.

    Keras looks for a signature with `inspect.getfullargspec`, which does not follow functools.wraps.
    """
    return tf.__internal__.decorator.make_decorator(wrapped, function)


def with_autograph(function):
    """Returns `function` converted by AutoGraph, except for TensorFlow's and Keras' own code.

    Call it outside of a `tf.function(autograph=False)`, in which nothing is converted. `tf.autograph.to_graph` would
    convert TensorFlow's and Keras' code, too, and in a `tf.function` a replica cannot reduce gradients.
    """
    return tf.__internal__.autograph.tf_convert(function, tf.__internal__.autograph.control_status_ctx())


def last_metric_results(metrics):
    """Returns a list of the last results of those Keras metrics whose `result()` has been called.

    Inside a replica, these are the results over all replicas, which the tensors themselves do not show.
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
    """A context manager that records in `found` whether a model file loaded inside it has a lambda.

    A lambda is saved as Python bytecode, and no public option refuses it in .h5 files and SavedModels. The loaders of
    all formats check this scope for each lambda before loading it.

    Args:
      refused: whether to refuse lambdas. A SavedModel's layer is then built from its graph; other files raise
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
    """Returns the variable in which a tf_keras model's fit counts steps, for callbacks such as TensorBoard."""
    return model._train_counter


def compile_arguments(model):
    """Returns a dict of a model's `compile()` arguments, without the optimizer for a model made in a v1 graph.

    `get_compile_config()` serializes them, which fails for lambdas and unregistered functions.
    """
    if hasattr(model, "_compile_weighted_metrics"):
        of_metrics = {"metrics": model._compile_metrics, "weighted_metrics": model._compile_weighted_metrics}
        return of_metrics | {"loss": model.loss, "loss_weights": model.loss_weights}
    return dict(model._compile_config.config)


def functional_class():
    """Returns the class of functional models, which `keras.Model(inputs, outputs)` creates."""
    from tf_keras.src.engine.functional import Functional

    return Functional


def nodes_by_depth(model):
    """Returns a functional model's layer calls, a dict of depths to lists of nodes; outputs are at depth 0."""
    return model._nodes_by_depth


def losses_without_inputs(layer):
    """Returns a list of a tf_keras layer's losses that are functions: weight penalties and those of `add_loss`."""
    return layer._callable_losses


def keras_mask(tensor):
    """Returns the mask that a layer attached to `tensor`, or None; public properties only work for symbolic tensors."""
    _check_that_layers_attach_masks()
    return getattr(tensor, "_keras_mask", None)


@functools.cache
def _check_that_layers_attach_masks():
    with eager_mode():
        masked = keras.layers.Masking()(tf.zeros([1, 1, 1]))
    if not hasattr(masked, "_keras_mask"):
        raise AttributeError("Keras layers do not attach masks to their outputs as _keras_mask")


def is_stateful_op(name):
    """Returns whether ops called `name` are stateful; a GraphDef's node, unlike a `tf.Operation`, has no `op_def`."""
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(name).is_stateful


def graph_around_branches(graph):
    """Returns `graph` or, if it is that of a branch of tf.cond, the graph that calls tf.cond."""
    from tensorflow.python.ops.control_flow_v2_func_graphs import CondBranchFuncGraph

    while isinstance(graph, CondBranchFuncGraph):
        graph = graph.outer_graph
    return graph


def random_generators(layers):
    """Returns a list of the random generators of tf_keras `layers` that draw other numbers in each step."""
    from tf_keras.src.backend import RandomGenerator

    found = [getattr(layer, "_random_generator", None) for layer in layers]
    generators = {id(generator): generator for generator in found if isinstance(generator, RandomGenerator)}
    return [each for each in generators.values() if each._rng_type != RandomGenerator.RNG_STATELESS]


def layer_seed(generator):
    """Returns the seed that was given to the layer of a tf_keras random generator, or None."""
    return generator._seed


def own_draws(generator):
    """Returns a function (kind, **arguments) that draws as a tf_keras random generator does, such as "uniform"."""
    if generator._built and generator._generator is not None:
        of_layer = generator._generator
        return lambda kind, **arguments: getattr(of_layer, kind)(**arguments)
    return lambda kind, **arguments: getattr(tf.random, kind)(seed=generator.make_legacy_seed(), **arguments)


@contextlib.contextmanager
def drawing_from(generators, sources):
    """Makes each of tf_keras' random generators draw from its source, with the methods of tf.random.Generator."""
    names = "_rng_type", "_generator", "_built"
    # Through vars(), because setattr would track the source as a part of the model.
    before = [{name: vars(generator)[name] for name in names if name in vars(generator)} for generator in generators]
    for generator, source in zip(generators, sources, strict=True):
        vars(generator).update(_rng_type=generator.RNG_STATEFUL, _generator=source, _built=True)
    try:
        yield
    finally:
        for generator, attributes in zip(generators, before, strict=True):
            for name in names:
                del vars(generator)[name]
            vars(generator).update(attributes)


# Keras 3


def function_arguments(metric):
    """Returns the dict of arguments that a Keras 3 MeanMetricWrapper passes to its function."""
    return metric._fn_kwargs


def sublayers(layer):
    """Returns a list of the layers that a Keras 3 layer or model has as attributes, or in lists in attributes."""
    return list(layer._layers)


def keras3_functional_class():
    """Returns the `functional_class` of Keras 3."""
    from keras.src.models.functional import Functional

    return Functional


def seed_states(layer):
    """Returns a list of the state variables of a Keras 3 layer's own random generators."""
    return [generator.state for generator in layer._seed_generators]


def compute_output_spec(function, *arguments):
    """Calls a function of a Keras 3 model on KerasTensors; it may create variables, but changes none.

    The public method of layers hides the function's errors behind its own message.
    """
    from keras.src import backend

    return backend.compute_output_spec(function, *arguments)


def parts_of_optimizer(optimizer):
    """Returns the trackable parts of a Keras 3 optimizer by name, without the list of variables that it updates.

    With that list, TensorFlow would name a model's variables by their place in the optimizer. The list of the
    optimizer's own variables lacks the learning rate, which is saved as a hyperparameter.
    """
    optimizer._trainable_variables  # noqa: B018, fails if the name is gone, unlike leaving it out
    parts = tf.train.TrackableView.children(optimizer)
    others = {name: part for name, part in parts.items() if name != "_trainable_variables"}
    others["_variables"] = tf.Module()
    for number, variable in enumerate(optimizer._variables):
        if variable is not optimizer._learning_rate:
            setattr(others["_variables"], str(number), variable)
    return others


def deserialized_lambdas():
    """Returns a context manager in which Keras 3 deserializes lambdas, for copies of the user's own model.

    `keras.config.enable_unsafe_deserialization` would affect the whole process.
    """
    from keras.src.saving.serialization_lib import SafeModeScope

    return SafeModeScope(False)


def keras3_weight_decay_exclusions(optimizer):
    """Returns the variables and name patterns passed to `exclude_from_weight_decay`, which the config lacks."""
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
    """Returns the loss of a Keras 3 model for a batch and updates the metric `loss`, like its steps.

    The public `compute_loss` does not update the metric, and older overrides have no parameter `training`.
    """
    loss = model._compute_loss(x=features, y=labels, y_pred=predictions, sample_weight=weights, training=training)
    examples = tf.shape(tf.nest.flatten(features)[0])[0]
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    model._loss_tracker.update_state(loss * tf.cast(replicas, loss.dtype), sample_weight=examples)
    return loss


# tf.estimator's old module paths


def fn_args(function):
    """Returns a tuple of the names of a function's arguments, like the old library's `util.fn_args`."""
    from tensorflow.python.util import function_utils

    return function_utils.fn_args(function)


def unwrapped_compat_module(version):
    """Returns the module "v1" or "v2" in `tensorflow._api`, which `tf.compat.v1` or `tf.compat.v2` wraps."""
    return importlib.import_module(f"tensorflow._api.v2.compat.{version}")


# Hooks


def set_timer(hook, timer):
    """Replaces the timer of a CheckpointSaverHook or StepCounterHook, whose constructor does not accept one."""
    if not isinstance(hook._timer, v1.train.SecondOrStepTimer):
        raise AttributeError(f"{type(hook).__name__} does not keep its timer as _timer")
    hook._timer = timer


def listeners(hook):
    """Returns a list of the listeners of a CheckpointSaverHook, which has no public attribute for them."""
    return list(hook._listeners)


def set_listeners(hook, listeners):
    """Replaces the listeners of a CheckpointSaverHook, which accepts them only in its constructor."""
    hook._listeners  # noqa: B018, fails if the name is gone, unlike setting it
    hook._listeners = list(listeners)


def share_event_writer(directory, spelling):
    """Makes the FileWriterCache return the writer of `directory` for another spelling of its path as well."""
    cache = v1.summary.FileWriterCache
    with cache._lock:
        cache._cache[spelling] = cache.get(directory)


def last_step(hook):
    """Returns the global step at which a StopAtStepHook stops; None for one with num_steps until it has a session."""
    return hook._last_step
