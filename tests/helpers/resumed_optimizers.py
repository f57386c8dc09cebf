"""Trains a model with optimizers of both Kerases: `resumed_optimizers.py FOLDER` for 6 steps, saving step 3 too.

`resumed_optimizers.py FOLDER resume` continues each of them from its step 3, and prints a line for each one whose
weights after 6 steps differ from those of the unbroken training or from those of Keras' fit.
"""

import shutil
import sys
from pathlib import Path

import estimator_train as et

# isort: split
import keras as keras3
import numpy as np
import tensorflow as tf
import tf_keras

_X = np.random.RandomState(0).normal(size=(48, 5)).astype("float32")
_EMA = {"use_ema": True, "ema_momentum": 0.8}
# These keep more than one slot for each weight, or have options that keep values or change gradients. What others keep
# is in their checkpoints, as tests/_engine/keras/test_adapter.py shows, and is restored in the same way.
_OPTIONS = {
    "SGD": {"momentum": 0.9, "nesterov": True, "global_clipnorm": 0.5},
    "Adam": {"amsgrad": True, "clipvalue": 0.1, "ema_overwrite_frequency": 2, **_EMA},
    "Adafactor": {},
}
_SCHEDULED = {"clipnorm": 1.0, "weight_decay": 0.01, **_EMA}
_LEGACY = {"SGD": {"momentum": 0.9, "decay": 0.1, "clipnorm": 0.5}, "Nadam": {}}


def cases(keras):
    """Yields (a name, a function that returns an optimizer)."""
    optimizers, schedules = keras.optimizers, keras.optimizers.schedules
    for name, options in _OPTIONS.items():
        yield name, lambda name=name, options=options: getattr(optimizers, name)(0.02, **options)
    staircase = schedules.ExponentialDecay(0.05, 2, 0.5, staircase=True)
    yield "staircase", lambda: optimizers.Nadam(staircase, **_SCHEDULED)
    scaled = keras3.optimizers if keras is keras3 else keras.mixed_precision
    options = {"initial_scale": 2.0**14, "dynamic_growth_steps": 2}
    yield "scaled", lambda: scaled.LossScaleOptimizer(optimizers.Nadam(0.01), **options)
    if keras is tf_keras:
        for name, options in _LEGACY.items():
            yield f"legacy{name}", lambda name=name, options=options: getattr(optimizers.legacy, name)(0.02, **options)
    else:
        for name in ("Muon", "ScheduleFreeAdamW"):
            if hasattr(optimizers, name):  # newer than the oldest Keras
                yield name, lambda name=name: getattr(optimizers, name)(0.02)
        yield "accumulating", lambda: optimizers.Adam(0.02, gradient_accumulation_steps=2)


def model_with(keras, optimizer):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(1)])
    model.compile(optimizer, "mse")
    return model


def input_fn():
    return tf.data.Dataset.from_tensor_slices((_X, _X.sum(1, keepdims=True) + 1)).batch(8)


def train(keras, make, folder):
    """Returns the variables of the last checkpoint, and the weights."""
    model = model_with(keras, make())
    config = et.RunConfig(folder, tf_random_seed=5, resume_input=True, save_checkpoints_steps=3)
    estimator = et.model_to_estimator(model, config=config)
    estimator.train(input_fn, max_steps=6)
    path = estimator.latest_checkpoint()
    tf.train.Checkpoint(model).read(path).expect_partial()
    return variables(path), model.get_weights()


def variables(path):
    reader = tf.train.load_checkpoint(path)
    names = [name for name in reader.get_variable_to_shape_map() if name.endswith("/.ATTRIBUTES/VARIABLE_VALUE")]
    return {name: reader.get_tensor(name) for name in names if not name.startswith("save_counter/")}


def check(keras, case, make, folder):
    """Prints how the training that continues from step 3 of the one in `folder` differs from it."""
    whole = variables(folder / "model.ckpt-6")
    halves = folder.with_name(f"{case}-halves")
    shutil.copytree(folder, halves, ignore=shutil.ignore_patterns("model.ckpt-6.*"))
    tf.compat.v1.train.update_checkpoint_state(halves, str(halves / "model.ckpt-3"))
    resumed, weights = train(keras, make, halves)
    if resumed.keys() != whole.keys():
        print(case, "resumes with other variables")
    if different := [key for key in whole if not np.array_equal(resumed[key], whole[key])]:
        print(case, "resumes with other numbers:", *different)
    model = model_with(keras, make())
    model.run_eagerly = True
    model.optimizer.finalize_variable_values = lambda variables: None  # fit ends with the moving averages
    model.fit(input_fn(), verbose=0, shuffle=False)
    pairs = zip(weights, model.get_weights(), strict=True)
    if not all(np.allclose(one, other, rtol=0, atol=1e-6) for one, other in pairs):
        print(case, "has other numbers than fit")
    print(case, "done", file=sys.stderr)


def main(folder, resume=False):
    for keras in (tf_keras, keras3):
        for name, make in cases(keras):
            case = f"{keras.__name__}-{name}"
            if resume:
                check(keras, case, make, Path(folder, case))
            else:
                train(keras, make, Path(folder, case))


if __name__ == "__main__":
    main(*sys.argv[1:])
