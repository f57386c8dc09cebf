"""A small campaign of mutated images, in this process."""

from tests.faults import images


def test_mutated_images_are_read_or_left_out_by_name_and_counted_exactly(tmp_path):
    assert len(images.KINDS) >= 40
    images.write(tmp_path, range(len(images.KINDS)), seed=1)
    rows = images.check(tmp_path, every=20)
    assert sum(files for _, files, *_ in rows) == len(images.KINDS)
    assert [fault for *_, faults in rows for fault in faults] == []
