"""Compiled steps behind the interface of tf.compat.v1.Session, and what TensorFlow and Keras keep private."""
