"""Random sequences of --resume: other replicas, more or fewer images, other epochs, killed runs, damaged checkpoints.

However a run was resumed, the epochs that it has trained for differ from --epochs by less than a step, an epoch being
the whole steps that the plan says; the plan, training and loggers agree on where it begins and ends. Of --phases, each
may add less than a step. No case trains: checkpoints are pretended, which `tests.fuzz.resumed_trainings` does not.
"""

from __future__ import annotations

import contextlib
import functools
import io
import math
import os
import random
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from estimator_train.app.running.planned_run import PlannedRun
from estimator_train.app.runs import checkpoints

DAMAGES = ("short", "gone", "index", "byte")
RUN = "run"


def draw(rng: random.Random) -> dict:
    """Returns the ways in which a run is started and resumed."""
    legs = [_leg(rng) for _ in range(rng.randint(2, 7))]
    return {"batch": rng.randint(1, 9), "phases": rng.random() < 0.25, "legs": legs}


def _leg(rng):
    return {
        "images": rng.randint(4, 60),
        "replicas": rng.choice([1, 1, 2, 3, 8]),
        "accumulated": rng.choice([1, 1, 2, 5]),
        "epochs": rng.randint(1, 6),
        "saves": rng.randint(1, 5),  # steps between checkpoints
        "share": rng.choice([0.2, 0.5, 0.8, 1]),  # of its steps, after which it is killed
        "damaged": rng.choice([0, 0, 1, 2]),  # of its newest checkpoints
        "damage": rng.choice(DAMAGES),
    }


def smaller(case: dict) -> Iterator[dict]:
    """Yields the case with fewer legs, and with legs in which less happens."""
    legs = case["legs"]
    for index in range(len(legs)):
        if len(legs) > 1:
            yield {**case, "legs": legs[:index] + legs[index + 1 :]}
    if case["phases"]:
        yield {**case, "phases": False}
    usual = {"images": 8, "replicas": 1, "accumulated": 1, "epochs": 2, "saves": 1, "share": 1, "damaged": 0}
    for index, leg in enumerate(legs):
        for name, value in usual.items():
            if leg[name] != value:
                yield {**case, "legs": [*legs[:index], {**leg, name: value}, *legs[index + 1 :]]}


def check(case: dict, directory: Path) -> None:
    """Starts the run and resumes it, each time up to a kill; compares its steps with epochs counted apart."""
    from estimator_train.app.running import build, training

    stage = SimpleNamespace(trained_weights=None, estimator=None)
    with (
        in_directory(directory),
        mock.patch.object(training, "_stages", lambda *_: [stage]),
        mock.patch.object(build, "local_strategy", lambda _: None),
    ):
        epochs = {0: Fraction(0)}  # how many were done, by the steps of the checkpoints
        for leg in case["legs"]:
            draw_images(leg["images"])
            steps_per_epoch = math.ceil(leg["images"] / (case["batch"] * leg["replicas"] * leg["accumulated"]))
            flags = flags_of(case, leg)
            plan, _ = run_command(*flags, "--dry-run")
            with mock.patch.object(training, "_train", functools.partial(_pretend, leg)):
                output, run = run_command(*flags)
            if leg_is_intact(output):
                assert f"steps        {run.last_step}" in plan, f"training ends at {run.last_step}: {plan}"
            begun = run.progress.step
            steps = SimpleNamespace(begun=begun, last=run.last_step, first=run.first_step, per_epoch=steps_per_epoch)
            asked = _phases(case) or [leg["epochs"]]
            check_steps(steps, epochs[begun], sum(asked), slack=len(asked))
            for step in range(begun, run.last_step + 1):
                epochs[step] = epochs[begun] + Fraction(step - begun, steps_per_epoch)
            damage(leg["damage"], leg["damaged"])


def check_steps(steps: SimpleNamespace, done: Fraction, epochs: int, slack: int = 1) -> None:
    """Asserts that a leg trains what is missing of so many `epochs`, `done` before it, up to `slack` steps more."""
    a_step = Fraction(1, steps.per_epoch)
    counted = Fraction(steps.begun - steps.first, steps.per_epoch)
    assert 0 <= done - counted < a_step, f"{float(done)} epochs done, and counted as {float(counted)}: {steps}"
    trained = done + (steps.last - steps.begun) * a_step
    if done < epochs:
        assert 0 <= trained - epochs < slack * a_step, f"{float(trained)} epochs trained, not {epochs}: {steps}"
    else:
        assert steps.last <= steps.begun + slack - 1 or steps.last == 1, f"{float(done)} epochs done: {steps}"


