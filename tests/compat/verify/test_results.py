"""Verification finds the files of a script and its printed lines, by kind, place, name and step."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train.compat.verify.results import Name, results_of
from estimator_train.compat.verify.runs import Run

v1 = tf.compat.v1


@pytest.fixture
def results(tmp_path):
    """Returns the results of a run that has left its files in tmp_path, and printed this."""

    def results(output="", errors="", code=0):
        return results_of(Run(tmp_path, output, errors, code, 1.0))

    return results


def save(path, step=None, **values):
    path.parent.mkdir(parents=True)
    with tf.Graph().as_default(), v1.Session() as session:
        for name, value in values.items():
            v1.get_variable(name, initializer=tf.constant(value))
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(path), global_step=step, write_meta_graph=False)


def test_checkpoints_anywhere_below_are_found_by_variable_and_step(results, tmp_path):
    save(tmp_path / "model" / "model.ckpt", 20, weight=[1.0, 2.0], word="text")
    save(tmp_path / "tmp" / "tmp0" / "model.ckpt", 5, weight=3.0)
    save(tmp_path / "initial" / "weights", weight=4.0)
    found, left_out = results()
    assert list(found) == [
        Name("checkpoint", "tmp/tmp0/model.ckpt", "weight", 5),
        Name("checkpoint", "model/model.ckpt", "weight", 20),
        Name("checkpoint", "initial/weights", "weight"),
        Name("exit", "code", "of the script"),
    ]
    np.testing.assert_equal(list(found.values()), [3.0, np.array([1.0, 2.0]), 4.0, 0])
    assert not left_out


def test_a_file_that_is_no_checkpoint_is_named_as_not_compared(results, tmp_path):
    (tmp_path / "words.index").write_text("a b")
    found, left_out = results()
    assert list(found) == [Name("exit", "code", "of the script")]
    (line,) = left_out
    assert line.startswith("words.index: ") and "too short" in line


def test_variables_of_objects_have_their_names_in_graphs(results, tmp_path):
    with tf.Graph().as_default(), v1.Session() as session:
        layer = keras.layers.Dense(1, name="dense", kernel_initializer="ones")
        layer(tf.ones([1, 2]))
        session.run(v1.global_variables_initializer())
        v1.train.Checkpoint(layer=layer).save(str(tmp_path / "model.ckpt"), session=session)
    found, _ = results()
    np.testing.assert_equal(found[Name("checkpoint", "model.ckpt", "dense/kernel", 1)], [[1.0], [1.0]])
    assert {name.name for name in found} >= {"dense/bias", "save_counter"}


QUEUE = (2, "queue/fifo_queuefraction_over_0_of_9_full", 0.5)


def test_scalars_of_events_are_found_but_speeds_are_left_out(results, tmp_path):
    with tf.Graph().as_default():
        writer = v1.summary.FileWriter(str(tmp_path / "model" / "eval"))
        for step, tag, value in [(1, "loss", 0.5), (2, "loss", 0.25), (2, "global_step/sec", 9.0), QUEUE]:
            writer.add_summary(v1.Summary(value=[v1.Summary.Value(tag=tag, simple_value=value)]), step)
        writer.close()
    found, left_out = results()
    assert found == {
        Name("event", "model/eval", "loss", 1): 0.5,
        Name("event", "model/eval", "loss", 2): 0.25,
        Name("exit", "code", "of the script"): 0,
    }
    assert left_out == {
        "global_step/sec in event files": 1,
        "queue/fifo_queuefraction_over_0_of_9_full in event files": 1,
    }


def test_exports_named_after_the_time_are_numbered(results, tmp_path):
    for time in ("1700000009", "1700000004"):
        with tf.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder(tf.float32, [2], "x")
            path = str(tmp_path / "export" / time)
            v1.saved_model.simple_save(session, path, {"x": x}, {"time": tf.constant(int(time) % 10)})
    found, _ = results()
    places = [Name("export", f"export/{number}", "serving_default: time") for number in (1, 2)]
    assert [found[place] for place in places] == [4, 9]


PRINTED = """step 3: loss = 0.5, nan
step 4: loss = -1.5e-3, inf
3.5 seconds
"""


def test_printed_lines_are_their_text_and_the_numbers_in_it(results):
    found, left_out = results(PRINTED, code=3)
    np.testing.assert_equal(
        found,
        {
            Name("printed", "1", "step #: loss = #, #"): [3.0, 0.5, np.nan],
            Name("printed", "2", "step #: loss = #, #"): [4.0, -0.0015, np.inf],
            Name("printed", "1", "..."): [],
            Name("exit", "code", "of the script"): 3,
        },
    )
    assert left_out == {"printed durations and speeds": 1}


def test_paths_of_the_run_are_printed_alike_on_both_sides(results, tmp_path):
    found, _ = results(f"saved in {tmp_path}/model\n")
    assert Name("printed", "1", "saved in ./model") in found


def test_logged_evaluations_count_as_printed(results):
    errors = (
        "INFO:tensorflow:Using config\nINFO:tensorflow:Saving dict for global step 9: global_step = 9, loss = 0.5\n"
    )
    found, _ = results(errors=errors)
    assert found[Name("printed", "1", "Saving dict for global step #: global_step = #, loss = #")] == [9, 9, 0.5]
