"""Checks the address that a task listens on."""

import socket

import pytest

from estimator_train._engine.distribution.addresses import check_address


def test_a_port_in_use_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ValueError, match=f"chief 0 cannot listen at {address}: .*in use.*give it a free port"):
            check_address("chief", 0, address)
    check_address("chief", 0, address)


def test_a_port_that_a_task_of_another_run_will_listen_at_is_in_use():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with socket.socket(socket.AF_UNIX) as claim:
        claim.bind(f"\0estimator_train {port}")  # as another process does, whose TensorFlow does not listen yet
        with pytest.raises(ValueError, match=f"worker 1 cannot listen at .*:{port}: .*in use.*give it a free port"):
            check_address("worker", 1, f"127.0.0.1:{port}")
    for _ in range(2):
        check_address("worker", 1, f"127.0.0.1:{port}")


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:port", "127.0.0.1:99999"])
def test_an_address_without_a_port_is_refused(address):
    with pytest.raises(ValueError, match=f"TF_CONFIG's worker 1 cannot listen at {address}: "):
        check_address("worker", 1, address)
