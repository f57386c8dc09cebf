"""tf.contrib.eager leads to what TensorFlow 2 has under other names.

TensorFlow 1.15.5 (Python 3.7, tensorflow==1.15.5 with protobuf<3.21) has no in_graph_mode and in_eager_mode, which
are of TensorFlow 1.4.
"""

import pytest
import tensorflow as tf

from estimator_train.compat.tf1.contrib_modules import _ContribModule

eager = _ContribModule("tensorflow.contrib.eager")
v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def graph():
    """No graph: the tests say themselves where they run."""


def test_in_a_graph_it_has_resource_variables(run):
    with tf.Graph().as_default():
        variable = eager.Variable([1.0, 2.0], name="weights")
        assert variable.op.name == "weights" and variable in v1.trainable_variables()
        assert hasattr(variable, "handle")
        assert eager.in_graph_mode() and not eager.in_eager_mode()
        double = eager.py_func(lambda values: values * 2, [variable], tf.float32)
        assert run(double).tolist() == [2, 4]


def test_outside_graphs_it_runs_eagerly():
    assert eager.executing_eagerly() and not eager.in_graph_mode()
    batches = eager.Iterator(tf.data.Dataset.range(3))
    assert [int(value) for value in batches] == [0, 1, 2]
    mean, accuracy = eager.metrics.Mean(), eager.metrics.Accuracy()
    mean([1.0, 4.0])
    accuracy([1, 2], [1, 3])
    assert float(mean.result()) == 2.5 and float(accuracy.result()) == 0.5
    variable = eager.Variable(3.0)
    with eager.GradientTape() as tape:
        loss = eager.defun(lambda: variable * variable)()
    assert float(tape.gradient(loss, variable)) == 6
    assert eager.num_gpus() == len(tf.config.list_logical_devices("GPU"))
    assert "/device:CPU:0" in eager.list_devices()[0]
