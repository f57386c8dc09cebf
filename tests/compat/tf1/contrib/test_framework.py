"""tf.contrib.framework: argument scopes and variables.

TensorFlow 1.15.5 (Python 3.7, tensorflow==1.15.5 with protobuf<3.21) ran these tests once with
`framework = tf.contrib.framework`; there, a scope of one thread reaches the others.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
import tensorflow as tf

from estimator_train.compat.tf1.contrib import framework

v1 = tf.compat.v1


def test_argument_scopes_nest_and_are_left():
    @framework.add_arg_scope
    def layer(inputs, size=1, bias=False):
        return inputs, size, bias

    with framework.arg_scope([layer], size=2) as scope, framework.arg_scope([layer], bias=True):
        assert layer(0) == (0, 2, True) and layer(0, bias=None) == (0, 2, None)
    assert layer(0) == (0, 1, False)
    with framework.arg_scope(scope):
        assert layer(0) == (0, 2, False)
    assert framework.has_arg_scope(layer) and framework.arg_scoped_arguments(layer) == ("size", "bias")
    with pytest.raises(ValueError, match="is not decorated with @add_arg_scope"), framework.arg_scope([len], size=1):
        pass


def test_a_scope_of_one_replicas_thread_does_not_reach_the_others():
    @framework.add_arg_scope
    def layer(size=1):
        return size

    with ThreadPoolExecutor(1) as replica, framework.arg_scope([layer], size=2):
        inner = framework.arg_scope([layer], size=3)
        replica.submit(inner.__enter__).result()
        assert layer() == 2 and replica.submit(layer).result() == 3
        replica.submit(inner.__exit__, None, None, None).result()
        assert replica.submit(layer).result() == 2


def test_variables_are_found_and_restored(tmp_path):
    with v1.variable_scope("net"):
        framework.model_variable("weights", [2], initializer=v1.ones_initializer())
        framework.variable("other", [1], initializer=v1.zeros_initializer())
    (weights,) = framework.get_model_variables("net")
    assert framework.get_variables_by_name("other")[0].op.name == "net/other"
    assert framework.get_variables_by_suffix("weights") == [weights]
    assert framework.get_unique_variable("net/weights") is weights
    assert framework.get_variables_to_restore(exclude=["net/other"]) == [weights]
    assert framework.filter_variables(framework.get_variables(), ["weights"]) == [weights]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        path = v1.train.Saver([weights]).save(session, str(tmp_path / "model"))
        restore_some = framework.assign_from_checkpoint_fn(path, framework.get_variables(), ignore_missing_vars=True)
        restore_all = framework.assign_from_checkpoint(path, [weights])
        for restore in (lambda: restore_some(session), lambda: session.run(*restore_all)):
            session.run(weights.assign([5.0, 5.0]))
            restore()
            assert session.run(weights).tolist() == [1, 1]
        with pytest.raises(ValueError, match=r"Checkpoint is missing variable \[net/other\]"):
            framework.assign_from_checkpoint(path, framework.get_variables())


def test_nest_has_the_names_of_tensorflow_1():
    """Cells of RNNs and beam searches use them."""
    assert framework.nest.is_sequence([1]) and not framework.nest.is_sequence(1)
    assert framework.nest.map_structure_up_to([0, 0], len, [[1], [2, 3]]) == [1, 2]


@pytest.mark.parametrize("use_resource", [True, False])
def test_a_variable_is_initialized_with_zeros(use_resource):
    weights = v1.get_variable("weights", initializer=[1.0, 2.0], use_resource=use_resource)
    with v1.Session() as session:
        session.run(framework.zero_initializer(weights))
        assert session.run(weights).tolist() == [0, 0]


def test_a_deprecated_function_warns_and_runs(log_lines):
    @framework.deprecated("2018-09-15", "Use the other function.")
    def old():
        return 1

    assert old() == 1
    assert "will be removed after 2018-09-15" in "".join(log_lines)
