"""Wide and deep: DNNLinearCombinedClassifier, DNNLinearCombinedRegressor, DNNLinearCombinedEstimator."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import tensorflow as tf

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
from estimator_train.graph.warm_start import WarmStartSettings
from estimator_train.heads import Head, RegressionHead
from estimator_train.model_fn import FeatureColumn
from estimator_train.run_config import RunConfig


class DNNLinearCombinedEstimator(CannedEstimator):
    """A linear model and a feed-forward network, whose logits add up, under a head of your own.

    Either may be left out. An optimizer given by name has the learning rate 0.001 for the network, and
    min(0.005, 1 / sqrt(number of its columns)) for the linear model.

    Args:
      head: a `Head`.
      model_dir: as for `Estimator`.
      linear_feature_columns: list of dense and categorical columns.
      linear_optimizer, dnn_optimizer: as the optimizer of `DNNEstimator`.
      dnn_feature_columns: list of dense columns.
      dnn_hidden_units, dnn_activation_fn, dnn_dropout, batch_norm: as for `DNNEstimator`.
      config: a `RunConfig`.
      linear_sparse_combiner: as for `LinearEstimator`.

    Raises:
      ValueError: no columns at all, a network without hidden units, or another argument that cannot be used.
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
    """Wide and deep classifier: `BinaryClassHead`, or with more than two classes `MultiClassHead`, on the two models.

    Args:
      n_classes, weight_column, label_vocabulary, loss_reduction: as for the heads.
      warm_start_from: as for `Estimator`.
      others: as for `DNNLinearCombinedEstimator`.
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
    """Wide and deep regressor: `RegressionHead` on the two models.

    Args:
      label_dimension, weight_column, loss_reduction: as for `RegressionHead`.
      warm_start_from: as for `Estimator`.
      others: as for `DNNLinearCombinedEstimator`.
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


class _Dnn(NamedTuple):
    """The arguments of the network."""

    feature_columns: Iterable[FeatureColumn] | None
    optimizer: Optimizer
    hidden_units: Sequence[int] | None
    activation_fn: Callable
    dropout: float | None
    batch_norm: bool


def _branches(head, api_version, linear, dnn):
    """The branches that have columns: the network's, the linear model's, or both."""
    if not linear.feature_columns and not dnn.feature_columns:
        raise ValueError("Either linear_feature_columns or dnn_feature_columns must be defined.")
    if dnn.feature_columns and not dnn.hidden_units:
        raise ValueError("dnn_hidden_units must be defined when dnn_feature_columns is specified.")
    units = logits_dimension(head)
    branches = []
    if dnn.feature_columns:
        logit_fn = dnn_logit_fn_builder(
            units,
            dnn.hidden_units,
            dnn.feature_columns,
            dnn.activation_fn,
            dnn.dropout,
            api_version.partitioner,
            dnn.batch_norm,
        )
        branches.append(Branch("dnn", logit_fn, optimizer_factory(dnn.optimizer, 0.001, api_version)))
    if linear.feature_columns:
        columns = check_columns(linear.feature_columns, "linear_feature_columns", dense=False)
        learning_rate = min(0.005, 1 / math.sqrt(len(columns)))
        branches.append(
            Branch(
                "linear",
                linear_logit_fn_builder(units, columns, linear.sparse_combiner),
                optimizer_factory(linear.optimizer, learning_rate, api_version),
                api_version.partitioner,
            )
        )
    return branches
