"""class_weighted: weights training examples by their class."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from estimator_train._engine.keras_forms import refuses_keras_arguments
from estimator_train._engine.remedies import UnsuitableError
from estimator_train.input_fns.changed_batches import ChangedBatches


@refuses_keras_arguments
def class_weighted(
    input_fn: Callable[..., tf.data.Dataset], weights: Sequence[float] | Mapping[int, float]
) -> ChangedBatches:
    """Returns `input_fn` with each example weighted by its class when a Keras model's Estimator trains on it.

    The loss equals that of `fit(class_weight=...)`. Evaluate and predict ignore the class weights.

        >>> examples = et.input_fns.arrays(np.zeros([3, 2]), np.int64([0, 1, 1]))
        >>> train_input_fn = et.input_fns.class_weighted(examples, [1.0, 4.0])
        >>> features, labels, weights = next(iter(train_input_fn()))
        >>> weights.numpy().tolist()
        [1.0, 4.0, 4.0]

    Args:
      input_fn: an input_fn of batches (features, labels[, weights]); labels are one-hot or class indices.
      weights: one weight per class, in the order of the class indices, or a dict of the class indices to weights, as
        for fit: {0: 1.0, 1: 4.0}.

    Raises:
      TypeError: `input_fn` is not a function.
      ValueError: `weights` has fewer than two entries, an entry is negative or not finite, or the keys are not the
        class indices from 0. From `train`: the batches have no labels, or the number of classes differs.
      tf.errors.InvalidArgumentError: from `train`, on a CPU, if a class index has no weight. On a GPU, the loss is NaN.
    """
    return ChangedBatches(input_fn, ClassWeights(_in_order(weights)))


def _in_order(weights: Sequence[float] | Mapping[int, float]) -> tuple[float, ...]:
    given = weights
    if isinstance(weights, Mapping):
        if set(weights) != set(range(len(weights))):
            raise ValueError(
                f"class weights must have a key for each class index from 0, got {list(weights)}; give other classes "
                "the weight 1"
            )
        weights = [weights[index] for index in range(len(weights))]
    try:
        numbers = () if isinstance(weights, str) else tuple(map(float, weights))
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) < 2 or not all(0 <= number < math.inf for number in numbers):
        raise ValueError(f"class weights must be two or more non-negative numbers, got {given!r}")
    return numbers


@dataclasses.dataclass(frozen=True)
class ClassWeights:
    """Adds class weights to a batch, for `class_weighted`."""

    weights: tuple[float, ...]

    def __call__(self, batch: tuple, seed: tf.Tensor) -> tuple:
        features, *rest = batch
        if not rest or not tf.is_tensor(rest[0]) or rest[0].shape.rank not in (1, 2):
            raise UnsuitableError(
                f"class weights need labels, one-hot or class indices, got {rest[0] if rest else 'none'}"
            )
        labels, *given = rest
        number = len(self.weights)
        if labels.shape.rank == 2 and labels.shape[1] not in (None, 1):
            self.check_classes(labels.shape[1])
        classes = _classes(labels)
        # On a CPU, the gather refuses other classes. On a GPU, it would give them the weight 0; a NaN ends training.
        is_weighted = (classes >= 0) & (classes < number)
        weights = tf.where(is_weighted, tf.gather(tf.constant(self.weights), classes), math.nan)
        if given:
            weights *= tf.cast(tf.reshape(given[0], [-1]), weights.dtype)  # perhaps a column of them
        return features, labels, weights

    def check_classes(self, number: int) -> None:
        if number != len(self.weights):
            raise UnsuitableError(
                f"there are {len(self.weights)} class weights and {number} classes; give one for each class"
            )


def _classes(labels: tf.Tensor) -> tf.Tensor:
    """Returns the class of each label, int64, as `fit(class_weight=...)` finds it: the nearest one if it is between."""

    def of_indices() -> tf.Tensor:
        return tf.cast(tf.round(tf.cast(tf.reshape(labels, [-1]), tf.float32)), tf.int64)

    def of_one_hot() -> tf.Tensor:
        return tf.argmax(labels, axis=1)

    if labels.shape.rank == 1 or labels.shape[1] == 1:
        return of_indices()
    if labels.shape[1] is None:
        return tf.cond(tf.shape(labels)[1] > 1, of_one_hot, of_indices)
    return of_one_hot()
