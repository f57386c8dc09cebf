"""evaluations.jsonl: lines that a kill cannot mix up."""

import json

import numpy as np
import pytest

from estimator_train.app.runs import evaluation_log, run_files

METRICS = {"loss": np.float32(0.5), "global_step": np.int64(2)}


def test_a_line_behind_a_torn_one_is_whole(tmp_path):
    path = tmp_path / "evaluations.jsonl"
    first = evaluation_log.append(tmp_path, "run/model.ckpt-2", METRICS)
    with path.open("a") as file:
        file.write('{"checkpoint": "model.ck')
    second = evaluation_log.append(tmp_path, "run/model.ckpt-4", METRICS | {"global_step": np.int64(4)})
    third = evaluation_log.append(tmp_path, "run/model.ckpt-6", METRICS | {"global_step": np.int64(6)})
    assert run_files.read_evaluations(tmp_path) == [first, second, third]
    *_, last = path.read_text().splitlines()
    assert len(path.read_text().splitlines()) == 4 and json.loads(last) == third


def test_a_directory_in_its_place_is_refused(tmp_path):
    (tmp_path / "evaluations.jsonl").mkdir()
    with pytest.raises(IsADirectoryError, match="Is a directory.*evaluations.jsonl"):
        evaluation_log.append(tmp_path, "run/model.ckpt-2", METRICS)
