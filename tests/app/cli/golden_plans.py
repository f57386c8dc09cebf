"""Prints what the command plans for many command lines, and the values of run.json that are no defaults.

tests/app/cli/test_golden_plans.py compares it with tests/data/plans/plans.txt, so that a changed default shows as a
changed line. To rewrite the file: `python -m tests.app.cli.golden_plans > tests/data/plans/plans.txt`
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from unittest import mock

from estimator_train._engine.host import device_names
from estimator_train.app.cli import main
from estimator_train.app.running import plan, planning
from tests.helpers.pretended_checkpoints import pretend

SCANS = "--dataset images --data-dir scans"
OWN = "--input-fn own.py:train --eval-input-fn own.py:evaluate --model own.py:build"
PHASES = "--phases 'freeze=all epochs=2 lr=1e-3; freeze=none epochs=1 lr=1e-5'"
_ENDINGS = 7 * ["jpeg"] + ["png"]  # with these names, a quarter of each class is held out
LINES = (
    "",
    SCANS,
    f"{SCANS} --model vgg16 --image-size 64x48 --batch-size 2 --epochs 3 --model-dir mine --quiet",
    f"{SCANS} --max-steps 10 --limit 8 --seed 3 --fast --resize pad --ignore-orientation --verbose",
    f"{SCANS} --evaluate-every 2",
    f"{SCANS} --evaluate-every 2 --validation 0.25 --keep-best --save-checkpoints-steps 4",
    f"{SCANS} --evaluate-every 2 --validation 0 --early-stopping 3 --monitor accuracy:max",
    f"{SCANS} --model vgg16 --weights none",
    f"{SCANS} --model vgg16 --freeze block4_pool --dropout 0.25",
    f"{SCANS} --model vgg16 --freeze all --cache features",
    f"{SCANS} --model vgg16 {PHASES}",
    f"{SCANS} --optimizer sgd --momentum 0.9 --ema 0.9 --label-smoothing 0.1 --weight-decay 0.01 --clip-norm 1",
    f"{SCANS} --learning-rate 0.1 --schedule cosine --warmup-steps 1 --epochs 9 --replicas 2 --scale-learning-rate",
    f"{SCANS} --gpus 2 --all-reduce nccl --mixed-precision float16 --accumulate-steps 2",
    f"{SCANS} --recompute --jit-compile --steps-per-loop 4 --async-checkpoints",
    f"{SCANS} --augment flip,mixup --cache memory --class-weights balanced",
    f"{SCANS} --deterministic --seed 3 --cache none",
    f"{SCANS} --callbacks own.py:callbacks --log csv",
    f"{SCANS} --find-learning-rate --weight-decay 0.01",
    "--dataset manifest --data-dir numbers.csv --task regression",
    "--dataset manifest --data-dir labels.csv --task multilabel",
    "--dataset oct2017 --split patient",
    OWN,
    f"{OWN} --max-steps 5 --replicas 2 --evaluate-every 2 --keep-best",
    # Flags that replace those of a repeated run.
    "--config all/run.json",
    "--config all/run.json --max-steps 9",
    "--config all/run.json --gpus 3",
    "--config all/run.json --dataset synthetic_oct",
    "--config all/run.json --find-learning-rate",
    f"--config weights/run.json {OWN}",
    f"--config phases/run.json {OWN}",
    f"--config all/run.json {PHASES}",
    "--config phases/run.json --epochs 3",
    "--config phases/run.json --max-steps 3",
    "--config features/run.json --augment flip",
    "--config features/run.json --freeze none",
    f"--config features/run.json {PHASES}",
    "--config chosen/run.json --augment flip",
    f"--config own/run.json --trust-run {SCANS} --model small_cnn",
    "--config weights/run.json --epochs 2",
    "--config weights/run.json --dataset manifest --data-dir numbers.csv --task regression",
    "--model-dir all --resume",
    "--model-dir all --resume --epochs 6 --replicas 4",
)
_BASE = {"dataset": "images", "data_dir": "scans", "model": "vgg16", "image_size": [64, 64], "batch_size": 2}
_BASE |= {"class_names": ["bright", "dark"]}
_OWN = {"input_fn": "own.py:train", "eval_input_fn": "own.py:evaluate", "model": "own.py:build", "class_names": []}
_RUNS = {  # "settings", "training" and other facts of run.json
    "all": (
        _BASE | {"validation": 0.25, "ema": 0.9, "seed": 5},
        {"epochs": 4, "replicas": 2, "all_reduce": "ring", "evaluate_every": 3, "early_stopping": 2}
        | {"keep_best": True, "monitor": "accuracy:max", "learning_rate": 0.1, "schedule": "cosine"}
        | {"warmup_steps": 1, "save_checkpoints_steps": 2, "scale_learning_rate": True},
    ),
    "phases": (_BASE | {"phases": shlex.split(PHASES)[1]}, {}),
    "features": (_BASE | {"freeze": "all"}, {"cache": "features"}),
    "chosen": (_BASE | {"freeze": "all"}, {"cache": "features"}, {"chooses_cache": True}),
    "weights": (_BASE | {"limit": 8, "resize": "pad", "fast": True}, {"class_weights": "balanced", "max_steps": 9}),
    "own": (_OWN, {"max_steps": 5}),
}


def print_plans() -> None:
    """Prints them; the temporary folder of the command lines is called HERE."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as output:
        os.chdir(folder)
        here = os.getcwd()
        os.environ |= {"XDG_CACHE_HOME": f"{here}/cache", "XDG_STATE_HOME": f"{here}/state"}
        _write_files(Path(here))
        with (
            mock.patch.object(planning, "show", _showing_settings(planning.show)),
            mock.patch.object(planning, "is_gpu_there", lambda: True),
            mock.patch.object(plan, "is_gpu_there", lambda: False),
            mock.patch.object(device_names, "processor", lambda: "EPYC, 2 cores"),
            mock.patch.object(device_names, "gpu", lambda: "NVIDIA H200"),
        ):
            for line in LINES:
                print(f"$ estimator_train {line}")
                sys.argv = ["estimator_train", *shlex.split(line), "--dry-run"]
                with contextlib.suppress(SystemExit):
                    main()
                print()
        os.chdir("/")
    print(output.getvalue().replace(here, "HERE"), end="")
    assert "tensorflow" not in sys.modules


def _showing_settings(show):
    def show_both(run):
        show(run)
        for name in ("settings", "training"):
            table = getattr(run, name)
            defaults = {field.name: field.default for field in dataclasses.fields(table)}
            measured = {"class_names", "label_moments"}
            given = {key: value for key, value in vars(table).items() if key not in measured and value != defaults[key]}
            print(f"{name:<12} {json.dumps(given)}")

    return show_both


def _write_files(folder):
    names = [f"scans/{label}/{index}.{kind}" for label in ("bright", "dark") for index, kind in enumerate(_ENDINGS)]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / "numbers.csv").write_text("\n".join(["path,label", *(f"{name},{Path(name).stem}" for name in names)]))
    (folder / "labels.csv").write_text("\n".join(["path,label", *(f"{name},a|b" for name in names)]))
    (folder / "own.py").write_text("train = evaluate = build = callbacks = print\n")
    for name, (settings, training, *others) in _RUNS.items():
        (folder / name).mkdir()
        about = dict(*others, settings=settings, training=training)
        (folder / name / "run.json").write_text(json.dumps(about))
    pretend(folder / "all", 3)


if __name__ == "__main__":
    print_plans()
