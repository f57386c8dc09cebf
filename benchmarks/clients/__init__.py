"""Packages of others that train through tf.estimator, on TensorFlow 2.15 and through the drop-in."""
