"""The old module `canned.optimizers`: creates optimizers by name."""

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.graph import optimizers
from estimator_train.canned.api_versions import ApiV1, ApiV2


def get_optimizer_instance(opt, learning_rate=None):
    """Returns a v1 optimizer, given as an optimizer, a function that returns one, or a name, which needs a rate.

    get_optimizer_instance("Adam", learning_rate=0.01)
    """
    if isinstance(opt, str):
        make = ApiV1.optimizer_class(opt)
        if learning_rate is None:
            raise ValueError(f"learning_rate must be specified when opt is string, given: {opt!r}")
        return make(learning_rate)
    made = opt() if callable(opt) else opt
    if not isinstance(made, tf.compat.v1.train.Optimizer):
        raise ValueError(f"The given object is not an Optimizer instance. Given: {made}")
    return made


def get_optimizer_instance_v2(opt, learning_rate=None):
    """Returns a legacy Keras optimizer, given as a name, an optimizer or a function that returns one.

    A new Keras optimizer is replaced by its legacy twin; a ValueError says which of its settings the twin lacks.
    """
    if isinstance(opt, str):
        make = ApiV2.optimizer_class(opt)
        return make() if learning_rate is None else make(learning_rate)
    made = opt
    if callable(opt) and not isinstance(opt, keras.optimizers.legacy.Optimizer):
        made = opt()
    if not isinstance(made, (keras.optimizers.Optimizer, keras.optimizers.legacy.Optimizer)):
        raise ValueError(f"The given object is not a tf.keras.optimizers.Optimizer instance. Given: {made}")
    return optimizers._as_legacy(made)
