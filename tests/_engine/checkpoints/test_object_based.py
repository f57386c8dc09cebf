"""Damaged checkpoints are passed over, and those of another model are refused by the names of what differs."""

import logging
import os
import shutil

import keras as keras_3
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train import RunConfig
from estimator_train._engine import checkpoints
from estimator_train._engine.checkpoints import object_based
from estimator_train._engine.keras.adapter_choice import adapter_of, model_source

layers = keras.layers


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with the checkpoints of steps 1, 2 and 3."""
    folder = tmp_path_factory.mktemp("saved")
    weights, step = tf.Variable(tf.range(1000.0)), tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(weights=weights, estimator_global_step=step)
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=5, checkpoint_name="model.ckpt")
    for number in (1, 2, 3):
        step.assign(number)
        manager.save(number)
    return folder


@pytest.fixture
def model_dir(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "run")


def data_file(model_dir, step):
    return model_dir / f"model.ckpt-{step}.data-00000-of-00001"


def index_file(model_dir, step):
    return model_dir / f"model.ckpt-{step}.index"


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip_a_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.smoke
@pytest.mark.parametrize("file", [data_file, index_file])
@pytest.mark.parametrize("damage", [truncate, os.remove, flip_a_byte, lambda path: path.write_bytes(b"")])
def test_a_damaged_checkpoint_is_passed_over_with_one_warning(file, damage, model_dir, warnings):
    damage(file(model_dir, 3))
    assert checkpoints.latest_intact(model_dir) == str(model_dir / "model.ckpt-2")
    (warning,) = warnings
    assert f"Checkpoint {model_dir}/model.ckpt-3 is damaged" in warning
    assert "\n" not in warning


def test_each_damaged_checkpoint_is_warned_of(model_dir, warnings):
    truncate(data_file(model_dir, 3))
    os.remove(index_file(model_dir, 2))
    assert checkpoints.latest_intact(model_dir) == str(model_dir / "model.ckpt-1")
    assert [line.split(" is damaged")[0][-1] for line in warnings] == ["3", "2"]


def test_when_all_are_damaged_that_is_an_error(model_dir):
    for step in (1, 2, 3):
        truncate(data_file(model_dir, step))
    with pytest.raises(ValueError, match=f"Every checkpoint in {model_dir} is damaged, the newest is .*model.ckpt-3"):
        checkpoints.latest_intact(model_dir)


def test_checkpoints_replaced_during_a_restore_are_not_reported_as_damaged(model_dir, monkeypatch):
    damage_of = checkpoints.damage_of

    def replaced_meanwhile(path):
        newer = tf.train.Checkpoint(estimator_global_step=tf.Variable(9, dtype=tf.int64))
        manager = tf.train.CheckpointManager(newer, model_dir, max_to_keep=1, checkpoint_name="model.ckpt")
        for old in (1, 2, 3):
            for file in model_dir.glob(f"model.ckpt-{old}.*"):
                file.unlink()
        manager.save(9)
        return damage_of(path)

    monkeypatch.setattr(checkpoints, "damage_of", replaced_meanwhile)
    assert checkpoints.latest_intact(model_dir) == str(model_dir / "model.ckpt-9")


def test_an_intact_checkpoint_is_found_without_a_warning(model_dir, warnings):
    assert checkpoints.latest_intact(model_dir) == str(model_dir / "model.ckpt-3")
    assert checkpoints.latest_intact(str(model_dir)) == str(model_dir / "model.ckpt-3")
    assert checkpoints.damage_of(f"{model_dir}/model.ckpt-3") is None
    assert warnings == []


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_without_checkpoints_has_none(exists, tmp_path):
    if not exists:
        tmp_path = tmp_path / "absent"
    assert checkpoints.latest_intact(tmp_path) is None


def test_a_checkpoint_written_again_is_looked_at_again(model_dir):
    path = f"{model_dir}/model.ckpt-3"
    intact = data_file(model_dir, 3).read_bytes()
    before = checkpoints.stamp(path)
    truncate(data_file(model_dir, 3))
    assert checkpoints.damage_of(path)
    data_file(model_dir, 3).write_bytes(intact)
    assert checkpoints.damage_of(path) is None
    assert checkpoints.stamp(path) != before


def test_a_stamp_is_of_the_files_of_one_checkpoint(model_dir, monkeypatch):
    suffixes = ["data-00000-of-00001", "index"]
    assert [name for name, *_ in checkpoints.stamp(f"{model_dir}/model.ckpt-3")] == [
        f"{model_dir}/model.ckpt-3.{suffix}" for suffix in suffixes
    ]
    monkeypatch.chdir(model_dir)
    assert [name for name, *_ in checkpoints.stamp("model.ckpt-3")] == [f"model.ckpt-3.{suffix}" for suffix in suffixes]
    assert checkpoints.stamp(f"{model_dir}/absent/model.ckpt-3") == ()


def test_the_global_step_is_read_from_both_formats(model_dir, tmp_path):
    assert checkpoints.read_global_step(f"{model_dir}/model.ckpt-2") == 2
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.train.create_global_step()
        session.run(step.initializer)
        session.run(tf.compat.v1.assign_add(step, 41))
        path = tf.compat.v1.train.Saver().save(session, str(tmp_path / "name_based"))
    assert checkpoints.read_global_step(path) == 41


def test_a_checkpoint_without_a_global_step_is_refused(tmp_path):
    path = tf.train.Checkpoint(weights=tf.Variable(1.0)).write(tmp_path / "other")
    with pytest.raises(ValueError, match="has no global step"):
        checkpoints.read_global_step(path)


def test_saving_leaves_the_root_logger_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(logging.root, "handlers", [])
    model = dense(2)
    saver = object_based.ObjectSaver(tf.train.Checkpoint(root=model), RunConfig())
    saver.save(None, str(tmp_path / "model.ckpt"), 1)
    model_source(model)
    assert logging.root.handlers == []


def dense(*units):
    model = keras.Sequential([layers.Dense(size) for size in units])
    model.build([None, 4])
    model.compile("adam", "mse")
    return model


def written(model, folder, trained=True):
    """Writes a checkpoint of the model with its optimizer's slots; returns the path."""
    if trained:
        model.fit(np.ones([2, 4]), np.ones([2, model.output_shape[-1]]), verbose=0)
    return tf.train.Checkpoint(root=model).write(folder / "other")


