"""Training checks for its GPUs before it downloads a dataset."""

import re

from estimator_train import datasets


def test_too_few_gpus_are_refused_before_a_dataset_is_downloaded(command, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    opened = []
    monkeypatch.setattr(datasets, "open_dataset", lambda name, *_, **__: opened.append(name))
    code, output, errors = command("--dataset", "oct2017", "--gpus", "99")
    assert (code, output, opened) == (2, "", [])
    assert re.fullmatch(
        r"estimator_train: --gpus 99: TensorFlow sees \d+; (use --gpus \d+; )?use --replicas 99 for CPU replicas\n",
        errors,
    )
