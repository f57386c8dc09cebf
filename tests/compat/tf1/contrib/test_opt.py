"""tf.contrib.opt: updates against the papers' formulas, computed with numpy."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_train.compat.tf1.contrib import opt

v1 = tf.compat.v1
START = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)


@pytest.fixture(params=[True, False], ids=["resource", "reference"])
def table(request):
    """A trained table of two rows, as a variable of TensorFlow 2's kind and of TensorFlow 1's."""
    return v1.get_variable("table", initializer=START, use_resource=request.param)


def sparse_loss(table):
    """A loss whose gradient is 1 in row 0, which is looked up twice, and absent in row 1."""
    return tf.reduce_sum(tf.gather(table, [0, 0])) / 2


def trained(train_op, variable, steps):
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for _ in range(steps):
            session.run(train_op)
        return session.run(variable)


def test_weights_decay_by_their_share_and_then_follow_the_gradient(table):
    optimizer = opt.extend_with_decoupled_weight_decay(v1.train.GradientDescentOptimizer)(0.1, learning_rate=0.5)
    found = trained(optimizer.minimize(tf.reduce_sum(table)), table, steps=2)
    np.testing.assert_allclose(found, (START * 0.9 - 0.5) * 0.9 - 0.5, rtol=1e-6)


def test_a_sparse_gradient_decays_its_rows_only(table):
    optimizer = opt.MomentumWOptimizer(0.1, learning_rate=0.5, momentum=0.0)
    found = trained(optimizer.minimize(sparse_loss(table)), table, steps=1)
    np.testing.assert_allclose(found, [START[0] * 0.9 - 0.5, START[1]], rtol=1e-6)


def test_adamw_decays_the_listed_variables_only(table):
    bias = v1.get_variable("bias", initializer=[5.0])
    optimizer = opt.AdamWOptimizer(0.1, learning_rate=0.01)
    step = v1.train.get_or_create_global_step()
    loss = tf.reduce_sum(table) + tf.reduce_sum(bias)
    found, its_bias, count = trained(
        optimizer.minimize(loss, global_step=step, decay_var_list=[table]), [table, bias, step], steps=1
    )
    # Adam's first step is the learning rate times the gradient's sign.
    np.testing.assert_allclose(found, START * 0.9 - 0.01, rtol=1e-5)
    assert its_bias == pytest.approx([4.99]) and count == 1
    assert {slot.op.name for slot in optimizer.variables()} >= {"table/AdamW", "table/AdamW_1"}


def test_lazy_adam_leaves_rows_without_a_gradient_alone(table):
    batch = v1.placeholder_with_default([0], [None])
    loss = tf.reduce_sum(tf.gather(table, batch))
    train_op = opt.LazyAdamOptimizer(0.1).minimize(loss)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(train_op)
        once = session.run(table)
        session.run(train_op, {batch: [1, 1]})
        found = session.run(table)
    np.testing.assert_allclose(once, [START[0] - 0.1, START[1]], rtol=1e-5)
    np.testing.assert_array_equal(found[0], once[0])  # Adam would go on by its momentum
    # Both lookups of row 1 add up to a gradient of 2. The powers of the betas count all steps.
    m, v = 0.1 * 2, 0.001 * 4
    step = 0.1 * np.sqrt(1 - 0.999**2) / (1 - 0.9**2) * m / (np.sqrt(v) + 1e-8)
    np.testing.assert_allclose(found[1], START[1] - step, rtol=1e-5)


@pytest.mark.parametrize("use_nesterov", [False, True])
def test_lars_trusts_a_variable_by_the_norms_of_its_weights_and_gradient(table, use_nesterov):
    skipped = v1.get_variable("norm/bias", initializer=[1.0, 1.0])
    zero = v1.get_variable("zero", initializer=[0.0, 0.0])
    optimizer = opt.LARSOptimizer(
        0.5, 0.9, weight_decay=0.01, eeta=0.1, epsilon=1e-3, skip_list=["bias"], use_nesterov=use_nesterov
    )
    loss = tf.reduce_sum(table) * 2 + tf.reduce_sum(skipped) + tf.reduce_sum(zero)
    found = trained(optimizer.minimize(loss), [table, skipped, zero], steps=2)

    def lars(weights, gradient, is_skipped):
        """Returns the weights after two steps of TensorFlow 1.15's LARSOptimizer."""
        weights, momentum = np.array(weights), 0
        for _ in range(2):
            rate, decayed = 0.5, gradient
            if not is_skipped:
                norm, slope = np.linalg.norm(weights), np.linalg.norm(np.full_like(weights, gradient))
                rate *= 0.1 * norm / (slope + 0.01 * norm + 1e-3) if norm else 1.0
                decayed = gradient + 0.01 * weights
            momentum = 0.9 * momentum + decayed
            weights = weights - rate * (decayed + 0.9 * momentum if use_nesterov else momentum)
        return weights

    np.testing.assert_allclose(found[0], lars(START, 2.0, False), rtol=1e-5)
    np.testing.assert_allclose(found[1], lars([1.0, 1.0], 1.0, True), rtol=1e-5)
    np.testing.assert_allclose(found[2], lars([0.0, 0.0], 1.0, False), rtol=1e-5)
    assert {slot.op.name for slot in optimizer.variables()} >= {"table/LARSOptimizer", "zero/LARSOptimizer"}


def test_lars_leaves_sparse_gradients_to_momentum(table):
    found = trained(opt.LARSOptimizer(0.5).minimize(sparse_loss(table)), table, steps=1)
    np.testing.assert_allclose(found, [START[0] - 0.5, START[1]], rtol=1e-6)
    with pytest.raises(ValueError, match="momentum should be positive: -1"):
        opt.LARSOptimizer(0.5, momentum=-1)


def test_the_swapping_saver_exchanges_variables_and_their_averages(tmp_path):
    table = v1.get_variable("table", initializer=START, use_resource=True)
    optimizer = opt.MovingAverageOptimizer(v1.train.GradientDescentOptimizer(1.0), average_decay=0.5)
    with pytest.raises(RuntimeError, match="call apply_gradients or minimize before swapping_saver"):
        optimizer.swapping_saver()
    train_op = optimizer.minimize(tf.reduce_sum(table))
    saver = optimizer.swapping_saver()
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for _ in range(2):
            session.run(train_op)
        path = saver.save(session, str(tmp_path / "model.ckpt"))
        saved = tf.train.load_checkpoint(path)
        average = ((START + START - 1) / 2 + START - 2) / 2
        np.testing.assert_allclose(saved.get_tensor("table"), average)
        np.testing.assert_allclose(saved.get_tensor("table/ExponentialMovingAverage"), START - 2)
        session.run(v1.global_variables_initializer())
        saver.restore(session, path)
        np.testing.assert_allclose(session.run(table), START - 2)
