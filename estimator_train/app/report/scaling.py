"""Shows how training scales with the number of replicas, as a table and a plot of `TimingHook`'s measurements."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import tabulate

from estimator_train._engine.host.files import write_whole
from estimator_train._engine.host.paths import StrPath
from estimator_train.app.report import plots

_COLUMNS = {
    "replicas": ("replicas", "d"),
    "steps_per_epoch": ("steps/epoch", "d"),
    "step_ms": ("ms/step", ".1f"),
    "epoch_seconds": ("s/epoch", ".1f"),
    "examples_per_second": ("examples/s", ".1f"),
    "input_wait_share": ("input wait", ".0%"),
    "speed_up": ("speed-up", ".2f"),
    "efficiency": ("efficiency", ".0%"),
}


def scaling(timings: Mapping[int, Mapping[str, Any]], train_examples: int | None = None) -> list[dict[str, Any]]:
    """Computes speed-up and efficiency for each number of replicas.

        >>> timings = {n: {"examples_per_second": rate, "mean_seconds": 0.1, "input_wait_share": 0.0}
        ...            for n, rate in {1: 100.0, 2: 150.0}.items()}
        >>> scaling(timings)[1]["speed_up"], scaling(timings)[1]["efficiency"]
        (1.5, 0.75)

    The `timings` are {replicas: `TimingHook.summary()`}, with the same batch size per replica. In the dicts returned,
    `replicas`, `steps_per_epoch`, `step_ms`, `epoch_seconds`, `examples_per_second` and `input_wait_share` are over all
    replicas; `steps_per_epoch` and `epoch_seconds` are None without `train_examples`, the number of examples in an
    epoch. `speed_up` is relative to the first dict; `efficiency` is the speed-up divided by the ratio of replicas.
    """
    rows = []
    first_replicas, first = next(iter(timings.items()))
    for replicas, timing in timings.items():
        examples_per_step = timing["examples_per_second"] * timing["mean_seconds"]
        steps_per_epoch = train_examples and math.ceil(train_examples / round(examples_per_step))
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
                "efficiency": speed_up * first_replicas / replicas,
            }
        )
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Formats the dicts of `scaling` as a table."""
    texts = [
        ["" if row[name] is None else format(row[name], spec) for name, (_, spec) in _COLUMNS.items()] for row in rows
    ]
    headers = [header for header, _ in _COLUMNS.values()]
    return tabulate.tabulate(texts, headers, disable_numparse=True, colalign=["right"] * len(headers))


def limit(rows: Sequence[Mapping[str, Any]], cores: int | None = None) -> str:
    """Returns a sentence on what keeps the last row from scaling ideally, relative to the first.

    Ideally a step takes equally long on any number of replicas. If more than half of the additional time is spent
    waiting for input, the sentence blames the input. `cores` is the number of cores of the CPU that all replicas share;
    None if each replica has its own device.
    """
    first, last = rows[0], rows[-1]
    longer = last["step_ms"] - first["step_ms"]
    waits_longer = last["input_wait_share"] * last["step_ms"] - first["input_wait_share"] * first["step_ms"]
    there = f"on {_replicas(last['replicas'])} a step takes {longer:.1f} ms longer than on {first['replicas']}"
    if last["efficiency"] >= 0.9:
        return f"Scaling is close to ideal: {last['efficiency']:.0%} on {_replicas(last['replicas'])}."
    if waits_longer > longer / 2:
        return f"Input limits the scaling: {there}, {waits_longer:.1f} ms of it waiting for input."
    if cores:
        return f"The CPU limits the scaling: {there}, as all replicas share its {cores} cores."
    return (
        f"The fixed cost of a step limits the scaling: {there}, {longer - waits_longer:.1f} ms of it for summing "
        "gradients and starting each replica; larger batches reduce that share."
    )


def plot(rows: Sequence[Mapping[str, Any]], path: StrPath) -> None:
    """Writes a PNG of throughput and time over the number of replicas, with the ideal line."""
    write_whole(path, plots.scaling(rows))


def _replicas(count):
    return f"{count} replica{'s' * (count > 1)}"
