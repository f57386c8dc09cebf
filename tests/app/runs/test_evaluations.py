"""evaluations.jsonl: lines that a kill cannot mix up."""

import json

import numpy as np
import pytest

from estimator_train.app.runs import evaluations

METRICS = {"loss": np.float32(0.5), "global_step": np.int64(2)}


def test_a_line_behind_a_torn_one_is_whole(tmp_path):
    path = tmp_path / "evaluations.jsonl"
    first, second, third = (
        evaluations.entry_of(f"run/model.ckpt-{step}", METRICS | {"global_step": np.int64(step)}) for step in (2, 4, 6)
    )
    evaluations.append(tmp_path, first)
    with path.open("a") as file:
        file.write('{"checkpoint": "model.ck')
    evaluations.append(tmp_path, second)
    evaluations.append(tmp_path, third)
    assert evaluations.read(tmp_path) == [first, second, third]
    *_, last = path.read_text().splitlines()
    assert len(path.read_text().splitlines()) == 4 and json.loads(last) == third


def test_a_directory_in_its_place_is_refused(tmp_path):
    (tmp_path / "evaluations.jsonl").mkdir()
    with pytest.raises(IsADirectoryError, match="Is a directory.*evaluations.jsonl"):
        evaluations.append(tmp_path, evaluations.entry_of("run/model.ckpt-2", METRICS))


def test_other_data_is_no_curve_of_a_run_that_evaluated_nothing():
    own, other = {"step": 8, "name": "afterwards"}, {"step": 8, "name": "afterwards", "images": "elsewhere"}
    assert evaluations.curve_of([own, other]) == [own]
    assert evaluations.curve_of([other]) == [other]
