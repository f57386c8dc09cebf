"""Kills workers and chiefs in clusters of real processes; restarted, they must end at the same step.

The clusters are two synchronous workers (MultiWorkerMirroredStrategy), whose weights must equal those of an
uninterrupted run, and a chief, two workers and two parameter servers, which train asynchronously.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

from estimator_train.app.cli.commands.launch import free_addresses
from tests.faults.runs import Row, values
from tests.helpers import warm_python

_DATA = Path(__file__).parents[1] / "data"
_STEPS = 100
_LIMIT_SECS = 300


def run(count: int, seed: int, folder: str | os.PathLike[str]) -> list[Row]:
    """Kills so many tasks in step, and as many over parameter servers."""
    folder, draw = Path(folder).resolve(), random.Random(seed)
    in_step = [_kill_in_step(number, draw, folder) for number in range(count)]
    return [*in_step, *(_kill_beside_servers(number, draw, folder) for number in range(count))]


def _kill_in_step(number, draw, folder):
    home = folder / f"in-step-{number}"
    home.mkdir()
    victim, step = draw.choice(["chief", "worker"]), draw.randrange(10, _STEPS - 10)
    kind = f"in step: {victim} killed at step {step}"
    tasks = _start_in_step(home, seconds_a_step=0.03)
    try:
        _wait_for_step(home / "run", step)
        tasks.pop(victim).kill()
        (other,) = tasks.values()
        code = other.wait(_LIMIT_SECS)
        if code != 1:
            return Row(kind, "", f"the other ended with {code}")
        tasks = _start_in_step(home, seconds_a_step=0)
        codes = [task.wait(_LIMIT_SECS) for task in tasks.values()]
    finally:
        _kill_all(tasks.values())
    return Row(kind, f"exit codes {codes}", _fault_of_values(home, folder) if codes == [0, 0] else "did not end well")


def _start_in_step(home, seconds_a_step):
    cluster = dict(zip(("chief", "worker"), ([address] for address in free_addresses(2)), strict=True))
    config = {"save_checkpoints_steps": 10, "resume_input": True}
    settings = {"strategy": "multi_worker", "max_steps": _STEPS, "secs_a_step": seconds_a_step, "config": config}
    return {task: _start("multi_worker", home, [settings], cluster, task, 0) for task in cluster}


def _fault_of_values(home, folder):
    """Compares with an uninterrupted run, which the first call makes."""
    alone = folder / "alone"
    if not alone.exists():
        tasks = _start_in_step(alone, seconds_a_step=0)
        assert [task.wait(_LIMIT_SECS) for task in tasks.values()] == [0, 0]
    expected, found = values(alone / "run"), values(home / "run")
    wrong = [
        name
        for name in expected
        if "input_seed" not in name and not np.allclose(expected[name], found[name], atol=1e-4, rtol=1e-4)
    ]
    return f"{', '.join(wrong)} differ" if wrong else None


def _kill_beside_servers(number, draw, folder):
    home = folder / f"servers-{number}"
    home.mkdir()
    victim, step = draw.choice([("chief", 0), ("worker", 0), ("worker", 1)]), draw.randrange(20, 150)
    kind = f"over parameter servers: {victim[0]} {victim[1]} killed at step {step}"
    chief, *workers, ps_0, ps_1 = free_addresses(5)
    cluster = {"chief": [chief], "worker": workers, "ps": [ps_0, ps_1]}
    names = [("ps", 0), ("ps", 1), ("chief", 0), ("worker", 0), ("worker", 1)]
    tasks = {name: _start("cluster", home, [400, 0.05], cluster, *name) for name in names}
    try:
        _wait_for_step(home / "run", step)
        tasks[victim].kill()
        tasks[victim].wait(_LIMIT_SECS)
        tasks[victim] = _start("cluster", home, [400, 0.05], cluster, *victim)
        (home / "run" / "hurry").touch()
        codes = [task.wait(_LIMIT_SECS) for task in tasks.values()]
    finally:
        _kill_all(tasks.values())
    last = values(home / "run").get("global_step", 0)
    fault = None if codes == [0] * 5 and last >= 400 else f"exit codes {codes}, step {last}"
    return Row(kind, f"ended at step {last}", fault)


def _start(script, home, arguments, cluster, task_type, index):
    home.mkdir(exist_ok=True)
    environment = os.environ | {
        "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": task_type, "index": index}}),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    texts = [each if isinstance(each, str) else json.dumps(each) for each in arguments]
    log = home / f"{task_type}-{index}.log"
    command = [str(_DATA / script / "train.py"), str(home / "run"), *texts]
    return warm_python.Popen(command, env=environment, stdout=log, stderr=log)


def _wait_for_step(run_dir, step):
    end = time.monotonic() + _LIMIT_SECS
    while True:
        newest = tf.train.latest_checkpoint(str(run_dir))
        if newest and int(newest.rpartition("-")[2]) >= step:
            return
        assert time.monotonic() < end, f"step {step} was not reached"
        time.sleep(0.05)


def _kill_all(processes):
    for process in processes:
        process.kill()
        process.wait(_LIMIT_SECS)
