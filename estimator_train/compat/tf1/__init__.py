"""Runs scripts written for TensorFlow 1: makes `import tensorflow as tf` give them TF 1's names."""

import importlib
import sys

from estimator_train.compat import drop_in
from estimator_train.compat.drop_in import names
from estimator_train.compat.drop_in.private_tensorflow import deprecation


def install() -> None:
    """Makes later imports of `tensorflow` return TensorFlow 1's names, including tf.estimator and tf.contrib.

    The module has the names of `tf.compat.v1`, plus those names of TensorFlow 2 that it lacks. TensorFlow 2 behavior is
    disabled, and `tf.estimator` and `tf.keras.estimator` are set up as by `estimator_train.install()`. This package and
    tf_keras still get TensorFlow 2. Calling it again does nothing.

        import estimator_train.install_tf1
        import tensorflow as tf

        optimizer = tf.train.AdamOptimizer()

    Raises ValueError if TensorFlow has already been used, so its TensorFlow 2 behavior can no longer be disabled.
    """
    if "tensorflow.contrib" in sys.modules:
        return
    drop_in.install()
    import tensorflow as tf

    # These need the drop-in.
    from estimator_train.compat.tf1 import contrib_modules, merged_tensorflow, private_tensorflow, tensorflow_2

    with deprecation().silence():  # authors of TF 1 scripts cannot act on its warning
        tf.compat.v1.disable_v2_behavior()
    private_tensorflow.use_data_of_tf1()
    for path in names.MODULES:
        if path.startswith("tensorflow.compat.v1.estimator"):
            sys.modules[path.replace("compat.v1.", "")] = importlib.import_module(path)
    tensorflow_2.keep_for(["estimator_train", "tf_keras", "keras"])
    contrib_modules.install()
    merged_tensorflow.install()
    private_tensorflow.use_tf_keras()
