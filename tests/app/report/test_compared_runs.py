"""The costs of a run are added up over its sessions."""

import json

from estimator_train.app.report.compared_runs import read_run
from estimator_train.app.runs.stored_run import StoredRun


def test_the_pass_through_frozen_layers_is_a_cost_of_its_own(tmp_path):
    (tmp_path / "run.json").write_text('{"settings": {"model": "small_cnn"}}')
    names = ("first_step", "last_step", "seconds", "whole_seconds")
    names += tuple(f"{part}_seconds" for part in ("input_wait", "warmup", "checkpoint", "evaluation", "other"))
    session = {"started": "then"} | dict.fromkeys(names, 1.0)
    sessions = [session, session | {"whole_seconds": 20.5, "features_seconds": 19.5}]  # the first is of an old version
    rates = dict.fromkeys(("steps_per_second", "examples_per_second", "input_wait_share"))
    (tmp_path / "timing.json").write_text(json.dumps(rates | {"sessions": sessions}))
    costs = read_run(StoredRun(tmp_path)).costs
    assert (costs["seconds in all"], costs["seconds of frozen layers"]) == (21.5, 19.5)
