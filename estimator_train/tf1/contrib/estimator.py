"""tf.contrib.estimator: what moved to tf.estimator later, its heads, and two wrappers."""

from __future__ import annotations

import tensorflow as tf

from estimator_train import experimental, extenders
from estimator_train.canned import v1 as canned

BaselineEstimator = canned.BaselineEstimator
DNNEstimator = canned.DNNEstimator
DNNLinearCombinedEstimator = canned.DNNLinearCombinedEstimator
InMemoryEvaluatorHook = experimental.InMemoryEvaluatorHook
LinearEstimator = canned.LinearEstimator
add_metrics = extenders.add_metrics
build_raw_supervised_input_receiver_fn = experimental.build_raw_supervised_input_receiver_fn
call_logit_fn = experimental.call_logit_fn
make_early_stopping_hook = experimental.make_early_stopping_hook
make_stop_at_checkpoint_step_hook = experimental.make_stop_at_checkpoint_step_hook
stop_if_higher_hook = experimental.stop_if_higher_hook
stop_if_lower_hook = experimental.stop_if_lower_hook
stop_if_no_decrease_hook = experimental.stop_if_no_decrease_hook
stop_if_no_increase_hook = experimental.stop_if_no_increase_hook


def clip_gradients_by_norm(optimizer, clip_norm):
    """An optimizer that clips each gradient to the norm by itself before it is applied."""
    return _ClippingOptimizer(optimizer, clip_norm)


class _ClippingOptimizer(tf.compat.v1.train.Optimizer):
    def __init__(self, optimizer, clip_norm):
        super().__init__(optimizer.get_slot_names() and False, "ClipByNorm" + optimizer.get_name())
        self._wrapped, self._clip_norm = optimizer, clip_norm
