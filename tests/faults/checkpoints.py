"""Flipped bits in the newest checkpoint of a run: each is found, and the checkpoint before is taken."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import numpy as np
import tensorflow as tf

from estimator_train._engine import checkpoints
from tests.faults.runs import Row, arguments, run_here


def run(count: int, seed: int, folder: str | os.PathLike[str]) -> list[Row]:
    """Flips a bit each in `count` copies of a run."""
    folder, draw = Path(folder).resolve(), random.Random(seed)
    code, _, error = run_here(arguments("keras", folder, folder / "run", steps=4))
    assert code == 0, error
    newest = checkpoints.latest_intact(str(folder / "run"))
    return [_flip(number, draw, Path(newest), folder) for number in range(count)]


def _flip(number, draw, newest, folder):
    copy = folder / f"copy-{number}"  # each at a different path, because intact checkpoints are remembered by path
    shutil.copytree(newest.parent, copy)
    path = draw.choice(sorted(copy.glob(f"{newest.name}.*")))
    content = bytearray(path.read_bytes())
    place, bit = draw.randrange(len(content)), draw.randrange(8)
    content[place] ^= 1 << bit
    path.write_bytes(content)
    kind = f"bit {bit} of byte {place} of {path.suffix}"
    try:
        taken = checkpoints.latest_intact(str(copy))
        if taken.endswith(newest.name):
            fault = None if _same(taken, str(newest)) else "other values are taken for intact"
            return Row(kind, "the values are the same", fault)
        return Row(
            kind, "passed over", None if _same(taken, str(newest.with_name(Path(taken).name))) else "other values"
        )
    finally:
        shutil.rmtree(copy)


def _same(path, other):
    ours, theirs = tf.train.load_checkpoint(path), tf.train.load_checkpoint(other)
    names = ours.get_variable_to_shape_map().keys()
    return names == theirs.get_variable_to_shape_map().keys() and all(
        np.array_equal(ours.get_tensor(name), theirs.get_tensor(name)) for name in names
    )
