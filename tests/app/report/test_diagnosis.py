"""The diagnosis says what limits training, how fast input and steps could be, and what to try."""

import pytest
import tensorflow as tf

from estimator_train.app.report.diagnosis import diagnose, input_ceiling


def timing(wait):
    return {"input_wait_share": wait, "examples_per_second": 30.0}


def test_a_training_that_waits_is_bound_by_input():
    text = diagnose(timing(0.4), 31.0)
    assert text.startswith("Bound by input: 40% of the time was spent waiting for input; the steps alone would ")
    assert "reach 50.0 examples/s, the input alone 31.0. Try: cache=memory" in text
    assert "cache" not in diagnose(timing(0.4), 31.0, turned=["cache"])


def test_a_training_that_does_not_wait_is_bound_by_compute():
    text = diagnose(timing(0.02))
    assert text.startswith("Bound by compute: 2% of the time was spent waiting for input; the steps alone would ")
    assert "would reach 30.6 examples/s. Try: " in text
    assert "cache=features" in text
    assert "cache=features" not in diagnose(timing(0.02), turned=["cache=features"])


def test_evaluations_and_checkpoints_that_take_long_are_named():
    took = timing(0.02) | {"whole_seconds": 100.0, "evaluation_seconds": 62.0, "checkpoint_seconds": 11.0}
    text = diagnose(took, turned=["async_checkpoints"])
    assert text.endswith(
        "Evaluations took 62% of the total time; evaluate_every with more steps would reduce that. "
        "Checkpoints took 11% of the total time; save_checkpoints_steps with more steps would reduce that."
    )
    assert "Evaluations" not in diagnose(took | {"evaluation_seconds": 1.0})


def test_without_a_setting_to_try_there_is_no_advice():
    took = timing(0.02) | {"whole_seconds": 100.0, "evaluation_seconds": 62.0}
    turned = ["cache=features", "mixed_precision", "gpus", "batch_size", "evaluate_every"]
    assert diagnose(took, turned=turned).endswith(
        "the steps alone would reach 30.6 examples/s. Evaluations took 62% of the total time."
    )


def test_the_ceiling_of_the_input_is_that_of_what_training_takes():
    class InputFn:
        def __call__(self):
            raise AssertionError("training takes the host's batches")

        def host_batches(self):
            return tf.data.Dataset.from_tensors(tf.zeros((3, 2))).repeat()

        def preprocess(self, features):
            raise AssertionError("the input alone is measured")

    assert input_ceiling(InputFn(), seconds=0.01) > 0


@pytest.mark.parametrize(("batches", "is_told"), [(0, False), (1, False), (2, True), (None, True)])
def test_the_ceiling_of_the_input_is_measured_after_its_first_batch(batches, is_told):
    ceiling = input_ceiling(lambda: tf.data.Dataset.from_tensors(tf.zeros((3, 2))).repeat(batches), seconds=0.01)
    assert (ceiling is not None and ceiling > 0) == is_told
