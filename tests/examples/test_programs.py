"""The four programs of examples/ train on small images, say their memory first, and go on where a signal stopped them.

The images are real where shared/data has them, and drawn otherwise.
"""

import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import warm_python
from PIL import Image

ROOT = Path(__file__).parents[2]
REAL = ROOT.parent / "shared" / "data"
SMALL = {
    "segmentation": ["--image-size", 16, "--filters", 1, "--batch-size", 2],
    "cats_vs_dogs": ["--image-size", 32, "--batch-size", 2],
    "cyclegan": ["--image-size", 16, "--filters", 1],
    "unet3d": ["--volume", 8, "--filters", 1],
}
LENGTH = dict.fromkeys(SMALL, "--epochs") | {"unet3d": "--max-steps"}
# A training stops and resumes alike with shallow networks, and deep ones take most of the time.
SHALLOW = {
    "segmentation": {"POOLINGS = 4": "POOLINGS = 1"},
    "cats_vs_dogs": {
        'keras.applications.MobileNetV2((side, side, 3), include_top=False, pooling="avg", weights=weights)': (
            "keras.Sequential([keras.layers.Conv2D(4, 3, 4, input_shape=(side, side, 3)), "
            "keras.layers.BatchNormalization(), keras.layers.GlobalAveragePooling2D()])"
        )
    },
    "cyclegan": {
        "keras.layers.GroupNormalization(groups=-1, epsilon=1e-5)(features)": "features",
        "for level in (1, 2)": "for level in ()",
        "for level in (1, 0)": "for level in ()",
        "(0, 1))": "(0, 0))",  # blocks
        "levels = 3 if side >= 128 else 2": "levels = 0",
    },
    "unet3d": {"POOLINGS = 3": "POOLINGS = 1"},
}
# The first step is shown when it is done, and not after ten seconds.
SHOWN = {"et.ProgressHook()": "et.ProgressHook(every_secs=0)"}
ENVIRONMENT = os.environ | {"CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": str(ROOT)}


def images(folder, number, seed):
    """Returns real images of a folder of shared/data, or random ones."""
    paths = sorted(path for path in (REAL / folder).glob("*") if path.suffix in (".jpeg", ".jpg", ".png"))[:number]
    rng = np.random.default_rng(seed)
    drawn = [Image.fromarray(rng.integers(0, 255, (40, 48, 3), np.uint8)) for _ in range(number - len(paths))]
    return [Image.open(path).convert("RGB") for path in paths] + drawn


def save(image, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with the data of each program, under its name."""
    folder = tmp_path_factory.mktemp("data")
    for index, image in enumerate(images("OCT2017/train/CNV", 10, 1)):
        save(image, folder / "segmentation" / "images" / f"{index}.png")
        bright = image.convert("L").point(lambda value: 255 * (value > 128))
        for mask in ("rows", "columns"):
            save(bright, folder / "segmentation" / "masks" / mask / f"{index}.png")
    for part, number in (("train", 4), ("test", 2)):
        for seed, name in enumerate(("cats", "dogs")):
            for index, image in enumerate(images(f"cats_vs_dogs/{part}/{name}", number, seed)):
                save(image, folder / "cats_vs_dogs" / part / name / f"{index}.png")
    for seed, part in enumerate(("trainA", "trainB", "testA", "testB")):
        for index, image in enumerate(images(f"apple2orange/{part}", 3, seed)):
            save(image, folder / "cyclegan" / part / f"{index}.png")
    scans = [np.asarray(image.convert("L").resize((8, 8))) for image in images("OCT2017/train/DME", 8, 2)]
    (folder / "unet3d").mkdir()
    for index in range(12):
        volume = np.roll(np.stack(scans) / 255, index, axis=0)
        np.savez(folder / "unet3d" / f"{index}.npz", volume=volume, mask=volume > volume.mean())
    return folder


@pytest.fixture
def command(data, tmp_path):
    """Gives the words of a program's command, on its small data."""

    def words(name, *flags):
        place = ["--data-dir", data / name, "--model-dir", tmp_path / "run"]
        return [ROOT / "examples" / f"{name}.py", *place, *SMALL[name], *flags]

    return words


def shallow(name, folder):
    """Writes the program with shallow networks, and returns its path."""
    text = (ROOT / "examples" / f"{name}.py").read_text()
    for there, here in (SHALLOW[name] | SHOWN).items():
        assert there in text
        text = text.replace(there, here)
    (folder / f"{name}.py").write_text(text)
    return folder / f"{name}.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "number", "devices"),
    [
        ("segmentation", signal.SIGTERM, [["--replicas", 2]]),
        ("cats_vs_dogs", signal.SIGINT, [["--replicas", 1, 2]]),
        ("cyclegan", signal.SIGTERM, [["--replicas", 2]]),
        ("unet3d", signal.SIGINT, [["--replicas", 2], ["--split-over", 2]]),
    ],
    ids=SMALL,
)
def test_a_program_stopped_on_one_device_resumes_on_two(name, number, devices, command, tmp_path):
    program = shallow(name, tmp_path)
    _, *flags = command(name)
    output, errors = stopped([program, *flags, LENGTH[name], 10**5], number, tmp_path)
    assert re.fullmatch(r"memory: about \d+ MB on .*; leave \d+ MB free", output.splitlines()[0])
    assert errors.splitlines()[-1] == "stopped; the same command continues", errors[-2000:]
    for two in devices:
        saved = max(int(path.suffixes[0][6:]) for path in tmp_path.rglob("model.ckpt-*.index"))
        end = saved + 2 if name == "unet3d" else saved // 2 + 1  # an epoch has two steps on two replicas, more on one
        done = warm_python.run([program, *flags, *two, LENGTH[name], end], tmp_path, env=ENVIRONMENT)
        assert done.returncode == 0, done.stderr[-2000:]
        assert int(re.search(r"step (\d+)/", done.stderr)[1]) > saved > 0
        assert re.search(r"global_step \d+$|^ +2 +\d+ ", done.stdout.splitlines()[-1])


