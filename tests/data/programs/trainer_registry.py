"""The registry of trainer.py: models and hyperparameters by name, whose modules are imported when first asked for."""

import importlib

MODULES = ["small_net"]
_models, _hparams = {}, {}


def register_model(function):
    _models[function.__name__] = function
    return function


def register_hparams(function):
    _hparams[function.__name__] = function
    return function


def model(name):
    return _looked_up(_models, name)


def hparams(name, overrides):
    return _looked_up(_hparams, name)().parse(overrides)


def _looked_up(registry, name):
    for module in MODULES:
        if name.startswith(module):
            importlib.import_module("trainer_models." + module)
    if name not in registry:
        raise LookupError(f"{name} is not in the registry; there are {sorted(registry)}")
    return registry[name]
