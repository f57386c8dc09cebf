import threading

import numpy as np
import pytest

from estimator_train._engine.host import shared_ring


@pytest.fixture
def rings(monkeypatch):
    monkeypatch.setattr(shared_ring, "_SIZE", 1024)
    with shared_ring.create() as descriptor:
        return [shared_ring.Ring(descriptor) for _ in range(2)]


def items(count, largest):
    random = np.random.default_rng(1)
    return [random.integers(0, 256, random.integers(0, largest + 1, 2).sum(), np.uint8) for _ in range(count)]


def test_what_one_side_writes_the_other_reads_lap_after_lap(rings):
    worker, parent = rings
    for item in items(200, 200):
        taken, places = worker.write([memoryview(item), memoryview(item[:3])])
        assert [bytes(view) for view in parent.read(places)] == [bytes(item), bytes(item[:3])]
        worker.release(taken)


def test_nothing_is_written_over_before_it_is_released(rings):
    worker, parent = rings
    written, to_write = [], items(100, 200)
    room = threading.Semaphore(0)

    def write():
        for item in to_write:
            written.append(worker.write([memoryview(item)]))
            room.release()

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    for number, item in enumerate(to_write):
        assert room.acquire(timeout=60)
        taken, places = written[number]
        assert bytes(parent.read(places)[0]) == bytes(item)
        worker.release(taken)
    thread.join(60)
    assert not thread.is_alive()


def test_arrays_are_aligned(rings):
    worker, parent = rings
    _, places = worker.write([memoryview(bytes(size)) for size in (1, 65, 3)])
    addresses = [np.frombuffer(view, np.uint8).ctypes.data for view in parent.read(places)]
    assert [address % 64 for address in addresses] == [0, 0, 0]


def test_arrays_of_more_than_half_the_ring_are_not_taken(rings):
    worker, _ = rings
    assert worker.write([memoryview(bytes(512))]) == (512, [slice(0, 512)])
    assert worker.write([memoryview(bytes(449)), memoryview(bytes(1))]) is None


def test_no_arrays_take_nothing(rings):
    worker, parent = rings
    assert worker.write([]) == (0, [])
    assert parent.read([]) == []
