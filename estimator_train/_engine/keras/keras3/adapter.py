"""The adapter for Keras 3 models on TensorFlow."""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import keras
import tensorflow as tf
from keras import Model

from estimator_train._engine.checkpoints.object_based import SavedParts, parts_by_key
from estimator_train._engine.keras import private_tensorflow
from estimator_train._engine.keras.adapter import Adapter
from estimator_train._engine.keras.keras3 import cloning, private_keras3
from estimator_train._engine.keras.keras3.cloning import all_layers
from estimator_train._engine.keras.private_keras import compile_arguments, compiled_loss, losses_in
from estimator_train._engine.keras.protocols import CustomObjects, Optimizer, Step, Trace, Variable
from estimator_train._engine.remedies import UnsuitableError
from estimator_train._engine.types import Nest, Strategy

_SEED_DISTANCE = 1_000_003  # between the seeds of two replicas

_Recorded: TypeAlias = dict[int, tuple[keras.metrics.Metric, int, tf.Tensor]]

# Settings of an optimizer with which Keras 3 synchronizes replicas in a tf.cond, which TensorFlow refuses in fit, too.
_OF_ONE_REPLICA = {
    "gradient_accumulation_steps": "set accumulate_steps={} in RunConfig instead",
    "ema_overwrite_frequency": "leave it out: evaluate, predict and exports take the averages of use_ema anyway",
}


