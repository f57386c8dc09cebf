"""Third-party packages that use tf.estimator, run on TensorFlow 2.15 and with the drop-in."""
