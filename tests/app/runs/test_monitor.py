"""--monitor knows the direction of the usual metrics, and refuses what a run cannot be judged by."""

import json

import pytest

from estimator_train.app.runs.monitor import METRICS, Monitor


@pytest.mark.parametrize(
    ("text", "checked"),
    [
        ("loss", "loss:min"),
        ("mean_squared_error", "mean_squared_error:min"),
        ("binary_crossentropy", "binary_crossentropy:min"),
        ("sparse_categorical_accuracy", "sparse_categorical_accuracy:max"),
        ("auc_1", "auc_1:max"),
        *((name, f"{name}:{'min' if 'error' in name else 'max'}") for names in METRICS.values() for name in names),
        ("score:max", "score:max"),
        ("loss:max", "loss:max"),
    ],
)
def test_the_usual_metrics_have_their_direction(text, checked):
    assert Monitor.named(text) == Monitor.of(checked) == tuple(checked.split(":"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("score", "is a lower or a higher score better? Give score:min or score:max"),
        ("accuracy_loss", "Give accuracy_loss:min or accuracy_loss:max"),
        ("accuracy:up", "'accuracy:up' ends in neither :min nor :max"),
        (":min", "':min' ends in neither"),
    ],
)
def test_a_metric_without_a_known_direction_is_refused(text, message):
    with pytest.raises(ValueError) as error:
        Monitor.named(text)
    assert message in str(error.value)


def test_without_the_flag_it_is_the_loss():
    assert Monitor.of(None) == ("loss", "min")
    assert (Monitor.of(None).better, Monitor.of("accuracy:max").better) == ("lower", "higher")


def test_a_metric_that_the_best_checkpoint_so_far_does_not_tell_is_refused(tmp_path):
    best = tmp_path / "model.ckpt-6"
    result = tmp_path / "model.ckpt-6.eval_result.json"
    result.write_text(json.dumps({"loss": 1.0, "accuracy": 0.5, "global_step": 6}))
    Monitor("accuracy", "max").check(("A", "B"), str(best))
    with pytest.raises(ValueError, match=r"does not have it .*; give one of 'accuracy', 'loss', or move"):
        Monitor("macro_f1", "max").check(("A", "B"), str(best))
    Monitor("macro_f1", "max").check(("A", "B"), None)
    result.write_text("{")  # the exporter says so
    Monitor("macro_f1", "max").check(("A", "B"), str(best))