class Keras3Adapter(Adapter):
    keras = keras
    name = "Keras 3"
    other_name = "tf_keras"
    other_package = "tf_keras"
    foreign_callback = (
        "The model is of Keras 3, but {} is of tf_keras; use the Keras 3 callback. If it derives from tf.keras' "
        "Callback, set TF_USE_LEGACY_KERAS=0 in the environment."
    )
    preprocessing = cloning.PREPROCESSING
    steps_read_metrics = False

    def _is_compiled(self, model: Model) -> bool:
        return model.compiled

    def prepare_training(self, model: Model, strategy: Strategy) -> None:
        replicas = strategy.num_replicas_in_sync
        if replicas == 1:
            return
        if self.scales_loss(model):
            raise UnsuitableError(
                f"{model.name} scales its loss, as float16 needs, which Keras 3 cannot do on {replicas} replicas "
                "(keras issue 18666); use bfloat16, or train on one replica."
            )
        for optimizer in _optimizers(model):
            for name, remedy in _OF_ONE_REPLICA.items():
                if value := getattr(optimizer, name, None):
                    raise UnsuitableError(
                        f"{model.name} has an optimizer with {name}={value}, which Keras 3 cannot use on {replicas} "
                        f"replicas; {remedy.format(value)}."
                    )

    layers_within = staticmethod(cloning.all_layers)
    _cloned = staticmethod(cloning.clone)
    clone_layer = staticmethod(cloning.clone_layer)

    def saved_parts(self, model: Model) -> SavedParts:
        root = _tree(model)
        weights = [part for part in parts_by_key(root).values() if isinstance(part, tf.Variable)]
        return SavedParts(root, weights, self.trainable_variables(model), None)

    def variables(self, model: Model) -> list[Variable]:
        return [*model.variables, *(variable for optimizer in _optimizers(model) for variable in optimizer.variables)]

    def named_weights(self, model: Model) -> list[tuple[str, tf.Variable]]:
        return [(weight.path, weight.value) for weight in model.weights]

    def trainable_variables(self, model: Model) -> list[tf.Variable]:
        return [variable.value for variable in model.trainable_variables]

    def build_slots(self, model: Model) -> None:
        optimizer = model.optimizer
        # Building a LossScaleOptimizer again would replace its variables.
        if optimizer is not None and not optimizer.built and model.trainable_variables:
            optimizer.build(model.trainable_variables)

    def must_build_slots(self, model: Model) -> bool:
        return model.optimizer is not None and model.optimizer.built

    def build_variables(self, model: Model, strategy: Strategy, trace: Trace, step: str) -> None:
        is_own = self.is_own_step(model, "test_step") and self.is_own_step(model, step)
        if not is_own and strategy.num_replicas_in_sync == 1:
            return  # the user's step creates them, which only fails on several replicas
        symbols = _symbols(trace)
        with strategy.scope():
            if symbols is not None:
                self._build_layers_and_metrics(model, symbols, is_own)
            if is_own and step == "train_step":
                self.build_slots(model)
        if not is_own and step == "train_step":
            _build_updated_slots(model, strategy, trace)

    def _build_layers_and_metrics(self, model: Model, data: Nest, is_own: bool) -> None:
        if is_own or (self.is_own_step(model, "test_step") and model.loss is not None):
            private_keras3.compute_output_spec(model.test_step, data)
        elif type(model).call is not keras.Model.call:
            features, labels, weights = keras.utils.unpack_x_y_sample_weight(data)
            predictions = private_keras3.compute_output_spec(model, features)
            if labels is not None:
                _build_compiled(model, features, labels, predictions, weights)

    def hyperparameters(self, model: Model) -> dict[str, tf.Variable]:
        if model.optimizer is None:
            return {}
        rate = cloning.learning_rate_or_schedule(getattr(model.optimizer, "inner_optimizer", model.optimizer))
        return {"learning_rate": rate.value} if isinstance(rate, keras.Variable) else {}

    def finalize_state(self, model: Model) -> None:
        for layer in _normalizations(model):
            layer.finalize_state()  # it computes with tensors derived from its variables
        self.finish_variables(model, model.variables)

    def finish_variables(self, model: Model, made: Iterable[Variable]) -> None:
        """Gives the generators `made` a seed for each replica: with one, Dropout would draw the same mask on all."""
        made_ids = set(map(id, made))
        strategy = tf.distribute.get_strategy()
        if strategy.num_replicas_in_sync == 1:
            return
        distances = strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant([context.replica_id_in_sync_group * _SEED_DISTANCE, 0], tf.int64)
        )
        for state in [state for layer in all_layers(model) for state in _seed_states(layer)]:
            if id(state) in made_ids:
                replicas = map(strategy.experimental_local_results, (state.value, distances))
                for own_state, distance in zip(*replicas, strict=True):
                    own_state.assign_add(tf.cast(distance, own_state.dtype))

    def statistics(self, model: Model) -> list[bytes]:
        return [weight.numpy().tobytes() for layer in _normalizations(model) for weight in layer.weights]

    def inputs(self, model: Model) -> dict[str, Any]:
        inputs = getattr(model, "inputs", None) or ()
        return {tensor.name: tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in inputs}

    def output_names(self, model: Model) -> list[str] | None:
        if isinstance(model, keras.Sequential) and model.layers:
            return [model.layers[-1].name]
        names = super().output_names(model)
        # A layer that gives several outputs has its name there several times; tf_keras numbers them like this.
        return names and [_numbered(name, names[:index].count(name)) for index, name in enumerate(names)]

    def run_step(self, model: Model, strategy: Strategy, step: Step, batch: Nest) -> tuple[Nest, ...]:
        # Inside a replica, Keras 3's metrics return only that replica's result, so the overall result is computed
        # outside. Other values in the logs are averaged, as in Keras' fit.
        if strategy.num_replicas_in_sync == 1:
            return strategy.run(step, args=(batch,))
        with _recorded_results(model.metrics) as recorded, _scalars_as_means(model):
            logs, *others = strategy.run(step, args=(batch,))
        parts_of = functools.cache(lambda metric: tf.nest.flatten(_tensors(metric.result())))

        def reduced(value: tf.Tensor) -> tf.Tensor:
            metric, index, _ = recorded.get(id(strategy.experimental_local_results(value)[0]), (None, 0, None))
            if metric is None:
                return strategy.reduce(tf.distribute.ReduceOp.MEAN, value, axis=None)
            return parts_of(metric)[index]

        return {name: reduced(value) for name, value in logs.items()}, *others

    def _compute_loss(self, model: Model, data: Nest, predictions: Nest, training: bool) -> tf.Tensor:
        features, labels, weights = self._unpacked(data)
        loss = private_keras3.compute_loss(model, features, labels, predictions, weights, training)
        examples = tf.shape(tf.nest.flatten(features)[0])[0]
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        private_keras3.loss_metric(model).update_state(loss * tf.cast(replicas, loss.dtype), sample_weight=examples)
        return loss

    def _scaled(self, loss: tf.Tensor, model: Model) -> tf.Tensor:
        return model.optimizer.scale_loss(loss)

    def learning_rate(self, optimizer: Optimizer | None) -> tf.Tensor | None:
        if optimizer is None:
            return None
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        rate = cloning.learning_rate_or_schedule(optimizer)
        if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
            rate = rate(optimizer.iterations - 1)
        if callable(rate):
            rate = rate()
        return tf.cast(rate, tf.float32)

    def load_model(self, path: str, custom_objects: CustomObjects | None, safe_mode: bool) -> tuple[Model | None, bool]:
        try:
            return keras.models.load_model(path, custom_objects=custom_objects), False
        except ValueError as error:
            if cloning.REFUSES_LAMBDA not in str(error):
                raise
        if safe_mode:
            return None, True
        return keras.models.load_model(path, custom_objects=custom_objects, safe_mode=False), True


