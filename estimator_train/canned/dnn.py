"""Feed-forward networks over feature columns: DNNClassifier, DNNRegressor, DNNEstimator."""

import numbers
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimator_train._engine.graph.warm_start import WarmStartSettings
from estimator_train._engine.model_fn import ModeKeys
from estimator_train._engine.types import FeatureColumn
from estimator_train.canned import private_tf_keras
from estimator_train.canned.api_versions import Partitioner
from estimator_train.canned.canned_estimator import CannedEstimator, Optimizer, logits_dimension, summarize
from estimator_train.canned.columns import check_columns, input_layer
from estimator_train.heads import Head, RegressionHead
from estimator_train.run_config import RunConfig

v1 = tf.compat.v1


class DNNEstimator(CannedEstimator):
    """Trains a feed-forward network with any head.

        >>> x = tf.feature_column.numeric_column("x", shape=[2])
        >>> head = et.MultiLabelHead(n_classes=3)
        >>> estimator = et.DNNEstimator(head, hidden_units=[8, 4], feature_columns=[x], model_dir="runs/dnn")

    `DNNClassifier` shows how to train and evaluate.

    Args:
      head: a `Head`.
      hidden_units: list of ints, the number of units of each hidden layer.
      feature_columns: list of dense columns.
      model_dir, config, warm_start_from: as for `Estimator`.
      optimizer: "Adagrad", "Adam", "Ftrl", "RMSProp" or "SGD", with the optimizer's default learning rate; or an
        optimizer; or a function that returns one.
      activation_fn: activation function of the hidden layers.
      dropout: fraction of each hidden layer's outputs to drop in training; None drops nothing.
      batch_norm: whether batch normalization follows each hidden layer.

    Raises ValueError if `head`, a column, a number of units or the optimizer's name is invalid.
    """

    def __init__(
        self,
        head: Head,
        hidden_units: Sequence[int],
        feature_columns: Iterable[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        optimizer: Optimizer = "Adagrad",
        activation_fn: Callable[[tf.Tensor], tf.Tensor] = tf.nn.relu,
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        batch_norm: bool = False,
    ) -> None:
        units, api_version = logits_dimension(head), self._api_version
        layers = activation_fn, dropout, api_version.partitioner, batch_norm
        logit_fn = dnn_logit_fn_builder(units, hidden_units, feature_columns, *layers)
        branch = self._branch("dnn", logit_fn, optimizer, api_version.dnn_learning_rate)
        super().__init__(head, [branch], model_dir, config, warm_start_from)


class DNNClassifier(DNNEstimator):
    """Trains a feed-forward classifier.

    It is a `DNNEstimator` with a `BinaryClassHead`, or with a `MultiClassHead` if there are more than two classes, and
    takes the arguments of both.

        >>> x = tf.feature_column.numeric_column("x")
        >>> classifier = et.DNNClassifier(hidden_units=[8], feature_columns=[x], model_dir="runs/dnn", n_classes=3)
        >>> input_fn = et.input_fns.arrays({"x": np.float32([0, 1, 2])}, np.array([0, 1, 2]), batch_size=3)
        >>> classifier = classifier.train(input_fn)
        >>> sorted(classifier.evaluate(input_fn))
        ['accuracy', 'average_loss', 'global_step', 'loss']
        >>> next(classifier.predict(input_fn))["probabilities"].shape
        (3,)
    """

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Iterable[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        n_classes: int = 2,
        weight_column: str | FeatureColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Optimizer = "Adagrad",
        activation_fn: Callable[[tf.Tensor], tf.Tensor] = tf.nn.relu,
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = "sum_over_batch_size",
        batch_norm: bool = False,
    ) -> None:
        head = self._classifier_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        how = optimizer, activation_fn, dropout, config, warm_start_from, batch_norm
        super().__init__(head, hidden_units, feature_columns, model_dir, *how)


class DNNRegressor(DNNEstimator):
    """Trains a feed-forward regressor: a `DNNEstimator` with a `RegressionHead`, and with the arguments of both.

    >>> x = tf.feature_column.numeric_column("x")
    >>> regressor = et.DNNRegressor(hidden_units=[8], feature_columns=[x], model_dir="runs/dnn")
    """

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Iterable[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        label_dimension: int = 1,
        weight_column: str | FeatureColumn | None = None,
        optimizer: Optimizer = "Adagrad",
        activation_fn: Callable[[tf.Tensor], tf.Tensor] = tf.nn.relu,
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = "sum_over_batch_size",
        batch_norm: bool = False,
    ) -> None:
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        how = optimizer, activation_fn, dropout, config, warm_start_from, batch_norm
        super().__init__(head, hidden_units, feature_columns, model_dir, *how)


def dnn_logit_fn_builder(
    units: int,
    hidden_units: Sequence[int] | None,
    feature_columns: Iterable[FeatureColumn],
    activation_fn: Callable[[tf.Tensor], tf.Tensor],
    dropout: float | None,
    input_layer_partitioner: Partitioner | None,
    batch_norm: bool = False,
) -> Callable[[dict[str, Any], str], tf.Tensor]:
    """Returns a function (features, mode) that computes a network's logits, a float32 tensor (batch, units).

    `input_layer_partitioner` partitions the feature columns' variables; see `DNNEstimator` for the other arguments.

    Raises ValueError if a number of units is not positive, or a column is not dense.
    """
    sizes = [] if hidden_units is None else list(hidden_units)
    if not all(map(_is_number_of_units, [units, *sizes])):
        raise ValueError(f"units and hidden_units must be positive numbers, given: {units!r}, {sizes}")
    if isinstance(dropout, numbers.Real) and not dropout:
        dropout = None  # tf.nn.dropout would draw a seed, on which the initial values of the next layers depend
    columns = check_columns(feature_columns, "feature_columns", dense=True)

    def dnn_logit_fn(features: dict[str, Any], mode: str) -> tf.Tensor:
        Dense, BatchNormalization = private_tf_keras.v1_dense_class(), private_tf_keras.v1_batch_normalization_class()
        training = mode == ModeKeys.TRAIN
        scope = v1.get_variable_scope().name
        with v1.variable_scope("input_from_feature_columns", partitioner=input_layer_partitioner):
            net = input_layer(features, columns)
        for index, size in enumerate(sizes):
            name = f"hiddenlayer_{index}"
            net = Dense(size, activation_fn, kernel_initializer=v1.glorot_uniform_initializer(), name=name)(net)
            if dropout is not None and training:
                net = tf.nn.dropout(net, dropout)
            if batch_norm:
                with v1.variable_scope(name):
                    net = BatchNormalization(momentum=0.999, name=f"batchnorm_{index}")(net, training=training)
            summarize(net, f"{scope}/{name}")
        logits = Dense(units, kernel_initializer=v1.glorot_uniform_initializer(), name="logits")(net)
        summarize(logits, f"{scope}/logits")
        return logits

    return dnn_logit_fn


def _is_number_of_units(size: Any) -> bool:
    """Tells whether Dense takes `size`; it rounds down the n / 2 of programs, and reads the texts of their flags."""
    try:
        return int(size) > 0
    except (OverflowError, TypeError, ValueError):
        return False
