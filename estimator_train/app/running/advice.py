"""Which flags are no advice for a run: its other flags, its model or the machine refuse them."""

import tensorflow as tf

from estimator_train.app.datasets.images import ImageFiles
from estimator_train.app.errors import SettingError
from estimator_train.app.models.backbones import CLASSES, default_freeze
from estimator_train.app.runs.fields import given_of
from estimator_train.app.runs.rules import check_rules
from estimator_train.app.runs.spec import RULES, STORED

_ONE_MORE = {  # flags that the command names in advice, and what they would add to a run
    "--cache": {"cache": "memory"},
    "--cache features": {"cache": "features"},
    "--fast": {"fast": True},
    "--mixed-precision": {"mixed_precision": "bfloat16"},
    "--recompute": {"recompute": True},
    "--gpus": {"gpus": 2},
    "--batch-size": {"batch_size": 2},
    "--accumulate-steps": {"accumulate_steps": 2},
    "--evaluate-every": {"evaluate_every": 2},
    "--async-checkpoints": {"async_checkpoints": True},
    "--save-checkpoints-steps": {"save_checkpoints_steps": 2},
}
_WITH_A_NUMBER = ("--batch-size", "--accumulate-steps", "--evaluate-every", "--save-checkpoints-steps")
_HAS_BFLOAT16 = (8, 0)  # compute capability; https://developer.nvidia.com/cuda-gpus


def not_for(settings, training, data):
    """Returns the flags that the run has, or that it could not have; another number is still advice."""
    given = given_of(vars(settings) | vars(training), *STORED)
    has = [flag for flag, more in _ONE_MORE.items() if flag not in _WITH_A_NUMBER and more.keys() & given.keys()]
    if given.get("cache") not in (None, "features"):
        has.remove("--cache features")
    conflicting = [flag for flag, more in _ONE_MORE.items() if not _fits(given | more)]
    return {
        *has,
        *conflicting,
        *_not_for_data(settings, training, data),
        *_not_for_model(settings),
        *_not_for_machine(training),
    }


def _fits(settings):
    try:
        check_rules(settings, RULES)
    except SettingError:
        return False
    return True


def _not_for_data(settings, training, data):
    if not (data and isinstance(data.train, ImageFiles)):
        yield from ("--cache", "--cache features", "--fast")
    if data and settings.batch_size * training.num_replicas >= data.train_examples:  # a batch has all of them
        yield "--batch-size"


def _not_for_model(settings):
    """Frozen first layers have features to cache; a function's model may be of a class that others do not support."""
    if ":" in settings.model:
        return ["--mixed-precision", "--recompute"]
    freeze = settings.freeze or default_freeze(settings.model, settings.weights)
    if settings.model not in CLASSES or freeze == "none":
        return ["--cache features"]
    return []


def visible_gpus(training):
    """Returns the GPUs that a training could have; none if it trains on replicas of the CPU."""
    if training.replicas:
        return []
    return tf.config.get_visible_devices("GPU")


def _not_for_machine(training):
    gpus = visible_gpus(training)
    if training.jit_compile or len(gpus) <= (training.gpus or 1):
        yield "--gpus"
    capabilities = [tf.config.experimental.get_device_details(gpu).get("compute_capability") for gpu in gpus]
    if not gpus or any(capability is None or capability < _HAS_BFLOAT16 for capability in capabilities):
        yield "--mixed-precision"
    if not training.evaluate_every:
        yield "--evaluate-every"
