"""Damaged run directories: --resume, report and evaluate continue at the right step, or say in one line why not.

A run of 6 steps is made once, in this process, and copied for each kind of damage.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import estimator_train  # noqa: F401, before TensorFlow

# isort: split
from matplotlib.figure import Figure
from PIL import Image

from tests.faults.runs import Row, call

_STEPS, _MORE = 6, 2  # of the run, and on from there
_COMMANDS = ("resume", "report", "evaluate")

_CODE = """
import tensorflow as tf
import tf_keras as keras

def input_fn():
    return tf.data.Dataset.from_tensors((tf.ones([1, 1]), tf.ones([1, 1]))).repeat()

def eval_input_fn():
    return tf.data.Dataset.from_tensors((tf.ones([1, 1]), tf.ones([1, 1])))

def build():
    model = keras.Sequential([keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", input_shape=(1,))])
    model.compile(keras.optimizers.SGD(0.05), "mse")
    return model
"""


class Kind(NamedTuple):
    """A kind of damage: `harm` is called with the run's folder; `at` is the step of the newest whole checkpoint."""

    name: str
    harm: Callable[[Path], object]
    at: int = _STEPS
    place: str = "run"  # the folder's name


def run(count: int, seed: int, folder: str | os.PathLike[str]) -> list[Row]:
    """Tries `count` kinds, drawn with `seed`, below `folder`, each with two commands; or all, with all commands."""
    folder, tries_all = Path(folder).resolve(), count >= len(KINDS)
    kinds = KINDS if tries_all else random.Random(seed).sample(KINDS, count)
    plots = contextlib.nullcontext() if tries_all else _plots_of_one_dot()  # drawing takes half of the time
    with _chdir(folder), plots:
        original = _make_run(folder)
        tried = [
            (kind, command)
            for index, kind in enumerate(kinds)
            for command in (_COMMANDS if tries_all else ("resume", _COMMANDS[1 + index % 2]))
        ]
        return [_try(kind, command, original, folder) for kind, command in tried]


def _make_run(folder):
    (folder / "own.py").write_text(_CODE)
    flags = ["--model-dir", "original", "--max-steps", str(_STEPS), "--save-checkpoints-steps", "2"]
    code, output, error = call([*_own_flags(folder), *flags])
    assert code == 0, output + error
    return folder / "original"


def _own_flags(folder):
    own = folder / "own.py"
    return ["--input-fn", f"{own}:input_fn", "--eval-input-fn", f"{own}:eval_input_fn", "--model", f"{own}:build"]


def _try(kind, command, original, folder):
    home = folder / "tried"
    home.mkdir()
    try:
        place = home / kind.place
        shutil.copytree(original, place)
        kind.harm(place)
        model_dir = ["--model-dir", os.path.relpath(place, folder)]
        if command == "resume":
            own = [] if (place / "run.json").exists() else _own_flags(folder)
            code, output, error = call([*own, *model_dir, "--resume", "--max-steps", str(_STEPS + _MORE)])
            fault = _fault_of_training(code, output + error, kind.at, place)
        else:
            code, output, error = call([command, *model_dir])
            fault = _fault_of_evaluation(code, kind.at, place)
        fault = fault or _fault_of_any(code, error)
    finally:
        shutil.rmtree(home)
    last = (error if code else output).strip().splitlines() or [""]
    outcome = "goes on" if code == 0 else last[-1].removeprefix("estimator_train: ").replace(str(folder), "")
    return Row(f"{kind.name}, {command}", outcome, fault)


def _fault_of_any(code, error):
    if "Traceback" in error:
        return "a traceback"
    if code not in (0, 2):
        return f"exit code {code}"
    lines = [line for line in error.splitlines() if line.startswith("estimator_train: ")]
    return f"{len(lines)} lines of errors" if code == 2 and len(lines) != 1 else None


def _fault_of_evaluation(code, at, place):
    """Checks that a successful evaluation used the newest complete checkpoint."""
    if code != 0:
        return None
    step = json.loads((place / "evaluations.jsonl").read_bytes().splitlines()[-1])["step"]
    return None if step == at else f"step {step} was evaluated, and not {at}"


def _fault_of_training(code, said, at, place):
    """Checks that successful training continued from step `at`, or said that there is no checkpoint."""
    if code != 0:
        return None
    timing = json.loads((place / "timing.json").read_text())
    trained = timing["steps"] + timing["warmup_steps"]
    if trained != _STEPS + _MORE - at:
        return f"{trained} steps were trained, from step {_STEPS + _MORE - trained} on and not from {at}"
    if at == 0 and "starts at step 0" not in said:
        return "a silent restart"
    return None


def _plots_of_one_dot():
    dot = io.BytesIO()
    Image.new("RGB", (1, 1)).save(dot, "png")
    return mock.patch.object(Figure, "savefig", lambda figure, file, **_: file.write(dot.getvalue()))


@contextlib.contextmanager
def _chdir(folder):  # contextlib.chdir is Python 3.11's
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


# Kinds of damage to a file, each a function of its path.


def _missing(path):
    path.unlink()


def _empty(path):
    path.write_bytes(b"")


def _torn(path):
    path.write_bytes(path.read_bytes()[: -max(1, path.stat().st_size // 3)])


def _garbage(path):
    path.write_bytes(bytes(range(128, 256)) * 3)


def _a_folder(path):
    path.unlink()
    path.mkdir()


def _another_type(path):
    path.write_text("[1, 2]\n")


def _a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def _text_behind(path):
    with path.open("ab") as file:
        file.write(b"more text")


def _dangling(path):
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


def _elsewhere(path):
    """Replaces the file by a link to another directory."""
    target = path.parent.parent / f"linked-{path.name}"
    path.rename(target)
    path.symlink_to(target)


_DAMAGES = {
    "run.json": (
        _missing,
        _empty,
        _torn,
        _garbage,
        _a_folder,
        _another_type,
        _a_pipe,
        _text_behind,
        _dangling,
        _elsewhere,
    ),
    "checkpoint": (_missing, _empty, _torn, _garbage, _a_folder, _another_type, _text_behind, _dangling, _elsewhere),
    f"model.ckpt-{_STEPS}.index": (_missing, _empty, _torn, _garbage, _a_folder, _text_behind, _elsewhere),
    f"model.ckpt-{_STEPS}.data-00000-of-00001": (_missing, _empty, _torn, _garbage, _a_folder, _elsewhere),
    "evaluations.jsonl": (
        _missing,
        _empty,
        _torn,
        _garbage,
        _a_folder,
        _another_type,
        _text_behind,
        _dangling,
        _elsewhere,
    ),
    "timing.json": (_missing, _empty, _torn, _garbage, _a_folder, _another_type, _text_behind, _elsewhere),
    "graph.pbtxt": (_missing, _empty, _garbage, _a_folder),
    "events": (_missing, _empty, _torn, _garbage, _a_folder, _text_behind),
    "eval/events": (_missing, _empty, _torn, _garbage, _a_folder, _text_behind),
    "report/report.html": (_missing, _garbage, _a_folder),
}
# An index that is a whole table, and then some, is read as it was.
_NOT_THE_NEWEST = {_missing, _empty, _torn, _garbage, _a_folder, _text_behind}


def _to(name, damage):
    def harm(folder):
        path = folder / name
        if name.endswith("events"):
            (path,) = path.parent.glob("events.out.tfevents.*")
        damage(path)

    return harm


def _of_files():
    for name, damages in _DAMAGES.items():
        for damage in damages:
            is_newest = name.startswith("model.ckpt") and damage in _NOT_THE_NEWEST
            yield Kind(
                f"{name}: {damage.__name__.strip('_').replace('_', ' ')}",
                _to(name, damage),
                _STEPS - 2 if is_newest else _STEPS,
            )


def _settings(**changes):
    def harm(folder):
        run = json.loads((folder / "run.json").read_text())
        run["settings"] |= changes
        (folder / "run.json").write_text(json.dumps(run))

    return harm


def _top(**changes):
    def harm(folder):
        (folder / "run.json").write_text(json.dumps(json.loads((folder / "run.json").read_text()) | changes))

    return harm


def _without(*names):
    """Rewrites the file as an earlier version did."""

    def harm(folder):
        run = json.loads((folder / "run.json").read_text())
        for name in names:
            run.pop(name, None)
            run.get("settings", {}).pop(name, None)
        (folder / "run.json").write_text(json.dumps(run))

    return harm


def _state(text):
    return lambda folder: (folder / "checkpoint").write_text(text.replace("FOLDER", str(folder)))


def _without_files(pattern):
    def harm(folder):
        for path in folder.glob(pattern):
            path.unlink()

    return harm


def _each_file(pattern, damage):
    def harm(folder):
        for path in list(folder.glob(pattern)):
            damage(path)

    return harm


def _file_in_place_of(name):
    def harm(folder):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).write_text("a file")

    return harm


def _symlinked(folder):
    folder.rename(folder.with_name("target"))
    folder.symlink_to(folder.with_name("target"))


def _to_nowhere(folder):
    shutil.rmtree(folder)
    folder.symlink_to(folder.with_name("nowhere"))


def _is_a_file(folder):
    shutil.rmtree(folder)
    folder.write_text("a file")


def _moved(folder):
    """Writes absolute paths of a previous directory to the `checkpoint` file, as v1 savers do."""
    names = [f"model.ckpt-{step}" for step in range(0, _STEPS + 1, 2)]
    lines = [f'all_model_checkpoint_paths: "/was/there/{name}"' for name in names]
    (folder / "checkpoint").write_text("\n".join([f'model_checkpoint_path: "/was/there/{names[-1]}"', *lines, ""]))


def _litter(folder):
    (folder / "model.ckpt-8_temp").mkdir()
    (folder / "model.ckpt-8_temp" / "part-00000-of-00001.data-00000-of-00001").write_bytes(b"half")
    (folder / "model.ckpt-8.data-00000-of-00001").write_bytes(b"half")
    (folder / f"graph.pbtxt.tmp{'a' * 32}").write_bytes(b"half")
    (folder / f"checkpoint.tmp{'b' * 32}").write_bytes(b"half")
    (folder / "export" / "best" / "temp-1700000000").mkdir(parents=True)


def _torn_whole_run(folder):
    for path in folder.rglob("*"):
        if path.is_file():
            _torn(path)


def _empty_whole_run(folder):
    for path in folder.rglob("*"):
        if path.is_file():
            _empty(path)


def _copies(folder):
    for path in list(folder.iterdir()):
        if path.is_file():
            shutil.copy(path, path.with_name(f"{path.name} (copy)"))
            shutil.copy(path, path.with_name(f"Copy of {path.name}"))


def _read_only(folder):
    for path in [*folder.rglob("*"), folder]:
        path.chmod(0o500 if path.is_dir() else 0o400)


def _nothing(folder):
    pass


KINDS = [
    *_of_files(),
    Kind("run.json: deeply nested", lambda folder: (folder / "run.json").write_text("[" * 100_000)),
    Kind(
        "run.json: of an earlier version", _without("fast", "limit", "split", "training", "data", "versions", "devices")
    ),
    Kind("run.json: of a later version", _settings(a_new_setting=1)),
    Kind("run.json: without settings", _without("settings")),
    Kind("run.json: without a model", _without("model")),
    Kind("run.json: class_names null", _settings(class_names=None)),
    Kind("run.json: class_names a number", _settings(class_names=3)),
    Kind("run.json: model a list", _settings(model=["small_cnn"])),
    Kind("run.json: an input_fn that is gone", _settings(input_fn="/nowhere/own.py:input_fn")),
    Kind("run.json: image_size a word", _settings(image_size="large")),
    Kind("run.json: batch_size a word", _settings(batch_size="many")),
    Kind("run.json: training a list", _top(training=[1])),
    Kind("run.json: training of other types", _top(training={"max_steps": "all", "steps_per_loop": None})),
    Kind("run.json: data a word", _top(data="images")),
    Kind("run.json: data of another form", _top(data={"train": 3, "eval": 1, "classes": {"train": {"a": 3}}})),
    Kind("run.json: versions a list", _top(versions=["2.16"])),
    Kind("run.json: command a number", _top(command=5)),
    Kind("run.json: of a recipe", _top(settings={"recipe": "segmentation"})),
    Kind("run.json: recipe a number", _settings(recipe=5)),
    Kind(
        "evaluations.jsonl: torn in the middle", lambda folder: (folder / "evaluations.jsonl").write_text('{"st\n{}\n')
    ),
    Kind(
        "evaluations.jsonl: without steps",
        lambda folder: (folder / "evaluations.jsonl").write_text('{"metrics": {}}\n'),
    ),
    Kind(
        "timing.json: words for numbers",
        lambda folder: (folder / "timing.json").write_text('{"steps_per_second": "x"}'),
    ),
    Kind("checkpoint: names one that is gone", _state('model_checkpoint_path: "model.ckpt-99"\n')),
    Kind("checkpoint: names an older one", _state('model_checkpoint_path: "model.ckpt-4"\n'), at=4),
    Kind("checkpoint: torn after its first line", _state('model_checkpoint_path: "model.ckpt-6"\nall_model_ch')),
    Kind("checkpoint: absolute paths", _state('model_checkpoint_path: "FOLDER/model.ckpt-6"\n')),
    Kind("checkpoint: absolute paths of another folder", _moved),
    Kind("checkpoint: names a folder", _state('model_checkpoint_path: "eval"\n')),
    Kind("every index missing", _without_files("*.index"), at=0),
    Kind("every data file missing", _without_files("*.data-*"), at=0),
    Kind("every checkpoint missing", _without_files("model.ckpt-*"), at=0),
    Kind("every checkpoint and the checkpoint file missing", _each_file("*ckpt-*", _missing), at=0),
    Kind("every data file torn", _each_file("*.data-*", _torn), at=0),
    Kind("no checkpoint, nor the checkpoint file", _without_files("[mc]*ckp*"), at=0),
    Kind("the two newest damaged", _each_file("model.ckpt-[46].data-*", _garbage), at=2),
    Kind("a checkpoint of no Estimator", lambda folder: _copy_checkpoint(folder, "model.ckpt-6", "other-9")),
    Kind("every file torn", _torn_whole_run, at=0),
    Kind("every file empty", _empty_whole_run, at=0),
    Kind("every file twice", _copies),
    Kind("what a kill left", _litter),
    Kind("a file in place of eval", _file_in_place_of("eval")),
    Kind("a file in place of report", _file_in_place_of("report")),
    Kind("a file in place of export", _file_in_place_of("export")),
    Kind("read-only", _read_only),
    Kind("a link to the folder", _symlinked),
    Kind("a link to nowhere", _to_nowhere, at=0),
    Kind("a file in place of the folder", _is_a_file, at=0),
    Kind("brackets in its name", _nothing, place="a[1]"),
    Kind("a star in its name", _nothing, place="a*b"),
    Kind("a question mark in its name", _nothing, place="a?"),
    Kind("braces in its name", _nothing, place="{a,b}"),
    Kind("spaces in its name", _nothing, place=" a b "),
    Kind("umlauts and emoji in its name", _nothing, place="lÄuf-🎯"),
    Kind("dollars in its name", _nothing, place="$a_$"),
    Kind("a percent sign in its name", _nothing, place="%s%d"),
    Kind("a quote in its name", _nothing, place='a"b'),
    Kind("a newline in its name", _nothing, place="a\nb"),
    Kind("a backslash in its name", _nothing, place="a\\b"),
    Kind("a leading dash in its name", _nothing, place="-a"),
    Kind("model.ckpt-9 for its name", _nothing, place="model.ckpt-9.index"),
    Kind("a long name", _nothing, place="n" * 200),
]


def _copy_checkpoint(folder, name, other):
    for path in list(folder.glob(f"{name}.*")):
        shutil.copy(path, folder / path.name.replace(name, other))
