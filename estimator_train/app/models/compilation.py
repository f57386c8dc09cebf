"""Recompiles a model with the optimizer, the learning rates and the loss of an `Optimization`."""

import dataclasses
import functools

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.application import compile_arguments, keras_of
from estimator_train.app.models.optimization import OPTIMIZERS, Optimization

_FIRST_OF_ONE_CYCLE = 1 / 25  # share of the highest rate, as in PyTorch's OneCycleLR
_LAST_OF_ONE_CYCLE = 1 / 250_000
_RISE_OF_ONE_CYCLE = 0.3  # share of the steps

_SMOOTHING_LOSSES = {"categorical_crossentropy": "CategoricalCrossentropy", "binary_crossentropy": "BinaryCrossentropy"}


def recompile(model: keras.Model, optimization: Optimization, steps: int | None = None, *, first_step: int = 0) -> None:
    """Recompiles `model`, a compiled model of tf_keras or Keras 3, with the same metrics and these changes.

    ::

        model = models.build_model("small_cnn", image_size=(64, 64), num_classes=4)
        recompile(model, Optimization(learning_rate=1e-3, schedule="cosine", clip_norm=1.0), steps=5000)

    A changed optimizer starts from scratch. If nothing changes, the model is not recompiled.

    Args:
      steps: the global step at which training ends, for schedules other than "constant".
      first_step: the global step at which the schedule begins, that of a phase.

    Raises:
      ValueError: `steps` is missing or too small, or the model cannot be recompiled like this: its class overrides
        `compile`, its optimizer is not from `keras.optimizers`, or its loss does not support label smoothing.
    """
    steps = steps and steps - first_step
    optimization.check_steps(steps)
    if optimization == Optimization():
        return
    arguments, its_keras = _compiled(model), keras_of(model)
    if optimization.label_smoothing is not None:
        arguments["loss"] = _smoothed(its_keras, arguments["loss"], optimization.label_smoothing)
    if dataclasses.replace(optimization, label_smoothing=None) != Optimization():
        arguments["optimizer"] = _optimizer(its_keras, model, optimization, steps, first_step)
    model.compile(**arguments)


def compile_with_rising_rate(model: keras.Model, lowest: float, highest: float, steps: int) -> None:
    """Recompiles `model` with a rate that rises exponentially over `steps` steps; raises ValueError as `recompile`.

    >>> model = models.build_model("small_cnn", image_size=(32, 32), num_classes=4)
    >>> compile_with_rising_rate(model, 1e-6, 1.0, steps=100)
    """
    its_keras = keras_of(model)
    rising = its_keras.optimizers.schedules.ExponentialDecay(lowest, max(steps - 1, 1), highest / lowest)
    config = _config(its_keras, model.optimizer) | {"learning_rate": rising}
    compile_with(model, type(model.optimizer).from_config(config))


