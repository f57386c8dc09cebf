"""The adapter for models of tf_keras, which is Keras 2."""
