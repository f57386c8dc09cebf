"""ProgressHook: plain lines in a file, a bar on a terminal."""

import contextlib
import fcntl
import io
import os
import pty
import re
import struct
import termios
import time

import pytest

import estimator_train as et
from estimator_train._engine.host import time_spent


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def train(classifier, data, batches, tmp_path):
    """Trains with a ProgressHook, or with several hooks."""

    def train(hooks, steps_per_loop=1, **arguments):
        hooks = hooks if isinstance(hooks, list) else [hooks]
        quiet = {"save_summary_steps": None, "checkpoint_save_graph_def": False}
        config = et.RunConfig(save_checkpoints_steps=1000, steps_per_loop=steps_per_loop, **quiet)
        estimator = et.model_to_estimator(classifier("sgd"), model_dir=tmp_path / "run", config=config)
        estimator.train(batches(data, 16, epochs=None), hooks=hooks, **arguments)

    return train


LINE = re.compile(r"step (\d+)/5: loss [\d.e-]+, accuracy [\d.e-]+(?:, [\d.e+]+ examples/s, (\d\d:\d\d) to go)?\n")


@pytest.mark.parametrize(
    ("steps_per_loop", "steps"),
    [pytest.param(1, ["1", "2", "3", "4", "5"], marks=pytest.mark.slow), (2, ["1", "3", "5"])],
)
def test_a_file_gets_plain_lines(steps_per_loop, steps, train):
    file = io.StringIO()
    train(et.ProgressHook(every_secs=0, file=file), steps_per_loop, max_steps=5)
    lines = file.getvalue().splitlines(keepends=True)
    assert [LINE.fullmatch(line)[1] for line in lines] == steps
    assert LINE.fullmatch(lines[0])[2] is None  # the first call is warm-up
    assert LINE.fullmatch(lines[-1])[2] == "00:00"


@pytest.mark.slow
def test_the_end_is_always_printed(train):
    file = io.StringIO()
    train(et.ProgressHook(every_secs=1000, file=file), max_steps=3)
    (line,) = file.getvalue().splitlines()
    assert re.fullmatch(r"step 3/3: loss .*examples/s, 00:00 to go", line)


@pytest.mark.slow
def test_a_resumed_run_starts_at_its_step(train):
    train(et.ProgressHook(file=io.StringIO()), max_steps=3)
    file = io.StringIO()
    train(et.ProgressHook(every_secs=0, file=file), max_steps=5)
    assert [LINE.fullmatch(line)[1] for line in file.getvalue().splitlines(keepends=True)] == ["4", "5"]


def test_a_terminal_gets_a_bar_with_the_numbers(train):
    file = Terminal()
    train(et.ProgressHook(every_secs=0, file=file), max_steps=5)
    shown = file.getvalue()
    assert "\r" in shown
    assert "0/5, ? to go, preparing the first step" in shown and "1/5, ? to go, preparing" not in shown
    last = shown.rstrip().rsplit("\r", 1)[1]
    assert "100%" in last
    assert "5/5" in last
    assert re.search(r"loss [\d.e-]+, accuracy [\d.e-]+, [\d.e+]+ examples/s", last)


def all_that_was_shown(terminal):
    """Reads from a pseudo-terminal until its other end is closed and nothing is left, which raises OSError."""
    shown = b""
    with contextlib.suppress(OSError):
        while True:
            shown += os.read(terminal, 100_000)
    return shown


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "metrics"), [(200, 3), (88, 1), (70, 0)])
def test_a_bar_fits_into_the_terminal_and_leaves_out_metrics_first(classifier, data, batches, columns, metrics):
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    model = classifier(metrics=["accuracy", "mean_absolute_error", "mean_squared_error"])
    with os.fdopen(its, "w") as terminal:
        hook = et.ProgressHook(file=terminal)
        et.model_to_estimator(model).train(batches(data, 16, epochs=None), hooks=[hook], max_steps=3)
    states = all_that_was_shown(ours).decode().split("\r")
    os.close(ours)
    assert max(map(len, states)) < columns  # tqdm leaves the last one free
    *_, last = (state for state in states if "loss" in state)
    names = ["accuracy", "mean_absolute_error", "mean_squared_error"]
    assert [name in last for name in names] == [index < metrics for index in range(3)]
    assert re.match(r"100%\|█+\| 3/3, 00:00 to go, loss [\d.e-]+, ", last) and "examples/s" in last


def test_the_default_file_is_standard_error(train, capsys):
    train(et.ProgressHook(), max_steps=1)
    captured = capsys.readouterr()
    assert "step 1/1: loss" in captured.err
    assert captured.out == ""


@pytest.fixture
def timed_lines(monkeypatch):
    """Lines of training with a fake clock: 10 steps of 1 s, with an evaluation of 20 s after every fourth."""
    clock, file = [0.0], io.StringIO()
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    class Steps(et.SessionRunHook):
        step = 0

        def after_run(self, run_context, run_values):
            self.step += 1
            clock[0] += 1
            if self.step % 4 == 0:
                with time_spent.counted_as(time_spent.EVALUATION):
                    clock[0] += 20

    def lines(train):
        train([Steps(), et.ProgressHook(every_secs=0, file=file)], max_steps=10)
        return file.getvalue().splitlines()

    return lines


def test_evaluations_are_no_steps_and_count_in_the_time_to_go(timed_lines, train):
    lines = timed_lines(train)
    assert all("16 examples/s" in line for line in lines[1:])
    to_go = [line.split(", ")[-1] for line in lines]
    assert to_go[2:5] == ["00:07 to go", "00:46 to go", "00:38 to go"]  # 20 s each 3 steps, from the second on
    assert to_go[-1] == "00:00 to go"
