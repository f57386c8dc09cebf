"""Parses the phases of fine-tuning, such as training only the head first and then all layers."""

import math
from typing import NamedTuple

_FORM = "freeze=all epochs=2 lr=1e-3; freeze=none epochs=5 lr=1e-5"


class Phase(NamedTuple):
    """A phase of fine-tuning."""

    freeze: str  # layers, see `models.build_model`
    epochs: int
    learning_rate: float | None = None  # None: the model's default for these frozen layers


def parse_phases(text: str) -> tuple[Phase, ...]:
    """Returns the phases described by `text`, in order.

        >>> phases = models.parse_phases("freeze=all epochs=2 lr=1e-3; freeze=none epochs=5 lr=1e-5")
        >>> [phase.epochs for phase in phases]
        [2, 5]

    Raises ValueError if a phase lacks `freeze` or `epochs`, or has an unknown, duplicate or invalid value.
    """
    parts = [part.split() for part in text.split(";")]
    if parts and not parts[-1]:  # a semicolon at the end
        parts.pop()
    if not all(parts) or not parts:
        raise ValueError(f"{text!r} has an empty phase; write them as {_FORM!r}")
    return tuple(_phase(words) for words in parts)


def _phase(words):
    phase, values = " ".join(words), {}
    for word in words:
        name, _, value = word.partition("=")
        if name not in ("freeze", "epochs", "lr") or not value or name in values:
            raise ValueError(
                f"{word!r} in the phase {phase!r}: a phase has freeze=, epochs= and lr=, each at most once; "
                f"write {_FORM!r}"
            )
        values[name] = value
    for name in ("freeze", "epochs"):
        if name not in values:
            raise ValueError(f"the phase {phase!r} has no {name}=; write {_FORM!r}")
    epochs, rate = values["epochs"], values.get("lr")
    if not epochs.isdecimal() or not 0 < int(epochs) < 2**31:  # as --epochs
        raise ValueError(f"epochs={epochs} in the phase {phase!r} is not a number of epochs such as 5")
    return Phase(values["freeze"], int(epochs), None if rate is None else _rate(rate, phase))


def _rate(text, phase):
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0 < rate < math.inf:
        raise ValueError(f"lr={text} in the phase {phase!r} is not a learning rate such as 1e-3")
    return rate
