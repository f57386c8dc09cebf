"""Losses after ten steps, as TensorFlow 2.15.1 with its own tf.estimator computes them.

Measured there on the same examples and columns, with the initial values of `initial_values`, on one CPU.
"""

import pytest

EMBEDDING = "dnn/input_from_feature_columns/input_layer/c_embedding/embedding_weights"
DNN = {
    EMBEDDING: (3, 2),
    "dnn/hiddenlayer_0/kernel": (10, 4),
    "dnn/hiddenlayer_0/bias": (4,),
    "dnn/hiddenlayer_1/kernel": (4, 3),
    "dnn/hiddenlayer_1/bias": (3,),
    "dnn/logits/kernel": (3, 1),
    "dnn/logits/bias": (1,),
}
BATCH_NORM = {
    "dnn/hiddenlayer_0/batchnorm_0/beta": (4,),
    "dnn/hiddenlayer_0/batchnorm_0/gamma": (4,),
    "dnn/hiddenlayer_1/batchnorm_1/beta": (3,),
    "dnn/hiddenlayer_1/batchnorm_1/gamma": (3,),
}
LINEAR = {
    "linear/linear_model/a/weights": (2, 1),
    "linear/linear_model/b_bucketized/weights": (3, 1),
    "linear/linear_model/b_bucketized_X_c/weights": (5, 1),
    "linear/linear_model/bias_weights": (1,),
    "linear/linear_model/c/weights": (3, 1),
}


def generations(slow):
    """Both generations; one is marked slow, because other tests also check its values."""
    cases = [pytest.param(name, marks=[pytest.mark.slow] if name == slow else []) for name in ("v2", "v1")]
    return pytest.mark.parametrize("generation", cases, indirect=True)


def loss(estimator, input_fn):
    estimator.train(input_fn, steps=10)
    return estimator.evaluate(input_fn, steps=2)["loss"]


def expected(generation, v2_loss, v1_loss):
    return pytest.approx(v1_loss if generation.is_v1 else v2_loss, rel=1e-5)
