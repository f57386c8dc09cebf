"""Adds private members of tf.estimator's classes that old code uses to the classes of this package, on import.

The drop-in imports this module when a name is first read from an old module. The library itself does not use it.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_train._engine.distribution.replica_input import call_input_fn
from estimator_train._engine.run_config import default_session_config
from estimator_train.compat.drop_in.util import parse_input_fn_result
from estimator_train.estimator import Estimator
from estimator_train.heads import Head
from estimator_train.heads.single_head import SingleHead

v1 = tf.compat.v1


class _Reads:
    """An attribute whose value is `read(instance)` until the instance or a subclass sets it."""

    def __init__(self, read: Callable[[Any], Any]) -> None:
        self._read = read

    def __get__(self, instance, owner=None):
        return self if instance is None else self._read(instance)


class _OfEstimator:
    _model_dir = _Reads(lambda estimator: estimator.model_dir)
    _session_config = _Reads(lambda estimator: estimator.config.session_config or default_session_config())

    def _call_input_fn(self, input_fn, mode, input_context=None):
        params, context = self._params_in(mode), input_context or tf.distribute.InputContext()
        return call_input_fn(input_fn, mode=mode, config=self.config, params=params, input_context=context)

    def _call_model_fn(self, features, labels, mode, config):
        """Builds the model in the default graph and returns its `EstimatorSpec`."""
        return self._model.call(features, labels, mode, config, self._params_in(mode))

    def _get_features_and_labels_from_input_fn(self, input_fn, mode):
        """Calls `input_fn` and returns (features, labels, hooks) in the default graph."""
        return parse_input_fn_result(self._call_input_fn(input_fn, mode))

    def _get_features_from_input_fn(self, input_fn, mode):
        features, _, hooks = self._get_features_and_labels_from_input_fn(input_fn, mode)
        return features, hooks

    def _create_global_step(self, graph):
        return v1.train.create_global_step(graph)

    _create_and_assert_global_step = _create_global_step


class _OfSingleHead:
    def _processed_labels(self, logits, labels):
        return self._labels(labels, logits)

    def _unweighted_loss_and_weights(self, logits, labels, features):
        return self._losses_and_weights(labels, logits, features)


def _use_tpu_spec(kind, **arguments):
    """Makes `create_estimator_spec` call `_create_tpu_estimator_spec` in subclasses of Head that define only that."""
    super(Head, kind).__init_subclass__(**arguments)
    if "_create_tpu_estimator_spec" in vars(kind) and "create_estimator_spec" not in vars(kind):
        kind.create_estimator_spec = _create_estimator_spec


def _create_estimator_spec(self, *args, **kwargs):
    return self._create_tpu_estimator_spec(*args, **kwargs).as_estimator_spec()


Head.__init_subclass__ = classmethod(_use_tpu_spec)  # type: ignore[assignment]
for _kind, _members in ((Estimator, _OfEstimator), (SingleHead, _OfSingleHead)):
    for _name, _member in vars(_members).items():
        if not _name.startswith("__"):
            setattr(_kind, _name, _member)
