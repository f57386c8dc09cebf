"""The error for a model that cannot do what a setting asks of it."""


class UnsuitableModelError(ValueError):
    """The model cannot do what a setting asks of it; the message is one line that names both and the remedy."""
