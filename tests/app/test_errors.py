"""Errors and advice of the application's public rooms name arguments in Python, and flags in the command."""

import pytest

from estimator_train.app import datasets
from estimator_train.app.datasets import disk, kaggle
from estimator_train.app.errors import SettingError, as_flag, one_line_errors, spelled, spelling
from estimator_train.app.models import weights
from estimator_train.app.runs.monitor import Monitor


def cannot_download(**_):
    raise Exception("URL fetch failure")  # as Keras does


def raise_credentials_error():
    raise kaggle.CredentialsError("Kaggle needs credentials", "owner/scans")


@pytest.mark.parametrize(
    ("fail", "kind", "in_python", "in_the_command"),
    [
        (lambda: datasets.open_dataset("images"), ValueError, "needs data_dir, ", "needs --data-dir, "),
        (lambda: datasets.open_dataset("fashion_mnist", "a"), ValueError, "out data_dir", "out --data-dir"),
        (
            lambda: datasets.open_dataset("images", "rows.csv"),
            NotADirectoryError,
            "a file, which dataset=manifest takes, not",
            "a file, which --dataset manifest takes, not",
        ),
        (
            lambda: datasets.open_dataset("manifest", "."),
            ValueError,
            ", or dataset=images for class folders",
            ", or --dataset images for class folders",
        ),
        (lambda: disk.require_room(".", 10**18, "it"), OSError, "another data_dir", "another --data-dir"),
        (raise_credentials_error, PermissionError, "its folder as data_dir", "its folder as --data-dir"),
        (
            lambda: weights.application(cannot_download, (32, 32), "imagenet"),
            ConnectionError,
            'as weights (weights=FILE), or "none": URL',
            'as weights (--weights FILE), or "none": URL',
        ),
        (
            lambda: Monitor("speed", "max").check_name("regression"),
            ValueError,
            "monitor speed: there is no such metric",
            "--monitor speed: there is no such metric",
        ),
        (
            lambda: Monitor("macro_f1", "max").check((), None),
            ValueError,
            "monitor macro_f1 is",
            "--monitor macro_f1 is",
        ),
    ],
)
def test_a_public_room_names_arguments_and_the_command_flags(
    fail, kind, in_python, in_the_command, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("path,label\n")
    with pytest.raises(kind) as raised:
        fail()
    assert in_python in str(raised.value) and " --" not in f" {raised.value}"
    with pytest.raises(SettingError) as raised, one_line_errors():
        fail()
    assert in_the_command in raised.value.spelled(as_flag)


def test_advice_is_spelled_for_the_command_only_while_it_runs():
    with spelling(as_flag), spelling(as_flag):
        assert spelled("{cache=none} keeps {0}", "none") == "--cache none keeps none"
    assert spelled("{cache=none} keeps {0}", "none") == "cache=none keeps none"


def test_an_error_within_a_line_is_spelled_as_the_line():
    error = SettingError("{data_dir} {0}: not here", "a{b}")
    with spelling(as_flag):
        assert spelled("images: {0}", error) == "images: --data-dir a{b}: not here"