def compile_with(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> None:
    """Recompiles `model` with another optimizer; for the errors, see `recompile`."""
    model.compile(**_compiled(model) | {"optimizer": optimizer})


def _compiled(model):
    """Returns the arguments that `model` was compiled with, and its current optimizer."""
    if type(model).compile is not keras_of(model).Model.compile:
        raise ValueError(
            f"the model {model.name} overrides compile(), which sets its optimizers and losses; set them there"
        )
    if not getattr(model, "optimizer", None):
        raise ValueError(f"the model {model.name} has not been compiled; compile it where it is built")
    return compile_arguments(model)


def _config(keras, optimizer):
    kinds = tuple(getattr(keras.optimizers, name) for name in OPTIMIZERS.values())
    if not isinstance(optimizer, kinds):
        raise ValueError(
            f"the model is compiled with {type(optimizer).__name__}, whose settings cannot be changed; compile it with "
            f"an optimizer from keras.optimizers, or pass another optimizer"
        )
    return optimizer.get_config()


def _optimizer(keras, model, optimization, steps, first_step):
    optimizer = model.optimizer
    if optimization.optimizer is not None:
        optimizer = getattr(keras.optimizers, OPTIMIZERS[optimization.optimizer])()
    config = _config(keras, optimizer)
    rate = _learning_rate(keras, config["learning_rate"], optimization, steps)
    if first_step and isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        rate = _beginning(keras)(rate, first_step=first_step)
    if optimization.momentum is not None and "momentum" not in config:
        raise ValueError(f"{type(optimizer).__name__} has no momentum; pass the optimizer sgd or rmsprop")
    given = {"momentum": optimization.momentum, "weight_decay": optimization.weight_decay}
    config |= {"learning_rate": rate} | {name: value for name, value in given.items() if value is not None}
    if optimization.clip_norm is not None:
        config |= {"global_clipnorm": optimization.clip_norm, "clipnorm": None, "clipvalue": None}
    if optimization.ema is not None:
        config |= {"use_ema": True, "ema_momentum": optimization.ema}
    return type(optimizer).from_config(config)


def _learning_rate(keras, compiled, optimization, steps):
    """Returns the rate or schedule to use; `compiled` is the one in the optimizer's config, a dict for a schedule."""
    asked = optimization.learning_rate, optimization.schedule, optimization.warmup_steps
    if not any(asked) and optimization.learning_rate_factor == 1:
        return compiled
    rate = compiled if optimization.learning_rate is None else optimization.learning_rate
    if isinstance(rate, dict):
        raise ValueError("the model is compiled with a learning-rate schedule; pass a learning_rate, too")
    return _scheduled(keras, float(rate) * optimization.learning_rate_factor, optimization, steps)


def _scheduled(keras, rate, optimization, steps):
    """Returns `rate`, or a schedule whose highest rate is `rate`."""
    schedules, warmup = keras.optimizers.schedules, optimization.warmup_steps or 0
    if optimization.schedule == "cosine":
        return schedules.CosineDecay(0.0, steps - warmup, warmup_target=rate, warmup_steps=warmup)
    if optimization.schedule == "one_cycle":
        warmup = warmup or round(_RISE_OF_ONE_CYCLE * steps)
        return schedules.CosineDecay(
            rate * _FIRST_OF_ONE_CYCLE, steps - warmup, _LAST_OF_ONE_CYCLE, warmup_target=rate, warmup_steps=warmup
        )
    if optimization.schedule == "step":
        falling = schedules.PiecewiseConstantDecay([steps // 2, 3 * steps // 4], [rate, rate / 10, rate / 100])
        if not warmup:
            return falling
        return _beginning(keras)(falling, warmup_steps=warmup)
    if not warmup:
        return rate
    return schedules.PolynomialDecay(0.0, warmup, rate)


@functools.cache
def _beginning(keras):
    """Returns the class of schedules that change how another begins, for this version of Keras, whose base it has."""

    @keras.saving.register_keras_serializable("estimator_train")
    class Beginning(keras.optimizers.schedules.LearningRateSchedule):
        """The rates of `schedule` from `first_step` on, scaled to rise linearly from 0 during the `warmup_steps`."""

        def __init__(self, schedule, first_step=0, warmup_steps=0):
            self.schedule = schedule
            self.first_step = first_step
            self.warmup_steps = warmup_steps

        def __call__(self, step):
            step = tf.maximum(tf.cast(step, tf.int64) - self.first_step, 0)
            if not self.warmup_steps:
                return self.schedule(step)
            risen = tf.cast(step, tf.float32) / self.warmup_steps
            return self.schedule(step) * tf.minimum(risen, 1.0)

        def get_config(self):
            return {**vars(self), "schedule": keras.optimizers.schedules.serialize(self.schedule)}

        @classmethod
        def from_config(cls, config):
            return cls(**config | {"schedule": keras.optimizers.schedules.deserialize(config["schedule"])})

    return Beginning


def _smoothed(keras, loss, label_smoothing):
    name = getattr(loss, "__name__", loss)  # the loss may be one of Keras' functions
    if isinstance(name, str) and name in _SMOOTHING_LOSSES:
        loss = getattr(keras.losses, _SMOOTHING_LOSSES[name])()
    config = loss.get_config() if isinstance(loss, keras.losses.Loss) else {}
    if "label_smoothing" not in config:
        raise ValueError(
            f"label_smoothing is for categorical and binary cross-entropy, and the model is compiled with {loss!r}; "
            "leave it out"
        )
    return type(loss).from_config(config | {"label_smoothing": label_smoothing})
