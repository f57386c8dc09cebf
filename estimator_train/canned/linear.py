"""Linear models over feature columns: LinearClassifier, LinearRegressor, LinearEstimator."""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimator_train._engine.graph.warm_start import WarmStartSettings
from estimator_train._engine.types import FeatureColumn
from estimator_train.canned.canned_estimator import CannedEstimator, Optimizer, logits_dimension
from estimator_train.canned.columns import check_columns, linear_model
from estimator_train.heads import Head, RegressionHead
from estimator_train.run_config import RunConfig

v1 = tf.compat.v1


class LinearEstimator(CannedEstimator):
    """Trains a linear model with any head.

        >>> x = tf.feature_column.numeric_column("x")
        >>> estimator = et.LinearEstimator(et.PoissonRegressionHead(), [x], "runs/linear")

    Args:
      head: a `Head`.
      feature_columns: list of dense and categorical columns.
      model_dir, config, warm_start_from: as for `Estimator`.
      optimizer: "Adagrad", "Adam", "Ftrl", "RMSProp" or "SGD", with learning rate 0.2; or an optimizer; or a function
        that returns one. None means Ftrl with learning rate min(0.2, 1 / sqrt(number of columns)).
      sparse_combiner: how to reduce the weights of a multivalent categorical column: "sum", "mean" or "sqrtn".

    Raises ValueError if `head`, a column, the combiner or the optimizer's name is invalid.
    """

    def __init__(
        self,
        head: Head,
        feature_columns: Iterable[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        optimizer: Optimizer | None = "Ftrl",
        config: RunConfig | None = None,
        sparse_combiner: str = "sum",
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
    ) -> None:
        columns = check_columns(feature_columns, "feature_columns", dense=False)
        learning_rate = 0.2
        if optimizer is None:
            learning_rate = min(learning_rate, 1 / math.sqrt(len(columns)))
        logit_fn = linear_logit_fn_builder(logits_dimension(head), columns, sparse_combiner)
        branch = self._branch("linear", logit_fn, optimizer or "Ftrl", learning_rate, self._api_version.partitioner)
        super().__init__(head, [branch], model_dir, config, warm_start_from)


class LinearClassifier(LinearEstimator):
    """Trains a linear classifier.

    It is a `LinearEstimator` with a `BinaryClassHead`, or with a `MultiClassHead` if there are more than two classes,
    and takes the arguments of both.

        >>> color = tf.feature_column.categorical_column_with_vocabulary_list("color", ["red", "green"])
        >>> classifier = et.LinearClassifier([color], "runs/linear", label_vocabulary=["stop", "go"])
        >>> features, labels = {"color": np.array([["red"], ["green"]])}, np.array(["stop", "go"])
        >>> input_fn = et.input_fns.arrays(features, labels, batch_size=2)
        >>> classifier = classifier.train(input_fn, steps=1)
        >>> [prediction["classes"].item() for prediction in classifier.predict(input_fn)]
        [b'stop', b'go']
    """

    def __init__(
        self,
        feature_columns: Iterable[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        n_classes: int = 2,
        weight_column: str | FeatureColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Optimizer | None = "Ftrl",
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = "sum_over_batch_size",
        sparse_combiner: str = "sum",
    ) -> None:
        head = self._classifier_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(head, feature_columns, model_dir, optimizer, config, sparse_combiner, warm_start_from)


class LinearRegressor(LinearEstimator):
    """Trains a linear regressor: a `LinearEstimator` with a `RegressionHead`, and with the arguments of both.

    >>> regressor = et.LinearRegressor([tf.feature_column.numeric_column("x")], "runs/linear")
    """

    def __init__(
        self,
        feature_columns: Iterable[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        label_dimension: int = 1,
        weight_column: str | FeatureColumn | None = None,
        optimizer: Optimizer | None = "Ftrl",
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = "sum_over_batch_size",
        sparse_combiner: str = "sum",
    ) -> None:
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(head, feature_columns, model_dir, optimizer, config, sparse_combiner, warm_start_from)


def linear_logit_fn_builder(
    units: int, feature_columns: Iterable[FeatureColumn], sparse_combiner: str = "sum"
) -> Callable[[dict[str, Any]], tf.Tensor]:
    """Returns a function (features) that computes a linear model's logits, a float32 tensor (batch, units).

    See `LinearEstimator` for the arguments.

    Raises ValueError if a column or the combiner is invalid.
    """
    columns = check_columns(feature_columns, "feature_columns", dense=False)
    if sparse_combiner not in ("sum", "mean", "sqrtn"):
        raise ValueError(f'sparse_combiner must be "sum", "mean" or "sqrtn", given: {sparse_combiner!r}')

    def linear_logit_fn(features: dict[str, Any]) -> tf.Tensor:
        logits, weights, bias = linear_model(features, columns, units, sparse_combiner)
        if units == 1:
            v1.summary.scalar("bias", tf.reshape(bias, []))
        else:
            v1.summary.histogram("bias", bias)
        all_weights = tf.concat([tf.reshape(weight, [-1]) for weight in weights], axis=0)
        v1.summary.scalar("fraction_of_zero_weights", tf.math.zero_fraction(all_weights))
        return logits

    return linear_logit_fn
