"""TensorFlow Privacy's canned Estimators, and its optimizer for differential privacy in a model_fn."""

import numpy as np
import tensorflow as tf
from tensorflow_privacy.privacy.estimators import dnn
from tensorflow_privacy.privacy.estimators.v1 import dnn as dnn_v1
from tensorflow_privacy.privacy.estimators.v1 import linear as linear_v1
from tensorflow_privacy.privacy.optimizers import dp_optimizer

from benchmarks.clients.case import from_arrays

v1 = tf.compat.v1
COLUMNS = [tf.feature_column.numeric_column("x", shape=2)]


def cases():
    return {
        "DNNClassifier": lambda folder: classes(
            dnn.DNNClassifier(
                [4], COLUMNS, n_classes=3, optimizer=tf.keras.optimizers.legacy.SGD(0.1), config=config(folder)
            )
        ),
        "v1.DNNClassifier": lambda folder: classes(
            dnn_v1.DNNClassifier(
                [4], COLUMNS, n_classes=3, optimizer=v1.train.GradientDescentOptimizer(0.1), config=config(folder)
            )
        ),
        "v1.LinearClassifier": lambda folder: classes(
            linear_v1.LinearClassifier(COLUMNS, n_classes=3, optimizer="Ftrl", config=config(folder))
        ),
        "DPGradientDescentGaussianOptimizer": lambda folder: classes(
            tf.estimator.Estimator(private_model_fn, config=config(folder))
        ),
    }


def private_model_fn(features, labels, mode):
    logits = v1.layers.dense(features["x"], 3)
    predictions = {"probabilities": tf.nn.softmax(logits)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        outputs = {"predict": tf.estimator.export.PredictOutput(predictions)}
        return tf.estimator.EstimatorSpec(mode, predictions, export_outputs=outputs)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels[:, 0], logits)
    optimizer = dp_optimizer.DPGradientDescentGaussianOptimizer(
        l2_norm_clip=1.0, noise_multiplier=0.1, num_microbatches=8, learning_rate=0.1
    )
    train_op = optimizer.minimize(losses, global_step=v1.train.get_global_step())  # one loss per example
    return tf.estimator.EstimatorSpec(mode, predictions, tf.reduce_mean(losses), train_op)


def config(folder):
    return tf.estimator.RunConfig(model_dir=folder, tf_random_seed=1)


def classes(estimator):
    x = np.random.RandomState(1).rand(32, 2).astype(np.float32)
    return from_arrays(estimator, {"x": x}, (x.sum(1, keepdims=True) * 1.5).astype(np.int32), batch_size=8, steps=12)
