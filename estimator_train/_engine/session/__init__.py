"""Compiled steps behind the interface of tf.compat.v1.Session, and the private names of TensorFlow and Keras."""
