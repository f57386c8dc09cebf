"""How training scales with the number of replicas: from what `TimingHook` measured of each to a table and a plot."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tabulate

from estimator_train.report import plots

_COLUMNS = {
    "replicas": ("replicas", "d"),
    "steps_per_epoch": ("steps an epoch", "d"),
    "step_ms": ("ms a step", ".1f"),
    "epoch_seconds": ("s an epoch", ".1f"),
    "examples_per_second": ("examples/s", ".1f"),
    "input_wait_share": ("input wait", ".0%"),
    "speed_up": ("speed-up", ".2f"),
    "efficiency": ("efficiency", ".0%"),
}


def scaling(timings: Mapping[int, Mapping[str, Any]], train_examples: int | None = None) -> list[dict[str, Any]]:
    """What people ask of scaling, a dict for each number of replicas.

    Args:
      timings: {replicas: `TimingHook.summary()`}, with the same batch on each replica.
      train_examples: of an epoch; None: data without end, and None for `steps_per_epoch` and `epoch_seconds`.

    Returns:
      Dicts of `replicas`, `steps_per_epoch`, `step_ms`, `epoch_seconds`, `examples_per_second` and `input_wait_share`,
      over all replicas; `speed_up`, how many times the first's examples a second; and `efficiency`, that divided by how
      many times the first's replicas.
    """
    rows = []
    for replicas, timing in timings.items():
        examples_per_step = timing["examples_per_second"] * timing["mean_seconds"]
        steps_per_epoch = train_examples and math.ceil(train_examples / round(examples_per_step))
        first = rows[0] if rows else {**timing, "replicas": replicas}
        speed_up = timing["examples_per_second"] / first["examples_per_second"]
        rows.append(
            {
                "replicas": replicas,
                "steps_per_epoch": steps_per_epoch,
                "step_ms": 1000 * timing["mean_seconds"],
                "epoch_seconds": steps_per_epoch and steps_per_epoch * timing["mean_seconds"],
                "examples_per_second": timing["examples_per_second"],
                "input_wait_share": timing["input_wait_share"],
                "speed_up": speed_up,
                "efficiency": speed_up * first["replicas"] / replicas,
            }
        )
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows of `scaling` as text."""
    texts = [
        ["" if row[name] is None else format(row[name], spec) for name, (_, spec) in _COLUMNS.items()] for row in rows
    ]
    headers = [header for header, _ in _COLUMNS.values()]
    return tabulate.tabulate(texts, headers, disable_numparse=True, colalign=["right"] * len(headers))


def limit(rows: Sequence[Mapping[str, Any]], cores: int | None = None) -> str:
    """A sentence that says what keeps the last of the rows from the ideal, the first's examples a second per replica.

    A step that is ideal takes as long on any number of replicas. Of what the last one's takes longer, most is waiting
    for input or it is not.

    Args:
      rows: of `scaling`, two or more.
      cores: of the CPU that all replicas are on; None: each has a device of its own.
    """
    first, last = rows[0], rows[-1]
    longer = last["step_ms"] - first["step_ms"]
    waits_longer = last["input_wait_share"] * last["step_ms"] - first["input_wait_share"] * first["step_ms"]
    there = f"on {_replicas(last['replicas'])} a step takes {longer:.1f} ms longer than on {first['replicas']}"
    if last["efficiency"] >= 0.9:
        return f"Little limits the scaling: {last['efficiency']:.0%} of the ideal on {_replicas(last['replicas'])}."
    if waits_longer > longer / 2:
        return f"Input limits the scaling: {there}, {waits_longer:.1f} ms of it waiting for input."
    if cores:
        return f"The CPU limits the scaling: {there}, as all replicas share its {cores} cores."
    return (
        f"The fixed cost of a step limits the scaling: {there}, {longer - waits_longer:.1f} ms of it not for input but "
        "for summing gradients and starting each replica; larger batches make that a smaller share."
    )


def plot(rows: Sequence[Mapping[str, Any]], path: str | os.PathLike[str]) -> None:
    """Writes a PNG of the examples per second over the replicas, with the ideal line, and of the time."""
    Path(path).write_bytes(plots.scaling(plots.LIGHT, rows))


def _replicas(count):
    return "1 replica" if count == 1 else f"{count} replicas"
