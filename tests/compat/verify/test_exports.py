"""Exports are asked for predictions of made-up inputs, whatever their signatures take."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_train.compat.verify.exports import predictions

v1 = tf.compat.v1


@pytest.fixture
def export(tmp_path):
    """Saves a graph with the inputs and outputs that a function makes; returns its directory."""

    def export(build):
        with tf.Graph().as_default(), v1.Session() as session:
            inputs, outputs = build()
            session.run(v1.global_variables_initializer())
            v1.saved_model.simple_save(session, str(tmp_path / "export"), inputs, outputs)
        return tmp_path / "export"

    return export


def numbers():
    x, n = v1.placeholder(tf.float32, [None, 3]), v1.placeholder(tf.int64)
    weight = v1.get_variable("weight", [3, 2], initializer=v1.ones_initializer())
    return {"x": x, "n": n}, {"y": x @ weight, "few": tf.gather([5.0, 6.0], n), "words": tf.as_string(n)}


def test_numbers_are_drawn_for_shapes_that_are_open(export):
    outputs, refusals = predictions(export(numbers))
    assert refusals == [] and list(outputs) == [f"serving_default: {name}" for name in ("few", "words", "y")]
    assert outputs["serving_default: y"].shape == (4, 2) and len(np.unique(outputs["serving_default: y"])) == 4
    assert set(outputs["serving_default: few"]) <= {5, 6} and set(outputs["serving_default: words"]) <= {b"0", b"1"}


def test_inputs_are_the_same_each_time(export):
    directory = export(numbers)
    first, second = predictions(directory)[0], predictions(directory)[0]
    np.testing.assert_equal(first, second)


FEATURES = {
    "age": tf.io.FixedLenFeature([2], tf.float32),
    "count": tf.io.FixedLenFeature([], tf.int64),
    "word": tf.io.VarLenFeature(tf.string),
}


def examples():
    serialized = v1.placeholder(tf.string, [None])
    parsed = tf.io.parse_example(serialized, FEATURES)
    return {"examples": serialized}, {"age": parsed["age"], "word": tf.sparse.to_dense(parsed["word"])}


def examples_of_tensorflow_1():
    serialized = v1.placeholder(tf.string, [None])
    parsed = tf.raw_ops.ParseExample(
        serialized=serialized,
        names=[],
        sparse_keys=["word"],
        dense_keys=["age", "count"],
        dense_defaults=[tf.zeros([0]), tf.zeros([0], tf.int64)],
        sparse_types=[tf.string],
        dense_shapes=[[2], []],
    )
    words = tf.reshape(parsed.sparse_values[0], [4, 4])
    return {"examples": serialized}, {"age": parsed.dense_values[0], "word": words}


@pytest.mark.parametrize("build", [examples, examples_of_tensorflow_1])
def test_examples_have_the_features_that_the_export_parses(export, build):
    outputs, refusals = predictions(export(build))
    assert refusals == []
    ages, words = outputs["serving_default: age"], outputs["serving_default: word"]
    assert ages.shape == (4, 2) and ages.all() and words.tolist() == [[b"a"] * 4] * 4


def images():
    encoded = v1.placeholder(tf.string, [])
    return {"encoded": encoded}, {"image": tf.io.decode_jpeg(encoded)}


def test_a_signature_that_refuses_made_up_inputs_is_named_with_the_reason(export):
    outputs, (refusal,) = predictions(export(images))
    assert outputs == {} and refusal.startswith("serving_default: ") and "\n" not in refusal


def test_an_export_without_a_model_to_serve_is_named(tmp_path):
    with tf.Graph().as_default(), v1.Session() as session:
        session.run(v1.get_variable("weight", [1]).initializer)
        builder = v1.saved_model.Builder(str(tmp_path / "export"))
        builder.add_meta_graph_and_variables(session, ["train"])
        builder.save()
    outputs, (refusal,) = predictions(tmp_path / "export")
    assert outputs == {} and "tags 'serve' could not be found" in refusal
