"""Watches a script for habits that mean something else here, and says so where it has them.

Each line is logged once, as a warning, and names the page that says more.
"""

import functools
import inspect
import re
import traceback
from collections.abc import Callable
from typing import Any

from estimator_train._engine import libraries

_LIBRARIES = {"estimator_train", "tensorflow", "tf_keras", "keras"}
ADDONS = "tensorflow_addons"
INSTEAD_OF_ADDONS = f'{ADDONS} ended with TensorFlow 2.15; see "Instead of {ADDONS}" in docs/migrating.md'
OLD_ARGUMENTS = 'see "Keras optimizers in older scripts" in docs/migrating.md'


def watch(replicas: int | None = None) -> None:
    """Wraps the names of TensorFlow and tf_keras whose use may deserve a line. Call it before `install`.

    `replicas` is the number of CPU replicas that stand in for missing GPUs, if any.
    """
    import tensorflow as tf

    if hasattr(tf, "estimator"):  # TensorFlow 2.15 or older, which install leaves alone
        return
    import tf_keras as keras

    warn = functools.cache(tf.get_logger().warning)
    if line := libraries.untried_pair():
        warn(line)
    _watch_learning_rates(keras, warn)
    _watch_devices(tf, warn)
    if replicas:
        _watch_questions_for_gpus(tf, warn, replicas)


def remedy(error: BaseException, command: str | None) -> str | None:
    """Returns a line on how to mend the error that ends a script, or None.

        >>> from estimator_train.compat import doctor
        >>> doctor.remedy(ModuleNotFoundError(name="tensorflow_addons"), None)
        'tensorflow_addons ended with TensorFlow 2.15; see "Instead of tensorflow_addons" in docs/migrating.md'

    `command` runs the script with TensorFlow 1's names; None means that it already has them.
    """
    frames = traceback.walk_tb(error.__traceback__)
    modules = {frame.f_globals.get("__name__", "").partition(".")[0] for frame, _ in frames}
    if ADDONS in modules or (isinstance(error, ImportError) and (error.name or "").startswith(ADDONS)):
        return INSTEAD_OF_ADDONS
    if isinstance(error, ValueError) and "as_list() is not defined on an unknown TensorShape" in str(error):
        return (
            'Keras reads from the shape of the labels what metrics=["acc"] means: give from_generator an '
            'output_signature, or name the metric, such as "sparse_categorical_accuracy"; see docs/keras.md'
        )
    if command and isinstance(error, (AttributeError, ImportError)):
        from estimator_train.compat.tf1.missing_name import name_of_tf1

        if name := name_of_tf1(error):
            return f"{name} belongs to TensorFlow 1; try: {command}"
    return None


def _watch_learning_rates(keras: Any, warn: Callable[[str], None]) -> None:
    def look(optimizer: Any, *_: Any, **arguments: Any) -> None:
        if rate := arguments.get("lr"):
            name = f"{type(optimizer).__name__}(lr={rate})"
            warn(f"{name} is trained with the default learning rate: write learning_rate={rate}; {OLD_ARGUMENTS}")

    _call_before(keras.optimizers.Optimizer, "__init__", look)


def _watch_devices(tf: Any, warn: Callable[[str], None]) -> None:
    named, replicas = [], []

    def judge() -> None:
        if named and replicas:
            warn(
                f"tf.device({named[0]!r}) with {replicas[0]} replicas: around the model or train it has no effect, and "
                "in a model_fn or layer it moves the operations of all replicas to one device; remove it, see "
                '"GPUs of one machine" in docs/distribution.md'
            )

    def look_at_device(device: Any = None, *_: Any, **__: Any) -> None:
        if _is_called_by_script() and isinstance(device, str) and re.search("gpu", device, re.IGNORECASE):
            named.append(device)
            judge()

    def look_at_strategy(strategy: Any) -> None:
        if strategy.num_replicas_in_sync > 1:
            replicas.append(strategy.num_replicas_in_sync)
            judge()

    for version in (tf, tf.compat.v1):
        _call_before(version, "device", look_at_device)
        _call_after(version.distribute.MirroredStrategy, "__init__", look_at_strategy)


def _watch_questions_for_gpus(tf: Any, warn: Callable[[str], None], replicas: int) -> None:
    def look(*arguments: Any, **named: Any) -> None:
        asks = "GPU" in (*arguments, *named.values()) and _is_called_by_script()
        if asks and not tf.config.get_visible_devices("GPU"):
            warn(
                "the script asks which GPUs there are, and there are none. If it creates its strategy only if it finds "
                f'some, the {replicas} replicas are not used; see "Your own programs" in docs/command.md'
            )

    for version in (tf, tf.compat.v1):
        for module in (version.config, version.config.experimental):
            for name in ("list_physical_devices", "list_logical_devices"):
                _call_before(module, name, look)


def _is_called_by_script() -> bool:
    """Returns whether the function that a wrapper looks at was called by none of the libraries that use it, too."""
    callers = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_stack(inspect.currentframe()))
    return next(name for name in callers if name != __name__).partition(".")[0] not in _LIBRARIES


def _call_before(owner: Any, name: str, look: Callable[..., None]) -> None:
    function = getattr(owner, name)

    @functools.wraps(function)
    def looked_at(*args: Any, **kwargs: Any) -> Any:
        look(*args, **kwargs)
        return function(*args, **kwargs)

    setattr(owner, name, looked_at)


def _call_after(owner: Any, name: str, look: Callable[[Any], None]) -> None:
    function = getattr(owner, name)

    @functools.wraps(function)
    def looked_at(self: Any, *args: Any, **kwargs: Any) -> None:
        function(self, *args, **kwargs)
        look(self)

    setattr(owner, name, looked_at)
