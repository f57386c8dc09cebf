"""TensorFlow 1 for the scripts that were written for it: `import tensorflow as tf` gives them TF 1's names."""

from __future__ import annotations

import importlib
import sys

from estimator_train import drop_in
from estimator_train.drop_in import names


def install() -> None:
    """Makes the module `tensorflow` that is imported from now on TensorFlow 1's, tf.estimator and tf.contrib included.

    It has the names of `tf.compat.v1`, and where that has none, TensorFlow 2's. TensorFlow 2's behaviour is switched
    off, and `tf.estimator` and `tf.keras.estimator` are those of `estimator_train.install()`. This package and tf_keras
    keep TensorFlow 2. A second call does nothing.

        import estimator_train.install_tf1
        import tensorflow as tf

        optimizer = tf.train.AdamOptimizer()

    Raises:
      ValueError: from TensorFlow, when it has been used already, too late to switch the behaviour off.
    """
    if "tensorflow.contrib" in sys.modules:
        return
    drop_in.install()
    import tensorflow as tf

    from estimator_train.tf1 import contrib_modules, merged_tensorflow, tensorflow_2  # these need the drop-in

    _disable_v2_behavior(tf)
    for path in names.MODULES:
        if path.startswith("tensorflow.compat.v1.estimator"):
            sys.modules[path.replace("compat.v1.", "")] = importlib.import_module(path)
    tensorflow_2.keep_for(["estimator_train", "tf_keras", "keras"])
    contrib_modules.install()
    merged_tensorflow.install()


def _disable_v2_behavior(tf):
    """Does so without TensorFlow's warning that variables of v1 will go one day: a script of TF 1 cannot mend it."""
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel("ERROR")
    try:
        tf.compat.v1.disable_v2_behavior()
    finally:
        logger.setLevel(level)