def restore(model, path):
    object_based.restore(adapter_of(model).saved_parts(model), {}, path)


@pytest.mark.smoke
@pytest.mark.parametrize("trained", [True, False])
def test_a_checkpoint_of_the_model_is_restored(trained, tmp_path):
    model, other = dense(3, 2), dense(3, 2)
    path = written(other, tmp_path, trained)
    restore(model, path)
    for ours, theirs in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.fixture(scope="module", params=[True, False], ids=["trained", "new"])
def of_two_layers(request, tmp_path_factory):
    """The checkpoint of a model with layers of 5 and 2 units."""
    return written(dense(5, 2), tmp_path_factory.mktemp("written"), trained=request.param)


@pytest.mark.parametrize(
    ("units", "named"),
    [
        ((3,), ["layer_with_weights-0/kernel is (4, 5) in the checkpoint and (4, 3) in the model"]),
        ((5,), ["layer_with_weights-1/kernel (5, 2) is not in the model", "layer_with_weights-1/bias (2,) is not in"]),
        ((5, 2, 1), ["layer_with_weights-2/kernel (2, 1) is not in the checkpoint", "layer_with_weights-2/bias (1,)"]),
        ((5, 7), ["layer_with_weights-1/kernel is (5, 2) in the checkpoint and (5, 7) in the model"]),
    ],
)
def test_a_checkpoint_of_another_model_is_refused_by_name(units, named, of_two_layers):
    with pytest.raises(ValueError) as error:
        restore(dense(*units), of_two_layers)
    assert str(error.value).startswith(f"Checkpoint {of_two_layers} is of another model: ")
    for text in named:
        assert text in str(error.value)
    assert "optimizer" not in str(error.value).lower()


def test_long_lists_of_differences_are_cut(tmp_path):
    path = written(dense(5), tmp_path)
    with pytest.raises(ValueError, match="; and 4 more.$"):
        restore(dense(5, 5, 5, 5, 5, 5), path)


@pytest.mark.slow
def test_a_checkpoint_of_another_optimizer_gives_weights_and_trains(tmp_path):
    other, model = dense(5), dense(5)
    path = written(other, tmp_path)
    model.compile("sgd", "mse")
    restore(model, path)
    np.testing.assert_array_equal(model.get_weights()[0], other.get_weights()[0])
    before = model.evaluate(np.ones([2, 4]), np.ones([2, 5]), verbose=0)
    model.fit(np.ones([2, 4]), np.ones([2, 5]), verbose=0)
    assert model.evaluate(np.ones([2, 4]), np.ones([2, 5]), verbose=0) < before


@pytest.mark.parametrize(
    ("library", "scaling"),
    [
        (keras.optimizers, keras.mixed_precision.LossScaleOptimizer),
        (keras_3.optimizers, keras_3.optimizers.LossScaleOptimizer),
    ],
    ids=["tf_keras", "Keras 3"],
)
def test_averages_are_found_within_an_optimizer_that_scales_the_loss(library, scaling):
    for keeps in (True, False):
        optimizer = library.SGD(0.1, use_ema=keeps)
        assert object_based.keeps_averages(optimizer) == object_based.keeps_averages(scaling(optimizer)) == keeps
    assert not object_based.keeps_averages({"one": library.SGD(0.1, use_ema=True)})
