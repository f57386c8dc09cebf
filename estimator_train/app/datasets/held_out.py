"""The rules that hold examples out of training.

By name, the name of each example decides alone: files that come or go move no other to another side. No such rule can
promise every class a held-out example: once all of these are deleted, another one would have to change sides.

By rank, the lowest hashes among the examples present were held out, at least one of each class, so examples moved. The
runs of that time keep this rule, which their run.json does not name. A context says which rule holds, because the
datasets of other packages take no argument for it.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import os
from collections.abc import Hashable, Iterator

BY_NAME, BY_RANK = RULES = ("name", "rank")
EVALUATION, VALIDATION = "evaluation", "validation"  # what examples are held out for

_SALT = 48644  # any would do; with this one, a few numbered images of most classes are on both sides, too

_rule = contextvars.ContextVar("rule", default=BY_NAME)


@contextlib.contextmanager
def holding_out_by(rule: str) -> Iterator[None]:
    """Lets datasets that are opened or divided in a block hold out examples by a rule; raises ValueError for no rule.

    >>> with holding_out_by(BY_RANK):
    ...     data = datasets.open_dataset("synthetic_oct", "scans", draw=False).with_validation(0.1)
    >>> data.validation_examples
    80
    """
    if rule not in RULES:
        raise ValueError(f"there is no rule {rule!r} to hold out examples; the rules are {' and '.join(RULES)}")
    token = _rule.set(rule)
    try:
        yield
    finally:
        _rule.reset(token)


def holds_out_by_rank() -> bool:
    """Returns whether examples are held out as in runs of before."""
    return _rule.get() == BY_RANK


def is_held_out(name: Hashable, share: float, purpose: str) -> bool:
    """Returns whether the name of an example holds it out for a purpose, as it does a `share` of all names.

    >>> is_held_out("1.png", 0.2, EVALUATION), is_held_out("1.png", 1, EVALUATION)
    (False, True)

    A larger share holds out all that a smaller one does.
    """
    digest = hashlib.sha256(os.fsencode(f"{_SALT} {purpose} {name}")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64
