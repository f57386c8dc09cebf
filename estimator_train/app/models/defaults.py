"""The optimizer, the learning rate and the frozen layers that a model has by default, known without TensorFlow."""

from collections.abc import Mapping
from typing import Any

from estimator_train.app.models.backbones import CLASSES, default_freeze

# Adam's learning rates: for a head on frozen layers, for fine-tuning a backbone's layers, and of the small models.
RATE_OF_HEAD = 3e-3
RATE_OF_BACKBONE = 1e-4
RATE_OF_SMALL_CNN = 2e-3
RATE_OF_FASHION_MNIST_CNN = 1e-3

# Pixels of the smaller side of an image. Other backbones take 32, as `tf_keras.applications` require.
_LEAST_SIZES = {"small_cnn": 16, "fashion_mnist_cnn": 10, "xception": 71, "inception_v3": 75, "inception_resnet_v2": 75}
_LEAST_SIZE_OF_BACKBONES = 32

_SMALL = {"small_cnn": RATE_OF_SMALL_CNN, "fashion_mnist_cnn": RATE_OF_FASHION_MNIST_CNN}


def least_size(name: str) -> int:
    """Returns the pixels that both sides of an image must have for a model; 1 for one that is not known by its name.

    >>> least_size("xception"), least_size("vgg16"), least_size("model.py:build")
    (71, 32, 1)
    """
    return _LEAST_SIZES.get(name, _LEAST_SIZE_OF_BACKBONES if name in CLASSES else 1)


def with_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a run, with the model's own where none are given and this package knows them.

        >>> filled = with_defaults({"model": "vgg16", "weights": None, "schedule": "cosine"})
        >>> [filled[name] for name in ("optimizer", "learning_rate", "schedule", "freeze")]
        ['adam', 0.0001, 'cosine', 'block4_pool']

    An optimizer that is given has Keras' learning rate, and phases have their own; these are left open, as is all of a
    model that is not known by its name.
    """
    model: str = given.get("model") or ""
    filled = dict(given)
    if model not in CLASSES and model not in _SMALL:
        return filled
    if model in CLASSES and not given.get("phases"):
        filled["freeze"] = given.get("freeze") or default_freeze(model, given.get("weights"))
    if not (given.get("optimizer") or given.get("phases") or given.get("learning_rate")):
        of_backbone = RATE_OF_HEAD if filled.get("freeze") == "all" else RATE_OF_BACKBONE
        filled["learning_rate"] = _SMALL.get(model, of_backbone)
    return filled | {"optimizer": given.get("optimizer") or "adam", "schedule": given.get("schedule") or "constant"}
