"""Random flags of `estimator_train train`, then --resume and the commands that follow.

Each command must end with exit code 0, or with one line. A training that ends well must have reached its last step, and
what --json prints must be JSON. Most cases keep to the rules of `app/runs/spec.py` and to what the dataset can do.

Left out: several processes, killed trainings (tests/faults), and packages that are not installed.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from estimator_train.app.cli.commands.train import train
from estimator_train.app.errors import SettingError
from estimator_train.app.models import TASKS
from estimator_train.app.models.optimization import OPTIMIZERS, SCHEDULES
from estimator_train.app.runs.rules import check_rules
from estimator_train.app.runs.spec import RESIZES, RULES
from estimator_train.app.runs.values import Augmentations
from tests.fuzz import command_data

FILES = {
    "synthetic_oct": {"dataset": "synthetic_oct"},
    "oct2017": {"dataset": "oct2017", "data-dir": "OCT2017"},
    "images": {"dataset": "images", "data-dir": "scans"},
    "split_images": {"dataset": "images", "data-dir": "pets"},
    "manifest": {"dataset": "manifest", "data-dir": "labels.csv"},
    "multilabel": {"dataset": "manifest", "data-dir": "findings.csv", "task": "multilabel"},
    "one_label": {"dataset": "manifest", "data-dir": "finding.csv", "task": "multilabel"},
    "regression": {"dataset": "manifest", "data-dir": "ages.csv", "task": "regression"},
    "cats_vs_dogs": {"dataset": "cats_vs_dogs", "data-dir": "pets"},
}
ARRAYS = {
    "fashion_mnist": {"dataset": "fashion_mnist"},
    "npz": {"dataset": "npz", "data-dir": "arrays.npz"},
    "npz_floats": {"dataset": "npz", "data-dir": "arrays.npz"},
    "tfrecord": {"dataset": "tfrecord", "data-dir": "records"},
    "tfds": {"dataset": "tfds:mnist"},
    "hf": {"dataset": "hf", "data-dir": "saved"},
}
OWN = {
    "own_images": {"input-fn": "own.py:train_images", "eval-input-fn": "own.py:eval_images"},
    "own_vectors": {"input-fn": "own.py:train_vectors", "eval-input-fn": "own.py:eval_vectors"},
}
DATASETS = {**FILES, **ARRAYS, **OWN}
MODELS = ("plain", "normalized", "without_metrics", "of_logits", "of_keras_3", "subclassed")
WEIGHTS = "backbone.h5"  # of mobilenet, written for the cases that name it
AUGMENTATIONS = Augmentations.NAMES
MONITORS = ("loss", "accuracy", "accuracy:max", "macro_f1", "macro_roc_auc", "mae:min", "nothing")
FOLDERS = ("runs/a b", "läufe", "link/../run", "run:1", "-run", "run\udcff")
CALLBACKS = ("stopping", "of_rates", "of_batches", "of_keras_3_batches")
STEPS = 3


def draw(rng: random.Random) -> dict:
    """Returns a dataset, the flags to train with and to resume with, and the commands that follow."""
    folder = rng.choice(FOLDERS) if rng.random() < 0.3 else "run"
    dataset = rng.choice(list(DATASETS))
    flags = {**DATASETS[dataset], "model-dir": folder}
    flags["model"] = _model(rng, dataset)
    if flags["model"] == "mobilenet":
        flags["weights"] = rng.choice([WEIGHTS, WEIGHTS, "none"])
    if rng.random() < 0.85 or dataset in OWN:
        sizes = {"own_images": ["16"], "own_vectors": ["16"]}.get(dataset, ["16", "16x24", "32"])
        flags["image-size"] = rng.choice(sizes) if flags["model"] != "mobilenet" else "32"
    careful = rng.random() < 0.9
    for more in rng.sample(optional := list(_optional(rng, dataset, flags)), len(optional)):
        _add(flags, more, careful)
    if not flags.keys() & {"epochs", "phases", "find-learning-rate"}:
        flags["max-steps"] = STEPS
    resumed = None
    if rng.random() < 0.4:
        resumed = {"resume": True, "model-dir": folder}
        if "phases" not in flags:
            resumed |= {"max-steps": STEPS + 2}
        changes = [
            {"learning-rate": 0.001}, {"replicas": 2}, {"steps-per-loop": 2}, {"accumulate-steps": 2}, {"quiet": True},
            {"evaluate-every": 1}, {"evaluate-every": 2, "keep-best": True, "monitor": rng.choice(MONITORS)},
 {"trust-run": True}, {"augment": "flip"}, {"optimizer": "adam"},
        ]  # fmt: skip
        for more in rng.sample(changes, rng.choice([0, 0, 1, 2])):
            if not (careful and _is_refused({**flags, **more})):
                resumed |= more
    return {
        "dataset": dataset,
        "flags": flags,
        "resumed": resumed,
        "verbs": _verbs(rng, folder, dataset),
        "plots": rng.random() < 0.05,
        "seed": rng.randrange(1000),
    }


def smaller(case: dict) -> Iterator[dict]:
    """Yields the case with fewer commands and flags, and with the usual folder."""
    if case["resumed"] is not None:
        yield {**case, "resumed": None}
    for index in range(len(case["verbs"])):
        yield {**case, "verbs": case["verbs"][:index] + case["verbs"][index + 1 :]}
    if case["plots"]:
        yield {**case, "plots": False}
    for part in ("flags", "resumed"):
        for flag in case[part] or ():
            if flag not in ("resume", "model-dir"):
                yield {**case, part: {name: value for name, value in case[part].items() if name != flag}}
    folder = case["flags"]["model-dir"]
    if folder != "run":
        yield json.loads(json.dumps(case).replace(json.dumps(folder), '"run"'))


def check(case: dict, directory: Path) -> None:
    """Runs the commands in turn; if the training ends with a line, so may the others."""
    import tf_keras as keras

    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(directory) if sys.version_info >= (3, 11) else _chdir(directory))
        home = {f"XDG_{name}_HOME": str(directory / name) for name in ("STATE", "CACHE")}
        stack.enter_context(mock.patch.dict(os.environ, home))
        if not case["plots"]:
            stack.enter_context(_without_plots())
        stack.enter_context(command_data.without_downloads(case["dataset"]))
        command_data.write(case["dataset"], directory)
        shutil.copy(Path(__file__).with_name("command_code.py"), "own.py")
        Path("elsewhere", "deep").mkdir(parents=True)
        Path("link").symlink_to(Path("elsewhere", "deep"))
        if case["flags"].get("weights") == WEIGHTS:
            shutil.copy(_backbone(), WEIGHTS)
        keras.backend.clear_session()
        keras.utils.set_random_seed(case["seed"])
        if _run(arguments(case["flags"])) == 0:
            _check_steps(case["flags"])
            if case["resumed"] is not None:
                _run(arguments(case["resumed"]))
        for verb in case["verbs"]:
            _run(verb)


def arguments(flags: dict) -> list[str]:
    """Returns flags as the words of a command line."""
    return [
        word for flag, value in flags.items() for word in ([f"--{flag}"] if value is True else [f"--{flag}={value}"])
    ]


def _optional(rng, dataset, flags):
    """Yields flags that may be added, in groups that belong together."""
    choice, chance = rng.choice, rng.random
    likely = {
        "batch-size": [1, 2, 3, 4], "learning-rate": [0.01, 1e-4], "replicas": [1, 2, 2], "seed": [0, 7],
        "steps-per-loop": ["auto", 2, 5], "save-checkpoints-steps": [1, 2], "evaluate-every": [1, 2, 3],
    }  # fmt: skip
    for flag, values in likely.items():
        if chance() < (0.8 if flag == "batch-size" else 0.3):
            yield {flag: choice(values)}
    rare = {
        "accumulate-steps": [2, 3], "optimizer": list(OPTIMIZERS), "schedule": list(SCHEDULES),
        "warmup-steps": [1, 2], "scale-learning-rate": [True], "weight-decay": [0, 0.01], "clip-norm": [0.5],
        "ema": [0, 0.9], "label-smoothing": [0.1], "dropout": [0, 0.3], "mixed-precision": ["bfloat16", "float16"],
        "recompute": [True], "jit-compile": [True], "async-checkpoints": [True], "deterministic": [True],
        "trust-run": [True],
        "callbacks": [f"own.py:{name}" for name in CALLBACKS], "log": ["csv", "csv,tensorboard"],
        "quiet": [True], "verbose": [True], "augment": [",".join(rng.sample(AUGMENTATIONS, rng.choice([1, 2, 4])))],
    }  # fmt: skip
    for flag, values in rare.items():
        if chance() < 0.1:
            yield {flag: choice(values)}
    if chance() < 0.1:
        yield {"optimizer": choice(["sgd", "rmsprop", "adam"]), "momentum": choice([0, 0.9])}
    if chance() < 0.15:
        yield {"replicas": 2, "all-reduce": choice(["one_device", "one_device", "hierarchical", "nccl"])}
    if chance() < 0.2:
        yield {"evaluate-every": 1, **choice([{"early-stopping": 1}, {"keep-best": True}]), "monitor": choice(MONITORS)}
    if chance() < 0.1:
        yield {"evaluate-every": 1, "validation": choice([0, 0.1, 0.4])}
    if chance() < 0.2:
        yield {"epochs": choice([1, 2])}
    suitable = chance() < 0.05
    if suitable or (dataset not in OWN and dataset not in ("tfds", "tfrecord")):
        yield from [{"limit": choice([2, 5, 8])}] * (chance() < 0.2)
    if suitable or dataset in FILES:
        yield from [{"cache": choice(["memory", "cached", "features"])}] * (chance() < 0.3)
        yield from [{"fast": True}] * (chance() < 0.2)
        yield from [{"resize": choice(RESIZES)}] * (chance() < 0.2)
        yield from [{"ignore-orientation": True}] * (chance() < 0.1)
    if suitable or dataset in ("synthetic_oct", "oct2017"):
        yield from [{"split": "patient"}] * (chance() < 0.3)
    if suitable or dataset in ("images", "manifest", "npz_floats", "cats_vs_dogs", "oct2017"):
        yield from [{"class-weights": choice(["balanced", "weights.json"])}] * (chance() < 0.3)
    if suitable or flags["model"] == "mobilenet":
        yield {"freeze": choice(["all", "none", "3", "conv1_relu", "nowhere"])}
        yield from [{"cache": "features"}] * (chance() < 0.3)
        phases = {"phases": "freeze=all epochs=1 lr=1e-3; freeze=none epochs=1 lr=1e-4"}
        phases |= choice([{}, {"ema": 0.9}, {"evaluate-every": 1, "early-stopping": 1}])
        yield from [phases] * (chance() < 0.4)
    if chance() < 0.03:
        yield {"find-learning-rate": True}
    if chance() < 0.04:
        yield choice([{"gpus": 1}, {"task": choice(TASKS)}, {"log": "mlflow"}])


def _model(rng, dataset):
    if dataset == "own_vectors":
        return "own.py:of_vectors"
    if dataset not in OWN and rng.random() < 0.15:
        return rng.choice(["small_cnn", "small_cnn", "fashion_mnist_cnn", "mobilenet"])
    tasks = ("multilabel", "one_label", "regression")
    return f"own.py:{rng.choice([name for name in MODELS if name != 'of_logits' or dataset not in tasks])}"


def _add(flags, more, carefully):
    """Adds flags; carefully, only if neither a rule of the command nor the model or the dataset refuses them."""
    added = {**flags, **more}
    given = {parameter.name: None for parameter in train.params}
    given |= {flag.replace("-", "_"): value for flag, value in added.items()}
    try:
        check_rules(given, RULES)
    except SettingError:
        if carefully:
            return
    if not (carefully and _is_refused(added)):
        flags.update(more)


def _is_refused(flags):
    """Returns whether a model, a dataset or several replicas refuse one of the flags."""
    model, task, weights = flags.get("model", "").removeprefix("own.py:"), flags.get("task"), flags.get("class-weights")
    of_keras_3, several = model == "of_keras_3", flags.get("replicas", 1) > 1
    knows_dark_and_bright = flags.get("data-dir") in ("scans", "labels.csv", "arrays.npz")
    return (
        ("dropout" in flags and model in ("plain", "without_metrics", "of_logits", "subclassed", "of_vectors"))
        or ("label-smoothing" in flags and (task == "regression" or model == "of_vectors"))
        or ("augment" in flags and model == "of_vectors")
        or ("recompute" in flags and (of_keras_3 or model == "subclassed"))
        or ("mixed-precision" in flags and (model == "subclassed" or (of_keras_3 and several)))
        or ("callbacks" in flags and ("keras_3" in flags["callbacks"]) != of_keras_3)
        or (flags.get("freeze", "none") != "none" and (flags.get("weights") != WEIGHTS or flags["freeze"] == "nowhere"))
        or (flags.get("cache") == "features" and flags.get("freeze", "none") == "none")
        or (flags.get("monitor", "loss") != "loss" and (task is not None or "input-fn" in flags))
        or (flags.get("monitor") in ("nothing", "mae:min"))
        or (flags.get("all-reduce") == "nccl")
        or (weights is not None and (task is not None or (weights != "balanced" and not knows_dark_and_bright)))
        or (flags.get("limit", 20) < 8)
        or ("split" in flags and flags.get("dataset") != "oct2017")
        or (flags.get("validation") and (flags.get("limit") or flags.get("dataset") in ("tfrecord", "cats_vs_dogs")))
    )


def _verbs(rng, folder, dataset):
    """Returns some commands for the run in `folder`."""

    def of_run(verb, *words, share=0.3):
        if rng.random() < share:
            words = (*words, f"--checkpoint={rng.choice(['best', 'latest', '3', '2', f'{folder}/model.ckpt-3', '9'])}")
        return [verb, f"--model-dir={folder}", *words]

    form = [[], [], ["--json"], ["--csv"]]
    forms_of_predict = [*form, ["--out=p.csv"], ["--out=p.json"], ["--out=p.parquet"]]
    files = [["scans"], ["scans/*/*.png"], ["scans/dark/51.png", "L.png", "RGBA.png"], ["P.png", "I16.png"]]
    files += [["torn.png", "L.png"], ["nothing.png"], ["own.py"], ["elsewhere"]]
    kinds = ["saved_model"] * 3 + ["keras"] * 3 + ["weights"] * 3 + ["onnx"]
    kinds += ["tflite", "tflite_float16", "tflite_dynamic_range", "tflite_int8"]
    again = [f"--config={folder}/run.json", "--model-dir=again", "--seed=2", "--max-steps=1"]
    verbs = [
        of_run("evaluate", *rng.choice(form), *rng.choice([[], ["--predictions=p.csv"], ["--choose-thresholds"]])),
        ["evaluate", f"--model-dir={folder}", "--all", *rng.choice(form)],
        of_run("predict", *rng.choice(forms_of_predict), *rng.choice([[], [], ["--top=2"]]), *rng.choice(files)),
        of_run("export", f"--format={rng.choice(kinds)}", "--out=exported"),
        of_run("report", share=0.15),
        ["compare", "--", folder, rng.choice(["again", "again", folder, "elsewhere"])],
        rng.choice([["--resume", f"--model-dir={folder}", "--dry-run"], [*again, "--dry-run"]]),
    ]
    kept = [verb for verb in verbs if rng.random() < 0.3]
    if rng.random() < 0.2 or any("again" in verb for verb in kept[:-1]):
        kept.insert(0, again)
    return kept


def _run(words):
    """Runs the command; returns its exit code, and raises AssertionError unless it ends as it should."""
    import tensorflow as tf

    from estimator_train import distribution
    from estimator_train.app.cli import main

    output, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", each) for each in ("strict", "backslashreplace"))
    level, code = tf.get_logger().level, 0
    line = " ".join(words)
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(sys, "argv", ["estimator_train", *words]))
        # A process can have one strategy of two replicas with collective ops.
        stack.enter_context(mock.patch.object(distribution, "cpu_replicas", _shared_replicas()))
        stack.enter_context(contextlib.redirect_stdout(output))
        stack.enter_context(contextlib.redirect_stderr(errors))
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    tf.get_logger().setLevel(level)  # --quiet and --verbose change it
    printed, said = (_text(stream) for stream in (output, errors))
    print(f"estimator_train {ascii(line)}: {code}", said if code else "")
    assert "Traceback" not in said, f"{line}: {said}"
    assert code in (0, 1, 2), f"{line}: exit code {code}: {said}"
    last = said.rstrip().rpartition("\n")[2]
    assert not code or words[0] == "predict" or last.startswith("estimator_train: "), f"{line}: {said}"
    if "--json" in words and not code:
        json.loads(printed)
    return code


def _text(stream):
    stream.flush()
    return stream.buffer.getvalue().decode("utf-8")


def _check_steps(flags):
    """Asserts that a training without reasons to stop earlier has the checkpoint of its last step."""
    if "max-steps" in flags and not flags.keys() & {"early-stopping", "callbacks", "find-learning-rate", "resume"}:
        last = Path(flags["model-dir"], f"model.ckpt-{flags['max-steps']}.index")
        assert last.exists(), f"{last} is missing"


@functools.cache
def _shared_replicas():
    from estimator_train import distribution

    return functools.cache(distribution.cpu_replicas)


@contextlib.contextmanager
def _without_plots():
    """Spares plots and Grad-CAM, which take seconds."""
    from PIL import Image

    from estimator_train.app.report import plots
    from estimator_train.app.running.reporting import Reporter

    file = io.BytesIO()
    Image.new("RGB", (1, 1)).save(file, "png")
    names = "compared_curves confusion_matrix curves learning_rate reliability samples scaling scatter throughput"
    with contextlib.ExitStack() as stack:
        for name in names.split():
            stack.enter_context(mock.patch.object(plots, name, lambda theme, *values: file.getvalue()))
        stack.enter_context(mock.patch.object(Reporter, "_with_heat", lambda _, mistakes: mistakes))
        yield


@functools.cache
def _backbone():
    """Returns a file of random weights for mobilenet."""
    import tf_keras as keras

    path = Path(tempfile.mkdtemp(prefix="fuzz"), WEIGHTS)
    keras.applications.MobileNet(weights=None, include_top=False, input_shape=(32, 32, 3)).save_weights(path)
    return path


@contextlib.contextmanager
def _chdir(directory):  # contextlib.chdir of Python 3.11
    before = os.getcwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def prepare() -> None:
    """Makes the logical devices of replicas, before TensorFlow starts."""
    from estimator_train._engine.distribution.strategies import logical_cpus

    logical_cpus(2)
