"""Grad-CAM: shows which parts of an image a classifier takes as evidence for a class."""

import numpy as np
import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.application import layer_calls


def grad_cam(model: keras.Model, images: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Computes for each image a map of the evidence for a class (https://arxiv.org/abs/1610.02391).

    The map is the model's last feature map with a height and a width, weighted by its mean gradients. Values are in
    [0, 1], and all 0 if there is no evidence for the class.

        maps = grad_cam(model, images, model.predict(images).argmax(axis=1))

    Args:
      model: a functional or Sequential tf_keras classifier whose only output are probabilities. Do not use the model
        afterwards: its layers may have been called again.
      images: the model's input, of shape (examples, height, width, channels).
      classes: class indices, of shape (examples,).

    Returns floats of shape (examples, height, width). Raises ValueError for models without such a feature map.
    """
    within = layer_calls(model, "Grad-CAM")
    if within is None:
        raise ValueError(f"{model.name} is not a functional or Sequential model of tf_keras")
    calls, outputs = within
    maps = [call.outputs for call in calls if _is_feature_map(call.outputs)]
    if not maps or len(outputs) != 1:
        raise ValueError(f"{model.name} has no feature map with a height and a width, or has several outputs")
    cut = keras.Model(model.inputs, [maps[-1], outputs[0]])
    images = tf.convert_to_tensor(images)
    with tf.GradientTape() as tape:
        tape.watch(images)  # otherwise frozen layers are not recorded
        features, predicted = cut(images, training=False)
        score = tf.math.log(_of_classes(predicted, classes) + keras.backend.epsilon())
    weights = tf.reduce_mean(tape.gradient(score, features), axis=(1, 2), keepdims=True)
    heat = tf.nn.relu(tf.reduce_sum(weights * features, axis=-1)).numpy().astype(float)
    return heat / np.maximum(heat.max(axis=(1, 2), keepdims=True), np.finfo(np.float32).tiny)


def _is_feature_map(outputs):
    shape = getattr(outputs, "shape", None)  # an output may be a structure
    return shape is not None and shape.rank == 4 and None not in shape[1:3] and min(shape[1:3]) > 1


def _of_classes(predicted, classes):
    """Returns the probability of each example's class; a sigmoid output is the probability of the second of two."""
    if predicted.shape[-1] == 1:
        return tf.where(np.equal(classes, 1), predicted[:, 0], 1 - predicted[:, 0])
    return tf.gather(predicted, classes, axis=1, batch_dims=1)
