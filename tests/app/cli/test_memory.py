"""estimator_train memory prints an estimate for one device and for several; recipes are listed without TensorFlow."""

import pytest
from click.testing import CliRunner

from estimator_train.app.cli.commands.memory import memory
from estimator_train.app.cli.commands.recipes import recipes
from estimator_train.app.recipes import NAMES


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # which the command sets; so it is put back
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return lambda command, *arguments: CliRunner().invoke(command, arguments)


@pytest.mark.slow
def test_the_estimate_says_on_how_many_devices_it_fits(run):
    arguments = ["--recipe", "unet3d", "--volume", "240", "--filters", "4"]
    result = run(memory, *arguments, "--device-memory", "3.5")
    assert result.exit_code == 0, result.output
    title, header, _, *rows, verdict = result.output.splitlines()
    assert title.startswith("unet3d, 88,301 parameters, batches of 1, in GB")
    assert header.split()[-3:] == ["fits", "3.5", "GB"]
    devices, *_, fullest, fits = zip(*map(str.split, rows), strict=True)
    assert devices == ("1", "2", "4", "8")
    assert sorted(map(float, fullest), reverse=True) == list(map(float, fullest))
    assert fits == ("no", "yes", "yes", "yes")
    assert verdict == "It fits with --split-over 2."


@pytest.fixture(scope="module", autouse=True)
def quick_models():
    """The models as they are, not the smaller ones of conftest.py: their sizes are estimated."""


def test_the_model_of_a_dataset_has_its_size_its_classes_and_its_batches(run):
    result = run(memory, "--dataset", "synthetic_oct", "--batch-size", "8")
    assert result.exit_code == 0, result.output
    title, _, _, row, verdict = result.output.splitlines()
    assert title == "small_cnn, 97,956 parameters, batches of 8, in GB:"
    assert row.split()[0] == "1" and verdict == "It fits on one device."
    as_given = run(memory, "--model", "small_cnn", "--image-size", "96", "--batch-size", "8").output.splitlines()
    assert as_given[0] == "small_cnn, 97,698 parameters, batches of 8, in GB:"
    assert as_given[3] == row


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--volume", "20"], "must be a multiple of 8 voxels, got 20"),
        (["--recipe", "cyclegan"], "cyclegan has more than one model; its memory cannot be estimated"),
        (["--model", "resnet", "--image-size", "8"], "there is no model 'resnet'; did you mean resnet50"),
        (["--dataset", "oct2017"], "oct2017 is not here; give --model and --image-size instead"),
    ],
)
def test_bad_input_is_one_line(run, arguments, message):
    result = run(memory, *arguments)
    assert result.exit_code == 1 and message in result.output


def test_recipes_are_listed_with_what_they_are(run):
    lines = run(recipes).output.splitlines()
    assert [line.split()[0] for line in lines] == list(NAMES)
    assert "3-D U-Net" in lines[NAMES.index("unet3d")]