ADAPTER = Keras3Adapter()


def _tensors(result: Nest) -> Nest:
    """Returns a metric's result as tensors; it may be a variable."""
    return tf.nest.map_structure(tf.convert_to_tensor, result)


def _numbered(name: str, number: int) -> str:
    return f"{name}_{number}" if number else name


def _tree(model: Model) -> tf.Module:
    """Returns a tree of the model's TensorFlow variables with the names that they have in the model.

    Keras 3's variables wrap TensorFlow's; asynchronous checkpoints and SavedModels do not support these wrappers, and
    TensorFlow finds neither layers in lists nor the state of random generators. `tf.train.Checkpoint(model).read(path)`
    can read a checkpoint of the tree. Variables that TensorFlow does not find are below `estimator_untracked`.
    """
    found: set[int] = set()
    nodes: dict[int, tf.Module] = {}
    alive = []

    def copied(part: Any) -> Any:
        if isinstance(part, keras.Variable):
            found.add(id(part.value))
            return part.value
        if isinstance(part, (tf.Variable, tf.saved_model.experimental.TrackableResource, tf.saved_model.Asset)):
            return part
        if id(part) not in nodes:
            children = tf.train.TrackableView.children(part)
            if isinstance(part, keras.optimizers.Optimizer):
                children = _parts_of_optimizer(part)
            alive.append(children)  # the id of a deleted object may be reused
            node = nodes[id(part)] = tf.Module()
            for name, child in children.items():
                setattr(node, name, copied(child))
        return nodes[id(part)]

    root = copied(model)
    root.estimator_untracked = _without(found, model, set())
    return root


def _parts_of_optimizer(optimizer: keras.optimizers.Optimizer) -> dict[str, object]:
    """Returns the parts of an optimizer to save by name, without the learning rate, which is a hyperparameter."""
    rate = cloning.learning_rate_or_schedule(optimizer)
    listed = tf.Module()
    for number, variable in enumerate(private_keras3.optimizer_variables(optimizer)):
        if variable is not rate:
            setattr(listed, str(number), variable)
    return private_keras3.parts_of_optimizer(optimizer) | {"_variables": listed}


def _without(found: set[int], layer: keras.layers.Layer, seen: set[int]) -> tf.Module:
    """Returns a tree of the variables of a layer and its sublayers, but those `seen`, whose ids are not in `found`."""
    # Names do not depend on which layers have already created their variables.
    tree = tf.Module()
    seen.add(id(layer))
    sublayers = private_keras3.sublayers(layer)
    inherited = {id(weight) for sublayer in sublayers for weight in sublayer.weights}
    own = [weight for weight in layer.weights if id(weight) not in inherited]
    for name, variables in (("weight", own), ("seed", _seed_states(layer))):
        for index, variable in enumerate(variables):
            if id(variable.value) not in found:
                setattr(tree, f"{name}{index}", variable.value)
    for index, sublayer in enumerate(sublayers):
        if id(sublayer) not in seen:
            setattr(tree, f"layer{index}", _without(found, sublayer, seen))
    return tree


def _seed_states(layer: keras.layers.Layer) -> list[keras.Variable]:
    draws = len(layer.variables) > len(layer.weights)  # of random generators, or of metrics
    return private_keras3.seed_states(layer) if draws else []


def _optimizers(model: Model) -> list[keras.optimizers.Optimizer]:
    return [part for part in vars(model).values() if isinstance(part, keras.optimizers.Optimizer)]


def _normalizations(model: Model) -> list[keras.layers.Layer]:
    return [layer for layer in all_layers(model) if isinstance(layer, keras.layers.Normalization)]


