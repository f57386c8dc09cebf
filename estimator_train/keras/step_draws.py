"""StepDraws: draws the random numbers of a tf_keras model's layers from the position of the training."""

from __future__ import annotations

import contextlib
import threading

import tensorflow as tf

from estimator_train.session import private_names


class StepDraws:
    """Makes Dropout and other random layers draw the same numbers in a resumed training as in an unbroken one.

    Keras' own random ops start their sequence again in each process. Here the numbers depend only on the examples that
    were trained on before, the replica, the order of the draws in the step, and the layer's `seed` or, without one, the
    run's.

    Draws inside a `tf.while_loop`, `tf.map_fn` or the like would repeat in each iteration, so they stay Keras' own.

    Args:
      generators: the random generators of the layers, from `random_generators` of the model's adapter.
      trained_examples: an int64 variable that counts the examples of all replicas.
      run_seed: an int64 variable, the seed of the run's random changes.
    """

    def __init__(self, generators, trained_examples, run_seed):
        self._generators = generators
        self._layer_seeds = list(map(private_names.layer_seed, generators))  # now, because Keras' own draws change them
        self._trained_examples = trained_examples
        self._run_seed = run_seed
        self._trace = threading.local()  # MirroredStrategy traces each replica in a thread

    def __bool__(self):
        return bool(self._generators)

    @contextlib.contextmanager
    def installed(self):
        """Wraps the code that traces the step of all replicas."""
        pairs = zip(self._generators, self._layer_seeds, strict=True)
        sources = [_StepGenerator(generator, seed, self) for generator, seed in pairs]
        with private_names.drawing_from(self._generators, sources):
            yield

    def begin(self):
        """Marks the beginning of a replica's step in its graph."""
        self._trace.graph, self._trace.draws = tf.compat.v1.get_default_graph(), 0

    def next_seed(self, layer_seed):
        """Returns the seed of the next draw of this replica's step, int64 of shape (2,), or None inside a loop."""
        if tf.compat.v1.get_default_graph() is not getattr(self._trace, "graph", None):
            return None
        self._trace.draws += 1
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        first = self._run_seed if layer_seed is None else layer_seed
        position = tf.stack([tf.cast(first, tf.int64), tf.convert_to_tensor(self._trained_examples)])
        return tf.random.fold_in(tf.random.fold_in(position, replica), self._trace.draws)


class _StepGenerator:
    """Has those methods of tf.random.Generator that Keras' layers call."""

    def __init__(self, generator, layer_seed, draws):
        self._draws = draws
        self._layer_seed = layer_seed
        self._own = private_names.own_draws(generator)

    def uniform(self, shape, minval=0, maxval=None, dtype=tf.float32):
        return self._draw("uniform", shape=shape, minval=minval, maxval=maxval, dtype=dtype)

    def normal(self, shape, mean=0.0, stddev=1.0, dtype=tf.float32):
        return self._draw("normal", shape=shape, mean=mean, stddev=stddev, dtype=dtype)

    def truncated_normal(self, shape, mean=0.0, stddev=1.0, dtype=tf.float32):
        return self._draw("truncated_normal", shape=shape, mean=mean, stddev=stddev, dtype=dtype)

    def make_seeds(self, count=1):
        seed = self._draws.next_seed(self._layer_seed)
        if seed is None:
            return self._own("uniform", shape=[2, count], maxval=tf.int64.max, dtype=tf.int64)
        return tf.random.stateless_uniform([2, count], seed, maxval=tf.int64.max, dtype=tf.int64)

    def _draw(self, kind, **arguments):
        seed = self._draws.next_seed(self._layer_seed)
        if seed is None:
            return self._own(kind, **arguments)
        return getattr(tf.random, f"stateless_{kind}")(seed=seed, **arguments)
