"""tf.contrib.estimator: names that later moved to tf.estimator, heads, and two wrappers."""

import inspect

import tensorflow as tf

from estimator_train import heads
from estimator_train._engine.model_fn import ModeKeys
from estimator_train.canned.api_versions import BinaryClassHeadV1, TrapezoidalAUC
from estimator_train.canned.dnn import dnn_logit_fn_builder as dnn_logit_fn_builder
from estimator_train.canned.linear import linear_logit_fn_builder as linear_logit_fn_builder
from estimator_train.canned.v1 import BaselineEstimator, DNNEstimator, DNNLinearCombinedEstimator, LinearEstimator  # noqa: F401
from estimator_train.compat.drop_in import canned_head
from estimator_train.compat.drop_in.estimator import read_eval_metrics as read_eval_metrics
from estimator_train.compat.drop_in.export import build_supervised_input_receiver_fn_from_input_fn  # noqa: F401
from estimator_train.compat.tf1.contrib.opt import _WrappingOptimizer
from estimator_train.estimator_v1 import Estimator
from estimator_train.experimental import *  # noqa: F403
from estimator_train.export import PredictOutput
from estimator_train.extenders import add_metrics as add_metrics
from estimator_train.heads.keys import MetricKeys

_v1 = tf.compat.v1
_MEAN = _v1.losses.Reduction.SUM_OVER_BATCH_SIZE


class _MultiHead(heads.MultiHead):
    """Runs the ops of UPDATE_OPS in each step, as all heads of TensorFlow 1 did."""

    def create_estimator_spec(self, features, mode, logits, labels=None, optimizer=None, train_op_fn=None, **others):
        others["update_ops"] = _v1.get_collection(_v1.GraphKeys.UPDATE_OPS)
        return super().create_estimator_spec(features, mode, logits, labels, optimizer, None, train_op_fn, **others)


class _MultiLabelHead(heads.MultiLabelHead):
    """Computes the areas under precision-recall curves as `tf.metrics.auc` does."""

    def _metrics(self):
        metrics = super()._metrics()
        areas = {key: (TrapezoidalAUC, give) for key, (_, give) in metrics.items() if key.startswith(MetricKeys.AUC_PR)}
        return metrics | areas


def _of_tensorflow_1(kind):
    """Returns the v1 version of a head, with the arguments of `kind`."""
    return type(kind.__name__, (canned_head._HeadOf,), {"_kind": kind, "__signature__": inspect.signature(kind)})


# Heads. loss_reduction is one of tf.losses.Reduction, by default the mean over the batch.
binary_classification_head = _of_tensorflow_1(BinaryClassHeadV1)
logistic_regression_head = _of_tensorflow_1(heads.LogisticRegressionHead)
multi_class_head = _of_tensorflow_1(heads.MultiClassHead)
multi_label_head = _of_tensorflow_1(_MultiLabelHead)


def multi_head(heads, head_weights=None):
    """Returns a head that combines several named heads of this module."""
    return _MultiHead([getattr(head, "_head", head) for head in heads], head_weights)


def poisson_regression_head(
    weight_column=None, label_dimension=1, loss_reduction=_MEAN, compute_full_loss=True, name=None
):
    make = _of_tensorflow_1(heads.PoissonRegressionHead)
    return make(label_dimension, weight_column, loss_reduction, compute_full_loss, name)


def regression_head(
    weight_column=None, label_dimension=1, loss_reduction=_MEAN, loss_fn=None, inverse_link_fn=None, name=None
):
    return canned_head._regression_head(weight_column, label_dimension, loss_reduction, loss_fn, inverse_link_fn, name)


def forward_features(estimator, keys=None, sparse_default_values=None):
    """Returns an Estimator in the same directory whose predictions include the features `keys`, or all.

    Sparse features become dense; `sparse_default_values`, a dict by key, overrides the fill values 0 and "".
    """
    keys = [keys] if isinstance(keys, str) else keys

    def model_fn(features, labels, mode, config):
        spec = estimator.model_fn(features, labels, mode, config)
        if mode != ModeKeys.PREDICT:
            return spec
        if absent := set(keys or ()) - features.keys():
            raise ValueError(f"keys={keys}: the features {sorted(features)} do not include {sorted(absent)}")
        fills = sparse_default_values or {}
        forwarded = {key: _dense(features[key], fills.get(key)) for key in keys or features}
        if taken := forwarded.keys() & spec.predictions.keys():
            raise ValueError(f"keys={keys}: the predictions already have {sorted(taken)}; name the others in keys")
        outputs = {
            name: PredictOutput({**output.outputs, **forwarded}) if isinstance(output, PredictOutput) else output
            for name, output in (spec.export_outputs or {}).items()
        }
        return spec._replace(predictions={**spec.predictions, **forwarded}, export_outputs=outputs or None)

    return Estimator(model_fn, estimator.model_dir, estimator.config)


def _dense(feature, fill):
    if isinstance(feature, tf.SparseTensor):
        return tf.sparse.to_dense(feature, fill)
    return feature


def clip_gradients_by_norm(optimizer, clip_norm):
    """Returns an optimizer that clips the gradients to a global norm before it applies them."""
    return _ClippingOptimizer(optimizer, clip_norm)


class _ClippingOptimizer(_WrappingOptimizer):
    def __init__(self, optimizer, clip_norm):
        super().__init__(optimizer, name=f"ClipByNorm{optimizer.get_name()}")
        self._clip_norm = clip_norm

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        gradients, variables = zip(*grads_and_vars, strict=True)
        clipped, _ = tf.clip_by_global_norm(gradients, self._clip_norm)
        return self._wrapped.apply_gradients(zip(clipped, variables, strict=True), global_step, name)
