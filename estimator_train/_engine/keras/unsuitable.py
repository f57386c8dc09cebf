"""The error for a model that cannot do what a setting asks of it."""

from estimator_train._engine.remedies import UserError


class UnsuitableModelError(UserError, ValueError):
    """The model cannot do what a setting asks of it; the message is one line that names both and the remedy."""
