"""How the command speaks: on a terminal, on standard error, and at the start and the end of a training."""

import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from signal import Signals
from typing import Any

import click

from estimator_train._engine.host.files import printable
from estimator_train.app.runs import run_file

_LISTED = 10


def on_terminal(lines: Iterable[str], indent: int = 0) -> str:
    """Joins `lines`; on a terminal, wraps them to its width and indents continuation lines."""
    lines = map(printable, lines)
    if sys.stdout.isatty():
        # Paths are never broken, so that they can be copied.
        options: dict[str, Any] = {
            "width": shutil.get_terminal_size().columns,
            "break_long_words": False,
            "break_on_hyphens": False,
        }
        lines = [textwrap.fill(line, subsequent_indent=" " * indent, **options) for line in lines]
    return "\n".join(lines)


def warn(text: str) -> None:
    """Says on standard error what is not the result of the command."""
    click.echo(f"estimator_train: {text}", err=True)


def listed(items: Sequence[str]) -> str:
    """Joins the first ten items by commas, with … for the others."""
    shown = list(items[:_LISTED])
    if len(items) > _LISTED:
        shown.append("…")
    return ", ".join(shown)


def timing_lines(timing: Mapping[str, Any], model_dir: str, step: int) -> str:
    """Says how fast training was, from `TimingHook.summary()`; `step` is the last global step."""
    if not timing["warmup_steps"] and not step:
        return "the input_fn gave no data"
    if not timing["warmup_steps"]:
        return f"{model_dir} is already trained to step {step}"
    parts = [f"{timing['steps'] + timing['warmup_steps']} steps"]
    if timing["examples_per_second"]:
        parts.append(f"{timing['examples_per_second']:.1f} examples/s")
        parts.append(f"{timing['input_wait_share']:.0%} of the time spent waiting for input")
    lines = [f"trained {', '.join(parts)}"]
    between = {kind: timing[f"{kind}_seconds"] for kind in ("evaluation", "checkpoint")}
    took = [f"{kind}s took {seconds:.1f} s" for kind, seconds in between.items() if seconds > 0.1]
    if timing["features_seconds"]:
        took.append(f"the pass through the frozen layers took {timing['features_seconds']:.1f} s")
    if took:
        lines.append(", ".join(took))
    return "\n".join(lines)


def as_typed(model_dir: str, checkpoint: str | None) -> str | None:
    """Returns a checkpoint's path below `model_dir` as the user gave it, perhaps relative; None for no checkpoint."""
    return checkpoint and os.path.join(model_dir, os.path.basename(checkpoint))


def metrics_line(checkpoint: str, metrics: Mapping[str, Any], hidden: Collection[str]) -> str:
    """Returns the line that reports the metrics of a checkpoint, except those `hidden`."""
    values = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items() if name not in ("global_step", *hidden))
    return f"evaluated {checkpoint}: {values}"


def stopped_line(signal: Signals, checkpoint: str | None, model_dir: str) -> str:
    """Says which signal stopped training, which checkpoint, if any, was saved, and how to continue."""
    if not run_file.path_in(model_dir).exists():  # --resume would have nothing to continue
        return f"stopped by {signal.name} before the training began"
    again = shlex.join(["estimator_train", "--model-dir", model_dir, "--resume"])
    saved = "before the first checkpoint; start again with"
    if checkpoint:
        saved = f"with {checkpoint} saved; continue with"
    return f"stopped by {signal.name} {saved}: {again}"
