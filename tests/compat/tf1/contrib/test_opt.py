"""tf.contrib.opt: updates against the papers' formulas, computed with numpy, and against TensorFlow 1.15.5.

The constants of LARS and of MomentumW were printed by TensorFlow 1.15.5 (Python 3.7, tensorflow==1.15.5 with
protobuf<3.21), which ran the lines of these tests with `opt = tf.contrib.opt`. The other tests of this file pass there,
too, but for two things: `minimize` forgets its decay_var_list there, so that AdamW decays all variables, and the
message of the swapping_saver has other words.
"""

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


@pytest.mark.parametrize("sparse", [False, True])
def test_weights_decay_after_the_gradient_has_been_computed(table, sparse):
    """In 1.15.5 nothing orders the two.

    Of 60 runs there, all gave these weights for dense gradients; for sparse ones, 48 did with a resource variable, and
    4 with the other kind, of which 50 gave [-0.14808, -0.29616] in row 0.
    """
    rows = tf.gather(table, [0, 0]) if sparse else table
    train_op = opt.MomentumWOptimizer(0.1, learning_rate=0.5, momentum=0.9).minimize(tf.reduce_sum(rows**2) / 8)
    expected = [[-0.22037497, -0.44074994], [3, 4]] if sparse else [[0.18985938, 0.37971875], [0.5695782, 0.7594375]]
    for _ in range(20):
        np.testing.assert_allclose(trained(train_op, table, steps=3), expected, rtol=1e-6)


# The weights and the slots after three steps of TensorFlow 1.15.5, without and with Nesterov momentum.
LARS = {
    False: {
        "table": [[0.26780415, 1.2641613], [2.2605188, 3.2568755]],
        "norm/bias": [-1.805, -1.805],
        "zero": [-1.4497566, -1.4497566],
        "table/LARSOptimizer": [[0.3447799, 0.3464951], [0.34821054, 0.3499259]],
        "norm/bias/LARSOptimizer": [1.355, 1.355],
        "zero/LARSOptimizer": [0.47502273, 0.47502273],
    },
    True: {
        "table": [[-0.009592, 0.98538518], [1.9803623, 2.9753394]],
        "norm/bias": [-3.0244999, -3.0244999],
        "zero": [-1.9788498, -1.9788498],
        "table/LARSOptimizer": [[0.33036026, 0.33200383], [0.33364743, 0.33529102]],
        "norm/bias/LARSOptimizer": [1.355, 1.355],
        "zero/LARSOptimizer": [0.51698762, 0.51698762],
    },
}


@pytest.mark.parametrize("use_nesterov", [False, True])
def test_lars_adds_up_the_gradients_times_the_rates_of_their_steps(table, use_nesterov):
    v1.get_variable("norm/bias", initializer=[1.0, 1.0])
    v1.get_variable("zero", initializer=[0.0, 0.0])
    optimizer = opt.LARSOptimizer(
        0.5, 0.9, weight_decay=0.01, eeta=0.1, epsilon=1e-3, skip_list=["bias"], use_nesterov=use_nesterov
    )
    loss = sum(
        tf.reduce_sum(variable) * rate for variable, rate in zip(v1.trainable_variables(), (2, 1, 1), strict=True)
    )
    train_op = optimizer.minimize(loss)
    found = trained(train_op, {variable.op.name: variable for variable in v1.global_variables()}, steps=3)
    assert found.keys() == LARS[use_nesterov].keys()
    for name, values in LARS[use_nesterov].items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-6, err_msg=name)


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
