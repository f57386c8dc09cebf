"""Private members of Estimator that old code calls, replaces or reads."""

import os

import numpy as np
import pytest
import tensorflow as tf

import estimator_train as et

v1 = tf.compat.v1


def model_fn(features, labels, mode, params):
    weight = v1.get_variable("weight", initializer=1.0)
    loss = tf.reduce_mean(tf.square(features * weight - (0.0 if labels is None else labels)))
    train_op = v1.train.GradientDescentOptimizer(params["rate"]).minimize(loss, v1.train.get_global_step())
    return et.EstimatorSpec(mode, {"y": features * weight}, loss, train_op)


def input_fn(params):
    return tf.data.Dataset.from_tensors(([1.0, 2.0], [2.0, 4.0])).repeat(params["repeat"])


@pytest.fixture
def estimator(tmp_path):
    return tf.estimator.Estimator(model_fn, str(tmp_path), params={"rate": 0.1, "repeat": 2})


def test_a_graph_may_be_built_by_hand_as_exporters_do(estimator):
    estimator.train(input_fn, steps=1)
    with tf.Graph().as_default() as graph:
        step = estimator._create_and_assert_global_step(graph)
        features, labels, hooks = estimator._get_features_and_labels_from_input_fn(input_fn, "eval")
        spec = estimator._call_model_fn(features, labels, "eval", estimator.config)
        with v1.train.MonitoredSession(
            v1.train.ChiefSessionCreator(checkpoint_filename_with_path=estimator.latest_checkpoint()), hooks
        ) as session:
            weight = estimator.get_variable_value("weight")
            assert session.run(step) == 1
            assert session.run(spec.predictions["y"]).tolist() == [weight, 2 * weight]
        assert isinstance(estimator._call_input_fn(input_fn, "eval"), tf.data.Dataset)
        assert len(estimator._get_features_from_input_fn(input_fn, "infer")) == 2
    assert estimator._model_dir == estimator.model_dir
    assert estimator._session_config.allow_soft_placement


def test_a_subclass_may_override_train_if_the_check_is_replaced_as_adanet(monkeypatch, tmp_path):
    class Growing(tf.estimator.Estimator):
        def train(self, *arguments, **named):
            return super().train(*arguments, **named, steps=1)

    with pytest.raises(ValueError, match=r"Growing does override \['train'\]"):
        Growing(model_fn, str(tmp_path))
    monkeypatch.setattr(tf.estimator.Estimator, "_assert_members_are_not_overridden", staticmethod(lambda _: None))
    growing = Growing(model_fn, str(tmp_path), params={"rate": 0.1, "repeat": 2})
    assert growing.train(input_fn).get_variable_value("global_step") == 1


def test_a_subclass_may_replace_the_check_for_itself_as_in_easyrec(tmp_path):
    class Own(v1.estimator.Estimator):
        def _assert_members_are_not_overridden(self):
            pass

        def eval_dir(self, name=None):
            return os.path.join(self._model_dir, "own")

    assert Own(model_fn, str(tmp_path)).eval_dir() == str(tmp_path / "own")


def test_an_override_that_nothing_would_call_is_refused_all_the_same(tmp_path):
    class Own(tf.estimator.Estimator):
        def _assert_members_are_not_overridden(self):
            pass

        def _call_model_fn(self, features, labels, mode, config):
            pass

    with pytest.raises(ValueError, match=r"does override \['_call_model_fn'\]"):
        Own(model_fn, str(tmp_path))


def test_functions_of_the_module(tmp_path, estimator):
    from tensorflow_estimator.python.estimator import estimator as estimator_lib
    from tensorflow_estimator.python.estimator import run_config

    made = estimator_lib.maybe_overwrite_model_dir_and_session_config(None, tmp_path / "a")
    assert made.model_dir == str(tmp_path / "a") and made.session_config.allow_soft_placement
    own = v1.ConfigProto(log_device_placement=True)
    config = et.RunConfig(model_dir=str(tmp_path), session_config=own)
    assert estimator_lib.maybe_overwrite_model_dir_and_session_config(config, None).session_config == own
    for wrong, message in ((config, "model_dir.*RunConfig"), (3, "instance of .?RunConfig")):
        with pytest.raises(ValueError, match=message):
            estimator_lib.maybe_overwrite_model_dir_and_session_config(wrong, tmp_path / "b")
    assert run_config.get_default_session_config() == v1.ConfigProto(
        allow_soft_placement=True, graph_options=v1.GraphOptions(rewrite_options={"meta_optimizer_iterations": 1})
    )

    step = estimator_lib._load_global_step_from_checkpoint_dir
    assert step(str(tmp_path / "missing")) == step(estimator.model_dir) == 0
    estimator.train(input_fn, steps=2)
    assert step(estimator.model_dir) == 2
    estimator_lib._canned_estimator_api_gauge.get_cell("Classifier").set("DNN")
    estimator.evaluate(input_fn)
    from tensorflow_estimator.python.estimator import early_stopping

    metrics = early_stopping.read_eval_metrics(estimator.eval_dir())
    assert list(metrics) == [2] and metrics[2]["loss"] < 1
    assert early_stopping.read_eval_metrics(tmp_path / "missing") == {}


