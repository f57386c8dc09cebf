"""The old module `head.sequential_head`: a head for sequences of different lengths."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimator_train._engine.graph.optimizers import Optimizer
from estimator_train._engine.model_fn import EstimatorSpec, ModeKeys
from estimator_train.heads import Head, MultiHead


class SequentialHeadWrapper(Head):
    """Applies a head to every step of sequences; loss and metrics ignore the steps beyond the end of a sequence.

        head = SequentialHeadWrapper(BinaryClassHead(), sequence_length_mask="mask")
        features["mask"] = tf.sequence_mask(lengths)
        return head.create_estimator_spec(features, mode, logits, labels, optimizer=optimizer, ...)

    Logits are [batch, steps, logits_dimension]; labels are [batch, steps], dense or sparse; the mask is a feature, bool
    or int [batch, steps]. In PREDICT, predictions cover all steps and include the mask. In TRAIN and EVAL, they cover
    the valid steps only, flattened. `feature_columns` are the keys of other features that the head uses in each step,
    such as weights.
    """

    def __init__(
        self,
        static_head: Head,
        sequence_length_mask: str = "sequence_length_mask",
        feature_columns: str | Iterable[str] | None = None,
    ) -> None:
        if isinstance(static_head, MultiHead):
            raise ValueError("MultiHead is not supported with SequentialHeadWrapper.")
        if not isinstance(sequence_length_mask, str):
            raise TypeError(f"sequence_mask column must be a string, given: {sequence_length_mask!r}")
        self._head = static_head
        self._mask_key = sequence_length_mask
        self._columns = _keys(feature_columns or ())

    @property
    def static_head(self) -> Head:
        return self._head

    @property
    def input_sequence_mask_key(self) -> str:
        return self._mask_key

    @property
    def name(self) -> str | None:
        return self._head.name

    @property
    def logits_dimension(self) -> int:
        return self._head.logits_dimension

    @property
    def loss_reduction(self) -> str:
        return self._head.loss_reduction

    # The overrides below have the hints and docstrings of `Head`.

    def loss(self, labels, logits, features=None, mode=None, regularization_losses=None):
        labels, logits, features = self._flatten(labels, logits, features)
        return self._head.loss(labels, logits, features, mode, regularization_losses)

    def predictions(self, logits, keys=None):
        return self._head.predictions(logits, keys)

    def metrics(self, regularization_losses=None):
        return self._head.metrics(regularization_losses)

    def update_metrics(self, eval_metrics, features, logits, labels, regularization_losses=None):
        labels, logits, features = self._flatten(labels, logits, features)
        return self._head.update_metrics(eval_metrics, features, logits, labels, regularization_losses)

    def create_estimator_spec(
        self,
        features: dict[str, Any],
        mode: str,
        logits: tf.Tensor,
        labels: Any = None,
        optimizer: Optimizer | None = None,
        trainable_variables: Sequence[tf.Variable] | None = None,
        train_op_fn: Callable[[tf.Tensor], tf.Operation | tf.Tensor] | None = None,
        update_ops: Sequence[tf.Operation | tf.Tensor] | None = None,
        regularization_losses: Sequence[tf.Tensor] | None = None,
    ) -> EstimatorSpec:
        if mode == ModeKeys.PREDICT:
            spec = self._head.create_estimator_spec(features, mode, logits)
            return spec._replace(predictions=spec.predictions | {self._mask_key: self._mask(features)})
        labels, logits, features = self._flatten(labels, logits, features)
        training = optimizer, trainable_variables, train_op_fn, update_ops, regularization_losses
        return self._head.create_estimator_spec(features, mode, logits, labels, *training)

    def _flatten(self, labels, logits, features):
        """Returns all three with valid steps flattened into one dimension, and only the features that the head uses."""
        mask = tf.cast(self._mask(features), tf.bool)
        named = {column: _steps(features[column], mask) for column in self._columns}
        return _steps(labels, mask), _steps(logits, mask), named

    def _mask(self, features):
        if self._mask_key not in features:
            raise ValueError(
                f"The provided sequence_length_mask key `{self._mask_key}` should be included in the features "
                f"dictionary, but was not found. Found keys: {list(features)}."
            )
        return features[self._mask_key]


def _keys(columns):
    if isinstance(columns, str):
        return (columns,)
    if not isinstance(columns, Iterable) or not all(isinstance(column, str) for column in columns):
        raise TypeError(f"feature_columns must be either a string or an iterable of strings, got {columns!r}")
    return tuple(columns)


def _steps(tensor, mask):
    if tensor is None:
        return None
    if isinstance(tensor, tf.SparseTensor):
        default = "" if tensor.dtype == tf.string else 0
        shape = tf.concat([tf.shape(mask, tf.int64), tensor.dense_shape[2:]], axis=0)
        tensor = tf.sparse.to_dense(tf.sparse.reset_shape(tensor, shape), default)
    return tf.boolean_mask(tensor, mask)
