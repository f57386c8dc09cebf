"""The differences between TensorFlow 1's and 2's canned estimators: optimizers, scopes, partitioners and a metric."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.graph.optimizers import Optimizer
from estimator_train.heads import BinaryClassHead
from estimator_train.heads.keys import MetricKeys
from estimator_train.heads.single_head import MetricFactories

v1 = tf.compat.v1

Partitioner: TypeAlias = Callable[..., Any]  # those of TensorFlow 1, such as fixed_size_partitioner


class TrapezoidalAUC(keras.metrics.AUC):
    """Computes the area under the precision-recall curve like `tf.compat.v1.metrics.auc`; Keras interpolates precision.

    See `summation_method="trapezoidal"` of https://www.tensorflow.org/api_docs/python/tf/compat/v1/metrics/auc
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(curve="PR", name=name)

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None) -> tf.Tensor:
        # Keras wraps this method in a tf.function for classes outside Keras, but AUC's returns an operation, which a
        # tf.function cannot return.
        with tf.control_dependencies([super().update_state(y_true, y_pred, sample_weight)]):
            return self.true_positives.read_value()

    def interpolate_pr_auc(self) -> tf.Tensor:
        epsilon = 1e-6  # as in tf.compat.v1.metrics.auc
        hits = self.true_positives + epsilon
        precision = hits / (self.true_positives + self.false_positives + epsilon)
        recall = hits / (self.true_positives + self.false_negatives + epsilon)
        return tf.reduce_sum((recall[:-1] - recall[1:]) * (precision[:-1] + precision[1:]) / 2)


class BinaryClassHeadV1(BinaryClassHead):
    """A `BinaryClassHead` with `TrapezoidalAUC`."""

    def _metrics(self) -> MetricFactories:
        metrics = super()._metrics()
        _, give = metrics[MetricKeys.AUC_PR]
        return metrics | {MetricKeys.AUC_PR: (TrapezoidalAUC, give)}


class ApiV2:
    """tf.estimator: Keras optimizers and unpartitioned variables."""

    optimizers = {
        "Adagrad": keras.optimizers.legacy.Adagrad,
        "Adam": keras.optimizers.legacy.Adam,
        "Ftrl": keras.optimizers.legacy.Ftrl,
        "RMSProp": keras.optimizers.legacy.RMSprop,
        "SGD": keras.optimizers.legacy.SGD,
    }
    dnn_learning_rate: float | None = None  # the optimizer's own default
    partitioner: Partitioner | None = None
    binary_head = BinaryClassHead

    @classmethod
    def optimizer_class(cls, name: str) -> Callable[..., Optimizer]:
        """Returns the class called `name`. Raises ValueError if there is none."""
        if name not in cls.optimizers:
            raise ValueError(f"Unsupported optimizer name: {name}. Supported names are: {sorted(cls.optimizers)}")
        return cls.optimizers[name]

    def variable_scope(self, name: str, partitioner: Partitioner | None) -> tf.compat.v1.variable_scope:
        """Returns the variable scope of a branch."""
        # Keras optimizers need resource variables, which the program may have disabled.
        return v1.variable_scope(name, partitioner=partitioner, auxiliary_name_scope=False, use_resource=True)

    def head_scope(self, names: list[str]) -> contextlib.AbstractContextManager[Any]:
        """Returns the scope of the head's ops, for branches called `names`; programs freeze graphs by their names."""
        return contextlib.nullcontext()

    def train_scope(self, names: list[str]) -> contextlib.AbstractContextManager[None]:
        """Returns the scope in which the optimizers of the branches called `names` create their variables."""
        return contextlib.nullcontext()


class ApiV1(ApiV2):
    """tf.compat.v1.estimator: v1 optimizers and partitioned variables, under the names used by old checkpoints.

    If `partitioned`, variables are in one part, except those of the feature columns that have a `partitioner`. The head
    and the variables of the optimizer are in the scope of the only branch if `in_branch`, and else at the top level.
    """

    optimizers = {
        "Adagrad": v1.train.AdagradOptimizer,
        "Adam": v1.train.AdamOptimizer,
        "Ftrl": v1.train.FtrlOptimizer,
        "RMSProp": v1.train.RMSPropOptimizer,
        "SGD": v1.train.GradientDescentOptimizer,
    }
    dnn_learning_rate = 0.05
    binary_head = BinaryClassHeadV1

    def __init__(self, *, partitioned: bool, in_branch: bool, partitioner: Partitioner | None) -> None:
        self._default_partitioner = v1.fixed_size_partitioner(1) if partitioned else None
        self._in_branch = in_branch
        self.partitioner = partitioner

    def variable_scope(self, name: str, partitioner: Partitioner | None) -> tf.compat.v1.variable_scope:
        return v1.variable_scope(name, partitioner=partitioner or self._default_partitioner)

    def head_scope(self, names: list[str]) -> contextlib.AbstractContextManager[Any]:
        return tf.name_scope(f"{names[0]}/") if self._in_branch else contextlib.nullcontext()

    @contextlib.contextmanager
    def train_scope(self, names: list[str]) -> Iterator[None]:
        scope = ""
        with contextlib.ExitStack() as stack:
            if self._in_branch:
                scope = f"{names[0]}/"
                stack.enter_context(v1.variable_scope(names[0], auxiliary_name_scope=False))
            stack.enter_context(tf.name_scope(f"{scope}head/"))
            yield
