"""Damaged and odd run folders, a few of the kinds of the campaign."""

from tests.faults import folders


def test_damaged_and_odd_run_folders_give_no_traceback_and_no_silent_restart(tmp_path):
    assert len(folders.KINDS) >= 40
    rows = folders.run(10, seed=1, folder=tmp_path)
    assert [row for row in rows if row.fault] == []
    assert {"goes on"} < {row.outcome for row in rows}
