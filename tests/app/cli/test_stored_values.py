"""The settings of a run.json that somebody else, or another version, has written."""

import dataclasses
import json

import click
import pytest

from estimator_train.app.cli.stored_settings import flags_of, load_settings, load_training


@pytest.fixture
def stored(settings, tmp_path):
    """Writes run.json with other values and returns its path; a part may be replaced as a whole."""

    def stored(part, values):
        run = {"settings": dataclasses.asdict(settings), "training": {"max_steps": 3}}
        run[part] = run[part] | values if isinstance(values, dict) else values
        (tmp_path / "run.json").write_text(json.dumps(run))
        return tmp_path / "run.json"

    return stored


@pytest.mark.parametrize(
    ("part", "values", "message"),
    [
        ("settings", {"batch_size": 10**12}, "batch_size: 1000000000000 is too large; 2147483647 is the most"),
        ("settings", {"image_size": [10**9, 10**9]}, "image_size: .* is not a size in pixels such as 96 or 224x224"),
        ("settings", {"image_size": [True, 24]}, r"image_size is \[true, 24\]"),
        ("settings", {"seed": -1}, "seed: -1 is not in the range"),
        ("settings", {"dropout": float("nan")}, "dropout: .*nan"),
        ("settings", {"optimizer": "best"}, "optimizer: 'best' is not one of"),
        ("settings", {"phases": "freeze=all"}, "phases: "),
        ("settings", {"new_flag": 3}, "new_flag is 3, and this version does not know it; update estimator_train"),
        ("training", {"new_flag": "x"}, 'new_flag is "x", and this version does not know it; update estimator_train'),
        ("training", {"epochs": "3"}, 'epochs is "3"; delete the file, or use another folder'),
        ("training", {"epochs": 0}, "epochs: 0 is not in the range"),
        ("training", {"log": [1]}, r"log is \[1\]"),
        ("training", {"keep_best": None}, "keep_best is null"),
        ("training", {"augment": "blur"}, "augment: there is no 'blur'"),
        ("training", [], r"its training is \[\]"),
    ],
    ids=str,
)
def test_an_odd_setting_is_refused_in_one_line_by_all_that_read_it(stored, tmp_path, part, values, message):
    path = stored(part, values)
    for reader, place in ((load_settings, tmp_path), (load_training, tmp_path), (flags_of, path)):
        with pytest.raises(click.ClickException, match=f"run.json cannot be read: {message}"):
            reader(place)


def test_a_flag_of_a_newer_version_that_is_not_given_is_left_out(stored, settings, tmp_path):
    stored("settings", {"new_flag": None, "new_switch": False})
    assert load_settings(tmp_path) == settings
    stored("training", {"new_flag": None, "learning_rate": 1})
    assert (load_training(tmp_path).max_steps, load_training(tmp_path).learning_rate) == (3, 1)
