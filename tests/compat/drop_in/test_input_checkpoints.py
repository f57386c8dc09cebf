"""tf.data.experimental.CheckpointInputPipelineHook, with the steps and files of TensorFlow 2.15.1."""

import pytest
import tensorflow as tf

import estimator_train as et

v1 = tf.compat.v1


def model_fn(features, labels, mode):
    last = v1.get_variable("last", initializer=0.0, trainable=False)
    train_op = tf.group(last.assign(features[0]), v1.train.get_global_step().assign_add(1))
    return et.EstimatorSpec(mode, loss=tf.constant(0.0), train_op=train_op)


def numbers():
    return tf.data.Dataset.range(10).map(lambda number: tf.cast(number, tf.float32)).batch(1)


def hook(estimator, *policy):
    return tf.data.experimental.CheckpointInputPipelineHook(estimator, *policy)


def test_a_training_continues_in_the_middle_of_its_data(tmp_path):
    et.install()

    def train(steps):
        config = et.RunConfig(tmp_path, save_checkpoints_steps=2, save_summary_steps=None)
        estimator = et.Estimator(model_fn, config=config)
        estimator.train(numbers, steps=steps, hooks=[hook(estimator)])
        return estimator.get_variable_value("last")

    def saved():
        return sorted(path.stem for path in tmp_path.glob("input.ckpt-*.index"))

    assert train(3) == 2 and saved() == ["input.ckpt-0", "input.ckpt-2", "input.ckpt-3"]
    assert train(3) == 5 and saved()[3:] == ["input.ckpt-4", "input.ckpt-6"]
    state = tf.train.latest_checkpoint(tmp_path, "checkpoint_input")
    assert [name for name, _ in tf.train.list_variables(state)] == ["IteratorV2:0_STATE"]
    assert train(None) == 9  # to the end of the data


def test_another_policy_and_a_training_without_an_iterator_are_refused(tmp_path):
    et.install()
    estimator = et.Estimator(model_fn, tmp_path)
    with pytest.raises(ValueError, match="external_state_policy='skip': use one of warn, ignore, fail"):
        hook(estimator, "skip")
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"for a Keras model.*RunConfig\(resume_input=True\)"):
        hook(estimator, "warn").begin()


def test_iterators_of_several_workers_have_files_of_their_own(tmp_path, monkeypatch):
    et.install()
    cluster = '{"chief": ["a:1"], "ps": ["a:2"], "worker": ["a:3"]}'
    monkeypatch.setenv("TF_CONFIG", f'{{"cluster": {cluster}, "task": {{"type": "worker", "index": 0}}}}')
    with tf.Graph().as_default(), v1.Session() as session:
        v1.train.create_global_step()
        iterator = v1.data.make_initializable_iterator(numbers())
        made = hook(et.Estimator(model_fn, tmp_path))
        made.begin()
        session.run([v1.global_variables_initializer(), iterator.initializer])
        made.end(session)
    assert (tmp_path / "checkpoint_input_worker_0").exists()
    assert [path.name for path in tmp_path.glob("*.index")] == ["input_worker_0.ckpt-0.index"]
