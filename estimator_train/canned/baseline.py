"""Models that ignore the features: BaselineClassifier, BaselineRegressor, BaselineEstimator."""

import os
from collections.abc import Callable, Sequence

import tensorflow as tf

from estimator_train._engine.types import FeatureColumn
from estimator_train.canned.canned_estimator import CannedEstimator, Optimizer, logits_dimension
from estimator_train.heads import Head, RegressionHead
from estimator_train.run_config import RunConfig

v1 = tf.compat.v1


class BaselineEstimator(CannedEstimator):
    """Learns the same logits for all examples, ignoring their features; takes any head.

        >>> estimator = et.BaselineEstimator(et.PoissonRegressionHead(), "runs/baseline")

    Args:
      head: a `Head`.
      model_dir, config: as for `Estimator`.
      optimizer: "Adagrad", "Adam", "Ftrl", "RMSProp" or "SGD", with learning rate 0.3; or an optimizer; or a function
        that returns one.

    Raises ValueError if `head` is not a Head or the optimizer's name is unknown.
    """

    def __init__(
        self,
        head: Head,
        model_dir: str | os.PathLike[str] | None = None,
        optimizer: Optimizer = "Ftrl",
        config: RunConfig | None = None,
    ) -> None:
        branch = self._branch("baseline", _logit_fn(logits_dimension(head)), optimizer, 0.3)
        super().__init__(head, [branch], model_dir, config)


class BaselineClassifier(BaselineEstimator):
    """Predicts the frequency of each class, ignoring the features; a baseline for classifiers.

    It is a `BaselineEstimator` with a `BinaryClassHead`, or with a `MultiClassHead` if there are more than two classes,
    and takes the arguments of both.

        >>> classifier = et.BaselineClassifier("runs/baseline", n_classes=3)
    """

    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        n_classes: int = 2,
        weight_column: str | FeatureColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Optimizer = "Ftrl",
        config: RunConfig | None = None,
        loss_reduction: str = "sum_over_batch_size",
    ) -> None:
        head = self._classifier_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(head, model_dir, optimizer, config)


class BaselineRegressor(BaselineEstimator):
    """Predicts the mean of the labels, ignoring the features; a baseline for regressors.

    It is a `BaselineEstimator` with a `RegressionHead`, and takes the arguments of both.

        >>> regressor = et.BaselineRegressor("runs/baseline", label_dimension=2)
    """

    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        label_dimension: int = 1,
        weight_column: str | FeatureColumn | None = None,
        optimizer: Optimizer = "Ftrl",
        config: RunConfig | None = None,
        loss_reduction: str = "sum_over_batch_size",
    ) -> None:
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(head, model_dir, optimizer, config)


def _logit_fn(units: int) -> Callable[[dict[str, tf.Tensor]], tf.Tensor]:
    def logit_fn(features: dict[str, tf.Tensor]) -> tf.Tensor:
        bias = v1.get_variable("bias", [units], initializer=v1.zeros_initializer())
        # Take any feature: the weight column may be missing when serving.
        batch_size = tf.shape(next(iter(features.values())))[0]
        return tf.ones([batch_size, 1]) * bias

    return logit_fn
