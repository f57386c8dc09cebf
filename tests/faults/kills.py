"""kill -9 at random times: restarted, the run must end with the numbers of an uninterrupted run."""

from __future__ import annotations

import functools
import os
import random
import time
from pathlib import Path

from tests.faults.runs import PATHS, Row, arguments, differences, kinds_of_files, values
from tests.helpers import warm_python

LIMIT_SECS = 600


def run(count: int, seed: int, folder: str | os.PathLike[str]) -> list[Row]:
    """Kills `count` trainings, by the command and by scripts in turn, from their start to the end."""
    folder, draw = Path(folder).resolve(), random.Random(seed)
    paths = PATHS[: min(count, len(PATHS))]
    left_alone = {path: leave_alone(path, folder) for path in paths}
    rows = []
    for number in range(count):
        path = paths[number % len(paths)]
        seconds, expected, kinds = left_alone[path]
        rows.append(_kill(path, folder, f"{path}-{number}", draw.uniform(0, seconds), expected, kinds))
    return rows


@functools.cache
def leave_alone(path: str, folder: Path) -> tuple[float, dict, set[str]]:
    """Runs a training to its end; returns how many seconds it took, its variables, and the kinds of its files.

    The same run serves all campaigns in one folder.
    """
    begun = time.monotonic()
    start(path, folder, path).wait(LIMIT_SECS)
    return time.monotonic() - begun, values(folder / path), kinds_of_files(folder / path)


def _kill(path, folder, name, seconds, expected, kinds):
    process = start(path, folder, name)
    time.sleep(seconds)
    process.kill()
    process.wait(LIMIT_SECS)
    steps = sorted({path.stem for path in (folder / name).glob("model.ckpt-*.index")})
    kind = f"{path}, killed after {seconds:.2f} s"
    code = start(path, folder, name).wait(LIMIT_SECS)
    if code != 0:
        return Row(kind, "", f"exit code {code}: {(folder / f'{name}.log').read_text()[-500:]}")
    litter = kinds_of_files(folder / name) - kinds
    temporary = os.listdir(folder / f"{name}.tmp")
    if litter or temporary:
        return Row(kind, "", f"left behind: {', '.join([*sorted(litter), *temporary])}")
    return Row(kind, f"went on from {steps[-1] if steps else 'the beginning'}", differences(folder / name, expected))


def start(path: str, folder: Path, name: str) -> warm_python.Popen:
    """Starts or continues the run `name` in `folder`, with a log and a temporary directory next to it."""
    temporary, log = folder / f"{name}.tmp", folder / f"{name}.log"
    temporary.mkdir(exist_ok=True)
    environment = os.environ | {"TMPDIR": str(temporary), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = arguments(path, folder, folder / name)
    return warm_python.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
