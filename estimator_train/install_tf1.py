"""Makes `import tensorflow` mean TensorFlow 1 for the rest of the program, on import of this module."""

from estimator_train.compat import tf1

tf1.install()
