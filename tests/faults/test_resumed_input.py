"""Training in two processes beside training in one, a few of the cases of the campaign."""

import pytest

from tests.faults import resumed_input


@pytest.mark.slow
def test_losses_and_weights_of_two_processes_are_those_of_one(tmp_path):
    rows = resumed_input.run(2, seed=1, folder=tmp_path)
    assert len(rows) == 2 and not [row for row in rows if row.fault]
