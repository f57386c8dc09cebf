"""Private names of tf_keras that this package uses, each behind a function."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.libraries import private_names_of
from estimator_train._engine.types import Nest, Strategy


@private_names_of("tf_keras")
def hyperparameters(optimizer: keras.optimizers.Optimizer) -> dict[str, tf.Variable]:
    """Returns the hyperparameters that are variables: a new optimizer's learning rate, all numbers of a legacy one."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of a LossScaleOptimizer
    if isinstance(optimizer, keras.optimizers.legacy.Optimizer):
        optimizer.learning_rate  # noqa: B018, creates them
        kept = optimizer._hyper
    elif isinstance(optimizer, keras.optimizers.Optimizer):
        kept = {"learning_rate": optimizer._learning_rate}
    else:
        kept = {}
    return {name: value for name, value in kept.items() if hasattr(value, "assign")}


@private_names_of("tf_keras")
def save_all_parts(optimizer: keras.optimizers.Optimizer) -> None:
    """Lets checkpoints have all parts of a new optimizer; Keras lists them once, which a restore does too early."""
    # This dict grows. Keras' own differs only for the shards of parameter servers, which train no Keras models.
    vars(optimizer)["_coalesced_children"] = optimizer._unconditional_dependency_names


class _AlwaysEqual:
    """A number of multiplications that is always the right one, in `multiply_momenta_once`."""

    def __eq__(self, other: object) -> tf.Tensor:
        return tf.constant(True)

    def __add__(self, other: object) -> "_AlwaysEqual":
        return self


@private_names_of("tf_keras")
def multiply_momenta_once(nadam: keras.optimizers.Nadam) -> None:
    """Makes a tf_keras Nadam multiply its product of momenta once per step."""
    # Keras counts the multiplications in a Python number, which is a constant in a compiled step. The update of each
    # variable would multiply the product again, or a replica would not multiply it at all and divide by zero.
    build, apply = nadam.build, nadam._distributed_apply_gradients_fn

    def build_with_product(variables: list[tf.Variable]) -> None:
        build(variables)
        nadam._u_product_counter = _AlwaysEqual()

    def multiply(product: tf.Variable) -> None:
        product.assign(product * _momentum(nadam, tf.cast(nadam.iterations + 1, product.dtype)))

    def apply_after_product(distribution: Strategy, grads_and_vars: Iterable[tuple], **kwargs: object) -> object:
        distribution.extended.update(nadam._u_product, multiply, group=False)
        return apply(distribution, grads_and_vars, **kwargs)

    nadam.build, nadam._distributed_apply_gradients_fn = build_with_product, apply_after_product


@private_names_of("tf_keras")
def complete_product(nadam: keras.optimizers.Nadam) -> None:
    """Computes the product of momenta of a tf_keras Nadam if a checkpoint of an earlier version lacked it."""
    product = getattr(nadam, "_u_product", None)  # missing before the optimizer has created its variables
    if product is not None and nadam.iterations.numpy() > 0 and product.numpy() == 1:
        steps = tf.range(1, nadam.iterations + 1)
        product.assign(tf.reduce_prod(_momentum(nadam, tf.cast(steps, product.dtype))))


def _momentum(nadam: keras.optimizers.Nadam, step: tf.Tensor) -> tf.Tensor:
    return nadam.beta_1 * (1.0 - 0.5 * tf.pow(tf.cast(0.96, step.dtype), step))


@private_names_of("tf_keras")
def weight_decay_exclusions(optimizer: keras.optimizers.Optimizer) -> tuple[list[tf.Variable], list[str]]:
    """Returns the variables and names passed to `exclude_from_weight_decay`, two lists that the config lacks."""
    variables = getattr(optimizer, "_exclude_from_weight_decay", [])
    return variables, getattr(optimizer, "_exclude_from_weight_decay_names", [])


