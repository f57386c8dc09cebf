"""`import estimator_train.install_tf1` gives a TF 1 program the `tensorflow` it was written for."""

from estimator_train import tf1

tf1.install()