def _build_compiled(model: Model, features: Nest, labels: Nest, predictions: Nest, weights: Nest) -> None:
    arguments = compile_arguments(model)
    if arguments.get("metrics") or arguments.get("weighted_metrics"):
        private_keras3.compute_output_spec(model.compute_metrics, features, labels, predictions, weights)
    if model.loss is not None and tf.nest.is_nested(predictions):  # only losses of several outputs have variables
        loss = functools.partial(private_keras3.compute_loss, model)
        private_keras3.compute_output_spec(loss, features, labels, predictions, weights, False)


def _build_updated_slots(model: Model, strategy: Strategy, trace: Trace) -> None:
    optimizers = _optimizers(model)
    train_step = private_tensorflow.with_autograph(model.train_step)
    updated: dict[keras.optimizers.Optimizer, list[keras.Variable]] = {}

    def record(optimizer: keras.optimizers.Optimizer, grads: Nest, trainable_variables: list | None = None) -> None:
        updated[optimizer] = list(trainable_variables or ())

    for optimizer in optimizers:
        optimizer.apply = functools.partial(record, optimizer)
    try:
        trace(train_step)
    finally:
        for optimizer in optimizers:
            del optimizer.apply
    with strategy.scope():
        for optimizer, variables in updated.items():
            optimizer.build(variables)


def _symbols(trace: Trace) -> Nest:
    """Returns a replica's batch in Keras' form as KerasTensors, or None if Keras cannot represent it."""
    found: list[Nest] = []
    trace(found.append)
    tensors = [part for part in tf.nest.flatten(found[0]) if part is not None]
    if not all(isinstance(tensor, tf.Tensor) and tensor.shape.rank is not None for tensor in tensors):
        return None
    return tf.nest.map_structure(
        lambda tensor: None if tensor is None else keras.KerasTensor(tensor.shape, tensor.dtype.name), found[0]
    )


@contextlib.contextmanager
def _scalars_as_means(model: Model) -> Iterator[None]:
    """Makes the step in the block take the scalar that a loss returns for the mean of a replica's batch.

    Keras 3 divides means by the number of replicas, as their sum needs, but not scalars. It multiplies what it reports
    by that number again, in any case. So gradients and losses would grow with it, unlike those of tf_keras.
    """
    compiled = compiled_loss(model)
    if compiled is None:
        yield
        return
    changed: dict[int, keras.Loss] = {}

    def change() -> None:
        for loss in losses_in(compiled):
            if id(loss) not in changed:
                loss.call = functools.partial(_with_axis, loss, loss.call)
                changed[id(loss)] = loss

    def build(own_build: Callable[..., None], *arguments: Nest) -> None:
        own_build(*arguments)
        change()

    if compiled.built:
        change()
    else:
        compiled.build = functools.partial(build, compiled.build)
    try:
        yield
    finally:
        vars(compiled).pop("build", None)
        for loss in changed.values():
            del loss.call


def _with_axis(loss: keras.Loss, call: Callable[[Nest, Nest], tf.Tensor], labels: Nest, predictions: Nest) -> tf.Tensor:
    """Calls a loss; returns a scalar that is to be averaged as a vector of one value, which Keras does average."""
    value = tf.convert_to_tensor(call(labels, predictions))
    if value.shape.rank != 0 or loss.reduction in ("sum", "none", None):
        return value
    _say_scalar(loss.name, tf.distribute.get_strategy().num_replicas_in_sync)
    return value[tf.newaxis]


@functools.cache  # a step is traced on each replica
def _say_scalar(name: str, replicas: int) -> None:
    tf.get_logger().warning(
        "The loss %s returns a scalar, which counts as the mean of a replica's batch; in Keras 3's fit, it would count "
        "%d times on %d replicas. If it is divided by the size of the global batch, let it return a value per example.",
        name,
        replicas,
        replicas,
    )


@contextlib.contextmanager
def _recorded_results(metrics: Iterable[keras.metrics.Metric]) -> Iterator[_Recorded]:
    """Records the metrics' results inside the block: by their tensors' ids, (metric, index, tensor, to keep the id)."""
    metrics = list({id(metric): metric for metric in metrics}.values())
    recorded: _Recorded = {}

    def record(metric: keras.metrics.Metric, result: Callable[[], Nest]) -> Nest:
        value = _tensors(result())
        recorded.update({id(part): (metric, index, part) for index, part in enumerate(tf.nest.flatten(value))})
        return value

    for metric in metrics:
        metric.result = functools.partial(record, metric, metric.result)
    try:
        yield recorded
    finally:
        for metric in metrics:
            del metric.result
