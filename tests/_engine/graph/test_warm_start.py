"""Warm start: initial values from another model's checkpoint."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train._engine.graph.optimizers import train_op

v1 = tf.compat.v1


def model_fn(features, labels, mode, params):
    """Grows every variable by 1 a step; "statistic" and "rate" are not trained."""
    rate = v1.get_variable("rate", [], initializer=v1.constant_initializer(params.get("rate", 1.0)), trainable=False)
    names = params["names"]
    trained = [v1.get_variable(name, [], initializer=v1.zeros_initializer()) for name in names]
    statistic = v1.get_variable("statistic", [], initializer=v1.zeros_initializer(), trainable=False)
    loss = -tf.add_n(trained) * tf.reduce_mean(features)
    step = v1.train.MomentumOptimizer(rate, 0.0).minimize(loss, v1.train.get_global_step())
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update := statistic.assign_add(1.0))
    train_op = tf.group(step, update)
    predictions = {name: variable + 0 * features for name, variable in zip(names, trained, strict=True)}
    return et.EstimatorSpec(mode, predictions, loss, train_op)


def ones():
    return tf.data.Dataset.from_tensors((tf.ones([1]), tf.zeros([1]))).repeat()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """An Estimator with the variables a and b after 3 steps."""
    return et.Estimator(model_fn, tmp_path_factory.mktemp("trained"), params={"names": ["a", "b"]}).train(ones, steps=3)


@pytest.fixture
def start(tmp_path):
    """Gives an Estimator with the variables a and b that warm-starts."""

    def make(warm_start_from, names=("a", "b")):
        config = et.RunConfig(tmp_path / "warm", save_summary_steps=None, checkpoint_save_graph_def=False)
        return et.Estimator(model_fn, config=config, params={"names": names}, warm_start_from=warm_start_from)

    return make


def values(estimator, *names):
    return [estimator.get_variable_value(name).item() for name in names]


def batch_norm(features, labels, mode, params):
    net = v1.layers.batch_normalization(features[:, None], training=mode == et.ModeKeys.TRAIN, momentum=0.5)
    v1.get_variable("rate", initializer=params["rate"], trainable=False)
    train_op = tf.group(v1.assign_add(v1.train.get_global_step(), 1), v1.get_collection(v1.GraphKeys.UPDATE_OPS))
    return et.EstimatorSpec(mode, {"x": net}, tf.reduce_mean(net), train_op)


def test_a_string_takes_statistics_but_no_learning_rate_in_any_mode(tmp_path, log_lines):
    old = et.Estimator(batch_norm, tmp_path / "old", params={"rate": 0.01}).train(ones, steps=2)
    new = et.Estimator(batch_norm, tmp_path / "new", params={"rate": 0.5}, warm_start_from=old.model_dir)
    assert next(new.predict(ones))["x"] == next(old.predict(ones))["x"] != 1
    new.train(ones, steps=1)
    assert values(new, "rate", "batch_normalization/moving_mean") == [0.5, 0.875]
    assert "not trained: batch_normalization/moving_mean, batch_normalization/moving_variance" in "".join(log_lines)


def test_a_string_takes_statistics_from_a_checkpoint_of_objects(tmp_path):
    layers = [keras.layers.BatchNormalization(name="bn", input_shape=(1,)), keras.layers.Dense(1, name="out")]
    model = keras.Sequential(layers)
    layers[0].moving_mean.assign([5.0])
    path = tf.train.Checkpoint(model).write(str(tmp_path / "weights"))

    def model_fn(features, labels, mode):
        net = v1.layers.batch_normalization(features, name="bn", training=False)
        return et.EstimatorSpec(mode, {"net": net, "out": v1.layers.dense(net, 1, name="out")})

    estimator = et.Estimator(model_fn, tmp_path / "run", warm_start_from=path)
    assert next(estimator.predict(lambda: tf.data.Dataset.from_tensors([[5.0]])))["net"] == 0


def test_a_string_starts_all_variables_but_the_step(trained, start):
    estimator = start(trained.model_dir).train(ones, steps=1)
    assert values(estimator, "a", "b", "statistic", "global_step") == [4, 4, 4, 1]


def test_a_checkpoint_path_is_a_string_too(trained, start):
    estimator = start(trained.latest_checkpoint()).train(ones, steps=1)
    assert values(estimator, "a") == [4]


def test_settings_start_the_trained_variables_that_match(trained, start):
    estimator = start(et.WarmStartSettings(trained.model_dir, "a")).train(ones, steps=1)
    assert values(estimator, "a", "b", "statistic") == [4, 1, 1]


def test_a_list_of_expressions_starts_all_that_match(trained, start):
    estimator = start(et.WarmStartSettings(trained.model_dir, ["statistic", "b:"])).train(ones, steps=1)
    assert values(estimator, "a", "b", "statistic") == [1, 4, 4]


def test_variables_may_have_had_other_names(trained, start):
    settings = et.WarmStartSettings(trained.model_dir, "c", var_name_to_prev_var_name={"c": "a"})
    assert values(start(settings, ["c"]).train(ones, steps=1), "c") == [4]


@pytest.mark.slow
def test_an_own_checkpoint_comes_first(trained, start):
    start(trained.model_dir).train(ones, steps=1)
    estimator = start(trained.model_dir).train(ones, steps=1)
    assert values(estimator, "a", "global_step") == [5, 2]


def test_evaluate_predict_and_export_start_warm_before_training(trained, start, tmp_path):
    estimator = start(trained.model_dir)
    assert estimator.evaluate(ones, steps=1)["loss"] == -6
    assert next(estimator.predict(ones))["a"] == 3
    x = et.export.TensorServingInputReceiver
    folder = estimator.export_saved_model(
        tmp_path / "export", lambda: x(fed := v1.placeholder(tf.float32, [None]), {"x": fed})
    )
    served = tf.saved_model.load(folder.decode()).signatures["serving_default"](x=tf.constant([1.0]))
    assert served["b"] == 3


@pytest.mark.slow
def test_a_saved_model_can_be_started_from(trained, start, tmp_path):
    x = et.export.TensorServingInputReceiver
    folder = trained.export_saved_model(
        tmp_path / "export", lambda: x(fed := v1.placeholder(tf.float32, [None]), {"x": fed})
    )
    assert start(folder.decode()).evaluate(ones, steps=1)["loss"] == -6
    assert values(start(folder).train(ones, steps=1), "a", "b") == [4, 4]  # the path as export_saved_model returns it


def test_a_trained_variable_that_is_missing_is_an_error(trained, start):
    with pytest.raises(ValueError, match="new"):
        start(trained.model_dir, ["a", "new"]).train(ones, steps=1)


def keras_adam(features, labels, mode):
    w = v1.get_variable("w", [], initializer=v1.ones_initializer())
    loss = tf.reduce_mean(w * features)
    return et.EstimatorSpec(mode, loss=loss, train_op=train_op(keras.optimizers.legacy.Adam(0.1), loss, [w]))


@pytest.mark.slow
def test_replicas_start_warm_with_the_optimizers_variables_new(mirrored, tmp_path):
    old = et.Estimator(keras_adam, tmp_path / "old").train(ones, steps=2)
    config = et.RunConfig(tmp_path / "warm", train_distribute=mirrored(2), save_checkpoints_steps=1)
    new = et.Estimator(keras_adam, config=config, warm_start_from=old.model_dir).train(ones, steps=1)
    first = str(tmp_path / "warm" / "model.ckpt-0")
    assert {name for name, _ in tf.train.list_variables(first)} == set(old.get_variable_names())  # none a replica
    assert tf.train.load_variable(first, "w") == old.get_variable_value("w") != 0
    for name in ("Adam/w/m", "Adam/w/v"):
        assert tf.train.load_variable(first, name) == 0 != old.get_variable_value(name)
    assert new.get_variable_value("Adam/w/m") == pytest.approx(0.1)


def test_rows_follow_their_words_in_another_vocabulary(tmp_path):
    (tmp_path / "old.txt").write_text("a\nb\nc\n")
    (tmp_path / "new.txt").write_text("c\nx\na\n")

    def embedding(features, labels, mode, params):
        table = v1.get_variable("table", [3, 1], initializer=v1.constant_initializer(params["rows"]))
        return et.EstimatorSpec(mode, loss=tf.reduce_sum(table), train_op=v1.assign_add(v1.train.get_global_step(), 1))

    old = et.Estimator(embedding, tmp_path / "a", params={"rows": [[1.0], [2.0], [3.0]]}).train(ones, steps=1)
    words = et.VocabInfo(
        str(tmp_path / "new.txt"), 3, 0, str(tmp_path / "old.txt"), backup_initializer=v1.ones_initializer()
    )
    settings = et.WarmStartSettings(old.model_dir, var_name_to_vocab_info={"table": words})
    new = et.Estimator(embedding, tmp_path / "b", params={"rows": [[0.0]] * 3}, warm_start_from=settings)
    np.testing.assert_array_equal(new.train(ones, steps=1).get_variable_value("table"), [[3], [1], [1]])


def test_what_is_no_checkpoint_is_refused(start):
    with pytest.raises(ValueError, match="string or a WarmStartSettings, given: 5"):
        start(5)
    with pytest.raises(ValueError, match="ckpt_to_initialize_from"):
        et.WarmStartSettings("")
