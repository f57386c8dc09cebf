"""DeviceRows: arrays on the GPUs that train, of which a step takes the rows of its batch by their numbers."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from estimator_train._engine.cluster.synchronous import spans_workers
from estimator_train._engine.keras import private_tensorflow
from estimator_train._engine.keras.dataset import is_gpu
from estimator_train._engine.types import Nest, Strategy

# The share of a GPU's free memory that rows may take. The weights and the optimizer's slots are there already; the rest
# is for the activations, gradients and scratch memory of a step.
_SHARE = 0.5


class DeviceRows:
    """Copies of arrays on each GPU of a strategy."""

    def __init__(self, strategy: Strategy, when_changed: Callable[[], None]) -> None:
        """`when_changed` is called when steps that have been traced with the copies must not be used any more."""
        self._strategy = strategy
        self._when_changed = when_changed
        self._arrays: list[np.ndarray] = []
        self._copies: list[tf.Variable] = []

    def hold(self, arrays: list[np.ndarray], weight: tf.Variable) -> bool:
        """Copies arrays (rows, ...) to the devices of `weight` if these are GPUs with room; returns whether it did."""
        if arrays is self._arrays:
            return True
        self.free()
        # GPUs have no kernels for other arrays, and the workers of a cluster have different rows.
        are_floats = all(tf.as_dtype(array.dtype).is_floating for array in arrays)
        if spans_workers(self._strategy) or not are_floats:
            return False
        devices = [each.device for each in self._strategy.experimental_local_results(weight)]
        if not all(map(is_gpu, devices)):
            return False
        size = sum(array.nbytes for array in arrays)
        if size > _SHARE * min(map(private_tensorflow.free_bytes, devices)):
            return False
        with tf.device(devices[0]), self._strategy.scope():
            self._copies = [tf.Variable(array, trainable=False) for array in arrays]
        self._arrays = arrays
        return True

    def free(self) -> None:
        if self._arrays:
            self._arrays, self._copies = [], []
            self._when_changed()

    def take(self, features: Nest) -> Nest:
        """Returns the rows with the numbers `features`, int64 of shape (batch,); a tuple has rows from the host."""
        if isinstance(features, tuple):
            return features
        return tuple(tf.gather(copy, features) for copy in self._copies)
