"""Stand-ins for the modules of tf.contrib that Estimator code used, a file each. Signatures are TensorFlow 1.15's."""