def flags_of(case: dict, leg: dict) -> list[str]:
    """Returns the command line of a leg."""
    flags = ["--data-dir=data", f"--model-dir={RUN}", "--resume", f"--batch-size={case['batch']}", "--image-size=32"]
    flags += [f"--replicas={leg['replicas']}", f"--accumulate-steps={leg['accumulated']}", "--seed=1"]
    flags.append(f"--save-checkpoints-steps={leg['saves']}")
    if not case["phases"]:
        return [*flags, "--model=small_cnn", f"--epochs={leg['epochs']}"]
    phases = "; ".join(f"freeze={number} epochs={epochs}" for number, epochs in enumerate(_phases(case)))
    return [*flags, "--model=vgg16", f"--phases={phases}"]


def _phases(case):
    """Returns the epochs of the phases, which a run keeps; none if it has no phases."""
    return [leg["epochs"] for leg in case["legs"][:2]] * case["phases"]


def draw_images(count: int, draw: Callable[[Path], None] = Path.touch) -> None:
    """Leaves so many images to train on, and two to evaluate on, empty files unless `draw` fills them."""
    for side, number in (("train", count), ("test", 2)):
        for index in range(60):
            path = Path("data", side, "cat" if index % 2 else "dog", f"{index}.png")
            path.parent.mkdir(parents=True, exist_ok=True)
            if index < number:
                draw(path)
            else:
                path.unlink(missing_ok=True)


def damage(kind: str, count: int) -> None:
    """Damages so many of the newest checkpoints, but not all."""
    names = checkpoints.listed(RUN)
    for name in names[max(len(names) - count, 1) :]:
        index, data = (Path(RUN, f"{name}.{end}") for end in ("index", "data-00000-of-00001"))
        content = data.read_bytes()
        if kind == "short":
            data.write_bytes(content[:-1])
        elif kind == "gone":
            data.unlink()
        elif kind == "index":
            index.write_bytes(b"")
        else:
            data.write_bytes(bytes([*content[:-1], content[-1] ^ 1]))


def leg_is_intact(output: str) -> bool:
    """Returns whether training began where the plan said: only TensorFlow finds a wrong byte."""
    return " instead, to step " not in output


def run_command(*flags: str) -> tuple[str, PlannedRun | None]:
    """Runs `train`, which must end well; returns what it prints, and the run if its training was pretended."""
    from estimator_train.app.cli import main

    output, run = io.StringIO(), None
    with (
        mock.patch.object(sys, "argv", ["estimator_train", *flags]),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
    ):
        try:
            main()
        except SystemExit as end:
            assert not end.code, f"{' '.join(flags)}: {output.getvalue()}"
        except Killed as end:
            (run,) = end.args
    return output.getvalue(), run


@contextlib.contextmanager
def in_directory(directory: Path) -> Iterator[None]:
    """Runs a case there."""
    before = os.getcwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


class Killed(BaseException):
    """Ends a training as a kill does."""


def _pretend(leg, job, *_):
    """Pretends to train a share of the steps, and to be killed."""
    import tensorflow as tf

    run = job.run
    begun, last = run.progress.step, run.last_step
    end = begun + max(math.floor((last - begun) * leg["share"]), 0)
    names = checkpoints.listed(RUN)
    if run.progress.checkpoint:
        names = names[: names.index(run.progress.checkpoint) + 1]
    steps = [step for step in range(begun, end + 1) if step % leg["saves"] == 0 or step in (0, end)]
    for step in steps:
        name = f"model.ckpt-{step}"
        value = tf.constant([step] * 4, tf.int64)
        tf.raw_ops.SaveV2(prefix=f"{RUN}/{name}", tensor_names=["x"], shape_and_slices=[""], tensors=[value])
        names = [*(each for each in names if each != name), name]
    lines = [f'model_checkpoint_path: "{names[-1]}"', *(f'all_model_checkpoint_paths: "{name}"' for name in names)]
    Path(RUN, "checkpoint").write_text("\n".join(lines))
    raise Killed(run)
