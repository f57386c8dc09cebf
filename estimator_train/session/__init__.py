"""Compiled steps behind the interface of tf.compat.v1.Session: a private room."""