@contextlib.contextmanager
@private_names_of("tf_keras")
def eager_classes() -> Iterator[None]:
    """A context manager, to enter before eager mode, in which Keras' layers and models have eager base classes."""
    # Creating a layer in a v1 graph switches its class, and thus all its instances, to a base class of TensorFlow 1's
    # engine; creating one in eager mode switches it back. No public function does so for existing layers.
    from tf_keras.src.engine import base_layer, base_layer_v1, training, training_v1
    from tf_keras.src.utils.version_utils import swap_class

    is_in_graph = not tf.executing_eagerly()
    graph_classes = [*base_layer_v1.Layer.__subclasses__(), *training_v1.Model.__subclasses__()]

    def swap(to_eager: bool) -> None:
        for kind in graph_classes:
            swap_class(kind, training.Model, training_v1.Model, to_eager)
            swap_class(kind, base_layer.Layer, base_layer_v1.Layer, to_eager)

    swap(True)
    try:
        yield
    finally:
        if is_in_graph:
            swap(False)


@private_names_of("tf_keras")
def is_initialized_by_keras(variable: tf.Variable) -> bool:
    """Returns whether Keras' session has initialized a variable of a v1 graph; getting that session would do so."""
    return getattr(variable, "_keras_initialized", False)


@private_names_of("tf_keras")
def last_metric_results(metrics: Iterable[keras.metrics.Metric]) -> list[Nest]:
    """Returns metrics' last results, in a replica those over all replicas, which the tensors do not show."""
    return [metric._call_result for metric in metrics if hasattr(metric, "_call_result")]


class LoadedLambdas:
    """Records in `found` whether a model file loaded in its `scope` has a lambda, which may be `refused`.

    A lambda is saved as Python bytecode, and no public option refuses it in .h5 files and SavedModels. The loaders of
    all formats ask the scope for each lambda before loading it. If it is refused, a SavedModel's layer is built from
    its graph, and other files raise ValueError.
    """

    def __init__(self, refused: bool) -> None:
        self.found = False
        self._refused = refused

    def __bool__(self) -> bool:
        self.found = True
        return self._refused

    @private_names_of("tf_keras")
    def scope(self) -> contextlib.AbstractContextManager[None]:
        from tf_keras.src.saving.serialization_lib import SafeModeScope

        return SafeModeScope(self)


@private_names_of("tf_keras")
def train_counter(model: keras.Model) -> tf.Variable:
    """Returns the variable in which a tf_keras model's fit counts steps, for callbacks such as TensorBoard."""
    return model._train_counter


@private_names_of("tf_keras")
def functional_class() -> type:
    """Returns the class of functional models, which `keras.Model(inputs, outputs)` creates."""
    from tf_keras.src.engine.functional import Functional

    return Functional


@private_names_of("tf_keras")
def nodes_by_depth(model: keras.Model) -> dict[int, list[Any]]:
    """Returns a functional model's layer calls, a dict of depths to lists of nodes; outputs are at depth 0."""
    return model._nodes_by_depth


@private_names_of("tf_keras")
def losses_without_inputs(layer: keras.layers.Layer) -> list[Callable]:
    """Returns a list of a tf_keras layer's losses that are functions: weight penalties and those of `add_loss`."""
    return layer._callable_losses


@private_names_of("tf_keras")
def random_generators(layers: Iterable[keras.layers.Layer]) -> list[Any]:
    """Returns a list of the random generators of tf_keras `layers` that draw other numbers in each step."""
    from tf_keras.src.backend import RandomGenerator

    found = [getattr(layer, "_random_generator", None) for layer in layers]
    generators = {id(generator): generator for generator in found if isinstance(generator, RandomGenerator)}
    return [each for each in generators.values() if each._rng_type != RandomGenerator.RNG_STATELESS]


@private_names_of("tf_keras")
def layer_seed(generator: Any) -> int | None:
    """Returns the seed that was given to the layer of a tf_keras random generator, or None."""
    return generator._seed


@private_names_of("tf_keras")
def own_draws(generator: Any) -> Callable:
    """Returns a function (kind, **arguments) that draws as a tf_keras random generator does, such as "uniform"."""
    if generator._built and generator._generator is not None:
        own = generator._generator
        return lambda kind, **arguments: getattr(own, kind)(**arguments)
    return lambda kind, **arguments: getattr(tf.random, kind)(seed=generator.make_legacy_seed(), **arguments)


@contextlib.contextmanager
@private_names_of("tf_keras")
def drawing_from(generators: list[Any], sources: Sequence[object]) -> Iterator[None]:
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
