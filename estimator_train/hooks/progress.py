"""ProgressHook: shows training progress, loss and metrics, examples per second and the remaining time."""

import math
import sys
import time
from typing import TextIO

import tensorflow as tf
import tqdm

from estimator_train._engine.host import notebook, time_spent
from estimator_train._engine.host.progress_bar import bar_class
from estimator_train._engine.session import step_outputs
from estimator_train._engine.types import Session, SessionRunArgs, SessionRunContext, SessionRunValues

v1 = tf.compat.v1


class ProgressHook(tf.compat.v1.train.SessionRunHook):
    """Shows a progress bar in a terminal or notebook, or prints plain lines if the output is neither.

    Examples per second measure training alone; the first call (warm-up), checkpoints and evaluations are not counted.
    If `Estimator.train` was given `steps` or `max_steps`, the hook also shows the remaining time, which includes an
    estimate for upcoming checkpoints and evaluations, based on those so far.

        estimator.train(input_fn, hooks=[et.ProgressHook()], max_steps=1000)

    Args:
      every_secs: seconds between plain lines; the progress bar is updated twice a second.
      file: a text stream to write to; None selects standard error.
    """

    def __init__(self, *, every_secs: float = 10.0, file: TextIO | None = None) -> None:
        self._file = file or sys.stderr
        self._bar_class = bar_class(self._file)
        self._every_secs = 0.5 if self._bar_class else every_secs
        self._interruptions = 0.0  # seconds of checkpoints and evaluations

    @property
    def draws_bar(self) -> bool:
        """Whether there is a bar instead of plain lines; in a notebook, the loss and the speed are then not logged."""
        return self._bar_class is not None

    def begin(self) -> None:
        graph = v1.get_default_graph()
        examples = step_outputs.find(graph, step_outputs.EXAMPLES)
        self._fetches = {
            "step": v1.train.get_global_step(),
            "values": {tensor.op.name: tensor for tensor in graph.get_collection(step_outputs.MODEL_VALUES)},
            "examples": [] if examples is None else [examples],
        }
        self._last_step = next(iter(graph.get_collection(step_outputs.LAST_STEP)), None)
        self._bar: tqdm.tqdm | None = None

    def after_create_session(self, session: Session, coord: tf.train.Coordinator) -> None:
        self._step = self._shown_step = session.run(self._fetches["step"])
        self._shown_at = time.perf_counter()
        self._is_warm = False
        if self._bar_class and self._bar is None:
            self._bar = self._bar_class(
                total=self._last_step,
                initial=self._step,
                file=self._file,
                dynamic_ncols=not notebook.is_kernel(),
                bar_format=self._bar_format("?"),
            )
            self._bar.set_postfix_str(", ".join(_fitting(["preparing the first step"], self._bar)))

    def next_look(self, global_step: int) -> float:
        return math.inf  # it looks at the clock

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return v1.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        self._step = int(run_values.results["step"]) + 1
        self._values = run_values.results["values"]
        if not self._is_warm:
            self._begin_counting()
        else:
            self._examples += sum(run_values.results["examples"])
        interruptions = time_spent.total() - self._spent_before
        if interruptions > self._interruptions:
            self._interruptions, self._interrupted_at = interruptions, self._step
        if self._bar is not None:
            self._bar.update(self._step - self._bar.n)  # negative after a session has recovered
        if time.perf_counter() - self._shown_at >= self._every_secs:
            self._show()

    def _begin_counting(self) -> None:
        self._is_warm = True
        if self._bar is not None:
            self._bar.set_postfix_str("", refresh=False)
        self._start, self._first_step = time.perf_counter(), self._step
        self._spent_before = time_spent.total()
        self._interruptions, self._interrupted_at = 0.0, self._step
        self._examples: int = 0

    def end(self, session: Session) -> None:
        if self._step > self._shown_step:
            self._show()
        if self._bar is not None:
            self._bar.close()

    def _show(self) -> None:
        self._shown_at, self._shown_step = time.perf_counter(), self._step
        texts = [f"{name} {value:.4g}" for name, value in self._values.items() if not value.ndim]
        training_seconds = self._shown_at - self._start - self._interruptions
        if self._examples:
            texts.append(f"{self._examples / training_seconds:.3g} examples/s")
        to_go = None
        if self._last_step is not None and self._step > self._first_step:
            to_go = tqdm.tqdm.format_interval(self._seconds_to_go(training_seconds))
        if self._bar is not None:
            self._bar.bar_format = self._bar_format(to_go or "?")
            self._bar.set_postfix_str(", ".join(_fitting(texts, self._bar)))
            return
        if to_go is not None:
            texts.append(f"{to_go} to go")
        goal = "" if self._last_step is None else f"/{self._last_step}"
        print(f"step {self._step}{goal}: {', '.join(texts)}", file=self._file, flush=True)

    def _seconds_to_go(self, training_seconds: float) -> float:
        a_step = training_seconds / (self._step - self._first_step)
        if self._interrupted_at > self._first_step:
            a_step += self._interruptions / (self._interrupted_at - self._first_step)
        return a_step * (self._last_step - self._step)

    def _bar_format(self, to_go: str) -> str:
        """Returns tqdm's format with our estimate of the remaining time; tqdm's would count evaluations as steps."""
        if self._last_step is None:
            return "step {n_fmt}, {elapsed} so far{postfix}"
        return f"{{percentage:3.0f}}%|{{bar}}| {{n_fmt}}/{{total_fmt}}, {to_go} to go{{postfix}}"


def _fitting(texts: list[str], bar: tqdm.tqdm) -> list[str]:
    """Drops metrics, the last ones first, until the texts fit the width of the terminal."""
    shown = bar.format_dict
    columns = shown["ncols"] or math.inf
    while texts and len(tqdm.tqdm.format_meter(**shown | {"ncols": None, "postfix": ", ".join(texts)})) > columns:
        texts = [*texts[:-2], *texts[-1:]] if len(texts) > 2 else texts[:-1]
    return texts
