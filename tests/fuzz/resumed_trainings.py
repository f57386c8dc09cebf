"""As `tests.fuzz.resumes`, with trainings: small ones, which are set back to one of their checkpoints, as by a kill.

Besides, the examples that a checkpoint has counted are those of its steps, and the last line of metrics.csv has the
epochs that were asked for.
"""

from __future__ import annotations

import contextlib
import csv
import math
import random
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from estimator_train.app.runs import checkpoints
from tests.fuzz import command, resumes

RUN = resumes.RUN
_EXAMPLES = "estimator_trained_examples/.ATTRIBUTES/VARIABLE_VALUE"
prepare = command.prepare


def draw(rng: random.Random) -> dict:
    """Returns the ways in which a run is started and resumed."""
    return {"batch": rng.randint(2, 6), "phases": False, "legs": [_leg(rng) for _ in range(rng.randint(2, 3))]}


def _leg(rng):
    return {
        "images": rng.randint(6, 24),
        "replicas": rng.choice([1, 2]),
        "accumulated": rng.choice([1, 1, 2]),
        "epochs": rng.randint(1, 3),
        "saves": rng.randint(1, 3),
        "share": rng.choice([0.3, 0.6, 1]),
        "damaged": rng.choice([0, 0, 1]),
        "damage": rng.choice(resumes.DAMAGES),
    }


def smaller(case: dict) -> Iterator[dict]:
    """Yields simpler variants."""
    return resumes.smaller(case)


def check(case: dict, directory: Path) -> None:
    """Trains, sets the run back and resumes it; compares its steps with epochs counted apart."""
    from estimator_train import distribution
    from estimator_train.app.running import training
    from tests.helpers.command_fixtures import quick_small_cnn

    train, runs = training._train, []

    def recorded(job, *arguments):
        runs.append(job.run)
        return train(job, *arguments)

    with contextlib.ExitStack() as stack:
        for context in (resumes.in_directory(directory), command._without_plots(), quick_small_cnn()):
            stack.enter_context(context)
        stack.enter_context(mock.patch.object(distribution, "cpu_replicas", command._shared_replicas()))
        stack.enter_context(mock.patch.object(training, "_train", recorded))
        done = {0: SimpleNamespace(epochs=Fraction(0), examples=0)}  # by the steps of the checkpoints
        for leg in case["legs"]:
            resumes.draw_images(leg["images"], _draw)
            examples = case["batch"] * leg["replicas"] * leg["accumulated"]  # of a step
            per_epoch = math.ceil(leg["images"] / examples)
            resumes.run_command(*resumes.flags_of(case, leg), "--log=csv")
            begun, first, newest = runs[-1].progress.step, runs[-1].first_step, checkpoints.newest(RUN)
            last = checkpoints.step_of(newest)
            assert last == max(begun, runs[-1].last_step)
            steps = SimpleNamespace(begun=begun, last=last, first=first, per_epoch=per_epoch)
            resumes.check_steps(steps, done[begun].epochs, leg["epochs"])
            if last > begun:
                _check_last_line(leg["epochs"])
            for step in range(begun, last + 1):
                more = step - begun
                epochs, counted = done[begun].epochs + Fraction(more, per_epoch), done[begun].examples + more * examples
                done[step] = SimpleNamespace(epochs=epochs, examples=counted)
            _check_examples(newest, done[last].examples)
            _set_back(leg["share"])
            resumes.damage(leg["damage"], leg["damaged"])


def _draw(path):
    import numpy as np
    from PIL import Image

    pixels = np.random.default_rng(int(path.stem)).integers(0, 256, (8, 8, 3), "uint8")
    Image.fromarray(pixels).save(path)


def _check_last_line(epochs):
    with open(f"{RUN}/metrics.csv") as file:
        *_, last = [row for row in csv.DictReader(file) if row["epoch"]]
    assert float(last["epoch"]) == epochs, f"metrics.csv ends at epoch {last['epoch']} of {epochs}"


def _check_examples(name, examples):
    import tensorflow as tf

    counted = int(tf.train.load_checkpoint(f"{RUN}/{name}").get_tensor(_EXAMPLES))
    assert counted == examples, f"{counted} examples are counted, and {examples} were trained on"


def _set_back(share):
    """Leaves a share of the checkpoints, the oldest ones."""
    names = checkpoints.listed(RUN)
    names = names[: max(1, math.floor(len(names) * share))]
    lines = [f'model_checkpoint_path: "{names[-1]}"', *(f'all_model_checkpoint_paths: "{name}"' for name in names)]
    Path(RUN, "checkpoint").write_text("\n".join(lines))
