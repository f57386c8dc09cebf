"""tf.contrib.training: HParams, functions that build a train_op, and functions that wait for checkpoints."""

import tensorflow as tf

from estimator_train.compat.tf1.gradients import clip_gradient_norms as clip_gradient_norms
from estimator_train.compat.tf1.gradients import clip_gradient_norms_fn as clip_gradient_norms_fn
from estimator_train.compat.tf1.gradients import multiply_gradients as multiply_gradients
from estimator_train.compat.tf1.hparams import HParams as HParams

_v1 = tf.compat.v1

checkpoints_iterator = tf.train.checkpoints_iterator
GATE_NONE, GATE_OP, GATE_GRAPH = (
    _v1.train.Optimizer.GATE_NONE,
    _v1.train.Optimizer.GATE_OP,
    _v1.train.Optimizer.GATE_GRAPH,
)
_USE_GLOBAL_STEP = 0


def add_gradients_summaries(grads_and_vars):
    """Adds summaries with a histogram and the norm of each gradient; returns them."""
    summaries = []
    for gradient, variable in grads_and_vars:
        if gradient is None:
            tf.get_logger().info("Var %s has no gradient", variable.op.name)
            continue
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        summaries.append(_v1.summary.histogram(f"{variable.op.name}_gradient", values))
        summaries.append(_v1.summary.scalar(f"{variable.op.name}_gradient_norm", tf.linalg.global_norm([values])))
    return summaries


def create_train_op(
    total_loss,
    optimizer,
    global_step=_USE_GLOBAL_STEP,
    update_ops=None,
    variables_to_train=None,
    transform_grads_fn=None,
    summarize_gradients=False,
    gate_gradients=GATE_OP,
    aggregation_method=None,
    colocate_gradients_with_ops=False,
    check_numerics=True,
):
    """Returns a tensor with the loss's value that runs the update ops and an optimizer step when it is fetched."""
    if global_step is _USE_GLOBAL_STEP:
        global_step = _v1.train.get_or_create_global_step()
    if update_ops is None:
        update_ops = _v1.get_collection(_v1.GraphKeys.UPDATE_OPS)
    with tf.control_dependencies(list(update_ops)):
        total_loss = tf.identity(total_loss)
    variables = _v1.trainable_variables() if variables_to_train is None else variables_to_train
    gradients = optimizer.compute_gradients(
        total_loss,
        variables,
        gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
    )
    if transform_grads_fn:
        gradients = transform_grads_fn(gradients)
    if summarize_gradients:
        with tf.name_scope("summarize_grads"):
            add_gradients_summaries(gradients)
    update = optimizer.apply_gradients(gradients, global_step=global_step)
    with tf.name_scope("train_op"):
        if check_numerics:
            total_loss = tf.debugging.check_numerics(total_loss, "LossTensor is inf or nan")
        with tf.control_dependencies([update]):
            train_op = tf.identity(total_loss)
    _v1.add_to_collection(_v1.GraphKeys.TRAIN_OP, train_op)
    return train_op


def wait_for_new_checkpoint(checkpoint_dir, last_checkpoint=None, seconds_to_sleep=1, timeout=None):
    """Waits for a checkpoint other than `last_checkpoint`; returns its path, or None after `timeout` seconds."""
    for path in checkpoints_iterator(checkpoint_dir, seconds_to_sleep, timeout):
        if path != last_checkpoint:
            return path
    return None
