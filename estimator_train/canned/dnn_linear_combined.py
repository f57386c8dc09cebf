"""Wide and deep: DNNLinearCombinedClassifier, DNNLinearCombinedRegressor, DNNLinearCombinedEstimator."""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_train._engine.graph.warm_start import WarmStartSettings
from estimator_train._engine.types import FeatureColumn
from estimator_train.canned.canned_estimator import CannedEstimator, Optimizer, logits_dimension, summarize
from estimator_train.canned.columns import check_columns
from estimator_train.canned.dnn import dnn_logit_fn_builder
from estimator_train.canned.linear import linear_logit_fn_builder
from estimator_train.heads import Head, RegressionHead
from estimator_train.run_config import RunConfig


class _Linear(NamedTuple):
    """The arguments of the linear model."""

    feature_columns: Iterable[FeatureColumn] | None
    optimizer: Optimizer
    sparse_combiner: str


class _Dnn(NamedTuple):
    """The arguments of the network."""

    feature_columns: Iterable[FeatureColumn] | None
    optimizer: Optimizer
    hidden_units: Sequence[int] | None
    activation_fn: Callable[[tf.Tensor], tf.Tensor]
    dropout: float | None
    batch_norm: bool


class _Combined(CannedEstimator):
    """An Estimator of the branches that have columns: the network, the linear model, or both."""

    def __init__(self, head: Head, linear: _Linear, dnn: _Dnn, *others: Any) -> None:
        if not linear.feature_columns and not dnn.feature_columns:
            raise ValueError("Either linear_feature_columns or dnn_feature_columns must be defined.")
        if dnn.feature_columns and not dnn.hidden_units:
            raise ValueError("dnn_hidden_units must be defined when dnn_feature_columns is specified.")
        units, branches = logits_dimension(head), []
        if dnn.feature_columns:
            how = dnn.activation_fn, dnn.dropout, self._api_version.partitioner, dnn.batch_norm
            logit_fn = dnn_logit_fn_builder(units, dnn.hidden_units, dnn.feature_columns, *how)
            branches.append(self._branch("dnn", logit_fn, dnn.optimizer, 0.001))
        if linear.feature_columns:
            columns = check_columns(linear.feature_columns, "linear_feature_columns", dense=False)
            rate, partitioner = min(0.005, 1 / math.sqrt(len(columns))), self._api_version.partitioner
            linear_fn = linear_logit_fn_builder(units, columns, linear.sparse_combiner)
            branches.append(self._branch("linear", _summarized(linear_fn), linear.optimizer, rate, partitioner))
        super().__init__(head, branches, *others)


def _summarized(logit_fn: Callable[[dict[str, Any]], tf.Tensor]) -> Callable[[dict[str, Any]], tf.Tensor]:
    """Returns a function that adds summaries of its logits to what `logit_fn` does."""

    def summarized_logit_fn(features: dict[str, Any]) -> tf.Tensor:
        logits = logit_fn(features)
        summarize(logits, tf.compat.v1.get_variable_scope().name)
        return logits

    return summarized_logit_fn


