"""MultiHead: combines several heads on one model."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.model_fn import ModeKeys
from estimator_train.export import ExportOutput
from estimator_train.heads import checks
from estimator_train.heads.head import DEFAULT_SIGNATURE, Head, Predictions
from estimator_train.heads.keys import MetricKeys


class MultiHead(Head):
    """Combines several named heads, adding up their losses.

        >>> head = et.MultiHead([et.BinaryClassHead(name="clicked"), et.RegressionHead(name="seconds")])
        >>> head.logits_dimension
        2

    Logits are a dict keyed by head name, or a tensor [D0, D1, ... DN, sum of the logits_dimensions] that is split in
    the order of the heads. Labels are a dict keyed by head name; predictions are keyed by (head name, key).

    Args:
      heads: iterable of `Head`s with names.
      head_weights: iterable with a factor for each head's loss; None means 1 for all.

    Raises ValueError if there are no heads, a head has no name, two have the same, or the number of weights differs.
    """

    def __init__(self, heads: Iterable[Head], head_weights: Iterable[float] | None = None) -> None:
        self._heads = tuple(heads or ())
        self._weights = tuple(head_weights or [1.0] * len(self._heads))
        if not self._heads:
            raise ValueError(f"Must specify heads. Given: {heads}")
        if len(self._weights) != len(self._heads):
            raise ValueError(
                "heads and head_weights must have the same size. "
                f"Given len(heads): {len(self._heads)}. Given len(head_weights): {len(self._weights)}."
            )
        for head in self._heads:
            if head.name is None:
                raise ValueError(f"All given heads must have name specified. Given: {head}")
        names = [head.name for head in self._heads]
        if len(set(names)) < len(names):
            raise ValueError(f"All given heads must have different names. Given: {names}")
        self._training_scope = f"training_{len(names)}"  # tf.estimator opened "training" for each head

    @property
    def name(self) -> str:
        return "_".join(str(head.name) for head in self._heads)

    @property
    def logits_dimension(self) -> int:
        return sum(head.logits_dimension for head in self._heads)

    @property
    def loss_reduction(self) -> str:
        reductions = [head.loss_reduction for head in self._heads]
        if len(set(map(checks.v1_reduction, reductions))) > 1:
            raise ValueError(f"The loss_reduction must be the same for different heads. Given: {reductions}")
        return reductions[0]

    def loss(
        self,
        labels: dict[str, Any],
        logits: tf.Tensor | dict[str, tf.Tensor],
        features: dict[str, Any] | None = None,
        mode: str | None = None,
        regularization_losses: Sequence[tf.Tensor] | None = None,
    ) -> tf.Tensor:
        if mode == ModeKeys.TRAIN and tf.distribute.get_strategy().num_replicas_in_sync > 1:
            _ = self.loss_reduction  # raises if they differ: an optimizer scales the whole loss by one reduction
        losses = []
        for head, head_labels, head_logits in self._by_head(labels, logits):
            losses.append(head.loss(head_labels, head_logits, features, mode))
            if mode == ModeKeys.TRAIN:
                head._summarize(MetricKeys.LOSS, losses[-1])
        weighted = [loss * weight for loss, weight in zip(losses, self._weights, strict=True)]
        return tf.add_n([*weighted, *(regularization_losses or [])])

    def predictions(
        self, logits: tf.Tensor | dict[str, tf.Tensor], keys: Iterable[Any] | None = None
    ) -> dict[Any, tf.Tensor]:
        predictions = {
            (head.name, key): value
            for head, head_logits in zip(self._heads, self._split(logits), strict=True)
            for key, value in head.predictions(head_logits).items()
        }
        return checks.chosen_predictions(predictions, keys)

    def metrics(self, regularization_losses: Sequence[tf.Tensor] | None = None) -> dict[str, keras.metrics.Metric]:
        keys = [head._summary_key(MetricKeys.LOSS) for head in self._heads]
        if regularization_losses:
            keys.append(self._summary_key(MetricKeys.LOSS_REGULARIZATION))
        metrics = {key: keras.metrics.Mean(name=key) for key in keys}
        for head in self._heads:
            own = head.metrics()
            shared = sorted(own.keys() & metrics.keys())
            if shared:  # one metric would be updated by several heads
                mend = ", ".join(f"{key}/{head.name}" for key in shared)
                raise ValueError(f"head {head.name} has metrics of another head, {', '.join(shared)}; call them {mend}")
            metrics |= own
        return metrics

    def update_metrics(
        self,
        eval_metrics: dict[str, keras.metrics.Metric],
        features: dict[str, Any],
        logits: tf.Tensor | dict[str, tf.Tensor],
        labels: dict[str, Any],
        regularization_losses: Sequence[tf.Tensor] | None = None,
    ) -> dict[str, keras.metrics.Metric]:
        for head, head_labels, head_logits in self._by_head(labels, logits):
            loss = head.loss(head_labels, head_logits, features)
            eval_metrics[head._summary_key(MetricKeys.LOSS)].update_state(loss)
            head.update_metrics(eval_metrics, features, head_logits, head_labels)
        if regularization_losses:
            metric = eval_metrics[self._summary_key(MetricKeys.LOSS_REGULARIZATION)]
            metric.update_state(tf.add_n(regularization_losses))
        return eval_metrics

    def _export_outputs(self, predictions: Predictions) -> dict[str, ExportOutput]:
        outputs: dict[str, ExportOutput] = {}
        for head in self._heads:
            served = head._serving_outputs(
                {key: value for (name, key), value in predictions.items() if name == head.name}
            )
            outputs[str(head.name)] = served.pop(DEFAULT_SIGNATURE)
            outputs |= {f"{head.name}/{signature}": output for signature, output in served.items()}
        return outputs

    def _summary_tag(self, key: str) -> str:
        return key  # as in tf.estimator: the sums of all heads are the model's

    def _by_head(self, labels: Any, logits: tf.Tensor | dict[str, tf.Tensor]) -> Iterator[tuple[Head, Any, tf.Tensor]]:
        if not isinstance(labels, dict):
            raise ValueError(f"labels must be a dict. Given: {labels}")
        return zip(self._heads, self._per_head(labels, "labels"), self._split(logits), strict=True)

    def _split(self, logits: tf.Tensor | dict[str, tf.Tensor]) -> list[tf.Tensor]:
        if isinstance(logits, dict):
            return self._per_head(logits, "logits")
        return tf.split(
            checks.check_logits(logits, self.logits_dimension), [head.logits_dimension for head in self._heads], axis=-1
        )

    def _per_head(self, values: dict[Any, Any], name: str) -> list[Any]:
        missing = [head.name for head in self._heads if head.name not in values]
        if missing:
            raise ValueError(f"{name} has missing values for head(s): {missing}")
        return [values[head.name] for head in self._heads]