def test_what_an_input_fn_returns_is_parsed_as_in_adanet():
    from tensorflow_estimator.python.estimator import util

    with tf.Graph().as_default(), v1.Session() as session:
        dataset = tf.data.Dataset.from_tensors(({"a": 1.0}, 2.0))
        features, labels, hooks = util.parse_input_fn_result(dataset)
        for hook in hooks:
            hook.begin()
            hook.after_create_session(session, None)
        assert session.run((features, labels)) == ({"a": 1.0}, 2.0)
    assert util.parse_input_fn_result(({"a": 1}, 2)) == ({"a": 1}, 2, [])
    assert util.parse_input_fn_result(3) == (3, None, []) and util.parse_iterator_result([1, 2]) == (1, 2)
    with pytest.raises(ValueError, match=r"\(features, labels\) as a len 2 tuple, got 3"):
        util.parse_input_fn_result((1, 2, 3))


def test_rows_of_a_queue():
    import collections

    import pandas as pd
    from tensorflow_estimator.python.estimator.inputs.queues import feeding_functions

    table = collections.OrderedDict(a=np.arange(3), b=np.arange(3) * 0.5)
    frame = pd.DataFrame({"x": [1, 2, 3]}, index=[7, 8, 9])
    with tf.Graph().as_default():
        rows = feeding_functions._enqueue_data(np.arange(6).reshape(3, 2), 10, num_epochs=1).dequeue_many(2)
        rest = feeding_functions.enqueue_data(table, 10, num_epochs=2).dequeue_up_to(4)
        of_frame = feeding_functions.enqueue_data(frame, 10).dequeue()
        shuffled = feeding_functions.enqueue_data(np.arange(50), 50, shuffle=True, seed=3, num_epochs=1).dequeue_many(
            50
        )
        with v1.Session() as session:
            session.run(v1.tables_initializer())  # as in every MonitoredSession
            assert [part.tolist() for part in session.run(rows)] == [[0, 1], [[0, 1], [2, 3]]]
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(rows)
            assert [part.tolist() for part in session.run(rest)] == [[0, 1, 2, 0], [0, 1, 2, 0], [0, 0.5, 1, 0]]
            assert len(session.run(rest)[0]) == 2
            assert [part.tolist() for part in session.run(of_frame)] == [7, 1]
            index, values = session.run(shuffled)
    assert index.tolist() == values.tolist() != list(range(50)) and sorted(index) == list(range(50))
    with pytest.raises(TypeError, match="numpy array, an OrderedDict.*from_generator"):
        feeding_functions.enqueue_data(iter, 10)
    with pytest.raises(ValueError, match="does not take pad_value.*padded_batch"):
        feeding_functions.enqueue_data(np.arange(3), 10, pad_value=0)


def test_a_key_error_with_line_breaks():
    from tensorflow_estimator.python.estimator.keras_lib import FormattedKeyError

    with pytest.raises(KeyError, match="^first\nsecond$"):
        raise FormattedKeyError("first\nsecond")


def test_the_decorator_of_exports_changes_nothing():
    from tensorflow_estimator.python.estimator.estimator_export import estimator_export

    @estimator_export("estimator.Own", v1=["estimator.Own"])
    class Own:
        pass

    @estimator_export("estimator.own")
    def own():
        return 3

    assert Own.__name__ == "Own" and own() == 3


def test_the_path_of_tensorflow_1_leads_to_the_same_names():
    from tensorflow.python.estimator import gc, util
    from tensorflow.python.estimator.canned import head
    from tensorflow_estimator.python.estimator.canned import head as newer
    from tensorflow_estimator.python.estimator.util import parse_input_fn_result

    assert gc.Path("a", 1).export_version == 1 and head._Head is newer._Head
    assert util.parse_input_fn_result is parse_input_fn_result
