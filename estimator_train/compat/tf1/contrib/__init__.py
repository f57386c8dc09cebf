"""Replaces the modules of tf.contrib that Estimator code used, one per file, with TensorFlow 1.15's signatures."""
