"""Head: the interface of heads, and the EstimatorSpec that is built through it."""

import abc
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.graph import optimizers, private_tensorflow
from estimator_train._engine.model_fn import EstimatorSpec, ModeKeys
from estimator_train.export import ExportOutput, PredictOutput
from estimator_train.heads import checks
from estimator_train.heads.keys import MetricKeys

v1 = tf.compat.v1

# By the keys of PredictionKeys; those of a MultiHead are pairs (head name, key).
Predictions: TypeAlias = dict[Any, tf.Tensor]
DEFAULT_SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


class Head(abc.ABC):
    """Computes predictions, loss, metrics and an `EstimatorSpec` from logits.

    Logits are float tensors of shape [D0, D1, ... DN, logits_dimension], usually [batch, logits_dimension]. A head
    keeps a model_fn short:

        def model_fn(features, labels, mode):
            logits = tf.compat.v1.layers.dense(features["x"], head.logits_dimension)
            return head.create_estimator_spec(features, mode, logits, labels, tf.compat.v1.train.AdamOptimizer())

    A head of your own defines `name`, `logits_dimension` and `loss_reduction`, as attributes or properties, and four
    methods, as in docs/api/heads.md. It also works in `DNNEstimator` and the other estimators that take a head.
    """

    _training_scope = "training"  # of the optimizer's variables in checkpoints

    @property
    @abc.abstractmethod
    def name(self) -> str | None:
        """The name in a `MultiHead`, which the keys of the head's metrics then end with, as in "mae/NAME"; or None."""

    @property
    @abc.abstractmethod
    def logits_dimension(self) -> int:
        """The size of the logits' last dimension."""

    @property
    @abc.abstractmethod
    def loss_reduction(self) -> str:
        """How the losses of a batch are reduced to one: "sum" or "sum_over_batch_size"."""

    @abc.abstractmethod
    def loss(
        self,
        labels: Any,
        logits: Any,
        features: dict[str, Any] | None = None,
        mode: str | None = None,
        regularization_losses: Sequence[tf.Tensor] | None = None,
    ) -> tf.Tensor:
        """Returns the loss of a batch, a scalar tensor that includes the sum of the scalars `regularization_losses`."""

    @abc.abstractmethod
    def predictions(self, logits: Any, keys: Iterable[Any] | None = None) -> dict[Any, tf.Tensor]:
        """Returns a dict of str to tensors [batch, ...]: the predictions named by `keys`, or all."""

    @abc.abstractmethod
    def metrics(self, regularization_losses: Sequence[tf.Tensor] | None = None) -> dict[str, keras.metrics.Metric]:
        """Returns a dict of str to new metrics of tf_keras."""

    @abc.abstractmethod
    def update_metrics(
        self,
        eval_metrics: dict[str, keras.metrics.Metric],
        features: dict[str, Any],
        logits: Any,
        labels: Any,
        regularization_losses: Sequence[tf.Tensor] | None = None,
    ) -> dict[str, keras.metrics.Metric]:
        """Updates `eval_metrics`, a dict that `metrics` returned, with a batch, and returns it."""

    def create_estimator_spec(
        self,
        features: dict[str, Any],
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: optimizers.Optimizer | None = None,
        trainable_variables: Sequence[tf.Variable] | None = None,
        train_op_fn: Callable[[tf.Tensor], tf.Operation | tf.Tensor] | None = None,
        update_ops: Sequence[tf.Operation | tf.Tensor] | None = None,
        regularization_losses: Sequence[tf.Tensor] | None = None,
    ) -> EstimatorSpec:
        """Returns the `EstimatorSpec` for a model_fn to return.

        Args:
          features: dict of str to tensors; example weights are taken from it.
          mode: one of `ModeKeys`.
          logits: as described for the class.
          labels: as the subclass requires; not needed in PREDICT.
          optimizer: a v1 or tf_keras optimizer; only used in TRAIN.
          trainable_variables: list or tuple of the variables to train; None means all, for v1 optimizers only. A Keras
            optimizer needs them, such as `tf.compat.v1.trainable_variables()`.
          train_op_fn: function of the loss that returns the train_op. TRAIN needs either this or `optimizer`.
          update_ops: list or tuple of ops to run in each training step, such as batch normalization's.
          regularization_losses: list of scalar tensors.

        Raises:
          ValueError: If labels, weights and logits do not match, if not exactly one of `optimizer` and `train_op_fn`
            is given, or if a method of the subclass returns something else than it should.
        """
        if mode != ModeKeys.TRAIN:
            optimizers.forget(optimizer)
        with v1.name_scope(self.name, "head"):
            predictions = self.predictions(logits)
            if mode == ModeKeys.PREDICT:
                return EstimatorSpec(mode, predictions, export_outputs=self._serving_outputs(predictions))
            loss = self.loss(labels, logits, features, mode, regularization_losses)
            shape = tf.convert_to_tensor(loss).shape
            if shape.rank and shape.num_elements() != 1:
                raise ValueError(f"{type(self).__name__}.loss must return a scalar, not a tensor of shape {shape}")
            if mode == ModeKeys.EVAL:
                metrics = self.metrics(regularization_losses)
                metrics = self.update_metrics(metrics, features, logits, labels, regularization_losses)
                if metrics is None:
                    raise ValueError(f"{type(self).__name__}.update_metrics must return the metrics, not None")
                return EstimatorSpec(mode, predictions, loss, eval_metric_ops=metrics)
        if tf.distribute.get_strategy().num_replicas_in_sync > 1:
            private_tensorflow.set_loss_reduction(checks.v1_reduction(self.loss_reduction))
        self._summarize(MetricKeys.LOSS, loss)
        if regularization_losses:
            self._summarize(MetricKeys.LOSS_REGULARIZATION, tf.add_n(regularization_losses))
        step = train_op(loss, optimizer, trainable_variables, train_op_fn, update_ops, self._training_scope)
        return EstimatorSpec(mode, predictions, loss, step)

    def _serving_outputs(self, predictions: Predictions) -> dict[str, ExportOutput]:
        outputs = self._export_outputs(predictions) | {"predict": PredictOutput(predictions)}
        return {DEFAULT_SIGNATURE: next(iter(outputs.values()))} | outputs

    def _export_outputs(self, predictions: Predictions) -> dict[str, ExportOutput]:
        """Returns the outputs to serve besides the plain predictions; the first is the default signature."""
        return {}

    def _summary_key(self, key: str) -> str:
        return f"{key}/{self.name}" if self.name else key

    def _summarize(self, key: str, value: tf.Tensor) -> None:
        with v1.name_scope(""):
            v1.summary.scalar(self._summary_tag(key), value)

    def _summary_tag(self, key: str) -> str:
        return self._summary_key(key)


def train_op(
    loss: tf.Tensor,
    optimizer: optimizers.Optimizer | None,
    trainable_variables: Sequence[tf.Variable] | None,
    train_op_fn: Callable[[tf.Tensor], tf.Operation | tf.Tensor] | None,
    update_ops: Sequence[tf.Operation | tf.Tensor] | None,
    scope: str = "training",
) -> tf.Operation:
    """Returns the op of a training step; other arguments and errors are those of `Head.create_estimator_spec`."""
    if optimizer is not None and train_op_fn is not None:
        raise ValueError("train_op_fn and optimizer cannot both be set.")
    # Checkpoints store the optimizer's variables under this scope.
    with v1.name_scope(""), v1.name_scope(scope):
        if optimizer is not None:
            return optimizers.train_op(optimizer, loss, trainable_variables, update_ops)
        if train_op_fn is not None:
            return optimizers.with_update_ops(train_op_fn(loss), update_ops)
        raise ValueError("train_op_fn and optimizer cannot both be None.")
