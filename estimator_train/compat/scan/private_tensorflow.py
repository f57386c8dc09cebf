"""Where TensorFlow and tf_keras keep what they export: paths of modules, which scan reads as files.

Any release may change them: then a name that works is said to be absent, and the tests of `lookup` fail.
"""

from estimator_train._engine.libraries import private_names_of

API = "tensorflow._api.v2"
# An extension that has no names, though tensorflow.python.pywrap_tensorflow imports * from it, as TensorFlow 1 did.
WITHOUT_NAMES = "tensorflow.python._pywrap_tensorflow_internal"


@private_names_of("tf_keras")
def keras_module(mode: str = "v2", submodule: str = "") -> str:
    """Returns the module that TensorFlow's KerasLazyLoader of this mode leads to, with tf_keras as Keras.

    >>> keras_module("v1", "__internal__.legacy.layers")
    'tf_keras.api._v1.keras.__internal__.legacy.layers'
    """
    return ".".join(filter(None, ["tf_keras.api", f"_{mode}", "keras", submodule]))
