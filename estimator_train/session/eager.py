"""Eager mode from inside a v1 graph."""

from __future__ import annotations

import tensorflow as tf

# Inside a v1 graph tf.init_scope() does not get back to eager mode; this does, and nothing public does.
eager_mode = tf.__internal__.eager_context.eager_mode
