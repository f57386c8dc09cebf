"""A small campaign of mutated images, in this process."""

import pytest

from tests.faults import images


@pytest.mark.slow
def test_mutated_images_are_read_or_left_out_by_name_and_counted_exactly(tmp_path):
    assert len(images.KINDS) >= 40
    images.write(tmp_path, range(len(images.KINDS)), seed=1)
    rows = images.check(tmp_path, every=20)
    assert len(rows) == len(images.KINDS)
    assert [row for row in rows if row.fault] == []