class DNNLinearCombinedEstimator(_Combined):
    """Trains a linear model and a feed-forward network together, adding up their logits; takes any head.

    Either of the two may be omitted. For an optimizer given by name, the learning rate is 0.001 for the network, and
    min(0.005, 1 / sqrt(number of linear columns)) for the linear model. Source: https://arxiv.org/abs/1606.07792

        >>> x = tf.feature_column.numeric_column("x")
        >>> estimator = et.DNNLinearCombinedEstimator(
        ...     et.RegressionHead(), "runs/wide_and_deep", linear_feature_columns=[x], dnn_feature_columns=[x],
        ...     dnn_hidden_units=[8]
        ... )

    Args:
      head: a `Head`.
      model_dir, config: as for `Estimator`.
      linear_feature_columns, linear_sparse_combiner: as for `LinearEstimator`.
      linear_optimizer, dnn_optimizer: as `optimizer` of `DNNEstimator`.
      dnn_feature_columns, dnn_hidden_units, dnn_activation_fn, dnn_dropout, batch_norm: as for `DNNEstimator`.

    Raises ValueError if there are no columns, the network has no hidden units, or another argument is invalid.
    """

    def __init__(
        self,
        head: Head,
        model_dir: str | os.PathLike[str] | None = None,
        linear_feature_columns: Iterable[FeatureColumn] | None = None,
        linear_optimizer: Optimizer = "Ftrl",
        dnn_feature_columns: Iterable[FeatureColumn] | None = None,
        dnn_optimizer: Optimizer = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Callable[[tf.Tensor], tf.Tensor] = tf.nn.relu,
        dnn_dropout: float | None = None,
        config: RunConfig | None = None,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        linear = _Linear(linear_feature_columns, linear_optimizer, linear_sparse_combiner)
        dnn = _Dnn(dnn_feature_columns, dnn_optimizer, dnn_hidden_units, dnn_activation_fn, dnn_dropout, batch_norm)
        super().__init__(head, linear, dnn, model_dir, config)


class DNNLinearCombinedClassifier(_Combined):
    """Trains a wide and deep classifier.

    The head is a `BinaryClassHead`, or a `MultiClassHead` if there are more than two classes. The arguments are those
    of the head and of `DNNLinearCombinedEstimator`, and `warm_start_from`, as for `Estimator`.

        >>> x = tf.feature_column.numeric_column("x")
        >>> color = tf.feature_column.categorical_column_with_vocabulary_list("color", ["red", "green"])
        >>> classifier = et.DNNLinearCombinedClassifier(
        ...     "runs/wide_and_deep", linear_feature_columns=[color], dnn_feature_columns=[x], dnn_hidden_units=[8]
        ... )
    """

    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        linear_feature_columns: Iterable[FeatureColumn] | None = None,
        linear_optimizer: Optimizer = "Ftrl",
        dnn_feature_columns: Iterable[FeatureColumn] | None = None,
        dnn_optimizer: Optimizer = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Callable[[tf.Tensor], tf.Tensor] = tf.nn.relu,
        dnn_dropout: float | None = None,
        n_classes: int = 2,
        weight_column: str | FeatureColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = "sum_over_batch_size",
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        head = self._classifier_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        linear = _Linear(linear_feature_columns, linear_optimizer, linear_sparse_combiner)
        dnn = _Dnn(dnn_feature_columns, dnn_optimizer, dnn_hidden_units, dnn_activation_fn, dnn_dropout, batch_norm)
        super().__init__(head, linear, dnn, model_dir, config, warm_start_from)


class DNNLinearCombinedRegressor(_Combined):
    """Trains a wide and deep regressor with a `RegressionHead`; takes arguments as `DNNLinearCombinedClassifier` does.

    >>> x = tf.feature_column.numeric_column("x")
    >>> regressor = et.DNNLinearCombinedRegressor(
    ...     "runs/wide_and_deep", linear_feature_columns=[x], dnn_feature_columns=[x], dnn_hidden_units=[8]
    ... )
    """

    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        linear_feature_columns: Iterable[FeatureColumn] | None = None,
        linear_optimizer: Optimizer = "Ftrl",
        dnn_feature_columns: Iterable[FeatureColumn] | None = None,
        dnn_optimizer: Optimizer = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Callable[[tf.Tensor], tf.Tensor] = tf.nn.relu,
        dnn_dropout: float | None = None,
        label_dimension: int = 1,
        weight_column: str | FeatureColumn | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = "sum_over_batch_size",
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        linear = _Linear(linear_feature_columns, linear_optimizer, linear_sparse_combiner)
        dnn = _Dnn(dnn_feature_columns, dnn_optimizer, dnn_hidden_units, dnn_activation_fn, dnn_dropout, batch_norm)
        super().__init__(head, linear, dnn, model_dir, config, warm_start_from)
