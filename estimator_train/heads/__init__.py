"""Heads, which compute predictions, loss, metrics and an EstimatorSpec from a model's logits."""

from collections.abc import Sequence

from estimator_train._engine.types import FeatureColumn
from estimator_train.heads.binary_class_head import BinaryClassHead
from estimator_train.heads.head import Head
from estimator_train.heads.multi_class_head import MultiClassHead
from estimator_train.heads.multi_head import MultiHead
from estimator_train.heads.multi_label_head import MultiLabelHead
from estimator_train.heads.regression_head import LogisticRegressionHead, PoissonRegressionHead, RegressionHead

__all__ = [
    "BinaryClassHead",
    "Head",
    "LogisticRegressionHead",
    "MultiClassHead",
    "MultiHead",
    "MultiLabelHead",
    "PoissonRegressionHead",
    "RegressionHead",
    "binary_or_multi_class_head",
]


def binary_or_multi_class_head(
    n_classes: int,
    weight_column: str | FeatureColumn | None,
    label_vocabulary: Sequence[str] | None,
    loss_reduction: str,
    *,
    binary_head: type[BinaryClassHead] = BinaryClassHead,
) -> BinaryClassHead | MultiClassHead:
    """Returns the head of a classifier: a `binary_head` for two classes, otherwise a `MultiClassHead`."""
    if n_classes == 2:
        return binary_head(weight_column, None, label_vocabulary, loss_reduction)
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction)
