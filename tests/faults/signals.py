"""Ctrl-C, SIGTERM and SIGHUP at random times give one line, the right exit code, and a run that can be resumed."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from tests.faults.kills import LIMIT_SECS, leave_alone, start
from tests.faults.runs import Row, differences

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(count: int, seed: int, folder: str | os.PathLike[str]) -> list[Row]:
    """Sends `count` signals, from the start of the command to its end."""
    folder, draw = Path(folder).resolve(), random.Random(seed)
    seconds, expected, _ = leave_alone("command", folder)
    return [_stop(_SIGNALS[number % 3], draw.uniform(0, seconds), folder, number, expected) for number in range(count)]


def _stop(number_of_signal, seconds, folder, number, expected):
    name = f"{number_of_signal.name}-{number}"
    kind = f"{number_of_signal.name} after {seconds:.2f} s"
    process = start("command", folder, name)
    time.sleep(seconds)
    process.send_signal(number_of_signal)
    code = process.wait(LIMIT_SECS)
    said = (folder / f"{name}.log").read_text()
    # Before Python runs the command's first line, a signal ends it as it ends any process.
    if code not in (0, 128 + number_of_signal, -number_of_signal) or "Traceback" in said:
        return Row(kind, "", f"exit code {code}: {said[-500:]}")
    if start("command", folder, name).wait(LIMIT_SECS) != 0:
        return Row(kind, "", f"did not go on: {(folder / f'{name}.log').read_text()[-500:]}")
    return Row(kind, "had ended" if code == 0 else "stopped and went on", differences(folder / name, expected))
