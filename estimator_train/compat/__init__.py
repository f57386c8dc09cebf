"""The names of tf.estimator and of TensorFlow 1."""
