import os
import subprocess
import sys

import cloudpickle
import numpy as np
import pytest
from processes import is_alive, wait_for_the_end_of

from estimator_train._engine.host.generator_workers import in_workers

# Workers need not import this module, and TensorFlow with it.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def all_of(function):
    with in_workers([function]) as (stream,):
        return list(stream)


def test_each_function_yields_from_its_own_process():
    def counted(stop):
        for number in range(stop):
            yield os.getpid(), number

    with in_workers([lambda: counted(3), lambda: counted(0), lambda: counted(2)]) as streams:
        first, none, last = (list(stream) for stream in streams)
    assert [number for _, number in first] == [0, 1, 2] and none == [] and [number for _, number in last] == [0, 1]
    pids = {pid for pid, _ in first + last}
    assert len(pids) == 2 and os.getpid() not in pids


def test_an_item_keeps_its_structure_and_arrays():
    sizes = [10, 5_000_000]  # in shared memory, and larger than half of it
    items = all_of(lambda: ({"x": np.arange(size), "names": ("a", None)} for size in sizes))
    for item, size in zip(items, sizes, strict=True):
        np.testing.assert_array_equal(item["x"], np.arange(size))
        assert item["names"] == ("a", None)


def test_processes_end_with_the_context():
    def endless():
        while True:
            yield os.getpid()

    with in_workers([endless, endless]) as streams:
        pids = {next(stream) for stream in streams}
        assert all(map(is_alive, pids))
    wait_for_the_end_of(pids)


def test_workers_end_with_their_killed_parent_whose_script_has_no_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, time\n"
        "from estimator_train._engine.host.generator_workers import in_workers\n"
        "def endless():\n"
        "    yield os.getpid()\n"
        "    time.sleep(600)\n"
        "with in_workers([endless, lambda: iter([1])]) as streams:\n"
        "    print(*map(next, streams), flush=True)\n"
        "    list(streams[0])\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        pid, one = parent.stdout.readline().split()
        parent.kill()
    assert one == "1"
    wait_for_the_end_of([int(pid)])


def test_an_error_keeps_its_type_and_names_the_line_in_the_worker():
    def broken():
        yield 1
        raise KeyError("no such scan")

    with pytest.raises(KeyError, match="no such scan") as error:
        all_of(broken)
    assert "in broken" in str(error.value.__cause__)


def test_an_error_that_cannot_be_pickled_is_reported():
    def broken():
        yield 1
        raise ValueError("scan 7", sys.stdout)

    with pytest.raises(RuntimeError, match=r"ValueError: \('scan 7', <"):
        all_of(broken)


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (lambda: sys.exit(0), "ended with exit code 0 before its data did"),
        (lambda: os.kill(os.getpid(), 9), "was killed by signal 9"),
    ],
)
def test_a_process_that_ends_before_its_data_is_reported(end, message):
    def ended():
        yield 1
        end()

    with pytest.raises(RuntimeError, match=f"a worker process of the generator {message}"):
        all_of(ended)
