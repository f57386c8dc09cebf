"""Missing and short files of a checkpoint are found without TensorFlow, in checkpoints of every format."""

import random

import numpy as np
import pytest
import tensorflow as tf

from estimator_train._engine.host.checkpoint_files import damage_of_files


@pytest.fixture
def saved(tmp_path):
    """The path prefix of a checkpoint of several blocks, of which one tensor has slices, and one text."""
    names = [*(f"layer_{number}/kernel" for number in range(200)), "text"]
    slices = ["12 0,5" if number == 7 else "" for number in range(200)] + [""]
    values = [np.full(5, number, np.float32) for number in range(200)] + [np.array(["a", "longer"])]
    tf.raw_ops.SaveV2(prefix=f"{tmp_path}/model.ckpt-3", tensor_names=names, shape_and_slices=slices, tensors=values)
    return tmp_path / "model.ckpt-3"


def test_the_sizes_of_a_checkpoints_files_are_checked(saved):
    data = saved.with_name("model.ckpt-3.data-00000-of-00001")
    assert damage_of_files(saved) is None
    content = data.read_bytes()
    data.write_bytes(content[:-1])
    assert damage_of_files(saved) == f"{data} has {len(content) - 1} bytes of {len(content)}"
    data.unlink()
    assert damage_of_files(saved) == f"there is no {data}"
    saved.with_name("model.ckpt-3.index").unlink()
    assert damage_of_files(saved) == f"there is no {saved}.index"


def test_checkpoints_in_several_files_are_whole(tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = [tf.compat.v1.get_variable(name, [3]) for name in "ab"]
        session.run(tf.compat.v1.global_variables_initializer())
        for number, variable in enumerate(variables):
            name = f"{tmp_path}/part_{number}"
            session.run(
                tf.raw_ops.SaveV2(prefix=name, tensor_names=["ab"[number]], shape_and_slices=[""], tensors=[variable])
            )
        session.run(
            tf.raw_ops.MergeV2Checkpoints(
                checkpoint_prefixes=[f"{tmp_path}/part_{number}" for number in range(2)],
                destination_prefix=f"{tmp_path}/model.ckpt-1",
                delete_old_dirs=False,
            )
        )
    assert damage_of_files(tmp_path / "model.ckpt-1") is None
    last = tmp_path / "model.ckpt-1.data-00001-of-00002"
    last.write_bytes(last.read_bytes()[:4])
    assert damage_of_files(tmp_path / "model.ckpt-1") == f"{last} has 4 bytes of 12"


def test_a_damaged_index_is_named_whatever_is_in_it(saved):
    index = saved.with_name("model.ckpt-3.index")
    content, draw = index.read_bytes(), random.Random(1)
    for length in (0, 7, 48, len(content) // 2, len(content) - 1):
        index.write_bytes(content[:length])
        assert damage_of_files(saved) == f"{index} is damaged"
    for _ in range(100):  # it is a wrong size, or left to TensorFlow, but no error
        damaged = bytearray(content)
        damaged[draw.randrange(len(content))] = draw.randrange(256)
        index.write_bytes(damaged)
        damage_of_files(saved)
