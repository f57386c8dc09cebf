"""Cases that only the slow tests run, because a faster case of the same test shows its law, too."""

import pytest
from models import KINDS


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def both_kinds(argument, fast):
    """Gives a test both kinds of models by a fixture, of which one is `fast`."""
    return pytest.mark.parametrize(argument, [kind if kind == fast else slow(kind) for kind in KINDS], indirect=True)
