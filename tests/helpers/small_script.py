"""Runs scripts as `python FILE` does, with the small data and models that tests/test_docs.py gives to pages.

Nothing has used TensorFlow before the first one, so it must ask for its devices in time, as for its users.
"""

import runpy
import sys
from pathlib import Path

import pytest

from tests import test_docs

_DEVICES_OF_THE_TESTS = ("two_replicas", '"CPU:')


def main(*scripts_and_folder):
    *scripts, folder = scripts_and_folder
    test_docs.shrink(Path(folder), pytest.MonkeyPatch())
    rules = {there: here for there, here in test_docs.PYTHON.items() if here not in _DEVICES_OF_THE_TESTS}
    for script in scripts:
        small = Path(folder, Path(script).name)
        small.write_text(test_docs.made_small(Path(script).read_text(), rules))
        runpy.run_path(str(small), {"small_backbone": test_docs.small_backbone}, "__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
