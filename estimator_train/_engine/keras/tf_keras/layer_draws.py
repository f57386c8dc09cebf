"""LayerDraws: draws the random numbers of a tf_keras model's layers from the position of the training."""

import contextlib
import functools
import threading
from collections.abc import Iterator

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.keras import private_tensorflow
from estimator_train._engine.keras.step_draws import StepDraws, seed_at
from estimator_train._engine.keras.tf_keras import private_tf_keras
from estimator_train._engine.keras.tf_keras.cloning import layers_within


class LayerDraws(StepDraws):
    """Makes Dropout and other random layers draw the same numbers in a resumed training as in an unbroken one.

    Keras' own random ops start their sequence again in each process. Here the numbers depend only on the position (see
    `position`), the order of the draws in the step, and the layer's `seed`, if it has one, instead of the run's.

    Draws in the body of a `tf.while_loop`, `tf.map_fn` or the like stay Keras' own, because they would repeat in each
    iteration, and so do those in a `tf.function` that the model calls, because it may be called several times.
    """

    def __init__(self, model: keras.Model, trained_examples: tf.Variable, run_seed: tf.Variable) -> None:
        super().__init__(trained_examples, run_seed)
        self._model = model
        self._layer_seeds = {}  # by random generator
        self._trace = threading.local()  # MirroredStrategy traces each replica in a thread
        self._generators()

    def _generators(self) -> list[object]:
        """Returns the random generators of the layers that exist, and keeps their seeds, which Keras' draws advance."""
        generators = private_tf_keras.random_generators(layers_within(self._model))
        for generator in generators:
            self._layer_seeds.setdefault(generator, private_tf_keras.layer_seed(generator))
        return generators

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        generators = self._generators()
        sources = [_StepGenerator(generator, self._layer_seeds[generator], self) for generator in generators]
        with private_tf_keras.drawing_from(generators, sources) if generators else contextlib.nullcontext():
            yield

    def begin(self, position: tf.Tensor) -> None:
        if not self._layer_seeds:
            return  # no layer draws
        self._trace.graph = private_tensorflow.graph_around_branches(tf.compat.v1.get_default_graph())
        self._trace.position = position
        self._trace.run_seed = seed_at(position)
        self._trace.draws = 0

    def next_seed(self, layer_seed: int | None) -> tf.Tensor | None:
        """Returns the seed of the next draw in this replica's step, int64 of shape (2,); None if Keras must draw."""
        graph = private_tensorflow.graph_around_branches(tf.compat.v1.get_default_graph())
        if graph is not getattr(self._trace, "graph", None):
            return None
        self._trace.draws += 1
        seed = self._trace.run_seed
        if layer_seed is not None:
            seed = seed_at(tf.concat([[tf.cast(layer_seed, tf.int64)], self._trace.position[1:]], axis=0))
        return tf.random.fold_in(seed, tf.constant(self._trace.draws, tf.int64))


class _StepGenerator:
    """Implements the methods of tf.random.Generator that Keras' layers call."""

    def __init__(self, generator: object, layer_seed: int | None, draws: LayerDraws) -> None:
        self._draws = draws
        self._layer_seed = layer_seed
        self._own = private_tf_keras.own_draws(generator)

    def make_seeds(self, count: int = 1) -> tf.Tensor:
        return self.uniform(shape=[2, count], maxval=tf.int64.max, dtype=tf.int64)

    def _draw(self, kind: str, **arguments: object) -> tf.Tensor:
        seed = self._draws.next_seed(self._layer_seed)
        if seed is None:
            return self._own(kind, **arguments)
        return getattr(tf.random, f"stateless_{kind}")(seed=seed, **arguments)

    # Keras names all arguments.
    uniform = functools.partialmethod(_draw, "uniform")
    normal = functools.partialmethod(_draw, "normal")
    truncated_normal = functools.partialmethod(_draw, "truncated_normal")
