"""Private names of tf_keras that this package uses, each behind a function.

Any release may change them: a function raises AttributeError or ImportError if its name is gone.
"""

from __future__ import annotations

from typing import Any


def learning_rate_or_schedule(optimizer: Any) -> Any:
    """Returns the learning rate variable of a new Keras optimizer, or its schedule, which `learning_rate` lacks."""
    return optimizer._learning_rate


def legacy_step_variable(optimizer: Any) -> Any:
    """Returns the variable of a legacy Keras optimizer's `iterations`, or None before it has one."""
    return optimizer._iterations


def set_legacy_step_variable(optimizer: Any, variable: Any) -> None:
    """Replaces the variable of a legacy Keras optimizer's `iterations`, which can be set only once publicly."""
    optimizer._iterations  # noqa: B018, fails if the name is gone, unlike setting it
    optimizer._iterations = variable
