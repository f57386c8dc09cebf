"""The part of tf.contrib.learn that trains a tf.estimator: Experiment and learn_runner."""
