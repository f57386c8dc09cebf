"""estimator_train memory prints an estimate of what training takes, for a dataset or for a model."""

import pytest
from click.testing import CliRunner

from estimator_train.app.cli.commands.memory import memory
from estimator_train.app.errors import SettingError, as_flag


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # which the command sets; so it is put back
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return lambda *arguments: CliRunner().invoke(memory, arguments)


@pytest.fixture(scope="module", autouse=True)
def quick_models():
    """The models as they are, not the smaller ones of conftest.py: their sizes are estimated."""


def test_the_model_of_a_dataset_has_its_size_its_classes_and_its_batches(run):
    result = run("--dataset", "synthetic_oct", "--batch-size", "8")
    assert result.exit_code == 0, result.output
    title, header, _, row, verdict = result.output.splitlines()
    assert title == "small_cnn, 97,956 parameters, batches of 8, in GB:"
    assert header.split()[-3:] == ["fits", "16", "GB"]
    assert row.split()[-1] == "yes" and verdict == "It fits on one device."
    as_given = run("--model", "small_cnn", "--image-size", "96", "--batch-size", "8").output.splitlines()
    assert as_given[0] == "small_cnn, 97,698 parameters, batches of 8, in GB:"
    assert as_given[3] == row


def test_a_model_that_does_not_fit_is_said_to_need_less(run):
    lines = run("--model", "small_cnn", "--image-size", "96", "--device-memory", "0.001").output.splitlines()
    assert lines[3].split()[-1] == "no"
    assert lines[4] == "It does not fit on a device: take smaller images, batches or layers."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "resnet", "--image-size", "8"], "there is no model 'resnet'; did you mean resnet50"),
        (["--dataset", "oct2017"], "oct2017 is not here; give --model and --image-size instead"),
    ],
)
def test_bad_input_is_one_line(run, arguments, message):
    result = run(*arguments)
    assert isinstance(result.exception, SettingError) and message in result.exception.spelled(as_flag)
