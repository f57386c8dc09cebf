"""tf.estimator.experimental's names."""

from estimator_train.export import build_raw_supervised_input_receiver_fn

__all__ = ["build_raw_supervised_input_receiver_fn"]
