"""Wide and deep: DNNLinearCombinedClassifier, DNNLinearCombinedRegressor, DNNLinearCombinedEstimator."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import tensorflow as tf

from estimator_train._engine.graph.warm_start import WarmStartSettings
from estimator_train._engine.types import FeatureColumn
from estimator_train.canned.api_versions import ApiVersion
from estimator_train.canned.canned_estimator import (
    Branch,
    CannedEstimator,
    Optimizer,
    logits_dimension,
    optimizer_factory,
)
from estimator_train.canned.columns import check_columns
from estimator_train.canned.dnn import dnn_logit_fn_builder
from estimator_train.canned.linear import linear_logit_fn_builder
from estimator_train.heads import Head, RegressionHead
from estimator_train.run_config import RunConfig


class DNNLinearCombinedEstimator(CannedEstimator):
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
      model_dir: as for `Estimator`.
      linear_feature_columns: list of dense and categorical columns.
      linear_optimizer, dnn_optimizer: as `optimizer` of `DNNEstimator`.
      dnn_feature_columns: list of dense columns.
      dnn_hidden_units, dnn_activation_fn, dnn_dropout, batch_norm: as for `DNNEstimator`.
      config: a `RunConfig`.
      linear_sparse_combiner: as for `LinearEstimator`.

    Raises:
      ValueError: If there are no columns, the network has no hidden units, or another argument is invalid.
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
        branches = _branches(head, self._api_version, linear, dnn)
        super().__init__(head, branches, model_dir, config)


class DNNLinearCombinedClassifier(CannedEstimator):
    """Trains a wide and deep classifier.

    The head is a `BinaryClassHead`, or a `MultiClassHead` if there are more than two classes. See
    `DNNLinearCombinedEstimator` for the other arguments.

        >>> x = tf.feature_column.numeric_column("x")
        >>> color = tf.feature_column.categorical_column_with_vocabulary_list("color", ["red", "green"])
        >>> classifier = et.DNNLinearCombinedClassifier(
        ...     "runs/wide_and_deep", linear_feature_columns=[color], dnn_feature_columns=[x], dnn_hidden_units=[8]
        ... )

    Args:
      n_classes, weight_column, label_vocabulary, loss_reduction: as for the heads.
      warm_start_from: as for `Estimator`.
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
        head = self._api_version.classifier_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        linear = _Linear(linear_feature_columns, linear_optimizer, linear_sparse_combiner)
        dnn = _Dnn(dnn_feature_columns, dnn_optimizer, dnn_hidden_units, dnn_activation_fn, dnn_dropout, batch_norm)
        branches = _branches(head, self._api_version, linear, dnn)
        super().__init__(head, branches, model_dir, config, warm_start_from)


class DNNLinearCombinedRegressor(CannedEstimator):
    """Trains a wide and deep regressor with a `RegressionHead`.

    See `DNNLinearCombinedEstimator` for the other arguments.

        >>> x = tf.feature_column.numeric_column("x")
        >>> regressor = et.DNNLinearCombinedRegressor(
        ...     "runs/wide_and_deep", linear_feature_columns=[x], dnn_feature_columns=[x], dnn_hidden_units=[8]
        ... )

    Args:
      label_dimension, weight_column, loss_reduction: as for `RegressionHead`.
      warm_start_from: as for `Estimator`.
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
        branches = _branches(head, self._api_version, linear, dnn)
        super().__init__(head, branches, model_dir, config, warm_start_from)


class _Linear(NamedTuple):
    """The arguments of the linear model."""

    feature_columns: Iterable[FeatureColumn] | None
    optimizer: Optimizer
    sparse_combiner: str

    def branch(self, units: int, api_version: ApiVersion) -> Branch:
        columns = check_columns(self.feature_columns, "linear_feature_columns", dense=False)
        logit_fn = linear_logit_fn_builder(units, columns, self.sparse_combiner)
        learning_rate = min(0.005, 1 / math.sqrt(len(columns)))
        make_optimizer = optimizer_factory(self.optimizer, learning_rate, api_version)
        return Branch("linear", logit_fn, make_optimizer, api_version.partitioner)


class _Dnn(NamedTuple):
    """The arguments of the network."""

    feature_columns: Iterable[FeatureColumn] | None
    optimizer: Optimizer
    hidden_units: Sequence[int] | None
    activation_fn: Callable[[tf.Tensor], tf.Tensor]
    dropout: float | None
    batch_norm: bool

    def branch(self, units: int, api_version: ApiVersion) -> Branch:
        if not self.hidden_units:
            raise ValueError("dnn_hidden_units must be defined when dnn_feature_columns is specified.")
        columns, how = self.feature_columns or (), (self.activation_fn, self.dropout, api_version.partitioner)
        logit_fn = dnn_logit_fn_builder(units, self.hidden_units, columns, *how, self.batch_norm)
        return Branch("dnn", logit_fn, optimizer_factory(self.optimizer, 0.001, api_version))


def _branches(head: Head, api_version: ApiVersion, linear: _Linear, dnn: _Dnn) -> list[Branch]:
    """Returns the branches that have columns: the network, the linear model, or both."""
    if not linear.feature_columns and not dnn.feature_columns:
        raise ValueError("Either linear_feature_columns or dnn_feature_columns must be defined.")
    units = logits_dimension(head)
    return [part.branch(units, api_version) for part in (dnn, linear) if part.feature_columns]