def stopped(command, number, folder):
    """Runs a program until it has made a step, stops it by a signal, and returns its output and its errors."""
    paths = folder / "output", folder / "errors"
    process = warm_python.Popen(command, folder, ENVIRONMENT, *paths)
    try:
        end = time.monotonic() + 240
        while process.poll() is None and time.monotonic() < end:
            if paths[1].exists() and re.search(r"step \d+/", paths[1].read_text()):
                break
            time.sleep(0.05)
        process.send_signal(number)
        process.wait(60)
    finally:
        process.kill()
    assert process.returncode == 1
    return [path.read_text() for path in paths]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "flags", "line"),
    [
        ("segmentation", ["--replicas", 2], "first kernel: GPU:0 GPU:1"),
        ("cats_vs_dogs", ["--replicas", 4], "first kernel: GPU:0 GPU:1 GPU:2 GPU:3"),
        ("cyclegan", ["--replicas", 1], "first kernel: GPU:0"),
        ("unet3d", ["--replicas", 4], "first kernel: GPU:0 GPU:1 GPU:2 GPU:3"),
        ("unet3d", ["--split-over", 2], "there is no device GPU:0; TensorFlow sees CPU:0"),  # the first kernel is there
    ],
    ids=["segmentation", "cats_vs_dogs", "cyclegan", "unet3d", "split"],
)
def test_a_program_takes_gpus_where_there_are_any(name, flags, line, command, tmp_path):
    program, *arguments = map(str, command(name, *flags))
    code = f"""
import runpy, sys
stop_at_scope()
sys.argv = {[program, *arguments]!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""
    done = warm_python.run(["-m", "tests.helpers.pretended_gpus", 4, code], tmp_path, cwd=ROOT)
    assert line in done.stdout + done.stderr, done.stderr[-2000:]


@pytest.mark.parametrize("name", SMALL)
def test_a_program_is_short_and_uses_public_names_alone(name):
    text = (ROOT / "examples" / f"{name}.py").read_text()
    assert len(text.splitlines()) < 250
    imported = {line for line in text.splitlines() if "estimator_train" in line and "import" in line}
    assert imported <= {
        "import estimator_train as et",
        "from estimator_train import distribution, input_fns, memory_estimate",
        "from estimator_train.app.datasets import drawn_pets",
        "from estimator_train.input_fns import Skipped  # by its own name, so that workers need not import TensorFlow",
    }
    assert not re.search(r"\b(et|distribution|input_fns|memory_estimate)\._", text)


@pytest.mark.parametrize("name", SMALL)
def test_a_folder_without_data_is_one_line(name, tmp_path):
    words = [ROOT / "examples" / f"{name}.py", "--data-dir", tmp_path, "--model-dir", tmp_path / "run", *SMALL[name]]
    done = warm_python.run(words, tmp_path, env=ENVIRONMENT)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"--data-dir {tmp_path}: ") and "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()
